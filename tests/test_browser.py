"""The site in a browser without a network: every page on a screen, on a phone, in dark mode, on paper."""

import re
import zlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import build, needs_browser

from companion.pages.instruments import NAMES

pytestmark = [needs_browser, pytest.mark.slow]

AUDIT = (Path(__file__).parent / "page.js").read_text(
    encoding="utf-8"
) + "; globalThis.audit = audit; true"
# Widths in px; PAPER is A4 with the margins of book.css; on a TABLET a page has no margin for notes.
PHONE, PAPER, TABLET = 375, 680, 1000
LOCAL_SCHEMES = ("file", "data", "blob", "about")


def open_page(page, url: str):
    """Open an address, wait until its formulas are set, and load the functions of page.js."""
    page.emulate()
    page.open(url)
    page.evaluate("window.MathJax?.startup?.promise?.then(() => true)")
    page.evaluate(AUDIT)


def run_audits(page, *names: str) -> list[str]:
    """Return the faults that these functions of page.js find."""
    return [fault for name in names for fault in page.evaluate(f"audit.{name}")]


def wrong_requests(page) -> list[str]:
    """Return requests that would leave the machine, and those for files that do not exist."""
    remote = [url for url in page.requests() if urlsplit(url).scheme not in LOCAL_SCHEMES]
    files = [urlsplit(url).path for url in page.requests() if url.startswith("file:")]
    return remote + [path for path in files if not Path(unquote(path)).exists()]


def find_faults(page, url: str) -> dict[str, list[str]]:
    """Return all faults of a page by their kind."""
    faults = {}
    open_page(page, url)
    letters = page.evaluate(
        "document.querySelector('main h1') ? document.body.innerText.length : 0"
    )
    faults["rendered"] = [] if letters > 200 else [f"{letters} letters of text"]
    faults["formulas"] = run_audits(page, "raw()")
    page.resize(PHONE)
    faults["phone"] = run_audits(page, "wide()")
    page.evaluate("audit.unfold()")
    faults["phone"] += run_audits(page, "wide()", "clipped()")
    page.resize(TABLET)
    faults["tablet"] = run_audits(page, "wide()")
    page.resize(1280)
    faults["screen"] = run_audits(page, "wide()", "clipped()")
    faults["light"] = run_audits(page, "faint()")
    page.emulate(theme="dark")
    page.until("document.documentElement.dataset.theme === 'dark'")
    faults["dark"] = run_audits(page, "faint()")
    page.emulate("print", "dark")
    page.resize(PAPER)
    faults["paper"] = run_audits(page, "faint()", "wide()", "clipped(true)")
    faults["network"] = wrong_requests(page) + run_audits(page, "fonts()")
    faults["console"] = page.errors()
    return faults


@pytest.fixture(scope="module")
def site() -> Path:
    """The folder of the built site."""
    return build()


@pytest.fixture(scope="module")
def faults(chromium, site) -> dict[str, dict[str, list[str]]]:
    """Return the faults of each page; every page is opened once."""
    faults_by_page = {}
    for path in sorted(site.rglob("*.html")):
        if "_static" in path.parts:
            continue
        with chromium.page() as page:
            faults_by_page[path.relative_to(site).as_posix()] = find_faults(page, path.as_uri())
    assert len(faults_by_page) > 30
    return faults_by_page


KINDS = [
    "rendered",
    "formulas",
    "phone",
    "tablet",
    "screen",
    "light",
    "dark",
    "paper",
    "network",
    "console",
]


@pytest.mark.parametrize("kind", KINDS)
def test_no_page_has_a_fault(faults, kind):
    lines = [f"{page}: {fault}" for page, by_kind in faults.items() for fault in by_kind[kind]]
    assert not lines, "\n".join(lines)


# A page and, for each kind, a change that brings in one fault.
BROKEN = """<!doctype html><html data-theme="light"><meta charset="utf-8">
<style>body {margin: 0} html[data-theme="dark"] body {background: #111; color: #eee}
@media print {html body {background: #fff; color: #222}} .FAULT</style>
<main><h1>A page</h1><p>WORDS</p>BODY</main>
<script>matchMedia("(prefers-color-scheme: dark)").onchange = (e) =>
  { document.documentElement.dataset.theme = e.matches ? "dark" : "light"; }; SCRIPT</script></html>"""
