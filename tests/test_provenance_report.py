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
NAMES = {*experiments.SWEEPS, "which-design", "partitions", "one-round"}
FIXED = {  # functions that read these sweeps, whatever they are given
    ("records", "load_partitions"): {"partitions"},
    ("one_rounds", "load"): {"one-round"},
    ("design_comparison", "load_results"): {"which-design"},
    ("protocol", "load_curves"): {"which-design"},
    ("least_variance_results", "load_frames"): {
        "least-variance",
        *(sweep for sweep, _, _ in least_variance_results.PLACES.values()),
    },
}
_UNTUNED = {"least-variance", *(sweep for sweep, _ in design_comparison.UNTUNED.values())}
_UNTUNED |= {sweep for sweep, _, _ in least_variance_results.PLACES.values()}
FIXED |= {
    ("design_comparison", "load_untuned_gains"): _UNTUNED,
    ("design_comparison", "draw_one_round_errors"): _UNTUNED | {"one-round"},
}
_CIFAR, _SKEWED = {"clustered-cifar10", "clustered-mnist"}, {"clustered-coarse10"}
FIXED |= {("clustered_figures", f"figure_{k}"): _CIFAR for k in (2, 6, 7, 8, 9, 10)}
FIXED["clustered_figures", "figure_2_colour"] = _SKEWED
FIXED["clustered_figures", "local_tests"] = _CIFAR
FIXED["clustered_figures", "verdicts"] = _CIFAR | _SKEWED
FIXED["fedsampling", "verdicts"] = {
    "imbalance",
    "fedsampling-topics",
    "fedsampling-topics-ablations",
}
FIXED["fedsampling", "verdicts"] |= {"fedsampling-mnist-ablations"}
FIXED |= {("ch06", name): {"clustered-fig-1", "one-digit"} for name in ("recorded", "verdicts")}
FIXED |= {("ch07", "imbalance"): {"imbalance", "fedsampling-mnist-ablations"}}
FIXED |= {("ch07", "every_method"): {"preprint", "methods"}}
READERS = {"load", "identities", "details", "majority_labels", "cohorts", "recorded", "load_sweep"}


def constants(node: ast.AST) -> set[str]:
    """The sweeps that string constants name, also as `results/NAME`."""
    strings = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    return {s.rpartition("/")[2] for s in strings if isinstance(s, str)} & NAMES


class Reading:
    """Which recorded sweeps the names of a chapter hold, statement by statement, from top to bottom."""

    def __init__(self):
        self.holds: dict[str, set[str]] = {}  # by name
        self.named: dict[str, set[str]] = {}  # constants that name sweeps, by name
        self.grids: set[str] = set()  # names of what holds one grid per sweep

    def of(self, statement: ast.AST) -> set[str]:
        """The sweeps whose runs a statement reads."""
        found, reads, nodes, local = set(), False, list(ast.walk(statement)), local_names(statement)
        picked = [n for n in nodes if isinstance(n, ast.Subscript)]
        picked = [n for n in picked if isinstance(n.value, ast.Name) and n.value.id in self.grids]
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                module = getattr(node.func.value, "id", "")
                reads |= module in ("records", "tables") and node.func.attr in READERS
                found |= FIXED.get((module, node.func.attr), set())
            elif (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and node.id not in local
            ):
                one_by_one = any(node is n.value for n in picked)
                found |= set() if one_by_one else self.holds.get(node.id, set())
        spoken = constants(statement).union(
            *(self.named.get(n.id, set()) for n in nodes if isinstance(n, ast.Name))
        )
        for node in picked:
            found |= constants(node.slice) or spoken
        return found | (spoken if reads else set())

    def take(self, statement: ast.stmt) -> set[str]:
        """The same, and what the statement stores holds it from now on."""
        found, nodes = self.of(statement), list(ast.walk(statement))
        stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        stored |= {statement.name} if isinstance(statement, ast.FunctionDef) else set()
        for node in nodes:  # rows.append(...)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                base = getattr(node.value.func, "value", None)
                if isinstance(base, ast.Name) and found and base.id not in ("plots", "plt"):
                    self.holds[base.id] = self.holds.get(base.id, set()) | found
        for name in stored:
            self.holds[name] = found
            if not found and constants(statement):
                before = (
                    self.named.get(name, set()) if isinstance(statement, ast.AugAssign) else set()
                )
                self.named[name] = before | constants(statement)
            if "tables.load_sweep" in ast.unparse(statement):
                self.grids.add(name)
        return found


