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
# # What is a round estimating?
#
# ```{at-a-glance}
# :needs: averages, expectations and variances
# ```
#
# You run a federation of clients and can ask only a few of them in each round. Their answers stand for everybody else. For what exactly do they stand, how far off are they,
# and which errors disappear if you average over many rounds?
#
# At the end you will know
# - which sum over *all* clients a round of federated learning estimates, and with which weights;
# - what "unbiased" promises about a cohort drawn at random, and what it does not promise;
# - why the paper's weights belong on updates and not on models.
#
# ```{admonition} Words that all chapters use
# :class: dropdown
# - The *preprint* is {cite:t}`slessor2024fedstas`, and the *journal* version is the authors' manuscript of 2025, {cite:t}`slessor2025fedstas`.
#   *As written* is what these texts say, *as coded* is what the authors' released program of December 2024 does.
# - A *client* holds data. The *server* holds the model, and in each round it sends the model to a *cohort*: some clients, each with a weight.
# - A client's *update* is the model with which it ends, less the model that it was sent.
# - In code, `stream(seed, purpose, ...)` makes the random numbers of one purpose. `engine.pool` puts the examples of all clients into one
#   array, so that all clients can train at once.
# ```

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of every random draw
device: str = "auto"  # auto, cpu or cuda
task: str = None  # digits, mnist, fashion-mnist, cifar10 or cifar100
clients: int = None  # number of clients
clients_per_round: int = None  # participants of a round
rounds: int = None  # rounds of the live runs
concentration: float = None  # of the Dirichlet partitions

# %% tags=["hide-input"]
import numpy as np
import pandas as pd
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from companion import ch01, chapters, check, plots
from companion.pages.prose import expect, glue_figure, glue_values, table
from fedstas import aggregation, engine, methods, models, partition, simulation, tasks, theory
from fedstas.client_sampling import Cohort
from fedstas.sim.rng import stream

s = chapters.settings("01_aggregation", globals())
plots.set_page_style()

# %% [markdown]
# (six-clients)=
# ## The idea on six clients
#
# Six clients hold pictures of cats, dogs and birds. We will meet these six again in other chapters, always drawn in the same way: a client stands in a triangle, the nearer to a corner the more of
# its pictures show that animal, and its disc is the larger the more pictures it holds.

# %%
from itertools import combinations

from companion.pages import six_clients as six

omega_6 = six.SIZES / six.SIZES.sum()  # each client's share of all pictures
target_6 = omega_6 @ six.UPDATES  # what all clients together would do
cohorts = np.array([[k in c for k in range(6)] for c in combinations(range(6), 3)])
by_data = cohorts * six.SIZES
fedavg_6 = by_data / by_data.sum(axis=1, keepdims=True)  # shares of the cohort's data
scaled_6 = cohorts * omega_6 * 6 / 3  # omega_k, scaled by N/m
for name, a in (("FedAvg", fedavg_6), ("scaled", scaled_6)):
    print(f"{name}: mean of all {len(a)} rounds", (a.mean(0) @ six.UPDATES).round(4))
print("target:                 ", target_6.round(4))

# %% tags=["remove-input"]
one = np.flatnonzero(cohorts[:, [1, 3, 5]].all(axis=1))[0]  # B, D and F
estimates = fedavg_6 @ six.UPDATES
panels = {
    "a round of B, D and F": {
        "cohort": np.flatnonzero(cohorts[one]),
        "points": {"this round": estimates[one]},
    },
    "all twenty rounds": {"cohort": (), "cloud": estimates},
}
glue_figure("figure_six", six.draw(panels))
distances = np.linalg.norm(estimates - target_6, axis=1) / np.linalg.norm(target_6)
means_6 = [np.linalg.norm(a.mean(0) @ six.UPDATES - target_6) for a in (fedavg_6, scaled_6)]
glue_values("ch1", six_nearest=100 * distances.min(), six_furthest=100 * distances.max())
glue_values("ch1", six_bias=100 * means_6[0] / np.linalg.norm(target_6))
misses = [((a @ six.UPDATES - target_6) ** 2).sum(axis=1).mean() for a in (fedavg_6, scaled_6)]
rms, rms_scaled = 100 * np.sqrt(misses) / np.linalg.norm(target_6)
glue_values("ch1", six_rms=rms, six_rms_scaled=rms_scaled)
expect("single rounds miss by more", rms_scaled > rms + 5, fedavg=rms, scaled=rms_scaled)
expect("No round of the twenty hits the target", distances.min() > 0.01, nearest=distances.min())
expect("their mean misses the target too", means_6[0] > 0.01, bias=means_6[0])
expect("the mean of the twenty rounds is exactly the target", means_6[1] < 1e-12)
table(six.tabulate())

