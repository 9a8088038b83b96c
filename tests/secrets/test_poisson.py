"""A coin for each unit."""

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from fedgraft.errors import InputError
from fedgraft.secrets.keystream import Keystream, drawn

KEY = bytes(range(32))


def test_how_many_take_part_is_binomial():
    source = Keystream(KEY)
    counts = np.bincount([len(drawn(10, 0.3, source)) for _ in range(5_000)], minlength=11)
    expected = 5_000 * binom.pmf(np.arange(11), 10, 0.3)
    assert chisquare(np.append(counts[:7], counts[7:].sum()), np.append(expected[:7], expected[7:].sum())).pvalue > 1e-3


def test_everybody_is_as_likely_and_each_alone():
    source = Keystream(KEY)
    there = np.zeros((5_000, 6))
    for round in there:
        round[drawn(6, 0.5, source)] = 1
    assert np.abs(there.mean(axis=0) - 0.5).max() < 4 * 0.5 / np.sqrt(5_000)
    assert np.abs(np.corrcoef(there.T) - np.eye(6)).max() < 4 / np.sqrt(5_000)


def test_all_and_none():
    assert drawn(4, 1.0, Keystream(KEY)).tolist() == [0, 1, 2, 3]
    assert drawn(4, 1e-300, Keystream(KEY)).tolist() == []
    assert drawn(0, 0.5, Keystream(KEY)).tolist() == []


def test_errors_say_what_is_allowed():
    with pytest.raises(InputError, match=r"The share of units must be in \(0, 1\]; got 0\."):
        drawn(4, 0, Keystream(KEY))
