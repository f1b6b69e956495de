"""Arrays in the forms of other libraries: one model, whatever their order, memory or kind; doubt is refused."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.problems.arrays import from_outcomes


def drawn(seed: int, n_states: int, n_actions: int) -> tuple[np.ndarray, np.ndarray]:
    """P (S, A, S) with rows of few successors, and R (S, A)."""
    rng = np.random.default_rng(seed)
    p = rng.random((n_states, n_actions, n_states)) * (rng.random((n_states, n_actions, n_states)) < 0.4)
    p[..., 0] += 0.1
    return p / p.sum(2, keepdims=True), rng.normal(size=(n_states, n_actions))


def model(P: Any, R: Any, **more: Any) -> mq.FiniteMDP:
    return mq.from_arrays(P, R, discount=0.9, **more)


def refusal(*arrays: Any, **more: Any) -> SettingError:
    with pytest.raises(SettingError) as refused:
        model(*arrays, **more)
    assert "\n" not in str(refused.value)
    return refused.value


# --- the order of the axes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_states", "n_actions"), [(5, 5), (5, 3), (3, 5), (1, 4), (2, 2)])
@pytest.mark.parametrize("of_successors", [False, True])
def test_both_orders_give_one_model(n_states, n_actions, of_successors):
    P, R = drawn(0, n_states, n_actions)
    R = R[:, :, None] * np.arange(1, n_states + 1) if of_successors else R
    admissible = np.arange(n_actions) <= np.arange(n_states)[:, None]
    R = np.where(admissible[..., None] if of_successors else admissible, R, 0.0)
    usual = model(P, R, axes="xuy", admissible=admissible)
    other = model(P.swapaxes(0, 1), R.swapaxes(0, 1), axes="uxy", admissible=admissible.T)
    assert usual.digest() == other.digest()
    assert np.array_equal(other.admissible, admissible)
    outcomes = (usual.successors, usual.probabilities, usual.rewards)
    listed = from_outcomes(
        *(array.swapaxes(0, 1) for array in outcomes), axes="uxy", discount=0.9, admissible=admissible.T
    )
    assert listed.digest() == usual.digest()


def test_as_many_actions_as_states_asks_for_the_order():
    P, R = drawn(1, 4, 4)
    error = refusal(P, R)
    assert error.setting == "axes" and 'axes="xuy"' in str(error) and 'axes="uxy"' in str(error)
    values = [mq.optimal(model(P, R, axes=axes)).start_value for axes in ("xuy", "uxy")]
    assert abs(values[0] - values[1]) > 1e-3  # it matters


def test_no_order_is_asked_for_where_both_are_one_model_or_only_one_is_a_model():
    P, R = drawn(2, 3, 3)
    P, R = (P + P.swapaxes(0, 1)) / 2, R + R.T
    assert model(P, R).digest() == model(P, R, axes="uxy").digest()
    P, R = drawn(3, 3, 3)
    P[2], R[2] = 0, 0
    ends = np.array([False, False, True])
    assert model(P, R, terminal=ends).digest() == model(P, R, axes="xuy", terminal=ends).digest()
    error = refusal(P.swapaxes(0, 1), R.T, terminal=ends)
    assert error.setting == "R[state 2, action 0]"
    assert 'as (action, state, successor) it is a model: axes="uxy"' in str(error)


def test_where_shapes_tell_the_order_is_named():
    P, R = drawn(4, 5, 3)
    assert 'this looks like (action, state, successor): give axes="uxy"' in str(refusal(P.swapaxes(0, 1), R.T))
    assert 'this looks like (state, action, successor): give axes="xuy"' in str(refusal(P, R, axes="uxy"))
    assert "its axes (action, state), or (3, 5, 5)" in str(refusal(P.swapaxes(0, 1), R, axes="uxy"))
    assert "give R.T" in str(refusal(P.swapaxes(0, 1), R, axes="uxy"))
    assert "must be xuy or uxy (did you mean 'xuy'?)" in str(refusal(P, R, axes="xyu"))


def test_rewards_of_states_are_told_how_to_become_rewards_of_pairs():
    P, R = drawn(5, 5, 3)
    text = str(refusal(P, R[:, 0]))
    assert "np.repeat(R[:, None], 3, axis=1)" in text
    assert model(P, np.repeat(R[:, 0][:, None], 3, axis=1)).mean_rewards[:, 2] == pytest.approx(R[:, 0])


def test_a_square_table_of_rewards_that_follows_the_order_is_said():
    P, R = drawn(6, 3, 3)
    assert "R was read as (action, state)" in model(P.swapaxes(0, 1), R.T, axes="uxy").notes[0]
    assert model(P, R, axes="xuy").notes == ()


# --- memory and kinds -------------------------------------------------------------------------------------------------


LAYOUTS = {
    "fortran": np.asfortranarray,
    "negative strides": lambda array: array[::-1].copy()[::-1],
    "read-only": lambda array: array.view() if array.setflags(write=False) is None else array,
    "big-endian": lambda array: array.astype(">f8"),
    "lists": lambda array: array.tolist(),
    "strided": lambda array: np.repeat(array, 2, axis=0)[::2],
    "longdouble": lambda array: array.astype(np.longdouble),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(5))
def test_the_layout_in_memory_changes_no_bit(layout, seed):
    rng = np.random.default_rng(seed)
    n_states, n_actions = (int(n) for n in rng.integers(1, 7, 2))
    P, R = drawn(seed, n_states, n_actions)
    made = model(LAYOUTS[layout](P), LAYOUTS[layout](R), axes="xuy")
    assert made.digest() == model(P.copy(), R.copy(), axes="xuy").digest()
    turned = LAYOUTS[layout](P.swapaxes(0, 1)), LAYOUTS[layout](R.T)
    assert model(*turned, axes="uxy").digest() == made.digest()


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.bool_, np.float16, ">i4"])
def test_whole_numbers_of_any_kind_are_numbers(kind):
    P, R = np.eye(3)[[[0, 1], [2, 2], [1, 0]]], np.array([[1, 0], [0, 1], [1, 1]])
    assert model(P.astype(kind), R.astype(kind)).digest() == model(P, R).digest()


def test_single_precision_is_normalised_and_said():
    P, R = drawn(7, 5, 3)
    made = model(P.astype(np.float32), R.astype(np.float32))
    assert made.probabilities.sum(2) == pytest.approx(1, abs=1e-15)
    assert "divided by their sums" in made.notes[0]
    assert mq.optimal(made).v == pytest.approx(mq.optimal(model(P, R)).v, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "setting", "said"),
    [
        (lambda P, R: (P.astype(object), R), "P", "must be an array of numbers"),
        (lambda P, R: (P + 0j, R), "P", "must be an array of numbers"),
        (lambda P, R: (P, R.astype(str)), "R", "must be an array of numbers"),
        (lambda P, R: ([*P.tolist()[:1], [[1.0]]], R), "P", "ragged"),
        (lambda P, R: (np.where(P[1, 2, 0] == P, np.nan, P), R), "P[state 1, action 2, entry 0]", "must be finite"),
        (lambda P, R: (P, np.where(R[4, 1] == R, np.inf, R)), "R[state 4, action 1]", "must be finite"),
        (lambda P, R: (P[..., None], R), "P", "must have the shape (S, A, S)"),
        (lambda P, R: (P[:0], R), "P", "must have the shape (S, A, S)"),
        (lambda P, R: (None, R), "P", "must be an array of numbers"),
        (lambda P, R: (P, None), "R", "must be an array of numbers"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(change, setting, said):
    error = refusal(*change(*drawn(8, 5, 3)))
    assert error.setting == setting and said in str(error)


# --- pairs that there are not -----------------------------------------------------------------------------------------


def test_a_reward_of_minus_infinity_is_a_pair_that_there_is_not():
    P, R = drawn(9, 5, 3)
    R[1, 2] = R[4, 0] = -np.inf
    allowed = np.isfinite(R)
    made = model(P, R)
    assert np.array_equal(made.admissible, allowed)
    assert made.digest() == model(P, R, admissible=allowed).digest()
    assert made.digest() == model(P, np.where(allowed, R, 0.0), admissible=allowed).digest()
    of_successors = np.where(allowed[..., None], R[..., None] + np.zeros(5), -np.inf)
    assert np.array_equal(model(P, of_successors).admissible, allowed)
    other = model(P.swapaxes(0, 1), R.T, axes="uxy")
    assert other.digest() == made.digest()


def test_listed_outcomes_take_a_reward_of_minus_infinity_too():
    P, R = drawn(14, 5, 3)
    usual = model(P, R)
    R[2, 0] = -np.inf
    made = from_outcomes(usual.successors, usual.probabilities, R, discount=0.9)
    assert not made.admissible[2, 0] and np.count_nonzero(~made.admissible) == 1
    with pytest.raises(SettingError, match=r"rewards\[state 2, action 0\]=-inf"):
        from_outcomes(usual.successors, usual.probabilities, R, discount=0.9, admissible=np.ones((5, 3), bool))


def test_a_reward_of_minus_infinity_that_contradicts_is_refused():
    P, R = drawn(10, 5, 3)
    R[1, 2] = -np.inf
    error = refusal(P, R, admissible=np.ones((5, 3), bool))
    assert error.setting == "R[state 1, action 2]" and "admissible[R == -np.inf] = False" in str(error)
    of_one = np.repeat(drawn(10, 5, 3)[1][..., None], 5, axis=2)
    of_one[2, 1, 0] = -np.inf
    assert refusal(P, of_one).setting == "R[state 2, action 1, entry 0]"
    R[3] = -np.inf
    assert "has no admissible action" in str(refusal(P, R))


# --- sparse matrices and lists of pairs -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix])
@pytest.mark.parametrize("seed", range(4))
def test_sparse_matrices_are_the_dense_arrays(form, seed):
    rng = np.random.default_rng(seed)
    n_states, n_actions = (int(n) for n in rng.integers(1, 7, 2))
    P, R = drawn(seed, n_states, n_actions)
    of_successors = np.where(P > 0, rng.normal(size=P.shape), 0.0)
    R[0, 1:] = -np.inf
    of_actions = [form(matrix) for matrix in P.swapaxes(0, 1)]
    assert model(of_actions, R.T, axes="uxy").digest() == model(P, R, axes="xuy").digest()
    assert model([form(matrix) for matrix in P], R, axes="xuy").digest() == model(P, R, axes="xuy").digest()
    rewards = [form(matrix) for matrix in of_successors.swapaxes(0, 1)]
    dense = model(P, of_successors, axes="xuy")
    for given in (rewards, of_successors.swapaxes(0, 1)):
        assert model(of_actions, given, axes="uxy").digest() == dense.digest()
    boxed = np.empty(n_actions, object)
    boxed[:] = of_actions
    assert model(boxed, R.T, axes="uxy").digest() == model(P, R, axes="xuy").digest()


def test_sparse_matrices_stay_sparse():
    n = 60_000  # 27 GiB if it were dense
    ring = sparse.csr_array((np.ones(n), (np.arange(n), np.roll(np.arange(n), -1))), shape=(n, n))
    made = model([ring], np.ones((1, n)), axes="uxy")
    assert made.successors.shape == (n, 1, 1) and made.successors[n - 1, 0, 0] == 0


def test_wrong_sparse_matrices_are_refused():
    P, R = drawn(11, 5, 3)
    of_actions = [sparse.csr_array(matrix) for matrix in P.swapaxes(0, 1)]
    assert 'give axes="uxy"' in str(refusal(of_actions, R.T))
    assert "must be matrices of one shape" in str(refusal([*of_actions[:2], of_actions[2][:4]], R.T, axes="uxy"))
    assert "must sum to 1" in str(refusal([0.9 * of_actions[0], *of_actions[1:]], R.T, axes="uxy"))
    of_actions[1].data[0] = np.nan
    assert "must be finite" in str(refusal(of_actions, R.T, axes="uxy"))


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
@pytest.mark.parametrize("seed", range(4))
def test_one_sparse_matrix_with_a_row_for_each_pair_is_the_dense_array(form, seed):
    rng = np.random.default_rng(seed)
    n_states, n_actions = (int(n) for n in rng.integers(2, 7, 2))
    P, R = drawn(seed, n_states, n_actions)
    of_successors = np.where(P > 0, rng.normal(size=P.shape), 0.0)
    by_state, by_action = (-1, n_states), P.swapaxes(0, 1)
    dense = model(P, R, axes="xuy")
    assert model(form(P.reshape(by_state)), R, axes="xuy").digest() == dense.digest()
    assert model(form(by_action.reshape(by_state)), R.T, axes="uxy").digest() == dense.digest()
    rewards = form(of_successors.reshape(by_state)), form(of_successors.swapaxes(0, 1).reshape(by_state))
    dense = model(P, of_successors, axes="xuy")
    assert model(form(P.reshape(by_state)), rewards[0], axes="xuy").digest() == dense.digest()
    assert model(form(by_action.reshape(by_state)), rewards[1], axes="uxy").digest() == dense.digest()


def test_wrong_sparse_matrices_of_pairs_are_refused():
    P, R = drawn(3, 5, 3)
    pairs = sparse.csr_array(P.reshape(15, 5))
    assert "row x A + u for state x and action u" in str(refusal(pairs[:14], R))
    assert "R='array of shape (3, 5)': must have the shape (5, 3)" in str(refusal(pairs, R.T, axes="xuy"))
    assert "must sum to 1 within 1e-6" in str(refusal(0.9 * pairs, R, axes="xuy"))
    assert "axes=None: must be given, as P and R are a model in either order" in str(refusal(pairs, pairs))
    assert model(pairs, R).digest() == model(P, R, axes="xuy").digest()  # R (S, A) leaves no doubt


def test_a_row_so_full_that_all_rows_would_not_fit_is_refused_with_the_figure(monkeypatch):
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**15}.__getitem__)  # 128 MiB
    n = 2000
    rows, full = np.append(np.arange(1, n), np.zeros(n, int)), np.append(np.arange(1, n), np.arange(n))
    P = sparse.csr_array((np.append(np.ones(n - 1), np.full(n, 1 / n)), (rows, full)), shape=(n, n))
    said = str(refusal(P, np.zeros((n, 1)), axes="xuy"))
    assert "B=2000: must be at most 671 here" in said and "would take 0.373 GiB, this machine has 0.125 GiB" in said


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_list_of_pairs_is_the_table(form):
    P, R = drawn(12, 6, 4)
    allowed = np.random.default_rng(12).random((6, 4)) < 0.6
    allowed[:, 1] = True
    x, u = np.nonzero(allowed)
    order = np.random.default_rng(13).permutation(len(x))
    x, u = x[order], u[order]
    made = model(form(P[x, u]), R[x, u], s_indices=x, a_indices=u)
    assert made.digest() == model(P, np.where(allowed, R, 0.0), admissible=allowed).digest()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"s_indices": [0, 1]}, "must be R (L,), P (L, S), s_indices (L,) and a_indices (L,)"),
        ({"s_indices": [0, 1, 1], "a_indices": [0, 0]}, "must be R (L,), P (L, S)"),
        ({"s_indices": [0, 1, 1], "a_indices": [0, 1, 1]}, "s_indices[pair 2]=1: is the same pair"),
        ({"s_indices": [0, 1, 2], "a_indices": [0, 1, 1]}, "s_indices[pair 2]=2: must be a state from 0 to 1"),
        ({"s_indices": [0, 1, 1], "a_indices": [0, -1, 1]}, "a_indices[pair 1]=-1.0: must be a whole number"),
        ({"s_indices": [0, 0.5, 1], "a_indices": [0, 1, 1]}, "s_indices[pair 1]=0.5: must be a whole number"),
        ({"s_indices": [0, 1, 1], "a_indices": [0, 0, 1], "axes": "uxy"}, "axes='uxy': does not go with s_indices"),
    ],
)
def test_wrong_lists_of_pairs_are_refused(more, said):
    assert said in str(refusal(np.full((3, 2), 0.5), np.ones(3), **more))
