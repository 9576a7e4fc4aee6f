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
# # From the page to a federation
#
# ```{at-a-glance}
# :needs: weights on updates (chapter 1), private sizes (chapter 3)
# ```
#
# At the end you will know
# - how to run every method of this book on separate processes and machines, with Flower;
# - what travels in a round, in bytes on the wire, and what it costs beyond the simulation's account;
# - what becomes of the estimator when nodes die, and what the server learns although no size is sent.

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of every random draw
device: str = "auto"  # auto, cpu or cuda
task: str = None  # digits, mnist, fashion-mnist, cifar10 or cifar100
clients: int = None  # number of clients
clients_per_round: int = None  # participants of a round
levels: int = None  # levels of a squeezed gradient
concentration: float = None  # of the Dirichlet partition

# %% tags=["hide-input"]
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from companion import ch08, chapters, check, plots
from companion.pages.prose import expect, glue_figure, glue_values, table
from fedstas import engine, methods, models, partition, privacy, simulation, tasks
from fedstas.client_sampling import Cohort
from fedstas.compression import squeeze
from fedstas.nonresponse import reweight
from fedstas.sim.rng import stream

s = chapters.settings("08_federation", globals())
plots.set_page_style()

# %% [markdown]
# So far a federation was a loop in one process. But a design only needs what the server is told: sizes, squeezed gradients, reports. It cannot see whether these
# come from an array or from a machine in another town. `fedstas.flower` runs the same designs on [Flower](https://flower.ai), a
# framework for real machines. A *SuperLink* stands in the middle, each client runs a *SuperNode*, and both run an app that they are handed.
#
# ## How to run it
#
# With two commands, on your machine or on many.
#
# ```bash
# pip install -e ".[flower]"
# python examples/flower/deploy.py --nodes 5 "method='fedstas-unbiased'" rounds=10
# ```
#
# starts one SuperLink and five SuperNodes on your machine, each with its own part of the digits. It trains, shows the cohort and the accuracy of
# each round, and stops everything that it started. The app in `examples/flower` is the same in Flower's own simulation,
#
# ```bash
# flwr run examples/flower --stream --federation-config "num-supernodes=5"
# ```
#
# and on machines of your own. Run `flower-superlink` on one, `flower-supernode --superlink HOST:PORT --node-config "partition-id=3"` on each of
# the others, and `flwr run`. The last section adds the certificates. To bring your own data, change one function, `load` in `examples/flower/federation/client.py`.
#
# **If you have clients already**, leave them as they are. `FedAvgWithDesign` takes the place of Flower's FedAvg in the server: the design
# chooses who trains and how much each update counts. Optimiser, loaders and batch norm are the clients' own.
#
# ```python
# strategy = FedAvgWithDesign("clustered-similarity", clients_per_round=3)
# ```
#
# That works for designs that need sizes and updates alone, which every client of FedAvg sends: `plain_methods()` lists them, and the others are refused with
# the reason. Unless you give the sizes, all nodes train in the first round, whose answers hold them. `examples/flower/plain_clients.py` is a whole app.
#
# ## One round, in messages
#
# The design asks the same questions as in the simulation, now in messages. Nothing of the algorithm is written a second time: the design is handed a view
# of the server, as before, and this view sends messages. Here is the question for gradients:
#
# ```{literalinclude} ../../fedstas/flower/nodes.py
# :pyobject: Nodes.gradients
# :language: python
# ```
#
# | question | asked by | of | the answer |
# | --- | --- | --- | --- |
# | `hello` | the roster | every node, once | its number; whether it has data |
# | `size` | `fedavg`, `md`, `fedstas`, … | every client, once | its true size; refused in private methods |
# | `labels` | `stratified-labels`, `fed-cbs` | every client, once | its number of examples of each class; refused where its size is private |
# | `sketch` | least variance | every client | 64 signed sums of its gradient |
# | `gradient` | strata, `cube`, `divfl`, … | every client | levels and codes of its squeezed gradient |
# | `norm` | `optimal-client-sampling` | every client | the norm of its gradient |
# | `loss` | `power-of-choice` | its candidates | their mean loss |
# | `report` | `fedstas-dp`, `fedsampling`, … | participants, or all | a {term}`reported size` |
# | `train` | every method | participants | a model for each of its places in the cohort |
#
# A question is asked only if the design asks it: `fedavg` never hears of a gradient, `fedstas-unbiased-dp` never of a size. Random numbers are
# keyed as in the simulation, by seed, round and place in the cohort. So the runs agree. The tests run `fedavg`, `md`, `fedstas` and
# `fedstas-unbiased-dp` for ten rounds, in Flower's simulation and on five SuperNodes. They ask for the same cohorts and, to float tolerance, the same model.
# All other methods are compared over messages that are turned into bytes and back.
#
# Ten methods are refused: `target`, because no server of real nodes can know their labels, `centralised`, and `fedstas-dp-authors-dec`, which is called
# private and asks for true sizes. `hics-fl` needs the last layer's place, and the server has no network. The three methods `*-authors-2025`
# need gradients of the last layer, which nodes do not send. `scaffold`, `cluster-fedvarp` and `fednova` ask
# clients or server for more than these messages hold. A design of your own runs as it does in the simulation. A server that remembers updates (`fedvarp`, `mifa`)
# weighs them by sizes, or by $1/N$ where the design hides sizes. It is refused in methods that hide only how many examples a client draws.
#
# ## What is on the wire?
#
# What the simulation charges, and a fixed sum for each message. The simulation counts four bytes for each parameter of a model. For a squeezed gradient it counts its levels,
# and $\lceil \log_2 d' \rceil$ bits for each code. How far is that from what a network card sees? A gate between five SuperNodes and the
# SuperLink counted all that passed, by what it was for.

