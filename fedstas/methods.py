"""The named methods: compositions of a client design, a data design, local SGD and a server.

A method of the package is one entry of `_PACKAGE`; to add one is to write its entry.
"""

import math
import re
import shlex
from contextlib import suppress
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from fedstas import ALGORITHMS, user_code
from fedstas.aggregation import (
    Adaptive,
    Average,
    ClusterMemoryServer,
    NormalisedAverage,
    Scaffold,
    ServerMomentum,
    ServerOptimizer,
    UpdateMemoryServer,
)
from fedstas.authors import AuthorsPrivateRate, AuthorsRate, AuthorsStratified
from fedstas.authors_2025 import Authors2025, Authors2025PrivateSample, Authors2025Sample
from fedstas.balanced import Balanced
from fedstas.biased import Cyclic, DivFL, PowerOfChoice
from fedstas.class_balance import ClassBalance
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
from fedstas.config import choice_field, config, float_field, int_field, with_settings
from fedstas.config import settings as settings_of
from fedstas.corrected import StratifiedHansenHurwitz as Corrected
from fedstas.corrected import StratifiedHorvitzThompson
from fedstas.data_sampling import AllData, DataDesign, FedSampling, FixedRate, Optimal, Requested
from fedstas.errors import InputError, check_bool, check_choice
from fedstas.independent import KVib, OptimalClientSampling, Poisson
from fedstas.label_entropy import LabelEntropy
from fedstas.label_strata import LabelStrata
from fedstas.least_variance import LeastVariance
from fedstas.level_strata import LevelStrata


@config
class LocalSGD:
    """`steps` steps of SGD, or of Adam, on batches of at most `batch` examples, each freshly drawn from the
    client's sample (eq. 2.2); `prox` is mu of FedProx (arXiv:1812.06127).

    `epochs`: as many steps as so many passes over the client's sample have, in place of `steps`.
    `momentum`: beta of v <- beta v + gradient, from v = 0 in each round; each step subtracts lr v.
    `optimizer`: "sgd", or "adam" (Kingma and Ba 2015, arXiv:1412.6980, with its beta1 0.9, beta2 0.999 and epsilon
    1e-8), whose moments start from zero in each round: clients keep nothing.
    `schedule`: the rate in round t = 1, 2, ...: "constant"; "cosine", lr (1 + cos(pi (t - 1) / T)) / 2, in rounds
    1..T only (Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts); "step", lr c^floor((t - 1) / T);
    "inverse", lr / (1 + (t - 1) / T), which is lr / t for T = 1 (Li et al. 2020, arXiv:1907.02189). T is
    `decay_rounds`, and c `decay_factor`.
    """

    steps: int = int_field(3)
    batch: int = int_field(128)
    lr: float = float_field(0.01, 0)
    prox: float = float_field(0.0, 0, open_low=False)
    epochs: int | None = int_field(None, optional=True, later=True)
    momentum: float = float_field(0.0, 0, 1, open_low=False, open_high=True, later=True)
    optimizer: str = choice_field("sgd", "adam", later=True)
    schedule: str = choice_field("constant", "cosine", "step", "inverse", later=True)
    decay_rounds: int | None = int_field(None, optional=True, later=True)
    decay_factor: float = float_field(0.1, 0, 1, later=True)

    def __post_init__(self):
        constant = self.schedule == "constant"
        if constant != (self.decay_rounds is None):
            needs = "is of no use" if constant else "is missing: give the number of rounds, T"
            raise InputError(f"schedule is {self.schedule!r}: decay_rounds {needs}")
        if self.optimizer == "adam" and self.momentum:
            raise InputError(
                f"momentum is {self.momentum}: it is of optimizer 'sgd' alone, since Adam has its own, beta1"
            )

    def learning_rate(self, t: int) -> float:
        """Return the learning rate of round t >= 1; `InputError` if it is not above 0 any more."""
        since = 0.0 if self.decay_rounds is None else (t - 1) / self.decay_rounds
        rate = self.lr
        if self.schedule == "cosine":
            # cos^2(x / 2) = (1 + cos x) / 2, without cancellation near the end
            rate *= math.cos(math.pi * since / 2) ** 2 if since < 1 else 0.0
        elif self.schedule == "step":
            rate *= self.decay_factor ** math.floor(since)
        elif self.schedule == "inverse":
            rate /= 1 + since
        if not rate > 0:
            raise InputError(
                f"the learning rate of round {t} is 0 by schedule {self.schedule!r} with decay_rounds "
                f"{self.decay_rounds}: it must be above 0, so raise decay_rounds or use fewer rounds"
            )
        return rate

    def lengths(self, steps, t: int) -> np.ndarray:
        """Return how far local steps move a client whose gradient is always 1, for numbers of steps [m]: without
        momentum and prox the rate of round t times the steps; generally the rate times ||a||_1 of Wang et al. 2020
        (arXiv:2007.07481)."""
        rate, steps = self.learning_rate(t), np.asarray(steps)
        moved = velocity = np.zeros(len(steps))
        for step in range(steps.max(initial=0)):
            velocity = self.momentum * velocity + 1 - self.prox * moved
            moved = np.where(step < steps, moved + rate * velocity, moved)
        return moved

    def count_steps(self, sample: int) -> int:
        """Return the number of local steps of a client with a sample of this size, 0 if it is empty."""
        passes = self.steps if self.epochs is None else math.ceil(self.epochs * sample / self.batch)
        return passes if sample else 0


