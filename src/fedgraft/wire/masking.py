"""Private set intersection: what two parties name alike, found so that nobody can try names by himself.

A client hashes its tokens (`fedgraft.wire.tokens`) to points of Curve25519 and multiplies these by a number of its own,
its mask, as in a Diffie-Hellman exchange. The server hands them to the other side, which multiplies by its own mask and
answers with hashes. Masks commute, so that both sides of an edge have one hash; who lacks one of the masks, as the
server lacks both, can reckon none. The server joins hashes as it joins tokens.

Source: Meadows, IEEE S&P 1986; Huberman et al., EC 1999; X25519 is that of RFC 7748. Differs: what is hashed is a keyed
    token, so that who lacks the secret of all sites, as the server does, cannot make up a point to have it masked.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from fedgraft import wire
from fedgraft.errors import WireError, require
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, Layout, Spec
from fedgraft.wire.messages import check as check_layout
from fedgraft.wire.tokens import (
    ALONE,
    ANYBODY,
    CLAIMS,
    SECRET_BYTES,
    SEVERAL,
    TOKEN_BYTES,
    check_once,
    check_sides,
    matched,
)

POINT_BYTES: Final = 32
"""Of a point, which is sent as its u-coordinate."""
_POINT: Final = Spec("point", "uint8", (VARIABLE, POINT_BYTES))
CLAIMS_MASKED: Final = Layout((_POINT, *(spec for spec in CLAIMS if spec.name != "token")))
"""Of what one side claims: as `tokens.CLAIMS`, a masked point in place of each token."""
NAMES_MASKED: Final = Layout((_POINT,))
"""Of things that one side claims: as `tokens.NAMES`."""
ORDER: Final = Layout((_POINT, Spec("count", "uint32", (VARIABLE,))))
"""Of points of others that a client is to mask: first those with its mask for client 0, then 1 ..., last with its mask
for `ANYBODY`; and how many of each, [clients + 1]."""
ANSWER: Final = Layout((Spec("token", "uint8", (VARIABLE, TOKEN_BYTES)),))
"""Of what it answers: a hash for each of them."""

_PRIME: Final = 2**255 - 19
_A: Final = 486662
"""Of the curve v^2 = u^3 + A u^2 + u over the field of `_PRIME`."""
_OF_ORDER_8: Final = 325606250916557431795983626356110631294008115727848805560023387167927233504
_SMALL: Final = frozenset(
    {0, 1, _OF_ORDER_8, 39382357235489614581723060781553021112529911719440698176882885853963445705823}
)
"""Points of the curve whose order divides 8: any mask makes nothing of them."""


# --- points -----------------------------------------------------------------------------------------------------------


def hashed(token: bytes) -> bytes:
    """Return the point that stands for a token: the first of its hashes that is one."""
    count = 0
    while True:
        digest = hashlib.sha256(b"fedgraft point" + count.to_bytes(4, "big") + token).digest()
        point = (int.from_bytes(digest, "little") & (1 << 255) - 1).to_bytes(POINT_BYTES, "little")
        if is_point(point):
            return point
        count += 1


def is_point(content: bytes) -> bool:
    """Return whether 32 bytes are a point of the curve, not of its twist, that masks make something of."""
    u = int.from_bytes(content, "little")
    return u < _PRIME and u not in _SMALL and _jacobi(u * (u * (u + _A) + 1) % _PRIME, _PRIME) == 1


def _jacobi(a: int, n: int) -> int:
    """The Jacobi symbol (a/n) of an odd n: of a prime 1 for squares; several times faster than a power."""
    sign = 1
    while a:
        twos = (a & -a).bit_length() - 1
        a >>= twos
        if twos & 1 and n & 7 in (3, 5):
            sign = -sign
        if a & n & 2:  # both are 3 mod 4
            sign = -sign
        a, n = n % a, a
    return sign if n == 1 else 0


def _check_points(points: Array) -> None:
    content, size = points.tobytes(), POINT_BYTES
    for k in range(len(points)):
        if not is_point(content[k * size : (k + 1) * size]):
            raise WireError(f"point {k} of {len(points)} is none of Curve25519, or of small order")


# --- sites ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Masks:
    """A client's masks in a run, one for each other client: again the same after it was ended.

    Args:
        secret: of this client, which nobody else has; 32 bytes.
        run: the run's name.
    """

    secret: bytes = field(repr=False)
    run: str

    def __post_init__(self) -> None:
        require(len(self.secret) == SECRET_BYTES, "The length of a secret", f"{SECRET_BYTES} bytes", len(self.secret))

    def claims(self, claims: Arrays) -> Arrays:
        """Return what the client tells the server, arrays of `CLAIMS_MASKED`, of those of `tokens.CLAIMS`.

        Or arrays of `NAMES_MASKED`, of those of `tokens.NAMES`.
        """
        made, token = _pointless(claims), claims["token"]
        for other in np.unique(others := _others(claims)).tolist():
            rows = np.flatnonzero(others == other)
            made["point"][rows] = self._masked(other, map(hashed, map(bytes, token[rows])))
        return made

    def answer(self, order: Arrays, client: int, clients: int) -> Arrays:
        """Return arrays of `ANSWER` for those of `ORDER`, as client of so many. Raises `WireError` for no order."""
        check_layout(order, ORDER)
        count, points = order["count"].astype(np.int64), order["point"]
        if len(count) != clients + 1 or count.sum() != len(points) or count[client]:
            raise WireError(f"points of {len(count) - 1} clients, {len(points)} in all")
        _check_points(points)
        ends = np.cumsum(count)[:-1]
        labels = [*range(clients), ANYBODY]
        masked = [
            self._masked(other, map(bytes, each)) for other, each in zip(labels, np.split(points, ends), strict=True)
        ]
        hashes = [hashlib.sha256(b"fedgraft masked" + bytes(each)).digest() for part in masked for each in part]
        joined = b"".join(each[:TOKEN_BYTES] for each in hashes)
        return {"token": np.frombuffer(joined, np.uint8).reshape(-1, TOKEN_BYTES)}

    def _masked(self, other: int, points: Iterable[bytes]) -> Array:
        """Points by the mask for a client, or `ANYBODY`, uint8 [points, 32]."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

        content = hmac.digest(self.secret, f"fedgraft mask {self.run} {other}".encode(), "sha256")
        mask, of = X25519PrivateKey.from_private_bytes(content), X25519PublicKey.from_public_bytes
        joined = b"".join(mask.exchange(of(point)) for point in points)
        return np.frombuffer(joined, np.uint8).reshape(-1, POINT_BYTES)


