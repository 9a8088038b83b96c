"""Choose cohorts for client selectors: whom the budget pays for, and orders of clients, ranked or random.

A selector ranks clients; `affordable` turns the ranking into a cohort that keeps the budget's promise. Few clients of
many train, so orders are found only as far as somebody looks at them.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgraft.contracts import Indices, View
from fedgraft.contracts.selector import SCORE
from fedgraft.errors import InputError, require

MANY = 1 << 16
"""Clients above which a random order is drawn only as far as it is looked at: the whole takes 50 ms for a million.

The draws are other ones, no less uniform; with fewer clients they are those of `Generator.permutation`.
"""
SAMPLED = 1 << 14
"""Values of many by which it is guessed where the highest begin."""


def size(clients: int, view: View, parameter: str) -> int:
    """The wanted cohort size: `clients`, or half of all clients rounded up where it is 0.

    Raises `InputError`, naming `parameter`, for more clients than there are.
    """
    require(0 <= clients <= view.clients, parameter, f"in [0, {view.clients}], the number of clients", clients)
    return clients or (view.clients + 1) // 2


def check_candidates(candidates: int, wanted: int, view: View, parameter: str) -> None:
    """Raise `InputError`, naming `parameter`, unless candidates are 0 or from the cohort's size to all clients."""
    if candidates and not wanted <= candidates <= view.clients:
        raise InputError(
            f"{parameter} must be 0 or in [{wanted}, {view.clients}], from the {wanted} clients wanted to all "
            f"clients; got {candidates}."
        )


def probed_losses(view: View) -> dict[str, NDArray[np.float64]]:
    """Return terms, float64 [N], of a selector that ranks by the losses of probes; {} where nobody was probed."""
    loss = np.full(view.clients, np.nan)
    for k, answer in view.probed.items():
        loss[k] = answer["loss"]
    return {"probed loss": loss, SCORE: loss} if view.probed else {}


def available(view: View) -> Indices:
    """The available clients, int64 [n], ascending."""
    return np.arange(view.clients) if view.available.all() else np.flatnonzero(view.available)


def reachable(view: View) -> Indices:
    """The available clients that the budget pays for one by one, int64 [n], ascending: each is a valid cohort."""
    if view.bytes_left is None:
        return available(view)
    return np.flatnonzero(view.available & (view.bytes_per_client <= view.bytes_left))


def affordable(order: Iterable[int] | Indices, view: View, least: int = 1, most: int | None = None) -> tuple[int, ...]:
    """The cohort that the budget pays for, ascending: walk down `order` and take every client that still fits.

    Args:
        order: distinct clients [n], the best first; unavailable ones are passed over. With `least` 1 no more of
            them are looked at than are needed. An array is walked at once.
        view: what the server knows.
        least: a client is also passed over if taking it would leave too little for `least` clients in all; with fewer
            than `least` affordable together the cohort is empty.
        most: the walk ends with this many clients; None walks to the end.
    """
    if isinstance(order, np.ndarray) and least <= 1:
        return tuple(np.sort(_affordable(order, view, most)).tolist())
    left = _left(view)
    there = (int(k) for k in order if view.available[k])
    known = list(there) if least > 1 else []
    taken: list[int] = []
    for position, k in enumerate(known or there if most != 0 else ()):
        missing = max(least - len(taken) - 1, 0)
        later = sorted(int(view.bytes_per_client[j]) for j in known[position + 1 :])[:missing] if missing else []
        cost = int(view.bytes_per_client[k])
        if len(later) == missing and cost + sum(later) <= left:
            taken.append(k)
            left -= cost
            if len(taken) == most:  # nobody is asked for more
                break
    return tuple(sorted(taken)) if len(taken) >= least else ()


def _affordable(order: Indices, view: View, most: int | None) -> Indices:
    """Return whom `affordable` takes, int64, in the order in which it takes them."""
    rest = order[view.available[order]]
    if view.bytes_left is None:
        return rest[:most]
    left, taken = view.bytes_left, [rest[:0]]
    missing = len(rest) if most is None else most
    while True:
        rest = rest[view.bytes_per_client[rest] <= left]
        if not len(rest) or not missing:
            return np.concatenate(taken)
        spent = np.cumsum(view.bytes_per_client[rest])
        fit = min(int(np.searchsorted(spent, left, side="right")), missing)
        taken.append(rest[:fit])
        left, missing, rest = left - int(spent[fit - 1]), missing - fit, rest[fit:]


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
    """Yield all clients, int64 [n], in random order; the first `soon` of them cost nothing for the others."""
    first = g.choice(len(clients), min(soon, len(clients)), replace=False)
    yield from clients[first].tolist()
    if len(first) < len(clients):
        yield from g.permutation(np.delete(clients, first)).tolist()


def filled(first: Sequence[int], pool: Indices, wanted: int, view: View, g: np.random.Generator) -> tuple[int, ...]:
    """Return the cohort of so many: these clients in their order, then a pool's others, int64 [n], in random order."""
    known = set(first)
    rest = (k for k in random_order(pool, g, 2 * wanted) if k not in known)
    return affordable(chain(first, rest), view, most=wanted)


