"""Tasks: a data set as tensors, and the network that is trained on it (FedSTaS Sec. 3.1).

`load` reads the data sets of the package, and tasks from files of the user's, which `user_data` helps to make.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import re
import socket
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedstas import user_code
from fedstas.errors import DataError, InputError, check_choice, check_int
from fedstas.sim import coarse, corpora, frozen_features, text
from fedstas.streams import LARGEST_SEED, stream

if TYPE_CHECKING:  # torch takes seconds to load, and the names of tasks need none
    import torch
    from torch import Tensor, nn

# SHA-256 of the bytes of each array (labels as int64), in the order of the official files; of CIFAR-10 also
# the MD5 of each official file, as torchvision has them; of features their sketches.
DIGESTS: dict = json.loads(files(__package__).joinpath("digests.json").read_text(encoding="utf-8"))
FILES: dict = DIGESTS.pop("cifar10-batches")
SKETCHES: dict = DIGESTS.pop("sketches")
BATCHES = "cifar-10-batches-py"  # the folder of these files, in root
TORCHVISION = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST"}
TORCHVISION |= {name: name.upper() for name in ("cifar10", "cifar100")}
EMNIST_SPLITS = {"emnist": "balanced", "emnist-byclass": "byclass"}  # arXiv:1702.05373
TORCHVISION |= dict.fromkeys(EMNIST_SPLITS, "EMNIST")
TEXT = (
    "topics",
    "newsgroups",
    "newsgroups-tokens",
    "newsgroups-words",
    "reuters",
    "reuters-titles",
    "shakespeare",
)
WITHOUT_USERS = ("reuters", "reuters-titles")  # texts whose authors are not known
WITH_USERS = tuple(name for name in TEXT if name not in WITHOUT_USERS)
NETWORKS = (
    "perceptron",
    "linear",
    "convolutional",
    "convolutional-dropout",
    "convolutional-grey",
    "text-cnn",
    "transformer",
    "ngram",
)
PATIENCE = 10.0  # s without an answer from the network
KEYS = ("train_x", "train_y", "test_x", "test_y")
EXAMPLE_KEYS, LABEL_KEYS = KEYS[::2], KEYS[1::2]
VALIDATION = "-validation"  # the end of a task's name, for a task to tune on: see `hold_out`
VALIDATION_SHARE = 0.1
TEST_EVERY = 5  # without a test set, every fifth example of each class is a test example
# Training examples, test examples, shape of an image, classes: for clear messages if digests differ.
SHAPES = dict.fromkeys(("mnist", "fashion-mnist"), (60_000, 10_000, (1, 28, 28), 10))
SHAPES["emnist"] = (112_800, 18_800, (1, 28, 28), 47)
SHAPES["emnist-byclass"] = (697_932, 116_323, (1, 28, 28), 62)
SHAPES |= {f"cifar{k}": (50_000, 10_000, (3, 32, 32), k) for k in (10, 100)}


@dataclass(frozen=True)
class Task:
    """A data set on one device, and the network that is trained on it.

    Images of MNIST and its like and of digits are scaled to [0, 1], those of CIFAR to [-1, 1], frozen features to
    [0, 1]; features of texts have length sqrt(50).

    Args:
        name: as in `names`, or FILE.py:FUNCTION.
        train_x: images float32 [n, c, h, w], features float32 [n, d], or documents int64 [n, length] of tokens, with
            0 for padding.
        train_y: labels int64 [n] in 0..classes - 1.
        test_x: as train_x.
        test_y: as train_y.
        classes: the number of classes.
        digest: SHA-256 that identifies the data.
        network: one of `networks`, the first of them if empty; or FILE.py:FUNCTION, whose function makes a
            torch module of the task.
        users: the user of each training example, int [n], where that is known.
        test_users: the user of each test example, int, numbered as `users`; -1 for one without training examples.
        vectors: of documents whose tokens have fixed vectors, these, float32 [tokens, width]; otherwise a network
            learns its own.
        source: the function of the user's that made the task.
        kept: of a task to tune on (`hold_out`), which examples of the whole training set are its own, bool [N].

    Raises:
        InputError: for a network that does not fit, and for an empty document.
    """

    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    classes: int
    digest: str
    network: str | user_code.UserFunction = ""
    users: np.ndarray | None = None
    source: user_code.UserFunction | None = None
    test_users: np.ndarray | None = None
    vectors: Tensor | None = None
    kept: np.ndarray | None = None

    def __post_init__(self):
        if isinstance(self.network, str) and user_code.FILE.fullmatch(self.network):
            object.__setattr__(self, "network", user_code.load_function(self.network, "network"))
            _check_network(self)
        if isinstance(self.network, user_code.UserFunction):
            return
        check_choice("network", self.network, ["", *NETWORKS])
        if self.network and self.network not in self.networks:
            raise InputError(
                f"network {self.network!r} does not fit task {self.name}, of {self.kind}: "
                f"use {' or '.join(self.networks)}"
            )
        object.__setattr__(self, "network", self.network or self.networks[0])
        if self.vectors is not None:
            _check_vectors(self)
        if self.kind == "documents":
            _check_documents(self)

    @property
    def kind(self) -> str:
        """What the examples are, "images", "features" or "documents"."""
        if not self.train_x.is_floating_point():
            return "documents"
        return "features" if self.train_x.ndim == 2 else "images"

    @property
    def tokens(self) -> int:
        """The number of tokens, from 0, which is padding, to the largest in the documents; or of fixed vectors."""
        if self.vectors is not None:
            return len(self.vectors)
        return 1 + max(int(x.max()) if x.numel() else 0 for x in (self.train_x, self.test_x))

    @property
    def networks(self) -> tuple[str, ...]:
        """The names of the networks that fit the data, the default first."""
        name = self.name.removesuffix(VALIDATION)
        if name == "shakespeare":
            return ("ngram",)
        if self.kind == "documents":
            return "text-cnn", "transformer"
        if name in (*frozen_features.TASKS, "newsgroups", "reuters"):
            return "linear", "perceptron"
        shape = tuple(self.train_x.shape[1:])
        colour = ("convolutional", "convolutional-dropout") if shape == (3, 32, 32) else ()
        grey = ("convolutional-grey",) if shape == (1, 28, 28) else ()
        return *colour, "perceptron", "linear", *grey

    @property
    def identity_extras(self) -> dict:
        """What a run's identity contains besides the task's name.

        That is the network, unless it is the default, and the SHA-256 of the user's files.
        """
        files = {"task": self.source, "network": self.network}
        shas = {k: f.sha256 for k, f in files.items() if isinstance(f, user_code.UserFunction)}
        default = self.network == self.networks[0]
        return ({} if default else {"network": str(self.network)}) | (
            {"files": shas} if shas else {}
        )

    @property
    def device(self) -> torch.device:
        """The device of the data."""
        return self.train_x.device

    def model(self, seed: int) -> nn.Module:
        """Make the network with weights w_0, which depend on the seed alone, on the task's device."""
        import torch

        from fedstas.sim import models

        classes, pixels, network = self.classes, self.train_x[0].numel(), self.network
        makers: dict[str, Callable[[], nn.Module]] = {
            "perceptron": lambda: models.Perceptron(pixels, classes),
            "linear": lambda: models.Linear(pixels, classes),
            "convolutional": lambda: models.Convolutional(classes),
            "convolutional-dropout": lambda: models.ConvolutionalDropout(classes),
            "convolutional-grey": lambda: models.ConvolutionalGrey(classes),
            "text-cnn": lambda: models.TextCNN(self.tokens, classes, vectors=self.vectors),
            "transformer": lambda: models.Transformer(self.tokens, classes, vectors=self.vectors),
            "ngram": lambda: models.NGram(self.tokens, self.train_x.shape[1], classes),
        }
        make = makers[network] if isinstance(network, str) else lambda: network(self)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(check_int("seed", seed, 0, LARGEST_SEED))
            return make().to(self.device)

    def to(self, device: str | torch.device) -> Task:
        """Copy the task to a device."""
        keys = KEYS if self.vectors is None else (*KEYS, "vectors")
        return replace(self, **{k: getattr(self, k).to(device) for k in keys})


