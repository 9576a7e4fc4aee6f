"""Text tasks as tokens int64 [n, length], with 0 for padding: a synthetic corpus, and the 20 newsgroups.

`topics` makes 8,000 documents whose words are drawn independently from known distributions, so that the accuracy
of the best classifier is known too. It stands in for the news and reviews of FedSampling's slides, and has what
their argument needs: users with little and with much data, each with topics of its own.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from fedstas.arrays import number_names
from fedstas.sim import corpora
from fedstas.streams import stream

TOPICS, WORDS, USERS = 10, 1000, 100
LENGTHS = (4, 16)  # the smallest and the largest number of words in a document, as in headlines
TRAIN, TEST = 6000, 2000  # numbers of documents
TOPIC_SHARE = 0.4  # share of a document's words that are drawn from its topic's own words
CONCENTRATION = 0.3  # parameter of the Dirichlet distribution of a user's topics
SIZE_SIGMA = 1.0  # parameter of the log-normal distribution of the users' numbers of documents
NEWSGROUPS = "20news-bydate_py3.pkz"  # scikit-learn's file
AUTHOR = r"(?m)^From:(.*)$"  # header line of a post
ADDRESS = r"[\w.+%=!/-]+@[\w.-]+"
VOCABULARY = 5000  # the most frequent words, which have tokens of their own
MAX_WORDS = 100  # words of a post that are kept
WORD, ANY_WORD = "[a-z]+", r"[^\W_]+"  # in lower case: of English, and of any script with digits
UNKNOWN = 1  # the token of every other word
TITLE_WORDS = 12  # of a title of Reuters, of which the longest has 11
FREQUENT_WORDS = (
    1000  # the vocabulary of these titles, as that of `topics`, so that networks are as large
)


def word_distributions() -> np.ndarray:
    """Return the probabilities of the words 1..1000 (columns 0..999) in each topic, float64 [10, 1000].

    A topic is a mixture: with weight 3/5 Zipf's law (proportional to 1 / rank) over all words, with weight 2/5
    the same law over the topic's own words, which are every tenth word.
    """
    zipf = 1 / np.arange(1, WORDS + 1)
    topic_zipf = np.where(np.arange(WORDS) % TOPICS == np.arange(TOPICS)[:, None], zipf, 0)
    return (1 - TOPIC_SHARE) * zipf / zipf.sum() + TOPIC_SHARE * topic_zipf / topic_zipf.sum(
        1, keepdims=True
    )


def _draw_columns(
    probabilities: np.ndarray, rng: np.random.Generator, times: int = 1
) -> np.ndarray:
    """Draw columns from each row of probabilities [n, k], with replacement, int64 [n, times]."""
    cumulative = np.cumsum(probabilities, axis=1)
    rows = [np.searchsorted(c / c[-1], rng.random(times), side="right") for c in cumulative]
    return np.array(rows, dtype=np.int64)


def topics() -> dict[str, np.ndarray]:
    """Make the synthetic corpus, always the same.

    A user's share of the documents is log-normal, its topics are drawn from a Dirichlet distribution, lengths
    are uniform, and train and test are drawn alike.
    """
    rng = stream(0, "topics")
    shares = np.cumsum(np.exp(SIZE_SIGMA * rng.standard_normal(USERS)))
    _, longest = LENGTHS
    mixes = rng.dirichlet(np.full(TOPICS, CONCENTRATION), USERS)
    words, users = word_distributions(), {}
    arrays: dict[str, np.ndarray] = {}
    for split, n in (("train", TRAIN), ("test", TEST)):
        # The user of each of n documents in order: n equal steps along the users' cumulated shares.
        users[split] = np.searchsorted(shares / shares[-1], (np.arange(n) + 0.5) / n)
        y = _draw_columns(mixes[users[split]], rng)[:, 0]
        x = 1 + _draw_columns(words[y], rng, longest)
        lengths = rng.integers(*LENGTHS, n, endpoint=True)
        x[np.arange(longest) >= lengths[:, None]] = 0
        arrays |= {f"{split}_x": x, f"{split}_y": y}
    return arrays | {"users": users["train"]}


def find_author(post: str) -> str:
    """Return the address in a post's line "From:", in lower case, the whole line without one, or "" without either."""
    line = re.search(AUTHOR, post)
    sender = line[1].strip().lower() if line else ""
    address = re.search(ADDRESS, sender)
    return address[0] if address else sender


def fetch_newsgroups(root: Path) -> tuple:
    """Read the 20 newsgroups from the folder root: from the archive of `corpora`, else from scikit-learn's file, which
    it downloads if need be.

    Returns:
        For train and test a triple: texts without headers, footers and quotes; labels; authors, as `find_author`
        returns them.
    """
    from sklearn.datasets import _twenty_newsgroups, fetch_20newsgroups

    splits: list = []
    if (root / corpora.FOLDER / corpora.NEWSGROUPS).exists():
        for posts, labels in corpora.newsgroups(root):
            texts = posts
            for part in ("header", "footer", "quoting"):
                strip = getattr(_twenty_newsgroups, f"strip_newsgroup_{part}")
                texts = [strip(text) for text in texts]
            splits.append((texts, labels, [find_author(post) for post in posts]))
        return tuple(splits)
    with warnings.catch_warnings():
        # Ignored are warnings that a download is tried again; the caller reports a failure.
        warnings.simplefilter("ignore")
        for split in ("train", "test"):
            options = {"data_home": str(root), "subset": split, "shuffle": False, "n_retries": 1}
            plain = fetch_20newsgroups(**options, remove=("headers", "footers", "quotes"))
            posts = fetch_20newsgroups(**options).data
            splits.append((plain.data, plain.target, [find_author(post) for post in posts]))
    return tuple(splits)


def find_words(text: str, pattern: str = WORD) -> list[str]:
    """Return the words of a text, in lower case; `pattern` is the regular expression of a word."""
    return re.findall(pattern, text.lower())


def tokenise(
    train: tuple,
    test: tuple,
    length: int = MAX_WORDS,
    vocabulary: int | None = None,
    pattern: str = WORD,
) -> dict[str, np.ndarray]:
    """Convert texts, labels and authors, as `fetch_newsgroups` returns them, to arrays.

    The first `length` words of each text are kept. The `vocabulary` most frequent words of the training texts, so
    shortened, have the tokens from 2 on (ties in alphabetical order), by default 5,000; any other word has the token 1.
    A text without a word becomes one unknown word, so that its label and author are kept. Where texts have no authors,
    `train` is a pair, and there are no users. `pattern` is the regular expression of a word.
    """
    (train_texts, train_labels, *authors), (test_texts, test_labels, *_) = train, test
    texts_of = {"train": train_texts, "test": test_texts}
    labels_of = {"train": train_labels, "test": test_labels}
    split = {
        name: [find_words(text, pattern)[:length] for text in texts]
        for name, texts in texts_of.items()
    }
    counts = Counter(word for words in split["train"] for word in words)
    known = sorted(counts, key=lambda word: (-counts[word], word))[: vocabulary or VOCABULARY]
    number = {word: k for k, word in enumerate(known, UNKNOWN + 1)}
    arrays = {"users": number_names(*authors)} if authors else {}
    for name, texts in split.items():
        x = np.zeros((len(texts), length), dtype=np.int64)
        for row, words in zip(x, texts, strict=True):
            row[: max(1, len(words))] = [number.get(w, UNKNOWN) for w in words] or UNKNOWN
        arrays |= {f"{name}_x": x, f"{name}_y": np.asarray(labels_of[name], dtype=np.int64)}
    return arrays
