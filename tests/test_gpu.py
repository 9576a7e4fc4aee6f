"""The benchmark that compares a GPU with the CPU, and training on a stand-in that refuses what a GPU refuses."""

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

# Each kind of design, of server, and of request to clients.
METHODS = (
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
def stand_in(monkeypatch):
    """Make the stand-in the device of every run."""
    for module in (simulation, one_round, tasks):
        monkeypatch.setattr(module, "find_device", lambda name: standin.DEVICE)
    with standin.Standin():
        yield


@pytest.fixture(scope="module")
def federation(digits):
    """Return 12 clients of digits."""
    return partition.dirichlet(digits.train_y, 12, 0.1, seed=0)


def test_the_stand_in_refuses_what_a_gpu_refuses(stand_in):
    on_device, on_host = torch.ones(3).to(standin.DEVICE), torch.ones(3)
    with pytest.raises(RuntimeError, match="two devices"):
        on_device + on_host
    with pytest.raises(RuntimeError):
        on_device.numpy()
    with pytest.raises(RuntimeError):
        np.asarray(on_device)
    assert on_device.device == standin.DEVICE and (on_device + 1).cpu().tolist() == [2, 2, 2]
    assert torch.arange(3, device=standin.DEVICE)[torch.tensor([2, 0])].cpu().tolist() == [2, 0]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_gives_the_same_run_on_the_device(name, digits, federation, stand_in):
    method = methods.get(name)
    options = {"rounds": 2, "clients_per_round": 4, "seed": 1, "eval_every": 2}
    on_device = simulation.run(digits, federation, method, **options)
    simulation.find_device = lambda name: torch.device("cpu")
    on_host = simulation.run(digits, federation, method, **options)
    assert gpu.first_difference(on_host.cohorts, on_device.cohorts) is None
    np.testing.assert_allclose(on_device.params, on_host.params, rtol=0, atol=1e-5)
    assert isinstance(on_device.params, np.ndarray)


def test_a_run_on_the_device_resumes_to_the_uninterrupted_run(digits, federation, stand_in):
    options = {"clients_per_round": 4, "seed": 1, "eval_every": 2}
    uninterrupted = simulation.run(digits, federation, methods.get("fedvarp"), rounds=4, **options)
    interrupted = simulation.run(digits, federation, methods.get("fedvarp"), rounds=2, **options)
    resumed = simulation.run(
        digits, federation, methods.get("fedvarp"), rounds=4, resume=interrupted, **options
    )
    np.testing.assert_array_equal(resumed.params, uninterrupted.params)


def test_one_round_errors_are_measured_on_the_device(digits, federation, stand_in):
    state = one_round.state_after(digits, federation, rounds=1, clients_per_round=4, seed=1)
    for name in ("md", "fedstas-least-variance"):
        assert one_round.errors(state, methods.get(name), draws=10)["error"] > 0


@pytest.fixture(scope="module")
def image_and_text_tasks(digits):
    """Images for convolutions, and documents."""
    x, y = torch.rand(12, 3, 32, 32), torch.arange(12) % 10
    return replace(digits, train_x=x, train_y=y, network="convolutional"), tasks.load("topics")


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_convolutions_and_documents_train_alike_on_the_device(
    backend, image_and_text_tasks, stand_in
):
    for task in image_and_text_tasks:
        results = []
        for task_on_device in (task, task.to(standin.DEVICE)):
            assert task_on_device.device == (standin.DEVICE if results else torch.device("cpu"))
            module = task_on_device.model(0)
            data = engine.pool(
                task_on_device.train_x, task_on_device.train_y, [np.arange(5), np.arange(5, 12)]
            )
            params = torch.cat([p.detach().flatten() for p in module.parameters()])
            idx, weight = np.array([[[0, 1]], [[5, 6]]]), np.full((2, 1, 2), 0.5)
            trained = engine.local_updates(
                module, params, data, idx, weight, lr=0.1, backend=backend
            )
            gradients = torch.stack(list(engine.client_gradients(module, params, data)))
            results.append([v.cpu() for v in (trained, gradients)])
        for on_host, on_device in zip(*results, strict=True):
            torch.testing.assert_close(on_device, on_host, rtol=0, atol=1e-6)


def test_find_device_makes_cudnn_deterministic_and_disables_tf32(monkeypatch):
    cudnn = torch.backends.cudnn
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(cudnn, "allow_tf32", True)
    monkeypatch.setattr(cudnn, "deterministic", False)
    assert tasks.find_device("auto").type == "cuda"
    assert (cudnn.allow_tf32, cudnn.deterministic) == (False, True)


def run_benchmark(monkeypatch, *words: str) -> int:
    """Run `python -m benchmarks.gpu` with these arguments and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["benchmarks.gpu", *words])
    return gpu.main()


def test_without_a_gpu_the_benchmark_ends_with_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run_benchmark(monkeypatch, "--json", str(tmp_path / "gpu.json")) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert (
        "no CUDA device" in message
        and "199 rounds" in message
        and "--device cpu --quick" in message
    )
    assert not list(tmp_path.iterdir())


def test_the_benchmark_runs_on_the_cpu(monkeypatch, capsys, tmp_path):
    file = tmp_path / "gpu.json"
    monkeypatch.setattr(gpu, "METHODS", ("md", "fedstas"))
    assert run_benchmark(monkeypatch, "--device", "cpu", "--quick", "--json", str(file)) == 0
    report = json.loads(file.read_text(encoding="utf-8"))
    assert [r["method"] for r in report["checks"]] == ["md", "fedstas"]
    for r in report["checks"]:
        assert (r["cohorts_differ_in"], r["accuracy_gap"], r["parameters_gap"]) == (None, 0, 0)
        assert r["seconds_device"] > 0
    assert page.gpu_section(report) in capsys.readouterr().out


def test_another_cohort_or_accuracy_fails_the_comparison(monkeypatch):
    a, b = [np.array([1, 2]), np.array([3, 4])], [np.array([1, 2]), np.array([4, 3])]
    assert gpu.first_difference(a, a) is None and gpu.first_difference(a, b) == 2
    time_run = gpu.time_run
    digits = tasks.load("digits")

    def run_with_other_accuracy(task, method, rounds, device):
        history, seconds = time_run(task, method, rounds, "cpu")
        if device == "cuda":
            history.frame["test_accuracy"] += 0.006
        return history, seconds

    monkeypatch.setattr(gpu, "time_run", run_with_other_accuracy)
    assert not gpu.compare_with_cpu(digits, "md", 1, "cuda")["good"]
    assert gpu.compare_with_cpu(digits, "md", 1, "cpu")["good"]


def test_the_time_of_restratification_is_reported_with_its_lower_bound(monkeypatch):
    task = tasks.load("digits")
    monkeypatch.setattr(gpu, "product_rate", lambda device: 1e9)
    report = gpu.time_restratification(task, "cpu", 1)
    assert report["bound"] == (len(task.train_y) + 10 * 3 * 128) * gpu.CNN / 1e9
    assert report["seconds"] > 0


def test_the_page_shows_the_recorded_gpu_comparison(tmp_path):
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
    (tmp_path / "gpu.json").write_text(json.dumps(report), encoding="utf-8")
    text = page.text(results)
    assert "no GPU figure was taken" not in text and "## A GPU" in text
    assert "| mnist | `md` | 20 | equal | -0.12 | 4.0 | 20.0 |" in text
