"""One thing that a user should know of a run beside its numbers: a warning before it, or a diagnostic after it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """What terminal, record, MLflow and report say of a run, each from this object.

    code: what it is about, in one word that stays the same when the sentence changes.   text: the sentence.
    numbers: the numbers in it, by name; empty where an object says the sentence itself, such as a rule or a problem.
    """

    code: str
    text: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text

    def record(self) -> dict[str, Any]:
        """As the summary of a run holds it."""
        return {"code": self.code, "text": self.text, "numbers": dict(self.numbers)}


def each_once(findings: Iterable[Finding]) -> list[Finding]:
    """The findings in their order, each sentence once."""
    first: dict[str, Finding] = {}
    for found in findings:
        first.setdefault(found.text, found)
    return list(first.values())


def worded(code: str, texts: Iterable[str]) -> list[Finding]:
    """What an object says of itself in sentences of its own, such as a rule at a discount, or a problem."""
    return [Finding(code, text) for text in texts]


def no_effect(setting: str, value: Any, reason: str) -> Finding:
    """A setting that changes nothing."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    numbers = {setting: value} if is_number else {}
    return Finding("no_effect", f"{setting}={value} has no effect: {reason}", numbers)


def unused(group: str, given: Mapping[str, Any], plain: Mapping[str, Any], reason: str) -> list[Finding]:
    """For each setting of a group that is not as it is without being set, where none of them has an effect."""
    changed = [key for key, value in plain.items() if given.get(key, value) != value]
    return [no_effect(f"{group}.{key}", given[key], reason) for key in changed]


def of_record(summary: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The findings of a run by its summary; earlier versions recorded their sentences alone."""
    if (records := summary.get("findings")) is not None:
        return tuple(Finding(**record) for record in records)
    return tuple(worded("recorded", summary.get("warnings") or []))
