"""Client sampling for a training loop of one's own: who takes part in a round, and the weights of their updates.

    from fedstas import Cohorts
    chooser = Cohorts("fedstas-least-variance", sizes=[len(y) for x, y in data], m=10, seed=0)
    average = model
    for t in range(1, rounds + 1):
        cohort = chooser.sample(gradients=lambda k: gradient(model, data[k]))
        updates = [train(model, data[k]) for k in cohort.clients]
        for weight, update in zip(chooser.report(cohort, updates), updates):
            if update is not None:  # None: no answer
                model = model + float(weight) * update
        average = average + 0.1 / (1 - 0.9**t) * (model - average)  # to deploy

Sizes count examples: of a DataLoader that is len(loader.dataset), since len(loader) counts batches.

Arrays and tensors of any kind are accepted, of any precision and device; torch is not imported. The cohorts are those
that the simulator would draw for the same seed and answers.
"""

import base64
import copy
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np

from fedstas import config, methods, privacy, user_code
from fedstas.aggregation import Average
from fedstas.arrays import as_int_array
from fedstas.client_sampling import (
    PARTICIPANTS,
    ClientDesign,
    Cohort,
    check_cohort_size,
    check_sizes,
    has_flag,
)
from fedstas.compression import Squeezed
from fedstas.errors import InputError, check_int, format_value
from fedstas.methods import Method
from fedstas.nonresponse import reweight
from fedstas.state import (
    OtherVersion,
    classes_of_parts,
    copy_states,
    declared_classes,
    from_plain,
    to_plain,
)
from fedstas.streams import LARGEST_SEED, stream
from fedstas.views import Memory, ServerView, round_sketches

FORMAT = 1  # of `state_dict`
# What `Cohorts.sample` may be given: the words of its error messages.
ANSWERS = {
    "gradients": "the clients' gradients",
    "losses": "the clients' losses",
    "norms": "the norms of the clients' gradients",
    "sketches": "sketches of the clients' gradients",
    "labels": "the clients' label counts",
    "output_gradients": "the gradients of the clients' last layers",
    "spreads": "the standard deviations of the participants' example gradients",
}
# What to give for each client, where answers differ in length: the words of its error message.
LENGTHS = {
    "gradients": "the gradient of all parameters of the model that the server sent",
    "sketches": "a sketch of one size, as Cohorts.sketch makes it",
    "labels": "the counts of all classes, as np.bincount(y, minlength=classes)",
    "output_gradients": "the gradient of all parameters of the last layer",
}
# What a design asks its view for, and the argument of `Cohorts.sample` that answers it.
QUESTIONS = {
    "gradients": "gradients",
    "sketches": "gradients",
    "centres": "gradients",
    "losses": "losses",
    "norms": "norms",
    "label_counts": "labels",
    "majority_labels": "labels",
    "output_gradients": "output_gradients",
    "gradient_spreads": "spreads",
    "class_updates": "output_bias",
}


