"""Statistical tests of a design on small federations with known gradients and updates.

Bias is tested by drawing cohorts, not by enumeration, since a design may use any draw of its generator: in a first
and in a third round, given what the server remembers, with one participant, and with a client of gradient zero, whose
weight does not matter. An unbiased design is called biased in one of a million audits.
"""

import copy
import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy import random as global_random  # its state is read, it never draws
from scipy.stats import norm

from fedstas import methods
from fedstas.client_sampling import Cohort, draw_cohort, has_flag
from fedstas.errors import InputError, check_int
from fedstas.methods import Method
from fedstas.sim import engine, simulation
from fedstas.sim.server import Server
from fedstas.state import copy_draw_fields, new_state, reset_draw_fields
from fedstas.streams import stream

SIZES = (2, 3, 4, 5, 6, 8)  # examples of the clients
M = 3  # participants
BATCH = 2  # examples of a local step, at most, where numbers of steps matter
BENCHES: dict = {  # name: (rounds before the one that is tested, arguments of its `Bench`)
    "a first round": (0, {}),
    "a third round": (2, {}),
    "a round of one participant": (0, {"m": 1}),
    "a round with a gradient of zero": (0, {"zero_gradient_clients": (2,)}),
}
FALSE_ALARM = 1e-6  # probability that an unbiased design is called biased
MIN_DRAWS = 250  # cohorts; with fewer, a bias can hardly be distinguished from chance
ROUNDS = 5  # in which `secure` records a method's questions
UNRECORDED = {
    "clients",
    "total",
    "round",
    "state_of",
    "output_layer",
    "sketch_vectors",
    "last_respondents",
}
# Questions whose answers are vectors of single clients.
VECTORS = {"gradients", "sketches", "output_gradients", "centres", "last_updates", "class_updates"}


@dataclass(frozen=True)
class Finding:
    """The result of one `check`: `verdict` is ok, FAILS, biased or note; `message` gives the details."""

    check: str
    verdict: str
    message: str


class RecordingView:
    """The view of a server that records in `questions` which of its attributes and methods a design uses.

    Those that reveal nothing of a client (`clients`, `total`, `round`, `state_of`), or only what every server sees
    (`last_respondents`), are left out.
    """

    def __init__(self, server: Server):
        self.server, self.questions = server, dict[str, None]()  # a set in order

    def __getattr__(self, name: str):
        """Return an attribute of the server, and record it as a question."""
        answer = getattr(self.server, name)
        if name not in UNRECORDED:
            self.questions[name] = None
        return answer


class SmallServer(Server):
    """A server whose network has fewer parameters than a usual sketch: sketches then have as many numbers as it has."""

    def sketches(self, size: int, **noise) -> np.ndarray:
        return super().sketches(min(size, self._params.numel()), **noise)

    def sketch_vectors(self, vectors, size: int) -> np.ndarray:
        return super().sketch_vectors(vectors, min(size, self._params.numel()))


