"""A chapter's parameters: declared in its source, filled by a profile, checked in one place."""

from __future__ import annotations

import ast
import contextlib
import math
import re
import types
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fedstas import errors, methods, user_code
from fedstas.errors import InputError
from fedstas.sim import partition, tasks
from fedstas.sim.rng import LARGEST_SEED

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ("quick", "laptop", "paper")


class Parameter(NamedTuple):
    """What a chapter may be asked for: the value's type, and the check that says what is allowed."""

    type: type
    check: Callable[[str, Any], Any]


def _choice(*allowed: str, file: re.Pattern | None = None) -> Parameter:
    """One of these words, or a file of one's own of this form, which must be there."""

    def check(name: str, value: Any) -> str:
        if file is not None and file.fullmatch(str(value)):
            path = ROOT / user_code.file_of(
                value
            )  # a chapter stands in the root, wherever it is called
            if not path.is_file():
                raise InputError(f"{name} is {value!r}: there is no file {path}")
        else:
            errors.check_choice(name, value, allowed)
        return value

    return Parameter(str, check)


def _integer(low: int, high: float = math.inf) -> Parameter:
    return Parameter(int, lambda name, value: errors.check_int(name, value, low, high))


def _positive() -> Parameter:
    return Parameter(float, lambda name, value: errors.check_float(name, value, 0))


PARAMETERS = {
    "profile": _choice(*PROFILES),
    "seed": _integer(0, LARGEST_SEED),
    "device": _choice("auto", "cpu", "cuda"),
    "task": _choice(*tasks.names(), file=user_code.FILE),
    "network": _choice(
        "", *tasks.NETWORKS, file=user_code.FILE
    ),  # the task's usual one if it is empty
    "partition": _choice(*partition.names(), file=user_code.TABLE),
    "method": _choice(*methods.names(), file=user_code.FILE),
    "clients": _integer(2),
    "clients_per_round": _integer(1),
    "strata": _integer(1),
    "levels": _integer(2, 256),
    "rounds": _integer(1),
    "concentration": _positive(),
    "n_star": _integer(1),
    "size_cap": _integer(3),
    "epsilon": _positive(),
    "seeds": _integer(1),
    "repeats": _integer(1),
}


def sources() -> Path:
    """The folder of the chapters' sources."""
    folder = ROOT / "notebooks"
    if not folder.is_dir():
        raise InputError(
            "the chapters' sources (the folder notebooks/) are not beside the package: "
            "clone the repository and install it with `pip install -e .[book]`"
        )
    return folder


def names() -> list[str]:
    """The stems of all chapters, in order; a part of a chapter has a letter, as `04a_unbiasedness`."""
    return sorted(p.stem for p in sources().glob("*.py") if re.match(r"\d\d[a-z]?_", p.stem))


def find(name: str) -> str:
    """A chapter's stem from `02`, `2`, `stratification` or `02_stratification`."""
    known = names()
    for stem in known:
        number, _, title = stem.partition("_")
        if name in (stem, title, number, number.lstrip("0")):
            return stem
    near = errors.suggestion(name, known)
    raise InputError(f"unknown chapter {name!r}{near}: use one of {', '.join(known)}")


def check(name: str, value: Any) -> Any:
    """The value as its declared type, or an `InputError` that says what is allowed."""
    if name not in PARAMETERS:
        errors.check_choice("parameter", name, PARAMETERS)
    kind, checked = PARAMETERS[name]
    if kind is not str and isinstance(value, str):
        raise InputError(f"{name} is {value!r}: it must be a number, not text")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} is {value!r}: it must be a finite number")
    return checked(name, value)


def parse(name: str, text: str) -> Any:
    """A value typed on the command line, as the parameter's type; unknown names are `run`'s to refuse."""
    if name not in PARAMETERS:
        return text
    value: Any = text
    if PARAMETERS[name].type is not str:
        with contextlib.suppress(ValueError):
            value = float(text)
        if value != text and not math.isfinite(value):
            value = text
        elif value != text and value.is_integer():
            value = int(value)
    elif user_code.file_of(text):
        value = str(Path.cwd() / text)
    return check(name, value)


