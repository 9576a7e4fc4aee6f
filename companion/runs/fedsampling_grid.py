"""The sweeps of FedSampling's slides: their table, on the data set `topics`, and their ablations, there and on MNIST.

The slides state no learning rates, rounds or numbers of clients. On `topics` ours are: 100 clients, its users; ten
per round where clients are sampled; 100 rounds of five local steps with batches of at most 128. On MNIST they are
those of the sweep `imbalance`.

On real text: titles of Reuters-21578, dealt by log-normal sizes as MIND is, and posts of 20 newsgroups by author, as the
Amazon reviews are by user. Both networks read the first fifty words of a post (`newsgroups-words`), whose vectors are those
of GloVe and stay as they are, since 1,928 posts alone do not teach a network words. A third, linear network reads a post
as the mean of its words' vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import log

from companion.runs.sweeps import Run
from fedstas.aggregation import Adaptive
from fedstas.client_sampling import PerExample
from fedstas.data_sampling import FedSampling

SMALL = {"clients": 20, "clients_per_round": 5, "rounds": 3}  # the federation of `quick`
NETWORKS = ("", "transformer")  # "" is the usual one, the Text-CNN
FEDOPT = {"fedadam": "adam", "fedyogi": "yogi", "fedadagrad": "adagrad"}
TRUE = {"epsilon": None}  # FedSampling with the true total number of examples
# The learning rates that `fedsampling-topics-rates` tries, of FedAvg and of the server; and those that are best there
# (by `grid_results.choose_fedsampling_rates`; a test compares them with those runs).
TRIED_RATES, TRIED_SERVER_RATES = (0.1, 0.5, 2.0), (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
LR = dict.fromkeys(NETWORKS, 0.5)
SERVER = {(network, m): 0.3 if m == "fedadagrad" else 0.03 for network in NETWORKS for m in FEDOPT}
USUAL_SIGMA = 1.5  # spread of the log-normal sizes, where something else varies
SIGMAS = (0.0, USUAL_SIGMA, 3.0)  # the spreads of the sweep `imbalance`
SPREADS = (0.0, 0.75, 1.5, 2.25, 3.0)  # the spreads of the ablations' log-normal sizes
EPSILONS, CAPS = (0.5, 1.0, 10.0), {"topics": (20, 500), "mnist": (100, 3000)}
# FedSampling with private sizes.
HIDDEN = {"topics": {"epsilon": 3.0, "size_cap": 100}, "mnist": {"epsilon": 3.0, "size_cap": 700}}
HIDDEN |= {
    "reuters-titles": HIDDEN["topics"],
    "newsgroups": {"epsilon": 3.0, "size_cap": 50},  # an author has 10 to 73 posts
}
HIDDEN |= {"newsgroups-words": HIDDEN["newsgroups"]}
# On images FedSampling's code has the local rate 0.05, K = 1,200 of, with MNIST, 60,000 examples, M = 700, and tells the true
# size with probability 1/2: with our answers 1..M-1 that is epsilon = log(M).
IMAGES_NETWORK, IMAGES_LR = "convolutional-grey", 0.05
IMAGES_HIDDEN = {"epsilon": log(700), "size_cap": 700}
IMAGES_SHARE = 1200 / 60_000
# There, a tenth of the clients take part in a round, and draw ten times the share: the slides ask all clients. All clients
# report their sizes, as on the slides.
IMAGES_AS_CODED = {
    "clients": PerExample(IMAGES_SHARE, fraction=0.1),
    "data": FedSampling(10 * IMAGES_SHARE, **IMAGES_HIDDEN),
}
# Rates on posts, the best of `fedsampling-text-rates`; titles have those of `topics`, with the same network.
TRIED_POSTS_RATES = (0.01, 0.03, 0.1, 0.3)
POSTS_LR, POSTS_SERVER = 0.1, {"fedadam": 0.03, "fedyogi": 0.1, "fedadagrad": 0.3}
# The local rates that are tried on the words of posts with each network, with the seed 5, and the best of them and of
# `TRIED_SERVER_RATES`.
TRIED_WORDS_RATES = (0.1, 0.3, 1.0)
WORDS_LR = {"": 0.3, "transformer": 0.3}
WORDS_SERVER = {
    "": {"fedadam": 0.03, "fedyogi": 0.03, "fedadagrad": 0.3},
    "transformer": {"fedadam": 0.01, "fedyogi": 0.01, "fedadagrad": 0.1},
}
# Labels of methods in results: FedSampling with private sizes, FedOpt with Algorithm 1's plain mean.
PRIVATE, PLAIN = "fedsampling, private", ", plain mean"
TENTH = f"{PRIVATE}, a tenth of the clients"


def _on_topics(profile: str, method: str, seed: int, network: str = "", **changed) -> Run:
    """Return a run on `topics`, with a client for each user.

    Args:
        profile: of the sweep.
        method, seed, network: of the run.
        changed: fields of `Run` that replace these, `overrides` among them.
    """
    shape = SMALL if profile == "quick" else {"rounds": 100, "eval_every": 10}
    settings = {"steps": 5, "lr": LR[network]} | changed.pop("overrides", {})
    fields = {"partition": "natural", "concentration": 0.01} | shape | changed
    return Run("topics", method=method, seed=seed, network=network, overrides=settings, **fields)


def _on_mnist(profile: str, method: str, seed: int, **changed) -> Run:
    """Return a run on MNIST with log-normal sizes, three local steps of rate 0.01; `changed` are fields of `Run`."""
    task, shape = ("digits", SMALL) if profile == "quick" else ("mnist", {"eval_every": 9})
    fields = {"partition": "lognormal", "concentration": 0.01} | shape | changed
    return Run(task, method=method, seed=seed, **fields)


def _arms(task: str) -> list[tuple[str, dict]]:
    """Return FedAvg, MD sampling, and FedSampling with the true total and with private sizes: methods and settings."""
    return [("fedavg", {}), ("md", {}), ("fedsampling", TRUE), ("fedsampling", HIDDEN[task])]


def _private(task: str) -> list[dict]:
    """Return the private settings with epsilon or the cap M changed, one at a time."""
    changes = [{"epsilon": e} for e in EPSILONS] + [{"size_cap": cap} for cap in CAPS[task]]
    return [HIDDEN[task] | change for change in changes]


def imbalance(profile: str) -> list[Run]:
    """Return runs with growing imbalance of sizes: FedAvg and MD against FedSampling, without and with privacy; two seeds."""
    sigmas = SIGMAS[:2] if profile == "quick" else SIGMAS
    grid = product(range(2), sigmas, _arms("mnist"))
    return [_on_mnist(profile, m, s, sigma=g, overrides=o) for s, g, (m, o) in grid]


def topics(profile: str) -> list[Run]:
    """Return the runs of the slides' table: two networks, five seeds.

    FedOpt has weights n_k over the cohort, and the plain mean of the slides' Algorithm 1; FedSampling has private
    sizes, and true ones.
    """
    without_server = [
        ("centralised", {}),
        ("fedavg", {}),
        ("fedsampling", {}),
        ("fedsampling", TRUE),
    ]
    runs = []
    for seed, network in product(range(5 if profile == "paper" else 1), NETWORKS):
        adaptive = [
            (m, {"weights": w, "server": Adaptive(kind, SERVER[network, m])})
            for (m, kind), w in product(FEDOPT.items(), ("cohort", "plain"))
        ]
        runs += [
            _on_topics(profile, m, seed, network, overrides=o) for m, o in without_server + adaptive
        ]
    return runs


def rates(profile: str) -> list[Run]:
    """Return the runs by which learning rates are chosen, one seed.

    They try the local rate, of FedAvg, which all methods then have; and with it each kind of FedOpt's server rate.
    """
    networks = NETWORKS if profile == "paper" else NETWORKS[1:]
    runs = []
    for network in networks:
        runs += [
            _on_topics(profile, "fedavg", 0, network, overrides={"lr": lr}) for lr in TRIED_RATES
        ]
        for (m, kind), rate in product(FEDOPT.items(), TRIED_SERVER_RATES):
            server = {"server": Adaptive(kind, rate)}
            runs.append(_on_topics(profile, m, 0, network, overrides=server))
    return runs


def topics_ablations(profile: str) -> list[Run]:
    """Return the slides' ablations on `topics` with the Text-CNN, without the runs of their table.

    Ten seeds of draws by size and of five spreads of the sizes; five of one class per client, of epsilon and of M.
    """
    ten_seeds: list[tuple[str, dict]] = [("md", {}), ("fedavg-unbiased", {})]
    for m, sigma in product(("fedavg", "fedsampling"), SPREADS):
        ten_seeds.append((m, {"partition": "lognormal", "sigma": sigma}))
    first_five: list[tuple[str, dict]] = [
        ("fedsampling", {"overrides": o}) for o in _private("topics")
    ]
    # One class per client: all arms but that with private sizes.
    first_five += [(m, {"partition": "by_class", "overrides": o}) for m, o in _arms("topics")[:3]]
    # The table, with which these are compared, has seeds 0 to 4 of its methods: this adds 5 to 9 of two.
    last_five: list[tuple[str, dict]] = [("fedavg", {}), ("fedsampling", {})]
    seeds = range(10 if profile == "paper" else 1)
    step = 4 if profile == "quick" else 1  # every fourth run
    return [
        _on_topics(profile, m, s, **changed)
        for s in seeds
        for m, changed in (ten_seeds + (first_five if s < 5 else last_five))[::step]
    ]


def mnist_ablations(profile: str) -> list[Run]:
    """Return the slides' ablations on MNIST, without the runs of `imbalance`.

    Ten seeds of five spreads of the sizes; five of one class per client, and of epsilon and M at sigma 1.5.
    """
    seeds = range(10 if profile == "paper" else 1)
    arms = _arms("mnist")
    ten_seeds = [(m, {"sigma": sigma, "overrides": o}) for sigma in SPREADS for m, o in arms]
    five_seeds = [(m, {"partition": "by_class", "overrides": o}) for m, o in arms]
    five_seeds += [
        ("fedsampling", {"sigma": USUAL_SIGMA, "overrides": o}) for o in _private("mnist")
    ]
    if profile == "quick":  # all four arms at the second spread, and one at one class per client
        ten_seeds, five_seeds = ten_seeds[4:8], five_seeds[:1]
    runs = [_on_mnist(profile, m, s, **changed) for s in seeds for m, changed in ten_seeds]
    runs += [_on_mnist(profile, m, s, **changed) for s in seeds[:5] for m, changed in five_seeds]
    in_imbalance = imbalance(profile)
    return [run for run in runs if run not in in_imbalance]


def mnist_convolutional(profile: str) -> list[Run]:
    """Return runs on MNIST, one class per client, with the network of FedSampling's code; five seeds.

    The local rate, K, M and epsilon are that code's, too: three steps take 3,600 examples with FedSampling, and 3,840 of ten
    clients with the others. FedSampling asks all clients, as on the slides, or a tenth of them, as in the code.
    """
    arms: list[tuple[str, dict]] = [("fedavg", {}), ("md", {})]
    arms += [("fedsampling", o) for o in (IMAGES_HIDDEN | {"share": IMAGES_SHARE}, IMAGES_AS_CODED)]
    if profile == "quick":
        return [_on_mnist(profile, m, 0, partition="by_class", overrides=o) for m, o in arms]
    shape = {"partition": "by_class", "network": IMAGES_NETWORK}
    shape |= {"rounds": 40, "eval_every": 20}
    return [
        _on_mnist(profile, m, s, overrides={"lr": IMAGES_LR} | o, **shape)
        for s in range(5 if profile == "paper" else 1)
        for m, o in arms
    ]


def _text_arms(task: str, server: dict[str, float]) -> list[tuple[str, dict]]:
    """Return the six methods of the slides' table, FedOpt with its plain mean, and FedSampling with the true total."""
    adaptive = [
        (m, {"weights": "plain", "server": Adaptive(kind, server[m])}) for m, kind in FEDOPT.items()
    ]
    own: list[tuple[str, dict]] = [("fedsampling", HIDDEN[task]), ("fedsampling", TRUE)]
    return [("centralised", {}), ("fedavg", {}), *adaptive, *own]


