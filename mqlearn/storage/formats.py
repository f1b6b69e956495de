"""The format of what is kept, and the refusal of what another version has kept in a newer one.

FORMAT rises when an earlier version would misread a run folder, the plan of a sweep, a suite's results or the tags of a
store. Of an earlier format everything stays readable; a record without a number is of the first.
"""

from collections.abc import Mapping
from typing import Any

from mqlearn.errors import SettingError

FORMAT = 2
KEY = "format"  # in summary.json, in plan.json, and among the tags of an experiment in a store


class OtherVersion(SettingError):
    """Another version of mqlearn has written this, and it is not to be mistaken for damage, nor written over."""


def check(setting: str, value: Any, found: Any, versions: Any = None) -> None:
    """Raise OtherVersion for a format that is newer than ours.   versions: those that the record names, if it does."""
    if not (isinstance(found, int) or (isinstance(found, str) and found.isdecimal())) or int(found) <= FORMAT:
        return
    own = versions.get("mqlearn") if isinstance(versions, Mapping) else None
    by = f"mqlearn {own}" if own else "a newer mqlearn"
    problem = f"was written by {by} in format {found}; this is mqlearn {installed()}, which reads up to {FORMAT}"
    raise OtherVersion(setting, value, f"{problem}: use that version, or another outputs folder and store")


def installed() -> str:
    """The version of mqlearn that runs here."""
    from importlib.metadata import version

    return version("mqlearn")
