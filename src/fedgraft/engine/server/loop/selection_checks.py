"""Check a selector's choices: distinct available clients, valid weights, and a budget that is a promise."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Selection, View
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