def local_names(statement: ast.AST) -> set[str]:
    """Names whose earlier value a statement does not see: of loops, comprehensions, functions, and what a
    block assigns anew."""
    nodes = list(ast.walk(statement))
    loops = [n.target for n in nodes if isinstance(n, ast.comprehension | ast.For)]
    if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
        loops += [t for n in nodes if isinstance(n, ast.Assign) for t in n.targets]
    inside = [n for t in loops for n in ast.walk(t) if isinstance(n, ast.Name)]
    local = {n.id for n in inside if isinstance(n.ctx, ast.Store)}
    return local | {n.arg for n in nodes if isinstance(n, ast.arg)}


def named_sweeps(text: str) -> set[str]:
    """The sweeps that the provenance directives of a text name."""
    recorded = (b.options.get("recorded", "") for b in myst.parse(text) if b.name == "provenance")
    return {s.strip() for sweeps in recorded for s in sweeps.split(",") if s.strip()}


def cells(stem: str) -> list[tuple[str, str]]:
    nb = jupytext.read(ROOT / "notebooks" / f"{stem}.py", fmt="py:percent")
    return [(cell.cell_type, cell.source) for cell in nb.cells]


def directives(text: str) -> Iterator[myst.Block]:
    """The directives of a text, for a dropdown those inside it."""
    for block in myst.parse(text):
        inside = myst.parse(block.body) if block.name == "dropdown" else [block]
        yield from (b for b in inside if b.kind == "directive")


def pattern(name: ast.expr) -> re.Pattern:
    """What an f-string can be."""
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    words = (re.escape(str(p.value)) if isinstance(p, ast.Constant) else r"\w+" for p in parts)
    return re.compile("".join(words))


def recorded_displays(stem: str) -> list[tuple[str, set[str], str]]:
    """What a chapter shows of recorded runs: (figure or table, its sweeps, the text that tells them)."""
    reading, pasted, looped, tables, texts = Reading(), {}, [], [], cells(stem)
    for place, (kind, source) in enumerate(texts):
        if kind != "code":
            continue
        statements = ast.parse(source).body
        each = [reading.take(statement) for statement in statements]
        whole = set().union(*each)
        for statement, sweeps in zip(statements, each, strict=True):
            for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call) and n.args):
                pastes = getattr(call.func, "id", "") in ("glue_figure", "glue", "show")
                if pastes and isinstance(call.args[0], ast.Constant):
                    pasted[str(call.args[0].value)] = whole
                elif pastes:  # in a loop, f"ch10_{name}" for all that nothing else pastes
                    looped.append((pattern(call.args[0]), whole))
            heads = {
                getattr(n.func, "id", "") for n in ast.walk(statement) if isinstance(n, ast.Call)
            }
            figure = "fig" in ast.unparse(statement)
            block = isinstance(statement, ast.Expr | ast.If | ast.For)
            if heads & {"show", "table", "display"} and sweeps and block and not figure:
                after = next((t for k, t in texts[place + 1 :] if k == "markdown"), "")
                tables.append((ast.unparse(statement)[:60], sweeps, after))
    found = []
    for kind, source in texts:
        blocks = list(directives(source)) if kind == "markdown" else []
        for at, block in enumerate(blocks):
            if block.name == "glue:figure":
                title = block.argument
                sweeps = pasted.get(title) or pasted.get(re.sub(r"^ch\d+_", "", title), set())
                if title not in pasted:
                    sweeps = sweeps.union(*(s for name, s in looped if name.fullmatch(title)))
                following = [b.source for b in blocks[at + 1 : at + 2] if b.name == "provenance"]
                found.append((title, sweeps, "".join(following)))
    return found + tables


@pytest.mark.parametrize("stem", chapters.names())
def test_every_figure_and_table_of_recorded_runs_says_so(stem):
    for what, sweeps, text in recorded_displays(stem):
        assert named_sweeps(text) == sweeps, (
            f"{stem}: {what} shows {sorted(sweeps)}, says {named_sweeps(text)}"
        )


