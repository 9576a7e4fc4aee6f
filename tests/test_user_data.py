"""Files of one's own: tasks, networks, partitions; what is refused, with which words; and what of them is recorded."""

import contextlib
import csv
import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from test_user_code import forget, plain

from companion.pages import parameters
from companion.runs import leaderboard, protocol, records, sweeps, tables
from fedstas import cli, methods, partition, simulation, tasks, user_code, user_data
from fedstas.errors import DataError, Diverged, InputError
from fedstas.sim import run_file

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples" / "own"
X = np.arange(40, dtype=float).reshape(20, 2)
Y = np.repeat([0, 1], 10)
HEAD = "from fedstas import user_data\nimport numpy as np\nfrom torch import nn\nimport torch\n\n"


@pytest.fixture
def examples_folder(tmp_path, monkeypatch):
    """The examples in the current folder."""
    monkeypatch.chdir(tmp_path)
    for path in EXAMPLES.glob("my_*"):
        shutil.copy(path, tmp_path)
    yield tmp_path
    forget()
    sweeps._loaded.cache_clear()


def write_module(name: str, *lines: str) -> None:
    Path(name).write_text(HEAD + "\n".join(lines) + "\n")


def sha(name) -> str:
    return hashlib.sha256(Path(name).read_bytes()).hexdigest()


# Tasks


def test_arrays_are_a_task_and_every_fifth_example_of_a_class_is_held_back():
    order = np.argsort(np.arange(20) % 2, kind="stable")  # classes in turns
    result = user_data.from_arrays(X[np.argsort(order)], np.arange(20) % 2, users=list("ab") * 10)
    assert result.test_y.tolist() == [0, 1, 0, 1]
    assert result.test_x[:, 0].tolist() == [8.0, 28.0, 18.0, 38.0]
    assert len(result.train_x) == 16 and result.users.tolist() == [0, 1] * 8
    assert (result.classes, result.network, result.kind) == (2, "perceptron", "images")
    assert result.train_x.dtype == torch.float32 and result.train_y.dtype == torch.int64
    arguments = user_data.from_arrays(X, Y, X[::-2], Y[::-2])
    assert arguments.test_y.tolist() == [1] * 5 + [0] * 5 and arguments.digest != result.digest
    again = user_data.from_arrays(X.copy(), Y.astype(np.int8), X[::-2], Y[::-2])
    assert again.digest == arguments.digest
    other = user_data.from_arrays(X, Y, X[::-2], Y[::-2], users=np.arange(20))
    assert other.digest != arguments.digest  # whose they are is data too


def test_bytes_are_scaled_and_documents_are_tokens():
    image = np.full((20, 3, 32, 32), 51, dtype=np.uint8)
    result = user_data.from_arrays(image, Y)
    assert result.train_x.unique().tolist() == [pytest.approx(0.2)]
    assert result.network == "convolutional"
    words = user_data.from_arrays(np.ones((20, 4), dtype=int), Y, documents=True)
    assert words.kind == "documents" and words.network == "text-cnn"
    with pytest.raises(InputError, match="empty document or an unknown token"):
        user_data.from_arrays(np.zeros((20, 4), dtype=int), Y, documents=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X, Y[:-1]), r"y has shape \(19,\): it must be one for each of 20"),
        ((X, Y[:, None]), r"y has shape \(20, 1\)"),
        ((X, Y / 2), "train_y is an array of float64: it must be one of whole numbers from 0"),
        ((X, Y - 1), r"train_y has the label -1 in row 0: it must be of 0\.\.0"),
        ((X, Y * 2), r"no example of class 1: accuracy by class needs one of each of 0\.\.2"),
        ((X, Y, X, Y * 0), r"no example of class 1: .* of 0\.\.1"),
        ((X.astype(str), Y), "train_x is an array of <U32: it must be one of numbers"),
        ((X, Y, X), "a test set is test_x and test_y: give both, or neither"),
        ((X, Y, None, Y), "a test set is test_x and test_y: give both, or neither"),
        ((X, 0 * Y), "all examples are of one class: there must be at least two"),
        ((X, Y + 10**12), r"no example of class 0: .* of 0\.\.1000000000001 .* every 5th"),
        ((X[:, :0], Y), r"train_x has shape \(16, 0\), .* none empty"),
        ((X * 1e300, Y), "train_x has a value that is not finite in row 0"),
        ((X, Y, X[:, :1], Y), r"an example of test_x is .* \(1,\), one of train_x \(2,\)"),
        ((X[:, 0], Y), r"train_x has shape \(16,\)"),
        ((X[:0], Y[:0], X, Y), r"train_x has shape \(0, 2\)"),
        ((np.where(X == 6, np.nan, X), Y), "train_x has a value that is not finite in row 3"),
        ((X, Y, np.where(X == 6, np.inf, X), Y), "test_x has a value .* in row 3"),
        ((X, Y, None, None, [-1] * 20), "users is -1 in row 0: name users by words"),
    ],
)
def test_arrays_that_are_no_task_are_one_sentence(arguments, words):
    with pytest.raises(InputError, match=words) as caught:
        user_data.from_arrays(*arguments[:4], users=(*arguments, *[None] * 5)[4])
    assert "\n" not in str(caught.value)


