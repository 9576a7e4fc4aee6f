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
# # A better design: proofs and further theorems
#
# ```{at-a-glance}
# :needs: the page "A better design", whose statements are proved here
# ```
#
# This appendix proves what {doc}`A better design <09_what_we_would_write>` states of least-variance strata, and says where the statements end. Each statement is followed by its
# proof, folded, and by a check: where that is possible over every cohort of a small federation in exact fractions, and elsewhere on examples. The symbols are those of the main page and these:
#
# | symbol | meaning |
# | --- | --- |
# | $\boldsymbol u_k$ | short for $\boldsymbol\Delta_t^k$, the update of client $k$ |
# | $a_k$, $A_h = \sum_{k \in \mathcal C_h} a_k$ | measure that the draws follow, and its total over a stratum |
# | $p_t^k = a_k/A_h$ | probability of client $k$ in one draw from its stratum |
# | $d_{kl}$ | what two clients in one stratum add to the variance |
# | $V$, $V_{\mathrm{MD}}$ | total variance (trace) of a round's update, and that of MD (multinomial) sampling: $m$ draws with replacement, $p = \omega_k$, each of weight $\frac1m$ |
# | $\tau_k^2$, $\ell_k^2 = \mathbb E\|\boldsymbol u_k\|^2$ | variance of client $k$'s update about its mean, the noise of its batches; and its mean squared length |
# | $H$, $m_h$ | number of strata, and of draws from each, where a stratum may have several |
# | $\eta_t$, $E$, $B$ | learning rate, local steps, largest batch |

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of every random draw
device: str = "auto"  # auto, cpu or cuda

# %% tags=["hide-input"]
from fractions import Fraction as Q
from itertools import product
from math import prod

import numpy as np

from companion import ch09, chapters
from companion.pages.prose import expect, glue_values, table
from fedstas import clustered, theory
from fedstas.sim.rng import stream
from fedstas.theory import convergence
from fedstas.theory import least_variance as lv
from fedstas.theory.least_variance import pair_weights
from fedstas.theory.least_variance import sum_within_strata as inside

s = chapters.settings("09a_proofs", globals())

# %% [markdown]
# ## Is the cohort unbiased?
#
# The cohort is unbiased for any strata, because every update is divided by the probability of its client.
#
# ```{prf:lemma} Lemma 1′, unbiased client sampling
# :label: wwi-lem-unbiased
# Let the $N$ clients be divided into strata $\mathcal C_h$, with any weights $\omega_k$ and with probabilities $p_t^k > 0$ that sum to one
# over $k \in \mathcal C_h$, strata and probabilities fixed before the draws. From each stratum draw $m_h \ge 1$ clients
# independently and with replacement, with these probabilities. Draw $i$ from stratum $h$ is client $k_{hi}$, which returns its
# update $\boldsymbol\Delta_t^{k_{hi}} = \boldsymbol w_{t+1}^{k_{hi}} - \boldsymbol w_t$. Given $\boldsymbol w_t$, let the distribution of a client's update
# not depend on who else is drawn. Let the server set
#
# $$\begin{aligned}
# \boldsymbol w_{t+1} &= \boldsymbol w_t \\
# &\quad + \sum_h \frac1{m_h} \sum_{i=1}^{m_h} \frac{\omega_{k_{hi}}}{p_t^{k_{hi}}}\, \boldsymbol\Delta_t^{k_{hi}} .
# \end{aligned}$$
#
# Then
#
# $$\begin{aligned}
# \mathbb E\big[\boldsymbol w_{t+1} \mid \boldsymbol w_t\big]
# &= \boldsymbol w_t \\
# &\quad + \sum_{k=1}^N \omega_k\, \mathbb E\big[\boldsymbol\Delta_t^k \mid \boldsymbol w_t\big] ,
# \end{aligned}$$
#
# whatever the strata and the measure are, and whatever they were made from.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# A draw from $\mathcal C_h$ is client $k$ with probability $p_t^k$, and then contributes
# $\frac{\omega_k}{m_h p_t^k} \mathbb E[\boldsymbol\Delta_t^k \mid \boldsymbol w_t]$ in expectation. In the sum over $k \in \mathcal C_h$ the $p_t^k$ cancel; $m_h$ draws cancel $m_h$;
# the strata together hold every client.
# ```
#
# This is the estimator of Hansen and Hurwitz {cite:p}`hansen1943theory` in each stratum; {doc}`04a_unbiasedness` has the estimators for distinct clients.
# The condition on the updates fails for the paper's rate $n^*/\tilde n$, because who is drawn then decides how everybody trains.
#
# As a check, here are five clients in three strata, with every cohort that can be drawn. Probability times update adds up to the target:


# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: every cohort listed", "code_prompt_hide": "Hide the check: every cohort listed"}
def one_each(omega, strata):
    """List every cohort of one client from each stratum: clients, weights
    of their updates, probability."""
    for cohort in product(*strata):
        W = [sum(omega[j] for j in h) for h in strata]
        p = [omega[k] / w for k, w in zip(cohort, W, strict=True)]
        yield (
            cohort,
            [omega[k] / chance for k, chance in zip(cohort, p, strict=True)],
            prod(p),
        )


