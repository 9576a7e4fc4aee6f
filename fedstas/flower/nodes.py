"""The view of a server of real nodes: every question of a design becomes messages to the nodes."""

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
from fedstas.views import round_sketches


class Nodes(Roster, Server):
    """The `View` that designs ask, over Flower's grid. Client k is the k-th client of the roster.

    Args:
        expected, patience: as in `Roster`.
        private: no client sends its size, since the method is private.
        total: the number of all examples, a public constant; None if the clients are to be asked for their sizes.
        seed: of the run, which all nodes know.
        classes: how many the task has, a public constant; None if clients are not to be asked for label counts.
        from_seed: nodes have w_0, which their networks make from the seed, and are sent its digest only.
    """

    sums_only = False  # each node's update arrives by itself

    def __init__(
        self,
        expected: int,
        patience: float,
        private: bool,
        total: int | None,
        seed: int,
        *,
        classes: int | None = None,
        from_seed: bool = False,
    ):
        Roster.__init__(self, expected, patience)
        self._private, self._total, self._seed = private, total, seed
        self._classes, self._from_seed = classes, from_seed
        self._sizes: dict[int, int] = {}
        self._label_counts: dict[int, np.ndarray] = {}

    def begin(self, t, params, grid) -> None:  # type: ignore[override]  # each round may have another grid
        """Start round t with w_t = params [P] and the nodes that are present."""
        # The answers of this round, by kind of question, client number and what the answer's length depends on.
        self._answers: dict = {}
        self._reports: dict[int, list[int]] = {}  # of this round, by client number
        self._clients_with_model: set[int] = set()  # client numbers that have w_t already
        Roster.begin(self, t, params, grid)

    def question(self, k: int, kind: str, model: bool, **settings):
        """Make a question to client k, with w_t if `model` is true and the client does not have it yet."""
        arrays = self.model_for(k) if model else None
        if arrays and self._from_seed and self.round == 1:
            settings["w_0"], arrays = messages.digest(arrays["model"]), None
        content = messages.make_content(arrays, round=self.round, **settings)
        # A message lives twice as long as its answer is waited for, so that it does not expire before, and a minute
        # more, since the clocks of two machines differ.
        return self.message(self.node_ids[k], kind, content, ttl=2 * self._patience + 60)

    def model_for(self, k: int) -> dict | None:
        """Return w_t as the arrays of a message, or None if client k has it already; from now on k counts as having it."""
        client = self.client_ids[k]
        if client in self._clients_with_model:
            return None
        self._clients_with_model.add(client)
        return {"model": self._params.cpu().numpy()}

    def ask(self, kind: str, clients, settings: Callable[[int], dict], about, *, model=False):
        """Ask each of these clients one question.

        Args:
            kind: of the question.
            settings: `settings(k)` are the settings of the question to client k.
            about: `about(k)` is what the length and range of its answer depend on, for `messages.read`.
            model: send w_t along.

        Returns:
            The answers by client; what was wrong, by node id; the ids of the nodes that did not answer in time.
        """
        questions, client_of = [], {}
        for k in clients:
            client_of[self.node_ids[k]] = k
            questions.append(self.question(k, kind, model, **settings(k)))
        replies = exchange(self._grid, questions, self._patience)
        answers, wrong = {}, {}
        for node, k in client_of.items():
            try:
                answers[k] = messages.read(kind, replies.get(node), self._patience, **about(k))
            except InputError as error:
                wrong[node] = f"{kind}: {error}"
        return answers, wrong, [n for n in wrong if n not in replies]

    def _ask_all(self, kind: str, settings=lambda k: {}, model=False, **about) -> list:
        """Return the answers of all clients, in their order; each is asked at most once in a round. Arguments as in
        `_ask_missing`."""
        self._ask_missing(kind, range(self.clients), settings, model, **about)
        return [self._answers[kind, c, *about.values()] for c in self.client_ids]

    def _ask_missing(self, kind: str, clients, settings=lambda k: {}, model=False, **about) -> None:
        """Ask those of these clients that have not answered in this round, and store their answers.

        Args:
            kind, settings, model: as in `ask`.
            about: as in `messages.read`, the same for all clients; an answer is stored under the kind and these values.

        Raises:
            RosterChanged: one of them does not answer, or wrongly.
        """
        suffix = tuple(about.values())
        missing = [k for k in clients if (kind, self.client_ids[k], *suffix) not in self._answers]
        answers, wrong, late = self.ask(kind, missing, settings, lambda k: about, model=model)
        for k, answer in answers.items():
            self._answers[kind, self.client_ids[k], *suffix] = answer
        if wrong:
            self._exclude(wrong, late)

    def _ask_numbers(self, kind: str, clients) -> np.ndarray:
        """Ask each of these clients for a number that depends on w_t, and return the numbers [m]."""
        self._ask_missing(kind, dict.fromkeys(int(k) for k in clients), model=True)
        return np.array([self._answers[kind, self.client_ids[k]] for k in clients])

    @property
    def total(self) -> int:  # type: ignore[override]  # an attribute in the simulator
        """Return the number of all examples: the public constant, or else the sum of the sizes."""
        if self._total is None:
            if self._private:
                raise InputError(
                    "this method needs the number of all examples, and its clients do not send "
                    "their sizes: give it as a public constant (total)"
                )
            return int(self.sizes.sum())
        return self._total

    @property
    def sizes(self) -> np.ndarray:
        """Ask every client once in the run for its size; `InputError` if the method is private."""
        self._answers |= {("query.size", c): n for c, n in self._sizes.items()}
        if self._private:
            raise InputError("this method is private, and asks for true sizes: it cannot be run")
        result = self._ask_all("query.size")
        self._sizes = dict(zip(self.client_ids, result, strict=True))
        return np.array(result)

    def gradients(self, levels: int) -> Squeezed:
        """Ask every client for its squeezed gradient at w_t."""
        d = self._params.numel()
        parts = self._ask_all(
            "query.gradient", lambda k: {"levels": levels}, model=True, d=d, levels=levels
        )
        return Squeezed(np.stack([v for v, _ in parts]), np.stack([c for _, c in parts]))

    def sketches(
        self, size: int, *, clip=None, epsilon: float | None = None, delta=1e-5
    ) -> np.ndarray:
        """Ask every client for the signed sums of its gradient at w_t, [N, size]."""
        if epsilon is not None:
            raise InputError("nodes add no noise to their sketches: leave out epsilon")
        check_size(size, self._params.numel())
        parts = self._ask_all("query.sketch", lambda k: {"size": size}, model=True, size=size)
        return round_sketches(np.stack(parts))

    def label_counts(self, epsilon: float | None = None) -> np.ndarray:
        """Ask every client once in the run for its label counts, [N, classes]; `InputError` if the method is private."""
        if epsilon is not None:
            raise InputError("nodes add no noise to their label counts: leave out epsilon")
        if self._private:
            raise InputError(
                "this method is private, and label counts tell sizes: it cannot be run"
            )
        if self._classes is None:
            raise InputError(
                "this method asks for label counts, and the server does not know how many classes there are: "
                "give it as a public constant (classes)"
            )
        about = {"classes": self._classes}
        stored = {("query.labels", c, self._classes): n for c, n in self._label_counts.items()}
        self._answers |= stored
        answers = self._ask_all("query.labels", lambda k: about, **about)
        self._label_counts = dict(zip(self.client_ids, answers, strict=True))
        return np.array(answers, dtype=np.float64)

    @property
    def output_layer(self) -> slice:
        """Raise an `InputError`: the server does not have the network."""
        raise InputError("the server of real nodes has no network, and knows no last layer")

    def class_updates(self) -> np.ndarray:
        """Raise an `InputError`: the server does not have the network."""
        raise InputError("the server of real nodes has no network, and knows no last layer")

    def output_gradients(self, share: float = 1.0, cap: int | None = None) -> np.ndarray:
        """Raise an `InputError`: nodes do not send them."""
        raise InputError(
            "nodes do not send gradients of the last layer: use a design of sketches, as fedstas-least-variance with "
            "features='sketch'"
        )

    def norms(self) -> np.ndarray:
        """Ask every client for the norm of its gradient at w_t, [N]."""
        return np.array(self._ask_all("query.norm", model=True))

    def losses(self, clients) -> np.ndarray:
        """Ask these clients for their mean losses at w_t, [m]."""
        return self._ask_numbers("query.loss", clients)

    def centres(self, make, batch: int, levels: int) -> np.ndarray:
        """Ask every client for the levels of its gradient, [N, levels], in the order that `make` gives them."""
        function = getattr(make, "func", make)
        if function not in (unsorted_centres, ascending_levels):
            raise InputError(
                "nodes make the centres of a gradient by authors.unsorted_centres or by "
                "level_strata.ascending_levels only: use one of them"
            )
        order = {"ascending": True} if function is ascending_levels else {}
        return np.stack(
            self._ask_all(
                "query.centres",
                lambda k: {"batch": batch, "levels": levels, "place": k} | order,
                model=True,
                levels=levels,
            )
        )

    def gradient_spreads(self, clients) -> np.ndarray:
        """Ask these clients for the standard deviations of their example gradients at w_t, [m]."""
        return self._ask_numbers("query.spread", clients)

    def reports(self, clients, *, size_cap: int, alpha: float, memoised: bool) -> np.ndarray:
        """Ask these clients for randomised responses on their sizes, [m]; they must agree with the terms."""
        slots: dict[int, list[int]] = {}
        for slot, k in enumerate(clients):
            slots.setdefault(int(k), []).append(slot)
        # If the design draws again since a client failed, the reports that came in this round are used again.
        reported = {k: self._reports.get(self.client_ids[k], []) for k in slots}
        missing = {k: places[len(reported[k]) :] for k, places in slots.items()}
        missing = {k: places for k, places in missing.items() if places}

        def settings(k: int) -> dict:
            terms = {"size_cap": size_cap, "alpha": alpha, "memoised": memoised}
            return terms | {"slots": missing[k], "place": k}

        def about(k: int) -> dict:
            return {"size_cap": size_cap, "count": len(missing[k])}

        answers, wrong, late = self.ask("query.report", missing, settings, about)
        for k, answer in answers.items():
            self._reports[self.client_ids[k]] = reported[k] + answer
        if wrong:
            self._exclude(wrong, late)
        result = np.zeros(len(clients), dtype=np.int64)
        for k, places in slots.items():
            result[places] = self._reports[self.client_ids[k]][: len(places)]
        return result

    @property
    def majority_labels(self) -> np.ndarray:
        """Raise an `InputError`: a server of real nodes cannot know them."""
        raise InputError(
            "this method needs every client's most frequent class, which a server of real nodes does not know: use "
            "it in the simulation"
        )
