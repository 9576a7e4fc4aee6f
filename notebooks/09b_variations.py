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
# # A better design: when the assumptions fail, and all settings
#
# ```{at-a-glance}
# :needs: the page "A better design"
# ```
#
# The main page, {doc}`A better design <09_what_we_would_write>`, assumes that the server cuts the true updates, that training is not noisy and that every client answers. This appendix says what
# happens when each assumption fails. It also has all one-round errors in numbers, the measurement behind each setting, and the reason why we no longer recommend the corrected
# method. The symbols are those of {doc}`the proofs <09a_proofs>`.

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of every random draw
device: str = "auto"  # auto, cpu or cuda
task: str = None  # digits, mnist, fashion-mnist, cifar10 or cifar100
clients: int = None  # number of clients
clients_per_round: int = None  # participants of a round
levels: int = None  # levels of a squeezed gradient
rounds: int = None  # rounds of training before the designs are compared
concentration: float = None  # of the Dirichlet partition

# %% tags=["hide-input"]
from fractions import Fraction as Q
from itertools import product
from math import prod

import numpy as np
from IPython.display import Markdown, display

from companion import asking, ch05, ch09, chapters, feature_errors, features
from companion import least_variance_results, one_rounds, plots, records, statistics, tables
from companion.pages.prose import expect, fold_table, glue_values, table
from fedstas import methods, one_round, partition, privacy, tasks
from fedstas.theory import least_variance as lv
from fedstas.theory.least_variance import pair_weights
from fedstas.theory.least_variance import sum_within_strata as inside

s = chapters.settings("09b_variations", globals())
plots.set_page_style()


# %% tags=["remove-cell"]
five = np.array([Q(n, 12) for n in (1, 2, 2, 3, 4)])
u5 = [[1, 0], [0, 2], [3, 1], [-1, -1], [2, 2]]
md5 = lv.moments_by_enumeration([[o / 3 for o in five]] * 3, [five] * 3, u5)[1]
data, m = tasks.load(s.task, device="cpu"), s.clients_per_round
federation = partition.dirichlet(data.train_y, s.clients, s.concentration, s.seed)
local = methods.LocalSGD(lr=0.1 if s.task == "digits" else 0.01)
settings = {"clients_per_round": m, "seed": s.seed, "local": local, "device": "cpu"}
first, state = (
    one_round.state_after(data, federation, rounds=t, **settings) for t in (0, s.rounds)
)
designs, shares_left = ch09.compute_draws(state, s.levels), {}
for name, (x, p) in designs.items():
    shares_left[name] = lv.variance_of(x, p, state.gram, state.noise) / state.md_error
glue_values("ch9", task=s.task, rounds=s.rounds, on_map=len(state.omega), participants=m)

# %% [markdown]
# ## What does noisy training do?
#
# Noisy training takes the guarantee away, and we can say by how much.
#
# ```{prf:proposition} Client noise
# :label: wwi-prp-noise
# Let $\boldsymbol u_k$ have mean $\bar{\boldsymbol u}_k$ and variance $\tau_k^2$, independent from draw to draw; let $a_k = \omega_k$ and
# $\nu = \sum_k \omega_k^2 \tau_k^2$.
#
# 1. $V$ is $\nu$ plus the sum over pairs that share a stratum of
#    $\omega_k\omega_l \big( \|\bar{\boldsymbol u}_k - \bar{\boldsymbol u}_l\|^2 + \tau_k^2 + \tau_l^2 \big).$
# 2. Strata at rest in the sense of {prf:ref}`wwi-thm-md` (1), for *these* pairs, are never worse than MD whose repeated draws of a client share one
#    training. They are at most $(1 - \frac1m) \nu$ above MD whose repeated draws train anew.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# (1) Noise adds $W_h^2\tau_k^2$ with probability $\omega_k/W_h$, and $\omega_k W_h \tau_k^2 = \sum_{l \in \mathcal C_h} \omega_k \omega_l \tau_k^2$. The term
# $l = k$ goes to $\nu$, the others to the pairs. (2) In MD client $k$ is drawn $t_k$ times, $\mathbb E t_k = m\omega_k$ and
# $\mathbb E t_k^2 = m\omega_k + m(m-1)\omega_k^2$. Noise adds $\sum_k \tau_k^2\, \mathbb E t_k^2/m^2$ if draws share a training, so that MD has $P/m + \nu$; and
# $\sum_k \tau_k^2\, \mathbb E t_k/m^2$ if not, $(P + \nu)/m$. By {prf:ref}`wwi-thm-md`, $V \le P/m + \nu$.
# ```


# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: all cohorts and signs of the noise", "code_prompt_hide": "Hide the check: all cohorts and signs of the noise"}
def with_noise(omega, tau, x, p, anew=True):
    """Return the variance for equal updates and noise of -tau or tau, over
    all cohorts and signs."""
    n, m, total = len(omega), len(x), Q(0)
    signs = list(product((-1, 1), repeat=m if anew else n))
    for cohort in product(range(n), repeat=m):
        chance = prod((p[j][k] for j, k in enumerate(cohort)), start=Q(1))
        for sign in signs if chance else ():
            error = Q(0)
            for j, k in enumerate(cohort):
                error += x[j][k] / p[j][k] * sign[j if anew else k] * tau[k]
            total += chance * error**2 / len(signs)
    return total


def md(omega, m):
    """Return contributions and probabilities of MD's draws."""
    return [[o / m for o in omega]] * m, [omega] * m


w, tau = [Q(1, 6), Q(2, 6), Q(3, 6)], [1, 2, 1]
# equal updates, and noise
d = pair_weights(w, [[0]] * 3, None, [t * t for t in tau])
nu = sum((o * t) ** 2 for o, t in zip(w, tau, strict=True))
P = inside(d, (0, 0, 0))
for labels in lv.partitions(3, 2):
    assert with_noise(w, tau, *lv.rows_of_strata(w, labels)) == inside(d, labels) + nu
