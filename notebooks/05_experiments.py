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
# # Experiments: does it help?
#
# ```{at-a-glance}
# :needs: the methods of chapters 1 to 3
# ```
#
# At the end you will know
# - which figures and numbers of the preprint can be reproduced, as its text says them and as its code ran them;
# - how FedSTaS stands beside the plain baselines that the paper leaves out, per round, per megabyte and per example;
# - which part of the corrected method helps, what it depends on, and what privacy costs.

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # the first seed of the live runs
device: str = "auto"  # auto, cpu or cuda
task: str = None  # digits, mnist, fashion-mnist, cifar10 or cifar100
clients: int = None  # number of clients
clients_per_round: int = None  # participants of a round
strata: int = None  # number of strata, H
levels: int = None  # levels of a squeezed gradient, d'
rounds: int = None  # rounds of the live runs
concentration: float = None  # of the Dirichlet partition
n_star: int = None  # requested sample of a round, n*
size_cap: int = None  # reported sizes are below it, M
epsilon: float = None  # privacy of one size report
seeds: int = None  # seeds of the live runs

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Markdown, display
from myst_nb import glue
from scipy import stats

import torch

from fedstas import aggregation, check, engine, experiments, ledger, made, methods, models
from fedstas import one_rounds, partition, plots, records, simulation, tables, tasks
from companion import chapters
from companion.claims.evidence.experiments import MATTERS, amount, one_more, within_one_more
from companion.claims.evidence.experiments_figures import explained
from companion.pages.prose import expect, paste, table
from companion.teach.exercises.experiments import FEDSTAS, FEDSTS, power

s = chapters.settings("05_experiments", globals())
plots.style()
RESULTS = "results"
SWEEPS = ("preprint", "last-bit", "mnist-0.001", "mnist-iid", "fashion-mnist", "cifar100")
SWEEPS += ("sensitivity", "batch-size", "privacy", "ablation", "optimal-data")
SWEEPS += ("server-rates", "servers", "cifar100-equal-rates", "cifar100-equal", "least-variance")
grids = {name: tables.recorded(name, RESULTS) for name in SWEEPS}
WRITTEN, CODED = plots.GROUPS["as written"], plots.GROUPS["as coded"]
METRICS = ("test_accuracy", "client_accuracy")
NOT_YET = f"({tables.NOT_YET})"
DEALT = {"dirichlet": "disjoint", "dirichlet_fixed_size": "equal sizes"}
main = {p: grids["preprint"].where(partition=p) for p in DEALT}


def missing(*sweeps: str) -> Markdown | None:
    """What is not recorded yet of these sweeps; nothing if all is."""
    notes = [grids[name].note for name in sweeps if grids[name].note]
    return Markdown("  \n".join(notes)) if notes else None


def number_of_seeds(frame: pd.DataFrame, names=experiments.FIRST) -> int:
    """The smallest number of seeds of these methods in any place of the frame."""
    counts = frame.groupby(["partition", "method"])["seed"].nunique()
    return int(counts.reindex([(p, m) for p in DEALT for m in names]).fillna(0).min())


glue("ch5_seeds", number_of_seeds(grids["preprint"].frame), display=False)

# %% tags=["remove-input"]
# Every claim of the papers that is decided here, decided now.
decided = {
    claim.id: (claim, ledger.compute(claim))
    for claim in ledger.rows()
    if claim.link.startswith("05_experiments")
}
unshown = dict.fromkeys(decided)


def verdicts(title: str, *prefixes: str) -> Markdown:
    """A box with the claims whose names begin so; one that was shown is not shown again."""
    chosen = [k for k in unshown if k.startswith(prefixes)]
    rows = []
    for name in chosen:
        unshown.pop(name)
        claim, evidence = decided[name]
        cells = (
            f"{claim.statement} *{claim.paper.capitalize()}, {claim.place}*",
            ledger.show(claim.printed),
            ledger.show_ours(evidence.ours, evidence.low, evidence.high) or "–",
            f"**{evidence.verdict}**"
            + (f"; on a substitute: {evidence.substitute}" if evidence.substitute else "")
            + (f"; as coded: {evidence.coded}" if evidence.coded else ""),
        )
        rows.append([c.replace("|", "/") for c in cells])
    table = pd.DataFrame(rows, columns=["claim", "printed", "ours", "verdict"])
    text = table.to_markdown(index=False, disable_numparse=True)
    once = ledger.facts(decided[name] for name in chosen)
    count = ledger.counts(evidence.verdict for _, evidence in once)
    said = ", ".join(f"{n} {v}" for v, n in count.items())
    said += f" ({len(chosen)} rows, {len(once)} facts)" if len(once) < len(chosen) else ""
    return Markdown(
        f"````{{admonition}} Verdicts on {title}: {said}\n:class: verdict dropdown\n\n{text}\n````"
    )


# %% [markdown]
# ## What was run, and what does the paper leave open?
#
# The journal version's section on experiments is empty. The preprint's has three figures, and names no network, no seed, no number of
# repetitions. Their setting as its two sources give it, and ours:
#
# | what | as written (preprint, Sec. 3) | as coded (December 2024) | here |
# | --- | --- | --- | --- |
# | data | MNIST, Dirichlet 0.01 over 100 clients | equal sizes of 600, drawn with replacement | both |
# | network | "non-convex" | perceptron 784-50-10 | the same |
# | round | 10 of 100 clients, 3 local steps of 128, lr 0.01 | the same | the same |
# | strata | 10, from gradients squeezed to 9 levels, each round | 10, once at $w_0$, on the unsorted level values alone | both |
# | aggregation | $N_h/(N m_h)$ | $1/m$ for FedSTS, $N_h/m_h$ normalised else | both |
# | data sampling | $p = n^*/n$ over the participants | $p = \min(1, 2048/n_k) = 1$ | both |
# | requested sample | $q = 0.1$, and $K = 2048$: of what? | 2048 per client | $n^* = 2048$ |
# | accuracy | "test accuracy" | mean over clients on test sets with their own class shares | that, and the global test set |
# | CIFAR-100 | 0.001; 199 rounds | no network, no loader | a small convolutional network |
# | repetitions | not stated | one run, smoothed over rounds | {glue:text}`ch5_seeds` paired seeds, raw |
#
# The names in the figures: `fedsts`, `fedstas`, `fedstas-dp` are [as written]{.as-written}, the same with `-authors-dec` are
# [as coded]{.as-coded}, `fedstas-unbiased` and `-dp` [corrected]{.as-it-should-be}. Partition, $w_0$ and every draw follow from the
# seed, and methods share them: differences between methods are paired. {term}`Final accuracy <final accuracy>` is the mean of what was evaluated in the last ten
# rounds: ten values, but two (rounds 90 and 99) in `sensitivity`, `privacy` and `ablation`, and one (round 199) on CIFAR-100.
# The runs were recorded once, and lie in `results/`:

# %% tags=["remove-input"]
ABOUT = {
    "preprint": "MNIST 0.01, both partitions, all methods",
    "last-bit": "one run as coded, with other last bits",
    "mnist-0.001": "MNIST 0.001, equal sizes",
    "mnist-iid": "MNIST, uniform split",
    "fashion-mnist": "Fashion-MNIST 0.01, disjoint",
    "cifar100": "CIFAR-100 0.001, as stated and with more local work",
    "sensitivity": "one setting at a time, MNIST 0.01 disjoint",
    "batch-size": "batches of 32 and 512, the same",
    "privacy": "epsilon and M, the same",
    "ablation": "parts of the corrected method, the same",
    "optimal-data": "FedSTaS with examples allocated, MNIST 0.01, both partitions",
    "server-rates": "one seed, to choose rates of servers and FedProx's mu",
    "servers": "FedProx and adaptive servers as chosen, MNIST 0.01 disjoint",
    "cifar100-equal-rates": "CIFAR-100 0.1, equal sizes, one seed, to choose rates",
    "cifar100-equal": "the same with the chosen rates",
    "least-variance": "strata of least variance (chapter 9); here for its batches",
}
rows = []
for name, grid in grids.items():
    per = grid.frame.groupby(["partition", "method", "arm"])["seed"].nunique() if grid.found else []
    count = f"{min(per)} to {max(per)}" if len(per) and min(per) < max(per) else str(max(per, default=0))  # fmt: skip
    rows.append((f"`{name}`", ABOUT[name], f"{grid.found} of {grid.planned}", count))
table(pd.DataFrame(rows, columns=["sweep", "what", "runs recorded", "seeds"]))

# %% [markdown]
# ```{provenance} Recorded runs of this chapter, and of its verdicts
# :recorded: preprint, last-bit, mnist-0.001, mnist-iid, fashion-mnist, cifar100, sensitivity, batch-size, privacy, ablation, optimal-data, server-rates, servers, cifar100-equal-rates, cifar100-equal, least-variance
# ```
#
# `fedstas sweep NAME --profile paper --folder results` makes what is missing of one, and `records.rerun(run)` any single run again.

# %% tags=["remove-input"]
facts = [g.facts for g in grids.values() if g.found]
text = tables.NOT_YET
if facts:
    by = ["device", "processor", "threads", "torch"]
    each = pd.concat(facts).groupby(by, as_index=False)
    each = each.agg(
        runs=("minutes", "size"),
        hours=("minutes", lambda m: f"{m.sum() / 60:.1f}"),
        commits=("commit", made.commits),
    )
    text = each.to_markdown(index=False, disable_numparse=True)
Markdown(f"````{{admonition}} Where they were made\n:class: dropdown\n\n{text}\n````")

# %% [markdown]
# ## Who holds what? (Figure 1 of the paper)

