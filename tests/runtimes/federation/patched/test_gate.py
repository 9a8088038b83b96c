"""The gate: of whose key is not known no more than a few kilobytes are read, and nobody sends without end."""

import asyncio
from base64 import b64encode
from datetime import timedelta

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import sign_message

from fedgraft.runtimes.federation.patched import gate
from fedgraft.runtimes.federation.patched.gate import MOST_BODY, Gate, signer

KEY = ec.generate_private_key(ec.SECP384R1())
STRANGER = ec.generate_private_key(ec.SECP384R1())


def public(key):
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signed(key=KEY, ago=0.0, by=None):
    """Headers that a node signs."""
    time = (now() - timedelta(seconds=ago)).isoformat()
    content = {
        FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(public(key)),
        FLEET_HTTP_SIGNATURE_HEADER: b64encode(sign_message(by or key, time.encode())),
        TIMESTAMP_HEADER: time.encode(),
    }
    return {name.encode(): value for name, value in content.items()}


class Behind:
    """An application that answers with the length of what it was sent."""

    def __init__(self):
        self.bodies = []

    async def __call__(self, scope, receive, send):
        part = await receive()
        self.bodies.append(part["body"])
        assert not part["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def is_known(key):
    """Whether a key is that of the one node that there is."""
    return key == public(KEY)


def asked(headers, parts=(b"a body",), is_known=is_known, path="/v1/fleet/pull-messages", pause=0.0, **options):
    """(status, how many parts were read, what came through) of a request that is sent part by part."""
    behind, sent, left = Behind(), [], list(parts)

    async def receive():
        await asyncio.sleep(pause)
        part = left.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    async def send(part):
        sent.append(part)

    scope = {"type": "http", "path": path, "headers": list(headers.items())}
    asyncio.run(Gate(behind, is_known, **options)(scope, receive, send))
    closes = (b"connection", b"close") in sent[0]["headers"]
    assert closes == (sent[0]["status"] != 200), "what is refused is not read to its end"
    return sent[0]["status"], len(parts) - len(left), b"".join(behind.bodies)


def test_a_known_node_s_request_comes_through_whole():
    assert asked(signed(), [b"a", b"", b"b"]) == (200, 3, b"ab")
    assert asked(signed(ago=200)) == (200, 1, b"a body"), "as Flower has it"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        signed(STRANGER),
        signed(KEY, by=STRANGER),
        signed(KEY, ago=400),
        signed(KEY, ago=-86400),
        {**signed(), TIMESTAMP_HEADER.encode(): b"2026-01-01"},
        {**signed(), FLEET_HTTP_SIGNATURE_HEADER.encode(): b"\xff"},
        {**signed(), FLEET_HTTP_PUBLIC_KEY_HEADER.encode(): b64encode(public(ed25519.Ed25519PrivateKey.generate()))},
    ],
    ids=["none", "unknown", "forged", "old", "to come", "another time", "no signature", "another kind of key"],
)
def test_of_a_stranger_no_more_is_read_than_flower_needs_to_say_so(headers):
    assert asked({**headers, b"content-length": b"800000000"}, [bytes(1 << 16)] * 3) == (401, 0, b"")
    assert asked(headers, [bytes(1000)] * 9) == (401, 5, b"")
    assert asked(headers) == (200, 1, b"a body")


def test_a_key_is_asked_for_once_and_only_where_it_has_signed():
    asks = []

    def noted(key):
        asks.append(key)
        return is_known(key)

    behind = Gate(Behind(), noted)
    for headers, expected in ((signed(), True), (signed(), True), (signed(STRANGER), False), ({}, False)):
        assert asyncio.run(behind._knows(headers, noted)) == expected
    assert asks == [public(KEY), public(STRANGER)]
    assert signer(signed(STRANGER)) == public(STRANGER)


def test_where_nodes_have_no_keys_everybody_is_let_in_and_other_interfaces_are_left_alone():
    assert asked({}, is_known=None) == (200, 1, b"a body")
    assert asked({b"content-length": b"%d" % (2 * MOST_BODY)}, path="/v1/runtime/push-object") == (200, 1, b"a body")


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_that_is_too_long_is_read_no_further(monkeypatch, declared):
    monkeypatch.setattr(gate, "MOST_BODY", 10)
    headers = {**signed(), **({b"content-length": b"12"} if declared else {})}
    assert asked(headers, [b"1234"] * 4) == (413, 0 if declared else 3, b"")
    assert asked({**signed(), b"content-length": b"-1"}) == (413, 0, b"")
    assert asked(signed(), [b"12345", b"12345"]) == (200, 2, b"1234512345")


def test_a_body_that_comes_too_slowly_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(gate, "BODY_RATE", 100)
    status, read, came = asked(signed(), [b"1"] * 100, pause=0.1, seconds=0.3)
    assert (status, came) == (408, b"")
    assert read < 20
    assert asked(signed(), [bytes(20)] * 10, pause=0.1, seconds=0.3) == (200, 10, bytes(200)), "slow, but not too slow"
