"""Round 0: what clients say of themselves, what they publish, and who takes no part after it."""

import re
from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import AllClientsFailedError, BudgetError, InputError
from fedgraft.wire import Message
from helpers.node_runs import small
from helpers.toy_runs import PUBLISHING, charged, looped, run, toy


def set_ups(runtime):
    """{client: the message with combined statistics that it keeps}."""
    return {~client: message for client, message in runtime.inner.memories(changed=False) if client < 0}


def test_statistics_are_charged_and_reach_the_clients():
    with looped(toy(**PUBLISHING)) as (loop, runtime):
        loop.start()
    expected = charged(runtime, loop.ledger)
    assert expected["statistics"] == 5 * 16 + 5 * 8  # two float64 up and one down, per client
    shards = toy(**PUBLISHING).data.load(1)
    mean = np.mean(np.concatenate([shard.y[shard.split == 0] for shard in shards]).astype(np.float64))
    assert sorted(set_ups(runtime)) == [0, 1, 2, 3, 4]
    for message in set_ups(runtime).values():
        assert wire.decode(message, Protocol.of(loop._plan).request_layouts).arrays["mean"] == pytest.approx([mean])


def hello(examples):
    """A tampered runtime in which client 2 claims to have so many examples."""

    def tamper(kind, round, client, reply):
        if kind != "hello" or client != 2:
            return reply
        return wire.encode(Message("hello", 0, {"examples": examples}), names=("examples",))

    return tamper


@pytest.mark.parametrize("examples", [-1.0, 0.5, float("nan"), float("inf"), 1e30])
def test_an_impossible_number_of_examples_costs_the_client_the_run(examples):
    state, rows, _ = run(toy(), hello(examples))
    assert state.profiles[2] == {}
    assert state.examples == [20, 40, 0, 20, 40]
    assert all(row.selected == (0, 1, 3, 4) for row in rows)
    assert "2" in state.clients.failing


def test_a_client_without_examples_takes_no_part_and_is_no_failure():
    state, rows, _ = run(toy(), hello(0.0))
    assert all(row.selected == (0, 1, 3, 4) for row in rows)
    assert state.clients.failing == {}


def tampered_statistics(value):
    def tamper(kind, round, client, reply):
        if kind != "hello" or client != 2:
            return reply
        plan = toy(**PUBLISHING).plan
        arrays = None if value is None else {"sums": np.array([60.0, value])}
        return wire.encode(
            Message("hello", 0, {"examples": 60.0}, arrays), Protocol.of(plan).reply_layouts["hello"], ("examples",)
        )

    return tamper


@pytest.mark.parametrize(
    ("value", "reason"), [(float("nan"), "sums of the reply is not finite"), (None, "without the arrays")]
)
def test_statistics_that_cannot_be_used_reach_nobody(value, reason):
    with looped(toy(**PUBLISHING), tampered_statistics(value)) as (loop, runtime):
        state = loop.start()
    assert reason in state.clients.failing["2"]
    assert state.examples[2] == 0
    kept = set_ups(runtime)
    assert sorted(kept) == [0, 1, 3, 4]
    means = {
        float(wire.decode(message, Protocol.of(loop._plan).request_layouts).arrays["mean"][0])
        for message in kept.values()
    }
    assert len(means) == 1
    assert np.isfinite(list(means)).all()


def test_a_client_that_cannot_take_the_statistics_takes_no_part():
    def tamper(kind, round, client, reply):
        return ClientFailed("gone") if kind == "statistics" and client == 0 else reply

    state, rows, _ = run(toy(**PUBLISHING), tamper)
    assert state.clients.failing == {"0": "gone"}
    assert all(row.selected == (1, 2, 3, 4) for row in rows)


@pytest.mark.parametrize("kind", ["hello", "statistics"])
def test_nobody_there_is_an_error_with_the_reasons(kind):
    def tamper(asked, round, client, reply):
        return ClientFailed(f"{client} is gone") if asked == kind else reply

    with looped(toy(**PUBLISHING), tamper) as (loop, _), pytest.raises(AllClientsFailedError) as caught:
        loop.start()
    assert caught.value.reasons == {client: f"{client} is gone" for client in range(5)}