# %% tags=["hide-input"]
held = records.load_partitions(RESULTS)
shown = {DEALT.get(n, "IID"): held[n] for n in ("dirichlet", "dirichlet_fixed_size", "iid")}
paste("figure_paper_partition", plots.partitions(shown))
pure = {n: int((c.max(1) > 0.99 * np.maximum(c.sum(1), 1)).sum()) for n, c in held.items()}
glue("ch5_empty", int((held["dirichlet"].sum(1) == 0).sum()), display=False)
glue("ch5_pure_disjoint", pure["dirichlet"], display=False)
glue("ch5_pure_fixed", pure["dirichlet_fixed_size"], display=False)
glue("ch5_largest", int(held["dirichlet"].sum(1).max()), display=False)
one_nine = int((held["dirichlet_fixed_size"][:, 9] == 1).sum())
glue("ch5_one_nine", one_nine, display=False)

# %% [markdown]
# ```{glue:figure} figure_paper_partition
# :name: fig-paper-partition
# :alt: Three stacked bar charts over 100 clients of MNIST. Disjoint Dirichlet: a few clients with thousands of examples of one class and many with none. Equal sizes: all 600, nearly all of one class. IID: all 600 of all classes.
#
# MNIST over 100 clients at concentration 0.01, seed 0: two readings of the paper's partition, and IID. Both readings give a client few
# classes; only where the data are dealt disjointly do sizes differ, and then so much that some clients hold thousands of examples and others none.
# ```
#
# ```{provenance} Figure
# :recorded: partitions
# ```
#
# Dealt disjointly, {glue:text}`ch5_empty` of 100 clients have no data and the largest has
# {glue:text}`ch5_largest` examples; {glue:text}`ch5_pure_disjoint` clients hold one class only (over 99 %). With equal sizes all have 600,
# {glue:text}`ch5_pure_fixed` hold over 99 % of one class, and {glue:text}`ch5_one_nine` hold exactly one
# example of class 9: the remainder of rounding goes there. In the table that the authors published with their code 82 clients do.

# %% tags=["remove-input"]
verdicts("the data", "preprint-3.1-", "preprint-fig-1", "preprint-abstract-three")

# %% [markdown]
# ## How do the curves compare? (Figure 2 of the paper)

# %% tags=["hide-input"]
PRINTED = {"fedsts": 55.0, "fedstas": 56.0, "fedstas-dp": 54.67}
LOSSES = {"fedsts": 1.512, "fedstas": 1.505, "fedstas-dp": 1.473}  # not printed: their saved arrays
ROUNDS = (20, 40, 60, 80)
THEIRS = {  # the published curves at ROUNDS, and the mean of their last ten rounds
    "fedsts": (21.3, 26.7, 42.6, 51.6, 55.5),
    "fedstas": (30.6, 51.2, 55.5, 56.4, 56.0),
    "fedstas-dp": (25.4, 35.1, 49.8, 56.1, 53.9),
}
ENDS = {"fedsts": (19.7, 56.13), "fedstas": (27.6, 56.96), "fedstas-dp": (18.2, 52.94)}  # 10, 99
PAPER = {"fedsts": "FedSTS", "fedstas": "FedSTaS", "fedstas-dp": "DP + FedSTaS"}
coded = {f"{m}-authors-dec": m for m in WRITTEN}


def of_coded(values: dict) -> dict:
    return {f"{m}-authors-dec": v for m, v in values.items()}


disjoint, equal = main.values()
panels = {
    PAPER[m]: ((m, c), (10, *ROUNDS, 99), (ENDS[m][0], *THEIRS[m][:-1], ENDS[m][1]))
    for c, m in coded.items()
}
note = grids["preprint"].note
paste("figure_fig2", plots.beside_published(equal, panels, METRICS[1], note))

# %% [markdown]
# ```{glue:figure} figure_fig2
# :name: fig-fig2
# :alt: Three panels over 99 rounds, for FedSTS, FedSTaS and FedSTaS with privacy, of accuracy under the clients' class shares with equal sizes: the median and a band of our runs as written and as coded, and the paper's curve in black through six of its rounds, from about 20 to about 55 per cent.
#
# Fig. 2 of the paper, with equal sizes. Black: the authors' saved curve at six rounds. Coloured: the median of our runs, and a band that holds nine of ten.
# Dealt disjointly, the sizes of the clients differ: {numref}`fig-gaps`.
# ```
#
# ```{provenance} Figure
# :recorded: preprint
# ```
#
# The bands are the point: *one* run out of each is what the paper compares with one out of another.

# %% tags=["remove-input"]
rows, curves_, times = [], [], (*ROUNDS, None)
for name, method in coded.items():
    theirs = [f"{v:.1f}" for v in THEIRS[method]]
    rows.append((method, "theirs, one run", *theirs, f"{LOSSES[method]:.2f}"))
    own = equal[equal["method"] == name]
    curves_ += [(method, METRICS[1], t, v) for t, v in zip(times, THEIRS[method], strict=True)]
    ours = [100 * own.loc[own["round"] == t, "client_accuracy"] for t in ROUNDS]
    ours.append(tables.last_rounds(own, "client_accuracy")["value"])
    ours.append(own.loc[own["round"] == 99, "train_loss"])
    forms = [".0f"] * (len(ours) - 1) + [".2f"]
    known_ = [one_more(v) if len(v) > 1 else [np.nan] * 3 for v in ours]
    cells = [tables.span(*v, form) for v, form in zip(known_, forms, strict=True)]
    rows.append((method, f"ours, {own['seed'].nunique()} runs", *cells))
heads = ["method", "", *(f"round {t}" for t in ROUNDS), "last ten", "loss, round 99"]
table(pd.DataFrame(rows, columns=heads))

# %% tags=["remove-input"]
# The same test, passed by whom? `levels_`: what is printed for the end, and the saved losses.
levels_ = [(m, METRICS[1], None, v) for m, v in PRINTED.items()]
levels_ += [(m, "train_loss", None, v) for m, v in LOSSES.items()]
glue("ch5_points", len(curves_), display=False)
for key, at in (("40", 1), ("end", -1)):
    glue(f"ch5_their_{key}", f"{THEIRS['fedstas'][at] - THEIRS['fedsts'][at]:.1f}", display=False)
STAND_INS = ("md", "fedprox", "centralised", "fedavg")
whose = {"FedSTaS's three, as coded": lambda m: f"{m}-authors-dec"}
whose |= {"FedSTaS's three, as written": lambda m: m}
whose |= {f"`{name}` in place of each": lambda m, name=name: name for name in STAND_INS}
held_by, rows = set(equal["method"]), []
for who, by in whose.items():
    curve = level = reach = "–"
    if {by(m) for m in THEIRS} <= held_by:
        inside, halves = explained(equal, curves_, by)
        curve = f"{inside} of {len(curves_)}"
        level = f"{explained(equal, levels_, by)[0]} of {len(levels_)}"
        reach = f"{min(halves):.0f} to {max(halves):.0f}"
    rows.append((who, curve, level, reach))
    if who == "FedSTaS's three, as coded":
        glue("ch5_inside", curve, display=False)
        glue("ch5_inside_width", reach, display=False)
    name = who.split("`")[1] if "`" in who else "written" if "written" in who else "coded"
    glue(f"ch5_curve_{name}", curve, display=False)
    glue(f"ch5_ends_{name}", level, display=False)
table(
    pd.DataFrame(
        rows, columns=["whose runs", "their curves", "their ends", "points to either side"]
    )
)

# %% [markdown]
# ```{provenance} Table
# :recorded: preprint
# ```
#
# Above: the authors' saved curves (accuracy in %, under the clients' class shares; training loss in nats, eq. 2.1 with $\omega_k = n_k/n$) beside ours as coded, with the 95 % prediction interval
# for one more run. Below: how many of their {glue:text}`ch5_points` values lie inside such an interval, and of their six ends (three printed
# accuracies, three saved losses), for our runs of the same methods and of others in their place.
#
# **Levels cannot tell who made the figure.** As coded, {glue:text}`ch5_inside` values of their curves lie inside, and
# {glue:text}`ch5_ends_coded` ends. That sounds like a reproduction. But the intervals reach {glue:text}`ch5_inside_width` points to either
# side, and plain `md` passes {glue:text}`ch5_curve_md` and {glue:text}`ch5_ends_md`, `fedprox` {glue:text}`ch5_curve_fedprox` and
# {glue:text}`ch5_ends_fedprox`, and one client that holds all data (`centralised`) {glue:text}`ch5_curve_centralised` and
# {glue:text}`ch5_ends_centralised`. What the test excludes is little: as written, {glue:text}`ch5_curve_written` and
# {glue:text}`ch5_ends_written`. Only the order of the methods and their speed carry information: their FedSTaS is
# {glue:text}`ch5_their_40` points ahead of their FedSTS at round 40 and {glue:text}`ch5_their_end` at the end. The box below has both.

# %% tags=["remove-input"]
verdicts(
    "Fig. 2, and how fast", "preprint-fig-2", "preprint-conclusion-faster", "journal-abstract-faster"
)  # fmt: skip

# %% [markdown]
# ### Why two accuracies?
#
# The authors evaluate on 100 local test sets, each with its client's class shares; their mean is the accuracy under the *average*
# client's class shares. If classes are unequal among the clients, a model that never learns a rare class loses little. On the
# global test set all classes count. The three final models that the authors published score 49.8, 49.5 and 44.9 %
# (FedSTS, FedSTaS, with privacy) on MNIST's 10,000 test images, where the paper prints 55.0, 56.0 and 54.7 %: the order of
# the first two is not one that the global test set shows. None of the three has learned the digits 4 and 6 (at most 4 % right).
# A metric whose weights move by a percentage point can turn such an order round ([exercise 3](ex-ch5-shares)).
#
# ## What is the table?

# %% tags=["hide-input"]
frames = {DEALT[p]: f for p, f in main.items()}
beside_md = tables.against(frames, METRICS)
FAMILY = int(beside_md["holm"].notna().sum())
glue("ch5_family", FAMILY, display=False)
if FAMILY:
    paste("figure_forest", plots.method_forest(beside_md))
