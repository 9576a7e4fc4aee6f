"""Partitions: which client holds which examples (FedSTaS Sec. 3.1, Fig. 1).

Each partition is a function from labels to a `Federation`, named as the function is; `make` calls one by name.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedstas import user_code
from fedstas.arrays import as_array, as_int_array, as_names
from fedstas.errors import InputError, check_choice, check_float, check_int, format_value
from fedstas.sim import tasks
from fedstas.sim.csv_files import read_json, read_rows
from fedstas.streams import LARGEST_SEED, stream

FILES = ("FILE.npy", "FILE.json", "FILE.csv:COLUMN")  # that name the client of each example
NATURAL_CLIENTS = 100  # of partition natural at most, by default
LOST = "in the validation split, a tenth of all: give it more, or join small clients"
MAX_DRAWS = 1000  # of a partition with a least number of examples
MAX_CONCENTRATION = (
    1e12  # of a Dirichlet law, whose shares are equal long before; beyond 1e300 its sums overflow
)


@dataclass(frozen=True)
class Federation:
    """All clients and their shards; a client without data is listed too, but takes no part in rounds.

    Args:
        shards: for each client the indices of its examples, int64, possibly none.
        sizes: the number of each client's examples, int [N].
        label_counts: each client's number of examples of each class, int [N, C].
        recipe: the partition's name and arguments, from which `from_recipe` makes it again.
        tests: for each client the indices of its own test examples, int64, possibly none; None if clients have none.
    """

    shards: tuple[np.ndarray, ...]
    sizes: np.ndarray
    label_counts: np.ndarray
    recipe: dict = field(default_factory=dict)
    tests: tuple[np.ndarray, ...] | None = None

    @property
    def with_data(self) -> np.ndarray:
        """The clients that hold at least one example, ascending."""
        return np.flatnonzero(self.sizes)


def federation(labels, shards, *, tests=None, **recipe) -> Federation:
    """Make a federation from the shards of its clients and the labels of all examples, int [n].

    `recipe` records the partition's name and arguments, from which `from_recipe` makes the federation again.

    Args:
        labels: int [n], from 0 on.
        shards: for each client the indices of its examples, or a mask, bool [n]; or such by the client's name, as
            {client: indices}, where clients are numbered in the order of their names.
        tests: for each client the indices of its own test examples, in the form of `shards`, without masks; then a run
            reports each client's accuracy on them.

    Raises:
        InputError: an index is not a whole number of 0..n - 1, a mask has not n entries, or `tests` are not of these
            clients.
    """
    labels = _check_labels(labels)
    tests = None if tests is None else _own_tests(tests, shards)
    if isinstance(shards, Mapping):
        shards = _in_order_of_names(shards)
    shards, n = tuple(shards), len(labels)
    if not shards:
        raise InputError("the federation has no clients: give the indices of at least one")
    if not _are_indices(shards, n):
        shards = tuple(_as_indices(k, shard, n) for k, shard in enumerate(shards))
    sizes = np.array([len(s) for s in shards], dtype=np.int64)
    classes = labels.max() + 1
    cells = np.repeat(np.arange(len(shards)) * classes, sizes) + labels[np.concatenate(shards)]
    counts = np.bincount(cells, minlength=len(shards) * classes).reshape(-1, classes)
    return Federation(shards, sizes, counts, recipe, tests)


def _in_order_of_names(shards: Mapping) -> list:
    """Return the values of {client: indices} in the order of the clients' names."""
    order = np.argsort(as_names("the clients", list(shards)), kind="stable")
    return [list(shards.values())[k] for k in order]


