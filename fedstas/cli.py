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

from fedstas import __version__, config, methods, user_code
from fedstas.client_sampling import has_flag
from fedstas.errors import Diverged, InputError, Interrupted, check_choice, suggestion

DESIGNS = "md,fedavg-unbiased,clustered-size,clustered-similarity,fedsts,fedstas-unbiased,fedstas-least-variance"
USER_DESIGN = "a file of your own, FILE.py or FILE.py:CLASS; with settings as in 'fedsts strata=5'"
PACKAGE_COMMANDS = ("run", "methods", "variance", "audit")
app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="FedSTaS, executed: train a federation; in a clone: record sweeps, re-execute chapters.",
)


def _print_version(requested: bool) -> None:
    """Print the version and stop, if it was requested."""
    if requested:
        typer.echo(f"fedstas {__version__}")
        raise typer.Exit


@app.callback()
def _common_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="print it and stop"),
    ] = False,
) -> None: ...


def _option(text: str):
    """Declare an option with this help text."""
    return typer.Option(help=text)


def _complete_method(start: str) -> list[str]:
    """Return the methods whose names begin with `start`, for completion in a shell."""
    return [name for name in methods.names() if name.startswith(start)]


TASK = Annotated[
    str,
    _option(
        "digits, mnist, fashion-mnist, cifar10, cifar100[-coarse[10]], emnist[-byclass], topics, newsgroups[-tokens|-words], "
        "reuters[-titles] or shakespeare; frozen features: cifar10-features, cifar100[-coarse]-features; or of your own, FILE.py:FUNCTION, which returns a Task"
    ),
]
NETWORK = Annotated[
    str,
    _option(
        "perceptron, linear, convolutional[-dropout|-grey], text-cnn, transformer or ngram; or FILE.py:FUNCTION, a torch module "
        "of the task"
    ),
]
PARTITION = Annotated[
    str,
    _option(
        "iid, dirichlet, dirichlet_fixed_size, by_class, k_classes, shards, lognormal, natural; or FILE.npy or "
        "FILE.csv:COLUMN, the client of each training example, or FILE.json, {client: [indices]}"
    ),
]
CONCENTRATION = Annotated[float | None, _option("of the Dirichlet partitions  [default: 0.01]")]
SIGMA = Annotated[float | None, _option("of the log-normal partition  [default: 1.0]")]
LEAST = Annotated[
    int | None, _option("least number of a client's examples, with dirichlet and lognormal")
]
SHARDS = Annotated[int | None, _option("of the partition shards  [default: 2]")]
CLASSES = Annotated[int | None, _option("of the partition k_classes  [default: 2]")]
CLIENTS = Annotated[int | None, _option("number of clients  [default: 100, or all of a file]")]
PARTICIPANTS = Annotated[int, _option("participants of a round, m")]
METHOD = Annotated[
    str,
    typer.Option(
        help=f"one of: {', '.join(methods.names())}; or {USER_DESIGN}",
        autocompletion=_complete_method,
    ),
]
DEVICE = Annotated[str, _option("where to train: auto, cpu, cuda, cuda:1 or mps")]


