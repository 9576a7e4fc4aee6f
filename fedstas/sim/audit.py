"""A design tested on small federations with known gradients and updates, as an estimator is tested.

Bias is decided by drawing cohorts, not by enumeration, since a design may use any draw of its generator: in
a first and in a third round, given what the server remembers, with one participant, and with a client of
gradient zero, whose weight does not matter. An unbiased design is called biased once in a million audits.
"""

import copy
import random
from dataclasses import dataclass

import numpy as np
import torch
from numpy import random as global_random  # looked at, never drawn from
from scipy.stats import norm

from fedstas import methods
from fedstas.client_sampling import Cohort, draw_cohort, has_flag
from fedstas.errors import InputError, check_int
from fedstas.methods import Method
from fedstas.sim import engine, simulation
from fedstas.sim.rng import stream
from fedstas.sim.server import Server
from fedstas.state import copy_draw_fields, new_state, reset_draw_fields

SIZES = (2, 3, 4, 5, 6, 8)  # examples of the clients
M = 3  # participants
BENCHES: dict = {  # rounds before the one that is looked at, and what is other in it
    "a first round": (0, {}),
    "a third round": (2, {}),
    "a round of one participant": (0, {"m": 1}),
    "a round with a gradient of zero": (0, {"still": (2,)}),
}
ALARM = 1e-6
LEAST = 250  # cohorts: of fewer, a bias is hardly told from chance
ROUNDS = 5  # in which a method's questions are heard
VECTORS = {"gradients", "centres", "last_updates"}


@dataclass(frozen=True)
class Finding:
    """What one `check` found: `verdict` is ok, FAILS, biased or note."""

    check: str
    verdict: str
    says: str


class Watched:
    """A server that notes what it is asked."""

    def __init__(self, server: Server):
        self.server, self.asked = server, dict[str, None]()

    def __getattr__(self, name: str):
        answer = getattr(self.server, name)
        if name not in ("clients", "total", "round", "state_of"):
            self.asked[name] = None
        return answer


class Bench:
    """A federation of clients with these many examples, those in `still` with gradients of zero: a linear
    model on one-hot features with noise, so that no client's gradient is a sum of others'."""

    def __init__(self, method: Method, sizes=SIZES, still=(), m: int = M, seed: int = 0):
        sizes = (sum(sizes),) if has_flag(method.clients, "pooled") else sizes
        self.method, self.m, self.seed, self.clients = method, m, seed, len(sizes)
        self.omega = np.array(sizes) / sum(sizes)
        self.live = ~np.isin(np.arange(2 * self.clients), still)  # of new and remembered updates
        rng, owner = stream(seed, "audit data"), np.repeat(np.arange(self.clients), sizes)
        x = np.eye(self.clients)[owner] + 0.2 * rng.normal(size=(len(owner), self.clients))
        x = torch.from_numpy(x * self.live[owner][:, None]).float()[:, None, None]
        bounds = np.cumsum([0, *sizes])
        self.data = engine.Pool(x, torch.from_numpy(owner % 3), bounds)
        linear = torch.nn.utils.skip_init(torch.nn.Linear, self.clients, 3, bias=False)
        self.module = torch.nn.Sequential(torch.nn.Flatten(), linear)
        self.params = torch.from_numpy(0.3 * rng.normal(size=3 * self.clients)).float()
        self.updates = -torch.stack([*engine.client_gradients(self.module, self.params, self.data)])

    def server(self) -> Watched:
        """A server before its first round, that keeps updates from now on."""
        made = Server(self.data, self.module, self.seed, np.arange(self.clients) % 3)
        made.begin(1, self.params)
        made.last_updates()
        return Watched(made)

    def draw(self, view, *ids: int) -> tuple[Cohort, np.ndarray]:
        """A cohort and its weights on updates."""
        rng, data = stream(self.seed, "audit", *ids), self.method.data
        cohort = draw_cohort(self.method.clients, view, self.m, rng)
        rates = data.rates(view, cohort) if len(cohort.clients) else ()
        pairs = zip(self.data.sizes[cohort.clients], rates, strict=True)
        counts = [len(data.sample(int(size), float(rate), rng)) for size, rate in pairs]
        return cohort, cohort.on_updates(np.array(counts))

    def rounds(self, view: Watched, count: int) -> list[Cohort]:
        """The cohorts of the first rounds; the server then stands in the next one."""
        found = []
        for t in range(1, count + 1):
            found.append(self.draw(view, t)[0])
            view.server.receive(found[-1].clients, self.updates[found[-1].clients])
            view.server.begin(t + 1, self.params)
        return found

    def weights(self, view: Watched, draws: int) -> np.ndarray:
        """The weights [draws, 2 N] that the aggregate of one round gives each client's update and, where
        the server remembers updates, each remembered one. Each is drawn from the same memory, that of a
        design that has drawn once in this round: given its strata, or whose turn it is."""
        n, server = self.clients, self.method.server
        new, old = torch.eye(2 * n, dtype=torch.float64).split(n)
        omega, found = torch.from_numpy(self.omega), np.zeros((draws, 2 * n))
        if remembers := has_flag(server, "remembers"):
            state = new_state(server)
            server.combine(torch.arange(n), omega, old, omega, state)  # type: ignore[union-attr]
        self.draw(view, 0)
        designs = view.server.memory.designs
        before = copy_draw_fields(designs)
        for i, row in enumerate(found):
            reset_draw_fields(designs, before)
            cohort, own = self.draw(view, 0, i)
            k, w = torch.as_tensor(cohort.clients), torch.as_tensor(own).double()
            if remembers:
                row[:] = server.combine(k, w, new[k], omega, copy.deepcopy(state))  # type: ignore[union-attr]
            else:
                row[:] = w @ new[k]
        reset_draw_fields(designs, before)
        return found


