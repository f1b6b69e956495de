"""Files that are damaged, or are none: pipes, sockets, links in a circle. Each is said, and nobody waits for it."""

import contextlib
import json
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mqlearn.analysis.figures import reference
from mqlearn.errors import SettingError
from mqlearn.experiments.sweep import journal
from mqlearn.files import arrays
from mqlearn.paths import PACKAGE
from mqlearn.problems.model_files import from_file
from mqlearn.sampling.recorded import Recorded
from mqlearn.storage import checksums, read
from mqlearn.suites import results

SMALL = ("iterations=20", "n_checkpoints=3", "n_seeds=2", "tracking=none", "hydra/launcher=basic")


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


STRANGE: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": bind,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "links in a circle": lambda path: path.symlink_to(path),
    "folder": Path.mkdir,
}


@pytest.fixture
def swept(mqlearn, outputs, tmp_path, monkeypatch) -> Path:
    """The folder of the first of two runs of a sweep, in an outputs folder of a short name, as sockets want it."""
    assert mqlearn("run", "-m", *SMALL, "seed=1,2").code == 0
    return min((outputs / "runs" / "default").iterdir())


KINDS = [pytest.param(kind, marks=[pytest.mark.integration] * (kind != "pipe")) for kind in STRANGE]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_file_that_is_no_file_is_damage_and_nobody_waits_for_it(kind, swept, mqlearn, monkeypatch, work):
    for name in ("curves.npz", "tables.npz", "summary.json", "config.yaml"):
        (swept / name).unlink()
        monkeypatch.chdir(swept)
        STRANGE[kind](Path(name))
        monkeypatch.chdir(work)
        told = mqlearn("status", "tracking=none")
        assert told.code == 0 and ("1 damaged" in told.out or kind == "links in a circle"), told
        assert mqlearn("upload", swept).code == 2
        made = mqlearn("run", "-m", *SMALL, "seed=1,2")
        assert made.code == 0 and "1 done, 1 skipped" in made.out, made
        assert (swept / name).is_file() and not (swept / name).is_symlink()


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_or_a_state_that_is_no_file_is_said_and_the_rest_is_shown(kind, swept, mqlearn, outputs, monkeypatch):
    (sweep,) = journal.sweeps(outputs).iterdir()
    shutil.copytree(sweep, sweep.with_name("other"))
    for path in (sweep / "other.json", sweep.with_name("other") / "plan.json", sweep / "cells" / "1.json"):
        path.unlink(missing_ok=True)
        monkeypatch.chdir(path.parent)
        STRANGE[kind](Path(path.name))
    told = mqlearn("status", "tracking=none")
    assert told.code == 0 and "2 planned, 2 done" in told.out
    assert len(told.err.splitlines()) == (kind != "links in a circle") and ("is damaged" in told.err) == bool(told.err)


@pytest.mark.parametrize("kind", STRANGE)
def test_a_model_that_is_no_file_is_refused_with_the_reason(kind, mqlearn, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    STRANGE[kind](Path("model.npz"))
    told = mqlearn("run", "env=file", "env.path=model.npz")
    reason = "Too many levels of symbolic links" if kind == "links in a circle" else "it is no ordinary file"
    assert told.code == 2 and told.err == f"mqlearn: env.path='model.npz': cannot be read ({reason})\n"


@pytest.mark.parametrize("place", ["curves.npz", "more/notes.txt"])
def test_a_pipe_in_a_run_folder_is_not_handed_to_a_store(place, stored, swept, mqlearn):
    (swept / place).parent.mkdir(exist_ok=True)
    (swept / place).unlink(missing_ok=True)
    os.mkfifo(swept / place)
    done = mqlearn("upload", swept)
    assert done.code == 2 and "no ordinary file" in done.err and Path(place).name in done.err


@pytest.mark.parametrize("name", ["tables.npz", "curves.npz"])
def test_objects_in_an_array_are_not_handed_to_a_store(name, stored, swept, mqlearn):
    """As in a folder of a version without checksums."""
    with np.load(swept / name) as file:
        kept = dict(file)
    np.savez(swept / name, **kept, more=np.array([{"a": 1}], dtype=object))
    summary = json.loads((swept / "summary.json").read_text())
    for entry in ("files", "checksum", "format"):
        summary.pop(entry)
    (swept / "summary.json").write_text(json.dumps(summary))
    done = mqlearn("upload", swept)
    assert done.code == 2 and name in done.err and "MLflow run" not in done.out


VALUES = (None, True, 0, -1, 2**70, 1.5, "", "x", "\x00", [], [1], {}, {"a": 1}, [[]], "a" * 300, [None], [{}])


def entries(node, place=()):
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield (*place, key)
            yield from entries(node[key], (*place, key))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.integration) for seed in range(1, 6))])
