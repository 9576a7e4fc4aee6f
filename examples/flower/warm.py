"""A SuperExec that forks its clients: `python warm.py PORT`, for a SuperNode with `--isolation process`.

Flower starts a new Python for each message, which imports PyTorch and scikit-learn anew (seconds of CPU,
five times a round on one machine). This one imports them once. It reaches into Flower 1.41 (the one
function `SubprocessExecutor.launch`): use it for tests and demonstrations, not in production.
"""

import os
import signal
import sys

from flwr.supercore.superexec.executor.subprocess_executor import SubprocessExecutor
from flwr.supercore.superexec.executor.types import LaunchResult
from flwr.supercore.superexec.run_superexec import run_superexec
from flwr.supernode.runtime.run_clientapp import run_clientapp

# Imported once, here.
from fedstas import partition, tasks  # noqa: F401
from fedstas.flower import client  # noqa: F401


def launch(self, spec) -> LaunchResult:
    """Fork instead of starting a process from nothing."""
    if os.fork():
        return LaunchResult.accepted()
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        run_clientapp(spec.runtime_api_address, spec.token, insecure=spec.insecure)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    tasks.load("digits")  # with what scikit-learn imports for it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    SubprocessExecutor.launch = launch
    os.environ.setdefault("FLWR_SUPEREXEC_TASK_POLL_INTERVAL", "0.2")
    run_superexec(f"127.0.0.1:{sys.argv[1]}", insecure=True, parent_pid=os.getppid())
