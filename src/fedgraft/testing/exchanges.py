"""Laws of exchanges: what leaves a client."""

from typing import Any

import numpy as np

from fedgraft.contracts.exchange import Exchange
from fedgraft.contracts.values import HaloRows
from fedgraft.testing.laws import Law, Laws, check, check_form, expect
from fedgraft.wire.layouts import Array

LAWS: Laws[Exchange] = Laws()


def check_exchange(cls: type[Exchange], /, **options: Any) -> None:
    """Hold an exchange with these options to all laws.

    Raises `AssertionError` with the class, the law and what was seen.
    """
    check(laws(cls, **options))


def laws(cls: type[Exchange], /, **options: Any) -> list[Law[Exchange]]:
    """Return the laws of an exchange with these options, to be called one by one."""
    return LAWS.held(cls, lambda: cls(**options))


def _rows(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((6, 4)).astype(np.float32)


@LAWS.every
def is_frozen_and_documented(exchange: Exchange) -> None:
    """Be a frozen dataclass whose documentation explains its options."""
    check_form(type(exchange), Exchange)


@LAWS.every
def options_are_such_as_tasks_know(exchange: Exchange) -> None:
    """Have counts of 0 or more, a way to pull that there is, and nothing encrypted where nothing is shared."""
    expect(exchange.neighbours >= 0 and exchange.halo >= 0, "counts must be >= 0", exchange.neighbours, exchange.halo)
    expect(exchange.pull in ("changed", "asked"), "pull must be 'changed' or 'asked'", exchange.pull)
    shared = exchange.features or exchange.states or exchange.history
    expect(shared or not exchange.encrypted_rows, "nothing is shared that could be encrypted")


@LAWS.every
def what_leaves_has_the_form_of_what_is_there(exchange: Exchange) -> None:
    """Return finite float32 rows of the same nodes and width, and change nothing of what was given."""
    published, sent = exchange.published(_rows(0)), exchange.sent([HaloRows(np.arange(6), _rows(1))])
    expect(len(sent) == 1 and sent[0].slot.tolist() == list(range(6)), "states must be of the same nodes", sent)
    for rows in (published, sent[0].rows):
        sound = rows.shape == (6, 4) and rows.dtype == np.float32 and np.isfinite(rows).all()
        expect(sound, "rows must keep shape and type", rows)
    given = _rows(0)
    exchange.published(given)
    expect(np.array_equal(given, _rows(0)), "a client's own features must stay as they were", given)


@LAWS.every
def what_leaves_of_a_node_depends_on_no_other(exchange: Exchange) -> None:
    """Return of a row by itself what is returned of it among others."""
    every = _rows(0)
    each = np.concatenate([exchange.published(every[node : node + 1]) for node in range(6)])
    expect(np.allclose(each, exchange.published(every)), "features must leave row by row", each)
    states = [exchange.sent([HaloRows(np.array([node]), every[node : node + 1])])[0].rows for node in range(6)]
    together = exchange.sent([HaloRows(np.arange(6), every)])[0].rows
    expect(np.allclose(np.concatenate(states), together), "states must leave row by row", states)
