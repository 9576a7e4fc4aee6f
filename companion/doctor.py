"""`fedstas doctor`: what is here, what is missing and what to do about it, and what things cost.

Nothing but the standard library is imported until it is known to be there, so that
`python -m companion.doctor` answers where hardly anything is.
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
MODULES = {  # what a package is imported as, where that is not its name
    "scikit-learn": "sklearn",
    "pyyaml": "yaml",
    "pytest-xdist": "xdist",
    "sphinx-mathjax-offline": "sphinx-mathjax-offline",
}
FOR = {  # the extras of pyproject.toml: what they are for
    "": "the package",
    "book": "the chapters",
    "dask": "dask clusters",
    "flower": "fedstas.flower",
    "bench": "the benchmarks",
    "dev": "the tests",
}
SCALES = ("rounds", "seeds", "repeats")  # a chapter's time grows with these
SPACE = 1.0  # GB that a build of the book may take


class Line(NamedTuple):
    """One finding: its mark, what it is about, and what there is to say."""

    mark: str
    what: str
    said: str


def requirements() -> list[tuple[str, str, str]]:
    """(package, its condition on the version, extra) of the installed fedstas."""
    found = []
    for text in importlib.metadata.requires("fedstas") or []:
        name, condition = re.match(r"([\w.-]+)(?:\[[^\]]*\])?\s*([^;\s]*)", text).group(1, 2)
        extra = re.search(r'extra == "(\w+)"', text)
        found.append((name, condition, extra[1] if extra else ""))
    return found


def installed(name: str) -> str | None:
    """The version of a package that can be imported, or None."""
    if importlib.util.find_spec(MODULES.get(name, name.replace("-", "_"))) is None:
        return None
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def fits(version: str, condition: str) -> bool:
    """Whether a version meets a condition such as `<2`; conditions here name whole numbers."""
    sign, bound = re.match(r"(<|>=)?([\d.]*)", condition).groups()
    if not sign:
        return True
    ours, theirs = ([int(n) for n in re.findall(r"\d+", v)] for v in (version, bound))
    return ours < theirs if sign == "<" else ours >= theirs


def pins() -> dict[str, str]:
    """The versions of requirements.lock."""
    path = ROOT / "requirements.lock"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def packages() -> list[Line]:
    """Python, the package, and what it needs."""
    version = platform.python_version()
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    said = version if good else f"{version}: install Python 3.11, 3.12 or 3.13"
    lines = [Line(OK if good else NEEDED, "python", said)]
    try:
        ours = importlib.metadata.version("fedstas")
    except importlib.metadata.PackageNotFoundError:
        said = f'not installed: run `pip install -e ".[book]"` in {ROOT}'
        return [*lines, Line(NEEDED, "fedstas", said)]
    lines.append(Line(OK, "fedstas", f"{ours}, in {ROOT}"))
    pinned, there = pins(), {}
    for name, condition, extra in requirements():
        version = installed(name)
        bad = NEEDED if extra in ("", "book") else MISSING
        place = f'".[{extra}]"' if extra else "."
        cure = f"needed for {FOR[extra]}: run `pip install -e {place}` in {ROOT}"
        if extra == "flower":
            cure = f"needed for {FOR[extra]}, which has an environment of its own: run `make test-flower`"
        if version is None:
            lines.append(Line(bad, name, f"not installed; {cure}"))
        elif not fits(version, condition):
            lines.append(Line(bad, name, f"{version} does not meet {condition}; {cure}"))
        else:
            other = version.partition("+")[0] != pinned.get(name, version)
            note = f" (the book is made with {pinned[name]})" if other else ""
            there.setdefault(extra, []).append(f"{name} {version}{note}")
    good = [Line(OK, FOR[extra], ", ".join(names)) for extra, names in there.items()]
    return [*lines[:2], *good, *lines[2:]]


def data() -> list[Line]:
    """The data sets: where each is, or how it comes here."""
    from fedstas.sim import coarse, tasks, text

    folder, absent = tasks.data_folder(), []
    lines = [Line(OK, "digits", "comes with scikit-learn; all that the profile quick uses")]
    for name in tasks.names()[1:]:
        if name in coarse.CLASSES:  # by other labels of CIFAR-100
            continue
        path = folder / (text.NEWSGROUPS if name == "newsgroups" else f"{name}.npz")
        if name == "topics":
            lines.append(Line(OK, name, "documents drawn here, from known word distributions"))
        elif path.is_file():
            lines.append(Line(OK, name, f"{path}, {path.stat().st_size / 1e6:.0f} MB"))
        else:
            absent.append(name)
    if absent:
        named = "FEDSTAS_DATA" if os.environ.get("FEDSTAS_DATA") else "set FEDSTAS_DATA for another"
        said = f"{', '.join(absent)}: not in {folder} ({named}); the first use downloads them"
        said += f", given a network, or put NAME.npz there ({text.NEWSGROUPS} for newsgroups)"
        lines.append(Line(MISSING, "the others", said))
    return lines


def driver() -> bool:
    """Whether a GPU's driver is here. Without one torch finds no device; to ask torch takes seconds."""
    for name in ("libcuda.so.1", "nvcuda.dll", "libamdhip64.so"):
        with contextlib.suppress(OSError):
            return bool(ctypes.CDLL(name))
    return False


