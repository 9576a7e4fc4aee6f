"""Tasks from files and objects of other libraries: torch's and Hugging Face's `Dataset`, LEAF's JSON, PFLlib's npz."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fedstas.arrays import as_array, as_names
from fedstas.errors import InputError, format_value
from fedstas.sim.csv_files import read_json
from fedstas.sim.tasks import Task
from fedstas.sim.user_arrays import from_arrays


def from_dataset(train, test=None, *, users=None, test_users=None, network: str = "") -> Task:
    """Make a task of datasets of torch or torchvision, whose items are pairs of a tensor and a label.

    Each item is read once, and kept in memory.

    Args:
        train: with a length, such as `torchvision.datasets.MNIST(root, transform=ToTensor())`.
        test: as train; without it, see `from_arrays`.
        users: the user of each training example [n], for partition `natural`.
        test_users: as in `from_arrays`.
        network: as in `tasks.load`.

    Raises:
        InputError: it has no length, an item is no such pair, or is another one when it is read again (augmentation).
    """
    splits = [_read_dataset("train", train)]
    splits += [] if test is None else [_read_dataset("test", test)]
    arrays = [part for split in splits for part in split]
    return from_arrays(*arrays, users=users, test_users=test_users, network=network)


def _read_dataset(name: str, dataset) -> tuple[np.ndarray, np.ndarray]:
    """Read the examples [n, ...] and labels [n] of a dataset."""
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")) or not len(dataset):
        raise InputError(f"{name} is a {type(dataset).__name__}: it must have a length, and items")
    examples: list[np.ndarray] = []
    labels: list = []
    for k in range(len(dataset)):
        item = dataset[k]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise InputError(f"{name}[{k}] is {format_value(item)}: it must be (example, label)")
        if hasattr(item[0], "convert") and hasattr(item[0], "mode"):
            raise InputError(
                f"{name}[{k}] has a PIL image: make tensors of images, as transform=ToTensor() does"
            )
        x, y = (np.asarray(part) for part in item)
        if y.size != 1 or x.dtype == object or (examples and x.shape != examples[0].shape):
            shapes = f"shapes {x.shape} and {y.shape}"
            reason = "an example must be a tensor of one shape, and have one label"
            raise InputError(f"{name}[{k}] has {shapes}: {reason} (transform=ToTensor()?)")
        examples.append(x)
        labels.append(y.item())
    if not np.array_equal(np.asarray(dataset[0][0]), examples[0]):
        raise InputError(f"{name}[0] is another each time it is read: leave out augmentation")
    return np.stack(examples), np.array(labels)


def from_hugging_face(
    data,
    label: str,
    x: str | Sequence[str],
    *,
    client: str | None = None,
    documents: bool = False,
    network: str = "",
) -> Task:
    """Make a task of a `Dataset` or `DatasetDict` of Hugging Face's library `datasets` (extra `datasets`).

    Images of 8 bits are scaled to [0, 1], in grey if all of them are; other columns are taken as they are. A column of
    `ClassLabel` has its own numbers; other classes are numbered in the order of their names.

    Args:
        data: a dataset, or its splits by name: `train`, and `test` or else `validation` as the test set. Without a test
            set, see `from_arrays`.
        label: the column of the classes.
        x: the column of the examples, images or arrays of one shape; or several columns of numbers.
        client: the column that names whose an example is, for partition `natural`.
        documents: whether x are tokens, as in `from_arrays`.
        network: as in `tasks.load`.

    Raises:
        InputError: names the split and the column that cannot be read.
    """
    train, test = _hugging_face_splits(data)
    splits = {"train": train} | ({} if test is None else {"test": test})
    names = [x] if isinstance(x, str) else [*x]
    examples, labels, users = {}, {}, {}
    for split, dataset in splits.items():
        columns = [_read_column(split, dataset, name) for name in names]
        for name, column in zip(names, columns, strict=True):
            if column.dtype.kind in "US":
                advice = "make numbers of them, or tokens and documents=True"
                raise InputError(f"{split}: column {name} holds words: {advice}")
        whole = len(columns) == 1 and columns[0].ndim > 1  # one column of arrays, else of numbers
        examples[split] = columns[0] if whole else np.stack(columns, 1)
        labels[split] = _read_column(split, dataset, label)
        if client is not None and (split == "train" or client in dataset.column_names):
            users[split] = list(dataset[client]) if client in dataset.column_names else None
    if client is not None and users["train"] is None:
        _read_column("train", train, client)  # raises: there is no such column
    if not hasattr(train.features.get(label), "names"):  # no ClassLabel
        named = {
            split: as_names(f"{split}: column {label}", y + 0 if y.dtype == bool else y)
            for split, y in labels.items()
        }
        classes = np.unique(named["train"])
        for split, each in named.items():
            if len(extra := np.setdiff1d(each, classes)):
                raise InputError(f"{split} has the class {extra[0]}, of which train has no example")
            labels[split] = np.searchsorted(classes, each)
    arrays = [part for split in splits for part in (examples[split], labels[split])]
    known = {"users": users.get("train"), "test_users": users.get("test")}
    return from_arrays(*arrays, **known, documents=documents, network=network)


def _hugging_face_splits(data) -> tuple:
    """Return the training set and the test set, or None, of a dataset or of its splits."""
    splits = dict(data) if isinstance(data, Mapping) else {"train": data}
    test = next((name for name in ("test", "validation") if name in splits), None)
    if "train" not in splits:
        raise InputError(f"the splits are {', '.join(splits)}: one must be named train")
    if others := [name for name in splits if name not in ("train", test)]:
        warnings.warn(f"{', '.join(others)} is left out", stacklevel=3)
    for name in ("train", test):
        dataset = splits.get(name)
        if name and not (hasattr(dataset, "column_names") and hasattr(dataset, "__len__")):
            advice = (
                "give one that is loaded, not streamed: Dataset.from_list(list(data.take(1000)))"
            )
            raise InputError(f"{name} is a {type(dataset).__name__}: {advice}")
    return splits["train"], splits.get(test)


def _read_column(split: str, dataset, name: str) -> np.ndarray:
    """Read a column of a dataset of Hugging Face, [n, ...]; images become bytes [n, channels, height, width]."""
    if name not in dataset.column_names:
        raise InputError(f"{split} has no column {name}: it has {', '.join(dataset.column_names)}")
    values = list(dataset[name])
    if not values or not hasattr(values[0], "convert"):  # no images
        return as_array(f"{split}: column {name}", values)
    modes = {image.mode for image in values}
    if any(mode[0] in "IF" for mode in modes):
        raise InputError(f"{split}: column {name} has images of more than 8 bits: convert them")
    arrays = [np.asarray(image if modes == {"L"} else image.convert("RGB")) for image in values]
    if len(shapes := {array.shape[:2] for array in arrays}) > 1:
        sizes = " and ".join(f"{w} x {h}" for h, w in sorted(shapes)[:2])
        raise InputError(f"{split}: column {name} has images of {sizes} pixels: resize them to one")
    pixels = np.stack(arrays)
    return pixels[:, None] if pixels.ndim == 3 else np.moveaxis(pixels, 3, 1)


def from_leaf(train, test=None, *, shape: Sequence[int] | None = None, network: str = "") -> Task:
    """Make a task of LEAF's JSON (Caldas et al., arXiv:1812.01097), whose users are the clients of partition
    `natural`.

    Classes are numbered in the order of their names. All test examples together are the test set; of whom each is, is
    kept, so that a run reports each client's accuracy on its own.

    Args:
        train: a file {"users": [...], "num_samples": [...], "user_data": {user: {"x": [...], "y": [...]}}}, or a folder
            of such files.
        test: as train; without it, see `from_arrays`.
        shape: of an example, such as (1, 28, 28); by default as in the file.
        network: as in `tasks.load`.

    Raises:
        InputError: names the file, and the user where that helps.
    """
    splits = [_read_leaf(Path(place)) for place in ([train] if test is None else [train, test])]
    _, train_labels, users = splits[0]
    classes, test_users = np.unique(train_labels), None
    if test is not None:
        _, test_labels, test_users = splits[1]
        if len(extra := np.setdiff1d(test_labels, classes)):
            raise InputError(f"{test} has the class {extra[0]}, of which {train} has no example")
    parts: list = []
    # Without a test set there is no second split.
    for place, (x, y, _) in zip((train, test), splits, strict=False):
        try:
            array = np.array(x) if shape is None else np.array(x).reshape(len(x), *shape)
        except (TypeError, ValueError):
            reason = f"cannot have the shape {shape}" if shape else "differ in length"
            raise InputError(f"{place}: examples {reason}") from None
        if array.dtype.kind in "US":
            reason = "write them as numbers of tokens, and use from_arrays(documents=True)"
            raise InputError(f"{place} holds examples of text: {reason}")
        parts += [array, np.searchsorted(classes, y)]
    return from_arrays(*parts, users=users, test_users=test_users, network=network)


def _read_leaf(place: Path) -> tuple[list, np.ndarray, np.ndarray]:
    """Read the examples, labels [n] and users [n] of a file or of all files of a folder, in their order."""
    files = sorted(place.glob("*.json")) if place.is_dir() else [place]
    if not files:
        raise InputError(f"{place} holds no file *.json")
    data: dict = {}
    for file in files:
        content = read_json(file)
        if not isinstance(content, dict) or not {"users", "user_data"} <= set(content):
            raise InputError(f"{file} is not of LEAF: it must have users and user_data")
        for key, kind in (("users", list), ("user_data", dict), ("num_samples", list)):
            if not isinstance(value := content.get(key, []), kind):
                form = "an object" if kind is dict else "a list"
                raise InputError(f"{file}: {key} is {format_value(value)}: it must be {form}")
        counts = content.get("num_samples", [None] * len(content["users"]))
        if len(counts) != len(content["users"]):
            raise InputError(f"{file}: users and num_samples differ in length")
        for user, count in zip(content["users"], counts, strict=True):
            if not isinstance(user, str):
                raise InputError(f"{file}: user {format_value(user)} must be named by a text")
            shard = content["user_data"].get(user)
            if shard is None or user in data:
                reason = "has no user_data" if shard is None else "is there twice"
                raise InputError(f"{file}: user {user!r} {reason}")
            if not isinstance(shard, dict) or not all(isinstance(shard.get(k), list) for k in "xy"):
                raise InputError(f"{file}: user {user!r} must have lists x and y in user_data")
            if (
                not len(shard["x"])
                == len(shard["y"])
                == (len(shard["y"]) if count is None else count)
            ):
                sizes = f"{len(shard['x'])} x and {len(shard['y'])} y, num_samples {count}"
                raise InputError(f"{file}: user {user!r} has {sizes}: they must be as many")
            data[user] = shard
    users = [user for user, shard in data.items() for _ in shard["y"]]
    labels = [label for shard in data.values() for label in shard["y"]]
    x = [example for shard in data.values() for example in shard["x"]]
    return x, as_names(f"{place}: labels", labels), as_names(f"{place}: users", users)


def from_pfllib(folder, *, network: str = "") -> Task:
    """Make a task of a folder of PFLlib (arXiv:2312.04992): train/0.npz, train/1.npz, ... and test/0.npz, ..., whose
    clients are those of partition `natural`; all test examples together are the test set, and a run reports each
    client's accuracy on its own.

    The files hold pickles; nothing but arrays is made of them, so that a file of others runs no code.

    Args:
        folder: with train/ and test/.
        network: as in `tasks.load`.

    Raises:
        InputError: names the file that cannot be read, or whose examples differ in shape or type from others.
    """
    parts: list[np.ndarray] = []
    users: dict[str, np.ndarray] = {}
    first: tuple = ()  # shape, whether they are bytes, and file of the first examples
    for split in ("train", "test"):
        files = list(Path(folder, split).glob("*.npz"))
        if not files or not all(file.stem.isdecimal() for file in files):
            raise InputError(f"{Path(folder, split)} must hold files 0.npz, 1.npz, ... of clients")
        files.sort(key=lambda file: int(file.stem))
        shards = [(int(file.stem), *_read_pfllib(file)) for file in files]
        for file, (_, x, _) in zip(files, shards, strict=True):
            kind = (x.shape[1:], x.dtype == np.uint8)
            if len(x) and kind != (first := first or (*kind, file))[:2]:
                raise InputError(
                    f"{file} has examples {x.dtype} of shape {x.shape[1:]}, and {first[2]} others: they must be alike"
                )
        shards = [shard for shard in shards if len(shard[1])]  # a client may have no test examples
        if not shards:
            raise InputError(f"{Path(folder, split)} holds no example: give it at least one")
        parts += [
            np.concatenate([x for _, x, _ in shards]),
            np.concatenate([y for *_, y in shards]),
        ]
        users[split] = np.concatenate([np.full(len(y), client) for client, _, y in shards])
    return from_arrays(*parts, users=users["train"], test_users=users["test"], network=network)


class _ArraysOnly(pickle.Unpickler):
    """Reads pickles of numpy's arrays, and refuses all else."""

    def find_class(self, module: str, name: str):
        """Return what numpy's arrays are made with."""
        allowed = {"ndarray", "dtype", "_reconstruct", "scalar", "_frombuffer"}
        if module.partition(".")[0] == "numpy" and name in allowed:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it holds a {module}.{name}")


def _read_pfllib(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read the examples and labels of one client, {"x": array, "y": array} under the name `data`."""
    try:
        with zipfile.ZipFile(file) as archive:
            content = io.BytesIO(archive.read("data.npy"))
        version = np.lib.format.read_magic(content)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        read[version](content)
        data = _ArraysOnly(content).load()
        data = data.item() if isinstance(data, np.ndarray) else data
        x, y = (np.asarray(data[key]) for key in "xy")
    except Exception as error:  # zipfile, pickle and numpy raise many kinds
        raise InputError(
            f"{file} is no client of PFLlib ({type(error).__name__}: {error})"
        ) from error
    if x.dtype.kind not in "fiub" or y.dtype.kind not in "fiu" or y.shape != x.shape[:1]:
        kinds = f"x {x.dtype} {x.shape} and y {y.dtype} {y.shape}"
        raise InputError(f"{file} has {kinds}: x must be numbers [n, ...], and y whole numbers [n]")
    if not np.array_equal(y, np.floor(y)):
        raise InputError(f"{file} has a label that is not whole: y must be whole numbers [n]")
    return x, y.astype(np.int64)
