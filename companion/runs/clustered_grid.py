"""The sweeps of Fraboni et al., Section 6 and Appendix D: one thing at a time around their setting.

Around concentration 0.01, 100 clients, 10 a round, 100 local steps of 50 and no regularisation. They print
neither the rounds nor the number of clients but 100. The rounds are those of their code: 1000, twice as many
with 10 steps and half as many with 500. With 10, 100 and 500 clients all hold the same data together; of 10
clients five take part, for one draw a round is MD sampling whatever the scheme.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from companion.runs.sweeps import Run

SCHEMES = ("md", "clustered-size", "clustered-similarity")
CENTRE = {
    "concentration": 0.01,
    "clients": 100,
    "clients_per_round": 10,
    "steps": 100,
    "prox": 0.0,
}
AROUND = {  # the other values of each, one at a time
    "concentration": (0.001, 0.1, 10.0),
    "clients": (10, 500),
    "clients_per_round": (5, 20),
    "steps": (10, 50, 500),
    "prox": (0.001, 0.01, 0.1, 1.0),
}
PARTICIPANTS = {10: 5, 500: 50}  # of so many clients
MEASURES = ("L2", "L1")  # besides the angle
RATES = (0.001, 0.005, 0.01, 0.05, 0.1)  # the best is taken: see `rates`
ROUNDS = {10: 2, 500: 0.5}  # by local steps, as multiples


@dataclass(frozen=True)
class Place:
    """A data set, with the settings that the paper chooses for it.

    `total` examples of all clients; `lr` the rate, and `other` that where a setting is changed, by its name
    and value; `centre` what of the setting is another; `network` theirs, where it is not the task's usual one.
    """

    task: str
    total: int
    rounds: int
    every: int
    lr: float
    other: dict = field(default_factory=dict)
    centre: dict = field(default_factory=dict)
    network: str = ""

    def run(self, changed: dict, method: str, seed: int, **local) -> Run:
        """Declare the run of the setting with these changes; `local` are settings of the method."""
        at = CENTRE | self.centre | changed
        if changed.get("clients") in PARTICIPANTS:
            at["clients_per_round"] = PARTICIPANTS[changed["clients"]]
        lr = next((self.other[k] for k in changed.items() if k in self.other), self.lr)
        steps, clients = at.pop("steps"), at["clients"]
        regular = {"prox": prox} if (prox := at.pop("prox")) else {}
        longer = ROUNDS.get(changed.get("steps", 0), 1)
        return Run(
            self.task,
            "dirichlet_fixed_size",
            method=method,
            seed=seed,
            sizes=sizes(clients, self.total),
            network=self.network,
            overrides={"steps": steps, "batch": 50, "lr": lr} | regular | local,
            rounds=round(longer * self.rounds),
            eval_every=max(1, int(longer * self.every)),
            **at,
        )


def sizes(clients: int, total: int) -> str:
    """Return the paper's sizes of clients: a tenth, three, three, two tenths and a tenth of the clients have 1, 2.5, 5, 7.5 and 10 parts."""
    unit = total / (4.85 * clients)
    shares = ((1, 1), (2.5, 3), (5, 3), (7.5, 2), (10, 1))
    return ",".join(f"{unit * part:.0f}x{clients * tenths // 10}" for part, tenths in shares)


# With the rates that the paper prints (captions of Fig. 7, 9 and 10).
DROPOUT = "convolutional-dropout"
CIFAR10 = Place(
    "cifar10",
    48_500,
    1000,
    5,
    0.05,
    {("concentration", 10.0): 0.1, ("steps", 10): 0.1},
    network=DROPOUT,
)
# The largest of their rates leaves the least loss in each setting of `clustered-mnist-rates` (see `grid_results`).
MNIST = Place("mnist", 48_500, 100, 2, 0.1)
# Half the examples, as there are: the same share of the data as of CIFAR-10. Of the two largest rates the larger
# leaves less at concentrations 0.01 and 10 (`clustered-coarse10-rates`, in part).
COARSE = Place("cifar100-coarse10", 24_250, 100, 5, 0.1, centre={"steps": 20}, network=DROPOUT)
DIGITS = Place(
    "digits", 970, 3, 1, 0.05, centre={"clients": 20, "clients_per_round": 5, "steps": 5}
)


def changes(values: dict[str, tuple]) -> list[dict]:
    """Return no change, and each change of one setting."""
    return [{}, *({key: value} for key, known in values.items() for value in known)]


QUICK = {"concentration": (10.0,), "clients_per_round": (3,), "steps": (10,), "prox": (0.1,)}
ENDS = {"concentration": (10.0,), "clients_per_round": (5, 20), "steps": (10,), "prox": (0.1,)}


def around(place: Place, laptop: Place | None = None) -> Callable[[str], list[Run]]:
    """All settings, with three schemes, and three measures of similarity; five seeds, or one of the ends.

    `laptop`: fewer rounds, and nothing changed, where those of one seed take more than minutes.
    """

    def grid(profile: str) -> list[Run]:
        values = {"paper": AROUND, "laptop": ENDS, "quick": QUICK}[profile]
        here = DIGITS if profile == "quick" else place
        if profile == "laptop" and laptop is not None:
            return [laptop.run({}, m, 0) for m in SCHEMES]
        return [
            run
            for seed in range(5 if profile == "paper" else 1)
            for run in (
                *(here.run(changed, m, seed) for changed in changes(values) for m in SCHEMES),
                *(here.run({}, SCHEMES[-1], seed, measure=each) for each in MEASURES),
            )
        ]

    return grid


def figure_2(place: Place) -> Callable[[str], list[Run]]:
    """The four concentrations, five seeds; `laptop` has 0.01 and 10, which take hours of two cores."""

    def grid(profile: str) -> list[Run]:
        here, skews = place, (10.0, 0.1, 0.01, 0.001)
        if profile == "quick":
            here, skews = DIGITS, (10.0, 0.1)
        settings = [{"concentration": c} for c in (skews[::2] if profile == "laptop" else skews)]
        seeds = range(1 if profile == "quick" else 5)
        return [here.run(each, m, s) for s in seeds for each in settings for m in SCHEMES]

    return grid


def rates(place: Place, values: dict[str, tuple]) -> Callable[[str], list[Run]]:
    """As the paper chooses: MD sampling, one seed, in each setting the rate with the least training loss."""

    def grid(profile: str) -> list[Run]:
        here, tried, known = place, RATES, values
        if profile != "paper":
            here, tried, known = (DIGITS if profile == "quick" else place), RATES[-2:], {}
        return [here.run(each, "md", 0, lr=lr) for each in changes(known) for lr in tried]

    return grid


SWEEPS = {
    "clustered-mnist": around(MNIST),
    "clustered-mnist-rates": rates(MNIST, AROUND),
    "clustered-cifar10": around(CIFAR10, laptop=replace(CIFAR10, rounds=3, every=3)),
    "clustered-coarse10": figure_2(COARSE),
    "clustered-coarse10-rates": rates(COARSE, {"concentration": AROUND["concentration"]}),
}
