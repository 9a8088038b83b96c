"""Markdown of a study's tables: rows, and means with their spread."""

import math
from collections.abc import Iterable, Sequence
from statistics import mean, stdev


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, with a line break at its end.

    >>> print(table(("method", "MB"), [("FedAvg", "3.1")]), end="")
    | method | MB |
    |---|---|
    | FedAvg | 3.1 |
    """
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def filled(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table without the columns that have nothing in any row."""
    columns = [index for index in range(len(head)) if any(row[index] for row in rows)]
    return table([head[index] for index in columns], [[row[index] for index in columns] for row in rows])


def spread(values: Sequence[float], digits: int = 2, unit: str = "") -> str:
    """Return mean and standard deviation, and how many values are nan ("never"), if any; "" for no values.

    >>> spread([1.0, 2.0, float("nan")], 1)
    '1.5 ± 0.7 (1 never)'
    """
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return "never" if values else ""
    text = f"{mean(known):.{digits}f}{unit}"
    if len(known) > 1:
        text += f" ± {stdev(known):.{digits}f}"
    return text + (f" ({len(values) - len(known)} never)" if len(known) < len(values) else "")


def figures_spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation, as many digits of both as `figures` gives the mean; "" for no values.

    >>> figures_spread([18.0, 22.0])
    '20.0 ± 2.8'
    """
    if not values:
        return ""
    middle = mean(values)
    digits = max(0, 2 - math.floor(math.log10(abs(middle)))) if middle else 2
    return f"{middle:,.{digits}f}" + (f" ± {stdev(values):,.{digits}f}" if len(values) > 1 else "")


def figures(value: float) -> str:
    """Return a number with three figures, and with more where there are more before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
