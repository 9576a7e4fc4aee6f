"""Tests of each function that decides a claim on runs, with synthetic runs for which the claim is true, false,
undecided, or has too few seeds."""

import itertools
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from deciders import claims_by_function

from companion.claims.evidence import clustered_losses as losses
from companion.claims.evidence import experiments, experiments_cifar10
from companion.claims.evidence import experiments_clustered as clustered
from companion.claims.evidence import experiments_fedsampling as fedsampling
from companion.claims.evidence import experiments_figures as figures
from companion.claims.evidence import experiments_sentences as sentences
from companion.claims.registry import Evidence
from companion.pages import clustered_figures

BY_FUNCTION = {
    name: claims[0]
    for name, claims in claims_by_function().items()
    if name.startswith("experiments")
}


@dataclass(frozen=True)
class World:
    """Synthetic runs of every method: accuracy rises from 10 %, the loss falls from 2.3, linearly, then constant.

    The dicts have the method as key; a method that is not in them has the default.
    """

    final_accuracy: dict = field(default_factory=dict)  # accuracy of the last round
    default_accuracy: float = 0.5  # final accuracy of methods that are not in `final_accuracy`
    spread: float = 0.0005  # standard deviation between runs, independent by method, mean 0
    seed_spread: float = 0.02  # difference from one seed to the next, the same for all methods
    seeds: int = 6
    # the round from which accuracy and loss are constant
    rounds_to_end: dict = field(default_factory=dict)
    final_loss: dict = field(default_factory=dict)
    first_accuracy: float | None = None  # accuracy after round 1
    oscillation: dict = field(default_factory=dict)  # amplitude, alternating from round to round
    megabytes: dict = field(default_factory=dict)
    rounds: int = 99
    # worlds that replace this one for a setting: by (partition, concentration), and by (field of the setting, value)
    by_partition: dict = field(default_factory=dict)
    by_value: dict = field(default_factory=dict)

    def frame(self, setting, methods) -> pd.DataFrame:
        """Return the runs of methods in a setting, a row for each round, as `Setting.runs` does."""
        for (key, value), world in self.by_value.items():
            if getattr(setting, key) == value:
                return world.frame(setting, methods)
        if world := self.by_partition.get((setting.partition, setting.concentration)):
            return world.frame(setting, methods)
        t, parts = np.arange(1, self.rounds + 1), []
        for method in methods:
            end = self.final_accuracy.get(method, self.default_accuracy)
            end_round = self.rounds_to_end.get(method, 40)
            amplitude = self.oscillation.get(method)
            noise = np.random.default_rng([*method.encode()]).normal(size=self.seeds)
            for seed, run_effects in enumerate(self.spread * (noise - noise.mean())):
                rise = 0.1 + (end - 0.1) * np.minimum(1, t / end_round)
                swings = (amplitude + run_effects) * (-1.0) ** t if amplitude else 0
                accuracy = rise + run_effects + self.seed_spread * (seed - self.seeds / 2) + swings
                if self.first_accuracy is not None:
                    accuracy[0] = self.first_accuracy + run_effects
                fall = 2.3 - self.final_loss.get(method, 2 - end)
                loss = 2.3 - fall * np.minimum(1, t / end_round)
                columns = {"run": f"{method}{seed}", "method": method, "seed": seed, "round": t}
                columns |= {"rounds": self.rounds}
                columns |= dict.fromkeys(("client_accuracy", "test_accuracy", "macro_f1"), accuracy)
                columns |= {"train_loss": loss + run_effects * t / self.rounds + swings}
                cumulative_bytes = self.megabytes.get(method, 1) * t * 1e6
                columns |= dict.fromkeys(("bytes_down", "bytes_up"), cumulative_bytes)
                columns |= {"examples": 1000 * t}
                parts.append(pd.DataFrame(columns))
        return pd.concat(parts, ignore_index=True)

    def __call__(self, patch) -> None:
        """Put these runs in the place of the recorded ones."""
        world = self
        patch.setattr(
            experiments.Setting, "runs", lambda self, *methods: world.frame(self, methods)
        )


def patch_function(module, name: str, value):
    """Return a world that patches the function of the module so that it returns the value."""
    return lambda patch: patch.setattr(module, name, lambda *a, **k: value)


def worlds_of_higher_accuracy(better: str, **more) -> dict:
    """Return worlds in which the method is above all others, below them, and equal to them with scattered runs."""
    spread = more.pop("spread", 0.06)
    return {
        "agrees": World({better: 0.6}, **more),
        "differs": World({better: 0.4}, **more),
        "undecided": World(spread=spread, **more),
    }


def worlds_of_lower_loss(*methods: str) -> dict:
    """Return worlds in which these methods' training loss is lower than the others', higher, and equal with scatter."""
    return {
        "agrees": World(final_loss=dict.fromkeys(methods, 1.0)),
        "differs": World(final_loss=dict.fromkeys(methods, 2.0)),
        "undecided": World(spread=0.1),
    }


def worlds_of_printed_level(method: str, printed: float, is_loss: bool = False) -> dict:
    """Return worlds in which the method's mean is the printed value, far from it, and printed but scattered."""

    def world(value: float, spread: float) -> World:
        """Return a world in which the method has this level, with runs that scatter by `spread`."""
        levels = (
            {"final_loss": {method: value}}
            if is_loss
            else {"final_accuracy": {method: value / 100}}
        )
        return World(spread=spread, seed_spread=0, **levels)

    distance = 0.5 if is_loss else 15
    return {
        "agrees": world(printed, 0.0005),
        "differs": world(printed + distance, 0.0005),
        "undecided": world(printed, 0.05),
    }


def worlds_of_gain(printed: float) -> dict:
    """Return worlds in which FedSTaS gains the printed per cent, loses 10 %, gains nothing with scatter, and gains far more."""
    levels = {
        "agrees": (1 + printed / 100, 0.0005),
        "differs": (0.9, 0.0005),
        "undecided": (1, 0.06),
        "differs, a larger gain": (1.1 + printed / 100, 0.0005),
    }
    return {w: World({"fedstas": 0.5 * x}, spread=y, seed_spread=0) for w, (x, y) in levels.items()}


def recorded_cohorts(digits: dict, clients: int = 10, seeds: int = 6, rounds: int = 60):
    """Return a world of cohorts: `digits[scheme]` lists by seed the digits up to round 20 and after it, again from
    the first entry for further seeds; 7 for a scheme that is not listed.

    `clients` are the distinct clients of a cohort: MD sampling may draw a client twice, and has one less here.
    """
    rows = []
    for scheme, seed, t in itertools.product(clustered.SCHEMES, range(seeds), range(1, rounds + 1)):
        by_seed = digits.get(scheme, [(7, 7)])
        early, late = by_seed[seed % len(by_seed)]
        rows.append((scheme, seed, t, clients - (scheme == "md"), late if t > 20 else early))
    table = pd.DataFrame(rows, columns=["method", "seed", "round", "clients", "digits"])
    return patch_function(clustered, "recorded_cohorts", table)


