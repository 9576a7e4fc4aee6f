"""The designs in a real federation: a Flower strategy and client (extra `flower`).

`strategy` (one round of any method, by messages), `client` (answers questions, trains), `nodes` (the view that asks
real nodes), `messages` (the format of messages, and the checks of replies), `roster` (which nodes take part),
`state_file` (the server on disk after each round); `fedavg` (a strategy for clients that know nothing of this package). If participants do not answer, `fedstas.nonresponse` has the weights.

May import `fedstas` and `fedstas.sim`, and has no algorithm of its own: designs draw the cohorts, the engine trains.
Start from `Designs` (the strategy) and `client_app`, which `examples/flower` uses; or, to change nothing on clients that you
have, from `FedAvgWithDesign`, as `examples/flower/plain_clients.py` does.

To let a design ask for something new, add the question to `nodes`, its answer to `client` and its check to `messages`.
"""

import importlib

_HOMES = {
    "Designs": "flower.strategy",
    "FedAvgWithDesign": "flower.fedavg",
    "Local": "flower.client",
    "Privacy": "flower.client",
    "TooFew": "flower.roster",
    "client_app": "flower.client",
    "is_private": "flower.client",
    "plain_methods": "flower.fedavg",
    "reweight": "nonresponse",
}
__all__ = list(_HOMES)


def __getattr__(name: str):  # lazily, so that `reweight` can be imported without Flower
    """Import a public name from its module when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fedstas.flower' has no attribute {name!r}")
    return getattr(importlib.import_module(f"fedstas.{_HOMES[name]}"), name)
