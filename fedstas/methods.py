"""The named methods: compositions of a client design, a data design, local SGD and a server."""

import re
import shlex
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedstas import ALGORITHMS, user_code
from fedstas.aggregation import Adaptive, Average, UpdateMemoryServer
from fedstas.authors import AuthorsPrivateRate, AuthorsRate, AuthorsStratified
from fedstas.balanced import Balanced
from fedstas.biased import Cyclic, DivFL, PowerOfChoice
from fedstas.client_sampling import (
    MD,
    ClientDesign,
    PerExample,
    Pooled,
    Stratified,
    Uniform,
    has_flag,
)
from fedstas.clustered import Clustered
from fedstas.config import config, float_field, int_field, with_settings
from fedstas.config import settings as settings_of
from fedstas.corrected import StratifiedHansenHurwitz as Corrected
from fedstas.corrected import StratifiedHorvitzThompson
from fedstas.data_sampling import AllData, DataDesign, FedSampling, FixedRate, Optimal, Requested
from fedstas.errors import InputError, check_bool, check_choice
from fedstas.independent import KVib, OptimalClientSampling, Poisson
from fedstas.least_variance import LeastVariance


@config
class LocalSGD:
    """`steps` steps of SGD on batches of at most `batch` examples, each freshly drawn from the
    client's sample (eq. 2.2); `prox` is FedProx's mu."""

    steps: int = int_field(3)
    batch: int = int_field(128)
    lr: float = float_field(0.01, 0)
    prox: float = float_field(0.0, 0, open_low=False)


@dataclass(frozen=True)
class Method:
    """What one round does."""

    name: str
    clients: ClientDesign
    data: DataDesign = AllData()
    local: LocalSGD = LocalSGD()
    server: Average | Adaptive | UpdateMemoryServer = Average()

    def __post_init__(self):
        for name, needs in _NEEDS.items():
            value = getattr(self, name)
            there = not isinstance(value, type) and all(hasattr(value, each) for each in needs)
            if not there:
                raise InputError(f"{name} is {value!r}: it must have {' and '.join(needs)}")


_NEEDS = {
    "clients": ("draw",),
    "data": ("rates", "sample"),
    "local": tuple(asdict(LocalSGD())),
    "server": ("step",),
}
PARTS, LOCAL = tuple(_NEEDS), _NEEDS["local"]
_CORRECTED = Corrected(selection="norm", equal_clients=True)

