"""A stand-in for a GPU: tensors that report the device `meta` and hold their numbers on the CPU.

Like a GPU it refuses operations that mix its tensors with the host's, and numpy refuses its tensors. It does not show
a GPU's rounding or speed.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

DEVICE = torch.device("meta")
MIXED_OPERATIONS = {  # those for which a GPU accepts host tensors: index arrays, copies
    torch.ops.aten.index.Tensor,
    torch.ops.aten.copy_.default,
    torch.ops.aten._to_copy.default,
    torch.ops.aten.index_put_.default,
}


class DeviceTensor(torch.Tensor):
    """A tensor of the device, wrapped around the CPU tensor `inner`."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor):
        options = {"dtype": inner.dtype, "device": DEVICE, "requires_grad": inner.requires_grad}
        wrapper = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, inner.stride(), inner.storage_offset(), **options
        )
        wrapper.inner = inner
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run_operation(func, args, kwargs or {})


def run_operation(func, args, kwargs: dict):
    """Run an operation on the CPU tensors and wrap its results where a GPU would have them on the device."""
    wrappers, host = {}, []

    def unwrap(value):
        """Return the CPU tensor inside a device tensor; note which tensors are the host's."""
        if isinstance(value, DeviceTensor):
            wrappers[id(value.inner)] = value
            return value.inner
        if isinstance(value, torch.Tensor) and value.ndim:
            host.append(value)
        return value

    host_args, host_kwargs = tree_map(unwrap, (args, kwargs))
    if wrappers and host and func not in MIXED_OPERATIONS:
        raise RuntimeError(f"{func} takes tensors of two devices: {DEVICE} and cpu")
    device = host_kwargs.get("device")
    on_device = bool(wrappers) if device is None else torch.device(device) == DEVICE
    if func is torch.ops.aten.copy_.default:
        on_device = isinstance(args[0], DeviceTensor)
    if on_device and device is not None:
        host_kwargs["device"] = torch.device("cpu")
    result = func(*host_args, **host_kwargs)

    def wrap(value):
        """Wrap a result if it is on the device."""
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in wrappers:  # written in place
            return wrappers[id(value)]
        return (
            DeviceTensor(value.clone() if on_device and id(value) in map(id, host) else value)
            if on_device
            else value
        )

    return tree_map(wrap, result)


class Standin(TorchDispatchMode):
    """Context in which tensors that are created on `meta`, or sent there, hold numbers."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return run_operation(func, args, kwargs or {})