def worlds_of_more_digits(scheme: str) -> dict:
    """Return worlds in which the scheme's cohorts hold more digits than MD sampling's 7, fewer, more and fewer in turn
    by seed, or more in too few seeds."""
    return {
        "agrees": recorded_cohorts({scheme: [(9, 9), (8, 9)]}),
        "differs": recorded_cohorts({scheme: [(6, 6), (6, 5)]}),
        "undecided": recorded_cohorts({scheme: [(9, 9), (6, 6)]}),
        "undecided, too few seeds": recorded_cohorts({scheme: [(9, 9)]}, seeds=4),
    }


def imbalanced_ends(fall: dict, ahead: float, spread: float = 0.01, seeds: int = 6):
    """Return a world of accuracies at sigma 0 and 3: FedSampling is `ahead`, an arm falls by `fall` points."""
    noise = np.random.default_rng(1).normal(size=(seeds, 2, 3)) * spread
    noise -= noise.mean(0)
    rows, arms = [], ("fedavg", "md", "fedsampling")
    for (i, sigma), seed, (k, arm) in itertools.product(
        enumerate((0, 3)), range(seeds), enumerate(arms)
    ):
        level = 80 + ahead * (arm == "fedsampling") - (fall.get(arm, 0) if sigma else 0)
        rows.append((sigma, seed, arm, level + noise[seed, i, k]))
    table = pd.DataFrame(rows, columns=["sigma", "seed", "arm", "value"])
    return patch_function(fedsampling, "_imbalanced_ends", table)


def worlds_of_private_fedsampling(
    others: dict, metric: str, task: str, partition="natural", network=""
) -> dict:
    """Return worlds in which private FedSampling is ahead, behind one rival, equal with scatter, and has too few seeds.

    `others` are the points of methods that do not decide the claim. Titles decide; other texts and images are substitutes.
    """
    arms = dict.fromkeys(
        (*fedsampling.AS_WRITTEN, *fedsampling.FEDOPT, "fedavg-unbiased", "md"), 50.0
    )
    arms |= {arm: 50.0 + more for arm, more in others.items()}

    def world(ahead: float, behind: float = 0.0, spread: float = 0.01, seeds: int = 6):
        """Return a world in which private FedSampling and fedavg are so many points above 50, as all others are."""
        values = arms | {"fedavg": 50.0 + behind, fedsampling.PRIVATE: 50.0 + ahead}
        noise = np.random.default_rng(2).normal(size=(len(values), seeds)) * spread
        noise -= noise.mean(1, keepdims=True)
        setting = {"task": task, "partition": partition, "network": network, "sigma": 1.5}
        rows = [
            setting | {"arm": arm, "seed": seed, metric: value + noise[k, seed]}
            for k, (arm, value) in enumerate(values.items())
            for seed in range(seeds)
        ]
        rows += [row | {"network": "another", metric: 0.0} for row in rows]
        return patch_function(fedsampling, "_recorded_ends", pd.DataFrame(rows))

    verdicts = {
        "agrees": world(3),
        "differs": world(3, behind=6),
        "undecided": world(0, spread=4),
        "undecided, too few seeds": world(3, seeds=4),
    }
    prefix = "" if task == "reuters-titles" else "no-data "
    return {f"{prefix}{key}": each for key, each in verdicts.items()} | {
        "no-data": world(3, seeds=1)
    }


def centralised_ends(ahead: float, spread: float = 0.01, seeds: int = 6):
    """Return a world in which private FedSampling is `ahead` of centralised training by so many points in all cells."""
    noise = np.random.default_rng(3).normal(size=seeds) * spread
    rows = [
        place
        | {"arm": arm, "seed": seed}
        | dict.fromkeys(fedsampling.METRIC_NAMES, 50 + extra * (ahead + noise[seed] - noise.mean()))
        for place in fedsampling.PLACES.values()
        for arm, extra in ((fedsampling.PRIVATE, 1), ("centralised", 0))
        for seed in range(seeds)
    ]
    return patch_function(fedsampling, "_recorded_ends", pd.DataFrame(rows))


def compressed_runs(gap: float, spread: float = 0.0005, seeds: int = 6):
    """Return a world of runs with 9 and 256 compression levels, `gap` of accuracy apart."""

    def patch(monkeypatch) -> None:
        world = World({"nine": 0.5 + gap, "most": 0.5}, spread=spread, seeds=seeds)
        frame = world.frame(figures.FIXED, ("nine", "most")).assign(method="fedstas")
        levels = {r: 9 if r.startswith("nine") else 256 for r in frame["run"].unique()}
        about = {r: {"method": {"clients": {"levels": v}}} for r, v in levels.items()}
        monkeypatch.setattr(experiments.Setting, "runs", lambda self, *methods: frame)
        monkeypatch.setattr(sentences.records, "identities", lambda folder: about)

    return patch


def class_shares(dirichlet: float, iid: float, grows: bool = True, spread: float = 0.0):
    """Return a world of the share of a client's largest class, which `grows` or not as the concentration falls."""

    def shares(labels, concentration=0.01, seeds=5):
        falls = -np.log10(concentration)  # how often the concentration is divided by ten, from 1 on
        base_shares = {"dirichlet": dirichlet, "iid": iid}
        rows = []
        for s, (name, value) in itertools.product(range(seeds), base_shares.items()):
            scatter = spread * (-1) ** (s + round(falls)) if name == "dirichlet" else 0
            rows.append((name, s, *[value + 0.1 * falls * grows + scatter] * 2))
        return pd.DataFrame(rows, columns=["partition", "seed", "mean", "median"])

    return lambda patch: patch.setattr(figures, "largest_class_shares", shares)


def cifar_partitions(pure: bool, scatter: bool = False):
    """Return a world of CIFAR-10 partitions: one class per client at 0.001 and even at 10 if `pure`, else the reverse."""

    one_class_each = np.eye(10, dtype=int)[[0, *range(10)]] * 100
    even = np.full((10, 10), 10)

    def dirichlet_fixed_size(labels, sizes, concentration, seed):
        """Return one class per client, or even classes: with `scatter` every second seed is the reverse of `pure`."""
        small_concentration_is_pure = pure or (scatter and seed % 2 == 0)
        pure_here = small_concentration_is_pure == (concentration < 0.1)
        return SimpleNamespace(label_counts=one_class_each if pure_here else even)

    replacement = SimpleNamespace(dirichlet_fixed_size=dirichlet_fixed_size)
    return lambda patch: patch.setattr(experiments_cifar10, "partition", replacement)


def ledger_verdict(word: str):
    """Return a world in which every other claim has this verdict."""
    return patch_function(sentences.ledger, "decide", Evidence(word, note="why"))