omega, updates = np.array([Q(n, 8) for n in (1, 1, 1, 1, 4)]), [4, -2, 3, 5, 1]
target, mean = sum(omega * updates), 0
cohorts = list(one_each(omega, [(0, 1), (2, 3), (4,)]))
for clients, weights, chance in cohorts:
    pairs = zip(weights, clients, strict=True)
    mean += chance * sum(w * updates[k] for w, k in pairs)
assert mean == target
# %% tags=["remove-input"]
glue_values("ch9", partitions=len(list(lv.partitions(5, 3))))
table(ch09.tabulate_cohorts(cohorts, updates))

# %% [markdown]
# The same is true of all {glue:text}`ch9_partitions` partitions into at most three strata, and of draws that follow another measure:

# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: every partition and another measure", "code_prompt_hide": "Hide the check: every partition and another measure"}
for labels, measure in product(lv.partitions(5, 3), (None, (1, 2, 3, 4, 5))):
    # the package's, for any measure
    rows = lv.rows_of_strata(omega, labels, measure)
    assert lv.moments_by_enumeration(*rows, [[u] for u in updates])[0] == [target]
# %% [markdown]
# ## Is the variance the sum over pairs?
#
# {prf:ref}`wwi-thm-cut` states and proves it on the main page. Here it is compared with all cohorts of five clients, for two measures and every partition:


# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: the variance of all cohorts", "code_prompt_hide": "Hide the check: the variance of all cohorts"}
five = np.array([Q(n, 12) for n in (1, 2, 2, 3, 4)])
u5 = [[1, 0], [0, 2], [3, 1], [-1, -1], [2, 2]]
for a, labels in product((five, np.array([1, 3, 2, 5, 4])), lv.partitions(5, 3)):
    by_cohorts = lv.moments_by_enumeration(*lv.rows_of_strata(five, labels, a), u5)[1]
    assert inside(pair_weights(five, np.array(u5), a), labels) == by_cohorts
md5 = lv.moments_by_enumeration([[o / 3 for o in five]] * 3, [five] * 3, u5)[1]
assert inside(pair_weights(five, np.array(u5)), [0] * 5) / 3 == md5
# %% [markdown]
# ## When is it never worse than MD?
#
# For the vectors by which the strata were cut, and without the noise of local training, the variance is at most MD's wherever the search for strata comes to rest. What noise and other vectors cost, {prf:ref}`wwi-prp-noise` and {prf:ref}`wwi-prp-features` say. The search is the one of the main page: it moves single clients and swaps pairs.


# %% [markdown]
# ```{prf:theorem} Never worse than MD
# :label: wwi-thm-md
# Let $d_{kl} \ge 0$ be any pair weights, $P$ their sum over all pairs and $I$ over those inside the $m$ strata.
#
# 1. If no client can move to another stratum, an empty one included, with gain, then $I \le P/m$. The same holds if each client in turn was placed
#    where it cost least beside those placed before it.
# 2. If all strata have equally many clients and no two clients can swap places with gain, then
#    $I \le \frac{N-m}{N-1} \cdot \frac Pm$.
#
# For $a_k = \omega_k$, $P/m$ is $V_{\mathrm{MD}}$. For $\omega_k = 1/N$ the bound of part 2 is the variance of $m$ distinct clients drawn at random.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# (1) What client $k$ costs in its own stratum is at most what it costs in any other, so at most the mean over the $m$ strata, $\frac1m \sum_l d_{kl}$. Sum
# over $k$: every pair counts twice on both sides. Placed one by one, $k$ adds at most $\frac1m$ of its pairs with those before it.
# (2) Let strata $A$ and $B$ have $s$ clients each, $I_A$ and $I_B$ inside and $X$ across. A swap of $k$ and $l$ changes $I$ by
# $\mathrm{cost}_k(B) + \mathrm{cost}_l(A) - 2d_{kl} - \mathrm{cost}_k(A) - \mathrm{cost}_l(B) \ge 0$, where $\mathrm{cost}_k(B)$ is what $k$ costs beside those of $B$. Over all $k \in A$, $l \in B$ this sums to
# $2(s-1)X - 2s(I_A + I_B) \ge 0$. Over all pairs of strata: $(s-1)(P - I) \ge s(m-1) I$, and $sm = N$.
# The variance of $m$ distinct clients is $\frac{N-m}{N-1}$ of that with replacement.
# ```
#
# Part 2 needs strata of equally many clients. Three equal clients, all equally far from each other, in strata of two and one have {glue:text}`ch9_uneven` of MD's variance, although
# $\frac{N-m}{N-1}$ is {glue:text}`ch9_uneven_bound`. For strata of unequal numbers we know no bound below that of part 1; the question is open.


# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: where the bound is attained", "code_prompt_hide": "Hide the check: where the bound is attained"}
def simplex(n):
    """Return the pair weights of n clients of equal size, all at the same
    distance."""
    return pair_weights(np.full(n, Q(1, n)), np.eye(n, dtype=int))


def of_md(d, labels, m=2):
    """Return the variance of strata as a multiple of MD's."""
    return inside(d, labels) / (inside(d, [0] * len(d)) / m)