assert with_noise(w, tau, *md(w, 2), anew=False) == P / 2 + nu
assert with_noise(w, tau, *md(w, 2)) == (P + nu) / 2
# %% tags=["remove-cell"]
two = [Q(2, 3), Q(1, 3)]
glue_values("ch9", noise_cut=with_noise(two, [1, 1], *lv.rows_of_strata(two, (0, 1))))
glue_values("ch9", noise_md=with_noise(two, [1, 1], *md(two, 2)))
by_length = lv.rows_of_strata([Q(1, 2)] * 2, (0, 0), [1, 2])
glue_values("ch9", wrong_norms=lv.moments_by_enumeration(*by_length, [[1], [1]])[1])

# %% [markdown]
# So "never worse than MD" is false where clients are noisy and MD trains repeated draws anew, as the simulator does. Two clients of weights
# $\frac23$ and $\frac13$ with equal updates and variance 1 have the variance {glue:text}`ch9_noise_cut` with strata, and {glue:text}`ch9_noise_md` with MD. The option `noise` adds an
# estimate of $\tau^2$ to the pairs.
#
# ## What do features do that are not the updates?
#
# The server cuts features that stand for the updates: gradients at $\boldsymbol w_0$, sketches of them, or updates of earlier rounds. A bound says what this costs.
#
# ```{prf:proposition} Features that are not the updates
# :label: wwi-prp-features
# Let strata be made of features $\boldsymbol z_k$, with $a_k = \omega_k$. Let $V(\boldsymbol z)$ and $V_{\mathrm{MD}}(\boldsymbol z)$ be the variances if the features were the updates,
# $\rho = V(\boldsymbol z)/V_{\mathrm{MD}}(\boldsymbol z)$ and $\varepsilon^2 = \min_\beta V_{\mathrm{MD}}(\boldsymbol u - \beta\boldsymbol z)/V_{\mathrm{MD}}(\boldsymbol u)$. Then
#
# $$\begin{aligned}
# \sqrt{\frac{V(\boldsymbol u)}{V_{\mathrm{MD}}(\boldsymbol u)}}
# &\le \sqrt{\rho (1 - \varepsilon^2)} + \sqrt{m \max_h W_h}\; \varepsilon \\
# &\le \sqrt{\rho + m \max_h W_h} .
# \end{aligned}$$
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# $\sqrt V$ and $\sqrt{V_{\mathrm{MD}}}$ are seminorms. At the best $\beta$, $\beta\boldsymbol z$ is the projection of $\boldsymbol u$ in MD's inner product, so that
# $V_{\mathrm{MD}}(\beta\boldsymbol z) = (1 - \varepsilon^2) V_{\mathrm{MD}}(\boldsymbol u)$. Triangle inequality: $\sqrt{V(\boldsymbol u)} \le \sqrt{\rho V_{\mathrm{MD}}(\beta\boldsymbol z)} + \sqrt{V(\boldsymbol e)}$
# with $\boldsymbol e = \boldsymbol u - \beta\boldsymbol z$. And $V(\boldsymbol e)$, the sum of $W_h \omega_k \|\boldsymbol e_k - \bar{\boldsymbol e}_h\|^2$, is at most
# $\max_h W_h \sum_k \omega_k \|\boldsymbol e_k - \bar{\boldsymbol e}\|^2 = m \max_h W_h\, V_{\mathrm{MD}}(\boldsymbol e)$. The last step is the Cauchy–Schwarz inequality.
# ```
#
# Draws by norm have no such bound. If two clients of equal weight have equal updates but features of lengths 1 and 2, and $m = 1$, MD makes no error, while draws by
# those lengths have the variance {glue:text}`ch9_wrong_norms`. That is why we draw by size.
#
# How tight is the bound? We took {glue:text}`ch9_on_map` clients of {glue:text}`ch9_task` and {glue:text}`ch9_participants` participants, the clients of
# {numref}`fig-wwi-map` at the same parameters, and left noise aside:

# %% tags=["remove-cell"]
current, bound_checks = f"round {state.round}", {}
for name, at, before in (
    ("at $\\boldsymbol w_0$, updates there", first, None),
    (f"at {current}, updates there", state, None),
    (f"at $\\boldsymbol w_0$, updates at {current}", state, first),
):
    strata, zz, zu = features.products(at, before, s.levels)
    bound_checks[name] = lv.features_bound(at.omega, strata, zz, zu, at.gram, m)
    assert bound_checks[name].ratio <= bound_checks[name].bound

# %% tags=["remove-input"]
_, fresh, old = bound_checks.values()
glue_values("ch9", eps_now=fresh.eps, eps_old=old.eps)
expect("The bound is loose", old.bound > 1.3 * old.ratio, bound=old.bound, ratio=old.ratio)
expect("Age raises", old.eps > 1.3 * fresh.eps, fresh=fresh.eps, old=old.eps)
table(ch09.tabulate_bounds(bound_checks))

