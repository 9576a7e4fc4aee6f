"""The directive `{explorer} NAME`: an interactive instrument on a page.

Data, style and scripts of the instruments of a page are put into that page, so that it works from the file system.
A page's own figure is the still picture if the option `figure` names it.
`{explorer} checked` is where the page reports that its instruments compute what the package computes.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from companion.pages import instruments

SCRIPTS = Path(__file__).parent / "instruments"
PAGE = "explorer"  # has a figure with a caption before each instrument; on other pages the directive adds the picture
WITHOUT_SCRIPT = "<noscript><p>With JavaScript this is an interactive demo; without it, this is one still picture of it.</p></noscript>"
CHECKED = '<p class="explorer-checked"></p>'


class instrument(nodes.raw):
    """The place of an instrument; its attribute `part` names it."""


def container(part: str, figure: str = "") -> str:
    """Return the HTML element that the script fills with an instrument, hidden until then.

    Args:
        part: the instrument's name.
        figure: the name of the page's figure that it replaces, if that is not `fig-explorer-NAME`.
    """
    replaces = f' data-figure="{figure}"' if figure else ""
    return f'<div class="explorer" data-part="{part}"{replaces} hidden></div>'


def alternative_text(page: str, part: str) -> str:
    """Return the alternative text of an instrument's figure, as the page of all instruments has it."""
    return re.search(rf":name: fig-explorer-{part}\n:alt: (.*)", page)[1]


def script(data: dict, parts=instruments.NAMES) -> str:
    """Return data, style and scripts of these instruments as HTML, to be put after the last of them."""
    texts = {
        p.name: p.read_text(encoding="utf-8")
        for p in SCRIPTS.iterdir()
        if p.suffix in (".js", ".css")
    }
    text = json.dumps({part: data[part] for part in parts}, separators=(",", ":"))
    code = "".join(texts[f"{name}.js"] for name in ("core", *parts))
    return (
        f"<style>{texts['instruments.css']}</style>"
        f'<script type="application/json" id="explorer-data">{text.replace("<", chr(92) + "u003c")}</script>'
        f"<script>{code}fedstasExplorer.start();</script>"
    )


def data_file(part: str) -> str:
    """Return the name of the file with an instrument's data."""
    return instruments.RECORDED.get(part, "explorer.json")


def load_data(folder: Path, parts) -> dict:
    """Load the data of these instruments from the files that the build has written."""
    files = {name: json.loads((folder / name).read_text("utf-8")) for name in map(data_file, parts)}
    return {
        part: files[data_file(part)]
        if part in instruments.RECORDED
        else files[data_file(part)][part]
        for part in parts
    }


class Explorer(SphinxDirective):
    """The directive `explorer`; its option `figure` names a figure of the page that is its still picture."""

    required_arguments = 1
    option_spec = {"figure": directives.unchanged_required}  # noqa: RUF012 (docutils' own form)

    def run(self):
        part = self.arguments[0]
        if part == "checked":
            return [nodes.raw("", CHECKED, format="html")]
        if part not in instruments.NAMES:
            raise self.error(
                f"unknown part {part!r}: use one of {', '.join(instruments.NAMES)}, checked"
            )
        data = Path(self.env.srcdir) / "chapters" / data_file(part)
        for path in (
            data,
            SCRIPTS / "core.js",
            SCRIPTS / f"{part}.js",
            SCRIPTS / "instruments.css",
        ):
            self.env.note_dependency(str(path))
        if not data.is_file():
            raise self.error("the explorer was not computed by the pipeline (make book)")
        picture = [nodes.raw("", WITHOUT_SCRIPT, format="html")]
        figure = self.options.get("figure", "")
        if self.env.docname != PAGE and not figure:
            page = Path(self.env.srcdir) / f"{PAGE}.md"
            self.env.note_dependency(str(page))
            alt = alternative_text(page.read_text(encoding="utf-8"), part)
            uri, classes = f"/chapters/explorer-{part}.png", ["explorer-still", part]
            picture.insert(0, nodes.image("", uri=uri, alt=alt, classes=classes))
        return [*picture, instrument("", container(part, figure), format="html", part=part)]


def append_scripts(app, doctree, docname):
    """Append the scripts of a page's instruments to it."""
    parts = [node["part"] for node in doctree.findall(instrument)]
    if parts:
        parts = [part for part in instruments.NAMES if part in parts]
        data = load_data(Path(app.srcdir) / "chapters", parts)
        for part in [part for part in parts if "page" in data[part]]:  # it links to a chapter
            page = f"chapters/{data[part]['page']}"
            data[part]["page"] = app.builder.get_relative_uri(docname, page)
        text = script(data, parts)
        doctree.append(nodes.raw("", text, format="html"))


def setup(app):
    """Register directive and handler with Sphinx."""
    app.add_node(instrument)
    app.add_directive("explorer", Explorer)
    app.connect("doctree-resolved", append_scripts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
