"""Rounds of Flower's simulation: `python -m benchmarks.flower_side DATA FOLDER ROUNDS CPUS`.

Its workers import this module by name, so the arguments travel in the environment.
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from importlib.metadata import version

import torch
from flwr.client import ClientApp, NumPyClient
from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import Strategy
from flwr.simulation import run_simulation
from torch.nn import functional as F

from benchmarks.side import Clock, load
from benchmarks.workloads import LR

ARGUMENTS = "FEDSTAS_BENCH"


def arguments() -> list[str]:
    """DATA, FOLDER, ROUNDS, CPUS of a client."""
    return os.environ[ARGUMENTS].split(os.pathsep)


@cache
def problem():
    """Once in each process."""
    return load(*arguments()[:2])


def put(module, arrays) -> None:
    with torch.no_grad():
        for parameter, array in zip(module.parameters(), arrays, strict=True):
            parameter.copy_(torch.from_numpy(array))


class Client(NumPyClient):
    """Trains the batches of the place in the cohort that the server names."""

    def fit(self, parameters, config):
        p = problem()
        torch.set_num_threads(int(arguments()[3]))  # as Ray does where nobody has said otherwise
        put(p.module, parameters)
        optimizer = torch.optim.SGD(p.module.parameters(), lr=LR)
        for rows in torch.from_numpy(p.idx[config["slot"]]):
            x, y = p.data.x.index_select(0, rows), p.data.y.index_select(0, rows)
            optimizer.zero_grad()
            F.cross_entropy(p.module(x), y).backward()
            optimizer.step()
        arrays = [v.detach().numpy() for v in p.module.parameters()]
        return arrays, int(p.idx[0].size), {"slot": config["slot"]}


class Mean(Strategy):
    """Ten clients a round, weights 1/m, no evaluation; the round is timed from sending to the mean."""

    def __init__(self):
        self.clock = Clock(problem())

    def initialize_parameters(self, client_manager):
        client_manager.wait_for(len(problem().data.sizes))
        return ndarrays_to_parameters([v.detach().numpy() for v in problem().module.parameters()])

    def configure_fit(self, server_round, parameters, client_manager):
        self.before, self.began = parameters_to_ndarrays(parameters), time.perf_counter()
        clients = client_manager.sample(len(problem().idx))
        return [(c, FitIns(parameters, {"slot": i})) for i, c in enumerate(clients)]

    def aggregate_fit(self, server_round, results, failures):
        assert not failures, failures[0]
        arrays = [parameters_to_ndarrays(r.parameters) for _, r in results]
        means = [sum(each) / len(arrays) for each in zip(*arrays, strict=True)]
        theirs = time.perf_counter() - self.began
        flat = [torch.cat([torch.from_numpy(a).flatten() for a in v]) for v in (self.before, means)]
        self.clock.round(theirs, *flat)
        if server_round == int(arguments()[2]):
            self.clock.write(arguments()[1], version("flwr"))
        return ndarrays_to_parameters(means), {}

    def configure_evaluate(self, server_round, parameters, client_manager):
        return []

    def aggregate_evaluate(self, server_round, results, failures):
        return None, {}

    def evaluate(self, server_round, parameters):
        return None


def server(context):
    return ServerAppComponents(strategy=Mean(), config=ServerConfig(num_rounds=int(arguments()[2])))


def client(context):
    return Client().to_client()


def main() -> None:
    """Run the rounds."""
    run_simulation(
        server_app=ServerApp(server_fn=server),
        client_app=ClientApp(client_fn=client),
        num_supernodes=len(problem().data.sizes),
        backend_config={"client_resources": {"num_cpus": int(arguments()[3]), "num_gpus": 0.0}},
    )


if __name__ == "__main__":
    from benchmarks import flower_side

    os.environ[ARGUMENTS] = os.pathsep.join(sys.argv[1:])
    flower_side.main()
