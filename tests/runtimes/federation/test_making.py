"""Making a federation: whose certificates and keys are where, who may read them, and what is refused."""

import ssl
import stat
import subprocess
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from fedgraft.errors import InputError
from fedgraft.runtimes.federation import certificates
from fedgraft.runtimes.federation.certificates import authority
from fedgraft.runtimes.federation.folders import FederationFolder, NodeFolder
from fedgraft.runtimes.federation.making import check_names, make, names_of, renew_certificate

RECIPE = "seed = 1\n"


def files(path):
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def test_every_file_is_where_it_belongs(tmp_path):
    folder = make(tmp_path / "new", ["north", "south"], RECIPE, "fed.example.org", 8443)
    assert FederationFolder.read(tmp_path / "new") == folder
    of_node = {
        "node.toml", "recipe.toml", "ca.crt", "node.crt", "node.key", "node.pub", "start.sh", "fedgraft-node.service",
        "matching.secret", "allowed_signers",
    }  # fmt: skip
    assert files(folder.node("south")) == of_node
    assert NodeFolder.read(folder.node("south")).client == 1
    for private in (
        folder.server / "ca.key",
        folder.key,
        *map(folder.node("south").joinpath, ("node.key", "matching.secret")),
    ):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert folder.recipe.read_text() == (folder.node("south") / "recipe.toml").read_text() == RECIPE


def test_sites_have_one_secret_and_know_each_other_by_name_and_the_server_has_no_part_in_it(tmp_path):
    folder, other = make(tmp_path / "new", ["north", "south"], RECIPE), make(tmp_path / "other", ["north"], RECIPE)
    north, south = (NodeFolder.read(folder.node(name)) for name in folder.clients)
    assert north.clients == south.clients == ("north", "south")
    assert north.secret() == south.secret() != NodeFolder.read(other.node("north")).secret()
    for path in (*folder.server.rglob("*"), *folder.path.glob("*")):
        assert not path.is_file() or north.secret().hex().encode() not in path.read_bytes()
    north.common.write_text("abc")
    with pytest.raises(InputError, match=r"matching\.secret must hold 64 hexadecimal digits"):
        north.secret()
    north.common.unlink()
    assert north.secret() == b""


def test_a_nodes_folder_names_no_path_of_the_server(tmp_path):
    folder = make(tmp_path / "new", ["north"], RECIPE)
    for file in folder.node("north").iterdir():
        assert str(tmp_path) not in file.read_text(), file.name


def test_each_node_has_a_key_of_its_own_and_the_server_its_public_half(tmp_path):
    folder = make(tmp_path / "new", ["north", "south"], RECIPE)
    publics = set()
    for name in folder.clients:
        private = load_ssh_private_key((folder.node(name) / "node.key").read_bytes(), None)
        public = load_ssh_public_key(folder.public_key(name).read_bytes())
        assert isinstance(private.curve, SECP384R1)
        assert private.public_key() == public
        publics.add(folder.public_key(name).read_text().split()[1])
    assert len(publics) == 2


@pytest.mark.parametrize("host", ["fed.example.org", "10.1.2.3", "2001:db8::1", "localhost"])
def test_the_servers_certificate_is_the_authoritys_and_for_its_host(host):
    pair, signer = authority()
    server = x509.load_pem_x509_certificate(signer.server(host).public)
    own = x509.load_pem_x509_certificate(pair.public)
    server.verify_directly_issued_by(own)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    known = names.get_values_for_type(x509.DNSName) + list(map(str, names.get_values_for_type(x509.IPAddress)))
    assert {host, "localhost", "127.0.0.1", "::1"} == set(known)
    assert own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert own.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    days = [(each.not_valid_after_utc - datetime.now(UTC)).days for each in (server, own)]
    assert 2 * 365 <= days[0] <= 2 * 366
    assert 10 * 365 <= days[1] <= 10 * 366


def test_openssl_believes_the_server(tmp_path):
    """A handshake in memory, strict about both certificates."""
    folder = make(tmp_path / "new", ["north"], RECIPE)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(folder.certificate, folder.key)
    assert handshake(ours, folder.authority) == "done"
    foreign = tmp_path / "foreign.crt"
    foreign.write_bytes(authority()[0].public)
    assert handshake(ours, foreign) == "refused"


