"""Designs over clients: which clients take part in a round, with which weights (FedSTaS Sec. 3).

A design draws a cohort from what it asks a `View` of the server for; a method pays, in bytes and examples, for what
its design asks. Clients are numbered 0..N-1 among those with data.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fedstas import aggregation, allocation, user_code
from fedstas.arrays import as_float_array, as_int_array, rescale
from fedstas.compression import Squeezed
from fedstas.config import bool_field, choice_field, config, float_field, int_field
from fedstas.errors import InputError, check_int
from fedstas.state import Renewed, one_draw, renewed
from fedstas.stratification import (
    draw_kmeans_seed,
    restored_features,
    stratify,
    within_stratum_std,
)

PARTICIPANTS = "the number of participants (clients per round)"  # m, in error messages


class View(Protocol):
    """What a design can ask the server for; the server asks the clients, which is charged."""

    clients: int  # N
    round: int  # t

    @property
    def total(self) -> int:
        """The number of examples of all clients, a public constant."""

    @property
    def sizes(self) -> np.ndarray:
        """True sizes n_k, int [N]."""

    def gradients(self, levels: int) -> Squeezed:
        """Return every client's gradient of its local loss at w_t, squeezed."""

    def sketches(
        self, size: int, *, clip=None, epsilon: float | None = None, delta=1e-5
    ) -> np.ndarray:
        """Sketches of every client's gradient of its local loss at w_t, float32 [N, size]: see `fedstas.sketch`.

        With `epsilon` each client shortens its sketch to `clip` and adds Gaussian noise once a round
        (`privacy.noisy_sketch`); the unit is the client.
        """

    def sketch_vectors(self, vectors, size: int) -> np.ndarray:
        """Sketches [n, size] of vectors [n, P] that the server has, with the signs of `sketches`; it asks nobody."""

    def output_gradients(self, share: float = 1.0, cap: int | None = None) -> np.ndarray:
        """The `output_layer` of every client's gradient of its local loss at w_t, float32 [N, P_out].

        With a `share` below 1 or a `cap` it is that of the mean loss on one random batch, of `share` of the client's
        examples, rounded, at most `cap` and at least one.
        """

    @property
    def output_layer(self) -> slice:
        """The place of the last layer's weights and bias among the parameters [P]."""

    def label_counts(self, epsilon: float | None = None) -> np.ndarray:
        """How many examples of each class every client holds, float [N, classes].

        With `epsilon` each client adds Laplace noise once in a run, and repeats its first answer whenever it is asked
        again, also if its data have changed (`privacy.noisy_counts`). The unit is one example, added or removed.
        """

    def norms(self) -> np.ndarray:
        """Return the norm of every client's gradient of its local loss at w_t, float [N]."""

    def losses(self, clients) -> np.ndarray:
        """Return the mean loss of each of these clients at w_t, float [m]."""

    def centres(self, make, batch: int, levels: int) -> np.ndarray:
        """Return `make(gradient)` of every client, [N, levels], for its gradient at w_t as a mean over batch means."""

    def last_updates(self) -> np.ndarray:
        """Return the update that each client sent when it last took part, [N, P]; zero if it never did."""

    def last_respondents(self) -> np.ndarray | None:
        """Return who sent an update in the last round, bool [N]: participants may be silent, and their last updates are
        then older ones. None where it is not known, as before the first round."""

    def class_updates(self) -> np.ndarray:
        """Of the last updates what concerns each class, float32 [N, classes]: the entries of the last layer's bias, or
        without a bias the means of its weights."""

    @property
    def majority_labels(self) -> np.ndarray:
        """Each client's most frequent class, int [N]. Only oracles use it: a real server does not know it."""

    def state_of(self, design):
        """Return what this design remembers from round to round, the `State` it declares (see `fedstas.state`)."""

    def gradient_spreads(self, clients) -> np.ndarray:
        """Return the standard deviation of each of these clients' example gradients at w_t, [m]."""

    def reports(self, clients, *, size_cap: int, alpha: float, memoised: bool) -> np.ndarray:
        """Return randomised responses of these clients on their sizes, int [m] (`privacy.report`).

        `memoised`: a client repeats its first response in all rounds, also if its size has changed.
        """


