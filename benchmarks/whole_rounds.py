"""`restratify`: one full round of fedstas against the arithmetic of its gradients; the authors'
way of a round; and the seconds that 99 rounds of every method take."""

from __future__ import annotations

import itertools
from copy import deepcopy

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.rounds import PERCEPTRON
from benchmarks.timing import check, entry, interleaved, machine, seconds
from benchmarks.workloads import LR, Problem, problem
from fedstas import aggregation, methods
from fedstas.authors import pairwise_spread, rounded_allocation, unsorted_centres
from fedstas.errors import DataError
from fedstas.sim import engine, partition, simulation, tasks
from fedstas.sim.rng import stream
from fedstas.sim.server import Server


class Round:
    """One round of fedstas at w_0 as `simulation.run` makes it, evaluation left out."""

    def __init__(self, p: Problem):
        self.problem, self.method, self.t = p, methods.get("fedstas"), 0

    def __call__(self) -> torch.Tensor:
        """w_1, from other draws at each call."""
        p, method, self.t = self.problem, self.method, self.t + 1
        server = Server(p.data, p.module, 0)
        server.begin(self.t, p.params)
        cohort = method.clients.draw(server, 10, stream(0, "clients", self.t))
        rates = method.data.rates(server, cohort)
        idx, weight, _ = simulation.draw_batches(method, p.data, cohort, rates, 0, self.t)
        local = method.local
        trained = engine.local_updates(
            p.module, p.params, p.data, idx, weight, lr=local.lr, prox=local.prox
        )
        weights = torch.from_numpy(cohort.weights).to(p.params)
        update = aggregation.aggregate(p.params, trained, weights)
        return method.server.step(p.params, update, {})


def products(p: Problem) -> list[tuple]:
    """Return the factors of the matrix products of all clients' gradients: forward, and back to the weights."""
    pairs = []
    for low, high in itertools.pairwise(p.data.offsets.tolist()):
        x, b = p.data.x[low:high].flatten(1), high - low
        hidden, d_hidden, d_logits = torch.rand(b, 50), torch.rand(b, 50), torch.rand(b, 10)
        pairs += [
            (x, torch.rand(784, 50)),
            (hidden, torch.rand(50, 10)),
            (d_logits, torch.rand(10, 50)),
        ]
        pairs += [(d_hidden.T, x), (d_logits.T, hidden)]
    return pairs


def restratify(quick: bool) -> list[dict]:
    """Time a round of fedstas over 100 MNIST clients against the multiply-adds of its gradients at the rate
    of matrix products: the large ones of 1024 x 1024 (`matmul`), and those of its own shapes."""
    p = problem("mnist", clients=20 if quick else 100)
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    pairs = products(p)
    ours = Round(p)
    taken = interleaved(
        {
            "ours": ours,
            "large": lambda: [a @ b for _ in range(4)],
            "own": lambda: [x @ w for x, w in pairs],
            "gradients": p.gradients,
        },
        2 if quick else 8,
    )
    work = PERCEPTRON * int(p.data.sizes.sum())
    limit = [s / 4 / 1024**3 * work for s in taken["large"]]
    more = {
        "rate_gmac": 1024**3 * 4 / 1e9 / float(np.median(taken["large"])),
        "seconds_gradients": float(np.median(taken["gradients"])),
        "seconds_own_products": float(np.median(taken["own"])),
        "times_arithmetic": float(np.median(taken["ours"]) / np.median(limit)),
    }
    what = f"{p.what}, strata made anew, evaluation excluded"
    return [entry("restratify", "matmul", taken["ours"], limit, what, **more)]


