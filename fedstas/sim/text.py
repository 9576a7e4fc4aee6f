"""Text as tokens int64 [n, length], 0 for padding: a synthetic corpus, and the 20 newsgroups.

`topics` is no language: 8,000 documents drawn from word distributions that are known exactly, so that what
the best classifier reaches is known too. It stands in for the news and reviews of FedSampling's slides, which
cannot be had here, and shares with them what their argument needs: users with little or much data, each
with topics of its own. Words are independent, so their order says nothing.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter

import numpy as np

from fedstas.sim.rng import stream

TOPICS, WORDS, USERS, LENGTHS = 10, 1000, 100, (4, 16)  # words of a document, as in headlines
TRAIN, TEST = 6000, 2000
OWN = 0.4  # share of a document's words that come from its topic's own; the others are common
MIX, SPREAD = 0.3, 1.0  # users' topics: Dirichlet; the log of their sizes: standard deviation
NEWSGROUPS = "20news-bydate_py3.pkz"  # scikit-learn's file
FROM = r"(?m)^From:(.*)$"  # a post's author
KNOWN, KEPT = 5000, 100  # words of the vocabulary, and of a post
UNKNOWN = 1  # the token of every other word


def word_distributions() -> np.ndarray:
    """The probabilities of the words 1..1000 (columns 0..999) in each topic, float64 [10, 1000].

    Three fifths Zipf's law (1 over the rank), two fifths the same law within every tenth word, the
    topic's own.
    """
    zipf = 1 / np.arange(1, WORDS + 1)
    own = np.where(np.arange(WORDS) % TOPICS == np.arange(TOPICS)[:, None], zipf, 0)
    return (1 - OWN) * zipf / zipf.sum() + OWN * own / own.sum(1, keepdims=True)


def _pick(probabilities: np.ndarray, rng: np.random.Generator, times: int = 1) -> np.ndarray:
    """Columns drawn from each row of probabilities [n, k], int64 [n, times]."""
    heads = np.cumsum(probabilities, axis=1)
    rows = [np.searchsorted(h / h[-1], rng.random(times), side="right") for h in heads]
    return np.array(rows, dtype=np.int64)


def topics() -> dict[str, np.ndarray]:
    """The corpus, always the same: a user's share of the documents is log-normal, its topics are Dirichlet's,
    lengths are uniform, and train and test are drawn alike."""
    rng = stream(0, "topics")
    shares = np.cumsum(np.exp(SPREAD * rng.standard_normal(USERS)))
    mixes = rng.dirichlet(np.full(TOPICS, MIX), USERS)
    words, users = word_distributions(), {}
    arrays: dict[str, np.ndarray] = {}
    for split, n in (("train", TRAIN), ("test", TEST)):
        users[split] = np.searchsorted(shares / shares[-1], (np.arange(n) + 0.5) / n)
        y = _pick(mixes[users[split]], rng)[:, 0]
        x = 1 + _pick(words[y], rng, LENGTHS[1])
        x[np.arange(LENGTHS[1]) >= rng.integers(*LENGTHS, n, endpoint=True)[:, None]] = 0
        arrays |= {f"{split}_x": x, f"{split}_y": y}
    return arrays | {"users": users["train"]}


def fetch(root: str) -> tuple:
    """The 20 newsgroups from root, or downloaded into it by scikit-learn: texts, labels and authors of
    train and test. Headers, footers and quotes are no part of a text; the From line is its author."""
    from sklearn.datasets import fetch_20newsgroups

    found: list = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a second try; what it comes to is said by who calls
        for split in ("train", "test"):
            how = {"data_home": root, "subset": split, "shuffle": False, "n_retries": 1}
            plain = fetch_20newsgroups(**how, remove=("headers", "footers", "quotes"))
            whole = fetch_20newsgroups(**how).data
            authors = [m[1].strip() if (m := re.search(FROM, post)) else "" for post in whole]
            found.append((plain.data, plain.target, authors))
    return tuple(found)


def tokenised(train: tuple, test: tuple) -> dict[str, np.ndarray]:
    """Texts, labels and authors as arrays: the first 100 words of a text, the 5,000 that occur most often in those
    of the training texts as tokens from 2 on (ties by alphabet), any other word as 1.

    A text without a word is one unknown word: its label and its place with its author are kept.
    """
    parts = {"train": train, "test": test}
    split = {k: [re.findall("[a-z]+", t.lower())[:KEPT] for t in v[0]] for k, v in parts.items()}
    counts = Counter(word for words in split["train"] for word in words)
    known = sorted(counts, key=lambda word: (-counts[word], word))[:KNOWN]
    number = {word: k for k, word in enumerate(known, UNKNOWN + 1)}
    arrays = {"users": np.unique(train[2], return_inverse=True)[1].astype(np.int64)}
    for name, texts in split.items():
        x = np.zeros((len(texts), KEPT), dtype=np.int64)
        for row, words in zip(x, texts, strict=True):
            row[: max(1, len(words))] = [number.get(w, UNKNOWN) for w in words] or UNKNOWN
        arrays |= {f"{name}_x": x, f"{name}_y": np.asarray(parts[name][1], dtype=np.int64)}
    return arrays
