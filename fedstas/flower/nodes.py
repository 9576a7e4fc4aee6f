"""The server's view of real nodes: what a design asks for is asked in messages."""

from collections.abc import Callable

import numpy as np

from fedstas.authors import unsorted_centres
from fedstas.compression import Squeezed
from fedstas.errors import InputError
from fedstas.flower import messages
from fedstas.flower.roster import Roster, exchange
from fedstas.level_strata import ascending_levels
from fedstas.sim.server import Server
from fedstas.sketch import check_size
from fedstas.stratification import rounded


class Nodes(Roster, Server):
    """The `view` of the designs over a grid; clients are numbered by their places on the roll."""

    def __init__(self, expected: int, patience: float, private: bool, total: int | None):
        Roster.__init__(self, expected, patience)
        self._private, self.roundotal = private, total
        self._sizes: dict[int, int] = {}

    def begin(self, t, params, grid) -> None:  # type: ignore[override]  # the grid may be another
        """Round t starts with w_t, and with a call of the roll."""
        self._answers: dict = {}  # (question, client, its length) -> answer, of this round
        self._reports: dict[int, list[int]] = {}
        self.roundold: set[int] = set()  # clients that have w_t already
        Roster.begin(self, t, params, grid)

    def question(self, k: int, kind: str, model: bool, **settings):
        """A message to client k."""
        arrays = self.model_for(k) if model else None
        content = messages.content(arrays, round=self.round, **settings)
        return self.message(self.node[k], kind, content, ttl=2 * self._patience + 60)

    def model_for(self, k: int) -> dict | None:
        """w_t as the arrays of a message, unless client k has it already."""
        client = self.roll[k]
        if client in self.roundold:
            return None
        self.roundold.add(client)
        return {"model": self._params.cpu().numpy()}

    def ask(self, kind: str, clients, settings: Callable[[int], dict], about, *, model=False):
        """What each of these clients says; what was wrong, by node id; the nodes that were late.

        `settings(k)` goes into the question to client k, `about(k)` is what its answer depends on."""
        asked, places = [], {}
        for k in clients:
            places[self.node[k]] = k
            asked.append(self.question(k, kind, model, **settings(k)))
        replies = exchange(self._grid, asked, self._patience)
        answers, wrong = {}, {}
        for node, k in places.items():
            try:
                answers[k] = messages.read(kind, replies.get(node), self._patience, **about(k))
            except InputError as error:
                wrong[node] = f"{kind}: {error}"
        return answers, wrong, [n for n in wrong if n not in replies]

    def _all(self, kind: str, settings=lambda k: {}, model=False, **about) -> list:
        """The answers of all clients on the roll, each asked once in a round."""
        self._some(kind, range(self.clients), settings, model, **about)
        return [self._answers[kind, c, *about.values()] for c in self.roll]

    def _some(self, kind: str, clients, settings=lambda k: {}, model=False, **about) -> None:
        """The answers of these clients, kept for the round."""
        asked = tuple(about.values())
        missing = [k for k in clients if (kind, self.roll[k], *asked) not in self._answers]
        answers, wrong, late = self.ask(kind, missing, settings, lambda k: about, model=model)
        for k, answer in answers.items():
            self._answers[kind, self.roll[k], *asked] = answer
        if wrong:
            self.strike(wrong, late)
            self._off(wrong)

    def _of(self, kind: str, clients) -> np.ndarray:
        """A number of each of these clients on w_t, [m]."""
        self._some(kind, dict.fromkeys(int(k) for k in clients), model=True)
        return np.array([self._answers[kind, self.roll[k]] for k in clients])

    @property
    def total(self) -> int:  # type: ignore[override]  # asked for; the simulator's is known at the start
        if self.roundotal is None:
            if self._private:
                raise InputError(
                    "this method needs the number of all examples, and its clients do not send "
                    "their sizes: give it as a public constant (total)"
                )
            return int(self.sizes.sum())
        return self.roundotal

    @property
    def sizes(self) -> np.ndarray:
        self._answers |= {("query.size", c): n for c, n in self._sizes.items()}
        if self._private:
            raise InputError("this method is private, and asks for true sizes: it cannot be run")
        result = self._all("query.size")
        self._sizes = dict(zip(self.roll, result, strict=True))
        return np.array(result)

    def gradients(self, levels: int) -> Squeezed:
        d = self._params.numel()
        parts = self._all(
            "query.gradient", lambda k: {"levels": levels}, model=True, d=d, levels=levels
        )
        return Squeezed(np.stack([v for v, _ in parts]), np.stack([c for _, c in parts]))

    def sketches(self, size: int) -> np.ndarray:
        check_size(size, self._params.numel())
        parts = self._all("query.sketch", lambda k: {"size": size}, model=True, size=size)
        return rounded(np.stack(parts)).astype(np.float32)

    def label_counts(self, epsilon: float | None = None) -> np.ndarray:
        raise InputError(
            "nodes do not send their label counts: take a design that asks for sketches"
        )

    @property
    def output_layer(self) -> slice:
        raise InputError("the server of real nodes has no network, and knows no last layer")

    def class_updates(self) -> np.ndarray:
        raise InputError("the server of real nodes has no network, and knows no last layer")

    def output_gradients(self) -> np.ndarray:
        raise InputError("nodes do not send gradients of the last layer: use features='sketch'")

    def norms(self) -> np.ndarray:
        return np.array(self._all("query.norm", model=True))

    def losses(self, clients) -> np.ndarray:
        return self._of("query.loss", clients)

    def centres(self, make, batch: int, levels: int) -> np.ndarray:
        kind = getattr(make, "func", make)
        if kind not in (unsorted_centres, ascending_levels):
            raise InputError(
                "nodes make the centres of a gradient in two ways: authors.unsorted_centres and "
                "level_strata.ascending_levels"
            )
        way = {"ascending": True} if kind is ascending_levels else {}
        return np.stack(
            self._all(
                "query.centres",
                lambda k: {"batch": batch, "levels": levels, "place": k} | way,
                model=True,
                levels=levels,
            )
        )

    def gradient_spreads(self, clients) -> np.ndarray:
        return self._of("query.spread", clients)

    def reports(self, clients, *, size_cap: int, alpha: float, memoised: bool) -> np.ndarray:
        slots: dict[int, list[int]] = {}
        for slot, k in enumerate(clients):
            slots.setdefault(int(k), []).append(slot)
        # After a strike the design draws again: a report of this round is used again, not asked anew.
        kept = {k: self._reports.get(self.roll[k], []) for k in slots}
        fewer = {k: places[len(kept[k]) :] for k, places in slots.items()}
        fewer = {k: places for k, places in fewer.items() if places}

        def settings(k: int) -> dict:
            own = {"size_cap": size_cap, "alpha": alpha, "memoised": memoised}
            return own | {"slots": fewer[k], "place": k}

        def about(k: int) -> dict:
            return {"size_cap": size_cap, "count": len(fewer[k])}

        answers, wrong, late = self.ask("query.report", fewer, settings, about)
        for k, answer in answers.items():
            self._reports[self.roll[k]] = kept[k] + answer
        if wrong:
            self.strike(wrong, late)
            self._off(wrong)
        result = np.zeros(len(clients), dtype=np.int64)
        for k, places in slots.items():
            result[places] = self._reports[self.roll[k]][: len(places)]
        return result

    @property
    def majority_labels(self) -> np.ndarray:
        raise InputError("majority labels are an oracle's: no server of real nodes can know them")
