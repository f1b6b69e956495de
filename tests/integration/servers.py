"""Real servers for tests: started on loopback, stopped by their context, each with a bound on its start.

Debian's packages: postgresql; slurmctld slurmd slurmdbd slurm-client munge mariadb-server; chromium.
"""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

CONFIGURATION = Path(__file__).with_name("slurm")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait(condition: Callable[[], object], what: str, seconds: float = 120, log: Path | None = None) -> None:
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(Exception):
            if condition():
                return
        if time.monotonic() > end:
            tail = log.read_text(errors="replace")[-2000:] if log and log.exists() else ""
            raise AssertionError(f"{what} did not come within {seconds:g} s\n{tail}")
        time.sleep(0.2)


@contextlib.contextmanager
def process(
    command: Sequence[str | Path], log: Path, user: str | None = None, stop: int = signal.SIGTERM, /, **environment: str
) -> Iterator[int]:
    """A server that stays in the foreground: it and all that it started end with the context."""
    with log.open("ab") as output:
        server = subprocess.Popen(
            list(map(str, command)),
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | environment,
            user=user,
        )
    try:
        yield server.pid
    finally:
        for number in (stop, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(15)
                break


@contextlib.contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """The address of a new PostgreSQL database, as MLflow takes it."""
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    user = "postgres" if getpass.getuser() == "root" else None  # it refuses to run as root
    data, port = folder / "data", free_port()
    data.mkdir(parents=True)
    if user:
        for path in (folder, data):
            shutil.chown(path, user)
        for parent in folder.parents:
            with contextlib.suppress(PermissionError):
                parent.chmod(parent.stat().st_mode | 0o011)
    log = folder / "postgresql.log"
    log.touch()
    initdb = [binaries / "initdb", "-D", data, "-U", "mqlearn", "--auth=trust", "--no-sync"]
    subprocess.run(list(map(str, initdb)), check=True, capture_output=True, user=user, cwd="/", timeout=120)
    settings = [f"-cport={port}", "-clisten_addresses=127.0.0.1", f"-cunix_socket_directories={folder}", "-cfsync=off"]
    with process([binaries / "postgres", "-D", data, *settings], log, user, signal.SIGINT):  # it waits for no client
        ready = [str(binaries / "pg_isready"), "-h", "127.0.0.1", "-p", str(port)]
        wait(lambda: subprocess.run(ready, capture_output=True).returncode == 0, "PostgreSQL", log=log)
        yield f"postgresql+psycopg://mqlearn:secret@127.0.0.1:{port}/postgres"


@contextlib.contextmanager
def mlflow_server(folder: Path, store: str | None = None, port: int | None = None) -> Iterator[str]:
    """The address of an MLflow server on `store` (default: SQLite in `folder`, which outlives the server)."""
    folder.mkdir(parents=True, exist_ok=True)
    port, log = port or free_port(), folder / "mlflow.log"
    store = store or f"sqlite:///{folder / 'server.db'}"
    command = [sys.executable, "-m", "mlflow", "server", "--workers=1", "--host=127.0.0.1", f"--port={port}"]
    command += [f"--artifacts-destination={folder / 'artifacts'}"]
    environment = {"MLFLOW_BACKEND_STORE_URI": store, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with process(command, log, MLFLOW_DISABLE_TELEMETRY="true", **environment):
        address = f"http://127.0.0.1:{port}"
        wait(lambda: urllib.request.urlopen(f"{address}/health", timeout=2).status == 200, "MLflow", 180, log)
        yield address


@contextlib.contextmanager
def slurm(folder: Path, *nodes: str) -> Iterator[dict[str, str]]:
    """The environment in which a Slurm cluster with accounting answers; its nodes are this machine. Needs root."""
    for name in ("state", "spool", "log", "database", "munge"):
        (folder / name).mkdir(parents=True)
    ports = {name: str(free_port()) for name in ("CTLD", "DBD", "SQL")}
    host, nodes = socket.gethostname(), nodes or ("node1",)
    place = f"NodeHostname={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} RealMemory=1000 State=UNKNOWN"
    lines = [f"NodeName={name} Port={free_port()} {place}" for name in nodes]
    for source in CONFIGURATION.glob("*.conf"):
        text = source.read_text().replace("@DIR@", str(folder)).replace("@HOST@", host)
        text = text.replace("@NODES@", "\n".join(lines))
        for name, port in ports.items():
            text = text.replace(f"@{name}@", port)
        (folder / source.name).write_text(text)
        (folder / source.name).chmod(0o600)
    environment = {"SLURM_CONF": str(folder / "slurm.conf")}
    with contextlib.ExitStack() as stack:
        _munge(stack, folder)
        _mariadb(stack, folder, ports["SQL"])
        log = folder / "log" / "daemons.log"
        stack.enter_context(process(["slurmdbd", "-D"], log, **environment))
        wait(lambda: _listens(ports["DBD"]), "slurmdbd", log=folder / "log" / "slurmdbd.log")
        call = {"env": os.environ | environment, "check": True, "capture_output": True, "timeout": 60}
        subprocess.run(["sacctmgr", "-i", "add", "cluster", "local"], **call)
        stack.enter_context(process(["slurmctld", "-D", "-c"], log, **environment))
        wait(lambda: _listens(ports["CTLD"]), "slurmctld", log=folder / "log" / "slurmctld.log")
        for name in nodes:
            stack.enter_context(node(folder, name, environment))
        stack.callback(subprocess.run, ["scancel", "--full", "-u", getpass.getuser()], **{**call, "check": False})
        yield environment


@contextlib.contextmanager
def node(folder: Path, name: str, environment: dict[str, str]) -> Iterator[None]:
    """A node of a Slurm cluster of `slurm`, idle at first."""
    state = ["sinfo", "-h", "-n", name, "-o", "%T"]
    call = {"env": os.environ | environment, "check": True, "capture_output": True, "timeout": 60, "text": True}
    with process(["slurmd", "-D", "-N", name], folder / "log" / "daemons.log", **environment):
        log = folder / "log" / "slurmctld.log"
        wait(lambda: subprocess.run(state, **call).stdout.strip() == "idle", f"{name} as an idle node", log=log)
        yield


def tasks_of(name: str) -> list[int]:
    """The processes of the jobs of a node."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"SLURMD_NODENAME={name}".encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def kill_node(folder: Path, name: str) -> None:
    """What a node that loses its power does: its daemon is gone, and so are its jobs and those that watch over them."""
    os.kill(int((folder / f"{name}.pid").read_text()), signal.SIGKILL)
    for pid in tasks_of(name):
        with contextlib.suppress(OSError):
            above = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if Path(f"/proc/{above}/comm").read_text().startswith("slurmstepd"):
                os.kill(above, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def ray(folder: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """The address of a Ray cluster of one core a node, and the processes that its two nodes are below."""
    port = free_port()
    start = [Path(sys.executable).with_name("ray"), "start", "--block", "--num-cpus=1", "--node-ip-address=127.0.0.1"]
    start += ["--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=100000000", "--disable-usage-stats"]
    head = [*start, "--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false"]
    log, address = folder / "start.log", f"127.0.0.1:{port}"
    nodes = [sys.executable, "-c", f"import ray; ray.init('{address}', log_to_driver=False); print(len(ray.nodes()))"]

    def number() -> str:
        return subprocess.run(nodes, capture_output=True, text=True, timeout=60).stdout.strip()

    with process(head, log) as first:
        wait(lambda: number() == "1", "the head", 200, log)
        with process([*start, f"--address={address}"], log) as second:
            wait(lambda: number() == "2", "a second node", 200, log)
            yield address, (first, second)


def _munge(stack: contextlib.ExitStack, folder: Path) -> None:
    place = Path("/run/munge")
    place.mkdir(exist_ok=True)
    shutil.chown(place, "munge", "munge")
    place.chmod(0o755)
    key = Path("/etc/munge/munge.key")
    if not key.exists():
        key.write_bytes(os.urandom(1024))
        shutil.chown(key, "munge", "munge")
        key.chmod(0o400)
    command = ["munged", "--foreground", "--socket=/run/munge/munge.socket.2"]
    stack.enter_context(process(command, folder / "munge.log", "munge"))
    wait(
        lambda: subprocess.run(["munge", "-n"], capture_output=True).returncode == 0, "munge", log=folder / "munge.log"
    )


def _mariadb(stack: contextlib.ExitStack, folder: Path, port: str) -> None:
    data, log = folder / "database", folder / "mariadb.log"
    options = ["--no-defaults", f"--datadir={data}", "--user=root"]
    subprocess.run(["mariadb-install-db", *options, "--skip-test-db"], check=True, capture_output=True, timeout=180)
    start = folder / "start.sql"
    hosts = ("localhost", "127.0.0.1")
    lines = [f"CREATE USER 'slurm'@'{host}' IDENTIFIED BY 'x';" for host in hosts]
    lines += [f"GRANT ALL ON slurm_acct_db.* TO 'slurm'@'{host}';" for host in hosts]
    start.write_text("\n".join(["CREATE DATABASE slurm_acct_db;", *lines]) + "\n")
    more = ["--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder}/sql.sock", f"--init-file={start}"]
    stack.enter_context(process(["mariadbd", *options, *more, f"--pid-file={folder}/sql.pid"], log))
    wait(lambda: _listens(port), "MariaDB", log=log)


def _listens(port: str) -> bool:
    with socket.create_connection(("127.0.0.1", int(port)), 1):
        return True
