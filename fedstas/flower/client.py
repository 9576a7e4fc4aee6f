"""The client: it answers the questions of designs and trains with the package's engine, and refuses all else."""

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
from fedstas.client_sampling import Cohort, PerExample, has_flag
from fedstas.compression import squeeze
from fedstas.errors import InputError, check_int
from fedstas.flower.messages import (
    digest,
    make_content,
    pack,
    read_array,
    read_int,
    read_settings,
    short_repr,
)
from fedstas.level_strata import ALL_EXAMPLES, ascending_levels
from fedstas.methods import Method
from fedstas.sim import engine, models
from fedstas.sim.server import batch_mean_weights
from fedstas.sim.simulation import draw_batches, train_cohort
from fedstas.sketch import signed_sums
from fedstas.streams import LARGEST_SEED, stream
from fedstas.views import sketch_signs


@dataclass(frozen=True)
class Privacy:
    """How far a node reports its size, as set on the node itself; no message of the server changes it.

    Args:
        epsilon: the privacy loss of one report, a randomised response in 1..`size_cap` - 1.
        size_cap: M.
        memoised: repeat the first report in place of new ones, so that all together cost one epsilon.
        reports: the largest number of new reports in a run, which cost at most `reports` times `epsilon`.
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
        """The probability with which a report is the true size."""
        return privacy.truth_probability(self.epsilon, self.size_cap)


@dataclass(frozen=True)
class Local:
    """The data and settings of one node.

    All other questions (gradients, their norms and spreads, losses, models) are answered with and without `privacy`:
    the answers are means over the examples, which depend on these but not directly on their number.

    Args:
        client: the number of the client.
        x, y: its examples, possibly none, as in `Task`.
        module: the network.
        method: the method that the node agreed to.
        seed: of the run, known to all.
        secret: the node's own seed of its memoised report, which is then the same in every run with the same size and
            terms (other ones cost a further epsilon); None: each run draws a new one.
        reproducible: draw reports from `seed`, as the simulation does. They hide nothing from those who know the seed.
        privacy: the terms of its reports. With it the node sends its size in reports only, whatever the method;
            without it the node sends no reports.

    Examples that do not fit the network, or a network that cannot be trained here (batch norm, dropout, frozen layers), are
    refused when the server first asks the node (hello). The server's log has the sentence, which does not tell how many examples there are.
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
        """The examples as a pool of one client."""
        return engine.Pool(self.x, self.y, np.array([0, len(self.y)]))


def is_private(method: Method) -> bool:
    """Return whether a method promises that no client sends its true size."""
    private = getattr(method.data, "epsilon", None) is not None  # sizes are privately reported
    return (
        private or has_flag(method.data, "hides_sizes") or has_flag(method.clients, "hides_sizes")
    )


def client_app(load: Callable[[Context], Local], mods=None) -> ClientApp:
    """Make a ClientApp for any method; `load` returns the data and settings of the node of a context."""
    app = ClientApp(mods=mods)

    def handler(answer):
        """Turn `answer(local, question, context)` into a handler of messages.

        It computes on one thread, as the simulator does: with more, sums are made in another order and rounded otherwise.
        """

        @functools.wraps(answer)
        def handle(message: Message, context: Context) -> Message:
            before = torch.get_num_threads()
            torch.set_num_threads(1)
            try:
                read_settings(message.content)
                with threadpool_limits(1):
                    return Message(
                        answer(load(context), message.content, context), reply_to=message
                    )
            except InputError:
                raise
            except Exception as error:
                # The text is not sent: it may contain a shape, and with it the size.
                log(ERROR, "the client failed", exc_info=error)
                raise RuntimeError(f"the client failed ({type(error).__name__})") from None
            finally:
                torch.set_num_threads(before)

        return handle

    app.query("hello")(handler(_answer_hello))
    app.query("size")(handler(_answer_size))
    app.query("labels")(handler(_answer_labels))
    app.query("gradient")(handler(_answer_gradient))
    app.query("sketch")(handler(_answer_sketch))
    app.query("centres")(handler(_answer_centres))
    app.query("spread")(handler(_answer_spread))
    app.query("norm")(handler(_answer_norm))
    app.query("loss")(handler(_answer_loss))
    app.query("report")(handler(_answer_report))
    app.train()(handler(_answer_train))
    return app


def _answer_hello(local: Local, question: RecordDict, context: Context) -> RecordDict:
    """Answer with the client's number, and whether it has data; `InputError` if they cannot be trained on.

    They are checked here alone, since Flower may load them anew for each message.
    """
    if defect := models.find_data_defect(local.module, local.x, local.y):
        raise InputError(f"client {local.client}: {defect}")
    return make_content(client=local.client, data=bool(len(local.y)))


