"""The second comparison of designs (chapter 10): averaged models, own rates and schedules, headroom, saved bytes.

`read` checks its file (book/comparison.yml), `carry_out` makes the runs of a setting, tuning first, and `outcomes`,
`compare` and `headroom` evaluate them. A setting is a federation, a number of participants and a probability that they
do not answer; an arm is a method with its settings. Each arm has, in each setting, the learning rate and the schedule with
the highest accuracy of the averaged model on a validation split, on seeds that serve nothing else. Book/comparison.md
has the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from companion.runs import protocol, records, statistics, sweeps, tables
from companion.runs.protocol import Arm
from companion.runs.sweeps import Run
from fedstas import methods, user_code
from fedstas.errors import DataError, InputError, check_choice, check_int
from fedstas.sim import simulation, tasks

FILE = protocol.ROOT / "book" / "comparison.yml"
SWEEP = "comparison"
ALL_CLIENTS = "all clients"  # the arm in which everybody takes part: what there is to win
BUDGETS = {"small": 0.25, "large": 1.0}  # of what the reference's run has sent at its end
TAIL = protocol.TAIL
MODELS = {"average": "test_accuracy_average", "raw": "test_accuracy"}  # the primary one first
SCHEDULES = ("constant", "cosine")


@dataclass(frozen=True, order=True)
class Candidate:
    """A learning rate and a schedule that tuning tries."""

    lr: float
    schedule: str


@dataclass(frozen=True, kw_only=True)
class Setting(protocol.BaseSetting):
    """A setting of the second comparison, and how it is tuned and run.

    `drop` and `remedy` are those of `simulation.run`; `average` is beta of the averaged model. P-values are corrected by
    Holm within a `family` of settings.
    """

    schedules: tuple[str, ...]
    average: float
    network: str = ""
    drop: float = 0.0
    remedy: str = simulation.REMEDIES[0]
    family: str = "planned"

    @property
    def candidates(self) -> list[Candidate]:
        """The learning rates and schedules of the grid."""
        return [Candidate(lr, schedule) for schedule in self.schedules for lr in self.rates]

    @property
    def windows(self) -> dict[str, range]:
        """The rounds of the last tenth before the reference's two budgets, all of which are evaluated."""
        ends = {name: round(share * self.rounds) for name, share in BUDGETS.items()}
        return {
            name: range(end - max(1, round(TAIL * end)) + 1, end + 1) for name, end in ends.items()
        }

    def plan_run(self, arm: Arm, candidate: Candidate, seed: int) -> Run:
        """Return the run of an arm; on a seed of tuning, it trains without the validation split and is tested on it."""
        tuning = seed in self.tuning_seeds
        local = {"lr": candidate.lr}
        if candidate.schedule != SCHEDULES[0]:
            local |= {"schedule": candidate.schedule, "decay_rounds": self.rounds}
        windows = [self.windows["large"]] if tuning else self.windows.values()
        return Run(
            task=self.task + (tasks.VALIDATION if tuning else ""),
            partition=self.partition,
            concentration=self.concentration,
            method=arm.method,
            seed=seed,
            overrides=dict(arm.settings) | local,
            clients=self.clients,
            clients_per_round=self.clients if arm.name == ALL_CLIENTS else self.clients_per_round,
            rounds=self.rounds,
            eval_every=self.rounds if tuning else self.evaluate_every,
            eval_rounds=tuple(t for window in windows for t in window),
            average=self.average,
            network=self.network,
            initial_model="seed",
            drop=self.drop,
            remedy=self.remedy if self.drop else simulation.REMEDIES[0],
        )


# The file


_WHOLE = ("clients", "clients_per_round", "rounds", "evaluate_every")
_OPTIONAL = ("concentration", "network", "drop", "remedy", "family")
_KEYS = ("title", "task", "partition", *_WHOLE, "rates", "tuning_seeds", "evaluation_seeds")
_KEYS += ("schedules", "reference", "min_effect")


def read(path: str | Path = FILE) -> dict[str, Setting]:
    """Read the settings of a file like book/comparison.yml, by name; `InputError` names what in it is wrong."""
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read as a comparison: {error}") from error
    try:
        arms = {name: protocol.read_arm(name, **entry) for name, entry in content["arms"].items()}
        common = {key: content[key] for key in content.keys() - {"arms", "settings"}}
        return {
            name: _read_setting(name, arms, common | entry)
            for name, entry in content["settings"].items()
        }
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is no comparison: {error}") from error


