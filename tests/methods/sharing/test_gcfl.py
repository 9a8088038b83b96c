import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.contracts import Update
from fedgraft.errors import InputError
from fedgraft.methods.sharing.gcfl import GCFL, _minimum_cut, _warped_distances
from helpers.toy_runs import run, same, toy

AT_ONCE = {"after": 0, "mean_norm": 1.0, "max_norm": 1.0}
ALWAYS = {"after": 0, "mean_norm": 100.0, "max_norm": 0.0}


def one(*values):
    return {"w": np.array(values, np.float32)}


def updates(given, weights=None):
    """{client: update} of equal weights, or of the given."""
    weights = weights or dict.fromkeys(given, 1 / len(given))
    return [Update(client, weights[client], one(*values)) for client, values in sorted(given.items())]


def clusters(method, state, clients=3):
    return [method.group(state, client) for client in range(clients)]


def models(method, state):
    return [method.model(state, group)["w"].tolist() for group in range(len(state["models"]))]


def test_a_worked_example():
    # The mean is 0 and clients move by 2 and 4. cos + 1 is 2 between the first two and 0 to the third, who leaves.
    method = GCFL(**AT_ONCE)
    state = method.merge(method.init(one(10, 0), 3), updates({0: (2, 0), 1: (2, 0), 2: (-4, 0)}))
    assert clusters(method, state) == [0, 0, 1]
    assert models(method, state) == [[12, 0], [6, 0]]
    # From then on each cluster moves by its own members' mean, weights 1/4 and 1/2 being 1/3 and 2/3 of it.
    weights = {0: 0.25, 1: 0.5, 2: 0.25}
    state = method.merge(state, updates({0: (3, 3), 1: (0, 3), 2: (0, 1)}, weights))
    assert models(method, state) == [[13, 3], [6, 1]]


@pytest.mark.parametrize(
    ("given", "splits"),
    [
        ({0: (2, 0), 1: (2, 0), 2: (-1.5, 0)}, True),  # mean 5/6
        ({0: (2, 0), 1: (2, 0), 2: (-1, 0)}, False),  # mean 1 is not below 1
        ({0: (1, 0), 1: (1, 0), 2: (-1, 0)}, False),  # 1 is not above 1
        ({0: (2, 0), 1: (-2, 0)}, False),  # two are not more than `smallest`
    ],
)
def test_the_criterion_is_equations_4_and_5(given, splits):
    method = GCFL(**AT_ONCE)
    state = method.merge(method.init(one(0, 0), len(given)), updates(given))
    assert len(state["models"]) == 1 + splits


def test_the_mean_of_the_criterion_is_plain_as_in_the_code():
    # Weighted the mean would be 1.6, plain it is 0.
    method, weights = GCFL(**AT_ONCE), {0: 0.45, 1: 0.45, 2: 0.1}
    state = method.merge(method.init(one(0, 0), 3), updates({0: (2, 0), 1: (2, 0), 2: (-4, 0)}, weights))
    assert len(state["models"]) == 2


def test_no_split_before_so_many_rounds():
    method, given = GCFL(**{**AT_ONCE, "after": 3}), updates({0: (2, 0), 1: (2, 0), 2: (-4, 0)})
    state, seen = method.init(one(0, 0), 3), []
    for _ in range(5):
        state = method.merge(state, given)
        seen.append(len(state["models"]))
    assert seen == [1, 1, 1, 2, 2]


def test_a_new_cluster_splits_again_and_numbers_stay():
    method = GCFL(**{**ALWAYS, "smallest": 1})
    state = method.init(one(0, 0), 4)
    state = method.merge(state, updates({0: (1, 0), 1: (1, 0.1), 2: (-1, 0), 3: (-1, 0.1)}))
    assert clusters(method, state, 4) == [0, 0, 1, 1]
    state = method.merge(state, updates({0: (1, 0), 1: (-1, 0), 2: (0, 1), 3: (1, 0)}))
    assert clusters(method, state, 4) == [0, 2, 1, 3]


def test_sequences_of_norms_tell_others_apart_than_directions():
    # Directions tie the first to the third; norms 1, 1 and 3 tie the first to the second.
    given = {0: (1, 0), 1: (0, 1), 2: (3, 0)}
    found = {}
    for series in (False, True):
        method = GCFL(**ALWAYS, series=series, length=2)
        state = method.init(one(0, 0), 3)
        for _ in range(2):
            state = method.merge(state, updates(given))
        found[series] = clusters(method, state)
    assert found == {False: [0, 1, 0], True: [0, 0, 1]}


def test_sequences_have_so_many_norms_and_start_anew_after_a_split():
    method = GCFL(**{**ALWAYS, "smallest": 1}, series=True, length=3)
    state, lengths, seen = method.init(one(0, 0), 3), [], []
    for _ in range(7):
        state = method.merge(state, updates({0: (3, 4), 1: (3, 4), 2: (0, 1)}))
        lengths.append([len(norms) for norms in state["norms"]])
        seen.append(len(state["models"]))
    assert seen == [1, 1, 2, 2, 2, 3, 3]
    assert lengths == [[1] * 3, [2] * 3, [0] * 3, [1] * 3, [2] * 3, [0] * 3, [1] * 3]
    assert state["norms"][0].tolist() == [5]


