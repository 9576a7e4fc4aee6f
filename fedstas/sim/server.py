"""The server of a simulated federation: what designs can ask for, and what asking costs."""

import copy
from itertools import islice

import numpy as np
import torch

from fedstas import privacy
from fedstas.compression import ROWS, Squeezed, squeeze
from fedstas.errors import Diverged, InputError, check_int
from fedstas.sim import engine
from fedstas.sim.rng import stream


class Server:
    """What the server knows in a round, and what asking costs (the `view` of the designs)."""

    def __init__(self, data: engine.Pool, module, seed: int, majority=None):
        self.clients, self.total = len(data.sizes), int(data.sizes.sum())
        self.cost = {"examples": 0, "bytes_down": 0, "bytes_up": 0}
        self.memory: dict = {}  # what designs remember
        self.optimizer: dict = {}  # what the server's optimiser remembers
        self.module, self._data, self._seed, self._majority = module, data, seed, majority
        self._knows_sizes = False

    def begin(self, t: int, params: torch.Tensor) -> None:
        """Round t starts with w_t."""
        self._t, self._params = t, params
        self._holds = np.zeros(self.clients, dtype=bool)  # who has w_t already
        self._passed: dict = {}  # what all clients have said of their gradients at w_t

    def state(self) -> dict:
        """All that the next rounds depend on, besides the model; live, not a copy."""
        return {k: getattr(self, k) for k in ("cost", "memory", "optimizer", "_knows_sizes")}

    def restore(self, state: dict) -> None:
        """Go on from a `state`, which is copied; `InputError` if it is of another version."""
        if state.keys() != self.state().keys():
            raise InputError("resume: the history is of another version of fedstas")
        for name, value in copy.deepcopy(state).items():
            setattr(self, name, value)
        device = next(self.module.parameters()).device
        self.optimizer = {k: v.to(device) for k, v in self.optimizer.items()}

    def send_model(self, clients) -> None:
        """Each client downloads w_t once a round at most."""
        new = np.unique(clients)
        new = new[~self._holds[new]]
        self._holds[new] = True
        self.cost["bytes_down"] += len(new) * self._params.nbytes

    def charge(self, *, examples: int, bytes_up: int) -> None:
        """What the clients did and sent besides: examples gone through, bytes to the server."""
        self.cost["examples"] += examples
        self.cost["bytes_up"] += bytes_up

    @property
    def sizes(self) -> np.ndarray:
        if not self._knows_sizes:
            self.cost["bytes_up"] += 8 * self.clients
            self._knows_sizes = True
        return self._data.sizes

    def gradients(self, levels: int) -> Squeezed:
        check_int("levels", levels, 2, 256)  # what is refused below are gradients

        def make(gradients) -> tuple[Squeezed, int]:
            parts = []
            while chunk := [g.cpu().numpy() for g in islice(gradients, ROWS)]:
                try:
                    parts.append(squeeze(np.stack(chunk), levels))
                except InputError as error:  # not finite
                    raise Diverged(f"round {self._t}: {error}") from None
            rows, codes = zip(*((p.levels, p.codes) for p in parts), strict=True)
            result = Squeezed(np.concatenate(rows), np.concatenate(codes))
            return result, -(-result.bits // 8)

        return self._pass(levels, make)

    def norms(self) -> np.ndarray:
        def make(gradients):
            return self._finite("norm", [float(g.double().norm()) for g in gradients]), 8

        return self._pass("norms", make).copy()

    def _pass(self, what, make):
        """What all clients say of their gradients at w_t. In a round they say it once, and go through
        their examples once, however much they are asked; `make` gives it and its bytes a client."""
        if what not in self._passed:
            self.send_model(np.arange(self.clients))
            gradients = engine.client_gradients(self.module, self._params, self._data)
            found, size = make(gradients)
            self.charge(examples=0 if self._passed else self.total, bytes_up=self.clients * size)
            self._passed[what] = found
        return self._passed[what]

    def losses(self, clients) -> np.ndarray:
        self._ask(clients)
        return self._finite("loss", [self._loss(int(k)) for k in clients])

    def _loss(self, k: int) -> float:
        return engine.evaluate(self.module, self._params, *self._data.of(k))[0]

    def _ask(self, clients) -> None:
        """These clients go through their examples at w_t and send a number each."""
        self.send_model(clients)
        self.charge(examples=int(self._data.sizes[clients].sum()), bytes_up=8 * len(clients))

    def _finite(self, what: str, found) -> np.ndarray:
        if not np.isfinite(found).all():
            raise Diverged(f"round {self._t}: a client's {what} is not finite")
        return np.array(found)

    def centres(self, make, batch: int, levels: int) -> np.ndarray:
        self.send_model(np.arange(self.clients))
        weight = torch.from_numpy(batch_mean_weights(self._data.sizes, batch, self._seed))
        weight = weight.to(self._params)
        gradients = engine.client_gradients(self.module, self._params, self._data, weight)
        self.charge(examples=self.total, bytes_up=self.clients * levels * 4)
        return np.stack([make(g.cpu().numpy()) for g in gradients])

    def gradient_spreads(self, clients) -> np.ndarray:
        self._ask(clients)
        shards = map(self._data.of, clients)
        spreads = [engine.gradient_spread(self.module, self._params, *each) for each in shards]
        return np.array(spreads)

    def last_updates(self) -> np.ndarray:
        if "updates" not in self.memory:
            shape = (self.clients, self._params.numel())
            self.memory["updates"] = np.zeros(shape, dtype=np.float32)
        return self.memory["updates"]

    def receive(self, clients, updates: torch.Tensor) -> None:
        """Keep the participants' updates [m, P], if a design has asked for them."""
        if "updates" in self.memory:
            self.memory["updates"][clients] = updates.cpu().numpy()

    @property
    def majority_labels(self) -> np.ndarray:
        return self._majority

    def remember(self, key: str, every: int, make):
        if key not in self.memory or self._t - self.memory[key][0] >= every:
            self.memory[key] = (self._t, make())
        return self.memory[key][1]

    def reports(self, clients, *, size_cap: int, alpha: float, memoised: bool) -> np.ndarray:
        self.cost["bytes_up"] += 8 * len(clients)
        answers = []
        for slot, k in enumerate(clients):
            ids = (k,) if memoised else (self._t, slot)
            rng = stream(self._seed, "memoised report" if memoised else "report", *ids)
            size = self._data.sizes[k]
            answers.append(privacy.report(size, size_cap=size_cap, alpha=alpha, rng=rng))
        return np.array(answers)


def batch_mean_weights(sizes, batch: int, seed: int) -> np.ndarray:
    """Row weights [n] of the mean of batch means over each client's shuffled data.

    The last, short batch counts as much as the others: that is not the client's gradient.
    """
    weights = []
    for k, size in enumerate(sizes):
        batches = np.arange(size) // batch
        each = 1 / (batches[-1] + 1) / np.bincount(batches)[batches]
        weights.append(stream(seed, "batch means", k).permutation(each))
    return np.concatenate(weights)
