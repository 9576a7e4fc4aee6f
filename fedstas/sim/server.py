"""The server of a simulated federation: it answers the designs' questions and counts what the answers cost."""

import copy
import math
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any

import numpy as np
import torch

from fedstas import sketch
from fedstas import state as states
from fedstas.compression import Squeezed
from fedstas.errors import Diverged, InputError, check_float, check_int
from fedstas.sim import engine, models
from fedstas.streams import stream
from fedstas.views import Memory, ServerView

SEED_BYTES = 8  # of a seed that a client downloads to make w_0
NUMBER_BYTES = 8  # of a size, norm, loss, spread or report that a client sends
FLOAT32_BYTES = 4  # of an entry of a sketch or a centre
COUNT_BYTES = 4  # of a label count


@dataclass
class ServerMemory(Memory):
    """All that a server carries from round to round, besides the model: what designs remember, and

    `cost`: bytes and examples so far. `optimizer`: the state of the server optimiser, None before its first step.
    `has_sizes`: clients have sent their sizes. `label_epsilons`: with which noise they have sent their label counts.
    """

    cost: dict[str, int] = field(
        default_factory=lambda: {"examples": 0, "bytes_down": 0, "bytes_up": 0}
    )
    optimizer: Any = None
    has_sizes: bool = False
    label_epsilons: list[float | None] = field(default_factory=list)


def of_single_clients(question):
    """Wrap a question whose answer shows the server vectors of single clients: it is refused under secure aggregation."""

    @wraps(question)
    def checked(self, *args, **kwargs):
        """Answer the question, unless the server sees sums over clients only."""
        if self.sums_only:
            raise InputError(
                f"the design asks for the {question.__name__.replace('_', ' ')} of single clients, which secure "
                "aggregation hides: use a design that needs none (`fedstas methods` lists them), or other messages"
            )
        return question(self, *args, **kwargs)

    return checked


