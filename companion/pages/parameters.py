"""A chapter's parameters: declared in its source, filled by a profile, checked against the designs' bounds.

The only declaration is the cell with the tag `parameters` of `notebooks/<stem>.py`, a line for each parameter:
`strata: int = None  # number of strata`. Papermill reads name, type, default and help from it. A default of None means
that a profile (`params/<profile>.yaml`) sets the value.
"""

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

from fedstas import errors, methods, privacy, user_code
from fedstas.client_sampling import Stratified
from fedstas.data_sampling import Requested
from fedstas.errors import InputError
from fedstas.sim import partition, tasks
from fedstas.sim.rng import LARGEST_SEED

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ("quick", "laptop", "paper")
Check = Callable[[str, Any], Any]


def _one_of(*allowed: str, user_file: re.Pattern | None = None) -> Check:
    """Make a check for one of these words or, with `user_file`, for an existing file of the reader's."""

    def check(name: str, value: Any) -> str:
        """Return the value if it is allowed; raise InputError otherwise."""
        if user_file is not None and user_file.fullmatch(str(value)):
            path = ROOT / user_code.file_of(value)  # chapters run in the root, wherever called from
            if not path.is_file():
                raise InputError(f"{name} is {value!r}: there is no file {path}")
        else:
            errors.check_choice(name, value, allowed)
        return value

    return check


def _check_of_field(design: type, name: str) -> Check:
    """Return the check of the field `name` of a design, a class that is decorated by `fedstas.config.config`."""
    return design.__dataclass_fields__[name].metadata["check"]  # type: ignore[attr-defined]


CHECKS_BY_TYPE: dict[type, Check] = {
    int: lambda name, value: errors.check_int(name, value, 1),
    float: lambda name, value: errors.check_float(name, value, 0),
}
CHECKS: dict[str, Check] = {  # of parameters whose type does not say what is allowed
    "profile": _one_of(*PROFILES),
    "seed": lambda name, value: errors.check_int(name, value, 0, LARGEST_SEED),
    "device": _one_of("auto", "cpu", "cuda"),
    "task": _one_of(*tasks.names(), user_file=user_code.FILE),
    "network": _one_of("", *tasks.NETWORKS, user_file=user_code.FILE),  # "": the task's usual one
    "partition": _one_of(*partition.names(), user_file=user_code.TABLE),
    "method": _one_of(*methods.names(), user_file=user_code.FILE),
    "clients": lambda name, value: errors.check_int(name, value, 2),
    # One run has no interval.
    **{n: lambda name, value: errors.check_int(name, value, 2) for n in ("repeats", "seeds")},
    **{name: _check_of_field(Stratified, name) for name in ("strata", "levels")},
    **{name: _check_of_field(Requested, name) for name in ("n_star", "epsilon", "size_cap")},
}


# What a chapter needs beyond a parameter's own bound: 04f fits a slope to the last nine tenths of its rounds.
LEAST: dict[tuple[str, str], int] = {("04f_convergence", "rounds"): 10}


class Parameter(NamedTuple):
    """A parameter as a chapter declares it."""

    name: str
    type: type
    default: Any
    help: str

    def check(self, value: Any) -> Any:
        """Return the value in its declared type, or raise an `InputError` that says what is allowed."""
        if self.type is not str and isinstance(value, str):
            raise InputError(f"{self.name} is {value!r}: it must be a number, not text")
        check = CHECKS.get(self.name) or CHECKS_BY_TYPE[self.type]
        return check(self.name, value)

    def parse(self, text: str) -> Any:
        """Return the value that a reader typed on the command line, checked; files become absolute paths."""
        value: Any = text
        if self.type is not str:
            for number in (float, int):
                with contextlib.suppress(ValueError):
                    value = number(text)
        elif user_code.file_of(text):
            value = str(Path.cwd() / text)
        return self.check(value)


def sources() -> Path:
    """Return the folder of the chapters' sources."""
    folder = ROOT / "notebooks"
    if not folder.is_dir():
        raise InputError(
            "the chapters' sources (the folder notebooks/) are not beside the package: "
            "clone the repository and install it with `pip install -e .[book]`"
        )
    return folder


def names() -> list[str]:
    """Return the stems of all chapters, in order; a part of a chapter has a letter, as `04a_unbiasedness`."""
    return sorted(p.stem for p in sources().glob("*.py") if re.match(r"\d\d[a-z]?_", p.stem))


def find(name: str) -> str:
    """Return a chapter's stem from `02`, `2`, `stratification` or `02_stratification`."""
    stems = names()
    for stem in stems:
        number, _, title = stem.partition("_")
        if name in (stem, title, number, number.lstrip("0")):
            return stem
    suggestion = errors.suggestion(name, stems)
    raise InputError(f"unknown chapter {name!r}{suggestion}: use one of {', '.join(stems)}")


def declared(chapter: str) -> dict[str, Parameter]:
    """Read the parameters that a chapter declares, by name."""
    stem = find(chapter)
    return dict(_declared(stem, (sources() / f"{stem}.py").read_text(encoding="utf-8")))