def _check_documents(task: Task) -> None:
    """Raise an `InputError` with the row of a document that is empty, or has a token without a vector or below 0."""
    for key in EXAMPLE_KEYS:
        x, allowed = (
            getattr(task, key),
            f"each needs a token of 1..{task.tokens - 1}, and 0 is padding",
        )
        is_unknown = (x < 0) | (x >= task.tokens)
        if is_unknown.any():
            row = int(is_unknown.any(1).nonzero()[0])
            token = int(x[row][is_unknown[row]][0])
            raise InputError(
                f"{key} of task {task.name} has the unknown token {token} in row {row}: {allowed}"
            )
        is_empty = ~(x > 0).any(1)
        if is_empty.any():
            row = int(is_empty.nonzero()[0])
            raise InputError(
                f"{key} of task {task.name} has an empty document in row {row}: {allowed}"
            )


def _check_vectors(task: Task) -> None:
    """Raise `InputError` unless the vectors of a task's tokens fit its documents and networks."""
    shape = tuple(task.vectors.shape)  # type: ignore[union-attr]
    fits = task.vectors.is_floating_point() and len(shape) == 2 and shape[-1] % 2 == 0  # type: ignore[union-attr]
    if not fits or task.kind != "documents":
        raise InputError(
            f"vectors of task {task.name} have the shape {shape}, and its examples are {task.kind}: documents of tokens "
            "can have vectors, float [tokens, width] with an even width"
        )


