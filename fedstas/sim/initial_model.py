"""The model w_0 from which a run starts, and what a client downloads for it.

It is "seed" (made from the run's seed, which is all that a client downloads), "sent" (made from the seed and downloaded
as a model: the rule of all runs that were recorded before there was a choice), or a file *.npy of float32 [P], which is
downloaded.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedstas import user_code
from fedstas.errors import InputError, format_value

if TYPE_CHECKING:
    import torch

SEED, SENT = "seed", "sent"


def _read(spec: str) -> bytes:
    """Read a file of w_0; `InputError` if `spec` is none."""
    if not isinstance(spec, str) or not spec.endswith(".npy"):
        raise InputError(
            f"initial_model is {format_value(spec)}: use seed, sent, or a file FILE.npy of float32 [P]"
        )
    try:
        return Path(spec).read_bytes()
    except OSError as error:
        raise InputError(
            f"initial_model: the file {spec} cannot be read ({error.strerror})"
        ) from None


def identity(spec: str) -> dict:
    """Return what w_0 adds to a run's identity: nothing for "sent"; for a file its name and its SHA-256."""
    if spec in (SEED, SENT):
        return {"initial_model": SEED} if spec == SEED else {}
    sha = hashlib.sha256(_read(spec)).hexdigest()
    return {"initial_model": Path(spec).name, "files": {"initial_model": sha}}


def locate(recorded: dict) -> str:
    """Return the `spec` of a recorded identity: a file is looked for in the current folder and in `sys.path`."""
    spec, files = recorded.get("initial_model", SENT), recorded.get("files", {})
    if "initial_model" not in files:
        return spec
    return user_code.locate(spec, files["initial_model"], "the initial model in")


def load(spec: str, module) -> torch.Tensor:
    """Return w_0 [P] for a network: its own parameters, or those in the file; `InputError` if they do not fit."""
    import io

    import torch

    from fedstas.sim import models

    params = models.flatten(module)
    if spec in (SEED, SENT):
        return params
    content = io.BytesIO(_read(spec))
    try:
        values = np.load(content, allow_pickle=False)
    except (ValueError, EOFError):
        raise InputError(f"initial_model: {spec} holds no array: write it by numpy.save") from None
    if values.dtype != np.float32 or values.shape != tuple(params.shape):
        raise InputError(
            f"initial_model: {spec} holds {values.dtype} {list(values.shape)}: it must be float32 [{len(params)}], "
            "the parameters of the network"
        )
    if not np.isfinite(values).all():
        raise InputError(
            f"initial_model: {spec} holds a number that is not finite: all parameters must be"
        )
    return torch.from_numpy(values).to(params)
