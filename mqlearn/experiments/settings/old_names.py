"""Dotted names of before that a record or a user's yaml may hold (`_target_`, `metrics`), and what they are now."""

# A module or a whole dotted name -> its present one; the longest that fits counts.
PRESENT: dict[str, str] = {
    "mqlearn.step_sizes": "mqlearn.algorithms.step_sizes",
    "mqlearn.mdp": "mqlearn.problems.mdp",
    "mqlearn.solvers": "mqlearn.problems.solvers",
    "mqlearn.fixed_points": "mqlearn.problems.fixed_points",
    "mqlearn.features": "mqlearn.problems.features",
    "mqlearn.encodings": "mqlearn.problems.encodings",
    "mqlearn.environments": "mqlearn.problems.environments",
    "mqlearn.sampling": "mqlearn.learning.sampling",
    "mqlearn.learners": "mqlearn.learning.learners",
    "mqlearn.metrics": "mqlearn.learning.metrics",
    "mqlearn.experiment": "mqlearn.learning.loop",
    "mqlearn.statistics": "mqlearn.analysis.statistics.intervals",
    "mqlearn.significance": "mqlearn.analysis.statistics.significance",
    "mqlearn.survival": "mqlearn.analysis.statistics.survival",
    "mqlearn.power": "mqlearn.analysis.statistics.power",
    "mqlearn.figures": "mqlearn.analysis.figures",
}


def present(path: str) -> str:
    """The dotted name by which the object called `path` is found now."""
    head, tail = path, ""
    while head:
        if head in PRESENT:
            return PRESENT[head] + tail
        head, dot, last = head.rpartition(".")
        tail = f"{dot}{last}{tail}"
    return path
