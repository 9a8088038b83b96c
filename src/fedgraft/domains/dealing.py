"""Deal examples over clients, and choose those that test, for domains that cut one graph over clients."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.labels.known import groups_of
from fedgraft.errors import InputError, require
from fedgraft.wire.layouts import Array

FOLDS = 5
"""Folds of a split, one of them the test set: Li et al., "FedAIS", AAAI 2025, uses 5-fold cross-validation."""
SHARES = ("64:16:20", "80:10:10", "60:20:20")
"""Of training, validation and test nodes: the fold is the test set, and a fifth of the rest is for validation; half of
the fold is for validation; or the fold is the test set, and a quarter of the rest is for validation."""
FEWEST = 5
"""Nodes of a client that a Dirichlet partition leaves it at least: about one a fold."""
DRAWS = 1000
"""Draws of the shares of clients with too few nodes before a partition is given up; a draw costs little."""


def check_dealt(owner: str, is_split: bool, fold: int, named: int, clients: int, said: Mapping[str, str]) -> None:
    """Raise `InputError` for options of splitting and dealing where the data say how.

    Args:
        owner: what errors call the data set.
        is_split: whether the data name a split.
        fold: the option.
        named: how many clients the data name; 0 = none.
        clients: the option.
        said: {option: value, as errors show it} of those that are not as usual.
    """
    if is_split and fold:
        raise InputError(f"{owner}.fold = {fold} is for data without a split; these have one.")
    if named:
        require(clients in (0, named), f"{owner}.clients", f"{named}, as the data name, or 0", clients)
        for option, value in said.items():
            raise InputError(f"{owner}.{option} = {value} is for data without clients; these name {named}.")


def iid(nodes: int, clients: int, g: np.random.Generator) -> NDArray[np.int32]:
    """int32 [nodes]: at random, in numbers that differ by one at most."""
    owner = np.empty(nodes, np.int32)
    owner[g.permutation(nodes)] = np.arange(nodes) * clients // nodes
    return owner


def dirichlet(
    label: Array, clients: int, alpha: float, g: np.random.Generator, name: str = "the graph"
) -> NDArray[np.int32]:
    """int32 [nodes]: each class, and the nodes of none, by proportions drawn from a symmetric Dirichlet distribution.

    Source: Hsu et al., arXiv:1909.06335.
    Differs: a client has at least `FEWEST` nodes. Proportions are gamma variates over their sum; those of clients with
    fewer are drawn again, for all classes, until there is none. To draw everything again, as is usual, would not end:
    at alpha = 0.05 about half of 100 clients are too poor.
    """
    _, column, count = np.unique(groups_of(label), return_inverse=True, return_counts=True)
    weight = g.gamma(alpha, size=(clients, len(count)))
    for _ in range(DRAWS):
        share = np.cumsum(weight, axis=0)
        share /= np.maximum(share[-1], np.finfo(float).tiny)
        upto = np.rint(share * count).astype(np.int64)
        dealt: Indices = upto - np.concatenate([np.zeros((1, len(count)), np.int64), upto[:-1]])
        poor = dealt.sum(axis=1) < FEWEST
        if not poor.any():
            break
        weight[poor] = g.gamma(alpha, size=(int(poor.sum()), len(count)))
    else:
        raise InputError(
            f"{name}: {len(label)} nodes of {len(count)} classes dealt to {clients} clients with alpha = {alpha:g} "
            f"left one with fewer than {FEWEST}, {DRAWS} times; take fewer clients or a larger alpha."
        )
    # Nodes at random within their class; the first of a class go to the first client.
    order = g.permutation(len(label))
    order = order[np.argsort(column[order], kind="stable")]
    owner = np.empty(len(label), np.int32)
    owner[order] = np.repeat(np.tile(np.arange(clients, dtype=np.int32), len(count)), dealt.T.ravel())
    return owner


def split_nodes(
    label: Array, fold: int, g: np.random.Generator, name: str = "the graph", shares: str = SHARES[0]
) -> NDArray[np.int8]:
    """int8 [nodes]: to which of `SPLITS` each node belongs, -1 without a label; in `shares`, stratified by class.

    Numbers are stratified by fifth.

    The same generator gives the same five folds whichever is the test set. Of each class a fold gets a fifth, rounded
    up or down; a class of at least three nodes has a training node.
    """
    require(0 <= fold < FOLDS, "fold", f"0..{FOLDS - 1}", fold)
    label = groups_of(label)
    order = g.permutation(np.flatnonzero(label >= 0))
    halved = shares == SHARES[1]
    least, each = (2 * FOLDS, "two") if halved else (FOLDS, "one")
    if len(order) < least:
        raise InputError(f"{name}: at least {least} nodes with a label are needed, {each} a fold; got {len(order)}.")
    order = order[np.argsort(label[order], kind="stable")]
    place = np.arange(len(order)) % FOLDS
    split = np.full(len(label), -1, np.int8)
    held, rest = order[place == fold], order[place != fold]
    split[held] = SPLITS.index("test")
    split[rest] = SPLITS.index("train")
    # Not from the first on: where five nodes leave four, one of them is for validation and the others train.
    every = FOLDS - 1 if shares == SHARES[2] else FOLDS
    split[held[1::2] if halved else rest[2::every]] = SPLITS.index("validation")
    return split
