"""Eight published graphs of several types of nodes, cut over clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pandas as pd

from fedgraft.contracts.data import Data
from fedgraft.contracts.option_groups import Grouped
from fedgraft.contracts.ranges import OneOf, PositiveInt
from fedgraft.domains.typed.partitions import TypedPartition, with_features
from fedgraft.domains.typed.published_sets import SETS, read_set
from fedgraft.domains.typed.shards import TypedGraph
from fedgraft.tables.table_files import Given


@dataclass(frozen=True)
class TypedSets(Data[TypedGraph], Grouped):
    """Classification of the nodes of one type in a published graph of several types, cut over clients.

    Source: Wang et al., "HeCo", KDD 2021 (acm, dblp, aminer, freebase, as its authors published them); Hu et al.,
    "HeGAN", KDD 2019 (yelp); Zhang et al., "HetGNN", KDD 2019 (academic); movie_metadata.csv, cut as in Fu et al.,
    "MAGNN", WWW 2020 (imdb); Zhao et al., "NSHE", IJCAI 2020 (imdb_nshe). No licence is stated for any; fedgraft ships
    none of them.
    Differs: split by five folds, not as published. Features of other types than the target's are not read. Sets without
    features of target nodes get some of what each client holds (`structural_features`).

    Each set's name is a data name too. Files are only read.

    Args:
        root: the set's folder, or one above it: DIR, DIR/HeCo or DIR/HeCo/acm.
        set: acm, dblp, aminer, freebase, yelp, academic, imdb or imdb_nshe.
        clients: over how many the target nodes are dealt, >= 1; 10, 20 and 30 in RAFHGL.
    """

    task: ClassVar[str] = "typed_node"

    root: Path
    set: Annotated[str, OneOf(SETS)] = "acm"
    clients: PositiveInt = 20
    dealt_by: TypedPartition = field(default=TypedPartition(), kw_only=True)

    def load(self, seed: int) -> list[TypedGraph]:
        """Load one shard per client, dealt and split by `seed`."""
        parts = self.dealt_by.dealing("TypedSets", self.clients).deal(read_set(Path(self.root), self.set), seed)
        return [with_features(part) for part in parts]

    def questions(
        self, task: Any, tables: Mapping[str, pd.DataFrame], own: Mapping[str, Given]
    ) -> dict[str, pd.DataFrame]:
        """Return the tables, and one that says so where features are made of what a client holds."""
        made = {} if SETS[self.set].has_features else {"features": pd.DataFrame({"name": []}, dtype=object)}
        return {**tables, **made}