def iid_counts(table):
    """Return a world in which the clients of the i.i.d. partition hold these numbers of examples by class."""
    return patch_function(figures, "_label_counts", np.asarray(table))


ROUNDS_TO_HALF = {
    "agrees": World(rounds_to_end={"fedstas": 20, "fedsts": 80}, default_accuracy=0.6),
    "differs": World(rounds_to_end={"fedstas": 80, "fedsts": 20}, default_accuracy=0.6),
    "undecided": World(default_accuracy=0.6, spread=0.12, seeds=6),
}
ROUNDS_TO_HALF_OF_THREE = ROUNDS_TO_HALF | {
    "agrees": World(rounds_to_end={"fedstas": 20, "fedsts": 80, "fedstas-dp": 80}),
    "undecided": World(spread=0.12),
}
BOTH_ALGORITHMS = tuple(losses.ALGORITHM)
SMOOTH = {
    "agrees": World(oscillation={"md": 0.2}),
    "differs": World(oscillation=dict.fromkeys(BOTH_ALGORITHMS, 0.2)),
    "undecided": World(oscillation={"md": 0.2, "clustered-size": 0.2}, spread=0.05, seed_spread=0),
}


def lower_loss(nats: float, **more) -> World:
    """Return a world in which both clustered algorithms end `nats` below MD sampling."""
    return World(final_loss={"md": 1.5} | dict.fromkeys(BOTH_ALGORITHMS, 1.5 - nats), **more)


def worlds_by_setting(key: str, by_verdict: dict) -> dict:
    """Return worlds by verdict, in which the gain over MD sampling depends on the setting `key`.

    worlds_by_setting("steps", {"agrees": {10: 0, 500: 0.3}}) has one world, of the verdict "agrees": with 10 steps both
    clustered algorithms end where MD sampling ends, and with 500 steps their loss ends 0.3 nats lower.
    """
    return {
        verdict: lower_loss(0, by_value={(key, v): lower_loss(nats) for v, nats in gains.items()})
        for verdict, gains in by_verdict.items()
    }


def early_end(rounds_to_end: int, **more) -> World:
    """Return a world in which both clustered algorithms are constant after `rounds_to_end` rounds, MD sampling after 90."""
    return World(rounds_to_end={"md": 90} | dict.fromkeys(BOTH_ALGORITHMS, rounds_to_end), **more)


def worlds_by_local_steps(by_verdict: dict) -> dict:
    """Return worlds by verdict, from the rounds after which both algorithms are constant: {local steps: rounds}."""
    return {
        verdict: World(by_value={("steps", n): early_end(t) for n, t in rounds_to_end.items()})
        for verdict, rounds_to_end in by_verdict.items()
    }


def worlds_by_prox(by_verdict: dict, usual: dict | None = None) -> dict:
    """Return worlds by verdict in which runs with mu = 0.1 differ, and those with any other mu do not."""
    usual = usual or {"final_loss": {"md": 1.5}}
    return {
        verdict: World(**usual, by_value={("prox", 0.1): World(**usual | other)})
        for verdict, other in by_verdict.items()
    }


class AlternatingWorld(World):
    """A world whose runs of odd seeds are those of the world `odd_seeds`."""

    def frame(self, setting, methods) -> pd.DataFrame:
        even, odd = super().frame(setting, methods), self.odd_seeds.frame(setting, methods)
        return pd.concat([even[even["seed"] % 2 == 0], odd[odd["seed"] % 2 == 1]])


def worlds_by_cohort_size(by_verdict: dict) -> dict:
    """Return worlds by verdict in which 5, 10 and 20 clients a round reach one loss after so many rounds each."""

    def world(others: dict, rounds: tuple, odd: tuple = ()) -> World:
        def by_rounds(rounds_by_size: tuple, kind=World) -> World:
            pairs = zip((5, 10, 20), rounds_by_size, strict=True)
            end_rounds = {m: dict.fromkeys(("md", *BOTH_ALGORITHMS), t) | others for m, t in pairs}
            return kind(
                by_value={
                    ("clients_per_round", m): World(rounds_to_end=r, spread=0)
                    for m, r in end_rounds.items()
                }
            )

        if not odd:
            return by_rounds(rounds)
        turns = by_rounds(rounds, AlternatingWorld)
        object.__setattr__(turns, "odd_seeds", by_rounds(odd))
        return turns

    return {verdict: world(*arguments) for verdict, arguments in by_verdict.items()}


SCATTERED = World(spread=0.1)


def oscillating(md: float, similarity: float, size: float, **more) -> World:
    """Return a world in which the three schemes swing from round to round by these amplitudes."""
    amplitudes = {"md": md, "clustered-similarity": similarity, "clustered-size": size}
    return World(oscillation=amplitudes, seed_spread=0, **more)


SMOOTHER_OVERALL = {
    "agrees": oscillating(0.2, 0.1, 0.1),
    "differs": oscillating(0.1, 0.2, 0.2),
    "differs, size as md": oscillating(0.2, 0.1, 0.2),
    "undecided": oscillating(0.2, 0.2, 0.2, spread=0.05),
}


def opposite_trends(key: str, low: float, high: float, spread: float = 0.1) -> dict:
    """Return a world in which the trend over a setting has opposite signs for different seeds."""
    return {
        "undecided": World(
            by_value={(key, low): World(spread=spread), (key, high): World(spread=-spread)}
        )
    }


SKEWED = (figures.SKEWED.partition, figures.SKEWED.concentration)
ON_CIFAR = worlds_of_lower_loss(*BOTH_ALGORITHMS)

