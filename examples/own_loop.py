"""A training loop of one's own, in numpy: `fedstas.Cohorts` says who trains, and how much each update counts."""

import sys

sys.path = [p for p in sys.path if not p.endswith("examples")]  # where fedstas.py is another file

import numpy as np
from sklearn.datasets import load_digits

from fedstas import Cohorts

x, y = load_digits(return_X_y=True)
x, y, test_x, test_y = x[360:] / 16, y[360:], x[:360] / 16, y[:360]
parts = np.array_split(np.argsort(y, kind="stable"), 40)  # a client holds one or two digits
data = [(x[part], y[part]) for part in parts]


def gradient(model, x, y):
    """Return the gradient of the mean cross-entropy of a linear model [64, 10]."""
    scores = np.exp(x @ model)
    return x.T @ (scores / scores.sum(1, keepdims=True) - np.eye(10)[y]) / len(y)


def train(model, x, y, steps=5, rate=0.5):
    """Return the change of the model by some steps of gradient descent."""
    new = model.copy()
    for _ in range(steps):
        new -= rate * gradient(new, x, y)
    return new - model


model = average = np.zeros((64, 10))
chooser = Cohorts("fedstas-least-variance", sizes=[len(y) for _, y in data], m=5, seed=0)
for t in range(1, 41):
    cohort = chooser.sample(gradients=lambda k: gradient(model, *data[k]))
    updates = [train(model, *data[k]) for k in cohort.clients]
    for weight, update in zip(chooser.report(cohort, updates), updates, strict=True):
        model = model + weight * update
    average = average + 0.1 / (1 - 0.9**t) * (model - average)  # the model to deploy
last, averaged = (np.mean((test_x @ w).argmax(1) == test_y) for w in (model, average))
accuracies = f"last model {last:.3f}, averaged model {averaged:.3f}"
print(f"accuracy after {chooser.round} rounds: {accuracies}")
