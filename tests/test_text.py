"""Text: a corpus whose word distributions are known, posts as tokens, and training on both."""

import math
import urllib.error
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from companion.runs import records, sweeps
from fedstas import methods, models, partition, simulation, tasks, text
from fedstas.errors import InputError
from fedstas.sim import corpora

DOCUMENTS = torch.tensor([[3, 1, 4, 1, 5], [2, 7, 0, 0, 0], [6, 0, 0, 0, 0]])
DIGEST = "5e04f1e55a0caa1487383da180ccd08fa3815c551beb2fe4161eca2ac600f523"


@pytest.fixture(scope="module")
def topics():
    """Return the synthetic corpus."""
    return tasks.load("topics")


def make_network(name: str, tokens: int = 8, classes: int = 3):
    """Return a text network in double precision."""
    torch.manual_seed(0)
    return {"text-cnn": models.TextCNN, "transformer": models.Transformer}[name](
        tokens, classes
    ).double()


@pytest.mark.parametrize(("name", "size"), [("text-cnn", 42_314), ("transformer", 40_906)])
def test_text_networks_have_the_documented_numbers_of_parameters(name, size):
    assert len(models.flatten(make_network(name, 1001, 10))) == size


@pytest.mark.parametrize("name", ["text-cnn", "transformer"])
@pytest.mark.parametrize("padding", [1, 7])
def test_a_document_that_is_padded_further_has_the_same_logits(name, padding):
    module = make_network(name)
    wider = torch.nn.functional.pad(DOCUMENTS, (0, padding))
    torch.testing.assert_close(module(wider), module(DOCUMENTS), rtol=0, atol=1e-14)
    second_document = module(DOCUMENTS[1:2, :2])  # nor do other documents of the batch matter
    torch.testing.assert_close(second_document, module(DOCUMENTS)[1:2], rtol=0, atol=1e-14)
    other_order = module(torch.tensor([[2, 6, 0, 0, 0]]))
    assert (other_order - second_document).abs().max() > 1e-3


def test_the_text_cnn_takes_the_largest_of_each_filter_over_windows_that_begin_at_a_word():
    module = make_network("text-cnn")
    for document, logits in zip(DOCUMENTS, module(DOCUMENTS), strict=True):
        words = [module.words.weight[k] for k in document if k]
        nothing, result = torch.zeros(32, dtype=torch.float64), []
        for conv in module.filters:
            k = conv.weight.shape[2]
            padded = words + [nothing] * (k - 1)
            windows = [torch.stack(padded[i : i + k]).T for i in range(len(words))]
            values = [(conv.weight * w).sum((1, 2)) + conv.bias for w in windows]
            result.append(torch.stack(values).amax(0).clamp(min=0))
        torch.testing.assert_close(logits, module.output(torch.cat(result)), rtol=0, atol=1e-13)


def test_the_transformer_is_torchs_own_encoder_layer_without_dropout():
    module = make_network("transformer")
    layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True).double()
    parts = {
        "self_attn.in_proj_": module.attend,
        "self_attn.out_proj.": module.joined,
        "linear1.": module.hidden,
        "linear2.": module.back,
        "norm1.": module.norm1,
        "norm2.": module.norm2,
    }
    state = {f"{k}{w}": getattr(v, w) for k, v in parts.items() for w in ("weight", "bias")}
    layer.load_state_dict(state)
    angles = [[p / 1e4 ** (i / 16) for i in range(16)] for p in range(5)]
    positional_encoding = torch.tensor(
        [[*map(math.sin, row), *map(math.cos, row)] for row in angles]
    )
    hidden = layer(
        module.words(DOCUMENTS) + positional_encoding.double(),
        src_key_padding_mask=DOCUMENTS == 0,
    )
    pairs = zip(hidden, DOCUMENTS, strict=True)
    means = torch.stack([row[: (d > 0).sum()].mean(0) for row, d in pairs])
    # 1e-7: the encoding is in single precision, the rest in double.
    torch.testing.assert_close(module(DOCUMENTS), module.output(means), rtol=0, atol=1e-7)


def test_the_corpus_has_a_recorded_digest_and_a_user_for_each_document(topics):
    assert topics.digest == DIGEST == tasks.load("topics").digest
    assert (topics.train_x.dtype, topics.train_x.shape) == (torch.int64, (6000, 16))
    assert (topics.test_x.shape, topics.classes, topics.tokens) == ((2000, 16), 10, 1001)
    assert topics.users.shape == (6000,) and set(topics.users) == set(range(100))
    for x in (topics.train_x, topics.test_x):  # padding at the end alone
        assert ((x > 0).long().diff(dim=1) <= 0).all()


