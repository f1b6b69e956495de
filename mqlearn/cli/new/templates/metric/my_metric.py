"""A metric: a number for each seed at each checkpoint, from the tables that are there."""

import numpy as np

import mqlearn as mq


def my_metric(q, mdp):
    """Share of the states that count in which the greedy action is an optimal one.

    q: (n_seeds, S, A), the tables at a checkpoint.   Returns (n_seeds,).
    """
    allowed = np.where(mdp.admissible, 0.0, -np.inf)
    best = mq.optimal(mdp).q + allowed
    states = np.unique(mdp.pairs[:, 0])
    greedy = (q + allowed)[:, states].argmax(axis=2)  # (n_seeds, states); of equal actions the first
    chosen = np.take_along_axis(best[states][None], greedy[:, :, None], axis=2)[:, :, 0]
    return (chosen >= best[states].max(axis=1) - 1e-9).mean(axis=1)
