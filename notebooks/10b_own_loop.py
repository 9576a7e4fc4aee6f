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
# # Use it in your own loop
#
# ```{at-a-glance}
# :needs: the package alone; the page itself is executed from a clone
# ```
#
# You have a training loop already. `fedstas.Cohorts` tells your loop in each round which clients train, and how much each update counts.
# The model, the optimiser, the loss, the data and the devices stay yours. Every design of this book can be named:
#
# ```python
# from fedstas import Cohorts
#
# chooser = Cohorts("fedstas-least-variance", sizes=[len(y) for x, y in data], m=10, seed=0)
# average = model
# for t in range(1, rounds + 1):
#     cohort = chooser.sample(gradients=lambda k: gradient(model, data[k]))
#     updates = [train(model, data[k]) for k in cohort.clients]
#     for weight, update in zip(chooser.report(cohort, updates), updates):
#         if update is not None:  # None: the client did not answer
#             model = model + float(weight) * update
#     average = average + 0.1 / (1 - 0.9**t) * (model - average)  # the model to deploy
# ```
#
# Two functions are yours. `gradient` returns the gradient of a client's mean loss at the current model. `train` returns an *update*, which is the
# client's trained model minus the model that it started from. A client's number is its place in `sizes`. Sizes count examples: if a client's data are a pair of arrays `(x, y)`, its size is `len(y)`, and if
# they are a `DataLoader`, it is `len(loader.dataset)`, since `len(loader)` counts batches.
#
# To install the package alone, clone the repository and call `pip install .` in the clone; your loop may then stand in any folder. `Cohorts` itself needs numpy, scipy and
# scikit-learn. This page runs that loop, stops and resumes it, and shows what to do when clients are silent, come or go. Then it shows the loop in torch, with
# regression, in a Flower app, and with a design of your own.

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of every random draw
device: str = "auto"  # auto, cpu or cuda
clients: int = 40  # number of clients
clients_per_round: int = 5  # participants of a round
rounds: int = 40  # rounds of a run
seeds: int = 10  # runs of each design

# %% tags=["hide-input"]
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from companion import chapters
from companion.pages.prose import expect, glue_values, table
from companion.runs import statistics
from fedstas import methods
from fedstas.aggregation import average_models
from fedstas.errors import InputError

s = chapters.settings("10b_own_loop", globals())

# %% [markdown]
# ## What does a whole loop look like?
#
# Here is a whole loop in numpy, with a linear model of small images of digits. The images are sorted by digit before they are dealt out, so most
# clients hold one or two digits. The file `examples/own_loop.py` is the same loop.

# %%
x, y = load_digits(return_X_y=True)
x, y, test_x, test_y = x[360:] / 16, y[360:], x[:360] / 16, y[:360]
parts = np.array_split(np.argsort(y, kind="stable"), s.clients)
data = [(x[part], y[part]) for part in parts]
sizes = [len(part) for part in parts]


def gradient(model, x, y):
    scores = np.exp(x @ model)
    return x.T @ (scores / scores.sum(1, keepdims=True) - np.eye(10)[y]) / len(y)


def train(model, x, y, steps=5, rate=0.5):
    new = model.copy()
    for _ in range(steps):
        new -= rate * gradient(new, x, y)
    return new - model


# %%
from fedstas import Cohorts


def run(chooser, model, average, rounds):
    for t in range(chooser.round + 1, rounds + 1):
        cohort = chooser.sample(gradients=lambda k: gradient(model, *data[k]))
        updates = [train(model, *data[k]) for k in cohort.clients]
        weights = chooser.report(cohort, updates)
        model = model + sum(a * u for a, u in zip(weights, updates, strict=True))
        average = average + 0.1 / (1 - 0.9**t) * (model - average)
    return model, average


def accuracy(model):
    return np.mean((test_x @ model).argmax(1) == test_y)


