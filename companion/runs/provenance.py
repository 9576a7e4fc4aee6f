"""Where a result was made: commit, versions, device, processor."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path


def commit() -> str:
    """Return the short hash of the checkout that this package runs from, or `unknown`."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=9"]
    try:
        folder = Path(__file__).parent
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return result.stdout.strip()


def processor() -> str:
    """Return the name of the processor, as the operating system has it, or `unknown`."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor() or "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def environment(device, threads: int, *, with_commit: bool = True) -> dict:
    """Return where a run is made: versions, device, processor, threads, and the commit of the checkout."""
    import torch

    libraries = ("fedstas", "numpy", "scipy", "scikit-learn", "torch", "pandas")
    device = torch.device(device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "versions": {"python": platform.python_version()} | {k: version(k) for k in libraries},
        "device": f"{device.type} ({name})",
        "processor": processor(),
        "threads": threads,
    } | ({"commit": commit()} if with_commit else {})
