"""The house: which room may import which, what may touch the file system, what never loads torch."""

import ast
import importlib
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import companion
import fedstas

PACKAGE, COMPANION = Path(fedstas.__file__).parent, Path(companion.__file__).parent
ROOMS = {  # by the dotted name; what a room may import besides itself
    "fedstas": ("fedstas.theory",),
    "fedstas.theory": ("fedstas",),
    "fedstas.sim": ("fedstas",),
    "fedstas.flower": ("fedstas", "fedstas.sim"),
    "companion.runs": ("fedstas", "fedstas.sim"),
    "companion.claims": ("fedstas", "fedstas.theory", "fedstas.sim", "companion.runs"),
    "companion.pages": (
        "fedstas", "fedstas.theory", "fedstas.sim", "companion.runs", "companion.claims",
    ),
    "companion.teach": (
        "fedstas", "fedstas.theory", "fedstas.sim", "companion.runs", "companion.claims",
        "companion.pages",
    ),
}  # fmt: skip
DOORS = ("fedstas/__init__.py", "fedstas/cli.py", "companion/__init__.py")
ABOVE = (*DOORS, "companion/commands.py", "companion/doctor.py")  # these stand above the rooms
SOURCES = sorted([*PACKAGE.rglob("*.py"), *COMPANION.rglob("*.py")])
# What of the package reads or writes files: tasks their data, the perceptron the size of a cache,
# the command its --out and, by saved, the run that goes on from it, own and own_data the files of readers, flower what a server saves and the examples start.
ON_DISK = ("sim/tasks", "sim/user_data", "sim/run_file", "sim/perceptron", "cli", "user_code")


def short(path: Path) -> str:
    return path.relative_to(PACKAGE.parent).as_posix()


