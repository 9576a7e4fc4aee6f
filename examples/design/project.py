# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Project: clothes instead of digits
#
# Two weeks, in pairs. **Does your way of drawing clients lead on Fashion-MNIST, and after how many megabytes?**
#
# This notebook runs from top to bottom in about a minute of one free core. It trains MD sampling (`md`, clients drawn in proportion to
# their examples), a design of yours, and your design without one of its parts. Then it compares them on the same seeds. Change the design in step 3
# and run the notebook again: runs that are recorded already, in the folder `runs`, are not made again.
#
# Questions stand where they come up, with the points of the rubric, 24 in all. A design that does not help, shown well, has all of them.

# %% tags=["parameters"]
task: str = "fashion-mnist"  # or "digits", which needs no data set, to try things in seconds
clients: int = 100  # number of clients
clients_per_round: int = 10  # participants of a round
concentration: float = 0.1  # of labels on clients, Dirichlet; smaller is less alike
rounds: int = 40  # rounds of a run
seeds: int = 3  # runs of each design: five or more for a result
lr: float = 0.1  # learning rate of all designs; not tuned
draws: int = 500  # cohorts of the audit: 2,000 for a result

# %% [markdown]
# ## 1. The data
#
# Fashion-MNIST is looked for in the folder that `FEDSTAS_DATA` names, then in a folder `data` beside this notebook or one above it. If it is in
# none of them, it is downloaded once (30 MB). Without a network, take `data/fashion-mnist.npz` of the course.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from companion import records, statistics, sweeps
from companion.pages.ch10a import load_runs
from fedstas import methods, partition, tasks
from fedstas.sim import audit

for folder in (Path("data"), Path("../data")):
    if (folder / f"{task}.npz").is_file():
        os.environ.setdefault("FEDSTAS_DATA", str(folder.resolve()))

data = tasks.load(task)
size = data.train_x[0].numel()
print(
    f"{len(data.train_y):,} examples to train on, {len(data.test_y):,} to test, {size} pixels each"
)

# %%
figure, axes = plt.subplots(1, 10, figsize=(8, 1.1))
for label, ax in enumerate(axes):
    image = data.train_x[data.train_y == label][0].flatten()
    ax.imshow(image.reshape(int(size**0.5), -1), cmap="gray_r")
    ax.set_title(label)
    ax.axis("off")

# %% [markdown]
# ## 2. Who has which examples?
#
# Each class is dealt out in shares of its own, so that a client has much of a few classes. A client without an example is not in
# the federation. Each seed deals afresh.

# %%
federation = partition.dirichlet(data.train_y, clients, concentration, seed=0)
sizes = federation.sizes
shares = federation.label_counts / np.maximum(sizes, 1)[:, None]
print(
    f"{(sizes > 0).sum()} of {clients} clients have data: {sizes[sizes > 0].min()} to {sizes.max()} examples"
)
print(
    f"the largest class of a client is {shares.max(1)[sizes > 0].mean():.0%} of its examples, on average"
)

# %% [markdown]
# ## 3. Your design
#
# A frozen dataclass whose fields are its settings. `draw` returns the clients it chose, and their weights *on updates*: the next model is the
# current one plus the weighted sum of the participants' updates. What it may ask the server for, and what that costs:
#
# | ask for | you get | it costs |
# | --- | --- | --- |
# | `view.clients` | the number of clients with data | nothing |
# | `view.sizes` | their numbers of examples | 8 bytes from each client, once |
# | `view.gradients(9).restore()` | everybody's squeezed gradient at the current model | a model to, codes from and a pass over all data of each client |
# | `view.last_updates()` | what each client sent last, 0 before | nothing |
# | `view.last_respondents()` | who sent an update in the last round, or `None` | nothing |
#
# Draw only with `rng`: then a run can be made again from its record. The cell writes the file `my_design.py`, whose hash each run
# remembers. `power` is a part that can be taken away: with 0 all clients are equally likely.

# %% tags=["my_design.py"]
from dataclasses import dataclass

import numpy as np

from fedstas.client_sampling import Cohort


@dataclass(frozen=True)
class MyDesign:
    """m draws with replacement, p_k proportional to n_k ** power, weights omega_k / (m p_k)."""

    power: float = 0.5

    def draw(self, view, m: int, rng: np.random.Generator) -> Cohort:
        omega = view.sizes / view.sizes.sum()
        p = omega**self.power
        p /= p.sum()
        chosen = rng.choice(view.clients, m, p=p)
        return Cohort(chosen, omega[chosen] / (m * p[chosen]))


# %% [markdown]
# ## 4. Is it unbiased, and for whom?
#
# The audit draws cohorts in four small federations and looks at the mean weight of each client. A bias is allowed, if you say so.