def names() -> list[str]:
    """List the names of all tasks; `digits` and `topics` need no download."""
    return ["digits", *TORCHVISION, *coarse.CLASSES, *frozen_features.TASKS, *TEXT]


def find_device(name: str) -> torch.device:
    """Return the device of a name: auto, cpu, cuda, cuda:K for the K-th GPU from 0 on, or mps (Apple's GPUs, on which
    nothing has been tried). `auto` is CUDA where there is one, else the CPU."""
    import torch

    numbered = re.fullmatch(r"cuda:(\d{1,3})", str(name))
    if not numbered:
        check_choice("device", name, ("auto", "cpu", "cuda", "cuda:1", "mps"))
    has_cuda = torch.cuda.is_available()
    absent = str(name).startswith("cuda") and not has_cuda
    if absent or (name == "mps" and not torch.backends.mps.is_available()):
        raise InputError(f"device {name!r} was asked for, but there is none here: use cpu or auto")
    if numbered and int(numbered[1]) >= (count := torch.cuda.device_count()):
        raise InputError(
            f"device {name!r} was asked for, and the last one here is cuda:{count - 1}"
        )
    # A GPU's convolutions shall round to float32 as the CPU's do (not to TF32's 10 bits), and be deterministic.
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = False, True
    if name == "auto":
        return torch.device("cuda" if has_cuda else "cpu")
    return torch.device(name)


def data_folder(root: str | Path | None = None) -> Path:
    """Return the folder of data sets: `root`, else $FEDSTAS_DATA, else the user's cache folder."""
    if root is None:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        root = os.environ.get("FEDSTAS_DATA") or Path(cache) / "fedstas"
    return Path(root).expanduser()


