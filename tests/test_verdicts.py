"""Every function that decides a claim on runs, in worlds made up: where the claim is true, where it is
false, where the runs cannot tell, and where there are too few of them."""

import itertools
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest
from deciders import claims_by_function

from companion.claims.evidence import experiments
from companion.claims.evidence import experiments_clustered as clustered
from companion.claims.evidence import experiments_fedsampling as fedsampling
from companion.claims.evidence import experiments_figures as figures
from companion.claims.evidence import experiments_sentences as sentences
from companion.claims.registry import Evidence

BY_FUNCTION = {
    name: claims[0]
    for name, claims in claims_by_function().items()
    if name.startswith("experiments")
}
NO_DATA = {
    "agrees": "no-data agrees",
    "differs": "no-data differs",
    "undecided": "no-data undecided",
}


@dataclass(frozen=True)
class World:
    """Runs of every method: accuracies rise from 10 % to `ends` (else `rest`), the loss falls from 2.3."""

    ends: dict = field(default_factory=dict)  # accuracy at the end by method
    rest: float = 0.5  # that of all others
    wide: float = 0.0005  # spread of single runs, which methods do not share; its mean is 0
    shared: float = 0.02  # from seed to seed, which they do
    seeds: int = 6
    reach: dict = field(
        default_factory=dict
    )  # the round from which the accuracy is that of the end
    loss: dict = field(default_factory=dict)
    first: float | None = None  # accuracy after round 1
    jump: dict = field(default_factory=dict)  # from one round to the next
    bytes: dict = field(default_factory=dict)
    rounds: int = 99
    where: dict = field(default_factory=dict)  # partition and concentration -> another world
    at: dict = field(default_factory=dict)  # the same by name and value of one thing of a setting

    def frame(self, setting, methods) -> pd.DataFrame:
        for (key, value), there in self.at.items():
            if getattr(setting, key) == value:
                return there.frame(setting, methods)
        if here := self.where.get((setting.partition, setting.concentration)):
            return here.frame(setting, methods)
        t, parts = np.arange(1, self.rounds + 1), []
        for method in methods:
            end, reach = self.ends.get(method, self.rest), self.reach.get(method, 40)
            noise = np.random.default_rng([*method.encode()]).normal(size=self.seeds)
            for seed, own in enumerate(self.wide * (noise - noise.mean())):
                rise = 0.1 + (end - 0.1) * np.minimum(1, t / reach)
                jumps = (self.jump[method] + own) * (-1.0) ** t if method in self.jump else 0
                value = rise + own + self.shared * (seed - self.seeds / 2) + jumps
                if self.first is not None:
                    value[0] = self.first + own
                loss = 2.3 - (2.3 - self.loss.get(method, 2 - end)) * np.minimum(1, t / reach)
                sent = self.bytes.get(method, 1) * t * 1e6
                parts.append(
                    pd.DataFrame(
                        {
                            "run": f"{method}{seed}", "method": method, "seed": seed, "round": t,
                            "rounds": self.rounds, "client_accuracy": value, "test_accuracy": value,
                            "macro_f1": value, "train_loss": loss + own * t / self.rounds + jumps,
                            "bytes_down": sent, "bytes_up": sent,
                        }
                    )
                )  # fmt: skip
        return pd.concat(parts, ignore_index=True)

    def __call__(self, patch) -> None:
        world = self
        patch.setattr(
            experiments.Setting, "runs", lambda self, *methods: world.frame(self, methods)
        )


def puts(module, name: str, value):
    """A world in which a function of that module gives this."""
    return lambda patch: patch.setattr(module, name, lambda *a, **k: value)


def above(better: str, **more) -> dict:
    """One method above all others, below them, and with them where runs scatter."""
    wide = more.pop("wide", 0.06)
    return {
        "agrees": World({better: 0.6}, **more),
        "differs": World({better: 0.4}, **more),
        "undecided": World(wide=wide, **more),
    }


def below(*methods: str) -> dict:
    """The training loss of these is smaller than the others', larger, and lost in the scatter."""
    return {
        "agrees": World(loss=dict.fromkeys(methods, 1.0)),
        "differs": World(loss=dict.fromkeys(methods, 2.0)),
        "undecided": World(wide=0.1),
    }


def level(method: str, printed: float, loss: bool = False) -> dict:
    """The printed value is that of our runs, far from it, and lost in their scatter."""

    def world(value: float, wide: float) -> World:
        ends = {"loss": {method: value}} if loss else {"ends": {method: value / 100}}
        return World(wide=wide, shared=0, **ends)

    off = 0.5 if loss else 15
    return {
        "agrees": world(printed, 0.0005),
        "differs": world(printed + off, 0.0005),
        "undecided": world(printed, 0.05),
    }


