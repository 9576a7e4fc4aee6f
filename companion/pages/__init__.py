"""Chapters and all that stands on the book's pages.

Execution: `chapters` (runs one), `parameters` (reads and checks its parameters), `expectations` and `prose` (what cells
pass to the text), `warm` (saves imports in a build), `preview` (one page). Figures: `plots` (primitives and style),
`chNN` (figures and tables of chapter NN), the other modules named for what they draw; `explorer` (the instruments, named in `instruments`). Text:
`myst`, `markdown` (parsing), `copies` (plain notebooks), `measure` (length of sentences).

May import `companion.runs`, `companion.claims` and `fedstas`. A notebook imports its `chNN`, `chapters` and `prose`.

To add a chapter, write `notebooks/NN_name.py` and, for its figures, `chNN.py` here: the build finds both by name.
"""
