"""Set the formulas of statements and tables, which are typed in plain characters, as formulas of a page.

A claim's statement and the columns of an evidence are read in a terminal too, so they are typed: `N_h S_h`, `(1 - p_i)^m`.
On a page each phrase of FORMULAS stands as a formula.
"""

from __future__ import annotations

import re

import pandas as pd

FORMULAS = {  # as typed: in LaTeX, without the dollar signs
    "(1/m^2) sum_k r_ki (1 - r_ki)": r"\frac1{m^2} \sum_k r_{ki} (1 - r_{ki})",
    "(1/m^2)(sum_k r_ki^2 - m p_i^2) >= 0": r"\frac1{m^2} \big(\sum_k r_{ki}^2 - m p_i^2\big) \ge 0",
    "3/m (beta^2 |grad L|^2 + kappa^2)": r"\frac3m \big(\beta^2 \lVert\nabla L\rVert^2 + \kappa^2\big)",
    "prod_k (1 - r_ki) <= (1 - p_i)^m": r"\prod_k (1 - r_{ki}) \le (1 - p_i)^m",
    "1 - prod_k (1 - r_ki)": r"1 - \prod_k (1 - r_{ki})",
    "1 - (1 - p_i)^m": r"1 - (1 - p_i)^m",
    "p_i (1 - p_i)/m": r"p_i (1 - p_i)/m",
    "O(1/sqrt(mNT)) + O(mN/T)": r"O(1/\sqrt{mNT}) + O(mN/T)",
    "sqrt(m/(NT))": r"\sqrt{m/(NT)}",
    "floor(m p_i) + 2": r"\lfloor m p_i \rfloor + 2",
    "floor(m p_i)": r"\lfloor m p_i \rfloor",
    "O(n^2 log n)": r"O(n^2 \log n)",
    "O(n log n)": r"O(n \log n)",
    "O(n^2 d + X)": r"O(n^2 d + X)",
    "O(n m d + X)": r"O(n m d + X)",
    "1/(mu T)": r"1/(\mu T)",
    "O(omega^2/m)": r"O(\omega^2/m)",
    "O(chi^2/m)": r"O(\chi^2/m)",
    "α = (e^ε − 1)/(e^ε + M − 2)": r"\alpha = (e^\epsilon - 1)/(e^\epsilon + M - 2)",
    "α = (e^ε − 1)/(e^ε − 2 + M)": r"\alpha = (e^\epsilon - 1)/(e^\epsilon - 2 + M)",
    "((M−1)α + 1)/(1 − α)": r"((M-1)\alpha + 1)/(1 - \alpha)",
    "Var(r)/(|C|α²)": r"\mathrm{Var}(r)/(\lvert C\rvert \alpha^2)",
    "P(n*/ñ not in (0, 1])": r"P(n^*/\tilde n \notin (0, 1])",
    "V_SRS ≥ V_STaS": r"V_{SRS} \succeq V_{STaS}",
    "V_SRS": r"V_{SRS}",
    "V_STaS": r"V_{STaS}",
    "B_Cl = B_MD": r"B_{Cl} = B_{MD}",
    "r_ki = p_i": r"r_{ki} = p_i",
    "p_i >= 1/m": r"p_i \ge 1/m",
    "p_i <= 1/m": r"p_i \le 1/m",
    "(N/m) omega_k": r"\frac Nm \omega_k",
    "n_k, n, n*, n̄": r"n_k, n, n^*, \bar n",
    "n_k n* > n": r"n_k n^* > n",
    "n_k n*/n": r"n_k n^*/n",
    "p_k = n*/n": r"p_k = n^*/n",
    "⌊n*/m⌋": r"\lfloor n^*/m \rfloor",
    "n*/n_c": r"n^*/n_c",
    "n*/ñ": r"n^*/\tilde n",
    "n*/n": r"n^*/n",
    "n*/m": r"n^*/m",
    "η/ñ": r"\eta/\tilde n",
    "η/n": r"\eta/n",
    "N_h S_h": r"N_h S_h",
    "N_h/N": r"N_h/N",
    "m/N, m_h/N_h, 1/m_h and 1/N": r"m/N,\ m_h/N_h,\ 1/m_h \text{ and } 1/N",
    "m_h/N_h": r"m_h/N_h",
    "1/m_h": r"1/m_h",
    "∇F_k": r"\nabla F_k",
    "n_k/n": r"n_k/n",
    "n_i/M": r"n_i/M",
    "p_t^k": r"p_t^k",
    "omega_k": r"\omega_k",
    "alpha": r"\alpha",
    "m p_i": r"m p_i",
    "E p̃": r"\mathbb E\,\tilde p",
    "N_h": r"N_h",
    "S_h": r"S_h",
    "n_k": r"n_k",
    "n_i": r"n_i",
    "p_i": r"p_i",
    "ñ": r"\tilde n",
    "n̄": r"\bar n",
    "n*": r"n^*",
}
_TYPED = re.compile(
    r"(?<![\w$\\^{])(?:"
    + "|".join(re.escape(typed) for typed in sorted(FORMULAS, key=len, reverse=True))
    + r")(?![\w^$}\u0300-\u036f])"
)


def _escape(text: str) -> str:
    """Escape what Markdown would read as markup."""
    return re.sub(r"([*_`|<\[\]])", r"\\\1", text)


def set_formulas(text: str) -> str:
    """Return a typed statement as Markdown: its formulas between dollar signs, the rest escaped."""
    text, parts, end = str(text), [], 0
    for match in _TYPED.finditer(text):
        parts += [_escape(text[end : match.start()]), f"${FORMULAS[match[0]]}$"]
        end = match.end()
    return "".join([*parts, _escape(text[end:])])


def set_formulas_of_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of an evidence with the formulas of its columns' names and of its texts set."""
    texts = frame.map(lambda cell: set_formulas(cell) if isinstance(cell, str) else cell)
    return texts.rename(columns=lambda name: set_formulas(str(name)))
