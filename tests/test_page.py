"""Algorithm 3 on one page (`examples/fedstas.py`) against the package."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fedstas import allocation, compression, methods, partition, privacy
from fedstas.client_sampling import Cohort, Stratified
from fedstas.sim import engine, models
from fedstas.sim.rng import stream
from fedstas.sim.server import Server
from fedstas.sim.simulation import draw_batches

PAGE = Path(__file__).parents[1] / "examples" / "fedstas.py"
ROUNDS = 20
LEVELS = (2, 4, 9, 32)
# Imported before the script, by its interpreter: whoever reaches for the network leaves.
NO_NETWORK = """
import os, sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        os._exit(99)

sys.addaudithook(refuse)
"""


@pytest.fixture(scope="module")
def page():
    """Import the page as a module."""
    spec = importlib.util.spec_from_file_location("page", PAGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model_and_digits(digits, federation):
    """Return the model at w_0 and the pool of digits of the clients with data."""
    shards = [federation.shards[k] for k in federation.with_data]
    return digits.model(0), engine.pool(digits.train_x, digits.train_y, shards)


@pytest.fixture(scope="module")
def model_and_mnist(real_data):
    """Return model and pool of 40 clients with one or two classes of MNIST, up to 60 images each.

    Of 60 clients the others have none.
    """
    task = real_data("mnist")
    federation = partition.dirichlet(task.train_y, 60, 0.01, seed=0)
    shards = [federation.shards[k][:60] for k in federation.with_data]
    return task.model(0), engine.pool(task.train_x, task.train_y, shards)


@pytest.fixture(params=["digits", "mnist"])
def model_and_data(request):
    """The model and client data of digits, and of MNIST where its file is available."""
    return request.getfixturevalue(
        {"digits": "model_and_digits", "mnist": "model_and_mnist"}[request.param]
    )


def client_gradients(module, data, steps=(0, 60)):
    """Return the clients' gradients at w_0 and after some steps of descent, [k N, d]."""
    w, gradients = models.flatten(module), []
    for t in range(max(steps) + 1):
        gradients_at_w = torch.stack(list(engine.client_gradients(module, w, data)))
        if t in steps:
            gradients.append(gradients_at_w.numpy())
        w = w - 0.3 * gradients_at_w.mean(0)
    return np.concatenate(gradients)


def test_the_page_needs_only_numpy_torch_and_scikit_learn():
    tree, roots = ast.parse(PAGE.read_text(encoding="utf-8")), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            roots.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Name):
            assert node.id not in ("__import__", "exec", "eval")
    assert roots - sys.stdlib_module_names == {"numpy", "torch", "sklearn"}
    assert "importlib" not in roots


def test_the_pages_squeeze_is_as_good_as_the_packages(page, model_and_data):
    """Its levels ascend, codes name the nearest level, and the squared error is at most 2 % above the package's.

    For gradients at w_0 and later in training, where they have heavier tails; a quarter of the clients, to spare time.
    """
    module, data = model_and_data
    few_clients = len(data.sizes) < 20
    rows = client_gradients(module, data, steps=(0, 60 if few_clients else 10))[::4]
    for levels in LEVELS:
        restored = compression.squeeze(rows, levels).restore().astype(float)
        for g, by_package in zip(rows, restored, strict=True):
            centres, code = page.squeeze(g, levels)
            assert len(centres) == levels and (np.diff(centres) > 0).all()
            by_page, distances = centres[code], np.abs(g[:, None] - centres)
            assert np.abs(g - by_page).max() <= distances.min(1).max()
            assert np.square(g - by_page).sum() <= 1.02 * np.square(g - by_package).sum()


def test_the_pages_squeeze_restores_few_distinct_entries_exactly(page):
    for entries in ([0.0, 1.0, 0.0, 3.0, 1.0], [2.0, 2.0], [0.0] * 9):
        X, code = page.squeeze(np.array(entries, dtype=np.float32), 9)
        assert X[code].tolist() == entries


def test_the_pages_strata_are_clear_groups_of_clients(page):
    rng = np.random.default_rng(0)
    groups = rng.integers(4, size=60)
    Z = 10 * np.eye(4)[groups] + rng.normal(size=(60, 4))
    labels = page.stratify(Z, 4, seed=0)
    assert len({*zip(groups, labels, strict=True)}) == len(np.unique(labels)) == 4


class RecordingServer(Server):
    """A server that stores the last squeezed gradients."""

    def gradients(self, levels):
        self.squeezed = super().gradients(levels)
        return self.squeezed


def test_the_page_draws_the_packages_cohorts_with_the_packages_weights(page, model_and_data):
    """`page.select` returns the clients S_t and their weights N_h / (N m_h), given the package's strata."""
    module, data = model_and_data
    of_digits = len(data.sizes) < 20  # MNIST has 40 clients
    m, strata = (9, 4) if of_digits else (15, 6)
    design, params = Stratified(strata=strata), models.flatten(module)
    server, allocations = RecordingServer(data, module, 0), []
    for t in range(1, ROUNDS + 1):
        server.begin(t, params)
        cohort = design.draw(server, m, stream(0, "clients", t))
        rng = stream(0, "clients", t)
        rng.integers(2**31)  # the seed that the package's k-means takes
        Z, labels = server.squeezed.restore(), server.state_of(design).strata.value.labels
        clients, weights = page.select(Z, labels, m, rng)
        np.testing.assert_array_equal(clients, cohort.clients)
        np.testing.assert_allclose(weights, cohort.weights, rtol=0, atol=1e-12)
        allocations.append(tuple(np.bincount(labels[clients])))
        params = params - 0.5 * torch.from_numpy((weights @ Z[clients]).astype(np.float32))
    # The rounds tried different cases: a stratum with several participants, and more than three allocations.
    assert max(map(max, allocations)) > 1
    assert len(set(allocations)) > 3


