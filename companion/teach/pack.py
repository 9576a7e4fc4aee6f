"""Write the whole pack of a course into a folder: students' notebooks, solutions, slides, data, and what to do with them.

`fedstas teach --all --to FOLDER`. Students get the folder `students`, and nothing of `lecturer`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from companion.pages import chapters
from companion.teach import slides, teaching
from fedstas.errors import InputError
from fedstas.sim import tasks

DATA = (
    "mnist",
    "fashion-mnist",
)  # what the project and the profile laptop use; digits come with scikit-learn
TEXT = """# What is in this folder

- `students/`: a notebook of each chapter, without solutions, and `project.ipynb`, with which the longer project begins.
  Send a session's before the session, and `data/` with the project.
- `lecturer/`: the same with solutions, and slides of each chapter. Keep it to yourself.
- `data/`: {data}

A notebook needs Python with the package: its first cell clones the repository and installs it where it is missing.
Without a network: copy a clone of the repository with its `.venv`, made on a machine of the same kind, to each
computer, and choose that `.venv` as the kernel; the first cell then does nothing, and `digits`, which all notebooks
use, comes with scikit-learn.

To grade what comes back: put the notebooks into a folder, and

    fedstas grade submissions/ --csv grades.csv

`fedstas grade --help` says what is and what is not kept out. The page *A course in six sessions* of the book has the
plan, the minutes and the questions for votes.
{missing}"""


def make(to: Path, report: Callable[[str], None] = lambda line: None) -> str:
    """Write the pack, and return what is in it, a line each.

    Args:
        report: called with a line for each chapter that is written.

    Raises:
        InputError: the folder is a file, or has files that are not of a pack; or chapters could not be converted, which
            is said when all others are written.
    """
    if to.is_file() or (to.is_dir() and any(to.iterdir()) and not (to / "students").is_dir()):
        raise InputError(f"--to {to} has something else in it: name a new or an empty folder")
    for name in ("students", "lecturer", "data"):
        (to / name).mkdir(parents=True, exist_ok=True)
    stems, missing, failures = chapters.names(), [], {}
    for stem in stems:
        try:
            teaching.make(stem, "student", to / "students" / f"{stem}.ipynb")
            teaching.make(stem, "instructor", to / "lecturer" / f"{stem}-solutions.ipynb")
            if slides.executed_page(stem).is_file():
                slides.make(stem, to / "lecturer" / f"{stem}-slides.html")
            else:
                missing.append(stem.partition("_")[0])
            report(f"{stem} written")
        except Exception as error:  # whatever is wrong with a chapter, the others are written
            failures[stem] = str(error).partition("\n")[0] or type(error).__name__
    teaching.make("project", "student", to / "students" / "project.ipynb")
    present = [name for name in DATA if (tasks.data_folder() / f"{name}.npz").is_file()]
    for name in present:
        shutil.copyfile(tasks.data_folder() / f"{name}.npz", to / "data" / f"{name}.npz")
    data = "empty: `digits`, which all notebooks use, comes with scikit-learn; no other data were on this machine."
    if present:
        data = f"{', '.join(present)}, for the project; set the environment variable FEDSTAS_DATA to this folder."
    hint = f"\nSlides are missing of chapters {', '.join(missing)}, which were not executed here: `make book`, then once more.\n"
    text = TEXT.format(data=data, missing=hint if missing else "")
    (to / "README.md").write_text(text, encoding="utf-8")
    if failures:
        reasons = "; ".join(f"{stem} ({reason})" for stem, reason in failures.items())
        raise InputError(f"{to} has all but what could not be converted: {reasons}")
    count = len(stems)
    return "\n".join(
        [
            f"{to / 'students'}: {count} notebooks, and project.ipynb",
            f"{to / 'lecturer'}: {count} notebooks with solutions, slides of {count - len(missing)}"
            + (f" (not executed here: {', '.join(missing)}; `make book` first)" if missing else ""),
            f"{to / 'data'}: {', '.join(present) or 'nothing, digits come with scikit-learn'}",
            str(to / "README.md"),
        ]
    )
