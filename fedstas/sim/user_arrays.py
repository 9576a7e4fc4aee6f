"""Tasks from arrays, tensors or lists of the user's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Real

import numpy as np
import torch

from fedstas.arrays import as_array, as_names, number_names
from fedstas.errors import InputError, check_int, format_value
from fedstas.sim import text
from fedstas.sim.tasks import KEYS, LABEL_KEYS, TEST_EVERY, Task, check_tensors, tensors_digest
from fedstas.streams import stream

TEXT_HINT = "(if they are texts: from_texts)"
FLOAT32_STEPS = 256  # a column whose values span fewer steps of float32 is refused


def from_arrays(
    x,
    y,
    test_x=None,
    test_y=None,
    *,
    users=None,
    test_users=None,
    documents: bool = False,
    network: str = "",
) -> Task:
    """Make a task of training and test examples, in arrays, tensors, lists or columns of pandas.

    Args:
        x: examples [n, ...]; bytes are scaled to [0, 1], other numbers are taken as they are, as float32.
        y: labels int [n], from 0 on, without gaps.
        test_x: test examples, as x; without any, every fifth example of each class is one, with `users` in an order by
            user, so that each user gives about a fifth.
        test_y: their labels.
        users: the user of each training example [n], whole numbers from 0 on or words, for partition `natural`.
        test_users: the user of each test example, named as in `users`; then a run reports each client's accuracy on
            its own test examples. Of a test set that is split off the users are known.
        documents: whether x are tokens [n, length], with 0 for padding.
        network: as in `tasks.load`.

    Raises:
        InputError: a value is missing or not finite, float32 cannot tell the values of a column apart, the data do
            not fit together, or `tasks.check_tensors` refuses them.
    """
    _check_test_set("test_x", test_x, test_y)
    examples = {"x": x} | ({} if test_x is None else {"test_x": test_x})
    arrays = {name: as_array(name, each) for name, each in examples.items()}
    kinds = {name: array.dtype for name, array in arrays.items()}
    if not documents and len({kind == np.uint8 for kind in kinds.values()}) > 1:
        raise InputError(
            f"x is an array of {kinds['x']} and test_x one of {kinds['test_x']}: only bytes (uint8) are divided by 255, so "
            "give both in one type"
        )
    arrays = {name: _as_examples(name, each, documents) for name, each in arrays.items()}
    return _make_task(arrays, y, test_y, users, test_users, network)


def from_texts(
    texts,
    y,
    test_texts=None,
    test_y=None,
    *,
    users=None,
    test_users=None,
    length: int = text.MAX_WORDS,
    vocabulary: int = text.VOCABULARY,
    network: str = "",
) -> Task:
    """Make a task of texts, whose words become tokens.

    Words are runs of letters and digits of any script, in lower case. The most frequent ones of the training texts have
    tokens of their own; any other word has the token 1. A text without a word becomes one unknown word, with a warning, so
    that its label and its user are kept.

    Args:
        texts: of the examples, strings [n].
        y: as in `from_arrays`.
        test_texts: test examples, as texts; without any, see `from_arrays`.
        test_y: their labels.
        users: as in `from_arrays`.
        test_users: as in `from_arrays`.
        length: the number of words of a text that are kept.
        vocabulary: the number of words that have tokens of their own.
        network: as in `tasks.load`.

    Raises:
        InputError: an example is no text, or the data do not fit together.
    """
    _check_test_set("test_texts", test_texts, test_y)
    length, vocabulary = check_int("length", length, 1), check_int("vocabulary", vocabulary, 1)
    arrays = {"x": _as_texts("texts", texts)}
    if test_texts is not None:
        arrays["test_x"] = _as_texts("test_texts", test_texts)
    empty = sum(not text.find_words(each, text.ANY_WORD) for x in arrays.values() for each in x)
    if empty:
        one, count = empty == 1, sum(map(len, arrays.values()))
        warnings.warn(
            f"{empty} of {count} texts {'has no word and becomes' if one else 'have no word, and each becomes'} one unknown "
            f"word: leave {'it' if one else 'them'} out if {'its label' if one else 'their labels'} should not count",
            stacklevel=2,
        )

    def tokenise(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens of training texts and of test texts, int64 [n, length]."""
        with_labels = [(each, np.zeros(len(each))) for each in (train, test)]  # any will do
        tokens = text.tokenise(with_labels[0], with_labels[1], length, vocabulary, text.ANY_WORD)
        return tokens["train_x"], tokens["test_x"]

    return _make_task(arrays, y, test_y, users, test_users, network, tokenise)


def _check_test_set(name: str, test_x, test_y) -> None:
    """Raise an `InputError` if test examples, of this name, have no labels or the reverse."""
    if (test_x is None) != (test_y is None):
        raise InputError(f"a test set is {name} and test_y: give both, or neither")


