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
# # Stratification: do gradients know the labels?
#
# ```{at-a-glance}
# :needs: averages and variances, k-means, what a gradient is
# ```
#
# What you will know at the end:
#
# - what is left of a gradient when it is squeezed to a few levels, and what that saves;
# - which of three summaries of a gradient puts clients with the same labels into the same stratum;
# - how a stratum's participants are counted and drawn, and where the formula, its rounding and the draw say
#   different things.

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of every random draw
device: str = "auto"  # auto, cpu or cuda
task: str = None  # digits, mnist, fashion-mnist, cifar10 or cifar100
clients: int = None  # number of clients
clients_per_round: int = None  # participants of a round
strata: int = None  # number of strata H
levels: int = None  # levels d' of the squeezed gradient
rounds: int = None  # rounds of the short training run
concentration: float = None  # of the Dirichlet distribution that deals the labels

# %% tags=["hide-input"]
import warnings
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown
from myst_nb import glue
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from fedstas import allocation, methods, partition, simulation, tasks, theory
from fedstas.compression import squeeze
from fedstas.sim import engine, models
from fedstas.stratification import spread, stratify
from companion import chapters, check, plots
from companion.pages.plots import BLACK, CODED, GREY, SHOULD, WRITTEN

s = chapters.settings("02_stratification", globals())
plots.style()
data = tasks.load(s.task, device=s.device)


def say(key, value):
    """A value of this run, for the prose."""
    glue(f"ch2_{key}", value, display=False)


def show(name, figure):
    glue(f"figure_{name}", figure, display=False)
    plt.close(figure)


def deal(name, seed):
    """The federation: `dirichlet` is disjoint, `dirichlet_fixed_size` is the authors' way."""
    return partition.make(
        name, data.train_y, clients=s.clients, concentration=s.concentration, seed=seed
    )


def gradients(federation, seed, params=None):
    """Every client's gradient [N, d] at w_0, or at the model `params`."""
    shards = [federation.shards[k] for k in federation.with_data]
    network = data.model(seed)
    w = models.flatten(network) if params is None else torch.from_numpy(params).to(data.device)
    pool = engine.pool(data.train_x, data.train_y, shards)
    return np.stack([g.cpu().numpy() for g in engine.client_gradients(network, w, pool)])


