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
# You have a training loop already. `fedstas.Cohorts` tells it in each round which clients train, and how much each update counts.
# The model, the optimiser, the data and the devices stay yours. Every design of this book can be named:
#
# ```python
# from fedstas import Cohorts
#
# chooser = Cohorts("fedstas-least-variance", sizes=[len(d) for d in data], m=10, seed=0)
# for t in range(rounds):
#     cohort = chooser.sample(gradients=lambda k: gradient(model, data[k]))
#     updates = [train(model, data[k]) for k in cohort.clients]
#     for weight, update in zip(chooser.report(cohort, updates), updates):
#         if update is not None:  # None: the client did not answer
#             model += float(weight) * update
# ```
#
# Two functions are yours. `gradient` returns the gradient of a client's mean loss at the current model. `train` returns an *update*: the
# client's trained model minus the model that it started from. Clients have numbers, which are their places in `sizes`.
#
# This page runs that loop, stops and resumes it, and shows what to do when clients are silent, come or go.

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of every random draw
device: str = "auto"  # auto, cpu or cuda
clients: int = 40  # number of clients
clients_per_round: int = 5  # participants of a round
rounds: int = 40  # rounds of a run

# %% tags=["hide-input"]
import json
from contextlib import suppress
from dataclasses import dataclass
from textwrap import fill

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from companion import chapters
from companion.pages.prose import expect, table
from fedstas import methods
from fedstas.errors import InputError

s = chapters.settings("10b_own_loop", globals())

# %% [markdown]
# ## What does a whole loop look like?
#
# Here is one in numpy, with a linear model of small images of digits. The images are sorted by digit before they are dealt out, so that a
# client holds one or two digits. The file `examples/own_loop.py` is the same loop.

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


def run(chooser, model, rounds):
    for _ in range(rounds):
        cohort = chooser.sample(gradients=lambda k: gradient(model, *data[k]))
        updates = [train(model, *data[k]) for k in cohort.clients]
        weights = chooser.report(cohort, updates)
        model = model + sum(a * u for a, u in zip(weights, updates, strict=True))
    return model


def accuracy(model):
    return np.mean((test_x @ model).argmax(1) == test_y)


final = {}
for name in ("md", "clustered-similarity", "fedstas-least-variance"):
    chooser = Cohorts(name, sizes=sizes, m=s.clients_per_round, seed=s.seed)
    final[name] = run(chooser, np.zeros((64, 10)), s.rounds)
    print(f"{name:24} {accuracy(final[name]):.3f}")

# %% [markdown]
# The three designs ran in the same loop: only the name changed. One run of each decides nothing about which is better. {doc}`10_which_design` compares
# the designs over many runs.
#
# The cohorts are those that the simulator draws for the same seed and the same answers, since it uses the same code. The tests hold the two against each
# other for fifteen methods.
#
# ## What do you have to give?
#
# `sample` takes what a design may ask of the clients. Each argument is an array or a tensor with a row for each client, a list, or a function of a
# client's number. A function is called only if the design asks, and only for the clients of whom it asks. So the loop above costs MD sampling
# no gradient at all. `needs` names the arguments that a method uses:

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
# Designs that learn from updates, such as `clustered-similarity` and `k-vib`, need no argument: `report` gives them the updates.
#
# Least-variance strata ask once, in the first round, because their strata are formed once. Where clients are far away, they need not send a
# gradient. A client sends 64 numbers, which `chooser.sketch(gradient)` makes, and the server calls `sample(sketches=...)`.

# %%
sketched = Cohorts("fedstas-least-variance", sizes=sizes, m=s.clients_per_round, seed=s.seed)
sent = [sketched.sketch(gradient(np.zeros((64, 10)), *each)) for each in data]
first = sketched.sample(sketches=sent)
print(len(sent[0]), "numbers from each client; the first cohort:", first.clients)

# %% [markdown]
# ## How do you stop and resume?
#
# `state_dict` returns numbers, text, lists and dicts. Store it beside your model with `json`, `pickle` or `torch.save`. A resumed run equals the run that
# was not stopped, bit for bit.

