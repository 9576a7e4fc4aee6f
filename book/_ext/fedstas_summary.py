"""Sets the page of findings on one sheet of A4, `findings.pdf` beside `findings.html`, from the page as Sphinx resolved it."""

import re
import unicodedata
from html import escape
from pathlib import Path

import matplotlib
from docutils import nodes
from fpdf import FPDF, TextStyle
from sphinx.errors import ExtensionError

PAGE = "findings"
SIZES = (11.0, 10.5, 10.0, 9.5, 9.0, 8.5)  # points; the largest with which the page fits is taken
MARGIN = 19  # mm
TAGS = {nodes.paragraph: "p", nodes.list_item: "li", nodes.strong: "b", nodes.emphasis: "i"}


def format_math(tex: str) -> str:
    r"""Format a formula of one symbol as HTML: `\epsilon` as ε, `S_h` with its index below; others are refused."""
    match = re.fullmatch(r"(?:\\(?P<greek>[a-z]+)|(?P<latin>[A-Za-z]))(?:_(?P<index>\w))?", tex)
    if not match:
        raise ExtensionError(f"{PAGE}.pdf shows formulas of one symbol, and ${tex}$ is more")
    greek = match["greek"]
    symbol = unicodedata.lookup(f"GREEK SMALL LETTER {greek}") if greek else match["latin"]
    return f"<i>{symbol}</i>" + (f"<sub>{match['index']}</sub>" if match["index"] else "")


def to_html(node: nodes.Node) -> str:
    """Return the text of a page, its headings, lists and emphasis as HTML, without what leads elsewhere or folds."""
    if isinstance(node, nodes.Text):
        return escape(re.sub(r"\s+", " ", node.astext()))
    if isinstance(node, nodes.math):
        return format_math(node.astext())
    if isinstance(node, nodes.raw | nodes.comment):
        return ""
    inside, folds = "", 0
    for child in node.children:
        if isinstance(child, nodes.raw):  # what a reader has to unfold is left out
            folds += child.astext().count("<details") - child.astext().count("</details")
        inside += "" if folds else to_html(child)
    if isinstance(node, nodes.title):
        level = 1 if isinstance(node.parent.parent, nodes.document) else 2
        return f"<h{level}>{inside}</h{level}>"
    if isinstance(node, nodes.enumerated_list):
        return f'<ol start="{node.get("start", 1)}">{inside}</ol>'
    if isinstance(node, nodes.paragraph) and isinstance(node.parent, nodes.list_item):
        return inside
    tag = TAGS.get(type(node))
    return f"<{tag}>{inside}</{tag}>" if tag else inside


def typeset(html: str, size: float) -> FPDF:
    """Set HTML in letters of `size` points on as many pages as it takes."""
    pdf = FPDF(format="A4")
    pdf.set_margin(MARGIN)
    pdf.set_auto_page_break(True, 14)
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    for style, name in {"": "", "B": "Bol", "I": "Italic", "BI": "BolIta"}.items():
        pdf.add_font("STIX", style, fonts / f"STIXGeneral{name}.ttf")
    pdf.set_font("STIX", size=size)
    pdf.add_page()
    heading = {
        "font_family": "STIX",
        "font_style": "B",
        "color": "#000000",
        "t_margin": 1.5,
        "b_margin": 0.5,
    }
    styles = {
        "h1": TextStyle(**heading | {"t_margin": 0}, font_size_pt=1.6 * size),
        "h2": TextStyle(**heading, font_size_pt=1.15 * size),
        "li": TextStyle(l_margin=5, t_margin=0.6),
    }
    pdf.write_html(html, tag_styles=styles, li_prefix_color="#000000")
    return pdf


def write(app, error):
    """Write the page of findings as PDF into the site, in the largest letters with which it is one page."""
    if error or app.builder.name != "html" or PAGE not in app.env.found_docs:
        return
    html = to_html(app.env.get_and_resolve_doctree(PAGE, app.builder))
    source = app.config.html_theme_options.get("repository_url", "")
    html += f"<p>{escape(app.config.html_title)}: {escape(source)}</p>" if source else ""
    for size in SIZES:
        pdf = typeset(html, size)
        if pdf.pages_count == 1:
            pdf.set_title(f"{app.config.html_title}: findings")
            pdf.output(str(Path(app.outdir) / f"{PAGE}.pdf"))
            return
    raise ExtensionError(
        f"{PAGE}.md does not fit one page in letters of {SIZES[-1]} points: shorten it"
    )


def setup(app):
    """Register the writer with Sphinx."""
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
