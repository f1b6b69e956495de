"""What the library and the command line's help may import: heavy packages cost seconds at each start."""

import subprocess
import sys

import pytest

HEAVY = {"gymnasium", "matplotlib", "mlflow", "numba", "pandas", "scipy.sparse", "sqlalchemy"}


def imports(code: str) -> tuple[set[str], str]:
    """The modules that a new interpreter imports while it runs `code`, and what it prints."""
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}, done.stdout


def test_a_heavy_import_would_be_seen():
    modules, _ = imports("import scipy.sparse")
    assert "scipy.sparse" in modules


def test_library_starts_light():
    modules, _ = imports("import mqlearn")
    assert "mqlearn" in modules
    assert not modules & (HEAVY | {"hydra", "omegaconf"})


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"]])
def test_help_starts_light(arguments):
    code = f"import sys; sys.argv[1:] = {arguments}; from mqlearn.cli.main import main; sys.exit(main())"
    modules, printed = imports(code)
    assert "run" in printed
    assert not modules & HEAVY
