"""What public reports of federated and data libraries tried: the right value, or one sentence that names the cause.

In brackets stand the repositories and numbers of the reports whose kind of input is tried.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy.sparse import csr_array
from torch import nn

from fedstas import models, partition, tasks, user_data
from fedstas.client_sampling import draw_cohort
from fedstas.errors import DataError, InputError
from fedstas.sim.csv_files import NUMBER

X = np.arange(40, dtype=float).reshape(20, 2)
Y = np.repeat([0, 1], 10)
COLOURS = ["red", "blue", "red", "green"] * 5


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)


def write_table(header: str, rows, name: str = "t.csv", **options) -> str:
    """Write a table with this header, of words with commas between them, and return its name."""
    with Path(name).open("w", newline="", encoding=options.pop("encoding", "utf-8")) as file:
        csv.writer(file, **options).writerows([header.split(","), *rows])
    return name


def patients(*columns, header="a,kind"):
    """Write a table of these columns and a last one of the classes a and b in turns; return its name."""
    kinds = ["ab"[k % 2] for k in range(len(columns[0]))]
    return write_table(header, zip(*columns, kinds, strict=True))


# Values


def test_users_and_names_of_clients_may_be_lists_words_and_columns():
    """A list of users is no name; "01" is not "1" [raphtory 1315, onecodex 200]; twenty digits are a word."""
    assert partition.natural([0, 1, 0, 1], ["a", "a", "b", "b"], 2, 0).sizes.tolist() == [2, 2]
    for users in (
        [3, 3, 1, 1],
        [3.0, 3.0, 1.0, 1.0],
        pd.Series(["b", "b", "a", "a"]),
        [b"z", b"z", b"y", b"y"],
    ):
        federation = partition.natural(np.array([0, 1, 0, 1]), users, 2, 0)
        assert [s.tolist() for s in federation.shards] == [[2, 3], [0, 1]]
    for names in (["01", "1", "1_0", "１"], ["10", "9", "90" * 10, "91" * 10]):
        assert partition.natural([0, 0, 0, 0], names, 4, 0).sizes.tolist() == [1] * 4
        table = write_table("clinic", [[name] for name in names])
        assert partition.make(f"{table}:clinic", [0, 1, 0, 1]).sizes.tolist() == [1] * 4
    assert [s.tolist() for s in partition.natural([0, 0], ["10", "9"], 2, 0).shards] == [[1], [0]]


def test_shards_may_be_masks_or_a_mapping_by_client():
    """[FedLab 234]"""
    labels = np.array([0, 1, 1, 2])
    masks = partition.federation(labels, [[True, False, True, False], np.zeros(4, bool)])
    assert [s.tolist() for s in masks.shards] == [[0, 2], []] and masks.label_counts[0].sum() == 2
    by_name = partition.federation(labels, {"10": [0], "9": range(1, 3), "2": torch.tensor([3])})
    assert [s.tolist() for s in by_name.shards] == [[3], [1, 2], [0]]
    assert by_name.label_counts.tolist() == [[0, 0, 1], [0, 2, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    "values",
    [
        1.6e9 + np.arange(40),
        pd.date_range("2020-01-20", periods=40).strftime("%Y%m%d"),
        1e-50 * np.arange(40),
        1.7e308 * np.linspace(-1, 1, 40),
        1e39 * np.arange(40),
    ],
)
def test_a_column_keeps_its_values_whatever_its_scale(values):
    """A column is scaled before it is rounded to float32 [FATE 1441, scikit-learn 12338]."""
    table = patients(list(map(str, values)))
    rows = Path(table).read_text(encoding="utf-8").splitlines()
    Path("u.csv").write_text("\n".join([rows[0], *rows[:0:-1]]), encoding="utf-8")
    result = user_data.from_csv(table, label="kind", test="u.csv")
    assert len(result.train_x.unique()) == 40
    assert (result.train_x.min(), result.train_x.max()) == (-1, 1)


def test_a_nameless_column_that_counts_the_rows_is_left_out_with_a_warning():
    """pandas writes its index so [datasets 5490]."""
    frame = pd.DataFrame({"size": np.arange(20) % 7, "kind": list("ab") * 10})
    frame.to_csv("t.csv")
    with pytest.warns(
        UserWarning, match=r"t\.csv: column 1 has no name and counts the rows: it is"
    ):
        assert user_data.from_csv("t.csv", label="kind").train_x.shape[1] == 1
    pd.read_csv("t.csv").to_csv("again.csv", index=False)  # now it is called "Unnamed: 0"
    with pytest.warns(UserWarning, match="column 1 has no name"):
        assert user_data.from_csv("again.csv", label="kind").train_x.shape[1] == 1


def test_words_missing_values_other_separators_and_encodings():
    """[flower 3568]"""
    sizes = ["4", "NA", *map(str, range(18))]
    rows = zip(sizes, COLOURS, ["straße", "weg"] * 10, strict=True)
    table = write_table("size,colour,kind", rows, delimiter=";", encoding="latin-1")
    options = {"label": "kind", "sep": ";", "encoding": "latin-1", "words": ["colour"]}
    with pytest.raises(InputError, match=r"line 3: column size is 'NA': a missing value: fill it"):
        user_data.from_csv(table, **options)
    task = user_data.from_csv(table, **options, missing="indicate")
    sizes_scaled, is_missing, *colours = task.train_x.T
    assert is_missing.tolist() == [0, 1] + [0] * 14 and sizes_scaled[1] == pytest.approx(
        float(np.delete(sizes_scaled.numpy(), 1).mean())
    )
    assert torch.stack(colours, 1).argmax(1).tolist()[:4] == [2, 0, 2, 1]  # blue, green, red
    assert (torch.stack(colours).sum(0) == 1).all()
    with pytest.raises(InputError, match=r"t\.csv is not encoded in utf-8.*: name its encoding"):
        user_data.from_csv(table, **options | {"encoding": "utf-8"})
    with pytest.raises(
        InputError, match=r"no column kind: it has size;colour;kind \(is sep ';'\?\)"
    ):
        user_data.from_csv(table, **options | {"sep": ","})
    write_table("size,colour,kind", [(1, "red", "weg"), (1, "", "weg")], "u.csv", delimiter=";")
    with pytest.raises(
        InputError, match=r"u\.csv line 3: column colour is empty: .* or use missing='indicate'"
    ):
        user_data.from_csv("u.csv", **options)
    write_table("size,colour,kind", [(1, "pink", "weg")], "u.csv", delimiter=";")
    with pytest.raises(
        InputError, match=r"u.csv line 2: no training row has in column colour the word pink"
    ):
        user_data.from_csv(
            table, test="u.csv", **options | {"missing": "indicate", "encoding": "latin-1"}
        )


def save_image(file: str, image: Image.Image) -> None:
    """Save an image, in new folders where they are missing."""
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    image.save(file)


def save_images(folder: str, count: int = 5, classes=("cat", "dog")) -> None:
    """Save grey images of each class."""
    for shade, name in enumerate(classes):
        for k in range(count):
            save_image(f"{folder}/{name}/p{k % 2}_{k}.png", Image.new("L", (4, 4), 200 * shade + k))


def test_grey_images_of_16_bits_keep_their_range():
    shades = np.linspace(0, 65535, 20)
    for k, shade in enumerate(shades):
        pixels = np.full((4, 4), shade, dtype=np.uint16)
        save_image(f"one/{'ab'[k % 2]}/{k:02}.png", Image.fromarray(pixels))
    task = user_data.from_folder("one", size=2)
    values = torch.cat([task.train_x, task.test_x])[:, 0, 0, 0].sort().values.numpy()
    np.testing.assert_allclose(values, 2 * np.floor(shades) / 65535 - 1, atol=1e-6)


def test_folders_of_a_split_are_no_classes_and_hidden_ones_nothing():
    """Without `test`, `val` is the test set; with both, `val` is left out with a warning."""
    save_images("d/train")
    with pytest.raises(
        InputError, match="d has the folders train: it must hold a folder for each class, or tr"
    ):
        user_data.from_folder("d")
    save_images("d/val", 2)
    task = user_data.from_folder("d")
    assert (task.classes, len(task.train_y), len(task.test_y)) == (2, 10, 4)
    save_images("d/test", 3)
    with pytest.warns(UserWarning, match="d: val is left out"):
        assert len(user_data.from_folder("d").test_y) == 6
    save_images("d/train", 1, [".ipynb_checkpoints"])
    Path("d/train/cat/._p0_0.png").write_bytes(b"of another system")
    Path("d/train/cat/notes.txt").write_text("no image", encoding="utf-8")
    with pytest.warns(UserWarning, match="1 file that are no images|val is left out"):
        assert len(user_data.from_folder("d").train_y) == 10


def test_images_may_name_their_client():
    save_images("by_client/ann", classes=("cat", "dog"))
    save_images("by_client/bob", 2, ["dog"])
    task = user_data.from_folder("by_client", client="folder")
    assert task.classes == 2 and np.bincount(task.users).tolist() == [8, 2]
    save_images("flat")
    by_pattern = user_data.from_folder("flat", client=r"p(\d)_")
    assert set(by_pattern.users) == {0, 1} and len(by_pattern.users) == 8
    for client, message in (
        (r"q(\d)", "p0_0.png: no client is found by client="),
        (r"p\d", "must be 'folder', or have one group"),
        ("(", "is no regular expression"),
    ):
        with pytest.raises(InputError, match=message):
            user_data.from_folder("flat", client=client)
    with pytest.raises(InputError, match=r"finds the client in ann, .* use client='folder'"):
        user_data.from_folder("by_client", client="(ann|bob)")


def test_folders_of_clients_that_would_be_read_as_classes_are_said():
    for client in ("ann", "bob"):
        save_images(f"hospitals/{client}", classes=("cat", "dog"))
    with pytest.warns(UserWarning, match="classes are ann, bob, .* folders cat, dog, .*'folder'"):
        user_data.from_folder("hospitals")
    save_images("clinics/ann", classes=("cat", "dog"))
    save_images("clinics/bob", classes=("dog",))
    with pytest.warns(UserWarning, match="several have the folders dog, .*'folder'"):
        user_data.from_folder("clinics")


def test_a_photo_is_turned_as_its_camera_says():
    for k in range(10):
        image = Image.new("L", (4, 4), 0)
        image.paste(255, (0, 0, 4, 2))  # white above
        exif = image.getexif()
        exif[274] = 3  # upside down
        Path(f"one/{'ab'[k % 2]}").mkdir(parents=True, exist_ok=True)
        image.save(f"one/{'ab'[k % 2]}/{k}.png", exif=exif)
    x = user_data.from_folder("one", size=4).train_x
    assert (x[:, :, :2] == -1).all() and (x[:, :, 2:] == 1).all()


def test_classes_of_folders_with_numbers_are_in_their_order():
    """[ImageNetV2 10] Class 10 is the third of 2, 9 and 10."""
    save_images("d", classes=("2", "9", "10"))
    x = user_data.from_folder("d", size=2)
    assert [x.train_x[x.train_y == k].min() > -0.1 for k in range(3)] == [False, True, True]
    assert x.train_x[x.train_y == 1].max() < x.train_x[x.train_y == 2].min()


def test_transparent_pixels_are_on_white():
    """[img2dataset 67]"""
    for k in range(10):
        save_image(f"one/{'ab'[k % 2]}/{k}.png", Image.new("RGBA", (4, 4), (0, 0, 0, 0)))
    assert (user_data.from_folder("one", size=4).train_x == 1).all()


def test_decimal_commas_are_read_on_request_and_else_recognised():
    """[pandas 59299]"""
    rows = [(f"{k},5", "ab"[k % 2]) for k in range(20)]
    table = write_table("size,kind", rows, delimiter=";")
    options = {"label": "kind", "sep": ";"}
    x = user_data.from_csv(table, decimal=",", **options).train_x
    assert len(x.unique()) == 16 and x.max() == 1
    with pytest.raises(
        InputError, match=r"line 2: column size is '0,5': .* a decimal comma: decimal"
    ):
        user_data.from_csv(table, **options)
    write_table("size,kind", [("1,000", "a")], delimiter=";")
    with pytest.raises(InputError, match=r"'1,000': .* if ',' separates thousands, remove it"):
        user_data.from_csv(table, **options)
    write_table("size,kind", [("1.234,5", "a")], delimiter=";")
    with pytest.raises(InputError, match=r"line 2: column size is '1\.234,5': it must be a number"):
        user_data.from_csv(table, decimal=",", **options)


def test_a_table_with_zero_bytes_or_a_byte_order_mark():
    """[rows 273, sgn 5700]"""
    Path("t.csv").write_text("size,kind\n1,a\n", encoding="utf-16-le")
    with pytest.raises(
        InputError, match=r"t\.csv line 1 has a character of code 0: name its encoding"
    ):
        user_data.from_csv("t.csv", label="kind")
    text = "kind,size\n" + "a,1\nb,2\n" * 10
    for encoding in ("utf-8-sig", "utf-16"):
        Path("t.csv").write_text(text, encoding=encoding)
        name = encoding.removesuffix("-sig")
        assert user_data.from_csv("t.csv", label="kind", encoding=name).classes == 2


def test_a_test_set_that_is_the_training_set_is_reported():
    """[leaf 33]"""
    with pytest.warns(UserWarning, match="the test set is the training set"):
        user_data.from_arrays(X, Y, X, Y)


class Pairs:
    """A dataset of ten pairs, of torch's kind."""

    def __init__(self, noise=0.0):
        self.noise = noise

    def __len__(self):
        return 10

    def __getitem__(self, k):
        return torch.full((1, 2, 2), float(k)) + self.noise * torch.rand(1), k % 2


