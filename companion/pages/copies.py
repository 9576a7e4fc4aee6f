"""Write copies of the chapters to be run elsewhere: `notebooks/ipynb/<stem>.ipynb`, in plain Markdown.

A sentence with a number of the run is a cell `%%text` (see `live_text`). Code that serves the page alone is folded in
JupyterLab and Colab. Solutions stand at the end, and a link to each where the page has it.

`python -m companion.pages.copies` (or `make notebooks`) writes them all. A copy depends on the chapter's source,
on the functions that it shows, and on the repository's address, which stands in `_config.yml`.
"""

import ast
import itertools
import re
import sys
from pathlib import Path

import yaml

from companion.pages import chapters, citations, live_text, markdown, myst, parameters
from companion.runs.atomic import write
from fedstas.errors import InputError

# Not `fedstas`: a folder of that name beside a notebook would hide the package.
CLONE = "fedstas-clone"
NOTEBOOKS_BRANCH = "notebooks"  # of the repository: the public workflow pushes the copies to it
INSTALL = """# Where the clone is not there yet (Colab, a fresh environment): clone the repository and install it.
import importlib.util
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("companion") is None:
    clone = Path("{clone}").resolve()
    print("The package is installed now, which takes some minutes, once.", flush=True)
    try:
        if not clone.is_dir():
            subprocess.run(["git", "clone", "--quiet", "--depth", "1", "--branch", "{branch}", "{url}", clone], check=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--editable", f"{{clone}}[book]"], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        what = "git was not found" if isinstance(error, OSError) else "git clone failed" if not clone.is_dir() else "pip install failed"
        raise SystemExit(
            f"{{what}}: the package could not be installed. Without a network, copy a clone of {url} with its .venv "
            "from another computer of the same kind, and choose that .venv as the kernel."
        ) from None
    sys.path.insert(0, str(clone))  # this kernel began before the installation
    importlib.invalidate_caches()"""
SETUP = """# Figures are shown where they are drawn, and the text has the numbers of this run.
from companion.pages import live_text

live_text.begin(get_ipython())"""
SOLUTIONS = "## Solutions"
NOTE = """> A copy of a chapter of *{title}*, to be run: its figures appear, and its sentences get the numbers of this run, as
> its cells are run. The page is made by `make book` in a clone of
> [the repository]({url}/tree/{branch}): `_build/html/chapters/{stem}.html`; the source is `notebooks/{stem}.py`.
> With parameters of yours: `papermill {stem}.ipynb out.ipynb -p NAME VALUE`; their names:
> `papermill --help-notebook {stem}.ipynb`."""
FOLDED = {  # tags of cells whose code the page folds or leaves out -> the title that Colab shows instead
    "hide-input": "Imports",
    "remove-input": "Figures, tables and numbers of the text",
    "remove-cell": "What the text asserts",
}


MINUTES = {1: 5, 2: 10, 3: 20}  # to plan for an exercise of a level