zero = np.zeros((64, 10))
accuracies = {}
for name in ("md", "clustered-similarity", "fedstas-least-variance"):
    accuracies[name] = []
    for each in range(s.seed, s.seed + s.seeds):
        chooser = Cohorts(name, sizes=sizes, m=s.clients_per_round, seed=each)
        accuracies[name].append([accuracy(w) for w in run(chooser, zero, zero, s.rounds)])
    last, averaged = np.mean(accuracies[name], axis=0)
    print(f"{name:24} last model {last:.3f}, averaged model {averaged:.3f}")

# %% tags=["remove-cell"]
scores = {name: pd.DataFrame(pairs, columns=["last", "averaged"]) for name, pairs in accuracies.items()}  # fmt: skip
md, similar, strata = (100 * each for each in scores.values())
differences = {
    "md_average": (md["averaged"], md["last"]),
    "similar_last": (similar["last"], md["last"]),
    "strata_md": (strata["averaged"], md["averaged"]),
    "strata_similar": (strata["averaged"], similar["averaged"]),
    "similar_md": (similar["averaged"], md["averaged"]),
}
gains = {key: statistics.paired_difference(*pair).interval for key, pair in differences.items()}
formatted = {key: statistics.format_interval(*each, "+.1f") for key, each in gains.items()}
glue_values("ch10b", seeds=s.seeds, **formatted)
between = [gains[key] for key in ("strata_md", "strata_similar", "similar_md")]
expect("Averaging raises the mean of every design", all(each["averaged"].mean() > each["last"].mean() for each in (md, similar, strata)))  # fmt: skip
largest = max(abs(mean) for mean, _, _ in between)
expect("more than either of the other designs adds to averaged MD sampling", gains["md_average"][1] > 0 and gains["md_average"][0] > largest)  # fmt: skip
expect("each of the three intervals contains zero", all(low < 0 < high for _, low, high in between))
expect("Between last models the order of the means is another one", similar["last"].mean() > strata["last"].mean() and strata["averaged"].mean() > similar["averaged"].mean())  # fmt: skip
expect("this interval just excludes zero", 0 < gains["similar_last"][1] < gains["similar_last"][0] / 4)  # fmt: skip

# %% [markdown]
# The three designs ran in the same loop, and only the name changed. Each line has the mean accuracies of {glue:text}`ch10b_seeds` runs, whose seeds change the draws of clients and nothing else. *Averaged model* is `average`, the average of the server's models
# that {doc}`10_which_design` advises you to deploy.
#
# Averaging raises the mean of every design. To MD sampling it adds {glue:text}`ch10b_md_average` points (the numbers in brackets are 95 % intervals, paired by seed), which is more than either of the other designs adds to averaged MD sampling. Between averaged models these runs cannot tell the designs apart: least-variance strata
# end {glue:text}`ch10b_strata_md` points above MD sampling and {glue:text}`ch10b_strata_similar` above clustered sampling by similarity, which ends {glue:text}`ch10b_similar_md` points above MD sampling, and each of the three intervals contains zero. Between last models the order of the means is another one: clustered sampling
# leads, by {glue:text}`ch10b_similar_last` points over MD sampling, and this interval just excludes zero. All this is one small federation at one rate that nobody has tuned, so {doc}`10_which_design` decides by tuned runs on eight tasks.
#
# Two things make the averaging line work. Rounds count from 1, because the line divides by zero at `t = 0`; a loop that counts from 0 needs `t + 1` in the place of `t`. And the line comes after the update of the model. The loop of this page counts on from `chooser.round`, the number of rounds so far, so that a resumed run averages rightly.
#
# No client trains from `average`. With torch, where a loop changes its model in place, keep a copy of the state and average its floating tensors. It is the average that the book measures: the division makes it the model itself after round 1, so that the model before the first round,
# which nobody has trained, has no part in it. `fedstas.aggregation.average_models(average, model, 0.9, t)` computes the same.
#
# The simulator uses the same code, so it draws the same cohorts for the same seed and the same answers. Tests compare the two for fifteen methods.
#
# ## What do you have to give?
#
# `sample` takes what a design may ask of the clients. Each argument is an array or a tensor with a row for each client, a list, or a function of a
# client's number. A function is called only if the design asks, and only for the clients that the design asks about. So the loop above computes no gradient
# at all for MD sampling. `needs` names the arguments that a method uses. Of a design of your own it names them as far as the code of its class, and of the classes that it inherits from, shows them; if
# `draw` calls a function outside of the class, give the class an attribute, as `needs = ("losses",)`.

