"""ClassBalanced: clients in turn, in cohorts whose classes together are those of all clients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import ExplainedSelector, Indices, Outcome, Selection, View
from fedgraft.errors import require_options
from fedgraft.methods.cohorts import affordable, reachable, size

_LABELS: Final = tuple(f"label_{k}" for k in range(5))


class Covered(TypedDict):
    """State: int64 [N], the round that last selected each client, 0 = none; float64 [N, 5], its class shares or nan."""

    last: NDArray[np.int64]
    labels: NDArray[np.float64]


@dataclass(frozen=True)
class ClassBalanced(ExplainedSelector[Covered]):
    """Clients in turn, in cohorts whose classes together are those of all clients.

    Candidates are those who have waited longest, and as many more as `slack` says. Of them a cohort is taken greedily:
    next comes who brings the shares of classes of all that are taken nearest to those of all known clients, in squares,
    each client weighing as its training examples do. Clients whose classes are not known come first, in random order.

    Source: after Zhang et al., "Fed-CBS: A Heterogeneity-Aware Client Sampling Mechanism for Federated Learning via
        Class-Imbalance Reduction", ICML 2023, Eq. (2): the quadratic class-imbalance degree.
    Differs: the target is the shares of all clients, not equal ones; turns stand in for its bandit's bonus; classes are
        told in the clear, five shares of consecutive classes, by those who train.

    Args:
        clients: M, how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        slack: candidates beyond the first M, as a share of M, >= 0; 1 (ours). 0 is `round_robin`.
    State: see `Covered`.
    Needs: "label_0" ... "label_4": shares of training labels in five parts of the list of classes.
    Cost: five scalars in each reply.
    """

    reports: ClassVar[frozenset[str]] = frozenset(_LABELS)

    clients: int = 0
    slack: float = 1.0

    def __post_init__(self) -> None:
        require_options(self, "ClassBalanced", clients=">= 0", slack=">= 0 and finite")

    def init(self, view: View) -> Covered:
        """Return the first state: nobody had a turn."""
        size(self.clients, view, "ClassBalanced.clients")
        return {"last": np.zeros(view.clients, np.int64), "labels": np.full((view.clients, len(_LABELS)), np.nan)}

    def select(self, state: Covered, view: View, g: np.random.Generator) -> Selection:
        """Return a cohort of those who have waited longest, as balanced as these can be."""
        wanted, pool = size(self.clients, view, "ClassBalanced.clients"), g.permutation(reachable(view))
        waiting = pool[np.argsort(state["last"][pool], kind="stable")]
        return Selection(affordable(self._order(state, view, waiting, wanted), view, most=wanted))

    def terms(self, state: Covered, view: View) -> Mapping[str, NDArray[np.float64]]:
        """Rounds since each client's last turn, and how far its classes are from those of all, float64 [N]."""
        return {
            "rounds since its turn": (view.round - state["last"]).astype(np.float64),
            "distance of its classes": ((state["labels"] - _prior(state, view)) ** 2).sum(1),
        }

    def update(self, state: Covered, view: View, outcome: Outcome) -> Covered:
        """Note whose turn it was, and the classes of those that answered."""
        last, labels = state["last"].copy(), state["labels"].copy()
        last[list(outcome.selected)] = view.round
        for k, report in outcome.reports.items():
            labels[k] = [report[name] for name in _LABELS]
        return {"last": last, "labels": labels}

    def _order(self, state: Covered, view: View, waiting: Indices, wanted: int) -> Indices:
        """The clients that wait, in the order in which they are taken; the rest in their turn."""
        near = waiting[: wanted + round(self.slack * wanted)]
        known = np.isfinite(state["labels"][near]).all(1)
        taken, left = near[~known].tolist()[:wanted], near[known].tolist()
        prior, examples = _prior(state, view), view.samples.astype(np.float64)
        counts = np.zeros(len(_LABELS))
        while left and len(taken) < wanted:
            own = counts + state["labels"][left] * examples[left][:, None]
            shares = own / np.maximum(own.sum(1, keepdims=True), 1e-12)
            best = int(np.argmin(((shares - prior) ** 2).sum(1)))
            counts = own[best]
            taken.append(left.pop(best))
        rest = [k for k in waiting.tolist() if k not in set(taken)]
        return np.array([*taken, *rest], np.int64)


def _prior(state: Covered, view: View) -> NDArray[np.float64]:
    """Shares of classes of all known clients together, float64 [5]; equal ones where none is known."""
    known = np.isfinite(state["labels"]).all(1)
    counts = (state["labels"][known] * view.samples[known][:, None]).sum(0)
    equal = np.full(len(_LABELS), 1 / len(_LABELS))
    return np.asarray(counts / counts.sum() if counts.sum() > 0 else equal)
