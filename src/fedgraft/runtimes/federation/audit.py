"""The audit log of a node: a line for each answer that it gives, chained by hashes, signed with the node's key.

Each line is a JSON object as `canonical` writes it. Its "hash" is the SHA-256 of "prev", the hexadecimal hash of the
line before it, and of the line without "hash". A signature is a line of the chain, too, over its own "prev". Each line
has random bits, "salt", so that who is told a hash can try nothing until it fits.

The hash of the last line and how many there are, the head, are kept in a file of their own. A line is on disk before
the head says so, and the head before an answer leaves. So a kill leaves a head that is one line behind at most, and
that line is of an answer that has not left. A log that lacks the head's line was cut, or put back from a copy.
"""

import base64
import hashlib
import json
import os
import secrets
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

from fedgraft.errors import InputError, MachineError
from fedgraft.runtimes.federation.folders import PRIVATE, replace_private

AGAIN: Final = """Move audit.jsonl and audit.head away together to begin another log: what was told before is not \
counted any more."""
"""What helps where a log cannot go on."""


class Head(NamedTuple):
    """Of a log.

    Args:
        lines: how many there are, >= 0.
        head: hash of the last one, 64 hexadecimal digits; zeros where there is none.
    """

    lines: int
    head: str


def head_file(log: Path) -> Path:
    """Return the file with the head of a log."""
    return log.with_suffix(".head")


def write_head(log: Path, head: Head) -> None:
    """Store a log's head, as a whole or not at all. Raises `MachineError` where the disk does not take it.

    Where power fails the head may be an earlier one: the log has its line, too.
    """
    path = head_file(log)
    replace_private(path, json.dumps(head._asdict()).encode(), path)


def read_head(log: Path) -> Head:
    """Return the head that is kept of a log. Raises `InputError` where there is none, or it is damaged."""
    path = head_file(log)
    try:
        content = json.loads(path.read_text())
        lines, head = content["lines"], content["head"]
    except FileNotFoundError as error:
        raise InputError(
            f"{log} has no {path.name} beside it: somebody took that away. "
            f"Put it back, or move {log.name} away to begin another log: what was told before is not counted any more."
        ) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is damaged ({error}). {AGAIN}") from error
    if type(lines) is not int or not isinstance(head, str):
        raise InputError(f"{path} is damaged: it must hold lines and a hash. {AGAIN}")
    return Head(lines, head)


FILE: Final = "audit.jsonl"
SIGNATURE: Final = "signature"
"""Kind of the lines that hold a signature."""
BEGINNING: Final = "0" * 64
""""prev" of the first line."""
SIGNED_LINES: Final = 100
"""Every line with such a number is a signature, where the node has a key."""
Line = Mapping[str, Any]
HOW: Final = ECDSA(hashes.SHA384())
"""How nodes sign."""
_SALT_BYTES: Final = 16


