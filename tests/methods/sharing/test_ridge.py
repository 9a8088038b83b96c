"""Ridge: closed forms by hand, the same model however examples are cut, and what is refused."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.contracts import Linear, Regression, Update
from fedgraft.contracts.facts import TaskFacts
from fedgraft.domains.closed_form import PENALTIES, nearest_means, packed, ridge, unpacked
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.methods.sharing.ridge import Ridge
from fedgraft.testing.runs import play, toy
from fedgraft.wire.layouts import Layout
from helpers.node_runs import SMALL

CLASSES = Linear("w", "b", features=2, outputs=2, classes=True, by_features=True)
FORMS = ("class_sums", "gram", "random_features")


@dataclass
class Told:
    """A trainer with some examples, told in parts of two."""

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None = None

    def regression(self):
        weights = np.ones(len(self.x)) if self.weights is None else self.weights
        parts = [slice(at, at + 2) for at in range(0, len(self.x), 2)]
        return (Regression(*(each[part].astype(np.float32) for each in (self.x, self.y, weights))) for part in parts)


def drawn(linear):
    shape = (linear.features, linear.outputs) if linear.by_features else (linear.outputs, linear.features)
    return {linear.weight: np.ones(shape, np.float32), linear.bias: np.ones(linear.outputs, np.float32)}


def solved(method, clients, rounds=1):
    """The model of clients' examples, each sent in one of so many rounds."""
    state = method.init(drawn(method.linear), len(clients))
    sent = [Update(k, 0.1, method.local_update(told, {}, None)[0]) for k, told in enumerate(clients)]
    for begin in range(rounds):
        if updates := sent[begin::rounds]:
            state = method.merge(state, updates)
    return method.model(state)


def examples(seed, n, linear):
    g = np.random.default_rng(seed)
    x = g.standard_normal((n, linear.features))
    y = (
        np.eye(linear.outputs)[g.integers(0, linear.outputs, n)]
        if linear.classes
        else x @ g.standard_normal((linear.features, linear.outputs))
    )
    return x, y + 0.1 * g.standard_normal(y.shape) * (not linear.classes)


def test_one_feature_by_hand():
    """x = 0, 2, 4 and y = 1, 3, 5: centred X^T X = 8 = its mean eigenvalue, X^T Y = 8, so W = 8 / (8 + 8)."""
    z = np.array([[0, 1], [2, 1], [4, 1]], float)
    y = np.array([[1], [3], [5]], float)
    weight, bias = ridge(z.T @ z, z.T @ y, (y**2).sum(0), penalty=1.0)
    assert weight.tolist() == [[0.5]]
    assert bias.tolist() == [3 - 0.5 * 2]


def test_class_means_by_hand():
    """Means (3, 4) and (0, 5), both of length 5: weights are directions over 5."""
    weight, bias = nearest_means(np.array([[6, 8], [0, 15]], float), np.array([2, 3], float))
    np.testing.assert_allclose(weight, [[0.12, 0.16], [0, 0.2]])
    assert weight[0] @ [3, 4] == pytest.approx(1.0)
    assert bias.tolist() == [0, 0]


def test_the_penalty_is_that_of_generalised_cross_validation():
    g = np.random.default_rng(0)
    x = g.standard_normal((40, 6)) @ np.diag([3, 2, 1, 0.5, 0.1, 0.1])
    y = x[:, :2] + g.standard_normal((40, 2))
    z = np.column_stack([x, np.ones(40)])
    centred = x - x.mean(0)
    scale = np.trace(centred.T @ centred) / 6

    def error(penalty):
        hat = centred @ np.linalg.solve(centred.T @ centred + penalty * scale * np.eye(6), centred.T) + 1 / 40
        return 40 * np.square(y - hat @ y).sum() / (40 - np.trace(hat)) ** 2

    best = min(PENALTIES, key=error)
    sums = z.T @ z, z.T @ y, (y**2).sum(0)
    for found, expected in zip(ridge(*sums), ridge(*sums, penalty=best), strict=True):
        np.testing.assert_allclose(found, expected)