# By function: worlds by their verdict, with the one on a substitute; after a comma, what distinguishes a second world
# of the same verdict.
CASES = {
    "experiments_sentences.higher_everywhere": worlds_of_higher_accuracy("fedstas"),
    "experiments_sentences.higher_iid_too": worlds_of_higher_accuracy("fedstas"),
    "experiments_sentences.best_everywhere": worlds_of_higher_accuracy("fedstas"),
    "experiments_sentences.md_over_fedavg": worlds_of_higher_accuracy("md"),
    "experiments_sentences.fastest_everywhere": ROUNDS_TO_HALF_OF_THREE,
    "experiments_sentences.efficiency": ROUNDS_TO_HALF,
    "experiments_sentences.cifar100_counts": {"agrees": 60_000, "differs": 50_000},
    "experiments_sentences.amplifies": {
        "agrees": World({"fedstas": 0.52}, by_partition={SKEWED: World({"fedstas": 0.7})}),
        "differs": World({"fedstas": 0.7}, by_partition={SKEWED: World({"fedstas": 0.52})}),
        "undecided": World(spread=0.06, by_partition={SKEWED: World(spread=-0.06)}),
    },
    "experiments_sentences.new_standard": worlds_of_higher_accuracy("fedstas"),
    "experiments_sentences.neyman_helps": worlds_of_higher_accuracy("strat-neyman")
    | {"undecided, the same runs": World(spread=0)},
    "experiments_sentences.fedsts_over_random": {
        "agrees": World(rounds_to_end={"fedsts": 20, "md": 80, "fedavg": 80}, default_accuracy=0.6),
        "differs": World(
            rounds_to_end={"fedsts": 80, "md": 20, "fedavg": 20}, default_accuracy=0.6
        ),
        "undecided": World(default_accuracy=0.6, spread=0.12),
    },
    "experiments_sentences.compression_gain": {
        "agrees": compressed_runs(0.1),
        "differs": compressed_runs(0.0),
        "undecided": compressed_runs(0.0, spread=0.06),
        "undecided, too few seeds": compressed_runs(0.1, seeds=4),
    },
    "experiments_sentences.keeps_most": {
        "agrees": World({"fedsts": 0.4, "fedstas": 0.5, "fedstas-dp": 0.49}),
        "differs": World({"fedsts": 0.4, "fedstas": 0.5, "fedstas-dp": 0.41}),
        "undecided": World(spread=0.06),
    },
    "experiments_sentences.limited_loss": {
        "agrees": World({"fedstas": 0.51}),
        "differs": World({"fedstas": 0.55}),
        "undecided": World({"fedstas": 0.52}, spread=0.06),
    },
    "experiments_sentences.gains_with_skew": {
        "agrees": World(by_partition={SKEWED: World({"fedstas": 0.7})}),
        "differs": World({"fedstas": 0.7}, by_partition={SKEWED: World()}),
        "undecided": World(spread=0.06, by_partition={SKEWED: World(spread=-0.06)}),
    },
    "experiments_sentences.promised_guarantees": {
        "holds": ledger_verdict("holds"),
        "holds-if": ledger_verdict("holds-if"),
        "fails": ledger_verdict("fails"),
    },
    "experiments_sentences.data_sets": {"agrees": 2, "differs": 3},
    "experiments_sentences.baseline_twice": {"agrees": 55.01, "differs": 50},
    "experiments_sentences.own_bars_mnist": {"agrees": 55.1, "differs": 54.67},
    "experiments_sentences.own_bars_skewed": {"agrees": 52.7, "differs": 52.14},
    "experiments_sentences.own_bars_hundred": {"agrees": 20.48, "differs": 17.9},
    "experiments_figures.mnist_order": worlds_of_higher_accuracy("fedstas"),
    "experiments_figures.mnist_order_global": worlds_of_higher_accuracy("fedstas"),
    "experiments_figures.mnist_dp_order": worlds_of_higher_accuracy("fedstas-dp"),
    "experiments_figures.mnist_dp_cost": worlds_of_gain(2 * 1.33),  # 1.33 points of 50
    "experiments_figures.skewed_dp_order": worlds_of_higher_accuracy("fedstas-dp"),
    "experiments_figures.cifar100_dp_order": worlds_of_higher_accuracy("fedstas-dp"),
    "experiments_figures.mnist_gain": worlds_of_gain(1.8),
    "experiments_figures.skewed_gain": worlds_of_gain(17.6),
    "experiments_figures.cifar100_gain": worlds_of_gain(28.9),
    "experiments_figures.mnist_fedsts": worlds_of_printed_level("fedsts", 50),
    "experiments_figures.mnist_fedstas": worlds_of_printed_level("fedstas", 56),
    "experiments_figures.mnist_dp": worlds_of_printed_level("fedstas-dp", 54.67),
    "experiments_figures.skewed_fedsts": worlds_of_printed_level("fedsts", 52.62),
    "experiments_figures.skewed_fedstas": worlds_of_printed_level("fedstas", 61.9),
    "experiments_figures.skewed_dp": worlds_of_printed_level("fedstas-dp", 52.14),
    "experiments_figures.cifar100_fedsts": worlds_of_printed_level("fedsts", 18),
    "experiments_figures.cifar100_fedstas": worlds_of_printed_level("fedstas", 23.21),
    "experiments_figures.cifar100_dp": worlds_of_printed_level("fedstas-dp", 20.48),
    "experiments_figures.loss_fedsts": worlds_of_printed_level("fedsts", 1.512, is_loss=True),
    "experiments_figures.loss_fedstas": worlds_of_printed_level("fedstas", 1.505, is_loss=True),
    "experiments_figures.loss_dp": worlds_of_printed_level("fedstas-dp", 1.473, is_loss=True),
    "experiments_figures.rounds_to_half": ROUNDS_TO_HALF,
    "experiments_figures.by_round_40": {
        "agrees": World(rounds_to_end={"fedstas": 20, "fedsts": 80}),
        "differs": World(rounds_to_end={"fedstas": 80, "fedsts": 20}),
        "undecided": World(spread=0.06),
    },
    "experiments_figures.begins_at": {
        "agrees": World(first_accuracy=0.11),
        "differs": World(first_accuracy=0.2),
        "undecided": World(first_accuracy=0.1, spread=0.03),
    },
    "experiments_figures.loss_falls": {
        "agrees": World(),
        "differs": World(final_loss=dict.fromkeys(figures.METHODS, 2.4)),
        "undecided": World(final_loss=dict.fromkeys(figures.METHODS, 2.3), spread=0.2),
    },
    "experiments_figures.figure_1": {
        "agrees": class_shares(0.9, 0.1),
        "differs": class_shares(0.1, 0.1),
        "undecided": class_shares(0.12, 0.1, spread=0.1),
    },
    "experiments_figures.more_skewed": {
        "agrees": class_shares(0.5, 0.1),
        "differs": class_shares(0.5, 0.1, grows=False),
        "undecided": class_shares(0.5, 0.1, spread=0.2),
    },
    "experiments_figures.equal_portions": {
        "agrees": iid_counts(np.full((100, 10), 60)),
        "differs": iid_counts(np.arange(1000).reshape(100, 10)),
    },
    "experiments_figures.mnist_counts": {
        "agrees": iid_counts(np.full((100, 10), 60)),
        "differs": iid_counts(np.full((100, 9), 60)),
    },
    "experiments_clustered.size_loss": worlds_of_lower_loss("clustered-size"),
    "experiments_clustered.size_accuracy": worlds_of_higher_accuracy("clustered-size"),
    "experiments_clustered.size_digits": worlds_of_more_digits("clustered-size"),
    "experiments_clustered.similarity_loss": worlds_of_lower_loss("clustered-similarity"),
    "experiments_clustered.similarity_accuracy": worlds_of_higher_accuracy("clustered-similarity"),
    "experiments_clustered.similarity_digits": worlds_of_more_digits("clustered-similarity"),
    "experiments_clustered.better_in_figure_1": {
        "agrees": World(dict.fromkeys(BOTH_ALGORITHMS, 0.6)),
        "differs": World({"clustered-size": 0.4, "clustered-similarity": 0.6}),
        "undecided": World({"clustered-similarity": 0.6}, spread=0.06),
    },
    "experiments_clustered.as_the_target": {
        "agrees": World(rounds=200),
        "differs": World({"target": 0.6}, rounds=200),
        "undecided": World(rounds=200, spread=0.06),
        "undecided, a round too few": World({"target": 0.6}, rounds=199),
    },
    "experiments_clustered.digits_of_md": {
        "agrees": recorded_cohorts({"md": [(7, 7)]}),
        "differs": recorded_cohorts({"md": [(5, 5)]}),
        "undecided": recorded_cohorts({"md": [(7, 7), (7, 7), (5, 7)]}),
        "undecided, too few seeds": recorded_cohorts({"md": [(7, 7)]}, seeds=4),
    },
    "experiments_clustered.ten_clients": {
        "agrees": recorded_cohorts({}, 10),
        "differs": recorded_cohorts({}, 9),
        "undecided": recorded_cohorts({}, 10, seeds=4),
    },
    "experiments_clustered.finds_the_groups": {
        "agrees": recorded_cohorts({"clustered-similarity": [(7, 10)]}),
        "differs": recorded_cohorts({"clustered-similarity": [(7, 8)]}),
        "differs, found in the first rounds": recorded_cohorts(
            {"clustered-similarity": [(10, 10)]}
        ),
        "undecided": recorded_cohorts({"clustered-similarity": [(7, 10), (7, 9)]}),
        "undecided, too few seeds": recorded_cohorts({"clustered-similarity": [(7, 10)]}, seeds=4),
    },
    "experiments_clustered.smoother_loss": SMOOTH,
    "experiments_clustered.smoother_accuracy": SMOOTH,
    "experiments_clustered.same_messages": {
        "agrees": World(megabytes={"md": 1.02}),
        "differs": World(megabytes={"md": 1.2}),
    },
    "experiments_cifar10.cifar_partitions": {
        "agrees": cifar_partitions(pure=True),
        "differs": cifar_partitions(pure=False),
        "undecided": cifar_partitions(pure=False, scatter=True),
    },
    "experiments_cifar10.on_all_settings": {
        "agrees": lower_loss(0),
        "agrees, better than md": lower_loss(0.2),
        "differs": lower_loss(0.2, by_value={("measure", "L1"): lower_loss(-0.1)}),
        "differs, worse with 500 steps": lower_loss(
            0.2, by_value={("steps", 500): lower_loss(-0.1)}
        ),
        "undecided": SCATTERED,
    },
    "experiments_cifar10.on_heavy_skew": ON_CIFAR
    | {
        "differs, as md at 0.001": lower_loss(
            0.2, by_value={("concentration", 0.001): lower_loss(0)}
        )
    },
    "experiments_cifar10.on_light_skew": {
        "agrees": lower_loss(0),
        "differs": lower_loss(0.2),
        "differs, worse at 10": lower_loss(0, by_value={("concentration", 10.0): lower_loss(-0.2)}),
        "undecided": SCATTERED,
    },
    "experiments_cifar10.faster_on_any_skew": {
        "agrees": early_end(50),
        "differs": early_end(90),
        "differs, late at 10": early_end(50, by_value={("concentration", 10.0): early_end(90)}),
        "undecided": World(spread=0.5),
    },
    "experiments_cifar10.smoother_loss_overall": SMOOTHER_OVERALL,
    "experiments_cifar10.smoother_accuracy_overall": SMOOTHER_OVERALL,
    "experiments_clustered.similarity_faster": {
        "agrees": early_end(50),
        "differs": early_end(95),
        "undecided": World(spread=0.5),
    },
    "experiments_cifar10.faster_in_larger_cohorts": worlds_by_cohort_size(
        {
            "agrees": ({}, (90, 70, 40)),
            "differs": ({}, (40, 70, 90)),
            "differs, both algorithms but not md": ({"md": 90}, (90, 70, 40)),
            "undecided": ({}, (90, 70, 40), (60, 70, 80)),
        }
    )
    | {
        "undecided, down to losses above a guess": World(
            final_loss=dict.fromkeys(("md", *BOTH_ALGORITHMS), 2.4)
        )
    },
    "experiments_cifar10.by_size_in_figure_6": worlds_of_lower_loss("clustered-size"),
    "experiments_cifar10.best_prox": worlds_by_prox(
        {
            "agrees": {"final_loss": {"md": 1.3}},
            "differs": {"final_loss": {"md": 1.6}},
            "differs, the same loss": {},
            "undecided": {"spread": 0.1, "final_loss": {"md": 1.48}},
        }
    ),
    "experiments_cifar10.smoother_with_prox": worlds_by_prox(
        {
            "agrees": {"oscillation": dict.fromkeys(("md", *BOTH_ALGORITHMS), 0.1)},
            "differs": {"oscillation": dict.fromkeys(("md", *BOTH_ALGORITHMS), 0.2)},
            "differs, both algorithms but not md": {
                "oscillation": {"md": 0.2} | dict.fromkeys(BOTH_ALGORITHMS, 0.1)
            },
            "undecided": {
                "oscillation": dict.fromkeys(("md", *BOTH_ALGORITHMS), 0.19),
                "spread": 0.05,
            },
        },
        usual={"oscillation": dict.fromkeys(("md", *BOTH_ALGORITHMS), 0.2), "seed_spread": 0},
    ),
    "experiments_cifar10.grows_with_skew": worlds_by_setting(
        "concentration",
        {
            "agrees": {10.0: 0, 0.1: 0.1, 0.01: 0.2, 0.001: 0.3},
            "differs": {10.0: 0.3, 0.1: 0.2, 0.01: 0.1, 0.001: 0},
            "differs, a constant gain": dict.fromkeys((10.0, 0.1, 0.01, 0.001), 0.3),
        },
    )
    | opposite_trends("concentration", 10.0, 0.001),
    "experiments_cifar10.on_measures": {
        "agrees": lower_loss(0.2),
        "differs": lower_loss(0.2, by_value={("measure", "L2"): lower_loss(-0.1)}),
        "differs, better than md but not alike": lower_loss(
            0.2, by_value={("measure", "L2"): lower_loss(0.5)}
        ),
        "undecided": SCATTERED,
    },
    "experiments_cifar10.on_local_work": worlds_by_local_steps(
        {
            "agrees": {10: 90, 100: 70, 500: 50},
            "differs": {10: 50, 100: 70, 500: 90},
            "differs, a constant gain": {10: 50, 100: 50, 500: 50},
        }
    )
    | opposite_trends("steps", 10, 500, spread=0.5),
    "experiments_cifar10.better_with_more_work": worlds_by_setting(
        "steps",
        {
            "agrees": {10: 0, 50: 0.1, 100: 0.2, 500: 0.3},
            "differs": {10: 0.3, 50: 0.2, 100: 0.1, 500: 0},
            "differs, a constant gain": dict.fromkeys((10, 50, 100, 500), 0.3),
        },
    )
    | opposite_trends("steps", 10, 500),
    "experiments_cifar10.on_cohorts": worlds_by_setting(
        "clients_per_round",
        {
            "agrees": {5: 0.3, 10: 0.2, 20: 0.1},
            "differs": {5: 0.1, 10: 0.2, 20: 0.3},
            "differs, the trend but no gain with twenty": {5: 0.3, 10: 0.2, 20: 0},
            "differs, a gain but no trend": dict.fromkeys((5, 10, 20), 0.2),
        },
    )
    | {
        "undecided": World(
            by_value={
                ("clients_per_round", 5): lower_loss(0.3, spread=0.1),
                ("clients_per_round", 10): lower_loss(0.2),
                ("clients_per_round", 20): lower_loss(0.1, spread=-0.1),
            }
        )
    },
    "experiments_cifar10.on_prox": ON_CIFAR
    | {"differs, as md with prox": lower_loss(0.2, by_value={("prox", 0.1): lower_loss(0)})},
    "experiments_messages.compressed": worlds_of_higher_accuracy("clustered-similarity"),
    "experiments_messages.noisy": worlds_of_higher_accuracy("clustered-similarity"),
    "experiments_messages.masked": {
        "agrees": World(),
        "differs": World(by_value={("message", "masked"): World(default_accuracy=0.4)}),
        "undecided": World(by_value={("message", "masked"): World(spread=0.06)}),
    },
    "experiments_cifar10.captions_and_code": {"agrees": 0.01, "differs": 0.1},
    "experiments_sentences.code_of_2025": {
        "differs": patch_function(
            sentences, "steps_of_text_and_code", [("weights", "1/m", "N_h/m_h")]
        ),
        "agrees": patch_function(sentences, "steps_of_text_and_code", [("weights", "1/m", "1/m")]),
        "differs, as computed": lambda monkeypatch: None,
    },
    "experiments_fedsampling.on_titles": worlds_of_private_fedsampling(
        {"centralised": 9, "fedyogi": 9}, "macro_f1", "reuters-titles", "lognormal"
    ),  # neither decides
    "experiments_fedsampling.on_posts": worlds_of_private_fedsampling(
        {"centralised": 9}, "macro_f1", "newsgroups-words"
    ),
    "experiments_fedsampling.on_titles_by_transformer": worlds_of_private_fedsampling(
        {"centralised": 9}, "macro_f1", "reuters-titles", "lognormal", network="transformer"
    ),
    "experiments_fedsampling.on_titles_by_transformer_accuracy": worlds_of_private_fedsampling(
        {}, "test_accuracy", "reuters-titles", "lognormal", network="transformer"
    ),
    "experiments_fedsampling.on_posts_by_transformer": worlds_of_private_fedsampling(
        {"centralised": 9}, "macro_f1", "newsgroups-words", network="transformer"
    ),
    "experiments_fedsampling.on_titles_accuracy": worlds_of_private_fedsampling(
        {"centralised": 9, "fedyogi": 9}, "test_accuracy", "reuters-titles", "lognormal"
    ),
    "experiments_fedsampling.on_posts_accuracy": worlds_of_private_fedsampling(
        {}, "test_accuracy", "newsgroups-words"
    ),
    "experiments_fedsampling.on_posts_by_transformer_accuracy": worlds_of_private_fedsampling(
        {}, "test_accuracy", "newsgroups-words", network="transformer"
    ),
    "experiments_fedsampling.weighted": worlds_of_private_fedsampling(
        {}, "test_accuracy", "reuters-titles", "lognormal"
    ),
    "experiments_fedsampling.sorted_by_class": worlds_of_private_fedsampling(
        {}, "test_accuracy", "mnist", "by_class"
    ),
    "experiments_fedsampling.sorted_by_class_convolutional": worlds_of_private_fedsampling(
        {}, "test_accuracy", "mnist", "by_class", network="convolutional-grey"
    ),
    "experiments_fedsampling.imbalance": {
        "agrees": imbalanced_ends({"fedavg": 5, "md": 5, "fedsampling": 1}, 0),
        "differs": imbalanced_ends({"fedavg": 1, "md": 1}, 0),
        "differs, all fall alike": imbalanced_ends({"fedavg": 5, "md": 5, "fedsampling": 5}, 0),
        "undecided": imbalanced_ends({"fedavg": 3, "md": 3, "fedsampling": 2}, 0, spread=3),
        "undecided, too few seeds": imbalanced_ends({"fedavg": 5, "md": 5}, 0, seeds=4),
    },
    "experiments_fedsampling.beside_centralised": {
        "no-data agrees": centralised_ends(0.2),
        "no-data differs": centralised_ends(-3),
        "no-data undecided": centralised_ends(0, spread=4),
        "no-data undecided, too few seeds": centralised_ends(0.2, seeds=4),
        "no-data": centralised_ends(0.2, seeds=1),
    },
    "experiments_fedsampling.better_sampling": {
        "agrees": imbalanced_ends({}, 3),
        "differs": imbalanced_ends({}, -3),
        "undecided": imbalanced_ends({}, 0, spread=3),
        "undecided, too few seeds": imbalanced_ends({}, 3, seeds=4),
    },
}
# Counted or calculated, without chance, or from other verdicts: there is nothing undecided.
EXACT_MODULES = {
    "sentences": "promised_guarantees data_sets baseline_twice own_bars_mnist own_bars_skewed own_bars_hundred "
    "cifar100_counts code_of_2025",
    "figures": "equal_portions mnist_counts",
    "clustered": "same_messages",
    "cifar10": "captions_and_code",
}
EXACT = {
    f"experiments_{module}.{n}" for module, names in EXACT_MODULES.items() for n in names.split()
}