def table(path, rows, head=("size", "clinic", "kind")):
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


ROWS = [(k, 9 + k % 2, "ab"[k % 2]) for k in range(20)]


def test_a_table_is_a_task_with_its_clients(examples_folder):
    table("t.csv", ROWS)
    result = user_data.from_csv("t.csv", label="kind", client="clinic")
    assert result.classes == 2 and result.users.tolist() == [0, 1] * 8
    assert result.train_x.shape == (16, 1)  # neither the label nor the client
    low, high = result.train_x.min(), result.train_x.max()
    assert (low, high) == (-1, 1) and result.test_x[0, 0] == pytest.approx(2 * 8 / 17 - 1)
    table("test.csv", ROWS[::-1])
    both = user_data.from_csv("t.csv", label="kind", test="test.csv", client="clinic")
    assert len(both.train_y) == len(both.test_y) == 20 and both.test_y[0] == 1
    federation = partition.make("natural", result.train_y, users=result.users)  # all, being few
    assert federation.sizes.tolist() == [8, 8]
    dealt = partition.make("t.csv:clinic", both.train_y)
    assert [s[0] for s in dealt.shards] == [0, 1]  # 9 comes before 10
    assert dealt.recipe == {"name": "t.csv:clinic", "sha256": sha("t.csv")}


@pytest.mark.parametrize(
    ("rows", "label", "words"),
    [
        (ROWS, "sort", "t.csv has no column sort: it has size, clinic, kind"),
        ([], "kind", "t.csv has no rows under its header"),
        ([(1, 9, "a"), ("x", 9, "b")], "kind", "t.csv line 3: column size is 'x': it must be a n"),
        ([(1, 9, "a"), ("nan", 9, "b")], "kind", "t.csv line 3: column size is 'nan'"),
        ([(1, 9, "a"), (2, 9, " ")], "kind", "t.csv line 3: column kind is empty"),
        ([(1, 9, "a"), (2, "", "b")], "kind", "t.csv line 3: column clinic is empty"),
        ([(1, 9)], "kind", "t.csv line 2: column kind is empty"),
        (
            [(1, 9, "a"), (1, 5, 9, "a")],
            "kind",
            "t.csv line 3 has more values than the 3 columns: put",
        ),
    ],
)
def test_a_table_that_is_none_says_its_line(examples_folder, rows, label, words):
    table("t.csv", rows)
    with pytest.raises(InputError, match=words):
        user_data.from_csv("t.csv", label=label, client="clinic")


def test_a_table_with_two_columns_of_a_name_is_refused(examples_folder):
    table("t.csv", [(1, 2, "a")] * 10, ("size", "size", "kind"))
    with pytest.raises(InputError, match=r"t\.csv has the column size twice"):
        user_data.from_csv("t.csv", label="kind")


@pytest.mark.parametrize("nobody", [None, float("nan")])
def test_an_example_of_nobody_is_refused(nobody):
    with pytest.raises(InputError, match=f"users is {nobody} in row 3: name users by"):
        user_data.from_arrays(X, Y, users=[1, 2, 1, nobody] + [1] * 16)


def test_a_test_table_must_be_like_the_other(examples_folder):
    table("t.csv", ROWS)
    table("u.csv", [*ROWS, (1, 9, "c")])
    with pytest.raises(InputError, match=r"u.csv line 22: no training row has the class c"):
        user_data.from_csv("t.csv", label="kind", test="u.csv", client="clinic")
    table("u.csv", ROWS, ("weight", "clinic", "kind"))
    with pytest.raises(InputError, match=r"u.csv has the columns weight, not size"):
        user_data.from_csv("t.csv", label="kind", test="u.csv", client="clinic")
    with pytest.raises(InputError, match=r"gone.csv cannot be read as a table"):
        user_data.from_csv("gone.csv", label="kind")


