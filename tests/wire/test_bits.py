"""Bits that are read in pieces."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.wire import packing
from fedgraft.wire.packing import count_bits, set_bits


@given(marks=st.lists(st.booleans(), max_size=200), piece=st.integers(1, 5))
def test_places_are_those_that_were_packed(marks: list[bool], piece: int) -> None:
    before, packing._PIECE = packing._PIECE, piece
    try:
        packed = np.packbits(np.array(marks, bool))
        assert set_bits(packed).tolist() == np.flatnonzero(marks).tolist()
        assert count_bits(packed) == sum(marks)
    finally:
        packing._PIECE = before
