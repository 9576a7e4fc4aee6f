"""Data, clients and networks of one's own: a task from arrays, a table or a folder of images, and who holds what.

What does not fit is refused with the place to mend, before anything trains.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from fedstas import user_code
from fedstas.errors import InputError
from fedstas.sim import partition, tasks
from fedstas.sim.tasks import Task

EVERY = 5  # where no test set is given, it is every fifth example of each class


def from_arrays(
    x, y, test_x=None, test_y=None, *, users=None, documents: bool = False, network: str = ""
) -> Task:
    """The task of examples x [n, ...] with labels y int [n] from 0 on, and of a test set alike.

    Bytes are scaled to [0, 1], other numbers are taken as they are; `documents` are tokens [n, length], 0
    for padding. Without a test set it is every fifth example of each class, in their order. `users` [n]:
    whose each example is, numbers or words, for partition `natural`. `InputError` as `check` says.
    """
    x, y, users = np.asarray(x), np.asarray(y), None if users is None else np.asarray(users)
    for name, each in (("y", y), ("users", users)):
        if each is not None and (each.ndim != 1 or len(each) != len(x)):
            raise InputError(f"{name} has shape {each.shape}: it must be one for each of {len(x)}")
    for row, user in enumerate([] if users is None else users.tolist()):
        if user is None or user != user or (isinstance(user, int) and user < 0):  # an empty cell
            raise InputError(f"users is {user} in row {row}: name users by words, or from 0 on")
    if (test_x is None) != (test_y is None):
        raise InputError("a test set is test_x and test_y: give both, or neither")
    if test_x is None:
        rank = np.zeros(len(y), dtype=int)
        for label in np.unique(y):
            rank[y == label] = np.arange((y == label).sum())
        held = rank % EVERY == EVERY - 1
        x, y, test_x, test_y = x[~held], y[~held], x[held], y[held]
        users = None if users is None else users[~held]
    found: dict = {}
    for key, value in zip(tasks.KEYS, (x, y, test_x, test_y), strict=True):
        array = np.asarray(value)
        if array.dtype.kind not in "fiub" or (key.endswith("y") and array.dtype.kind not in "iu"):
            kind = "whole numbers from 0 on" if key.endswith("y") else "numbers"
            raise InputError(f"{key} is an array of {array.dtype}: it must be one of {kind}")
        tokens = key.endswith("y") or documents
        with np.errstate(over="ignore"):  # what is too large is refused as not finite
            kept = array.astype(np.int64 if tokens else np.float32)
        found[key] = torch.from_numpy(np.ascontiguousarray(kept))
        if array.dtype == np.uint8 and not tokens:
            found[key] /= 255
    if users is not None:
        users = np.unique(users, return_inverse=True)[1].astype(np.int64)
    classes = 1 + max(int(found[k].max()) if len(found[k]) else 0 for k in tasks.KEYS[1::2])
    check(**found, classes=classes, users=users)
    digest = _digest(found, users)
    return Task("arrays", **found, classes=classes, digest=digest, network=network, users=users)


def from_csv(path, label: str, test=None, *, client: str | None = None, network: str = "") -> Task:
    """The task of a table with a header: `label` names the column of the classes (words or numbers, classes in
    their order), `client` that of whose each row is, and all other columns are numbers, scaled so that the
    training rows go from -1 to 1. `test` is a table alike; without it, see `from_arrays`."""
    tables = [_read(path, label, client), *([] if test is None else [_read(test, label, client)])]
    head, x, labels, users, _ = tables[0]
    names = np.unique(labels)
    for place, (other, _, given, _, lines) in zip((path, test), tables, strict=False):
        if other != head:
            raise InputError(f"{place} has the columns {', '.join(other)}, not {', '.join(head)}")
        strange = np.flatnonzero(~np.isin(given, names))
        if len(strange):
            said = f"no training row has the class {given[strange[0]]}"
            raise InputError(f"{place} line {lines[strange[0]]}: {said}")
    y = [np.searchsorted(names, given) for _, _, given, *_ in tables]
    made = from_arrays(x, y[0], *((tables[1][1], y[1]) if test else ()), users=users)
    low, high = made.train_x.amin(0), made.train_x.amax(0)
    width = torch.where(high > low, high - low, 1.0)
    found = {k: getattr(made, k) for k in tasks.KEYS}
    found |= {k: 2 * (found[k] - low) / width - 1 for k in tasks.KEYS[::2]}
    return replace(made, **found, digest=_digest(found, made.users), network=network)


def _read(path, label: str, client: str | None):
    """A table's columns of numbers, their values float64 [n, d], its labels, clients and lines [n]."""
    rows = _rows(path, label, *([client] if client else []))
    head = [name for name in rows[0][1] if name not in (label, client)]
    values = np.empty((len(rows), len(head)))
    for i, (line, row) in enumerate(rows):
        for j, name in enumerate(head):
            try:
                values[i, j] = float(row[name])
            except (TypeError, ValueError):
                values[i, j] = np.nan
            if not np.isfinite(values[i, j]):
                said = f"column {name} is {row[name]!r}: it must be a number"
                raise InputError(f"{path} line {line}: {said}")
    users = _numbered([row[client] for _, row in rows]) if client else None
    labels = _numbered([row[label] for _, row in rows])
    return head, values, labels, users, [line for line, _ in rows]


