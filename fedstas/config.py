"""The parts that methods are made of: settings that check themselves, and plain data for a run's record.

A part is a frozen dataclass; each setting declares its default and what is allowed in one line. `part`
registers its kind by its class name, which is what recorded runs say.
"""

import math
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, dataclass_transform

from fedstas import errors
from fedstas.errors import InputError, check_choice, check_float, check_int

CONFIG_CLASSES: dict[str, Any] = {}  # by the name that recorded runs have
# Classes that were renamed after runs were recorded: their name now, and the name in recorded identities.
PERSISTED_NAMES = {"UpdateMemoryServer": "Remembering"}
USER_MODULE_PREFIX = "fedstas-own-"  # how the modules of files of one's own begin: two may have kinds of the same name
T = TypeVar("T")


def int_field(default: int, low: int = 1, high: float = math.inf, *, later=False) -> Any:
    """A setting that is a whole number in low..high."""
    return _setting(default, lambda name, value: check_int(name, value, low, high), later)


def float_field(
    default, low: float, high: float = math.inf, *, optional=False, later=False, **ends
) -> Any:
    """A setting that is a number in (low, high], or with other `ends` (see `errors.real`), or None."""

    def check(name: str, value) -> float | None:
        return None if optional and value is None else check_float(name, value, low, high, **ends)

    return _setting(default, check, later)


def choice_field(default: str, *others: str, later=False) -> Any:
    """A setting that is one of these words; the first is the default."""
    allowed = dict.fromkeys((default, *others))

    def check(name: str, value) -> str:
        check_choice(name, value, allowed)
        return str(value)

    return _setting(default, check, later)


def bool_field(default: bool, *, later=False) -> Any:
    """A setting that is True or False."""
    return _setting(default, errors.check_bool, later)


def _setting(default, check, later: bool) -> Any:
    """`check(name, value)` returns the value as a plain bool, int, float or str: equal settings are
    one run. `later`: it came after runs were recorded, and enters an identity only where it differs from
    its default, so that those keep theirs."""
    return field(default=default, metadata={"check": check, "later": later})


@dataclass_transform(frozen_default=True)
def config(kind: type[T]) -> type[T]:
    """A frozen dataclass whose settings are checked, and made plain, when it is made; registered by
    its name."""
    own = kind.__dict__.get("__post_init__")

    def check(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if "check" in f.metadata:
                object.__setattr__(self, f.name, f.metadata["check"](f.name, value))
            elif is_dataclass(f.default) and not isinstance(value, type(f.default)):
                wanted = type(f.default).__name__
                raise InputError(f"{f.name} is {value!r}: it must be of kind {wanted}")
        if own is not None:
            own(self)

    kind.__post_init__ = check  # type: ignore[attr-defined]  # dataclass calls it
    if kind.__module__.startswith(USER_MODULE_PREFIX):
        return dataclass(frozen=True)(kind)
    name = persisted_name(kind)
    other = CONFIG_CLASSES.get(name, kind).__module__
    if other != kind.__module__:
        raise InputError(f"{other} has a part {name} already: take another name")
    CONFIG_CLASSES[name] = made = dataclass(frozen=True)(kind)
    return made


def persisted_name(kind: type) -> str:
    """The name of a configuration class in recorded identities."""
    return PERSISTED_NAMES.get(kind.__name__, kind.__name__)


def to_dict(value) -> dict:
    """A part with all its settings, as plain data."""
    return {"is": persisted_name(type(value))} | _plain(value)


def _plain(value) -> dict:
    told = {}
    for f in fields(value):
        setting = getattr(value, f.name)
        if not (f.metadata.get("later") and setting == f.default):
            told[f.name] = _plain(setting) if is_dataclass(setting) else setting
    return told


def from_dict(data: dict, kind=None):
    """The part that `to_dict` wrote down, of a `kind` or of the one that is registered by its name;
    `InputError` if none is."""
    given = dict(data)
    named = CONFIG_CLASSES.get(given.pop("is"))
    kind = kind or named
    if kind is None:
        raise InputError(f"a recorded method names an unknown part {data['is']!r}")
    for f in fields(kind):
        if is_dataclass(f.default) and f.name in given:  # a design that another one repairs
            inner: Any = type(f.default)
            given[f.name] = inner(**given[f.name])
    return kind(**given)


def settings(value) -> dict:
    """The settings of a part by name, with those of a part inside it."""
    found: dict[str, Any] = {}
    for f in fields(value):
        setting = getattr(value, f.name)
        found |= settings(setting) if is_dataclass(setting) else {f.name: setting}
    return found


def with_settings(value, given: dict):
    """The part with those of its settings that `given` names, in a part inside it too."""
    new = {f.name: given[f.name] for f in fields(value) if f.name in given}
    for f in fields(value):
        if is_dataclass(inside := getattr(value, f.name)):
            new[f.name] = with_settings(inside, given)
    return replace(value, **new)
