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

DOCUMENTS = torch.tensor([[3, 1, 4, 1, 5], [2, 7, 0, 0, 0], [6, 0, 0, 0, 0]])
DIGEST = "5e04f1e55a0caa1487383da180ccd08fa3815c551beb2fe4161eca2ac600f523"


@pytest.fixture(scope="module")
def corpus():
    return tasks.load("topics")


def network(name: str, tokens: int = 8, classes: int = 3):
    torch.manual_seed(0)
    return {"text-cnn": models.TextCNN, "transformer": models.Transformer}[name](
        tokens, classes
    ).double()


@pytest.mark.parametrize(("name", "size"), [("text-cnn", 42_314), ("transformer", 40_906)])
def test_networks_have_the_sizes_that_they_say(name, size):
    assert len(models.flatten(network(name, 1001, 10))) == size


@pytest.mark.parametrize("name", ["text-cnn", "transformer"])
@pytest.mark.parametrize("more", [1, 7])
def test_a_document_that_is_padded_further_has_the_same_logits(name, more):
    module = network(name)
    wider = torch.nn.functional.pad(DOCUMENTS, (0, more))
    torch.testing.assert_close(module(wider), module(DOCUMENTS), rtol=0, atol=1e-14)
    alone = module(DOCUMENTS[1:2, :2])  # nor what stands beside it
    torch.testing.assert_close(alone, module(DOCUMENTS)[1:2], rtol=0, atol=1e-14)
    other = module(torch.tensor([[2, 6, 0, 0, 0]]))
    assert (other - alone).abs().max() > 1e-3


def test_the_text_cnn_takes_the_largest_of_each_filter_over_windows_that_begin_at_a_word():
    module = network("text-cnn")
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
    module = network("transformer")
    layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True).double()
    theirs = {
        "self_attn.in_proj_": module.attend,
        "self_attn.out_proj.": module.joined,
        "linear1.": module.hidden,
        "linear2.": module.back,
        "norm1.": module.norm1,
        "norm2.": module.norm2,
    }
    state = {f"{k}{w}": getattr(v, w) for k, v in theirs.items() for w in ("weight", "bias")}
    layer.load_state_dict(state)
    place = [[p / 1e4 ** (i / 16) for i in range(16)] for p in range(5)]
    waves = torch.tensor([[*map(math.sin, row), *map(math.cos, row)] for row in place])
    words = module.words(DOCUMENTS) + waves.double()
    seen = layer(words, src_key_padding_mask=DOCUMENTS == 0)
    pairs = zip(seen, DOCUMENTS, strict=True)
    means = torch.stack([row[: (d > 0).sum()].mean(0) for row, d in pairs])
    torch.testing.assert_close(module(DOCUMENTS), module.output(means), rtol=0, atol=1e-7)


def test_the_corpus_is_always_the_same_and_says_whose_each_document_is(corpus):
    assert corpus.digest == DIGEST == tasks.load("topics").digest
    assert (corpus.train_x.dtype, corpus.train_x.shape) == (torch.int64, (6000, 16))
    assert (corpus.test_x.shape, corpus.classes, corpus.tokens) == ((2000, 16), 10, 1001)
    assert corpus.users.shape == (6000,) and set(corpus.users) == set(range(100))
    for x in (corpus.train_x, corpus.test_x):  # padding at the end alone
        assert ((x > 0).long().diff(dim=1) <= 0).all()


def test_the_words_of_each_topic_are_drawn_as_word_distributions_says(corpus, false_alarm):
    expected = text.word_distributions()
    np.testing.assert_allclose(expected.sum(1), 1, atol=1e-12)
    for x, y in ((corpus.train_x, corpus.train_y), (corpus.test_x, corpus.test_y)):
        for topic in range(10):
            drawn = np.bincount(x[y == topic].flatten(), minlength=1001)[1:]
            often = expected[topic] * drawn.sum() >= 5  # the others count together
            seen = np.append(drawn[often], drawn[~often].sum())
            mean = np.append(expected[topic][often], expected[topic][~often].sum()) * drawn.sum()
            assert stats.chisquare(seen, mean).pvalue > false_alarm / 20
            wrong = np.append(expected[topic - 1][often], expected[topic - 1][~often].sum())
            assert stats.chisquare(seen, wrong * drawn.sum()).pvalue < false_alarm


def test_lengths_are_uniform_and_users_unequal_with_topics_of_their_own(corpus, false_alarm):
    lengths = np.bincount((corpus.train_x > 0).sum(1))[4:]
    assert lengths.sum() == 6000 and len(lengths) == 13
    assert stats.chisquare(lengths).pvalue > false_alarm
    federation = partition.natural(corpus.train_y, corpus.users, 100, seed=0)
    assert federation.sizes.max() > 100 * federation.sizes.min() > 0
    share = federation.label_counts.max(1) / federation.sizes
    assert share.mean() > 0.4  # of a user's commonest topic; dealt at random it is about 0.2
    assert partition.iid(corpus.train_y, 100, 0).label_counts.max(1).mean() / 60 < 0.25


def test_the_best_classifier_of_the_corpus_is_known_and_right_in_88_of_100(corpus):
    words = np.log(text.word_distributions())
    words = np.concatenate([np.zeros((10, 1)), words], axis=1)  # padding says nothing
    prior = np.log(np.bincount(corpus.train_y) / 6000)
    result = (words[:, corpus.test_x.numpy()].sum(2).T + prior).argmax(1)
    right = (result == corpus.test_y.numpy()).mean()
    assert abs(right - 0.88) < 0.022  # three standard errors of 2,000 documents
    assert np.bincount(corpus.test_y).max() / 2000 < 0.15  # always the same topic


