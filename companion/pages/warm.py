"""Run our commands and their Jupyter kernels as forks of one process that has imported torch and the rest.

A new interpreter takes seconds to import them, and a chapter needs two: the command and the kernel. A fork has memory,
folder, environment, arguments and exit code of its own, as if the command had been typed. `make book` runs its
modules so: `python -m companion.pages.warm MODULE ...` is `python -m MODULE ...`, as a fork if the environment
variable `ADDRESS` names a server (only on Linux: elsewhere a process with torch should not fork), else as a new
interpreter. Without it the build takes 1.6 times the processor seconds.
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

ADDRESS = "FEDSTAS_WARM"  # environment variable: the path of the server's socket
# Environment variables that libraries read when they are imported.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PRELOADED = (
    "torch",
    "pandas",
    "scipy.stats",
    "sklearn.cluster",
    "seaborn",
    "matplotlib.pyplot",
    "myst_nb",
    "tabulate",
    "nbformat",
    "jupytext",
    "papermill",
    "jupyter_client",
    "ipykernel.kernelapp",
    "fedstas.cli",
    "fedstas.sim.simulation",
    "companion.pages.chapters",
    "companion.pages.plots",
    "companion.claims.ledger",
)
TIMEOUT = 600  # seconds for a command: the machine may be busy
kernel_seconds = 0.0  # CPU seconds of the kernels of this process that have ended


class Child:
    """A fork of the server, with the interface of `subprocess.Popen`."""

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
        """Wait for the end and return the exit code; `subprocess.TimeoutExpired` after `timeout` seconds."""
        if self.returncode is None:
            if not select.select([self.connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            code, _, seconds = self.answers.readline().partition(" ")
            self.returncode = int(code or -signal.SIGKILL)
            global kernel_seconds
            kernel_seconds += float(seconds or 0)
            self.answers.close()
            self.connection.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit code, or None while the fork is running."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to the fork, if it is running."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)


class Warm:
    """The server process for the clone in `folder`; `run` runs a command in it as `subprocess.run` would."""

    def __init__(self, folder: Path):
        self.folder, self.socket_folder = folder, tempfile.TemporaryDirectory()
        self.address = str(Path(self.socket_folder.name) / "socket")
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(folder),
            "TQDM_DISABLE": "1",
            **dict.fromkeys(THREADS, "1"),
            ADDRESS: self.address,
        }
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", self.address],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout.readline() == b"ready\n"

    def run(self, words: list[str]) -> subprocess.CompletedProcess:
        """Run a command line that begins with `fedstas` or `papermill`."""
        with tempfile.TemporaryDirectory() as folder:
            outputs = [Path(folder, name) for name in ("stdout", "stderr")]
            job = {"words": words, "folder": str(self.folder), "environment": self.environment}
            child = Child(self.address, job | {"outputs": [str(path) for path in outputs]})
            code = child.wait(TIMEOUT)
            out, err = (path.read_text(encoding="utf-8") for path in outputs)
        return subprocess.CompletedProcess(words, code, out, err)

    def close(self) -> None:
        """End the server and remove its socket."""
        self.process.kill()
        self.process.communicate()
        self.socket_folder.cleanup()


def launch(cmd, env=None, cwd=None, **_) -> Child:
    """Start a kernel as a fork, in place of `jupyter_client.launcher.launch_kernel`."""
    env = dict(os.environ if env is None else env)
    job = {"kernel": [str(word) for word in cmd[3:]], "folder": str(cwd or Path.cwd())}
    job["outputs"] = [os.devnull]  # ipykernel prints a hint for terminals
    assert cmd[1:3] == ["-m", "ipykernel_launcher"], cmd
    return Child(os.environ[ADDRESS], job | {"environment": env})


def run_kernel(arguments: list[str]) -> None:
    """Do what `python -m ipykernel_launcher` does, and set the backend of pyplot, which was imported before."""
    import matplotlib
    from ipykernel.kernelapp import IPKernelApp
    from matplotlib_inline.backend_inline import configure_inline_support

    app = IPKernelApp.instance()
    app.initialize(arguments)
    matplotlib.use(os.environ["MPLBACKEND"])
    configure_inline_support(app.shell, os.environ["MPLBACKEND"])
    app.start()


def run_command(words: list[str]) -> None:
    """Run the script or module `words[0]` with the arguments that follow, its Jupyter kernels as forks.

    In this process `launch` replaces jupyter_client's function that starts a kernel in a new interpreter, since the
    library has no setting for it.
    """
    from jupyter_client.provisioning import local_provisioner

    from companion.pages import warm  # imported again by its name: here this module is `__main__`

    local_provisioner.launch_kernel = warm.launch
    sys.argv = words
    scripts = entry_points(group="console_scripts", name=words[0])
    if scripts:
        next(iter(scripts)).load()()
    else:
        sys.modules.pop(words[0], None)
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def run_job(job: dict) -> int:
    """Run a job in this process and return its exit code.

    Args:
        job: `words` of a command or arguments of a `kernel`; `folder`; `environment`; `outputs`, paths for stdout and
            stderr.
    """
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    for number, path in enumerate(job.get("outputs", ()), 1):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    try:
        run_command(job["words"]) if "words" in job else run_kernel(job["kernel"])
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def exit_fork(code: int) -> None:
    """End a fork: flush its output, and run none of the exit handlers of its parent."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def handle(connection: socket.socket) -> None:
    """Run the job that a client sends over the connection, in a child of this process, which is itself a fork.

    Two lines are answered: the child's process id at once, and at its end the exit code and the CPU seconds.
    """
    os.setsid()  # a process group of its own: jupyter signals the whole group of a kernel
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = connection.makefile("rw")
    job = json.loads(answers.readline())
    child = os.fork()
    if not child:
        connection.detach()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        exit_fork(run_job(job))
    with contextlib.suppress(BrokenPipeError):
        answers.write(f"{child}\n")
        answers.flush()
        ended = status = 0
        while not ended:
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended and select.select([connection], [], [], 0.05)[0]:
                # The client has closed the connection, so it has ended.
                os.kill(child, signal.SIGKILL)
                ended, status = os.waitpid(child, 0)
        times = os.times()
        answers.write(
            f"{os.waitstatus_to_exitcode(status)} {times.children_user + times.children_system}\n"
        )
        answers.flush()
    exit_fork(0)


def serve(address: str) -> None:
    """Import everything, then fork for each connection, until stdin ends."""
    sys.path[0] = str(Path.cwd())
    for name in PRELOADED:
        __import__(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends this process
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


def run_remotely(words: list[str]) -> int:
    """Run a module as a fork of the server that `ADDRESS` names; return its exit code."""
    outputs = [f"/proc/{os.getpid()}/fd/{number}" for number in (1, 2)]
    job = {"words": words, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    return Child(os.environ[ADDRESS], job | {"outputs": outputs}).wait()


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    if ADDRESS in os.environ:
        sys.exit(run_remotely(sys.argv[1:]))
    os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:]])
