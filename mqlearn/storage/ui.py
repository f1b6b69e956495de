"""MLflow's own pages on a store: their addresses, the server that shows them, the browser."""

import errno
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from contextlib import closing, suppress
from urllib.parse import quote

from mqlearn.checks import check_int
from mqlearn.errors import SettingError, nearest
from mqlearn.storage import moved
from mqlearn.storage.connection import connect, failures, sqlite_path
from mqlearn.storage.passwords import Address
from mqlearn.storage.store import experiment_id, experiments

_BROWSERS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")  # environment variables: there is a browser that has a window
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HOST = "must be an address or a name of this machine: 127.0.0.1 (for it alone), 0.0.0.0 (for all that reach it)"
_START = 120.0  # seconds in which a server comes up, or its page is not opened
_OPEN = "import sys; from mqlearn.storage.ui import open_page; open_page(sys.argv[1])"


def page(place: str, number: str | None, search: str = "") -> str:
    """The address of the runs of an experiment, searched, as charts in the view for training; else of all experiments.

    place: the address of the server.   number: the experiment's id.
    """
    place = re.sub("(?<=://)[^/?#]*@", "", place)  # the browser asks who one is
    if number is None:
        return f"{place}/#/experiments"
    asked = f"searchFilter={quote(search)}&" if search else ""
    return f"{place}/#/experiments/{number}/runs?{asked}workflowType=machine_learning&compareRunsMode=CHART"


def open_ui(uri: str, experiment: str, *, named: bool = True, host: str = "127.0.0.1", port: int = 5000) -> None:
    """Print and open the page of an experiment, and become its server, until stopped with Ctrl-C.

    named: refuse an experiment that the store does not have, else show all.   host: the address or the name of this
    machine at which the server listens, 0.0.0.0 for all; MLflow asks nobody who he is. Raises SettingError,
    TrackingError.
    """
    if uri.startswith("http"):
        address = page(uri, _number(uri, experiment, named))
        print(f"MLflow UI: {address} (a server: nothing to start)")
        _show(address)
        return
    database = sqlite_path(uri)
    if database is not None and not database.exists():
        raise SettingError("tracking.uri", uri, "no store there yet: the first tracked run makes it")
    port = check_int("port", port, 1, 65535)
    _check_free(host, port)
    names = [f"[{name}]" if ":" in name else name for name in _names(host)]
    address = page(f"http://{names[0]}:{port}", _number(uri, experiment, named))
    command = [sys.executable, "-m", "mlflow", "server", "--workers=1", f"--host={host}", f"--port={port}"]
    if database is not None:
        command.append(f"--artifacts-destination={database.parent / moved.ROOT}")
    environment = os.environ | {  # the address not on the command line, where all would see a password
        "MLFLOW_BACKEND_STORE_URI": Address(uri).whole,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    if host not in _LOOPBACK:  # MLflow answers to names of this machine alone that it is told
        environment.setdefault("MLFLOW_SERVER_ALLOWED_HOSTS", ",".join(f"{name}:{port}" for name in names))
        origins = ",".join(f"http://{name}:{port}" for name in names)
        environment.setdefault("MLFLOW_SERVER_CORS_ALLOWED_ORIGINS", origins)
    print(f"MLflow UI: {address} (store {Address(uri)}; stop with Ctrl-C)", flush=True)
    _show(address)
    os.execve(sys.executable, command, environment)


def open_page(address: str) -> None:
    """Open a page in the user's browser once its server, which is the parent process, answers."""
    parent, end = os.getppid(), time.monotonic() + _START
    while os.getppid() == parent and time.monotonic() < end:
        with suppress(OSError), urllib.request.urlopen(f"{address.partition('/#')[0]}/health", timeout=2):
            webbrowser.open(address)
            return
        time.sleep(0.3)


def _show(address: str) -> None:
    """Have a page opened where somebody sits at a terminal and a browser has a window."""
    if sys.stdout.isatty() and (sys.platform == "darwin" or any(map(os.environ.get, _BROWSERS))):
        quiet = subprocess.DEVNULL
        subprocess.Popen([sys.executable, "-c", _OPEN, address], stdin=quiet, stdout=quiet, stderr=quiet)


def _number(uri: str, experiment: str, named: bool) -> str | None:
    number = experiment_id(uri, experiment)
    if number is None:  # of another kind of store, or of another schema
        with failures("reading the store", uri):
            found = connect(uri).get_experiment_by_name(experiment)
            number = found and str(found.experiment_id)
    if number is None and named:
        known = experiments(uri)
        problem = f"the store {Address(uri)} has no such experiment; it has {', '.join(known) or 'none'}"
        raise SettingError("experiment.name", experiment, problem + nearest(experiment, known))
    return number


def _names(host: str) -> list[str]:
    """By which names a browser may ask for a server that listens at a host: that of its page first."""
    if host in _LOOPBACK:
        return [host]
    own = [host]
    if host in ("0.0.0.0", "::"):
        own = [socket.gethostname(), socket.getfqdn()]
        with suppress(OSError):
            own += socket.gethostbyname_ex(own[0])[2]
    return list(dict.fromkeys([*own, *_LOOPBACK]))


def _check_free(host: str, port: int) -> None:
    """Raise SettingError for a host that is not this machine's, or a port that no server can be started on."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise SettingError("host", host, _HOST) from None
    with closing(socket.socket(family, kind, protocol)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(place)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise SettingError("host", host, _HOST) from None
            if error.errno == errno.EADDRINUSE:
                expected = f"another program on this machine uses it; choose another, as in port={port % 65535 + 1}"
            else:
                expected = f"cannot be used on {host}: {error.strerror}"
            raise SettingError("port", port, expected) from None
