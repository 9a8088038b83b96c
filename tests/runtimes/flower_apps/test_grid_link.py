"""Messages of Flower's: bytes of any length come out as they went in, and anything else as none."""

import pickle

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedgraft.runtimes.flower_apps.apps import KEY, LONG_BYTES, bytes_in, record_of


@pytest.mark.parametrize("size", [0, 1, 1000, LONG_BYTES - 1, LONG_BYTES, LONG_BYTES + 1])
def test_bytes_come_out_as_they_went_in(size):
    content = np.random.default_rng(size).bytes(size)
    assert bytes_in(record_of(content)) == content


@pytest.mark.parametrize(
    "record",
    [
        RecordDict(),
        RecordDict({"other": ConfigRecord({KEY: b"a"})}),
        RecordDict({KEY: ConfigRecord({"other": b"a"})}),
        RecordDict({KEY: ConfigRecord({KEY: "a"})}),
        RecordDict({KEY: ConfigRecord({KEY: [b"a"]})}),
        RecordDict({KEY: MetricRecord({KEY: 1})}),
        RecordDict({KEY: ArrayRecord({KEY: Array(np.zeros(3))})}),
        *(
            RecordDict({KEY: ArrayRecord({KEY: Array(dtype="uint8", shape=(3,), stype="numpy.ndarray", data=data)})})
            for data in (b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00v\x00{", pickle.dumps([1]))
        ),
    ],
)
def test_anything_else_is_none(record):
    assert bytes_in(record) == b""