class Cohorts:
    """Choose the cohorts of a training loop of one's own, and weigh the updates of their participants.

    Args:
        method: a name of `methods.names()` or a file FILE.py with a design, either with settings behind it as on the
            command line, "fedstas-least-variance features=labels epsilon=1"; or a `Method`, or a client design. Its
            local settings do not matter, since you train.
        sizes: the number of examples of each client, [N], any sequence: of a pair (x, y) it is len(y), of a DataLoader
            len(loader.dataset). The number of a client is its place in it. A
            client without examples is never drawn.
        m: participants of a round.
        seed: of all draws, a whole number; or a numpy Generator, which draws one.
        settings: of the method, as in `methods.get`: features="labels", epsilon=1.

    Attributes:
        method, m, seed: what was given.
        sizes: int [N].
        round: the rounds so far.

    Raises:
        InputError: here and in the methods, for anything that does not fit, in one sentence. A method whose server does
            more than add weighted updates (FedAdam, FedVARP, SCAFFOLD, ...) is refused, since weights cannot express it:
            the sentence says what to use.
    """

    def __init__(
        self, method: str | Method | ClientDesign, *, sizes, m: int, seed=0, **settings: Any
    ):
        if "rng" in settings:
            raise InputError("rng is not an argument: give the Generator as seed=...")
        self.method = _get_method(method, settings)
        if isinstance(seed, np.random.Generator):
            seed = int(seed.integers(LARGEST_SEED))
        self.seed = check_int("seed", seed, 0, LARGEST_SEED)
        self.round = 0
        self._drawn: Cohort | None = None  # a copy: whoever has the cohort may change its arrays
        self._reported = True
        self._rates = np.zeros(0)  # of the cohort's participants
        self._view = _LoopView(self.method.name, self.seed)
        self._set_clients(sizes, m)
        self._view.keys, self._view.next_key = _first_keys(self.sizes), len(self.sizes)

    def __repr__(self) -> str:
        return f"Cohorts({self.method.name!r}, {len(self.sizes)} clients, m={self.m}, round {self.round})"

    @property
    def cohort(self) -> Cohort | None:
        """The last cohort, None before the first."""
        return None if self._drawn is None else copy.deepcopy(self._drawn)

    @property
    def needs(self) -> tuple[str, ...]:
        """The arguments of `sample` that the method asks for, in some round at least. For "gradients" of a design that
        has `features="sketch"`, and for "norms", `sample` says what may be given instead.

        Of a design of your own these are what its attribute `needs` names, a tuple of words; without one, what the code
        of its class and of the classes that it inherits from names. That misses what a function outside of them asks."""
        names = [*_needs(self.method.clients), *_needs(self.method.data)]
        return tuple(dict.fromkeys(names))

    def sample(
        self,
        *,
        gradients=None,
        losses=None,
        norms=None,
        sketches=None,
        labels=None,
        output_gradients=None,
        spreads=None,
        output_bias=None,
    ) -> Cohort:
        """Draw the cohort of the next round.

        Each argument is an array or a tensor with a row for each client, a list with an item for each, or a function
        of a client's number. A function is called only if the method asks, and only for the clients of whom it asks. A
        vector may also be given as a list or dict of the arrays that it consists of, as `torch.autograd.grad` returns.

        Args:
            gradients: of each client's mean loss at the current model, [N, d].
            losses: each client's mean loss at the current model, [N].
            norms: of the gradients, [N]; by default they are computed from `gradients`.
            sketches: what `sketch` makes of each client's gradient, [N, sketch_size]; by default made of `gradients`.
            labels: how many examples of each class each client has, [N, classes].
            output_gradients: the part of each gradient that belongs to the last layer, [N, d'].
            spreads: one number per client [N], the root of the mean squared distance of its example gradients from their mean.
            output_bias: the place of the last layer's bias among the numbers of an update, as `slice(-10, None)`.

        Returns:
            The cohort: `clients`, int [m], the participants, one of whom may occur several times; `weights`, of their
            updates, [m], if all answer; `strata`, [m] or None.
        """
        if self._view.has_asked_for_updates and not self._reported:
            raise InputError(
                f"{self.method.name} learns from updates: call report(cohort, updates) for round {self.round} before "
                "the next sample, with None for who did not answer"
            )
        answers = {
            "gradients": gradients,
            "losses": losses,
            "norms": norms,
            "sketches": sketches,
            "labels": labels,
            "output_gradients": output_gradients,
            "spreads": spreads,
        }
        view, before = self._view, copy_states(self._view.memory.designs)
        view.begin(self.round + 1, answers, output_bias)
        try:
            drawn = view.draw(self.method.clients, self.m)
            rates = self.method.data.rates(view, drawn) if len(drawn.clients) else ()  # type: ignore[arg-type]
        except Exception:  # the same round can be sampled again
            view.memory.designs = before
            raise
        finally:
            view.end()
        self.round += 1
        clients = view.numbers[drawn.clients]
        self._drawn = Cohort(clients, drawn.weights, drawn.strata, drawn.per_example)
        self._rates = np.asarray(rates, dtype=np.float64)
        self._reported = not len(clients)  # nothing is to be reported of an empty cohort
        if self._reported and view.has_asked_for_updates:
            view.receive([], [])
        return copy.deepcopy(self._drawn)

    def examples(self, cohort: Cohort) -> list[np.ndarray]:
        """Return on which of its examples each participant of the last cohort trains: positions in 0..n_k - 1, ascending.

        For most methods these are all examples. FedSTaS and FedSampling draw some of them, perhaps none; to train on
        all in spite of that, use the method's client design alone: `Cohorts(methods.get("fedstas").clients, ...)`.
        """
        self._check_drawn(cohort)
        samples = []
        for position, (k, rate) in enumerate(zip(cohort.clients, self._rates, strict=True)):
            rng = stream(self.seed, "data", self.round, position)
            samples.append(self.method.data.sample(int(self.sizes[k]), float(rate), rng))
        return samples

    def report(self, cohort: Cohort, updates) -> np.ndarray:
        """Return the weight of each participant's update, float [m], and remember the updates if the method learns from
        them. The next model is the current one plus the sum of weights times updates.

        Call it once a round, with the cohort that `sample` returned. Who did not answer has weight zero, and the others of
        its stratum stand for it (`nonresponse.reweight`). If nobody answers, all weights are zero.

        Args:
            cohort: of `sample`.
            updates: the participants' models after training minus the current one, in the order of `cohort.clients`, each
                a vector [P] (as in `sample`) or None: a list, an array [m, P], or a dict {client: update}, in which
                who is missing did not answer.
        """
        drawn = self._check_drawn(cohort)
        if self._reported and len(drawn.clients):
            raise InputError(f"round {self.round} has been reported already: sample the next one")
        answers = _in_order(updates, drawn.clients, self.round)
        answered = np.array([each is not None for each in answers], dtype=bool)
        vectors = {}  # by position in the cohort
        names = _PartNames()
        length, first = self._view.update_length, None  # of the updates before, if there are any
        for position in np.flatnonzero(answered):
            client = drawn.clients[position]
            name = f"the update of client {client}"
            names.check(name, answers[position])
            pieces = _pieces(name, answers[position])
            count = sum(each.numel() if _is_tensor(each) else each.size for each in pieces)
            if length and count != length:
                other = f"that of client {first}" if first is not None else "earlier ones"
                raise InputError(
                    f"{name} has {count} numbers, and {other} {length}: updates must have one length, so give for each "
                    "client all parameters of the same network, or None if it did not answer"
                )
            length, first = count, client
            if not all(
                bool(each.isfinite().all() if _is_tensor(each) else np.isfinite(each).all())
                for each in pieces
            ):
                raise InputError(
                    f"{name} holds a number that is not finite: give None to leave it out, or train with a smaller "
                    "learning rate"
                )
            if self._view.has_asked_for_updates:
                vectors[position] = _as_vector(name, pieces)
        if self._view.has_asked_for_updates:
            # The view numbers the clients with examples alone: the place of each in the ascending `numbers`.
            senders = drawn.clients[[*vectors]].astype(np.int64)
            places = np.searchsorted(self._view.numbers, senders)
            self._view.receive(places, [*vectors.values()])
        self._reported = True
        if not answered.any():
            return np.zeros(len(answered))
        weights = reweight(drawn, answered, has_flag(self.method.clients, "expands"))
        # The weights are of single examples: an update counts as often as it has some.
        if drawn.per_example:
            weights = weights * [len(each) for each in self.examples(cohort)]
        return self.method.server.rate * weights  # type: ignore[attr-defined]

    def sketch(self, gradient) -> np.ndarray:
        """Return what a client sends in place of its gradient: sums with signs from the seed, [sketch_size].

        `InputError` if the method asks for no sketches. See `fedstas.sketch`. With `epsilon` it is shortened to `clip` and has
        noise of the system's entropy (`privacy.noisy_sketch`), new in each call, so that it is not the same in two runs.
        """
        design: Any = self.method.clients
        size = getattr(design, "sketch_size", None)
        if size is None:
            raise InputError(f"{self.method.name} asks for no sketches")
        vector = _as_vector("the gradient", _pieces("the gradient", gradient))
        sketch = self._view.sketch_vectors(vector, size)
        if (epsilon := getattr(design, "epsilon", None)) is None:
            return sketch
        rng = stream(secrets.randbelow(LARGEST_SEED), "a client's sketch")
        return privacy.noisy_sketch(sketch, design.clip, epsilon, design.delta, rng)

    def resize(
        self, sizes, *, m: int | None = None, clients: Iterable[int | None] | None = None
    ) -> None:
        """Continue with other clients: some came, or left, or their numbers of examples changed.

        Strata are made anew in the next round, so that clients are asked again. Their last updates stay, and what else a
        design knows of each of them; of a client whose size is 0 all this is forgotten. A cohort that is not yet reported is forgotten.

        Private answers cost one epsilon all the same: a client that has sent label counts with noise, or a memoised
        report of its size, repeats that answer for as long as it keeps its number, also if its data have changed since
        and while it has the size 0. A new client has noise of its own, which no client had before. So a client that
        left and comes back as a new one pays a further epsilon: keep its number, with the size 0, to avoid that.
        Reports that are not memoised are new in each round, and each costs a further epsilon.

        Args:
            sizes: of all clients from now on.
            m: participants of a round from now on; by default as many as before.
            clients: the number that each of these clients had before, None for a new one. By default those who stay keep
                their numbers: with more sizes than before the last clients are new, with fewer the last have left.
        """
        new = _sizes(sizes)
        before = len(self.sizes)
        if clients is None:
            clients = [k if k < before else None for k in range(len(new))]
        elif isinstance(clients, str | Mapping) or not np.iterable(clients):
            raise InputError(
                f"clients are {format_value(clients)}: give a list with each client's number before, or None for a new "
                "client"
            )
        clients = [*clients]
        kept = [k for k in clients if k is not None]
        kept = as_int_array("clients", kept, 0, before - 1).tolist() if kept else kept
        if len(clients) != len(new) or len({*kept}) != len(kept):
            raise InputError(
                f"clients are {format_value(clients)}: for each of the {len(new)} sizes give the client's number "
                "before, none twice, or None for a new client"
            )
        view = self._view
        is_new = np.array([k is None for k in clients])
        keys = np.array([-1 if k is None else view.keys[k] for k in clients], dtype=np.int64)
        keys[is_new] = view.next_key + np.arange(is_new.sum())
        rows = view.numbers.tolist()  # the clients of the memory's rows
        self._set_clients(new, self.m if m is None else m)
        view.keys, view.next_key = keys, view.next_key + int(is_new.sum())
        # Rows are of clients with examples alone. New clients are named -1, which no row is of.
        now = [-1 if clients[k] is None else int(clients[k]) for k in view.numbers]
        view.memory.move_clients(rows, now)
        self._drawn, self._reported = None, True

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next rounds depend on, as numbers, text, lists and dicts.

        `json`, `pickle` and `torch.save` can store it; arrays are text (base64). It can be taken between `sample` and
        `report`, too.
        """
        view = self._view
        kinds = [Memory, Cohort, *view.memory.designs]
        classes = set().union(*map(declared_classes, kinds))
        plain = {
            "format": FORMAT,
            "identity": self._identity(),
            "sizes": self.sizes.tolist(),
            "round": self.round,
            "reported": self._reported,
            "has_asked_for_updates": view.has_asked_for_updates,
            "keys": view.keys.tolist(),
            "next_key": view.next_key,
        }
        values = {"memory": view.memory, "cohort": self._drawn, "rates": self._rates}
        values |= {"first_answers": view.first_answers}
        return plain | {name: to_plain(each, classes, _store) for name, each in values.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of `state_dict`; `InputError` if it is of another method, seed, m or federation."""
        if not isinstance(state, Mapping) or "format" not in state or "identity" not in state:
            raise InputError(
                f"the state is {format_value(state)}: it must be one of Cohorts.state_dict()"
            )
        if state["format"] != FORMAT:
            raise OtherVersion(f"format {format_value(state['format'])}, not {FORMAT}")
        theirs = state["identity"]
        for name, value in self._identity().items():
            if theirs.get(name) != value:
                there, here = (format_value(each) for each in (theirs.get(name), value))
                what = f"with {name}={there}, and not {name}={here}"
                if name == "parts":
                    what = f"of {self.method.name} with other settings"
                raise InputError(
                    f"the state is of Cohorts {what}: load it into Cohorts made with the same arguments"
                )
        if state.get("sizes") != self.sizes.tolist():
            raise InputError(
                f"the state is of {len(state.get('sizes', ()))} clients, whose sizes are not those of these "
                f"{len(self.sizes)}: load it into Cohorts with the same sizes, and call resize then"
            )
        classes = {Memory, Cohort} | classes_of_parts(self.method.clients, self.method.data)
        try:
            memory, cohort, rates = (
                from_plain(state[name], classes, {"array": _restore})
                for name in ("memory", "cohort", "rates")
            )
            asked, t, reported = (state[k] for k in ("has_asked_for_updates", "round", "reported"))
            t = check_int("the round of the state", t, 0)
            # Earlier versions kept no keys: there a client's key was its place.
            keys = as_int_array("keys", state.get("keys", _first_keys(self.sizes)))
            next_key = check_int(
                "next_key", state.get("next_key", len(self.sizes)), len(self.sizes)
            )
            stored = state.get("first_answers", {"dict": []})
            first_answers = from_plain(stored, (), {"array": _restore})
            if len(keys) != len(self.sizes):
                raise ValueError(f"{len(keys)} keys of {len(self.sizes)} clients")
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"the state is damaged ({type(error).__name__}: {error})") from None
        self._view.memory, self._drawn, self._rates = memory, cohort, rates
        self._view.has_asked_for_updates, self.round, self._reported = asked, t, reported
        self._view.keys, self._view.next_key = keys, next_key
        self._view.first_answers = first_answers

    def _set_clients(self, sizes, m: int) -> None:
        """Set the clients' sizes and the number of participants; `InputError` if they do not fit."""
        sizes = _sizes(sizes)
        m = check_int(PARTICIPANTS, m, 1)
        numbers = np.flatnonzero(sizes)
        check_cohort_size(self.method.clients, m, len(numbers))
        self.sizes, self.m = sizes, m
        self._view.set_clients(sizes, numbers)

    def _identity(self) -> dict:
        """Return what a state must have in common with the object that continues it, as plain data."""
        parts = [_part_to_dict(self.method.clients), _part_to_dict(self.method.data)]
        return {
            "method": self.method.name,
            "parts": parts,
            # Of the algorithms: another one may draw otherwise.
            "version": methods.version(self.method),
            "seed": self.seed,
            "m": self.m,
        }

    def _check_drawn(self, cohort: Cohort) -> Cohort:
        """Return the last cohort; `InputError` unless it is this one."""
        drawn = self._drawn
        if drawn is None:
            raise InputError("no cohort is drawn: call sample first")
        if not isinstance(cohort, Cohort):
            raise InputError(
                f"the cohort is {format_value(cohort)}: give the Cohort that sample returned"
            )
        foreign = np.setdiff1d(cohort.clients, drawn.clients)
        if len(foreign):
            raise InputError(
                f"client {foreign[0]} was not drawn in round {self.round}: give the cohort that sample returned"
            )
        if not np.array_equal(cohort.clients, drawn.clients):
            raise InputError(
                f"the cohort is not that of round {self.round}: give the one that sample returned, in its order"
            )
        wrong = np.flatnonzero(cohort.weights != drawn.weights)
        if len(wrong):
            k, given, right = (
                cohort.clients[wrong[0]],
                cohort.weights[wrong[0]],
                drawn.weights[wrong[0]],
            )
            raise InputError(
                f"client {k} has the weight {right:g} in round {self.round}, and not {given:g}: give the cohort that "
                "sample returned"
            )
        return drawn