class CopiedMarkdown(markdown.PlainMarkdown):
    """Plain Markdown of a notebook: placeholders stand for glued values, links lead to where a single file is read.

    Args:
        labels: what a reference to a label reads (`myst.reference_texts`).
        headings: the chapter's headings, by their anchors on the page.
        solutions: whether solutions stand in the notebook, under headings of their own.
    """

    def __init__(self, labels: dict[str, str], headings: dict[str, str] | None = None):
        super().__init__({}, labels)
        self.headings, self.repository = headings or {}, address()

    def value(self, key: str, form: str) -> str:
        """Return the placeholder of a glued value."""
        return f"⟨{key}:{form}⟩" if form else f"⟨{key}⟩"

    def directive(self, block: myst.Block) -> str:
        """Return a directive in plain Markdown; an exercise with the minutes to plan for it."""
        text = super().directive(block)
        level = re.search(r"[Ll]evel\s+(\d)", block.body) if block.name == "exercise" else None
        if level:
            heading, _, rest = text.partition("\n")
            text = f"{heading}\n\n*Plan {MINUTES[int(level[1])]} minutes.*\n{rest}"
        return text

    def solution_heading(self, exercise: str) -> str:
        """Return the heading of the solution of the exercise with this label."""
        return f"### Solution of {self.labels[exercise]}"

    def link(self, text: str, target: str) -> str:
        """Return a link: to a chapter's notebook or a page in the repository, to a heading here, or the words alone."""
        if target in self.labels:
            return text or self.labels[target]
        if target.startswith("#"):
            heading = self.headings.get(target[1:])
            return f"[{text}](#{heading.replace(' ', '-')})" if heading else text
        page = re.fullmatch(r"(?:\.\./chapters/|/chapters/)?(\w+)\.ipynb", target)
        if page and page[1] in parameters.names():
            url = (
                f"{self.repository['url']}/blob/{NOTEBOOKS_BRANCH}/notebooks/ipynb/{page[1]}.ipynb"
            )
            return f"[{text or markdown.chapter_name(page[1])}]({url})"
        return super().link(text, target)

    def inline(self, text: str) -> str:
        """Return a line, a paragraph or a list with words for its roles; "Chapter" where one begins a sentence."""
        return re.sub(r"(^|[.!?]\s+)\[chapter(?= \w+\]\()", r"\1[Chapter", super().inline(text))

    def role(self, name: str, content: str) -> str:
        """Return the words for a role; a page of the book is a link to it in the repository."""
        if name == "doc":
            title, target = re.fullmatch(r"(?:(.*?)\s*<)?(.*?)>?", content).groups()
            stem = target.rpartition("/")[2]
            if stem in parameters.names():
                return self.link(title or "", f"{stem}.ipynb")
            path = f"book/{target.replace('../', '').lstrip('/')}.md"
            words = title or f"the page *{stem.replace('_', ' ')}*"
            return f"[{words}]({self.repository['url']}/blob/{self.repository['branch']}/{path})"
        return super().role(name, content)


def address() -> dict[str, str]:
    """Read the book's `title`, and the repository's `url` and `branch`, from `_config.yml`."""
    config = yaml.safe_load((parameters.ROOT / "_config.yml").read_text(encoding="utf-8"))
    return {"title": config["title"]} | {k: config["repository"][k] for k in ("url", "branch")}


def folder() -> Path:
    """Return the folder of the copies."""
    return parameters.sources() / "ipynb"


def reader(parts: list[myst.Part]) -> CopiedMarkdown:
    """Return what writes the Markdown of a chapter with these parts."""
    blocks = [block for part in parts for block in part.blocks]
    titles = [b.tokens[1].content.strip() for b in blocks if b.kind == "heading"]
    headings = {re.sub(r"[^\w\s-]", "", t.lower()).replace(" ", "-"): t for t in titles}
    return CopiedMarkdown(myst.reference_texts(blocks), headings)


def asserted_words(cells) -> list[str]:
    """Return the words that a chapter's code passes to `expect`."""
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    return [c.args[0].value for c in calls if getattr(c.func, "id", "") == "expect"]  # type: ignore[attr-defined]


def text_cells(
    blocks: list[myst.Block], plain: CopiedMarkdown, asserted: list[str], tags=()
) -> list:
    """Return the cells of a text: Markdown, and `%%text` where it depends on the run.

    Args:
        asserted: words that the chapter's code checks with `expect`; a text that holds one depends on the run.
        tags: of all cells.
    """
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

    cells = []
    for live, group in itertools.groupby(blocks, lambda b: live_text.is_live(b, asserted)):
        text = plain.blocks(list(group))
        if live and text.startswith("#"):  # a heading is found in Markdown alone
            heading, _, text = text.partition("\n")
            cells.append(new_markdown_cell(heading, metadata={"tags": list(tags)}))
        if not live or not text.strip():
            cells.append(new_markdown_cell(text, metadata={"tags": list(tags)}))
            continue
        cell = new_code_cell(f"%%text\n{live_text.TITLE}\n{text.strip()}")
        cell.metadata = {"tags": ["text", *tags], **HIDDEN}
        before = live_text.format_text(text.strip(), {}, {})  # what is read until the cell is run
        cell.outputs = [new_output("display_data", {"text/markdown": before})]
        cells.append(cell)
    return [cell for cell in cells if cell.source.strip()]


