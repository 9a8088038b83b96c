"""The folders of a federation: the server's, and one for each site."""

import ipaddress
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import tomli_w
from filelock import FileLock, Timeout

from fedgraft.errors import InputError, MachineError
from fedgraft.runtimes.federation.site_limits import SiteLimits
from fedgraft.wire.tokens import SECRET_BYTES

_LONGEST: Final = 80
"""Most characters of a file's name before its suffix."""
HERE: Final = ("localhost", "127.0.0.1", "::1")
"""Names of this machine for its own processes."""
RECIPE: Final = "recipe.toml"
FEDERATION: Final = "federation.toml"
NODE: Final = "node.toml"
NODE_KEY: Final = "node.key"
PUBLIC_KEY: Final = "node.pub"
KEY_CERTIFICATE: Final = "node.crt"
SECRET: Final = "matching.secret"
SIGNERS: Final = "allowed_signers"
"""Public keys of all nodes, in OpenSSH's format of that name: on each line a site's name and its key."""


PRIVATE: Final = 0o600


class _Below:
    """A path below the folder that has it as an attribute."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __get__(self, folder: "FederationFolder | NodeFolder", cls: object = None) -> Path:
        return folder.path / self._place


@dataclass(frozen=True)
class FederationFolder:
    """The server's folder; `clients` are names, in the order of their numbers, which they keep.

    A site that was removed, or not added yet, has its name there, and no public key. An insecure federation has neither
    TLS nor authentication of nodes. Sites reach the server at host and port.
    """

    path: Path
    host: str
    port: int
    clients: Sequence[str]
    insecure: bool = False

    recipe = _Below(RECIPE)
    """File of the recipe with the federation's data and task."""
    server = _Below("server")
    """Folder of what only the server has."""
    authority = _Below("server/ca.crt")
    """File of the certificate of the federation's own authority, which nodes have too."""
    authority_key = _Below("server/ca.key")
    """File of the authority's private key."""
    certificate = _Below("server/server.crt")
    """File of the server's certificate."""
    key = _Below("server/server.key")
    """File of the server's private key."""
    signers = _Below(f"server/{SIGNERS}")
    """File of the public keys of all nodes, which sites have too: a line each."""
    refused = _Below("server/refused.keys")
    """File of public keys that were removed, or replaced by others: a line each."""
    site_keys = _Below("server/site.keys")
    """File of public keys that sites have made themselves: a line each."""

    @classmethod
    def read(cls, path: Path) -> "FederationFolder":
        """Return what is in a folder. Raises `InputError` where it is none of a federation."""
        hint = f"make it with 'fedgraft federation init {path}'"
        table = _table(path / FEDERATION, {"host": str, "port": int, "clients": list, "insecure": bool}, hint)
        return cls(path.resolve(), table["host"], table["port"], tuple(map(str, table["clients"])), table["insecure"])

    @property
    def address(self) -> str:
        """str, "host:port"."""
        return address(self.host, self.port)

    @property
    def own_host(self) -> str:
        """str, address at which this machine's own processes reach the server."""
        return "::1" if ":" in self.host else "127.0.0.1"

    @property
    def listens_at(self) -> str:
        """str, address that the server listens at: all of the machine's, unless sites are on this very machine."""
        if self.host == "localhost" or _is_loopback(self.host):
            return self.own_host
        return "::" if ":" in self.host else "0.0.0.0"

    def write(self) -> None:
        """Write the folder's own file."""
        names = ("host", "port", "insecure", "clients")
        _write(self.path / FEDERATION, {name: getattr(self, name) for name in names})

    def node(self, name: str) -> Path:
        """Return the folder that is handed to a site."""
        return self.path / "nodes" / file_name(name)

    def public_key(self, name: str) -> Path:
        """Return the file of a node's public key."""
        return self.server / "keys" / f"{file_name(name)}.pub"

    def keyless(self) -> frozenset[int]:
        """Return the clients whose nodes have no key that is known, and cannot take part; {} where none has any."""
        known = self.clients if self.insecure else self.public_keys()
        return frozenset(client for client, name in enumerate(self.clients) if name not in known)

    def public_keys(self) -> dict[str, bytes]:
        """Return {name: public key} of the sites that have one."""
        files = {name: self.public_key(name) for name in self.clients}
        return {name: file.read_bytes() for name, file in files.items() if file.is_file()}