class _LoopView(ServerView):
    """The view of a training loop: what `sample` was given answers a design's questions.

    The design numbers the clients with examples 0..clients - 1, here called places; `numbers` [clients] are their numbers
    in the loop, ascending.

    Args:
        method: its name, for messages.
        seed: of the signs of sketches, and of reports.

    Attributes:
        keys: the `client_key` of each client of the loop, int [N]; it stays with its client, and is never given again.
        next_key: the key of the next new client.
        first_answers: the private answers so far, by question and key, which are repeated.
    """

    keys: np.ndarray
    next_key: int

    def __init__(self, method: str, seed: int):
        self.memory, self._name, self._seed = Memory(), method, seed
        self.round = 0
        self.has_asked_for_updates = False
        self.first_answers: dict[tuple[str, int], Any] = {}
        self.end()  # there are no arguments of `sample` yet

    def set_clients(self, sizes: np.ndarray, numbers: np.ndarray) -> None:
        """Set the clients' sizes [N] and the numbers of those with examples."""
        self._sizes, self.numbers, self.clients = sizes[numbers], numbers, len(numbers)
        self.total, self._all = int(sizes.sum()), len(sizes)

    @property
    def sizes(self) -> np.ndarray:
        """See `View`: a copy, so that a design that changes it changes nothing else."""
        return self._sizes.copy()

    def client_key(self, client: int) -> int:
        """See `ServerView`."""
        return int(self.keys[self.numbers[client]])

    def _repeat_first(self, question: str, places, answers) -> list:
        """Return the first answer of each of these clients to a question; these are the `answers` of who has none yet."""
        keys = [(question, self.client_key(int(place))) for place in places]
        pairs = zip(keys, answers, strict=True)
        return [self.first_answers.setdefault(key, answer) for key, answer in pairs]

    def begin(self, t: int, answers: dict[str, Any], output_bias) -> None:
        """Start round t with the arguments of `sample`."""
        for name, value in answers.items():
            if value is None or callable(value):
                continue
            if hasattr(value, "__array__") and not _is_tensor(value):
                answers[name] = value = np.asarray(value)  # rows, also of a data frame
            is_one = not hasattr(value, "__len__") or getattr(value, "ndim", 1) == 0
            if is_one or isinstance(value, Mapping | str):
                raise InputError(
                    f"{name} are {format_value(value)}: give an array with a row for each client, a list, or a "
                    "function of a client's number"
                )
            if len(value) != self._all:
                raise InputError(
                    f"{name} are of {len(value)} clients, and there are {self._all}: call resize(sizes) when clients "
                    "come or go"
                )
        self.round, self._answers, self._output_bias = t, answers, output_bias

    def end(self) -> None:
        """Forget the arguments of `sample`, which may hold the user's data."""
        self._answers, self._output_bias = dict[str, Any](), None

    @property
    def update_length(self) -> int | None:
        """The numbers P of the updates so far, None before there are any, or if they are not kept."""
        last = self.memory.last_updates
        return None if last is None else last.shape[1]

    def _get(self, name: str, *others: str) -> Callable[[int], Any]:
        """Return the function of a client's place that answers; `InputError` if it was not given.

        `others`: what may be given instead, for the message.
        """
        value = self._answers[name]
        if value is None:
            instead = "".join(f", or {each}=..." for each in others)
            raise InputError(
                f"{self._name} needs {ANSWERS[name]} in round {self.round}: call sample({name}=...{instead}), with an "
                "array, a list or a function of a client's number"
            )
        call = value if callable(value) else value.__getitem__
        return lambda place: call(int(self.numbers[place]))

    def _vectors(self, name: str, what: str, *others: str) -> Iterator[np.ndarray]:
        """Yield the vector that each client answers, of one length and finite; `what` it is, for messages."""
        answer, length, names = self._get(name, *others), None, _PartNames()
        for place, k in enumerate(self.numbers):
            about, value = f"the {what} of client {k}", answer(place)
            _check_answered(about, value)
            if name == "labels" and isinstance(value, Mapping):
                raise InputError(
                    f"{about} is {format_value(value)}: give the counts of all classes in a list, in the order of the "
                    "classes, with 0 for a class without examples"
                )
            names.check(about, value)
            vector = _as_vector(about, _pieces(about, value))
            length = len(vector) if length is None else length
            if len(vector) != length:
                raise InputError(
                    f"{about} has {len(vector)} numbers, and that of client {self.numbers[0]} {length}: all must have "
                    f"the same length, so give for each client {LENGTHS[name]}"
                )
            if not np.isfinite(vector).all():
                raise InputError(
                    f"{about} holds a number that is not finite: look at its data and the model, or leave it out of the "
                    "draws by resize, with 0 as its size"
                )
            yield vector

    def _scalars(self, name: str, what: str, places, low=-np.inf, *others: str) -> np.ndarray:
        """Return the number that each of these clients answers, float [n]; `what` it is, for messages."""
        answer, result = self._get(name, *others), []
        for place in places:
            about = f"the {what} of client {self.numbers[place]}"
            value = answer(int(place))
            _check_answered(about, value)
            value = _as_vector(about, _pieces(about, value))
            if len(value) != 1 or not np.isfinite(value[0]) or value[0] < low:
                bound = "" if low == -np.inf else f" of at least {low:g}"
                raise InputError(
                    f"{about} is {format_value(value)}: it must be a finite number{bound}"
                )
            result.append(float(value[0]))
        return np.array(result)

    def gradients(self, levels: int) -> Squeezed:
        """See `View`."""
        return self.squeeze_gradients(self._vectors("gradients", "gradient"), levels)

    def sketches(self, size: int, *, clip=None, epsilon=None, delta=1e-5) -> np.ndarray:
        """See `View`; sketches that were given have the noise that their clients added."""
        if self._answers["sketches"] is None:
            vectors = self._vectors("gradients", "gradient", "sketches")
            return self.sketch_gradients(vectors, size, clip, epsilon, delta)
        vectors = self._vectors("sketches", "sketch")
        result = np.stack([*vectors])
        if result.shape[1] != size:
            raise InputError(
                f"sketches have {result.shape[1]} numbers, and {self._name} has sketch_size={size}: make them with "
                "Cohorts.sketch, or set sketch_size"
            )
        return round_sketches(result)

    def sketch_vectors(self, vectors, size: int) -> np.ndarray:
        """See `View`; vectors that are shorter than a sketch are filled up with zeros, which keeps inner products."""
        vectors = np.asarray(vectors)
        if vectors.shape[-1] >= size:
            return super().sketch_vectors(vectors, size)
        filled = [(0, 0)] * (vectors.ndim - 1) + [(0, size - vectors.shape[-1])]
        return np.pad(vectors, filled).astype(np.float32)

    def output_gradients(self, share: float = 1.0, cap: int | None = None) -> np.ndarray:
        """See `View`; whether gradients are those of one batch is a matter of who gives them."""
        vectors = self._vectors("output_gradients", "gradient of the last layer")
        return np.stack([*vectors]).astype(np.float32)

    def label_counts(self, epsilon: float | None = None) -> np.ndarray:
        """See `View`; `InputError` if private counts have other classes than the answers that they would repeat."""
        counts = self.count_labels(self._label_counts(), epsilon)
        if epsilon is None:
            return counts
        question = f"label counts, epsilon {float(epsilon)!r}"
        classes = counts.shape[1]
        for (asked, _), answer in self.first_answers.items():
            if asked == question and len(answer) != classes:
                raise InputError(
                    f"label counts are of {classes} classes, and those that clients have sent with noise, which they "
                    f"repeat, of {len(answer)}: give counts of as many classes, with 0 for a class without examples"
                )
        return np.array(self._repeat_first(question, range(self.clients), counts))

    def _label_counts(self) -> list[np.ndarray]:
        """Return the label counts that each client answers; `InputError` if they are its labels instead."""
        counts = [*self._vectors("labels", "vector of label counts")]
        # A label for each example: as many whole numbers as the client has examples, which do not add up to that number as
        # counts do. Counts with noise are no whole numbers, and add up to anything.
        if any(
            len(c) == n != c.sum() and np.array_equal(c, np.round(c))
            for c, n in zip(counts, self.sizes, strict=True)
        ):
            raise InputError(
                "labels are the classes of the clients' examples: give how many examples of each class each client "
                "has, as np.bincount(y, minlength=classes)"
            )
        return counts

    @property
    def majority_labels(self) -> np.ndarray:
        """See `View`."""
        return np.array([each.argmax() for each in self._label_counts()])

    def norms(self) -> np.ndarray:
        """See `View`."""
        if self._answers["norms"] is None and self._answers["gradients"] is not None:
            vectors = self._vectors("gradients", "gradient")
            return np.array([np.linalg.norm(each.astype(np.float64)) for each in vectors])
        return self._scalars("norms", "norm", range(self.clients), 0.0, "gradients")

    def losses(self, clients) -> np.ndarray:
        """See `View`."""
        return self._scalars("losses", "loss", clients)

    def gradient_spreads(self, clients) -> np.ndarray:
        """See `View`."""
        return self._scalars("spreads", "spread", clients, 0.0)

    def centres(self, make, batch: int, levels: int) -> np.ndarray:
        """Return `make(gradient)` of every client, [N, levels]: see `View`.

        `make` squeezes a gradient to so many levels (centres of k-means of its entries) and returns these. A simulated
        client takes its gradient as a mean over the means of batches of `batch` examples; here gradients are given, so
        that neither setting is used.
        """
        return np.stack([make(each) for each in self._vectors("gradients", "gradient")])

    def last_updates(self) -> np.ndarray:
        """See `View`; zeros [N, 1] before the first report, since the length of updates is not known before."""
        self.has_asked_for_updates = True
        last = self.memory.last_updates
        return np.zeros((self.clients, 1), dtype=np.float32) if last is None else last

    def last_respondents(self) -> np.ndarray | None:
        """See `View`. From now on each round must be reported."""
        self.has_asked_for_updates = True
        return super().last_respondents()

    def receive(self, places, updates) -> None:
        """Store who sent updates, and the updates: of a design that has asked for last updates or last respondents.

        The array of last updates is made of the first ones, from which their length is known.
        """
        if updates and self.memory.last_updates is None:
            shape = (self.clients, len(updates[0]))
            self.memory.last_updates = np.zeros(shape, dtype=np.float32)
        super().receive(places, updates)

    def class_updates(self) -> np.ndarray:
        """See `View`."""
        if self._output_bias is None:
            raise InputError(
                f"{self._name} needs the place of the last layer's bias in an update: call "
                "sample(output_bias=slice(-classes, None)), if the bias comes last"
            )
        updates = self.last_updates()
        if self.memory.last_updates is None:
            return updates
        try:
            result = updates[:, self._output_bias]
        except IndexError:
            result = np.zeros(0)
        if result.ndim != 2 or not result.size:
            raise InputError(
                f"output_bias is {format_value(self._output_bias)}: it must be a slice or a list of places among the "
                f"{updates.shape[1]} numbers of an update, as slice(-classes, None)"
            )
        return result

    def reports(self, clients, *, size_cap: int, alpha: float, memoised: bool) -> np.ndarray:
        """See `View`; they are drawn here, from the sizes that the loop knows."""
        reports = self.report_sizes(
            clients, self.sizes, size_cap=size_cap, alpha=alpha, memoised=memoised
        )
        if not memoised:
            return reports
        question = f"report, size_cap {int(size_cap)}, alpha {float(alpha)!r}"
        return np.array(self._repeat_first(question, clients, reports.tolist()), dtype=np.int64)


