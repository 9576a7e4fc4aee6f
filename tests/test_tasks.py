"""Data sets: read, verified, downloaded, or refused with the file's name and the remedy."""

import hashlib
import io
import pickle
import shutil
import urllib.error
import zipfile
from collections import Counter

import numpy as np
import pytest
import torch

from fedstas import tasks
from fedstas.errors import DataError, InputError

RNG = np.random.default_rng(0)
ARRAYS = {
    "train_x": RNG.integers(0, 256, (40, 1, 28, 28), dtype=np.uint8),
    "train_y": np.arange(40, dtype=np.int64) % 10,
    "test_x": RNG.integers(0, 256, (20, 1, 28, 28), dtype=np.uint8),
    "test_y": np.arange(20, dtype=np.int64) % 10,
}


class OfficialData:
    """A stand-in for torchvision's data set, in its layout."""

    def __init__(self, root, train, download):
        assert download
        part = "train" if train else "test"
        self.data = torch.from_numpy(ARRAYS[f"{part}_x"][:, 0])
        self.targets = torch.from_numpy(ARRAYS[f"{part}_y"])


def raise_unreachable(*_, **__):
    """Fail as a download without a network does."""
    raise urllib.error.URLError("Name or service not known")


@pytest.fixture
def mnist(monkeypatch):
    """Make a tiny `mnist` the official one, and downloads fail."""
    monkeypatch.setitem(tasks.DIGESTS, "mnist", tasks.array_digests(ARRAYS))
    monkeypatch.setitem(tasks.SHAPES, "mnist", (40, 20, (1, 28, 28), 10))
    monkeypatch.setattr("torchvision.datasets.MNIST", raise_unreachable)
    monkeypatch.setattr("torchvision.datasets.CIFAR10", raise_unreachable)
    monkeypatch.setattr("torchvision.datasets.EMNIST", raise_unreachable)


def file_names(folder):
    """Return the names of all files below a folder."""
    return sorted(p.name for p in folder.rglob("*") if p.is_file())


def test_digits_load_without_a_network_and_a_fifth_is_the_test_set(digits, mnist):
    task = tasks.load("digits")
    assert task.train_x.shape == (1438, 1, 8, 8)
    assert task.test_x.shape == (359, 1, 8, 8)
    assert task.classes == 10
    assert task.digest == digits.digest
    assert torch.equal(task.train_x, digits.train_x)
    assert task.train_x.min() == 0
    assert task.train_x.max() == 1


def test_tensors_are_float_images_and_integer_labels(digits):
    for split in ("train", "test"):
        x, y = getattr(digits, f"{split}_x"), getattr(digits, f"{split}_y")
        assert (x.dtype, y.dtype) == (torch.float32, torch.int64)
        assert x.ndim == 4
        assert len(x) == len(y)
    assert digits.device == torch.device("cpu")
    assert torch.equal(digits.to("cpu").train_x, digits.train_x)


def test_the_initial_model_depends_on_the_seed_only(digits):
    torch.manual_seed(123)
    state = torch.get_rng_state()
    first, second, another_seed = digits.model(4), digits.model(4), digits.model(5)
    assert torch.equal(torch.get_rng_state(), state)  # and leaves the global generator alone
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)
    )
    assert not torch.equal(first.hidden.weight, another_seed.hidden.weight)


def test_an_existing_file_is_read_and_scaled(tmp_path, mnist):
    np.savez(tmp_path / "mnist.npz", **ARRAYS)
    task = tasks.load("mnist", root=tmp_path)
    np.testing.assert_array_equal(task.train_x.numpy(), np.float32(ARRAYS["train_x"]) / 255)
    np.testing.assert_array_equal(task.test_y.numpy(), ARRAYS["test_y"])
    assert task.classes == 10