# %% [markdown]
# The bound is loose, because it lets all of $\varepsilon$ fall into the heaviest stratum. Age raises $\varepsilon$ from {glue:text}`ch9_eps_now:.2f` to
# {glue:text}`ch9_eps_old:.2f`.
#
# ## What does a sketch lose?
#
# A sketch loses little. A client need not send its gradient, because $r$ signed sums of it are enough. With signs $\epsilon_{ji} = \pm 1$, drawn once by a fair coin and the same for
# all clients, the sketch of a vector $\boldsymbol z$ is $S\boldsymbol z = \frac{1}{\sqrt r} \big(\sum_i \epsilon_{ji} z_i\big)_{j = 1, \dots, r}$.
#
# ```{prf:proposition} What strata of sketches lose
# :label: wwi-prp-sketch
# Let $I(\boldsymbol z)$ be the inside sum of fixed strata, and $I(S\boldsymbol z)$ that of the sketches, $a_k = \omega_k$.
#
# 1. $\mathbb E\, I(S\boldsymbol z) = I(\boldsymbol z)$, and its standard deviation is at most $\sqrt{2/r}\; I(\boldsymbol z)$.
# 2. Let the signs be such that for all pairs, with $\beta < 1$,
#
#    $$\begin{aligned}
#    (1 - \beta) \|\boldsymbol z_k - \boldsymbol z_l\|^2 &\le \|S\boldsymbol z_k - S\boldsymbol z_l\|^2 \\
#    &\le (1 + \beta) \|\boldsymbol z_k - \boldsymbol z_l\|^2 .
#    \end{aligned}$$
#
#    Then strata that are at rest for the sketches, in the sense of
#    {prf:ref}`wwi-thm-md` (1), have $I(\boldsymbol z) \le \frac{1 + \beta}{1 - \beta} V_{\mathrm{MD}}(\boldsymbol z)$. The best strata of the sketches have at most
#    $\frac{1 + \beta}{1 - \beta}$ times the variance of the best strata of the $\boldsymbol z_k$. In {prf:ref}`wwi-prp-features` $\rho$ is at most
#    $\frac{1 + \beta}{1 - \beta}$ times what the server computes from the sketches.
# 3. The signs satisfy the condition of part 2 with probability at least
#
#    $$1 - N(N - 1) \exp\big(-\tfrac r2 (\tfrac{\beta^2}2 - \tfrac{\beta^3}3)\big) .$$
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# (1) For one row of signs, $\mathbb E (\sum_i \epsilon_i x_i)^2 = \|\boldsymbol x\|^2$ and $\mathbb E (\sum_i \epsilon_i x_i)^4 = 3\|\boldsymbol x\|^4 - 2\sum_i x_i^4$. So $\|S\boldsymbol x\|^2$,
# a mean over $r$ rows, has the mean $\|\boldsymbol x\|^2$ and the variance $\frac2r (\|\boldsymbol x\|^4 - \sum_i x_i^4) \le \frac2r \|\boldsymbol x\|^4$. $I$ is a sum of such terms with weights
# $\omega_k\omega_l \ge 0$, and the standard deviation of a sum is at most the sum of the standard deviations.
# (2) Every inside sum of sketches is between $1 - \beta$ and $1 + \beta$ times that of the vectors, and so is the sum over all pairs. At rest,
# $(1 - \beta)\, I(\boldsymbol z) \le I(S\boldsymbol z) \le \frac1m P(S\boldsymbol z) \le (1 + \beta)\, V_{\mathrm{MD}}(\boldsymbol z)$. The other two likewise.
# (3) is the lemma of Johnson and Lindenstrauss for signs, as {cite:t}`achlioptas2003database` has it, and a union bound over the $\frac{N(N-1)}2$ pairs.
# ```
#
# Part 1 is what happens, and part 3 is what can be promised. With $r = 64$, the standard deviation of the inside sum of given strata is at most {glue:text}`ch9_sketch_sd:.0f` % of the
# sum. But part 3 promises nothing for a hundred clients: at $\beta = 0.9$ its bound on the probability of failure is still {glue:text}`ch9_sketch_promise:.0f`, which is no
# probability. For a small federation every choice of signs can be listed:


# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: every choice of signs", "code_prompt_hide": "Hide the check: every choice of signs"}
def all_sketches(z, r):
    """Return the sketches of vectors z [N, d] under each of the 2^(r d)
    choices of signs, times sqrt(r)."""
    d = z.shape[1]
    for signs in product((-1, 1), repeat=r * d):
        yield z @ np.array(signs).reshape(d, r)


z5, few = np.array(u5), 2
every = [pair_weights(five, x) / few for x in all_sketches(z5, few)]
true_pairs = pair_weights(five, z5)
for labels in lv.partitions(5, 3):
    sums = [inside(d, labels) for d in every]
    mean, exact = sum(sums) / len(sums), inside(true_pairs, labels)
    assert mean == exact
    assert sum((x - mean) ** 2 for x in sums) / len(sums) <= Q(2, few) * exact**2

differ = true_pairs > 0
within, checked = list(lv.partitions(5, 3)), 0
for d in every:
    beta = max(abs(x / y - 1) for x, y in zip(d[differ], true_pairs[differ], strict=True))
    if beta < 1:
        checked += 1
        factor = (1 + beta) / (1 - beta)
        best_labels = min(within, key=lambda labels: inside(d, labels))
        best_inside = min(inside(true_pairs, labels) for labels in within)
        assert inside(true_pairs, best_labels) <= factor * best_inside
        assert all(
            inside(true_pairs, x) <= factor * md5 for x in within if ch09.no_move_gains(d, x, 3)
        )
assert checked
# %% tags=["remove-cell"]
promise = 100 * 99 * np.exp(-64 / 2 * (0.9**2 / 2 - 0.9**3 / 3))
glue_values("ch9", sketch_sd=100 * np.sqrt(2 / 64), sketch_promise=promise)
expect("part 3 promises nothing for a hundred clients", promise > 1, promise=promise)

