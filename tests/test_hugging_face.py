"""Tasks from datasets of Hugging Face: with the library where it is installed, and with an object of its interface."""

import numpy as np
import pytest
from PIL import Image

from fedstas import user_data
from fedstas.errors import InputError


class ClassLabel:
    """A column's type, whose values are places in `names`."""

    def __init__(self, names):
        self.names = names


class Standin:
    """What `from_hugging_face` uses of `datasets.Dataset`."""

    def __init__(self, columns, names=None):
        self.columns, self.column_names = columns, list(columns)
        self.features = dict.fromkeys(columns) | ({"label": ClassLabel(names)} if names else {})

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name):
        return self.columns[name]


def make_dataset(columns, names=None):
    """Make a dataset of the library itself."""
    datasets = pytest.importorskip(
        "datasets", reason="needs the extra datasets: pip install datasets"
    )
    dataset = datasets.Dataset.from_dict(columns)
    return dataset.cast_column("label", datasets.ClassLabel(names=names)) if names else dataset


@pytest.fixture(params=[Standin, make_dataset], ids=["stand-in", "library"])
def make_data(request):
    """Return a function that makes a dataset of columns: a stand-in, and one of the library."""
    return request.param


COLUMNS = {
    "age": [float(k) for k in range(20)],
    "score": list(range(20)),
    "label": [k % 2 for k in range(20)],
    "clinic": ["b", "a", "a", "c"] * 5,
}


def test_columns_of_numbers_with_clients_and_a_test_split(make_data):
    data = {
        "train": make_data(COLUMNS),
        "validation": make_data({k: v[:4] for k, v in COLUMNS.items()}),
    }
    task = user_data.from_hugging_face(data, "label", ["age", "score"], client="clinic")
    assert task.train_x[3].tolist() == [3.0, 3.0] and task.train_x.shape == (20, 2)
    assert task.users[:4].tolist() == task.test_users.tolist() == [1, 0, 0, 2]
    without = {
        "train": data["train"],
        "test": make_data({k: v[:4] for k, v in COLUMNS.items() if k != "clinic"}),
    }
    task = user_data.from_hugging_face(without, "label", "age", client="clinic")
    assert task.test_users is None and task.train_x.shape == (20, 1)


def test_images_keep_their_channels_and_classes_their_numbers(make_data):
    grey = [Image.fromarray(np.full((4, 6), k, np.uint8)) for k in range(20)]
    task = user_data.from_hugging_face(
        make_data({"image": grey, "label": COLUMNS["label"]}, names=["zebra", "ant"]),
        "label",
        "image",
    )
    assert task.train_x.shape == (16, 1, 4, 6) and task.train_y[:4].tolist() == [0, 1, 0, 1]
    assert task.train_x[5].unique().tolist() == [np.float32(5) / np.float32(255)]
    colour = [*grey[:-1], Image.new("RGB", (6, 4), (255, 0, 0))]
    task = user_data.from_hugging_face(
        make_data({"image": colour, "label": COLUMNS["label"]}), "label", "image"
    )
    assert task.train_x.shape == (16, 3, 4, 6)
    assert task.test_x[-1, :, 0, 0].tolist() == [1.0, 0.0, 0.0]


def test_classes_named_by_words_are_numbered_in_alphabetical_order(make_data):
    data = make_data(COLUMNS | {"label": ["yes", "no"] * 10})
    assert user_data.from_hugging_face(data, "label", ["age"]).train_y[:2].tolist() == [1, 0]
    data = make_data(COLUMNS | {"label": [True, False] * 10})
    assert user_data.from_hugging_face(data, "label", ["age"]).train_y[:2].tolist() == [1, 0]


def test_data_that_do_not_fit_are_refused_in_one_sentence(make_data):
    sizes = [Image.new("L", (4 + k // 19, 4)) for k in range(20)]
    for data, options, message in (
        (
            make_data(COLUMNS),
            {"x": "agee"},
            "train has no column agee: it has age, score, label, clinic",
        ),
        (make_data(COLUMNS), {"x": "age", "client": "ward"}, "train has no column ward"),
        (
            make_data(COLUMNS),
            {"x": "clinic"},
            "train: column clinic holds words: make numbers of them",
        ),
        (
            {"test": make_data(COLUMNS)},
            {"x": "age"},
            "the splits are test: one must be named train",
        ),
        (iter([]), {"x": "age"}, "train is a .*iterator: give one that is loaded, not streamed"),
        (
            make_data(COLUMNS | {"label": [0.5, 1.5] * 10}),
            {"x": "age"},
            "train: column label .*0.5",
        ),
        (
            make_data(COLUMNS | {"i": sizes}),
            {"x": "i"},
            "images of 4 x 4 and 5 x 4 pixels: resize them",
        ),
        (
            make_data(COLUMNS | {"a": [[1.0]] * 19 + [[1.0, 2.0]]}),
            {"x": "a"},
            "must have one length",
        ),
    ):
        with pytest.raises(InputError, match=message):
            user_data.from_hugging_face(data, "label", **options)
