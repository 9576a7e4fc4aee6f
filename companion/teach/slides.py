"""Slides of a chapter: its headings, figures, tables, boxes and exercises as one HTML file that needs no network.

What the chapter's prose says before a figure or a box becomes the speaker's notes (key n). A cell tagged
`skip-slides` is left out, one tagged `slide` is shown as it is. The chapters of the course's sessions begin with the
drawing of a round, and end with figures of other chapters (`SESSIONS`), as far as these are executed.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path

from companion.pages import chapters, drawing, markdown, parameters
from companion.runs.atomic import write
from companion.teach import teaching
from fedstas.errors import InputError

LONG = 900  # characters of a box that still fit a slide; the rest of it is in the notes
BOXES = ("admonition", "prf:lemma", "prf:theorem", "prf:definition", "prf:algorithm", "math")
KINDS = ("glue:figure", "explorer", "exercise-start", "exercise", *BOXES)
ENDING = ("What we learned",)  # sections whose text itself is shown
ROWS = 12  # of a table that fit a slide; the notes say how many there are
LINE = 90  # characters of a caption's first sentence that still fit a title
HIDDEN = {"skip-slides", "remove-cell", "remove-output", "hide-output"}
SEEN = {  # what is to be seen in the pictures that come back from session to session
    "figure_squeeze": "Nine levels: many entries near zero, and few far out that have levels of their own",
    "figure_report": "The coin: one report may be any size, and one size is much likelier",
    "ch9_figure_seats": "The same clients under four designs: who may sit on which seat?",
    "ch9_map": "The cut: each client is tied to the middle of its draw; short lines, little variance",
    "ch10_remembered": "Points above MD at equal megabytes: who lies to the right of the grey band?",
}
NINE, TEN = "09_what_we_would_write", "10_which_design"
SESSIONS = {  # what to look at in the round, and whose figures (chapter, name) are borrowed
    "01_aggregation": ("step 7: with which weights do the drawn clients enter the new model?",
                       [(NINE, "ch9_figure_seats")]),
    "02_stratification": ("steps 2 to 5: what strata know, how many seats each gets, and who is drawn.", [(NINE, "ch9_map")]),
    "03_data_sampling": ("step 6: on how many examples does a drawn client train, and who may know how many it has?", []),
    "04e_privacy": ("steps 2, 6 and 7: what leaves a client? A gradient, a report of its size, a model.",
                    [("03_data_sampling", "figure_report")]),
    "05_experiments": ("the whole loop, 99 times: does the new model become better for it?",
                       [(TEN, "ch10_remembered")]),
    NINE: ("steps 3, 4 and 7: which strata, seats and weights would you choose?", [(TEN, "ch10_remembered")]),
}  # fmt: skip


@dataclass
class Slide:
    """A heading (Markdown), what is shown under it (HTML), and what the speaker says (HTML)."""

    title: str
    body: str
    kind: str = ""
    notes: str = ""


def renderer():
    """Markdown to HTML (`.render`, `.renderInline`), with formulas as MathJax reads them."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    def formula(text: str, options: dict) -> str:
        text = html.escape(text)
        return f"\\[{text}\\]" if options["display_mode"] else f"\\({text}\\)"

    md = MarkdownIt("commonmark").enable("table")
    return md.use(dollarmath_plugin, renderer=formula)


def slides(chapter: str) -> list[Slide]:
    """The slides of a chapter, from its executed page."""
    stem = chapters.find(chapter)
    if not executed(stem).is_file():
        raise InputError(f"chapter {stem} is not executed yet: run `fedstas chapter {stem}` first")
    cells, maker = opened(stem)
    inside = False
    for cell in cells:
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] == "code" and not inside and not HIDDEN.intersection(tags):
            for output in cell["outputs"]:
                maker.output(output)
        if cell["cell_type"] != "markdown" or "skip-slides" in tags:
            continue
        inside = inside or bool(teaching.STARTS.search(cell["source"]))
        if not inside:
            maker.read(teaching.WHOLE.sub("", cell["source"]), whole="slide" in tags)
        inside = inside and not teaching.ENDS.search(cell["source"])
    made = maker.finish()
    if stem in SESSIONS:
        line, others = SESSIONS[stem]
        lent = [slide for other in others for slide in borrowed(*other)]
        end = next((k for k, slide in enumerate(made) if slide.title in ENDING), len(made))
        made = [made[0], the_round(line), *made[1:end], *lent, *made[end:]]
    return made


