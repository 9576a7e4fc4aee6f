"""The pipeline of the book: a chapter's parameters, its execution, its provenance.

A chapter is a jupytext source `notebooks/NN_name.py`. Its parameters are typed, come from the command
line or from a profile (`params/<profile>.yaml`), and are refused when unknown or out of range.
"""

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from companion.pages import expectations, warm
from companion.pages import parameters as table
from companion.pages.parameters import (
    PROFILES,
    check,
    defaults,
    find,
    names,
    parse,
    refuse_unknown,
    sources,
)
from companion.runs import provenance as made
from companion.runs.atomic import write
from fedstas import methods
from fedstas.errors import InputError
from fedstas.sim import partition, tasks

__all__ = [
    "PROFILES",
    "ChapterError",
    "check",
    "command",
    "defaults",
    "find",
    "names",
    "papermill_command",
    "parse",
    "provenance",
    "run",
    "settings",
]

VERSIONS = ("fedstas", "numpy", "scipy", "scikit-learn", "torch")


def settings(chapter: str, given: dict[str, Any]):
    """A chapter's effective parameters (see `parameters.settings`), for its first cell: from here on this
    kernel computes with one thread, in Jupyter and papermill as by `fedstas chapter`. So equal parameters
    give equal numbers, and matrices as small as here are multiplied faster."""
    import sklearn.cluster  # noqa: F401  (only the pools of what is loaded are limited)
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    threadpool_limits(1)
    return table.settings(chapter, given)


class ChapterError(Exception):
    """A cell of a chapter failed; the message says which, and how."""


def command(chapter: str, parameters: dict[str, Any]) -> str:
    """The command that makes the chapter again."""
    given = "".join(f" -p {key} {shlex.quote(str(value))}" for key, value in parameters.items())
    number = find(chapter).partition("_")[0]
    return f"fedstas chapter {number}{given}"


def papermill_command(chapter: str, parameters: dict[str, Any]) -> str:
    """The same without our command: jupytext and papermill."""
    given = "".join(f" -p {key} {shlex.quote(str(value))}" for key, value in parameters.items())
    source = f"notebooks/{find(chapter)}.py"
    return f"jupytext --to ipynb --output - {source} | papermill - out.ipynb{given}"


def _device(asked: str) -> str:
    """The device's name: what `auto` or `cuda` came to on this machine."""
    import torch

    if asked == "cpu" or not torch.cuda.is_available():
        return f"cpu ({platform.machine()}, {os.cpu_count()} cores)"
    return f"cuda ({torch.cuda.get_device_name()})"


def _used() -> float | None:
    """Seconds of processors that the kernels of this process took until they ended; None where the system
    does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + warm.used


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
            cwd=table.ROOT,
            report=report,
            # A kernel that is told to stop while it is busy calls that an error; a cell's errors are raised.
            extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
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
    here = json.dumps(str(table.ROOT))[1:-1]
    if here in text:
        from nbformat import from_dict

        nb.update(from_dict(json.loads(text.replace(here + "/", "").replace(here, "."))))


def _tried(effective: dict[str, Any]) -> None:
    """The data, the network, the partition and the design that are asked for, before a kernel is started."""
    data = tasks.load(effective["task"], network=effective.get("network", ""))
    if "partition" in effective:
        seed = effective["seed"]
        partition.make(effective["partition"], data.train_y, users=data.users, seed=seed)
    if "method" in effective:
        methods.get(effective["method"])


def run(
    name: str,
    parameters: dict[str, Any] | None = None,
    profile: str | None = None,
    output: str | Path | None = None,
    progress: bool | Callable[[int, int], None] = True,
) -> Path:
    """Executes a chapter and returns the path of its page, `book/chapters/<stem>.ipynb` by default.

    Nothing is written unless every cell ran and, at the default parameters, every `expect` held.
    """
    import nbformat
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from tqdm import tqdm

    chapter = find(name)
    given = dict(parameters or {})
    if profile is not None:
        given["profile"] = profile
    refuse_unknown(chapter, set(given))
    given = {key: check(key, value) for key, value in given.items()}
    effective = vars(table.settings(chapter, given))
    tasks.find_device(
        effective.get("device", "cpu")
    )  # what is not here is an error now, not in a minute
    if effective.get("task", "digits") != "digits" or effective.get("network"):
        with contextlib.chdir(table.ROOT):  # where the chapter will stand
            _tried(effective)
    output = Path(output) if output else table.ROOT / "book" / "chapters" / f"{chapter}.ipynb"

    bar = tqdm(desc=chapter, unit="cell", disable=None if progress is True else True)

    def show(done: int, total: int) -> None:
        if callable(progress):
            progress(done, total)
        bar.total = total
        bar.update(done - bar.n)

    began, used = time.monotonic(), _used()
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
    failed = expectations.taken(nb)
    if failed and effective == vars(table.settings(chapter, {})):
        raise ChapterError(
            f"Chapter {chapter}: what it says does not hold at its default parameters:\n"
            + "\n".join(f"    “{words}” ({values})" for words, values in failed)
        )
    expectations.mark(nb, failed)
    nb.metadata["fedstas"] = {
        "chapter": chapter,
        "profile": effective["profile"],
        "parameters": effective,
        "given": given,
        "seed": effective.get("seed"),
        "device": _device(effective.get("device", "cpu")),
        "seconds": round(time.monotonic() - began, 1),
        "cpu": None if used is None else round(_used() - used, 1),  # whatever else the machine does
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": made.commit(),
        "python": platform.python_version(),
        "versions": {package: importlib.metadata.version(package) for package in VERSIONS},
        "command": command(chapter, given),
        "papermill": papermill_command(chapter, given),
    }
    write(output, lambda partial: nbformat.write(nb, partial))
    return output


def provenance(page: str | Path) -> dict[str, Any]:
    """The provenance block of an executed chapter."""
    return json.loads(Path(page).read_text())["metadata"].get("fedstas", {})


def main(arguments: list[str]) -> int:
    """`python -m companion.pages.chapters CHAPTER PROFILE PROGRESS`: one chapter for the pipeline.

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
