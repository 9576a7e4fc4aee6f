"""The comparison of chapter 10: methods tuned alike, then compared with a reference at equal cost.

`read` checks a protocol file (book/protocol.yml), `carry_out` makes the runs that it asks for, tuning first, and
`compute_outcomes` and `compute_gains` evaluate them. A setting is a federation and a number of participants, an arm
a method with its settings. All else of a run is the same for all arms, except for the learning rate: each arm has the
one with the highest accuracy at the larger budget, on seeds that are used for nothing else.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from companion.runs import records, statistics, sweeps, tables
from companion.runs.least_variance_results import RECORDED_NAMES
from companion.runs.sweeps import Run
from fedstas import methods, user_code
from fedstas.errors import InputError, check_choice, check_float, check_int
from fedstas.sim import coarse, partition, tasks, text

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "book" / "protocol.yml"
RECORDED = ROOT / "results"
SWEEP = "which-design"
CLASSES = {name: shape[-1] for name, shape in tasks.SHAPES.items()} | coarse.CLASSES
CLASSES |= {"cifar10-features": 10, "cifar100-features": 100, "cifar100-coarse-features": 20}
CLASSES |= {
    "digits": 10,
    "topics": text.TOPICS,
    "newsgroups": 20,
    "newsgroups-tokens": 20,
    "newsgroups-words": 20,
    "reuters": 14,
    "reuters-titles": 14,
    "shakespeare": 60,
}
TRIAL = "digits"  # the setting for readers' own designs: embedded data, minutes
TAIL = 0.1  # an accuracy at a budget is the mean of the curve over this last part of it
POINTS_OF_TAIL = 101  # of the curve, over which the mean is taken
MAX_EXTENSIONS = 3  # of a grid of learning rates, if an optimum lies at its end
METRICS = ("large", "small", "rounds", "examples", "worst_decile")  # the primary outcome first


@dataclass(frozen=True)
class Arm:
    """A method with its settings; `clients_per_round` and `tuning_rounds` where they differ from the setting's."""

    name: str
    method: str
    settings: tuple = ()
    clients_per_round: int | None = None
    tuning_rounds: int | None = None


@dataclass(frozen=True, kw_only=True)
class BaseSetting:
    """A federation, the arms that are compared in it, and what the settings of both comparisons have besides.

    `min_effect` is the smallest gain that matters, in points.
    """

    name: str
    title: str
    task: str
    partition: str
    clients: int
    clients_per_round: int
    rounds: int
    evaluate_every: int
    rates: tuple[float, ...]
    tuning_seeds: tuple[int, ...]
    evaluation_seeds: tuple[int, ...]
    reference: str
    min_effect: float
    arms: tuple[Arm, ...]
    concentration: float = 0.01  # of a Dirichlet partition; no other has one

    @property
    def classes(self) -> int:
        """The number of classes of the task, which is loaded if it is not one of the package's."""
        return CLASSES.get(self.task) or sweeps.load_task(self.task, "cpu").classes


@dataclass(frozen=True, kw_only=True)
class Setting(BaseSetting):
    """A setting of the first comparison, and how it is run.

    `longer` has the rounds of evaluation of arms that would not spend the larger budget in `rounds`; `rates_of` names
    the setting whose tuned learning rates this one uses; `megabytes` are the budgets.
    """

    megabytes: tuple[float, ...]
    longer: dict[str, int] = field(default_factory=dict)
    rates_of: str | None = None
    network: str = ""

    def plan_run(self, arm: Arm, rate: float, seed: int) -> Run:
        """Return the run of an arm at a learning rate; its length depends on what the seed is for."""
        if seed in self.tuning_seeds:
            rounds = min(self.rounds, arm.tuning_rounds or self.rounds)
        else:
            rounds = self.longer.get(arm.name, self.rounds)
        return Run(
            task=self.task,
            partition=self.partition,
            concentration=self.concentration,
            method=arm.method,
            seed=seed,
            overrides=dict(arm.settings) | {"lr": rate},
            clients=self.clients,
            clients_per_round=arm.clients_per_round or self.clients_per_round,
            rounds=rounds,
            eval_every=self.evaluate_every,
            network=self.network,
        )

    def load_federation(self, seed: int) -> tuple[tasks.Task, partition.Federation]:
        """Load the task and partition it with this seed."""
        task = sweeps.load_task(self.task, "cpu")
        options = {"clients": self.clients, "concentration": self.concentration}
        return task, partition.make(self.partition, task.train_y, seed=seed, **options)