# %% [markdown]
# ## What if drawn clients do not answer?
#
# If drawn clients do not answer, the round is too short, and the remedy costs variance. Let every draw be silent with probability $\delta$, independently of all else. The
# expected update is then $1 - \delta$ times the full one. The remedy is to divide the weights of those who answer by $1 - \delta$.
#
# ```{prf:proposition} Silence is noise
# :label: wwi-prp-silent
# An unbiased sum of independent draws stays unbiased with this remedy. Let $\ell_k^2 = \mathbb E\|\boldsymbol u_k\|^2$. Then $V$ is what it is without silence if every
# $\tau_k^2$ is larger by $\frac\delta{1-\delta} \ell_k^2$, and every draw trains anew. For strata with $a_k = \omega_k$
# this adds $\frac\delta{1-\delta} \sum_h W_h \sum_{k \in \mathcal C_h} \omega_k \ell_k^2$, for MD $\frac\delta{1-\delta} \cdot \frac1m \sum_k \omega_k \ell_k^2$.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# An answer that comes with probability $1 - \delta$ and counts $\frac1{1-\delta}$ times has the mean $\bar{\boldsymbol u}_k$ and the second moment
# $\frac{\ell_k^2}{1-\delta}$: it is an update with noise of variance $\frac{\ell_k^2}{1-\delta} - \|\bar{\boldsymbol u}_k\|^2 = \tau_k^2 + \frac\delta{1-\delta} \ell_k^2$. The sums are those of
# {prf:ref}`wwi-prp-noise`.
# ```
#
# Clients may differ in how often they answer. If client $k$ is silent with probability $\delta_k$, the proposition and its proof hold with $1 - \delta_k$ in the place of $1 - \delta$ everywhere.
# But then the server must know each client's $\delta_k$. With one common factor $\frac1{1 - \delta}$ the expected update is $\sum_k \omega_k \frac{1 - \delta_k}{1 - \delta} \bar{\boldsymbol u}_k$, so clients who
# rarely answer count for less, whatever $\delta$ is, and no design over clients removes that.
#
# Silence costs variance by the *length* of the updates, which no strata remove. A heavy stratum pays more than MD: two
# clients of weights $\frac23$ and $\frac13$ with equal updates of length 1 and $\delta = \frac12$ have the variance {glue:text}`ch9_silent_cut` with strata, and MD has
# {glue:text}`ch9_silent_md`.


# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: an answer that does not come is a draw of nobody", "code_prompt_hide": "Hide the check: an answer that does not come is a draw of nobody"}
def or_nobody(x, p, silent, factor=1):
    """Return the draws x, p with one more client, nobody; an answer counts
    `factor` times."""
    answer_rate = 1 - silent
    x = [[*(factor * answer_rate * v for v in row), 0] for row in x]
    return x, [[*(answer_rate * v for v in row), silent] for row in p]


def each_or_nobody(x, p, silent, factor):
    """Return the same where client k does not answer with probability
    silent[k], and its answer counts factor[k] times."""
    chances = [[(1 - s) * v for s, v in zip(silent, row, strict=True)] for row in p]
    x = [[*(f * (1 - s) * v for f, s, v in zip(factor, silent, row, strict=True)), 0] for row in x]
    return x, [[*row, 1 - sum(row)] for row in chances]


SILENT, labels, nobody = Q(1, 10), (0, 1, 0, 2, 1), [*u5, [0, 0]]
full = [sum(five[k] * u5[k][i] for k in range(5)) for i in (0, 1)]
# delta / (1 - delta) times the squared length
more = [Q(1, 9) * sum(c * c for c in v) for v in u5]
d, nu = pair_weights(five, u5, None, more), sum(five**2 * more)
draws = lv.rows_of_strata(five, labels)
short = lv.moments_by_enumeration(*or_nobody(*draws, SILENT), nobody)[0]
assert short == [Q(9, 10) * x for x in full]
assert lv.moments_by_enumeration(*or_nobody(*draws, SILENT, Q(10, 9)), nobody) == (
    full,
    inside(d, labels) + nu,
)
mean_variance = lv.moments_by_enumeration(*or_nobody(*md(five, 3), SILENT, Q(10, 9)), nobody)
assert mean_variance == (full, (inside(d, [0] * 5) + nu) / 3)

rates = [Q(1, 2), Q(1, 3), Q(1, 4), Q(1, 5), Q(1, 10)]  # probabilities of no answer, one per client
more = [r / (1 - r) * sum(c * c for c in v) for r, v in zip(rates, u5, strict=True)]
d, nu = pair_weights(five, u5, None, more), sum(five**2 * more)
own_factors = [1 / (1 - r) for r in rates]
mean_variance = lv.moments_by_enumeration(*each_or_nobody(*draws, rates, own_factors), nobody)
assert mean_variance == (full, inside(d, labels) + nu)
common = [Q(10, 7)] * 5
mean_variance = lv.moments_by_enumeration(*each_or_nobody(*draws, rates, common), nobody)[0]
pairs_of = list(zip(five, rates, u5, strict=True))
assert mean_variance == [sum(o * (1 - r) * Q(10, 7) * v[i] for o, r, v in pairs_of) for i in (0, 1)]
# %% tags=["remove-cell"]
half = [
    lv.moments_by_enumeration(*or_nobody(*draws, Q(1, 2), 2), [[1], [1], [0]])[1]
    for draws in (lv.rows_of_strata(two, (0, 1)), md(two, 2))
]
glue_values("ch9", silent_cut=half[0], silent_md=half[1])

# %% [markdown]
# Now let one draw in ten be silent for the clients of {glue:text}`ch9_task` above:

# %% tags=["remove-cell"]
later = {}
for t in (s.rounds, 5 * s.rounds):
    later[t] = one_round.state_after(data, federation, rounds=t, method="k-vib", **settings)
silent = ch09.compare_nonresponse(state, later, designs, s.levels, drop=0.1, seed=s.seed)
# of the full update, squared
length = (state.omega @ state.gram @ state.omega) / state.md_error
# an unbiased sum, rescaled
unremedied = 0.9**2 * silent["exact"] + 0.1**2 * length
off = (silent["error"] - unremedied).dropna()
assert (off.abs() < 5 * silent["se"][off.index]).all()

# %% tags=["remove-input"]
exact, vib = silent["exact"].astype(float), silent["all answer"].iloc[-3:]
md_more, cut_more = (exact[x] - shares_left[x] for x in (ch09.MD_LABEL, ch09.LEAST_VARIANCE_LABEL))
glue_values("ch9", silent_md_more=md_more, silent_cut_more=cut_more)
more = cut_more / shares_left[ch09.LEAST_VARIANCE_LABEL], md_more / shares_left[ch09.MD_LABEL]
expect(
    "the growth is larger for least-variance strata",
    more[0] > 1.3 * more[1],
    cut=more[0],
    md=more[1],
)
expect("has a smaller error in the later round", vib.iloc[1] < vib.iloc[0], at_first=vib.iloc[0])
expect(
    "has a smaller error still",
    vib.iloc[2] < 0.95 * vib.iloc[1],
    coins=vib.iloc[2],
    vib=vib.iloc[1],
)
table(ch09.tabulate_nonresponse(silent))