def decide_in_world(name: str, world, monkeypatch) -> Evidence:
    """Decide the function's claim in the world; a world that is a number replaces the printed value."""
    claim = BY_FUNCTION[name]
    if callable(world):
        world(monkeypatch)
    else:
        claim = replace(claim, printed=world)
    return claim.decide(claim)


def verdict_of(key: str) -> str:
    """Return the verdict in the key of a world of `CASES`: "undecided" of "undecided, too few seeds"."""
    return key.partition(",")[0]


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, worlds in CASES.items() for key in worlds]
)
def test_a_claim_has_the_expected_verdict_on_synthetic_runs(name, key, monkeypatch):
    evidence = decide_in_world(name, CASES[name][key], monkeypatch)
    assert f"{evidence.verdict} {evidence.substitute}".strip() == verdict_of(key)
    if verdict_of(key).endswith("undecided"):
        assert "undecided" in evidence.note.lower()


def test_the_table_of_a_claim_on_the_loss_is_of_the_loss(monkeypatch):
    lower_loss(0.2)(monkeypatch)
    claim = BY_FUNCTION["experiments_clustered.similarity_loss"]
    assert set(claim.decide(claim).table["measured"]) == {"training loss"}
    claim = BY_FUNCTION["experiments_clustered.similarity_accuracy"]
    assert "difference (points)" in claim.decide(claim).table