def test_a_certificate_that_ends_soon_is_renewed_and_nodes_need_nothing(tmp_path, monkeypatch):
    folder = make(tmp_path / "new", ["north"], RECIPE)
    before = folder.certificate.read_bytes()
    assert renew_certificate(folder) == ""
    assert folder.certificate.read_bytes() == before

    monkeypatch.setattr(certificates, "RENEWED_DAYS", certificates.SERVER_DAYS + 1)
    kept = folder.authority_key.rename(tmp_path / "elsewhere.key")
    assert str(folder.authority_key) in renew_certificate(folder)
    assert folder.certificate.read_bytes() == before

    kept.rename(folder.authority_key)
    assert renew_certificate(folder) == "The server's certificate ended soon; it has a new one."
    assert folder.certificate.read_bytes() != before
    assert stat.S_IMODE(folder.key.stat().st_mode) == 0o600
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(folder.certificate, folder.key)
    assert handshake(ours, folder.node("north") / "ca.crt") == "done"


def test_what_is_no_certificate_is_left_to_who_reads_it(tmp_path):
    folder = make(tmp_path / "new", ["north"], RECIPE)
    folder.certificate.write_text("nonsense")
    assert renew_certificate(folder) == ""
    assert folder.certificate.read_text() == "nonsense"


def handshake(server_context, known):
    theirs = ssl.create_default_context(cafile=str(known))
    theirs.verify_flags |= ssl.VERIFY_X509_STRICT
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(up, down, server_side=True)
    client = theirs.wrap_bio(down, up, server_hostname="localhost")
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return "refused"
    return "done" if client.version() else "open"


def test_a_second_federation_is_refused_and_shards_are_left_alone(tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "north.data").write_bytes(b"own")
    make(tmp_path, ["north"], None)
    key = (tmp_path / "nodes" / "north" / "node.key").read_bytes()
    with pytest.raises(InputError, match=r"has a federation already; delete .*federation\.toml to make another"):
        make(tmp_path, ["north"], RECIPE)
    assert (tmp_path / "nodes" / "north" / "node.key").read_bytes() == key
    assert (tmp_path / "clients" / "north.data").read_bytes() == b"own"


@pytest.mark.parametrize(
    ("clients", "recipe", "host", "said"),
    [
        ([], RECIPE, "localhost", r"the number of clients must be >= 1; got 0\."),
        (["../"], RECIPE, "localhost", r"a client's name must be a text with a letter or a digit; got '\.\./'\."),
        (
            ["a b", "a/B"],
            RECIPE,
            "localhost",
            r"must differ as names of folders, also in lower case; got 'a b' twice\.",
        ),
        (["a"], RECIPE, "localhost:8000", r"--host must be a name or an address without a port; got 'localhost:8000'"),
        (["a"], RECIPE, "", r"--host must be a name or an address"),
        (["a"], None, "localhost", r"has no recipe\.toml: make it with 'fedgraft shard RECIPE -o .*'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(tmp_path, clients, recipe, host, said):
    with pytest.raises(InputError, match=said):
        make(tmp_path / "new", clients, recipe, host)
    assert not (tmp_path / "new").exists()


def test_names_are_given_or_those_of_the_shards(tmp_path):
    assert list(names_of(tmp_path, 2, None)) == ["site0", "site1"]
    assert list(names_of(tmp_path, None, "b, a")) == ["b", "a"]
    with pytest.raises(InputError, match="--clients and --names cannot be given together"):
        names_of(tmp_path, 2, "a,b")
    with pytest.raises(InputError, match=r"has no clients\.toml: make it with 'fedgraft shard"):
        names_of(tmp_path, None, None)
    (tmp_path / "clients.toml").write_text('names = ["south", "north"]')
    assert list(names_of(tmp_path, None, None)) == ["south", "north"]
    (tmp_path / "clients.toml").write_text("names = 3")
    with pytest.raises(InputError, match=r"names must be a list of texts; got 3\."):
        names_of(tmp_path, None, None)
    check_names(["a.b_c-1"])


def test_scripts_are_those_of_a_shell(tmp_path):
    folder = make(tmp_path / "with space", ["north"], RECIPE, insecure=True)
    for script in (folder.server / "start.sh", folder.node("north") / "start.sh"):
        subprocess.run(["sh", "-n", str(script)], check=True)
    echo = tmp_path / "echo.sh"
    echo.write_text('#!/bin/sh\necho "$PWD: $@"\n')
    echo.chmod(0o755)
    for given, expected in (([], "node . --data client.data"), (["a b.data"], "node . --data a b.data")):
        done = subprocess.run(
            [str(folder.node("north") / "start.sh"), *given],
            env={"FEDGRAFT": str(echo), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == f"{folder.node('north')}: {expected}\n"