def _get_method(method, settings: dict[str, Any]) -> Method:
    """Return the method of a name and settings, or of a design; `InputError` if weights cannot express it."""
    if isinstance(method, str):
        is_file = user_code.FILE.fullmatch(method)  # whose folders may have spaces
        result = (methods.get if is_file else methods.parse)(method, **settings)
    elif settings:
        names = ", ".join(settings)
        raise InputError(
            f"the settings {names} are for a method's name: give this {type(method).__name__} with its own"
        )
    elif isinstance(method, Method):
        result = method
    elif not isinstance(method, type) and callable(getattr(method, "draw", None)):
        result = Method(type(method).__name__, method)
    else:
        raise InputError(
            f"the method is {format_value(method)}: give a name ({', '.join(methods.names()[:3])}, ...), a Method, or "
            "a design with a method draw(view, m, rng)"
        )
    if has_flag(result.clients, "pooled"):
        raise InputError(f"{result.name} pools all data in one place: there are no cohorts to draw")
    if not isinstance(result.server, Average):
        kind = type(result.server).__name__
        raise InputError(
            f"{result.name} has the server {kind}, which does more than add weighted updates: give its design alone, "
            f"Cohorts(methods.get({result.name!r}).clients, ...), and let your loop do what {kind} does"
        )
    return result