def points_in(told: bytes) -> int | None:
    """Return how many points a client is to mask, of what it is told, packed; None where it is told something else."""
    try:
        tree: Any = wire.unpack(told) if told else None
    except WireError:
        return None
    point = tree.get("point") if isinstance(tree, dict) and tree.keys() == {*ORDER.names} else None
    return len(point) if isinstance(point, np.ndarray) and point.ndim else None


# --- the server -------------------------------------------------------------------------------------------------------


def check_masked(claims: Arrays, client: int, clients: int) -> None:
    """Raise `WireError` for what a client, one of so many, cannot have claimed."""
    check_layout(claims, CLAIMS_MASKED)
    check_sides(claims, len(claims["point"]), client, clients)
    _check_points(claims["point"])


def check_names_masked(names: Arrays) -> None:
    """Raise `WireError` for what no client can have claimed of things."""
    check_layout(names, NAMES_MASKED)
    check_once(names["point"])
    _check_points(names["point"])


def check_answer(answer: Arrays, order: Arrays) -> None:
    """Raise `WireError` for what no client can have answered to an order."""
    check_layout(answer, ANSWER)
    if len(answer["token"]) != len(order["point"]):
        raise WireError(f"{len(answer['token'])} hashes for {len(order['point'])} points")


def order_for(client: int, claims: Mapping[int, Arrays], clients: int) -> Arrays:
    """Return the points that a client, one of so many, is to mask, arrays of `ORDER`: what others claim of it."""
    named, anybody = _asked(client, claims)
    counts = [len(named.get(other, ())) for other in range(clients)]
    parts = [claims[other]["point"][rows] for part in (named, anybody) for other, rows in part.items()]
    points = np.concatenate([np.zeros((0, POINT_BYTES), np.uint8), *parts])
    return {"point": points, "count": np.array([*counts, len(points) - sum(counts)], np.uint32)}


def matched_masked(claims: Mapping[int, Arrays], answers: Mapping[int, Arrays]) -> dict[int, Arrays]:
    """Return what `tokens.matched` returns for the claims that these were before they were masked.

    `answers` are {client: its answer to `order_for`}. Nothing is joined to who has not answered.
    """
    parts: dict[int, list[tuple[Any, ...]]] = {client: [] for client in claims}
    for partner, answer in answers.items():
        asked = [item for part in _asked(partner, claims) for item in part.items()]
        ends = np.cumsum([len(rows) for _, rows in asked])[:-1]
        for (client, rows), token in zip(asked, np.split(answer["token"], ends), strict=bool(asked)):
            parts[client].append((rows, np.full(len(rows), partner, np.int32), token))
    nothing = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros((0, TOKEN_BYTES), np.uint8)
    whole = {
        client: [np.concatenate(each) for each in zip(nothing, *every, strict=True)] for client, every in parts.items()
    }
    pairs = {client: _pairs(claims[client], *each) for client, each in whole.items()}
    found = matched(pairs)
    return {client: _of_claims(len(claims[client]["other"]), whole[client][0], found[client]) for client in claims}


