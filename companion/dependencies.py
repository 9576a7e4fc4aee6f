"""Find what a source file depends on without running it: modules that it imports, files that it names.

The build (`dodo.py`) executes a chapter again when one of them changed; a test holds that imports run one way.
"""

import ast
from functools import cache
from pathlib import Path

from companion import PACKAGES, ROOT

# `from fedstas import engine` imports fedstas.sim.engine, `from companion import plots` companion.pages.plots.
LAZY = {
    "fedstas": ("fedstas.sim",),
    "companion": tuple(f"companion.{package}" for package in PACKAGES),
}


@cache
def modules() -> dict[str, Path]:
    """Return the path of each module of `fedstas` and `companion` by its dotted name."""
    paths = [path for package in LAZY for path in sorted((ROOT / package).rglob("*.py"))]
    return {dotted_name(path): path for path in paths}


def dotted_name(path: Path) -> str:
    """Return the dotted name of a module from its path."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def resolve(name: str) -> str | None:
    """Return the module that an imported dotted name is, or None: of another package, or a name in a module."""
    if name in modules():
        return name
    package, _, last = name.rpartition(".")
    names = (f"{inner}.{last}" for inner in LAZY.get(package, ()))
    return next((name for name in names if name in modules()), None)


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a source file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the modules that a source file imports anywhere in it, functions included."""
    names = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(name for name in map(resolve, names) if name)


def closure(path: Path) -> set[str]:
    """Return the modules that a source file imports, and those that these import, and so on."""
    visited: set[str] = set()
    queue = set(imported(path))
    while queue:
        name = queue.pop()
        visited.add(name)
        queue |= imported(modules()[name]) - visited
    return visited


def named_files(path: Path) -> set[str]:
    """Return the files of the repository that a text in a source file names, as `"examples/own/my_data.py"`.

    Not those below `runs/`, which chapters write: a chapter does not depend on its own output.
    """
    texts = {node.value for node in ast.walk(parse(path)) if isinstance(node, ast.Constant)}
    short = {text for text in texts if isinstance(text, str) and 0 < len(text) < 200}
    paths = {text for text in short if "\0" not in text and not text.startswith("runs/")}
    return {text for text in paths if (ROOT / text).is_file()}