# %%
findings = audit.audit(methods.get("my_design.py"), draws=draws)
pd.DataFrame(
    [(f.verdict, f.check, f.message) for f in findings],
    columns=["verdict", "check", "what was seen"],
).style.hide()

# %% [markdown]
# **Question 1 (6 points).** What is your design unbiased for, if for anything (2)? Prove it, or show it by the audit (2). Whom does it favour, and whom
# does it neglect, in one round and over many (2)?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 5. The runs
#
# Each design has the same data, first model and local work for each seed. Change the second and third entry with your design.

# %%
designs = {
    "md": ("md", {}),
    "mine": ("my_design.py", {}),
    "mine, all equally likely": ("my_design.py", {"power": 0.0}),
}


def runs_of(name: str, rate: float) -> list[sweeps.Run]:
    """Return a design's run for each seed."""
    method, settings = designs[name]
    common = {"clients": clients, "clients_per_round": clients_per_round, "rounds": rounds}
    common |= {"eval_every": max(1, rounds // 10), "initial_model": "seed"}
    settings = {**settings, "lr": rate}
    return [
        sweeps.Run(task, "dirichlet", concentration, method, seed, settings, **common)
        for seed in range(seeds)
    ]


curves = {}
for name in designs:
    todo = runs_of(name, lr)
    failures = sweeps.make(todo, "clothes", folder="runs", progress=False)
    assert not failures, failures
    frame = load_runs(todo, "runs/clothes")[0]
    frame["megabytes"] = (frame["bytes_down"] + frame["bytes_up"]) / 1e6
    curves[name] = frame

# %% [markdown]
# ## 6. Which design is better?
#
# The final accuracy is the mean of the last quarter of the rounds. Differences to MD sampling are taken seed by seed: a lucky deal of the data helps
# nobody. An interval that holds 0 decides nothing.

# %%
final = pd.DataFrame(
    {
        name: 100 * frame[frame["round"] > 0.75 * rounds].groupby("seed")["test_accuracy"].mean()
        for name, frame in curves.items()
    }
)
rows = []
for name, frame in curves.items():
    low_high = (
        ("", "") if name == "md" else statistics.paired_difference(final[name], final["md"])[1:3]
    )
    end = frame[frame["round"] == rounds]
    rows.append(
        (name, final[name].mean(), *low_high, end["megabytes"].mean(), end["examples"].mean())
    )
columns = ["design", "accuracy, %", "minus md, from", "to", "megabytes", "examples"]
pd.DataFrame(rows, columns=columns).set_index("design").style.format(
    lambda x: x if isinstance(x, str) else f"{x:,.1f}"
)

# %% [markdown]
# **Question 2 (6 points).** Compare your design with MD sampling on the same seeds (2), with an interval from at least five of them (2), in a sentence
# that says no more than the interval does (2). One rate for all is not fair: give each design the best of three, as by `runs_of("mine", 0.03)`, judged on
# seeds that you do not report. (`fedstas arena my_design.py --setting fashion-mnist` does all of it by the protocol of the book, in hours.)

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 7. After how many megabytes?

# %%
figure, ax = plt.subplots(figsize=(5, 3))
means = {
    name: f.groupby("round")[["megabytes", "test_accuracy"]].mean() for name, f in curves.items()
}
for (name, mean), style in zip(means.items(), ("-", "--", ":", "-."), strict=False):
    ax.plot(mean["megabytes"], 100 * mean["test_accuracy"], style, label=name)
ax.set(xlabel="megabytes sent, all clients together", ylabel="test accuracy, %")
ax.legend(frameon=False)
goal = final["md"].mean() / 100
for name, mean in means.items():
    reached = mean[mean["test_accuracy"] >= goal]["megabytes"]
    when = f"after {reached.iloc[0]:.0f} MB" if len(reached) else "not in these rounds"
    print(f"{name}: the final accuracy of md, {goal:.1%}, is reached {when}")

# %% [markdown]
# **Question 3 (4 points).** What does your design send and compute until it has the final accuracy of `md` (2)? What does it ask of clients that do not take
# part (2)?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 8. Which part does it, and where does it fail?
#
# **Question 4 (4 points).** Take a part of your design away, in the third entry of `designs` (2). Name a setting in which the design should fail, by
# `concentration`, `clients_per_round` or another partition, and try it (2).

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 9. Can somebody else make your runs again?
#
# A record knows its settings and the SHA-256 of your file. From them a run is made again, bit for bit.

# %%
first = curves["mine"]["run"].iloc[0]
again = records.rerun(first, "runs/clothes").frame["test_accuracy"]
before = curves["mine"].query("run == @first")["test_accuracy"]
print("the same numbers" if again.tolist() == before.tolist() else "other numbers")

# %% [markdown]
# **Question 5 (4 points).** Hand in this notebook, `my_design.py`, the folder `runs`, and one page: the idea, the weights, question 2's sentence with its
# interval, and where the design fails.