def _read_setting(name: str, arms: dict[str, Arm], entry: dict) -> Setting:
    """Check a setting's entry, completed by what all settings of the file have in common, and return the setting."""
    allowed = (*_KEYS, *_OPTIONAL, "arms", "average")
    for key in entry:
        check_choice(f"key of setting {name}", key, allowed)
    for key in (*_KEYS, "average"):
        if key not in entry:
            raise InputError(f"setting {name} lacks {key}")
    entry = dict(entry)
    chosen = entry.pop("arms", None) or list(arms)
    for arm in (*chosen, entry["reference"]):
        check_choice(f"arm of setting {name}", arm, list(arms))
    if entry["reference"] not in chosen:
        raise InputError(f"setting {name} lacks its reference, the arm {entry['reference']}")
    for key in _WHOLE:
        check_int(f"{key} of setting {name}", entry[key], 1)
    entry |= protocol.read_seeds_and_rates(name, entry)
    for schedule in entry["schedules"]:
        check_choice(f"schedule of setting {name}", schedule, SCHEDULES)
    if entry["task"].endswith(tasks.VALIDATION):
        raise InputError(
            f"setting {name} is evaluated on the validation split of its tuning: name the task "
            f"{entry['task'].removesuffix(tasks.VALIDATION)}"
        )
    protocol.check_data(name, entry)
    # The validation split is named FILE.py:FUNCTION-validation.
    if (file := user_code.FILE.fullmatch(entry["task"])) and file[2] is None:
        entry["task"] += ":task"
    simulation.check_average(entry["average"])
    simulation.check_drop(entry.get("drop", 0.0), entry.get("remedy", simulation.REMEDIES[0]))
    entry["schedules"] = tuple(entry["schedules"])
    return Setting(name=name, arms=tuple(arms[arm] for arm in chosen), **entry)


# What is recorded


def load_runs(folders: Sequence[str | Path] = (protocol.RECORDED,)) -> list[records.Record]:
    """Read all recorded runs of the comparison once, to be handed on as `recorded`."""
    present = (Path(folder) for folder in folders if Path(folder).is_dir())
    return [run for folder in present for run in records.read_runs(folder / SWEEP)]


def load_curves(setting: Setting, recorded: list[records.Record], *, tuning: bool) -> pd.DataFrame:
    """Return the rows of all runs of a setting's arms, of tuning or of evaluation.

    Returns:
        One row per evaluated round: columns arm, lr, schedule, seed, run, ended (whether the run diverged), megabytes (sent
        and received so far), and those of `History.frame`.
    """
    seeds = setting.tuning_seeds if tuning else setting.evaluation_seeds
    # As records name the files of a task or partition that is not the package's.
    task = user_code.without_folders(setting.task, "task") + (tasks.VALIDATION if tuning else "")
    where = (task, Path(setting.partition).name, setting.clients)
    arms: dict[str, list[Arm]] = {}
    for arm in setting.arms:
        arms.setdefault(methods.get(arm.method, **dict(arm.settings)).name, []).append(arm)
    keys: dict[tuple[Arm, Candidate], str] = {}
    curves, labels = [], []
    for run in recorded:
        identity = run.identity
        recipe = identity["partition"]
        place = (identity["task"], recipe["name"], identity["clients"])
        if place != where or identity["seed"] not in seeds:
            continue
        if recipe.get("concentration") not in (None, setting.concentration):
            continue
        local = identity["method"]["local"]
        candidate = Candidate(local["lr"], local.get("schedule", SCHEDULES[0]))
        for arm in arms.get(identity["method"]["name"], []):
            if (arm, candidate) not in keys:  # seeds differ in no more
                planned = setting.plan_run(arm, candidate, seeds[0])
                keys[arm, candidate] = tables.run_key(planned)
            if keys[arm, candidate] == tables.record_key(identity | {"seed": seeds[0]}):
                curve, ended = run.columns(), bool(run.metadata["diverged"])
                if not len(curve["round"]):  # it diverged before it was evaluated, and counts
                    curve = {name: np.zeros(1, values.dtype) for name, values in curve.items()}
                curves.append(curve)
                labels.append(
                    (arm.name, candidate.lr, candidate.schedule, identity["seed"], run.run, ended)
                )
    names = ["arm", "lr", "schedule", "seed", "run", "ended"]
    if not curves:
        return pd.DataFrame(columns=[*names, "round"])
    table = pd.DataFrame(labels, columns=names)
    table = table.loc[np.repeat(table.index, [len(c["round"]) for c in curves])]
    table = table.reset_index(drop=True)
    table = table.assign(**{k: np.concatenate([c[k] for c in curves]) for k in curves[0]})
    return table.assign(megabytes=(table["bytes_down"] + table["bytes_up"]) / 1e6)