TRAIN = (["The cat; the CAT sat!", "a dog", "", "12 -- 34"], [0, 1, 1, 0], ["ann", "bo", "ann", ""])
TEST = (["a cat and a bird"], [1], ["cy"])


def test_words_are_numbered_by_how_often_they_occur_ties_by_alphabet():
    arrays = text.tokenise(TRAIN, TEST)
    # cat 2, the 2, a 1, dog 1, sat 1 are 2 to 6; 1 is any other, or a text without a word.
    result = [row[row > 0].tolist() for row in arrays["train_x"]]
    assert result == [[3, 2, 3, 2, 6], [4, 5], [1], [1]]
    assert arrays["test_x"][0, :6].tolist() == [4, 2, 1, 4, 1, 0]
    assert arrays["train_x"].shape == (4, 100)
    assert arrays["users"].tolist() == [1, 2, 1, 0]
    assert arrays["train_y"].tolist() == [0, 1, 1, 0]


def test_a_long_post_is_cut_and_the_vocabulary_is_that_of_what_is_kept(monkeypatch):
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
    def official(data_home, subset, shuffle, n_retries, remove=()):
        assert (data_home, shuffle) == (str(tmp_path), False)
        data = POSTS[subset][bool(remove)]
        return SimpleNamespace(data=data, target=np.arange(len(data)))

    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups", official)
    task = tasks.load("newsgroups", root=tmp_path, network="transformer")
    assert task.train_x[:, 0].tolist() == [2, 1]  # the second post is empty: one unknown word
    for key in ("train_x", "test_x"):  # none has a word
        with pytest.raises(InputError, match=f"{key} of task .* has an empty document"):
            replace(task, **{key: getattr(task, key)[:, :0]})
    assert task.test_x[0, :2].tolist() == [1, 0]
    assert (task.users.tolist(), task.classes, task.network) == ([0, 1], 2, "transformer")
    assert task.model(0)(task.test_x).shape == (1, 2)


def test_newsgroups_that_cannot_be_had_are_one_sentence_with_the_remedy(tmp_path, monkeypatch):
    def unreachable(**_):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups", unreachable)
    with pytest.raises(tasks.DataError) as caught:
        tasks.load("newsgroups", root=tmp_path)
    message = str(caught.value)
    for word in (str(tmp_path / text.NEWSGROUPS), "not known", "FEDSTAS_DATA", "task topics"):
        assert word in message
    assert "\n" not in message


def test_an_empty_document_is_refused_and_so_is_a_token_that_training_does_not_know(corpus):
    for key, change in (("train_x", 0), ("test_x", 0), ("test_x", 1001), ("test_x", -1)):
        x = getattr(corpus, key).clone()
        x[17] = change
        with pytest.raises(InputError, match=rf"{key} of task topics has an empty .*1\.\.1000"):
            replace(corpus, **{key: x})


@pytest.mark.parametrize(
    ("task", "network", "message"),
    [
        ("digits", "text-cnn", "'text-cnn' does not fit task digits, of images: use perceptron$"),
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


def test_a_runs_identity_names_the_network_only_where_it_is_not_the_usual_one(corpus):
    federation = partition.natural(corpus.train_y, corpus.users, 10, seed=0)
    how = {"rounds": 1, "clients_per_round": 2, "seed": 0}
    usual, named, other = (
        records.identity(replace(corpus, network=n), federation, methods.get("md"), **how)
        for n in ("", "text-cnn", "transformer")
    )
    assert usual == named and "network" not in usual
    assert other == usual | {"network": "transformer"}
    keys = {
        simulation.prepare(replace(corpus, network=n), federation, methods.get("md"), 2, 0).key
        for n in ("", "text-cnn", "transformer")
    }
    assert len(keys) == 2


def test_w_0_of_a_text_network_depends_on_the_seed_alone(corpus):
    for name in ("text-cnn", "transformer"):
        task = replace(corpus, network=name)
        one, two, other = (models.flatten(task.model(seed)) for seed in (4, 4, 5))
        assert torch.equal(one, two) and not torch.equal(one, other)


def test_a_sweep_deals_by_user_and_its_run_is_made_again_from_its_record(tmp_path):
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
    (result,) = records.read_runs(tmp_path)
    who = result.identity
    assert who["partition"] == {"name": "natural", "clients": 6, "seed": 0}
    assert who["network"] == "transformer"
    again = records.rerun(result.run, tmp_path, device="cpu").frame
    for key in ("train_loss", "test_accuracy", "examples"):
        assert again[key].tolist() == result.columns()[key].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text-cnn", "transformer"])
def test_fedsampling_learns_the_topics_from_the_users(name, corpus):
    federation = partition.natural(corpus.train_y, corpus.users, 100, seed=0)
    method = methods.get("fedsampling", lr=0.3, steps=5)
    history = simulation.run(
        replace(corpus, network=name),
        federation,
        method,
        rounds=30,
        clients_per_round=10,
        seed=0,
        eval_every=30,
        device="cpu",
    )
    assert history.frame["test_accuracy"].iloc[-1] > 0.3  # by chance 0.1, the commonest topic 0.14
