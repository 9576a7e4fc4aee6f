"""Every method gives the same run over messages as in the simulation."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not in .venv: `make test-flower` runs this")

from fedstas import methods, simulation
from fedstas.aggregation import Adaptive, Average, UpdateMemoryServer
from fedstas.client_sampling import Cohort
from fedstas.config import config, int_field
from fedstas.data_sampling import AllData, Requested
from fedstas.errors import InputError
from fedstas.flower import Privacy, TooFew

# Methods that real nodes cannot run, and why.
REFUSED = {
    "centralised": "no federation",
    "target": "most frequent class",
    "fedstas-dp-authors-dec": "asks for true sizes",
    "hics-fl": "knows no last layer",
    "fedsts-authors-2025": "gradients of the last layer",
    "fedstas-authors-2025": "gradients of the last layer",
    "fedstas-dp-authors-2025": "gradients of the last layer",
    "scaffold": "clients keep control variates",
    "cluster-fedvarp": "clusters all clients",
    "fednova": "numbers of local steps",
}


def assert_same_run(params, strategy, expected):
    """Check that a run over messages has the cohorts and, within rounding, the parameters of the simulation's."""
    assert [c.tolist() for c in strategy.cohorts] == [c.tolist() for c in expected.cohorts]
    np.testing.assert_allclose(params, expected.params, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("name", [n for n in methods.names() if n not in REFUSED])
def test_every_method_gives_the_run_of_the_simulation(name, digits, federation, nodes, train):
    method = methods.get(name)
    settings = {"rounds": 10, "clients_per_round": 4, "seed": 0}
    total = int(federation.sizes.sum())
    expected = simulation.run(digits, federation, method, eval_every=10, **settings)
    params, strategy = train(nodes(method), method, total=total, classes=10)
    assert_same_run(params, strategy, expected)
    assert not strategy.view.events


@pytest.mark.parametrize(
    "name, settings",
    [
        ("fedstas-unbiased-dp", {"n_star": 200}),
        ("fedstas-unbiased", {"rate": 0.3, "replace": False}),
        ("fedstas", {"replace": True, "n_star": 64}),
        ("fedstas-least-variance", {"draws": "norm"}),
        ("fedstas-least-variance", {"features": "sketch+updates", "sketch_size": 16}),
        ("fedstas-least-variance", {"features": "gradients", "noise": True, "restratify_every": 5}),
        (
            "fedstas-least-variance",
            {"features": "gradients", "draws": "norm", "noise": True, "levels": 5},
        ),
        ("fedstas-least-variance", {"features": "updates"}),
        ("fedstas-least-variance", {"features": "labels"}),
        ("fedstas-least-variance", {"equal_clients": True, "rate": 0.5}),
        ("optimal-client-sampling", {"approximate": 2}),
        ("k-vib", {"mix": 0.2}),
        ("cube", {"measure": "size", "restratify_every": 3}),
        ("local-pivotal", {"measure": "size-norm", "levels": 5}),
        ("cube", {"features": "sketch", "sketch_size": 16}),
        ("local-pivotal", {"features": "sketch", "restratify_every": 0}),
        ("power-of-choice", {"candidates": 7}),
        ("md", {"server": UpdateMemoryServer()}),
        ("poisson", {"server": UpdateMemoryServer("mifa", rate=0.5)}),
        ("fedstas-least-variance", {"server": UpdateMemoryServer()}),
        ("fedstas-unbiased-dp", {"server": UpdateMemoryServer()}),
        ("md", {"epochs": 2, "batch": 32, "momentum": 0.5}),
        ("md", {"schedule": "cosine", "decay_rounds": 12}),
        ("md", {"optimizer": "adam", "epochs": 1}),
    ],
    ids=str,
)
def test_methods_with_other_settings_give_the_run_of_the_simulation(
    name, settings, digits, federation, nodes, train
):
    method = methods.get(name, **settings)
    expected = simulation.run(
        digits, federation, method, rounds=12, clients_per_round=5, seed=4, eval_every=12
    )
    params, strategy = train(nodes(method, seed=4), method, rounds=12, m=5, seed=4, classes=10)
    assert_same_run(params, strategy, expected)


def test_nodes_make_the_first_model_from_the_seed(digits, federation, nodes, train):
    """The run is the same, and in round 1 nobody downloads the model; a node with another network refuses."""
    method, sent = methods.get("fedstas-least-variance"), {}
    expected = simulation.run(digits, federation, method, rounds=3, clients_per_round=4, seed=0)
    for initial_model in ("sent", "seed"):
        grid = nodes(method)
        params, strategy = train(grid, method, rounds=3, initial_model=initial_model)
        assert_same_run(params, strategy, expected)
        assert not strategy.view.events
        first = [w for w in grid.wire if int(w.message.metadata.group_id) == 1]
        sent[initial_model] = sum("arrays" in w.message.content.array_records for w in first)
    assert sent["sent"] - sent["seed"] == 11  # one download of each client
    with pytest.raises(TooFew, match="this node's network is not the run's w_0"):
        train(nodes(method, seed=1), method, rounds=1, initial_model="seed")
    with pytest.raises(InputError, match="unknown initial_model 'file'"):
        train(nodes(method), method, initial_model="file")


def test_label_counts_are_requested_once_and_refused_by_private_nodes(nodes, train):
    method = methods.get("stratified-labels")
    grid = nodes(method)
    train(grid, method, rounds=3, classes=10)
    requests = [w for w in grid.wire if w.kind == "query.labels"]
    assert {int(w.message.metadata.group_id) for w in requests} == {1}
    with pytest.raises(InputError, match=r"how many classes there are: .* \(classes\)"):
        train(nodes(method), method)
    _, strategy = train(nodes(method), method, rounds=1, classes=3)  # goes on without such nodes
    assert "labels that are not in 0..2" in str(strategy.view.events)
    with pytest.raises(TooFew, match="label counts add up to it"):
        train(nodes(method, privacy=Privacy(1.0)), method, classes=10)
    noisy = methods.get("fedstas-least-variance", features="labels", epsilon=1.0)
    with pytest.raises(InputError, match="add no noise to their label counts"):
        train(nodes(noisy), noisy, classes=10)


@pytest.mark.parametrize(
    "name, m",
    [
        # 11 clients have data. With 14, more than there are, MD draws some twice, and the other takes all.
        *((name, 11) for name in ("fedstas-least-variance", "poisson", "cyclic", "k-vib")),
        *((name, 14) for name in ("fedstas-least-variance", "md")),
    ],
)
def test_cohorts_of_all_clients_and_of_more_draws_give_the_run_of_the_simulation(
    name, m, digits, federation, nodes, train
):
    method = methods.get(name)
    settings = {"rounds": 3, "clients_per_round": m, "seed": 1}
    expected = simulation.run(digits, federation, method, eval_every=3, **settings)
    params, strategy = train(nodes(method, seed=1), method, rounds=3, m=m, seed=1)
    assert_same_run(params, strategy, expected)


@pytest.mark.parametrize(
    "server, data",
    [(Average(), AllData()), (UpdateMemoryServer(), AllData()), (Adaptive(), Requested(n_star=50))],
    ids=["average", "remembering", "adaptive"],
)
def test_a_round_without_participants_leaves_the_model_unchanged(
    server, data, digits, federation, nodes, train
):
    method = methods.get("poisson", server=server, data=data)
    settings = {"rounds": 6, "clients_per_round": 1, "seed": 4}
    expected = simulation.run(digits, federation, method, eval_every=6, **settings)
    empty = [t for t, c in enumerate(expected.cohorts, 1) if not len(c)]
    assert empty == [1, 2, 5]  # with and without updates in the server's memory
    grid = nodes(method, seed=4)
    params, strategy = train(grid, method, rounds=6, m=1, seed=4)
    assert_same_run(params, strategy, expected)
    trained = {int(w.message.metadata.group_id) for w in grid.wire if w.kind == "train"}
    assert trained == set(range(1, 7)) - set(empty)
    assert not strategy.view.events


@dataclass
class RoundsAndFirstCohort:
    """What `GradientsTwice` remembers: clients and a sum by round, and its first choice."""

    rounds: list[tuple[int, float]] = field(default_factory=list)
    first: np.ndarray | None = None


@config
class GradientsTwice:
    """A user's design with a state; it asks for gradients twice a round, with 9 and with 2 levels.

    Its rule has no meaning: the cohort depends on both answers, on the rounds so far and on the first cohort, so that
    a run differs if one of them is lost or mixed up. One client of the first cohort takes part in every round, and may
    do so twice.
    """

    State: ClassVar[type] = RoundsAndFirstCohort
    step: int = int_field(1)

    def draw(self, view, m, rng):
        state = view.state_of(self)
        fine, coarse = view.gradients(9).norms(), view.gradients(2).norms()
        assert (fine != coarse).any()
        chosen = (np.argsort(fine - coarse)[:m] + self.step * len(state.rounds)) % view.clients
        state.rounds.append((view.clients, float(coarse.sum())))
        state.first = chosen if state.first is None else state.first
        return Cohort(np.concatenate([chosen, state.first[:1]]), np.full(m + 1, 1 / (m + 1)))


def test_a_users_design_gives_the_run_of_the_simulation_and_resumes(
    digits, federation, nodes, train, tmp_path
):
    method = methods.get("md", clients=GradientsTwice(step=2))
    settings = {"rounds": 4, "clients_per_round": 3, "seed": 0}
    expected = simulation.run(digits, federation, method, eval_every=4, **settings)
    state = tmp_path / "run.npz"
    train(nodes(method), method, rounds=2, m=3, state=state)
    params, strategy = train(nodes(method), method, rounds=4, m=3, state=state)
    assert_same_run(params, strategy, expected)
    with pytest.raises(InputError, match="of another method"):
        other = methods.get("md", clients=GradientsTwice(step=3))
        train(nodes(other), other, rounds=5, m=3, state=state)


class Misbehaving:
    """A design whose cohort is what the function `ask` returns, given the view.

    It has no `__repr__`: Python's default shows an address instead of the settings.
    """

    def __init__(self, ask):
        self.ask = ask

    def draw(self, view, m, rng):
        return self.ask(view)


@pytest.mark.parametrize(
    "ask, message",
    [
        (
            lambda view: Cohort(np.array([0, 99]), np.ones(2)),
            "md, clients Misbehaving: the cohort names client 99",
        ),
        (
            lambda view: view.centres(np.sort, 32, 9),
            "md, clients Misbehaving: .*test_equality.py line .*: nodes make the centres of a gradient",
        ),
        (
            lambda view: view.majority_labels,
            "md, clients Misbehaving: .*test_equality.py line .*: this method needs every client's most frequent class",
        ),
    ],
)
def test_the_error_of_a_wrong_design_names_its_method(ask, message, nodes, train):
    method = methods.get("md", clients=Misbehaving(ask))
    with pytest.raises(InputError, match=f"^{message}"):
        train(nodes(method), method, rounds=1)


def test_a_design_whose_repr_hides_its_settings_runs_but_cannot_be_saved(nodes, train, tmp_path):
    method = methods.get("md", clients=Misbehaving(lambda view: Cohort(np.array([0]), np.ones(1))))
    _, strategy = train(nodes(method), method, rounds=1)
    assert [c.tolist() for c in strategy.cohorts] == [[0]]
    with pytest.raises(
        InputError,
        match=r"^md, clients Misbehaving has a part whose repr does not show its settings",
    ):
        train(nodes(method), method, rounds=1, state=tmp_path / "run.npz")


def test_a_server_with_update_memory_asks_no_private_client_for_its_size(nodes, train):
    """Beside strata that count clients alike it does so, too; beside FedSampling it cannot know the weights."""
    method = methods.get("fedstas-dp", server=UpdateMemoryServer())
    grid = nodes(method)
    train(grid, method)
    kinds = {w.kind for w in grid.wire}
    assert "train" in kinds and "query.size" not in kinds
    method = methods.get("fedsampling", epsilon=None, server=UpdateMemoryServer())
    with pytest.raises(InputError, match=r"^fedsampling: a server that remembers .* of examples"):
        train(nodes(method), method)


def test_k_means_that_only_the_simulation_has_is_refused(nodes, train):
    """A method whose k-means runs for `processor` 1, as its authors' did, needs an option that nodes do not have."""
    method = methods.get("fedsts-authors-dec", processor=1)
    with pytest.raises(InputError, match=r"^fedsts-authors-dec: nodes make the centres"):
        train(nodes(method), method, rounds=1)


@pytest.mark.parametrize("name", REFUSED)
def test_a_method_that_real_nodes_cannot_run_is_refused(name, nodes, train):
    method = methods.get(name)
    with pytest.raises(InputError, match=f"^{name}.*{REFUSED[name]}"):
        train(nodes(method), method)


def test_the_readme_names_exactly_the_methods_that_are_refused():
    text = (Path(__file__).parents[2] / "examples" / "flower" / "README.md").read_text(
        encoding="utf-8"
    )
    first = text.split("methods are refused, each with a sentence:")[1].split(". So are", 1)[0]
    assert {n for n in methods.names() if f"`{n}`" in first} == set(REFUSED)
    assert {10: "Ten"}[len(REFUSED)] + " methods are refused" in text


def test_more_participants_than_clients_are_refused(nodes, train):
    method = methods.get("fedavg")
    with pytest.raises(InputError, match="30 clients per round are more than the"):
        train(nodes(method), method, m=30)
