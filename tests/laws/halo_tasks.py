"""Laws of tasks whose clients exchange hidden states of nodes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fedgraft import wire
from fedgraft.contracts import Batch, HaloRows
from fedgraft.contracts.abilities.naming import NamingTask
from fedgraft.contracts.abilities.tasks import HaloTask
from fedgraft.testing.comparison import same, travelled
from fedgraft.testing.laws import Laws, expect
from fedgraft.testing.tasks import TaskCase

LAWS: Laws[TaskCase] = Laws()
SEED = 3


@LAWS.having(HaloTask)
def opening_never_changes_what_was_prepared(case: TaskCase) -> None:
    """Keep halo states out of prepared data, whatever is done to data that were opened."""
    task, data, model = _tried(case)
    with torch.no_grad():
        before, scored = wire.pack(task.closed(data)), case.task.evaluate(model, task.opened(data, None))
        opened = task.opened(data, None)
        expect(opened is not data, "opened must return other data", "the same object")
        _used(case, task, opened, model)
        after, again = wire.pack(task.closed(data)), case.task.evaluate(model, task.opened(data, None))
    expect(after == before, "what is done to opened data must not change the prepared data's states", after, before)
    expect(again == scored, "what is done to opened data must not change prepared data", again, scored)


@LAWS.having(HaloTask)
def what_is_closed_is_what_was_opened(case: TaskCase) -> None:
    """Return from `closed` all that `opened` was given, also over the wire."""
    task, data, model = _tried(case)
    opened = task.opened(data, None)
    with torch.no_grad():
        _used(case, task, opened, model)
    states = task.closed(opened)
    for tree in (states, travelled(states)):
        closed = task.closed(task.opened(data, tree))
        expect(same(closed, states), "closed(opened(data, states)) must be states", closed, states)


@LAWS.having(HaloTask)
def states_once_closed_do_not_change(case: TaskCase) -> None:
    """Leave states that were closed as they are, whatever is done to data opened with them."""
    task, data, model = _tried(case)
    opened = task.opened(data, None)
    with torch.no_grad():
        _used(case, task, opened, model)
        states = task.closed(opened)
        before = wire.pack(states)
        for again in (opened, task.opened(data, states)):
            _used(case, task, again, case.drawn(data, seed=2))
    expect(wire.pack(states) == before, "closed states must not change", wire.pack(states), before)


@LAWS.having(HaloTask)
def rows_are_returned_once_after_they_changed(case: TaskCase) -> None:
    """Tell rows of own nodes when they changed, and not again."""
    task, data, model = _tried(case)
    opened = task.opened(data, None)
    with torch.no_grad():
        task.look(model, opened, SEED, losses=False)
    changed = task.changed(opened)
    _check_rows(task, changed, _sizes(case, task)[0])
    again = [len(rows.slot) for rows in task.changed(opened)]
    expect(not any(again), "rows that did not change must not be told again", again)


@LAWS.having(HaloTask)
def addresses_of_the_halo_are_nodes_of_others(case: TaskCase) -> None:
    """Name, for each client, nodes that other clients have."""
    able = case.able(HaloTask)
    halos = able.halos(case.published) if able.halo_widths else {}
    for client, (_, halo) in halos.items():
        expect(len(halo.owner) == len(halo.place), "each node must have an owner and a place", halo)
        others = set(halo.owner.tolist())
        expect(others <= set(halos) - {client}, f"client {client} must need nodes of others", others)
        counts = np.array([halos[owner][0] for owner in halo.owner.tolist()], np.int64)
        expect((halo.place < counts).all(), f"client {client} must need nodes that others have", halo.place, counts)


@LAWS.having(NamingTask)
def nodes_that_a_client_names_are_nodes_of_others(case: TaskCase) -> None:
    """Tell the server of all nodes of others that statistics name; of its halo's, too, where a client names any."""
    able = case.able(NamingTask)
    for client, published in case.published.items():
        named = able.named(published)
        others = {owner for each in named for owner in each.owner.tolist()}
        expect(others <= set(case.published) - {client}, f"client {client} must name nodes of others", others)
        halos = case.task.ability(HaloTask)
        if named and halos and halos.halo_widths:
            told = {pair for each in named for pair in zip(each.owner.tolist(), each.place.tolist(), strict=True)}
            halo = halos.halos(case.published)[client][1]
            needed = set(zip(halo.owner.tolist(), (halo.place // able.copies).tolist(), strict=True))
            expect(needed <= told, f"client {client} must name the nodes of its halo", needed - told)


@LAWS.having(HaloTask)
def what_a_step_reads_lies_in_the_halo(case: TaskCase) -> None:
    """Name slots of the halo, ascending, for every layer."""
    task, data, _ = _tried(case)
    _, size = _sizes(case, task)
    draw = Batch(case.task.blocks(data)[0], seed=SEED)
    if not task.halo_widths:
        return
    read = task.read(task.opened(data, None), draw)
    expect(len(read) == len(task.halo_widths), "there must be slots for every layer", len(read))
    for slots in read:
        expect(slots.dtype == np.int64, "slots must be int64", slots.dtype)
        expect((np.diff(slots) > 0).all(), "slots must ascend", slots)
        expect(not len(slots) or 0 <= slots[0] <= slots[-1] < size, f"slots must lie in a halo of {size}", slots)


@LAWS.having(HaloTask)
def a_look_returns_a_loss_per_example_where_they_are_wanted(case: TaskCase) -> None:
    """Return losses as float32 [examples]; none need come where none are wanted."""
    task, data, model = _tried(case)
    with torch.no_grad():
        losses = task.look(model, task.opened(data, None), SEED, losses=True)
        unasked = task.look(model, task.opened(data, None), SEED, losses=False)
    expect(losses.dtype == np.float32, "losses must be float32", losses.dtype)
    count = case.task.examples(data)
    expect(losses.shape == (count,), f"there must be {count} losses", losses.shape)
    expect(np.isfinite(losses).all(), "losses must be finite", losses)
    expect(unasked.shape in ((0,), losses.shape), "there must be no losses, or all", unasked.shape)


@LAWS.having(HaloTask)
def rows_relayed_to_score_a_model_are_of_own_nodes(case: TaskCase) -> None:
    """Tell rows of one layer after the other."""
    task, data, model = _tried(case)
    opened = task.opened(data, None)
    nodes, _ = _sizes(case, task)
    with torch.no_grad():
        for layer in range(len(task.halo_widths)):
            rows = task.relay(model, opened, layer)
            if rows:
                _check_rows(task, rows, nodes)
                others = [len(each.slot) for number, each in enumerate(rows) if number != layer]
                expect(not any(others), f"only rows of layer {layer} may be relayed", others)


def _tried(case: TaskCase) -> tuple[HaloTask[Any, Any], Any, torch.nn.Module]:
    """The task, a client's data as published statistics make them, and a model."""
    data = case.set_up()
    return case.able(HaloTask), data, case.drawn(data)


def _used(case: TaskCase, task: HaloTask[Any, Any], opened: Any, model: torch.nn.Module) -> None:
    """Do to opened data all that a round does."""
    g = np.random.default_rng(SEED)
    _, size = _sizes(case, task)
    slots = np.arange(size, dtype=np.int64)
    rows = [HaloRows(slots, g.standard_normal((size, width)).astype(np.float32)) for width in task.halo_widths]
    task.receive(opened, rows)
    task.look(model, opened, SEED, losses=True)
    case.task.loss(model.eval(), opened, Batch(case.task.blocks(opened)[0], seed=SEED), None)
    task.changed(opened)


def _sizes(case: TaskCase, task: HaloTask[Any, Any]) -> tuple[int, int]:
    """How many nodes the client that is tried has, and how many its halo has."""
    if not task.halo_widths:
        return 0, 0
    nodes, halo = task.halos(case.published)[0]
    return nodes, len(halo.owner)


def _check_rows(task: HaloTask[Any, Any], changed: Sequence[HaloRows], nodes: int) -> None:
    expect(len(changed) == len(task.halo_widths), "there must be rows for every layer", len(changed))
    for rows, width in zip(changed, task.halo_widths, strict=True):
        expect(rows.slot.dtype == np.int64, "slots must be int64", rows.slot.dtype)
        expect((np.diff(rows.slot) > 0).all(), "slots must ascend", rows.slot)
        within = not len(rows.slot) or 0 <= rows.slot[0] <= rows.slot[-1] < nodes
        expect(within, f"slots must be of the client's {nodes} nodes", rows.slot)
        expect(rows.rows.dtype == np.float32, "rows must be float32", rows.rows.dtype)
        fit = rows.rows.shape == (len(rows.slot), width)
        expect(fit, f"there must be a row of width {width} for every slot", rows.rows.shape, rows.slot.shape)
