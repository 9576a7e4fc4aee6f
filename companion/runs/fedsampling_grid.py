"""The sweeps of FedSampling's slides: their table on `topics`, and what they change, there and on MNIST.

The slides give no rates, rounds or numbers of clients. On `topics`: its 100 users, ten a round where clients are
sampled, 100 rounds of five steps of at most 128; on MNIST the setting of `imbalance`.
"""

from __future__ import annotations

from itertools import product

from companion.runs.sweeps import Run
from fedstas.aggregation import Adaptive

SMALL = {"clients": 20, "clients_per_round": 5, "rounds": 3}  # the shape of `quick`
NETWORKS = ("", "transformer")  # of documents; the usual one is the Text-CNN
FEDOPT = {"fedadam": "adam", "fedyogi": "yogi", "fedadagrad": "adagrad"}
TRUE = {"epsilon": None}  # FedSampling that knows the total
# Learning rates of FedAvg, and of the server; those in use were chosen by `fedsampling-topics-rates`
# (`grid_results.choose_fedsampling_rates`; a test holds the two together).
TRIED, SERVER_TRIED = (0.1, 0.5, 2.0), (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
LR = dict.fromkeys(NETWORKS, 0.5)
SERVER = {(network, m): 0.3 if m == "fedadagrad" else 0.03 for network in NETWORKS for m in FEDOPT}
SIGMAS = (0.0, 1.5, 3.0)  # of the recorded sweep `imbalance`, two seeds
SPREADS = (0.0, 0.75, 1.5, 2.25, 3.0)
EPSILONS, CAPS = (0.5, 1.0, 10.0), {"topics": (20, 500), "mnist": (100, 3000)}
HIDDEN = {"topics": {"epsilon": 3.0, "size_cap": 100}, "mnist": {"epsilon": 3.0, "size_cap": 700}}
# Labels of methods in results: FedSampling with private sizes, FedOpt with Algorithm 1's plain mean.
PRIVATE, PLAIN = "fedsampling, private", ", plain mean"


def _on_topics(profile: str, method: str, seed: int, network: str = "", **changed) -> Run:
    """A run on `topics`, by user unless `changed` (fields of `Run`, `overrides` among them) says otherwise."""
    shape = SMALL if profile == "quick" else {"rounds": 100, "eval_every": 10}
    settings = {"steps": 5, "lr": LR[network]} | changed.pop("overrides", {})
    where = {"partition": "natural", "concentration": 0.01} | shape | changed
    return Run("topics", method=method, seed=seed, network=network, overrides=settings, **where)


def _on_mnist(profile: str, method: str, seed: int, **changed) -> Run:
    """A run on MNIST, three steps of rate 0.01, of the log-normal partition unless `changed` says otherwise."""
    task, shape = ("digits", SMALL) if profile == "quick" else ("mnist", {"eval_every": 9})
    where = {"partition": "lognormal", "concentration": 0.01} | shape | changed
    return Run(task, method=method, seed=seed, **where)


def _arms(task: str) -> list[tuple[str, dict]]:
    """FedAvg, MD sampling, and FedSampling that knows the total and that asks for it in private."""
    return [("fedavg", {}), ("md", {}), ("fedsampling", TRUE), ("fedsampling", HIDDEN[task])]


def _private(task: str) -> list[dict]:
    """The other epsilons and caps M, one at a time."""
    other = [{"epsilon": e} for e in EPSILONS] + [{"size_cap": cap} for cap in CAPS[task]]
    return [HIDDEN[task] | each for each in other]


def imbalance(profile: str) -> list[Run]:
    """Growing size imbalance: FedAvg and MD against FedSampling, without and with privacy."""
    sigmas = SIGMAS[:2] if profile == "quick" else SIGMAS
    grid = product(range(2), sigmas, _arms("mnist"))
    return [_on_mnist(profile, m, s, sigma=g, overrides=o) for s, g, (m, o) in grid]


def topics(profile: str) -> list[Run]:
    """The table of the slides, both networks, five seeds: FedOpt with weights n_k over the cohort and with
    their Algorithm 1's plain mean, FedSampling with private sizes and with true ones."""
    plain = [("centralised", {}), ("fedavg", {}), ("fedsampling", {}), ("fedsampling", TRUE)]
    runs = []
    for seed, network in product(range(5 if profile == "paper" else 1), NETWORKS):
        adaptive = [
            (m, {"weights": w, "server": Adaptive(kind, SERVER[network, m])})
            for (m, kind), w in product(FEDOPT.items(), ("cohort", "plain"))
        ]
        runs += [_on_topics(profile, m, seed, network, overrides=o) for m, o in plain + adaptive]
    return runs


def rates(profile: str) -> list[Run]:
    """One seed: the rate of FedAvg's steps, which all methods share, and at it the server's rate of each
    kind of FedOpt. The one with the least training loss is taken."""
    networks = NETWORKS if profile == "paper" else NETWORKS[1:]
    runs = []
    for network in networks:
        runs += [_on_topics(profile, "fedavg", 0, network, overrides={"lr": lr}) for lr in TRIED]
        for (m, kind), rate in product(FEDOPT.items(), SERVER_TRIED):
            server = {"server": Adaptive(kind, rate)}
            runs.append(_on_topics(profile, m, 0, network, overrides=server))
    return runs


def topics_ablations(profile: str) -> list[Run]:
    """On `topics` with the Text-CNN: ten seeds of clients drawn by size and of five spreads of the sizes, five of
    one class each, of epsilon and of M. What the table has is not run again."""
    often: list[tuple[str, dict]] = [("md", {}), ("fedavg-unbiased", {})]
    for m, g in product(("fedavg", "fedsampling"), SPREADS):
        often.append((m, {"partition": "lognormal", "sigma": g}))
    few: list[tuple[str, dict]] = [("fedsampling", {"overrides": o}) for o in _private("topics")]
    few += [(m, {"partition": "by_class", "overrides": o}) for m, o in _arms("topics")[:3]]
    rest: list[tuple[str, dict]] = [("fedavg", {}), ("fedsampling", {})]  # the table has five seeds
    seeds, every = range(10 if profile == "paper" else 1), 4 if profile == "quick" else 1
    return [
        _on_topics(profile, m, s, **how)
        for s in seeds
        for m, how in (often + (few if s < 5 else rest))[::every]
    ]


def mnist_ablations(profile: str) -> list[Run]:
    """On MNIST: `imbalance` to five spreads and ten seeds, without its own runs; five seeds of one class each,
    and of epsilon and M at sigma 1.5."""
    seeds = range(10 if profile == "paper" else 1)
    arms, middle = _arms("mnist"), {"sigma": SIGMAS[1]}
    changes = [(m, {"sigma": g, "overrides": o}) for g in SPREADS for m, o in arms]
    few = [(m, {"partition": "by_class", "overrides": o}) for m, o in arms]
    few += [("fedsampling", middle | {"overrides": o}) for o in _private("mnist")]
    if profile == "quick":
        changes, few = changes[4:8], few[:1]
    there = imbalance(profile)
    runs = [_on_mnist(profile, m, s, **how) for s in seeds for m, how in changes]
    runs += [_on_mnist(profile, m, s, **how) for s in seeds[:5] for m, how in few]
    return [run for run in runs if run not in there]


SWEEPS = {
    "imbalance": imbalance,
    "fedsampling-topics": topics,
    "fedsampling-topics-rates": rates,
    "fedsampling-topics-ablations": topics_ablations,
    "fedsampling-mnist-ablations": mnist_ablations,
}
