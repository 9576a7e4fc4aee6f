"""Designs over clients: who takes part in a round, with which weights (FedSTaS Sec. 3).

A design sees the federation through a view of the server and draws a cohort. What it asks the
view for is what the method pays for. Clients are numbered 0..N-1 among those with data.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fedstas import aggregation, allocation, user_code
from fedstas.arrays import as_float_array, as_int_array, rescale_exponent
from fedstas.compression import Squeezed
from fedstas.config import bool_field, choice_field, config, float_field, int_field
from fedstas.errors import InputError, check_int
from fedstas.state import Renewed, renewed
from fedstas.stratification import restored_features, stratify, within_stratum_std


class View(Protocol):
    """What the server knows, and what it can ask the clients for at a price."""

    clients: int  # N
    round: int  # t

    @property
    def total(self) -> int:
        """The number of all examples, a public constant of the experiment."""

    @property
    def sizes(self) -> np.ndarray:
        """True sizes n_k, int [N]."""

    def gradients(self, levels: int) -> Squeezed:
        """Every client's gradient of its local loss at w_t, squeezed."""

    def norms(self) -> np.ndarray:
        """The norm of every client's gradient of its local loss at w_t, float [N]."""

    def losses(self, clients) -> np.ndarray:
        """The mean loss of each of these clients at w_t, float [m]."""

    def centres(self, make, batch: int, levels: int) -> np.ndarray:
        """`make(gradient)` of each client at w_t [N, levels], the gradient a mean of batch means."""

    def last_updates(self) -> np.ndarray:
        """Each client's update w_k - w_t of its last participation [N, P], zero before."""

    @property
    def majority_labels(self) -> np.ndarray:
        """Each client's most frequent class, int [N]: for oracles, no server knows it."""

    def state_of(self, design):
        """What this design remembers from round to round: the `State` it declares (see `fedstas.state`)."""

    def gradient_spreads(self, clients) -> np.ndarray:
        """The standard deviation of each of these clients' example gradients at w_t, [m]."""

    def reports(self, clients, *, size_cap: int, alpha: float, memoised: bool) -> np.ndarray:
        """The randomised responses of these clients on their sizes, int [m]."""


@dataclass(frozen=True)
class Cohort:
    """The participants of a round: `clients` int [m] (a client may stand twice, and then trains
    twice), their `weights` float [m] on updates (negative ones are allowed), and the stratum of each
    where there are any. `per_example`: a weight counts for each example that the participant draws."""

    clients: np.ndarray
    weights: np.ndarray
    strata: np.ndarray | None = None
    per_example: bool = False

    def __post_init__(self):
        clients, weights = np.asarray(self.clients), np.asarray(self.weights)
        if clients.ndim != 1 or (len(clients) and clients.dtype.kind not in "iu"):
            raise InputError("the clients of a cohort must be an array of whole numbers")
        says = f"a cohort of {len(clients)} clients has"
        if self.strata is not None and np.shape(self.strata) != clients.shape:
            raise InputError(f"{says} strata of shape {np.shape(self.strata)}: one each, or None")
        if weights.shape != clients.shape:
            raise InputError(f"{says} weights of shape {weights.shape}: one each is needed")
        if weights.dtype.kind not in "fiu" or not np.isfinite(weights).all():
            raise InputError("a weight of the cohort is not finite: its design divides by zero")
        object.__setattr__(self, "clients", clients if len(clients) else clients.astype(np.int64))
        object.__setattr__(self, "weights", weights)

    def on_updates(self, draw_cohort) -> np.ndarray:
        """The weight of each participant's update, from how many examples each drew, int [m]."""
        return self.weights * draw_cohort if self.per_example else self.weights


class ClientDesign(Protocol):
    """Draws the cohort of a round.

    What is special about a design, here or over examples, it says of itself by attributes that `has_flag`
    reads: `stratifies` (squeezes the clients' gradients: its runs carry the squeeze's version),
    `hides_sizes` (asks for no true size), `pooled` (one client holds all data), `replaces` (m may be above
    N: it draws with replacement, or does not go by m).
    """

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort: ...


