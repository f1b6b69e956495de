"""Rewards that are normal or uniform, as outcomes at Gauss nodes: a finite model with the same moments."""

from dataclasses import dataclass

import numpy as np

from mqlearn.checks import PlainNumbers, check_int, choice, within

LAWS = ("normal", "uniform", "none")
_DIGITS = 14  # of nodes and weights, so that all machines make the same model of them


@dataclass(frozen=True)
class RewardLaw(PlainNumbers):
    """How rewards lie about their mean.

    law: normal, of the standard deviation `deviation`; uniform, on mean -+ `deviation`; none, the mean alone.
    nodes: 2 to 9 outcomes; moments up to 2 nodes - 1 are those of the law (Gauss quadrature, Hermite and Legendre;
    Golub, Welsch 1969). What depends on more than moments, such as how often a reward is the largest of several, is
    that of the nodes. Raises SettingError for values that are not admissible.
    """

    law: str = "normal"
    deviation: float = 1.0
    nodes: int = 5

    def __post_init__(self) -> None:
        choice("env.law", self.law, LAWS)
        within("env.deviation", self.deviation, 0.0)
        check_int("env.nodes", self.nodes, 2, 9)

    def outcomes(self, mean: float) -> list[tuple[float, float]]:
        """(probability, reward) of each node of a reward with this mean."""
        if self.law == "none":
            return [(1.0, mean)]
        hermite = self.law == "normal"
        make = np.polynomial.hermite_e.hermegauss if hermite else np.polynomial.legendre.leggauss
        places, weights = make(self.nodes)
        places, weights = (places - places[::-1]) / 2, (weights + weights[::-1]) / 2
        shares = [float(f"{w:.{_DIGITS}g}") for w in weights / weights.sum()]
        rounded = [float(f"{x:.{_DIGITS}g}") for x in places + 0.0]
        return [(w / sum(shares), mean + self.deviation * x) for x, w in zip(rounded, shares, strict=True)]

    @property
    def words(self) -> str:
        """For the name of a model."""
        return "law=none" if self.law == "none" else f"law={self.law} deviation={self.deviation:g} nodes={self.nodes}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a run on the model says of it."""
        if self.law == "none":
            return ()
        return (f"{self.law} rewards are {self.nodes} Gauss nodes, whose moments are right up to {2 * self.nodes - 1}",)
