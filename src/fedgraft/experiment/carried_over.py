"""What a run takes over of another one: clients' own parameters, and rows of own tables that training has seen.

No score of a later run may be of these:

seen.npy    uint64 [rows], ascending: the hash of what each row is called, but for the last two bits. These say whether
            the run was trained on it, and whether a model that it began with was.
"""

import io
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft import wire
from fedgraft.contracts import Halo
from fedgraft.contracts.data import KnownRows
from fedgraft.contracts.values import SPLITS
from fedgraft.engine.plan import Plan
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Arrays, Tree

LOG = logging.getLogger("fedgraft.data")
_TRAINED, _BEFORE = np.uint64(1), np.uint64(2)
_NAME: Final = ~np.uint64(3)
"""Bits of a hash that name the row."""

Hashes = NDArray[np.uint64]
OWN: Final = ":clients"
"""Name under which they are stored beside shared parameters; no parameter has a colon."""
Own = Mapping[int, Mapping[str, Tree]]
"""{client: what of its memory it begins with}."""


def rows_of(shards: Sequence[Any], before: Hashes | None) -> Hashes:
    """Return what `seen.npy` holds of clients' data; `before` are rows that were trained on before, by their names."""
    before = np.zeros(0, np.uint64) if before is None else before
    told = [shard.parted() for shard in shards if isinstance(shard, KnownRows)]
    rows = [(hashes & _NAME) | np.where(split == 0, _TRAINED, np.uint64(0)) for hashes, split in told]
    every = np.unique(np.concatenate([*rows, before]))
    names, first = np.unique(every & _NAME, return_index=True)
    every = np.bitwise_or.reduceat(every, first) if len(every) else every
    return np.asarray(every | np.where(np.isin(names, before), _BEFORE, np.uint64(0)), np.uint64)


def content_of(rows: Hashes) -> bytes:
    """Return rows as the content of a file."""
    file = io.BytesIO()
    np.save(file, rows, allow_pickle=False)
    return file.getvalue()


def rows_in(content: bytes, where: object) -> Hashes:
    """Return the rows that the content of a file says; `where` that is, for errors."""
    try:
        rows = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{where} is damaged: it holds no array.") from error
    if not isinstance(rows, np.ndarray) or rows.dtype != np.uint64 or rows.ndim != 1:
        raise InputError(f"{where} is damaged: it does not hold hashes of rows.")
    return rows


def seen_before(rows: Hashes) -> Hashes:
    """Return the names of the rows that a model was trained on with which the run began."""
    return np.asarray(rows[(rows & _BEFORE) > 0] & _NAME, np.uint64)


def seen_at_end(rows: Hashes) -> Hashes:
    """Return the names of the rows that the model with which the run ended was trained on."""
    return np.asarray(rows[(rows & ~_NAME) > 0] & _NAME, np.uint64)


def new_rows(shards: Sequence[Any], rows: Hashes) -> tuple[int, int]:
    """Return how many rows clients have that a run did not have, and how many rows they have."""
    names = [shard.parted()[0] & _NAME for shard in shards if isinstance(shard, KnownRows)]
    every = np.unique(np.concatenate([np.zeros(0, np.uint64), *names]))
    return int((~np.isin(every, rows & _NAME)).sum()), len(every)


def untested(shards: Sequence[Any], seen: Hashes) -> Sequence[Any]:
    """Return clients' data without rows for validation or test that were trained on before; a note counts them."""
    names = [_named(shard, seen) for shard in shards]
    kept, counts = zip(*names, strict=True) if names else ((), ())
    if not (count := sum(counts)):
        return shards
    LOG.warning(
        f"{count:,} rows that are for validation or test here were trained on by the run that this one begins with: "
        "no score is of them."
    )
    for number, split in enumerate(SPLITS):
        had, has = (any((each.parted()[1] == number).any() for each in every) for every in (shards, kept))
        if had and not has:
            raise InputError(
                f"No row is left for {split}: all were trained on by the run that this one begins with. Give rows "
                "that are new, or begin without --from."
            )
    return list(kept)


def _named(shard: Any, seen: Hashes) -> tuple[Any, int]:
    """The shard without seen rows, whose hashes lack the last bits, for validation or test, and how many they are."""
    if not isinstance(shard, KnownRows):
        return shard, 0
    hashes = shard.parted()[0]
    return shard.untested(hashes[np.isin(hashes & _NAME, seen)])


def inherited(plan: Plan, memory: Mapping[str, Any]) -> dict[str, Tree]:
    """Return what a client of a run that has ended hands on: its best private parameters, and those of its sharing."""
    kept = memory["best"]["arrays"] if memory.get("best") else memory.get("private", {})
    private = {name: array for name, array in kept.items() if not plan.travels(name)}
    sharing = plan.owned.inherited(memory.get("sharing")) if plan.owned else None
    parts = {"private": private or None, "sharing": sharing}
    return {name: value for name, value in parts.items() if value is not None}


def fitting(plan: Plan, names: Sequence[str], own: Mapping[str, Mapping[str, Tree]]) -> Own:
    """Return what clients begin with of what another run's hand on, where it fits them.

    Where models differ by client, whoever asks knows that the shapes are those of the same kinds and classes.

    Args:
        plan: of the run that begins.
        names: of its clients.
        own: {name of a client: as `inherited` returns it}, of others too.
    """
    wanted = {name: array.shape for name, array in plan.build_model().initial.items() if not plan.travels(name)}
    by_client: dict[int, Mapping[str, Tree]] = {}
    for number, name in enumerate(names):
        private: Any = own.get(name, {}).get("private", {})
        had = {each: array.shape for each, array in private.items()}
        if own.get(name) and (wanted.keys() == had.keys() if plan.variants else wanted == had):
            by_client[number] = own[name]
    return by_client


def joined(shared: Arrays, own: Own) -> Arrays:
    """Return shared parameters and what clients begin with as the arrays of one file."""
    if not own:
        return shared
    packed = wire.pack({str(client): dict(memory) for client, memory in own.items()})
    return {**shared, OWN: np.frombuffer(packed, np.uint8)}


def parted(arrays: Arrays) -> tuple[Arrays, Own]:
    """Return what `joined` was given."""
    shared = {name: array for name, array in arrays.items() if name != OWN}
    own: Any = wire.unpack(arrays[OWN].tobytes()) if OWN in arrays else {}
    return shared, {int(client): memory for client, memory in own.items()}


@dataclass(frozen=True)
class WarmStart:
    """What a run begins with of another one, beside the shared parameters, which are the plan's.

    Args:
        own: what clients begin with of their own, {} for nothing.
        spent: the claim of privacy of that run, {} for none.
        seen: hashes of rows that its model was trained on: no score is of them; None = none.
    """

    own: Own = field(default_factory=dict)
    spent: Mapping[str, Any] = field(default_factory=dict)
    seen: Hashes | None = None

    def unseen(self, shards: Sequence[Any]) -> Sequence[Any]:
        """Return clients' data without rows that no score may be of."""
        return shards if self.seen is None else untested(shards, self.seen)


@dataclass(frozen=True)
class Joined:
    """What clients have sent before the run, {client: (bytes down, bytes up)}, and what came of it.

    Args:
        agreement: to agree on how data are read.
        matching: to join edges between them.
        neighbours: nodes of others that each client's were joined to, None where nobody knows.
    """

    agreement: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    matching: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    neighbours: Mapping[int, Halo] | None = None
