"""Rounds compiled by JAX: `python -m benchmarks.jax_side DATA FOLDER ROUNDS`.

One compiled function is the whole round of the perceptron, of all clients at once. For the CNN it is one local
step of one client: in a compiled loop (`lax.scan`, `lax.map`) XLA's convolutions take minutes a round on a CPU.
"""

from __future__ import annotations

import sys
import time

import jax
import torch
from jax import lax
from jax import numpy as jnp

from benchmarks.side import Clock, load, one_core
from benchmarks.workloads import LR

DATA, FOLDER, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])


def perceptron(w, x):
    """Logits, of w in the order of the module's parameters."""
    return jax.nn.relu(x.reshape(len(x), -1) @ w[0].T + w[1]) @ w[2].T + w[3]


def convolutional(w, x):
    """Logits of the papers' CNN, images with the channels innermost, as XLA likes them on a CPU."""

    def convolved(x, weight, bias):
        ours = weight.transpose(2, 3, 1, 0)
        dims = ("NHWC", "HWIO", "NHWC")
        return jax.nn.relu(
            lax.conv_general_dilated(x, ours, (1, 1), "VALID", dimension_numbers=dims) + bias
        )

    def pooled(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    x = pooled(convolved(x.transpose(0, 2, 3, 1), w[0], w[1]))
    x = convolved(pooled(convolved(x, w[2], w[3])), w[4], w[5])
    x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    return jax.nn.relu(x @ w[6].T + w[7]) @ w[8].T + w[9]


logits = perceptron if DATA == "mnist" else convolutional


def loss(w, x, y):
    """Mean cross-entropy of a batch."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(w, x)), y[:, None], 1).mean()


def step(w, x, y):
    """One step of SGD."""
    return [a - LR * g for a, g in zip(w, jax.grad(loss)(w, x, y), strict=True)]


@jax.jit
def all_at_once(w, x, y, idx):
    """The mean model after the local steps of idx [m, steps, batch]."""

    def client(rows):
        return lax.scan(lambda w, at: (step(w, x[at], y[at]), None), w, rows)[0]

    return [v.mean(0) for v in jax.vmap(client)(idx)]


@jax.jit
def one_step(w, x, y, rows):
    """A local step of one client."""
    return step(w, x[rows], y[rows])


def one_by_one(w, x, y, idx):
    """As `all_at_once`, one client after another."""
    total = None
    for client in idx:
        local = w
        for rows in client:
            local = one_step(local, x, y, rows)
        total = local if total is None else [a + b for a, b in zip(total, local, strict=True)]
    return [v / len(idx) for v in total]


if __name__ == "__main__":
    one_core()
    round_ = all_at_once if DATA == "mnist" else one_by_one
    problem = load(DATA, FOLDER)
    clock, before = Clock(problem), problem.params
    w = [jnp.asarray(v.detach().numpy()) for v in problem.module.parameters()]
    x, y = jnp.asarray(problem.data.x.numpy()), jnp.asarray(problem.data.y.numpy())
    for _ in range(ROUNDS):
        began = time.perf_counter()
        w = jax.block_until_ready(round_(w, x, y, jnp.asarray(problem.idx)))
        taken = time.perf_counter() - began
        after = torch.cat([torch.tensor(jax.device_get(v)).flatten() for v in w])
        clock.round(taken, before, after)
        before = after
    clock.write(FOLDER, jax.__version__)