line = pair_weights(np.full(4, Q(1, 4)), np.array([[0], [1], [0], [1]]))
rest = (0, 0, 1, 1)
assert ch09.no_move_gains(line, rest, 2) and of_md(line, rest) == 1
d5 = pair_weights(five, np.array(u5))
assert all(of_md(d5, x, 3) <= 1 for x in lv.partitions(5, 3) if ch09.no_move_gains(d5, x, 3))
kmeans = of_md(simplex(5), (0, 0, 0, 0, 1))
best5 = min(of_md(simplex(5), x) for x in lv.partitions(5, 2))
merged_costs = [of_md(simplex(n), lv.merge_strata(simplex(n), 2)) for n in range(3, 13)]
assert max(merged_costs[:-1]) < 1 < merged_costs[-1]
# part 2 is attained, and is false for strata of unequal numbers
assert of_md(simplex(6), (0, 1, 2) * 2, 3) == Q(6 - 3, 6 - 1)
uneven, uneven_bound = of_md(simplex(3), (0, 0, 1)), Q(3 - 2, 3 - 1)
assert uneven > uneven_bound
# %% tags=["remove-cell"]
least = min(inside(line, x) for x in lv.partitions(4, 2))
glue_values("ch9", tight=inside(line, rest), tight_best=least, merging=merged_costs[-1])
glue_values("ch9", kmeans=kmeans, kmeans_best=best5, uneven=uneven, uneven_bound=uneven_bound)

# %% [markdown]
# The factor 1 of part 1 can be attained. Four equal clients with updates 0, 1, 0, 1 in the strata $\{1, 2\}$ and $\{3, 4\}$ have
# the variance {glue:text}`ch9_tight`, as MD has, and no single client can move with gain; the best strata have {glue:text}`ch9_tight_best`.
#
# k-means has no such guarantee. If five equal clients are all equally far from each other, k-means finds every two clusters equally good. Two clusters of which one holds a single client have
# {glue:text}`ch9_kmeans` of MD's variance, while the best strata have {glue:text}`ch9_kmeans_best`. Greedy merging, which joins the two strata whose
# union adds least, has no guarantee either: it reaches {glue:text}`ch9_merging` of MD's variance for twelve such clients.
#
# ## Could anything do better?
#
# No other $m$ independent draws of exactly one client each do better, if the strata are cut by angles and the draws follow norms.
#
# ```{prf:theorem} No independent draws of one client each do better
# :label: wwi-thm-best
# Take any $m$ independent draws of one client each: draw $j$ is client $k$ with probability $p_{jk}$ and adds $y_{jk} \boldsymbol u_k$. Let
# the sum be unbiased for $\sum_k \omega_k \boldsymbol u_k$, whatever the updates are. Then $V$ is at least the least inside sum of all
# partitions into $m$ strata, with the pair weights
#
# $$d_{kl} = 2\omega_k\omega_l \big( \|\boldsymbol u_k\| \|\boldsymbol u_l\| - \langle \boldsymbol u_k, \boldsymbol u_l \rangle \big) ,$$
#
# and that partition attains it with $p_t^k \propto \omega_k \|\boldsymbol u_k\|$ if no update is zero: an *angular* cut. If every draw has one positive weight for all its clients,
# the same is true of $d_{kl} = \omega_k\omega_l\|\boldsymbol u_k - \boldsymbol u_l\|^2$ and $p_t^k \propto \omega_k$.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# Put $x_{jk} = p_{jk}\, y_{jk}$. Unbiased means $\sum_j x_{jk} = \omega_k$. By Cauchy and Schwarz the second moment of draw $j$,
# $\sum_k x_{jk}^2 \|\boldsymbol u_k\|^2/p_{jk}$, is at least $\big(\sum_k |x_{jk}| \|\boldsymbol u_k\|\big)^2$. So
#
# $$\begin{aligned}
# V \ge 2 \sum_j \sum_{k<l} \big( &|x_{jk} x_{jl}| \|\boldsymbol u_k\| \|\boldsymbol u_l\| \\
# &- x_{jk} x_{jl} \langle \boldsymbol u_k, \boldsymbol u_l \rangle \big),
# \end{aligned}$$
#
# because the squares cancel. Let the $x_{jk}$ of one client $k$ vary. Each then adds $\phi_j x_{jk}$ if it is positive and $\psi_j |x_{jk}|$ if not. Both slopes are
# $\ge 0$, as $\|\boldsymbol u_k\| \sum_l |x_{jl}| \|\boldsymbol u_l\| \ge |\langle \boldsymbol u_k, \sum_l x_{jl} \boldsymbol u_l \rangle|$. The positive $x_{jk}$
# sum to at least $\omega_k$, so client $k$ adds at least $\omega_k \min_j \phi_j$. Giving all of $\omega_k$ to that draw never raises the bound. Do so client by client:
# what is left is a partition. With one weight $y_j$, $p_{jk} = x_{jk}/y_j$ and $V = \sum_j \sum_{k<l} x_{jk} x_{jl} \|\boldsymbol u_k - \boldsymbol u_l\|^2$, linear
# in the $x_{jk} \ge 0$ of one client.
# ```
#
# FedSTaS had three ideas: strata of gradients, draws by norm, and an allocation by spread. Their exact counterpart is to cut by the angles, to draw by
# weight times norm, and to give every stratum one draw. The theorem has two consequences:
#
# - **No Neyman allocation is needed.** Split a stratum of $m_h$ draws into $m_h$ strata, each client where it costs least; for the same measure, the variance never
#   rises ({prf:ref}`wwi-thm-md`, part 1).
# - **Clustered sampling and MD split clients.** In clustered sampling $x_{jk}$ is the probability of client $k$ in draw $j$, divided by $m$; in MD it is
#   $\omega_k/m$. Rounding client by client turns any such draws into strata, and never raises the variance on the updates that it sees.


