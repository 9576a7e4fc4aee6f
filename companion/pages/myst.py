"""Parse MyST text once: into blocks, a chapter into parts, a line into inline tokens.

What is made of a chapter's text (copies, students' notebooks, slides, measures of reading) visits what these
functions return. `markdown.PlainMarkdown` writes blocks as plain Markdown.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.myst_blocks import myst_block_plugin
from mdit_py_plugins.myst_role import myst_role_plugin

from fedstas.errors import InputError

DIRECTIVE = re.compile(r"\{([\w:-]+)\}\s*(.*)")
OPTION = re.compile(r":([\w-]+):\s*(.*)")
THEOREMS = ("lemma", "theorem", "corollary", "proposition", "definition", "algorithm", "remark")


@dataclass(frozen=True)
class Block:
    """A top-level element of a text.

    `kind` is markdown-it's name of it (`paragraph`, `heading`, `table`, `fence`, `myst_target`, …), or
    `directive`; `source` are its lines and the blank ones after it. A directive has a name, an argument,
    options and a body; an exercise between `exercise-start` and `exercise-end` is one directive, `exercise`.
    """

    kind: str
    source: str
    tokens: list[Token] = field(repr=False)
    name: str = ""
    argument: str = ""
    options: dict[str, str] = field(default_factory=dict)
    body: str = ""

    @property
    def label(self) -> str:
        """The label by which references name the directive."""
        return self.options.get("label", self.options.get("name", ""))


@dataclass
class Part:
    """A code cell, or consecutive blocks of a Markdown cell (`blocks`).

    `solves` is the label of the exercise whose solution the part belongs to; "" outside of solutions.
    """

    cell: Any
    blocks: list[Block]
    solves: str = ""

    @property
    def source(self) -> str:
        """The part's code or text."""
        return join(self.blocks) if self.blocks else self.cell.source


def _block_parser() -> MarkdownIt:
    """Return a parser of the Markdown that the book's MyST reads (`myst_enable_extensions` in `_config.yml`)."""
    md = MarkdownIt("commonmark").enable("table").use(myst_block_plugin).use(myst_role_plugin)
    md = md.use(dollarmath_plugin, double_inline=True).use(colon_fence_plugin).use(deflist_plugin)
    return md.use(attrs_plugin, spans=True)


def _code_span(state: StateInline, silent: bool) -> bool:
    """Return an inline rule that keeps a code span as text, with its backticks."""
    span = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL).match(state.src, state.pos)
    if span and not silent:
        state.push("text", "", 0).content = span[0]
    if span:
        state.pos = span.end()
    return bool(span)


def _inline_parser() -> MarkdownIt:
    """Return a parser of roles, formulas, links and spans that keeps all else as it is written."""
    md = MarkdownIt("zero").enable("link").use(myst_role_plugin)
    md = md.use(dollarmath_plugin, double_inline=True)
    md.inline.ruler.before("backticks", "code_span", _code_span)
    md.normalizeLink = md.normalizeLinkText = lambda url: url  # type: ignore[method-assign]
    return md.use(attrs_plugin, spans=True, span_after="link", after=())


BLOCKS, INLINE = _block_parser(), _inline_parser()


def parse(text: str) -> list[Block]:
    """Split a text into its top-level blocks; their sources, joined by line breaks, are the text."""
    lines, tokens = text.split("\n"), BLOCKS.parse(text)
    opening = [i for i, t in enumerate(tokens) if t.level == 0 and t.nesting >= 0 and t.map]
    blocks: list[Block] = []
    for i, following in itertools.zip_longest(opening, opening[1:]):
        first = tokens[i].map[0] if blocks else 0
        last = len(lines) if following is None else tokens[following].map[0]
        blocks.append(_block("\n".join(lines[first:last]), tokens[i:following]))
    return list(_exercises(blocks))


