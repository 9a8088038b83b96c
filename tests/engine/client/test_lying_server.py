"""What a server gains that tells clients other keys than their own, or each another list of who is in the sum."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.engine.client.contributing import masking_of
from fedgraft.engine.privacy.secure_sum import (
    ALIVE,
    BOXES,
    CONFIRMED,
    COUNT,
    KEYS,
    PEERS,
    PRESENT,
    SHARES,
    SIGNATURES,
    TOTAL,
)
from fedgraft.engine.protocol.sums import UPDATES
from fedgraft.engine.protocol.table import TABLE
from fedgraft.errors import BeyondLimitError, ClientError
from fedgraft.secrets.masked_sum import Collector
from fedgraft.secrets.masks import lane_type
from fedgraft.secrets.neighbours import graph, threshold
from fedgraft.testing.runs import toy
from fedgraft.wire import Message

BITS, CODES = 12, np.arange(40, dtype=np.uint32)


class Cohort:
    """Clients that have sent masked codes of a round, each with `k` neighbours, and a server that asks as it likes.

    `other` clients were sent another order.
    """

    def __init__(self, count, k, signed, other=()):
        codec = {"name": "quantized", "scale": "agreed", "bits": 5, "rounding": "stochastic"}
        sums = {"name": "secagg", "neighbours": k if k < count - 1 else 0, "signed": signed}
        plan = toy(secure_sum=sums, codec=codec, evaluation={"at": "clients"}).plan
        alike = TABLE["train"].added.common(plan)
        self.model = {spec.name: np.zeros([max(size, 0) for size in spec.shape], spec.dtype) for spec in alike}
        self.masking, self.signed, self.threshold = masking_of(plan, b"", None), signed, threshold(k, 0.55)
        self.peers = graph(range(count), k, seed=0)
        self.memories = {client: {} for client in self.peers}
        self.told = {client: self.ask(client, "keys", {}) for client in self.peers}
        boxes = {client: self.ask(client, "shares", self.keys_for(client))[BOXES] for client in self.peers}
        encrypted = {client: dict(zip(self.peers[client], rows, strict=True)) for client, rows in boxes.items()}
        self.masked = {}
        for client, peers in self.peers.items():
            arrays = {PRESENT: np.packbits([1] * k), BOXES: np.stack([encrypted[peer][client] for peer in peers])}
            order = Message("train", 1, {TOTAL: float(count) + (client in other)}, {**arrays, **self.model})
            self.masked[client] = self.masking.taken_up(client, order, self.memories[client], BITS, UPDATES)(CODES)

    def ask(self, client, kind, arrays, count=None):
        """The arrays of a client's answer."""
        message = Message(kind, 1, {COUNT: float(count or len(self.peers))}, arrays)
        return self.masking.served(client, message, self.memories[client]).arrays

    def keys_for(self, client, **other):
        """What a client is told of its neighbours' keys; `other` arrays are the server's own."""
        rows = [self.told[peer] for peer in self.peers[client]]
        arrays = {PEERS: np.array(self.peers[client], np.uint32), KEYS: np.stack([row[KEYS] for row in rows])}
        signatures = {SIGNATURES: np.stack([row[SIGNATURES] for row in rows])} if self.signed else {}
        return {**arrays, **signatures, **other}

    def revealed(self, alive):
        """{client: {neighbour: share}} of those that answer, told {client: who of its neighbours is in the sum}."""
        marks = {
            client: {ALIVE: np.packbits([peer in alive[client] for peer in self.peers[client]])} for client in alive
        }
        if self.signed:
            confirmed = {client: rows for client in alive if (rows := self._answer(client, "confirm", marks[client]))}
            codes = {
                client: dict(zip(self.peers[client], rows[CONFIRMED], strict=True))
                for client, rows in confirmed.items()
            }
            nothing = np.zeros(16, np.uint8)
            for client, peers in self.peers.items():
                rows = [codes.get(peer, {}).get(client, nothing) for peer in peers]
                marks[client] = {**marks[client], CONFIRMED: np.stack(rows)}
        shares = {client: rows for client in alive if (rows := self._answer(client, "unmask", marks[client]))}
        return {
            client: {peer: row.tobytes() for peer, row in zip(self.peers[client], rows[SHARES], strict=True)}
            for client, rows in shares.items()
        }

    def _answer(self, client, kind, arrays):
        try:
            return self.ask(client, kind, arrays)
        except (ClientError, BeyondLimitError):
            return None

    def taken_apart(self, victim, alive):
        """What the server reads of a victim's codes where it is told to be in the sum, and its neighbours not to be."""
        revealed, around = self.revealed(alive), self.peers[victim]
        known = {
            client: {
                peer: share
                for peer, share in shares.items()
                if (peer in alive[client] if peer == victim else peer in around and peer not in alive[client])
            }
            for client, shares in revealed.items()
        }
        keys = {client: told[KEYS].tobytes() for client, told in self.told.items()}
        of = {client: self.peers[client] for client in (victim, *around)}
        collector = Collector(1, 0, BITS, self.threshold, keys, of, np.zeros(len(CODES), lane_type(BITS)))
        collector.add(victim, self.masked[victim])
        return collector.unmasked(known)