# %% [markdown]
# ```{glue:figure} figure_six
# :name: fig-six-clients
# :alt: Two triangles with corners cats, dogs and birds, and six clients A to F as discs: A to D near the cats, E between dogs and birds, F near the birds. A cross marks all clients. In the left triangle B, D and F are dark, and their average lies above the cross. In the right triangle twenty small dots, one for each possible round, lie around the cross.
#
# The six clients. The upright cross marks what all clients together hold, which is the target. Left: a round that asks B, D and F. Right: a dot for each of the
# twenty rounds that three different clients can make, weighted as FedAvg does.
# ```
#
# ```{provenance} Figure
# ```
#
# The model is as simple as can be: it has one number a class, and before training it predicts one third for each animal, whatever the picture. One step of SGD moves it by the client's
# shares of the animals, less one third. So an update is a point of the triangle as well, and so is whatever the server makes of a round.
#
# The server wants the cross, the update that *all* clients would make together. It can ask three clients, and there are twenty ways to choose three. No round of the twenty hits the target:
# with FedAvg's weights the nearest round is {glue:text}`ch1_six_nearest:.0f` % of the target's length away and the furthest {glue:text}`ch1_six_furthest:.0f` %. If each of the twenty rounds is equally likely,
# their mean misses the target too, by {glue:text}`ch1_six_bias:.0f` %. That is a *bias*, and no number of rounds averages it away. With the weights $\frac{N}{m}\omega_k$, which we explain below, the mean of the twenty rounds is exactly the target. That has a price: single rounds miss by more, {glue:text}`ch1_six_rms_scaled:.0f` % in root mean square instead of {glue:text}`ch1_six_rms:.0f` %. This chapter asks the same two questions of a real model: how far is one round off, and where is the mean?

# %% [markdown]
# ## What is minimised, and with which weights?
#
# Federated learning minimises a weighted sum of the clients' losses, and the paper uses two kinds of weights. Client $k$ holds $n_k$ examples,
# and its loss $F_k$ is the mean over these examples. The objective is
#
# ```{math}
# :label: eq-ch1-objective
# \begin{gathered}
# F(\boldsymbol{w}) = \sum_{k=1}^{N} \omega_k F_k(\boldsymbol{w}), \\
# \omega_k \ge 0, \quad \sum_{k=1}^{N} \omega_k = 1
# \end{gathered}
# ```
#
# (journal, eq. 2.1). If $\omega_k = n_k/n$, where $n$ counts all examples, this is the loss on all data put together. If
# $\omega_k = 1/N$, every client counts the same, however little it holds. Both targets are sensible, but they are two different targets.
#
# ```{admonition} The paper says: journal, eq. 2.1 and Algorithm 3
# :class: as-written
# The text counts a client by its data, in the objective (eq. 2.1) and in the aggregate of all clients (eq. 2.4). Algorithm 3 counts every client alike, and so does the aggregate in Assumption 5.
# ```
#
# This chapter takes the first target.
#
# ## Who holds what?
#
# Who holds what depends on how one sentence of the paper is read. The paper deals its data "into 100 clients" by a Dirichlet distribution, and the smaller the distribution's parameter, the
# fewer classes a client sees; at 0.01 the clients are highly imbalanced (preprint, Sec. 3.1). The sentence has two readings, and they give very different federations.
#
# ```{admonition} As written: preprint, Sec. 3.1
# :class: as-written
# "The dataset was partitioned into 100 clients." In a partition every example goes to exactly one client. So each class is dealt over the
# clients, and a client's size is whatever it receives. We call this reading *disjoint*.
# ```
#
# ```{admonition} As coded: their MNIST partition
# :class: as-coded
# Each client draws its own mixture of classes, and then draws its examples *with replacement*, the same number for all clients. Two clients may hold
# the same example. We call this reading *equal sizes*.
# ```

