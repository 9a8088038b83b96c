"""Signatures by registered keys: of one client, run, round, sum and content alone."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from fedgraft.errors import ClientError
from fedgraft.secrets.signing import Signatures
from fedgraft.secrets.sizes import SIGNATURE_BYTES


def pair(curve):
    """(private, public) of a new key, as OpenSSH writes them."""
    key = ec.generate_private_key(curve)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return private, key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()], ids=lambda curve: curve.name)
def test_a_node_knows_what_another_has_signed(curve):
    (mine, _), (other, public) = pair(curve), pair(curve)
    signature = Signatures.registered("run", other, lambda client: b"").signed(3, 1, 0, b"keys")
    assert len(signature) == SIGNATURE_BYTES
    known = Signatures.registered("run", mine, lambda client: public + b" a comment")
    known.check(3, 1, 0, b"keys", signature)
    for said in ((4, 1, 0, b"keys"), (3, 2, 0, b"keys"), (3, 1, 1, b"keys"), (3, 1, 0, b"other")):
        with pytest.raises(ClientError, match="are not signed by its registered key"):
            known.check(*said, signature)
    with pytest.raises(ClientError, match="are not signed"):
        Signatures.registered("another run", mine, lambda client: public).check(3, 1, 0, b"keys", signature)
    for none in (bytes(SIGNATURE_BYTES), b"\xff" * SIGNATURE_BYTES):
        with pytest.raises(ClientError, match="are not signed"):
            known.check(3, 1, 0, b"keys", none)


def test_the_same_content_has_the_same_signature():
    """A request that comes again has the same answer, byte for byte: the node's journal asks for it."""
    private, _ = pair(ec.SECP384R1())
    made = {Signatures.registered("run", private, lambda client: b"").signed(0, 1, 0, b"keys") for _ in range(3)}
    assert len(made) == 1


def test_clients_of_a_simulation_have_keys_of_their_own():
    known = Signatures.simulated(bytes(32))
    signature = known.signed(0, 1, 0, b"keys")
    Signatures.simulated(bytes(32)).check(0, 1, 0, b"keys", signature)
    with pytest.raises(ClientError, match="keys of client 1 are not signed"):
        known.check(1, 1, 0, b"keys", signature)


def test_keys_that_are_none_are_named():
    private, _ = pair(ec.SECP384R1())
    with pytest.raises(ClientError, match="the node's key is no private key of OpenSSH"):
        Signatures.registered("run", b"no key", lambda client: b"")
    with pytest.raises(ClientError, match="the registered key of client 2 is no public key of OpenSSH"):
        Signatures.registered("run", private, lambda client: b"no key").check(2, 1, 0, b"", bytes(SIGNATURE_BYTES))
