"""Write slides of a chapter: its headings, figures, tables, boxes and exercises as one HTML file.

The file needs no network. The text before a figure or a box becomes the speaker's notes (key n). A cell tagged
`skip-slides` is left out, one tagged `slide` is one slide. The chapters of the course's sessions begin with the
drawing of a round, and end with figures of other chapters (`SESSIONS`), if those are executed.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import itertools
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from companion.pages import chapters, drawing, glued, markdown, myst, parameters
from companion.runs.atomic import write
from companion.teach import teaching
from fedstas.errors import InputError

MAX_BOX = 900  # characters of a box that fit a slide; all of a longer one is in the notes
MAX_OPENING = 700  # characters of a chapter's first paragraphs that fit its title's slide
GOALS = "At the end you will know"  # with which the paragraph begins that such a slide shows
MAX_ROWS = 12  # rows of a table that fit a slide; the notes count the others
MAX_VERDICTS = 2  # on the slides of a session
MAX_TITLE = 90  # characters of a caption's first sentence that fit a title
VOICES = ("as-written", "as-coded", "as-it-should-be", "verdict")  # classes of boxes with a colour
BOXES = ("admonition", "prf:lemma", "prf:theorem", "prf:definition", "prf:algorithm", "math")
SHOWN_SECTIONS = ("What we learned",)  # sections whose text is on a slide, not in the notes
HIDDEN_TAGS = {"skip-slides", "remove-cell", "remove-output", "hide-output"}
RESULT = "Result"  # title of a box whose slide has the section's question above it
VERDICT = "Verdict"  # with which the title of a box begins whose slide repeats the paper's claim
WIDE = 1.7  # width over height from which a picture has its caption below it, not beside it
FIGURE_TITLES = {  # by the figure's name; otherwise the title is the caption's first sentence
    "figure_partitions": "Who holds what?",
    "figure_estimators": "One round: how far from the target is each estimator?",
    "figure_averaging": "Which errors go away by averaging?",
    "figure_common": "Weights on models: what does the length of the model do to the error?",
    "figure_exponent": "Standard deviation or variance: which $S_h$ makes $V$ smallest?",
    "figure_reach": "As coded: how many clients can never be drawn?",
    "figure_inclusion": "Is a client in the cohort with probability $m_h p_k$?",
    "figure_squeeze": "The levels: many entries near zero, and few far out that have levels of their own",
    "figure_report": "The coin: one report may be any size, and one size is much likelier",
    "ch9_figure_draws": "The same clients under four designs: which draw may choose whom?",
    "ch9_map": "The cut: each client is tied to the middle of its draw; short lines, little variance",
    "ch10_remembered": "Points above MD at equal megabytes: who lies to the right of the grey band?",
}


@dataclass(frozen=True)
class Session:
    """What a session's slides show: about twelve, unless all are asked for.

    Args:
        question: put beside the drawing of a round.
        figures: of other chapters, as (chapter, name).
        vote: a question to the class (Markdown); its slide stands before the figure that answers it.
        core: names of the chapter's figures to be shown, the first of them after the vote; all others are left out.
    """

    question: str
    figures: tuple[tuple[str, str], ...] = ()
    vote: str = ""
    core: tuple[str, ...] = ()


SESSIONS = {
    "01_aggregation": Session(
        "step 7: with which weights do the drawn clients enter the new model?",
        (("09_what_we_would_write", "ch9_figure_draws"),),
        "Four ways to weigh a cohort of $m$ of $N$ clients, $\\omega_k$ the share of the data:\n\n"
        "1. FedAvg: each by its share of the *cohort's* data;\n"
        "2. $\\frac{N}{m}\\omega_k$, on what each model changed;\n"
        "3. $m$ draws by size, all draws alike, $\\frac{1}{m}$;\n"
        "4. $\\frac{N}{m}\\omega_k$, on the models themselves.\n\n"
        "Which are right on average? Which is furthest off in a single round?",
        (
            "figure_estimators",
            "figure_partitions",
            "figure_averaging",
            "figure_common",
            "figure_rounds",
        ),
    ),
    "02_stratification": Session(
        "steps 2 to 5: what strata know, how many draws each gets, and who is drawn.",
        (("09_what_we_would_write", "ch9_map"),),
        "A stratum of ten clients that hardly differ: how many participants does Neyman's rule give it?\n\n"
        "None, one, or its share of the clients? And what happens to its clients if none?",
        (
            "figure_allocation",
            "figure_squeeze",
            "figure_exponent",
            "figure_reach",
            "figure_inclusion",
        ),
    ),
    "03_data_sampling": Session(
        "step 6: on how many examples does a drawn client train, and who may know how many it has?",
        vote="Ten clients have 600 examples each, and sizes are cut at $M = 100$.\n\n"
        "Where does the estimate of the total lie: near 6,000, near 1,000, or near 0?",
        core=(
            "figure_estimator",
            "figure_readings",
            "figure_report",
            "figure_caps",
            "figure_accuracy",
        ),
    ),
    "04e_privacy": Session(
        "steps 2, 6 and 7: what leaves a client? A gradient, a report of its size, a model.",
        (("03_data_sampling", "figure_report"),),
        "A client of 40 examples reports its size afresh in each round, at $\\epsilon = 3$.\n\n"
        "After how many reports do you guess the size more often than not: 3, 10, 100, never?",
        ("figure_ch4e_rounds",),
    ),
    "05_experiments": Session(
        "the whole loop, 99 times: does the new model become better for it?",
        (("10c_first_comparison", "ch10_remembered"),),
        "Two runs of one method differ by several points.\n\n"
        "How many seeds does a difference of one point between two methods need: 3, 10, 100?",
        (
            "figure_forest",
            "figure_paper_partition",
            "figure_fig2",
            "figure_fig3",
            "figure_sensitivity",
        ),
    ),
    "09_what_we_would_write": Session(
        "steps 3, 4 and 7: which strata, allocation and weights would you choose?",
        (("10c_first_comparison", "ch10_remembered"),),
        "You may ask each client for a little before the first round.\n\n"
        "For what: its size, its label counts, a gradient, nothing? What does it cost, and what does it tell?",
        ("ch9_one_round", "ch9_figure_draws", "ch9_map", "ch9_cost"),
    ),
}


@dataclass
class Slide:
    """A heading (Markdown), what is shown under it (HTML), and the speaker's notes (HTML).

    `kind` is the class of the slide's HTML element: title, text, figure, table, box or exercise.
    """

    title: str
    body: str
    kind: str = ""
    notes: str = ""
    name: str = ""  # of a figure


def html_renderer():
    """Return a converter of Markdown to HTML (`.render`, `.renderInline`) that leaves formulas to MathJax."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    def formula(text: str, options: dict) -> str:
        """Return a formula in the delimiters of MathJax."""
        text = html.escape(text)
        return f"\\[{text}\\]" if options["display_mode"] else f"\\({text}\\)"

    md = MarkdownIt("commonmark").enable("table")
    return md.use(dollarmath_plugin, renderer=formula)