def _on_posts(method: str, seed: int, overrides: dict) -> Run:
    """Return a run on posts of 20 newsgroups, with a client for each of 100 authors."""
    settings, shape = {"steps": 5, "lr": POSTS_LR} | overrides, {"rounds": 100, "eval_every": 5}
    return Run("newsgroups", "natural", 0.01, method, seed, settings, **shape)


def _on_words(network: str, method: str, seed: int, overrides: dict) -> Run:
    """Return a run on the words of the posts, with a client for each of 100 authors."""
    shape = {"rounds": 50, "eval_every": 10, "network": network}
    local = {"steps": 5, "lr": WORDS_LR[network]} | overrides
    return Run("newsgroups-words", "natural", 0.01, method, seed, local, **shape)


def _on_titles(method: str, seed: int, overrides: dict, network: str = "", **changed) -> Run:
    """Return a run on titles of Reuters, dealt to 100 clients by log-normal sizes; `changed` are fields of `Run`."""
    local = {"steps": 5, "lr": LR[network]} | overrides
    shape = {"rounds": 30, "eval_every": 5, "sigma": USUAL_SIGMA, "network": network} | changed
    return Run("reuters-titles", "lognormal", 0.01, method, seed, local, **shape)


def _titles_table(seed: int, network: str = "") -> list[Run]:
    """Return runs of all methods of the slides' table on titles of Reuters."""
    servers = {m: SERVER[network, m] for m in FEDOPT}
    arms = _text_arms("reuters-titles", servers)
    return [_on_titles(m, seed, o, network) for m, o in arms]


