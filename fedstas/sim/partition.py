"""Who holds which examples (FedSTaS Sec. 3.1, Fig. 1). A partition's name is its function's name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from fedstas import user_code
from fedstas.arrays import as_int_array, check_same_shape
from fedstas.errors import InputError, check_choice, check_float, check_int
from fedstas.sim.rng import LARGEST_SEED, stream


@dataclass(frozen=True)
class Federation:
    """All clients and their shards.

    `shards`: one int64 array of example indices per client, possibly empty; `sizes` int [N];
    `label_counts` int [N, C]; `recipe` says how to make it again. A client without data is
    kept here but takes part in nothing.
    """

    shards: tuple[np.ndarray, ...]
    sizes: np.ndarray
    label_counts: np.ndarray
    recipe: dict = field(default_factory=dict)

    @property
    def with_data(self) -> np.ndarray:
        """The clients that hold at least one example, ascending."""
        return np.flatnonzero(self.sizes)


def federation(labels, shards, **recipe) -> Federation:
    """A federation from any shards; labels int [n]."""
    labels = _labels(labels)
    shards = tuple(np.asarray(s, dtype=np.int64) for s in shards)
    counts = [np.bincount(labels[s], minlength=labels.max() + 1) for s in shards]
    sizes = np.array([len(s) for s in shards], dtype=np.int64)
    return Federation(shards, sizes, np.stack(counts), recipe)


def _labels(labels) -> np.ndarray:
    labels = labels.cpu() if hasattr(labels, "cpu") else labels
    labels = labels if hasattr(labels, "dtype") else as_int_array("labels", labels)
    labels = np.asarray(labels)
    if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise InputError("labels must be whole numbers >= 0, at least one")
    return labels.astype(np.int64)


def _seed(seed: int) -> int:
    return check_int("seed", seed, 0, LARGEST_SEED)


def _clients(clients: int, labels: np.ndarray) -> int:
    return check_int("the number of clients", clients, 1, len(labels))


def _cut(pool: np.ndarray, shares: np.ndarray) -> list[np.ndarray]:
    """The pool in consecutive pieces with the given shares; every element once."""
    cuts = np.floor(np.cumsum(shares)[:-1] * len(pool) + 1e-9).astype(np.int64)
    return np.split(pool, cuts)


def iid(labels, clients: int, seed: int) -> Federation:
    """A uniform random split; sizes differ by one at most."""
    labels, seed = _labels(labels), _seed(seed)
    clients = _clients(clients, labels)
    order = stream(seed, "partition").permutation(len(labels))
    shards = [np.sort(s) for s in np.array_split(order, clients)]
    return federation(labels, shards, name="iid", clients=clients, seed=seed)


def dirichlet(labels, clients: int, concentration: float, seed: int) -> Federation:
    """Each class dealt over the clients with Dirichlet shares; every example once.

    Sizes are unequal, and at small concentrations many clients get nothing.
    """
    labels, seed = _labels(labels), _seed(seed)
    clients, concentration = (
        _clients(clients, labels),
        check_float("concentration", concentration, 0),
    )
    rng = stream(seed, "partition")
    parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for label in range(labels.max() + 1):
        pool = rng.permutation(np.flatnonzero(labels == label))
        shares = rng.dirichlet(np.full(clients, concentration))
        for part, piece in zip(parts, _cut(pool, shares), strict=True):
            part.append(piece)
    shards = [np.sort(np.concatenate(p)) for p in parts]
    recipe = {"name": "dirichlet", "clients": clients, "concentration": concentration, "seed": seed}
    return federation(labels, shards, **recipe)


def dirichlet_fixed_size(labels, sizes, concentration: float, seed: int) -> Federation:
    """Each client draws its own class shares and its examples with replacement.

    The scheme of the authors' code and of Fraboni et al.: counts are floor(P n_k), the remainder
    goes to the last class, and clients overlap: not a partition of the data, and `sizes` may exceed it.
    """
    labels, sizes = _labels(labels), as_int_array("sizes", sizes)
    concentration, seed = check_float("concentration", concentration, 0), _seed(seed)
    classes = labels.max() + 1
    pools = [np.flatnonzero(labels == c) for c in range(classes)]
    rng = stream(seed, "partition")
    shards = []
    for size in sizes:
        counts = np.floor(rng.dirichlet(np.full(classes, concentration)) * size).astype(np.int64)
        counts[-1] += size - counts.sum()
        if any(k and not len(pool) for k, pool in zip(counts, pools, strict=True)):
            raise InputError("a class has no examples to draw from")
        drawn = [rng.choice(pool, k) for k, pool in zip(counts, pools, strict=True) if k]
        shards.append(np.sort(np.concatenate(drawn)) if drawn else np.zeros(0, dtype=np.int64))
    recipe = {"sizes": sizes.tolist(), "concentration": concentration, "seed": seed}
    return federation(labels, shards, name="dirichlet_fixed_size", **recipe)


def by_class(labels, clients_per_class: int, size: int, seed: int) -> Federation:
    """Clients with one class each, `size` examples, disjoint, numbered at random (Fraboni et al., Fig. 1)."""
    labels, seed = _labels(labels), _seed(seed)
    clients_per_class = check_int("clients_per_class", clients_per_class, 1)
    size = check_int("size", size, 1)
    rng = stream(seed, "partition")
    shards = []
    for label in range(labels.max() + 1):
        pool = rng.permutation(np.flatnonzero(labels == label))
        if len(pool) < clients_per_class * size:
            raise InputError(
                f"class {label} has {len(pool)} examples, fewer than clients_per_class x size = "
                f"{clients_per_class * size}"
            )
        shards += [np.sort(pool[i * size : (i + 1) * size]) for i in range(clients_per_class)]
    shards = [shards[k] for k in rng.permutation(len(shards))]  # a number must not tell a class
    recipe = {"clients_per_class": clients_per_class, "size": size, "seed": seed}
    return federation(labels, shards, name="by_class", **recipe)


def lognormal(labels, clients: int, sigma: float, seed: int) -> Federation:
    """A uniform random split with sizes proportional to a log-normal of that sigma; disjoint."""
    labels, seed = _labels(labels), _seed(seed)
    clients, sigma = _clients(clients, labels), check_float("sigma", sigma, 0, 20, open_low=False)
    rng = stream(seed, "partition")
    shares = np.exp(sigma * rng.standard_normal(clients))
    shards = _cut(rng.permutation(len(labels)), shares / shares.sum())
    shards = [np.sort(s) for s in shards]
    return federation(labels, shards, name="lognormal", clients=clients, sigma=sigma, seed=seed)


def natural(labels, users, clients: int, seed: int) -> Federation:
    """A client for each user, or for that many of them drawn at random; users int [n]: whose an example is."""
    labels, seed = _labels(labels), _seed(seed)
    if users is None:
        raise InputError(
            "partition natural needs data that say whose each example is: topics, newsgroups, yours with client= or users="
        )
    check_same_shape("labels and users", labels, users)
    known = np.unique(users)
    clients = check_int("the number of clients, each a user of the data,", clients, 1, len(known))
    chosen = np.sort(stream(seed, "partition").choice(known, clients, replace=False))
    shards = [np.flatnonzero(users == user) for user in chosen]
    return federation(labels, shards, name="natural", clients=clients, seed=seed)


_ALL: tuple = (iid, dirichlet, dirichlet_fixed_size, by_class, lognormal, natural)
_PARTITIONS = {function.__name__: function for function in _ALL}


def listed(sizes: str) -> list[int]:
    """Client sizes [N] as they are written on a command line: `100x10,250x30` is ten of 100, thirty of 250."""
    if not re.fullmatch(r"[1-9]\d{0,8}x[1-9]\d{0,5}(,[1-9]\d{0,8}x[1-9]\d{0,5})*", str(sizes)):
        raise InputError(f"sizes {sizes!r} are none: write SIZExCLIENTS,... as in 100x10,250x30")
    pairs = (map(int, pair.split("x")) for pair in sizes.split(","))
    return [size for size, clients in pairs for _ in range(clients)]


def _sized(sizes: str, name: str, clients: int, held: int) -> list[int]:
    """The same, of a partition that can have them, of so many clients and no more examples than there are."""
    each = listed(sizes)
    if name != "dirichlet_fixed_size":
        raise InputError(f"sizes are of use only with partition dirichlet_fixed_size, not {name}")
    if len(each) != clients or sum(each) > held:
        raise InputError(
            f"sizes {sizes} are of {len(each)} clients with {sum(each)} examples in all: they must be of "
            f"{clients} clients, with at most the {held} examples of the data"
        )
    return each


def names() -> list[str]:
    """All partition names."""
    return list(_PARTITIONS)


def make(
    name: str,
    labels,
    *,
    clients: int | None = None,
    seed: int = 0,
    concentration: float = 0.01,
    sigma: float = 1.0,
    size: int | None = None,
    users=None,
    sizes: str = "",
) -> Federation:
    """The partition of that name with `clients` clients, 100 if it is not said (`natural`: or all `users`, if
    they are fewer): what the command line offers. FILE.npy and FILE.csv:COLUMN name each example's client.

    `dirichlet_fixed_size` and `by_class` give each `size` examples, len(labels) // clients (or as
    many as the smallest class has for each of its clients) unless it is said; `dirichlet_fixed_size`
    takes unequal `sizes` too, see `listed`.
    """
    labels = _labels(labels)
    if user_code.TABLE.fullmatch(str(name)):
        from fedstas.sim import user_data

        return user_data.dealt(name, labels, clients, sizes)
    check_choice("partition", name, [*_PARTITIONS, "FILE.npy", "FILE.csv:COLUMN"])
    if clients is None:
        known = name == "natural" and users is not None
        clients = min(100, len(np.unique(users))) if known else 100
    clients = _clients(clients, labels)
    each = len(labels) // clients if size is None else check_int("size", size, 1)
    own_sizes = _sized(sizes, name, clients, len(labels)) if sizes else [each] * clients
    if name == "dirichlet_fixed_size":
        return dirichlet_fixed_size(labels, own_sizes, concentration, seed)
    if name == "natural":
        return natural(labels, users, clients, seed)
    if name != "by_class":
        given = {"dirichlet": (concentration,), "lognormal": (sigma,)}.get(name, ())
        return _PARTITIONS[name](labels, clients, *given, seed)
    classes = int(labels.max()) + 1
    if clients % classes:
        raise InputError(
            f"partition by_class needs a multiple of {classes} clients, one class each, not {clients}"
        )
    smallest = int(np.bincount(labels).min()) // (clients // classes)
    return by_class(labels, clients // classes, size or min(each, smallest), seed)


def from_recipe(labels, recipe: dict, users=None) -> Federation:
    """The federation that a recorded recipe describes; `users` for `natural`."""
    settings = dict(recipe)
    name = settings.pop("name", None)
    if "sha256" in settings:
        return make(user_code.locate(name, settings["sha256"], "the clients of"), labels)
    check_choice("partition", name, _PARTITIONS)
    settings |= {"users": users} if name == "natural" else {}
    return _PARTITIONS[name](labels, **settings)