class Bench:
    """A small federation with a linear model on noisy one-hot features, so that no client's gradient is a sum of others'.

    Args:
        sizes: the clients' numbers of examples.
        zero_gradient_clients: clients whose features are zero, so that their gradients are zero, too.
        m: participants of a round.
        seed: of the data, the model and all draws.

    Attributes:
        omega: the clients' shares of the data, [N].
        updates: every client's update in every round, its negative gradient [N, P].
        nonzero: whether an update is not zero, bool [2 N], for the new and then for the remembered updates.
    """

    def __init__(
        self, method: Method, sizes=SIZES, zero_gradient_clients=(), m: int = M, seed: int = 0
    ):
        sizes = (sum(sizes),) if has_flag(method.clients, "pooled") else sizes
        self.method, self.m, self.seed, self.clients = method, m, seed, len(sizes)
        self.omega = np.array(sizes) / sum(sizes)
        self.nonzero = ~np.isin(np.arange(2 * self.clients), zero_gradient_clients)
        rng, owner = stream(seed, "audit data"), np.repeat(np.arange(self.clients), sizes)
        # The feature of its client's number is about 1 in an example, and each other one is noise. There are three classes.
        x = np.eye(self.clients)[owner] + 0.2 * rng.normal(size=(len(owner), self.clients))
        x = torch.from_numpy(x * self.nonzero[owner][:, None]).float()[:, None, None]
        bounds = np.cumsum([0, *sizes])
        self.data = engine.Pool(x, torch.from_numpy(owner % 3), bounds)
        linear = torch.nn.utils.skip_init(torch.nn.Linear, self.clients, 3, bias=False)
        self.module = torch.nn.Sequential(torch.nn.Flatten(), linear)
        self.params = torch.from_numpy(0.3 * rng.normal(size=3 * self.clients)).float()
        self.updates = -torch.stack([*engine.client_gradients(self.module, self.params, self.data)])

    def server(self) -> RecordingView:
        """Start a server, recorded, whose designs have remembered nothing yet and may ask for last updates."""
        majority = np.arange(self.clients) % 3
        server = SmallServer(self.data, self.module, self.seed, majority, classes=3)
        server.begin(1, self.params)
        server.last_updates()
        return RecordingView(server)

    def draw(self, view, *ids: int) -> tuple[Cohort, np.ndarray]:
        """Draw a cohort with the random stream of `ids`; return it and the weights of its participants' updates [m]."""
        rng, data = stream(self.seed, "audit", *ids), self.method.data
        cohort = draw_cohort(self.method.clients, view, self.m, rng)
        rates = data.rates(view, cohort) if len(cohort.clients) else ()
        pairs = zip(self.data.sizes[cohort.clients], rates, strict=True)
        counts = [len(data.sample(int(size), float(rate), rng)) for size, rate in pairs]
        weights = cohort.on_updates(np.array(counts))
        if has_flag(server := self.method.server, "normalises"):
            # Batches as small as the clients, so that their numbers of local steps differ.
            local = replace(self.method.local, batch=min(self.method.local.batch, BATCH))
            steps = np.array([local.count_steps(count) for count in counts])
            weights = server.normalise(weights, local.lengths(steps, 1))  # type: ignore[attr-defined]
        return cohort, weights

    def rounds(self, view: RecordingView, count: int) -> list[Cohort]:
        """Run `count` rounds, begin the next one, and return the cohorts of the rounds."""
        cohorts = []
        for t in range(1, count + 1):
            cohort, _ = self.draw(view, t)
            cohorts.append(cohort)
            view.server.receive(cohort.clients, self.updates[cohort.clients])
            view.server.begin(t + 1, self.params)
        return cohorts

    def weights(self, view: RecordingView, draws: int) -> np.ndarray:
        """Draw many cohorts of this round, and return the weights of all clients' updates [draws, 2 N].

        The first N columns are the weights of new updates, 0 for clients that are not in the cohort. The others are
        the weights of remembered updates, which are 0 unless the server optimiser has an update memory. Before each
        draw the design's state is reset to what it was after one draw in this round, so that all cohorts have the same
        strata.
        """
        n, server = self.clients, self.method.server
        # Unit vectors stand for the new and the remembered updates, so that a cohort's aggregate is its row of weights.
        new, old = torch.eye(2 * n, dtype=torch.float64).split(n)
        omega, weights = torch.from_numpy(self.omega), np.zeros((draws, 2 * n))
        if remembers := has_flag(server, "remembers"):
            state, everyone = new_state(server), torch.arange(n)
            if has_flag(server, "clusters"):
                labels = server.assign(view, stream(self.seed, "audit clusters"))  # type: ignore[attr-defined]
                state.labels = torch.from_numpy(labels)
            self.combine(everyone, omega, old, omega, state)  # makes the server remember `old`
        # Rounds are numbered from 1: with 0 these draws have random streams that no round has. The first one lets the
        # design form what it stores, such as its strata.
        self.draw(view, 0)
        designs = view.server.memory.designs
        before = copy_draw_fields(designs)
        for i, row in enumerate(weights):
            reset_draw_fields(designs, before)
            cohort, on_updates = self.draw(view, 0, i)
            k, w = torch.as_tensor(cohort.clients), torch.as_tensor(on_updates).double()
            if remembers:
                row[:] = self.combine(k, w, new[k], omega, copy.deepcopy(state))
            else:
                row[:] = w @ new[k]
        reset_draw_fields(designs, before)
        return weights

    def combine(self, clients, weights, updates, omega, state) -> torch.Tensor:
        """Return the aggregated update of a server that remembers. Where clients correct their gradients, one local
        step of rate 1 does: to first order in the rate any number of steps has the same weights."""
        server: Any = self.method.server
        if not has_flag(server, "corrects"):
            return server.combine(clients, weights, updates, omega, state)
        corrections = server.corrections(clients, omega, state)
        updates = updates if corrections is None else updates - corrections
        return server.combine(clients, weights, updates, omega, state, torch.ones(len(clients)))


