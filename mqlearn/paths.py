"""Where things are: the package, its configuration files, and the folder of results."""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
CONF = PACKAGE / "conf" if (PACKAGE / "conf").is_dir() else PACKAGE.parent / "conf"


def config_groups() -> list[str]:
    """The groups of settings: folders of conf/, but for what other verbs read than run."""
    others = ("claim", "hydra", "suite")
    return sorted(path.name for path in CONF.iterdir() if path.is_dir() and path.name not in others)


def expanded(name: str | Path) -> Path:
    """The path with ~ for the home folder; as written, where there is no such user."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def outputs_folder() -> Path:
    """MQLEARN_OUTPUTS if set, else outputs/ of the clone, else ./outputs; absolute."""
    named = os.environ.get("MQLEARN_OUTPUTS")
    if named:
        return Path(os.path.realpath(expanded(named)))
    clone = PACKAGE.parent
    return (clone if (clone / "pyproject.toml").is_file() else Path.cwd()).resolve() / "outputs"
