"""One round of SecAgg+: masks cancel whoever dies and when, or the round has no sum."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.errors import ClientError
from fedgraft.secrets.masked_sum import Collector, Member
from fedgraft.secrets.masks import lane_type
from fedgraft.secrets.neighbours import degree, graph, threshold
from fedgraft.secrets.sizes import BOX_BYTES, KEY_BYTES, PUBLIC_BYTES, SHARE_BYTES

ROUND, BITS, CODES = 1, 11, 50
STAYS, SHARES, MASKED, REVEALS = 3, 0, 1, 2
"""When a client is gone: never, before it seals shares, before its masked codes, before it reveals shares."""


def member(client, root=b"root of client "):
    return Member(client, ROUND, 0, root + bytes([client]))


def codes_of(client):
    return np.random.default_rng(client).integers(0, 2**4, CODES).astype(np.uint32)


def play(gone, k=None, share=0.55):
    """(the unmasked sum, who is in it) of a round in which client c is gone at gone[c]."""
    members = {client: member(client) for client in range(len(gone))}
    keys = {client: each.public for client, each in members.items()}
    assert all(len(each) == PUBLIC_BYTES for each in keys.values())
    k = k or degree(len(gone), share)
    t = threshold(k, share)
    neighbours = graph(list(members), k, seed=0)
    encrypted = {
        client: each.boxes({peer: keys[peer] for peer in neighbours[client]}, t)
        for client, each in members.items()
        if gone[client] > SHARES
    }
    there = {client: [peer for peer in neighbours[client] if peer in encrypted] for client in encrypted}
    collector = Collector(ROUND, 0, BITS, t, keys, there, np.zeros(CODES, lane_type(BITS)))
    for client, peers in there.items():
        if gone[client] > MASKED:
            collector.add(client, members[client].masked(codes_of(client), BITS, {p: keys[p] for p in peers}))
    revealed = {
        client: members[client].revealed(
            {peer: keys[peer] for peer in there[client]},
            {peer: encrypted[peer][client] for peer in there[client]},
            collector.alive,
        )
        for client in collector.alive
        if gone[client] > REVEALS
    }
    assert all(len(box) == BOX_BYTES for boxes in encrypted.values() for box in boxes.values())
    assert all(len(each) == SHARE_BYTES for found in revealed.values() for each in found.values())
    return collector.unmasked(revealed), collector.alive


def enough(gone, share=0.55):
    """Whether every secret that is needed has shares enough, in a complete graph."""
    t = threshold(len(gone) - 1, share)
    revealing = [client for client, when in enumerate(gone) if when > REVEALS]
    alive = [client for client, when in enumerate(gone) if when > MASKED]
    dead = [client for client, when in enumerate(gone) if when == MASKED] if alive else []
    return all(len(set(revealing) - {client}) >= t for client in (*alive, *dead))


@pytest.mark.parametrize("clients", [3, 4, pytest.param(5, marks=pytest.mark.slow)])
def test_masks_cancel_for_every_pattern_of_dead_clients(clients):
    """Each is gone at one of four stages; of five clients, at the three before unmasking."""
    stages = (SHARES, MASKED, REVEALS, STAYS) if clients < 5 else (SHARES, MASKED, STAYS)
    for gone in product(stages, repeat=clients):
        if enough(gone):
            total, alive = play(gone)
            expected = np.sum([codes_of(client) for client in alive], axis=0, dtype=np.uint64) if alive else 0
            np.testing.assert_array_equal(total, expected)
        else:
            with pytest.raises(ClientError, match="shares of a secret are too few"):
                play(gone)


@settings(deadline=None, max_examples=10)
@given(st.integers(14, 40), st.integers(0, 2**32))
def test_masks_cancel_in_sparse_graphs(clients, seed):
    g = np.random.default_rng(seed)
    gone = np.full(clients, STAYS)
    dead = g.choice(clients, 3, replace=False)
    gone[dead] = g.integers(0, 3, 3)
    total, alive = play(gone.tolist(), k=12)
    assert alive == {client for client in range(clients) if gone[client] > MASKED}
    np.testing.assert_array_equal(total, np.sum([codes_of(client) for client in alive], axis=0))


def test_equal_updates_are_unrelated_when_masked():
    keys = {client: member(client).public for client in range(3)}
    one, two = (
        member(client).masked(np.full(40000, 9, np.uint32), 8, {p: keys[p] for p in keys if p != client})
        for client in (0, 1)
    )
    for each in (one, two, one - two):
        counts = np.bincount(each, minlength=256)
        assert ((counts - 156.25) ** 2 / 156.25).sum() < 330, "chi-square of bytes, a thousandth is beyond"


def test_each_sum_of_each_round_has_keys_of_its_own():
    others = [Member(1, 2, 0, b"root of client \x01"), Member(1, 1, 1, b"root of client \x01")]
    assert len({member(1).public, *(other.public for other in others)}) == 3
    assert member(1).public == member(1).public, "the same request has the same answer"
    assert member(1, b"another root of client ").public != member(1).public


def test_a_share_is_of_one_of_the_two_secrets():
    keys = {client: member(client).public for client in range(3)}
    boxes = {1: member(1).boxes({0: keys[0], 2: keys[2]}, 2)[0]}
    peers = {1: keys[1], 2: keys[2]}
    alive, dead = (member(0).revealed(peers, boxes, each)[1] for each in ({1}, set()))
    assert alive != dead
    with pytest.raises(ClientError, match="not sealed for it in this round"):
        member(2).revealed(peers, boxes, {1})


def test_a_liar_s_shares_of_a_key_are_seen():
    members = {client: member(client) for client in range(4)}
    keys = {client: each.public for client, each in members.items()}
    encrypted = {c: m.boxes({p: keys[p] for p in keys if p != c}, 2) for c, m in members.items()}
    there = {client: [peer for peer in keys if peer != client] for client in keys}
    collector = Collector(ROUND, 0, BITS, 2, keys, there, np.zeros(CODES, lane_type(BITS)), {0, 1, 2})
    revealed = {
        c: members[c].revealed({p: keys[p] for p in there[c]}, {p: encrypted[p][c] for p in there[c]}, {0, 1, 2})
        for c in (0, 1, 2)
    }
    revealed[0][3] = bytes(KEY_BYTES) + b"\0"
    with pytest.raises(ClientError, match=r"shares of .* client 3 that are none"):
        collector.unmasked(revealed)