def test_the_folder_is_the_argument_then_the_environment_then_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSTAS_DATA", str(tmp_path / "env"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert tasks.data_folder(tmp_path / "here") == tmp_path / "here"
    assert tasks.data_folder() == tmp_path / "env"
    monkeypatch.delenv("FEDSTAS_DATA")
    assert tasks.data_folder() == tmp_path / "cache" / "fedstas"


def test_a_download_is_stored_as_npz_and_read_from_it_later(tmp_path, mnist, monkeypatch):
    monkeypatch.setattr("torchvision.datasets.MNIST", OfficialData)
    first = tasks.load("mnist", root=tmp_path / "new")
    assert file_names(tmp_path) == ["mnist.npz"]
    monkeypatch.setattr("torchvision.datasets.MNIST", raise_unreachable)
    second = tasks.load("mnist", root=tmp_path / "new")
    assert first.digest == second.digest
    for key in tasks.KEYS:
        assert torch.equal(getattr(first, key), getattr(second, key))


@pytest.mark.parametrize(
    ("name", "split", "sizes"),
    [
        ("emnist", "balanced", (112_800, 18_800, (1, 28, 28), 47)),
        ("emnist-byclass", "byclass", (697_932, 116_323, (1, 28, 28), 62)),
    ],
)
def test_a_task_of_emnist_is_its_split_and_reading_its_copy_warns_that_it_is_not_verified(
    name, split, sizes, tmp_path, mnist, monkeypatch
):
    splits = []

    def load_split(root, split, **options):
        splits.append(split)
        return OfficialData(root, **options)

    assert tasks.SHAPES[name] == sizes
    monkeypatch.setitem(tasks.SHAPES, name, (40, 20, (1, 28, 28), 10))
    monkeypatch.setattr("torchvision.datasets.EMNIST", load_split)
    first = tasks.load(name, root=tmp_path)
    assert set(splits) == {split}
    with pytest.warns(UserWarning, match=f"{name}.npz cannot be verified: its digest is not known"):
        assert tasks.load(name, root=tmp_path).digest == first.digest
    assert type(first.model(0)).__name__ == "Perceptron"


PIXELS = RNG.integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)


@pytest.fixture
def cifar_folder(tmp_path, monkeypatch):
    """Return torchvision's folder of a tiny official `cifar10`, two images a file; downloads fail."""
    folder = tmp_path / tasks.BATCHES
    folder.mkdir()
    for k, name in enumerate(tasks.FILES):
        rows = PIXELS[2 * k : 2 * k + 2].transpose(0, 3, 1, 2).reshape(2, 3072)
        (folder / name).write_bytes(pickle.dumps({"data": rows, "labels": [k, 9 - k]}))
        md5 = hashlib.md5((folder / name).read_bytes()).hexdigest()
        monkeypatch.setitem(tasks.FILES, name, md5)
    monkeypatch.setitem(tasks.SHAPES, "cifar10", (10, 2, (3, 32, 32), 10))
    monkeypatch.setitem(tasks.DIGESTS, "cifar10", tasks.array_digests(tasks._read_cifar10(folder)))
    monkeypatch.setattr("torchvision.datasets.CIFAR10", raise_unreachable)
    return folder


def test_cifar10_is_read_from_the_verified_files_channels_first_and_scaled(tmp_path, cifar_folder):
    task = tasks.load("cifar10", root=tmp_path)
    expected = (PIXELS.transpose(0, 3, 1, 2) / 255 - 0.5) / 0.5
    np.testing.assert_allclose(task.train_x.numpy(), expected[:10], atol=1e-6)
    np.testing.assert_allclose(task.test_x.numpy(), expected[10:], atol=1e-6)
    assert task.train_y.tolist() == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    assert task.test_y.tolist() == [5, 4]
    assert type(task.model(0)).__name__ == "Convolutional"
    # The copy alone is the same task, under the same digest.
    shutil.rmtree(cifar_folder)
    assert tasks.load("cifar10", root=tmp_path).digest == task.digest