else:
    paste("figure_forest", plots.not_recorded(grids["preprint"].note))
ORDER = [m for names in plots.GROUPS.values() for m in names]


def table_of(place: str) -> pd.DataFrame:
    """All methods in one partition: both accuracies, their differences to md, corrected p."""
    here = beside_md[beside_md["place"] == place]
    rows = []
    for m in ORDER:
        both = [here[(here["method"] == m) & (here["metric"] == k)] for k in METRICS]
        if not len(both[0]):
            rows.append((f"`{m}`", *["–"] * 7))
            continue
        cells = [f"`{m}`"]
        for row in (b.iloc[0] for b in both):
            cells += [tables.about(row["mean"], row["mean_low"], row["mean_high"])]
            cells += [tables.about(row["difference"], row["low"], row["high"], "+.1f")]
            cells += [tables.chance(row["holm"])]
        cells += [", ".join(f"{x:.2f}" for x in tables.price(frames[place], m, "md"))]
        rows.append(cells)
    names = ["mean", "against md", "p"]
    heads = [f"{k}: {n}" for k in ("global", "clients'") for n in names]
    return pd.DataFrame(rows, columns=["method", *heads, "bytes, examples (md: 1)"])


def told_apart(place: str, sign: int) -> str:
    """The methods that lie on one side of md on the global test set, p corrected."""
    here = beside_md[(beside_md["place"] == place) & (beside_md["metric"] == "test_accuracy")]
    here = here[(here["holm"] < 0.05) & (sign * here["difference"] >= 0.5)]
    return ", ".join(m for m in ORDER if m in set(here["method"])) or "none"


for p, place in DEALT.items():
    glue(f"ch5_above_{p}", told_apart(place, 1) if FAMILY else NOT_YET, display=False)
    glue(f"ch5_below_{p}", told_apart(place, -1) if FAMILY else NOT_YET, display=False)

# %% [markdown]
# The paper compares with FedSTS only. The plainest baseline that estimates the right thing is `md`: $m$ draws with $p_k = n_k/n$,
# and the mean of what comes back. It needs no gradients and no strata.
#
# ```{glue:figure} figure_forest
# :name: fig-forest
# :alt: Paired differences to md in final accuracy for all methods with 95 % intervals, disjoint partition left and equal sizes right, on the global test set and under the clients' class shares.
#
# Points of final accuracy above `md`, seed by seed, with 95 % intervals (not corrected); what they cost is in the tables below. Colours:
# as written, as coded, corrected, baselines.
# ```
#
# ```{provenance} Figure
# :recorded: preprint
# ```

# %% tags=["remove-input"]
for place in DEALT.values():
    display(Markdown(f"**MNIST 0.01, {place}**"), table(table_of(place)))
missing("preprint")

# %% [markdown]
# ```{provenance} Tables
# :recorded: preprint
# ```
#
# Final accuracy in % ± half the 95 % interval of its mean over seeds, and the paired difference to `md` likewise; `global` is the global test set,
# `clients'` the accuracy under the clients' class shares. p is that of the paired
# t-test with Holm's correction for all {glue:text}`ch5_family` comparisons of both tables. The last two columns are the price: what a
# method sends and receives, and the examples that it processes, in multiples of `md`'s.
#
# On the global test set, after the correction and by at least half a point: dealt disjointly {glue:text}`ch5_above_dirichlet` above `md`, and
# {glue:text}`ch5_below_dirichlet` below it; with equal sizes above: {glue:text}`ch5_above_dirichlet_fixed_size`; below:
# {glue:text}`ch5_below_dirichlet_fixed_size`.
#
# Some rows are equal because the methods are the same here: with as many strata as participants each stratum has one seat, however seats are
# allocated (`strat`, `strat-neyman`); with equal sizes weights by clients are weights by examples (`fedavg-unbiased`, `fedstas-unbiased-dp`).

# %% tags=["hide-input"]
SHOWN = (
    "fedavg",
    "clustered-similarity",
    "fedsts",
    "fedstas",
    "fedstas-authors-dec",
    "fedstas-unbiased",
)
gaps = {DEALT[p]: tables.above(f, METRICS) for p, f in main.items()}
figure = plots.curve_grid(
    {t: (f, SHOWN) for t, f in gaps.items()}, METRICS, note=grids["preprint"].note
)
for ax in figure.axes:
    ax.axhline(0, color=plots.BLACK, lw=0.8)
for ax, metric in zip(figure.axes[::2], METRICS, strict=True):
    ax.set_ylabel(f"points above md,\n{plots.SHORT[metric].removesuffix(' (%)')}")
paste("figure_gaps", figure)

# %% [markdown]
# ```{glue:figure} figure_gaps
# :name: fig-gaps
# :alt: Paired differences to md in accuracy over 99 rounds for six methods, in the disjoint partition left and with equal sizes right, on the global test set above and under the clients' class shares below, with bands around the means and a line at zero.
#
# The same runs, each minus the run of `md` with the same seed: means over seeds and their 95 % bands, round by round and not corrected. Where a
# band leaves zero, the method and `md` differ in that round.
# ```
#
# ```{provenance} Figure
# :recorded: preprint
# ```

# %% tags=["remove-input"]
verdicts(
    "the table", "journal-abstract-standard", "journal-3.3", "preprint-3.2.1-baseline", "preprint-fig-3-bottom-dp-own",
    "preprint-fig-3-middle-dp-own", "preprint-fig-3-top-dp-own",
)  # fmt: skip

# %% [markdown]
# ### Do FedProx and FedAdam help?
#
# Four baselines leave the draw alone. FedProx changes nothing here: the smallest $\mu$ that was tried is the best one, and it is too small to
# matter. The three adaptive servers lie more than twenty points above `fedavg`. Their rate was tuned, though, and `fedavg` trains at the
# preprint's 0.01: take the gain for that of tuning, not of the method.
#
# *FedProx* {cite:p}`li2020fedprox` changes the client: its local loss keeps it near the model that it was sent,
#
# $$F_k(\boldsymbol w) + \frac{\mu}{2} \lVert \boldsymbol w - \boldsymbol w_t \rVert^2 ,$$
#
# so that each step has $\mu(\boldsymbol w - \boldsymbol w_t)$ added to its gradient. *FedAdam*, *FedYogi* and *FedAdagrad* {cite:p}`reddi2021adaptive` change the
# server: it takes the cohort's mean update for a gradient, and divides by the root of a mean of its squares, coordinate by coordinate.


# %%
def fedprox(w_t, gradient, steps, lr, mu):
    """A client's local steps."""
    w = w_t
    for step in range(steps):
        w = w - lr * (gradient(w, step) + mu * (w - w_t))
    return w


def adaptive(w, update, m, v, kind, rate, beta1=0.9, beta2=0.99, tau=1e-3):
    """The server's step, and what it remembers: m, and v, which is tau^2 at first."""
    m, square = beta1 * m + (1 - beta1) * update, update**2
    v = {
        "adam": beta2 * v + (1 - beta2) * square,
        "yogi": v - (1 - beta2) * square * np.sign(v - square),
        "adagrad": v + square,
    }[kind]
    return w + rate * m / (np.sqrt(v) + tau), m, v


# %% tags=["hide-input"]
# The package does the same.
small = tasks.load("digits")
network = small.model(0)
w_0, some = models.flatten(network), np.arange(60).reshape(1, 3, 20)


def gradient(w, step):
    w = w.clone().requires_grad_()
    said = torch.func.functional_call(
        network, models.unflatten(network, w), small.train_x[some[0, step]]
    )
    return torch.autograd.grad(
        torch.nn.functional.cross_entropy(said, small.train_y[some[0, step]]), w
    )[0]


held_ = engine.pool(small.train_x, small.train_y, [some.ravel()])
local_ = {"lr": 0.1, "prox": 5.0}
trained = engine.local_updates(network, w_0, held_, some, np.full(some.shape, 1 / 20), **local_)[0]
assert torch.allclose(fedprox(w_0, gradient, 3, 0.1, 5.0), trained, atol=1e-6)
for kind in ("adam", "yogi", "adagrad"):
    server, memory, now_ = aggregation.Adaptive(kind, rate=0.1), {}, (np.zeros(3), 0.0, 1e-6)
    for update in np.random.default_rng(0).normal(size=(5, 3)):
        there = server.step(now_[0], update, memory)
        now_ = adaptive(now_[0], update, *now_[1:], kind, 0.1)
        assert np.allclose(now_[0], there)

# %% tags=["remove-input"]
chosen, tuned = tables.tuned(grids["server-rates"].frame), grids["servers"].frame
ninth = disjoint[(disjoint["round"] % 9 == 0) & disjoint["method"].isin(["md", "fedavg"])]
beside = pd.concat([tuned, ninth[ninth["seed"].isin(tuned["seed"])]]) if len(tuned) else ninth
rows = []
for m, (key, values) in experiments.SERVERS.items():
    base = "md" if key == "prox" else "fedavg"
    best = chosen.get(m, NOT_YET).removeprefix(f"{key} ")
    level = tables.summary(tuned[tuned["method"] == m], "test_accuracy")
    mean = tables.about(*level.loc[m, ["mean", "low", "high"]]) if m in level.index else "–"
    gain = tables.compared(beside, m, base)[0]
    tried = ", ".join(f"{v:g}" for v in values)
    rows.append(
        (
            f"`{m}`",
            {"prox": "$\\mu$"}.get(key, "server rate"),
            tried,
            best,
            mean,
            f"{gain} to `{base}`",
        )
    )
heads = ["method", "tuned", "tried", "chosen", "global (%)", "difference"]
servers_table = pd.DataFrame(rows, columns=heads)
if {"fedprox", *experiments.SERVERS} <= set(tuned["method"]):
    wide = tables.by_seed(beside, "test_accuracy")
    raised = {
        m: float((wide[m] - wide["fedavg"]).mean()) for m in experiments.SERVERS if m != "fedprox"
    }
    proximal = tables.interval((wide["fedprox"] - wide["md"]).dropna())
    expect("FedProx changes nothing here", max(map(abs, proximal)) < 0.1, points=proximal[0])
    expect("more than twenty points above `fedavg`", min(raised.values()) > 20, **raised)
