"""`fedstas doctor`: report what is installed, what is missing, what to do about it, and how long things take.

Only the standard library is imported until a package is known to be installed, so that `python -m companion.doctor`
answers where nothing else is.
"""

import contextlib
import ctypes
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
OK, MISSING, NEEDED = "ok", "missing", "NEEDED"  # NEEDED: without it the profile quick cannot run
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
MODULES = {  # package -> its module, where the names differ
    "scikit-learn": "sklearn",
    "pyyaml": "yaml",
    "fpdf2": "fpdf",
    "pytest-xdist": "xdist",
    "sphinx-mathjax-offline": "sphinx-mathjax-offline",
}
PURPOSES = {  # extra of pyproject.toml -> what it is for
    "": "the package",
    "book": "the chapters",
    "dask": "dask clusters",
    "features": "tasks of frozen features",
    "words": "tasks of word vectors",
    "datasets": "data sets of Hugging Face",
    "flower": "fedstas.flower",
    "bench": "the benchmarks",
    "dev": "the tests",
}
SCALES = ("rounds", "seeds", "repeats")  # a chapter's time grows with these
SPACE = 1.0  # GB that a build of the book may take


class Line(NamedTuple):
    """A line of the report: its mark, its subject and a message."""

    mark: str
    subject: str
    message: str


def requirements() -> list[tuple[str, str, str]]:
    """Return (package, condition on its version, extra) of each requirement of the installed fedstas."""
    required = []
    for text in importlib.metadata.requires("fedstas") or []:
        name, condition = re.match(r"([\w.-]+)(?:\[[^\]]*\])?\s*([^;\s]*)", text).group(1, 2)
        extra = re.search(r'extra == "(\w+)"', text)
        required.append((name, condition, extra[1] if extra else ""))
    return required


def installed(name: str) -> str | None:
    """Return the version of a package that can be imported, or None."""
    if importlib.util.find_spec(MODULES.get(name, name.replace("-", "_"))) is None:
        return None
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def fits(version: str, condition: str) -> bool:
    """Return whether a version meets a condition such as `<2`, compared number by number."""
    sign, bound = re.match(r"(<|>=)?([\d.]*)", condition).groups()
    if not sign:
        return True
    ours, theirs = ([int(n) for n in re.findall(r"\d+", v)] for v in (version, bound))
    return ours < theirs if sign == "<" else ours >= theirs


def pins() -> dict[str, str]:
    """Return the versions that requirements.lock pins."""
    path = ROOT / "requirements.lock"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def packages() -> list[Line]:
    """Check Python, the package and its requirements."""
    version = platform.python_version()
    supported = (3, 11) <= sys.version_info[:2] <= (3, 13)
    message = version if supported else f"{version}: install Python 3.11, 3.12 or 3.13"
    lines = [Line(OK if supported else NEEDED, "python", message)]
    try:
        ours = importlib.metadata.version("fedstas")
    except importlib.metadata.PackageNotFoundError:
        message = f'not installed: run `pip install -e ".[book]"` in {ROOT}'
        return [*lines, Line(NEEDED, "fedstas", message)]
    lines.append(Line(OK, "fedstas", f"{ours}, in {ROOT}"))
    pinned, installed_by_extra = pins(), {}
    for name, condition, extra in requirements():
        version = installed(name)
        mark = NEEDED if extra in ("", "book") else MISSING
        target = f'".[{extra}]"' if extra else "."
        advice = f"needed for {PURPOSES[extra]}: run `pip install -e {target}` in {ROOT}"
        if extra == "flower":
            advice = f"needed for {PURPOSES[extra]}, which has an environment of its own: run `make test-flower`"
        if version is None:
            lines.append(Line(mark, name, f"not installed; {advice}"))
        elif not fits(version, condition):
            lines.append(Line(mark, name, f"{version} does not meet {condition}; {advice}"))
        else:
            other = version.partition("+")[0] != pinned.get(name, version)
            note = f" (the book is made with {pinned[name]})" if other else ""
            installed_by_extra.setdefault(extra, []).append(f"{name} {version}{note}")
    complete = [
        Line(OK, PURPOSES[extra], ", ".join(names)) for extra, names in installed_by_extra.items()
    ]
    return [*lines[:2], *complete, *lines[2:]]