def gain(printed: float) -> dict:
    """FedSTaS gains what is printed in %, nothing, and the same with scatter."""
    found = {
        "agrees": (1 + printed / 100, 0.0005),
        "differs": (0.9, 0.0005),
        "undecided": (1, 0.06),
    }
    return {w: World({"fedstas": 0.5 * x}, wide=y, shared=0) for w, (x, y) in found.items()}


def tried(worlds: dict) -> dict:
    """The same where only a substitute can be tried."""
    return {NO_DATA[word]: world for word, world in worlds.items()}


def nowhere(worlds: dict) -> dict:
    """Where one of several settings cannot be had: no claim of all is seen, but one is refuted."""
    return {NO_DATA["agrees"]: worlds["agrees"], "differs": worlds["differs"], "undecided": worlds["undecided"]}  # fmt: skip


def drawn(digits: dict, clients: int = 10, seeds: int = 6, rounds: int = 60):
    """A world of cohorts: `digits[scheme]` are those of the early and of the late rounds, by seed."""
    table = pd.DataFrame(
        (
            m,
            s,
            t,
            clients - (m == "md"),
            digits.get(m, [(7, 7)])[s % len(digits.get(m, [0]))][t > 20],
        )
        for m in clustered.SCHEMES
        for s in range(seeds)
        for t in range(1, rounds + 1)
    )
    table.columns = ["method", "seed", "round", "clients", "digits"]
    return puts(clustered, "recorded_cohorts", table)


def more_digits(scheme: str) -> dict:
    return {
        "agrees": drawn({scheme: [(9, 9), (8, 9)]}),
        "differs": drawn({scheme: [(6, 6), (6, 5)]}),
        "undecided": drawn({scheme: [(9, 9), (6, 6)]}),
        "undecided ": drawn({scheme: [(9, 9)]}, seeds=4),
    }