@dataclass(frozen=True)
class Cohort:
    """The participants of a round and their aggregation weights.

    Args:
        clients: int [m]. A client that occurs twice trains twice.
        weights: float [m], of the participants' updates; they may be negative.
        strata: the stratum of each participant, int [m], or None for a design without strata.
        per_example: a participant's weight is that of each example that it draws, and not that of its update.
    """

    clients: np.ndarray
    weights: np.ndarray
    strata: np.ndarray | None = None
    per_example: bool = False

    def __post_init__(self):
        clients, weights = np.asarray(self.clients), np.asarray(self.weights)
        if clients.ndim != 1 or (len(clients) and clients.dtype.kind not in "iu"):
            raise InputError("the clients of a cohort must be an array of whole numbers")
        length = f"a cohort of {len(clients)} clients has"
        if self.strata is not None and np.shape(self.strata) != clients.shape:
            raise InputError(
                f"{length} strata of shape {np.shape(self.strata)}: give one for each client, or None"
            )
        if weights.shape != clients.shape:
            raise InputError(f"{length} weights of shape {weights.shape}: give one for each client")
        if weights.dtype.kind not in "fiu" or not np.isfinite(weights).all():
            raise InputError(
                "a weight of the cohort is not a finite number: check the selection probabilities of its design"
            )
        object.__setattr__(self, "clients", clients if len(clients) else clients.astype(np.int64))
        object.__setattr__(self, "weights", weights)

    def on_updates(self, examples) -> np.ndarray:
        """Return the weight of each participant's update [m]; `examples` int [m] is how many examples each drew."""
        return self.weights * examples if self.per_example else self.weights


class ClientDesign(Protocol):
    """A design over clients: a frozen dataclass of its settings, with the method `draw`.

    Optional attributes of the class declare its capabilities (`has_flag` reads them; designs over examples have
    them, too): `stratifies` (it squeezes the clients' gradients, so that its runs have the squeeze's version),
    `hides_sizes` (it asks for no true size), `equal_clients` (its omega_k are 1/N instead of n_k/n),
    `pooled` (one client holds all data), `replaces` (m may be larger than N, since it draws with replacement or ignores
    m), `expands` (its weights without strata are not normalised over the cohort: omega_k over inclusion probabilities,
    or plain omega_k. So those who answer are multiplied by m / r where m - r are silent, also in a cohort whose weights
    add up to 1: `nonresponse.reweight`),
    `needs` (the arguments of `Cohorts.sample` that it asks for). An int `version`, 1 by default, is part of the identity of its runs: raise it when the same settings draw otherwise.

    A design that remembers something from round to round declares a dataclass as `State` and gets it from the view:

        @dataclass
        class Turn:
            next: int = 0

        @dataclass(frozen=True)
        class RoundRobin:
            State = Turn

            def draw(self, view, m, rng):
                turn = view.state_of(self)
                chosen = (turn.next + np.arange(m)) % view.clients
                turn.next += m
                return Cohort(chosen, np.full(m, 1 / m))

    `fedstas.state` says what a state may hold, and how a part of it is computed every so many rounds only. A design that
    draws with two others, of one class and of different settings, gives one of them another class as `State`.
    """

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        """Draw the cohort of a round of m participants, with no randomness but that of `rng`."""


def has_flag(design, name: str) -> bool:
    """Return whether a design (over clients or over examples) or a server optimiser declares this capability."""
    return bool(getattr(design, name, False))


def check_cohort_size(design, m: int, clients: int) -> None:
    """Raise `InputError` if a design that draws no client twice is to draw more clients than there are."""
    m = check_int(PARTICIPANTS, m, 1)
    if m > check_int("the number of clients", clients, 1) and not (
        has_flag(design, "replaces") or has_flag(design, "pooled")
    ):
        raise InputError(f"{m} clients per round are more than the {clients} clients with data")


def draw_cohort(design: ClientDesign, view: View, m: int, rng: np.random.Generator) -> Cohort:
    """Draw a cohort with a design; `InputError` if the result is not a cohort of the view's clients."""
    check_cohort_size(design, m, view.clients)
    with user_code.design_errors(design):
        try:
            with one_draw():
                cohort = design.draw(view, m, rng)
        except AttributeError as error:
            # The object that lacks the attribute may be a part of the view that stands for it: views have `state_of`.
            if error.obj is not view and not hasattr(error.obj, "state_of"):
                raise
            names = [k for k in (*View.__annotations__, *vars(View)) if k in dir(error.obj)]
            names = [k for k in names if k[0] != "_"]
            message = f"a design's view has no {error.name}: it has {', '.join(names)}"
            raise InputError(message).with_traceback(error.__traceback__) from None
        if not isinstance(cohort, Cohort):
            raise InputError(
                f"{type(design).__name__}.draw returned a {type(cohort).__name__}: it must return a "
                "Cohort(clients, weights)"
            )
        last = view.clients - 1
        unknown = cohort.clients[(cohort.clients < 0) | (cohort.clients > last)]
        if len(unknown):
            raise InputError(
                f"the cohort names client {unknown[0]}: clients are numbered 0 to {last}"
            )
    return cohort