def slides(chapter: str, full: bool = False) -> list[Slide]:
    """Make the slides of a chapter from its executed page.

    Args:
        full: whether all figures, tables, boxes and exercises of a session's chapter are shown.

    Raises:
        InputError: the chapter is not executed.
    """
    stem = chapters.find(chapter)
    if not executed_page(stem).is_file():
        raise InputError(f"chapter {stem} is not executed yet: run `fedstas chapter {stem}` first")
    parts, builder = read_page(stem)
    for part in parts:
        tags = part.cell.metadata.get("tags", [])
        if part.solves or "skip-slides" in tags:
            continue
        if part.blocks:
            builder.read(part.blocks, one_slide="slide" in tags)
        elif part.cell.cell_type == "code" and not HIDDEN_TAGS.intersection(tags):
            for output in part.cell.outputs:
                builder.read_output(output)
    result = builder.finish()
    if run := describe_run(stem):
        result[0].body += f"<p class='caption'>{html.escape(run)}</p>"
    if session := SESSIONS.get(stem):
        shared = [slide for figure in session.figures for slide in figure_slides(*figure)]
        end = next((k for k, s in enumerate(result) if s.title in SHOWN_SECTIONS), len(result))
        result = [result[0], round_slide(session), *result[1:end], *shared, *result[end:]]
        result = add_vote(result if full else select(result, session), session)
    return result


