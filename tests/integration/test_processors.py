"""The recorded runs and the goldens on other processors, as far as this one can play them.

Libraries choose their code by the processor; each of the settings here has them choose as for another one. Only what
this processor has can run: what is left out is printed, and a machine on which no setting changes a bit has shown
nothing, which fails.
"""

import functools
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
# Kernels of OpenBLAS, and instructions that they are made of.
CORES = {
    "Haswell": {"AVX2", "FMA3"}, "Zen": {"AVX2", "FMA3"}, "SkylakeX": {"AVX512F", "AVX512DQ", "AVX512VL"},
    "Prescott": {"SSE3"},
}  # fmt: skip
SETTINGS = ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "NUMBA_CPU_NAME")
RECORDED = ("tests/experiments/test_identity.py", "-k", "recorded_run_is_repeated or must_have_its_bits")
GOLDEN = ("tests/learning/test_golden.py",)
KERNELS = {"generic": "equal and shares or iid", "nehalem": "equal and shares"}  # few: each is compiled anew
PROBE = """
import hashlib
import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu
from mqlearn.kernels.random import lane_words
a, b = np.random.default_rng(0).random((2, 60, 60))
p = np.eye(60) - 0.9 * a / a.sum(1, keepdims=True)
of_blas = a @ b[0], np.linalg.solve(a, b), np.linalg.eigh(a + a.T)[1], splu(sparse.csc_array(p)).solve(b[0])
k = np.arange(1.0, 5000.0)
of_numpy = np.exp(-k / 700), np.log(k), np.cos(k), k**-0.7, 0.9999**k
for arrays in (of_blas, of_numpy):
    print(hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest())
"""


def features() -> Mapping[str, bool]:
    from numpy._core._multiarray_umath import __cpu_features__  # pyright: ignore[reportAttributeAccessIssue] of no stub

    return __cpu_features__


def wide() -> list[str]:
    """What NumPy has beyond its baseline and this processor too, from the narrowest on."""
    from numpy._core._multiarray_umath import __cpu_dispatch__  # pyright: ignore[reportAttributeAccessIssue] as above

    return [name for name in __cpu_dispatch__ if features()[name]]


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    return {**plain, "OPENBLAS_NUM_THREADS": "1", **changes}


@functools.cache
def bits(*changes: tuple[str, str]) -> tuple[str, ...]:
    """What comes out of BLAS and of NumPy's own functions."""
    command = [sys.executable, "-W", "ignore", "-c", PROBE]
    done = subprocess.run(command, env=environment(dict(changes)), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tuple(done.stdout.split())


def possible() -> tuple[dict[str, dict[str, str]], list[str]]:
    """Settings by name, those first that are furthest from this processor; and what it cannot play."""
    found, without = {}, []
    for core, needed in CORES.items():
        if all(features().get(name, False) for name in needed):
            found[core] = {"OPENBLAS_CORETYPE": core}
        else:
            without.append(f"OPENBLAS_CORETYPE={core}: needs {', '.join(sorted(needed))}")
    names = wide()
    for label, some in (("NumPy's baseline", names), ("NumPy without its widest", names[1:])):
        if some:
            found[label] = {"NPY_DISABLE_CPU_FEATURES": " ".join(some)}
        else:
            without.append(f"{label}: there is nothing to switch off")
    return found, without


def passes(what: tuple[str, ...], changes: Mapping[str, str], capsys) -> None:
    _, without = possible()
    with capsys.disabled():
        said = ", ".join(f"{name}={value}" for name, value in changes.items())
        print(f"\n{said}: {what[0]}" + "".join(f"\nleft out, {one}" for one in without))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *what]
    done = subprocess.run(command, env=environment(changes), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{said}\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
    assert " passed" in done.stdout


def test_some_setting_gives_other_bits_than_this_processor_does_by_itself():
    usual = bits()
    found, without = possible()
    other = {name for name, changes in found.items() if bits(*changes.items()) != usual}
    assert other, f"no setting changes a bit on {platform.processor()}, so nothing is shown; left out: {without}"


def of_blas_and_numpy() -> list[dict[str, str]]:
    """Two combinations, each of another core and other instructions: those whose bits are others, if there are two."""
    found, _ = possible()
    kinds = [[changes for changes in found.values() if name in changes] for name in SETTINGS[:2]]
    usual = bits()
    ordered = [sorted(some, key=lambda changes: bits(*changes.items()) == usual) for some in kinds]
    paired = [{**blas, **numpy} for blas, numpy in zip(*ordered, strict=False)]
    return paired[:2] or [changes for some in kinds for changes in some]


@pytest.mark.parametrize("number", [0, 1])
def test_recorded_runs_are_repeated_with_other_code_of_blas_and_numpy(number, capsys):
    chosen = of_blas_and_numpy()
    if number < len(chosen):
        passes(RECORDED, chosen[number], capsys)
        passes(GOLDEN, chosen[number], capsys)


@pytest.mark.parametrize("processor", KERNELS)
def test_kernels_that_are_compiled_for_an_older_processor_give_the_same_bits(processor, capsys):
    if platform.machine() in ("x86_64", "AMD64"):
        passes((*GOLDEN, "-k", KERNELS[processor]), {"NUMBA_CPU_NAME": processor}, capsys)
