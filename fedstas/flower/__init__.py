"""The designs in a real federation: a Flower strategy and client (extra `flower`).

`strategy` (a round of any method, over messages), `client` (training and answers), `nodes` (the server's view of real
nodes), `messages` (what is sent, and how replies are judged), `roster` (which nodes are there), `nonresponse` (weights
when some do not answer), `state_file` (the server on disk after each round).

May import `fedstas` and `fedstas.sim`. No algorithm is here: designs draw the cohorts, the engine trains. Start from
`Designs` (the strategy) and `client_app`; `examples/flower` uses both.

To let a design ask for something new, add the question to `nodes` and its answer to `client`.
"""

import importlib

_HOMES = {
    "Designs": "strategy",
    "Local": "client",
    "Privacy": "client",
    "TooFew": "roster",
    "client_app": "client",
    "is_private": "client",
    "reweight": "nonresponse",
}
__all__ = list(_HOMES)


def __getattr__(name: str):  # lazily, so that `nonresponse` can be had without Flower
    if name not in _HOMES:
        raise AttributeError(f"module 'fedstas.flower' has no attribute {name!r}")
    return getattr(importlib.import_module(f"fedstas.flower.{_HOMES[name]}"), name)
