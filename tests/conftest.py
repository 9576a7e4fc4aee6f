"""Fixtures: the digits task, small federations, a server that designs can be driven with."""

import os

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # before numpy and torch: the tests are many and small

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from fedstas import partition, tasks
from fedstas.compression import squeeze
from fedstas.state import state_of

settings.register_profile("fedstas", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("fedstas")

# What takes longest begins first, or one worker ends minutes after the others. A file stays with one
# worker, since its fixtures are costly; xdist alone would begin with the file of the most tests.
LONGEST = (
    "test_browser", "test_rerun", "test_experiments", "test_copies", "test_teaching", "test_chapters",
    "test_doctor", "test_ledger", "test_site",
)  # fmt: skip


def pytest_configure(config):
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items):
    def place(item) -> int:
        return LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST)

    items.sort(key=place)
    for item in items:
        # All claims, decided, or a browser; an autoencoder for each gradient, where others train without one.
        if {"claims", "chromium", "browse"} & {*item.fixturenames} or "authors-dec" in item.name:
            item.add_marker("slow")


# Every statistical test below has a fixed seed and alarms where a chance event would be this rare.
FALSE_ALARM = 1e-6


@pytest.fixture(scope="session")
def false_alarm() -> float:
    return FALSE_ALARM


@pytest.fixture(scope="session")
def cases() -> dict:
    """The reference cases: exact answers, made independently of this package."""
    return json.loads((Path(__file__).parent / "data" / "cases.json").read_text())


@pytest.fixture(scope="session")
def digits():
    return tasks.load("digits")


@pytest.fixture(scope="session")
def federation(digits):
    """20 clients, one of them without data, sizes from a few to some hundred."""
    return partition.dirichlet(digits.train_y, 20, 0.1, seed=0)


@pytest.fixture(scope="session")
def real_data():
    """`real_data(name)` loads a task from FEDSTAS_DATA, or skips and says what would run it."""

    def load(name: str):
        path = tasks.data_folder() / f"{name}.npz"
        if not path.exists():
            pytest.skip(
                f"{path} is not there: `fedstas run --task {name} --rounds 1` downloads it, given a network; "
                "or set FEDSTAS_DATA to a folder that holds it"
            )
        return tasks.load(name)

    return load


class View:
    """A server that knows sizes and gradients and counts what it was asked for."""

    def __init__(self, sizes, gradients):
        self._sizes = np.asarray(sizes)
        self._gradients = np.asarray(gradients, dtype=float)
        self.clients, self.round, self.asked, self.states = len(self._sizes), 1, 0, {}
        self.updates = np.zeros_like(self._gradients)  # each client's last

    @property
    def sizes(self):
        return self._sizes

    def gradients(self, levels):
        self.asked += 1
        return squeeze(self._gradients, levels)

    def norms(self):
        return np.linalg.norm(self._gradients, axis=1)

    def last_updates(self):
        return self.updates

    def state_of(self, design):
        return state_of(self.states, design)


class Blind(View):
    """The same, for designs that may not know a size."""

    @property
    def sizes(self):
        raise AssertionError("a true size was asked for")


@pytest.fixture(scope="session")
def view():
    return View


@pytest.fixture(scope="session")
def blind():
    return Blind


@pytest.fixture(scope="session")
def rational():
    """Nested strings 'a/b' and ints to Fractions."""

    def convert(value):
        return [convert(v) for v in value] if isinstance(value, list) else Fraction(value)

    return convert