def test_a_dataset_of_torch_is_read():
    task = user_data.from_dataset(Pairs(), users=["u"] * 5 + ["v"] * 5)
    assert task.train_x.shape == (8, 1, 2, 2) and set(task.users) == {0, 1}
    for dataset, message in (
        (Pairs(noise=1.0), r"train\[0\] is another each time it is read: leave out augmentation"),
        (iter([]), "train is a list_iterator: it must have a length, and items"),
        (
            [(Image.new("RGB", (4, 4)), 0)] * 10,
            r"train\[0\] has a PIL image: .*transform=ToTensor\(\)",
        ),
        ([1, 2], r"train\[0\] is 1: it must be \(example, label\)"),
        (
            [(np.ones(2), 0), (np.ones(3), 1)],
            r"train\[1\] has shapes .*: an example must be a tensor",
        ),
    ):
        with pytest.raises(InputError, match=message):
            user_data.from_dataset(dataset)


def write_json(content, name: str) -> str:
    """Write a file of JSON and return its name."""
    Path(name).write_text(json.dumps(content), encoding="utf-8")
    return name


def leaf(users, count=10) -> dict:
    """Return the content of a file of LEAF, in which each user has `count` examples of two classes."""
    shard = {"x": [[k, 0.5] for k in range(count)], "y": [3 + 4 * (k % 2) for k in range(count)]}
    data = dict.fromkeys(users, shard)
    return {"users": list(users), "num_samples": [count] * len(users), "user_data": data}