# %%
task = tasks.load(s.task, device=s.device)
labels, clients = task.train_y, s.clients
equal = np.full(clients, len(labels) // clients)  # examples for each client
skew = {"concentration": s.concentration, "seed": s.seed}
federations = {
    "disjoint": partition.dirichlet(labels, clients, **skew),
    "equal sizes": partition.dirichlet_fixed_size(labels, equal, **skew),
    "dealt at random": partition.iid(labels, clients, s.seed),
}

# %% tags=["remove-input"]
glue_figure("figure_partitions", ch01.draw_partitions(federations))
glue_values("ch1", task=s.task, concentration=float(s.concentration))
sizes = federations["disjoint"].sizes[federations["disjoint"].with_data]
least, most, empty = sizes.min(), sizes.max(), clients - len(sizes)
glue_values("ch1", least=least, most=most, clients=clients, with_data=len(sizes))
expect("clients differ in size, and not all hold data", most > 2 * least and empty > 0, empty=empty)
table(ch01.tabulate_partitions(federations))

# %% [markdown]
# ```{glue:figure} figure_partitions
# :name: fig-partitions
# :alt: Three panels of squares, clients from left to right and classes from bottom to top, the area of a square the number of examples. Disjoint: a few squares for each client, some large and some tiny. Equal sizes: a few for each client, alike in total. Dealt at random: small squares everywhere.
#
# Who holds what: a square's area is the number of examples that a client has of a class. Both Dirichlet partitions have the same concentration,
# {glue:text}`ch1_concentration:g`. In the disjoint partition clients differ in size, and not all hold data.
# ```
#
# ```{provenance} Figure
# ```
#
# Under the disjoint reading the sizes run from {glue:text}`ch1_least` to {glue:text}`ch1_most` examples here. A client
# that holds nothing cannot take part, so $N$ = {glue:text}`ch1_with_data` of the {glue:text}`ch1_clients` clients are left. Under equal sizes
# $n_k/n$ and $1/N$ are the same number, so a mix-up of the two would never be noticed. From here on we use the disjoint federation.

# %%
federation = federations["disjoint"]
# the examples of each client that has any
shards = [federation.shards[k] for k in federation.with_data]
n = np.array([len(shard) for shard in shards])
omega = n / n.sum()  # clients' weights: their shares of the data
N = len(n)
m = min(s.clients_per_round, N)  # m of N clients take part in a round

# %% [markdown]
# ## What does a client send back?
#
# Each client returns its trained model. What matters is the change from the model it started with. The server sends $\boldsymbol{w}_t$ to
# every participant. Each participant takes a few steps of SGD on its own examples (the journal's eq. 2.2) and returns its model $\boldsymbol{w}_{t+1}^k$. In
# plain PyTorch:

# %%
# the digits have 42 times fewer examples than MNIST
LR = 0.1 if s.task == "digits" else 0.01
module = task.model(s.seed)


def local_model(w, shard, rng, steps=3, batch=128):
    """Return a client's model after some steps of SGD from w on its
    examples."""
    vector_to_parameters(w.clone(), module.parameters())
    sgd = torch.optim.SGD(module.parameters(), lr=LR)
    for _ in range(steps):
        rows = rng.choice(shard, min(batch, len(shard)), replace=False)
        sgd.zero_grad()
        x, y = task.train_x[rows], task.train_y[rows]
        cross_entropy(module(x), y).backward()
        sgd.step()
    return models.flatten(module)


def local_models(w, cohort, seed, t):
    """Return the models [m, P] that the clients of a cohort send in round
    t."""
    rows = []
    for place, k in enumerate(cohort):
        rng = stream(seed, "data", t, place)
        rows.append(local_model(w, shards[k], rng))
    return torch.stack(rows)


# %% [markdown]
# The difference $\boldsymbol{\Delta}_k = \boldsymbol{w}_{t+1}^{k} - \boldsymbol{w}_t$ is the client's **update**. If the whole set $\mathcal{K}$ of clients took part,
# the server would form
#
# ```{math}
# :label: eq-target
# \begin{aligned}
# W(\mathcal{K}) &= \sum_{k=1}^{N} \omega_k \boldsymbol{w}_{t+1}^{k} \\
#   &= \boldsymbol{w}_t + \sum_{k=1}^{N} \omega_k \boldsymbol{\Delta}_k .
# \end{aligned}
# ```
#
# The last sum, the update of all clients, is **the target**. A {term}`cohort` of $m$ clients estimates the target, and this book is about how well it does so. To see this, we train a model for
# {glue:text}`ch1_rounds` rounds and then let *every* client compute its update. The package computes the same updates, all clients at once.

# %%
method = methods.get("md", lr=LR)  # explained below
settings = {
    "rounds": s.rounds,
    "clients_per_round": m,
    "seed": s.seed,
    "device": s.device,
}
history = simulation.run(task, federation, method, **settings)
w_t, t = torch.from_numpy(history.params).to(task.device), s.rounds + 1
client_models = local_models(w_t, range(N), s.seed, t)

data = engine.pool(task.train_x, task.train_y, shards)
all_clients, rates = Cohort(np.arange(N), omega), np.ones(N)
batches = simulation.draw_batches(method, data, all_clients, rates, s.seed, t)
package_models = engine.local_updates(module, w_t, data, *batches[:2], lr=LR)
torch.testing.assert_close(client_models, package_models, rtol=1e-4, atol=1e-6)

# %% [markdown]
# A model has thousands of parameters, but here only lengths and angles matter. The $N$ updates and the model itself are $N + 1$ vectors, so they lie in a space of at most $N + 1$ dimensions.
# A QR decomposition finds perpendicular axes of that space, and along these axes each vector has only $N + 1$ coordinates, with its lengths and angles unchanged. Our unit is the length of the target.

# %%
vectors = torch.vstack([client_models - w_t, w_t]).double().cpu().numpy()
# [N + 1, N + 1], coordinates with the same lengths and angles
coordinates = np.linalg.qr(vectors.T)[1].T
coordinates /= np.linalg.norm(omega @ coordinates[:N])
# the clients' updates, and the model that all start from
updates, common = coordinates[:N], coordinates[N]
target = omega @ updates
np.testing.assert_allclose(np.linalg.norm(target), 1)

# %% [markdown]
# ## What does unbiased promise?
#
# An unbiased estimate promises that the mean over all cohorts *that could have been drawn* is the target. It promises nothing about the cohort that was drawn.
#
# ```{admonition} As written: journal, eq. 2.3 and 2.4
# :class: as-written
# The *models* of the cohort $S_t$ are added with the weights $\frac{N}{m}\omega_k$, and a sampling scheme is called unbiased if
# $\mathbb{E}\big[\sum_{k \in S_t} \frac{N}{m} \omega_k \boldsymbol{w}_{t+1}^k\big] = \sum_k \omega_k \boldsymbol{w}_{t+1}^k$. In words (Sec. 6.1): although only a part of the clients trains,
# the expected aggregate remains representative of all.
# ```
#
# We can test this promise directly. We keep the updates that every client has just computed, and draw {glue:text}`ch1_R` cohorts, so that the only thing that
# varies is who was drawn. We weight each cohort of uniform draws in three ways; MD sampling, the fourth, draws {glue:text}`ch1_R` cohorts of its own:

# %%
R = 20_000
rng = stream(s.seed, "chapter 1")
# m distinct clients, uniformly: [R, N]
uniform = rng.random((R, N)).argsort(axis=1) < m
by_size = uniform * n
weights = {
    "fedavg": by_size / by_size.sum(axis=1, keepdims=True),
    "scaled": uniform * omega * N / m,
    # m draws, each client with its share as probability
    "md": rng.multinomial(m, omega, R) / m,
    "printed": uniform * omega * N / m,
}
# what the server adds to w_t
steps = {name: a @ updates for name, a in weights.items()}
steps["printed"] = weights["printed"] @ (common + updates) - common

# %% [markdown]
# - **FedAvg** counts a client by its share of the cohort's data.
# - **Scaled** multiplies $\omega_k$ by $N/m$ and puts the weight on the update.
# - **MD** (multinomial) sampling draws large clients more often, and then counts all draws alike.
# - **As printed** is eq. 2.3 to the letter: the same weights as *scaled*, but on models.
#
# The package has these weights too:

# %%
same = np.testing.assert_allclose
cohort = np.flatnonzero(uniform[0])  # the first of them
fedavg, scaled = (weights[name][0, cohort] for name in ("fedavg", "scaled"))
same(fedavg, aggregation.cohort_weights(n[cohort]))
same(scaled, aggregation.expansion_weights(omega[cohort], N))
theirs = aggregation.aggregate(common, common + updates[cohort], scaled)
same(steps["scaled"][0], theirs)

# %% [markdown]
# ```{exercise-start} Right on average, or close?
# :label: ex-estimators
# ```
# Level 1, before you scroll on. Write down two guesses. Which of the four estimators are right on average? And which of them is furthest off in a single round?
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution} ex-estimators
# :label: sol-estimators
# :class: dropdown
# All but FedAvg have the right mean. Weights on models are furthest off, by {glue:text}`ch1_printed_error:.0f` lengths of the target. If you
# named FedAvg among the right ones, you took weights that sum to one for a promise about the mean. If you left out the weights on models, you
# took noise for bias.
# ````