def _as_texts(name: str, values) -> np.ndarray:
    """Return texts as an array of strings [n]; `InputError` that names the row of one that is none."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise InputError(f"{name} is {format_value(values)}: give a list of texts")
    texts = list(values)
    for row, each in enumerate(texts):
        if not isinstance(each, str):
            raise InputError(f"{name} has {format_value(each)} in row {row}: each must be a text")
    return np.array(texts, dtype=object)


def _make_task(
    arrays: dict[str, np.ndarray],
    y,
    test_y,
    users,
    test_users,
    network: str,
    encode: Callable[[np.ndarray, np.ndarray], Sequence[np.ndarray]] | None = None,
) -> Task:
    """Make a task of the examples "x" and, if given, "test_x" in `arrays`; other arguments as in `from_arrays`.

    `encode` makes numbers of training and test examples, once a test set is split off.
    """
    arrays |= {"y": _as_labels("y", y)}
    arrays |= {} if test_y is None else {"test_y": _as_labels("test_y", test_y)}
    if test_users is not None and (users is None or test_y is None):
        raise InputError(
            "test_users are of use only with users and with test_x and test_y: give them too"
        )
    if users is not None:
        arrays |= _number_users(users, test_users)
    for name in [name for name in arrays if not name.endswith("x")]:
        examples = arrays["test_x" if name.startswith("test") else "x"]
        if arrays[name].shape != (len(examples),):
            shape = f"{name} has shape {arrays[name].shape}"
            raise InputError(f"{shape}: it must be one for each of {len(examples)} examples")
    _check_classes(arrays)
    x, y, users = arrays["x"], arrays["y"], arrays.get("users")
    if test_y is None:
        is_test = every_fifth(y, users)
        x, y, test_x, test_y = x[~is_test], y[~is_test], x[is_test], y[is_test]
        if users is not None:
            users, test_users = users[~is_test], users[is_test]
            _warn_of_lost_users(users, test_users)
    else:
        test_x, test_y, test_users = arrays["test_x"], arrays["test_y"], arrays.get("test_users")
        if np.array_equal(x, test_x) and np.array_equal(y, test_y):
            message = "the test set is the training set: accuracies are of what was trained on"
            warnings.warn(message, stacklevel=3)
    if encode is not None:
        x, test_x = encode(x, test_x)
    tensors = {
        key: torch.from_numpy(np.ascontiguousarray(array))
        for key, array in zip(KEYS, (x, y, test_x, test_y), strict=True)
    }
    if users is not None:
        known = np.unique(users)
        users = number_names(users)
        if test_users is not None:  # -1 for a name that no training example has
            places = np.searchsorted(known, test_users).clip(max=len(known) - 1)
            test_users = np.where(known[places] == test_users, places, -1).astype(np.int64)
    classes = 1 + max(int(tensors[k].max()) if len(tensors[k]) else 0 for k in LABEL_KEYS)
    check_tensors(**tensors, classes=classes, users=users, test_users=test_users)
    digest = tensors_digest(tensors, users, test_users)
    names = {"users": users, "test_users": test_users}
    return Task("arrays", **tensors, classes=classes, digest=digest, network=network, **names)


def _number_users(users, test_users) -> dict[str, np.ndarray]:
    """Return the names of the users of training examples and, if given, of test examples, alike as numbers or words."""
    names = {"users": as_names("users", users)}
    if test_users is not None:
        names["test_users"] = as_names("test_users", test_users)
        # In one of them all are plain decimals.
        if len({each.dtype.kind for each in names.values()}) > 1:
            names = {key: each.astype(str) for key, each in names.items()}
    return names


def _as_numbers(name: str, values) -> np.ndarray:
    """Return the values as an array of numbers; `InputError` that names the row of one that is no number."""
    array = as_array(name, values)
    if array.dtype == object:  # of pandas, or of mixed types
        for row, each in enumerate(array):
            for value in np.ravel(np.asarray(each, dtype=object)):
                if not isinstance(value, Real):
                    advice = "each must be a number: fill in what is missing, or leave the row out"
                    if isinstance(value, str) and value.strip():
                        advice = f"each must be a number {TEXT_HINT}"
                    raise InputError(f"{name} has {format_value(value)} in row {row}: {advice}")
        array = np.array(array.tolist())
    if array.dtype.kind not in "fiub":
        hint = f" {TEXT_HINT}" if array.dtype.kind == "U" else ""
        raise InputError(f"{name} is an array of {array.dtype}: it must be one of numbers{hint}")
    return array


def _as_labels(name: str, values) -> np.ndarray:
    """Return labels as int64 [n]; `InputError` unless they are whole numbers from 0 on."""
    array, renumber = as_array(name, values), f"np.unique({name}, return_inverse=True)[1]"
    if array.dtype.kind in "US" or (
        array.dtype == object and isinstance(next(iter(array.flat), 0), str)
    ):
        raise InputError(f"{name} are words: number them, as {renumber}")
    if array.dtype == bool:
        raise InputError(
            f"{name} is an array of bool: number the classes 0 and 1, as {name}.astype(int)"
        )
    array = _as_numbers(name, array)
    if array.dtype.kind not in "iu":
        measured = "(a measured number names none)"
        if array.size and np.isfinite(array).all() and (array == np.floor(array)).all():
            whole = f"{name}.astype(int)" if array.min() >= 0 else renumber
            raise InputError(
                f"{name} is an array of {array.dtype}: number classes by {whole} {measured}"
            )
        kind = f"whole numbers from 0 on, which name classes {measured}"
        raise InputError(f"{name} is an array of {array.dtype}: it must be one of {kind}")
    if (array < 0).any():
        row = np.argwhere(array < 0)[0][0]
        raise InputError(
            f"{name} has {array[row]} in row {row}: number classes from 0 on, as {renumber}"
        )
    return array.astype(np.int64)


def _as_examples(name: str, values, documents: bool) -> np.ndarray:
    """Return examples as float32, or documents as int64, [n, ...]; bytes are scaled to [0, 1]."""
    array = _as_numbers(name, values)
    if not array.ndim:
        raise InputError(f"{name} is {format_value(values)}: it must be an array [n, ...]")
    if documents:
        if not np.array_equal(array, array.astype(np.int64)):
            row = np.argwhere(array != array.astype(np.int64))[0][0]
            raise InputError(f"{name} has a token in row {row} that is not whole")
        return array.astype(np.int64)
    with np.errstate(over="ignore"):
        converted = array.astype(np.float32)
    finite = np.isfinite(converted)
    if not finite.all():
        place = tuple(np.argwhere(~finite)[0])
        allowed = "numbers must be finite and at most 3.4e38, what float32 holds"
        raise InputError(f"{name} has {array[place]} in row {place[0]}: {allowed}")
    _check_resolution(name, array, converted)
    return converted / np.float32(255) if array.dtype == np.uint8 else converted


def _check_resolution(name: str, array: np.ndarray, converted: np.ndarray) -> None:
    """Raise an `InputError` where float32 merges the values of a column, as it does with times in seconds since 1970.

    A column may differ by rounding errors alone (a billionth of its values), or by steps that float32 holds exactly.
    """
    if array.dtype.itemsize < 4 or array.dtype == np.float32 or not array.size:
        return
    columns, rounded = array.reshape(len(array), -1), converted.reshape(len(array), -1)
    low, high = columns.min(0).astype(float), columns.max(0).astype(float)
    largest = np.maximum(abs(low), abs(high))
    with np.errstate(over="ignore"):
        width, step = high - low, np.spacing(largest.astype(np.float32)).astype(float)
    merged = (width > 1e-9 * largest) & (width < FLOAT32_STEPS * step)
    for column in np.flatnonzero(merged):
        if (columns[:, column] != rounded[:, column]).any():
            raise InputError(
                f"{name} goes from {low[column]:.15g} to {high[column]:.15g} in column {column}, and float32 merges its "
                "values: subtract the smallest, or scale the column"
            )


def _check_classes(arrays: dict[str, np.ndarray]) -> None:
    """Raise an `InputError` if a class has no example at all, or none for the test set that is to be split off."""
    different = np.unique(np.concatenate([arrays["y"], arrays.get("test_y", arrays["y"])]))
    gaps = np.flatnonzero(different != np.arange(len(different)))
    if len(gaps):
        largest = different[-1]
        raise InputError(
            f"there is no example of class {gaps[0]}: number the classes from 0 on without gaps, in place of "
            f"{different[0]}..{largest}"
        )
    counts = np.bincount(arrays["y"])
    if "test_y" not in arrays and len(counts) and counts.min() < TEST_EVERY:
        many = len(counts) > len(arrays["y"]) / TEST_EVERY
        hint = "; if they measure something, they name no classes" if many else ""
        raise InputError(
            f"y names {len(counts)} classes, and of class {counts.argmin()} there are {counts.min()} examples: "
            f"without a test set every {TEST_EVERY}th example of a class is one, so give {TEST_EVERY} of each, or "
            f"test_x and test_y{hint}"
        )


def every_fifth(labels: np.ndarray, users: np.ndarray | None = None) -> np.ndarray:
    """Return which examples are test examples where no test set is given, bool [n]: every fifth of each class.

    Where their users are known, the examples of a class are counted user by user, in an order of the users that is
    drawn for the class and is always the same: in the order of the data, every fifth could always be of one user.
    """
    is_test = np.zeros(len(labels), dtype=bool)
    numbers = None if users is None else number_names(users)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        if numbers is not None:
            place = stream(0, "test split", label).permutation(numbers.max() + 1)
            rows = rows[np.argsort(place[numbers[rows]], kind="stable")]
        is_test[rows[TEST_EVERY - 1 :: TEST_EVERY]] = True
    return is_test


def _warn_of_lost_users(users: np.ndarray, test_users: np.ndarray) -> None:
    """Warn of users all of whose examples were split off for the test."""
    lost = len(np.setdiff1d(test_users, users))
    if lost:
        count = len(np.union1d(test_users, users))
        warnings.warn(
            f"{lost} of {count} users keep no training example, since every {TEST_EVERY}th example of a class is a test "
            "example: give test_x and test_y, or more examples of each user",
            stacklevel=4,
        )
