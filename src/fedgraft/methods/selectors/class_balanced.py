"""ClassBalanced: clients in turn, in cohorts whose classes together are those of all clients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Indices, NonNegativeInt, Outcome, PositiveInt, Selection, Selector, View
from fedgraft.methods.cohorts import affordable, reachable, size

_LABELS: Final = tuple(f"label_{k}" for k in range(5))
_NUMBERS: Final = 1 << 20
"""Most clients in all partitions that are drawn, so that many clients have fewer of these."""


class Covered(TypedDict):
    """State: int64 [N], turns of each client; float64 [N, 5], shares of its classes, nan where they are not known."""

    turns: NDArray[np.int64]
    labels: NDArray[np.float64]


@dataclass(frozen=True)
class ClassBalanced(Selector[Covered]):
    """Clients in turn, in cohorts whose classes together are those of all clients.

    Those with the fewest turns are cut into cohorts at random, `partitions` times. Of the partition whose cohorts come
    nearest to the classes of all clients the first trains:

        sum over cohorts S of |p(S) - p(all)|^2,     p(S) = sum over k in S of n_k p_k / sum over k in S of n_k

    with client k's n_k training examples and shares p_k of classes. Clients whose classes are not known go by turns
    alone.

    Source: after Zhang et al., "Fed-CBS: A Heterogeneity-Aware Client Sampling Mechanism for Federated Learning via
        Class-Imbalance Reduction", ICML 2023, Eq. (2), the quadratic class-imbalance degree.
    Differs: the target is the shares of all clients, not equal ones; equal turns stand in for its bandit's bonus; all
        cohorts of a pass are looked at together, so that no unbalanced one is left for its end; shares are told in the
        clear, of five parts of the list of classes.

    Args:
        clients: M, how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        partitions: drawn for a choice, >= 1; 200 (ours). With 1 it is random among those with the fewest turns.
    State: see `Covered`.
    Needs: "label_0" ... "label_4": shares of training labels in five parts of the list of classes.
    Cost: five scalars in each reply.
    """

    reports: ClassVar[frozenset[str]] = frozenset(_LABELS)

    clients: NonNegativeInt = 0
    partitions: PositiveInt = 200

    def init(self, view: View) -> Covered:
        """Return the first state: nobody had a turn."""
        size(self.clients, view, "ClassBalanced.clients")
        return {"turns": np.zeros(view.clients, np.int64), "labels": np.full((view.clients, len(_LABELS)), np.nan)}

    def select(self, state: Covered, view: View, g: np.random.Generator) -> Selection:
        """Return the first cohort of the most balanced partition of those with the fewest turns."""
        wanted, pool = size(self.clients, view, "ClassBalanced.clients"), g.permutation(reachable(view))
        turns = state["turns"][pool]
        order = pool[np.argsort(turns, kind="stable")]
        least = order[: int((turns == turns.min()).sum())] if len(order) else order
        if len(least) > wanted > 0 and np.isfinite(state["labels"][least]).all():
            order = np.concatenate([self._balanced(state, view, least, wanted, g), order[len(least) :]])
        return Selection(affordable(order, view, most=wanted))

    def explanation(self, state: Covered, view: View) -> Mapping[str, NDArray[np.float64]]:
        """Each client's turns, and how far its classes are from those of all, float64 [N]."""
        distance = ((state["labels"] - _shares_of_all(state, view)) ** 2).sum(1)
        return {"turns": state["turns"].astype(np.float64), "distance of its classes": distance}

    def update(self, state: Covered, view: View, outcome: Outcome) -> Covered:
        """Count turns, whether clients answered or not, and note the classes of those that did."""
        turns, labels = state["turns"].copy(), state["labels"].copy()
        turns[list(outcome.selected)] += 1
        for k, report in outcome.reports.items():
            labels[k] = [report[name] for name in _LABELS]
        return {"turns": turns, "labels": labels}

    def _balanced(self, state: Covered, view: View, least: Indices, wanted: int, g: np.random.Generator) -> Indices:
        """Return these clients in the order of the partition whose cohorts are the most balanced."""
        counts = state["labels"][least] * view.samples[least][:, None]
        number = max(1, min(self.partitions, _NUMBERS // len(least)))
        orders = g.permuted(np.tile(np.arange(len(least)), (number, 1)), axis=1)
        totals = np.add.reduceat(counts[orders], np.arange(0, len(least), wanted), axis=1)  # [partitions, cohorts, 5]
        shares = totals / np.maximum(totals.sum(2, keepdims=True), 1e-12)
        distance = ((shares - _shares_of_all(state, view)) ** 2).sum((1, 2))
        best: Indices = least[orders[int(np.argmin(distance))]]
        return best


def _shares_of_all(state: Covered, view: View) -> NDArray[np.float64]:
    """Shares of classes of all clients whose classes are known, together, float64 [5]; equal ones where none is."""
    known = np.isfinite(state["labels"]).all(1)
    counts = (state["labels"][known] * view.samples[known][:, None]).sum(0)
    equal = np.full(len(_LABELS), 1 / len(_LABELS))
    return np.asarray(counts / counts.sum() if counts.sum() > 0 else equal)
