"""The instruments: `{explorer} NAME` is where one appears, on any page; what it needs, and no more, is put
into that page itself, so that it works from the file system. `{explorer} checked` is where the page says
that the instruments on it compute what the package computes.
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parent / "instruments"
PARTS = ("squeeze", "strata", "allocation", "bias", "coin", "estimate", "privacy")
CHECKED = '<p class="explorer-checked"></p>'


class instrument(nodes.raw):
    """A place of an instrument, whose name it knows."""


def place(part: str) -> str:
    """Where the script puts an instrument; empty and hidden until it does."""
    return f'<div class="explorer" data-part="{part}" hidden></div>'


def script(data: dict, parts=PARTS) -> str:
    """The data, the style and the scripts of these instruments, to stand after the last of them."""
    read = {
        p.name: p.read_text(encoding="utf-8") for p in HERE.iterdir() if p.suffix in (".js", ".css")
    }
    text = json.dumps({part: data[part] for part in parts}, separators=(",", ":"))
    code = "".join(read[f"{name}.js"] for name in ("core", *parts))
    return (
        f"<style>{read['instruments.css']}</style>"
        f'<script type="application/json" id="explorer-data">{text.replace("<", chr(92) + "u003c")}</script>'
        f"<script>{code}fedstasExplorer.start();</script>"
    )


class Explorer(SphinxDirective):
    """An instrument, or (`checked`) what it says of its numbers."""

    required_arguments = 1

    def run(self):
        part = self.arguments[0]
        if part == "checked":
            return [nodes.raw("", CHECKED, format="html")]
        if part not in PARTS:
            raise self.error(f"unknown part {part!r}: use one of {', '.join(PARTS)}, checked")
        grids = Path(self.env.srcdir) / "chapters" / "explorer.json"
        for path in (grids, HERE / "core.js", HERE / f"{part}.js", HERE / "instruments.css"):
            self.env.note_dependency(str(path))
        if not grids.is_file():
            raise self.error("the explorer was not computed by the pipeline (make book)")
        return [instrument("", place(part), format="html", part=part)]


def bring(app, doctree, docname):
    """Put the scripts after a page's instruments."""
    parts = [node["part"] for node in doctree.findall(instrument)]
    if parts:
        grids = Path(app.srcdir) / "chapters" / "explorer.json"
        data = json.loads(grids.read_text(encoding="utf-8"))
        text = script(data, [part for part in PARTS if part in parts])
        doctree.append(nodes.raw("", text, format="html"))


def setup(app):
    """Sphinx's entry."""
    app.add_node(instrument)
    app.add_directive("explorer", Explorer)
    app.connect("doctree-resolved", bring)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
