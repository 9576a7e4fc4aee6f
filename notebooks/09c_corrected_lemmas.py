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
# # A better design: the paper's lemmas, corrected
#
# ```{at-a-glance}
# :needs: the page "A better design"; the paper's own statements are judged on the page "Does the theory hold?"
# ```
#
# This appendix keeps FedSTaS as it is, several draws a stratum and private sizes included, and states what is true of it once the weights are right. Each statement stands in the
# place of one of the paper's: Theorem 1, Lemmas 2 to 5, and Theorem 3. Lemma 1′ and Theorem 2′ are on {doc}`the page with the proofs <09a_proofs>`. The method is the one that other pages
# call *corrected* (`fedstas-unbiased`). We recommend {doc}`least-variance strata <09_what_we_would_write>` instead; {doc}`09b_variations` says why.

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of every random draw
device: str = "auto"  # auto, cpu or cuda

# %% tags=["hide-input"]
from fractions import Fraction as Q
from itertools import combinations, product
from math import prod

import numpy as np

from companion import ch09, chapters
from companion.pages.prose import expect, glue_values, table
from fedstas import allocation, privacy, theory
from fedstas.sim.rng import stream

s = chapters.settings("09c_corrected_lemmas", globals())

# %% [markdown]
# ## What does the corrected method do?
#
# The corrected method draws clients with replacement from k-means strata, by size times norm, and gives a stratum several draws where the stratum deserves them.
#
# ````{dropdown} The corrected method, line by line, and with private sizes
# ```{prf:algorithm} FedSTaS, corrected: fedstas-unbiased
# :label: wwi-alg
# **Input** $\boldsymbol w_0$; $m$; $H = 10$; $d' = 9$; $f = 0.01$; $q = 1$; $E$, $B$, $\eta$; weights $\omega_k = n_k/n$
#
# For each round $t = 1, 2, \dots$
#
# 1. If $t = 1, 11, 21, \dots$: *every* client receives $\boldsymbol w_t$ and returns its squeezed gradient. The server restores
#    $Z^k$, clusters them by $k$-means into at most $\min(H, m)$ strata, and keeps strata and norms for ten rounds
#    ({ref}`stratify_clients <wwi-code-strata>`, {ref}`stratify <wwi-code-stratify>`).
# 2. $a_k = n_k \max\big(\|Z^k\|, f \bar z\big)$, or $a_k = n_k$ if $\bar z = 0$
#    ({ref}`measure <wwi-code-measure>`), $\bar z$ the mean of all $\|Z^k\|$; $A_h = \sum_{k \in \mathcal C_h} a_k$; $p_t^k = a_k / A_h$ ({ref}`draw <wwi-code-draw>`).
# 3. $m_h = 1$ for all strata. Until $\sum_h m_h = m$: add one to the stratum with the largest
#    $A_h/\sqrt{m_h (m_h + 1)}$ ({ref}`by_priority <wwi-code-priority>`).
# 4. From each $\mathcal C_h$ draw $m_h$ clients independently, **with replacement**, with probabilities $p_t^k$
#    ({ref}`draw <wwi-code-draw>`).
# 5. In each draw $i$, client $k_i$ keeps each of its examples with probability $q$ ({ref}`sample <wwi-code-rate>`). It takes $E$ steps of
#    eq. 2.2 from $\boldsymbol w_t$ on batches of at most $B$ drawn afresh from those, or returns $\boldsymbol w_t$ if it kept none. A client drawn
#    twice does this twice, with two samples ({ref}`draw_batches <wwi-code-batches>`).
# 6. The server steps ({ref}`hansen_hurwitz <wwi-code-hh>`, {ref}`aggregate <wwi-code-aggregate>`, {ref}`step <wwi-code-step>`):
#
# $$\begin{aligned}
# \boldsymbol w_{t+1} = \boldsymbol w_t + \sum_h \frac1{m_h} &\sum_{i=1}^{m_h} \frac{\omega_{k_i}}{p_t^{k_i}} \\
# &\big(\boldsymbol w_{t+1}^{k_i} - \boldsymbol w_t\big)
# \end{aligned}$$
# ```
#
# ```{prf:algorithm} FedSTaS, corrected, with private sizes: fedstas-unbiased-dp
# :label: wwi-alg-dp
# As {prf:ref}`wwi-alg`, except that the server uses no $n_k$:
#
# - $\omega_k = 1/N$, and in line 2 $a_k = \max\big(\|Z^k\|, f \bar z\big)$ ({ref}`measure <wwi-code-measure>`);
# - in line 5 the rate is a fixed $q$, and nobody reports a size. Or, if a sample of $n^*$ is wanted: at its first participation
#   client $k$ reports $r_k$ (eq. 5.6, size clipped to $1, \dots, M-1$, fake uniform on $1, \dots, M-1$). The report is *memoised*: repeated
#   ever after ({ref}`reports <wwi-code-reports>`). From the $m$ draws the server forms $\tilde n$ (eq. 5.7) and
#   sets $\tilde p = \min\big(1, n^*/\max(\tilde n, m)\big)$ ({ref}`rates <wwi-code-requested>`).
# ```
#
# The floor $f$ of the corrected method keeps $p_t^k$ at $\frac{f}{1+f} \cdot \frac{n_k}{N \max_j n_j}$ or more.
# ````
#
# ````{dropdown} The package's functions for these lines
# ```{literalinclude} ../../fedstas/client_sampling.py
# :pyobject: stratify_clients
# :language: python
# :name: wwi-code-strata
# ```
# ```{literalinclude} ../../fedstas/stratification.py
# :pyobject: stratify
# :language: python
# :name: wwi-code-stratify
# ```
# ```{literalinclude} ../../fedstas/corrected.py
# :pyobject: StratifiedHansenHurwitz.measure
# :language: python
# :name: wwi-code-measure
# ```
# ```{literalinclude} ../../fedstas/corrected.py
# :pyobject: StratifiedHansenHurwitz.draw
# :language: python
# :name: wwi-code-draw
# ```
# ```{literalinclude} ../../fedstas/allocation.py
# :pyobject: by_priority
# :language: python
# :name: wwi-code-priority
# ```
# ```{literalinclude} ../../fedstas/aggregation.py
# :pyobject: hansen_hurwitz
# :language: python
# :name: wwi-code-hh
# ```
# ```{literalinclude} ../../fedstas/sim/server.py
# :pyobject: Server.reports
# :language: python
# :name: wwi-code-reports
# ```
# ```{literalinclude} ../../fedstas/data_sampling.py
# :pyobject: Requested
# :language: python
# :name: wwi-code-requested
# ```
# ````
#
# ## When does a stratum get several draws?
#
# In the best design a stratum never gets several draws ({prf:ref}`wwi-thm-best`). In the paper and in the corrected method some strata do, and this theorem says what the variance is then made of.
#
# Let $\ell_k^2 = \mathbb E\|\boldsymbol\Delta_t^k\|^2$, $T_h = \sum_{k \in \mathcal C_h} \omega_k \ell_k$, and let
# $\boldsymbol D_h = \frac1{W_h}\sum_{k \in \mathcal C_h} \omega_k\,\mathbb E\boldsymbol\Delta_t^k$ be the mean update of a stratum, $\boldsymbol D$ that of all clients.
# $\mathrm{Var}_h$ is the variance over the clients of a stratum with weights $\omega_k/W_h$.
#
# ```{prf:theorem} Theorem 1′, the variance and its parts
# :label: wwi-thm-variance
# Under the assumptions of {prf:ref}`wwi-lem-unbiased`, let the local randomness of different draws be independent, too, and let $V$ be the total variance of $\boldsymbol w_{t+1}$ given $\boldsymbol w_t$.
#
# 1. $V = \sum_h V_h/m_h$, where
#    $V_h + \|W_h \boldsymbol D_h\|^2$ is
#    $\sum_{k \in \mathcal C_h} \omega_k^2 \ell_k^2/p_t^k$.
# 2. $V_h$ is smallest for $p_t^k \propto \omega_k \ell_k$, the norms of the *averaged* vectors; then
#    $V_h = T_h^2 - \|W_h\boldsymbol D_h\|^2$. (A client with $\ell_k = 0$ adds nothing, whatever its $p_t^k$ is.)
# 3. Over real $m_h > 0$ with sum $m$, $V \ge (\sum_h \sqrt{V_h})^2/m$, with equality for $m_h \propto \sqrt{V_h}$ if all
#    $V_h > 0$. If $a_k = c\,\omega_k \ell_k$ with *one* constant $c$ for all clients, line 3 of {prf:ref}`wwi-alg` minimises the bound
#    $\sum_h T_h^2/m_h \ge V$ over integers $m_h \ge 1$. With a constant $c_h$ for each stratum $p$ is still that of part 2, but the
#    allocation is no longer best.
# 4. Against MD sampling ($m$ draws with $p = \omega_k$ and no strata), with parts 2 and 3 in force:
#
# $$\begin{aligned} m V_{\mathrm{MD}} &= \underbrace{\textstyle\sum_h W_h \|\boldsymbol D_h - \boldsymbol D\|^2}_{\text{strata}} \\
#   &+ \underbrace{\textstyle\sum_h W_h \mathrm{Var}_h(\ell)}_{\text{norms}} \\
#   &+ \underbrace{\textstyle\sum_h W_h \big(\tfrac{\sqrt{V_h}}{W_h} - \sum_j\! \sqrt{V_j}\big)^2}_{\text{allocation}} \\
#   &+ \underbrace{\textstyle\big(\sum_h \sqrt{V_h}\big)^2}_{=\, m V} . \end{aligned}$$
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# (1) One draw has mean $W_h\boldsymbol D_h$ and second moment $\sum_k p_t^k\, \omega_k^2 \ell_k^2/(p_t^k)^2$; draws are independent.
# (2) Cauchy–Schwarz: $\sum_k \omega_k^2 \ell_k^2/p_t^k \cdot \sum_k p_t^k \ge T_h^2$, with equality for $p_t^k \propto \omega_k \ell_k$.
# (3) The same with $\sqrt{V_h/m_h}$ and $\sqrt{m_h}$. Draws given one by one to the largest decrease
# $T_h^2\big(\frac1{m_h} - \frac1{m_h + 1}\big)$ are optimal, since the bound is separable and convex {cite:p}`wright2012equivalence`.
# With $A_h = cT_h$ the largest $A_h/\sqrt{m_h(m_h+1)}$ is the largest decrease.
# (4) $mV_{\mathrm{MD}} = \sum_k \omega_k \ell_k^2 - \|\boldsymbol D\|^2$. Here
# $\sum_{k\in\mathcal C_h} \omega_k \ell_k^2$ is $W_h \mathrm{Var}_h(\ell) + T_h^2/W_h$, and
# $\|\boldsymbol D\|^2$ is $\sum_h W_h\|\boldsymbol D_h\|^2$ less the strata's part. What is left is $\sum_h V_h/W_h$,
# the mean square of $\sqrt{V_h}/W_h$ under the weights $W_h$: squared mean plus variance.
# ```
#
# Strata remove the variance between their mean *updates*. Draws by norm remove the variance of the lengths within strata. No part is negative. If
# $a_k/(\omega_k \ell_k)$ varies by a factor $\kappa$ within a stratum, its second moment grows by at most $(\kappa + 1)^2/4\kappa$ (Kantorovich).
#
# Part 2 is the first inequality of eq. 6.9, provided that the uniform draws from the same strata are *with replacement*. For *distinct* uniform draws the inequality is false: two
# clients with $\omega_k\Delta_k = \frac12, -\frac12$ that are both drawn leave the variance {glue:text}`ch9_distinct`, while draws by norm with replacement leave {glue:text}`ch9_again`.
#
# As a check, here are the four parts for six clients, $n_k = 1, 2, 1 \mid 1, 1, 2$, and six draws:


# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: the variance over every cohort", "code_prompt_hide": "Hide the check: the variance over every cohort"}
def by_cohorts(omega, p, u, strata, allocation):
    """Return the variance over every cohort, stratum by stratum."""
    total = Q(0)
    for h, draws in zip(strata, allocation, strict=True):
        one = [omega[k] * u[k] / (draws * p[k]) for k in h]
        ways = theory.samples_with_replacement([p[k] for k in h], draws)
        total += theory.moments((sum(one[k] for k in way), c) for way, c in ways)[1]
    return total


w = np.array([Q(n, 8) for n in (1, 2, 1, 1, 1, 2)])
u = np.array([1, -2, 3, -1, 2, 1])
halves, everyone = [[0, 1, 2], [3, 4, 5]], [list(range(6))]
W, length = np.array([sum(w[h]) for h in halves]), abs(u)
# D: W_h times D_h
T, D = (np.array([sum((w * x)[h]) for h in halves]) for x in (length, u))
by_norm = np.concatenate([(w * length)[h] / t for h, t in zip(halves, T, strict=True)])
rounded = allocation.by_priority(T.astype(float), 6, lower=[1, 1], upper=[6, 6])
V = {
    "MD": by_cohorts(w, w, u, everyone, [6]),
    "strata": by_cohorts(w, 2 * w, u, halves, [3, 3]),
    "norms": by_cohorts(w, by_norm, u, halves, [3, 3]),
    "allocation": by_cohorts(w, by_norm, u, halves, rounded.tolist()),
}
# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: the four parts", "code_prompt_hide": "Hide the check: the four parts"}
root = np.array([Q(1), Q(1, 2)])  # of V_h = T_h^2 - (W_h D_h)^2
assert (root**2 == T**2 - D**2).all()
parts = {
    "strata": sum(W * (D / W - sum(D)) ** 2),
    "norms": sum(w * length**2) - sum(T**2 / W),
    "allocation": sum(W * (root / W - sum(root)) ** 2),
    "left": sum(root) ** 2,
}
assert 6 * V["MD"] == sum(parts.values())
for before, now in (("MD", "strata"), ("strata", "norms"), ("norms", "allocation")):
    assert parts[now] == 6 * (V[before] - V[now])