# The file


_REQUIRED = ("title", "task", "partition", "clients", "clients_per_round")
_REQUIRED += ("rounds", "evaluate_every", "megabytes", "rates", "tuning_seeds", "evaluation_seeds")
_REQUIRED += ("reference", "min_effect")
_OPTIONAL = ("concentration", "arms", "longer", "rates_of", "network")
_FORMER_KEYS = {"says": "title", "matters": "min_effect"}


def read(path: str | Path = FILE) -> dict[str, Setting]:
    """Read the settings of a protocol file, by name; `InputError` names what in it is wrong."""
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read as a protocol: {error}") from error
    try:
        arms = {name: read_arm(name, **entry) for name, entry in content["arms"].items()}
        common = {key: content[key] for key in content.keys() - {"arms", "settings"}}
        settings = {
            name: _read_setting(name, arms, common | entry)
            for name, entry in content["settings"].items()
        }
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is no protocol: {error}") from error
    for setting in settings.values():
        if setting.rates_of is not None:
            key = f"rates_of in {path}, setting {setting.name}:"
            check_choice(key, setting.rates_of, settings)
    return settings


def read_arm(name: str, method: str, settings: dict | None = None, **lengths) -> Arm:
    """Check an arm's entry; an unknown method or setting is refused by name."""
    methods.get(method, **(settings or {}))
    for key in lengths:
        check_choice(f"key of arm {name}", key, ("clients_per_round", "tuning_rounds"))
        check_int(f"{key} of arm {name}", lengths[key], 1)
    return Arm(name, method, tuple((settings or {}).items()), **lengths)


def _read_setting(name: str, arms_of_file: dict[str, Arm], entry: dict) -> Setting:
    """Check a setting's entry, completed by what all settings of the file have in common, and return the setting."""
    entry = {_FORMER_KEYS.get(key, key): value for key, value in entry.items()}
    for key in entry:
        check_choice(f"key of setting {name}", key, (*_REQUIRED, *_OPTIONAL))
    for key in _REQUIRED:
        if key not in entry:
            raise InputError(f"setting {name} lacks {key}")
    arms, longer = entry.pop("arms", None) or arms_of_file, entry.pop("longer", None) or {}
    for arm in arms:
        check_choice(f"arm of setting {name}", arm, arms_of_file)
    check_data(name, entry)
    chosen = tuple(arms_of_file[arm] for arm in arms)
    check_choice(f"reference of setting {name}", entry["reference"], [arm.name for arm in chosen])
    entry |= read_seeds_and_rates(name, entry)
    budgets = read_list(entry, "megabytes")
    budgets = [check_float(f"megabytes of setting {name}", budget, 0) for budget in budgets]
    entry["megabytes"] = tuple(sorted(budgets))
    for key in ("rounds", "evaluate_every", "clients", "clients_per_round"):
        check_int(f"{key} of setting {name}", entry[key], 1)
    for arm, rounds in longer.items():
        check_choice(f"arm of setting {name} that runs longer", arm, arms_of_file)
        check_int(f"longer of setting {name}, {arm}:", rounds, entry["rounds"])
    return Setting(name=name, arms=chosen, longer=longer, **entry)


def check_data(name: str, entry: dict) -> None:
    """Check the task and the partition of a setting, which may be a user's files.

    Refused are a Dirichlet partition without a concentration, and a concentration of another partition, too.
    """
    if not user_code.TABLE.fullmatch(str(entry["partition"])):
        check_choice("partition", entry["partition"], partition.names())
    if not user_code.FILE.fullmatch(str(entry["task"])):
        check_choice("task", entry["task"], tasks.names())
    dirichlet = entry["partition"] in ("dirichlet", "dirichlet_fixed_size")
    if dirichlet and "concentration" not in entry:
        raise InputError(f"setting {name} lacks concentration")
    if "concentration" in entry:
        check_float(f"concentration of setting {name}", entry["concentration"], 0)
        if not dirichlet:
            reason = f"partition {entry['partition']} has none"
            raise InputError(f"concentration of setting {name} is of no use: {reason}")


