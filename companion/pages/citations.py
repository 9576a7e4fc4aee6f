"""Cite the entries of `book/references.bib` in plain Markdown, as the book does: author and year."""

from __future__ import annotations

import re
from functools import lru_cache

from companion.pages import parameters


@lru_cache(maxsize=1)
def _entries() -> dict:
    """Read the bibliography, by key."""
    from pybtex.database import parse_file

    path = parameters.ROOT / "book" / "references.bib"
    return dict(parse_file(str(path)).entries.items()) if path.is_file() else {}


def _plain(text: str) -> str:
    """Return LaTeX text as plain text."""
    from pybtex.richtext import Text

    return str(Text.from_latex(text)).replace("\xa0", " ")


def _names(key: str) -> str:
    """Return the authors as a citation names them: one, `A and B`, or `A et al.`."""
    persons = _entries()[key].persons.get("author", [])
    last = [_plain(" ".join([*p.prelast_names, *p.last_names])) for p in persons]
    return f"{last[0]} et al." if len(last) > 2 else " and ".join(last)


def cite(keys: str, in_text: bool) -> str:
    """Return a citation of one or several keys: `Li et al. (2020)` in the text, else `(Li et al., 2020)`.

    A key that the bibliography does not have stays as it is, in brackets.
    """
    cited = []
    for key in re.split(r"\s*,\s*", keys.strip()):
        if key not in _entries():
            cited.append(f"[{key}]")
            continue
        year = _entries()[key].fields.get("year", "n.d.")
        cited.append(f"{_names(key)} ({year})" if in_text else f"{_names(key)}, {year}")
    if all(text.startswith("[") for text in cited):
        return f"[{', '.join(text.strip('[]') for text in cited)}]"
    return ", ".join(cited) if in_text else f"({'; '.join(cited)})"


def reference(key: str) -> str:
    """Return the full reference of a key: authors, year, title, where it appeared, and a link if there is one."""
    entry = _entries()[key]
    fields = {name: _plain(text) for name, text in entry.fields.items() if name != "url"}
    authors = ", ".join(
        _plain(" ".join([*p.first_names, *p.middle_names, *p.prelast_names, *p.last_names]))
        for p in entry.persons.get("author", [])
    )
    place = next(
        (fields[k] for k in ("journal", "booktitle", "publisher", "note") if k in fields), ""
    )
    if "doi" in fields:
        place += f" [doi:{fields['doi']}](https://doi.org/{fields['doi']})"
    if "eprint" in fields:
        place += f" [arXiv:{fields['eprint']}](https://arxiv.org/abs/{fields['eprint']})"
    where = f" {place.strip().rstrip('.')}." if place else ""
    return f"{authors} ({fields.get('year', 'n.d.')}). *{fields['title'].rstrip('.')}*.{where}"


def cited_keys(text: str) -> list[str]:
    """Return the keys that a chapter's text cites and the bibliography has, each once, by author and year."""
    roles = re.findall(r"\{cite:[pt]\}`([^`]*)`", text)
    keys = {key.strip() for role in roles for key in role.split(",")} & set(_entries())
    return sorted(
        keys, key=lambda key: (_names(key).lower(), _entries()[key].fields.get("year", ""))
    )
