"""What the repository must and must not hold."""

import re
import subprocess
import tomllib
from pathlib import Path

import jupytext
import pytest
import yaml

import fedstas

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))


def files() -> list[Path]:
    """The files in git, or, in a copy without git, nothing."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip("not a git checkout; clone the repository to run this")
    paths = [ROOT / name for name in done.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def direct() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return project["dependencies"] + extras["book"] + extras["dev"]


def test_environment_lists_the_direct_dependencies():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert sorted(pip) == sorted(direct())
    assert any(str(entry).startswith("python ") for entry in environment["dependencies"])


def test_lock_pins_every_direct_dependency():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pinned = {line.partition("==")[0].strip().lower() for line in lines if "==" in line}
    needed = {re.match(r"[\w.-]+", entry)[0].lower().replace("_", "-") for entry in direct()}
    assert needed <= pinned
    assert all("==" in line for line in lines if line.strip() and not line.startswith("#"))


@pytest.mark.parametrize("name", ["requirements.lock", "environment.yml"])
def test_no_host_is_named(name):
    assert not re.search(r"://|index-url|find-links", (ROOT / name).read_text())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_chapter_names_its_kernel_and_parameters(path):
    notebook = jupytext.read(path)
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    for name in ("profile", "seed", "device"):
        assert f"{name}: " in tagged[0].source


def test_no_notebook_has_outputs():
    notebooks = [path for path in files() if path.suffix == ".ipynb"]
    full = [
        path.name
        for path in notebooks
        if any(cell.get("outputs") for cell in jupytext.read(path).cells)
    ]
    assert full == []


def test_no_path_of_a_machine():
    folders = "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "Us" + "ers", "fa" + "rm"])
    pattern = re.compile(rf"(^|[^A-Za-z0-9_.~}}/-])/({folders})/")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()[:80]}"
        for path in files()
        for line in text(path).splitlines()
        if pattern.search(line)
    ]
    assert found == []


def test_no_data_and_nothing_generated():
    bad = re.compile(
        r"\.(npz|npy|gz|webp|pkl|pt|pth|pyc)$"
        r"|(^|/)(_build|\.cache|__pycache__|\.venv)/|^book/chapters/"
    )
    names = [path.relative_to(ROOT).as_posix() for path in files()]
    assert [name for name in names if bad.search(name)] == []


def test_nothing_large():
    assert [path.name for path in files() if path.stat().st_size > 2_000_000] == []


def test_repository_address_stands_in_one_place():
    url = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]["url"]
    holders = {path.relative_to(ROOT).as_posix() for path in files() if url in text(path)}
    copies = {name for name in holders if name.startswith("notebooks/ipynb/")}  # made from it
    assert holders - copies == {"_config.yml"}


def test_where_is_what_names_what_exists():
    rows = (ROOT / "book" / "where_is_what.md").read_text()
    named = re.findall(r"`([\w.]+)`", rows)
    for name in named:
        if name.startswith("test_"):
            assert (ROOT / "tests" / f"{name}.py").is_file(), name
            continue
        module, _, member = name.partition(".")
        found = getattr(fedstas, module)
        assert not member or hasattr(found, member), name
    assert len(named) > 20


def test_readme_names_both_commands():
    readme = (ROOT / "README.md").read_text()
    assert "make book" in readme
    assert "make test" in readme
    assert len(readme.splitlines()) < 60