def select(deck: list[Slide], session: Session) -> list[Slide]:
    """Return the slides of a session to teach from; the notes of those left out go to the next one that is shown."""
    kept: list[Slide] = []
    notes, verdicts = "", 0
    for slide in deck:
        verdicts += "verdict" in slide.kind
        shown = (
            slide.kind in ("title", "text", "figure round")
            or (slide.kind == "figure" and (not slide.name or not session.core))
            or slide.name in (*session.core, *(name for _, name in session.figures))
            or ("verdict" in slide.kind and verdicts <= MAX_VERDICTS)
        )
        if shown:
            kept.append(Slide(slide.title, slide.body, slide.kind, notes + slide.notes, slide.name))
            notes = ""
        else:
            notes += slide.notes
    if notes and kept:
        kept[-1].notes += notes
    return kept


def add_vote(deck: list[Slide], session: Session) -> list[Slide]:
    """Return the slides with the session's vote before the figure that answers it."""
    if not session.vote:
        return deck
    before = next((k for k, s in enumerate(deck) if s.name == session.core[0]), min(2, len(deck)))
    vote = Slide("Vote", html_renderer().render(session.vote), "vote")
    return [*deck[:before], vote, *deck[before:]]


def describe_run(stem: str) -> str:
    """Return with which parameters the page was executed, and that its numbers are those of this run."""
    run = chapters.provenance(executed_page(stem))
    if not run:
        return ""
    given = ", ".join(f"{name} {value}" for name, value in run["given"].items())
    return (
        f"Numbers and figures: profile {run['profile']}, " + (given or "default parameters") + "."
    )


def executed_page(stem: str) -> Path:
    """Return the path of a chapter's executed page, which need not exist."""
    return parameters.ROOT / "book" / "chapters" / f"{stem}.ipynb"


def read_page(stem: str) -> tuple[list[myst.Part], SlideBuilder]:
    """Return the parts of an executed chapter, and a builder of slides with its values and figures."""
    import nbformat

    page = executed_page(stem)
    parts = myst.parts(nbformat.read(page, as_version=4).cells)
    labels = myst.reference_texts(block for part in parts for block in part.blocks)
    plain = SlideMarkdown(glued.glued_values(page), labels)
    return parts, SlideBuilder(plain, glued.glued_outputs(page))


def figure_slides(stem: str, figure: str) -> list[Slide]:
    """Return the slide of a figure of another chapter; none if that chapter is not executed."""
    if not executed_page(stem).is_file():
        return []
    parts, builder = read_page(stem)
    blocks = [block for part in parts for block in part.blocks]
    title = next(block.source.strip("# \n") for block in blocks if block.kind == "heading")
    for block in blocks:
        if (block.name, block.argument) == ("glue:figure", figure):
            builder.add_figure(block, remark=f"(From the page “{title}”.)")
    return builder.finish()


def round_slide(session: Session) -> Slide:
    """Return the drawing of a round, with the session's question."""
    svg = drawing.svg(colours=drawing.LIGHT, linked=False).encode()
    alt = (
        "One round of FedSTaS as a loop of eight stations: clients, nine levels, strata, allocation, draws, data, "
        "weights, new model"
    )
    body = image("svg+xml", svg, alt) + f"<p>Today: {html.escape(session.question)}</p>"
    return Slide("One round of FedSTaS", body, "figure round")


def image(kind: str, data: bytes, alt: str, caption: str = "") -> str:
    """Return an image of this type, embedded in HTML, and its caption (HTML)."""
    encoded = base64.b64encode(data).decode()
    wide = ' class="wide"' if aspect(data) > WIDE else ""
    tag = (
        f'<img{wide} alt="{html.escape(alt, quote=True)}" src="data:image/{kind};base64,{encoded}">'
    )
    return tag + caption_element(caption)


def aspect(data: bytes) -> float:
    """Return the width over the height of an SVG or PNG picture; 1 where it does not say."""
    if data.startswith(b"\x89PNG") and len(data) >= 24:
        width, height = struct.unpack(">2I", data[16:24])
        return width / height
    box = re.search(rb'<svg[^>]*viewBox="\S+ \S+ ([\d.]+) ([\d.]+)"', data)
    return float(box[1]) / float(box[2]) if box else 1.0


def caption_element(caption: str) -> str:
    """Return a caption (HTML) as an element; nothing for an empty one."""
    return f"<div class='caption'>{caption}</div>" if caption else ""


