"""The page `Re-run it`: each command in a box is run, or only parsed if it is marked `elsewhere`."""

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
    "_config.yml",
    "CITATION.cff",
    "fedstas",
    "companion",
    "notebooks",
    "params",
    "examples",
    "book",
)


def commands_of_page(elsewhere: bool) -> list[str]:
    """Return the lines of the page's boxes that a test runs, or of those marked `elsewhere`."""
    lines_of_boxes = []
    for box in BOX.finditer(PAGE):
        options, lines = [], box["body"].splitlines()
        while lines and re.match(r":[\w-]+:", lines[0]):
            options.append(lines.pop(0))
        assert options in ([], [":class: elsewhere"]), options
        assert bool(options) == (box["head"] != "bash"), box[0]
        if bool(options) == elsewhere:
            lines_of_boxes += [line for line in lines if line.strip()]
    return lines_of_boxes


COMMANDS, ELSEWHERE = commands_of_page(elsewhere=False), commands_of_page(elsewhere=True)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """Copy the repository, so that an example may write into its book."""
    folder = tmp_path_factory.mktemp("rerun") / "clone"
    folder.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.ipynb")
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    copies.make(folder / "notebooks" / "ipynb")
    shutil.copytree(ROOT / "results", folder / "results")
    return folder


@pytest.fixture(scope="module")
def warm(clone):
    """Run our commands in the clone without the seconds that each takes to start: see `companion.pages.warm`."""
    process = Warm(clone)
    yield process
    process.close()


FORKED = """import sys
print("torch" in sys.modules, __name__, sys.argv[1:])
print("message", file=sys.stderr)
sys.exit(3)
"""


@pytest.mark.parametrize("server", [True, False])
def test_a_module_runs_as_a_fork_of_the_server_or_without_one_in_a_new_interpreter(
    server, clone, warm
):
    (clone / "forked.py").write_text(FORKED, encoding="utf-8")
    address = {ADDRESS: warm.address} if server else {}
    command = [sys.executable, "-m", "companion.pages.warm", "forked", "a b"]
    environment = {k: v for k, v in os.environ.items() if k != ADDRESS} | address
    environment["PYTHONPATH"] = str(clone)
    result = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    assert result.stdout == f"{server} __main__ ['a b']\n"
    assert (result.stderr, result.returncode) == ("message\n", 3)


def call(command: str, folder: Path) -> subprocess.CompletedProcess:
    """Run a command as a reader types it, with the environment active and the package of `folder`."""
    tools = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "TQDM_DISABLE": "1",
    }
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
    )


def test_every_chapter_has_an_example():
    stems = {
        chapters.find(shlex.split(line)[2])
        for line in COMMANDS
        if line.startswith("fedstas chapter")
    }
    assert stems == set(chapters.names())


def test_every_line_of_the_page_that_begins_like_a_command_is_in_a_box():
    lines = re.findall(r"^\s*\$?\s*((?:fedstas|papermill|make|git|pip) .*)$", PAGE, re.M)
    assert len(lines) >= 25
    assert set(lines) <= {*COMMANDS, *ELSEWHERE}


def needs_shell(command: str) -> bool:
    """Return whether a test runs the command in a shell: one chapter, and what is not just a command of ours.

    The others run as forks of one process.
    """
    chapter = command.startswith("fedstas chapter 01 ")
    return chapter or not command.startswith(("fedstas ", "papermill "))


def test_one_chapter_runs_in_a_shell():
    assert [command.split()[:3] for command in COMMANDS if needs_shell(command)] == [
        ["fedstas", "chapter", "01"],
    ]


def outputs_of_page(page: Path) -> list[dict]:
    """Return all outputs of an executed page."""
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    return [out for cell in cells for out in cell.get("outputs", [])]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_runs(command, clone, warm):
    result = call(command, clone) if needs_shell(command) else warm.run(shlex.split(command))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    if command.startswith("fedstas chapter") and "--parameters" not in command:
        words = shlex.split(command)
        page = clone / "book" / "chapters" / f"{chapters.find(words[2])}.ipynb"
        figures = [
            out["data"] for out in outputs_of_page(page) if "<Figure" in str(out.get("data", {}))
        ]
        assert figures or page.stem in (
            "09a_proofs",
            "09b_variations",
            "09c_corrected_lemmas",
            "10b_own_loop",
        )  # those without a figure
        assert all(re.search(r"image/(png|svg)", " ".join(data)) for data in figures)
        assert chapters.provenance(page)["cpu"] > 0
        texts = dict(zip(words[4::3], words[5::3], strict=True))
        assert chapters.provenance(page)["given"] == parameters.parse(words[2], texts)
    if " out.ipynb" in command:
        assert (clone / "out.ipynb").stat().st_size > 10_000
        (clone / "out.ipynb").unlink()


def exit_code(command: str) -> int:
    """Run one of our commands in this process and return its exit code."""
    with pytest.raises(SystemExit) as stop:
        cli.main(shlex.split(command)[1:])
    return stop.value.code


@pytest.mark.parametrize("command", ELSEWHERE)
def test_the_example_for_elsewhere_is_well_formed(command, clone, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if command.startswith("fedstas chapter "):
        assert exit_code(f"{command} --parameters") == 0
    elif command.startswith("fedstas sweep "):
        # A dry run of the same call that needs neither MNIST nor a GPU.
        command = re.sub(r"--profile (laptop|paper)\b", "--profile quick", command)
        command = re.sub(r"--device cuda\b", "--device cpu", command)
        assert exit_code(f"{command} --dry-run") == 0
    elif command.startswith("make "):
        (clone / ".ci").mkdir(exist_ok=True)
        for name in ("Makefile", "pyproject.toml", "requirements.lock", ".ci/setup"):
            shutil.copy(ROOT / name, clone / name)
        result = call(f"{command} --dry-run", clone)
        assert result.returncode == 0, result.stdout + result.stderr
    else:
        assert command in (". .venv/bin/activate", "fedstas compare mine results")


def test_the_page_of_a_chapter_is_rendered_without_unresolved_roles(clone):
    page = clone / "book" / "chapters" / "01_aggregation.ipynb"
    if not page.is_file():
        assert call(f"fedstas chapter {page.stem} -p rounds 2", clone).returncode == 0
    result = call("python -c 'from companion import preview; print(preview.render(\"01\"))'", clone)
    assert result.returncode == 0, result.stdout + result.stderr
    path = Path(result.stdout.strip())
    assert clone in path.parents
    text = path.read_text(encoding="utf-8")
    assert "What is a round estimating?" in text
    assert "{glue:" not in text and text.count("<figure") >= 4


def test_an_unknown_parameter_is_refused_with_a_suggestion(capsys):
    assert exit_code("fedstas chapter 05 --profile paper -p strat 5 --parameters") == 2
    assert "unknown parameter 'strat'" in capsys.readouterr().err
