"""What participants send of their updates: quantised, noisy, and masked in a sum."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion import records
from companion.runs import sweeps, tables
from fedstas import methods, privacy, simulation
from fedstas.errors import InputError
from fedstas.sim import audit
from fedstas.sim.rng import stream
from fedstas.sim.server import Server
from fedstas.update_messages import MaskedUpdates, NoisyUpdates, QuantisedUpdates, mask

SETTINGS = {"rounds": 3, "clients_per_round": 5, "seed": 1, "device": "cpu"}
MESSAGES = (QuantisedUpdates(3), NoisyUpdates(0.5, 0.01), MaskedUpdates())


def run(task, federation, name="md", message=None, **options):
    """Run a method for three rounds."""
    method = methods.get(name, lr=0.3)
    return simulation.run(task, federation, method, message=message, **SETTINGS | options)


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=12), st.integers(1, 4), st.integers(1, 5))
def test_a_quantised_number_is_one_of_its_two_neighbours_and_right_on_average(
    update, levels, bucket
):
    """By enumeration of the two outcomes: with the generator at 0 a number is rounded down, just below 1 up."""

    class Constant:
        def __init__(self, value):
            self.value = value

        def random(self, shape):
            return np.full(shape, self.value)

    message, update = QuantisedUpdates(levels, bucket), np.array(update)
    down, up = (message.transmit(update, Constant(u)) for u in (0.0, 1 - 2**-53))
    padded = np.pad(update, (0, -len(update) % bucket)).reshape(-1, bucket)
    norms = np.repeat(np.linalg.norm(padded, axis=1), bucket)[: len(update)]
    step = norms / levels
    assert (np.abs(up - down) <= step * (1 + 1e-9)).all()
    assert (np.minimum(down, up) <= update + 1e-9).all()
    assert (update <= np.maximum(down, up) + 1e-9).all()


def test_quantised_updates_are_unbiased_and_their_bytes_are_counted():
    update = stream(0, "update").normal(size=40)
    message, rng = QuantisedUpdates(2, 16), stream(0, "quantised")
    draws = np.array([message.transmit(update, rng) for _ in range(20_000)])
    error = np.abs(draws.mean(0) - update) / (draws.std(0) / np.sqrt(len(draws)) + 1e-12)
    assert error.max() < 5  # of 40 means a correct one exceeds it in one of 40,000 tests
    # 40 numbers of a sign and a code 0, 1 or 2 (3 bits), and the norms of three buckets.
    assert message.count_bytes(40) == 15 + 3 * 4
    assert not QuantisedUpdates().transmit(np.zeros(5), rng).any()


def test_a_noisy_update_is_shortened_and_has_the_epsilon_of_its_noise():
    update, message = np.array([3.0, 4.0]), NoisyUpdates(clip=1.0, noise=1e-9)
    np.testing.assert_allclose(message.transmit(update, stream(0, "noise")), [0.6, 0.8], atol=1e-7)
    for epsilon in (0.1, 1.0, 8.0, 60.0):
        sigma = privacy.gaussian_sigma(epsilon, 1e-5, 2.0)
        assert NoisyUpdates(3.0, sigma).epsilon(1e-5) == pytest.approx(epsilon, rel=1e-6)
    assert NoisyUpdates(1.0, 0.005).epsilon() == pytest.approx(400**2 / 2 + 400 * 4.265, rel=1e-3)
    assert privacy.gaussian_epsilon(1e6, 0.5, 1.0) == 0.0


@given(st.integers(2, 5), st.integers(0, 100))
def test_masks_cancel_in_the_sum_and_each_message_alone_is_another_number(m, seed):
    message, rng = MaskedUpdates(), stream(seed, "updates")
    updates, weights = rng.normal(size=(m, 7)), rng.normal(size=m)
    terms = np.stack([message.encode(u, w) for u, w in zip(updates, weights, strict=True)])
    messages = mask(terms, lambda i, j: stream(seed, "pair", i, j))
    assert (messages != terms).any(1).all()
    total = message.decode(messages.sum(0, dtype=np.uint32))
    np.testing.assert_array_equal(total, message.decode(terms.sum(0, dtype=np.uint32)))
    np.testing.assert_allclose(total, weights @ updates, atol=m * 2**-24)


def test_masked_messages_are_uniform():
    """Bits of messages of a zero update: of 32 x 1,000 each is 1 in half of 1,000 pairs; a mean beyond 6 errors fails."""
    zero = np.zeros((2, 1000), np.uint32)
    messages = mask(zero, lambda i, j: stream(0, "pair", i, j))
    bits = np.unpackbits(messages.view(np.uint8), axis=1).mean(1)
    assert (np.abs(bits - 0.5) < 6 * 0.5 / np.sqrt(32_000)).all()


def test_what_a_mask_cannot_hide_and_numbers_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="one participant, whose update the sum would show"):
        mask(np.zeros((1, 3), np.uint32), lambda i, j: stream(0, "pair", i, j))
    with pytest.raises(InputError, match="not finite: use a smaller learning rate"):
        MaskedUpdates().encode([np.nan], 1.0)
    with pytest.raises(InputError, match="not below 128"):
        MaskedUpdates().encode([200.0], 1.0)


def test_terms_that_fit_but_whose_sum_does_not_are_refused():
    message = MaskedUpdates()  # 24 bits after the point: numbers below 128
    terms = np.stack([message.encode([value], 1.0) for value in (100.0, 27.0)])
    message.check_sum(terms)
    with pytest.raises(
        InputError, match=r"the sum .* is not below 128, .* use fewer fraction_bits"
    ):
        message.check_sum(np.stack([*terms, message.encode([1.0], 1.0)]))
    message.check_sum(np.stack([*terms, message.encode([-100.0], 1.0)]))


def test_a_masked_run_has_the_curve_of_the_plain_one_and_sees_no_update(digits, federation):
    for name in ("md", "clustered-size", "fednova"):
        plain, masked = (run(digits, federation, name, m) for m in (None, MaskedUpdates()))
        np.testing.assert_allclose(masked.params, plain.params, atol=1e-5)
        assert masked.frame["bytes_up"].tolist() == plain.frame["bytes_up"].tolist()
        assert masked.state.server.last_updates is None


def test_designs_that_ask_for_vectors_of_single_clients_are_refused_under_masks(digits, federation):
    """Exactly those whose entry says that they do not work under secure aggregation."""
    for name in ("md", "fedavg", "clustered-size", "clustered-similarity", "fedstas", "mifa"):
        if methods.secure(name) == "no":
            with pytest.raises(InputError, match="which secure aggregation hides"):
                run(digits, federation, name, MaskedUpdates())
        else:
            run(digits, federation, name, MaskedUpdates())
    wrapped = {n for n, f in vars(Server).items() if hasattr(f, "__wrapped__")}
    assert wrapped == audit.VECTORS
    with pytest.raises(InputError, match=r"drop is 0\.1"):
        run(digits, federation, "md", MaskedUpdates(), drop=0.1)
    with pytest.raises(InputError, match="message is 'rounded'"):
        run(digits, federation, "md", "rounded")


def test_a_server_compares_updates_as_they_were_sent(digits, federation):
    history = run(digits, federation, "clustered-similarity", QuantisedUpdates(1, 16))
    last = history.state.server.last_updates
    row = last[np.flatnonzero(last.any(1))[0]]
    values = {round(abs(float(x)), 6) for x in row[:16]}
    assert len(values - {0.0}) == 1  # one level: zero, or plus or minus the norm of the bucket


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_is_part_of_an_identity_only_where_it_is_set(
    message, digits, federation, tmp_path
):
    settings, method = {k: v for k, v in SETTINGS.items() if k != "device"}, methods.get("md")
    plain = records.identity(digits, federation, method, message=None, **settings)
    assert plain == records.identity(digits, federation, method, **settings)
    shape = {"clients": 20, "clients_per_round": 5, "rounds": 3, "message": message}
    declared = sweeps.Run("digits", "dirichlet", 0.1, "md", 0, **shape)
    assert sweeps.perform(declared, "sent", tmp_path) == "done"
    (record,) = records.read_runs(tmp_path / "sent")
    assert record.identity["message"]["is"] == type(message).__name__
    assert tables.record_key(record.identity) == tables.run_key(declared)
    again = records.rerun(record.run, tmp_path).frame
    pd.testing.assert_frame_equal(
        again.drop(columns="seconds"), record.frame().drop(columns="seconds")
    )
