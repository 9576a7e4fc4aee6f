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
# # Theory, executed
#
# ```{at-a-glance}
# :needs: averages and variances; the method as chapters 1 to 3 tell it
# ```
#
# At the end you will know
# - which of the papers' lemmas, theorems and equations hold as printed, which on a condition, and which fail;
# - one number of each part, small enough to be checked by hand or by simulation;
# - which part to open for the proof, the counterexample and the corrected statement.

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of every random draw
device: str = "auto"  # auto, cpu or cuda
clients: int = None  # number of clients, N
clients_per_round: int = None  # participants of a round, m
size_cap: int = None  # reported sizes are below it, M
epsilon: float = None  # privacy of one size report
repeats: int = None  # simulated rounds

# %% tags=["hide-input"]
from fractions import Fraction as Q

import numpy as np

from companion import ch04, chapters, ledger
from companion.pages.prose import expect, glue_values
from fedstas import clustered, privacy, theory
from fedstas.sim.rng import stream

s = chapters.settings("04_theory", globals())

# %% [markdown]
# ## Which statements hold?
#
# Of the {glue:text}`ch4_claims` statements that calculation alone can decide, {glue:text}`ch4_count_holds` hold,
# {glue:text}`ch4_count_holds_if` hold on a condition, and {glue:text}`ch4_count_fails` fail. Four texts make them: the preprint, the journal
# version, FedSampling's slides and the paper on clustered sampling. Some repeat each other, so there are {glue:text}`ch4_facts` facts. Each fact became a function, exact in rational numbers where a case is small. The words below were
# computed by these functions while this page was made.
#
# *Fails* is a word about a sentence, under the assumptions printed with it. It does not say that the method is of no use. Beside each one
# stands the version that is true, and {doc}`09_what_we_would_write` has them all in one place.

# %%
# this chapter's
claims = [claim for claim in ledger.all_claims() if claim.chapter.startswith("04")]
decided = ledger.as_frame(ledger.decide_all(claims))
verdicts = decided.set_index("id")["verdict"]
facts = decided["fact"].fillna(decided["id"]).nunique()

# %% tags=["remove-input"]
glue_values(
    "ch4", claims=len(decided), facts=facts, verdict_lemma1=str(verdicts["journal-lemma-1"])
)
for word in ("holds", "holds-if", "fails"):
    glue_values("ch4", **{f"count_{word.replace('-', '_')}": int((verdicts == word).sum())})
expect("Lemma 1 fails", verdicts["journal-lemma-1"] == "fails")
ch04.list_statements(decided)

# %% [markdown]
# {doc}`/ledger` has the reasons, and all claims that need runs as well. In a terminal `fedstas claims ID` computes one of them again
# and shows its evidence.
#
# ## Which part to read?
#
# The one whose question you have. Each reads in ten minutes, in any order, and ends with exercises that check themselves.
#
# | part | question | journal |
# | --- | --- | --- |
# | [](04a_unbiasedness.ipynb) | Does the cohort's mean aim at the right model? | eq. 2.4, Lemma 1 |
# | [](04b_variance.ipynb) | Which design is less noisy, and who may say so? | eq. 3.5, Theorem 1 |
# | [](04c_size_estimator.ipynb) | How well can a private total be known? | eq. 5.7, Lemma 2 |
# | [](04d_covariance.ipynb) | What does sampling examples do to a gradient? | Lemmas 3 and 4, Theorem 3 |
# | [](04e_privacy.ipynb) | What does $\epsilon = 3$ promise, and for how long? | Lemma 5 |
# | [](04f_convergence.ipynb) | Where does a biased design lead? | Theorem 2 |
# | [](04g_clustered.ipynb) | Do the theorems of clustered sampling hold? | its Sections 3 to 5 |
#
# ## What is the one number of each part?
#
# The table at the end of this section has them. Most can be checked by hand: three clients for 4a, three strata for 4b, two gradients for 4d.

