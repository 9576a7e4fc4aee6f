"""Every exercise: its solution is accepted, each of its mistakes is rejected with a reason, and so is anything else."""

import json
import re

import numpy as np
import pytest

from companion import check
from companion.pages import chapters, parameters
from fedstas.errors import InputError

NAMES = check.names()
FUNCTIONS = [n for n in NAMES if isinstance(check.exercise(n), check.Function)]
EXAMPLES = [n for n in NAMES if isinstance(check.exercise(n), check.Example)]
MISTAKES = [(n, i) for n in NAMES for i in range(len(check.exercise(n).mistakes))]


def test_every_part_has_three_exercises_of_three_levels():
    parts = {name.partition("/")[0] for name in NAMES}
    assert len(parts) >= 7
    for part in parts:
        levels = [check.exercise(n).level for n in NAMES if n.startswith(f"{part}/")]
        assert len(levels) >= 3, part
        assert set(levels) >= {1, 2, 3}, part
        assert set(levels) <= {1, 2, 3}, part


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_is_accepted(name):
    result = check.answer(name, check.exercise(name).solution)
    assert result, result.message
    assert str(result).startswith("Right")


@pytest.mark.parametrize("name", NAMES)
def test_every_exercise_has_two_mistakes_and_a_function_three_inputs(name):
    exercise = check.exercise(name)
    assert len(exercise.mistakes) >= 2
    if isinstance(exercise, check.Function):
        assert len(exercise.inputs) >= 3
        assert all(isinstance(arguments, tuple) for arguments in exercise.inputs)
        assert all(len(hint) > 20 and hint.endswith((".", "?")) for hint in exercise.mistakes)


@pytest.mark.parametrize(("name", "place"), MISTAKES, ids=[f"{n}-{i}" for n, i in MISTAKES])
def test_each_mistake_is_rejected_and_the_message_says_why(name, place):
    exercise = check.exercise(name)
    if isinstance(exercise, check.Example):
        result = check.answer(name, exercise.mistakes[place])
        assert not result
        assert len(result.message) > len("Not yet: ") + 10
        assert "could not be read" not in result.message
        return
    hint, wrong = list(exercise.mistakes.items())[place]
    result = check.answer(name, wrong)
    assert not result
    assert result.message.startswith("Not yet: for (")
    assert hint in result.message


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_fails_or_returns_another_kind_is_rejected_with_a_reason(name):
    def fail(*arguments):
        raise KeyError("m")

    result = check.answer(name, 3)
    assert not result and "must be a function, not int" in result.message
    result = check.answer(name, fail)
    assert not result and "it raises KeyError: 'm'" in result.message
    result = check.answer(name, lambda: 0)
    assert not result and "it raises TypeError" in result.message
    for wrong_value in ("text", [], np.zeros((7, 5, 3)), {"a": 1}, [[1], [2, 3]]):
        result = check.answer(name, lambda *arguments, value=wrong_value: value)
        assert not result and "it gives" in result.message


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_answer_is_rejected_with_the_form_that_is_expected(name):
    empty = [..., None, (..., ...)]
    if name in FUNCTIONS:
        empty += [lambda *arguments: None, lambda *arguments: ...]
    for answer in empty:
        message = check.answer(name, answer).message
        assert message.startswith("Nothing answered yet: replace the ... by ")
        assert message.endswith(".") and "None" not in message and "Error" not in message


@pytest.mark.parametrize(
    "answer", ["CDE", "c,d,e", "(c), (d), (e)", ["c", "d", "e"], {"C", "d", "e"}]
)
def test_letters_may_be_a_string_a_list_or_a_set(answer):
    assert check.answer("aggregation/five-designs", answer)
    assert not check.answer("aggregation/five-designs", list(answer)[:1])


def test_the_message_about_a_misspelt_name_has_similar_ones():
    with pytest.raises(InputError, match="try aggregation/five-designs") as refusal:
        check.answer("agregation/five-design", "cde")
    assert "\n" not in str(refusal.value)


def test_a_tuple_of_one_element_is_formatted_as_a_tuple():
    assert check._format(((0,), (1, 2), [3])) == "((0,), (1, 2), [3])"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_another_kind_is_rejected(name):
    for example in ("text", [], -1, object(), lambda: 0, np.zeros((7, 5, 3)), {"a": 1}):
        result = check.answer(name, example)
        assert not result
        assert result.message.startswith("Not yet: ")


def test_an_unknown_exercise_is_refused():
    for name in ("", "clusters", "clusters/", "nowhere/at-all"):
        with pytest.raises(InputError, match="unknown exercise"):
            check.exercise(name)
    with pytest.raises(InputError, match="unknown exercise"):
        check.answer("nowhere/at-all", 1)


def test_a_result_prints_its_message_and_has_a_truth_value():
    result = check.Result(False, "Not yet: no.")
    assert not result and repr(result) == "Not yet: no."
    assert check.Result(True, "Right.")


def test_numbers_are_compared_within_the_tolerance_and_kinds_exactly():
    equal = check._equal
    assert equal(1 + 1e-12, 1, 1e-9) and not equal(1.1, 1, 1e-9)
    assert equal([1, 2], (1.0, 2.0), 1e-9) and not equal([1, 2], [1, 2, 3], 1e-9)
    assert equal(float("nan"), float("nan"), 1e-9)
    assert equal(None, None, 0) and not equal(0, None, 0) and not equal(1, True, 0)
    assert equal("a", "a", 0) and not equal("a", "b", 0)


PAGES = sorted((parameters.ROOT / "book" / "chapters").glob("*.ipynb"))


@pytest.mark.skipif(not PAGES, reason="no chapter is executed here: `make book` does it")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_an_executed_page_accepts_each_of_its_solutions(page):
    """A solution may also show answers that are rejected."""
    for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
        code = "".join(cell["source"])
        checks = code.count("check.answer(") if cell["cell_type"] == "code" else 0
        if checks:
            texts = [o.get("text") or o["data"]["text/plain"] for o in cell["outputs"]]
            output = "".join("".join(text) for text in texts)
            assert output.count("Right") >= checks, f"{page.stem}: {output}"


@pytest.mark.parametrize("stem", chapters.names())
def test_a_chapter_checks_all_exercises_of_its_part(stem):
    text = (parameters.ROOT / "notebooks" / f"{stem}.py").read_text(encoding="utf-8")
    if stem in ("04_theory", "10a_own_data", "10b_own_loop", "10c_first_comparison"):
        return  # an opening: the exercises stand in its parts; and a page on how to do things
    if stem in ("09a_proofs", "09b_variations", "09c_corrected_lemmas"):
        return  # appendices of chapter 09, which has the exercises
    checked = re.findall(r'check\.answer\("([^"]+)"', text)
    part = checked[0].partition("/")[0]
    assert set(checked) == {name for name in NAMES if name.startswith(f"{part}/")}
