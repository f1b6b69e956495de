"""How good greedy policies are, by simulated episodes."""

from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled
from mqlearn.kernels.chain import pack
from mqlearn.kernels.random import below, philox, philox_steps

_BATCH = 64  # moves for which random words are made at a time
_LINE = 8  # words of a row of a policy, or a multiple
_SLOTS = 8  # episodes side by side
_BITS, _TERMINAL, _PAID = np.uint64(2), np.uint64(1), np.uint64(2)  # that successors are marked by
_LARGEST = 2.0**20  # of rewards; episodes and moves are fewer than 2^33 together


class Episodes(NamedTuple):
    """Greedy episodes: first states and their alias table, goal flags (states,), how many, and moves at most."""

    starts: np.ndarray
    keep: np.ndarray
    alias: np.ndarray
    goal: np.ndarray
    number: int
    limit: int


class Drawn(NamedTuple):
    """What episodes have drawn before, with the same numbers, which policies do not change.

    words: (seeds, episodes, limit + 1) uint32, the first state, then the words that outcomes are chosen by.   known:
    (seeds, episodes) how many of them are there. Seeds beyond are drawn anew: (0, ...) keeps nothing.
    """

    words: np.ndarray
    known: np.ndarray


@compiled
def greedy_returns(values, model, episodes, lanes, seed, stream, drawn):
    """Undiscounted returns of greedy episodes (L,), and goals entered (L,): sums over the episodes of each lane.

    Equal best actions are chosen uniformly anew at each visit. values: (L, pairs) estimates.   model: `chain.Model`.
    episodes: `Episodes`.   drawn: `Drawn`, of this seed and stream.   An episode's randomness depends on its number and
    its lane alone.
    """
    offsets, rows, rewards, _, _ = pack(model)
    rows = _marked(rows, offsets)
    returns, goals = np.empty(values.shape[0]), np.empty(values.shape[0])
    n_words = (2 * rewards.shape[1] + _LINE - 1) // _LINE * _LINE
    policy = np.zeros((offsets.shape[0] - 1, n_words), np.uint32)
    best = np.empty(policy.shape[0], np.uint32)
    # A move waits for the one before, so some episodes go side by side, if their rewards have one sum in any order.
    n_slots = min(_SLOTS if _sums_are_exact(rewards) else 1, episodes.number)
    scratch, four = np.empty((n_slots, episodes.limit + 1), np.uint32), np.empty((4, _BATCH), np.uint32)
    for lane in range(values.shape[0]):
        _greedy_rows(policy, best, values[lane], offsets, rows)
        place = (lanes[lane], seed, stream)
        kept = lanes[lane] < drawn.words.shape[0]
        words = drawn.words[lanes[lane]] if kept else scratch
        known = drawn.known[lanes[lane]] if kept else np.zeros(n_slots, np.int64)
        returns[lane], goals[lane] = _play(
            values[lane], policy, best, rows, rewards, episodes, words, known, kept, four, n_slots, place
        )
    return returns, goals