_ALL = (
    Method("fedavg", Uniform("cohort")),
    Method("fedavg-unbiased", Uniform("expansion")),
    Method("md", MD()),
    Method("strat", Stratified(allocation="proportional", selection="uniform")),
    Method("strat-neyman", Stratified(selection="uniform")),
    Method("fedsts", Stratified()),
    Method("fedstas", Stratified(), Requested()),
    Method("fedstas-dp", Stratified(), Requested(epsilon=3.0)),
    Method("fedstas-optimal-data", Stratified(), Optimal()),
    Method("fedstas-unbiased", Corrected(), FixedRate()),
    Method("fedstas-unbiased-dp", _CORRECTED, FixedRate()),
    Method("fedstas-least-variance", LeastVariance(), FixedRate()),
    Method("fedprox", MD(), local=LocalSGD(prox=0.1)),
    Method("fedsts-authors-dec", AuthorsStratified("uniform"), AuthorsRate()),
    Method("fedstas-authors-dec", AuthorsStratified(), AuthorsRate()),
    Method("fedstas-dp-authors-dec", AuthorsStratified(), AuthorsPrivateRate()),
    Method("clustered-size", Clustered("size")),
    Method("clustered-similarity", Clustered("similarity")),
    Method("target", Clustered("label")),
    Method("fedsampling", PerExample(), FedSampling()),
    Method("fedadam", Uniform("cohort"), server=Adaptive("adam")),
    Method("fedyogi", Uniform("cohort"), server=Adaptive("yogi")),
    Method("fedadagrad", Uniform("cohort"), server=Adaptive("adagrad")),
    Method("optimal-client-sampling", OptimalClientSampling()),
    Method("poisson", Poisson()),
    Method("k-vib", KVib()),
    Method("cube", Balanced()),
    Method("local-pivotal", Balanced("pivotal", "size")),
    Method("power-of-choice", PowerOfChoice()),
    Method("divfl", DivFL()),
    Method("cyclic", Cyclic()),
    Method("fedvarp", Uniform("expansion"), server=UpdateMemoryServer()),
    Method("mifa", Uniform("expansion"), server=UpdateMemoryServer("mifa")),
    Method("centralised", Pooled()),
)
_METHODS = {method.name: method for method in _ALL}
# Which fields of its designs are settings of a method; the others make it the one that it is.
_STRATA = ("strata", "levels", "restratify_every")
_AS_CODED = ("strata", "levels", "n_star", "processor")
_SETTINGS = {
    "strat": _STRATA,
    "strat-neyman": (*_STRATA, "spread"),
    "fedsts": (*_STRATA, "spread", "replace"),
    "fedstas": (*_STRATA, "spread", "replace", "n_star"),
    "fedstas-dp": (*_STRATA, "spread", "replace", "n_star", "epsilon", "size_cap"),
    "fedstas-optimal-data": (*_STRATA, "spread", "replace", "n_star"),
    "fedstas-unbiased": (*_STRATA, "rate", "selection", "floor"),
    "fedstas-unbiased-dp": (*_STRATA, "rate", "selection", "floor", "epsilon", "size_cap"),
    "fedstas-least-variance": (*settings_of(LeastVariance()), "rate"),
    "fedsts-authors-dec": _AS_CODED,
    "fedstas-authors-dec": _AS_CODED,
    "fedstas-dp-authors-dec": (*_AS_CODED, "epsilon", "size_cap"),
    "clustered-similarity": ("measure", "linkage"),
    "optimal-client-sampling": ("approximate",),
    "k-vib": ("mix",),
    "cube": ("measure", "levels", "restratify_every"),
    "local-pivotal": ("measure", "levels", "restratify_every"),
    "power-of-choice": ("candidates",),
    "divfl": ("levels",),
    "fedsampling": ("share", "fraction", "epsilon", "size_cap"),
} | dict.fromkeys(("fedadam", "fedyogi", "fedadagrad"), ("weights", "server_rate"))
# A setting that exchanges a part, its usual value, and the part that it is with any other value.
_SWITCHES: dict[str, tuple[str, Any, dict]] = {
    "fedstas-unbiased": ("replace", True, {"clients": StratifiedHorvitzThompson()}),
    "fedstas-unbiased-dp": ("n_star", None, {"data": Requested(epsilon=3.0, memoised=True)}),
}
_SAYS = {
    "fedavg": "Uniform without replacement, weights n_k over the cohort (McMahan et al.).",
    "fedavg-unbiased": "Uniform without replacement, weights N/m omega_k on updates (eq. 2.3).",
    "md": "m draws with replacement, p = n_k/n, weights 1/m.",
    "strat": "Strata, proportional allocation, uniform within.",
    "strat-neyman": "Strata, Neyman allocation, uniform within.",
    "fedsts": "Strata, Neyman allocation, p proportional to the norm of Z_k (FedSTS, as FedSTaS describes it).",
    "fedstas": "FedSTS, and each example with probability n*/n (FedSTaS, as the paper writes it).",
    "fedstas-dp": "FedSTaS with the total estimated from private reports, drawn afresh in each round.",
    "fedstas-optimal-data": "FedSTaS, with n* shared by weight and gradient spread: its future work; sizes and spreads in the clear.",
    "fedstas-unbiased": "The corrected method: Hansen-Hurwitz on updates; without replacement: Horvitz-Thompson.",
    "fedstas-unbiased-dp": "The corrected method without any true size: omega_k = 1/N; a rate, or n* and memoised reports.",
    "fedstas-least-variance": "One client from each of m strata that make this very draw's variance least; weights W_h.",
    "fedprox": "As md, with FedProx's term mu/2 |w - w_t|^2 in each local loss.",
    "fedsts-authors-dec": "FedSTS as the authors' code of December 2024 has it; p capped at 1, m_h at N_h.",
    "fedstas-authors-dec": "FedSTaS as the authors' code of December 2024 has it; p capped at 1, m_h at N_h.",
    "fedstas-dp-authors-dec": "Its private variant, with the total of all clients estimated anew in each round.",
    "clustered-size": "Clustered sampling by size (Fraboni et al., Algorithm 1).",
    "clustered-similarity": "Clustered sampling by similarity of the last updates (Fraboni et al., Algorithm 2).",
    "target": "Clustered sampling by majority label: the oracle of Fraboni et al., Fig. 1.",
    "fedsampling": "Bernoulli(K/N~) examples over all clients, weights drawn examples / K (Qi et al.).",
    "fedadam": "As fedavg, with Adam on the server (Reddi et al.).",
    "fedyogi": "As fedavg, with Yogi on the server (Reddi et al.).",
    "fedadagrad": "As fedavg, with Adagrad on the server (Reddi et al.).",
    "optimal-client-sampling": "Independent coins by omega times gradient norm, capped at 1 (Chen et al.).",
    "poisson": "Independent coins by size, weights omega over the chance; a cohort may be empty.",
    "k-vib": "Independent coins that learn from the norms of the updates that came back (Zeng et al.).",
    "cube": "Distinct clients, balanced on principal coordinates of the squeezed gradients (Deville and Tille).",
    "local-pivotal": "Distinct clients, spread over the squeezed gradients (Grafstrom et al.).",
    "power-of-choice": "Of d candidates the m of largest loss, weights 1/m; biased (Cho et al.).",
    "divfl": "The m clients whose gradients stand nearest to everyone's; biased (Balakrishnan et al.).",
    "cyclic": "Groups of m take turns, weights n_k over the cohort; biased (Cho et al.).",
    "fedvarp": "As fedavg-unbiased, with a server that remembers updates (Jhunjhunwala et al.).",
    "mifa": "The same, averaging each client's last update; biased to the past (Gu et al.).",
    "centralised": "One client that holds all data: what a federation is held against.",
}
# What a cohort's mean weights are, given the clients' updates; "none": neither n_k/n nor 1/N.
_MEAN_WEIGHTS = {
    "n_k/n": "fedavg-unbiased md fedprox fedstas-unbiased fedstas-least-variance clustered-size "
    "clustered-similarity target optimal-client-sampling poisson k-vib cube local-pivotal fedvarp",
    "1/N": "strat strat-neyman fedstas-unbiased-dp",
    "none": "fedavg fedsts fedstas fedstas-dp fedstas-optimal-data fedsts-authors-dec fedstas-authors-dec "
    "fedstas-dp-authors-dec fedsampling fedadam fedyogi fedadagrad power-of-choice divfl cyclic mifa",
    "-": "centralised",
}
# Whether it works under secure aggregation, as `sim.audit.secure` finds; "no" if it is not named here.
_SECURE = {
    "yes": "fedavg fedavg-unbiased fedadam fedyogi fedadagrad cyclic",
    "with scalars": "md fedprox clustered-size target fedsampling optimal-client-sampling poisson power-of-choice",
    "-": "centralised",
}
_PACKAGE = frozenset(_METHODS)