@dataclass(frozen=True)
class Switch:
    """A setting that replaces whole parts of a method: at any value but `default`, the method has `parts` instead of its own.

    For example `replace=False` of "fedstas-unbiased" puts another client design in the place of its own.
    """

    setting: str
    default: Any
    parts: dict[str, Any]


@dataclass(frozen=True)
class Method:
    """What one round does, as four parts; the other fields describe the method and are no part of its identity.

    Args:
        name: its name in lists, records and figures.
        clients: which clients take part, with which weights.
        data: on which of their examples.
        local: how a client trains.
        server: what the server does with the clients' updates: an optimiser of `aggregation`.
        description: one line for lists.
        settings: the fields of the designs that `get` takes as settings, in the order of lists;
            None: all of them.
        switch: a setting that replaces whole parts; None where no setting does.
        unbiased_for: the clients' weights for which the aggregate of their updates is unbiased, "n_k/n",
            "1/N" or "none"; "-" where one client holds all data, "?" where nobody has said.
        secure_aggregation: whether it works under secure aggregation, "yes", "with scalars", "no" or "-",
            as `sim.audit.secure` defines these; "?" where nobody has said.
    """

    name: str
    clients: ClientDesign
    data: DataDesign = AllData()
    local: LocalSGD = LocalSGD()
    server: ServerOptimizer = Average()
    _: KW_ONLY
    description: str = field(default="", compare=False, repr=False)
    settings: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    switch: Switch | None = field(default=None, compare=False, repr=False)
    unbiased_for: str = field(default="?", compare=False, repr=False)
    secure_aggregation: str = field(default="?", compare=False, repr=False)

    def __post_init__(self):
        for part, attributes in _REQUIRED.items():
            value = getattr(self, part)
            if isinstance(value, type) or not all(hasattr(value, each) for each in attributes):
                raise InputError(f"{part} is {value!r}: it must have {' and '.join(attributes)}")
        if self.local.optimizer == "adam":
            for flag in ("corrects", "normalises"):
                if has_flag(self.server, flag):
                    raise InputError(
                        f"optimizer 'adam' does not go with the server {type(self.server).__name__}, which divides "
                        "updates by numbers of SGD steps: use 'sgd'"
                    )


_REQUIRED = {
    "clients": ("draw",),
    "data": ("rates", "sample"),
    "local": tuple(f.name for f in fields(LocalSGD)),
    "server": ("step",),
}
PARTS, LOCAL = tuple(_REQUIRED), _REQUIRED["local"]

_STRATA = ("strata", "levels", "restratify_every")
_AS_CODED = ("strata", "levels", "n_star", "processor")
_BALANCED = ("measure", "levels", "restratify_every", "features", "sketch_size")
_ADAPTIVE = ("weights", "server_rate")

