"""DivFL: the greedy choice by hand and against all choices, and what a client stands for."""

from itertools import combinations

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.divfl import DivFL, distances, representatives
from fedgraft.methods.sketches import SKETCH
from fedgraft.testing import check_selector


def at(*places, known=None):
    """A state in which clients' updates lie at these places."""
    sketches = np.zeros((len(places), SKETCH), np.float32)
    sketches[:, : len(places[0])] = places
    return {"sketches": sketches, "known": np.array(known or [True] * len(places))}


GROUPS = ((0, 0), (0, 1), (1, 0), (50, 0), (50, 1), (0, 90))


def test_one_of_each_group_trains_and_stands_for_it(view, g):
    selection = DivFL(clients=3, weights="represented").select(at(*GROUPS), view(6), g)
    assert selection.clients[0] in (0, 1, 2)
    assert selection.clients[1] in (3, 4)
    assert selection.clients[2] == 5
    assert selection.weights == pytest.approx((3 / 6, 2 / 6, 1 / 6))


def test_the_lazy_search_finds_what_the_plain_one_finds():
    """i_1 = argmin_i sum_k D[k, i], then argmin_i sum_k min(c_k, D[k, i])."""
    for seed in range(20):
        apart = distances(np.random.default_rng(seed).normal(size=(30, 4)).astype(np.float32))
        nearest = np.full(30, np.inf)
        for chosen in representatives(apart, 8):
            costs = [np.minimum(nearest, apart[:, k]).sum() for k in range(30)]
            assert costs[chosen] == pytest.approx(min(costs)), "two that are near each other are worth the same"
            nearest = np.minimum(nearest, apart[:, chosen])


def test_the_greedy_choice_is_near_the_best_of_all():
    apart = distances(np.random.default_rng(3).normal(size=(12, 3)).astype(np.float32))

    def gain(chosen):
        return (apart.max(1) - apart[:, list(chosen)].min(1)).sum()

    best = max(gain(chosen) for chosen in combinations(range(12), 4))
    assert gain(representatives(apart, 4)) >= (1 - 1 / np.e) * best


def test_who_is_not_known_goes_first_and_weights_are_then_by_examples(view, g):
    known = [True, True, True, False, True, False]
    selection = DivFL(clients=3, weights="represented").select(at(*GROUPS, known=known), view(6), g)
    assert {3, 5} < set(selection.clients)
    assert selection.weights is None
    first = DivFL(clients=2)
    assert len(first.select(first.init(view(6)), view(6), g).clients) == 2


def test_equal_updates_each_stand_for_themselves(view, g):
    selection = DivFL(clients=2, weights="represented").select(at((1, 1), (1, 1)), view(2), g)
    assert selection.weights == (0.5, 0.5)


def test_weights_by_examples_are_left_to_the_loop(view, g):
    assert DivFL(clients=2).select(at(*GROUPS), view(6), g).weights is None


def test_what_an_update_says_is_kept(view, outcome):
    selector = DivFL()
    state = selector.update(selector.init(view(3)), view(3), outcome((1,), updates={1: {"w": np.ones(9, np.float32)}}))
    assert state["known"].tolist() == [False, True, False]
    assert np.abs(state["sketches"][1]).sum() > 0


@pytest.mark.slow
def test_the_other_variant_keeps_the_laws():
    check_selector(DivFL, weights="represented")


def test_errors_name_the_option(view):
    with pytest.raises(InputError, match=r"'represented', 'samples'; got 'sample'\. Did you mean 'samples'"):
        DivFL(weights="sample")
    with pytest.raises(InputError, match=r"DivFL\.clients must be in \[0, 4\]"):
        DivFL(clients=5).init(view(4))
