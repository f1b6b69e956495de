"""The README promises nothing that does not work: its Python runs, its commands run (on fewer iterations)."""

import re
import shlex
from pathlib import Path

import pytest

from mqlearn.cli.main import main

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_python_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    errors = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()[:3]]
    assert errors[0] > 5 * max(errors[1:])  # Q-learning, then SpeedyQ and MomentumQ


def commands() -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if re.match(r"mqlearn (run|truth|figure) ", line)]


def test_there_are_commands() -> None:
    assert len(commands()) >= 6


@pytest.mark.parametrize("line", commands())
def test_commands_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path / "outputs"))
    rules = next(block for block in blocks("python") if "HeavyBall(mq.Rule)" in block)
    (tmp_path / "my_rules.py").write_text(rules, encoding="utf-8")
    (tmp_path / "my_conf" / "algorithm").mkdir(parents=True)
    (tmp_path / "my_conf" / "algorithm" / "heavy_ball.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    (tmp_path / "FILE.txt").write_text("SFF\nFHF\nFFG\n", encoding="utf-8")
    arguments = shlex.split(line)[1:]
    if arguments[0] != "truth":
        arguments += ["tracking=none", "iterations=50", "n_seeds=2", "n_checkpoints=5"]
    if "-m" in arguments:
        arguments += ["hydra/launcher=basic"]
    monkeypatch.setattr("sys.argv", ["mqlearn", *arguments])
    with pytest.raises(SystemExit) as done:
        main(arguments)
    assert done.value.code == 0