class AuthorsRound:
    """One round as the released code computes it, written anew from its description: a loader per client,
    the gradient a mean of batch means, ten starts of KMeans for each, strata on the centres, local
    training through loaders, and the loss of every training set, through the loaders again."""

    def __init__(self, p: Problem, n_init: int = 10):
        self.problem, self.n_init = p, n_init
        spans = itertools.pairwise(p.data.offsets.tolist())
        sets = [TensorDataset(p.data.x[a:b], p.data.y[a:b]) for a, b in spans]
        self.loaders = [DataLoader(s, batch_size=128, shuffle=True) for s in sets]

    def gradient(self, loader) -> np.ndarray:
        """Compute the gradient as a mean of batch means."""
        local = deepcopy(self.problem.module)
        for x, y in loader:
            (F.cross_entropy(local(x), y) / len(loader)).backward()
        return torch.cat([v.grad.flatten() for v in local.parameters()]).numpy()

    def train(self, loader):
        """Train a copy of the model by three steps."""
        local = deepcopy(self.problem.module)
        optimizer = torch.optim.SGD(local.parameters(), lr=LR)
        for _ in range(3):
            x, y = next(iter(loader))
            optimizer.zero_grad()
            F.cross_entropy(local(x), y).backward()
            optimizer.step()
        return local

    def __call__(self) -> float:
        """Compute a round, and return the mean training loss after it."""
        centres = np.stack([unsorted_centres(self.gradient(ld), 9) for ld in self.loaders])
        strata = min(10, len(np.unique(centres, axis=0)))
        labels = KMeans(strata, n_init=10).fit_predict(centres)
        sizes = np.bincount(labels, minlength=strata)
        allocation = rounded_allocation(sizes, pairwise_spread(centres, labels), 10)
        norms, rng, trained = np.linalg.norm(centres, axis=1), np.random.default_rng(0), []
        for h, draws in enumerate(allocation):
            members = np.flatnonzero(labels == h)
            p = norms[members] / norms[members].sum()
            for k in rng.choice(members, draws, replace=False, p=p):
                trained.append(self.train(self.loaders[k]))
        mean = deepcopy(trained[0])
        with torch.no_grad():
            for all_ in zip(mean.parameters(), *(m.parameters() for m in trained), strict=True):
                all_[0].copy_(torch.stack(all_[1:]).mean(0))
            losses = [sum(F.cross_entropy(mean(x), y).item() for x, y in ld) for ld in self.loaders]
        return float(np.mean(losses))


def authors(quick: bool) -> list[dict]:
    """Time the authors' way against ours, both with the loss of all training data, on the same clients."""
    p = problem("mnist", clients=10 if quick else 100)
    ours, theirs = Round(p), AuthorsRound(p)
    first = theirs.gradient(DataLoader(theirs.loaders[0].dataset, batch_size=600))
    check(
        "authors, gradient",
        next(iter(engine.client_gradients(p.module, p.params, p.data))),
        first,
        1e-6,
    )

    def with_evaluation():
        engine.evaluate(p.module, ours(), p.data.x, p.data.y)

    taken = interleaved({"ours": with_evaluation, "theirs": theirs}, 1 if quick else 2)
    what = f"{p.what}, a whole round with the loss of all training sets"
    return [entry("restratify", "authors", taken["ours"], taken["theirs"], what)]


def every_method(quick: bool) -> list[dict]:
    """Time the rounds of every method on MNIST, one seed, every round evaluated; on digits where
    MNIST is not here. Not a ratio: `seconds` is what counts."""
    try:
        has_mnist = (tasks.data_folder() / "mnist.npz").exists()
        task = tasks.load("mnist" if has_mnist else "digits")
    except DataError:
        task = tasks.load("digits")
    rounds = 2 if quick else 99
    federation = partition.dirichlet(task.train_y, 100, 0.01, 0)
    results = []
    for name in methods.names():
        how = {"rounds": rounds, "clients_per_round": 10, "seed": 0, "device": "cpu"}
        method = methods.get(name)
        elapsed = seconds(
            lambda method=method, how=how: simulation.run(task, federation, method, **how)
        )
        results.append(
            {
                "name": "method",
                "against": name,
                "ratio": None,
                "low": None,
                "high": None,
                "repeats": 1,
                "threads": 1,
                "machine": machine(),
                "device": "cpu",
                "seconds": elapsed,
                "rounds": rounds,
                "workload": f"{task.name}, Dirichlet 0.01, 100 clients, cohort 10, every round evaluated",
            }
        )
        print(f"  {name}: {elapsed:.1f} s for {rounds} rounds", flush=True)
    return results