def tabulate_tuning(setting: Setting, rows: pd.DataFrame, model: str = "average") -> pd.DataFrame:
    """Tabulate the mean accuracy of a model on the validation split, in the last tenth of the rounds.

    Args:
        setting: that was tuned.
        rows: as `load_curves` returns them, of tuning.
        model: of `MODELS`; candidates are chosen by the average.

    Returns:
        A row per arm, a column per candidate (schedule, lr); NaN where a seed is missing. A run that diverged guesses.
    """
    classes, window = setting.classes, setting.windows["large"]
    table = pd.DataFrame(
        np.nan,
        index=[arm.name for arm in setting.arms],
        columns=pd.MultiIndex.from_tuples([], names=["schedule", "lr"]),
    )
    for (arm, schedule, lr), part in rows.groupby(["arm", "schedule", "lr"]):
        runs = [run for _, run in part.groupby("seed")]
        if len(runs) == len(setting.tuning_seeds):
            values = [
                1 / classes
                if run["ended"].any()
                else run[run["round"].isin(window)][MODELS[model]].mean()
                for run in runs
            ]
            table.loc[arm, (schedule, lr)] = np.mean(values)
    return table.sort_index(axis=1)


def choose_candidates(table: pd.DataFrame) -> dict[str, Candidate]:
    """Return the best candidate of each arm that is tuned, the first of equal ones (the smaller rate)."""
    best = {}
    for arm, row in table.iterrows():
        if len(row := row.dropna()):
            schedule, lr = row.idxmax()
            best[str(arm)] = Candidate(float(lr), str(schedule))
    return best


def list_at_end(table: pd.DataFrame) -> list[str]:
    """List the arms whose best rate lies at an end of the rates that were tried with its schedule.

    Args:
        table: as `tabulate_tuning` returns it.
    """
    arms = []
    for arm, best in choose_candidates(table).items():
        tried = table.loc[arm][best.schedule].dropna().index
        if best.lr in (min(tried), max(tried)):
            arms.append(arm)
    return arms


def propose_candidates(setting: Setting, row: pd.Series) -> list[Candidate]:
    """Return the candidates that an arm must try next; none where the optimum of each schedule lies inside its grid.

    Args:
        setting: whose grid it is.
        row: of `tabulate_tuning`.
    """
    row = row.dropna()
    if missing := [c for c in setting.candidates if (c.schedule, c.lr) not in row.index]:
        return missing
    return [
        Candidate(lr, schedule)
        for schedule in setting.schedules
        for lr in protocol.propose_rates(row[schedule], setting.rates)
    ]