def successive_sample(selection, m: int, rng: np.random.Generator) -> np.ndarray:
    """Draw m distinct indices one after another, with probabilities proportional to `selection` [N].

    The law is that of `rng.choice(replace=False, p=...)`. Exponential keys (Efraimidis and Spirakis 2006, "Weighted
    random sampling with a reservoir") draw indices of selection zero last, where `choice` refuses them. The
    inclusion probability is *not* m p: see `theory.inclusion_probabilities`.
    """
    selection = rescale(as_float_array("selection", selection, 0))
    m = check_int("m", m, 0, len(selection))
    with np.errstate(divide="ignore", over="ignore"):
        keys = rng.exponential(size=len(selection)) / selection
    ties = rng.random(len(selection))
    return np.lexsort((ties, keys, selection == 0))[:m]


def check_sizes(sizes) -> np.ndarray:
    """Return sizes n_k as int [N]; `InputError` if there is no client, one is negative, or all are zero."""
    if hasattr(sizes, "__len__") and not len(sizes):
        raise InputError("the federation is empty: it has no client to draw")
    sizes = as_int_array(
        "client sizes",
        sizes,
        advice="give each client's number of examples, not its share of the data",
    )
    if not sizes.any():
        raise InputError(
            f"client sizes are all zero, for each of {len(sizes)} clients: at least one must be above 0, so give the "
            "numbers of examples that the clients hold"
        )
    return sizes


def client_sizes(view: View) -> np.ndarray:
    """Ask the clients for their true sizes n_k [N]."""
    return check_sizes(view.sizes)


def check_participants(m: int, clients: int) -> int:
    """Return m, the number of distinct participants, if it is in 1..N for N clients."""
    return check_int(PARTICIPANTS, m, 1, check_int("the number of clients", clients, 1))


@config
class Uniform:
    """Draw m distinct clients with equal probabilities.

    `weights`: "cohort" (n_k over the cohort's total: McMahan et al. 2017, arXiv:1602.05629), "expansion" (N/m omega_k
    on updates: FedSTaS eq. 2.3, unbiased), "plain" (1/m: Reddi et al. 2021, arXiv:2003.00295) or "share" (omega_k,
    so that absent clients count as if they had returned w_t: Fraboni et al. 2021, arXiv:2105.05883, eq. 3; the
    expected update is m/N of the full one). With "expansion" and "share" the design `expands`: participants who are
    silent are made up for by the others, with "share" too, where clients that are not drawn are not.
    """

    expands = property(lambda self: self.weights in ("expansion", "share"))
    equal_clients = property(lambda self: self.weights == "plain")
    weights: str = choice_field("cohort", "expansion", "plain", "share")

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        chosen = rng.choice(view.clients, check_participants(m, view.clients), replace=False)
        if self.weights == "plain":
            return Cohort(chosen, np.full(len(chosen), 1 / len(chosen)))
        sizes = client_sizes(view)
        if self.weights == "cohort":
            return Cohort(chosen, aggregation.cohort_weights(sizes[chosen]))
        omega = sizes / sizes.sum()
        if self.weights == "share":
            return Cohort(chosen, omega[chosen])
        return Cohort(chosen, aggregation.expansion_weights(omega[chosen], view.clients))


@config
class MD:
    """Draw m clients with replacement, p = n_k / n, weights 1/m: multinomial sampling (Li et al. 2020,
    arXiv:1907.02189, scheme I)."""

    replaces: ClassVar[bool] = True

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_int(PARTICIPANTS, m, 1)
        sizes = client_sizes(view)
        chosen = rng.choice(view.clients, m, p=sizes / sizes.sum())
        return Cohort(chosen, np.full(m, 1 / m))


@config
class PerExample:
    """Take all clients, or some of them, and weight each example that they draw by 1 / K (FedSampling: Qi et al. 2023,
    arXiv:2306.14245).

    Args:
        share: K as a share of the examples of all clients. It should equal the `share` of the data design
            `data_sampling.FedSampling`, which draws K examples in expectation.
        fraction: the share of the clients that take part, drawn uniformly. As in the paper the weights do not correct
            for it, so that the expected update is this fraction of the full one.
    """

    replaces: ClassVar[bool] = True
    share: float = float_field(0.1, 0, 1)
    fraction: float = float_field(1.0, 0, 1)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        count = max(1, round(self.fraction * view.clients))
        chosen = np.sort(rng.choice(view.clients, count, replace=False))
        weights = np.full(count, 1 / (self.share * view.total))
        return Cohort(chosen, weights, per_example=True)


