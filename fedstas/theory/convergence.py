"""Exact errors of a design over rounds on quadratic clients (FedSTaS Theorem 2; Fraboni et al., Thm 1-2).

F_k(W) = tr (W - C_k)' A_k (W - C_k) / 2, F = sum omega_k F_k. The server adds sum_k c_k (W_k - W), where W_k is
the model after client k's local steps of gradient descent and the weights c are random, independent of W. A round is
then linear in W. So the mean E c and the second moment E cc' of the weights determine the expected model and its second
moment exactly, round by round.

In shapes, N is the number of clients, and [d, c] is the shape of a model W: d features and c outputs, as of ridge
regression. This c is a number, the weights c_k are random.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedstas.errors import InputError, check_choice, check_int

RULES = ("as written", "corrected", "uniform")


@dataclass(frozen=True, eq=False)
class Quadratics:
    """Clients F_k with curvatures A [N, d, d] (symmetric), centres C [N, d, c] and weights omega [N]."""

    curvatures: np.ndarray
    centres: np.ndarray
    omega: np.ndarray

    def __post_init__(self):
        a, c, omega = self.curvatures, self.centres, self.omega
        if a.ndim != 3 or c.ndim != 3 or a.shape[:2] != c.shape[:2] or len(omega) != len(a):
            raise InputError("curvatures must be [N, d, d], centres [N, d, c] and weights [N]")
        if abs(omega.sum() - 1) > 1e-9 or self.convexity <= 0:
            raise InputError("the weights must sum to 1 and F must be strongly convex")

    @cached_property
    def curvature(self) -> np.ndarray:
        """The curvature of F, [d, d]."""
        return np.tensordot(self.omega, self.curvatures, 1)

    @cached_property
    def smoothness(self) -> float:
        """L: the largest curvature of any client."""
        return float(np.linalg.eigvalsh(self.curvatures).max())

    @cached_property
    def convexity(self) -> float:
        """mu: the smallest curvature of F."""
        return float(np.linalg.eigvalsh(self.curvature).min())

    @cached_property
    def minimiser(self) -> np.ndarray:
        """The minimiser W* of F, [d, c]."""
        return self.fixed_point(self.omega)

    def gradients(self, models: np.ndarray) -> np.ndarray:
        """Compute the gradients of all clients [..., N, d, c] at models [..., d, c]."""
        return self.curvatures @ (models[..., None, :, :] - self.centres)

    def excess(self, models: np.ndarray) -> np.ndarray:
        """Compute the excess loss F(W) - F(W*) [...] at models W [..., d, c]."""
        off = models - self.minimiser
        return 0.5 * np.einsum("...dc,de,...ec->...", off, self.curvature, off)

    def local(self, lr: float, steps: int = 1) -> np.ndarray:
        """Compute the matrices B [N, d, d] of local training: after `steps` steps W_k - W = -B_k (W - C_k)."""
        identity = np.eye(self.curvatures.shape[1])
        return identity - np.linalg.matrix_power(identity - lr * self.curvatures, steps)

    def fixed_point(self, mean: np.ndarray, lr: float | None = None, steps: int = 1) -> np.ndarray:
        """Compute the model [d, c] that a round with E c = `mean` [N] leaves unchanged in expectation.

        With one local step, the default, it does not depend on the learning rate; with more it does: give `lr`.
        """
        b = self.curvatures if lr is None else self.local(lr, steps)
        pull = np.einsum("k,kde,kec->dc", mean, b, self.centres)
        return np.linalg.solve(np.tensordot(mean, b, 1), pull)

    def noise(self, draws: np.ndarray) -> float:
        """Compute the noise of a design at the minimiser, sigma*^2 = sum_k omega_k^2 / nu_k |grad F_k(W*)|^2.

        `draws` [N] is nu, each client's expected number of draws in a round.
        """
        square = (self.gradients(self.minimiser) ** 2).sum(axis=(1, 2))
        return float((self.omega**2 / draws * square).sum())


class Moments(NamedTuple):
    """The first two moments of the clients' random aggregation weights c in a round: E c [N] and E cc' [N, N]."""

    mean: np.ndarray
    square: np.ndarray


def full_participation(omega) -> Moments:
    """Return the moments of the weights omega [N], which are constants since all clients take part."""
    omega = np.asarray(omega, dtype=float)
    return Moments(omega, np.outer(omega, omega))


def clustered_sampling(r) -> Moments:
    """Return the moments of clustered sampling: draw j selects client k with probability r_jk, each draw has weight 1/m.

    The rows of r [m, N] sum to 1. With equal rows this is MD sampling (Fraboni et al. 2021, arXiv:2105.05883).
    """
    r = np.asarray(r, dtype=float)
    mean = r.mean(axis=0)
    spread = np.diag(r.sum(axis=0)) - r.T @ r
    return Moments(mean, np.outer(mean, mean) + spread / len(r) ** 2)


def hansen_hurwitz(omega, selection, m: int) -> Moments:
    """Return the moments of m draws with replacement and fixed selection probabilities p [N], weights omega_k / (m p_k)."""
    omega, p = np.asarray(omega, dtype=float), np.asarray(selection, dtype=float)
    spread = np.diag(omega**2 / p) - np.outer(omega, omega)
    return Moments(omega, np.outer(omega, omega) + spread / check_int("m", m, 1))


def uniform(omega, m: int) -> Moments:
    """Return the moments of m distinct clients, all equally likely, weights omega_k N / m (FedSTaS, eq. 2.3)."""
    omega = np.asarray(omega, dtype=float)
    n = len(omega)
    m = check_int("m", m, 1, n)
    both = np.full((n, n), (m - 1) / max(1, n - 1) * n / m)
    np.fill_diagonal(both, n / m)
    return Moments(omega, both * np.outer(omega, omega))


def errors(clients: Quadratics, design: Moments, lrs, start, steps: int = 1) -> np.ndarray:
    """Compute the exact expected errors of a design over T rounds.

    Args:
        design: the moments of its aggregation weights.
        lrs: the learning rate of each round, [T].
        start: the first model W_0, [d, c].
        steps: the local steps of each participant.

    Returns:
        E |W_t - W*|^2, E F(W_t) - F* and E |grad F(W_t)|^2 for t = 0..T, [3, T + 1].
    """
    n, d, c = clients.centres.shape
    start = np.asarray(start, dtype=float).reshape(d, c)
    z = np.vstack([start, np.eye(c)])  # (W, 1): the second moment is carried for both
    x = z @ z.T
    off = np.hstack([np.eye(d), -clients.minimiser])  # off @ z is W - W*
    h, out, computed_lr = clients.curvature, np.empty((3, len(lrs) + 1)), None
    for t in range(len(lrs) + 1):
        s = off @ x @ off.T  # E (W - W*)(W - W*)'
        out[:, t] = np.trace(s), 0.5 * np.trace(h @ s), np.trace(h @ s @ h)
        if t == len(lrs):
            break
        if computed_lr != lrs[t]:
            computed_lr, b = lrs[t], clients.local(lrs[t], steps)
            # Client k's step is -K_k z: -B_k (W - C_k), and 0 for the 1.
            k = np.zeros((n, d + c, d + c))
            k[:, :d, :d], k[:, :d, d:] = b, -b @ clients.centres
            bar = np.tensordot(design.mean, k, 1)  # sum_k E[c_k] K_k
            mixed = np.tensordot(design.square, k, 1)  # sum_l E[c_k c_l] K_l
        kx = k @ x
        # E z z' of the next round, with z + sum_k c_k (-K_k z) in place of z
        x = x - bar @ x - x @ bar.T + np.tensordot(kx, mixed, ([0, 2], [0, 2]))
    return out


def simulate(clients: Quadratics, rule: str, lrs, start, uniforms) -> np.ndarray:
    """Simulate R runs of T rounds with one local step, and return their models [T + 1, R, d, c].

    Args:
        rule: "as written" (m draws with p_k proportional to the norm of the client's gradient, and the plain mean of
            their models), "corrected" (the same draws, weights omega_k / (m p_k) on updates) or "uniform" (equal p_k,
            weights omega_k / (m p_k)).
        lrs: the learning rate of each round, [T].
        start: the first model W_0, [d, c].
        uniforms: uniform random numbers in [0, 1), [T, R, m]; each selects one client.
    """
    check_choice("rule", rule, RULES)
    rounds, runs, m = uniforms.shape
    w = np.broadcast_to(start, (runs, *clients.centres.shape[1:])).astype(float)
    path, at = [w], np.arange(runs)[:, None]
    for t in range(rounds):
        g = clients.gradients(w)
        norm = np.sqrt((g**2).sum(axis=(2, 3)))
        p = np.ones_like(norm) if rule == "uniform" else norm
        p = p / p.sum(axis=1, keepdims=True)
        # By inversion: the first client whose cumulative probability is at least the uniform number.
        k = (uniforms[t][:, :, None] > p.cumsum(1)[:, None, :]).sum(2).clip(max=p.shape[1] - 1)
        weight = np.ones((runs, m)) if rule == "as written" else clients.omega[k] / p[at, k]
        w = w - lrs[t] * np.einsum("rm,rmdc->rdc", weight / m, g[at, k])
        path.append(w)
    return np.array(path)


class Bound(NamedTuple):
    """A bound of the error over T rounds with the learning rates lrs [T].

    E |W_t - W*|^2 is at most `distance` [T + 1], and E F(W_t) - F* at most L/2 times that.
    """

    lrs: np.ndarray
    distance: np.ndarray


def decreasing_step_bound(clients: Quadratics, draws, distance: float, rounds: int) -> Bound:
    """Bound E |W_t - W*|^2 by v / (t + gamma), with the learning rates 2 / (mu (t + gamma)), by the corrected Theorem 2.

    There gamma = 2 Lambda / mu, so that no rate is above 1 / Lambda, and v = max(8 noise / mu^2, gamma |W_0 - W*|^2). A round
    with the rate eta adds at most 2 eta^2 noise; for the rates above that is 8 noise / (mu (t + gamma))^2. Chapter 4f has
    the proof.

    Args:
        draws: each client's expected number of draws in a round, nu [N].
        distance: |W_0 - W*|^2 at the start.
        rounds: T.
    """
    mu, noise = clients.convexity, clients.noise(draws)
    gamma = 2 * _expected_smoothness(clients, draws) / mu
    t = np.arange(rounds + 1)
    v = max(8 * noise / mu**2, gamma * distance)
    return Bound(2 / (mu * (t[:-1] + gamma)), v / (t + gamma))


def constant_step_bound(
    clients: Quadratics, draws, distance: float, rounds: int, lr: float
) -> Bound:
    """Bound the error with a constant learning rate of at most 1 / Lambda, by the corrected Theorem 2.

    Args:
        draws: each client's expected number of draws in a round, nu [N].
        distance: |W_0 - W*|^2 at the start.
        rounds: T.
    """
    largest = 1 / _expected_smoothness(clients, draws)
    if not 0 < lr <= largest * (1 + 1e-12):  # the largest one itself is allowed, up to rounding
        raise InputError(f"lr is {lr:g}: it must be above 0 and at most {largest:g} here")
    mu, t = clients.convexity, np.arange(rounds + 1)
    floor = 2 * lr * clients.noise(draws) / mu
    return Bound(np.full(rounds, lr), (1 - lr * mu) ** t * distance + floor)


def _expected_smoothness(clients: Quadratics, draws) -> float:
    """Compute the expected smoothness Lambda = L (1 + 2 max_k omega_k / nu_k)."""
    return clients.smoothness * (1 + 2 * float((clients.omega / draws).max()))


def ridge(x, targets, shards, penalty: float) -> Quadratics:
    """Make ridge regression problems, one client for each shard, with equal weights: x [n, d], targets [n, c]."""
    x, y = np.asarray(x, float), np.asarray(targets, float)
    identity = np.eye(x.shape[1])
    a = np.array([x[i].T @ x[i] / len(i) + penalty * identity for i in shards])
    b = np.array([x[i].T @ y[i] / len(i) for i in shards])
    return Quadratics(a, np.linalg.solve(a, b), np.full(len(a), 1 / len(a)))


def as_written_fixed_point(
    clients: Quadratics, start, lr: float, rounds: int = 20_000
) -> np.ndarray:
    """Find the model [d, c] that a round of FedSTaS's Algorithm 3 as written leaves unchanged in expectation.

    That is the rule "as written" of `simulate`: m draws with p_k proportional to the norm of the client's gradient g_k,
    and the plain mean of their models. Its expected step is -lr sum_k |g_k| g_k / sum_k |g_k|, so that the model is where
    sum_k |g_k| g_k = 0. It is not the minimiser of F, where sum_k omega_k g_k = 0.

    Args:
        start: the first model, [d, c].
        lr: the learning rate of the expected steps; it decides how fast they arrive, and not where.
        rounds: the most steps; fewer are made if one changes no entry by more than 1e-14.

    Returns:
        The model after the last step, even if `rounds` steps are not enough to arrive.
    """
    w = np.asarray(start, dtype=float)
    for _ in range(rounds):
        g = clients.gradients(w)
        norm = np.sqrt((g**2).sum(axis=(1, 2)))
        step = lr * np.tensordot(norm / norm.sum(), g, 1)
        w = w - step
        if np.abs(step).max() < 1e-14:
            break
    return w
