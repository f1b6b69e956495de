"""Where things are on this machine: the package, its configuration files, the folder of results; whose a file is."""

import functools
import os
import sysconfig
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
INSTALLED = ("site-packages", "dist-packages")  # folders of what was installed
CONF = PACKAGE / "conf" if (PACKAGE / "conf").is_dir() else PACKAGE.parent / "conf"


@functools.cache
def config_groups() -> list[str]:
    """The groups of settings: folders of conf/, but for what other verbs read than run."""
    others = ("claim", "hydra", "paper", "suite")
    return sorted(path.name for path in CONF.iterdir() if path.is_dir() and path.name not in others)


@functools.cache
def is_users(file: str) -> bool:
    """Whether a source file is the user's: neither ours, nor of Python's library, nor installed."""
    if not file.endswith(".py"):
        return False
    real = os.path.realpath(file)
    return not real.startswith((*_library(), str(PACKAGE) + os.sep)) and not {*INSTALLED} & {*Path(real).parts}


@functools.cache  # asked of each module that is imported, this was a fifth of the time to start
def _library() -> tuple[str, ...]:
    """The folders of Python's own library."""
    return tuple({os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")})


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def expanded(name: str | Path) -> Path:
    """The path with ~ for the home folder; as written, where there is no such user."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def followed(name: str | Path) -> Path:
    """The absolute path without links; of links in a circle as far as they lead, which pathlib raises for."""
    return Path(os.path.realpath(expanded(name)))


def committed(name: str) -> Path | None:
    """A file of outputs/paper: of the outputs folder, the clone, or what the package carries; None if there is none."""
    for folder in (outputs_folder() / "paper", PACKAGE / "suites" / "stored", PACKAGE.parent / "outputs" / "paper"):
        if (folder / name).is_file():
            return folder / name
    return None


def outputs_folder() -> Path:
    """MQLEARN_OUTPUTS if set, else outputs/ of the clone, else ./outputs; absolute."""
    named = os.environ.get("MQLEARN_OUTPUTS")
    if named:
        return followed(named)
    clone = PACKAGE.parent
    return (clone if (clone / "pyproject.toml").is_file() else Path.cwd()).resolve() / "outputs"