_PACKAGE = (
    Method(
        "fedavg",
        Uniform("cohort"),
        description="Uniform without replacement, weights n_k over the cohort (McMahan et al.).",
        settings=(),
        unbiased_for="none",
        secure_aggregation="yes",
    ),
    Method(
        "fedavg-unbiased",
        Uniform("expansion"),
        description="Uniform without replacement, weights N/m omega_k on updates (eq. 2.3).",
        settings=(),
        unbiased_for="n_k/n",
        secure_aggregation="yes",
    ),
    Method(
        "fedavg-eq3",
        Uniform("share"),
        description="Uniform without replacement, weights n_k/n: absent clients keep w_t (Fraboni et al., eq. 3).",
        settings=(),
        unbiased_for="none",
        secure_aggregation="yes",
    ),
    Method(
        "md",
        MD(),
        description="m draws with replacement, p = n_k/n, weights 1/m.",
        unbiased_for="n_k/n",
        secure_aggregation="with scalars",
    ),
    Method(
        "strat",
        Stratified(allocation="proportional", selection="uniform"),
        description="Strata, proportional allocation, uniform within.",
        settings=_STRATA,
        unbiased_for="1/N",
        secure_aggregation="no",
    ),
    Method(
        "strat-neyman",
        Stratified(selection="uniform"),
        description="Strata, Neyman allocation, uniform within.",
        settings=(*_STRATA, "spread"),
        unbiased_for="1/N",
        secure_aggregation="no",
    ),
    Method(
        "fedsts",
        Stratified(),
        description="Strata, Neyman allocation, p proportional to the norm of Z_k (FedSTS, as FedSTaS describes it).",
        settings=(*_STRATA, "spread", "replace"),
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "fedstas",
        Stratified(),
        Requested(),
        description="FedSTS, and each example with probability n*/n (FedSTaS, as the paper writes it).",
        settings=(*_STRATA, "spread", "replace", "n_star"),
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "fedstas-dp",
        Stratified(),
        Requested(epsilon=3.0),
        description="FedSTaS with the total estimated from private reports, drawn afresh in each round.",
        settings=(*_STRATA, "spread", "replace", "n_star", "epsilon", "size_cap"),
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "fedstas-optimal-data",
        Stratified(),
        Optimal(),
        description="FedSTaS, with n* shared by weight and gradient spread: its future work; sizes and spreads in the clear.",
        settings=(*_STRATA, "spread", "replace", "n_star"),
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "hcsfed",
        LevelStrata(),
        description="As fedsts, from the levels of squeezed gradients alone: 36 bytes a client (Song et al.); biased.",
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "stratified-labels",
        LabelStrata(),
        description="Strata of class shares, formed once; Neyman allocation, uniform within (Shen et al.).",
        unbiased_for="1/N",
        secure_aggregation="with scalars",
    ),
    Method(
        "fedstas-unbiased",
        Corrected(),
        FixedRate(),
        description="The corrected method: Hansen-Hurwitz on updates; without replacement: Horvitz-Thompson.",
        settings=(*_STRATA, "rate", "selection", "floor"),
        switch=Switch("replace", True, {"clients": StratifiedHorvitzThompson()}),
        unbiased_for="n_k/n",
        secure_aggregation="no",
    ),
    Method(
        "fedstas-unbiased-dp",
        Corrected(selection="norm", equal_clients=True),
        FixedRate(),
        description="The corrected method without any true size: omega_k = 1/N; a rate, or n* and memoised reports.",
        settings=(*_STRATA, "rate", "selection", "floor", "epsilon", "size_cap"),
        switch=Switch("n_star", None, {"data": Requested(epsilon=3.0, memoised=True)}),
        unbiased_for="1/N",
        secure_aggregation="no",
    ),
    Method(
        "fedstas-least-variance",
        LeastVariance(),
        FixedRate(),
        description="One client from each of m strata, chosen so that this draw's variance is least; weights W_h.",
        unbiased_for="n_k/n",
        secure_aggregation="no",
    ),
    Method(
        "fedprox",
        MD(),
        local=LocalSGD(prox=0.1),
        description="As md, with FedProx's term mu/2 |w - w_t|^2 in each local loss.",
        unbiased_for="n_k/n",
        secure_aggregation="with scalars",
    ),
    Method(
        "fedsts-authors-dec",
        AuthorsStratified("uniform"),
        AuthorsRate(),
        description="FedSTS as the authors' code of December 2024 has it; p capped at 1, m_h at N_h.",
        settings=_AS_CODED,
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "fedstas-authors-dec",
        AuthorsStratified(),
        AuthorsRate(),
        description="FedSTaS as the authors' code of December 2024 has it; p capped at 1, m_h at N_h.",
        settings=_AS_CODED,
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "fedstas-dp-authors-dec",
        AuthorsStratified(),
        AuthorsPrivateRate(),
        description="fedstas-authors-dec with the total of all clients estimated anew from private reports in each round.",
        settings=(*_AS_CODED, "epsilon", "size_cap"),
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "fedsts-authors-2025",
        Authors2025(),
        description="FedSTS as the authors' code of 2025 has it: strata of last-layer gradients on one batch.",
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "fedstas-authors-2025",
        Authors2025(),
        Authors2025Sample(),
        description="FedSTaS as the authors' code of 2025 has it: fedsts-authors-2025 and floor(n_k p) examples.",
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "fedstas-dp-authors-2025",
        Authors2025(),
        Authors2025PrivateSample(),
        description="fedstas-authors-2025 with the total estimated anew from private reports in each round.",
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "clustered-size",
        Clustered("size"),
        description="Clustered sampling by size (Fraboni et al., Algorithm 1).",
        settings=(),
        unbiased_for="n_k/n",
        secure_aggregation="with scalars",
    ),
    Method(
        "clustered-similarity",
        Clustered("similarity"),
        description="Clustered sampling by similarity of the last updates (Fraboni et al., Algorithm 2).",
        settings=("measure", "linkage"),
        unbiased_for="n_k/n",
        secure_aggregation="no",
    ),
    Method(
        "target",
        Clustered("label"),
        description="Clustered sampling by majority label, the oracle of Fraboni et al., Fig. 1.",
        settings=(),
        unbiased_for="n_k/n",
        secure_aggregation="with scalars",
    ),
    Method(
        "fedsampling",
        PerExample(),
        FedSampling(),
        description="Bernoulli(K/N~) examples over all clients, weights drawn examples / K (Qi et al.).",
        unbiased_for="none",
        secure_aggregation="with scalars",
    ),
    Method(
        "fedadam",
        Uniform("cohort"),
        server=Adaptive("adam"),
        description="As fedavg, with Adam on the server (Reddi et al.).",
        settings=_ADAPTIVE,
        unbiased_for="none",
        secure_aggregation="yes",
    ),
    Method(
        "fedyogi",
        Uniform("cohort"),
        server=Adaptive("yogi"),
        description="As fedavg, with Yogi on the server (Reddi et al.).",
        settings=_ADAPTIVE,
        unbiased_for="none",
        secure_aggregation="yes",
    ),
    Method(
        "fedadagrad",
        Uniform("cohort"),
        server=Adaptive("adagrad"),
        description="As fedavg, with Adagrad on the server (Reddi et al.).",
        settings=_ADAPTIVE,
        unbiased_for="none",
        secure_aggregation="yes",
    ),
    Method(
        "optimal-client-sampling",
        OptimalClientSampling(),
        description="Poisson sampling by omega times gradient norm, capped at 1 (Chen et al., arXiv:2010.13723).",
        unbiased_for="n_k/n",
        secure_aggregation="with scalars",
    ),
    Method(
        "poisson",
        Poisson(),
        description="Poisson sampling by size, weights omega over the inclusion probability; a cohort may be empty.",
        unbiased_for="n_k/n",
        secure_aggregation="with scalars",
    ),
    Method(
        "k-vib",
        KVib(),
        description="Poisson sampling by norms that are learned from the updates of participants (Zeng et al.).",
        unbiased_for="n_k/n",
        secure_aggregation="no",
    ),
    Method(
        "cube",
        Balanced(),
        description="Distinct clients, balanced on principal coordinates of the squeezed gradients (Deville and Tille).",
        settings=_BALANCED,
        unbiased_for="n_k/n",
        secure_aggregation="no",
    ),
    Method(
        "local-pivotal",
        Balanced("pivotal", "size"),
        description="Distinct clients, spread over the squeezed gradients (Grafstrom et al.).",
        settings=_BALANCED,
        unbiased_for="n_k/n",
        secure_aggregation="no",
    ),
    Method(
        "power-of-choice",
        PowerOfChoice(),
        description="Of d candidates the m of largest loss, weights 1/m; biased (Cho et al.).",
        unbiased_for="none",
        secure_aggregation="with scalars",
    ),
    Method(
        "divfl",
        DivFL(),
        description="The m clients whose gradients represent all clients' best; biased (Balakrishnan et al.).",
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "cyclic",
        Cyclic(),
        description="Groups of m take turns, weights n_k over the cohort; biased (Cho et al.).",
        unbiased_for="none",
        secure_aggregation="yes",
    ),
    Method(
        "hics-fl",
        LabelEntropy(),
        description="Clusters of output-layer updates, at first those of high label entropy; biased (Chen and Vikalo).",
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "fed-cbs",
        ClassBalance(),
        description="Clients whose pooled classes are balanced, weights n_k over the cohort; biased (Zhang et al.).",
        unbiased_for="none",
        secure_aggregation="with scalars",
    ),
    Method(
        "fedvarp",
        Uniform("expansion"),
        server=UpdateMemoryServer(),
        description="As fedavg-unbiased, with a server that keeps each client's last update (Jhunjhunwala et al.).",
        settings=(),
        unbiased_for="n_k/n",
        secure_aggregation="no",
    ),
    Method(
        "mifa",
        Uniform("expansion"),
        server=UpdateMemoryServer("mifa"),
        description="As fedvarp, averaging each client's last update; biased to the past (Gu et al.).",
        settings=(),
        unbiased_for="none",
        secure_aggregation="no",
    ),
    Method(
        "cluster-fedvarp",
        Uniform("expansion"),
        server=ClusterMemoryServer(),
        description="As fedvarp, with the last mean update of each of ten clusters (Jhunjhunwala et al.).",
        settings=(),
        unbiased_for="n_k/n",
        secure_aggregation="no",
    ),
    Method(
        "scaffold",
        Uniform("expansion"),
        server=Scaffold(),
        description="As fedavg-unbiased, with control variates in local steps; twice the traffic (Karimireddy et al.).",
        settings=(),
        unbiased_for="n_k/n",
        secure_aggregation="yes",
    ),
    Method(
        "fednova",
        MD(),
        local=LocalSGD(epochs=1),
        server=NormalisedAverage(),
        description="As md, an epoch each, and updates divided by their numbers of local steps (Wang et al.).",
        settings=(),
        unbiased_for="none",
        secure_aggregation="with scalars",
    ),
    Method(
        "fedavgm",
        Uniform("cohort"),
        server=ServerMomentum(),
        description="As fedavg, with momentum on the server (Hsu et al.).",
        settings=_ADAPTIVE,
        unbiased_for="none",
        secure_aggregation="yes",
    ),
    Method(
        "centralised",
        Pooled(),
        description="One client that holds all data, as a reference for federations.",
        unbiased_for="-",
        secure_aggregation="-",
    ),
)
_METHODS = {method.name: method for method in _PACKAGE}  # and those that `register` adds
_PACKAGE_NAMES = frozenset(_METHODS)


