"""Write copies of the chapters to be run elsewhere: `notebooks/ipynb/<stem>.ipynb`, plain Markdown, no outputs.

Nothing can be folded in them, so solutions stand at the end, and a link to it where the page has one.

`python -m companion.pages.copies` (or `make notebooks`) writes them all. A copy depends on the chapter's source,
on the functions that it shows, and on the repository's address, which stands in `_config.yml`.
"""

import os
import re
import sys
from pathlib import Path

import yaml

from companion.pages import chapters, markdown, myst, parameters
from companion.runs.atomic import write
from fedstas.errors import InputError

CLONE = (
    "fedstas-clone"  # not `fedstas`: a folder of that name beside a notebook would hide the package
)
INSTALL = """# Where the clone is not there yet (Colab, a fresh environment): clone the repository and install it.
import importlib.util
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("companion") is None:
    clone = Path("{clone}").resolve()
    if not clone.is_dir():
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", "--branch", "{branch}", "{url}", clone], check=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--editable", f"{{clone}}[book]"], check=True)
    sys.path.insert(0, str(clone))  # this kernel began before the installation
    importlib.invalidate_caches()"""
SETUP = """# Figures are shown where they are drawn, and under a cell stand the numbers that the text takes from it.
from companion.pages import copies

copies.begin(get_ipython())"""
SOLUTIONS = "## Solutions"
NOTE = """> A copy of a chapter of *{title}*, to be run. A number that the text takes from the run stands as ⟨name⟩, and
> its value under the cell that computes it. The page with all numbers is made by `make book` in a clone of
> [the repository]({url}/tree/{branch}): `_build/html/chapters/{stem}.html`; the source is `notebooks/{stem}.py`.
> With parameters of yours: `papermill {stem}.ipynb out.ipynb -p NAME VALUE`; their names:
> `papermill --help-notebook {stem}.ipynb`."""


def begin(shell) -> None:
    """Prepare the kernel of a copy: the IPython `shell` shows what a cell glues under that cell.

    It defines no names in the notebook, which are its reader's.
    """
    import myst_nb
    from IPython.display import Markdown
    from IPython.display import display as show

    from companion.pages import expectations

    os.chdir(parameters.ROOT)  # chapters read recorded runs from the repository
    show(
        Markdown(""), display_id=expectations.TOP
    )  # sentences of the text that this run contradicts
    numbers = {}

    def glue(name, value, display=True):
        """Show a figure or table at once, and keep a number until the cell ends."""
        if hasattr(value, "savefig") or hasattr(value, "to_html"):
            show(value)
        else:
            numbers[short_name(name)] = value

    def print_numbers(_):
        """Print the numbers of the cell that has ended."""
        formats = {
            name: ".4g" if isinstance(value, float) else "" for name, value in numbers.items()
        }
        if numbers:
            print(
                *(f"⟨{name}⟩ {value:{formats[name]}}" for name, value in numbers.items()), sep="   "
            )
        numbers.clear()

    myst_nb.glue = glue
    shell.events.register("post_run_cell", print_numbers)


class CopiedMarkdown(markdown.PlainMarkdown):
    """Plain Markdown of a copy: names stand for glued values, and solutions have headings to lead to."""

    def value(self, key: str, form: str) -> str:
        """Return the name of a glued value."""
        return f"⟨{short_name(key)}⟩"

    def solution_heading(self, exercise: str) -> str:
        """Return the heading of the solution of the exercise with this label."""
        return f"### Solution of {self.labels[exercise]}"


def short_name(key: str) -> str:
    """Return the name of a glued value without its chapter: `gain` of `ch4a_gain`."""
    return re.sub("^ch[0-9a-z]+_", "", key)


def address() -> dict[str, str]:
    """Read the book's `title`, and the repository's `url` and `branch`, from `_config.yml`."""
    config = yaml.safe_load((parameters.ROOT / "_config.yml").read_text(encoding="utf-8"))
    return {"title": config["title"]} | {k: config["repository"][k] for k in ("url", "branch")}


def folder() -> Path:
    """Return the folder of the copies."""
    return parameters.sources() / "ipynb"


def solutions_last(parts: list[myst.Part], plain: CopiedMarkdown) -> list:
    """Return the cells of a chapter in plain Markdown, its solutions last; a link to each is where it was."""
    from nbformat.v4 import new_markdown_cell

    chapter, solutions, solving = [], [], ""
    for part in parts:
        if part.solves and part.solves != solving:
            heading = f"Solution of {plain.labels[part.solves]}"
            link = f"*[{heading}](#{heading.replace(' ', '-')}), at the end*"
            chapter.append(new_markdown_cell(link))
        solving = part.solves
        cell = new_markdown_cell(plain.blocks(part.blocks)) if part.blocks else part.cell
        (solutions if solving else chapter).append(cell)
    return [*chapter, *([new_markdown_cell(SOLUTIONS), *solutions] if solutions else [])]


def copy(chapter: str):
    """Make the copy of a chapter, as a notebook."""
    from nbformat.v4 import new_code_cell

    stem, repository = parameters.find(chapter), address()
    nb = chapters.notebook(stem)
    parts = myst.parts(nb.cells)
    labels = myst.reference_texts(block for part in parts for block in part.blocks)
    cells = solutions_last(parts, CopiedMarkdown({}, labels))
    nb.cells = [cell for cell in cells if cell.source.strip()]
    if nb.cells[0].cell_type != "markdown" or not nb.cells[0].source.startswith("# "):
        raise InputError(f"notebooks/{stem}.py must begin with a markdown cell with its title")
    title, _, rest = nb.cells[0].source.partition("\n")
    note = NOTE.format(stem=stem, **repository)
    if any(cell.source == SOLUTIONS for cell in nb.cells):
        note += "\n> Solutions of its exercises stand at the end."
    nb.cells[0].source = f"{title}\n\n{note}\n{rest}".rstrip()
    nb.cells[1:1] = [
        new_code_cell(INSTALL.format(clone=CLONE, **repository), metadata={"tags": ["install"]}),
        new_code_cell(SETUP, metadata={"tags": ["setup"]}),
    ]
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
