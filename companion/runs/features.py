"""Inner products of squeezed gradients and updates, for the bound of chapter 9 on strata of proxy features."""

from __future__ import annotations

import numpy as np

from fedstas.errors import InputError
from fedstas.least_variance import gram_coordinates, max_cut_strata, sketch
from fedstas.sim import one_round
from fedstas.sim.one_round import State
from fedstas.sim.server import Server


def products(state: State, earlier: State | None = None, levels: int = 9, repeats: int = 2):
    """Return the arguments of `theory.least_variance.features_bound` for strata of squeezed gradients z: labels
    [N], inner products z z' [N, N] and z u' [N, N] with the updates u at `state`. The gradients are those
    of the model at `earlier`, the same federation in an earlier round, or of `state` itself (only the
    squeeze, and the local steps, then lie between)."""
    at, setup = earlier or state, state.setup
    if at.gram.shape != state.gram.shape:
        raise InputError(
            f"the earlier state has {len(at.gram)} clients and the later {len(state.gram)}: they must "
            "be of the same federation"
        )
    module = setup.task.model(setup.seed)
    server = Server(setup.data, module, setup.seed, setup.class_shares.argmax(1))
    server.begin(at.round, at.params)
    squeezed = server.gradients(levels)
    z = squeezed.restore().astype(float)
    u = one_round.all_updates(setup, module, state.round, state.params, repeats).mean(0)
    cut = max_cut_strata(
        state.omega, gram_coordinates(sketch(squeezed)), np.square(z).sum(1), setup.m
    )
    return cut, z @ z.T, z @ u.T
