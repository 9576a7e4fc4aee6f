"""A device that is not the host's, without one: its tensors lie on the CPU, but say that they are on `meta`.

A GPU refuses what mixes its tensors with the host's, and numpy what lies on it; so does this, while it
computes the numbers. What it cannot show are other roundings, and speed.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

AWAY = torch.device("meta")
MIXING = {  # what a GPU takes from the host: index arrays, and what is copied
    torch.ops.aten.index.Tensor, torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default,
    torch.ops.aten.index_put_.default,
}  # fmt: skip


class Away(torch.Tensor):
    """A tensor of that device, around the one that holds its numbers."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor):
        how = {"dtype": inner.dtype, "device": AWAY, "requires_grad": inner.requires_grad}
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, inner.stride(), inner.storage_offset(), **how
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return computed(func, args, kwargs or {})


def computed(func, args, kwargs: dict):
    """The operation on the numbers; its results are where a GPU would leave them."""
    found, host = {}, []

    def inner(value):
        if isinstance(value, Away):
            found[id(value.inner)] = value
            return value.inner
        if isinstance(value, torch.Tensor) and value.ndim:
            host.append(value)
        return value

    plain, named = tree_map(inner, (args, kwargs))
    if found and host and func not in MIXING:
        raise RuntimeError(f"{func} takes tensors of two devices: {AWAY} and cpu")
    asked = named.get("device")
    away = bool(found) if asked is None else torch.device(asked) == AWAY
    if func is torch.ops.aten.copy_.default:
        away = isinstance(args[0], Away)
    if away and asked is not None:
        named["device"] = torch.device("cpu")
    result = func(*plain, **named)

    def outer(value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in found:  # written in place
            return found[id(value)]
        return (
            Away(value.clone() if away and id(value) in map(id, host) else value) if away else value
        )

    return tree_map(outer, result)


class Standin(TorchDispatchMode):
    """In this context tensors that are made on `meta`, or sent there, hold numbers."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return computed(func, args, kwargs or {})
