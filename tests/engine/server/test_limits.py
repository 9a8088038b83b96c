"""The most bytes of messages: none is longer, and the longest are as long."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.limits import Limits
from fedgraft.experiment.recipes.codec_sections import build_codec
from fedgraft.wire import Message
from helpers.toy_runs import PUBLISHING, length, looped, toy

KINDS = ("train", "probe", "evaluate", "alone")


def test_messages_of_a_plain_plan_by_hand():
    # Headers of 20 bytes, 4 a scalar; the model is four float32. A reply has room for an error's text of 256 bytes.
    limits = Limits(toy(selector={"name": "oort"}).plan)
    assert {kind: limits.request_bytes(kind) for kind in KINDS} == dict.fromkeys(KINDS, 36)
    assert {kind: limits.reply_bytes(kind) for kind in (*KINDS, "hello")} == dict.fromkeys((*KINDS, "hello"), 276)
    assert limits.most_bytes("train") == 36 + 276
    assert limits.most_bytes("train") == 36 + 276, "asked for again"


def test_a_large_upload_is_more_than_an_error():
    wide = {"data": {"name": "helpers.toy:Lines", "width": 100}, "task": {"width": 100}}
    assert Limits(toy(**wide).plan).reply_bytes("train") == 20 + 4 + 101 * 4
    probing = {"name": "power_of_choice", "clients": 2, "candidates": 3}
    plan = toy(**wide, selector=probing).plan
    assert Limits(plan).reply_bytes("probe") == 276, "no model comes back from a probe"


def test_guidance_is_part_of_an_order_to_train():
    plan = toy(sampler="fedgraph").plan
    assert len(plan.guidance) > 0
    assert Limits(plan).request_bytes("train") == 36 + 4 * len(plan.guidance)
    assert Limits(plan).request_bytes("probe") == 36


def test_combined_statistics_are_as_long_as_their_layout():
    limits = Limits(toy(**PUBLISHING).plan)
    assert limits.request_bytes("statistics") == 20 + 8
    assert limits.reply_bytes("statistics") == 276


@pytest.mark.parametrize("codec", ["identity", "float16", "quantized", {"name": "sparse", "share": 0.5}])
def test_what_varies_is_bounded_by_its_largest(codec):
    plan = replace(toy().plan, downlink=build_codec("downlink", codec), uplink=build_codec("codec", codec))
    limits = Limits(plan)
    g = np.random.default_rng(0)
    for scale in (0.0, 1.0, 1e6):
        model = {
            name: (scale * g.standard_normal(array.shape)).astype(np.float32) for name, array in plan.first.items()
        }
        coded, _ = plan.downlink.encode(model, plan.downlink.init(plan.download_layout), g)
        for kind in KINDS:
            layout = Protocol.of(plan).request_layouts[kind]
            assert len(wire.encode(Message(kind, 1, arrays=coded), layout)) <= limits.request_bytes(kind)
        coded, _ = plan.uplink.encode(model, plan.uplink.init(plan.upload_layout), g)
        reply = wire.encode(
            Message("train", 1, {"loss": 1.0}, coded), plan.coded_upload_layout, Protocol.of(plan).report("train")
        )
        assert len(reply) <= limits.reply_bytes("train")


@pytest.mark.parametrize("codec", ["identity", "quantized"])
def test_no_message_of_a_run_is_longer(codec):
    selector = {"name": "power_of_choice", "clients": 2, "candidates": 4}
    experiment = toy(codec=codec, selector=selector, evaluation={"at": "clients"})
    with looped(experiment) as (loop, runtime):
        loop.run(loop.start(), lambda state, row: None)
    limits = loop._messenger.limits
    seen = {kind for kind, *_ in runtime.sent}
    assert seen == {"hello", "probe", "train", "evaluate"}
    for kind, _, _, message in runtime.sent:
        assert kind == "hello" or len(message) <= limits.request_bytes(kind)
    for kind, _, _, message in runtime.received:
        assert length(message) <= limits.reply_bytes(kind)