FAULTY_PARTS = {
    "rendered": {"WORDS": ""},
    "formulas": {"BODY": r"<p>the sum $\sum_k w_k$</p>"},
    "phone": {"BODY": "<div style='width: 500px'>wide</div>"},
    "tablet": {
        "BODY": "<style>@media (min-width: 900px) and (max-width: 1100px) {i {display: block; width: 1300px}}</style><i>wide</i>"
    },
    "screen": {
        "BODY": "<div style='width: 90px; overflow: hidden; white-space: nowrap'>a hidden end of this</div>"
    },
    "light": {"BODY": "<p style='color: #888'>grey</p>"},
    "dark": {"BODY": "<p style='color: #444'>dark grey</p>"},
    "paper": {"BODY": "<pre style='overflow: auto'>" + "a long line " * 20 + "</pre>"},
    "network": {"SCRIPT": "fetch('https://example.org/').catch(() => 0);"},
    "console": {"SCRIPT": "undefined.value;"},
}


@pytest.mark.parametrize("kind", [None, *FAULTY_PARTS])
def test_each_kind_of_fault_is_detected(chromium, tmp_path, kind):
    parts = {"WORDS": "Words of it. " * 20, "BODY": "", "SCRIPT": "", ".FAULT": ""}
    text = BROKEN
    for name, part in (parts | FAULTY_PARTS.get(kind, {})).items():
        text = text.replace(name, part)
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    with chromium.page() as page:
        faults = find_faults(page, (tmp_path / "page.html").as_uri())
    assert bool(faults.get(kind)) == (kind is not None), faults
    if kind is None:
        assert not any(faults.values()), faults


