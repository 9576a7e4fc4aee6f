"""What a node holds. Put your own data here: `x` float32 [n, c, h, w], `y` int64 [n]."""

from flwr.app import Context

from federation.settings import data_of, method_of
from fedstas.flower import Local, Privacy, client_app


def load(context: Context) -> Local:
    """Return the shard of this node, whose number is `partition-id` of its node configuration.

    What protects the shard's size is of that configuration, too, and never of the run's, which the server sets.
    """
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
        reproducible=bool(node.get("reproducible", False)),
        privacy=privacy_of(node),
    )


def privacy_of(node) -> Privacy | None:
    """Return the `Privacy` that a node configuration sets by `epsilon`, `size-cap`, `memoised` and `reports`, or None
    without an epsilon: the node then gives no reports."""
    if "epsilon" not in node:
        return None
    names = ("size-cap", "memoised", "reports")
    settings = {name.replace("-", "_"): node[name] for name in names if name in node}
    return Privacy(node["epsilon"], **settings)


app = client_app(load)
