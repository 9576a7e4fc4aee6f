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
# :needs: weights on updates and private sizes, as the pages on weights and on data sampling explain them
# ```
#
# You have real clients, on machines that you do not control. Can you still choose them by the designs of this book? You can: with Flower, all but ten methods run unchanged on
# separate processes and machines. At the end of this page you will know
#
# - how to run a design with Flower, with your own clients and data;
# - what travels in a round, in bytes on the wire, and how far that is from the simulation's account;
# - what happens to the estimator when nodes fail, and what the server learns although no size is sent.

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
# ## How do you run a design on real machines?
#
# The rest of the book simulates a federation as a loop in one process. But a design only needs the answers that clients give to the server: sizes, squeezed gradients, reports. It cannot see whether
# the answers come from an array or from a machine in another town. `fedstas.flower` runs the same designs on [Flower](https://flower.ai), a
# framework for real machines. In Flower a server process, the *SuperLink*, stands in the middle; each client runs a *SuperNode*; and both run an app that they are given.
#
# Two commands start a federation on your machine:
#
# ```bash
# pip install -e ".[flower]"
# python examples/flower/deploy.py --nodes 5 "method='fedstas-unbiased'" rounds=10
# ```
#
# The second command starts one SuperLink and five SuperNodes, each with its own part of the digits. It trains, shows the cohort and the accuracy of
# each round, and stops everything that it started. The same app, `examples/flower`, runs in Flower's own simulation:
#
# ```bash
# flwr run examples/flower --stream --federation-config "num-supernodes=5"
# ```
#
# To run it on machines of your own, start `flower-superlink` on one machine and `flower-supernode --superlink HOST:PORT --node-config "partition-id=3"` on each of
# the others, then call `flwr run`. The last section adds the certificates. To use your own data, change one function, `load` in `examples/flower/federation/client.py`.
#
# **If you already have Flower clients,** you need not change them. `FedAvgWithDesign` takes the place of Flower's FedAvg in the server: the design
# chooses who trains and how much each update counts, while optimiser, loaders and batch norm stay the clients' own.
#
# ```python
# strategy = FedAvgWithDesign("clustered-similarity", clients_per_round=3)
# ```
#
# This works for designs that need only sizes and updates, because every client of FedAvg sends these. `plain_methods()` lists such designs, and all others are refused with
# the reason. If you do not give the sizes, all nodes train in the first round, and their answers contain the sizes. `examples/flower/plain_clients.py` is a whole app.
#
# ## Which messages make a round?
#
# The design asks the same questions as in the simulation, but the questions travel as messages. Nothing of the algorithm is written a second time: the design receives a view
# of the server, as before, and this view sends messages. This is the question for gradients:
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
# | `sketch` | `fedstas-least-variance` | every client | 64 signed sums of its gradient |
# | `gradient` | strata, `cube`, `divfl`, … | every client | levels and codes of its squeezed gradient |
# | `centres` | `hcsfed`, `fedsts-authors-dec`, `fedstas-authors-dec` | every client | the levels alone of its squeezed gradient |
# | `norm` | `optimal-client-sampling` | every client | the norm of its gradient |
# | `loss` | `power-of-choice` | its candidates | their mean loss |
# | `spread` | `fedstas-optimal-data` | participants | the standard deviation of its example gradients |
# | `report` | `fedstas-dp`, `fedsampling`, … | participants, or all | a {term}`reported size` |
# | `train` | every method | participants | a model for each of its places in the cohort |
#
# A question is asked only if the design needs the answer, so `fedavg` never sees a gradient and `fedstas-unbiased-dp` never sees a size. Random numbers are
# keyed as in the simulation, by seed, round and place in the cohort. Therefore the runs agree. The tests run `fedavg`, `md`, `fedstas` and
# `fedstas-unbiased-dp` for ten rounds, in Flower's simulation and on five SuperNodes, and find the same cohorts and, up to rounding errors, the same model.
# For all other methods the tests turn the messages into bytes and back.
#
# Ten methods are refused. No server of real nodes can know the labels that `target` needs. `centralised` has no clients. `fedstas-dp-authors-dec` is called
# private but asks for true sizes. `hics-fl` needs to know where the last layer is, but the server has no network. The three methods `*-authors-2025`
# need gradients of the last layer, which nodes do not send. `scaffold`, `cluster-fedvarp` and `fednova` ask
# clients or server for more than these messages hold. A design of your own runs as it does in the simulation. Servers with an update memory (`fedvarp`, `mifa`)
# weigh updates by sizes, or by $1/N$ if the design hides sizes or counts all clients alike. They are refused in two cases: where only the data sampling is private, because then they need sizes that no client sends, and in methods that weight examples instead of clients.
#
# ## What is on the wire?
#
# On the wire is what the simulation accounts, plus bytes that do not depend on the size of the model. The simulation counts four bytes for each parameter of a model. For a squeezed gradient it counts the levels
# and $\lceil \log_2 d' \rceil$ bits for each code. How far is this from what a network card sees? We put a counter between five SuperNodes and the
# SuperLink that recorded all bytes by their purpose.

# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show how the bytes are added up", "code_prompt_hide": "Hide how the bytes are added up"}
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
# :figclass: wide
# :alt: Two panels of horizontal bars, digits on the left and MNIST on the right: the bytes that passed between five SuperNodes and the SuperLink in ten rounds, split into models and gradients, messages, the app and everything else, divided by the bytes that the simulation accounts. A black line marks one, the account. With the small model of the digits the bars reach up to almost four, with that of MNIST they end close to one.
#
# Bytes between five SuperNodes and the SuperLink in ten rounds, per byte that the simulation accounts. The requests that carry models and gradients are counted
# with their headers.
# ```
#
# ```{provenance} Figure
# ```

# %% tags=["remove-input", "hide-output"] mystnb={"code_prompt_show": "Show the table", "code_prompt_hide": "Hide the table"}
table(ch08.tabulate_bytes(wire))

# %% [markdown]
# The bytes were recorded on {glue:text}`ch8_date` with Flower {glue:text}`ch8_flwr`, by `tests/flower/measure.py`, between processes of one machine and without TLS. The difference between the account and the wire contains nothing that grows with the model.
# It has three parts. Each array has a header, and Flower cuts a message into objects, each of which takes an HTTP request of about a kilobyte with its answer. A node asks
# for messages every three seconds, which costs an idle node {glue:text}`ch8_idle:.0f` bytes a second, both ways together. And the app itself travels once to each node
# in a run ({glue:text}`ch8_app:.0f` kB).
#
# For each message that is answered, the difference is {glue:text}`ch8_up_low:.0f` to {glue:text}`ch8_up_high:.0f` kB up and {glue:text}`ch8_down_low:.0f` to {glue:text}`ch8_down_high:.0f` kB down,
# for both tasks. How much this matters depends on the size of the model. With the {glue:text}`ch8_small` parameters of the digits the wire carries {glue:text}`ch8_small_low:.1f` to
# {glue:text}`ch8_small_high:.1f` times the account, but with the {glue:text}`ch8_large` parameters of MNIST only {glue:text}`ch8_large_low:.2f` to
# {glue:text}`ch8_large_high:.2f` times. On average over all messages upwards, the difference is a tenth of what a model of about {glue:text}`ch8_threshold:,.0f` parameters takes; how it divides between messages with and without a model we did not measure.
# A message that carries only a squeezed gradient (with nine levels an eighth of a model) or a size is small, so its header weighs more. The account is
# that of the *algorithm*: in a test, the arrays in all messages add up to it within 0.2 %.
#
# ## What happens when nodes fail?
#
# When nodes fail, the round becomes a question of estimation, not only of programming. On real machines a client dies, is late, comes back, or sends nonsense. Every reply is checked in one
# place (`messages.read`): its version, and the type, shape, finiteness and range of each field. A reply that fails the check counts as no answer, even to the first question, and the run goes on.
#
# **A client fails before the cohort is drawn.** Then it is not in the federation of this round. The roster becomes shorter and the design draws again. $N$, sizes,
# strata and inclusion probabilities are those of the clients that are present. So the estimator stays what it was, for the objective of the clients that are present. Strata that the design
# remembers are made anew, because they belonged to another federation. Last updates of the remaining clients are kept. A node that joins or comes back is in the
# roster of the next round, with no last update.
#
# **A client fails after the draw.** Then the estimator changes. A participant is silent, or it sends numbers that are not finite or an array of the wrong shape. Its update is left out,
# and the other participants stand for it, with larger weights.
#
# ````{dropdown} The package's weights of those who answer
# ```{literalinclude} ../../fedstas/nonresponse.py
# :pyobject: reweight
# :language: python
# ```
# ````
#
# Survey statisticians adjust for unit nonresponse in this way, with the share of answers in the place of a probability of {cite:t}`horvitz1952generalization`. The adjustment is right if silence has nothing to do with the update. We tried both cases: five thousand
# cohorts of the corrected design, in which one client in four is silent. Before you look: how far off is the mean if large updates are more likely to be missing?

