# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Which design should you use?
#
# ```{at-a-glance}
# :needs: what a design is (chapter 1), and the names of the methods (chapters 2, 6 and 9)
# ```
#
# You have a federation to run, and every method of this book promises a better model. Which one should you take, and when does it matter at all?

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of the gains exchanged at random
device: str = "auto"  # auto, cpu or cuda

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Markdown, display
from myst_nb import glue

from companion import chapters, check
from companion.pages import plots, which
from companion.pages.prose import say, table
from companion.runs import one_rounds, protocol, tables

s = chapters.settings("10_which_design", globals())
plots.style()
known = protocol.read()
assert len(known["mnist"].arms) == 13 + 1 + 1  # as the text below says

# %% tags=["remove-input"]
places = which.read(known)
deciding = [place for name, place in places.items() if name != which.TRIAL]
main = deciding or list(places.values())
ten = [place for place in main if not place.setting.rates_of] or main
nothing = "Nothing is recorded yet: `fedstas arena --setting mnist` begins."
say("ch10", **which.front(places))
Markdown(which.answer(main))

# %% [markdown]
# ```{provenance} The answer
# :recorded: which-design
# ```
#
# Up to here all methods used the learning rate of the preprint, 0.01. At that rate whoever makes the longest step wins. They were also compared by
# rounds, which hides what a round sends. This chapter tunes each method alike and compares at equal megabytes. You will see
#
# - how many points each design gains on plain MD sampling, and what these points cost;
# - what is left of the gains of chapters 5 and 9;
# - whether the error of one round, which is cheap to measure, tells you beforehand;
# - how to put a design of your own into the same table.
#
# ## What was compared?
#
# Thirteen ways to choose clients, one server that remembers updates, and all clients at once. All start from the same model on the same clients and take
# the same local steps. Only the learning rate is each method's own. It was chosen on seeds that serve nothing else, and other seeds decide. Rules and
# reasons stand in the {doc}`../protocol`, which was committed before the runs. These settings are recorded so far:

# %% tags=["remove-input"]
table(which.state(known, places))

# %% [markdown]
# ```{provenance} Table
# :recorded: which-design
# ```
#
# ## What is an accuracy at equal megabytes?
#
# A learning curve is followed until the budget is spent. Single rounds of unlike clients differ by points, so we take the mean over the last tenth of
# the budget. Then the difference to MD is formed seed by seed, since both saw the same clients from the same start. In code, for one cell of the table:

# %%
from scipy import stats


def at_budget(run, megabytes, classes=10):
    """Accuracy in per cent over the last tenth of a budget; before round 1 a run guesses."""
    x, y = np.append(0, run["megabytes"]), np.append(1 / classes, run["test_accuracy"])
    return 100 * np.interp(np.linspace(0.9 * megabytes, megabytes, 101), x, y).mean()


def gain(rows, design, megabytes):
    """Mean paired difference to MD with its 95 % interval, in points."""
    runs = rows[~rows["ended"]].groupby(["arm", "seed"])
    each = pd.Series({key: at_budget(run, megabytes) for key, run in runs})
    pairs = (each[design] - each["md"]).dropna()
    half = stats.t.ppf(0.975, len(pairs) - 1) * pairs.sem()
    return pairs.mean(), pairs.mean() - half, pairs.mean() + half


# %% tags=["remove-input"]
one = next((place for place in main if "clustered-size" in place.arms), None)
said = nothing
if one is not None:
    budget = one.setting.megabytes[0]
    mine, theirs = gain(one.rows, "clustered-size", budget), one.gain("clustered-size", "small")
    if not one.rows[
        "ended"
    ].any():  # ours leaves out what diverged, the package counts it as a guess
        np.testing.assert_allclose(mine, theirs[["gain", "low", "high"]].astype(float), atol=1e-9)
    said = f"Clustered sampling by size on {one.says}, at {budget:g} MB: {tables.span(*mine, '+.1f')} points."
Markdown(said)

# %% [markdown]
# The package has this as `protocol.spent` and `protocol.gains`; the numbers are the same.
#
# A verdict needs a difference that would matter. The protocol says one point. A design *is better* where its whole interval lies above one point, and *is worse* where
# it lies below minus one. It *is no worse* where it lies above minus one. Otherwise *we do not know*.
#
# ## How many points does each design gain?

