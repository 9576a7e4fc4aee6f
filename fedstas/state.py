"""What a design or a server optimiser remembers from round to round: declared, typed state.

The class declares it as `State`, a dataclass whose fields have defaults, and gets it from its view:

    @dataclass
    class Turn:
        next: int = 0

    @dataclass(frozen=True)
    class RoundRobin:
        State = Turn

        def draw(self, view, m, rng):
            turn = view.state_of(self)  # made at first use, the same one in every later round
            chosen = (turn.next + np.arange(m)) % view.clients
            turn.next += m
            return Cohort(chosen, np.full(m, 1 / m))

A view has one state of each class. So a design that draws with two others, of one class and of different settings,
cannot let both remember something: an `InputError` says so. Give one of them a state class of its own:

    @dataclass
    class OtherState(StrataState):
        pass

    @dataclass(frozen=True)
    class OtherStratified(Stratified):
        State = OtherState

There are two kinds of fields. A field `strata: Renewed[Strata] = renewed()` holds a value that is computed once every so
many rounds and is not modified in between. Any other field may change in every draw. `fedstas variance` and
`fedstas audit` draw many cohorts of one round, and reset these other fields before each draw.

So that a run can be stored and continued, fields hold None, numbers, text, arrays, tensors, lists, tuples and dicts of
these, and dataclasses that their annotations name. `to_plain` converts them to plain data, `from_plain` back.
"""

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from fedstas.errors import InputError

T = TypeVar("T")

# While a design draws: the design, or part of it, that asked first for a state, by the states' id and state class.
_first_owners: ContextVar[dict[tuple[int, type], Any] | None] = ContextVar(
    "first_owners", default=None
)


@dataclass
class Renewed(Generic[T]):
    """A value that is computed once every so many rounds, and the round in which that was last done."""

    value: T | None = None
    round: int | None = None  # None: not computed yet

    def get(self, now: int, every: int | None, compute: Callable[[], T]) -> T:
        """Return the value in round `now`; compute it anew if it is `every` rounds old (None: only the first time)."""
        if self.round is None or (every is not None and now - self.round >= every):
            self.value, self.round = compute(), now
        return self.value  # type: ignore[return-value]


def renewed() -> Any:
    """Declare a `Renewed` field of a state."""
    return field(default_factory=Renewed)


def per_client() -> Any:
    """Declare a field of a state that is None or an array with one row for each client, [N, ...].

    If clients leave or join, the rows follow their clients (see `move_clients`).
    """
    return field(default=None, metadata={"per_client": True})


def new_state(owner) -> Any:
    """Make a new `State` of a design or server optimiser; `InputError` if it declares none or one without defaults."""
    kind, name = getattr(owner, "State", None), type(owner).__name__
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise InputError(
            f"{name} asks for its state and declares none: give it a class attribute `State`, a dataclass"
        )
    missing = [f.name for f in fields(kind) if f.init and f.default is f.default_factory is MISSING]
    if missing:
        raise InputError(f"{name}.State has no default for {missing[0]}: give every field one")
    return kind()


def state_of(states: dict[type, Any], owner) -> Any:
    """Return the state of a design from `states`; it is made and stored there at first use.

    States are stored by their class, so that designs that declare the same class share one state. `InputError` if two
    designs of one class, whose settings differ, ask for it during one draw (see `one_draw`).
    """
    kind: Any = getattr(owner, "State", None)
    if kind not in states:
        states[kind] = new_state(owner)
    owners = _first_owners.get()
    first = owner if owners is None else owners.setdefault((id(states), kind), owner)
    if first is not owner and type(first) is type(owner):
        before, now = (re.sub(r" at 0x[0-9a-fA-F]+", "", repr(each)) for each in (first, owner))
        if before != now:
            raise InputError(
                f"{before} and {now} would remember one and the same {kind.__name__}: make one of them of a subclass, "
                "whose State is another class"
            )
    return states[kind]


@contextmanager
def one_draw() -> Iterator[None]:
    """Let no two designs of one class and of different settings share a state in this context, the draw of a cohort.

    Settings are compared by `repr`, as a dataclass has it. Designs that draw one after another are not compared: they
    may share a state on purpose.
    """
    token = None if _first_owners.get() is not None else _first_owners.set({})
    try:
        yield
    finally:
        if token is not None:
            _first_owners.reset(token)


def copy_draw_fields(states: dict[type, Any]) -> dict[type, dict[str, Any]]:
    """Copy all fields of the states that a draw may change, by state class and field name."""
    return {kind: copy.deepcopy(_draw_fields(state)) for kind, state in states.items()}


def reset_draw_fields(states: dict[type, Any], saved: dict[type, dict[str, Any]]) -> None:
    """Set all fields that a draw may change back to what `copy_draw_fields` has `saved`.

    States that were made after that get their default values.
    """
    for kind, state in states.items():
        values = saved[kind] if kind in saved else _draw_fields(kind())
        for name, value in values.items():
            setattr(state, name, copy.deepcopy(value))


def copy_states(states: dict[type, Any]) -> dict[type, Any]:
    """Copy the states of designs. Values of `Renewed` fields are shared with the copy, since they are not modified."""
    copies = {kind: copy.copy(state) for kind, state in states.items()}
    for state in copies.values():
        for f in fields(state):
            value = getattr(state, f.name)
            is_renewed = isinstance(value, Renewed)
            setattr(state, f.name, copy.copy(value) if is_renewed else copy.deepcopy(value))
    return copies