# %% tags=["hide-input"]
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
    """Draw which places of a cohort are answered: a client that is drawn twice
    answers in both or in neither. If none would answer, all do."""
    chance = 0.75 if cause == "at random" else 1 - late / 2
    answered = (rng.random(N) < chance)[cohort.clients]
    return answered if answered.any() else np.ones_like(answered)


# %% tags=["hide-input"]
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
# If the silent clients simply counted as zero, a quarter of the step would be missing ({glue:text}`ch8_zero:.2f` of the target). If clients are silent at random,
# letting the others stand for them restores it: {glue:text}`ch8_stand:.2f`, which is the target within the error of the simulation. (Exactly unbiased these weights are not: where a whole stratum is silent its weight goes to the others, and a client that was drawn twice is silent in both places.) But if large updates are
# missing more often, these weights do not repair it: {glue:text}`ch8_informative:.2f`. No weights that only use who answered can, because the server would have to know how the probability of an answer depends on the update.
#
# Over many rounds the server can do better. It sees how often each client answered when it was drawn, and can divide the client's weight by this frequency:


# %%
def follow(rounds=300, skipped=100):
    """Return the estimates of a run's later rounds, a pair for each: divided by
    the frequency of answers so far, and with the others standing in."""
    asked, came, values = np.zeros(N), np.zeros(N), []
    for _ in range(rounds):
        cohort = draw()
        clients, answered = cohort.clients, answers(cohort, "large ones")
        np.add.at(asked, clients, 1)
        np.add.at(came, clients[answered], 1)
        who = clients[answered]
        divided = cohort.weights[answered] * asked[who] / came[who]
        others = reweight(cohort, answered) @ updates[clients]
        values.append((divided @ updates[who], others))
    return np.array(values[skipped:]) / target


runs = np.array([follow() for _ in range(40)])

# %% tags=["remove-cell"]
by_frequency, by_others = runs.mean((0, 1))
spread_frequency, spread_others = runs.std((0, 1))
uncertain = runs[..., 0].mean(1).std(ddof=1) / np.sqrt(len(runs))
glue_values("ch8", by_frequency=by_frequency, by_others=by_others, uncertain=uncertain)
glue_values("ch8", spread_frequency=spread_frequency, spread_others=spread_others)
expect("the mean is the target within the error", abs(by_frequency - 1) < 0.04, mean=by_frequency)
expect("No weights that only use who answered can", abs(by_others - 1) > 0.05, mean=by_others)
expect("The price is more variance", spread_frequency > 1.2 * spread_others)
expect("no weights that only use who answered in the round repair it", abs(by_frequency - 1) < 0.04 < abs(by_others - 1))  # fmt: skip

