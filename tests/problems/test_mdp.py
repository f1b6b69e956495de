"""FiniteMDP: what it refuses, what it derives, and the Bellman operator against plain loops."""

import dataclasses
import pickle
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_mdps import mdps, random_mdp

from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP, bellman, greedy, state_values

slow_machine = settings(deadline=None)


def fields(mdp: FiniteMDP) -> dict[str, Any]:
    """The constructor's arguments, arrays as writable copies."""
    values = {field.name: getattr(mdp, field.name) for field in dataclasses.fields(mdp)}
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def small() -> dict[str, Any]:
    """Two states that move on, and a terminal goal."""
    return {
        "successors": np.array([[[1, 0]], [[2, 0]], [[2, 2]]]),
        "probabilities": np.array([[[0.5, 0.5]], [[0.75, 0.25]], [[1.0, 0.0]]]),
        "rewards": np.array([[[0.0, 0.0]], [[1.0, 0.0]], [[0.0, 0.0]]]),
        "terminal": np.array([False, False, True]),
        "admissible": np.ones((3, 1), bool),
        "start": np.array([1.0, 0.0, 0.0]),
        "discount": 0.9,
        "goal": np.array([False, False, True]),
        "name": "small",
    }


def put(field: str, index: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        values[field][index] = value

    return change


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        (put("successors", (0, 0, 1), 3), "successors[0, 0, 1]"),
        (put("successors", (1, 0, 0), -1), "successors[1, 0, 0]"),
        (put("successors", (2, 0, 0), 0), "successors[2, 0, 0]"),
        (put("probabilities", (0, 0, 0), 0.6), "probabilities[0, 0]"),
        (put("probabilities", (0, 0), [1.5, -0.5]), "probabilities[0, 0, 1]"),
        (put("probabilities", (0, 0, 0), np.nan), "probabilities[0, 0, 0]"),
        (put("rewards", (1, 0, 1), np.inf), "rewards[1, 0, 1]"),
        (put("rewards", (2, 0, 0), 1.0), "rewards[2, 0, 0]"),
        (put("rewards", (0, 0, 0), 1e200), "rewards"),
        (put("admissible", (1, 0), False), "admissible[1]"),
        (put("start", 0, 0.5), "start"),
        (put("start", slice(None), [1.5, -0.5, 0.0]), "start[1]"),
        (put("start", slice(None), [0.5, 0.0, 0.5]), "start[2]"),
        (put("start", 0, np.nan), "start[0]"),
        (lambda values: values.update(rewards=np.zeros((3, 2, 2))), "rewards"),
        (lambda values: values.update(start=np.zeros(4)), "start"),
        (lambda values: values.update(goal=np.zeros(3)), "goal"),
        (lambda values: values.update(successors=values["successors"] + 0.0), "successors"),
        (lambda values: values.update(successors=np.zeros((3, 0, 2), int)), "successors"),
        (lambda values: values.update(rewards=[[[0.0]], [[0.0, 1.0]], [[0.0]]]), "rewards"),
        (lambda values: values.update(successors=[[[0], [0, 1]]]), "successors"),
        (lambda values: values.update(layout=("SF", "G")), "layout"),
    ],
)
def test_a_wrong_model_is_refused_by_the_name_of_its_entry(change, setting):
    values = small()
    FiniteMDP(**values)
    change(values)
    with pytest.raises(SettingError) as refused:
        FiniteMDP(**values)
    assert refused.value.setting == setting


@pytest.mark.parametrize("discount", [0, 0.0, -0.1, 1.5, np.nan, np.inf, "0.9", None, True, np.array([0.9])])
def test_a_discount_outside_the_unit_interval_is_refused(discount):
    with pytest.raises(SettingError, match="strictly between 0 and 1"):
        FiniteMDP(**small() | {"discount": discount})


def test_successors_that_do_not_fit_32_bits_are_refused_instead_of_wrapping_around():
    values = small()
    values["successors"] = values["successors"].astype(np.int64)
    values["successors"][0, 0, 1] = 2**32
    with pytest.raises(SettingError, match="4294967296"):
        FiniteMDP(**values)


@slow_machine
@given(mdps(), st.sampled_from(["probabilities", "rewards", "start"]), st.data())
def test_any_entry_that_is_not_finite_is_refused(mdp, field, data):
    values = fields(mdp)
    index = tuple(data.draw(st.integers(0, n - 1)) for n in values[field].shape)
    values[field][index] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    with pytest.raises(SettingError, match=f"^{field}"):
        FiniteMDP(**values)


@slow_machine
@given(mdps(), st.data())
def test_any_admissible_pair_whose_probabilities_do_not_sum_to_one_is_refused(mdp, data):
    values = fields(mdp)
    x, u = data.draw(st.sampled_from(list(map(tuple, mdp.pairs.tolist()))))
    values["probabilities"][x, u] *= data.draw(st.sampled_from([0.0, 0.5, 1 - 1e-9, 1 + 1e-9, 2.0]))
    with pytest.raises(SettingError, match="sum to 1"):
        FiniteMDP(**values)