def load(
    name: str, *, root: str | Path | None = None, device: str = "cpu", network: str = ""
) -> Task:
    """Load a task, whose data are verified bit by bit.

    Data are read from `<root>/<name>.npz` if that is there, else downloaded by torchvision into root and kept
    as npz. `emnist` is the balanced split of EMNIST, 47 classes, `emnist-byclass` the one by class, 62 classes; their
    digests are not known: a copy is read with a warning. `text` makes `topics`, `newsgroups-tokens` (posts of all authors) and `reuters-titles`, `corpora` `newsgroups`, `newsgroups-words` (the same posts as sequences of word vectors), `reuters` and `shakespeare`, `coarse` its tasks of `cifar100`. Frozen features are
    computed from the images at first use, in about ten minutes, and kept as npz, too.

    Args:
        name: one of `names()`, also with "-validation" behind it, for the task to tune on (`hold_out`); or
            FILE.py:FUNCTION, a function of the user's that returns a task.
        root: the folder of data sets: see `data_folder`.
        device: as in `find_device`.
        network: as in `Task`.

    Raises:
        DataError: for data that cannot be had, or are not the known ones.
        InputError: for an unknown task, device or network.
    """
    import torch

    if str(name).endswith(VALIDATION):
        base = str(name).removesuffix(VALIDATION)
        if not user_code.FILE.fullmatch(base):
            check_choice("task", base, names())
        return hold_out(load(base, root=root, device=device, network=network))
    if user_code.FILE.fullmatch(str(name)):
        return replace(_load_user_task(name), network=network).to(find_device(device))
    check_choice("task", name, names())
    where, folder = find_device(device), data_folder(root)
    if name == "topics":
        arrays = text.topics()
    elif name.startswith("newsgroups"):
        vectors = None if name == "newsgroups-tokens" else corpora.load_vectors(name)
        with _download_errors(name, folder / text.NEWSGROUPS, "topics"):
            posts = text.fetch_newsgroups(folder)
        train, test = posts
        if vectors is None:
            arrays = text.tokenise(train, test)
        elif name == "newsgroups-words":
            arrays = corpora.words_by_author(train, test, *vectors)
        else:
            arrays = corpora.by_author(train, test, *vectors)
    elif name == "reuters":
        train, test = corpora.stories(folder)
        arrays = corpora.by_topic(train, test, *corpora.load_vectors(name))
    elif name == "reuters-titles":
        train_titles, test_titles = corpora.number_topics(*corpora.stories(folder, "title"))
        arrays = text.tokenise(train_titles, test_titles, text.TITLE_WORDS, text.FREQUENT_WORDS)
    elif name == "shakespeare":
        arrays = corpora.shakespeare(folder)
    elif name in frozen_features.TASKS:
        arrays = _feature_arrays(name, folder)
    elif name in coarse.CLASSES:
        arrays = coarse.regroup(name, _image_arrays("cifar100", folder))
    else:
        arrays = _digits_arrays() if name == "digits" else _image_arrays(name, folder)
    if name in frozen_features.TASKS:
        labels = array_digests({k: arrays[k] for k in LABEL_KEYS})
        digest = frozen_features.digest(DIGESTS[frozen_features.TASKS[name][0]], labels)
    else:
        digest = _combine(array_digests(arrays))
    users, tensors = arrays.pop("users", None), {}
    for key, array in arrays.items():
        value = torch.from_numpy(np.ascontiguousarray(array))
        if key.endswith("_x") and name not in TEXT:
            # The largest value of a pixel, or of a feature's byte.
            largest = 16.0 if name == "digits" else 255.0
            value = value.to(torch.float32).div_(largest)
            if name.startswith("cifar") and name not in frozen_features.TASKS:
                value.sub_(0.5).div_(0.5)  # from -1 to 1
        tensors[key] = value.to(where)
    classes = int(arrays["train_y"].max()) + 1
    return Task(name, **tensors, classes=classes, digest=digest, network=network, users=users)


def hold_out(task: Task) -> Task:
    """Return the task to tune on: its test set is a tenth of the training examples, which its training set lacks.

    A tenth of each class, rounded up, is drawn at random, always the same. The test set of `task` is not touched, so that
    settings which are chosen with the returned task have not seen it.
    """
    import torch

    labels = task.train_y.cpu().numpy()
    is_held_out = np.zeros(len(labels), dtype=bool)
    for label in range(task.classes):
        rows = np.flatnonzero(labels == label)
        count = math.ceil(VALIDATION_SHARE * len(rows))
        is_held_out[stream(0, "validation", label).choice(rows, count, replace=False)] = True
    test = torch.from_numpy(np.flatnonzero(is_held_out)).to(task.device)
    train = torch.from_numpy(np.flatnonzero(~is_held_out)).to(task.device)
    return replace(
        task,
        name=task.name + VALIDATION,
        train_x=task.train_x[train],
        train_y=task.train_y[train],
        test_x=task.train_x[test],
        test_y=task.train_y[test],
        digest=hashlib.sha256(f"{task.digest}{VALIDATION}".encode()).hexdigest(),
        users=None if task.users is None else task.users[~is_held_out],
        test_users=None,
        kept=~is_held_out,
    )


