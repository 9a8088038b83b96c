"""Points and masks by their definition, and what a server joins by them: what it joins by tokens."""

import hashlib
import hmac

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.errors import InputError, WireError
from fedgraft.wire.masking import (
    Masks,
    check_answer,
    check_masked,
    check_names_masked,
    hashed,
    is_point,
    matched_masked,
    matching_bytes,
    numbered_masked,
    order_for,
)
from fedgraft.wire.tokens import ALONE, ANYBODY, SEVERAL, matched, numbered, tokens

pytest.importorskip("cryptography", reason="the extra 'flower' is not installed")

PRIME, A = 2**255 - 19, 486662
SECRET = bytes(range(32))
RUN = "0123456789abcdef" * 2


def x25519(scalar: bytes, point: bytes) -> bytes:
    """RFC 7748, section 5, in whole numbers."""
    k = (int.from_bytes(scalar, "little") & ~7 & (1 << 255) - 1) | 1 << 254
    u = int.from_bytes(point, "little") & (1 << 255) - 1
    x2, z2, x3, z3, swap = 1, 0, u, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb = d * a, c * b
        x3, z3 = (da + cb) ** 2 % PRIME, u * (da - cb) ** 2 % PRIME
        e = a * a - b * b
        x2, z2 = a * a * b * b % PRIME, e * (a * a + (A - 2) // 4 * e) % PRIME
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little")


def claims(secret=SECRET, **rows):
    """Claims of a client, {letters of an edge, its own end in capitals: (other, place)}."""
    ends = [sorted(name.lower()) for name in rows]
    first = [next(c for c in name if c.isupper()).lower() == pair[0] for name, pair in zip(rows, ends, strict=True)]
    token = tokens(secret, "edge", ends)
    return listed([(*each, *row) for *each, row in zip(token, first, rows.values(), strict=True)])


def listed(rows):
    """Claims of rows (token, whether its own end comes first, other, place)."""
    token, first, other, place = zip(*rows, strict=True) if rows else ((), (), (), ())
    return {
        "token": np.array(token, np.uint8).reshape(-1, 16),
        "first": np.packbits(np.array(first, bool)),
        "other": np.array(other, np.int32),
        "place": np.array(place, np.uint32),
    }


def exchanged(every, clients, away=()):
    """What a server makes of claims that all mask, and the messages."""
    masks = {client: Masks(bytes([client]) * 32, RUN) for client in every}
    masked = {client: masks[client].claims(each) for client, each in every.items()}
    for client, each in masked.items():
        check_masked(each, client, clients)
    orders = {client: order_for(client, masked, clients) for client in every}
    answers = {client: masks[client].answer(orders[client], client, clients) for client in every if client not in away}
    for client, each in answers.items():
        check_answer(each, orders[client])
    return matched_masked(masked, answers), (masked, orders, answers)


def check_equal(found, wanted):
    assert found.keys() == wanted.keys()
    for client, each in wanted.items():
        for name, array in each.items():
            assert found[client][name].tolist() == array.tolist(), (client, name)
            assert found[client][name].dtype == array.dtype


def test_the_ladder_of_these_tests_is_that_of_the_rfc():
    scalar = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    assert x25519(scalar, point).hex() == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"


def test_points_and_masks_by_their_definition():
    token = tokens(SECRET, "edge", [("bank a", "007")])[0]
    point = hashed(bytes(token))
    assert point.hex() == "350f669ee7d2c210a12c417818cef54b82c954aeb19b413fba59b13aafc4883a"
    u = int.from_bytes(point, "little")
    assert pow(u**3 + A * u**2 + u, (PRIME - 1) // 2, PRIME) == 1
    masks = Masks(SECRET, RUN)
    sent = masks.claims(listed([(token, True, 3, 0), (token, True, ANYBODY, 0)]))["point"]
    for row, other in enumerate((3, -1)):
        scalar = hmac.digest(SECRET, f"fedgraft mask {RUN} {other}".encode(), "sha256")
        assert bytes(sent[row]) == x25519(scalar, point)
    theirs = x25519(bytes(range(1, 33)), point)
    order = {"point": np.frombuffer(theirs, np.uint8).reshape(1, 32), "count": np.array([0, 1, 0], np.uint32)}
    scalar = hmac.digest(SECRET, f"fedgraft mask {RUN} 1".encode(), "sha256")
    wanted = hashlib.sha256(b"fedgraft masked" + x25519(bytes(range(1, 33)), x25519(scalar, point))).digest()[:16]
    assert bytes(masks.answer(order, 0, 2)["token"][0]) == wanted


@given(st.binary(min_size=32, max_size=32))
@settings(max_examples=30, deadline=None)
def test_what_is_a_point_is_what_eulers_criterion_says(content):
    u = int.from_bytes(content, "little")
    on_curve = pow(u * u * u + A * u * u + u, (PRIME - 1) // 2, PRIME) == 1
    assert is_point(content) == (u < PRIME and on_curve)


def test_masks_differ_by_client_by_run_and_by_whom_they_are_for():
    token = tokens(SECRET, "edge", [("a",)])
    rows = listed([(token[0], True, other, 0) for other in (1, 2, ANYBODY)])
    made = [Masks(secret, run).claims(rows)["point"] for secret in (SECRET, bytes(32)) for run in (RUN, "another")]
    assert len({bytes(point) for points in made for point in points}) == 12
    assert np.array_equal(made[0], Masks(SECRET, RUN).claims(rows)["point"])
    assert "secret" not in repr(Masks(SECRET, RUN))
    with pytest.raises(InputError, match="length of a secret must be 32 bytes; got 0"):
        Masks(b"", RUN)


def test_what_two_sides_claim_is_joined_and_the_places_change_sides():
    every = {0: claims(Ab=(1, 7), Ac=(2, 8)), 1: claims(aB=(0, 3)), 2: claims(cD=(1, 5)), 4: claims()}
    got, _ = exchanged(every, 5)
    assert got[0]["owner"].tolist() == [1, ALONE]
    assert got[0]["place"].tolist() == [3, 0]
    check_equal(got, matched(every))


def test_with_anybody_an_end_that_two_have_is_joined_with_none():
    every = {0: claims(Ab=(ANYBODY, 7)), 1: claims(aB=(ANYBODY, 3)), 2: claims(Ab=(ANYBODY, 1), Cd=(ANYBODY, 2))}
    got, _ = exchanged(every, 3)
    assert [got[k]["owner"].tolist() for k in range(3)] == [[SEVERAL], [SEVERAL], [SEVERAL, ALONE]]
    check_equal(got, matched(every))


ROW = st.tuples(st.integers(0, 3), st.booleans(), st.integers(-1, 3), st.integers(0, 9))


@given(st.lists(st.lists(ROW, max_size=5), min_size=2, max_size=4))
@settings(max_examples=60, deadline=None)
def test_whatever_is_claimed_masks_join_what_tokens_join(rows):
    token = tokens(SECRET, "edge", [(str(k),) for k in range(4)])
    every = {}
    for client, each in enumerate(rows):
        sound = [(k, first, other, place) for k, first, other, place in each if client != other < len(rows)]
        every[client] = listed([(token[k], *row) for k, *row in sound])
    got, (masked, orders, answers) = exchanged(every, len(rows))
    check_equal(got, matched(every))
    for client, (down, up) in matching_bytes(every, got, len(rows), True).items():
        sent = [len(wire.pack({**each[client]})) for each in (got, orders, masked, answers)]
        assert (down, up) == (sum(sent[:2]), sum(sent[2:]))


def test_who_has_the_secret_finds_no_token_in_what_is_sent():
    every = {0: claims(Ab=(1, 7)), 1: claims(aB=(0, 3))}
    _, (masked, orders, answers) = exchanged(every, 2)
    token = bytes(every[0]["token"][0])
    guess = hashed(token)
    messages = [one for part in (masked, orders, answers) for one in part.values()]
    sent = b"".join(array.tobytes() for one in messages for array in one.values())
    for text in (token, guess, hashlib.sha256(b"fedgraft masked" + guess).digest()[:16]):
        assert text not in sent
    lone = Masks(bytes([1]) * 32, RUN)  # what the other side can make of a guess is not what was claimed
    assert bytes(lone.claims(claims(aB=(0, 3)))["point"][0]) != bytes(masked[0]["point"][0])


def test_nothing_is_joined_to_who_has_not_answered():
    every = {0: claims(Ab=(1, 7), Ac=(2, 8)), 1: claims(aB=(0, 3)), 2: claims(aC=(0, 5))}
    got, _ = exchanged(every, 3, away=[2])
    assert [got[k]["owner"].tolist() for k in range(3)] == [[1, ALONE], [0], [ALONE]]


POINT = np.frombuffer(hashed(b"any"), np.uint8)
SMALL = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
TWIST = next(k for k in range(2, 99) if not is_point(k.to_bytes(32, "little")))


@pytest.mark.parametrize("u", [*SMALL, 0, 1, PRIME - 1, PRIME, PRIME + 1, 2**255 + 9, TWIST])
def test_what_is_no_point_or_of_small_order_is_refused_at_both_ends(u):
    points = np.stack([POINT, np.frombuffer(u.to_bytes(32, "little"), np.uint8)])
    sides = {"first": np.zeros(1, np.uint8), "other": np.ones(2, np.int32), "place": np.zeros(2, np.uint32)}
    with pytest.raises(WireError, match="point 1 of 2 is none of Curve25519, or of small order"):
        check_masked({"point": points, **sides}, 0, 2)
    with pytest.raises(WireError, match="point 1 of 2 is none of Curve25519, or of small order"):
        Masks(SECRET, RUN).answer({"point": points, "count": np.array([0, 2, 0], np.uint32)}, 0, 2)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"point": np.zeros((1, 31), np.uint8)}, "point"),
        ({"count": np.array([0, 1], np.uint32)}, "points of 1 clients, 1 in all"),
        ({"count": np.array([0, 2, 0], np.uint32)}, "points of 2 clients, 1 in all"),
        ({"count": np.array([1, 0, 0], np.uint32)}, "points of 2 clients, 1 in all"),  # its own
    ],
)
def test_orders_that_cannot_be_are_refused(change, error):
    order = {"point": POINT.reshape(1, 32), "count": np.array([0, 1, 0], np.uint32)}
    assert Masks(SECRET, RUN).answer(order, 0, 2)["token"].shape == (1, 16)
    with pytest.raises(WireError, match=error):
        Masks(SECRET, RUN).answer({**order, **change}, 0, 2)


