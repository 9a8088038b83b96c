"""Laws of tasks that add statistics up, or tell counts and means."""

import numpy as np

from fedgraft.contracts.abilities.counting import CountedTask
from fedgraft.contracts.abilities.summed_statistics import SummedTask
from fedgraft.contracts.capabilities import COUNTED
from fedgraft.testing.laws import Laws, expect
from fedgraft.testing.tasks import TaskCase
from fedgraft.wire.layouts import Layout

LAWS: Laws[TaskCase] = Laws()


@LAWS.having(CountedTask)
def the_smallest_group_is_no_larger_than_all_examples(case: TaskCase) -> None:
    """Say over how few examples counts are, of each word that there is."""
    able = case.able(CountedTask)
    for shard in case.shards:
        for word in sorted(COUNTED):
            count, every = able.fewest(shard, frozenset({word})), len(shard.rows("train"))
            fit = min(1, every) <= count <= every
            expect(fit, f"the fewest examples behind {word!r} must be of {every} at most", count)


@LAWS.having(SummedTask)
def what_clients_add_has_the_layout_that_was_agreed_on(case: TaskCase) -> None:
    """Add arrays of the layout, and get back those of another; no unit's part is longer than it may be."""
    able = case.able(SummedTask)
    for shard in case.shards:
        for unit in able.units if able.summed_layout.specs else ():
            rows = np.concatenate([np.zeros(0, np.int64), *able.units_of(shard, unit)])
            expect(np.array_equal(np.sort(rows), shard.rows("train")), "each example must be of one unit", rows)
            expect(len(able.left_out(shard, rows).rows("train")) == 0, "what is left out must be in no split", rows)
    for unit in ("", *able.units) if able.summed_layout.specs else ():
        parts = [able.summed(shard, unit, 1.0) for shard in case.shards]
        for arrays in parts:
            shapes = {name: array.shape for name, array in arrays.items()}
            agreed = {spec.name: spec.shape for spec in able.summed_layout}
            expect(shapes == agreed, f"what is added must have the shapes {agreed}", shapes)
        total = {name: np.stack([part[name] for part in parts]).sum(axis=0).astype(np.float32) for name in parts[0]}
        told = Layout.of(able.from_sum(total, unit, 1.0, 0.5))
        expect(told.names == able.combined_layout.names, "what comes back must be as agreed", sorted(told.names))