federation = deal("dirichlet", s.seed)
counts = federation.label_counts[federation.with_data]  # examples of each class, [N, C]
G = gradients(federation, s.seed)
N, d = G.shape
H = min(s.strata, N // 2)  # so that some stratum has a spread

say("N", N)
say("clients", s.clients)
say("d", f"{d:,}")
say("H", H)
say("levels", s.levels)
say("task", {"mnist": "MNIST"}.get(s.task, s.task))
say("concentration", f"{s.concentration:g}")

# %% [markdown]
# FedSTaS draws its {term}`cohort` from strata, and the strata come from gradients
# {cite:p}`gao2025fedsts,slessor2025fedstas`. A round starts like this: all $N$ clients compute the gradient of
# their local loss at the current model, squeeze it, and send it; the server groups the clients by k-means, decides
# how many to take from each {term}`stratum`, and draws them. This chapter follows that path with real gradients: the task
# is {glue:text}`ch2_task`, dealt to {glue:text}`ch2_clients` clients with Dirichlet {term}`concentration`
# {glue:text}`ch2_concentration`. {glue:text}`ch2_N` of them hold data and count as clients.
#
# (map-squeeze)=
# ## What is left of a gradient when it is squeezed?
#
# ```{margin} The paper says: preprint, Sec. 3.2
# It is the compression of the gradients that makes FedSTaS better than its baseline.
# Judged by runs: {doc}`/ledger`, `preprint-3.2-compression`.
# ```
#
# The information squeeze is a k-means in one dimension. The $d$ entries of a gradient are grouped into $d'$ groups;
# the client sends the $d'$ centres, here called levels, and for each entry the number of its level:
#
# ```{math}
# :label: eq-squeeze
# G \in \mathbb{R}^d \;\longmapsto\; X \in \mathbb{R}^{d'},\ \lambda \in \{1, \dots, d'\}^d,
# \qquad Z_i = X_{\lambda_i}.
# ```
#
# $Z$ is the restored gradient: as long as $G$, with $d'$ different values at most.

# %% tags=["hide-input"]
example = int(np.argmax(counts.sum(1)))  # the client with the most examples
one = squeeze(G[example], s.levels)
shares = np.bincount(one.codes[0], minlength=s.levels) / d
SWEEP = sorted({2, 3, 4, 6, 8, 9, 12, 16, 24, 32, 48, 64, s.levels})
SWEEP = [k for k in SWEEP if k <= 64 or k == s.levels]


def lost(gradient, restored):
    """What the squeeze loses: the squared error, relative to the squared norm, per client."""
    norms = np.square(gradient).sum(1, dtype=float)
    return np.square(gradient - restored).sum(1, dtype=float) / np.where(norms > 0, norms, 1)


curve = []
for k in SWEEP:
    squeezed = squeeze(G, k)
    error = lost(G, squeezed.restore())
    curve.append((k, squeezed.bits / d, np.median(error), error.min(), error.max()))
curve = pd.DataFrame(curve, columns=["levels", "bits", "median", "low", "high"])
curve = curve.set_index("levels")

fig, (left, right) = plt.subplots(1, 2, figsize=(6.6, 3.1))
left.hist(G[example], bins=121, color=GREY, lw=0)
left.set_yscale("log")
for level in one.levels[0]:
    left.axvline(level, color=WRITTEN, lw=1.2)
left.set(xlabel="entry of the gradient", ylabel="entries")
left.set_title(f"one client, {s.levels} levels")
bars = np.stack([curve["median"] - curve["low"], curve["high"] - curve["median"]]) * 100
right.errorbar(
    curve["bits"], 100 * curve["median"], yerr=bars, color=WRITTEN, marker="o", ms=4, lw=1.2,
    elinewidth=0.8, capsize=2,
)  # fmt: skip
for k in (2, 4, s.levels, 16, 64):
    right.annotate(
        f"{k}", (curve.loc[k, "bits"], 100 * curve.loc[k, "median"]), fontsize="small",
        xytext=(5, 4), textcoords="offset points", fontweight="bold" if k == s.levels else None,
    )  # fmt: skip
right.set_yscale("log")
right.set(xlabel="bits per parameter", ylabel="relative error (%)")
right.set_title(f"all clients, {SWEEP[0]} to {SWEEP[-1]} levels")
show("squeeze", fig)

code = int(np.ceil(np.log2(s.levels)))
same = 2**code  # as many levels as the code can name
full = squeeze(G, same)
say("sent", 100 * float(one.bits / (32 * d)))
say("bits", float(one.bits / d))
say("overhead", float(32 * s.levels / d))
say("code", code)
say("same", same)
say("least_levels", SWEEP[0])
say("most_levels", SWEEP[-1])
say("error", 100 * float(curve.loc[s.levels, "median"]))
say("error_high", 100 * float(curve.loc[s.levels, "high"]))
say("error_same", 100 * float(np.median(lost(G, full.restore()))))
say("bits_same", float(full.bits / d))
say("megabytes", float(N * one.bits / 8e6))
say("megabytes_plain", float(N * 32 * d / 8e6))
say("biggest_share", 100 * float(shares.max()))

# %% [markdown]
# ```{glue:figure} figure_squeeze
# :name: fig-squeeze
# :alt: Left, a histogram of the entries of one client's gradient on a logarithmic scale, with vertical lines at its levels. Right, the squared error in per cent of the squared norm, falling with the bits per parameter, for {glue:text}`ch2_least_levels` to {glue:text}`ch2_most_levels` levels, with bars from the best to the worst client.
#
# Left: the entries of one gradient, and its levels (blue). Most entries are near zero; the outer levels serve few
# entries with large values. Right: what is lost, as squared error over squared norm, against what is sent; the points
# are medians over the clients, the bars reach from the best to the worst client, the numbers are levels.
# ```
#
# ```{provenance} Figure
# ```
#
# ```{explorer} squeeze
# ```
#
# A client sends $d'$ floats and $d$ codes:
#
# ```{math}
# :label: eq-bits
# \text{bits} = 32\, d' + d \,\lceil \log_2 d' \rceil .
# ```
#
# With $d' =$ {glue:text}`ch2_levels` and $d =$ {glue:text}`ch2_d` that is {glue:text}`ch2_bits:.2f` bits per
# parameter ({glue:text}`ch2_overhead:.2f` of them for the levels), {glue:text}`ch2_sent:.1f` % of 32-bit floats. One
# stratification of all clients costs {glue:text}`ch2_megabytes:.2f` MB on the way up instead of
# {glue:text}`ch2_megabytes_plain:.2f` MB. The median client loses {glue:text}`ch2_error:.2f` % of its squared norm, the
# worst {glue:text}`ch2_error_high:.2f` %.
#
# {eq}`eq-bits` counts whole bits: {glue:text}`ch2_levels` levels need codes of {glue:text}`ch2_code` bits, and such a code
# can name {glue:text}`ch2_same` levels. With {glue:text}`ch2_same` levels ({glue:text}`ch2_bits_same:.2f` bits per parameter)
# the median loss is {glue:text}`ch2_error_same:.2f` %.
#
# Our implementation sorts the entries, finds good boundaries by dynamic programming and polishes them
# by Lloyd's algorithm, so that equal gradients give equal levels, in ascending order:
#
# ```{literalinclude} ../../fedstas/compression.py
# :pyobject: squeeze
# :language: python
# ```
#
# ```{admonition} As written: journal, Algorithms 1 and 2
# :class: as-written
# A client returns "$X_t, \lambda_t = IS(G_t^k)$"; the server is to "use $\lambda_k^t$ to restore $\{X_k^t\}$ as
# $\{Z_k^t\}$", and clusters the $Z_k^t$. What $IS$ is, the paper leaves to {cite:t}`gao2025fedsts`.
# ```
#
# ```{admonition} As coded: December 2024, the compression step
# :class: as-coded
# scikit-learn's `KMeans(d', random_state=0)` on the entries. The $d'$ centres are kept, in the order in which
# k-means happens to number them; the codes $\lambda$ are returned and not used again. Clients are clustered by these
# vectors of $d'$ numbers.
# ```


# %%
def centres_as_coded(gradients):
    """Centres [N, d'] of 1-D k-means, in scikit-learn's own order."""
    fit = KMeans(s.levels, n_init=1, random_state=0).fit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres = [fit(g[:, None]).cluster_centers_ for g in gradients]
    return np.stack(centres)[:, :, 0]


# %% tags=["remove-cell"]
ours = squeeze(G, s.levels)
Z = ours.restore()
C = centres_as_coded(G)
error_theirs = [
    np.square(g - np.sort(c)[np.searchsorted((np.sort(c)[1:] + np.sort(c)[:-1]) / 2, g)]).sum()
    for g, c in zip(G.astype(float), C.astype(float), strict=True)
]
error_ours = np.square(G.astype(float) - Z).sum(1)
orders = len({tuple(np.argsort(c)) for c in C})
ratios = [a / b for a, b in zip(error_ours, error_theirs, strict=True) if b > 0]
say("best_ratio", float(min(ratios)))
say("worst_ratio", float(max(ratios)))
say("orders", orders)

# %% [markdown]
# ```{admonition} Result
# :class: verdict
# How well they compress: over the clients, our squared error is {glue:text}`ch2_best_ratio:.3f` to
# {glue:text}`ch2_worst_ratio:.3f` times that of scikit-learn. (One start of k-means each, as newer versions of scikit-learn do by default; older ones, and
# so perhaps the authors' runs, took ten.) What they keep: the {glue:text}`ch2_N` clients have their centres in
# {glue:text}`ch2_orders` different orders: the first number of one client and the first number of another
# need not mean the same.
# ```
#
# (map-strata)=
# ## Do strata know the labels?
#
# ```{margin} The paper says: journal, Sec. 3.3
# Strata together with draws by importance reduce the variance of the model's updates.
# Judged in [chapter 4b](04b_variance.ipynb); {doc}`/ledger`, `journal-sec-3-3-variance`.
# ```
#
# Strata are made by k-means of the restored gradients (Algorithm 2), and stratifying pays when clients in a stratum are alike. When a few labels dominate each client, that should mean: a
# stratum collects the clients of one label. There is a reason why a gradient could know. For a network that ends in
# a softmax and is trained with cross-entropy, the gradient of client $k$ with respect to the bias of output $c$ is
#
# ```{math}
# :label: eq-bias
# \frac{\partial F_k}{\partial b_c} = \frac{1}{n_k}\sum_{j=1}^{n_k} \mathrm{softmax}_c(x_{k,j})
# \;-\; \frac{\#\{j : y_{k,j} = c\}}{n_k},
# ```
#
# the mean prediction minus the share of the class. A fresh model predicts almost the same for all examples, so these few
# entries show the class shares almost openly. The smallest of them names a label.

# %% tags=["hide-input"]
classes = counts.shape[1]
majority = counts.argmax(1)
top = np.take_along_axis(counts, G[:, -classes:].argmin(1)[:, None], 1)[:, 0] == counts.max(1)
top_z = np.take_along_axis(counts, Z[:, -classes:].argmin(1)[:, None], 1)[:, 0] == counts.max(1)
guess = 1 / classes - G[:, -classes:]  # the server's guess, if w_0 predicts 1/C for everything
off = np.abs(guess - counts / counts.sum(1, keepdims=True))
say("classes", classes)
say("named", int(top.sum()))
say("named_z", int(top_z.sum()))
say("off", 100 * float(off.mean()))
say("single", 100 * float((counts.max(1) / counts.sum(1)).mean()))

# %% [markdown]
# In this federation the largest class has, on average, {glue:text}`ch2_single:.0f` % of a client's examples. The smallest
# bias entry of $G_k$ names a largest class of {glue:text}`ch2_named` of {glue:text}`ch2_N` clients; after the
# squeeze to {glue:text}`ch2_levels` levels, where entries tie, the first smallest entry of $Z_k$ still does for
# {glue:text}`ch2_named_z`. The guess
# $1/${glue:text}`ch2_classes` minus the bias entry misses the class shares by {glue:text}`ch2_off:.1f` percentage points on
# average. (To that accuracy a gradient of the fresh model tells a client's class shares. The privacy of
# [](03_data_sampling.ipynb) is about the sizes $n_k$ alone.)
#
# This knowledge is in *where* an entry stands. The $d'$ centres say which values occur, not where.
# So we compare three summaries:
#
# - [restored gradients $Z_k$]{.as-written}, as the paper writes;
# - centres in ascending order: a small change of the code that makes them comparable;
# - [centres in k-means' own order]{.as-coded}, as the code has it.

# %% tags=["hide-input"]
FEATURES = {"restored": WRITTEN, "sorted": GREY, "unsorted": CODED}
NAMES = {
    "restored": "restored gradients,\nas written",
    "sorted": "centres, sorted",
    "unsorted": "centres, unsorted,\nas coded",
}


def summaries(gradients):
    centres = centres_as_coded(gradients)
    restored = squeeze(gradients, s.levels).restore()
    return {"restored": restored, "sorted": np.sort(centres, axis=1), "unsorted": centres}


def plane(points):
    """Principal coordinates [N, 2] and their share of the variance."""
    u, size, _ = np.linalg.svd(points - points.mean(0), full_matrices=False)
    return u[:, :2] * size[:2], (size**2 / np.sum(size**2))[:2]


views = summaries(G)
labels = {name: stratify(points, H, s.seed) for name, points in views.items()}
palette = [plt.get_cmap("tab10")(c % 10) for c in range(classes)]
fig, axes = plt.subplots(1, 2, figsize=(6.6, 3.6))
for ax, name in zip(axes, ("restored", "unsorted"), strict=True):
    xy, part = plane(views[name].astype(float))
    for h in range(labels[name].max() + 1):
        centre = xy[labels[name] == h].mean(0)
        for point in xy[labels[name] == h]:
            ax.plot(*np.stack([centre, point]).T, color="#BBBBBB", lw=0.8, zorder=1)
    for point, c in zip(xy, majority, strict=True):
        ax.text(
            *point, str(c), color=palette[c], ha="center", va="center", fontweight="bold",
            fontsize=9 if N <= 40 else 8, zorder=2,
            bbox={"boxstyle": "circle,pad=0.08", "fc": "white", "ec": "none", "alpha": 0.6},
        )  # fmt: skip
    ax.scatter(*xy.T, s=0)
    ax.set_title(NAMES[name].replace("\n", " "), color=FEATURES[name])
    ax.set(
        xlabel=f"first component ({100 * part[0]:.0f} % of variance)",
        ylabel=f"second ({100 * part[1]:.0f} %)",
    )
    ax.set(xticklabels=[], yticklabels=[])
show("plane", fig)

# %% [markdown]
# ```{glue:figure} figure_plane
# :name: fig-plane
# :alt: Two scatter plots of the clients in the plane of the first two principal components, each client drawn as the digit of its largest class and joined by a grey line to the centre of its stratum; left from restored gradients, right from unsorted centres.
#
# Each client is drawn as its largest class, and tied to the centre of its stratum; left the strata of restored gradients,
# right those of the centres as coded. Strata that know the labels tie equal digits together. (Two components of
# many: strata that overlap here can be apart in the others.)
# ```
#
# ```{provenance} Figure
# ```
#
# Three numbers say how much strata know. *Label purity*: the share of the largest class among a stratum's examples,
# averaged over the strata. Small strata are pure by chance, so it needs a comparison: strata
# of the same sizes with the clients shuffled. The *adjusted Rand index* with the clients' largest classes needs
# none: it is 1 if strata and classes are the same grouping and 0 on average if they have nothing to do with each other.
# And *variance left*: the part of the gradients' variance that is within the strata,

# %% [markdown]
# ```{math}
# :label: eq-left
# \frac{\sum_h \frac{N_h}{N} S_h^2}{S^2}, \qquad
# S_h^2 = \frac{1}{N_h}\sum_{k \in \mathcal{C}_h} \lVert G_k - \bar G_h \rVert^2, \quad
# S^2 = \frac{1}{N}\sum_{k} \lVert G_k - \bar G \rVert^2,
# ```
#
# since that is what a stratified draw with proportional allocation cannot remove (finite-population corrections aside), and
# so the reason to stratify at all.


# %%
def purity(strata, counts):
    """Mean over strata of the largest class's share of examples."""
    table = np.zeros((strata.max() + 1, counts.shape[1]))
    np.add.at(table, strata, counts)
    return (table.max(1) / table.sum(1)).mean()


def variance_left(gradients, strata):
    """The part of the clients' variance that lies within strata."""
    within = np.bincount(strata) @ spread(gradients, strata) ** 2
    return within / np.square(gradients - gradients.mean(0)).sum()


# %% tags=["hide-input"]
PARTITIONS, STARTS = 5, 3  # federations (each with its own w_0), and k-means seeds of each
MOMENTS = sorted({0, min(10, max(1, s.rounds // 2)), s.rounds})
DEALS = {"dirichlet": "disjoint", "dirichlet_fixed_size": "fixed size"}
local = {"lr": 0.1} if s.task == "digits" else {}  # digits are few and small: larger steps
method = methods.get("fedstas-unbiased", strata=H, levels=s.levels, **local)

rows, accuracies, centres_of = [], [], {}
for name, title in DEALS.items():
    for number in range(s.seed, s.seed + PARTITIONS):
        dealt = deal(name, number)
        held = dealt.label_counts[dealt.with_data]
        history, frozen = None, {}
        for t in MOMENTS if name == "dirichlet" else [0]:
            if t:
                history = simulation.run(
                    data, dealt, method, rounds=t, clients_per_round=s.clients_per_round,
                    seed=number, eval_every=t, device=s.device, resume=history,
                )  # fmt: skip
            now = gradients(dealt, number, history.params if t else None)
            known = summaries(now)
            groups = {
                (feature, start): stratify(points, min(H, len(now) // 2), start)
                for feature, points in known.items()
                for start in range(STARTS)
            }
            frozen = frozen or groups
            if not t:
                centres_of[name, number] = known["unsorted"]
                rng = np.random.default_rng(number)
                groups |= {
                    (f"{feature} shuffled", start): rng.permutation(groups[feature, start % STARTS])
                    for feature in FEATURES
                    for start in range(6 * STARTS)
                }
                truth = held / held.sum(1, keepdims=True)
                groups |= {
                    ("oracle", start): stratify(truth, min(H, len(now) // 2), start)
                    for start in range(STARTS)
                }
            rows += [
                (title, number, t, feature, start, 100 * purity(g, held),
                 adjusted_rand_score(held.argmax(1), g), 100 * variance_left(now, g),
                 100 * variance_left(now, frozen.get((feature, start), g)))
                for (feature, start), g in groups.items()
            ]  # fmt: skip
        if history:
            accuracies.append(100 * history.frame["test_accuracy"].iloc[-1])
columns = ["deal", "partition", "round", "feature", "start", "purity", "rand", "left", "frozen"]
table = pd.DataFrame(rows, columns=columns)
# One value per federation: k-means seeds of the same federation are not independent.
means = table.groupby(["deal", "round", "feature", "partition"], as_index=False).mean()


def of(column, feature, deal="disjoint", t=0):
    chosen = (means["deal"] == deal) & (means["feature"] == feature) & (means["round"] == t)
    return means.loc[chosen, column].to_numpy()


def word(values):
    """What the 95 % interval of the adjusted Rand index says."""
    _, low, high = plots.interval(values)
    low, high = round(low, 2), round(high, 2)
    return "above chance" if low > 0 else "below chance" if high < 0 else "not told from chance"


def between(values, digits=2, most=np.inf):
    """Mean and 95 % interval in words; `most` is the largest possible value."""
    said = (round(float(min(x, most)), digits) + 0.0 for x in plots.interval(values))
    return "{} ({} to {})".format(*(f"{x:.{digits}f}".replace("-", "−") for x in said))


fig, axes = plt.subplots(1, 2, figsize=(6.6, 3.4), sharey=True)
for ax, title in zip(axes, DEALS.values(), strict=True):
    for at, (feature, colour) in enumerate(FEATURES.items()):
        values = of("purity", feature, title)
        mean, low, high = plots.interval(values)
        ax.bar(at, mean, 0.66, color=colour, alpha=0.85, lw=0)
        ax.plot([at, at], [low, high], color=BLACK, lw=1.4)
        spots = at + np.linspace(-0.2, 0.2, len(values))
        ax.plot(spots, values, "o", ms=4, mfc="white", mec=BLACK, mew=0.8)
    for at, feature in enumerate(FEATURES):
        chance = of("purity", f"{feature} shuffled", title).mean()
        ax.plot([at - 0.42, at + 0.42], [chance, chance], color=BLACK, ls=":", lw=1.6)
    ax.text(2.48, chance, "by\nchance", ha="left", va="center", fontsize="small")
    ax.set(title=title, xlim=(-0.5, 2.95))
    ax.set_xticks(range(3), ["restored\n(written)", "sorted\ncentres", "unsorted\n(coded)"])
    ax.grid(axis="x", visible=False)
axes[0].set(ylabel="label purity (%)", ylim=(0, 104))
axes[1].set_title("fixed size, as the authors dealt")
show("purity", fig)

for feature in FEATURES:
    say(f"rand_{feature}", between(of("rand", feature), most=1))
    say(f"rand_fixed_{feature}", between(of("rand", feature, "fixed size"), most=1))
    say(f"word_{feature}", word(of("rand", feature)))
    say(f"left_{feature}", float(of("left", feature).mean()))
say("rand_oracle", between(of("rand", "oracle"), most=1))
say("left_oracle", float(of("left", "oracle").mean()))
say("left_chance", float(of("left", "unsorted shuffled").mean()))
say("partitions", PARTITIONS)
say("starts", STARTS)

# %% [markdown]
# ```{glue:figure} figure_purity
# :name: fig-purity
# :alt: Bars of label purity in per cent for restored gradients, sorted centres and unsorted centres, in two panels for the disjoint and the fixed-size way of dealing the data, with a dotted line across each bar for shuffled clients.
#
# Label purity at $w_0$ for the three summaries. Bars are means, white points single federations (each a mean over
# several seeds of k-means), vertical lines 95 % intervals; the dotted lines are what strata of the same sizes reach with shuffled clients. Left: every
# example dealt to one client; right: all clients of the same size, their examples drawn with replacement. What counts is how far a bar stands
# above its dotted line: at the default parameters that of restored gradients stands clear of it, those of the centres hardly or not.
# ```
#
# ```{provenance} Figure
# ```

# %% tags=["remove-input"]
SHOWN = {
    "oracle": "the true class shares (oracle)",
    "restored": "restored gradients, as written",
    "sorted": "centres, sorted",
    "unsorted": "centres, unsorted, as coded",
    "unsorted shuffled": "as coded, clients shuffled",
}
frame = pd.DataFrame(
    {
        "strata from": list(SHOWN.values()),
        "label purity (%)": [between(of("purity", f), 0, 100) for f in SHOWN],
        "adjusted Rand index": [between(of("rand", f), 2, 1) for f in SHOWN],
        "variance left (%)": [between(of("left", f), 0) for f in SHOWN],
    }
)
Markdown(frame.to_markdown(index=False, disable_numparse=True))

# %% [markdown]
# Disjoint deal at $w_0$; means and 95 % intervals over {glue:text}`ch2_partitions` federations, each the mean of
# {glue:text}`ch2_starts` seeds of k-means. All rows have {glue:text}`ch2_H` strata for
# {glue:text}`ch2_classes` classes; the oracle is k-means on the class shares, which no server sees.
#
# ```{admonition} As written: journal, Section 3.1
# :class: as-written
# Strata are formed "according to the similarity of their Information Squeezed (IS) gradients".
# ```
#
# ```{admonition} Result
# :class: verdict
# Strata of restored gradients are {glue:text}`ch2_word_restored`: adjusted Rand index
# {glue:text}`ch2_rand_restored`, where clustering the class shares themselves gives {glue:text}`ch2_rand_oracle`. Sorted centres are {glue:text}`ch2_word_sorted`: {glue:text}`ch2_rand_sorted`; unsorted
# centres {glue:text}`ch2_word_unsorted`: {glue:text}`ch2_rand_unsorted`. With the authors' fixed sizes the three are
# {glue:text}`ch2_rand_fixed_restored`, {glue:text}`ch2_rand_fixed_sorted` and {glue:text}`ch2_rand_fixed_unsorted`. The
# variance left is {glue:text}`ch2_left_restored:.0f` % as written ({glue:text}`ch2_left_oracle:.0f` % if the class shares
# themselves were clustered) and {glue:text}`ch2_left_unsorted:.0f` % as coded, where
# shuffled clients leave {glue:text}`ch2_left_chance:.0f` %.
# ```
#
# Is it the squeeze that costs something, or the loss of the codes? Strata of $Z$ can be compared with strata of the
# unsqueezed $G$ directly.

# %% tags=["hide-input"]
raw = [stratify(G, H, i) for i in range(STARTS)]
squeezed = [stratify(Z, H, i) for i in range(STARTS)]
agree = [adjusted_rand_score(a, b) for a, b in zip(raw, squeezed, strict=True)]
noise = [adjusted_rand_score(raw[i], raw[j]) for i in range(STARTS) for j in range(i)]
say("agree", float(np.mean(agree)))
say("noise", float(np.mean(noise)))
gap = float(np.mean(agree) - np.mean(noise))
say(
    "squeeze_word",
    "more than" if gap < -0.05 else "less than" if gap > 0.05 else "about as much as",
)

# %% [markdown]
# The strata of $Z$ and of $G$ from the same k-means seed agree with an adjusted Rand index of {glue:text}`ch2_agree:.2f`;
# strata of $G$ from two different seeds agree with {glue:text}`ch2_noise:.2f`. So the squeeze changes the strata
# {glue:text}`ch2_squeeze_word` another start of k-means does.
#
# ## Do they still know after some rounds?
#
# The paper stratifies afresh in every round, at the price of one gradient from all clients. The released code
# of December 2024 stratifies once, at $w_0$, and keeps the strata. We train with the corrected method
# (`fedstas-unbiased`), stop on the way, and ask again.

# %% tags=["hide-input"]
fig, (left, right) = plt.subplots(1, 2, figsize=(6.6, 3.4))
at, ticks = np.arange(len(MOMENTS)), [f"round {t}" if t else "$w_0$" for t in MOMENTS]


def line(ax, column, feature, colour, dash, label, offset):
    values = np.stack([of(column, feature, t=t) for t in MOMENTS])
    ax.plot(at + offset, values, color=colour, lw=0.5, alpha=0.4)
    stats = np.array([plots.interval(v) for v in values])
    ax.errorbar(
        at + offset, stats[:, 0], yerr=np.abs(stats[:, 1:].T - stats[:, 0]), color=colour,
        ls=dash, lw=1.8, marker="o", ms=4, capsize=2, elinewidth=1, label=label,
    )  # fmt: skip


for shift, (feature, colour) in zip((-0.06, 0, 0.06), FEATURES.items(), strict=True):
    line(left, "purity", feature, colour, "-", NAMES[feature].replace("\n", " "), shift)
left.set(ylabel="label purity (%)", ylim=(0, 104), title="strata made at that moment")
line(right, "left", "restored", WRITTEN, "-", "as written, made at that moment", -0.06)
line(right, "frozen", "restored", WRITTEN, ":", "as written, kept since $w_0$", 0)
line(right, "frozen", "unsorted", CODED, "--", "as coded, kept since $w_0$", 0.06)
right.set(ylabel="variance left (%)", ylim=(0, 104), title="new or kept strata")
for ax in (left, right):
    ax.set_xticks(at, ticks)
    ax.set_xlim(-0.3, len(at) - 0.7)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False, fontsize="x-small")
show("rounds", fig)

last = s.rounds
say("rounds", last)
say("accuracy", float(np.mean(accuracies)))
say("purity_last", float(of("purity", "restored", t=last).mean()))
say("left_last", float(of("left", "restored", t=last).mean()))
say("left_kept", float(of("frozen", "restored", t=last).mean()))
say("left_kept_coded", float(of("frozen", "unsorted", t=last).mean()))
change = of("purity", "restored", t=last) - of("purity", "restored", t=0)
say("change", between(change, 1))
cost = of("frozen", "restored", t=last) - of("left", "restored", t=last)
say("keeping", between(cost, 1))
say("by_keeping", f"{cost.mean():.1f}".replace("-", "−"))
summary = of("frozen", "unsorted", t=last) - of("frozen", "restored", t=last)
say("by_summary", f"{summary.mean():.1f}".replace("-", "−"))
say("every", method.clients.restratify_every)
say(
    "keeping_word",
    "more than new ones" if plots.interval(cost)[1] > 0
    else "less than new ones" if plots.interval(cost)[2] < 0
    else "as much as new ones, as far as these federations can tell",
)  # fmt: skip
say("moment", MOMENTS[len(MOMENTS) // 2])

# %% [markdown]
# ```{glue:figure} figure_rounds
# :name: fig-rounds
# :alt: Two panels over the training moments w0, a middle round and the last round. Left, label purity of new strata for three summaries. Right, the share of variance left within strata for new strata, strata kept since w0, and strata as coded kept since w0.
#
# Left: label purity of strata that are made anew at $w_0$, at an early round and at the last one. Right: how much of the
# gradients' variance lies within strata, for new strata and for strata kept since $w_0$; lower is better. Thin lines
# are federations, bars 95 % intervals. At the default parameters no curve moves much with training: which summary is clustered (blue or orange)
# matters far more than whether strata are new or kept.
# ```
#
# ```{provenance} Figure
# ```
#
# After {glue:text}`ch2_rounds` rounds (mean accuracy on the {term}`global test set`: {glue:text}`ch2_accuracy:.0f` %) the
# purity of strata of restored gradients is {glue:text}`ch2_purity_last:.0f` %; the change since $w_0$ is
# {glue:text}`ch2_change` percentage points. Strata kept since $w_0$ leave {glue:text}`ch2_left_kept:.0f` % of the variance,
# new ones {glue:text}`ch2_left_last:.0f` %.
#
# ```{admonition} Result
# :class: verdict
# Kept strata of restored gradients leave {glue:text}`ch2_keeping_word`: the difference is {glue:text}`ch2_keeping`
# percentage points. The strata as coded, also kept, leave {glue:text}`ch2_left_kept_coded:.0f` %. Of what separates
# them from new strata as written, keeping accounts for {glue:text}`ch2_by_keeping` points and the summary for
# {glue:text}`ch2_by_summary`.
# ```
#
# The bill: each new stratification asks all {glue:text}`ch2_N` clients for a gradient on all their data. As written
# that is every round, as coded once, and in our corrected method every {glue:text}`ch2_every` rounds.
#
# (map-seats)=
# ## Who gets how many participants?
#
# ```{margin} The paper says: preprint, Sec. 1
# Neyman allocation over strata of compressed gradients converges better than proportional allocation.
# Judged by runs: {doc}`/ledger`, `preprint-intro-neyman`; as a formula below and in [chapter 4b](04b_variance.ipynb).
# ```
#
# Given strata of $N_h$ clients with spread $S_h$, eq. 3.5 of the journal is the allocation of
# {cite:t}`neyman1934two`,
#
# ```{math}
# :label: eq-neyman
# m_h = m \cdot \frac{N_h S_h}{\sum_{h=1}^{H} N_h S_h},
# ```
#
# and it is to minimise the variance of the stratified mean, up to finite-population corrections that no
# allocation changes,
#
# ```{math}
# :label: eq-objective
# V(m_1, \dots, m_H) = \sum_{h=1}^{H} \frac{W_h^2 S_h^2}{m_h}, \qquad W_h = \frac{N_h}{N}, \quad \sum_h m_h = m .
# ```
#
# ```{admonition} As written: journal, Section 3.1
# :class: as-written
# "$N_h$ and $S_h$ are the number of clients in and sample variance of the $h$th stratum."
# ```
#
# ```{admonition} As coded: December 2024, the allocation step
# :class: as-coded
# $S_h$ is the mean distance between pairs of a stratum's centres, a client's zero distance to itself included: a length,
# like a standard deviation, and not a variance.
# ```
#
# Does it matter whether $S_h$ is read as the variance? We compute $V$ in fractions, for three strata
# of 50, 30 and 20 clients with standard deviations 2, 4 and 6, and $m = 10$.


# %%
def objective(sizes, spreads, seats):
    """V; infinite where a stratum with a spread gets nobody."""
    total, value = sum(sizes), 0
    for n, sd, m in zip(sizes, spreads, seats, strict=True):
        if sd:
            value += (n * sd / total) ** 2 / m if m else np.inf
    return value


def by_exponent(sizes, spreads, m, power):
    """Real-valued m_h in proportion to N_h S_h^power."""
    shares = [n * sd**power for n, sd in zip(sizes, spreads, strict=True)]
    return [m * share / sum(shares) for share in shares]


N3 = [Fraction(n) for n in (50, 30, 20)]
S3 = [Fraction(sd) for sd in (2, 4, 6)]
V = {}
for power, name in enumerate(("proportional", "deviation", "variance")):
    V[power] = objective(N3, S3, by_exponent(N3, S3, 10, power))
    print(f"{name}: V = {V[power]}")

# %% tags=["remove-cell"]
bound = sum(n / sum(N3) * sd for n, sd in zip(N3, S3, strict=True)) ** 2 / 10
say("V0", str(V[0]))
say("V1", str(V[1]))
say("V2", str(V[2]))
say("V_gain", 100 * float(1 - V[1] / V[0]))
say("neyman_word", "holds-if" if V[1] == bound < V[2] else "holds" if V[2] == bound else "fails")
say("equal", "exactly equal" if V[0] == V[2] else "not equal")

# %% [markdown]
# Proportional allocation and "Neyman with the variance" are {glue:text}`ch2_equal`: {glue:text}`ch2_V0` and
# {glue:text}`ch2_V2`, where the standard deviation gives {glue:text}`ch2_V1`. It is no accident of the numbers.
#
# ```{prf:lemma} Reading $S_h$ as a variance gains nothing
# :label: lem-variance
# Let all $S_h > 0$ and let $m_h$ be real-valued and proportional to $N_h S_h^a$. Then
#
# $$V(a) = \frac1m \Big(\sum_h W_h S_h^{a}\Big) \Big(\sum_h W_h S_h^{2-a}\Big).$$
#
# So $V(a) = V(2 - a)$, the smallest value is at $a = 1$, and $V(2) = V(0)$: with the variance in place of the standard deviation, Neyman's allocation
# is exactly as good as the proportional one.
# ```
#
# ```{prf:proof}
# Put $m_h = m\, W_h S_h^a / \sum_j W_j S_j^a$ into {eq}`eq-objective`. The formula is symmetric under
# $a \mapsto 2 - a$. By Cauchy and Schwarz the product is at least $\left(\sum_h W_h S_h\right)^2$, its value at $a = 1$.
# ```

# %% tags=["hide-input"]
strata_of = labels["restored"]
sizes, deviations = np.bincount(strata_of), spread(Z, strata_of)
powers = np.linspace(0, 2.4, 97)
cases = {
    "example": ([float(n) for n in N3], [float(sd) for sd in S3], BLACK),
    "this run": (sizes[deviations > 0], deviations[deviations > 0], WRITTEN),
}
fig, ax = plt.subplots(figsize=(7.0, 3.3))
gains, ends = {}, {}
for title, (n, sd, colour) in cases.items():
    values = np.array([objective(n, sd, by_exponent(n, sd, 10, a)) for a in powers])
    values = 100 * values / values[0]
    gains[title] = 100 - values.min()
    ends[title] = (powers[-1], values[-1], colour)
    ax.plot(powers, values, color=colour)
ax.axhline(100, color=GREY, lw=1, ls=":")
for a, title in ((0, "proportional"), (1, "standard deviation"), (2, "variance")):
    ax.axvline(a, color=GREY, lw=0.8, ls=":")
    ax.text(a, 1.02, title, transform=ax.get_xaxis_transform(), ha="left" if a == 0 else "center")
ax.set(xlabel="exponent a in $m_h \\propto N_h S_h^a$", ylabel="V (% of proportional)")
ax.set_xlim(0, 2.4)
plots.label_ends(ax, ends, gap=0.08)
show("exponent", fig)
say("gain_run", float(gains["this run"]))
say("alone", int(np.sum(sizes == 1)))

# %% [markdown]
# ```{glue:figure} figure_exponent
# :name: fig-exponent
# :alt: Two curves of V in per cent of its value under proportional allocation, against the exponent of the spread. Both start at 100 at exponent 0, are lowest at 1, and return to 100 at 2.
#
# $V$ against the exponent of $S_h$ in the allocation, for the example and for the strata of this run (those with a spread).
# Both curves are lowest at 1, the standard deviation, and are back at 100 % at 2, the variance.
# ```
#
# ```{provenance} Figure
# ```
#
# ```{admonition} Verdict
# :class: verdict
# Eq. 3.5 as the best allocation: {glue:text}`ch2_neyman_word`. It is the minimum of {eq}`eq-objective` if $S_h$ is the
# standard deviation and $m_h$ may be any positive real number. In the example it saves {glue:text}`ch2_V_gain:.1f` % of
# $V$ against the proportional allocation, on the strata of this run {glue:text}`ch2_gain_run:.1f` %. With the word
# "variance" taken at its word it saves nothing.
# ```
#
# But $m_h$ counts clients. It must be a whole number, at least 1 (a stratum without a participant is missing from
# the average: Algorithm 3 would divide by zero), and at most $N_h$ when clients are drawn without
# replacement. The paper does not say how to round.
#
# ```{admonition} As coded: December 2024, the rounding
# :class: as-coded
# All quotas are cut to whole numbers. Then the strata with $m_h = 0$ get one seat each, in the order of their labels,
# until the seats are used up. Strata that are still at 0 stay there; with strata frozen at $w_0$, their clients take part
# in no round. (This is the rule for $H = m$, the setting of the preprint.)
# ```
#
# ```{admonition} Corrected
# :class: as-it-should-be
# One seat for each stratum, then one by one to the stratum with the largest $N_h S_h / \sqrt{k (k+1)}$, where $k$ is what it
# has, and never more than $N_h$: `allocation.neyman`. That is the exact minimum of {eq}`eq-objective` over whole numbers
# with $1 \le m_h \le N_h$, because each term is convex in $m_h$.
# ```


# %%
def round_as_coded(quotas, m):
    """The authors' rule for m = H, retold in three lines."""
    seats = np.floor(quotas).astype(int)
    seats[np.flatnonzero(seats == 0)[: m - seats.sum()]] = 1
    return seats


# %% tags=["hide-input"]
occupied = len(sizes)
few, many = occupied, min(2 * occupied, N)  # as many participants as strata, and twice as many


def rules(m):
    quotas = allocation.neyman_real(sizes, deviations, m)
    made = {"eq. 3.5, as printed": (quotas, WRITTEN, "_")}
    if m == occupied:
        made["as coded"] = (round_as_coded(quotas, m), CODED, "v")
    return made | {
        "eq. 3.5, largest remainder": (allocation.largest_remainder(quotas, m), WRITTEN, "o"),
        "proportional": (allocation.proportional(sizes, m), GREY, "s"),
        "integer optimum": (allocation.neyman(sizes, deviations, m), SHOULD, "D"),
    }


fig, axes = plt.subplots(2, 1, figsize=(6.8, 5.4), sharex=True)
for ax, m in zip(axes, (few, many), strict=True):
    made = rules(m)
    for shift, (title, (seats, colour, marker)) in zip(
        np.linspace(-0.3, 0.3, len(made)), made.items(), strict=True
    ):
        hollow = {"mfc": "white"} if marker == "o" else {}
        ax.plot(
            np.arange(occupied) + shift, seats, marker, color=colour, label=title,
            ms=(1.6 if marker == "_" else 1) * (7 if occupied <= 6 else 5.5), mew=2.2 if marker == "_" else 1.3, **hollow,
        )  # fmt: skip
    for h, n in enumerate(sizes):
        ax.plot([h - 0.4, h + 0.4], [n, n], color=BLACK, lw=0.8)
    top = max(float(np.max(seats)) for seats, _, _ in made.values())
    ax.set(ylabel="participants $m_h$", ylim=(-0.4, top + 0.8))
    ax.set_title(f"m = {m}" + (", as many as strata" if m == few else ""))
    ax.grid(axis="x", visible=False)
    ax.yaxis.get_major_locator().set_params(integer=True)
    for edge in np.arange(occupied - 1) + 0.5:
        ax.axvline(edge, color="#E5E5E5", lw=0.8)
axes[1].set_xticks(
    range(occupied),
    [f"{n}\n{sd / deviations.max():.2f}" for n, sd in zip(sizes, deviations, strict=True)],
    fontsize="small",
)
axes[1].set_xlabel(
    "stratum, by its number of clients and (below) its spread, relative to the largest"
)
handles, names = axes[0].get_legend_handles_labels()
fig.legend(handles, names, loc="outside lower center", ncol=3, frameon=False, fontsize="small")
show("allocation", fig)

ones = allocation.neyman(sizes, deviations, few)
say("few", few)
say("many", many)
say("ones", ", ".join(str(x) for x in ones))

# %% [markdown]
# ```{glue:figure} figure_allocation
# :name: fig-allocation
# :alt: Two panels, one for as many participants as strata and one for twice as many. For each stratum, marks show the allocation of eq. 3.5 as printed, as coded in the upper panel, by largest remainder, proportional, and the integer optimum.
#
# The same strata of restored gradients and the same $S_h$, shared out by different rules. Black lines, where they are in
# range, are $N_h$. Upper panel: as many participants as strata. Marks at 0 are strata that nobody
# represents. Look for those: with as many participants as strata only the integer optimum (green) is sure to seat every stratum; the other rules
# may give a large stratum a second seat and a small one none.
# ```
#
# ```{provenance} Figure
# ```


# %% tags=["remove-input"]
def together(words):
    """Five to a line at least: no-break spaces within groups of five."""
    words = list(words)
    return " ".join("\u00a0".join(words[i : i + 5]) for i in range(0, len(words), 5))


rows = []
for m in (few, many):
    best = objective(sizes, deviations, allocation.neyman(sizes, deviations, m))
    for title, (seats, _, _) in rules(m).items():
        whole = "printed" not in title
        value = objective(sizes, deviations, seats)
        out = int(sizes[np.asarray(seats) == 0].sum())
        over = int(np.maximum(np.asarray(seats) - sizes, 0).sum()) if whole else 0
        rows.append(
            {
                "$m$": m,
                "rule": title,
                "$m_h$": together(f"{x:.0f}" if whole else f"{x:.1f}" for x in seats),
                "$V$ (% of the optimum's)": f"{100 * value / best:.1f}"
                if np.isfinite(value) and best > 0
                else "infinite",
                "clients out of reach": out,
                "seats above $N_h$": over if whole else "–",
            }
        )
Markdown(pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True))

# %% [markdown]
# $V$ of real-valued $m_h$ can be below the integer optimum: it has no bounds to keep. $V$ can also be below it
# where a rule gives nothing to a stratum without spread, since {eq}`eq-objective` sees variance and not bias: a stratum
# of a single client has $S_h = 0$, so eq. 3.5 gives it no seat, and that client's data are never used. This run's
# strata have {glue:text}`ch2_alone` of that kind.
#
# In the upper panel the optimum is $m_h$ = {glue:text}`ch2_ones`: with $m = H$ and at least one seat each, there is nothing left
# to allocate, and $S_h$ plays no part, whatever its reading. The preprint's setting, ten strata and ten participants, is this
# case. The coded rule gives the same as long as no quota reaches 2. Otherwise each seat that a stratum has
# beyond its first is missing in another stratum.


# %% tags=["hide-input"]
def as_coded(centres, strata):
    """Sizes, m_h and clients out of reach, by the coded S_h and rounding, with m = H."""
    sizes, found = np.bincount(strata), []
    for h in range(len(sizes)):
        group = centres[strata == h].astype(float)
        found.append(np.linalg.norm(group[:, None] - group[None], axis=2).mean())
    seats = round_as_coded(allocation.neyman_real(sizes, found, len(sizes)), len(sizes))
    return sizes, seats


FEDERATIONS, reach = 20, []
for name in DEALS:
    for number in range(s.seed, s.seed + FEDERATIONS):
        if (name, number) not in centres_of:
            centres_of[name, number] = centres_as_coded(gradients(deal(name, number), number))
        centres = centres_of[name, number]
        for start in range(STARTS):
            n, seats = as_coded(centres, stratify(centres, min(H, len(centres) // 2), start))
            gone, over = n[seats == 0].sum(), (seats > n).any()
            reach.append((DEALS[name], (seats == 0).sum(), gone, 100 * gone / n.sum(), over))
say("federations", FEDERATIONS)
reach = pd.DataFrame(reach, columns=["deal", "strata", "clients", "share", "over"])
for title, rows in reach.groupby("deal"):
    key = "fixed" if "fixed" in title else "disjoint"
    say(f"hit_{key}", int((rows["clients"] > 0).sum()))
    say(f"of_{key}", len(rows))
    say(f"gone_{key}", float(rows["clients"].mean()))
    say(f"share_{key}", float(rows["share"].mean()))
    say(f"most_{key}", int(rows["clients"].max()))
    say(f"over_{key}", int(rows["over"].sum()))

fig, ax = plt.subplots(figsize=(7.0, 2.8))
width = 0.4
bins = np.arange(reach["clients"].max() + 2)
for shift, title, colour in ((-0.2, "disjoint", "#F0A875"), (0.2, "fixed size", CODED)):
    tally = np.bincount(reach.loc[reach["deal"] == title, "clients"], minlength=len(bins))
    ax.bar(bins + shift, tally, width, color=colour, label=title, lw=0)
ax.set(xlabel="clients that can never be drawn", ylabel="stratifications")
ax.xaxis.get_major_locator().set_params(integer=True)
ax.yaxis.get_major_locator().set_params(integer=True)
ax.grid(axis="x", visible=False)
ax.legend(frameon=False, title="data dealt")
show("reach", fig)

# %% [markdown]
# ```{glue:figure} figure_reach
# :name: fig-reach
# :alt: Histogram of the number of clients out of reach over many stratifications as coded, for the disjoint and the fixed-size way of dealing the data.
#
# Clients in strata with $m_h = 0$, over {glue:text}`ch2_federations` federations at $w_0$ with {glue:text}`ch2_starts` seeds of
# k-means each, all as coded: unsorted centres, mean distance between pairs, $m = H$, quotas cut and filled in the
# order of the labels. Bars at 0 are stratifications that reach everyone; to the right of it some clients can never be drawn. At the
# default parameters most reach everyone, and with fixed sizes the tail to the right is the heavier one.
# ```
#
# ```{provenance} Figure
# ```
#
# ```{admonition} Result
# :class: verdict
# As coded, with fixed sizes, {glue:text}`ch2_hit_fixed` of {glue:text}`ch2_of_fixed` stratifications leave clients that can
# never be drawn: {glue:text}`ch2_gone_fixed:.1f` on average, {glue:text}`ch2_share_fixed:.1f` % of all, and
# {glue:text}`ch2_most_fixed` at most. With the disjoint deal {glue:text}`ch2_hit_disjoint` of
# {glue:text}`ch2_of_disjoint` do, {glue:text}`ch2_gone_disjoint:.1f` on average. In {glue:text}`ch2_over_fixed` and
# {glue:text}`ch2_over_disjoint` cases some $m_h$ exceeds $N_h$, and the draw would stop with an error. Under
# $1 \le m_h \le N_h$ both counts are 0.
# ```
#
# (map-draws)=
# ## What does $p$ say when one draws without replacement?
#
# ```{margin} The paper says: journal, Sec. 3.2
# Drawing clients by the norm of their gradient improves the selection further.
# Judged in [chapter 4b](04b_variance.ipynb); {doc}`/ledger`, `journal-importance`.
# ```
#
# Within a stratum the clients are not drawn uniformly.
#
# ```{admonition} As written: journal, Section 3.2
# :class: as-written
# "the probability of selected a client is proportional to its gradient norm", $p_t^k = \lVert IS(G_t^k) \rVert /
# \sum_k \lVert IS(G_t^k) \rVert$.
# ```
#
# ```{admonition} As coded: December 2024, the client draw
# :class: as-coded
# numpy's `choice` with `replace=False` and these $p$. The norm is that of the $d'$ centres, not of the restored
# gradient.
# ```
#
# The numbers $p_k$ are {term}`selection probabilities <selection probability>` of *one* draw. A cohort of $m_h$ distinct clients
# is drawn one after another, each time from those that are left, with the $p$ that are left. The chance to be in the
# cohort at all is another number, the {term}`inclusion probability` $\pi_k$. It is easy to think that $\pi_k = m_h p_k$.
# For two draws and $p = (1/6, 1/3, 1/2)$:

# %%
p3 = [Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)]
pi3 = theory.inclusion_probabilities(p3, 2)
print("m p:", *(2 * p for p in p3))
print("pi: ", *pi3)

# %% tags=["hide-input"]
members = np.flatnonzero(strata_of == np.argmax(sizes))[:40]
norms = ours.norms()
norms = np.maximum(norms, 1e-6 * norms.max())
draws = min(3 if len(members) <= 25 else 2, len(members) - 1)
p_run = norms[members] / norms[members].sum()
pi_run = np.array([float(x) for x in theory.inclusion_probabilities(p_run.tolist(), draws)])
fig, axes = plt.subplots(1, 2, figsize=(6.6, 3.3))
TRIES = 10_000
rng = np.random.default_rng(s.seed)
panels = {
    "three clients, two draws": (np.array(p3, dtype=float), np.array(pi3, dtype=float), 2),
    f"the largest stratum, {draws} draws": (p_run, pi_run, draws),
}
for ax, (title, (p, pi, k)) in zip(axes, panels.items(), strict=True):
    drawn = np.zeros(len(p))
    for _ in range(TRIES):
        drawn[rng.choice(len(p), k, replace=False, p=p)] += 1
    span = np.array([min((k * p).min(), pi.min()), max((k * p).max(), pi.max())])
    span += np.ptp(span) * np.array([-0.1, 0.1])
    ax.plot(span, span, color=GREY, lw=1, ls=":")
    ax.plot(k * p, pi, "o", color=WRITTEN, ms=7, mfc="none", mew=1.5, label="exact")
    ax.plot(k * p, drawn / TRIES, "x", color=CODED, ms=5, label="numpy, 10,000 cohorts")
    ax.annotate(
        "$\\pi = m_h p$", (span[1], span[1]), ha="right", va="top", color=GREY, fontsize="small",
        xytext=(-14, 0), textcoords="offset points",
    )  # fmt: skip
    ax.set(xlabel="$m_h p_k$", ylabel="inclusion probability $\\pi_k$", title=title)
axes[0].legend(frameon=False, fontsize="small", loc="lower right")
show("inclusion", fig)

ratio = pi_run / (draws * p_run)
same_one = theory.inclusion_probabilities(p3, 1) == p3
same_two = pi3 == [2 * p for p in p3]
say("p_word", "holds" if same_two else "holds-if" if same_one else "fails")
say("pi3", ", ".join(str(x) for x in pi3))
say("mp3", ", ".join(str(2 * p) for p in p3))
say("draws", draws)
say("members", len(members))
say("ratio_low", float(ratio[np.argmax(p_run)]))
say("ratio_high", float(ratio[np.argmin(p_run)]))
say("norm_ratio", float(p_run.max() / p_run.min()))
ranks = pd.DataFrame({"Z": norms, "centres": np.linalg.norm(C, axis=1)}).corr("spearman")
say("rank", float(ranks.loc["Z", "centres"]))

# %% [markdown]
# ```{glue:figure} figure_inclusion
# :name: fig-inclusion
# :alt: Two scatter plots of the inclusion probability against m times p, with a dotted diagonal. In both, clients with small p lie above the diagonal and clients with large p below it.
#
# Inclusion probabilities against $m_h p_k$: exact by enumeration (circles), and counted over 10,000 cohorts of numpy's
# `choice` (crosses). Where all norms are equal the points lie on the dotted line; otherwise clients with small norms
# are above it and clients with large norms below.
# ```
#
# ```{provenance} Figure
# ```
#
# ```{explorer} strata
# ```
#
# In the stratum of {glue:text}`ch2_members` clients the largest norm is {glue:text}`ch2_norm_ratio:.1f` times the smallest;
# its client is in the cohort {glue:text}`ch2_ratio_low:.3f` times as often as $m_h p_k$ says, the client
# with the smallest norm {glue:text}`ch2_ratio_high:.3f` times. The norms of the $d'$ centres, which the code uses, have a
# rank correlation of {glue:text}`ch2_rank:.2f` with the norms of the restored gradients.

# %% tags=["remove-cell"]
values, importance = (1, 2, 6), (1, 2, 3)
target = Fraction(sum(values), 3)
with_replacement, _ = theory.design_moments("plain-wr", values, importance, 2)
without, _ = theory.design_moments("plain-successive", values, importance, 2)
repaired, _ = theory.design_moments("hansen-hurwitz", values, importance, 2)
say("target", str(target))
say("plain_wr", str(with_replacement))
say("plain_wor", str(without))
say("repaired", str(repaired))
missed = sum(x != target for x in (with_replacement, without))
say("biased", ("neither misses", "one of them misses", "both miss")[missed])

# %% [markdown]
# ```{admonition} Verdict
# :class: verdict
# "The probability is proportional to the norm": {glue:text}`ch2_p_word`. It is so for each single draw; for a cohort of
# more than one client, drawn without replacement from unequal $p$, it is not: {glue:text}`ch2_pi3` instead of
# {glue:text}`ch2_mp3`.
# ```
#
# What follows the draw needs this number. If clients with large norms come more often, a plain mean of those who came is
# not an estimate of the stratum's mean. A small example: three clients with updates 1, 2 and 6 and norms 1, 2 and 3,
# two of them drawn. The stratum's mean is {glue:text}`ch2_target`. The expectation of the plain mean is
# {glue:text}`ch2_plain_wr` with replacement and {glue:text}`ch2_plain_wor` without: {glue:text}`ch2_biased` the target.
# Weighting each draw by $1/(N_h p_k)$ after {cite:t}`hansen1943theory`, with replacement, gives
# {glue:text}`ch2_repaired`. [](04_theory.ipynb) takes this up as the paper's Lemma 1.
#
# ## What we learned
#
# - A gradient squeezed to {glue:text}`ch2_bits:.2f` bits per parameter loses {glue:text}`ch2_error:.1f` % of its squared norm
#   (median client). What must be kept is the *place* of the entries: of the gradients' variance, strata of restored
#   gradients leave {glue:text}`ch2_left_restored:.0f` %, strata of unsorted centres
#   {glue:text}`ch2_left_unsorted:.0f` %, shuffled clients {glue:text}`ch2_left_chance:.0f` %.
# - Neyman's allocation needs the standard deviation, whole numbers and the bounds $1 \le m_h \le N_h$. With the variance it
#   gains nothing; with $H = m$ there is nothing to allocate; with the coded rounding some clients can be out of reach
#   (here in {glue:text}`ch2_hit_fixed` of {glue:text}`ch2_of_fixed` stratifications).
# - Drawing without replacement with probabilities $p$ gives inclusion probabilities that are not $m_h p$, and a plain mean
#   after an unequal draw is biased.
#
# ## Exercises
#
# ```{exercise-start} Neyman by hand
# :label: ex-neyman-hand
# ```
# Level 1. Write eq. 3.5 as `seats(sizes, spreads, m)`, the exact quotas (use `Fraction`). `check.answer("stratification/neyman", seats)`.
# By hand: (a) $N = (50, 30, 20)$, $S = (2, 4, 6)$, $m = 10$; (b) $N = (2, 48, 50)$, $S = (100, 1, 1)$, $m = 10$. What is wrong with
# the answer to (b), and what is the best one in whole numbers?
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-neyman-hand
# :label: sol-neyman-hand
# :class: dropdown
# ````
# (a) $N_h S_h$ is 100, 120, 120, in sum 340. (b) $N_h S_h$ is 200, 48, 50; the first stratum would need more clients than it
# has. It gets both of them, and the others share the remaining eight seats.


# %%
def seats(sizes, spreads, m):
    loads = [Fraction(n * sd) for n, sd in zip(sizes, spreads, strict=True)]
    return [m * load / sum(loads) for load in loads]


print(check.answer("stratification/neyman", seats))
for n, sd in (((50, 30, 20), (2, 4, 6)), ((2, 48, 50), (100, 1, 1))):
    best = allocation.neyman(n, sd, 10)
    value = objective([Fraction(x) for x in n], sd, [Fraction(int(x)) for x in best])
    print("eq. 3.5:", *seats(n, sd, 10), "| whole numbers:", *best, "| V =", value)

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} Fewer bits for the same levels
# :label: ex-entropy
# ```
# Level 1. {eq}`eq-bits` gives each code the same number of bits. But the codes are not equally frequent ({numref}`fig-squeeze`).
# An ideal entropy coder needs $-\sum_j q_j \log_2 q_j$ bits per entry, $q_j$ the share of level $j$, at the same error. Write it as `bits(shares)`, for shares some of
# which may be 0. `check.answer("stratification/bits", bits)`. How many is it for the client of that figure?
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-entropy
# :label: sol-entropy
# :class: dropdown
# ````
# A level that nobody uses costs nothing. Here the most frequent level alone has {glue:text}`ch2_biggest_share:.0f` % of the entries.


# %%
def bits(shares):
    q = np.asarray(shares, dtype=float)
    q = q[q > 0]
    return -(q * np.log2(q)).sum()


print(check.answer("stratification/bits", bits))
print(f"fixed length: {code} bits; entropy: {bits(shares):.2f} bits per entry")

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} When does Neyman pay?
# :label: ex-pays
# ```
# Level 2. Use the lemma to write the part of $V$ that Neyman saves against proportional allocation with the mean and the variance of
# $S_h$ over the clients, as `saved(sizes, spreads)` (seats need not be whole). `check.answer("stratification/saved", saved)`. When is it zero?
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-pays
# :label: sol-pays
# :class: dropdown
# ````
# With $\bar S = \sum_h W_h S_h$, $V(0) - V(1) = \frac1m \left(\sum_h W_h S_h^2 - \bar S^2\right)
# = \frac1m \sum_h W_h (S_h - \bar S)^2$, so the part saved is $\sum_h W_h (S_h - \bar S)^2 / \sum_h W_h S_h^2$. It is zero if
# all strata have the same spread, however large that is.


# %%
def saved(sizes, spreads):
    W, S = np.array(sizes) / sum(sizes), np.array(spreads)
    return W @ (S - W @ S) ** 2 / (W @ S**2)


print(check.answer("stratification/saved", saved))
for sd in ((4, 4, 4), (3, 4, 5), (2, 4, 6), (0, 4, 8)):
    print(f"thirds with the spreads {sd}: Neyman saves {saved((1, 1, 1), sd):.0%}")

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} Break largest remainder
# :label: ex-remainder
# ```
# Rounding eq. 3.5 by largest remainder looks harmless. Level 2: find two strata for which it leaves one of them empty.
# `check.answer("stratification/empty", (sizes, spreads, m))`. Level 3: find two for which it respects $1 \le m_h \le N_h$ and is still not the minimum of
# $V$. `check.answer("stratification/not-optimal", (sizes, spreads, m))`. All numbers whole, and no ties.
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-remainder
# :label: sol-remainder
# :class: dropdown
# ````
# A stratum is left empty as soon as its quota is small. That the rounding is not optimal takes a little search: the
# optimum compares $N_h S_h / \sqrt{k(k+1)}$, a geometric mean of neighbouring seats, and largest remainder their
# arithmetic mean.

# %%
empty = suboptimal = None
for m, a, b, x, y in np.ndindex(7, 8, 8, 6, 6):
    n, sd, m = (a + 2, b + 2), (x + 1, y + 1), m + 2
    if m >= sum(n) or (empty and suboptimal):
        continue
    quotas = allocation.neyman_real(n, sd, m)
    if abs(quotas[0] % 1 - 0.5) < 0.01:  # a tie would prove little
        continue
    rounded = allocation.largest_remainder(quotas, m)
    best = allocation.neyman(n, sd, m)
    if not rounded.all():
        empty = empty or (n, sd, m, rounded, best)
    elif (rounded <= n).all():
        exact = [Fraction(v) for v in sd]
        if objective(n, exact, rounded.tolist()) > objective(n, exact, best.tolist()):
            suboptimal = suboptimal or (n, sd, m, rounded, best)
for title, (n, sd, m, rounded, best) in (("empty", empty), ("not optimal", suboptimal)):
    values = [
        "infinite" if 0 in counts
        else f"{objective(n, sd, [int(v) for v in counts]):.4f}"
        for counts in (rounded, best)
    ]  # fmt: skip
    print(f"{title}: N = {n}, S = {sd}, m = {m}")
    print(f"  largest remainder {rounded}, V {values[0]}; optimum {best}, V {values[1]}")
print(check.answer("stratification/empty", empty[:3]))
print(check.answer("stratification/not-optimal", suboptimal[:3]))

# %% [markdown]
# ````{solution-end}
# ````
#
# ## Further reading
#
# {cite:t}`neyman1934two` is where the allocation comes from, and still a pleasure to read. {cite:t}`gao2025fedsts`
# proposes the strata of compressed gradients. {cite:t}`fraboni2021clustered` groups clients by their last updates
# instead, without asking all of them. {cite:t}`horvitz1952generalization` shows what to do with inclusion
# probabilities once they are known.
