"""The TU sets of graphs, with a class or a number each: a client is a set of a group, or a share of one set."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from fedgraft.contracts.data import Data
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import NonNegativeInt, PositiveFloat
from fedgraft.domains.graphs.shards import FEWEST, GraphShard, check_labels, deal, split_graphs, stratified
from fedgraft.domains.graphs.tu_files import read_set, sets_in
from fedgraft.domains.graphs.tu_sets import NUMBERED, SETS, SETTINGS
from fedgraft.errors import InputError, nearest, require

SHARES = 10
"""Clients of a single set, unless given: those of CEFGL's tables for DD, NCI1 and IMDB-BINARY."""


@dataclass(frozen=True)
class TU(Data[GraphShard]):
    """Graph classification on TU sets, or own ones in their layout: a client is a whole set, or a share of one.

    Source: Morris et al., "TUDataset", GRL+ at ICML 2020 (chrsmrrs.com): free for research, citation asked, no licence
    stated, so fedgraft does not ship it; groups and settings of CEFGL, as its recipe's page says.
    Differs: loops and repeated edges are left out; features as `attributes` says, unscaled.

    Groups (clients in this order): chem = MUTAG, BZR, COX2, DHFR, PTC_MR, AIDS, NCI1; bio = ENZYMES, DD, PROTEINS;
    sn = COLLAB, IMDB-BINARY, IMDB-MULTI; cv = Letter-low, Letter-high, Letter-med; and sn_cv, chem_bio, chem_bio_sn,
    bio_sn_cv, all. Each of these, and each set ("nci1", "ptc_mr", "imdb_binary", "letter_low" ...), is a data name too.

    Sets with numbers, each dealt as a single set: alchemy_full (12 numbers a graph), qm9 (19), zinc_full (1).

    Args:
        root: folder with one folder per set, as the archives unpack (NAME/NAME_A.txt) or as PyG lays them out
            (NAME/raw/NAME_A.txt). COLLAB may also be a COLLAB.zip with one block of lines per graph, there or in
            ../COLLAB_txt.
        sets: a group, a setting or a set; or the name of a folder of `root`, any set of the collection or an own one in
            its layout, such as "MYSET" for MYSET/MYSET_A.txt.
        clients: 0 (default) is one per set of a group, or 10 shares of a single set; else how many shares.
        partition: how a single set is dealt: "iid", at random in equal numbers, or "dirichlet".
        alpha: of the Dirichlet distribution over clients, drawn for each class, > 0; 0.5 is usual, smaller is more
            uneven. A draw that leaves a client with one class or fewer than three graphs is repeated.
        attributes: "auto" takes a node's attributes only where it has no label; "always" and "never" say it. Without
            labels and attributes a node's degree is its one-hot feature.
        edge_features: what edges of a single set carry: "labels" (NAME_edge_labels.txt, a column of 0 and 1 for each
            number from the lowest to the highest), "attributes" (NAME_edge_attributes.txt, unscaled) or "all", both
            where the set has both; "" (default) = nothing.
        max_graphs: most graphs per set, >= 3; 0 (default) takes all. For small machines: a random part, stratified by
            class, so results are not those of the set.
        labels: "classes", for the task `graph`; or "numbers", for `graph_regression`, which sets it, with one of the
            three sets, or an own one, that has some.
        number: which of a graph's numbers is its label, counted from 0.
    """

    task: ClassVar[str] = "graph"
    other_tasks: ClassVar[Mapping[str, Mapping[str, Any]]] = {"graph_regression": {"labels": "numbers"}}

    root: Path
    sets: str = "chem"
    clients: NonNegativeInt = 0
    partition: Literal["iid", "dirichlet"] = "iid"
    alpha: PositiveFloat = 0.5
    attributes: Literal["auto", "always", "never"] = "auto"
    edge_features: Literal["", "labels", "attributes", "all"] = ""
    max_graphs: int = 0
    labels: Literal["classes", "numbers"] = "classes"
    number: NonNegativeInt = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_sets()
        sound = self.max_graphs == 0 or self.max_graphs >= FEWEST
        require(sound, "TU.max_graphs", f"0 (all) or at least {FEWEST}", self.max_graphs)
        if self.sets in SETTINGS:
            own = len(SETTINGS[self.sets])
            allowed = f"0 or {own}, one for each set of {self.sets!r}"
            require(self.clients in (0, own), "TU.clients", allowed, self.clients)
            if self.edge_features:
                raise InputError(
                    f"TU.edge_features = {self.edge_features!r} is for a single set; {self.sets!r} has {own}, whose "
                    "edges carry other columns, and one model reads the same of all."
                )
            if self.partition != "iid":
                raise InputError(f"TU.partition = {self.partition!r} is for a single set; {self.sets!r} has {own}.")

    def load(self, seed: int) -> list[GraphShard]:
        """Load one shard per client, dealt and split by `seed`."""
        if self.sets in SETTINGS:
            shards = [self._set(name, seed, place) for place, name in enumerate(SETTINGS[self.sets])]
        else:
            whole = self._set({**SETS, **NUMBERED}.get(self.sets, self.sets), seed, 0)
            alpha = self.alpha if self.partition == "dirichlet" else None
            g = generator(seed, "partition")
            dealt = deal(whole.label, self.clients or SHARES, alpha, g, whole.name)
            shards = [replace(whole.take(rows), name=f"{whole.name}-{k}") for k, rows in enumerate(dealt)]
        splits = [split_graphs(shard.label, generator(seed, "split", client=k)) for k, shard in enumerate(shards)]
        return [replace(shard, split=split) for shard, split in zip(shards, splits, strict=True)]

    def _check_sets(self) -> None:
        """Raise `InputError` for a name that is neither known nor that of a set in the folder, if that can be seen."""
        known = (*SETTINGS, *SETS) if self.labels == "classes" else tuple(NUMBERED)
        others = {*SETTINGS, *SETS, *NUMBERED}.difference(known)
        there, name = sets_in(Path(self.root)), self.sets
        if name in known or name in there:
            return
        near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.8)
        if name in others or Path(self.root).is_dir() or near:  # a folder that has moved is looked for later
            own = f", or a set in {self.root}, {', '.join(map(repr, there[:20]))}" if there else ""
            listed = ", ".join(map(repr, known))
            raise InputError(f"TU.sets must be one of {listed}{own}; got {name!r}.{nearest(name, [*known, *there])}")

    def _set(self, name: str, seed: int, place: int) -> GraphShard:
        whole = read_set(
            Path(self.root), name, self.attributes, self.number, self.labels == "numbers", self.edge_features
        )
        if not 0 < self.max_graphs < whole.graphs:
            return whole
        part = whole.take(stratified(whole.label, self.max_graphs, generator(seed, "subset", client=place)))
        check_labels(part)
        return part
