"""How functions are compiled by numba, where the compiled code is kept, and when it counts as stale.

`compiled` and `inlined` are numba's `njit` with the options of this package: no GIL, no fastmath. Compiled code is kept
beside the source (in NUMBA_CACHE_DIR if that is set, in the user's cache folder where the source cannot be written to,
nowhere if neither can). Of processes that need the same code at the same time one compiles it, and the others wait for
its file. Numba itself looks at the one file of a function, and so misses an edit in a file that the function calls
into. Here the code of a function is stamped with all files of its folder, this file, `formulas`, the five numbers of an
operator, and the versions of Python, NumPy, numba and llvmlite: whatever changes there, everything is compiled anew.

That takes names of numba that are not public. Its own cache=True, besides that edit, keeps nothing of a module that is
in no file, as those of rules with state are: each process would compile a rule anew, 1.3 to 3.5 s of a core for a mode;
from disk it takes 0.01 s.

NUMBA_DISABLE_JIT=1 runs all of it as plain Python, for a debugger: the same numbers, a thousand times slower.

A cache that cannot be read is as good as none. Each file begins with a checksum of the rest; one that is truncated or
garbage is said once, compiled anew and written anew. One of another stamp is compiled anew without a word.
"""

import contextlib
import functools
import hashlib
import inspect
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import config, njit  # pyright: ignore[reportPrivateImportUsage] of its manual
from numba import extending as numba_extending
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

_BESIDE = ("jit.py", "formulas.py", "algorithms/operators/operator.py")  # what kernels compile of other folders
_CHECKSUM = hashlib.sha256().digest_size

PLAIN = bool(getattr(config, "DISABLE_JIT", 0))


def _plainly(function: Callable) -> Callable:
    """The function as Python runs it, as silent as compiled code where random words wrap, or 1 / 0 is inf."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments, **named)

    return call


# Inlined by numba itself: left to LLVM, a call may stay in a loop, which is then not vectorised, and in which numba
# counts the references to array arguments at every iteration.
inlined: Any = _plainly if PLAIN else njit(inline="always")


def instruction(plain: Callable) -> Any:
    """Decorate what generates LLVM's instructions for a call (numba's `intrinsic`); `plain`: the same in Python."""
    extending: Any = numba_extending
    return (lambda generator: plain) if PLAIN else extending.intrinsic


def compiled(
    function: Callable | None = None,
    *,
    apart: bool = False,
    short: bool = False,
    depends: bytes = b"",
    folder: Path | None = None,
    **options: Any,
) -> Any:
    """Compile a function, or decorate one, at its first call; the code is cached on disk where that can be written.

    apart: promises that its array arguments never overlap, which lets LLVM keep numbers in registers, and that it makes
    no arrays: so numba counts no references, which takes longer than many a short loop.
    short: a call of a microsecond between steps in Python: giving up the GIL would cost more than the call.
    depends: what else the code stands on, for generated modules: the stamp of the kernels that they call, and their own
    text if it is in no file.   folder: where its cache is kept, instead of beside its source.   options: of `njit`.

    NumPy's error model, in which a division by zero gives inf: an exception would be a way out of each loop.
    """
    if function is None:
        return functools.partial(
            compiled, apart=apart, short=short, depends=depends, folder=folder, **options
        )  # fmt: skip
    if PLAIN:
        return _plainly(function)
    promised = {"_nrt": False, **without_overlap()} if apart else {"_nrt": True}  # unsaid, it is that of the caller
    options = {"nogil": not short, "error_model": "numpy", **promised, **options}
    dispatcher: Any = njit(**options)(function)
    place = _cache_folder(Path(inspect.getfile(function)), folder)
    if place is not None:
        dispatcher._cache = cache = _Cache(function, _Locator(function, place, depends))
        compiler = dispatcher._compiler
        compiler.compile = functools.partial(_compile_once, cache, dispatcher.targetctx, compiler.compile)
    return dispatcher


@functools.cache
def without_overlap() -> dict[str, Any]:
    """Options of numba for a function whose array arguments never overlap: LLVM then need not expect that they do.

    Numba has the flag but no option for it, so a compiler of our own sets it; a numba without it compiles as usual.
    """
    try:
        from numba.core.compiler import Compiler, Flags

        if "noalias" not in Flags.options:
            return {}
    except (ImportError, AttributeError):
        return {}

    class Apart(Compiler):
        def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
            flags.noalias = True
            super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    return {"pipeline_class": Apart}


@functools.cache
def stamp(folder: Path) -> bytes:
    """A digest of all Python files in a folder, of what they compile of other folders, and of what compiles them."""
    code = hashlib.sha256(" ".join((sys.version, np.__version__, numba.__version__, llvmlite.__version__)).encode())
    for path in [*(Path(__file__).parent / name for name in _BESIDE), *sorted(folder.glob("*.py"))]:
        text = path.read_bytes()
        code.update(f"{path.name} {len(text)} ".encode())
        code.update(text)
    return code.digest()


_told: list[Callable[[], None]] = []


@contextlib.contextmanager
def telling(tell: Callable[[], None]) -> Iterator[None]:
    """Have `tell` called whenever something is about to be compiled, which takes seconds."""
    _told.append(tell)
    try:
        yield
    finally:
        _told.remove(tell)


def cache_folder(source: Path) -> Path | None:
    """Where the code of a function in this file is kept, as a folder for modules that are generated; None: nowhere."""
    return _cache_folder(source, None)


# --- one process compiles -------------------------------------------------------------------------------------------

_PATIENCE = 300.0  # seconds after which a process compiles for itself, whatever another one is at


def _compile_once(cache: "_Cache", target: Any, compile: Callable, arguments: Any, returned: Any) -> Any:
    """Numba's `compile`, within a lock: what another process has compiled meanwhile is read. Called with numba's lock
    held, so that no two threads of one process meet here."""
    signature = arguments if returned is None else returned(*arguments)
    with _alone(cache.lock_path) as waited:
        found = cache.load_overload(signature, target) if waited else None
        if found is None:
            found = compile(arguments, returned)
            cache.keep(signature, found)
        elif not found.objectmode:
            target.insert_user_function(found.entry_point, found.fndesc, [found.library])
    return found


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Hold a lock between processes, where the file system has one; yields whether it had to be waited for.

    Not one of `storage.locks`, which lie above this module, are waited for without end, and remove their file.
    """
    try:
        import fcntl

        file = path.open("w")
    except (ImportError, OSError):
        yield False
        return
    with file:
        end, waited = time.monotonic() + _PATIENCE, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = True
                if time.monotonic() > end:
                    break
                time.sleep(0.02)
            except OSError:  # no locks here
                break
        yield waited


