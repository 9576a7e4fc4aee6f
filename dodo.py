"""The pipeline of the book (doit): sources -> executed chapters -> site. Run by `make book`.

A chapter runs again when its source, its parameters, the package, the pinned versions or (where it reads
them) the recorded results changed; the site is built again when a chapter or a page changed.
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

from companion.pages import parameters, warm

PROFILE = os.environ.get("FEDSTAS_PROFILE", parameters.PROFILES[0])
READS_RESULTS = (
    "05_experiments",
    "06_clustered_sampling",
    "07_fedsampling",
    "09_what_we_would_write",
    "10_which_design",
)
MEASURED = {
    "08_federation": ["examples/flower/bytes.json"],
    "10a_own_data": sorted(str(path) for path in Path("examples/own").glob("my_*")),
}
PROGRESS = Path(".cache/progress")
SITE = Path("_build/html")
START = [f"book/chapters/start-{half}.svg" for half in (1, 2)]
CLAIMS, LEDGER = "book/claims.yml", "book/chapters/ledger.json"
READS_CLAIMS = ("04_theory", "05_experiments", "06_clustered_sampling", "07_fedsampling")
RECORDED = "book/chapters/recorded.json"
WARM = ["warm"]


def files(folder: str, *patterns: str) -> list[str]:
    found = (path for each in patterns for path in Path(folder).rglob(each))
    return sorted(str(path) for path in found if path.is_file())


def recorded() -> list[str]:
    return files("results", "*.parquet", "*.json")


def package() -> list[str]:
    apart = (
        "cli.py",
        "flower",
        "copies.py",
        "doctor.py",
        "commands.py",
        "preview.py",
        "warm.py",
        "measure.py",
    )  # what no chapter runs
    code = [*files("fedstas", "*.py"), *files("companion", "*.py")]
    code = [path for path in code if not set(Path(path).parts) & set(apart)]
    return [path for path in code if not re.fullmatch(r"ch\d\d[a-z]?\.py", Path(path).name)]


def module(name: str, *words: str) -> list[str]:
    """The command that runs a module; its task asks for `WARM`."""
    return [sys.executable, "-m", "companion.pages.warm", name, *words]


def start_warm():
    """Begin the process, where it can be had, and tell the commands its address."""
    if sys.platform == "linux":
        process = warm.Warm(Path.cwd())
        os.environ[warm.ADDRESS] = process.address
        atexit.register(process.close)  # doit's teardown comes while others still run


def task_warm():
    """The process whose forks are the chapters, their kernels and the other modules: what all of them
    import is imported once. It begins when something is to be done, and ends with the build."""
    return {"actions": [start_warm]}


def task_chapter():
    """Execute the chapters' sources."""
    PROGRESS.mkdir(parents=True, exist_ok=True)
    for stem in parameters.names():
        told = PROGRESS / stem
        results = recorded() if stem in READS_RESULTS else []
        results += [CLAIMS] if stem in READS_CLAIMS else []
        results += MEASURED.get(stem, [])
        results += files("companion/pages", f"ch{stem.partition('_')[0]}.py")  # its own figures
        yield {
            "name": stem,
            "file_dep": [f"notebooks/{stem}.py", "requirements.lock", *package(), *results],
            "uptodate": [
                config_changed({"profile": PROFILE, **parameters.defaults(PROFILE, stem)})
            ],
            "targets": [f"book/chapters/{stem}.ipynb"],
            "actions": [module("companion.pages.chapters", stem, PROFILE, str(told))],
            "setup": WARM,
        }


def task_ledger():
    """Decide every claim; one whose evidence is missing stops the book, by its name."""
    return {
        "file_dep": [CLAIMS, "requirements.lock", *package(), *recorded()],
        "targets": [LEDGER],
        "actions": [module("companion.claims.ledger", LEDGER)],
        "setup": WARM,
    }


def task_recorded():
    """How the recorded runs were made: what stands under the figures and tables that show them."""
    return {
        "file_dep": ["requirements.lock", *package(), *recorded()],
        "targets": [RECORDED],
        "actions": [module("companion.runs.provenance_report", RECORDED)],
        "setup": WARM,
    }


def task_explorer():
    """The instruments' data and static figures."""
    parts = ("squeeze", "strata", "allocation", "bias", "coin", "estimate", "privacy")
    made = ("explorer.json", *(f"explorer-{part}.png" for part in parts))
    return {
        "file_dep": ["requirements.lock", *package()],
        "targets": [f"book/chapters/{name}" for name in made],
        "actions": [module("companion.pages.explorer", "book/chapters")],
        "setup": WARM,
    }


