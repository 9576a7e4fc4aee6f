"""FedSTaS on one page: Algorithms 1 to 3 of the paper, in numpy, torch and scikit-learn.

    python examples/fedstas.py        # 30 clients that share 1,437 small images, in seconds
    python examples/fedstas.py 3      # the same, their sizes reported with privacy, epsilon = 3

Algorithms, equations and symbols are the journal version's (in the preprint the algorithms are 3, 1
and 2). Lines are counted from an algorithm's first `Initialize`, each `end` included. Where the paper
leaves a choice, or prints what cannot be run, the text beside the code says what is done here.
"""

import sys
from itertools import chain, islice

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def gradient(net, w, x, y):
    """The gradient of the mean loss F_k (eq. 2.1) at the parameters w, one flat vector."""
    vector_to_parameters(w, net.parameters())
    loss = cross_entropy(net(x), y)
    return parameters_to_vector(torch.autograd.grad(loss, list(net.parameters())))


def squeeze(G, levels, candidates=200):
    """IS(G), Algorithm 1, output: a few levels X, and for each entry the index λ of its level.

    One-dimensional k-means, where a cluster is a run of sorted entries: the best cuts between runs
    are found by dynamic programming.
    """
    x = np.sort(G).astype(float)
    # An optimal quantiser has levels as dense as the cube root of the entries' density (Panter and
    # Dite). Equal steps of gap^(2/3) do the same for the candidates, and reach into the tails.
    mass = np.cbrt(np.diff(x) ** 2).cumsum()
    cuts = 1 + mass.searchsorted(np.linspace(0, mass[-1], candidates)[1:])
    cuts = np.unique([0, *cuts, len(x)])
    # A run with sum s and n entries lowers the sum of squares by s² / n: gain[from, to].
    before, size = np.append(0, x.cumsum())[cuts], cuts - cuts[:, None]
    gain = (before - before[:, None]) ** 2 / np.maximum(size, 1)
    gain[size <= 0] = -np.inf
    best, steps = gain[0], []  # of one run, then of two, ..., from the first entry to each cut
    for _ in range(min(levels, len(cuts) - 1) - 1):
        totals = best[:, None] + gain
        best, steps = totals.max(0), [totals.argmax(0), *steps]
    ends = [len(cuts) - 1]
    for step in steps:  # from the end of the last run back to the first
        ends.append(step[ends[-1]])
    ends = [0, *reversed(ends)]
    X = np.diff(before[ends]) / np.diff(cuts[ends])
    return X, np.searchsorted((X[1:] + X[:-1]) / 2, G)  # the nearest level


def stratify(Z, H, seed):
    """Algorithm 2: the stratum of each client, by k-means of the restored gradients Z [N, d].

    It starts from H random clients and ends when no centre moves; here the best of ten such runs.
    """
    labels = KMeans(H, init="random", n_init=10, tol=0, random_state=seed).fit_predict(Z)
    return np.unique(labels, return_inverse=True)[1]  # no stratum is empty


def spread(Z):
    """S_h of eq. 3.5: the root of the mean squared distance of a stratum's Z to their mean.

    The paper says "sample variance", but eq. 3.5 is optimal for the standard deviation only.
    """
    return np.sqrt(((Z - Z.mean(0)) ** 2).sum(1).mean())


def allocate(N_h, S_h, m):
    """m_h of eq. 3.5, but whole and from 1 to N_h: the least sum of (N_h S_h)² / m_h (Wright, 2012).

    Each further draw gains a stratum less, so the next one goes to where it gains most.
    """
    m_h = np.ones(len(N_h), dtype=int)
    for _ in range(m - len(N_h)):
        gain = np.where(m_h < N_h, N_h * S_h / np.sqrt(m_h * (m_h + 1)), -1)
        missing = m * N_h / N_h.sum() - m_h  # decides where gains are equal
        m_h[np.lexsort((-missing, -gain))[0]] += 1
    return m_h


def draw(p, m_h, rng):
    """m_h distinct clients, one after another with probabilities proportional to p (Sec. 3.2).

    Each client waits for an exponential time of rate p_k. The first to arrive is k with probability
    p_k / sum p; then, for such times have no memory, the same holds among those who are left.
    """
    with np.errstate(divide="ignore"):
        time = rng.exponential(size=len(p)) / p  # p_k = 0 never arrives: last, in random order
    return np.lexsort((rng.random(len(p)), time))[:m_h]


