"""The command `fedstas`. Bad input: exit code 2 and one sentence; a diverged run: exit code 1.

In a clone of the repository it has the companion's commands too.
"""

import functools
import importlib
import inspect
import itertools
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from fedstas import __version__, methods, user_code
from fedstas.errors import Diverged, InputError, Interrupted, check_choice, suggestion

COMPARED = "md,fedavg-unbiased,clustered-size,clustered-similarity,fedsts,fedstas-unbiased,fedstas-least-variance"
OWN = "a file of your own, FILE.py or FILE.py:CLASS; with settings as in 'md lr=0.1'"
OWN_COMMANDS = ("run", "methods", "variance", "audit")
app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="FedSTaS, executed: train a federation; in a clone: record sweeps, re-execute chapters.",
)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"fedstas {__version__}")
        raise typer.Exit


@app.callback()
def _first(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="say it and stop"),
    ] = False,
) -> None: ...


def _option(text: str):
    return typer.Option(help=text)


def _begun(start: str) -> list[str]:
    return [name for name in methods.names() if name.startswith(start)]


DATA = Annotated[
    str,
    _option(
        "digits, mnist, fashion-mnist, cifar10, cifar100[-coarse[10]], emnist, topics or newsgroups; or of your "
        "own, FILE.py:FUNCTION, which returns a Task"
    ),
]
NETWORK = Annotated[
    str,
    _option(
        "perceptron, convolutional[-dropout], text-cnn or transformer; or FILE.py:FUNCTION, a torch module "
        "of the task"
    ),
]
DEALT = Annotated[
    str,
    _option(
        "iid, dirichlet, dirichlet_fixed_size, by_class, lognormal, natural; or FILE.npy or FILE.csv:COLUMN, the "
        "client of each training example"
    ),
]
CONCENTRATION = Annotated[float | None, _option("of the Dirichlet partitions  [default: 0.01]")]
SIGMA = Annotated[float | None, _option("of the log-normal partition  [default: 1.0]")]
CLIENTS = Annotated[int | None, _option("number of clients  [default: 100, or all of a file]")]
PARTICIPANTS = Annotated[int, _option("participants of a round, m")]
METHOD = Annotated[
    str,
    typer.Option(help=f"one of: {', '.join(methods.names())}; or {OWN}", autocompletion=_begun),
]
DEVICE = Annotated[str, _option("where to train: auto, cpu or cuda")]


