"""Exchanges: signs alone leave a client, of features and of hidden states."""

from dataclasses import dataclass

import numpy as np

from fedgraft.contracts.exchange import ExchangeOfEdges, ExchangeOfNodes


@dataclass(frozen=True)
class Signs(ExchangeOfNodes, ExchangeOfEdges):
    """Publish signs."""

    features = True
    states = True
    neighbours = 0

    def published(self, features):
        """Return their signs."""
        return np.sign(features)

    def sent(self, states):
        """Return their signs."""
        return [rows._replace(rows=np.sign(rows.rows)) for rows in states]
