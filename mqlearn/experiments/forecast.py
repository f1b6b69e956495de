"""What exact values take is said before they are computed, where it is long; what would not fit is refused."""

import os
import sys
from typing import Any

from mqlearn.errors import SettingError
from mqlearn.experiments.progress import duration
from mqlearn.problems import costs
from mqlearn.problems.costs import Cost
from mqlearn.problems.mdp import FiniteMDP

_WORTH = 10.0  # seconds, from which a line is worth it
_EXACT = 3  # checkpoints at which the greedy policies of a large model are evaluated exactly
_SMALL = 1000  # states: nothing of this takes long


def of_cell(cell: Any) -> Cost:
    """Of the exact values of a run: the optimum, and at some checkpoints of the policies of all seeds."""
    mdp = cell.mdp
    if not isinstance(mdp, FiniteMDP) or mdp.n_states <= _SMALL:
        return Cost(0.0, 0.0)
    n_seeds, limit = cell.settings["n_seeds"], cell.setup.evaluation.limit(mdp)
    parts = [
        costs.of_optimum(mdp),
        costs.of_policies(mdp, _EXACT * n_seeds),
        costs.of_returns(mdp, limit, n_seeds),
    ]
    tables = 24.0 * n_seeds * mdp.n_states * mdp.n_actions
    return Cost(sum(part.seconds for part in parts), max(part.n_bytes for part in parts) + tables)


def of_model(mdp: FiniteMDP, seconds: float = 0.0, n_bytes: float = 0.0) -> Cost:
    """Of the exact values of a model alone, and of what takes so much more."""
    exact = costs.of_optimum(mdp) if mdp.n_states > _SMALL else Cost(0.0, 0.0)
    return Cost(exact.seconds + seconds, max(exact.n_bytes, n_bytes))


def tell(cost: Cost, mdp: FiniteMDP, what: str = "exact values") -> None:
    """Say on stderr what is ahead if it takes 10 seconds. Raises SettingError for what does not fit into memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = f"{mdp.n_states:,} states, {len(mdp.pairs):,} pairs"
    if cost.n_bytes > memory:
        sizes = f"would take about {cost.n_bytes / 2**30:.3g} GiB, this machine has {memory / 2**30:.3g} GiB"
        raise SettingError("env", mdp.name, f"{what} of {size} {sizes}")
    if cost.seconds >= _WORTH:
        amount = f"{cost.n_bytes / 1e9:.2g} GB" if cost.n_bytes >= 1e9 else f"{cost.n_bytes / 1e6:.0f} MB"
        sys.stderr.write(f"{what} of {size}: about {duration(cost.seconds)} on one core, and {amount} of memory\n")
        sys.stderr.flush()