# %% tags=["remove-cell"]
def variance(x, p, gram, noise=0):
    """Return the variance of independent draws: draw j is client k with
    probability p[j, k] and adds x[j, k] / p[j, k] u_k."""
    squares = np.divide(x**2, p, out=np.zeros_like(x), where=p > 0)
    return (squares @ (gram.diagonal() + noise)).sum() - ((x @ gram) * x).sum()


# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: random sums of draws", "code_prompt_hide": "Hide the check: random sums of draws"}
def angular(omega, gram):
    """Return the pair weights of draws by norm."""
    length = np.sqrt(gram.diagonal())
    return 2 * np.outer(omega, omega) * (np.outer(length, length) - gram)


rng, trials, below, raised = np.random.default_rng(s.seed), 200, 0, 0
# sums of draws at random, half of them with negative contributions
for i in range(trials):
    n, draws = 3 + i % 4, 2 + i % 2
    w, u = rng.dirichlet(np.ones(n)), rng.normal(size=(n, 1 + i % 3))
    # columns sum to w
    gram, x = u @ u.T, rng.dirichlet(np.ones(draws), size=n).T * w
    x[:2] += (i % 2) * 0.3 * np.array([[-1], [1]]) * w
    length = np.abs(x) @ np.sqrt(gram.diagonal())
    value = (length**2).sum() - ((x @ gram) * x).sum()  # with the best p
    np.testing.assert_allclose(value, lv.variance_at_best_probabilities(x, gram), atol=1e-12)
    below += value < lv.best_partition(angular(w, gram), draws)[1] - 1e-12
    raised += inside(angular(w, gram), lv.round_to_strata(x, gram, "norm")) > value + 1e-12
assert below == raised == 0
# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: draws by norm, and rounding to strata", "code_prompt_hide": "Hide the check: draws by norm, and rounding to strata"}
sixths = np.array([Q(x, 6) for x in (1, 2, 1, 2)])
length4 = np.array([5, 5, 13, 10])
u4 = np.array([[3, 4], [5, 0], [5, 12], [6, -8]])
d4 = 2 * np.outer(sixths, sixths) * (np.outer(length4, length4) - u4 @ u4.T)
for labels in lv.partitions(4, 2):
    by_norm = lv.rows_of_strata(sixths, labels, sixths * length4)
    assert inside(d4, labels) == lv.moments_by_enumeration(*by_norm, u4)[1]

sizes, u = rng.integers(1, 9, 8), rng.normal(size=(8, 2))
w = sizes / sizes.sum()
gram = u @ u.T
similar = clustered.similarity_groups(u, sizes, 3)
draws = {
    "MD": np.tile(w, (3, 1)),
    "clustered by size": clustered.by_size(sizes, 3),
}
draws["clustered by similarity"] = clustered.by_groups(sizes, similar, 3)
d, rounded = pair_weights(w, u), {}
for name, rows in draws.items():
    strata = lv.round_to_strata(rows / 3, gram)
    rounded[name] = (
        variance(rows / 3, rows, gram),
        float(inside(d, strata)),
        lv.best_partition(d, 3)[1],
    )
    assert rounded[name][1] <= rounded[name][0] + 1e-12
# %% tags=["remove-input"]
glue_values("ch9", tried=trials)
table(ch09.tabulate_rounding(rounded))

# %% [markdown]
# We tried {glue:text}`ch9_tried` random sums of draws: none had a smaller variance than the best angular cut, and rounding raised none. The table shows eight random
# clients and three draws.
#
# The words "exactly one client each" matter. Poisson sampling decides about every client by a draw of its own, independent of the others, so it
# may end with fewer or more than $m$ participants. And the draws of $m$ distinct clients depend on each other. Both ways of drawing can be
# better than any strata:
#
# ```{prf:proposition} Where distinct clients win
# :label: wwi-prp-distinct
# Let $\omega_k = 1/N$, let the updates be orthonormal, and let $N = sm + R > m$ with $0 \le R < m$. The least variance of $m$ independent draws
# is $1 + \frac{R(m - R)}{N(N - m)}$ times that of $m$ distinct clients drawn at random.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# All $d_{kl}$ are $2/N^2$, for both cuts. So $I$ is least for strata of $s$ or $s + 1$ clients, $s(ms - m + 2R)/N^2$. Distinct clients have
# $\frac{N-m}{mN}$, and $sm(ms - m + 2R) = N(N - m) + R(m - R)$.
# ```
#
# For any weights and orthonormal updates there are two more rivals. Poisson sampling with inclusion probabilities $\pi_k = m\omega_k \le 1$ and weights
# $\omega_k/\pi_k = \frac1m$ has the variance $\sum_k \omega_k^2 \frac{1 - \pi_k}{\pi_k} = \frac1m - \sum_k \omega_k^2$. A draw of $m$ distinct clients
# with these inclusion probabilities and weights has the same variance, because with orthonormal updates it does not matter who is drawn together with whom.

# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: distinct clients and Poisson sampling", "code_prompt_hide": "Hide the check: distinct clients and Poisson sampling"}
three = min(inside(simplex(3), x) for x in lv.partitions(3, 2))
distinct = 3 * theory.simple_random_variance([1, 0, 0], 2)  # three coordinates
assert three / distinct == 1 + Q(1 * (2 - 1), 3 * (3 - 2))