# %% [markdown]
# Over the rounds 101 to 300 of forty runs the mean is the target within the error of the simulation: {glue:text}`ch8_by_frequency:.3f` of the target, with a standard error of
# {glue:text}`ch8_uncertain:.3f`. If the others stand in instead, it is {glue:text}`ch8_by_others:.3f`. The price is more variance: the standard deviation of a round grows from {glue:text}`ch8_spread_others:.2f` to
# {glue:text}`ch8_spread_frequency:.2f`. The frequency helps here because a client's probability of answering is the same in each round. If it changes from round to round together with the client's update, a
# frequency over many rounds does not show it, and the bias stays.
#
# The table says what happens to the main methods (*at random*: silence has nothing to do with the update):
#
# | method | how silent participants are treated | is it still unbiased? |
# | --- | --- | --- |
# | `fedavg`, `md`, `fedprox`, server optimisers, `power-of-choice`, `divfl`, `cyclic` | weights normalised over the respondents | as before, if at random and no client is drawn twice |
# | `fedavg-unbiased`, `fedstas-unbiased`, without replacement too | $m_h / r_h$ within the stratum, with $r_h$ answers of $m_h$ | yes, if at random, each stratum has an answer and no client is drawn twice |
# | `strat` | the same | yes, on the same conditions, for the plain mean of all clients |
# | `fedsts`, `fedstas` | the same | biased as before |
# | `clustered-*` | normalised, as for `md` | yes, if at random and no client is drawn by two rows |
# | `fedstas-least-variance` | a stratum has one draw, so the weight of a silent client goes to the others in proportion | no: other strata represent a stratum that is silent |
# | `poisson`, `optimal-client-sampling`, `k-vib`, `cube`, `local-pivotal`, `fedvarp` | $m/r$ over the cohort, with $r$ answers of $m$ | yes, given the cohort, if at random and anyone answers |
# | `fedsampling` | the same | biased as before |
# | `mifa` | not at all: the last update of a silent client counts again | biased towards the past, as before |
#
# If fewer participants answer than a quorum (half of the cohort by default), the run stops with a sentence that says who failed and why. If it was given a file for its `state`, it continues from its last round when it is started again; otherwise it starts anew.
# A late answer is never used in a later round, because it was computed from another $w_t$. A cohort can be empty from the start, because independent draws can select
# nobody. This is no failure: nothing is sent, and the model stays.
#
# ## What does the server learn?
#
# In the private methods no client is asked for its size, but the server learns much else. The only number about a size that is sent is the randomised report: with probability $\alpha$ it is the true size, clipped at $M - 1$, and the server cannot tell when. Tests with sizes above the cap read every message of every round and look for sizes among all numbers and shapes, sample counts
# included, and find none. Flower's own strategies weight each client by `num-examples`; the private methods never ask for it. Errors of a client are
# sent without their text, because PyTorch's messages would name a shape. What the server can *infer* is another matter.
#
# **An update is a gradient.** After one local step, the model that a client returns is $w_t$ less the learning rate times its gradient. So the server computes it back from the model alone, here
# for a client of {glue:text}`ch8_task`:

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
# With three steps the server gets the sum of three gradients at three points. For a participant squeezing the gradient protects nothing, because its model tells the rest.
#
# **A gradient tells labels.** The derivative with respect to the bias of output $c$ is the mean predicted probability of class $c$ less its share among the
# client's examples. At $w_0$ all predictions are near $1/C$. So the most negative of these $C$ numbers in the squeezed gradient names the client's most frequent label:

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
# The guess is right for {glue:text}`ch8_labels:.0f` % of {glue:text}`ch8_n` clients, against {glue:text}`ch8_chance:.0f` % by chance. The method `target` needs an oracle for the labels, but the server
# reads off the gradients that it needs for its strata what the oracle would say of most clients.
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
# Therefore a node of `fedstas.flower` draws its reports from the system's entropy, or from a `secret` of its own, which makes its
# memoised report the same in every run. The public seed is used only if the node sets `reproducible`, for tests. The draws of examples do come from the public seed, so the server can
# tell which *places* in a shard were used, though not what is there. You may therefore claim no privacy by subsampling.
#
# **A privacy loss that the server may set protects nothing either.** A server that asks for a report with $\alpha = 1$ asks for the true size. So each node has a configuration of its
# own: `epsilon`, `size-cap`, `memoised`, and the largest number of `reports` that it gives in a run. It computes $\alpha$ itself. It refuses a question that
# names another $\alpha$, or that asks for one report more. So many fresh reports cost up to so many times its $\epsilon$; with `memoised` they are all the same report, and cost it once. With an `epsilon` it never tells its size, whatever method the run names; without one it gives no reports.
# It does tell gradients, their norms and losses. They are means over its examples, so they would be the same if each example were there twice. So they do not state the size, but they hide
# nothing else.
#
# **Side channels remain.** Flower reports with each answer how long the client worked, and this time grows with its size: for gradients, sketches, norms and losses always, since they go over all its examples, and for training as long as it has fewer examples than a batch. A client without
# data says so in its first message. FedSampling multiplies updates by the number of drawn examples, so whoever knows the mean update learns that number. The $\epsilon$ of
# {doc}`the page on size reports <03_data_sampling>` covers none of this, because it is that of the reports alone. To hide updates as well, you need secure aggregation or noise on the updates. That is another
# method with another accuracy.
#
# ## How do you set up TLS and authentication?
#
# You configure them, and change no code. On one machine `deploy.py` starts everything with `--insecure`. Between machines, Flower encrypts and authenticates:
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
#   --auth-supernode-private-key keys/node_3 --node-config "partition-id=3 secret=8150297 epsilon=3.0 memoised=true reports=10"
# ```
#
# TLS keeps others from reading the messages, but it hides nothing from the SuperLink. Authentication matters to the *design*, because the weights assume that each client is itself, once.
# Without authentication anyone can join under a number that is taken, and the server takes the intruder for that client, as it would a node that was restarted. Authentication keeps strangers out, but it does not tie a number to a key: a registered node can still claim the number of another. A node can also insist on apps that
# someone it trusts has signed (`--trusted-entities`). It should, because the app decides what is sent.
#
# ## What we learned
#
# - The designs run unchanged on real processes. Only the view is new: it asks in messages, and the runs equal the simulation's.
# - The simulation accounts the bytes of the algorithm. Flower adds bytes for each message, for each second of waiting and once for the app, and none of this grows with the model.
# - Silence after the draw changes the estimator. The factor $m_h/r_h$ keeps it unbiased if clients are silent at random. If silence depends on the update, no weights that only use who answered in the round repair it. Over
#   many rounds the server can divide by how often each client answered, at the price of more variance, if each client's probability of answering stays the same.
# - Sending no size does not mean that nothing is learned: gradients, labels and running times tell much.
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
# Every client sends $d'$ floats and a code for each parameter, and every participant sends a model. If your answer is eight times too large, you counted bits. If it is far too small, you forgot
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
# Level 2. Write `stand_for(weights, strata, answered)` for Hansen–Hurwitz weights, if each stratum has at least one answer. It returns a list of
# weights, with 0 for the silent clients. `check.answer("federation/stand-for", stand_for)`
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch8-stand
# :label: sol-ch8-stand
# :class: dropdown
# ````
# The weights contain $1/m_h$. Of the $m_h$ draws $r_h$ are left, and they are draws from the same $p$. If your weights sum to one, you normalised
# them; Hansen–Hurwitz weights sum to one only on average.


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
# Level 3. Two clients have the updates 0 and 1, and both are asked. Find probabilities of answering, each at least 1/2, so that the mean of those who answer, given that anybody
# does, is off by more than 0.15. `check.answer("federation/not-at-random", (updates, chances))`
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch8-silence
# :label: sol-ch8-silence
# :class: dropdown
# ````
# With probabilities $q_0, q_1$ the mean is $\frac{q_0 q_1/2 + (1 - q_0) q_1}{1 - (1-q_0)(1-q_1)}$: at $q_0 = 1/2$ and $q_1 = 0.95$ it is
# {glue:text}`ch8_bent:.2f` instead of 0.5. Neither probability is small, and yet the bias is large. Equal probabilities are refused, whatever they are, because such silence makes the
# cohort smaller and biases nothing.

# %%
print(check.answer("federation/not-at-random", ((0, 1), (0.5, 0.95))))

# %% tags=["remove-cell"]
q0, q1 = 0.5, 0.95
bent = (q0 * q1 / 2 + (1 - q0) * q1) / (1 - (1 - q0) * (1 - q1))
glue_values("ch8", bent=bent)
expect("and yet the bias is large", bent - 0.5 > 0.15, mean=bent)

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ## Further reading
#
# {cite:t}`mcmahan2017communication` introduced federated averaging; {cite:t}`horvitz1952generalization` undo unequal probabilities by weights;
# {cite:t}`dwork2006differential` says what a promise of privacy is worth. Flower's own documentation covers deployment, TLS and authentication in full.
