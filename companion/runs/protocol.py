"""The comparison of chapter 10: methods tuned alike, then held against each other at equal cost.

`read` checks a protocol file (book/protocol.yml), `carry_out` makes the runs that it asks for, tuning first,
and `outcomes` and `gains` say what came out. A setting is a federation and a number of participants, an arm
a method with its settings; all else of a run is the same for all arms, and the learning rate is each arm's
own: the one of the highest accuracy at the larger budget, on seeds that are used for nothing else.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from companion.runs import records, statistics, sweeps, tables
from companion.runs.sweeps import Run
from fedstas import methods, user_code
from fedstas.errors import InputError, check_choice, check_float, check_int
from fedstas.sim import coarse, partition, tasks, text

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "book" / "protocol.yml"
RECORDED = ROOT / "results"
SWEEP = "which-design"
CLASSES = {name: shape[-1] for name, shape in tasks.SHAPES.items()} | coarse.CLASSES
CLASSES |= {"digits": 10, "topics": text.TOPICS, "newsgroups": 20}
TAIL = 0.1  # an accuracy at a budget is the mean of the curve over this last part of it
WIDENED = 3  # at most so often is a grid of rates extended
METRICS = ("large", "small", "rounds", "examples", "worst_decile")  # the primary outcome first


@dataclass(frozen=True)
class Arm:
    """A method with its settings; `clients_per_round` and `tuning_rounds` only where it has its own."""

    name: str
    method: str
    settings: tuple = ()
    clients_per_round: int | None = None
    tuning_rounds: int | None = None


@dataclass(frozen=True)
class Setting:
    """A federation, the arms that meet in it, and how they are run and judged.

    `longer`: rounds of evaluation of the arms that would not have sent the larger budget by `rounds`.
    """

    name: str
    says: str
    task: str
    partition: str
    clients: int
    clients_per_round: int
    rounds: int
    evaluate_every: int
    megabytes: tuple[float, ...]
    rates: tuple[float, ...]
    tuning_seeds: tuple[int, ...]
    evaluation_seeds: tuple[int, ...]
    reference: str
    matters: float
    arms: tuple[Arm, ...]
    longer: dict[str, int] = field(default_factory=dict)
    rates_of: str | None = None
    network: str = ""
    concentration: float = 0.01  # of a Dirichlet partition; no other has one

    @property
    def classes(self) -> int:
        """Of its task; of one's own, as it is loaded."""
        return CLASSES.get(self.task) or sweeps.load_task(self.task, "cpu").classes

    def run(self, arm: Arm, rate: float, seed: int) -> Run:
        """One run of an arm at a learning rate."""
        if seed in self.tuning_seeds:
            rounds = min(self.rounds, arm.tuning_rounds or self.rounds)
        else:
            rounds = self.longer.get(arm.name, self.rounds)
        return Run(
            self.task, self.partition, self.concentration, arm.method, seed,
            dict(arm.settings) | {"lr": rate}, self.clients,
            arm.clients_per_round or self.clients_per_round,
            rounds, self.evaluate_every, network=self.network,
        )  # fmt: skip


_KEYS = ("rounds", "evaluate_every", "megabytes", "rates", "tuning_seeds", "evaluation_seeds")
_KEYS += ("reference", "matters")
_PLACE = ("says", "task", "partition", "clients", "clients_per_round")


def read(path: str | Path = FILE) -> dict[str, Setting]:
    """The settings of a protocol file by name; `InputError` names what in it is wrong."""
    try:
        told = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read as a protocol: {error}") from error
    try:
        known = {name: _arm(name, **said) for name, said in told["arms"].items()}
        common = {key: told[key] for key in told.keys() - {"arms", "settings"}}
        found = {
            name: _setting(name, known, **common | said) for name, said in told["settings"].items()
        }
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is no protocol: {error}") from error
    for setting in found.values():
        if setting.rates_of is not None:
            check_choice(f"rates_of in {path}, setting {setting.name}:", setting.rates_of, found)
    return found


def _arm(name: str, method: str, settings: dict | None = None, **user_code) -> Arm:
    methods.get(method, **(settings or {}))  # an unknown method or setting is refused by name
    for key in user_code:
        check_choice(f"key of arm {name}", key, ("clients_per_round", "tuning_rounds"))
        check_int(f"{key} of arm {name}", user_code[key], 1)
    return Arm(name, method, tuple((settings or {}).items()), **user_code)