table(servers_table)

# %% tags=["remove-input"]
missing("server-rates", "servers")

# %% [markdown]
# ```{provenance} Table
# :recorded: server-rates, servers, preprint
# ```
#
# MNIST 0.01, disjoint. Chosen on seed 0 by the training loss of the last ten rounds; then ten seeds, against the same seeds of what they build on, which sends and computes as much.
#
# ## And in other settings? (Figure 3 of the paper)
#
# Concentration 0.001 is drawn as the authors draw it, with equal sizes: dealt disjointly, 17 to 24 of the 100 clients would hold all of MNIST. The
# uniform split is the case that the setup names and no figure shows, Fashion-MNIST a third data set of the three that the abstract counts. Strata are
# kept for ten rounds.

# %% tags=["hide-input"]
OTHERS = {
    "MNIST 0.001": "mnist-0.001",
    "MNIST, IID": "mnist-iid",
    "Fashion-MNIST 0.01": "fashion-mnist",
}
hundred = grids["cifar100"].frame
learns = hundred["arm"].astype(str).str.contains("lr")
BARS = {  # as printed
    "MNIST 0.01": PRINTED,
    "MNIST 0.001": {"fedsts": 52.62, "fedstas": 61.9, "fedstas-dp": 52.14},
    "CIFAR-100 0.001": {"fedsts": 18.0, "fedstas": 23.21, "fedstas-dp": 20.48},
}
ours = dict(zip(BARS, (equal, grids["mnist-0.001"].frame, hundred[~learns]), strict=True))
rows = []
for place, printed in BARS.items():
    for m, value in printed.items():
        rows.append((place, PAPER[m], "printed", value, np.nan, np.nan))
        for voice, name in {"as written": m, "as coded": f"{m}-authors-dec"}.items():
            own = ours[place][ours[place]["method"] == name]
            values = tables.last_rounds(own, METRICS[1])["value"]
            rows += [(place, PAPER[m], voice, *one_more(values))] if len(values) > 1 else []
bars = pd.DataFrame(rows, columns=["place", "method", "who", "mean", "low", "high"])
paste("figure_fig3", plots.printed_bars(bars))

# %% [markdown]
# ```{glue:figure} figure_fig3
# :name: fig-fig3
# :alt: Horizontal bars of final accuracy under the clients' class shares for FedSTS, FedSTaS and FedSTaS with privacy: as printed in black beside ours as written and, on MNIST 0.01, as coded, with intervals. On both settings of MNIST the bars are about as long; on CIFAR-100 ours are a fraction of what is printed.
#
# Fig. 3 of the paper, beside ours. Grey lines: the 95 % interval for one more run of ours, which is what the paper shows (on CIFAR-100 from two seeds only).
# As coded there are runs of the first setting alone; the authors' code for CIFAR-100 is not published.
# ```
#
# ```{provenance} Figure
# :recorded: preprint, mnist-0.001, cifar100
# ```

# %% tags=["remove-input"]
elsewhere = tables.against({t: grids[n].frame for t, n in OTHERS.items()}, METRICS)
rows = []
for title in OTHERS:
    for m in experiments.SEVEN:
        cells = [
            title.replace(" ", "\u00a0").replace("-", "\u2011"),
            f"`{m}`",
            str(BARS.get(title, {}).get(m, "")),
        ]
        for k in METRICS:
            part = elsewhere[(elsewhere["place"] == title) & (elsewhere["metric"] == k)]
            part = part[part["method"] == m]
            if len(part):
                row = part.iloc[0]
                cells.append(tables.about(row["mean"], row["mean_low"], row["mean_high"]))
                if k == METRICS[0]:
                    cells += [tables.about(row["difference"], row["low"], row["high"], "+.1f")]
                    cells += [tables.chance(row["holm"])]
        if len(cells) > 3:
            rows.append(cells)
heads = ["setting", "method", "printed", "global: mean", "against md", "p", "clients': mean"]
if rows:
    display(table(pd.DataFrame(rows, columns=heads)))
missing(*OTHERS.values())

# %% [markdown]
# ```{provenance} Table
# :recorded: mnist-0.001, mnist-iid, fashion-mnist
# ```

# %% tags=["hide-input"]
columns = {
    "as stated: 3 steps of 128, lr 0.01": (hundred[~learns], experiments.DEEP),
    "20 steps of 32, lr 0.1": (hundred[learns], experiments.DEEP),
}
figure = plots.curve_grid(
    columns, ("train_loss", "test_accuracy"), note=grids["cifar100"].note, height=2.2
)
for ax in figure.axes[: len(columns)]:  # the first row: a run that diverges leaves the panel
    ax.set_ylim(3.5, 10)
paste("figure_cifar", figure)
finals = {
    key: tables.summary(part, "test_accuracy")["mean"] if len(part) else pd.Series(dtype=float)
    for key, part in (("stated", hundred[~learns]), ("learns", hundred[learns]))
}
low, high = (f"{v:.1f}" for v in (finals["stated"].min(), finals["stated"].max()))
glue("ch5_cifar_stated", f"{low} to {high} %" if len(finals["stated"]) else NOT_YET, display=False)
shares = tables.summary(hundred[~learns], "client_accuracy")["mean"] if len(hundred) else []
text = f"{shares.min():.1f} to {shares.max():.1f} %" if len(shares) else NOT_YET
glue("ch5_cifar_shares", text, display=False)
ended = [text for text in grids["cifar100"].facts.get("ended", []) if text]
best = (
    100 * hundred.loc[~learns, list(METRICS)].max() if len(hundred) else pd.Series(np.nan, METRICS)
)
explains = f"As stated, no evaluation of any run is above {best[METRICS[0]]:.1f} % on the global test set or {best[METRICS[1]]:.1f} % under the clients' class shares, where the paper prints 18 to 23: with our network and partition the setting as described does not reach that."
lost = {m: sum(text.startswith(f"`{m}`") for text in ended) for m in finals["learns"].index}
each = ", ".join(
    f"{m} {v:.1f} %" + f" ({lost[m]} more diverged)" * bool(lost[m])
    for m, v in finals["learns"].items()
)
glue("ch5_cifar_each", each or NOT_YET, display=False)
rising = [m for m, v in finals["learns"].items() if v >= 2.0]
still = [m for m, v in finals["learns"].items() if v < 2.0]
which = f"{', '.join(rising) or 'none'}; not: {', '.join(still) or 'none'}"
glue("ch5_cifar_which", which if each else NOT_YET, display=False)
glue("ch5_cifar_explains", explains if best.max() < 18.0 else "", display=False)
count = hundred.groupby(["method", "arm"])["seed"].nunique().min() if len(hundred) else 0
glue("ch5_cifar_seeds", int(count), display=False)

# %% [markdown]
# ### CIFAR-100: a setting that cannot learn, and one that can
#
# The paper prints 18.0, 23.2 and 20.5 % for CIFAR-100 and publishes no network for it. A small convolutional network from scratch
# takes $199 \times 3 = 597$ steps of rate 0.01 there, on ten clients of about one class each. A guess is right in 1 %.
#
# ```{glue:figure} figure_cifar
# :name: fig-cifar
# :alt: Training loss and global test accuracy on CIFAR-100 over 199 rounds for five methods, with the local work that the paper states left and with more and larger steps right.
#
# CIFAR-100 0.001, disjoint; seeds recorded: {glue:text}`ch5_cifar_seeds`; strata made anew and evaluated every 20 rounds: the local work as stated, and one
# in which `md` learns. The training loss is cut at 10 nats; that of a guess is 4.6.
# ```
#
# ```{provenance} Figure
# :recorded: cifar100
# ```

# %% tags=["remove-input"]
Markdown(
    f"Ended early, with its evaluations until then in the figure and no final accuracy: {'; '.join(ended)}."
) if ended else None

# %% [markdown]
# Final accuracies of our methods as stated: {glue:text}`ch5_cifar_stated` (clients' shares: {glue:text}`ch5_cifar_shares`). In trials with `md` three steps of
# rate 0.1 or 0.3 made the loss rise, and twenty of rate 0.1 were the first that brought it below that of a guess within 60 rounds. Final
# accuracies with these: {glue:text}`ch5_cifar_each`; above 2 %, so that one may speak of learning: {glue:text}`ch5_cifar_which`. The rate was
# chosen for `md`. {glue:text}`ch5_cifar_explains` With few seeds and few evaluations, look at levels here, not at orders.
#
# **Why strata of k-means do not learn there.** k-means puts most of the data into one stratum, and that has one seat of ten: on average one weight of the cohort
# is {glue:text}`ch5_cifar_largest:.2f` of all, ten participants count for {glue:text}`ch5_cifar_effective:.1f`, and the error of one round is
# {glue:text}`ch5_cifar_error:.1f` times `md`'s (with strata of least variance for {glue:text}`ch5_cifar_cut_effective:.1f`, and
# {glue:text}`ch5_cifar_cut_error:.2f` times). Steps as long as `md` bears are too long for such an error ([chapter 9](09_what_we_would_write.ipynb)).

# %% tags=["remove-cell"]
once = one_rounds.load(RESULTS)
once = once[(once["setting"] == "cifar100") & (once["m"] == 10)]
ten = once.groupby("design")[["largest", "effective", "error"]].mean()
kmeans, cut = ten.loc["fedstas-unbiased"], ten.loc["fedstas-least-variance"]
# What the sentences above say: of each model and each seed.
each = once.pivot(index=["seed", "round"], columns="design", values="effective")
assert (each["fedstas-unbiased"] < 0.5 * each["md"]).all() and kmeans["largest"] > 0.5
assert kmeans["error"] > 4 and cut["error"] < 1 and cut["effective"] > 9
for key, value in (("", kmeans), ("_cut", cut)):
    for what in ("largest", "effective", "error"):
        glue(f"ch5_cifar{key}_{what}", float(value[what]), display=False)

