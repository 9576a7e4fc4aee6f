"""Tests of the command line: its output, its exit codes, and one sentence for every error."""

import dataclasses
import re
import shlex
import socket
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import companion
import fedstas
from companion import commands
from fedstas import biased, cli, engine, errors, methods, simulation
from fedstas.sim import run_file

SMALL = "run --task digits --clients 20 --clients-per-round 4 --concentration 0.1 --device cpu"


def call(arguments, capsys):
    """Run the command; return its exit code, its output, and its lines on standard error without the progress bar."""
    with pytest.raises(SystemExit) as exc_info:
        cli.main(arguments.split() if isinstance(arguments, str) else arguments)
    out, err = capsys.readouterr()
    lines = [line for line in err.replace("\r", "\n").split("\n") if line.strip()]
    return (
        exc_info.value.code,
        out,
        [line for line in lines if not re.search(r"round/s|s/round|<\?|0/1 runs", line)],
    )


def exit_code(arguments, capsys):
    """Run the command as `call` does, and return its exit code alone."""
    code, _, _ = call(arguments, capsys)
    return code


def assert_refused(arguments, capsys, *parts, code=2):
    """Assert that the command writes one sentence with these parts on standard error; return its output."""
    result, out, err = call(arguments, capsys)
    assert result == code
    assert len(err) == 1, err
    assert err[0].startswith("fedstas: ")
    for part in parts:
        assert part in err[0], err[0]
    assert "Traceback" not in err[0] + out
    return out


def test_run_trains_and_ends_with_a_summary(capsys):
    code, out, err = call(f"{SMALL} --method fedstas-unbiased --rounds 3", capsys)
    assert code == 0
    assert err == []
    assert "fedstas-unbiased on digits, 19 of 20 clients with data, cpu: accuracy" in out
    assert "after round 3" in out


