"""The page `Explorer`: `{explorer} PART` is where an instrument appears, `{explorer} script` brings the
data, the style and the script into the page itself, so that it works from the file system."""

from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parent
PARTS = ("allocation", "estimate", "privacy")


def place(part: str) -> str:
    """Where the script puts an instrument; empty and hidden until it does."""
    return f'<div class="explorer" data-part="{part}" hidden></div>'


def script(data: str) -> str:
    """The data, the style and the script, to stand after the last instrument."""
    style = (HERE / "explorer.css").read_text(encoding="utf-8")
    code = (HERE / "explorer.js").read_text(encoding="utf-8")
    data = data.replace("<", "\\u003c")
    return (
        f'<p class="explorer-checked"></p><style>{style}</style>'
        f'<script type="application/json" id="explorer-data">{data}</script>'
        f"<script>{code}</script>"
    )


class Explorer(SphinxDirective):
    """An instrument of the explorer, or (`script`) what makes them work."""

    required_arguments = 1

    def run(self):
        part = self.arguments[0]
        if part in PARTS:
            return [nodes.raw("", place(part), format="html")]
        if part != "script":
            raise self.error(f"unknown part {part!r}: use one of {', '.join(PARTS)}, script")
        grids = Path(self.env.srcdir) / "chapters" / "explorer.json"
        for path in (grids, HERE / "explorer.js", HERE / "explorer.css"):
            self.env.note_dependency(str(path))
        if not grids.is_file():
            raise self.error("the explorer was not computed by the pipeline (make book)")
        return [nodes.raw("", script(grids.read_text(encoding="utf-8")), format="html")]


def setup(app):
    """Sphinx's entry."""
    app.add_directive("explorer", Explorer)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
