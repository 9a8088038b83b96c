"""Laws of codecs, of those that code rows, and of compositions: a quantiser behind a codec, error feedback around."""

import numpy as np

from fedgraft.contracts import RowCodec
from fedgraft.errors import WireError
from fedgraft.methods.codecs.chain import Chain
from fedgraft.methods.codecs.feedback import Feedback
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.testing import codecs
from fedgraft.testing.codecs import Case, composable
from fedgraft.testing.coded_arrays import generator
from fedgraft.testing.laws import Laws, check, expect, expect_error

LAWS: Laws[Case] = Laws()


def check_codec(cls, /, *, gentle=None, lossless=False, fixed_shapes=False, **options):
    """Hold a codec and its compositions to all laws; arguments as those of `fedgraft.testing.check_codec`."""
    case = Case(cls(**options), cls(**{**options, **(gentle or {})}), lossless, fixed_shapes)
    composed = compositions(cls.__name__, case.codec, fixed_shapes)
    check([*laws(case), *(law for name, each in composed.items() for law in composable(each, name))])


def laws(case):
    """The laws of a codec by itself, to be called one by one."""
    return [*codecs.laws(case), *LAWS.held(type(case.codec), lambda: case)]


def composition(codec, fixed_shapes=False):
    """What laws of compositions are held against."""
    return Case(codec, codec, fixed_shapes=fixed_shapes)


def compositions(name, codec, fixed_shapes):
    """{name: a codec with a quantiser behind it, and both with error feedback around them}."""
    both = Chain((codec, Quantized(bits=5)))
    return {
        f"{name}, quantized": composition(both, fixed_shapes),
        f"feedback({name}, quantized)": composition(Feedback(both), fixed_shapes=True),
    }


@LAWS.having(RowCodec)
def rows_are_coded_each_by_itself(case: Case) -> None:
    """Make as many bytes of every row, decode any of them without the others, and lose less than half."""
    codec, g = case.gentle, generator(6)
    assert isinstance(codec, RowCodec)
    for width in (0, 1, 5, 16, 300):
        rows = g.standard_normal((7, width)).astype(np.float32) * np.geomspace(1e-3, 1e3, 7, dtype=np.float32)[:, None]
        for some in (rows, rows[:0], np.asfortranarray(rows)):
            coded, shape = codec.encode_rows(some, generator()), (len(some), codec.row_bytes(width))
            expect(
                coded.dtype == np.uint8 and coded.shape == shape, f"rows must be coded as uint8 {shape}", coded.shape
            )
            decoded = codec.decode_rows(coded, width)
            fit = decoded.dtype == np.float32 and decoded.shape == some.shape
            expect(fit, "what is decoded must have the shape of what was coded", decoded.shape)
            lost = np.abs(decoded - some).max(1, initial=0) > np.abs(some).max(1, initial=0) / 2
            expect(not lost.any(), "no value may change by more than half its row's largest", lost)
            part = codec.decode_rows(coded[2:5], width)
            expect(np.array_equal(part, decoded[2:5]), "a row must decode alike without the others", part)
        with expect_error(WireError, "rows of another length must be refused"):
            codec.decode_rows(np.zeros((2, codec.row_bytes(width) + 1), np.uint8), width)