def test_recorded_runs_are_found_where_they_are_shown():
    """Else the test above would hold of chapters that it cannot read."""
    count = {
        s: sum(bool(sweeps) for _, sweeps, _ in recorded_displays(s)) for s in chapters.names()
    }
    assert {s: n for s, n in count.items() if n} == {
        "05_experiments": 20,
        "06_clustered_sampling": 11,
        "07_fedsampling": 10,
        "09_what_we_would_write": 6,
        "10_which_design": 13,
    }
    figures = {what: sweeps for what, sweeps, _ in recorded_displays("05_experiments")}
    assert figures["figure_fig3"] == {"preprint", "mnist-0.001", "cifar100"}
    assert figures["figure_paper_partition"] == {"partitions"}
    assert figures["figure_live"] == set()


def test_pages_with_recorded_numbers_or_the_start_figure_say_so():
    glued = {}
    reading = Reading()
    for kind, source in cells("05_experiments"):
        if kind != "code":
            continue
        for statement in ast.parse(source).body:
            sweeps = reading.take(statement)
            for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
                if getattr(call.func, "id", "") == "glue_values":
                    glued |= {f"ch5_{each.arg}": sweeps for each in call.keywords if each.arg}
    pages = 0
    for page in sorted((ROOT / "book").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        keys = re.findall(r"05_experiments\.ipynb::(ch5_[\w-]+)", text)
        needed = set().union(*(glued[key] for key in keys))
        needed |= {"which-design"} if "start-1.svg" in text else set()
        assert needed <= named_sweeps(text), (
            f"{page.name} does not say {sorted(needed - named_sweeps(text))}"
        )
        pages += bool(needed)
    assert pages >= 2  # the start page and Findings


def metadata(seed: int, commit: str, **more) -> dict:
    where = {"device": "cpu (x86_64)", "threads": 1, "commit": commit, "versions": {"torch": "2"}}
    return {"identity": {"seed": seed}, "environment": where | more}


def test_a_report_counts_runs_seeds_commits_and_machines(monkeypatch):
    lost = min(provenance_report.LOST_COMMITS)
    notes = [
        metadata(0, lost),
        metadata(1, "abc"),
        metadata(0, lost, processor="Z80"),
        metadata(4, f"{lost}-dirty"),
    ]
    monkeypatch.setattr(
        records, "read_runs", lambda folder: [SimpleNamespace(metadata=n) for n in notes]
    )
    assert provenance_report.report("privacy") == {
        "runs": "4 runs, 3 seeds (0, 1, 4)",
        "commits": f"{lost} (2; not in this repository), abc (1), "
        f"{lost}-dirty (1; not in this repository)",
        "machines": "cpu (x86_64), processor not recorded, 1 thread, torch 2 (3); "
        "cpu (x86_64), Z80, 1 thread, torch 2 (1)",
        "command": "fedstas sweep privacy --profile paper",
    }
    assert (
        provenance_report.format_seeds([3]) == "seed 3"
        and provenance_report.format_seeds([0, 1, 2, 1]) == "3 seeds (0 to 2)"
    )
    monkeypatch.setattr(records, "read_runs", lambda folder: [])
    assert provenance_report.report("privacy")["runs"] == "not recorded yet"
    known = json.loads(json.dumps(provenance_report.report("partitions")))
    assert known["runs"] == "3 partitions, seed 0" and "sweep preprint" in known["command"]


def test_lost_commits_are_those_that_git_does_not_have():
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout

    if git("rev-parse", "--is-shallow-repository").strip() != "false":
        pytest.skip("not a clone with its whole history: `git fetch --unshallow` makes it one")
    history = git("log", "--format=%H").split()
    named = set()
    for folder in sorted((ROOT / "results").iterdir()):
        if (folder / records.RUNS).exists():
            named |= {run.metadata["environment"]["commit"] for run in records.read_runs(folder)}
    named = {name.removesuffix("-dirty") for name in named}
    gone = {name for name in named if not any(h.startswith(name) for h in history)}
    assert len(named) >= 8 and gone == provenance_report.LOST_COMMITS, (
        "companion/runs/provenance_report.py: LOST_COMMITS"
    )


def test_all_sweeps_are_reported_for_the_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance_report, "report", lambda name: {"runs": name})
    monkeypatch.setattr(sys, "argv", ["made"])
    assert provenance_report.main([str(tmp_path / "new" / "made.json")]) == 0
    assert set(json.loads((tmp_path / "new" / "made.json").read_text())) == NAMES