pair, ends = [Q(1, 2)] * 2, [1, -1]
again = by_cohorts(pair, pair, ends, [[0, 1]], [2])
assert theory.stratified_random_variance([ends], [2]) == Q(2 - 2, 2 - 1) * again
# %% tags=["remove-cell"]
glue_values("ch9", distinct=Q(0), again=again)
glue_values(
    "ch9", md_times_m=6 * V["MD"], **{f"part_{name}": value for name, value in parts.items()}
)

# %% [markdown]
# $mV_{\mathrm{MD}}$ is {glue:text}`ch9_md_times_m`. The strata remove {glue:text}`ch9_part_strata`, draws by norm {glue:text}`ch9_part_norms`, the allocation
# {glue:text}`ch9_part_allocation`, and {glue:text}`ch9_part_left` is left.
#
# ## What does the size estimator estimate?
#
# The size estimator estimates the total of the *clipped* sizes, with a noise that a repeated report carries into every round.
#
# ```{prf:lemma} Lemma 2′, the private total
# :label: wwi-lem-size
# Let client $k$ be drawn $t_k$ times, $\sum_k t_k = m$, by draws that do not depend on the reports. Let
# $c_k = \max(1, \min(n_k, M - 1))$, let fakes be uniform on $1, \dots, M-1$, and
#
# $$v_k = \frac{1-\alpha}{\alpha^2} \Big[\tfrac{M(M-2)}{12} + \alpha \big(c_k - \tfrac M2\big)^2\Big].$$
#
# 1. Given the draws, the estimate of eq. 5.7 has the mean $\sum_k t_k c_k$. Its variance is $\sum_k t_k v_k$ if every draw brings a fresh
#    report, and
#
#    $$\mathrm{Var}\,\tilde n = \sum_k t_k^2\, v_k$$
#
#    if a client repeats its one report, as in {prf:ref}`wwi-alg-dp`.
# 2. Over the draws, too, $\mathbb E\big(\tilde n - \sum_k t_k c_k\big)^2$ is $\sum_k v_k\,\mathbb E t_k$ for fresh reports and
#    $\sum_k v_k\,\mathbb E t_k^2$ for repeated ones; for $k \in \mathcal C_h$, $\mathbb E t_k = m_h p_t^k$ and
#    $\mathbb E t_k^2 = m_h p_t^k + m_h (m_h - 1) (p_t^k)^2$.
# 3. If all $1 \le n_k \le M - 1$ and $n = \sum_k t_k n_k$, then for every $n^*$ the guarded rate $\tilde p = \min(1, n^*/\max(\tilde n, m))$ and
#    $p = \min(1, n^*/n)$ satisfy, given the draws,
#
#    $$\begin{aligned}
#    &\mathbb E\big[(\tilde p/p - 1)^2\big] \\
#    &\quad \le \mathrm{Var}(\tilde n)/m^2 .
#    \end{aligned}$$
#
#    That is $O(1/m)$ for fresh reports, and for repeated ones if no client is drawn more than a fixed number of times. It
#    does not vanish if more and more draws fall on the same clients.
# 4. If $n^* = q \tilde n$ is chosen, $n^*/\tilde n = q$: no report is needed.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# (1) By {prf:ref}`lem-size-estimator` one report, treated as eq. 5.7 does, has mean $c_k$ and variance $v_k$. Reports of
# different clients are independent. The $t_k$ reports of one client are independent, or all are the same and their sum is $t_k$ times one.
# (2) The conditional mean does not depend on the reports; $t_k$ is binomial.
# (3) Let $x = \max(\tilde n, m)$. Since $n \ge m$, $|x - n| \le |\tilde n - n|$. If $n^* < n$, then
# $|\tilde p/p - 1| \le |n/x - 1|$, which is $|n - x|/x \le |\tilde n - n|/m$. If $n^* \ge n$, then $p = 1$ and
# $1 - \tilde p \le \max(0, 1 - n/x)$, bounded alike. Take squares and expectations. For one client, drawn $m$ times, $\tilde n/m$ is the same
# random number for every $m$, and with $n^* = qn$ so is $\tilde p/p$.
# ```
#
# Fresh and repeated reports are equally noisy only if every stratum has one draw. From round 11 on the draws do depend on the reports, because the new strata
# come from a model that the rates have shaped.
#
# Clipped clients leave the bias $\sum_i (c_i - n_i)$, which no $m$ removes; {doc}`03_data_sampling` shows it. The first two parts, checked on every tuple of reports:


# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: every tuple of reports", "code_prompt_hide": "Hide the check: every tuple of reports"}
def estimates(sizes, M, alpha, times):
    """List (estimate, probability) for all reports, eq. 5.6 and 5.7; report
    i counts times[i] times."""
    clipped = [max(1, min(n, M - 1)) for n in sizes]
    for reports in product(range(1, M), repeat=len(sizes)):
        pairs = list(zip(reports, clipped, times, strict=True))
        chance = prod((1 - alpha) / (M - 1) + alpha * (r == c) for r, c, _ in pairs)
        total = sum(t * (r - (1 - alpha) * M / 2) for r, _, t in pairs)
        yield total / alpha, chance


def one_report(size, M, alpha):
    """Return v_k of the lemma."""
    c = max(1, min(size, M - 1))
    return (1 - alpha) / alpha**2 * (Q(M * (M - 2), 12) + alpha * (c - Q(M, 2)) ** 2)


alpha = Q(2, 5)
cases = ((1, 3), (1, 1)), ((2, 2, 3), (1, 1, 1)), ((0, 5), (1, 1))
cases += ((1,), (2,)), ((1, 3), (3, 1))
for sizes, times in cases:
    mean, spread = theory.moments(iter(estimates(sizes, 4, alpha, times)))
    both = list(zip(sizes, times, strict=True))
    assert mean == sum(t * max(1, min(n, 3)) for n, t in both)
    assert spread == sum(t * t * one_report(n, 4, alpha) for n, t in both)
    theirs = privacy.estimate_variance(sizes, size_cap=4, alpha=0.4, times=times)
    np.testing.assert_allclose(float(spread), theirs)
