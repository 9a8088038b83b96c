"""Sites that are added, removed and given new keys: what is in whose folder, and whose number is what."""

import tomllib

import pytest

pytest.importorskip("cryptography", reason="the extra 'flower' is not installed")

from fedgraft.errors import InputError
from fedgraft.runtimes.federation.folders import FederationFolder, NodeFolder
from fedgraft.runtimes.federation.making import make, make_keys
from fedgraft.runtimes.federation.membership import add, remove, rotate

RECIPE = "seed = 1\n"


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "fed", ["north", "south"], RECIPE)


def private_files(path):
    return [file for file in path.rglob("*") if file.is_file() and b"OPENSSH PRIVATE KEY" in file.read_bytes()]


def test_a_site_with_its_own_key_gets_a_folder_without_a_secret(tmp_path):
    folder = make(tmp_path / "fed", [], RECIPE, keys=False)
    assert folder.clients == ()
    for number, name in enumerate(["north", "south"]):
        public = make_keys(tmp_path / name, new_secret=not number)
        folder = add(folder, name, public)
        assert FederationFolder.read(folder.path) == folder
        own = folder.node(name)
        made = {
            "node.toml",
            "recipe.toml",
            "ca.crt",
            "node.crt",
            "node.pub",
            "start.sh",
            "fedgraft-node.service",
            "allowed_signers",
        }
        assert {path.name for path in own.iterdir()} == made
        assert folder.public_key(name).read_bytes() == (own / "node.pub").read_bytes()
    assert private_files(folder.path) == [], "the server has seen no private key"
    assert not list(folder.path.rglob("matching.secret"))

    with pytest.raises(InputError, match=r"node\.key is missing; .* 'fedgraft federation keygen' made at this site\.$"):
        NodeFolder.read(folder.node("north"))
    for file in folder.node("north").iterdir():
        file.replace(tmp_path / "north" / file.name)
    site = NodeFolder.read(tmp_path / "north")
    assert (site.client, site.clients) == (0, ("north", "south")), "a folder that is still here has all names"
    assert len(site.secret()) == 32


def test_a_federation_without_keys_has_names_and_no_folders(tmp_path):
    folder = make(tmp_path / "fed", ["north", "south"], RECIPE, keys=False)
    assert folder.keyless() == {0, 1}
    assert not (folder.path / "nodes").exists()
    folder = add(folder, "south", make_keys(tmp_path / "south"))
    assert folder.clients == ("north", "south")
    assert folder.keyless() == {0}
    assert tomllib.loads((folder.node("south") / "node.toml").read_text())["client"] == 1


def test_a_new_site_is_the_last_client_and_shares_the_secret_where_it_is_here(folder):
    toml = folder.node("north") / "node.toml"
    toml.write_text(toml.read_text().replace("epochs = 1000", "epochs = 7"))
    larger = add(folder, "east")
    assert larger.clients == ("north", "south", "east")
    north, east = NodeFolder.read(larger.node("north")), NodeFolder.read(larger.node("east"))
    assert (east.client, east.clients) == (2, larger.clients)
    assert north.clients == larger.clients
    assert north.limits.epochs == 7, "what a site has set stays"
    assert east.secret() == north.secret() != b""


def test_a_removed_site_keeps_its_number_and_its_key_is_never_taken_again(folder, tmp_path):
    old = folder.public_key("north").read_bytes()
    remove(folder, "north")
    again = FederationFolder.read(folder.path)
    assert again.clients == ("north", "south")
    assert again.keyless() == {0}
    for command in (remove, rotate):
        with pytest.raises(InputError, match=r"^north has no key: it was removed, or never had one; 'fedgraft federat"):
            command(folder, "north")
    (tmp_path / "old.pub").write_bytes(old)
    with pytest.raises(InputError, match=r"old\.pub was removed before, and stays refused"):
        add(folder, "north", tmp_path / "old.pub")
    assert add(folder, "north").clients == again.clients, "it comes back as the client that it was"
    assert again.keyless() == frozenset()


def test_a_new_key_takes_the_place_of_the_old_one(folder, tmp_path):
    old = folder.public_key("south").read_bytes()
    rotate(folder, "south")
    assert folder.public_key("south").read_bytes() == (folder.node("south") / "node.pub").read_bytes() != old
    made, private = make_keys(tmp_path / "site"), (folder.node("south") / "node.key").read_bytes()
    rotate(folder, "south", made)
    assert folder.public_key("south").read_bytes().split()[1] == made.read_bytes().split()[1]
    assert (folder.node("south") / "node.key").read_bytes() == private, "a key that is here may be the site's own"
    assert folder.refused.read_bytes().startswith(old)
    assert len(folder.refused.read_bytes().splitlines()) == 2


def test_what_is_wrong_is_said_before_anything_is_written(folder, tmp_path):
    made = make_keys(tmp_path / "site")
    add(folder, "east", made)
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    folder = FederationFolder.read(folder.path)
    for command, name, key, said in (
        (add, "north", None, r"^north is a site already; 'fedgraft federation rotate' gives it a new key\.$"),
        (add, "North", None, r"Names of clients must differ as names of folders"),
        (add, "west", made, r"node\.pub is the key of east already; each site has its own\.$"),
        (rotate, "north", made, r"node\.pub is the key of east already; each site has its own\.$"),
        (rotate, "nort", None, r"^No site named 'nort'\. Did you mean 'north'\?"),
    ):
        with pytest.raises(InputError, match=said):
            command(folder, name, key)
    with pytest.raises(InputError, match=r"^No site named 'nort'\. Did you mean 'north'\?"):
        remove(folder, "nort")
    assert before == {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}


def test_without_keys_there_is_nothing_to_refuse(tmp_path):
    folder = make(tmp_path / "fed", ["north"], RECIPE, insecure=True)
    assert folder.keyless() == frozenset()
    assert add(folder, "south").clients == ("north", "south")
    with pytest.raises(InputError, match=r"^--key is not for a federation that was made with --insecure"):
        add(folder, "west", make_keys(tmp_path / "site"))
    for command in (remove, rotate):
        with pytest.raises(InputError, match=r"is not for a federation that was made with --insecure"):
            command(folder, "north")