@compiled
def _play(values, policy, best, rows, rewards, episodes, words, known, kept, four, n_slots, place):
    """Return of and goals entered in all episodes of one policy; words, known: of each episode, or of each slot."""
    last, one, three = np.uint64(policy.shape[1] - 1), np.uint64(1), np.uint64(3)
    n_outcomes, length = np.uint64(rewards.shape[1]), np.uint64(words.shape[1])
    flat = words.reshape(words.size)
    # Of each slot: its episode, the state there, the move to come, the row of its words, and its next word.
    playing, states = np.zeros(n_slots, np.int64), np.zeros(n_slots, np.uint64)
    moves, own = np.zeros(n_slots, np.int64), np.arange(n_slots).astype(np.uint64)
    following = np.zeros(n_slots, np.uint64)
    total, reached, begun = 0.0, 0.0, 0
    active = np.uint64(0)
    while True:
        while active < np.uint64(n_slots) and begun < episodes.number:
            playing[active] = begun
            if kept:
                own[active] = begun
            if not kept or known[own[active]] == 0:
                known[own[active]] = _draw(words[own[active]], 0, four, episodes, begun, place)
            states[active], moves[active] = np.uint64(words[own[active], 0]), 1
            begun += 1
            active += one
        if active == 0:
            return total, reached
        together = episodes.limit  # moves until one of them needs words, or is at its limit
        for slot in range(active):
            mine, move = own[slot], moves[slot]
            if move == known[mine]:
                known[mine] = _draw(words[mine], move, four, episodes, playing[slot], place)
            together = min(together, known[mine] - move)
            following[slot] = mine * length + np.uint64(move)
        done, slots = 0, active
        while done < together and active == slots:
            step = np.uint64(done)
            slot = np.uint64(0)
            while slot < active:
                x, word = states[slot], flat[following[slot] + step]
                pair, b = np.uint64(best[x]), np.uint64(0)
                if policy[x, last] == 1:  # no branch on what was drawn: it could not be foreseen
                    if n_outcomes == three:
                        b = np.uint64(word >= policy[x, three]) + np.uint64(word >= policy[x, three + one])
                    else:
                        for c in range(one, n_outcomes):
                            b += np.uint64(word >= policy[x, n_outcomes - one + c])
                    to = np.uint64(policy[x, b])
                else:
                    pair = _among_equals(pair, values, policy[x, last], playing[slot], moves[slot] + done, place)
                    for c in range(one, n_outcomes):
                        b += np.uint64(word >= rows[pair, n_outcomes - one + c])
                    to = np.uint64(rows[pair, b])
                y = to >> _BITS
                states[slot] = y
                if to & _PAID:
                    total += rewards[pair, b]
                if to & _TERMINAL:
                    reached += episodes.goal[y] != 0
                    active = _freed(slot, active, playing, states, moves, own, following)
                else:
                    slot += one
            done += 1
        slot = np.uint64(0)
        while slot < active:
            moves[slot] += done
            if moves[slot] > episodes.limit:
                active = _freed(slot, active, playing, states, moves, own, following)
            else:
                slot += one


@compiled
def _freed(slot, active, playing, states, moves, own, following):
    """Put the last active slot in the place of one whose episode has ended; how many are active then."""
    active -= np.uint64(1)
    playing[slot], states[slot], moves[slot] = playing[active], states[active], moves[active]
    own[slot], own[active], following[slot] = own[active], own[slot], following[active]
    return active


@compiled
def _marked(rows, offsets):
    """Rows of `chain.pack` whose successors y stand as 4 y, + 2 if the way there is paid, + 1 if y is terminal."""
    marked = rows.copy()
    for pair in range(rows.shape[0]):
        for c in range((rows.shape[1] + 1) // 2):
            y = rows[pair, c] >> 1
            marked[pair, c] = y << 2 | (rows[pair, c] & 1) << 1 | np.uint32(offsets[y] == offsets[y + 1])
    return marked


@compiled
def _greedy_rows(policy, best, values, offsets, rows):
    """The row of a best pair of each state, in whose last word is how many such pairs there are; and that pair."""
    last = policy.shape[1] - 1
    for x in range(policy.shape[0]):
        ties = 0
        best[x] = 0
        for pair in range(offsets[x], offsets[x + 1]):
            if ties == 0 or values[pair] > values[best[x]]:
                best[x] = pair
                ties = 1
            elif values[pair] == values[best[x]]:
                ties += 1
        policy[x, last] = ties
        if ties > 0:
            for c in range(rows.shape[1]):
                policy[x, c] = rows[best[x], c]


@compiled
def _sums_are_exact(rewards):
    """Whether sums of rewards have the same bits in any order: of whole numbers that are not too large."""
    exact = True
    for pair in range(rewards.shape[0]):
        for b in range(rewards.shape[1]):
            exact &= abs(rewards[pair, b]) <= _LARGEST and rewards[pair, b] == np.floor(rewards[pair, b])
    return exact


@compiled
def _draw(words, move, four, episodes, episode, place):
    """The words of the next moves of an episode, if need be with its first state; how many there are then."""
    n = min(_BATCH, episodes.limit + 1 - move)
    philox_steps((np.int64(episode) << np.int64(32)) + move, n, *place, four)
    for i in range(n):
        words[move + i] = four[1, i]
    if move == 0:
        j = below(four[2, 0], episodes.starts.shape[0])
        words[0] = episodes.starts[j] if four[3, 0] < episodes.keep[j] else episodes.starts[episodes.alias[j]]
    return move + n


@compiled
def _among_equals(pair, values, ties, episode, move, place):
    """One of the pairs that are as good as `pair`, the first of them."""
    lane, seed, stream = place
    low, high = np.uint32(move), np.uint32(episode)
    word, _, _, _ = philox(np.uint32(0), low, high, np.uint32(lane), seed, stream)
    left = below(word, ties)
    largest = values[pair]
    while left > 0:
        pair += np.uint64(1)
        if values[pair] == largest:
            left -= np.uint64(1)
    return pair
