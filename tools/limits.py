"""Limits on the shape of the code, for `make lint`. limits.toml lists what breaks one today, and may only shrink.

python tools/limits.py            check
python tools/limits.py --update   list what breaks a limit now, where it is less than before
"""

import argparse
import ast
import dataclasses
import importlib
import inspect
import pkgutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "fedgraft"
LISTED = Path(__file__).with_suffix(".toml")
LIMITS = {"bases": 6, "ancestors": 12, "options": 20, "imports": 25, "function": 60}
"""Most direct bases, ancestors of ours and fields of a class, modules that a file imports, lines of a function."""
LINES = 400
"""Lines of a file: more is a warning."""


def classes() -> Iterator[tuple[str, type[Any]]]:
    """All classes of the package by their place."""
    import fedgraft

    for module in pkgutil.walk_packages(fedgraft.__path__, "fedgraft."):
        if module.name.endswith("__main__"):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:  # of an extra that is not installed
            continue
        for name, found in vars(loaded).items():
            if inspect.isclass(found) and found.__module__ == module.name:
                yield f"{module.name.removeprefix('fedgraft.')}.{name}", found


def of_classes() -> Iterator[tuple[str, str, int]]:
    """(limit, place, number) of each class."""
    for place, found in classes():
        ours = [each for each in found.__mro__[1:] if each.__module__.startswith("fedgraft.")]
        yield "bases", place, len(found.__bases__)
        yield "ancestors", place, len(ours)
        if dataclasses.is_dataclass(found):
            yield "options", place, len(dataclasses.fields(found))


def of_files() -> Iterator[tuple[str, str, int]]:
    """(limit, place, number) of each file and function."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree, place = ast.parse(path.read_text()), path.relative_to(SOURCE).as_posix()
        modules: set[str] = set()
        for node in tree.body:
            if isinstance(node, ast.Import):
                modules |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                modules.add(node.module or "")
        yield "imports", place, len(modules)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield "function", f"{place}:{node.name}", (node.end_lineno or 0) - node.lineno + 1


def breaking() -> dict[str, dict[str, int]]:
    """{limit: {place: number above it}} of the code as it is."""
    found: dict[str, dict[str, int]] = {name: {} for name in LIMITS}
    for name, place, number in (*of_classes(), *of_files()):
        if number > LIMITS[name]:
            found[name][place] = number
    return found


def worse(found: dict[str, dict[str, int]], listed: dict[str, dict[str, int]]) -> list[str]:
    """What breaks a limit by more than is listed, in words."""
    return [
        f"{place} has {number} {name}, and {max(LIMITS[name], listed.get(name, {}).get(place, 0))} are most"
        for name, places in found.items()
        for place, number in sorted(places.items())
        if number > listed.get(name, {}).get(place, 0)
    ]


def written(found: dict[str, dict[str, int]]) -> str:
    """The list as TOML, the worst first."""
    limits = ", ".join(f"{name} {most}" for name, most in LIMITS.items())
    lines = [f"# Made by `python tools/limits.py --update`. Limits: {limits}."]
    for name, places in found.items():
        worst = sorted(places.items(), key=lambda each: (-each[1], each[0]))
        lines += ["", f"[{name}]", *(f'"{place}" = {number}' for place, number in worst)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Check, or update the list; return 1 where something breaks a limit that is not listed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the list anew")
    update = parser.parse_args().update
    found, listed = breaking(), tomllib.loads(LISTED.read_text()) if LISTED.exists() else {}
    for path in sorted(SOURCE.rglob("*.py")):
        if (lines := len(path.read_text().splitlines())) > LINES:
            print(f"warning: {path.relative_to(ROOT)} has {lines} lines; {LINES} are meant")
    first = update and not LISTED.exists()
    if (problems := worse(found, listed)) and not first:
        print("\n".join(problems), file=sys.stderr)
        return 1
    better = [f"{name} of {place}" for name, places in listed.items() for place in places if place not in found[name]]
    if update:
        LISTED.write_text(written(found))
    elif better:
        print(f"Within the limit by now: {', '.join(better)}. Run python tools/limits.py --update.", file=sys.stderr)
        return 1
    listed_now = ", ".join(f"{len(places)} {name}" for name, places in found.items() if places)
    print(f"Limits hold{listed_now and f', but for what is listed: {listed_now}'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