@lru_cache(maxsize=64)
def _declared(stem: str, source: str) -> dict[str, Parameter]:
    """Read the parameters of a source; the last sources are cached."""
    import jupytext
    from papermill.translators import papermill_translators

    nb = jupytext.reads(source, fmt="py:percent")
    cell = next((c for c in nb.cells if "parameters" in c.metadata.get("tags", [])), None)
    if cell is None:
        raise InputError(f"notebooks/{stem}.py has no cell with the tag `parameters`")
    translator = papermill_translators.find_translator("python3", "python")
    parameters = {}
    for name, annotation, default, text in translator.inspect(cell):
        kind = {"str": str, "int": int, "float": float}.get(annotation)
        if kind not in CHECKS_BY_TYPE and (kind is None or name not in CHECKS):
            raise InputError(
                f"notebooks/{stem}.py declares {name}: {annotation}; a parameter is an int or a float, or one of "
                f"{', '.join(CHECKS)}"
            )
        parameters[name] = Parameter(name, kind, ast.literal_eval(default), text.strip())
    return parameters


def parse(chapter: str, texts: dict[str, str]) -> dict[str, Any]:
    """Return the values of parameters typed as `-p NAME TEXT`, checked."""
    refuse_unknown(chapter, set(texts))
    parameters = declared(chapter)
    return {name: parameters[name].parse(text) for name, text in texts.items()}


def defaults(profile: str, chapter: str) -> dict[str, Any]:
    """Return what a profile sets for a chapter."""
    errors.check_choice("profile", profile, PROFILES)
    path = ROOT / "params" / f"{profile}.yaml"
    if not path.is_file():
        raise InputError(f"the profile {profile!r} has no file params/{profile}.yaml")
    return dict(_read_profile(path.read_text(encoding="utf-8")).get(find(chapter)) or {})


@lru_cache(maxsize=8)
def _read_profile(text: str) -> dict:
    """Parse a profile's file, once for all chapters."""
    return yaml.safe_load(text) or {}


def listing(chapter: str, chosen: dict[str, Any]) -> str:
    """Return a line for each parameter of a chapter: name, type, the value that a run would take, help."""
    refuse_unknown(chapter, set(chosen))
    values, parameters = vars(settings(chapter, chosen)), declared(chapter)
    name_width = max(map(len, values))
    value_width = max(len(str(value)) for value in values.values())
    return "\n".join(
        f"{name:{name_width}}  {parameters[name].type.__name__:5}  {value!s:{value_width}}  "
        + parameters[name].help
        for name, value in values.items()
    )


def refuse_unknown(chapter: str, chosen: set[str]) -> None:
    """Raise an `InputError` for a name that the chapter does not declare."""
    stem, parameters = find(chapter), declared(chapter)
    for name in sorted(chosen - set(parameters)):
        raise InputError(
            f"unknown parameter {name!r} of chapter {stem}{errors.suggestion(name, parameters)}: "
            f"use one of {', '.join(parameters)}"
        )


def _injected(namespace: dict[str, Any]) -> set[str]:
    """Return the names that papermill assigned in this kernel, from its input history."""
    cells = [cell for cell in namespace.get("_ih", []) if cell.startswith("# Parameters\n")]
    return {
        node.id
        for cell in cells
        for node in ast.walk(ast.parse(cell))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def settings(chapter: str, chosen: dict[str, Any]) -> types.SimpleNamespace:
    """Return a chapter's effective parameters, checked.

    Args:
        chapter: any name that `find` understands.
        chosen: values by name; other names are ignored, so that a notebook passes `globals()`. What is None or missing
            is the source's default, or else the profile's.

    Raises:
        InputError: papermill injected an unknown name, a value is missing or out of bounds, or two contradict.
    """
    chapter = find(chapter)
    refuse_unknown(chapter, _injected(chosen))
    parameters = declared(chapter)
    values = {name: chosen.get(name, parameter.default) for name, parameter in parameters.items()}
    profile = values["profile"] = values.get("profile") or PROFILES[0]
    profile_values = defaults(profile, chapter)
    for name, parameter in parameters.items():
        value = profile_values.get(name) if values[name] is None else values[name]
        if value is None:
            raise InputError(
                f"chapter {chapter} needs a value of {name}: it is neither given nor set by the "
                f"profile {profile!r} (params/{profile}.yaml)"
            )
        values[name] = parameter.check(value)
        if values[name] < (least := LEAST.get((chapter, name), values[name])):
            raise InputError(f"{name} is {value}: chapter {chapter} needs at least {least}")
    if values.get("task") in tasks.TEXT and "network" not in values:
        images = ", ".join(name for name in tasks.names() if name not in tasks.TEXT)
        raise InputError(
            f"task is {values['task']!r}: chapter {chapter} computes with images, use one of {images}"
        )
    for name in ("clients_per_round", "strata"):
        if values.get(name, 0) > values.get("clients", math.inf):
            raise InputError(
                f"{name} is {values[name]}: it must not be above clients, here {values['clients']}"
            )
    if {"epsilon", "size_cap"} <= set(values):
        privacy.truth_probability(values["epsilon"], values["size_cap"])
    return types.SimpleNamespace(**values)