@pytest.mark.parametrize(
    "name", [n for n, w in CASES.items() if isinstance(next(iter(w.values())), World)]
)
def test_fewer_than_five_seeds_decide_nothing(name, monkeypatch):
    word, world = next(iter(CASES[name].items()))
    parts = {
        part: {k: replace(w, seeds=4) for k, w in getattr(world, part).items()}
        for part in ("by_partition", "by_value")
    }
    evidence = decide_in_world(name, replace(world, seeds=4, **parts), monkeypatch)
    without_data = word.startswith("no-data")
    expected = ("no-data", "undecided") if without_data else ("undecided", "")
    assert (evidence.verdict, evidence.substitute) == expected


ON_CIFAR_ONLY = """
    on_all_settings on_heavy_skew on_light_skew grows_with_skew faster_on_any_skew smoother_loss_overall
    smoother_accuracy_overall by_size_in_figure_6 best_prox smoother_with_prox on_measures on_local_work on_cohorts
    better_with_more_work faster_in_larger_cohorts on_prox
"""
CIFAR = [n for n in CASES if n.partition(".")[2] in ON_CIFAR_ONLY.split()]


@pytest.mark.parametrize("name", CIFAR)
@pytest.mark.parametrize("recorded", [(), ("mnist",), ("mnist", "cifar100-coarse10")])
def test_without_cifar10_a_claim_has_no_data_and_the_verdict_on_a_substitute(
    name, recorded, monkeypatch
):
    for key, world in CASES[name].items():

        def runs(setting, *methods, world=world):
            """Return the runs of the world, if the setting's data set is among the recorded ones."""
            if setting.task not in recorded:
                raise experiments.MissingRuns(
                    "pending", f"`fedstas sweep {setting.sweep}` records it"
                )
            return world.frame(setting, methods)

        monkeypatch.setattr(experiments.Setting, "runs", runs)
        claim = BY_FUNCTION[name]
        evidence = claim.decide(claim)
        assert evidence.verdict == "no-data"
        assert evidence.substitute == (verdict_of(key) if recorded else "")
        assert "`fedstas sweep clustered-cifar10`" in evidence.note
        substitute_index = name.endswith(("heavy_skew", "with_skew")) and len(recorded) > 1
        if recorded:
            assert f"On {recorded[substitute_index]} instead: " in evidence.note
        else:
            assert "on mnist instead: `fedstas sweep clustered-mnist`" in evidence.note
            assert evidence.ours is None


