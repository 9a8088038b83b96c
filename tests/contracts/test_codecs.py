"""Every codec keeps the laws of `fedgraft.testing`; new files of the family are found by themselves."""

import pytest

from fedgraft.experiment.recipes import discovery
from fedgraft.methods.codecs.chain import Chain
from fedgraft.methods.codecs.feedback import Feedback
from fedgraft.methods.codecs.float16 import Float16
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.methods.codecs.sparse import Sparse
from fedgraft.testing.codecs import Case, composable
from helpers.laws import held
from laws.codecs import composition, compositions, laws

NAMES = discovery.names("codecs")
OPTIONS = {
    "low_rank": {"rank": 8},
    "chain": {"codecs": (Float16(), Quantized())},
    "feedback": {"codec": Quantized()},
}
"""Where a codec's defaults would not make the laws' model smaller."""
GENTLE = {"sparse": {"share": 1.0}}
"""Where they would lose more than a hundredth of an entry."""
LOSSLESS, FIXED_SHAPES = {"identity"}, {"feedback"}


def build(name, **options):
    return discovery.find("codecs", name)(**{**OPTIONS.get(name, {}), **options})


def case(name):
    return Case(build(name), build(name, **GENTLE.get(name, {})), name in LOSSLESS, name in FIXED_SHAPES)


THRESHOLDS = Sparse(share=0, threshold=0.5)
COMPOSED = {
    **{key: each for name in NAMES for key, each in compositions(name, build(name), name in FIXED_SHAPES).items()},
    "sparse above a threshold": composition(THRESHOLDS),
    "feedback(sparse)": composition(Feedback(THRESHOLDS), fixed_shapes=True),
    "quantized, sparse": composition(Chain((Quantized(bits=32), THRESHOLDS))),
}


def test_there_are_codecs():
    assert {"identity", "float16", "quantized", "low_rank", "sparse", "feedback", "chain"} <= set(NAMES)


@pytest.mark.parametrize("law", held({name: laws(case(name)) for name in NAMES}))
def test_keeps_the_law(law):
    law()


@pytest.mark.parametrize("law", held({name: composable(each, name) for name, each in COMPOSED.items()}))
def test_keeps_the_law_in_compositions(law):
    law()