def test_the_arrays_belong_to_the_model_and_cannot_be_written():
    values = small()
    mdp = FiniteMDP(**values)
    values["rewards"][1, 0, 0] = 5
    assert mdp.rewards[1, 0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        mdp.rewards[1, 0, 0] = 5
    with pytest.raises(ValueError, match="read-only"):
        mdp.mean_rewards[0, 0] = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        mdp.discount = 0.5  # pyright: ignore[reportAttributeAccessIssue]  # wrong on purpose


@slow_machine
@given(mdps())
def test_pairs_and_offsets_list_the_learned_pairs_state_by_state(mdp):
    assert mdp.pairs.dtype == mdp.pair_offsets.dtype == mdp.successors.dtype == np.int32
    listed = [
        (x, int(u)) for x in range(mdp.n_states) for u in mdp.pairs[mdp.pair_offsets[x] : mdp.pair_offsets[x + 1], 1]
    ]
    assert listed == [tuple(pair) for pair in mdp.pairs.tolist()]
    for x in range(mdp.n_states):
        for u in range(mdp.n_actions):
            assert ((x, u) in listed) == (not mdp.terminal[x] and mdp.admissible[x, u])


@slow_machine
@given(mdps())
def test_distances_are_those_of_a_search_by_hand(mdp):
    queue = deque(np.flatnonzero(mdp.start > 0).tolist())
    distance = dict.fromkeys(queue, 0)
    while queue:
        x = queue.popleft()
        for u in np.flatnonzero(mdp.learned[x]):
            for y in mdp.successors[x, u][mdp.probabilities[x, u] > 0].tolist():
                if y not in distance:
                    distance[y] = distance[x] + 1
                    queue.append(y)
    assert mdp.distances.tolist() == [distance.get(x, -1) for x in range(mdp.n_states)]
    assert np.array_equal(mdp.counted, mdp.learned & np.isin(np.arange(mdp.n_states), list(distance))[:, None])


@slow_machine
@given(mdps(), st.integers(0, 2**32 - 1))
def test_bellman_operator_and_greedy_actions_are_those_of_plain_loops(mdp, seed):
    q = np.random.default_rng(seed).integers(-3, 3, (2, mdp.n_states, mdp.n_actions)).astype(float)
    target, actions, values = bellman(mdp, q), greedy(mdp, q), state_values(mdp, q)
    for table, expected, policy, v in zip(q, target, actions, values, strict=True):
        best = [
            0.0 if mdp.terminal[x] else max(table[x, u] for u in range(mdp.n_actions) if mdp.admissible[x, u])
            for x in range(mdp.n_states)
        ]
        assert v.tolist() == best
        for x, u in np.ndindex(mdp.n_states, mdp.n_actions):
            if not mdp.learned[x, u]:
                assert expected[x, u] == 0
                continue
            outcomes = zip(mdp.probabilities[x, u], mdp.rewards[x, u], mdp.successors[x, u], strict=True)
            assert expected[x, u] == pytest.approx(
                sum(p * (r + mdp.discount * best[y]) for p, r, y in outcomes), abs=1e-13
            )
        for x in np.flatnonzero(~mdp.terminal):
            choices = [u for u in range(mdp.n_actions) if mdp.admissible[x, u] and table[x, u] == best[x]]
            assert policy[x] == choices[0]


@slow_machine
@given(mdps())
def test_the_table_of_a_terminal_state_never_enters_a_target(mdp):
    q = np.ones((mdp.n_states, mdp.n_actions))
    poisoned = np.where(mdp.terminal[:, None], 1e9, q)
    assert np.array_equal(bellman(mdp, q), bellman(mdp, poisoned))


def test_the_largest_reward_is_one_that_can_happen():
    values = small()
    values["probabilities"][1, 0] = [0.0, 1.0]  # the reward 1 can no longer be had
    assert FiniteMDP(**values).max_reward == 0
    assert FiniteMDP(**small()).max_reward == 1


@slow_machine
@given(mdps(), st.data())
def test_the_digest_is_that_of_the_content(mdp, data):
    twin = dataclasses.replace(mdp, name="another name")
    assert twin.digest() == mdp.digest() == pickle.loads(pickle.dumps(mdp)).digest()
    assert mdp.with_discount(0.5).digest() != mdp.digest()
    values = fields(mdp)
    x, u = data.draw(st.sampled_from(list(map(tuple, mdp.pairs.tolist()))))
    values["rewards"][x, u, 0] = np.nextafter(values["rewards"][x, u, 0], 2)
    assert FiniteMDP(**values).digest() != mdp.digest()
    values = fields(mdp)
    values["goal"][x] ^= True
    assert FiniteMDP(**values).digest() != mdp.digest()


def test_the_sign_of_a_zero_does_not_change_the_digest():
    values = small()
    values["rewards"][0] = -0.0
    assert FiniteMDP(**values).digest() == FiniteMDP(**small()).digest()


def test_another_discount_leaves_the_model_as_it_is():
    mdp = random_mdp(0, 5, 2, 3, 0.9, "mixed")
    other = mdp.with_discount(0.5)
    assert (mdp.discount, other.discount) == (0.9, 0.5)
    assert np.array_equal(mdp.probabilities, other.probabilities)
    with pytest.raises(SettingError, match=r"discount=1\.5"):
        mdp.with_discount(1.5)
