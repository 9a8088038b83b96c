"""A kind of message: clients say how loud their features are, and a selector that trains the quietest."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts import Selection, Selector
from fedgraft.engine.protocol.table import declare


def loudness(plan, data):
    """Return the mean size of a client's features."""
    return {"loudness": float(np.abs(data.features.first(data.own)).mean())}


declare("loudness", 200, "how loud its features are", {"loudness": "losses"}, loudness)


@dataclass(frozen=True)
class Quietest(Selector[dict[int, float]]):
    """First all clients; then whoever said that it is quietest."""

    reports: ClassVar[frozenset[str]] = frozenset({"loudness"})

    def init(self, view):
        """Nothing was heard."""
        return {}

    def select(self, state, view, g):
        """Choose the quietest."""
        there = np.flatnonzero(view.available).tolist()
        return Selection(tuple([min(there, key=lambda client: state[client])] if state else there))

    def update(self, state, view, outcome):
        """Remember what was said."""
        return {**state, **{client: report["loudness"] for client, report in outcome.reports.items()}}