# %% tags=["remove-input"]
rows: dict = {}
for name in methods.names():
    with suppress(InputError):  # of methods that are refused, see below
        needs = ", ".join(Cohorts(name, sizes=[3] * 20, m=5).needs)
        rows.setdefault(needs or "nothing", []).append(f"`{name}`")
lines = [(needs, ", ".join(names)) for needs, names in rows.items()]
table(pd.DataFrame(lines, columns=["asks for", "methods"]))

# %% [markdown]
# | Argument | What it is, for each client | In its place |
# | --- | --- | --- |
# | `gradients` | the gradient of its mean loss at the current model | `sketches`, for a design with `features="sketch"` |
# | `losses` | its mean loss at the current model | |
# | `norms` | the norm of its gradient | `gradients` |
# | `labels` | how many examples of each class it has | |
# | `spreads` | the standard deviation of its example gradients | |
# | `output_gradients` | the part of its gradient that belongs to the last layer | |
# | `output_bias` | for all clients: where the last layer's bias is in an update, as `slice(-10, None)` | |
#
# Designs that learn from updates, such as `clustered-similarity` and `k-vib`, need no argument, because `report` gives them the updates.
#
# A client that is asked must answer. Whoever cannot be asked, as a phone that is switched off, gets the size 0 by `resize` (see below): then it is neither asked nor
# drawn until you give it its size again. That leaves its data out of the average, and after each `resize` a design that asks once asks everybody again. So for a short absence let the client be drawn, and put `None` in the place of its update.
#
# **Settings** stand behind the name, as on the command line, or are keywords. Here the strata are made from label counts, as {doc}`10_which_design` names them for `--method`:

# %%
counts = [np.bincount(y, minlength=10) for _, y in data]
common = {"sizes": sizes, "m": s.clients_per_round, "seed": s.seed}
by_name = Cohorts("fedstas-least-variance features=labels epsilon=1", **common)
by_keywords = Cohorts("fedstas-least-variance", features="labels", epsilon=1, **common)
pair = [each.sample(labels=counts).clients for each in (by_name, by_keywords)]
print(f"asks for: {', '.join(by_name.needs)}; the same cohort: {np.array_equal(*pair)}")

# %% [markdown]
# With `epsilon`, `sample` itself adds the noise to the counts that your loop gives, so whoever runs the loop has seen the counts. If the server must not see the counts, let each client add the noise (`fedstas.privacy.noisy_counts`)
# and send the sum, and leave `epsilon` out of the settings.
#
# Least-variance strata ask once, in the first round, because they are formed once; in later rounds `sample()` needs nothing, until you call `resize`. Clients that are far away need not send a
# whole gradient: `chooser.sketch(gradient)` makes 64 numbers of it, a client sends these, and the server calls `sample(sketches=...)`.

# %%
sketched = Cohorts("fedstas-least-variance", sizes=sizes, m=s.clients_per_round, seed=s.seed)
sent = [sketched.sketch(gradient(np.zeros((64, 10)), *each)) for each in data]
first = sketched.sample(sketches=sent)
print(len(sent[0]), "numbers from each client; the first cohort:", first.clients)

