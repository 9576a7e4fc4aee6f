"""The directive `{explorer} NAME`: an interactive instrument on a page.

Data, style and scripts of the instruments of a page are put into that page, so that it works from the file system.
`{explorer} checked` is where the page reports that its instruments compute what the package computes.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from companion.pages import instruments

SCRIPTS = Path(__file__).parent / "instruments"
PAGE = "explorer"  # has a figure with a caption before each instrument; on other pages the directive adds the picture
WITHOUT_SCRIPT = "<noscript><p>With JavaScript this is an interactive demo; without it, this is one still picture of it.</p></noscript>"
CHECKED = '<p class="explorer-checked"></p>'


class instrument(nodes.raw):
    """The place of an instrument; its attribute `part` names it."""


def container(part: str) -> str:
    """Return the HTML element that the script fills with an instrument, hidden until then."""
    return f'<div class="explorer" data-part="{part}" hidden></div>'


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


class Explorer(SphinxDirective):
    """The directive `explorer`."""

    required_arguments = 1

    def run(self):
        part = self.arguments[0]
        if part == "checked":
            return [nodes.raw("", CHECKED, format="html")]
        if part not in instruments.NAMES:
            raise self.error(
                f"unknown part {part!r}: use one of {', '.join(instruments.NAMES)}, checked"
            )
        grids = Path(self.env.srcdir) / "chapters" / "explorer.json"
        for path in (
            grids,
            SCRIPTS / "core.js",
            SCRIPTS / f"{part}.js",
            SCRIPTS / "instruments.css",
        ):
            self.env.note_dependency(str(path))
        if not grids.is_file():
            raise self.error("the explorer was not computed by the pipeline (make book)")
        picture = [nodes.raw("", WITHOUT_SCRIPT, format="html")]
        if self.env.docname != PAGE:
            page = Path(self.env.srcdir) / f"{PAGE}.md"
            self.env.note_dependency(str(page))
            alt = alternative_text(page.read_text(encoding="utf-8"), part)
            uri, classes = f"/chapters/explorer-{part}.png", ["explorer-still", part]
            picture.insert(0, nodes.image("", uri=uri, alt=alt, classes=classes))
        return [*picture, instrument("", container(part), format="html", part=part)]


def append_scripts(app, doctree, docname):
    """Append the scripts of a page's instruments to it."""
    parts = [node["part"] for node in doctree.findall(instrument)]
    if parts:
        grids = Path(app.srcdir) / "chapters" / "explorer.json"
        data = json.loads(grids.read_text(encoding="utf-8"))
        text = script(data, [part for part in instruments.NAMES if part in parts])
        doctree.append(nodes.raw("", text, format="html"))


def setup(app):
    """Register directive and handler with Sphinx."""
    app.add_node(instrument)
    app.add_directive("explorer", Explorer)
    app.connect("doctree-resolved", append_scripts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
