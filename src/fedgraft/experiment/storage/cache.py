"""The user's cache: what takes long to compute is kept under a fingerprint of all that it follows from.

It lies in $XDG_CACHE_HOME/fedgraft (~/.cache by default), in a folder for each kind of entry. All of it may be deleted
at any time. An entry that cannot be read, or is damaged, is computed anew; where nothing can be kept, so is each.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def folder(kind: str) -> Path:
    """Return where the entries of a kind are, such as "baselines"."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "fedgraft" / kind


def remembered(path: Path, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what was computed once, here or by an earlier process, and is kept in a file.

    Args:
        path: the file; its name is the fingerprint.
        compute: what returns the entry, a JSON object.
    """
    with suppress(OSError, ValueError, RecursionError):
        if isinstance(entry := json.loads(path.read_text()), dict):
            return entry
    entry = compute()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.new")
        temporary.write_text(json.dumps(entry))
        temporary.replace(path)
    return entry
