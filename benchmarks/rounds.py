"""`round-mnist`, `round-cifar`: local training of a cohort of 10, 3 steps of 128. `gradients`: the
gradient of every client at the same weights. And both for 100 tiny clients."""

from __future__ import annotations

import torch

from benchmarks import loops
from benchmarks.timing import check, matmul_rate, ratios
from benchmarks.workloads import Problem, problem
from fedstas.sim import engine

# Multiply-adds of one image: forward, and backward to the weights and, but for the first layer, to the input.
PERCEPTRON = 2 * 784 * 50 + 3 * 50 * 10
CNN = 2 * 30**2 * 32 * 27 + 3 * (13**2 * 64 * 288 + 4**2 * 64 * 576 + 1024 * 64 + 640)


def one_round(name: str, p: Problem, repeats: int, note: str = "", with_plain: bool = True) -> list:
    """Time the engine against both loops, after a check that all three agree."""
    others = {"plain": loops.plain(p)} if with_plain else {}
    others["lean"] = loops.lean(p)
    result = p.ours()
    for against, call in others.items():
        check(f"{name} against {against}", result, call(), 1e-5)
    m, steps, batch = p.idx.shape
    work = m * steps * batch * (PERCEPTRON if "perceptron" in p.what else CNN)
    what = f"{p.what}, cohort {m}, {steps} steps of {batch}{note}"
    limit = work / matmul_rate()
    rows = ratios(name, p.ours, others, repeats, what)
    return [r | {"share_of_matmul": limit / r["seconds"]} for r in rows]


def round_mnist(quick: bool) -> list[dict]:
    """Time the MNIST perceptron; and all of 100 clients of 6 and of 60 examples, against `lean`."""
    results = one_round("round-mnist", problem("mnist"), 5 if quick else 40)
    for size in (6, 60):
        tiny = problem("mnist", size=size, m=100)
        results += one_round("round-mnist", tiny, 3 if quick else 20, "", False)
    return results


def round_cifar(quick: bool) -> list[dict]:
    """Time the CIFAR CNN on random images of its shape."""
    p = problem("cifar10", m=2) if quick else problem("cifar10")
    results = one_round("round-cifar", p, 2 if quick else 5)
    return [r | {"profile": profile(p.ours)} for r in results]


# What the operators of a convolutional network are for; all others are "the rest".
KINDS = {
    "convolution_backward": "convolutions, backward",
    "mkldnn_convolution": "convolutions, forward",
    "max_pool2d_with_indices": "pooling",
    "max_pool2d_with_indices_backward": "pooling",
    "fill_": "pooling",  # of zeros, for its backward
    "threshold_backward": "ReLU",
    "clamp_min": "ReLU",
    "mm": "linear layers",
    "addmm": "linear layers",
}


def profile(call) -> dict[str, float]:
    """Measure the share of each kind of operator in the processor time of a call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        call()
    shares: dict[str, float] = {}
    for event in profiler.key_averages():
        kind = KINDS.get(event.key.removeprefix("aten::"), "the rest")
        shares[kind] = shares.get(kind, 0.0) + event.self_cpu_time_total
    total = sum(shares.values())
    return {k: v / total for k, v in sorted(shares.items(), key=lambda pair: -pair[1])}


def all_gradients(p: Problem, repeats: int, rows: int = 10**9) -> list[dict]:
    """Time the gradients of all clients against both loops."""
    ours, lean = p.gradients, lambda: [g[:1] for g in loops.lean_gradients(p, rows)]
    plain = lambda: [g[:1] for g in loops.plain_gradients(p)]  # noqa: E731
    result = torch.stack(list(engine.client_gradients(p.module, p.params, p.data)))
    check("gradients, lean", result, torch.stack(list(loops.lean_gradients(p, rows))), 1e-5)
    check("gradients, plain", result, torch.stack(list(loops.plain_gradients(p))), 1e-5)
    return ratios("gradients", ours, {"plain": plain, "lean": lean}, repeats, p.what)


def gradients(quick: bool) -> list[dict]:
    """Time the gradients of 100 MNIST clients: of 600 examples, ragged, of 6 and of 60; and a CNN's."""
    few = 2 if quick else 10
    results = all_gradients(problem("mnist", clients=20 if quick else 100, m=1), few)
    for size in ([6, 60] * 50, 6, 60):
        results += all_gradients(problem("mnist", size=size, m=1), few)
    if not quick:
        results += all_gradients(problem("cifar10", clients=5, m=1), 3, 256)
    return results
