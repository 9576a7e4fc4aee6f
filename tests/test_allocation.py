"""Allocations against the reference cases, rational arithmetic and brute force."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import REFERENCE

from fedstas import allocation
from fedstas.errors import InputError

CASES = REFERENCE["neyman"]["cases"]
IDS = [f"N={c['N']} S={c['S']} m={c['m']}".replace(" ", "") for c in CASES]


def variance(sizes, spreads, draws):
    """Return the exact sum of W_h^2 S_h^2 / m_h; None where a stratum with S_h > 0 has no participant."""
    total, result = sum(sizes), Fraction(0)
    for n, s, m in zip(sizes, spreads, draws, strict=True):
        if n and s:
            if not m:
                return None
            result += Fraction(n * s, total) ** 2 / int(m)
    return result


def list_bounded_allocations(sizes, m):
    """Return all allocations of m with 1 <= m_h <= N_h (0 where N_h = 0)."""
    ranges = [range(min(n, 1), min(n, m) + 1) for n in sizes]
    return [draws for draws in product(*ranges) if sum(draws) == m]


def round_largest_remainder(quotas, m):
    """Round rational quotas by largest remainder, ties to the lowest index."""
    draws = [q.numerator // q.denominator for q in quotas]
    order = sorted(range(len(quotas)), key=lambda h: (draws[h] - quotas[h], h))
    for h in order[: m - sum(draws)]:
        draws[h] += 1
    return draws


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_neyman_is_an_integer_optimum_of_the_reference_cases(case):
    draws = allocation.neyman(case["N"], case["S"], case["m"])
    assert draws.tolist() in case["int_opt"]
    if case["int_opt_V"] is not None:
        assert variance(case["N"], case["S"], draws) == Fraction(case["int_opt_V"])


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_neyman_real_is_equation_3_5_of_the_reference_cases(case):
    if case["real"] is None:
        with pytest.raises(InputError, match="0/0"):
            allocation.neyman_real(case["N"], case["S"], case["m"])
        return
    real = allocation.neyman_real(case["N"], case["S"], case["m"])
    np.testing.assert_allclose(real, [float(Fraction(x)) for x in case["real"]], rtol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_largest_remainder_of_the_reference_cases(case):
    assert allocation.proportional(case["N"], case["m"]).tolist() == case["prop_largest_remainder"]
    if case["real"] is not None:
        real = allocation.neyman_real(case["N"], case["S"], case["m"])
        rounded = allocation.largest_remainder(real, case["m"])
        assert rounded.tolist() == case["largest_remainder"]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_real_neyman_has_the_closed_form_variance_of_the_reference_cases(case):
    if case["V_real"] is None:
        pytest.skip("all spreads are zero in this case: eq. 3.5 is 0/0, nothing to compare")
    n, s = np.array(case["N"]), np.array(case["S"])
    closed = ((n / n.sum()) @ s) ** 2 / case["m"]
    assert closed == pytest.approx(float(Fraction(case["V_real"])), rel=1e-12)
    draws, used = allocation.neyman_real(n, s, case["m"]), s > 0
    attained = ((n * s / n.sum()) ** 2)[used] / draws[used]
    assert attained.sum() == pytest.approx(closed, rel=1e-12)


lists_of_sizes = st.lists(st.integers(0, 60), min_size=1, max_size=8).filter(any)


@given(lists_of_sizes, st.integers(0, 40))
def test_proportional_is_largest_remainder_in_rationals(sizes, m):
    draws = allocation.proportional(sizes, m)
    quotas = [Fraction(m * n, sum(sizes)) for n in sizes]
    assert draws.tolist() == round_largest_remainder(quotas, m)
    assert draws.sum() == m
    assert all(abs(s - q) < 1 for s, q in zip(draws.tolist(), quotas, strict=True))


@given(lists_of_sizes, st.integers(0, 40))
def test_largest_remainder_of_float_quotas_agrees_with_rationals(sizes, m):
    quotas = m * np.array(sizes) / sum(sizes)
    draws = allocation.largest_remainder(quotas, m)
    assert draws.tolist() == allocation.proportional(sizes, m).tolist()


def test_proportional_may_give_a_stratum_no_participant_and_breaks_ties_by_index():
    assert allocation.proportional([1, 99], 10).tolist() == [0, 10]
    assert allocation.proportional([1, 1, 1], 2).tolist() == [1, 1, 0]


def test_proportional_is_exact_where_floats_would_not_be():
    big = 10**9
    assert allocation.proportional([big, big, big + 1], 2).tolist() == [1, 0, 1]


short_lists_of_sizes = st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any)


@given(short_lists_of_sizes, st.data())
def test_neyman_is_optimal_among_all_bounded_allocations(sizes, data):
    spreads = data.draw(
        st.lists(st.integers(0, 9), min_size=len(sizes), max_size=len(sizes)), label="spreads"
    )
    m = data.draw(st.integers(sum(n > 0 for n in sizes), sum(sizes)), label="m")
    draws = allocation.neyman(sizes, spreads, m)
    assert draws.sum() == m
    assert all(min(n, 1) <= s <= n for n, s in zip(sizes, draws.tolist(), strict=True))
    best = min(variance(sizes, spreads, other) for other in list_bounded_allocations(sizes, m))
    assert variance(sizes, spreads, draws) == best


@given(short_lists_of_sizes, st.data())
def test_neyman_without_spreads_is_nearest_to_proportional(sizes, data):
    m = data.draw(st.integers(sum(n > 0 for n in sizes), sum(sizes)), label="m")
    quotas = [Fraction(m * n, sum(sizes)) for n in sizes]

    def distance(draws):
        """Return the squared distance from the proportional quotas."""
        return sum((int(s) - q) ** 2 for s, q in zip(draws, quotas, strict=True))

    draws = allocation.neyman(sizes, [0] * len(sizes), m)
    assert tuple(draws.tolist()) in list_bounded_allocations(sizes, m)
    best = min(distance(other) for other in list_bounded_allocations(sizes, m))
    assert float(distance(draws)) == pytest.approx(float(best), abs=1e-9)


@given(short_lists_of_sizes, st.data())
def test_priorities_need_no_upper_bound(sizes, data):
    totals = [n + 1 for n in sizes]
    m = data.draw(st.integers(len(totals), 12), label="m")
    ones = np.ones(len(totals))
    draws = allocation.by_priority(totals, m, lower=ones, upper=np.full(len(totals), m))
    others = [s for s in product(range(1, m + 1), repeat=len(totals)) if sum(s) == m]
    best = min(sum(Fraction(t * t, s) for t, s in zip(totals, o, strict=True)) for o in others)
    attained = sum(Fraction(t * t, s) for t, s in zip(totals, draws.tolist(), strict=True))
    assert attained == best


@pytest.mark.parametrize("exponent", [-1070, -900, 900, 1018])
def test_neyman_depends_only_on_the_ratios_of_the_spreads(exponent):
    sizes, spreads = [9, 30, 4, 7], np.array([3.0, 1, 11, 0])
    for m in (4, 11, 29):
        scaled = np.ldexp(spreads, exponent)
        expected = allocation.neyman(sizes, spreads, m)
        assert allocation.neyman(sizes, scaled, m).tolist() == expected.tolist()
        real = allocation.neyman_real(sizes, spreads, m)
        np.testing.assert_array_equal(allocation.neyman_real(sizes, scaled, m), real)
        totals = np.ldexp(sizes * spreads, exponent - 8)  # for by_priority itself
        draws = allocation.by_priority(totals, m, lower=np.ones(4), upper=sizes)
        if (
            m < 29
        ):  # else the last stratum, of priority zero, gets draws too, which `neyman` gives by quotas
            assert draws.tolist() == expected.tolist()


def test_a_stratum_of_one_client_gets_one_participant_whatever_its_spread():
    assert allocation.neyman([1, 20], [1e6, 1], 5).tolist() == [1, 4]


def test_an_empty_stratum_gets_no_participant():
    assert allocation.neyman([0, 4, 0, 4], [5, 1, 5, 1], 4).tolist() == [0, 2, 0, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: allocation.neyman([3, 3], [1, 1], 1), "m is 1.*from 2 to 6"),
        (lambda: allocation.neyman([3, 3], [1, 1], 7), "m is 7.*from 2 to 6"),
        (lambda: allocation.neyman([3, 3], [1], 4), "same shape"),
        (lambda: allocation.neyman([3, 3], [1, -1], 4), "spreads are .* finite numbers >= 0"),
        (lambda: allocation.neyman([3, 3], [1, np.nan], 4), "spreads are .* finite numbers >= 0"),
        (lambda: allocation.neyman_real([3, 3], [0, 0], 4), "0/0"),
        (lambda: allocation.neyman_real([3, 3], [1, 1], 0), "m is 0"),
        (lambda: allocation.proportional([3, -3], 4), "stratum sizes"),
        (lambda: allocation.proportional([0, 0], 4), "empty"),
        (lambda: allocation.proportional([], 4), "stratum sizes"),
        (lambda: allocation.proportional([2.5], 4), "stratum sizes"),
        (lambda: allocation.proportional([3], -1), "m is -1"),
        (lambda: allocation.proportional([3], 1.5), "m is 1.5"),
        (lambda: allocation.largest_remainder([1.5, 1.0], 3), "quotas sum to 2.5: .* m = 3"),
        (lambda: allocation.by_priority([1, 1], 1, lower=[1, 1], upper=[2, 2]), "m is 1.*2 to 4"),
        (lambda: allocation.by_priority([1, 1], 5, lower=[1, 1], upper=[2, 2]), "m is 5.*2 to 4"),
        (lambda: allocation.by_priority([1, 1], 3, lower=[2, 1], upper=[1, 2]), "no lower one may"),
        (lambda: allocation.by_priority([1, np.nan], 3, lower=[1, 1], upper=[2, 2]), "totals"),
        (lambda: allocation.by_priority([1], 3, lower=[1, 1], upper=[2, 2]), "same shape"),
        (lambda: allocation.by_priority([1], 10**12, lower=[1], upper=[10**9]), "at most 1000000"),
        (lambda: allocation.proportional([10**20], 4), "stratum sizes"),
        (lambda: allocation.proportional([np.inf], 4), "stratum sizes"),
        (lambda: allocation.proportional(["3"], 4), "stratum sizes"),
        (lambda: allocation.largest_remainder([4.0, -1.0], 3), "finite numbers >= 0"),
    ],
)
def test_bad_allocations_are_refused_with_the_bounds(call, message):
    with pytest.raises(ValueError, match=message) as exc_info:
        call()
    assert isinstance(exc_info.value, InputError)
