"""Makes the folders of a federation: keys, certificates, scripts, systemd units."""

import re
import secrets
import shlex
import shutil
import sys
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fedgraft.errors import InputError, require
from fedgraft.runtimes.federation.certificates import Authority, Pair, authority, ends_soon, node_key
from fedgraft.runtimes.federation.folders import (
    FEDERATION,
    KEY_CERTIFICATE,
    NODE_KEY,
    PUBLIC_KEY,
    RECIPE,
    SECRET,
    FederationFolder,
    NodeFolder,
    file_name,
    read_secret,
    write_private,
)
from fedgraft.runtimes.federation.signers import check_origin, write_signers
from fedgraft.wire.tokens import SECRET_BYTES

CLIENTS: Final = "clients.toml"
"""What 'fedgraft shard' leaves beside the recipe: `names`, in the order of clients."""
HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
"""A name of DNS or an address of IPv4, or one of IPv6."""
UNIT: Final = """[Unit]
Description={description}
Wants=network-online.target
After=network-online.target

[Service]
# {hint}
WorkingDirectory={folder}
ExecStart=/bin/sh {script}
# User=fedgraft
Restart=always
RestartSec=20
SuccessExitStatus=143
TimeoutStopSec=60

[Install]
WantedBy=multi-user.target
"""


def make(
    path: Path,
    clients: Sequence[str],
    recipe: str | None,
    host: str = "localhost",
    port: int = 8000,
    insecure: bool = False,
    keys: bool = True,
) -> FederationFolder:
    """Make a federation in a folder that has none.

    Args:
        path: of the folder; it may have what 'fedgraft shard' left there.
        clients: names, in the order of their numbers.
        recipe: TOML with the federation's data and task; None where the folder has it.
        host: name or address by which sites reach the server.
        port: of the server, 1 to 65535.
        insecure: whether there is neither TLS nor authentication of nodes, for trials.
        keys: whether each site's folder is made here, with its key and the secret of all; else sites have keys of their
            own, and `membership.add` makes their folders. There may be no clients then.

    Raises `InputError` for what is wrong, before anything is written.
    """
    if (path / FEDERATION).exists():
        raise InputError(f"{path} has a federation already; delete {path / FEDERATION} to make another one there.")
    if keys or clients:
        check_names(clients)
    require(HOST.fullmatch(host) is not None, "--host", "a name or an address without a port", host)
    require(1 <= port <= 65535, "--port", "1 to 65535", port)
    folder = FederationFolder(path.resolve(), host, port, tuple(clients), insecure)
    if recipe is None and not folder.recipe.is_file():
        raise InputError(
            f"{path} has no {RECIPE}: make it with 'fedgraft shard RECIPE -o {path}', or name one with --recipe."
        )
    if keys:
        check_origin(folder.recipe.read_text(encoding="utf-8") if recipe is None else recipe, "this command")
    folder.server.mkdir(parents=True, exist_ok=True)
    folder.server.chmod(0o700)
    if recipe is not None:
        folder.recipe.write_text(recipe, encoding="utf-8")
    if not insecure:
        own, signer = authority()
        write_private(folder.authority_key, own.private)
        folder.authority.write_bytes(own.public)
        _write_pair(folder, signer.server(host))
    secret = secrets.token_bytes(SECRET_BYTES)
    for name in folder.clients if keys else ():
        make_node(folder, name, None if insecure else node_key(name), secret)
    write_signers(folder)
    _make_server(folder)
    folder.write()
    return folder


def renew_certificate(folder: FederationFolder) -> str:
    """Give the server a new certificate where its own ends soon: nodes know the authority. Return what to say of it.

    Files that are no certificates are left to who reads them next.
    """
    with suppress(ValueError, OSError):
        if folder.insecure or not ends_soon(folder.certificate.read_bytes()):
            return ""
        try:
            signer = _authority_of(folder)
        except (ValueError, TypeError, OSError) as error:  # a key with a password is a TypeError
            return f"The server's certificate ends soon; a new one needs the key {folder.authority_key}: {error}"
        _write_pair(folder, signer.server(folder.host))
        return "The server's certificate ended soon; it has a new one."
    return ""


def _authority_of(folder: FederationFolder) -> Authority:
    return Authority.of(Pair(folder.authority_key.read_bytes(), folder.authority.read_bytes()))


def _write_pair(folder: FederationFolder, pair: Pair) -> None:
    write_private(folder.key, pair.private)
    folder.certificate.write_bytes(pair.public)


def names_of(path: Path, count: int | None, names: str | None, needed: bool = True) -> Sequence[str]:
    """Return names of clients: site0, site1, ... by a count, those given with commas, or those of 'fedgraft shard'.

    Where none are needed and none are there, there are none.
    """
    if count is not None and names is not None:
        raise InputError("--clients and --names cannot be given together; --names says how many there are.")
    if count is not None:
        return [f"site{number}" for number in range(count)]
    if names is not None:
        return [name.strip() for name in names.split(",")]
    file = path / CLIENTS
    if not file.is_file():
        if not needed:
            return []
        raise InputError(
            f"{path} has no {CLIENTS}: make it with 'fedgraft shard RECIPE -o {path}', or give --clients N or --names."
        )
    try:
        listed = tomllib.loads(file.read_text(encoding="utf-8")).get("names")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{file} is not valid TOML: {error}.") from error
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise InputError(f"{file}: names must be a list of texts; got {listed!r}.")
    return listed


