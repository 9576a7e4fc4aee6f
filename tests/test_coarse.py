"""CIFAR-100 by its superclasses: the table against the names, the tasks against the images."""

import numpy as np
import pytest

from fedstas import tasks
from fedstas.errors import DataError
from fedstas.sim import coarse

# The official list, in the order of its numbers; classes are numbered in alphabetical order.
SUPERCLASSES = {
    "aquatic mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food containers": "bottle bowl can cup plate",
    "fruit and vegetables": "apple mushroom orange pear sweet_pepper",
    "household electrical devices": "clock keyboard lamp telephone television",
    "household furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large carnivores": "bear leopard lion tiger wolf",
    "large man-made outdoor things": "bridge castle house road skyscraper",
    "large natural outdoor scenes": "cloud forest mountain plain sea",
    "large omnivores and herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium-sized mammals": "fox porcupine possum raccoon skunk",
    "non-insect invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles 1": "bicycle bus motorcycle pickup_truck train",
    "vehicles 2": "lawn_mower rocket streetcar tank tractor",
}


def test_the_superclass_table_agrees_with_the_official_names():
    number = {name: k for k, names in enumerate(SUPERCLASSES.values()) for name in names.split()}
    assert len(number) == 100
    assert coarse.COARSE.tolist() == [number[name] for name in sorted(number)]
    assert np.bincount(coarse.COARSE).tolist() == [5] * 20


@pytest.fixture
def tiny_cifar100(tmp_path, monkeypatch):
    """Write a tiny official `cifar100`, two training images and one test image of each class; return its arrays."""
    rng, arrays = np.random.default_rng(0), {}
    for split, per_class in (("train", 2), ("test", 1)):
        arrays[f"{split}_x"] = rng.integers(0, 256, (100 * per_class, 3, 32, 32), dtype=np.uint8)
        arrays[f"{split}_y"] = rng.permutation(np.arange(100 * per_class) % 100)
    np.savez(tmp_path / "cifar100.npz", **arrays)
    monkeypatch.setitem(tasks.DIGESTS, "cifar100", tasks.array_digests(arrays))
    monkeypatch.setitem(tasks.SHAPES, "cifar100", (200, 100, (3, 32, 32), 100))
    return arrays


@pytest.mark.parametrize(("name", "classes"), coarse.CLASSES.items())
def test_a_task_has_the_images_of_its_superclasses_in_their_order(
    tiny_cifar100, tmp_path, name, classes
):
    task, cifar100 = (tasks.load(n, root=tmp_path) for n in (name, "cifar100"))
    assert (task.name, task.classes) == (name, classes)
    for split, per_class in (("train", 10), ("test", 5)):
        x, y = getattr(task, f"{split}_x"), getattr(task, f"{split}_y")
        fine_labels = getattr(cifar100, f"{split}_y").numpy()
        rows = [i for i, label in enumerate(fine_labels) if coarse.COARSE[label] < classes]
        assert np.bincount(y).tolist() == [per_class] * classes
        assert y.tolist() == coarse.COARSE[fine_labels[rows]].tolist()
        np.testing.assert_array_equal(x.numpy(), getattr(cifar100, f"{split}_x").numpy()[rows])
    assert (
        len({cifar100.digest, *(tasks.load(n, root=tmp_path).digest for n in coarse.CLASSES)}) == 3
    )
    assert task.model(0).output.out_features == classes
    assert [p.name for p in tmp_path.iterdir()] == ["cifar100.npz"]  # nothing is written beside it


def test_data_other_than_the_official_cifar100_are_refused(tiny_cifar100, tmp_path):
    np.savez(
        tmp_path / "cifar100.npz", **tiny_cifar100 | {"train_y": tiny_cifar100["train_y"][::-1]}
    )
    with pytest.raises(
        DataError, match=r"does not hold the official cifar100 data .*train_y differs"
    ):
        tasks.load("cifar100-coarse10", root=tmp_path)


DIGESTS = {
    "cifar100-coarse10": "8149ec23fd4abc79bfba8d358b25b9ec460d6122b61dfaff97809cb9f665a61d",
    "cifar100-coarse": "2475e0b07fa5b81dce4e01fe78b79ee384ee7dbf04f9be7c1fa26f0bf5bc37ed",
}


def test_the_real_tasks_are_balanced_and_have_the_recorded_digests(real_data):
    real_data("cifar100")
    for name, digest in DIGESTS.items():
        task, classes = tasks.load(name), coarse.CLASSES[name]
        assert np.bincount(task.train_y).tolist() == [2500] * classes
        assert np.bincount(task.test_y).tolist() == [500] * classes
        assert task.digest == digest
