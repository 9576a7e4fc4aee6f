"""Calls of the public functions and command lines, with valid, extreme and wrong arguments.

A call returns a finite result or raises an `InputError` of one sentence; a command ends with exit code 0, 1
(a run that diverged, or a difference) or 2 and one sentence, never with a traceback. Each has a number:
`repeat(seed, number)` and `repeat(seed, number, commands=True)` repeat it.
"""

import contextlib
import inspect
import io
import math
import os
import signal
import tempfile
import time
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np

from fedstas import (
    aggregation,
    allocation,
    client_sampling,
    clustered,
    compression,
    corrected,
    data_sampling,
    methods,
    privacy,
    stratification,
    theory,
)
from fedstas.errors import Diverged, InputError
from fedstas.sim import partition
from fedstas.sim.rng import stream

SECONDS = 30  # of one call
SCALARS = [
    math.nan,
    math.inf,
    -math.inf,
    0,
    -1,
    1,
    2,
    1.5,
    5e-324,
    1e-300,
    1e308,
    1e20,
    10**30,
    2**63,
]
SCALARS += [
    "3",
    "",
    "md",
    None,
    True,
    np.float64("nan"),
    np.int64(3),
    np.float32(0.5),
    Fraction(1, 3),
]
ARRAYS = [
    [],
    [math.nan] * 4,
    [math.inf, 1],
    [5e-324] * 4,
    [5e-324, 1, 2, 1e308],
    [1e308] * 4,
    [0] * 4,
]
ARRAYS += [
    [-1, 2, 3, 4],
    ["a", "b"],
    ["1", "2", "3", "4"],
    "abc",
    None,
    5,
    [[1, 2], [3]],
    [10**30] * 4,
]
ARRAYS += [
    np.zeros(0),
    np.ones((3, 3)),
    np.zeros((0, 4)),
    np.arange(4, dtype=np.uint8),
    [1e20, 1, 1, 1],
]
ARRAYS += [np.ones(4, dtype=np.float16), np.ones(4, dtype=bool), np.array([None, 1]), [2**40] * 4]
ARRAYS += [np.ldexp(np.arange(8.0).reshape(4, 2), e) for e in (-1074, -600, 600, 1020)]
# Functions whose exact result may be infinite, as epsilon is at alpha = 1.
INFINITE = {"epsilon", "composed_epsilon", "allocation_variance", "raw_rate_error", "report_ratio"}


