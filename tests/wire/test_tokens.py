"""Keyed hashes by their definition, and what a server joins by them."""

import hashlib
import hmac

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import InputError, WireError
from fedgraft.wire.tokens import (
    ALONE,
    ANYBODY,
    SEVERAL,
    check_addresses,
    check_claims,
    check_names,
    check_numbers,
    matched,
    numbered,
    tokens,
)

SECRET = bytes(range(32))


def claims(secret=SECRET, **rows):
    """Claims of a client, {letters of an edge, its own end in capitals: (other, place)}."""
    ends = [sorted(name.lower()) for name in rows]
    first = [next(c for c in name if c.isupper()).lower() == pair[0] for name, pair in zip(rows, ends, strict=True)]
    return {
        "token": tokens(secret, "edge", ends),
        "first": np.packbits(np.array(first, bool)),
        "other": np.array([other for other, _ in rows.values()], np.int32),
        "place": np.array([place for _, place in rows.values()], np.uint32),
    }


def test_golden_vectors():
    made = tokens(SECRET, "edge", [("bank a", "007"), ("", "ü")])
    assert bytes(made[0]).hex() == "40f37daea665c3180a31ac1b0a5cfd41"
    assert bytes(made[1]).hex() == "902442959ae3a558d290dd1659ba60a3"
    framed = b"".join(len(t).to_bytes(8, "big") + t for t in (b"edge", b"bank a", b"007"))
    assert bytes(made[0]) == hmac.new(SECRET, framed, hashlib.sha256).digest()[:16]
    assert tokens(SECRET, "edge", []).shape == (0, 16)


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3), max_size=6))
def test_rows_have_one_token_only_if_they_are_equal_text_by_text(rows):
    made = [bytes(token) for token in tokens(SECRET, "edge", rows)]
    assert len(set(made)) == len(set(map(tuple, rows)))


def test_another_secret_or_use_makes_other_tokens():
    one, two, three = (
        bytes(tokens(secret, domain, [("a",)])[0])
        for secret, domain in ((SECRET, "edge"), (bytes(32), "edge"), (SECRET, "node"))
    )
    assert len({one, two, three}) == 3
    with pytest.raises(InputError, match="length of a secret must be 32 bytes; got 3"):
        tokens(b"abc", "edge", [])


def test_what_two_sides_claim_is_joined_and_the_places_change_sides():
    got = matched({0: claims(Ab=(1, 7), Ac=(2, 8)), 1: claims(aB=(0, 3)), 2: claims(cD=(1, 5)), 4: claims()})
    assert got[0]["owner"].tolist() == [1, ALONE]
    assert got[0]["place"].tolist() == [3, 0]
    assert got[1]["owner"].tolist() == [0]
    assert got[1]["place"].tolist() == [7]
    assert got[2]["owner"].tolist() == [ALONE]
    assert len(got[4]["owner"]) == 0
    assert matched({3: claims()})[3]["place"].dtype == np.uint32


def test_who_is_not_named_gets_nothing():
    got = matched({0: claims(Ab=(1, 7)), 1: claims(aB=(0, 3)), 2: claims(Ab=(1, 9), aB=(0, 9))})
    assert [got[k]["owner"].tolist() for k in range(3)] == [[1], [0], [ALONE, ALONE]]


def test_with_anybody_an_end_that_two_have_is_joined_with_none():
    two = matched({0: claims(Ab=(ANYBODY, 7)), 1: claims(aB=(ANYBODY, 3))})
    assert (two[0]["owner"], two[0]["place"]) == ([1], [3])
    three = matched({0: claims(Ab=(ANYBODY, 7)), 1: claims(aB=(ANYBODY, 3)), 2: claims(Ab=(ANYBODY, 1))})
    same_end = matched({0: claims(Ab=(ANYBODY, 7)), 2: claims(Ab=(ANYBODY, 1))})
    for got in (three, same_end):
        assert all(each["owner"].tolist() == [SEVERAL] for each in got.values())
    assert matched({0: claims(Ab=(1, 7)), 1: claims(aB=(ANYBODY, 3))})[0]["owner"].tolist() == [ALONE]


def test_an_edge_that_one_side_claims_twice_is_none():
    twice = {name: np.concatenate([rows, rows]) for name, rows in claims(Ab=(1, 7)).items() if name != "first"}
    got = matched({0: {**twice, "first": np.packbits([1, 1])}, 1: claims(aB=(0, 3))})
    assert got[0]["owner"].tolist() == [SEVERAL, SEVERAL]
    assert got[1]["owner"].tolist() == [SEVERAL]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"place": np.zeros(2, np.uint32)}, "claims of 1 tokens, 1 others and 2 places"),
        ({"first": np.zeros(0, np.uint8)}, "claims of 1 tokens"),
        ({"other": np.array([0], np.int32)}, "none of the 2 others"),
        ({"other": np.array([3], np.int32)}, "none of the 2 others"),
        ({"other": np.array([-2], np.int32)}, "none of the 2 others"),
        ({"token": np.zeros((1, 15), np.uint8)}, "token"),
    ],
)
def test_claims_that_cannot_be_are_refused(change, error):
    check_claims(claims(Ab=(1, 7)), 0, 3)
    with pytest.raises(WireError, match=error):
        check_claims({**claims(Ab=(1, 7)), **change}, 0, 3)


def test_answers_that_cannot_be_are_refused():
    answer = matched({0: claims(Ab=(1, 7)), 1: claims(aB=(0, 3))})[0]
    check_addresses(answer, 1, 2)
    for count, clients, error in ((2, 2, "1 owners at 1 places for 2 claims"), (1, 1, "none of 1 clients")):
        with pytest.raises(WireError, match=error):
            check_addresses(answer, count, clients)


def names(text, secret=SECRET):
    return {"token": tokens(secret, "user", [(each,) for each in text])}


def test_things_that_several_claim_have_one_number_by_who_claims_what_and_not_by_their_tokens():
    for secret in (SECRET, bytes(32)):
        got = numbered({2: names("xcb", secret), 0: names("ab", secret), 1: names("", secret)})
        assert {client: each["number"].tolist() for client, each in got.items()} == {0: [0, 1], 1: [], 2: [2, 3, 1]}
        assert got[1]["number"].dtype == np.uint32


def test_things_claimed_twice_and_numbers_that_cannot_be_are_refused():
    check_names(names("ab"))
    with pytest.raises(WireError, match="1 of 3 things that it claims twice"):
        check_names(names("aba"))
    with pytest.raises(WireError, match="token"):
        check_names({"token": np.zeros((1, 15), np.uint8)})
    check_numbers({"number": np.array([3, 1], np.uint32)}, 2)
    for number, error in (([3], "1 numbers, of 1, for 2 claims"), ([3, 3], "1 numbers, of 2, for 2 claims")):
        with pytest.raises(WireError, match=error):
            check_numbers({"number": np.array(number, np.uint32)}, 2)
