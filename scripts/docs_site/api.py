"""Pages of the public names of `mqlearn`, from their docstrings."""

import inspect

import mqlearn as mq
from mqlearn.experiments.settings import targets

_HEAD = {
    "running": ("Runs and results", "What runs a rule on a problem, and what comes back."),
    "rules": ("Rules", "Those that come with mqlearn, and the two bases of your own."),
    "step_sizes": ("Step sizes", "alpha_k as a function of the iteration k."),
    "operators": ("Operators", "What a target is, in place of Bellman's optimality operator."),
    "sampling": ("Sampling", "Which pairs a rule learns from in an iteration."),
    "problems": ("Problems", "Models with an exact optimum, and what makes one of arrays, files and Gymnasium."),
    "features": ("Features and evaluation", "Linear features, metrics and greedy episodes."),
    "deciding": ("Comparisons", "Finished runs and results of suites."),
}
_GROUPS = {"algorithm": "rules", "step_size": "step_sizes", "operator": "operators", "sampling": "sampling",
           "env": "problems", "features": "features", "linear": "features", "evaluation": "features",
           "metrics": "features"}  # fmt: skip
_OTHERS = {
    "rules": "Rule Stateful averaged clipped minibatch solve times",
    "operators": "Numbers Operator",
    "sampling": "Sampling",
    "problems": "FiniteMDP from_arrays from_gymnasium simulator optimal",
    "features": "Features from_function",
    "deciding": "bench compare load decide",
}


def divided() -> dict[str, list[str]]:
    """Page -> the public names on it; what no other page has is on that of runs."""
    pages: dict[str, list[str]] = {page: [] for page in _HEAD}
    left = {*mq.__all__, *targets.names()}
    for page, names in _OTHERS.items():
        pages[page] += [name for name in names.split() if name in left]
    for group, page in _GROUPS.items():
        pages[page] += [name for name in targets.shipped(group) if name in left and name not in pages[page]]
    pages["running"] = sorted(left.difference(*pages.values()), key=str.lower)
    return pages


def pages() -> dict[str, str]:
    """Page -> text in reStructuredText."""
    made = {}
    for page, names in divided().items():
        title, words = _HEAD[page]
        parts = [title, "=" * len(title), "", words, ""]
        for name in names:
            thing = getattr(mq, name)
            kind = "autoclass" if inspect.isclass(thing) else "autofunction" if callable(thing) else "autodata"
            parts += [name, "-" * len(name), "", f".. {kind}:: mqlearn.{name}"]
            parts += ["   :members:", ""] if kind == "autoclass" else [""]
        made[f"python/{page}.rst"] = "\n".join(parts)
    listed = "\n".join(f"* :doc:`{page}`: {words}" for page, (_, words) in _HEAD.items())
    tree = "\n".join(f"   {page}" for page in _HEAD)
    made["python/index.rst"] = (
        "Python\n======\n\nAll public names are those of ``import mqlearn as mq``.\n\n"
        f"{listed}\n\n.. toctree::\n   :hidden:\n\n{tree}\n"
    )
    return made