def names() -> list[str]:
    """List the names of all methods, the registered ones last."""
    return list(_METHODS)


def register(name: str, method: Method | ClientDesign, *, description: str = "") -> Method:
    """Make a method available by name to `get` and wherever the name of a method is accepted.

    Args:
        name: a word; a name of the package is refused, a registered one is replaced.
        method: a method, or a client design, which is combined with the other parts of md.
        description: one line for lists; by default the first line of the design's docstring.
    """
    if name in _PACKAGE_NAMES or not re.fullmatch(r"[\w+-][\w.+-]*(?<!\.py)", name):
        raise InputError(
            f"{name!r} cannot name a user's method: use a word that is no name of a method of the package"
        )
    entry = replace(method, name=name) if isinstance(method, Method) else Method(name, method)
    for design in (entry.clients, entry.data):
        user_code.check_frozen(type(design))
    description = description or entry.description
    description = description or (type(entry.clients).__doc__ or name).splitlines()[0]
    _METHODS[name] = replace(entry, description=description)
    return _METHODS[name]


def _entry(name: str) -> Method:
    """Look up the method of a name; `InputError` if there is none."""
    check_choice("method", name, _METHODS)
    return _METHODS[name]


def _load(name: str) -> Method:
    """Look up the method of a name, or make one of the design in a file FILE.py or FILE.py:CLASS."""
    if not (isinstance(name, str) and name not in _METHODS and user_code.FILE.fullmatch(name)):
        return _entry(name)
    name, design = user_code.load_design(name)
    with user_code.user_code_errors(design.__module__):
        try:
            return Method(name, design())
        except TypeError as error:
            raise InputError(f"{name}: give each setting a default ({error})") from None


