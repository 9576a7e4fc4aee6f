"""Load designs, tasks and networks from the user's files; a run's record names each by its file's SHA-256.

A file is named as FILE.py, or as FILE.py:NAME where it holds several. It may import files beside it, at its top or in a
function, which are no part of a run's identity.
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

# A name may end in "-validation", as that of a task does (`tasks.hold_out`).
FILE = re.compile(r"(.+\.py)(?::(\w+(?:-validation)?))?")
# Files that name the client of each example.
TABLE = re.compile(r"(.+\.(?:npy|json))|(.+\.csv):(.+)")
# Classes that this process has loaded from the user's files, by name and SHA-256 of the file.
_LOADED: dict[tuple[str, str], type] = {}


def is_user_defined(value) -> bool:
    """Return whether a part is of a class that the package does not define."""
    return is_user_class(type(value))


def is_user_class(kind: type) -> bool:
    """Return whether the package does not define this class."""
    return not kind.__module__.startswith("fedstas.")


def check_frozen(kind: type) -> type:
    """Return the class; `InputError` unless it is a frozen dataclass, whose settings can be recorded and changed."""
    if not getattr(getattr(kind, "__dataclass_params__", None), "frozen", False):
        raise InputError(f"put @dataclass(frozen=True) above class {kind.__name__}")
    return kind


@dataclass(frozen=True)
class UserFunction:
    """A function of a user's file.

    Args:
        name: FILE.py:FUNCTION without folders.
        sha256: of the file.
        place: file and line of the function.
        module: the name of the module that was made of the file.
        call: the function itself.
    """

    name: str
    sha256: str
    place: str = field(compare=False, repr=False)
    module: str = field(compare=False, repr=False)
    call: Callable = field(compare=False, repr=False)

    def __str__(self):
        return self.name

    def __call__(self, *arguments):
        """Call the function; what it raises becomes an `InputError` that names the line."""
        with user_code_errors(self.module, self.place):
            return self.call(*arguments)


@contextmanager
def _folder_on_path(module: str):
    """Put the folder of a user's file, by the name of its module, on `sys.path` in a `with` block, so that the file can
    import files beside it; for another module do nothing."""
    file = getattr(sys.modules.get(module), "__file__", None)
    folder = str(Path(file).parent) if file and module.startswith(config.USER_MODULE_PREFIX) else ""
    if folder:
        sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder and folder in sys.path:  # unless the user's code has removed it
            sys.path.remove(folder)


@contextmanager
def user_code_errors(module: str, place: str = ""):
    """Call a user's code in a `with` block: its folder is on `sys.path`, as when the file was run, and an exception
    becomes an `InputError` of one sentence, with the last file and line of the user's module that it came through, or
    with `place` if there is none."""
    try:
        with _folder_on_path(module):
            yield
    except Diverged:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.walk_tb(error.__traceback__)
        lines = [
            (f.f_code.co_filename, n) for f, n in frames if f.f_globals.get("__name__") == module
        ]
        # Code that `dataclass` generates is in no file: its name is "<string>".
        lines = [(file, number) for file, number in lines if not file.startswith("<")]
        where = "{} line {}".format(*lines[-1]) if lines else place
        message = str(error).replace("\n", " ")
        message = message if isinstance(error, InputError) else f"{type(error).__name__}: {message}"
        raise InputError(f"{where}: {message}" if where else message) from error


def design_errors(design):
    """Return `user_code_errors` for calls of a user's design, with the place of its `draw`; for a design of the
    package, a context that does nothing."""
    if not is_user_defined(design):
        return nullcontext()
    module, code = type(design).__module__, getattr(getattr(design, "draw", None), "__code__", None)
    place = f"{code.co_filename} line {code.co_firstlineno}" if code is not None else ""
    return user_code_errors(module, place if module.startswith(config.USER_MODULE_PREFIX) else "")


def without_folders(spec, default: str):
    """Return FILE.py:FUNCTION without folders, with the `default` function where none is named; any other `spec`
    as it is."""
    match = FILE.fullmatch(spec) if isinstance(spec, str) else None
    return f"{Path(match[1]).name}:{match[2] or default}" if match else spec


def load_function(spec: str, default: str) -> UserFunction:
    """Load the function that FILE.py:FUNCTION names, or the one called `default` of FILE.py."""
    file, name = FILE.fullmatch(spec).groups()  # type: ignore[union-attr]
    module, name = _load_file(file, f"a {default}", "FUNCTION"), name or default
    function = vars(module).get(name)
    if not callable(function):
        names = [
            k for k, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
        ]
        raise InputError(f"{file} has no function {name}: it has {', '.join(names) or 'none'}")
    line = getattr(getattr(function, "__code__", None), "co_firstlineno", 1)
    sha, place = module.__name__[-64:], f"{file} line {line}"
    return UserFunction(without_folders(spec, default), sha, place, module.__name__, function)


def _load_file(file: str, what: str, kind: str) -> ModuleType:
    """Load a user's file; `InputError` if it is not there, which says how to name `what`, a class or function."""
    if not Path(file).is_file():
        raise InputError(f"there is no file {file}: name {what} as FILE.py or FILE.py:{kind}")
    return _run_module(Path(file))


def file_of(spec) -> str:
    """Return the user's file that `spec` names, FILE.py, FILE.npy, FILE.json or FILE.csv; "" if it names none."""
    match = FILE.fullmatch(str(spec)) or TABLE.fullmatch(str(spec))
    return next(filter(None, match.groups())) if match else ""


