"""Show a chapter's sentences with the numbers of the run, in any notebook: `%%text` and what it reads.

A notebook that is made of a chapter (a copy, or a student's) has its sentences with numbers in cells `%%text`, as

    %%text
    Sizes run from ⟨ch1_least⟩ to ⟨ch1_most⟩ examples here.

Run, such a cell shows its text with the values that the notebook's other cells glue, whether they ran before or run
later, and strikes out the words that an `expect` of this run contradicts. `begin` prepares a kernel for it.
"""

from __future__ import annotations

import os
import re
from typing import Any

from companion.pages import expectations, glued, markdown, myst, parameters

NOUNS = "bits|clients|rounds|seeds|strata|examples|levels|draws|points|lengths|reports|participants"
AND_NOUN = rf"(?:(\s+)({NOUNS})\b)?"
PLACEHOLDER = re.compile(rf"⟨(\w+)(?::([^⟩]*))?⟩{AND_NOUN}")  # ⟨name⟩ or ⟨name:format⟩
# Two values that may read alike, "4.6 to 4.6". An interval, in parentheses, and what goes from one to the other stay.
NO_RANGE = r"(?<![(\w])(?<!from )(?<!from\n)"
PLACEHOLDERS = re.compile(rf"{NO_RANGE}(⟨(\w+)(?::([^⟩]*))?⟩)\s+to\s+(⟨(\w+)(?::([^⟩]*))?⟩)")
ROLE = r"(\{glue:text\}`(\w+)(?::([^`]*))?`)"
ROLES = re.compile(rf"{NO_RANGE}{ROLE}\s+to\s+{ROLE}")
TITLE = "#@title Text with the numbers of this run"  # Colab folds a cell that begins so
DIRECTIVE = re.compile(r"^[`:]{3,}\{", re.MULTILINE)


def format_text(text: str, values: dict[str, Any], failed: dict[str, str]) -> str:
    """Return a text with its values, and with the words struck out that this run contradicts.

    Args:
        text: Markdown with placeholders; one whose value is not there yet stays as its name, ⟨least⟩.
        values: the glued values by name.
        failed: the words that do not hold, with the numbers that decide it (`expectations.FAILED`).
    """
    for words, numbers in failed.items():
        pattern = r"[\s>]+".join(map(re.escape, words.split()))  # a quotation's lines begin with >
        note = f" **(not in this run{': ' + numbers if numbers else ''})**"
        text = re.sub(pattern, lambda m, note=note: f"~~{m[0]}~~{note}", text)

    def value(match: re.Match) -> str:
        """Return a placeholder's value in its format."""
        space, noun = match[3] or "", match[4] or ""
        if match[1] not in values:
            return f"⟨{short_name(match[1])}⟩{space}{noun}"
        shown = shown_value(values, match[1], match[2])
        return f"{shown}{space}{singular(noun) if shown == '1' else noun}"

    return PLACEHOLDER.sub(value, merge_equal_ends(text, PLACEHOLDERS, values))


def merge_equal_ends(text: str, pattern: re.Pattern, values: dict[str, Any]) -> str:
    """Return a text that names a range once whose ends read alike: 4.6 for 4.6 to 4.6.

    Args:
        pattern: PLACEHOLDERS or ROLES, whose groups are each end, its name and its format.
        values: the glued values by name.
    """

    def replace(match: re.Match) -> str:
        """Return a range, or its one value."""
        low, name, form, _, other, other_form = match.groups()
        if not {name, other} <= set(values):
            return match[0]
        ends = {shown_value(values, name, form), shown_value(values, other, other_form)}
        return low if len(ends) == 1 else match[0]

    return pattern.sub(replace, text)


def shown_value(values: dict[str, Any], name: str, form: str | None) -> str:
    """Return a glued value as its placeholder or role shows it."""
    return markdown.format_glued(values[name], form or "")


def singular(noun: str) -> str:
    """Return the singular of one of the NOUNS, and "" where there is no noun."""
    return "stratum" if noun == "strata" else noun.removesuffix("s")