# %%
before = Cohorts("clustered-similarity", sizes=sizes, m=s.clients_per_round, seed=s.seed)
half = run(before, np.zeros((64, 10)), s.rounds // 2)
text = json.dumps(before.state_dict())  # to a file, with your model

after = Cohorts("clustered-similarity", sizes=sizes, m=s.clients_per_round, seed=s.seed)
after.load_state_dict(json.loads(text))
resumed = run(after, half, s.rounds - s.rounds // 2)
print("equal:", np.array_equal(resumed, final["clustered-similarity"]))

# %% tags=["remove-cell"]
expect(
    "A resumed run equals the run that was not stopped, bit for bit",
    np.array_equal(resumed, final["clustered-similarity"]),
)

# %% [markdown]
# ## What if a client does not answer?
#
# Put `None` in the place of its update. Its weight is then zero, and the other participants of its stratum stand for it. If nobody of the stratum answers,
# the other strata do ({doc}`08_federation` explains the rule). If nobody answers at all, all weights are zero and the model stays.

# %%
chooser = Cohorts("md", sizes=sizes, m=4, seed=s.seed)
cohort = chooser.sample()
model = np.zeros((64, 10))
updates = [train(model, *data[k]) for k in cohort.clients]
print("without the first answer:", chooser.report(cohort, [None, *updates[1:]]).round(3))

# %% [markdown]
# ## What if clients come or go?
#
# Call `resize` with the sizes of all clients from now on. By default clients keep their numbers, and the last ones are new or have left. If others left, say
# for each client which number it had before, with `None` for a new one. Strata are made anew in the next round, and last updates stay with their clients.

# %%
after.resize([*sizes, 25, 30])  # two more clients
after.resize(sizes[1:], clients=range(1, len(sizes)))  # client 0 has left, and so have the two
print(after)

# %% [markdown]
# ## How do you use it with torch?
#
# In the same way. Tensors may have any precision and any device, and they may require gradients. A gradient or an update may be a list or a dict of
# tensors, as `torch.autograd.grad` and `state_dict` return them. The file `examples/own/my_loaders.py` trains a network with
# batch normalisation and dropout, by Adam, with a `DataLoader` for each client. Some clients are silent, and it resumes from a checkpoint.
# These are its training of a client, and its loop:
#
# ```{literalinclude} ../../examples/own/my_loaders.py
# :pyobject: train
# ```
#
# ```{literalinclude} ../../examples/own/my_loaders.py
# :pyobject: main
# ```
#
# ## What about FedAdam, FedVARP or SCAFFOLD?
#
# Their servers do more than add weighted updates, so weights cannot express them. `Cohorts` refuses them and says what to use instead: their client design
# for the draws, and in your loop what the server does. Here is a server with Adam:

# %%
method = methods.get("fedadam")
chooser = Cohorts(method.clients, sizes=sizes, m=s.clients_per_round, seed=s.seed)
model, moments = np.zeros((64, 10)), method.server.State()
for _ in range(s.rounds):
    cohort = chooser.sample()
    updates = np.array([train(model, *data[k]) for k in cohort.clients])
    total = np.tensordot(chooser.report(cohort, updates), updates, 1)
    model = method.server.step(model, total, moments)

# %% [markdown]
# Local settings of a method, such as `prox` of `fedprox`, belong to your `train`. Methods that train on a part of the data, such as `fedstas` and
# `fedsampling`, say on which part: `chooser.examples(cohort)` returns the places of each participant's examples.
#
# ## How do you bring a design of your own?
#
# A design is a frozen dataclass with a method `draw`. What it asks of its `view` is what your loop is asked for. {doc}`10a_own_data` shows how `fedstas audit`
# tests it.


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
# You are told in one sentence, and nothing has changed: the same call can be made again with the right values.

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
# ## Where does one go from here?
#
# - Your data, your network or your design in the simulator: {doc}`10a_own_data`.
# - Clients on machines of their own, by Flower: {doc}`08_federation`, and `examples/flower` in a clone; it has a strategy for clients that you have, too.
# - Which design to take: {doc}`10_which_design`.
# - Every argument and error: {doc}`/api`, which opens with `Cohorts`.
#
# ```{provenance} How the page was made
# ```