def data() -> list[Line]:
    """Check the data sets: where each is, or how to get it."""
    from fedstas.sim import coarse, corpora, tasks, text

    folder, absent, not_offered = tasks.data_folder(), [], []
    lines = [Line(OK, "digits", "comes with scikit-learn; all that the profile quick uses")]
    of_other_files = {"cifar100-coarse-features", "newsgroups-tokens", "newsgroups-words"}
    of_other_files |= {"reuters-titles", *coarse.CLASSES}
    for name in tasks.names()[1:]:  # the first are the digits
        if name in of_other_files:
            continue
        archives = {
            "newsgroups": corpora.NEWSGROUPS,
            "shakespeare": corpora.PLAYS,
            "reuters": corpora.STORIES,
        }
        path = folder / corpora.FOLDER / archives.get(name, "")
        if name not in archives:
            path = folder / f"{name}.npz"
        elif name == "newsgroups" and not path.is_file():
            path = folder / text.NEWSGROUPS
        if name == "topics":
            lines.append(Line(OK, name, "documents drawn here, from known word distributions"))
        elif _is_file(path):
            lines.append(Line(OK, name, f"{path}, {path.stat().st_size / 1e6:.0f} MB"))
        elif name in ("reuters", "shakespeare"):
            not_offered.append(name)
        else:
            absent.append(name)
    source = "FEDSTAS_DATA" if os.environ.get("FEDSTAS_DATA") else "set FEDSTAS_DATA for another"
    if absent:
        message = f"{', '.join(absent)}: not in {folder} ({source}); the first use downloads or computes them"
        message += f", given a network, or put NAME.npz there ({text.NEWSGROUPS} for newsgroups)"
        lines.append(Line(MISSING, "the others", message))
    if not_offered:
        files = " and ".join(
            f"{corpora.FOLDER}/{archives[name]} for {name}" for name in not_offered
        )
        message = f"not in {folder} ({source}), and cannot be downloaded: put {files} there"
        lines.append(Line(MISSING, ", ".join(not_offered), message))
    return lines


def _is_file(path: Path) -> bool:
    """Return whether a file can be found; False where its folder cannot be looked into."""
    with contextlib.suppress(OSError):
        return path.is_file()
    return False


def has_gpu_driver() -> bool:
    """Return whether the driver of a GPU is installed: torch, which would know, takes seconds to import."""
    for name in ("libcuda.so.1", "nvcuda.dll", "libamdhip64.so"):
        with contextlib.suppress(OSError):
            return bool(ctypes.CDLL(name))
    return False


def devices() -> list[Line]:
    """Check the processors and the GPU."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    message = f"{platform.machine()}, {usable} cores; a run uses one thread, `--jobs {usable}`"
    lines = [Line(OK, "cpu", f"{message} makes {usable} runs of a sweep at a time")]
    version = importlib.metadata.version("torch")
    why = "this torch is built for the CPU only" if "+cpu" in version else "no driver of a GPU"
    if "+cpu" not in version and has_gpu_driver():
        import torch

        if torch.cuda.is_available():
            return [*lines, Line(OK, "cuda", f"{torch.cuda.get_device_name()}: `-p device cuda`")]
        why = "torch finds no device"
    return [
        *lines,
        Line(MISSING, "cuda", f"{why}; everything runs on the CPU, the profile paper in hours"),
    ]


def files() -> list[Line]:
    """Check the clone around the package, the recorded runs, room on the disk, a browser."""
    lines = []
    for name in ("notebooks", "params", "book", "_config.yml"):
        if not (ROOT / name).exists():
            advice = "clone the repository, `pip install -e .` there"
            lines.append(Line(NEEDED, name, f"not beside the package in {ROOT}: {advice}"))
    lines.append(recorded_runs())
    free = shutil.disk_usage(ROOT).free / 1e9
    message = f"{free:.1f} GB free" + ("" if free > SPACE else f", needed is {SPACE:g} GB")
    lines.append(Line(OK if free > SPACE else NEEDED, "disk", message))
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    message = browser or "none on the path: the tests that need one are skipped; install chromium"
    return [*lines, Line(OK if browser else MISSING, "chromium", message)]


def recorded_runs() -> Line:
    """Count the recorded runs of each sweep."""
    sweeps = [path for path in (ROOT / "results").glob("*") if path.name != "partitions"]
    try:
        counts = {path.name: count_runs(path) for path in sorted(sweeps) if path.is_dir()}
    except ImportError as error:
        return Line(MISSING, "results/", f"not counted, since {error.name} is not installed")
    except (OSError, ValueError) as error:
        return Line(NEEDED, "results/", f"{error}: `git checkout results`")
    if sum(counts.values()):
        by_sweep = ", ".join(f"{name} {count}" for name, count in counts.items())
        return Line(OK, "results/", f"{sum(counts.values())} recorded runs: {by_sweep}")
    message = "no recorded runs, which five chapters show: `git checkout results`, or make them by"
    return Line(NEEDED, "results/", f"{message} `fedstas sweep`")


def count_runs(folder: Path) -> int:
    """Count the runs in a sweep's folder: rows of its table, and files of single runs."""
    tables = ("rows.parquet", "runs.parquet")
    count = sum(path.name not in tables for path in folder.glob("*.parquet"))
    if (folder / "runs.parquet").is_file():
        from pyarrow import parquet

        try:
            count += parquet.read_metadata(folder / "runs.parquet").num_rows
        except (OSError, ValueError) as error:
            raise ValueError(f"{folder / 'runs.parquet'} is damaged") from error
    return count