def devices() -> list[Line]:
    """The processors and the GPU."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    said = f"{platform.machine()}, {usable} cores; a run uses one thread, `--jobs {usable}` makes"
    lines = [Line(OK, "cpu", f"{said} {usable} runs of a sweep at a time")]
    version = importlib.metadata.version("torch")
    why = "this torch is built for the CPU only" if "+cpu" in version else "no driver of a GPU"
    if "+cpu" not in version and driver():
        import torch

        if torch.cuda.is_available():
            return [*lines, Line(OK, "cuda", f"{torch.cuda.get_device_name()}: `-p device cuda`")]
        why = "torch finds no device"
    return [*lines, Line(MISSING, "cuda", f"{why}; everything runs on the CPU, the profile paper")]


def files() -> list[Line]:
    """The repository around the package, the recorded runs, room on the disk, a browser."""
    lines = []
    for name in ("notebooks", "params", "book", "_config.yml"):
        if not (ROOT / name).exists():
            said = (
                f"not beside the package in {ROOT}: clone the repository, `pip install -e .` there"
            )
            lines.append(Line(NEEDED, name, said))
    lines.append(recorded())
    free = shutil.disk_usage(ROOT).free / 1e9
    said = f"{free:.1f} GB free" if free > SPACE else f"{free:.1f} GB free, needed is {SPACE:g} GB"
    lines.append(Line(OK if free > SPACE else NEEDED, "disk", said))
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    said = browser or "none on the path: the tests that need one are skipped; install chromium"
    return [*lines, Line(OK if browser else MISSING, "chromium", said)]


def recorded() -> Line:
    """How many runs of which sweeps are recorded."""
    sweeps = [path for path in (ROOT / "results").glob("*") if path.name != "partitions"]
    try:
        counts = {path.name: runs(path) for path in sorted(sweeps) if path.is_dir()}
    except ImportError as error:
        return Line(MISSING, "results/", f"not counted, since {error.name} is not installed")
    except (OSError, ValueError) as error:
        return Line(NEEDED, "results/", f"{error}: `git checkout results`")
    if sum(counts.values()):
        said = ", ".join(f"{name} {count}" for name, count in counts.items())
        return Line(OK, "results/", f"{sum(counts.values())} recorded runs: {said}")
    said = "no recorded runs, which four chapters show: `git checkout results`, or make them by"
    return Line(NEEDED, "results/", f"{said} `fedstas sweep`")


def runs(folder: Path) -> int:
    """The runs in a sweep's folder: those of its table, and those with a file of their own."""
    tables = ("rows.parquet", "runs.parquet")
    count = sum(path.name not in tables for path in folder.glob("*.parquet"))
    if (folder / "runs.parquet").is_file():
        from pyarrow import parquet

        try:
            count += parquet.read_metadata(folder / "runs.parquet").num_rows
        except (OSError, ValueError) as error:
            raise ValueError(f"{folder / 'runs.parquet'} is damaged") from error
    return count


def taken_here(stem: str, profile: str) -> float | None:
    """What a chapter took on this machine, if its page in that profile is here."""
    page = ROOT / "book" / "chapters" / f"{stem}.ipynb"
    with contextlib.suppress(OSError, ValueError, KeyError):
        block = json.loads(page.read_text(encoding="utf-8"))["metadata"]["fedstas"]
        if block["profile"] == profile and set(block["given"]) <= {"profile"}:
            return block["seconds"]
    return None


def seconds(stem: str, profile: str, recorded: dict) -> float | None:
    """What a chapter takes: as its page here says, as recorded, or as its parameters scale it."""
    from companion.pages import parameters

    if (taken := taken_here(stem, profile)) is not None:
        return taken
    if stem in recorded.get(profile, {}):
        return recorded[profile][stem]
    base = recorded.get("laptop", {}).get(stem)
    if base is None:
        return None
    big, small = (parameters.defaults(name, stem) for name in (profile, "laptop"))
    return base * math.prod(big[key] / small[key] for key in SCALES if key in big and key in small)


def costs() -> list[Line]:
    """What the chapters of a profile cost, and a whole sweep."""
    import yaml

    from companion.pages import parameters
    from companion.runs import experiments, sweeps

    recorded = yaml.safe_load((ROOT / "params" / "seconds.yaml").read_text(encoding="utf-8"))
    lines = []
    for profile in parameters.PROFILES:
        times = {stem: seconds(stem, profile, recorded) for stem in parameters.names()}
        known = {stem: time for stem, time in times.items() if time is not None}
        longest = max(known, key=known.get)
        needs = sorted(
            {parameters.defaults(profile, stem).get("task", "") for stem in times} - {""}
        )
        said = f"about {sweeps.duration(sum(known.values()))} for {len(known)} chapters of {len(times)}"
        said += f", the longest {longest} ({sweeps.duration(known[longest])}); `make book` runs two"
        here = sum(taken_here(stem, profile) is not None for stem in times)
        said += f" at a time; {here} as they took here; data: {', '.join(needs)}"
        lines.append(Line("", profile, said))
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
    """Print all findings; 0 if the profile quick can run, else 1."""
    needed = []
    for title, section in SECTIONS.items():
        print(title)
        try:
            lines = section()
        except ImportError as error:
            lines = [Line(MISSING, "-", f"not looked at, since {error.name} is not installed")]
        for line in lines:
            print(f"  {line.mark:8}{line.what:19} {line.said}")
        needed += [line.what for line in lines if line.mark == NEEDED]
    if needed:
        print(f"The profile quick cannot run yet: see what is {NEEDED} ({', '.join(needed)}).")
    else:
        print("The profile quick can run: `make book`, or `fedstas chapter 01`.")
    return int(bool(needed))


if __name__ == "__main__":
    sys.exit(main())
