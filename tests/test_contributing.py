"""CONTRIBUTING.md, followed to the letter in a copy of the tree."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FENCED = re.compile(
    r"^```(?:python|yaml)\n# ([\w./-]+)(?:, (at the end|before ([^\n]+)))?\n(.*?)^```", re.M | re.S
)
LINE = re.compile(r"^- `([\w./-]+)` after (each )?`([^`]+)`: `(.+)`$", re.M)
# What the text says of the commands, run in one process: each starts a Python otherwise.
FOLLOWED = """
import sys
from fedstas import cli

def said(line):
    print("$", line)
    try:
        cli.main(line.split())
    except SystemExit as left:
        assert not left.code, (line, left.code)

said("run --task digits --method comb --clients 20 --clients-per-round 5 --rounds 3 --device cpu")
said("claims journal-eq-2-3-comb")
said("chapter 11 --parameters")
said("sweep combs --folder results --dry-run")
from companion import copies
copies.make()
from fedstas import methods
assert methods.from_dict(methods.to_dict(methods.get("comb"))) == methods.get("comb")
"""


def sources() -> list[str]:
    """What a clone holds, without the recorded runs; where there is no git, the folders that are needed."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        pytest.skip("not a git checkout; clone the repository to run this")
    names = [name for name in done.stdout.split("\0") if name]
    return [n for n in names if not n.startswith(("results/", "tests/data/"))]


def put(text: str, after: str, line: str, every: bool = False) -> str:
    """The text with a line under the one that begins with `after`: as far to the right, or inside it."""
    lines, found = text.splitlines(), 0
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].lstrip().startswith(after):
            found += 1
            deep = len(lines[at]) - len(lines[at].lstrip()) + 4 * lines[at].endswith(("{", "("))
            lines.insert(at + 1, " " * deep + line)
    assert found == 1 or (every and found > 1), f"{found} lines begin with {after!r}"
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of the tree with everything done that CONTRIBUTING.md says."""
    folder = tmp_path_factory.mktemp("clone")
    for name in sources():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for name, where, before, body in FENCED.findall(TEXT):
        path = folder / name
        if not where:
            assert not path.exists(), f"{name} is there already"
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
            put(path.read_text("utf-8"), after.rstrip(" …"), line, bool(every)), "utf-8"
        )
    return folder


def run(tree: Path, *command: str) -> str:
    """What a command says in the copy, whose packages are the ones that are found."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "TQDM_DISABLE": "1", "COLUMNS": "100"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def test_each_recipe_has_its_examples():
    assert len(FENCED.findall(TEXT)) == TEXT.count("```python") + TEXT.count("```yaml") >= 5
    assert len(LINE.findall(TEXT)) == len(re.findall(r"^- `", TEXT, re.M)) > 0
    for heading in ("A design", "A claim", "A chapter", "A sweep"):
        assert f"\n## {heading}\n" in TEXT


def test_what_was_written_is_formatted_and_linted(tree):
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.is_file():
        pytest.skip("ruff is not installed: `make check` sets it up")
    made = sorted({name for name, *_ in FENCED.findall(TEXT) if name.endswith(".py")})
    run(tree, str(ruff), "format", "--check", "--diff", *made)
    run(tree, str(ruff), "check", *made, "fedstas/methods.py", "tests/test_methods.py")


@pytest.mark.slow
def test_the_design_trains_the_claim_is_decided_the_chapter_and_the_sweep_are_listed(tree):
    for line in re.findall(r"`fedstas ((?:run|claims|sweep|chapter) [^`]+)`", TEXT):
        known = line in FOLLOWED or "--open" in line
        assert known, f"`fedstas {line}` is not tried"
    said = run(tree, sys.executable, "-c", FOLLOWED)
    trained, decided, listed, dry = re.split(r"^\$ .*\n", said, flags=re.M)[1:]
    assert re.search(r"^ *3 ", trained, re.M), trained  # the third round's line
    assert re.search(r"^verdict +holds$", decided, re.M), decided
    assert re.search(r"^clients +int +30 ", listed, re.M), listed
    assert "sweep combs: 4 runs" in dry
    assert (tree / "notebooks" / "ipynb" / "11_comb.ipynb").is_file()


@pytest.mark.slow
def test_the_tests_of_the_recipe_pass_in_it(tree):
    names = ["tests/test_comb.py", "tests/test_plots.py::test_every_method_has_its_own_style"]
    names += ["tests/test_secure.py::test_what_a_method_asks_decides_whether_sums_are_enough[comb]"]
    names += [
        "tests/test_audit.py::test_every_method_is_unbiased_for_what_its_entry_says_and_passes[comb]"
    ]
    names += ["tests/test_doctor.py::test_every_chapter_has_a_recorded_time_in_quick_and_laptop"]
    names += ["tests/test_repository.py::test_chapter_names_its_kernel_and_parameters"]
    told = run(tree, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *names)
    assert "[100%]" in told or "passed" in told


@pytest.mark.slow
def test_the_chapter_is_executed(tree):
    said = run(tree, sys.executable, "-m", "fedstas.cli", "chapter", "11", "-p", "clients", "20")
    page = Path(said.strip().splitlines()[-1])
    assert page.is_relative_to(tree) and "clients=20" in page.read_text(encoding="utf-8")
