"""A password that the address of a store holds is in no file and in no stream, whatever becomes of the store.

And what a command answers whose runs are whole, but not tracked.
"""

import base64
import http.server
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlearn.storage import passwords

SMALL = ("iterations=2", "n_seeds=1", "n_checkpoints=2")
SECRET = "hidD3n"


class Refusing(http.server.BaseHTTPRequestHandler):
    """A server that knows nobody; `seen` has what it was shown."""

    seen: list[str]

    def _refuse(self) -> None:
        self.seen.append(self.headers.get("Authorization", ""))
        self.send_response(401)
        self.end_headers()

    do_GET = do_POST = _refuse

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch) -> Iterator[tuple[str, list[str]]]:
    """Host and port of a server that refuses everybody, and the names and passwords that it was shown."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # seconds each
    seen: list[str] = []
    handler = type("Handler", (Refusing,), {"seen": seen})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{running.server_port}", seen
        running.shutdown()


def holding(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


ADDRESSES = {  # as it is written in an argument, and what the server is shown
    "userinfo": ("tracking.uri=http://me:{secret}@{host}", basic("me", SECRET)),
    "an at sign in it": ("tracking.uri=http://me:a@{secret}@{host}", basic("me", f"a@{SECRET}")),
    "upper case, quotes, quoted letters": ("tracking.uri='HTTP://me:%40{secret}@{host}/'", basic("me", f"@{SECRET}")),
}


def test_a_password_reaches_the_server_and_nothing_else(server, mqlearn, outputs, work):
    host, seen = server
    uri = f"tracking.uri=http://me:a@{SECRET}@{host}"
    said = []
    for words, code in (
        (("run", "-m", *SMALL, "seed=1,2", "hydra/launcher=basic", uri), 3),
        (("run", "-m", *SMALL, "seed=1,2", "algorithm=nix", uri), 2),
    ):
        done = mqlearn(*words)
        assert done.code == code, (words, done)
        said.append(done.out + done.err)
    said.append((done := mqlearn("upload", next(outputs.glob("runs/default/*")), uri)).err)
    assert done.code == 3 and "MLFLOW_TRACKING_USERNAME" in done.err and "MLFLOW_TRACKING_PASSWORD" in done.err
    assert SECRET not in "".join(said) and "Traceback" not in "".join(said)
    assert not holding(outputs) and not holding(work)
    assert {*seen} == {basic("me", f"a@{SECRET}")}


@pytest.mark.integration
@pytest.mark.parametrize("form", ADDRESSES)
def test_no_verb_writes_or_says_a_password(form, server, mqlearn, outputs, work):
    host, seen = server
    written, shown = ADDRESSES[form]
    uri = written.format(secret=SECRET, host=host)
    said = []
    for words, code in (
        (("run", *SMALL, uri), 3),
        (("run", "-m", *SMALL, "seed=1,2", "hydra/launcher=basic", uri), 3),
        (("run", "-m", *SMALL, "seed=1,2", "preview=true", uri), 0),
        (("run", "-m", *SMALL, "seed=1,2", "algorithm=nix", uri), 2),
        (("run", *SMALL, "existing=skip", uri), 3),
        (("status", uri), 0),
        (("compare", "experiment.name=default", uri), 0),
        (("report", "experiment.name=default", uri, "tracking=mlflow"), 3),
        (("export", "experiment.name=default", uri), 0),
        (("rerun", "0" * 32, uri), 1),
        (("upload", *sorted(map(str, outputs.glob("runs/default/*"))), uri), 2),
        (("doctor", "--json", "doctor.json", uri), 2),
        (("ui", uri), 1),
        (("ui", f"{uri}x,"), 2),
        (("nix", uri), 2),
        (("nix", uri), 2),
        (("figure", "nix", uri), 2),
        (("truth", uri, "nix=1"), 2),
    ):
        done = mqlearn(*words)
        assert done.code == code, (words, done)
        said.append(done.out + done.err)
    assert SECRET not in "".join(said) and "Traceback" not in "".join(said)
    assert not holding(outputs) and not holding(work)
    assert {*seen} == {shown}


@pytest.mark.parametrize("launcher", ["basic", "joblib", "submitit_local"])
@pytest.mark.integration
def test_workers_log_in_with_a_password_that_is_written_nowhere(launcher, server, process, outputs, work):
    if launcher == "submitit_local":
        pytest.importorskip("submitit")
    host, seen = server
    for given in ({}, {"MLFLOW_TRACKING_URI": f"http://me:{SECRET}@{host}"}):
        uri = () if given else (f"tracking.uri=http://me:{SECRET}@{host}",)
        before = len(seen)
        command = ("run", "-m", f"hydra/launcher={launcher}", *SMALL, f"seed={len(given)},5", *uri)
        printed = process(*command, env=given).communicate(timeout=300)
        assert SECRET not in "".join(printed) and "2 runs, whole on disk" in printed[0], printed
        assert not holding(outputs) and not holding(work)
        assert len(seen) - before >= 4 and {*seen} == {basic("me", SECRET)}


@pytest.mark.integration
def test_what_a_yaml_of_the_users_says_is_written_nowhere(server, mqlearn, outputs, work):
    host, seen = server
    (work / "conf" / "tracking").mkdir(parents=True)
    text = f"name: mlflow\nuri: http://me:{SECRET}@{host}\nper_seed: false\n"
    (work / "conf" / "tracking" / "ours.yaml").write_text(text)
    done = mqlearn("run", "-m", *SMALL, "seed=1,2", "--config-dir", "conf", "tracking=ours", "hydra/launcher=basic")
    assert done.code == 3 and SECRET not in done.out + done.err
    assert not holding(outputs) and basic("me", SECRET) in seen


def test_names_and_tokens_of_mlflows_variables_are_neither_written_nor_said(server, mqlearn, outputs, monkeypatch):
    host, seen = server
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", SECRET)
    done = mqlearn("run", *SMALL, f"tracking.uri=http://{host}")
    assert done.code == 3 and SECRET not in done.out + done.err
    assert not holding(outputs) and {*seen} == {f"Bearer {SECRET}"}


def test_an_address_as_it_was_shown_needs_its_password_again(server, mqlearn, outputs, monkeypatch):
    host, _ = server
    shown = f"tracking.uri=http://me:***@{host}"
    done = mqlearn("run", *SMALL, shown)
    assert done.code == 2 and "its password is left out" in done.err and not outputs.exists()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:{SECRET}@{host}")
    assert mqlearn("run", *SMALL, shown).code == 3
    assert passwords.Address(f"http://me:***@{host}").whole == f"http://me:{SECRET}@{host}"


@pytest.mark.integration
def test_the_environment_of_the_command_is_not_written_down(server, mqlearn, outputs):
    host, _ = server
    setting = f"+hydra.job.env_set.MLFLOW_TRACKING_URI=http://me:{SECRET}@{host}"
    done = mqlearn("run", "-m", *SMALL, "seed=1,2", "hydra/launcher=basic", setting, f"tracking.uri=http://{host}")
    assert done.code == 3 and SECRET not in done.out + done.err and not holding(outputs)


# --- runs that are whole, but not tracked -------------------------------------------------------------------------


def spoil(way: str, outputs: Path) -> None:
    database = outputs / "mlflow.db"
    if way == "no database":
        database.write_bytes(os.urandom(5000))
    elif way == "malformed":
        content = bytearray(database.read_bytes())
        content[100:4000] = os.urandom(3900)
        database.write_bytes(content)


@pytest.mark.parametrize("way", ["no database", pytest.param("malformed", marks=pytest.mark.integration)])
def test_a_store_that_takes_nothing_has_an_exit_code_of_its_own(way, mqlearn, stored, outputs, work):
    spoil(way, outputs)
    for words in (
        ("run", *SMALL),
        ("run", "-m", *SMALL, "seed=1,2", "hydra/launcher=basic"),
        ("run", "-m", *SMALL, "seed=1,2", "hydra/launcher=basic"),
        ("run", *SMALL, "existing=skip"),
        ("figure", "own", "--config-dir", "conf"),
        ("figure", "own", "--config-dir", "conf"),
        ("report", "experiment.name=own", "tracking=mlflow"),
        ("upload", next((outputs / "runs" / "default").glob("*"), "")),
    ):
        if words[0] == "figure":
            (work / "conf" / "experiment").mkdir(parents=True, exist_ok=True)
            (work / "conf" / "experiment" / "own.yaml").write_text(FIGURE)
        done = mqlearn(*map(str, words)) if words[-1] else mqlearn("upload", *outputs.glob("runs/default/*"))
        assert done.code == 3, (words, done)
        assert "Traceback" not in done.err
    assert len([*outputs.glob("runs/*/*/curves.npz")]) == 5


FIGURE = """# @package _global_
iterations: 20
n_seeds: 2
experiment: {name: own}
figure:
  module: mqlearn.analysis.figures.error_curves
  metric: q_error
  curves:
    A: [algorithm=q_learning]
    B: [algorithm=nesa]
"""


@pytest.mark.integration
def test_a_locked_store_is_not_silent(mqlearn, stored, outputs):
    with sqlite3.connect(outputs / "mlflow.db") as held:
        held.execute("BEGIN EXCLUSIVE")
        assert mqlearn("run", *SMALL).code == 3


def test_a_failed_cell_goes_before_an_untracked_one(mqlearn, outputs, work, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # seconds each
    (work / "raising.py").write_text(
        "import mqlearn as mq\n\nclass Raising(mq.QLearning):\n"
        "    def weights(self, start, stop):\n        raise OSError(5)\n"
    )
    asked = ("run", "-m", *SMALL, "hydra/launcher=basic", "plugins=[raising]", "tracking.uri=http://127.0.0.1:9")
    done = mqlearn(*asked, "algorithm._target_=mqlearn.QLearning,raising.Raising")
    assert done.code == 1 and "NOT UPLOADED: 1" in done.out


def test_the_exit_codes_are_in_the_help():
    done = subprocess.run([sys.executable, "-m", "mqlearn", "--help"], capture_output=True, text=True, check=True)
    assert "3 runs are whole, but not tracked" in done.stdout
