"""What a site makes for itself: its node's key, and for all sites the secret that they have in common."""

import secrets
from pathlib import Path

from fedgraft.errors import InputError
from fedgraft.runtimes.federation.certificates import node_key
from fedgraft.runtimes.federation.folders import NODE_KEY, PUBLIC_KEY, SECRET, read_secret, write_private
from fedgraft.wire.tokens import SECRET_BYTES


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