def fit_words_to_numbers(nb) -> None:
    """Fit the text of an executed chapter to its numbers: the singular after a 1, one number for a range of equal ones."""
    values = glued.values_of(nb.cells)
    pattern = re.compile(rf"(\{{glue:text\}}`(\w+)(?::([^`]*))?`\s+)({NOUNS})\b")

    def replace(match: re.Match) -> str:
        """Return a value's role with its noun in the right number."""
        shown = markdown.format_glued(values.get(match[2], ""), match[3] or "")
        return match[1] + (singular(match[4]) if shown == "1" else match[4])

    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = merge_equal_ends(pattern.sub(replace, cell.source), ROLES, values)


def short_name(key: str) -> str:
    """Return the name of a glued value without its chapter: `gain` of `ch4a_gain`."""
    return re.sub("^ch[0-9a-z]+_", "", key)


def is_live(block: myst.Block, asserted: list[str]) -> bool:
    """Return whether a block depends on the run: it shows a value, or words that code asserts."""
    return "{glue:text}" in block.source or any(
        expectations.pattern(words).search(block.source) for words in asserted
    )


def begin(shell) -> None:
    """Prepare the kernel of a notebook: figures and tables are shown where they are glued, and `%%text` works.

    It defines no names in the notebook, which are its reader's. The kernel's folder becomes the repository's root,
    from which chapters read recorded runs, or the folder that FEDSTAS_FOLDER names.
    """
    import myst_nb
    from IPython.display import Markdown, display, update_display

    os.chdir(os.environ.get("FEDSTAS_FOLDER", parameters.ROOT))
    expectations.FAILED.clear()
    expectations.heading = (
        "*The parameters of the run are shown here once the cells below have run.*"
    )
    values: dict[str, Any] = {}
    texts: dict[str, list[str]] = {}  # id of the display -> its source, and what it shows
    display(Markdown(expectations.heading), display_id=expectations.TOP)

    def glue(name, value, display=True):
        """Show a figure or table at once, and keep a value for the text."""
        if hasattr(value, "savefig") or hasattr(value, "to_html"):
            show(value)
        else:
            values[name] = value

    def show_text(line: str, cell: str) -> None:
        """Show a cell's text with the numbers of this run."""
        lines = cell.split("\n")
        source = "\n".join(lines[1:] if lines[0].startswith("#@title") else lines).rstrip()
        shown = format_text(source, values, expectations.FAILED)
        place = f"text-{len(texts)}"
        texts[place] = [source, shown]
        display(Markdown(shown), display_id=place)

    def update_texts(_) -> None:
        """Show anew the texts whose numbers the cell that has ended computed."""
        for place, (source, before) in texts.items():
            shown = format_text(source, values, expectations.FAILED)
            if shown != before:
                texts[place] = [source, shown]
                update_display(Markdown(shown), display_id=place)

    def plain(output: Markdown) -> str:
        """Return Markdown that a cell shows, its directives as plain Markdown."""
        if DIRECTIVE.search(output.data):
            return markdown.PlainMarkdown(values, {}).text(output.data)
        return output._repr_markdown_()

    show = display
    myst_nb.glue = glue
    shell.register_magic_function(show_text, "cell", "text")
    shell.events.register("post_run_cell", update_texts)
    shell.display_formatter.formatters["text/markdown"].for_type(Markdown, plain)


def stamp(values: dict[str, Any], default: dict[str, Any]) -> None:
    """Write the parameters of this run to the top of a notebook that `begin` prepared; elsewhere do nothing.

    Args:
        values: the parameters by name.
        default: those of the profile quick.
    """
    if not expectations.heading:
        return
    others = {name: value for name, value in values.items() if value != default.get(name)}
    listed = ", ".join(f"{name} {_shown(value)}" for name, value in values.items())
    text = f"*Parameters of this run:* {listed}. "
    if others:
        changed = ", ".join(f"{name} {_shown(value)}" for name, value in others.items())
        text += f"**Not the defaults: {changed}.** Words that do not hold at these are struck out."
    else:
        text += "They are the chapter's defaults."
    expectations.heading = text
    expectations.show_top()