def _setting(
    name: str, known: dict[str, Arm], *, arms=None, longer=None, rates_of=None, **said
) -> Setting:
    for key in said:
        check_choice(
            f"key of setting {name}",
            key,
            (*_KEYS, *_PLACE, "concentration", "arms", "longer", "rates_of", "network"),
        )
    for key in (*_KEYS, *_PLACE):
        if key not in said:
            raise InputError(f"setting {name} lacks {key}")
    for arm in arms or ():
        check_choice(f"arm of setting {name}", arm, known)
    if not user_code.TABLE.fullmatch(str(said["partition"])):
        check_choice("partition", said["partition"], partition.names())
    if not user_code.FILE.fullmatch(str(said["task"])):
        check_choice("task", said["task"], tasks.names())
    has = said["partition"] in ("dirichlet", "dirichlet_fixed_size")
    if has and "concentration" not in said:
        raise InputError(f"setting {name} lacks concentration")
    if "concentration" in said:
        check_float(f"concentration of setting {name}", said["concentration"], 0)
        if not has:
            none = f"partition {said['partition']} has none"
            raise InputError(f"concentration of setting {name} is of no use: {none}")
    chosen = tuple(known[arm] for arm in arms or known)
    check_choice(f"reference of setting {name}", said["reference"], [arm.name for arm in chosen])
    for key in ("tuning_seeds", "evaluation_seeds"):
        said[key] = tuple(check_int(f"{key} of setting {name}", v, 0) for v in _several(said, key))
    for key in ("rates", "megabytes"):
        each = [check_float(f"{key} of setting {name}", v, 0) for v in _several(said, key)]
        said[key] = tuple(sorted(each))
    if both := set(said["tuning_seeds"]) & set(said["evaluation_seeds"]):
        raise InputError(f"setting {name} tunes and evaluates on seed {min(both)}: use other seeds")
    if len(said["rates"]) < 3:
        raise InputError(f"setting {name} has {len(said['rates'])} rates: an optimum needs three")
    for key in ("rounds", "evaluate_every", "clients", "clients_per_round"):
        check_int(f"{key} of setting {name}", said[key], 1)
    for arm, rounds in (longer or {}).items():
        check_choice(f"arm of setting {name} that runs longer", arm, known)
        check_int(f"longer of setting {name}, {arm}:", rounds, said["rounds"])
    return Setting(name, arms=chosen, longer=longer or {}, rates_of=rates_of, **said)


def _several(said: dict, key: str) -> list:
    if not isinstance(said[key], list) or not said[key]:
        raise InputError(f"{key} is {said[key]!r}: it must be a list that is not empty")
    return said[key]


def entered(setting: Setting, spec: str) -> Setting:
    """The setting with one's own arm beside the others: a design's file, or a method and settings, as in
    `my_design.py power=0.5`."""
    method, (name, *words) = methods.parse(spec), shlex.split(spec)
    pairs = (word.split("=", 1) for word in words)
    settings = tuple((key, yaml.safe_load(value)) for key, value in pairs)
    called = " ".join([method.name, *words])
    if any(key == "lr" for key, _ in settings):
        raise InputError(f"{called}: lr is what is tuned; leave it out, and the arena finds it")
    one = Arm(called, str(Path(name).resolve()) if Path(name).is_file() else name, settings)
    if any((arm.method, arm.settings) == (one.method, settings) for arm in setting.arms):
        raise InputError(f"{called} is in setting {setting.name} already")
    return replace(setting, arms=(*setting.arms, one))


# What is recorded


def runs(folders: Sequence[str | Path] = (RECORDED,)) -> list[records.Record]:
    """All recorded runs of the comparison: read once, handed to `outcomes` of every setting."""
    there = (Path(folder) for folder in folders if Path(folder).is_dir())
    return [run for folder in there for run in records.read_runs(folder / SWEEP)]