def defaults(profile: str, chapter: str) -> dict[str, Any]:
    """What a profile sets for a chapter."""
    check("profile", profile)
    path = ROOT / "params" / f"{profile}.yaml"
    if not path.is_file():
        raise InputError(f"the profile {profile!r} has no file params/{profile}.yaml")
    return dict(_profile(path.read_text()).get(find(chapter)) or {})


@lru_cache(maxsize=8)
def _profile(text: str) -> dict:
    """A profile's file, read once for all chapters."""
    return yaml.safe_load(text) or {}


def _cell(chapter: str, tag: str) -> str:
    """The source of the chapter's first cell with this tag."""
    text = (sources() / f"{find(chapter)}.py").read_text()
    for part in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        if f'"{tag}"' in head:
            return body
    return ""


def declared(chapter: str) -> dict[str, Any]:
    """The parameters of a chapter with the defaults of its source (None: the profile's)."""
    body = ast.parse(_cell(chapter, "parameters")).body
    return {
        node.target.id: ast.literal_eval(node.value)
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def helps(chapter: str) -> dict[str, str]:
    """What each parameter of a chapter is, in the words of its source."""
    line = re.compile(r"^(\w+): \w+ = [^#\n]*(?:# *(.*))?$", re.MULTILINE)
    return {name: said.strip() for name, said in line.findall(_cell(chapter, "parameters"))}


def listing(chapter: str, given: dict[str, Any]) -> str:
    """A chapter's parameters, a line each: name, type, the value that a run would take, what it is."""
    chapter = find(chapter)
    refuse_unknown(chapter, set(given))
    values, said = vars(settings(chapter, given)), helps(chapter)
    width = max(map(len, values))
    worth = max(len(str(value)) for value in values.values())
    lines = [
        f"{name:{width}}  {PARAMETERS[name].type.__name__:5}  {value!s:{worth}}  {said[name]}"
        for name, value in values.items()
    ]
    return "\n".join(lines)


def refuse_unknown(chapter: str, given: set[str]) -> None:
    """Refuse names that the chapter does not declare."""
    known = declared(chapter)
    for name in sorted(given - set(known)):
        said = f"unknown parameter {name!r} of chapter {chapter}{errors.suggestion(name, known)}"
        raise InputError(f"{said}: use one of {', '.join(known)}")


def _injected(namespace: dict[str, Any]) -> set[str]:
    """The names that papermill set in this kernel."""
    cells = [cell for cell in namespace.get("_ih", []) if cell.startswith("# Parameters\n")]
    nodes = [node for cell in cells for node in ast.parse(cell).body]
    return {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def settings(chapter: str, given: dict[str, Any]) -> types.SimpleNamespace:
    """A chapter's effective parameters: those given, and the profile's for what is None.

    `given` is the namespace in which the parameters stand, `globals()` in a notebook.
    """
    chapter = find(chapter)
    refuse_unknown(chapter, _injected(given))
    known = declared(chapter)
    profile = check("profile", given.get("profile") or known.get("profile") or PROFILES[0])
    fill = defaults(profile, chapter)
    values = {}
    for name, default in known.items():
        value = given.get(name, default)
        values[name] = fill.get(name) if value is None else value
        if values[name] is None:
            raise InputError(
                f"chapter {chapter} needs a value of {name}: it is neither given nor set by the "
                f"profile {profile!r} (params/{profile}.yaml)"
            )
    values["profile"] = profile
    checked = {name: check(name, value) for name, value in values.items()}
    if checked.get("task") in tasks.TEXT and "network" not in checked:
        images = ", ".join(name for name in tasks.names() if name not in tasks.TEXT)
        raise InputError(
            f"task is {checked['task']!r}: chapter {chapter} computes with images, use one of {images}"
        )
    for name in ("clients_per_round", "strata"):
        if checked.get(name, 0) > checked.get("clients", math.inf):
            raise InputError(
                f"{name} is {checked[name]}: it must not be above clients, here {checked['clients']}"
            )
    return types.SimpleNamespace(**checked)
