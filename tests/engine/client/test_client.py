from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.engine.client.client import Client
from fedgraft.engine.client.client_memory import packed, settled, unpacked
from fedgraft.engine.client.client_rows import shared_in
from fedgraft.engine.protocol.codes import CODES
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.methods.sharing.fedavg import FedAvg
from fedgraft.wire import Message
from fedgraft.wire.layouts import Layout, Spec
from helpers.toy import Line, Points
from helpers.toy_methods import Published
from helpers.toy_runs import run, same, toy

ZERO = {"weight": np.zeros(1, np.float32), "bias": np.zeros(1, np.float32)}
SHARDS = [
    Points(np.array([[1], [2], [1], [3]], np.float32), np.array([2, 4, 3, 5], np.float32), np.array([0, 0, 1, 2])),
    Points(np.array([[2], [0], [4]], np.float32), np.array([2, 0, 6], np.float32), np.array([0, 1, 2])),
]
"""The first client trains on (1, 2) and (2, 4), the second on (2, 2); one or no point each for validation and test."""


@pytest.fixture
def plan():
    made = toy(data={"name": "helpers.toy:Lines", "width": 1}, task={"width": 1}, selector={"name": "oort"}).plan
    return replace(made, probes=True, scored_at="clients")


@pytest.fixture
def client(plan):
    return Client(plan, dict(enumerate(SHARDS)))


def ask(client, who, kind, arrays=None, round=1, memory=b""):
    """The decoded reply and the new memory."""
    plan, scored = client._plan, b""
    if kind == "measure":  # the model to be scored is a message of its own
        scored, arrays = (
            wire.encode(Message("scored", round, arrays=arrays), Protocol.of(plan).request_layouts["scored"]),
            None,
        )
    request = wire.encode(Message(kind, round, arrays=arrays), Protocol.of(plan).request_layouts.get(kind))
    served = client.serve(who, request, memory, scored)
    return wire.decode(served.reply, Protocol.of(plan).reply_layouts.get(kind), Protocol.of(plan).report(kind)), packed(
        served.memory
    )


def test_hello_says_how_much_there_is_to_train_on(client):
    reply, memory = ask(client, 0, "hello", round=0)
    assert (reply.kind, reply.round, reply.report, reply.arrays, memory) == ("hello", 0, {"examples": 2.0}, None, b"")


def test_what_many_are_asked_is_decoded_once(client, monkeypatch):
    decoded, decode = [], wire.decode
    monkeypatch.setattr(wire, "decode", lambda blob, *rest: decoded.append(blob) or decode(blob, *rest))
    request = wire.encode(Message("train", 1, arrays=ZERO), Protocol.of(client._plan).request_layouts["train"])
    one, two = client.serve(0, request, b"").reply, client.serve(1, request, b"").reply
    assert decoded == [request]
    assert [client.serve(k, bytes(bytearray(request)), b"").reply for k in (0, 1)] == [one, two]


def test_hello_tells_the_profile_that_the_selector_needs():
    plan = replace(toy().plan, reports=frozenset({"loss", "label_0", "label_4"}))
    reply, _ = ask(Client(plan, dict(enumerate(SHARDS))), 0, "hello", round=0)
    assert list(reply.report) == ["examples", "label_0", "label_4"]
    assert reply.report["label_4"] == 0.5  # one of its targets, 2 and 4, is beyond 3


def test_a_probe_tells_the_losses_of_the_model_it_brought(client):
    reply, memory = ask(client, 0, "probe", ZERO)
    assert reply.report == {"loss": 10.0, "loss_sq": (4**2 + 16**2) / 2}
    assert reply.arrays is None
    assert same(wire.unpack(memory), {"probed": ZERO})


def test_a_probed_client_trains_without_a_second_model(client):
    _, memory = ask(client, 0, "probe", ZERO)
    probed, after = ask(client, 0, "train", None, memory=memory)
    plain, _ = ask(client, 0, "train", ZERO)
    assert same(probed.arrays, plain.arrays)
    assert probed.report == plain.report
    assert after == b"", "the probed model is forgotten"