def read_seeds_and_rates(name: str, entry: dict) -> dict[str, tuple]:
    """Return the seeds and the sorted learning rates of a setting's entry, by key.

    Refused are seeds that serve both tuning and evaluation, fewer than three rates, and what is listed twice.
    """
    seeds = {
        key: tuple(check_int(f"{key} of setting {name}", seed, 0) for seed in read_list(entry, key))
        for key in ("tuning_seeds", "evaluation_seeds")
    }
    if both := set(seeds["tuning_seeds"]) & set(seeds["evaluation_seeds"]):
        raise InputError(f"setting {name} tunes and evaluates on seed {min(both)}: use other seeds")
    rates = [check_float(f"rates of setting {name}", v, 0) for v in read_list(entry, "rates")]
    for key, values in (seeds | {"rates": rates}).items():
        if len(set(values)) < len(values):
            raise InputError(f"{key} of setting {name} lists a value twice: list each once")
    if len(rates) < 3:
        raise InputError(f"setting {name} has {len(rates)} rates: an optimum needs three")
    return seeds | {"rates": tuple(sorted(rates))}


def read_list(entry: dict, key: str) -> list:
    """Return an entry's value that must be a list with members; raise InputError for another."""
    if not isinstance(entry[key], list) or not entry[key]:
        raise InputError(f"{key} is {entry[key]!r}: it must be a list that is not empty")
    return entry[key]


def add_arm(setting: Setting, spec: str) -> Setting:
    """Return the setting with one more arm: a design's file, or a method and settings, as in `my_design.py power=0.5`."""
    method, (name, *words) = methods.parse(spec), shlex.split(spec)
    pairs = (word.split("=", 1) for word in words)
    settings = tuple((key, yaml.safe_load(value)) for key, value in pairs)
    label = " ".join([method.name, *words])
    if any(key == "lr" for key, _ in settings):
        raise InputError(f"{label}: lr is what is tuned; leave it out, and the arena finds it")
    arm = Arm(label, str(Path(name).resolve()) if Path(name).is_file() else name, settings)
    if any((other.method, other.settings) == (arm.method, settings) for other in setting.arms):
        raise InputError(f"{label} is in setting {setting.name} already")
    return replace(setting, arms=(*setting.arms, arm))


# What is recorded


def load_runs(folders: Sequence[str | Path] = (RECORDED,)) -> list[records.Record]:
    """Read all recorded runs of the comparison once, to be handed on as `recorded` for every setting."""
    present = (Path(folder) for folder in folders if Path(folder).is_dir())
    return [run for folder in present for run in records.read_runs(folder / SWEEP)]


