"""The directive `{round}`: the drawing of one round, wide and upright, each station a link into the book.

`companion/pages/drawing.py` makes the drawing, with links `map:STATION`; they are resolved here when all pages are read.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

log = logging.getLogger(__name__)
FILES = ("round.svg", "round-upright.svg")
# Station -> the page that treats it, and the label of its section or None.
PLACES = {
    "clients": ("chapters/01_aggregation", None),
    "squeeze": ("chapters/02_stratification", "map-squeeze"),
    "strata": ("chapters/02_stratification", "map-strata"),
    "allocation": ("chapters/02_stratification", "map-seats"),
    "draws": ("chapters/02_stratification", "map-draws"),
    "data": ("chapters/03_data_sampling", "map-data"),
    "weights": ("chapters/04a_unbiasedness", None),
    "model": ("chapters/01_aggregation", None),
}


class round_map(nodes.General, nodes.Element):
    """The place of the drawing in a page."""


class Round(SphinxDirective):
    """The directive `round`."""

    def run(self):
        for name in FILES:
            self.env.note_dependency(str(Path(self.env.srcdir) / "_static" / name))
        return [round_map()]


def link_target(app, docname: str, station: str) -> str:
    """Return the address of a station's section, relative to the page `docname`."""
    page, label = PLACES[station]
    anchor = ""
    if label:
        labels = app.env.get_domain("std").anonlabels
        if label not in labels:
            log.warning("the drawing of a round links to the label %r, which no page has", label)
        else:
            page, anchor = labels[label][0], f"#{labels[label][1]}"
    elif page not in app.env.found_docs:
        log.warning("the drawing of a round links to %r, which is no page", page)
    return app.builder.get_relative_uri(docname, page) + anchor


def insert_drawing(app, doctree, docname):
    """Replace the directive's node by the drawing with resolved links."""
    for node in list(doctree.findall(round_map)):
        parts = [
            (Path(app.srcdir) / "_static" / name).read_text(encoding="utf-8") for name in FILES
        ]
        text = re.sub(
            r'"map:(\w+)"', lambda m: f'"{link_target(app, docname, m[1])}"', "".join(parts)
        )
        node.replace_self(nodes.raw("", f'<div class="round-map">{text}</div>', format="html"))


def setup(app):
    """Register directive and handler with Sphinx."""
    app.add_node(round_map)
    app.add_directive("round", Round)
    app.connect("doctree-resolved", insert_drawing)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