def _needs(part) -> tuple[str, ...]:
    """Return the arguments of `sample` that a design asks for: its attribute `needs`, or what the code of its class
    and of the classes that it inherits from names. A class of the package says itself what it needs."""
    declared = getattr(part, "needs", None)
    *classes, _ = type(part).__mro__  # the last one is object
    own = [each for each in classes if user_code.is_user_class(each)]
    if declared is not None and any("needs" in getattr(x, "__dict__", ()) for x in (part, *own)):
        return tuple(declared)
    members = [each for kind in own for each in vars(kind).values()]
    # What a property or a static method is made of.
    functions = [getattr(each, "fget", None) or getattr(each, "__func__", each) for each in members]
    codes = [getattr(each, "__code__", None) for each in functions]
    names: list[str] = []
    for code in codes:  # grows below: functions within functions
        if code is not None:
            names += code.co_names
            codes += [each for each in code.co_consts if hasattr(each, "co_names")]
    named = (answer for question, answer in QUESTIONS.items() if question in names)
    return tuple(dict.fromkeys([*(declared or ()), *named]))


def _sizes(sizes) -> np.ndarray:
    """Return the clients' sizes as int [N], from any sequence or tensor."""
    if isinstance(sizes, Mapping):
        raise InputError("sizes are a dict: give a list, in the order of the clients' numbers")
    if _is_tensor(sizes):
        sizes = _tensor_to_numpy(sizes)
    elif not hasattr(sizes, "__array__") and hasattr(sizes, "__iter__"):
        sizes = [each.item() if _is_tensor(each) and each.ndim == 0 else each for each in sizes]
    if np.ndim(sizes) != 1 if hasattr(sizes, "__array__") else not _are_numbers(sizes):
        raise InputError(
            f"sizes are {format_value(sizes)}: give how many examples each client has, as [len(y) for x, y in data]"
        )
    return check_sizes(sizes)


