"""Who may be drawn on which seat: the probabilities of four designs on the same clients, and their figure."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from companion.pages import seats


@pytest.fixture(scope="module")
def worked():
    return seats.worked()


def test_a_seat_draws_someone_and_each_client_stands_where_it_belongs(worked):
    N, m = len(worked.omega), seats.SEATS
    assert list(worked.designs) == [seats.MD, seats.KMEANS, seats.CLUSTERED, seats.CUT]
    for name, p in worked.designs.items():
        assert p.shape == (m, N) and p.min() >= 0, name
        assert p.sum(1) == pytest.approx(np.ones(m)), name
        assert (p.sum(0) > 0).all(), name
    main = worked.counts.argmax(1)
    assert (np.diff(main) >= 0).all()
    assert worked.omega == pytest.approx(worked.counts.sum(1) / worked.counts.sum())


def test_md_and_clustered_sampling_draw_client_k_m_omega_k_times_in_expectation(worked):
    for name in (seats.MD, seats.CLUSTERED):
        assert worked.designs[name].sum(0) == pytest.approx(seats.SEATS * worked.omega), name


def test_strata_weigh_to_the_shares_and_keep_to_themselves(worked):
    omega, cut = worked.omega, worked.designs[seats.CUT]
    own = cut > 0
    assert (own.sum(0) == 1).all()  # a client on one seat
    shares = own @ omega
    assert cut == pytest.approx(own * omega / shares[:, None])  # p_k = omega_k / W_h
    assert shares @ cut == pytest.approx(omega)  # its expected weight
    kmeans = worked.designs[seats.KMEANS]
    kinds, seats_of = np.unique(kmeans > 0, axis=0, return_counts=True)
    assert len(kinds) == seats.SEATS // 2 < seats.SEATS == seats_of.sum()
    assert (kinds.sum(0) == 1).all()
    for kind in kinds:  # the seats of a stratum are alike
        same = kmeans[((kmeans > 0) == kind).all(1)]
        assert same == pytest.approx(np.tile(same[0], (len(same), 1)))


def test_clustered_sampling_splits_clients_over_seats(worked):
    over = (worked.designs[seats.CLUSTERED] > 1e-9).sum(0)
    assert over.max() >= 2 and (over == 1).sum() > len(over) / 2


def test_draws_from_strata_follow_the_measure():
    found = seats.of_strata([0, 1, 0], np.array([1.0, 5.0, 3.0]), [2, 1])
    assert found.tolist() == [[0.25, 0, 0.75], [0.25, 0, 0.75], [0, 1, 0]]


def test_the_figure_has_a_disc_for_each_chance():
    p = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    counts = np.array([[4, 0], [4, 0], [0, 8]])
    example = seats.Seats(dict.fromkeys("abcd", p), np.array([0.25, 0.25, 0.5]), counts)
    figure = seats.draw(example)
    assert [ax.get_title(loc="left") for ax in figure.axes] == list("abcd")
    (discs,) = figure.axes[2].collections
    assert discs.get_offsets().tolist() == [[0, 0], [1, 0], [2, 1]]
    areas = discs.get_sizes()
    assert areas[2] == 2 * areas[0] == 2 * areas[1]
    assert [t.get_text() for t in figure.axes[3].get_xticklabels()] == ["0", "1"]
    plt.close(figure)


def test_chapter_9_says_of_it_what_is_to_be_seen(worked):
    assert worked.omega.shape == (29,)
    many = {name: (p > 1e-9).sum(1).tolist() for name, p in worked.designs.items()}
    assert sorted(many[seats.KMEANS]) == [3, 4, 22, 22, 22, 22]
    assert min(many[seats.CUT]) == 4 and max(many[seats.CUT]) == 7
    assert ((worked.designs[seats.CLUSTERED] > 1e-9).sum(0) == 2).sum() == 5
