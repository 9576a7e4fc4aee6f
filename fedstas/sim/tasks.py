"""Tasks: a data set as tensors, and the network that is trained on it (FedSTaS Sec. 3.1)."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
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
from fedstas.sim import coarse, text
from fedstas.sim.rng import LARGEST_SEED

if TYPE_CHECKING:  # torch takes seconds to load, and who only asks for names needs none
    import torch
    from torch import Tensor, nn

# SHA-256 of the bytes of each array (labels as int64), in the order of the official files; of CIFAR-10
# the MD5 of each official file, as torchvision has them.
DIGESTS: dict = json.loads(files(__package__).joinpath("digests.json").read_text())
FILES: dict = DIGESTS.pop("cifar10")
BATCHES = "cifar-10-batches-py"  # the folder of these files, in root
TORCHVISION = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST"}
TORCHVISION |= {name: name.upper() for name in ("cifar10", "cifar100", "emnist")}
TEXT = ("topics", "newsgroups")
NETWORKS = ("perceptron", "convolutional", "convolutional-dropout", "text-cnn", "transformer")
PATIENCE = 10.0  # s without an answer from the network
KEYS = ("train_x", "train_y", "test_x", "test_y")
# What the digests do not cover: examples of train and test, one image's shape, classes.
SHAPES = dict.fromkeys(("mnist", "fashion-mnist"), (60_000, 10_000, (1, 28, 28), 10))
SHAPES["emnist"] = (112_800, 18_800, (1, 28, 28), 47)  # its balanced split
SHAPES |= {f"cifar{k}": (50_000, 10_000, (3, 32, 32), k) for k in (10, 100)}


@dataclass(frozen=True)
class Task:
    """Images x float32 [n, c, h, w] or documents x int64 [n, length] (tokens; 0 is padding), labels y
    int64 [n], on one device; `digest` identifies them.

    MNIST and its like are scaled to [0, 1], CIFAR to [-1, 1], digits to [0, 1]. `network` is the name of
    what is trained, the usual one if it is empty, or FILE.py:FUNCTION, which makes one of the task.
    `users` int [n], where they are known: whose each training example is. `source` made it, if it is one's
    own. `InputError` for a network that does not fit, and for an empty document.
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

    def __post_init__(self):
        if isinstance(self.network, str) and user_code.FILE.fullmatch(self.network):
            from fedstas.sim import user_data

            object.__setattr__(self, "network", user_code.load_function(self.network, "network"))
            user_data.try_network(self)
        if isinstance(self.network, user_code.UserFunction):
            return
        check_choice("network", self.network, ["", *NETWORKS])
        if self.network and self.network not in self.networks:
            raise InputError(
                f"network {self.network!r} does not fit task {self.name}, of {self.kind}: "
                f"use {' or '.join(self.networks)}"
            )
        object.__setattr__(self, "network", self.network or self.networks[0])
        for key in KEYS[::2] if self.kind == "documents" else ():
            x = getattr(self, key)
            if not (x > 0).any(1).all() or not 0 <= x.min() <= x.max() < self.tokens:
                raise InputError(
                    f"{key} of task {self.name} has an empty document or an unknown token: each needs a "
                    f"token of 1..{self.tokens - 1}, and 0 is padding"
                )

    @property
    def kind(self) -> str:
        """What the examples are."""
        return "images" if self.train_x.is_floating_point() else "documents"

    @property
    def tokens(self) -> int:
        """How many there are in the training documents, padding included."""
        return int(self.train_x.max()) + 1 if self.train_x.numel() else 1

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks that fit, the usual one first."""
        if self.kind == "documents":
            return "text-cnn", "transformer"
        fits = tuple(self.train_x.shape[1:]) == (3, 32, 32)
        return (*NETWORKS[1:3], "perceptron") if fits else ("perceptron",)

    @property
    def other(self) -> dict:
        """What a run's identity says besides the task's name: the network, where it is not the usual one, and
        the SHA-256 of files of one's own."""
        files = {"task": self.source, "network": self.network}
        shas = {k: f.sha256 for k, f in files.items() if isinstance(f, user_code.UserFunction)}
        usual = self.network == self.networks[0]
        return ({} if usual else {"network": str(self.network)}) | ({"files": shas} if shas else {})

    @property
    def device(self) -> torch.device:
        return self.train_x.device

    def model(self, seed: int) -> nn.Module:
        """The network at w_0, which depends on the seed alone, on the task's device."""
        import torch

        from fedstas.sim import models

        classes, pixels, made = self.classes, self.train_x[0].numel(), self.network
        known: dict[str, Callable[[], nn.Module]] = {
            "perceptron": lambda: models.Perceptron(pixels, classes),
            "convolutional": lambda: models.Convolutional(classes),
            "convolutional-dropout": lambda: models.ConvolutionalDropout(classes),
            "text-cnn": lambda: models.TextCNN(self.tokens, classes),
            "transformer": lambda: models.Transformer(self.tokens, classes),
        }
        make = known[made] if isinstance(made, str) else lambda: made(self)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(check_int("seed", seed, 0, LARGEST_SEED))
            return make().to(self.device)

    def to(self, device: str | torch.device) -> Task:
        """The same task on another device."""
        return replace(self, **{k: getattr(self, k).to(device) for k in KEYS})


