"""A process that has imported what our commands import, and whose children are our commands and their kernels.

A new interpreter takes seconds to import torch and the rest, and a chapter needs two: the command and the
kernel. Here each is a fork of one process that has imported them and done nothing else: its own memory, its
own folder, environment, arguments and exit code, as if it had been typed. `make book` runs its chapters so:
`python -m companion.pages.warm MODULE ...` is `python -m MODULE ...` as such a fork where the process is
there (Linux alone: elsewhere a process with torch in it had better not fork), else as it stands.
"""

import contextlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from importlib.metadata import entry_points
from pathlib import Path

ADDRESS = "FEDSTAS_WARM"  # where a command finds the process
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)  # read when a library is imported
PRELOADED = (
    "torch", "pandas", "scipy.stats", "sklearn.cluster", "seaborn", "matplotlib.pyplot", "myst_nb",
    "tabulate", "nbformat", "jupytext", "papermill", "jupyter_client", "ipykernel.kernelapp",
    "fedstas.cli", "fedstas.sim.simulation", "companion.pages.chapters", "companion.pages.plots",
    "companion.claims.ledger",
)  # fmt: skip
WAIT = 600  # seconds, for any one command: the machine may be busy
used = 0.0  # seconds of processors that the kernels of this process took until they ended


class Child:
    """A process that was made there, as `subprocess.Popen` would show it."""

    stdin = stdout = stderr = None

    def __init__(self, address: str, job: dict):
        self.returncode = None
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(address)
        self.answers = self.connection.makefile("rw")
        self.answers.write(json.dumps(job) + "\n")
        self.answers.flush()
        self.pid = int(self.answers.readline())

    def wait(self, timeout=None) -> int | None:
        if self.returncode is None:
            if not select.select([self.connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            code, _, seconds = self.answers.readline().partition(" ")
            self.returncode = int(code or -signal.SIGKILL)
            global used
            used += float(seconds or 0)
            self.answers.close()
            self.connection.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class Warm:
    """The process, of the package in `folder`; `run` runs a command there as `subprocess.run` would."""

    def __init__(self, folder: Path):
        self.folder, self.own = folder, tempfile.TemporaryDirectory()
        self.address = str(Path(self.own.name) / "socket")
        self.environment = {
            **os.environ, "PYTHONPATH": str(folder), "TQDM_DISABLE": "1", **dict.fromkeys(THREADS, "1"),
            ADDRESS: self.address,
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", self.address],
            cwd=folder, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdout.readline() == b"ready\n"

    def run(self, words: list[str]) -> subprocess.CompletedProcess:
        """`words` is a command line that begins with `fedstas` or `papermill`."""
        with tempfile.TemporaryDirectory() as there:
            said = [Path(there, name) for name in ("stdout", "stderr")]
            job = {"words": words, "folder": str(self.folder), "environment": self.environment}
            child = Child(self.address, job | {"said": [str(path) for path in said]})
            code = child.wait(WAIT)
            out, err = (path.read_text(encoding="utf-8") for path in said)
        return subprocess.CompletedProcess(words, code, out, err)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.own.cleanup()


def launch(cmd, env=None, cwd=None, **_) -> Child:
    """In the place of `jupyter_client.launcher.launch_kernel`."""
    env = dict(os.environ if env is None else env)
    job = {"kernel": [str(word) for word in cmd[3:]], "folder": str(cwd or Path.cwd())}
    job["said"] = [os.devnull]  # a word to whom started it at a terminal
    assert cmd[1:3] == ["-m", "ipykernel_launcher"], cmd
    return Child(os.environ[ADDRESS], job | {"environment": env})


def kernel(arguments: list[str]) -> None:
    """What `python -m ipykernel_launcher` does; pyplot, which was imported before, learns here where it draws,
    and the shell how it shows a figure."""
    import matplotlib
    from ipykernel.kernelapp import IPKernelApp
    from matplotlib_inline.backend_inline import configure_inline_support

    app = IPKernelApp.instance()
    app.initialize(arguments)
    matplotlib.use(os.environ["MPLBACKEND"])
    configure_inline_support(app.shell, os.environ["MPLBACKEND"])
    app.start()


def command(words: list[str]) -> None:
    """What the script of that name does, or the module."""
    from jupyter_client.provisioning import local_provisioner

    from companion.pages import warm  # not this module, which is `__main__`

    local_provisioner.launch_kernel = warm.launch
    sys.argv = words
    scripts = entry_points(group="console_scripts", name=words[0])
    if scripts:
        next(iter(scripts)).load()()
    else:
        sys.modules.pop(words[0], None)
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def become(job: dict) -> int:
    """Does the job in this process; its exit code."""
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    for number, path in enumerate(job.get("said", ()), 1):
        taken = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(taken, number)
        os.close(taken)
    try:
        command(job["words"]) if "words" in job else kernel(job["kernel"])
    except SystemExit as left:
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def leave(code: int) -> None:
    """Ends a fork: what was said is written, nothing of its parent is undone."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def handle(connection: socket.socket) -> None:
    """One job, in a child of this fork of the process: tells its number, then its exit code."""
    os.setsid()  # a signal to the group of a kernel, which jupyter sends, reaches these two alone
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = connection.makefile("rw")
    job = json.loads(answers.readline())
    done = os.fork()
    if not done:
        connection.detach()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        leave(become(job))
    with contextlib.suppress(BrokenPipeError):
        answers.write(f"{done}\n")
        answers.flush()
        ended = status = 0
        while not ended:
            ended, status = os.waitpid(done, os.WNOHANG)
            if not ended and select.select([connection], [], [], 0.05)[0]:
                os.kill(
                    done, signal.SIGKILL
                )  # whoever asked for it is gone: a kernel of a dead command
                ended, status = os.waitpid(done, 0)
        times = os.times()
        answers.write(
            f"{os.waitstatus_to_exitcode(status)} {times.children_user + times.children_system}\n"
        )
        answers.flush()
    leave(0)


def serve(address: str) -> None:
    """Imports everything, then makes a child for each that asks, until its input ends."""
    sys.path[0] = str(Path.cwd())
    for name in PRELOADED:
        __import__(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever has begun it is told, and ends it
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("ready", flush=True)
        os.dup2(2, 1)
        while sys.stdin.fileno() not in select.select([sys.stdin, listening], [], [])[0]:
            connection, _ = listening.accept()
            if not os.fork():
                listening.close()
                handle(connection)
            connection.close()
    os._exit(0)


def ask(words: list[str]) -> int:
    """Runs a module as a fork of the process that `ADDRESS` names; its exit code."""
    said = [f"/proc/{os.getpid()}/fd/{number}" for number in (1, 2)]
    job = {"words": words, "folder": str(Path.cwd()), "environment": dict(os.environ), "said": said}
    return Child(os.environ[ADDRESS], job).wait()


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    if ADDRESS in os.environ:
        sys.exit(ask(sys.argv[1:]))
    os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:]])
