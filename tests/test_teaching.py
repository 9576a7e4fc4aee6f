"""Students' and instructors' notebooks, the course's syllabus, the project's template and the leaderboard."""

import ast
import builtins
import dataclasses
import importlib.util
import json
import os
import re
import shlex
import symtable
import sys
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import nbformat
import nbformat.v4 as v4
import numpy as np
import pandas as pd
import pytest

from companion.pages import chapters, copies, myst, parameters, prose
from companion.runs import leaderboard, records
from companion.teach import check, teaching
from fedstas import cli, methods
from fedstas.aggregation import Average
from fedstas.client_sampling import Cohort
from fedstas.data_sampling import FixedRate
from fedstas.errors import InputError
from fedstas.methods import LocalSGD, Method
from fedstas.sim import simulation

ROOT = Path(__file__).parents[1]
STEMS = chapters.names()
TIMEOUT = 3600  # seconds; it only stops a hang
MYST_SYNTAX = re.compile(r"^(?:`{3,}|:{3,})\{|\{[\w:-]+\}`", re.MULTILINE)


def cells_with_tag(nb, tag: str) -> list:
    return [cell for cell in nb.cells if tag in cell.metadata.get("tags", [])]


def code_of(nb) -> str:
    return "\n".join(cell.source for cell in nb.cells if cell.cell_type == "code")


@pytest.mark.slow
@pytest.mark.parametrize("stem", STEMS)
def test_a_student_gets_every_exercise_and_no_solution(stem):
    mine, full = teaching.student(stem), teaching.instructor(stem)
    source = "\n".join(cell.source for cell in chapters.notebook(stem).cells)
    exercises = source.count("{exercise-start}")
    assert len(cells_with_tag(mine, "answer")) >= exercises
    assert sum(c.source.count("### Exercise") for c in mine.cells) == exercises
    assert not cells_with_tag(mine, "solution") and "**Solution" not in str(mine.cells)
    assert sum(c.source.count("**Solution") for c in full.cells) == exercises
    solutions = [c.source for c in cells_with_tag(full, "solution") if c.cell_type == "code"]
    for solution in solutions:
        assert solution in code_of(full) and solution not in code_of(mine)
    checked = set(teaching.CHECKED_EXERCISE.findall(code_of(mine)))
    assert checked >= set(teaching.CHECKED_EXERCISE.findall("\n".join(solutions)))
    assert checked <= set(check.names())


def names(code: str) -> tuple[set[str], set[str]]:
    """The names that code defines, and those that it uses and must find defined."""
    top = symtable.symtable(code, "", "exec")
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    used, tables = set(), [top]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        free = (s for s in table.get_symbols() if table is top or s.is_global())
        used |= {s.get_name() for s in free if s.is_referenced()}
    return defined, used - defined - set(dir(builtins))


def test_names_of_code_are_those_that_it_defines_and_uses():
    code = "import a\nb = a + c\ndef d(e):\n    return [f for f in e if g]\nprint(b)\n"
    assert names(code) == ({"a", "b", "d"}, {"c", "g"})


@pytest.mark.parametrize("stem", STEMS[:3])
def test_a_solution_needs_only_the_cells_of_its_chapter(stem):
    """It needs no other solution, and no other solution redefines what it needs."""
    code_of = defaultdict(list)  # by the exercise that it solves; "" for the chapter's
    for part in myst.parts(chapters.notebook(stem).cells):
        if not part.blocks:
            code_of[part.solves].append(part.source)
    defined = names("\n".join(code_of.pop("")))[0]
    solutions = [names("\n".join(sources)) for sources in code_of.values()]
    assert len(solutions) >= 4
    for redefined, needed in solutions:
        assert needed <= defined
        assert all(not needed & other for other, _ in solutions if other is not redefined)


