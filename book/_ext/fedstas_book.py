"""The book's own Sphinx extension: what a chapter says of its run, the ledger of claims, and formulas
without a network."""

import html
import importlib.util
import json
import re
import shutil
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

log = logging.getLogger(__name__)


class ChapterDirective(SphinxDirective):
    """Knows the executed notebook of the current page."""

    def notebook(self) -> dict:
        page = Path(self.env.doc2path(self.env.docname))
        if page.suffix != ".ipynb":
            raise self.error("this page is not a chapter")
        self.env.note_dependency(str(page))
        notebook = json.loads(page.read_text(encoding="utf-8"))
        if "fedstas" not in notebook["metadata"]:
            raise self.error("this chapter was not executed by the pipeline (make book)")
        return notebook


class AtAGlance(ChapterDirective):
    """One line at the top of a chapter: time to read, time to run, what it needs."""

    option_spec = {"needs": directives.unchanged_required}  # noqa: RUF012 (docutils' own form)

    def run(self):
        notebook = self.notebook()
        block = notebook["metadata"]["fedstas"]
        prose = " ".join(
            "".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"
        )
        parts = {
            "Read": f"{max(1, round(len(prose.split()) / 200))} min",
            "Run": f"{block['seconds']:.0f} s, profile {block['profile']}, {block['device']}",
            "Needs": self.options.get("needs"),
        }
        line = nodes.paragraph(classes=["at-a-glance"])
        for key, value in parts.items():
            if value:
                line += nodes.inline("", "", nodes.strong("", f"{key}: "), nodes.Text(value))
        return [line]


class Provenance(ChapterDirective):
    """Prints, folded, how the current chapter was made and the commands that make it again."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self):
        block = self.notebook()["metadata"]["fedstas"]
        given = ", ".join(f"{key} = {value}" for key, value in block["parameters"].items())
        versions = {"Python": block["python"], **block["versions"]}
        rows = {
            "Chapter": block["chapter"],
            "Parameters": given,
            "Device": block["device"],
            "Time": f"{block['seconds']:g} s, on {block['date']}",
            "Commit": block["commit"],
            "Versions": ", ".join(f"{key} {value}" for key, value in versions.items()),
        }
        fields = nodes.field_list()
        for key, value in rows.items():
            body = nodes.field_body("", nodes.paragraph("", value))
            fields += nodes.field("", nodes.field_name("", key), body)
        what = self.arguments[0] if self.arguments else "How this was made"
        summary = html.escape(f"{what}: profile {block['profile']}, seed {block['seed']}")
        opening = f'<details class="provenance"><summary>{summary}</summary>'
        return [
            nodes.raw("", opening, format="html"),
            fields,
            nodes.paragraph("", "To make it again, from the repository's root with .venv active:"),
            nodes.literal_block(block["command"], block["command"], language="bash"),
            nodes.paragraph("", "or, without our command:"),
            nodes.literal_block(block["papermill"], block["papermill"], language="bash"),
            nodes.raw("", "</details>", format="html"),
        ]


def table_of(head: list[str], rows: list[list[list[nodes.Node]]], name: str) -> nodes.table:
    """A docutils table of that class; a cell is a list of nodes."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    body = nodes.tbody()
    texts = [[[nodes.paragraph("", text)] for text in head], *rows]
    for place, cells in enumerate(texts):
        row = nodes.row("", *(nodes.entry("", *cell) for cell in cells))
        if place == 0:
            group += nodes.thead("", row)
        else:
            body += row
    group += body
    return nodes.table("", group, classes=[name])


class LedgerDirective(SphinxDirective):
    """Knows the ledger that the pipeline computed."""

    def ledger(self) -> dict:
        path = Path(self.env.srcdir) / "chapters" / "ledger.json"
        self.env.note_dependency(str(path))
        if not path.is_file():
            raise self.error("the ledger was not computed by the pipeline (make book)")
        return json.loads(path.read_text(encoding="utf-8"))

    @staticmethod
    def counts(ledger: dict, claims: list[dict]) -> dict[str, int]:
        words = [claim["verdict"] for claim in claims]
        return {v: words.count(v) for v in ledger["verdicts"] if v in words}


class LedgerBar(LedgerDirective):
    """All verdicts as one bar, with its legend and, for those who do not see it, its text."""

    def run(self):
        ledger = self.ledger()
        claims = ledger["claims"]
        counts = self.counts(ledger, claims)
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        parts = "".join(
            f'<span class="verdict-{verdict}" style="flex-grow: {count}"></span>'
            for verdict, count in counts.items()
        )
        legend = "".join(
            f'<li><span class="verdict-chip verdict-{verdict}">{count} {verdict}</span></li>'
            for verdict, count in counts.items()
        )
        bar = (
            f'<div class="ledger-bar" role="img" aria-label="Verdicts of {len(claims)} claims: '
            f'{said}">{parts}</div><ul class="ledger-legend">{legend}</ul>'
        )
        return [nodes.raw("", bar, format="html")]


