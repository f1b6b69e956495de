"""The rate that a theorem gives of a case where its constants are missing."""

from mqlearn.algorithms.operators import is_bellman
from mqlearn.theory import bounds
from mqlearn.theory.bounds import Slope
from mqlearn.theory.case import Case
from mqlearn.theory.linear_features import LinearFeatures


def slope_of(case: Case, linear: LinearFeatures | None) -> tuple[str, Slope] | tuple[None, None]:
    """The rate, and the curve that it is of."""
    sampling = case.sampling
    if not is_bellman(case.operator) or case.mdp.discount == 1:
        return None, None
    if sampling.capacity or sampling.recorded:
        return None, None  # theorems are of a trajectory, or of independent samples
    if linear is not None:
        metric, slope = "theta_error_average", linear.slope()
    else:
        together = sampling.all_pairs
        own = together or sampling.clock == "local"
        metric, slope = "q_error", bounds.slope_of_tables(case.rule, together, own)
    return (None, None) if slope is None else (metric, slope)