def has_flag(design, name: str) -> bool:
    """Whether a design (over clients or over examples) says of itself that it has this trait."""
    return bool(getattr(design, name, False))


def check_cohort_size(design, m: int, clients: int) -> None:
    """`InputError` if a design that draws distinct clients is asked for more than there are."""
    if m > clients and not (has_flag(design, "replaces") or has_flag(design, "pooled")):
        raise InputError(f"{m} clients per round are more than the {clients} clients with data")


def draw_cohort(design: ClientDesign, view: View, m: int, rng: np.random.Generator) -> Cohort:
    """The cohort that a design draws; `InputError` if that is no cohort of the view's clients."""
    check_cohort_size(design, m, view.clients)
    with user_code.design_errors(design):
        try:
            cohort = design.draw(view, m, rng)
        except AttributeError as error:
            if not hasattr(error.obj, "state_of"):  # no view
                raise
            has = [k for k in (*View.__annotations__, *vars(View)) if k[0] != "_"]
            said = f"a design's view has no {error.name}: it has {', '.join(has)}"
            raise InputError(said).with_traceback(error.__traceback__) from None
        if not isinstance(cohort, Cohort):
            raise InputError(
                f"{type(design).__name__}.draw returned a {type(cohort).__name__}: it must return a "
                "Cohort(clients, weights)"
            )
        last = view.clients - 1
        strange = cohort.clients[(cohort.clients < 0) | (cohort.clients > last)]
        if len(strange):
            raise InputError(f"the cohort names client {strange[0]}: there are 0 to {last}")
    return cohort


def successive_sample(selection, m: int, rng: np.random.Generator) -> np.ndarray:
    """m distinct indices, drawn one after another with probabilities proportional to `selection`.

    This is what `rng.choice(replace=False, p=...)` does; by exponential keys (Efraimidis and
    Spirakis), so that zeros are drawn last instead of being an error. The inclusion probability
    is *not* m p: see `theory.inclusion_probabilities`.
    """
    selection = rescale_exponent(as_float_array("selection", selection, 0))[0]
    m = check_int("m", m, 0, len(selection))
    with np.errstate(divide="ignore", over="ignore"):
        keys = rng.exponential(size=len(selection)) / selection
    ties = rng.random(len(selection))
    return np.lexsort((ties, keys, selection == 0))[:m]


def check_sizes(sizes) -> np.ndarray:
    """Sizes n_k as int [N], refused if there is no client, one is negative, or all are zero."""
    if hasattr(sizes, "__len__") and not len(sizes):
        raise InputError("the federation is empty: there is no client to draw")
    sizes = as_int_array("client sizes", sizes)
    if not sizes.any():
        raise InputError("client sizes are all zero")
    return sizes


def client_sizes(view: View) -> np.ndarray:
    """The true sizes n_k [N], as the server asks for them."""
    return check_sizes(view.sizes)


def check_participants(m: int, clients: int) -> int:
    """m in 1..N, for a design that draws distinct clients."""
    clients = check_int("the number of clients", clients, 0)
    return check_int("the number of participants (clients per round)", m, 1, clients)


@config
class Uniform:
    """m distinct clients with equal probabilities.

    `weights`: "cohort" (n_k over the cohort: McMahan et al.), "expansion" (N/m omega_k on
    updates: eq. 2.3, unbiased) or "plain" (1/m: Algorithm 1 of FedSampling's slides, FedOpt).
    """

    weights: str = choice_field("cohort", "expansion", "plain")

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        chosen = rng.choice(view.clients, check_participants(m, view.clients), replace=False)
        if self.weights == "plain":
            return Cohort(chosen, np.full(len(chosen), 1 / len(chosen)))
        sizes = client_sizes(view)
        if self.weights == "cohort":
            return Cohort(chosen, aggregation.cohort_weights(sizes[chosen]))
        omega = sizes / sizes.sum()
        return Cohort(chosen, aggregation.expansion_weights(omega[chosen], view.clients))


