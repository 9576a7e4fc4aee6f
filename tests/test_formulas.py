"""Statements and tables are typed in plain characters; on a page their formulas are set."""

import re

import pandas as pd
import pytest

from companion.claims import registry
from companion.pages import formulas

TYPED = re.compile(
    r"\w\\?_\w|\^|\bsqrt|\bfloor\(|\b(?:omega|alpha|beta|kappa|mu)\b|[<>]=|ñ|n̄|\bn\\?\*"
)


def outside_formulas(markdown: str) -> str:
    return re.sub(r"\$[^$]*\$", "", markdown)


def test_no_formula_of_a_statement_stays_as_typed():
    claims = [claim for claim in registry.all_claims() if claim.kind == "theory"]
    texts = [
        formulas.set_formulas(text) for claim in claims for text in (claim.place, claim.statement)
    ]
    assert len(texts) > 100
    assert [text for text in texts if TYPED.search(outside_formulas(text))] == []


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("Sec. 3.2, the formula of p_t^k", r"Sec. 3.2, the formula of $p_t^k$"),
        ("at most floor(m p_i) + 2 times", r"at most $\lfloor m p_i \rfloor + 2$ times"),
        ("all [of] them", r"all \[of\] them"),
        ("a name, n_kept, that is no symbol", r"a name, n\_kept, that is no symbol"),
    ],
)
def test_phrases_that_are_formulas_are_set_and_the_rest_is_escaped(typed, expected):
    assert formulas.set_formulas(typed) == expected


def test_a_table_has_its_columns_and_texts_set_and_its_numbers_left():
    frame = formulas.set_formulas_of_table(pd.DataFrame({"N_h": [3], "draws": ["n_k n*/n"]}))
    assert list(frame.columns) == ["$N_h$", "draws"]
    assert frame.iloc[0].tolist() == [3, "$n_k n^*/n$"]
