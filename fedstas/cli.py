"""The command `fedstas`. Bad input: exit code 2 and one sentence; a diverged run: exit code 1.

In a clone of the repository it has the companion's commands too.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from tqdm import tqdm

from fedstas import methods
from fedstas.errors import Diverged, InputError

COMPARED = "md,fedavg-unbiased,clustered-size,clustered-similarity,fedsts,fedstas-unbiased"
COMPARED += ",fedstas-least-variance"
OWN = "a file of your own, FILE.py or FILE.py:CLASS; with settings as in 'md lr=0.1'"
app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="FedSTaS, executed: train a federation; in a clone: record sweeps, re-execute chapters.",
)


def _option(text: str):
    return typer.Option(help=text)


DATA = Annotated[str, _option("digits, mnist, fashion-mnist, cifar10, cifar100[-coarse[10]]")]
DEALT = Annotated[str, _option("iid, dirichlet, dirichlet_fixed_size, by_class or lognormal")]
CONCENTRATION = Annotated[float, _option("of the Dirichlet partitions")]
SIGMA = Annotated[float, _option("of the log-normal partition")]
CLIENTS = Annotated[int, _option("number of clients")]
PARTICIPANTS = Annotated[int, _option("participants of a round, m")]
DEVICE = Annotated[str, _option("where to train: auto, cpu or cuda")]


@app.command()
def run(
    task: DATA = "digits",
    method: Annotated[str, _option(f"one of: {', '.join(methods.names())}; or {OWN}")] = "fedstas",
    partition: DEALT = "dirichlet",
    concentration: CONCENTRATION = 0.01,
    sigma: SIGMA = 1.0,
    clients: CLIENTS = 100,
    sizes: Annotated[str, _option("of dirichlet_fixed_size, SIZExCLIENTS: 100x10,250x90")] = "",
    clients_per_round: PARTICIPANTS = 10,
    rounds: Annotated[int, _option("rounds of training")] = 99,
    seed: Annotated[int, _option("fixes the partition, w_0 and every draw")] = 0,
    strata: Annotated[int | None, _option("number of strata, H")] = None,
    levels: Annotated[int | None, _option("levels of a squeezed gradient, d'")] = None,
    n_star: Annotated[int | None, _option("requested sample of a round, n*")] = None,
    rate: Annotated[float | None, _option("share of its data a participant trains on")] = None,
    epsilon: Annotated[float | None, _option("privacy of one size report")] = None,
    size_cap: Annotated[int | None, _option("sizes are reported in 1..M-1, M")] = None,
    restratify_every: Annotated[int | None, _option("rounds between two stratifications")] = None,
    lr: Annotated[float | None, _option("learning rate of local SGD")] = None,
    steps: Annotated[int | None, _option("local steps")] = None,
    batch: Annotated[int | None, _option("examples of a local step, at most")] = None,
    prox: Annotated[float | None, _option("FedProx's mu")] = None,
    eval_every: Annotated[int, _option("rounds between two evaluations")] = 1,
    device: DEVICE = "auto",
    threads: Annotated[int, _option("threads of the arithmetic")] = 1,
    out: Annotated[Path | None, _option("write the history here, as parquet")] = None,
) -> None:
    """Train one federation and print its last rounds."""
    settings = {key for name in methods.names() for key in methods.parameters(name)}
    given = {k: v for k, v in locals().items() if k in settings and v is not None}
    from fedstas.sim import partition as partitions
    from fedstas.sim import simulation, tasks

    chosen = methods.parse(method, **given)
    _in_a_folder(out)
    if out is not None and (out.suffix != ".parquet" or out.is_dir()):
        raise InputError(f"--out {out}: the history is one file of parquet, so name it *.parquet")
    where = tasks.find_device(device)
    data = tasks.load(task)
    dealt: dict[str, Any] = {"concentration": concentration, "sigma": sigma, "clients": clients}
    federation = partitions.make(partition, data.train_y, seed=seed, sizes=sizes, **dealt)
    how: dict[str, Any] = {"rounds": rounds, "clients_per_round": clients_per_round, "seed": seed}
    how |= {"eval_every": eval_every, "device": device, "threads": threads, "progress": True}
    failure = None
    try:
        history = simulation.run(data, federation, chosen, **how)
    except Diverged as error:
        history, failure = error.history, error
    frame = history.frame
    if out is not None:
        _write(frame, out)
    if len(frame):
        typer.echo(frame.tail(5).to_string(index=False, float_format=lambda v: f"{v:.4f}"))
        last = frame.iloc[-1]
        typer.echo(
            f"{method} on {task}, {len(federation.with_data)} of {clients} clients with data, "
            f"{where.type}: accuracy {last.test_accuracy:.2%} after round {last['round']:.0f}, "
            f"{(last.bytes_down + last.bytes_up) / 1e6:.1f} MB, {last.seconds:.1f} s"
        )
    if failure is not None:
        raise failure


def _in_a_folder(out: Path | None) -> None:
    if out is not None and not out.parent.is_dir():
        raise InputError(f"--out {out}: the folder {out.parent} does not exist")


def _write(frame, out: Path) -> None:
    """The history as parquet: whole, or not at all."""
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        frame.to_parquet(partial, index=False)
        partial.replace(out)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"{out} could not be written: {error.strerror}") from error


@app.command()
def variance(
    designs: Annotated[str, _option(f"methods, with commas between them; or {OWN}")] = COMPARED,
    task: DATA = "digits",
    partition: DEALT = "dirichlet",
    concentration: CONCENTRATION = 0.01,
    sigma: SIGMA = 1.0,
    clients: CLIENTS = 100,
    clients_per_round: PARTICIPANTS = 10,
    rounds: Annotated[int, _option("of training before the round that is looked at")] = 0,
    method: Annotated[str, _option("what they are trained by")] = "md",
    seeds: Annotated[int, _option("partitions, models and k-means starts: 0 to this - 1")] = 3,
    draws: Annotated[int, _option("cohorts of each design and seed")] = 1000,
    drop: Annotated[float, _option("probability that a drawn client does not answer")] = 0.0,
    device: DEVICE = "auto",
    out: Annotated[Path | None, _option("write here, as csv, a row a design and seed")] = None,
) -> None:
    """How far one round of each design is from all clients taking part, relative to MD sampling."""
    import pandas as pd

    from fedstas.errors import integer
    from fedstas.sim import one_round, tasks
    from fedstas.sim import partition as partitions

    chosen = {name.strip(): methods.parse(name) for name in designs.split(",")}
    trained = methods.parse(method)
    _in_a_folder(out)
    data = tasks.load(task).to(tasks.find_device(device))
    dealt: dict[str, Any] = {"concentration": concentration, "sigma": sigma, "clients": clients}
    how: dict[str, Any] = {"rounds": rounds, "clients_per_round": clients_per_round}
    how |= {"method": trained, "device": device}
    found = []
    for seed in tqdm(range(integer("seeds", seeds, 1)), "variance", unit="seed"):
        federation = partitions.make(partition, data.train_y, seed=seed, **dealt)
        state = one_round.at(data, federation, seed=seed, **how)
        rows = one_round.table(state, chosen, draws=draws, seed=seed, drop=drop)
        found.append(rows.assign(seed=seed))
    frame = pd.concat(found).rename_axis("design")
    if out is not None:
        frame.to_csv(out)
    mean, error = (getattr(frame.groupby("design"), k)() for k in ("mean", "sem"))
    # Of one seed the draws' own error is all that there is.
    shown = mean.drop(columns="seed").assign(se=error["error"] if seeds > 1 else mean["se"])
    typer.echo(shown.loc[list(chosen)].to_string(float_format=lambda v: f"{v:.4g}"))
    typer.echo(
        f"error: of the aggregate, squared, relative to {clients_per_round} draws of MD sampling; se: over "
        f"{seeds} seeds; {task}, {partition}, round {rounds + 1}"
    )


@app.command()
def audit(
    design: Annotated[str, typer.Argument(help=f"a method's name, or {OWN}", metavar="DESIGN")],
    unbiased: Annotated[bool, typer.Option("--unbiased", help="fail if it is biased")] = False,
    draws: Annotated[int, _option("cohorts, at most, in each of four federations")] = 2000,
    seed: Annotated[int, _option("fixes the federations and every draw")] = 0,
) -> None:
    """Test a design on small federations: bias, weights, determinism, cost, extremes; exit code 1 if a
    check fails. To be biased is reported, and fails only with --unbiased."""
    from fedstas.sim import audit as audits

    found = audits.audit(methods.parse(design), draws=draws, seed=seed)
    for each in found:
        typer.echo(f"{each.verdict:6} {each.check:20} {each.says}")
    biased = unbiased and any(each.verdict == "biased" for each in found)
    raise typer.Exit(int(biased or any(each.verdict == "FAILS" for each in found)))


@app.command(name="methods")
def list_methods() -> None:
    """The methods: the weights that each is unbiased for, whether it works under secure aggregation, what
    it does, and its settings."""
    from fedstas.sim import audit as audits

    typer.echo(f"{'method':24} {'unbiased for':13} {'secure':13} what it does, and its settings")
    for name in methods.names():
        told = audits.secure(methods.get(name))
        says = methods.describe(name).splitlines()[0]
        typer.echo(f"{name:24} {methods.unbiased_for(name):13} {told:13} {says}")
        typer.echo(" " * 53 + ", ".join(f"{k}={v}" for k, v in methods.parameters(name).items()))


def _companion(arguments: list[str]) -> list[str]:
    """The arguments, and the companion's commands added, unless one of the package's own is called;
    `InputError` if one of the companion's is called where it is not."""
    word = next((a for a in arguments if not a.startswith("-")), "")
    own = word in ("run", "methods", "variance", "audit")
    if not own and find_spec("companion") and find_spec("companion.commands"):
        commands = importlib.import_module("companion.commands")
        there = app.registered_commands
        there += [c for c in commands.app.registered_commands if c not in there]
        return commands.join_pairs(arguments)
    if word and not own:
        raise InputError(
            f"there is no command {word!r} here, only run, methods, variance and audit: those of the book (sweep, "
            "compare, chapter, claims, ...) need a clone of its repository, and there `pip install -e .[book]`"
        )
    return arguments


def _usage(error, arguments: list[str]) -> str:
    """A parser's complaint, with the value that it complains about."""
    message = error.format_message().replace("\n", " ")
    for option in getattr(getattr(error, "param", None), "opts", []):
        given = [b for a, b in itertools.pairwise(arguments) if a == option]
        given += [a.partition("=")[2] for a in arguments if a.startswith(f"{option}=")]
        if given:
            return f"{option} is {given[-1]!r}: {message.partition(': ')[2] or message}"
    return message


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every expected failure is one sentence."""
    given = sys.argv[1:] if arguments is None else arguments
    usage_error = typer.BadParameter.__mro__[1]  # click's own, or the copy that typer carries
    said = ""
    try:
        given = _companion(given)
        code = app(args=given, prog_name="fedstas", standalone_mode=False) or 0
    except usage_error as error:
        said, code = _usage(error, given), 2
    except (InputError, Diverged) as error:
        said, code = str(error), 2 if isinstance(error, InputError) else 1
    except ModuleNotFoundError as error:
        said, code = f"{error}: in the clone, `pip install -e .[book]`", 2
    except (KeyboardInterrupt, typer.Abort):
        said, code = "interrupted", 130
    if said:
        typer.echo(f"fedstas: {said}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
