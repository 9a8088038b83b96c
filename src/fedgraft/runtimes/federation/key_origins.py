"""Who made a node's key: its site, or the server, which could then sign for the site.

The server notes the keys that sites have sent it (`add`, `rotate` with --key). Any other is its own.
"""

import tomllib
from collections.abc import Mapping
from typing import Any, Final

from fedgraft.engine.privacy.secure_sum import SIGNED_KEYS
from fedgraft.errors import InputError
from fedgraft.runtimes.federation.folders import FederationFolder, write_whole

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