# %% tags=["remove-cell"]
fig = which.remembered(ten) if ten else plots.not_recorded(nothing)
glue("ch10_remembered", fig, display=False)
other = [place for place in main if place.setting.rates_of]
later = "Not recorded yet: `fedstas arena --setting mnist-m5` begins."
fig = which.remembered(other) if other and ten != other else plots.not_recorded(later)
glue("ch10_participants", fig, display=False)
fig = which.learning(ten) if ten else plots.not_recorded(nothing)
glue("ch10_learning", fig, display=False)
fig = which.rates(ten) if ten else plots.not_recorded(nothing)
glue("ch10_rates", fig, display=False)
plt.close("all")

# %% [markdown]
# ```{glue:figure} ch10_remembered
# :name: fig-ch10-remembered
# :alt: One panel a setting, one row a design, and points above MD sampling on a common axis. Full dots with intervals stand for the larger budget, hollow ones for the smaller. A grey band marks differences of less than a point. All clients together lie far to the left, where a number stands at the edge instead of a dot.
#
# Points above MD sampling at equal megabytes, each design at its own best learning rate: means over seeds with 95 % intervals. Grey: less than a point. A number at the
# edge lies outside.
# ```
#
# ```{provenance} Figure
# :recorded: which-design
# ```
#
# Counted over the settings that decide, at both budgets:

# %% tags=["remove-input"]
Markdown(which.kinds(main) or nothing)

# %% [markdown]
# ## What does each cell rest on?
#
# The best at the larger budget comes first. A rate with † lies at an end of the rates that were tried; with ‡ some rates are still missing. *p* is Holm's, corrected for all designs
# and both budgets of a setting. The verdict is by the interval alone, as the protocol says.

# %% tags=["remove-input"]
for place in ten:
    display(Markdown(f"**{place.says}**"), table(which.table_of(place)))
if not ten:
    display(Markdown(nothing))

# %% [markdown]
# ```{provenance} Table
# :recorded: which-design
# ```
#
# The other settings: fewer and more participants, and the digits.

# %% tags=["remove-input", "hide-output"]
for place in (each for each in places.values() if each not in ten):
    display(Markdown(f"**{place.says}**"), table(which.table_of(place)))

# %% [markdown]
# ```{provenance} Table
# :recorded: which-design
# ```
#
# The secondary outcomes, setting by setting. The goal is what MD has at the smaller budget. Examples are those that the larger budget pays for.

# %% tags=["remove-input", "hide-output"]
for place in places.values():
    display(Markdown(f"**{place.says}**"), table(which.second_table(place)))

# %% [markdown]
# ```{provenance} Table
# :recorded: which-design
# ```

# %% tags=["remove-input"]
decided, strict = which.strict(main)
Markdown(
    f"Of the {decided} comparisons that are better or worse by their interval, {strict} have a Holm p below 0.05."
)

# %% [markdown]
# So where that second number is much smaller than the first, read a single cell with care. The pattern over settings says more.
#
# ## Does it depend on how many you ask?
#
# With five participants a round is cheap and noisy, with twenty it is neither. Budgets grow with the number of participants, so that MD always
# has about 75 and 300 rounds. The rates are those of ten participants.
#
# ```{glue:figure} ch10_participants
# :name: fig-ch10-participants
# :alt: The same kind of panels as before for settings with five and twenty participants, or a line that says that these are not recorded yet.
#
# As {numref}`fig-ch10-remembered`, with five and with twenty participants.
# ```
#
# ```{provenance} Figure
# :recorded: which-design
# ```
#
# ## What do the learning curves look like?
#
# ```{glue:figure} ch10_learning
# :name: fig-ch10-learning
# :alt: One panel a setting with accuracy on the global test set over megabytes sent and received, a curve with a band for each of the designs of the first figure and for MD, from a quarter of the smaller budget to the larger one. Dotted lines mark the budgets.
#
# Accuracy on the global test set over megabytes, tuned: means with 95 % bands over seeds. Dotted: the budgets.
# ```
#
# ```{provenance} Figure
# :recorded: which-design
# ```
#
# A vertical distance is a gain at a budget. A horizontal one is what a design saves until a goal. Where curves flatten, a small vertical distance can be a long horizontal one:
# look at both before you pay for either.
#
# ## How much does the learning rate do?
#
# ```{glue:figure} ch10_rates
# :name: fig-ch10-rates
# :alt: One panel a setting with accuracy at the larger budget over the learning rate on a logarithmic axis, a curve for each design and a dot at its best rate. All curves rise from the left, where the rate is 0.01, to their best rates.
#
# Accuracy at the larger budget over the learning rate, on the seeds of tuning. A dot marks each design's best rate.
# ```
#
# ```{provenance} Figure
# :recorded: which-design
# ```