def test_a_model_that_is_sent_counts_more_than_the_probed_one(client):
    _, memory = ask(client, 0, "probe", {"weight": np.full(1, 9, np.float32), "bias": np.zeros(1, np.float32)})
    sent, after = ask(client, 0, "train", ZERO, memory=memory)
    assert same(sent.arrays, ask(client, 0, "train", ZERO)[0].arrays)
    assert after == b""


def test_training_uploads_the_update(client):
    reply, memory = ask(client, 0, "train", ZERO)
    # y = 2 x on (1, 2) and (2, 4) from zero: gradient (-10, -6), learning rate 0.1.
    assert reply.arrays["weight"] == pytest.approx([1.0])
    assert reply.arrays["bias"] == pytest.approx([0.6])
    assert reply.report == {"loss": 10.0, "loss_sq": 136.0}
    assert memory == b""


def test_evaluation_gives_sums_of_held_out_data_and_remembers_nothing(client):
    for kind in ("evaluate", "measure"):
        reply, memory = ask(client, 0, kind, {"weight": np.ones(1, np.float32), "bias": np.zeros(1, np.float32)})
        assert reply.arrays["validation"].tolist() == [(3 - 1) ** 2, 1]
        assert reply.arrays["test"].tolist() == [(5 - 3) ** 2, 1]
        assert (reply.kind, memory) == (kind, b"")


def test_one_round_of_fedavg_by_hand():
    # Client 0, two points, from zero: update (1.0, 0.6). Client 1, the point (2, 2): error -2, gradient (-8, -4),
    # update (0.8, 0.4). By examples 2 : 1, the model becomes (2.8 / 3, 1.6 / 3).
    experiment = toy(
        data={"name": "helpers.toy:Lines", "width": 1}, task={"name": "helpers.toy:Line", "width": 1}, rounds=1
    )
    experiment = replace(experiment, plan=replace(experiment.plan, task=Zero(width=1)))
    state, (row,), _ = run(experiment, shards=SHARDS)
    model = experiment.plan.sharing.model(state.sharing)
    assert [float(model["weight"][0]), float(model["bias"][0])] == pytest.approx([2.8 / 3, 1.6 / 3])
    assert (row.selected, row.failed, row.loss) == ((0, 1), {}, 7.0)  # losses 10 and 4
    errors = [2.8 / 3 + 1.6 / 3 - 3, 1.6 / 3 - 0]  # validation: (1, 3) and (0, 0)
    assert row.validation == pytest.approx(np.sqrt(np.mean(np.square(errors))))


@dataclass(frozen=True)
class Zero(Line):
    """The line, drawn as zero."""

    def model(self, g, variant=None):
        module = super().model(g)
        torch.nn.init.zeros_(module.weight)
        return module


# Whatever comes in, a reply comes out.


def refused(client, request, memory=b"", who=0):
    """The reason of an error, which is not in the message, and that the memory is what it was."""
    served = client.serve(who, request, memory)
    message = wire.decode(served.reply)
    assert message.kind == "error"
    assert served.memory == memory
    assert (served.keep, served.flops, served.waits) == (False, 0, False)
    assert message.text.partition(": ")[0] in CODES
    assert served.reason != message.text
    return served.reason


@settings(max_examples=150, deadline=None)
@given(request=st.binary(max_size=200), memory=st.binary(max_size=40))
def test_random_bytes_get_a_reply(request, memory):
    served = FUZZED.serve(0, request, memory)
    assert wire.decode(served.reply).kind == "error"
    assert served.memory == memory


