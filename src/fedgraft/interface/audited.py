"""A node's audit log as people look at it: its lines, totals, and whether it is as it was written."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm

from fedgraft.errors import FedgraftError, InputError
from fedgraft.experiment.storage.disk import read_bytes, written
from fedgraft.runtimes.federation import audit
from fedgraft.runtimes.federation.audit import head_file, read_head
from fedgraft.runtimes.federation.folders import NodeFolder

COLUMNS: Final = (
    *("time", "run", "round", "kind", "number", "purpose", "bytes", "decision", "code", "why", "reply", "counts"),
    *("noise", "divergence", "failure", "answered", "epsilon"),
    *("sha256", "request", "set_up", "nonce", "salt", "prev", "hash", "key", "signature"),
)
"""Columns of a CSV file."""
Lines = list[dict[str, Any]]


@dataclass(frozen=True)
class Audited:
    """The audit log of a node.

    Args:
        path: of its file.
        keys: public keys of the node, as OpenSSH writes them; () where it has none, and signs nothing.
    """

    path: Path
    keys: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path) -> "Audited":
        """Return the log in a node's folder. Raises `InputError` where there is none."""
        node = NodeFolder.read(folder)
        path = node.path / audit.FILE
        if not path.is_file():
            raise InputError(f"{path} is not there: this node has answered nothing yet.")
        return cls(path, () if node.insecure else (audit.public_key_of(read_bytes(node.key)),))

    def verified(self, head: str = "", earlier: Sequence[Path] = ()) -> str:
        """Return in words that the log is as it was written, and holds the line with a hash.

        `earlier` are files of public keys that the node had before. Raises `FedgraftError` with the first bad line.
        """
        keys = [*self.keys, *map(_public_key, earlier)]
        kept = read_head(self.path)  # first: the log may grow meanwhile
        hashes, signatures = dict[str, int](), 0
        try:
            for number, line in enumerate(audit.read(self.path, keys), 1):
                hashes[line["hash"]] = number
                signatures += line["kind"] == audit.SIGNATURE
        except ValueError as error:
            raise FedgraftError(f"{self.path}, {error}.") from error
        if hashes.get(kept.head, 0) != kept.lines:
            raise FedgraftError(
                f"{self.path} has {len(hashes)} lines, and not all that were written: {head_file(self.path)} knows of "
                f"{kept.lines}. Lines at the end are missing, or all are others. Put back the log as it was."
            )
        if head and head not in hashes:
            raise FedgraftError(
                f"{self.path}: no line has the hash {head}: lines at the end are missing, or all are others."
            )
        signed = f"{signatures} signatures" if keys else "no key to sign with"
        return f"{self.path}: {len(hashes)} lines, each as it was written and behind the one before it; {signed}."

    def lines(self, since: str = "") -> Lines:
        """Return the lines from a day or time on, unverified. Raises `InputError` for a line that is none."""
        first = _time(since) if since else ""
        found: Lines = []
        with self.path.open("rb") as file:
            for number, content in enumerate(file, 1):
                try:
                    line = dict(json.loads(content))
                except (ValueError, TypeError, RecursionError) as error:
                    raise InputError(
                        f"{self.path}, line {number}: it is no line of an audit log; see --verify."
                    ) from error
                if str(line.get("time")) >= first:
                    found.append(line)
        return found


def totals(lines: Lines) -> Lines:
    """Return how many messages and bytes were sent, and refused, by run and purpose, in their order."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        if "decision" not in line:  # a signature, or a run that begins: nothing has left
            continue
        run, purpose = str(line.get("run")), str(line.get("purpose"))
        total = found.setdefault((run, purpose), {"run": run, "purpose": purpose, "sent": 0, "bytes": 0, "refused": 0})
        sent = line.get("decision") == "sent"
        total["sent" if sent else "refused"] += 1
        total["bytes"] += int(line.get("bytes", 0)) if sent else 0
    return list(found.values())


def write_csv(path: Path, lines: Lines) -> None:
    """Write lines to a CSV file. Raises `InputError` where it cannot be written."""
    with written(path), path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        rows.writeheader()
        rows.writerows(lines)


def _time(since: str) -> str:
    """Return a day or time as lines have it."""
    try:
        told = datetime.fromisoformat(since)
    except ValueError as error:
        raise InputError(
            f"--since must be a day or time such as 2026-11-24 or 2026-11-24T12:30; got {since!r}."
        ) from error
    told = told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
    return told.isoformat(timespec="milliseconds")


def _public_key(path: Path) -> str:
    try:
        return audit.public_line(audit.load_public(read_bytes(path)))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path} is no public key of a node, such as server/keys/NAME.pub of a federation.") from error