def _own_tests(tests, shards) -> tuple[np.ndarray, ...]:
    """Return the indices of each client's own test examples, int64; `shards` are as given to `federation`."""
    if isinstance(tests, Mapping) != isinstance(shards, Mapping) or len(tests) != len(shards):
        raise InputError(
            f"tests are {format_value(tests)}: give them for the same {len(shards)} clients as the shards, and in the "
            "same form"
        )
    if isinstance(tests, Mapping):
        if set(tests) != set(shards):
            unknown = format_value(next(iter(set(tests) ^ set(shards))))
            raise InputError(
                f"tests and shards must name the same clients, and {unknown} is in one alone"
            )
        tests = _in_order_of_names(tests)
    names = [f"the test examples of client {k}" for k in range(len(tests))]
    arrays = [as_array(name, each) for name, each in zip(names, tests, strict=True)]
    none = np.zeros(0, dtype=np.int64)  # a run knows how many test examples there are at most
    return tuple(
        as_int_array(name, each) if each.size else none
        for name, each in zip(names, arrays, strict=True)
    )


def _are_indices(shards: tuple, n: int) -> bool:
    """Return whether all shards are arrays int64 of indices in 0..n - 1; of 50,000 clients this is seen at once."""
    if not all(isinstance(s, np.ndarray) and s.dtype == np.int64 and s.ndim == 1 for s in shards):
        return False
    indices = np.concatenate(shards)
    return indices.min(initial=0) >= 0 and indices.max(initial=0) < n


def _as_indices(k: int, shard, n: int) -> np.ndarray:
    """Return the shard of client k, indices or a mask, as indices int64; `InputError` unless all are in 0..n - 1."""
    shard = as_array(f"the examples of client {k}", shard)
    if shard.dtype == bool:
        if shard.shape != (n,):
            raise InputError(
                f"the mask of client {k} has shape {shard.shape}: it must have an entry for each of the {n} examples"
            )
        return np.flatnonzero(shard)
    if not shard.size:
        return np.zeros(0, dtype=np.int64)
    if shard.dtype.kind in "iu" and shard.max() >= n:
        raise InputError(
            f"client {k} has example {shard.max()}, and there are {n} training examples, counted from 0: indices are of "
            "these alone, without the test examples, which are every fifth of each class if no test set is given"
        )
    return as_int_array(f"the examples of client {k}", shard, high=n - 1)