# %%
# ten rounds of each method
measurements = json.loads(Path("examples/flower/bytes.json").read_text(encoding="utf-8"))
# models and gradients are sent as objects; the rest is Flower's overhead
PURPOSE = {
    "push-object": "models, gradients",
    "pull-object": "models, gradients",
    "push-messages": "messages",
    "pull-messages": "messages",
    "confirm-message-received": "messages",
    "get-fab": "the app",
    "get-run": "the app",
}


def summarise_traffic(run, way):
    """Return the bytes in one direction, by purpose, and those that the
    simulation accounts."""
    bytes_by_purpose = Counter(dict.fromkeys(ch08.PARTS, 0))
    for kind, count in run[way].items():
        bytes_by_purpose[PURPOSE.get(kind, "everything else")] += count
    row = {key: run[key] for key in ("task", "method", "parameters")}
    messages = run["requests"]["push-messages"]  # messages with their answers
    row |= {"way": way, "accounted": run["accounted"][way]}
    return row | {"answered": messages} | bytes_by_purpose


both = ("up", "down")
wire = [summarise_traffic(run, way) for run in measurements["runs"] for way in both]
wire = pd.DataFrame(wire)
total = wire[list(ch08.PARTS)].sum(axis=1)
wire["ratio"] = total / wire["accounted"]
# bytes for each message
wire["beyond"] = (total - wire["accounted"]) / wire["answered"]
nodes, idle = measurements["nodes"], measurements["idle"]
# a tenth of four bytes each
threshold = wire[wire["way"] == "up"]["beyond"].mean() / 0.4

# %% tags=["remove-input"]
glue_figure("ch8_figure_wire", ch08.draw_bytes(wire))
low, high = wire.groupby("way")["beyond"].min() / 1e3, wire.groupby("way")["beyond"].max() / 1e3
glue_values(
    "ch8", up_low=low["up"], up_high=high["up"], down_low=low["down"], down_high=high["down"]
)
ratio, app = wire.groupby("task")["ratio"], measurements["runs"][0]
glue_values("ch8", small_low=ratio.min()["digits"], small_high=ratio.max()["digits"])
glue_values("ch8", large_low=ratio.min()["mnist"], large_high=ratio.max()["mnist"])
glue_values("ch8", small=f"{wire['parameters'].min():,}", large=f"{wire['parameters'].max():,}")
glue_values(
    "ch8",
    idle=(idle["up"] + idle["down"]) / idle["seconds"] / nodes,
    threshold=round(threshold, -3),
)
glue_values("ch8", app=sum(app[way]["get-fab"] for way in ("up", "down")) / nodes / 1e3)
glue_values("ch8", flwr=measurements["flwr"], date=measurements["date"])
expect("nothing that grows with the model", max(high / low) < 1.5, **(high / low))