class Ledger(LedgerDirective):
    """The claims of one paper with their verdicts; what lies behind a verdict is folded."""

    required_arguments = 1

    def run(self):
        ledger, paper = self.ledger(), self.arguments[0]
        if paper not in ledger["papers"]:
            raise self.error(f"unknown paper {paper!r}: use one of {', '.join(ledger['papers'])}")
        claims = [claim for claim in ledger["claims"] if claim["paper"] == paper]
        said = ", ".join(f"{n} {v}" for v, n in self.counts(ledger, claims).items())
        rows = [self.row(claim) for claim in claims]
        head = ["claim", "printed", "ours", "verdict"]
        summary = nodes.paragraph("", f"{len(claims)} claims: {said}.")
        return [summary, table_of(head, rows, "ledger")]

    def text(self, text: str, *classes: str) -> nodes.paragraph:
        """A paragraph; formulas and code are read where there are some."""
        if not re.search(r"[$`]", text):
            return nodes.paragraph("", "", nodes.Text(text), classes=list(classes))
        inner, messages = self.state.inline_text(text, self.lineno)
        return nodes.paragraph("", "", *inner, *messages, classes=list(classes))

    def row(self, claim: dict) -> list[list[nodes.Node]]:
        place = nodes.paragraph("", "", classes=["ledger-place"])
        place += [
            self.link(claim),
            nodes.Text(f" · {claim['kind']} · "),
            nodes.literal("", claim["id"]),
        ]
        chip = nodes.inline(
            "", claim["verdict"], classes=["verdict-chip", f"verdict-{claim['verdict']}"]
        )
        body = [place, self.text(claim["statement"]), *self.folded(claim)]
        return [
            body,
            [self.text(claim["printed"])],
            [self.text(claim["ours"])],
            [nodes.paragraph("", "", chip)],
        ]

    def link(self, claim: dict) -> nodes.Node:
        """To the section that shows the claim, found when all pages are read."""
        stem, _, anchor = claim["link"].partition("#")
        text = nodes.inline("", claim["place"])
        return addnodes.pending_xref(
            "", text, refdomain="", reftype="ledger", reftarget=f"chapters/{stem}", anchor=anchor,
            claim=claim["id"], refexplicit=True, refwarn=True, refdoc=self.env.docname,
        )  # fmt: skip

    def folded(self, claim: dict) -> list[nodes.Node]:
        """The note and the evidence, in a box that is closed."""
        raw = "<details class='ledger-note'><summary>why</summary>"
        parts = [nodes.raw("", raw, format="html")]
        if claim["note"]:
            parts.append(self.text(claim["note"]))
        if claim["table"]:
            rows = [[[nodes.paragraph("", cell)] for cell in row] for row in claim["table"]]
            parts.append(table_of(claim["columns"], rows, "ledger-evidence"))
        command = f"fedstas claims {claim['id']}"
        parts.append(nodes.paragraph("", "Again: ", nodes.literal("", command)))
        return [*parts, nodes.raw("", "</details>", format="html")]


def find_section(app, env, node, content):
    """Resolves the link of a claim to the section that is named by its title."""
    if node.get("reftype") != "ledger":
        return None
    page, anchor = node["reftarget"], node["anchor"]
    if page not in env.all_docs:
        log.warning("claim %s links to a page that is not there: %s", node["claim"], page)
        return content
    if not anchor:
        return make_refnode(app.builder, node["refdoc"], page, "", content)

    def bare(text: str) -> str:
        return re.sub(r"[^a-z0-9]", "", text.lower())

    for section in env.get_doctree(page).findall(nodes.section):
        names = [*section["ids"], section[0].astext()]
        if bare(anchor) in map(bare, names):
            return make_refnode(app.builder, node["refdoc"], page, section["ids"][0], content)
    log.warning("claim %s links to a section that is not there: %s#%s", node["claim"], page, anchor)
    return content


class ExecutionStatus(SphinxDirective):
    """How each chapter of this book was executed."""

    def run(self):
        rows = []
        for page in sorted(Path(self.env.srcdir, "chapters").glob("*.ipynb")):
            docname = f"chapters/{page.stem}"
            block = json.loads(page.read_text(encoding="utf-8"))["metadata"].get("fedstas")
            self.env.note_dependency(str(page))
            if block is None or docname not in self.env.found_docs:
                continue
            link = addnodes.pending_xref(
                "", nodes.inline("", page.stem), refdomain="", reftype="ledger", reftarget=docname,
                anchor="", claim="", refexplicit=True, refwarn=True, refdoc=self.env.docname,
            )  # fmt: skip
            told = [
                block["profile"],
                f"{block['seconds']:.0f}",
                block["device"],
                block["date"],
                block["commit"],
            ]
            cells = [[nodes.paragraph("", text)] for text in told]
            rows.append([[nodes.paragraph("", "", link)], *cells])
        head = ["chapter", "profile", "seconds", "device", "date", "commit"]
        return [table_of(head, rows, "status")]


def copy_mathjax(app, error):
    """MathJax and its fonts beside the pages (from the package sphinx-mathjax-offline)."""
    if error or app.builder.format != "html":
        return
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    source = Path(spec.submodule_search_locations[0]) / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    fonts = Path("output") / "chtml" / "fonts" / "woff-v2"
    shutil.copytree(source / fonts, target / fonts, dirs_exist_ok=True)
    shutil.copy(source / "tex-chtml-full.js", target)


def setup(app):
    app.add_directive("at-a-glance", AtAGlance)
    app.add_directive("provenance", Provenance)
    app.add_directive("ledger", Ledger)
    app.add_directive("ledger-bar", LedgerBar)
    app.add_directive("execution-status", ExecutionStatus)
    app.connect("missing-reference", find_section)
    app.config.mathjax_path = "mathjax/tex-chtml-full.js"
    app.connect("build-finished", copy_mathjax)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
