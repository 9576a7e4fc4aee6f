"""Designs, tasks and networks of one's own: classes and functions of a file, which a run's record names by
the file's SHA-256.

A file is named as FILE.py, or as FILE.py:NAME where it holds several. What it imports from files beside
it is found, but is no part of a run's identity.
"""

import hashlib
import json
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType

from fedstas import config
from fedstas.errors import Diverged, InputError

FILE = re.compile(r"(.+\.py)(?::(\w+))?")
TABLE = re.compile(r"(.+\.npy)|(.+\.csv):(.+)")  # whose each example is
_LOADED: dict[tuple[str, str], type] = {}  # by class name and SHA-256: those of this process


def is_user_defined(value) -> bool:
    """Whether the class of this part is not one of the package's."""
    return not type(value).__module__.startswith("fedstas.")


def check_frozen(kind: type) -> type:
    """The class; `InputError` unless it is a frozen dataclass, whose settings can be told and changed."""
    if not getattr(getattr(kind, "__dataclass_params__", None), "frozen", False):
        raise InputError(f"put @dataclass(frozen=True) above class {kind.__name__}")
    return kind


@dataclass(frozen=True)
class UserFunction:
    """A function of a file: `name` is FILE.py:FUNCTION without folders, `place` its file and line."""

    name: str
    sha256: str
    place: str = field(compare=False, repr=False)
    module: str = field(compare=False, repr=False)
    call: Callable = field(compare=False, repr=False)

    def __str__(self):
        return self.name

    def __call__(self, *given):
        """What the function returns; what it raises is an `InputError` that names the line."""
        with user_code_errors(self.module, self.place):
            return self.call(*given)


@contextmanager
def user_code_errors(module: str, place: str = ""):
    """What a module of one's own raises here as one sentence, with the file and line that it came through
    last; `place` where it came through none."""
    try:
        yield
    except Diverged:
        raise
    except (Exception, SystemExit) as error:
        steps = traceback.walk_tb(error.__traceback__)
        own = [(f.f_code.co_filename, n) for f, n in steps if f.f_globals.get("__name__") == module]
        own = [step for step in own if step[0][0] != "<"]  # what dataclass writes is in no file
        where = "{} line {}".format(*own[-1]) if own else place
        said = str(error).replace("\n", " ")
        said = said if isinstance(error, InputError) else f"{type(error).__name__}: {said}"
        raise InputError(f"{where}: {said}" if where else said) from error


def design_errors(design):
    """`told` of what is asked of a design of one's own, which is placed at its `draw`."""
    if not is_user_defined(design):
        return nullcontext()
    module, code = type(design).__module__, getattr(getattr(design, "draw", None), "__code__", None)
    place = f"{code.co_filename} line {code.co_firstlineno}" if code is not None else ""
    return user_code_errors(module, place if module.startswith(config.USER_MODULE_PREFIX) else "")


def without_folders(spec, usual: str):
    """FILE.py:FUNCTION without folders, where that is named by `spec`; else what it is."""
    asked = FILE.fullmatch(spec) if isinstance(spec, str) else None
    return f"{Path(asked[1]).name}:{asked[2] or usual}" if asked else spec


def load_function(spec: str, usual: str) -> UserFunction:
    """The function that FILE.py:FUNCTION names, or the one called `usual` of FILE.py."""
    file, name = FILE.fullmatch(spec).groups()  # type: ignore[union-attr]
    made, name = _file(file, f"a {usual}", "FUNCTION"), name or usual
    found = vars(made).get(name)
    if not callable(found):
        has = [k for k, v in vars(made).items() if getattr(v, "__module__", "") == made.__name__]
        raise InputError(f"{file} has no function {name}: it has {', '.join(has) or 'none'}")
    line = getattr(getattr(found, "__code__", None), "co_firstlineno", 1)
    sha = made.__name__[-64:]
    return UserFunction(
        without_folders(spec, usual), sha, f"{file} line {line}", made.__name__, found
    )


def _file(file: str, what: str, kind: str) -> ModuleType:
    if not Path(file).is_file():
        raise InputError(f"there is no file {file}: name {what} as FILE.py or FILE.py:{kind}")
    return _module(Path(file))


def file_of(spec) -> str:
    """The file of one's own that `spec` names, FILE.py, FILE.npy or FILE.csv; "" where it names none."""
    asked = FILE.fullmatch(str(spec)) or TABLE.fullmatch(str(spec))
    return next(filter(None, asked.groups())) if asked else ""