class AuditLog:
    """Adds lines to a node's audit log; each is on disk before `add` returns.

    A last line that a kill cut short, of an answer that did not leave, is taken away. Nobody else may write to the
    file. The head is written after the line, and before `add` returns: a line that the head does not know yet is of an
    answer that has not left. Raises `InputError` where the file cannot be read, its last line is none of the chain, or
    it lacks lines that were written.

    Args:
        path: of the file; made with the first line.
        key: OpenSSH's private key of the node, by whose curve lines are signed; None where it has none.
    """

    def __init__(self, path: Path, key: bytes | None = None) -> None:
        self._path = path
        self._key = None if key is None else load_private(key)
        self._size, self._lines, self._head = 0, 0, BEGINNING
        self._begin()
        self._take_up()

    @property
    def head(self) -> str:
        """str, hash of the last line."""
        return self._head

    @property
    def lines(self) -> int:
        """int, how many there are."""
        return self._lines

    def add(self, entry: Line) -> None:
        """Add a line, behind a signature where one is due. Raises `MachineError` where the disk does not take it."""
        if (self._lines + 1) % SIGNED_LINES == 0:
            self.sign()
        self._append(entry)

    def sign(self) -> None:
        """Sign the log as it is; nothing where the node has no key. Raises `MachineError` as `add`."""
        if self._key is not None:
            signature = self._key.sign(self._head.encode(), HOW)
            told = {"key": public_line(self._key.public_key()), "signature": base64.b64encode(signature).decode()}
            self._append({"kind": SIGNATURE, **told})

    def holding(self, text: str) -> Iterator[Line]:
        """Yield the lines that hold a text, such as a run's name. Raises `InputError` for one that was changed."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    if text.encode() in line:
                        yield parsed(line)
                except ValueError as error:
                    raise InputError(f"the node's {self._path.name}, line {number}: {error}") from error

    def _begin(self) -> None:
        """Make the head of a log that is to be, before it has a line: a log without one is not of this version."""
        if not self._path.exists() and not head_file(self._path).exists():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_head(self._path, Head(0, BEGINNING))

    def _append(self, entry: Line) -> None:
        made = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "salt": secrets.token_hex(_SALT_BYTES)}
        line = chained({**made, **entry}, self._head)
        content = canonical(line)
        try:
            if self._size != (self._path.stat().st_size if self._path.exists() else 0):
                self._take_up()  # the disk took a part of a line, or somebody else has written
                line = chained(line, self._head)
                content = canonical(line)
            with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE), "ab") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if not self._size:
                _sync_folder(self._path.parent)
        except OSError as error:
            raise MachineError(f"{self._path} cannot be written: {error.strerror or error}.") from error
        self._size, self._lines, self._head = self._size + len(content), self._lines + 1, line["hash"]
        write_head(self._path, Head(self._lines, self._head))

    def _take_up(self) -> None:
        """Find the end of what is there, and cut what follows the last whole line; hold it against the head."""
        kept = read_head(self._path)
        size, lines, last, known = 0, 0, b"", b""
        try:
            if self._path.exists():
                with self._path.open("rb") as file:
                    for line in file:
                        if line.endswith(b"\n"):
                            size, lines, last = size + len(line), lines + 1, line
                            known = line if lines == kept.lines else known
                if self._path.stat().st_size > size:
                    os.truncate(self._path, size)
            hash_there = parsed(known)["hash"] if known else BEGINNING
            self._size, self._lines, self._head = size, lines, parsed(last)["hash"] if last else BEGINNING
        except OSError as error:
            raise InputError(f"{self._path} cannot be read: {error.strerror or error}.") from error
        except ValueError as error:
            raise InputError(
                f"{self._path}, line {lines}: {error}. See 'fedgraft audit {self._path.parent} --verify'. {AGAIN}"
            ) from error
        if lines < kept.lines or hash_there != kept.head:
            raise InputError(
                f"{self._path} has {lines} lines, and not all that were written: {head_file(self._path)} knows of "
                f"{kept.lines}. Put back the log as it was. {AGAIN}"
            )


# --- lines ------------------------------------------------------------------------------------------------------------


def canonical(line: Line) -> bytes:
    """Return a line as it is written: sorted keys, no spaces, ASCII, an end of line."""
    return (json.dumps(dict(line), sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode("ascii")


def chained(entry: Line, prev: str) -> dict[str, Any]:
    """Return an entry as a line of the chain, behind the line with the hash `prev`."""
    line = {**{name: value for name, value in entry.items() if name != "hash"}, "prev": prev}
    return {**line, "hash": hashlib.sha256(prev.encode() + canonical(line)).hexdigest()}


def parsed(content: bytes) -> dict[str, Any]:
    """Return a line of which every byte is as it was written. Raises `ValueError`, with what is wrong, else."""
    try:
        line: dict[str, Any] = dict(json.loads(content.decode("ascii")))
        written = canonical(chained(line, str(line["prev"])))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError("it is no line of an audit log") from error
    if written != content:
        raise ValueError("it is not what was written")
    return line


def public_key_of(private: bytes) -> str:
    """Return the public key that belongs to a node's private one, as `public_line` has it."""
    return public_line(load_private(private).public_key())


def load_public(content: bytes) -> EllipticCurvePublicKey:
    """Return a public key from what OpenSSH writes. Raises `ValueError` for what is none."""
    return cast(EllipticCurvePublicKey, load_ssh_public_key(content))


def load_private(private: bytes) -> EllipticCurvePrivateKey:
    """Return a node's private key from what OpenSSH writes. Raises `InputError` for what is none."""
    try:
        return cast(EllipticCurvePrivateKey, load_ssh_private_key(private, None))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError("node.key must be a private key as OpenSSH writes it, without a passphrase.") from error


def public_line(key: EllipticCurvePublicKey) -> str:
    """Return a public key as OpenSSH writes it."""
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


# --- verifying --------------------------------------------------------------------------------------------------------


def read(path: Path, keys: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the lines of a log, each after it was held against the chain, and signatures against their keys.

    `keys` are public keys of the node, as `public_line` has them: then every line of a number of `SIGNED_LINES` must be
    a signature, and each be by one of them. Raises `ValueError` for the first bad line, with its number and what is
    wrong, and `OSError` where there is no file.
    """
    prev = BEGINNING
    with path.open("rb") as file:
        for number, content in enumerate(file, 1):
            try:
                if not content.endswith(b"\n"):
                    raise ValueError("it is cut short")
                line = parsed(content)
                if line["prev"] != prev:
                    raise ValueError("it does not follow the line before it: a line is missing, added or moved")
                if line.get("kind") == SIGNATURE:
                    _check_signature(line, keys)
                elif keys and number % SIGNED_LINES == 0:
                    raise ValueError("a signature is missing")
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
            prev = line["hash"]
            yield line


def _check_signature(line: Line, keys: Collection[str]) -> None:
    """Raise `ValueError` for a signature that is not over the line's "prev" by the line's key, one of `keys`."""
    try:
        key, signature = load_public(line["key"].encode()), base64.b64decode(line["signature"], validate=True)
        key.verify(signature, line["prev"].encode(), HOW)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError("its signature is not that of its key") from error
    if keys and line["key"] not in keys:
        raise ValueError("it is signed with another key than the node's (--key names one that it had before)")


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