def z_scores(weights, target) -> np.ndarray:
    """Return by how many standard errors each client's mean weight [N] over the cohorts differs from its target [N].

    A client that is drawn seldom may be in few cohorts or in none, and the empirical variance of its weight is too small
    then. So at least the variance is taken that the target implies: a weight that is w with probability target / w,
    and otherwise 0, has the mean `target` and the variance target * w - target^2. For w the mean of the client's
    nonzero weights is taken.

    Args:
        weights: of each client in each cohort, [draws, N].
        target: the mean weights of an unbiased design.
    """
    deviation, count = np.abs(weights.mean(0) - target), (weights != 0).sum(0)
    mean_nonzero = np.abs(weights).sum(0) / np.maximum(count, 1)
    variance = np.maximum(weights.var(0), target * mean_nonzero - target**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = deviation / np.sqrt(np.maximum(variance, 0) / len(weights))
    return np.where(deviation < 1e-6, 0.0, score)  # a rounding error is no deviation


def bias(method: Method, draws: int, seed: int) -> Finding:
    """Test whether the aggregate is unbiased for sum omega_k u_k, with omega_k = n_k/n or 1/N."""
    # Bonferroni: two-sided tests of two targets for every client of every bench.
    limit = norm.isf(FALSE_ALARM / 2 / len(BENCHES) / 2 / len(SIZES))
    deviations: dict[str, str] = {}  # a sentence for each target that is missed
    for where, (before, arguments) in BENCHES.items():
        bench = Bench(method, seed=seed, **arguments)
        view, n = bench.server(), bench.clients
        bench.rounds(view, before)
        weights = bench.weights(view, draws)
        for name, omega in ("n_k/n", bench.omega), ("1/N", np.full(n, 1 / n)):
            target = np.append(omega, np.zeros(n))
            scores = np.where(bench.nonzero, z_scores(weights, target), 0.0)
            if name not in deviations and scores.max() > limit:
                k = int(scores.argmax())
                what = f"in {where} client {k % n}'s {'remembered ' * (k >= n)}weight"
                deviations[name] = (
                    f"{what} is {weights[:, k].mean():.3f} on average, not {target[k]:.3f}"
                )
        if len(deviations) == 2:
            return Finding("unbiased", "biased", deviations["n_k/n"])
    if "n_k/n" in deviations:
        return Finding(
            "unbiased", "ok", f"for the plain mean 1/N, not for n_k/n: {deviations['n_k/n']}"
        )
    return Finding("unbiased", "ok", f"for sum of n_k/n u_k, in {len(BENCHES)} x {draws} cohorts")


def determinism(method: Method, seed: int) -> list[Finding]:
    """Test that a seed determines the cohorts: whatever was asked before, and without global random generators."""

    def cohorts(ask: bool) -> list:
        """Run three rounds; with `ask`, first ask the view for what the design may ask itself."""
        bench = Bench(method, seed=seed)
        view = bench.server()
        if ask:
            _ = view.norms(), view.gradients(levels=9), view.losses([0]), view.sizes
        return [(c.clients.tolist(), c.weights.tolist()) for c in bench.rounds(view, 3)]

    def generators() -> str:
        """Return the states of the global generators of Python, numpy and torch."""
        old = global_random.get_state()  # noqa: NPY002
        return repr((random.getstate(), old, torch.get_rng_state().tolist()))

    before, first = generators(), cohorts(ask=False)
    untouched = generators() == before
    return [
        _finding("own generator", untouched, "uses a global random state: draw from rng"),
        _finding(
            "same seed",
            cohorts(ask=False) == first,
            "other cohorts: it remembers, or draws elsewhere",
        ),
        _finding(
            "order of asking",
            cohorts(ask=True) == first,
            "other cohorts once the view was asked before",
        ),
    ]


def _finding(check: str, passed: bool, failure: str) -> Finding:
    """Make the finding of a check that passed, or failed with this message."""
    return Finding(check, "ok" if passed else "FAILS", "" if passed else failure)


def costs(method: Method, seed: int) -> list[Finding]:
    """Report the sum of a first round's weights, and what the method asks for in it."""
    bench = Bench(method, seed=seed)
    view = bench.server()
    bench.draw(view, 1)
    cost, questions = dict(view.server.cost), ", ".join(view.questions) or "nothing"
    sums = bench.weights(view, MIN_DRAWS)[:, : bench.clients].sum(1)
    up, down = cost["bytes_up"], cost["bytes_down"] // bench.params.nbytes
    message = f"asks for {questions}: {up} bytes up, {down} of {bench.clients} models down, "
    message += f"{cost['examples']} of {len(bench.data.y)} examples"
    total = f"{sums.mean():.3f} on average, {_span(sums)}"
    return [Finding("weights' sum", "note", total), Finding("cost", "note", message)]


def extremes(method: Method, seed: int) -> list[Finding]:
    """Draw cohorts in federations where a design has little choice."""
    n, findings = len(SIZES), []
    cases: dict[str, dict] = {"m = 1": {"m": 1}, "m = N": {"m": n}}
    cases |= {
        "one client": {"sizes": (4,), "m": 1},
        "one gradient zero": {"zero_gradient_clients": (2,)},
    }
    cases |= {"all gradients zero": {"zero_gradient_clients": range(n)}}
    for name, case in cases.items():
        bench = Bench(method, seed=seed, **case)
        try:
            view = bench.server()
            draws = [bench.draw(view, i) for i in range(20)]
            counts = _span([len(weights) for _, weights in draws])
            sums = _span([weights.sum() for _, weights in draws])
            findings.append(Finding(name, "ok", f"{counts} draws, weights' sum {sums}"))
        except Exception as error:
            findings.append(Finding(name, "FAILS", _message(error)))
    return findings


def _span(values) -> str:
    """Format the smallest and the largest value as "0.5 to 2", or as one number if they are equal."""
    return " to ".join(dict.fromkeys(f"{value:.3g}" for value in (min(values), max(values))))


def _message(error: Exception) -> str:
    """Return the error on one line, with its class unless it is an `InputError`."""
    text = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    return text.replace("\n", " ")


def audit(method: Method, *, draws: int = 2000, seed: int = 0) -> list[Finding]:
    """Run all checks of a method's design, with `draws` cohorts in each of four federations: one finding a check.

    A biased design is reported as biased, which is no failure.
    """
    draws, findings = check_int("draws", draws, MIN_DRAWS), []
    try:
        again = methods.from_dict(methods.to_dict(method)) == method
        findings.append(
            _finding("record", again, "a method with its recorded settings is not equal to it")
        )
    except InputError as error:
        findings.append(Finding("record", "FAILS", _message(error)))
    with simulation.limited_threads(1):
        try:
            findings += [
                *determinism(method, seed),
                bias(method, draws, seed),
                *costs(method, seed),
            ]
        except Exception as error:  # whatever a design may raise
            return [*findings, Finding("draw", "FAILS", _message(error))]
        return findings + extremes(method, seed)


def secure(method: Method) -> str:
    """Decide whether a method works under secure aggregation (Bonawitz et al. 2017, doi:10.1145/3133956.3133982),
    which shows the server only sums over clients, from what it asks the server for in a few rounds.

    Returns:
        "no": it asks for vectors of single clients (gradients, centres, last updates), or its server stores updates (control variates
        are stored by the clients, and summed).
        "with scalars": it asks for numbers of single clients (sizes, norms, losses, spreads, labels,
        label counts, reports), and
        updates can be summed. "yes": it asks for nothing of a single client but sizes that do not change the cohorts,
        so that each client can weight its own update. "-": one client holds all data.

    The answer is for the implementation here: K-Vib asks for updates and needs only their norms, and optimal client
    sampling with `approximate` asks for norms of which it needs only sums.
    """
    if has_flag(method.clients, "pooled"):
        return "-"
    questions, cohorts = set[str](), []
    for sizes in (SIZES, SIZES[::-1]):
        bench = Bench(method, sizes)
        view = bench.server()
        cohorts.append([cohort.clients.tolist() for cohort in bench.rounds(view, ROUNDS)])
        questions |= view.questions.keys()
    stores = has_flag(method.server, "remembers") and not has_flag(method.server, "corrects")
    if questions & VECTORS or stores:
        return "no"
    only_weights = {"sizes"} if cohorts[0] == cohorts[1] else set()
    return "with scalars" if questions - only_weights else "yes"