def real_text(profile: str) -> list[Run]:
    """Return the runs of the slides' table on real text, five seeds: titles in 30 rounds, posts in 100; on posts also
    MD sampling and the unbiased FedAvg.

    As long as there was time for; on titles a run of FedSampling takes a minute of one core.
    """
    if profile == "quick":
        return [_on_mnist(profile, m, 0, overrides=o) for m, o in _arms("mnist")[::2]]
    runs = []
    for seed in range(5 if profile == "paper" else 1):
        runs += _titles_table(seed)
        drawn: list[tuple[str, dict]] = [
            ("md", {}),
            ("fedavg-unbiased", {}),
        ]  # other ways to draw clients
        arms = _text_arms("newsgroups", POSTS_SERVER) + drawn
        runs += [_on_posts(m, seed, o) for m, o in arms]
    return runs


def titles_by_transformer(profile: str) -> list[Run]:
    """Return the runs of the slides' table on titles with the Transformer, five seeds, 30 rounds."""
    if profile == "quick":
        return [_on_mnist(profile, m, 0, overrides=o) for m, o in _arms("mnist")[::2]]
    return [
        run
        for s in range(5 if profile == "paper" else 1)
        for run in _titles_table(s, "transformer")
    ]


def titles_ablations(profile: str) -> list[Run]:
    """Return the slides' ablations on titles with the Text-CNN, without the runs of their table, five seeds.

    MD sampling and the unbiased FedAvg; and the least and the largest spread of the sizes.
    """
    if profile == "quick":
        return [_on_mnist(profile, m, 0, overrides=o) for m, o in _arms("mnist")[:2]]
    return [
        run
        for s in range(5 if profile == "paper" else 1)
        for run in (
            *(_on_titles(m, s, {}) for m in ("md", "fedavg-unbiased")),
            *(
                _on_titles(m, s, o, sigma=sigma)
                for sigma in (SIGMAS[0], SIGMAS[-1])
                for m, o in (("fedavg", {}), ("md", {}), ("fedsampling", TRUE))
            ),
        )
    ]


