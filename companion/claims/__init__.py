"""The claims of the papers, and the computations that decide them.

`registry`: `Claim`, `Evidence`, the verdicts, and the decorator `@claim(...)` that registers a claim.
`evidence`: the functions that decide the claims, a module per part of a paper; `experiments` has what the claims on
recorded runs share.
`ledger`: the table of all claims with their verdicts, for the terminal, the chapters and the book's page.

Imported from here: `fedstas` and `companion.runs`. To add a claim, write a function in a module of `evidence` with
`@claim(...)` above it (CONTRIBUTING.md, "A claim").
"""
