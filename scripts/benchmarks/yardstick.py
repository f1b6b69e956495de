"""The rivals in C: scripts/yardstick.c, compiled for this processor."""

import ctypes
import math
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn.sampling.chains import Chain

SOURCE = Path(__file__).resolve().parents[1] / "yardstick.c"


class _Model(ctypes.Structure):
    _fields_ = [
        ("offsets", ctypes.c_void_p),
        ("successors", ctypes.c_void_p),
        ("rewards", ctypes.c_void_p),
        ("thresholds", ctypes.c_void_p),
        ("outcomes", ctypes.c_long),
        ("starts", ctypes.c_void_p),
        ("n_starts", ctypes.c_long),
        ("keep", ctypes.c_void_p),
        ("alias", ctypes.c_void_p),
        ("goal", ctypes.c_void_p),
    ]


class Yardstick:
    """scripts/yardstick.c, compiled for this processor; `missing` says why there is none."""

    def __init__(self) -> None:
        self.library: Any = None
        self.missing = ""
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if compiler is None:
            self.missing = "skipped: no C compiler"
            return
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "yardstick.so"
            flags = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(target)]
            done = subprocess.run([compiler, *flags, str(SOURCE), "-lm"], capture_output=True, text=True)
            if done.returncode:
                self.missing = f"skipped: {compiler} failed: {done.stderr.strip()[:200]}"
                return
            self.library = ctypes.CDLL(str(target))

    @property
    def missing_avx512(self) -> str:
        return self.missing or ("" if self.library.has_avx512() else "skipped: no AVX-512")

    def call(self, function: str, *arguments: Any) -> None:
        """Arrays and structures go as pointers, whole numbers as long, np.uint32 as such."""
        getattr(self.library, function)(*map(_argument, arguments))


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, ctypes.Structure):
        return ctypes.byref(value)
    if type(value) is np.uint32:
        return ctypes.c_uint32(int(value))
    return ctypes.c_long(value) if isinstance(value, int) else ctypes.c_double(value)


def chain_arguments(chain: Chain) -> tuple[ctypes.Structure, list[np.ndarray]]:
    """The chain's model and episode starts for C, and the arrays that must stay alive meanwhile."""
    offsets, successors, rewards, thresholds, _ = chain.model
    starts, keep, alias, goal = chain.tables.starts, chain.tables.keep, chain.tables.alias, chain.tables.goal
    arrays = [offsets, successors, rewards, thresholds, starts, keep, alias, goal]
    p = [array.ctypes.data for array in arrays]
    return _Model(*p[:4], thresholds.shape[1], p[4], len(starts), *p[5:]), arrays


def aligned(shape: tuple[int, int]) -> np.ndarray:
    """Zeros that begin at a multiple of 64 bytes."""
    raw = np.zeros(math.prod(shape) + 8)
    first = -raw.ctypes.data // 8 % 8
    return raw[first : first + math.prod(shape)].reshape(shape)


def same(name: str, *pairs: tuple[np.ndarray, np.ndarray]) -> None:
    for ours, theirs in pairs:
        if not np.array_equal(ours, theirs):
            raise SystemExit(f"{name}: C and kernel differ, by up to {np.abs(ours - theirs).max()}")
