"""A page in headless Chromium, driven over a pipe by the DevTools protocol: no driver, no package, no network."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic", "--remote-debugging-pipe",
)  # fmt: skip
_KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Tab": 9, " ": 32}


class Page:
    """One tab. `events` are what the browser said on its own: requests, exceptions, console messages."""

    def __init__(self, out: int, back: int) -> None:
        self.out, self.back = os.fdopen(out, "wb", buffering=0), os.fdopen(back, "rb")
        self.number, self.session, self.rest = 0, None, b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        message |= {"sessionId": self.session} if self.session else {}
        self.out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method: str) -> None:
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._read())

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            more = self.back.read1(1 << 20)
            assert more, "the browser has gone"
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        named = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": _KEYS[key]}
        more = {"text": " "} if key == " " else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **named, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def screenshot(self, path: Path) -> None:
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))


@contextmanager
def opened(place: Path | str, profile: Path) -> Iterator[Page]:
    """The page of a file or an address, loaded; the browser is gone afterwards."""
    assert PROGRAM is not None
    (to_read, to_write), (from_read, from_write) = os.pipe(), os.pipe()
    # The browser reads from file descriptor 3 and writes to 4.
    command = ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{from_write}', "bash"]
    command += [PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, pass_fds=(to_read, from_write)) as process:
        os.close(to_read)
        os.close(from_write)
        page = Page(to_write, from_read)
        try:
            target = page.call("Target.createTarget", url="about:blank")["targetId"]
            page.session = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                page.call(f"{domain}.enable")
            page.call("Page.navigate", url=place if isinstance(place, str) else place.as_uri())
            page.wait_for("Page.loadEventFired")
            page.call("Page.bringToFront")  # what is behind is not drawn, and waits for that
            page.call("Emulation.setFocusEmulationEnabled", enabled=True)
            yield page
            page.session = None
            page.call("Browser.close")
        finally:
            page.out.close()
            page.back.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
