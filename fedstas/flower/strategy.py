"""The strategy: one round of any method, by messages (FedSTaS, Algorithm 3)."""

from collections.abc import Iterable
from logging import INFO
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedstas import aggregation
from fedstas.client_sampling import check_cohort_size, has_flag
from fedstas.errors import (
    Diverged,
    InputError,
    check_choice,
    check_float,
    check_int,
    format_value,
)
from fedstas.flower import messages, state_file
from fedstas.flower.client import is_private
from fedstas.flower.nodes import Nodes
from fedstas.flower.roster import RosterChanged, TooFew, exchange
from fedstas.methods import Method
from fedstas.nonresponse import reweight
from fedstas.sim.simulation import check_method

OF_SIMULATION = {  # flags of server optimisers that messages do not serve
    "corrects": "its clients keep control variates",
    "clusters": "its server clusters all clients",
    "normalises": "its server asks for numbers of local steps",
}


class Designs(Strategy):
    """Any method of `methods.get` as a strategy of Flower's message API.

    Args:
        method: the method.
        clients_per_round: the number of participants m.
        seed: of the server's draws.
        nodes: the number of nodes for which the first round waits.
        patience: seconds to wait for an answer.
        quorum: the share of a cohort that must send an update; with fewer the run stops with `TooFew`.
        total: the number of all examples, a public constant, for private methods that need it.
        classes: the number of classes, a public constant, for methods that ask for label counts.
        initial_model: whence nodes have w_0: "sent", by the first message of the first round that needs it, or "seed",
            where each node's network makes it from the run's seed; the message then has its SHA-256, and a node
            whose network is another one refuses.
        state: a file to which the run is saved after each round. If the file exists, the run continues from it; it
            must be of the same method, seed and number of participants, and its model as long as `initial_arrays`.
        run: what the run is of besides, as the names of task and partition: a text, stored in the state file. A file
            that has another one is refused.
    """

    def __init__(
        self,
        method: Method,
        *,
        clients_per_round: int,
        seed: int,
        nodes: int,
        patience: float = 600.0,
        quorum: float = 0.5,
        total: int | None = None,
        classes: int | None = None,
        initial_model: str = "sent",
        state: str | Path | None = None,
        run: str | None = None,
    ):
        check_method(method)
        if has_flag(method.clients, "pooled"):
            raise InputError(f"{method.name} pools all data in one place: it is no federation")
        for flag, why in OF_SIMULATION.items():
            if has_flag(method.server, flag):
                raise InputError(f"{method.name} is of the simulation alone: {why}")
        self.method, self.seed = method, check_int("seed", seed, 0)
        self.m = check_int("the number of participants (clients per round)", clients_per_round, 1)
        self.patience = check_float("patience", patience, 0)
        self.quorum = check_float("quorum", quorum, 0, 1)
        self._remembers = has_flag(method.server, "remembers")
        private = is_private(method)
        check_choice("initial_model", initial_model, ("sent", "seed"))
        self.view = Nodes(
            check_int("nodes", nodes, 1),
            self.patience,
            private,
            None if total is None else check_int("total", total, 1),
            self.seed,
            classes=None if classes is None else check_int("classes", classes, 1),
            from_seed=initial_model == "seed",
        )
        self.state_path = None if state is None else Path(state)
        if run is not None and not isinstance(run, str):
            raise InputError(f"run is {format_value(run)}: it must be a text, or None")
        self.run = run
        if self.state_path is not None:
            state_file.key(self)
        self.rounds_done = 0
        self.cohorts: list[np.ndarray] = []

    def summary(self) -> None:
        """Log one line about the run."""
        log(
            INFO, "\t└──> %s, %d participants a round, seed %d", self.method.name, self.m, self.seed
        )

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 0,
        train_config=None,
        evaluate_config=None,
        evaluate_fn=None,
    ) -> Result:
        """Run `num_rounds` rounds, those in the state file included; arguments as in Flower's `start`.

        `timeout` is ignored: the strategy's `patience` takes its place.
        """
        if self.state_path is not None and self.state_path.exists():
            length = sum(array.size for array in initial_arrays.to_numpy_ndarrays())
            params = state_file.read(self, length)
            initial_arrays = ArrayRecord([params])
            log(INFO, "continuing after round %d of %s", self.rounds_done, self.state_path)
        before = self.rounds_done
        if before >= num_rounds:
            raise InputError(f"{self.state_path} has {before} rounds already, not {num_rounds}")
        shifted = None if evaluate_fn is None else lambda t, a: evaluate_fn(before + t, a)
        result = super().start(
            _PollingGrid(grid),
            initial_arrays,
            num_rounds - before,
            self.patience,
            train_config,
            evaluate_config,
            shifted,
        )
        for name in ("train_metrics_clientapp", "evaluate_metrics_serverapp"):
            setattr(result, name, {before + t: v for t, v in getattr(result, name).items()})
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Draw the cohort of the round, and make the message to each participant: w_t, its places and data rates."""
        t = self.rounds_done + 1
        (model,) = arrays.to_numpy_ndarrays()
        params = torch.from_numpy(np.array(model))
        self.view.begin(t, params, grid)
        while True:
            n = self.view.clients
            try:
                if t == 1 and len(self.view._silent) == 0 and not self.view.events:
                    check_cohort_size(self.method.clients, self.m, n)
                m = self.m if has_flag(self.method.clients, "replaces") else min(self.m, n)
                cohort = self.view.draw(self.method.clients, m)
                if self._remembers and cohort.per_example:
                    raise InputError("a server that remembers updates takes no weights of examples")
                self._omega = self._client_shares() if self._remembers else None
                rates = self.method.data.rates(self.view, cohort) if len(cohort.clients) else ()
                break
            except RosterChanged:
                continue
            except InputError as error:
                raise InputError(f"{self.method.name}: {error}") from None
        self._params, self._cohort, self._clients = params, cohort, np.array(self.view.client_ids)
        self._slots: dict[int, list[int]] = {}
        for slot, k in enumerate(cohort.clients):
            self._slots.setdefault(int(k), []).append(slot)
        self._questions: dict[int, Message] = {}
        for k, slots in self._slots.items():
            places = {"slots": slots, "rates": [float(rates[s]) for s in slots]}
            self._questions[k] = self.view.question(
                k, "train", True, scaled=cohort.per_example, **places
            )
        return list(self._questions.values())

    def _client_shares(self) -> torch.Tensor:
        """Return the clients' weights in the objective, omega [N], for a server optimiser that remembers updates.

        As in the simulation they are n_k / n, or 1/N if the design must not know sizes or treats clients alike.
        """
        design = self.method.clients
        hidden = has_flag(design, "equal_clients") or has_flag(design, "hides_sizes")
        sizes = np.ones(self.view.clients) if hidden else self.view.sizes
        return torch.from_numpy(sizes / sizes.sum())

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Compute the next model from the updates that arrived and are valid.

        With an empty cohort the model stays the same, unless the server optimiser remembers earlier updates.
        """
        t, cohort, params = self.rounds_done + 1, self._cohort, self._params
        if not len(cohort.clients) and not self._remembers:
            self.view.receive(cohort.clients, params.new_zeros((0, len(params))))
            return self._finish_round(params, np.zeros(0, dtype=bool))
        # Replies are matched by question, since Flower's error reply for a node that is gone names no node.
        replies_by_question = {reply.metadata.reply_to_message_id: reply for reply in replies}
        trained = params.repeat(len(cohort.clients), 1)
        answered, wrong, late = np.zeros(len(cohort.clients), dtype=bool), {}, []
        for k, slots in self._slots.items():
            node, shape = self.view.node_ids[k], (len(slots), len(params))
            reply = replies_by_question.get(self._questions[k].metadata.message_id)
            try:
                models = messages.read("train", reply, self.patience, shape=shape)
                trained[slots] = torch.from_numpy(models)
                answered[slots] = True
            except InputError as error:
                wrong[node] = f"train: {error}"
                late += [node] if reply is None else []
        self.view.record_failures(wrong, late)
        if len(answered) and answered.sum() < max(1, self.quorum * len(answered)):
            raise TooFew(
                f"round {t}: {answered.sum()} of {len(answered)} updates came, fewer than the quorum "
                f"of {self.quorum:.0%}: {'; '.join(wrong.values())}"
            )
        expands = has_flag(self.method.clients, "expands")
        weights = reweight(cohort, answered, expands) if len(answered) else cohort.weights
        weights = torch.from_numpy(weights).to(params)
        server = self.method.server
        state = self.view.optimizer_state(server)
        participants, mask = cohort.clients[answered], torch.from_numpy(answered)
        updates = (trained - params)[mask]
        self.view.receive(participants, updates)
        if self._omega is not None:
            clients, omega = torch.from_numpy(participants), self._omega.to(params)
            arguments = clients, weights[mask], updates, omega, state
            update = server.combine(*arguments)  # type: ignore[attr-defined]
        else:
            update = aggregation.aggregate(params, trained, weights)
        after = server.step(params, update, state)
        if not bool(torch.isfinite(after).all()):
            raise Diverged(f"the model is not finite after round {t}: try a smaller lr")
        return self._finish_round(after, answered)

    def _finish_round(
        self, after: torch.Tensor, answered: np.ndarray
    ) -> tuple[ArrayRecord, MetricRecord]:
        """Store the cohort of the round that ended with this model, save the run, and return model and metrics."""
        cohort = self._cohort.clients
        self.cohorts.append(self._clients[cohort])
        self.rounds_done += 1
        if self.state_path is not None:
            state_file.write(self, after.numpy())
        metrics = {
            "participants": len(np.unique(cohort[answered])),
            "answered": int(answered.sum()),
        }
        return ArrayRecord([after.numpy()]), MetricRecord(metrics)

    def configure_evaluate(self, server_round, arrays, config, grid) -> Iterable[Message]:
        """Return no messages: clients do not evaluate."""
        return []

    def aggregate_evaluate(self, server_round, replies) -> None:
        """Return nothing: clients do not evaluate."""


class _PollingGrid:
    """A grid that asks for replies every 0.2 s (`roster.POLL`), where Flower's own asks every 3 s."""

    def __init__(self, grid: Grid):
        self._grid = grid

    def __getattr__(self, name: str):
        return getattr(self._grid, name)

    def send_and_receive(self, messages, *, timeout: float | None = None):
        """Send messages and return the replies that arrive within `timeout` seconds."""
        return list(exchange(self._grid, list(messages), timeout or 600.0).values())