def describe(name: str) -> str:
    """Return a method's description, one line."""
    return _entry(name).description


def unbiased_for(name: str) -> str:
    """Return the clients' weights for which a method is unbiased: see `Method`."""
    return _entry(name).unbiased_for


def secure(name: str) -> str:
    """Return whether a method works under secure aggregation: see `Method`."""
    return _entry(name).secure_aggregation


def parameters(name: str) -> dict:
    """Return the settings that `get(name, ...)` takes, with their defaults."""
    method, defaults = _load(name), dict[str, Any]()
    usual = settings_of(method.clients) | settings_of(method.data)
    for part in method.switch.parts.values() if method.switch else ():
        defaults |= settings_of(part)
    defaults |= usual | {"server_rate": getattr(method.server, "rate", None)}
    chosen = {key: defaults[key] for key in (usual if method.settings is None else method.settings)}
    if method.switch:
        chosen[method.switch.setting] = method.switch.default
    return chosen | asdict(method.local)


def get(name: str, **overrides) -> Method:
    """Return the method of a name, with the given settings or parts in place of its own.

    Args:
        name: of the method, or a file with a design: FILE.py or FILE.py:CLASS.
        overrides: settings of `parameters(name)`, each of which goes to the fields of its name in the
            method's parts; or `clients`, `data`, `local`, `server`, which replace a part. The class of a
            part that is the user's own becomes part of the name, as in "md, clients MyDesign".

    Raises:
        InputError: for an unknown method or setting and for values out of range.
    """
    settings = parameters(name)
    allowed = [*settings, *PARTS]
    for key in overrides:
        if key not in allowed:
            raise InputError(f"method {name} has no setting {key!r}: it has {', '.join(allowed)}")
    entry = _load(name)
    for part, value in ((k, v) for k, v in overrides.items() if k in PARTS and is_dataclass(v)):
        own, others = settings_of(value), [getattr(entry, p) for p in PARTS if p != part]
        elsewhere = {key for other in others if is_dataclass(other) for key in settings_of(other)}
        for key in sorted({*own} & {*overrides} - {*PARTS} - elsewhere):
            if overrides[key] != own[key]:
                raise InputError(
                    f"{key} and the {part} that it is a setting of are both given, and differ: set it in the {part}"
                )
    base = _apply_switch(entry, overrides)  # to whose parts the other settings are applied
    local = with_settings(base.local, {k: v for k, v in overrides.items() if k in LOCAL})
    changes = {k: v for k, v in overrides.items() if k in settings and k not in LOCAL}
    with user_code.design_errors(base.clients):
        clients = with_settings(base.clients, changes)
        data = with_settings(base.data, changes)
    if isinstance(clients, AuthorsStratified):
        # Its gradients are means over batches of local SGD's size.
        clients = replace(clients, batch=local.batch)
    server = base.server
    if "server_rate" in changes:
        server = with_settings(server, {"rate": changes["server_rate"]})
    changed = {k: v for k, v in changes.items() if v != settings[k]}
    _check_settings_are_used(entry, {*settings_of(clients), *settings_of(data)}, changed)
    if has_flag(base.clients, "hides_sizes") and not has_flag(clients, "hides_sizes"):
        raise InputError(
            f"{name} must not ask clients for their sizes, as selection {changes['selection']!r} does: "
            "use norm or uniform"
        )
    parts: dict[str, Any] = {"clients": clients, "data": data, "local": local, "server": server}
    replaced = {k: v for k, v in overrides.items() if k in PARTS}
    user_parts = [
        f"{k} {type(v).__name__}" for k, v in replaced.items() if user_code.is_user_defined(v)
    ]
    method = replace(entry, name=", ".join([entry.name, *user_parts]), **parts | replaced)
    if replace(method, local=entry.local) == entry:
        return method
    # The entry's properties may not hold for changed parts, so they become unknown.
    return replace(method, settings=None, switch=None, unbiased_for="?", secure_aggregation="?")