@app.command()
def run(
    task: TASK = "digits",
    network: NETWORK = "",
    method: METHOD = "fedstas",
    partition: PARTITION = "dirichlet",
    concentration: CONCENTRATION = None,
    sigma: SIGMA = None,
    least: LEAST = None,
    shards_per_client: SHARDS = None,
    classes_per_client: CLASSES = None,
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
    average: Annotated[
        str | None,
        _option("of the server's models, measured too: beta, or tail (mean of the second half)"),
    ] = None,
    drop: Annotated[
        float, _option("probability that a drawn client does not answer in a round")
    ] = 0.0,
    remedy: Annotated[
        str,
        _option("for weights of those who answer: divide (by 1 - drop), renormalise, or none"),
    ] = "divide",
    initial_model: Annotated[
        str,
        _option(
            "w_0: seed (clients make it, from 8 bytes), sent (made from the seed, downloaded), or FILE.npy, float32 [P]"
        ),
    ] = "seed",
    device: DEVICE = "auto",
    threads: Annotated[
        int,
        _option(
            "threads of the arithmetic; beside other jobs on the same cores 1 is often fastest"
        ),
    ] = 1,
    out: Annotated[Path | None, _option("write the history here, as parquet")] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="replace the finished run of other settings in --out, or an interrupted one that cannot be continued",
        ),
    ] = False,
) -> None:
    """Train one federation and print its last rounds; with --out the same call continues an interrupted run."""
    options = {k: str(v) for k, v in locals().items() if k not in ("rounds", "out", "force")}
    settings = {key for name in methods.names() for key in methods.parameters(name)}
    overrides = {k: v for k, v in locals().items() if k in settings and v is not None}
    parsed = methods.parse(method, **overrides)  # before torch is imported, which takes seconds
    from fedstas.sim import simulation, tasks

    if out is not None and (out.suffix != ".parquet" or out.is_dir()):
        raise InputError(f"--out {out}: the history is one file of parquet, so name it *.parquet")
    _check_writable(out)
    torch_device = tasks.find_device(device)
    make_partition = _partition_maker(
        partition,
        concentration=concentration,
        sigma=sigma,
        least=least,
        shards_per_client=shards_per_client,
        classes_per_client=classes_per_client,
    )
    data = tasks.load(task, network=network)
    federation = make_partition(
        data.train_y,
        clients=clients,
        seed=seed,
        users=data.users,
        kept=data.kept,
        test_users=data.test_users,
        sizes=sizes,
    )
    count = len(federation.shards)
    chosen = (methods.split_spec(method)[1] | overrides).get("strata")
    if isinstance(chosen, int | float) and chosen > count:
        raise InputError(f"strata is {chosen}: it must not be above clients, here {count}")
    arguments: dict[str, Any] = {"rounds": rounds, "clients_per_round": clients_per_round}
    arguments |= {"seed": seed, "eval_every": eval_every, "device": device, "threads": threads}
    arguments |= {"average": _float_or_word(average), "drop": drop, "remedy": remedy}
    arguments["initial_model"] = initial_model
    checkpoint, failure = out and out.with_name(f".{out.name}.checkpoint"), None
    if checkpoint and out:
        # The contents of these files enter the checkpoint's key, since they may change between two calls.
        files = ("task", "network", "partition", "method")
        options["of"] = data.digest + "".join(
            user_code.sha256(options[k].partition(" ")[0]) for k in files
        )
        if out.exists() and not force:
            _check_record(out, options, rounds)
        arguments["resume"] = _load_checkpoint(checkpoint, options, parsed, rounds, force)
        arguments["checkpoint"] = _checkpoint_saver(checkpoint, options)
    try:
        history = simulation.run(data, federation, parsed, progress=True, **arguments)
    except Diverged as error:
        history, failure = error.history, error
    except KeyboardInterrupt:
        saved = checkpoint and checkpoint.exists()
        advice = f"the same call goes on from {checkpoint}" if saved else "nothing is kept"
        raise Interrupted(advice + ("" if out else " without --out")) from None
    frame = history.frame
    if checkpoint and out:
        # As `_check_record` reads it.
        done = rounds if failure is None else len(history.cohorts)
        record: dict[str, Any] = {"settings": options, "rounds": done}
        if history.client_accuracies is not None:
            record["client_accuracies"] = history.client_accuracies.tolist()
        frame.attrs = {"fedstas": record}
        _write_parquet(frame, out)
        checkpoint.unlink(missing_ok=True)
    if len(frame):
        typer.echo(frame.tail(5).to_string(index=False, float_format=lambda v: f"{v:.4f}"))
        last = frame.iloc[-1]
        accuracy, of_model = f"accuracy {last.test_accuracy:.2%}", "accuracy"
        if average is not None:  # the averaged model comes first, since it is the one to deploy
            averaged = f"accuracy of the averaged model {last.test_accuracy_average:.2%}"
            accuracy = f"{averaged}, of the last model {last.test_accuracy:.2%},"
            of_model = "accuracy of the last model"
        typer.echo(
            f"{method} on {task}, {len(federation.with_data)} of {count} clients with data, "
            f"{torch_device.type}: {accuracy} after round {last['round']:.0f}, "
            f"{(last.bytes_down + last.bytes_up) / 1e6:.1f} MB, {last.seconds:.1f} s"
        )
        if history.client_accuracies is not None:
            have = int((history.client_accuracies >= 0).sum())  # NaN is not
            typer.echo(
                f"on the clients' own test examples, which {have} of {count} have: {of_model} "
                f"{last.own_test_accuracy:.2%} on average, {last.own_test_worst_decile:.2%} over the worst tenth"
            )
    if failure is not None:
        raise failure


