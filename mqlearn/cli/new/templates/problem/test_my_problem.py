"""The optimum of this problem is what the Bellman equations give by hand, and a rule finds it."""

import numpy as np
from my_problem import my_problem

import mqlearn as mq


def test_the_optimum_is_that_of_the_equations():
    g, wear, repair = 0.9, 0.2, 0.5
    # V(new) = 1 + g (1 - wear) V(new) + g wear V(worn),  V(worn) = -repair + g V(new)
    new, worn = np.linalg.solve([[1 - g * (1 - wear), -g * wear], [-g, 1]], [1, -repair])
    best = mq.optimal(my_problem(wear, repair, discount=g)).q.max(axis=1)
    np.testing.assert_allclose(best, [new, worn], rtol=1e-9)


def test_a_rule_learns_it():
    measured = mq.run(my_problem(), mq.SpeedyQ(), iterations=2000, n_seeds=5).curves["q_error"]
    assert (measured[:, -1] < 0.1 * measured[:, 0]).all()
