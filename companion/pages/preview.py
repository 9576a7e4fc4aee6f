"""Build and open the page of one executed chapter without building the book."""

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

LINKED_PAGES = ("glossary", "bibliography")  # targets of a chapter's terms and citations


def render(chapter: str) -> Path:
    """Build the page of an executed chapter and return its path, below `_build/page/`.

    Links to other chapters are plain text there.
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
    write_provenance(root)
    target, contents = root / "_build" / "page" / stem, root / ".cache" / f"page-{stem}.yml"
    shutil.rmtree(target, ignore_errors=True)
    contents.parent.mkdir(exist_ok=True)
    files = [{"file": name} for name in LINKED_PAGES]
    table = {"format": "jb-book", "root": str(source.with_suffix("")), "chapters": files}
    contents.write_text(yaml.safe_dump(table), encoding="utf-8")
    command = [builder, "build", "book", "--config", "_config.yml", "-q"]
    command += ["--toc", contents, "--path-output", target]
    environment = {**os.environ, "TQDM_DISABLE": "1", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment)
    contents.unlink()
    page = target / "_build" / "html" / source.with_suffix(".html")
    if not page.is_file():
        message = re.sub(r"\x1b\[[\d;]*m", "", (done.stderr or done.stdout).strip())
        raise InputError(f"the page of chapter {stem} could not be built: {message[-600:]}")
    return page


def write_provenance(root: Path) -> None:
    """Write how the recorded runs were made, which figures name, unless a build of the book has written it."""
    path = root / "book" / "chapters" / "recorded.json"
    if not path.is_file():
        from companion.runs import provenance_report  # imports pandas and torch

        with contextlib.chdir(root):  # it reads results/
            provenance_report.main([str(path)])


def show(page: Path) -> str:
    """Open a page in the browser; return a sentence that says so, or where the page is if there is no browser."""
    if webbrowser.open(page.resolve().as_uri()):
        return f"opened {page}"
    return f"no browser was found here: open {page} in one"
