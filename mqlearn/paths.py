"""Where things are: the package, its configuration files, and the folder of results."""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
CONF = PACKAGE / "conf" if (PACKAGE / "conf").is_dir() else PACKAGE.parent / "conf"


def outputs_folder() -> Path:
    """MQLEARN_OUTPUTS if set, else outputs/ of the clone, else ./outputs; absolute."""
    named = os.environ.get("MQLEARN_OUTPUTS")
    if named:
        return Path(named).expanduser().resolve()
    clone = PACKAGE.parent
    return (clone if (clone / "pyproject.toml").is_file() else Path.cwd()).resolve() / "outputs"
