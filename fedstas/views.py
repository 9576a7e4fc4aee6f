"""What every server does alike, whoever its clients are: remember, draw cohorts, squeeze, sketch, add noise.

`sim.server.Server` (simulated clients), `flower.nodes.Nodes` (real ones) and the view of `cohorts.Cohorts` (the clients
of a training loop of one's own) are made from it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any

import numpy as np

from fedstas import privacy, sketch
from fedstas import state as states
from fedstas.client_sampling import ClientDesign, Cohort, draw_cohort
from fedstas.compression import ROWS_AT_ONCE, Squeezed, squeeze
from fedstas.errors import Diverged, InputError
from fedstas.stratification import round_to_grid
from fedstas.streams import stream


@dataclass
class Memory:
    """What a server carries from round to round for its designs.

    `designs`: the states of designs, by state class. `last_updates`: each client's last update, float32 [N, P], kept from
    the first time that a design asks for them. `respondents`: who sent an update in the last round, bool [N]; None while
    that is not known.
    """

    designs: dict[type, Any] = field(default_factory=dict)
    last_updates: np.ndarray | None = states.per_client()
    respondents: np.ndarray | None = states.per_client()

    def move_clients(self, before: Sequence[int], now: Sequence[int]) -> None:
        """Adapt the memory to other clients, as `state.move_clients` has it.

        Last updates follow their clients. The designs begin anew, but for what they declare as `state.per_client`.
        """
        states.move_clients(self, before, now)
        for kind, state in self.designs.items():
            new = kind()
            for f in fields(kind):
                if f.metadata.get("per_client"):
                    setattr(new, f.name, getattr(state, f.name))
            states.move_clients(new, before, now)
            self.designs[kind] = new


class ServerView:
    """The parts of a `client_sampling.View` that do not depend on who answers.

    A server sets these attributes: `clients` (N), `round` (t), `memory` (a `Memory`), and `_seed`, of all streams.
    """

    clients: int
    round: int
    memory: Any
    _seed: int

    def state_of(self, design) -> Any:
        """What this design remembers: its declared `State`, made at first use."""
        return states.state_of(self.memory.designs, design)

    def client_key(self, client: int) -> int:
        """Return the number that the random streams of a client's noise and reports have.

        It is the client's number, unless clients come and go: then no two clients of a run ever have the same key.
        """
        return client

    def draw(self, design: ClientDesign, m: int) -> Cohort:
        """Draw the cohort of the round."""
        return draw_cohort(design, self, m, stream(self._seed, "clients", self.round))  # type: ignore[arg-type]

    def last_respondents(self) -> np.ndarray | None:
        """See `View`."""
        return self.memory.respondents

    def receive(self, clients, updates) -> None:
        """Store who sent updates in this round, perhaps nobody, and the updates, one array [P] each, if a design has asked
        for last updates.

        Of a client that occurs twice, the later update is stored.
        """
        self.memory.respondents = np.isin(np.arange(self.clients), clients)
        if self.memory.last_updates is not None:
            for k, update in zip(clients, updates, strict=True):
                self.memory.last_updates[k] = update

    def sketch_vectors(self, vectors, size: int) -> np.ndarray:
        """See `View`."""
        return sketch.signed_sums(vectors, size, sketch_signs(self._seed))

    def squeeze_gradients(self, gradients: Iterable[np.ndarray], levels: int) -> Squeezed:
        """Squeeze the clients' gradients, each [d], some at a time; `Diverged` if one is not finite."""
        parts = self._in_chunks(gradients, lambda chunk: squeeze(chunk, levels))
        rows, codes = zip(*((p.levels, p.codes) for p in parts), strict=True)
        return Squeezed(np.concatenate(rows), np.concatenate(codes))

    def sketch_gradients(
        self, gradients: Iterable[np.ndarray], size: int, clip=None, epsilon=None, delta=1e-5
    ) -> np.ndarray:
        """Sketch the clients' gradients, each [d], some at a time, with the noise of `View.sketches`; float32 [N, size]."""
        parts = self._in_chunks(gradients, lambda chunk: self.sketch_vectors(chunk, size))
        answers = np.concatenate(parts)
        if epsilon is not None:
            what = f"noise of sketches, {size}, {clip!r}, {epsilon!r}, {delta!r}"
            keys = map(self.client_key, range(self.clients))
            rngs = (stream(self._seed, what, key, self.round) for key in keys)
            pairs = zip(answers, rngs, strict=True)
            answers = np.stack(
                [privacy.noisy_sketch(x, clip, epsilon, delta, rng) for x, rng in pairs]
            )
        return round_sketches(answers)

    def _in_chunks(self, gradients: Iterable[np.ndarray], compute: Callable) -> list:
        """Compute something of the gradients, some rows [n, d] at a time; `Diverged` for numbers that are not allowed."""
        rows, parts = iter(gradients), []
        while chunk := [*islice(rows, ROWS_AT_ONCE)]:
            try:
                parts.append(compute(np.stack(chunk)))
            except InputError as error:  # not finite
                raise Diverged(f"round {self.round}: {error}") from None
        return parts

    def count_labels(self, counts: Iterable[np.ndarray], epsilon: float | None) -> np.ndarray:
        """Return the clients' label counts, each [classes], with the noise of `View.label_counts`; float [N, classes].

        The noise depends on `client_key` and epsilon alone, so that it is the same whenever a client is asked. Where the
        counts may change in between, the first answer must be repeated instead: the same noise on other counts reveals
        by how much they changed.
        """
        if epsilon is not None:
            # A stream for each epsilon: the same noise at two scales would reveal the counts.
            what = f"label counts, epsilon {epsilon!r}"
            counts = [
                privacy.noisy_counts(each, epsilon, stream(self._seed, what, self.client_key(k)))
                for k, each in enumerate(counts)
            ]
        return np.array([*counts], dtype=np.float64)

    def report_sizes(
        self, clients, sizes: np.ndarray, *, size_cap: int, alpha: float, memoised: bool
    ) -> np.ndarray:
        """Return randomised responses of these clients on their sizes [N], as `View.reports` has them, int [m].

        The random numbers of a memoised report depend on `client_key` alone, so that it is the same in every round; those
        of another one depend on the round and on the client's place in the cohort, `slot`. Where sizes may change, a
        memoised report must be stored and repeated instead: the same random numbers with another size may reveal both.
        """
        answers = []
        for slot, k in enumerate(clients):
            ids = (self.client_key(int(k)),) if memoised else (self.round, slot)
            rng = stream(self._seed, "memoised report" if memoised else "report", *ids)
            answers.append(privacy.report(sizes[k], size_cap=size_cap, alpha=alpha, rng=rng))
        return np.array(answers)


def sketch_signs(seed: int) -> np.random.Generator:
    """Return a fresh generator of the signs of a run's sketches, from the seed that all its clients know."""
    return stream(seed, "signs of sketches")


def round_sketches(sketches) -> np.ndarray:
    """Round sketches [N, size] to 2^-16 of the largest entry, as coordinates for strata are, so that backends agree;
    float32."""
    return round_to_grid(sketches).astype(np.float32)