def random_first(clients: Indices, count: int, g: np.random.Generator) -> Indices:
    """Return the first `count` of all clients in random order, int64 [at most count]."""
    if len(clients) <= MANY:
        return g.permutation(clients)[:count]
    return clients[g.choice(len(clients), min(count, len(clients)), replace=False)]


def falling(worth: NDArray[np.float64], soon: int, g: np.random.Generator | None = None) -> Iterator[int]:
    """Yield places by falling worth, nan last; to find the first `soon` of them the others are not sorted.

    Args:
        worth: float64 [n].
        soon: >= 0.
        g: for the order of equals, which is that of their places without it.
    """
    first = first_falling(worth, soon, g)
    yield from first.tolist()
    if len(first) < len(worth):
        rest = np.delete(np.arange(len(worth)), first)
        rest = rest if g is None else g.permutation(rest)
        yield from rest[np.argsort(-worth[rest], kind="stable")].tolist()


def first_falling(worth: NDArray[np.float64], count: int, g: np.random.Generator | None = None) -> Indices:
    """Return places of the highest values by falling value, nan last, int64 [at most count]; see `falling`."""
    if g is None and (len(worth) <= SAMPLED or 4 * count >= len(worth)):
        return np.argsort(-worth, kind="stable")[:count]
    above, ties, room = _highest(worth, count)
    if g is not None:
        above, ties = g.permutation(above), random_first(ties, room, g)
    return np.concatenate([above[np.argsort(-worth[above], kind="stable")], ties[:room]])


def weighted_order(
    clients: Sequence[int] | Indices, weights: ArrayLike, g: np.random.Generator, most: int | None = None
) -> list[int]:
    """All `clients` [n] in random order, each next one drawn with probability proportional to its weight [n].

    The first n are thus a weighted draw without replacement; with `most` only so many are returned. Clients of weight 0
    come last, in random order, so that a draw never runs out of clients.
    """
    shuffled = g.permutation(len(clients))
    # Exponential races: the order of Exp(1)/weight is the order of successive proportional draws.
    with np.errstate(divide="ignore", over="ignore"):
        arrival = g.standard_exponential(len(clients)) / np.asarray(weights, dtype=np.float64)[shuffled]
    first = first_falling(-arrival, len(arrival) if most is None else most)
    drawn: list[int] = np.asarray(clients, np.int64)[shuffled[first]].tolist()
    return drawn


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
    known = np.isfinite(worth)
    filled = np.where(known, worth, -np.inf)
    filled[~known] = filled.max() if known.any() else 0.0
    above, ties, room = _highest(filled, len(filled) - int(discarded * len(filled)))
    # Exponential races: the order of Exp(1) / weight is the order of successive draws; in logarithms, for weights
    # that are too small for a number.
    if len(worth) <= MANY:
        kept = np.concatenate([above, g.choice(ties, room, replace=False)])
        race = g.standard_exponential(len(kept))
    else:
        # Of equals, those that come first are any of them: it takes no draw for each to know when (Renyi, 1953).
        some = min(count, room)
        gaps = g.standard_exponential(some) / np.arange(room, room - some, -1)
        kept = np.concatenate([above, random_first(ties, some, g)])
        race = np.concatenate([g.standard_exponential(len(above)), np.cumsum(gaps)])
    arrival = np.log(race) - temperature * (filled[kept] - filled.max())
    some = min(count, len(kept))
    first = np.argpartition(arrival, some - 1)[:some] if some else np.zeros(0, np.int64)
    return kept[first[np.argsort(arrival[first])]]


def _highest(values: NDArray[np.float64], count: int) -> tuple[Indices, Indices, int]:
    """Return where the highest values are, int64, those that tie for the last of them, and how many of these it takes.

    nan is below all numbers.
    """
    count = min(count, len(values))
    if count <= 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), 0
    places: Indices | None = None
    if len(values) > 4 * SAMPLED:  # where there are many of one value, a guess finds them, and partition is slow
        some = -values[:: len(values) // SAMPLED]
        guess = -_smallest(some, min(count * len(some) // len(values), len(some) - 1))
        above = np.flatnonzero(values > guess)
        if len(above) >= count:
            places = above
        elif len(ties := np.flatnonzero(values == guess)) >= count - len(above):
            return above, ties, count - len(above)
        elif count <= len(some):  # the last of the highest of some is no higher than that of all
            places = np.flatnonzero(values >= -_smallest(some, count - 1))
    if places is None or len(places) < count:  # fewer where some are nan
        places = np.arange(len(values))
    candidates = values[places]
    least = -_smallest(-candidates, count - 1)
    higher, equal = (
        (~np.isnan(candidates), np.isnan(candidates)) if np.isnan(least) else (candidates > least, candidates == least)
    )
    return places[higher], places[equal], count - int(np.count_nonzero(higher))


def _smallest(values: NDArray[np.float64], place: int) -> float:
    """Return the value at a place of the ascending order, nan last."""
    return float(np.partition(values, place)[place])


def _left(view: View) -> float:
    return math.inf if view.bytes_left is None else view.bytes_left
