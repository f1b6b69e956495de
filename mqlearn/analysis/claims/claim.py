"""Claims as they are written, yamls in conf/claim, and what is answered.

A yaml says the claim (`statement`, `place` in the paper, `ours: true` where it is a question of this project about that
place, `reading`: what the paper leaves open and what was taken), the runs that it needs (`runs`: overrides, conditions,
labelled curves), its `checks` (see `pairs`, `single_runs`, `predicted`; `aside: true`: told beside the verdict), and by
which conditions the answer is told (`by`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings import yamls
from mqlearn.paths import CONF, expanded

_KEYS = ("statement", "place", "ours", "reading", "runs", "smoke", "checks", "by")
_RUNS = ("experiment", "base", "conditions", "panel", "curves")
_CHECKS = {
    "pairs": ("a", "b", "a_in", "b_in", "expect", "quantity", "summary", "metric", "at", "measure", "margin"),
    "rate": ("of", "quantity", "metric", "power", "window", "exponent", "resolution"),
    "shape": ("of", "quantity", "metric", "power", "window"),
    "bound": ("of", "quantity", "delta", "corrected"),
    "predicted": ("of", "quantity", "norm", "tolerance"),
    "order": ("of", "quantity", "norm", "apart"),
    "floor": ("of", "quantity", "within"),
}
_NEEDED = {
    "pairs": ("a", "b"),
    "rate": ("of", "window", "exponent"),
    "shape": ("of", "window"),
    "bound": ("of", "delta"),
    "predicted": ("of", "tolerance"),
    "order": ("of", "norm", "apart"),
    "floor": ("of", "within"),
}


@dataclass(frozen=True)
class Claim:
    """A yaml of conf/claim, read: `spec` has its keys."""

    name: str
    spec: dict[str, Any]


@dataclass(frozen=True)
class ClaimAnswer:
    """A claim with its checks, its verdict, and the digest of the curves that decided it."""

    claim: Claim
    checks: tuple[Any, ...]
    verdict: str
    conditions: list[str]
    data_digest: str


def known(config_dir: str | None = None) -> list[str]:
    """Names of all claims."""
    return sorted({path.stem for folder in _folders(config_dir) for path in folder.glob("*.yaml")})


def _folders(config_dir: str | None) -> list[Path]:
    return [*([expanded(config_dir) / "claim"] if config_dir else []), CONF / "claim"]


def path_of(name: str, config_dir: str | None = None) -> Path:
    """The yaml of a claim. Raises SettingError for a name that there is not, with the nearest."""
    for folder in _folders(config_dir):
        if name in known(config_dir) and (folder / f"{name}.yaml").is_file():
            return folder / f"{name}.yaml"
    names = known(config_dir)
    raise SettingError("claim", name, f"must be one of {', '.join(names)}{nearest(name, names)}")


def load(name: str, config_dir: str | None = None) -> Claim:
    """A claim, its keys checked. Raises SettingError, which names the file and the key."""
    path = path_of(name, config_dir)
    spec = _keys(path, "", yamls.read("claim", path), _KEYS, needed=("statement", "place", "reading", "runs", "checks"))
    _keys(path, "runs", spec["runs"], _RUNS, needed=("conditions",))
    _keys(path, "smoke", spec.get("smoke", {}), _RUNS)
    if not isinstance(spec["checks"], list) or not spec["checks"]:
        raise SettingError("checks", spec["checks"], f"must be a list of checks, in {path}")
    for check in spec["checks"]:
        kind = check.get("test") if isinstance(check, dict) else check
        if kind not in _CHECKS:
            raise SettingError(
                "checks.test", kind, f"must be one of {', '.join(_CHECKS)}, in {path}{nearest(str(kind), _CHECKS)}"
            )
        _keys(path, "checks", check, ("test", "aside", *_CHECKS[kind]), needed=_NEEDED[kind])
    return Claim(name, spec)


def _keys(path: Path, where: str, node: Any, keys: Sequence[str], needed: Sequence[str] = ()) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise SettingError(where or "claim", node, f"must be a mapping, in {path}")
    for key in node:
        if key not in keys:
            raise SettingError(
                f"{where}.{key}".lstrip("."), node[key], f"is no key of a claim, in {path}{nearest(str(key), keys)}"
            )
    for key in needed:
        if not node.get(key):
            raise SettingError(f"{where}.{key}".lstrip("."), node.get(key), f"must be given, in {path}")
    return node