@config
class MD:
    """m draws with replacement, p = n_k / n, weights 1/m (multinomial; Li et al. 2020, scheme I)."""

    replaces: ClassVar[bool] = True

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        m = check_int("the number of participants (clients per round)", m, 1)
        sizes = client_sizes(view)
        chosen = rng.choice(view.clients, m, p=sizes / sizes.sum())
        return Cohort(chosen, np.full(m, 1 / m))


@config
class PerExample:
    """All clients, or a fraction of them drawn uniformly, each weighted by its drawn examples over
    K, K being `share` of all examples (FedSampling; Qi et al. 2023).

    As in the paper the weights do not know the fraction: the expected update is that fraction of
    the full one.
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
    """One client that holds all data: centralised training. The simulation pools the shards."""

    pooled: ClassVar[bool] = True

    def draw(self, view: View, m: int, rng: np.random.Generator) -> Cohort:
        return Cohort(np.zeros(1, dtype=np.int64), np.ones(1))


@dataclass(frozen=True)
class Strata:
    """Clients in strata: labels [N], norms of Z_k [N], spread S_h of each stratum [H]."""

    labels: np.ndarray
    norms: np.ndarray
    spreads: np.ndarray


@dataclass
class StrataState:
    """The strata of a stratified design, renewed every `restratify_every` rounds."""

    strata: Renewed[Strata] = renewed()


def stratify_clients(design, view: View, m: int, rng) -> Strata:
    """Strata of the restored gradients Z_k (Alg. 2), as the design's `strata`, `levels` and
    `restratify_every` say."""

    def compute() -> Strata:
        squeezed = view.gradients(design.levels)
        points = restored_features(squeezed)
        labels = stratify(points, min(design.strata, m), int(rng.integers(2**31)))
        return Strata(
            labels,
            rescale_exponent(squeezed.norms())[0],
            rescale_exponent(within_stratum_std(points, labels))[0],
        )

    strata = view.state_of(design).strata
    return strata.get(view.round, design.restratify_every, compute)


def draw_from_strata(labels, seats, pick) -> tuple[np.ndarray, np.ndarray]:
    """Clients [m] and the stratum of each [m]: of stratum h those that `pick(members, seats[h])` names."""
    members = [np.flatnonzero(labels == h) for h in range(len(seats))]
    chosen = [pick(those, int(seat)) for those, seat in zip(members, seats, strict=True)]
    return np.concatenate(chosen), np.repeat(np.arange(len(seats)), seats)


@config
class Stratified:
    """Strata of squeezed gradients, m_h by allocation, weights N_h / (N m_h) (FedSTaS Sec. 3, eq. 6).

    `allocation`: "neyman" or "proportional", both integer under 1 <= m_h <= N_h.
    `selection` within a stratum: "norm" (p_k proportional to the norm of Z_k, Sec. 3.2) or "uniform".
    `replace`: draw with replacement; the default draws distinct clients one after another.
    `spread`: "deviation" or "variance", the paper's two readings of S_h.
    The estimator is biased unless p is uniform: see chapter 4.
    """

    State: ClassVar[type] = StrataState
    stratifies: ClassVar[bool] = True

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
        sizes = np.bincount(s.labels)
        spreads = np.ones(len(sizes)) if self.allocation == "proportional" else s.spreads
        if self.spread == "variance":
            spreads = spreads**2
        seats = allocation.neyman(sizes, spreads, m)

        def pick(members, seat: int) -> np.ndarray:
            p = s.norms[members] if self.selection == "norm" else np.ones(len(members))
            if not self.replace:
                return members[successive_sample(p, seat, rng)]
            p = p / p.sum() if p.sum() > 0 else np.full(len(p), 1 / len(p))
            return rng.choice(members, seat, p=p)

        chosen, strata = draw_from_strata(s.labels, seats, pick)
        return Cohort(chosen, aggregation.stratum_weights(sizes, seats)[strata], strata)