def text_rates(profile: str) -> list[Run]:
    """Return the runs by which rates on posts are chosen, as `rates` does, with a seed that `real_text` has not."""
    if profile == "quick":
        return [_on_mnist(profile, "fedavg", 0, overrides={"lr": lr}) for lr in TRIED_RATES]
    runs = [_on_posts("fedavg", 5, {"lr": lr}) for lr in TRIED_POSTS_RATES]
    for (m, kind), rate in product(FEDOPT.items(), TRIED_SERVER_RATES):
        runs.append(_on_posts(m, 5, {"weights": "plain", "server": Adaptive(kind, rate)}))
    return runs


def words(network: str) -> Callable[[str], list[Run]]:
    """Return the sweep of the slides' table on the words of posts with a network: five seeds, 50 rounds."""

    def sweep_runs(profile: str) -> list[Run]:
        """Return the runs of a profile."""
        if profile == "quick":
            return [_on_mnist(profile, m, 0, overrides=o) for m, o in _arms("mnist")[::2]]
        return [
            _on_words(network, m, s, o)
            for s in range(5 if profile == "paper" else 1)
            for m, o in _text_arms("newsgroups-words", WORDS_SERVER[network])
        ]

    return sweep_runs


def words_rates(network: str) -> Callable[[str], list[Run]]:
    """Return the sweep by which rates on the words of posts are chosen, as `rates` does, with a seed that `words` has
    not."""

    def sweep_runs(profile: str) -> list[Run]:
        """Return the runs of a profile."""
        if profile == "quick":
            return [_on_mnist(profile, "fedavg", 0, overrides={"lr": lr}) for lr in TRIED_RATES]
        runs = [_on_words(network, "fedavg", 5, {"lr": lr}) for lr in TRIED_WORDS_RATES]
        for (m, kind), rate in product(FEDOPT.items(), TRIED_SERVER_RATES):
            server = {"weights": "plain", "server": Adaptive(kind, rate)}
            runs.append(_on_words(network, m, 5, server))
        return runs

    return sweep_runs


SWEEPS = {
    "imbalance": imbalance,
    "fedsampling-posts-text-cnn": words(""),
    "fedsampling-posts-text-cnn-rates": words_rates(""),
    "fedsampling-posts-transformer": words("transformer"),
    "fedsampling-posts-transformer-rates": words_rates("transformer"),
    "fedsampling-text": real_text,
    "fedsampling-text-rates": text_rates,
    "fedsampling-text-transformer": titles_by_transformer,
    "fedsampling-titles-ablations": titles_ablations,
    "fedsampling-topics": topics,
    "fedsampling-topics-rates": rates,
    "fedsampling-topics-ablations": topics_ablations,
    "fedsampling-mnist-ablations": mnist_ablations,
    "fedsampling-mnist-convolutional": mnist_convolutional,
}