def test_claims_and_answers_that_cannot_be_are_refused():
    masked = Masks(SECRET, RUN).claims(claims(Ab=(1, 7)))
    check_masked(masked, 0, 3)
    with pytest.raises(WireError, match="none of the 2 others"):
        check_masked({**masked, "other": np.array([3], np.int32)}, 0, 3)
    with pytest.raises(WireError, match="point"):
        check_masked(claims(Ab=(1, 7)), 0, 3)
    with pytest.raises(WireError, match="0 hashes for 1 points"):
        check_answer({"token": np.zeros((0, 16), np.uint8)}, {"point": masked["point"]})


@given(st.lists(st.lists(st.integers(0, 6), max_size=5, unique=True), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_whatever_things_are_claimed_masks_number_as_tokens_do(rows):
    every = {k: {"token": tokens(SECRET, "user", [(str(each),) for each in row])} for k, row in enumerate(rows)}
    masks = {client: Masks(bytes([client]) * 32, RUN) for client in every}
    masked = {client: masks[client].claims(each) for client, each in every.items()}
    for each in masked.values():
        check_names_masked(each)
    orders = {client: order_for(client, masked, len(rows)) for client in every}
    answers = {client: masks[client].answer(orders[client], client, len(rows)) for client in every}
    got = numbered_masked(masked, answers)
    check_equal(got, numbered(every))
    for client, (down, up) in matching_bytes(every, got, len(rows), True).items():
        sent = [len(wire.pack({**each[client]})) for each in (got, orders, masked, answers)]
        assert (down, up) == (sum(sent[:2]), sum(sent[2:]))


def test_who_has_not_answered_has_nothing_in_common_and_nobody_claims_a_thing_twice():
    every = {k: {"token": tokens(SECRET, "user", [("a",), ("b",)])} for k in range(3)}
    masks = {client: Masks(bytes([client]) * 32, RUN) for client in every}
    masked = {client: masks[client].claims(each) for client, each in every.items()}
    answers = {client: masks[client].answer(order_for(client, masked, 3), client, 3) for client in (0, 2)}
    found = {client: each["number"].tolist() for client, each in numbered_masked(masked, answers).items()}
    assert found == {0: [0, 1], 1: [2, 3], 2: [0, 1]}
    twice = {"point": masked[0]["point"][[0, 0]]}
    with pytest.raises(WireError, match="1 of 2 things that it claims twice"):
        check_names_masked(twice)
