"""Models on their way to clients: encoded once a version and group, and who keeps which."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import SilentSharing
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.rounds.broadcast import Broadcast
from fedgraft.errors import InputError
from fedgraft.methods.sharing.fedavg import FedAvg
from helpers.toy_methods import Feedback
from helpers.toy_runs import same, toy


@dataclass(frozen=True)
class Silent(FedAvg, SilentSharing):
    """Clients keep what they were sent."""

    def collects(self, state, round, g):
        return True


@dataclass(frozen=True)
class Tracking(FedAvg):
    """Knows what clients decode; every other client is of a group."""

    tracks = True

    def broadcast(self, state, group, decoded):
        return state

    def group(self, state, client):
        return client % 2


PLAN = replace(toy().plan, downlink=Feedback())
MODEL = {"weight": np.array([0.3, 0.7, 1.1], np.float32), "bias": np.array([0.2], np.float32)}


def of(sharing=None, tree=None, plan=PLAN):
    return Broadcast(replace(plan, sharing=sharing or FedAvg()), {} if tree is None else tree)


def test_without_silent_rounds_everybody_lacks_the_model_and_nothing_is_noted():
    tree = {}
    broadcast = of(tree=tree)
    broadcast.publish(0, MODEL)
    broadcast.received([0, 1])
    assert broadcast.lacking([0, 1, 2]) == [0, 1, 2]
    assert tree["held"] == {}
    broadcast.sent()
    assert tree["published"] == {}, "it is not sent again"
    assert not broadcast.current(0)


def test_with_silent_rounds_those_lack_the_model_who_keep_another():
    tree = {}
    broadcast = of(Silent(), tree)
    assert broadcast.lacking([0, 1, 2]) == [], "the first one is drawn alike at both ends"
    broadcast.merged()
    assert broadcast.lacking([2, 0]) == [2, 0]
    broadcast.publish(0, MODEL)
    broadcast.received([0])
    broadcast.sent()
    assert broadcast.lacking([0, 1]) == [1]
    assert broadcast.current(0), "it may be sent again, to those who lack it"
    broadcast.merged()
    assert broadcast.lacking([0, 1]) == [0, 1]
    assert not broadcast.current(0)
    assert (broadcast.version, tree["held"]) == (2, {"0": 1})


def test_its_state_goes_on_in_another_one():
    tree, other = {}, {}
    one = of(Silent(), tree)
    one.merged()
    one.publish(0, MODEL)
    one.received([3])
    other.update(wire.unpack(wire.pack(tree)))
    two = of(Silent(), other)
    assert (two.version, two.current(0), two.lacking([3, 4])) == (1, True, [4])
    assert same(two.published(0), one.published(0))
    for broadcast in (one, two):
        broadcast.merged()
        broadcast.publish(0, MODEL)
    assert same(tree, other), "the codec's memory too"


def test_each_group_has_its_own_codec_state_and_numbers():
    tree = {}
    broadcast = of(tree=tree)
    assert broadcast.publish(0, MODEL) == {}, "no method needs to know what clients decode"
    alone = tree["downlink"]["0"]
    broadcast.publish(1, MODEL)
    assert tree["downlink"].keys() == tree["published"].keys() == {"0", "1"}
    assert tree["downlink"]["0"] is alone
    assert all(same((array * 8) % 1, array * 0) for array in broadcast.published(1).values()), "multiples of 1/8"


def test_a_method_that_tracks_learns_what_clients_decode():
    broadcast = of(Tracking())
    decoded = broadcast.publish(0, MODEL)
    assert same(decoded, broadcast.published(0))
    assert not same(decoded, MODEL)


def test_a_model_to_score_leaves_no_trace_in_what_is_trained_from():
    one, two = {}, {}
    plain, scoring = of(tree=one), of(tree=two)
    for round in range(3):
        wire.check(scoring.scored(0, round, MODEL), Protocol.of(PLAN).request_layouts["evaluate"])
        for broadcast in (plain, scoring):
            broadcast.merged()
            broadcast.publish(0, MODEL)
        assert same(plain.published(0), scoring.published(0))
    assert two["downlink"].keys() == {"0", "evaluate-0"}
    assert same(one["downlink"]["0"], two["downlink"]["0"])


@pytest.mark.parametrize("versions", [1, 3])
def test_a_model_is_encoded_by_its_version_alone(versions):
    one, two = of(), of()
    for broadcast in (one, two):
        for _ in range(versions):
            broadcast.merged()
        broadcast.publish(0, MODEL)
    two.publish(0, MODEL)
    assert not same(one.published(0), two.published(0)), "the codec remembers what was lost"
    two = of()
    for _ in range(versions):
        two.merged()
    two.publish(0, MODEL)
    assert same(one.published(0), two.published(0))


class Wrong(Feedback):
    """Says that it sends float32, and sends whole numbers."""

    def encode(self, arrays, state, g):
        return {name: array.astype(np.int8) for name, array in arrays.items()}, state


def test_a_codec_that_breaks_its_word_is_named():
    broadcast = of(plan=replace(PLAN, downlink=Wrong()))
    message = r"Codec Wrong encodes other arrays than its `encoded` says: .* is int8 \(\d+,\); expected float32"
    with pytest.raises(InputError, match=message):
        broadcast.publish(0, MODEL)
