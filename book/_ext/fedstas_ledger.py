"""The ledger of claims: a row for each, which has the claim's id, and all verdicts as one bar."""

import json
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.nodes import make_refnode

log = logging.getLogger(__name__)
HERE = Path(__file__).parent
# The verdict as coded in a note: it is shown beside the value that decides.
AS_CODED = re.compile(r"As coded: [^()]+\([^()]+\)(, (agrees|differs|undecided))?")


def table_of(head: list[str], rows: list[list[list[nodes.Node]]], name: str) -> nodes.table:
    """Return a docutils table of the class `name`; a cell is a list of nodes."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    body = nodes.tbody()
    texts = [[[nodes.paragraph("", text)] for text in head], *rows]
    for place, cells in enumerate(texts):
        row = nodes.row("", *(nodes.entry("", *cell) for cell in cells))
        if place == 0:
            group += nodes.thead("", row)
        else:
            body += row
    group += body
    return nodes.table("", group, classes=[name])


def chip(word: str) -> nodes.inline:
    """Return a verdict as a coloured label."""
    return nodes.inline("", word, classes=["verdict-chip", f"verdict-{word}"])


class ledger_answers(nodes.General, nodes.Element):
    """Where a row names the statements of this book that answer it; `fedstas_theorems` fills it in."""


class LedgerDirective(SphinxDirective):
    """A directive that reads the ledger which the pipeline computed."""

    def ledger(self) -> dict:
        path = Path(self.env.srcdir) / "chapters" / "ledger.json"
        self.env.note_dependency(str(path))
        if not path.is_file():
            raise self.error("the ledger was not computed by the pipeline (make book)")
        return json.loads(path.read_text(encoding="utf-8"))

    @staticmethod
    def counts(ledger: dict, claims: list[dict]) -> dict[str, int]:
        words = [claim["verdict"] for claim in claims]
        return {v: words.count(v) for v in ledger["verdicts"] if v in words}

    def text(self, text: str, *classes: str) -> nodes.paragraph:
        """Return a paragraph, with its formulas and code parsed."""
        if not re.search(r"[$`]", text):
            return nodes.paragraph("", "", nodes.Text(text), classes=list(classes))
        inner, messages = self.state.inline_text(text, self.lineno)
        return nodes.paragraph("", "", *inner, *messages, classes=list(classes))


class LedgerBar(LedgerDirective):
    """The verdicts of all rows as a bar, or with the argument `core` of the core claims, with a legend and, for those
    who do not see it, a text."""

    optional_arguments = 1

    def run(self):
        ledger = self.ledger()
        claims = ledger["claims"]
        if self.arguments == ["core"]:
            core = [claim for claim in claims if claim["core"]]
            return [
                nodes.raw(
                    "", self.bar(ledger, core, f"{len(core)} core claims", "core"), format="html"
                )
            ]
        facts = {claim["fact"] or claim["id"] for claim in claims}
        bars = self.bar(ledger, claims, f"All {len(claims)} rows, which state {len(facts)} facts")
        explanations = "; ".join(
            f"<em>{v}</em>: {ledger['verdicts'][v]}" for v in self.counts(ledger, claims)
        )
        bars += (
            f'<p class="ledger-key">Theory and runs have words of their own. {explanations}.</p>'
        )
        script = (HERE / "ledger.js").read_text(encoding="utf-8")
        self.env.note_dependency(str(HERE / "ledger.js"))
        return [nodes.raw("", f"{bars}<script>{script}</script>", format="html")]

    def bar(self, ledger: dict, claims: list[dict], title: str, which: str = "all") -> str:
        counts = self.counts(ledger, claims)
        counts_text = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        parts = "".join(
            f'<span class="verdict-{verdict}" style="flex-grow: {count}"></span>'
            for verdict, count in counts.items()
        )
        legend = "".join(
            f'<li><span class="verdict-chip verdict-{verdict}">{count} {verdict}</span></li>'
            for verdict, count in counts.items()
        )
        return (
            f'<p class="ledger-title">{title}</p><div class="ledger-bar" role="img" '
            f'aria-label="Verdicts of {title[0].lower()}{title[1:]}: {counts_text}">{parts}</div>'
            f'<ul class="ledger-legend of-{which}">{legend}</ul>'
        )


class LedgerCore(LedgerDirective):
    """The core claims, a short row for each: what is said, where, and the verdict; it links to the whole row."""

    def run(self):
        ledger, rows = self.ledger(), []
        for claim in (claim for claim in ledger["claims"] if claim["core"]):
            place = f"{ledger['papers'][claim['paper']]}, {claim['place']}"
            where = nodes.reference("", "", nodes.inline("", place), refid=claim["id"])
            statement = claim["statement"].partition(" (Read as")[0]
            said = [self.text(statement), nodes.paragraph("", "", where, classes=["ledger-place"])]
            rows.append([said, [nodes.paragraph("", "", chip(claim["verdict"]))]])
        return [table_of(["core claim", "verdict"], rows, "ledger-core")]


class Ledger(LedgerDirective):
    """The claims of one paper with their verdicts; what lies behind a verdict is folded, and so are slips of the pen."""

    required_arguments = 1

    def run(self):
        ledger, paper = self.ledger(), self.arguments[0]
        if paper not in ledger["papers"]:
            raise self.error(f"unknown paper {paper!r}: use one of {', '.join(ledger['papers'])}")
        of = {claim["id"]: claim["fact"] or claim["id"] for claim in ledger["claims"]}
        claims = [claim for claim in ledger["claims"] if claim["paper"] == paper]
        order: dict[str, int] = {}
        for claim in claims:
            order.setdefault(of[claim["id"]], len(order))
        claims.sort(key=lambda claim: order[of[claim["id"]]])  # rows of one fact stand together
        self.claims_of_fact = {
            name: [i for i, fact in of.items() if fact == name] for name in of.values()
        }
        counts = ", ".join(f"{n} {v}" for v, n in self.counts(ledger, claims).items())
        summary = nodes.paragraph("", f"{len(claims)} claims: {counts}.")
        self.env.note_reread()  # the rows name statements of other pages, with their numbers
        slips = [claim for claim in claims if claim["slip"]]
        content = [summary, self.table([claim for claim in claims if not claim["slip"]])]
        if slips:
            title = f"Slips of the pen, a misprinted sign or index: {len(slips)}"
            raw = f"<details class='ledger-slips'><summary>{title}</summary>"
            end = nodes.raw("", "</details>", format="html")
            content += [nodes.raw("", raw, format="html"), self.table(slips), end]
        return content

    def table(self, claims: list[dict]) -> nodes.table:
        """Return the table of these claims, with the anchors and classes of its rows."""
        columns = 5 if any(claim["substitute"] for claim in claims) else 4
        head = ["claim", "printed", "ours", "verdict", "on a substitute"][:columns]
        table = table_of(head, [self.row(claim)[:columns] for claim in claims], "ledger")
        for row, claim in zip(table[0][-1].children, claims, strict=True):
            row["ids"], row["classes"] = [claim["id"]], [f"is-{claim['verdict']}"]
            row["classes"] += ["is-core"] if claim["core"] else []
        return table

    def row(self, claim: dict) -> list[list[nodes.Node]]:
        place = nodes.paragraph("", "", classes=["ledger-place"])
        name = nodes.reference("", "", nodes.literal("", claim["id"]), refid=claim["id"])
        kind = f" · {claim['kind']}{' · core' if claim['core'] else ''} · "
        place += [self.link(claim), nodes.Text(kind), name]
        answers = ledger_answers(claim=claim["id"], verdict=claim["verdict"])
        ours = [self.text(claim["ours"])]
        if claim.get("meaning"):
            ours.append(self.text(claim["meaning"], "ledger-what"))
        if coded := AS_CODED.search(claim["note"]):
            ours.append(self.text(coded[0], "ledger-coded"))
        substitute = [
            nodes.paragraph("", "", chip(word)) for word in filter(None, [claim["substitute"]])
        ]
        return [
            [
                place,
                self.text(claim["statement"]),
                answers,
                *self.others(claim),
                *self.folded(claim),
            ],
            [self.text(claim["printed"])],
            ours,
            [nodes.paragraph("", "", chip(claim["verdict"]))],
            substitute,
        ]

    def others(self, claim: dict) -> list[nodes.Node]:
        """Return links to the other rows that state the same fact."""
        links: list[nodes.Node] = []
        for other in self.claims_of_fact[claim["fact"] or claim["id"]]:
            if other != claim["id"]:
                name = nodes.reference("", "", nodes.literal("", other), refid=other)
                links += [nodes.Text(", "), name]
        label = nodes.Text("one fact with: ")
        return (
            [nodes.paragraph("", "", label, *links[1:], classes=["ledger-place"])] if links else []
        )

    def link(self, claim: dict) -> nodes.Node:
        """Return the link to the section that shows the claim, resolved when all pages are read."""
        stem, _, anchor = claim["link"].partition("#")
        text = nodes.inline("", claim["place"])
        return addnodes.pending_xref(
            "",
            text,
            refdomain="",
            reftype="ledger",
            reftarget=f"chapters/{stem}",
            anchor=anchor,
            claim=claim["id"],
            refexplicit=True,
            refwarn=True,
            refdoc=self.env.docname,
        )

    def folded(self, claim: dict) -> list[nodes.Node]:
        """Return the note and the evidence in a closed box."""
        raw = "<details class='ledger-note'><summary>why</summary>"
        parts = [nodes.raw("", raw, format="html")]
        if claim["note"]:
            parts.append(self.text(claim["note"]))
        if claim["table"]:
            rows = [[[nodes.paragraph("", cell)] for cell in row] for row in claim["table"]]
            parts.append(table_of(claim["columns"], rows, "ledger-evidence"))
        command = f"fedstas claims {claim['id']}"
        parts.append(nodes.paragraph("", "Again: ", nodes.literal("", command)))
        return [*parts, nodes.raw("", "</details>", format="html")]


class At(SphinxRole):
    """A section of a chapter by its title: {at}`04a Models or updates?`; without a title, its top."""

    def run(self):
        number, _, title = self.text.partition(" ")
        folder = Path(self.env.srcdir) / "chapters"
        stem = next((path.stem for path in sorted(folder.glob(f"{number}_*.ipynb"))), number)
        return [
            addnodes.pending_xref(
                "",
                nodes.inline("", title.replace("$", "")),
                refdomain="",
                reftype="ledger",
                reftarget=f"chapters/{stem}",
                anchor=title,
                claim=self.env.docname,
                refexplicit=True,
                refwarn=True,
                refdoc=self.env.docname,
                names_page=True,
            )
        ], []


def bare(text: str) -> str:
    """Return a title's letters and digits, which all of its spellings share."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def sections(app, page: str) -> dict[str, str]:
    """Return the anchor of each section of a page by its bare titles and names; the first of a name counts.

    Kept with the build, since hundreds of claims link to a page that takes a tenth of a second to read.
    """
    known = vars(app.builder).setdefault("ledger_sections", {})
    if page not in known:
        known[page] = {}
        for section in app.env.get_doctree(page).findall(nodes.section):
            for name in (*section["ids"], section[0].astext()):
                known[page].setdefault(bare(name), section["ids"][0])
    return known[page]


