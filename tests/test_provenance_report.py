"""Every page that shows recorded runs names their sweeps, and the report on each sweep says how they were made."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import jupytext
import pytest

from companion.pages import chapters, design_comparison, myst
from companion.runs import experiments, least_variance_results, provenance_report, records

ROOT = Path(__file__).parents[1]
NAMES = {
    *experiments.SWEEPS,
    "which-design",
    "partitions",
    "one-round",
    "one-round-features",
    "one-round-renewal",
    "closed-form",
    "fine-tuning",
    "comparison",
}
SWEEPS_OF_READER = {  # (module, function) -> the sweeps that it reads, whatever its arguments
    ("records", "load_partitions"): {"partitions"},
    ("one_rounds", "load"): {"one-round"},
    ("feature_errors", "load"): {"one-round-features"},
    ("feature_errors", "load_renewal"): {"one-round-renewal"},
    ("closed_form_heads", "load"): {"closed-form"},
    ("fine_tuning", "load"): {"fine-tuning"},
    ("design_comparison", "load_results"): {"which-design"},
    ("averaging_results", "accuracies"): {"averaging"},
    ("comparison", "load_runs"): {"comparison"},
    ("protocol", "load_curves"): {"which-design"},
    ("least_variance_results", "load_frames"): {
        "least-variance",
        *(sweep for sweep, _, _ in least_variance_results.PLACES.values()),
    },
}
_UNTUNED = {"least-variance", *(sweep for sweep, _ in design_comparison.UNTUNED.values())}
_UNTUNED |= {sweep for sweep, _, _ in least_variance_results.PLACES.values()}
SWEEPS_OF_READER |= {
    ("design_comparison", "load_untuned_gains"): _UNTUNED,
    ("design_comparison", "draw_one_round_errors"): _UNTUNED | {"one-round"},
}
_SHORT = {"clustered-cifar10-short"}
SWEEPS_OF_READER |= {("clustered_figures", f"figure_{k}"): _SHORT for k in (2, 6, 7, 8, 9, 10)}
SWEEPS_OF_READER |= {
    ("clustered_figures", "draw_gains"): {"clustered-mnist"} | _SHORT,
    ("ch09", "compute_tuned_gains"): {"which-design"},
    ("clustered_figures", "local_tests"): {"clustered-mnist"} | _SHORT,
    ("clustered_figures", "verdicts"): _SHORT,
    ("fedsampling", "verdicts_table"): {
        "fedsampling-text",
        "fedsampling-titles-ablations",
        "fedsampling-text-transformer",
        "fedsampling-posts-text-cnn",
        "fedsampling-posts-transformer",
        "fedsampling-mnist-ablations",
        "fedsampling-mnist-convolutional",
    },
    ("ch06", "load_runs"): {"clustered-fig-1", "one-digit"},
    ("ch06", "verdicts_table"): {"clustered-fig-1", "one-digit"},
    ("ch06", "load_messages"): {"clustered-messages"},
    ("ch07", "load_imbalance"): {"imbalance", "fedsampling-mnist-ablations"},
    ("ch07", "rank_methods"): {"preprint", "methods"},
}
READERS = {"load", "identities", "details", "majority_labels", "cohorts", "recorded", "load_sweep"}


def find_sweep_names(node: ast.AST) -> set[str]:
    """Return the sweeps that string constants name, also as `results/NAME`."""
    strings = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    return {s.rpartition("/")[2] for s in strings if isinstance(s, str)} & NAMES


class SweepTracker:
    """Tracks which sweeps the variables of a chapter depend on, statement by statement from top to bottom."""

    def __init__(self):
        self.dependencies: dict[str, set[str]] = {}  # variable -> sweeps whose runs it holds
        self.sweep_names: dict[str, set[str]] = {}  # variable -> sweeps that its constants name
        self.grids: set[str] = set()  # variables that hold one grid per sweep

    def find_sweeps(self, statement: ast.AST) -> set[str]:
        """Return the sweeps whose runs a statement reads."""
        sweeps, reads, nodes = set(), False, list(ast.walk(statement))
        local = find_local_names(statement)
        subscripts = [
            n
            for n in nodes
            if isinstance(n, ast.Subscript)
            and isinstance(n.value, ast.Name)
            and n.value.id in self.grids
        ]
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                module = getattr(node.func.value, "id", "")
                reads |= module in ("records", "tables") and node.func.attr in READERS
                sweeps |= SWEEPS_OF_READER.get((module, node.func.attr), set())
            elif (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and node.id not in local
            ):
                subscripted = any(node is n.value for n in subscripts)
                sweeps |= set() if subscripted else self.dependencies.get(node.id, set())
        mentioned = find_sweep_names(statement).union(
            *(self.sweep_names.get(n.id, set()) for n in nodes if isinstance(n, ast.Name))
        )
        for node in subscripts:
            sweeps |= find_sweep_names(node.slice) or mentioned
        return sweeps | (mentioned if reads else set())

    def track(self, statement: ast.stmt) -> set[str]:
        """Return the sweeps whose runs a statement reads, and record them for the variables that it stores."""
        sweeps, nodes = self.find_sweeps(statement), list(ast.walk(statement))
        stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        stored |= {statement.name} if isinstance(statement, ast.FunctionDef) else set()
        for node in nodes:  # rows.append(...)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                base = getattr(node.value.func, "value", None)
                if isinstance(base, ast.Name) and sweeps and base.id not in ("plots", "plt"):
                    before = self.dependencies.get(base.id, set())
                    self.dependencies[base.id] = before | sweeps
        for name in stored:
            self.dependencies[name] = sweeps
            if not sweeps and find_sweep_names(statement):
                is_update = isinstance(statement, ast.AugAssign)
                before = self.sweep_names.get(name, set()) if is_update else set()
                self.sweep_names[name] = before | find_sweep_names(statement)
            if "tables.load_sweep" in ast.unparse(statement):
                self.grids.add(name)
        return sweeps


def find_local_names(statement: ast.AST) -> set[str]:
    """Return the names whose earlier value a statement does not read: targets of loops, comprehensions and
    assignments in a block, and parameters of functions."""
    nodes = list(ast.walk(statement))
    loops = [n.target for n in nodes if isinstance(n, ast.comprehension | ast.For)]
    if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
        loops += [t for n in nodes if isinstance(n, ast.Assign) for t in n.targets]
    inside = [n for t in loops for n in ast.walk(t) if isinstance(n, ast.Name)]
    local = {n.id for n in inside if isinstance(n.ctx, ast.Store)}
    return local | {n.arg for n in nodes if isinstance(n, ast.arg)}


def find_reported_sweeps(text: str) -> set[str]:
    """Return the sweeps that the provenance directives of a text name."""
    recorded = (b.options.get("recorded", "") for b in myst.parse(text) if b.name == "provenance")
    return {s.strip() for sweeps in recorded for s in sweeps.split(",") if s.strip()}


def read_cells(stem: str) -> list[tuple[str, str]]:
    """Return the (type, source) of a chapter's cells."""
    nb = jupytext.read(ROOT / "notebooks" / f"{stem}.py", fmt="py:percent")
    return [(cell.cell_type, cell.source) for cell in nb.cells]