def curves(
    setting: Setting, folders: Sequence[str | Path] = (RECORDED,), among: list | None = None
) -> pd.DataFrame:
    """All recorded rows of a setting's arms at any rate: columns arm, rate, seed, run, ended (the run
    diverged), worst_decile, megabytes, and those of `History.frame`. Of `among` (see `runs`) if given."""
    named: dict[str, list[Arm]] = {}
    for arm in setting.arms:
        named.setdefault(methods.get(arm.method, **dict(arm.settings)).name, []).append(arm)
    files = (
        user_code.without_folders(setting.task, "task"),
        Path(setting.partition).name,
    )  # as records name them
    place, found, keys = (*files, setting.clients), {}, {}
    for run in runs(folders) if among is None else among:
        who = run.identity
        dealt = who["partition"]
        here = dealt.get("concentration") in (None, setting.concentration)
        if not here or (who["task"], dealt["name"], who["clients"]) != place:
            continue
        rate, seed = who["method"]["local"]["lr"], who["seed"]
        for arm in named.get(who["method"]["name"], []):
            wanted = setting.run(arm, rate, seed)
            shape = (wanted.clients_per_round, wanted.rounds)
            if shape != (who["clients_per_round"], who["rounds"]):
                continue
            what = (arm, rate, *shape)
            if what not in keys:  # a key takes a millisecond, and seeds differ in no more
                keys[what] = tables.run_key(replace(wanted, seed=0))
            if keys[what] == tables.record_key(who | {"seed": 0}):
                told = {"arm": arm.name, "rate": rate, "seed": seed, "run": run.run}
                told |= {"ended": bool(run.metadata["diverged"])}
                decile, frame = run.metadata.get("worst_decile"), run.frame()
                told |= {"worst_decile": np.nan if decile is None else decile}
                if not len(frame):  # it diverged before it was evaluated, and counts
                    frame = frame.reindex([0]).fillna(0).astype(frame.dtypes)
                found[run.run] = frame.assign(**told)
    if not found:
        return pd.DataFrame(columns=["arm", "rate", "seed", "run", "ended", "megabytes", "round"])
    table = pd.concat(found.values(), ignore_index=True)
    return table.assign(megabytes=(table["bytes_down"] + table["bytes_up"]) / 1e6)


def spent(run: pd.DataFrame, of: str, budget: float, classes: int, metric="test_accuracy") -> float:
    """A run's accuracy at a budget of `of` (a cumulative column): the mean of its curve, linear between
    evaluations and a guess before round 1, over the last tenth of the budget. Past its end a run stands
    still; one that diverged guesses."""
    if run["ended"].iloc[0]:
        return 1 / classes
    x, y = np.append(0.0, run[of]), np.append(1 / classes, run[metric])
    return float(np.interp(np.linspace((1 - TAIL) * budget, budget, 101), x, y).mean())


def tried(setting: Setting, rows: pd.DataFrame) -> pd.DataFrame:
    """What each arm's rates came to: one row per arm, one column per rate, the mean accuracy at the larger
    budget over the tuning seeds; NaN where a seed is missing."""
    rows = rows[rows["seed"].isin(setting.tuning_seeds)]
    count = len(setting.tuning_seeds)
    budget, classes = setting.megabytes[-1], setting.classes
    found: dict = {arm.name: {} for arm in setting.arms}
    for (arm, rate), part in rows.groupby(["arm", "rate"]):
        each = []
        for _, run in part.groupby("seed"):
            _far_enough(setting, run, budget)
            each.append(spent(run, "megabytes", budget, classes))
        found[arm][rate] = np.mean(each) if len(each) == count else np.nan
    table = pd.DataFrame.from_dict(found, orient="index", dtype=float)
    return table.reindex(columns=sorted({*table.columns, *setting.rates}))


def _far_enough(setting: Setting, run: pd.DataFrame, budget: float) -> None:
    """`InputError` for a run of tuning that was stopped before the budget, by `tuning_rounds`."""
    last = run.iloc[-1]
    if last["round"] < setting.rounds and last["megabytes"] < budget and not last["ended"]:
        raise InputError(
            f"{last['arm']} in setting {setting.name} sent {last['megabytes']:.3g} of {budget:g} MB in "
            f"{last['round']} rounds of tuning: give it more tuning_rounds, or the setting fewer megabytes"
        )


def best(table: pd.DataFrame) -> pd.Series:
    """By arm: the rate of the highest accuracy, the smaller of equal ones; NaN where none is known."""
    return table.dropna(how="all").idxmax(axis=1).reindex(table.index)


def next_rates(row: pd.Series, rates: Sequence[float]) -> list[float]:
    """The rates that an arm must be tried at next: those of the grid that are not known; then the one past
    an optimum at an end; none when the optimum lies inside."""
    known = row.dropna()
    if missing := [rate for rate in rates if rate not in known]:
        return missing
    there, top = sorted(known.index), known.idxmax()
    ends = {there[0]: there[0] ** 2 / there[1], there[-1]: there[-1] ** 2 / there[-2]}
    return [float(f"{ends[top]:.0e}")] if top in ends else []