def _answer_size(local: Local, question: RecordDict, context: Context) -> RecordDict:
    """Answer with the client's size, unless the node or the method is private."""
    if local.privacy is not None:
        raise InputError("this node has an epsilon, and never sends its size")
    if is_private(local.method):
        raise InputError(f"a client of the private method {local.method.name} never sends its size")
    return make_content(size=len(local.y))


def _answer_labels(local: Local, question: RecordDict, context: Context) -> RecordDict:
    """Answer with the client's number of examples of each class, unless the node or the method is private."""
    if local.privacy is not None or is_private(local.method):
        raise InputError("this node keeps its size to itself, and label counts add up to it")
    classes = read_int(question, "classes", 1)
    counts = np.bincount(local.y.cpu().numpy(), minlength=classes)
    if len(counts) > classes:
        raise InputError(f"this node has labels that are not in 0..{classes - 1}")
    return make_content({"counts": counts.astype(np.int64)})


def _read_model(local: Local, question: RecordDict, context: Context) -> torch.Tensor:
    """Return w_t [P], from the question or, if it has none, from an earlier question of the same round.

    Where the question has only the digest of w_0, w_0 are the parameters of the node's own network.
    """
    settings = read_settings(question)
    t = settings["round"]
    local.module.to(local.x.device)
    parameters = sum(p.numel() for p in local.module.parameters())
    if "w_0" in settings:
        params = models.flatten(local.module).cpu().numpy()
        if digest(params) != settings["w_0"]:
            raise InputError(
                "this node's network is not the run's w_0: make it from the run's seed, or let the server send w_0"
            )
    elif "arrays" in question.array_records:
        params = read_array(question, "model", (parameters,))
    if "w_0" in settings or "arrays" in question.array_records:
        context.state["model"] = ArrayRecord([params])
        context.state["model of"] = ConfigRecord({"round": t})
    elif context.state.config_records.get("model of", {}).get("round") != t:
        raise InputError(f"this node has not got the model of round {t}")
    else:
        (params,) = context.state.array_records["model"].to_numpy_ndarrays()
    return torch.from_numpy(np.array(params)).to(local.x.device)


def _answer_norm(local: Local, question: RecordDict, context: Context) -> RecordDict:
    """Answer with the norm of the gradient at w_t."""
    (gradient,) = engine.client_gradients(
        local.module, _read_model(local, question, context), local.pool
    )
    return make_content(norm=float(gradient.double().norm()))


def _answer_loss(local: Local, question: RecordDict, context: Context) -> RecordDict:
    """Answer with the mean loss at w_t."""
    params = _read_model(local, question, context)
    loss, _ = engine.evaluate(local.module, params, local.x, local.y)
    return make_content(loss=loss)


def _answer_gradient(local: Local, question: RecordDict, context: Context) -> RecordDict:
    """Answer with the squeezed gradient at w_t."""
    (gradient,) = engine.client_gradients(
        local.module, _read_model(local, question, context), local.pool
    )
    return make_content(
        pack(squeeze(gradient.cpu().numpy()[None], read_settings(question)["levels"]))
    )


def _answer_sketch(local: Local, question: RecordDict, context: Context) -> RecordDict:
    """Answer with the signed sums of the gradient at w_t (`sketch`)."""
    (gradient,) = engine.client_gradients(
        local.module, _read_model(local, question, context), local.pool
    )
    size, signs = read_settings(question)["size"], sketch_signs(local.seed)
    return make_content({"sketch": signed_sums(gradient.cpu().numpy(), size, signs)})


def _answer_centres(local: Local, question: RecordDict, context: Context) -> RecordDict:
    """Answer with the unsorted centres of the gradient at w_t, as a mean over batch means (`authors`)."""
    settings, params = read_settings(question), _read_model(local, question, context)
    k = settings["place"]
    # The weights depend on the client's place k: the clients before it are replaced by clients of one example.
    # Of other batches the answers would tell where the size lies.
    if local.privacy is not None and settings["batch"] not in (
        ALL_EXAMPLES,
        local.method.local.batch,
    ):
        raise InputError("this node hides its size: it makes centres of usual batches only")
    weight = batch_mean_weights([1] * k + [len(local.y)], settings["batch"], local.seed)[k:]
    weight = torch.from_numpy(weight).to(params)
    (gradient,) = engine.client_gradients(local.module, params, local.pool, weight)
    make = ascending_levels if settings.get("ascending") else authors.unsorted_centres
    centres = make(gradient.cpu().numpy(), settings["levels"])
    return make_content({"centres": centres.astype(np.float32)})


