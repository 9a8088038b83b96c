"""Deal examples over clients, sort them by client, and choose those that test."""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import PositiveFloat, PositiveInt, check_ranges
from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.keyed_split import split_by_hash
from fedgraft.domains.labels.class_notes import untrained_notes
from fedgraft.domains.labels.known import groups_of, is_known
from fedgraft.domains.notes import LOG, tell
from fedgraft.errors import InputError, require, require_one_of
from fedgraft.wire.layouts import Array

FOLDS = 5
"""Folds of a split, one of them the test set: Li et al., "FedAIS", AAAI 2025, uses 5-fold cross-validation."""
Fold: TypeAlias = Annotated[int, Interval(ge=0, le=FOLDS - 1)]
"""Which of them is the test set."""
SHARES = ("64:16:20", "80:10:10", "60:20:20", "20:40:40")
"""Of training, validation and test nodes: the fold is the test set, and a fifth of the rest is for validation; half of
the fold is for validation; the fold is the test set, and a quarter of the rest is for validation; or the fold is the
training set, and half of the rest is for validation."""
FEWEST = 5
"""Nodes of a client that a Dirichlet partition leaves it at least: about one a fold."""
DRAWS = 1000
"""Draws of the shares of clients with too few nodes before a partition is given up; a draw costs little."""

Whole = TypeVar("Whole", bound=Any)
Part = TypeVar("Part", bound=Any)