@pytest.mark.parametrize("name", [*tasks.FILES])
def test_a_cifar10_file_that_is_not_the_official_one_is_refused_before_it_is_unpickled(
    tmp_path, cifar_folder, name, monkeypatch
):
    tasks.load("cifar10", root=tmp_path)  # leaves a good copy, which does not hide the bad file
    path = cifar_folder / name
    path.write_bytes(path.read_bytes()[:-1])
    unpickled, loads = [], pickle.loads
    monkeypatch.setattr(
        tasks.pickle,
        "loads",
        lambda data, **options: (unpickled.append(data), loads(data, **options))[1],
    )
    with pytest.raises(DataError, match=rf"{name} is missing or not the official.*delete"):
        tasks.load("cifar10", root=tmp_path)
    assert path.read_bytes() not in unpickled
    path.unlink()
    with pytest.raises(DataError, match=rf"{name} is missing"):
        tasks.load("cifar10", root=tmp_path)


def test_the_checksums_of_cifar10_are_those_of_torchvision():
    from torchvision.datasets import CIFAR10

    assert dict(CIFAR10.train_list + CIFAR10.test_list) == tasks.FILES
    assert CIFAR10.base_folder == tasks.BATCHES


INVALID_CHANGES = {  # the same bytes, and so the same digests, for the first three
    "signed pixels": ("train_x", lambda a: a.view(np.int8)),
    "another shape": ("test_x", lambda a: a.reshape(20, 1, 14, 56)),
    "unsigned labels": ("train_y", lambda a: a.view(np.uint64)),
    "short": ("test_y", lambda a: a[:-1]),
    "pixels as numbers": ("train_x", lambda a: a / 255),
    "eleven classes": ("train_y", lambda a: a + 1),
    "negative labels": ("test_y", lambda a: a - 1),
}


@pytest.mark.parametrize("digest_is_known", [True, False])  # emnist's is not known
@pytest.mark.parametrize("change_name", INVALID_CHANGES)
def test_data_of_another_type_shape_or_range_are_refused(
    tmp_path, mnist, monkeypatch, change_name, digest_is_known
):
    key, change = INVALID_CHANGES[change_name]
    if not digest_is_known:
        monkeypatch.delitem(tasks.DIGESTS, "mnist")
    np.savez(tmp_path / "mnist.npz", **ARRAYS | {key: change(ARRAYS[key])})
    with pytest.raises(
        DataError, match=rf"mnist.npz does not hold.*\({key} is .* not (in )?\w"
    ) as exc_info:
        tasks.load("mnist", root=tmp_path)
    assert "\n" not in str(exc_info.value)


def test_a_download_with_other_data_is_refused_and_not_stored(tmp_path, mnist, monkeypatch):
    class ReversedLabels(OfficialData):
        def __init__(self, **kw):
            super().__init__(**kw)
            self.targets = self.targets.flip(0)

    monkeypatch.setattr(
        "torchvision.datasets.MNIST", lambda root, **kw: ReversedLabels(root=root, **kw)
    )
    with pytest.raises(
        DataError, match=r"MNIST does not hold.*train_y differs, test_y differs.*delete"
    ):
        tasks.load("mnist", root=tmp_path)
    assert file_names(tmp_path) == []


@pytest.mark.parametrize("name", ["mnist", "cifar10", "emnist"])
def test_a_data_set_that_cannot_be_downloaded_is_reported_with_the_remedy(tmp_path, mnist, name):
    with pytest.raises(DataError) as exc_info:
        tasks.load(name, root=tmp_path / "new")
    message = str(exc_info.value)
    assert str(tmp_path / "new" / f"{name}.npz") in message
    for word in ("could not be downloaded", "Name or service not known", "FEDSTAS_DATA", "digits"):
        assert word in message
    assert "\n" not in message
    assert file_names(tmp_path) == []