def _asked(client: int, claims: Mapping[int, Arrays]) -> tuple[dict[int, Array], dict[int, Array]]:
    """({other: rows of its claims that name a client}, the same of claims on anybody), in the order of an order."""
    others = {other: _others(claims[other]) for other in sorted(claims) if other != client}
    return tuple(  # type: ignore[return-value]
        {other: np.flatnonzero(each == side) for other, each in others.items()} for side in (client, ANYBODY)
    )


def _others(claims: Arrays) -> Array:
    """Whom each claim takes the other side for; of things anybody."""
    count = len(next(iter(claims.values())))
    return claims["other"] if "other" in claims else np.full(count, ANYBODY, np.int32)


def _pairs(claims: Arrays, rows: Array, partner: Array, token: Array) -> Arrays:
    """Claims on one client each, arrays of `tokens.CLAIMS`: row by row of `claims` as its partner has masked it."""
    first = np.unpackbits(claims["first"], count=len(claims["other"]))[rows]
    return {"token": token, "first": np.packbits(first), "other": partner, "place": claims["place"][rows]}


def _of_claims(count: int, rows: Array, addresses: Arrays) -> Arrays:
    """Addresses of so many claims, from those of their `rows` with each partner: with several it is joined to none."""
    owner, place = np.full(count, ALONE, np.int32), np.zeros(count, np.uint32)
    joined = addresses["owner"] >= 0
    owner[rows[joined]], place[rows[joined]] = addresses["owner"][joined], addresses["place"][joined]
    several = np.bincount(rows[joined], minlength=count) > 1
    several[rows[addresses["owner"] == SEVERAL]] = True
    owner[several], place[several] = SEVERAL, 0
    return {"owner": owner, "place": place}


def numbered_masked(names: Mapping[int, Arrays], answers: Mapping[int, Arrays]) -> dict[int, Arrays]:
    """Return what `tokens.numbered` returns for the names that these were before they were masked.

    `answers` are {client: its answer to `order_for`}. Who has not answered has nothing in common with others.
    """
    hashes: dict[tuple[int, int], list[bytes]] = {}
    for partner, answer in answers.items():
        asked = _asked(partner, names)[1]
        ends = np.cumsum([len(rows) for rows in asked.values()])[:-1]
        for client, part in zip(asked, np.split(answer["token"], ends), strict=bool(asked)):
            hashes[client, partner] = list(map(bytes, part))
    numbers: dict[int, Arrays] = {}
    count = 0
    for client in sorted(names):
        known: dict[int, int] = {}  # {row: its number}, the same whichever of the clients before has it
        for before, theirs in numbers.items():
            number = dict(zip(hashes.get((before, client), ()), theirs["number"].tolist(), strict=False))
            mine = enumerate(hashes.get((client, before), ()))
            known |= {row: number[each] for row, each in mine if each in number and row not in known}
        own = np.zeros(len(names[client]["point"]), np.uint32)
        new = np.setdiff1d(np.arange(len(own)), [*known])
        own[[*known]], own[new] = [*known.values()], count + np.arange(len(new))
        numbers[client], count = {"number": own}, count + len(new)
    return numbers


# --- what it takes ----------------------------------------------------------------------------------------------------


def matching_bytes(
    claims: Mapping[int, Arrays], told: Mapping[int, Arrays], clients: int, is_private: bool
) -> dict[int, tuple[int, int]]:
    """Return {client: (bytes down, bytes up)} of the messages by which claims of so many clients are matched.

    `claims` have tokens, and `told` is what comes of them. If `is_private` sites would mask these: where all claims are
    in one place nobody does, and messages are as long as they would be.
    """
    if not is_private:
        return {client: (_packed_bytes([told[client]]), _packed_bytes([each])) for client, each in claims.items()}
    masked = {client: _pointless(each) for client, each in claims.items()}
    sizes = {}
    for client, each in masked.items():
        order = order_for(client, masked, clients)
        answer = {"token": np.zeros((len(order["point"]), TOKEN_BYTES), np.uint8)}
        sizes[client] = (_packed_bytes([told[client], order]), _packed_bytes([each, answer]))
    return sizes


def _pointless(claims: Arrays) -> Arrays:
    """Claims with zeros in place of points."""
    points = np.zeros((len(claims["token"]), POINT_BYTES), np.uint8)
    return {"point": points, **{name: array for name, array in claims.items() if name != "token"}}


def _packed_bytes(messages: Sequence[Arrays]) -> int:
    return sum(len(wire.pack({**each})) for each in messages)