@dataclass(frozen=True, eq=False)
class Collection(Generic[Whole]):
    """The data of all clients together, as a user's own tables or objects hold them.

    `split` says whether a split was given; else the whole is in none. `client` is int64 [examples] and `client_names`
    one per client; both are none where the data name no clients. `notes` say what was left out, for people to read.
    `parts` are the clients', where each came in a file of its own; else none. `columns` are features as they were read,
    which the whole lacks until all clients have agreed on what is made of them; None where it has them; `edges` are
    what its edges carry, likewise. `matching` is what it takes to join edges between clients, {client: (bytes down,
    bytes up)}.
    """

    whole: Whole
    client: Indices
    client_names: tuple[str, ...]
    split: bool
    notes: tuple[str, ...]
    feature_names: tuple[str, ...] = ()
    parts: tuple[Whole, ...] = ()
    columns: Any = None
    edges: Any = None
    matching: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Dealing(ABC, Generic[Whole, Part]):
    """Options of dealing a graph to clients and of splitting it, which data sets of nodes share.

    `of` is what errors call the options: "PygNodes" for PygNodes.clients ... There is at least one client; `alpha`, of
    the Dirichlet distribution, is above 0. `fold` says which of five folds is the test set, or is halved for validation
    and test. `partition` is one of `partitions`, `shares` of training, validation and test nodes one of `allowed`.
    """

    partitions: ClassVar[tuple[str, ...]]
    allowed: ClassVar[tuple[str, ...]]
    alpha_shown: ClassVar[str] = "{:g}"
    """How errors show `alpha`."""

    of: str
    clients: PositiveInt
    partition: str
    alpha: PositiveFloat = 0.5
    fold: Fold = 0
    shares: str = ""

    def __post_init__(self) -> None:
        check_ranges(self, self.of)
        require_one_of(f"{self.of}.partition", self.partition, self.partitions)
        require_one_of(f"{self.of}.shares", self.shares, self.allowed)

    def deal(self, graph: Whole, seed: int, split: bool = True) -> list[Part]:
        """Return one part per client. Who holds a node depends on the seed, `clients`, `partition` and `alpha` alone.

        Partition, split and what else is drawn are each drawn by itself. Not to be split, nodes stay as they are.
        """
        if self.partition != "dirichlet" and self.alpha != Dealing.alpha:
            LOG.warning(f"{self.of}.alpha = {self.alpha:g} is of 'dirichlet' alone; partition is {self.partition!r}.")
        owner = self.owner(graph, generator(seed, "partition"))
        names = [f"{graph.name}-{k}" for k in range(self.clients)]
        return self.cut(self.split(graph, seed) if split else graph, owner, names, seed)

    def load(self, collection: Collection[Whole], seed: int, clients: int, split_seed: int | None = None) -> list[Part]:
        """Return one part per client of a user's own data, dealt and split by seeds where these do not say how.

        The split is by the hash of each example's id; there is none without a `split_seed`. The notes of the collection
        are logged. 0 `clients` are as many as the data name.
        """
        tell(collection.notes)
        names, whole = collection.client_names, collection.whole
        self.check_free(collection.split, len(names), clients)
        if split_seed is not None:
            whole = self.split_of(collection, split_seed)
            if whole.classes:
                tell(untrained_notes(whole.label, whole.classes, whole.split, whole.name))
        if not names:
            # The graph is named after its file, for errors; clients have names that are the same in every place.
            return [replace(part, name=f"graph-{k}") for k, part in enumerate(self.deal(whole, seed, split=False))]
        if not collection.parts:
            return self.cut(whole, collection.client, names, seed)
        splits = np.split(whole.split, np.cumsum([len(part.split) for part in collection.parts])[:-1])
        return [replace(part, split=each) for part, each in zip(collection.parts, splits, strict=True)]

    def split_of(self, collection: Collection[Whole], split_seed: int) -> Whole:
        """Return the examples of all clients, split by a seed and their ids, where these do not say how."""
        if collection.split:
            return collection.whole
        whole, owner = collection.whole, collection.client if collection.client_names else None
        if (known := int(is_known(whole.label).sum())) < FOLDS:
            least = f"at least {FOLDS} nodes with a label are needed, one a fold"
            raise InputError(f"{whole.name}: {least}; got {known}.")
        split = self._split_by_hash(whole, split_seed, owner)
        if len(np.unique(split[split >= 0])) < len(SPLITS):  # every client has too few, but they have enough together
            split = self._split_by_hash(whole, split_seed)
        return replace(whole, split=split)

    def owners(self, collection: Collection[Whole], seed: int) -> tuple[Array, int]:
        """Return the number of each example's client, [examples], and how many clients there are."""
        if collection.client_names:
            return collection.client, len(collection.client_names)
        return self.owner(collection.whole, generator(seed, "partition")), self.clients

    def labels_by_client(self, collection: Collection[Whole], seed: int, split_seed: int) -> list[tuple[Array, Array]]:
        """Return the label and the split of each client's examples, as `load` splits them."""
        whole = self.split_of(collection, split_seed)
        owner, clients = self.owners(collection, seed)
        return [(whole.label[own], whole.split[own]) for own in (owner == k for k in range(clients))]

    def split_site(self, part: Part, is_split: bool, split_seed: int) -> Part:
        """Return a client's own data, split by a seed and their ids unless they are."""
        self.check_free(is_split)
        return part if is_split else replace(part, split=self._split_by_hash(part, split_seed))

    def _split_by_hash(self, examples: Any, seed: int, owner: Indices | None = None) -> NDArray[np.int8]:
        """Return the split of each example by the hash of its id, in `shares`, int8 [examples]; -1 without a label."""
        known = np.flatnonzero(is_known(examples.label))
        _, *held = (int(part) / 100 for part in self.shares.split(":"))
        of = None if owner is None else owner[known]
        split = np.full(len(examples.split), -1, np.int8)
        split[known] = split_by_hash(examples.hashes()[known], seed, (held[0], held[1]), of, self.fold / FOLDS)
        return split

    def check_free(self, is_split: bool, named: int = 0, clients: int = 0) -> None:
        """Raise `InputError` for options of splitting and dealing where data say how; `named`: clients that they name.

        `clients` is the option; 0 = not said.
        """
        if is_split and self.fold:
            raise InputError(f"{self.of}.fold = {self.fold} is for data without a split; these have one.")
        if named:
            require(clients in (0, named), f"{self.of}.clients", f"{named}, as the data name, or 0", clients)
            for option, shown in (("partition", "{!r}"), ("alpha", self.alpha_shown)):
                if (value := getattr(self, option)) != getattr(type(self), option):
                    value = shown.format(value)
                    raise InputError(f"{self.of}.{option} = {value} is for data without clients; these name {named}.")

    def split(self, graph: Whole, seed: int) -> Whole:
        """Return the graph, split by the seed."""
        g = generator(seed, "split")
        return replace(graph, split=split_nodes(graph.label, self.fold, g, graph.name, self.shares))

    @abstractmethod
    def owner(self, graph: Whole, g: np.random.Generator) -> NDArray[np.int32]:
        """Return the client whose node each is, int32 [nodes]."""

    @abstractmethod
    def cut(self, graph: Whole, owner: NDArray[np.integer], names: Sequence[str], seed: int) -> list[Part]:
        """Return the part of each client, by name, from the number of each node's client, [nodes]."""


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
    if shares == SHARES[3]:
        split[held] = SPLITS.index("train")
        split[rest] = SPLITS.index("test")
        split[rest[::2]] = SPLITS.index("validation")
        return split
    split[held] = SPLITS.index("test")
    split[rest] = SPLITS.index("train")
    # Not from the first on: where five nodes leave four, one of them is for validation and the others train.
    every = FOLDS - 1 if shares == SHARES[2] else FOLDS
    split[held[1::2] if halved else rest[2::every]] = SPLITS.index("validation")
    return split


