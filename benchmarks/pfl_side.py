"""Rounds of pfl-research: `python -m benchmarks.pfl_side DATA FOLDER ROUNDS`."""

from __future__ import annotations

import sys
import time
from importlib.metadata import version

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch.nn import functional as F

from benchmarks.side import Clock, load
from benchmarks.workloads import BATCH, LR
from fedstas.sim import models

DATA, FOLDER, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
problem = load(DATA, FOLDER)


class Net(torch.nn.Module):
    """Our network with pfl's loss."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)

    def loss(self, x, y, eval=False):
        return F.cross_entropy(self(x), y)

    def metrics(self, x, y, eval=True):
        return {}


class Timer(TrainingProcessCallback):
    """Times a central iteration from the end of the last, ours excluded."""

    def __init__(self, module):
        self.module, self.clock = module, Clock(problem)

    def on_train_begin(self, *, model):
        self.before, self.began = models.flatten(self.module), time.perf_counter()
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        theirs, after = time.perf_counter() - self.began, models.flatten(self.module)
        self.clock.round(theirs, self.before, after)
        if len(self.clock.ours) == ROUNDS:
            self.clock.write(FOLDER, version("pfl"))
        self.before, self.began = after, time.perf_counter()
        return False, Metrics()


def dataset(user):
    """All batches of a place in the cohort, in their order: one epoch is the steps."""
    rows = torch.from_numpy(problem.idx[int(user)].ravel())
    x, y = problem.data.x.index_select(0, rows), problem.data.y.index_select(0, rows)
    return Dataset(raw_data=[x, y], user_id=user, metadata={"weight": 1.0})


if __name__ == "__main__":
    net = Net(problem.module)
    sgd = torch.optim.SGD(net.parameters(), lr=1.0)
    model = PyTorchModel(model=net, local_optimizer_create=torch.optim.SGD, central_optimizer=sgd)
    users = [str(i) for i in range(len(problem.idx))]
    place = iter(range(10**9))
    data = FederatedDataset(dataset, lambda: users[next(place) % len(users)])
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=ROUNDS,
            evaluation_frequency=10**9,
            train_cohort_size=len(users),
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=data, val_data=None),
        model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=LR, local_batch_size=BATCH
        ),
        callbacks=[Timer(problem.module)],
    )
