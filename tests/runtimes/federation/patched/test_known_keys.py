"""A node with an unknown key: what it hears, and what the server's log says, once."""

from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.proto.fleet_pb2 import ActivateNodeRequest
from flwr.supercore.error import FlowerError
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from fedgraft.runtimes.federation.certificates import fingerprint
from fedgraft.runtimes.federation.making import make
from fedgraft.runtimes.federation.membership import remove
from fedgraft.runtimes.federation.patched import known_keys
from fedgraft.runtimes.federation.superlink import SuperLink


def test_an_unknown_key_is_told_of_at_both_ends_and_once_in_the_log(capsys, monkeypatch):
    monkeypatch.setattr(known_keys, "MOST_KEYS", 2)
    keys = [generate_private_key(SECP384R1()).public_key() for _ in range(4)]
    known, *strange = map(public_key_to_bytes, keys)
    state = SimpleNamespace(get_node_id_by_public_key=lambda key: 7 if key == known else None)
    activate = known_keys.telling(lambda request, state: "let in")
    assert activate(ActivateNodeRequest(public_key=known), state) == "let in"
    for key in (*strange, *strange):
        with pytest.raises(FlowerError) as error:
            activate(ActivateNodeRequest(public_key=key), state)
        assert error.value.public_details == "unknown key"
    marks = [fingerprint(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)) for key in keys[1:3]]
    assert capsys.readouterr().err.splitlines() == [f"unknown key {mark}" for mark in marks], "no more than MOST_KEYS"


def test_the_server_says_whose_key_it_was(tmp_path):
    folder = make(tmp_path / "fed", ["north of all", "south"], "seed = 1\n")
    mark = fingerprint(folder.public_key("north of all").read_bytes())
    remove(folder, "north of all")
    server = SuperLink.__new__(SuperLink)
    server._folder, server._read = folder, 0
    folder.log.write_text(f"something else\nunknown key {mark}\nunknown key SHA256:abc\nunknown k")
    assert server.strangers() == [
        f"unknown key {mark}: it was north of all's, and was removed; refused.",
        "unknown key SHA256:abc: no site has it; refused.",
    ]
    with open(folder.log, "a") as log:
        log.write("ey SHA256:é\n")
    assert server.strangers() == ["unknown key SHA256:é: no site has it; refused."]
    assert server.strangers() == []
