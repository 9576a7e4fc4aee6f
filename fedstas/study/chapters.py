"""The pipeline of the book: a chapter's parameters, its execution, its provenance.

A chapter is a jupytext source `notebooks/NN_name.py`. Its parameters are typed, come from the command
line or from a profile (`params/<profile>.yaml`), and are refused when unknown or out of range.
"""

import ast
import contextlib
import datetime
import importlib.metadata
import json
import math
import os
import platform
import re
import shlex
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fedstas import errors
from fedstas.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ("quick", "laptop", "paper")
VERSIONS = ("fedstas", "numpy", "scipy", "scikit-learn", "torch")


class ChapterError(Exception):
    """A cell of a chapter failed; the message says which, and how."""


class Parameter(NamedTuple):
    """What a chapter may be asked for: the value's type, and the check that says what is allowed."""

    type: type
    check: Callable[[str, Any], Any]


def _choice(*allowed: str) -> Parameter:
    def check(name: str, value: Any) -> str:
        errors.one_of(name, value, allowed)
        return value

    return Parameter(str, check)


def _integer(low: int, high: float = math.inf) -> Parameter:
    return Parameter(int, lambda name, value: errors.integer(name, value, low, high))


def _positive() -> Parameter:
    return Parameter(float, lambda name, value: errors.real(name, value, 0))


PARAMETERS = {
    "profile": _choice(*PROFILES),
    "seed": _integer(0),
    "device": _choice("auto", "cpu", "cuda"),
    "task": _choice("digits", "mnist", "fashion-mnist", "cifar10", "cifar100"),
    "partition": _choice("iid", "dirichlet", "dirichlet_fixed_size", "by_class", "lognormal"),
    "clients": _integer(2),
    "clients_per_round": _integer(1),
    "strata": _integer(1),
    "levels": _integer(2, 256),
    "rounds": _integer(1),
    "concentration": _positive(),
    "n_star": _integer(1),
    "size_cap": _integer(3),
    "epsilon": _positive(),
    "seeds": _integer(1),
    "repeats": _integer(1),
}


def sources() -> Path:
    """The folder of the chapters' sources."""
    folder = ROOT / "notebooks"
    if not folder.is_dir():
        raise InputError(
            "the chapters' sources (the folder notebooks/) are not beside the package: "
            "clone the repository and install it with `pip install -e .`"
        )
    return folder


def names() -> list[str]:
    """The stems of all chapters, in order."""
    return sorted(path.stem for path in sources().glob("[0-9][0-9]_*.py"))


def find(name: str) -> str:
    """A chapter's stem from `02`, `2`, `stratification` or `02_stratification`."""
    known = names()
    for stem in known:
        number, _, title = stem.partition("_")
        if name in (stem, title, number, str(int(number))):
            return stem
    raise InputError(f"unknown chapter {name!r}: use one of {', '.join(known)}")


def check(name: str, value: Any) -> Any:
    """The value as its declared type, or an `InputError` that says what is allowed."""
    if name not in PARAMETERS:
        raise InputError(f"unknown parameter {name!r}: use one of {', '.join(PARAMETERS)}")
    kind, checked = PARAMETERS[name]
    if kind is not str and isinstance(value, str):
        raise InputError(f"{name} is {value!r}: it must be a number, not text")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} is {value!r}: it must be a finite number")
    return checked(name, value)


def parse(name: str, text: str) -> Any:
    """A value typed on the command line, as the parameter's type; unknown names are `run`'s to refuse."""
    if name not in PARAMETERS:
        return text
    value: Any = text
    if PARAMETERS[name].type is not str:
        with contextlib.suppress(ValueError):
            value = float(text)
        if value != text and not math.isfinite(value):
            value = text
    return check(name, value)


def defaults(profile: str, chapter: str) -> dict[str, Any]:
    """What a profile sets for a chapter."""
    check("profile", profile)
    path = ROOT / "params" / f"{profile}.yaml"
    if not path.is_file():
        raise InputError(f"the profile {profile!r} has no file params/{profile}.yaml")
    table = yaml.safe_load(path.read_text()) or {}
    return dict(table.get(find(chapter)) or {})


def _cell(chapter: str, tag: str) -> str:
    """The source of the chapter's first cell with this tag."""
    text = (sources() / f"{find(chapter)}.py").read_text()
    for part in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        if f'"{tag}"' in head:
            return body
    return ""


