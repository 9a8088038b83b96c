"""Laws of tasks whose clients tell each other rows by way of a server that cannot read them."""

import numpy as np

from fedgraft.contracts.abilities.row_encryption import EncryptedRowsTask
from fedgraft.contracts.abilities.tasks import HaloTask, PublishingTask
from fedgraft.contracts.values import Indices
from fedgraft.testing.comparison import same
from fedgraft.testing.laws import Laws, expect
from fedgraft.testing.tasks import TaskCase
from fedgraft.wire.buffers import bytes_of_rows
from fedgraft.wire.layouts import Array, Arrays

LAWS: Laws[TaskCase] = Laws()


@LAWS.having(EncryptedRowsTask)
def encrypted_rows_are_handed_on_as_they_are(case: TaskCase) -> None:
    """Accept and combine rows that cannot be read; whoever gets one knows its place as its owner does."""
    able = case.able(EncryptedRowsTask)
    if not able.seals:
        return
    expect(
        bool(able.handed_on) or case.task.ability(HaloTask), "rows must be handed on where they are encrypted", "none"
    )
    told, handed_on = case.told, set(able.handed_on)
    encrypted = {client: _encrypted(case, able, client, each) for client, each in case.published.items()}
    combined = case.able(PublishingTask).combine(encrypted)
    for client, shard in enumerate(case.shards):
        places = able.received_places(client, shard, combined[client])
        for name, array in told[client].items():
            wanted = _opaque(places[name], array) if name in handed_on else array
            got = combined[client][name]
            expect(same(got, wanted), f"{name} must be handed on as it is, with the owner's places", got, wanted)


@LAWS.having(EncryptedRowsTask)
def addresses_of_the_halo_are_known_from_the_shard(case: TaskCase) -> None:
    """Tell of a shard the nodes whose states a client is told, as `halos` has them of what it publishes."""
    able = case.able(EncryptedRowsTask)
    halos = case.task.ability(HaloTask)
    if not able.seals or not halos or not halos.halo_widths:
        return
    for client, (_, halo) in halos.halos(case.published).items():
        known = able.halo_of(case.shards[client])
        alike = np.array_equal(known.owner, halo.owner) and np.array_equal(known.place, halo.place)
        expect(alike, f"halo_of client {client} must be its halo", known, halo)


def _encrypted(case: TaskCase, able: EncryptedRowsTask[object], client: int, published: Arrays) -> Arrays:
    """What a client publishes, with bytes in place of rows; the task's own check accepts them."""
    places = able.sent_places(client, published)
    encrypted = {**published, **{name: _opaque(places[name], published[name]) for name in able.handed_on}}
    case.able(PublishingTask).check(encrypted)
    return encrypted


def _opaque(places: Indices, rows: Array) -> Array:
    """Bytes of each row that tell its place, uint8 [rows, bytes]."""
    return np.concatenate([bytes_of_rows(places), bytes_of_rows(rows)], axis=1)
