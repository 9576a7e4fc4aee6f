"""The directive `{api}`: a reference of the package, read from its sources without importing them.

It renders the modules that its content names, in that order, then the others of the same package: signature and
docstring of every public function and class. Anchors: `api-MODULE` and `api-MODULE-NAME`.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

PACKAGE = Path(__file__).resolve().parents[2] / "fedstas"
EXCLUDED = ("__init__", "cli")  # `fedstas --help` describes the command
PAPER = re.compile(r"\s*\(((?:FedSTaS|Fraboni|Qi|eq\.)[^()]*)\)")
SPAN = re.compile(
    r"(`+)(?P<code>.+?)\1"
    r"|(?<![\w*])\*(?P<stress>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
    r"|(?P<formula>[\w()]+[_^]\{[^}]*\})"  # w_{t+1}: set as code, there is no mathematics in docstrings
)
# A section of a docstring, `Args:` and the like: its title, and below it an indented line or entry for each.
SECTION = re.compile(r"^(Args|Returns|Raises|Yields):\n((?: {4}.*\n?)+)$")
Definition = ast.FunctionDef | ast.ClassDef


class Module(NamedTuple):
    """A parsed module of the package."""

    name: str  # as it is imported from fedstas: compression, tasks, theory.designs
    path: Path
    tree: ast.Module

    def doc(self) -> str:
        """Return its docstring."""
        return ast.get_docstring(self.tree) or self.name

    def public(self) -> list[Definition]:
        """Return the public functions and classes, in the order of the source."""
        kinds = (ast.FunctionDef, ast.ClassDef)
        return [n for n in self.tree.body if isinstance(n, kinds) and not n.name.startswith("_")]

    def values(self) -> list[str]:
        """Return the names of the public constants, in the order of the source."""
        constants = []
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            for target in targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                constants += [n.id for n in names if isinstance(n, ast.Name)]
        return [name for name in dict.fromkeys(constants) if not name.startswith("_")]


def modules(subpackage: str = "", package: Path = PACKAGE) -> dict[str, Module]:
    """Parse the modules of a subpackage (by default those of the algorithms and of the simulator), by name."""
    folders = [package / subpackage] if subpackage else [package, package / "sim"]
    dot = f"{subpackage}." if subpackage else ""
    paths = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    return {
        dot + path.stem: Module(dot + path.stem, path, ast.parse(path.read_text(encoding="utf-8")))
        for path in paths
        if path.stem not in EXCLUDED
    }


def anchor(*names: str) -> str:
    """Return the id of a module, or of a name in it, on the page."""
    return "-".join(["api", *names]).replace(".", "-")


def decorated(node: Definition, word: str) -> bool:
    """Return whether a function or class has a decorator of this name."""
    return any(word in ast.unparse(decorator) for decorator in node.decorator_list)


def parameters(node: Definition) -> list[str] | None:
    """Return the parameters of a function or class as the source writes them; None if it is not called."""
    if isinstance(node, ast.ClassDef):
        bases = [ast.unparse(base) for base in node.bases]
        if "Protocol" in bases:
            return None
        if decorated(node, "dataclass") or decorated(node, "config") or "NamedTuple" in bases:
            fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
            return [field(n) for n in fields if "ClassVar" not in ast.unparse(n.annotation)]
        inits = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        return parameters(inits[0])[1:] if inits else []
    if decorated(node, "property"):
        return None
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    texts = [argument(a, d) for a, d in zip(positional, defaults, strict=True)]
    if args.vararg:
        texts.append(f"*{argument(args.vararg, None)}")
    elif args.kwonlyargs:
        texts.append("*")
    texts += [argument(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    return texts + ([f"**{argument(args.kwarg, None)}"] if args.kwarg else [])


def argument(node: ast.arg, default: ast.expr | None) -> str:
    """Return a parameter with its type and default."""
    text = f"{node.arg}: {ast.unparse(node.annotation)}" if node.annotation else node.arg
    if default is None:
        return text
    return text + (" = " if node.annotation else "=") + ast.unparse(default)


def field(node: ast.AnnAssign) -> str:
    """Return a field of a dataclass or a named tuple with its type and default."""
    text = f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"
    if node.value is None:
        return text
    value = ast.unparse(node.value)
    if value.startswith("field("):
        default = re.search(r"default(_factory)?=([\w.]+)", value)
        return f"{text} = {default[2]}{'()' if default[1] else ''}" if default else text
    if isinstance(node.value, ast.Call) and value[0].islower() and node.value.args:
        value = ast.unparse(node.value.args[0])  # a field with a check: int_field(3)
    return f"{text} = {value}"


def return_type(node: Definition) -> str:
    """Return the return type of a function as the source writes it, or ""."""
    annotation = isinstance(node, ast.FunctionDef) and node.returns
    return ast.unparse(annotation) if annotation else ""


class Page:
    """Makes docutils nodes of modules; a name in backticks that is on the page becomes a link to it."""

    def __init__(self, modules: dict[str, Module]):
        self.places = {m: anchor(m) for m in modules} | {
            f"{m}.{node.name}": anchor(m, node.name)
            for m, module in modules.items()
            for node in module.public()
        }

    def inline(self, text: str, module: str) -> Iterator[nodes.Node]:
        """Yield the nodes of a text with its `code` and *stress*."""
        end = 0
        for span in SPAN.finditer(text):
            yield nodes.Text(text[end : span.start()])
            end = span.end()
            if span["stress"]:
                yield nodes.emphasis("", span["stress"])
                continue
            if span["formula"]:
                yield nodes.literal("", span["formula"])
                continue
            code = span["code"]
            name = re.match(r"[\w.]+", code)
            near = name[0].removeprefix("fedstas.") if name else ""
            place = self.places.get(f"{module}.{near}") or self.places.get(near)
            literal = nodes.literal("", code)
            link = nodes.reference("", "", literal, internal=True, refid=place)
            yield link if place else literal
        yield nodes.Text(text[end:])

    def paragraph(self, text: str, module: str, *classes: str) -> nodes.paragraph:
        """Return a paragraph of a docstring."""
        return nodes.paragraph("", "", *self.inline(text, module), classes=list(classes))

    def prose(self, doc: str, module: str) -> Iterator[nodes.Node]:
        """Yield the nodes of a docstring: paragraphs, lists, sections such as `Args:`, literal indented blocks."""
        for block in re.split(r"\n\s*\n", inspect.cleandoc(doc)):
            if not block.strip():
                continue
            if section := SECTION.match(f"{block}\n"):
                yield nodes.paragraph("", "", nodes.strong("", section[1]), classes=["api-section"])
                body = textwrap.dedent(section[2]).strip()
                entries = re.split(r"\n(?=\S)", body)
                if not all(re.match(r"[\w`*, ]+:", entry) for entry in entries):
                    entries = [body]  # one text, not an entry for each name
                items = [nodes.list_item("", self.paragraph(e, module)) for e in entries]
                yield nodes.bullet_list("", *items)
            elif all(line.startswith("    ") for line in block.splitlines()):
                yield nodes.literal_block("", inspect.cleandoc(block), language="text")
            elif block.startswith("- "):
                points = re.split(r"^- ", block, flags=re.MULTILINE)[1:]
                items = [nodes.list_item("", self.paragraph(p, module)) for p in points]
                yield nodes.bullet_list("", *items)
            else:
                yield self.paragraph(block, module)

    def description(self, node: Definition, module: str, owner: str = "") -> addnodes.desc:
        """Return the signature and the docstring of a function, a class or a method of the class `owner`."""
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        signature = addnodes.desc_signature("", "", is_multiline=False)
        signature["ids"] = [anchor(module, *filter(None, (owner, node.name)))]
        if kind == "class":
            signature += addnodes.desc_annotation("", "class ")
        before = f"{owner or module}."
        signature += [addnodes.desc_addname("", before), addnodes.desc_name("", node.name)]
        texts = parameters(node)
        if texts is not None:
            texts = texts[1:] if owner and not decorated(node, "staticmethod") else texts
            listed = [addnodes.desc_parameter("", nodes.Text(text)) for text in texts]
            signature += addnodes.desc_parameterlist("", "", *listed)
        if return_type(node):
            signature += addnodes.desc_returns("", return_type(node))
        content = addnodes.desc_content("", *self.prose(ast.get_docstring(node) or "", module))
        if isinstance(node, ast.ClassDef):
            content += self.members(node, module)
        return addnodes.desc(
            "", signature, content, domain="py", objtype=kind, desctype=kind, classes=["api", kind]
        )

    def members(self, node: ast.ClassDef, module: str) -> list[nodes.Node]:
        """Return the public methods: those with a docstring, then a line of the names of the others."""
        methods = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name[0] != "_"]
        parts: list = [
            self.description(n, module, node.name) for n in methods if ast.get_docstring(n)
        ]
        others = [f"`{n.name}`" for n in methods if not ast.get_docstring(n)]
        if others:
            parts.append(self.paragraph(f"Has {', '.join(others)}.", module, "api-also"))
        return parts

    def section(self, module: Module) -> nodes.section:
        """Return a module in full."""
        first, _, rest = module.doc().partition("\n\n")
        first = " ".join(first.split())
        paper = PAPER.search(first)
        heading = PAPER.sub("", first).rstrip(". ")
        about = nodes.inline(
            "", f": {heading}", classes=["api-about"]
        )  # not in the margin's contents
        title = nodes.title("", "", nodes.literal("", module.name), about)
        section = nodes.section("", title, ids=[anchor(module.name)], names=[module.name])
        place = f"{paper[1]} · " if paper else ""
        section += self.paragraph(
            f"{place}``from fedstas import {module.name}``", module.name, "api-place"
        )
        indented = f"\n{rest}"  # so that a code block keeps the indentation of its first line
        section += list(self.prose(indented, module.name))
        if module.values():
            listed = ", ".join(f"`{name}`" for name in module.values())
            section += self.paragraph(f"Values: {listed}.", module.name, "api-also")
        section += [self.description(node, module.name) for node in module.public()]
        return section

    def brief(self, module: Module) -> nodes.section:
        """Return a module with a line for each name: its parameters and the first paragraph of its docstring."""
        title = nodes.title("", "", nodes.literal("", module.name))
        section = nodes.section("", title, ids=[anchor(module.name)], names=[module.name])
        section += self.paragraph(module.doc().partition("\n")[0], module.name)
        rows = nodes.bullet_list(classes=["api-brief"])
        for node in module.public():
            doc = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
            texts = parameters(node)
            call = node.name + ("" if texts is None else f"({', '.join(texts)})")
            line = nodes.paragraph("", "", nodes.literal("", call), nodes.Text(": "))
            line += list(self.inline(doc, module.name))
            rows += nodes.list_item("", line, ids=[anchor(module.name, node.name)])
        section += rows
        return section


class Api(SphinxDirective):
    """The directive `api`: first the modules that are named, then (unless `only` is set) the others of their package, but
    for those that `without` names."""

    has_content = True
    option_spec = {  # noqa: RUF012 (docutils' own form)
        "package": directives.unchanged,
        "brief": directives.flag,
        "only": directives.flag,
        "without": directives.unchanged,
    }

    def run(self):
        available = modules(self.options.get("package", ""))
        first = [name for name in re.split(r"[,\s]+", " ".join(self.content)) if name]
        for name in first:
            if name not in available:
                raise self.error(f"the package has no module {name!r}")
        page = Page(modules() | modules("theory") | modules("flower"))
        render = page.brief if "brief" in self.options else page.section
        for module in available.values():
            self.env.note_dependency(str(module.path))
        others = [] if "only" in self.options else list(available)
        without = self.options.get("without", "").split()
        names = dict.fromkeys([*first, *others])
        return [render(available[name]) for name in names if name not in without]


def setup(app):
    """Register the directive with Sphinx."""
    app.add_directive("api", Api)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