class SlideMarkdown(markdown.PlainMarkdown):
    """Plain Markdown of slides: no figures, and no links to notebooks, which are not beside the file."""

    def figure(self, caption: str) -> str:
        """Return nothing, as a figure has a slide of its own."""
        return ""

    def link(self, text: str, target: str) -> str:
        """Return a link, or its text if it leads to a notebook."""
        link = super().link(text, target)
        return link.partition("]")[0].lstrip("[") if link.endswith(".ipynb)") else link


class SlideBuilder:
    """A visitor that makes slides of a chapter's blocks and outputs, read from top to bottom.

    Args:
        plain: writes blocks as Markdown.
        glued: the chapter's glued outputs, {name: {mime type: data}}.
    """

    def __init__(self, plain: SlideMarkdown, glued: dict[str, dict]):
        self.plain, self.glued, self.render = plain, glued, html_renderer().render
        self.slides: list[Slide] = []
        self.chapter, self.section, self.notes = "", "", []
        self.held_back: list[myst.Block] = []
        self.claim = (
            ""  # the last box that quotes the paper (Markdown), on which the next verdict is
        )

    def read(self, blocks: list[myst.Block], one_slide: bool = False) -> None:
        """Add slides and notes for the blocks of a Markdown cell, or one slide that shows them all."""
        if one_slide:
            self.add(self.plain.blocks(blocks), "text")
            return
        for special, group in itertools.groupby(
            blocks, lambda b: b.kind in ("directive", "heading")
        ):
            if not special:
                self.read_prose(self.plain.blocks(list(group)))
                continue
            for block in group:
                if block.kind == "heading":
                    self.read_heading(block)
                else:
                    self.read_directive(block)

    def read_heading(self, block: myst.Block) -> None:
        """Begin a chapter or a section; further slides have its title."""
        self.add_notes_to_last_slide()
        self.section = self.plain.inline(block.tokens[1].content).strip()
        if block.tokens[0].tag == "h1":
            self.chapter = self.section

    def read_prose(self, text: str) -> None:
        """Show the first paragraphs of the chapter and the text of SHOWN_SECTIONS; keep other text for notes."""
        if not text:
            return
        opening = self.section == self.chapter
        if self.section in SHOWN_SECTIONS or (opening and not self.slides):
            if opening:
                text, rest = split_opening(text)
                self.notes += [rest] if rest else []
            self.add(text, "title" if opening else "text")
            for block in self.held_back:
                self.add_box(block)
            self.held_back = []
        else:
            self.notes.append(text)

    def read_directive(self, block: myst.Block) -> None:
        """Add the slide of a figure, an instrument, an exercise or a box; ignore other directives."""
        if block.name == "glue:figure":
            self.add_figure(block)
        elif block.name == "explorer" and "figure" not in block.options:  # which is shown
            self.add_instrument(block.argument)
        elif block.name == "exercise":
            label = self.plain.labels.get(block.label, "")
            title = f"{label}: {block.argument}".removeprefix(": ")
            self.add(self.plain.text(block.body), "exercise", title=title)
        elif block.name in BOXES and not self.slides:
            self.held_back.append(block)  # a warning on top of a page comes after its title
        elif block.name in BOXES:
            self.add_box(block)

    def read_output(self, output: dict) -> None:
        """Add a slide for a table that a cell shows; a glued one is shown where the text refers to it."""
        if "scrapbook" not in output.get("metadata", {}):
            self.add_table(output.get("data", {}))

    def add_table(self, data: dict, title: str = "", caption: str = "") -> None:
        """Add a slide with the first rows of the table in an output's data, if it has one."""
        text, page = ("".join(data.get(kind, "")) for kind in ("text/markdown", "text/html"))
        if any(block.kind == "table" for block in myst.parse(text)[:1]):
            lines = self.plain.text(text).split("\n")
            left_out, body = (
                len(lines) - 2 - MAX_ROWS,
                self.render("\n".join(lines[: MAX_ROWS + 2])),
            )
        elif "<table" in page:
            rows = re.findall(r"<tr.*?</tr>", page, flags=re.DOTALL)
            head = [row for row in rows if "<td" not in row]
            left_out = len(rows) - len(head) - MAX_ROWS
            body = f"<table>{''.join(rows[: len(head) + MAX_ROWS])}</table>"
        else:
            return
        if left_out > 0:
            self.notes.append(f"The table of the chapter has {left_out} more rows.")
        self.add("", "table", body + caption_element(caption), title)

    def add_figure(self, block: myst.Block, remark: str = "") -> None:
        """Add the slide of a glued figure or table, with its caption and a remark."""
        data = self.glued.get(block.argument, {})
        caption = " ".join(self.plain.text(f"{block.body}\n\n{remark}").split())
        number = self.plain.labels.get(block.label, "")
        title = FIGURE_TITLES.get(block.argument) or first_sentence(caption)
        kind = next((k for k in ("image/svg+xml", "image/png") if k in data), "")
        if not kind:
            self.add_table(data, title, self.render(caption))
            return
        content = "".join(data[kind])
        content = content.encode() if kind == "image/svg+xml" else base64.b64decode(content)
        alt = self.plain.inline(block.options.get("alt", caption))
        # The number of another chapter's figure would be taken for this one's.
        numbered = f"**{number}.** {caption}" if number and not remark else caption
        body = image(kind.removeprefix("image/"), content, alt, self.render(numbered))
        self.add("", "figure", body, title)
        self.slides[-1].name = block.argument

    def add_instrument(self, name: str) -> None:
        """Add the still picture of an instrument, if the pipeline has made it."""
        picture = executed_page(f"explorer-{name}").with_suffix(".png")
        if not picture.is_file():
            return
        page = (parameters.ROOT / "book" / "explorer.md").read_text(encoding="utf-8")
        blocks = iter(myst.parse(page))
        target = f"(instrument-{name})="
        section = itertools.dropwhile(lambda block: block.source.strip() != target, blocks)
        heading = next((b for b in section if b.kind == "heading"), None)
        figure = next((b for b in section if b.name == "figure"), None)
        if heading and figure:
            caption = f"{' '.join(figure.body.split())} In the book it is interactive: page *Interactive demos*."
            caption = self.render(self.plain.text(caption))
            body = image("png", picture.read_bytes(), figure.options["alt"], caption)
            self.add("", "figure", body, heading.tokens[1].content)

    def add_box(self, block: myst.Block) -> None:
        """Add the slide of an admonition, a theorem or a formula; what is too long is in the notes, too."""
        formula = block.name == "math"
        text = self.plain.text(f"$$\n{block.body}\n$$" if formula else block.body)
        title = self.plain.inline(block.argument)
        title = self.section if title == RESULT else title
        if block.name.startswith("prf:"):
            label = self.plain.labels.get(block.label, "")
            title = f"{label} {f'({title})' if title else ''}".strip()
        voice = block.options.get("class")
        if voice == "as-written":
            self.claim = markdown.quote(title, text)
        elif title.startswith(VERDICT) and len(self.claim) + len(text) <= MAX_BOX:
            text = f"{self.claim}\n\n{text}"
        if len(text) > MAX_BOX:
            self.notes.append(text)
            cut = text[: text.rfind("\n\n", 0, MAX_BOX) + 1]
            text = cut or f"{text[:MAX_BOX].rpartition(' ')[0]} …"
        self.add(text, f"box {voice}" if voice in VOICES else "box", title="" if formula else title)

    def add(self, text: str, kind: str, body: str = "", title: str = "") -> None:
        """Add a slide that shows a text (Markdown) or a body (HTML), with the notes since the last one.

        Its title is the section's by default.
        """
        notes = self.render("\n\n".join(self.notes))
        self.slides.append(Slide(title or self.section, body or self.render(text), kind, notes))
        self.notes = []

    def add_notes_to_last_slide(self) -> None:
        """Give the notes at the end of a section to its last slide."""
        if self.notes and self.slides:
            self.slides[-1].notes += self.render("\n\n".join(self.notes))
            self.notes = []

    def finish(self) -> list[Slide]:
        """Return all slides, with the last notes."""
        self.add_notes_to_last_slide()
        return self.slides