def check_tensors(
    train_x, train_y, test_x, test_y, classes: int, users=None, test_users=None
) -> None:
    """Raise an `InputError` unless tensors are those of a task.

    Examples must have one shape and be finite, labels must be in 0..classes - 1, the test set must have every class,
    and `users` and `test_users`, if given, must be one user for each training and each test example.
    """
    import torch

    for split, x, y in (("train", train_x, train_y), ("test", test_x, test_y)):
        if not all(isinstance(each, torch.Tensor) for each in (x, y)):
            raise InputError(f"{split}_x and {split}_y must be tensors: from_arrays makes them")
        if x.dtype not in (torch.float32, torch.int64) or y.dtype != torch.int64 or y.ndim != 1:
            types = f"{x.dtype} and {y.dtype} with {y.ndim} axes"
            raise InputError(
                f"{split}_x and {split}_y are {types}: x must be float32 (documents: int64), y int64 [n]"
            )
        if not x.numel() or len(x) != len(y) or x.ndim < 2:
            shapes = f"shape {tuple(x.shape)}, {split}_y {tuple(y.shape)}"
            raise InputError(f"{split}_x has {shapes}: they must be [n, ...] and [n], none empty")
        if x.dtype != train_x.dtype or x.shape[1:] != train_x.shape[1:]:
            shapes = f"{tuple(x.shape[1:])}, one of train_x {tuple(train_x.shape[1:])}"
            raise InputError(f"an example of {split}_x is {x.dtype} {shapes}: they must be alike")
        wrong = (~x.isfinite().flatten(1).all(1)).nonzero()
        if len(wrong):
            raise InputError(f"{split}_x has a value that is not finite in row {int(wrong[0])}")
        wrong = ((y < 0) | (y >= classes)).nonzero()
        if len(wrong):
            row = int(wrong[0])
            label = f"the label {int(y[row])} in row {row}"
            raise InputError(f"{split}_y has {label}: it must be of 0..{classes - 1}")
    if classes < 2:
        raise InputError("all examples are of one class: there must be at least two")
    if len(tested := set(test_y.tolist())) < classes:
        missing = next(label for label in range(classes) if label not in tested)
        raise InputError(
            f"the test set has no example of class {missing}: accuracy by class needs one of each of "
            f"0..{classes - 1} (where none is given, it is every {TEST_EVERY}th training example of a class)"
        )
    for name, given, y in (("users", users, train_y), ("test_users", test_users, test_y)):
        if given is not None and np.shape(given) != tuple(y.shape):
            raise InputError(f"{name} has shape {np.shape(given)}: one for each of {len(y)}")


def tensors_digest(tensors: dict[str, Tensor], users, test_users=None) -> str:
    """Return the SHA-256 that identifies the tensors, by key, and the users of a task from the user's data."""
    arrays = {k: v.cpu().numpy() for k, v in tensors.items()}
    whose = {"users": users, "test_users": test_users}
    arrays |= {k: np.asarray(names) for k, names in whose.items() if names is not None}
    return _combine(array_digests(arrays))


def _load_user_task(spec: str) -> Task:
    """Load the task that a function of a file returns; `InputError` that names file and line if it is none."""
    source = user_code.load_function(spec, "task")
    task = source()
    with user_code.user_code_errors("", source.place):
        if not isinstance(task, Task):
            raise InputError(
                f"{source.call.__name__}() returns {type(task).__name__}: it must return a Task, as "
                "user_data.from_arrays makes it"
            )
        tensors = {k: getattr(task, k) for k in KEYS}
        check_tensors(**tensors, classes=task.classes, users=task.users, test_users=task.test_users)
    digest = tensors_digest(tensors, task.users, task.test_users)
    return replace(task, name=source.name, digest=digest, source=source)


def _check_network(task: Task) -> None:
    """Raise an `InputError` with file and line if a network from the user's file cannot be trained here."""
    import torch

    from fedstas.sim import models

    function = task.network
    assert isinstance(function, user_code.UserFunction)
    name = f"{function.call.__name__}(task)"
    with (
        user_code.user_code_errors(function.module, function.place),
        torch.no_grad(),
        torch.random.fork_rng(devices=[]),
    ):
        module = function.call(task)
        if not isinstance(module, torch.nn.Module) or not any(True for _ in module.parameters()):
            raise InputError(
                f"{name} returns {type(module).__name__}: it must return a torch module with parameters"
            )
        some = task.train_x[:32]
        if defect := models.find_defect(module, some, task.classes):
            raise InputError(f"the network of {name} {defect}")


def array_digests(arrays: dict[str, np.ndarray]) -> dict[str, str]:
    """Return the SHA-256 of each array of a task, by key."""
    keys = [k for k in (*KEYS, "users", "test_users") if k in arrays]
    return {k: hashlib.sha256(np.ascontiguousarray(arrays[k]).data).hexdigest() for k in keys}


