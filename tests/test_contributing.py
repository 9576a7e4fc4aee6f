"""The recipes of CONTRIBUTING.md, carried out literally in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_repository import files_in_git

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FENCED = re.compile(
    r"^```(?:python|yaml)\n# ([\w./-]+)(?:, (at the end|before ([^\n]+)))?\n(.*?)^```", re.M | re.S
)
LINE = re.compile(r"^- `([\w./-]+)` after (each )?`([^`]+)`: `(.+)`$", re.M)
# The commands that the text names, run in one process to save their start.
COMMANDS = """
import sys
from fedstas import cli

def call(line):
    print("$", line)
    try:
        cli.main(line.split())
    except SystemExit as stop:
        assert not stop.code, (line, stop.code)

call("run --task digits --method comb --clients 20 --clients-per-round 5 --rounds 3 --device cpu")
call("claims journal-eq-2-3-comb")
call("chapter 11 --parameters")
call("sweep combs --folder results --dry-run")
from companion import copies
copies.make()
from fedstas import methods
assert methods.from_dict(methods.to_dict(methods.get("comb"))) == methods.get("comb")
"""


def sources() -> list[str]:
    """Return the files of a clone without recorded runs and test data."""
    names = [path.relative_to(ROOT).as_posix() for path in files_in_git()]
    return [n for n in names if not n.startswith(("results/", "tests/data/"))]


def insert(text: str, after: str, line: str, every: bool = False) -> str:
    """Insert a line below the one that begins with `after`, indented as it is, or deeper if that opens a bracket."""
    lines, count = text.splitlines(), 0
    for position in range(len(lines) - 1, -1, -1):
        if lines[position].lstrip().startswith(after):
            count += 1
            indent = (
                len(lines[position])
                - len(lines[position].lstrip())
                + 4 * lines[position].endswith(("{", "("))
            )
            lines.insert(position + 1, " " * indent + line)
    assert count == 1 or (every and count > 1), f"{count} lines begin with {after!r}"
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """Copy the repository and do everything that CONTRIBUTING.md says."""
    folder = tmp_path_factory.mktemp("clone")
    for name in sources():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for name, place_in_file, before, body in FENCED.findall(TEXT):
        path = folder / name
        if not place_in_file:
            assert not path.exists(), f"{name} exists already"
            path.write_text(body, encoding="utf-8")
            continue
        old = path.read_text(encoding="utf-8")
        if before:
            assert old.count(f"\n{before}") == 1, before
            new = old.replace(f"\n{before}", f"\n{body}\n\n{before}")
        else:
            new = old + ("\n\n" if name.endswith(".py") else "") + body
        path.write_text(new, encoding="utf-8")
    for name, every, after, line in LINE.findall(TEXT):
        path = folder / name
        path.write_text(
            insert(path.read_text("utf-8"), after.rstrip(" …"), line, bool(every)), "utf-8"
        )
    return folder


def run(tree: Path, *command: str) -> str:
    """Run a command in the copy, with its packages, and return stdout."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "TQDM_DISABLE": "1", "COLUMNS": "100"}
    result = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-3000:]
    return result.stdout


def test_all_code_blocks_and_lines_of_the_recipes_are_carried_out():
    assert len(FENCED.findall(TEXT)) == TEXT.count("```python") + TEXT.count("```yaml") >= 5
    assert len(LINE.findall(TEXT)) == len(re.findall(r"^- `", TEXT, re.M)) > 0
    for heading in ("A design", "A claim", "A chapter", "A sweep"):
        assert f"\n## {heading}\n" in TEXT


def test_the_recipes_code_is_formatted_and_linted(tree):
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.is_file():
        pytest.skip("ruff is not installed: `make check` sets it up")
    files = sorted({name for name, *_ in FENCED.findall(TEXT) if name.endswith(".py")})
    run(tree, str(ruff), "format", "--check", "--diff", *files)
    run(tree, str(ruff), "check", *files, "fedstas/methods.py", "tests/test_methods.py")


@pytest.mark.slow
def test_the_design_trains_the_claim_is_decided_the_chapter_and_the_sweep_are_listed(tree):
    for line in re.findall(r"`fedstas ((?:run|claims|sweep|chapter) [^`]+)`", TEXT):
        assert line in COMMANDS or "--open" in line, f"`fedstas {line}` is not tried"
    output = run(tree, sys.executable, "-c", COMMANDS)
    run_output, claims_output, chapter_output, sweep_output = re.split(
        r"^\$ .*\n", output, flags=re.M
    )[1:]
    assert re.search(r"^ *3 ", run_output, re.M), run_output  # the third round's line
    assert re.search(r"^verdict +holds$", claims_output, re.M), claims_output
    assert re.search(r"^clients +int +30 ", chapter_output, re.M), chapter_output
    assert "sweep combs: 4 runs" in sweep_output
    assert (tree / "notebooks" / "ipynb" / "11_comb.ipynb").is_file()


@pytest.mark.slow
def test_the_tests_of_the_recipe_pass_in_the_copy(tree):
    names = ["tests/test_comb.py", "tests/test_plots.py::test_every_method_has_its_own_style"]
    names += [
        "tests/test_secure.py::test_the_requests_of_a_method_decide_whether_secure_sums_are_enough[comb]"
    ]
    names += [
        "tests/test_audit.py::test_every_method_passes_the_audit_and_is_unbiased_for_its_documented_target[comb]"
    ]
    names += ["tests/test_doctor.py::test_every_chapter_has_a_recorded_time_in_quick_and_laptop"]
    names += ["tests/test_repository.py::test_chapter_names_its_kernel_and_parameters"]
    # Without the option -q of pyproject.toml, so that the last line says how many passed.
    options = ("-o", "addopts=--strict-markers", "-p", "no:cacheprovider")
    output = run(tree, sys.executable, "-m", "pytest", *options, *names)
    summary = output.strip().splitlines()[-1]
    assert int(re.search(r"(\d+) passed", summary)[1]) >= len(names), summary
    assert "skipped" not in summary


@pytest.mark.slow
def test_the_chapter_is_executed(tree):
    output = run(tree, sys.executable, "-m", "fedstas.cli", "chapter", "11", "-p", "clients", "20")
    page = Path(output.strip().splitlines()[-1])
    assert page.is_relative_to(tree) and "clients=20" in page.read_text(encoding="utf-8")