def task_leaderboard():
    """The table of recorded runs that a course's own designs are held against."""
    board = "book/chapters/leaderboard.md"
    shown = [f"results/{sweep}" for sweep in ("preprint", "fashion-mnist")]  # the page names them
    return {
        "file_dep": [
            "dodo.py",
            "requirements.lock",
            "companion/commands.py",
            *package(),
            *recorded(),
        ],
        "targets": [board],
        "actions": [module("fedstas.cli", "leaderboard", *shown, "-o", board)],
        "setup": WARM,
    }


def task_front():
    """The start page's figure, and whether what the front pages say is so; `make figure` copies it to where the
    README shows it."""
    return {
        "file_dep": ["requirements.lock", "book/protocol.yml", *package(), *recorded()],
        "targets": START,
        "actions": [module("companion.pages.landing_page", "book/chapters")],
        "setup": WARM,
    }


def task_notebooks():
    """Write each chapter as a plain notebook: the site's downloads, and what Colab and Binder run."""
    return {
        "file_dep": [
            "_config.yml",
            "requirements.lock",
            "companion/pages/copies.py",
            *(f"notebooks/{stem}.py" for stem in parameters.names()),
            *package(),
        ],
        "targets": [f"notebooks/ipynb/{stem}.ipynb" for stem in parameters.names()],
        "actions": [module("companion.pages.copies")],
        "setup": WARM,
    }


def build_site():
    """Build strictly, from scratch, beside the old site; replace that only by a whole one."""
    made = Path(".cache/book")
    shutil.rmtree(made, ignore_errors=True)
    build = f"build book --config _config.yml --path-output {made} -W -n --keep-going -q"
    done = subprocess.run(
        [Path(sys.executable).with_name("jupyter-book"), *build.split()],
        capture_output=True,
        text=True,
        env={**os.environ, "TQDM_DISABLE": "1", "NO_COLOR": "1"},
    )
    html = made / "_build" / "html"
    if done.returncode or not (html / "index.html").is_file():
        said = re.sub(r"\x1b\[[\d;]*m", "", done.stderr.strip() or done.stdout)
        said = said.replace(f"{Path.cwd()}{os.sep}", "")
        print(f"The site was not built:\n{said}", file=sys.stderr)
        return False
    shutil.rmtree(SITE, ignore_errors=True)
    SITE.parent.mkdir(exist_ok=True)
    shutil.move(html, SITE)
    return True


def task_book():
    """Build the site from the executed chapters and the prose."""
    executed = [f"book/chapters/{stem}.ipynb" for stem in parameters.names()]
    prose = [path for path in files("book", "*.*") if "chapters" not in Path(path).parts]
    prose = [path for path in prose if "__pycache__" not in path]
    prose += [
        "examples/design/my_design.py",
        *files("examples/own", "*.py"),
        *(f"notebooks/{stem}.py" for stem in parameters.names()),
        *(f"notebooks/ipynb/{stem}.ipynb" for stem in parameters.names()),
    ]  # downloads
    prose += files("fedstas", "*.py")  # docstrings, for the API reference
    return {
        "file_dep": [
            "_config.yml",
            "requirements.lock",
            *START,
            LEDGER,
            RECORDED,
            *prose,
            *executed,
        ],
        "task_dep": ["explorer", "leaderboard"],
        "targets": [str(SITE / "index.html")],
        "actions": [build_site],
    }


class Report(ConsoleReporter):
    """A line per finished task, a moving line on a terminal, and errors as they were said."""

    def initialize(self, tasks, selected_tasks):
        self.running, self.done, self.over = {}, 0, threading.Event()
        self.total = len(parameters.names())
        if sys.stderr.isatty():
            threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while not self.over.wait(0.2):
            parts = [f"{name} {self.cells(name)}" for name in list(self.running)]
            line = f"{self.done}/{self.total} chapters  " + "  ".join(parts)
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r" + line[:width].ljust(width))
            sys.stderr.flush()

    @staticmethod
    def cells(name):
        try:
            done, total = map(int, (PROGRESS / name).read_text().split("/"))
        except (OSError, ValueError):
            return "..."
        filled = round(10 * done / total)
        return "#" * filled + "." * (10 - filled)

    def say(self, text):
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
            self.say(f"{self.label(task)} done")
        if task.name == "book":
            self.say(f"The book is in {SITE / 'index.html'}")

    def skip_uptodate(self, task):
        self.finish(task)
        if task.name == "book":
            self.say(f"Nothing changed; the book is in {SITE / 'index.html'}")

    def add_failure(self, task, fail):
        self.finish(task)
        if task.executed:
            said = "".join(action.err or "" for action in task.actions).strip()
            self.say(said or fail.get_msg())
        elif task.name == "book":
            self.say("The book was not built, since a chapter or the ledger failed.")

    def complete_run(self):
        self.over.set()
        for message in self.runtime_errors:
            self.say(message)


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