def _rows(path, *needed: str) -> list[tuple[int, dict]]:
    """A table's rows with their lines; `InputError` where a needed column, or a value in it, is missing."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            rows = [(table.line_num, row) for row in table]
            head = table.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a table: {error}") from error
    if not rows:
        raise InputError(f"{path} has no rows under its header")
    if twice := [name for k, name in enumerate(head) if name in head[:k]]:
        raise InputError(f"{path} has the column {twice[0]} twice: give each a name of its own")
    if long := [line for line, row in rows if None in row]:  # there csv puts what is too much
        said = f"more values than the {len(head)} columns: put one with a comma in quotes"
        raise InputError(f"{path} line {long[0]} has {said}")
    for name in needed:
        if name not in rows[0][1]:
            raise InputError(f"{path} has no column {name}: it has {', '.join(rows[0][1])}")
        for line, row in rows:
            if not (row[name] or "").strip():
                raise InputError(f"{path} line {line}: column {name} is empty")
    return rows


def _numbered(words: Sequence[str]) -> np.ndarray:
    """Words as numbers if all of them are whole ones, so that 9 comes before 10."""
    found = np.array([word.strip() for word in words])
    try:
        return found.astype(np.int64)
    except ValueError:
        return found


def from_folder(path, size: int = 32, *, network: str = "") -> Task:
    """The task of a folder of images as torchvision has them: FOLDER/CLASS/IMAGE, or FOLDER/train and FOLDER/test
    with the same classes in each; in colour, scaled to size x size pixels and to [-1, 1]."""
    from torchvision.datasets import ImageFolder

    def read(place: Path):
        try:
            images = ImageFolder(str(place))
            pixels = [np.asarray(im.convert("RGB").resize((size, size))) for im, _ in images]
        except (OSError, ValueError) as error:  # no folder, no class, an image that is none
            raise InputError(f"{place} is no folder of images by class: {error}") from error
        x = np.stack(pixels).transpose(0, 3, 1, 2)
        return images.classes, x.astype(np.float32) / 127.5 - 1, np.array(images.targets)

    train, test = Path(path) / "train", Path(path) / "test"
    if not (train.is_dir() and test.is_dir()):
        return from_arrays(*read(Path(path))[1:], network=network)
    (classes, x, y), (others, test_x, test_y) = read(train), read(test)
    if others != classes:
        said = f"{', '.join(others)}, not {', '.join(classes)}"
        raise InputError(f"{test} has the classes {said}")
    return from_arrays(x, y, test_x, test_y, network=network)


def check(train_x, train_y, test_x, test_y, classes: int, users=None) -> None:
    """`InputError` unless these tensors are a task: examples of one shape and finite, labels of 0..classes - 1, a
    test set with every class, and a user for each training example if there are any."""
    for split, x, y in (("train", train_x, train_y), ("test", test_x, test_y)):
        if not all(isinstance(each, torch.Tensor) for each in (x, y)):
            raise InputError(f"{split}_x and {split}_y must be tensors: from_arrays makes them")
        if x.dtype not in (torch.float32, torch.int64) or y.dtype != torch.int64 or y.ndim != 1:
            said = f"{x.dtype} and {y.dtype} with {y.ndim} axes"
            raise InputError(
                f"{split}_x and {split}_y are {said}: x must be float32 (documents: int64), y int64 [n]"
            )
        if not x.numel() or len(x) != len(y) or x.ndim < 2:
            said = f"shape {tuple(x.shape)}, {split}_y {tuple(y.shape)}"
            raise InputError(f"{split}_x has {said}: they must be [n, ...] and [n], none empty")
        if x.dtype != train_x.dtype or x.shape[1:] != train_x.shape[1:]:
            said = f"{tuple(x.shape[1:])}, one of train_x {tuple(train_x.shape[1:])}"
            raise InputError(f"an example of {split}_x is {x.dtype} {said}: they must be alike")
        wrong = (~x.isfinite().flatten(1).all(1)).nonzero()
        if len(wrong):
            raise InputError(f"{split}_x has a value that is not finite in row {int(wrong[0])}")
        wrong = ((y < 0) | (y >= classes)).nonzero()
        if len(wrong):
            row = int(wrong[0])
            said = f"the label {int(y[row])} in row {row}"
            raise InputError(f"{split}_y has {said}: it must be of 0..{classes - 1}")
    if classes < 2:
        raise InputError("all examples are of one class: there must be two to be told apart")
    if len(known := set(test_y.tolist())) < classes:
        missing = next(label for label in range(classes) if label not in known)
        raise InputError(
            f"the test set has no example of class {missing}: accuracy by class needs one of each of "
            f"0..{classes - 1} (where none is given, it is every {EVERY}th training example of a class)"
        )
    if users is not None and np.shape(users) != tuple(train_y.shape):
        raise InputError(f"users has shape {np.shape(users)}: one for each of {len(train_y)}")


def _digest(found: dict, users) -> str:
    arrays = {k: v.cpu().numpy() for k, v in found.items()}
    arrays |= {} if users is None else {"users": np.asarray(users)}
    return hashlib.sha256("".join(tasks._digests(arrays).values()).encode()).hexdigest()


def task(spec: str) -> Task:
    """The task that a function of a file returns; `InputError` that names file and line if it is none."""
    source = user_code.load_function(spec, "task")
    made = source()
    with user_code.user_code_errors("", source.place):
        if not isinstance(made, Task):
            said = f"{source.call.__name__}() returns {type(made).__name__}"
            raise InputError(f"{said}: it must return a Task, as user_data.from_arrays makes it")
        found = {k: getattr(made, k) for k in tasks.KEYS}
        check(**found, classes=made.classes, users=made.users)
    return replace(made, name=source.name, digest=_digest(found, made.users), source=source)


def try_network(task: Task) -> None:
    """`InputError` that names file and line unless the task's network is one that can be trained here: logits
    [n, classes], the same each time, each of its own example alone."""
    made = task.network
    assert isinstance(made, user_code.UserFunction)
    name, x = made.call.__name__, task.train_x[:32]
    with (
        user_code.user_code_errors(made.module, made.place),
        torch.no_grad(),
        torch.random.fork_rng(devices=[]),
    ):
        module = made.call(task)
        if not isinstance(module, torch.nn.Module) or not any(True for _ in module.parameters()):
            said = f"returns {type(module).__name__}"
            raise InputError(f"{name}(task) {said}: it must return a torch module with parameters")
        if why := _unfit(module, x, task.classes):
            raise InputError(f"the network of {name}(task) {why}")


def _unfit(module: torch.nn.Module, x: torch.Tensor, classes: int) -> str:
    """Why a network cannot be trained here, or nothing."""
    for name, p in module.named_parameters():
        if torch.nn.parameter.is_lazy(p):
            return f"has a lazy parameter {name}: give its layer its sizes"
        if p.dtype != torch.float32:
            return f"has a parameter {name} of {p.dtype}: it must be torch.float32"
        if not p.requires_grad:
            return f"has a frozen parameter {name}, and all are trained here: make it a buffer"
    module.to(x.device)
    logits, again, fewer = module(x), module(x), module(x[:2])
    fits = (len(x), classes)
    if not isinstance(logits, torch.Tensor) or tuple(logits.shape) != fits:
        shape = tuple(getattr(logits, "shape", ())) or type(logits).__name__
        return f"makes {shape} of {len(x)} examples: it must make {fits}, a number for each of the {classes} classes"
    if not torch.isfinite(logits).all():
        return "makes numbers that are not finite"
    if not torch.equal(logits, again):
        return "draws at random in its forward pass (dropout?): a run could not be made again"
    if not torch.allclose(logits[:2], fewer, rtol=1e-3, atol=1e-4):
        return "mixes the examples of a batch (batch normalisation?): use GroupNorm or LayerNorm"
    return ""


def dealt(spec: str, labels: np.ndarray, clients: int | None, sizes: str) -> partition.Federation:
    """The federation of a file that names the client of each training example, in their order: FILE.npy, whole
    numbers or words [n], or a column of a table. Clients are numbered in the order of their names."""
    file, table, column = user_code.TABLE.fullmatch(spec).groups()  # type: ignore[union-attr]
    path = Path(file or table)
    if not path.is_file():
        raise InputError(f"there is no file {path}: name a partition, FILE.npy or FILE.csv:COLUMN")
    if table:
        names = _numbered([row[column] for _, row in _rows(path, column)])
    else:
        try:
            with path.open("rb") as file:
                names = np.lib.format.read_array(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{path} is not an array of numbers or words: {error}") from error
    if names.ndim != 1 or names.dtype.kind not in "iuU":
        kind = f"{names.dtype} {names.shape}"
        raise InputError(f"{path} holds {kind}: it must be whole numbers or words, one an example")
    if names.dtype.kind == "i" and names.min(initial=0) < 0:
        raise InputError(f"{path} names a client {names.min()}: number from 0 on, or use words")
    if len(names) != len(labels):
        raise InputError(
            f"{path} names the clients of {len(names)} examples, and there are {len(labels)} training "
            "examples: name the client of each, in their order (if the table is the data, too: from_csv with "
            "client=, and partition natural)"
        )
    known, whose = np.unique(names, return_inverse=True)
    if clients not in (None, len(known)):
        raise InputError(f"clients is {clients}: {path} names {len(known)} clients")
    if sizes:
        raise InputError(f"sizes are of use only with dirichlet_fixed_size, not {path}")
    shards = [np.flatnonzero(whose == k) for k in range(len(known))]
    recipe = {
        "name": f"{path.name}:{column}" if table else path.name,
        "sha256": user_code.sha256(spec),
    }
    return partition.federation(labels, shards, **recipe)
