"""ChaCha20's own vectors, and numbers that are equally likely."""

import numpy as np
import pytest
from scipy.stats import chisquare

from fedgraft.errors import InputError
from fedgraft.secrets.keystream import Keystream, uniform_below


def test_the_first_test_vector_of_rfc_8439():
    stream = Keystream(bytes(32)).words(8).astype("<u8").tobytes()
    assert stream.hex().startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7da41597c5157488d")


def test_words_go_on_where_they_were_left():
    whole, parts = Keystream(bytes(32)).words(10), Keystream(bytes(32))
    assert np.array_equal(np.concatenate([parts.words(3), parts.words(0), parts.words(7)]), whole)


def test_two_streams_of_the_system_differ():
    assert not np.array_equal(Keystream().words(4), Keystream().words(4))


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 16, 17])
def test_numbers_below_a_bound_are_equally_likely(bound):
    drawn = uniform_below(bound, 20_000, Keystream(bytes(32)))
    counts = np.bincount(drawn, minlength=bound)
    assert len(counts) == bound
    assert bound == 1 or chisquare(counts).pvalue > 1e-3


def test_numbers_below_large_bounds_stay_below():
    drawn = uniform_below(2**62, 1_000, Keystream(bytes(32)))
    assert drawn.min() >= 0
    assert 2**61 < drawn.max() < 2**62


def test_a_key_of_another_length_is_an_error():
    with pytest.raises(InputError, match=r"The length of a key must be 32 bytes; got 16\."):
        Keystream(bytes(16))
