"""The exercises, one module per part of the book.

A module's `EXERCISES` maps a name to a `check.Function` or `check.Example`: its level, a solution, common mistakes
with the hint for each, and the inputs or the property that decide an answer. A module may import `fedstas`,
`fedstas.theory` and `companion.teach.check`.

To add one, declare it beside its solution; a chapter asks for it by `check.answer("module/name", ...)`. Tests hold that
the solution passes, and that each common mistake fails with its hint.
"""
