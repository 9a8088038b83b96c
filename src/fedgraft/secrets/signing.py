"""Signatures by registered keys, by which clients know each other's keys of a round whoever hands these on."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP384R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    derive_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from fedgraft.errors import ClientError
from fedgraft.secrets.agreement import derived
from fedgraft.secrets.sizes import SIGNATURE_BYTES

_HALF: Final = SIGNATURE_BYTES // 2
_HOW: Final = ECDSA(SHA384(), deterministic_signing=True)
"""RFC 6979: the same content has the same signature, so a request that comes again has the same answer."""


class Signatures:
    """Sign what a client says of a sum, and check what others have signed. ECDSA (FIPS 186-5).

    Args:
        run: its name, which is signed, too; "" in simulations.
        private: {client that is here: its private key}, as a function.
        public: {client: its public key}, as a function; raises `ClientError` where none is known.
    """

    def __init__(
        self,
        run: str,
        private: Callable[[int], EllipticCurvePrivateKey],
        public: Callable[[int], EllipticCurvePublicKey],
    ) -> None:
        self._run, self._private, self._public = run, private, public

    @classmethod
    def simulated(cls, root: bytes) -> "Signatures":
        """Return those of a simulation: all clients' keys, on the curve P-384, follow from one secret."""

        @lru_cache
        def private(client: int) -> EllipticCurvePrivateKey:
            return derive_private_key(int.from_bytes(derived(root, "signing key", client), "little"), SECP384R1())

        return cls("", private, lambda client: private(client).public_key())

    @classmethod
    def registered(cls, run: str, private: bytes, public: Callable[[int], bytes]) -> "Signatures":
        """Return those of a node, by its private key and others' public ones, all as OpenSSH writes them.

        Raises `ClientError` for a private key that is none.
        """
        try:
            own = cast(EllipticCurvePrivateKey, load_ssh_private_key(private, None))
        except (ValueError, UnsupportedAlgorithm) as error:
            raise ClientError("the node's key is no private key of OpenSSH") from error
        return cls(run, lambda client: own, lambda client: _loaded(client, public(client)))

    def signed(self, client: int, round: int, segment: int, content: bytes) -> bytes:
        """Return a client's signature over what it says of a sum, by round and segment: `SIGNATURE_BYTES`."""
        signature = self._private(client).sign(self._whole(client, round, segment, content), _HOW)
        return b"".join(number.to_bytes(_HALF, "big") for number in decode_dss_signature(signature))

    def check(self, client: int, round: int, segment: int, content: bytes, signature: bytes) -> None:
        """Raise `ClientError` unless a signature over what a client says of a sum is by its registered key."""
        numbers = (int.from_bytes(each, "big") for each in (signature[:_HALF], signature[_HALF:]))
        whole = self._whole(client, round, segment, content)
        try:
            self._public(client).verify(encode_dss_signature(*numbers), whole, _HOW)
        except InvalidSignature as error:
            raise ClientError(f"the keys of client {client} are not signed by its registered key") from error

    def _whole(self, *said: int | bytes) -> bytes:
        parts = [each if isinstance(each, bytes) else b"%d" % each for each in said]
        return b"\0".join([b"fedgraft keys of a sum", self._run.encode(), *parts])


def _loaded(client: int, public: bytes) -> EllipticCurvePublicKey:
    try:
        return cast(EllipticCurvePublicKey, load_ssh_public_key(public))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ClientError(f"the registered key of client {client} is no public key of OpenSSH") from error