def test_who_is_not_heard_stands_for_the_last_update():
    method = GCFL(**AT_ONCE)
    state = method.init(one(0, 0), 4)
    state = method.merge(state, updates({1: (2, 0), 3: (-4, 0)}))
    assert len(state["models"]) == 1, "two known are too few"
    state = method.merge(state, updates({2: (2, 0)}))
    assert clusters(method, state, 4) == [0, 0, 0, 1], "client 0 is not known and stays"
    assert models(method, state) == [[-1 + 2, 0], [-1, 0]], "only who answered moves a model"


def test_a_cluster_is_left_alone_where_nobody_answered():
    method = GCFL(**{**ALWAYS, "smallest": 2})
    state = method.merge(method.init(one(0, 0), 6), updates({k: (1 if k < 3 else -1, k / 10) for k in range(6)}))
    assert clusters(method, state, 6) == [0, 0, 0, 1, 1, 1]
    state = method.merge(state, updates({4: (1, 1)}))
    assert set(clusters(method, state, 6)[:3]) == {0}
    assert len(state["models"]) == 3


def test_updates_of_zero_are_no_trouble():
    method = GCFL(**{**ALWAYS, "max_norm": 0.5})
    state = method.merge(method.init(one(0, 0), 3), updates({0: (0, 0), 1: (0, 0), 2: (1, 0)}))
    assert len(state["models"]) == 2
    assert np.isfinite(models(method, state)).all()


def test_a_worked_example_of_time_warping():
    # 1 1 2 against 1 2 3: walk (1,1) (1,1) (2,2) (2,3) at a cost of (2 - 3)^2, where without warping it is 1 + 1.
    found = _warped_distances(np.array([[1.0, 1, 2], [1, 2, 3]]))
    assert found.tolist() == [[0, 1], [1, 0]]


@given(st.lists(st.lists(st.floats(0, 9), min_size=4, max_size=4), min_size=2, max_size=4))
def test_time_warping_by_its_definition(sequences):
    def distance(one, other):
        @cache
        def cost(a, b):
            step = (one[a] - other[b]) ** 2
            if a == b == 0:
                return step
            return step + min(cost(i, j) for i, j in ((a - 1, b), (a, b - 1), (a - 1, b - 1)) if i >= 0 and j >= 0)

        return math.sqrt(cost(3, 3))

    found = _warped_distances(np.array(sequences))
    for (i, one), (j, other) in itertools.product(enumerate(sequences), repeat=2):
        assert found[i, j] == pytest.approx(distance(one, other), abs=1e-9)


@given(st.integers(0, 10**6), st.integers(2, 6))
def test_the_cut_severs_the_least(seed, count):
    ties = np.random.default_rng(seed).random((count, count))
    ties = ties + ties.T

    def severed(side):
        return sum(ties[i, j] for i in side for j in range(count) if j not in side)

    sides = [side for size in range(1, count) for side in itertools.combinations(range(count), size)]
    found = _minimum_cut(ties)
    assert 0 < len(found) < count
    assert severed(set(found)) == pytest.approx(min(severed(set(side)) for side in sides))


@pytest.mark.parametrize("option", [{"mean_norm": 0.0}, {"max_norm": 1e9, "mean_norm": 1e9}])
def test_without_a_split_it_is_fedavg(option):
    clustered, _, _ = run(toy(sharing={"name": "gcfl", "after": 0, **option}))
    average, _, _ = run(toy(sharing={"name": "fedavg"}))
    assert same(clustered.sharing["models"], [average.sharing["model"]])


@pytest.mark.parametrize("series", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_odd_client_gets_a_model_of_its_own(series):
    different = {"name": "helpers.toy:Lines", "shift": 6.0}
    sharing = {"name": "gcfl", **ALWAYS, "after": 3, "smallest": 4, "series": series, "length": 3}
    apart, _, runtime = run(toy(sharing=sharing, data=different, rounds=40))
    together, _, _ = run(toy(sharing={"name": "fedavg"}, data=different, rounds=40))
    assert apart.sharing["clusters"].tolist() == [0, 1, 1, 1, 1]
    assert apart.curve[-1]["validation"] < together.curve[-1]["validation"] / 2
    last = {client: request for kind, round, client, request in runtime.sent if (kind, round) == ("train", 40)}
    assert last[0] != last[1] == last[2]


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("mean_norm", -1.0, ">= 0"),
        ("max_norm", float("nan"), ">= 0"),
        ("smallest", 0, ">= 1"),
        ("after", -1, ">= 0"),
        ("length", 1, ">= 2"),
    ],
)
def test_impossible_options_are_refused(name, value, allowed):
    with pytest.raises(InputError, match=rf"^GCFL\.{name} must be {allowed}; got"):
        GCFL(**{name: value})
