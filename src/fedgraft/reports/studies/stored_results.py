"""What a study has found: a JSON file for each finished cell and for a split's baselines, or one file of all of them.

While a study runs, each is a file of its own, written in one stroke. `pack` puts them into one compressed file of JSON
lines, which is small and the same bytes for the same results. Both may be there: a file of its own is the newer one.
"""

import json
import lzma
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

from filelock import FileLock

from fedgraft.errors import InputError
from fedgraft.experiment.storage import disk

CELLS: Final = "cells"
BASELINES: Final = "baselines"
PACKED: Final = "results.jsonl.xz"

Content: TypeAlias = dict[str, Any]


class StoredResults:
    """The results in a study's folder, by the names of their files within it, such as "cells/NAME.json"."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / PACKED

    def read(self, name: str) -> Content | None:
        """Return a result, a JSON object; None where there is none. Raises `InputError` for a damaged file."""
        path = self.folder / name
        return disk.read_table(path) if path.is_file() else self._packed.get(name)

    def pack(self) -> int:
        """Move the files of results into the packed one, and return how many; a kill in the midst loses none.

        They are taken away only when the packed file that holds them is on disk. Of two at a time, one waits.
        """
        with FileLock(self.folder / ".lock"):
            paths = [path for kind in (CELLS, BASELINES) for path in (self.folder / kind).glob("*.json")]
            if paths:
                new = {path.relative_to(self.folder).as_posix(): disk.read_table(path) for path in paths}
                self.__dict__.pop("_packed", None)  # another process may have packed since it was read
                disk.replace(self.folder, {PACKED: packed({**self._packed, **new})})
                self.__dict__.pop("_packed", None)
            for path in paths:
                path.unlink()
        return len(paths)

    @cached_property
    def _packed(self) -> dict[str, Content]:
        return unpacked(self.path) if self.path.is_file() else {}


def write_result(folder: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write a result to a file of its own, in one stroke."""
    disk.swap(folder / name, json.dumps(content) + "\n")


def packed(results: Mapping[str, Content]) -> bytes:
    """Return {name: result} as compressed JSON lines, by name; every float is read again to the last bit."""
    lines = [json.dumps({"file": name, "content": results[name]}) + "\n" for name in sorted(results)]
    return lzma.compress("".join(lines).encode())


def unpacked(path: Path) -> dict[str, Content]:
    """Return what `packed` was given. Raises `InputError` for a file that is not what it wrote."""
    try:
        rows = [json.loads(line) for line in lzma.decompress(disk.read_bytes(path)).splitlines()]
        return {str(row["file"]): dict(row["content"]) for row in rows}
    except (lzma.LZMAError, ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{path} is damaged ({error}): restore it, or remove it, and its cells are run again."
        ) from error