def _valid_values(rng) -> dict:
    """Draw valid values, from which the functions' arguments are made."""
    n, h, m = int(rng.integers(2, 7)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    scale = 10.0 ** rng.choice([0, 0, 0, -30, 30, -200, 200])
    sizes, labels = rng.integers(1, 20, n), rng.integers(0, 3, 60)
    values, measure = rng.integers(-5, 6, n), rng.integers(1, 9, n)
    rows = scale * rng.standard_normal((n, 6)).astype(rng.choice(["float32", "float64"]))
    strata = rng.integers(1, 20, h)
    lower = np.minimum(strata, rng.integers(0, 3, h))
    seats = int(rng.integers(lower.sum(), strata.sum() + 1))
    return {
        "rng": rng,
        "n": n,
        "m": m,
        "scale": scale,
        "sizes": sizes,
        "labels": labels,
        "values": values,
        "measure": measure,
        "rows": rows,
        "strata": strata,
        "lower": lower,
        "seats": seats,
        "alpha": float(rng.random()),
        "cap": int(rng.integers(3, 12)),
        "seed": int(rng.integers(99)),
        "p": measure / measure.sum(),
        "spreads": scale * rng.random(h),
        "count": int(rng.integers(2, 9)),
        "groups": [[int(k)] for k in range(n)],
        "fine": int(rng.choice([2, 4, 9, 32, 256])),
    }


# Each function with its valid arguments, made of `_valid_values`.
CALLS = [
    (compression.squeeze, lambda s: {"gradients": s["rows"], "levels": s["fine"]}),
    (stratification.coordinates, lambda s: {"features": s["rows"]}),
    (stratification.round_to_grid, lambda s: {"points": s["rows"]}),
    (
        stratification.stratify,
        lambda s: {"features": s["rows"], "strata": s["m"], "seed": s["seed"]},
    ),
    (
        stratification.within_stratum_std,
        lambda s: {"features": s["rows"], "labels": np.arange(s["n"]) % 2},
    ),
    (allocation.largest_remainder, lambda s: {"quotas": s["m"] * s["p"], "m": s["m"]}),
    (allocation.proportional, lambda s: {"sizes": s["strata"], "m": s["seats"]}),
    (
        allocation.neyman_real,
        lambda s: {"sizes": s["strata"], "spreads": s["spreads"], "m": s["m"]},
    ),
    (allocation.neyman, lambda s: {"sizes": s["strata"], "spreads": s["spreads"], "m": s["seats"]}),
    (
        allocation.by_priority,
        lambda s: {
            "totals": s["spreads"],
            "m": s["seats"],
            "lower": s["lower"],
            "upper": s["strata"],
        },
    ),
    (privacy.truth_probability, lambda s: {"epsilon": 9 * s["alpha"] + 0.1, "size_cap": s["cap"]}),
    (privacy.epsilon, lambda s: {"alpha": s["alpha"], "size_cap": s["cap"]}),
    (privacy.clip, lambda s: {"sizes": s["sizes"], "size_cap": s["cap"]}),
    (
        privacy.report,
        lambda s: {"sizes": s["sizes"], "size_cap": s["cap"], "alpha": s["alpha"], "rng": s["rng"]},
    ),
    (
        privacy.estimate_total,
        lambda s: {"reports": s["sizes"], "size_cap": s["cap"], "alpha": s["alpha"]},
    ),
    (
        privacy.estimate_variance,
        lambda s: {"sizes": s["sizes"], "size_cap": s["cap"], "alpha": s["alpha"]},
    ),
    (
        privacy.composed_epsilon,
        lambda s: {"alpha": s["alpha"], "size_cap": s["cap"], "reports": s["count"], "delta": 1e-5},
    ),
    (aggregation.cohort_weights, lambda s: {"sizes": s["sizes"]}),
    (aggregation.expansion_weights, lambda s: {"omega": s["p"], "clients": s["n"]}),
    (aggregation.stratum_weights, lambda s: {"sizes": s["strata"], "allocation": s["strata"]}),
    (
        aggregation.hansen_hurwitz,
        lambda s: {"omega": s["p"], "selection": s["p"], "draws": s["sizes"]},
    ),
    (data_sampling.bernoulli, lambda s: {"size": s["count"], "rate": s["alpha"], "rng": s["rng"]}),
    (data_sampling.fixed_size, lambda s: {"size": s["count"], "number": s["m"], "rng": s["rng"]}),
    (
        data_sampling.optimal_sizes,
        lambda s: {
            "weights": s["p"],
            "spreads": s["measure"],
            "sizes": s["sizes"],
            "total": s["count"],
        },
    ),
    (
        client_sampling.successive_sample,
        lambda s: {"selection": s["p"], "m": min(2, s["m"]), "rng": s["rng"]},
    ),
    (client_sampling.check_participants, lambda s: {"m": 1, "clients": s["n"]}),
    (corrected.proportional_inclusion, lambda s: {"measure": s["measure"], "m": min(2, s["m"])}),
    (
        corrected.systematic_sample,
        lambda s: {
            "pi": corrected.proportional_inclusion(s["measure"], min(2, s["m"])),
            "rng": s["rng"],
        },
    ),
    (clustered.counts_by_size, lambda s: {"sizes": s["sizes"], "m": s["m"]}),
    (clustered.by_size, lambda s: {"sizes": s["sizes"], "m": s["m"]}),
    (clustered.by_groups, lambda s: {"sizes": s["sizes"], "groups": s["groups"], "m": s["m"]}),
    (
        clustered.dissimilarity,
        lambda s: {"updates": s["rows"], "measure": s["rng"].choice(["L1", "arccos"])},
    ),
    (
        clustered.similarity_groups,
        lambda s: {"updates": s["rows"], "sizes": s["sizes"], "m": s["m"]},
    ),
    (
        methods.get,
        lambda s: {"name": str(s["rng"].choice(methods.names())), "lr": s["alpha"] + 0.01},
    ),
    (methods.parameters, lambda s: {"name": str(s["rng"].choice(methods.names()))}),
    (methods.describe, lambda s: {"name": str(s["rng"].choice(methods.names()))}),
    (stream, lambda s: {"seed": s["seed"], "purpose": "fuzz"}),
    (partition.iid, lambda s: {"labels": s["labels"], "clients": s["n"], "seed": s["seed"]}),
    (
        partition.dirichlet,
        lambda s: {
            "labels": s["labels"],
            "clients": s["n"],
            "concentration": 0.1,
            "seed": s["seed"],
        },
    ),
    (
        partition.dirichlet_fixed_size,
        lambda s: {
            "labels": s["labels"],
            "sizes": s["sizes"],
            "concentration": 0.1,
            "seed": s["seed"],
        },
    ),
    (
        partition.by_class,
        lambda s: {
            "labels": np.arange(60) % 3,
            "clients_per_class": s["m"],
            "size": s["m"],
            "seed": s["seed"],
        },
    ),
    (
        partition.lognormal,
        lambda s: {
            "labels": s["labels"],
            "clients": s["n"],
            "sigma": s["alpha"],
            "seed": s["seed"],
        },
    ),
    (
        partition.make,
        lambda s: {
            "name": str(s["rng"].choice(partition.names())),
            "labels": s["labels"],
            "clients": 3,
        },
    ),
    (
        theory.allocation_variance,
        lambda s: {"sizes": s["strata"], "spreads": s["strata"], "draws": s["strata"]},
    ),
    (theory.neyman_printed, lambda s: {"sizes": s["strata"], "spreads": s["strata"], "m": s["m"]}),
    (
        theory.neyman_bounded,
        lambda s: {"sizes": s["strata"], "spreads": s["strata"], "m": int(s["strata"].sum())},
    ),
    (
        theory.integer_optimum,
        lambda s: {"sizes": s["strata"], "spreads": s["strata"], "m": len(s["strata"]) + 1},
    ),
    (theory.inclusion_probabilities, lambda s: {"selection": s["measure"], "m": min(2, s["m"])}),
    (theory.successive_inclusion, lambda s: {"selection": s["measure"], "m": min(2, s["m"])}),
    (
        theory.design_moments,
        lambda s: {
            "design": str(s["rng"].choice(theory.DESIGNS)),
            "values": s["values"],
            "selection": s["measure"],
            "m": min(2, s["m"]),
        },
    ),
    (theory.simple_random_variance, lambda s: {"values": s["values"], "m": min(2, s["m"])}),
    (theory.per_draw, lambda s: {"values": s["values"], "selection": s["measure"]}),
    (theory.md_rows, lambda s: {"sizes": s["sizes"], "m": s["m"]}),
    (theory.printed_algorithm_1, lambda s: {"sizes": s["sizes"], "m": s["m"]}),
    (theory.theorem_3_counts, lambda s: {"sizes": s["sizes"], "m": s["m"]}),
    (theory.distinct_uniform_probabilities, lambda s: {"categories": s["n"], "draws": s["m"]}),
    (theory.srs_covariance, lambda s: {"gradients": s["rows"], "sample_size": 2}),
    (theory.bernoulli_covariance, lambda s: {"gradients": s["rows"], "rate": 0.5, "norm": 2.0}),
    (
        theory.paper_lemma4,
        lambda s: {"gradients": s["rows"], "n": 9, "n_star": 4, "sample_size": 2},
    ),
    (theory.ldp_ratio, lambda s: {"size_cap": s["cap"], "alpha": s["alpha"]}),
    (theory.composed_ratio, lambda s: {"size_cap": s["cap"], "alpha": 0.5, "reports": s["m"]}),
    (theory.mode_attack, lambda s: {"size_cap": s["cap"], "alpha": 0.5, "reports": s["m"]}),
    (theory.busiest_bounds, lambda s: {"rounds": s["count"], "m": 2, "clients": s["n"]}),
    (theory.truth_probability_bounds, lambda s: {"epsilon": s["m"], "size_cap": s["cap"]}),
    (
        theory.size_estimator_moments,
        lambda s: {"sizes": s["strata"] % 2 + 1, "size_cap": s["cap"], "alpha": 0.5},
    ),
    (
        theory.estimated_rate,
        lambda s: {"sizes": s["strata"], "size_cap": s["cap"], "alpha": 0.5, "n_star": s["count"]},
    ),
    (
        theory.raw_rate_error,
        lambda s: {"sizes": s["strata"], "size_cap": s["cap"], "alpha": 0.5, "n_star": s["count"]},
    ),
]


def choose_call(seed: int, number: int):
    """Return function and arguments of a call: a third are valid, the others have one or two wrong or extreme."""
    rng = np.random.default_rng([seed, number])
    function, valid_arguments = CALLS[number % len(CALLS)]
    arguments = valid_arguments(_valid_values(rng))
    for key in rng.permutation([k for k in arguments if k not in ("rng", "purpose")])[
        : rng.integers(0, 3)
    ]:
        bad_values = (
            ARRAYS if np.ndim(arguments[key]) or isinstance(arguments[key], list) else SCALARS
        )
        bad_values = bad_values if rng.random() < 0.95 else ARRAYS + SCALARS
        arguments[key] = bad_values[rng.integers(len(bad_values))]
    return function, arguments


def format_call(function, arguments: dict) -> str:
    """Return a call as a line."""
    pairs = ", ".join(f"{k}={v!r}" for k, v in arguments.items())
    return f"{function.__module__}.{function.__name__}({pairs})".replace("\n", " ")[:400]


def is_finite(value) -> bool:
    """Whether no number in a result is NaN or infinite."""
    if isinstance(value, compression.Squeezed):
        return all(map(is_finite, (value.levels, value.restore(), value.norms())))
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())
    if isinstance(value, (list, tuple)):
        return all(map(is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _is_text(value) -> bool:
    """Whether a value is a string, or a list that holds one."""
    return isinstance(value, str) or (isinstance(value, list) and any(map(_is_text, value)))


@contextlib.contextmanager
def time_limit(seconds: int = SECONDS):
    """Raise `TimeoutError` after so many seconds."""

    def raise_timeout(*_):
        raise TimeoutError(f"still running after {seconds} s")

    previous_handler = signal.signal(signal.SIGALRM, raise_timeout)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous_handler)


def call(seed: int, number: int) -> tuple[str, str]:
    """Make a call and return its outcome and, of a failure, the reason.

    Outcomes: "answers", "refused" (one sentence), "type" (a TypeError or AttributeError of a call without text
    among its arguments), "failure".
    """
    function, arguments = choose_call(seed, number)
    try:
        with time_limit(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = function(**arguments)
            if inspect.isgenerator(result):
                result = list(result)
            if not is_finite(result) and function.__name__ not in INFINITE:
                return "failure", f"{format_call(function, arguments)}: {result!r}"[:600]
    except (InputError, Diverged) as error:
        if "\n" in str(error) or not str(error):
            return "failure", f"{format_call(function, arguments)}: not one sentence: {error}"
        return "refused", ""
    except (TypeError, AttributeError) as error:
        if not any(map(_is_text, arguments.values())):
            return "type", ""
        return "failure", f"{format_call(function, arguments)}: {type(error).__name__}: {error}"
    except Exception as error:
        return "failure", f"{format_call(function, arguments)}: {type(error).__name__}: {error}"
    return "answers", ""


WORDS = [
    "",
    "-1",
    "0",
    "1",
    "2",
    "3",
    "9",
    "0.5",
    "1e-9",
    "1e9",
    "1e400",
    "nan",
    "inf",
    "-inf",
    "two",
    "10**9",
]
WORDS += [
    "99999999999999999999",
    "µ",
    "a b",
    "--",
    "None",
    "true",
    "1,2",
    "digits",
    "md",
    "/",
    "../x",
]
OPTIONS = {
    "--method": methods.names(),
    "--partition": partition.names(),
    "--concentration": ["0.01", "1", "100"],
    "--sigma": ["0", "1", "3"],
    "--clients": ["4", "10", "20"],
    "--clients-per-round": ["1", "2", "4"],
    "--rounds": ["1", "2", "3"],
    "--seed": ["0", "7"],
    "--strata": ["1", "3"],
    "--levels": ["2", "9"],
    "--n-star": ["1", "64"],
    "--rate": ["0.1", "1"],
    "--epsilon": ["0.1", "3"],
    "--size-cap": ["3", "100"],
    "--restratify-every": ["1", "5"],
    "--lr": ["0.01", "1", "1e6", "1e30"],
    "--steps": ["1", "3"],
    "--batch": ["1", "16"],
    "--prox": ["0", "0.1"],
    "--eval-every": ["1", "2"],
    "--device": ["cpu"],
    "--threads": ["1"],
    "--out": ["h.parquet", "no/h.parquet", "h.csv", "."],
}
RUN = ("--rounds", "--clients", "--clients-per-round")  # in every run, so that it stays small
OTHERS = [
    ["methods"],
    ["sweep", "preprint", "--dry-run"],
    ["sweep", "?", "--dry-run"],
    ["sweep", "privacy", "--dry-run", "--profile", "?"],
    ["sweep", "preprint", "--dry-run", "--seeds", "?"],
    ["sweep", "preprint", "--dry-run", "--methods", "?"],
    ["sweep", "preprint", "--dry-run", "--jobs", "?"],
    ["sweep", "preprint", "--dry-run", "--folder", "?"],
    ["variance", "?"],
    ["audit", "?"],
    ["claims", "?"],
    ["claims", "--paper", "?"],
    ["claims", "--kind", "?"],
    ["claims", "--verdict", "?"],
    ["compare", "?", "?"],
    ["compare", "?", "?", "--tolerance", "?"],
    ["chapter", "?", "--parameters"],
    ["chapter", "02", "-p", "clients", "?!"],
    ["chapter", "02", "-p", "?", "3!"],
    ["chapter", "?", "-p", "profile", "?!"],
    ["chapter", "04", "--parameters"],
    ["leaderboard", "?"],
    ["leaderboard", "--metric", "?"],
    ["leaderboard", "--task", "?"],
    ["teach", "?!"],
    ["slides", "?!"],
    ["pack", "?"],
    ["?"],
    ["run", "?"],
    [],
]
# In a line of OTHERS any word replaces "?"; one of these, none of which is valid, replaces "?!" and "3!".
BAD = [w for w in WORDS if w not in ("1", "2", "3", "9", "1e9", "0.5")]


def choose_command(seed: int, number: int) -> list[str]:
    """Return a command line: two of three are runs on digits, with up to three strange values."""
    rng = np.random.default_rng([seed, number])

    def choose(options):
        return str(options[rng.integers(len(options))])

    if number % 3 == 2:
        line_of_others = OTHERS[number // 3 % len(OTHERS)]
        return [
            choose(BAD) if w in ("?!", "3!") else choose(WORDS) if w == "?" else w
            for w in line_of_others
        ]
    method = choose(methods.names())
    unknown = set().union(*map(methods.parameters, methods.names())) - set(
        methods.parameters(method)
    )
    keys = [k for k in OPTIONS if k in RUN or rng.random() < 0.25]
    keys = [k for k in keys if k[2:].replace("-", "_") not in unknown or rng.random() < 0.05]
    values = {k: choose(OPTIONS[k]) for k in keys} | {"--method": method}
    for key in rng.permutation(keys)[: rng.choice([0, 1, 2], p=[0.5, 0.3, 0.2])]:
        strange = choose(WORDS)
        values[key] = strange if key != "--rounds" or strange not in ("9", "1e9") else "0"
    return ["run", "--task", "digits", *(w for pair in values.items() for w in pair)]


def command(seed: int, number: int) -> tuple[str, str]:
    """Run a command line in this process; returns its exit code, or "failure" and why."""
    from fedstas import cli

    line, out, err, code = choose_command(seed, number), io.StringIO(), io.StringIO(), None
    text = f"fedstas {' '.join(w if w and ' ' not in w else repr(w) for w in line)}"
    try:
        with (
            time_limit(4 * SECONDS),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            cli.main(line)
    except SystemExit as end:
        code = 0 if end.code is None else end.code
    except BaseException as error:
        return "failure", f"{text}: {type(error).__name__}: {error}"
    messages = [
        x for x in err.getvalue().splitlines() if x.startswith("fedstas: ") and "%|" not in x
    ]
    if code not in (0, 1, 2):
        return "failure", f"{text}: exit code {code}"
    if "Traceback" in err.getvalue() + out.getvalue() or (code and line and len(messages) != 1):
        return "failure", f"{text}: exit code {code}, said {err.getvalue()[-300:]!r}"
    return str(code), ""


def repeat(seed: int, number: int, commands: bool = False):
    """Repeat one call or command; returns its outcome."""
    return (command if commands else call)(seed, number)


def main(calls: int, commands: int, seed: int, end: float) -> dict:
    """Make so many calls and command lines, until `end` of the monotonic clock; returns the figures.

    Each failure names what repeats it. Calls and commands alternate, in proportion to their numbers.
    """
    figures: dict = {"calls": 0, "answers": 0, "refused": 0, "type": 0, "commands": 0}
    figures |= {"0": 0, "1": 0, "2": 0, "failures": []}
    total = calls + commands
    folder_before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number in range(total):
                if time.monotonic() > end:
                    break
                k = number * commands // total
                is_command = (number + 1) * commands // total > k
                k = k if is_command else number - k
                outcome, reason = (command if is_command else call)(seed, k)
                figures["commands" if is_command else "calls"] += 1
                if outcome == "failure":
                    repetition = f"repeat({seed}, {k}{', commands=True' if is_command else ''})"
                    figures["failures"].append(f"{repetition}: {reason}")
                else:
                    figures[outcome] += 1
        finally:
            os.chdir(folder_before)
    return figures