def test_run_writes_the_same_history_twice_and_as_the_package_does(
    digits, federation, capsys, tmp_path
):
    frames = []
    for name in ("one", "two"):
        out = tmp_path / f"{name}.parquet"
        assert exit_code(f"{SMALL} --rounds 3 --strata 3 --n-star 200 --out {out}", capsys) == 0
        frames.append(pd.read_parquet(out).drop(columns="seconds"))
    pd.testing.assert_frame_equal(*frames, check_exact=True)
    method = methods.get("fedstas", strata=3, n_star=200)
    history = simulation.run(
        digits, federation, method, rounds=3, clients_per_round=4, seed=0, device="cpu"
    )
    expected = history.frame.drop(columns="seconds")
    pd.testing.assert_frame_equal(frames[0], expected, check_exact=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.parquet", "two.parquet"]


@pytest.mark.parametrize("method", methods.names())
@pytest.mark.slow
def test_every_method_runs_from_the_command_line(capsys, method):
    assert exit_code(f"{SMALL} --method {method} --rounds 1", capsys) == 0


@pytest.mark.parametrize("partition", ["iid", "dirichlet_fixed_size", "by_class", "lognormal"])
def test_every_partition_runs_from_the_command_line(capsys, partition):
    option = "--concentration 1.0" if partition == "dirichlet_fixed_size" else ""
    arguments = (
        SMALL.replace("--concentration 0.1", option) + f" --partition {partition} --rounds 1"
    )
    assert exit_code(arguments, capsys) == 0


@pytest.fixture
def simulator_calls(monkeypatch):
    """Return a list that gets the arguments (federation, method, keywords) of each call of the simulator."""
    calls, original = [], simulation.run

    def spy(task, federation, method, **keywords):
        """Record a call, then run it."""
        calls.append((federation, method, keywords))
        return original(task, federation, method, **keywords)

    monkeypatch.setattr(simulation, "run", spy)
    return calls


@pytest.mark.parametrize(
    ("options", "method", "changes"),
    [
        ("--levels 4 --restratify-every 2", "fedstas", {"levels": 4, "restratify_every": 2}),
        ("--epsilon 1 --size-cap 50", "fedstas-dp", {"epsilon": 1.0, "size_cap": 50}),
        ("--lr 0.2 --steps 2 --batch 16", "md", {"lr": 0.2, "steps": 2, "batch": 16}),
        ("--rate 0.5", "fedstas-unbiased", {"rate": 0.5}),
        ("--prox 0.1", "md", {"prox": 0.1}),
    ],
)
def test_settings_reach_the_method(capsys, simulator_calls, options, method, changes):
    line = f"{SMALL} --method {method} --rounds 2 --eval-every 2 --seed 3 {options}"
    assert exit_code(line, capsys) == 0
    ((_, chosen, keywords),) = simulator_calls
    assert chosen == methods.get(method, **changes)
    expected = {"rounds": 2, "clients_per_round": 4, "seed": 3, "eval_every": 2}
    assert {key: keywords[key] for key in expected} == expected


BAD = {
    "unknown task": ("--task femnist", ["'femnist'", "digits, mnist"]),
    "a network that does not fit": ("--network text-cnn", ["'text-cnn'", "digits", "perceptron"]),
    "an unknown network": ("--network lstm", ["'lstm'", "use one of perceptron", "transformer"]),
    "a perceptron on text": (
        "--task topics --partition natural --network perceptron",
        ["'perceptron' does not fit task topics", "use text-cnn or transformer"],
    ),
    "the users of a task without users": (
        "--partition natural",
        ["natural", "the user of each example", "topics"],
    ),
    "more clients than users": (
        "--task topics --partition natural --clients 101",
        ["101", "at most 100"],
    ),
    "unknown method": ("--method fedfoo", ["'fedfoo'", "fedavg", "centralised"]),
    "a file that does not exist": (
        "--method away.py",
        ["there is no file away.py", "FILE.py:CLASS"],
    ),
    "a file without a design": (
        f"--method {errors.__file__}",
        ["names no design", "no class with"],
    ),
    "a file of three designs": (
        f"--method {biased.__file__}",
        ["PowerOfChoice, DivFL, Cyclic; name"],
    ),
    "unknown partition": ("--partition circles", ["'circles'", "iid, dirichlet"]),
    "unknown parameter": ("--temperature 3", ["--temperature"]),
    "a setting of another method": ("--method md --strata 3", ["'strata'", "md", "steps"]),
    "a setting as a word and as an option": (
        "--method 'md lr=0.1' --lr 0.5",
        ["lr is given twice, as 0.1 in 'md lr=0.1' and as 0.5 beside it: give it once"],
    ),
    "a setting as two words": ("--method 'md lr=1 lr=2'", ["'md lr=1 lr=2' has lr twice"]),
    "more strata than clients": (
        "--strata 200",
        ["strata is 200", "not be above clients, here 20"],
    ),
    "more strata than clients, as a word": (
        "--method 'fedstas strata=200'",
        ["strata is 200", "not be above clients, here 20"],
    ),
    "an extra argument": ("five", ["five"]),
    "more participants than clients with data": (
        "--clients-per-round 20",
        ["20 clients per round", "19"],
    ),
    "no participants": ("--clients-per-round 0", ["0", "at least 1"]),
    "no clients": ("--clients 0", ["0", "at least 1"]),
    "more clients than examples": ("--clients 5000", ["5000", "1438"]),
    "concentration zero": ("--concentration 0", ["concentration", "0", "above 0"]),
    "concentration negative": ("--concentration -1", ["concentration", "-1", "above 0"]),
    "concentration not a number": ("--concentration nan", ["concentration", "nan"]),
    "concentration infinite": ("--concentration inf", ["concentration", "inf"]),
    "sigma negative": ("--partition lognormal --sigma -1", ["sigma", "-1", "at least 0"]),
    "clients that do not fit the classes": (
        "--partition by_class --clients 25",
        ["25", "multiple of 10"],
    ),
    "sizes in another notation": ("--sizes 10,20", ["'10,20'", "100x10,250x30"]),
    "sizes of another number of clients": (
        "--partition dirichlet_fixed_size --sizes 10x5,20x5",
        ["sizes 10x5,20x5 are of 10 clients", "must be of 20 clients"],
    ),
    "sizes beyond the data": (
        "--partition dirichlet_fixed_size --sizes 100x20",
        ["with 2000 examples", "at most the 1438"],
    ),
    "sizes for a partition that takes none": ("--sizes 10x20", ["not dirichlet"]),
    "an unknown measure": (
        "--method 'clustered-similarity measure=cosine'",
        ["unknown measure 'cosine'", "arccos, L2"],
    ),
    "a network for colour images only": (
        "--network convolutional-dropout",
        ["'convolutional-dropout' does not fit task digits", "use perceptron"],
    ),
    "an unknown linkage": (
        "--method 'clustered-similarity linkage=wards'",
        ["unknown linkage 'wards'", "ward, single"],
    ),
    "rate zero": ("--method fedstas-unbiased --rate 0", ["rate", "0", "at most 1"]),
    "rate above one": ("--method fedstas-unbiased --rate 1.5", ["rate", "1.5", "at most 1"]),
    "rounds zero": ("--rounds 0", ["rounds is 0", "at least 1"]),
    "rounds negative": ("--rounds -5", ["rounds is -5", "at least 1"]),
    "rounds of the wrong type": ("--rounds many", ["--rounds", "many", "integer"]),
    "rounds not whole": ("--rounds 2.5", ["--rounds", "2.5"]),
    "size cap too small": ("--method fedstas-dp --size-cap 1", ["size_cap", "1", "at least 3"]),
    "epsilon zero": ("--method fedstas-dp --epsilon 0", ["epsilon", "0", "above 0"]),
    "epsilon negative": ("--method fedstas-dp --epsilon -3", ["epsilon", "-3", "above 0"]),
    "epsilon of the wrong type": ("--method fedstas-dp --epsilon big", ["--epsilon", "big"]),
    "levels out of range": ("--levels 1", ["levels is 1", "at least 2", "256"]),
    "strata zero": ("--strata 0", ["strata is 0", "at least 1"]),
    "requested sample zero": ("--n-star 0", ["n_star is 0", "at least 1"]),
    "restratify_every zero": ("--restratify-every 0", ["restratify_every is 0", "at least 1"]),
    "learning rate zero": ("--lr 0", ["lr is 0", "above 0"]),
    "no steps": ("--steps 0", ["steps is 0", "at least 1"]),
    "no batch": ("--batch 0", ["batch is 0", "at least 1"]),
    "prox negative": ("--prox -1", ["prox is -1", "at least 0"]),
    "eval_every zero": ("--eval-every 0", ["eval_every is 0", "at least 1"]),
    "seed negative": ("--seed -1", ["seed is -1", "at least 0"]),
    "seed too large for the generator": (
        "--seed 99999999999999999999",
        ["seed", "99999999999999999999"],
    ),
    "no threads": ("--threads 0", ["threads is 0", "at least 1"]),
    "unknown device": ("--device tpu", ["device", "tpu", "auto"]),
    "a value is missing": ("--rounds", ["--rounds"]),
    "out in a folder that does not exist": (
        "--out /nowhere/at/all.parquet",
        ["/nowhere/at/all.parquet", "does not exist"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_reported_in_one_sentence_and_exit_code_2(case, capsys):
    options, parts = BAD[case]
    small = SMALL.replace("--concentration 0.1", "") if "partition" in options else SMALL
    assert_refused(shlex.split(f"{small} --rounds 1 {options}"), capsys, *parts)


def test_sizes_linkage_and_measure_of_the_command_line_are_used(capsys, simulator_calls):
    line = f"{SMALL.replace('20', '5')} --partition dirichlet_fixed_size --sizes 10x2,30x3"
    method = ["--method", "clustered-similarity linkage=average measure=L1"]
    assert exit_code([*line.split(), "--rounds", "1", *method], capsys) == 0
    ((federation, chosen, _),) = simulator_calls
    assert federation.sizes.tolist() == [10, 10, 30, 30, 30]
    assert (chosen.clients.linkage, chosen.clients.measure) == ("average", "L1")


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("train", ["'train'"]),
        ("sweep nonsense", ["'nonsense'", "preprint"]),
        ("sweep preprint --profile huge", ["'huge'", "quick, laptop, paper"]),
        ("sweep preprint --jobs 0", ["jobs is 0", "at least 1"]),
        ("sweep", ["Missing argument", "name"]),
    ],
)
def test_bad_commands_are_reported_in_one_sentence_and_exit_code_2(line, parts, capsys):
    assert_refused(line, capsys, *parts)


def test_cuda_on_a_machine_without_it_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert_refused(f"{SMALL.replace('cpu', 'cuda')} --rounds 1", capsys, "'cuda'", "cpu or auto")


@pytest.mark.parametrize("command", ["run --rounds 1 --task", "chapter 7 -p task"])
@pytest.mark.parametrize("task", ["mnist", "cifar10", "emnist", "newsgroups-tokens"])
def test_data_that_cannot_be_downloaded_are_reported_in_one_sentence(
    command, task, capsys, monkeypatch, tmp_path
):
    """With a time limit on the network; from a run and from a chapter's parameters."""
    timeouts = []

    def unreachable(*_, **__):
        timeouts.append(socket.getdefaulttimeout())
        raise OSError("Network is unreachable")

    for name in ("MNIST", "CIFAR10", "EMNIST"):
        monkeypatch.setattr(f"torchvision.datasets.{name}", unreachable)
    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups", unreachable)
    monkeypatch.setenv("FEDSTAS_DATA", str(tmp_path / "data"))
    file = "20news-bydate_py3.pkz" if task == "newsgroups-tokens" else f"{task}.npz"
    assert_refused(
        f"{command} {task}",
        capsys,
        f"{tmp_path}/data/{file}",
        "Network is unreachable",
        "FEDSTAS_DATA",
        f"task {'topics' if task == 'newsgroups-tokens' else 'digits'} needs none",
    )
    assert timeouts == [10.0] and socket.getdefaulttimeout() is None
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_an_empty_document_is_reported_in_one_sentence(capsys, monkeypatch):
    from fedstas import text

    def with_one_empty(real=text.topics):
        arrays = real()
        arrays["train_x"][17] = 0
        return arrays

    monkeypatch.setattr(text, "topics", with_one_empty)
    for line in ("run --task topics --partition natural --rounds 1", "chapter 7 -p task topics"):
        assert_refused(line, capsys, "train_x of task topics has an empty document", "0 is padding")


def test_a_damaged_data_file_is_reported_in_one_sentence(capsys, monkeypatch, tmp_path):
    (tmp_path / "mnist.npz").write_bytes(b"PK\x03\x04 truncated"[:8])
    monkeypatch.setenv("FEDSTAS_DATA", str(tmp_path))
    with np.errstate(all="raise"):
        assert_refused("run --task mnist --rounds 1", capsys, f"{tmp_path}/mnist.npz", "delete it")
    assert [p.name for p in tmp_path.iterdir()] == ["mnist.npz"]


def test_a_diverged_run_exits_with_1_and_keeps_its_history(capsys, tmp_path, monkeypatch):
    calls, original = [], engine.local_updates

    def blow_up(*args, **kw):
        calls.append(0)
        return original(*args, **kw) * (float("nan") if len(calls) == 3 else 1.0)

    monkeypatch.setattr(engine, "local_updates", blow_up)
    out = tmp_path / "history.parquet"
    line = f"{SMALL} --method md --rounds 60 --out {out}"
    printed = assert_refused(line, capsys, "not finite", "round 3", "smaller lr", code=1)
    frame = pd.read_parquet(out)
    assert list(frame.columns) == list(simulation.COLUMNS)
    assert frame["round"].tolist() == [1, 2]
    assert np.isfinite(frame.train_loss).all()
    assert "after round 2" in printed
    assert [p.name for p in tmp_path.iterdir()] == ["history.parquet"]


def test_a_run_that_diverges_in_its_first_round_exits_with_1(capsys, tmp_path):
    out = tmp_path / "history.parquet"
    assert_refused(f"{SMALL} --method md --lr 1e300 --out {out}", capsys, "not finite", code=1)
    assert len(pd.read_parquet(out)) == 0


def test_out_that_is_a_folder_or_no_parquet_file_is_refused(capsys, tmp_path):
    for out in (tmp_path, tmp_path / "run.csv", "."):
        message = f"--out {out}", "name it *.parquet"
        assert_refused(f"{SMALL} --rounds 1 --out {out}", capsys, *message)
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_is_replaced_by_the_same_run_alone_or_with_force(capsys, tmp_path):
    out = tmp_path / "h.parquet"
    line = f"{SMALL} --method md --rounds 2 --out {out}"
    assert exit_code(line, capsys) == 0
    content = out.read_bytes()
    for option, message in (
        (
            "--method fedavg",
            "finished run with other settings (method 'md', not 'fedavg'): name an",
        ),
        ("--seed 1", "(seed '0', not '1')"),
        (
            "--rounds 1",
            "holds this run with 2 rounds, not 1: name another file, or replace it with",
        ),
    ):
        assert_refused(f"{line} {option}", capsys, str(out), message)
    assert out.read_bytes() == content
    assert exit_code(f"{line} --rounds 3", capsys) == 0  # more of the same
    assert exit_code(f"{line} --method fedavg --force", capsys) == 0
    pd.DataFrame({"a": [1]}).to_parquet(out)
    assert_refused(line, capsys, "no record of a run says of which settings")


def test_outputs_are_tried_before_anything_is_computed(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "run", lambda *_, **__: pytest.fail("it trained"))
    folder = tmp_path / "table"
    folder.mkdir()
    assert_refused(f"variance --out {folder}", capsys, f"--out {folder} is a folder: name a file")
    assert_refused(f"chapter 01 --output {folder}", capsys, f"{folder} is a folder: name a file")
    assert_refused("chapter 01 --output /proc/a.ipynb", capsys, "could not be written")
    for line in (f"{SMALL} --out /proc/h.parquet", "variance --out /proc/h.csv"):
        assert_refused(line, capsys, "--out /proc/h", "cannot be written: ")


def test_a_checkpoint_that_cannot_be_written_is_reported_once(capsys, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_file, "write", fail)
    code, _, err = call(f"{SMALL} --method md --rounds 3 --out {tmp_path}/h.parquet", capsys)
    (line,) = err
    assert code == 0 and line.startswith("fedstas: if interrupted, this run starts over: ")
    assert line.endswith("h.parquet.checkpoint could not be written (No space left on device)")


def test_a_sweep_into_a_folder_that_cannot_be_created_is_refused(capsys, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert_refused(f"sweep preprint --folder {tmp_path}/file", capsys, "file")


def test_methods_lists_every_method_with_its_settings(capsys):
    code, out, err = call("methods", capsys)
    assert (code, err) == (0, [])
    for name in methods.names():
        assert name in out
    assert "n_star=2048" in out
    # Of each method the name, the weights it is unbiased for, and whether it works under secure aggregation.
    lines = [" ".join(line.split()[:3]) for line in out.splitlines()]
    assert {"md n_k/n with", "cyclic none yes", "strat 1/N no", "centralised - -"} <= {*lines}


def test_parameters_of_a_chapter_may_be_two_words_as_papermill_has_them():
    arguments = commands.join_pairs(
        ["chapter", "02", "-p", "strata", "5", "-p", "levels=9", "--profile", "quick"]
    )
    assert arguments == ["chapter", "02", "-p", "strata=5", "-p", "levels=9", "--profile", "quick"]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ("-p strata", ["strata", "lacks a value"]),
        ("-p temperature 3", ["'temperature'", "strata"]),
        ("-p strata five", ["strata", "'five'", "number"]),
        ("-p strata 2.5", ["strata", "2.5"]),
        ("-p rounds 0", ["rounds", "0", "at least 1"]),
        ("-p rounds true", ["rounds", "number"]),
        ("-p concentration nan", ["concentration", "nan"]),
        ("-p task femnist", ["'femnist'", "digits"]),
        ("-p task topics", ["'topics'", "computes with images", "use one of digits", "emnist"]),
        ("-p network transformer", ["'network'", "strata"]),
        ("-p device tpu", ["'tpu'", "auto, cpu, cuda"]),
        ("--profile huge", ["'huge'", "quick"]),
    ],
)
def test_bad_parameters_of_a_chapter_are_reported_in_one_sentence(capsys, options, parts):
    assert_refused(f"chapter 02 {options}", capsys, *parts)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ("-p network text-cnn", ["'text-cnn' does not fit task digits", "use perceptron"]),
        ("-p task topics -p network perceptron", ["'perceptron' does not fit task topics"]),
        ("-p task topics -p network lstm", ["unknown network 'lstm'", "use one of perceptron"]),
        ("-p task poems", ["unknown task 'poems'", "topics, newsgroups"]),
    ],
)
def test_bad_parameters_of_the_chapter_on_text_are_reported_in_one_sentence(capsys, options, parts):
    assert_refused(f"chapter 7 {options}", capsys, *parts)


