"""What several test files share: the command line inside this process, its folders, a ready MLflow database."""

import contextlib
import gc
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from mqlearn.cli.main import main
from mqlearn.storage import addresses, tracking

settings.register_profile("mqlearn", deadline=None)
settings.load_profile("mqlearn")

# Imports, thousands of tests and compilations make objects that stay: Python's collector of cycles, at its usual
# pace, would look through them again and again, a tenth of the time of importing.
gc.set_threshold(50_000, 20, 20)


@dataclass(frozen=True)
class Done:
    """A command line that has ended."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def handlers_of_before() -> Iterator[None]:
    """Hydra sets up logging for a process of its own: here its handlers would keep a stream that pytest closes."""
    before = list(logging.root.handlers)
    yield
    logging.root.handlers[:] = before


@contextlib.contextmanager
def environment_of_before() -> Iterator[None]:
    """The command line sets variables for its process and those that it starts: here they would outlive the test."""
    before = dict(os.environ)
    yield
    phase = os.environ.get("PYTEST_CURRENT_TEST")  # pytest's own, and not that of before
    os.environ.clear()
    os.environ.update(before)
    if phase is not None:
        os.environ["PYTEST_CURRENT_TEST"] = phase


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    with environment_of_before():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nor may what is composed while tests are collected, to make their parameters."""
    with environment_of_before():
        return (yield)


def pytest_collection_finish() -> None:
    """What has been imported and collected stays until the end: no collection of cycles looks at it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef) -> Generator[None, object, object]:
    """What is made once for a module or more may use the command line too, before any test."""
    if fixturedef.scope == "function":
        return (yield)
    with environment_of_before():
        return (yield)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory) -> Path:
    """An MLflow database with its schema, made once, by whichever process comes first: the migration takes seconds."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "migrated"
    tracking.prepare(addresses.default_uri(folder), "first")
    return folder / "mlflow.db"


@pytest.fixture
def work(tmp_path: Path, monkeypatch) -> Path:
    """The current directory of a user, with the outputs folder (not yet there) named beside it."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    # Pytest's own workers set COLUMNS, as a terminal would.
    for variable in ("MLFLOW_TRACKING_URI", "HYDRA_FULL_ERROR", "COLUMNS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path / "outputs"))
    return folder


@pytest.fixture
def outputs(work: Path) -> Path:
    """The outputs folder; it does not exist before something is written."""
    return work.parent / "outputs"


@pytest.fixture
def stored(migrated: Path, outputs: Path) -> str:
    """Address of a fresh MLflow store, the default one of the outputs folder."""
    outputs.mkdir()
    shutil.copy(migrated, outputs / "mlflow.db")
    return addresses.default_uri(outputs)


@pytest.fixture
def mqlearn(work, capsys) -> Callable[..., Done]:
    """`mqlearn(...)` runs a command line in this process, which knows the compiled kernels and MLflow already."""

    def call(*arguments: object) -> Done:
        capsys.readouterr()
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return call


@pytest.fixture
def process(work) -> Callable[..., subprocess.Popen[str]]:
    """`process(...)` starts a command line in a process of its own, with `before` executed first."""

    def start(*arguments: object, before: str = "", **more) -> subprocess.Popen[str]:
        code = f"{before}\nimport sys\nfrom mqlearn.cli.main import main\nsys.argv[0] = 'mqlearn'\nmain()"
        command = [sys.executable, "-c", code, *map(str, arguments)]
        environment = os.environ | more.pop("env", {})
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, **more)

    return start
