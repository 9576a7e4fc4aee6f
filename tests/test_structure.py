"""The house: three rooms, imports one way, small modules."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import fedstas

HOME = Path(fedstas.__file__).parent
ROOMS = {"algorithms": HOME, "sim": HOME / "sim", "study": HOME / "study"}
ABOVE = ("cli", "flower", "__init__")  # these stand above the rooms
MODULES = {
    path: room
    for room, folder in ROOMS.items()
    for path in sorted([*folder.glob("*.py"), *folder.glob("theory/*.py"), *folder.glob("e*/*.py")])
    if path.stem not in ABOVE
}
DOORS = {path: room for path, room in MODULES.items() if path.parent in ROOMS.values()}
ALGORITHMS = sorted(path.stem for path, room in DOORS.items() if room == "algorithms")
ORDER = ("algorithms", "sim", "study")
LIMIT = 300


def imported(path: Path) -> set[str]:
    """The dotted names of our own modules that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return {name for name in found if name.split(".")[0] == "fedstas"}


def room_of(name: str) -> str:
    """Where an imported name lives; the lazy `from fedstas import tasks` does not hide a room."""
    parts = name.split(".")
    if len(parts) > 1 and parts[1] in ("sim", "study"):
        return parts[1]
    if len(parts) > 1:
        for room in ("sim", "study"):
            if (ROOMS[room] / f"{parts[1]}.py").exists():
                return room
    return "algorithms"


def name_of(path: Path) -> str:
    return ".".join(("fedstas", *path.relative_to(HOME).with_suffix("").parts))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_one_way(path):
    allowed = ORDER[: ORDER.index(MODULES[path]) + 1]
    wrong = [name for name in imported(path) if room_of(name) not in allowed]
    assert not wrong, f"{name_of(path)} may import from {', '.join(allowed)} only, not {wrong}"
    assert not [name for name in imported(path) if name.split(".")[1:2] in (["cli"], ["flower"])]


def test_the_check_of_imports_sees_through_the_lazy_door():
    assert room_of("fedstas.tasks") == "sim"
    assert room_of("fedstas.records") == "study"
    assert room_of("fedstas.sim.engine") == "sim"
    assert room_of("fedstas.privacy") == "algorithms"


def python(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_the_algorithms_never_import_torch():
    assert len(ALGORITHMS) >= 10
    code = f"""
import importlib, sys
for name in {ALGORITHMS}:
    importlib.import_module("fedstas." + name)
print([m for m in ("torch", "fedstas.sim", "fedstas.study") if m in sys.modules])
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_every_module_of_every_room_is_imported_lazily_from_the_package():
    names = [path.stem for path in DOORS]
    assert len(set(names)) == len(names), "two rooms have a module of the same name"
    for path, room in DOORS.items():
        scope: dict = {}
        exec(f"from fedstas import {path.stem}", scope)
        home = "fedstas" if room == "algorithms" else f"fedstas.{room}"
        assert scope[path.stem] is importlib.import_module(f"{home}.{path.stem}")
    done = python("import sys, fedstas; print('numpy' in sys.modules, 'torch' in sys.modules)")
    assert done.stdout.split() == ["False", "False"]


def test_a_module_that_is_not_there_is_an_import_error():
    with pytest.raises(ImportError, match="nonsense"):
        exec("from fedstas import nonsense")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = fedstas.nonsense


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_one_idea(path):
    lines = len(path.read_text().splitlines())
    assert lines < LIMIT, f"{name_of(path)} has {lines} lines: it holds two ideas"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_public_function_and_class_says_what_it_does(path):
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.ClassDef)
    bare = [
        node.name
        for node in tree.body
        if isinstance(node, kinds) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert not bare


def test_random_numbers_come_from_streams_alone():
    """No module touches a global generator, and only `rng` makes one."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("np.random."):
                name = ast.unparse(node)
                assert name == "np.random.Generator" or path.stem == "rng", f"{path.name}: {name}"
