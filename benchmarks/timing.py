"""Times of variants that do the same work, taken in turns so that a machine's moods fall on all of them alike."""

import time
from collections.abc import Callable, Mapping
from statistics import median

Round = Callable[[int], object]
"""Does one round's work; rounds are numbered from 1, and equal numbers mean equal work."""


def in_turns(variants: Mapping[str, Round], repeats: int, warm_up: int = 1) -> dict[str, list[float]]:
    """Seconds of every round of every variant, after `warm_up` rounds that do not count.

    Each round is done by all variants before the next one begins, every other time in reverse order.
    """
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(1, warm_up + repeats + 1):
        for name in sorted(variants, reverse=number % 2 == 0):
            began = time.perf_counter()
            variants[name](number)
            elapsed = time.perf_counter() - began
            if number > warm_up:
                seconds[name].append(elapsed)
    return seconds


def ratio(seconds: Mapping[str, list[float]], over: str, under: str) -> float:
    """The median over rounds of `over` / `under`: both terms of each did the same work within a moment."""
    return median(a / b for a, b in zip(seconds[over], seconds[under], strict=True))