# %% [markdown]
# The table shows mean squared errors from 1,000 cohorts, where MD has 1 if all answer; a bias is relative to the root of that. With the remedy MD's error grows by
# {glue:text}`ch9_silent_md_more:.2f` and the error of least-variance strata by {glue:text}`ch9_silent_cut_more:.2f`. Relative to the error without silence, the growth is larger for least-variance strata. K-Vib
# {cite:p}`zeng2023enhanced`, which learns from the updates that come back, has a smaller error in the later round. Poisson sampling by size, which learns nothing, has a smaller error still.
#
# ## Can the server tell how large the error was?
#
# The server cannot tell without bias from one draw a stratum. But it can compute a number that is too large on average and never too small on average.
#
# ```{prf:proposition} One draw a stratum hides its own variance
# :label: wwi-prp-collapsed
# Let one client be drawn from each of $m$ strata, $a_k = \omega_k$, and let $\boldsymbol t_h = W_h \boldsymbol u_k$ be what the draw of stratum $h$ adds.
#
# 1. If a stratum has two clients or more, no function of the cohort and its updates has the expectation $V$ for all updates.
# 2. Put the strata into pairs, $m$ even. Then $\sum_{(h, i)} \|\boldsymbol t_h - \boldsymbol t_i\|^2$ has the expectation
#    $V + \sum_{(h, i)} \|\boldsymbol\mu_h - \boldsymbol\mu_i\|^2$ with $\boldsymbol\mu_h = \sum_{k \in \mathcal C_h} \omega_k \boldsymbol u_k$.
# ```
#
# ```{dropdown} Proof
# :class-container: proof
# (1) $V$ contains $-2\omega_k\omega_l \langle \boldsymbol u_k, \boldsymbol u_l \rangle$ for clients $k$, $l$ of one stratum. They are never drawn together, so that the
# expectation of any function of what is seen is a sum of terms of which none depends on both $\boldsymbol u_k$ and $\boldsymbol u_l$.
# (2) $\boldsymbol t_h$ and $\boldsymbol t_i$ are independent with means $\boldsymbol\mu_h$ and $\boldsymbol\mu_i$; the variances add to $V$.
# ```
#
# Survey statisticians call the second method *collapsed strata*. Its bias is large where the strata differ, as good strata do, so it gives only an upper limit of the mean error. If you need
# $V$ itself, draw at least two clients from every stratum, whose variance is then that of another design, or compare with a round in which everybody takes part.

# %% tags=["hide-input"] mystnb={"code_prompt_show": "Show the check: pairs of strata", "code_prompt_hide": "Hide the check: pairs of strata"}
pairs_of_strata = (0, 1, 0, 1, 2, 3)  # one draw of each of four strata
six, u6 = np.array([Q(n, 12) for n in (1, 2, 2, 3, 3, 1)]), np.array([*u5, [0, 3]])
members = [np.flatnonzero(np.equal(pairs_of_strata, h)) for h in range(4)]
mu = [six[k] @ u6[k] for k in members]
expected = Q(0)
for cohort in product(*members):
    t = [six[k].sum() * u6[j] for k, j in zip(members, cohort, strict=True)]
    chance = prod(six[j] / six[k].sum() for k, j in zip(members, cohort, strict=True))
    expected += chance * (((t[0] - t[1]) ** 2).sum() + ((t[2] - t[3]) ** 2).sum())
too_much = ((mu[0] - mu[1]) ** 2).sum() + ((mu[2] - mu[3]) ** 2).sum()
assert expected == inside(pair_weights(six, u6), pairs_of_strata) + too_much
# %% [markdown]
# ## Which designs err less in one round?
#
# The last column of the folded table names the designs that err less than least-variance strata in *every* partition of a setting:

# %% tags=["remove-cell"]
rounds_of = one_rounds.load()
means = one_rounds.summarise(rounds_of)
error = means.set_index(["setting", "m", "design"])["mean"].sort_index()
ten, many = error["mnist", 10], error["mnist", 20]
LEAST_VARIANCE_METHOD, KMEANS = least_variance_results.LEAST_VARIANCE_METHOD, "fedstas-unbiased"
glue_values("ch9", ten_cut=ten[LEAST_VARIANCE_METHOD])
glue_values("ch9", ten_from=ten[ch09.FROM_UPDATES_METHOD], ten_norm=ten[ch09.BY_NORM])
top = one_rounds.count_above_md(rounds_of, ch09.FROM_UPDATES_METHOD)[2]
glue_values("ch9", from_top=top["exact"])
by_design = error.unstack("design")
more_by = {  # % of the error of the plain settings
    design: 100 * (by_design[design] / by_design[LEAST_VARIANCE_METHOD] - 1)
    for design in (ch09.RENEWED, ch09.NOISE)
}
glue_values(
    "ch9", renewed_less=-more_by[ch09.RENEWED].min(), renewed_more=more_by[ch09.RENEWED].max()
)
noise = more_by[ch09.NOISE].unstack("m")
glue_values("ch9", noise_less=-noise.loc["cifar100", 20], noise_more=noise.loc["fashion-mnist", 20])
expect("over five settings with five, ten and twenty participants", noise.shape == (5, 3))
expect(
    "it changes the error of one round by less than four per cent",
    (noise[[5, 10]].abs() < 4).all(axis=None),
)
expect(
    "less on CIFAR-100 to",
    noise[20].idxmin() == "cifar100" and noise[20].idxmax() == "fashion-mnist",
)
better = ch09.BY_NORM in one_rounds.list_better_designs(rounds_of, "mnist", 10)
by_norm = {"ten": ten[ch09.BY_NORM], "twenty": many[ch09.BY_NORM]}
expect(
    "have a smaller error with ten participants",
    better and many[ch09.BY_NORM] > many[LEAST_VARIANCE_METHOD],
    **by_norm,
)
errors_of_twenty = error.xs(20, level="m").unstack("design")
larger = errors_of_twenty[ch09.BY_NORM] > errors_of_twenty[LEAST_VARIANCE_METHOD]
expect("but a larger one with twenty in three of five settings", larger.sum() == 3 and len(larger) == 5)  # fmt: skip
expect("In their worst cell", top["setting"] == "cifar100", error=top["exact"])