def by_key(key: Indices, keys: int) -> tuple[Indices, Indices]:
    """Return rows in the order of their keys, ties in their own, and where each key's begin.

    `key` is int64 [n], of each row, in 0..keys-1; some keys may have no row. The result is int64 [n], numbers of rows,
    and int64 [keys + 1], of which the last is n.
    """
    starts = np.zeros(keys + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=keys), out=starts[1:])
    return np.argsort(key, kind="stable"), starts


# --- communities ------------------------------------------------------------------------------------------------------


LOUVAIN_EDGES = 5_000_000
"""Most edges for communities: networkx keeps an object per edge, so that these take minutes and some gigabytes."""
SLACK = 20
"""Nodes by which clients of an even cut may differ from their share (Zhang et al., "FedSage", NeurIPS 2021: delta)."""


def communities(
    ends: Iterable[NDArray[np.integer]],
    nodes: int,
    g: np.random.Generator,
    name: str,
    instead: str,
    wanted: int = 0,
    least: int = 1,
) -> list[Indices]:
    """Return Louvain's communities, the largest first: their nodes in order, int64 each.

    Args:
        ends: whole numbers [2, edges] each, of undirected edges between nodes 0..nodes - 1.
        nodes: how many there are.
        g: draws the order in which nodes are looked at.
        name: of the graph, for messages.
        instead: the partitions to take where there are too many edges, for the error.
        wanted: how many of the first nodes communities are wanted of; others are left out of what is returned. 0 = all.
        least: communities that are needed.

    Raises:
        InputError: for more than `LOUVAIN_EDGES` edges.

    Source: Blondel et al., "Fast unfolding of communities in large networks", J. Stat. Mech. 2008, by networkx.
    Differs: where there are fewer communities than needed, the resolution (1) is doubled until there are enough.
    """
    import networkx  # takes a second

    ends = list(ends)
    if (edges := sum(each.shape[1] for each in ends)) > LOUVAIN_EDGES:
        raise InputError(
            f"communities are found in graphs of at most {LOUVAIN_EDGES:,} edges; {name} has {edges:,}. "
            f"Take partition {instead}."
        )
    network = networkx.Graph()
    network.add_nodes_from(range(nodes))
    for low, high in ends:
        network.add_edges_from(zip(low.tolist(), high.tolist(), strict=True))
    seed, resolution = int(g.integers(1 << 31)), 1
    while len(groups := _found(network, resolution, seed, wanted or nodes)) < least:
        resolution *= 2
    if resolution > 1:
        LOG.warning(f"{name}: {len(groups)} communities for {least} clients, at resolution {resolution}.")
    return sorted(groups, key=lambda each: (-len(each), each[0]))


def dealt(groups: Sequence[Indices], nodes: int, clients: int) -> NDArray[np.int32]:
    """Return the client of each node, int32 [nodes]: one community after another, each to who has the fewest so far."""
    owner = np.empty(nodes, np.int32)
    loads = [(0, k) for k in range(clients)]
    for community in groups:
        load, k = loads[0]
        owner[community] = k
        heapq.heapreplace(loads, (load + len(community), k))
    return owner


def dealt_evenly(groups: Sequence[Indices], nodes: int, clients: int) -> NDArray[np.int32]:
    """Return the client of each node, int32 [nodes], so that clients have about equal numbers.

    A community with more than nodes / clients - `SLACK` nodes is cut into pieces of so many, by the order of its nodes.
    The largest piece is dealt first, each to the client at hand, until that has its share; a client that a piece would
    bring more than `SLACK` above its share is passed over.

    Source: Zhang et al., "Subgraph Federated Learning with Missing Neighbor Generation" (FedSage), NeurIPS 2021, sec.
        4.1, as its code and OpenFGL's (Li et al., VLDB 2025) cut graphs.
    Differs: a piece that fits nowhere goes to the client with the fewest nodes.
    """
    share = nodes // clients
    most = max(1, share - SLACK)
    pieces = [community[begin : begin + most] for community in groups for begin in range(0, len(community), most)]
    owner, loads, at = np.empty(nodes, np.int32), np.zeros(clients, np.int64), 0
    for piece in sorted(pieces, key=lambda each: (-len(each), each[0])):
        turns = (np.arange(clients) + at) % clients
        fitting = turns[(loads[turns] < share) & (loads[turns] + len(piece) < share + SLACK)]
        at = int(fitting[0]) if len(fitting) else int(loads.argmin())
        owner[piece] = at
        loads[at] += len(piece)
    return owner


def _found(network: object, resolution: int, seed: int, wanted: int) -> list[Indices]:
    """Return the communities at a resolution, of the first nodes alone."""
    from networkx.algorithms.community import louvain_communities

    found = louvain_communities(network, resolution=resolution, seed=seed)
    groups = (np.array(sorted(node for node in group if node < wanted), np.int64) for group in found)
    return [group for group in groups if len(group)]