def against(cohort, victim):
    """{client: who it is told to be in the sum}: the victim; of its neighbours all but two at most, whom it accepts."""
    peers, around = cohort.peers, {*cohort.peers[victim]}
    missing = {client: set() for client in peers}
    for neighbour in peers[victim]:
        open_to_it = [client for client in peers[neighbour] if len(missing[client]) < 2]
        open_to_it.sort(key=lambda each: (len(around & {*peers[each]}), len(missing[each])))
        for client in open_to_it[: cohort.threshold]:
            missing[client].add(neighbour)
    return {client: {*peers[client]} - lost for client, lost in missing.items()}


def test_a_server_that_tells_each_another_list_reads_a_client_unless_keys_are_signed():
    """Six neighbours of 24, four shares: each client accepts two as missing, and 24 lies are enough."""
    open_to_it = Cohort(24, 6, signed=False)
    lists = against(open_to_it, 0)
    assert all(len(alive) >= 4 for alive in lists.values())
    np.testing.assert_array_equal(open_to_it.taken_apart(0, lists), CODES)
    with pytest.raises(ClientError, match="shares of a secret are too few"):
        Cohort(24, 6, signed=True).taken_apart(0, lists)


@pytest.fixture(scope="module")
def five():
    return Cohort(5, 4, signed=True)


def test_an_honest_list_unmasks(five):
    cohort = copy.deepcopy(five)
    everybody = {client: set(peers) for client, peers in cohort.peers.items()}
    assert cohort.revealed(everybody).keys() == cohort.peers.keys()


@settings(max_examples=60)
@given(st.data())
def test_who_reveals_keeps_the_key_of_its_masks_whatever_each_is_told(five, data):
    cohort = copy.deepcopy(five)
    alive = {client: data.draw(st.sets(st.sampled_from(peers), min_size=2)) for client, peers in cohort.peers.items()}
    revealed = cohort.revealed(alive)
    for client in revealed:
        against_it = [peer for peer in revealed if peer != client and client not in alive[peer]]
        assert len(against_it) < cohort.threshold
        assert len(alive[client]) >= cohort.threshold


def test_keys_that_others_than_their_client_have_made_are_refused(five):
    cohort = copy.deepcopy(five)
    keys = cohort.keys_for(0)
    others = {
        "not signed by its registered key": {KEYS: np.roll(keys[KEYS], 1, 0)},
        "keys of client 1 are not signed": {SIGNATURES: np.roll(keys[SIGNATURES], 1, 0)},
        "client 2": {KEYS: np.concatenate([keys[KEYS][:1], keys[KEYS][:1], keys[KEYS][2:]])},
        "3 signatures of 4 neighbours": {SIGNATURES: keys[SIGNATURES][:3]},
    }
    for said, changed in others.items():
        with pytest.raises(ClientError, match=said):
            cohort.ask(0, "shares", {**keys, **changed})


def test_a_neighbour_without_a_mask_in_common_is_not_in_the_sum(five):
    """Of four neighbours one has sealed nothing: it may not stand for one that has."""
    cohort = copy.deepcopy(five)
    kept = cohort.memories[0]["sum"]
    cohort.memories[0]["sum"] = {**kept, "present": np.array([1, 1, 1, 0], np.uint8)}
    with pytest.raises(ClientError, match="said to be in the sum that has sealed no shares"):
        cohort.ask(0, "confirm", {ALIVE: np.packbits([0, 1, 1, 1])})
    cohort.ask(0, "confirm", {ALIVE: np.packbits([1, 1, 1, 0])})


