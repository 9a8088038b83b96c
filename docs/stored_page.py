"""A file of docs/ that a script writes, or looks at: `--check` tells whether the stored one is stale."""

import sys
from pathlib import Path


def write_or_check(path: Path, text: str) -> int:
    """Write the file; with `--check` among the arguments only tell whether it is stale. Return the exit code."""
    if "--check" not in sys.argv[1:]:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"docs/{path.name} is stale: run `python docs/{Path(sys.argv[0]).name}`.", file=sys.stderr)
    return 1
