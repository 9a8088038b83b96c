import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.contracts import Update
from fedgraft.errors import ClientError, InputError
from fedgraft.methods.sharing.spreadgnn import HEAD, SpreadGNN
from helpers.sharing_clients import Quadratic
from helpers.toy_runs import remembered, run, toy

SMALL = {"head_rows": 2, "head_width": 2}


def one(*values):
    return {"w": np.array(values, np.float32)}


def head(*rows):
    return np.array(rows, np.float32)


def updates(values, weights, rows=(0, 0)):
    """{client: update}; heads of one row."""
    return [
        Update(client, weights[client], {**one(*value), "head:own": head(rows, (0, 0))})
        for client, value in sorted(values.items())
    ]


def models(method, state):
    return [method.model(state, client)["w"].tolist() for client in range(len(state["models"]))]


def moved_head(method, own, neighbours, start=0.0):
    """By how much the term alone moves a head in a step of rate 1, and what the client remembers."""
    known = np.zeros((method.head_width, method.head_width), np.float32)
    known[: len(neighbours), : neighbours.shape[1]] = neighbours
    trainer = Quadratic({**one(start), HEAD: own}, start={HEAD: own})
    upload, memory = method.local_update(trainer, {**one(start), "head:neighbours": known}, None)
    return upload["head:own"][: len(own), : own.shape[1]] - own, memory


def test_a_worked_example_on_a_ring():
    # Four clients at 0 with updates 4, 0, 8, 2 of weights 1/8, 1/8, 1/4, 1/2.
    method = SpreadGNN(topology="ring", **SMALL)
    weights = {0: 1 / 8, 1: 1 / 8, 2: 1 / 4, 3: 1 / 2}
    state = method.init(one(0, 10), 4)
    state = method.merge(state, updates({0: (4, 0), 1: (0, 0), 2: (8, 0), 3: (2, 0)}, weights))
    expected = [(4 + 0 + 4 * 2) / 6, (4 + 0 + 2 * 8) / 4, (0 + 2 * 8 + 4 * 2) / 7, (4 + 2 * 8 + 4 * 2) / 7]
    np.testing.assert_allclose(models(method, state), [[value, 10] for value in expected], rtol=1e-6)


def test_who_does_not_answer_keeps_its_model_and_gives_nothing():
    method, half = SpreadGNN(**SMALL), {0: 0.5, 2: 0.5}
    state = method.merge(method.init(one(0, 0), 3), updates({0: (4, 0), 2: (0, 8)}, half))
    assert models(method, state) == [[2, 4], [0, 0], [2, 4]]
    state = method.merge(state, updates({1: (1, 1)}, {1: 1.0}))
    assert models(method, state) == [[2, 4], [1, 1], [2, 4]]


@pytest.mark.parametrize(("clients", "near"), [(1, []), (2, [0]), (3, [0, 2]), (5, [0, 2])])
def test_neighbours_on_a_ring_are_others_each_once(clients, near):
    if clients == 1:
        assert SpreadGNN(topology="ring")._neighbours(0, 1) == []
    else:
        assert SpreadGNN(topology="ring")._neighbours(1, clients) == near


def test_the_term_by_hand():
    # Phi = diag(3, 4), Omega = diag(3, 4) / 7: the gradient of tr(Phi^T Omega^-1 Phi) at the first row is 2 . 7/3 . 3,
    # that of tr(Phi^T Omega Phi) is 2 . 3/7 . 3.
    for relation, gradient in (("inverse", 14), ("direct", 18 / 7)):
        moved, _ = moved_head(SpreadGNN(relation=relation, strength=0.5), head((3, 0)), head((0, 4)))
        np.testing.assert_allclose(moved, [[-0.5 * gradient, 0]], rtol=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 3))
def test_the_term_by_its_definition(seed, rows, others):
    g = np.random.default_rng(seed)
    own, around = g.normal(size=(rows, 6)).astype(np.float32), g.normal(size=(others, 6)).astype(np.float32)
    phi = torch.tensor(np.concatenate([own, around]).astype(np.float64), requires_grad=True)
    values, vectors = torch.linalg.eigh((phi @ phi.T).detach())
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    for relation, power in (("inverse", torch.linalg.inv), ("direct", lambda omega: omega)):
        phi.grad = None
        torch.trace(phi.T @ power(root / torch.trace(root)) @ phi).backward()
        moved, _ = moved_head(SpreadGNN(relation=relation, strength=0.01), own, around)
        np.testing.assert_allclose(moved, -0.01 * phi.grad[:rows].numpy(), rtol=1e-3, atol=1e-4)


def test_dependent_rows_have_a_term_too():
    moved, _ = moved_head(SpreadGNN(strength=1.0), head((1, 1)), head((1, 1), (2, 2)))
    # One singular value, sqrt(12); the gradient is 2 sqrt(12) times the first row's part of the unit vectors.
    np.testing.assert_allclose(moved, np.full((1, 2), -2 * np.sqrt(12) / np.sqrt(6) / np.sqrt(2)), rtol=1e-5)