def sha256(spec) -> str:
    """Return the SHA-256 of the file that `spec` names; "" if there is none."""
    path = Path(file_of(spec))
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def locate(spec: str, sha: str, what: str) -> str:
    """Find the file of a recorded run in the current folder or in `sys.path`.

    Args:
        spec: FILE or FILE:NAME, without folders.
        sha: the SHA-256 that the record has.
        what: what the file holds, for the message.

    Returns:
        `spec` with the folder of the file.

    Raises:
        InputError: if there is no such file, or its text has changed.
    """
    file = file_of(spec)
    paths = [path for folder in ("", *sys.path) if (path := Path(folder) / file).is_file()]
    same = [path for path in paths if hashlib.sha256(path.read_bytes()).hexdigest() == sha]
    if not same:
        reason = "has changed since" if paths else "is not here: run this in its folder"
        raise InputError(f"the run is of {what} {file} (SHA-256 {sha[:8]}...), which {reason}")
    return f"{same[0]}{spec[len(file) :]}"


def load_design(spec: str) -> tuple[str, type]:
    """Load the design of FILE.py, which must have exactly one, or of FILE.py:CLASS.

    Returns:
        The name FILE.py:CLASS without folders, and the class.

    Raises:
        InputError: the file has no such design, or FILE.py alone has several; its class is not a frozen dataclass; or
            it cannot be run.
    """
    file, name = FILE.fullmatch(spec).groups()  # type: ignore[union-attr]
    module = _load_file(file, "a design", "CLASS")
    classes = [k for k in vars(module).values() if isinstance(k, type)]
    classes = [k for k in classes if k.__module__ == module.__name__]
    designs = {k.__name__: k for k in classes if callable(getattr(k, "draw", None))}
    if name is None and len(designs) == 1:
        name = next(iter(designs))
    if name not in designs:
        contents = ", ".join(designs) or "no class with a method draw(view, m, rng)"
        contents += "; name one" * (len(designs) > 1)
        raise InputError(f"{spec} names no design: {file} has {contents}")
    return f"{Path(file).name}:{name}", check_frozen(designs[name])


def _run_module(path: Path) -> ModuleType:
    """Run a file as a module and return the module; a file with the same name and text is run once in a process."""
    text = path.read_bytes()
    sha = hashlib.sha256(text).hexdigest()
    name = f"{config.USER_MODULE_PREFIX}{path.stem}-{sha}"
    if name in sys.modules:
        return sys.modules[name]
    sys.modules[name] = module = ModuleType(name)
    module.__file__ = str(path.resolve())
    try:
        with _folder_on_path(name):
            exec(compile(text, str(path), "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        lines = [
            n for f, n in traceback.walk_tb(error.__traceback__) if f.f_globals is vars(module)
        ]
        line = (error.lineno or 1) if isinstance(error, SyntaxError) else lines[-1]
        message = f"{type(error).__name__}: {error}".replace("\n", " ")
        raise InputError(f"{path} line {line} fails on import: {message}") from error
    return module


@cache
def source(kind: type) -> dict:
    """Return the name and the SHA-256 of the file that defines a class.

    The SHA-256 is that of the text that was run, or, for a class that Python's `import` loaded, of the text when
    this function is first called.
    """
    module = sys.modules.get(kind.__module__)
    path = Path(getattr(module, "__file__", None) or "")
    if kind.__module__.startswith(config.USER_MODULE_PREFIX):
        sha = kind.__module__[-64:]  # the 64 hex digits of the SHA-256 end the module's name
    elif path.is_file():
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
    else:
        raise InputError(
            f"class {kind.__name__} is in no file: put it in one, so that its runs can be made again"
        )
    _LOADED[kind.__name__, sha] = kind
    return {"file": path.name, "sha256": sha}


def source_digests(*values) -> tuple[str, ...]:
    """Return the SHA-256 of the file of each part that a user's file defines."""
    digests = []
    for value in filter(is_user_defined, values):
        with suppress(InputError):
            digests.append(source(type(value))["sha256"])  # type: ignore[arg-type]
    return tuple(digests)


def to_dict(value) -> dict:
    """Return a part of a method as plain data, from which `from_dict` makes an equal part.

    A part whose class is in a user's file has under "from" the file's name and SHA-256 (`source`).

    Raises:
        InputError: the settings cannot be recorded as plain data.
    """
    if not is_user_defined(value):
        return config.to_dict(value)
    kind = check_frozen(type(value))
    try:
        plain = config.to_dict(value)
        restored = bool(config.from_dict(json.loads(json.dumps(plain)), kind) == value)
    except (TypeError, ValueError):
        restored = False
    if not restored:
        raise InputError(
            f"{value!r} cannot be recorded: its settings must be numbers, words, True, False or None"
        )
    return plain | {"from": source(kind)}


def from_dict(data: dict):
    """Make the part again that `to_dict` wrote; `InputError` if the user's file is missing or was changed."""
    plain = dict(data)
    origin = plain.pop("from", None)
    if origin is None:
        return config.from_dict(plain)
    name, file, sha = plain["is"], origin["file"], origin["sha256"]
    if (name, sha) not in _LOADED:
        path = Path(locate(file, sha, f"{name} in"))
        _LOADED[name, sha] = getattr(_run_module(path), name)
    return config.from_dict(plain, _LOADED[name, sha])