def imbalanced(fall: dict, ahead: float, wide: float = 0.01, seeds: int = 6):
    """A world of accuracies at sigma 0 and 3; FedSampling is ahead by so many points at both."""
    noise = np.random.default_rng(1).normal(size=(seeds, 2, 3)) * wide
    noise -= noise.mean(0)
    rows = [
        (sigma, s, arm, 80 + ahead * (k == 2) - fall.get(arm, 0) * (sigma > 0) + noise[s, sigma // 3, k])
        for sigma in (0, 3)
        for s in range(seeds)
        for k, arm in enumerate(("fedavg", "md", "fedsampling"))
    ]  # fmt: skip
    return puts(fedsampling, "_imbalanced_ends", pd.DataFrame(rows, columns=["sigma", "seed", "arm", "value"]))  # fmt: skip


def ranked(others: dict, metric="macro_f1", task="topics", partition="natural", network="") -> dict:
    """Worlds of FedSampling's recorded ends: its private form ahead, behind one rival, lost in the scatter, and of
    too few seeds; `others` are the points of methods that do not decide."""
    arms = dict.fromkeys(
        (*fedsampling.AS_WRITTEN, *fedsampling.FEDOPT, "fedavg-unbiased", "md"), 50.0
    )
    arms |= {arm: 50.0 + more for arm, more in others.items()}

    def world(ahead: float, behind: float = 0.0, wide: float = 0.01, seeds: int = 6):
        own = arms | {"fedavg": 50.0 + behind, fedsampling.PRIVATE: 50.0 + ahead}
        noise = np.random.default_rng(2).normal(size=(len(own), seeds)) * wide
        rows = [
            {"task": task, "partition": partition, "network": network, "arm": arm, "seed": s, metric: value + x}
            for (arm, value), own_noise in zip(own.items(), noise - noise.mean(1, keepdims=True), strict=True)
            for s, x in enumerate(own_noise)
        ]  # fmt: skip
        rows += [row | {"network": "another", metric: 0.0} for row in rows]
        return puts(fedsampling, "_recorded_ends", pd.DataFrame(rows))

    return {
        "no-data agrees": world(3),
        "no-data differs": world(3, behind=6),
        "no-data undecided": world(0, wide=4),
        "no-data undecided ": world(3, seeds=4),
        "no-data": world(3, seeds=1),
    }


def squeezed(gap: float, wide: float = 0.0005, seeds: int = 6):
    """A world of runs with 9 and 256 levels."""

    def patch(put) -> None:
        world = World({"nine": 0.5 + gap, "most": 0.5}, wide=wide, seeds=seeds)
        frame = world.frame(figures.FIXED, ("nine", "most")).assign(method="fedstas")
        levels = {r: 9 if r.startswith("nine") else 256 for r in frame["run"].unique()}
        about = {r: {"method": {"clients": {"levels": v}}} for r, v in levels.items()}
        put.setattr(experiments.Setting, "runs", lambda self, *methods: frame)
        put.setattr(sentences.records, "identities", lambda folder: about)

    return patch


def dealt(dirichlet: float, iid: float, grows: bool = True, wide: float = 0.0):
    """A world in which a client's largest class has this share; it grows as the concentration falls."""

    def shares(labels, concentration=0.01, seeds=5):
        falls, each = -np.log10(concentration), {"dirichlet": dirichlet, "iid": iid}
        rows = []
        for s, (name, value) in itertools.product(range(seeds), each.items()):
            scatter = wide * (-1) ** (s + round(falls)) if name == "dirichlet" else 0
            rows.append((name, s, *[value + 0.1 * falls * grows + scatter] * 2))
        return pd.DataFrame(rows, columns=["partition", "seed", "mean", "median"])

    return lambda patch: patch.setattr(figures, "largest_class_shares", shares)


def counts(pure: bool, scatter: bool = False):
    """A world of CIFAR-10 partitions that are pure at 0.001 and even at 10, or the reverse."""

    class Partition:
        @staticmethod
        def dirichlet_fixed_size(labels, sizes, concentration, seed):
            skewed = (concentration < 0.1) is (pure or (scatter and seed % 2 == 0))
            table = (
                np.eye(10, dtype=int)[[0, *range(10)]] * 100 if skewed else np.full((10, 10), 10)
            )
            return type("Dealt", (), {"label_counts": table})

    return lambda patch: patch.setattr(clustered, "partition", Partition)


def verdicts_of(word: str):
    return puts(sentences.ledger, "decide", Evidence(word, note="why"))


def iid_counts(table):
    return puts(figures, "_label_counts", np.asarray(table))


SPEED = {
    "agrees": World(reach={"fedstas": 20, "fedsts": 80}, rest=0.6),
    "differs": World(reach={"fedstas": 80, "fedsts": 20}, rest=0.6),
    "undecided": World(rest=0.6, wide=0.12, seeds=6),
}
BOTH = tuple(clustered.ALGORITHM)
SMOOTH = {
    "agrees": World(jump={"md": 0.2}),
    "differs": World(jump=dict.fromkeys(BOTH, 0.2)),
    "undecided": World(jump={"md": 0.2, "clustered-size": 0.2}, wide=0.05, shared=0),
}


def less(nats: float, **more) -> World:
    """Both algorithms end so many nats below MD sampling."""
    return World(loss={"md": 1.5} | dict.fromkeys(BOTH, 1.5 - nats), **more)


def varied(key: str, **by_word) -> dict:
    """Worlds of nats less than MD sampling at each value of a setting; by verdict, {value: nats}."""
    return {
        word.replace("_", " "): less(0, at={(key, v): less(nats) for v, nats in gains.items()})
        for word, gains in by_word.items()
    }


def early(reach: int, **more) -> World:
    """Both algorithms reach their end after so many rounds, MD sampling after 90."""
    return World(reach={"md": 90} | dict.fromkeys(BOTH, reach), **more)


def faster(**by_word) -> dict:
    """Worlds in which both algorithms reach their end after so many rounds, by local steps."""
    return {
        word.replace("_", " "): World(at={("steps", n): early(t) for n, t in reach.items()})
        for word, reach in by_word.items()
    }


def with_prox(usual=None, /, **by_word) -> dict:
    """Worlds in which mu = 0.1 makes a difference, and no other mu."""
    usual = usual or {"loss": {"md": 1.5}}
    return {
        word.replace("_", " "): World(**usual, at={("prox", 0.1): World(**usual | other)})
        for word, other in by_word.items()
    }


class Turns(World):
    """A world whose seeds take turns: even ones are of it, odd ones of `other`."""

    def frame(self, setting, methods) -> pd.DataFrame:
        one, two = World.frame(self, setting, methods), self.other.frame(setting, methods)
        return pd.concat([one[one["seed"] % 2 == 0], two[two["seed"] % 2 == 1]])


def reached(**by_word) -> dict:
    """Worlds in which 5, 10 and 20 clients a round reach one loss after so many rounds, some schemes after others."""

    def world(others: dict, rounds: tuple, odd: tuple = ()) -> World:
        def of(by_size: tuple, kind=World) -> World:
            each = zip((5, 10, 20), by_size, strict=True)
            ends = {m: dict.fromkeys(("md", *BOTH), t) | others for m, t in each}
            return kind(
                at={("clients_per_round", m): World(reach=r, wide=0) for m, r in ends.items()}
            )

        if not odd:
            return of(rounds)
        turns = of(rounds, Turns)
        object.__setattr__(turns, "other", of(odd))
        return turns

    return {word.replace("_", " "): world(*how) for word, how in by_word.items()}


SCATTERED = World(wide=0.1)
CALMER = {
    "agrees": World(jump={"md": 0.2} | dict.fromkeys(BOTH, 0.1), shared=0),
    "differs": World(jump={"md": 0.1} | dict.fromkeys(BOTH, 0.2), shared=0),
    "differs ": World(jump={"md": 0.2, "clustered-similarity": 0.1, "clustered-size": 0.2}, shared=0),
    "undecided": World(jump={"md": 0.2} | dict.fromkeys(BOTH, 0.2), wide=0.05, shared=0),
}  # fmt: skip


def scattered(key: str, low: float, high: float, wide: float = 0.1) -> dict:
    """A trend that is one for some seeds and the other for others."""
    return {"undecided": World(at={(key, low): World(wide=wide), (key, high): World(wide=-wide)})}


SKEWED = (figures.SKEWED.partition, figures.SKEWED.concentration)
ON_CIFAR = below(*BOTH)

# By function: the verdict (and the one on a substitute), and a world that has it.
CASES = {
    "experiments_sentences.higher_everywhere": nowhere(above("fedstas")),
    "experiments_sentences.higher_iid_too": nowhere(above("fedstas")),
    "experiments_sentences.best_everywhere": nowhere(above("fedstas")),
    "experiments_sentences.new_standard": above("fedstas"),
    "experiments_sentences.neyman_helps": above("strat-neyman"),
    "experiments_sentences.fedsts_over_random": {
        "agrees": World(reach={"fedsts": 20, "md": 80, "fedavg": 80}, rest=0.6),
        "differs": World(reach={"fedsts": 80, "md": 20, "fedavg": 20}, rest=0.6),
        "undecided": World(rest=0.6, wide=0.12),
    },
    "experiments_sentences.compression_gain": {
        "agrees": squeezed(0.1),
        "differs": squeezed(0.0),
        "undecided": squeezed(0.0, wide=0.06),
        "undecided ": squeezed(0.1, seeds=4),
    },
    "experiments_sentences.keeps_most": {
        "agrees": World({"fedsts": 0.4, "fedstas": 0.5, "fedstas-dp": 0.49}),
        "differs": World({"fedsts": 0.4, "fedstas": 0.5, "fedstas-dp": 0.41}),
        "undecided": World(wide=0.06),
    },
    "experiments_sentences.limited_loss": {
        "agrees": World({"fedstas": 0.51}),
        "differs": World({"fedstas": 0.55}),
        "undecided": World({"fedstas": 0.52}, wide=0.06),
    },
    "experiments_sentences.gains_with_skew": {
        "agrees": World(where={SKEWED: World({"fedstas": 0.7})}),
        "differs": World({"fedstas": 0.7}, where={SKEWED: World()}),
        "undecided": World(wide=0.06, where={SKEWED: World(wide=-0.06)}),
    },
    "experiments_sentences.promised_guarantees": {
        "holds": verdicts_of("holds"),
        "holds-if": verdicts_of("holds-if"),
        "fails": verdicts_of("fails"),
    },
    "experiments_sentences.data_sets": {"agrees": 2, "differs": 3},
    "experiments_sentences.baseline_twice": {"agrees": 55.01, "differs": 50},
    "experiments_sentences.own_bars_mnist": {"agrees": 55.1, "differs": 54.67},
    "experiments_sentences.own_bars_skewed": {"agrees": 52.7, "differs": 52.14},
    "experiments_sentences.own_bars_hundred": {"agrees": 20.48, "differs": 17.9},
    "experiments_figures.mnist_order": above("fedstas"),
    "experiments_figures.mnist_order_global": above("fedstas"),
    "experiments_figures.mnist_dp_order": above("fedstas-dp"),
    "experiments_figures.mnist_dp_cost": above("fedstas"),
    "experiments_figures.skewed_dp_order": above("fedstas-dp"),
    "experiments_figures.hundred_dp_order": tried(above("fedstas-dp")),
    "experiments_figures.mnist_gain": gain(1.8),
    "experiments_figures.skewed_gain": gain(17.6),
    "experiments_figures.hundred_gain": tried(gain(28.9)),
    "experiments_figures.mnist_fedsts": level("fedsts", 50),
    "experiments_figures.mnist_fedstas": level("fedstas", 56),
    "experiments_figures.mnist_dp": level("fedstas-dp", 54.67),
    "experiments_figures.skewed_fedsts": level("fedsts", 52.62),
    "experiments_figures.skewed_fedstas": level("fedstas", 61.9),
    "experiments_figures.skewed_dp": level("fedstas-dp", 52.14),
    "experiments_figures.hundred_fedsts": tried(level("fedsts", 18)),
    "experiments_figures.hundred_fedstas": tried(level("fedstas", 23.21)),
    "experiments_figures.hundred_dp": tried(level("fedstas-dp", 20.48)),
    "experiments_figures.loss_fedsts": level("fedsts", 1.512, loss=True),
    "experiments_figures.loss_fedstas": level("fedstas", 1.505, loss=True),
    "experiments_figures.loss_dp": level("fedstas-dp", 1.473, loss=True),
    "experiments_figures.rounds_to_half": SPEED,
    "experiments_figures.by_round_40": {
        "agrees": World(reach={"fedstas": 20, "fedsts": 80}),
        "differs": World(reach={"fedstas": 80, "fedsts": 20}),
        "undecided": World(wide=0.06),
    },
    "experiments_figures.begins_at": {
        "agrees": World(first=0.11),
        "differs": World(first=0.2),
        "undecided": World(first=0.1, wide=0.03),
    },
    "experiments_figures.loss_falls": {
        "agrees": World(),
        "differs": World(loss=dict.fromkeys(figures.METHODS, 2.4)),
        "undecided": World(loss=dict.fromkeys(figures.METHODS, 2.3), wide=0.2),
    },
    "experiments_figures.figure_1": {
        "agrees": dealt(0.9, 0.1),
        "differs": dealt(0.1, 0.1),
        "undecided": dealt(0.12, 0.1, wide=0.1),
    },
    "experiments_figures.more_skewed": {
        "agrees": dealt(0.5, 0.1),
        "differs": dealt(0.5, 0.1, grows=False),
        "undecided": dealt(0.5, 0.1, wide=0.2),
    },
    "experiments_figures.equal_portions": {
        "agrees": iid_counts(np.full((100, 10), 60)),
        "differs": iid_counts(np.arange(1000).reshape(100, 10)),
    },
    "experiments_figures.mnist_counts": {
        "agrees": iid_counts(np.full((100, 10), 60)),
        "differs": iid_counts(np.full((100, 9), 60)),
    },
    "experiments_clustered.size_loss": below("clustered-size"),
    "experiments_clustered.size_accuracy": above("clustered-size"),
    "experiments_clustered.size_digits": more_digits("clustered-size"),
    "experiments_clustered.similarity_loss": below("clustered-similarity"),
    "experiments_clustered.similarity_accuracy": above("clustered-similarity"),
    "experiments_clustered.similarity_digits": more_digits("clustered-similarity"),
    "experiments_clustered.better_in_figure_1": {
        "agrees": World(dict.fromkeys(BOTH, 0.6)),
        "differs": World({"clustered-size": 0.4, "clustered-similarity": 0.6}),
        "undecided": World({"clustered-similarity": 0.6}, wide=0.06),
    },
    "experiments_clustered.as_the_target": {
        "agrees": World(rounds=200),
        "differs": World({"target": 0.6}, rounds=200),
        "undecided": World(rounds=200, wide=0.06),
        "undecided ": World({"target": 0.6}, rounds=199),
    },
    "experiments_clustered.digits_of_md": {
        "agrees": drawn({"md": [(7, 7)]}),
        "differs": drawn({"md": [(5, 5)]}),
        "undecided": drawn({"md": [(7, 7), (7, 7), (5, 7)]}),
        "undecided ": drawn({"md": [(7, 7)]}, seeds=4),
    },
    "experiments_clustered.ten_clients": {
        "agrees": drawn({}, 10),
        "differs": drawn({}, 9),
        "undecided": drawn({}, 10, seeds=4),
    },
    "experiments_clustered.finds_the_groups": {
        "agrees": drawn({"clustered-similarity": [(7, 10)]}),
        "differs": drawn({"clustered-similarity": [(7, 8)]}),
        "differs ": drawn({"clustered-similarity": [(10, 10)]}),
        "undecided": drawn({"clustered-similarity": [(7, 10), (7, 9)]}),
        "undecided ": drawn({"clustered-similarity": [(7, 10)]}, seeds=4),
    },
    "experiments_clustered.smoother_loss": SMOOTH,
    "experiments_clustered.smoother_accuracy": SMOOTH,
    "experiments_clustered.same_messages": {
        "agrees": World(bytes={"md": 1.02}),
        "differs": World(bytes={"md": 1.2}),
    },
    "experiments_clustered.cifar_partitions": {
        "agrees": counts(True),
        "differs": counts(False),
        "undecided": counts(False, scatter=True),
    },
    "experiments_clustered.on_all_settings": {
        "agrees": less(0),
        "agrees ": less(0.2),
        "differs": less(0.2, at={("measure", "L1"): less(-0.1)}),
        "differs ": less(0.2, at={("steps", 500): less(-0.1)}),
        "undecided": SCATTERED,
    },
    "experiments_clustered.on_heavy_skew": ON_CIFAR
    | {"differs ": less(0.2, at={("concentration", 0.001): less(0)})},
    "experiments_clustered.on_light_skew": {
        "agrees": less(0),
        "differs": less(0.2),
        "differs ": less(0, at={("concentration", 10.0): less(-0.2)}),
        "undecided": SCATTERED,
    },
    "experiments_clustered.faster_on_any_skew": {
        "agrees": early(50),
        "differs": early(90),
        "differs ": early(50, at={("concentration", 10.0): early(90)}),
        "undecided": World(wide=0.5),
    },
    "experiments_clustered.smoother_loss_overall": CALMER,
    "experiments_clustered.smoother_accuracy_overall": CALMER,
    "experiments_clustered.similarity_faster": {
        "agrees": early(50),
        "differs": early(95),
        "undecided": World(wide=0.5),
    },
    "experiments_clustered.faster_in_larger_cohorts": reached(
        agrees=({}, (90, 70, 40)),
        differs=({}, (40, 70, 90)),
        differs_=({"md": 90}, (90, 70, 40)),  # both algorithms, but not MD
        undecided=({}, (90, 70, 40), (60, 70, 80)),
    ),
    "experiments_clustered.by_size_in_figure_6": below("clustered-size"),
    "experiments_clustered.best_prox": with_prox(
        agrees={"loss": {"md": 1.3}},
        differs={"loss": {"md": 1.6}},
        differs_={},
        undecided={"wide": 0.1, "loss": {"md": 1.48}},
    ),
    "experiments_clustered.smoother_with_prox": with_prox(
        {"jump": dict.fromkeys(("md", *BOTH), 0.2), "shared": 0},
        agrees={"jump": dict.fromkeys(("md", *BOTH), 0.1)},
        differs={"jump": dict.fromkeys(("md", *BOTH), 0.2)},
        differs_={"jump": {"md": 0.2} | dict.fromkeys(BOTH, 0.1)},
        undecided={"jump": dict.fromkeys(("md", *BOTH), 0.19), "wide": 0.05},
    ),
    "experiments_clustered.grows_with_skew": varied(
        "concentration",
        agrees={10.0: 0, 0.1: 0.1, 0.01: 0.2, 0.001: 0.3},
        differs={10.0: 0.3, 0.1: 0.2, 0.01: 0.1, 0.001: 0},
        differs_=dict.fromkeys((10.0, 0.1, 0.01, 0.001), 0.3),
    )
    | scattered("concentration", 10.0, 0.001),
    "experiments_clustered.on_measures": {
        "agrees": less(0.2),
        "differs": less(0.2, at={("measure", "L2"): less(-0.1)}),
        "differs ": less(0.2, at={("measure", "L2"): less(0.5)}),  # better than MD, but not alike
        "undecided": SCATTERED,
    },
    "experiments_clustered.on_local_work": faster(
        agrees={10: 90, 100: 70, 500: 50},
        differs={10: 50, 100: 70, 500: 90},
        differs_={10: 50, 100: 50, 500: 50},
    )
    | scattered("steps", 10, 500, wide=0.5),
    "experiments_clustered.better_with_more_work": varied(
        "steps",
        agrees={10: 0, 50: 0.1, 100: 0.2, 500: 0.3},
        differs={10: 0.3, 50: 0.2, 100: 0.1, 500: 0},
        differs_=dict.fromkeys((10, 50, 100, 500), 0.3),
    )
    | scattered("steps", 10, 500),
    "experiments_clustered.on_cohorts": varied(
        "clients_per_round",
        agrees={5: 0.3, 10: 0.2, 20: 0.1},
        differs={5: 0.1, 10: 0.2, 20: 0.3},
        differs_={5: 0.3, 10: 0.2, 20: 0},  # the trend, but no gain with twenty
        differs__=dict.fromkeys((5, 10, 20), 0.2),  # a gain, but no trend
    )
    | {
        "undecided": World(
            at={
                ("clients_per_round", 5): less(0.3, wide=0.1),
                ("clients_per_round", 10): less(0.2),
                ("clients_per_round", 20): less(0.1, wide=-0.1),
            }
        )
    },
    "experiments_clustered.on_prox": ON_CIFAR
    | {"differs ": less(0.2, at={("prox", 0.1): less(0)})},
    "experiments_fedsampling.text_cnn": ranked({"centralised": 9, "fedyogi": 9}),  # neither decides
    "experiments_fedsampling.transformer": ranked({}, network="transformer"),
    "experiments_fedsampling.text_cnn_accuracy": ranked(
        {"centralised": 9, "fedyogi": 9}, "test_accuracy"
    ),
    "experiments_fedsampling.transformer_accuracy": ranked(
        {}, "test_accuracy", network="transformer"
    ),
    "experiments_fedsampling.weighted": ranked({}, "test_accuracy"),
    "experiments_fedsampling.sorted_by_class": ranked({}, "test_accuracy", "mnist", "by_class"),
    "experiments_fedsampling.imbalance": {
        "no-data agrees": imbalanced({"fedavg": 5, "md": 5, "fedsampling": 1}, 0),
        "no-data differs": imbalanced({"fedavg": 1, "md": 1}, 0),
        "no-data differs ": imbalanced({"fedavg": 5, "md": 5, "fedsampling": 5}, 0),
        "no-data undecided": imbalanced({"fedavg": 3, "md": 3, "fedsampling": 2}, 0, wide=3),
        "no-data undecided ": imbalanced({"fedavg": 5, "md": 5}, 0, seeds=4),
    },
    "experiments_fedsampling.better_sampling": {
        "agrees": imbalanced({}, 3),
        "differs": imbalanced({}, -3),
        "undecided": imbalanced({}, 0, wide=3),
        "undecided ": imbalanced({}, 3, seeds=4),
    },
}
# Counted or calculated, without chance, or from other verdicts: there is nothing undecided.
EXACT = {
    "experiments_sentences.promised_guarantees", "experiments_sentences.data_sets",
    "experiments_sentences.baseline_twice", "experiments_sentences.own_bars_mnist",
    "experiments_sentences.own_bars_skewed", "experiments_sentences.own_bars_hundred",
    "experiments_figures.equal_portions", "experiments_figures.mnist_counts",
    "experiments_clustered.same_messages",
}  # fmt: skip


CIFAR_TOO = {f"experiments_sentences.{n}_everywhere" for n in ("higher", "best")}
CIFAR_TOO |= {"experiments_sentences.higher_iid_too"}  # other settings can be had


def decide(name: str, world, monkeypatch) -> Evidence:
    """What the function finds in that world; one that is a number is what is printed."""
    claim = BY_FUNCTION[name]
    if callable(world):
        world(monkeypatch)
    else:
        claim = replace(claim, printed=world)
    if name == "experiments_figures.mnist_counts":
        claim = replace(claim, printed=60_000)
    return claim.decide(claim)


@pytest.mark.parametrize(
    ("name", "word"), [(name, word) for name, worlds in CASES.items() for word in worlds]
)
def test_a_claim_has_its_verdict_in_its_world(name, word, monkeypatch):
    found = decide(name, CASES[name][word], monkeypatch)
    assert f"{found.verdict} {found.substitute}".strip() == word.strip()
    if word.strip().endswith("undecided"):
        assert "Undecided: " in found.note or "undecided" in found.note


@pytest.mark.parametrize(
    "name", [n for n, w in CASES.items() if isinstance(next(iter(w.values())), World)]
)
def test_fewer_than_five_seeds_decide_nothing(name, monkeypatch):
    word, true = next(iter(CASES[name].items()))
    worlds = {
        part: {k: replace(w, seeds=4) for k, w in getattr(true, part).items()}
        for part in ("where", "at")
    }
    few = replace(true, seeds=4, **worlds)
    found = decide(name, few, monkeypatch)
    assert (found.verdict, found.substitute) == (
        ("no-data", "undecided")
        if word.startswith("no-data") and name not in CIFAR_TOO
        else ("undecided", "")
    )


CIFAR = [n for n in CASES if n.partition(".")[2] in (
    "on_all_settings", "on_heavy_skew", "on_light_skew", "grows_with_skew", "faster_on_any_skew",
    "smoother_loss_overall", "smoother_accuracy_overall", "by_size_in_figure_6", "best_prox", "smoother_with_prox", "on_measures", "on_local_work", "on_cohorts", "better_with_more_work",
    "faster_in_larger_cohorts", "on_prox",
)]  # fmt: skip


@pytest.mark.parametrize("name", CIFAR)
@pytest.mark.parametrize("recorded", [(), ("mnist",), ("mnist", "cifar100-coarse10")])
def test_without_cifar10_a_claim_has_no_data_and_the_verdict_on_a_substitute(
    name, recorded, monkeypatch
):
    for word, world in CASES[name].items():

        def runs(setting, *methods, world=world):
            if setting.task not in recorded:
                experiments.check_obtainable(setting.task, setting.sweep)
                raise experiments.MissingRuns(
                    "pending", f"`fedstas sweep {setting.sweep}` records it"
                )
            return world.frame(setting, methods)

        monkeypatch.setattr(experiments.tasks, "data_folder", lambda: experiments.RESULTS / "none")
        monkeypatch.setattr(experiments.Setting, "runs", runs)
        claim = BY_FUNCTION[name]
        found = claim.decide(claim)
        assert found.verdict == "no-data"
        assert found.substitute == (word.strip() if recorded else "")
        assert "`fedstas sweep clustered-cifar10 --profile paper --folder results`" in found.note
        first = name.endswith(("heavy_skew", "with_skew")) and len(recorded) > 1
        if recorded:
            assert f"On {recorded[first]} instead: " in found.note
        else:
            assert "on mnist instead: `fedstas sweep clustered-mnist`" in found.note
            assert found.ours is None


@pytest.mark.parametrize("seeds, decides", [(5, "cifar100-coarse10"), (3, "mnist")])
def test_two_concentrations_in_colour_decide_once_they_have_seeds_enough(
    seeds, decides, monkeypatch
):
    two = less(0.2, at={("concentration", 10.0): less(0)})

    def runs(setting, *methods):
        if setting.task == "cifar10":
            experiments.check_obtainable(setting.task, setting.sweep)
        if setting.task == "cifar100-coarse10":
            if setting.concentration not in (10.0, 0.01):
                raise experiments.MissingRuns("pending", "not recorded")
            at = {key: replace(there, seeds=seeds) for key, there in two.at.items()}
            return replace(two, seeds=seeds, at=at).frame(setting, methods)
        return replace(two, at={}).frame(setting, methods)

    monkeypatch.setattr(experiments.tasks, "data_folder", lambda: experiments.RESULTS / "none")
    monkeypatch.setattr(experiments.Setting, "runs", runs)
    heavy, trend = (
        BY_FUNCTION[f"experiments_clustered.{name}"].decide(None)
        for name in ("on_heavy_skew", "grows_with_skew")
    )
    assert all(f"On {decides} instead: " in found.note for found in (heavy, trend))
    in_colour = decides != "mnist"
    assert heavy.substitute == "agrees" and len(heavy.table) == (2 if in_colour else 4)
    assert trend.substitute == ("agrees" if in_colour else "differs")
    assert set(trend.table["concentration"]) >= ({"0.01", "10"} if in_colour else {"0.001", "0.1"})


def test_the_part_that_decides_is_shown():
    parts = [
        experiments.Judgement(word, mean, mean - 1, mean + 1, 5)
        for word, mean in (("agrees", -9), ("undecided", 3), ("undecided", 2), ("agrees", 5))
    ]
    assert experiments.deciding_part(parts) is parts[2]
    assert experiments.deciding_part(parts[::3]) is parts[0]
    assert (
        experiments.deciding_part([*parts, lost := experiments.Judgement("differs", 8, 7, 9, 5)])
        is lost
    )
    # a trend the wrong way decides, and not the other algorithm's, which is less sure
    claim = BY_FUNCTION["experiments_clustered.on_cohorts"]
    found = claim.decide(claim)
    assert (found.verdict, found.substitute) == ("no-data", "differs") and found.high < 0


def test_no_function_that_decides_on_runs_is_left_out():
    assert set(CASES) == set(BY_FUNCTION)
    for name, worlds in CASES.items():
        words = {word.split()[-1] for word in worlds}
        assert words & {"agrees", "holds"} and words & {"differs", "fails"}, name
        assert "undecided" in words or name in EXACT, name


def test_the_rule_is_one_for_all_and_at_its_borders():
    def values(mean: float, half: float, k: int = 5) -> np.ndarray:
        """k values with this mean and this half of a 95 % interval."""
        base = np.linspace(-1, 1, k)
        _, low, high = experiments.statistics.mean_interval(base)
        return mean + base * half / ((high - low) / 2)

    def word(rule, *at, **more) -> str:
        return rule(values(*at[0]), *at[1:], **more).verdict

    higher, same = experiments.judge_higher, experiments.judge_equal
    assert word(higher, (0.2, 0.1), "points") == "agrees"  # an order is one, however small
    assert word(higher, (0.2, 0.3), "points") == "differs"  # none, or one that does not matter
    assert word(higher, (-3, 2.5), "points") == "differs"
    assert word(higher, (0.2, 0.9), "points") == "undecided"  # none, or one that matters
    assert word(higher, (0.2, 0.9), "rounds") == "differs"
    assert word(higher, (9, 0.9, 4), "points") == "undecided"
    assert word(same, (50.2, 0.5), 50, "points") == "agrees"
    assert word(same, (50.2, 0.9), 50, "points") == "undecided"
    assert word(same, (52, 1.5), 50, "points") == "differs"
    assert word(same, (52, 1.5), 50, "points", tolerance=1) == "undecided"
    assert word(same, (50, 0.1, 4), 50, "points") == "undecided"
    lower = experiments.judge_not_lower
    assert word(lower, (-0.02, 0.005), "nats") == "agrees"  # a loss that cannot matter
    assert word(lower, (-0.05, 0.045), "nats") == "differs"
    assert (
        word(lower, (-0.05, 0.045), "nats", comparisons=20) == "undecided"
    )  # one of so many, by chance
    assert word(lower, (-0.05, 0.01), "nats", comparisons=20) == "differs"
    whole = experiments.combine_verdicts
    assert whole(["agrees", "agrees"]) == "agrees"
    assert whole(["agrees", "no-data", "undecided"]) == "undecided"
    assert whole(["undecided", "differs", "no-data"]) == "differs"
    assert whole(["agrees", "pending", "no-data"]) == "no-data"


def test_how_many_published_values_other_runs_reach_is_counted():
    world = World({"ours": 0.5, "md": 0.51, "other": 0.8}, wide=0.02, shared=0, loss={"ours": 1.5})
    frame = world.frame(figures.FIXED, ("ours", "md", "other"))
    published = [
        ("ours", "client_accuracy", 40, 50.0),
        ("ours", "client_accuracy", None, 51.0),
        ("ours", "train_loss", None, 1.5),
        ("ours", "client_accuracy", 20, 90.0),
    ]
    assert figures.predict_published(frame, published, lambda m: m)[0] == 3
    inside, halves = figures.predict_published(frame, published[:2], lambda m: "md")
    assert inside == 2  # the test of levels does not know who made them
    assert len(halves) == 2 and all(2 < half < 20 for half in halves)
    assert figures.predict_published(frame, published, lambda m: "other")[0] == 0