def select(Z, labels, m, rng):
    """Algorithm 3, lines 4 to 8: the clients S_t, and N_h / (N m_h), their weights in line 16."""
    strata = [np.flatnonzero(labels == h) for h in range(labels.max() + 1)]
    N_h = np.array([len(stratum) for stratum in strata])
    m_h = allocate(N_h, np.array([spread(Z[stratum]) for stratum in strata]), m)  # line 5
    p = np.linalg.norm(Z, axis=1)  # line 6, up to the factor that sums it to one in its stratum
    S_t = [stratum[draw(p[stratum], n, rng)] for stratum, n in zip(strata, m_h, strict=True)]
    return np.concatenate(S_t), np.repeat(N_h / (len(Z) * m_h), m_h)  # line 7


def report(n_k, M, alpha, rng):
    """r_k of eq. 5.6: the size, clipped to 1..M-1, with probability α, else any of 1..M-1.

    It hides the size alone, and in one round: gradients and models travel as they are.
    """
    n_hat = rng.integers(1, M, size=n_k.shape)
    return np.where(rng.random(n_k.shape) < alpha, n_k.clip(1, M - 1), n_hat)


def estimate(r, M, alpha):
    """ñ of eq. 5.7: the total size of the clients that reported r, without bias but for clipping."""
    return (r.sum() - (1 - alpha) * M * len(r) / 2) / alpha


def client_update(net, w, x, y, ratio, rng, steps=3, batch=64, lr=0.3):
    """Algorithm 1: local SGD on a sample ξ that keeps each example with probability `ratio`.

    The paper also fixes the sample's size, at floor(n*/m), which contradicts the probabilities. Its
    epochs are steps here, each on a batch of the sample.
    """
    xi = np.flatnonzero(rng.random(len(y)) < ratio)  # line 2
    for _ in range(steps if len(xi) else 0):  # line 3; with an empty sample, w stays
        rows = rng.choice(xi, batch, replace=False) if len(xi) > batch else xi
        w = w - lr * gradient(net, w, x[rows], y[rows])  # line 4
    return w


def fedstas(net, clients, w, m, n_star, H=5, levels=9, epsilon=None, M=100, seed=0):
    """Algorithm 3 for `clients`, a list of (x, y): yields w_1, w_2, ... as long as it is asked."""
    rng = np.random.default_rng(seed)
    while True:  # line 2
        # Before line 3, all N clients send IS(G). In Algorithm 1 only the sampled ones would.
        squeezed = [squeeze(gradient(net, w, x, y).numpy(), levels) for x, y in clients]
        Z = np.stack([X[code] for X, code in squeezed])  # Algorithm 2, line 1
        labels = stratify(Z, min(H, m), int(rng.integers(2**31)))  # line 3
        S_t, weights = select(Z, labels, m, rng)  # lines 4 to 8
        n_k = np.array([len(clients[k][1]) for k in S_t])
        n = n_k.sum()  # the total that line 12 estimates, for those who need no privacy
        if epsilon is not None:
            alpha = np.expm1(epsilon) / (np.exp(epsilon) + M - 2)  # the largest for ε (Lemma 5)
            n = estimate(report(n_k, M, alpha, rng), M, alpha)  # lines 9 to 12
        ratio = min(1, n_star / max(n, m))  # the estimate may be small, or below zero
        models = [client_update(net, w, *clients[k], ratio, rng) for k in S_t]  # lines 13 to 15
        w = torch.tensor(weights, dtype=w.dtype) @ torch.stack(models)  # line 16
        yield w


def federation(labels, N, concentration, rng):
    """Rows of each client: every class is spread over N clients by Dirichlet shares."""
    owner = np.empty(len(labels), dtype=int)
    for c in np.unique(labels):
        rows = np.flatnonzero(labels == c)
        owner[rows] = rng.choice(N, len(rows), p=rng.dirichlet(np.full(N, concentration)))
    return [rows for k in range(N) if len(rows := np.flatnonzero(owner == k))]


def main(epsilon=None, rounds=30):
    """Train a perceptron on scikit-learn's digits, every fifth of them kept for the test."""
    torch.set_num_threads(1)  # faster, where products are as small as here
    torch.manual_seed(0)
    images, classes = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(classes)
    test = np.arange(len(y)) % 5 == 0
    train_x, train_y, test_x, test_y = x[~test], y[~test], x[test], y[test]
    shards = federation(train_y.numpy(), 30, concentration=0.1, rng=np.random.default_rng(0))
    net = nn.Sequential(nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 10))
    w = parameters_to_vector(net.parameters()).detach()
    run = fedstas(net, [(train_x[s], train_y[s]) for s in shards], w, 10, 256, epsilon=epsilon)
    for t, w_t in enumerate(chain([w], islice(run, rounds))):
        if t % 5 == 0:
            vector_to_parameters(w_t, net.parameters())
            accuracy = (net(test_x).argmax(1) == test_y).double().mean()
            print(f"round {t:3}   test accuracy {accuracy:6.1%}", flush=True)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