@pytest.mark.parametrize("seeds, decides", [(5, "cifar100-coarse10"), (3, "mnist")])
def test_a_substitute_with_colour_images_decides_once_two_concentrations_have_enough_seeds(
    seeds, decides, monkeypatch
):
    skewed_gain = lower_loss(0.2, by_value={("concentration", 10.0): lower_loss(0)})

    def runs(setting, *methods):
        """Return runs with a gain at concentration 0.01 and none at 10; CIFAR-10 is not recorded."""
        if setting.task == "cifar10":
            raise experiments.MissingRuns("pending", "not recorded")
        if setting.task == "cifar100-coarse10":
            if setting.concentration not in (10.0, 0.01):
                raise experiments.MissingRuns("pending", "not recorded")
            by_value = {
                key: replace(world, seeds=seeds) for key, world in skewed_gain.by_value.items()
            }
            return replace(skewed_gain, seeds=seeds, by_value=by_value).frame(setting, methods)
        return replace(skewed_gain, by_value={}).frame(setting, methods)

    monkeypatch.setattr(experiments.Setting, "runs", runs)
    heavy, trend = (
        BY_FUNCTION[f"experiments_cifar10.{name}"].decide(None)
        for name in ("on_heavy_skew", "grows_with_skew")
    )
    assert all(f"On {decides} instead: " in evidence.note for evidence in (heavy, trend))
    in_colour = decides != "mnist"
    assert heavy.substitute == "agrees" and len(heavy.table) == (2 if in_colour else 4)
    assert trend.substitute == ("agrees" if in_colour else "differs")
    assert set(trend.table["concentration"]) >= ({"0.01", "10"} if in_colour else {"0.001", "0.1"})


def test_ways_to_draw_clients_are_compared_at_the_usual_spread_of_the_sizes_alone(monkeypatch):
    CASES["experiments_fedsampling.weighted"]["agrees"](monkeypatch)
    usual = fedsampling._recorded_ends()
    wide = usual.assign(sigma=3.0, test_accuracy=0.0)[usual["arm"] == fedsampling.PRIVATE]
    patch_function(fedsampling, "_recorded_ends", pd.concat([usual, wide]))(monkeypatch)
    assert fedsampling.weighted(None).verdict == "agrees"


def test_a_row_on_real_text_says_how_many_seeds_are_left_out_because_fedsampling_diverged():
    """On titles private FedSampling diverges in some seeds, on posts in none."""
    runs = fedsampling._recorded_ends(fedsampling.REAL_TEXT)
    titles = runs[(runs[[*fedsampling.TITLES]] == fedsampling.TITLES).all(axis=1)]
    private = titles[titles["arm"] == fedsampling.PRIVATE]
    lost = int(private["macro_f1"].isna().sum())
    note = fedsampling.on_titles(SimpleNamespace(statement="MIND")).note
    assert lost > 0 and f"Left out are {lost} seeds in which private FedSampling diverged." in note
    assert "Left out" not in fedsampling.on_posts(SimpleNamespace(statement="Amazon-Toys")).note


def test_deciding_part_returns_the_part_on_which_the_verdict_depends():
    parts = [
        experiments.Judgement(word, mean, mean - 1, mean + 1, 5)
        for word, mean in (("agrees", -9), ("undecided", 3), ("undecided", 2), ("agrees", 5))
    ]
    assert experiments.deciding_part(parts) is parts[2]
    assert experiments.deciding_part(parts[::3]) is parts[0]
    contradicted = experiments.Judgement("differs", 8, 7, 9, 5)
    assert experiments.deciding_part([*parts, contradicted]) is contradicted
    # Of two algorithms the one whose trend surely contradicts the claim decides.
    evidence = experiments_cifar10.on_cohorts.__wrapped__(losses.MNIST)
    assert evidence.verdict == "differs" and evidence.high < 0


def test_every_function_that_decides_on_runs_has_cases_of_each_verdict():
    assert set(CASES) == set(BY_FUNCTION)
    for name, worlds in CASES.items():
        verdicts = {verdict_of(key).split()[-1] for key in worlds}
        assert verdicts & {"agrees", "holds"} and verdicts & {"differs", "fails"}, name
        assert "undecided" in verdicts or name in EXACT, name


