"""`mqlearn problems`: the test problems, with what kind each is."""

import json
from collections.abc import Sequence

from mqlearn.cli.arguments import parse
from mqlearn.errors import SettingError
from mqlearn.problems.known import problems_table


def problems(arguments: Sequence[str]) -> int:
    """`mqlearn problems`: print the table of problems; returns 0. Raises SettingError for any setting."""
    options = parse(arguments, flags=("--json",))
    if options.overrides:
        raise SettingError("problems", " ".join(options.overrides), "takes no settings; mqlearn truth does")
    rows = problems_table()
    if "--json" in options.given:
        print(json.dumps(rows))
        return 0
    print(f"{'env=':20} {'states':>7} {'pairs':>7}  {'discount':9} kind")
    for row in rows:
        print(f"{row['name']:20} {row['states']:7} {row['pairs']:7}  {row['discount']:<9g} {row['kind']}")
    return 0