MODULES = [path for path in SOURCES if short(path) not in ABOVE]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def name_of(path: Path) -> str:
    return short(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


NAMES = {name_of(path): path for path in SOURCES}


def room(name: str) -> str:
    """The room of a module's dotted name."""
    inside = [r for r in ROOMS if name == r or name.startswith(f"{r}.")]
    return max(inside, key=len, default="")


def resolved(name: str) -> str | None:
    """The module that a dotted name of ours is, through the lazy doors; None for a name inside one."""
    if name in NAMES:
        return name
    head, _, last = name.rpartition(".")
    doors = {
        "fedstas": ("fedstas.sim",),
        "companion": tuple(f"companion.{r}" for r in companion.ROOMS),
    }
    return next((f"{r}.{last}" for r in doors.get(head, ()) if f"{r}.{last}" in NAMES), None)


def imported(path: Path) -> set[str]:
    """The dotted names of our own modules that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            found |= {f"{node.module}.{a.name}" for a in node.names} | {node.module}
    ours = {name for name in found if name.split(".")[0] in ("fedstas", "companion")}
    return {name for name in map(resolved, ours) if name}


def wrong_imports(path: Path) -> list[str]:
    own = room(name_of(path))
    allowed = {own, *ROOMS[own]}
    # A room's own door is no import of everything behind it.
    return sorted(
        name for name in imported(path) - {"fedstas", "companion"} if room(name) not in allowed
    )


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_one_way(path):
    assert wrong_imports(path) == [], f"{name_of(path)} may import {ROOMS[room(name_of(path))]}"
    above = {n for n in imported(path) if n in ("fedstas.cli", "companion.commands")}
    assert not above


def test_the_check_of_imports_sees_through_the_lazy_doors():
    assert resolved("fedstas.tasks") == "fedstas.sim.tasks"
    assert resolved("fedstas.records") is None
    assert resolved("companion.ledger") == "companion.claims.ledger"
    assert resolved("fedstas.sim.engine") == "fedstas.sim.engine"
    assert resolved("fedstas.privacy.report") is None
    assert room("companion.claims.evidence.privacy") == "companion.claims"


def test_only_the_command_knows_of_the_companion():
    knows = [
        short(p) for p in SOURCES if p.is_relative_to(PACKAGE) and "companion" in p.read_text()
    ]
    assert knows == ["fedstas/cli.py"]


def test_the_package_knows_of_no_repository():
    """No module of the package climbs from its own file to the folders beside it."""
    climbs = [
        short(path)
        for path in SOURCES
        if path.is_relative_to(PACKAGE)
        and any(isinstance(n, ast.Name) and n.id == "__file__" for n in ast.walk(tree(path)))
    ]
    assert climbs == []


def test_the_algorithms_touch_no_file():
    touching = set()
    for path in SOURCES:
        if path.is_relative_to(PACKAGE):
            names = {n.id for n in ast.walk(tree(path)) if isinstance(n, ast.Name)}
            modules = {
                alias.name.split(".")[0]
                for n in ast.walk(tree(path))
                if isinstance(n, (ast.Import, ast.ImportFrom))
                for alias in (n.names if isinstance(n, ast.Import) else [ast.alias(n.module)])
            }
            if names & {"open"} or modules & {"pathlib", "os", "shutil", "subprocess", "io"}:
                touching.add(short(path).removeprefix("fedstas/").removesuffix(".py"))
    assert not [name for name in touching if name not in ON_DISK and not name.startswith("flower/")]


def python(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_the_algorithms_never_import_torch():
    names = [n for n in NAMES if room(n) in ("fedstas", "fedstas.theory") and n != "fedstas.cli"]
    assert len(names) >= 15
    code = f"""
import importlib, sys
for name in {names}:
    importlib.import_module(name)
print([m for m in ("torch", "fedstas.sim", "companion") if m in sys.modules])
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "words", [None, ["--help"], ["run", "--help"], ["methods"], ["sweep", "--help"]]
)
def test_the_command_loads_nothing_that_it_does_not_need(words):
    """Each of these takes seconds to import, and `--help` trains, clusters and reads nothing."""
    heavy = ("torch", "sklearn", "scipy", "pandas", "pyarrow", "matplotlib")
    done = python(f"""
import contextlib, io, sys
import fedstas.cli
if {words}:
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        fedstas.cli.main({words})
print([m for m in {heavy} if m in sys.modules])
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_every_module_of_every_room_comes_lazily_through_the_doors():
    through = {
        "fedstas": ("fedstas", "fedstas.sim"),
        "companion": [f"companion.{r}" for r in companion.ROOMS],
    }
    names = [
        (door, name)
        for door, rooms in through.items()
        for name, path in NAMES.items()
        if name.rpartition(".")[0] in rooms and not (path.name == "__init__.py" and name in ROOMS)
    ]
    lasts = [name.rpartition(".")[2] for _, name in names]
    assert len(set(lasts)) == len(lasts), "two rooms have a module of the same name"
    for door, name in names:
        last = name.rpartition(".")[2]
        assert getattr(importlib.import_module(door), last) is importlib.import_module(name)
        assert last in dir(fedstas) or door == "companion"
    done = python("import sys, fedstas; print('numpy' in sys.modules, 'torch' in sys.modules)")
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("door", ["fedstas", "companion"])
def test_a_module_that_is_not_there_is_an_import_error(door):
    with pytest.raises(ImportError, match="nonsense"):
        exec(f"from {door} import nonsense")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = importlib.import_module(door).nonsense


def test_renamed_modules_answer_to_their_old_names_and_the_companion_to_none():
    assert (fedstas.own_data, fedstas.own, fedstas.parts) == (
        fedstas.user_data, fedstas.user_code, fedstas.config,
    )  # fmt: skip
    with pytest.raises(AttributeError, match="no attribute 'records'"):
        _ = fedstas.records


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_modules_and_what_is_public_in_them_say_what_they_are_for(path):
    assert ast.get_docstring(tree(path))
    kinds = (ast.FunctionDef, ast.ClassDef)
    bare = [
        node.name
        for node in tree(path).body
        if isinstance(node, kinds) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert not bare


def test_random_numbers_come_from_streams_alone():
    """No module touches a global generator, and only `rng` makes one; `authors`, for how last bits
    may fall, which no run draws; and `least_variance`, for orders and signs that are always the same."""
    fixed = "np.random.default_rng"
    made = {"rng": "np.random.", "authors": fixed, "least_variance": fixed}
    for path in SOURCES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("np.random."):
                name = ast.unparse(node)
                known = path.stem in made and name.startswith(made[path.stem])
                assert name == "np.random.Generator" or known, f"{path.name}: {name}"
