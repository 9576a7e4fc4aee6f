"""A network of one's own: a function of the task that returns a torch module."""

from torch import nn


def network(task):
    """One hidden layer; logits [n, classes] of examples [n, ...]."""
    inputs = task.train_x[0].numel()
    hidden = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 16), nn.Tanh())
    return nn.Sequential(hidden, nn.Linear(16, task.classes))
