"""Where mqlearn runs: Linux."""

import sys
import tomllib

import pytest

from mqlearn.cli.main import main
from mqlearn.paths import PACKAGE


def test_windows_is_refused_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit) as end:
        main(["truth", "env=two_state"])
    said = capsys.readouterr()
    assert end.value.code == 2 and not said.out
    assert said.err.count("\n") == 1 and said.err.startswith("mqlearn: runs on Linux, not on Windows")


def test_linux_is_what_is_promised():
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    assert [name for name in project["classifiers"] if name.startswith("Operating System")] == [
        "Operating System :: POSIX :: Linux"
    ]
    assert "need Linux with bash" in (PACKAGE.parent / "README.md").read_text()
