"""Tasks from data of the user's: from arrays, a table, or a folder of images.

Data that do not fit are refused before training; the message names the place to correct.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from fedstas.errors import InputError
from fedstas.sim.csv_files import read_rows, to_names
from fedstas.sim.tasks import KEYS, TEST_EVERY, Task, check_tensors, tensors_digest


def from_arrays(
    x, y, test_x=None, test_y=None, *, users=None, documents: bool = False, network: str = ""
) -> Task:
    """Make a task of training and test examples.

    Args:
        x: examples [n, ...]; bytes are scaled to [0, 1], other numbers are taken as they are.
        y: labels int [n], from 0 on.
        test_x: test examples, as x; without any, every fifth example of each class is one.
        test_y: their labels.
        users: the user of each training example [n], numbers or words, for partition `natural`.
        documents: whether x are tokens [n, length], with 0 for padding.
        network: as in `tasks.load`.

    Raises:
        InputError: the data do not fit together, or `tasks.check_tensors` refuses them.
    """
    x, y, users = np.asarray(x), np.asarray(y), None if users is None else np.asarray(users)
    for name, values in (("y", y), ("users", users)):
        if values is not None and (values.ndim != 1 or len(values) != len(x)):
            raise InputError(
                f"{name} has shape {values.shape}: it must be one for each of {len(x)}"
            )
    for row, user in enumerate([] if users is None else users.tolist()):
        if user is None or user != user or (isinstance(user, int) and user < 0):  # an empty cell
            raise InputError(f"users is {user} in row {row}: name users by words, or from 0 on")
    if (test_x is None) != (test_y is None):
        raise InputError("a test set is test_x and test_y: give both, or neither")
    if test_x is None:
        rank = np.zeros(len(y), dtype=int)  # of an example within its class
        for label in np.unique(y):
            rank[y == label] = np.arange((y == label).sum())
        is_test = rank % TEST_EVERY == TEST_EVERY - 1
        x, y, test_x, test_y = x[~is_test], y[~is_test], x[is_test], y[is_test]
        users = None if users is None else users[~is_test]
    tensors: dict = {}
    for key, value in zip(KEYS, (x, y, test_x, test_y), strict=True):
        array = np.asarray(value)
        if array.dtype.kind not in "fiub" or (key.endswith("y") and array.dtype.kind not in "iu"):
            kind = "whole numbers from 0 on" if key.endswith("y") else "numbers"
            raise InputError(f"{key} is an array of {array.dtype}: it must be one of {kind}")
        integers = key.endswith("y") or documents
        with np.errstate(over="ignore"):  # what is too large is refused as not finite
            converted = array.astype(np.int64 if integers else np.float32)
        tensors[key] = torch.from_numpy(np.ascontiguousarray(converted))
        if array.dtype == np.uint8 and not integers:
            tensors[key] /= 255
    if users is not None:
        users = np.unique(users, return_inverse=True)[1].astype(np.int64)
    classes = 1 + max(int(tensors[k].max()) if len(tensors[k]) else 0 for k in KEYS[1::2])
    check_tensors(**tensors, classes=classes, users=users)
    digest = tensors_digest(tensors, users)
    return Task("arrays", **tensors, classes=classes, digest=digest, network=network, users=users)


def from_csv(path, label: str, test=None, *, client: str | None = None, network: str = "") -> Task:
    """Make a task of a table with a header.

    Args:
        path: the table. Its columns other than `label` and `client` are numbers, scaled so that the training
            rows go from -1 to 1.
        label: the column of the classes, words or numbers; classes are numbered in their order.
        test: a table with the same columns; without one, see `from_arrays`.
        client: the column that names the client of each row.
        network: as in `tasks.load`.
    """
    tables = [_read(path, label, client), *([] if test is None else [_read(test, label, client)])]
    header, x, labels, users, _ = tables[0]
    classes = np.unique(labels)
    for place, (columns, _, names, _, lines) in zip((path, test), tables, strict=False):
        if columns != header:
            raise InputError(
                f"{place} has the columns {', '.join(columns)}, not {', '.join(header)}"
            )
        unknown = np.flatnonzero(~np.isin(names, classes))
        if len(unknown):
            reason = f"no training row has the class {names[unknown[0]]}"
            raise InputError(f"{place} line {lines[unknown[0]]}: {reason}")
    y = [np.searchsorted(classes, names) for _, _, names, *_ in tables]
    task = from_arrays(x, y[0], *((tables[1][1], y[1]) if test else ()), users=users)
    low, high = task.train_x.amin(0), task.train_x.amax(0)
    width = torch.where(high > low, high - low, 1.0)
    tensors = {k: getattr(task, k) for k in KEYS}
    tensors |= {k: 2 * (tensors[k] - low) / width - 1 for k in KEYS[::2]}
    digest = tensors_digest(tensors, task.users)
    return replace(task, **tensors, digest=digest, network=network)


def _read(path, label: str, client: str | None):
    """Read a table: its columns of numbers, their values float64 [n, d], its labels, clients and line
    numbers [n]."""
    rows = read_rows(path, label, *([client] if client else []))
    header = [name for name in rows[0][1] if name not in (label, client)]
    values = np.empty((len(rows), len(header)))
    for i, (line, row) in enumerate(rows):
        for j, name in enumerate(header):
            try:
                values[i, j] = float(row[name])
            except (TypeError, ValueError):
                values[i, j] = np.nan
            if not np.isfinite(values[i, j]):
                reason = f"column {name} is {row[name]!r}: it must be a number"
                raise InputError(f"{path} line {line}: {reason}")
    users = to_names([row[client] for _, row in rows]) if client else None
    labels = to_names([row[label] for _, row in rows])
    return header, values, labels, users, [line for line, _ in rows]


def from_folder(path, size: int = 32, *, network: str = "") -> Task:
    """Make a task of a folder of images as torchvision lays it out: FOLDER/CLASS/IMAGE, or FOLDER/train and
    FOLDER/test with the same classes in each.

    Images are in colour, resized to size x size pixels and scaled to [-1, 1].
    """
    from torchvision.datasets import ImageFolder

    def read(place: Path):
        """Read the names of the classes, the images [n, 3, size, size] and the labels of one folder."""
        try:
            images = ImageFolder(str(place))
            pixels = [np.asarray(im.convert("RGB").resize((size, size))) for im, _ in images]
        except (
            OSError,
            ValueError,
        ) as error:  # no such folder, no class in it, or a file that is no image
            raise InputError(f"{place} is no folder of images by class: {error}") from error
        x = np.stack(pixels).transpose(0, 3, 1, 2)
        return images.classes, x.astype(np.float32) / 127.5 - 1, np.array(images.targets)

    train, test = Path(path) / "train", Path(path) / "test"
    if not (train.is_dir() and test.is_dir()):
        return from_arrays(*read(Path(path))[1:], network=network)
    (classes, x, y), (test_classes, test_x, test_y) = read(train), read(test)
    if test_classes != classes:
        raise InputError(
            f"{test} has the classes {', '.join(test_classes)}, not {', '.join(classes)}"
        )
    return from_arrays(x, y, test_x, test_y, network=network)