def test_the_decision_rules_give_the_documented_verdicts_near_their_thresholds():
    def values(mean: float, half: float, k: int = 5) -> np.ndarray:
        """Return k values whose mean has a 95 % interval of this half width."""
        base = np.linspace(-1, 1, k)
        _, low, high = experiments.statistics.mean_interval(base)
        return mean + base * half / ((high - low) / 2)

    def judge(rule, mean_half_k: tuple, *arguments, **options) -> str:
        """Return the verdict of a rule on `values(*mean_half_k)` and further arguments."""
        return rule(values(*mean_half_k), *arguments, **options).verdict

    higher, equal = experiments.judge_higher, experiments.judge_equal
    assert judge(higher, (0.2, 0.1), "points") == "agrees"  # above zero, however little
    assert judge(higher, (0.2, 0.3), "points") == "differs"  # contains zero, and ends below 1 point
    assert judge(higher, (-3, 2.5), "points") == "differs"
    assert judge(higher, (0.2, 0.9), "points") == "undecided"  # contains zero and 1 point
    assert judge(higher, (0.2, 0.9), "rounds") == "differs"
    assert judge(higher, (9, 0.9, 4), "points") == "undecided"
    # With Bonferroni's correction for 12 comparisons the interval is 2.1 times as wide, and holds 1 point.
    assert judge(higher, (0.2, 0.6), "points") == "differs"
    assert judge(higher, (0.2, 0.6), "points", comparisons=12) == "undecided"
    assert judge(higher, (0.2, 0.1), "points", comparisons=12) == "agrees"  # uncorrected
    assert judge(higher, (-3, 0.9), "points", comparisons=12) == "differs"
    assert judge(equal, (50.2, 0.5), 50, "points") == "agrees"
    assert judge(equal, (50.2, 0.9), 50, "points") == "undecided"
    assert judge(equal, (52, 1.5), 50, "points") == "differs"
    assert judge(equal, (52, 1.5), 50, "points", tolerance=1) == "undecided"
    assert judge(equal, (52, 1.5), 50, "points", comparisons=3) == "undecided"
    assert judge(equal, (60, 1.5), 50, "points", comparisons=3) == "differs"
    assert judge(equal, (50, 0.1, 4), 50, "points") == "undecided"
    with pytest.raises(ValueError, match="a value is missing"):
        higher([1, 2, np.nan, 3, 4], "points")
    lower = experiments.judge_not_lower
    assert judge(lower, (-0.02, 0.005), "nats") == "agrees"  # the difference is too small to matter
    assert judge(lower, (-0.05, 0.045), "nats") == "differs"
    # Of 20 comparisons one may look different by chance.
    assert judge(lower, (-0.05, 0.045), "nats", comparisons=20) == "undecided"
    assert judge(lower, (-0.05, 0.01), "nats", comparisons=20) == "differs"
    combine = experiments.combine_verdicts
    assert combine(["agrees", "agrees"]) == "agrees"
    assert combine(["agrees", "no-data", "undecided"]) == "undecided"
    assert combine(["undecided", "differs", "no-data"]) == "differs"
    assert combine(["agrees", "pending", "no-data"]) == "no-data"


def test_predict_published_counts_the_published_values_within_the_prediction_intervals():
    world = World(
        {"ours": 0.5, "md": 0.51, "other": 0.8},
        spread=0.02,
        seed_spread=0,
        final_loss={"ours": 1.5},
    )
    frame = world.frame(figures.FIXED, ("ours", "md", "other"))
    published = [
        ("ours", "client_accuracy", 40, 50.0),
        ("ours", "client_accuracy", None, 51.0),
        ("ours", "train_loss", None, 1.5),
        ("ours", "client_accuracy", 20, 90.0),
    ]
    inside, _ = figures.count_in_prediction_intervals(frame, published, lambda m: m)
    assert inside == 3
    inside, half_widths = figures.count_in_prediction_intervals(
        frame, published[:2], lambda m: "md"
    )
    assert inside == 2  # the count compares levels, whatever the method
    assert len(half_widths) == 2 and all(2 < half_width < 20 for half_width in half_widths)
    inside, _ = figures.count_in_prediction_intervals(frame, published, lambda m: "other")
    assert inside == 0


@pytest.mark.parametrize("name", CIFAR)
def test_a_claim_on_cifar10_is_decided_at_the_reduced_length_and_says_so(name, monkeypatch):
    for key, world in CASES[name].items():

        def runs(setting, *methods, world=world):
            """Return the runs of the world, if the setting is one of the reduced length or a substitute."""
            if setting.sweep == losses.CIFAR.sweep:
                raise experiments.MissingRuns("pending", "nothing of the paper's length")
            if setting.sweep == losses.CIFAR_SHORT.sweep:
                setting = replace(setting, steps=5 * setting.steps)  # those of the paper
            return world.frame(setting, methods)

        monkeypatch.setattr(experiments.Setting, "runs", runs)
        claim = BY_FUNCTION[name]
        evidence = claim.decide(claim)
        assert (evidence.verdict, evidence.substitute) == (verdict_of(key), "")
        assert evidence.note.startswith("At a reduced length (a fifth of the local steps")


@pytest.mark.parametrize(
    ("gains", "true", "false"),
    [
        # By concentration, for both algorithms: alike everywhere, nowhere, and where clients are most heterogeneous.
        ({}, {"similar"}, {"open", "even", "grown", "above guess"}),
        (dict.fromkeys(losses.SKEWS, 0.0), {"even", "level"}, {"similar", "grown", "open"}),
        ({10.0: 0.0, 0.1: 0.0, 0.01: 0.1}, {"even", "grown"}, {"similar", "level"}),
    ],
)
def test_the_sentences_on_cifar10_are_held_by_the_runs(gains, true, false, monkeypatch):
    world = lower_loss(
        0.2, by_value={("concentration", c): lower_loss(g) for c, g in gains.items()}
    )
    world(monkeypatch)
    _, holds = clustered_figures.reduced_findings()
    assert {name for name in true | false if holds[name]} == true


def test_the_row_on_the_network_for_images_says_what_a_tenth_of_the_clients_gives(monkeypatch):
    levels = {"fedavg": 50.0, "md": 45.0, fedsampling.PRIVATE: 60.0, fedsampling.TENTH: 51.0}
    setting = {"task": "mnist", "partition": "by_class", "network": "convolutional-grey"}
    rows = [
        setting | {"arm": arm, "seed": seed, "test_accuracy": level + (seed - 2) * 0.1 * k}
        for k, (arm, level) in enumerate(levels.items())
        for seed in range(5)
    ]
    monkeypatch.setattr(fedsampling, "_recorded_ends", lambda *sweeps: pd.DataFrame(rows))
    evidence = fedsampling.sorted_by_class_convolutional(SimpleNamespace(statement="FEMNIST"))
    assert (evidence.verdict, evidence.substitute) == ("no-data", "agrees")
    assert evidence.note.endswith("the points above fedavg are 1.0 (0.4 to 1.6).")