# --- the cache ------------------------------------------------------------------------------------------------------


def _cache_folder(source: Path, wanted: Path | None) -> Path | None:
    """The first folder that can be written to; None: compile without a cache."""
    return next(filter(_writable, _candidates(source, wanted)), None)


def _candidates(source: Path, wanted: Path | None) -> Iterator[Path]:
    if wanted is not None:
        yield wanted
        return
    own = _CacheLocator.get_suitable_cache_subpath(str(source))
    if chosen := getattr(config, "CACHE_DIR", ""):  # of NUMBA_CACHE_DIR
        yield Path(chosen) / own
    if source.exists():
        yield source.parent / "__pycache__"
        yield Path(AppDirs(appname="numba", appauthor=False).user_cache_dir) / own


@functools.cache
def _writable(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        return True
    return False


class _Locator(_CacheLocator):
    """Where the code of a function is kept, and what it is stamped with."""

    def __init__(self, function: Callable, folder: Path, depends: bytes) -> None:
        self._py_file = inspect.getfile(function)
        self._line = function.__code__.co_firstlineno
        self._folder = folder
        self._depends = depends

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> bytes:
        return hashlib.sha256(stamp(Path(self._py_file).parent) + self._depends).digest()

    def get_disambiguator(self) -> str:
        return str(self._line)


class _Impl(CompileResultCacheImpl):
    """How compiled code becomes bytes, by numba; under a name with the module, the function and its line."""

    def __init__(self, function: Any, locator: _Locator) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = locator
        name = f"{Path(locator._py_file).stem}.{function.__qualname__}"
        self._filename_base = self.get_filename_base(name, getattr(sys, "abiflags", ""))


class _Files(IndexDataCacheFile):
    """The files of one function: an index from signatures to files of code. Each is a checksum, the stamp, a pickle."""

    def load(self, key: Any) -> Any:
        name = self._index().get(key)
        return None if name is None else self._read(self._data_path(name))

    def save(self, key: Any, data: Any) -> None:
        # Named by its key: processes that compile different signatures at once must not write one and the same file.
        number = int.from_bytes(hashlib.sha256(dumps(key)).digest()[:4])
        name = self._data_name(number)
        self._write(self._data_path(name), data)
        self._write(self._index_path, {**self._index(), key: name})

    def flush(self) -> None:
        self._write(self._index_path, {})

    def _index(self) -> dict[Any, str]:
        return self._read(self._index_path) or {}

    def _read(self, path: str) -> Any:
        """What was written; None if there is nothing, or of another stamp. Raises ValueError."""
        try:
            raw = Path(path).read_bytes()
        except FileNotFoundError:
            return None
        checksum, body = raw[:_CHECKSUM], raw[_CHECKSUM:]
        if checksum != hashlib.sha256(body).digest():
            raise ValueError(f"{path} is damaged")
        if not body.startswith(self._source_stamp):  # its pickle may name what is no longer there
            return None
        return pickle.loads(body[len(self._source_stamp) :])

    def _write(self, path: str, data: Any) -> None:
        body = self._source_stamp + dumps(data)
        with self._open_for_write(path) as file:  # under another name first: nobody reads half of it
            file.write(hashlib.sha256(body).digest() + body)


class _Cache(FunctionCache):
    """Numba's cache of a function, in which whatever is wrong is as good as nothing."""

    def __init__(self, function: Callable, locator: _Locator) -> None:
        self._name = repr(function)
        self._py_func = function
        self._impl = _Impl(function, locator)
        self._cache_path = locator.get_cache_path()
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, locator.get_source_stamp())
        self.lock_path = Path(self._cache_path) / f"{self._impl.filename_base}.lock"
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = None
        try:
            found = super().load_overload(sig, target_context)
        except Exception:
            _say_unreadable(self._cache_path)
            with contextlib.suppress(OSError):
                self.flush()
        if found is None:
            for tell in _told:
                tell()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Nothing: `keep` has saved it, while no other process could begin to compile the same."""

    def keep(self, sig: Any, data: Any) -> None:
        """Save what has been compiled for a signature."""
        with contextlib.suppress(OSError, ValueError):  # no room, or damaged meanwhile: the next process compiles anew
            super().save_overload(sig, data)


@functools.cache
def _say_unreadable(folder: str) -> None:
    print(f"mqlearn: the compile cache in {folder} could not be read; compiling anew", file=sys.stderr, flush=True)