def distances(weights, target) -> np.ndarray:
    """How far the mean weight [N] of cohorts [draws, N] is from the target, in standard errors; these
    at least those of a weight that is as large as seen and as rare as the target has it."""
    seen, off = (weights != 0).sum(0), np.abs(weights.mean(0) - target)
    large = np.abs(weights).sum(0) / np.maximum(seen, 1)
    square = np.maximum(weights.var(0), target * large - target**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        away = off / np.sqrt(np.maximum(square, 0) / len(weights))
    return np.where(off < 1e-6, 0.0, away)


def bias(method: Method, draws: int, seed: int) -> Finding:
    """Whether the aggregate is unbiased for sum omega_k u_k, with omega_k = n_k/n or 1/N."""
    limit = norm.isf(ALARM / 2 / len(BENCHES) / 2 / len(SIZES))  # on either side
    said: dict[str, str] = {}  # by target: where and how it is missed
    for where, (before, case) in BENCHES.items():
        bench = Bench(method, seed=seed, **case)
        view, n = bench.server(), bench.clients
        bench.rounds(view, before)
        weights = bench.weights(view, draws)
        for name, omega in ("n_k/n", bench.omega), ("1/N", np.full(n, 1 / n)):
            target = np.append(omega, np.zeros(n))
            away = np.where(bench.live, distances(weights, target), 0.0)
            if name not in said and away.max() > limit:
                k = int(away.argmax())
                what = f"in {where} client {k % n}'s {'remembered ' * (k >= n)}weight"
                said[name] = f"{what} is {weights[:, k].mean():.3f} on average, not {target[k]:.3f}"
        if len(said) == 2:
            return Finding("unbiased", "biased", said["n_k/n"])
    if "n_k/n" in said:
        return Finding("unbiased", "ok", f"for the plain mean 1/N, not for n_k/n: {said['n_k/n']}")
    return Finding("unbiased", "ok", f"for sum of n_k/n u_k, in {len(BENCHES)} x {draws} cohorts")


def determinism(method: Method, seed: int) -> list[Finding]:
    """Equal seeds give equal cohorts, whatever was asked before, and leave the global generators alone."""

    def told(ask: bool) -> list:
        bench = Bench(method, seed=seed)
        view = bench.server()
        if ask:
            _ = view.norms(), view.gradients(9), view.losses([0]), view.sizes
        return [(c.clients.tolist(), c.weights.tolist()) for c in bench.rounds(view, 3)]

    def generators() -> str:
        old = global_random.get_state()  # noqa: NPY002
        return repr((random.getstate(), old, torch.get_rng_state().tolist()))

    before, one = generators(), told(False)
    alone, again, asked = generators() == before, told(False) == one, told(True) == one
    return [
        _checked("own generator", alone, "uses a global random state: draw from rng"),
        _checked("same seed", again, "other cohorts: it remembers, or draws elsewhere"),
        _checked("order of asking", asked, "other cohorts once the view was asked before"),
    ]


def _checked(check: str, right: bool, wrong: str) -> Finding:
    return Finding(check, "ok" if right else "FAILS", "" if right else wrong)


def costs(method: Method, seed: int) -> list[Finding]:
    """The sum of a first round's weights, and what the method asks for in it."""
    bench = Bench(method, seed=seed)
    view = bench.server()
    bench.draw(view, 1)
    spent, asked = dict(view.server.cost), ", ".join(view.asked) or "nothing"
    sums = bench.weights(view, LEAST)[:, : bench.clients].sum(1)
    up, down = spent["bytes_up"], spent["bytes_down"] // bench.params.nbytes
    says = f"asks for {asked}: {up} bytes up, {down} of {bench.clients} models down, "
    says += f"{spent['examples']} of {len(bench.data.y)} examples"
    spread = f"{sums.mean():.3f} on average, {_span(sums)}"
    return [Finding("weights' sum", "note", spread), Finding("cost", "note", says)]


def extremes(method: Method, seed: int) -> list[Finding]:
    """Cohorts where little is left to choose."""
    n, found = len(SIZES), []
    cases: dict[str, dict] = {"m = 1": {"m": 1}, "m = N": {"m": n}}
    cases |= {"one client": {"sizes": (4,), "m": 1}, "one gradient zero": {"still": (2,)}}
    cases |= {"all gradients zero": {"still": range(n)}}
    for name, case in cases.items():
        bench = Bench(method, seed=seed, **case)
        try:
            view = bench.server()
            seen = [bench.draw(view, i)[1] for i in range(20)]
            says = f"{_span([len(w) for w in seen])} draws, weights' sum {_span([w.sum() for w in seen])}"
            found.append(Finding(name, "ok", says))
        except Exception as error:
            found.append(Finding(name, "FAILS", _told(error)))
    return found


def _span(values) -> str:
    return " to ".join(dict.fromkeys(f"{value:.3g}" for value in (min(values), max(values))))


def _told(error: Exception) -> str:
    own = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    return own.replace("\n", " ")


def audit(method: Method, *, draws: int = 2000, seed: int = 0) -> list[Finding]:
    """All that can be found wrong with a method's design, a finding a line; `draws` cohorts in each of four
    federations. To be biased is a finding, no fault."""
    draws, found = check_int("draws", draws, LEAST), []
    try:
        again = methods.from_dict(methods.to_dict(method)) == method
        found.append(_checked("record", again, "its settings do not make it again"))
    except InputError as error:
        found.append(Finding("record", "FAILS", _told(error)))
    with simulation.limited_threads(1):
        try:
            found += [*determinism(method, seed), bias(method, draws, seed), *costs(method, seed)]
        except Exception as error:  # whatever a design may raise
            return [*found, Finding("draw", "FAILS", _told(error))]
        return found + extremes(method, seed)


def secure(method: Method) -> str:
    """Whether a method still works under secure aggregation (Bonawitz et al. 2017), which shows the server
    sums over clients alone: what it asks the server for in some rounds decides.

    "no": vectors of single clients (gradients, centres, last updates), or a server that keeps their updates.
    "with scalars": numbers of single clients (sizes, norms, losses, spreads, labels, reports), the updates
    themselves being summed. "yes": nothing of a single client; sizes that only weigh, so that other sizes
    give the same cohorts, each client can put on its own update. "-": one client holds all data.

    That is what a method asks as it is built here: K-Vib asks for updates and needs their norms alone, and
    optimal client sampling with `approximate` for norms of which it needs sums.
    """
    if has_flag(method.clients, "pooled"):
        return "-"
    asked, cohorts = set[str](), []
    for sizes in (SIZES, SIZES[::-1]):
        bench = Bench(method, sizes)
        view = bench.server()
        cohorts.append([cohort.clients.tolist() for cohort in bench.rounds(view, ROUNDS)])
        asked |= view.asked.keys()
    if asked & VECTORS or has_flag(method.server, "remembers"):
        return "no"
    weighs = {"sizes"} if cohorts[0] == cohorts[1] else set()
    return "with scalars" if asked - weighs else "yes"