def pictures(folder: Path, each: int, kinds=("cat", "dog")) -> None:
    from PIL import Image

    for k, kind in enumerate(kinds):
        (folder / kind).mkdir(parents=True)
        for i in range(each):
            Image.new("L", (40, 50), 255 * k).save(folder / kind / f"{i:02}.png")


def test_a_folder_of_images_is_a_task(examples_folder):
    pictures(examples_folder / "one", 5)
    result = user_data.from_folder("one", size=8)
    assert result.train_x.shape == (8, 3, 8, 8) and result.test_y.tolist() == [0, 1]
    assert result.test_x.amin((1, 2, 3)).tolist() == [-1, 1]
    pictures(examples_folder / "two" / "train", 3)
    pictures(examples_folder / "two" / "test", 2)
    both = user_data.from_folder(examples_folder / "two")
    assert both.train_x.shape == (6, 3, 32, 32) and len(both.test_y) == 4
    shutil.rmtree(examples_folder / "two" / "test" / "dog")
    with pytest.raises(InputError, match="two/test has the classes cat, not cat, dog"):
        user_data.from_folder("two")
    with pytest.raises(InputError, match="away is no folder of images by class"):
        user_data.from_folder("away")
    (examples_folder / "one" / "cat" / "00.png").write_text("no picture")
    with pytest.raises(InputError, match="one is no folder of images by class"):
        user_data.from_folder("one")


# Functions of files


def test_a_function_of_a_file_is_a_task_whose_file_is_in_the_identity(examples_folder):
    task = tasks.load("my_data.py", network="my_network.py")
    assert task.name == "my_data.py:task" and str(task.network) == "my_network.py:network"
    files = {"task": sha("my_data.py"), "network": sha("my_network.py")}
    assert task.other == {"network": "my_network.py:network", "files": files}
    assert task.classes == 2 and len(task.train_y) == 456 and len(task.test_y) == 113
    assert tasks.load("my_data.py:task").other == {"files": {"task": files["task"]}}
    one, two = task.model(3), task.model(3)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(next(one.parameters()), next(task.model(4).parameters()))
    assert task.to("cpu").network is task.network
    assert tasks.load("digits").other == {}  # as recorded runs have it


TASK = "my_task.py"


@pytest.mark.parametrize(
    ("lines", "spec", "words"),
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
            "my_task.py line 8: train_y is an array of float64",
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
def test_a_file_that_holds_no_task_is_one_sentence_with_its_line(
    examples_folder, lines, spec, words
):
    if lines is not None:
        write_module("my_task.py", *lines)
    with pytest.raises(InputError, match=words) as caught:
        tasks.load(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "words"),
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
        ("return nn.Sequential(nn.Linear(30, 2), nn.Dropout())", "draws at random"),
        ("return nn.Sequential(nn.BatchNorm1d(30), nn.Linear(30, 2))", "mixes the examples"),
    ],
)
def test_a_network_that_does_not_fit_is_one_sentence_with_its_line(examples_folder, body, words):
    write_module("my_net.py", "def network(task):", f"    {body}")
    with pytest.raises(InputError, match=words) as caught:
        tasks.load("my_data.py", network="my_net.py")
    assert str(caught.value).startswith("my_net.py line ") and "\n" not in str(caught.value)


def test_a_perceptron_that_computes_something_else_is_not_computed_by_hand(examples_folder):
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
    assert engine.arithmetic(task.model(0)) is autograd


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(9, dtype=int), "names the clients of 9 examples, and there are 456 training ex"),
        (np.zeros(456), r"holds float64 \(456,\): it must be whole numbers or words"),
        (np.zeros((456, 1), dtype=int), r"holds int64 \(456, 1\)"),
        (np.arange(456) % 20 - 1, "c.npy names a client -1: number from 0 on, or use words"),
        (b"nothing", "c.npy is not an array of numbers or words"),
        ("archive", "c.npy is not an array of numbers or words"),
    ],
)
def test_a_partition_that_does_not_fit_is_one_sentence(examples_folder, array, words):
    if isinstance(array, np.ndarray):
        np.save("c.npy", array)
    elif array == "archive":
        with Path("c.npy").open("wb") as file:
            np.savez(file, clients=np.zeros(456, dtype=int))
    else:
        Path("c.npy").write_bytes(array)
    labels = tasks.load("my_data.py").train_y
    with pytest.raises(InputError, match=words):
        partition.make("c.npy", labels)
    for spec, more, output in (
        ("away.npy", {}, "there is no file away.npy: name a partition"),
        ("away.csv:clinic", {}, "there is no file away.csv"),
        ("my_clients.npy", {"clients": 21}, "clients is 21: my_clients.npy names 20 clients"),
        ("my_clients.npy", {"sizes": "1x2"}, "sizes are of use only with dirichlet_fixed_size"),
    ):
        with pytest.raises(InputError, match=output):
            partition.make(spec, labels, **more)
    assert partition.make("my_clients.npy", labels, clients=20).sizes.sum() == 456


