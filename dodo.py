"""The pipeline of the book (doit): sources -> executed chapters -> site. Run by `make book`.

A chapter runs again when its source, its parameters, what it imports, the pinned versions or (where it reads
them) the recorded results changed; the site is built again when a chapter or a page changed. `companion.dependencies`
finds what a source imports.
"""

import atexit
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from doit.reporter import ConsoleReporter
from doit.tools import config_changed

from companion import dependencies
from companion.pages import instruments, parameters, warm

PROFILE = os.environ.get("FEDSTAS_PROFILE", parameters.PROFILES[0])
PROGRESS = Path(".cache/progress")  # a file for each running chapter: cells done/cells
SITE = Path("_build/html")
LOCK = "requirements.lock"
START_FIGURES = [
    "book/chapters/start.svg",
    "book/chapters/start-rounds.svg",
]
RECORDED_DEMOS = [
    f"book/chapters/{name}"
    for part, file in instruments.RECORDED.items()
    for name in (file, f"explorer-{part}.png")
]
LEDGER = "book/chapters/ledger.json"
PROVENANCE = "book/chapters/recorded.json"
LEADERBOARD = "book/chapters/leaderboard.md"
WARM = ["warm"]


def files(folder: str, *patterns: str) -> list[str]:
    """Return the files below a folder whose names match a pattern."""
    paths = (path for pattern in patterns for path in Path(folder).rglob(pattern))
    return sorted(str(path) for path in paths if path.is_file())


def results() -> list[str]:
    """Return the files of recorded runs."""
    return files("results", "*.parquet", "*.json")


def code(*paths: str) -> list[str]:
    """Return source files with all modules of this repository that they import, and through them."""
    absolute = [dependencies.ROOT / path for path in paths]
    names = set().union(*(dependencies.closure(path) for path in absolute))
    modules = {dependencies.modules()[name] for name in names}
    return sorted(str(path.relative_to(dependencies.ROOT)) for path in modules.union(absolute))


def claims() -> list[str]:
    """Return the files that declare and decide the claims: the registry imports them by a folder's listing."""
    return code(*files("companion/claims", "*.py"))


def chapter_dependencies(stem: str) -> list[str]:
    """Return all files that a chapter depends on."""
    source = f"notebooks/{stem}.py"
    page_module = files("companion/pages", f"ch{stem.partition('_')[0]}.py")
    paths = [dependencies.ROOT / path for path in (source, *page_module)]
    modules = dependencies.closure(paths[0])
    direct = set().union(*map(dependencies.imported, paths))
    store = "companion.runs.records"
    runs = {name for name in direct if name.startswith("companion.runs.")}
    reads_results = store in runs or any(
        store in dependencies.closure(dependencies.modules()[name]) for name in runs
    )
    reads_claims = "companion.claims.ledger" in modules
    return [
        *code(source),
        *set().union(*map(dependencies.named_files, paths)),
        *(results() if reads_results else []),
        *(claims() if reads_claims else []),
        LOCK,
    ]