# %%
errors, rms, bias = {}, {}, {}
for name, step in steps.items():
    error = errors[name] = step - target
    rms[name] = np.sqrt((error**2).sum(axis=1).mean())
    bias[name] = np.linalg.norm(error.mean(axis=0))

# %% tags=["remove-input"]
glue_figure(
    "figure_estimators", ch01.draw_estimators({name: step @ target for name, step in steps.items()})
)
glue_values("ch1", rounds=s.rounds, m=m, N=N, R=f"{R:,}", ratio=np.linalg.norm(common))
glue_values(
    "ch1", **{f"{name}_error": value for name, value in rms.items()}, fedavg_bias=bias["fedavg"]
)
bias_in_noise = {name: bias[name] / rms[name] * np.sqrt(R) for name in rms}  # about 1 if unbiased
fedavg_bias, bias_share = bias_in_noise.pop("fedavg"), bias["fedavg"] / rms["fedavg"]
expect("All but FedAvg are right on average", max(bias_in_noise.values()) < 2, **bias_in_noise)
expect("at most about that of the column", max(bias_in_noise.values()) < 2, **bias_in_noise)
expect(
    "In one round nobody would notice",
    fedavg_bias > 3 and bias_share < 0.1,
    seen=fedavg_bias,
    of_noise=bias_share,
)
estimator_errors = [rms[name] for name in ("fedavg", "scaled", "md")]
expect(
    "Three estimators scatter around it on the scale of the target",
    max(estimator_errors) < 3,
    **rms,
)
expect("is mostly noise: it misses the target by more than its whole length", rms["md"] > 1)
expect("on the scale of the model", rms["printed"] > 3 * rms["scaled"], error=rms["printed"])
table(ch01.tabulate_errors(errors, weights))

