"""The named methods: compositions of a client design, a data design, local SGD and a server."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass, fields, replace

from fedstas import (
    ALGORITHMS,
    aggregation,
    authors,
    client_sampling,
    clustered,
    corrected,
    data_sampling,
)
from fedstas.aggregation import Adaptive, Average
from fedstas.authors import AuthorsPrivateRate, AuthorsRate, AuthorsStratified
from fedstas.client_sampling import (
    MD,
    ClientDesign,
    PerExample,
    Pooled,
    Stratified,
    Uniform,
)
from fedstas.clustered import Clustered
from fedstas.corrected import StratifiedHansenHurwitz as Corrected
from fedstas.corrected import StratifiedHorvitzThompson
from fedstas.data_sampling import AllData, DataDesign, FedSampling, FixedRate, Requested
from fedstas.errors import InputError, integer, one_of, real


@dataclass(frozen=True)
class LocalSGD:
    """`steps` steps of SGD on batches of at most `batch` examples, each freshly drawn from the
    client's sample (eq. 2.2); `prox` is FedProx's mu."""

    steps: int = 3
    batch: int = 128
    lr: float = 0.01
    prox: float = 0.0

    def __post_init__(self):
        integer("steps", self.steps, 1)
        integer("batch", self.batch, 1)
        real("lr", self.lr, 0)
        real("prox", self.prox, 0, open_low=False)


@dataclass(frozen=True)
class Method:
    """What one round does."""

    name: str
    clients: ClientDesign
    data: DataDesign = AllData()
    local: LocalSGD = LocalSGD()
    server: Average | Adaptive = Average()


def _fedavg():
    """Uniform without replacement, weights n_k over the cohort (McMahan et al.)."""
    return Uniform("cohort"), AllData()


def _fedavg_unbiased():
    """Uniform without replacement, weights N/m omega_k on updates (eq. 2.3)."""
    return Uniform("expansion"), AllData()


def _md():
    """m draws with replacement, p = n_k/n, weights 1/m."""
    return MD(), AllData()


def _strat(strata=10, levels=9, restratify_every=1):
    """Strata, proportional allocation, uniform within."""
    return Stratified(strata, levels, restratify_every, "proportional", "uniform"), AllData()


def _strat_neyman(strata=10, levels=9, restratify_every=1, spread="deviation"):
    """Strata, Neyman allocation, uniform within."""
    return Stratified(strata, levels, restratify_every, "neyman", "uniform", spread), AllData()


def _fedsts(strata=10, levels=9, restratify_every=1, spread="deviation", replace=False):
    """Strata, Neyman allocation, p proportional to the norm of Z_k (FedSTS, as FedSTaS describes it)."""
    return _as_written(strata, levels, restratify_every, spread, replace), AllData()


def _fedstas(
    strata=10, levels=9, restratify_every=1, n_star=2048, spread="deviation", replace=False
):
    """FedSTS, and each example with probability n*/n (FedSTaS, as the paper writes it)."""
    return _as_written(strata, levels, restratify_every, spread, replace), Requested(n_star)


def _fedstas_dp(
    strata=10,
    levels=9,
    restratify_every=1,
    n_star=2048,
    epsilon=3.0,
    size_cap=100,
    spread="deviation",
    replace=False,
):
    """FedSTaS with the total estimated from private reports, drawn afresh in each round."""
    clients = _as_written(strata, levels, restratify_every, spread, replace)
    return clients, Requested(n_star, epsilon, size_cap)


def _fedstas_unbiased(
    strata=10,
    levels=9,
    restratify_every=10,
    rate=1.0,
    selection="size-norm",
    floor=0.01,
    replace=True,
):
    """The corrected method: Hansen-Hurwitz on updates, omega_k = n_k/n; without replacement:
    Horvitz-Thompson with true inclusion probabilities."""
    clients = Corrected(strata, levels, restratify_every, selection, floor=floor)
    return clients if replace else StratifiedHorvitzThompson(clients), FixedRate(rate)


def _fedstas_unbiased_dp(
    strata=10,
    levels=9,
    restratify_every=10,
    rate=1.0,
    n_star=None,
    epsilon=3.0,
    size_cap=100,
    selection="norm",
    floor=0.01,
):
    """The corrected method without any true size: omega_k = 1/N; a rate, or n* and memoised reports."""
    one_of("selection", selection, ("norm", "uniform"))
    clients = Corrected(strata, levels, restratify_every, selection, True, floor)
    if n_star is None:
        return clients, FixedRate(rate)
    return clients, Requested(n_star, epsilon, size_cap, memoised=True)


def _clustered_size():
    """Clustered sampling by size (Fraboni et al., Algorithm 1)."""
    return Clustered("size"), AllData()


def _clustered_similarity(measure="arccos"):
    """Clustered sampling by similarity of the last updates (Fraboni et al., Algorithm 2)."""
    return Clustered("similarity", measure), AllData()


def _target():
    """Clustered sampling by majority label: the oracle of Fraboni et al., Fig. 1."""
    return Clustered("label"), AllData()


def _fedsts_authors(strata=10, levels=9, n_star=2048):
    """FedSTS as the authors' code of December 2024 has it; p capped at 1, m_h at N_h."""
    return AuthorsStratified("uniform", strata, levels, n_star=n_star), AuthorsRate(n_star)