def test_what_a_design_does_wrong_names_its_line(examples_folder):
    task = tasks.load("my_data.py")
    federation = partition.make("my_clients.npy", task.train_y)
    start = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass D:\n"
    start += "    def draw(self, view, m, rng):\n        "
    for body, words in (
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
        Path("d.py").write_text(start + body + "\n")
        with pytest.raises(InputError, match=words) as caught:
            options = {"rounds": 1, "clients_per_round": 2, "seed": 0, "device": "cpu"}
            simulation.run(task, federation, methods.get("d.py"), **options)
        assert "\n" not in str(caught.value)


def test_a_divergence_inside_a_design_stays_one():
    with pytest.raises(Diverged), user_code.user_code_errors("somewhere"):
        raise Diverged("not finite")
    with (
        pytest.raises(InputError, match=r"^a: DataError: no$|^a: no$"),
        user_code.user_code_errors("x", "a"),
    ):
        raise DataError("no")


# Runs


def run(method: str, seed: int = 0, **more) -> sweeps.Run:
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
        **more,
    )


def test_three_files_train_are_recorded_compared_and_made_again(examples_folder):
    todo = [run(method, seed) for method in ("md", "my_design.py") for seed in (0, 1)]
    options = {"folder": "runs", "device": "cpu", "progress": False}
    shutil.copytree(".", "earlier")
    with contextlib.chdir("earlier"):  # the workers of this sweep live on, and stand there
        assert sweeps.make(todo[:2], "mine", jobs=2, **options) == []
    shutil.rmtree("earlier")
    assert sweeps.make(todo, "mine", jobs=2, **options) == []  # in worker processes
    recorded = records.identities("runs")
    assert len(recorded) == 4
    for who in recorded.values():
        assert who["task"] == "my_data.py:task" and who["clients"] == 20
        files = {"task": sha("my_data.py"), "network": sha("my_network.py")}
        assert who["files"] == files and who["network"] == "my_network.py:network"
        assert who["partition"] == {"name": "my_clients.npy", "sha256": sha("my_clients.npy")}
    board = leaderboard.rank_methods(["runs"])
    assert set(board["method"]) == {"md", "my_design.py:Rooted"} and set(board["seeds"]) == {2}
    (title,) = set(board["federation"])
    assert title.startswith("my_data.py:task, network my_network.py:network, my_clients.npy: 20 cl")
    keys = {tables.record_key(who) for who in recorded.values()}
    assert keys == {tables.run_key(each) for each in todo}

    frame = records.load("runs")
    name = next(
        r for r, w in recorded.items() if w["seed"] == 1 and "Rooted" in w["method"]["name"]
    )
    forget()
    again = records.rerun(name, "runs", device="cpu")
    pd.testing.assert_frame_equal(plain(again.frame), plain(frame[frame["run"] == name]))

    Path("my_network.py").write_text(Path("my_network.py").read_text() + "# other\n")
    assert not keys & {tables.run_key(each) for each in todo}
    with pytest.raises(InputError, match=r"the run is of the network in my_network.py .* changed"):
        records.rerun(name, "runs", device="cpu")
    assert sweeps.make(todo[:1], "mine", **options) == [] and len(records.identities("runs")) == 5
    assert leaderboard.rank_methods(["runs"])["federation"].nunique() == 2