# %% [markdown]
# ```{glue:figure} ch8_figure_wire
# :name: fig-ch8-wire
# :alt: Two panels of horizontal bars, digits above and MNIST below: the bytes that passed between five SuperNodes and the SuperLink in ten rounds, split into models and gradients, messages, the app and everything else, divided by the bytes that the simulation accounts. A black line marks one. With the small model of the digits the bars reach up to almost four, with that of MNIST they end close to one.
#
# Bytes between five SuperNodes and the SuperLink in ten rounds, per byte that the simulation accounts (vertical line). Models and gradients are the
# requests that carry them, headers included.
# ```
#
# ```{provenance} Figure
# ```

# %% tags=["remove-input"]
table(ch08.tabulate_bytes(wire))

# %% [markdown]
# Recorded on {glue:text}`ch8_date` with Flower {glue:text}`ch8_flwr`, by `tests/flower/measure.py`. Between the account and the wire lies nothing that grows with the model.
# There is a header for each array, and an HTTP request for each of the objects into which Flower cuts a message (about a kilobyte, with its answer). A node looks
# for messages every three seconds, and for an idle one that makes {glue:text}`ch8_idle:.0f` bytes a second, both ways. The app itself travels once a run
# and node ({glue:text}`ch8_app:.0f` kB).
#
# Together it is {glue:text}`ch8_up_low:.0f` to {glue:text}`ch8_up_high:.0f` kB up and {glue:text}`ch8_down_low:.0f` to {glue:text}`ch8_down_high:.0f` kB down for each message
# that is answered, for both tasks. With the {glue:text}`ch8_small` parameters of the digits that makes {glue:text}`ch8_small_low:.1f` to
# {glue:text}`ch8_small_high:.1f` times the account. With the {glue:text}`ch8_large` of MNIST it is {glue:text}`ch8_large_low:.2f` to
# {glue:text}`ch8_large_high:.2f` times. For a message that carries a model the difference is below 10 % both ways from about {glue:text}`ch8_threshold:,.0f` parameters on.
# A message that carries only a squeezed gradient (at nine levels an eighth of a model) or a size is small, and there the header weighs more. The account is
# that of the *algorithm*: in a test, the arrays in all messages add up to it within 0.2 %.
#
# ## When nodes fail
#
# Then the round becomes a question of estimation, not only of programming. On real machines a client dies, is late, comes back, or sends nonsense. Every reply is read at one
# place (`messages.read`): its version, and the type, shape, finiteness and range of each field. What is not as asked for counts as no answer, also to the
# first question, and the run goes on.
#
# *Before the cohort is drawn*, a client that does not answer soundly is not in the federation of this round. The roster is shortened and the design draws again. $N$, sizes,
# strata and inclusion probabilities are those of the clients who are there. So the estimator stays what it was, for the objective of those who are there. Remembered
# strata are made anew, since they were those of another federation. Last updates stay with the clients who stay. A node that joins or comes back is in the
# roster of the next round, with no update to remember.
#
# *After the draw* it is different. A participant is silent, or sends numbers that are not finite or an array of the wrong shape. Its update is left out,
# and the others stand for it:
#
# ```{literalinclude} ../../fedstas/nonresponse.py
# :pyobject: reweight
# :language: python
# ```
#
# This is how survey statisticians adjust for unit nonresponse {cite:p}`horvitz1952generalization`. It is right if silence has nothing to do with the update. Try both: five thousand
# cohorts of the corrected design, one client in four silent. Before you look: how far off is the mean if large updates are the likelier to be missing?

# %%
REPEATS, rng = 5000, stream(s.seed, "chapter 8, silence")
N, m = s.clients, s.clients_per_round
H = min(5, m)
strata = np.arange(N) % H
norms = np.exp(rng.normal(strata, 0.5))  # updates of a stratum are alike
updates = norms * rng.choice([0.5, 1.0], N)
target = updates.mean()
p = norms / np.bincount(strata, norms)[strata]
members = [np.flatnonzero(strata == h) for h in range(H)]
# 0 for the smallest update, 1 for the largest
late = np.argsort(np.argsort(norms)) / (N - 1)


