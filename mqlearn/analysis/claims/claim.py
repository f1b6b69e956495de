"""Claims as they are written, yamls in conf/claim, and what is answered.

Those that a yaml of conf/paper lists are of that paper of the field (see `analysis.papers`); the others are of the
paper that mqlearn implements, or a user's own.

A yaml says the claim (`statement`, `place` in the paper, `ours: true` where it is a question of this project about that
place, `reading`: what the paper leaves open and what was taken), the runs that it needs (`runs`: overrides, conditions,
labelled curves), its `checks` (see `pairs`, `single_runs`, `reported`, `exponents`, `predicted`; `aside: true`: told
beside the verdict), and by which conditions the answer is told (`by`). `in: {condition: level}` narrows a check to some
conditions. What decides a check is said by `criteria`, from its keys, and by no yaml.
"""

import functools
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn.analysis.claims.checks import LEVEL
from mqlearn.analysis.statistics.exponents import LEAST
from mqlearn.checks import choice, finite_number
from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings import own_choices, yamls

_KEYS = ("statement", "place", "ours", "reading", "runs", "smoke", "checks", "by")
_RUNS = ("experiment", "base", "conditions", "panel", "curves")
_NEEDED = object()  # in place of a default
_OF = {"of": _NEEDED}
_CURVE = {**_OF, "metric": None, "power": 1, "window": _NEEDED}
_CHECKS: dict[str, dict[str, Any]] = {
    "pairs": {
        "a": _NEEDED, "b": _NEEDED, "a_in": {}, "b_in": {}, "expect": "a_better", "summary": ["error"], "metric": None,
        "at": [1], "measure": "error", "margin": 1, "pooled": None,
    },
    "rate": {**_CURVE, "exponent": _NEEDED, "resolution": 0.5},
    "shape": _CURVE,
    "bound": {**_OF, "delta": _NEEDED, "corrected": False},
    "predicted": {**_OF, "norm": "rms", "tolerance": _NEEDED},
    "order": {**_OF, "norm": _NEEDED, "apart": _NEEDED},
    "floor": {**_OF, "within": _NEEDED},
    "exact": {**_OF, "value": _NEEDED, "equals": _NEEDED, "tolerance": _NEEDED},
    "exact_exponent": {**_OF, "over": _NEEDED, "value": _NEEDED, "between": _NEEDED, "x": "horizon"},
    "reported": {**_OF, "metric": None, "equals": _NEEDED, "tolerance": _NEEDED, "side": None},
    "ends": {**_OF, "metric": None, "below": None, "above": None},
    "exponent": {
        **_OF, "over": _NEEDED, "between": _NEEDED, "minus": None, "x": "horizon", "measure": "error", "at": 1,
        "epsilon": None, "relative": False, "metric": None, "count": "all",
    },
}  # fmt: skip
_ALL: dict[str, Any] = {"quantity": None, "aside": False, "in": {}}  # keys of every check


@dataclass(frozen=True)
class Claim:
    """A yaml of conf/claim, read: `spec` has its keys."""

    name: str
    spec: dict[str, Any]


@dataclass(frozen=True)
class ClaimAnswer:
    """A claim with its checks, its verdict, and the digest of the curves that decided it, and its whole reading."""

    claim: Claim
    checks: tuple[Any, ...]
    verdict: str
    conditions: list[str]
    data_digest: str
    reading: str


def known(config_dir: str | None = None) -> list[str]:
    """Names of the claims that no paper of the field has: those of the paper that mqlearn implements, and one's own."""
    return sorted(set(every(config_dir)) - of_papers(config_dir).keys())


def every(config_dir: str | None = None) -> list[str]:
    """Names of all claims."""
    return [*own_choices.files("claim", config_dir)]


def of_papers(config_dir: str | None = None) -> dict[str, tuple[str, int]]:
    """By claim of a paper of the field: the paper's key, and how many claims that has. Raises SettingError."""
    found: dict[str, tuple[str, int]] = {}
    for key, path in own_choices.files("paper", config_dir).items():
        listed = _listed(path, path.stat().st_mtime_ns)
        found |= dict.fromkeys(listed, (key, len(listed)))
    return found


