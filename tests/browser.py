"""Chromium without a network, driven by its DevTools protocol over a pipe: no driver, no library.

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
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here: `apt-get install chromium` makes this run"
)
FLAGS = (
    "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--mute-audio",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
# Puts the two descriptors where the browser looks for them, then becomes the browser.
LAUNCH = "import os, sys; a = sys.argv; os.dup2(int(a[1]), 3); os.dup2(int(a[2]), 4); os.execv(a[3], a[3:])"
WAIT = 900  # seconds, for any one answer: against a hang alone
LEFT = (  # what the browser answers while a tab goes to another page
    "Inspected target navigated or closed",
    "Cannot find context with specified id",
    "Execution context was destroyed.",
)


class Left(AssertionError):
    """The page that was asked is no longer there."""


def build() -> Path:
    """Builds the site as `make book` does (only what changed), one process at a time."""
    lock = ROOT / ".cache" / "site.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two test files, in two workers, need the site
        doit = Path(sys.executable).with_name("doit")
        done = subprocess.run([doit], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return SITE


class Browser:
    """One browser process; `page()` gives a fresh tab."""

    def __init__(self, to_browser: int, from_browser: int):
        self.write, self.read = to_browser, from_browser
        self.count, self.rest, self.events = 0, b"", []

    def receive(self, until: float) -> dict:
        """The next message."""
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.read], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser said nothing for {WAIT} seconds")
            part = os.read(self.read, 1 << 20)
            if not part:
                raise EOFError("the browser ended")
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def call(self, method: str, session: str | None = None, **params) -> dict:
        """Sends a command and waits for its answer; events that come before are kept."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        left = json.dumps(message).encode() + b"\0"
        while left:
            left = left[os.write(self.write, left) :]
        until = time.monotonic() + WAIT
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.count:
                told = answer.get("error", {}).get("message")
                if told in LEFT:
                    raise Left(f"{method}: {told}")
                assert not told, f"{method}: {told}"
                return answer["result"]
            self.events.append(answer)

    @contextlib.contextmanager
    def page(self, width: int = 1280, height: int = 900):
        """A tab that records its requests and its errors, closed at the end."""
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
    """One tab."""

    def __init__(self, browser: Browser, session: str):
        self.browser, self.session = browser, session

    def call(self, method: str, **params) -> dict:
        return self.browser.call(method, self.session, **params)

    def resize(self, width: int, height: int = 900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip

    def emulate(self, media: str = "", theme: str = "light"):
        """The medium (screen or print) and the colour scheme that the reader prefers."""
        features = [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def open(self, url: str):
        """Goes to a page and waits until it is loaded and its formulas are set."""
        self.browser.events = [
            e for e in self.browser.events if e["method"] != "Page.loadEventFired"
        ]
        answer = self.call("Page.navigate", url=url)
        assert not answer.get("errorText"), f"{url}: {answer['errorText']}"
        self.wait_for("Page.loadEventFired")

    def wait_for(self, event: str):
        """Waits until such an event has come in this tab."""
        until = time.monotonic() + WAIT
        while not self.events(event):
            self.browser.events.append(self.browser.receive(until))

    def evaluate(self, script: str):
        """The value of an expression; a promise is awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            told = answer["exceptionDetails"]
            raise AssertionError(told.get("exception", {}).get("description", told["text"]))
        return answer["result"].get("value")

    def until(self, script: str):
        """Waits until an expression is true, on the page that the tab is going to if it is going."""
        end = time.monotonic() + WAIT
        while True:
            with contextlib.suppress(Left):
                if self.evaluate(script):
                    return
            assert time.monotonic() < end, f"never true in {WAIT} seconds: {script}"
            time.sleep(0.05)

    def events(self, name: str) -> list[dict]:
        return [
            event["params"]
            for event in self.browser.events
            if event.get("sessionId") == self.session and event["method"] == name
        ]

    def requests(self) -> list[str]:
        """The addresses that this tab asked for."""
        return [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]

    def errors(self) -> list[str]:
        """What went to the console as an error, and what was thrown."""
        said = [
            " ".join(str(a.get("value", a.get("description", ""))) for a in event["args"])
            for event in self.events("Runtime.consoleAPICalled")
            if event["type"] in ("error", "assert")
        ]
        for event in self.events("Runtime.exceptionThrown"):
            told = event["exceptionDetails"]
            said.append(told.get("exception", {}).get("description", told["text"]))
        for event in self.events("Log.entryAdded"):
            if event["entry"]["level"] == "error":
                said.append(event["entry"]["text"])
        return said

    def pdf(self) -> bytes:
        """The page as it is printed, on A4 with margins of a centimetre."""
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        return base64.b64decode(answer["data"])

    def picture(self) -> bytes:
        """What is seen, as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


@contextlib.contextmanager
def start():
    """A browser of its own profile, ended at the end."""
    given, to_browser = os.pipe()
    from_browser, taken = os.pipe()
    # above 4, so that putting one in its place does not overwrite the other
    there = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (given, taken)]
    os.close(given)
    os.close(taken)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *map(str, there), CHROMIUM, *FLAGS,
             f"--user-data-dir={profile}"],
            pass_fds=there, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in there:
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
