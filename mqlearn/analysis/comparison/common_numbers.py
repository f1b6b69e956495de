"""Whether seed i of two runs met the same random numbers: then the runs are paired, seed by seed."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from mqlearn.experiments.settings import identity
from mqlearn.sampling.protocol import ADAPTIVE
from mqlearn.storage.runs import Run


def pairing(a: Run, b: Run) -> tuple[bool, str]:
    """Whether seed i of both runs met the same random numbers, and why, by their records."""
    seeds, counts = [run.settings["seed"] for run in (a, b)], [run.settings["n_seeds"] for run in (a, b)]
    if not _equal_streams(a, b):
        if _same_chain(a, b):
            text = f"common random numbers (seed={seeds[0]}): the chain of a seed is the same in both"
            what = "; replay draws from it" if "Replay" in (_target(a), _target(b)) else ""
            return True, text + what + _common_seeds(counts)
        if seeds[0] != seeds[1]:
            return False, f"independent seeds (seed={seeds[0]} and seed={seeds[1]})"
        if a.summary.get("numerics_version") != b.summary.get("numerics_version"):
            return False, "not paired: other numerics versions"
        return False, "not paired: other samples (the model or the sampling differs)"
    text = f"common random numbers (seed={seeds[0]}, the same samples)"
    if a.settings["sampling"].get("behaviour") in ADAPTIVE:
        text = f"common random numbers (seed={seeds[0]}): the uniform numbers are common, the trajectories are not"
    return True, text + _common_seeds(counts)


def _common_seeds(counts: Sequence[int]) -> str:
    if counts[0] == counts[1]:
        return ""
    return f"; the {min(counts)} seeds that both have, of {counts[0]} and {counts[1]}"


def _same_chain(a: Run, b: Run) -> bool:
    """Whether every seed of both runs follows one trajectory, though the sampling of the runs differs.

    It does not if the behaviour sees what is learned, or if a buffer is filled before iteration 0 or seldom.
    """
    for run in (a, b):
        sampling = run.settings["sampling"]
        own_pace = sampling.get("warm_up", 0) == 0 and sampling.get("draws", 1) == 1
        if _target(run) not in ("Markovian", "Replay") or sampling.get("behaviour") in ADAPTIVE or not own_pace:
            return False
    return _equal_streams(a, b, chain_only=True)


def _equal_streams(a: Run, b: Run, *, chain_only: bool = False) -> bool:
    """Whether the random numbers of a seed are the same; of the sampling its chain alone counts, if so asked.

    Models of one discount are compared as they were recorded.
    """
    recorded = a.settings["discount"] == b.settings["discount"]
    return _streams(a, recorded, chain_only) == _streams(b, recorded, chain_only)


_keys: WeakKeyDictionary[Run, dict[tuple[bool, bool], str]] = WeakKeyDictionary()


def _streams(run: Run, recorded: bool, chain_only: bool) -> str:
    """What decides the random numbers of a run: kept, since a run is in many pairs."""
    known = _keys.setdefault(run, {})
    if (recorded, chain_only) not in known:
        settings = run.settings
        if chain_only:
            own = settings["sampling"]
            chain = {name: own[name] for name in identity.CHAIN if name in own}
            settings = {**settings, "sampling": {"_target_": "mqlearn.Markovian", **chain}}
        model = identity.model_key(settings, run.summary.get("made_of")) if recorded else None
        known[recorded, chain_only] = identity.streams_key(settings, run.summary.get("numerics_version"), model)
    return known[recorded, chain_only]


def _target(run: Run) -> str:
    return str(run.settings["sampling"].get("_target_")).rpartition(".")[2]