def draw():
    """Draw a cohort of the corrected design: by norm within each stratum,
    with the inverse weights."""
    selected = np.concatenate([rng.choice(k, m // H, p=p[k]) for k in members])
    return Cohort(selected, 1 / (N * (m // H) * p[selected]), strata[selected])


def answers(cohort, cause):
    """Draw which clients of a cohort answer; if none would, all do."""
    chance = 0.75 if cause == "at random" else 1 - late[cohort.clients] / 2
    answered = rng.random(len(cohort.clients)) < chance
    return answered if answered.any() else np.ones_like(answered)


# %%
estimates = {}
for cause in ("at random", "large ones"):
    cohorts = (draw() for _ in range(REPEATS))
    draws = [(cohort, answers(cohort, cause)) for cohort in cohorts]
    ways = {
        "everybody answers": lambda cohort, answered: cohort.weights,
        "the silent count as 0": lambda cohort, answered: cohort.weights * answered,
        "others stand for them": reweight,
    }
    for estimator, weigh in ways.items():
        values = [weigh(c, answered) @ updates[c.clients] for c, answered in draws]
        estimates[cause, estimator] = np.array(values) / target
ratio = {key: values.mean() for key, values in estimates.items()}

# %% tags=["remove-input"]
zero, stand = (ratio["at random", x] for x in ("the silent count as 0", "others stand for them"))
informative = ratio["large ones", "others stand for them"]
glue_values("ch8", zero=zero, stand=stand, informative=informative)
expect("a quarter of the step would be missing", abs(zero - 0.75) < 0.05, mean=zero)
expect("letting the others stand for them restores it", abs(stand - 1) < 0.05, mean=stand)
expect("these weights do not repair it", abs(informative - 1) > 0.05, mean=informative)
table(ch08.tabulate_nonresponse(estimates))

# %% [markdown]
# If the silent simply counted as zero, a quarter of the step would be missing ({glue:text}`ch8_zero:.2f` of the target). Where silence is at random,
# letting the others stand for them restores it: {glue:text}`ch8_stand:.2f`. What is left of a bias comes from cohorts in which a whole stratum was silent. Where large updates are
# missing more often, these weights do not repair it: {glue:text}`ch8_informative:.2f`. Others would need each client's chance to answer, which the server
# does not know. Nor can the run test for it: those who could tell did not answer.
#
# What becomes of each method (*at random*: silence has nothing to do with the update):
#
# | method | silent participants | and unbiasedness |
# | --- | --- | --- |
# | `fedavg`, `md`, `fedprox`, server optimisers, `power-of-choice`, `divfl`, `cyclic` | weights normalised over the respondents | as before, if at random |
# | `fedavg-unbiased`, `fedstas-unbiased`, without replacement too | $m_h / r_h$ within the stratum | kept, if at random and each stratum has an answer |
# | `strat`, `fedsts`, `fedstas` | the same | biased as it was |
# | `clustered-*` | normalised, as for `md` | lost: a row that is silent is represented by other rows |
# | `fedstas-least-variance` | one seat a stratum: the weight of a silent one goes to the others in proportion | lost: the other strata represent it |
# | `fedsampling`, `poisson`, `optimal-client-sampling`, `k-vib`, `cube`, `local-pivotal`, `fedvarp` | $m/r$ over the cohort | kept, if at random and anyone answers |
# | `mifa` | none: its last update counts again | biased towards the past, as it was |
#
# Below a quorum (half of the cohort by default) the run stops with a sentence that says who failed and why. It goes on from its last round when started again.
# A late answer is never used in a later round: it was made from another $w_t$. A cohort that is empty from the start, as independent coins can
# make it, is no failure. Nothing is sent, and the model stays.
#
# ## What does the server learn?
#
# No true size in the private methods, and much else. Tests read every message of every round and look for sizes among all numbers and shapes, sample counts
# included. Flower's own strategies weight by `num-examples` of each client; ours never ask. Errors of a client are
# sent without their text, since PyTorch's would name a shape. That is what is *not sent*. What can be *inferred* is another matter.
#
# **An update is a gradient.** After one local step the model that a client returns is $w_t$ less the learning rate times its gradient. So the server computes it back, here
# for a client of {glue:text}`ch8_task`, from the model alone:

# %%
task_ = tasks.load(s.task)
sizes_ = s.clients, s.concentration
federation = partition.dirichlet(task_.train_y, *sizes_, seed=s.seed)
module = task_.model(s.seed)
w = models.flatten(module)
shards = [federation.shards[k] for k in federation.with_data]
data = engine.pool(task_.train_x, task_.train_y, shards)
gradients = np.stack([g.numpy() for g in engine.client_gradients(module, w, data)])

method = methods.get("fedstas-unbiased-dp", steps=1, batch=10**6)
first = Cohort(np.array([0]), np.ones(1))
idx, weight, _ = simulation.draw_batches(method, data, first, [1.0], s.seed, 1)
sent = engine.local_updates(module, w, data, idx, weight, lr=method.local.lr)[0]
recovered = ((w - sent) / method.local.lr).numpy()
error = np.linalg.norm(recovered - gradients[0]) / np.linalg.norm(gradients[0])
print(f"relative error of the recovered gradient: {error:.1e}")

# %% [markdown]
# With three steps it is the sum of three gradients at three points. Squeezing the gradient protects nothing that the model does not then tell.
#
# **A gradient tells labels.** The derivative by the bias of output $c$ is the mean predicted probability of class $c$ less its share among the
# client's examples. At $w_0$ all predictions are near $1/C$. So the most negative of $C$ numbers in the squeezed gradient names the client's most frequent label:

# %%
classes = task_.classes
squeezed = squeeze(gradients, s.levels).restore()
guess = squeezed[:, -classes:].argmin(axis=1)
truth = federation.label_counts[federation.with_data].argmax(axis=1)
labels = np.mean(guess == truth)
print(f"majority labels that the server guesses right: {labels:.0%}")

# %% tags=["remove-cell"]
glue_values("ch8", task=s.task, labels=100 * labels, chance=100 / classes, n=len(truth))
expect("So the server computes it back", error < 1e-2, error=error)
expect("names the client's most frequent label", labels > 0.7, right=labels)
expect("reads off the gradients", labels > 0.7, right=labels)

# %% [markdown]
# It is right for {glue:text}`ch8_labels:.0f` % of {glue:text}`ch8_n` clients, against {glue:text}`ch8_chance:.0f` % by chance. What `target` called an oracle, the server
# reads off the gradients that it needs for its strata.
#
# **Randomness that the server knows protects nothing.** The simulation draws private reports from streams of the public seed. Whoever knows the seed
# knows which answers are true. We play the server, and replay each client's stream:

# %%
EPSILON, CAP = 3.0, 100
alpha = privacy.truth_probability(EPSILON, CAP)
correct = []
for k, n in enumerate(data.sizes):
    report_rng = stream(s.seed, "memoised report", k)
    report = privacy.report(n, size_cap=CAP, alpha=alpha, rng=report_rng)
    replay = stream(s.seed, "memoised report", k)
    replay.integers(1, CAP, size=())  # the random report
    if replay.random(()) < alpha:  # then the report is the true size
        correct.append(int(report) == min(max(n, 1), CAP - 1))
print(f"of {len(data.sizes)} reports the server knows {len(correct)} to be true")
assert all(correct)

# %% [markdown]
# So a node of `fedstas.flower` draws its reports from the system's entropy, or from a `secret` of its own that makes its
# memoised report the same in every run. The public seed is used only if the node sets `reproducible`, for tests. The draws of examples do come from the public seed: the server can
# tell which *places* in a shard were used, not what is there. No privacy by subsampling may be claimed.
#
# **A privacy that the server may set protects nothing either.** A server that asks for a report with $\alpha = 1$ asks for the true size. So a node has a configuration of its
# own: `epsilon`, `size-cap`, `memoised`, and the number of `reports` that it gives in a run at most. It computes $\alpha$ itself. It refuses a question that
# names another, or asks for one report more. With an `epsilon` it never tells its size, whatever method the run names; without one it gives no reports.
# Gradients, their norms and losses it does tell. They are means over its examples, the same if each were there twice. That hides its size and
# nothing else.
#
# **And the side doors.** Flower reports with each answer how long the client worked, which grows with its size once a batch is not full. A client without
# data says so in its first message. FedSampling's updates are multiplied by the number of drawn examples: who knows the mean update learns that number. None of this is
# covered by the $\epsilon$ of chapter 3, which is that of the reports alone. To hide updates as well takes secure aggregation or noise on them. That is another
# method with another accuracy.
#
# ## TLS and authentication
#
# They are configuration, not code. On one machine `deploy.py` starts everything with `--insecure`. Between machines, Flower encrypts and authenticates:
#
# ```bash
# # the server: a certificate for its name, and only nodes that were registered
# flower-superlink --ssl-ca-certfile ca.crt --ssl-certfile server.pem --ssl-keyfile server.key --enable-supernode-auth
#
# # once for each node, by the operator: its public key
# flwr supernode register keys/node_3.pub my-superlink
#
# # the node: checks the server's certificate, and shows its own key
# flower-supernode --superlink HOST:PORT --root-certificates ca.crt \
#   --auth-supernode-private-key keys/node_3 --node-config "partition-id=3 secret=8150297 epsilon=3.0 reports=10"
# ```
#
# TLS keeps others from reading along; it hides nothing from the SuperLink. Authentication matters to the *design*: the weights rest on each client being itself, once.
# Without it anyone can join under a number that is taken, and is then taken for that client after a restart. A node can also insist on apps that
# someone it trusts has signed (`--trusted-entities`). It should: the app decides what is sent.
#
# ## What we learned
#
# - The designs run unchanged on real processes. A view that asks in messages is all that is new, and the runs equal the simulation's.
# - The simulation's account is the algorithm's. Around it Flower sends a fixed sum for each message, whatever the model.
# - Silence after the draw changes the estimator. $m_h/r_h$ keeps it unbiased for silence at random. Where silence depends on the update, nothing
#   does that the server knows.
# - No size on the wire is not the same as nothing learned: labels, gradients and running times tell much.
#
# ## Exercises
#
# ```{exercise-start} What goes up
# :label: ex-ch8-bytes
# ```
# Level 1. Write `bytes_up(clients, participants, parameters, levels)`: what the simulation charges upwards for a round of FedSTaS in which strata are made,
# without sizes. `check.answer("federation/bytes", bytes_up)` says which input breaks it.
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch8-bytes
# :label: sol-ch8-bytes
# :class: dropdown
# ````
# Every client sends $d'$ floats and a code for each parameter, every participant a model. Eight times too much are bits. Far too little forgets
# that strata need a gradient of *every* client.


# %%
def bytes_up(clients, participants, parameters, levels):
    bits = 32 * levels + parameters * int(np.ceil(np.log2(levels)))
    return clients * -(-bits // 8) + participants * 4 * parameters


print(check.answer("federation/bytes", bytes_up))

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} Who stands for the silent
# :label: ex-ch8-stand
# ```
# Level 2. Write `stand_for(weights, strata, answered)` for Hansen–Hurwitz weights, if each stratum has at least one answer: a list of
# weights, 0 for the silent. `check.answer("federation/stand-for", stand_for)`
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch8-stand
# :label: sol-ch8-stand
# :class: dropdown
# ````
# The weights hold $1/m_h$; of the $m_h$ draws, $r_h$ are left, and they are draws from the same $p$. If your weights sum to one, you normalised
# them: Hansen–Hurwitz weights do so only on average.


# %%
def stand_for(weights, strata, answered):
    result = []
    for weight, h, flag in zip(weights, strata, answered, strict=True):
        of_h = [a for a, g in zip(answered, strata, strict=True) if g == h]
        result.append(weight * len(of_h) / sum(of_h) if flag else 0.0)
    return result


print(check.answer("federation/stand-for", stand_for))

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} Silence that tells
# :label: ex-ch8-silence
# ```
# Level 3. Two clients have the updates 0 and 1, and both are asked. Find chances to answer, each at least 1/2, so that the mean of those who answer, given that anybody
# does, is off by more than 0.15. `check.answer("federation/not-at-random", (updates, chances))`
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch8-silence
# :label: sol-ch8-silence
# :class: dropdown
# ````
# With chances $q_0, q_1$ the mean is $\frac{q_0 q_1/2 + (1 - q_0) q_1}{1 - (1-q_0)(1-q_1)}$: at $q_0 = 1/2$ and $q_1 = 0.95$ it is
# {glue:text}`ch8_bent:.2f` instead of 0.5. Neither chance is small, and the bias is large. Equal chances are refused, however small: such silence makes the
# cohort smaller and bends nothing.

# %%
print(check.answer("federation/not-at-random", ((0, 1), (0.5, 0.95))))

# %% tags=["remove-cell"]
q0, q1 = 0.5, 0.95
bent = (q0 * q1 / 2 + (1 - q0) * q1) / (1 - (1 - q0) * (1 - q1))
glue_values("ch8", bent=bent)
expect("the bias is large", bent - 0.5 > 0.15, mean=bent)

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ## Further reading
#
# {cite:t}`mcmahan2017communication` is where federated averaging begins; {cite:t}`horvitz1952generalization` is where unequal chances are undone by weights;
# {cite:t}`dwork2006differential` says what a promise of privacy is worth. Flower's own documentation covers deployment, TLS and authentication in full.