HIDDEN = {"jupyter": {"source_hidden": True}, "cellView": "form"}  # JupyterLab's word, and Colab's


def folded(cell):
    """Return a code cell whose code serves the page alone as folded, in the words of each front end."""
    tags = cell.metadata.get("tags", [])
    title = next((FOLDED[tag] for tag in tags if tag in FOLDED), None)
    if cell.cell_type == "code" and title and "parameters" not in tags:
        cell.metadata.update(HIDDEN)
        cell.source = f"#@title {title}\n{cell.source}"
    return cell


def references(source: str) -> list:
    """Return a cell with the references that a chapter cites; none if it cites nothing."""
    from nbformat.v4 import new_markdown_cell

    keys = citations.cited_keys(source)
    listed = "\n".join(f"- {citations.reference(key)}" for key in keys)
    return [new_markdown_cell(f"## References\n\n{listed}")] if keys else []


def first_cells() -> list:
    """Return the cells that install the package where it is missing, and prepare the kernel."""
    from nbformat.v4 import new_code_cell

    install = INSTALL.format(clone=CLONE, **address())
    return [
        new_code_cell(install, metadata={"tags": ["install"]}),
        new_code_cell(SETUP, metadata={"tags": ["setup"]}),
    ]


def solutions_last(parts: list[myst.Part], plain: CopiedMarkdown, asserted: list[str]) -> list:
    """Return the cells of a chapter in plain Markdown, its solutions last; a link to each is where it was."""
    from nbformat.v4 import new_markdown_cell

    chapter, solutions, solving = [], [], ""
    for part in parts:
        if part.solves and part.solves != solving:
            heading = f"Solution of {plain.labels[part.solves]}"
            link = f"*[{heading}](#{heading.replace(' ', '-')}), at the end*"
            chapter.append(new_markdown_cell(link))
        solving = part.solves
        cells = text_cells(part.blocks, plain, asserted) if part.blocks else [folded(part.cell)]
        (solutions if solving else chapter).extend(cells)
    return [*chapter, *([new_markdown_cell(SOLUTIONS), *solutions] if solutions else [])]


def copy(chapter: str):
    """Make the copy of a chapter, as a notebook."""
    stem, repository = parameters.find(chapter), address()
    nb = chapters.read_notebook(stem)
    source = "\n".join(cell.source for cell in nb.cells)
    parts = myst.parts(nb.cells)
    cells = solutions_last(parts, reader(parts), asserted_words(nb.cells))
    nb.cells = [cell for cell in [*cells, *references(source)] if cell.source.strip()]
    if nb.cells[0].cell_type != "markdown" or not nb.cells[0].source.startswith("# "):
        raise InputError(f"notebooks/{stem}.py must begin with a markdown cell with its title")
    title, _, rest = nb.cells[0].source.partition("\n")
    note = NOTE.format(stem=stem, **repository)
    if any(cell.source == SOLUTIONS for cell in nb.cells):
        note += "\n> Solutions of its exercises stand at the end."
    nb.cells[0].source = f"{title}\n\n{note}\n{rest}".rstrip()
    nb.cells[1:1] = first_cells()
    for place, cell in enumerate(nb.cells):
        cell["id"] = f"cell-{place}"  # jupytext's ids are random
    nb.nbformat, nb.nbformat_minor = 4, 5
    return nb


def text(chapter: str) -> str:
    """Return the copy of a chapter as JSON."""
    import nbformat

    return nbformat.writes(copy(chapter), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def make(to: Path | None = None) -> list[Path]:
    """Write all copies into a folder (`notebooks/ipynb` by default), and remove those whose chapter is gone."""
    to = to or folder()
    to.mkdir(parents=True, exist_ok=True)
    wanted = {to / f"{stem}.ipynb": stem for stem in parameters.names()}
    for path in set(to.glob("*.ipynb")) - set(wanted):
        path.unlink()
    for path, stem in wanted.items():
        content = text(stem)
        write(path, lambda partial, content=content: partial.write_text(content, encoding="utf-8"))
    return list(wanted)


if __name__ == "__main__":
    for path in make():
        print(path.relative_to(parameters.ROOT))
    sys.exit(0)
