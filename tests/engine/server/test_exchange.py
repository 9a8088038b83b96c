"""One bad client costs itself its round, and nobody else anything."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.server.exchange import Replies, check_finite, halo_bytes
from fedgraft.errors import ClientError
from fedgraft.wire import Message
from fedgraft.wire.layouts import VARIABLE, Layout, Spec
from helpers.toy_runs import run, same, toy, upload

WITHOUT = {"name": "helpers.toy_methods:Without"}


FINE = {"weight": np.zeros(3, np.float32), "bias": np.zeros(1, np.float32)}
NOT_FINITE = {"weight": np.array([0, np.nan, 0], np.float32), "bias": np.zeros(1, np.float32)}
INFINITE = {"weight": np.zeros(3, np.float32), "bias": np.array([np.inf], np.float32)}
LONGER = {"weight": np.zeros(4, np.float32), "bias": np.zeros(1, np.float32)}
BAD = {
    "nan": (upload(NOT_FINITE), "weight of the reply is not finite"),
    "infinite": (upload(INFINITE), "bias of the reply is not finite"),
    "nan in the report": (upload(FINE, math.nan), "loss of the reply is not finite"),
    "wrong shape": (upload(LONGER, layout=Layout.of(LONGER)), "holds arrays of layout"),
    "no update": (upload(None), "without the arrays that belong to it"),
    "wrong round": (upload(FINE, round=9), "answered 'train' of round 9 to 'train' of round"),
    "wrong kind": (
        lambda round, plan: wire.encode(Message("statistics", round)),
        "answered 'statistics' of round",
    ),
    "nothing": (lambda round, plan: b"", "at least 20 bytes"),
    "random bytes": (lambda round, plan: np.random.default_rng(round).bytes(40), "Not bytes of fedgraft"),
    "cut short": (lambda round, plan: upload(FINE)(round, plan)[:-1], "bytes are left|needs"),
    "zeros": (lambda round, plan: bytes(5000), "Not bytes of fedgraft"),
    "an error": (lambda round, plan: wire.encode(Message("error", round, text="no power")), "^no power$"),
    "an error without a word": (
        lambda round, plan: wire.encode(Message("error", round)),
        "^failed, and gave no reason$",
    ),
    "an error that would clear the screen": (
        lambda round, plan: wire.encode(Message("error", round, text="\x1b[2J\nround 3/3")),
        r"^\\x1b\[2J\\nround 3/3$",
    ),
    "an error that is no text": (
        lambda round, plan: wire.encode(Message("error", round, text="x"))[:-1] + b"\xff",
        "not UTF-8",
    ),
    "no reply": (lambda round, plan: ClientFailed("no reply within the deadline"), "no reply within the deadline"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_reply_costs_that_client_its_round_and_leaves_the_average_alone(what):
    make, reason = BAD[what]
    experiment = toy()

    def tamper(kind, round, client, reply):
        return make(round, experiment.plan) if kind == "train" and client == 2 else reply

    state, rows, runtime = run(experiment, tamper)
    expected, expected_rows, _ = run(toy(selector=WITHOUT))
    assert same(state.sharing, expected.sharing)
    for row, honest in zip(rows, expected_rows, strict=True):
        assert row.selected == (0, 1, 2, 3, 4)
        assert row.failed.keys() == {2}
        assert re.search(reason, row.failed[2])
        assert (row.validation, row.loss) == (honest.validation, honest.loss)
    received = [reply for kind, _, client, reply in runtime.received if client == 2 and kind == "train"]
    assert len(received) == 3


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_bytes_at_any_moment_are_survived(data):
    def tamper(kind, round, client, reply):
        if client != 2 or not data.draw(st.booleans()):
            return reply
        blob = bytearray(data.draw(st.one_of(st.just(reply), st.binary(max_size=80))))
        for _ in range(data.draw(st.integers(0, 3)) if blob else 0):
            blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
        return bytes(blob)

    state, rows, _ = run(toy(rounds=2, evaluation={"at": "clients"}, selector="oort"), tamper)
    assert len(rows) == 2
    assert all(np.isfinite(value).all() for value in state.sharing["model"].values())


def test_refused_replies_are_failures_and_all_else_stays():
    replies = Replies({1: Message("train"), 2: Message("train")}, {3: "gone"}, {1: 9, 2: 9, 3: 4}, {2: 1})
    fewer = replies.without({2: "not finite"})
    assert (list(fewer.messages), fewer.failed) == ([1], {3: "gone", 2: "not finite"})
    assert (fewer.bytes, fewer.waits) == (replies.bytes, replies.waits), "they moved, whatever came of them"
    assert (list(replies.messages), replies.failed) == ([1, 2], {3: "gone"}), "what was given is as it was"
    assert replies.without({}) is replies


@pytest.mark.parametrize("value", [math.nan, math.inf, np.array([0.0, -math.inf]), np.array(math.nan)])
def test_a_number_that_is_not_finite_is_named(value):
    check_finite({"fine": 1.0, "also": np.ones(3)})
    with pytest.raises(ClientError, match=r"^weight of the reply is not finite$"):
        check_finite({"fine": 1.0, "weight": value})


def test_halo_bytes_are_those_of_arrays_whose_names_say_so():
    layout = Layout((Spec("weight", "float32", (4,)), Spec("halo.rows.0", "float32", (VARIABLE, 2))))
    arrays = {"weight": np.zeros(4, np.float32), "halo.rows.0": np.zeros((3, 2), np.float32)}
    assert halo_bytes(arrays, layout) == 4 + 3 * 2 * 4, "the number of rows travels with them"
    assert halo_bytes({"weight": arrays["weight"]}, Layout(layout.specs[:1])) == 0
    assert halo_bytes(None, layout) == halo_bytes(arrays, None) == 0