def poisson_variance(omega, m):
    """Return the variance of Poisson sampling with pi_k = m omega_k, for
    orthonormal updates: client k takes part 0 or 1 times, independently of
    the others."""
    pi = m * omega
    return (omega**2 / pi**2 * pi * (1 - pi)).sum()


uneven_weights = np.array([Q(3, 10), Q(3, 10), Q(3, 10), Q(1, 10)])
four = pair_weights(uneven_weights, np.eye(4, dtype=int))
four_strata = min(inside(four, x) for x in lv.partitions(4, 2))
four_rivals = poisson_variance(uneven_weights, 2)
assert poisson_variance(np.full(3, Q(1, 3)), 2) == distinct < three
assert four_rivals < four_strata
# %% tags=["remove-cell"]
glue_values("ch9", cut_three=three, distinct_three=distinct)
glue_values("ch9", cut_four=float(four_strata), rivals_four=float(four_rivals))

# %% [markdown]
# For $N = 3$ and $m = 2$ the best strata have the variance {glue:text}`ch9_cut_three` and both rivals {glue:text}`ch9_distinct_three`. With equal weights and orthonormal
# updates, strata lose only where $m$ does not divide $N$. With unequal weights they can lose where it does: for the weights 0.3, 0.3, 0.3, 0.1 and $m = 2$ the
# best strata have {glue:text}`ch9_cut_four:.2f`, and the rivals {glue:text}`ch9_rivals_four:.2f`.
#
# ## How hard are the best strata to find?
#
# The best strata are hard to find, but good strata are easy to find.
#
# ```{prf:proposition} The best strata are hard to find
# :label: wwi-prp-hard
# For every fixed $m \ge 2$ it is NP-hard to find the strata of least variance, for draws by size and by norm, even if $\omega_k = 1/N$.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# From the maximum $m$-cut of a graph with $n$ vertices and $e$ edges. It is NP-hard {cite:p}`garey1976simplified`: cuts for $m = 2$, colourings for
# $m = 3$ and, with vertices joined to all others, for each larger $m$.
# Add $(m-1)n$ vertices without edges, so that any $m$-cut extends to parts of $n$ vertices each. A vertex becomes a client. Its update has a coordinate for each edge, $+1$ at one end
# and $-1$ at the other, and so many coordinates of its own with a 1 that $\|\boldsymbol u_k\|^2 = 2e$. Then $\|\boldsymbol u_k - \boldsymbol u_l\|^2$
# is $4e$, and 2 more for an edge; lengths are equal, so that both cuts are one. A pair more inside strata costs more than all edges together can. So the best strata have
# $n$ clients each, and the fewest edges inside.
# ```
#
# For a fixed $m$ there are schemes with a guarantee. {cite:t}`schulman2000clustering` finds, with high probability, strata whose cut is within a factor $1 - \epsilon$ of the largest,
# and whose inside sum is within $1 + \epsilon$ of the least, or else whose labels are right except for a share $\epsilon$ of the clients. These schemes are of
# interest in theory: they sample, project, and search exactly, in a time that is exponential in the dimension.
#
# A local optimum is enough for {prf:ref}`wwi-thm-md`. How far is the search from the best of *all* partitions? We tried random weights and points, and a graph of the proof:

# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: the search against all partitions", "code_prompt_hide": "Hide the check: the search against all partitions"}
gaps, instances = {}, 40
for n, h in ((8, 2), (8, 4), (10, 3), (10, 4)):
    gaps[n, h] = lv.measure_search(n, h, instances, stream(s.seed, "chapter 9, search", n, h))
    assert gaps[n, h].of_md <= 1

graph = ((0, 1), (1, 2), (0, 2), (2, 3))
# as in the proof: eight clients of equal length
u = np.array(lv.updates_from_graph(graph, 4, 2))
best = lv.best_partition(pair_weights(np.ones(8), u), 2)[0]
edges = sum(int(best[k] != best[j]) for k, j in graph)
halvings = list(product((0, 1), repeat=4))
assert edges == max(sum(h[k] != h[j] for k, j in graph) for h in halvings)
# %% tags=["remove-input"]
glue_values("ch9", instances=instances)
table(ch09.tabulate_gaps(gaps))

