"""Over messages, every method makes the run that the simulation makes."""

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

# What cannot be had of real nodes, and why.
REFUSED = {
    "centralised": "no federation",
    "target": "oracle",
    "fedstas-dp-authors-dec": "asks for true sizes",
    "stratified-labels": "do not send their label counts",
    "fed-cbs": "do not send their label counts",
    "hics-fl": "knows no last layer",
}


@pytest.mark.parametrize("name", [n for n in methods.names() if n not in REFUSED])
def test_cohorts_and_models_are_those_of_the_simulation(name, digits, federation, nodes, train):
    method = methods.get(name)
    settings = {"rounds": 10, "clients_per_round": 4, "seed": 0}
    total = int(federation.sizes.sum())
    expected = simulation.run(digits, federation, method, eval_every=10, **settings)
    params, strategy = train(nodes(method), method, total=total)
    assert [c.tolist() for c in strategy.cohorts] == [c.tolist() for c in expected.cohorts]
    np.testing.assert_allclose(params, expected.params, rtol=1e-4, atol=2e-6)
    assert not strategy.view.events


@pytest.mark.parametrize(
    "name, settings",
    [
        ("fedstas-unbiased-dp", {"n_star": 200}),
        ("fedstas-unbiased", {"rate": 0.3, "replace": False}),
        ("fedstas", {"replace": True, "n_star": 64}),
        ("fedstas-least-variance", {"draws": "norm"}),
        ("fedstas-least-variance", {"noise": True, "restratify_every": 5}),
        ("fedstas-least-variance", {"draws": "norm", "noise": True, "levels": 5}),
        ("fedstas-least-variance", {"features": "updates"}),
        ("fedstas-least-variance", {"equal_clients": True, "rate": 0.5}),
        ("optimal-client-sampling", {"approximate": 2}),
        ("k-vib", {"mix": 0.2}),
        ("cube", {"measure": "size", "restratify_every": 3}),
        ("local-pivotal", {"measure": "size-norm", "levels": 5}),
        ("power-of-choice", {"candidates": 7}),
        ("md", {"server": UpdateMemoryServer()}),
        ("poisson", {"server": UpdateMemoryServer("mifa", rate=0.5)}),
        ("fedstas-least-variance", {"server": UpdateMemoryServer()}),
        ("fedstas-unbiased-dp", {"server": UpdateMemoryServer()}),
    ],
    ids=str,
)
def test_so_do_their_settings(name, settings, digits, federation, nodes, train):
    method = methods.get(name, **settings)
    expected = simulation.run(
        digits, federation, method, rounds=12, clients_per_round=5, seed=4, eval_every=12
    )
    params, strategy = train(nodes(method, seed=4), method, rounds=12, m=5, seed=4)
    assert [c.tolist() for c in strategy.cohorts] == [c.tolist() for c in expected.cohorts]
    np.testing.assert_allclose(params, expected.params, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize(
    "name, m",
    [
        *((name, 11) for name in ("fedstas-least-variance", "poisson", "cyclic", "k-vib")),
        *((name, 14) for name in ("fedstas-least-variance", "md")),
    ],
)
def test_so_do_cohorts_of_all_clients_and_of_more_draws(name, m, digits, federation, nodes, train):
    method = methods.get(name)
    settings = {"rounds": 3, "clients_per_round": m, "seed": 1}
    expected = simulation.run(digits, federation, method, eval_every=3, **settings)
    params, strategy = train(nodes(method, seed=1), method, rounds=3, m=m, seed=1)
    assert [c.tolist() for c in strategy.cohorts] == [c.tolist() for c in expected.cohorts]
    np.testing.assert_allclose(params, expected.params, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize(
    "server, data",
    [(Average(), AllData()), (UpdateMemoryServer(), AllData()), (Adaptive(), Requested(n_star=50))],
    ids=["average", "remembering", "adaptive"],
)
def test_a_round_without_a_participant_is_one_without_an_update(
    server, data, digits, federation, nodes, train
):
    method = methods.get("poisson", server=server, data=data)
    settings = {"rounds": 6, "clients_per_round": 1, "seed": 4}
    expected = simulation.run(digits, federation, method, eval_every=6, **settings)
    empty = [t for t, c in enumerate(expected.cohorts, 1) if not len(c)]
    assert empty == [1, 2, 5]  # before the server has kept anything, and after
    grid = nodes(method, seed=4)
    params, strategy = train(grid, method, rounds=6, m=1, seed=4)
    assert [c.tolist() for c in strategy.cohorts] == [c.tolist() for c in expected.cohorts]
    np.testing.assert_allclose(params, expected.params, rtol=1e-4, atol=2e-6)
    trained = {int(w[4].metadata.group_id) for w in grid.wire if w[2] == "train"}
    assert trained == set(range(1, 7)) - set(empty)
    assert not strategy.view.events


@dataclass
class Seen:
    rounds: list[tuple[int, float]] = field(default_factory=list)
    first: np.ndarray | None = None


@config
class Turns:
    """A design of one's own: it keeps a list of its own, and asks for gradients twice, at two levels."""

    State: ClassVar[type] = Seen
    step: int = int_field(1)

    def draw(self, view, m, rng):
        seen = view.state_of(self)
        fine, coarse = view.gradients(9).norms(), view.gradients(2).norms()
        assert (fine != coarse).any()
        chosen = (np.argsort(fine - coarse)[:m] + self.step * len(seen.rounds)) % view.clients
        seen.rounds.append((view.clients, float(coarse.sum())))
        seen.first = chosen if seen.first is None else seen.first
        return Cohort(np.concatenate([chosen, seen.first[:1]]), np.full(m + 1, 1 / (m + 1)))


def test_a_design_of_ones_own_runs_as_in_the_simulation_and_goes_on(
    digits, federation, nodes, train, tmp_path
):
    method = methods.get("md", clients=Turns(step=2))
    settings = {"rounds": 4, "clients_per_round": 3, "seed": 0}
    expected = simulation.run(digits, federation, method, eval_every=4, **settings)
    state = tmp_path / "run.npz"
    train(nodes(method), method, rounds=2, m=3, state=state)
    params, strategy = train(nodes(method), method, rounds=4, m=3, state=state)
    assert [c.tolist() for c in strategy.cohorts] == [c.tolist() for c in expected.cohorts]
    np.testing.assert_allclose(params, expected.params, rtol=1e-4, atol=2e-6)
    with pytest.raises(InputError, match="of another method"):
        other = methods.get("md", clients=Turns(step=3))
        train(nodes(other), other, rounds=5, m=3, state=state)


class Wrong:
    """A design that asks for what `how` says."""

    def __init__(self, how):
        self.how = how

    def draw(self, view, m, rng):
        return self.how(view)


@pytest.mark.parametrize(
    "how, said",
    [
        (
            lambda view: Cohort(np.array([0, 99]), np.ones(2)),
            "md, clients Wrong: the cohort names client 99",
        ),
        (
            lambda view: view.centres(np.sort, 32, 9),
            "md, clients Wrong: .*test_equality.py line .*: nodes make the centres of a gradient",
        ),
        (
            lambda view: view.majority_labels,
            "md, clients Wrong: .*test_equality.py line .*: majority labels are an oracle's",
        ),
    ],
)
def test_what_is_wrong_with_a_design_is_said_with_the_name_of_its_method(how, said, nodes, train):
    method = methods.get("md", clients=Wrong(how))
    with pytest.raises(InputError, match=f"^{said}"):
        train(nodes(method), method, rounds=1)


def test_a_design_that_does_not_tell_its_settings_runs_without_a_state(nodes, train, tmp_path):
    method = methods.get("md", clients=Wrong(lambda view: Cohort(np.array([0]), np.ones(1))))
    _, strategy = train(nodes(method), method, rounds=1)
    assert [c.tolist() for c in strategy.cohorts] == [[0]]
    with pytest.raises(
        InputError, match=r"^md, clients Wrong has a part whose repr does not show its settings"
    ):
        train(nodes(method), method, rounds=1, state=tmp_path / "run.npz")


def test_a_server_that_remembers_is_refused_where_it_cannot_weigh(nodes, train):
    method = methods.get("fedstas-dp", server=UpdateMemoryServer())
    grid = nodes(method)
    with pytest.raises(InputError, match=r"^fedstas-dp: this method is private, and asks for true"):
        train(grid, method)
    assert not [w for w in grid.wire if w[2] in ("query.size", "train")]
    method = methods.get("fedsampling", epsilon=None, server=UpdateMemoryServer())
    with pytest.raises(InputError, match=r"^fedsampling: a server that remembers .* of examples"):
        train(nodes(method), method)


def test_another_way_to_the_centres_is_refused(nodes, train):
    """`processor` is of the simulation; the nodes' own way used to be taken for it, silently."""
    method = methods.get("fedsts-authors-dec", processor=1)
    with pytest.raises(InputError, match=r"^fedsts-authors-dec: nodes make the centres"):
        train(nodes(method), method, rounds=1)


@pytest.mark.parametrize("name", REFUSED)
def test_what_real_nodes_cannot_do_is_refused(name, nodes, train):
    method = methods.get(name)
    with pytest.raises(InputError, match=f"^{name}.*{REFUSED[name]}"):
        train(nodes(method), method)


def test_the_readme_names_what_is_refused_and_nothing_else():
    text = (Path(__file__).parents[2] / "examples" / "flower" / "README.md").read_text()
    first = text.split("methods are refused, each with a sentence:")[1].split(". So are", 1)[0]
    assert {n for n in methods.names() if f"`{n}`" in first} == set(REFUSED)
    assert {6: "Six"}[len(REFUSED)] + " methods are refused" in text


def test_more_participants_than_clients_are_refused(nodes, train):
    method = methods.get("fedavg")
    with pytest.raises(InputError, match="30 clients per round are more than the"):
        train(nodes(method), method, m=30)