# %% [markdown]
# ```{glue:figure} figure_estimators
# :name: fig-estimators
# :alt: Four histograms of one round's step along the target. Three are bell-shaped around 1; the one for weights on models is many times wider and runs out of the panel.
#
# {glue:text}`ch1_R` cohorts of {glue:text}`ch1_m` of {glue:text}`ch1_N` clients, all from the same updates. The upright line at 1 is the target.
# Three estimators scatter around it on the scale of the target. Weights on models scatter on the scale of the model.
# ```
#
# ```{provenance} Figure
# ```
#
# The table gives the error of a round as a root mean square over the cohorts, in lengths of the target, and the range that holds the sum of the weights in nine cohorts of ten. All but
# FedAvg are right on average. The table shows a little bias even for these three, since {glue:text}`ch1_R` cohorts are not all cohorts that there are. This bias is at most about that of the
# column *by chance alone*. Yet even a single round of MD sampling is mostly noise: it misses the target by more than its whole length,
# {glue:text}`ch1_md_error:.1f` lengths.
#
# ## Which errors go away by averaging?
#
# In the mean of many cohorts noise goes away, and bias stays. Training takes many small rounds and so averages in a similar way, where the weights are on updates. So we average as well: we take the mean of $r$ cohorts, all drawn
# for the same updates, and ask how far this mean is from the target.
#
# ```{admonition} The paper says: preprint, Sec. 1
# :class: as-written
# FedAvg brings a bias into the global model.
# ```


# %%
def mean_error(error, r):
    """Return the root mean square error of means over r rounds, from the
    errors of single rounds."""
    groups = error[: len(error) // r * r].reshape(-1, r, error.shape[1])
    return np.sqrt((groups.mean(axis=1) ** 2).sum(axis=1).mean())


round_counts = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000]
curves = {}
for name, error in errors.items():
    curves[name] = [mean_error(error, r) for r in round_counts]

# %% tags=["remove-input"]
glue_figure("figure_averaging", ch01.draw_averaging(round_counts, curves))
ends = {name: values[-1] for name, values in curves.items()}
glue_values("ch1", **{f"{name}_end": value for name, value in ends.items()})
even = (rms["fedavg"] / bias["fedavg"]) ** 2
expect(
    "Only after several hundred rounds does the noise shrink to the size of the bias",
    200 <= even < 1000,
    rounds=even,
)
expect("From then on the bias is the larger part", even < 2000, rounds=even)
levels = curves["fedavg"][-1] / curves["fedavg"][-3], ends["md"] / curves["md"][-3]
expect("FedAvg's line bends", levels[0] > 1.4 * levels[1], fedavg=levels[0], md=levels[1])
expect("FedAvg ends up further from the target", ends["fedavg"] > 1.3 * ends["md"], **ends)

# %% [markdown]
# ```{glue:figure} figure_averaging
# :name: fig-ch1-averaging
# :alt: Error of the mean against the number of rounds averaged, both axes logarithmic. Three parallel lines fall all the way, weights on models far above the others; FedAvg's line levels off once noise is below its bias.
#
# Averaging many rounds. Three lines fall as one over the root of the number of rounds. FedAvg's line bends, because its bias stays.
# ```
#
# ```{provenance} Figure
# ```
#
# In one round nobody would notice FedAvg's bias, which is {glue:text}`ch1_fedavg_bias:.2f` lengths under a noise of
# {glue:text}`ch1_fedavg_error:.1f` lengths. Only after several hundred rounds does the noise shrink to the size of the bias. From then on the bias is the larger part: over 2,000 rounds
# FedAvg ends up further from the target than MD, {glue:text}`ch1_fedavg_end:.2f` against {glue:text}`ch1_md_end:.2f`. The bias arises because FedAvg's weights are a ratio of two random sums, and the mean of a
# ratio is not the ratio of the means. With equal sizes there is no such bias.
#
# Another bias shows sooner. In the demo below there are six clients with updates along one line, and clients with a long gradient are drawn more often. FedSTaS as written takes the plain
# mean of the drawn clients, and this mean settles beside the target ([](04a_unbiasedness.ipynb)). Draw one round, and then some hundreds:
#
# ```{explorer} bias
# ```
#
# ## Why not on models?
#
# The weights belong on updates, because their sum is one only on average.
#
# ```{admonition} The paper says: journal, eq. 2.3
# :class: as-written
# The new model is a weighted average of the participants' models.
# ```
#
# Eq. 2.4 is true as printed for uniform draws, since expectation is linear. But write
# $\boldsymbol{w}^k_{t+1} = \boldsymbol{w}_t + \boldsymbol{\Delta}_k$. Then the part that all models have in common comes out as
# $\big(\sum_{k \in S_t} \frac{N}{m}\omega_k\big)\, \boldsymbol{w}_t$, which is the model times a random number. Here the model is
# {glue:text}`ch1_ratio:.0f` times as long as the target, so the error of a round grows from {glue:text}`ch1_scaled_error:.1f` to
# {glue:text}`ch1_printed_error:.0f` lengths. How does this error depend on the length of the model?

# %%
lengths = np.geomspace(1, 1000, 60)
direction = common / np.linalg.norm(common)
# the weights' sum less 1 multiplies the common model
surplus = weights["scaled"].sum(axis=1, keepdims=True) - 1
on_models = []
for length in lengths:
    error = errors["scaled"] + surplus * length * direction
    on_models.append(np.sqrt((error**2).sum(axis=1).mean()))

