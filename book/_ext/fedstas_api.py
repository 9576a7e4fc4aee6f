"""The API reference: every public name of the package, read from its sources and never imported.

The directive `{api}` renders the modules that its content names, each with the signature and the docstring of
what is public in it, then whatever else lies beside them. Anchors: `api-MODULE` and `api-MODULE-NAME`.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

PACKAGE = Path(__file__).resolve().parents[2] / "fedstas"
# Commands and doors: what they offer is told by `fedstas --help`, and by the modules behind them.
LEFT_OUT = ("__init__", "cli")
PAPER = re.compile(r"\s*\(((?:FedSTaS|Fraboni|Qi|eq\.)[^()]*)\)")
SPAN = re.compile(
    r"(`+)(?P<code>.+?)\1"
    r"|(?<![\w*])\*(?P<stress>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
    r"|(?P<formula>[\w()]+[_^]\{[^}]*\})"  # w_{t+1}: set as code, there is no mathematics in docstrings
)
Definition = ast.FunctionDef | ast.ClassDef


class Module(NamedTuple):
    """A module of the package, parsed."""

    name: str  # as it is imported from fedstas: compression, tasks, theory.designs
    path: Path
    tree: ast.Module

    def doc(self) -> str:
        """Its docstring."""
        return ast.get_docstring(self.tree) or self.name

    def public(self) -> list[Definition]:
        """The public functions and classes, in the order of the source."""
        kinds = (ast.FunctionDef, ast.ClassDef)
        return [n for n in self.tree.body if isinstance(n, kinds) and not n.name.startswith("_")]

    def values(self) -> list[str]:
        """The public constants, in the order of the source."""
        found = []
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            for target in targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                found += [n.id for n in names if isinstance(n, ast.Name)]
        return [name for name in dict.fromkeys(found) if not name.startswith("_")]


def modules(room: str = "", package: Path = PACKAGE) -> dict[str, Module]:
    """The modules of a room of the package (`theory`; none: the algorithms and the simulator), by name."""
    folders = [package / room] if room else [package, package / "sim"]
    dot = f"{room}." if room else ""
    paths = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    return {
        dot + path.stem: Module(dot + path.stem, path, ast.parse(path.read_text(encoding="utf-8")))
        for path in paths
        if path.stem not in LEFT_OUT
    }


def anchor(*names: str) -> str:
    """Where a module, or a name of it, stands on the page."""
    return "-".join(["api", *names]).replace(".", "-")


def decorated(node: Definition, word: str) -> bool:
    """Has a function or class this decorator?"""
    return any(word in ast.unparse(each) for each in node.decorator_list)


def parameters(node: Definition) -> list[str] | None:
    """What a function or class is called with, each as it is written; None: it is not called."""
    if isinstance(node, ast.ClassDef):
        bases = [ast.unparse(base) for base in node.bases]
        if "Protocol" in bases:
            return None
        if decorated(node, "dataclass") or decorated(node, "config") or "NamedTuple" in bases:
            own = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            return [field(each) for each in own if "ClassVar" not in ast.unparse(each.annotation)]
        begins = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        return parameters(begins[0])[1:] if begins else []
    if decorated(node, "property"):
        return None
    given = node.args
    listed = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(listed) - len(given.defaults)) + list(given.defaults)
    texts = [argument(a, d) for a, d in zip(listed, defaults, strict=True)]
    if given.vararg:
        texts.append(f"*{argument(given.vararg, None)}")
    elif given.kwonlyargs:
        texts.append("*")
    texts += [argument(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return texts + ([f"**{argument(given.kwarg, None)}"] if given.kwarg else [])


def argument(node: ast.arg, default: ast.expr | None) -> str:
    """A parameter with its type and default."""
    told = f"{node.arg}: {ast.unparse(node.annotation)}" if node.annotation else node.arg
    if default is None:
        return told
    return told + (" = " if node.annotation else "=") + ast.unparse(default)


def field(node: ast.AnnAssign) -> str:
    """A field of a dataclass or a named tuple."""
    told = f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"
    if node.value is None:
        return told
    value = ast.unparse(node.value)
    if value.startswith("field("):
        made = re.search(r"default(_factory)?=([\w.]+)", value)
        return f"{told} = {made[2]}{'()' if made[1] else ''}" if made else told
    if isinstance(node.value, ast.Call) and value[0].islower() and node.value.args:
        value = ast.unparse(node.value.args[0])  # a setting that checks itself: whole(3)
    return f"{told} = {value}"


def returned(node: Definition) -> str:
    """What a function returns, as it is written."""
    told = isinstance(node, ast.FunctionDef) and node.returns
    return ast.unparse(told) if told else ""


class Page:
    """Docutils nodes of modules; a name in backticks that stands on the page is a link to it."""

    def __init__(self, known: dict[str, Module]):
        self.places = {m: anchor(m) for m in known} | {
            f"{m}.{node.name}": anchor(m, node.name)
            for m, module in known.items()
            for node in module.public()
        }

    def inline(self, text: str, module: str) -> Iterator[nodes.Node]:
        """A text with its `code` and *stress*."""
        end = 0
        for found in SPAN.finditer(text):
            yield nodes.Text(text[end : found.start()])
            end = found.end()
            if found["stress"]:
                yield nodes.emphasis("", found["stress"])
                continue
            if found["formula"]:
                yield nodes.literal("", found["formula"])
                continue
            code = found["code"]
            name = re.match(r"[\w.]+", code)
            near = name[0].removeprefix("fedstas.") if name else ""
            place = self.places.get(f"{module}.{near}") or self.places.get(near)
            literal = nodes.literal("", code)
            inside = nodes.reference("", "", literal, internal=True, refid=place)
            yield inside if place else literal
        yield nodes.Text(text[end:])

    def paragraph(self, text: str, module: str, *classes: str) -> nodes.paragraph:
        """A paragraph of a docstring."""
        return nodes.paragraph("", "", *self.inline(text, module), classes=list(classes))

    def prose(self, doc: str, module: str) -> Iterator[nodes.Node]:
        """A docstring: paragraphs, lists with dashes, indented blocks as they stand."""
        for block in re.split(r"\n\s*\n", inspect.cleandoc(doc)):
            if not block.strip():
                continue
            if all(line.startswith("    ") for line in block.splitlines()):
                yield nodes.literal_block("", inspect.cleandoc(block), language="text")
            elif block.startswith("- "):
                points = re.split(r"^- ", block, flags=re.MULTILINE)[1:]
                items = [nodes.list_item("", self.paragraph(p, module)) for p in points]
                yield nodes.bullet_list("", *items)
            else:
                yield self.paragraph(block, module)

    def described(self, node: Definition, module: str, owner: str = "") -> addnodes.desc:
        """A function, class or method: its signature, and what its docstring says."""
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        signature = addnodes.desc_signature("", "", is_multiline=False)
        signature["ids"] = [anchor(module, *filter(None, (owner, node.name)))]
        if kind == "class":
            signature += addnodes.desc_annotation("", "class ")
        before = f"{owner or module}."
        signature += [addnodes.desc_addname("", before), addnodes.desc_name("", node.name)]
        given = parameters(node)
        if given is not None:
            own = given[1:] if owner and not decorated(node, "staticmethod") else given
            listed = [addnodes.desc_parameter("", nodes.Text(text)) for text in own]
            signature += addnodes.desc_parameterlist("", "", *listed)
        if returned(node):
            signature += addnodes.desc_returns("", returned(node))
        content = addnodes.desc_content("", *self.prose(ast.get_docstring(node) or "", module))
        if isinstance(node, ast.ClassDef):
            content += self.members(node, module)
        return addnodes.desc(
            "", signature, content, domain="py", objtype=kind, desctype=kind, classes=["api", kind]
        )

    def members(self, node: ast.ClassDef, module: str) -> list[nodes.Node]:
        """The public methods: those that say something, then the names of the others."""
        inside = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name[0] != "_"]
        told = [self.described(n, module, node.name) for n in inside if ast.get_docstring(n)]
        others = [f"`{n.name}`" for n in inside if not ast.get_docstring(n)]
        line = self.paragraph(f"Has {', '.join(others)}.", module, "api-also")
        return [*told, line] if others else told

    def section(self, module: Module) -> nodes.section:
        """A module in full."""
        first, _, rest = module.doc().partition("\n")
        paper = PAPER.search(first)
        heading = PAPER.sub("", first).rstrip(". ")
        about = nodes.inline(
            "", f": {heading}", classes=["api-about"]
        )  # not in the margin's contents
        title = nodes.title("", "", nodes.literal("", module.name), about)
        made = nodes.section("", title, ids=[anchor(module.name)], names=[module.name])
        where = f"{paper[1]} · " if paper else ""
        made += self.paragraph(
            f"{where}``from fedstas import {module.name}``", module.name, "api-place"
        )
        made += list(self.prose(rest, module.name))
        if module.values():
            listed = ", ".join(f"`{name}`" for name in module.values())
            made += self.paragraph(f"Values: {listed}.", module.name, "api-also")
        made += [self.described(node, module.name) for node in module.public()]
        return made

    def brief(self, module: Module) -> nodes.section:
        """A module with a line for each name: what it is called with, and its first sentence."""
        title = nodes.title("", "", nodes.literal("", module.name))
        made = nodes.section("", title, ids=[anchor(module.name)], names=[module.name])
        made += self.paragraph(module.doc().partition("\n")[0], module.name)
        rows = nodes.bullet_list(classes=["api-brief"])
        for node in module.public():
            doc = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
            given = parameters(node)
            called = node.name + ("" if given is None else f"({', '.join(given)})")
            line = nodes.paragraph("", "", nodes.literal("", called), nodes.Text(": "))
            line += list(self.inline(doc, module.name))
            rows += nodes.list_item("", line, ids=[anchor(module.name, node.name)])
        made += rows
        return made


class Api(SphinxDirective):
    """Modules of the package: first those named, in that order, then the rest of their room."""

    has_content = True
    option_spec = {"room": directives.unchanged, "brief": directives.flag}  # noqa: RUF012

    def run(self):
        found = modules(self.options.get("room", ""))
        first = [name for name in re.split(r"[,\s]+", " ".join(self.content)) if name]
        for name in first:
            if name not in found:
                raise self.error(f"the package has no module {name!r}")
        page = Page(modules() | modules("theory") | modules("flower"))
        render = page.brief if "brief" in self.options else page.section
        for module in found.values():
            self.env.note_dependency(str(module.path))
        return [render(found[name]) for name in dict.fromkeys([*first, *found])]


def setup(app):
    """Sphinx's entry."""
    app.add_directive("api", Api)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
