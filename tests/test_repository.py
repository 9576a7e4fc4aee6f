"""The repository: locks, the environment, no generated or large files, no paths of a machine, the Makefile."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import jupytext
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))


def files_in_git() -> list[Path]:
    """Return the files in git; skip in a copy without git."""
    result = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
    )
    if result.returncode:
        pytest.skip("not a git checkout; clone the repository to run this")
    paths = [ROOT / name for name in result.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def read_text_or_nothing(path: Path) -> str:
    """Return the text of a file; empty if it is binary."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def direct_requirements(*extras: str) -> list[str]:
    """Return the requirements of pyproject.toml with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return sum((project["optional-dependencies"][e] for e in extras), project["dependencies"])


def test_environment_installs_the_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    python, pip, inside = environment["dependencies"]
    assert re.fullmatch(r"python =3\.1[123]", python) and pip == "pip"
    assert inside == {"pip": ["--require-hashes", "-r requirements.lock"]}


def test_tasks_that_run_as_forks_have_the_server_as_setup(tmp_path, monkeypatch):
    import dodo

    monkeypatch.chdir(tmp_path)
    results = [getattr(dodo, name)() for name in vars(dodo) if name.startswith("task_")]
    tasks = [task for r in results for task in ([r] if isinstance(r, dict) else r)]
    forks = [task for task in tasks if "companion.pages.warm" in str(task["actions"])]
    assert len(forks) > len(NOTEBOOKS)
    assert all(task["setup"] == ["warm"] for task in forks)
    others = [task for task in tasks if task not in forks]
    assert not any("python" in str(action) for task in others for action in task["actions"])


def test_the_container_is_set_up_by_the_makefile():
    container = json.loads(
        (ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8")
    )
    tool, target = container["postCreateCommand"].split()
    assert tool == "make" and re.search(
        rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M
    )
    version = re.fullmatch(r"python:(3\.\d+)", container["image"])[1]
    assert f"python ={version}" in (ROOT / "environment.yml").read_text(encoding="utf-8")
    settings = container["customizations"]["vscode"]["settings"]
    assert settings["python.defaultInterpreterPath"].endswith("/.venv/bin/python")


@pytest.mark.parametrize(
    "name, extras",
    [
        ("requirements.lock", ("book", "dask", "dev")),
        ("requirements-flower.lock", ("flower", "dev")),
    ],
)
def test_lock_pins_and_hashes_everything_and_names_no_host(name, extras):
    """A line is a name, a version, perhaps for whom, and hashes: no options, no addresses."""
    pinned = set()
    for line in (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "").splitlines():
        requirement, *hashes = re.split(r"\s+--hash=", line.rstrip())
        match = re.fullmatch(r"([a-z0-9.-]+)==[\w.+!]+( ; [^/@]+)?", requirement)
        assert match, requirement
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", h) for h in hashes), line
        pinned.add(match[1])
    needed = {
        re.match(r"[\w.-]+", entry)[0].lower().replace("_", "-")
        for entry in direct_requirements(*extras)
    }
    assert needed <= pinned


@pytest.mark.parametrize(
    "name", [".ci/setup", "Makefile", "environment.yml", "examples/flower/README.md"]
)
def test_a_lock_is_installed_with_hashes_from_no_named_host(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    installs = re.findall(r"(\S+)\s+(?:- )?-r (?:requirements|\.venv/uv)[\w-]*\.lock", text)
    assert installs and set(installs) == {"--require-hashes"}, installs
    # The installer is of the lock, too.
    assert not re.search(r"install (?:-\S+ )*(?:uv|pip)\b", text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_chapter_names_its_kernel_and_parameters(path):
    notebook = jupytext.read(path)
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    for name in ("profile", "seed", "device"):
        assert f"{name}: " in tagged[0].source


def test_no_notebook_has_outputs():
    notebooks = [path for path in files_in_git() if path.suffix == ".ipynb"]
    with_outputs = [
        path.name
        for path in notebooks
        if any(cell.get("outputs") for cell in jupytext.read(path).cells)
    ]
    assert with_outputs == []


def test_no_file_names_a_path_of_one_machine():
    folders = "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "Us" + "ers", "fa" + "rm"])
    pattern = re.compile(rf"(^|[^A-Za-z0-9_.~}}/-])/({folders})/")
    lines = [
        f"{path.relative_to(ROOT)}: {line.strip()[:80]}"
        for path in files_in_git()
        for line in read_text_or_nothing(path).splitlines()
        if pattern.search(line)
    ]
    assert lines == []


def test_git_holds_no_data_sets_and_no_generated_files():
    bad = re.compile(
        r"\.(npz|npy|gz|webp|pkl|pt|pth|pyc|ipynb)$"
        r"|(^|/)(_build|\.cache|__pycache__|\.venv)/|^book/chapters/"
    )
    names = [path.relative_to(ROOT).as_posix() for path in files_in_git()]
    example = "examples/own/my_clients.npy"  # half a kilobyte, for `--partition`
    assert [name for name in names if bad.search(name)] == [example]


def test_git_holds_no_large_file():
    """Tables of thousands of recorded runs may be larger than other files."""
    sizes = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in files_in_git()}
    limits = {name: 5_000_000 if name.startswith("results/") else 2_000_000 for name in sizes}
    assert [name for name, size in sizes.items() if size > limits[name]] == []


def test_the_repositorys_address_is_only_in_the_configuration_and_the_readme():
    url = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    holders = {
        path.relative_to(ROOT).as_posix()
        for path in files_in_git()
        if url in read_text_or_nothing(path)
    }
    assert holders == {"_config.yml", "README.md"}
    assert f"git clone {url} && cd {url.rpartition('/')[2]}\n" in (ROOT / "README.md").read_text(
        encoding="utf-8"
    )


def test_readme_names_both_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make book" in readme
    assert "make test" in readme
    assert len(readme.splitlines()) < 64


def test_the_readme_names_the_other_entry_points():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("make check", "CONTRIBUTING.md", "CHANGELOG.md", "examples/fedstas.py"):
        assert name in readme, name
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    assert "## Second edition (unreleased)" in changes and f"## {version}" in changes


def commands_of_target(target: str) -> list[str]:
    """Return the commands of a target of the Makefile."""
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    rule = re.search(rf"^{target}:(.*)\n((?:\t.*\n)*)", rules, re.MULTILINE)
    inside = [
        line for name in rule[1].split() if name[0] != "." for line in commands_of_target(name)
    ]
    return inside + [line.strip() for line in rule[2].splitlines()]


def test_make_shows_what_it_runs_and_lists_its_targets():
    for target in ("book", "test", "check", "test-flower", "notebooks", "format"):
        run = commands_of_target(target)
        assert run and not any(line.startswith("@") for line in run), target
    parts = " ".join(commands_of_target("check"))
    for part in ("ruff format --check", "ruff check", "mypy", '-m "not slow"'):
        assert part in parts, part
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    documented = set(re.findall(r"^#   make ([\w-]+)", rules, re.MULTILINE))
    phony = set(re.search(r"^\.PHONY: (.*)", rules, re.MULTILINE)[1].split())
    assert documented == phony - {"format-check", "lint", "types", "fast"}


def test_the_workflow_runs_the_commands_of_the_readme_and_publishes_the_site():
    text = (ROOT / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    jobs = workflow["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    runs = [step["run"] for step in steps if "run" in step]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = [run for run in runs if run.startswith("make ")]
    assert targets == ["make check", "make book", "make test", "make notebooks"]
    for command in targets[:3]:
        assert re.search(rf"^{command}\b", readme, re.MULTILINE), command
    assert set(workflow[True]) == {"push", "pull_request"}  # `on` is a truth value in YAML
    used = [step["uses"].partition("@")[0] for step in steps if "uses" in step]
    assert {"actions/checkout", "actions/setup-python", "actions/deploy-pages"} <= set(used)
    upload = next(step for step in steps if "upload-pages" in step.get("uses", ""))
    assert upload["with"]["path"] == "_build/html"
    assert "main" in jobs["publish"]["if"] and "main" in upload["if"]
    assert jobs["publish"]["permissions"] == {"pages": "write", "id-token": "write"}
    assert jobs["notebooks"]["permissions"] == {"contents": "write"}
    assert "main" in jobs["notebooks"]["if"]
    assert "concurrency" in workflow and workflow["permissions"] == {"contents": "read"}
    assert not re.search(r"://|index-url|find-links", text)


def test_ci_checks_what_make_check_checks():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for part in ("format-check", "lint", "types", "make book", "make test", "make test-flower"):
        assert part in script, part