# %% [markdown]
# ```{provenance} These numbers
# :recorded: one-round
# ```
#
# Is it the sizes, or the rate? With equal sizes, at concentration 0.1 and each method at a rate of its own:

# %% tags=["remove-input"]
even, rates_ = grids["cifar100-equal"].frame, grids["cifar100-equal-rates"].frame
level, picked = tables.summary(even, "test_accuracy"), tables.tuned(rates_)
rows = [
    (f"`{m}`", next((w for w in picked.get(m, "–").split(", ") if w[:2] in ("lr", "–")), "–"), tables.about(*level.loc[m, ["mean", "low", "high"]]), int(level.loc[m, "seeds"]))
    for m in experiments.HUNDRED if m in level.index
]  # fmt: skip
table(pd.DataFrame(rows, columns=["method", "chosen", "global (%)", "seeds"])) if rows else missing(
    "cifar100-equal-rates", "cifar100-equal"
)

# %% [markdown]
# ```{provenance} Table
# :recorded: cifar100-equal-rates, cifar100-equal
# ```

# %% tags=["remove-input"]
verdicts(
    "Fig. 3, middle and bottom", "preprint-fig-3-middle", "preprint-fig-3-bottom", "journal-1-particularly"
)  # fmt: skip

# %% [markdown]
# ## What agrees and what does not?
#
# (ch5-matters)=
# The paper's numbers are single runs, so the yardstick for a level is one more run of ours: its 95 % prediction interval. It *differs* if
# the printed value lies outside, *agrees* if all of the interval lies within the smallest difference that matters, and is *undecided*
# otherwise. An order agrees if the 95 % interval of the paired mean difference lies on the printed side of zero, differs if no gain that
# matters is left in it, and is undecided if it holds both none and one that matters. The smallest differences that matter, by kind of claim:
# {glue:text}`ch5_matters`. Fewer than five seeds decide nothing.
# What decides is the method *as written*, on MNIST with equal sizes and under the clients' class shares unless the claim says otherwise;
# {doc}`the ledger </ledger>` has, for each claim, the method as coded and the other readings.

# %% tags=["remove-input"]
verdicts("Fig. 3, top, and what the text concludes", "preprint", "journal")

# %% tags=["remove-input"]
glue("ch5_matters", ", ".join(amount(v, k) for k, v in MATTERS.items()), display=False)
once = ledger.facts(decided.values())  # one computation counts once
glue("ch5_rows", len(decided), display=False)
glue("ch5_claims", len(once), display=False)


def told(words) -> str:
    """How many of each verdict, in words."""
    return ", ".join(f"{n} {v}" for v, n in ledger.counts(words).items()) or "none"


glue("ch5_counts", told(e.verdict for _, e in once), display=False)
LEVELS = tuple(f"preprint-fig-{k}" for k in ("2a-dp", "2a-fedst", "2b-begins", "2b-fedsts", "3-top-dp", "3-top-fedst"))  # fmt: skip
levels = [e for c, e in once if e.coded and c.id.startswith(LEVELS) and "own" not in c.id]
orders = [e for c, e in once if e.coded and not c.id.startswith(LEVELS)]
for key, voice in (("written", "verdict"), ("coded", "coded")):
    glue(f"ch5_levels_{key}_all", told(getattr(e, voice) for e in levels), display=False)
    glue(f"ch5_orders_{key}", told(getattr(e, voice) for e in orders), display=False)
glue("ch5_orders", len(orders), display=False)
PAIRS = (
    ("fedstas", "fedsts"),
    ("fedstas-dp", "fedstas"),
    ("fedstas-unbiased", "fedstas"),
    ("fedstas-unbiased-dp", "fedstas-unbiased"),
    ("fedstas-unbiased", "md"),
    ("fedstas-unbiased-dp", "md"),
    ("fedstas-unbiased", "clustered-similarity"),
    ("fedstas-unbiased", "centralised"),
    ("fedstas", "md"),
    ("fedstas-authors-dec", "md"),
)


def corrected_word(place: str, method: str) -> str:
    """Where a method lies beside md on the global test set, p corrected as in the table."""
    for name, sign in (("above", 1), ("below", -1)):
        if method in told_apart(place, sign).split(", "):
            return name
    return "not told apart from" if FAMILY else "not yet compared with"


for p, frame in main.items():
    for a, b in PAIRS:
        glue(f"ch5_{p}_{a}_{b}", tables.gain(frame, a, b), display=False)
    for a in ("fedstas", "fedstas-unbiased"):
        glue(f"ch5_word_{p}_{a}", corrected_word(DEALT[p], a), display=False)
for key, method, frame in (  # for the front pages: how far above or below md, at how many times its bytes
    ("written", "fedstas", disjoint), ("written_equal", "fedstas", equal), ("corrected", "fedstas-unbiased", disjoint)
):  # fmt: skip
    wide = tables.by_seed(frame, "test_accuracy")
    apart = np.abs(tables.interval((wide[method] - wide["md"]).dropna()))
    glue(
        f"ch5_apart_{key}",
        tables.span(apart[0], *sorted(apart[1:])).replace(" ", " points ", 1),
        display=False,
    )
    glue(f"ch5_times_{key}", tables.price(frame, method, "md")[0], display=False)
glue("ch5_claim_fixed", tables.compared(equal, "fedstas", "fedsts", METRICS[1])[0], display=False)
text, word = tables.compared(equal, "fedstas-authors-dec", "fedsts-authors-dec", METRICS[1])
glue("ch5_claim_coded", text, display=False)
glue("ch5_word_coded", word, display=False)
for key, voice in (("fixed", ""), ("coded", "-authors-dec")):
    wide = tables.by_seed(equal, METRICS[1]).reindex(columns=[f"fedstas{voice}", f"fedsts{voice}"])
    for kind, values in (("sd", wide.iloc[:, 0]), ("sd_pair", wide.iloc[:, 0] - wide.iloc[:, 1])):
        text = f"{values.std():.1f}" if values.count() > 1 else "–"
        glue(f"ch5_{kind}_{key}", text, display=False)
for p, frame in main.items():
    glue(f"ch5_levels_{p}", within_one_more(frame, PRINTED), display=False)
glue("ch5_levels_coded", within_one_more(equal, of_coded(PRINTED)), display=False)
ways = grids["last-bit"].frame  # seed 0 on twenty processors, held against twenty seeds
own = equal[equal["method"] == "fedstas-authors-dec"]
ends = (own, ways.assign(seed=ways.groupby("run").ngroup()))
for key, frame in zip(("seeds", "bits"), ends, strict=True):
    values = tables.last_rounds(frame, METRICS[1])["value"]
    glue(f"ch5_{key}_sd", f"{values.std():.1f}" if len(values) else NOT_YET, display=False)
    apart = f"{values.min():.0f} to {values.max():.0f}" if len(values) else NOT_YET
    glue(f"ch5_{key}_range", apart, display=False)
    glue(f"ch5_{key}_n", len(values), display=False)
middle = [k for k in decided if k.startswith("preprint-fig-3-middle-") and "own" not in k]
glue("ch5_middle", told(decided[k][1].verdict for k in middle), display=False)

# %% [markdown]
# This chapter decides {glue:text}`ch5_rows` rows of the {doc}`ledger </ledger>` (figures, printed numbers, and the sentences drawn from
# them). Some say the same thing: three that FedSTaS is faster are one computation, and two that it keeps its lead with privacy another. They
# state {glue:text}`ch5_claims` facts. As written, these come to: {glue:text}`ch5_counts`.
#
# **What can and what cannot be told.** Where runs as coded are recorded too, there are levels and there are orders. Levels as coded:
# {glue:text}`ch5_levels_coded_all` (as written: {glue:text}`ch5_levels_written_all`). That a level is not excluded says nothing about who made it, for
# `md`, `fedprox` and `centralised` are hardly excluded either, as the table at Figure 2 shows. Orders and speeds, {glue:text}`ch5_orders`
# facts, can tell: {glue:text}`ch5_orders_coded` as coded, and as written {glue:text}`ch5_orders_written`.
#
# **Levels.** Of the printed accuracies of Fig. 3 (top), so many lie where one more run of ours may lie: of the methods as written
# {glue:text}`ch5_levels_dirichlet` when the data are dealt disjointly and {glue:text}`ch5_levels_dirichlet_fixed_size` with equal sizes;
# as coded, with equal sizes, {glue:text}`ch5_levels_coded`. Single runs of FedSTaS scatter with a standard deviation of {glue:text}`ch5_sd_fixed` points as written and {glue:text}`ch5_sd_coded` as
# coded; the printed gaps are 1.0 and 1.3. That of the difference to FedSTS, draws shared, is {glue:text}`ch5_sd_pair_fixed` and
# {glue:text}`ch5_sd_pair_coded`.
#
# **The last bit.** The authors' code clusters raw gradients once, by k-means in scikit-learn's own order of centres. Of ten starts the
# best one wins, several end alike, and then the last bit of a sum, which differs between processors, decides which of them wins, so the order
# of the centres, so the strata of the whole run. We let the last bits fall in {glue:text}`ch5_bits_n` ways, all else equal (seed 0, FedSTaS as
# coded, equal sizes): final accuracies under the authors' metric from {glue:text}`ch5_bits_range` %, standard deviation {glue:text}`ch5_bits_sd` points. Over
# {glue:text}`ch5_seeds_n` seeds they go from {glue:text}`ch5_seeds_range` %, standard deviation {glue:text}`ch5_seeds_sd`. So a curve that
# rests on one run of that code is one processor's curve, and cannot be made again elsewhere, even with its seed. (Our runs as coded
# round what is clustered, and of starts that end alike take the first: one run for every processor.)
#
# ```{provenance} These numbers
# :recorded: last-bit, preprint
# ```
#
# **Orders.** As written, FedSTaS differs from FedSTS by {glue:text}`ch5_claim_fixed`, as coded by {glue:text}`ch5_claim_coded` (printed: +1.0).
# As coded $p = 1$: both train on all data, and what differs is the weights ($1/m$ for FedSTS, $N_h/m_h$ for FedSTaS), so that a gap there is none of
# data sampling. As written the weights are the same, and $p = 2048/6000$ leaves some 205 of 600 examples, which feed the same three steps of
# 128.
#
# **Weights.** Differences to `md` in final accuracy on the global test set, and what they cost in multiples of what `md` sends and
# processes:
# - FedSTaS as written: {glue:text}`ch5_dirichlet_fedstas_md` when dealt disjointly, {glue:text}`ch5_dirichlet_fixed_size_fedstas_md` with equal sizes;
# - as coded: {glue:text}`ch5_dirichlet_fedstas-authors-dec_md` and {glue:text}`ch5_dirichlet_fixed_size_fedstas-authors-dec_md`;
# - corrected: {glue:text}`ch5_dirichlet_fedstas-unbiased_md` and {glue:text}`ch5_dirichlet_fixed_size_fedstas-unbiased_md`.
#
# Where sizes are equal, the weights $1/N$ of eq. 6 are the weights $n_k/n$ of eq.
# 2.1, and one of the two errors of [chapter 4](04_theory.ipynb) is gone: that is why the partition matters so much to the method as written.
#
# ## What does it cost?
#
# FedSTaS as written asks *every* client for a gradient in every round; the corrected method does so every ten rounds, `md` never. The
# simulation counts what is asked for: bytes down and up, and examples passed through the network.