def carry_out(
    setting: Setting,
    *,
    folder: str | Path = "runs",
    seeds: Sequence[int] | None = None,
    **options,
) -> list[str]:
    """Make the missing runs of a setting: tuning until no optimum lies at an end of the grid, then evaluation.

    Args:
        setting: with the arms that are wanted; `narrow` leaves some out.
        folder: where runs are recorded.
        seeds: of the evaluation, or all.
        options: those of `sweeps.make`.

    Returns:
        What failed, as `sweeps.make` does.
    """
    sweeps.check(**options)
    for seed in seeds or ():
        check_choice(
            f"seed of evaluation of setting {setting.name}", seed, setting.evaluation_seeds
        )
    folders = dict.fromkeys([protocol.RECORDED.resolve(), Path(folder).resolve()])
    failed: list[str] = []

    def record_missing(runs: list[tuple[Arm, Candidate, int]], tuning: bool) -> None:
        """Make those of these runs that no folder holds; note what failed."""
        rows = load_curves(setting, load_runs([*folders]), tuning=tuning)
        present = set(zip(rows["arm"], rows["lr"], rows["schedule"], rows["seed"], strict=True))
        missing = [
            setting.plan_run(arm, c, seed)
            for arm, c, seed in runs
            if (arm.name, c.lr, c.schedule, seed) not in present
        ]
        failed.extend(sweeps.make(missing, SWEEP, folder=folder, **options) if missing else [])

    def load_tuning() -> pd.DataFrame:
        """Return the table of tuning as it is recorded now."""
        return tabulate_tuning(setting, load_curves(setting, load_runs([*folders]), tuning=True))

    for _ in range(protocol.MAX_EXTENSIONS + 1):
        table = load_tuning()
        proposed = {arm: propose_candidates(setting, table.loc[arm.name]) for arm in setting.arms}
        if not any(proposed.values()):
            break
        runs = [
            (arm, c, s) for s in setting.tuning_seeds for arm in proposed for c in proposed[arm]
        ]
        record_missing(runs, tuning=True)
        if options.get("dry_run"):  # what is evaluated depends on what is tuned
            return failed
    best = choose_candidates(load_tuning())
    arms = [arm for arm in setting.arms if arm.name in best]
    evaluation = setting.evaluation_seeds if seeds is None else seeds
    record_missing([(a, best[a.name], s) for s in evaluation for a in arms], tuning=False)
    return failed


def narrow(setting: Setting, arms: Sequence[str]) -> Setting:
    """Return the setting with these arms and its reference alone; `InputError` for an arm that it does not have."""
    for arm in arms:
        check_choice(f"arm of setting {setting.name}", arm, [a.name for a in setting.arms])
    kept = (setting.reference, *arms)
    return replace(setting, arms=tuple(a for a in setting.arms if a.name in kept))


# Outcomes


def megabytes_to_hold(
    run: Mapping[str, pd.Series | np.ndarray], goal: float, budget: float, classes: int, metric: str
) -> tuple[float, bool]:
    """Return the megabytes after which a run holds an accuracy, and whether it does.

    A run holds the goal at b megabytes if its mean accuracy from b minus a tenth of `budget` up to b is at least `goal`. The
    curve is linear between evaluations and starts at 0 megabytes with the accuracy of guessing, 1 / classes. If the run
    never holds the goal, the megabytes of the whole run and False are returned: it would need more. So do those of a run
    that diverged, but no fewer than `budget`, since it would have sent that much.
    """
    sent, diverged = float(np.asarray(run["megabytes"])[-1]), np.asarray(run["ended"])[0]
    if diverged:
        return max(sent, budget), False
    x = np.append(0.0, run["megabytes"])
    y = np.append(1 / classes, run[metric])
    ends = np.linspace(TAIL * budget, sent, 1001)
    steps = np.linspace(0, TAIL * budget, protocol.POINTS_OF_TAIL)
    means = np.interp(ends[:, None] - steps, x, y).mean(1)
    reached = np.flatnonzero(means >= goal - 1e-9)  # rounding error of the reference's own goal
    return (float(ends[reached[0]]), True) if len(reached) else (sent, False)


def _evaluate(
    setting: Setting, recorded: list[records.Record]
) -> tuple[dict[tuple[str, int], dict[str, np.ndarray]], pd.DataFrame]:
    """Return the curve of each run of evaluation at its arm's tuned candidate, by arm and seed, and the table of tuning.

    A curve is a dictionary of the columns of `load_curves`.
    """
    tuning = tabulate_tuning(setting, load_curves(setting, recorded, tuning=True))
    best = choose_candidates(tuning)
    rows = load_curves(setting, recorded, tuning=False)
    runs = {
        (arm, seed): {name: run[name].to_numpy() for name in run}
        for (arm, lr, schedule, seed), run in rows.groupby(["arm", "lr", "schedule", "seed"])
        if best.get(arm) == Candidate(lr, schedule)
    }
    return runs, tuning


