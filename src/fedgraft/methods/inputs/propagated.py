"""Propagated: features, and their means over neighbours, made once before training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from fedgraft.contracts.inputs import Inputs
from fedgraft.domains.examples import Features
from fedgraft.domains.nodes.training.smoothed_inputs import mean_of, side_by_side


@dataclass(frozen=True)
class Propagated(Inputs):
    """Propagated: features, and their means over neighbours, made once before training.

    With R the mean over a node and its neighbours inside the client the model reads X, R X .. R^hops X; with metapaths
    in place of edges R_p X .. R_p^hops X of every metapath p.

    Source: Wu et al., "Simplifying Graph Convolutional Networks", ICML 2019 (SGC); Frasca et al., "SIGN", 2020; Yang et
        al., SeHGNN, AAAI 2023 (metapaths). `aggregates`: Yao et al., "FedGCN", NeurIPS 2023.
    Differs: they have the symmetric D^-1/2 (A + I) D^-1/2; a mean keeps the scale of features at nodes of any degree.

    Args:
        scale: length to which every node's features are scaled before, >= 0, with metapaths their root mean square; 0
            leaves them as they are.
        propagate: hops over which features are averaged, >= 0; 0 = features as they are.
        hop_pooling: how the model reads features after these hops: "concatenate", side by side (SIGN); "last", those of
            the last hop alone (SGC); "mean", their mean (SSGC, Zhu and Koniusz, ICLR 2021); or "attention", each node's
            weighted by a learnt vector (as GAMLP, Zhang et al., KDD 2022).
        aggregates: whether every node gets, once, the sum of all its neighbours' features, those elsewhere included;
            the first layer then draws no neighbours, features are not shared otherwise, and states are not.
    """

    scale: Annotated[float, Ge(0), "0 = as they are"] = 0.0
    propagate: Annotated[int, Ge(0), "0 = none"] = 0
    hop_pooling: Literal["concatenate", "last", "mean", "attention"] = "concatenate"
    aggregates: bool = False

    @property
    def hops(self) -> int:
        """As said."""
        return self.propagate

    @property
    def raw(self) -> bool:
        """True without hops."""
        return not self.propagate

    @property
    def attends(self) -> bool:
        """True where hops are weighted."""
        return self.propagate > 0 and self.hop_pooling == "attention"

    @property
    def sums_neighbours(self) -> bool:
        """As said."""
        return self.aggregates

    def blocks(self, paths: int = 1) -> int:
        """Return how many times as wide as features the rows are that are put together."""
        if not self.propagate:
            return 1
        return paths if self.hop_pooling in ("last", "mean") else 1 + paths * self.propagate

    def together(self, features: Features, paths: Sequence[Sequence[Features]]) -> Features:
        """Return rows [nodes, `blocks` x f]."""
        if not paths:
            return features
        if self.hop_pooling == "last":
            return side_by_side([hops[-1] for hops in paths])
        if self.hop_pooling == "mean":
            return side_by_side([mean_of([features, *hops]) for hops in paths])
        return side_by_side([features, *(each for hops in paths for each in hops)])

    @property
    def pooling(self) -> str:
        """As said; attention has hops side by side."""
        return "concatenate" if self.hop_pooling == "attention" else self.hop_pooling