def names() -> list[str]:
    """All task names; `digits` and `topics` need no download."""
    return ["digits", *TORCHVISION, *coarse.CLASSES, *TEXT]


def find_device(name: str) -> torch.device:
    """The device of that name: `auto` is CUDA where there is one, else the CPU."""
    import torch

    check_choice("device", name, ("auto", "cpu", "cuda"))
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' was asked for, but there is none here: use cpu or auto")
    # A GPU's convolutions are to round as the CPU's do (not to 10 bits), and alike each time.
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = False, True
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def data_folder(root: str | Path | None = None) -> Path:
    """Where data sets lie: `root`, else $FEDSTAS_DATA, else the user's cache folder."""
    if root is None:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        root = os.environ.get("FEDSTAS_DATA") or Path(cache) / "fedstas"
    return Path(root).expanduser()


def load(
    name: str, *, root: str | Path | None = None, device: str = "cpu", network: str = ""
) -> Task:
    """The task of that name, verified bit by bit, and the network that it is to train.

    From `<root>/<name>.npz` if that is there, else downloaded by torchvision into root and kept
    as npz. `DataError` if it cannot be had or is not the known data; `InputError` for an
    unknown task or device. FILE.py:FUNCTION is a task of one's own: what the function returns, whose digest
    is that of its tensors. The bytes of a `cifar10.npz` are not known: torchvision's own files are
    read where they are in root, and verified; alone it is taken with a warning, as an `emnist.npz` is.
    Of `emnist` it is the balanced split, 47 classes. The text tasks are described in `text`, and those
    of `coarse` are made of `cifar100`.
    """
    import torch

    if user_code.FILE.fullmatch(str(name)):
        from fedstas.sim import user_data

        return replace(user_data.task(name), network=network).to(find_device(device))
    check_choice("task", name, names())
    where, folder = find_device(device), data_folder(root)
    if name == "topics":
        arrays = text.topics()
    elif name == "newsgroups":
        with _downloading(name, folder / text.NEWSGROUPS, "topics"):
            posts = text.fetch(str(folder))
        arrays = text.tokenised(*posts)
    elif name in coarse.CLASSES:
        arrays = coarse.regrouped(name, _arrays("cifar100", folder))
    else:
        arrays = _digits() if name == "digits" else _arrays(name, folder)
    digest = hashlib.sha256("".join(_digests(arrays).values()).encode()).hexdigest()
    users, tensors = arrays.pop("users", None), {}
    for key, array in arrays.items():
        value = torch.from_numpy(np.ascontiguousarray(array))
        if key.endswith("_x") and name not in TEXT:
            value = value.to(torch.float32).div_(16.0 if name == "digits" else 255.0)
            if name.startswith("cifar"):
                value.sub_(0.5).div_(0.5)
        tensors[key] = value.to(where)
    classes = int(arrays["train_y"].max()) + 1
    return Task(name, **tensors, classes=classes, digest=digest, network=network, users=users)


def _digests(arrays: dict[str, np.ndarray]) -> dict[str, str]:
    keys = [k for k in (*KEYS, "users") if k in arrays]
    return {k: hashlib.sha256(np.ascontiguousarray(arrays[k]).data).hexdigest() for k in keys}


