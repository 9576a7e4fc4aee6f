"""Drive Chromium without a network by its DevTools protocol over a pipe: no driver, no library.

Messages are JSON, ended by a NUL: the browser reads them from its descriptor 3 and writes to 4.
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SITE = ROOT / "_build" / "html"
COMMANDS = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, COMMANDS)), None)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here: `apt-get install chromium` makes this run"
)
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--mute-audio",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
# Moves the two descriptors to where the browser expects them, then becomes the browser.
LAUNCH = "import os, sys; a = sys.argv; os.dup2(int(a[1]), 3); os.dup2(int(a[2]), 4); os.execv(a[3], a[3:])"
TIMEOUT = 900  # seconds for an answer
NAVIGATION_ERRORS = (  # the browser's answers while a tab goes to another page
    "Inspected target navigated or closed",
    "Cannot find context with specified id",
    "Execution context was destroyed.",
)


class Navigated(AssertionError):
    """The tab went to another page before it answered."""


def build() -> Path:
    """Build the site as `make book` does (only what changed), one process at a time."""
    lock = ROOT / ".cache" / "site.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two test files, in two workers, need the site
        doit = Path(sys.executable).with_name("doit")
        result = subprocess.run([doit], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return SITE


class Browser:
    """A browser process, by its pipe; `unparsed` are bytes of a message that is not complete yet. `page()` opens a tab."""

    def __init__(self, to_browser: int, from_browser: int):
        self.write, self.read = to_browser, from_browser
        self.count, self.unparsed, self.events = 0, b"", []

    def receive(self, until: float) -> dict:
        """Return the next message."""
        while b"\0" not in self.unparsed:
            ready, _, _ = select.select([self.read], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser said nothing for {TIMEOUT} seconds")
            part = os.read(self.read, 1 << 20)
            if not part:
                raise EOFError("the browser ended")
            self.unparsed += part
        message, _, self.unparsed = self.unparsed.partition(b"\0")
        return json.loads(message)

    def call(self, method: str, session: str | None = None, **params) -> dict:
        """Send a command and return its answer; events that come before it are stored."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write, data) :]
        until = time.monotonic() + TIMEOUT
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.count:
                error = answer.get("error", {}).get("message")
                if error in NAVIGATION_ERRORS:
                    raise Navigated(f"{method}: {error}")
                assert not error, f"{method}: {error}"
                return answer["result"]
            self.events.append(answer)

    @contextlib.contextmanager
    def page(self, width: int = 1280, height: int = 900):
        """Open a tab that records its requests and errors; close it at the end."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        try:
            yield page
        finally:
            self.call("Target.closeTarget", targetId=target)
            self.events = [e for e in self.events if e.get("sessionId") != session]


class Page:
    """A tab."""

    def __init__(self, browser: Browser, session: str):
        self.browser, self.session = browser, session

    def call(self, method: str, **params) -> dict:
        """Call a method of the DevTools protocol for this tab."""
        return self.browser.call(method, self.session, **params)

    def resize(self, width: int, height: int = 900):
        """Set the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def emulate(self, media: str = "", theme: str = "light"):
        """Set the medium (screen or print) and the preferred colour scheme."""
        features = [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def open(self, url: str):
        """Go to a page and wait until it is loaded."""
        self.browser.events = [
            e for e in self.browser.events if e["method"] != "Page.loadEventFired"
        ]
        answer = self.call("Page.navigate", url=url)
        assert not answer.get("errorText"), f"{url}: {answer['errorText']}"
        self.wait_for("Page.loadEventFired")

    def wait_for(self, event: str):
        """Wait for an event of this tab."""
        until = time.monotonic() + TIMEOUT
        while not self.events(event):
            self.browser.events.append(self.browser.receive(until))

    def evaluate(self, script: str):
        """Return the value of a JavaScript expression; await a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def until(self, script: str):
        """Wait until an expression is true, also while the tab goes to another page."""
        end = time.monotonic() + TIMEOUT
        while True:
            with contextlib.suppress(Navigated):
                if self.evaluate(script):
                    return
            assert time.monotonic() < end, f"never true in {TIMEOUT} seconds: {script}"
            time.sleep(0.05)

    def events(self, name: str) -> list[dict]:
        """Return the parameters of the events of this name that this tab sent."""
        return [
            event["params"]
            for event in self.browser.events
            if event.get("sessionId") == self.session and event["method"] == name
        ]

    def requests(self) -> list[str]:
        """Return the addresses that this tab requested."""
        return [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]

    def errors(self) -> list[str]:
        """Return the errors on the console and the uncaught exceptions."""
        errors = [
            " ".join(str(a.get("value", a.get("description", ""))) for a in event["args"])
            for event in self.events("Runtime.consoleAPICalled")
            if event["type"] in ("error", "assert")
        ]
        for event in self.events("Runtime.exceptionThrown"):
            details = event["exceptionDetails"]
            errors.append(details.get("exception", {}).get("description", details["text"]))
        for event in self.events("Log.entryAdded"):
            if event["entry"]["level"] == "error":
                errors.append(event["entry"]["text"])
        return errors

    def pdf(self) -> bytes:
        """Return the page as it is printed on A4."""
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        return base64.b64decode(answer["data"])

    def picture(self) -> bytes:
        """Return a screenshot as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


@contextlib.contextmanager
def start():
    """Start a browser with a profile of its own; end it at the end."""
    browser_input, to_browser = os.pipe()
    from_browser, browser_output = os.pipe()
    # Above 4, so that moving one to descriptor 3 does not overwrite the other.
    ends = (browser_input, browser_output)
    descriptors = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                LAUNCH,
                *map(str, descriptors),
                CHROMIUM,
                *FLAGS,
                f"--user-data-dir={profile}",
            ],
            pass_fds=descriptors,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in descriptors:
            os.close(end)
        browser = Browser(to_browser, from_browser)
        try:
            yield browser
            browser.call("Browser.close")
        finally:
            os.close(to_browser)
            os.close(from_browser)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