def test_before_a_neighbour_is_known_there_is_no_term():
    moved, memory = moved_head(SpreadGNN(strength=1.0), head((3, 0)), np.zeros((0, 2), np.float32))
    assert not moved.any()
    assert memory == {"rounds": 1}


def test_the_strength_decays_by_round():
    method = SpreadGNN(strength=0.5, decay=0.1, **SMALL)
    known = {**one(0), "head:neighbours": head((0, 4), (0, 0))}
    trainer = Quadratic({**one(0), HEAD: head((3, 0))}, start={HEAD: head((3, 0))})
    upload, memory = method.local_update(trainer, known, {"rounds": 2})
    np.testing.assert_allclose(upload["head:own"][0], [3 - 0.01 * 0.5 * 14, 0], rtol=1e-6)
    assert memory == {"rounds": 3}


def test_neighbours_rows_are_sent_as_they_are_or_as_their_triangular_factor():
    method, weights = SpreadGNN(**SMALL), dict.fromkeys(range(4), 0.25)
    state = method.merge(method.init(one(0, 0), 4), updates(dict.fromkeys(range(3), (0, 0)), weights, rows=(1, 2)))
    assert method.model(state, 0)["head:neighbours"].tolist() == [[1, 2], [1, 2]]
    assert method.model(state, 3)["head:neighbours"].shape == (2, 2), "three rows do not fit"
    factor = method.model(state, 3)["head:neighbours"]
    np.testing.assert_allclose(factor.T @ factor, 3 * np.outer([1, 2], [1, 2]), rtol=1e-5, atol=1e-5)


@given(st.integers(0, 10**6))
def test_the_factor_makes_the_same_term(seed):
    g = np.random.default_rng(seed)
    own, around = g.normal(size=(2, 3)).astype(np.float32), g.normal(size=(7, 3)).astype(np.float32)
    method = SpreadGNN(strength=0.01, head_rows=7, head_width=3)
    state = method.init(one(0), 2)
    state = method.merge(state, [Update(1, 1.0, {**one(0), "head:own": around})])
    sent, _ = moved_head(method, own, method.model(state, 0)["head:neighbours"])
    direct, _ = moved_head(SpreadGNN(strength=0.01), own, around)
    np.testing.assert_allclose(sent, direct, rtol=1e-3, atol=1e-5)


def test_without_the_term_and_with_everybody_near_it_is_fedavg():
    sections = {"data": {"name": "helpers.toy_parts:Lines"}, "rounds": 3}
    spread, _, runtime = run(toy(sharing={"name": "spreadgnn", "strength": 0.0}, **sections))
    average, _, _ = run(toy(sharing={"name": "fedavg"}, **sections))
    for model in spread.sharing["models"]:
        for name, value in average.sharing["model"].items():
            np.testing.assert_allclose(model[name], value, rtol=1e-5, atol=1e-6)
    heads = [wire.unpack(memory)["private"][HEAD] for memory in remembered(runtime).values()]
    for known, own in zip(spread.sharing["heads"], heads, strict=True):
        assert np.array_equal(known[: len(own), : own.shape[1]], own)


@pytest.mark.parametrize("topology", ["complete", "ring"])
def test_heads_of_different_sizes_are_drawn_together(topology):
    def spread(strength):
        sharing = {"name": "spreadgnn", "topology": topology, "strength": strength}
        _, _, runtime = run(toy(sharing=sharing, data={"name": "helpers.toy_parts:Lines"}, rounds=10))
        heads = [wire.unpack(memory)["private"][HEAD] for memory in remembered(runtime).values()]
        assert [len(rows) for rows in heads] == [1, 2, 3, 1, 2]
        return np.linalg.svd(np.concatenate(heads), compute_uv=False).sum()

    assert spread(0.05) < 0.9 * spread(0.0), "the term is the square of the sum of singular values"


def test_a_head_that_is_too_large_is_told():
    trainer = Quadratic({**one(0), HEAD: head((1, 2), (3, 4), (5, 6))})
    with pytest.raises(
        ClientError, match=r"3 classes and width 2 does not fit SpreadGNN\.head_rows = 2 and head_width"
    ):
        SpreadGNN(**SMALL).local_update(trainer, {**one(0), "head:neighbours": head((0, 0), (0, 0))}, None)


@pytest.mark.parametrize(
    ("option", "allowed"),
    [
        ({"topology": "star"}, "one of 'complete', 'ring'; got 'star'"),
        ({"relation": "inverted"}, "one of 'inverse', 'direct'; got 'inverted'"),
        ({"strength": -1.0}, ">= 0"),
        ({"decay": 1.5}, r"in \[0, 1\]"),
        ({"head_rows": 0}, ">= 1"),
        ({"head_width": 0}, ">= 1"),
    ],
)
def test_impossible_options_are_refused(option, allowed):
    (name,) = option
    with pytest.raises(InputError, match=rf"^SpreadGNN\.{name} must be {allowed}"):
        SpreadGNN(**option)