def page_number(env, page: str) -> str:
    """Return a page's number in the contents, `6` or, of a part of chapter 4, `4a`; empty if it has none."""
    number = ".".join(map(str, env.toc_secnumbers.get(page, {}).get("", ())))
    lettered = re.match(r"(\d+[a-z])\. ", env.titles[page].astext())
    return lettered[1] if lettered else number


def find_section(app, env, node, content):
    """Resolve the link of a claim to the section that is named by its title."""
    if node.get("reftype") != "ledger":
        return None
    page, anchor = node["reftarget"], node["anchor"]
    if page not in env.all_docs:
        log.warning("%s links to a page that is not there: %s", node["claim"], page)
        return content
    if node.get("names_page"):
        words = [page_number(env, page), content.astext()]
        content = nodes.inline("", ": ".join(filter(None, words)) or env.titles[page].astext())
    if not anchor:
        return make_refnode(app.builder, node["refdoc"], page, "", content)

    at = sections(app, page).get(bare(anchor))
    if at:
        return make_refnode(app.builder, node["refdoc"], page, at, content)
    log.warning("%s links to a section that is not there: %s#%s", node["claim"], page, anchor)
    return content


def setup(app):
    """Sphinx's entry."""
    app.add_node(ledger_answers)
    app.add_directive("ledger", Ledger)
    app.add_directive("ledger-bar", LedgerBar)
    app.add_directive("ledger-core", LedgerCore)
    app.add_role("at", At())
    app.connect("missing-reference", find_section)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
