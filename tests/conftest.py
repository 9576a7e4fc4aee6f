"""Fixtures: the digits task, small federations, a server that designs can be tested with."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported


import numpy as np
import pytest
from browser import start
from hypothesis import settings

from fedstas import partition, tasks
from fedstas.compression import squeeze
from fedstas.privacy import noisy_counts, noisy_sketch
from fedstas.sketch import signed_sums
from fedstas.state import state_of

settings.register_profile("fedstas", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("fedstas")

# These files start first, or one worker would end minutes after the others. A file stays with one worker, since its
# fixtures are costly; xdist by itself would start with the file that has the most tests.
LONGEST = (
    "test_browser",
    "test_rerun",
    "test_experiments",
    "test_copies",
    "test_teaching",
    "test_chapters",
    "test_doctor",
    "test_ledger",
    "test_site",
)


def pytest_configure(config):
    """Keep xdist from reordering the files."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items):
    """Start the longest files first; mark costly tests as slow."""

    def rank(item) -> int:
        return LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST)

    items.sort(key=rank)
    for item in items:
        # Fixtures that decide all claims or start a browser; a method that trains an autoencoder for each gradient.
        if {"claims", "chromium", "browse"} & {*item.fixturenames} or "authors-dec" in item.name:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def false_alarm() -> float:
    """The level of statistical tests, which have fixed seeds."""
    return 1e-6


@pytest.fixture(scope="session")
def digits():
    """The task of handwritten digits."""
    return tasks.load("digits")


@pytest.fixture(scope="session")
def federation(digits):
    """20 clients, one without data, with a few to some hundred examples."""
    return partition.dirichlet(digits.train_y, 20, 0.1, seed=0)


@pytest.fixture(scope="session")
def real_data():
    """Return a function that loads a task from FEDSTAS_DATA, or skips the test and says how to get the data."""

    def load(name: str):
        path = tasks.data_folder() / f"{name.replace('-coarse-', '-')}.npz"
        if not path.exists():
            pytest.skip(
                f"{path} does not exist: `fedstas run --task {name} --rounds 1` downloads it, given a network; "
                "or set FEDSTAS_DATA to a folder that holds it"
            )
        return tasks.load(name)

    return load


@pytest.fixture(scope="module")
def chromium():
    """A browser, started once for all tests of a file."""
    with start() as browser:
        yield browser


class View:
    """A view of the server with given sizes and gradients; `requests` counts those for gradients and sketches.

    The last layer has the first parameter; each client has one class, that of its largest entry.
    """

    def __init__(self, sizes, gradients):
        self._sizes = np.asarray(sizes)
        self._gradients = np.asarray(gradients, dtype=float)
        self.clients, self.round, self.requests, self.states = len(self._sizes), 1, 0, {}
        self.updates = np.zeros_like(self._gradients)  # each client's last
        self.respondents = None  # not known

    @property
    def sizes(self):
        return self._sizes

    def gradients(self, levels):
        self.requests += 1
        return squeeze(self._gradients, levels)

    def sketches(self, size, **noise):
        self.requests += 1
        sketches, rng = self.sketch_vectors(self._gradients, size), np.random.default_rng(0)
        return (
            np.stack([noisy_sketch(s, rng=rng, **noise) for s in sketches]) if noise else sketches
        )

    def sketch_vectors(self, vectors, size):
        return signed_sums(vectors, size, np.random.default_rng(0))

    def output_gradients(self, share=1.0, cap=None):
        return self._gradients[:, :1]

    def label_counts(self, epsilon=None):
        counts = np.eye(self._gradients.shape[1])[self._gradients.argmax(1)] * self._sizes[:, None]
        rng = np.random.default_rng(0)
        return counts if epsilon is None else noisy_counts(counts, epsilon, rng)

    def norms(self):
        return np.linalg.norm(self._gradients, axis=1)

    def last_updates(self):
        return self.updates

    def last_respondents(self):
        return self.respondents

    def state_of(self, design):
        return state_of(self.states, design)


class ViewWithoutSizes(View):
    """A view whose sizes no design may read."""

    @property
    def sizes(self):
        raise AssertionError("the design used a true size")


@pytest.fixture(scope="session")
def view():
    """The class `View`, to be called with sizes and gradients."""
    return View


@pytest.fixture(scope="session")
def view_without_sizes():
    """The class `ViewWithoutSizes`, to be called with sizes and gradients."""
    return ViewWithoutSizes