def _block(source: str, tokens: list[Token]) -> Block:
    """Return a block of these tokens, with its parts if it is a directive."""
    token = tokens[0]
    kind = token.type.removesuffix("_open")
    directive = DIRECTIVE.fullmatch(token.info.strip()) if "fence" in kind else None
    if not directive:
        return Block(kind, source, tokens)
    body, options = token.content.split("\n"), {}
    while body and (option := OPTION.fullmatch(body[0])):
        options[option[1]] = option[2]
        body = body[1:]
    name, argument = directive[1], directive[2].strip()
    return Block("directive", source, tokens, name, argument, options, "\n".join(body).strip("\n"))


def _exercises(blocks: list[Block]) -> Iterator[Block]:
    """The blocks, with those from an `exercise-start` to its `exercise-end` as one."""
    remaining = iter(blocks)
    for block in remaining:
        if block.name != "exercise-start":
            yield block
            continue
        inside = []
        for follower in remaining:
            if follower.name == "exercise-end":
                break
            inside.append(follower)
        else:
            raise InputError(f"exercise {block.label!r} has no end: close it with {{exercise-end}}")
        source = "\n".join(b.source for b in (block, *inside, follower))
        tokens = [t for b in (block, *inside, follower) for t in b.tokens]
        yield Block(
            "directive", source, tokens, "exercise", block.argument, block.options, join(inside)
        )


def join(blocks: Iterable[Block]) -> str:
    """Return the text of blocks, without blank lines at its ends."""
    return "\n".join(block.source for block in blocks).strip("\n")


def descend(blocks: Iterable[Block]) -> Iterator[Block]:
    """Each block, followed by those of its body if it is a directive."""
    for block in blocks:
        yield block
        if block.body:
            yield from descend(parse(block.body))


def parts(cells: Iterable[Any]) -> list[Part]:
    """Return the cells of a chapter from top to bottom; Markdown cells end where a solution begins or ends.

    Raises:
        InputError: a solution has no end.
    """
    result, solves = [], ""
    for cell in cells:
        if cell.cell_type != "markdown":
            result.append(Part(cell, [], solves))
            continue
        run: list[Block] = []
        for block in parse(cell.source):
            begins = block.name in ("solution-start", "solution")
            if begins and run:
                result.append(Part(cell, run, solves))
                run = []
            solves = block.argument if begins else solves
            run.append(block)
            if block.name in ("solution-end", "solution"):
                result.append(Part(cell, run, solves))
                run, solves = [], ""
        if run:
            result.append(Part(cell, run, solves))
    if solves:
        raise InputError(f"the solution of {solves} has no end: close it with {{solution-end}}")
    return result


def reference_texts(blocks: Iterable[Block]) -> dict[str, str]:
    """Return what a reference to each label of a chapter reads: `Figure 2`, `Lemma 1`, `Exercise 3`, `(1)`."""
    texts, counts = {}, {}
    for block in descend(blocks):
        kind = block.name.removeprefix("prf:")
        if block.name in ("glue:figure", "figure"):
            kind = "Figure"
        elif block.name == "exercise" or (block.name.startswith("prf:") and kind in THEOREMS):
            kind = kind.capitalize()
        elif block.name != "math" or not block.label:
            continue
        counts[kind] = counts.get(kind, 0) + 1
        if block.label:
            number = counts[kind]
            texts[block.label] = f"({number})" if kind == "math" else f"{kind} {number}"
    return texts


def inline(text: str, role: Callable[[str, str], str], link: Callable[[str, str], str]) -> str:
    """Return a text with its roles and links replaced, and without the braces of its spans; all else as written.

    Args:
        text: a paragraph, a list, a table, or a title.
        role: the words for a role, from its name and content.
        link: the Markdown for a link, from its text and target.
    """
    (root,) = INLINE.parseInline(text)
    outer, target, written = [], "", []
    for token in root.children:
        if token.type == "myst_role":
            written.append(role(token.meta["name"], token.content))
        elif token.type == "link_open":
            target, title = token.attrs["href"], token.attrs.get("title")
            target = f"<{target}>" if re.search(r"\s", target) else target
            target += f' "{title}"' if title else ""
            outer, written = written, []
        elif token.type == "link_close":
            written = [*outer, link("".join(written), target)]
        else:  # text, or a formula between its dollars
            written.append(f"{token.markup}{token.content}{token.markup}")
    return "".join(written)
