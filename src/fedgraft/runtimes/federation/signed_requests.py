"""Requests of nodes: each is signed by its node's key, over what is asked for and the digest of its body."""

import hashlib
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from fedgraft.runtimes.federation.audit import HOW, load_private, load_public, public_line

KEY, SESSION, NUMBER, DIGEST, SIGNATURE = (
    f"x-fedgraft-{name}" for name in ("key", "session", "number", "digest", "signature")
)
"""Headers of a request."""
MESSAGE, NODE, LOST = (f"x-fedgraft-{name}" for name in ("message", "node", "lost"))
"""Headers of a message: its id, its node, and that it will not be answered."""
VERSION: Final = 1
"""Of the interface of nodes; both ends must have the same."""


class Signer:
    """Signs a node's requests.

    Args:
        private: OpenSSH's private key of the node; None where the federation has no keys: the node then has a random
            name in place of a key, and signs nothing.
    """

    def __init__(self, private: bytes | None) -> None:
        self._key = None if private is None else load_private(private)
        self.public = f"keyless {secrets.token_hex(16)}" if self._key is None else public_line(self._key.public_key())
        self._number = 0
        self.session = ""
        """str, name of the session at the server; before there is one, what the server has asked to be signed."""

    def headers(self, path: str, body: bytes) -> dict[str, str]:
        """Return the headers of the next request; each has a higher number than those before."""
        self._number += 1
        claim = Claim(self.public, self.session, self._number, hashlib.sha256(body).hexdigest(), b"")
        signature = b"" if self._key is None else self._key.sign(claim.signed(path), HOW)
        return {
            KEY: claim.key,
            SESSION: claim.session,
            NUMBER: str(claim.number),
            DIGEST: claim.digest,
            SIGNATURE: b64encode(signature).decode(),
        }


class Claim(NamedTuple):
    """What the headers of a request say.

    Args:
        key: public key of the node, as OpenSSH writes it, without a comment.
        session: as `Signer.session`.
        number: of the request in its session.
        digest: SHA-256 of the body, hexadecimal.
        signature: by the key, over all of these and the path.
    """

    key: str
    session: str
    number: int
    digest: str
    signature: bytes

    def signed(self, path: str) -> bytes:
        """Return what is signed."""
        return "\n".join(["fedgraft", path, self.session, str(self.number), self.digest]).encode()

    def is_genuine(self, path: str) -> bool:
        """Return whether the signature is that of the key."""
        try:
            load_public(self.key.encode()).verify(self.signature, self.signed(path), HOW)
        except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError, AttributeError):
            return False
        return True


def claim_in(headers: Mapping[str, str]) -> Claim | None:
    """Return what the headers of a request say; None where they are none of a node."""
    try:
        signature = b64decode(headers[SIGNATURE], validate=True)
        return Claim(headers[KEY], headers[SESSION], int(headers[NUMBER]), headers[DIGEST], signature)
    except (KeyError, ValueError):
        return None


def bare(public: bytes | str) -> str:
    """Return a public key as OpenSSH writes it, without its comment."""
    text = public.decode() if isinstance(public, bytes) else public
    return " ".join(text.split()[:2])


def node_id(public: bytes | str) -> int:
    """Return the id of the node with a key, 63 bits of its digest."""
    return int.from_bytes(hashlib.sha256(bare(public).encode()).digest()[:8], "big") >> 1