def find_directives(text: str) -> Iterator[myst.Block]:
    """Yield the directives of a text, for a dropdown those inside it."""
    for block in myst.parse(text):
        inside = myst.parse(block.body) if block.name == "dropdown" else [block]
        yield from (b for b in inside if b.kind == "directive")


def compile_pattern(name: ast.expr) -> re.Pattern:
    """Return a pattern of the strings that an f-string can be."""
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    words = (re.escape(str(p.value)) if isinstance(p, ast.Constant) else r"\w+" for p in parts)
    return re.compile("".join(words))


def find_displays(stem: str) -> list[tuple[str, set[str], str]]:
    """Return the (title or source, sweeps, text with its provenance directive) of each figure and table of a chapter."""
    tracker, pasted, pasted_in_loops, tables = SweepTracker(), {}, [], []
    cells = read_cells(stem)
    for position, (kind, source) in enumerate(cells):
        if kind != "code":
            continue
        statements = ast.parse(source).body
        sweeps_of_statements = [tracker.track(statement) for statement in statements]
        sweeps_of_cell = set().union(*sweeps_of_statements)
        for statement, sweeps in zip(statements, sweeps_of_statements, strict=True):
            for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call) and n.args):
                pastes = getattr(call.func, "id", "") in ("glue_figure", "glue", "show")
                if pastes and isinstance(call.args[0], ast.Constant):
                    pasted[str(call.args[0].value)] = sweeps_of_cell
                elif pastes:  # in a loop, f"ch10_{name}" for all that nothing else pastes
                    pasted_in_loops.append((compile_pattern(call.args[0]), sweeps_of_cell))
            functions = {
                getattr(n.func, "id", "") for n in ast.walk(statement) if isinstance(n, ast.Call)
            }
            is_figure = "fig" in ast.unparse(statement)
            is_block = isinstance(statement, ast.Expr | ast.If | ast.For)
            if (
                functions & {"show", "table", "fold_table", "display"}
                and sweeps
                and is_block
                and not is_figure
            ):
                text = next((t for k, t in cells[position + 1 :] if k == "markdown"), "")
                tables.append((ast.unparse(statement)[:60], sweeps, text))
    figures = []
    for kind, source in cells:
        blocks = list(find_directives(source)) if kind == "markdown" else []
        for position, block in enumerate(blocks):
            if block.name == "glue:figure":
                title = block.argument
                sweeps = pasted.get(title) or pasted.get(re.sub(r"^ch\d+_", "", title), set())
                if title not in pasted:
                    sweeps = sweeps.union(
                        *(s for pattern, s in pasted_in_loops if pattern.fullmatch(title))
                    )
                following = blocks[position + 1 : position + 2]
                provenance = "".join(b.source for b in following if b.name == "provenance")
                figures.append((title, sweeps, provenance))
    return figures + tables