def load_curves(
    setting: Setting,
    folders: Sequence[str | Path] = (RECORDED,),
    recorded: list[records.Record] | None = None,
) -> pd.DataFrame:
    """Load the rows of all runs of a setting's arms, at any learning rate.

    Args:
        setting: whose runs are wanted.
        folders: where runs are recorded.
        recorded: what `load_runs` returns of the folders, if it was called before.

    Returns:
        One row per evaluated round: columns arm, rate, seed, run, ended (whether the run diverged), worst_decile,
        megabytes (sent and received so far), and those of `History.frame`.
    """
    arms: dict[str, list[Arm]] = {}
    for arm in setting.arms:
        arms.setdefault(methods.get(arm.method, **dict(arm.settings)).name, []).append(arm)
    # As records name the files of a task or partition that is not the package's.
    task = user_code.without_folders(setting.task, "task")
    place = (task, Path(setting.partition).name, setting.clients)
    frames: dict[str, pd.DataFrame] = {}
    keys: dict[tuple, str] = {}
    for run in load_runs(folders) if recorded is None else recorded:
        identity, recipe = run.identity, run.identity["partition"]
        same_skew = recipe.get("concentration") in (None, setting.concentration)
        if not same_skew or (identity["task"], recipe["name"], identity["clients"]) != place:
            continue
        rate, seed = identity["method"]["local"]["lr"], identity["seed"]
        for arm in arms.get(identity["method"]["name"], []):
            planned = setting.plan_run(arm, rate, seed)
            shape = (planned.clients_per_round, planned.rounds)
            if shape != (identity["clients_per_round"], identity["rounds"]):
                continue
            kind = (arm, rate, *shape)
            if kind not in keys:  # a key takes a millisecond, and seeds differ in no more
                keys[kind] = tables.run_key(replace(planned, seed=0))
            if keys[kind] == tables.record_key(identity | {"seed": 0}):
                decile, frame = run.metadata.get("worst_decile"), run.frame()
                if not len(frame):  # it diverged before it was evaluated, and counts
                    frame = frame.reindex([0]).fillna(0).astype(frame.dtypes)
                frames[run.run] = frame.assign(
                    arm=arm.name,
                    rate=rate,
                    seed=seed,
                    run=run.run,
                    ended=bool(run.metadata["diverged"]),
                    # A guess, as which a run that ended counts, serves its worst tenth with nothing.
                    worst_decile=(
                        0.0 if run.metadata["diverged"] else np.nan if decile is None else decile
                    ),
                )
    if not frames:
        return pd.DataFrame(columns=["arm", "rate", "seed", "run", "ended", "megabytes", "round"])
    table = pd.concat(frames.values(), ignore_index=True)
    return table.assign(megabytes=(table["bytes_down"] + table["bytes_up"]) / 1e6)


def accuracy_at_budget(
    run: Mapping[str, pd.Series | np.ndarray],
    cost: str,
    budget: float,
    classes: int,
    metric: str = "test_accuracy",
) -> float:
    """Return a run's accuracy at a budget of `cost`, a cumulative column such as megabytes.

    It is the mean of the curve over the last tenth of the budget. The curve is linear between evaluations, starts
    from a guess before round 1, and stays where it ends; a run that diverged (column `ended`) guesses.
    """
    diverged = np.asarray(run["ended"])[0]
    if diverged:
        return 1 / classes
    x, y = np.append(0.0, run[cost]), np.append(1 / classes, run[metric])
    tail = np.linspace((1 - TAIL) * budget, budget, POINTS_OF_TAIL)
    return float(np.interp(tail, x, y).mean())