def test_files_of_leaf_are_read():
    """[leaf 49: counts that disagree]"""
    Path("train").mkdir()
    write_json(leaf(["b", "a"]), "train/1.json")
    write_json(leaf(["c"]), "train/2.json")
    task = user_data.from_leaf("train", write_json(leaf(["a"], 4), "test.json"), shape=(1, 2, 1))
    assert task.classes == 2 and task.train_x.shape == (30, 1, 2, 1) and len(task.test_y) == 4
    assert task.users.tolist() == [1] * 10 + [0] * 10 + [2] * 10
    valid = leaf(["a"])
    for changes, message in (
        ({"num_samples": [9]}, "user 'a' has 10 x and 10 y, num_samples 9: they must be as many"),
        ({"users": 3}, "bad.json: users is 3: it must be a list"),
        ({"users": [["a"]]}, r"bad.json: user \['a'\] must be named by a text"),
        ({"num_samples": 10}, "num_samples is 10: it must be a list"),
        ({"user_data": [1]}, r"user_data is \[1\]: it must be an object"),
        ({"user_data": {"a": {"x": [1]}}}, "user 'a' must have lists x and y in user_data"),
        ({"user_data": {"a": {"x": 1, "y": 2}}}, "user 'a' must have lists x and y"),
        ({"users": ["a", "z"], "num_samples": [10, 1]}, "user 'z' has no user_data"),
        ({"users": ["a", "a"], "num_samples": [10, 10]}, "user 'a' is there twice"),
        ({"user_data": {"a": {"x": ["to", "be"] * 5, "y": [3, 7] * 5}}}, "holds examples of text"),
    ):
        with pytest.raises(InputError, match=message):
            user_data.from_leaf(write_json(valid | changes, "bad.json"))
    with pytest.raises(InputError, match="is not of LEAF: it must have users and user_data"):
        user_data.from_leaf(write_json([1], "bad.json"))


