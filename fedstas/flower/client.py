"""The client: answers what a design asks, trains with the package's engine, and refuses the rest."""

import functools
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from logging import ERROR

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import log
from threadpoolctl import threadpool_limits

from fedstas import authors, privacy
from fedstas.client_sampling import Cohort, has_flag
from fedstas.compression import squeeze
from fedstas.errors import InputError, check_int
from fedstas.flower.messages import array_of, content, pack, settings_of, shown
from fedstas.level_strata import ascending_levels
from fedstas.methods import Method
from fedstas.sim import engine
from fedstas.sim.rng import LARGEST_SEED, stream
from fedstas.sim.server import batch_mean_weights, sketch_signs
from fedstas.sim.simulation import draw_batches, train_cohort
from fedstas.sketch import signed_sums


@dataclass(frozen=True)
class Privacy:
    """What a node lets be learnt of its size: its own, and no message changes it.

    A report is over 1..`size_cap` - 1 and costs `epsilon`; the node gives at most `reports` of them
    in a run, of which all together cost at most `reports` times `epsilon`. `memoised`: the first
    one is given again and again, at the cost of one.
    """

    epsilon: float
    size_cap: int = 100
    memoised: bool = False
    reports: int = 1

    def __post_init__(self):
        privacy.truth_probability(self.epsilon, self.size_cap)
        check_int("reports", self.reports, 1)
        if not isinstance(self.memoised, bool):
            raise InputError(f"memoised is {self.memoised!r}: it must be True or False")

    @property
    def alpha(self) -> float:
        """The probability of the true answer."""
        return privacy.truth_probability(self.epsilon, self.size_cap)


@dataclass(frozen=True)
class Local:
    """What one node holds: its number, its examples (possibly none), the network, the method and seed
    that it agreed to.

    With `privacy` its size leaves it in reports alone, whatever the method; without, it gives no
    reports. What else is asked is answered with and without: gradients, their norm and spread, the
    loss and the models are means over its examples, which tell of these, and not how many they are. `secret` is the node's own seed of its private reports: with it, a memoised report is the
    same in every run; without it, each run draws a new one. `reproducible` draws reports from
    the run's public seed as the simulation does: whoever knows the seed sees through them.
    """

    client: int
    x: torch.Tensor
    y: torch.Tensor
    module: torch.nn.Module
    method: Method
    seed: int
    secret: int | None = None
    reproducible: bool = False
    privacy: Privacy | None = None

    @property
    def pool(self) -> engine.Pool:
        return engine.Pool(self.x, self.y, np.array([0, len(self.y)]))


def is_private(method: Method) -> bool:
    """Whether the method promises that no true size leaves a client."""
    reports = getattr(method.data, "epsilon", None) is not None
    return (
        reports or has_flag(method.data, "hides_sizes") or has_flag(method.clients, "hides_sizes")
    )


def client_app(load: Callable[[Context], Local], mods=None) -> ClientApp:
    """A ClientApp for any method: `load` says what the node of a context holds."""
    app = ClientApp(mods=mods)

    def handler(work):
        @functools.wraps(work)
        def handle(message: Message, context: Context) -> Message:
            before = torch.get_num_threads()
            torch.set_num_threads(1)
            try:
                settings_of(message.content)
                with threadpool_limits(1):
                    return Message(work(load(context), message.content, context), reply_to=message)
            except InputError:
                raise
            except Exception as error:  # its text may name a shape, and so a size: keep it here
                log(ERROR, "the client failed", exc_info=error)
                raise RuntimeError(f"the client failed ({type(error).__name__})") from None
            finally:
                torch.set_num_threads(before)

        return handle

    app.query("hello")(handler(_hello))
    app.query("size")(handler(_size))
    app.query("gradient")(handler(_gradient))
    app.query("sketch")(handler(_sketch))
    app.query("centres")(handler(_centres))
    app.query("spread")(handler(_spread))
    app.query("norm")(handler(_norm))
    app.query("loss")(handler(_loss))
    app.query("report")(handler(_report))
    app.train()(handler(_train))
    return app


def _hello(local: Local, asked: RecordDict, context: Context) -> RecordDict:
    return content(client=local.client, data=bool(len(local.y)))


def _size(local: Local, asked: RecordDict, context: Context) -> RecordDict:
    if local.privacy is not None:
        raise InputError("this node has an epsilon, and never sends its size")
    if is_private(local.method):
        raise InputError(f"a client of the private method {local.method.name} never sends its size")
    return content(size=len(local.y))


def _model(local: Local, asked: RecordDict, context: Context) -> torch.Tensor:
    """w_t: from the message, or kept since an earlier question of the same round."""
    t = settings_of(asked)["round"]
    parameters = sum(p.numel() for p in local.module.parameters())
    if "arrays" in asked.array_records:
        params = array_of(asked, "model", (parameters,))
        context.state["model"] = ArrayRecord([params])
        context.state["model of"] = ConfigRecord({"round": t})
    elif context.state.config_records.get("model of", {}).get("round") != t:
        raise InputError(f"this node has not got the model of round {t}")
    else:
        params = context.state.array_records["model"].to_numpy_ndarrays()[0]
    return torch.from_numpy(np.array(params)).to(local.x.device)


