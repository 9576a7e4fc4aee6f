"""The companion's commands: sweeps, claims, chapters, a course's notebooks and slides.

`fedstas.cli` adds them to the command `fedstas` where the companion is installed. Each imports what it needs when it
is called, so that `fedstas --help` is fast.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from companion import ROOT
from fedstas.errors import Diverged, InputError, Interrupted, check_choice, check_int

app = typer.Typer()
RUNS = ROOT / "runs"  # readers' runs; the book's are in results/, which git tracks


def option(text: str):
    """Return an option with this help text."""
    return typer.Option(help=text)


@contextlib.contextmanager
def interruptible(message: str):
    """Turn Ctrl-C inside the block into `Interrupted` with this message."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(message) from None


@contextlib.contextmanager
def recording(folder: Path):
    """Turn Ctrl-C inside the block, which records runs in a folder, into `Interrupted` that names the folder."""
    try:
        yield
    except KeyboardInterrupt:
        if any(path.is_file() for path in folder.rglob("*")):
            place = relative(folder)
            raise Interrupted(
                f"what is made is in {place}, and the same call goes on from there"
            ) from None
        raise Interrupted("nothing is made yet") from None


def relative(path: Path) -> Path:
    """Return a path relative to the current folder if it is inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def join_pairs(arguments: list[str]) -> list[str]:
    """Turn `-p key value`, as papermill writes it, into the one option `-p key=value` that typer reads."""
    joined, rest = [], list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "-p" and rest and "=" not in rest[0]:
            if len(rest) < 2:
                raise InputError(f"-p {rest[0]} lacks a value: write -p KEY VALUE")
            key, value = rest.pop(0), rest.pop(0)
            joined += ["-p", f"{key}={value}"]
        else:
            joined.append(word)
    return joined


@app.command()
def sweep(
    name: Annotated[str, typer.Argument(help="the sweep, e.g. preprint")],
    profile: Annotated[str, option("quick, laptop or paper")] = "quick",
    jobs: Annotated[int | None, option("runs at a time; on a cluster all it has")] = None,
    methods: Annotated[str | None, option("only these, e.g. md,fedstas")] = None,
    seeds: Annotated[str | None, option("only these, e.g. 0-4 or 0,3")] = None,
    concentrations: Annotated[str | None, option("only these, e.g. 0.001,10")] = None,
    device: Annotated[str, option("where to train: auto, cpu or cuda")] = "auto",
    folder: Annotated[Path, option("where to record; the book's own runs are in results")] = RUNS,
    backend: Annotated[str, option("of joblib: loky, dask or ray")] = "loky",
    address: Annotated[str | None, option("of the cluster, e.g. tcp://HOST:8786")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what is missing")] = False,
) -> None:
    """Record the missing runs of a sweep; a run that was interrupted resumes from its checkpoint."""
    from companion.runs import experiments, sweeps

    with recording(folder):
        failed = experiments.sweep(
            name,
            profile,
            jobs=jobs,
            folder=folder,
            device=device,
            backend=backend,
            address=address,
            methods=None if methods is None else [m.strip() for m in methods.split(",")],
            seeds=None if seeds is None else sweeps.parse_seeds(seeds),
            concentrations=None if concentrations is None else sweeps.parse_numbers(concentrations),
            dry_run=dry_run,
        )
    if failed:
        more = f" (and {len(failed) - 1} more, listed above)" if len(failed) > 1 else ""
        total = len(experiments.runs(name, profile))
        raise Diverged(f"{len(failed)} of {total} runs of sweep {name} failed: {failed[0]}{more}")


@app.command()
def compare(
    mine: Annotated[Path, typer.Argument(help="a folder of results, or a parquet file")],
    recorded: Annotated[Path, typer.Argument(help="what to compare them with")],
    tolerance: Annotated[
        float, option("allowed in an accuracy after the last round, in points")
    ] = 0.5,
) -> None:
    """Compare results with recorded ones: exit code 1 if one differs or is not recorded."""
    from companion.runs import compare as comparison

    result = comparison.compare(mine, recorded, tolerance=tolerance)
    typer.echo(result.report())
    if not result.agree:
        raise Diverged(result.summary())


@app.command()
def arena(
    design: Annotated[
        str | None,
        typer.Argument(help="of your own: my_design.py, or 'NAME KEY=VALUE'", metavar="DESIGN"),
    ] = None,
    setting: Annotated[str, option("of the protocol, e.g. mnist")] = "mnist",
    edition: Annotated[
        int, option("of the comparison: 1 (last models), or 2 (averaged models, saved bytes)")
    ] = 1,
    seeds: Annotated[str | None, option("of the evaluation, e.g. 0-4")] = None,
    jobs: Annotated[int, option("runs at a time")] = 1,
    folder: Annotated[Path, option("where to record")] = RUNS,
    file: Annotated[Path | None, option("another protocol than the book's")] = None,
    device: Annotated[str, option("where to train: auto, cpu or cuda")] = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what is missing")] = False,
) -> None:
    """Tune, evaluate and show one setting of the comparison of designs, with a design of your own in it."""
    from companion.runs import comparison, protocol, sweeps

    check_int("edition", edition, 1, 2)
    settings: dict = (
        protocol.read(file or protocol.FILE)
        if edition == 1
        else comparison.read(file or comparison.FILE)
    )
    if file is None and setting not in settings:
        others: dict = comparison.read() if edition == 1 else protocol.read()
        if setting in others:
            raise InputError(f"{setting} is of the other comparison: add --edition {3 - edition}")
    check_choice("setting", setting, settings)
    arm = None
    if design is not None:
        settings[setting] = protocol.add_arm(settings[setting], design)
        arm = settings[setting].arms[-1].name
    chosen = None if seeds is None else sweeps.parse_seeds(seeds)
    options = {"folder": folder, "jobs": jobs, "device": device, "dry_run": dry_run}
    if edition == 2:
        judged = settings[setting]
        wanted = judged if arm is None else comparison.narrow(judged, [arm])
        with recording(folder):
            failed = comparison.carry_out(wanted, seeds=chosen, **options)
        for text in failed:
            typer.echo(text, err=True)
        folders = dict.fromkeys([protocol.RECORDED.resolve(), folder.resolve()])
        typer.echo(comparison.format_report(judged, comparison.load_runs([*folders])))
        return
    with recording(folder):
        failed = protocol.carry_out(settings, setting, arm=arm, seeds=chosen, **options)
    for text in failed:
        typer.echo(text, err=True)
    typer.echo(protocol.format_report(settings, setting, (protocol.RECORDED, folder)))


@app.command(name="one-round")
def one_round(
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", help="mnist, mnist-equal, ...; all if not given"),
    ] = None,
    table: Annotated[
        str,
        option(
            "designs; features: strata by what clients are asked; renewal: by what updates renew"
        ),
    ] = "designs",
    folder: Annotated[Path, option("where to record; the book's table is in results")] = RUNS,
) -> None:
    """Record a table of one-round errors: five partitions of each setting, against md."""
    from companion.runs import feature_errors, one_rounds

    tables = {
        "designs": one_rounds.record,
        "features": feature_errors.record,
        "renewal": feature_errors.record_renewal,
    }
    check_choice("table", table, tables)
    with recording(folder):
        paths = tables[table](setting, folder=folder)
    for path in paths:
        typer.echo(relative(path))


@app.command(name="closed-form")
def closed_form(
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", help="cifar10-features, newsgroups, ...; all if not given"),
    ] = None,
    fine_tuning: Annotated[
        bool, typer.Option("--fine-tuning", help="train from the heads, and record that")
    ] = False,
    folder: Annotated[Path, option("where to record; the book's table is in results")] = RUNS,
) -> None:
    """Record heads of class means and of ridge regression, which need no training, against the designs of the comparison."""
    from companion.runs import closed_form_heads
    from companion.runs import fine_tuning as runs_from_heads

    with recording(folder):
        table = runs_from_heads if fine_tuning else closed_form_heads
        paths = table.record(setting, folder=folder)
    for path in paths:
        typer.echo(relative(path))


@app.command()
def pack(
    folders: Annotated[list[Path], typer.Argument(help="of sweeps, e.g. results/preprint")],
    into: Annotated[Path | None, option("the other way: write single files here")] = None,
) -> None:
    """Turn the single files of a finished sweep into one table of rows and one of runs."""
    from companion.runs import records

    for folder in folders:
        if into is None:
            typer.echo(records.pack(folder))
        else:
            typer.echo(
                f"{into}: {len(records.unpack(folder, into))} runs of {folder} as single files"
            )


@app.command()
def chapter(
    name: Annotated[str, typer.Argument(help="02, 02_stratification or stratification")],
    parameter: Annotated[
        list[str] | None, typer.Option("-p", help="KEY VALUE, may be repeated", metavar="KEY VALUE")
    ] = None,
    profile: Annotated[str | None, option("quick, laptop or paper")] = None,
    output: Annotated[Path | None, option("where to write the executed notebook")] = None,
    opened: Annotated[bool, typer.Option("--open", help="show the page in the browser")] = False,
    listed: Annotated[
        bool, typer.Option("--parameters", help="list the parameters and stop")
    ] = False,
) -> None:
    """Re-execute a chapter of the book with your own parameters: `fedstas chapter 02 -p strata 3`."""
    from companion.pages import chapters, parameters, preview

    texts = {key: text for key, _, text in (pair.partition("=") for pair in parameter or [])}
    if profile is not None:
        texts["profile"] = profile
    values = parameters.parse(name, texts)
    if listed:
        typer.echo(parameters.listing(name, values))
        return
    if opened and output is not None:
        raise InputError(
            f"--open shows the page in the book, --output {output} writes elsewhere: choose one"
        )
    try:
        with interruptible("the page is as it was before"):
            typer.echo(chapters.run(name, values, output=output))
    except chapters.ChapterError as error:
        raise Diverged(str(error)) from None
    if opened:
        typer.echo(preview.show(preview.render(name)))


@app.command()
def doctor() -> None:
    """Say what is installed, which data and devices are here, what each profile costs; exit code 1 if
    the profile quick cannot run."""
    from companion import doctor as examination

    raise typer.Exit(examination.main())


@app.command()
def claims(
    name: Annotated[str | None, typer.Argument(help="one claim, re-computed", metavar="ID")] = None,
    paper: Annotated[str | None, option("preprint, journal, slides or clustered")] = None,
    kind: Annotated[str | None, option("theory, figure, table, number or superiority")] = None,
    verdict: Annotated[str | None, option("holds, holds-if, fails, agrees, differs, ...")] = None,
) -> None:
    """Decide every claim of the papers now; with an ID: one of them, with its evidence."""
    from companion.claims import ledger

    try:
        if name is not None:
            typer.echo(ledger.format_claim(*ledger.decide_by_id(name)))
            return
        if verdict is not None:
            check_choice("verdict", verdict, ledger.VERDICTS)
        table = ledger.claims(paper=paper, kind=kind, progress=True)
        typer.echo(
            ledger.format_listing(table if verdict is None else table[table["verdict"] == verdict])
        )
    except ledger.Undecided as error:
        raise Diverged(str(error)) from None


@app.command()
def teach(
    name: Annotated[
        str | None, typer.Argument(help="a chapter: 02, 02_stratification, ...; or project")
    ] = None,
    student: Annotated[bool, typer.Option("--student", help="without solutions (default)")] = False,
    instructor: Annotated[bool, typer.Option("--instructor", help="with solutions")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="the .ipynb")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="all chapters: notebooks, solutions, slides, data")
    ] = False,
    to: Annotated[Path | None, option("with --all: the folder to write")] = None,
) -> None:
    """Write the student's or the instructor's notebook of a chapter; with --all the whole pack of a course."""
    from companion.teach import teaching

    if student and instructor:
        raise InputError("--student and --instructor: choose one")
    if everything != (to is not None) or everything == (name is not None):
        raise InputError("name a chapter, or write --all --to FOLDER for the whole pack")
    if to is not None:
        from companion.teach import pack as packing

        typer.echo(packing.make(to, typer.echo))
        return
    typer.echo(relative(teaching.make(name, "instructor" if instructor else "student", output)))


@app.command()
def grade(
    folder: Annotated[Path, typer.Argument(help="the folder of the submissions, .ipynb files")],
    table: Annotated[Path | None, typer.Option("--csv", help="write a row for each here")] = None,
    chapter: Annotated[
        str | None, option("whose exercises  [default: that of most submissions]")
    ] = None,
    seconds: Annotated[int, option("limit of time for each")] = 300,
    memory: Annotated[float, option("limit of memory for each, in GB")] = 4.0,
    seed: Annotated[int, option("of the inputs that students do not see")] = 0,
) -> None:
    """Grade a folder of submissions, each executed in a process of its own.

    Each runs in a temporary folder, with an empty environment, limits of time, memory and output and, where Linux
    permits it, no network. Of the notebook only its code counts; answers are compared on inputs of the student's
    checks and on others. Not kept out: a program may read and write what your account may, and import the
    solutions, which are public (code that names them is reported).
    """
    from companion.teach import grading

    if seconds < 1 or memory <= 0.5:
        raise InputError(
            "--seconds must be at least 1, and --memory above 0.5 (PyTorch needs more)"
        )
    limits = grading.Limits(seconds, memory)
    with interruptible("no table is written"):
        stem, grades = grading.grade_folder(folder, chapter, seed, limits, typer.echo)
    if table is not None:
        grading.write_csv(grades, list(grading.checks_in(stem)), table)
    typer.echo(grading.summarise(stem, grades))
    if table is not None:
        typer.echo(table)


@app.command()
def slides(
    name: Annotated[str, typer.Argument(help="a chapter: 02, 02_stratification, ...")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="the .html")] = None,
    full: Annotated[
        bool, typer.Option("--full", help="all figures, tables, boxes and exercises")
    ] = False,
) -> None:
    """Write slides of an executed chapter: one HTML file that needs no network.

    Those of a session's chapter are about twelve, with a question to vote on.
    """
    from companion.teach import slides as presentation

    typer.echo(relative(presentation.make(name, output, full)))


@app.command()
def leaderboard(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="of recorded runs  [default: the book's own]")
    ] = None,
    task: Annotated[str | None, option("only this task, e.g. digits")] = None,
    metric: Annotated[str, option("test_accuracy, client_accuracy or macro_f1")] = "test_accuracy",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="a .md file")] = None,
) -> None:
    """Show final accuracies of recorded runs, a table for each setting: `fedstas leaderboard results runs`."""
    from companion.runs import leaderboard as board
    from companion.runs.atomic import write

    text = board.format_markdown(board.rank_methods(folders or [ROOT / "results"], metric, task))
    if output is None:
        typer.echo(text)
    else:
        write(output, lambda path: path.write_text(text + "\n", encoding="utf-8"))
        typer.echo(output)