def test_shares_are_for_the_list_that_was_confirmed_alone(five):
    cohort = copy.deepcopy(five)
    marks, other = {ALIVE: np.packbits([1, 1, 1, 1])}, {ALIVE: np.packbits([1, 1, 1, 0])}
    codes = {CONFIRMED: np.zeros((4, 16), np.uint8)}
    with pytest.raises(ClientError, match="for another list than it has confirmed"):
        cohort.ask(0, "unmask", {**marks, **codes})
    cohort.ask(0, "confirm", marks)
    with pytest.raises(ClientError, match="for another list than it has confirmed"):
        cohort.ask(0, "unmask", {**other, **codes})
    with pytest.raises(BeyondLimitError, match="0 of 4 neighbours confirm that it is in the sum, of which 3 must"):
        cohort.ask(0, "unmask", {**marks, **codes})
    with pytest.raises(ClientError, match="3 confirmations of 4 neighbours"):
        cohort.ask(0, "unmask", {**marks, CONFIRMED: codes[CONFIRMED][:3]})


def test_who_was_sent_another_order_is_in_no_sum_with_others():
    """A model for one client alone would have its update told by the sum of all."""
    cohort = Cohort(5, 4, signed=True, other={0})
    everybody = {client: set(peers) for client, peers in cohort.peers.items()}
    assert cohort.revealed(everybody).keys() == {1, 2, 3, 4}, "three of four confirm each of them"
    with pytest.raises(ClientError, match="too few"):
        cohort.taken_apart(0, everybody)
    alone = Cohort(5, 4, signed=True, other={0, 1})
    assert alone.revealed(everybody) == {}


def test_who_has_revealed_shares_at_a_model_does_not_train_at_it_again(five):
    """Two sums at one model, of cohorts that differ by one client, would tell that one's codes."""
    cohort = copy.deepcopy(five)
    assert 0 in cohort.revealed({client: set(peers) for client, peers in cohort.peers.items()})
    memory = cohort.memories[0]
    again = {**five.memories[0], **memory}
    encrypted = {PRESENT: np.packbits([1] * 4), BOXES: five.memories[0]["sum"]["boxes"]}
    order = Message("train", 1, {TOTAL: 5.0}, {**encrypted, **five.model})
    with pytest.raises(BeyondLimitError, match="has revealed shares"):
        cohort.masking.taken_up(0, order, again, BITS, UPDATES)
    moved = {name: array + 1 for name, array in five.model.items()}
    cohort.masking.taken_up(0, Message("train", 1, {TOTAL: 5.0}, {**encrypted, **moved}), again, BITS, UPDATES)


@pytest.mark.parametrize("shares", [9, 7])
def test_masks_come_off_no_sum_with_less_noise_than_is_claimed(shares):
    """Ten clients; noise is shared out over some of them: whoever unmasks has so many in the sum, at either end."""
    noise = {"unit": "client", "epsilon": 4.0, "delta": 0.01, "shares": shares}
    plan = toy(secure_sum={"name": "secagg"}, privacy=noise, evaluation={"at": "clients"}).plan
    assert threshold(9, plan.secure_sum.threshold) == 5
    assert threshold(9, plan.collection.staying(10)) + 1 == shares
    masking, k = masking_of(plan, b"", None), 9
    keys = np.stack([masking.served(client, Message("keys", 1), {}).arrays[KEYS] for client in range(10)])
    memory = {}
    told = {PEERS: np.arange(1, 10, dtype=np.uint32), KEYS: keys[1:]}
    masking.served(0, Message("shares", 1, {COUNT: 10.0}, told), memory)
    memory["sum"] |= {"present": np.ones(k, np.uint8), "boxes": np.zeros((k, 1), np.uint8)}
    alive = {ALIVE: np.packbits([1] * (shares - 2) + [0] * (k - shares + 2))}
    with pytest.raises(
        BeyondLimitError, match=f"{shares - 2} of 9 neighbours are in the sum, of which {shares - 1} must"
    ):
        masking.served(0, Message("unmask", 1, {COUNT: 10.0}, alive), memory)