class Code:
    """What a pickle of others may hold."""

    def __reduce__(self):
        return print, ("this ran",)


def test_files_of_pfllib_are_read_and_run_no_code(capsys):
    for split, count in (("train", 6), ("test", 2)):
        Path("p", split).mkdir(parents=True)
        for client in range(11):
            data = {"x": np.full((count, 1, 2, 2), client, np.float32), "y": np.arange(count) % 2}
            np.savez_compressed(f"p/{split}/{client}.npz", data=data)
    task = user_data.from_pfllib("p")
    assert task.train_x[:, 0, 0, 0].tolist() == task.users.tolist() == list(np.repeat(range(11), 6))
    assert len(task.test_y) == 22
    np.savez_compressed("p/test/4.npz", data={"x": np.zeros(0), "y": np.zeros(0)})
    assert len(user_data.from_pfllib("p").test_y) == 20
    x, y = np.zeros((6, 1, 2, 2), np.float32), np.arange(6) % 2
    for data, message in (
        (
            {"x": x[:, 0], "y": y},
            r"p/train/3\.npz has examples float32 of shape \(2, 2\), and p/tr",
        ),
        ({"x": x.astype(np.uint8), "y": y}, r"p/train/3\.npz has examples uint8 of shape"),
        ({"x": x, "y": y[1:]}, r"p/train/3\.npz has x .* and y int64 \(5,\): x must be numbers"),
        ({"x": x, "y": list("ababab")}, r"p/train/3\.npz has x .* and y <U1 \(6,\)"),
        ({"x": x, "y": y / 2}, r"p/train/3\.npz has a label that is not whole"),
    ):
        np.savez_compressed("p/train/3.npz", data=data)
        with pytest.raises(InputError, match=message):
            user_data.from_pfllib("p")
    np.savez_compressed("p/train/3.npz", data={"x": Code(), "y": Code()})
    with pytest.raises(
        InputError, match=r"p/train/3\.npz is no client of PFLlib \(Unpickl.* builtins.print"
    ):
        user_data.from_pfllib("p")
    assert "this ran" not in capsys.readouterr().out


