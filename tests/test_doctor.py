"""`fedstas doctor`: what is here, what is missing, what to do, and what things cost."""

import re
import subprocess
import sys
from collections import namedtuple
from functools import cache

import pandas as pd
import pytest
import yaml

from companion import doctor, parameters

# Runs the command where these packages cannot be found.
WITHOUT = """
import sys
from importlib.machinery import PathFinder
gone, real = {gone!r}, PathFinder.find_spec
def find(name, path=None, target=None):
    return None if name.partition(".")[0] in gone else real(name, path, target)
PathFinder.find_spec = find
{how}
"""
COMMAND = "from fedstas import cli; cli.main(['doctor'])"
# What nothing that is only counted needs, by what takes longest to import; told last, on stderr. Torch is asked
# for its device only where a driver is.
HEAVY = (
    "torch",
    "sklearn",
    "scipy",
    "pandas",
    "matplotlib",
    "seaborn",
    "torchvision",
    "dask",
    "papermill",
    "nbformat",
    "jupytext",
    "IPython",
    "sphinx",
)
TELL = f"import atexit; atexit.register(lambda: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr))"
TELL += "; from companion import doctor; doctor.driver = lambda: False"
MODULE = "import runpy; runpy.run_module('companion.doctor', run_name='__main__')"


@cache
def call(*gone: str, how: str = COMMAND) -> subprocess.CompletedProcess:
    code = WITHOUT.format(gone=gone, how=how)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def lines(text: str) -> dict[str, str]:
    """What is said of each thing, by its name."""
    found = re.findall(r"^  (?:ok|missing|NEEDED)?\s*(\S(?:.*?\S)?)  +(.*)$", text, re.M)
    return dict(found)


