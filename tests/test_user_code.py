"""Users' designs: their files, names and identities, and repetition of their recorded runs."""

import dataclasses
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from companion.runs import records, sweeps
from fedstas import config, methods, simulation, user_code
from fedstas.client_sampling import MD, Cohort, Uniform
from fedstas.errors import InputError
from fedstas.methods import Method

SOURCE = '''
from dataclasses import dataclass

import numpy as np

from fedstas.client_sampling import Cohort
from fedstas.state import Renewed, renewed


@dataclass
class Probabilities:
    p: Renewed[np.ndarray] = renewed()


@dataclass(frozen=True)
class Sized:
    """p by a power of the sizes."""

    State = Probabilities
    power: float = 0.5

    def draw(self, view, m, rng):
        omega = view.sizes / view.sizes.sum()
        p = view.state_of(self).p.get(view.round, 100, lambda: omega**self.power)
        p = p / p.sum()
        chosen = rng.choice(view.clients, m, p=p)
        return Cohort(chosen, omega[chosen] / (m * p[chosen]))
'''


@dataclasses.dataclass(frozen=True)
class Mine:
    """A design of this file."""

    first: int = 0

    def draw(self, view, m, rng):
        return Cohort(self.first + np.arange(m), np.full(m, 1 / m))


@pytest.fixture
def design_file(tmp_path, monkeypatch):
    """Write mine.py into an empty folder, which becomes the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SOURCE, encoding="utf-8")
    yield tmp_path / "mine.py"
    forget_imports()


def forget_imports():
    """Forget all users' files that were imported, as a new process would."""
    user_code._LOADED.clear()
    user_code.source.cache_clear()
    for name in [name for name in sys.modules if name.startswith(config.USER_MODULE_PREFIX)]:
        del sys.modules[name]


