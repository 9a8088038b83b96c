"""What every client selector needs: whom the budget pays for, and random orders of clients.

A selector ranks clients; `affordable` turns the ranking into a cohort that keeps the budget's promise.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgraft.contracts import Indices, View
from fedgraft.errors import require


def size(clients: int, view: View, parameter: str) -> int:
    """The wanted cohort size: `clients`, or half of all clients rounded up where it is 0.

    Raises `InputError`, naming `parameter`, for more clients than there are.
    """
    require(0 <= clients <= view.clients, parameter, f"in [0, {view.clients}], the number of clients", clients)
    return clients or (view.clients + 1) // 2


def candidates(view: View) -> list[int]:
    """The available clients that the budget pays for one by one, ascending: any one of them is a valid cohort."""
    found: list[int] = reachable(view).tolist()
    return found


def reachable(view: View) -> Indices:
    """`candidates` as an array, int64 [n]: for methods that are fast with a million clients."""
    return np.flatnonzero(view.available & (view.bytes_per_client <= _left(view)))


def affordable(order: Iterable[int], view: View, least: int = 1, most: int | None = None) -> tuple[int, ...]:
    """The cohort that the budget pays for, ascending: walk down `order` and take every client that still fits.

    Args:
        order: distinct clients, the preferred ones first; unavailable ones are passed over. With `least` 1 no more of
            them are looked at than are needed.
        view: what the server knows.
        least: a client is also passed over if taking it would leave too little for `least` clients in all; with fewer
            than `least` affordable together the cohort is empty.
        most: the walk ends with this many clients; None walks to the end.
    """
    left = _left(view)
    there = (int(k) for k in order if view.available[k])
    known = list(there) if least > 1 else []
    taken: list[int] = []
    for position, k in enumerate(known or there):
        if len(taken) == most:
            break
        missing = max(least - len(taken) - 1, 0)
        later = sorted(int(view.bytes_per_client[j]) for j in known[position + 1 :])[:missing] if missing else []
        cost = int(view.bytes_per_client[k])
        if len(later) == missing and cost + sum(later) <= left:
            taken.append(k)
            left -= cost
    return tuple(sorted(taken)) if len(taken) >= least else ()


def probeable(order: Sequence[int], view: View) -> tuple[int, ...]:
    """The clients of `order`, ascending, that can be probed so that the budget then still pays for one of them."""
    left = _left(view)
    taken: list[int] = []
    spent, cheapest = 0, math.inf
    for k in order:
        cost = min(cheapest, int(view.bytes_per_client[k]))
        if view.available[k] and spent + int(view.bytes_per_probe[k]) + cost <= left:
            taken.append(k)
            spent, cheapest = spent + int(view.bytes_per_probe[k]), cost
    return tuple(sorted(taken))


def random_order(clients: Indices, g: np.random.Generator, soon: int) -> Iterator[int]:
    """Yield all clients in random order; the first `soon` of them cost nothing for the others."""
    first = g.choice(len(clients), min(soon, len(clients)), replace=False)
    yield from clients[first].tolist()
    if len(first) < len(clients):
        yield from g.permutation(np.delete(clients, first)).tolist()


def weighted_order(clients: Sequence[int], weights: ArrayLike, g: np.random.Generator) -> list[int]:
    """All `clients` in random order, each next one drawn with probability proportional to its weight.

    The first n are thus a weighted draw without replacement. Clients of weight 0 come last, in random order, so that a
    draw never runs out of clients.
    """
    shuffled = g.permutation(len(clients))
    # Exponential races: the order of Exp(1)/weight is the order of successive proportional draws.
    with np.errstate(divide="ignore", over="ignore"):
        arrival = g.standard_exponential(len(clients)) / np.asarray(weights, dtype=np.float64)[shuffled]
    return [int(clients[k]) for k in shuffled[np.argsort(arrival, kind="stable")]]


def softmax_draw(
    worth: NDArray[np.float64], count: int, discarded: float, temperature: float, g: np.random.Generator
) -> Indices:
    """Return so many places, int64, drawn one after the other with probability proportional to exp(temperature worth).

    Args:
        worth: float64 [n]; one that is not known (nan) counts as the best that is.
        count: how many, or all that are not left out.
        discarded: share of the places with the lowest worth that is left out, in [0, 1].
        temperature: >= 0.
        g: where they are drawn from.

    Source: Goetz et al., "Active Federated Learning", 2019 (arXiv 1909.12641), algorithm 1.
    """
    known = np.where(np.isfinite(worth), worth, -np.inf)
    best = known.max()
    filled = np.where(np.isneginf(known), best, known) if np.isfinite(best) else np.zeros(len(known))
    kept = _highest(filled, len(filled) - int(discarded * len(filled)), g)
    exponent = temperature * (filled[kept] - filled.max())
    # Exponential races: the order of Exp(1) / weight is the order of successive draws; in logarithms, for weights
    # that are too small for a number.
    arrival = np.log(g.standard_exponential(len(kept))) - exponent
    some = min(count, len(kept))
    first = np.argpartition(arrival, some - 1)[:some] if some else np.zeros(0, np.int64)
    drawn: Indices = kept[first[np.argsort(arrival[first])]]
    return drawn


def _highest(values: NDArray[np.float64], count: int, g: np.random.Generator) -> Indices:
    """Return places of so many of the highest values, int64; ties fall at random."""
    if count <= 0:
        return np.zeros(0, np.int64)
    least = np.partition(values, len(values) - count)[len(values) - count]
    above, ties = np.flatnonzero(values > least), np.flatnonzero(values == least)
    return np.concatenate([above, g.choice(ties, count - len(above), replace=False)])


def _left(view: View) -> float:
    return math.inf if view.bytes_left is None else view.bytes_left
