"""What a node holds. Put your own data here: `x` float32 [n, c, h, w], `y` int64 [n]."""

from flwr.app import Context

from federation.settings import data_of, method_of
from fedstas.flower import Local, client_app


def load(context: Context) -> Local:
    """The shard of this node: `partition-id` of its node configuration."""
    config, node = context.run_config, context.node_config
    task, federation = data_of(config)
    k = int(node["partition-id"])
    shard = federation.shards[k]
    return Local(
        client=k,
        x=task.train_x[shard],
        y=task.train_y[shard],
        module=task.model(config["seed"]),
        method=method_of(config),
        seed=config["seed"],
        secret=node.get("secret"),
        reproducible=config["reproducible"],
    )


app = client_app(load)
