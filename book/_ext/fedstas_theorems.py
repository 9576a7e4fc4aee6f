"""`{theorem-index}`: every lemma, theorem, proposition, definition and algorithm of the book, and the
verdicts of the papers' statements that they answer; in the ledger's rows, the same the other way round.

The content of the directive says which those are, a line `label: claim, claim` each. The boxes are found
when all pages are read; sphinx-proof's own index knows neither titles nor verdicts.
"""

from docutils import nodes
from fedstas_ledger import LedgerDirective, chip, ledger_answers, table_of
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

log = logging.getLogger(__name__)
KINDS = ("axiom", "algorithm", "corollary", "definition", "lemma", "proposition", "theorem")
PAGE = "theorems"  # where the directive stands
# What a statement of the book does to one of a paper, by the ledger's verdict on the latter.
DOES = {"fails": "corrects", "holds-if": "completes", "holds": "repeats"}


class theorem_index(nodes.General, nodes.Element):
    """Where the table goes; `answers` are (label, claim of the ledger)."""


class TheoremIndex(LedgerDirective):
    """Notes which claims the boxes answer; the table is made when all pages are read."""

    has_content = True

    def run(self):
        self.env.note_reread()  # the table is of all pages
        claims = {claim["id"]: claim for claim in self.ledger()["claims"]}
        answers = []
        for line in filter(None, map(str.strip, self.content)):
            label, colon, listed = line.partition(":")
            if not colon:
                raise self.error(f"{line!r}: write `label: claim, claim`")
            for claim in map(str.strip, listed.split(",")):
                if claim not in claims:
                    raise self.error(f"{label}: there is no claim {claim!r} in the ledger")
                answers.append((label, claims[claim]))
        return [theorem_index(answers=answers)]


def pages_from(app, page: str) -> list[str]:
    """This page and all below it in the table of contents, in its order."""
    below = app.env.toctree_includes.get(page, ())
    return [page, *(each for child in below for each in pages_from(app, child))]


def boxes(app) -> list:
    """(page, node) of every numbered or named statement of the book, in the order of the contents.

    Kept with the build: two pages ask, and to read all pages takes seconds.
    """
    known = vars(app.builder).setdefault("theorem_boxes", [])
    if not known:
        for page in pages_from(app, app.config.root_doc):
            for node in app.env.get_doctree(page).findall(nodes.Admonition):
                if node.get("realtype") in KINDS:
                    known.append((page, node))
    return known


def named(app, here: str, page: str, node) -> nodes.reference:
    """A statement's kind and number, as a link."""
    numbers = app.env.toc_fignumbers.get(page, {}).get(node["countertype"], {})
    number = ".".join(map(str, numbers.get(node["label"], ())))
    name = nodes.inline("", f"{node['realtype'].title()} {number}".rstrip())
    return make_refnode(app.builder, here, page, node["label"], name)


def statement(app, here: str, page: str, node) -> list[nodes.Node]:
    """Its kind and number as a link, and its title."""
    title = [child.deepcopy() for child in node[0].children]
    link = named(app, here, page, node)
    return [nodes.paragraph("", "", link, *([nodes.Text(" "), *title] if title else []))]


def chapter(app, here: str, page: str) -> list[nodes.Node]:
    """The chapter's title, as a link."""
    title = app.env.titles[page].astext()
    link = make_refnode(app.builder, here, page, "", nodes.inline("", title))
    return [nodes.paragraph("", "", link)]


def verdict(app, here: str, claim: dict) -> nodes.paragraph:
    """What the statement does to a paper's, and the verdict on that: a link to its row of the ledger."""
    does = DOES.get(claim["verdict"], "answers")
    place = nodes.Text(f"{does} {claim['paper']}, {claim['place']} ")
    link = make_refnode(app.builder, here, "ledger", claim["id"], chip(claim["verdict"]))
    return nodes.paragraph("", "", place, link)


def answer(app, doctree, here: str) -> None:
    """Names in each row of the ledger the statements that answer it."""
    places = list(doctree.findall(ledger_answers))
    if not places:
        return
    answers = [
        pair
        for index in app.env.get_doctree(PAGE).findall(theorem_index)
        for pair in index["answers"]
    ]
    found = {node["label"]: (page, node) for page, node in boxes(app)}
    for place in places:
        links: list[nodes.Node] = []
        for label, claim in answers:
            if claim["id"] == place["claim"] and label in found:
                links += [nodes.Text(", "), named(app, here, *found[label])]
        said = {"corrects": "corrected", "completes": "completed", "repeats": "proved"}
        does = said.get(DOES.get(place["verdict"]), "answered")
        line = nodes.paragraph(
            "", "", nodes.Text(f"{does}: "), *links[1:], classes=["ledger-answers"]
        )
        place.replace_self([line] if links else [])


def fill(app, doctree, here: str) -> None:
    """Puts the table in its place."""
    for place in list(doctree.findall(theorem_index)):
        rows, known = [], set()
        for page, node in boxes(app):
            label = node["label"]
            known.add(label)
            told = [verdict(app, here, claim) for of, claim in place["answers"] if of == label]
            rows.append(
                [
                    statement(app, here, page, node),
                    chapter(app, here, page),
                    told or [nodes.paragraph("", "–")],
                ]
            )
        for label in sorted({of for of, _ in place["answers"]} - known):
            log.warning("theorem-index: no box of the book has the label %s", label)
        head = [
            "statement",
            "chapter",
            "corrects, completes or repeats, with the verdict on the paper’s statement",
        ]
        place.replace_self(table_of(head, rows, "theorems"))


def setup(app):
    """Sphinx's entry."""
    app.add_node(theorem_index)
    app.add_directive("theorem-index", TheoremIndex)
    app.connect("doctree-resolved", fill)
    app.connect("doctree-resolved", answer)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