@app.command()
def run(
    task: DATA = "digits",
    network: NETWORK = "",
    method: METHOD = "fedstas",
    partition: DEALT = "dirichlet",
    concentration: CONCENTRATION = None,
    sigma: SIGMA = None,
    clients: CLIENTS = None,
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
    """Train one federation and print its last rounds; with --out the same call goes on where it was cut off."""
    asked = {k: str(v) for k, v in locals().items() if k not in ("rounds", "out")}
    settings = {key for name in methods.names() for key in methods.parameters(name)}
    given = {k: v for k, v in locals().items() if k in settings and v is not None}
    from fedstas.sim import run_file, simulation, tasks

    chosen = methods.parse(method, **given)
    _in_a_folder(out)
    if out is not None and (out.suffix != ".parquet" or out.is_dir()):
        raise InputError(f"--out {out}: the history is one file of parquet, so name it *.parquet")
    where = tasks.find_device(device)
    deal = _dealer(partition, concentration, sigma)
    data = tasks.load(task, network=network)
    federation = deal(data.train_y, clients=clients, seed=seed, users=data.users, sizes=sizes)
    there = len(federation.shards)
    if strata is not None and strata > there:
        raise InputError(f"strata is {strata}: it must not be above clients, here {there}")
    how: dict[str, Any] = {"rounds": rounds, "clients_per_round": clients_per_round, "seed": seed}
    how |= {"eval_every": eval_every, "device": device, "threads": threads, "progress": True}
    kept, failure = out and out.with_name(f".{out.name}.checkpoint"), None
    if kept:
        mine = ("task", "network", "partition", "method")  # files, and what they read, may change
        asked["of"] = data.digest + "".join(
            user_code.sha256(asked[k].partition(" ")[0]) for k in mine
        )
        how["resume"] = run_file.load_history(kept, asked, chosen)
        how["checkpoint"] = functools.partial(run_file.save_history, kept, asked)
    try:
        history = simulation.run(data, federation, chosen, **how)
    except Diverged as error:
        history, failure = error.history, error
    except KeyboardInterrupt:
        left = f"the same call goes on from {kept}" if kept and kept.exists() else "nothing is kept"
        raise Interrupted(left + ("" if out else " without --out")) from None
    frame = history.frame
    if kept and out:
        _write(frame, out)
        kept.unlink(missing_ok=True)
    if len(frame):
        typer.echo(frame.tail(5).to_string(index=False, float_format=lambda v: f"{v:.4f}"))
        last = frame.iloc[-1]
        typer.echo(
            f"{method} on {task}, {len(federation.with_data)} of {there} clients with data, "
            f"{where.type}: accuracy {last.test_accuracy:.2%} after round {last['round']:.0f}, "
            f"{(last.bytes_down + last.bytes_up) / 1e6:.1f} MB, {last.seconds:.1f} s"
        )
    if failure is not None:
        raise failure


def _dealer(partition: str, *given):
    """`partition.make` for that partition; a setting that is given must be one of its own."""
    from fedstas.sim import partition as partitions

    if not (mine := user_code.TABLE.fullmatch(partition)):
        check_choice("partition", partition, [*partitions.names(), "FILE.npy", "FILE.csv:COLUMN"])
    has = {} if mine else inspect.signature(getattr(partitions, partition)).parameters
    settings = zip(("concentration", "sigma"), given, strict=True)
    dealt = {key: value for key, value in settings if value is not None}
    for key in dealt:
        if key not in has:
            raise InputError(f"--{key} is of no use: partition {partition} has no {key}")
    return functools.partial(partitions.make, partition, **dealt)


def _in_a_folder(out: Path | None) -> None:
    if out is not None and not out.parent.is_dir():
        raise InputError(f"--out {out}: the folder {out.parent} does not exist")


def _write(frame, out: Path) -> None:
    """The history as parquet: whole, or not at all."""
    partial = out.with_name(f".{out.name}.partial")
    try:
        frame.to_parquet(partial, index=False)
        partial.replace(out)
    except OSError as error:
        raise InputError(f"{out} could not be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


@app.command()
def variance(
    designs: Annotated[str, _option(f"methods, with commas between them; or {OWN}")] = COMPARED,
    task: DATA = "digits",
    network: NETWORK = "",
    partition: DEALT = "dirichlet",
    concentration: CONCENTRATION = None,
    sigma: SIGMA = None,
    clients: CLIENTS = None,
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
    from tqdm import tqdm

    from fedstas.errors import check_int
    from fedstas.sim import one_round, tasks

    chosen = {name.strip(): methods.parse(name) for name in designs.split(",")}
    trained = methods.parse(method)
    _in_a_folder(out)
    deal = _dealer(partition, concentration, sigma)
    data = tasks.load(task, network=network).to(tasks.find_device(device))
    how: dict[str, Any] = {"rounds": rounds, "clients_per_round": clients_per_round}
    how |= {"method": trained, "device": device}
    found = []
    for seed in tqdm(range(check_int("seeds", seeds, 1)), "variance", unit="seed"):
        federation = deal(data.train_y, clients=clients, seed=seed, users=data.users)
        state = one_round.state_after(data, federation, seed=seed, **how)
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
    """The methods: the weights that each is unbiased for, if it works under secure aggregation, and what it does."""
    typer.echo(f"{'method':24} {'unbiased for':13} {'secure':13} what it does, and its settings")
    for name in methods.names():
        says, secure = methods.describe(name).splitlines()[0], methods.secure(name)
        typer.echo(f"{name:24} {methods.unbiased_for(name):13} {secure:13} {says}")
        typer.echo(" " * 53 + ", ".join(f"{k}={v}" for k, v in methods.parameters(name).items()))


def _companion(arguments: list[str]) -> list[str]:
    """The arguments, and the companion's commands added, unless one of the package's own is called;
    `InputError` if one of the companion's is called where it is not."""
    word = next((a for a in arguments if not a.startswith("-")), "")
    user_code = word in OWN_COMMANDS
    if not user_code and find_spec("companion") and find_spec("companion.commands"):
        commands = importlib.import_module("companion.commands")
        there = app.registered_commands
        there += [c for c in commands.app.registered_commands if c not in there]
        known = [c.name or c.callback.__name__ for c in there if c.callback]
        if word:
            check_choice("command", word, known)
        return commands.join_pairs(arguments)
    if word and not user_code:
        raise InputError(
            f"there is no command {word!r} here{suggestion(word, OWN_COMMANDS)}, only run, methods, variance and audit: those of the book (sweep, "
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
    given = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
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
    except Interrupted as error:
        said, code = f"interrupted: {error}", 130
    if code == 130 and not said:  # typer's, of a command that keeps nothing
        said = "interrupted: nothing new is kept"
    if said:
        typer.echo(f"fedstas: {said}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
