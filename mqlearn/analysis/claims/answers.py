"""From the checks of a claim to its answer: fresh ones, and stored ones, whose words are made anew without a run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlearn.analysis.claims.checks import ClaimCheck, conditions, verdict
from mqlearn.analysis.claims.claim import Claim, ClaimAnswer, load, places, runs_of
from mqlearn.analysis.claims.criteria import NUMBERS, decide, reading
from mqlearn.errors import SettingError


def answered(claim: Claim, checks: Sequence[ClaimCheck], data_digest: str, *, smoke: bool) -> ClaimAnswer:
    """The verdict on the checks of a claim, where it holds, and what it was read to say. Raises SettingError."""
    told = reading(claim, places(runs_of(claim, smoke=smoke)))
    where = conditions(checks, claim.spec.get("by", ()))
    return ClaimAnswer(claim, tuple(checks), verdict(checks), where, data_digest, told)


@dataclass(frozen=True)
class Stored:
    """An answer from a --json FILE, with what the file says of how it was made."""

    answer: ClaimAnswer
    command: str
    versions: dict[str, str]
    smoke: bool


def stored(path: Path, names: Sequence[str] = (), config_dir: str | None = None) -> list[Stored]:
    """The answers of a --json FILE, all or those of some claims: its numbers, each decided again by the criteria that
    the claims have now. Raises SettingError for a file that is none, and where an outcome would be another.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        found = {row["claim"]: row for row in rows}
        known = [name for name in found if name in (names or found)]
    except (OSError, ValueError, TypeError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is none that --json wrote"
        raise SettingError("--stored", path, f"cannot be read: {why}") from None
    missing = [name for name in names if name not in found]
    if missing or not known:
        raise SettingError("--stored", path, f"has no claim {', '.join(missing)}; it has {', '.join(found) or 'none'}")
    return of_rows(path, [found[name] for name in known], config_dir)


def of_rows(path: Path, rows: Sequence[Mapping[str, Any]], config_dir: str | None = None) -> list[Stored]:
    """The answers of rows of a file. Raises SettingError as `stored`."""
    return [_stored(path, row, load(row["claim"], config_dir)) for row in rows]


def _stored(path: Path, row: Mapping[str, Any], claim: Claim) -> Stored:
    try:
        checks = [_check(path, one, claim) for one in row["evidence"]]
        made = row["data_digest"], row["command"], dict(row["versions"]), bool(row["smoke"])
    except (KeyError, TypeError, AttributeError) as error:
        raise SettingError("--stored", path, f"cannot be read: {claim.name} lacks {error}") from None
    digest, command, versions, smoke = made
    return Stored(answered(claim, checks, digest, smoke=smoke), command, versions, smoke)


def _check(path: Path, stored: Mapping[str, Any], claim: Claim) -> ClaimCheck:
    said, evidence = stored["conditions"], dict(stored)
    for key in ("conditions", "outcome", "aside"):
        evidence.pop(key, None)
    spec = next((check for check in claim.spec["checks"] if _is_of(check, said, evidence)), None)
    check = ClaimCheck(dict(said), stored["outcome"], evidence, bool(stored.get("aside")))
    if spec is None or decide(spec, evidence) != check.outcome or check.aside != bool(spec["aside"]):
        where = ", ".join(f"{name} {level}" for name, level in said.items())
        expected = f"was decided by other criteria than {claim.name} has now ({where}): run this claim again"
        raise SettingError("--stored", path, expected)
    return check


def _is_of(check: Mapping[str, Any], said: Mapping[str, str], evidence: Mapping[str, Any]) -> bool:
    """Whether stored evidence is of this check: it looks at the same quantity and rule, and decides by such numbers."""
    rules = [str(label) for label in check.get("a", check.get("of"))]
    if said.get("quantity") != check["quantity"] or said["rule"] not in rules:
        return False
    return "reason" in evidence or all(key in evidence for key in NUMBERS[check["test"]])
