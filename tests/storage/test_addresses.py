"""Which addresses name a store, and how its pages are opened."""

import os
import socket

import pytest

from mqlearn.cli.ui import ui as ui_verb
from mqlearn.errors import SettingError
from mqlearn.storage import addresses, tracking, ui


def test_addresses_become_absolute_and_the_setting_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    default = f"sqlite:///{tmp_path}/out/mlflow.db"
    assert addresses.resolve_uri(None, None, "out") == addresses.resolve_uri("", "", tmp_path / "out") == default
    assert addresses.resolve_uri(None, "http://host:5000/", "out") == "http://host:5000"
    assert addresses.resolve_uri("sqlite:///a.db", "http://host:5000", "out") == f"sqlite:///{tmp_path}/a.db"
    assert addresses.resolve_uri("sqlite:////x/a.db", None, "out") == "sqlite:////x/a.db"
    for address in ("postgresql+psycopg://me:secret@host/db", "https://host/mlflow"):
        assert addresses.resolve_uri(address, None, "out") == address


@pytest.mark.parametrize(
    "folder", ["mlruns", "./mlruns", "/elsewhere", "file:///elsewhere/mlruns", "C:\\runs", "my.db"]
)
def test_a_folder_as_a_store_is_refused_with_the_way_out(tmp_path, folder):
    """ML-12."""
    with pytest.raises(SettingError, match=r"^tracking\.uri=.*refused by MLflow.*sqlite:///.*migrate-filestore"):
        addresses.resolve_uri(folder, "http://host", tmp_path)
    with pytest.raises(SettingError, match=r"^MLFLOW_TRACKING_URI=.*refused by MLflow"):
        addresses.resolve_uri(None, folder, tmp_path)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgres://me:secret@host/db", r"did you mean 'postgresql'"),
        ("sqlit:///x.db", r"did you mean 'sqlite'"),
        ("ftp://me:secret@host", "begins with sqlite, postgresql"),
        ("sqlite://", "is a file"),
        ("sqlite:///:memory:", "is a file"),
        ("sqlite:////tmp", "is a file"),
        ("sqlite:////a/b%20c.db", "cannot hold"),
        ("sqlite:////a/b.db?mode=ro", "cannot hold"),
    ],
)
def test_other_addresses_are_refused_by_name_and_without_their_password(tmp_path, address, message):
    with pytest.raises(SettingError, match=message) as raised:
        addresses.resolve_uri(address, None, tmp_path)
    assert "secret" not in str(raised.value)


def test_a_store_that_is_a_pipe_is_refused_and_nobody_waits_for_it(tmp_path):
    os.mkfifo(tmp_path / "mlflow.db")
    with pytest.raises(SettingError, match="a SQLite store is a file"):
        addresses.resolve_uri(None, None, tmp_path)


def test_the_ui_gets_the_store_and_prints_its_address(uri, tmp_path, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr("os.execve", lambda *call: calls.append(call))
    number = tracking.prepare(uri, "trial")
    port = free_port("127.0.0.1")
    ui.open_ui(uri, "trial", port=port)
    ((_, command, environment),) = calls
    assert command[1:4] == ["-m", "mlflow", "server"]
    assert environment["MLFLOW_BACKEND_STORE_URI"] == uri and uri not in command
    assert f"--artifacts-destination={tmp_path / 'outputs' / 'mlartifacts'}" in command
    assert environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"
    address = f"http://127.0.0.1:{port}/#/experiments/{number}/runs?workflowType=machine_learning&compareRunsMode=CHART"
    assert capsys.readouterr().out.startswith(f"MLflow UI: {address} (store sqlite:////")
    ui.open_ui(uri, "default", named=False, port=port)
    assert f"http://127.0.0.1:{port}/#/experiments (store" in capsys.readouterr().out
    with pytest.raises(SettingError, match=r"^experiment\.name='trail': the store .* has no such experiment; it has"):
        ui.open_ui(uri, "trail", port=port)
    with pytest.raises(SettingError, match="no store there yet"):
        ui.open_ui(f"sqlite:///{tmp_path}/absent.db", "trial")
    for wrong in (0, 99999):  # at 0 nobody would know where the page is
        with pytest.raises(SettingError, match=rf"^port={wrong}: .*from 1 to 65535"):
            ui.open_ui(uri, "trial", port=wrong)


def test_the_ui_listens_where_it_is_told_and_answers_to_the_names_of_the_machine(uri, mqlearn_ui, monkeypatch, capsys):
    tracking.prepare(uri, "trial")
    port, name = free_port("0.0.0.0"), socket.gethostname()
    assert mqlearn_ui([f"tracking.uri={uri}", "experiment.name=trial", "host=0.0.0.0", f"port={port}"]) == 0
    command, environment = mqlearn_ui.calls[-1]
    assert "--host=0.0.0.0" in command and f"--port={port}" in command
    assert capsys.readouterr().out.startswith(f"MLflow UI: http://{name}:{port}/#/experiments/")
    allowed = environment["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    assert {f"{name}:{port}", f"localhost:{port}"} <= {*allowed}
    assert environment["MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"].split(",") == [f"http://{one}" for one in allowed]
    mqlearn_ui([f"tracking.uri={uri}", f"port={port}"])
    command, environment = mqlearn_ui.calls[-1]
    assert "--host=127.0.0.1" in command and "MLFLOW_SERVER_ALLOWED_HOSTS" not in environment
    for wrong in ("192.0.2.1", "nix.invalid", "a b", "x" * 70):
        with pytest.raises(SettingError, match=r"^host='?.*: must be an address or a name of this machine"):
            mqlearn_ui([f"tracking.uri={uri}", f"host={wrong}", f"port={port}"])


@pytest.fixture
def mqlearn_ui(monkeypatch):
    """The verb, which becomes no server; `calls` has the command and the environment of each that it would become."""
    calls: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr("os.execve", lambda _, command, environment: calls.append((command, environment)))

    def call(arguments: list[str]) -> int:
        return ui_verb(arguments)

    call.calls = calls
    return call


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_address_of_the_newer_internet_protocol_stands_in_brackets(uri, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr("os.execve", lambda *call: calls.append(call))
    tracking.prepare(uri, "trial")
    try:
        port = free_port("::1")
    except OSError:
        pytest.skip("this machine has no such address")
    ui.open_ui(uri, "trial", host="::1", port=port)
    assert f"http://[::1]:{port}/#/experiments/" in capsys.readouterr().out
    assert "--host=::1" in calls[0][1]


def free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]
