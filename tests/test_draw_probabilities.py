"""The probability that each draw of a round chooses each client, under four designs, and the figure of it."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from companion.pages import draw_probabilities
from companion.pages.draw_probabilities import (
    CLUSTERED,
    KMEANS,
    LEAST_VARIANCE,
    MD,
    PARTICIPANTS,
    probabilities_of_strata,
)


@pytest.fixture(scope="module")
def example():
    """Return the chapter's example: clients with their shares, and draw probabilities [m, N] of each design."""
    return draw_probabilities.example()


def test_each_draw_has_a_distribution_and_clients_are_ordered_by_their_largest_class(example):
    N, m = len(example.omega), PARTICIPANTS
    assert list(example.designs) == [MD, KMEANS, CLUSTERED, LEAST_VARIANCE]
    for name, p in example.designs.items():
        assert p.shape == (m, N) and p.min() >= 0, name
        assert p.sum(1) == pytest.approx(np.ones(m)), name
        assert (p.sum(0) > 0).all(), name
    largest_class = example.counts.argmax(1)
    assert (np.diff(largest_class) >= 0).all()
    assert example.omega == pytest.approx(example.counts.sum(1) / example.counts.sum())


def test_md_and_clustered_sampling_draw_client_k_m_omega_k_times_in_expectation(example):
    for name in (MD, CLUSTERED):
        assert example.designs[name].sum(0) == pytest.approx(PARTICIPANTS * example.omega), name


def test_stratified_draws_keep_to_one_stratum_and_have_the_shares_as_expected_weights(example):
    omega, p = example.omega, example.designs[LEAST_VARIANCE]
    member = p > 0
    assert (member.sum(0) == 1).all()  # one draw can choose a client
    shares = member @ omega
    assert p == pytest.approx(member * omega / shares[:, None])  # p_k = omega_k / W_h
    assert shares @ p == pytest.approx(omega)  # the expected weights
    kmeans = example.designs[KMEANS]
    strata, draws = np.unique(kmeans > 0, axis=0, return_counts=True)
    assert len(strata) == PARTICIPANTS // 2 < PARTICIPANTS == draws.sum()
    assert (strata.sum(0) == 1).all()
    for stratum in strata:  # all draws from a stratum have one distribution
        rows = kmeans[((kmeans > 0) == stratum).all(1)]
        assert rows == pytest.approx(np.tile(rows[0], (len(rows), 1)))


def test_clustered_sampling_splits_clients_over_draws(example):
    draws = (example.designs[CLUSTERED] > 1e-9).sum(0)
    assert draws.max() >= 2 and (draws == 1).sum() > len(draws) / 2


def test_draws_from_strata_are_in_proportion_to_the_measure():
    p = probabilities_of_strata([0, 1, 0], np.array([1.0, 5.0, 3.0]), [2, 1])
    # Two draws from the clients of measures 1 and 3, one from the client of measure 5.
    assert p.tolist() == [[0.25, 0, 0.75], [0.25, 0, 0.75], [0, 1, 0]]


def test_the_figure_has_a_disc_for_each_probability():
    p = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    counts = np.array([[4, 0], [4, 0], [0, 8]])
    clients = draw_probabilities.Example(
        dict.fromkeys("abcd", p), np.array([0.25, 0.25, 0.5]), counts
    )
    figure = draw_probabilities.draw_figure(clients)
    assert [ax.get_title(loc="left") for ax in figure.axes] == list("abcd")
    (discs,) = figure.axes[2].collections
    assert discs.get_offsets().tolist() == [[0, 0], [1, 0], [2, 1]]
    areas = discs.get_sizes()
    assert areas[2] == 2 * areas[0] == 2 * areas[1]
    assert [t.get_text() for t in figure.axes[3].get_xticklabels()] == ["0", "1"]
    plt.close(figure)


def test_the_figure_shows_what_chapter_9_states_of_it(example):
    assert example.omega.shape == (29,)
    candidates = {name: (p > 1e-9).sum(1).tolist() for name, p in example.designs.items()}
    assert sorted(candidates[KMEANS]) == [3, 4, 22, 22, 22, 22]
    assert min(candidates[LEAST_VARIANCE]) == 4 and max(candidates[LEAST_VARIANCE]) == 7
    assert ((example.designs[CLUSTERED] > 1e-9).sum(0) == 2).sum() == 5
