"""A federation on this machine: one SuperLink, one SuperNode for each shard, on the loopback interface.

    python examples/flower/deploy.py                                   # five nodes, ten rounds
    python examples/flower/deploy.py --nodes 8 method="'fedavg'" rounds=20

What follows the options goes to the app as its run configuration (`pyproject.toml` here has the defaults).
Everything that was started is stopped at the end, and on Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens at."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Federation:
    """`with Federation(5) as f: f.run(rounds=10)`.

    `warm`: clients are forked from a process that has everything imported, instead of started from
    nothing for each message as Flower does; see `warm.py`. `gate`: a function from a port to the
    port that nodes are told, for tests that stand in the way. `simulation`: no SuperNodes; Flower
    simulates them in the SuperLink. `node_config`: of every node, beside its `partition-id`.
    """

    def __init__(
        self,
        nodes: int,
        warm: bool = True,
        folder=None,
        gate=lambda port: port,
        simulation=False,
        node_config: str = "",
    ):
        self.nodes, self.warm, self.gate, self.simulation = nodes, warm, gate, simulation
        self.node_config = node_config
        self.processes: dict[str, subprocess.Popen] = {}
        self._temporary_folder = (
            None if folder else tempfile.TemporaryDirectory(prefix="fedstas-flower-")
        )
        self.folder = Path(folder or self._temporary_folder.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.environment = os.environ | {
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(self.folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1",
        }

    def __enter__(self):
        try:
            self._start_link()
            if self.simulation:
                return self
            for k in range(self.nodes):
                self.start_node(k)
            for k in range(self.nodes):
                self._wait(f"node-{k}", "SuperNode ID")
            print(f"{self.nodes} SuperNodes are connected", flush=True)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error):
        self.stop()

    def _start(self, name: str, *command: str) -> None:
        log = (self.folder / f"{name}.log").open("w", encoding="utf-8")
        self.processes[name] = subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self.environment,
            start_new_session=True,
        )
        log.close()

    def _start_link(self) -> None:
        home = Path(self.environment["FLWR_HOME"])
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "loopback"\n\n[superlink.loopback]\n'
            f'address = "127.0.0.1:{self.port}"\ninsecure = true\n',
            encoding="utf-8",
        )
        self._start(
            "superlink",
            "flower-superlink",
            "--insecure",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--disable-runtime-dependency-installation",
            *(["--simulation"] if self.simulation else []),
        )
        end = time.monotonic() + 120
        while time.monotonic() < end:
            self._alive("superlink")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1).close()
                print(f"SuperLink is ready on 127.0.0.1:{self.port}", flush=True)
                return
            except (OSError, urllib.error.URLError):
                time.sleep(0.3)
        raise RuntimeError(f"the SuperLink did not start: see {self.folder / 'superlink.log'}")

    def start_node(self, k: int, name: str | None = None) -> None:
        """Start the node of shard k."""
        name, port = name or f"node-{k}", free_port()
        self._start(
            name,
            "flower-supernode",
            "--insecure",
            "--superlink",
            f"127.0.0.1:{self.gate(self.port)}",
            "--node-config",
            f"partition-id={k} {self.node_config}".strip(),
            "--port",
            str(port),
            "--isolation",
            "process" if self.warm else "subprocess",
        )
        if self.warm:
            self._start(f"{name}-warm", sys.executable, str(HERE / "warm.py"), str(port))

    def kill_node(self, name: str) -> None:
        """End a node at once, as a power cut would."""
        for each in (name, f"{name}-warm"):
            if each in self.processes:
                os.killpg(self.processes.pop(each).pid, signal.SIGKILL)

    def _alive(self, name: str) -> None:
        if self.processes[name].poll() is not None:
            tail = (self.folder / f"{name}.log").read_text(encoding="utf-8")[-1500:]
            raise RuntimeError(f"{name} ended with code {self.processes[name].returncode}:\n{tail}")

    def _wait(self, name: str, text: str, seconds: float = 180) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._alive(name)
            if text in (self.folder / f"{name}.log").read_text(encoding="utf-8"):
                return
            time.sleep(0.3)
        raise RuntimeError(f"{name} was not ready after {seconds:g} s: see {self.folder}")

    def submit(self, **config) -> subprocess.Popen:
        """Start `flwr run` with this run configuration; the output of the process is the run's log."""
        quoted = " ".join(f"{k.replace('_', '-')}={quote(v)}" for k, v in config.items())
        command = ["flwr", "run", str(HERE), "loopback", "--stream"]
        if self.simulation:
            command += [
                "--federation-config",
                f"num-supernodes={self.nodes} client-resources-num-cpus=1",
            ]
        if quoted:
            command += ["--run-config", quoted]
        return subprocess.Popen(
            command,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, echo: bool = True, **config) -> list[str]:
        """Submit a run, wait for its end, and return all lines of its log.

        With `echo`, the lines that tell its progress, a warning or an error are printed as they come.
        """
        process, lines = self.submit(**config), []
        try:
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if echo and ("fedstas:" in line or "WARNING" in line or "rror" in line):
                    print(lines[-1], flush=True)
        finally:
            end(process)
        return lines

    def stop(self) -> None:
        """Stop all that was started."""
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes.values():
            end(process, 8)
        self.processes = {}
        if self._temporary_folder is not None:
            self._temporary_folder.cleanup()


def end(process: subprocess.Popen, patience: float = 0) -> None:
    """Wait a little, then kill the process and what it started."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def quote(value) -> str:
    """Format a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else f"'{value}'"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5, help="SuperNodes, and shards (5)")
    parser.add_argument("--cold", action="store_true", help="start a process for each message")
    parser.add_argument("--simulation", action="store_true", help="Flower's simulation instead")
    parser.add_argument(
        "--node-config", default="", help="of every node, such as 'epsilon=3.0 reports=10'"
    )
    parser.add_argument("--keep", help="a folder for the logs, which are else deleted")
    parser.add_argument("config", nargs="*", help="key=value of the run configuration, as TOML")
    options = parser.parse_args()
    config = dict(pair.split("=", 1) for pair in options.config)
    config = {k: v.strip("'\"") if v[:1] in "'\"" else _number(v) for k, v in config.items()}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: stop what was started
    try:
        with Federation(
            options.nodes,
            not options.cold,
            options.keep,
            simulation=options.simulation,
            node_config=options.node_config,
        ) as federation:
            lines = federation.run(nodes=options.nodes, **config)
    except KeyboardInterrupt:
        print("stopped", flush=True)
        return 130
    if any("fedstas: finished" in line for line in lines):
        return 0
    print("\n".join(lines[-25:]), file=sys.stderr)
    return 1


def _number(text: str):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text, text)


if __name__ == "__main__":
    sys.exit(main())