def _norm(local: Local, asked: RecordDict, context: Context) -> RecordDict:
    (gradient,) = engine.client_gradients(local.module, _model(local, asked, context), local.pool)
    return content(norm=float(gradient.double().norm()))


def _loss(local: Local, asked: RecordDict, context: Context) -> RecordDict:
    params = _model(local, asked, context)
    return content(loss=engine.evaluate(local.module, params, local.x, local.y)[0])


def _gradient(local: Local, asked: RecordDict, context: Context) -> RecordDict:
    (gradient,) = engine.client_gradients(local.module, _model(local, asked, context), local.pool)
    return content(pack(squeeze(gradient.cpu().numpy()[None], settings_of(asked)["levels"])))


def _sketch(local: Local, asked: RecordDict, context: Context) -> RecordDict:
    (gradient,) = engine.client_gradients(local.module, _model(local, asked, context), local.pool)
    size, signs = settings_of(asked)["size"], sketch_signs(local.seed)
    return content({"sketch": signed_sums(gradient.cpu().numpy(), size, signs)})


def _centres(local: Local, asked: RecordDict, context: Context) -> RecordDict:
    given, params = settings_of(asked), _model(local, asked, context)
    k = given["place"]
    weight = batch_mean_weights([1] * k + [len(local.y)], given["batch"], local.seed)[k:]
    weight = torch.from_numpy(weight).to(params)
    (gradient,) = engine.client_gradients(local.module, params, local.pool, weight)
    make = ascending_levels if given.get("ascending") else authors.unsorted_centres
    centres = make(gradient.cpu().numpy(), given["levels"])
    return content({"centres": centres.astype(np.float32)})


def _spread(local: Local, asked: RecordDict, context: Context) -> RecordDict:
    params = _model(local, asked, context)
    return content(spread=float(engine.gradient_spread(local.module, params, local.x, local.y)))


def _report(local: Local, asked: RecordDict, context: Context) -> RecordDict:
    """Randomised responses, one for each place in the cohort that is asked for, on the node's own terms.

    The question names the terms of the server's estimate: other terms than the node's are refused.
    """
    own, given = local.privacy, settings_of(asked)
    if own is None:
        raise InputError("this node has no epsilon of its own, and gives no reports")
    for name in ("alpha", "size_cap", "memoised"):
        term, wanted = getattr(own, name), given.get(name)
        if not isinstance(wanted, int | float) or not math.isclose(wanted, term, rel_tol=1e-9):
            raise InputError(f"this node reports with {name} {term!r}, not with {shown(wanted)}")
    slots, purpose = given["slots"], "memoised report" if own.memoised else "report"
    ids: list[tuple] = [(given["round"], slot) for slot in slots]
    if own.memoised:
        ids = [(given["place"] if local.reproducible else local.client,)]
    answers = list(context.state.config_records.get("reports", {}).get("given", []))
    if not own.memoised or not answers:
        if len(answers) + len(ids) > own.reports:
            raise InputError(
                f"this node gives at most {own.reports} reports in a run: {len(answers)} are given, "
                f"and {len(ids)} more are asked for"
            )
        answers += [_draw(local, purpose, each) for each in ids]
        context.state["reports"] = ConfigRecord({"given": answers})
    new = answers[:1] * len(slots) if own.memoised else answers[len(answers) - len(slots) :]
    return content(reports=new)


def _draw(local: Local, purpose: str, ids: tuple[int, ...]) -> int:
    """One report, from the system's entropy unless the node has a secret or is `reproducible`."""
    assert local.privacy is not None
    seed = secrets.randbelow(LARGEST_SEED)
    if local.reproducible:
        seed = local.seed
    elif local.privacy.memoised and local.secret is not None:
        seed = local.secret
    size_cap, alpha = local.privacy.size_cap, local.privacy.alpha
    rng = stream(seed, purpose, *ids)
    return int(privacy.report(len(local.y), size_cap=size_cap, alpha=alpha, rng=rng))


def _train(local: Local, asked: RecordDict, context: Context) -> RecordDict:
    """The models after local SGD, one for each of the node's places in the cohort.

    Where a weight counts for each drawn example, the update is multiplied by their number here, so
    that the number need not be sent.
    """
    given, params, method = settings_of(asked), _model(local, asked, context), local.method
    slots, rates = given["slots"], given["rates"]
    cohort = Cohort(np.zeros(len(slots), dtype=np.int64), np.ones(len(slots)))
    idx, weight, drawn = draw_batches(
        method, local.pool, cohort, rates, local.seed, given["round"], slots
    )
    own, t = method.local, given["round"]
    trained = train_cohort(local.module, params, local.pool, own, idx, weight, local.seed, t, slots)
    if given["scaled"]:
        trained = params + torch.from_numpy(drawn).to(params)[:, None] * (trained - params)
    return content({"models": trained.cpu().numpy()})