# %% tags=["remove-input"]
fold_table(
    "Errors of least-variance strata, and the designs that err less",
    ch09.tabulate_better_designs(rounds_of),
)

# %% [markdown]
# ```{provenance} Table
# :recorded: one-round
# ```
#
# Strata made from last updates know nothing about a client until it has taken part. In their worst cell (a model of one partition, with one $m$) they leave
# {glue:text}`ch9_from_top:.2f` of MD's error, on CIFAR-100.
#
# All settings in numbers. FedSTaS has no row of its own: from the same model it draws the same clients with the same weights as FedSTS, and the error takes every update from all of a client's data. What FedSTaS adds, by training on a sample of these data, is not in these tables.

# %% tags=["remove-input", "hide-output"] mystnb={"code_prompt_show": "Show the tables", "code_prompt_hide": "Hide the tables"}
how = "Errors of least-variance strata are exact; the others are means of 200 cohorts a cell, or of 60 for the cube method. No server knows the true updates of the last row."
display(Markdown(how))
for setting in [x for x in one_rounds.SETTING_TITLES if x in set(rounds_of["setting"])]:
    display(
        Markdown(f"**{one_rounds.SETTING_TITLES[setting]}**"),
        table(one_rounds.tabulate_errors(rounds_of, setting)),
    )

# %% [markdown]
# ```{provenance} Tables
# :recorded: one-round
# ```
#
# ## Can the participants' updates renew the strata for free?
#
# In three settings the renewal did not help. The server averages the sketch of a client's gradient at $\boldsymbol w_0$
# with the sketch of its last update, once the client has sent one (`features="sketch+updates"`), and makes new strata in each round:

# %% tags=["remove-input"]
renewal = feature_errors.load_renewal()
renewal_means = feature_errors.summarise_renewal(renewal)
fold_table(
    "Errors of strata made once and of renewed strata (MD: 1)", ch09.tabulate_renewal(renewal_means)
)

# %% tags=["remove-cell"]
ratios = ch09.compare_renewal(renewal_means)
alone = renewal_means.set_index(["setting", "features", "round"])["mean"].loc["fashion-mnist"]
glue_values("ch9", renewed_worse=100 * (ratios.loc[("fashion-mnist", 10), "renewed"] - 1))
glue_values("ch9", updates_first=alone[ch09.ONLY_UPDATES, 0])
glue_values("ch9", updates_last=alone[ch09.ONLY_UPDATES, 100], once_last=alone[ch09.ONCE, 100])
seeds_of = renewal.groupby("setting")["seed"].nunique()
expect("averages over five partitions, with ten participants", (seeds_of == 5).all())
expect("In three settings the renewal did not help", (ratios["renewed"].groupby("setting").mean() > 1).all())  # fmt: skip
expect("nowhere more than two per cent below the sketch alone", ratios["renewed"].min() > 0.98)
expect("still more than the sketch", (ratios["updates"].xs(100, level="round") > 1.1).all())

# %% [markdown]
# ```{provenance} Table
# :recorded: one-round-renewal
# ```
#
# The errors in the folded table (MD has 1) are averages over five partitions, with ten participants, after so many rounds of MD at its tuned learning rate. The error of renewed strata is
# nowhere more than two per cent below the sketch alone, and on Fashion-MNIST it is {glue:text}`ch9_renewed_worse:.0f` % above it after ten rounds. Strata from last updates alone improve there as clients
# answer, from {glue:text}`ch9_updates_first:.2f` at first to {glue:text}`ch9_updates_last:.3f` after 100 rounds, which is still more than the sketch, {glue:text}`ch9_once_last:.3f`.
#
# ## What did the runs at one learning rate show?
#
# The main page shows strata made once. The folded table has all three ways to make least-variance strata, each against every rival, at the preprint's learning rate of 0.01 after 99 rounds:

# %% tags=["remove-input"]
races = least_variance_results.load_frames()
duels = least_variance_results.compare_with_rivals(races)
certain = duels["holm"] < 0.05
glue_values("ch9", duels=len(duels), better=int((certain & (duels["low"] > 0)).sum()))
glue_values("ch9", worse=int((certain & (duels["high"] < 0)).sum()))
fold_table(
    "Points of least-variance strata above each rival, with 95 % intervals",
    ch09.tabulate_comparisons(duels),
)

# %% [markdown]
# ```{provenance} Table
# :recorded: least-variance, preprint, fashion-mnist
# ```
#
# In the folded table, differences are on the global test set in points, paired by seed, with 95 % intervals; a star marks p below 0.05, corrected by Holm's method for all {glue:text}`ch9_duels`
# comparisons. Bytes and examples are those of strata made once, in multiples of the other method's. An accuracy is the mean of rounds 90 and 99.
# Of the comparisons {glue:text}`ch9_better` are significantly better, and {glue:text}`ch9_worse` significantly worse.
#
# ## Which settings should you choose?
#
# The plain settings are $m$ strata, made once, and draws by size.