def test_the_words_of_each_topic_have_the_documented_distribution(topics, false_alarm):
    expected = text.word_distributions()
    np.testing.assert_allclose(expected.sum(1), 1, atol=1e-12)
    for x, y in ((topics.train_x, topics.train_y), (topics.test_x, topics.test_y)):
        for topic in range(10):
            counts = np.bincount(x[y == topic].flatten(), minlength=1001)[1:]
            frequent = expected[topic] * counts.sum() >= 5  # the others count together
            observed = np.append(counts[frequent], counts[~frequent].sum())
            expected_counts = (
                np.append(expected[topic][frequent], expected[topic][~frequent].sum())
                * counts.sum()
            )
            assert stats.chisquare(observed, expected_counts).pvalue > false_alarm / 20
            of_another_topic = np.append(
                expected[topic - 1][frequent], expected[topic - 1][~frequent].sum()
            )
            assert stats.chisquare(observed, of_another_topic * counts.sum()).pvalue < false_alarm


def test_lengths_are_uniform_and_users_have_unequal_sizes_and_preferred_topics(topics, false_alarm):
    lengths = np.bincount((topics.train_x > 0).sum(1))[4:]
    assert lengths.sum() == 6000 and len(lengths) == 13
    assert stats.chisquare(lengths).pvalue > false_alarm
    federation = partition.natural(topics.train_y, topics.users, 100, seed=0)
    assert federation.sizes.max() > 100 * federation.sizes.min() > 0
    share = federation.label_counts.max(1) / federation.sizes
    assert share.mean() > 0.4  # of a user's commonest topic; dealt at random it is about 0.2
    assert partition.iid(topics.train_y, 100, 0).label_counts.max(1).mean() / 60 < 0.25


def test_the_best_classifier_of_the_corpus_has_an_accuracy_of_88_percent(topics):
    log_probabilities = np.log(text.word_distributions())
    # Padding says nothing.
    log_probabilities = np.concatenate([np.zeros((10, 1)), log_probabilities], axis=1)
    prior = np.log(np.bincount(topics.train_y) / 6000)
    predicted = (log_probabilities[:, topics.test_x.numpy()].sum(2).T + prior).argmax(1)
    accuracy = (predicted == topics.test_y.numpy()).mean()
    assert abs(accuracy - 0.88) < 0.022  # three standard errors of 2,000 documents
    assert np.bincount(topics.test_y).max() / 2000 < 0.15  # of the commonest topic


TRAIN = (["The cat; the CAT sat!", "a dog", "", "12 -- 34"], [0, 1, 1, 0], ["ann", "bo", "ann", ""])
TEST = (["a cat and a bird"], [1], ["cy"])


def test_words_are_numbered_by_frequency_and_ties_by_alphabet():
    arrays = text.tokenise(TRAIN, TEST)
    # cat 2, the 2, a 1, dog 1, sat 1 are 2 to 6; 1 is any other, or a text without a word.
    result = [row[row > 0].tolist() for row in arrays["train_x"]]
    assert result == [[3, 2, 3, 2, 6], [4, 5], [1], [1]]
    assert arrays["test_x"][0, :6].tolist() == [4, 2, 1, 4, 1, 0]
    assert arrays["train_x"].shape == (4, 100)
    assert arrays["users"].tolist() == [1, 2, 1, 0]
    assert arrays["train_y"].tolist() == [0, 1, 1, 0]


def test_a_long_post_is_cut_before_the_vocabulary_is_counted(monkeypatch):
    monkeypatch.setattr(text, "VOCABULARY", 2)
    posts = ["x " * 99 + "y z z z z", "q q q", "y"]
    arrays = text.tokenise((posts, [0, 0, 1], ["a"] * 3), TEST)
    assert arrays["train_x"][0].tolist() == [2] * 99 + [1]  # y is seen twice, q thrice, z never
    assert arrays["train_x"][1, :4].tolist() == [3, 3, 3, 0]


POSTS = {
    "train": (["From: ann\nSubject: x\n\ncat", "Subject: y\nFrom: bo (b)\n\n"], ["cat", ""]),
    "test": (["From: ann\n\ndog"], ["dog"]),
}


def test_newsgroups_come_from_scikit_learn_by_author_without_headers(tmp_path, monkeypatch):
    def fetch_posts(data_home, subset, shuffle, n_retries, remove=()):
        assert (data_home, shuffle) == (str(tmp_path), False)
        with_headers, without_headers = POSTS[subset]
        data = without_headers if remove else with_headers
        return SimpleNamespace(data=data, target=np.arange(len(data)))

    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups", fetch_posts)
    task = tasks.load("newsgroups-tokens", root=tmp_path, network="transformer")
    assert task.train_x[:, 0].tolist() == [2, 1]  # the second post is empty: one unknown word
    for key in ("train_x", "test_x"):  # none has a word
        with pytest.raises(InputError, match=f"{key} of task .* has an empty document"):
            replace(task, **{key: getattr(task, key)[:, :0]})
    assert task.test_x[0, :2].tolist() == [1, 0]
    assert (task.users.tolist(), task.classes, task.network) == ([0, 1], 2, "transformer")
    assert task.model(0)(task.test_x).shape == (1, 2)


def test_newsgroups_that_cannot_be_downloaded_are_reported_with_the_remedy(tmp_path, monkeypatch):
    def unreachable(**_):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups", unreachable)
    with pytest.raises(tasks.DataError) as exc_info:
        tasks.load("newsgroups-tokens", root=tmp_path)
    message = str(exc_info.value)
    for word in (str(tmp_path / text.NEWSGROUPS), "not known", "FEDSTAS_DATA", "task topics"):
        assert word in message
    assert "\n" not in message