def _partition_maker(partition: str, **options):
    """Return `partition.make` for a partition with those options that are not None; `InputError` for one that it does
    not have."""
    from fedstas.sim import partition as partitions

    if not (in_file := user_code.TABLE.fullmatch(partition)):
        check_choice("partition", partition, [*partitions.names(), *partitions.FILES])
    parameters = {} if in_file else inspect.signature(getattr(partitions, partition)).parameters
    settings: dict[str, Any] = {key: v for key, v in options.items() if v is not None}
    for key in settings:
        if key not in parameters:
            option = key.replace("_", "-")
            raise InputError(f"--{option} is of no use: partition {partition} has no {key}")
    return functools.partial(partitions.make, partition, **settings)


def _float_or_word(text: str | None) -> float | str | None:
    """Read an option that is a number or a word."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _check_writable(out: Path | None) -> None:
    """Raise an `InputError` if a file cannot be written, before hours are spent on what it is to hold."""
    if out is None:
        return
    partial = out.with_name(f".{out.name}.partial")
    try:
        if out.is_dir():
            raise InputError(f"--out {out} is a folder: name a file")
        if not out.parent.is_dir():
            raise InputError(f"--out {out}: the folder {out.parent} does not exist")
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise InputError(f"--out {out} cannot be written: {error.strerror}") from error


def _check_record(out: Path, options: dict[str, str], rounds: int) -> None:
    """Raise an `InputError` if a file holds anything but a run of these settings with at most so many rounds."""
    import pandas as pd

    advice = "name another file, or replace it with --force"
    try:
        recorded = pd.read_parquet(out, columns=[]).attrs["fedstas"]
        settings, done = dict(recorded["settings"]), int(recorded["rounds"])
    except Exception as error:  # pandas and pyarrow raise many kinds
        raise InputError(
            f"--out {out} is there, and no record of a run says of which settings: {advice}"
        ) from error
    changed = [key for key in {**settings, **options} if settings.get(key) != options.get(key)]
    # "of" is the digest of the data and of the user's files. It changes with other settings, such as the task, so it is
    # named only if no other setting differs.
    changed = [key for key in changed if key != "of"] or changed
    if changed:
        key = changed[0]
        pair = f"{settings.get(key, 'none')!r}, not {options.get(key, 'none')!r}"
        what = "the data or files" if key == "of" else f"{key} {pair}"
        raise InputError(f"--out {out} holds a finished run with other settings ({what}): {advice}")
    if done > rounds:
        raise InputError(f"--out {out} holds this run with {done} rounds, not {rounds}: {advice}")


def _load_checkpoint(file: Path, options: dict[str, str], method, rounds: int, force: bool):
    """Return the history of an interrupted run, or None if there is none.

    `InputError` if it cannot be continued for so many rounds with these settings; with `force` the file is deleted then.
    """
    from fedstas.sim import run_file

    try:
        history = run_file.load_history(file, options, method)
        if history is not None and history.state.round >= rounds:
            raise InputError(
                f"{file} holds {history.state.round} rounds of this run, which was interrupted, and --rounds is {rounds}: "
                "ask for more rounds, or delete the file (--force does so)"
            )
    except InputError:
        if not force:
            raise
        file.unlink(missing_ok=True)
        return None
    return history


def _checkpoint_saver(file: Path, options: dict[str, str]):
    """Return the function that saves a run in progress; it says once if that cannot be done."""
    from tqdm import tqdm  # its bar is shown meanwhile

    from fedstas.sim import run_file

    failures: list[str] = []

    def save(history) -> None:
        """Save the run in progress."""
        reason = run_file.save_history(file, options, history)
        if reason and not failures:
            failures.append(reason)
            tqdm.write(f"fedstas: if interrupted, this run starts over: {reason}", sys.stderr)

    return save


def _write_parquet(frame, out: Path) -> None:
    """Write a history as parquet, under a temporary name first."""
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
    designs: Annotated[
        str, _option(f"methods, with commas between them; or {USER_DESIGN}")
    ] = DESIGNS,
    task: TASK = "digits",
    network: NETWORK = "",
    partition: PARTITION = "dirichlet",
    concentration: CONCENTRATION = None,
    sigma: SIGMA = None,
    least: LEAST = None,
    shards_per_client: SHARDS = None,
    classes_per_client: CLASSES = None,
    clients: CLIENTS = None,
    clients_per_round: PARTICIPANTS = 10,
    rounds: Annotated[int, _option("rounds of training before the round that is measured")] = 0,
    method: Annotated[str, _option("the method of these rounds")] = "md",
    seeds: Annotated[
        int, _option("number of seeds of partition, model and k-means: 0, 1, ...")
    ] = 3,
    draws: Annotated[int, _option("cohorts of each design and seed")] = 1000,
    drop: Annotated[float, _option("probability that a draw is not answered")] = 0.0,
    device: DEVICE = "auto",
    out: Annotated[
        Path | None, _option("write a csv file with one row for each design and seed")
    ] = None,
) -> None:
    """Measure how far one round of each design is from all clients taking part, relative to MD sampling."""
    compared = {name.strip(): _parse_compared(name) for name in designs.split(",")}
    trained = methods.parse(method)
    import pandas as pd
    from tqdm import tqdm

    from fedstas.errors import check_int
    from fedstas.sim import one_round, tasks

    _check_writable(out)
    make_partition = _partition_maker(
        partition,
        concentration=concentration,
        sigma=sigma,
        least=least,
        shards_per_client=shards_per_client,
        classes_per_client=classes_per_client,
    )
    data = tasks.load(task, network=network).to(tasks.find_device(device))
    arguments: dict[str, Any] = {"rounds": rounds, "clients_per_round": clients_per_round}
    arguments |= {"method": trained, "device": device}
    tables = []
    for seed in tqdm(range(check_int("seeds", seeds, 1)), "variance", unit="seed"):
        federation = make_partition(
            data.train_y, clients=clients, seed=seed, users=data.users, kept=data.kept
        )
        state = one_round.state_after(data, federation, seed=seed, **arguments)
        rows = one_round.table(state, compared, draws=draws, seed=seed, drop=drop)
        tables.append(rows.assign(seed=seed))
    frame = pd.concat(tables).rename_axis("design")
    if out is not None:
        frame.to_csv(out)
    mean, error = (getattr(frame.groupby("design"), k)() for k in ("mean", "sem"))
    # With one seed the standard error is that of its draws.
    summary = mean.drop(columns="seed").assign(se=error["error"] if seeds > 1 else mean["se"])
    typer.echo(summary.loc[list(compared)].to_string(float_format=lambda v: f"{v:.4g}"))
    typer.echo(
        f"error: of the aggregate, squared, relative to {clients_per_round} draws of MD sampling; se: over "
        f"{seeds} seeds; {task}, {partition}, round {rounds + 1}"
    )


def _parse_compared(spec: str) -> methods.Method:
    """Return the method of a design that `variance` compares; `InputError` if a setting is one of training, which is
    the same for all designs, or if its server does more than add up weighted updates."""
    method, (_, settings) = methods.parse(spec), methods.split_spec(spec)
    of_designs = config.settings(method.clients) | config.settings(method.data)
    for key in settings:
        if key in (*methods.LOCAL, "server_rate") and key not in of_designs:
            raise InputError(
                f"{key} in --designs {spec.strip()!r} is of no use: all designs weight the same updates, so leave it "
                "out, or set how clients train in --method"
            )
    if has_flag(method.server, "remembers") or has_flag(method.server, "normalises"):
        raise InputError(
            f"the server of {spec.strip()!r} in --designs does more than add up weighted updates, which are compared here: "
            "leave it out, or name a method with the same clients and another server"
        )
    return method


@app.command()
def audit(
    design: Annotated[
        str, typer.Argument(help=f"a method's name, or {USER_DESIGN}", metavar="DESIGN")
    ],
    unbiased: Annotated[bool, typer.Option("--unbiased", help="fail if it is biased")] = False,
    draws: Annotated[int, _option("number of cohorts in each of four federations")] = 2000,
    seed: Annotated[int, _option("fixes the federations and every draw")] = 0,
) -> None:
    """Test a design on small federations: bias, weights, determinism, cost, extremes. Exit code 1 if a check
    fails; a biased design is reported, and fails only with --unbiased."""
    audited = methods.parse(design)
    from fedstas.sim import audit as audits

    findings = audits.audit(audited, draws=draws, seed=seed)
    for finding in findings:
        typer.echo(f"{finding.verdict:6} {finding.check:20} {finding.message}")
    verdicts = {finding.verdict for finding in findings}
    raise typer.Exit(int("FAILS" in verdicts or (unbiased and "biased" in verdicts)))


@app.command(name="methods")
def list_methods() -> None:
    """List the methods: the weights each is unbiased for, whether it works under secure aggregation, what it does."""
    typer.echo(f"{'method':24} {'unbiased for':13} {'secure':13} what it does, and its settings")
    for name in methods.names():
        description, secure = methods.describe(name).splitlines()[0], methods.secure(name)
        typer.echo(f"{name:24} {methods.unbiased_for(name):13} {secure:13} {description}")
        typer.echo(" " * 53 + ", ".join(f"{k}={v}" for k, v in methods.parameters(name).items()))


def _add_companion(arguments: list[str]) -> list[str]:
    """Add the companion's commands if there is a companion, and return the arguments as its parser needs them.

    If one of the package's own commands is called, nothing is added. `InputError` for an unknown command, and for a
    command of the companion if that is missing.
    """
    command = next((a for a in arguments if not a.startswith("-")), "")
    of_package = command in PACKAGE_COMMANDS
    if not of_package and find_spec("companion") and find_spec("companion.commands"):
        companion = importlib.import_module("companion.commands")
        registered = app.registered_commands
        registered += [c for c in companion.app.registered_commands if c not in registered]
        names = [c.name or c.callback.__name__ for c in registered if c.callback]
        if command:
            check_choice("command", command, names)
        return companion.join_pairs(arguments)
    if command and not of_package:
        raise InputError(
            f"there is no command {command!r} here{suggestion(command, PACKAGE_COMMANDS)}, only run, methods, variance and audit: those of the book (sweep, "
            "compare, chapter, claims, ...) need a clone of its repository, and there `pip install -e .[book]`"
        )
    return arguments


def _usage_message(error, arguments: list[str]) -> str:
    """Return the message of a usage error, with the wrong option and its value."""
    message = error.format_message().replace("\n", " ")
    for option in getattr(getattr(error, "param", None), "opts", []):
        values = [b for a, b in itertools.pairwise(arguments) if a == option]
        values += [a.partition("=")[2] for a in arguments if a.startswith(f"{option}=")]
        if values:
            return f"{option} is {values[-1]!r}: {message.partition(': ')[2] or message}"
    return message


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every expected failure is one sentence."""
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    usage_error = typer.BadParameter.__mro__[1]  # click's own, or the copy that typer carries
    message = ""
    try:
        arguments = _add_companion(arguments)
        code = app(args=arguments, prog_name="fedstas", standalone_mode=False) or 0
    except usage_error as error:
        message, code = _usage_message(error, arguments), 2
    except (InputError, Diverged) as error:
        message, code = str(error), 2 if isinstance(error, InputError) else 1
    except ModuleNotFoundError as error:
        message, code = f"{error}: in the clone, `pip install -e .[book]`", 2
    except Interrupted as error:
        message, code = f"interrupted: {error}", 130
    if code == 130 and not message:  # typer's, of a command that keeps nothing
        message = "interrupted: nothing new is kept"
    if message:
        typer.echo(f"fedstas: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