def test_a_download_that_stops_half_way_leaves_no_npz(tmp_path, mnist, monkeypatch):
    def load_half(root, train, download):
        if train:
            return OfficialData(root, train, download)
        raise ConnectionResetError("connection reset")

    monkeypatch.setattr("torchvision.datasets.MNIST", load_half)
    with pytest.raises(DataError, match="connection reset"):
        tasks.load("mnist", root=tmp_path)
    assert file_names(tmp_path) == []


def test_a_full_disk_causes_a_warning_and_leaves_no_partial_file(tmp_path, mnist, monkeypatch):
    def raise_disk_full(file, **_):
        file.write(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torchvision.datasets.MNIST", OfficialData)
    monkeypatch.setattr(np, "savez", raise_disk_full)
    with pytest.warns(UserWarning, match="mnist.npz could not be written.*No space"):
        task = tasks.load("mnist", root=tmp_path)
    assert len(task.train_y) == 40
    assert file_names(tmp_path) == []


def make_npz(writer=np.savez, **arrays) -> bytes:
    """Return the bytes of an npz file."""
    buffer = io.BytesIO()
    writer(buffer, **arrays)
    return buffer.getvalue()


def change_byte(data: bytes, position: float) -> bytes:
    """Change the byte at a fraction of the length."""
    index = int(len(data) * position)
    return data[:index] + bytes([data[index] ^ 0x55]) + data[index + 1 :]


def make_npy() -> bytes:
    """Return the bytes of an npy file of one array."""
    buffer = io.BytesIO()
    np.save(buffer, ARRAYS["train_x"])
    return buffer.getvalue()


VALID_FILE = make_npz(**ARRAYS)
# Few values, which compress well.
COMPRESSIBLE = ARRAYS | {"train_x": (ARRAYS["train_x"] // 64) * 64}
COMPRESSED_FILE = make_npz(np.savez_compressed, **COMPRESSIBLE)
DAMAGED = {
    "truncated": VALID_FILE[: len(VALID_FILE) // 2],
    "nearly whole": VALID_FILE[:-10],
    "empty": b"",
    "not a data file": b"<html>404 not found</html>",
    "one byte differs": change_byte(VALID_FILE, 0.3),
    "one byte of a compressed file differs": change_byte(COMPRESSED_FILE, 0.3),
    "the start of a compressed array differs": change_byte(COMPRESSED_FILE, 0.0042),
    "a keyed array is missing": make_npz(**{k: v for k, v in ARRAYS.items() if k != "test_y"}),
    "other keys": make_npz(x=ARRAYS["train_x"]),
    "pickled objects": make_npz(**ARRAYS | {"train_y": np.array([{}], dtype=object)}),
    "a single array": make_npy(),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_refused_with_the_remedy_and_not_changed(tmp_path, mnist, damage):
    path = tmp_path / "mnist.npz"
    path.write_bytes(DAMAGED[damage])
    with pytest.raises(DataError) as exc_info:
        tasks.load("mnist", root=tmp_path)
    assert str(path) in str(exc_info.value)
    assert "delete it and load again" in str(exc_info.value)
    assert "\n" not in str(exc_info.value)
    assert path.read_bytes() == DAMAGED[damage]
    assert file_names(tmp_path) == ["mnist.npz"]


@pytest.mark.parametrize(
    ("damage", "lacks"),
    [
        ("a keyed array is missing", "array test_y"),
        ("other keys", f"arrays {', '.join(tasks.KEYS)}"),
    ],
)
def test_a_file_that_lacks_an_array_is_refused_with_its_name(tmp_path, mnist, damage, lacks):
    path = tmp_path / "mnist.npz"
    path.write_bytes(DAMAGED[damage])
    with pytest.raises(DataError) as exc_info:
        tasks.load("mnist", root=tmp_path)
    assert str(exc_info.value) == (
        f"{path} is damaged or not a data file (it lacks the {lacks}): delete it and load again"
    )


def test_a_file_of_other_data_is_refused_with_the_array_that_differs(tmp_path, mnist):
    altered = ARRAYS | {"test_x": ARRAYS["test_x"] ^ 1}
    np.savez(tmp_path / "mnist.npz", **altered)
    with pytest.raises(DataError, match=r"mnist.npz does not hold.*\(test_x differs\)"):
        tasks.load("mnist", root=tmp_path)


def test_labels_of_another_type_are_refused(tmp_path, mnist):
    np.savez(tmp_path / "mnist.npz", **ARRAYS | {"train_y": ARRAYS["train_y"].astype(np.int32)})
    with pytest.raises(DataError, match=r"train_y is int32 \(40,\), not int64"):
        tasks.load("mnist", root=tmp_path)


def test_unknown_tasks_and_devices_are_refused():
    with pytest.raises(
        InputError,
        match=r"unknown task 'femnist'( \(did you mean emnist\?\))?: use one of digits, mnist",
    ):
        tasks.load("femnist")
    with pytest.raises(InputError, match=r"unknown device 'tpu': use one of auto, cpu, cuda"):
        tasks.load("digits", device="tpu")


def test_cuda_is_refused_where_there_is_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=r"'cuda' was asked for.*use cpu or auto"):
        tasks.load("digits", device="cuda")
    assert tasks.find_device("auto") == torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "train", "shape", "classes"),
    [
        ("mnist", 60_000, (1, 28, 28), 10),
        ("fashion-mnist", 60_000, (1, 28, 28), 10),
        ("cifar10", 50_000, (3, 32, 32), 10),
        ("cifar100", 50_000, (3, 32, 32), 100),
    ],
)
def test_the_official_data_are_verified_and_scaled(real_data, name, train, shape, classes):
    task = real_data(name)
    assert task.train_x.shape == (train, *shape)
    assert len(task.test_x) == 10_000
    assert task.classes == classes
    low = -1.0 if name.startswith("cifar") else 0.0
    assert (task.train_x.min().item(), task.train_x.max().item()) == (low, 1.0)
    assert torch.bincount(task.train_y).min() > 0


def test_a_truncated_official_file_is_refused(real_data, tmp_path):
    real_data("mnist")
    copy = tmp_path / "mnist.npz"
    shutil.copy(tasks.data_folder() / "mnist.npz", copy)
    with copy.open("r+b") as file:
        file.truncate(copy.stat().st_size // 3)
    assert not zipfile.is_zipfile(copy)
    with pytest.raises(DataError, match=r"mnist.npz is damaged.*delete"):
        tasks.load("mnist", root=tmp_path)


def test_a_task_to_tune_on_has_a_tenth_of_each_class_and_nothing_of_the_test_set():
    full, tuning = tasks.load("digits"), tasks.load("digits-validation")
    counts = np.bincount(full.train_y)
    np.testing.assert_array_equal(np.bincount(tuning.test_y), np.ceil(counts / 10))
    np.testing.assert_array_equal(np.bincount(tuning.train_y) + np.bincount(tuning.test_y), counts)
    rows = sorted(map(bytes, full.train_x.numpy()))
    tuning_images = [*tuning.train_x.numpy(), *tuning.test_x.numpy()]
    assert sorted(map(bytes, tuning_images)) == rows
    second = tasks.load("digits-validation")
    assert second.digest == tuning.digest != full.digest
    assert torch.equal(second.test_x, tuning.test_x)


def test_a_task_to_tune_on_keeps_the_users_of_its_examples():
    full, tuning = tasks.load("topics"), tasks.load("topics-validation")
    assert len(tuning.users) == len(tuning.train_y) < len(full.users)

    def triples(task):
        rows = zip(task.train_x.numpy(), task.train_y, task.users, strict=True)
        return Counter((bytes(x), int(y), int(user)) for x, y, user in rows)

    assert triples(tuning) < triples(full)


def test_a_task_to_tune_on_is_of_a_known_task():
    with pytest.raises(InputError, match="unknown task 'digit' "):
        tasks.load("digit-validation")
