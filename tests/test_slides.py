"""Slides of chapters: what is on them, and how they behave in a browser."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from companion.pages import chapters, myst
from companion.teach import slides
from fedstas.errors import InputError

ROOT = Path(__file__).parents[1]
STEMS = chapters.names()
MYST_SYNTAX = re.compile(r"^(?:`{3,}|:{3,})\{|\{[\w:-]+\}`", re.MULTILINE)
PAGE = ROOT / "book" / "chapters" / "04b_variance.ipynb"
needs_page = pytest.mark.skipif(
    not PAGE.is_file(), reason="chapter 04b is not executed here: `fedstas chapter 04b`"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")


@needs_page
def test_slides_hold_the_figures_boxes_and_exercises_and_no_solutions(tmp_path):
    deck = slides.slides("04b")
    source = "\n".join(c.source for c in chapters.read_notebook("04b").cells)
    kinds = [slide.kind for slide in deck]
    assert kinds[0] == "title" and deck[0].title == source.split("# ")[1].split("\n")[0]
    assert kinds.count("figure") == source.count("{glue:figure} figure_")
    assert kinds.count("exercise") == source.count("{exercise-start}")
    for slide in deck:
        assert not MYST_SYNTAX.search(slide.body) and "Solution" not in slide.body
        assert re.sub(r"<[^>]+>", "", slide.title + slide.body).strip()
        assert slide.kind != "figure" or re.search(r'alt="\s*[^"\s]', slide.body)
    assert any(slide.notes for slide in deck)
    titles = [slide.title for slide in deck]
    exercises = re.findall(r"\{exercise-start\} (.+)", source)
    assert [t for t, k in zip(titles, kinds, strict=True) if k == "exercise"] == [
        f"Exercise {place}: {title}" for place, title in enumerate(exercises, 1)
    ]
    assert "Lemma" in str(titles) and len(set(titles)) > len(titles) / 2
    assert kinds.count("table") >= 5  # what cells of the chapter show
    for slide in deck:
        assert slide.kind != "table" or 2 <= slide.body.count("<tr") <= slides.MAX_ROWS + 1
    text = slides.make("04b", tmp_path / "s.html").read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="(?!data:)', text.split("<footer>")[0])


def make_builder(**glued) -> slides.SlideBuilder:
    """Return a builder of slides for a chapter that glued these outputs."""
    return slides.SlideBuilder(slides.SlideMarkdown({}, {}), glued)


def test_a_title_shows_the_goals_or_what_fits_and_the_notes_have_the_rest():
    answer, goals, rest = "The answer is no.", "At the end you will know\n- this;\n- that.", "More."
    assert slides.split_opening(f"{answer}\n\n{goals}\n\n{rest}") == (f"{goals}\n\n{rest}", answer)
    long = "word " * 100
    assert slides.split_opening(f"{long}\n\n{long}\n\n{rest}") == (long, f"{long}\n\n{rest}")
    builder = make_builder()
    builder.read(myst.parse(f"# Is it so?\n\n{answer}\n\n{goals}"))
    (slide,) = builder.finish()
    assert answer in slide.notes and answer not in slide.body and "that" in slide.body


def test_tables_become_slides_and_long_ones_are_cut():
    builder = make_builder(t={"text/html": "<table><tr><td>7</td></tr></table>"})
    long = "| a |\n|---|\n" + "".join(f"| {k} |\n" for k in range(slides.MAX_ROWS + 3))
    builder.read_output({"data": {"text/markdown": long}, "metadata": {}})
    builder.read_output({"data": {"text/markdown": "Words."}, "metadata": {}})
    builder.read_output({"data": {"text/markdown": long}, "metadata": {"scrapbook": {"name": "x"}}})
    builder.read(myst.parse("```{glue:figure} t\nSeven. It is a number.\n```"))
    cut, glued = builder.finish()
    assert cut.body.count("<td") == slides.MAX_ROWS and "3 more rows" in cut.notes
    assert glued.title == "Seven" and "<td>7</td>" in glued.body and "a number" in glued.body


@pytest.mark.parametrize(
    ("kind", "data", "source"),
    [
        ("image/svg+xml", "<svg/>", "data:image/svg+xml;base64,PHN2Zy8+"),
        ("image/png", "iVBO\nRw0K\n", "data:image/png;base64,iVBORw0K"),
    ],
)
def test_a_drawn_figure_becomes_a_slide_whatever_its_kind(kind, data, source):
    builder = make_builder(f={kind: data, "text/plain": "<Figure>"})
    builder.read(myst.parse("```{glue:figure} f\n:alt: what is to be seen\n\nA caption.\n```"))
    (slide,) = builder.finish()
    assert slide.kind == "figure"
    assert f'<img alt="what is to be seen" src="{source}">' in slide.body


def test_the_sessions_are_those_of_the_syllabus_and_show_figures_of_chapters():
    syllabus = (ROOT / "book" / "teaching" / "syllabus.md").read_text(encoding="utf-8")
    source = {s: (ROOT / "notebooks" / f"{s}.py").read_text(encoding="utf-8") for s in STEMS}
    figures = [
        (s, f) for f in slides.FIGURE_TITLES for s in STEMS if f"{{glue:figure}} {f}\n" in source[s]
    ]
    assert [figure for _, figure in figures] == list(slides.FIGURE_TITLES)  # each in one chapter
    chapters_of_sessions = re.findall(
        r"^Chapter: \[\]\(\.\./chapters/(\w+)\.ipynb", syllabus, re.MULTILINE
    )
    assert chapters_of_sessions == list(slides.SESSIONS)
    for session in slides.SESSIONS.values():
        assert session.question[0].islower() and session.question[-1] in ".?"
        assert set(session.figures) <= set(figures)


def test_a_session_begins_with_the_round_and_shows_figures_of_executed_chapters(
    tmp_path, monkeypatch
):
    def write_page(stem, text, **glued):
        """Write an executed page with a text and glued figures."""
        outputs = [
            {"metadata": {"scrapbook": {"name": name}}, "data": {"image/svg+xml": data}}
            for name, data in glued.items()
        ]
        code = {"cell_type": "code", "metadata": {}, "source": "", "outputs": outputs}
        cells = [{"cell_type": "markdown", "metadata": {}, "source": text}, code]
        notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
        (folder / f"{stem}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")

    folder = tmp_path / "book" / "chapters"
    folder.mkdir(parents=True)
    (tmp_path / "book" / "explorer.md").write_text(
        "(instrument-coin)=\n## What does it tell?\n\n```{figure} chapters/explorer-coin.png\n:name: fig\n"
        ":alt: A line.\n\nTwo hundred\nreports.\n```\n\n(instrument-next)=\n## Next\n",
        encoding="utf-8",
    )
    (folder / "explorer-coin.png").write_bytes(b"png")
    monkeypatch.setattr(slides.parameters, "ROOT", tmp_path)
    monkeypatch.setattr(slides.chapters, "find", lambda stem: stem)
    session = slides.Session("step 2.", (("10_b", "f"), ("11_c", "g")))
    monkeypatch.setattr(slides, "SESSIONS", {"05_a": session})
    figure = "```{glue:figure} f\n:alt: dots\nDots. See.\n```\n"
    write_page(
        "05_a",
        "# A\n\nSo.\n\n## B\n\n```{explorer} coin\n```\n```{explorer} none\n```\n\n## What we learned\n\nIt.",
    )
    write_page("10_b", f"# C\n\n{figure}", f="<svg/>")
    deck = slides.slides("05_a")
    titles = ["A", "One round of FedSTaS", "What does it tell?", "Dots", "What we learned"]
    assert [slide.title for slide in deck] == titles
    assert deck[1].kind == "figure round" and deck[1].body.endswith("<p>Today: step 2.</p>")
    assert 'alt="A line." src="data:image/png;base64,cG5n"' in deck[2].body
    assert "Two hundred reports. In the book it is interactive" in deck[2].body
    assert "See. (From the page “C”.)" in re.sub(r"</?p>\s*", " ", deck[3].body).replace("  ", " ")
    (folder / "10_b.ipynb").unlink()
    assert "Dots" not in [slide.title for slide in slides.slides("05_a")]


def test_a_wide_picture_has_its_caption_below_it():
    wide = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 504 208">'
    png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (700).to_bytes(4) + (350).to_bytes(4)
    assert slides.aspect(png) == 2 and slides.aspect(b"<svg/>") == 1
    assert '<img class="wide"' in slides.image("svg+xml", wide, "a")
    assert '<img alt="a"' in slides.image("svg+xml", wide.replace(b"208", b"400"), "a")


def test_a_result_has_the_question_of_its_section_as_title():
    builder = slides.SlideBuilder(slides.SlideMarkdown({}, {}), {})
    box = "```{admonition} Result\n:class: verdict\nYes.\n```"
    builder.read(myst.parse(f"# A\n\nSo.\n\n## Does it?\n\n{box}"))
    assert [slide.title for slide in builder.finish()] == ["A", "Does it?"]


def test_a_verdict_repeats_the_claim_that_it_is_on():
    builder = slides.SlideBuilder(slides.SlideMarkdown({}, {}), {})
    claim = "```{admonition} As written: eq. 1\n:class: as-written\nIt is 2.\n```"
    verdict = "```{admonition} Verdict: fails\n:class: verdict\nIt is 3.\n```"
    builder.read(myst.parse(f"# A\n\nSo.\n\n## Does it?\n\n{claim}\n\nText.\n\n{verdict}"))
    last = builder.finish()[-1]
    assert re.search(r"<blockquote>.*eq. 1.*It is 2.*</blockquote>\s*<p>It is 3", last.body, re.S)


def test_a_session_is_taught_from_few_slides_with_a_vote_before_its_figure():
    """The session has the figures b and d in its core and g of another page; notes of other slides go to the next one shown."""
    titles = "abcdefg"
    figures = [slides.Slide(t, t, "figure", f"n{t}", t) for t in titles]
    boxes = [slides.Slide(f"v{k}", "", "box verdict", f"m{k}") for k in range(4)]
    start = [slides.Slide("T", "", "title"), slides.Slide("R", "", "figure round")]
    end = [slides.Slide("What we learned", "", "text")]
    table = slides.Slide("table", "", "table", "rows")
    session = slides.Session("q.", (("x", "g"),), "Which of $a$?", ("d", "b"))
    deck = [*start, *figures[:3], table, *figures[3:], *boxes, *end]
    core = slides.add_vote(slides.select(deck, session), session)
    assert [s.title for s in core] == [
        "T",
        "R",
        "b",
        "Vote",
        "d",
        "g",
        "v0",
        "v1",
        "What we learned",
    ]
    assert core[4].notes == "ncrowsnd" and core[-1].notes == "m2m3"  # nothing of the notes is lost
    assert "Which of" in core[3].body and "\\(a\\)" in core[3].body
    assert len(slides.add_vote(deck, session)) == len(deck) + 1


@pytest.mark.parametrize("stem", slides.SESSIONS)
def test_a_session_has_a_vote_and_figures_of_its_chapter(stem):
    session = slides.SESSIONS[stem]
    source = (ROOT / "notebooks" / f"{stem}.py").read_text(encoding="utf-8")
    assert session.vote.count("?") >= 1 and 1 <= len(session.core) <= 5
    assert all(f"{{glue:figure}} {name}\n" in source for name in session.core)


@needs_page
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: `apt-get install chromium`")
@pytest.mark.slow
def test_keys_turn_the_slides_and_formulas_are_typeset_without_a_network(tmp_path):
    page = slides.make("04b", tmp_path / "s.html")
    drive = """<script>window.addEventListener("load", () => MathJax.startup.promise.then(() => {
      const now = () => [...document.querySelectorAll("section")].findIndex((s) => s.classList.contains("now"));
      const press = (key) => dispatchEvent(new KeyboardEvent("keydown", {key})), visited = [now()], tall = [];
      for (const key of ["ArrowRight", "PageDown", "ArrowLeft", "End", "Home"]) { press(key); visited.push(now()); }
      all.forEach((slide, place) => { go(place);
        if (slide.matches(".figure") && document.documentElement.scrollHeight > innerHeight) tall.push(place + 1); });
      press("Home"); press("n");
      document.body.dataset.tall = innerWidth + " " + tall.join(" ");
      document.body.dataset.visited = visited.join(" ") + " " + document.body.className;
    }));</script>"""
    page.write_text(
        page.read_text(encoding="utf-8").replace("<footer>", drive + "<footer>", 1),
        encoding="utf-8",
    )
    options = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    )
    options += "--disable-component-update --disable-sync --virtual-time-budget=20000 --dump-dom "
    # Some of whose height the window's frame takes.
    options += "--hide-scrollbars --window-size=1280,720"
    command = [CHROMIUM, *options.split(), "--host-resolver-rules=MAP * ~NOTFOUND"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
    browser = subprocess.run(command, capture_output=True, text=True, timeout=600)
    last = len(slides.slides("04b")) - 1
    assert re.search(r'data-visited="([^"]*)"', browser.stdout)[1] == f"0 1 2 1 {last} 0 notes"
    assert browser.stdout.count("<mjx-container") > 20
    assert 'data-tall="1280 "' in browser.stdout  # every figure fits the screen


def test_a_file_name_that_is_no_page_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"ends in \.html"):
        slides.make("01", tmp_path / "a.txt")