def test_plans_and_states_of_wrong_types_cost_nothing_but_themselves(seed, swept, mqlearn, outputs):
    draw = random.Random(seed)
    (sweep,) = journal.sweeps(outputs).iterdir()
    plan = json.loads((sweep / "plan.json").read_text())
    state = json.loads((sweep / "cells" / "1.json").read_text())
    places = [*entries(plan), *((("digest_version"),),) * 9]
    for number in range(20):
        spoilt, said = json.loads(json.dumps(plan)), json.loads(json.dumps(state))
        for content, where in ((spoilt, draw.choice(places)), (said, draw.choice([*entries(state)]))):
            node = content
            for key in where[:-1]:
                node = node[key]
            node[where[-1]] = draw.choice(VALUES)
        if draw.random() < 0.3:
            spoilt["digest_version"] = 1
        other = sweep.with_name("20000101-000000-0000")
        shutil.rmtree(other, ignore_errors=True)
        (other / "cells").mkdir(parents=True)
        (other / "plan.json").write_text(json.dumps(draw.choice(VALUES) if number == 0 else spoilt))
        (other / "cells" / "1.json").write_text(json.dumps(draw.choice(VALUES) if number % 9 == 0 else said))
        told = mqlearn("status", "tracking=none", "--json", "-")
        assert told.code in (0, 1) and len(told.err.splitlines()) <= 1, (told, spoilt, said)
        shown = [one for one in json.loads(told.out)["experiments"] if one["experiment"] == "default"]
        assert shown[0]["done"] == 2, (told, spoilt)


def flipped(draw: random.Random, content: bytes) -> bytes:
    """One bit or byte is another, or the file is cut; mostly in what describes the arrays, not in the arrays."""
    changed = bytearray(content)
    heads = [at for mark in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY") for at in found(content, mark)]
    place = draw.choice(heads) + draw.randrange(60) if draw.random() < 0.8 else draw.randrange(len(content))
    changed[min(place, len(content) - 1)] ^= draw.choice((1, 2, 4, 8, 16, 32, 64, 128, 255))
    return bytes(changed[: draw.randrange(len(content))] if draw.random() < 0.1 else changed)


def found(content: bytes, mark: bytes) -> list[int]:
    places, at = [], content.find(mark)
    while at >= 0:
        places.append(at)
        at = content.find(mark, at + 1)
    return places


@pytest.fixture(scope="module")
def bench() -> bytes:
    folder = PACKAGE.parent / "outputs" / "paper"
    return min(folder.glob("bench_*.npz"), key=lambda path: path.stat().st_size).read_bytes()


@pytest.mark.parametrize("seed", range(3))
def test_any_damage_of_arrays_is_one_error(seed, bench, tmp_path):
    draw, path = random.Random(seed), tmp_path / "kept.npz"
    model, logged, curves = (tmp_path / name for name in ("model.npz", "logged.npz", "curves.npz"))
    np.savez(model, transitions=np.full((2, 1, 2), 0.5), rewards=np.ones((2, 1)))
    np.savez_compressed(logged, states=np.arange(9) % 2, actions=np.zeros(9, int), rewards=np.ones(9))
    np.savez(curves, iteration=np.arange(3), q_error=np.ones((2, 3)))
    whole = {one: one.read_bytes() for one in (model, logged, curves)}
    for _ in range(100):
        path.write_bytes(flipped(draw, bench))
        for reader, wrong in ((results.read, ValueError), (reference._read, SettingError), (arrays, ValueError)):
            with contextlib.suppress(wrong):
                reader(path)
        for one, content in whole.items():
            one.write_bytes(flipped(draw, content))
        for call in (
            lambda: from_file(str(model), discount=0.9),
            lambda: Recorded(str(logged)).digest(),
            lambda: read.file(curves, read.curves),
            lambda: read.file(curves, read.check_table_heads),
        ):
            with contextlib.suppress(SettingError):
                call()
        assert isinstance(checksums.damage(tmp_path, ["curves.npz"], None), str)


def test_arrays_are_given_no_room_that_their_file_does_not_have(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros(9))
    content = (tmp_path / "a.npz").read_bytes().replace(b"(9,), }", b"(9999999999999,), }"[:7])
    (tmp_path / "a.npz").write_bytes(content.replace(b"'<f8'", b"'<f4'"))
    with pytest.raises(ValueError, match=r"another size|Bad"):
        arrays(tmp_path / "a.npz")


def test_swapped_folders_are_refused_with_the_way_out(swept, mqlearn):
    one, other = sorted(swept.parent.iterdir())
    one.rename(swept.parents[1] / "aside")
    other.rename(one)
    (swept.parents[1] / "aside").rename(other)
    done = mqlearn("run", "-m", *SMALL, "seed=1,2")
    assert done.code == 2 and f"whose folder is {other}" in done.err and "move it away" in done.err
