"""Users' files of tasks, networks and partitions: what they may hold, what is refused, what is recorded of them."""

import contextlib
import csv
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from test_user_code import forget_imports, hash_file, without_seconds

from companion.pages import parameters
from companion.runs import comparison, leaderboard, protocol, records, sweeps, tables
from fedstas import cli, methods, partition, simulation, tasks, user_code, user_data
from fedstas.errors import DataError, Diverged, InputError
from fedstas.sim import run_file

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples" / "own"
X = np.arange(40, dtype=float).reshape(20, 2)
Y = np.repeat([0, 1], 10)
IMPORTS = (
    "from fedstas import user_data\nimport numpy as np\nfrom torch import nn\nimport torch\n\n"
)


@pytest.fixture
def examples_folder(tmp_path, monkeypatch):
    """Copy examples/own into an empty folder, which becomes the current one; return it."""
    monkeypatch.chdir(tmp_path)
    for path in EXAMPLES.glob("my_*"):
        shutil.copy(path, tmp_path)
    yield tmp_path
    forget_imports()
    sweeps._loaded.cache_clear()


def write_module(name: str, *lines: str) -> None:
    """Write a Python file of the usual imports (five lines) and these lines."""
    Path(name).write_text(IMPORTS + "\n".join(lines) + "\n", encoding="utf-8")


# Tasks


def test_from_arrays_makes_a_task_that_tests_on_every_fifth_example_of_a_class():
    alternating_order = np.argsort(np.arange(20) % 2, kind="stable")  # classes in turns
    task = user_data.from_arrays(
        X[np.argsort(alternating_order)], np.arange(20) % 2, users=list("ab") * 10
    )
    assert task.test_y.tolist() == [0, 1, 0, 1]
    assert task.test_x[:, 0].tolist() == [8.0, 28.0, 18.0, 38.0]
    assert len(task.train_x) == 16 and task.users.tolist() == [0, 1] * 8
    assert (task.classes, task.network, task.kind) == (2, "perceptron", "features")
    assert task.train_x.dtype == torch.float32 and task.train_y.dtype == torch.int64
    with_test_set = user_data.from_arrays(X, Y, X[::-2], Y[::-2])
    assert (
        with_test_set.test_y.tolist() == [1] * 5 + [0] * 5 and with_test_set.digest != task.digest
    )
    equal_data = user_data.from_arrays(X.copy(), Y.astype(np.int8), X[::-2], Y[::-2])
    assert equal_data.digest == with_test_set.digest
    with_users = user_data.from_arrays(X, Y, X[::-2], Y[::-2], users=np.arange(20))
    assert with_users.digest != with_test_set.digest  # the users belong to the data


