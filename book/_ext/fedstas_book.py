"""The book's own Sphinx extension: what a chapter says of its run, and formulas without a network."""

import ast
import contextlib
import gc
import html
import importlib.util
import json
import re
import shutil
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from fedstas_launch import launch
from fedstas_ledger import table_of
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from companion.pages import measure

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
    """At the top of a chapter: time to read, time to run, what it needs, where it can be run."""

    option_spec = {"needs": directives.unchanged_required}  # noqa: RUF012 (docutils' own form)

    def run(self):
        notebook = self.notebook()
        block = notebook["metadata"]["fedstas"]
        minutes = measure.page(block["chapter"])["minutes"]
        parts = {
            "Read": f"{max(1, round(minutes))} min",
            "Run": f"{block['seconds']:.0f} s, profile {block['profile']}, {block['device']}",
            "Needs": self.options.get("needs"),
        }
        line = nodes.paragraph(classes=["at-a-glance"])
        for key, value in parts.items():
            if value:
                line += nodes.inline("", "", nodes.strong("", f"{key}: "), nodes.Text(value))
        links = launch(self, block["chapter"])
        return [line, nodes.paragraph("", "", *links, classes=["at-a-glance", "launch"])]


class Provenance(ChapterDirective):
    """Prints, folded, how what stands above was made and the commands that make it again.

    With `:recorded:`, which names sweeps, the recorded runs that it shows; without, the chapter's own
    run; `:live:` besides, both.
    """

    optional_arguments = 1
    final_argument_whitespace = True
    option_spec = {"recorded": directives.unchanged_required, "live": directives.flag}  # noqa: RUF012

    def run(self):
        said, body = [], []
        if "recorded" in self.options:
            summary, body = self.recorded([s.strip() for s in self.options["recorded"].split(",")])
            said = [summary]
        if "recorded" not in self.options or "live" in self.options:
            summary, more = self.live()
            said, body = [*said, summary], [*body, *more]
        what = self.arguments[0] if self.arguments else "How this was made"
        summary = html.escape(f"{what}: {'; and live: '.join(said)}")
        opening = f'<details class="provenance"><summary>{summary}</summary>'
        closing = nodes.raw("", "</details>", format="html")
        return [nodes.raw("", opening, format="html"), *body, closing]

    def recorded(self, sweeps: list[str]):
        """What is known of these sweeps' runs."""
        path = Path(self.env.srcdir) / "chapters" / "recorded.json"
        self.env.note_dependency(str(path))
        known = json.loads(path.read_text(encoding="utf-8"))
        if lacking := set(sweeps) - set(known):
            raise self.error(f"no sweep of this name: {', '.join(sorted(lacking))}")
        rows = {}
        for sweep in sweeps:
            told = known[sweep]
            rows[f"Recorded, {sweep}"] = told["runs"]
            if "commits" in told:
                rows[f"Commits, {sweep} (runs)"] = told["commits"]
                rows[f"Machines, {sweep} (runs)"] = told["machines"]
        commands = "\n".join(dict.fromkeys(known[sweep]["command"] for sweep in sweeps))
        summary = "recorded, " + "; ".join(f"{sweep}: {known[sweep]['runs']}" for sweep in sweeps)
        return summary, [
            self.fields(rows),
            nodes.paragraph(
                "",
                "To record them again, in the folder runs (what is there is skipped; --folder names another):",
            ),
            nodes.literal_block(commands, commands, language="bash"),
        ]

    def live(self):
        """How the current chapter was run."""
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
        return f"profile {block['profile']}, seed {block['seed']}", [
            self.fields(rows),
            nodes.paragraph("", "To make it again, from the repository's root with .venv active:"),
            nodes.literal_block(block["command"], block["command"], language="bash"),
            nodes.paragraph("", "or, without our command:"),
            nodes.literal_block(block["papermill"], block["papermill"], language="bash"),
        ]

    @staticmethod
    def fields(rows: dict[str, str]) -> nodes.field_list:
        fields = nodes.field_list()
        for key, value in rows.items():
            body = nodes.field_body("", nodes.paragraph("", value))
            fields += nodes.field("", nodes.field_name("", key), body)
        return fields


GLUE = re.compile(r"\{glue:text\}`([^`:]+)(?::([^`]+))?`")


def glued(notebook: dict) -> dict:
    """What the cells of an executed chapter glued, but for figures."""
    found = {}
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            name = output.get("metadata", {}).get("scrapbook", {}).get("name")
            text = next(
                (v for k, v in output.get("data", {}).items() if k.endswith("text/plain")), ""
            )
            with contextlib.suppress(ValueError, SyntaxError):
                found[name] = ast.literal_eval("".join(text))
    return found