# %%
updates, norms = (1, 2, 6), (1, 2, 3)  # 4a: two draws by norm
plain = theory.design_moments("plain-wr", updates, norms, 2)[0]
repaired = theory.design_moments("hansen-hurwitz", updates, norms, 2)[0]
target = Q(sum(updates), 3)

# 4b: ten seats by standard deviations, variances, sizes alone
N_h, S_h = (50, 30, 20), (2, 4, 6)
measures = S_h, [x**2 for x in S_h], (1, 1, 1)
seats = [theory.neyman_printed(N_h, measure, 10) for measure in measures]
variances = [theory.allocation_variance(N_h, S_h, m_h) for m_h in seats]
by_deviation, by_variance, by_size = variances

pair = [[Q(1)], [Q(-1)]]  # 4d: the only two gradients, and both are used
simple = Q(theory.srs_covariance(pair, 2)[0, 0])
printed = Q(theory.paper_lemma4(pair, 12, 4, 2)[0, 0])

# %% [markdown]
# For 4c the law of the estimated total, at the paper's scale and without approximation. A participant holds 600 examples. It answers with $\min(600, M - 1)$ with
# probability $\alpha$, and otherwise with anything in $1, \dots, M-1$. The server adds the $m$ answers and inverts the mean (eq. 5.7).

# %%
SIZE, M, m = 600, s.size_cap, s.clients_per_round
alpha = privacy.truth_probability(s.epsilon, M)
# the chances of the answers 1 to M − 1
one = np.full(M - 1, (1 - alpha) / (M - 1))
one[min(SIZE, M - 1) - 1] += alpha
law = np.ones(1)
for _ in range(m):
    law = np.convolve(law, one)  # of the sum of one more answer
estimate = (np.arange(m, m * (M - 1) + 1) - m * (1 - alpha) * M / 2) / alpha

mean = estimate @ law
sd = np.sqrt((estimate - mean) ** 2 @ law)
below = law[estimate <= 0].sum()
values, chances = theory.size_estimator_distribution(np.full(m, SIZE), M, alpha)
np.testing.assert_allclose(values @ chances, mean)

# %%
rng = stream(s.seed, "chapter 4, the paper's scale")
estimates, sizes = np.empty(s.repeats), np.full(s.clients, SIZE)
for i in range(s.repeats):
    cohort = rng.choice(s.clients, m, replace=False)
    reports = privacy.report(sizes[cohort], size_cap=M, alpha=alpha, rng=rng)
    estimates[i] = privacy.estimate_total(reports, size_cap=M, alpha=alpha)
# in standard errors
error = abs(estimates.mean() - mean) / sd * np.sqrt(s.repeats)

# %% [markdown]
# The other three: what 99 reports of one client cost, where rounds drawn by norm end, and how often the two forms of an algorithm do what they should.

# %%
# 4e: fresh reports of one client
composed = privacy.composed_epsilon(alpha, M, 99)
relaxed = privacy.composed_epsilon(alpha, M, 99, 1e-5)

centres, w = np.array([0.0, 0.0, 1.0]), 0.9  # 4f: parabolas around 0, 0 and 1
for _ in range(5000):
    g = w - centres
    # the expected step, drawn by norm
    w -= 0.01 * (np.abs(g) @ g) / np.abs(g).sum()

draws, right = stream(s.seed, "chapter 4, Algorithm 1"), np.zeros(2, int)  # 4g
for _ in range(300):
    n = np.sort(draws.integers(1, 10, draws.integers(2, 7)))[::-1].tolist()
    seats = int(draws.integers(1, len(n) + 1))
    both = (
        theory.printed_algorithm_1(n, seats),
        clustered.counts_by_size(n, seats).tolist(),
    )
    right += [bool(theory.satisfies_proposition_1(counts, n, seats)) for counts in both]