def _digits() -> dict[str, np.ndarray]:
    """scikit-learn's 1,797 digits of 8x8 pixels, every fifth one for the test."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x, y = data.images.astype(np.uint8)[:, None], data.target.astype(np.int64)
    test = np.arange(len(y)) % 5 == 4
    return {"train_x": x[~test], "train_y": y[~test], "test_x": x[test], "test_y": y[test]}


def _arrays(name: str, root: Path) -> dict[str, np.ndarray]:
    path, folder = root / f"{name}.npz", root / BATCHES
    fresh, source = not path.exists(), path
    if name == "cifar10" and folder.is_dir():
        arrays, source = _batches(folder), folder
    elif fresh:
        arrays, source = _download(name, root), root / TORCHVISION[name]
    else:
        arrays = _read(path)
    wrong = [told for k in KEYS if (told := _unlike(name, k, arrays[k]))]
    if not wrong and name in DIGESTS:
        found = _digests(arrays)
        wrong = [f"{k} differs" for k in KEYS if DIGESTS[name][k] != found[k]]
    if wrong:
        raise DataError(
            f"{source} does not hold the official {name} data ({', '.join(wrong)}): "
            "delete it and load again"
        )
    if source == path and name not in DIGESTS:
        why = f"{folder} is not there" if name == "cifar10" else "its digest is not known"
        warnings.warn(f"{path} cannot be verified: {why}", stacklevel=3)
    if fresh:
        _write(path, arrays)
    return arrays


def _unlike(name: str, key: str, array: np.ndarray) -> str:
    """How an array's type, shape or range is not that of the official data; nothing where they are."""
    train, test, image, classes = SHAPES[name]
    count = train if key.startswith("train") else test
    kind, shape = ("uint8", (count, *image)) if key.endswith("x") else ("int64", (count,))
    if array.dtype != kind or array.shape != shape:
        return f"{key} is {array.dtype} {array.shape}, not {kind} {shape}"
    if key.endswith("y") and not 0 <= array.min() <= array.max() < classes:
        return f"{key} is in {array.min()}..{array.max()}, not in 0..{classes - 1}"
    return ""


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as raw, zipfile.ZipFile(raw):  # numpy leaves a damaged file open
            raw.seek(0)
            with np.load(raw, allow_pickle=False) as file:
                return {k: file[k] for k in KEYS}
    except Exception as error:  # numpy, zipfile and zlib raise many kinds, with one remedy
        raise DataError(
            f"{path} is damaged or not a data file ({type(error).__name__}): delete it and load again"
        ) from error


def _batches(folder: Path) -> dict[str, np.ndarray]:
    """CIFAR-10 from torchvision's files; none is opened before its MD5 is right."""
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


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # no key is `allow_pickle`
        partial.replace(path)
    except OSError as error:  # the data are good; only the copy for the next time is missing
        partial.unlink(missing_ok=True)
        warnings.warn(f"{path} could not be written ({error.strerror})", stacklevel=3)


def _download(name: str, root: Path) -> dict[str, np.ndarray]:
    import torchvision

    dataset = getattr(torchvision.datasets, TORCHVISION[name])
    part = {"split": "balanced"} if name == "emnist" else {}
    arrays = {}
    with _downloading(name, root / f"{name}.npz", "digits"):
        root.mkdir(parents=True, exist_ok=True)
        for split in ("train", "test"):
            data = dataset(str(root), train=split == "train", download=True, **part)
            x = np.asarray(data.data)
            x = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2)
            arrays[f"{split}_x"] = np.ascontiguousarray(x, dtype=np.uint8)
            arrays[f"{split}_y"] = np.asarray(data.targets, dtype=np.int64)
        if name == "cifar10":  # its pickles, for these alone have known sums
            arrays = _batches(root / BATCHES)
    return arrays


@contextmanager
def _downloading(name: str, path: Path, instead: str) -> Iterator[None]:
    """Where nothing answers, gives up soon; what goes wrong is one `DataError`, with the remedy."""
    patience = socket.getdefaulttimeout()
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
        socket.setdefaulttimeout(patience)