def hash_file(path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_users_design_is_named_in_the_method_and_its_file_in_the_identity():
    method = methods.get("md", clients=Mine(2), lr=0.5)
    assert method.name == "md, clients Mine"
    assert methods.get("md", clients=Uniform()).name == "md"  # a part of the package: as recorded
    data = json.loads(json.dumps(methods.to_dict(method)))
    source = {"file": "test_user_code.py", "sha256": hash_file(Path(__file__))}
    assert data["clients"] == {"is": "Mine", "first": 2, "from": source}
    assert "from" not in data["data"]
    assert methods.from_dict(data) == method


def test_a_registered_name_can_be_registered_again(monkeypatch):
    monkeypatch.setattr(methods, "_METHODS", dict(methods._METHODS))
    methods.register("mine", Mine(), description="The first m.")
    assert methods.names()[-1] == "mine" and methods.describe("mine") == "The first m."
    assert methods.parameters("mine")["first"] == 0
    method = methods.get("mine", first=3, lr=0.2)
    assert (method.name, method.clients, method.local.lr) == ("mine", Mine(3), 0.2)
    methods.register("mine", Method("other", Mine(1), local=methods.LocalSGD(steps=7)))
    assert methods.describe("mine") == "A design of this file."
    assert methods.get("mine").local.steps == methods.parameters("mine")["steps"] == 7
    for name in ("md", "two words", "a,b", "mine.py", ""):
        with pytest.raises(InputError, match="cannot name a user's method"):
            methods.register(name, Mine())
    with pytest.raises(InputError, match=r"put @dataclass\(frozen=True\) above class Bare"):
        methods.register("bare", type("Bare", (), {"draw": lambda *_: None})())
    with pytest.raises(InputError, match="clients is 5: it must have draw"):
        methods.register("five", 5)


def test_a_users_file_is_a_method_and_a_changed_file_another_run(design_file):
    method = methods.get("mine.py", power=0.75)
    assert method.name == "mine.py:Sized" and method.clients.power == 0.75
    assert methods.parameters("mine.py") == {"power": 0.5} | dataclasses.asdict(method.local)
    data = methods.to_dict(method)
    assert data["clients"]["from"] == {"file": "mine.py", "sha256": hash_file(design_file)}
    assert methods.get(f"{design_file}:Sized", power=0.75) == method  # wherever it is named from
    assert methods.parse("mine.py power=0.75 lr=0.5") == methods.get("mine.py", power=0.75, lr=0.5)
    design_file.write_text(SOURCE + "# another text\n", encoding="utf-8")
    assert methods.to_dict(methods.get("mine.py", power=0.75)) != data
    assert methods.to_dict(method) == data  # what was loaded is what runs


def test_two_files_may_have_designs_of_the_same_name(design_file, tmp_path):
    decorated = "from fedstas.config import config\n" + SOURCE.replace(
        "@dataclass(frozen=True)", "@config"
    )
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(decorated + f"# {name}\n", encoding="utf-8")
    a, b = (methods.get(f"{name}:Sized") for name in ("a.py", "b.py"))
    assert type(a.clients) is not type(b.clients) and "Sized" not in config.CONFIG_CLASSES
    assert methods.to_dict(a)["clients"]["from"] != methods.to_dict(b)["clients"]["from"]


SOURCE_WITH_CHECK = SOURCE.replace(
    "    def draw",
    "    def __post_init__(self):\n        if self.power < 0:\n            raise ValueError('below\\nzero')\n\n    def draw",
    1,
)


@pytest.mark.parametrize(
    ("source", "spec", "message"),
    [
        (None, "away.py", "there is no file away.py"),
        ("x = 1", "mine.py", r"names no design: mine.py has no class with a method draw"),
        (SOURCE + SOURCE.replace("Sized", "Other"), "mine.py", "has Sized, Other; name one"),
        (SOURCE, "mine.py:Other", "mine.py:Other names no design: mine.py has Sized$"),
        ("import nowhere_at_all", "mine.py", "fails on import: ModuleNotFoundError: No module"),
        ("def broken(:", "mine.py", "fails on import: SyntaxError"),
        ("raise SystemExit(3)", "mine.py", "fails on import: SystemExit: 3"),
        ("raise ValueError('one\\ntwo')", "mine.py", "fails on import: ValueError: one two"),
        ("x = 1\0", "mine.py", "mine.py line 1 fails on import: "),
        (SOURCE.replace("(frozen=True)", "", 2), "mine.py", r"put @dataclass\(frozen=True\) above"),
        (SOURCE.replace(" = 0.5", ""), "mine.py", "give each setting a default"),
        (SOURCE_WITH_CHECK, "mine.py power=-1", r"mine.py line 24: ValueError: below zero$"),
        (
            SOURCE_WITH_CHECK.replace("< 0", "< 1"),
            "mine.py",
            r"mine.py line 24: ValueError: below zero$",
        ),
        (SOURCE, "mine.py pwer=2", "has no setting 'pwer': it has power, steps"),
        (SOURCE, "mine.py power", "'power' after mine.py is no setting: write KEY=VALUE"),
        (SOURCE, "mine.py power=1 power=2", "'mine.py power=1 power=2' has power twice: give it"),
        (SOURCE, "mine.py 'power", "names no method"),
        (SOURCE, "  ", "names no method"),
    ],
)
def test_a_file_without_a_valid_design_is_refused_in_one_sentence(
    design_file, source, spec, message
):
    if source is not None:
        design_file.write_text(source, encoding="utf-8")
    with pytest.raises(InputError, match=message) as exc_info:
        methods.parse(spec)
    assert "\n" not in str(exc_info.value)


def test_parse_reads_settings_after_the_name():
    spec = "fedstas-least-variance draws=norm noise=true rate=0.5 restratify_every=4"
    expected = methods.get(
        "fedstas-least-variance", draws="norm", noise=True, rate=0.5, restratify_every=4
    )
    assert methods.parse(spec) == expected
    assert methods.parse("fedsampling epsilon=none") == methods.get("fedsampling", epsilon=None)
    for spec, message in (
        ("fedstas-least-variance noise=maybe", "noise is 'maybe'"),
        ("md lr=x", "lr is"),
        ("md name=3", "method md has no setting 'name'"),
    ):
        with pytest.raises(InputError, match=message):
            methods.parse(spec)


def test_a_setting_in_the_words_and_beside_them_is_refused():
    with pytest.raises(InputError, match=r"lr is given twice, as 0\.1 in 'md lr=0\.1' and as 0\.5"):
        methods.parse("md lr=0.1", lr=0.5)
    assert methods.parse("md lr=0.1", steps=5) == methods.get("md", lr=0.1, steps=5)


def test_settings_that_a_record_cannot_hold_are_refused():
    for setting in (np.arange(2), (1, 2), MD()):
        with pytest.raises(
            InputError, match="cannot be recorded: its settings must be numbers, words"
        ):
            methods.to_dict(methods.get("md", clients=Mine(setting)))
    kind = dataclasses.make_dataclass(
        "Cell", [("k", int, 1)], frozen=True, namespace={"draw": Mine.draw}
    )
    kind.__module__ = "__main__ of a notebook"
    with pytest.raises(InputError, match="class Cell is in no file: put it in one"):
        methods.to_dict(methods.get("md", clients=kind()))


@pytest.fixture
def recorded_run(design_file, digits, federation):
    """Record a run of mine.py in the folder runs; return the run, its id and its rows."""
    run = sweeps.Run(
        "digits",
        "dirichlet",
        0.1,
        "mine.py",
        0,
        {"power": 0.75},
        clients=20,
        clients_per_round=4,
        rounds=3,
    )
    assert sweeps.perform(run, "mine", "runs", "cpu") == "done"
    (name,) = records.identities("runs")
    return run, name, records.load("runs")


def without_seconds(frame) -> pd.DataFrame:
    """Return the columns of a history, but the seconds, which differ between runs."""
    return frame[list(simulation.COLUMNS)].drop(columns="seconds").reset_index(drop=True)


def test_a_recorded_run_is_repeated_only_if_its_file_is_unchanged(recorded_run, design_file):
    run, name, frame = recorded_run
    assert set(frame["method"]) == {"mine.py:Sized"}
    assert sweeps.perform(run, "mine", "runs", "cpu") == "there"
    forget_imports()
    repeated = records.rerun(name, "runs", device="cpu")
    pd.testing.assert_frame_equal(without_seconds(repeated.frame), without_seconds(frame))
    forget_imports()
    design_file.write_text(SOURCE + "# another text\n", encoding="utf-8")
    file_and_hash = f"Sized in mine.py \\(SHA-256 {records.identities('runs')[name]['method']['clients']['from']['sha256'][:8]}"
    with pytest.raises(InputError, match=f"{file_and_hash}...\\), which has changed since"):
        records.rerun(name, "runs", device="cpu")
    assert sweeps.perform(run, "mine", "runs", "cpu") == "done"  # another run
    assert len(records.identities("runs")) == 2
    design_file.unlink()
    forget_imports()
    with pytest.raises(InputError, match="which is not here: run this in its folder"):
        records.rerun(name, "runs", device="cpu")


def test_a_run_resumes_from_its_checkpoint_in_another_process(
    recorded_run, design_file, monkeypatch
):
    """The design's memory has a data class of the file; the checkpoint may name it once the file has been read."""
    run, _, expected = recorded_run
    write, original_run, rounds = records.write_checkpoint, simulation.run, []

    def write_and_fail(history, *rest):
        write(history, *rest)
        raise RuntimeError("killed")

    monkeypatch.setattr(records, "write_checkpoint", write_and_fail)
    assert "killed" in sweeps.perform(run, "cut", "runs", "cpu")
    monkeypatch.setattr(records, "write_checkpoint", write)

    def run_and_record(*arguments, resume, **options):
        rounds.append(resume.state.round)
        return original_run(*arguments, resume=resume, **options)

    monkeypatch.setattr(simulation, "run", run_and_record)
    forget_imports()
    assert sweeps.perform(run, "cut", "runs", "cpu") == "done"
    assert rounds == [1]
    pd.testing.assert_frame_equal(
        without_seconds(records.load("runs/cut")), without_seconds(expected)
    )


def test_a_history_is_not_resumed_after_its_file_changed(design_file, digits, federation):
    options = {"clients_per_round": 4, "seed": 0, "device": "cpu"}
    history = simulation.run(digits, federation, methods.get("mine.py"), rounds=1, **options)
    design_file.write_text(SOURCE + "# another text\n", encoding="utf-8")
    with pytest.raises(InputError, match="resume: the history is of another"):
        simulation.run(
            digits, federation, methods.get("mine.py"), rounds=2, resume=history, **options
        )
