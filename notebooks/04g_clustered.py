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
# # Do the theorems of clustered sampling hold?
#
# ```{at-a-glance}
# :needs: expectations, variances and covariance matrices; the page on clustered sampling explains the method with pictures
# ```
#
# The theorems hold, some of them on a condition, but the printed pseudocode of both algorithms does not do what they say. At the end you will know
# - what a matrix of $m$ distributions does to the clients' weights, as one theorem with its proof and all cases of equality;
# - which printed lines of Algorithms 1 and 2 make such a matrix, and which do not;
# - what is missing from the rate of Theorems 1 and 2 when clients differ and train for many local steps.
#
# {term}`MD sampling <md>`, with which the paper compares, draws $m$ times with replacement, each time client $i$ with probability $p_i$.

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of the random federations
device: str = "auto"  # auto, cpu or cuda; nothing here needs one
repeats: int = None  # random federations per number of clients in the first figure

# %% tags=["hide-input"]
from fractions import Fraction as Q
from itertools import combinations, product
from math import prod, sqrt

import numpy as np

from companion import ch04g, chapters, check, plots
from companion.claims.evidence import clusters_bounds
from companion.pages.prose import expect, glue_figure, glue_values, table
from fedstas import clustered, theory
from fedstas.sim.rng import stream
from fedstas.theory.clusters import REPAIRS_1

s = chapters.settings("04g_clustered", globals())
plots.set_page_style()

# %% tags=["remove-input"]
words, evidence = ch04g.decide_claims()
glue_values("ch4g", **words)
theorems = [name for name in ch04g.THEOREMS if words[name] == "fails"]
expect("Five rows of the table fail", len(theorems) == 5, fail=", ".join(theorems))

# %% [markdown]
# {cite:t}`fraboni2021clustered` give each of the $m$ draws of a round its own distribution; {doc}`the page on clustered sampling <06_clustered_sampling>` shows how. Their theorems
# hold, some on a condition (*holds-if* in the table). Five rows of the table fail: a sign in eq. 56, a sentence on equality, the printed lines of both algorithms, and a remark in a proof. We check the statements in
# exact fractions, on every federation of up to four clients, seven examples and three draws, with five schemes for each federation.
#
# | Claim | What it says | Verdict |
# | :-- | :-- | :-- |
# | Proposition 1, eq. 6–10 | row sums 1 and column sums $mp_i$ make a scheme unbiased | {glue:text}`ch4g_prop1` |
# | eq. 12 | expected weights are $p_i$ | {glue:text}`ch4g_eq12` |
# | eq. 13–14 | the variance under MD sampling | {glue:text}`ch4g_eq13` |
# | eq. 15–16 | the variance under clustered sampling | {glue:text}`ch4g_eq15` |
# | eq. 17 | no weight varies more than under MD | {glue:text}`ch4g_eq17` |
# | after eq. 17 | equality iff all rows are MD's | {glue:text}`ch4g_eq17eq` |
# | eq. 18–20 | $P(i \in S)$ under MD | {glue:text}`ch4g_eq18` |
# | eq. 21–22 | $P(i \in S)$ under clustered sampling | {glue:text}`ch4g_eq21` |
# | eq. 23 | nobody takes part less often | {glue:text}`ch4g_eq23` |
# | after eq. 23 | equality iff all rows are MD's | {glue:text}`ch4g_eq23eq` |
# | App. B.1, eq. 44–50 | the difference of the variances; equality iff $r_{k,i} = p_i$ | {glue:text}`ch4g_b1` |
# | App. B.2, eq. 51–55 | the same for inclusion | {glue:text}`ch4g_b2` |
# | App. B.2, eq. 56 | MD includes a client at least as often | {glue:text}`ch4g_eq56` |
# | Lemma 5, eq. 24–25 | mean and second moment of the cohort's mean | {glue:text}`ch4g_lemma5` |
# | App. A, eq. 26–41 | its proof, with $B_{MD}$ and $B_{Cl}$ | {glue:text}`ch4g_eq26` |
# | App. A.2, eq. 42–43 | $B_{Cl} \le B_{MD}$, and when they are equal | {glue:text}`ch4g_eq42` |
# | App. A.2, end | equality iff equal data or MD | {glue:text}`ch4g_a2` |
# | Theorem 1, eq. 5 | the rate of MD sampling (cited there) | {glue:text}`ch4g_thm1` |
# | Theorem 2, eq. 11 | the same rate for clustered sampling | {glue:text}`ch4g_thm2` |
# | Sec. 3.1 | better convergence guarantees than MD | {glue:text}`ch4g_better` |
# | Algorithm 1 | the printed lines | {glue:text}`ch4g_alg1` |
# | Theorem 3 | Algorithm 1 satisfies Proposition 1 | {glue:text}`ch4g_thm3` |
# | Theorem 3 | in $O(n \log n)$ | {glue:text}`ch4g_cost1` |
# | Theorem 3, proof | $\lfloor mp_i\rfloor$ rows of its own for each client | {glue:text}`ch4g_proof3` |
# | Algorithm 2 | the printed lines | {glue:text}`ch4g_alg2` |
# | Theorem 4 | Algorithm 2 satisfies Proposition 1 if $p_i \le 1/m$ | {glue:text}`ch4g_thm4` |
# | Theorem 4 | in $O(n^2 d + X)$ | {glue:text}`ch4g_cost2` |
#
# The verdicts come from the functions that also fill the ledger ({doc}`/how_to_read`).
#
# ## What are the weights, exactly?
#
# The weights of clustered sampling are right on average, and in no direction more variable than those of MD. A scheme is a matrix $r$ with a row for each draw. Client $i$'s weight $\omega_i$ is
# the share of the draws that took this client.
#
# ```{admonition} As written: Proposition 1 and Section 3.2
# :class: as-written
# $\sum_i r_{k,i} = 1$ and $\sum_k r_{k,i} = mp_i$ "are sufficient conditions"; then "every client has a smaller aggregation weight
# variance" and "an higher probability of being sampled".
# ```
#
# ```{prf:theorem} What a matrix does to the weights
# :label: thm-ch4g-weights
# Let $r \ge 0$ have row sums 1, let the draws be independent, and $\bar r = \frac1m\sum_k r_k$.
#
# 1. $\mathbb E\,\omega = \bar r$. So the aggregate $\sum_i\omega_i\theta_i$ is unbiased for $\sum_i p_i\theta_i$ *whatever the models*
#    if and only if $\sum_k r_{k,i} = mp_i$ for all $i$. From here on let this be so.
# 2. No direction gains variance:
#
#    $$\begin{aligned}
#    & \mathrm{Cov}_{MD}(\omega) - \mathrm{Cov}_C(\omega) \\
#    & \;= \frac1{m^2}\sum_k (r_k - p)(r_k - p)^\top .
#    \end{aligned}$$
#
# 3. Nobody is left out more often: $P(i \notin S_C) = \prod_k(1 - r_{k,i})$ is at most $(1-p_i)^m = P(i \notin S_{MD})$.
# 4. For client $i$, equality of the variances and equality in 3 both mean $r_{k,i} = p_i$ for all $k$. For all clients
#    together they mean MD sampling.
# 5. For vectors $z_i$ (gradients, updates) the mean $\frac1m\sum_k z_{l_k}$ of the drawn ones has the total variance
#    $B_{MD} - \frac1{m^2}\sum_k\|\bar z_k - \bar z\|^2$, where $B_{MD}$ is that under MD sampling, $\bar z_k = \sum_i r_{k,i}z_i$ and $\bar z = \sum_i p_i z_i$. It equals
#    $B_{MD}$ if and only if all rows have the mean $\bar z$.
# ```
#
# ```{prf:proof}
# Write $\omega = \frac1m\sum_k e_{l_k}$ with unit vectors $e$; $e_{l_k}$ has mean $r_k$ and covariance $\mathrm{diag}(r_k) - r_kr_k^\top$. (1) is
# the mean; take for $\theta$ one unit vector at a time for "only if". (2) Sum the covariances, use $\sum_k r_k = mp$, and
# write $r_k = p + (r_k - p)$ in $\sum_k r_kr_k^\top$. (3) Nobody draws $i$: independent draws; then the geometric mean of the
# $1 - r_{k,i}$ is at most their arithmetic mean $1-p_i$. (4) The $i$-th diagonal entry of (2) is a sum of squares;
# geometric and arithmetic mean agree only for equal numbers. (5) is (2) as a quadratic form, coordinate by coordinate.
# ```
#
# Parts 1 to 3 are the paper's, with eq. 8 also necessary. Part 2 is stronger than eq. 17, which is its diagonal;
# {prf:ref}`lem-ch6-loewner` of {doc}`the page on clustered sampling <06_clustered_sampling>` puts it to use. As an example we list all cohorts of three draws from clients of the sizes 5, 3, 2, 1 and 1:


# %%
def moments(rows):
    """Return mean and covariance of the weights, and the clients'
    probabilities to take part, by listing all cohorts."""
    m, n = rows.shape
    mean, second, participation = 0, 0, 0
    for cohort in product(range(n), repeat=m):
        chance = prod(rows[range(m), cohort])
        weight = np.array([Q(cohort.count(i), m) for i in range(n)])
        mean = mean + chance * weight
        second = second + chance * np.outer(weight, weight)
        participation = participation + chance * (weight > 0).astype(object)
    return mean, second - np.outer(mean, mean), participation


sizes, m = (5, 3, 2, 1, 1), 3
p = np.array([Q(k, 12) for k in sizes])
# of Algorithm 1
r = np.array(theory.normalise_rows(clustered.counts_by_size(sizes, m)))
md, one = moments(np.array([p] * m)), moments(r)

# %% tags=["remove-input"]
# part 2, in fractions
assert (md[1] - one[1] == (r - p).T @ (r - p) / m**2).all()
assert list(one[0]) == theory.weight_moments(r).mean == list(p)
less = [a[i, i] > b[i, i] for a, b in [(md[1], one[1])] for i in range(5)]
expect("every weight varies less", all(less) and all(one[2] > md[2]))
strict = [words[name] for name in ("prop1", "eq17", "eq23", "md", "fedavg")]
expect("smaller for every client: holds, on a condition", words["abstract"] == "holds-if")
expect("It is true that MD sampling is unbiased", set(strict) == {"holds"}, verdicts=strict)
glue_values("ch4g", strictly=evidence["abstract"].ours)
table(ch04g.tabulate_weights(sizes, md, one))

