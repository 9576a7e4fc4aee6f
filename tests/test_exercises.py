"""Every exercise: its solution is accepted, each of its mistakes is rejected with the sentence or the input
that says why, and answers that are no answers do no harm."""

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
WRONG = [(n, i) for n in NAMES for i in range(len(check.exercise(n).mistakes))]


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
def test_there_are_two_mistakes_and_the_inputs_can_tell_them_apart(name):
    asked = check.exercise(name)
    assert len(asked.mistakes) >= 2
    if isinstance(asked, check.Function):
        assert len(asked.inputs) >= 3
        assert all(isinstance(arguments, tuple) for arguments in asked.inputs)
        assert all(len(said) > 20 and said.endswith((".", "?")) for said in asked.mistakes)


@pytest.mark.parametrize(("name", "place"), WRONG, ids=[f"{n}-{i}" for n, i in WRONG])
def test_each_mistake_is_rejected_and_the_message_says_why(name, place):
    asked = check.exercise(name)
    if isinstance(asked, check.Example):
        result = check.answer(name, asked.mistakes[place])
        assert not result
        assert len(result.message) > len("Not yet: ") + 10
        assert "could not be read" not in result.message
        return
    said, wrong = list(asked.mistakes.items())[place]
    result = check.answer(name, wrong)
    assert not result
    assert result.message.startswith("Not yet: for (")
    assert said in result.message


@pytest.mark.parametrize("name", FUNCTIONS)
def test_answers_that_are_no_answers_are_told_so(name):
    def raising(*arguments):
        raise KeyError("m")

    result = check.answer(name, 3)
    assert not result and "must be a function, not int" in result.message
    result = check.answer(name, raising)
    assert not result and "it raises KeyError: 'm'" in result.message
    result = check.answer(name, lambda: 0)
    assert not result and "it raises TypeError" in result.message
    for shape in ("text", [], np.zeros((7, 5, 3)), {"a": 1}, [[1], [2, 3]]):
        result = check.answer(name, lambda *arguments, shape=shape: shape)
        assert not result and "it gives" in result.message


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_answer_is_told_what_to_put_there(name):
    empty = [..., None, (..., ...)]
    if name in FUNCTIONS:
        empty += [lambda *arguments: None, lambda *arguments: ...]
    for mine in empty:
        said = check.answer(name, mine).message
        assert said.startswith("Nothing answered yet: replace the ... by ") and "Error" not in said
        assert said.endswith(".") and "None" not in said


@pytest.mark.parametrize(
    "mine", ["CDE", "c,d,e", "(c), (d), (e)", ["c", "d", "e"], {"C", "d", "e"}]
)
def test_letters_may_be_handed_in_as_one_likes(mine):
    assert check.answer("aggregation/five-designs", mine)
    assert not check.answer("aggregation/five-designs", list(mine)[:1])


def test_a_misspelt_name_is_told_the_nearest_ones():
    with pytest.raises(InputError, match="try aggregation/five-designs") as told:
        check.answer("agregation/five-design", "cde")
    assert "\n" not in str(told.value)


def test_a_tuple_of_one_is_shown_as_such():
    assert check._format(((0,), (1, 2), [3])) == "((0,), (1, 2), [3])"


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_that_are_no_examples_are_told_so(name):
    for offered in ("text", [], -1, object(), lambda: 0, np.zeros((7, 5, 3)), {"a": 1}):
        result = check.answer(name, offered)
        assert not result
        assert result.message.startswith("Not yet: ")


def test_an_unknown_exercise_is_refused():
    for name in ("", "clusters", "clusters/", "nowhere/at-all"):
        with pytest.raises(InputError, match="unknown exercise"):
            check.exercise(name)
    with pytest.raises(InputError, match="unknown exercise"):
        check.answer("nowhere/at-all", 1)


def test_a_result_is_its_message_and_its_truth():
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
def test_every_solution_on_a_page_is_accepted(page):
    """As the executed page says; a solution may show answers that are not accepted, too."""
    for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
        code = "".join(cell["source"])
        asked = code.count("check.answer(") if cell["cell_type"] == "code" else 0
        if asked:
            told = [o.get("text") or o["data"]["text/plain"] for o in cell["outputs"]]
            said = "".join("".join(text) for text in told)
            assert said.count("Right") >= asked, f"{page.stem}: {said}"


@pytest.mark.parametrize("stem", chapters.names())
def test_chapters_check_exercises_that_exist_and_nobody_is_forgotten(stem):
    text = (parameters.ROOT / "notebooks" / f"{stem}.py").read_text(encoding="utf-8")
    if stem in ("04_theory", "10a_own_data"):
        return  # an opening: the exercises stand in its parts; and a page on how to do things
    asked = dict.fromkeys(re.findall(r'check\.answer\("([^"]+)"', text))
    assert set(asked) <= set(NAMES), stem
    part = next(iter(asked)).partition("/")[0]
    assert list(asked) and set(asked) == {name for name in NAMES if name.startswith(f"{part}/")}
