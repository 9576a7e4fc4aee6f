"""Execute a chapter with parameters, and record in its page how it was made.

A chapter is a jupytext source `notebooks/NN_name.py`; `companion.pages.parameters` reads and checks its parameters.
Papermill executes it, and the page `book/chapters/NN_name.ipynb` is what the book is built from.
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

from companion.pages import expectations, live_text, prose, warm
from companion.pages import parameters as chapter_parameters
from companion.pages.parameters import PROFILES, declared, find, names, refuse_unknown, sources
from companion.runs.atomic import check_writable, write
from companion.runs.provenance import commit
from fedstas import methods
from fedstas.errors import InputError
from fedstas.sim import partition, tasks

__all__ = [
    "ChapterError",
    "command",
    "find",
    "names",
    "papermill_command",
    "provenance",
    "read_notebook",
    "run",
    "settings",
]

VERSIONS = ("fedstas", "numpy", "scipy", "scikit-learn", "torch")


def settings(chapter: str, chosen: dict[str, Any]):
    """Return a chapter's effective parameters (see `parameters.settings`) and limit this kernel to one thread.

    Every chapter calls it in its first cell: so equal parameters give equal numbers in Jupyter, in papermill and by
    `fedstas chapter`, and matrices as small as here are multiplied faster.
    """
    import sklearn.cluster  # noqa: F401  (limits apply to libraries that are loaded)
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    threadpool_limits(1)
    effective = chapter_parameters.settings(chapter, chosen)
    default = vars(chapter_parameters.settings(chapter, {}))
    live_text.stamp(vars(effective), default)
    return effective


class ChapterError(Exception):
    """A cell of a chapter failed; the message names the cell and the error."""


def _options(parameters: dict[str, Any]) -> str:
    """Return the options `-p NAME VALUE` of a command line."""
    return "".join(f" -p {name} {shlex.quote(str(value))}" for name, value in parameters.items())


def command(chapter: str, parameters: dict[str, Any]) -> str:
    """Return the command that executes the chapter with these parameters."""
    return f"fedstas chapter {find(chapter).partition('_')[0]}{_options(parameters)}"


def papermill_command(chapter: str, parameters: dict[str, Any]) -> str:
    """Return the command that makes a notebook with these parameters without `fedstas`, by papermill."""
    return f"make notebooks && papermill notebooks/ipynb/{find(chapter)}.ipynb out.ipynb{_options(parameters)}"


def _device_name(device: str) -> str:
    """Return the name of the device that `auto`, `cpu` or `cuda` is on this machine."""
    import torch

    if device == "cpu" or not torch.cuda.is_available():
        return f"cpu ({platform.machine()}, {os.cpu_count()} cores)"
    return f"cuda ({torch.cuda.get_device_name()})"


def _kernel_cpu_seconds() -> float | None:
    """Return the CPU seconds of all ended child processes, kernels among them; None on Windows.

    Those of ended kernels that `warm` forked from its server are added: they are the server's children, not ours.
    """
    try:
        import resource
    except ImportError:  # Windows
        return None
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + warm.kernel_seconds


def read_notebook(chapter: str):
    """Read a chapter's source as a notebook without outputs."""
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
    """Execute a notebook by papermill in a kernel of this interpreter, in the repository's root.

    Args:
        report: called with the number of executed cells and of all cells.
    """
    import papermill
    from papermill.engines import NBClientEngine, papermill_engines

    class Engine(NBClientEngine):
        """Papermill engine that reports every executed cell."""

        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name, *, report, **options):
            """Execute the notebook of papermill's manager `nb_man`, and call `report` after every cell."""
            mark_complete, total = nb_man.cell_complete, len(nb_man.nb.cells)

            def cell_complete(cell, cell_index=None, **more):
                """Mark a cell as executed, and report how many are."""
                mark_complete(cell, cell_index, **more)
                report((cell_index or 0) + 1, total)

            nb_man.cell_complete = cell_complete  # papermill calls it after each cell
            report(0, total)
            return super().execute_managed_notebook(nb_man, kernel_name, **options)

    papermill_engines.register("fedstas", Engine)
    # The kernel of this interpreter, whether or not its environment is activated; one thread, so that equal
    # parameters give equal numbers; no progress bars inside the pages.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {
        **threads,
        "JUPYTER_PATH": str(Path(sys.prefix) / "share" / "jupyter"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "TQDM_DISABLE": "1",
        prose.FOR_THE_PAGE: "1",
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
            cwd=chapter_parameters.ROOT,
            report=report,
            # A busy kernel logs an error when it is asked to stop; errors of cells are raised all the same.
            extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
        )
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _failure(chapter: str, error, added: int) -> ChapterError:
    """Turn a papermill error into a few plain lines: chapter, cell, place in the source, message.

    Args:
        added: how many cells papermill has inserted.
    """
    source = error.source.strip("\n")
    traceback = re.sub(r"\x1b\[[\d;]*m", "", "".join(error.traceback))
    position = re.search(r"Cell In\[\d+\], line (\d+)", traceback)
    offset = int(position[1]) - 1 if position else 0
    text = (sources() / f"{chapter}.py").read_text(encoding="utf-8")
    start = text.find(source)
    line = text.count("\n", 0, max(start, 0)) + 1 + offset
    place = f", notebooks/{chapter}.py line {line}" if start >= 0 else ""
    lines = [*source.splitlines(), ""]
    excerpt = [lines[0]] + ([f"... {lines[offset].strip()}"] if 0 < offset < len(lines) else [])
    return ChapterError(
        f"Chapter {chapter} stopped in cell {error.cell_index + 1 - added}{place}:\n"
        + "".join(f"    {line}\n" for line in excerpt)
        + f"{error.ename}: {error.evalue}"
    )