def names() -> list[str]:
    """All method names, the registered ones last."""
    return list(_METHODS)


def register(name: str, method: Method | ClientDesign, *, says: str = "") -> Method:
    """Let `get` and all that takes a method's name know a method, or a design of one's own with all else
    as for md; `says` is its line in lists. A name of the package is refused, one's own is replaced."""
    if name in _PACKAGE or not re.fullmatch(r"[\w+-][\w.+-]*(?<!\.py)", name):
        raise InputError(
            f"{name!r} cannot name a method of one's own: use a word that no method of the package has"
        )
    made = replace(method, name=name) if isinstance(method, Method) else Method(name, method)
    for each in (made.clients, made.data):
        user_code.check_frozen(type(each))
    _METHODS[name], _SAYS[name] = made, says or (type(made.clients).__doc__ or name).splitlines()[0]
    _SETTINGS[name] = (*settings_of(made.clients), *settings_of(made.data))
    return made


def _named(name: str) -> Method:
    """The method of that name, or of the design in a file FILE.py or FILE.py:CLASS."""
    if isinstance(name, str) and name not in _METHODS and user_code.FILE.fullmatch(name):
        known, kind = user_code.load_design(name)
        with user_code.user_code_errors(kind.__module__):
            try:
                return Method(known, kind())
            except TypeError as error:
                raise InputError(f"{known}: give each setting a default ({error})") from None
    check_choice("method", name, _METHODS)
    return _METHODS[name]


def describe(name: str) -> str:
    """One line on a method."""
    check_choice("method", name, _METHODS)
    return _SAYS[name]


def unbiased_for(name: str) -> str:
    """The clients' weights for which a named method is unbiased: "n_k/n", "1/N" or "none"; "-" where one
    client holds all data, "?" for a method that is not of the package."""
    check_choice("method", name, _METHODS)
    return next((w for w, those in _MEAN_WEIGHTS.items() if name in those.split()), "?")


def secure(name: str) -> str:
    """Whether a named method of the package works under secure aggregation, in the words of
    `sim.audit.secure`; "?" for one that is not of the package."""
    check_choice("method", name, _METHODS)
    other = "no" if name in _PACKAGE else "?"
    return next((word for word, those in _SECURE.items() if name in those.split()), other)