def test_the_page_allocates_like_the_package_also_in_extreme_cases(page):
    cases = [([3, 1, 5], [0, 0, 0], 6), ([2, 2, 9], [5, 0, 0], 9), ([4, 4, 4], [1, 1, 1], 7)]
    for sizes, spreads, m in cases:
        sizes, spreads = np.array(sizes), np.array(spreads, dtype=float)
        np.testing.assert_array_equal(
            page.allocate(sizes, spreads, m), allocation.neyman(sizes, spreads, m), strict=True
        )


def test_the_page_reports_sizes_and_estimates_their_total_like_the_package(page):
    sizes = np.array([0, 1, 7, 40, 98, 99, 100, 5000])
    for epsilon, cap in ((0.5, 30), (3.0, 100)):
        alpha = privacy.truth_probability(epsilon, cap)
        for seed in range(20):
            page_reports = page.report(sizes, cap, alpha, np.random.default_rng(seed))
            rng = np.random.default_rng(seed)
            package_reports = privacy.report(sizes, size_cap=cap, alpha=alpha, rng=rng)
            np.testing.assert_array_equal(page_reports, package_reports)
            total = privacy.estimate_total(package_reports, size_cap=cap, alpha=alpha)
            assert page.estimate(page_reports, cap, alpha) == pytest.approx(total, rel=1e-12)


def test_a_client_trains_like_the_engine(page, model_and_digits):
    module, data = model_and_digits
    w, count = models.flatten(module), len(data.sizes)
    method = methods.get("fedstas", steps=4, batch=16, lr=0.2)
    rates = np.linspace(0.05, 0.9, count)
    cohort = Cohort(np.arange(count), np.full(count, 1 / count))
    idx, weight, sample_sizes = draw_batches(method, data, cohort, rates, 0, 1)
    assert sample_sizes.min() < 16 < sample_sizes.max()  # samples smaller and larger than a batch
    package_updates = engine.local_updates(module, w, data, idx, weight, lr=0.2)
    for k, rate in enumerate(rates):
        rows = slice(data.offsets[k], data.offsets[k + 1])
        page_update = page.client_update(
            module, w, data.x[rows], data.y[rows], rate, stream(0, "data", 1, k), 4, 16, 0.2
        )
        np.testing.assert_allclose(page_update, package_updates[k], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("epsilon", [None, 3.0])
def test_a_round_samples_and_aggregates_as_the_algorithm_says(
    page, model_and_digits, monkeypatch, epsilon
):
    module, data = model_and_digits
    x, y = data.x.split(data.sizes.tolist()), data.y.split(data.sizes.tolist())
    select, estimate, rounds = page.select, page.estimate, []

    def record_selection(*arguments):
        rounds.append({"cohort": select(*arguments), "ratios": [], "models": []})
        return rounds[-1]["cohort"]

    def record_estimate(r, M, alpha):
        assert alpha == pytest.approx(privacy.truth_probability(epsilon, M), rel=1e-12)
        rounds[-1]["total"] = (
            estimate(r, M, alpha) if len(rounds) > 1 else -50.0
        )  # noise may make it negative
        return rounds[-1]["total"]

    def record_training(net, w, x, y, ratio, rng):
        rounds[-1]["ratios"].append(ratio)
        rounds[-1]["models"].append(w + len(y))
        return rounds[-1]["models"][-1]

    monkeypatch.setattr(page, "select", record_selection)
    monkeypatch.setattr(page, "estimate", record_estimate)
    monkeypatch.setattr(page, "client_update", record_training)
    w = torch.zeros_like(models.flatten(module))
    run = page.fedstas(module, list(zip(x, y, strict=True)), w, 8, 100, epsilon=epsilon)
    for _ in range(3):
        after = next(run)
        clients, weights = rounds[-1]["cohort"]
        assert len(set(clients.tolist())) == 8 and weights.sum() == pytest.approx(1)
        total = data.sizes[clients].sum() if epsilon is None else rounds[-1]["total"]
        assert rounds[-1]["ratios"] == pytest.approx([min(1, 100 / max(total, 8))] * 8)
        expected = weights @ torch.stack(rounds[-1]["models"]).double().numpy()
        np.testing.assert_allclose(after, expected, rtol=1e-5)


@pytest.mark.slow
def test_the_page_runs_as_a_script_and_its_accuracy_rises(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, str(PAGE)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert result.returncode == 0 and not result.stderr, result.stderr
    accuracy = [float(a) for a in re.findall(r"accuracy +([\d.]+)%", result.stdout)]
    assert len(accuracy) >= 5 and accuracy[0] < 30
    assert accuracy[-1] > 60 and np.mean(accuracy[3:]) > np.mean(accuracy[:3]) + 20