def _digits_arrays() -> dict[str, np.ndarray]:
    """Return scikit-learn's 1,797 digits of 8x8 pixels; every fifth one is a test example."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x, y = data.images.astype(np.uint8)[:, None], data.target.astype(np.int64)
    test = np.arange(len(y)) % TEST_EVERY == TEST_EVERY - 1
    return {"train_x": x[~test], "train_y": y[~test], "test_x": x[test], "test_y": y[test]}


def _image_arrays(name: str, root: Path) -> dict[str, np.ndarray]:
    """Read or download the arrays of a data set of images, and verify them."""
    path, folder = root / f"{name}.npz", root / BATCHES
    fresh, source = not is_there(path), path
    if name == "cifar10" and is_there(folder):
        arrays, source = _read_cifar10(folder), folder
    elif fresh:
        arrays, source = _download(name, root), root / TORCHVISION[name]
    else:
        arrays = _read_npz(path)
    wrong = [mismatch for k in KEYS if (mismatch := _mismatch(name, k, arrays[k]))]
    if not wrong and name in DIGESTS:
        digests = array_digests(arrays)
        wrong = [f"{k} differs" for k in KEYS if DIGESTS[name][k] != digests[k]]
    if wrong:
        raise DataError(
            f"{source} does not hold the official {name} data ({', '.join(wrong)}): "
            "delete it and load again"
        )
    if source == path and name not in DIGESTS:
        warnings.warn(f"{path} cannot be verified: its digest is not known", stacklevel=3)
    if fresh:
        _write_npz(path, arrays)
    return arrays


def _feature_arrays(name: str, root: Path) -> dict[str, np.ndarray]:
    """Read or compute the arrays of a task of frozen features, and verify them."""
    source, labels = frozen_features.TASKS[name]
    path = root / f"{source}-features.npz"
    if is_there(path):
        arrays = _read_npz(path, (*KEYS, "sha256"))
        sha = str(arrays.pop("sha256"))
        wrong = _wrong_features(source, arrays)
        if sha != _combine(array_digests(arrays)):
            wrong.append("its SHA-256 is not the one that it names")
        if wrong:
            raise DataError(
                f"{path} does not hold the known features of {source} ({', '.join(wrong)}): delete it and load again"
            )
    else:
        backbone, images = frozen_features.load_backbone(name), _image_arrays(source, root)
        arrays = {k: images[k] for k in LABEL_KEYS}
        for key in EXAMPLE_KEYS:
            title = f"{source}-features, {key.removesuffix('_x')}"
            arrays[key] = frozen_features.extract(backbone, images[key], title)
        if wrong := _wrong_features(source, arrays):
            raise DataError(
                f"the features of {source} computed here are not the known ones ({', '.join(wrong)}): install torch "
                "anew, or put a copy of the file from another machine at "
                f"{path}"
            )
        _write_npz(path, arrays | {"sha256": np.array(_combine(array_digests(arrays)))})
    return coarse.regroup(labels, arrays) if labels else arrays


def _wrong_features(source: str, arrays: dict[str, np.ndarray]) -> list[str]:
    """Say which arrays of features are not those of a data set, up to the last bits of the computation."""
    digests, wrong = array_digests(arrays), []
    for key in KEYS:
        train, test, _, _ = SHAPES[source]
        shape = (train if key.startswith("train") else test, frozen_features.WIDTH)
        if key.endswith("y"):
            wrong += [] if digests[key] == DIGESTS[source][key] else [f"{key} differs"]
        elif arrays[key].dtype != "uint8" or arrays[key].shape != shape:
            wrong.append(f"{key} is {arrays[key].dtype} {arrays[key].shape}, not uint8 {shape}")
        elif (
            d := frozen_features.distance(arrays[key], SKETCHES[source][key])
        ) > frozen_features.MAX_DISTANCE:
            wrong.append(f"{key} differs by {d:.2g}, root mean square")
    return wrong


def _combine(digests: dict[str, str]) -> str:
    """Return one SHA-256 of the digests of several arrays."""
    return hashlib.sha256("".join(digests.values()).encode()).hexdigest()


def is_there(path: Path) -> bool:
    """Return whether there is such a file or folder; `DataError` if its folder cannot be looked into."""
    try:
        return path.exists()
    except OSError as error:  # no permission
        raise DataError(
            f"{path} cannot be looked for ({error.strerror}): allow it, or set FEDSTAS_DATA to another folder"
        ) from error


def _mismatch(name: str, key: str, array: np.ndarray) -> str:
    """Say how an array's type, shape or range differs from that of the official data; "" if it does not."""
    train, test, image, classes = SHAPES[name]
    count = train if key.startswith("train") else test
    kind, shape = ("uint8", (count, *image)) if key.endswith("x") else ("int64", (count,))
    if array.dtype != kind or array.shape != shape:
        return f"{key} is {array.dtype} {array.shape}, not {kind} {shape}"
    if key.endswith("y") and not 0 <= array.min() <= array.max() < classes:
        return f"{key} is in {array.min()}..{array.max()}, not in 0..{classes - 1}"
    return ""