def test_a_changed_partition_or_task_is_another_run(examples_folder):
    task = tasks.load("my_data.py")
    identities = []
    options = {"rounds": 1, "clients_per_round": 2, "seed": 0}
    for _ in range(2):
        federation = partition.make("my_clients.npy", task.train_y)
        identities.append(records.identity(task, federation, methods.get("md"), **options))
        np.save("my_clients.npy", np.load("my_clients.npy") // 2)
    assert records.run_id(identities[0]) != records.run_id(identities[1])
    by_hand = simulation.run(task, federation, methods.get("strat"), device="cpu", **options)
    assert np.isfinite(by_hand.frame["train_loss"]).all()  # rows of a table, by the perceptron
    with pytest.raises(InputError, match=r"the clients of my_clients.npy .* has changed since"):
        partition.from_recipe(task.train_y, identities[0]["partition"])
    one = sweeps.load_task("my_data.py", "cpu")
    assert sweeps.load_task("my_data.py", "cpu") is one
    Path("my_data.py").write_text(Path("my_data.py").read_text() + "# other\n")
    assert sweeps.load_task("my_data.py", "cpu").source != one.source


def test_the_command_takes_all_four_and_goes_on_where_it_was_cut_off(examples_folder, capsys):
    call = "run --task my_data.py:task --network my_network.py --partition my_clients.npy "
    call += "--method my_design.py --clients-per-round 5 --rounds 2 --lr 0.1 --device cpu"
    with pytest.raises(SystemExit) as exit_info:
        cli.main(call.split())
    assert not exit_info.value.code
    output = capsys.readouterr().out
    assert "my_design.py on my_data.py:task, 20 of 20 clients with data" in output
    for more, words in (
        ("--clients 7", "clients is 7: my_clients.npy names 20 clients"),
        ("--strata 21 --method strat", "strata is 21: it must not be above clients, here 20"),
        ("--concentration 1", "--concentration is of no use: partition my_clients.npy has no con"),
    ):
        with pytest.raises(SystemExit) as exit_info:
            cli.main([*call.split(), *more.split()])
        assert exit_info.value.code == 2 and words in capsys.readouterr().err


def test_a_run_that_was_cut_off_does_not_go_on_where_the_table_changed(
    examples_folder, capsys, monkeypatch
):
    table(
        "patients.csv",
        [(k, k % 4, "ab"[k % 2]) for k in range(20)],
        ("size", "clinic", "diagnosis"),
    )
    call = (
        "run --task my_table.py --partition natural --clients-per-round 2 --method md --device cpu"
    )
    call = f"{call} --rounds 3 --out h.parquet".split()
    keep = run_file.save_history

    def cut(*arguments):
        keep(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(run_file, "save_history", cut)
    with pytest.raises(SystemExit):
        cli.main(call)
    assert "the same call goes on from .h.parquet.checkpoint" in capsys.readouterr().err
    monkeypatch.setattr(run_file, "save_history", keep)
    before = Path("patients.csv").read_text()
    Path("patients.csv").write_text(before.replace("19,", "18,"))
    with pytest.raises(SystemExit) as exit_info:
        cli.main(call)
    output = capsys.readouterr().err
    assert (
        exit_info.value.code == 2
        and ".h.parquet.checkpoint is of a run with other settings" in output
    )
    Path("patients.csv").write_text(before)
    with pytest.raises(SystemExit) as exit_info:
        cli.main(call)
    assert not exit_info.value.code and Path("h.parquet").exists()


@pytest.mark.parametrize("task", ["my_data.py:task", "there/my_data.py"])
def test_a_protocol_may_name_files_of_ones_own(examples_folder, task):
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
    for more, words in (
        ({"concentration": 0.1}, f"is of no use: partition {partition} has none"),
        ({"partition": "dirichlet"}, "setting mine lacks concentration"),
    ):
        other = document | {"settings": {"mine": document["settings"]["mine"] | more}}
        Path("mine.yml").write_text(json.dumps(other))
        with pytest.raises(InputError, match=re.escape(words)):
            protocol.read("mine.yml")
    Path("mine.yml").write_text(json.dumps(document))
    recorded = protocol.read("mine.yml")
    assert recorded["mine"].classes == 2
    recorded["mine"] = protocol.add_arm(recorded["mine"], "my_design.py")
    rates = protocol.tabulate_rates(
        recorded["mine"], protocol.load_curves(recorded["mine"], ["runs"])
    )
    assert list(rates.index) == ["md", "my_design.py:Rooted"]
    options = {"folder": "runs", "device": "cpu", "progress": False}
    assert (
        sweeps.make(
            [recorded["mine"].plan_run(a, 0.1, 10) for a in recorded["mine"].arms],
            "which-design",
            **options,
        )
        == []
    )
    rows = protocol.load_curves(recorded["mine"], ["runs"])
    assert set(rows["arm"]) == {"md", "my_design.py:Rooted"} and len(rows) == 6


def test_a_chapter_takes_files_wherever_they_are_named_from(examples_folder):
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


def test_the_examples_are_short_and_each_does_what_it_says(examples_folder):
    scripts = sorted(EXAMPLES.glob("*.py"))
    assert len(scripts) == 6
    assert all(len(path.read_text().splitlines()) <= 40 for path in scripts)
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
    table("patients.csv", ROWS, ("size", "clinic", "diagnosis"))
    assert tasks.load("my_table.py").users.max() == 1
    pictures(examples_folder / "pictures", 5)
    assert tasks.load("my_images.py").network == "convolutional"