@functools.lru_cache(maxsize=256)
def _listed(path: Path, changed: int) -> tuple[str, ...]:
    """The claims of a paper's yaml; `changed`, its time of change, has it read again then."""
    names = yamls.read("paper", path).get("claims") or ()
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def path_of(name: str, config_dir: str | None = None) -> Path:
    """The yaml of a claim. Raises SettingError for a name that there is not, with the nearest."""
    return own_choices.file_of("claim", name, config_dir)


def load(name: str, config_dir: str | None = None) -> Claim:
    """A claim, its keys checked. Raises SettingError, which names the file and the key."""
    with own_choices.reading("claim", name, config_dir) as path:
        spec = _checked(path)
    level = LEVEL / of_papers(config_dir).get(name, ("", 1))[1]
    return Claim(name, spec | {"checks": [filled(check, level) for check in spec["checks"]]})


def _checked(path: Path) -> dict[str, Any]:
    spec = _keys(path, "", yamls.read("claim", path), _KEYS, needed=("statement", "place", "reading", "runs", "checks"))
    _keys(path, "runs", spec["runs"], _RUNS, needed=("conditions",))
    _keys(path, "smoke", spec.get("smoke", {}), _RUNS)
    for runs in (spec["runs"], spec.get("smoke", {})):
        if "conditions" in runs:
            runs["conditions"] = {name: _levels(path, name, levels) for name, levels in runs["conditions"].items()}
    if not isinstance(spec["checks"], list) or not spec["checks"]:
        raise SettingError("checks", spec["checks"], f"must be a list of checks, in {path}")
    for check in spec["checks"]:
        kind = check.get("test") if isinstance(check, dict) else check
        if kind not in _CHECKS:
            raise SettingError(
                "checks.test", kind, f"must be one of {', '.join(_CHECKS)}, in {path}{nearest(str(kind), _CHECKS)}"
            )
        needed = [key for key, default in _CHECKS[kind].items() if default is _NEEDED]
        _keys(path, "checks", check, ("test", *_ALL, *_CHECKS[kind]), needed=needed)
        if kind in ("exponent", "exact_exponent"):
            for runs in (spec["runs"], {**spec["runs"], **spec.get("smoke", {})}):
                _check_exponent(path, filled(check), runs["conditions"])
    return spec


def _levels(path: Path, name: str, levels: Any) -> Any:
    """The levels of a condition; {each: SETTING, of: a list, or range(...) in words} stands for a set of problems."""
    if not isinstance(levels, dict) or levels.keys() != {"each", "of"}:
        return levels
    values, numbers = levels["of"], re.fullmatch(r"range\((\d+(?:, *\d+){0,2})\)", str(levels["of"]))
    if numbers:
        values = list(range(*map(int, numbers[1].split(","))))
    if not isinstance(values, list) or len(values) < 2:
        expected = (
            f"must be a list of two values at least, or range(first, end, step), in {path}: one problem is no set"
        )
        raise SettingError(f"runs.conditions.{name}.of", levels["of"], expected)
    return {value: [f"{levels['each']}={value}"] for value in values}


def filled(check: Mapping[str, Any], level: float = LEVEL) -> dict[str, Any]:
    """A check with the defaults of the keys that it leaves out, and the level of its claim.

    The claims of a paper of the field share LEVEL among them (Bonferroni); each other claim has it whole.
    """
    defaults = {key: value for key, value in _CHECKS[check["test"]].items() if value is not _NEEDED}
    return {**_ALL, **defaults, **{key: value for key, value in check.items() if value is not None}, "level": level}


def places(runs: Mapping[str, Any]) -> tuple[dict[str, str], ...]:
    """All combinations of levels of the conditions of a claim's `runs`."""
    factors = {str(name): levels for name, levels in runs["conditions"].items()}
    return tuple(dict(zip(factors, map(str, levels), strict=True)) for levels in itertools.product(*factors.values()))


def runs_of(claim: Claim, *, smoke: bool = False) -> dict[str, Any]:
    """What a claim runs, in small if asked: `smoke` replaces keys, and is added to `base`."""
    runs, small = claim.spec["runs"], claim.spec.get("smoke", {}) if smoke else {}
    return {**runs, **small, "base": [*runs.get("base", []), *small.get("base", [])]}