def first_sentence(caption: str) -> str:
    """Return the first sentence of a caption if it can be a title: short, no panel's description, no cut formula."""
    first = re.match(r"(?!Left|Right|Top|Bottom|Above|Below)(.+?)\.(?=\s+[A-Z(]|$)", caption)
    fits = first and len(first[1]) <= MAX_TITLE and first[1].count("$") % 2 == 0
    return first[1] if fits else ""


def split_opening(text: str) -> tuple[str, str]:
    """Return which paragraphs of a chapter's opening its title's slide shows, and the others, for the notes.

    Shown are those from `GOALS` on, or without it from the first on, as many as fit. An answer that stands before the goals
    is not given away before the vote.
    """
    paragraphs = text.split("\n\n")
    first = next((i for i, each in enumerate(paragraphs) if each.startswith(GOALS)), 0)
    last = first + 1
    while last < len(paragraphs) and len("\n\n".join(paragraphs[first : last + 1])) <= MAX_OPENING:
        last += 1
    return "\n\n".join(paragraphs[first:last]), "\n\n".join(paragraphs[:first] + paragraphs[last:])


STYLE = """
:root { --ink: #1c2229; --ground: #fff; --soft: #5a6570; --as-written: #0072b2; --as-coded: #b34700;
  --as-it-should-be: #00805d; --verdict: #6b6b6b; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 1.5rem/1.45 system-ui, sans-serif; }
section { display: none; min-height: 100vh; padding: 3vh 5vw 4rem; flex-direction: column; }
section.now { display: flex; }
h2 { margin: 0 0 1rem; font-size: 1.9rem; line-height: 1.2; }
section.vote > div { font-size: 1.9rem; max-width: 50rem; }
section.title h2 { font-size: 2.8rem; margin-top: 12vh; }
img { display: block; width: 100%; max-height: 64vh; object-fit: contain; }
.caption { color: var(--soft); font-size: 1.1rem; }
@media (min-width: 701px) {
  section.figure { height: 100vh; } /* the image has the height that title, caption and notes leave */
  section.figure > div { display: flex; gap: 2rem; align-items: center; flex: 1; min-height: 0; }
  section.figure img { flex: none; width: auto; height: 100%; max-height: none; max-width: 64vw; }
  section.figure > div:has(> img.wide) { flex-direction: column; align-items: stretch; gap: 1rem; }
  section.figure img.wide { flex: 1; min-height: 0; width: 100%; height: auto; max-width: none; }
  section.round > div { flex-direction: column; align-items: stretch; gap: 1rem; }
  section.round img { flex: 1; min-height: 0; width: 100%; height: auto; max-width: none; }
}
.box > div { border-left: 0.4rem solid var(--voice, var(--soft)); padding: 0.2rem 1.2rem; }
.as-written { --voice: var(--as-written); } .as-coded { --voice: var(--as-coded); }
.as-it-should-be { --voice: var(--as-it-should-be); } .verdict { --voice: var(--verdict); }
blockquote { margin: 0 0 1.5rem; color: var(--soft); } blockquote p { margin: 0.3rem 0; } pre, table { font-size: 1.1rem; overflow-x: auto; }
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
    """Return the source of MathJax with its glyphs as paths: one script, no fonts to fetch."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None:
        raise InputError("slides need the book's packages: pip install -e .[book]")
    folder = Path(spec.submodule_search_locations[0]) / "static" / "mathjax"
    script = (folder / "tex-svg-full.js").read_text(encoding="utf-8")
    return script.replace("</script", "<\\/script")