def _answer_spread(local: Local, question: RecordDict, context: Context) -> RecordDict:
    """Answer with the standard deviation of the example gradients at w_t."""
    params = _read_model(local, question, context)
    return make_content(
        spread=float(engine.gradient_spread(local.module, params, local.x, local.y))
    )


def _answer_report(local: Local, question: RecordDict, context: Context) -> RecordDict:
    """Return randomised responses on the node's size, one for each place of the cohort in the question.

    `InputError` if the question has other terms (alpha, size_cap, memoised) than the node, or asks for too many.
    """
    terms, settings = local.privacy, read_settings(question)
    if terms is None:
        raise InputError("this node has no epsilon of its own, and gives no reports")
    for name in ("alpha", "size_cap", "memoised"):
        term, requested = getattr(terms, name), settings.get(name)
        if not isinstance(requested, int | float) or not math.isclose(
            requested,
            term,
            rel_tol=1e-9,  # alpha is a float that both compute
        ):
            raise InputError(
                f"this node reports with {name} {term!r}, not with {short_repr(requested)}"
            )
    slots, purpose = settings["slots"], "memoised report" if terms.memoised else "report"
    ids: list[tuple] = [(settings["round"], slot) for slot in slots]
    if terms.memoised:
        ids = [(settings["place"] if local.reproducible else local.client,)]
    answers = list(context.state.config_records.get("reports", {}).get("given", []))
    if not terms.memoised or not answers:
        if len(answers) + len(ids) > terms.reports:
            raise InputError(
                f"this node gives at most {terms.reports} reports in a run: {len(answers)} are given, "
                f"and {len(ids)} more are asked for"
            )
        answers += [_draw_report(local, purpose, each) for each in ids]
        context.state["reports"] = ConfigRecord({"given": answers})
    new = answers[:1] * len(slots) if terms.memoised else answers[len(answers) - len(slots) :]
    return make_content(reports=new)


def _draw_report(local: Local, purpose: str, ids: tuple[int, ...]) -> int:
    """Draw one report on the node's size.

    It is drawn from the system's entropy, so that no server can repeat it; of a `reproducible` node from the run's seed.
    A memoised report, which the node gives in every round, is drawn from the node's secret if there is one, so that it is
    the same in other runs, too.

    Args:
        local: the node's data and settings, with `privacy`.
        purpose: of the random stream.
        ids: of the random stream, so that different reports are drawn independently.
    """
    assert local.privacy is not None
    seed = secrets.randbelow(LARGEST_SEED)
    if local.reproducible:
        seed = local.seed
    elif local.privacy.memoised and local.secret is not None:
        # Of one stream for two sizes, or two alphas, the server could see which reports are true.
        seed, purpose = local.secret, f"{purpose}, {local.privacy!r}"
        ids = (*ids, len(local.y))
    size_cap, alpha = local.privacy.size_cap, local.privacy.alpha
    rng = stream(seed, purpose, *ids)
    return int(privacy.report(len(local.y), size_cap=size_cap, alpha=alpha, rng=rng))


def _answer_train(local: Local, question: RecordDict, context: Context) -> RecordDict:
    """Return the models after local SGD, one for each of the client's places in the cohort.

    If aggregation weights are those of single examples ("scaled"), the client multiplies its update by the number of
    examples that it drew, so that it need not send this number. A node with `privacy` does so for FedSampling only, whose
    updates depend on the size; and it draws examples and batches from the system's entropy, since the run's seed would tell
    the server which of so many examples were drawn. A server that asks for very many places at a small rate can still
    estimate the size from how many updates are zero.
    """
    settings, params, method = (
        read_settings(question),
        _read_model(local, question, context),
        local.method,
    )
    slots, rates, seed = settings["slots"], settings["rates"], local.seed
    if local.privacy is not None:
        if settings["scaled"] and not isinstance(method.clients, PerExample):
            raise InputError(
                "this node hides its size, which an update times a number of examples would tell"
            )
        if not local.reproducible:
            seed = secrets.randbelow(LARGEST_SEED)
    cohort = Cohort(np.zeros(len(slots), dtype=np.int64), np.ones(len(slots)))
    idx, weight, drawn = draw_batches(
        method, local.pool, cohort, rates, seed, settings["round"], slots
    )
    sgd, t = method.local, settings["round"]
    trained = train_cohort(local.module, params, local.pool, sgd, idx, weight, local.seed, t, slots)
    if settings["scaled"]:
        trained = params + torch.from_numpy(drawn).to(params)[:, None] * (trained - params)
    return make_content({"models": trained.cpu().numpy()})