# %% tags=["hide-input"]
PAID = ("md", "fedavg", "clustered-similarity", "fedsts", "fedstas", "fedstas-unbiased")
UNITS = {"megabytes": "sent and received (MB)", "thousands": "examples processed (thousands)"}
fig, axes = plt.subplots(2, 2, figsize=(8.4, 6.4), sharey="row")
for row, (p, frame) in zip(axes, main.items(), strict=True):
    there = [m for m in PAID if m in set(frame["method"])]
    for ax, (unit, label) in zip(row, UNITS.items(), strict=True):
        if not there:
            plots.blank(ax, grids["preprint"].note)
            continue
        plots.curves(frame, "test_accuracy", ax=ax, methods=there, x=unit, ends=False)
        ax.set(xscale="log", xlabel=label if p == "dirichlet_fixed_size" else "", ylabel="")
    row[0].set_ylabel(f"{DEALT[p]}\nglobal test set (%)")
plots.legend(fig, [m for m in PAID if m in set(grids["preprint"].frame["method"])])
paste("figure_cost", fig)

# %% [markdown]
# ```{glue:figure} figure_cost
# :name: fig-cost
# :alt: Accuracy on the global test set against megabytes sent and received and against examples processed, on logarithmic axes, for six methods in both partitions.
#
# The same runs, against what they sent and what they computed. The further left a curve rises, the cheaper its accuracy.
# ```
#
# ```{provenance} Figure
# :recorded: preprint
# ```

# %% tags=["remove-input"]
GOAL = 0.6
costs = []
for p, frame in main.items():
    if not len(frame):
        continue
    last = frame[frame["round"] == frame["rounds"]].groupby("method").mean(numeric_only=True)
    peak = frame.groupby(["method", "seed"])["test_accuracy"].max()
    until = {u: tables.cost_to_reach(frame, "test_accuracy", GOAL, u) for u in UNITS}
    for m in (m for m in PAID if m in last.index):
        row = last.loc[m]
        reach = [until[u][m] for u in UNITS]
        costs.append(
            {
                "partition": DEALT[p].replace(" ", "\u00a0"),
                "method": f"`{m}`",
                "MB": f"{row['megabytes']:,.0f}",
                "thousand examples": f"{row['thousands']:,.0f}",
                "seconds on one core": f"{row['seconds']:.0f}",
                f"MB to {GOAL:.0%}": "never" if np.isnan(reach[0]) else f"{reach[0]:,.0f}",
                f"thousands to {GOAL:.0%}": "never" if np.isnan(reach[1]) else f"{reach[1]:,.0f}",
                f"seeds that reach {GOAL:.0%}": f"{(peak[m] >= GOAL).sum()} of {len(peak[m])}",
            }
        )  # fmt: skip
    for m in ("md", "fedstas", "fedstas-unbiased"):
        text = f"{last.loc[m, 'megabytes']:,.0f} MB" if m in last.index else NOT_YET
        glue(f"ch5_sent_{p}_{m}", text, display=False)
table(pd.DataFrame(costs)) if costs else missing("preprint")

# %% [markdown]
# ```{provenance} Table
# :recorded: preprint
# ```
#
# After 99 rounds, means over seeds; the seconds include the evaluation of every round. `to 60%`: spent when the mean curve first
# reaches that accuracy on the global test set. All this is at the preprint's learning rate. What is left when each method has its own rate, and at equal megabytes, is told in
# [chapter 10](10_which_design.ipynb).
#
# ## What does it depend on?
#
# One setting at a time around the defaults, MNIST 0.01, disjoint; strata are kept for ten rounds (also by FedSTaS as written, to compare like with like).

# %% tags=["hide-input"]
SETTINGS = {  # name, and the default
    "strata": ("number of strata H", 10),
    "levels": ("levels of a squeezed gradient d'", 9),
    "rate": ("share of the data q", 1.0),
    "n_star": ("requested sample n*", 2048),
    "steps": ("local steps", 3),
    "restratify_every": ("rounds between stratifications", 10),
    "clients_per_round": ("clients a round m", 10),
    "concentration": ("concentration", 0.01),
}
around = grids["sensitivity"].frame
if len(around):
    by_arm = tables.by_arm(around, "test_accuracy")
    fig, axes = plt.subplots(4, 2, figsize=(8.4, 9.6), sharey=True)
    for ax, (key, (label, default)) in zip(axes.flat, SETTINGS.items(), strict=True):
        values, names = experiments.AROUND[key]
        at = {tables.arm(**{key: v}): v for v in values} | {"": default}
        part = by_arm[by_arm["arm"].isin(at) & by_arm["method"].isin(names)]
        part = part.assign(x=part["arm"].map(at).astype(float))
        plots.dependence(ax, part, "x", names)
        ax.axvline(default, color=plots.GREY, lw=0.8, ls=":")
        ax.set_xlabel(label)
    for ax in axes[:, 0]:
        ax.set_ylabel("global test set (%)")
    plots.legend(fig, experiments.THREE)
else:
    fig = plots.not_recorded(grids["sensitivity"].note)
paste("figure_sensitivity", fig)
held_ = around["seed"].nunique() if len(around) else 0
glue("ch5_sensitivity_seeds", int(held_), display=False)


def most(key: str, method: str) -> str:
    """How far the accuracy of a method moves along one setting, in words."""
    if not len(around):
        return NOT_YET
    values, _ = experiments.AROUND[key]
    arms = {"", *(tables.arm(**{key: v}) for v in values)}
    part = by_arm[by_arm["arm"].isin(arms) & (by_arm["method"] == method)]
    return f"{part['mean'].min():.0f} to {part['mean'].max():.0f} %" if len(part) else "–"


for key in SETTINGS:
    method = "fedstas" if key == "n_star" else "fedstas-unbiased"
    glue(f"ch5_range_{key}", most(key, method), display=False)
rows = []
for key in ("clients_per_round", "steps", "concentration"):  # which `md` has, too
    label, default = SETTINGS[key]
    for value in sorted({default, *experiments.AROUND[key][0]}):
        here = around[around["arm"] == ("" if value == default else tables.arm(**{key: value}))]
        gap = tables.gain(here, "fedstas-unbiased", "md")
        rows.append((label, f"{value:g}", gap))
        glue(f"ch5_gap_{key}_{value:g}", gap, display=False)
gaps_around = pd.DataFrame(rows, columns=["setting", "value", "corrected method against `md`"])

# %% [markdown]
# ```{glue:figure} figure_sensitivity
# :name: fig-sensitivity
# :alt: Eight panels: final accuracy on the global test set against the number of strata, levels, share of the data, requested sample, local steps, rounds between stratifications, clients a round and concentration, for md, FedSTaS as written and the corrected method, with intervals.
#
# Final accuracy against one setting at a time, 95 % intervals (seeds recorded: {glue:text}`ch5_sensitivity_seeds`); the dotted line is the default.
# ```
#
# ```{provenance} Figure
# :recorded: sensitivity
# ```

# %% tags=["remove-input"]
display(table(gaps_around)) if len(around) else None
missing("sensitivity")

# %% [markdown]
# ```{provenance} Table
# :recorded: sensitivity
# ```

# %% tags=["remove-input"]
usual_ = around[(around["arm"] == "") & around["method"].isin(experiments.BATCHED)]
cut_ = grids["least-variance"].where(task="mnist", partition="dirichlet", arm="")
cut_ = cut_[cut_["clients_per_round"] == 10] if len(cut_) else cut_
batches = grids["batch-size"].frame
usual_ = pd.concat([usual_, cut_[cut_["seed"].isin(usual_["seed"])]])
sized = {b: batches[batches["arm"] == tables.arm(batch=b)] for b in experiments.BATCHES}
rows = []
for b, here in sorted((sized | {128: usual_}).items()):
    level = tables.summary(here, "test_accuracy").reindex(["md"])
    cells = [tables.about(*level.loc["md", ["mean", "low", "high"]])]
    rows.append((str(b), *cells, *(tables.gain(here, m, "md") for m in experiments.BATCHED[1:])))
