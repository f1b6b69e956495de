"""What is being learned, and how it moves: learners, one file a kind, and `start`, which chooses among them.

learner       the methods that all of them have
synchronous   tables, all pairs in every iteration
asynchronous  tables, one transition an iteration
linear        linear features
counting      counts, and plans on them
together      several of them that one loop moves
starting      the learner that a run needs

Where their samples come from, chains of their own or samples that rules share, is `mqlearn.learning.sources`. Rules
with state of their own have their learners in `mqlearn.learning.stateful`, simulators of Gymnasium theirs in
`mqlearn.learning.simulation`.
"""

from mqlearn.learning.learners.asynchronous import AsynchronousTable, RoundsTable, SharedTable
from mqlearn.learning.learners.learner import Learner, advanced
from mqlearn.learning.learners.linear import Linear, LinearLearner, OwnChainLinearLearner
from mqlearn.learning.learners.starting import can_share, on_clock, shared_samples, start, usual_clock, with_state
from mqlearn.learning.learners.synchronous import SynchronousTable
from mqlearn.learning.learners.together import most_together, move_together

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