# %% [markdown]
# Each line has {glue:text}`ch9_instances` instances. Where the search misses the best strata, the ratio can be large, because the best strata may leave almost no variance.
#
# ## Does it converge?
#
# Training converges at the rate $1/t$, as {prf:ref}`thm-ch4f-rate` guarantees it to every unbiased design; the strata change the constants. They lower $V_*$ where they separate the gradients at the optimum, and they raise $\Lambda$ where a stratum weighs more than $1/m$.
#
# ```{prf:theorem} Theorem 2′, convergence
# :label: wwi-thm-convergence
# Let the $F_k$ be convex with $L$-Lipschitz gradients and $F$ be $\mu$-strongly convex with minimiser $\boldsymbol w^*$. Let one client be drawn from each of
# $m$ strata, $a_k = \omega_k$, and take one step on all its data ($E = 1$, $q = 1$, $B \ge n_k$). Set
#
# $$\begin{aligned}
# V_* &= \sum_h \sum_{k<l \in \mathcal C_h} \omega_k\omega_l\, g_{kl}^2, \\
# g_{kl} &= \|\nabla F_k(\boldsymbol w^*) - \nabla F_l(\boldsymbol w^*)\|, \\
# \Lambda &= L \big(1 + 2 \max_h W_h\big).
# \end{aligned}$$
#
# 1. For $\eta_t = \frac2{\mu(t + \gamma)}$, $\gamma = \frac{2\Lambda}\mu$, $t = 0, 1, \dots$:
#
#    $$\begin{aligned}
#    &\mathbb E\|\boldsymbol w_t - \boldsymbol w^*\|^2 \le \tfrac{8V_*}{\mu^2 (t + \gamma)} \\
#    &+ \tfrac{(\gamma - 1)(\gamma - 2)}{(t + \gamma - 1)(t + \gamma - 2)} \|\boldsymbol w_0 - \boldsymbol w^*\|^2 .
#    \end{aligned}$$
# 2. For a constant $\eta \le \frac1\Lambda$:
#
#    $$\begin{aligned}
#    &\mathbb E\|\boldsymbol w_t - \boldsymbol w^*\|^2 \le \tfrac{2\eta V_*}\mu \\
#    &+ (1 - \eta\mu)^t \|\boldsymbol w_0 - \boldsymbol w^*\|^2 .
#    \end{aligned}$$
#
# In both, $\mathbb E F(\boldsymbol w_t) - F^*$ is at most $\frac L2$ times that. For MD, $\frac1m$ takes the place of $\max_h W_h$ and MD's variance of the
# $\nabla F_k(\boldsymbol w^*)$ that of $V_*$.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# The proof follows that of {prf:ref}`thm-ch4f-rate`, with the variance in the place of the second moment. Let $\boldsymbol G_t$ be the update divided by $-\eta_t$, $\boldsymbol g$ the clients'
# gradients at $\boldsymbol w_t$, $\boldsymbol g^*$ those at $\boldsymbol w^*$.
# $\boldsymbol G_t$ has mean $\nabla F(\boldsymbol w_t)$ by {prf:ref}`wwi-lem-unbiased` and variance $V(\boldsymbol g) \le 2V(\boldsymbol g - \boldsymbol g^*) + 2V_*$, the square of a
# seminorm. As in {prf:ref}`wwi-prp-features`, $V(\boldsymbol e) \le \max_h W_h \sum_k \omega_k \|\boldsymbol e_k\|^2$. By convexity and smoothness
# $\sum_k \omega_k \|\boldsymbol g_k - \boldsymbol g_k^*\|^2 \le 2L(F - F^*)$, and $\|\nabla F\|^2 \le 2L(F - F^*)$. Together
# $\mathbb E\|\boldsymbol G_t\|^2 \le 2\Lambda(F - F^*) + 2V_*$.
# As there, with $V_*$ for $\sigma_*^2$, the squared distance $x_t$ obeys $x_{t+1} \le (1 - \eta_t\mu) x_t + 2\eta_t^2 V_*$ for $\eta_t \le 1/\Lambda$. That gives part 2. For part 1, the
# factors $1 - \eta_s\mu = \frac{s + \gamma - 2}{s + \gamma}$ multiply to the fraction of the start. The noise of round $s$ is left with
# $\frac{8V_*}{\mu^2} \frac{s + \gamma - 1}{s + \gamma} \frac{1}{(t + \gamma - 1)(t + \gamma - 2)}$. The sum over $s < t$ is at most $\frac{8V_*}{\mu^2} \frac{t}{(t + \gamma - 1)^2}$, and
# $t(t + \gamma) \le (t + \gamma - 1)^2$ since $\gamma \ge 2$. For MD the proof is the same with
# $V_{\mathrm{MD}}(\boldsymbol e) \le \frac1m \sum_k \omega_k \|\boldsymbol e_k\|^2$.
# ```
#
# The error of the start falls like $1/t^2$. The error that remains falls like $1/t$ and has the factor $V_*$, which the strata make small. Heavy strata cost step size, through
# $\Lambda$. Noise that gives an update the variance $\tau_k^2$ adds $\frac12 \sum_k \omega_k W_h \tau_k^2/\eta_t^2$ to $V_*$, where $\tau_k^2/\eta_t^2$ is the variance of the gradient. For $E > 1$ and decreasing steps,
# {cite:t}`li2020convergence` prove $O(1/T)$ for unbiased schemes under bounded gradients.
#
# As a check, here are five quadratics, whose exact errors $\mathbb E\|\boldsymbol w_t - \boldsymbol w^*\|^2$ follow from the moments of all cohorts:

# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: five quadratics", "code_prompt_hide": "Hide the check: five quadratics"}
centres, curvatures = np.array([0.0, 1, 3, 8, 9]), np.array([1.0, 2, 1, 3, 1])
w, T = np.array([1, 2, 1, 3, 1]) / 8, 10_000
world = convergence.Quadratics(curvatures[:, None, None], centres[:, None, None], w)
# from w_0 = 0
L, mu, start = curvatures.max(), w @ curvatures, world.minimiser.item() ** 2
d = pair_weights(w, world.gradients(world.minimiser).reshape(5, 1))
groups, V_star = lv.best_partition(d, 3)
Lambda = L * (1 + 2 * np.bincount(groups, w).max())
gamma, t = 2 * Lambda / mu, np.arange(T + 1)
steps = {
    "decreasing": 2 / (mu * (t[:-1] + gamma)),
    "constant": np.full(T, 1 / Lambda),
}
bounds = {
    "decreasing": 8 * V_star / (mu**2 * (t + gamma))
    + (gamma - 1) * (gamma - 2) / ((t + gamma - 1) * (t + gamma - 2)) * start,
    "constant": (1 - mu / Lambda) ** t * start + 2 * V_star / (Lambda * mu),
}
moments_of = {
    "strata": lv.moments(w, groups),
    "MD": convergence.hansen_hurwitz(w, w, 3),
}
series = {}
for name, lrs in steps.items():
    errors_by_sampling = {}
    for k, x in moments_of.items():
        errors_by_sampling[k] = convergence.errors(world, x, lrs, [[0.0]])[0]
    assert (errors_by_sampling["strata"] <= bounds[name] * (1 + 1e-9)).all()
    series |= {
        f"{name}: strata": errors_by_sampling["strata"],
        f"{name}: bound": bounds[name],
        f"{name}: MD": errors_by_sampling["MD"],
    }
theirs = lv.convergence_bound(world, groups, T, start).distance
np.testing.assert_allclose(theirs, bounds["decreasing"])
# %% tags=["remove-input"]
late = series["decreasing: strata"]
slope = np.log(late[1_000] / late[10_000]) / np.log(10)
glue_values("ch9", slope=slope, V_star=V_star, V_star_md=float(inside(d, [0] * 5) / 3))
expect("the exact error falls like", abs(slope - 1) < 0.02, slope=slope)
table(ch09.tabulate_series(series))

# %% [markdown]
# $V_*$ is {glue:text}`ch9_V_star:.2f` for the best strata and {glue:text}`ch9_V_star_md:.2f` for MD, with $m = 3$. From round 1,000 on the exact error falls like $t^{-x}$ with
# $x$ = {glue:text}`ch9_slope:.2f`.
#
# Networks are not convex, and clients take several steps. For networks a smooth loss is enough to bound the gradient, and $V$ enters in the same way:
#
# ```{prf:theorem} Theorem 2″, several steps and no convexity
# :label: wwi-thm-nonconvex
# Let the $F_k$ have $L$-Lipschitz gradients, and let $F = \sum_k \omega_k F_k \ge F^*$. In round $t$ let every drawn client take $E$ steps of gradient descent with
# learning rate $\eta$, let $\boldsymbol u_k$ be its update, and let the cohort's sum be unbiased for $\sum_k \omega_k \boldsymbol u_k$ with variance $\gamma^2 v_t$, where
# $\gamma = \eta E$. Let $D_t = \sum_k \omega_k \|\nabla F_k(\boldsymbol w_t) - \nabla F(\boldsymbol w_t)\|^2$. If $\gamma L \le \frac14$, then
#
# $$\begin{aligned}
# &\frac1T \sum_{t < T} \mathbb E \|\nabla F(\boldsymbol w_t)\|^2 \\
# &\quad \le \frac{30}{29} \Big( \frac{2 (F(\boldsymbol w_0) - F^*)}{\gamma T} \\
# &\qquad + \gamma L \bar v + \frac{25}{48} \gamma^2 L^2 \bar D \Big) ,
# \end{aligned}$$
#
# with $\bar v$ and $\bar D$ the means of $\mathbb E v_t$ and $\mathbb E D_t$ over the rounds.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# Write $\boldsymbol g = \nabla F(\boldsymbol w_t)$, $\boldsymbol g_k = \nabla F_k(\boldsymbol w_t)$, $\boldsymbol w_{k,s}$ for client $k$'s model after $s$ steps, and $\bar{\boldsymbol g}$ for the mean over $s < E$ of
# $\sum_k \omega_k \nabla F_k(\boldsymbol w_{k,s})$. Then $\sum_k \omega_k \boldsymbol u_k = -\gamma \bar{\boldsymbol g}$. By smoothness, given $\boldsymbol w_t$,
#
# $$\begin{aligned}
# &\mathbb E F(\boldsymbol w_{t+1}) \\
# &\le F - \gamma \langle \boldsymbol g, \bar{\boldsymbol g} \rangle + \tfrac L2 \gamma^2 (\|\bar{\boldsymbol g}\|^2 + v_t) \\
# &\le F - \tfrac\gamma2 \|\boldsymbol g\|^2 + \tfrac\gamma2 \|\boldsymbol g - \bar{\boldsymbol g}\|^2 \\
# &\quad + \tfrac L2 \gamma^2 v_t ,
# \end{aligned}$$
#
# since $2\langle \boldsymbol g, \bar{\boldsymbol g} \rangle = \|\boldsymbol g\|^2 + \|\bar{\boldsymbol g}\|^2 - \|\boldsymbol g - \bar{\boldsymbol g}\|^2$ and $\gamma L \le 1$. How far do clients drift?
# $\|\boldsymbol w_{k,s+1} - \boldsymbol w_t\| \le (1 + \eta L) \|\boldsymbol w_{k,s} - \boldsymbol w_t\| + \eta \|\boldsymbol g_k\|$ gives
# $\|\boldsymbol w_{k,s} - \boldsymbol w_t\| \le \frac{e^{\eta L s} - 1}{L} \|\boldsymbol g_k\| \le \frac54 \eta s \|\boldsymbol g_k\|$ for $\eta L s \le \frac14$. So, with $\frac1E \sum_{s<E} s^2 \le \frac{E^2}3$,
# $\|\boldsymbol g - \bar{\boldsymbol g}\|^2 \le \frac{25}{48} \gamma^2 L^2 \sum_k \omega_k \|\boldsymbol g_k\|^2 = \frac{25}{48} \gamma^2 L^2 (\|\boldsymbol g\|^2 + D_t)$. The factor of
# $\|\boldsymbol g\|^2$ is at most $\frac{25}{768} < \frac1{30}$. Sum over the rounds.
# ```
#
# The theorem holds for every unbiased design. Apart from the models that they visit, designs differ in $\bar v$ alone: for strata it is the cut of the updates divided by $\gamma$, for MD it is a share $\frac1m$ of all pairs. With $\gamma \propto 1/\sqrt T$
# the bound falls like $1/\sqrt T$, and the design enters its leading constant through $\bar v$. The term of the clients' differences, $\gamma^2 L^2 \bar D$, falls like $1/T$, and a design changes $\bar D$ only by the models that it visits.
#
# The step of the proof that uses the design is an inequality for one round. We checked it on the losses $\log(1 + (w - c_k)^2)$, which are not convex, with five steps, at 200 models and over all cohorts:

# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: losses that are not convex", "code_prompt_hide": "Hide the check: losses that are not convex"}
at, E, L = np.array([-2.0, -1, 1, 3, 4]), 5, 2.0
w5 = np.array([0.1, 0.3, 0.2, 0.25, 0.15])
models = np.linspace(-5, 7, 200)


def loss(x):
    """Return F at models x [n]."""
    return np.log1p((x[:, None] - at) ** 2) @ w5


def slope_of(x):
    """Return the clients' gradients [n, 5] at models x [n, 5] or [n, 1]."""
    return 2 * (x - at) / (1 + (x - at) ** 2)


left_over = {}
for gamma, labels in product((0.02, 0.125), ([0, 0, 1, 1, 1], [0, 1, 0, 1, 0])):
    start, each = models[:, None], np.repeat(models[:, None], 5, axis=1)
    for _ in range(E):
        each = each - gamma / E * slope_of(each)
    u, g = each - start, slope_of(start)
    mean_g = g @ w5
    drift = (g - mean_g[:, None]) ** 2 @ w5
    groups = [np.flatnonzero(np.equal(labels, h)) for h in range(2)]
    mass = np.array([w5[k].sum() for k in groups])
    after, second = 0.0, 0.0
    for cohort in product(*groups):
        chance, step = (w5[list(cohort)] / mass).prod(), u[:, list(cohort)] @ mass
        after = after + chance * loss(models + step)
        second = second + chance * step**2
    v = (second - (u @ w5) ** 2) / gamma**2
    c = 25 / 48 * gamma**2 * L**2
    bound = loss(models) - gamma / 2 * ((1 - c) * mean_g**2 - c * drift - gamma * L * v)
    assert (after <= bound + 1e-12).all()
# %% [markdown]
# ## What was known, and what is new?
#
# Much was known, under other names.
#
# - **Strata as clusters** are old in survey sampling. {cite:t}`golder1973use`, {cite:t}`jarque1981solution` and {cite:t}`mulvey1983multivariate` cluster a population to make strata of small variance.
#   {cite:t}`degruijter2015optimizing` minimise the sampling variance itself, written as a sum over pairs within strata, by reallocating one unit after the other; they add
#   the variances of prediction errors to the pairs as we do with $\tau_k^2$. Their allocation is Neyman's, while ours is one draw a stratum.
# - **One draw from each group**, with probability proportional to size, is in {cite:t}`rao1962simple` for groups made at random, and in {cite:t}`csiba2018importance` for minibatches.
# - **The cut** $\sum \|\boldsymbol z_k - \boldsymbol z_l\|^2$ inside clusters is a known objective. {cite:t}`schulman2000clustering` approximates it; {cite:t}`malinen2023all` search it by single
#   moves and call it squared cut. That a local optimum of the maximum $m$-cut cuts at least $1 - \frac1m$ of the weight, which is part 1 of {prf:ref}`wwi-thm-md`, is
#   due to {cite:t}`sahni1976pcomplete`. Anticlustering {cite:p}`papenberg2021using` is the opposite problem: it maximises the same sum.
# - **Strata for stochastic gradients** are used by {cite:t}`zhao2014accelerating` for examples of a minibatch and by {cite:t}`yi2024cohort` for cohorts of clients.
#
# Three statements we found nowhere. We claim them as new until somebody shows us otherwise; the variance as a sum over pairs, and one draw from each group, are not among them, since survey samplers know both.
#
# - If one client is drawn by size from each of $m$ strata, the variance of a federated round is *exactly* a cut with weights $\omega_k\omega_l$, so that strata can be searched as cuts of a graph ({prf:ref}`wwi-thm-cut`).
# - The angular cut with draws by norm is the best of all $m$ independent draws of one client each ({prf:ref}`wwi-thm-best`).
# - Features that are not the updates cost no more than a bound ({prf:ref}`wwi-prp-features`), and {prf:ref}`wwi-prp-sketch` says what a sketch adds to it.
#
# ```{provenance} How the live numbers were made
# ```
