"""Links to run a chapter: Colab, Binder, and its notebook and its source as downloads from this site.

The repository's address stands in `_config.yml`. Its notebooks are generated: Colab and Binder find them on the branch
`notebooks`, to which the public workflow pushes them; the site takes them from `notebooks/ipynb/`, where its build
writes them.
"""

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

NOTEBOOKS_BRANCH = "notebooks"


def service_urls(url: str, stem: str) -> dict[str, str]:
    """Return link text and address of each service that runs a chapter's notebook in the reader's browser."""
    repository = url.removeprefix("https://github.com/")
    copy = f"notebooks/ipynb/{stem}.ipynb"
    return {
        "Open in Colab": f"https://colab.research.google.com/github/{repository}/blob/{NOTEBOOKS_BRANCH}/{copy}",
        "Binder": f"https://mybinder.org/v2/gh/{repository}/{NOTEBOOKS_BRANCH}?labpath={copy}",
    }


def launch(directive: SphinxDirective, stem: str) -> list[nodes.Node]:
    """Return the links of one chapter, for a page anywhere in the book."""
    urls = service_urls(directive.config.html_theme_options["repository_url"], stem)
    links = [nodes.reference("", text, refuri=url) for text, url in urls.items()]
    depth = directive.env.docname.count("/") + 1  # from the page's folder to the repository's root
    for text, path in (
        ("download .ipynb", f"notebooks/ipynb/{stem}.ipynb"),
        (".py", f"notebooks/{stem}.py"),
    ):
        options = {"refdoc": directive.env.docname, "refdomain": "", "reftype": "download"}
        options |= {"reftarget": "../" * depth + path, "refexplicit": True, "refwarn": True}
        links.append(addnodes.download_reference("", "", nodes.inline("", text), **options))
    separated: list[nodes.Node] = []
    for link in links:
        separated += [link, nodes.Text(" · ")]
    return separated[:-1]


class LaunchTable(SphinxDirective):
    """The directive `launch`: a line of links for each chapter of this book."""

    def run(self):
        """Return the list."""
        rows = nodes.bullet_list(classes=["launch"])
        for page in sorted(Path(self.env.srcdir, "chapters").glob("*.ipynb")):
            if f"chapters/{page.stem}" in self.env.found_docs:
                line = nodes.paragraph("", "", nodes.literal("", page.stem), nodes.Text(": "))
                line += launch(self, page.stem)
                rows += nodes.list_item("", line)
        return [rows]


def setup(app):
    """Register the directive with Sphinx."""
    app.add_directive("launch", LaunchTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