@dataclass(frozen=True)
class NodeFolder:
    """A site's folder, which may be moved and copied: the client's number and name, and where the server is.

    `clients` are the names of all. `limits` are the site's own to set.
    """

    path: Path
    client: int
    name: str
    host: str
    port: int
    insecure: bool = False
    clients: tuple[str, ...] = ()
    limits: SiteLimits = field(default_factory=SiteLimits)

    recipe = _Below(RECIPE)
    """File of the recipe with the federation's data and task."""
    common = _Below(SECRET)
    """File of the secret that all sites have in common, by which they match ids; the server has no part in it."""
    own = _Below("masks.secret")
    """File of the secret that this site makes and nobody else has, of its masks in private set intersection."""
    certificate = _Below("ca.crt")
    """File of the certificate by which the server is known."""
    signers = _Below(SIGNERS)
    """File of the public keys by which the other nodes sign; it comes from the operator, never from the server."""
    key = _Below(NODE_KEY)
    """File of the private key by which the server knows this node."""
    key_certificate = _Below(KEY_CERTIFICATE)
    """File of the certificate by which the server takes a connection of this node."""

    @classmethod
    def read(cls, path: Path) -> "NodeFolder":
        """Return what is in a folder. Raises `InputError` where it is none of a site."""
        hint = "it is one of the folders nodes/NAME that 'fedgraft federation init' makes"
        fields = {"client": int, "name": str, "host": str, "port": int, "insecure": bool, "clients": list}
        table = _table(path / NODE, fields, hint, {"limits": dict})
        try:
            limits = SiteLimits.of(table.get("limits", {}))
        except InputError as error:
            raise InputError(f"{path / NODE}: {error}") from error
        known = {"clients": tuple(map(str, table["clients"])), "limits": limits}
        folder = cls(path.resolve(), **{**table, **known})
        made = {folder.certificate: "", folder.key: ": it is what 'fedgraft federation keygen' made at this site"}
        for needed, how in {} if folder.insecure else made.items():
            if not needed.is_file():
                raise InputError(f"{needed} is missing; without it this node cannot join the federation{how}.")
        return folder

    @property
    def address(self) -> str:
        """str, "host:port" of the server."""
        return address(self.host, self.port)

    def write(self) -> None:
        """Write the folder's own file."""
        names = ("client", "name", "host", "port", "insecure", "clients")
        _write(self.path / NODE, {**{name: getattr(self, name) for name in names}, "limits": vars(self.limits)})

    def secret(self) -> bytes:
        """Return the secret of all sites; b"" where there is none. Raises `InputError` for a file that is none."""
        return read_secret(self.common) if self.common.is_file() else b""

    def own_secret(self) -> bytes:
        """Return the secret of this site alone; b"" where there is none yet. Raises `InputError` as `secret`."""
        return _secret(self.own, "as they were made; without this file others are") if self.own.is_file() else b""


def read_secret(path: Path) -> bytes:
    """Return the secret of all sites that is in a file. Raises `InputError` for a file that is none."""
    return _secret(path, "as another site's does")


def replace_private(path: Path, content: bytes, what: Path) -> None:
    """Put a file that only its owner reads in place of another, forced to disk: it is the old or the new one.

    Raises `MachineError`, which names `what`, where the disk does not take it.
    """
    beside = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise MachineError(f"{what} cannot be written: {error.strerror or error}.") from error


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner reads, from its first byte on."""
    path.unlink(missing_ok=True)
    path.touch(mode=PRIVATE)
    path.write_bytes(content)


def _secret(path: Path, hint: str) -> bytes:
    try:
        secret = bytes.fromhex(path.read_text())
    except (ValueError, OSError):
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise InputError(f"{path} must hold {2 * SECRET_BYTES} hexadecimal digits, {hint}.")
    return secret


def file_name(name: str) -> str:
    """Return a client's name as files are called: 80 letters, digits, ".", "_" and "-" at most; "" for none of them."""
    return re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.")[:_LONGEST].rstrip("-.")


def address(host: str, port: int) -> str:
    """Return "host:port", with brackets around an address of IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, tomli_w.dumps(content))


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there as a whole or not at all: a run that is under way reads it, too."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text)
    beside.replace(path)


def _table(
    path: Path, fields: Mapping[str, type], hint: str, later: Mapping[str, type] = MappingProxyType({})
) -> dict[str, Any]:
    """Read a TOML file with these fields, and perhaps `later` ones. Raises `InputError` for anything else."""
    try:
        table = tomllib.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{path.parent} has no {path.name}: {hint}.") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    wanted = {**fields, **{name: kind for name, kind in later.items() if name in table}}
    for name, kind in wanted.items():
        if type(table.get(name)) is not kind:
            raise InputError(f"{path}: {name} must be of type {kind.__name__}; got {table.get(name)!r}.")
    return {name: table[name] for name in wanted}


FILE: Final = "node.lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a node's folder. The system lets go of it however this process ends.

    Raises `InputError` where another process holds it.
    """
    lock = FileLock(folder / FILE, timeout=0, mode=PRIVATE)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(
            f"{folder} is in use: another node process runs from it. End that one first; a second node needs a folder "
            "of its own."
        ) from error
    except OSError as error:
        raise InputError(f"{folder / FILE} cannot be locked: {error.strerror or error}.") from error
    try:
        yield
    finally:
        lock.release()
