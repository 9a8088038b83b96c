"""Edges of graphs to classify that carry what those of a client's training do."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from fedgraft.domains.edge_data.edge_columns import DIRECTED, LEFT_OUT, NO_COLUMNS, CarriedRows, EdgeReader, Values
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.features import some
from fedgraft.domains.tables.schema import Names
from fedgraft.domains.tables.transforms import Transforms
from fedgraft.tables.table_files import Given


@dataclass(frozen=True)
class AskedReader(EdgeReader):
    """Reads edges of questions; `made`: a data set has made columns "0", "1" ... of them, and has left rows out."""

    made: bool = False


def asked_reader(trained: GraphShard, edges: Given, owner: str) -> tuple[Names, AskedReader | None]:
    """({role: name} of columns that edges must have, how they are read), as those of a client's training carry it.

    Of a data set that makes nothing of tables columns have the names of the shard's: where these are of the form
    "NAME=VALUE" the column NAME has the values as text. `owner` is what notes call the table.
    """
    if (rows := trained.edge_rows) is None:
        return {}, None
    made, directed = False, not rows.along.all()
    if isinstance(edges, pd.DataFrame) and LEFT_OUT in edges:
        made, directed = True, bool(edges[DIRECTED].any())
    values: dict[str, list[str]] = {}
    for name in () if made else trained.edge_names:
        column, is_text, value = name.partition("=")
        values.setdefault(column, []).extend([value] * bool(is_text))
    texts = {column: {"values": each} for column, each in values.items() if each}
    columns = tuple(values) or tuple(map(str, range(rows.width)))
    names = {**NO_COLUMNS, "edge_features": columns, "weight": "weight" * (rows.weight is not None)}
    make = partial(_values, transforms=Transforms(texts), where=f"{owner}.edges: ")
    return names, AskedReader(make, directed, "keep" if made else "last", tuple(texts), made=made)


def _values(carried: CarriedRows, transforms: Transforms, where: str) -> Values:
    """What a model reads of rows, float32 [edges, width]; a note says which values training had not."""
    for name, texts in carried.columns.texts.items():
        known = transforms.by_name[name]["values"]
        told = ["nothing" if text is None else text for text in texts]
        if new := sorted({*told} - {*known}):
            count = sum(text in new for text in told)
            tell([f"{where}{count:,} edges whose {name!r} is unseen in training ({some(new)}) count as of none."])
    return np.asarray(transforms.dense(carried.columns), np.float32)