@config
class Pooled:
    """Train centrally: the simulation pools the data of all clients, and this client alone takes part."""

    pooled: ClassVar[bool] = True

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        return Cohort(np.zeros(1, dtype=np.int64), np.ones(1))


@dataclass(frozen=True)
class Strata:
    """A stratification: labels [N], norms of Z_k [N], within-stratum standard deviations S_h [H]."""

    labels: np.ndarray
    norms: np.ndarray
    spreads: np.ndarray


@dataclass
class StrataState:
    """The strata of a stratified design, renewed every `restratify_every` rounds."""

    strata: Renewed[Strata] = renewed()


def cluster_clients(points, norms, strata: int, rng: np.random.Generator) -> Strata:
    """Stratify clients by k-means of points [N, d] into at most `strata` strata; their norms are [N]."""
    labels = stratify(points, strata, draw_kmeans_seed(rng))
    spreads = within_stratum_std(points, labels)
    return Strata(labels, rescale(norms), rescale(spreads))


def stratify_clients(design, view: View, m: int, rng) -> Strata:
    """Stratify the clients by k-means of their restored gradients Z_k (Alg. 2), or return the strata of earlier rounds.

    The design's settings are used: `strata`, `levels`, and `restratify_every`, the rounds for which strata are kept.
    """

    def compute() -> Strata:
        squeezed = view.gradients(design.levels)
        points = restored_features(squeezed)
        return cluster_clients(points, squeezed.norms(), min(design.strata, m), rng)

    strata = view.state_of(design).strata
    return strata.get(view.round, design.restratify_every, compute)


def draw_from_strata(labels, draws, pick) -> tuple[np.ndarray, np.ndarray]:
    """Draw clients stratum by stratum: return them [m] and the stratum of each [m].

    Args:
        labels: the stratum of each client, int [N].
        draws: the allocation, how many draws each stratum has, int [H].
        pick: `pick(members, count)` returns `count` of a stratum's members.
    """
    members = [np.flatnonzero(labels == h) for h in range(len(draws))]
    chosen = [pick(group, int(count)) for group, count in zip(members, draws, strict=True)]
    return np.concatenate(chosen), np.repeat(np.arange(len(draws)), draws)


def draw_stratified(strata: Strata, m: int, rng: np.random.Generator, *, replace=False) -> Cohort:
    """Draw m clients by Neyman allocation with 1 <= m_h <= N_h, within a stratum proportionally to their norms.

    Weights are N_h / (N m_h). By default distinct clients are drawn one after another.
    """
    sizes = np.bincount(strata.labels)
    draws = allocation.neyman(sizes, strata.spreads, m)

    def pick(members, count: int) -> np.ndarray:
        """Draw members of one stratum."""
        norms = strata.norms[members]
        if not replace:
            return members[successive_sample(norms, count, rng)]
        p = norms / norms.sum() if norms.sum() > 0 else np.full(len(norms), 1 / len(norms))
        return rng.choice(members, count, p=p)

    chosen, labels = draw_from_strata(strata.labels, draws, pick)
    return Cohort(chosen, aggregation.stratum_weights(sizes, draws)[labels], labels)


@config
class Stratified:
    """Stratify by squeezed gradients, allocate m_h draws, weight by N_h / (N m_h) (FedSTaS Sec. 3; preprint, eq. 6).

    `allocation`: "neyman" or "proportional", both whole numbers with 1 <= m_h <= N_h.
    `selection` within a stratum: "norm" (p_k proportional to the norm of Z_k, Sec. 3.2) or "uniform".
    `replace`: draw with replacement; by default clients are drawn one after another, none twice.
    `spread`: S_h is the within-stratum standard "deviation" or "variance", the two readings of the paper.
    The estimator is biased unless p is uniform, as the book's pages on theory show.
    """

    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    State: ClassVar[type] = StrataState
    stratifies: ClassVar[bool] = True
    equal_clients: ClassVar[bool] = True

    strata: int = int_field(10)
    levels: int = int_field(9, 2, 256)
    restratify_every: int = int_field(1)
    allocation: str = choice_field("neyman", "proportional")
    selection: str = choice_field("norm", "uniform")
    spread: str = choice_field("deviation", "variance")
    replace: bool = bool_field(False)

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_participants(m, view.clients)
        s = stratify_clients(self, view, m, rng)
        spreads = np.ones_like(s.spreads) if self.allocation == "proportional" else s.spreads
        if self.spread == "variance":
            spreads = spreads**2  # S_h as the paper's text reads; Neyman's rule has the deviation
        norms = s.norms if self.selection == "norm" else np.ones(view.clients)
        return draw_stratified(Strata(s.labels, norms, spreads), m, rng, replace=self.replace)