# %% [markdown]
# Here every weight varies less than under MD, and every client takes part more often. In general the words should be "not more" and "not less".
#
# ```{admonition} Verdict on a variance that is smaller for every client: holds, on a condition
# :class: verdict
# Among the clients of all small schemes the count is: {glue:text}`ch4g_strictly`. It is true that MD sampling is unbiased (eq. 4), and that FedAvg's eq. 3 is not. The
# bias of eq. 3 is the factor $m/n$ with $n$ clients, so weights $\frac nm p_i$ on updates remove it.
# ```
#
# ## When is nothing gained?
#
# Nothing is gained when all rows are alike, either in the chances of one client or in their mean gradients.
#
# ```{admonition} As written: after eq. 17, Appendix A.2, eq. 56
# :class: as-written
# - "with equality if and only if all the $m$ distributions are equal to the one of MD sampling";
# - $B_{Cl} \le B_{MD}$ "with equality if and only if all the clients have the same data distribution or" the scheme is MD;
# - $p(\{i\in S_{MD}\}) \ge p(\{i\in S_C\})$.
# ```
#
# Parts 4 and 5 of {prf:ref}`thm-ch4g-weights` say exactly when. Small cases contradict the three sentences:


# %%
def variance(rows, z):
    """Return the variance of the mean of one drawn z per row: the B of eq.
    32 and 40."""
    rows, z = np.array(rows), np.array(z)
    return (rows @ z**2 - (rows @ z) ** 2).sum() / len(rows) ** 2


half, quarter = Q(1, 2), Q(1, 4)
# sizes 2, 1, 1: half of each row for the first client
p = np.array([half, quarter, quarter])
rows = np.array([[half, half, 0], [half, 0, half]])
for a, b in zip(moments(np.array([p] * 2))[1:], moments(rows)[1:], strict=True):
    # the first client gains nothing, others do
    assert a.flat[0] == b.flat[0] and (a != b).any()

z = (1, 0, 1, 0)  # gradients of four equal clients
MD, MIXED = [[quarter] * 4] * 2, [[half, half, 0, 0], [0, 0, half, half]]
ALIKE = [[half, 0, half, 0], [0, half, 0, half]]
for name, rows in {"MD": MD, "mixed rows": MIXED, "rows alike": ALIKE}.items():
    print(f"{name}: variance {variance(rows, z)}")
    assert variance(rows, z) == theory.variance_of_mean(rows, z)

# a row for each
both = moments(np.eye(2, dtype=int))[2], moments(np.array([[half] * 2] * 2))[2]
print("a client takes part:", *(str(participation[0]) for participation in both))

# %% tags=["remove-input"]
expect("has MD's variance", variance(MIXED, z) == variance(MD, z))
equal = [words[name] for name in ("eq17eq", "eq23eq")]
wrong = [words[name] for name in ("eq56", "a2")]
expect("is right for all clients together", equal == ["holds-if"] * 2, verdicts=equal)
expect("Eq. 56 and the end of A.2 fail", wrong == ["fails"] * 2, verdicts=wrong)
glue_values("ch4g", inclusion=both[0][0], inclusion_md=both[1][0])

# %% [markdown]
# The first scheme is not MD, and still its first client gains nothing. Rows that mix the clients are not MD, and the data are not equal, and still the
# scheme has MD's variance; rows of similar clients have no variance at all. For eq. 56, give each of two clients a row of its own. Each client then takes part with
# probability {glue:text}`ch4g_inclusion`, and under MD with {glue:text}`ch4g_inclusion_md`.
#
# ```{admonition} Verdict: equality is stated too narrowly
# :class: verdict
# The main text's condition is right for all clients together, and Appendix B has the condition for one client. Eq. 56 and the end of A.2 fail. Eq. 56 should have $\le$, as
# eq. 23 and 55 have. In A.2 all rows must have the same mean gradient, as in eq. 42–43.
# ```
#
# ## Do the bounds of Theorems 1 and 2 hold?
#
# The bounds of Theorems 1 and 2 do not hold with constants that serve every number of local steps.
#
# ```{admonition} As written: Theorem 2
# :class: as-written
# With $\eta = \sqrt{m/NT}$, $N$ local steps and any scheme of Proposition 1, the average of
# $\mathbb E\|\nabla\mathcal L(\theta^t)\|^2$ over $T$ rounds is at most $\mathcal O(1/\sqrt{mNT})$ $+$ $\mathcal O(mN/T)$.
# ```
#
# The proof needs Assumptions 1 to 3 (smoothness, unbiased gradients of bounded variance, bounded dissimilarity). It rests on Lemma 5, which is
# right. One of the terms of the lemma is $\frac3m\kappa^2$, where $\kappa$ measures how much the clients' gradients differ. A round moves by $\eta N$ times the mean of the
# participants, so in the descent lemma the term comes with $\frac L2\eta^2N^2$. Divided by $\frac12\eta N$, per round, it is
# $3L\eta N\kappa^2/m = 3L\kappa^2\sqrt{N/(mT)}$. This is $N$ times $1/\sqrt{mNT}$, so it is larger than the printed rate. It is no artefact of the bound, as an example shows:
#
# ```{prf:lemma} Local steps do not average the choice of clients away
# :label: lem-ch4g-steps
# Let $\mathcal L_i(\theta) = \frac12(\theta - c_i)^2$ with $\sum_i p_ic_i = 0$, exact local gradients and $\theta^0 = 0$, and let
# $B$ be the variance of the mean of the drawn $c_i$. With $\gamma = 1 - (1-\eta)^N$,
#
# $$\mathbb E\|\nabla\mathcal L(\theta^t)\|^2 = \frac{\gamma B}{2-\gamma}\big(1 - (1-\gamma)^{2t}\big).$$
#
# For $\eta = \sqrt{m/NT}$ and $T = (mN)^3$ its average over the rounds divided by $1/\sqrt{mNT} + mN/T$ grows like $mBN/4$. For $c_i = \pm1$
# with equal weights, under MD sampling or with rows that each hold both kinds in equal parts, $mB = 1$.
# ```
#
# ```{prf:proof}
# $N$ steps pull client $i$ from $\theta$ to $\theta - \gamma(\theta - c_i)$, so $\theta^{t+1} = (1-\gamma)\theta^t + \gamma C_t$ with independent $C_t$ of
# mean 0 and variance $B$, and $\nabla\mathcal L(\theta) = \theta$. The variance of this autoregression is the formula. With $T = (mN)^3$,
# $\eta N = \frac1{mN}$, so $\gamma \approx \frac1{mN}$; the path is stationary after about $mN \ll T$ rounds; the average tends to
# $\gamma B/2 \approx \frac{B}{2mN}$, and both terms of the rate are $\frac1{(mN)^2}$.
# ```
#
# Here $L = \beta = \kappa = 1$ and $\sigma = 0$ do not depend on $N$, so no constant serves all $N$. The next cell computes the error round by round:


# %%
def average(N, m, T, B):
    """Return the mean squared gradient over T rounds of N local steps with
    the paper's step size."""
    gamma = 1 - (1 - sqrt(m / (N * T))) ** N  # how far a round pulls
    square, total = 0.0, 0.0
    for _ in range(T):
        square = (1 - gamma) ** 2 * square + gamma**2 * B
        total += square
    return total / T


# rows that hold both kinds of clients
B = float(variance(MIXED, (1, -1, 1, -1)))
# the package's, for N from 1 to 1024
rate_table = clusters_bounds.rates(clusters_bounds.MIXED_ROWS)
for row in rate_table.iloc[:3].itertuples():
    ours = average(row.N, 2, int(row.T), B)
    np.testing.assert_allclose(ours, row.average, rtol=1e-6)

steps, rounds = rate_table["N"], rate_table["T"]  # T = (mN)^3
as_written = 1 / np.sqrt(2 * steps * rounds) + 2 * steps / rounds
corrected = np.sqrt(steps / (2 * rounds)) + 2 * steps / rounds

# %% tags=["remove-input"]
glue_figure(
    "figure_ch4g_steps", ch04g.draw_local_steps(steps, rate_table["average"], as_written, corrected)
)
ratios = rate_table["average"] / as_written, rate_table["average"] / corrected
glue_values("ch4g", last=steps.iloc[-1], over=ratios[0].iloc[-1], over_corrected=ratios[1].iloc[-1])
grows = np.polyfit(np.log(steps), np.log(ratios[0]), 1)[0]
expect("leaves the printed one", grows > 0.8 and max(ratios[1]) < 1, exponent=grows)
rates = [words[name] for name in ("thm1", "thm2", "better")]
expect("1 and 2: hold, on a condition", rates == ["holds-if"] * 3, verdicts=rates)
expect("Lemma 5, which is right", words["lemma5"] == "holds", verdict=words["lemma5"])

# %% [markdown]
# ```{glue:figure} figure_ch4g_steps
# :name: fig-ch4g-steps
# :alt: Log-log plot of the mean squared gradient against the number of local steps from 1 to 1024. The exact average falls in parallel to the corrected rate, and more slowly than the printed rate, which crosses below it at four steps and is 256 times lower at 1024 steps.
#
# Four clients at $\pm1$, rows that hold both kinds, $m = 2$, constants 1. The exact average runs parallel to the corrected rate and leaves the
# printed one.
# ```
#
# ```{provenance} Figure
# ```
#
# At $N$ = {glue:text}`ch4g_last` the average is {glue:text}`ch4g_over:.0f` times the printed rate, and {glue:text}`ch4g_over_corrected:.2f` times the
# corrected rate. With rows of similar clients the average is 0. In that case clustered sampling is better than MD in the rate itself, which the printed rate hides.
# {doc}`The page on convergence <04f_convergence>` explains why equal bounds leave room for a difference.
#
# ```{admonition} Verdict on Theorems 1 and 2: hold, on a condition
# :class: verdict
# Theorems 1 and 2 hold if the constants may depend on $N$, or if nothing differs within rows. For a rate that is uniform in $N$ add
# $\mathcal O(mB\sqrt{N/(mT)})$, where $mB \le \beta^2\|\nabla\mathcal L\|^2 + \kappa^2$ and $B = B_{Cl} \le B_{MD}$. The bound is then never worse than MD's,
# and better where rows differ in their mean gradients.
# ```
#
# ## Do the printed algorithms make such rows?
#
# As the paper's figures draw them, the algorithms always make such rows. As printed, Algorithm 1 hardly ever does, and Algorithm 2 fails for more than a third of small groupings. With $M = \sum n_i$, row $k$ has room for $M$ and client $i$ brings $mn_i$, so everything is a whole number.
#
# ```{prf:theorem} Theorems 3 and 4, for the figures
# :label: thm-ch4g-fill
# Lay the $mn_i$ end to end in any order and cut every $M$. Or divide the clients into groups of mass at most $M$, of which there are always at least $m$; let the $m$ heaviest groups start a row each, and pour the
# clients of the other groups into the rows from the first on, splitting a client where a row is full. Both ways give row sums $M$ and column sums $mn_i$. In the first way at most $n + m - 1$ entries are not
# zero with $n$ clients, and client $i$ stands in at most $\lfloor mp_i\rfloor + 2$ rows.
# ```
#
# ```{prf:proof}
# All amounts are placed, hence the columns. Nothing is placed beyond a full row and the total is $mM$, hence all $m$ rows are full.
# $K$ groups of mass at most $M$ hold at most $KM$, so $K \ge m$. On the line each entry ends at the end of a client or of a row,
# and the last at both. An interval of length $mp_i$ (in rows) that has points in $j$ rows covers $j-2$ of them wholly, so
# $j - 2 \le \lfloor mp_i\rfloor$.
# ```
#
# The first way is the paper's Fig. 3 and the second its Fig. 4, and the package fills its rows in these ways. The pseudocode does not:
#
# ```{admonition} As written: Algorithm 1, lines 3 and 9–14
# :class: as-written
# $k \leftarrow 1$; with $q = a_iM + b_i$: "if $a_i > k$ then $r'_{k,i} \leftarrow M - b_{i-1}$; $\forall l \ge k+1$ ... $r'_{k,i} \leftarrow M$";
# $r'_{a_i,i} \leftarrow b_i$.
# ```
#
# The pseudocode has three slips. First, the quotients $a_i$ count rows from 0, but $k$ counts from 1. Second, line 11 means $r'_{l,i}$. Third, $b_i$ is the cumulative remainder, but a
# client in a row that another client has begun has placed only $b_i - b_{i-1}$. {doc}`The page on clustered sampling <06_clustered_sampling>` has the lines as code. We run them on every federation
# of up to 12 examples, with 1 to 6 draws:


# %%
def is_right(rows, sizes, m):
    """Check whether m rows sum to M and the columns to m n_i (Proposition
    1)."""
    rows, sizes = np.array(rows), np.array(sizes)
    full = len(rows) == m and (rows >= 0).all()
    full = full and (rows.sum(axis=1) == sizes.sum()).all()
    return bool(full and (rows.sum(axis=0) == m * sizes).all())


def federations(examples, largest):
    """List all descending sizes that add up to so many examples."""
    if not examples:
        yield []
    for size in range(min(examples, largest), 0, -1):
        yield from ([size, *rest] for rest in federations(examples - size, size))


small = [n for M in range(1, 13) for n in federations(M, M)]
small = [(n, m) for n in small for m in range(1, 7)]
printed = sum(is_right(theory.printed_algorithm_1(n, m), n, m) for n, m in small)
as_drawn = sum(is_right(clustered.counts_by_size(n, m), n, m) for n, m in small)
print(f"of {len(small)} federations: {printed} as printed,", end=" ")
print(f"{as_drawn} as drawn in Fig. 3")

# %% [markdown]
# The next cell runs them on larger federations, with the slips mended one after another, and finds the smallest failures:

# %%
repairs = {name: REPAIRS_1[:k] for k, name in enumerate(ch04g.REPAIRS)}
rng = stream(s.seed, "chapter 4g, random federations")
percent = {name: [] for name in repairs}
for count in range(1, 13):  # clients
    federation = [
        (
            sorted(rng.integers(1, 61, count).tolist(), reverse=True),
            int(rng.integers(1, 11)),
        )
        for _ in range(s.repeats)
    ]
    for name, mended_slips in repairs.items():
        write = theory.printed_algorithm_1
        matrices = [(write(n, m, mended_slips), n, m) for n, m in federation]
        percent[name].append(100 * np.mean([is_right(*each) for each in matrices]))

# %% tags=["remove-input"]
glue_figure("figure_ch4g_printed", ch04g.draw_repairs(percent))
means = {name: np.mean(found_) for name, found_ in percent.items()}
case_counts = ch04g.count_small_cases(small)
glue_values("ch4g", repeats=s.repeats, of=f"{len(small):,}", printed=printed, **case_counts)
glue_values("ch4g", **{f"random_{k}": mean for k, mean in enumerate(means.values())})
shares = printed / len(small), as_drawn / len(small), min(percent["all three"])
expect("the algorithms always make such rows", shares[1:] == (1, 100))
expect("Algorithm 1 hardly ever does", shares[0] < 0.1, share=shares[0])
right = case_counts["good"] / case_counts["tried"]
expect("fails for more than a third", 0.6 < right < 2 / 3, right=right)
lines = [words[name] for name in ("alg1", "alg2", "proof3")]
expect("the printed lines and the remark fail", set(lines) == {"fails"}, verdicts=lines)
theorems = [words[name] for name in ("thm3", "thm4", "cost1")]
expect("on the algorithms: hold, on a condition", set(theorems) == {"holds-if"}, verdicts=theorems)
table(evidence["alg1"].table)

# %% [markdown]
# ```{glue:figure} figure_ch4g_printed
# :name: fig-ch4g-printed
# :alt: Share of random federations for which Algorithm 1 satisfies Proposition 1, against the number of clients from 1 to 12. As printed it is near zero throughout. With rows from 0 and line 11 repaired it starts at 100 per cent for one client and falls steadily. With all three repairs it is 100 per cent.
#
# Printed Algorithm 1 on {glue:text}`ch4g_repeats` random federations for each number of clients, sizes 1 to 60, $m$ from 1 to 10. Line 13 fails
# for every client that begins and ends in a row that another client has begun.
# ```
#
# ```{provenance} Figure
# ```
#
# Over these federations the printed lines satisfy Proposition 1 in {glue:text}`ch4g_random_0:.1f` % of the cases, with the first two repairs in
# {glue:text}`ch4g_random_2:.1f` %, and with all three in {glue:text}`ch4g_random_3:.0f` %.
#
# The proof of Theorem 3 describes yet another allocation: first $\lfloor mp_i\rfloor$ rows for client $i$ alone, then the remainders. This allocation is valid, too, and
# no client loses a row of its own, in which it is certain to be drawn. In the paper's Fig. 3 a cut may fall into such a row, so in
# {glue:text}`ch4g_lost` of the {glue:text}`ch4g_of` small federations a client loses a certain draw. This is the smallest case:

# %% tags=["remove-input"]
table(evidence["proof3"].table)

# %% [markdown]
# ```{admonition} As written: Algorithm 2, lines 10–17
# :class: as-written
# "quotient and remainder of the euclidean division of $q_k + u_i$ by $M$"; if the quotient is 0, $r'_{k,i} \leftarrow b_i$; else
# $r'_{k,i} \leftarrow M - q_k$, $k \leftarrow k+1$.
# ```
#
# Line 12 places $q_k + u_i$ where only $u_i$ belongs, and $q_k$ is never updated:

# %% tags=["remove-input"]
table(evidence["alg2"].table)

# %% [markdown]
# ```{admonition} Verdict on the algorithms: hold, on a condition
# :class: verdict
# Theorems 3 and 4 hold for the repaired lines, which give the package's matrices entry by entry; the printed lines and the remark fail. Algorithm 2
# as printed is right for {glue:text}`ch4g_good` of {glue:text}`ch4g_tried` groupings that fit (up to 5 clients and 9 examples). $O(n\log n)$ is a sort and $n + m - 1$ entries, with
# $m \le n$; a dense matrix has $mn$.
# ```
#
# ## What do the sentences promise?
#
# The paper's sentences promise what is true, with one condition. The percentages in these sentences are short sums:

# %%
# ten draws from 100 equal clients, all different
ten = prod(Q(100 - j, 100) for j in range(10))

# the chance of 0, 1, … different digits among ten draws of ten clients
digits = [Q(1)]
for _ in range(10):
    # stay, or find a new one
    pairs = zip([*digits, Q(0)], [Q(0), *digits], strict=True)
    digits = [Q(j, 10) * a + Q(11 - j, 10) * b for j, (a, b) in enumerate(pairs)]

heavy = moments(np.array(theory.groups_as_rows([7, 1, 1, 1], [[0], [1, 2, 3]])))[0]
first_column = clustered.counts_by_groups([7, 1, 1, 1], [[0], [1, 2, 3]], 2).sum(axis=0)

# %% tags=["remove-input"]
assert ten == theory.distinct_uniform_probabilities(100, 10)[10]
assert digits == theory.distinct_uniform_probabilities(10, 10)
glue_values("ch4g", all_different=float(100 * ten), some_twice=float(100 * (1 - ten)))
glue_values("ch4g", six=float(100 * sum(digits[6:9])))
glue_values("ch4g", heavy=heavy[0], wanted=Q(int(first_column[0]), 20))
promised = {name: words[name] for name in ch04g.SENTENCES if words[name] != "holds"}
expect("promise what is true, with one condition", promised == {"zero": "holds-if"}, **promised)

# %% [markdown]
# | Sentence | Ours | Verdict |
# | :-- | :-- | :-- |
# | drawn up to $\lfloor mp_i\rfloor + 2$ times (Alg. 1) | {glue:text}`ch4g_times_ours` | {glue:text}`ch4g_times` |
# | $p_i > 1/m$: $\lfloor mp_i\rfloor$ rows of its own first | {glue:text}`ch4g_heavy_clients_ours` | {glue:text}`ch4g_heavy_clients` |
# | $K \ge m$ groups with $q_k \le M$ | {glue:text}`ch4g_cut_ours` | {glue:text}`ch4g_cut` |
# | clients without an update are grouped together | {glue:text}`ch4g_zero_ours` | {glue:text}`ch4g_zero` |
# | similarity reduces the weights' variance further, compared to MD | {glue:text}`ch4g_further_ours` | {glue:text}`ch4g_further` |
# | no additional operation on the clients | {glue:text}`ch4g_extra_ours` | {glue:text}`ch4g_extra` |
# | ten different clients in 63 % of MD rounds | in {glue:text}`ch4g_all_different:.2f` % | {glue:text}`ch4g_sixty` |
# | fewer in 37 % | in {glue:text}`ch4g_some_twice:.2f` % | {glue:text}`ch4g_thirty` |
# | 6 to 8 digits generally | in {glue:text}`ch4g_six:.1f` % of rounds | {glue:text}`ch4g_digits` |
# | always ten clients when clustered | {glue:text}`ch4g_ten_ours` | {glue:text}`ch4g_ten` |
# | with identical weight variance | {glue:text}`ch4g_same_ours` | {glue:text}`ch4g_same` |
# | Dirichlet: one class as $\alpha \to 0$, uniform as $\alpha \to \infty$ | {glue:text}`ch4g_limits_ours` | {glue:text}`ch4g_limits` |
#
# Updates of zero are grouped together under L1 and L2. Their angle with other updates is not defined; if it is set to 0, a zero update is as close to every other update as to other
# zeros. A client heavier than a row must not simply become a row: of clients with the sizes 7, 1, 1, 1 and with two draws, the first would get the weight
# {glue:text}`ch4g_heavy` instead of {glue:text}`ch4g_wanted`.
#
# Algorithm 2 lowers the *weights'* variance compared to MD, as the paper says. Compared to Algorithm 1 it may not lower it, because a grouping can split clients
# that sizes alone would not split:

# %% tags=["remove-input"]
table(evidence["further"].table)

# %% [markdown]
# Similar rows lower the variance of the *aggregate*, by part 5 of {prf:ref}`thm-ch4g-weights`.
#
# ## Where does it meet stratification?
#
# Clustered sampling is the last step of stratification, with as many strata as draws. FedSTaS's Theorem 1 claims that stratified draws vary at most as much as
# plain random draws, apart from "negligible" terms. Among draws by size *with replacement* the order is exact for any number of clients. Four clients show this:

# %%
z = (3, 1, -1, 0)  # four equal clients in strata {1, 2} and {3, 4}
strata = [[half, half, 0, 0]] * 2 + [[0, 0, half, half]] * 2
ladder = {
    "MD, four draws from all": [[quarter] * 4] * 4,
    "strata, two draws from each": strata,
    "rows, one client in each": np.eye(4, dtype=int),
}
varies = {name: Q(variance(rows, z)) for name, rows in ladder.items()}
for name, value in varies.items():
    print(f"{name}: {value}")
levels = list(varies.values())
between = sum(half * (mean - Q(3, 4)) ** 2 for mean in (2, -half)) / 4

# %% tags=["remove-input"]
assert levels[0] - levels[1] == between and levels == sorted(levels, reverse=True)

# %% [markdown]
# ```{prf:theorem} MD, strata, rows
# :label: thm-ch4g-strata
# Let strata have masses $\omega_h = \sum_{i\in h}p_i$ with whole $m\omega_h$, and draw $m\omega_h$ clients of stratum $h$ with replacement and
# $p_i/\omega_h$. For any vectors $z$ all three schemes are unbiased for $\bar z$ and
#
# $$\begin{aligned}
# V_{MD} &- V_{strat} = \frac1m\sum_h\omega_h\|\bar z_h - \bar z\|^2 , \\
# V_{strat} &- V_{rows} \\
# &= \frac1{m^2}\sum_h\sum_{k\in h}\|\bar z_k - \bar z_h\|^2 ,
# \end{aligned}$$
#
# where *rows* is any clustered scheme with $m\omega_h$ rows within each stratum $h$.
# ```
#
# ```{prf:proof}
# By {prf:ref}`lem-ch6-strata` of {doc}`the page on clustered sampling <06_clustered_sampling>` the stratified draw is the scheme with $m\omega_h$ rows $p_i/\omega_h$, whose means are $\bar z_h$. Apply part 5 of
# {prf:ref}`thm-ch4g-weights` to it, and again within each stratum, where its equal rows play the part of MD.
# ```
#
# When $m\omega_h$ is not whole, stratification rounds the numbers of draws and adjusts the weights, whereas clustered sampling splits clients. {doc}`The page on clustered sampling <06_clustered_sampling>` measures what this gains on real
# updates.
#
# ## What do the slides say about sampling?
#
# FedSampling's slides recall two ways to sample clients, and FedOpt's plain mean. Both ways give every client the same fraction of its share.
# {doc}`The page on FedSampling <07_fedsampling>` continues with the sampling of examples.
#
# ```{admonition} As written: slides, "Client Sampling in Federated Learning"
# :class: as-written
# "sampling weight" $p_i = 1/M$ with "aggregation weight" $n_i/\sum_j n_j$; or $p_i = n_i/\sum_j n_j$ with $1/M$. Algorithm 1 (FedOpt), line 9: $\Delta_t =
# \frac1{|S|}\sum_{i\in S}\Delta_i^t$.
# ```
#
# We list all cohorts of two participants from three clients with 1, 3 and 2 examples:


# %%
def expected(cohorts, weight):
    """Return the expected weight of each client."""
    total = [Q(0)] * len(weight)
    for cohort, chance in cohorts:
        for k in cohort:
            total[k] += chance * weight[k]
    return total


share = [Q(1, 6), Q(3, 6), Q(2, 6)]
uniform = [(pair, Q(1, 3)) for pair in combinations(range(3), 2)]
again = [((i, j), share[i] * share[j]) for i, j in product(range(3), repeat=2)]
# without replacement, one after another
in_turn = list(theory.successive_samples(share, 2))
print("wanted:", *map(str, share))
print("uniform pair:", *map(str, expected(uniform, share)))
print("weighted pair:", *map(str, expected(again, [Q(1, 3)] * 3)))
print(
    "the same without replacement:",
    *map(str, expected(in_turn, [Q(1, 3)] * 3)),
)

# %% tags=["remove-input"]
fraction = {a / b for a, b in zip(expected(uniform, share), share, strict=True)}
fraction |= {a / b for a, b in zip(expected(again, [Q(1, 3)] * 3), share, strict=True)}
expect("the same fraction of its share", fraction == {Q(2, 3)}, fractions=fraction)
slide_verdicts = [words[name] for name in ch04g.SLIDES]
expect(
    "All the statements hold, on conditions",
    set(slide_verdicts) == {"holds-if"},
    verdicts=slide_verdicts,
)