def parameters(name: str) -> dict:
    """The settings that `get(name, ...)` takes, with their defaults."""
    method = _named(name)
    switch, usual, other = _SWITCHES.get(name, ("", None, {}))
    designs = (*other.values(), method.clients, method.data)
    there = {key: value for d in designs for key, value in settings_of(d).items()}
    usually = () if name in _PACKAGE else tuple(there)
    there["server_rate"] = getattr(method.server, "rate", None)
    settings = {key: there[key] for key in _SETTINGS.get(name, usually)}
    return settings | ({switch: usual} if switch else {}) | asdict(method.local)


def get(name: str, **overrides) -> Method:
    """The method of that name, or of the design in a file (FILE.py or FILE.py:CLASS); `overrides` are its
    settings, or whole parts.

    Settings: `parameters(name)`; each goes to the field of its name, in whichever part has it.
    Parts: `clients`, `data`, `local`, `server`, each replacing the method's own; one that is not of the
    package is in the name, as in "md, clients MyDesign". `InputError` for an unknown method or setting
    and for values out of range.
    """
    known = parameters(name)
    has = [*known, *PARTS]
    for key in overrides:
        if key not in has:
            raise InputError(f"method {name} has no setting {key!r}: it has {', '.join(has)}")
    method = _named(name)
    switch, usual, other = _SWITCHES.get(name, ("", None, {}))
    if isinstance(usual, bool):  # no part has it, and checks it
        check_bool(switch, overrides.get(switch, usual))
    if overrides.get(switch, usual) != usual:
        method = replace(method, **other)
    given = {k: v for k, v in overrides.items() if k in known and k not in LOCAL}
    local = with_settings(method.local, {k: v for k, v in overrides.items() if k in LOCAL})
    with user_code.design_errors(method.clients):
        clients, data = (
            with_settings(method.clients, given),
            with_settings(method.data, given),
        )
    if isinstance(clients, AuthorsStratified):  # their gradients are means over the same batches
        clients = replace(clients, batch=local.batch)
    server = method.server
    if "server_rate" in given:
        server = with_settings(server, {"rate": given["server_rate"]})
    there = settings_of(clients) | settings_of(data) | {switch: None, "server_rate": None}
    if idle := [k for k, v in given.items() if k not in there and v != known[k]]:
        why = f"it is used {'without' if idle[0] == 'rate' else 'with'} {switch} alone"
        raise InputError(f"{name} does not use {idle[0]} {given[idle[0]]!r} here: {why}")
    if has_flag(method.clients, "hides_sizes") and not has_flag(clients, "hides_sizes"):
        wrong = given["selection"]
        raise InputError(f"{name} asks for no size, selection {wrong!r} would: use norm or uniform")
    replaced = {k: v for k, v in overrides.items() if k in PARTS}
    foreign = [
        f"{k} {type(v).__name__}" for k, v in replaced.items() if user_code.is_user_defined(v)
    ]
    called = ", ".join([method.name, *foreign])
    made: dict[str, Any] = {"clients": clients, "data": data, "local": local, "server": server}
    return replace(method, name=called, **made | replaced)


def parse(spec: str, **more) -> Method:
    """The method of a name or file and of its settings, as in `md lr=0.1` or `my_design.py power=0.5`."""
    try:
        name, *words = shlex.split(spec)
    except ValueError:
        raise InputError(f"{spec!r} names no method: write NAME KEY=VALUE ...") from None
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"{word!r} after {name} is no setting: write KEY=VALUE")
        more[key] = _plain(value)
    return get(name, **more)


def _plain(text: str):
    """A setting from a command line."""
    words = {"true": True, "false": False, "none": None}
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return words.get(text.lower(), text)


def version(method: Method) -> int:
    """The version of the algorithms that the method's runs were last changed by: the squeeze's if it
    squeezes gradients, else its design's own `version`, which is 1 if the design says nothing."""
    clients = method.clients
    return ALGORITHMS if has_flag(clients, "stratifies") else getattr(clients, "version", 1)


def to_dict(method: Method) -> dict:
    """A method with all its settings, as plain data (for a run's identity); a part of one's own with the
    SHA-256 of its file."""
    return {"name": method.name} | {p: user_code.to_dict(getattr(method, p)) for p in PARTS}


def from_dict(data: dict) -> Method:
    """The method that `to_dict` wrote down."""
    return Method(data["name"], **{p: user_code.from_dict(data[p]) for p in PARTS})