def _first_keys(sizes: np.ndarray) -> np.ndarray:
    """Return the keys of the first clients, int [N]: the place among those with examples, then who has none."""
    keys = np.empty(len(sizes), dtype=np.int64)
    keys[np.argsort(sizes == 0, kind="stable")] = np.arange(len(sizes))
    return keys


def _are_numbers(values) -> bool:
    """Return whether a value is a list of numbers."""
    return isinstance(values, list) and all(isinstance(each, Real | np.generic) for each in values)


def _is_tensor(value) -> bool:
    """Return whether a value is a tensor of torch, which this module does not import."""
    return hasattr(value, "detach") and hasattr(value, "numel")


def _tensor_to_numpy(tensor) -> np.ndarray:
    """Return a tensor of any precision and device as an array."""
    tensor = tensor.detach().cpu()
    try:
        return tensor.numpy()
    except TypeError:  # numpy has no bfloat16
        return tensor.float().numpy()


def _check_answered(name: str, value) -> None:
    """Raise an `InputError` if a client that the design asks gives no answer."""
    if value is None:
        raise InputError(
            f"{name} is None, and every client that is asked must answer: leave out who cannot by resize, with 0 as its "
            "size, so that it is neither asked nor drawn"
        )


class _PartNames:
    """The names of the parts of vectors that are dicts, which all clients must have in one order."""

    def __init__(self):
        self._first: tuple[str, list] | None = None  # whose dict was the first, and its keys

    def check(self, name: str, value) -> None:
        """Raise an `InputError` if a vector is a dict whose keys, or their order, are not those of the first dict."""
        if not isinstance(value, Mapping):
            return
        keys = [*value]
        if self._first is None:
            self._first = name, keys
        owner, first = self._first
        if keys != first:
            raise InputError(
                f"{name} has the parts {format_value(keys)}, and {owner} {format_value(first)}: all must have the same, "
                "in one order"
            )