class Server(ServerView):
    """The server of a simulated federation, the `View` that its designs ask.

    Args:
        data: the examples of the clients with data.
        module: the network.
        seed: of the clients' reports and shuffles, and of the signs of sketches.
        majority: each client's most frequent class, int [N], for oracles.
        classes: how many the task has; None for a task without classes.
        from_seed: clients make w_0, the model of the first round, from a seed, and download only that.
        sums_only: the server sees sums of updates over clients only (secure aggregation).
    """

    def __init__(
        self,
        data: engine.Pool,
        module,
        seed: int,
        majority=None,
        *,
        classes: int | None = None,
        from_seed: bool = False,
        sums_only: bool = False,
    ):
        self.clients, self.total = len(data.sizes), int(data.sizes.sum())
        self.memory = ServerMemory()
        self.module, self._data, self._seed, self._majority = module, data, seed, majority
        self._classes, self._from_seed = classes, from_seed
        self.sums_only = sums_only

    def begin(self, t: int, params: torch.Tensor) -> None:
        """Start round t with w_t = params [P]."""
        self.round, self._params = t, params
        self.model_bytes = SEED_BYTES if self._from_seed and t <= 1 else params.nbytes
        self._has_model = np.zeros(self.clients, dtype=bool)  # clients that have w_t already
        self._client_pass_cache: dict = {}  # the answers of all clients about their gradients at w_t

    @property
    def cost(self) -> dict[str, int]:
        """The examples processed and the bytes sent so far: the dict that every later request adds to."""
        return self.memory.cost

    def restore(self, memory: ServerMemory) -> None:
        """Continue from a memory, which is copied."""
        self.memory = copy.deepcopy(memory)
        optimizer, device = self.memory.optimizer, next(self.module.parameters()).device
        for f in fields(optimizer) if optimizer is not None else ():
            value = getattr(optimizer, f.name)
            if isinstance(value, torch.Tensor):
                setattr(optimizer, f.name, value.to(device))

    def optimizer_state(self, optimizer) -> Any:
        """What the server optimiser remembers: its declared `State`, made at first use; None if it has none."""
        if self.memory.optimizer is None and getattr(optimizer, "State", None) is not None:
            self.memory.optimizer = states.new_state(optimizer)
        return self.memory.optimizer

    def send_model(self, clients) -> None:
        """Send w_t to these clients; each downloads it at most once in a round."""
        new = np.unique(clients)
        new = new[~self._has_model[new]]
        self._has_model[new] = True
        self.cost["bytes_down"] += len(new) * self.model_bytes

    def charge(self, *, examples: int, bytes_up: int, bytes_down: int = 0) -> None:
        """Add to the cost: examples that clients went through, and bytes that they sent and were sent."""
        self.cost["examples"] += examples
        self.cost["bytes_up"] += bytes_up
        self.cost["bytes_down"] += bytes_down

    @property
    def sizes(self) -> np.ndarray:
        if not self.memory.has_sizes:
            self.cost["bytes_up"] += NUMBER_BYTES * self.clients
            self.memory.has_sizes = True
        return self._data.sizes

    @of_single_clients
    def gradients(self, levels: int) -> Squeezed:
        check_int("levels", levels, 2, 256)  # so that an InputError below is about gradients

        def make(gradients) -> tuple[Squeezed, int]:
            result = self.squeeze_gradients((g.cpu().numpy() for g in gradients), levels)
            return result, math.ceil(result.bits / 8)

        return self._ask_gradients(levels, make)

    @of_single_clients
    def sketches(
        self, size: int, *, clip=None, epsilon: float | None = None, delta=1e-5
    ) -> np.ndarray:
        # So that an InputError below is about gradients.
        sketch.check_size(size, self._params.numel())

        def make(gradients) -> tuple[np.ndarray, int]:
            rows = (g.cpu().numpy() for g in gradients)
            return self.sketch_gradients(rows, size, clip, epsilon, delta), FLOAT32_BYTES * size

        return self._ask_gradients(("sketches", size, clip, epsilon, delta), make).copy()

    @property
    def output_layer(self) -> slice:
        return models.output_layer(self.module, self._classes)

    @of_single_clients
    def output_gradients(self, share: float = 1.0, cap: int | None = None) -> np.ndarray:
        layer = self.output_layer

        def make(gradients) -> tuple[np.ndarray, int]:
            answer = np.stack([g[layer].cpu().numpy() for g in gradients])
            return self._finite("gradient", answer), answer[0].nbytes

        if share == 1 and cap is None:
            return self._ask_gradients("output gradients", make).copy()
        batches = self._gradient_batches(share, cap)
        answer, size = make(engine.client_gradients(self.module, self._params, batches))
        self.send_model(np.arange(self.clients))
        self.charge(examples=len(batches.y), bytes_up=self.clients * size)
        return answer

    def _gradient_batches(self, share: float, cap: int | None) -> engine.Pool:
        """Draw one batch of each client's examples, as `View.output_gradients` has it."""
        share = check_float("share", share, 0, 1)
        rows = []
        for k, size in enumerate(self._data.sizes):
            count = max(1, min(round(share * int(size)), int(size) if cap is None else cap))
            rng = stream(self._seed, "gradient batch", k, self.round)
            rows.append(self._data.offsets[k] + np.sort(rng.choice(size, count, replace=False)))
        return engine.pool(self._data.x, self._data.y, rows)

    def label_counts(self, epsilon: float | None = None) -> np.ndarray:
        if self._classes is None:
            raise InputError(
                "the task has no classes, so that its clients have no label counts: ask for sketches instead"
            )
        if epsilon is not None:
            epsilon = check_float("epsilon", epsilon, 0)
        if epsilon not in self.memory.label_epsilons:
            self.charge(examples=0, bytes_up=COUNT_BYTES * self._classes * self.clients)
            self.memory.label_epsilons.append(epsilon)
        labels = (y.cpu().numpy() for _, y in map(self._data.of, range(self.clients)))
        counts = (np.bincount(y, minlength=self._classes) for y in labels)
        return self.count_labels(counts, epsilon)

    def norms(self) -> np.ndarray:
        def make(gradients):
            norms = [float(g.double().norm()) for g in gradients]
            return self._finite("norm", norms), NUMBER_BYTES

        return self._ask_gradients("norms", make).copy()

    def _ask_gradients(self, what, make):
        """Ask all clients about their gradients at w_t, or return their answer of this round.

        Args:
            what: names the question. Its answer is kept for the round; later questions of the round charge no
                further pass over the examples.
            make: turns an iterator over the clients' gradients into the answer and its bytes per client.

        Returns:
            The answer as `make` gives it. Copy it before it is changed: later questions of the round get it again.
        """
        if what not in self._client_pass_cache:
            self.send_model(np.arange(self.clients))
            gradients = engine.client_gradients(self.module, self._params, self._data)
            answer, size = make(gradients)
            self.charge(
                examples=0 if self._client_pass_cache else self.total, bytes_up=self.clients * size
            )
            self._client_pass_cache[what] = answer
        return self._client_pass_cache[what]

    def losses(self, clients) -> np.ndarray:
        self._charge_pass(clients)
        return self._finite("loss", [self._loss(int(k)) for k in clients])

    def _loss(self, k: int) -> float:
        loss, _ = engine.evaluate(self.module, self._params, *self._data.of(k))
        return loss

    def _charge_pass(self, clients) -> None:
        """Add to the cost a pass of these clients over their examples at w_t.

        That is the download of w_t by those who do not have it, the examples, and one float64 that each client sends.
        """
        self.send_model(clients)
        examples = int(self._data.sizes[clients].sum())
        self.charge(examples=examples, bytes_up=NUMBER_BYTES * len(clients))

    def _finite(self, what: str, values) -> np.ndarray:
        """Return the clients' answers as an array; raise `Diverged` if one is not finite."""
        if not np.isfinite(values).all():
            raise Diverged(f"round {self.round}: a client's {what} is not finite")
        return np.array(values)

    @of_single_clients
    def centres(self, make, batch: int, levels: int) -> np.ndarray:
        self.send_model(np.arange(self.clients))
        weight = torch.from_numpy(batch_mean_weights(self._data.sizes, batch, self._seed))
        weight = weight.to(self._params)
        gradients = engine.client_gradients(self.module, self._params, self._data, weight)
        self.charge(examples=self.total, bytes_up=FLOAT32_BYTES * levels * self.clients)
        return np.stack([make(self._finite("gradient", g.cpu().numpy())) for g in gradients])

    def gradient_spreads(self, clients) -> np.ndarray:
        self._charge_pass(clients)
        shards = map(self._data.of, clients)
        spreads = [engine.gradient_spread(self.module, self._params, *shard) for shard in shards]
        return self._finite("gradient spread", spreads)

    @of_single_clients
    def last_updates(self) -> np.ndarray:
        if self.memory.last_updates is None:
            shape = (self.clients, self._params.numel())
            self.memory.last_updates = np.zeros(shape, dtype=np.float32)
        return self.memory.last_updates

    @of_single_clients
    def class_updates(self) -> np.ndarray:
        return models.class_entries(self.module, self.last_updates(), self._classes)

    def receive(self, clients, updates: torch.Tensor) -> None:
        """Store who sent updates [m, P], and the updates if a design has asked for last updates."""
        # Else they need not leave the device.
        super().receive(
            clients, updates.cpu().numpy() if self.memory.last_updates is not None else ()
        )

    @property
    def majority_labels(self) -> np.ndarray:
        return self._majority

    def reports(self, clients, *, size_cap: int, alpha: float, memoised: bool) -> np.ndarray:
        self.cost["bytes_up"] += NUMBER_BYTES * len(clients)
        sizes = self._data.sizes
        return self.report_sizes(clients, sizes, size_cap=size_cap, alpha=alpha, memoised=memoised)


def batch_mean_weights(sizes, batch: int, seed: int) -> np.ndarray:
    """Return the weight of each example [n] in the mean of batch means over its client's shuffled data.

    The last, shorter batch counts as much as the others, so that the mean is not the client's gradient.
    """
    weights = []
    for k, size in enumerate(sizes):
        batches = np.arange(size) // batch
        weight = 1 / (batches[-1] + 1) / np.bincount(batches)[batches]
        weights.append(stream(seed, "batch means", k).permutation(weight))
    return np.concatenate(weights)
