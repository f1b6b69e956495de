"""What is being learned, and how it moves: learners, one file a kind, and `start`, which chooses among them.

learner           the methods that all of them have
synchronous       tables, all pairs in every iteration
asynchronous      tables, one transition an iteration
linear            linear features
stateful          rules with state of their own, by one transition an iteration
stateful_sweeps   the same by all pairs
counting          counts, and plans on them
together          several of them that one loop moves
starting          the learner that a run needs
clock             by what the k of a step size is looked up
initial           Q_0 or theta_0 of each seed
sources           where samples come from: chains of a learner's own, or samples that rules share
operators         the operator of the targets on the problem of a run; that its formula is right, `operator_check`

Simulators of Gymnasium have theirs in `mqlearn.simulators`.
"""

from mqlearn.learners.asynchronous import AsynchronousTable, RoundsTable, SharedTable
from mqlearn.learners.learner import Learner, advanced
from mqlearn.learners.linear import Linear, LinearLearner, OwnChainLinearLearner
from mqlearn.learners.starting import can_share, on_clock, shared_samples, start, usual_clock, with_state
from mqlearn.learners.synchronous import SynchronousTable
from mqlearn.learners.together import most_together, move_together

__all__ = [
    "AsynchronousTable",
    "Learner",
    "Linear",
    "LinearLearner",
    "OwnChainLinearLearner",
    "RoundsTable",
    "SharedTable",
    "SynchronousTable",
    "advanced",
    "can_share",
    "most_together",
    "move_together",
    "on_clock",
    "shared_samples",
    "start",
    "usual_clock",
    "with_state",
]
