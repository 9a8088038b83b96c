"""The hub: who is let in, who counts as connected, and what becomes of messages; nobody is asked over HTTP."""

import asyncio
import io

import pytest

from fedgraft.runtimes.federation import hub as hubs
from fedgraft.runtimes.federation.certificates import node_key
from fedgraft.runtimes.federation.hub import Hub, Refused, keys_of
from fedgraft.runtimes.federation.signed_requests import Signer, bare, claim_in, node_id

NORTH, SOUTH, STRANGER = node_key("north"), node_key("south"), node_key("stranger")


@pytest.fixture
def known():
    """Public keys by name, which a test may change."""
    return {"north": NORTH.public, "south": SOUTH.public}


@pytest.fixture
def hub(known):
    return Hub(lambda: keys_of(known))


def asks(hub, signer, path="/next", body=b""):
    return hub.check(claim_in(signer.headers(path, body)), path)


def joined(hub, pair=NORTH):
    """A node's signer, and its seat."""
    signer = Signer(pair.private)
    signer.session = hub.nonce
    signer.session = hub.join(asks(hub, signer))
    return signer, hub.seats[node_id(pair.public)]


def refused(status, function, *arguments):
    with pytest.raises(Refused) as error:
        function(*arguments)
    assert error.value.status == status


def received(hub, message, run="a"):
    return asyncio.run(hub.receive(run, [message.id], 0.0))


def test_a_request_is_of_a_known_key_that_has_signed_it(hub):
    refused(401, hub.check, None, "/join")
    refused(401, asks, hub, Signer(STRANGER.private))
    refused(401, asks, hub, Signer(STRANGER.private))
    assert hub.strangers() == [bare(STRANGER.public)]
    assert hub.strangers() == [], "each is told of once"
    claim = claim_in(Signer(NORTH.private).headers("/next", b""))
    assert hub.check(claim, "/next") == claim
    refused(403, hub.check, claim, "/leave")
    for change in ({"session": "other"}, {"number": 7}, {"digest": "0" * 64}, {"signature": b"", "key": claim.key}):
        refused(403, hub.check, claim._replace(**change), "/next")
    refused(403, hub.check, claim._replace(key=bare(SOUTH.public)), "/next")


@pytest.mark.parametrize("name", ["key", "session", "number", "digest", "signature"])
def test_headers_that_lack_one_are_none_of_a_node(name):
    headers = Signer(NORTH.private).headers("/next", b"")
    assert claim_in(headers) is not None
    assert claim_in({key: value for key, value in headers.items() if not key.endswith(name)}) is None
    assert claim_in({**headers, "x-fedgraft-number": "one"}) is None
    assert claim_in({**headers, "x-fedgraft-signature": "\xff"}) is None


def test_a_request_is_good_once_and_in_its_session_alone(hub):
    signer, seat = joined(hub)
    claim = asks(hub, signer)
    assert hub.seat(claim) is seat
    refused(409, hub.seat, claim)
    refused(409, hub.seat, claim._replace(session="another", number=100))
    other = Signer(SOUTH.private)
    refused(409, hub.join, asks(hub, other))


def test_a_request_to_join_is_good_once_whether_it_was_let_in_or_not(hub, monkeypatch):
    """Whoever has recorded a request to join, and sends it when the node has gone, is refused."""
    signer, other = Signer(NORTH.private), Signer(SOUTH.private)
    signer.session = other.session = hub.nonce
    recorded, late = claim_in(signer.headers("/join", b"")), claim_in(other.headers("/join", b""))
    hub.join(hub.check(recorded, "/join"))
    hub.seats[node_id(NORTH.public)].gone()
    refused(409, hub.join, hub.check(recorded, "/join"))
    hub.join(hub.check(late, "/join"))
    second = Signer(SOUTH.private)
    second.session = hub.nonce
    turned_away = claim_in(second.headers("/join", b""))
    refused(423, hub.join, turned_away)
    hub.seats[node_id(SOUTH.public)].gone()
    refused(409, hub.join, turned_away)
    monkeypatch.setattr(hubs, "MOST_NONCES", 1)
    old = hub.nonce
    joined(hub)
    second.session = old
    refused(409, hub.join, claim_in(second.headers("/join", b"")))