def _pieces(name: str, value) -> list:
    """Return the arrays and tensors that a vector consists of: itself, or the items of a list or dict."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list | tuple) and any(np.ndim(each) or _is_tensor(each) for each in value):
        if any(each is None for each in value):
            raise InputError(
                f"a part of {name} is None, as of a parameter without a gradient: leave it out for all clients, or give "
                "zeros"
            )
        return [piece for each in value for piece in _pieces(name, each)]
    if _is_tensor(value):
        return [value if str(value.layout) == "torch.strided" else value.to_dense()]
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.asarray(None)
    if array.dtype.kind not in "fiub" or not array.size:
        raise InputError(
            f"{name} is {format_value(value)}: it must be numbers, in an array or tensor, or a list or dict of these"
        )
    return [array]


def _as_vector(name: str, pieces: list) -> np.ndarray:
    """Return the numbers of arrays and tensors, one after another, as one vector of float32 or float64."""
    arrays = [_tensor_to_numpy(each) if _is_tensor(each) else each for each in pieces]
    if any(each.dtype.kind not in "fiub" for each in arrays):
        raise InputError(f"{name} is of {arrays[0].dtype}: it must be real numbers")
    vector = np.concatenate([each.ravel() for each in arrays])
    small = vector.dtype.kind == "f" and vector.dtype.itemsize <= 4
    return vector.astype(np.float32 if small else np.float64, copy=False)


def _in_order(updates, clients: np.ndarray, t: int) -> list:
    """Return the updates of a cohort's participants, in its order, None where there is none."""
    if isinstance(updates, Mapping):
        for key in updates:
            if not isinstance(key, int | np.integer) or isinstance(key, bool):
                raise InputError(
                    f"updates are a dict with the key {format_value(key)}: its keys must be clients' numbers, as "
                    f"{clients[0]}"
                )
        foreign = [k for k in updates if k not in clients]
        if foreign:
            raise InputError(
                f"client {foreign[0]} was not drawn in round {t}: leave out its update"
            )
        return [updates.get(int(k)) for k in clients]
    if not hasattr(updates, "__len__"):
        raise InputError(
            f"updates are {format_value(updates)}: give a list, with one for each participant"
        )
    if len(updates) != len(clients):
        raise InputError(
            f"there are {len(updates)} updates of {len(clients)} participants: give one for each, in the order of "
            "cohort.clients, and None for who did not answer"
        )
    return [*updates]


def _part_to_dict(part) -> dict:
    """Return a design with its settings as plain data, by which a state recognises it."""
    if not user_code.is_user_defined(part):
        return config.to_dict(part)
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(part))
    return {"is": type(part).__qualname__, "repr": text, "files": [*user_code.source_digests(part)]}


def _store(value) -> dict | None:
    """Return an array as plain data: its type, shape and bytes; None for anything else."""
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.hasobject:
        return None
    array = np.asarray(value, order="C")
    text = base64.b64encode(array.tobytes()).decode("ascii")
    return {"array": {"dtype": array.dtype.str, "shape": [*array.shape], "base64": text}}


def _restore(content: dict):
    """Return the array that `_store` made plain."""
    data = np.frombuffer(base64.b64decode(content["base64"]), np.dtype(content["dtype"]))
    # [()] makes an array without axes a numpy scalar.
    return data.reshape(content["shape"]).copy()[()]