def _read_npz(path: Path, keys: tuple[str, ...] = KEYS) -> dict[str, np.ndarray]:
    """Read the arrays of a data file."""
    try:
        # np.load does not close a damaged file that it opens itself.
        with path.open("rb") as raw, zipfile.ZipFile(raw):
            raw.seek(0)
            with np.load(raw, allow_pickle=False) as file:
                missing = [k for k in keys if k not in file.files]
                if not missing:
                    return {k: file[k] for k in keys}
    except PermissionError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}): allow it, or set FEDSTAS_DATA to another folder"
        ) from error
    except Exception as error:
        # Of many types, from numpy, zipfile and zlib; the remedy is the same.
        raise DataError(
            f"{path} is damaged or not a data file ({type(error).__name__}): delete it and load again"
        ) from error
    arrays = f"array{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
    raise DataError(
        f"{path} is damaged or not a data file (it lacks the {arrays}): delete it and load again"
    )


def _read_cifar10(folder: Path) -> dict[str, np.ndarray]:
    """Read CIFAR-10 from torchvision's files, which are pickles: each is opened only if its MD5 is right."""
    parts: dict[str, list] = {k: [] for k in KEYS}
    for name, md5 in FILES.items():
        path, split = folder / name, "train" if name.startswith("data") else "test"
        data = path.read_bytes() if path.is_file() else b""
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != md5:
            raise DataError(
                f"{path} is missing or not the official file (its MD5 is not {md5}): "
                f"delete {folder} and load again"
            )
        batch = pickle.loads(data, encoding="latin1")
        parts[f"{split}_x"].append(batch["data"].reshape(-1, 3, 32, 32))
        parts[f"{split}_y"].append(np.array(batch["labels"], dtype=np.int64))
    return {k: np.concatenate(v) for k, v in parts.items()}


def _write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays of a data file, under a temporary name first."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # no key is `allow_pickle`
        partial.replace(path)
    except OSError as error:  # the data are good; only the copy for the next time is missing
        partial.unlink(missing_ok=True)
        warnings.warn(f"{path} could not be written ({error.strerror})", stacklevel=3)


def _download(name: str, root: Path) -> dict[str, np.ndarray]:
    """Download a data set of images with torchvision."""
    import torchvision

    dataset = getattr(torchvision.datasets, TORCHVISION[name])
    part = {"split": EMNIST_SPLITS[name]} if name in EMNIST_SPLITS else {}
    arrays = {}
    with _download_errors(name, root / f"{name}.npz", "digits"):
        root.mkdir(parents=True, exist_ok=True)
        for split in ("train", "test"):
            data = dataset(str(root), train=split == "train", download=True, **part)
            x = np.asarray(data.data)
            x = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2)
            arrays[f"{split}_x"] = np.ascontiguousarray(x, dtype=np.uint8)
            arrays[f"{split}_y"] = np.asarray(data.targets, dtype=np.int64)
        if name == "cifar10":  # read again from the pickles, the files whose checksums are known
            arrays = _read_cifar10(root / BATCHES)
    return arrays


@contextmanager
def _download_errors(name: str, path: Path, instead: str) -> Iterator[None]:
    """Turn any error of a download into one `DataError` that says what to do, and wait at most `PATIENCE` seconds
    for an answer.

    Args:
        name: the task's.
        path: the file that the task could have been read from.
        instead: a task that needs no download.
    """
    timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # libraries and system raise many kinds, all with the same remedy
        reason = str(error).strip().splitlines()
        raise DataError(
            f"task {name} is not at {path} and could not be downloaded "
            f"({reason[-1] if reason else type(error).__name__}): connect to a network, put the "
            f"file there, or set FEDSTAS_DATA to the folder that holds it; task {instead} needs none"
        ) from error
    finally:
        socket.setdefaulttimeout(timeout)