def test_a_key_has_one_process_at_a_time(hub):
    _, seat = joined(hub)
    second = Signer(NORTH.private)
    second.session = hub.nonce
    refused(423, hub.join, asks(hub, second))
    seat.gone()
    second.session = hub.nonce  # as a node asks for it each time
    assert hub.nodes() == []
    assert hub.join(asks(hub, second)) != seat.session
    assert hub.nodes() == [node_id(NORTH.public)]
    assert not hub.holds(seat)


def test_who_is_silent_counts_as_gone_unless_it_waits(hub, monkeypatch):
    _, seat = joined(hub)
    monkeypatch.setattr(hubs, "ALIVE_SECONDS", -1.0)
    assert hub.nodes() == []
    seat.polls = 1
    assert hub.nodes() == [node_id(NORTH.public)]


def test_an_order_is_given_until_it_is_answered_and_each_answer_received_once(hub):
    _, seat = joined(hub)
    hub.begin("a")
    assert hub.send("a", 12345, io.BytesIO()) is None, "no such node"
    first, second = (hub.send("a", node_id(NORTH.public), io.BytesIO(text)) for text in (b"one", b"two"))
    assert hub.next_order(seat) is hub.next_order(seat) is first, "the connection may have been lost"
    assert received(hub, first) is None
    hub.answered(hub.unanswered(seat, first.id), io.BytesIO(b"done"))
    assert hub.unanswered(seat, first.id) is None, "nobody answers twice"
    assert received(hub, first).answer.getvalue() == b"done"
    assert received(hub, first) is None
    _, again = joined_again(hub, seat)
    assert hub.next_order(again) is second


def joined_again(hub, seat):
    """A node whose process has ended, and begun anew."""
    seat.gone()
    return joined(hub)


def test_what_a_process_has_not_answered_is_given_to_the_next_one(hub):
    _, seat = joined(hub)
    hub.begin("a")
    message = hub.send("a", node_id(NORTH.public), io.BytesIO(b"one"))
    assert hub.next_order(seat) is message
    _, again = joined_again(hub, seat)
    assert hub.next_order(again) is message


def test_a_run_that_has_ended_leaves_no_orders(hub):
    _, seat = joined(hub)
    hub.begin("a")
    refused(409, hub.begin, "a")
    taken, waiting = (hub.send("a", node_id(NORTH.public), io.BytesIO()) for _ in range(2))
    assert hub.next_order(seat) is taken
    hub.end("a")
    assert hub.unanswered(seat, taken.id) is None
    assert hub.next_order(seat) is None
    refused(410, hub.send, "a", node_id(NORTH.public), io.BytesIO())
    hub.begin("a")
    assert received(hub, waiting) is None


def test_a_key_that_is_removed_loses_its_orders_and_its_seat(hub, known):
    signer, seat = joined(hub)
    hub.begin("a")
    message = hub.send("a", node_id(NORTH.public), io.BytesIO())
    del known["north"]
    refused_before = asks(hub, signer)
    hub.read_keys()
    refused(401, asks, hub, signer)
    refused(409, hub.seat, refused_before)
    assert received(hub, message).is_lost
    assert not hub.holds(seat)


def test_nodes_without_keys_have_names_of_their_own():
    hub = Hub(lambda: None)
    for _ in range(2):
        signer = Signer(None)
        signer.session = hub.nonce
        signer.session = hub.join(asks(hub, signer))
        hub.seat(asks(hub, signer))
    assert len(hub.nodes()) == 2


def test_so_many_runs_that_have_ended_are_kept(hub, monkeypatch):
    monkeypatch.setattr(hubs, "MOST_RUNS", 2)
    for name in ("a", "b", "c", "d"):
        hub.begin(name)
        hub.end(name)
    assert list(hub.runs) == ["b", "c", "d"]