# %% tags=["remove-input"]
glue_values("ch4", plain=plain, target=target, simple=simple, lemma4=printed)
glue_values("ch4", deviation=by_deviation, variance=by_variance, w=w, truth=m * SIZE)
glue_values("ch4", mean=mean, sd=sd, below=100 * below, spent=composed, relaxed=relaxed)
glue_values("ch4", epsilon=float(s.epsilon), printed=right[0], drawn=right[1], m=m)
glue_values("ch4", N=s.clients, M=M, simulated=f"{s.repeats:,}", error=error)
expect("the repaired one hits the target", plain != target == repaired)
expect("no better than by sizes alone", by_variance == by_size > by_deviation)
expect("Every size is cut", SIZE > M - 1, size_cap=M)
expect("simulated rounds agrees", error < 5, standard_errors=error)
expect("calls that smaller", printed > simple)
expect("the rounds end at", abs(w - 1 / 3) > 0.05, end=w)

# %% [markdown]
# | part | the number |
# | --- | --- |
# | 4a | Three updates 1, 2, 6 with norms 1, 2, 3, two drawn. The plain mean expects {glue:text}`ch4_plain`, and the repaired one hits the target, {glue:text}`ch4_target`. |
# | 4b | Strata of 50, 30, 20 clients with spreads 2, 4, 6, ten seats. The variance is {glue:text}`ch4_deviation` by standard deviations. By variances, as the text says, it is {glue:text}`ch4_variance`, no better than by sizes alone. |
# | 4c | The estimate of {glue:text}`ch4_truth` examples is {glue:text}`ch4_mean:.0f` on average, with a standard deviation of {glue:text}`ch4_sd:.0f`. |
# | 4d | Gradients +1 and −1, both used; $n = 12$, $n^* = 4$. Simple random sampling has the variance {glue:text}`ch4_simple`. Eq. 6.11 says {glue:text}`ch4_lemma4`, and Theorem 3 calls that smaller. |
# | 4e | One report costs {glue:text}`ch4_epsilon:g`. 99 fresh ones cost {glue:text}`ch4_spent:.0f`, or {glue:text}`ch4_relaxed:.1f` at $\delta = 10^{-5}$. One that is remembered costs {glue:text}`ch4_epsilon:g`. |
# | 4f | Three parabolas around 0, 0, 1. Drawn by norm, the rounds end at {glue:text}`ch4_w:.4f`; the optimum is 0.3333. |
# | 4g | Clustered sampling's Algorithm 1 satisfies its Proposition 1 in {glue:text}`ch4_printed` of 300 federations as printed, and in {glue:text}`ch4_drawn` as drawn in Fig. 3. |
#
# ```{provenance} How this page was made
# ```
#
# Data sampling and its privacy rest on the size estimate. Here $N$ = {glue:text}`ch4_N`, $m$ = {glue:text}`ch4_m` and
# $M$ = {glue:text}`ch4_M`. Every size is cut to $M - 1$. In {glue:text}`ch4_below:.1f` % of rounds the estimate is not positive, and then
# $p = n^*/\tilde n$ is no probability. The mean of {glue:text}`ch4_simulated` simulated rounds agrees, within {glue:text}`ch4_error:.1f` standard errors.
# {doc}`04c_size_estimator` goes on from here.
#
# ## What we learned
#
# - Of {glue:text}`ch4_claims` statements {glue:text}`ch4_count_fails` have a counterexample. The others hold, many on a condition.
# - Lemma 1 fails; dividing each update by its selection probability repairs it.
# - At the paper's numbers the private total is {glue:text}`ch4_mean:.0f` on average, with a standard deviation of {glue:text}`ch4_sd:.0f`, where
#   {glue:text}`ch4_truth` is true.
#
# ## Exercises
#
# The exercises stand in the parts; `from companion import check; check.names()` lists all of them, and
# `check.answer("part/name", mine)` says which input breaks an answer.
#
# ## Further reading
#
# The journal version's Section 6 {cite:p}`slessor2025fedstas`, FedSTS {cite:p}`gao2025fedsts`, on which its client sampling
# rests, and {cite:t}`fraboni2021clustered`.
