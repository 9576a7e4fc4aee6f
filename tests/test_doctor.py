"""`fedstas doctor`: what is installed, what is missing, what to do, and how long things take."""

import re
import subprocess
import sys
from collections import namedtuple
from functools import cache

import pandas as pd
import pytest
import yaml

from companion import doctor, parameters

# Runs code where these packages cannot be imported.
WITHOUT = """
import sys
from importlib.machinery import PathFinder
missing, find_spec = {missing!r}, PathFinder.find_spec
def find(name, path=None, target=None):
    return None if name.partition(".")[0] in missing else find_spec(name, path, target)
PathFinder.find_spec = find
{code}
"""
COMMAND = "from fedstas import cli; cli.main(['doctor'])"
# Packages that take long to import and that counting does not need; `REPORT` prints to stderr, at the end, those that
# were imported. Torch is asked for its device only where a driver is.
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
REPORT = f"import atexit; atexit.register(lambda: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr))"
REPORT += "; from companion import doctor; doctor.has_gpu_driver = lambda: False"
MODULE = "import runpy; runpy.run_module('companion.doctor', run_name='__main__')"


@cache
def run_without(*missing: str, code: str = COMMAND) -> subprocess.CompletedProcess:
    """Run code in a new interpreter in which some packages cannot be imported."""
    code = WITHOUT.format(missing=missing, code=code)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def messages(text: str) -> dict[str, str]:
    """Read the messages of a report by their subjects."""
    return dict(re.findall(r"^  (?:ok|missing|NEEDED)?\s*(\S(?:.*?\S)?)  +(.*)$", text, re.M))


@pytest.mark.slow
def test_with_everything_installed_it_reports_that_quick_can_run():
    result = run_without(code=f"{REPORT}\n{COMMAND}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(result.stderr.splitlines()) == 1  # that of `REPORT`
    assert result.stdout.endswith(
        "The profile quick can run: `make book`, or `fedstas chapter 01`.\n"
    )
    assert "NEEDED" not in result.stdout
    for title in ("Installed", "Data", "Devices", "Files", "What it costs"):
        assert re.search(f"^{title}", result.stdout, re.M)
    by_subject = messages(result.stdout)
    assert {"digits", "cpu", "cuda", "results/", "disk", "quick", "laptop", "paper"} <= set(
        by_subject
    )
    count = len(parameters.names())
    assert by_subject["quick"].startswith("about ")
    assert f"for {count} chapters of {count}, the longest " in by_subject["quick"]


@pytest.mark.slow
def test_it_imports_no_large_package_that_it_does_not_need():
    assert run_without(code=f"{REPORT}\n{COMMAND}").stderr == "[]\n"


@pytest.mark.slow
def test_without_torch_it_reports_that_and_ends_without_a_traceback():
    result = run_without("torch", "torchvision")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr + result.stdout
    assert re.search(r"NEEDED\s+torch\s+not installed; .*pip install -e \.", result.stdout)
    by_subject = messages(result.stdout)
    assert by_subject["quick"].startswith("about ") and by_subject["digits"].startswith(
        "comes with"
    )
    assert "cannot run yet: see what is NEEDED (torch, torchvision)" in result.stdout


@pytest.mark.slow
def test_without_a_package_of_the_book_it_names_the_command():
    result = run_without("papermill", "tabulate")
    assert result.returncode == 1
    for name in ("papermill", "tabulate"):
        assert re.search(
            rf'NEEDED\s+{name}\s+not installed; .*pip install -e "\.\[book\]"', result.stdout
        )


@pytest.mark.slow
def test_the_module_still_reports_where_hardly_anything_is_installed():
    names = ("numpy", "scipy", "sklearn", "torch", "yaml", "typer", "pandas", "papermill")
    result = run_without(*names, code=MODULE)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert all(re.search(rf"NEEDED\s+{n}\s", result.stdout) for n in ("numpy", "torch", "pyyaml"))


def test_a_package_of_a_wrong_version_is_reported_as_needed(monkeypatch):
    original = doctor.installed
    monkeypatch.setattr(
        doctor, "installed", lambda n: "2.1.0" if n == "jupyter-book" else original(n)
    )
    (line,) = [line for line in doctor.packages() if line.subject == "jupyter-book"]
    assert line.mark == doctor.NEEDED
    assert line.message.startswith("2.1.0 does not meet <2;")


@pytest.mark.parametrize(
    ("version", "condition", "fits"),
    [
        ("1.0.4.post1", "<2", True),
        ("2.0", "<2", False),
        ("1.41.0", ">=1.41", True),
        ("1.9", ">=1.41", False),
        ("3.0", "", True),
    ],
)
def test_versions_are_compared_as_numbers(version, condition, fits):
    assert doctor.fits(version, condition) is fits


def test_a_missing_package_that_only_tests_need_is_optional(monkeypatch):
    original = doctor.installed
    monkeypatch.setattr(doctor, "installed", lambda n: None if n == "hypothesis" else original(n))
    (line,) = [line for line in doctor.packages() if line.subject == "hypothesis"]
    assert line.mark == doctor.MISSING


def test_the_data_folder_is_the_one_that_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSTAS_DATA", str(tmp_path))
    (tmp_path / "mnist.npz").write_bytes(b"0" * 3_000_000)
    (tmp_path / "20news-bydate_py3.pkz").write_bytes(b"0" * 2_000_000)
    digits, mnist, topics, newsgroups, others, texts = doctor.data()
    assert newsgroups.message == f"{tmp_path / '20news-bydate_py3.pkz'}, 2 MB"
    assert digits.mark == topics.mark == mnist.mark == doctor.OK
    assert mnist.message == f"{tmp_path / 'mnist.npz'}, 3 MB"
    assert others.mark == doctor.MISSING
    assert others.message.startswith(
        "fashion-mnist, cifar10, cifar100, emnist, emnist-byclass, cifar10-features, cifar100-features: not in"
    )
    assert "the first use downloads or computes them" in others.message
    assert texts == (
        doctor.MISSING,
        "reuters, shakespeare",
        f"not in {tmp_path} (FEDSTAS_DATA), and cannot be downloaded: put text/reuters-21578.jsonl.xz for reuters and "
        "text/shakespeare-37-plays.tar.xz for shakespeare there",
    )
    for line in (others, texts):
        assert str(tmp_path) in line.message and "FEDSTAS_DATA" in line.message


def test_an_archive_that_is_there_is_not_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSTAS_DATA", str(tmp_path))
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "reuters-21578.jsonl.xz").write_bytes(b"0" * 1_000_000)
    lines = {line.subject: line for line in doctor.data()}
    assert lines["reuters"].mark == doctor.OK
    assert lines["shakespeare"].message.endswith(
        "put text/shakespeare-37-plays.tar.xz for shakespeare there"
    )