def test_the_test_split_takes_a_fifth_of_each_user_whatever_the_order_of_the_data(
    examples_folder,
):
    trials = np.arange(240)
    task = user_data.from_arrays(trials[:, None], trials // 20 % 3, users=trials % 20)
    assert len(task.test_y) == 48 and len(set(task.users)) == 20
    counts = np.bincount(task.test_users, minlength=20)  # of four trials of a class, at most one
    assert counts.sum() == 48 and counts.max() <= 3
    table = [(trial, trial % 20, "abc"[trial // 20 % 3]) for trial in trials]
    write_table("t.csv", table)
    from_table = user_data.from_csv("t.csv", label="kind", client="clinic")
    assert from_table.train_x.min() == -1 and from_table.train_x.max() == 1
    assert from_table.users.tolist() == task.users.tolist()
    with pytest.warns(UserWarning, match="20 of 100 users keep no training example"):
        user_data.from_arrays(trials[:100, None], trials[:100] % 2, users=trials[:100])


def test_from_arrays_scales_images_of_bytes_and_takes_documents_of_tokens():
    pixels = np.full((20, 3, 32, 32), 51, dtype=np.uint8)
    images = user_data.from_arrays(pixels, Y)
    assert images.train_x.unique().tolist() == [pytest.approx(51 / 255)]
    assert images.network == "convolutional"
    documents = user_data.from_arrays(np.ones((20, 4), dtype=int), Y, documents=True)
    assert documents.kind == "documents" and documents.network == "text-cnn"
    with pytest.raises(InputError, match=r"train_x .* an empty document in row 0"):
        user_data.from_arrays(np.zeros((20, 4), dtype=int), Y, documents=True)


def test_documents_of_the_test_set_may_have_tokens_of_their_own():
    tokens = 1 + np.arange(80).reshape(20, 4)
    task = user_data.from_arrays(tokens[5:], Y[5:], tokens[:15], Y[:15], documents=True)
    assert task.tokens == 81 and task.model(0)(task.test_x).shape == (15, 2)
    assert (
        user_data.from_arrays(tokens[:15], Y[:15], tokens[5:], Y[5:], documents=True).tokens == 81
    )
    tokens[7, 2] = -3
    with pytest.raises(InputError, match=r"train_x .* the unknown token -3 in row 7"):
        user_data.from_arrays(tokens, Y, tokens[:15], Y[:15], documents=True)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            ["a", "b", " ?!", "c"] * 5,
            r"^5 of 20 texts have no word, and each becomes one unknown word: leave them",
        ),
        (
            ["", *"a" * 19],
            "^1 of 20 texts has no word and becomes one unknown word: leave it out if its label",
        ),
    ],
)
def test_texts_without_a_word_become_one_unknown_word_with_a_warning(texts, message):
    with pytest.warns(UserWarning, match=message) as caught:
        task = user_data.from_texts(texts, Y, length=3)
    assert [warning.filename for warning in caught] == [__file__]
    assert len(task.train_x) + len(task.test_x) == 20
    unknown = [x.tolist() for x in (*task.train_x, *task.test_x) if x[0] == 1]
    assert unknown and all(x == [1, 0, 0] for x in unknown)


@pytest.mark.filterwarnings("ignore:5 of .. texts")
def test_from_texts_makes_tokens_of_words():
    texts = ["A good film", "Schöne Tage, 12 gute", "", "good"] * 5
    users = np.arange(20) % 5
    task = user_data.from_texts(texts, Y, users=users, length=3, vocabulary=4)
    assert task.kind == "documents" and task.network == "text-cnn"
    assert task.train_x.shape == (16, 3) and task.test_x.shape == (4, 3) and task.tokens == 6
    assert task.train_x.unique().tolist() == [0, 1, 2, 3, 4, 5]  # "good" is 2, by far the first
    same = user_data.from_arrays(np.arange(20)[:, None], Y, users=users)  # the same split
    assert task.users.tolist() == same.users.tolist()
    rows = [texts[int(k)] for k in same.train_x[:, 0]]
    assert (task.train_x[[text == "good" for text in rows]] == torch.tensor([2, 0, 0])).all()
    known = user_data.from_texts(texts, Y, ["schöne", "other"], [0, 1])
    assert known.test_x[1, 0] == 1 and known.test_x[0, 0] > 1
    for arguments, message in (
        ((texts[:-1], Y), r"y has shape \(20,\): it must be one for each of 19 examples"),
        (([*texts[:-1], None], Y), "texts has None in row 19: each must be a text"),
        (("a good film", Y), "texts is 'a good film': give a list of texts"),
        ((texts, Y, texts), "a test set is test_texts and test_y: give both, or neither"),
    ):
        with pytest.raises(InputError, match=message):
            user_data.from_texts(*arguments)


def test_the_users_of_test_examples_are_part_of_the_datas_digest():
    whose = [user_data.from_arrays(X, Y, X + 1, Y, users=Y, test_users=u) for u in (Y, 1 - Y)]
    assert whose[0].digest != whose[1].digest
    assert user_data.from_arrays(X, Y, X + 1, Y, users=Y).digest not in {t.digest for t in whose}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, Y[:-1]), r"y has shape \(19,\): it must be one for each of 20"),
        ((X, Y[:, None]), r"y has shape \(20, 1\)"),
        ((X, Y / 1), r"y is an array of float64: number classes by y.astype\(int\)"),
        ((X, Y * 2.0 - 1), r"y is an array of float64: .* by np.unique\(y, return_inverse=True\)"),
        ((X, Y * 2 - 1), r"y has -1 in row 0: .* as np.unique\(y, return_inverse=True\)\[1\]"),
        ((["a good film"] * 20, Y), r"x is an array of <U11: .* \(if they are texts: from_texts\)"),
        ((np.array(["a good film"] * 20, object), Y), "'a good film' in row 0: .* from_texts"),
        ((X.astype(np.uint8), Y, X.astype(int), Y), "x is an array of uint8 and test_x one of int"),
        ((X, Y / 2), "y is an array of float64: it must be one of whole numbers from 0"),
        ((X, Y.astype(str)), r"y are words: number them, as np.unique\(y, return_inverse=True\)"),
        ((X, Y == 1), r"y is an array of bool: .* as y.astype\(int\)"),
        ((X, Y - 1), "y has -1 in row 0: number classes from 0 on"),
        ((X, Y * 2), r"no example of class 1: number the classes .* in place of 0\.\.2"),
        ((X, Y, X, Y * 0), r"no example of class 1: .* of 0\.\.1"),
        ((X.astype(str), Y), "x is an array of <U32: it must be one of numbers"),
        ((X, Y, X), "a test set is test_x and test_y: give both, or neither"),
        ((X, Y, None, Y), "a test set is test_x and test_y: give both, or neither"),
        ((X, 0 * Y), "all examples are of one class: there must be at least two"),
        ((X, Y + 10**12), r"no example of class 0: .* of 1000000000000\.\.1000000000001"),
        ((X[:, :0], Y), r"train_x has shape \(16, 0\), .* none empty"),
        ((X * 1e300, Y), r"x has 1e\+300 in row 0: numbers must be finite and at most 3.4e38"),
        ((X, Y, X[:, :1], Y), r"an example of test_x is .* \(1,\), one of train_x \(2,\)"),
        ((X[:, 0], Y), r"train_x has shape \(16,\)"),
        ((X[:0], Y[:0], X, Y), r"train_x has shape \(0, 2\)"),
        ((np.where(X == 6, np.nan, X), Y), "x has nan in row 3: numbers must be finite"),
        ((X, Y, np.where(X == 6, np.inf, X), Y), "test_x has inf in row 3"),
        ((X, Y, None, None, [-1] * 20), "users have -1 in row 0: use words, or"),
    ],
)
def test_arrays_that_make_no_task_are_refused_in_one_sentence(arguments, message):
    with pytest.raises(InputError, match=message) as error:
        user_data.from_arrays(*arguments[:4], users=arguments[4] if len(arguments) == 5 else None)
    assert "\n" not in str(error.value)


