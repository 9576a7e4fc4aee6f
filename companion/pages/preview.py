"""The page of one executed chapter, as the book shows it, without building the book."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path

import yaml

from companion.pages import parameters
from fedstas.errors import InputError

BESIDE = ("glossary", "bibliography")  # what a chapter's terms and citations link to


def render(chapter: str) -> Path:
    """Build the page of an executed chapter and return its path, below `_build/page/`.

    Links to other chapters are plain text there: the book has them.
    """
    stem = parameters.find(chapter)
    root = parameters.ROOT
    source = Path("chapters") / f"{stem}.ipynb"
    if not (root / "book" / source).is_file():
        raise InputError(f"chapter {stem} is not executed yet: run `fedstas chapter {stem}` first")
    builder = Path(sys.executable).with_name("jupyter-book")
    if not builder.is_file():
        raise InputError(
            'a page is built by jupyter-book, which is not installed: pip install -e ".[book]"'
        )
    tell_recorded(root)
    provenance_report, contents = (
        root / "_build" / "page" / stem,
        root / ".cache" / f"page-{stem}.yml",
    )
    shutil.rmtree(provenance_report, ignore_errors=True)
    contents.parent.mkdir(exist_ok=True)
    files = [{"file": name} for name in BESIDE]
    table = {"format": "jb-book", "root": str(source.with_suffix("")), "chapters": files}
    contents.write_text(yaml.safe_dump(table), encoding="utf-8")
    command = [builder, "build", "book", "--config", "_config.yml", "-q"]
    command += ["--toc", contents, "--path-output", provenance_report]
    environment = {**os.environ, "TQDM_DISABLE": "1", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment)
    contents.unlink()
    page = provenance_report / "_build" / "html" / source.with_suffix(".html")
    if not page.is_file():
        said = re.sub(r"\x1b\[[\d;]*m", "", (done.stderr or done.stdout).strip())
        raise InputError(f"the page of chapter {stem} could not be built: {said[-600:]}")
    return page


def tell_recorded(root: Path) -> None:
    """How the recorded runs were made, which stands under their figures: written where the book was not built yet."""
    path = root / "book" / "chapters" / "recorded.json"
    if not path.is_file():
        from companion.runs import provenance_report  # with it come pandas and torch

        with contextlib.chdir(root):  # where results/ stands
            provenance_report.main([str(path)])


def show(page: Path) -> str:
    """Open a page in the browser; a sentence that says so, or where the page is if there is none."""
    if webbrowser.open(page.resolve().as_uri()):
        return f"opened {page}"
    return f"no browser was found here: open {page} in one"
