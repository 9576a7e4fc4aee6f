"""The check of a GPU, and what a GPU would refuse: on the CPU, and on a stand-in that mixes nothing."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import standin
import torch

from benchmarks import gpu, page
from fedstas import methods, partition, simulation, tasks
from fedstas.sim import engine, one_round

# One of each way to use the device: the kinds of design, of servers, of what clients are asked.
EACH = (
    "fedavg",
    "fedstas",
    "fedstas-unbiased-dp",
    "fedstas-authors-dec",
    "clustered-similarity",
    "fedyogi",
    "mifa",
    "power-of-choice",
    "fedsampling",
    "centralised",
    "fedprox",
    "k-vib",
    "strat-neyman",
)


@pytest.fixture
def away(monkeypatch):
    """Every device that is asked for is the stand-in."""
    for module in (simulation, one_round, tasks):
        monkeypatch.setattr(module, "find_device", lambda name: standin.DEVICE)
    with standin.Standin():
        yield


@pytest.fixture(scope="module")
def federation(digits):
    return partition.dirichlet(digits.train_y, 12, 0.1, seed=0)


def test_the_stand_in_refuses_what_a_gpu_refuses(away):
    there, here = torch.ones(3).to(standin.DEVICE), torch.ones(3)
    with pytest.raises(RuntimeError, match="two devices"):
        there + here
    with pytest.raises(RuntimeError):
        there.numpy()
    with pytest.raises(RuntimeError):
        np.asarray(there)
    assert there.device == standin.DEVICE and (there + 1).cpu().tolist() == [2, 2, 2]
    assert torch.arange(3, device=standin.DEVICE)[torch.tensor([2, 0])].cpu().tolist() == [2, 0]


@pytest.mark.parametrize("name", EACH)
def test_a_method_runs_where_the_data_are(name, digits, federation, away):
    method = methods.get(name)
    how = {"rounds": 2, "clients_per_round": 4, "seed": 1, "eval_every": 2}
    there = simulation.run(digits, federation, method, **how)
    simulation.find_device = lambda name: torch.device("cpu")
    here = simulation.run(digits, federation, method, **how)
    assert gpu.first_difference(here.cohorts, there.cohorts) is None
    np.testing.assert_allclose(there.params, here.params, rtol=0, atol=1e-5)
    assert isinstance(there.params, np.ndarray)


def test_a_run_goes_on_where_the_data_are(digits, federation, away):
    how = {"clients_per_round": 4, "seed": 1, "eval_every": 2}
    whole = simulation.run(digits, federation, methods.get("fedvarp"), rounds=4, **how)
    half = simulation.run(digits, federation, methods.get("fedvarp"), rounds=2, **how)
    on = simulation.run(digits, federation, methods.get("fedvarp"), rounds=4, resume=half, **how)
    np.testing.assert_array_equal(on.params, whole.params)


def test_one_round_is_measured_where_the_data_are(digits, federation, away):
    state = one_round.state_after(digits, federation, rounds=1, clients_per_round=4, seed=1)
    for name in ("md", "fedstas-least-variance"):
        assert one_round.errors(state, methods.get(name), draws=10)["error"] > 0


@pytest.fixture(scope="module")
def others(digits):
    """Images for convolutions, and documents."""
    x, y = torch.rand(12, 3, 32, 32), torch.arange(12) % 10
    return replace(digits, train_x=x, train_y=y, network="convolutional"), tasks.load("topics")


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_convolutions_and_documents_train_where_the_data_are(backend, others, away):
    for task in others:
        report = []
        for one in (task, task.to(standin.DEVICE)):
            assert one.device == (standin.DEVICE if report else torch.device("cpu"))
            module = one.model(0)
            data = engine.pool(one.train_x, one.train_y, [np.arange(5), np.arange(5, 12)])
            params = torch.cat([p.detach().flatten() for p in module.parameters()])
            idx, weight = np.array([[[0, 1]], [[5, 6]]]), np.full((2, 1, 2), 0.5)
            models = engine.local_updates(
                module, params, data, idx, weight, lr=0.1, backend=backend
            )
            slopes = torch.stack(list(engine.client_gradients(module, params, data)))
            report.append([v.cpu() for v in (models, slopes)])
        for here, there in zip(*report, strict=True):
            torch.testing.assert_close(there, here, rtol=0, atol=1e-6)


def test_a_gpu_is_told_to_round_as_the_cpu_does(monkeypatch):
    cudnn = torch.backends.cudnn
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(cudnn, "allow_tf32", True)
    monkeypatch.setattr(cudnn, "deterministic", False)
    assert tasks.find_device("auto").type == "cuda"
    assert (cudnn.allow_tf32, cudnn.deterministic) == (False, True)


def called(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["benchmarks.gpu", *words])
    return gpu.main()


def test_without_a_gpu_one_line_says_what_would_be_done(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert called(monkeypatch, "--json", str(tmp_path / "gpu.json")) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no CUDA device" in said and "199 rounds" in said and "--device cpu --quick" in said
    assert not list(tmp_path.iterdir())


def test_the_check_itself_runs_on_the_cpu(monkeypatch, capsys, tmp_path):
    file = tmp_path / "gpu.json"
    monkeypatch.setattr(gpu, "METHODS", ("md", "fedstas"))
    assert called(monkeypatch, "--device", "cpu", "--quick", "--json", str(file)) == 0
    report = json.loads(file.read_text())
    assert [r["method"] for r in report["checks"]] == ["md", "fedstas"]
    for r in report["checks"]:
        assert (r["cohorts_differ_in"], r["accuracy_gap"], r["parameters_gap"]) == (None, 0, 0)
        assert r["seconds_device"] > 0
    assert page.gpu_section(report) in capsys.readouterr().out


def test_another_cohort_or_another_accuracy_fails_the_check(monkeypatch):
    a, b = [np.array([1, 2]), np.array([3, 4])], [np.array([1, 2]), np.array([4, 3])]
    assert gpu.first_difference(a, a) is None and gpu.first_difference(a, b) == 2
    real = gpu.time_run
    digits = tasks.load("digits")

    def other(task, method, rounds, device):
        history, seconds = real(task, method, rounds, "cpu")
        if device == "cuda":
            history.frame["test_accuracy"] += 0.006
        return history, seconds

    monkeypatch.setattr(gpu, "time_run", other)
    assert not gpu.compare_with_cpu(digits, "md", 1, "cuda")["good"]
    assert gpu.compare_with_cpu(digits, "md", 1, "cpu")["good"]


def test_the_long_run_is_told_with_its_bound(monkeypatch):
    task = tasks.load("digits")
    monkeypatch.setattr(gpu, "product_rate", lambda device: 1e9)
    report = gpu.time_restratification(task, "cpu", 1)
    assert report["bound"] == (len(task.train_y) + 10 * 3 * 128) * gpu.CNN / 1e9
    assert report["seconds"] > 0


def test_the_page_shows_what_a_gpu_did(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    assert "no GPU figure was taken" in page.text(results)
    check = {
        "what": "beside the CPU",
        "task": "mnist",
        "method": "md",
        "rounds": 20,
        "cohorts_differ_in": None,
        "accuracy_gap": -0.0012,
        "seconds_device": 0.004,
        "seconds_cpu": 0.02,
    }
    report = {"device": "A GPU", "cpu": "a CPU", "torch": "2", "date": "today", "checks": [check]}
    (tmp_path / "gpu.json").write_text(json.dumps(report))
    text = page.text(results)
    assert "no GPU figure was taken" not in text and "## A GPU" in text
    assert "| mnist | `md` | 20 | equal | -0.12 | 4.0 | 20.0 |" in text