def _remove_traces(nb) -> None:
    """Remove what papermill adds to a notebook: timings, absolute paths, its own metadata."""
    nb.metadata.pop("papermill", None)
    for cell in nb.cells:
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
    text = json.dumps(nb)
    root = json.dumps(str(chapter_parameters.ROOT))[1:-1]
    if root in text:
        from nbformat import from_dict

        nb.update(from_dict(json.loads(text.replace(root + "/", "").replace(root, "."))))


def move_set_up_to_end(nb) -> None:
    """Move the parameters and the imports of an executed chapter to the end of its page, as one folded cell.

    The set-up is what stands first among the code cells: the cells tagged `parameters` and `injected-parameters`, and
    the hidden cell with the imports after them.
    """
    from nbformat.v4 import new_code_cell

    set_up = []
    for cell in nb.cells:
        tags = {*cell.metadata.get("tags", [])}
        if cell.cell_type == "code" and tags & {"parameters", "injected-parameters"}:
            set_up.append(cell)
        elif cell.cell_type == "code":
            set_up += [cell] if set_up and "hide-input" in tags else []
            break
    if set_up:
        nb.cells = [cell for cell in nb.cells if not any(cell is part for part in set_up)]
        prompt = {"code_prompt_show": "Show the parameters and imports of this page"}
        last = new_code_cell("\n\n".join(cell.source for cell in set_up))
        last.outputs = [output for cell in set_up for output in cell.get("outputs", [])]
        last.metadata |= {"tags": ["hide-input"], "mystnb": prompt}
        nb.cells.append(last)


def _load_inputs(effective: dict[str, Any]) -> None:
    """Load data, network, partition and design once, to report an invalid one before a kernel starts."""
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
    """Execute a chapter and return the path of its page, `book/chapters/<stem>.ipynb` by default.

    Args:
        name: any name that `find` understands.
        parameters: values by name; the profile fills what is not given.
        progress: whether to show a bar, or a function of the number of executed cells and of all cells.

    Raises:
        InputError: a parameter is unknown or out of bounds, or what it names cannot be loaded.
        ChapterError: a cell failed or, at the default parameters, an `expect` did not hold; nothing is written.
    """
    import nbformat
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from tqdm import tqdm

    chapter = find(name)
    chosen = dict(parameters or {})
    if profile is not None:
        chosen["profile"] = profile
    refuse_unknown(chapter, set(chosen))
    declared_parameters = declared(chapter)
    chosen = {key: declared_parameters[key].check(value) for key, value in chosen.items()}
    effective = vars(chapter_parameters.settings(chapter, chosen))
    root = chapter_parameters.ROOT
    # A missing device is refused before a kernel starts.
    tasks.find_device(effective.get("device", "cpu"))
    if effective.get("task", "digits") != "digits" or effective.get("network"):
        with contextlib.chdir(root):
            _load_inputs(effective)
    output = Path(output) if output else root / "book" / "chapters" / f"{chapter}.ipynb"
    check_writable(output)

    bar = tqdm(desc=chapter, unit="cell", disable=None if progress is True else True)

    def show(done: int, total: int) -> None:
        """Report the number of executed cells, to `progress` and to the bar."""
        if callable(progress):
            progress(done, total)
        bar.total = total
        bar.update(done - bar.n)

    start, cpu_start = time.monotonic(), _kernel_cpu_seconds()
    try:
        nb = _execute(read_notebook(chapter), chosen, show)
    except PapermillExecutionError as error:
        # Papermill inserts one cell with the given parameters.
        raise _failure(chapter, error, added=int(bool(chosen))) from None
    except DeadKernelError:
        raise ChapterError(f"Chapter {chapter}: its kernel died (out of memory?).") from None
    finally:
        bar.close()

    _remove_traces(nb)
    failed = expectations.remove_failures(nb)
    if failed and effective == vars(chapter_parameters.settings(chapter, {})):
        raise ChapterError(
            f"Chapter {chapter}: what it says does not hold at its default parameters:\n"
            + "\n".join(f"    “{words}” ({values})" for words, values in failed)
        )
    expectations.mark(nb, failed)
    live_text.fit_words_to_numbers(nb)
    move_set_up_to_end(nb)
    nb.metadata["fedstas"] = {
        "chapter": chapter,
        "profile": effective["profile"],
        "parameters": effective,
        "given": chosen,
        "seed": effective.get("seed"),
        "device": _device_name(effective.get("device", "cpu")),
        "seconds": round(time.monotonic() - start, 1),
        "cpu": None if cpu_start is None else round(_kernel_cpu_seconds() - cpu_start, 1),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
        "versions": {package: importlib.metadata.version(package) for package in VERSIONS},
        "command": command(chapter, chosen),
        "papermill": papermill_command(chapter, chosen),
    }
    write(output, lambda partial: nbformat.write(nb, partial))
    return output


def provenance(page: str | Path) -> dict[str, Any]:
    """Read how the page of a chapter was made: parameters, seed, device, seconds, date, commit, versions, commands."""
    return json.loads(Path(page).read_text(encoding="utf-8"))["metadata"].get("fedstas", {})


def main(arguments: list[str]) -> int:
    """Run `python -m companion.pages.chapters CHAPTER PROFILE PROGRESS`: one chapter for the pipeline.

    Writes the number of executed cells to the file PROGRESS, and errors to stderr.
    """
    chapter, profile, progress_file = arguments

    def write_progress(done: int, total: int) -> None:
        """Write the number of executed cells to the progress file."""
        Path(progress_file).write_text(f"{done}/{total}", encoding="utf-8")

    try:
        run(chapter, profile=None if profile == PROFILES[0] else profile, progress=write_progress)
    except (InputError, ChapterError) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    finally:
        Path(progress_file).unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
