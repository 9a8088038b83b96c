"""What two parties name alike, found by keyed hashes: a server without their secret learns what is equal, nothing else.

Who has both tokens and secret can try ids. Each claims edges between its own things and others', as tokens; the server
joins what exactly two sides claim and routes the place of one to the other. Or each claims things, such as users, as
tokens; the server gives those that several claim one number.
"""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from fedgraft.errors import WireError, require
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec
from fedgraft.wire.messages import check as check_layout

SECRET_BYTES: Final = 32
"""Of the key, as long as what SHA-256 makes."""
TOKEN_BYTES: Final = 16
"""Of a token: among 2**32 ids two have the same by accident with a chance of 2**-65."""
ANYBODY: Final = -1
"""In place of the other side of a claim: whoever claims the same."""
ALONE, SEVERAL = -1, -2
"""In place of an owner: nobody else claims this; more than two sides do, or two that are on the same end."""
CLAIMS: Final = Layout(
    (
        Spec("token", "uint8", (VARIABLE, TOKEN_BYTES)),
        Spec("first", "uint8", (VARIABLE,)),
        Spec("other", "int32", (VARIABLE,)),
        Spec("place", "uint32", (VARIABLE,)),
    )
)
"""Of what one side claims: a token for each edge; a bit, whether its own end comes first in what the token is of; whom
it takes the other side for, or `ANYBODY`; and the place of its own end among its own things."""
NAMES: Final = Layout((Spec("token", "uint8", (VARIABLE, TOKEN_BYTES)),))
"""Of things that one side claims, a token each; others may claim the same."""
NUMBERS: Final = Layout((Spec("number", "uint32", (VARIABLE,)),))
"""Of what it gets back: a number for each, the same for all that claim it."""
ADDRESSES: Final = Layout((Spec("owner", "int32", (VARIABLE,)), Spec("place", "uint32", (VARIABLE,))))
"""Of what it gets back, a row for each claim: whose the other end is, or `ALONE`, `SEVERAL`; and its place there."""


def tokens(secret: bytes, domain: str, rows: Iterable[Sequence[str]]) -> Array:
    """Return a token for each row of texts, uint8 [rows, 16]: HMAC-SHA256 under a secret, its first 128 bits.

    Rows are equal in no other way than text by text: each is hashed behind its length. `domain` says what they are, so
    that tokens of one use say nothing in another. The secret has 32 bytes.
    """
    require(len(secret) == SECRET_BYTES, "The length of a secret", f"{SECRET_BYTES} bytes", len(secret))
    begin = _framed(domain)
    joined = b"".join(hmac.digest(secret, begin + b"".join(map(_framed, row)), "sha256")[:TOKEN_BYTES] for row in rows)
    return np.frombuffer(joined, np.uint8).reshape(-1, TOKEN_BYTES)


def _framed(text: str) -> bytes:
    content = text.encode()
    return len(content).to_bytes(8, "big") + content


def check_claims(claims: Arrays, client: int, clients: int) -> None:
    """Raise `WireError` for what a client, one of so many, cannot have claimed."""
    check_layout(claims, CLAIMS)
    check_sides(claims, len(claims["token"]), client, clients)