def sha256(spec) -> str:
    """The SHA-256 of that file; "" where there is none."""
    path = Path(file_of(spec))
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def locate(spec: str, sha: str, what: str) -> str:
    """`spec` of a record, FILE or FILE:NAME, with the folder where a file of this SHA-256 is: this one or one
    of `sys.path`; `InputError` if it is gone, or holds another text."""
    file = file_of(spec)
    there = [path for folder in ("", *sys.path) if (path := Path(folder) / file).is_file()]
    same = [path for path in there if hashlib.sha256(path.read_bytes()).hexdigest() == sha]
    if not same:
        gone = "has changed since" if there else "is not here: run this in its folder"
        raise InputError(f"the run is of {what} {file} (SHA-256 {sha[:8]}...), which {gone}")
    return f"{same[0]}{spec[len(file) :]}"


def load_design(spec: str) -> tuple[str, type]:
    """The name FILE.py:CLASS, without folders, and the class of the design that `spec` asks for."""
    file, name = FILE.fullmatch(spec).groups()  # type: ignore[union-attr]
    made = _file(file, "a design", "CLASS")
    here = [k for k in vars(made).values() if isinstance(k, type) and k.__module__ == made.__name__]
    there = {k.__name__: k for k in here if callable(getattr(k, "draw", None))}
    if name is None and len(there) == 1:
        name = next(iter(there))
    if name not in there:
        has = ", ".join(there) or "no class with a method draw(view, m, rng)"
        has += "; name one" * (len(there) > 1)
        raise InputError(f"{spec} names no design: {file} has {has}")
    return f"{Path(file).name}:{name}", check_frozen(there[name])


def _module(path: Path) -> ModuleType:
    """The file as a module, run once for each text that it has."""
    text = path.read_bytes()
    sha = hashlib.sha256(text).hexdigest()
    name = f"{config.USER_MODULE_PREFIX}{path.stem}-{sha}"
    if name in sys.modules:
        return sys.modules[name]
    sys.modules[name] = made = ModuleType(name)
    made.__file__ = str(path.resolve())
    sys.path.insert(0, folder := str(path.resolve().parent))
    try:
        exec(compile(text, str(path), "exec"), vars(made))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        lines = [n for f, n in traceback.walk_tb(error.__traceback__) if f.f_globals is vars(made)]
        line = (error.lineno or 1) if isinstance(error, SyntaxError) else lines[-1]
        said = f"{type(error).__name__}: {error}".replace("\n", " ")
        raise InputError(f"{path} line {line} fails on import: {said}") from error
    finally:
        sys.path.remove(folder)
    return made


@cache
def source(kind: type) -> dict:
    """The name of the file that the class is defined in, and the SHA-256 of what it held when it was run
    (of one that was imported in another way: when this was first asked)."""
    module = sys.modules.get(kind.__module__)
    path = Path(getattr(module, "__file__", None) or "")
    if kind.__module__.startswith(config.USER_MODULE_PREFIX):
        sha = kind.__module__[-64:]
    elif path.is_file():
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
    else:
        said = f"class {kind.__name__} is in no file: put it in one, so that its runs can be made again"
        raise InputError(said)
    _LOADED[kind.__name__, sha] = kind
    return {"file": path.name, "sha256": sha}


def source_digests(*values) -> tuple[str, ...]:
    """The SHA-256 of the file of each of these parts that is one's own and in a file."""
    found = []
    for value in filter(is_user_defined, values):
        with suppress(InputError):
            found.append(source(type(value))["sha256"])  # type: ignore[arg-type]
    return tuple(found)


def to_dict(value) -> dict:
    """A part as plain data; of one's own with its `source`. `InputError` if that would not make it again."""
    if not is_user_defined(value):
        return config.to_dict(value)
    kind = check_frozen(type(value))
    try:
        plain = config.to_dict(value)
        whole = bool(config.from_dict(json.loads(json.dumps(plain)), kind) == value)
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise InputError(
            f"{value!r} cannot be recorded: its settings must be numbers, words, True, False or None"
        )
    return plain | {"from": source(kind)}


def from_dict(data: dict):
    """The part that `to_dict` wrote down; `InputError` if its file is gone, or holds another text."""
    given = dict(data)
    where = given.pop("from", None)
    if where is None:
        return config.from_dict(given)
    name, file, sha = given["is"], where["file"], where["sha256"]
    if (name, sha) not in _LOADED:
        path = Path(locate(file, sha, f"{name} in"))
        _LOADED[name, sha] = getattr(_module(path), name)
    return config.from_dict(given, _LOADED[name, sha])
