"""Clustered sampling: distributions by hand, and that nobody is drawn more or less often than by m draws."""

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.clustered import Clustered, _clusters, _filled
from fedgraft.methods.sketches import SKETCH
from fedgraft.testing import check_selector

SAMPLES = [50, 30, 10, 10, 60, 40]


def often(selector, state, seen, rounds=4000):
    """Mean weight of each client in the average."""
    g, found = np.random.default_rng(0), np.zeros(seen.clients)
    for _ in range(rounds):
        selection = selector.select(state, seen, g)
        assert sum(selection.weights) == pytest.approx(1)
        found[list(selection.clients)] += selection.weights
    return found / rounds


def pointing(*directions):
    """Sketches of updates, the first coordinates of which are given."""
    sketches = np.zeros((len(directions), SKETCH), np.float32)
    for row, direction in zip(sketches, directions, strict=True):
        row[: len(direction)] = direction
    return sketches


@pytest.mark.parametrize("by", ["size", "similarity"])
def test_everybody_counts_as_much_as_his_data(view, by):
    """E[weight of k] = n_k / n (Fraboni et al., proposition 1)."""
    selector, seen = Clustered(clients=3, by=by), view(6, samples=SAMPLES)
    state = selector.init(seen)
    if by == "similarity":
        state = {"sketches": pointing((1, 0), (1, 0.1), (0, 1), (0, 1), (-1, 0), (-1, 0.1))}
    np.testing.assert_allclose(often(selector, state, seen), np.array(SAMPLES) / 200, atol=0.012)


def test_by_size_distributions_are_poured_full_by_falling_size(view):
    """Masses 3 n / 200, by falling size: 0.9 (4), 0.75 (0), 0.6 (5), 0.45 (1), 0.15, 0.15."""
    selector, seen, g = Clustered(clients=3), view(6, samples=SAMPLES), np.random.default_rng(0)
    drawn = [selector.select(selector.init(seen), seen, g) for _ in range(500)]
    assert all({0, 4} & set(each.clients) for each in drawn), "the first distribution: 0.9 of client 4, 0.1 of 0"
    assert all({2, 3, 1, 5} & set(each.clients) for each in drawn), "the last: what is behind 2"


def test_a_client_that_is_drawn_twice_counts_twice(view):
    selector, seen = Clustered(clients=2), view(2, samples=[90, 10])
    selections = {selector.select(selector.init(seen), seen, np.random.default_rng(seed)) for seed in range(60)}
    found = {each.clients: each.weights for each in selections}
    assert found[(0,)] == (1.0,)
    assert found[(0, 1)] == (0.5, 0.5)


def test_clients_that_point_the_same_way_share_a_distribution():
    g = np.random.default_rng(0)
    mass = np.full(6, 0.5)
    sketches = pointing((1, 0), (0, 1), (-1, 0), (1, 0.05), (0.05, 1), (-1, 0.05))
    who, parts = _filled(mass, sketches, g)
    assert {frozenset(pair) for pair in who.reshape(3, 2).tolist()} == {frozenset(p) for p in ((0, 3), (1, 4), (2, 5))}
    np.testing.assert_allclose(parts, 0.5)


def test_a_client_with_more_than_a_distribution_has_some_for_itself():
    who, parts = _filled(np.array([2.3, 0.4, 0.3]), pointing((1,), (1,), (1,)), np.random.default_rng(0))
    assert who[:2].tolist() == [0, 0]
    assert np.cumsum(parts)[:2].tolist() == [1.0, 2.0]
    totals = np.bincount(who, parts)
    np.testing.assert_allclose(totals, [2.3, 0.4, 0.3])


def test_no_cluster_is_heavier_than_a_distribution_and_those_without_updates_are_alike():
    sketches = pointing((1, 0), (1, 0), (1, 0), (0, 0), (0, 0))
    clusters = _clusters(sketches, np.array([0.4, 0.4, 0.4, 0.5, 0.5]))
    assert clusters[3] == clusters[4]
    assert not {clusters[3]} & set(clusters[:3].tolist())
    assert max(np.bincount(clusters, [0.4, 0.4, 0.4, 0.5, 0.5])) <= 1
    assert len(set(clusters[:3].tolist())) == 2


def test_what_an_update_says_is_kept(view, outcome):
    selector = Clustered(by="similarity")
    state = selector.init(view(3))
    told = outcome((1,), updates={1: {"w": np.ones(10, np.float32)}})
    after = selector.update(state, view(3), told)
    assert np.abs(after["sketches"]).sum(1).astype(bool).tolist() == [False, True, False]


@pytest.mark.slow
def test_the_other_variant_keeps_the_laws():
    check_selector(Clustered, by="similarity")


def test_errors_name_the_option(view):
    with pytest.raises(InputError, match=r"'size', 'similarity'; got 'sizes'\. Did you mean 'size'"):
        Clustered(by="sizes")
    with pytest.raises(InputError, match=r"Clustered\.clients must be in \[0, 4\]"):
        Clustered(clients=5).init(view(4))
