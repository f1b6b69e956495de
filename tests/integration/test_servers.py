"""Sweeps on real servers. Marked integration: .ci/run installs what they need, scripts/test leaves them out."""

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mqlearn.experiments import processes
from mqlearn.experiments.sweep import audit, journal
from mqlearn.storage import lookup, mlflow_payload, runs, store, tracking
from mqlearn.storage.connection import connect

from . import servers

pytestmark = pytest.mark.integration
TWENTY = ["algorithm=q_learning,speedy_q,momentum_q,nesa", "seed=range(5)", "iterations=500"]
TWENTY += ["n_checkpoints=10", "n_seeds=2"]


def needs(*programs: str, modules: tuple[str, ...] = ()) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    missing += [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        if os.environ.get("MQLEARN_INTEGRATION") == "required":
            pytest.fail(f"not installed: {', '.join(missing)}")
        pytest.skip(f"needs {', '.join(missing)}")


def start(outputs: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from mqlearn.cli.main import main; main()", *arguments]
    private = {key: value for key, value in os.environ.items() if not key.startswith(("MQLEARN_", "MLFLOW_"))}
    private |= {"MQLEARN_OUTPUTS": str(outputs)} | environment
    return subprocess.Popen(
        command,
        cwd=outputs.parent,
        env=private,
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def mqlearn(outputs: Path, *arguments: str, code: int = 0, **environment: str) -> str:
    process = start(outputs, *arguments, **environment)
    text = process.communicate(timeout=580)[0]
    assert process.returncode == code and "Traceback" not in text, text
    return text


def curves(outputs: Path, uri: str | None = None) -> dict[str, dict[str, np.ndarray]]:
    found = lookup.finished(outputs, "default", store=uri)
    return {digest: dict(run.curves) for digest, run in found.items()}


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> dict[str, dict[str, np.ndarray]]:
    """The curves of twenty cells, run one after another in one process."""
    outputs = tmp_path_factory.mktemp("reference") / "outputs"
    mqlearn(outputs, "run", "-m", *TWENTY, "tracking=none", "hydra/launcher=basic")
    found = curves(outputs)
    assert len(found) == 20
    return found


def test_eight_workers_on_a_new_sqlite_store_equal_one_process(reference, tmp_path):
    outputs = tmp_path / "outputs"
    text = mqlearn(outputs, "run", "-m", *TWENTY, "hydra.launcher.n_jobs=8")
    assert "20 done" in text and "audit: 20 of 20" in text
    np.testing.assert_equal(curves(outputs, f"sqlite:///{outputs}/mlflow.db"), reference)


@pytest.mark.alone
def test_a_server_that_dies_costs_no_run(tmp_path):
    outputs, folder, port = tmp_path / "outputs", tmp_path / "server", servers.free_port()
    asked = ["algorithm=q_learning", "seed=range(6)", "iterations=500", "n_checkpoints=10", "n_seeds=2"]
    uri = f"http://127.0.0.1:{port}"
    given = {"MLFLOW_TRACKING_URI": uri, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}  # of the dead one: seconds each
    with servers.mlflow_server(folder, port=port):
        process = start(outputs, "run", "-m", *asked, "hydra/launcher=basic", **given)
        servers.wait(lambda: len(store.finished(uri, "default")) >= 2, "two runs on the server")
    text = process.communicate(timeout=500)[0]
    assert process.returncode == 3 and "NOT UPLOADED" in text, text
    assert len(list((outputs / "runs" / "default").iterdir())) == 6
    with servers.mlflow_server(folder, port=port):
        there = len(store.finished(uri, "default"))
        assert 2 <= there < 6
        folders = sorted(map(str, (outputs / "runs" / "default").iterdir()))
        for _ in range(2):
            mqlearn(outputs, "upload", *folders, MLFLOW_TRACKING_URI=uri)
            stored = store.finished(uri, "default")
            assert len(stored) == len({one.digest for one in stored}) == 6
        assert "6 skipped" in mqlearn(outputs, "run", "-m", *asked, MLFLOW_TRACKING_URI=uri)
        mqlearn(outputs, "status", "experiment.name=default", "--json", f"{tmp_path}/s.json", MLFLOW_TRACKING_URI=uri)
    mlflow_payload = json.loads((tmp_path / "s.json").read_text())
    assert (mlflow_payload["planned"], mlflow_payload["done"], mlflow_payload["not_uploaded"]) == (6, 6, 0)


def test_sweeps_that_have_only_a_server_in_common_record_each_digest_once(tmp_path):
    asked = ["algorithm=q_learning", "iterations=500", "n_checkpoints=10", "n_seeds=2", "hydra/launcher=basic"]
    port = servers.free_port()
    uri = f"http://127.0.0.1:{port}"
    with servers.mlflow_server(tmp_path / "server", port=port):
        both = [
            start(tmp_path / name / "outputs", "run", "-m", *asked, f"seed={seeds}", MLFLOW_TRACKING_URI=uri)
            for name, seeds in (("one", "range(6)"), ("two", "range(6)"))
            if (tmp_path / name).mkdir() is None
        ]
        for process in both:
            text = process.communicate(timeout=500)[0]
            assert process.returncode == 0 and "audit: 6 of 6" in text, text
        stored = store.finished(uri, "default")
        assert len(stored) == len({one.digest for one in stored}) == 6
        assert store.running(uri, "default") == []


def test_the_audit_waits_for_a_second_record_that_is_about_to_be_taken_back(tmp_path):
    outputs, port = tmp_path / "outputs", servers.free_port()
    uri = f"http://127.0.0.1:{port}"
    asked = ["algorithm=q_learning", "iterations=500", "n_checkpoints=10", "n_seeds=2"]
    with servers.mlflow_server(tmp_path / "server", port=port):
        mqlearn(outputs, "run", *asked, MLFLOW_TRACKING_URI=uri)
        (folder,) = (outputs / "runs" / "default").iterdir()
        run = runs.load(folder)
        second = tracking.log(run, uri, "default")
        assert audit.finished_runs(uri, "default", {run.digest}) == {run.digest: 2}  # it stays, and is told
        taken_back = threading.Timer(0.5, connect(uri).delete_run, [second])
        taken_back.start()
        assert audit.finished_runs(uri, "default", {run.digest}) == {run.digest: 1}
        taken_back.join()


def test_runs_recorded_at_the_same_time_share_the_problem_that_they_learned(tmp_path):
    """Each time all add a data set that the store does not have yet: it refuses some of them, which ask again."""
    n = 8
    with servers.mlflow_server(tmp_path) as uri, ThreadPoolExecutor(n) as pool:
        client = connect(uri)
        place, started = client.create_experiment("default"), threading.Barrier(n)
        ids = [client.create_run(place).info.run_id for _ in range(n)]

        def log(run_id: str, problem: str) -> None:
            started.wait(60)
            mlflow_payload.log_model(client, run_id, problem, "d" * 64)

        for problem in ("one", "two", "three"):
            list(pool.map(log, ids, n * [problem]))
        for run_id in ids:
            inputs = client.get_run(run_id).inputs
            assert inputs is not None and len(inputs.dataset_inputs) == 3


def test_only_the_outputs_folder_that_a_record_comes_from_ends_it_as_killed(tmp_path, monkeypatch):
    port, asked = servers.free_port(), ["algorithm=q_learning", "iterations=500", "n_checkpoints=10", "n_seeds=2"]
    uri = f"http://127.0.0.1:{port}"
    with servers.mlflow_server(tmp_path / "server", port=port):
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            mqlearn(tmp_path / name / "outputs", "run", *asked, "tracking=none")
        (folder,) = (tmp_path / "one" / "outputs" / "runs" / "default").iterdir()
        monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path / "one" / "outputs"))
        begun = tracking.log(runs.load(folder), uri, "default")
        connect(uri).update_run(begun, status="RUNNING")  # as where its process is at it, or was killed
        upload = ["upload", str(tmp_path / "two" / "outputs" / "runs" / "default" / folder.name)]
        mqlearn(tmp_path / "two" / "outputs", *upload, MLFLOW_TRACKING_URI=uri)
        assert [one.run_id for one in store.running(uri, "default")] == [begun]
        (second,) = store.finished(uri, "default")
        connect(uri).delete_run(second.run_id)
        mqlearn(tmp_path / "one" / "outputs", "upload", str(folder), MLFLOW_TRACKING_URI=uri)
        assert store.running(uri, "default") == [] and len(store.finished(uri, "default")) == 1


def test_postgresql_as_the_store_equals_one_process(reference, tmp_path):
    needs(modules=("psycopg",))
    if not list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        needs("postgres")
    outputs = tmp_path / "outputs"
    with servers.postgresql(tmp_path / "postgresql") as uri:
        text = mqlearn(outputs, "run", "-m", *TWENTY, f"tracking.uri={uri}")
        assert "20 done" in text and "audit: 20 of 20" in text and "secret" not in text
        np.testing.assert_equal(curves(outputs, uri), reference)
    kept = [path for path in outputs.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
    assert not kept


@pytest.mark.alone
def test_submitit_on_this_machine_equals_one_process(reference, tmp_path):
    needs(modules=("submitit", "hydra_plugins.hydra_submitit_launcher"))
    outputs = tmp_path / "outputs"
    asked = [*TWENTY, "tracking=none", "hydra/launcher=submitit_local"]
    process = start(outputs, "run", "-m", *asked)
    servers.wait(lambda: len(list(outputs.rglob("curves.npz"))) >= 2, "two runs")
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - began < 5
    done = len(curves(outputs))
    assert f"{20 - done} done, {done} skipped" in mqlearn(outputs, "run", "-m", *asked)
    np.testing.assert_equal(curves(outputs), reference)


@pytest.mark.alone
def test_ray_on_this_machine_equals_one_process(reference, tmp_path):
    needs(modules=("ray", "hydra_plugins.hydra_ray_launcher"))
    outputs = tmp_path / "outputs"
    private = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    with tempfile.TemporaryDirectory(prefix="ray") as place:  # the paths of its sockets must be short
        asked = [*TWENTY, "tracking=none", "hydra/launcher=ray", f"+hydra.launcher.ray.init._temp_dir={place}"]

        def begun(started: Callable[[], bool]) -> subprocess.Popen[str]:
            """A sweep under way. Ray gives its own start 30 s and then gives up, whatever else the machine does."""
            for _ in range(4):
                process = start(
                    outputs, "run", "-m", *asked, "+hydra.launcher.ray.init.include_dashboard=false", **private
                )
                servers.wait(lambda: started() or process.poll() is not None, "runs or an end", 300)  # noqa: B023  # ends in this turn
                if started():
                    return process
                text = process.communicate()[0]
                assert "node timed out during startup" in text, text
            pytest.fail("Ray did not start")

        process = begun(lambda: len(curves(outputs)) >= 2)
        below = processes.descendants(process.pid)
        process.send_signal(signal.SIGINT)
        pressed = time.monotonic()
        process.communicate(timeout=60)
        assert process.returncode == 130 and time.monotonic() - pressed < 5
        servers.wait(lambda: not any(map(lives, below)), "the end of Ray's processes", 30)
        if len(curves(outputs)) == 20:  # all had ended before the interruption came: then take some away to be resumed
            for path in sorted((outputs / "runs").rglob("curves.npz"))[:5]:
                shutil.rmtree(path.parent)
        done = len(curves(outputs))
        text = begun(lambda: len(curves(outputs)) > done).communicate(timeout=300)[0]
        assert f"{20 - done} done, {done} skipped" in text, text
    np.testing.assert_equal(curves(outputs), reference)


@pytest.mark.alone
def test_ray_that_runs_already_is_used_by_its_address(reference, tmp_path, monkeypatch):
    needs(modules=("ray", "hydra_plugins.hydra_ray_launcher"))
    outputs = tmp_path / "elsewhere"
    for key, value in {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}.items():
        monkeypatch.setenv(key, value)
    with tempfile.TemporaryDirectory(prefix="ray") as place, servers.ray(Path(place)) as (address, nodes):
        asked = [*TWENTY, "hydra/launcher=ray", f"hydra.launcher.ray.init.address={address}"]
        below: dict[int, set[int]] = {node: set() for node in nodes}
        process = start(outputs, "run", "-m", *asked)

        def ended() -> bool:
            for node, pids in below.items():
                pids |= {*processes.descendants(node)}
            return process.poll() is not None

        servers.wait(ended, "the end of the sweep", 400)
        text = process.communicate()[0]
        assert process.returncode == 0 and "20 done" in text and "audit: 20 of 20 cells have one" in text, text
        assert all(map(lives, nodes))
        ran = {json.loads(path.read_text())["pid"] for path in outputs.glob("sweeps/*/cells/*.json")}
        assert all(ran & pids for pids in below.values())
    uri = f"sqlite:///{outputs}/mlflow.db"
    assert len(store.finished(uri, "default")) == 20 and store.running(uri, "default") == []
    np.testing.assert_equal(curves(outputs, uri), reference)


def lives(pid: int) -> bool:
    return journal.alive({"state": "running", "pid": pid, "host": socket.gethostname()})


@pytest.mark.alone
def test_slurm_finishes_what_joblib_began_and_survives_a_killed_job_of_several_cells(reference, tmp_path):
    needs("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", modules=("submitit",))
    outputs = tmp_path / "outputs"
    mqlearn(outputs, "run", "-m", *TWENTY[:1], "seed=0,1", *TWENTY[2:])
    asked = [*TWENTY, "hydra/launcher=submitit_slurm", "hydra.launcher.mem_gb=null", "hydra.launcher.mem_per_cpu=300M"]
    asked += ["hydra.sweeper.cells_per_job=3"]
    with servers.slurm(tmp_path / "slurm") as environment:
        process = start(outputs, "run", "-m", *asked, **environment)
        victim: list[int] = []

        def found() -> bool:
            for path in outputs.glob("sweeps/*/cells/*.json"):
                state = json.loads(path.read_text())
                if state["state"] == "running" and path.parent.parent.name == newest():
                    victim.append(state["pid"])
            return bool(victim)

        def newest() -> str:
            return max(path.name for path in (outputs / "sweeps").glob("2*"))

        servers.wait(found, "a running job", 200)
        os.kill(victim[0], signal.SIGKILL)
        text = process.communicate(timeout=580)[0]
        assert process.returncode == 0 and "12 done, 8 skipped" in text, text
    np.testing.assert_equal(curves(outputs, f"sqlite:///{outputs}/mlflow.db"), reference)


@pytest.mark.alone
def test_slurm_begins_a_requeued_cell_again_and_ends_one_that_exceeds_its_walltime(tmp_path):
    needs("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", modules=("submitit",))
    outputs, other = tmp_path / "outputs", tmp_path / "other"
    long = ["seed=0,1", "n_checkpoints=1000", "checkpoints=linear", "n_seeds=2", "sampling=markovian", "tracking=none"]
    launcher = ["hydra/launcher=submitit_slurm", "hydra.launcher.mem_gb=null", "hydra.launcher.mem_per_cpu=300M"]
    mqlearn(other, "run", "-m", *long, "iterations=2e7", "hydra/launcher=basic")
    with servers.slurm(tmp_path / "slurm") as environment:
        process = start(outputs, "run", "-m", *long, "iterations=2e7", *launcher, **environment)
        servers.wait(lambda: '"running"' in next(outputs.glob("sweeps/*/cells/1.json")).read_text(), "a running cell")
        called = {"env": os.environ | environment, "text": True, "check": True, "capture_output": True, "timeout": 60}
        subprocess.run(["scontrol", "requeue", "1_0"], **called)
        text = process.communicate(timeout=580)[0]
        assert process.returncode == 0 and "2 done" in text, text
        assert "Restarts=1 " in subprocess.run(["scontrol", "show", "job", "1_0"], **called).stdout
        np.testing.assert_equal(curves(outputs), curves(other))
        # One minute, of which SIGUSR2 announces the end; twice, and that is all.
        walltime = [f"hydra.launcher.{key}" for key in ("timeout_min=1", "signal_delay_s=30", "max_num_timeout=1")]
        text = mqlearn(outputs, "run", "-m", *long[1:], "iterations=3e9", *launcher, *walltime, code=1, **environment)
        assert "1 failed" in text and "Job not requeued because: timed-out too many times" in text
        assert "Restarts=1 " in subprocess.run(["scontrol", "show", "job", "2"], **called).stdout
        assert "1 failed" in mqlearn(outputs, "status", "experiment.name=default", code=1)


@pytest.mark.alone
def test_slurm_survives_a_node_that_dies_and_one_that_is_drained(reference, tmp_path):
    needs("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", modules=("submitit",))
    outputs, folder = tmp_path / "outputs", tmp_path / "slurm"
    asked = [*TWENTY, "hydra/launcher=submitit_slurm", "hydra.launcher.mem_gb=null", "hydra.launcher.mem_per_cpu=300M"]
    asked += ["hydra.sweeper.cells_per_job=2"]  # ten jobs, of which the cluster takes five at once
    with servers.slurm(folder, "node1", "node2") as environment:
        called = {"env": os.environ | environment, "text": True, "check": True, "capture_output": True, "timeout": 60}
        process = start(outputs, "run", "-m", *asked, **environment)
        servers.wait(lambda: servers.tasks_of("node1") and servers.tasks_of("node2"), "jobs on both nodes", 200)
        servers.kill_node(folder, "node2")
        states = ["sinfo", "-h", "-N", "-o", "%N %T"]
        servers.wait(lambda: "node2 down" in subprocess.run(states, **called).stdout, "the end of node2", 200)
        with servers.node(folder, "node2", environment):
            drain = ["scontrol", "update", "nodename=node1", "state=drain", "reason=maintenance"]
            subprocess.run(drain, **called)
            text = process.communicate(timeout=580)[0]
            assert process.returncode == 0 and "20 done" in text and "audit: 20 of 20 cells have one" in text, text
            assert "node1 drained" in subprocess.run(states, **called).stdout
            ended = ["sacct", "-n", "-X", "-D", "-o", "nodelist,state"]
            jobs = {tuple(line.split()) for line in subprocess.run(ended, **called).stdout.splitlines()}
            assert {("node1", "COMPLETED"), ("node2", "COMPLETED"), ("node2", "NODE_FAIL")} <= jobs
    uri = f"sqlite:///{outputs}/mlflow.db"
    assert len(store.finished(uri, "default")) == 20 and store.running(uri, "default") == []
    np.testing.assert_equal(curves(outputs, uri), reference)


def test_tuning_gives_each_algorithm_its_budget_on_seeds_of_its_own(tmp_path):
    needs(modules=("optuna", "hydra_plugins.hydra_optuna_sweeper"))
    outputs = tmp_path / "outputs"
    asked = ["experiment=tuning", "tuning.trials=3", "tracking=none", "iterations=200"]
    text = mqlearn(outputs, "run", "-m", *asked)
    assert all(f"{name}: q_error" in text for name in ("q_learning", "speedy_q", "momentum_q"))
    found = lookup.finished(outputs, "tuning", store=None).values()
    assert {run.settings["seed"] for run in found} == {1000} and len(found) <= 9
    assert text.count(" iterations=200") == 3  # once in each command that reports
    for metric in ("policy_value", "q_eror"):
        assert "q_error_l2" in mqlearn(outputs, "run", "-m", *asked, f"tuning.metric={metric}", code=2)
    assert "seed=0: must differ from" in mqlearn(outputs, "run", "-m", *asked, "seed=0", code=2)