def test_an_empty_document_is_refused_and_so_is_a_token_below_0(topics):
    for key, change in (("train_x", 0), ("test_x", 0), ("test_x", -1)):
        x = getattr(topics, key).clone()
        x[17] = change
        with pytest.raises(
            InputError, match=rf"{key} of task topics has .* in row 17: .*1\.\.1000"
        ):
            replace(topics, **{key: x})


@pytest.mark.parametrize(
    ("task", "network", "message"),
    [
        (
            "digits",
            "text-cnn",
            "'text-cnn' does not fit task digits, of images: use perceptron or linear$",
        ),
        ("digits", "convolutional", "'convolutional' does not fit task digits"),
        (
            "topics",
            "perceptron",
            "does not fit task topics, of documents: use text-cnn or transformer",
        ),
        ("topics", "lstm", "unknown network 'lstm': use one of .*text-cnn, transformer"),
    ],
)
def test_a_network_that_does_not_fit_the_task_is_refused(task, network, message):
    with pytest.raises(InputError, match=message):
        tasks.load(task, network=network)


def test_an_identity_names_the_network_only_if_it_is_not_the_tasks_default(topics):
    federation = partition.natural(topics.train_y, topics.users, 10, seed=0)  # ten users
    options = {"rounds": 1, "clients_per_round": 2, "seed": 0}
    default, named_default, transformer = (
        records.identity(replace(topics, network=n), federation, methods.get("md"), **options)
        for n in ("", "text-cnn", "transformer")
    )
    assert default == named_default and "network" not in default
    assert transformer == default | {"network": "transformer"}
    keys = {
        simulation.prepare(replace(topics, network=n), federation, methods.get("md"), 2, 0).key
        for n in ("", "text-cnn", "transformer")
    }
    assert len(keys) == 2  # a key is a hash, too: the default's is that of text-cnn


def test_the_initial_parameters_of_a_text_network_depend_on_the_seed_only(topics):
    for name in ("text-cnn", "transformer"):
        task = replace(topics, network=name)
        first, second, another_seed = (models.flatten(task.model(seed)) for seed in (4, 4, 5))
        assert torch.equal(first, second) and not torch.equal(first, another_seed)


def test_a_run_on_the_partition_by_user_is_repeated_from_its_record(tmp_path):
    run = sweeps.Run(
        "topics",
        "natural",
        0.1,
        "fedsampling",
        0,
        {"batch": 8},
        clients=6,
        rounds=2,
        network="transformer",
    )
    assert sweeps.make([run], "trial", folder=tmp_path, device="cpu", progress=False) == []
    (record,) = records.read_runs(tmp_path)
    identity = record.identity
    assert identity["partition"] == {"name": "natural", "clients": 6, "seed": 0}
    assert identity["network"] == "transformer"
    repeated = records.rerun(record.run, tmp_path, device="cpu").frame
    for key in ("train_loss", "test_accuracy", "examples"):
        assert repeated[key].tolist() == record.columns()[key].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text-cnn", "transformer"])
def test_fedsampling_learns_the_topics_from_the_users(name, topics):
    federation = partition.natural(topics.train_y, topics.users, 100, seed=0)
    method = methods.get("fedsampling", lr=0.3, steps=5)
    history = simulation.run(
        replace(topics, network=name),
        federation,
        method,
        rounds=30,
        clients_per_round=10,
        seed=0,
        eval_every=30,
        device="cpu",
    )
    assert history.frame["test_accuracy"].iloc[-1] > 0.3  # by chance 0.1, the commonest topic 0.14


def test_titles_are_cut_to_twelve_words_have_no_users_and_cannot_be_dealt_by_author(
    tmp_path, monkeypatch
):
    splits = (["A cat sat", "dogs " * 20], ["pets", "pets"]), (["a cat"], ["pets"])
    monkeypatch.setattr(corpora, "stories", lambda folder, part: splits)
    monkeypatch.setattr(corpora, "MIN_STORIES", 1)
    task = tasks.load("reuters-titles", root=tmp_path)
    assert (task.train_x.shape, task.network, task.users) == ((2, 12), "text-cnn", None)
    assert task.train_x[0, :4].tolist() == [3, 4, 5, 0] and (task.train_x[1] == 2).all()
    with pytest.raises(
        InputError,
        match=r"^partition natural needs data that name the user of each example: topics, newsgroups, newsgroups-tokens, "
        "newsgroups-words, shakespeare, or your own data",
    ):
        partition.natural(task.train_y, task.users, 2, seed=0)


def test_a_vocabulary_may_be_smaller():
    arrays = text.tokenise(
        TRAIN, TEST, 3, 2
    )  # of the first three words of each text: the 2; a and cat 1
    assert arrays["train_x"].tolist() == [[2, 1, 2], [3, 1, 0], [1, 0, 0], [1, 0, 0]]
