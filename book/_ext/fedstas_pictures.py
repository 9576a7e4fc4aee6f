"""`{round}`: the drawing of one round, wide and upright, each station a link to where the book treats it.

The drawing itself is made by companion/pages/drawing.py; its links are `map:PLACE`, resolved here when
all pages are read.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

log = logging.getLogger(__name__)
FILES = ("round.svg", "round-upright.svg")
# Where each station is treated: a page, and a label on it where the station has a section of its own.
PLACES = {
    "clients": ("chapters/01_aggregation", None),
    "squeeze": ("chapters/02_stratification", "map-squeeze"),
    "strata": ("chapters/02_stratification", "map-strata"),
    "seats": ("chapters/02_stratification", "map-seats"),
    "draws": ("chapters/02_stratification", "map-draws"),
    "data": ("chapters/03_data_sampling", "map-data"),
    "weights": ("chapters/04a_unbiasedness", None),
    "model": ("chapters/01_aggregation", None),
}


class round_map(nodes.General, nodes.Element):
    """Where the drawing goes."""


class Round(SphinxDirective):
    """The drawing of one round."""

    def run(self):
        for name in FILES:
            self.env.note_dependency(str(Path(self.env.srcdir) / "_static" / name))
        return [round_map()]


def address(app, here: str, place: str) -> str:
    """Where a station links to, from the page `here`."""
    page, label = PLACES[place]
    anchor = ""
    if label:
        known = app.env.get_domain("std").anonlabels
        if label not in known:
            log.warning("the drawing of a round links to the label %r, which no page has", label)
        else:
            page, anchor = known[label][0], f"#{known[label][1]}"
    elif page not in app.env.found_docs:
        log.warning("the drawing of a round links to %r, which is no page", page)
    return app.builder.get_relative_uri(here, page) + anchor


def draw(app, doctree, docname):
    """Put the drawing, its links resolved, where the directive stood."""
    for node in list(doctree.findall(round_map)):
        parts = [
            (Path(app.srcdir) / "_static" / name).read_text(encoding="utf-8") for name in FILES
        ]
        text = re.sub(r'"map:(\w+)"', lambda m: f'"{address(app, docname, m[1])}"', "".join(parts))
        node.replace_self(nodes.raw("", f'<div class="round-map">{text}</div>', format="html"))


def setup(app):
    """Sphinx's entry."""
    app.add_node(round_map)
    app.add_directive("round", Round)
    app.connect("doctree-resolved", draw)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
