"""Folders of a federation and of a site: what is written is read, and what is wrong with them is one clear line."""

import pytest

from fedgraft.errors import InputError
from fedgraft.runtimes.federation.folders import FederationFolder, NodeFolder


def test_a_federation_is_read_as_it_was_written(tmp_path):
    folder = FederationFolder(tmp_path / "new", "fed.example.org", 8443, ("north", "south"), True)
    folder.write()
    assert FederationFolder.read(tmp_path / "new") == folder
    assert folder.address == "fed.example.org:8443"


def test_a_node_is_read_as_it_was_written(tmp_path):
    folder = NodeFolder(tmp_path, 3, "north", "::1", 8443, True, ("west", "north"))
    folder.write()
    assert NodeFolder.read(tmp_path) == folder
    assert folder.address == "[::1]:8443"


@pytest.mark.parametrize(
    ("host", "listens_at"),
    [
        ("localhost", "127.0.0.1"),
        ("127.0.0.5", "127.0.0.1"),
        ("::1", "::1"),
        ("10.1.2.3", "0.0.0.0"),
        ("fed.example.org", "0.0.0.0"),
        ("2001:db8::1", "::"),
    ],
)
def test_a_server_listens_to_others_where_sites_are_elsewhere(tmp_path, host, listens_at):
    assert FederationFolder(tmp_path, host, 1, ()).listens_at == listens_at


def test_what_is_missing_is_named_with_how_to_make_it(tmp_path):
    with pytest.raises(InputError, match=r"has no federation\.toml: make it with 'fedgraft federation init .*'\.$"):
        FederationFolder.read(tmp_path)
    with pytest.raises(InputError, match=r"has no node\.toml: it is one of the folders nodes/NAME that"):
        NodeFolder.read(tmp_path / "none")
    NodeFolder(tmp_path, 0, "north", "localhost", 8000).write()
    with pytest.raises(InputError, match=r"ca\.crt is missing; without it this node cannot join the federation\.$"):
        NodeFolder.read(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("host = 3", r"host must be of type str; got 3\."),
        ('host = "a"\nport = "b"', r"port must be of type int; got 'b'\."),
        ("host =", r"federation\.toml cannot be read: "),
        (b"\xff", r"federation\.toml cannot be read: "),
    ],
)
def test_damage_is_named(tmp_path, text, said):
    (tmp_path / "federation.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=said):
        FederationFolder.read(tmp_path)