def test_an_unknown_chapter_is_refused_with_the_list(capsys):
    assert_refused("chapter 77", capsys, "'77'", "02_stratification")


@pytest.mark.slow
def test_python_m_fedstas_cli_is_the_command():
    def run_module(*arguments):
        """Run `python -m fedstas.cli` with these arguments."""
        command = [sys.executable, "-m", "fedstas.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    result = run_module(*f"{SMALL} --rounds 1".split())
    assert result.returncode == 0, result.stderr
    assert "accuracy" in result.stdout
    assert "fedstas:   0%" in result.stderr  # the progress bar
    result = run_module("chapter", "02", "-p", "strata")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "fedstas: -p strata lacks a value: write -p KEY VALUE\n"


def test_claims_prints_a_table_and_the_counts(capsys):
    code, out, err = call("claims --paper slides --verdict no-data", capsys)
    lines = out.strip().split("\n")
    assert code == 0
    assert [line for line in err if not re.search("claim/s|s/claim", line)] == []
    assert lines[0].split() == ["id", "place", "printed", "ours", "verdict"]
    assert all(line.rstrip().endswith("no-data") for line in lines[1:-2])
    assert len(lines) > 3
    assert lines[-1] == f"{len(lines) - 3} claims: {len(lines) - 3} no-data"
    assert max(map(len, lines)) <= 140


def test_one_claim_is_computed_again_with_its_evidence(capsys):
    code, out, err = call("claims preprint-fig-3-top-dp-own-numbers", capsys)
    assert (code, err) == (0, [])
    for word in (
        "FedSTaS, preprint, Sec. 3.2.2",
        "printed    54.67",
        "verdict    differs",
        "55.01",
    ):
        assert word in out
    assert out.strip().endswith("chapters/05_experiments.html#how-do-all-methods-compare-with-md")


def test_claims_refuses_an_unknown_claim_paper_kind_or_verdict(capsys):
    parts = ["'fig-3-top-dp-own'", "did you mean preprint"]
    assert assert_refused("claims fig-3-top-dp-own", capsys, *parts) == ""
    assert_refused("claims --paper thesis", capsys, "'thesis'", "journal")
    assert_refused("claims --kind opinion", capsys, "'opinion'", "theory")
    assert_refused("claims --verdict maybe", capsys, "'maybe'", "holds-if")


def test_the_error_of_a_claim_whose_evidence_fails_names_the_claim(capsys, monkeypatch):
    from companion import ledger

    def fail(claim):
        raise LookupError("the runs are gone")

    claim = dataclasses.replace(ledger.find_claim("journal-lemma-1"), decide=fail)
    monkeypatch.setattr(ledger, "find_claim", lambda id: claim)
    assert_refused(
        "claims journal-lemma-1", capsys, "claim journal-lemma-1", "the runs are gone", code=1
    )


VARIANCE = ["variance", *SMALL.split()[1:], "--seeds", "1", "--draws", "50"]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (
            ["--designs", "md,fedstas-least-variance draws=most"],
            ["unknown draws 'most'", "size, norm"],
        ),
        (["--designs", "md strata=3"], ["method md has no setting 'strata'"]),
        (["--designs", "md, md lr=0.1"], ["lr in --designs 'md lr=0.1' is of no use", "--method"]),
        (["--designs", "fedadam server_rate=0.1"], ["server_rate in --designs"]),
        (["--designs", "md,fednova"], ["the server of 'fednova' in --designs does more"]),
        (["--designs", "mifa,md"], ["the server of 'mifa' in --designs does more"]),
        (["--designs", "md,"], ["'' names no method"]),
        (["--designs", "md,away.py"], ["there is no file away.py"]),
        (
            ["--designs", "md", "--method", "md lr=1e30", "--rounds", "4"],
            [
                "round 5 of md is not reached: the model is not finite after round",
                "smaller lr than 1e+30",
            ],
        ),
        (["--designs", "md", "--rounds", "-1"], ["rounds is -1", "at least 0"]),
        (["--designs", "fedavg", "--clients-per-round", "0"], ["is 0", "at least 1"]),
    ],
)
def test_bad_input_to_variance_is_reported_in_one_sentence_and_exit_code_2(options, parts, capsys):
    assert_refused([*VARIANCE, *options], capsys, *parts)


