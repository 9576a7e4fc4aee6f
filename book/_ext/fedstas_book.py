"""Sphinx extension of the book: reading time and provenance of a chapter, how chapters ran, local MathJax."""

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
    """A directive that reads the executed notebook of its page."""

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
    """The directive `at-a-glance`: time to read, time to run, what the chapter needs, links to run it."""

    option_spec = {"needs": directives.unchanged_required}  # noqa: RUF012 (docutils' own form)

    def run(self):
        notebook = self.notebook()
        block = notebook["metadata"]["fedstas"]
        minutes = measure.measure_page(block["chapter"])["minutes"]
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
    """The directive `provenance`: how the figure or table above it was made, folded, with the command to repeat it.

    With `:recorded:`, which names sweeps, it describes their recorded runs; without, the chapter's run; with
    `:live:` besides, both.
    """

    optional_arguments = 1
    final_argument_whitespace = True
    option_spec = {"recorded": directives.unchanged_required, "live": directives.flag}  # noqa: RUF012

    def run(self):
        summaries, body = [], []
        if "recorded" in self.options:
            summary, body = self.recorded([s.strip() for s in self.options["recorded"].split(",")])
            summaries = [summary]
        if "recorded" not in self.options or "live" in self.options:
            summary, more = self.live()
            summaries, body = [*summaries, summary], [*body, *more]
        heading = self.arguments[0] if self.arguments else "How this was made"
        summary = html.escape(f"{heading}: {'; and live: '.join(summaries)}")
        opening = f'<details class="provenance"><summary>{summary}</summary>'
        closing = nodes.raw("", "</details>", format="html")
        return [nodes.raw("", opening, format="html"), *body, closing]

    def recorded(self, sweeps: list[str]):
        """Return summary and nodes on the recorded runs of these sweeps."""
        path = Path(self.env.srcdir) / "chapters" / "recorded.json"
        self.env.note_dependency(str(path))
        by_sweep = json.loads(path.read_text(encoding="utf-8"))
        if unknown := set(sweeps) - set(by_sweep):
            raise self.error(f"no sweep of this name: {', '.join(sorted(unknown))}")
        rows = {}
        for sweep in sweeps:
            record = by_sweep[sweep]
            rows[f"Recorded, {sweep}"] = record["runs"]
            if "commits" in record:
                rows[f"Commits, {sweep} (runs)"] = record["commits"]
                rows[f"Machines, {sweep} (runs)"] = record["machines"]
        commands = "\n".join(dict.fromkeys(by_sweep[sweep]["command"] for sweep in sweeps))
        if len(sweeps) > 5:  # their runs stand in the fold
            summary = f"recorded, {len(sweeps)} sweeps: {', '.join(sweeps)}"
        else:
            runs = (f"{name}: {by_sweep[name]['runs']}" for name in sweeps)
            summary = "recorded, " + "; ".join(runs)
        return summary, [
            self.fields(rows),
            nodes.paragraph(
                "",
                "To record them again, in the folder runs (runs that are there are skipped, and by fedstas arena those in results, too; "
                "the option --folder names another folder; NAME is each setting in turn):"
                if "NAME" in commands
                else "To record them again, in the folder runs (runs that are there are skipped; the option --folder names another folder):",
            ),
            nodes.literal_block(commands, commands, language="bash"),
        ]

    def live(self):
        """Return summary and nodes on the run of the current chapter."""
        block = self.notebook()["metadata"]["fedstas"]
        parameters = ", ".join(f"{key} = {value}" for key, value in block["parameters"].items())
        versions = {"Python": block["python"], **block["versions"]}
        rows = {
            "Chapter": block["chapter"],
            "Parameters": parameters,
            "Device": block["device"],
            "Time": f"{block['seconds']:g} s, on {block['date']}",
            "Commit": block["commit"],
            "Versions": ", ".join(f"{key} {value}" for key, value in versions.items()),
        }
        return f"profile {block['profile']}, seed {block['seed']}", [
            self.fields(rows),
            nodes.paragraph("", "To make it again, from the repository's root with .venv active:"),
            nodes.literal_block(block["command"], block["command"], language="bash"),
            nodes.paragraph("", "or, as a notebook of your own, by papermill:"),
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


def glued_values(notebook: dict) -> dict:
    """Return the values that the cells of an executed chapter glued, figures left out."""
    values = {}
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            name = output.get("metadata", {}).get("scrapbook", {}).get("name")
            text = next(
                (v for k, v in output.get("data", {}).items() if k.endswith("text/plain")), ""
            )
            with contextlib.suppress(ValueError, SyntaxError):
                values[name] = ast.literal_eval("".join(text))
    return values


def fill_alternative_texts(app, doctree, docname):
    """Put glued values into alternative texts of images, where Sphinx reads no roles."""
    images = [node for node in doctree.findall(nodes.image) if GLUE.search(node.get("alt", ""))]
    if not images:
        return
    values = glued_values(json.loads(Path(app.env.doc2path(docname)).read_text(encoding="utf-8")))

    def value(match: re.Match) -> str:
        if match[1] not in values:
            log.warning("%s: no value %r for an alternative text", docname, match[1])
            return "…"
        return format(values[match[1]], match[2] or "")

    for node in images:
        node["alt"] = GLUE.sub(value, node["alt"])


class ExecutionStatus(SphinxDirective):
    """The directive `execution-status`: a table of how each chapter was executed."""

    def run(self):
        rows = []
        for page in sorted(Path(self.env.srcdir, "chapters").glob("*.ipynb")):
            docname = f"chapters/{page.stem}"
            block = json.loads(page.read_text(encoding="utf-8"))["metadata"].get("fedstas")
            self.env.note_dependency(str(page))
            if block is None or docname not in self.env.found_docs:
                continue
            link = addnodes.pending_xref(
                "",
                nodes.inline("", page.stem),
                refdomain="",
                reftype="ledger",
                reftarget=docname,
                anchor="",
                claim="",
                refexplicit=True,
                refwarn=True,
                refdoc=self.env.docname,
            )
            texts = [
                block["profile"],
                f"{block['seconds']:.0f}",
                "–" if block.get("cpu") is None else f"{block['cpu']:.0f}",
                block["device"],
                block["date"],
                block["commit"],
            ]
            cells = [[nodes.paragraph("", text)] for text in texts]
            rows.append([[nodes.paragraph("", "", link)], *cells])
        head = ["chapter", "profile", "seconds", "processor seconds", "device", "date", "commit"]
        return [table_of(head, rows, "status")]


KILLED_PROCESSES = {
    "one": "of one process",
    "parent": "of a parent with two workers",
    "worker": "of one of two workers",
    "pack": "of a packing",
    "page": "while a page was written",
}


class Chaos(SphinxDirective):
    """The directive `chaos`: what `make chaos` tried, and the outcomes."""

    def run(self):
        path = Path(self.env.srcdir).parent / "tests" / "chaos" / "figures.json"
        self.env.note_dependency(str(path))
        figures = json.loads(path.read_text(encoding="utf-8"))
        kills, flips, fuzz, about = (figures[k] for k in ("kills", "flips", "fuzz", "about"))
        kinds = ", ".join(
            f"{n} {KILLED_PROCESSES[kind]}" for kind, n in kills["by_kind"].items() if n
        )
        reads = flips["by_outcome"]
        trials = [
            (
                f"{kills['kills']} processes killed at random moments ({kinds})",
                f"{kills['midway']} left work unfinished; every sweep went on to the results of an undisturbed one",
                kills,
            ),
            (
                f"{flips['flips']} single bits flipped in recorded results, sidecars and data",
                f"{reads['refused']} refused, {reads['same']} read as before",
                flips,
            ),
            (
                f"{fuzz['calls']:,} calls of public functions with valid, extreme and wrong arguments",
                f"{fuzz['answers']:,} finite answers, {fuzz['refused']:,} refused with a sentence, "
                f"{fuzz['type']} ended in Python's own TypeError or AttributeError",
                fuzz,
            ),
            (
                f"{fuzz['commands']:,} command lines",
                f"{fuzz['0']} done, {fuzz['1']} diverged or differed, {fuzz['2']} refused with a sentence",
                fuzz,
            ),
        ]
        items = nodes.bullet_list()
        for trial, outcome, part in trials:
            failures = part["failures"]
            if part is fuzz:  # one list for calls and commands
                commands = "command" in trial
                failures = [text for text in failures if ("commands=True" in text) == commands]
            verb = "is" if len(failures) == 1 else "are"
            failed = f"{len(failures)} failed, and {verb} mended since"
            text = f"{outcome}; {failed if failures else 'none failed'}."
            line = nodes.paragraph("", "", nodes.strong("", trial), nodes.inline("", f": {text}"))
            items += nodes.list_item("", line)
        line = f"{about['date']}, commit {about['commit']}, {about['processor']}, seed {about['seed']}."
        return [items, nodes.paragraph("", line)]


def copy_mathjax(app, error):
    """Copy MathJax and its fonts from the package sphinx-mathjax-offline to the site."""
    if error or app.builder.format != "html":
        return
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    source = Path(spec.submodule_search_locations[0]) / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    fonts = Path("output") / "chtml" / "fonts" / "woff-v2"
    shutil.copytree(source / fonts, target / fonts, dirs_exist_ok=True)
    shutil.copy(source / "tex-chtml-full.js", target)


def remove_thebe(app, pagename, templatename, context, doctree):
    """Remove the theme's scripts of thebe, which is off: one is on each page twice, an error in the console."""
    scripts = context["script_files"]
    context["script_files"] = [s for s in scripts if "thebe" not in f"{s.filename} {s.attributes}"]


FORMULA_AND_MARKS = re.compile(
    r'([(\[“‘]*)(<span class="math notranslate nohighlight">\\\([^<]*\\\)</span>)([.,;:!?)\]”’-]*)'
)
# What is no running text is matched first, and left as it is.
NUMBERS = re.compile(
    r"<details class=\"provenance\">.*?</details>|<(pre|code|table|script|style|svg)\b.*?</\1>|<[^>]*>"
    r"|\([+−-]?[\d.,]+ to [+−-]?[\d.,]+\)|(?<=\d) %|(?<=\d</span>) %",
    re.DOTALL,
)
NAME = re.compile(r'(?<=<span class="pre">)[\w.*()]+(?=</span>)')
SIGNS = re.compile(  # what is no prose is matched first, and left as it is
    r"<(pre|code|script|style|svg)\b.*?</\1>|<(span|div) class=\"(?:math |pre\").*?</\2>|<[^>]*>"
    r"|(?<![^\s(\[,>])-(?=\.?\d)|(?<=\d) ± (?=\d)",
    re.DOTALL,
)
FORMULA_WITH_VALUE = re.compile(
    r'([(\[“‘]*)(<span class="math notranslate nohighlight">\\\([^<]{1,25}\\\)</span>)\s=\s'
    r'((?:<span class="pasted-text">)?[+−-]?[\d.,]*\d(?:</span>)?)'
)


def format_numbers(body: str) -> str:
    """Give negative numbers a minus sign, and keep 1 ± 2 and a short formula with its value, as in `x = 1`, on one line."""
    body = FORMULA_WITH_VALUE.sub(
        lambda m: f'<span class="held{" opened" * bool(m[1])}">{m[1]}{m[2]} = {m[3]}</span>', body
    )
    signs = {"-": "−", " ± ": "\u00a0±\u00a0"}
    return SIGNS.sub(lambda m: signs.get(m[0], m[0]), body)


def improve_line_breaks(app, pagename, templatename, context, doctree):
    """Keep a formula and the punctuation around it, an interval, and a number and its % on one line; let names in
    narrow tables break at `_` and `.`."""
    if body := context.get("body"):
        body = FORMULA_AND_MARKS.sub(
            lambda m: (
                f'<span class="held{" opened" * bool(m[1])}">{m[0]}</span>'
                if m[1] or m[3]
                else m[0]
            ),
            format_numbers(body),
        )
        if pagename != "ledger":  # its columns are narrower than some intervals
            body = NUMBERS.sub(
                lambda m: m[0] if m[0].startswith("<") else m[0].replace(" ", "&#160;"), body
            )
        if pagename in ("where_is_what", "notation", "teaching/project"):
            body = NAME.sub(lambda m: re.sub(r"([_.])(?=\w)", r"\1<wbr>", m[0]), body)
        context["body"] = body


def setup(app):
    """Register directives and handlers with Sphinx."""
    # A build holds millions of objects: looking for unreachable ones at Python's defaults took a fifth of its time.
    gc.set_threshold(200_000, 20, 100)
    app.setup_extension("fedstas_launch")
    app.setup_extension("fedstas_ledger")
    app.add_directive("at-a-glance", AtAGlance)
    app.add_directive("provenance", Provenance)
    app.add_directive("execution-status", ExecutionStatus)
    app.add_directive("chaos", Chaos)
    app.config.mathjax_path = "mathjax/tex-chtml-full.js"
    app.connect("doctree-resolved", fill_alternative_texts)
    app.connect("html-page-context", remove_thebe)
    app.connect("html-page-context", improve_line_breaks)
    app.connect("build-finished", copy_mathjax)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