# %% [markdown]
# ## What comes back?
#
# `cohort.clients` are the numbers of the participants, and `report` returns a weight for each, in the same order. Three things differ between designs:
#
# - **A client may occur twice.** MD sampling, and every design that draws with replacement, can draw a client several times. Then give an update in each of its
#   places: the same one, or one of a second training with another order of the examples. A dict `{client: update}` gives the same one everywhere.
# - **The number of participants may differ from `m`.** It is smaller if fewer clients have examples, and random in `poisson`, `optimal-client-sampling` and
#   `k-vib`, where a round may even have nobody. The weights are then an empty array, and the model stays as it is.
# - **The weights need not add up to 1**, because some designs weigh each draw so that the sum is right on average over rounds, and not in each of them. So weigh updates, as above, and not the clients' models: with
#   weights that add up to 1.2 an average of models would be scaled by 1.2.


# %%
def span(low, high, form):
    """Write a range, or one number where both ends are the same."""
    return " to ".join(dict.fromkeys([f"{low:{form}}", f"{high:{form}}"]))


spans = {}
for name in ("md", "fedstas-least-variance", "poisson"):
    chooser = Cohorts(name, sizes=sizes, m=s.clients_per_round, seed=s.seed)
    drawn = []
    for _ in range(s.rounds):
        cohort = chooser.sample(gradients=lambda k: gradient(np.zeros((64, 10)), *data[k]))
        drawn.append((len(cohort.clients), len({*cohort.clients}), cohort.weights.sum()))
    spans[name] = least, most = np.min(drawn, axis=0), np.max(drawn, axis=0)
    print(
        f"{name:24} participants: {span(least[0], most[0], '.0f')}; different ones: {least[1]:.0f} or more; "
        f"sum of weights: {span(least[2], most[2], '.2f')}"
    )

# %% tags=["remove-cell"]
(fewest, most), (_, most_md) = spans["poisson"], spans["md"]
expect("The number of participants may differ from `m`", fewest[0] < most[0], most=most[0])
expect("The weights need not add up to 1", fewest[2] < 0.95 and most[2] > 1.05, most=most[2])
expect("A client may occur twice", spans["md"][0][1] < most_md[0], least=spans["md"][0][1])

average = measured = np.ones(3)
for t, trained in enumerate(np.random.default_rng(s.seed).normal(size=(9, 3)), 1):
    average = average + 0.1 / (1 - 0.9**t) * (trained - average)
    measured = average_models(measured, trained, 0.9, t)
difference = np.abs(average - measured).max()
expect("It is the average that the book measures", difference < 1e-12, difference=difference)

# %% [markdown]
# ## How do you stop and resume?
#
# `state_dict` returns numbers, text, lists and dicts. Store them beside your model and its average with `json`, `pickle` or `torch.save`, at the end of a round. A new process makes `Cohorts` with the
# same arguments, and the sizes that clients had when the state was taken, and loads the state. A resumed run equals the run that was not stopped, bit for bit.


# %%
def new_chooser():
    return Cohorts("clustered-similarity", sizes=sizes, m=s.clients_per_round, seed=s.seed)