def test_a_file_of_indices_names_the_clients():
    labels = np.arange(12) % 2
    federation = partition.make(write_json({"b": [4, 5], "a": [0], "c": []}, "who.json"), labels)
    assert [s.tolist() for s in federation.shards] == [[0], [4, 5], []]
    repeated = partition.from_recipe(labels, federation.recipe)
    assert federation.recipe["name"] == "who.json" and repeated.sizes.tolist() == [1, 2, 0]
    assert partition.make(write_json([[1], [2]], "who.json"), labels, clients=2).sizes.sum() == 2
    for text, message in (
        ('{"a": [12]}', r"who\.json: client 0 has example 12, and there are 12 training examples"),
        ('{"a": [1], "a": [2]}', r"who\.json has the name 'a' twice"),
        ("{", r"who\.json cannot be read as JSON"),
        ("3", r"who\.json holds a int: it must hold"),
    ):
        Path("who.json").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            partition.make("who.json", labels)


def test_devices_have_numbers(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert tasks.find_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(InputError, match="'cuda:2' was asked for, and the last one here is cuda:1"):
        tasks.find_device("cuda:2")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(InputError, match="device 'mps' was asked for, but there is none here"):
        tasks.find_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert tasks.find_device("mps").type == "mps"


# Sentences


def small_table(values) -> str:
    """Write a table of two classes with this column."""
    return patients(values, header="size,kind")


REFUSED = {
    "an index below 0": (
        lambda: partition.federation(Y, [[-1]]),
        "of client 0 are .-1.: .* >= 0 and at most 19",
    ),
    "an index too large": (
        lambda: partition.federation(Y, [[], [20]]),
        "client 1 has example 20, and there are 20 training examples, counted from 0",
    ),
    "a broken index": (
        lambda: partition.federation(Y, [[0.9]]),
        "of client 0 are .0.9.: .* whole numbers",
    ),
    "a short mask": (
        lambda: partition.federation(Y, [[True]]),
        r"mask of client 0 has shape \(1,\): .* of the 20",
    ),
    "no clients": (lambda: partition.federation(Y, []), "has no clients"),
    "ragged shards": (
        lambda: partition.federation(Y, [[[1], [1, 2]]]),
        "rows must have one length",
    ),
    "users of another number": (
        lambda: partition.natural(Y, [1, 2], 1, 0),
        "users are 2: .* each of 20",
    ),
    "a user without a name": (
        lambda: partition.natural([0, 1], ["a", ""], 1, 0),
        "users have '' in row 1",
    ),
    "a user below 0": (
        lambda: user_data.from_arrays(X, Y, users=-1.0 * Y),
        "users have -1.0 in row 10",
    ),
    "half a user": (
        lambda: user_data.from_arrays(X, Y, users=[3.5] * 20),
        "users have 3.5 in row 0",
    ),
    "users of two kinds": (
        lambda: user_data.from_arrays(X, Y, users=[1, "a"] * 10),
        "users have 1 in row 0 and 'a' in row 1: name all by words, or all by numbers",
    ),
    "a missing user": (
        lambda: user_data.from_arrays(X, Y, users=pd.array([1, pd.NA] * 10)),
        "users have nan in row 1",
    ),
    "a missing value": (
        lambda: user_data.from_arrays(pd.DataFrame({"a": pd.array([1, pd.NA] * 10)}), Y),
        "x has nan in row 1: numbers must be finite",
    ),
    "a masked value": (
        lambda: user_data.from_arrays(np.ma.masked_equal(X, 6), Y),
        "x have a masked value in row 3",
    ),
    "rows of two lengths": (
        lambda: user_data.from_arrays([[1], [1, 2]], [0, 1]),
        "x are .*: their rows must have",
    ),
    "half a token": (
        lambda: user_data.from_arrays(X + 0.7, Y, documents=True),
        "token in row 0 that is not whole",
    ),
    "classes from 1": (
        lambda: user_data.from_arrays(X, Y + 1),
        r"no example of class 0: number the classes from 0 on without gaps, in place of 1\.\.2",
    ),
    "a class with too few examples": (
        lambda: user_data.from_arrays(X, np.minimum(np.arange(20) // 4, 3)),
        "of class 0 there are 4 examples: without a test set",
    ),
    "times in seconds": (
        lambda: user_data.from_arrays(1.6e9 + X, Y),
        "goes from 1600000000 to 1600000038 in column 0, and float32 merges its values",
    ),
    "a sparse matrix": (
        lambda: user_data.from_arrays(csr_array(X), Y),
        "x are a csr_array: give them as an array",
    ),
    "prices as classes": (
        lambda: user_data.from_csv(small_table([9.5] * 20), label="size"),
        r"t.csv line 2: column size is 9.5: a number that is measured names no class",
    ),
    "all values different": (
        lambda: user_data.from_csv(small_table(range(20)), label="size", words=["kind"]),
        "column size has 20 different values in 20 rows: it must name classes",
    ),
    "a number as Python writes it": (
        lambda: user_data.from_csv(small_table(["1_0"] * 20), label="kind"),
        "line 2: column size is '1_0': it must be a number",
    ),
    "a column without a name": (
        lambda: user_data.from_csv(patients([7] * 20, [1] * 20, header="a,,kind"), label="kind"),
        "t.csv: column 2 has no name: give it one",
    ),
    "no folder": (lambda: user_data.from_folder("away"), "away is no folder of images by class"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_data_that_could_be_misread_are_refused_in_one_sentence(case):
    call, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_tensors_may_require_gradients_and_have_half_the_precision():
    for x in (torch.tensor(X, requires_grad=True), torch.tensor(X).bfloat16()):
        assert user_data.from_arrays(x, torch.tensor(Y)).train_x.shape == (16, 2)


def test_a_truncated_image_is_named():
    save_images("d")
    Path("d/dog/p0_0.png").write_bytes(Path("d/dog/p0_0.png").read_bytes()[:45])
    with pytest.raises(InputError, match=r"^d/dog/p0_0\.png cannot be read as an image: "):
        user_data.from_folder("d")


def test_a_data_folder_without_permission_is_named(monkeypatch):
    def refuse(self, **_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(
        DataError, match=r"mnist.npz cannot be looked for \(Permission denied\): allow it, or set"
    ):
        tasks.load("mnist", root="closed")


def test_the_error_of_a_missing_method_lists_those_of_a_users_view():
    class View:
        clients, round = 5, 1

        def sizes(self): ...

    class Greedy:
        def draw(self, view, m, rng):
            return view.losses([0])

    with pytest.raises(
        InputError, match=r"a design's view has no losses: it has clients, round, sizes$"
    ):
        draw_cohort(Greedy(), View(), 1, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("module", "x", "y", "message"),
    [
        (nn.Linear(2, 2), X, Y, "x and y are ndarray and ndarray"),
        (nn.Linear(2, 2), torch.tensor(X), torch.tensor(Y), "x is torch.float64"),
        (nn.Linear(2, 2), torch.ones(40, 2), torch.ones(30).long(), "x and y differ in length"),
        (nn.Linear(2, 2), torch.ones(9, 2), torch.full((9,), 2), r"a label is not in 0\.\.1"),
        (nn.Linear(3, 2), torch.ones(9, 2), torch.ones(9).long(), "does not take the examples"),
        (
            nn.Sequential(nn.Linear(2, 2), nn.Dropout()),
            torch.ones(9, 2),
            torch.ones(9).long(),
            "layer 1",
        ),
        (
            nn.BatchNorm1d(2),
            torch.ones(9, 2),
            torch.ones(9).long(),
            "mixes the examples of a batch",
        ),
        (nn.Linear(2, 2).requires_grad_(False), torch.ones(1, 2), torch.ones(1).long(), "frozen"),
    ],
)
def test_the_defect_of_a_nodes_data_is_described_without_its_size(module, x, y, message):
    defect = models.find_data_defect(module, x, y)
    assert message.replace("\\", "") in defect and not {"9", "40", "30"} & set(defect.split())
    assert models.find_data_defect(nn.Linear(2, 2), torch.ones(3, 2), torch.ones(3).long()) == ""
    assert models.find_data_defect(nn.Linear(2, 2), torch.ones(0, 2), torch.ones(0).long()) == ""


def test_only_decimal_notation_is_read_as_a_number():
    for word in ("1", "-1.5", "+.5e-3", "3.", "1E5"):
        assert NUMBER.fullmatch(word) and np.isfinite(float(word))
    for word in ("1_0", "１", "1,5", "inf", "nan", "0x1", "", "1 2"):
        assert not NUMBER.fullmatch(word)
