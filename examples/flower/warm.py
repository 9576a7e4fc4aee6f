"""A SuperExec that forks its clients: `python warm.py PORT`, for a SuperNode with `--isolation process`.

Flower starts a new Python for each message, which imports PyTorch and scikit-learn anew (seconds of CPU,
five times a round on one machine). This one imports them once. A copy of it that runs nothing else does
the forking: what is forked beside running threads may inherit a lock that nobody will open. It reaches into
Flower 1.41 (the one function `SubprocessExecutor.launch`): use it for tests and demonstrations, not in
production.
"""

import json
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


def fork_clients(orders: int) -> None:
    """Fork a client for each line of this pipe, until nobody can write into it any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    for line in os.fdopen(orders):
        if not os.fork():
            run(**json.loads(line))


def run(address: str, token: str, insecure: bool) -> None:
    """Run one client and end its process."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        run_clientapp(address, token, insecure=insecure)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    tasks.load("digits")  # with what scikit-learn imports for it
    orders, order = os.pipe()
    if not os.fork():
        os.close(order)
        fork_clients(orders)
        os._exit(0)
    os.close(orders)

    def launch(self, spec) -> LaunchResult:
        """Order a client instead of starting a process from nothing."""
        arguments = {
            "address": spec.runtime_api_address,
            "token": spec.token,
            "insecure": spec.insecure,
        }
        os.write(order, f"{json.dumps(arguments)}\n".encode())
        return LaunchResult.accepted()

    SubprocessExecutor.launch = launch
    os.environ.setdefault("FLWR_SUPEREXEC_TASK_POLL_INTERVAL", "0.2")
    run_superexec(f"127.0.0.1:{sys.argv[1]}", insecure=True, parent_pid=os.getppid())