before = new_chooser()
model, average = run(before, zero, zero, s.rounds // 2)
folder = Path("mine")
folder.mkdir(exist_ok=True)
(folder / "cohorts.json").write_text(json.dumps(before.state_dict()), encoding="utf-8")
np.savez(folder / "models.npz", model=model, average=average)

# later, in another process
state = json.loads((folder / "cohorts.json").read_text(encoding="utf-8"))
after, models = new_chooser(), np.load(folder / "models.npz")
after.load_state_dict(state)
resumed = run(after, models["model"], models["average"], s.rounds)
straight = run(new_chooser(), zero, zero, s.rounds)  # a run that was not stopped
print("equal:", np.array_equal(resumed, straight))

# %% tags=["remove-cell"]
few_digits = np.mean([len(np.unique(digits)) <= 2 for _, digits in data])
expect("clients hold one or two digits", few_digits > 0.5, share=few_digits)
expect(
    "A resumed run equals the run that was not stopped, bit for bit",
    np.array_equal(resumed, straight),
)

# %% [markdown]
# ## What if a client does not answer?
#
# Put `None` in the place of its update, and leave it out of the sum. The client's weight is then zero, and the other participants of its stratum stand for it. If no client of the stratum answers, as in strata of least variance, which draw one client each,
# the other strata stand for it ({doc}`08_federation` explains the rule). If no client answers at all, all weights are zero and the model stays as it is.

# %%
chooser = Cohorts("md", sizes=sizes, m=4, seed=s.seed)
cohort = chooser.sample()
model = np.zeros((64, 10))
updates = [train(model, *data[k]) for k in cohort.clients]
print("without the first answer:", chooser.report(cohort, [None, *updates[1:]]).round(3))

# %% [markdown]
# ## What if clients come or go?
#
# Call `resize` with the sizes of all clients from now on. By default clients keep their numbers, and the last ones are new or have left. If others have left, say
# for each client which number it had before, with `None` for a new one. A client with the size 0 keeps its
# number, and returns as a new client when it has examples again. Strata are formed anew in the next round, so a design that asks clients asks all of them again, and last updates stay with their clients.

# %%
after.resize([*sizes, 25, 30])  # two more clients
after.resize(sizes[1:], clients=range(1, len(sizes)))  # client 0 has left, and so have the two
print(after)

# %% [markdown]
# ## How do you use it with torch?
#
# The loop stays the same. Tensors may have any precision and any device, and they may require gradients. A gradient or an update may be a list or a dict of
# tensors, as `torch.autograd.grad` and `state_dict` return them. The file `examples/own/my_loaders.py` trains a network with
# batch normalisation and dropout, by Adam, with a `DataLoader` for each client. Some of its clients are silent, and it resumes from a checkpoint.
# Here are the function that trains a client, and the loop:
#
# ```{literalinclude} ../../examples/own/my_loaders.py
# :pyobject: train
# ```
#
# ```{literalinclude} ../../examples/own/my_loaders.py
# :pyobject: main
# ```
#
# ## What if the task is not classification?
#
# `Cohorts` sees gradients and updates, and never your loss, so any loss will do. Here a linear model predicts the progression of diabetes a year later, by least
# squares, and each of thirty clients holds patients of similar age:

# %%
from sklearn.datasets import load_diabetes

patients, progression = load_diabetes(return_X_y=True)
patients, progression = 10 * patients, (progression - progression.mean()) / progression.std()
by_age = np.array_split(np.argsort(patients[:, 0], kind="stable"), 30)


def square_gradient(model, k):
    x, y = patients[by_age[k]], progression[by_age[k]]
    return x.T @ (x @ model - y) / len(y)


def step(model, k):
    new = model.copy()
    for _ in range(5):
        new -= 0.1 * square_gradient(new, k)
    return new - model


model = np.zeros(10)
ages = Cohorts("fedstas-least-variance", sizes=[len(each) for each in by_age], m=5, seed=s.seed)
for _ in range(s.rounds):
    cohort = ages.sample(gradients=lambda k: square_gradient(model, k))
    updates = [step(model, k) for k in cohort.clients]
    model = model + ages.report(cohort, updates) @ updates
explained = 1 - np.mean((patients @ model - progression) ** 2)
print(f"rounds: {s.rounds}, explained variance: {explained:.2f}")

# %% tags=["remove-cell"]
expect("never your loss, so any loss will do", explained > 0, explained=explained)

# %% [markdown]
# ## How do you use it in your Flower app?
#
# `FedAvgWithDesign` takes the place of Flower's FedAvg in your server, and your clients stay as they are. Inside is the same `Cohorts`. It takes every design that
# asks for nothing but sizes and updates (`fedstas.flower.plain_methods()` lists them). That leaves out least-variance strata from sketches or label counts, because a plain client answers no question before it trains; for these your clients
# must be nodes of this package (`fedstas.flower.client_app`), which {doc}`08_federation` shows. Plain clients can have strata from last updates, `"fedstas-least-variance features=updates"`, but these saved no bytes that we could see ({doc}`09_what_we_would_write`). Here are the client and the server of an app with
# Adam and batch normalisation; `examples/flower/plain_clients.py` has the whole app. The tests run it in Flower's simulation, which the environment of this book lacks:
#
# ```{literalinclude} ../../examples/flower/plain_clients.py
# :start-at: client, server
# ```
#
# ## What about FedAdam, FedVARP or SCAFFOLD?
#
# Their servers do more than add weighted updates, so weights cannot express them. `Cohorts` refuses them, and says what to use instead: their client design
# draws the cohorts, and your loop does what their server does. Here is a server with Adam:

# %%
method = methods.get("fedadam")
chooser = Cohorts(method.clients, sizes=sizes, m=s.clients_per_round, seed=s.seed)
model, moments = np.zeros((64, 10)), method.server.State()
for _ in range(s.rounds):
    cohort = chooser.sample()
    updates = np.array([train(model, *data[k]) for k in cohort.clients])
    total = np.tensordot(chooser.report(cohort, updates), updates, 1)
    model = method.server.step(model, total, moments)

# %% tags=["remove-cell"]
strata_needs = {
    features: Cohorts(f"fedstas-least-variance features={features}", **common).needs
    for features in ("sketch", "labels", "updates")
}
expect(
    "leaves out least-variance strata from sketches or label counts",
    strata_needs["sketch"] and strata_needs["labels"],
)
expect("Plain clients can have strata from last updates", not strata_needs["updates"])

# %% [markdown]
# Local settings of a method, such as `prox` of `fedprox`, belong to your `train`. For methods that train on a part of the data, such as `fedstas` and
# `fedsampling`, `chooser.examples(cohort)` returns the places of each participant's examples.
#
# ## How do you bring a design of your own?
#
# A design is a frozen dataclass with a method `draw`. Whatever `draw` asks of its `view`, your loop must give. {doc}`10a_own_data` shows how `fedstas audit`
# tests a design.


# %%
@dataclass(frozen=True)
class LargestLoss:
    def draw(self, view, m, rng):
        from fedstas.client_sampling import Cohort

        worst = np.argsort(-view.losses(np.arange(view.clients)), kind="stable")[:m]
        return Cohort(worst, np.full(m, 1 / m))


chooser = Cohorts(LargestLoss(), sizes=sizes, m=3)
print(chooser.needs, chooser.sample(losses=np.arange(s.clients)).clients)

# %% [markdown]
# ## What if something does not fit?
#
# You are told in one sentence, and the chooser's state has not changed, so the same call can be made again with the right values.

# %%
chooser = Cohorts("fedstas-least-variance", sizes=sizes, m=s.clients_per_round)
other = Cohorts("md", sizes=sizes, m=s.clients_per_round)
absent = np.setdiff1d(np.arange(s.clients), other.sample().clients)[0]
for attempt in (
    lambda: chooser.sample(),
    lambda: chooser.sample(gradients=np.ones((3, 640))),
    lambda: other.report(other.cohort, {absent: np.zeros((64, 10))}),
    lambda: chooser.load_state_dict(after.state_dict()),
    lambda: Cohorts("scaffold", sizes=sizes, m=5),
):
    try:
        attempt()
    except InputError as error:
        print(fill(f"- {error}", 79, subsequent_indent="  "))

# %% [markdown]
# ## What are the limits?
#
# `Cohorts` weighs updates; it does not audit what your `train` does. It simulates private size reports from the sizes that your loop knows, so it protects nobody's
# size. Designs that need to know the network, such as `hics-fl`, must be told where the last layer's bias is.
#
# ## Where does one go from here?
#
# - {doc}`10a_own_data` brings your data, your network or your design into the simulator.
# - {doc}`08_federation` runs clients on machines of their own, by Flower; `examples/flower` in a clone has the files.
# - {doc}`10_which_design` says which design to take.
# - {doc}`/api` opens with `Cohorts`, and has every argument and error.
#
# ```{provenance} How the page was made
# ```
