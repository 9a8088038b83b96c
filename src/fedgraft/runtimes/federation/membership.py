"""Who is of a federation: sites are added, removed or have a new key, and all keep their clients' numbers.

A running server is told by `operator_socket.read_keys`; else it finds the change as it starts.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import tomli_w

from fedgraft.errors import InputError, unknown
from fedgraft.runtimes.federation.certificates import Pair, node_key, public_key_in
from fedgraft.runtimes.federation.folders import (
    NODE,
    SECRET,
    FederationFolder,
    file_name,
    read_secret,
    write_whole,
)
from fedgraft.runtimes.federation.making import check_names, give_key, make_node
from fedgraft.runtimes.federation.signers import check_origin, note_site_key, write_signers

INSECURE: Final = "is not for a federation that was made with --insecure: its nodes have no keys."


def add(folder: FederationFolder, name: str, key: Path | None = None) -> FederationFolder:
    """Make a site's folder, and have the server know its key; return the federation with the site.

    A new name is the last client. One that is there without a key, since it was removed or never had one, keeps its
    number.

    Args:
        folder: of the federation.
        name: of the site.
        key: file of the public key that the site has made; None makes a key here, and the site's folder then has the
            secret of all sites, too, where another's folder here has it.

    Raises `InputError` for what is wrong, before anything is written.
    """
    if key is not None and folder.insecure:
        raise InputError(f"--key {INSECURE}")
    name = named(folder, name)
    if name in folder.clients:
        if folder.insecure or folder.public_key(name).is_file():
            raise InputError(f"{name} is a site already; 'fedgraft federation rotate' gives it a new key.")
        larger = folder
    else:
        check_names([*folder.clients, name])
        larger = replace(folder, clients=(*folder.clients, name))
    if key is None:
        check_origin(folder.recipe.read_text(), "'fedgraft federation add' without --key")
    pair = None if folder.insecure else _new_key(folder, name, key)
    make_node(larger, name, pair, _secret_here(folder) if key is None else b"")
    for other in folder.clients:
        _tell(folder.node(other) / NODE, larger.clients)
    larger.write()
    write_signers(larger)
    return larger


def remove(folder: FederationFolder, name: str) -> None:
    """Have the server refuse a site's key from now on; the numbers of all stay. Raises `InputError` for no such key."""
    name = named(folder, name)
    _refuse(folder, name, "remove")
    folder.public_key(name).unlink()
    write_signers(folder)


def rotate(folder: FederationFolder, name: str, key: Path | None = None) -> None:
    """Have the server know a site by a new key, and refuse its old one; arguments and errors as of `add`."""
    name = named(folder, name)
    _check_keyed(folder, name, "rotate")
    if key is None:
        check_origin(folder.recipe.read_text(), "'fedgraft federation rotate' without --key")
    pair = _new_key(folder, name, key)
    _refuse(folder, name, "rotate")
    give_key(folder, name, pair)
    write_signers(folder)


def named(folder: FederationFolder, name: str) -> str:
    """Return the site that is called so, or whose folder is; the name itself where there is none."""
    return next((each for each in folder.clients if file_name(each) == file_name(name)), name)


def _check_keyed(folder: FederationFolder, name: str, command: str) -> None:
    if folder.insecure:
        raise InputError(f"'fedgraft federation {command}' {INSECURE}")
    if name not in folder.clients:
        raise unknown("site", name, folder.clients)
    if not folder.public_key(name).is_file():
        raise InputError(
            f"{name} has no key: it was removed, or never had one; 'fedgraft federation add' gives it one."
        )


def _refuse(folder: FederationFolder, name: str, command: str) -> None:
    """Note a site's key as one that is refused. Raises `InputError` where it has none."""
    _check_keyed(folder, name, command)
    known = folder.refused.read_bytes() if folder.refused.is_file() else b""
    folder.refused.write_bytes(known + folder.public_key(name).read_bytes())


def _new_key(folder: FederationFolder, name: str, key: Path | None) -> Pair:
    """Return a key that nobody has or had; without its private half where the site has that."""
    if key is None:
        return node_key(name)
    public = public_key_in(key, name)
    for other, known in folder.public_keys().items():
        if _same(known, public):
            raise InputError(f"{key} is the key of {other} already; each site has its own.")
    refused = folder.refused.read_bytes().splitlines() if folder.refused.is_file() else []
    if any(_same(each, public) for each in refused):
        raise InputError(f"{key} was removed before, and stays refused; 'fedgraft federation keygen' makes another.")
    note_site_key(folder, public)
    return Pair(b"", public)


def _same(one: bytes, two: bytes) -> bool:
    """Whether two public keys of OpenSSH are one, whatever their comments say."""
    return one.split()[:2] == two.split()[:2]


def _secret_here(folder: FederationFolder) -> bytes:
    """Return the secret of all sites, where a site's folder is still here; b"" = none."""
    files = (folder.node(other) / SECRET for other in folder.clients)
    return next((read_secret(file) for file in files if file.is_file()), b"")


def _tell(path: Path, clients: Sequence[str]) -> None:
    """Write the names of all clients into a site's file where it is here; what else is in it stays."""
    if path.is_file():
        write_whole(path, tomli_w.dumps({**tomllib.loads(path.read_text()), "clients": list(clients)}))