def narrowed(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The conditions under which a check is made: those that its `in` names."""
    some = {name: {*map(str, levels if isinstance(levels, list) else [levels])} for name, levels in check["in"].items()}
    return [dict(place) for place in places if all(place[name] in levels for name, levels in some.items())]


def places_of(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The conditions of a `pairs` check: without the factors that a_in and b_in fix, and the one that is pooled."""
    fixed = {*check["a_in"], *check["b_in"], check["pooled"]}
    left = {tuple((name, level) for name, level in place.items() if name not in fixed): None for place in places}
    return [dict(place) for place in left]


def along(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> tuple[list[dict[str, str]], np.ndarray]:
    """The conditions of a check of exponents, without the one that it goes along, and (P,) where the levels of that
    one lie, from the least to the largest: log 1/(1 - level), or log level."""
    left = {tuple((name, level) for name, level in place.items() if name != check["over"]): None for place in places}
    levels = np.array(sorted({float(place[check["over"]]) for place in places}))
    return [dict(place) for place in left], np.log(levels) if check["x"] == "value" else -np.log1p(-levels)


def n_pairs(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> int:
    """How many pairs a `pairs` check tests."""
    rest = len(check["a"]) * len(check["b"]) * len(check["summary"]) * len(check["at"])
    return len(places_of(check, places)) * rest


def n_pairs_at_most(checks: Sequence[Mapping[str, Any]], places: Sequence[Mapping[str, str]]) -> int:
    """How many pairs are tested together; of an `order` check theory may leave out some."""
    pairs = sum(n_pairs(check, narrowed(check, places)) for check in checks if check["test"] == "pairs")
    orders = [check for check in checks if check["test"] == "order"]
    return pairs + sum(math.comb(len(check["of"]), 2) * len(narrowed(check, places)) for check in orders)


def _check_exponent(path: Path, check: Mapping[str, Any], factors: Mapping[str, Any]) -> None:
    """Refuse an `exponent` or `exact_exponent` check without numbers to go along, or limits. Raises SettingError.

    factors: the conditions of its runs.
    """

    def refuse(key: str, expected: str) -> None:
        raise SettingError(f"checks.{key}", check[key], f"{expected}, in {path}")

    choice("checks.x", check["x"], ("horizon", "value"))
    if check["over"] not in factors:
        refuse("over", f"must be one of the conditions, {', '.join(map(str, factors))}")
    levels = [_number_named(level) for level in factors[check["over"]]]
    top = 1.0 if check["x"] == "horizon" else math.inf
    if len({*levels}) < LEAST or not all(level is not None and 0 < level < top for level in levels):
        refuse("over", f"must be a condition with at least {LEAST} levels that are numbers between 0 and {top:g}")
    ends = check["between"] if isinstance(check["between"], list) else []
    numbers = [finite_number(end) for end in ends]
    given = [number for number in numbers if number is not None]
    if len(ends) != 2 or not given or len(given) != 2 - ends.count(None) or given != sorted(given):
        refuse("between", "must be [low, high], or null for one of them: where the exponent is claimed to lie")
    if check["test"] == "exact_exponent":
        return
    choice("checks.measure", check["measure"], ("error", "samples", "mean_curve"))
    choice("checks.count", check["count"], ("all", "after_burn_in"))
    epsilon, at = finite_number(check["epsilon"]), finite_number(check["at"])
    if (check["measure"] == "error") != (check["epsilon"] is None) or (epsilon is not None and epsilon <= 0):
        refuse("epsilon", "must be a positive number with measure=samples or mean_curve, and null with error")
    if at is None or not 0 < at <= 1:
        refuse("at", "must be a share of T in (0, 1]")


def _number_named(text: Any) -> float | None:
    """The number that a level is named by; None for other names."""
    try:
        return finite_number(float(text))
    except (TypeError, ValueError):
        return None


def _keys(path: Path, where: str, node: Any, keys: Sequence[str], needed: Sequence[str] = ()) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise SettingError(where or "claim", node, f"must be a mapping, in {path}")
    for key in node:
        if key not in keys:
            raise SettingError(
                f"{where}.{key}".lstrip("."), node[key], f"is no key of a claim, in {path}{nearest(str(key), keys)}"
            )
    for key in needed:
        if node.get(key) in (None, "", [], {}):
            raise SettingError(f"{where}.{key}".lstrip("."), node.get(key), f"must be given, in {path}")
    return node
