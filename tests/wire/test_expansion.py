"""A limit of what a message stands for holds before there is room for it."""

import numpy as np
import pytest

from fedgraft.contracts import Codec
from fedgraft.errors import WireError
from fedgraft.experiment.recipes.codec_sections import build_codec
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout, Spec
from fedgraft.wire.messages import at_most

LAYOUT = Layout((Spec("rows", "float32", (VARIABLE, 8)),))
CODECS = {
    "sparse": {"name": "sparse", "share": 0.001},
    "low_rank": {"name": "low_rank", "rank": 1},
    "quantized": {"name": "quantized", "bits": 1},
    "chain": {"name": "chain", "codecs": [{"name": "sparse", "share": 0.01}, {"name": "quantized", "bits": 8}]},
}


def encoded(name: str, rows: int) -> tuple[Codec[object], Arrays]:
    codec: Codec[object] = build_codec("rows", CODECS[name])
    g = np.random.default_rng(0)
    arrays = {"rows": g.normal(size=(rows, 8)).astype(np.float32)}
    return codec, codec.encode(arrays, codec.init(LAYOUT), g)[0]


@pytest.mark.parametrize("name", CODECS)
def test_every_codec_asks_before_it_makes_room(name: str) -> None:
    codec, arrays = encoded(name, 1000)
    with at_most(32_000, "most"):
        assert codec.decode(arrays, LAYOUT)["rows"].nbytes == 32_000
    with (
        at_most(31_999, "most"),
        pytest.raises(WireError, match="what it says takes 32000 bytes once decoded, most = 31999"),
    ):
        codec.decode(arrays, LAYOUT)
    assert len(codec.decode(arrays, LAYOUT)["rows"]) == 1000, "outside there is no limit"
