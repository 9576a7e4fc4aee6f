"""What a course needs: exercises that check answers, students' notebooks, slides, grades.

`check` (compares an answer with a solution, names an input that breaks it, gives hints), `exercises` (the exercises, a
module per chapter), `hidden_inputs` (what grading compares answers on besides), `teaching` (student's and instructor's
version of a chapter), `slides` (a chapter as one HTML file), `pack` (all of it in a folder), `grading` (of a folder of
submissions) and `submission` (executes one of them).

May import everything else of the companion. Chapters call `check.answer("module/name", answer)`; the commands
`fedstas teach`, `fedstas slides` and `fedstas grade` call the rest.

To add an exercise, declare it in its module of `exercises`, draw hidden inputs for it, and ask for it in the chapter.
"""