# %% [markdown]
# With $M = 4$, $\alpha = \frac25$ and a client of one example, one report has the variance {glue:text}`ch9_once`. Two fresh reports have {glue:text}`ch9_fresh_pair`, and one report that
# counts twice has {glue:text}`ch9_twice`. Part 2 over all draws of two clients, and part 3:


# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: draws and reports together", "code_prompt_hide": "Hide the check: draws and reports together"}
def rate_error(sizes, M, alpha, n_star, times):
    """Return E (p~ / p - 1)^2 over all reports."""
    count = sum(times)
    n = sum(t * size for t, size in zip(times, sizes, strict=True))
    p, law = min(Q(1), Q(n_star, n)), estimates(sizes, M, alpha, times)
    return sum(c * (min(Q(1), n_star / max(x, count)) / p - 1) ** 2 for x, c in law)


p, square, stated = (Q(1, 4), Q(3, 4)), Q(0), Q(0)
for way, chance in theory.samples_with_replacement(p, 2):
    times = [way.count(k) for k in (0, 1)]
    stated += chance * sum(
        t * t * one_report(n, 4, alpha) for t, n in zip(times, (1, 3), strict=True)
    )
    for x, c in estimates((1, 3), 4, alpha, times):
        square += chance * c * (x - times[0] - 3 * times[1]) ** 2
