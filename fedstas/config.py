"""Configuration dataclasses: the parts of methods; they check their settings and convert to plain data and back.

A class under `@config` is a frozen dataclass; each of its fields declares a default and the allowed values in one
line, by `int_field`, `float_field`, `choice_field` or `bool_field`. `to_dict` writes an instance as recorded
identities hold it, with the name of its class, and `from_dict` reads it back.
"""

import math
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, dataclass_transform

from fedstas import errors
from fedstas.errors import InputError, check_choice, check_float, check_int

CONFIG_CLASSES: dict[str, Any] = {}  # by name in recorded identities
# Classes that were renamed after runs were recorded: their name now, and their name in recorded identities.
PERSISTED_NAMES = {"UpdateMemoryServer": "Remembering"}
# Begins the name of each module that is made from a user's file. Classes of such modules are not registered,
# since two files may have classes of the same name.
USER_MODULE_PREFIX = "fedstas-own-"
T = TypeVar("T")


def int_field(
    default: int | None, low: int = 1, high: float = math.inf, *, optional=False, later=False
) -> Any:
    """Declare a field that is a whole number in low..high, or if `optional` None.

    `later`: the field was added after runs were recorded (see `_field`).
    """

    def check(name: str, value) -> int | None:
        return None if optional and value is None else check_int(name, value, low, high)

    return _field(default, check, later)


def float_field(
    default, low: float, high: float = math.inf, *, optional=False, later=False, **ends
) -> Any:
    """Declare a field that is a number in (low, high], or if `optional` None; `ends` as in `errors.check_float`.

    `later`: the field was added after runs were recorded (see `_field`).
    """

    def check(name: str, value) -> float | None:
        return None if optional and value is None else check_float(name, value, low, high, **ends)

    return _field(default, check, later)


def choice_field(default: str, *others: str, later=False) -> Any:
    """Declare a field that is one of these words; the first is the default.

    `later`: the field was added after runs were recorded (see `_field`).
    """
    allowed = dict.fromkeys((default, *others))

    def check(name: str, value) -> str:
        check_choice(name, value, allowed)
        return str(value)

    return _field(default, check, later)


def bool_field(default: bool, *, later=False) -> Any:
    """Declare a field that is True or False; `later`: it was added after runs were recorded (see `_field`)."""
    return _field(default, errors.check_bool, later)


def _field(default, check, later: bool) -> Any:
    """Declare a field of a configuration dataclass.

    Args:
        default: its default.
        check: `check(name, value)` returns the value as a plain bool, int, float or str, so that equal settings
            have equal identities, or raises an `InputError`.
        later: whether the field was added after runs were recorded; it is left out of identities at its default,
            so that recorded ones stay as they are.
    """
    return field(default=default, metadata={"check": check, "later": later})


@dataclass_transform(frozen_default=True)
def config(kind: type[T]) -> type[T]:
    """Make a class a configuration dataclass: frozen, its fields checked and converted to plain values when an
    instance is made, and registered by its name. A `__post_init__` of the class runs after these checks."""
    post_init = kind.__dict__.get("__post_init__")

    def check(self) -> None:
        """Check and convert every field, then run the `__post_init__` of the class."""
        for f in fields(self):
            value = getattr(self, f.name)
            if "check" in f.metadata:
                object.__setattr__(self, f.name, f.metadata["check"](f.name, value))
            elif is_dataclass(f.default) and not isinstance(value, type(f.default)):
                expected = type(f.default).__name__
                raise InputError(f"{f.name} is {value!r}: it must be of kind {expected}")
        if post_init is not None:
            post_init(self)

    kind.__post_init__ = check  # type: ignore[attr-defined]  # dataclass calls it
    if kind.__module__.startswith(USER_MODULE_PREFIX):
        return dataclass(frozen=True)(kind)
    name = persisted_name(kind)
    other = CONFIG_CLASSES.get(name, kind).__module__
    if other != kind.__module__:
        raise InputError(f"{other} has a configuration class {name} already: take another name")
    CONFIG_CLASSES[name] = dataclass(frozen=True)(kind)
    return CONFIG_CLASSES[name]


def persisted_name(kind: type) -> str:
    """Return the name by which recorded runs know a configuration class; a renamed class keeps its old one there."""
    return PERSISTED_NAMES.get(kind.__name__, kind.__name__)


def to_dict(value) -> dict:
    """Return a configuration dataclass as plain data, with the name of its class under "is"."""
    return {"is": persisted_name(type(value))} | _fields_to_dict(value)


def _fields_to_dict(value) -> dict:
    """Return the settings by name; a nested configuration becomes a dict of its own settings.

    A field declared `later` is left out while it has its default, so that recorded identities stay as they are.
    """
    result = {}
    for f in fields(value):
        setting = getattr(value, f.name)
        if not (f.metadata.get("later") and setting == f.default):
            result[f.name] = _fields_to_dict(setting) if is_dataclass(setting) else setting
    return result


def from_dict(data: dict, kind=None):
    """Make the configuration dataclass again that `to_dict` wrote.

    Its class is `kind`, by default the one registered under the name in `data`; `InputError` if none is.
    """
    values = dict(data)
    registered = CONFIG_CLASSES.get(values.pop("is"))
    kind = kind or registered
    if kind is None:
        raise InputError(f"a recorded method names an unknown part {data['is']!r}")
    for f in fields(kind):
        if is_dataclass(f.default) and f.name in values:  # a nested configuration
            inner: Any = type(f.default)
            values[f.name] = inner(**values[f.name])
    return kind(**values)


def settings(value) -> dict:
    """Return the settings of a configuration dataclass by name, those of nested configurations among them."""
    result: dict[str, Any] = {}
    for f in fields(value):
        setting = getattr(value, f.name)
        result |= settings(setting) if is_dataclass(setting) else {f.name: setting}
    return result


def with_settings(value, changes: dict):
    """Return a copy with `changes` applied, to nested configurations too; names that are no field are ignored."""
    new = {f.name: changes[f.name] for f in fields(value) if f.name in changes}
    for f in fields(value):
        if is_dataclass(nested := getattr(value, f.name)):
            new[f.name] = with_settings(nested, changes)
    return replace(value, **new)
