"""Sealing rows by hand: what comes back, what a server can do with them, and that it cannot do more."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.errors import InputError, WireError
from fedgraft.wire.encrypted_rows import TAG_BYTES, RowSeal

SECRET = bytes(range(32))
SEAL = RowSeal(SECRET, "run")
ROWS = np.arange(24, dtype=np.uint8).reshape(3, 8)
PLACES = np.array([[0, 5], [0, 7], [1, 5]])


def test_rows_of_one_secret_and_run_are_these():
    """What was encrypted once must open for ever: a change here needs a new version of the envelope."""
    encrypted = SEAL.encrypted("features", PLACES, ROWS)
    assert encrypted[0].tobytes().hex() == "eee38b49b601ece9b6a86c0d5533b1c31b435a5eb634082b"
    assert SEAL.mark.hex() == "ddecefc9b3583feff30dbae777e247b1"
    assert SEAL.opened("features", PLACES, encrypted).tolist() == ROWS.tolist()


def test_a_row_is_aes_siv_of_the_standard():
    """The example of RFC 5297, appendix A.1."""
    key = bytes.fromhex("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    about = bytes.fromhex("101112131415161718191a1b1c1d1e1f2021222324252627")
    made = AESSIV(key).encrypt(bytes.fromhex("112233445566778899aabbccddee"), [about])
    assert made.hex() == "85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 5), st.integers(0, 40), st.booleans())
def test_any_rows_come_back(count: int, width: int, is_open: bool):
    seal, g = RowSeal() if is_open else SEAL, np.random.default_rng(count)
    rows, places = g.integers(0, 256, (count, width)).astype(np.uint8), g.integers(0, 99, (count, 3))
    encrypted = seal.encrypted("rows", places, rows)
    assert (encrypted.shape, encrypted.dtype) == ((count, TAG_BYTES + width), np.uint8)
    assert seal.opened("rows", places, encrypted).tolist() == rows.tolist()


def test_equal_rows_of_other_places_kinds_and_runs_have_nothing_in_common():
    rows, places = np.zeros((50, 64), np.uint8), np.stack([np.zeros(50, np.int64), np.arange(50)], axis=1)
    made = [RowSeal(SECRET, run).encrypted(what, places, rows) for run in ("a", "b") for what in ("halo.0", "halo.1")]
    blocks = np.concatenate(made).reshape(-1, 16)
    assert len(np.unique(blocks, axis=0)) == len(blocks)


def test_a_round_that_is_made_again_seals_the_same_and_other_rows_otherwise():
    again, other = SEAL.encrypted("halo.0", PLACES, ROWS), SEAL.encrypted("halo.0", PLACES, ROWS ^ np.uint8(1))
    assert again.tolist() == SEAL.encrypted("halo.0", PLACES, ROWS).tolist()
    # Under one keystream, plaintexts that differ in a bit would give texts that differ in that bit alone.
    assert (np.bitwise_count(again ^ other).sum(1) > 40).all()


@pytest.mark.parametrize(
    ("seal", "what", "places", "change"),
    [
        (SEAL, "features", PLACES, lambda encrypted: encrypted ^ np.eye(3, 24, 20, dtype=np.uint8)),
        (SEAL, "features", PLACES, lambda encrypted: encrypted[::-1]),
        (SEAL, "features", PLACES[:, ::-1], lambda encrypted: encrypted),
        (SEAL, "history", PLACES, lambda encrypted: encrypted),
        (RowSeal(SECRET, "other"), "features", PLACES, lambda encrypted: encrypted),
        (RowSeal(bytes(32), "run"), "features", PLACES, lambda encrypted: encrypted),
        (SEAL, "features", PLACES, lambda encrypted: RowSeal().encrypted("features", PLACES, ROWS)),
    ],
)
def test_what_was_changed_moved_or_encrypted_by_others_does_not_open(seal, what, places, change):
    encrypted = change(SEAL.encrypted("features", PLACES, ROWS))
    with pytest.raises(
        WireError, match=rf"a row of {what} cannot be opened: it was encrypted under another secret, or"
    ):
        seal.opened(what, places, encrypted)


def test_what_is_no_encrypted_row_is_one_line():
    with pytest.raises(WireError, match="rows of features are encrypted, and this client has no secret"):
        RowSeal().opened("features", PLACES, SEAL.encrypted("features", PLACES, ROWS))
    with pytest.raises(WireError, match="encrypted rows of features of 8 bytes, where a tag has 16"):
        SEAL.opened("features", PLACES, ROWS)
    with pytest.raises(InputError, match="length of a secret must be 32 bytes, or 0 for none; got 31"):
        RowSeal(bytes(31), "run")


def test_marks_are_of_secret_and_run():
    marks = {RowSeal(secret, run).mark for secret in (SECRET, bytes(32)) for run in ("a", "b")}
    assert len(marks) == 4
    assert RowSeal().mark == b""
    assert SECRET.hex() not in repr(SEAL)
    assert repr(SECRET) not in repr(SEAL)
