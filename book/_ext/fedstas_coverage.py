"""`{coverage}`: how many items of each paper are done, and why the others are not, computed from the page that it stands
on, the ledger and the recorded runs."""

from docutils import nodes
from fedstas_ledger import LedgerDirective, table_of

from companion.claims import coverage


class Coverage(LedgerDirective):
    """The counts as a table, and the items that are partly done or not at all, each with its reason."""

    def run(self):
        ledger = self.ledger()
        page = coverage.ROOT / "book" / "where_is_what.md"
        self.env.note_dependency(str(page))
        items = coverage.read_items(page.read_text(encoding="utf-8"), ledger["claims"])
        claims = coverage.read_claims(ledger["claims"])
        counts = coverage.count_states(items)
        for paper, of_paper in coverage.count_states(claims).items():
            counts[f"claims of the ledger: {ledger['papers'][paper]}"] = of_paper
        rows = [
            [name, sum(count.values()), *(count[state] for state in coverage.STATES)]
            for name, count in counts.items()
        ]
        head = ["of", "items", *coverage.STATES]
        cells = [[[nodes.paragraph("", str(cell))] for cell in row] for row in rows]
        listed = nodes.bullet_list()
        for item in items:
            if item.state in ("partly", "not"):
                text = self.text(
                    f"{item.name} ({item.section}) is {item.state} done: {item.reason}."
                )
                listed += nodes.list_item("", text)
        return [table_of(head, cells, "coverage"), listed]


def setup(app):
    """Register the directive with Sphinx."""
    app.add_directive("coverage", Coverage)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