def outcomes(setting: Setting, recorded: list[records.Record]) -> pd.DataFrame:
    """Compute the outcomes of a setting: a row per arm, model ("average" or "raw") and seed of evaluation.

    Only seeds whose reference is recorded are in it. The budgets are what the reference's run of the same seed has sent
    by its end, and a quarter of that. The columns, besides setting, family, arm, model, seed, run, lr and schedule:

    - `large`, `small`: accuracy in per cent over the last tenth of either budget;
    - `rounds`: accuracy in per cent over the last tenth of the rounds;
    - `ratio`: the goal is the accuracy of the reference (the arm `setting.reference`) over the last tenth of the larger
      budget; the megabytes after which the run holds it (`megabytes_to_hold`), divided by those after which the reference
      does. `reached`: whether the run ever holds it; if not, the ratio is a lower bound;
    - `megabytes`, `examples`: megabytes sent and examples processed by the end; NaN for a run that diverged;
    - `at_end`: whether the arm's rate lies at an end of those that were tried.
    """
    classes, window = setting.classes, setting.windows["large"]
    runs, tuning = _evaluate(setting, recorded)
    arms_at_end, rows = list_at_end(tuning), []
    for (arm, seed), run in runs.items():
        reference = runs.get((setting.reference, seed))
        if reference is None:
            continue
        budget, ended_early = float(reference["megabytes"][-1]), bool(run["ended"].any())
        if reference["ended"].any():
            raise DataError(
                f"the run of {setting.reference} of seed {seed} in setting {setting.name} diverged, so that it sets no "
                "budget: tune it again"
            )
        for model, metric in MODELS.items():
            goal = protocol.accuracy_at_budget(reference, "megabytes", budget, classes, metric)
            spent, reached = megabytes_to_hold(run, goal, budget, classes, metric)
            usual, _ = megabytes_to_hold(reference, goal, budget, classes, metric)
            at_end = run[metric][np.isin(run["round"], window)]
            rows.append(
                {
                    "setting": setting.name,
                    "family": setting.family,
                    "arm": arm,
                    "model": model,
                    "seed": seed,
                    "run": run["run"][0],
                    "lr": run["lr"][0],
                    "schedule": run["schedule"][0],
                    **{
                        name: 100
                        * protocol.accuracy_at_budget(
                            run, "megabytes", share * budget, classes, metric
                        )
                        for name, share in BUDGETS.items()
                    },
                    "rounds": 100 * (1 / classes if ended_early else at_end.mean()),
                    "ratio": spent / usual,
                    "reached": reached,
                    "megabytes": np.nan if ended_early else run["megabytes"][-1],
                    "examples": np.nan if ended_early else run["examples"][-1],
                    "at_end": arm in arms_at_end,
                }
            )
    return pd.DataFrame(rows)


def compare(table: pd.DataFrame, against: str) -> pd.DataFrame:
    """Compare every arm with another, paired by seed, with 95 % t-intervals.

    Args:
        table: as `outcomes` returns it, also of several settings.
        against: the arm that all are compared with.

    Returns:
        One row per setting, model, arm and outcome: `seeds`, `mean`, `low`, `high`, `p`. Accuracies are differences in points;
        `ratio` is the geometric mean of the ratios of megabytes, its p that of its logarithm, and `reached` says in how many
        seeds both arms hold the goal (in the others the ratio is a bound). `holm` is p corrected over the ratios of the
        averaged models of all settings of a family in the table: what is decided with; NaN for an arm without all seeds.
    """
    rows = []
    for (family, setting, model), part in table.groupby(["family", "setting", "model"], sort=False):
        for outcome in (*BUDGETS, "rounds", "ratio"):
            values = np.log(part["ratio"]) if outcome == "ratio" else part[outcome]
            wide = part.assign(value=values).pivot(index="seed", columns="arm", values="value")
            holds = part.pivot(index="seed", columns="arm", values="reached")
            if against not in wide:
                continue
            for arm in wide.columns.drop(against):
                pairs = wide[[arm, against]].dropna()
                paired = statistics.paired_difference(pairs[arm], pairs[against])
                interval = np.array(paired.interval)
                both = holds.loc[pairs.index, [arm, against]].all(axis=1)
                mean, low, high = np.exp(interval) if outcome == "ratio" else interval
                keys = {"family": family, "setting": setting, "model": model}
                keys |= {"arm": arm, "outcome": outcome}
                values = {"seeds": paired.pairs, "mean": mean, "low": low, "high": high}
                rows.append(keys | values | {"p": paired.p, "reached": int(both.sum())})
    columns = ["family", "setting", "model", "arm", "outcome", "seeds", "mean", "low", "high", "p"]
    result = pd.DataFrame(rows, columns=[*columns, "reached"])
    decides = (result["outcome"] == "ratio") & (result["model"] == "average")
    # An arm that is still being run does not enter its family yet.
    decides &= result["seeds"] == result.groupby("setting")["seeds"].transform("max")
    deciding = result["p"].where(decides)
    return result.assign(holm=deciding.groupby(result["family"]).transform(statistics.holm))


