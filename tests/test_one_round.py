"""The error of one round against exact moments: of MD sampling, strata, a biased design, dropped clients."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from fedstas import methods, partition
from fedstas.client_sampling import draw_cohort
from fedstas.data_sampling import FixedRate, Optimal, Requested
from fedstas.errors import Diverged, InputError
from fedstas.sim import one_round

SIGMAS = 6  # standard errors: a right value is refused twice in 10^9 tests


@pytest.fixture(scope="module")
def federation(digits):
    """Twelve clients of digits with few classes each."""
    return partition.dirichlet(digits.train_y, 12, 0.2, seed=0)


@pytest.fixture(scope="module")
def state(digits, federation):
    """The state after some rounds of training, three clients in each."""
    local = methods.LocalSGD(steps=2, batch=16, lr=0.1)
    return one_round.state_after(digits, federation, local=local, clients_per_round=3, device="cpu")


def test_the_error_of_md_agrees_with_enumerating_all_cohorts(state):
    # Over all N^2 ordered cohorts of two: squared distance of the mean update, plus what noise adds.
    omega, gram, noise = state.omega, state.gram, state.noise
    exact = 0.0
    for cohort in product(range(len(omega)), repeat=2):
        deviation = np.bincount(cohort, minlength=len(omega)) / 2 - omega
        noise_of_cohort = sum(noise[k] for k in cohort) / 4  # one drawn twice trains twice
        exact += np.prod(omega[list(cohort)]) * (deviation @ gram @ deviation + noise_of_cohort)
    assert state.with_m(2).md_error == pytest.approx(exact, rel=1e-10)


def test_simulated_errors_of_md_and_least_variance_strata_agree_with_the_exact_ones(state):
    md = one_round.errors(state, methods.get("md"), draws=4000)
    assert abs(md["error"] - 1) < SIGMAS * md["se"]
    strata = methods.get("fedstas-least-variance")
    simulated = one_round.errors(state, strata, draws=4000)
    labels, q, _ = strata.clients.strata(one_round.view_at(state, strata.clients), 3)
    exact, noise_share = one_round.stratified_error(state, labels, q)
    assert abs(simulated["error"] - exact) < SIGMAS * simulated["se"]
    assert 0 < noise_share < exact
    assert simulated["megabytes"] > md["megabytes"]  # it asked all clients for a gradient


def test_the_error_of_a_deterministic_design_is_its_bias_and_client_noise(state):
    # DivFL is deterministic: all of its error but the noise of the clients is bias.
    result = one_round.errors(state, methods.get("divfl"), draws=2)
    cohort = methods.get("divfl").clients.draw(
        one_round.view_at(state, methods.get("divfl").clients), 3, np.random.default_rng(0)
    )
    weights = np.bincount(cohort.clients, cohort.weights, minlength=len(state.omega))
    difference = weights - state.omega
    assert result["bias"] ** 2 == pytest.approx(
        difference @ state.gram @ difference / state.md_error, rel=1e-9
    )
    noise = weights**2 @ state.noise / state.md_error
    assert result["error"] == pytest.approx(result["bias"] ** 2 + noise, rel=1e-9)


def test_dropped_clients_shrink_the_update_and_the_remedy_removes_only_the_bias(state):
    # With all clients in the cohort (m = N) only dropped clients cause an error: exact, with and without the remedy.
    everyone = state.with_m(len(state.omega))
    drop, omega = 0.25, everyone.omega
    result = one_round.errors(
        everyone, methods.get("fedstas-least-variance"), draws=8000, drop=drop
    )
    full_update, squared_norms = omega @ everyone.gram @ omega, omega**2 @ everyone.gram.diagonal()
    noise = omega**2 @ everyone.noise
    spread = drop * (1 - drop) * squared_norms + (1 - drop) * noise
    exact = (drop**2 * full_update + spread) / everyone.md_error
    assert abs(result["error"] - exact) < SIGMAS * result["se"]
    assert result["bias"] == pytest.approx(
        drop * np.sqrt(full_update / everyone.md_error), rel=0.05
    )
    remedied = (drop / (1 - drop) * squared_norms + noise / (1 - drop)) / everyone.md_error
    assert result["remedied"] == pytest.approx(remedied, rel=0.1)


def test_fedstas_draws_the_clients_of_fedsts_with_their_weights(state):
    sampled = methods.get("fedstas", n_star=20)
    cohorts = []
    for method in (methods.get("fedsts"), sampled):
        server = one_round.view_at(state, method.clients)
        rngs = (np.random.default_rng(i) for i in range(20))
        cohorts.append([draw_cohort(method.clients, server, 4, rng) for rng in rngs])
    for of_fedsts, of_fedstas in zip(*cohorts, strict=True):
        assert of_fedsts.clients.tolist() == of_fedstas.clients.tolist()
        assert of_fedsts.weights.tolist() == of_fedstas.weights.tolist()
    errors = [one_round.errors(state, m, draws=50) for m in (methods.get("fedsts"), sampled)]
    assert errors[0]["error"] == errors[1]["error"] and errors[0]["bias"] == errors[1]["bias"]
    assert errors[0]["examples"] > errors[1]["examples"]


def test_with_other_participants_a_design_forgets_its_strata(digits, federation):
    method = methods.get("fedstas-least-variance")
    run = {"method": method, "rounds": 2, "clients_per_round": 6, "device": "cpu"}
    state = one_round.state_after(digits, federation, **run)
    assert one_round.errors(state, method, draws=4)["effective"] > 3
    fewer = one_round.errors(state.with_m(3), method, draws=4)
    assert 1 < fewer["effective"] <= 3  # three draws, from three strata
    assert state.with_m(6) is state


def test_stored_client_answers_do_not_change_the_error_of_a_design(state):
    without_answers = replace(state, answers={})
    for name in ("fedstas-unbiased", "optimal-client-sampling", "power-of-choice"):
        method = methods.get(name)
        assert one_round.errors(state, method, draws=20) == one_round.errors(
            without_answers, method, draws=20
        )


def test_private_reports_are_drawn_anew_for_each_cohort_unless_they_are_memoised(state):
    """Else one error of the estimated total would stand for all cohorts, and count as bias."""
    method = methods.get("fedsampling", epsilon=1.0, size_cap=40)
    server = one_round.view_at(state, method.clients)
    everyone = np.arange(len(state.omega))

    def estimates(memoised: bool) -> int:
        """Return how many different vectors of reports twenty cohorts get."""
        terms = {"size_cap": 40, "alpha": 0.5, "memoised": memoised}
        vectors = set()
        for server.cohort in range(20):
            vectors.add(tuple(server.reports(everyone, **terms)))
        return len(vectors)

    assert estimates(memoised=True) == 1 and estimates(memoised=False) == 20
    assert server.round == state.round


def test_cohorts_of_nobody_and_of_no_example_have_an_error(state):
    one = state.with_m(1)  # of Poisson sampling some cohorts are empty
    for data in (Requested(epsilon=3.0), Optimal(), FixedRate(0.5)):
        method = methods.get("poisson", data=data)
        assert np.isfinite(list(one_round.errors(one, method, draws=40).values())).all()
    few = methods.get("fedsampling", share=0.002, epsilon=None)  # of some 400 examples
    assert np.isfinite(list(one_round.errors(state, few, draws=40).values())).all()


def test_examples_are_averaged_over_different_samples(state, monkeypatch):
    places = []
    draw_batches = one_round.simulation.draw_batches

    def record_places(*arguments):
        places.append(tuple(arguments[-1]))
        return draw_batches(*arguments)

    monkeypatch.setattr(one_round.simulation, "draw_batches", record_places)
    one_round.errors(state, methods.get("md"), draws=one_round.TRAINED_COHORTS)
    flat = [place for cohort in places for place in cohort]
    assert len(places) == one_round.TRAINED_COHORTS and len(set(flat)) == len(flat)


def test_answers_at_a_model_that_is_not_finite_end_the_run(state):
    lost = replace(state, params=torch.full_like(state.params, torch.nan), answers={})
    server = one_round.view_at(lost, methods.get("md").clients)
    with pytest.raises(Diverged, match="a client's gradient spread is not finite"):
        server.gradient_spreads([0, 1])
    with pytest.raises(Diverged, match="a client's gradient is not finite"):
        server.centres(lambda gradient: gradient[:2], 16, 2)


def test_bad_input_is_refused_in_one_sentence(digits, federation, state):
    with pytest.raises(InputError, match="centralised pools all data, so a round of it has no co"):
        one_round.errors(state, methods.get("centralised"))
    with pytest.raises(InputError, match="centralised pools all data"):
        one_round.state_after(digits, federation, method="centralised")
    with pytest.raises(InputError, match="name at least one design"):
        one_round.table(None, {})
    diverging = methods.LocalSGD(steps=5, batch=16, lr=1e30)
    with pytest.raises(InputError, match="round 4 of md is not reached: the model is not finite"):
        one_round.state_after(digits, federation, rounds=3, local=diverging, device="cpu")
    with pytest.raises(InputError, match="repeats is 1"):
        one_round.state_after(digits, federation, repeats=1)
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="cuda"):
            one_round.state_after(digits, federation, device="cuda")