def measured_seconds(stem: str, profile: str) -> float | None:
    """Return the seconds that a chapter took on this machine, if its page in that profile exists."""
    page = ROOT / "book" / "chapters" / f"{stem}.ipynb"
    with contextlib.suppress(OSError, ValueError, KeyError):
        block = json.loads(page.read_text(encoding="utf-8"))["metadata"]["fedstas"]
        if block["profile"] == profile and set(block["given"]) <= {"profile"}:
            return block["seconds"]
    return None


def seconds(stem: str, profile: str, recorded: dict) -> float | None:
    """Return the seconds of a chapter: measured here, else recorded, else scaled from `laptop`; None if unknown."""
    from companion.pages import parameters

    if (measured := measured_seconds(stem, profile)) is not None:
        return measured
    if stem in recorded.get(profile, {}):
        return recorded[profile][stem]
    base = recorded.get("laptop", {}).get(stem)
    if base is None:
        return None
    big, small = (parameters.defaults(name, stem) for name in (profile, "laptop"))
    return base * math.prod(big[key] / small[key] for key in SCALES if key in big and key in small)


def costs() -> list[Line]:
    """Estimate how long the chapters of each profile and each sweep take."""
    import yaml

    from companion.pages import parameters
    from companion.runs import experiments, sweeps

    recorded = yaml.safe_load((ROOT / "params" / "seconds.yaml").read_text(encoding="utf-8"))
    lines = []
    for profile in parameters.PROFILES:
        times = {stem: seconds(stem, profile, recorded) for stem in parameters.names()}
        estimates = {stem: time for stem, time in times.items() if time is not None}
        total, longest = sum(estimates.values()), max(estimates, key=estimates.get)
        measured = sum(measured_seconds(stem, profile) is not None for stem in times)
        tasks = {parameters.defaults(profile, stem).get("task", "") for stem in times} - {""}
        message = (
            f"about {sweeps.duration(total)} for {len(estimates)} chapters of {len(times)}, the longest {longest} "
            f"({sweeps.duration(estimates[longest])}); `make book` runs two at a time; {measured} of these times were measured here; "
            f"data: {', '.join(sorted(tasks))}"
        )
        lines.append(Line("", profile, message))
    for name in experiments.names():
        parts = []
        for profile in parameters.PROFILES:
            runs = experiments.runs(name, profile)
            parts.append(f"{profile} {sweeps.duration(sum(map(sweeps.estimate, runs)))}")
        lines.append(Line("", f"sweep {name}", "of one core: " + ", ".join(parts)))
    return lines


SECTIONS = {
    "Installed": packages,
    "Data": data,
    "Devices": devices,
    "Files": files,
    "What it costs (as recorded on two cores that had other work, too; `fedstas sweep NAME --dry-run` counts what is missing)": costs,
}


def main() -> int:
    """Print the report; return 0 if the profile quick can run, else 1."""
    needed = []
    for title, section in SECTIONS.items():
        print(title)
        try:
            lines = section()
        except ImportError as error:
            lines = [Line(MISSING, "-", f"not looked at, since {error.name} is not installed")]
        for line in lines:
            print(f"  {line.mark:8}{line.subject:19} {line.message}")
        needed += [line.subject for line in lines if line.mark == NEEDED]
    if needed:
        print(f"The profile quick cannot run yet: see what is {NEEDED} ({', '.join(needed)}).")
    else:
        print("The profile quick can run: `make book`, or `fedstas chapter 01`.")
    return int(bool(needed))


if __name__ == "__main__":
    sys.exit(main())