def headroom(table: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Compute the headroom, and each arm's share of it.

    The headroom is by how many points the arm in which all clients take part is above the reference after the same number
    of rounds.

    Args:
        table: as `outcomes` returns it.
        reference: the arm above which points are counted.

    Returns:
        One row per setting that has that arm, model, and arm other than the reference: `headroom` in points with its interval
        `low` to `high`, and `share`, the arm's gain over the reference divided by the headroom.
    """
    points = compare(table, reference)
    points = points[points["outcome"] == "rounds"]
    whole = points[points["arm"] == ALL_CLIENTS].set_index(["setting", "model"])
    rows = []
    for row in points.itertuples():
        if (key := (row.setting, row.model)) in whole.index:
            most = whole.loc[key]
            rows.append(
                (*key, row.arm, most["mean"], most["low"], most["high"], row.mean / most["mean"])
            )
    return pd.DataFrame(
        rows, columns=["setting", "model", "arm", "headroom", "low", "high", "share"]
    )


def missing(setting: Setting, recorded: list[records.Record]) -> dict[str, list[int]]:
    """Return the seeds of evaluation that each arm lacks; all of them for an arm that is not tuned."""
    seeds: dict[str, set[int]] = {arm.name: set() for arm in setting.arms}
    curves, _ = _evaluate(setting, recorded)
    for arm, seed in curves:
        seeds[arm].add(seed)
    lacking = {
        arm: [s for s in setting.evaluation_seeds if s not in recorded_seeds]
        for arm, recorded_seeds in seeds.items()
    }
    return {arm: left for arm, left in lacking.items() if left}


def format_report(setting: Setting, recorded: list[records.Record]) -> str:
    """Format a setting as text: each arm's candidate, averaged and raw accuracy, ratio of bytes, and share of headroom.

    Where the interval of the headroom contains zero, there is nothing to have a share of, and none is shown.
    """
    table = outcomes(setting, recorded)
    if not len(table):
        return f"{setting.title}: of {setting.reference}, which all are compared with, nothing is recorded"
    gains = compare(table, setting.reference).set_index(["model", "arm", "outcome"])
    shares = headroom(table, setting.reference).set_index(["model", "arm"])
    means = table.groupby(["model", "arm"]).agg(
        lr=("lr", "first"),
        schedule=("schedule", "first"),
        seeds=("seed", "size"),
        large=("large", "mean"),
    )
    lines = [
        f"{setting.title}: accuracy in %, points above {setting.reference}, and bytes to its accuracy beside its own"
    ]
    for model in MODELS:
        part = means.loc[model].sort_values("large", ascending=False)
        lines.append(
            f"{model} models{'':24s}lr  schedule seeds  accuracy, points          bytes to the goal           share of headroom"
        )
        for arm, row in part.iterrows():
            cell = f"{row['large']:5.1f}"
            ratio, share = "", ""
            if arm != setting.reference:
                points = gains.loc[(model, arm, "large")]
                saved = gains.loc[(model, arm, "ratio")]
                cell += f"  {points['mean']:+.1f} ({points['low']:+.1f} to {points['high']:+.1f})"
                ratio = f"{saved['mean']:.2f} ({saved['low']:.2f} to {saved['high']:.2f})"
                ratio += "" if saved["reached"] == saved["seeds"] else " or more"
            if (model, arm) in shares.index and shares.loc[(model, arm), "low"] > 0:
                share = f"{shares.loc[(model, arm), 'share']:.2f}"
            text = f"  {arm:28s}{row['lr']:6g}  {row['schedule']:8s} {row['seeds']:4d}  {cell:24s}  {ratio:27s} {share}"
            lines.append(text.rstrip())
        if (model, ALL_CLIENTS) in shares.index:
            room = shares.loc[(model, ALL_CLIENTS)]
            lines.append(
                f"  headroom, the points that all clients gain in as many rounds: {room['headroom']:+.1f} "
                f"({room['low']:+.1f} to {room['high']:+.1f})"
            )
    return "\n".join(lines)
