"""Fastest: those whose rounds are expected to be shortest."""

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.fastest import Fastest


def test_takes_those_with_the_fewest_seconds_who_are_there(view, g):
    seen = view(5, seconds=[3.0, 1.0, 2.0, 9.0, 4.0])
    assert Fastest(clients=2).select(None, seen, g).clients == (1, 2)
    away = view(5, seconds=[3.0, 1.0, 2.0, 9.0, 4.0], available=[True, False, True, True, True])
    assert Fastest(clients=2).select(None, away, g).clients == (0, 2)
    assert len(Fastest().select(None, seen, g).clients) == 3, "half, rounded up"


def test_equals_are_taken_at_random(view):
    drawn = [Fastest(clients=1).select(None, view(4), np.random.default_rng(seed)).clients for seed in range(40)]
    assert set(drawn) == {(0,), (1,), (2,), (3,)}


def test_terms_rank_by_seconds(view):
    explanation = Fastest().explanation(None, view(3, seconds=[2.0, 1.0, 3.0]))
    assert np.argsort(-explanation["score"]).tolist() == [1, 0, 2]
    assert explanation["expected seconds"].tolist() == [2.0, 1.0, 3.0]


def test_more_clients_than_there_are_are_refused(view):
    with pytest.raises(InputError, match=r"Fastest\.clients must be in \[0, 4\]"):
        Fastest(clients=5).init(view(4))