def _apply_switch(entry: Method, overrides: dict) -> Method:
    """Return a method with the parts of its `Switch` where `overrides` set it to another value than its default."""
    switch = entry.switch
    if switch is None:
        return entry
    value = overrides.get(switch.setting, switch.default)
    if isinstance(switch.default, bool):
        check_bool(switch.setting, value)  # no part has a field of this name, which would check it
    return entry if value == switch.default else replace(entry, **switch.parts)


def _check_settings_are_used(entry: Method, used: set[str], changed: dict) -> None:
    """Raise an `InputError` if a changed setting belongs to a part that the method's `Switch` has put out of use.

    Args:
        entry: the method of the name.
        used: the settings of its client and data design, at the value that the switch has.
        changed: the settings that differ from their defaults, without those of local SGD.
    """
    switch = entry.switch
    if switch is None:  # the method's own parts use all its settings
        return
    own = settings_of(entry.clients) | settings_of(entry.data)
    for key, value in changed.items():
        if key not in {*used, switch.setting, "server_rate"}:
            # A setting of the method's own parts is used without the switch, any other with it.
            why = f"it is used only {'without' if key in own else 'with'} {switch.setting}"
            raise InputError(f"{entry.name} does not use {key} {value!r} here: {why}")


def split_spec(spec: str) -> tuple[str, dict]:
    """Split text as in `md lr=0.1` into the name of a method or file and its settings.

    Raises:
        InputError: there is no name, or a word after it is no setting or repeats one.
    """
    try:
        name, *words = shlex.split(spec)
    except ValueError:
        raise InputError(f"{spec!r} names no method: write NAME KEY=VALUE ...") from None
    settings = dict[str, Any]()
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"{word!r} after {name} is no setting: write KEY=VALUE")
        if key in settings:
            raise InputError(f"{spec!r} has {key} twice: give it once")
        settings[key] = _parse_value(value)
    return name, settings


