"""Every codec keeps the laws of `fedgraft.testing`; new files of the family are found by themselves."""

import pytest

from fedgraft.experiment.recipes import discovery
from fedgraft.methods.codecs.chain import Chain
from fedgraft.methods.codecs.feedback import Feedback
from fedgraft.methods.codecs.float16 import Float16
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.methods.codecs.sparse import Sparse
from fedgraft.testing import codecs, composed_codecs
from fedgraft.testing.composed_codecs import Composed, compositions
from helpers.laws import held

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
    return codecs.Case(build(name), build(name, **GENTLE.get(name, {})), name in LOSSLESS, name in FIXED_SHAPES)


THRESHOLDS = Sparse(share=0, threshold=0.5)
COMPOSED = [
    *(each for name in NAMES for each in compositions(name, build(name), name not in FIXED_SHAPES)),
    Composed("sparse above a threshold", THRESHOLDS, True),
    Composed("feedback(sparse)", Feedback(THRESHOLDS), False),
    Composed("quantized, sparse", Chain((Quantized(bits=32), THRESHOLDS)), True),
]


def test_there_are_codecs():
    assert {"identity", "float16", "quantized", "low_rank", "sparse", "feedback", "chain"} <= set(NAMES)


@pytest.mark.parametrize("law", held({name: codecs.laws(case(name)) for name in NAMES}))
def test_keeps_the_law(law):
    law()


@pytest.mark.parametrize("law", held({each.name: composed_codecs.laws(each) for each in COMPOSED}))
def test_keeps_the_law_in_compositions(law):
    law()