def test_statistics_of_any_length_share_the_budget():
    varying = {**PUBLISHING, "task": {"varying": True}}  # they publish 40 to 120 bytes more
    with looped(toy(**varying, budget={"bytes": 100_000})) as (loop, runtime):
        loop.start()
    charged(runtime, loop.ledger)
    for budget, reason in (
        (150, "asking every client what it has takes 220 bytes, 150 are left"),
        (515, "clients have 83 bytes each for what they publish, which is not enough"),
        (1000, "sending every client the combined statistics takes"),
    ):
        with looped(toy(**varying, budget={"bytes": budget})) as (loop, _):
            with pytest.raises(BudgetError, match=rf"budget\.bytes = {budget} does not pay for one round: {reason}"):
                loop.start()
            assert loop.ledger.total <= budget


def test_a_client_that_publishes_what_nobody_can_compute_with_is_named_and_left_out():
    """A feature of 3e38 behind a low-rank codec used to end the run at the server, and named nobody."""
    experiment, shards = small(rows="identity", rounds=1)
    features = np.full_like(shards[1].features, 3e38)
    state, _, _ = run(experiment, shards=[shards[0], replace(shards[1], features=features), *shards[2:]])
    assert re.fullmatch(r".* of the reply holds 3e\+38; at most 1.15e\+18 can be", state.clients.failing["1"])
    assert state.merges == 1, "the others train"


def large(client, size):
    """A tampered runtime in which a client publishes so many numbers, of which five make a sum."""

    def tamper(kind, round, who, reply):
        if kind != "hello" or who != client:
            return reply
        plan = toy(**VARYING).plan
        given = wire.decode(reply, Protocol.of(plan).reply_layouts, {"hello": ("examples",)})
        (padding,) = (name for name in given.arrays if name != "sums")
        arrays = {**given.arrays, padding: np.zeros(size, given.arrays[padding].dtype)}
        return wire.encode(
            Message("hello", 0, given.report, arrays), Protocol.of(plan).reply_layouts["hello"], ("examples",)
        )

    return tamper


VARYING = {**PUBLISHING, "task": {"varying": True}}


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"hello_bytes": "1kB"}, "what it says takes 5016 bytes once decoded, safeguards.hello_bytes = 1000"),
        ({"set_up_bytes": "1kB"}, r"left out: what all publish takes \d+ bytes once decoded, .*set_up_bytes = 1000"),
    ],
)
def test_who_publishes_more_than_the_server_has_room_for_fails_alone(limits, reason):
    with looped(toy(**VARYING, safeguards=limits), large(3, 5000)) as (loop, _):
        state = loop.start()
    assert list(state.clients.failing) == ["3"]
    assert re.search(reason, state.clients.failing["3"])
    assert [bool(profile) for profile in state.profiles] == [True, True, True, False, True]


def test_a_reply_that_is_too_long_says_which_option_limits_it():
    with looped(toy(**VARYING, safeguards={"hello_bytes": 100})) as (loop, _):
        state = loop.start()
    assert set(state.clients.failing) < set("01234"), "some have more to say than others"
    for reason in state.clients.failing.values():
        assert re.fullmatch(
            r"a reply of \d+ bytes where at most 100 are allowed \(safeguards.hello_bytes = 100\)", reason
        )


def test_limits_of_what_is_published_are_sizes():
    assert toy(safeguards={"hello_bytes": "64MB"}).settings.safeguards.hello_bytes == 64_000_000
    with pytest.raises(InputError, match=r"safeguards.set_up_bytes must be >= 1; got 0"):
        toy(safeguards={"set_up_bytes": 0})
    with pytest.raises(InputError, match=r"safeguards.hello_bytes = '2XB' has no unit of bytes"):
        toy(safeguards={"hello_bytes": "2XB"})
