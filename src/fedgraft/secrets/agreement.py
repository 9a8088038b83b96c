"""Keys of a round: what a client derives from its root secret, and what two of them agree on."""

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedgraft.errors import ClientError
from fedgraft.secrets.sizes import KEY_BYTES

_NONCE: Final = bytes(12)
"""A key seals one message: it is of one pair, direction and round, and the message is a function of the round, too."""


def derived(secret: bytes, *purpose: str | int) -> bytes:
    """Return 32 bytes by HKDF with SHA-256 (RFC 5869), without salt; `purpose` is what they are for."""
    info = "\0".join(map(str, ("fedgraft", *purpose))).encode()
    return HKDF(SHA256(), KEY_BYTES, None, info).derive(secret)


def agreed(private: bytes, public: bytes, *purpose: str | int) -> bytes:
    """Return the key that two clients have in common, each by its private key and the other's public one.

    X25519 (RFC 7748), then `derived`. Raises `ClientError` for a public key of small order.
    """
    try:
        shared = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise ClientError("a public key that nobody can agree on anything with") from error
    return derived(shared, *purpose)


def public_of(private: bytes) -> bytes:
    """Return the public half of 32 bytes as a key of X25519."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def encrypted(key: bytes, content: bytes) -> bytes:
    """Return a message that only who has the key reads, and nobody changes: ChaCha20-Poly1305 (RFC 8439)."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, content, None)


def opened(key: bytes, box: bytes) -> bytes:
    """Return what is in a sealed message. Raises `ClientError` for one that was not sealed with the key."""
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, box, None)
    except InvalidTag as error:
        raise ClientError("a sealed share that was not sealed for it in this round") from error
