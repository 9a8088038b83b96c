"""The file by which sites know each other's keys: every site's key, a line each, as the operator hands it out."""

import shutil

import pytest

pytest.importorskip("cryptography", reason="the extra 'flower' is not installed")

from fedgraft.errors import ClientError, InputError
from fedgraft.runtimes.federation.folders import NodeFolder
from fedgraft.runtimes.federation.making import make, make_keys
from fedgraft.runtimes.federation.membership import add, remove, rotate
from fedgraft.runtimes.federation.signers import registered_keys

RECIPE = "seed = 1\n"


@pytest.fixture
def folder(tmp_path):
    """A federation whose sites have made their keys."""
    made = make(tmp_path / "fed", ["north", "south sea"], RECIPE, keys=False)
    for name in made.clients:
        made = add(made, name, own_key(tmp_path / "sites" / name))
        shutil.copyfile(tmp_path / "sites" / name / "node.key", made.node(name) / "node.key")
    return made


def own_key(path):
    """The public half of a key that a site makes."""
    return make_keys(path)


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


def test_keys_that_come_go_and_change_are_in_the_folders_that_are_here(folder, tmp_path):
    before = known(folder, "north", 1)
    rotate(folder, "south sea", own_key(tmp_path / "sites" / "another"))
    assert known(folder, "north", 1) != before
    larger = add(folder, "east", own_key(tmp_path / "sites" / "east"))
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
            b"north ecdsa-sha2-nistp384 AAAA made-at-site",
            r"has another key of north than .*node\.key: it is old\. The operator has it",
        ),
    ],
)
def test_a_file_that_is_broken_or_old_is_said_as_the_node_starts(folder, content, said):
    (folder.node("north") / "allowed_signers").write_bytes(content)
    with pytest.raises(InputError, match=said):
        registered_keys(NodeFolder.read(folder.node("north")), "run")


def test_keys_that_the_server_has_made_are_refused_in_one_line_with_the_remedy(folder, tmp_path):
    """The server has their private halves: it signs what it likes, and reads every update."""
    mixed = add(folder, "east")
    with pytest.raises(InputError) as refusal:
        registered_keys(NodeFolder.read(mixed.node("north")), "run")
    said = str(refusal.value)
    assert "needs keys that sites have made themselves" in said
    assert "does not say so of east: the server could sign for them." in said
    assert "keygen DIR --replace" in said
    assert "rotate FED NAME --key node.pub" in said
    assert "init --no-keys" in said
    assert "\n" not in said
    rotate(mixed, "east", own_key(tmp_path / "sites" / "east"))
    keys = registered_keys(NodeFolder.read(mixed.node("north")), "run")
    rotate(mixed, "east")  # while a run goes on
    with pytest.raises(ClientError, match="the key of client 2 in allowed_signers was not made at its site"):
        keys.public(2)


def test_a_key_of_the_server_does_not_pass_for_a_site_s(tmp_path):
    made = make(tmp_path / "fed", ["north"], RECIPE)
    theirs = tmp_path / "node.pub"
    shutil.copyfile(made.node("north") / "node.pub", theirs)
    with pytest.raises(InputError, match="is the key of north already"):
        rotate(made, "north", theirs)
    remove(made, "north")
    with pytest.raises(InputError, match="was removed before, and stays refused"):
        add(made, "north", theirs)
    with pytest.raises(InputError, match="north"):
        registered_keys(NodeFolder.read(made.node("north")), "run")


def test_keys_of_which_nobody_says_who_made_them_are_refused_in_one_line(folder):
    path = folder.node("north") / "allowed_signers"
    path.write_text(path.read_text().replace(" made-at-site", ""))
    with pytest.raises(InputError, match=r"does not say so of north, south-sea: .*rotate FED NAME --key node\.pub"):
        registered_keys(NodeFolder.read(folder.node("north")), "run")


def test_a_key_that_was_not_noted_counts_as_the_server_s(folder):
    folder.site_keys.unlink()
    rotated = add(folder, "east", own_key(folder.path / "east"))
    marks = [line.split()[-1] for line in rotated.signers.read_text().splitlines()]
    assert marks == ["made-at-server", "made-at-server", "made-at-site"]


SIGNED = "seed = 1\n[secure_sum]\nname = 'secagg'\nsigned = true\n"


def test_a_federation_with_signed_keys_is_not_made_with_keys_of_the_server(tmp_path):
    with pytest.raises(InputError, match=r"has secure_sum\.signed = true, and this command makes keys at the server"):
        make(tmp_path / "fed", ["north"], SIGNED)
    assert not (tmp_path / "fed").exists()
    made = make(tmp_path / "fed", ["north"], SIGNED, keys=False)
    with pytest.raises(InputError, match=r"'fedgraft federation add' without --key makes keys at the server"):
        add(made, "north")
    made = add(made, "north", own_key(tmp_path / "north"))
    with pytest.raises(InputError, match=r"'fedgraft federation rotate' without --key makes keys at the server"):
        rotate(made, "north")