def test_missing_files_of_the_repository_and_disk_space_are_reported_as_needed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(doctor, "ROOT", tmp_path)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage(9, 9, 2e8))
    by_subject = {line.subject: line for line in doctor.files()}
    for name in ("notebooks", "params", "book", "_config.yml", "results/", "disk"):
        assert by_subject[name].mark == doctor.NEEDED
    assert by_subject["disk"].message == "0.2 GB free, needed is 1 GB"
    (tmp_path / "results" / "preprint").mkdir(parents=True)
    (tmp_path / "results" / "preprint" / "a.parquet").write_bytes(b"")
    by_subject = {line.subject: line for line in doctor.files()}
    assert by_subject["results/"].message == "1 recorded runs: preprint 1"
    table = tmp_path / "results" / "preprint" / "runs.parquet"
    pd.DataFrame({"run": ["a", "b"]}).to_parquet(table)
    assert doctor.recorded_runs().message == "3 recorded runs: preprint 3"
    table.write_bytes(b"PAR1")
    assert doctor.recorded_runs().mark == doctor.NEEDED
    assert doctor.recorded_runs().message == f"{table} is damaged: `git checkout results`"


def test_the_time_of_a_chapter_is_that_of_its_executed_page_else_recorded_else_scaled(
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
    page.write_text(block % "{}", encoding="utf-8")
    assert doctor.seconds("02_stratification", "quick", table) == 4.5
    page.write_text(block % '{"strata": 5}', encoding="utf-8")  # another computation
    assert doctor.seconds("02_stratification", "quick", table) == 9


def test_every_chapter_has_a_recorded_time_in_quick_and_laptop():
    text = (doctor.ROOT / "params" / "seconds.yaml").read_text(encoding="utf-8")
    recorded = yaml.safe_load(text)
    assert set(recorded) == {"quick", "laptop"}
    for times in recorded.values():
        assert list(times) == parameters.names()
        assert all(time > 0 for time in times.values())