# %% [markdown]
# The fraction is $|S|/M$, where the slides' $M$ is the number of clients. On updates this means a smaller step in the right direction, but on models it
# shrinks the model. All the statements hold, on conditions:
#
# | Slides | Verdict | Condition |
# | :-- | :-- | :-- |
# | uniform pair | {glue:text}`ch4g_uniform` | times $M/\lvert S\rvert$ |
# | weighted pair | {glue:text}`ch4g_weighted` | times $M/\lvert S\rvert$ it is MD sampling; drawn without replacement, no factor helps |
# | FedOpt's plain mean | {glue:text}`ch4g_fedopt` | draws by size with replacement, or equal sizes |
# | client sampling cannot exploit examples uniformly | {glue:text}`ch4g_hard` | if each example is meant for itself: on average all count alike, but those of one client are not drawn independently |
# | examples kept with probability $K/\tilde N$ are uniform | {glue:text}`ch4g_examples` | if the estimate $\tilde N$ is at least $K$; below it a guard is needed |
# | a fixed ratio leaks sizes or biases | {glue:text}`ch4g_ratio` | if clients report on their own; sums under secure aggregation show the total alone |
#
# ```{admonition} Corrected
# :class: as-it-should-be
# Fill rows in whole numbers, heavy clients and groups first: Proposition 1 then holds for every input. Say "not larger" instead of
# "smaller", and $\le$ in eq. 56. State the rate with $\sqrt{N/(mT)}$ times the variance within rows. Write $1/|S|$ with draws by size, $\frac
# M{|S|}\frac{n_i}{\sum_j n_j}$ with uniform ones.
# ```
#
# ## What we learned
#
# - What clustered sampling does to the weights is one theorem: it takes $\frac1{m^2}\sum_k(r_k-p)(r_k-p)^\top$ off MD's covariance.
# - The theorems of the paper are about its figures. As printed, Algorithm 1 is right for {glue:text}`ch4g_printed` of {glue:text}`ch4g_of` small
#   federations.
# - The variance within rows enters the rate as $\sqrt{N/(mT)}$; many local steps do not average the choice of clients away.
#
# ## Exercises
#
# `from companion import check`; `check.answer` says which input breaks an answer.
#
# ```{exercise-start} The variance of a weight
# :label: ex-ch4g-variance
# ```
# Level 1. Write `variance(rows, client)`, the variance of a client's weight from the rows of a scheme:
# `check.answer("clusters/variance", variance)`.
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch4g-variance
# :label: sol-ch4g-variance
# :class: dropdown
# ````
# The draws are independent, the variance of each is $r(1-r)$, and each has the weight $1/m$. If your function returns the same number for two different schemes, you used $p$ and not
# the rows.


# %%
def variance(rows, client):
    return sum(row[client] * (1 - row[client]) for row in rows) / len(rows) ** 2


print(check.answer("clusters/variance", variance))

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} Mend the pseudocode
# :label: ex-ch4g-line
# ```
# Level 2. Write `line(sizes, m)`: the whole-number rows $r'$ of the paper's Fig. 3 for sizes in descending order, as lists:
# `check.answer("clusters/line", line)`.
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch4g-line
# :label: sol-ch4g-line
# :class: dropdown
# ````
# Client $i$'s amount in row $k$ is the overlap of two intervals, so no quotients are needed. If your rows do not sum to $M$, the number of all examples, you used the printed line 13,
# which places cumulated remainders.


# %%
def line(sizes, m):
    total, start, columns = sum(sizes), 0, []
    for size in sizes:
        end = start + m * size
        rows = [(k * total, (k + 1) * total) for k in range(m)]
        columns.append([max(0, min(end, top) - max(start, low)) for low, top in rows])
        start = end
    return [list(row) for row in zip(*columns, strict=True)]


print(check.answer("clusters/line", line))

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} No gain, no excuse
# :label: ex-ch4g-nothing
# ```
# Level 2. Four equal clients have the gradients 1, 0, 1, 0. Find two rows that are not MD's with $B_{Cl} = B_{MD}$:
# `check.answer("clusters/no-gain", rows)`.
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch4g-nothing
# :label: sol-ch4g-nothing
# :class: dropdown
# ````
# Both rows need the mean gradient 1/2. Rows that separate the ones from the zeros are refused, because their mean gradients differ and so they do gain.

# %%
print(check.answer("clusters/no-gain", [["1/2", "1/2", 0, 0], [0, 0, "1/2", "1/2"]]))

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ```{exercise-start} A certain draw lost
# :label: ex-ch4g-certain
# ```
# Level 3. Find sizes of at most three clients and a number of draws $m$ for which the paper's Fig. 3 gives some client fewer rows of its own than $\lfloor mp_i\rfloor$:
# `check.answer("clusters/certain", (sizes, m))`.
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-ch4g-certain
# :label: sol-ch4g-certain
# :class: dropdown
# ````
# The interval of a client with $mp_i \ge 1$ has to start late in a row: 4/3 each, and the second begins at 4/3. If every $mp_i$ is whole, nobody
# begins inside a row, and nothing is lost.

# %%
print(check.answer("clusters/certain", ([1, 1, 1], 4)))
print(clustered.counts_by_size([1, 1, 1], 4).tolist())

# %% [markdown]
# ````{solution-end}
# ````

# %% [markdown]
# ## Further reading
#
# The proofs stand in appendices A to C of {cite:t}`fraboni2021clustered`. {cite:t}`li2020convergence` treat MD sampling as an unbiased scheme, and {cite:t}`hansen1943theory` draws with unequal
# probabilities. The slides belong to {cite:t}`qi2023fedsampling`, and FedOpt is due to {cite:t}`reddi2021adaptive`.