pairs = [((2 * x + 2 * x * x), n) for x, n in zip(p, (1, 3), strict=True)]
lemma = sum(x * one_report(n, 4, alpha) for x, n in pairs)
assert square == stated == lemma
for sizes, n_star, times in product(((1, 3), (2, 3)), (2, 9), ((1, 1), (2, 1))):
    both = zip(sizes, times, strict=True)
    spread = sum(t * t * one_report(n, 4, alpha) for n, t in both)
    assert rate_error(sizes, 4, alpha, n_star, times) <= spread / sum(times) ** 2
assert rate_error((2,), 4, alpha, 50, (50,)) == rate_error((2,), 4, alpha, 1, (1,))
# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the exact error of the rate", "code_prompt_hide": "Hide the exact error of the rate"}
alpha3, rates = privacy.truth_probability(3.0, 100), {}
for count in (10, 100, 1000):  # clients of 60 examples, M = 100, n* = n / 10
    sizes, n = np.full(count, 60), 60 * count
    x, chance = theory.size_estimator_distribution(sizes, 100, alpha3)
    exact = chance @ (10 * np.minimum(1, n / 10 / np.maximum(x, count)) - 1) ** 2
    spread = privacy.estimate_variance(sizes, size_cap=100, alpha=alpha3)
    rates[count] = exact, spread / n**2, spread / count**2
    assert exact <= rates[count][2]
# %% tags=["remove-input"]
v = one_report(1, 4, alpha)
glue_values("ch9", once=v, fresh_pair=2 * v, twice=4 * v)
expect("is close for many different clients", abs(rates[1000][0] / rates[1000][1] - 1) < 0.15)
table(ch09.tabulate_rates(rates))

# %% [markdown]
# Each client has sixty examples, $M = 100$, $\epsilon = 3$, and a tenth of the examples is requested. The bound is far above the exact error, but $\mathrm{Var}(\tilde n)/n^2$ is close for many different clients.
#
# ## What does data sampling do to the variance?
#
# Data sampling adds variance, and saves computation. Take one local step. Let $\boldsymbol g_1, \dots, \boldsymbol g_{n_k}$ be the gradients of client $k$'s examples, $\bar{\boldsymbol g}$ their mean, and
# $\boldsymbol S = \frac1{n_k - 1}\sum_i (\boldsymbol g_i - \bar{\boldsymbol g})(\boldsymbol g_i - \bar{\boldsymbol g})^\top$, with $n_k \ge 2$.
#
# ```{prf:lemma} Lemma 3′, simple random sampling
# :label: wwi-lem-srs
# The mean over $\bar n$ of the $n_k$ examples, drawn without replacement, is unbiased for $\bar{\boldsymbol g}$ and the step
# has covariance $\eta_t^2 \big(\frac1{\bar n} - \frac1{n_k}\big) \boldsymbol S$. This is eq. 6.10.
# ```
#
# ```{prf:lemma} Lemma 4′, Bernoulli sampling
# :label: wwi-lem-bernoulli
# Keep each example with probability $q$; $s$ are kept, and a batch of $b = \min(s, B)$ of them is averaged.
#
# 1. Given $s \ge 1$ the mean is unbiased, and the step has covariance
#    $\eta_t^2 \big(\mathbb E[\frac1b \mid s \ge 1] - \frac1{n_k}\big) \boldsymbol S$.
# 2. With no step if $s = 0$, the expected step is $-\eta_t \big(1 - (1-q)^{n_k}\big)\bar{\boldsymbol g}$.
# 3. The sum over all kept examples, divided by $q n_k$, is unbiased with covariance
#    $\eta_t^2 \frac{1-q}{q n_k^2} \sum_i \boldsymbol g_i\boldsymbol g_i^\top$.
# ```
#
# ```{prf:theorem} Theorem 3′, the comparison
# :label: wwi-thm-data
# Write $\boldsymbol A \succeq \boldsymbol B$ if $\boldsymbol A - \boldsymbol B$ has no negative eigenvalue (the Loewner order).
#
# 1. (Sum, same expected size.) Lemma 4′ (3) minus Lemma 3′ with $\bar n = q n_k$ is
#    $\eta_t^2\frac{1-q}{q n_k}\big(\bar{\boldsymbol g}\bar{\boldsymbol g}^\top - \boldsymbol S/n_k\big)$: neither is above the other in general.
# 2. (Mean, same expected size.) If $b = s$, Lemma 4′ (1) $\succeq \eta_t^2 \big(\frac1{\mathbb E[s \mid s \ge 1]} - \frac1{n_k}\big)\boldsymbol S$, Lemma 3′
#    at $\bar n = \mathbb E[s \mid s \ge 1]$.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# Lemma 3′: an example is in the sample with probability $\bar n/n_k$, so the indicators have the variance $v = \frac{\bar n}{n_k}\big(1 - \frac{\bar n}{n_k}\big)$ and, since their sum
# is fixed, the covariance $-v/(n_k - 1)$. So the mean over the sample has the covariance $v n_k \boldsymbol S/\bar n^2 = \big(\frac1{\bar n} - \frac1{n_k}\big)\boldsymbol S$.
# Given $s$ and $b$, the batch is a simple random sample, which gives Lemma 4′ (1) from Lemma 3′; (2) is
# $P(s \ge 1)$; for (3) the indicators are independent with variance $q(1-q)$. Theorem 3′ (1): insert
# $\sum_i \boldsymbol g_i \boldsymbol g_i^\top = (n_k - 1)\boldsymbol S + n_k \bar{\boldsymbol g}\bar{\boldsymbol g}^\top$. (2): Jensen.
# ```
#
# So for the same expected number of examples, Bernoulli sampling is never better for all gradients; the paper's Theorem 3
# has no counterpart ({prf:ref}`thm-ch4d-blind` says why). As a check, four gradients with $q = \frac12$, $\eta_t = 1$, and every sample:

# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: simple random samples", "code_prompt_hide": "Hide the check: simple random samples"}
g = np.array([[Q(1), Q(0)], [Q(0), Q(2)], [Q(3), Q(-1)], [Q(-2), Q(1)]])
q, B, centre = Q(1, 2), 2, sum(g) / 4
S = sum(np.outer(x - centre, x - centre) for x in g) / 3


def moments(outcomes):
    """Return mean and covariance of (vector, probability) pairs, the
    probabilities normalised."""
    outcomes = list(outcomes)
    total = sum(c for _, c in outcomes)
    mean = sum(v * c for v, c in outcomes) / total
    return mean, sum(np.outer(v - mean, v - mean) * c for v, c in outcomes) / total


def mean_of(indices):
    return sum(g[list(indices)]) / len(indices)


def equal(computed, *stated):
    return all(np.all(x == y) for x, y in zip(computed, stated, strict=True))


srs = moments((mean_of(k), 1) for k in combinations(range(4), 2))
assert equal(srs, centre, (Q(1, 2) - Q(1, 4)) * S)
assert np.all(theory.srs_covariance(g, 2) == srs[1])
# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: Bernoulli samples", "code_prompt_hide": "Hide the check: Bernoulli samples"}
samples = [k for size in range(5) for k in combinations(range(4), size)]
chance = {k: q ** len(k) * (1 - q) ** (4 - len(k)) for k in samples}
batches = {k: list(combinations(k, min(B, len(k)))) for k in samples if k}
each = [(b, chance[k] / len(x)) for k, x in batches.items() for b in x]
batch_moments = moments((mean_of(b), c) for b, c in each)
some = 1 - chance[()]
inverse = sum(chance[k] / min(B, len(k)) for k in batches) / some
assert equal(batch_moments, centre, (inverse - Q(1, 4)) * S)  # part 1
stopped = moments((mean_of(k) if k else 0 * centre, chance[k]) for k in samples)
assert np.all(stopped[0] == some * centre)  # part 2
summed = moments((sum(g[list(k)], 0 * centre) / (4 * q), chance[k]) for k in samples)
assert equal(summed, centre, (1 - q) / (16 * q) * g.T @ g)  # part 3
assert np.all(theory.bernoulli_covariance(g, q, 4 * q) == summed[1])
difference = (1 - q) / (4 * q) * (np.outer(centre, centre) - S / 4)
assert np.all(summed[1] - srs[1] == difference)  # Theorem 3', part 1
# %% [markdown]
# ## What is private, and how much?
#
# The size of a client is private if the client reports once and repeats that report. Nothing else is private.
#
# ```{prf:lemma} Lemma 5′, privacy of the sizes
# :label: wwi-lem-privacy
# Let sizes be clipped to $1, \dots, M-1$ and fakes uniform on $1, \dots, M-1$, $M \ge 3$.
#
# 1. The largest likelihood ratio of a report is $1 + (M-1)\alpha/(1-\alpha)$. So a report is $\epsilon$-locally differentially private ($\epsilon$-LDP) if and only if
#    $\alpha \le (e^\epsilon - 1)/(e^\epsilon + M - 2)$; with equality (eq. 6.13) no smaller $\epsilon$ is true.
# 2. $j$ fresh reports of one client are $j\epsilon$-LDP, and no less.
# 3. One report, repeated $j$ times, is $\epsilon$-LDP for every $j$.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# (1) is {prf:ref}`lem-report-ratio` with $A = B = \{1, \dots, M-1\}$, (2) is {prf:ref}`lem-fresh-reports`, (3) is {prf:ref}`lem-memoised`; their proofs stand in
# [](04e_privacy.ipynb).
# ```


# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: the largest likelihood ratio", "code_prompt_hide": "Hide the check: the largest likelihood ratio"}
def ratio(M, alpha, j, fresh):
    """Return the largest likelihood ratio of j reports of one client, over
    all pairs of sizes."""
    sizes, one = range(1, M), {}
    for n, r in product(sizes, sizes):
        one[n, r] = (1 - alpha) / (M - 1) + alpha * (r == n)
    tuples = product(sizes, repeat=j) if fresh else [(r,) for r in sizes]
    pairs = list(product(sizes, sizes))
    ratios = [prod(one[a, r] / one[b, r] for r in way) for way in tuples for a, b in pairs]
    return max(ratios)


# e^epsilon = 3
assert ratio(4, Q(2, 5), 1, True) == 3 == theory.ldp_ratio(4, Q(2, 5))
assert ratio(4, Q(1, 2), 1, True) == 1 + 3 * Q(1, 2) / Q(1, 2)
for j in (2, 3):
    assert ratio(4, Q(2, 5), j, fresh=True) == 3**j
    assert ratio(4, Q(2, 5), j, fresh=False) == 3
# %% [markdown]
# ```{admonition} The privacy statement
# :class: as-it-should-be
# The memoised size reports of {prf:ref}`wwi-alg-dp` are together $\epsilon$-LDP in each client's **size**, over
# all rounds of a run and towards a server that sees who participates. Every client must draw its report from randomness that it alone knows. With a
# fixed $q$ there is no report. Nothing else is protected:
#
# - Gradients, norms, models and participation are released in clear.
# - **An empty client is visible.** Taking part shows $n_k \ge 1$ where clients without data are left out. Elsewhere its updates show it: a client that returns
#   $\boldsymbol w_t$ has drawn no example, which has probability $(1-q)^{n_k}$.
# - **A public seed undoes every report.** Whoever can replay a client's random numbers knows whether its answer is true. The simulator
#   draws reports from the run's seed: it shows what they cost in accuracy, and protects nobody.
# - **Time tells.** The more data a client has, the longer its gradient at $\boldsymbol w_0$ takes.
# - **A new run is a new report** where no secret is stored: $j$ runs cost $j\epsilon$. Nor may a report be drawn again when the size changes.
# ```
#
# We tried the attack by the public seed on clients with every size from 1 to 99 ($M = 100$, $\epsilon = 3$):

# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the attack: replaying the reports", "code_prompt_hide": "Hide the attack: replaying the reports"}
true, right = 0, 0
# every size, as client k of a run with this seed
for k, size in enumerate(range(1, 100)):
    report = privacy.report(
        size,
        size_cap=100,
        alpha=alpha3,
        rng=stream(s.seed, "memoised report", k),
    )
    replay = stream(s.seed, "memoised report", k)
    replay.integers(1, 100)  # the random report
    if replay.random() < alpha3:
        true, right = true + 1, right + (report == size)
assert true == right
# %% tags=["remove-cell"]
glue_values("ch9", replayed=true, right=int(right))

# %% [markdown]
# The replay marks {glue:text}`ch9_replayed` of the 99 reports as true, and {glue:text}`ch9_right` of them are.
#
# {cite:t}`erlingsson2014rappor` memoise randomised responses as we do here.
#
# ```{provenance} How the live numbers were made
# ```