def check_sides(claims: Arrays, count: int, client: int, clients: int) -> None:
    """Raise `WireError` for what a client cannot have said beside so many tokens; other arguments as `check_claims`."""
    other = claims["other"]
    if not (len(other) == len(claims["place"]) == count and len(claims["first"]) == -(-count // 8)):
        raise WireError(f"claims of {count} tokens, {len(other)} others and {len(claims['place'])} places")
    if ((other < ANYBODY) | (other >= clients) | (other == client)).any():
        raise WireError(f"a claim on a client that is none of the {clients - 1} others")


def matched(claims: Mapping[int, Arrays]) -> dict[int, Arrays]:
    """Return {client: addresses of the other ends of what it claims}, arrays of `ADDRESSES`; claims are checked.

    Two claims are one edge if their tokens are equal, they come from the two sides that they say, or from `ANYBODY`,
    their own ends are the two different ones, and nobody else claims the same.
    """
    order = sorted(claims)
    counts = [len(claims[client]["token"]) for client in order]
    client = np.repeat(np.array(order, np.int64), counts)
    if not len(client):
        return {each: _addresses(np.zeros(0), np.zeros(0)) for each in order}
    token = np.concatenate([claims[each]["token"] for each in order]).view(np.uint64)
    first = np.concatenate([np.unpackbits(claims[k]["first"], count=n) for k, n in zip(order, counts, strict=True)])
    other = np.concatenate([claims[each]["other"] for each in order]).astype(np.int64)
    place = np.concatenate([claims[each]["place"] for each in order])
    named = other != ANYBODY
    low, high = np.where(named, np.minimum(client, other), -1), np.where(named, np.maximum(client, other), -1)
    keys = (token[:, 0], token[:, 1], low, high)
    rows = np.lexsort(keys[::-1])
    begins = np.ones(len(rows), bool)
    begins[1:] = np.any([key[rows[1:]] != key[rows[:-1]] for key in keys], axis=0)
    starts = np.flatnonzero(begins)
    sizes = np.diff(starts, append=len(rows))
    owner = np.full(len(rows), SEVERAL)
    owner[rows[starts[sizes == 1]]] = ALONE
    one, two = (rows[starts[sizes == 2] + step] for step in (0, 1))
    sound = (client[one] != client[two]) & (first[one] != first[two])
    one, two = one[sound], two[sound]
    there = np.zeros(len(rows), place.dtype)
    owner[one], owner[two], there[one], there[two] = client[two], client[one], place[two], place[one]
    ends = np.cumsum(counts)[:-1]
    parts = zip(order, np.split(owner, ends), np.split(there, ends), strict=True)
    return {each: _addresses(*part) for each, *part in parts}


def check_addresses(addresses: Arrays, count: int, clients: int) -> None:
    """Raise `WireError` for what no server can have answered to so many claims, of one of so many clients."""
    check_layout(addresses, ADDRESSES)
    owner = addresses["owner"]
    if len(owner) != count or len(addresses["place"]) != count:
        raise WireError(f"{len(owner)} owners at {len(addresses['place'])} places for {count} claims")
    if ((owner < SEVERAL) | (owner >= clients)).any():
        raise WireError(f"an owner that is none of {clients} clients")


def _addresses(owner: Array, place: Array) -> Arrays:
    return {"owner": owner.astype(np.int32), "place": place.astype(np.uint32)}


# --- things -----------------------------------------------------------------------------------------------------------


def check_names(names: Arrays) -> None:
    """Raise `WireError` for what no client can have claimed of things."""
    check_layout(names, NAMES)
    check_once(names["token"])


def check_once(rows: Array) -> None:
    """Raise `WireError` for a thing that one client claims twice, uint8 [things, bytes]."""
    if repeats := len(rows) - len({bytes(row) for row in rows}):
        raise WireError(f"{repeats} of {len(rows)} things that it claims twice")


def numbered(names: Mapping[int, Arrays]) -> dict[int, Arrays]:
    """Return {client: numbers of what it claims}, arrays of `NUMBERS`, from 0 in the order of clients, then of claims.

    So numbers depend on who claims what, and not on tokens, which differ from one secret to another.
    """
    known: dict[bytes, int] = {}
    numbers = {}
    for client in sorted(names):
        own = [known.setdefault(bytes(token), len(known)) for token in names[client]["token"]]
        numbers[client] = {"number": np.array(own, np.uint32)}
    return numbers


def check_numbers(numbers: Arrays, count: int) -> None:
    """Raise `WireError` for what no server can have answered to so many claims."""
    check_layout(numbers, NUMBERS)
    if len(number := numbers["number"]) != count or len(np.unique(number)) != count:
        raise WireError(f"{len(np.unique(number))} numbers, of {len(number)}, for {count} claims")
