"""A chapter's MyST text as plain Markdown, for Jupyter without extensions and for slides.

Directives become headings, quotations and captions; roles become words and numbers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from companion.pages import parameters

OPEN = re.compile(r"^(?P<fence>`{3,}|:{3,})\{(?P<name>[\w:-]+)\}\s*(?P<title>.*)$")
OPTION = re.compile(r"^:([\w-]+):\s*(.*)$")
GLUE = re.compile(r"\{glue:text\}`(?:[^`:]+::)?([^`:]+)(?::([^`]+))?`")
VOICES = ("as-written", "as-coded", "as-it-should-be", "verdict")
DROPPED = ("provenance", "exercise-end", "solution-end", "ledger-bar")
THEOREMS = ("lemma", "theorem", "corollary", "proposition", "definition", "algorithm", "remark")


def pieces(text: str) -> Iterable[tuple[str, str, dict[str, str], str]]:
    """(directive, title, options, body) one after another; plain text has the directive ""."""
    lines, plain, at = text.split("\n"), [], 0
    while at < len(lines):
        found = OPEN.match(lines[at])
        if not found:
            plain.append(lines[at])
            at += 1
            continue
        if plain:
            yield "", "", {}, "\n".join(plain)
            plain = []
        fence, end = found["fence"], at + 1
        closing = re.compile(rf"^{re.escape(fence[0])}{{{len(fence)},}}\s*$")
        while end < len(lines) and not closing.match(lines[end]):
            end += 1
        body, options = lines[at + 1 : end], {}
        while body and (option := OPTION.match(body[0])):
            options[option[1]] = option[2]
            body = body[1:]
        yield found["name"], found["title"].strip(), options, "\n".join(body).strip("\n")
        at = end + 1
    if plain:
        yield "", "", {}, "\n".join(plain)


def numbers(texts: Iterable[str]) -> dict[str, str]:
    """What a reference to each label of a chapter says: `Figure 2`, `Lemma 1`, `Exercise 3`, `(1)`."""
    found, counts = {}, {}

    def give(label: str | None, kind: str, form: str = "{kind} {n}") -> None:
        counts[kind] = counts.get(kind, 0) + 1
        if label:
            found[label] = form.format(kind=kind, n=counts[kind])

    def walk(text: str) -> None:
        for name, _, options, body in pieces(text):
            kind, label = name.removeprefix("prf:"), options.get("label", options.get("name"))
            if name in ("glue:figure", "figure"):
                give(label, "Figure")
            elif name.startswith("prf:") and kind in THEOREMS:
                give(label, kind.capitalize())
            elif name in ("exercise", "exercise-start"):
                give(label, "Exercise")
            elif name == "math" and label:
                give(label, "equation", "({n})")
            if name:
                walk(body)

    for text in texts:
        walk(text)
    return found


def roles(text: str, values: dict[str, Any], labels: dict[str, str]) -> str:
    """The text with its roles as words."""

    def value(match: re.Match) -> str:
        key, form = match[1], match[2]
        if key not in values:
            return "…"
        try:
            return format(values[key], form or "")
        except (TypeError, ValueError):
            return str(values[key])

    def reference(match: re.Match) -> str:
        title, target = re.match(r"(?:(.*?)\s*<([^>]+)>|(.*))$", match[1], re.DOTALL).group(1, 2)
        return title or labels.get(target or match[1], "the book")

    text = GLUE.sub(value, text)
    text = re.sub(r"\{cite:[pt]\}`([^`]+)`", lambda m: f"[{m[1].replace(',', ', ')}]", text)
    text = re.sub(r"\{(?:numref|prf:ref|ref|eq)\}`([^`]+)`", reference, text)
    text = re.sub(r"\{doc\}`(?:([^`<]*?)\s*<)?/?([^`>]+)>?`", lambda m: m[1] or f"`{m[2]}`", text)
    text = re.sub(r"\{term\}`([^`<]+?)(?:\s*<[^`]*)?`", r"\1", text)
    text = re.sub(r"\{[\w:-]+\}`([^`]+)`", r"\1", text)
    text = re.sub(r"\[([^\]]+)\]\{[^}]*\}", r"\1", text)  # [as written]{.as-written}
    text = re.sub(r"\[\]\(([\w/]+)\.(?:ipynb|md)\)", r"[\1](\1.ipynb)", text)
    return re.sub(r"^\([\w-]+\)=\n", "", text, flags=re.MULTILINE)


def quote(title: str, body: str) -> str:
    """A quotation with a title in bold."""
    lines = [f"**{title}**", "", *body.split("\n")] if title else body.split("\n")
    return "\n".join(f"> {line}".rstrip() for line in lines)


def listing(options: dict[str, str], path: str) -> str:
    """The function that a `literalinclude` shows."""
    file = (parameters.ROOT / "book" / "chapters" / path).resolve()
    text = Path(file).read_text(encoding="utf-8")
    if name := options.get("pyobject"):
        node: Any = ast.parse(text)
        for part in name.split("."):
            node = next(n for n in node.body if getattr(n, "name", None) == part)
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        text = "\n".join(text.split("\n")[first - 1 : node.end_lineno])
    return f"```python\n{text.strip()}\n```"


def markdown(
    text: str,
    values: dict[str, Any],
    labels: dict[str, str],
    figure: Callable[[str, str], str] = lambda name, caption: f"*{caption}*",
) -> str:
    """A cell's text in plain Markdown; `figure(glued name, caption)` says what stands for a figure."""

    def again(body: str) -> str:
        return markdown(body, values, labels, figure)

    made = []
    for name, title, options, body in pieces(text):
        title = roles(title, values, labels)
        kind, label = name.removeprefix("prf:"), options.get("label", options.get("name", ""))
        if not name:
            made.append(roles(body, values, labels))
        elif name in DROPPED:
            continue
        elif name == "at-a-glance":
            made.append(f"*Needs: {options['needs']}*" if options.get("needs") else "")
        elif name == "explorer":
            made.append("*(An instrument to turn by hand: in the book.)*")
        elif name == "math":
            made.append(f"$$\n{body}\n$$")
        elif name in ("exercise-start", "exercise"):
            made.append(f"### {labels.get(label, 'Exercise')}: {title}\n\n{again(body)}")
        elif name in ("solution-start", "solution"):
            made.append(f"**Solution of {labels.get(title, title)}**\n\n{again(body)}")
        elif name == "glue:figure":
            caption = " ".join(again(body).split())
            made.append(figure(title, f"{labels.get(label, 'Table')}. {caption}"))
        elif name == "literalinclude":
            made.append(listing(options, title))
        elif name == "prf:proof":
            made.append(quote("Proof", again(body)))
        elif name.startswith("prf:"):
            said = f"{labels.get(label, kind.capitalize())}{f' ({title})' if title else ''}"
            made.append(quote(said, again(body)))
        elif name in ("admonition", "margin", "note", "warning", "tip", "important", "dropdown"):
            made.append(quote(title, again(body)))
        else:
            made.append(again(body))
    return re.sub(r"\n{3,}", "\n\n", "\n\n".join(part.strip("\n") for part in made if part))