def say_what_is_drawn(app, doctree, docname):
    """Put glued values into alternative texts, where Sphinx reads no roles."""
    images = [node for node in doctree.findall(nodes.image) if GLUE.search(node.get("alt", ""))]
    if not images:
        return
    values = glued(json.loads(Path(app.env.doc2path(docname)).read_text(encoding="utf-8")))

    def value(match: re.Match) -> str:
        if match[1] not in values:
            log.warning("%s: no value %r for an alternative text", docname, match[1])
            return "…"
        return format(values[match[1]], match[2] or "")

    for node in images:
        node["alt"] = GLUE.sub(value, node["alt"])


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
                "–" if block.get("cpu") is None else f"{block['cpu']:.0f}",
                block["device"],
                block["date"],
                block["commit"],
            ]
            cells = [[nodes.paragraph("", text)] for text in told]
            rows.append([[nodes.paragraph("", "", link)], *cells])
        head = ["chapter", "profile", "seconds", "processor seconds", "device", "date", "commit"]
        return [table_of(head, rows, "status")]


KILLED = {
    "one": "of one process", "parent": "of a parent with two workers", "worker": "of one of two workers",
    "pack": "of a packing", "page": "while a page was written",
}  # fmt: skip


class Chaos(SphinxDirective):
    """What `make chaos` tried and what came of it."""

    def run(self):
        path = Path(self.env.srcdir).parent / "tests" / "chaos" / "figures.json"
        self.env.note_dependency(str(path))
        found = json.loads(path.read_text(encoding="utf-8"))
        kills, flips, fuzz, about = (found[k] for k in ("kills", "flips", "fuzz", "about"))
        kinds = ", ".join(f"{n} {KILLED[kind]}" for kind, n in kills["by_kind"].items() if n)
        read = flips["by_outcome"]
        told = [
            (
                f"{kills['kills']} processes killed at random moments ({kinds})",
                f"{kills['midway']} left work unfinished; every sweep went on to the results of an undisturbed one",
                kills,
            ),
            (
                f"{flips['flips']} single bits flipped in recorded results, sidecars and data",
                f"{read['refused']} refused, {read['same']} read as before",
                flips,
            ),
            (
                f"{fuzz['calls']:,} calls of public functions with valid, extreme and wrong arguments",
                f"{fuzz['answers']:,} finite answers, {fuzz['refused']:,} refused with a sentence, "
                f"{fuzz['type']} of a wrong Python type",
                fuzz,
            ),
            (
                f"{fuzz['commands']:,} command lines",
                f"{fuzz['0']} done, {fuzz['1']} diverged or differed, {fuzz['2']} refused with a sentence",
                fuzz,
            ),
        ]
        items = nodes.bullet_list()
        for what, came, part in told:
            own = part["failures"]
            if part is fuzz:  # one list for calls and commands
                own = [x for x in own if ("commands=True" in x) == ("command" in what)]
            failed = f"{len(own)} failed, and {'is' if len(own) == 1 else 'are'} mended since"
            text = f"{came}; {failed if own else 'none failed'}."
            line = nodes.paragraph("", "", nodes.strong("", what), nodes.inline("", f": {text}"))
            items += nodes.list_item("", line)
        line = f"{about['date']}, commit {about['commit']}, {about['processor']}, seed {about['seed']}."
        return [items, nodes.paragraph("", line)]


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


def without_thebe(app, pagename, templatename, context, doctree):
    """No scripts of a feature that is off: one of them stands on each page twice, an error in its console."""
    scripts = context["script_files"]
    context["script_files"] = [s for s in scripts if "thebe" not in f"{s.filename} {s.attributes}"]


FOLLOWED = re.compile(
    r'(<span class="math notranslate nohighlight">\\\([^<]*\\\)</span>)([.,;:!?)\]”’-]+)'
)
NAME = re.compile(r'(?<=<span class="pre">)[\w.*]+(?=</span>)')


def no_line_begins_with_a_stop(app, pagename, templatename, context, doctree):
    """A formula and the stop behind it share a line; names in the narrow tables break at their joints."""
    if body := context.get("body"):
        body = FOLLOWED.sub(r'<span class="held">\1\2</span>', body)
        if pagename in ("where_is_what", "notation"):
            body = NAME.sub(lambda m: re.sub(r"([_.])(?=\w)", r"\1<wbr>", m[0]), body)
        context["body"] = body


def setup(app):
    gc.set_threshold(200_000, 20, 100)  # millions of objects stay: to look for others took a fifth
    app.setup_extension("fedstas_launch")
    app.setup_extension("fedstas_ledger")
    app.add_directive("at-a-glance", AtAGlance)
    app.add_directive("provenance", Provenance)
    app.add_directive("execution-status", ExecutionStatus)
    app.add_directive("chaos", Chaos)
    app.config.mathjax_path = "mathjax/tex-chtml-full.js"
    app.connect("doctree-resolved", say_what_is_drawn)
    app.connect("html-page-context", without_thebe)
    app.connect("html-page-context", no_line_begins_with_a_stop)
    app.connect("build-finished", copy_mathjax)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