@pytest.mark.parametrize("stem", chapters.names())
def test_every_figure_and_table_of_recorded_runs_reports_its_sweeps(stem):
    for display, sweeps, text in find_displays(stem):
        assert find_reported_sweeps(text) == sweeps, (
            f"{stem}: {display} shows {sorted(sweeps)}, says {find_reported_sweeps(text)}"
        )


def test_the_number_of_displays_of_recorded_runs_in_each_chapter():
    """Without it, the test above would pass for a chapter whose displays it does not find."""
    counts = {
        stem: sum(bool(sweeps) for _, sweeps, _ in find_displays(stem)) for stem in chapters.names()
    }
    assert {stem: count for stem, count in counts.items() if count} == {
        "05_experiments": 23,
        "06_clustered_sampling": 13,
        "07_fedsampling": 13,
        "09_what_we_would_write": 2,
        "09b_variations": 5,
        "10_which_design": 9,
        "10c_first_comparison": 17,
    }
    figures = {title: sweeps for title, sweeps, _ in find_displays("05_experiments")}
    assert figures["figure_fig3"] == {"preprint", "mnist-0.001", "cifar100-equal-0.001"}
    assert figures["figure_paper_partition"] == {"partitions"}
    assert figures["figure_live"] == set()


def test_pages_with_recorded_numbers_or_the_start_figure_report_their_sweeps():
    glued = {}
    tracker = SweepTracker()
    for kind, source in read_cells("05_experiments"):
        if kind != "code":
            continue
        for statement in ast.parse(source).body:
            sweeps = tracker.track(statement)
            for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
                if getattr(call.func, "id", "") == "glue_values":
                    glued |= {f"ch5_{word.arg}": sweeps for word in call.keywords if word.arg}
    pages = 0
    for page in sorted((ROOT / "book").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        keys = re.findall(r"05_experiments\.ipynb::(ch5_[\w-]+)", text)
        needed = set().union(*(glued[key] for key in keys))
        needed |= {"comparison"} if "start.svg" in text else set()
        assert needed <= find_reported_sweeps(text), (
            f"{page.name} does not say {sorted(needed - find_reported_sweeps(text))}"
        )
        pages += bool(needed)
    assert pages >= 2  # the start page and Findings


def build_metadata(seed: int, commit: str, **more) -> dict:
    """Return the metadata of a run as a sidecar has it, `more` in its environment."""
    environment = {
        "device": "cpu (x86_64)",
        "threads": 1,
        "commit": commit,
        "versions": {"torch": "2"},
    }
    return {"identity": {"seed": seed}, "environment": environment | more}


def test_a_report_counts_runs_seeds_commits_and_machines(monkeypatch):
    lost = min(provenance_report.LOST_COMMITS)
    runs = [
        SimpleNamespace(metadata=metadata)
        for metadata in (
            build_metadata(0, lost),
            build_metadata(1, "abc"),
            build_metadata(0, lost, processor="Z80"),
            build_metadata(4, f"{lost}-dirty"),
        )
    ]
    monkeypatch.setattr(records, "read_runs", lambda folder: runs)
    assert provenance_report.report("privacy") == {
        "runs": "4 runs, 3 seeds (0, 1, 4)",
        "commits": f"{lost} (2; not in this repository), abc (1), "
        f"{lost}-dirty (1; not in this repository)",
        "machines": "cpu (x86_64), processor not recorded, 1 thread, torch 2 (3); "
        "cpu (x86_64), Z80, 1 thread, torch 2 (1)",
        "command": "fedstas sweep privacy --profile paper",
    }
    assert provenance_report.format_seeds([3]) == "seed 3"
    assert provenance_report.format_seeds([0, 1, 2, 1]) == "3 seeds (0 to 2)"
    assert provenance_report.format_seeds([9, 3, 0, 1, 2, 7, 8]) == "7 seeds (0 to 3, 7 to 9)"
    assert provenance_report.format_seeds([0, 1, 100, 102]) == "4 seeds (0, 1, 100, 102)"
    monkeypatch.setattr(records, "read_runs", lambda folder: [])
    assert provenance_report.report("privacy")["runs"] == "not recorded yet"
    report = json.loads(json.dumps(provenance_report.report("partitions")))
    assert report["runs"] == "3 partitions, seed 0" and "sweep preprint" in report["command"]


def test_the_lost_commits_are_the_recorded_ones_that_git_does_not_have():
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout

    if git("rev-parse", "--is-shallow-repository").strip() != "false":
        pytest.skip("not a clone with its whole history: `git fetch --unshallow` makes it one")
    history = git("log", "--format=%H").split()
    recorded = set()
    for folder in sorted((ROOT / "results").iterdir()):
        if (folder / records.RUNS).exists():
            recorded |= {run.metadata["environment"]["commit"] for run in records.read_runs(folder)}
    recorded = {name.removesuffix("-dirty") for name in recorded}
    lost = {name for name in recorded if not any(h.startswith(name) for h in history)}
    assert len(recorded) >= 8 and lost == provenance_report.LOST_COMMITS, (
        "companion/runs/provenance_report.py: LOST_COMMITS"
    )


def test_the_command_reports_on_all_sweeps(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance_report, "report", lambda name: {"runs": name})
    monkeypatch.setattr(sys, "argv", ["provenance_report"])
    assert provenance_report.main([str(tmp_path / "new" / "report.json")]) == 0
    assert set(json.loads((tmp_path / "new" / "report.json").read_text(encoding="utf-8"))) == NAMES
