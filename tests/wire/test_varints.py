"""Whole numbers in as few bytes as they need."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import WireError
from fedgraft.wire.packing import decode_varints, encode_varints

NUMBERS = st.lists(st.integers(0, 2**35 - 1), max_size=40)


def test_numbers_below_128_take_a_byte_and_others_seven_bits_a_byte():
    assert encode_varints(np.array([0, 1, 127])).tolist() == [0, 1, 127]
    assert encode_varints(np.array([128, 300])).tolist() == [128, 1, 172, 2]
    assert len(encode_varints(np.array([2**35 - 1]))) == 5


@given(NUMBERS)
def test_what_is_decoded_is_what_was_encoded(numbers):
    assert decode_varints(encode_varints(np.array(numbers, np.int64))).tolist() == numbers


@given(st.binary(max_size=30))
def test_bytes_are_refused_or_are_those_of_the_numbers_that_they_decode_to(blob):
    coded = np.frombuffer(blob, np.uint8)
    try:
        numbers = decode_varints(coded)
    except WireError:
        return
    assert encode_varints(numbers).tolist() == coded.tolist()


@pytest.mark.parametrize("coded", [[128], [1, 200], [128] * 5 + [1], [128, 0]])
def test_cut_overlong_and_padded_numbers_are_refused(coded):
    with pytest.raises(WireError):
        decode_varints(np.array(coded, np.uint8))
