"""The text of a generated module but for its rule: what it imports, and a loop for each source of samples."""

HEAD = """\
import math
from pathlib import Path
import numpy as np
from mqlearn import kernels
from mqlearn.jit import cache_folder, compiled
from mqlearn.kernels.asynchronous import greedy_pair
from mqlearn.kernels.chain import Packed, chain_words, enter, leave, move, pack, read
from mqlearn.kernels.operators import add_target_slopes, common_slopes, estimates, greedy_pairs
from mqlearn.kernels.operators import greedy_values, largest_values, scalar_of
from mqlearn.kernels.operators import state_slopes, state_value, table_values, target, target_of
from mqlearn.kernels.random import CHUNK, philox_steps
from mqlearn.kernels.successors import further_successors, spread, sweep, sweep_once, sweep_words
SYNCHRONOUS, AGAIN, BATCH, OWN = [np.uint32(kernels.STREAMS[name]) for name in ("synchronous", "again", "batch", "own")]
kept = {"folder": cache_folder(Path(kernels.__file__))}
"""

# Loops of the modes. A line $NAME stands for lines that depend on the rule, at its own depth. Sweeps are a function of
# their own: of arrays that are handed on LLVM knows that they lie apart, and of those made here it does not.
LOOPS = {
    "sweeps": """\
$compiled
$learn
    n = z_all.shape[2]
    offsets = model.offsets
    n_states = offsets.shape[0] - 1
    size = model.counters.shape[0]
    each = size // model.steps
    successors, rewards, thresholds, fours = model.successors, model.rewards, model.thresholds, model.fours
    $fields
    for lane in range(z_all.shape[0]):
        z = z_all[lane]
        $others
        for done in range(0, n_all, model.steps):
            length = min(model.steps, n_all - done)
            given = numbers[done : done + length]
            sweep_words(model.counters, model.ahead, 0, k + done, lanes[lane], seed, SYNCHRONOUS, words)
            for i in range(length):
                spread(words, i * 4 * each, model.reuse, model.powers, u[i])
            $words
            for i in range(length):
                $draw
                $numbers
                $step
                $clip
                $average
@compiled(**kept)
def advance(z_all, others, fields, model, numbers, discount, k, n_all, lanes, seed, operator):
    n = z_all.shape[2]
    n_states = model.offsets.shape[0] - 1
    $scratch
    $call
""",
    "chain": """\
@compiled(**kept)
def advance(
    z_all, others, fields, model, chain, walks, features, radius, numbers, discount, k, n_all, operator, counting
):
    n = z_all.shape[2]
    offsets = model.offsets
    packed = pack(model)
    columns, values, n_active = features
    lanes, seed, streams = walks.lanes, walks.seed, walks.streams
    words = np.empty((8, CHUNK), np.uint32)
    $fields
    $scratch
    for done in range(0, n_all, CHUNK):
        length = min(CHUNK, n_all - done)
        given = numbers[done : done + length]
        for lane in range(z_all.shape[0]):
            z = z_all[lane]
            $others
            state, buffer, visits = walks.states[lane], walks.buffers[lane], walks.visits[lane]
            chain_words(chain, state, buffer, k + done, length, lanes[lane], seed, streams, words)
            $words
            walk = enter(state, buffer)
            for i in range(length):
                greedy = np.uint64(0)
                $greedy
                walk, sample = move(packed, chain, walk, buffer, visits, greedy, k + done + i, words, i)
                pair, y, reward = read(sample, packed)
                $draw
                $numbers
                $step
                $project
                $clip
                $average
                $named
            leave(state, walk)
""",
    "samples": """\
@compiled(**kept)
def advance(z_all, others, fields, model, samples, features, numbers, discount, k, lanes, seed, operator, counting):
    n = z_all.shape[2]
    offsets, successors, rewards, _, shift = model
    reading = Packed(offsets, successors, rewards, shift, (np.uint64(1) << shift) - np.uint64(1))
    columns, values, n_active = features
    $fields
    $scratch
    for done in range(0, samples.shape[1], CHUNK):
        length = min(CHUNK, samples.shape[1] - done)
        given = numbers[done : done + length]
        for lane in range(z_all.shape[0]):
            z, drawn = z_all[lane], samples[lane, done : done + length]
            $others
            $words
            for i in range(length):
                pair, y, reward = read(drawn[i], reading)
                $draw
                $numbers
                $step
                $clip
                $average
                $named
""",
}
