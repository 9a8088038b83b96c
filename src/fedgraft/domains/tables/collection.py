"""What a user's own tables or objects are read into, before it is dealt to clients."""

import logging
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from fedgraft.contracts.values import SPLITS, Indices
from fedgraft.domains.tables.schema import Names

LOG = logging.getLogger("fedgraft.data")

Whole = TypeVar("Whole")


@dataclass(frozen=True, eq=False)
class Collection(Generic[Whole]):
    """The data of all clients together.

    Args:
        whole: all of it, in no split where none was given.
        client: int64 [examples]; client_names: one per client; none where the data name no clients.
        split: whether a split was given.
        notes: what was left out, for people to read.
        feature_names: of the columns of features, where they have names.
        parts: of the clients, where each came in a file of its own; else none.
    """

    whole: Whole
    client: Indices
    client_names: tuple[str, ...]
    split: bool
    notes: tuple[str, ...]
    feature_names: tuple[str, ...] = ()
    parts: tuple[Whole, ...] = ()

    def tell(self) -> None:
        """Log the notes."""
        for note in self.notes:
            LOG.warning(note)


def columns_of(found: Collection[Any], names: Names) -> dict[str, Any]:
    """Return columns that say the label of each example and, where the data said them, its client and its split."""
    whole = found.whole
    named_classes = [whole.classes[label] if label >= 0 else None for label in whole.label] if whole.classes else None
    columns = {names["label"]: whole.label if named_classes is None else named_classes}
    if found.client_names:
        columns[names["client"]] = np.array(found.client_names, dtype=object)[found.client]
    if found.split:
        columns[names["split"]] = [SPLITS[split] if split >= 0 else None for split in whole.split]
    return columns
