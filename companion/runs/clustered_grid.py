"""The sweeps of Fraboni et al., Section 6 and Appendix D (arXiv:2105.05883): one setting changed at a time.

Their default is concentration 0.01, 100 clients, 10 per round, 100 local steps with batches of 50, and no
regularisation. Where the paper prints no value we take that of their code: 1000 rounds, twice as many with 10 local
steps and half as many with 500. With 10, 100 and 500 clients the total number of examples is the same. Of 10 clients
five take part in a round, since with a single draw every scheme is MD sampling.
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
AROUND = {  # values other than those of CENTRE, tried one at a time
    "concentration": (0.001, 0.1, 10.0),
    "clients": (10, 500),
    "clients_per_round": (5, 20),
    "steps": (10, 50, 500),
    "prox": (0.001, 0.01, 0.1, 1.0),
}
PARTICIPANTS = {10: 5, 500: 50}  # clients per round, by the number of clients
MEASURES = ("L2", "L1")  # of similarity, other than the default, the angle
RATES = (0.001, 0.005, 0.01, 0.05, 0.1)  # learning rates, of which `rates` tries all
ROUND_FACTORS = {10: 2, 500: 0.5}  # of the number of rounds, by the number of local steps


@dataclass(frozen=True)
class DataSetting:
    """A data set, with the settings that the paper chooses for it.

    Args:
        task: the data set.
        total: the number of examples of all clients together.
        rounds, eval_every: of a run, before the factor of `round_factors`.
        lr: the learning rate.
        changed_lr: the learning rate where one setting is changed, by that setting's name and value.
        centre: settings that replace those of `CENTRE`.
        network: the network, "" for the task's usual one.
        eval_rounds: rounds that are evaluated besides each `eval_every`-th, before that factor.
        round_factors: factors of the number of rounds, by the number of local steps where that is changed.
        average: beta of the average of the server's models, or None.
    """

    task: str
    total: int
    rounds: int
    eval_every: int
    lr: float
    changed_lr: dict = field(default_factory=dict)
    centre: dict = field(default_factory=dict)
    network: str = ""
    eval_rounds: tuple[int, ...] = ()
    round_factors: dict = field(default_factory=lambda: ROUND_FACTORS)
    average: float | None = None

    def run(self, changed: dict, method: str, seed: int, **local) -> Run:
        """Return a run with these settings changed.

        Args:
            changed: settings that replace those of `CENTRE`.
            method, seed: of the run.
            local: further settings of the method.
        """
        settings = CENTRE | self.centre | changed
        if changed.get("clients") in PARTICIPANTS:
            settings["clients_per_round"] = PARTICIPANTS[changed["clients"]]
        lr = next((self.changed_lr[k] for k in changed.items() if k in self.changed_lr), self.lr)
        steps, clients = settings.pop("steps"), settings["clients"]
        regularisation = {"prox": prox} if (prox := settings.pop("prox")) else {}
        factor = self.round_factors.get(changed.get("steps", 0), 1)
        return Run(
            self.task,
            "dirichlet_fixed_size",
            method=method,
            seed=seed,
            sizes=sizes(clients, self.total),
            network=self.network,
            overrides={"steps": steps, "batch": 50, "lr": lr} | regularisation | local,
            rounds=round(factor * self.rounds),
            eval_every=max(1, int(factor * self.eval_every)),
            eval_rounds=tuple(round(factor * t) for t in self.eval_rounds),
            average=self.average,
            **settings,
        )


def sizes(clients: int, total: int) -> str:
    """Return the paper's client sizes, as `partition.parse_sizes` reads them.

    1, 3, 3, 2 and 1 tenths of the clients have sizes in proportion to 1, 2.5, 5, 7.5 and 10; the mean of these is 4.85.
    """
    unit = total / (4.85 * clients)
    tenths_by_size = {1: 1, 2.5: 3, 5: 3, 7.5: 2, 10: 1}
    counts = {unit * size: clients * tenths // 10 for size, tenths in tenths_by_size.items()}
    return ",".join(f"{size:.0f}x{count}" for size, count in counts.items())


DROPOUT = "convolutional-dropout"
# With the rates that the paper prints (captions of Fig. 7, 9 and 10).
CIFAR10 = DataSetting(
    "cifar10",
    48_500,
    1000,
    5,
    0.05,
    {("concentration", 10.0): 0.1, ("steps", 10): 0.1},
    network=DROPOUT,
)
# The largest of their rates leaves the least loss in each setting of `clustered-mnist-rates` (see `grid_results`).
MNIST = DataSetting("mnist", 48_500, 100, 2, 0.1)
# The data set has half the examples of CIFAR-10, so `total` is half. Of the two largest rates the larger leaves the
# smaller loss at concentrations 0.01 and 10 (`clustered-coarse10-rates`, which is recorded in part).
COARSE = DataSetting(
    "cifar100-coarse10", 24_250, 100, 5, 0.1, centre={"steps": 20}, network=DROPOUT
)
# A fifth of the local steps and a tenth of the rounds, with the average that chapter 10 judges. The rate is the one of
# the paper's two largest with which MD sampling ends with the smaller training loss (`clustered-cifar10-short-rates`).
CIFAR10_SHORT = DataSetting(
    "cifar10",
    48_500,
    100,
    10,
    0.1,
    centre={"steps": 20},
    network=DROPOUT,
    eval_rounds=(84, 88, 92, 96),
    round_factors={2: 2, 100: 0.5},
    average=0.9,
)
DIGITS = DataSetting(
    "digits", 970, 3, 1, 0.05, centre={"clients": 20, "clients_per_round": 5, "steps": 5}
)


def changes(values: dict[str, tuple]) -> list[dict]:
    """Return all changes of at most one setting, from the values of each: first the empty change."""
    return [{}, *({key: value} for key, tried in values.items() for value in tried)]


QUICK_AROUND = {
    "concentration": (10.0,),
    "clients_per_round": (3,),
    "steps": (10,),
    "prox": (0.1,),
}
LAPTOP_AROUND = QUICK_AROUND | {"clients_per_round": (5, 20)}


def around(data: DataSetting) -> Callable[[str], list[Run]]:
    """Return the sweep that changes one setting of the data at a time, under three schemes, and the measure of similarity.

    Five seeds; the profiles `laptop` and `quick` have one, and fewer values.
    """

    def sweep_runs(profile: str) -> list[Run]:
        """Return the runs of a profile."""
        values = {"paper": AROUND, "laptop": LAPTOP_AROUND, "quick": QUICK_AROUND}[profile]
        setting = DIGITS if profile == "quick" else data
        return [
            run
            for seed in range(5 if profile == "paper" else 1)
            for run in (
                *(setting.run(changed, m, seed) for changed in changes(values) for m in SCHEMES),
                *(setting.run({}, SCHEMES[-1], seed, measure=each) for each in MEASURES),
            )
        ]

    return sweep_runs


def figure_2(
    data: DataSetting,
    laptop: tuple[float, ...] = (10.0, 0.01),
    beside: tuple[str, ...] = (),
) -> Callable[[str], list[Run]]:
    """Return the sweep of Fig. 2: four concentrations, five seeds.

    Args:
        data: the data set and its settings.
        laptop: the concentrations of the profile `laptop`, of which two take hours on two cores.
        beside: designs that are compared with the paper's schemes at concentration 0.01.
    """

    def sweep_runs(profile: str) -> list[Run]:
        """Return the runs of a profile."""
        setting = DIGITS if profile == "quick" else data
        concentrations = {
            "paper": (10.0, 0.1, 0.01, 0.001),
            "laptop": laptop,
            "quick": (10.0, 0.1),
        }[profile]
        seeds = range(1 if profile == "quick" else 5)
        return [
            setting.run({"concentration": c}, m, s)
            for s in seeds
            for c in concentrations
            for m in (*SCHEMES, *(beside if c == CENTRE["concentration"] else ()))
        ]

    return sweep_runs


def every_figure(
    data: DataSetting, fig_2: Callable[[str], list[Run]], laptop: Callable[[str], list[Run]]
) -> Callable[[str], list[Run]]:
    """Return the sweep of all that the paper shows of CIFAR-10: Fig. 2, and Fig. 6 and 8 to 10, five seeds.

    A regularisation other than 0.1 is tried with MD sampling alone, as Appendix D.5 chooses it.

    Args:
        data: the data set and its settings in Fig. 6 and 8 to 10. Its local steps are changed in the paper's proportion.
        fig_2: the sweep of Fig. 2.
        laptop: the sweep of the profiles `laptop` and `quick`.
    """
    centre = data.centre.get("steps", CENTRE["steps"])
    values = {
        "prox": (0.1,),
        "clients_per_round": AROUND["clients_per_round"],
        "steps": tuple(n * centre // CENTRE["steps"] for n in ROUND_FACTORS),
    }
    _, *changed = changes(values)
    further_prox = [{"prox": mu} for mu in AROUND["prox"] if mu not in values["prox"]]

    def sweep_runs(profile: str) -> list[Run]:
        """Return the runs of a profile."""
        if profile != "paper":
            return laptop(profile)
        return [
            *fig_2(profile),
            *(
                run
                for seed in range(5)
                for run in (
                    *(data.run(change, m, seed) for change in changed for m in SCHEMES),
                    *(data.run({}, SCHEMES[-1], seed, measure=each) for each in MEASURES),
                    *(data.run(change, "md", seed) for change in further_prox),
                )
            ),
        ]

    return sweep_runs


def rates(data: DataSetting, values: dict[str, tuple]) -> Callable[[str], list[Run]]:
    """Return the sweep by which learning rates are chosen, as in the paper: MD sampling with each rate, one seed.

    In each setting `grid_results.choose_clustered_rates` takes the rate with the least training loss.

    Args:
        data: the data set and its settings.
        values: of each setting that is changed; only the profile `paper` changes any.
    """

    def sweep_runs(profile: str) -> list[Run]:
        """Return the runs of a profile."""
        setting = DIGITS if profile == "quick" else data
        all_changes, tried = (changes(values), RATES) if profile == "paper" else ([{}], RATES[-2:])
        return [setting.run(changed, "md", 0, lr=lr) for changed in all_changes for lr in tried]

    return sweep_runs


# Of Fig. 2 an average of the models is kept, too, by which chapter 10 compares; beside the paper's schemes stands the
# design that it recommends.
_FIGURE_2_SHORT = figure_2(CIFAR10_SHORT, laptop=(0.01,), beside=("fedstas-least-variance",))
SWEEPS = {
    "clustered-mnist": around(MNIST),
    "clustered-mnist-rates": rates(MNIST, AROUND),
    "clustered-cifar10": every_figure(
        CIFAR10,
        figure_2(CIFAR10),
        laptop=figure_2(replace(CIFAR10, rounds=3, eval_every=3), laptop=(0.01,)),
    ),
    "clustered-cifar10-short": every_figure(
        replace(CIFAR10_SHORT, average=None), _FIGURE_2_SHORT, laptop=_FIGURE_2_SHORT
    ),
    "clustered-cifar10-short-rates": rates(CIFAR10_SHORT, {}),
    "clustered-coarse10": figure_2(COARSE),
    "clustered-coarse10-rates": rates(COARSE, {"concentration": AROUND["concentration"]}),
}
