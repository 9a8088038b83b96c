"""Who shares masks with whom: a graph in which each client has few neighbours, as few as are safe."""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, comb
from typing import Final

import numpy as np

COLLUDING, DEAD = 0.1, 0.1
"""Shares of a cohort that may work together with the server, and that may be gone before a round ends. Ours."""
BROKEN, LOST = 2.0**-40, 2.0**-20
"""Most probability that anybody's update can be read then, and that a round has no sum."""
LEAST: Final = 12
"""Neighbours from which on there may be fewer than all. Ours: below it formulas gain nothing."""


def threshold(neighbours: int, share: float) -> int:
    """Return how many shares rebuild a secret of a client with so many neighbours."""
    return ceil(share * neighbours)


@lru_cache
def degree(clients: int, share: float) -> int:
    """Return how many neighbours each of so many clients has.

    They are the fewest, at least `LEAST` or all others, such that

        clients P[X >= t] <= BROKEN,     clients P[Y > k - t] <= LOST,     t = ceil(share k)

    X and Y are how many of k neighbours collude, and how many are gone: hypergeometric, k drawn of the others.

    Source: Bell et al., "Secure Single-Server Aggregation with (Poly)Logarithmic Overhead", CCS 2020, section 3.4 and
        appendix B.
    """
    others = clients - 1
    colluding, dead = ceil(COLLUDING * clients), ceil(DEAD * clients)
    for k in range(LEAST, others, 2):
        t = threshold(k, share)
        if clients * _tail(others, colluding, k, t) <= BROKEN and clients * _tail(others, dead, k, k - t + 1) <= LOST:
            return k
    return others


def expected(clients: int, asked: int, share: float) -> int:
    """Return how many neighbours each of so many clients has: as many as `asked` for, 0 = by formula, or all others."""
    return min(clients - 1, asked or degree(clients, share))


def graph(clients: Sequence[int], k: int, seed: int) -> dict[int, list[int]]:
    """Return {client: its neighbours, ascending}: k for each, or all others where k is not less.

    Clients stand in a circle, in an order that `seed` draws, and each has the k / 2 next ones on both sides (Bell et
    al., algorithm 2: a Harary graph).

    Args:
        clients: at least two.
        k: even, or as many as there are others, as `expected` says.
        seed: public, drawn by the server.
    """
    count = len(clients)
    if k >= count - 1:
        return {client: sorted(set(clients) - {client}) for client in clients}
    circle = np.random.default_rng(seed).permutation(np.sort(np.asarray(clients, np.int64))).tolist()
    steps = [step for step in range(-(k // 2), k // 2 + 1) if step]
    return {client: sorted(circle[(at + step) % count] for step in steps) for at, client in enumerate(circle)}


def _tail(others: int, marked: int, drawn: int, least: int) -> float:
    """P[at least so many of those drawn are marked]."""
    ways = sum(comb(marked, x) * comb(others - marked, drawn - x) for x in range(least, min(drawn, marked) + 1))
    return ways / comb(others, drawn)
