"""Sizes and durations as people write and read them."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from fedgraft.engine.server.rounds.safeguards import SIZES
from fedgraft.errors import InputError

DECIMAL_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
"""Units that sizes are shown in, ascending."""

UNITS = {**DECIMAL_UNITS, "KB": 10**3, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
"""Units that a size may be given in."""

_SIZE = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([A-Za-z]*)", re.ASCII)
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def unit_of_bytes(largest: float) -> tuple[str, int]:
    """The unit, and its bytes, in which a set of sizes up to `largest` reads best: what an axis is labelled with."""
    fitting = [(unit, size) for unit, size in DECIMAL_UNITS.items() if _three_digits(largest / size) >= 1]
    return fitting[-1] if fitting else ("B", 1)


def human_bytes(count: float) -> str:
    """A size in three significant digits.

    >>> human_bytes(640), human_bytes(1_240_000)
    ('640 B', '1.24 MB')
    """
    unit, size = unit_of_bytes(count)
    return f"{count:.0f} B" if size == 1 else f"{_plain(count / size)} {unit}"


def human_seconds(seconds: float) -> str:
    """A duration in its two largest units: "850 ms", "12.3 s", "4 min 05 s", "2 h 03 min", "1 d 04 h"."""
    if seconds < 0.9995:
        return f"{round(seconds * 1000)} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR:02} h"


def parse_bytes(value: int | str, parameter: str = "bytes") -> int:
    """A size as a whole number of bytes.

    Args:
        value: bytes as an integer >= 0, or a number with a unit: "2MB", "500 kB", "1.5 MiB". kB (or KB), MB, GB and TB
            are powers of 1000; KiB, MiB, GiB and TiB are powers of 1024. Units are case-sensitive: Mb is a megabit.
        parameter: what the value is for, as the error names it.
    """
    allowed = f'a whole number of bytes >= 0, or a size such as "2MB", "500kB" or "1.5 MiB"; got {value!r}'
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InputError(f"{parameter} must be {allowed}.")
    if isinstance(value, int):
        if value < 0:
            raise InputError(f"{parameter} must be {allowed}.")
        return value
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise InputError(f"{parameter} must be {allowed}.")
    number, unit = match.groups()
    if unit and unit not in UNITS:
        near = [name for name in UNITS if name.lower() in (unit.lower(), unit.lower() + "b")]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(f"{parameter} = {value!r} has no unit of bytes.{hint} Known: {', '.join(UNITS)}.")
    exact = Decimal(number) * UNITS.get(unit, 1)
    if exact != int(exact):
        raise InputError(f"{parameter} = {value!r} is {exact} bytes, which is not a whole number.")
    return int(exact)


def human_failures(failures: Mapping[str, int] | None) -> str:
    """Return how often clients failed, and at what; "" where they never did, or where that is not known.

    >>> human_failures({"setup": 0, "training": 2, "scoring": 5})
    '2 in training, 5 in scoring'
    """
    return ", ".join(f"{count} in {kind}" for kind, count in (failures or {}).items() if count)


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")


def _plain(value: float) -> str:
    """Three significant digits without an exponent."""
    rounded = _three_digits(value)
    return f"{rounded:.{0 if rounded >= 100 else 1 if rounded >= 10 else 2}f}"


def with_sizes(name: str, section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section without a name whose sizes are numbers of bytes, whatever units they are written in."""
    sizes = SIZES if name == "safeguards" else ()
    return {key: parse_bytes(value, f"{name}.{key}") if key in sizes else value for key, value in section.items()}
