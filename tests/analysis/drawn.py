"""Curves to draw, made up, as many and as named as in figure 1."""

import numpy as np

from mqlearn.analysis.figures.error_curves import Curve

PROVENANCE = {
    "digest": "ab(12)",
    "label": 'a \\ b) "c" × ‖Q‖\nnew',
    "settings": {"discount": 0.99},
    "n": [1, None],
}
RIVALS = {
    "Q-learning, harmonic": "q_learning",
    "Q-learning, rescaled": "q_learning",
    "SpeedyQ, azar": "speedy_q",
    "SpeedyQ, printed": "speedy_q",
    r"NeSA, $\zeta=0.1$": "nesa",
}
FAMILIES = RIVALS | {f"MomentumQ, $m={m}$": "momentum_q" for m in (2, 5, 10, 20, 50, 100)}


def curve(label: str = "Q-learning", *, n_seeds: int = 20, last: int = 10_000, start: float = 1.0, **more) -> Curve:
    iteration = np.unique(np.round(np.geomspace(1, last, 40))).astype(np.int64)
    iteration = np.append(0, iteration)
    rng = np.random.default_rng(len(label))
    spread = np.exp(0.1 * rng.normal(size=(n_seeds, len(iteration))))
    spread[:, 0] = 1
    return Curve(label, iteration, start * spread / np.sqrt(1 + iteration), **more)
