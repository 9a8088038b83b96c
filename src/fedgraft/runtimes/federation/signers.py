"""The public keys by which sites know each other's signatures: a file that each has, and no running server changes.

A node's key is made by its site, or by the server, which could then sign for the site.

The server notes the keys that sites have sent it (`add`, `rotate` with --key). Any other is its own.
"""

import tomllib
from collections.abc import Mapping
from typing import Any, Final

from fedgraft.engine.client.contribution import RegisteredKeys
from fedgraft.engine.privacy.secure_sum import SIGNED_KEYS
from fedgraft.errors import ClientError, InputError
from fedgraft.runtimes.federation.audit import public_key_of
from fedgraft.runtimes.federation.folders import (
    NODE,
    SIGNERS,
    FederationFolder,
    NodeFolder,
    file_name,
    write_whole,
)

AT_SITE, AT_SERVER = "made-at-site", "made-at-server"
"""Last word of a line of `allowed_signers`."""
MADE_BY: Final = f"{SIGNED_KEYS} = true, and {{}} makes keys at the server, which could sign for every site"
"""Why signatures prove nothing, of who makes keys."""
REMEDY: Final = (
    "Have each site make its own: 'fedgraft federation keygen DIR --replace' there, then 'fedgraft federation rotate "
    "FED NAME --key node.pub' at the server; a new federation is made with 'fedgraft federation init --no-keys'"
)


def note_site_key(folder: FederationFolder, public: bytes) -> None:
    """Note a public key as one that a site has made."""
    known = folder.site_keys.read_text() if folder.site_keys.is_file() else ""
    write_whole(folder.site_keys, known + public.decode())


def origin_of(folder: FederationFolder, public: bytes) -> str:
    """Return who made a key: `AT_SITE` or `AT_SERVER`."""
    lines = folder.site_keys.read_bytes().splitlines() if folder.site_keys.is_file() else []
    return AT_SITE if any(line.split()[:2] == public.split()[:2] for line in lines) else AT_SERVER


def made_here(folder: FederationFolder) -> list[str]:
    """Return the sites whose keys the server has made."""
    return [name for name, key in folder.public_keys().items() if origin_of(folder, key) != AT_SITE]


def is_signed(recipe: Mapping[str, Any]) -> bool:
    """Return whether a recipe's content has keys of masks signed."""
    table = recipe.get("secure_sum", {})
    return isinstance(table, Mapping) and bool(table.get("signed"))


def check_origin(recipe: str, what: str) -> None:
    """Raise `InputError` where a recipe, TOML, has keys signed that are made here, by `what`."""
    try:
        signed = is_signed(tomllib.loads(recipe))
    except tomllib.TOMLDecodeError:
        return  # who reads the recipe says so
    if signed:
        raise InputError(f"The recipe has {MADE_BY.format(what)}. {REMEDY}.")


HINT = f"The operator has it: server/{SIGNERS} of the federation. It must not come by way of the running server."


def write_signers(federation: FederationFolder) -> None:
    """Write the keys of all nodes that have one, at the server and into each site's folder that is still here."""
    if federation.insecure:
        return
    text = "".join(
        f"{file_name(name)} {key.decode().strip()} {origin_of(federation, key)}\n"
        for name, key in federation.public_keys().items()
    )
    write_whole(federation.signers, text)
    for folder in map(federation.node, federation.clients):
        if (folder / NODE).is_file():
            write_whole(folder / SIGNERS, text)


def registered_keys(folder: NodeFolder, run: str) -> RegisteredKeys:
    """Return by what a site's node signs in a run, and knows others' signatures.

    The file of keys is read again for each sum: a site may be given a new key while a run goes on.

    Raises `InputError` where the node has no key, or no file of others' keys, or one that does not have its own, or
    where the server has made any of these.
    """
    if folder.insecure:
        raise InputError(f"{SIGNED_KEYS} = true needs keys of nodes; this federation was made with --insecure.")
    if not folder.signers.is_file():
        raise InputError(f"{SIGNED_KEYS} = true needs {folder.signers}, the keys of all sites. {HINT}")
    private = folder.key.read_bytes()
    try:
        own = _key_of(folder, folder.client).split()[:2]
        foreign = _not_of_sites(folder)
    except (ClientError, ValueError, OSError) as error:
        raise InputError(f"{folder.signers} does not have the key of {folder.name}: {error}") from error
    if foreign:
        raise InputError(
            f"{SIGNED_KEYS} = true needs keys that sites have made themselves, and {folder.signers} does not say "
            f"so of {', '.join(foreign)}: the server could sign for them. {REMEDY}; then hand all the new {SIGNERS}."
        )
    if own != public_key_of(private).encode().split()[:2]:
        raise InputError(f"{folder.signers} has another key of {folder.name} than {folder.key}: it is old. {HINT}")
    return RegisteredKeys(run, private, lambda client: _site_key_of(folder, client))


def _not_of_sites(folder: NodeFolder) -> list[str]:
    """Names of sites whose keys are not marked as made by themselves: they are the server's, or nobody has said."""
    lines = [line.split() for line in folder.signers.read_text().splitlines()]
    return [words[0] for words in lines if words and words[-1] != AT_SITE]


def _site_key_of(folder: NodeFolder, client: int) -> bytes:
    """Return a client's public key. Raises `ClientError` where it has none, or none that its site has made."""
    if (key := _key_of(folder, client)).split()[-1] != AT_SITE.encode():
        raise ClientError(f"the key of client {client} in {SIGNERS} was not made at its site. {REMEDY}.")
    return key


def _key_of(folder: NodeFolder, client: int) -> bytes:
    """Return a client's public key. Raises `ClientError` where it has none in the site's file."""
    clients = tomllib.loads((folder.path / NODE).read_text())["clients"]
    name = file_name(str(clients[client])) if 0 <= client < len(clients) else ""
    if not name:
        raise ClientError(f"client {client} is none of the {len(clients)} in {NODE}")
    for line in folder.signers.read_text().splitlines():
        site, _, key = line.partition(" ")
        if site == name:
            return key.encode()
    raise ClientError(f"{SIGNERS} has no key of client {client}, {name}. {HINT}")
