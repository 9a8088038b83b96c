"""Harmony-style selection: balanced labels and speed."""

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.harmony import Harmony, _divergence


def told(labels, n=None):
    return {k: {f"label_{bin}": share for bin, share in enumerate(row)} for k, row in labels.items()}


LOW, HIGH, MIDDLE = [0.5, 0.5, 0, 0, 0], [0, 0, 0, 0.5, 0.5], [0, 0.2, 0.6, 0.2, 0]


def known(selector, view, outcome, labels, **given):
    seen = view(len(labels), **given)
    rows = dict(enumerate(labels))
    return selector.update(selector.init(seen), seen, outcome(tuple(rows), reports=told(rows)))


def test_divergence_from_uniform():
    mass = np.array([[1.0, 1, 1, 1, 1], [3, 0, 0, 0, 0], [2, 2, 0, 0, 0], [0, 0, 0, 0, 0]])
    assert _divergence(mass) == pytest.approx([0, np.log(5), np.log(5 / 2), 0])


def test_greedy_choice_joins_complementary_clients(view, outcome, g):
    # Alone MIDDLE is nearest to uniform: KL 0.659 against 0.916. With it, LOW and HIGH are equal (0.250): lowest index.
    # A third place goes to HIGH, not to the second LOW.
    selector = Harmony(clients=2)
    state = known(selector, view, outcome, [LOW, LOW, HIGH, MIDDLE])
    assert _divergence(np.array([MIDDLE, LOW])) == pytest.approx([0.6591, 0.9163], abs=1e-4)
    assert selector.select(state, view(4, round=2), g).clients == (0, 3)
    assert Harmony(clients=3).select(state, view(4, round=2), g).clients == (0, 2, 3)


def test_histograms_count_by_examples(view, outcome, g):
    # With a big LOW already in, two small HIGH clients move the mix less than one big.
    selector = Harmony(clients=2, time_weight=0)
    even = [0.2] * 5
    state = known(selector, view, outcome, [even, HIGH, HIGH, LOW])
    seen = view(4, round=2, samples=[10, 1, 100, 50])
    assert selector.select(state, seen, g).clients == (0, 1)


def test_slow_clients_pay_in_proportion_to_their_delay(view, outcome, g):
    # Equal labels, so only min(1, T / t) counts: T is the median, 2; client 0 has 2 / 8.
    selector = Harmony(clients=2)
    state = selector.init(view(4))
    state = selector.update(
        state,
        view(4),
        outcome((0, 1, 2, 3), reports=told(dict.fromkeys(range(4), LOW)), seconds={0: 8, 1: 3, 2: 2, 3: 1}),
    )
    assert selector.select(state, view(4, round=2), g).clients == (2, 3)
    assert Harmony(clients=2, time_weight=0).select(state, view(4, round=2), g).clients == (0, 1)


def test_never_seen_clients_go_first_and_fastest_first(view, outcome, g):
    selector = Harmony(clients=2)
    seen = view(4, seconds=[4, 3, 2, 1])
    state = selector.init(seen)
    assert selector.select(state, seen, g).clients == (2, 3)
    state = selector.update(state, seen, outcome((2, 3), reports=told({2: LOW, 3: HIGH})))
    assert selector.select(state, seen, g).clients == (0, 1)


def test_a_client_that_never_answers_loses_its_privilege(view, outcome, g):
    selector = Harmony(clients=1, patience=2)
    seen = view(2)
    state = selector.update(selector.init(seen), seen, outcome((1,), reports=told({1: LOW})))
    for _ in range(2):
        assert selector.select(state, seen, g).clients == (0,)
        state = selector.update(state, seen, outcome((0,), reports={}, failed={0: "no reply"}))
    assert selector.select(state, seen, g).clients == (1,)
    assert selector.select(state, view(2, available=[True, False]), g).clients == (0,)


def test_labels_that_are_no_numbers_count_nothing(view, outcome):
    selector = Harmony()
    state = known(selector, view, outcome, [[float("nan"), -1, float("inf"), 0.5, 0.5]])
    assert state["labels"].tolist() == [[0, 0, 0, 0.5, 0.5]]


def test_reports_are_the_five_shares():
    assert Harmony.reports == {"label_0", "label_1", "label_2", "label_3", "label_4"}


@pytest.mark.parametrize(
    ("option", "value"), [("clients", -1), ("time_weight", -1), ("deadline_share", 0), ("patience", 0)]
)
def test_errors_name_the_option(option, value):
    with pytest.raises(InputError, match=rf"Harmony\.{option} must be .*; got {value}\."):
        Harmony(**{option: value})


def test_more_clients_than_there_are(view):
    with pytest.raises(InputError, match=r"Harmony\.clients must be in \[0, 4\]"):
        Harmony(clients=5).init(view(4))
