"""No text takes hold of a terminal: whatever a record or a store says, what acts on one is escaped."""

import io
import json
import sys

import pytest
import yaml

from mqlearn.cli import streams

SMALL = ("iterations=20", "n_checkpoints=3", "n_seeds=2", "tracking=none", "experiment.name=there")
ACTING = "\x1b]0;title\x07\x1b[31mred\x9b2J\r\x7f\u202eabc"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc é 日 ‖·‖ \xa0", "a\tb\nc é 日 ‖·‖ \xa0"),
        ("\x1b[2J\r\x07\x00", "\\u001b[2J\\u000d\\u0007\\u0000"),
        ("\x9b\x7f\u202e\u2028\udc80", "\\u009b\\u007f\\u202e\\u2028\\udc80"),
    ],
)
def test_what_acts_on_a_terminal_is_written_as_json_writes_it(text, shown):
    assert streams.printable(text) == shown and json.loads(json.dumps(shown)) == shown
    for own in (False, True):
        out, err = io.StringIO(), io.StringIO()
        before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err
        try:
            with streams.harmless():
                print(text)
                sys.stderr.writelines(["\r\x1b[K" * own + text, text])
        finally:
            sys.stdout, sys.stderr = before
        assert out.getvalue() == f"{shown}\n" and err.getvalue() == "\r\x1b[K" * own + shown + shown


def unwelcome(text: str) -> list[str]:
    return [letter for letter in text if letter != "\n" and letter != "\t" and streams.printable(letter) != letter]


def test_no_verb_hands_a_record_to_the_terminal_as_it_is(mqlearn, outputs, work):
    """Names, commands, errors, warnings and settings of a foreign run, of a plan, of a figure."""
    assert mqlearn("run", "-m", *SMALL, "algorithm=q_learning,nesa", "hydra/launcher=basic").code == 0
    for number, folder in enumerate(sorted((outputs / "runs" / "there").iterdir())):
        summary = json.loads((folder / "summary.json").read_text())
        for entry in ("files", "checksum", "format"):
            summary.pop(entry)
        summary |= {"name": ACTING, "command": ACTING, "warnings": [ACTING], "diverged": {"0": 1}}
        (folder / "summary.json").write_text(json.dumps(summary))
        settings = yaml.safe_load((folder / "config.yaml").read_text())
        settings["algorithm"]["name"] = f"{number}{ACTING}$\\frac{{_^"
        (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (plan,) = outputs.glob("sweeps/*/plan.json")
    content = json.loads(plan.read_text())
    other = dict(content["cells"][0], digest="0" * 64, folder=str(outputs / "nix"), number=3)
    content["cells"].append(other | {"name": ACTING, "experiment": ACTING, "command": ACTING, "cell": ACTING})
    plan.write_text(json.dumps(content))
    (plan.parent / "cells" / "3.json").write_text(json.dumps({"state": "failed", "error": ACTING}))
    folder = str(next((outputs / "runs" / "there").iterdir()))
    for words, code in (
        (("status",), 1),
        (("status", "--json", "-"), 1),
        (("compare", "experiment.name=there"), 0),
        (("compare", "experiment.name=there", "--csv", "-"), 0),
        (("export", "experiment.name=there"), 0),
        (("export", "experiment.name=there", "--output", "-", "--format", "json"), 0),
        (("report", "experiment.name=there", "tracking=none"), 0),
        (("explain", outputs / "reports" / "there.html", "tracking=none"), 0),
        (("rerun", folder), None),
        (("rerun", ACTING), None),
        ((ACTING,), 2),
        (("truth", f"env={ACTING}"), 2),
    ):
        done = mqlearn(*words)
        assert code in (None, done.code), (words, done)
        assert not unwelcome(done.out + done.err), (words, done)
        if "json" in str(words):
            json.loads(done.out)