heads = ["batch", "`md` (%)", *(f"`{m}` against `md`" for m in experiments.BATCHED[1:])]
table(pd.DataFrame(rows, columns=heads))

# %% tags=["remove-input"]
missing("batch-size")

# %% [markdown]
# ```{provenance} Table
# :recorded: batch-size, sensitivity, least-variance
# ```
#
# Batches of at most so many examples; final accuracy on the global test set, and paired differences.
#
# The mean final accuracy of the corrected method has these ranges. Over H: {glue:text}`ch5_range_strata`; over $d'$:
# {glue:text}`ch5_range_levels`; over the share $q$ of the data: {glue:text}`ch5_range_rate`; over the interval:
# {glue:text}`ch5_range_restratify_every`; over $m$: {glue:text}`ch5_range_clients_per_round`; over the local steps:
# {glue:text}`ch5_range_steps`; over the concentration: {glue:text}`ch5_range_concentration`. That of FedSTaS as written has this range over $n^*$:
# {glue:text}`ch5_range_n_star`. The table has the paired differences to `md` along the settings that both have (five seeds, not corrected): at $m = 5$
# {glue:text}`ch5_gap_clients_per_round_5`; at concentration 10 {glue:text}`ch5_gap_concentration_10`.
#
# **Whose examples?** The preprint leaves the optimal allocation of examples to future work. [Chapter 3](03_data_sampling.ipynb) derives it, and `fedstas-optimal-data`
# is FedSTaS with it: $n^*$ shared by weight and spread of the gradients, instead of one rate for all. Its participants go through their data once more, and tell the server
# their sizes and spreads in the clear. Against FedSTaS as written: {glue:text}`ch5_optimal_dirichlet` when dealt disjointly, and
# {glue:text}`ch5_optimal_dirichlet_fixed_size` with equal sizes.

# %% tags=["remove-input"]
optimal = grids["optimal-data"].frame
for p, frame in main.items():
    own = optimal[optimal["partition"] == p]
    plain = frame[(frame["round"] % 9 == 0) & (frame["method"] == "fedstas")]
    pair = pd.concat([own, plain[plain["seed"].isin(own["seed"])]])
    glue(f"ch5_optimal_{p}", tables.gain(pair, experiments.OPTIMAL, "fedstas"), display=False)
missing("optimal-data")

# %% [markdown]
# ```{provenance} These numbers
# :recorded: optimal-data, preprint
# ```
#
# ## What does privacy cost?
#
# `fedstas-dp` has the ten participants of a round report their sizes afresh: over 99 rounds 9.9 reports by the average of 100 clients,
# which cost it $9.9\,\epsilon$, and $99\,\epsilon$ one that is drawn every time. `fedstas-unbiased-dp` lets a client report once.

# %% tags=["hide-input"]
private = grids["privacy"].frame
if len(private):
    by_arm_private = tables.by_arm(private, "test_accuracy")
    fig, axes = plt.subplots(
        1, len(experiments.CAPS), figsize=(8.4, 3.6), sharey=True, squeeze=False
    )
    plain = by_arm_private[by_arm_private["arm"] == ""].set_index("method")
    for ax, cap in zip(axes[0], experiments.CAPS, strict=True):
        at = {tables.arm(epsilon=e, size_cap=cap, n_star=2048): e for e in experiments.EPSILONS}
        part = by_arm_private[by_arm_private["arm"].isin(at)]
        part = part.assign(x=part["arm"].map(at).astype(float))
        for m in plain.index.intersection(["fedstas", "fedstas-unbiased"]):
            colour = plots.METHODS[m][0]
            ax.axhspan(plain.loc[m, "low"], plain.loc[m, "high"], color=colour, alpha=0.12, lw=0)
            ax.axhline(plain.loc[m, "mean"], color=colour, lw=1.2)
        plots.dependence(ax, part, "x", ("fedstas-dp", "fedstas-unbiased-dp"))
        ax.set(title=f"M = {cap}", xlabel="epsilon of a report")
    axes[0, 0].set_ylabel("global test set (%)")
    shown = ("fedstas", "fedstas-dp", "fedstas-unbiased", "fedstas-unbiased-dp")
    plots.legend(fig, shown)
else:
    fig = plots.not_recorded(grids["privacy"].note)
paste("figure_privacy", fig)
PRIVATE = ("fedstas-dp", "fedstas-unbiased-dp")
for m in PRIVATE:
    values = by_arm_private[by_arm_private["method"] == m]["mean"] if len(private) else []
    text = f"{min(values):.0f} to {max(values):.0f} %" if len(values) else NOT_YET
    glue(f"ch5_privacy_{m}", text, display=False)
    for cap in experiments.CAPS:
        strict, loose = (tables.arm(epsilon=e, size_cap=cap, n_star=2048) for e in (0.5, 10.0))
        ends = private[private["method"] == m]
        text = tables.compared(ends.assign(method=ends["arm"]), strict, loose)[0]
        glue(f"ch5_privacy_{m}_{cap}", text, display=False)

# %% [markdown]
# ```{glue:figure} figure_privacy
# :name: fig-privacy
# :alt: Three panels for size caps M of 100, 700 and 3000: final accuracy on the global test set against epsilon for FedSTaS with fresh reports and for the corrected method with one memoised report, beside the same methods without privacy.
#
# Final accuracy over $\epsilon$ and M, with 95 % intervals. Lines across: the methods without privacy.
# ```
#
# ```{provenance} Figure
# :recorded: privacy
# ```

# %% tags=["remove-input"]
missing("privacy")

# %% [markdown]
# Final accuracies over all twelve pairs of $\epsilon$ and M are these. `fedstas-dp`: {glue:text}`ch5_privacy_fedstas-dp`; `fedstas-unbiased-dp`:
# {glue:text}`ch5_privacy_fedstas-unbiased-dp`. From $\epsilon = 10$ to 0.5, seed by seed: `fedstas-dp`
# {glue:text}`ch5_privacy_fedstas-dp_100` at $M = 100$, {glue:text}`ch5_privacy_fedstas-dp_700` at 700 and
# {glue:text}`ch5_privacy_fedstas-dp_3000` at 3000; `fedstas-unbiased-dp` {glue:text}`ch5_privacy_fedstas-unbiased-dp_100`,
# {glue:text}`ch5_privacy_fedstas-unbiased-dp_700` and {glue:text}`ch5_privacy_fedstas-unbiased-dp_3000`. A curve that does not move with
# $\epsilon$ is no evidence that privacy is cheap: the noise, which grows with M, only sets the rate $p$, and
# [chapter 3](03_data_sampling.ipynb) shows that this is often 1 or far off. Besides, `fedstas-unbiased-dp` gives up weighing clients by their
# sizes.
#
# ## Which part does it?
#
# The corrected method, with one part exchanged at a time.

# %% tags=["hide-input"]
parts = grids["ablation"].frame
NAMES = {(m, tables.arm(**own)): name for name, (m, own) in experiments.PARTS.items()}
WHOLE = "the corrected method"
named = [NAMES.get(pair) for pair in zip(parts["method"], parts["arm"], strict=True)]
parts = parts.assign(method=named)
if WHOLE in named:
    change = tables.paired(parts, "test_accuracy", WHOLE)
    change["holm"] = tables.holm(change["p"])
    level = tables.summary(parts, "test_accuracy")
    listed = change.reindex([n for n in experiments.PARTS if n in change.index])
    fig, ax = plt.subplots(figsize=(7.6, 5.4))
    plots.forest(ax, listed, [plots.SHOULD] * len(listed))
    ax.set_xlabel("points above the corrected method, global test set")
else:
    change = level = listed = pd.DataFrame()
    fig = plots.not_recorded(grids["ablation"].note)
paste("figure_ablation", fig)


def part(name: str) -> str:
    """What exchanging one part changes, in words, and what that costs beside the whole method."""
    if name not in change.index:
        return NOT_YET
    row = change.loc[name]
    said = f"{tables.span(row['difference'], row['low'], row['high'], '+.1f')} points"
    sent, processed = (f"{x:.2f}" for x in tables.price(parts, name, WHOLE))
    return said + f", {tables.paid(parts, name, WHOLE)}" * ((sent, processed) != ("1.00", "1.00"))


for key, name in {
    "one": "one stratum",
    "uniform": "p uniform",
    "size": "p by size",
    "norm": "p by norm",
    "frozen": "strata frozen at w_0",
    "each": "strata of each round",
    "tenth": "a tenth of the data",
    "plain": "plain weights, p by norm, Neyman",
    "cheap": "a tenth of the data, strata frozen",
}.items():
    glue(f"ch5_part_{key}", part(name), display=False)
text = tables.compared(parts, "plain weights, p by norm, Neyman", "p by norm")[0]
glue("ch5_part_weights", text, display=False)

# %% [markdown]
# ```{glue:figure} figure_ablation
# :name: fig-ablation
# :alt: Paired differences in final accuracy to the corrected method, with 95 % intervals, when one of its parts is exchanged: selection probabilities, strata, replacement, weights, allocation, interval, share of the data.
#
# What each part is worth: points of final accuracy on the global test set when it is taken away or exchanged (left of zero: it helped).
# ```
#
# ```{provenance} Figure
# :recorded: ablation
# ```

# %% tags=["remove-input"]
if len(listed):
    cells = {
        "exchanged": listed.index,
        "accuracy (%)": [
            tables.about(*level.loc[n, ["mean", "low", "high"]]) for n in listed.index
        ],
        "difference": [
            tables.about(*r, "+.1f") for r in listed[["difference", "low", "high"]].to_numpy()
        ],
        "p (Holm)": [tables.chance(v) for v in listed["holm"]],
        "bytes, examples (whole: 1)": [
            "{:.2f}, {:.2f}".format(*tables.price(parts, n, WHOLE)) for n in listed.index
        ],
        "seeds": [str(int(v)) for v in listed["seeds"]],
    }  # fmt: skip
    display(table(pd.DataFrame(cells)))