# %% tags=["remove-input"]
lines = [
    f"- {place.says}: at rate 0.01 MD has {100 * row[0.01]:.1f} %, at its best rate, {row.idxmax():g}, {100 * row.max():.1f} %."
    for place in ten
    for row in [place.tried.loc["md"].dropna()]
    if 0.01 in row.index
]
Markdown("\n".join(lines) or nothing)

# %% [markdown]
# Tuning one number is worth more than any choice of clients where the first of these numbers is far below the second. It also costs more than it looks: five
# runs to choose a rate are five times the megabytes of one.
#
# ## What is left of the gains of chapters 5 and 9?
#
# Those chapters compare after 99 rounds at rate 0.01. Here the same designs stand after 99 rounds with tuned rates, and beside them at equal megabytes.

# %% tags=["remove-input"]
before = which.untuned()
both = which.left(before, which.tuned_at(main, 99))
Markdown(which.told_left(both))

# %% tags=["remove-input", "hide-output"]
table(which.left_table(both, places))

# %% [markdown]
# ```{provenance} Table
# :recorded: which-design, preprint, fashion-mnist, sensitivity, least-variance
# ```
#
# Two things differ between the columns besides the rate. As-written methods asked all clients in each round then, and keep their strata for ten rounds here. And the seeds
# are others.
#
# ## Does the error of one round explain the gains?
#
# Chapter 9 measures one round: all clients train, a design draws, and its weighted sum is held against that of all clients. If this error decided how well a design learns, nobody would
# have to train at all to choose one.

# %% tags=["remove-cell"]
error = one_rounds.summary(one_rounds.load())
untuned = protocol.beside_one_round(before, error)
tuned = protocol.beside_one_round(which.tuned_at(main, 99), error)
panels = {"rate 0.01, 99 rounds": untuned, "each tuned, 99 rounds": tuned}
fig = which.explained(panels, {name: setting.says for name, setting in known.items()})
glue("ch10_explained", fig, display=False)
plt.close(fig)

# %% [markdown]
# ```{glue:figure} ch10_explained
# :name: fig-ch10-explained
# :alt: Two panels of points above MD after 99 rounds over the error of one round on a logarithmic axis, left at the preprint's learning rate, right with tuned rates. A mark stands for a setting and a colour for a design. Left, designs with a small error gain up to seven points, and those with a larger one less or lose.
#
# Points above MD after 99 rounds over the error of one round, MD's being 1, with 95 % intervals. Left of the vertical line a design errs less than MD.
# ```
#
# ```{provenance} Figure
# :recorded: which-design, preprint, fashion-mnist, sensitivity, least-variance, one-round
# ```

# %% tags=["remove-input"]
told = [
    which.told_agreement(cells, f"**{name.capitalize()}**", s.seed)
    for name, cells in panels.items()
]
Markdown("\n".join(f"- {each}" for each in told))

# %% [markdown]
# The limits of this are plain. Cells of one setting share the runs of MD and the partitions, so they are not independent. The error is of one round from a model that MD trained at rate
# 0.01, and biased designs have an error, too, that rounds do not average away. A rank says nothing about size: half the error is not half of anything in points.
#
# ## Which one, then?
#
# Each line is made from the verdicts of its case, and links to the rows that it rests on. A design is named where it is better in every recorded setting of the case.

# %% tags=["remove-input"]
rules = [which.rule(list(places.values()), case) for case in which.GROUPS]
Markdown("\n".join(f"- {rule}" for rule in rules if rule) or nothing)

# %% [markdown]
# ```{provenance} The rule
# :recorded: which-design
# ```
#
# What the rule does not cover:
#
# - **Small networks, small images.** A perceptron with 50 hidden units on digits and garments, a small convolutional network on colour images. Larger networks send more in a round, and asking for gradients costs as much as a model.
# - **Everybody answers.** No client is ever offline. A design with one seat a stratum loses a whole stratum when its client is silent (chapter 9).
# - **Bytes, not minutes.** A round that asks all clients beforehand also waits for the slowest of them.
# - **Nobody's privacy.** Strata of gradients show the server a gradient of each client. Strata from updates do not ask for one.
# - **One number tuned.** Strata, levels and ages have their defaults. Who tunes more may gain more.
#
# ## How does your own design enter the table?
#
# Write a class with one method `draw`, as in {doc}`../teaching/project`. Then
#
# ```bash
# fedstas arena my_design.py --setting digits
# ```
#
# finds its learning rate on the seeds of tuning, trains it on those of evaluation, and prints the table with your line in it. That is fifteen short runs on embedded data, or a few more if a rate at an end of the grid wins. Without your file it
# prints what is recorded:

# %% tags=["remove-input"]
print(protocol.report({which.TRIAL: known[which.TRIAL]}, which.TRIAL))

# %% [markdown]
# ```{provenance} Table
# :recorded: which-design
# ```
#
# Fifty clients, five seeds and sixty rounds make wide intervals: a gain must be large to be seen there. The same command with `--setting mnist` takes longer and sees more.
# Any cell of the tables is a mean over runs, and any run can be made again. For example:

# %% tags=["remove-input"]
said = nothing
if main:
    shown, arm = main[0], main[0].arms[0]
    run = shown.rows[(shown.rows["arm"] == arm)].query("seed == seed.min()")
    said = f"```bash\n{which.command(shown, arm, run['seed'].iloc[0])}\n```\n\n"
    said += f"ends with an accuracy of {100 * run['test_accuracy'].iloc[-1]:.2f} % after round {run['round'].iloc[-1]}."
Markdown(said)

# %% [markdown]
# ## What was done otherwise?
#
# - **The digits** (commit e1c73a6) and **the colour images** (commit 3f35af3) were added to the protocol after its first commit, each before its own runs.
# - **The order.** Seeds 0 to 4 are made first in every setting, so that settings can be compared before all ten are there.

# %% tags=["remove-input"]
Markdown("\n".join(f"- {each}" for each in which.departures(known, places)))

# %% [markdown]
# ```{provenance} How the page was made
# ```
#
# ## What we learned
#
# - A comparison needs a currency and a tuned rate for everyone. Without them a comparison rewards long steps and dear rounds.
# - A gain has a price. Designs that ask all clients in each round pay it in rounds that they cannot run.
# - An interval that holds both a gain and a loss of one point is no answer, and we say so.
# - The rule above is computed. It changes when more runs are recorded, and each of its sentences leads to its row.
#
# ## Exercises
#
# ```{exercise-start} What an interval says
# :label: ex-ch10-verdict
# ```
# Level 1. Write `verdict(low, high)`: *better*, *no worse*, *worse* or *we do not know*, where one point matters. `check.answer("which_design/verdict", verdict)`
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch10-verdict
# :label: sol-ch10-verdict
# :class: dropdown
# ````
# The interval is held against one point and minus one point, never against 0.


# %%
def verdict(low, high):
    if low > 1:
        return "better"
    if high < -1:
        return "worse"
    return "no worse" if low > -1 else "we do not know"


check.answer("which_design/verdict", verdict)

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} Where a budget ends
# :label: ex-ch10-budget
# ```
# Level 2. Write `spent(megabytes, accuracy, budget)`: the accuracy of a run where its budget ends, if lines join the evaluations, ten classes are guessed at 0 MB, and
# a run stands still past its end. `check.answer("which_design/at-budget", spent)`
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch10-budget
# :label: sol-ch10-budget
# :class: dropdown
# ````
# `np.interp` does all three, once the guess stands in front.


# %%
def spent(megabytes, accuracy, budget):
    return float(np.interp(budget, [0, *megabytes], [0.1, *accuracy]))


check.answer("which_design/at-budget", spent)

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} The order turns round
# :label: ex-ch10-turned
# ```
# Level 3. Find two learning curves (accuracies after rounds 1, 2, …), the megabytes of a round of each, and a budget, so that the first leads after equal rounds
# and the second at equal megabytes. `check.answer("which_design/turned", ((first, second), (price, price), budget))`
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch10-turned
# :label: sol-ch10-turned
# :class: dropdown
# ````
# The first sends twice as much in a round. At 20 MB it has seen one round, the second two.

# %%
check.answer("which_design/turned", (([0.5, 0.9], [0.4, 0.8]), (20, 10), 20))

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ## Further reading
#
# {cite:t}`fraboni2021clustered` compare designs over rounds, at rates chosen for each. {cite:t}`reddi2021adaptive` tune client and server rates together and show how much that does.
# {cite:t}`li2020convergence` say what a design can change in theory: the constant, not the exponent. {cite:t}`mcmahan2017communication` counted communication first, in rounds.
