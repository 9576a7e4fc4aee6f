"""The ledger: every claim of the papers, and the computation that decides it.

`registry` has the decorator `@claim(id, paper=..., place=..., ...)`, which makes a row of the function below it;
`ledger` decides the rows, and shows them as a table and as text; `evidence` holds the functions.

May import `companion.runs` and `fedstas` with its packages. Chapters use `ledger.claims()` and the functions of
`evidence`; no verdict is written down anywhere.

To add a claim, write its function with the decorator in the module of `evidence` that treats its theorem or figure.
"""