missing("ablation")

# %% [markdown]
# ```{provenance} Table
# :recorded: ablation
# ```
#
# The changes are these; where the cost is not that of the whole method, it stands beside. Without strata (one stratum, the same weights): {glue:text}`ch5_part_one`. With $p$ uniform within strata:
# {glue:text}`ch5_part_uniform`; by size alone: {glue:text}`ch5_part_size`; by norm alone: {glue:text}`ch5_part_norm`. With $p$ by norm and the paper's
# weights, too: {glue:text}`ch5_part_plain`, of which the weights make {glue:text}`ch5_part_weights`. With strata made each round: {glue:text}`ch5_part_each`; frozen at $w_0$: {glue:text}`ch5_part_frozen`. With a tenth of the
# data: {glue:text}`ch5_part_tenth`; with that and frozen strata: {glue:text}`ch5_part_cheap`.
#
# ## And on this machine?
#
# The same methods, run while this page was made, on the task and scale of its profile.

# %% tags=["hide-input"]
task = tasks.load(s.task, device=s.device)
local = {"lr": 0.1 if s.task == "digits" else 0.01}
own = {k: getattr(s, k) for k in ("strata", "levels", "n_star", "size_cap", "epsilon")}
live = []
for i in range(s.seed, s.seed + s.seeds):
    federation = partition.dirichlet(task.train_y, s.clients, s.concentration, i)
    m = min(s.clients_per_round, len(federation.with_data))
    for name in experiments.FIRST:
        known = methods.parameters(name)
        method = methods.get(name, **local, **{k: v for k, v in own.items() if k in known})
        usual = method == methods.get(name) and (s.task, s.clients, m) == ("mnist", 100, 10)
        history = simulation.run(
            task, federation, method, rounds=s.rounds, seed=i, device=s.device,
            clients_per_round=m, eval_every=max(1, s.rounds // 50),
        )  # fmt: skip
        usual = usual and s.concentration == 0.01
        live.append(history.frame.assign(method=name, seed=i, rounds=s.rounds, usual=usual))
live = pd.concat(live)
fig, axes = plt.subplots(1, 2, figsize=(7.6, 4.2))
for ax, metric in zip(axes, METRICS, strict=True):
    plots.curves(live, metric, ax=ax, ends=False)
    ax.set_ylabel(plots.SHORT[metric])
plots.same_range(axes)
plots.legend(fig, live["method"].unique())
paste("figure_live", fig)
glue("ch5_live_task", s.task, display=False)
glue("ch5_live_clients", s.clients, display=False)
glue("ch5_live_m", s.clients_per_round, display=False)
glue("ch5_live_seeds", s.seeds, display=False)
glue("ch5_live_concentration", float(s.concentration), display=False)
glue("ch5_live_device", str(task.device), display=False)

# %% tags=["remove-cell"]
same = live[live["usual"]]
if len(same) and len(disjoint):
    same = same.merge(disjoint, on=["method", "seed", "round"], suffixes=("", "_recorded"))
again = "These settings are not among the recorded ones, so there is nothing to hold them against."
if len(same):
    gap = 100 * (same["test_accuracy"] - same["test_accuracy_recorded"]).abs()
    gap = gap.groupby([same["method"], same["seed"]]).max()
    again = f"{len(gap)} of these runs are recorded, too: {int((gap == 0).sum())} agree in every round's accuracy bit for bit, {int((gap <= 0.5).sum())} within half a point (largest difference {gap.max():.2f})."
glue("ch5_live_again", again, display=False)

# %% [markdown]
# ```{glue:figure} figure_live
# :name: fig-live
# :alt: Accuracy over rounds for six methods on the task of this profile, on the global test set left and under the clients' class shares right, with single seeds behind the means.
#
# Live: {glue:text}`ch5_live_task`, {glue:text}`ch5_live_clients` clients at concentration {glue:text}`ch5_live_concentration`,
# {glue:text}`ch5_live_m` a round, {glue:text}`ch5_live_seeds` seeds, on {glue:text}`ch5_live_device`. Thick: means; thin: single seeds (from five seeds on, 95 % bands).
# ```
#
# ```{provenance} Figure
# ```
#
# {glue:text}`ch5_live_again`

# %% tags=["remove-input"]


def cell(row: pd.Series) -> str:
    return tables.about(row["mean"], row["low"], row["high"])


now = {"method": [f"`{m}`" for m in experiments.FIRST]}
for metric, name in zip(METRICS, ("global test set", "clients' shares"), strict=True):
    now[name] = list(tables.summary(live, metric).reindex(experiments.FIRST).apply(cell, axis=1))
table(pd.DataFrame(now))

# %% [markdown]
# Final accuracy in %, and its 95 % interval over seeds. With this few seeds and rounds the intervals say more than
# the order of the means. `fedstas compare MINE results` holds your own recordings against ours.
#
# ## What we learned
#
# - One run each, with draws of its own, cannot rank these methods: single runs scatter by {glue:text}`ch5_sd_fixed` points as written and
#   {glue:text}`ch5_sd_coded` as coded (standard deviation) where the printed gaps are about one. With shared draws the gap between FedSTaS and FedSTS is {glue:text}`ch5_claim_fixed` as written and
#   {glue:text}`ch5_claim_coded` as coded (printed: +1.0).
# - On the global test set FedSTaS as written is {glue:text}`ch5_word_dirichlet_fedstas` `md` in the disjoint partition and
#   {glue:text}`ch5_word_dirichlet_fixed_size_fedstas` it with equal sizes (p corrected).
# - The corrected method is {glue:text}`ch5_word_dirichlet_fedstas-unbiased` `md` when dealt disjointly and
#   {glue:text}`ch5_word_dirichlet_fixed_size_fedstas-unbiased` it with equal sizes (p corrected): {glue:text}`ch5_dirichlet_fedstas-unbiased_md`, and
#   {glue:text}`ch5_dirichlet_fixed_size_fedstas-unbiased_md`. Against clustered sampling by similarity the differences are
#   {glue:text}`ch5_dirichlet_fedstas-unbiased_clustered-similarity`, and {glue:text}`ch5_dirichlet_fixed_size_fedstas-unbiased_clustered-similarity`.
#
# ## Exercises
#
# ```{exercise-start} Many comparisons
# :label: ex-ch5-holm
# ```
# Level 1. Write `holm(p)`: Holm's correction of a list of p-values, in the order given. The smallest of $k$ counts $k$ times, the next $k-1$ times, and
# so on; none becomes less than one before it, none more than 1. `check.answer("experiments/holm", holm)`
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch5-holm
# :label: sol-ch5-holm
# :class: dropdown
# ````
# Sort, multiply by $k, k-1, \dots, 1$, keep the running maximum, and put the results back in order.


# %%
def holm(p):
    p, order = np.asarray(p), np.argsort(p)
    adjusted = np.empty(len(p))
    counted = p[order] * np.arange(len(p), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(counted))
    return adjusted


print(check.answer("experiments/holm", holm))

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} How many seeds?
# :label: ex-ch5-seeds
# ```
# Level 2. Write `needed(gap, sd)`: the smallest number of paired seeds with which the two-sided paired t-test at the 5 % level sees a true gap with a power of
# at least 80 %, `sd` being that of a paired difference. `check.answer("experiments/seeds", needed)`. How many does the printed gap of one point need?
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch5-seeds
# :label: sol-ch5-seeds
# :class: dropdown
# ````
# Under the gap the statistic follows a noncentral t-distribution with $k-1$ degrees of freedom, shifted by $\sqrt k$ gap/sd. Below: with draws
# that the two methods share, as here, and with draws of their own, as in the paper.


# %%
def needed(gap, sd):
    k, seen = 1, 0.0
    while seen < 0.8:
        k += 1
        critical, shift = stats.t.ppf(0.975, k - 1), np.sqrt(k) * gap / sd
        seen = stats.nct.sf(critical, k - 1, [shift, -shift]).sum()
    return k


print(check.answer("experiments/seeds", needed))
wide = tables.by_seed(equal, METRICS[1])
if {"fedstas", "fedsts"} <= set(wide):
    one, other = wide["fedstas"], wide["fedsts"]
    for how, sd in {
        "draws shared": (one - other).std(),
        "draws of their own": np.sqrt(one.var() + other.var()),
    }.items():
        print(f"{how}: sd {sd:.1f}, {needed(1.0, sd)} seeds; power of 20: {power(20, 1.0, sd):.0%}")

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} The metric decides
# :label: ex-ch5-shares
# ```
# Level 3. The authors' final models are right, digit by digit (0 to 9), in 99, 98, 21, 62, 4, 0, 1, 51, 53, 94 % (FedSTS) and 86, 95, 76, 90, 0, 25,
# 0, 0, 13, 97 % (FedSTaS) of MNIST's test images. Find class shares, each between 9 and 11 %, under which FedSTaS leads by at least two points.
# `check.answer("experiments/shares", shares)`
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch5-shares
# :label: sol-ch5-shares
# :class: dropdown
# ````
# Give the five digits where FedSTaS is furthest ahead 11 %, and the others 9 %. The reverse gives FedSTS the lead: with shares this near to even the order of the
# two is a property of the metric.

# %%
lead = np.array(FEDSTAS) - np.array(FEDSTS)
shares = np.where(lead >= np.sort(lead)[5], 0.11, 0.09)
print(check.answer("experiments/shares", shares))
for name, weights in {"chosen": shares, "even": np.full(10, 0.1), "reverse": 0.2 - shares}.items():
    print(f"{name}: FedSTaS leads by {weights @ lead:+.1f} points")

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ## Further reading
#
# {cite:t}`slessor2024fedstas` for the figures; {cite:t}`gao2025fedsts` for the method they build on; {cite:t}`fraboni2021clustered` for
# a comparison with `md` on the same kind of partition. What the corrected method is, with proofs, is [chapter 9](09_what_we_would_write.ipynb).