# %% tags=["remove-input"]
here, on_updates = np.linalg.norm(common), rms["scaled"]
glue_figure("figure_common", ch01.draw_common_part(lengths, on_models, on_updates, here))
glue_values("ch1", sum_sd=surplus.std(), hundred=np.interp(100, lengths, on_models))
growth = np.interp(1000, lengths, on_models) / np.interp(100, lengths, on_models)
expect("so the error of a round grows", rms["printed"] > 1.1 * rms["scaled"], **rms)
expect("the error grows in proportion", abs(growth - 10) < 0.5, growth=growth)

# %% [markdown]
# ```{glue:figure} figure_common
# :name: fig-common
# :alt: Error of a round against the length of the common part, both on logarithmic axes. The line for weights on updates is flat; the line for weights on models rises in proportion once the common part exceeds a few lengths of the target.
#
# The same cohorts and weights. With weights on updates the error does not depend on the common part. With weights on models the error grows in proportion, once the common part is long.
# ```
#
# ```{provenance} Figure
# ```
#
# Once the common part is long, each further length adds {glue:text}`ch1_sum_sd:.2f` lengths of error, which is the standard deviation of the sum of the weights. A
# common part of 100 lengths makes an error of {glue:text}`ch1_hundred:.0f` lengths. Where all $\omega_k$ are equal, the sum is always one and the
# two forms are the same, so the authors'
# federation, where all clients have the same size, cannot show the difference. Nor can FedSTaS itself on any federation: the weights $N_h/(N m_h)$ of its Algorithm 3 sum to one, and the authors' code divides its weights by their sum. The difference concerns eq. 2.3, and every design whose weights do not sum to one.
#
# ## What happens over rounds?
#
# The model is multiplied by a random number again and again, so its length wanders. The loop below trains in either form, and the two forms differ in one line,
# the one that makes the new `w`.
# Before you look at the figure: will this random factor alone make models longer, shorter, or neither, on average?


# %%
def train(on_models, seed):
    """Train with weights N/m omega on models or on updates.

    Returns length and accuracy after each round, and the last model.
    """
    form = "models" if on_models else "updates"
    w, rows = models.flatten(task.model(seed)), []
    for t in range(1, s.rounds + 1):
        cohort = stream(seed, "clients", t).choice(N, m, replace=False)
        w_k = local_models(w, cohort, seed, t)
        a = torch.from_numpy(N / m * omega[cohort]).to(w)
        w = a @ w_k if on_models else w + a @ (w_k - w)
        predictions = engine.evaluate(module, w, task.test_x, task.test_y)[1]
        accuracy = 100 * (predictions == task.test_y).double().mean()
        rows.append((t, float(w.norm()), float(accuracy)))
    curve = pd.DataFrame(rows, columns=["round", "length", "accuracy"])
    return curve.assign(form=form, seed=seed), w


# %% [markdown]
# On updates this loop is the package's `fedavg-unbiased`, round by round. We train five seeds of each form, with everything else equal:

# %%
trained_pairs = [train(f, s.seed + i) for i in range(5) for f in (False, True)]
runs = pd.concat(frame for frame, _ in trained_pairs)

ours = trained_pairs[0][1].cpu().numpy()
unbiased = methods.get("fedavg-unbiased", lr=LR)
package = simulation.run(task, federation, unbiased, **settings)
np.testing.assert_allclose(ours, package.params, atol=1e-3)

