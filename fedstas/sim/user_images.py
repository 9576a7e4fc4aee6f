"""Tasks from folders of images of the user's."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedstas.arrays import PLAIN_DECIMAL
from fedstas.errors import InputError, check_int
from fedstas.sim.tasks import Task
from fedstas.sim.user_arrays import from_arrays

# Names of the folders of a split, in place of classes.
SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test"}
SPLITS |= dict.fromkeys(("val", "valid", "validation"), "val")


def from_folder(path, size: int = 32, *, client: str | None = None, network: str = "") -> Task:
    r"""Make a task of a folder of images as torchvision lays it out: FOLDER/CLASS/IMAGE, or FOLDER/train and
    FOLDER/test with the same classes in each; without `test`, `val` is the test set.

    Classes are numbered in the order of their names; where all are whole numbers, 9 comes before 10. Images are turned
    as their camera says, put on white where they are transparent, and in colour, resized to size x size pixels and scaled to [-1, 1]; grey
    ones of 16 bits keep their range. Hidden files and folders are left out, other files with a warning.

    Args:
        path: the folder.
        size: of an image, in pixels.
        client: whose an image is. None: nobody's. "folder": folders of clients are above those of classes, as in
            FOLDER/CLIENT/CLASS/IMAGE. Else a regular expression that is searched in CLASS/IMAGE, and whose group is
            the client, as in "patient([0-9]+)".
        network: as in `tasks.load`.
    """
    size, folder = check_int("size", size, 1), Path(path)
    find_client = _client_pattern(client)
    splits = {SPLITS[n.lower()]: n for n in _folders(folder) if n.lower() in SPLITS}
    if not splits:
        classes, x, y, users = _read_images(folder, size, client, find_client)
        return from_arrays(x, y, users=users, network=network)
    evaluated = "test" if "test" in splits else "val"
    others = [n for n in _folders(folder) if n not in (splits.get("train"), splits.get(evaluated))]
    if "train" not in splits or evaluated not in splits:
        names = ", ".join(_folders(folder))
        reason = "it must hold a folder for each class, or train and test"
        raise InputError(f"{folder} has the folders {names}: {reason}")
    if others:
        warnings.warn(f"{folder}: {', '.join(others)} is left out", stacklevel=2)
    train, test = folder / splits["train"], folder / splits[evaluated]
    classes, x, y, users = _read_images(train, size, client, find_client)
    test_classes, test_x, test_y, test_users = _read_images(test, size, client, find_client)
    if test_classes != classes:
        have = f"the classes {', '.join(test_classes)}, not {', '.join(classes)}"
        raise InputError(f"{test} has {have}")
    whose: dict = {"users": users, "test_users": test_users}
    return from_arrays(x, y, test_x, test_y, **whose, network=network)


def _client_pattern(client: str | None) -> Callable[[str], re.Match | None] | None:
    """Return the search of a regular expression with one group; None if clients are no pattern."""
    if client in (None, "folder"):
        return None
    try:
        pattern = re.compile(str(client))
    except re.error as error:
        raise InputError(f"client is {client!r}, which is no regular expression: {error}") from None
    if pattern.groups != 1:
        raise InputError(f"client is {client!r}: it must be 'folder', or have one group, as (\\w+)")
    return pattern.search


def _subfolders(place: Path) -> list[str]:
    """Return the names of the folders in a folder, ascending, without hidden ones; perhaps none."""
    names = sorted(each.name for each in place.iterdir() if each.is_dir())
    return [name for name in names if name[0] != "." and name != "__MACOSX"]


def _folders(place: Path) -> list[str]:
    """Return the names of the folders in a folder as `_subfolders` does; `InputError` if there are none."""
    try:
        names = _subfolders(place)
    except OSError as error:
        raise InputError(f"{place} is no folder of images by class: {error}") from error
    if not names:
        raise InputError(f"{place} is no folder of images by class: it has no folders")
    return names


def _read_images(place: Path, size: int, client: str | None, find_client):
    """Read a folder: the names of its classes, images [n, 3, size, size], labels [n], and clients [n] or None."""
    by_client = _folders(place) if client == "folder" else [""]
    pairs = [(owner, name) for owner in by_client for name in _folders(place / owner)]
    classes = sorted({name for _, name in pairs})
    if all(PLAIN_DECIMAL.fullmatch(name) for name in classes):
        classes.sort(key=int)  # class 9 before class 10
    inside = [_subfolders(place / name) for _, name in pairs] if client is None else []
    times = Counter(name for folders in inside for name in folders)
    if shared := [name for name in sorted(times) if times[name] > 1]:
        message = (
            f"{place}: the classes are {', '.join(classes[:2])}, ..., and several have the folders {', '.join(shared[:2])}, "
            "...: if these are the classes, and those above are clients, use client='folder'"
        )
        warnings.warn(message, stacklevel=3)
    pixels, labels, clients = [], [], []
    for owner, name in pairs:
        folder = place / owner / name
        for file in _image_files(folder):
            pixels.append(_read_image(file, size))
            labels.append(classes.index(name))
            if find_client is not None:
                match = find_client(file.relative_to(place).as_posix())
                if not match:
                    raise InputError(f"{file}: no client is found by client={client!r}")
                if match.start(1) < len(name):
                    raise InputError(
                        f"client={client!r} finds the client in {name}, which is the folder of a class: if folders of "
                        "clients are above those of classes, use client='folder'"
                    )
                owner = match[1]
            clients.append(owner)
    x = np.stack(pixels).transpose(0, 3, 1, 2).astype(np.float32) / 127.5 - 1
    return classes, x, np.array(labels), None if client is None else np.array(clients)


def _image_files(folder: Path) -> list[Path]:
    """Return the image files below a folder in torchvision's order, without hidden ones; others with a warning."""
    from torchvision.datasets.folder import IMG_EXTENSIONS

    images, others = [], []
    for root, _, files in sorted(os.walk(folder, followlinks=True)):
        if any(part.startswith(".") for part in Path(root).relative_to(folder).parts):
            continue
        for name in sorted(files):
            if name.lower().endswith(IMG_EXTENSIONS) and name[0] != ".":
                images.append(Path(root, name))
            elif name[0] != "." and name not in ("Thumbs.db", "desktop.ini"):
                others.append(name)
    if not images:
        raise InputError(
            f"{folder} has no images: its files must end in {', '.join(IMG_EXTENSIONS)}"
        )
    if others:
        count = f"{len(others)} file{'s' * (len(others) > 1)} that are no images"
        warnings.warn(f"{folder}: {count} ({others[0]}, ...) are left out", stacklevel=4)
    return images


def _read_image(file: Path, size: int) -> np.ndarray:
    """Read an image in colour, [size, size, 3] in 0..255."""
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as opened:
            image = ImageOps.exif_transpose(opened)
            if "A" in image.mode or "transparency" in image.info:  # on white, as it is seen
                image = image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
            if image.mode[0] not in "IF":
                return np.asarray(image.convert("RGB").resize((size, size)))
            grey = np.asarray(image).astype(np.float32)  # of 16 bits, or more
            if image.mode == "F" or grey.min() < 0 or grey.max() > 65535:
                raise InputError(f"{file} has values outside 0..65535: save it with 8 or 16 bits")
            to_255 = grey / 257  # from 0..65535
            resized = np.asarray(Image.fromarray(to_255).resize((size, size)))
            return np.repeat(resized[..., None], 3, axis=2)
    except InputError:
        raise
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{file} cannot be read as an image: {error}") from error
