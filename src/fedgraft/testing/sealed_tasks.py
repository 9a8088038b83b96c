"""Laws of tasks whose clients tell each other rows by way of a server that cannot read them."""

import numpy as np

from fedgraft.contracts.sealing import SealedTask
from fedgraft.contracts.task_abilities import HaloTask
from fedgraft.testing.comparison import same
from fedgraft.testing.laws import Laws, expect
from fedgraft.testing.task_cases import TaskCase
from fedgraft.wire.buffers import bytes_of_rows
from fedgraft.wire.layouts import Arrays
from fedgraft.wire.sealed_rows import RowSeal
from fedgraft.wire.tokens import SECRET_BYTES

LAWS: Laws[TaskCase] = Laws()
SEAL = RowSeal(bytes(SECRET_BYTES), "law")


@LAWS.having(SealedTask)
def sealed_rows_are_handed_on_as_they_are(case: TaskCase) -> None:
    """Accept and combine rows that cannot be read; by their places, whoever gets them opens what was published."""
    task = case.task
    assert isinstance(task, SealedTask)
    if not task.seals:
        return
    expect(bool(task.handed_on) or isinstance(task, HaloTask), "rows must be handed on where they are sealed", "none")
    told, handed_on = task.combine(case.published), set(task.handed_on)
    combined = task.combine({client: _sealed(task, client, each) for client, each in case.published.items()})
    for client, shard in enumerate(case.shards):
        places = task.received_places(client, shard, combined[client])
        for name, array in told[client].items():
            got = combined[client][name]
            if name in handed_on:
                opened = SEAL.opened(name, places[name], got)
                alike = np.array_equal(opened, bytes_of_rows(array))
                expect(alike, f"rows of {name} must be handed on as they are", opened.shape, array.shape)
            else:
                expect(same(got, array), f"{name} must not depend on what is sealed", got, array)


@LAWS.having(SealedTask)
def addresses_of_the_halo_are_known_from_the_shard(case: TaskCase) -> None:
    """Tell of a shard the nodes whose states a client is told, as `halos` has them of what it publishes."""
    task = case.task
    assert isinstance(task, SealedTask)
    if not task.seals or not isinstance(task, HaloTask) or not task.halo_widths:
        return
    for client, (_, halo) in task.halos(case.published).items():
        known = task.halo_of(case.shards[client])
        alike = np.array_equal(known.owner, halo.owner) and np.array_equal(known.place, halo.place)
        expect(alike, f"halo_of client {client} must be its halo", known, halo)


def _sealed(task: SealedTask[object, object], client: int, published: Arrays) -> Arrays:
    """What a client publishes, sealed; the task's own check has accepted it."""
    places = task.sent_places(client, published)
    rows = {name: SEAL.sealed(name, places[name], bytes_of_rows(published[name])) for name in task.handed_on}
    task.check({**published, **rows})
    return {**published, **rows}