def _shards_by_name(names: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the different names, ascending, and the indices of the examples of each; `names` [n]."""
    different, counts = np.unique(names, return_counts=True)
    return different, np.split(np.argsort(names, kind="stable"), np.cumsum(counts)[:-1])


def _check_labels(labels) -> np.ndarray:
    """Return labels as int64 [n], or raise an `InputError`."""
    labels = (
        as_array("labels", labels) if hasattr(labels, "dtype") else as_int_array("labels", labels)
    )
    if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise InputError("labels must be whole numbers >= 0, at least one")
    return labels.astype(np.int64)


def _check_seed(seed: int) -> int:
    """Return the seed of a partition as an int, or raise an `InputError`."""
    return check_int("seed", seed, 0, LARGEST_SEED)


def _check_clients(clients: int, labels: np.ndarray) -> int:
    """Return the number of clients, at most that of the examples, or raise an `InputError`."""
    return check_int("the number of clients", clients, 1, len(labels))


def _split(indices: np.ndarray, shares: np.ndarray) -> list[np.ndarray]:
    """Split the indices into consecutive pieces with the given shares; each index is in one piece."""
    # An end that is a whole number is not rounded down to the one before it by a rounding error.
    ends = np.floor(np.cumsum(shares)[:-1] * len(indices) + 1e-9).astype(np.int64)
    return np.split(indices, ends)


def iid(labels, clients: int, seed: int) -> Federation:
    """Split the examples uniformly at random; sizes differ by one at most."""
    labels, seed = _check_labels(labels), _check_seed(seed)
    clients = _check_clients(clients, labels)
    order = stream(seed, "partition").permutation(len(labels))
    shards = [np.sort(s) for s in np.array_split(order, clients)]
    return federation(labels, shards, name="iid", clients=clients, seed=seed)


def dirichlet(labels, clients: int, concentration: float, seed: int, least: int = 0) -> Federation:
    """Split each class over the clients with Dirichlet shares; every example belongs to exactly one client.

    Sizes are unequal, and at small concentrations many clients get nothing. With `least`, partitions are drawn until
    each client has so many examples (`InputError` after `MAX_DRAWS`): the distribution is that given this event.
    """
    labels, seed = _check_labels(labels), _check_seed(seed)
    clients = _check_clients(clients, labels)
    concentration = check_float("concentration", concentration, 0, MAX_CONCENTRATION)
    rng = stream(seed, "partition")
    examples = [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]

    def draw() -> list[np.ndarray]:
        """Draw the shards of all clients."""
        pieces: list[list[np.ndarray]] = [[] for _ in range(clients)]
        for of_class in examples:
            order = rng.permutation(of_class)
            shares = rng.dirichlet(np.full(clients, concentration))
            for of_client, piece in zip(pieces, _split(order, shares), strict=True):
                of_client.append(piece)
        return [np.sort(np.concatenate(p)) for p in pieces]

    shards, conditions = _draw_with_least(draw, least, len(labels) // clients)
    recipe = {"name": "dirichlet", "clients": clients, "concentration": concentration, "seed": seed}
    return federation(labels, shards, **recipe, **conditions)


def _draw_with_least(draw: Callable[[], list], least: int, mean: int) -> tuple[list, dict]:
    """Draw shards until each has at least so many examples; `mean` is what clients of equal size would have.

    Returns:
        The shards, and what the recipe records: nothing without `least`, so that older recipes stay as they are.
    """
    least = check_int("least, the least number of a client's examples,", least, 0, mean)
    for _ in range(MAX_DRAWS if least else 1):
        shards = draw()
        if not least or min(map(len, shards)) >= least:
            return shards, {"least": least} if least else {}
    raise InputError(
        f"none of {MAX_DRAWS} partitions drawn gives each client {least} examples: take fewer clients, a smaller least, "
        "or sizes that are less unequal"
    )


def dirichlet_fixed_size(labels, sizes, concentration: float, seed: int) -> Federation:
    """Let each client draw its class shares from a Dirichlet distribution, and its examples with replacement.

    This is the scheme of the authors' code and of Fraboni et al. Of class shares P a client of n_k examples gets
    floor(P n_k) of each class; the remainder goes to the last class. An example can belong to several clients or to
    none, and the sum of `sizes` may exceed the number of examples.
    """
    labels, sizes = _check_labels(labels), as_int_array("sizes", sizes)
    concentration = check_float("concentration", concentration, 0, MAX_CONCENTRATION)
    seed = _check_seed(seed)
    classes = labels.max() + 1
    examples = [np.flatnonzero(labels == c) for c in range(classes)]
    rng = stream(seed, "partition")
    shards = []
    for size in sizes:
        counts = np.floor(rng.dirichlet(np.full(classes, concentration)) * size).astype(np.int64)
        counts[-1] += size - counts.sum()
        if any(k and not len(pool) for k, pool in zip(counts, examples, strict=True)):
            raise InputError("a class has no examples to draw from")
        pieces = [rng.choice(pool, k) for k, pool in zip(counts, examples, strict=True) if k]
        shards.append(np.sort(np.concatenate(pieces)) if pieces else np.zeros(0, dtype=np.int64))
    recipe = {"sizes": sizes.tolist(), "concentration": concentration, "seed": seed}
    return federation(labels, shards, name="dirichlet_fixed_size", **recipe)


def by_class(labels, clients_per_class: int, size: int, seed: int) -> Federation:
    """Give each client `size` examples of one class, disjoint; clients are numbered at random (Fraboni et
    al., Fig. 1)."""
    labels, seed = _check_labels(labels), _check_seed(seed)
    clients_per_class = check_int("clients_per_class", clients_per_class, 1)
    size = check_int("size", size, 1)
    rng = stream(seed, "partition")
    shards = []
    for label in range(labels.max() + 1):
        examples = rng.permutation(np.flatnonzero(labels == label))
        if len(examples) < clients_per_class * size:
            raise InputError(
                f"class {label} has {len(examples)} examples, fewer than clients_per_class x size = "
                f"{clients_per_class * size}"
            )
        shards += [np.sort(examples[i * size : (i + 1) * size]) for i in range(clients_per_class)]
    # So that a client's number does not reveal its class.
    shards = [shards[k] for k in rng.permutation(len(shards))]
    recipe = {"clients_per_class": clients_per_class, "size": size, "seed": seed}
    return federation(labels, shards, name="by_class", **recipe)


def shards(labels, clients: int, shards_per_client: int, seed: int) -> Federation:
    """Sort the examples by class, cut them into shards of equal size, and deal each client `shards_per_client` of them
    at random (McMahan et al. 2017, Sec. 3, arXiv:1602.05629: 100 clients, two each).

    Every example belongs to exactly one client; where the shards cannot be equal, they differ by one example.
    """
    labels, seed = _check_labels(labels), _check_seed(seed)
    clients = _check_clients(clients, labels)
    most = len(labels) // clients
    shards_per_client = check_int("shards_per_client", shards_per_client, 1, most)
    rng = stream(seed, "partition")
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    pieces = np.array_split(order, clients * shards_per_client)
    deal = rng.permutation(len(pieces)).reshape(clients, shards_per_client)
    dealt = [np.sort(np.concatenate([pieces[i] for i in row])) for row in deal]
    recipe = {"clients": clients, "shards_per_client": shards_per_client, "seed": seed}
    return federation(labels, dealt, name="shards", **recipe)


def k_classes(labels, clients: int, classes_per_client: int, seed: int) -> Federation:
    """Give each client examples of exactly `classes_per_client` classes, the quantity-based label imbalance of Li et
    al. 2022 (arXiv:2102.02079, Sec. 4.1); every example belongs to exactly one client.

    Classes are dealt at random so that each has, up to one, equally many clients, among which its examples are split
    equally.
    """
    labels, seed = _check_labels(labels), _check_seed(seed)
    clients = _check_clients(clients, labels)
    classes = np.unique(labels)
    k = check_int("classes_per_client", classes_per_client, 1, len(classes))
    if clients * k < len(classes):
        raise InputError(
            f"{clients} clients of {k} classes each cannot hold all {len(classes)} classes: take more of either"
        )
    rng = stream(seed, "partition")
    hands: list[np.ndarray] = []  # of each client, the classes
    deck = rng.permutation(classes)
    for _ in range(clients):
        rest = deck[:k]
        if len(rest) < k:  # the next deck begins with classes that this client does not have
            fresh = rng.permutation(classes)
            first = fresh[~np.isin(fresh, rest)][: k - len(rest)]
            deck = np.concatenate([rest, first, rng.permutation(np.setdiff1d(classes, first))])
        hands.append(deck[:k])
        deck = deck[k:]
    pieces: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for label in classes:
        owners = [client for client, hand in enumerate(hands) if label in hand]
        examples = rng.permutation(np.flatnonzero(labels == label))
        if len(examples) < len(owners):
            raise InputError(
                f"class {label} has {len(examples)} examples for {len(owners)} clients: take fewer clients, or classes "
                "per client"
            )
        for client, piece in zip(owners, np.array_split(examples, len(owners)), strict=True):
            pieces[client].append(piece)
    dealt = [np.sort(np.concatenate(of_client)) for of_client in pieces]
    recipe = {"clients": clients, "classes_per_client": k, "seed": seed}
    return federation(labels, dealt, name="k_classes", **recipe)


def lognormal(labels, clients: int, sigma: float, seed: int, least: int = 0) -> Federation:
    """Split the examples uniformly at random, with sizes proportional to log-normal variables of parameter sigma.

    `least`: as in `dirichlet`.
    """
    labels, seed = _check_labels(labels), _check_seed(seed)
    clients = _check_clients(clients, labels)
    sigma = check_float("sigma", sigma, 0, 20, open_low=False)
    rng = stream(seed, "partition")

    def draw() -> list[np.ndarray]:
        """Draw the shards of all clients."""
        shares = np.exp(sigma * rng.standard_normal(clients))
        pieces = _split(rng.permutation(len(labels)), shares / shares.sum())
        return [np.sort(piece) for piece in pieces]

    pieces, conditions = _draw_with_least(draw, least, len(labels) // clients)
    recipe = {"name": "lognormal", "clients": clients, "sigma": sigma, "seed": seed}
    return federation(labels, pieces, **recipe, **conditions)


def natural(labels, users, clients: int, seed: int, test_users=None) -> Federation:
    """Draw `clients` users at random, each of whom becomes a client; `users` [n] names the user of each example, by
    numbers or words, and `test_users`, if given, that of each test example.

    If none of these clients has a test example, the federation has no `tests`, and a warning says so.
    """
    labels, seed = _check_labels(labels), _check_seed(seed)
    if users is None:
        raise InputError(
            f"partition natural needs data that name the user of each example: {', '.join(tasks.WITH_USERS)}, or your own "
            "data with client= or users="
        )
    users = as_names("users", users)
    if len(users) != len(labels):
        raise InputError(
            f"users are {len(users)}: there must be one for each of {len(labels)} labels"
        )
    user_ids, shards = _shards_by_name(users)
    clients = check_int(
        "the number of clients, each a user of the data,", clients, 1, len(user_ids)
    )
    rng = stream(seed, "partition")
    chosen = np.sort(rng.choice(len(user_ids), clients, replace=False))
    shards = [shards[k] for k in chosen]
    tests = None
    if test_users is not None:
        test_users = np.asarray(test_users)
        if test_users.dtype.kind != "i":  # else numbers, -1 for no user of the training examples
            test_users = as_names("test_users", test_users)
        names, rows = _shards_by_name(test_users.astype(str))
        tests_of = dict(zip(names.tolist(), rows, strict=True))
        none = np.zeros(0, dtype=np.int64)
        tests = [tests_of.get(str(name), none) for name in user_ids[chosen]]
        if not any(map(len, tests)):
            warnings.warn(
                "the users of the test examples are none of the clients: accuracy is reported on the whole test set alone, "
                "not by client",
                stacklevel=2,
            )
            tests = None
    recipe = {"name": "natural", "clients": clients, "seed": seed}
    return federation(labels, shards, tests=tests, **recipe)


_ALL: tuple = (
    iid,
    dirichlet,
    dirichlet_fixed_size,
    by_class,
    k_classes,
    shards,
    lognormal,
    natural,
)
_PARTITIONS = {function.__name__: function for function in _ALL}


def load_partition(
    spec: str,
    labels: np.ndarray,
    clients: int | None = None,
    sizes: str = "",
    kept: np.ndarray | None = None,
) -> Federation:
    """Make the federation of a file that names the client of each training example, in their order.

    Args:
        spec: FILE.npy, an array of whole numbers or words [n]; FILE.csv:COLUMN; or FILE.json, the indices of each
            client's examples by its name, or a list of them. Clients are numbered in the order of their names.
        labels: int [n].
        clients: None, or the number of clients that the file must name.
        sizes: must be empty, since the file determines the sizes.
        kept: which of the file's examples have the labels, bool [N]; None if they are all.
    """
    if kept is not None:
        placeholders = np.zeros(len(kept), dtype=np.int64)
        return _keep(load_partition(spec, placeholders, clients, sizes), kept, labels)
    # Either FILE.npy or FILE.json, or FILE.csv and COLUMN: the other groups are None.
    array_or_json, table, column = user_code.TABLE.fullmatch(spec).groups()  # type: ignore[union-attr]
    path = Path(array_or_json or table)
    if not path.is_file():
        raise InputError(f"there is no file {path}: name a partition, {' or '.join(FILES)}")
    if path.suffix == ".json":
        return _load_indices(path, spec, labels, clients, sizes)
    if table:
        names = as_names(str(path), [row[column] for _, row in read_rows(path, column)])
    else:
        try:
            with path.open("rb") as opened:
                names = np.lib.format.read_array(opened, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{path} is not an array of numbers or words: {error}") from error
        names = as_names(f"the names in {path}", names)
    if len(names) != len(labels):
        raise InputError(
            f"{path} names the clients of {len(names)} examples, and there are {len(labels)} training "
            "examples: name the client of each, in their order (if the table is the data, too: from_csv with "
            "client=, and partition natural)"
        )
    client_names, shards = _shards_by_name(names)
    if clients not in (None, len(client_names)):
        raise InputError(f"clients is {clients}: {path} names {len(client_names)} clients")
    if sizes:
        raise InputError(f"sizes are of use only with dirichlet_fixed_size, not {path}")
    name = f"{path.name}:{column}" if table else path.name
    return federation(labels, shards, name=name, sha256=user_code.sha256(spec))


def _load_indices(path: Path, spec: str, labels, clients: int | None, sizes: str) -> Federation:
    """Make the federation of a file {client: [indices]}, or [[indices], ...]; arguments as in `load_partition`."""
    content = read_json(path)
    if not isinstance(content, dict | list):
        raise InputError(
            f"{path} holds a {type(content).__name__}: it must hold {{client: [indices]}}"
        )
    if clients not in (None, len(content)):
        raise InputError(f"clients is {clients}: {path} names {len(content)} clients")
    if sizes:
        raise InputError(f"sizes are of use only with dirichlet_fixed_size, not {path}")
    try:
        return federation(labels, content, name=path.name, sha256=user_code.sha256(spec))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _keep(whole: Federation, kept: np.ndarray, labels: np.ndarray) -> Federation:
    """Return the federation without the examples that are not kept, bool [N]; `labels` [n] are of those that are."""
    places = np.cumsum(kept) - 1
    shards = [places[shard[kept[shard]]] for shard in whole.shards]
    if empty := [k for k, shard in enumerate(shards) if not len(shard)]:
        raise InputError(
            f"of client {empty[0]} of {whole.recipe['name']} all examples, here {whole.sizes[empty[0]]}, are {LOST}"
        )
    return federation(labels, shards, **whole.recipe)


def parse_sizes(sizes: str) -> list[int]:
    """Read client sizes [N] as a command line has them: `100x10,250x30` is ten of 100, thirty of 250."""
    if not re.fullmatch(r"[1-9]\d{0,8}x[1-9]\d{0,5}(,[1-9]\d{0,8}x[1-9]\d{0,5})*", str(sizes)):
        raise InputError(
            f"sizes {sizes!r} cannot be read: write SIZExCLIENTS,... as in 100x10,250x30"
        )
    pairs = (map(int, pair.split("x")) for pair in sizes.split(","))
    return [size for size, clients in pairs for _ in range(clients)]


def _check_sizes(sizes: str, name: str, clients: int, examples: int) -> list[int]:
    """Read client sizes as `parse_sizes` does, and check them.

    Raises:
        InputError: the partition is not dirichlet_fixed_size, the sizes are not one per client, or their sum is
            more than the number of examples.
    """
    client_sizes = parse_sizes(sizes)
    if name != "dirichlet_fixed_size":
        raise InputError(f"sizes are of use only with partition dirichlet_fixed_size, not {name}")
    if len(client_sizes) != clients or sum(client_sizes) > examples:
        raise InputError(
            f"sizes {sizes} are of {len(client_sizes)} clients with {sum(client_sizes)} examples in all: they must "
            f"be of {clients} clients, with at most the {examples} examples of the data"
        )
    return client_sizes


def names() -> list[str]:
    """List the names of all partitions."""
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
    test_users=None,
    sizes: str = "",
    least: int = 0,
    shards_per_client: int = 2,
    classes_per_client: int = 2,
    kept=None,
) -> Federation:
    """Make the partition of a name, with the defaults of the command line.

    Args:
        name: one of `names()`, or FILE.npy, FILE.json or FILE.csv:COLUMN, as in `load_partition`.
        labels: int [n].
        clients: by default 100, or of `natural` all users if they are fewer; if they are more, a warning says so.
        seed: of the partition.
        concentration: of the Dirichlet partitions.
        sigma: of `lognormal`.
        size: of each client in `dirichlet_fixed_size` and `by_class`; by default len(labels) // clients, and no
            more than the smallest class has for each of its clients.
        users: int [n], for `natural`.
        test_users: int, the user of each test example, for `natural`; None if that is not known.
        sizes: of the clients in `dirichlet_fixed_size`, as in `parse_sizes`.
        least: of a client's examples, in `dirichlet` and `lognormal`.
        shards_per_client: of `shards`.
        classes_per_client: of `k_classes`.
        kept: of a task to tune on, `Task.kept`, by which a file of all examples' clients is read.
    """
    labels = _check_labels(labels)
    if least and name not in ("dirichlet", "lognormal"):
        raise InputError(
            f"least is {format_value(least)}: partition {name} has no least size, only dirichlet and lognormal have one"
        )
    if user_code.TABLE.fullmatch(str(name)):
        return load_partition(name, labels, clients, sizes, kept)
    check_choice("partition", name, [*_PARTITIONS, *FILES])
    if clients is None:
        by_user = name == "natural" and users is not None
        clients = _default_users(users) if by_user else 100
    clients = _check_clients(clients, labels)
    equal = len(labels) // clients if size is None else check_int("size", size, 1)
    client_sizes = _check_sizes(sizes, name, clients, len(labels)) if sizes else [equal] * clients
    if name == "dirichlet_fixed_size":
        return dirichlet_fixed_size(labels, client_sizes, concentration, seed)
    if name == "natural":
        _check_users_kept(users, kept, clients)
        return natural(labels, users, clients, seed, test_users)
    if name != "by_class":
        own = {"dirichlet": concentration, "lognormal": sigma, "shards": shards_per_client}
        own["k_classes"] = classes_per_client
        options = {"least": least} if least else {}
        parameter = (own[name],) if name in own else ()
        return _PARTITIONS[name](labels, clients, *parameter, seed, **options)
    classes = int(labels.max()) + 1
    if clients % classes:
        raise InputError(
            f"partition by_class needs a multiple of {classes} clients, one class each, not {clients}"
        )
    smallest = int(np.bincount(labels).min()) // (clients // classes)
    return by_class(labels, clients // classes, size or min(equal, smallest), seed)


def _default_users(users) -> int:
    """Return the number of clients of `natural` by default; users beyond it are left out with a warning."""
    count = len(np.unique(as_names("users", users)))
    if count > NATURAL_CLIENTS:
        warnings.warn(
            f"{NATURAL_CLIENTS} of the {count} users are drawn as clients: for all of them use clients={count} "
            f"(--clients {count})",
            stacklevel=3,
        )
    return min(NATURAL_CLIENTS, count)


def _check_users_kept(users, kept: np.ndarray | None, clients: int) -> None:
    """Raise an `InputError` if a task to tune on has fewer users than clients, which the whole task may have."""
    if kept is None or users is None:
        return
    count = len(np.unique(as_names("users", users)))
    if clients > count:
        raise InputError(
            f"clients is {clients}, and {count} users have training examples in a task to tune on: of any others all are "
            f"{LOST}"
        )


def from_recipe(labels, recipe: dict, users=None, kept=None, test_users=None) -> Federation:
    """Make the federation that a recorded recipe describes; `users` and `test_users` for `natural`, `kept`, as in `make`."""
    settings = dict(recipe)
    name = settings.pop("name", None)
    if "sha256" in settings:
        file = user_code.locate(name, settings["sha256"], "the clients of")
        return make(file, labels, kept=kept)
    check_choice("partition", name, _PARTITIONS)
    settings |= {"users": users, "test_users": test_users} if name == "natural" else {}
    return _PARTITIONS[name](labels, **settings)