@settings(max_examples=150, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["hello", "statistics", "probe", "train", "evaluate", "scored", "error"]))
def test_damaged_requests_and_memories_get_a_reply(data, kind):
    plan = FUZZED._plan
    arrays = ZERO if kind in ("probe", "train", "evaluate", "scored") else None
    request = bytearray(wire.encode(Message(kind, 1, arrays=arrays), Protocol.of(plan).request_layouts.get(kind)))
    memory = bytearray(wire.pack({"probed": ZERO, "shared": {}}))
    for blob in (request, memory):
        for _ in range(data.draw(st.integers(0, 2))):
            blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
        del blob[data.draw(st.integers(len(blob) // 2, len(blob))) :]
    served = FUZZED.serve(data.draw(st.integers(-1, 2)), bytes(request), bytes(memory))
    replied = wire.decode(
        served.reply, Protocol.of(plan).reply_layouts, Protocol.of(plan).report(wire.kind_of(served.reply))
    )
    if replied.kind == "error":
        assert served.memory == bytes(memory)


FUZZED = Client(
    toy(data={"name": "helpers.toy:Lines", "width": 1}, task={"name": "helpers.toy:Line", "width": 1}).plan,
    dict(enumerate(SHARDS)),
)


def test_refusals_say_why(client):
    layout = client._plan.model_layout
    memory = wire.pack({"shared": {}})
    train = wire.encode(Message("train", 3, arrays=ZERO), layout)
    assert "at least" in refused(client, b"", memory)
    assert "asked to train without a model" in refused(client, wire.encode(Message("train", 3)), memory)
    assert "no client answers a message of kind 'error'" in refused(client, wire.encode(Message("error", 3, text="?")))
    assert "KeyError: 7" in refused(client, train, memory, who=7)
    other = Layout((Spec("weight", "float32", (2,)),))
    wrong = wire.encode(Message("train", 3, arrays={"weight": np.zeros(2, np.float32)}), other)
    assert "arrays of layout" in refused(client, wrong, memory)
    assert "Found a message where a tree is expected" in refused(client, train, train)
    assert "ValueError" in refused(client, train, wire.pack([1, 2, 3])) or "TypeError" in refused(
        client, train, wire.pack([1, 2, 3])
    )


def test_an_error_carries_the_round_of_its_request(client):
    served = client.serve(0, wire.encode(Message("train", 31)), b"")
    assert wire.decode(served.reply).round == 31


@pytest.mark.parametrize(("fault", "reason"), [("raise", "ValueError: this client is broken"), ("nan", "not finite")])
def test_a_training_that_breaks_leaves_the_memory_as_it_was(fault, reason):
    task = {"name": "helpers.toy:Line", "width": 1, "fault": fault, "faulty_points": 4}
    client = Client(toy(data={"name": "helpers.toy:Lines", "width": 1}, task=task).plan, dict(enumerate(SHARDS)))
    request = wire.encode(Message("train", 1, arrays=ZERO), client._plan.model_layout)
    assert reason in refused(client, request, wire.pack({"probed": ZERO}))
    whole, _ = ask(client, 1, "train", ZERO)
    assert whole.kind == "train", "the worker serves the next client as if nothing had been"


def test_a_long_reason_stays_at_the_client():
    plan = toy(data={"name": "helpers.toy:Lines", "width": 1}, task={"name": "helpers.toy:Line", "width": 1}).plan
    client = Client(replace(plan, task=Wordy(width=1)), dict(enumerate(SHARDS)))
    served = client.serve(0, wire.encode(Message("train", 1, arrays=ZERO), plan.model_layout), b"")
    assert wire.decode(served.reply).text == "internal error: RuntimeError"
    assert served.reason == f"RuntimeError: {'ü' * 5000}"


@dataclass(frozen=True)
class Wordy(Line):
    def loss(self, model, data, draw, encoded):
        raise RuntimeError("ü" * 5000)


def test_a_memory_is_the_same_to_a_client_as_its_bytes():
    request = wire.encode(Message("train", 2), Protocol.of(FUZZED._plan).request_layouts["train"])
    probed = ask(FUZZED, 0, "probe", ZERO)[1]
    one, two = (FUZZED.serve(0, request, each) for each in (probed, unpacked(probed)))
    assert one.reply == two.reply
    assert packed(one.memory) == packed(two.memory)
    hello = FUZZED.serve(0, wire.encode(Message("hello", 0)), one.memory)
    assert hello.memory is one.memory, "unchanged, it is not made anew"


def test_what_no_checkpoint_could_hold_is_the_clients_error_at_once():
    with pytest.raises(TypeError, match=r"tree\['sharing'\]\['pair'\].*got tuple"):
        settled({"sharing": {"pair": (1, 2)}})
    plan = toy(data={"name": "helpers.toy:Lines", "width": 1}, task={"width": 1}).plan
    client = Client(replace(plan, sharing=Tupled()), dict(enumerate(SHARDS)))
    assert "got tuple" in refused(client, wire.encode(Message("train", 1, arrays=ZERO), plan.model_layout))


class Tupled(FedAvg):
    def local_update(self, trainer, received, memory):
        return super().local_update(trainer, received, memory)[0], {"pair": (1, 2)}


def test_what_is_remembered_is_settled():
    table = np.arange(6, dtype=np.float32)
    made = settled({"none": None, "owned": table, "column": table.reshape(2, 3)[:, 1], "list": [np.float32(0.5), {}]})
    assert "none" not in made
    assert made["owned"] is table, "what has its memory to itself is not copied"
    assert (made["column"].tolist(), made["column"].flags.owndata) == ([1, 4], True), "nor is all kept for a part of it"
    assert (type(made["list"][0]), made["list"]) == (float, [0.5, {}]), "as it comes back from a checkpoint"
    assert not any(made[name].flags.writeable for name in ("owned", "column"))
    assert packed(made) == packed(settled(unpacked(packed(made))))


def test_replies_depend_on_shard_request_and_memory_alone(plan):
    # Served by one object in any order, or by fresh ones: a worker may have served anybody before.
    one, kinds = Client(plan, dict(enumerate(SHARDS))), ["train", "evaluate", "probe", "measure", "hello"]
    for kind in [*kinds, *reversed(kinds)]:
        for who in (0, 1, 0):
            arrays = None if kind == "hello" else ZERO
            fresh = Client(plan, dict(enumerate(SHARDS)))
            used, memory = ask(one, who, kind, arrays)
            expected, expected_memory = ask(fresh, who, kind, arrays)
            assert same(used.arrays, expected.arrays)
            assert (used.report, memory) == (expected.report, expected_memory)


def test_torch_s_own_generator_is_seeded_for_a_request_and_put_back(plan):
    client = Client(replace(plan, task=Noisy(width=1)), dict(enumerate(SHARDS)))
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one, _ = ask(client, 0, "train", ZERO)
    torch.manual_seed(2)
    again, _ = ask(client, 0, "train", ZERO)
    later, _ = ask(client, 0, "train", ZERO, round=2)
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(one.arrays, again.arrays)
    assert not same(one.arrays, later.arrays)


@dataclass(frozen=True)
class Noisy(Line):
    """The line under dropout."""

    def loss(self, model, data, draw, encoded):
        return torch.nn.functional.dropout(super().loss(model, data, draw, encoded), 0.5)


def test_the_set_up_is_kept_as_it_came_and_is_no_part_of_the_memory():
    plan = replace(
        toy(data={"name": "helpers.toy:Lines", "width": 1}, task={"width": 1}).plan,
        task=Published(width=1),
        probes=True,
    )
    client = Client(plan, dict(enumerate(SHARDS)))
    set_up = wire.encode(
        Message("statistics", 0, arrays={"mean": np.array([2.0])}), Protocol.of(plan).request_layouts["statistics"]
    )
    served = client.serve(0, set_up, b"")
    assert (wire.decode(served.reply).kind, served.memory, served.keep) == ("statistics", b"", True)
    # y less 2: 0 and 2 at x = 1 and 2; the model of zeros loses 0 and 4 on average.
    assert ask(client, 0, "probe", ZERO)[0].report["loss"] == 2.0
    probe = wire.encode(Message("probe", 1, arrays=ZERO), Protocol.of(plan).request_layouts["probe"])
    assert not client.serve(0, probe, b"").keep
    elsewhere = Client(plan, dict(enumerate(SHARDS)))
    reply = elsewhere.serve(0, probe, served.memory, set_up=set_up).reply
    assert wire.decode(reply, None, Protocol.of(plan).report("probe")).report["loss"] == 2.0
    reply = elsewhere.serve(0, probe, served.memory).reply
    assert wire.decode(reply, None, Protocol.of(plan).report("probe")).report["loss"] == 2.0, "it is prepared already"
    assert shared_in(plan, set_up)["mean"] == [2.0]
    assert shared_in(plan, b"") == {}


def test_a_set_up_that_it_cannot_take_is_not_kept():
    plan = replace(toy(data={"name": "helpers.toy:Lines", "width": 1}, task={"width": 1}).plan, task=Published(width=1))
    client = Client(plan, dict(enumerate(SHARDS)))
    served = client.serve(0, wire.encode(Message("statistics", 0)), b"")
    assert (wire.decode(served.reply).kind, served.keep) == ("error", False)