def executed(stem: str) -> Path:
    """Where the executed page of a chapter is, if it is."""
    return parameters.ROOT / "book" / "chapters" / f"{stem}.ipynb"


def opened(stem: str) -> tuple[list[dict], Maker]:
    """The cells of an executed chapter, and who makes slides of them."""
    cells = json.loads(executed(stem).read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        cell["source"] = "".join(cell["source"])
    texts = [cell["source"] for cell in cells if cell["cell_type"] == "markdown"]
    glued = teaching.glued(executed(stem))
    return cells, Maker(teaching.values(stem), glued, markdown.numbers(texts))


def borrowed(stem: str, figure: str) -> list[Slide]:
    """The slide of another chapter's figure; none where that chapter is not executed."""
    if not executed(stem).is_file():
        return []
    cells, maker = opened(stem)
    for cell in cells:
        for name, title, options, body in markdown.pieces(cell["source"]):
            if cell["cell_type"] == "markdown" and (name, title) == ("glue:figure", figure):
                maker.show(
                    name,
                    title,
                    options,
                    f"{body}\n\n(Chapter {stem.partition('_')[0].lstrip('0')}.)",
                )
    return maker.finish()


def the_round(line: str) -> Slide:
    """The drawing of a round, with what to look at today."""
    data = drawing.svg(colours=drawing.LIGHT, linked=False)
    shown = picture("svg+xml", base64.b64encode(data.encode()).decode(), "One round of FedSTaS as a loop of "
                    "eight stations: clients, nine levels, strata, seats, draws, data, weights, new model", "")  # fmt: skip
    return Slide(
        "One round of FedSTaS", f"{shown}<p>Today: {html.escape(line)}</p>", "figure round"
    )


def picture(kind: str, data: str, alt: str, caption: str) -> str:
    """An image, in base64, and its caption (HTML) as HTML."""
    shown = f'<img alt="{html.escape(alt, quote=True)}" src="data:image/{kind};base64,{data}">'
    return shown + (f"<div class='caption'>{caption}</div>" if caption else "")


class Maker:
    """Reads a chapter's text from top to bottom and makes slides of it."""

    def __init__(self, values: dict, glued: dict, labels: dict):
        self.values, self.glued, self.labels = values, glued, labels
        self.render, self.made = renderer().render, []
        self.chapter, self.section, self.notes, self.asking = "", "", [], False

    def read(self, text: str, whole: bool = False) -> None:
        """A markdown cell; `whole`: as one slide."""
        if whole:
            self.add(self.plain(text), "text")
            return
        for name, title, options, body in markdown.pieces(text):
            if not name:
                self.prose(body)
            elif name in KINDS:
                self.show(name, title, options, body)
                self.asking = name == "exercise-start"  # its text stands after its start

    def prose(self, text: str) -> None:
        """Headings open slides; the text between goes to the notes, or is shown."""
        for part in re.split(r"^(?=#{1,3} )", text, flags=re.MULTILINE):
            heading, rest = re.match(r"(?:(#{1,3}) (.*))?([\s\S]*)", part).group(2, 3)
            if heading:
                level = part.index(" ")
                title = markdown.roles(heading, self.values, self.labels).strip()
                self.flush()
                if level == 1:
                    self.chapter, self.section = title, title
                else:
                    self.section = title
            rest = self.plain(rest).strip()
            if not rest:
                continue
            if self.asking:
                self.made[-1].body += self.render(rest)
                self.asking = False
            elif self.section in ENDING or (self.section == self.chapter and not self.made):
                self.add(rest, "title" if self.section == self.chapter else "text")
            else:
                self.notes.append(rest)

    def output(self, output: dict) -> None:
        """A table that a cell shows; a glued one stands where the text shows it."""
        if "scrapbook" not in output.get("metadata", {}):
            self.table(output.get("data", {}))

    def table(self, data: dict, title: str = "", caption: str = "") -> bool:
        """A slide of the first rows of a table, if there is one in a cell's or a figure's data."""
        text, page = ("".join(data.get(kind, "")) for kind in ("text/markdown", "text/html"))
        if re.match(r"\s*\|.*\n\s*\|[\s:|-]+\n", text):
            lines = self.plain(text).strip().split("\n")
            more, body = len(lines) - 2 - ROWS, self.render("\n".join(lines[: ROWS + 2]))
        elif "<table" in page:
            rows = re.findall(r"<tr.*?</tr>", page, flags=re.DOTALL)
            head = [row for row in rows if "<td" not in row]
            more, body = len(rows) - len(head) - ROWS, "".join(rows[: len(head) + ROWS])
            body = f"<table>{body}</table>"
        else:
            return False
        if more > 0:
            self.notes.append(f"The table of the chapter has {more} more rows.")
        self.add(
            "", "table", body + (f"<div class='caption'>{caption}</div>" if caption else ""), title
        )
        return True

    def headline(self, caption: str) -> str:
        """The first sentence of a caption, where it is short enough to be a title."""
        first = re.match(r"(?!Left|Right|Top|Bottom|Above|Below)(.+?)\.(?=\s+[A-Z(]|$)", caption)
        fits = first and len(first[1]) <= LINE and first[1].count("$") % 2 == 0
        return first[1] if fits else ""

    def show(self, name: str, title: str, options: dict, body: str) -> None:
        """A figure, a box, a formula, or an exercise."""
        label = self.labels.get(options.get("label", options.get("name", "")), "")
        if name == "glue:figure":
            kinds = self.glued.get(title, {})
            kind = next((k for k in ("image/svg+xml", "image/png") if k in kinds), "")
            caption = " ".join(self.plain(body).split())
            heading = SEEN.get(title) or self.headline(caption)
            if not kind:
                self.table(kinds, heading, self.render(caption))
            else:
                alt = markdown.roles(options.get("alt", caption), self.values, self.labels)
                data = "".join(kinds[kind])
                if kind == "image/svg+xml":
                    data = base64.b64encode(data.encode()).decode()
                data, kind = data.replace("\n", ""), kind.removeprefix("image/")
                self.add("", "figure", picture(kind, data, alt, self.render(caption)), heading)
        elif name == "explorer":
            self.instrument(title)
        elif name.startswith("exercise"):
            self.add(self.plain(body), "exercise", title=f"{label}: {title}".removeprefix(": "))
        else:
            text, voice = self.plain(body if name != "math" else f"$$\n{body}\n$$"), "box"
            if options.get("class") in markdown.VOICES:
                voice = f"box {options['class']}"
            title = markdown.roles(title, self.values, self.labels)
            head = title if name == "admonition" else f"{label} {f'({title})' if title else ''}"
            head = head.strip() if name != "math" else ""
            if len(text) > LONG:
                self.notes.append(text)
                text = (
                    text[: text.rfind("\n\n", 0, LONG) + 1] or f"{text[:LONG].rpartition(' ')[0]} …"
                )
            self.add(text, voice, title=head)

    def instrument(self, name: str) -> None:
        """The still picture of an instrument, where the pipeline has made it: for the vote before it is moved."""
        still = executed(f"explorer-{name}").with_suffix(".png")
        page = (parameters.ROOT / "book" / "explorer.md").read_text(encoding="utf-8")
        section = page.partition(f"(instrument-{name})=\n")[2].partition("\n(instrument-")[0]
        said = re.search(r":alt: (.+)\n\n([\s\S]+?)\n```", section)
        if still.is_file() and said:
            data = base64.b64encode(still.read_bytes()).decode()
            caption = f"{' '.join(said[2].split())} In the book it moves: page *Instruments*."
            shown = picture("png", data, said[1], self.render(self.plain(caption)))
            self.add("", "figure", shown, re.match(r"## (.+)", section)[1])

    def plain(self, text: str) -> str:
        """The text without directives or roles; figures in it are dropped."""
        text = markdown.markdown(text, self.values, self.labels, lambda name, caption: "")
        return re.sub(
            r"\[([^\]]+)\]\([^)]*\.ipynb\)", r"\1", text
        )  # there is no such file beside it

    def add(self, text: str, kind: str, body: str = "", title: str = "") -> None:
        """One more slide, with what was said since the last as its notes; its title is the section's by default."""
        said = self.render("\n\n".join(self.notes))
        self.made.append(Slide(title or self.section, body or self.render(text), kind, said))
        self.notes = []

    def flush(self) -> None:
        """What is said at the end of a section belongs to its last slide."""
        if self.notes and self.made:
            self.made[-1].notes += self.render("\n\n".join(self.notes))
            self.notes = []

    def finish(self) -> list[Slide]:
        """All slides."""
        self.flush()
        return self.made


STYLE = """
:root { --ink: #1c2229; --ground: #fff; --soft: #5a6570; --as-written: #0072b2; --as-coded: #b34700;
  --as-it-should-be: #00805d; --verdict: #6b6b6b; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 1.5rem/1.45 system-ui, sans-serif; }
section { display: none; min-height: 100vh; padding: 3vh 5vw 4rem; flex-direction: column; }
section.now { display: flex; }
h2 { margin: 0 0 1rem; font-size: 1.9rem; line-height: 1.2; }
section.title h2 { font-size: 2.8rem; margin-top: 12vh; }
img { display: block; width: 100%; max-height: 64vh; object-fit: contain; }
.caption { color: var(--soft); font-size: 1.1rem; }
@media (min-width: 701px) {
  section.figure > div { display: flex; gap: 2rem; align-items: center; }
  section.figure img { flex: none; width: auto; height: 82vh; max-height: none; max-width: 64vw; }
  section.round > div { flex-direction: column; align-items: stretch; gap: 1rem; }
  section.round img { width: 100%; height: 66vh; max-width: none; }
}
.box > div { border-left: 0.4rem solid var(--voice, var(--soft)); padding: 0.2rem 1.2rem; }
.as-written { --voice: var(--as-written); } .as-coded { --voice: var(--as-coded); }
.as-it-should-be { --voice: var(--as-it-should-be); } .verdict { --voice: var(--verdict); }
blockquote { margin: 0; } pre, table { font-size: 1.1rem; overflow-x: auto; }
td, th { padding: 0.1rem 0.8rem; border-bottom: 1px solid #ccc; text-align: left; }
aside { display: none; margin-top: auto; padding-top: 1rem; border-top: 1px solid #ccc; color: var(--soft);
  font-size: 1rem; max-height: 40vh; overflow: auto; }
body.notes section.now aside { display: block; }
footer { position: fixed; bottom: 0.4rem; right: 1rem; font-size: 0.9rem; color: var(--soft); }
@media (max-width: 700px) { body { font-size: 1.1rem; } section.title h2 { font-size: 2rem; } }
@media print { section { display: flex; break-after: page; } footer { display: none; } }
"""
SCRIPT = """
const all = [...document.querySelectorAll("section")];
let at = Math.min(all.length, Math.max(1, parseInt(location.hash.slice(1)) || 1)) - 1;
function go(to) {
  at = Math.min(all.length - 1, Math.max(0, to));
  all.forEach((s, i) => s.classList.toggle("now", i === at));
  document.querySelector("footer").textContent = (at + 1) + " / " + all.length;
  history.replaceState(null, "", "#" + (at + 1));
}
addEventListener("keydown", (e) => {
  const step = {ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1}[e.key];
  if (step) { e.preventDefault(); go(at + step); }
  if (e.key === "Home") go(0);
  if (e.key === "End") go(all.length - 1);
  if (e.key === "n") document.body.classList.toggle("notes");
});
addEventListener("click", (e) => {
  if (!e.target.closest("a") && !String(getSelection())) go(at + (e.clientX < innerWidth / 3 ? -1 : 1));
});
addEventListener("hashchange", () => go(parseInt(location.hash.slice(1)) - 1 || 0));
go(at);
"""


def mathjax() -> str:
    """MathJax with its glyphs as paths: one script, no fonts to fetch."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None:
        raise InputError("slides need the book's packages: pip install -e .[book]")
    folder = Path(spec.submodule_search_locations[0]) / "static" / "mathjax"
    return (
        (folder / "tex-svg-full.js").read_text(encoding="utf-8").replace("</script", "<\\/script")
    )


def document(chapter: str) -> str:
    """The slides as one HTML page."""
    made, md = slides(chapter), renderer()
    sections = "".join(
        f'<section class="{slide.kind}"><h2>{md.renderInline(slide.title)}</h2><div>{slide.body}</div>'
        + (f"<aside>{slide.notes}</aside>" if slide.notes else "")
        + "</section>\n"
        for slide in made
    )
    title = html.escape(made[0].title)
    options = '{"tex": {"inlineMath": [["\\\\(", "\\\\)"]]}, "options": {"enableMenu": false}}'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style><script>window.MathJax = {options};</script></head><body>\n{sections}"
        f"<footer></footer><script>{SCRIPT}</script><script>{mathjax()}</script></body></html>\n"
    )


def make(chapter: str, output: str | Path | None = None) -> Path:
    """Write the slides, `teaching/<stem>-slides.html` of the clone by default."""
    output = Path(output or teaching.FOLDER / f"{chapters.find(chapter)}-slides.html")
    if output.suffix != ".html":
        raise InputError(f"--output {output}: the name of a page ends in .html")
    text = document(chapter)
    write(output, lambda path: path.write_text(text, encoding="utf-8"))
    return output