def check_names(names: Sequence[str]) -> None:
    """Raise `InputError` unless names are there, name folders, and differ."""
    require(bool(names), "the number of clients", ">= 1", len(names))
    for name in names:
        require(bool(file_name(name)), "a client's name", "a text with a letter or a digit", name)
    lower = [file_name(name).lower() for name in names]
    twice = next((name for name in names if lower.count(file_name(name).lower()) > 1), None)
    if twice is not None:
        raise InputError(f"Names of clients must differ as names of folders, also in lower case; got {twice!r} twice.")


def make_node(federation: FederationFolder, name: str, key: Pair | None, secret: bytes) -> None:
    """Make the folder that is handed to a site; it knows nothing of where it lies.

    Args:
        federation: the server's folder, which has the name already.
        name: of the client.
        key: of the node, which the server then knows; without its private half where the site has that; None = none.
        secret: that of all sites; b"" where the site has it from another one.
    """
    path = federation.node(name)
    path.mkdir(parents=True, exist_ok=True)
    at_server, names = (federation.host, federation.port, federation.insecure), tuple(federation.clients)
    node = NodeFolder(path, names.index(name), name, *at_server, names)
    node.write()
    if secret:
        write_private(node.common, secret.hex().encode())
    shutil.copyfile(federation.recipe, node.recipe)
    if key is not None:
        shutil.copyfile(federation.authority, node.certificate)
        give_key(federation, name, key)
    _script(
        path / "start.sh",
        "# Joins the federation with this folder's key. FEDGRAFT names the program where it is not on the path.",
        'cd "$(dirname "$0")"',
        "[ $# -gt 0 ] || set -- client.data",
        'exec "${FEDGRAFT:-fedgraft}" node . --data "$@"',
    )
    unit = UNIT.format(
        description=f"fedgraft node {name}",
        hint="Where this folder is; and, where the program is not on the path, Environment=FEDGRAFT=/path/to/fedgraft.",
        folder=f"/srv/fedgraft/{name}",
        script="start.sh",
    )
    (path / "fedgraft-node.service").write_text(unit)


def give_key(federation: FederationFolder, name: str, key: Pair) -> None:
    """Have the server know a node by a key, which a folder of its gets."""
    path = federation.node(name)
    path.mkdir(parents=True, exist_ok=True)
    if key.private:
        write_private(path / NODE_KEY, key.private)
    (path / PUBLIC_KEY).write_bytes(key.public)
    try:
        (path / KEY_CERTIFICATE).write_bytes(_authority_of(federation).node(key.public, name))
    except (ValueError, TypeError, OSError) as error:
        raise InputError(f"A node's certificate needs the key {federation.authority_key}: {error}.") from error
    federation.public_key(name).parent.mkdir(exist_ok=True)
    federation.public_key(name).write_bytes(key.public)


def _make_server(folder: FederationFolder) -> None:
    """Make what starts the server: a script, and a unit for systemd."""
    _script(
        folder.server / "start.sh",
        f"exec {shlex.quote(sys.executable)} -m fedgraft federation start {shlex.quote(str(folder.path))}",
    )
    unit = UNIT.format(
        description="fedgraft server",
        hint="Made on this machine, with the paths that it had then.",
        folder=folder.path,
        script="server/start.sh",
    )
    (folder.server / "fedgraft-server.service").write_text(unit)


def _script(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def make_keys(path: Path, secret: Path | None = None, new_secret: bool = False, replace: bool = False) -> Path:
    """Make a node's key in the site's folder; return the file of its public half, which the server is given.

    A key that is there stays where a secret alone is to come to it.

    Args:
        path: of the folder; what the server makes for the site belongs there, too.
        secret: a file with the secret of all sites, from the site that made it; None = none.
        new_secret: whether this site makes that secret, for the others.
        replace: whether a key that is there is replaced; it is lost.

    Raises `InputError` for what is wrong, before anything is written.
    """
    is_there, for_secret = (path / NODE_KEY).exists(), new_secret or secret is not None
    if is_there and not (replace or for_secret):
        raise InputError(f"{path / NODE_KEY} is there already; --replace makes another one in its place.")
    if secret is not None and new_secret:
        raise InputError("--secret and --new-secret cannot be given together: one site makes the secret of all.")
    if new_secret and (path / SECRET).exists():
        raise InputError(f"{path / SECRET} is there already; delete it to make another one, which all sites need then.")
    common = secrets.token_bytes(SECRET_BYTES) if new_secret else b"" if secret is None else read_secret(secret)
    path.mkdir(parents=True, exist_ok=True)
    if replace or not is_there:
        key = node_key(path.resolve().name)
        write_private(path / NODE_KEY, key.private)
        (path / PUBLIC_KEY).write_bytes(key.public)
    if common:
        write_private(path / SECRET, common.hex().encode())
    return path / PUBLIC_KEY
