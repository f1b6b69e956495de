"""Operators that a rule may use in place of Bellman's: five numbers in space, beside the four in time.

    (T_k Q)(x, u) = reward r + ahead V(y) + here V(x) + own Q(x, u) + common s

from one sampled transition (x, u, r, y). V is a formula of the admissible values of one state (`value`), the largest
unless an operator has its own, and 0 at a terminal state. s is one number an iteration, of the table that T_k acts on
(`scalar`). A rule's T_k Q_k and T_k Q_{k-1} each have the V and s of their own table.

    mq.run(mdp, mq.MomentumQ(), iterations=10_000, operator=mq.Relaxed(w=1.1))
    mqlearn run algorithm=momentum_q operator=relaxed operator.w=1.1
    mqlearn truth operator=relaxed operator.w=1.1       # its fixed point, the residual, and the map to Q*
    mqlearn run -m algorithm=q_learning operator=bellman,relaxed,mellowmax

One of your own is a class with these numbers and its V; kernels, the exact fixed point and features follow from it:

    @dataclass(frozen=True)
    class ExpectedSarsa(mq.Operator):
        epsilon: float = 0.1

        def value(self, q, by):
            return (1 - self.epsilon) * q[by.argmax()] + self.epsilon * q.mean()

Errors are measured against the fixed point of the operator in use, which `mqlearn.problems.operators` computes. What an
operator has to know of a problem, `facts`, are its `Facts`.
"""

from mqlearn.algorithms.operators.advantage import Advantage
from mqlearn.algorithms.operators.bellman import BELLMAN, Bellman, is_bellman, name_of
from mqlearn.algorithms.operators.boltzmann import Boltzmann
from mqlearn.algorithms.operators.expected import Expected
from mqlearn.algorithms.operators.mellowmax import Mellowmax, Soft
from mqlearn.algorithms.operators.operator import SCALARS, Numbers, Operator
from mqlearn.algorithms.operators.relative import Relative
from mqlearn.algorithms.operators.relaxed import Relaxed
from mqlearn.algorithms.operators.robust import Robust
from mqlearn.algorithms.operators.truncated import Truncated

__all__ = [
    "BELLMAN",
    "SCALARS",
    "Advantage",
    "Bellman",
    "Boltzmann",
    "Expected",
    "Mellowmax",
    "Numbers",
    "Operator",
    "Relative",
    "Relaxed",
    "Robust",
    "Soft",
    "Truncated",
    "is_bellman",
    "name_of",
]
