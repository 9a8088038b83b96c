"""A site's own key and the secret of all: who may read them, what is never lost by mistake, what is no key."""

import stat

import pytest

pytest.importorskip("cryptography", reason="the extra 'flower' is not installed")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

from fedgraft.errors import InputError
from fedgraft.runtimes.federation.certificates import public_key_in
from fedgraft.runtimes.federation.folders import read_secret
from fedgraft.runtimes.federation.making import make_keys


def test_a_site_makes_its_key_and_gives_its_public_half_away(tmp_path):
    public = make_keys(tmp_path / "north")
    assert public == tmp_path / "north" / "node.pub"
    assert {path.name for path in (tmp_path / "north").iterdir()} == {"node.key", "node.pub"}
    private = tmp_path / "north" / "node.key"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    key = load_ssh_private_key(private.read_bytes(), None)
    given = public_key_in(public, "north of all")
    assert load_ssh_public_key(given) == key.public_key()
    assert given.endswith(b" north of all\n")


def test_a_key_is_replaced_only_where_that_is_said(tmp_path):
    make_keys(tmp_path)
    before = (tmp_path / "node.key").read_bytes()
    with pytest.raises(InputError, match=r"node\.key is there already; --replace makes another one in its place\."):
        make_keys(tmp_path)
    make_keys(tmp_path, new_secret=True)
    assert (tmp_path / "node.key").read_bytes() == before, "a secret comes to a key that is there"
    make_keys(tmp_path, replace=True)
    assert (tmp_path / "node.key").read_bytes() != before


def test_one_site_makes_the_secret_and_the_others_take_it(tmp_path):
    make_keys(tmp_path / "north", new_secret=True)
    made = tmp_path / "north" / "matching.secret"
    make_keys(tmp_path / "south", made)
    taken = tmp_path / "south" / "matching.secret"
    assert read_secret(taken) == read_secret(made) != b""
    assert stat.S_IMODE(taken.stat().st_mode) == stat.S_IMODE(made.stat().st_mode) == 0o600
    with pytest.raises(InputError, match=r"matching\.secret is there already; delete it to make another one"):
        make_keys(tmp_path / "north", new_secret=True)
    with pytest.raises(InputError, match=r"--secret and --new-secret cannot be given together"):
        make_keys(tmp_path / "east", made, new_secret=True)
    made.write_text("abc")
    for wrong in (made, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=r"must hold 64 hexadecimal digits, as another site's does\."):
            make_keys(tmp_path / "east", wrong)
    assert not (tmp_path / "east").exists(), "what is wrong is said before anything is written"


def test_what_is_no_public_key_of_a_node_is_one_line(tmp_path):
    public = make_keys(tmp_path)
    other = tmp_path / "other.pub"
    other.write_bytes(Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    (tmp_path / "none.pub").write_text("nonsense")
    for path, said in (
        (
            public.with_name("node.key"),
            r"node\.key is a private key, which stays at its site; the server takes node\.pub",
        ),
        (other, r"other\.pub must be a key on a curve P-256, P-384 or P-521"),
        (tmp_path / "none.pub", r"none\.pub is no public key of OpenSSH: .*\.$"),
        (tmp_path / "nowhere.pub", r"nowhere\.pub cannot be read: No such file or directory\.$"),
    ):
        with pytest.raises(InputError, match=said):
            public_key_in(path, "north")
