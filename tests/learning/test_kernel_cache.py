"""What compiled code is stamped with, and a cache that cannot be read, which is as good as none."""

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from mqlearn import jit, kernels

KERNELS = Path(kernels.__file__).parent

CALLEE = """
from typing import NamedTuple
from mqlearn.jit import compiled
class Two(NamedTuple):
    a: int
    b: float
@compiled
def twice(two):
    return two.a * two.b
"""
CALLER = """
from callee import Two, twice
from mqlearn.jit import compiled
@compiled
def called(x):
    return twice(Two(x, 2.0)) + 1
"""
RUN = "import sys; from caller import called; print(*(called(eval(x)) for x in sys.argv[1:]))"


@pytest.fixture
def package(tmp_path: Path, monkeypatch) -> Path:
    """Two files that are compiled in a moment, one of which calls into the other."""
    (tmp_path / "callee.py").write_text(CALLEE)
    (tmp_path / "caller.py").write_text(CALLER)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def call() -> tuple[float, int]:
    """called(4) as a process sees it that has just started, and how many compiled functions were in its cache."""
    jit.stamp.cache_clear()
    jit._say_unreadable.cache_clear()
    for name in ("caller", "callee"):
        sys.modules.pop(name, None)
    called = import_module("caller").called
    return called(4), sum(called.stats.cache_hits.values())


def cached(package: Path, suffix: str) -> list[Path]:
    return sorted((package / "__pycache__").glob(f"*{suffix}"))


def test_an_edit_of_any_file_changes_the_stamp_of_all(tmp_path, monkeypatch):
    copy = tmp_path / "kernels"
    shutil.copytree(KERNELS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    beside = ("jit.py", "formulas.py", "algorithms/operators/operator.py")
    for name in beside:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(jit.__file__).parent / name, tmp_path / name)
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "jit.py"))
    stamps = {jit.stamp.__wrapped__(copy)}
    edited = [*(tmp_path / name for name in beside), *sorted(copy.glob("*.py"))]
    assert len(edited) >= 9
    for path in edited:
        path.write_text(path.read_text() + "# edited\n")
        stamps.add(jit.stamp.__wrapped__(copy))
    assert len(stamps) == 1 + len(edited)


def test_all_kernels_have_one_stamp():
    stamps = {}
    for path in KERNELS.glob("*.py"):
        for value in vars(import_module(f"mqlearn.kernels.{path.stem}")).values():
            cache = getattr(value, "_cache", None)
            if isinstance(cache, jit._Cache):
                stamps[value.__name__] = cache._cache_file._source_stamp
    assert len(stamps) > 20
    tiles = {stamps.pop("tile_columns"), stamps.pop("simulated_linear")}  # of the problems, and what stands on that too
    assert len(set(stamps.values())) == 1 and not tiles & set(stamps.values())


def test_an_edit_of_the_file_that_is_called_reaches_its_callers(package, capfd):
    assert [call(), call()] == [(9.0, 0), (9.0, 1)]
    (package / "callee.py").write_text(CALLEE.replace("two.a * two.b", "two.a * two.b * 10"))
    assert [call(), call()] == [(81.0, 0), (81.0, 1)]
    # What the old cache names is no longer there. That is nothing to speak of.
    (package / "callee.py").write_text(CALLEE.replace("Two(", "Pair(").replace("two.a * two.b", "7.0") + "Two = Pair\n")
    assert [call(), call()] == [(8.0, 0), (8.0, 1)]
    assert not capfd.readouterr().err


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def one_bit(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "half": half,
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 8),
    "one bit": one_bit,
}


@pytest.mark.parametrize("suffixes", [(".nbi",), (".nbc",), (".nbi", ".nbc")], ids="+".join)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_is_said_once_and_healed(package, capfd, damage, suffixes):
    call()
    for suffix in suffixes:
        assert len(cached(package, suffix)) == 2
        for path in cached(package, suffix):
            DAMAGE[damage](path)
    assert call() == (9.0, 0)
    place = package / "__pycache__"
    assert capfd.readouterr().err == f"mqlearn: the compile cache in {place} could not be read; compiling anew\n"
    assert call() == (9.0, 1)
    assert not capfd.readouterr().err


def test_four_processes_at_once(package, capfd):
    """On a damaged cache, with two signatures: what each writes is whole, and nobody takes code for another's."""
    call()
    for path in cached(package, ".nbi"):
        path.write_bytes(b"")
    environment = os.environ | {"PYTHONPATH": str(package)}
    calls = [["4"], ["4", "2.5"], ["2.5", "4"], ["2.5"]]
    started = [subprocess.Popen([sys.executable, "-c", RUN, *some], env=environment) for some in calls]
    assert [process.wait(timeout=240) for process in started] == [0] * 4
    said = capfd.readouterr()
    assert sorted(said.out.split()) == ["6.0"] * 3 + ["9.0"] * 3
    assert said.err.count("\n") <= 4
    for _ in range(2):  # the first may still compile what was lost when one wrote over the index of another
        assert call()[0] == 9.0
        assert sys.modules["caller"].called(2.5) == 6.0
        assert not capfd.readouterr().err
    assert not sys.modules["caller"].called.stats.cache_misses


COUNT = """
import numba.core.compiler as compiler
done, compile_extra = [], compiler.compile_extra
compiler.compile_extra = lambda *given, **named: done.append(given) or compile_extra(*given, **named)
"""


def test_of_processes_at_once_one_compiles(package):
    environment = os.environ | {"PYTHONPATH": str(package)}
    command = [sys.executable, "-c", f"{COUNT}{RUN}; print(len(done))", "4"]
    started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = [process.communicate(timeout=240)[0].split() for process in started]
    assert [value for value, _ in printed] == ["9.0"] * 3
    assert sum(int(number) for _, number in printed) == 2  # the function and the one that it calls


def test_a_compilation_that_fails_lets_the_next_one_begin(package):
    call()
    called = sys.modules["caller"].called
    with pytest.raises(Exception, match="unicode_type"):
        called("text")
    with jit._alone(called._cache.lock_path) as waited:
        assert not waited


def test_generated_code_is_stamped_with_what_it_stands_on(tmp_path):
    """A module that is written at run time: its cache is where we want it, and stale when its `depends` changes."""
    source = tmp_path / "made" / "rule.py"
    source.parent.mkdir()
    source.write_text("def move(x):\n    return x + 1\n")
    namespace: dict = {}
    exec(compile(source.read_text(), str(source), "exec"), namespace)

    def hits(depends: bytes) -> int:
        move = jit.compiled(namespace["move"], depends=depends, folder=tmp_path / "cache")
        assert move(1) == 2
        return sum(move.stats.cache_hits.values())

    kernels_stamp = jit.stamp(KERNELS)
    assert [hits(kernels_stamp), hits(kernels_stamp), hits(kernels_stamp + b"operator")] == [0, 1, 0]
    assert not (source.parent / "__pycache__").exists()
