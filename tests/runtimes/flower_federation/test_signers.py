"""The file by which sites know each other's keys: every site's key, a line each, as the operator hands it out."""

import pytest

pytest.importorskip("cryptography", reason="the extra 'flower' is not installed")

from fedgraft.errors import ClientError, InputError
from fedgraft.runtimes.flower_federation.folders import NodeFolder
from fedgraft.runtimes.flower_federation.making import make
from fedgraft.runtimes.flower_federation.membership import add, remove, rotate
from fedgraft.runtimes.flower_federation.signers import registered_keys

RECIPE = "seed = 1\n"


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "fed", ["north", "south sea"], RECIPE)


def known(folder, site, client):
    """A client's key as a site's node knows it, without its comment."""
    return registered_keys(NodeFolder.read(folder.node(site)), "run").public(client).split()[:2]


def test_sites_know_each_other_by_the_keys_that_the_server_knows(folder):
    lines = folder.signers.read_text().splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["north", "ecdsa-sha2-nistp384"],
        ["south-sea", "ecdsa-sha2-nistp384"],
    ]
    for client, name in enumerate(folder.clients):
        assert known(folder, "north", client) == folder.public_key(name).read_bytes().split()[:2]
    own = registered_keys(NodeFolder.read(folder.node("north")), "run")
    assert own.private == (folder.node("north") / "node.key").read_bytes()


def test_keys_that_come_go_and_change_are_in_the_folders_that_are_here(folder):
    before = known(folder, "north", 1)
    rotate(folder, "south sea")
    assert known(folder, "north", 1) != before
    larger = add(folder, "east")
    assert known(larger, "north", 2) == larger.public_key("east").read_bytes().split()[:2]
    remove(larger, "south sea")
    with pytest.raises(ClientError, match=r"allowed_signers has no key of client 1, south-sea\. The operator has it"):
        known(larger, "north", 1)


def test_who_is_no_client_has_no_key(folder):
    with pytest.raises(ClientError, match=r"client 2 is none of the 2 in node\.toml"):
        known(folder, "north", 2)


def test_a_site_without_the_file_or_a_key_is_told(folder, tmp_path):
    (folder.node("north") / "allowed_signers").unlink()
    with pytest.raises(InputError, match=r"signed = true needs .*allowed_signers, the keys of all sites\."):
        registered_keys(NodeFolder.read(folder.node("north")), "run")
    bare = make(tmp_path / "bare", ["north"], RECIPE, insecure=True)
    with pytest.raises(InputError, match="needs keys of nodes; this federation was made with --insecure"):
        registered_keys(NodeFolder.read(bare.node("north")), "run")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "does not have the key of north: allowed_signers has no key of client 0"),
        (b"\xff\xfe", "does not have the key of north"),
        (
            b"north ecdsa-sha2-nistp384 AAAA",
            r"has another key of north than .*node\.key: it is old\. The operator has it",
        ),
    ],
)
def test_a_file_that_is_broken_or_old_is_said_as_the_node_starts(folder, content, said):
    (folder.node("north") / "allowed_signers").write_bytes(content)
    with pytest.raises(InputError, match=said):
        registered_keys(NodeFolder.read(folder.node("north")), "run")