def parse(spec: str, /, **settings) -> Method:
    """Return the method of a name or file and of its settings, as in `md lr=0.1` or `my_design.py power=0.5`.

    Args:
        spec: the name with settings.
        settings: further ones.

    Raises:
        InputError: `spec` is no name with settings, repeats one, or `get` refuses them.
    """
    name, words = split_spec(spec)
    if "name" in words:
        raise InputError(f"method {name} has no setting 'name'")
    for key in words:
        if key in settings:
            values = f"{words[key]!r} in {spec!r} and as {settings[key]!r} beside it"
            raise InputError(f"{key} is given twice, as {values}: give it once")
    return get(name, **words | settings)


def _parse_value(text: str):
    """Read a setting of a command line as a number, True, False, None or a word."""
    words = {"true": True, "false": False, "none": None}
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return words.get(text.lower(), text)


def version(method: Method) -> int:
    """Return the version of the algorithms by which the method's runs last changed: that of the squeeze if
    it squeezes gradients, else its design's attribute `version`, or 1."""
    clients = method.clients
    return ALGORITHMS if has_flag(clients, "stratifies") else getattr(clients, "version", 1)


def to_dict(method: Method) -> dict:
    """Return a method with all its settings as plain data, for a run's identity; a part from a file of the
    user's with the SHA-256 of that file."""
    return {"name": method.name} | {p: user_code.to_dict(getattr(method, p)) for p in PARTS}


def from_dict(data: dict) -> Method:
    """Return the method that `to_dict` wrote down."""
    return Method(data["name"], **{p: user_code.from_dict(data[p]) for p in PARTS})
