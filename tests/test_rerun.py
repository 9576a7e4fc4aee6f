"""The page `Re-run it`: every command in a box is run; those that need more than a test has are parsed."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from companion.pages import chapters, copies, parameters
from companion.pages.warm import ADDRESS, Warm
from fedstas import cli

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "book" / "rerun.md").read_text(encoding="utf-8")
BOX = re.compile(r"^```(?P<head>bash|\{code-block\} bash)\n(?P<body>.*?)^```$", re.M | re.S)
NEEDED = (
    "_config.yml", "CITATION.cff", "fedstas", "companion", "notebooks", "params", "examples", "book",
)  # fmt: skip


def commands(elsewhere: bool) -> list[str]:
    """The lines of the page's boxes: those that a test runs, or those marked `elsewhere`."""
    found = []
    for box in BOX.finditer(PAGE):
        options, lines = [], box["body"].splitlines()
        while lines and re.match(r":[\w-]+:", lines[0]):
            options.append(lines.pop(0))
        assert options in ([], [":class: elsewhere"]), options
        assert bool(options) == (box["head"] != "bash"), box[0]
        if bool(options) == elsewhere:
            found += [line for line in lines if line.strip()]
    return found


HERE, ELSEWHERE = commands(False), commands(True)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the repository, so that an example may write into its book."""
    there = tmp_path_factory.mktemp("rerun") / "clone"
    there.mkdir()
    leave = shutil.ignore_patterns("__pycache__", "*.ipynb")
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, there / name, ignore=leave)
        else:
            shutil.copy(source, there / name)
    copies.make(there / "notebooks" / "ipynb")
    shutil.copytree(ROOT / "results", there / "results")
    return there


@pytest.fixture(scope="module")
def warm(clone):
    """Our commands in the clone, without the seconds that each takes to begin: see `warm`."""
    process = Warm(clone)
    yield process
    process.close()


FORKED = """import sys
print("torch" in sys.modules, __name__, sys.argv[1:])
print("told", file=sys.stderr)
sys.exit(3)
"""


@pytest.mark.parametrize("there", [True, False])
def test_a_module_is_a_fork_where_the_process_is_there_and_else_a_new_interpreter(
    there, clone, warm
):
    (clone / "forked.py").write_text(FORKED)
    where = {ADDRESS: warm.address} if there else {}
    command = [sys.executable, "-m", "companion.pages.warm", "forked", "a b"]
    environment = {k: v for k, v in os.environ.items() if k != ADDRESS} | where
    environment["PYTHONPATH"] = str(clone)
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    assert done.stdout == f"{there} __main__ ['a b']\n"
    assert (done.stderr, done.returncode) == ("told\n", 3)


def call(command: str, folder: Path) -> subprocess.CompletedProcess:
    """The command as a reader types it, its environment active and the package that of `folder`."""
    tools = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "TQDM_DISABLE": "1",
    }
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder, capture_output=True, text=True, env=environment,
    )  # fmt: skip


def test_every_chapter_has_an_example():
    shown = {
        chapters.find(shlex.split(line)[2]) for line in HERE if line.startswith("fedstas chapter")
    }
    assert shown == set(chapters.names())


def test_no_command_of_the_page_is_overlooked():
    """Every line of the page that begins like a command stands in a box of one of the two kinds."""
    lines = re.findall(r"^\s*\$?\s*((?:fedstas|papermill|jupytext|make|git|pip) .*)$", PAGE, re.M)
    assert len(lines) >= 25
    assert set(lines) <= {*HERE, *ELSEWHERE}


def cold(command: str) -> bool:
    """Whether a test types the command as a reader does: a chapter in a shell of its own, with a kernel of
    its own, and what is no command of ours alone. The others are forks of one process."""
    chapter = command.startswith("fedstas chapter 01 ")
    return chapter or "|" in command or not command.startswith(("fedstas ", "papermill "))


def test_a_chapter_and_a_pipe_are_run_as_they_are_typed():
    assert [command.split()[:3] for command in HERE if cold(command)] == [
        ["fedstas", "chapter", "01"], ["jupytext", "--to", "ipynb"],
    ]  # fmt: skip


def outputs(page: Path) -> list[dict]:
    """All outputs of an executed page."""
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    return [out for cell in cells for out in cell.get("outputs", [])]


@pytest.mark.parametrize("command", HERE)
def test_the_example_runs(command, clone, warm):
    done = call(command, clone) if cold(command) else warm.run(shlex.split(command))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if command.startswith("fedstas chapter") and "--parameters" not in command:
        words = shlex.split(command)
        page = clone / "book" / "chapters" / f"{chapters.find(words[2])}.ipynb"
        shown = [out["data"] for out in outputs(page) if "<Figure" in str(out.get("data", {}))]
        assert shown or page.stem == "04_theory"  # the one without a figure
        assert all(re.search(r"image/(png|svg)", " ".join(data)) for data in shown)
        assert chapters.provenance(page)["cpu"] > 0  # the kernel's, whoever began it
        asked = dict(zip(words[4::3], words[5::3], strict=True))
        assert chapters.provenance(page)["given"] == parameters.parse(words[2], asked)
    if " out.ipynb" in command:
        assert (clone / "out.ipynb").stat().st_size > 10_000
        (clone / "out.ipynb").unlink()


def code(command: str) -> int:
    """The exit code of one of our commands, in this process: a new one takes seconds to begin."""
    with pytest.raises(SystemExit) as stopped:
        cli.main(shlex.split(command)[1:])
    return stopped.value.code


@pytest.mark.parametrize("command", ELSEWHERE)
def test_the_example_for_elsewhere_is_well_formed(command, clone, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if command.startswith("fedstas chapter "):
        assert code(f"{command} --parameters") == 0
    elif command.startswith("fedstas sweep "):
        # a dry run of the same call where neither MNIST nor a GPU is needed
        command = re.sub(r"--profile (laptop|paper)\b", "--profile quick", command)
        command = re.sub(r"--device cuda\b", "--device cpu", command)
        assert code(f"{command} --dry-run") == 0
    elif command.startswith("make "):
        (clone / ".ci").mkdir(exist_ok=True)
        for name in ("Makefile", "pyproject.toml", "requirements.lock", ".ci/setup"):
            shutil.copy(ROOT / name, clone / name)
        done = call(f"{command} --dry-run", clone)
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        assert command in (". .venv/bin/activate", "fedstas compare mine results")


def test_open_shows_the_page_that_was_made(clone):
    page = clone / "book" / "chapters" / "01_aggregation.ipynb"
    if not page.is_file():
        assert call(f"fedstas chapter {page.stem} -p rounds 2", clone).returncode == 0
    done = call("python -c 'from companion import preview; print(preview.render(\"01\"))'", clone)
    assert done.returncode == 0, done.stdout + done.stderr
    made = Path(done.stdout.strip())
    assert clone in made.parents
    text = made.read_text(encoding="utf-8")
    assert "What is a round estimating?" in text
    assert "{glue:" not in text and text.count("<figure") >= 4


def test_an_example_with_a_parameter_that_is_not_there_would_be_noticed(capsys):
    assert code("fedstas chapter 05 --profile paper -p strat 5 --parameters") == 2
    assert "unknown parameter 'strat'" in capsys.readouterr().err