def document(chapter: str, full: bool = False) -> str:
    """Return the slides of a chapter as one HTML page."""
    deck, md = slides(chapter, full), html_renderer()
    sections = "".join(
        f'<section class="{slide.kind}"><h2>{md.renderInline(slide.title)}</h2><div>{slide.body}</div>'
        + (f"<aside>{slide.notes}</aside>" if slide.notes else "")
        + "</section>\n"
        for slide in deck
    )
    title = html.escape(deck[0].title)
    options = '{"tex": {"inlineMath": [["\\\\(", "\\\\)"]]}, "options": {"enableMenu": false}}'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style><script>window.MathJax = {options};</script></head><body>\n{sections}"
        f"<footer></footer><script>{SCRIPT}</script><script>{mathjax()}</script></body></html>\n"
    )


def make(chapter: str, output: str | Path | None = None, full: bool = False) -> Path:
    """Write the slides, to `teaching/<stem>-slides.html` of the clone by default, and return their path."""
    output = Path(output or teaching.FOLDER / f"{chapters.find(chapter)}-slides.html")
    if output.suffix != ".html":
        raise InputError(f"--output {output}: give a file name that ends in .html")
    text = document(chapter, full)
    write(output, lambda path: path.write_text(text, encoding="utf-8"))
    return output