OWN_DESIGN = """
from dataclasses import dataclass
from fedstas.client_sampling import MD, Cohort

@dataclass(frozen=True)
class Mine:
    scale: float = 1.0
    def draw(self, view, m, rng):
        cohort = MD().draw(view, m, rng)
        return Cohort(cohort.clients, self.scale * cohort.weights)
"""


def test_a_users_file_is_a_method_of_every_command(capsys, tmp_path, monkeypatch):
    """Its design is MD sampling; with scale 0.5 the weights are halved, and the estimate is biased by half."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN_DESIGN, encoding="utf-8")
    code, out, err = call(
        [*SMALL.split(), "--method", "mine.py", "--rounds", "1", "--lr", "0.2"], capsys
    )
    assert (code, err) == (0, []) and "mine.py on digits" in out
    designs = "md,mine.py,mine.py:Mine scale=0.5,fedstas-least-variance draws=norm noise=true"
    code, out, _ = call([*VARIANCE, "--designs", designs, "--out", "table.csv"], capsys)
    assert code == 0
    table = pd.read_csv("table.csv").set_index("design")
    assert list(table.index) == designs.split(",")
    assert table.loc["mine.py", "error"] == table.loc["md", "error"]
    assert table.loc["mine.py:Mine scale=0.5", "largest"] == 0.5 * table.loc["md", "largest"]
    code, out, err = call("audit mine.py --draws 250", capsys)
    assert (code, err) == (0, []) and re.search(r"^ok +unbiased +for sum of n_k/n u_k", out, re.M)
    half = ["audit", "mine.py scale=0.5", "--draws", "500"]
    code, out, err = call(half, capsys)
    assert (code, err) == (0, []) and re.search(r"^biased +unbiased +in a first round", out, re.M)
    assert exit_code([*half, "--unbiased"], capsys) == 1
    (tmp_path / "mine.py").write_text(
        OWN_DESIGN.replace("self.scale *", "float('nan') *"), encoding="utf-8"
    )
    code, out, err = call("audit mine.py", capsys)
    assert (code, err) == (1, []) and re.search(
        r"^FAILS +draw +mine.py line 10: a weight of the cohort is not", out, re.M
    )
    (tmp_path / "mine.py").write_text(
        OWN_DESIGN.replace("return Cohort(", "return list([1]) or ("), encoding="utf-8"
    )
    message = "Mine.draw returned a list: it must return a Cohort(clients, weights)"
    assert_refused([*SMALL.split(), "--method", "mine.py", "--rounds", "1"], capsys, message)


@pytest.mark.parametrize("line", ["-h", "run -h", "sweep -h"])
def test_h_prints_the_help(line, capsys):
    code, out, err = call(line, capsys)
    assert (code, err) == (0, []) and out.startswith("Usage: fedstas")


def test_the_version_is_printed(capsys):
    assert call("--version", capsys) == (0, f"fedstas {fedstas.__version__}\n", [])


@pytest.mark.parametrize(
    ("line", "suggestion"),
    [
        ("swep preprint", "sweep"),
        ("rnu", "(did you mean run?)"),
        ("run --method fedstas-unbised", "(did you mean fedstas-unbiased?)"),
        ("run --task mnits", "(did you mean mnist?)"),
        ("run --partition dirichlett", "(did you mean dirichlet?)"),
        ("run --partition clients.csv", "natural, FILE.npy, FILE.json, FILE.csv:COLUMN"),
        ("sweep preprnt", "(did you mean preprint?)"),
        ("run --method nothing-like-it", "unknown method 'nothing-like-it': use one of"),
    ],
)
def test_the_error_of_a_misspelt_word_suggests_the_nearest(line, suggestion, capsys):
    assert_refused(line, capsys, suggestion)


def test_a_wheel_without_the_companion_suggests_its_own_commands(capsys, monkeypatch):
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    assert_refused("audti mine.py", capsys, "audti", "did you mean audit?")
    assert_refused("sweep preprint", capsys, "no command 'sweep' here, only run, methods")


def test_methods_are_completed(monkeypatch, capsys):
    variables = {"_FEDSTAS_COMPLETE": "complete_bash", "COMP_CWORD": "3"}
    variables["COMP_WORDS"] = "fedstas run --method fedstas-un"
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(SystemExit):
        cli.main([])
    assert capsys.readouterr().out.split() == ["fedstas-unbiased", "fedstas-unbiased-dp"]


UNUSED_SETTINGS = {
    "--sigma 2": ["--sigma is of no use", "partition dirichlet has no sigma"],
    "--partition iid": ["--concentration is of no use", "partition iid has no concentration"],
    "--method fedstas-unbiased-dp --epsilon 1": ["does not use epsilon 1.0", "only with n_star"],
    "--method fedstas-unbiased-dp --n-star 9 --rate 0.5": [
        "not use rate 0.5",
        "only without n_star",
    ],
}


@pytest.mark.parametrize("options", UNUSED_SETTINGS)
def test_a_setting_that_nothing_uses_is_refused(options, capsys):
    assert_refused(f"{SMALL} --rounds 1 {options}", capsys, *UNUSED_SETTINGS[options])


def test_variance_refuses_what_the_partition_does_not_use(capsys):
    assert_refused([*VARIANCE, "--sigma", "2"], capsys, "partition dirichlet has no sigma")


@pytest.mark.parametrize("method", ["fedstas-unbiased", "clustered-similarity", "fedadam"])
def test_an_interrupted_run_resumes_to_the_same_history(method, capsys, tmp_path, monkeypatch):
    """The checkpoint has the server's state: strata, last updates, an optimiser's moments."""
    complete, interrupted = tmp_path / "complete.parquet", tmp_path / "interrupted.parquet"
    line = f"{SMALL} --method {method} --rounds 5 --eval-every 2 --out"
    assert exit_code(f"{line} {complete}", capsys) == 0
    original = simulation.train_round

    def stop(setup, server, t, params):
        if t == 5:
            raise KeyboardInterrupt
        return original(setup, server, t, params)

    monkeypatch.setattr(simulation, "train_round", stop)
    code, out, err = call(f"{line} {interrupted}", capsys)
    checkpoint = tmp_path / ".interrupted.parquet.checkpoint"
    assert (code, out) == (130, "")
    assert err == [f"fedstas: interrupted: the same call goes on from {checkpoint}"]
    assert {*tmp_path.iterdir()} == {complete, checkpoint}
    message = str(checkpoint), "other settings: delete it"
    assert_refused(f"{line} {interrupted} --seed 1", capsys, *message)
    rounds = []
    monkeypatch.setattr(
        simulation, "train_round", lambda s, v, t, p: rounds.append(t) or original(s, v, t, p)
    )
    assert exit_code(f"{line} {interrupted}", capsys) == 0
    assert rounds == [5]
    frames = [pd.read_parquet(path).drop(columns="seconds") for path in (complete, interrupted)]
    pd.testing.assert_frame_equal(*frames, check_exact=True)
    assert {*tmp_path.iterdir()} == {complete, interrupted}


def test_an_interrupted_run_is_not_continued_for_fewer_rounds_but_discarded_with_force(
    capsys, tmp_path, monkeypatch
):
    out, checkpoint = tmp_path / "h.parquet", tmp_path / ".h.parquet.checkpoint"
    line, original = f"{SMALL} --method md --out {out} --rounds", simulation.train_round

    def stop(setup, server, t, params):
        if t == 3:
            raise KeyboardInterrupt
        return original(setup, server, t, params)

    monkeypatch.setattr(simulation, "train_round", stop)
    assert exit_code(f"{line} 4", capsys) == 130
    message = f"{checkpoint} holds 2 rounds of this run", "--rounds is 2: ask for more rounds"
    assert_refused(f"{line} 2", capsys, *message)
    assert checkpoint.exists()
    assert exit_code(f"{line} 2 --force", capsys) == 0
    assert len(pd.read_parquet(out)) == 2 and not checkpoint.exists()
    checkpoint.write_bytes(b"PK")
    assert_refused(f"{line} 2", capsys, "is damaged")
    assert exit_code(f"{line} 2 --force", capsys) == 0


def test_the_message_of_an_interrupted_run_without_out_names_out(capsys, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(simulation, "train_round", stop)
    code, _, err = call(f"{SMALL} --rounds 2", capsys)
    assert (code, err) == (130, ["fedstas: interrupted: nothing is kept without --out"])


def test_a_run_is_not_resumed_with_clients_of_another_file(capsys, tmp_path, monkeypatch):
    """All clients keep their sizes: only the SHA-256 of the partition's file differs."""
    monkeypatch.chdir(tmp_path)
    original = simulation.train_round
    line = "run --partition who.npy --clients-per-round 4 --rounds 3 --device cpu --out h.parquet"
    np.save("who.npy", np.arange(1438) % 10)

    def stop(setup, server, t, params):
        if t == 2:
            raise KeyboardInterrupt
        return original(setup, server, t, params)

    monkeypatch.setattr(simulation, "train_round", stop)
    assert exit_code(line, capsys) == 130
    monkeypatch.setattr(simulation, "train_round", original)
    np.save("who.npy", np.arange(1438)[::-1] % 10)
    assert_refused(line, capsys, ".h.parquet.checkpoint", "other settings: delete it")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedstas.sim.tasks.load", interrupt)
    # The checkpoint of the first call remains, and this call adds nothing to it.
    code, _, err = call(line, capsys)
    assert (code, err) == (130, ["fedstas: interrupted: nothing new is kept"])


