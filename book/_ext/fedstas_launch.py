"""Where a chapter can be run: Colab, Binder, and its copy and its source as downloads from this site.

The addresses are made of the repository's, which stands in `_config.yml`.
"""

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective


def addresses(url: str, branch: str, stem: str) -> dict[str, str]:
    """The services that run the copy of a chapter in the reader's browser."""
    repository = url.removeprefix("https://github.com/")
    copy = f"notebooks/ipynb/{stem}.ipynb"
    return {
        "Open in Colab": f"https://colab.research.google.com/github/{repository}/blob/{branch}/{copy}",
        "Binder": f"https://mybinder.org/v2/gh/{repository}/{branch}?labpath={copy}",
    }


def launch(directive: SphinxDirective, stem: str) -> list[nodes.Node]:
    """The links of one chapter, for a page anywhere in the book."""
    theme = directive.config.html_theme_options
    found = addresses(theme["repository_url"], theme["repository_branch"], stem)
    links = [nodes.reference("", text, refuri=uri) for text, uri in found.items()]
    depth = directive.env.docname.count("/") + 1  # from the page's folder to the repository's root
    for text, path in (
        ("download .ipynb", f"notebooks/ipynb/{stem}.ipynb"),
        (".py", f"notebooks/{stem}.py"),
    ):
        told = {"refdoc": directive.env.docname, "refdomain": "", "reftype": "download"}
        told |= {"reftarget": "../" * depth + path, "refexplicit": True, "refwarn": True}
        links.append(addnodes.download_reference("", "", nodes.inline("", text), **told))
    separated: list[nodes.Node] = []
    for link in links:
        separated += [link, nodes.Text(" · ")]
    return separated[:-1]


class LaunchTable(SphinxDirective):
    """A line for each chapter of this book: where it can be run, and its downloads."""

    def run(self):
        """The list."""
        rows = nodes.bullet_list(classes=["launch"])
        for page in sorted(Path(self.env.srcdir, "chapters").glob("*.ipynb")):
            if f"chapters/{page.stem}" in self.env.found_docs:
                line = nodes.paragraph("", "", nodes.literal("", page.stem), nodes.Text(": "))
                line += launch(self, page.stem)
                rows += nodes.list_item("", line)
        return [rows]


def setup(app):
    """Sphinx's entry."""
    app.add_directive("launch", LaunchTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