def module(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a module; its task has the setup `WARM`."""
    return [sys.executable, "-m", "companion.pages.warm", name, *arguments]


def start_warm():
    """Start the warm process, where there is one, and tell its address to the commands."""
    if sys.platform == "linux":
        process = warm.Warm(Path.cwd())
        os.environ[warm.ADDRESS] = process.address
        atexit.register(process.close)  # doit's teardown comes while other tasks still run


def task_warm():
    """Start the process whose forks are the chapters, their kernels and the other modules: imports are shared."""
    return {"actions": [start_warm]}


def task_chapter():
    """Execute the chapters' sources."""
    PROGRESS.mkdir(parents=True, exist_ok=True)
    for stem in parameters.names():
        progress = str(PROGRESS / stem)
        values = {"profile": PROFILE, **parameters.defaults(PROFILE, stem)}
        yield {
            "name": stem,
            "file_dep": chapter_dependencies(stem),
            "uptodate": [config_changed(values)],
            "targets": [f"book/chapters/{stem}.ipynb"],
            "actions": [module("companion.pages.chapters", stem, PROFILE, progress)],
            "setup": WARM,
        }


def task_ledger():
    """Decide every claim; one whose evidence is missing stops the build and is named."""
    return {
        "file_dep": [LOCK, *claims(), *results()],
        "targets": [LEDGER],
        "actions": [module("companion.claims.ledger", LEDGER)],
        "setup": WARM,
    }


def task_provenance():
    """Report how the recorded runs were made, for the lines under figures and tables that show them."""
    return {
        "file_dep": [LOCK, *code("companion/runs/provenance_report.py"), *results()],
        "targets": [PROVENANCE],
        "actions": [module("companion.runs.provenance_report", PROVENANCE)],
        "setup": WARM,
    }


def task_explorer():
    """Compute the instruments' data and draw their static figures."""
    targets = ("explorer.json", *(f"explorer-{part}.png" for part in instruments.COMPUTED))
    return {
        "file_dep": [LOCK, *code("companion/pages/explorer.py")],
        "targets": [f"book/chapters/{name}" for name in targets],
        "actions": [module("companion.pages.explorer", "book/chapters")],
        "setup": WARM,
    }


def task_leaderboard():
    """Write the table of recorded runs that a course compares its own designs with."""
    sweeps = [f"results/{sweep}" for sweep in ("preprint", "fashion-mnist")]  # named by the page
    return {
        "file_dep": [
            "dodo.py",
            LOCK,
            "companion/commands.py",
            *code("companion/runs/leaderboard.py"),
            *results(),
        ],
        "targets": [LEADERBOARD],
        "actions": [module("fedstas.cli", "leaderboard", *sweeps, "-o", LEADERBOARD)],
        "setup": WARM,
    }


def task_front():
    """Draw the start page's figures and assert what the front pages say; `make figure` copies it for the README."""
    return {
        "file_dep": [
            LOCK,
            "book/protocol.yml",
            "book/comparison.yml",
            *code("companion/pages/landing_page.py"),
            *results(),
        ],
        "targets": [*START_FIGURES, *RECORDED_DEMOS],
        "actions": [module("companion.pages.landing_page", "book/chapters")],
        "setup": WARM,
    }


def task_notebooks():
    """Write each chapter as a plain notebook: the site's downloads, and what Colab and Binder run."""
    return {
        "file_dep": [
            "_config.yml",
            LOCK,
            *(f"notebooks/{stem}.py" for stem in parameters.names()),
            *code("companion/pages/copies.py"),
            *files("fedstas", "*.py"),  # functions that chapters show
        ],
        "targets": [f"notebooks/ipynb/{stem}.ipynb" for stem in parameters.names()],
        "actions": [module("companion.pages.copies")],
        "setup": WARM,
    }


def build_site():
    """Build the site strictly in a folder of its own; replace the old site only if the build succeeded."""
    folder = Path(".cache/book")
    shutil.rmtree(folder, ignore_errors=True)
    build = f"build book --config _config.yml --path-output {folder} -W -n --keep-going -q"
    done = subprocess.run(
        [Path(sys.executable).with_name("jupyter-book"), *build.split()],
        capture_output=True,
        text=True,
        env={**os.environ, "TQDM_DISABLE": "1", "NO_COLOR": "1"},
    )
    html = folder / "_build" / "html"
    if done.returncode or not (html / "index.html").is_file():
        message = re.sub(r"\x1b\[[\d;]*m", "", done.stderr.strip() or done.stdout)
        message = message.replace(f"{Path.cwd()}{os.sep}", "")
        print(f"The site was not built:\n{message}", file=sys.stderr)
        return False
    shutil.rmtree(SITE, ignore_errors=True)
    SITE.parent.mkdir(exist_ok=True)
    shutil.move(html, SITE)
    return True


def task_book():
    """Build the site from the executed chapters and the prose."""
    stems = parameters.names()
    pages = [path for path in files("book", "*.*") if "chapters" not in Path(path).parts]
    return {
        "file_dep": [
            "_config.yml",
            LOCK,
            LEDGER,
            PROVENANCE,
            *START_FIGURES,
            *RECORDED_DEMOS,
            *(path for path in pages if "__pycache__" not in path),
            *(f"book/chapters/{stem}.ipynb" for stem in stems),
            "examples/design/my_design.py",  # from here on downloads
            *files("examples/own", "*.py"),
            *(f"notebooks/{stem}.py" for stem in stems),
            *(f"notebooks/ipynb/{stem}.ipynb" for stem in stems),
            *files("fedstas", "*.py"),  # docstrings, for the API reference
        ],
        "task_dep": ["explorer", "leaderboard"],
        "targets": [str(SITE / "index.html")],
        "actions": [build_site],
    }


class Report(ConsoleReporter):
    """Print a line per finished task, a progress line on a terminal, and the messages of errors."""

    def initialize(self, tasks, selected_tasks):
        self.running, self.done, self.stopped = {}, 0, threading.Event()
        self.total = len(parameters.names())
        if sys.stderr.isatty():
            threading.Thread(target=self.show_progress, daemon=True).start()

    def show_progress(self):
        while not self.stopped.wait(0.2):
            parts = [f"{name} {self.bar(name)}" for name in list(self.running)]
            line = f"{self.done}/{self.total} chapters  " + "  ".join(parts)
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r" + line[:width].ljust(width))
            sys.stderr.flush()

    @staticmethod
    def bar(name):
        try:
            done, total = map(int, (PROGRESS / name).read_text(encoding="utf-8").split("/"))
        except (OSError, ValueError):
            return "..."
        filled = round(10 * done / total)
        return "#" * filled + "." * (10 - filled)

    def print_line(self, text):
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        self.write(text + "\n")
        self.outstream.flush()

    @staticmethod
    def label(task):
        return task.name.removeprefix("chapter:")

    def execute_task(self, task):
        if task.actions and task.name not in WARM:
            self.running[self.label(task)] = task

    def finish(self, task):
        self.running.pop(self.label(task), None)
        self.done += task.name.startswith("chapter:")

    def add_success(self, task):
        self.finish(task)
        if task.actions and task.name not in WARM:
            self.print_line(f"{self.label(task)} done")
        if task.name == "book":
            self.print_line(f"The book is in {SITE / 'index.html'}")

    def skip_uptodate(self, task):
        self.finish(task)
        if task.name == "book":
            self.print_line(f"Nothing changed; the book is in {SITE / 'index.html'}")

    def add_failure(self, task, fail):
        self.finish(task)
        if task.executed:
            message = "".join(action.err or "" for action in task.actions).strip()
            self.print_line(message or fail.get_msg())
        elif task.name == "book":
            self.print_line("The book was not built, since a chapter or the ledger failed.")

    def complete_run(self):
        self.stopped.set()
        for message in self.runtime_errors:
            self.print_line(message)


DOIT_CONFIG = {
    "default_tasks": ["book"],
    "backend": "json",
    "dep_file": ".cache/doit.json",
    "num_process": 2,
    "par_type": "thread",
    "continue": True,
    "verbosity": 0,
    "reporter": Report,
}
