"""A problem: its transition probabilities and its rewards."""

import numpy as np

import mqlearn as mq


def my_problem(wear=0.2, repair=0.5, *, discount=0.9):
    """A machine that is new (state 0) or worn (state 1).

    Action 0 runs it: a new one pays 1 and wears with probability `wear`, a worn one pays nothing and stays as it is.
    Action 1 repairs it: that pays -`repair`, and it is new afterwards.
    """
    new, worn = 0, 1
    P = np.zeros((2, 2, 2))  # state, action, successor
    R = np.zeros((2, 2))  # state, action
    P[new, 0] = [1 - wear, wear]
    P[worn, 0] = [0, 1]
    P[:, 1, new] = 1
    R[new, 0] = 1
    R[:, 1] = -repair
    return mq.from_arrays(P, R, discount=discount, start=new, name="my_problem")
