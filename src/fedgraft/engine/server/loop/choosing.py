"""Asking a selector: whom to probe, who trains, and which terms the choice was made of."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import (
    Probe,
    ProbingSelector,
    Selection,
    Selector,
    View,
    randomness,
)
from fedgraft.contracts.selector import AGENT
from fedgraft.engine.server.beginning import ServerSecret
from fedgraft.errors import FedgraftError


def check_selection(name: str, selection: Selection, view: View) -> None:
    """Raise `FedgraftError` for a selection that breaks the contract; `name` is the selector's."""
    check_clients(name, "selected", selection.clients, view.bytes_per_client, view)
    weights = selection.weights
    fits = weights is None or (
        len(weights) == len(selection.clients) and all(math.isfinite(w) and w >= 0 for w in weights)
    )
    if not fits:
        raise FedgraftError(
            f"{name} gave the weights {weights} to the clients {list(selection.clients)}; "
            "it must be one each, finite and >= 0."
        )


def check_clients(name: str, did: str, clients: Sequence[int], prices: NDArray[np.int64], view: View) -> None:
    """Raise `FedgraftError` unless clients are available, distinct, ascending and paid for.

    It says what the selector of this name `did` with them, "selected" or "probed". `prices` are int64 [N], the most
    bytes that each client costs.
    """
    chosen = list(clients)
    fit = all(type(client) is int and 0 <= client < view.clients and view.available[client] for client in chosen)
    if not fit or any(after <= before for before, after in pairwise(chosen)):
        known = np.flatnonzero(view.available).tolist()
        raise FedgraftError(f"{name} {did} {chosen}; available, each once and ascending, are {known}.")
    cost = int(prices[chosen].sum())
    if view.bytes_left is not None and cost > view.bytes_left:
        raise FedgraftError(f"{name} {did} clients for {cost} bytes with {view.bytes_left} left.")


MOST_EXPLAINED: Final = 200
"""Clients up to which a round's row keeps the terms of all; with more, of the cohort and of the agent's own choice.

A row then grows with the cohort, as all else in it does, and not with the clients: a million clients, of whom ten train
in each of a thousand rounds, would else write tens of gigabytes that nobody can look at.
"""
DIGITS: Final = 6
"""Significant digits of a term that is kept: more than a report shows, half of what a number takes in full."""

Terms = dict[str, dict[int, float]]
"""{name of a term: {client: its value}}, of clients that have one."""


@dataclass(frozen=True)
class Choosing:
    """Ask a selector, whose draws come from the seed of the experiment, and hold its answers to the contract.

    Coins, `Selector.by_coins`, come from the server's secret.
    """

    selector: Selector[Any]
    seed: int
    secret: ServerSecret

    def probe(self, state: Any, view: View) -> Probe | None:
        """Return whom to probe before the choice; None for nobody."""
        if not isinstance(self.selector, ProbingSelector):
            return None
        probe = self.selector.probe(state, view, randomness.lazy(self.seed, "probe", view.round))
        if probe is None or not probe.clients:
            return None
        check_clients(self._name, "probed", probe.clients, view.bytes_per_probe, view)
        return probe

    def choose(self, state: Any, view: View) -> tuple[Selection | None, Terms]:
        """Return who trains, None where nobody can, and the terms of the choice; {} where there are none."""
        if self.selector.by_coins and _anybody(view):
            view = self._drawn(view)
            if not _anybody(view):
                return Selection(()), {}
        selection = self.selector.select(state, view, randomness.generator(self.seed, "select", view.round))
        if not selection.clients:
            return None, {}
        check_selection(self._name, selection, view)
        explanation = self.selector.explanation(state, view)
        for name, values in explanation.items():
            if np.shape(values) != (view.clients,):
                raise FedgraftError(
                    f"{self._name} told the term {name!r} with shape {np.shape(values)}; it must be one number for "
                    f"each of {view.clients} clients."
                )
        return selection, kept(explanation, selection.clients, view)

    def _drawn(self, view: View) -> View:
        """Return a view in which only those are available whose coins say so; all clients have one."""
        from fedgraft.secrets.keystream import drawn  # cryptography takes its time to import

        coins = np.zeros(view.clients, bool)
        coins[drawn(view.clients, self.selector.share(view.clients), self.secret.words("coins", view.round))] = True
        available = view.available & coins
        available.flags.writeable = False
        return replace(view, available=available)

    @property
    def _name(self) -> str:
        return type(self.selector).__name__


def _anybody(view: View) -> bool:
    """Return whether a client can be reached that the budget pays for."""
    return bool(_able(view).any())


def _able(view: View) -> NDArray[np.bool_]:
    """Return bool [N], who can be reached and paid for."""
    able = view.available.copy()
    if view.bytes_left is not None:
        able &= view.bytes_per_client <= view.bytes_left
    return able


def kept(explanation: Mapping[str, NDArray[np.float64]], cohort: Iterable[int], view: View) -> Terms:
    """Return the terms of those who could have been chosen, of many clients only of some, see `MOST_EXPLAINED`.

    Terms are {name: float64 [N]}. Clients that could not be reached, or not be paid for, are left out.
    """
    able = _able(view)
    if view.clients > MOST_EXPLAINED:
        shown = np.array(sorted(cohort), np.int64)
        if AGENT in explanation:
            shown = np.union1d(shown, _highest(np.where(able, explanation[AGENT], np.nan), len(shown)))
    else:
        shown = np.flatnonzero(able)
    terms_shown: Terms = {}
    for name, values in explanation.items():
        pairs = zip(shown.tolist(), np.asarray(values, np.float64)[shown].tolist(), strict=True)
        known = {client: float(f"{value:.{DIGITS}g}") for client, value in pairs if abs(value) < np.inf}
        if known:
            terms_shown[name] = known
    return terms_shown


def _highest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the clients of so many of the highest values, int64; those without one (nan) come last."""
    known = np.where(np.isfinite(values), values, -np.inf)
    return np.argpartition(-known, count - 1)[:count]
