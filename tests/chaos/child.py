"""Work in a child process, which may be killed, or may crash, at any moment.

Forked from a process that has imported everything and computed nothing: a start costs nothing, and no
thread is lost on the way.
"""

import os
import pickle
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path


def start(work: Callable, *arguments, output: Path | None = None) -> int:
    """Start `work(*arguments)` in a child that writes what it prints to a file; return its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = os.EX_SOFTWARE  # unless the work ends without an error
    try:
        if output is not None:
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(file, 1)
            os.dup2(file, 2)
        work(*arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(child: int) -> int:
    """Return the exit code of a child, once it ends; negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def call(work: Callable, *arguments, seconds: int = 300):
    """Return what `work(*arguments)` returns in a child; `ChildProcessError` if that ends otherwise."""
    reading, writing = os.pipe()

    def send_result():
        """Compute in the child, within the time limit, and send the pickled result through the pipe."""
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(seconds)
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(work(*arguments), pipe)

    child = start(send_result)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    code = wait(child)
    if code:
        raise ChildProcessError(f"{work.__name__}{arguments} ended with {code}")
    return pickle.loads(content)


def session_processes(session: int) -> list[tuple[int, str]]:
    """Return the running processes of a session (Linux): id and command line."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session_of_process = (
                (folder / "stat").read_text(encoding="utf-8").rpartition(") ")[2].split()[:4]
            )
            if int(session_of_process) == session and state != "Z":
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                processes.append((int(folder.name), command))
        except (OSError, ValueError):  # it ended just now
            continue
    return processes