# %% tags=["remove-input"]
glue_figure("figure_rounds", ch01.draw_training(runs))
ranges = ch01.final_ranges(runs)
glue_values("ch1", **ranges, first_length=float(models.flatten(task.model(s.seed)).norm()))
updates_apart = ranges["updates_length_most"] / ranges["updates_length_least"]
models_apart = ranges["models_length_most"] / ranges["models_length_least"]
expect("they hardly differ in length", updates_apart < 1.2, most_to_least=updates_apart)
expect("the length is anything between", models_apart > 5, most_to_least=models_apart)
factors = 1 + surplus[: R // s.rounds * s.rounds].reshape(-1, s.rounds)
products, chance = factors.prod(axis=1), surplus.std() / np.sqrt(R)
smaller, larger = (products < 1).mean(), (products > 5).mean()
expect("factors with mean one", abs(surplus.mean()) < 4 * chance + 1e-9, off=surplus.mean())
expect("the logarithm of such a factor drifts downwards", np.log(factors).mean() < 0)
expect(
    "shrinks most models, and a rare one explodes", smaller > 0.6 and 0 < larger < 0.2, up=larger
)

# %% [markdown]
# ```{glue:figure} figure_rounds
# :name: fig-ch1-rounds
# :figclass: wide
# :alt: Two panels over rounds, each with the median of five runs and their range. On one, the length of the model on a logarithmic axis: flat and narrow on updates, wandering and ever wider on models. On the other, test accuracy for the same runs.
#
# Five seeds of each form: the median run as a line, all runs in the band. On updates the length of the model grows slowly, and in much the same way in all runs. On models the length is
# multiplied by a random number in every round.
# ```
#
# ```{provenance} Figure
# ```
#
# All models start at a length of about {glue:text}`ch1_first_length:.1f`. After {glue:text}`ch1_rounds` rounds with weights on updates they hardly differ in
# length: {glue:text}`ch1_updates_length_least:.1f` to {glue:text}`ch1_updates_length_most:.1f`. With weights on models the length is anything between
# {glue:text}`ch1_models_length_least:.2g` and {glue:text}`ch1_models_length_most:.2g`. The random factor alone makes models neither longer nor
# shorter *on average*, because a product of independent factors with mean one has mean one. But the logarithm of such a factor drifts downwards, so the factor shrinks most models, and a rare one
# explodes. What the updates add comes on top.
#
# The models end at {glue:text}`ch1_updates_accuracy_least:.0f` to {glue:text}`ch1_updates_accuracy_most:.0f` % accuracy with weights on updates, and at
# {glue:text}`ch1_models_accuracy_least:.0f` to {glue:text}`ch1_models_accuracy_most:.0f` % with weights on models.
#
# ```{admonition} Verdict: holds, on a condition
# :class: verdict
# Eq. 2.4 holds for uniform draws, on models as on updates. But as an algorithm eq. 2.3 is usable only if the weights are put
# on updates, or if all $\omega_k$ are equal.
# ```
#
# ```{admonition} Corrected
# :class: as-it-should-be
# $\boldsymbol{w}_{t+1} = \boldsymbol{w}_t + \sum_{k \in S_t} a_k (\boldsymbol{w}^k_{t+1} - \boldsymbol{w}_t)$ with
# $\mathbb{E}\big[\sum_{k \in S_t} a_k [k = j]\big] = \omega_j$ for every client $j$ (the bracket is 1 if $k$ is
# $j$, else 0). Where the $a_k$ sum to one, this is the average of the models. Where they do not, a sum of weighted models would rescale
# $\boldsymbol{w}_t$ even if no client changed it, and this form does not. All methods of this package put their weights on updates; not all of them meet the condition on the mean (FedAvg does not).
# ```
#
# ## What we learned
#
# - A round estimates the update of all clients, $\sum_k \omega_k \boldsymbol{\Delta}_k$. The paper names two different $\omega$.
# - Unbiased is a promise about the mean over all cohorts. It promises nothing about a single cohort.
# - In the mean of many cohorts that are drawn for the same updates, noise averages out and bias stays.
# - Weights that do not sum to one multiply the model by a random number, so put them on updates.
#
# ## Exercises
#
# ```{exercise-start} Unbiased or not, five designs
# :label: ex-five-designs
# ```
# Level 1. Three clients with $n = (1, 2, 3)$, $m = 2$ draws, target weights $\omega_k = n_k/n$. Which of these are unbiased?
#
# - (a) always clients 1 and 2, weights $n_k$ over the cohort;
# - (b) two distinct clients uniformly, weights $n_k$ over the cohort;
# - (c) the same draw, weights $\frac{N}{m}\omega_k$;
# - (d) two draws with replacement with $p_k = n_k/n$, weights $1/m$;
# - (e) two draws with replacement with $p = (\frac12, \frac14, \frac14)$, weights $\omega_k/(m p_k)$.
#
# Write `expected(clients, outcomes)`, which returns the expected weight of each client; `outcomes` lists all that can happen as
# `(cohort, weights, chance)`, such as `((0, 0), (1/2, 1/2), 1/4)` for a client that is drawn twice.
# `check.answer("aggregation/expected", expected)`. Then name the unbiased designs by their letters:
# `check.answer("aggregation/five-designs", "ab")`.
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-five-designs
# :label: sol-five-designs
# :class: dropdown
# ````
# A design is unbiased for every possible update if and only if client $k$'s expected weight is $\omega_k$. If all
# cohorts are listed and their chances added up as fractions, (c), (d) and (e) turn out to be unbiased. If you named (b), you took weights that sum to one for weights that are right on average.

# %%
from fractions import Fraction as Q


def expected(clients, outcomes):
    total = [Q(0)] * clients
    for cohort, cohort_weights, chance in outcomes:
        for k, a in zip(cohort, cohort_weights, strict=True):
            total[k] += a * chance
    return total


print(check.answer("aggregation/expected", expected))

sizes, aim = (1, 2, 3), [Q(1, 6), Q(2, 6), Q(3, 6)]
thirds, halves = [Q(1, 3)] * 3, [Q(1, 2), Q(1, 4), Q(1, 4)]
pairs = list(theory.successive_samples(thirds, 2))  # (cohort, its chance)


def share(k, cohort):
    return Q(sizes[k], sum(sizes[j] for j in cohort))


def hansen_hurwitz(k, cohort):
    return aim[k] / (2 * halves[k])


designs = {
    "(a)": ([((0, 1), Q(1))], share),
    "(b)": (pairs, share),
    "(c)": (pairs, lambda k, cohort: Q(3, 2) * aim[k]),
    "(d)": (theory.samples_with_replacement(sizes, 2), lambda k, cohort: Q(1, 2)),
    "(e)": (theory.samples_with_replacement(halves, 2), hansen_hurwitz),
}
for name, (cohorts, weight_of) in designs.items():
    outcomes = [(c, [weight_of(k, c) for k in c], p) for c, p in cohorts]
    mean = expected(3, outcomes)
    print(name, *mean, "unbiased" if mean == aim else "biased")
print(check.answer("aggregation/five-designs", "cde"))

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} The smallest counterexample
# :label: ex-smallest
# ```
# Level 2. Find the smallest federation (fewest clients, then fewest examples) in which FedAvg's weights, $n_k$ over a uniform
# cohort of $m < N$ clients, are biased for $\omega_k = n_k/n$. `check.answer("aggregation/smallest", (sizes, m))`
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-smallest
# :label: sol-smallest
# :class: dropdown
# ````
# Take two clients of sizes 1 and 2, of which one is drawn: each has the expected weight 1/2 instead of 1/3 and 2/3. With equal sizes all shares are
# $1/N$ by symmetry, so nothing smaller will do. If you needed three clients, you overlooked that a client drawn alone
# always has the weight 1, whatever its size.

