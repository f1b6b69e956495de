"""MLflow's own pages on the runs, in a browser: what `mqlearn ui` opens."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import browser
import pytest

from mqlearn.storage import lookup, runs, sql_store, store, tracking

from . import servers
from .test_servers import mqlearn, needs

pytestmark = pytest.mark.integration
TEXT = "document.body.innerText"
CARDS = "[...document.querySelectorAll('[data-testid$=runs-card] h4')].map(title => title.title)"
SECTIONS = r"document.body.innerText.match(/^(curves|last|spread|Model metrics)$/gm) ?? []"
_TITLE = "[...document.querySelectorAll('h4')].find(title => title.title == 'curves/q_error')"
_CARD = f"{_TITLE}.closest('[data-testid$=runs-card]')"
CURVES = f"[...{_CARD}.querySelectorAll('path.js-line')].map(line => line.getAttribute('d'))"
LEGEND = f"[...{_CARD}.querySelectorAll('span')].map(span => span.textContent)"
# The viewer of artifacts fetches the file itself, and shows it twice: once to be enlarged.
PICTURE = "[...document.querySelectorAll('img[src^=\"blob:\"]')].map(image => image.naturalWidth)"


@contextlib.contextmanager
def shown(outputs: Path, *arguments: str) -> Iterator[str]:
    """The address that `mqlearn ui` prints on a terminal; a browser that only writes down what it is to open."""
    visited, (master, terminal) = outputs.parent / "visited", pty.openpty()
    script = outputs.parent / "my_browser"
    script.write_text(f'#!/bin/sh\necho "$1" >> "{visited}"\n')
    script.chmod(0o755)
    command = [sys.executable, "-c", "from mqlearn.cli.main import main; main()", "ui", *arguments]
    environment = os.environ | {"MQLEARN_OUTPUTS": str(outputs), "BROWSER": f"{script} %s"}
    log = (outputs.parent / "ui.log").open("ab")
    server = subprocess.Popen(command, stdout=terminal, stderr=log, env=environment, start_new_session=True)
    os.close(terminal)
    screen = threading.Thread(target=_read_on, args=(master,))
    try:
        line = b""
        while b"\n" not in line:
            line += os.read(master, 4096)
        found = re.search(r"MLflow UI: (\S+) \(store", line.decode())
        assert found, line
        screen.start()
        servers.wait(visited.exists, "the browser", 180, outputs.parent / "ui.log")
        assert visited.read_text().split() == [found[1]]
        yield found[1]
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):  # it waits for what a browser has left open
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(server.pid, number)
                server.wait(10)
        if screen.ident:
            screen.join(10)
        log.close()
        os.close(master)


def _read_on(terminal: int) -> None:
    """Take what a server writes on its terminal, which holds a few kB: a server stands still once that is full."""
    with contextlib.suppress(OSError):  # nobody writes there any more
        while os.read(terminal, 4096):
            pass


def test_an_experiment_opens_as_charts_of_runs_with_names_and_pictures(tmp_path, monkeypatch):
    if browser.PROGRAM is None:
        needs("chromium")
    outputs = tmp_path / "outputs"
    asked = ["algorithm=q_learning,speedy_q,momentum_q", "iterations=500", "n_checkpoints=10", "n_seeds=2"]
    said = mqlearn(outputs, "run", "-m", *asked, "hydra/launcher=basic")
    mqlearn(outputs, "report", "experiment.name=default")
    uri = f"sqlite:///{outputs}/mlflow.db"
    found = lookup.finished(outputs, "default", store=uri).values()
    names = {recorded.name for recorded in store.recorded(uri, "default")}
    assert {name[:9] for name in names} == {"q_learnin", "speedy_q,", "momentum_"}  # charts cut names
    assert all(any(name.endswith(run.digest[:8]) for name in names) for run in found) and len(names) == 3
    (link,) = re.findall(r"then http://127.0.0.1:5000(/\S+compareRunsMode=CHART)", said)
    with shown(outputs, "experiment.name=default", f"port={servers.free_port()}") as address:
        place = address.partition("/#/")[0]
        with browser.opened(place + link.replace("=CHART", "=TABLE"), tmp_path / "list") as page:
            servers.wait(lambda: all(name in page.js(TEXT) for name in names), "the run list", 180)
            assert "report on" not in page.js(TEXT)
        with browser.opened(address, tmp_path / "charts") as page:  # which draws what can be seen alone
            servers.wait(lambda: page.js(CARDS), "the charts", 180)
            assert page.js(CARDS)[0] == "curves/0_log10_q_error"
            assert page.js(SECTIONS) == ["curves", "last", "spread", "Model metrics"]
            assert "Which rule is faster" in page.js(TEXT)
            box = "document.querySelector('input[placeholder=\"Search metric charts\"]')"
            servers.wait(lambda: page.js(f"{box}.focus() ?? true"), "the search for charts", 180)
            page.call("Input.insertText", text="q_error")
            # Each line is there twice, with and without smoothing.
            servers.wait(lambda: len({*page.js(CURVES)}) == 3, "the curves of q_error", 180)
            assert all(line.count("L") >= 5 for line in page.js(CURVES))
            servers.wait(lambda: {f"{name} (curves/q_error)" for name in names} <= {*page.js(LEGEND)}, "names", 60)
        run = f"{address.partition('?')[0]}/{next(iter(found)).summary['mlflow_run_id']}"
        for kind in ("png", "svg"):
            with browser.opened(f"{run}/artifacts/error_curve.{kind}", tmp_path / kind) as page:
                servers.wait(lambda page=page: 720 in page.js(PICTURE), f"the picture as {kind}", 60)
        with browser.opened(run, tmp_path / "run") as page:
            servers.wait(lambda: "def update" in page.js(TEXT) and "frozen_lake_4x4" in page.js(TEXT), "the note", 180)
            assert "mqlearn compare experiment.name=default" in page.js(TEXT)
            page.screenshot(tmp_path / "run.png")
        ids = [recorded.run_id for recorded in store.recorded(uri, "default")]
        monkeypatch.setattr(sql_store, "of", lambda _: None)  # so that MLflow gives one of its longer ids
        ids.append(tracking.log(runs.load(next(iter(found)).folder), uri, "default"))
        assert [len(one) for one in ids] == [10, 10, 10, 32]
        both = urllib.parse.urlencode({"runs": json.dumps(ids), "experiments": '["1"]'})
        with browser.opened(f"{place}/#/compare-runs?{both}", tmp_path / "compared") as page:
            servers.wait(lambda: all(one in page.js(TEXT) for one in ids), "the comparison", 180)
            assert "Comparing 4 Runs from 1 Experiment" in page.js(TEXT) and "last/q_error" in page.js(TEXT)
