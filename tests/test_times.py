"""`make times`: the figures of each notebook, and that the command resumes. No timing is asserted."""

import json
import os
import sys

import pytest
import yaml

from benchmarks import notebooks
from companion.pages import parameters


def call(monkeypatch, *arguments: str) -> None:
    """Run `python -m benchmarks.notebooks` with these arguments."""
    monkeypatch.setattr(sys, "argv", ["benchmarks.notebooks", *map(str, arguments)])
    notebooks.main()


def test_timing_resumes_where_it_stopped_and_repeats_changed_notebooks(
    tmp_path, monkeypatch, capsys
):
    timed_notebooks, file = [], tmp_path / "times.json"

    def time_or_stop(notebook):
        timed_notebooks.append(notebook.stem)
        if notebook.stem == "04e_privacy" and len(timed_notebooks) == 2:
            raise RuntimeError("stopped")
        return {"seconds": 10.0 + len(timed_notebooks), "cpu": 9.0, "others": 0.25}

    monkeypatch.setattr(notebooks, "time_notebook", time_or_stop)
    arguments = ("--json", file, "04c", "04e")
    with pytest.raises(RuntimeError, match="stopped"):
        call(monkeypatch, *arguments)
    capsys.readouterr()
    call(monkeypatch, *arguments)
    assert timed_notebooks == ["04c_size_estimator", "04e_privacy", "04e_privacy"]
    lines = capsys.readouterr().out.splitlines()
    assert (
        " ".join(lines[0].split())
        == "04c_size_estimator 11.0 s, 9.0 s of processors, others had 25% of the machine"
    )
    assert len(lines) == 3 and lines[2].startswith("the longest of 2: 04e_privacy")
    times = json.loads(file.read_text(encoding="utf-8"))
    times["04c_size_estimator"]["notebook"] = "of another text"
    file.write_text(json.dumps(times), encoding="utf-8")
    call(monkeypatch, *arguments)
    assert timed_notebooks[3:] == ["04c_size_estimator"]


def test_the_share_of_other_processes_is_all_processor_time_less_ours():
    # All processes were busy for 30 s, ours for 20 of them, within 20 s on two cores.
    assert notebooks.share_of_others(30.0, 20.0, 20.0, 2) == 0.25
    # The clocks tick a hundred times a second, so that ours may seem to be more than all.
    assert notebooks.share_of_others(19.0, 20.0, 20.0, 2) == 0.0


@pytest.mark.slow
def test_a_notebook_is_run_by_plain_papermill_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    cell = {
        "cell_type": "code",
        "id": "a",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": f"import os; from pathlib import Path; Path({str(tmp_path / 'observed')!r}).write_text("
        "repr((os.listdir(), os.environ.get('OMP_NUM_THREADS')))); assert not Path('stop').exists()",
    }
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    book = {"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "a.ipynb").write_text(json.dumps(book), encoding="utf-8")
    times = notebooks.time_notebook(tmp_path / "a.ipynb")
    assert (
        eval((tmp_path / "observed").read_text(encoding="utf-8"))[1] is None
    )  # as a reader has it
    assert set(eval((tmp_path / "observed").read_text(encoding="utf-8"))[0]) <= {"out.ipynb"}
    assert times["seconds"] > 0 and times["cpu"] > 0
    assert ("others" in times) == os.path.exists("/proc/stat")  # noqa: PTH110
    cell["source"] = "raise ValueError('no such thing')"
    (tmp_path / "a.ipynb").write_text(json.dumps(book), encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"(?s)a\.ipynb did not run:.*no such thing"):
        notebooks.time_notebook(tmp_path / "a.ipynb")


@pytest.mark.parametrize(
    ("page", "promise", "seconds"),
    [
        ("README.md", "Each runs in about a minute and a half or less", 90),
        ("book/index.md", "in a minute or two a chapter", 120),
    ],
)
def test_no_chapter_takes_longer_than_a_page_promises(page, promise, seconds):
    """`params/seconds.yaml` has the recorded times; what a page says of them holds for every chapter."""
    text = (parameters.ROOT / "params" / "seconds.yaml").read_text(encoding="utf-8")
    recorded = yaml.safe_load(text)["quick"]
    assert promise in (parameters.ROOT / page).read_text(encoding="utf-8")
    assert {name: time for name, time in recorded.items() if time > seconds} == {}
