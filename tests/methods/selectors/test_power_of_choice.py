"""Power-of-choice, with probes and with stale losses."""

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.power_of_choice import PowerOfChoice


def losses(*values):
    return {k: {"loss": value} for k, value in enumerate(values) if value is not None}


def test_takes_the_highest_losses_with_equal_weights(view, g):
    selector = PowerOfChoice(clients=2)
    seen = view(4, probed=losses(0.2, 0.9, None, 0.5))
    selection = selector.select(selector.init(view(4)), seen, g)
    assert selection.clients == (1, 3)
    assert selection.weights == (0.5, 0.5)


def test_candidates_are_drawn_in_proportion_to_examples(view):
    selector = PowerOfChoice(clients=1, candidates=2)
    seen = view(3, samples=[10, 20, 50])
    state, g = selector.init(seen), np.random.default_rng(0)
    pairs = [selector.probe(state, seen, g).clients for _ in range(4000)]
    # P{0, 1} = 1/8 * 2/7 + 2/8 * 1/6
    assert np.mean([pair == (0, 1) for pair in pairs]) == pytest.approx(1 / 28 + 1 / 24, abs=0.015)
    assert {len(pair) for pair in pairs} == {2}


def test_defaults_are_half_of_the_clients_and_twice_as_many_candidates(view, g):
    selector = PowerOfChoice()
    state = selector.init(view(5))
    assert selector.probe(state, view(5), g).clients == (0, 1, 2, 3, 4)
    assert len(selector.select(state, view(5), g).clients) == 3


def test_probes_nobody_where_everybody_would_train(view, g):
    selector = PowerOfChoice(clients=2, candidates=2)
    state = selector.init(view(4))
    assert selector.probe(state, view(4), g) is None
    only_two = view(4, available=[True, False, True, False])
    assert PowerOfChoice(clients=2).probe(state, only_two, g) is None
    assert PowerOfChoice(clients=2).select(state, only_two, g).clients == (0, 2)


def test_probes_are_cut_to_what_leaves_enough_for_one_client(view, g):
    selector = PowerOfChoice(clients=1, candidates=4)
    state = selector.init(view(4))
    assert len(selector.probe(state, view(4, bytes_left=220), g).clients) == 2  # 2 * 60 + 100
    assert selector.probe(state, view(4, bytes_left=159), g) is None
    assert len(selector.select(state, view(4, bytes_left=159), g).clients) == 1


def test_a_loss_that_is_no_number_ranks_last(view, g):
    selector = PowerOfChoice(clients=2)
    seen = view(3, probed=losses(float("nan"), 0.1, 0.2))
    assert selector.select(selector.init(view(3)), seen, g).clients == (1, 2)


def test_stale_losses_ask_nobody_and_prefer_the_never_picked(view, outcome, g):
    selector = PowerOfChoice(clients=2, candidates=4, variant="rpow-d")
    state = selector.init(view(4))
    assert selector.probe(state, view(4), g) is None
    told = outcome((0, 1, 2), reports=losses(0.3, 0.9), failed={2: "no reply"})
    state = selector.update(state, view(4), told)
    assert state["loss"].tolist() == [0.3, 0.9, np.inf, np.inf]
    assert selector.select(state, view(4), g).clients == (2, 3)
    state = selector.update(state, view(4), outcome((2, 3), reports={2: {"loss": 0.1}, 3: {"loss": 0.5}}))
    assert selector.select(state, view(4), g).clients == (1, 3)


def test_ties_fall_at_random(view):
    selector = PowerOfChoice(clients=1, variant="rpow-d")
    state, g = selector.init(view(2)), np.random.default_rng(0)
    assert {selector.select(state, view(2), g).clients for _ in range(30)} == {(0,), (1,)}


def test_errors_name_the_option(view):
    with pytest.raises(InputError, match=r"'pow-d', 'rpow-d'; got 'powd'\. Did you mean 'pow-d'"):
        PowerOfChoice(variant="powd")
    with pytest.raises(InputError, match=r"PowerOfChoice\.clients must be in \[0, 4\]"):
        PowerOfChoice(clients=5).init(view(4))
    for candidates in (1, 5):
        with pytest.raises(InputError, match=r"PowerOfChoice\.candidates must be 0 or in \[2, 4\]"):
            PowerOfChoice(clients=2, candidates=candidates).init(view(4))