def _draw_fields(state) -> dict[str, Any]:
    """Return the fields of a state that a draw may change, all but the `Renewed` ones, by name."""
    values = {f.name: getattr(state, f.name) for f in fields(state)}
    return {name: value for name, value in values.items() if not isinstance(value, Renewed)}


def move_clients(state, before: Sequence[int], now: Sequence[int]) -> None:
    """Rearrange the `per_client` rows of a state, in place, when the clients have changed.

    Args:
        before: the clients of the rows so far.
        now: the clients of the rows after the call; a new client gets a row of zeros.
    """
    place_of = {client: place for place, client in enumerate(before)}
    places = [place_of.get(client, -1) for client in now]
    for f in fields(state) if is_dataclass(state) else ():
        rows = getattr(state, f.name)
        if f.metadata.get("per_client") and rows is not None:
            rows = rows[places]
            rows[[place for place, old in enumerate(places) if old < 0]] = 0
            setattr(state, f.name, rows)


def declared_classes(kind) -> set[type]:
    """Return a state class and all dataclasses that the annotations of its fields name, directly or indirectly."""
    classes: set[type] = set()

    def add(hint) -> None:
        """Add the dataclasses that an annotation names, with those of their fields."""
        origin = get_origin(hint) or hint
        if isinstance(origin, type) and is_dataclass(origin) and origin not in classes:
            classes.add(origin)
            try:
                hints = get_type_hints(origin)
            except NameError as error:
                raise InputError(f"a field of {origin.__name__}: {error}") from None
            for field_hint in hints.values():
                add(field_hint)
        for argument in get_args(hint):
            add(argument)

    add(kind)
    return classes


def classes_of_parts(*parts) -> set[type]:
    """Return the state classes that designs and server optimisers declare, and designs that are their fields."""
    classes: set[type] = set()
    for part in parts:
        classes |= declared_classes(getattr(part, "State", None))
        if is_dataclass(part):
            classes |= classes_of_parts(*(getattr(part, f.name) for f in fields(part)))
    return classes


class OtherVersion(InputError):
    """A file, checkpoint or state was written by another version of fedstas."""

    def __init__(self, reason: str):
        super().__init__(f"it was written by another version of fedstas ({reason})")


def class_name(kind: type) -> str:
    """Return the name of a state class in files."""
    return f"{kind.__module__}:{kind.__qualname__}"


def to_plain(value, classes: Iterable[type], store: Callable[[Any], dict | None]):
    """Convert a value to plain data, as JSON has them.

    Args:
        value: None, a bool, number, text, what `store` takes, a list, tuple or dict of these, or a dataclass of
            `classes` with such fields. Types are exact: a subclass would be restored as another type.
        classes: the dataclasses that may occur; a class itself may be the key of a dict.
        store: `store(value)` returns an array or the like as a dict of one entry, whose key is not the name of another
            kind; None for a value that it does not take.

    Raises:
        InputError: the value holds something else.
    """
    names = {kind: class_name(kind) for kind in classes}

    def plain(value):
        """Return a value as plain data; what JSON lacks is a dict of one entry, from its kind to its content."""
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if (stored := store(value)) is not None:
            return stored
        if kind is list or kind is tuple:
            return {kind.__name__: [plain(v) for v in value]}
        if kind is dict:
            return {"dict": [[plain(k), plain(v)] for k, v in value.items()]}
        if isinstance(value, type) and value in names:
            return {"class": names[value]}
        if kind in names:
            return {names[kind]: plain({f.name: getattr(value, f.name) for f in fields(kind)})}
        hint = "" if not is_dataclass(kind) else ": name it in the annotation of its field"
        raise InputError(
            f"a state holds a {kind.__name__}, which no file can store{hint}: it may hold numbers, text, arrays "
            "and tensors, lists, tuples and dicts of these, and dataclasses that annotations of fields name"
        )

    return plain(value)


def from_plain(plain, classes: Iterable[type], restore: dict[str, Callable[[Any], Any]]) -> Any:
    """Convert plain data back to the value that `to_plain` was given.

    `restore[key]` restores what `store` returned under this key. `OtherVersion` if the data contain a class that is not
    among `classes`, or that has other fields now.
    """
    by_name = {class_name(kind): kind for kind in classes}

    def value(plain):
        """Return the value of plain data, as the function `plain` of `to_plain` makes them."""
        if not isinstance(plain, dict):
            return plain
        ((kind, content),) = plain.items()
        if kind in restore:
            return restore[kind](content)
        if kind in ("list", "tuple"):
            values = [value(v) for v in content]
            return values if kind == "list" else tuple(values)
        if kind == "dict":
            return {value(k): value(v) for k, v in content}
        name = content if kind == "class" else kind
        if name not in by_name:
            raise OtherVersion(f"it holds a {name}, which its method does not declare")
        if kind == "class":
            return by_name[name]
        try:
            return by_name[name](**value(content))
        except TypeError:
            raise OtherVersion(f"its {name} has other fields") from None

    return value(plain)