@pytest.mark.slow
@pytest.mark.parametrize("stem", STEMS)
def test_a_version_is_a_valid_notebook_that_reads_without_extensions(stem):
    for version in teaching.VERSIONS:
        nb = getattr(teaching, version)(stem)
        nbformat.validate(nb)
        for cell in nb.cells:
            if cell.cell_type == "code":
                ast.parse(cell.source)
                assert not cell.outputs
            else:
                assert not MYST_SYNTAX.search(cell.source), cell.source
        assert "parameters" in [t for cell in nb.cells[:4] for t in cell.metadata.get("tags", [])]
        for cell in nb.cells:
            hidden = "hide-input" in cell.metadata.get("tags", [])
            assert cell.metadata.get("jupyter", {}).get("source_hidden", False) == hidden
        install = copies.INSTALL.format(clone=copies.CLONE, **copies.address())
        assert nb.cells[1].source == install
        assert json.loads(nbformat.writes(nb))["metadata"]["fedstas"]["version"] == version


@pytest.fixture(scope="module")
def executed_notebook(tmp_path_factory):
    """A student's notebook, executed in another folder and without data sets, as in a classroom."""
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("classroom")
    path = teaching.make("04c", "student", folder / "mine.ipynb")
    nb = nbformat.read(path, as_version=4)
    environment = {
        "JUPYTER_PATH": str(Path(sys.prefix) / "share" / "jupyter"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "FEDSTAS_DATA": str(folder / "nothing"),
        "OMP_NUM_THREADS": "1",
    }
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        NotebookClient(
            nb,
            timeout=TIMEOUT,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
        ).execute()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return nb


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_a_students_notebook_runs_and_its_checks_say_that_nothing_is_answered(executed_notebook):
    checks = cells_with_tag(executed_notebook, "check")
    assert len(checks) == 3
    for cell in checks:
        assert cell.outputs[0]["data"]["text/plain"].startswith(
            "Nothing answered yet: replace the ... by "
        )
    outputs = [o for c in executed_notebook.cells for o in c.get("outputs", [])]
    assert len([o for o in outputs if "image/svg+xml" in o.get("data", {})]) == 2


def test_executed_pages_record_their_time_and_device():
    """A teacher needs them; the page *Execution status* shows them."""
    pages = [*(ROOT / "book" / "chapters").glob("*.ipynb")]
    if not pages:
        pytest.skip("no chapter is executed here: `make book` does it")
    blocks = [chapters.provenance(page) for page in pages]
    assert all(block["seconds"] > 0 and block["device"] for block in blocks)
    assert all(block["cpu"] is None or block["cpu"] >= 0 for block in blocks if "cpu" in block)


def test_no_chapter_needs_a_download_in_profile_quick():
    for stem in STEMS:
        assert parameters.defaults("quick", stem).get("task", "digits") == "digits", stem


@pytest.fixture
def chapter_of(monkeypatch):
    """A function that makes every chapter one of these cells: ("md" or "code", source, *tags)."""
    new_cell = {"md": v4.new_markdown_cell, "code": v4.new_code_cell}

    def replace_chapters(*cells):
        nb = v4.new_notebook(cells=[new_cell[k](s, metadata={"tags": t}) for k, s, *t in cells])
        text = nbformat.writes(nb)
        monkeypatch.setattr(chapters, "notebook", lambda name: nbformat.reads(text, as_version=4))
        monkeypatch.setattr(teaching, "glued_values", lambda chapter: {})

    return replace_chapters


def markdown_of(nb) -> list[str]:
    return [cell.source for cell in nb.cells if cell.cell_type == "markdown"]


def test_cells_tagged_for_one_version_are_in_it_alone(chapter_of):
    chapter_of(
        ("md", "# Title"),
        ("code", "secret = 1", "instructor"),
        ("code", "hint = 2", "student"),
        (
            "md",
            "```{exercise} Sum\n:label: ex-a\nAdd.\n```\n\n```{solution} ex-a\nSo.\n```\n\nAfter.",
        ),
    )
    mine, full = teaching.student("01"), teaching.instructor("01")
    assert "secret" not in code_of(mine) and "hint" in code_of(mine)
    assert "secret" in code_of(full) and "hint" not in code_of(full)
    texts = ["# Title", "### Exercise 1: Sum\n\nAdd.", "*Your answer:*", "After."]
    assert markdown_of(mine) == texts
    assert "So." in str(full.cells) and "So." not in str(mine.cells)


def test_text_after_a_solution_reaches_students(chapter_of):
    chapter_of(
        ("md", "# Title\n\n````{solution-start} ex-a\n````\nSo."),
        ("md", "````{solution-end}\n````\n\n## Further reading"),
    )
    texts = ["# Title", "*Your answer:*", "## Further reading"]
    assert markdown_of(teaching.student("01")) == texts


def test_a_stub_has_the_name_and_the_arguments_of_the_solution():
    tree = ast.parse("def mean(sizes, *, cap=3):\n    return 1\n")
    assert teaching._stub(tree, "mean") == ("def mean(sizes, *, cap=3):\n    ...", "mean")
    assert teaching._stub(tree, None) == ("mine = ...", "mine")


def test_unknown_chapters_versions_and_names_are_refused(tmp_path):
    with pytest.raises(InputError, match="unknown chapter"):
        teaching.make("77", "student")
    with pytest.raises(
        InputError, match="unknown version 'teacher': use one of student, instructor"
    ):
        teaching.make("01", "teacher")
    with pytest.raises(InputError, match=r"ends in \.ipynb"):
        teaching.make("01", "student", tmp_path / "a.txt")


@pytest.fixture(scope="module")
def template():
    spec = importlib.util.spec_from_file_location(
        "my_design", ROOT / "examples" / "design" / "my_design.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["my_design"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["my_design"]


def test_the_template_is_accepted_by_the_simulation(template):
    task, federation = leaderboard.load_arena(0)
    method = leaderboard.make_entrant(template.NAME, template.MyDesign())
    what = {"rounds": 2, "clients_per_round": 10, "seed": 0, "device": "cpu"}
    first = simulation.run(task, federation, method, **what)
    again = simulation.run(task, federation, method, **what)
    pd.testing.assert_frame_equal(
        first.frame.drop(columns="seconds"), again.frame.drop(columns="seconds")
    )
    assert np.isfinite(first.frame["train_loss"]).all() and len(first.cohorts) == 2


@pytest.mark.parametrize(
    ("design", "verdict"),
    [
        (None, "ok     unbiased             for sum of n_k/n u_k"),
        ("power-of-choice", "biased unbiased"),
    ],
)
def test_the_template_audits_its_design_as_the_command_does(template, design, verdict):
    clients = methods.get(design).clients if design else template.MyDesign()
    assert verdict in template.audit_design(Method("audited", clients), draws=400)


def test_designs_that_cannot_enter_are_refused_with_a_reason(template):
    with pytest.raises(InputError, match=r"put @dataclass\(frozen=True\) above class Bare"):
        leaderboard.make_entrant("mine", type("Bare", (), {"draw": lambda *_: None})())
    with pytest.raises(InputError, match="has no method draw"):
        leaderboard.make_entrant("mine", object())
    with pytest.raises(InputError, match="choose another"):
        leaderboard.make_entrant("md", template.MyDesign())
    with pytest.raises(InputError, match="power is 3"):
        template.MyDesign(3)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, template):
    folder = tmp_path_factory.mktemp("runs")
    own = leaderboard.make_entrant(template.NAME, template.MyDesign())
    for method, seeds in (
        (own, 3),
        (leaderboard.get_baseline("md"), 3),
        (leaderboard.get_baseline("fedavg"), 1),
    ):
        leaderboard.record_runs(method, range(seeds), folder, rounds=2)
    return folder


def test_the_leaderboard_is_of_the_recorded_runs(recorded):
    found = leaderboard.rank_methods([recorded]).set_index("method")
    frame = records.load(recorded)
    last = frame[frame["round"] == 2]
    assert list(found["rank"]) == [1, 2, 3] and found["accuracy"].is_monotonic_decreasing
    for method, own in last.groupby("method"):
        row = found.loc[method]
        assert row["seeds"] == len(own)
        both = frame[frame["method"] == method]["test_accuracy"]  # final: of the last ten rounds
        assert row["accuracy"] == pytest.approx(100 * both.mean())
        assert row["MB"] == pytest.approx((own["bytes_down"] + own["bytes_up"]).mean() / 1e6)
        assert row["examples"] == own["examples"].mean()
    mine, md = (
        100 * frame[frame["method"] == name].groupby("seed")["test_accuracy"].mean()
        for name in ("my-design", "md")
    )
    gains = mine - md
    assert found.loc["my-design", "gain"] == pytest.approx(gains.mean())
    half = 4.302653 * gains.std(ddof=1) / np.sqrt(3)  # t of 2 degrees of freedom
    assert found.loc["my-design", "gain_interval"] == pytest.approx(half, rel=1e-6)
    assert np.isnan(found.loc["fedavg", "interval"]) and np.isnan(found.loc["md", "gain"])


def test_final_accuracy_is_of_the_last_ten_rounds_against_md_with_the_same_local_work(monkeypatch):
    """Two sweeps on one federation: 3 steps of 128, and 20 of 32; md is 10 and 50 %, fedavg 4 points above."""
    rows, known = [], {}
    for steps, base in ((3, 0.1), (20, 0.5)):
        for method, more in (("md", 0.0), ("fedavg", 0.04)):
            run = f"{method}{steps}"
            made = methods.get(method, steps=steps)
            known[run] = {
                "task": "digits", "digest": "d", "partition": {"name": "iid", "seed": 0, "clients": 9},
                "clients": 9, "clients_per_round": 3, "rounds": 30, "eval_every": 5, "seed": 0,
                "method": methods.to_dict(made), "algorithms": methods.version(made),
            }  # fmt: skip
            for t in (5, 25, 30):  # round 5 is none of the last ten
                value = 0.99 if t == 5 else base + more + (0.01 if t == 30 else -0.01)
                rows.append((run, "a sweep", "digits", 0, 30, t, value, 1e6, 1e6, 5))
    columns = ["run", "sweep", "task", "seed", "rounds", "round", "test_accuracy"]
    frame = pd.DataFrame(rows, columns=[*columns, "bytes_down", "bytes_up", "examples"])
    monkeypatch.setattr(records, "identities", lambda folder: known)
    monkeypatch.setattr(records, "load", lambda folder: frame)
    found = leaderboard.rank_methods(["here", "here"])  # twice the same: counted once
    told = found.assign(steps=[20 if "20 steps" in w else 3 for w in found["federation"]])
    told = told.set_index(["steps", "method"])
    expected = {(3, "md"): 10, (20, "md"): 50, (3, "fedavg"): 14, (20, "fedavg"): 54}
    assert told["accuracy"].to_dict() == pytest.approx(expected)
    assert [told.loc[(k, "fedavg"), "gain"] for k in (3, 20)] == pytest.approx([4, 4])
    assert found["seeds"].eq(1).all()


def test_the_leaderboard_as_markdown(recorded):
    text = leaderboard.format_markdown(leaderboard.rank_methods([recorded]))
    lines = text.split("\n")
    assert lines[0] == (
        "**digits, dirichlet, concentration 0.1: 50 clients, 10 a round, 2 rounds of 3 steps of 128 at rate 0.1, "
        "evaluated at the end**"
    )
    assert lines[2] == "| rank | method | seeds | accuracy | against md | MB | examples |"
    assert len({line.count("|") for line in lines[2:]}) == 1 and len(lines) == 7
    assert "nan" not in text


def test_ones_own_is_trained_again_and_a_baseline_is_not(recorded, template, monkeypatch):
    monkeypatch.setattr(simulation, "run", lambda *a, **k: pytest.fail("trained"))
    leaderboard.record_runs(leaderboard.get_baseline("md"), range(3), recorded, rounds=2)
    with pytest.raises(pytest.fail.Exception, match="trained"):
        leaderboard.record_runs(
            leaderboard.make_entrant(template.NAME, template.MyDesign()), [0], recorded, 2
        )


def run_of(folder, accuracy, name="md", seed=0, recipe=None, digest="d", version=None, **how):
    """Record a made-up run that ends with this accuracy."""
    shape = {"rounds": 4, "clients_per_round": 2, "eval_every": 2}
    shape |= {key: how.pop(key) for key in [*shape] if key in how}
    method = methods.get(name, **how) if name in methods.names() else Method(name, **how)
    who = {
        "algorithms": methods.version(method) if version is None else version,
        "task": "mnist", "digest": digest, "clients": 9, "seed": seed,
        "partition": {"name": "lognormal", "clients": 9, "sigma": 1.5} | (recipe or {}) | {"seed": seed},
        "method": methods.to_dict(method),
    } | shape  # fmt: skip
    rounds = records.evaluated_rounds(who)
    frame = pd.DataFrame({c: [1.0] * len(rounds) for c in simulation.COLUMNS})
    frame = frame.assign(round=rounds, test_accuracy=accuracy / 100).astype(simulation.COLUMNS)
    records.save(simulation.History(frame, None, [], {}), who, "made-up", folder, device="cpu")


def test_only_runs_of_one_setting_are_compared(tmp_path):
    """Each change of the setting is a table of its own, and `md` is paired with the others' seeds there alone."""
    run_of(tmp_path, 50, "fedprox")
    run_of(tmp_path, 51)
    others = [
        {"steps": 20}, {"batch": 64}, {"lr": 0.1}, {"rounds": 6}, {"eval_every": 4}, {"clients_per_round": 3},
        {"recipe": {"sigma": 0.0}}, {"recipe": {"name": "iid"}}, {"digest": "e"},
    ]  # fmt: skip
    for k, other in enumerate(others):
        run_of(tmp_path, 60 + k, **other)
    found = leaderboard.rank_methods([tmp_path])
    assert found["federation"].nunique() == 1 + len(others) == len(found) - 1
    prox = found[found["method"] == "fedprox"].iloc[0]
    assert prox["gain"] == pytest.approx(-1)
    words = "mnist, lognormal, sigma 1.5: 9 clients, 2 a round, 4 rounds of 3 steps of 128 at rate 0.01, evaluated every 2"
    assert prox["federation"].startswith(words)
    same = found[found["federation"].str.startswith(words)]["federation"].unique()
    assert (
        len(same) == 2 and sum("[" in each for each in same) == 1
    )  # words do not tell the data apart


def test_the_gain_is_over_the_seeds_that_both_have(tmp_path):
    for seed, accuracy in ((0, 10), (1, 20), (2, 90)):
        run_of(tmp_path, accuracy, seed=seed)
    for seed, accuracy in ((0, 13), (1, 25), (7, 0)):
        run_of(tmp_path, accuracy, "clustered-similarity", seed=seed)
    run_of(tmp_path, 0, steps=1)
    run_of(tmp_path, 0, recipe={"clients": 8, "name": "iid"})
    row = leaderboard.rank_methods([tmp_path]).set_index("method").loc["clustered-similarity"]
    assert (row["seeds"], row["gain"]) == (3, pytest.approx(4))
    assert row["gain_interval"] == pytest.approx(12.7062047364)  # t of 1 degree of freedom, times 1


def test_names_say_what_is_not_as_usual(tmp_path, template):
    named = {
        "md": ("md", {}),
        "md (FixedRate, rate 0.5)": ("md", {"data": FixedRate(0.5)}),
        "md (server rate 0.5)": ("md", {"server": Average(0.5)}),
        "fedprox (prox 1)": ("fedprox", {"prox": 1}),
        "fedstas (restratify every 10, replace)": ("fedstas", {"restratify_every": 10, "replace": True}),
        "fedstas (version 1)": ("fedstas", {"version": 1}),
        "fedstas-unbiased (StratifiedHorvitzThompson, selection size)": (
            "fedstas-unbiased",
            {"replace": False, "selection": "size"},
        ),
        "fedsampling (no epsilon)": ("fedsampling", {"epsilon": None}),
        "fedstas-authors-dec": ("fedstas-authors-dec", {}),
        "mine (power 0.5)": ("mine", {"clients": template.MyDesign(0.5)}),
        "mine (power 1)": ("mine", {"clients": template.MyDesign(1.0)}),
        "alone": ("alone", {"clients": template.MyDesign(1.0)}),
    }  # fmt: skip
    for name, how in named.values():
        run_of(tmp_path, 50, name, batch=64, **how) if name in methods.names() else run_of(
            tmp_path, 50, name, local=LocalSGD(batch=64), **how
        )
    assert set(leaderboard.rank_methods([tmp_path])["method"]) == set(named)


def test_what_the_recorded_runs_say_of_two_methods_that_were_averaged_over_settings():
    """Paired at equal local work: of CIFAR-100 what learns, and FedProx in the setting of the papers."""
    found = leaderboard.rank_methods([ROOT / "results"])
    cifar = found[found["federation"].str.contains("cifar100.*20 steps of 32 at rate 0.1,")]
    cifar = cifar.set_index("method")["gain"]
    assert round(cifar["clustered-similarity"], 1) == -0.6
    prox = found["federation"].str.contains("dirichlet,.*evaluated every round")
    prox = found[(found["method"] == "fedprox") & prox]
    assert [round(gain, 2) for gain in prox["gain"]] == [-0.01]
    assert not found["method"].str.contains("[", regex=False).any()
    assert not found.duplicated(["federation", "method"]).any()


def test_a_design_whose_code_changed_is_not_recorded_beside_its_packed_run(tmp_path, template):
    own = leaderboard.make_entrant(template.NAME, template.MyDesign())
    leaderboard.record_runs(own, [0], tmp_path, rounds=1)
    records.pack(tmp_path / "project")
    leaderboard.record_runs(own, [0], tmp_path, rounds=1)  # the same results again are no harm
    records.pack(tmp_path / "project")
    changed = dataclasses.replace(own, clients=template.MyDesign())
    object.__setattr__(
        changed.clients, "draw", lambda view, m, rng: Cohort(np.arange(m), np.full(m, 1 / m))
    )
    with pytest.raises(
        InputError, match=r"packed run of my-design, seed 0, .* the code has changed since. Give"
    ):
        leaderboard.record_runs(changed, [0], tmp_path, rounds=1)
    assert len(leaderboard.rank_methods([tmp_path])) == 1
    assert {p.name for p in (tmp_path / "project").iterdir()} == {records.ROWS, records.RUNS}


def test_the_leaderboard_refuses_what_is_not_there(tmp_path, recorded):
    with pytest.raises(InputError, match="there are no recorded runs below"):
        leaderboard.rank_methods([tmp_path])
    with pytest.raises(InputError, match="no run of task 'mnist'"):
        leaderboard.rank_methods([recorded], task="mnist")
    with pytest.raises(InputError, match="unknown metric 'loss'"):
        leaderboard.rank_methods([recorded], metric="loss")


def test_the_commands(tmp_path, recorded, monkeypatch, capsys):
    def fedstas(line: str) -> tuple[int, str, str]:
        """Exit code and what is said; that the module is the command, `test_cli` tests."""
        with pytest.raises(SystemExit) as stopped:
            cli.main(shlex.split(line))
        return stopped.value.code, *capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    assert teaching.FOLDER == ROOT / "teaching"  # wherever one stands
    monkeypatch.setattr(teaching, "FOLDER", tmp_path / "teaching")
    assert fedstas("teach 04c")[:2] == (0, "teaching/04c_size_estimator-student.ipynb\n")
    assert fedstas("teach 04c --instructor -o b.ipynb")[0] == 0
    assert "estimate(total, m, size_cap, alpha)" in (tmp_path / "b.ipynb").read_text()
    assert fedstas(f"leaderboard {recorded} -o table.md")[0] == 0
    assert "my-design" in (tmp_path / "table.md").read_text()
    code, _, said = fedstas("teach 04c --student --instructor")
    assert (code, said) == (2, "fedstas: --student and --instructor: choose one\n")


def test_the_syllabus_has_six_sessions_and_names_chapters_that_exist():
    text = (ROOT / "book" / "teaching" / "syllabus.md").read_text()
    assert re.findall(r"^### (\d)\.", text, re.MULTILINE) == list("123456")
    for stem in re.findall(r"\.\./chapters/(\w+)\.ipynb", text):
        assert stem in STEMS
    assert text.count("At the end you can") == text.count("\nExercises:") == 6


def test_every_exercise_of_the_syllabus_stands_in_a_chapter_of_its_session():
    text = (ROOT / "book" / "teaching" / "syllabus.md").read_text()
    for session in re.split(r"^### (?=\d\.)", text, flags=re.MULTILINE)[1:]:
        there = {}
        for stem in re.findall(r"\.\./chapters/(\w+)\.ipynb", session):
            source = "\n".join(cell.source for cell in chapters.notebook(stem).cells)
            for part in source.split("{exercise-start} ")[1:]:
                title = re.sub(r" \(level \d\)$", "", part.split("\n")[0].strip())
                part = part.split("{exercise-end}")[0]
                there.setdefault(title, set()).update(re.findall(r"[Ll]evel\s(\d)", part))
        listed = re.search(r"^Exercises: (.*?)(?:\n\n|\Z)", session, re.MULTILINE | re.DOTALL)[1]
        named = re.findall(r"\*([^*]+)\*\s\(([^)]+)\)", listed)
        assert len(named) >= 3 and listed.count("*") == 2 * len(named)
        for title, levels in named:
            title = " ".join(title.split())
            assert title in there, f"no exercise {title!r} in session {session[:2]}"
            assert set(re.findall(r"\d", levels)) <= there[title], title


def test_what_a_chapter_shows_are_plain_numbers_and_words(monkeypatch):
    import myst_nb

    glued = {}
    monkeypatch.setattr(myst_nb, "glue", lambda name, value, display: glued.update({name: value}))
    prose.glue_values(
        "ch0", half=Fraction(1, 2), count=np.int64(3), mean=np.float64(0.5), word="so"
    )
    assert glued == {"ch0_half": "1/2", "ch0_count": 3, "ch0_mean": 0.5, "ch0_word": "so"}
    assert [type(value) for value in glued.values()] == [str, int, float, str]
    found = prose.decide(
        "ch0", 7, "sum", lambda claim: SimpleNamespace(verdict="fails", ours=claim)
    )
    assert (found.ours, glued["ch0_verdict_sum"], glued["ch0_ours_sum"]) == (7, "fails", "7")
    lines = prose.table(pd.DataFrame({"a": ["1/2", "1.50"]})).data.split("\n")
    assert [line.split() for line in lines[2:]] == [["|", "1/2", "|"], ["|", "1.50", "|"]]
    power = prose.table(pd.DataFrame({"a": ["7.9e-05", "at 1e-3"], "b": ["3e+04", "x"]})).data
    assert "| 7.9\u00a0·\u00a010⁻⁵" in power and "| 3\u00a0·\u00a010⁴" in power
    assert "| at 1e-3" in power