# %%
from fractions import Fraction as Q
from itertools import combinations, product


def cohort_bias(n, m):
    """Return each client's expected weight in a cohort, less its share of
    the data."""
    cohorts, biases = list(combinations(range(len(n)), m)), []
    for k in range(len(n)):
        own_weights = [Q(n[k], sum(n[j] for j in c)) for c in cohorts if k in c]
        biases.append(sum(own_weights) / len(cohorts) - Q(n[k], sum(n)))
    return biases


smallest = min(
    (
        (len(n), sum(n), n, m)
        for clients in (2, 3)
        for n in product(range(1, 4), repeat=clients)
        for m in range(1, clients)
        if any(cohort_bias(n, m))
    ),
)
answer = smallest[2:]
print("sizes", answer[0], "m =", answer[1], "bias", *cohort_bias(*answer))
print(check.answer("aggregation/smallest", answer))

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} The random factor
# :label: ex-factor
# ```
# Level 2. Weights $\frac{N}{m}\omega_k$ on models multiply the common part by their sum. Derive the variance of
# $\sum_{k \in S} \frac{N}{m}\omega_k$ for $m$ distinct clients drawn uniformly, write it as `factor(omega, m)`, and hold it against the
# cohorts above. `check.answer("aggregation/random-factor", factor)`
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-factor
# :label: sol-factor
# :class: dropdown
# ````
# It is $N$ times the sample mean of $\omega$ under simple random sampling, so its variance is
# $\frac{N^2}{m}\big(1 - \frac{m}{N}\big) S^2$ with $S^2 = \frac{1}{N-1}\sum_k (\omega_k - \frac1N)^2$. If $1 - \frac{m}{N}$ is missing, you
# drew with replacement: a sum over distinct clients no longer varies once all clients are in it.


# %%
def factor(omega, m):
    N = len(omega)
    spread = sum((w - 1 / N) ** 2 for w in omega) / (N - 1)
    return N**2 / m * (1 - m / N) * spread


print(check.answer("aggregation/random-factor", factor))
# omega, m and the weights' sums less one are the chapter's
print(f"formula {factor(omega, m):.5f}, {R} cohorts {surplus.var():.5f}")

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} When models win
# :label: ex-models-win
# ```
# Level 3. One client is drawn uniformly, its weight is $N \omega_k$, and models are single numbers $w + \Delta_k$. Find sizes (not all equal),
# updates $\Delta_k$ and a common part $w$ for which the weights are *less* noisy on models than on updates. The target
# $\sum_k \omega_k \Delta_k$ must not be 0, and $w$ not shorter than it. `check.answer("aggregation/models-win", (sizes, updates, w))`. Why is this no advice?
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-models-win
# :label: sol-models-win
# :class: dropdown
# ````
# On models the aggregate is $N\omega_k (w + \Delta_k)$, so choose $w$ such that this number is the same for all clients. With $n = (1, 2)$ and
# $\Delta = (1, 1)$ this means $w + 1 = 2(w + 1)$, so $w = -1$. There the updates lead to a model of 0, and the random factor has nothing left
# to multiply. This is no advice, because the variance is a parabola in $w$. With $a_k = N\omega_k$ it is lower on models only between 0 and
# $-2\,\mathrm{Cov}(a, a\Delta)/\mathrm{Var}(a)$. So $w$ must point the right way, and unless sizes are nearly equal it must be about as short as an
# update. Models are far longer ({numref}`fig-common`). If you tried a long $w$ in the right direction, you saw that the direction alone does not help.

# %%
from fractions import Fraction as Q

answer = ([1, 2], [1, 1], -1)
print(check.answer("aggregation/models-win", answer))
for w in (-3, -2, -1, 0, 1, 10):
    one, two = (Q(2 * size, 3) * (w + 1) for size in answer[0])
    print(f"w = {w:2d}: variance on models {(two - one) ** 2 / 4}")

# %% [markdown]
# ````{solution-end}
# ````
#
# ## Further reading
#
# {cite:t}`mcmahan2017communication` introduce federated averaging. {cite:t}`li2020convergence` prove convergence for two
# ways of sampling: with replacement and in proportion to sizes, and uniformly without replacement. The page [](04_theory.ipynb) has the exact moments of stratified estimators.
