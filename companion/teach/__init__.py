"""What a course needs: exercises that check answers, students' notebooks, slides.

`check` (compares an answer with a solution, names an input that breaks it, gives hints), `exercises` (the exercises, a
module per chapter), `teaching` (student's and instructor's version of a chapter), `slides` (a chapter as one
HTML file).

May import everything else of the companion. Chapters call `check.answer("module/name", answer)`; the commands
`fedstas teach` and `fedstas slides` call the rest.

To add an exercise, declare it in its module of `exercises`, and ask for it in the chapter.
"""