def tabulate_rates(setting: Setting, rows: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the mean accuracy at the larger budget over the tuning seeds: a row per arm, a column per rate.

    NaN where a seed is missing.
    """
    rows = rows[rows["seed"].isin(setting.tuning_seeds)]
    budget, classes = setting.megabytes[-1], setting.classes
    means: dict[str, dict[float, float]] = {arm.name: {} for arm in setting.arms}
    for (arm, rate), part in rows.groupby(["arm", "rate"]):
        accuracies = []
        for _, run in part.groupby("seed"):
            _check_spent_budget(setting, run, budget)
            accuracies.append(accuracy_at_budget(run, "megabytes", budget, classes))
        complete = len(accuracies) == len(setting.tuning_seeds)
        means[arm][rate] = float(np.mean(accuracies)) if complete else np.nan
    table = pd.DataFrame.from_dict(means, orient="index", dtype=float)
    return table.reindex(columns=sorted({*table.columns, *setting.rates}))


def _check_spent_budget(setting: Setting, run: pd.DataFrame, budget: float) -> None:
    """Raise `InputError` for a run of tuning that `tuning_rounds` stopped before it had spent the budget."""
    last = run.iloc[-1]
    if last["round"] < setting.rounds and last["megabytes"] < budget and not last["ended"]:
        raise InputError(
            f"{last['arm']} in setting {setting.name} sent {last['megabytes']:.3g} of {budget:g} MB in "
            f"{last['round']} rounds of tuning: give it more tuning_rounds, or the setting fewer megabytes"
        )


def choose_rates(table: pd.DataFrame) -> pd.Series:
    """Return by arm the rate of the highest accuracy, the smaller of equal ones; NaN where none is known."""
    return table.dropna(how="all").idxmax(axis=1).reindex(table.index)


def propose_rates(row: pd.Series, rates: Sequence[float]) -> list[float]:
    """Return the rates at which an arm must be run next.

    These are the rates of the grid without a result; if all have one and the best is the smallest or the largest, a
    rate beyond it; otherwise none. A grid that has grown `MAX_EXTENSIONS` times grows no more, not even in a later call.

    Args:
        row: the accuracies by rate, NaN where there is none: a row of `tabulate_rates`.
        rates: the grid.
    """
    accuracies = row.dropna()
    if missing := [rate for rate in rates if rate not in accuracies]:
        return missing
    if len(accuracies) >= len(rates) + MAX_EXTENSIONS:
        return []
    ascending, best = sorted(accuracies.index), accuracies.idxmax()
    (low, second), (last_but_one, high) = ascending[:2], ascending[-2:]
    # As far beyond the end as its neighbour is inside, in ratio.
    beyond = {low: low**2 / second, high: high**2 / last_but_one}
    if best not in beyond:
        return []
    rounded = float(f"{beyond[best]:.0e}")
    return [float(f"{beyond[best]:.1e}") if rounded in accuracies else rounded]


def carry_out(
    protocol: dict[str, Setting],
    name: str,
    *,
    folder: str | Path = "runs",
    arm: str | None = None,
    seeds: Sequence[int] | None = None,
    **options,
) -> list[str]:
    """Execute the missing runs of one setting: tuning, until no optimum lies at an end of the grid, then evaluation.

    Args:
        protocol: the settings, as `read` returns them.
        name: of the setting.
        folder: where runs are recorded.
        arm: the only arm besides the reference, or all.
        seeds: of the evaluation, or all.
        options: those of `sweeps.make`.

    Returns:
        What failed, as `sweeps.make` does.
    """
    check_choice("setting", name, protocol)
    sweeps.check(**options)
    setting, folders = protocol[name], (RECORDED, folder)
    for seed in seeds or ():
        check_choice(f"seed of evaluation of setting {name}", seed, setting.evaluation_seeds)
    if arm is not None:
        check_choice(f"arm of setting {name}", arm, [allowed.name for allowed in setting.arms])
        both = tuple(a for a in setting.arms if a.name in (arm, setting.reference))
        setting = replace(setting, arms=both)
    tuned = replace(protocol[setting.rates_of or name], arms=setting.arms)

    def record_missing(setting: Setting, runs: list[tuple[int, Arm, float]]) -> list[str]:
        """Execute those of the runs (seed, arm, rate) of a setting that are not recorded; return what failed."""
        rows = load_curves(setting, folders)
        present = set(zip(rows["arm"], rows["rate"], rows["seed"], strict=True))
        missing = [
            setting.plan_run(a, rate, s) for s, a, rate in runs if (a.name, rate, s) not in present
        ]
        return sweeps.make(missing, SWEEP, folder=folder, **options) if missing else []

    failed: list[str] = []
    for _ in range(MAX_EXTENSIONS + 1):
        table = tabulate_rates(tuned, load_curves(tuned, folders))
        proposed = {a: propose_rates(table.loc[a.name], tuned.rates) for a in tuned.arms}
        if not any(proposed.values()):
            break
        tuning = [
            (s, a, r) for s in tuned.tuning_seeds for a, rates in proposed.items() for r in rates
        ]
        failed += record_missing(tuned, tuning)
        if options.get("dry_run"):  # what is evaluated depends on what is tuned
            return failed
    best = choose_rates(tabulate_rates(tuned, load_curves(tuned, folders))).dropna()
    arms = [a for a in setting.arms if a.name in best]
    evaluation = setting.evaluation_seeds if seeds is None else seeds
    runs = [(s, a, best[a.name]) for s in evaluation for a in arms]
    return failed + record_missing(setting, runs)


# Outcomes


def load_evaluation(
    protocol: dict[str, Setting],
    name: str,
    folders: Sequence[str | Path] = (RECORDED,),
    recorded: list[records.Record] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Load what `tabulate_rates` returns of a setting, and the curves of evaluation at each arm's best rate.

    `folders` and `recorded` are those of `load_curves`.
    """
    setting = protocol[name]
    tuned = replace(protocol[setting.rates_of or name], arms=setting.arms)
    rows = load_curves(tuned, folders, recorded)
    table = tabulate_rates(tuned, rows)
    if setting.rates_of:
        rows = load_curves(setting, folders, recorded)
    rows = rows[rows["seed"].isin(setting.evaluation_seeds)]
    return table, rows[rows["rate"] == rows["arm"].map(choose_rates(table))]


def compute_outcomes(
    protocol: dict[str, Setting],
    name: str,
    folders: Sequence[str | Path] = (RECORDED,),
    recorded: list[records.Record] | None = None,
) -> pd.DataFrame:
    """Compute the outcomes of a setting, one row per arm and evaluation seed that the reference has, too.

    `folders` and `recorded` are those of `load_curves`. The columns, besides setting, arm, seed, rate and run:

    - `large`, `small`, `rounds`, `examples`: accuracy in per cent at the larger and the smaller budget, after the
      setting's rounds, and after the examples that the reference's run of the same seed had processed by then;
    - `loss`: training loss after the setting's rounds; `worst_decile`: accuracy in per cent of the worst decile of
      clients at the end;
    - `megabytes_to_goal`, `rounds_to_goal`: megabytes and rounds until the run reaches the reference's accuracy at the smaller budget,
      NaN where it does not;
    - `rounds_in_budget`, `examples_in_budget`: rounds and examples that the larger budget paid for;
    - `sent`: megabytes at the end.
    """
    setting, classes = protocol[name], protocol[name].classes
    _, rows = load_evaluation(protocol, name, folders, recorded)
    small, large = setting.megabytes[0], setting.megabytes[-1]
    references = dict(iter(rows[rows["arm"] == setting.reference].groupby("seed")))
    outcomes = []
    for (arm, seed), run in rows.groupby(["arm", "seed"], sort=False):
        if seed not in references:
            continue
        last, reference = run.iloc[-1], references[seed]
        goal = accuracy_at_budget(reference, "megabytes", small, classes)
        examples = _value_after(reference, setting.rounds, "examples")

        def accuracy(cost: str, budget: float, run: pd.DataFrame = run) -> float:
            """Return the run's accuracy at a budget, in per cent."""
            return 100 * accuracy_at_budget(run, cost, budget, classes)

        outcomes.append(
            {
                "setting": name,
                "arm": arm,
                "seed": seed,
                "rate": last["rate"],
                "run": last["run"],
                "large": accuracy("megabytes", large),
                "small": accuracy("megabytes", small),
                "rounds": accuracy("round", setting.rounds),
                "examples": accuracy("examples", examples),
                "loss": _value_after(run, setting.rounds, "train_loss"),
                "worst_decile": 100 * last["worst_decile"],
                "megabytes_to_goal": _cost_to_reach(run, "megabytes", goal),
                "rounds_to_goal": _cost_to_reach(run, "round", goal),
                "rounds_in_budget": float(np.interp(large, run["megabytes"], run["round"], left=0)),
                "examples_in_budget": float(
                    np.interp(large, run["megabytes"], run["examples"], left=0)
                ),
                "sent": last["megabytes"],
            }
        )
    return pd.DataFrame(outcomes)


def _value_after(run: pd.DataFrame, rounds: int, column: str) -> float:
    """Return a column's value after so many rounds, linear between evaluations; at the end of a shorter run."""
    return float(np.interp(rounds, run["round"], run[column]))


def _cost_to_reach(run: pd.DataFrame, cost: str, goal: float) -> float:
    """Return the cost at which the curve first reaches the goal, linear between evaluations; NaN if it does not.

    `cost` is a cumulative column, such as megabytes. The curve begins at cost 0 with accuracy 0; a run that diverged (column
    `ended`) reaches nothing.
    """
    y, x = np.append(0.0, run["test_accuracy"]), np.append(0.0, run[cost])
    diverged = run["ended"].iloc[0]
    if diverged or not (y >= goal).any():
        return np.nan
    k = int((y >= goal).argmax())
    return float(x[k] if k == 0 else np.interp(goal, y[k - 1 : k + 1], x[k - 1 : k + 1]))


def compute_gains(
    outcomes: pd.DataFrame, reference: str, metrics: Sequence[str] = METRICS
) -> pd.DataFrame:
    """Compute the paired differences to the reference over common seeds.

    Returns:
        One row per arm and metric: seeds, mean (of the arm), gain with low and high (95 % interval), p, and `holm`,
        p corrected over all arms at both budgets (the primary outcome).
    """
    rows = []
    for metric in metrics:
        wide = outcomes.pivot(index="seed", columns="arm", values=metric)
        for arm in wide.columns.drop(reference):
            pairs = wide[[arm, reference]].dropna()
            gain = statistics.paired_difference(pairs[arm], pairs[reference])
            row = {"arm": arm, "metric": metric, "seeds": gain.pairs, "mean": pairs[arm].mean()}
            rows.append(row | {"gain": gain.mean, "low": gain.low, "high": gain.high, "p": gain.p})
    columns = ["arm", "metric", "seeds", "mean", "gain", "low", "high", "p"]
    table = pd.DataFrame(rows, columns=columns)  # empty where the reference alone is recorded
    primary = table["metric"].isin(("large", "small"))
    return table.assign(holm=statistics.holm(table["p"].where(primary)))


def format_report(
    protocol: dict[str, Setting], name: str, folders: Sequence[str | Path] = (RECORDED,)
) -> str:
    """Format one setting as text: each arm's rate, accuracy and gain at both budgets, the best first."""
    setting, outcomes = protocol[name], compute_outcomes(protocol, name, folders)
    reference, small, large = setting.reference, setting.megabytes[0], setting.megabytes[-1]
    if not len(outcomes):
        return f"{setting.title}: of {reference}, which all are compared with, nothing is recorded"
    gains = compute_gains(outcomes, reference).set_index(["arm", "metric"])
    means = outcomes.groupby("arm").agg(
        rate=("rate", "first"),
        seeds=("seed", "size"),
        large=("large", "mean"),
        small=("small", "mean"),
    )
    lines = [f"{setting.title}: accuracy in %, and points above {reference} with 95 % intervals"]
    lines += [
        f"{'':28s}{'rate':>6s} {'seeds':>5s}  {f'at {small:g} MB':>24s}  {f'at {large:g} MB':>24s}"
    ]
    for arm, row in means.sort_values("large", ascending=False).iterrows():
        cells = []
        for metric in ("small", "large"):
            cell = f"{row[metric]:.1f}"
            if arm != reference:
                gain, low, high = gains.loc[(arm, metric), ["gain", "low", "high"]]
                cell += f"  {gain:+.1f} ({low:+.1f} to {high:+.1f})"
            cells.append(f"{cell:>24s}")
        lines.append(f"{arm:28s}{row['rate']:6g} {row['seeds']:5.0f}  {cells[0]}  {cells[1]}")
    sent = outcomes.groupby("arm")["sent"].max()
    if len(short := sent[sent < large]):
        lines.append(
            f"sent less than {large:g} MB by the end of their rounds, and stand as they were then: "
            + ", ".join(f"{arm} {megabytes:.3g} MB" for arm, megabytes in short.items())
        )
    return "\n".join(lines)


def join_one_round_errors(gains: pd.DataFrame, errors: pd.DataFrame) -> pd.DataFrame:
    """Join gains with the `error` of one round of the same federation, participants and design.

    Args:
        gains: as `compute_gains` returns them, with the column setting.
        errors: as `one_rounds.summarise` returns them, in multiples of MD's error.

    Returns:
        The gains whose error is recorded; the arm `all clients` has none.
    """
    designs = {arm: RECORDED_NAMES.get(arm, arm) for arm in gains["arm"].unique()}
    participants = ["" if m == 10 else f"-m{m}" for m in errors["m"]]
    errors = errors.assign(setting=errors["setting"] + participants).rename(
        columns={"mean": "error"}
    )
    keys = gains.assign(design=gains["arm"].map(designs))
    joined = keys.merge(
        errors[["setting", "design", "error"]], on=["setting", "design"], how="left"
    )
    return joined.drop(columns="design").set_axis(gains.index).dropna(subset="error")