def write_table(path, rows, header=("size", "clinic", "kind")):
    """Write a CSV file with this header."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


PATIENTS = [(k, 9 + k % 2, "ab"[k % 2]) for k in range(20)]


def test_from_csv_makes_a_task_with_the_users_of_a_column(examples_folder):
    write_table("t.csv", PATIENTS)
    result = user_data.from_csv("t.csv", label="kind", client="clinic")
    assert result.classes == 2 and result.users.tolist() == [0, 1] * 8
    assert result.train_x.shape == (16, 1)  # neither the label nor the client
    low, high = result.train_x.min(), result.train_x.max()
    assert (low, high) == (-1, 1) and result.test_x[0, 0] == pytest.approx(2 * 8 / 17 - 1)
    write_table("test.csv", PATIENTS[::-1])
    with_test_table = user_data.from_csv("t.csv", label="kind", test="test.csv", client="clinic")
    assert (
        len(with_test_table.train_y) == len(with_test_table.test_y) == 20
        and with_test_table.test_y[0] == 1
    )
    federation = partition.make("natural", result.train_y, users=result.users)  # all, being few
    assert federation.sizes.tolist() == [8, 8]
    by_clinic = partition.make("t.csv:clinic", with_test_table.train_y)
    assert [s[0] for s in by_clinic.shards] == [0, 1]  # 9 comes before 10
    assert by_clinic.recipe == {"name": "t.csv:clinic", "sha256": hash_file(Path("t.csv"))}


@pytest.mark.parametrize(
    ("rows", "label", "message"),
    [
        (PATIENTS, "sort", "t.csv has no column sort: it has size, clinic, kind"),
        ([], "kind", "t.csv has no rows under its header"),
        ([(1, 9, "a"), ("x", 9, "b")], "kind", "t.csv line 3: column size is 'x': it must be a n"),
        ([(1, 9, "a"), ("nan", 9, "b")], "kind", "t.csv line 3: column size is 'nan'"),
        ([(1, 9, "a"), (2, 9, " ")], "kind", "t.csv line 3: column kind is empty: fill it in"),
        ([(1, 9, "a"), (2, "", "b")], "kind", "t.csv line 3: column clinic is empty"),
        ([(1, 9, "a"), (2, "NA", "b")], "kind", "t.csv line 3: column clinic is 'NA', a missing"),
        ([(1, 9)], "kind", "t.csv line 2: column kind is empty"),
        (
            [(1, 9, "a"), (1, 5, 9, "a")],
            "kind",
            "t.csv line 3 has more values than the 3 columns: put",
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_its_line(
    examples_folder, rows, label, message
):
    write_table("t.csv", rows)
    with pytest.raises(InputError, match=message):
        user_data.from_csv("t.csv", label=label, client="clinic")


def test_a_table_with_two_columns_of_a_name_is_refused(examples_folder):
    write_table("t.csv", [(1, 2, "a")] * 10, ("size", "size", "kind"))
    with pytest.raises(InputError, match=r"t\.csv has the column size twice"):
        user_data.from_csv("t.csv", label="kind")


@pytest.mark.parametrize("user", [None, float("nan")])
def test_an_example_without_a_user_is_refused(user):
    with pytest.raises(InputError, match=f"users have {user} in row 3: use words"):
        user_data.from_arrays(X, Y, users=[1, 2, 1, user] + [1] * 16)


def test_a_test_table_needs_the_columns_and_classes_of_the_training_table(examples_folder):
    write_table("t.csv", PATIENTS)
    write_table("u.csv", [*PATIENTS, (1, 9, "c")])
    with pytest.raises(InputError, match=r"u.csv line 22: no training row has the class c"):
        user_data.from_csv("t.csv", label="kind", test="u.csv", client="clinic")
    write_table("u.csv", PATIENTS, ("weight", "clinic", "kind"))
    with pytest.raises(InputError, match=r"u.csv has the columns weight, not size"):
        user_data.from_csv("t.csv", label="kind", test="u.csv", client="clinic")
    with pytest.raises(InputError, match=r"gone.csv cannot be read as a table"):
        user_data.from_csv("gone.csv", label="kind")


def write_images(folder: Path, images_per_class: int, classes=("cat", "dog")) -> None:
    """Write images for each class, in a folder of its name."""
    from PIL import Image

    for shade, label in enumerate(classes):
        (folder / label).mkdir(parents=True)
        for i in range(images_per_class):
            Image.new("L", (40, 50), 255 * shade).save(folder / label / f"{i:02}.png")


def test_from_folder_makes_a_task_of_images_by_class(examples_folder):
    write_images(examples_folder / "one", 5)
    result = user_data.from_folder("one", size=8)
    assert result.train_x.shape == (8, 3, 8, 8) and result.test_y.tolist() == [0, 1]
    assert result.test_x.amin((1, 2, 3)).tolist() == [-1, 1]
    write_images(examples_folder / "two" / "train", 3)
    write_images(examples_folder / "two" / "test", 2)
    with_test_folder = user_data.from_folder(examples_folder / "two")
    assert with_test_folder.train_x.shape == (6, 3, 32, 32) and len(with_test_folder.test_y) == 4
    shutil.rmtree(examples_folder / "two" / "test" / "dog")
    with pytest.raises(InputError, match="two/test has the classes cat, not cat, dog"):
        user_data.from_folder("two")
    with pytest.raises(InputError, match="away is no folder of images by class"):
        user_data.from_folder("away")
    (examples_folder / "one" / "cat" / "00.png").write_text("no picture", encoding="utf-8")
    with pytest.raises(InputError, match=r"cat/00\.png cannot be read as an image"):
        user_data.from_folder("one")


# Functions of files


def test_a_task_of_a_users_function_has_the_hash_of_its_file_in_its_identity(examples_folder):
    task = tasks.load("my_data.py", network="my_network.py")
    assert task.name == "my_data.py:task" and str(task.network) == "my_network.py:network"
    files = {"task": hash_file(Path("my_data.py")), "network": hash_file(Path("my_network.py"))}
    assert task.identity_extras == {"network": "my_network.py:network", "files": files}
    assert task.classes == 2 and len(task.train_y) == 456 and len(task.test_y) == 113
    assert tasks.load("my_data.py:task").identity_extras == {"files": {"task": files["task"]}}
    first, second = task.model(3), task.model(3)
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)
    )
    assert not torch.equal(next(first.parameters()), next(task.model(4).parameters()))
    assert task.to("cpu").network is task.network
    # A task of the package adds nothing to the identity.
    assert tasks.load("digits").identity_extras == {}


TASK = "my_task.py"


@pytest.mark.parametrize(
    ("lines", "spec", "message"),
    [
        (None, "away.py:task", "there is no file away.py: name a task as FILE.py or FILE.py:FUN"),
        (["def other(): ..."], TASK, "my_task.py has no function task: it has other"),
        (["task = 5"], TASK, "my_task.py has no function task: it has none"),
        (["def task():", "    return {}"], TASK, r"line 6: task\(\) returns dict: it must"),
        (["def task():", "    return"], TASK, r"line 6: task\(\) returns NoneType"),
        (
            ["def task():", "", "    return 1 / 0"],
            TASK,
            "my_task.py line 8: ZeroDivisionError: div",
        ),
        (["def task(n):", "    return n"], TASK, "my_task.py line 6: TypeError: task.. missing 1"),
        (["x = 1 / 0"], TASK, "my_task.py line 6 fails on import: ZeroDivisionError"),
        (["def broken(:"], TASK, "my_task.py line 6 fails on import: SyntaxError"),
        (
            ["def task():", "    x = np.eye(20)", "    return user_data.from_arrays(x, x[0] - 1)"],
            TASK,
            "my_task.py line 8: y is an array of float64",
        ),
        (
            [
                "from dataclasses import replace",
                "def task():",
                "    x, y = np.eye(20), [0, 1] * 10",
                "    return replace(user_data.from_arrays(x, y), classes=3)",
            ],
            TASK,
            r"my_task.py line 7: the test set has no example of class 2: .* of 0\.\.2",
        ),
    ],
)
def test_a_file_without_a_valid_task_is_refused_in_one_sentence_with_its_line(
    examples_folder, lines, spec, message
):
    if lines is not None:
        write_module("my_task.py", *lines)
    with pytest.raises(InputError, match=message) as error:
        tasks.load(spec)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 5", r"line 6: network\(task\) returns int: it must return a torch module with"),
        ("return nn.ReLU()", "returns ReLU: it must return a torch module with parameters"),
        (
            "return nn.Linear(30, 7)",
            r"line 6: .* makes \(32, 7\) of 32 examples: it must make \(32, 2",
        ),
        ("return nn.Linear(9, 2)", "my_net.py line 6: RuntimeError: .*shapes cannot be"),
        ("return nn.Linear(30, 2).double()", "line 6: .* has a parameter weight of torch.float64"),
        ("return nn.Linear(30, 2).requires_grad_(False)", "has a frozen parameter weight, and all"),
        ("return nn.LazyLinear(2)", "has a lazy parameter weight: give"),
        (
            "return nn.Sequential(nn.Linear(30, 2), nn.Threshold(float('inf'), float('nan')))",
            "makes numbers that are not finite",
        ),
        ("return nn.Linear(task.inputs, 2)", "line 7: AttributeError: 'Task' object has no"),
        (
            "return nn.Sequential(nn.Linear(30, 2), nn.Dropout())",
            r"draws at random in its layer 1 \(Dropout\)",
        ),
        (
            "return nn.Sequential(nn.BatchNorm1d(30), nn.Linear(30, 2))",
            "mixes the examples .* in its layer 0",
        ),
    ],
)
def test_a_network_that_does_not_fit_is_refused_in_one_sentence_with_its_line(
    examples_folder, body, message
):
    write_module("my_net.py", "def network(task):", f"    {body}")
    with pytest.raises(InputError, match=message) as error:
        tasks.load("my_data.py", network="my_net.py")
    assert str(error.value).startswith("my_net.py line ") and "\n" not in str(error.value)


def test_functions_and_designs_may_import_files_beside_theirs_when_they_are_called(
    examples_folder, monkeypatch
):
    """The folder of the file is on the path while its code runs, and not after it."""
    folder = examples_folder / "mine"
    folder.mkdir()
    write_module("mine/beside.py", "WIDTH, SHARE = 7, 1 / 3")
    write_module(
        "mine/lazy.py",
        "from dataclasses import dataclass",
        "from fedstas.client_sampling import Cohort",
        "def network(task):",
        "    from beside import WIDTH",
        "    return nn.Sequential(nn.Linear(30, WIDTH), nn.Linear(WIDTH, task.classes))",
        "@dataclass(frozen=True)",
        "class FirstClients:",
        "    def draw(self, view, m, rng):",
        "        from beside import SHARE",
        "        return Cohort(np.arange(m), np.full(m, SHARE))",
    )
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    task = tasks.load("my_data.py", network="mine/lazy.py")
    assert task.model(0)[0].out_features == 7
    del sys.modules["beside"]
    federation = partition.iid(task.train_y, 4, seed=0)
    history = simulation.run(
        task, federation, methods.parse("mine/lazy.py"), rounds=1, clients_per_round=3, seed=0
    )
    assert history.cohorts[0].tolist() == [0, 1, 2]
    del sys.modules["beside"]
    assert str(folder) not in sys.path


def test_a_subclass_of_the_perceptron_is_trained_by_autograd(examples_folder):
    write_module(
        "my_net.py",
        "from fedstas.sim.models import Perceptron",
        "class Double(Perceptron):",
        "    def forward(self, x):",
        "        return 2 * super().forward(x)",
        "def network(task):",
        "    return Double(30, task.classes)",
    )
    from fedstas.sim import autograd, engine

    task = tasks.load("my_data.py", network="my_net.py")
    assert engine.kernels_of(task.model(0)) is autograd


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros(9, dtype=int), "names the clients of 9 examples, and there are 456 training ex"),
        (np.full(456, 0.5), r"names in c.npy have 0.5 in row 0: use words, or whole numbers"),
        (np.zeros((456, 1), dtype=int), r"names in c.npy have shape \(456, 1\)"),
        (np.arange(456) % 20 - 1, "names in c.npy have -1 in row 0: use words, or"),
        (b"nothing", "c.npy is not an array of numbers or words"),
        ("archive", "c.npy is not an array of numbers or words"),
    ],
)
def test_a_partition_that_does_not_fit_is_refused(examples_folder, content, message):
    """`my_data.py` has 456 training examples: 569 tumours without the fifth that is the test set."""
    if isinstance(content, np.ndarray):
        np.save("c.npy", content)
    elif content == "archive":
        with Path("c.npy").open("wb") as file:
            np.savez(file, clients=np.zeros(456, dtype=int))
    else:
        Path("c.npy").write_bytes(content)
    labels = tasks.load("my_data.py").train_y
    with pytest.raises(InputError, match=message):
        partition.make("c.npy", labels)
    for spec, options, expected in (
        ("away.npy", {}, "there is no file away.npy: name a partition"),
        ("away.csv:clinic", {}, "there is no file away.csv"),
        ("my_clients.npy", {"clients": 21}, "clients is 21: my_clients.npy names 20 clients"),
        ("my_clients.npy", {"sizes": "1x2"}, "sizes are of use only with dirichlet_fixed_size"),
    ):
        with pytest.raises(InputError, match=expected):
            partition.make(spec, labels, **options)
    assert partition.make("my_clients.npy", labels, clients=20).sizes.sum() == 456


def test_the_error_of_a_wrong_design_names_its_line(examples_folder):
    task = tasks.load("my_data.py")
    federation = partition.make("my_clients.npy", task.train_y)
    head = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass D:\n"
    head += "    def draw(self, view, m, rng):\n        "
    for body, message in (
        ("return view.accuracies()", "d.py line 5: a design's view has no accuracies: it has cli"),
        ("return m.size()", "d.py line 5: AttributeError: 'int' object has no attribute 'size'"),
        (
            "return [1, 2]",
            r"d.py line 4: D.draw returned a list: it must return a Cohort\(clients, w",
        ),
        (
            "from fedstas.client_sampling import Cohort; return Cohort([20], [1.0])",
            "d.py line 4: the cohort names client 20: clients are numbered 0 to 19",
        ),
        ("view.gradients(1)", "d.py line 5: levels is 1: it must be a whole number of at least 2"),
        ("return 1 / 0", "d.py line 5: ZeroDivisionError: division by zero"),
    ):
        Path("d.py").write_text(head + body + "\n", encoding="utf-8")
        with pytest.raises(InputError, match=message) as error:
            options = {"rounds": 1, "clients_per_round": 2, "seed": 0, "device": "cpu"}
            simulation.run(task, federation, methods.get("d.py"), **options)
        assert "\n" not in str(error.value)


def test_user_code_errors_keeps_a_divergence_and_restates_an_input_error():
    with pytest.raises(Diverged), user_code.user_code_errors("somewhere"):
        raise Diverged("not finite")
    with (
        pytest.raises(InputError, match=r"^a: DataError: no$|^a: no$"),
        user_code.user_code_errors("x", "a"),
    ):
        raise DataError("no")


# Runs


def run_of_files(method: str, seed: int) -> sweeps.Run:
    """Return a run on the task, network and partition of examples/own."""
    return sweeps.Run(
        "my_data.py:task",
        "my_clients.npy",
        0.01,
        method,
        seed,
        {"lr": 0.1},
        clients=20,
        clients_per_round=5,
        rounds=3,
        network="my_network.py:network",
    )


def test_runs_of_users_files_are_recorded_ranked_and_repeated(examples_folder):
    todo = [run_of_files(method, seed) for method in ("md", "my_design.py") for seed in (0, 1)]
    options = {"folder": "runs", "device": "cpu", "progress": False}
    shutil.copytree(".", "earlier")
    with contextlib.chdir("earlier"):  # its worker processes are used again, and keep this folder
        assert sweeps.make(todo[:2], "mine", jobs=2, **options) == []
    shutil.rmtree("earlier")
    assert sweeps.make(todo, "mine", jobs=2, **options) == []
    identities = records.identities("runs")
    assert len(identities) == 4
    for identity in identities.values():
        assert identity["task"] == "my_data.py:task" and identity["clients"] == 20
        files = {"task": hash_file(Path("my_data.py")), "network": hash_file(Path("my_network.py"))}
        assert identity["files"] == files and identity["network"] == "my_network.py:network"
        assert identity["partition"] == {
            "name": "my_clients.npy",
            "sha256": hash_file(Path("my_clients.npy")),
        }
    board = leaderboard.rank_methods(["runs"])
    assert set(board["method"]) == {"md", "my_design.py:Rooted"} and set(board["seeds"]) == {2}
    (title,) = set(board["federation"])
    assert title.startswith("my_data.py:task, network my_network.py:network, my_clients.npy: 20 cl")
    keys = {tables.record_key(identity) for identity in identities.values()}
    assert keys == {tables.run_key(run) for run in todo}

    frame = records.load("runs")
    name = next(
        run_id
        for run_id, identity in identities.items()
        if identity["seed"] == 1 and "Rooted" in identity["method"]["name"]
    )
    forget_imports()
    repeated = records.rerun(name, "runs", device="cpu")
    pd.testing.assert_frame_equal(
        without_seconds(repeated.frame), without_seconds(frame[frame["run"] == name])
    )

    Path("my_network.py").write_text(
        Path("my_network.py").read_text(encoding="utf-8") + "# other\n", encoding="utf-8"
    )
    assert not keys & {tables.run_key(run) for run in todo}
    with pytest.raises(InputError, match=r"the run is of the network in my_network.py .* changed"):
        records.rerun(name, "runs", device="cpu")
    assert sweeps.make(todo[:1], "mine", **options) == [] and len(records.identities("runs")) == 5
    assert leaderboard.rank_methods(["runs"])["federation"].nunique() == 2


def test_clients_named_in_a_file_keep_their_examples_outside_the_validation_split(examples_folder):
    whole, tuned = tasks.load("my_data.py"), tasks.load("my_data.py:task-validation")
    names = np.load("my_clients.npy")
    indices = [np.flatnonzero(names == k).tolist() for k in range(20)]
    Path("c.json").write_text(json.dumps(indices), encoding="utf-8")
    assert len(tuned.kept) == len(whole.train_x) == len(tuned.train_x) + len(tuned.test_x)
    torch.testing.assert_close(tuned.train_x, whole.train_x[tuned.kept])
    for file in ("my_clients.npy", "c.json"):
        federation = partition.make(file, tuned.train_y, clients=20, kept=tuned.kept)
        for client, shard in enumerate(federation.shards):
            own = whole.train_x[tuned.kept & (names == client)]
            torch.testing.assert_close(tuned.train_x[shard], own)
    counts = federation.label_counts.sum(0)
    assert counts.tolist() == torch.bincount(tuned.train_y).tolist()
    names[:] = 0
    names[np.flatnonzero(~tuned.kept)[0]] = 1
    np.save("c.npy", names)
    message = r"of client 1 of c.npy all examples, here 1, are in the validation split"
    with pytest.raises(InputError, match=message):
        partition.make("c.npy", tuned.train_y, kept=tuned.kept)
    with pytest.raises(
        InputError, match=r"c.npy names the clients of 456 examples, and there are 410"
    ):
        partition.make("c.npy", tuned.train_y)


def test_designs_are_compared_by_averaged_models_on_users_files(examples_folder):
    setting = comparison.read("my_comparison.yml")["mine"]
    assert setting.task == "my_data.py:task" and setting.network == "my_network.py"
    setting = replace(setting, rounds=4, rates=(0.1, 0.3, 0.9), schedules=("constant",))
    setting = protocol.add_arm(setting, "my_design.py")
    options = {"folder": "runs", "device": "cpu", "progress": False}
    assert comparison.carry_out(setting, **options) == []
    recorded = comparison.load_runs(["runs"])
    assert {run.identity["task"] for run in recorded} == {
        "my_data.py:task",
        "my_data.py:task-validation",
    }
    outcomes = comparison.outcomes(setting, recorded)
    arms = {"md", "least-variance", "all clients", "my_design.py:Rooted"}
    assert set(outcomes["arm"]) == arms and set(outcomes["seed"]) == {0, 1, 2}
    assert comparison.missing(setting, recorded) == {}
    assert comparison.carry_out(setting, **options) == []
    assert len(comparison.load_runs(["runs"])) == len(recorded)  # nothing is run again
    on_validation = next(run for run in recorded if run.identity["task"].endswith("-validation"))
    repeated = records.rerun(on_validation.run, "runs", device="cpu")
    pd.testing.assert_frame_equal(
        without_seconds(repeated.frame), without_seconds(on_validation.frame())
    )


def test_a_changed_partition_or_task_changes_the_identity_of_a_run(examples_folder):
    task = tasks.load("my_data.py")
    identities = []
    options = {"rounds": 1, "clients_per_round": 2, "seed": 0}
    for _ in range(2):
        federation = partition.make("my_clients.npy", task.train_y)
        identities.append(records.identity(task, federation, methods.get("md"), **options))
        np.save("my_clients.npy", np.load("my_clients.npy") // 2)
    assert records.run_id(identities[0]) != records.run_id(identities[1])
    history = simulation.run(task, federation, methods.get("strat"), device="cpu", **options)
    # Rows of a table suit the perceptron of the package, too.
    assert np.isfinite(history.frame["train_loss"]).all()
    with pytest.raises(InputError, match=r"the clients of my_clients.npy .* has changed since"):
        partition.from_recipe(task.train_y, identities[0]["partition"])
    unchanged = sweeps.load_task("my_data.py", "cpu")
    assert sweeps.load_task("my_data.py", "cpu") is unchanged
    Path("my_data.py").write_text(
        Path("my_data.py").read_text(encoding="utf-8") + "# other\n", encoding="utf-8"
    )
    assert sweeps.load_task("my_data.py", "cpu").source != unchanged.source


def test_the_command_run_trains_from_a_users_four_files_and_refuses_settings_that_contradict_them(
    examples_folder, capsys
):
    arguments = "run --task my_data.py:task --network my_network.py --partition my_clients.npy "
    arguments += "--method my_design.py --clients-per-round 5 --rounds 2 --lr 0.1 --device cpu"
    with pytest.raises(SystemExit) as exit_info:
        cli.main(arguments.split())
    assert not exit_info.value.code
    output = capsys.readouterr().out
    assert "my_design.py on my_data.py:task, 20 of 20 clients with data" in output
    for options, message in (
        ("--clients 7", "clients is 7: my_clients.npy names 20 clients"),
        ("--strata 21 --method strat", "strata is 21: it must not be above clients, here 20"),
        ("--concentration 1", "--concentration is of no use: partition my_clients.npy has no con"),
    ):
        with pytest.raises(SystemExit) as exit_info:
            cli.main([*arguments.split(), *options.split()])
        assert exit_info.value.code == 2 and message in capsys.readouterr().err


def test_an_interrupted_run_is_not_resumed_after_its_table_changed(
    examples_folder, capsys, monkeypatch
):
    write_table(
        "patients.csv",
        [(k, k % 4, "ab"[k % 2]) for k in range(20)],
        ("size", "clinic", "diagnosis"),
    )
    call = "run --task my_table.py --partition natural --clients-per-round 2 --method md "
    call += "--device cpu --rounds 3 --out h.parquet"
    save_history = run_file.save_history

    def save_and_interrupt(*arguments):
        save_history(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(run_file, "save_history", save_and_interrupt)
    with pytest.raises(SystemExit):
        cli.main(call.split())
    assert "the same call goes on from .h.parquet.checkpoint" in capsys.readouterr().err
    monkeypatch.setattr(run_file, "save_history", save_history)
    original = Path("patients.csv").read_text(encoding="utf-8")
    Path("patients.csv").write_text(original.replace("19,", "18,"), encoding="utf-8")
    with pytest.raises(SystemExit) as exit_info:
        cli.main(call.split())
    output = capsys.readouterr().err
    assert exit_info.value.code == 2
    assert ".h.parquet.checkpoint is of a run with other settings" in output
    Path("patients.csv").write_text(original, encoding="utf-8")
    with pytest.raises(SystemExit) as exit_info:
        cli.main(call.split())
    assert not exit_info.value.code and Path("h.parquet").exists()


@pytest.mark.parametrize("task", ["my_data.py:task", "there/my_data.py"])
def test_a_protocol_may_name_a_users_files(examples_folder, task):
    shutil.copytree(".", "there", ignore=shutil.ignore_patterns("there"))
    partition = str(Path(task).with_name("my_clients.npy"))
    document = {
        "rounds": 3,
        "evaluate_every": 1,
        "megabytes": [0.02, 0.05],
        "rates": [0.01, 0.1, 1.0],
        "tuning_seeds": [10],
        "evaluation_seeds": [0],
        "reference": "md",
        "min_effect": 1.0,
        "arms": {"md": {"method": "md"}},
        "settings": {
            "mine": {
                "title": "mine",
                "task": task,
                "partition": partition,
                "network": "my_network.py:network",
                "clients": 20,
                "clients_per_round": 5,
            }
        },
    }
    for changes, message in (
        ({"concentration": 0.1}, f"is of no use: partition {partition} has none"),
        ({"partition": "dirichlet"}, "setting mine lacks concentration"),
    ):
        changed = document | {"settings": {"mine": document["settings"]["mine"] | changes}}
        Path("mine.yml").write_text(json.dumps(changed), encoding="utf-8")
        with pytest.raises(InputError, match=re.escape(message)):
            protocol.read("mine.yml")
    Path("mine.yml").write_text(json.dumps(document), encoding="utf-8")
    settings = protocol.read("mine.yml")
    assert settings["mine"].classes == 2
    setting = protocol.add_arm(settings["mine"], "my_design.py")
    rates = protocol.tabulate_rates(setting, protocol.load_curves(setting, ["runs"]))
    assert list(rates.index) == ["md", "my_design.py:Rooted"]
    options = {"folder": "runs", "device": "cpu", "progress": False}
    todo = [setting.plan_run(arm, 0.1, 10) for arm in setting.arms]
    assert sweeps.make(todo, "which-design", **options) == []
    curves = protocol.load_curves(setting, ["runs"])
    assert set(curves["arm"]) == {"md", "my_design.py:Rooted"} and len(curves) == 6


def test_a_parameter_of_a_chapter_may_be_a_users_file_and_is_stored_with_its_absolute_path(
    examples_folder,
):
    declared = parameters.declared("10a")
    task, partition = declared["task"], declared["partition"]
    assert task.parse("my_data.py:task") == str(examples_folder / "my_data.py:task")
    assert partition.parse("my_clients.npy") == str(examples_folder / "my_clients.npy")
    assert task.parse("mnist") == "mnist"
    assert task.check("examples/own/my_data.py") == "examples/own/my_data.py"
    with pytest.raises(InputError, match=r"task is 'away.py:task': there is no file"):
        task.check("away.py:task")
    with pytest.raises(InputError, match="unknown task"):
        task.parse("my_data")


# The examples


def test_the_examples_have_at_most_40_lines_and_run(examples_folder):
    # my_loaders.py is a whole loop of one's own.
    scripts = sorted({*EXAMPLES.glob("*.py")} - {EXAMPLES / "my_loaders.py"})
    assert len(scripts) == 6
    assert all(len(path.read_text(encoding="utf-8").splitlines()) <= 40 for path in scripts)
    import importlib.util
    import sys

    sys.path.insert(0, str(examples_folder))
    try:
        spec = importlib.util.spec_from_file_location("my_clients", "my_clients.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert np.array_equal(module.clients(), np.load("my_clients.npy"))
    finally:
        sys.path.remove(str(examples_folder))
        sys.modules.pop("my_data", None)
    write_table("patients.csv", PATIENTS, ("size", "clinic", "diagnosis"))
    assert tasks.load("my_table.py").users.max() == 1
    write_images(examples_folder / "pictures", 5)
    assert tasks.load("my_images.py").network == "convolutional"