def carry_out(
    protocol: dict[str, Setting], name: str, *, folder: str | Path = "runs", arm: str | None = None,
    seeds: Sequence[int] | None = None, **how,
) -> list[str]:  # fmt: skip
    """Make what is missing of one setting: its rates, until no optimum lies at an end, then its evaluation.

    `arm` and the reference that it is held against, or all; of the evaluation these `seeds`, or all. `how` is
    that of `sweeps.make`, as is what is returned."""
    check_choice("setting", name, protocol)
    sweeps.check(**how)
    setting, folders = protocol[name], (RECORDED, folder)
    for seed in seeds or ():
        check_choice(f"seed of evaluation of setting {name}", seed, setting.evaluation_seeds)
    if arm is not None:
        check_choice(f"arm of setting {name}", arm, [each.name for each in setting.arms])
        both = tuple(a for a in setting.arms if a.name in (arm, setting.reference))
        setting = replace(setting, arms=both)
    tuned = replace(protocol[setting.rates_of or name], arms=setting.arms)

    def make(place: Setting, wanted) -> list[str]:
        rows = curves(place, folders)
        there = set(zip(rows["arm"], rows["rate"], rows["seed"], strict=True))
        todo = [place.run(a, rate, s) for s, a, rate in wanted if (a.name, rate, s) not in there]
        return sweeps.make(todo, SWEEP, folder=folder, **how) if todo else []

    failed: list[str] = []
    for _ in range(WIDENED + 1):
        table = tried(tuned, curves(tuned, folders))
        next_ = {a: next_rates(table.loc[a.name], tuned.rates) for a in tuned.arms}
        if not any(next_.values()):
            break
        failed += make(
            tuned, [(s, a, r) for s in tuned.tuning_seeds for a in next_ for r in next_[a]]
        )
        if how.get("dry_run"):  # what is evaluated depends on what is tuned
            return failed
    rates = best(tried(tuned, curves(tuned, folders))).dropna()
    arms = [a for a in setting.arms if a.name in rates]
    one = setting.evaluation_seeds if seeds is None else seeds
    return failed + make(setting, [(s, a, rates[a.name]) for s in one for a in arms])


# What came out


