"""Keys: vectors of the standards, the same at both ends, other ones for all that is different."""

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fedgraft.errors import ClientError
from fedgraft.secrets.agreement import agreed, derived, encrypted, opened, public_of

ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")


def test_x25519_is_that_of_rfc_7748():
    """Its section 6.1."""
    assert public_of(ALICE).hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert public_of(BOB).hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    shared = X25519PrivateKey.from_private_bytes(ALICE).exchange(X25519PublicKey.from_public_bytes(public_of(BOB)))
    assert shared.hex() == "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"


def test_two_clients_agree_and_nobody_else():
    one = agreed(ALICE, public_of(BOB), "mask", 3, 1, 2)
    assert one == agreed(BOB, public_of(ALICE), "mask", 3, 1, 2)
    others = [
        agreed(ALICE, public_of(BOB), "mask", 4, 1, 2),
        agreed(ALICE, public_of(BOB), "share", 3, 1, 2),
        agreed(ALICE, public_of(BOB), "mask", 3, 2, 1),
        agreed(ALICE, public_of(ALICE), "mask", 3, 1, 2),
    ]
    assert len({one, *others}) == 5


def test_what_is_derived_depends_on_every_word_of_its_purpose():
    made = {derived(b"secret", *purpose) for purpose in (("a",), ("a", 1), ("a", 2), ("b", 1), ("a", 1, 2))}
    assert len(made) == 5
    assert derived(b"other", "a") not in made


def test_a_box_opens_for_its_key_and_as_it_was_encrypted():
    key, other = derived(b"one", "key"), derived(b"two", "key")
    box = encrypted(key, b"share")
    assert opened(key, box) == b"share"
    for wrong in ((other, box), (key, box[:-1] + bytes([box[-1] ^ 1]))):
        with pytest.raises(ClientError, match="was not sealed for it in this round"):
            opened(*wrong)


def test_a_key_of_small_order_is_refused():
    with pytest.raises(ClientError, match="nobody can agree"):
        agreed(ALICE, bytes(32), "mask", 3, 1, 2)
