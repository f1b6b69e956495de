"""Where samples come from: sampling modes, the chains that they move, and how both are written for the kernels.

protocol        what every sampling mode answers
modes           those that come with mqlearn; recorded transitions: `recorded`, and how they are read, `transitions`
check           whether a mode is what it says, found out before a run
tables          model, behaviour and episodes as the kernels draw from them
chains          chains of seeds, and blocks of samples that rules share
sample_numbers  samples as the kernels number them
evaluation      the greedy episodes that are played at checkpoints

Nobody outside asks for the class of a mode.
"""

from mqlearn.sampling.modes import IID, Markovian, Pairs, Replay, Sampling, Synchronous

__all__ = ["IID", "Markovian", "Pairs", "Replay", "Sampling", "Synchronous"]
