"""Flower clients as anybody has them, with Adam and batch norm: only the server's strategy is of fedstas."""

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fedstas.flower import FedAvgWithDesign

x, y = (torch.from_numpy(each) for each in load_digits(return_X_y=True))
x = x.float() / 16  # the first 360 are the test set
parts = (360 + y[360:].argsort(stable=True)).tensor_split([20, 60, 120, 400, 700])  # 6 clients
net = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
client, server = ClientApp(), ServerApp()


@client.train()
def train(message, context):
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    part = parts[context.node_config["partition-id"]]
    optimiser = torch.optim.Adam(net.train().parameters(), lr=0.01)
    for images, labels in DataLoader(TensorDataset(x[part], y[part]), 10, shuffle=True):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimiser.step()
    arrays, metrics = ArrayRecord(net.state_dict()), MetricRecord({"num-examples": len(part)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@server.main()
def main(grid, context):
    strategy = FedAvgWithDesign("clustered-similarity", clients_per_round=3, fraction_evaluate=0)
    result = strategy.start(grid, ArrayRecord(net.state_dict()), num_rounds=10)
    net.load_state_dict(result.arrays.to_torch_state_dict())
    print("accuracy:", (net.eval()(x[:360]).argmax(1) == y[:360]).float().mean().item())


run_simulation(server, client, num_supernodes=len(parts))