def test_a_damaged_checkpoint_of_a_run_is_reported_in_one_sentence(capsys, tmp_path):
    (tmp_path / ".h.parquet.checkpoint").write_bytes(b"PK")
    assert_refused(f"{SMALL} --rounds 2 --out {tmp_path}/h.parquet", capsys, "damaged", "delete it")


def test_the_message_of_an_interrupted_sweep_names_the_folder_of_its_runs(
    capsys, tmp_path, monkeypatch
):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(simulation, "train_round", stop)
    monkeypatch.chdir(tmp_path)
    line = "sweep preprint --methods md --seeds 0 --folder mine"
    code, _, err = call(line, capsys)
    assert (code, err[-1]) == (130, "fedstas: interrupted: nothing is made yet")
    (tmp_path / "mine/one.parquet").touch()
    code, _, err = call(line, capsys)
    message = "what is made is in mine, and the same call goes on from there"
    assert (code, err[-1]) == (130, f"fedstas: interrupted: {message}")


def test_a_dry_run_of_a_sweep_creates_no_folder(capsys, tmp_path, monkeypatch):
    """Sweeps are recorded in the clone's `runs`, which git does not track, not in the working directory."""
    assert commands.RUNS == companion.ROOT / "runs"
    existed = commands.RUNS.exists()
    monkeypatch.chdir(tmp_path)
    code, out, _ = call("sweep preprint --methods md --seeds 0 --dry-run", capsys)
    assert code == 0 and f"in {commands.RUNS}" in out
    assert exit_code("sweep preprint --methods md --seeds 0 --dry-run --folder mine", capsys) == 0
    assert list(tmp_path.iterdir()) == [] and commands.RUNS.exists() == existed


def test_a_download_that_times_out_is_reported_in_one_sentence(capsys, monkeypatch, tmp_path):
    timeouts = []

    def time_out(*_, **__):
        """Raise the error of torchvision."""
        timeouts.append(socket.getdefaulttimeout())
        raise RuntimeError("Error downloading a.gz:\nTried a mirror, got:\ntimed out\n")

    monkeypatch.setattr("torchvision.datasets.MNIST", time_out)
    monkeypatch.setenv("FEDSTAS_DATA", str(tmp_path))
    assert_refused(
        "run --task mnist --rounds 1", capsys, "mnist.npz", "timed out", "connect to a network"
    )
    assert timeouts == [10.0] and socket.getdefaulttimeout() is None