def _shown(value: Any) -> str:
    """Format a parameter's value; an empty text stands for the usual one, as of the task's usual network."""
    return f"`{value}`" if value != "" else "(the usual)"


def find_faults(nb) -> list[str]:
    """Return what a person would stumble on in an executed notebook, a line each; [] if nothing.

    Looked for are mark-up of the book, numbers and figures that are missing, `nan`, NumPy's types, warnings, a range
    between two equal numbers or a comparison of them, a plural of one, and empty headings.
    """
    faults = []
    for text in shown_texts(nb):
        for what, pattern in FAULTS.items():
            for match in pattern.finditer(text):
                around = text[max(0, match.start() - 40) : match.end() + 40]
                faults.append(f"{what}: …{' '.join(around.split())}…")
    figures = [
        o for c in nb.cells for o in c.get("outputs", []) if "image/svg+xml" in o.get("data", {})
    ]
    drawn = sum(c.source.count("glue_figure(") for c in nb.cells if c.cell_type == "code")
    if len(figures) < drawn:
        faults.append(f"missing figures: {drawn} are drawn, {len(figures)} shown")
    return faults


CODE_OR_FORMULA = re.compile(r"```(?:\w*)\n.*?```|`[^`]*`|\$\$?.*?\$\$?", re.DOTALL)
UNIT = r"(?:\s?%|\s(?:points|MB|kB|examples))?"
FAULTS = {
    "mark-up of the book": re.compile(
        r"^\s*>?\s*[`:]{3,}\{[\w:-]+\}|\{(?:glue|cite|numref|eq|term|doc|ref|prf)[\w:]*\}`|^\([\w-]+\)=|\]\{\.[\w-]+\}",
        re.MULTILINE,
    ),
    "a number that is missing": re.compile(r"⟨\w+⟩|…\s?%|<Figure size"),
    "not a number": re.compile(r"(?<![\w-])nan(?![\w-])|[=|(] ?None\b"),
    "a type of NumPy": re.compile(r"np\.(?:False_|True_|float|int|str_)"),
    "a warning": re.compile(r"\w+Warning: "),
    "a range of one number": re.compile(
        rf"(?<![(\d.,−±+-])(\d[\d.,]*){UNIT}\s+to\s+\1(?![\d.,]*\d)|"
        rf"\b(?:[Ff]rom|[Bb]etween)\s+(\d[\d.,]*){UNIT}\s+(?:at\s+first\s+)?(?:to|and)\s+\2(?![\d.,]*\d)"
    ),
    "a comparison of equal numbers": re.compile(
        rf"(?<![\d.,−±+-])(\d[\d.,]*){UNIT},?\s+(?:against|instead\s+of|rather\s+than)\s+\1(?![\d.,]*\d)"
    ),
    "a plural of one": re.compile(
        rf"(?<!Algorithm )(?<!Lemma )(?<!Theorem )(?<!Figure )(?<![\d.,·^−-])\b1\s(?:{NOUNS})\b"
    ),
    "an empty comment or heading": re.compile(r"^#+ *$", re.MULTILINE),
}


def shown_texts(nb, whole: bool = False) -> list[str]:
    """Return the texts that a notebook shows: its Markdown cells and its cells' outputs.

    Args:
        whole: with code and formulas in the text, which otherwise leave an empty code span.
    """
    texts = []
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            texts.append(cell.source if whole else CODE_OR_FORMULA.sub("``", cell.source))
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            text = "".join(output.get("text", "") or data.get("text/markdown", ""))
            if not text and not set(data) & {"image/svg+xml", "image/png", "text/html"}:
                text = "".join(data.get("text/plain", ""))
            if "text/markdown" in data and not whole:
                text = CODE_OR_FORMULA.sub("``", text)
            texts.append(text)
    return texts