def evaluated(
    protocol: dict[str, Setting], name: str, folders=(RECORDED,), among: list | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the rates of a setting's arms came to (`tried`), and the curves of evaluation at each arm's best
    rate. `folders` and `among` as in `curves`."""
    setting = protocol[name]
    tuned = replace(protocol[setting.rates_of or name], arms=setting.arms)
    seen = curves(tuned, folders, among)
    table = tried(tuned, seen)
    rows = curves(setting, folders, among) if setting.rates_of else seen
    rows = rows[rows["seed"].isin(setting.evaluation_seeds)]
    return table, rows[rows["rate"] == rows["arm"].map(best(table))]


def outcomes(
    protocol: dict[str, Setting], name: str, folders=(RECORDED,), among: list | None = None
) -> pd.DataFrame:
    """One row per arm and evaluation seed: accuracies in per cent at the `large` and the `small` budget, at
    the end of the `rounds`, and after the `examples` that the reference's run of that seed went through in them;
    `loss` after them, `worst_decile` of the clients at the end; `megabytes` and `until` (rounds) to reach what the reference
    has at the small budget, NaN where that is not reached; `sent` and `went_through` at the end, and `round_at`
    and `examples_at`, what the larger budget paid for. `folders` and `among` as in `curves`."""
    setting, classes = protocol[name], protocol[name].classes
    _, rows = evaluated(protocol, name, folders, among)
    small, large = setting.megabytes[0], setting.megabytes[-1]
    user_code = dict(iter(rows[rows["arm"] == setting.reference].groupby("seed")))
    found = []
    for (arm, seed), run in rows.groupby(["arm", "seed"], sort=False):
        if seed not in user_code:
            continue
        last = run.iloc[-1]
        goal = spent(user_code[seed], "megabytes", small, classes)
        told = {"setting": name, "arm": arm, "seed": seed, "rate": last["rate"], "run": last["run"]}
        told |= {"large": 100 * spent(run, "megabytes", large, classes)}
        told |= {"small": 100 * spent(run, "megabytes", small, classes)}
        told |= {"rounds": 100 * spent(run, "round", setting.rounds, classes)}
        examples = _after(user_code[seed], setting.rounds, "examples")
        told |= {"examples": 100 * spent(run, "examples", examples, classes)}
        loss = _after(run, setting.rounds, "train_loss")
        told |= {"loss": loss, "worst_decile": 100 * last["worst_decile"]}
        told |= {
            "megabytes": _reached(run, "megabytes", goal),
            "until": _reached(run, "round", goal),
        }
        for key in ("round", "examples"):
            told[f"{key}_at"] = float(np.interp(large, run["megabytes"], run[key], left=0))
        found.append(told | {"sent": last["megabytes"], "went_through": last["examples"]})
    return pd.DataFrame(found)


def _after(run: pd.DataFrame, rounds: int, what: str) -> float:
    """What a run had after so many rounds, linear between evaluations; at its end if it has fewer."""
    return float(np.interp(rounds, run["round"], run[what]))


def _reached(run: pd.DataFrame, of: str, goal: float) -> float:
    """What was spent when the curve first reached the goal, linear between evaluations."""
    y, x = np.append(0.0, run["test_accuracy"]), np.append(0.0, run[of])
    if run["ended"].iloc[0] or not (y >= goal).any():
        return np.nan
    k = int((y >= goal).argmax())
    return float(x[k] if k == 0 else np.interp(goal, y[k - 1 : k + 1], x[k - 1 : k + 1]))


def gains(found: pd.DataFrame, reference: str, metrics: Sequence[str] = METRICS) -> pd.DataFrame:
    """Paired differences to the reference over common seeds: columns arm, metric, seeds, mean (of the arm),
    gain, low, high (95 %, t), p, and holm over all arms at both budgets (the primary outcome)."""
    rows = []
    for metric in metrics:
        wide = found.pivot(index="seed", columns="arm", values=metric)
        for arm in wide.columns.drop(reference):
            pairs = wide[[arm, reference]].dropna()
            gain = statistics.paired_difference(pairs[arm], pairs[reference])
            row = {"arm": arm, "metric": metric, "seeds": gain.pairs, "mean": pairs[arm].mean()}
            rows.append(row | {"gain": gain.mean, "low": gain.low, "high": gain.high, "p": gain.p})
    columns = ["arm", "metric", "seeds", "mean", "gain", "low", "high", "p"]
    table = pd.DataFrame(rows, columns=columns)  # of none, where the reference alone is recorded
    primary = table["metric"].isin(("large", "small"))
    return table.assign(holm=statistics.holm(table["p"].where(primary)))


verdict = statistics.judge_gain


def report(protocol: dict[str, Setting], name: str, folders=(RECORDED,)) -> str:
    """One setting as a table of text: each arm's rate, accuracy and gain at both budgets, best first."""
    found = outcomes(protocol, name, folders)
    if not len(found):
        return f"{protocol[name].says}: of {protocol[name].reference}, which all are held against, nothing is recorded"
    reference, (small, *_, large) = protocol[name].reference, protocol[name].megabytes
    table = gains(found, reference).pivot(index="arm", columns="metric")
    means = found.groupby("arm").agg(
        rate=("rate", "first"),
        seeds=("seed", "size"),
        large=("large", "mean"),
        small=("small", "mean"),
    )
    lines = [
        f"{protocol[name].says}: accuracy in %, and points above {reference} with 95 % intervals"
    ]
    lines += [
        f"{'':28s}{'rate':>6s} {'seeds':>5s}  {f'at {small:g} MB':>24s}  {f'at {large:g} MB':>24s}"
    ]
    for arm, row in means.sort_values("large", ascending=False).iterrows():
        cells = []
        for metric in ("small", "large"):
            said = f"{row[metric]:.1f}"
            if arm != reference:
                gain, low, high = (table[key][metric][arm] for key in ("gain", "low", "high"))
                said += f"  {gain:+.1f} ({low:+.1f} to {high:+.1f})"
            cells.append(f"{said:>24s}")
        lines.append(f"{arm:28s}{row['rate']:6g} {row['seeds']:5.0f}  {cells[0]}  {cells[1]}")
    sent = found.groupby("arm")["sent"].max()
    if len(short := sent[sent < large]):
        lines.append(
            f"sent less than {large:g} MB by the end of their rounds, and stand as they were then: "
            + ", ".join(f"{arm} {much:.3g} MB" for arm, much in short.items())
        )
    return "\n".join(lines)


ONE_ROUND = {"least-variance": "", "least-variance, updates": ", from updates"}  # ways to cut there


def beside_one_round(gains: pd.DataFrame, errors: pd.DataFrame) -> pd.DataFrame:
    """The gains of arms whose one-round error is recorded for their federation and m (`one_rounds.summary`),
    with that `error`, MD's being 1; the arm `all clients` has none."""
    errors = errors.assign(
        place=[
            s if m == 10 else f"{s}-m{m}"
            for s, m in zip(errors["setting"], errors["m"], strict=True)
        ]
    )
    known = errors.set_index(["place", "design"])["mean"]
    cut = "fedstas-least-variance"
    named = [
        (s, cut + ONE_ROUND[a] if a in ONE_ROUND else a)
        for s, a in zip(gains["setting"], gains["arm"], strict=True)
    ]
    return gains.assign(error=[known.get(key, np.nan) for key in named]).dropna(subset="error")