@pytest.mark.slow
def test_all_that_quick_needs_is_here():
    done = call(how=f"{TELL}\n{COMMAND}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1  # what `TELL` tells
    assert done.stdout.endswith(
        "The profile quick can run: `make book`, or `fedstas chapter 01`.\n"
    )
    assert "NEEDED" not in done.stdout
    for title in ("Installed", "Data", "Devices", "Files", "What it costs"):
        assert re.search(f"^{title}", done.stdout, re.M)
    found = lines(done.stdout)
    assert {"digits", "cpu", "cuda", "results/", "disk", "quick", "laptop", "paper"} <= set(found)
    every = len(parameters.names())
    assert found["quick"].startswith("about ")
    assert f"for {every} chapters of {every}, the longest " in found["quick"]


@pytest.mark.slow
def test_it_answers_at_once():
    """Nothing is imported that takes long and that it does not need; a second is not asserted, since a
    busy machine has its own."""
    assert call(how=f"{TELL}\n{COMMAND}").stderr == "[]\n"


@pytest.mark.slow
def test_without_torch_it_says_so_and_nothing_breaks():
    done = call("torch", "torchvision")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr + done.stdout
    assert re.search(r"NEEDED\s+torch\s+not installed; .*pip install -e \.", done.stdout)
    found = lines(done.stdout)
    assert found["quick"].startswith("about ") and found["digits"].startswith("comes with")
    assert "cannot run yet: see what is NEEDED (torch, torchvision)" in done.stdout


@pytest.mark.slow
def test_without_a_package_of_the_book_it_names_the_command():
    done = call("papermill", "tabulate")
    assert done.returncode == 1
    for name in ("papermill", "tabulate"):
        assert re.search(
            rf'NEEDED\s+{name}\s+not installed; .*pip install -e "\.\[book\]"', done.stdout
        )


@pytest.mark.slow
def test_where_hardly_anything_is_installed_the_module_still_answers():
    names = ("numpy", "scipy", "sklearn", "torch", "yaml", "typer", "pandas", "papermill")
    done = call(*names, how=MODULE)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert all(re.search(rf"NEEDED\s+{n}\s", done.stdout) for n in ("numpy", "torch", "pyyaml"))


def test_a_version_that_does_not_fit_is_needed(monkeypatch):
    real = doctor.installed
    monkeypatch.setattr(doctor, "installed", lambda n: "2.1.0" if n == "jupyter-book" else real(n))
    (line,) = [line for line in doctor.packages() if line.what == "jupyter-book"]
    assert line.mark == doctor.NEEDED
    assert line.said.startswith("2.1.0 does not meet <2;")


@pytest.mark.parametrize(
    ("version", "condition", "good"),
    [("1.0.4.post1", "<2", True), ("2.0", "<2", False), ("1.41.0", ">=1.41", True),
     ("1.9", ">=1.41", False), ("3.0", "", True)],
)  # fmt: skip
def test_versions_are_compared_as_numbers(version, condition, good):
    assert doctor.fits(version, condition) is good


def test_a_missing_package_is_said_to_be_optional_where_it_is(monkeypatch):
    real = doctor.installed
    monkeypatch.setattr(doctor, "installed", lambda n: None if n == "hypothesis" else real(n))
    (line,) = [line for line in doctor.packages() if line.what == "hypothesis"]
    assert line.mark == doctor.MISSING


def test_the_data_folder_is_the_one_that_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSTAS_DATA", str(tmp_path))
    (tmp_path / "mnist.npz").write_bytes(b"0" * 3_000_000)
    (tmp_path / "20news-bydate_py3.pkz").write_bytes(b"0" * 2_000_000)
    digits, mnist, topics, newsgroups, others = doctor.data()
    assert newsgroups.said == f"{tmp_path / '20news-bydate_py3.pkz'}, 2 MB"
    assert digits.mark == topics.mark == mnist.mark == doctor.OK
    assert mnist.said == f"{tmp_path / 'mnist.npz'}, 3 MB"
    assert others.mark == doctor.MISSING
    assert others.said.startswith("fashion-mnist, cifar10, cifar100, emnist: not in")
    assert str(tmp_path) in others.said and "FEDSTAS_DATA" in others.said


def test_what_is_not_beside_the_package_is_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "ROOT", tmp_path)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage(9, 9, 2e8))
    found = {line.what: line for line in doctor.files()}
    for name in ("notebooks", "params", "book", "_config.yml", "results/", "disk"):
        assert found[name].mark == doctor.NEEDED
    assert found["disk"].said == "0.2 GB free, needed is 1 GB"
    (tmp_path / "results" / "preprint").mkdir(parents=True)
    (tmp_path / "results" / "preprint" / "a.parquet").write_bytes(b"")
    found = {line.what: line for line in doctor.files()}
    assert found["results/"].said == "1 recorded runs: preprint 1"
    table = tmp_path / "results" / "preprint" / "runs.parquet"
    pd.DataFrame({"run": ["a", "b"]}).to_parquet(table)
    assert doctor.recorded().said == "3 recorded runs: preprint 3"
    table.write_bytes(b"PAR1")
    assert doctor.recorded().mark == doctor.NEEDED
    assert doctor.recorded().said == f"{table} is damaged: `git checkout results`"


def test_costs_come_from_a_page_made_here_then_from_the_record_then_from_the_scale(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(doctor, "ROOT", tmp_path)
    table = {"quick": {"02_stratification": 9}, "laptop": {"02_stratification": 100}}
    assert doctor.seconds("02_stratification", "quick", table) == 9
    assert doctor.seconds("02_stratification", "paper", table) == pytest.approx(100 * 99 / 50)
    assert doctor.seconds("03_data_sampling", "quick", table) is None
    page = tmp_path / "book" / "chapters" / "02_stratification.ipynb"
    page.parent.mkdir(parents=True)
    block = '{"metadata": {"fedstas": {"profile": "quick", "given": %s, "seconds": 4.5}}}'
    page.write_text(block % "{}")
    assert doctor.seconds("02_stratification", "quick", table) == 4.5
    page.write_text(block % '{"strata": 5}')  # another computation
    assert doctor.seconds("02_stratification", "quick", table) == 9


def test_every_chapter_has_a_recorded_time_in_quick_and_laptop():
    text = (doctor.ROOT / "params" / "seconds.yaml").read_text(encoding="utf-8")
    recorded = yaml.safe_load(text)
    assert set(recorded) == {"quick", "laptop"}
    for times in recorded.values():
        assert list(times) == parameters.names()
        assert all(time > 0 for time in times.values())