def declared(chapter: str) -> dict[str, Any]:
    """The parameters of a chapter with the defaults of its source (None: the profile's)."""
    body = ast.parse(_cell(chapter, "parameters")).body
    return {
        node.target.id: ast.literal_eval(node.value)
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _refuse_unknown(chapter: str, given: set[str]) -> None:
    known = declared(chapter)
    for name in sorted(given - set(known)):
        raise InputError(
            f"unknown parameter {name!r} of chapter {chapter}: use one of {', '.join(known)}"
        )


def _injected(namespace: dict[str, Any]) -> set[str]:
    """The names that papermill set in this kernel."""
    cells = [cell for cell in namespace.get("_ih", []) if cell.startswith("# Parameters\n")]
    nodes = [node for cell in cells for node in ast.parse(cell).body]
    return {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def settings(chapter: str, given: dict[str, Any]) -> types.SimpleNamespace:
    """A chapter's effective parameters: those given, and the profile's for what is None.

    `given` is the namespace in which the parameters stand, `globals()` in a notebook.
    """
    chapter = find(chapter)
    _refuse_unknown(chapter, _injected(given))
    known = declared(chapter)
    profile = check("profile", given.get("profile") or known.get("profile") or PROFILES[0])
    fill = defaults(profile, chapter)
    values = {}
    for name, default in known.items():
        value = given.get(name, default)
        values[name] = fill.get(name) if value is None else value
        if values[name] is None:
            raise InputError(
                f"chapter {chapter} needs a value of {name}: it is neither given nor set by the "
                f"profile {profile!r} (params/{profile}.yaml)"
            )
    values["profile"] = profile
    return types.SimpleNamespace(**{name: check(name, value) for name, value in values.items()})


def command(chapter: str, parameters: dict[str, Any]) -> str:
    """The command that makes the chapter again."""
    given = "".join(f" -p {key} {shlex.quote(str(value))}" for key, value in parameters.items())
    return f"fedstas chapter {find(chapter)[:2]}{given}"


def papermill_command(chapter: str, parameters: dict[str, Any]) -> str:
    """The same without our command: jupytext and papermill."""
    given = "".join(f" -p {key} {shlex.quote(str(value))}" for key, value in parameters.items())
    source = f"notebooks/{find(chapter)}.py"
    return f"jupytext --to ipynb --output - {source} | papermill - out.ipynb{given}"


def commit() -> str:
    """The short hash of the checkout, with a plus sign if files differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        short = git("rev-parse", "--short", "HEAD")
        return short + ("+" if git("status", "--porcelain") else "") if short else "uncommitted"
    except FileNotFoundError:
        return "unknown"


def _device(asked: str) -> str:
    """The device's name: what `auto` or `cuda` came to on this machine."""
    import torch

    if asked == "cpu" or not torch.cuda.is_available():
        return f"cpu ({platform.machine()}, {os.cpu_count()} cores)"
    return f"cuda ({torch.cuda.get_device_name()})"


def notebook(chapter: str):
    """The chapter's source as a notebook without outputs."""
    import jupytext

    nb = jupytext.read(sources() / f"{find(chapter)}.py", fmt="py:percent")
    nb.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nb.metadata.pop("jupytext", None)
    return nb


def _execute(nb, parameters: dict[str, Any], report: Callable[[int, int], None]):
    """The notebook, executed by papermill in a kernel of this interpreter, from the root."""
    import papermill
    from papermill.engines import NBClientEngine, papermill_engines

    class Engine(NBClientEngine):
        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name, *, report, **options):
            complete, total = nb_man.cell_complete, len(nb_man.nb.cells)

            def cell_complete(cell, cell_index=None, **more):
                complete(cell, cell_index, **more)
                report((cell_index or 0) + 1, total)

            nb_man.cell_complete = cell_complete
            report(0, total)
            return super().execute_managed_notebook(nb_man, kernel_name, **options)

    papermill_engines.register("fedstas", Engine)
    # This interpreter's own kernel, whether or not its environment is activated; one thread, so that
    # equal parameters give equal numbers; no progress bars inside the pages.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {
        **threads,
        "JUPYTER_PATH": str(Path(sys.prefix) / "share" / "jupyter"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "TQDM_DISABLE": "1",
    }
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        return papermill.execute_notebook(
            nb,
            None,
            parameters,
            engine_name="fedstas",
            kernel_name="python3",
            progress_bar=False,
            cwd=ROOT,
            report=report,
            extra_arguments=["--IPKernelApp.log_level=ERROR"],
        )
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _failure(chapter: str, error, added: int) -> ChapterError:
    """A papermill error in a few plain lines: chapter, cell, place in the source, message."""
    source = error.source.strip("\n")
    plain = re.sub(r"\x1b\[[\d;]*m", "", "".join(error.traceback))
    inside = re.search(r"Cell In\[\d+\], line (\d+)", plain)
    offset = int(inside[1]) - 1 if inside else 0
    text = (sources() / f"{chapter}.py").read_text()
    start = text.find(source)
    line = text.count("\n", 0, max(start, 0)) + 1 + offset
    place = f", notebooks/{chapter}.py line {line}" if start >= 0 else ""
    lines = [*source.splitlines(), ""]
    shown = [lines[0]] + ([f"... {lines[offset].strip()}"] if 0 < offset < len(lines) else [])
    return ChapterError(
        f"Chapter {chapter} stopped in cell {error.cell_index + 1 - added}{place}:\n"
        + "".join(f"    {each}\n" for each in shown)
        + f"{error.ename}: {error.evalue}"
    )


def _tidy(nb) -> None:
    """Takes out what papermill adds: timings, absolute paths, its own metadata."""
    nb.metadata.pop("papermill", None)
    for cell in nb.cells:
        for noise in ("papermill", "execution"):
            cell.metadata.pop(noise, None)
    text = json.dumps(nb)
    here = json.dumps(str(ROOT))[1:-1]
    if here in text:
        nb.update(type(nb)(json.loads(text.replace(here + "/", "").replace(here, "."))))


def run(
    name: str,
    parameters: dict[str, Any] | None = None,
    profile: str | None = None,
    output: str | Path | None = None,
    progress: bool | Callable[[int, int], None] = True,
) -> Path:
    """Executes a chapter and returns the path of its page, `book/chapters/<stem>.ipynb` by default.

    Nothing is written unless every cell ran.
    """
    import nbformat
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from tqdm import tqdm

    chapter = find(name)
    given = dict(parameters or {})
    if profile is not None:
        given["profile"] = profile
    _refuse_unknown(chapter, set(given))
    given = {key: check(key, value) for key, value in given.items()}
    effective = vars(settings(chapter, given))
    output = Path(output) if output else ROOT / "book" / "chapters" / f"{chapter}.ipynb"

    bar = tqdm(desc=chapter, unit="cell", disable=None if progress is True else True)

    def show(done: int, total: int) -> None:
        if callable(progress):
            progress(done, total)
        bar.total = total
        bar.update(done - bar.n)

    began = time.monotonic()
    try:
        nb = _execute(notebook(chapter), given, show)
    except PapermillExecutionError as error:
        # Papermill added a cell with what was given.
        raise _failure(chapter, error, added=int(bool(given))) from None
    except DeadKernelError:
        raise ChapterError(f"Chapter {chapter}: its kernel died (out of memory?).") from None
    finally:
        bar.close()

    _tidy(nb)
    nb.metadata["fedstas"] = {
        "chapter": chapter,
        "profile": effective["profile"],
        "parameters": effective,
        "given": given,
        "seed": effective.get("seed"),
        "device": _device(effective.get("device", "cpu")),
        "seconds": round(time.monotonic() - began, 1),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
        "versions": {package: importlib.metadata.version(package) for package in VERSIONS},
        "command": command(chapter, given),
        "papermill": papermill_command(chapter, given),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{output.name}.{os.getpid()}.partial")
    try:
        nbformat.write(nb, partial)
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
    return output


def provenance(page: str | Path) -> dict[str, Any]:
    """The provenance block of an executed chapter."""
    return json.loads(Path(page).read_text())["metadata"].get("fedstas", {})


def main(arguments: list[str]) -> int:
    """`python -m fedstas.study.chapters CHAPTER PROFILE PROGRESS`: one chapter for the pipeline.

    Tells its progress in the file PROGRESS, and what went wrong on stderr.
    """
    chapter, profile, told = arguments

    def tell(done: int, total: int) -> None:
        Path(told).write_text(f"{done}/{total}")

    try:
        run(chapter, profile=None if profile == PROFILES[0] else profile, progress=tell)
    except (InputError, ChapterError) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    finally:
        Path(told).unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