# %% tags=["remove-cell"]
SWEEPS = ("preprint", "mnist-0.001", "mnist-iid", "fashion-mnist", "sensitivity")
grids = {name: tables.load_sweep(name) for name in SWEEPS}
main = grids["preprint"].where(partition="dirichlet")
positive_sizes = records.load_partitions("results")["dirichlet"].sum(1)
positive_sizes = positive_sizes[positive_sizes > 0]
glue_values("ch9", gain_written=ch09.format_gain(main, other="fedstas"))
glue_values("ch9", gain_weights=ch09.format_gain(main, other="fedstas-unbiased-dp"))
# by the part of the corrected method that is exchanged; each pair differs in the weights alone
parts = ch05.name_parts(tables.load_sweep("ablation").frame)
by_norm, plain = "every client counts the same", "plain weights, p uniform, Neyman"
for key, mine, other in (("estimator", "p uniform", plain), ("norm", "p by norm", by_norm)):
    glue_values("ch9", **{f"part_{key}": ch09.format_gain(parts, mine, other)})
ends = tables.paired_differences(parts, "test_accuracy", plain).loc["p uniform"]
expect("With uniform draws these weights gain", ends["low"] > 0, points=ends["difference"])
ends = tables.paired_differences(parts, "test_accuracy", by_norm).loc["p by norm"]
expect(
    "where five seeds leave open whether it is a gain",
    ends["seeds"] == 5 and ends["low"] < 0 < ends["high"],
)
ends = tables.paired_differences(main, "test_accuracy", "fedstas-unbiased-dp").loc[KMEANS]
expect("over the corrected method that knows no sizes", ends["low"] > 0, points=ends["difference"])
asked = feature_errors.summarise(feature_errors.load())
sketched = asked[asked["features"] == "64 signed sums"]
worse = asking.compute_asking_numbers(asked)["sketch_worse"]
expect(
    "strata of sketches err less than 9 % more",
    sketched["setting"].nunique() == 6 and (sketched["bytes_up"] == 256).all() and worse < 9,
    worse=worse,
)
glue_values("ch9", empty_one=100 * (0.9**positive_sizes).mean())
glue_values(
    "ch9", empty_weighted=100 * (positive_sizes / positive_sizes.sum() @ 0.9**positive_sizes)
)
glue_values("ch9", alpha_large=privacy.truth_probability(3.0, 601))
alpha3 = privacy.truth_probability(3.0, 100)
glue_values("ch9", fresh=privacy.composed_epsilon(alpha3, 100, 99))

# %% [markdown]
# | Setting | We recommend | Why |
# | --- | --- | --- |
# | weights $\omega_k$ | $n_k/n$ if the test set counts examples; $1/N$ if sizes are private | if both draw by norm, weighting by $n_k/n$ instead of $1/N$ gains {glue:text}`ch9_part_norm` points, where five seeds leave open whether it is a gain. If the corrected method also draws by size, it gains {glue:text}`ch9_gain_weights` points over the corrected method that knows no sizes ᵃ |
# | estimator | weights $\omega_k/p_t^k$ on updates | unbiased by {prf:ref}`wwi-lem-unbiased`. With uniform draws these weights gain {glue:text}`ch9_part_estimator` points on the paper's, $N_h/(N m_h)$ ({doc}`05_experiments`). The corrected method as a whole, with other draws, all of the participants' data and strata kept for ten rounds, gains {glue:text}`ch9_gain_written` points on FedSTaS as written ᵃ |
# | strata | $m$, one draw each | the best, by {prf:ref}`wwi-thm-best` |
# | draws | by size | draws by wrong norms have no bound ({prf:ref}`wwi-prp-features`). Draws by norms that are asked for anew every ten rounds have a smaller error with ten participants, {glue:text}`ch9_ten_norm:.3f` instead of {glue:text}`ch9_ten_cut:.3f` ᵇ, but a larger one with twenty in three of five settings, and all clients must be asked each time |
# | strata renewed | never | each renewal asks all clients for a gradient; with strata made anew every ten rounds the error of one round is between {glue:text}`ch9_renewed_less:.1f` % smaller and {glue:text}`ch9_renewed_more:.1f` % larger, over five settings with five, ten and twenty participants |
# | features | sketches of gradients at $\boldsymbol w_0$, 64 signed sums, the default; where no extra message can be had, another design ({doc}`10_which_design`), because last updates save no bytes that we can see ({doc}`09_what_we_would_write`) | gradients have the error {glue:text}`ch9_ten_cut:.3f`, and last updates {glue:text}`ch9_ten_from:.3f` ᵇ. In six federations with ten participants, at MD's tuned rate, strata of sketches err less than 9 % more than strata of gradients, for 256 bytes a client ({doc}`10c_first_comparison`). The folded table above shows the accuracy of strata from last updates |
# | noise in the pairs | on, where one training varies much | without it {prf:ref}`wwi-prp-noise` promises nothing. With five and ten participants it changes the error of one round by less than four per cent; with twenty from {glue:text}`ch9_noise_less:.0f` % less on CIFAR-100 to {glue:text}`ch9_noise_more:.0f` % more on Fashion-MNIST |
# | data rate $q$ | 1; less only to save computation | at $q = 0.1$, {glue:text}`ch9_empty_one:.0f` % of the clients' updates are expected to be lost, or {glue:text}`ch9_empty_weighted:.2f` % by weight ᵃ ({prf:ref}`wwi-lem-bernoulli`) |
# | private sizes | $\omega_k = 1/N$ and a fixed $q$; else one memoised report, $M$ above the largest size | a client that reports afresh in all of 99 rounds spends $\epsilon$ = {glue:text}`ch9_fresh:.0f`; at $\epsilon = 3$, $M = 601$ leaves $\alpha$ = {glue:text}`ch9_alpha_large:.3f` |
#
# ᵃ MNIST, disjoint, final accuracy on the global test set, with 95 % intervals, as in {doc}`05_experiments`. ᵇ Error of one round on MNIST, $m = 10$ ({numref}`fig-wwi-one-round`).
#
# With $\omega_k = 1/N$ every theorem holds, with uniform draws in the place of MD and the plain mean of the updates as the target. Against
# the target with $\omega_k = n_k/n$ ({eq}`wwi-eq-target`) such a round has the bias $\sum_k (\frac1N - \frac{n_k}n) \boldsymbol u_k$, which no strata remove.
#
# ## Why not the corrected method?
#
# The weights of the corrected method are right, but its strata are not. k-means does not know the sizes $n_k$, and nothing keeps its variance below MD's. {doc}`09c_corrected_lemmas` has the algorithm
# line by line. It was trained in all these federations:

# %% tags=["remove-input"]
table(ch09.tabulate_corrected_method(grids))

# %% tags=["remove-cell"]
final = ch09.compute_cifar_accuracies(tables.load_sweep("cifar100"))
glue_values("ch9", hundred_md=final["more", "md"], hundred_corrected=final["more", KMEANS])
one = error["cifar100", 10]  # a quarter of the local steps
glue_values("ch9", hundred_kmeans=one[KMEANS], hundred_cut=one[LEAST_VARIANCE_METHOD])
expect("dealt disjointly, it does not learn", final["more", KMEANS] < 2 < final["more", "md"])
expect("The error of one round may be the reason", one[KMEANS] > 2 > 1 > one[LEAST_VARIANCE_METHOD])
equal = tables.load_sweep("cifar100-equal").frame
glue_values("ch9", hundred_equal=ch09.format_gain(equal))
at_tenth = tables.paired_differences(equal, "test_accuracy", "md").loc[KMEANS]
learnt = tables.summarise(equal, "test_accuracy").loc[KMEANS, "mean"]
expect("With equal sizes at concentration 0.1 it learns", learnt > 5 and at_tenth["high"] < 0)

# %% tags=["remove-cell"]
around = grids["sensitivity"].frame
around = around[around["variant"] == tables.Variant.of(clients_per_round=5)]
few_gain = tables.paired_differences(around, "test_accuracy", "md").loc[KMEANS]
glue_values("ch9", gain_few=ch09.format_gain(around), few_seeds=int(few_gain["seeds"]))
expect("seeds leave its sign open", few_gain["low"] < 0 < few_gain["high"])
with_five = {place: runs for (place, m), runs in races.items() if m == 5}
against_md = {
    place: tables.paired_differences(runs, "test_accuracy", "md").loc[KMEANS]
    for place, runs in with_five.items()
}
where = "MNIST, disjoint"
lost, others = against_md[where], [x for place, x in against_md.items() if place != where]
expect("With few participants it can lose to MD", lost["high"] < 0)
expect("the intervals contain zero", all(x["low"] < 0 < x["high"] for x in others))
glue_values("ch9", gain_few_more=ch09.format_gain(with_five[where]), more_seeds=int(lost["seeds"]))
few_duel = duels.set_index(["place", "m", "variant", "rival"])
few_duel = few_duel.loc[where, 5, LEAST_VARIANCE_METHOD, KMEANS]
text = statistics.format_interval(*few_duel[["difference", "low", "high"]], ".1f")
glue_values("ch9", few_duel=text)
expect("least-variance strata end", few_duel["holm"] < 0.05 and few_duel["difference"] > 0)
few = error["mnist", 5]
shares = rounds_of[(rounds_of["setting"] == "mnist") & (rounds_of["m"] == 5)]
shares = shares.groupby("design")["largest"].mean()  # of the weights of a cohort
for key, design in (("kmeans", KMEANS), ("cut", LEAST_VARIANCE_METHOD)):
    glue_values("ch9", **{f"few_{key}": few[design], f"few_{key}_largest": 100 * shares[design]})
expect("but differ in how they share out the weight", shares[KMEANS] > 2 * shares[LEAST_VARIANCE_METHOD])  # fmt: skip
expect("The error of one round is", few[KMEANS] > 1 > 2 * few[LEAST_VARIANCE_METHOD] - 0.1)

# %% [markdown]
# ```{provenance} Table
# :recorded: preprint, mnist-0.001, mnist-iid, fashion-mnist, sensitivity
# ```
#
# The intervals are not corrected for their number.
#
# - **With few participants it can lose to MD.** With $m = 5$ on MNIST, disjoint, its gain on MD in the table is {glue:text}`ch9_gain_few` points, where {glue:text}`ch9_few_seeds` seeds leave its sign open. Over
#   the {glue:text}`ch9_more_seeds` seeds of the runs at one learning rate above it is {glue:text}`ch9_gain_few_more` points; with equal sizes and on Fashion-MNIST the intervals contain zero. On the same
#   {glue:text}`ch9_more_seeds` seeds least-variance strata end {glue:text}`ch9_few_duel` points above it. The error of one round is {glue:text}`ch9_few_kmeans:.2f` times MD's with the
#   corrected method, and {glue:text}`ch9_few_cut:.2f` times MD's with least-variance strata. Both have five strata with one draw each, but differ in how they share out the weight, at which k-means does not look:
#   the heaviest participant of a cohort counts {glue:text}`ch9_few_kmeans_largest:.0f` % on average with the corrected method, and {glue:text}`ch9_few_cut_largest:.0f` % with least-variance strata.
# - **On CIFAR-100 at concentration 0.001, dealt disjointly, it does not learn.** With twenty local steps at the learning rate 0.1, chosen for MD, it ends at {glue:text}`ch9_hundred_corrected:.1f` %, which is guessing,
#   while MD ends at {glue:text}`ch9_hundred_md:.1f` % ({doc}`05_experiments`). The error of one round may be the reason: with ten participants, and with five local steps in place of twenty, it is
#   {glue:text}`ch9_hundred_kmeans:.1f` times MD's, while least-variance strata have {glue:text}`ch9_hundred_cut:.2f` times MD's. No run here tests that. With equal sizes at concentration 0.1 it learns, though its
#   gain on MD there is {glue:text}`ch9_hundred_equal` points.
#
# ```{provenance} How the live numbers were made
# ```