def test_waiting_survives_navigation_to_another_page(chromium, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.html").write_text(f"<title>{name}</title>", encoding="utf-8")
    with chromium.page() as page:
        page.open((tmp_path / "a.html").as_uri())
        for turn in range(40):
            name = "ba"[turn % 2]
            page.evaluate(f"location.href = '{name}.html'; 1")
            page.until(f"document.title === '{name}' && document.readyState === 'complete'")
        assert page.evaluate("document.title") == "a"  # where the last of 40 turns ends


def test_formulas_are_typeset(chromium, site):
    with chromium.page() as page:
        open_page(page, (site / "chapters" / "01_aggregation.html").as_uri())
        count = "document.querySelectorAll('mjx-container').length"
        assert page.evaluate(count) > 20
        assert page.evaluate("document.querySelectorAll('.math').length") <= page.evaluate(count)


def test_a_formula_that_goes_on_fades_out_on_that_side(chromium, tmp_path):
    style = (Path(__file__).parents[1] / "book" / "_static" / "book.css").read_text("utf-8")
    formula = (
        '<span class="math"><mjx-container style="white-space: nowrap">WORDS</mjx-container></span>'
    )
    wide, short = formula.replace("WORDS", "x + " * 200), formula.replace("WORDS", "x")
    # an accent that stands out of its letter by two pixels
    accented = formula.replace("WORDS", '<b style="margin-right: -2px">x</b>')
    table = f"<table><tr><td>{wide}</td></tr></table>"
    body = f'<div class="bd-content"><p>{wide}</p><p>{short}</p><p>{accented}</p>{table}</div>'
    (tmp_path / "page.html").write_text(f"<style>{style}</style>{body}", encoding="utf-8")
    fades = """[...document.querySelectorAll("mjx-container")].map((n) => ["left", "right"].map((side) =>
      parseFloat(getComputedStyle(n).getPropertyValue("--fade-" + side)) > 0))"""
    scroll = "document.querySelector('mjx-container').scrollLeft ="
    frame = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    with chromium.page(PHONE) as page:
        page.open((tmp_path / "page.html").as_uri())
        for place, expected in ((0, [False, True]), (300, [True, True]), (9999, [True, False])):
            page.evaluate(f"{scroll} {place}; {frame}.then(() => 1)")
            assert page.evaluate(fades) == [expected, *[[False, False]] * 3]
        # In a table it is whole, and the table scrolls.
        assert (
            page.evaluate("getComputedStyle(document.querySelector('td mjx-container')).overflowX")
            == "visible"
        )


def test_the_search_needs_no_network(chromium, site):
    with chromium.page() as page:
        open_page(page, (site / "index.html").as_uri())
        key = {"key": "k", "code": "KeyK", "windowsVirtualKeyCode": 75, "modifiers": 2}
        page.call("Input.dispatchKeyEvent", type="rawKeyDown", **key)
        page.until("document.activeElement.matches('input[type=search]')")
        page.call("Input.insertText", text="Neyman")
        enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        page.call("Input.dispatchKeyEvent", type="keyDown", **enter)
        links = "[...document.querySelectorAll('#search-results li a')].map((a) => a.href)"
        page.until(f"location.pathname.endsWith('search.html') && {links}.length > 4")
        results = page.evaluate(links)
        assert any("02_stratification" in link for link in results), results
        assert all(Path(unquote(urlsplit(link).path)).is_file() for link in results)
        assert wrong_requests(page) == []
        page.evaluate("document.querySelector('#search-results li a').click()")
        page.until(
            "!location.pathname.endsWith('search.html') && document.readyState === 'complete'"
        )
        assert "neyman" in page.evaluate("document.querySelector('main').innerText").lower()


def test_the_explorer_shows_instruments_or_without_scripts_figures(chromium, site):
    visible = """['.explorer', 'figure[id^=fig-explorer]'].map((each) =>
      [...document.querySelectorAll(each)].filter((n) => n.checkVisibility()).length)"""
    url = (site / "explorer.html").as_uri()
    with chromium.page() as page:
        open_page(page, url)
        assert page.evaluate(visible) == [len(NAMES), 0]
    with chromium.page() as page:
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        page.open(url)
        assert page.evaluate(visible) == [0, len(NAMES)]


def test_the_ledger_filters_by_verdict_and_shows_all_without_scripts(chromium, site):
    url = (site / "ledger.html").as_uri()
    rows = "[...document.querySelectorAll('table.ledger > tbody > tr')]"
    visible = f"{rows}.filter((n) => n.checkVisibility()).length"
    with chromium.page() as page:
        open_page(page, url)
        folded = page.evaluate(f"{rows}.filter((n) => n.closest('.ledger-slips')).length")
        everything = page.evaluate(f"{rows}.length") - folded
        fails = page.evaluate(f"{rows}.filter((n) => n.classList.contains('is-fails')).length")
        assert page.evaluate(visible) == everything > fails > 0
        press = "document.querySelector('.ledger-legend.of-all button.verdict-fails').click()"
        for width in (1280, PHONE):
            page.resize(width)
            page.evaluate(press)
            assert page.evaluate(visible) == fails
            page.evaluate(press)
            assert page.evaluate(visible) == everything
    with chromium.page() as page:
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        page.open(url)
        assert page.evaluate(visible) == everything


def count_texts(pdf: bytes) -> int:
    """Count the commands of a PDF that show text."""
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, flags=re.DOTALL)
    count = 0
    for stream in streams:
        try:
            count += len(re.findall(rb"\bTJ\b|\bTj\b", zlib.decompress(stream)))
        except zlib.error:  # a font or an image with another compression
            continue
    return count


@pytest.mark.parametrize("name", ["chapters/02_stratification", "ledger", "teaching/syllabus"])
def test_a_page_can_be_printed(chromium, site, name):
    with chromium.page() as page:
        open_page(page, (site / f"{name}.html").as_uri())
        pdf = page.pdf()
        page.emulate("print")
        page.resize(PAPER)
        hidden = page.evaluate(
            "[...document.querySelectorAll('.bd-sidebar-primary, .bd-sidebar-secondary,"
            " .bd-header-article, .copybtn, p.launch')].filter((n) => n.checkVisibility()).length"
        )
        button = page.evaluate("!!document.querySelector('.btn-download-pdf-button')")
    pages = len(re.findall(rb"/Type ?/Page\b", pdf))
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000 and 1 < pages < 60
    assert count_texts(pdf) > 50 * pages
    assert hidden == 0 and button