def test_a_triangle_comes_back_as_the_matrix():
    matrix = np.array([[1, 2, 3], [2, 4, 5], [3, 5, 6]], float)
    assert [part.tolist() for part in packed(matrix)] == [[1, 4, 6], [2, 3, 5]]
    assert unpacked(*packed(matrix)).tolist() == matrix.tolist()


@pytest.mark.parametrize("form", FORMS)
@given(seed=st.integers(0, 99), cuts=st.lists(st.integers(0, 60), max_size=5), rounds=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_however_examples_are_cut_the_model_is_that_of_one_place(form, seed, cuts, rounds):
    linear = Linear("w", "b", features=4, outputs=3, classes=True)
    x, y = examples(seed, 60, linear)
    method = Ridge(form=form, width=3, min_group_size=1).fitted(TaskFacts(linear=linear))
    ends = [0, *sorted(cuts), 60]
    clients = [Told(x[a:b], y[a:b]) for a, b in pairwise(ends)]
    apart, together = solved(method, clients, rounds), solved(method, [Told(x, y)])
    for name, array in together.items():
        np.testing.assert_allclose(apart[name], array, rtol=1e-5, atol=1e-5)


def test_gram_is_ridge_regression_on_all_examples():
    linear = Linear("w", "b", features=5, outputs=2, classes=False)
    x, y = examples(1, 50, linear)
    weights = np.random.default_rng(2).uniform(0.5, 2, 50)
    method = Ridge(form="gram", penalty=0.3).fitted(TaskFacts(linear=linear))
    found = solved(method, [Told(x[a : a + 10], y[a : a + 10], weights[a : a + 10]) for a in range(0, 50, 10)])
    mean, constant = (np.average(each, axis=0, weights=weights) for each in (x, y))
    root = np.sqrt(weights)[:, None]
    left, right = root * (x - mean), root * (y - constant)
    penalty = 0.3 * np.square(left).sum() / 5
    augmented = np.vstack([left, np.sqrt(penalty) * np.eye(5)]), np.vstack([right, np.zeros((5, 2))])
    expected = np.linalg.lstsq(*augmented, rcond=None)[0]
    np.testing.assert_allclose(found["w"], expected.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["b"], constant - mean @ expected, rtol=1e-4, atol=1e-5)


def test_as_many_random_features_as_features_are_enough():
    linear = Linear("w", "b", features=4, outputs=1, classes=False)
    x, y = examples(3, 200, linear)
    few, all_of_them, products = (
        np.square(x @ found["w"][0] + found["b"] - y[:, 0]).mean()
        for method in (Ridge("random_features", width=2), Ridge("random_features", width=64), Ridge("gram"))
        for found in [solved(method.fitted(TaskFacts(linear=linear)), [Told(x, y)])]
    )
    assert few > 2 * all_of_them
    assert all_of_them == pytest.approx(products, rel=0.05)


@pytest.mark.parametrize("form", FORMS)
def test_classes_with_few_examples_at_a_client_are_left_out(form):
    x = np.array([[1, 0], [2, 1], [9, 9]], float)
    y = np.array([[1, 0], [1, 0], [0, 1]], float)
    method = Ridge(form=form, width=2).fitted(TaskFacts(linear=CLASSES))
    with_all, without = (method.local_update(Told(x[:n], y[:n]), {}, None)[0] for n in (3, 2))
    assert all(np.array_equal(with_all[name], without[name]) for name in without)
    one = (
        Ridge(form=form, width=2, min_group_size=1)
        .fitted(TaskFacts(linear=CLASSES))
        .local_update(Told(x, y), {}, None)[0]
    )
    assert any(not np.array_equal(one[name], without[name]) for name in without)


def test_numbers_of_a_client_with_few_are_left_out():
    method = Ridge("gram", min_group_size=3).fitted(TaskFacts(linear=Linear("w", "b", 2, 1, classes=False)))
    sums, _ = method.local_update(Told(np.ones((2, 2)), np.ones((2, 1))), {}, None)
    assert not any(array.any() for array in sums.values())


def test_a_client_is_counted_once():
    method = Ridge("gram").fitted(TaskFacts(linear=CLASSES))
    x, y = examples(4, 20, CLASSES)
    sent = Update(0, 1.0, method.local_update(Told(x, y), {}, None)[0])
    once = method.merge(method.init(drawn(CLASSES), 2), [sent])
    twice = method.merge(once, [sent])
    assert all(np.array_equal(twice["sums"][name], once["sums"][name]) for name in once["sums"])


@pytest.mark.parametrize(("form", "numbers"), [("class_sums", 2 * 3), ("gram", 6 + 3 * 2 + 2)])
def test_what_is_sent_is_what_the_page_says(form, numbers):
    layout = Ridge(form).fitted(TaskFacts(linear=CLASSES)).uploads(Layout(()))
    assert sum(np.prod(spec.shape) for spec in layout) == numbers


@pytest.mark.parametrize(
    ("features", "classes", "most", "form", "width"),
    [
        (1000, True, None, "gram", 512),
        (1001, True, None, "class_sums", 512),
        (1001, False, None, "random_features", 512),
        (10, True, 1000, "gram", 512),
        (10, True, 80, "class_sums", 512),
        (10, False, 14, "random_features", 2),
    ],
)
def test_auto_takes_what_a_budget_pays_for(features, classes, most, form, width):
    method = Ridge().fitted(TaskFacts(linear=Linear("w", "b", features, 2, classes)))
    pays = None if most is None else (lambda layout: sum(np.prod(spec.shape) for spec in layout) <= most)
    chosen = method.within(pays)
    assert (chosen.form, chosen.width) == (form, width)
    assert chosen.linear == method.linear


def test_the_budget_of_a_run_decides():
    rich, poor = ({"budget.bytes": size, "sharing.form": "auto"} for size in ("1MB", 400))
    assert [once(**each)[0].plan.sharing.form for each in (rich, poor)] == ["gram", "class_sums"]
    assert once(**poor)[0].recipe.sections["sharing"]["form"] == "class_sums", "a stored run knows"


def once(**changes):
    """The recipe on four clients of a small graph, and their data."""
    given = {key: value for key, value in SMALL.items() if key.startswith("data.")}
    experiment = load("graft_once", {**given, "runtime.workers": 0, "baselines": [], **changes})
    shards = experiment.shards()
    return experiment.fitted(shards), shards


def test_one_client_alone_is_no_step_that_is_too_large():
    experiment = toy(sharing={"name": "ridge"}, data={"name": "fedgraft.testing.toy:Lines", "clients": 1}, rounds=1)
    state = play(experiment.fitted(experiment.shards())).state
    assert state.curve[-1]["validation"] < 0.2 < state.curve[0]["validation"]


def test_what_is_not_linear_is_refused():
    text = r"Ridge solves for a linear model, which task Node with these options does not have; Node, NodeRegression"
    with pytest.raises(InputError, match=text):
        load("graft_once", {"model.hidden": [4], "data.name": "blocks"})
    with pytest.raises(InputError, match=text):
        load("graft_once", {"task.generator": True, "inputs.propagate": 0, "data.name": "blocks"})
    with pytest.raises(InputError, match="which task Graph with these options"):
        load("cefgl", {"sharing.name": "ridge", "data.name": "molecules"})


def test_sums_are_not_treated_as_steps():
    with pytest.raises(
        InputError, match=r"aggregation\.name must be 'mean' with sharing Ridge, whose clients send no steps"
    ):
        toy(sharing={"name": "ridge"}, aggregation={"name": "median"})
    with pytest.raises(InputError, match=r"safeguards\.clip must be 0 with sharing Ridge"):
        toy(sharing={"name": "ridge"}, safeguards={"clip": 1.0})


def test_impossible_options_are_refused():
    with pytest.raises(InputError, match=r"Ridge\.form must be one of .*gram.*; got 'grim'"):
        Ridge(form="grim")
    with pytest.raises(InputError, match=r"Ridge\.min_group_size must be >= 1; got 0"):
        Ridge(min_group_size=0)
    with pytest.raises(InputError, match=r"Ridge\.form must be a form of numbers"):
        Ridge("class_sums").fitted(TaskFacts(linear=Linear("w", "b", 2, 1, classes=False)))
