"""The instrument: one round's error against exact moments, and what silence and another m change."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from fedstas import methods, partition
from fedstas.errors import InputError
from fedstas.sim import one_round

SIGMAS = 6  # a right value is refused twice in 10^9


@pytest.fixture(scope="module")
def federation(digits):
    return partition.dirichlet(digits.train_y, 12, 0.2, seed=0)


@pytest.fixture(scope="module")
def state(digits, federation):
    local = methods.LocalSGD(steps=2, batch=16, lr=0.1)
    return one_round.state_after(digits, federation, local=local, clients_per_round=3, device="cpu")


def test_of_md_is_the_error_of_all_cohorts(state):
    # Over all N^2 ordered cohorts of two: squared distance of the mean update, plus what noise adds.
    omega, gram, noise = state.omega, state.gram, state.noise
    exact = 0.0
    for cohort in product(range(len(omega)), repeat=2):
        off = np.bincount(cohort, minlength=len(omega)) / 2 - omega
        added = sum(noise[k] for k in cohort) / 4  # one drawn twice trains twice
        exact += np.prod(omega[list(cohort)]) * (off @ gram @ off + added)
    assert state.with_m(2).of_md == pytest.approx(exact, rel=1e-10)


def test_the_errors_of_md_and_of_a_cut_are_their_exact_ones(state):
    md = one_round.errors(state, methods.get("md"), draws=4000)
    assert abs(md["error"] - 1) < SIGMAS * md["se"]
    cut = methods.get("fedstas-least-variance")
    told = one_round.errors(state, cut, draws=4000)
    labels, q, _ = cut.clients.strata(one_round.view_at(state, cut.clients), 3)
    exact, of_noise = one_round.stratified_error(state, labels, q)
    assert abs(told["error"] - exact) < SIGMAS * told["se"]
    assert 0 < of_noise < exact
    assert told["megabytes"] > md["megabytes"]  # it asked all clients for a gradient


def test_what_a_biased_design_misses_is_its_bias(state):
    # DivFL leaves no chance: all of its error but the noise of the clients is bias.
    told = one_round.errors(state, methods.get("divfl"), draws=2)
    drawn = methods.get("divfl").clients.draw(
        one_round.view_at(state, methods.get("divfl").clients), 3, np.random.default_rng(0)
    )
    weights = np.bincount(drawn.clients, drawn.weights, minlength=len(state.omega))
    off = weights - state.omega
    assert told["bias"] ** 2 == pytest.approx(off @ state.gram @ off / state.md_error, rel=1e-9)
    noise = weights**2 @ state.noise / state.md_error
    assert told["error"] == pytest.approx(told["bias"] ** 2 + noise, rel=1e-9)


def test_silence_shrinks_the_round_and_the_remedy_mends_the_bias_alone(state):
    # With all clients in the cohort (m = N) only silence is left: its exact error, with and without remedy.
    every = state.with_m(len(state.omega))
    drop, omega = 0.25, every.omega
    told = one_round.errors(every, methods.get("fedstas-least-variance"), draws=8000, drop=drop)
    full, own = omega @ every.gram @ omega, omega**2 @ every.gram.diagonal()
    noise = omega**2 @ every.noise
    spread = drop * (1 - drop) * own + (1 - drop) * noise
    exact = (drop**2 * full + spread) / every.of_md
    assert abs(told["error"] - exact) < SIGMAS * told["se"]
    assert told["bias"] == pytest.approx(drop * np.sqrt(full / every.of_md), rel=0.05)
    remedied = (drop / (1 - drop) * own + noise / (1 - drop)) / every.of_md
    assert told["remedied"] == pytest.approx(remedied, rel=0.1)


def test_designs_share_answers_and_are_told_the_same(state):
    alone = replace(state, answers={})
    for name in ("fedstas-unbiased", "optimal-client-sampling", "power-of-choice"):
        method = methods.get(name)
        assert one_round.errors(state, method, draws=20) == one_round.errors(
            alone, method, draws=20
        )


def test_what_cannot_be_looked_at_is_one_sentence(digits, federation):
    with pytest.raises(InputError, match="name at least one design"):
        one_round.table(None, {})
    wild = methods.LocalSGD(steps=5, batch=16, lr=1e30)
    with pytest.raises(InputError, match="round 4 of md is not reached: the model is not finite"):
        one_round.state_after(digits, federation, rounds=3, local=wild, device="cpu")
    with pytest.raises(InputError, match="repeats is 1"):
        one_round.state_after(digits, federation, repeats=1)
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="cuda"):
            one_round.state_after(digits, federation, device="cuda")