def _fedstas_authors(strata=10, levels=9, n_star=2048):
    """FedSTaS as the authors' code of December 2024 has it; p capped at 1, m_h at N_h."""
    return AuthorsStratified("strata", strata, levels, n_star=n_star), AuthorsRate(n_star)


def _fedstas_dp_authors(strata=10, levels=9, n_star=2048, epsilon=3.0, size_cap=100):
    """Its private variant, with the total of all clients estimated anew in each round."""
    clients = AuthorsStratified("strata", strata, levels, n_star=n_star)
    return clients, AuthorsPrivateRate(n_star, epsilon, size_cap)


def _fedsampling(share=0.1, fraction=1.0, epsilon=3.0, size_cap=100):
    """Bernoulli(K/N~) examples over all clients, weights drawn examples / K (Qi et al.)."""
    return PerExample(share, fraction), FedSampling(share, epsilon, size_cap)


def _centralised():
    """One client that holds all data."""
    return Pooled(), AllData()


def _as_written(strata, levels, restratify_every, spread, replace) -> Stratified:
    return Stratified(strata, levels, restratify_every, "neyman", "norm", spread, replace)


_METHODS = {
    "fedavg": _fedavg,
    "fedavg-unbiased": _fedavg_unbiased,
    "md": _md,
    "strat": _strat,
    "strat-neyman": _strat_neyman,
    "fedsts": _fedsts,
    "fedstas": _fedstas,
    "fedstas-dp": _fedstas_dp,
    "fedstas-unbiased": _fedstas_unbiased,
    "fedstas-unbiased-dp": _fedstas_unbiased_dp,
    "fedprox": _md,
    "fedsts-authors-dec": _fedsts_authors,
    "fedstas-authors-dec": _fedstas_authors,
    "fedstas-dp-authors-dec": _fedstas_dp_authors,
    "clustered-size": _clustered_size,
    "clustered-similarity": _clustered_similarity,
    "target": _target,
    "fedsampling": _fedsampling,
    "fedadam": _fedavg,
    "fedyogi": _fedavg,
    "fedadagrad": _fedavg,
    "centralised": _centralised,
}
# What a method changes besides its designs.
_LOCAL_OF = {"fedprox": LocalSGD(prox=0.1)}
_SERVER_OF = {f"fed{kind}": Adaptive(kind) for kind in ("adam", "yogi", "adagrad")}
_LOCAL = tuple(f.name for f in fields(LocalSGD))
_PARTS = ("clients", "data", "local", "server")


def names() -> list[str]:
    """All method names."""
    return list(_METHODS)


def describe(name: str) -> str:
    """One line on a method."""
    one_of("method", name, _METHODS)
    return inspect.getdoc(_METHODS[name])


def parameters(name: str) -> dict:
    """The settings that `get(name, ...)` takes, with their defaults."""
    one_of("method", name, _METHODS)
    own = {p.name: p.default for p in inspect.signature(_METHODS[name]).parameters.values()}
    return own | asdict(_LOCAL_OF.get(name, LocalSGD()))


def get(name: str, **overrides) -> Method:
    """The method of that name; `overrides` are its settings, or whole parts.

    Settings: `parameters(name)`. Parts: `clients`, `data`, `local`, `server`, each replacing
    the method's own. `InputError` for an unknown method or setting and for values out of range.
    """
    known = parameters(name)
    for key in overrides:
        if key not in known and key not in _PARTS:
            raise InputError(
                f"method {name} has no setting {key!r}: it has {', '.join([*known, *_PARTS])}"
            )
    own = {k: v for k, v in overrides.items() if k in known and k not in _LOCAL}
    clients, data = _METHODS[name](**own)
    local = replace(
        _LOCAL_OF.get(name, LocalSGD()), **{k: v for k, v in overrides.items() if k in _LOCAL}
    )
    server = _SERVER_OF.get(name, Average())
    parts = {"clients": clients, "data": data, "local": local, "server": server}
    return Method(name, **parts | {k: v for k, v in overrides.items() if k in _PARTS})


def version(method: Method) -> int:
    """The version of the algorithms that the method's runs were last changed by: 1 if it squeezes no
    gradient, else 2."""
    design = getattr(method.clients, "corrected", method.clients)
    return ALGORITHMS if hasattr(design, "restratify_every") else 1


def to_dict(method: Method) -> dict:
    """A method with all its settings, as plain data (for a run's identity and its sidecar)."""
    parts = {
        p: {"is": type(getattr(method, p)).__name__} | asdict(getattr(method, p)) for p in _PARTS
    }
    return {"name": method.name} | parts


def from_dict(data: dict) -> Method:
    """The method that `to_dict` wrote down."""
    parts = {}
    for part in _PARTS:
        settings = dict(data[part])
        kind = settings.pop("is")
        for module in (client_sampling, corrected, clustered, authors, data_sampling, aggregation):
            if hasattr(module, kind):
                if "corrected" in settings:
                    settings["corrected"] = Corrected(**settings["corrected"])
                parts[part] = getattr(module, kind)(**settings)
        if kind == "LocalSGD":
            parts[part] = LocalSGD(**settings)
        if part not in parts:
            raise InputError(f"a recorded method names an unknown part {kind!r}")
    return Method(data["name"], **parts)
