"""The API reference: everything public in the package stands on it, and nothing of the companion."""

import ast
import importlib
import inspect
import sys
from pathlib import Path

import pytest
import yaml
from docutils import nodes
from sphinx import addnodes

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import fedstas_api as api  # noqa: E402

FULL, BRIEF = api.modules(), api.modules("theory") | api.modules("flower")
PAGE = api.Page(FULL | BRIEF)


def named_modules() -> list[str]:
    """Return the modules of the algorithms and the simulator, in the order that the page gives."""
    page = (ROOT / "book" / "api.md").read_text(encoding="utf-8")
    blocks = [part.partition("```")[0] for part in page.split("```{api}\n")[1:]]
    full = [block for block in blocks if ":package:" not in block]
    lines = [line for block in full for line in block.split("\n") if not line.startswith(":")]
    return ",".join(filter(None, lines)).replace(",", " ").split()


def node_ids(node: nodes.Node) -> list[str]:
    """Return all ids of a document node and of those below it."""
    return [name for part in node.findall(nodes.Element) for name in part["ids"]]


@pytest.mark.parametrize("name", FULL)
def test_every_public_name_of_the_package_is_on_the_page(name):
    try:
        module = importlib.import_module(f"fedstas.{name}")
    except ImportError:
        module = importlib.import_module(f"fedstas.sim.{name}")
    public = [
        n
        for n, v in vars(module).items()
        if not n.startswith("_")
        and (getattr(v, "__module__", None), getattr(v, "__name__", n)) == (module.__name__, n)
        and (inspect.isclass(v) or inspect.isfunction(v))
        and v.__name__ == n  # no alias
    ]
    section = PAGE.section(FULL[name])
    assert {api.anchor(name, n) for n in public} <= set(node_ids(section)), name
    text = section.astext()
    for value in FULL[name].values():
        assert hasattr(module, value) and value in text, f"{name}.{value}"
    for node in FULL[name].public():
        first = (ast.get_docstring(node) or "").split()[:1]
        assert all(word.strip("`*.,:;") in text for word in first), node.name


def test_all_modules_are_on_the_page_and_those_that_it_names_exist():
    stems = {p.stem for sub in ("", "sim") for p in (ROOT / "fedstas" / sub).glob("*.py")}
    assert set(FULL) == stems - {"__init__", "cli"}
    assert set(named_modules()) <= set(FULL) and named_modules()[0] == "cohorts"
    assert len(BRIEF) >= 10
    pages = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text(encoding="utf-8"))["parts"][-1]
    files = [entry["file"] for entry in pages["chapters"]]
    assert pages["caption"] == "Back" and files.index("api") == files.index("glossary") - 1


def test_the_code_of_a_modules_docstring_is_a_literal_block_with_its_indentation():
    doc = inspect.getdoc(importlib.import_module("fedstas.cohorts"))
    code = [line for line in doc.split("\n") if line.startswith("    ")]
    (block,) = PAGE.section(FULL["cohorts"]).findall(
        lambda n: isinstance(n, nodes.literal_block) and "Cohorts(" in n.astext()
    )
    assert block.astext() == inspect.cleandoc("\n".join(code))
    assert "\n    cohort = chooser.sample(" in block.astext()


def test_anchors_are_unique_and_links_lead_to_them():
    sections = [PAGE.section(m) for m in FULL.values()] + [PAGE.brief(m) for m in BRIEF.values()]
    anchors = [anchor for section in sections for anchor in node_ids(section)]
    assert len(anchors) == len(set(anchors)) > 150
    assert "api-compression-squeeze" in anchors
    links = [r["refid"] for s in sections for r in s.findall(nodes.reference)]
    assert links and set(links) <= set(anchors)


def test_nothing_of_the_companion_is_on_the_page():
    text = "\n".join(PAGE.section(m).astext() for m in FULL.values())
    text += "\n".join(PAGE.brief(m).astext() for m in BRIEF.values())
    assert "companion" not in text


def test_signatures_are_those_of_the_sources():
    source = '''
from dataclasses import dataclass, field
@dataclass(frozen=True)
class Design:
    """A design, *unbiased* for `omega`; see `f`."""
    share: float = 0.1
    rounds: list[int] = field(default_factory=list)
    cache: dict = field(repr=False)
    kind: ClassVar[bool] = True
    steps: int = int_field(3, 1)
    def draw(self, view, m: int):
        return m
    def report(self):
        """Reports."""
def f(a, b: int = 3, *rest, key="x", **more) -> float:
    """One.

    - a point
    - another

        as it stands

    Args:
        a: the first,
            over two lines.
        b: the second.
    """
def _hidden(): pass
LIMIT: int = 4
'''
    module = api.Module("made", Path("made.py"), ast.parse(source))
    design, function = module.public()
    assert module.values() == ["LIMIT"]
    assert api.parameters(design) == [
        "share: float = 0.1",
        "rounds: list[int] = list()",
        "cache: dict",
        "steps: int = 3",
    ]
    assert api.parameters(function) == ["a", "b: int = 3", "*rest", "key='x'", "**more"]
    assert api.return_type(function) == "float"
    page = api.Page({"made": module})
    description = page.description(design, "made")
    assert [s["ids"][0] for s in description.findall(addnodes.desc_signature)] == [
        "api-made-Design",
        "api-made-Design-report",
    ]
    assert "Has draw." in description.astext()
    assert [r["refid"] for r in description.findall(nodes.reference)] == ["api-made-f"]
    assert [e.astext() for e in description.findall(nodes.emphasis)] == ["unbiased"]
    parts = list(page.prose(ast.get_docstring(function), "made"))
    assert [type(part) for part in parts] == [
        nodes.paragraph,
        nodes.bullet_list,
        nodes.literal_block,
        nodes.paragraph,
        nodes.bullet_list,
    ]
    assert [item.astext() for item in parts[-1].findall(nodes.list_item)] == [
        "a: the first,\n    over two lines.",
        "b: the second.",
    ]
