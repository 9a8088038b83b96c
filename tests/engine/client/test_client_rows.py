"""A client's end of rows that are encrypted: what it opens, what it refuses, what it keeps."""

from typing import Any

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts.values import HaloRows
from fedgraft.engine.client.client_rows import OPEN, ClientRows, common_in, shared_in
from fedgraft.engine.halo_codec import HaloCodec
from fedgraft.engine.plan import HALO
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import WireError
from fedgraft.wire import Message
from fedgraft.wire.encrypted_rows import TAG_BYTES, RowSeal
from helpers.node_runs import small

SEAL = RowSeal(bytes(range(32)), "run")


def g() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def case() -> tuple[Any, Any]:
    experiment, shards = small(exchange__encrypted_rows=True, rows__name="float16")
    return experiment.plan, shards


def ends(case: tuple[Any, Any], seal: RowSeal = SEAL) -> ClientRows:
    return ClientRows(*case, seal)


def set_up_of(case: tuple[Any, Any], seal: RowSeal = SEAL) -> bytes:
    """What client 0 is sent when all have published."""
    plan, shards = case
    rows = ends(case, seal)
    told = plan.task.publications.combine(
        {
            client: rows.published(client, plan.task.publications.statistics(shard), g())
            for client, shard in enumerate(shards)
        }
    )
    return wire.encode(Message("statistics", arrays=dict(told[0])), Protocol.of(plan).request_layouts["statistics"])


def test_what_is_published_is_bytes_and_comes_back(case: tuple[Any, Any]) -> None:
    plan, shards = case
    width = next(spec.shape[1] for spec in plan.task.publications.statistics_layout if spec.name == "features")
    known = {spec.name: (spec.dtype, spec.shape[1:]) for spec in plan.statistics_layout}
    assert known["features"] == ("uint8", (TAG_BYTES + 2 * width,))
    assert known["degree"] == ("uint8", (TAG_BYTES + 4,))
    plain = plan.task.publications.combine(
        {k: plan.task.publications.statistics(shard) for k, shard in enumerate(shards)}
    )[0]
    for seal in (SEAL, OPEN):
        shared = ends(case, seal).shared_in(0, set_up_of(case, seal))
        assert shared["degree"].tolist() == plain["degree"].tolist()
        np.testing.assert_allclose(shared["features"], plain["features"], rtol=1e-3)
    assert len(set_up_of(case)) == len(set_up_of(case, OPEN))


def test_a_site_keeps_an_open_message_and_others_read_what_all_were_told(case: tuple[Any, Any]) -> None:
    plan, _ = case
    encrypted = set_up_of(case)
    opened = ends(case).opened_message(0, encrypted)
    assert opened == set_up_of(case, OPEN) != encrypted
    kept, known = shared_in(plan, opened), ends(case).shared_in(0, encrypted)
    assert all(np.array_equal(kept[name], known[name]) for name in known)
    assert ends(case).opened_message(0, b"") == b""
    assert shared_in(plan, b"") == common_in(plan, b"") == common_in(plan, encrypted) == {}
    with pytest.raises(WireError, match="rows of degree are encrypted, and this client has no secret"):
        shared_in(plan, encrypted)
    with pytest.raises(WireError, match="a row of degree cannot be opened"):
        ends(case).shared_in(1, encrypted)  # other nodes than it asked for


def states(case: tuple[Any, Any], owner: int, value: float = 0.5) -> tuple[list[HaloRows], Any]:
    """States of the nodes of one client that client 0 needs, and their slots in its halo."""
    plan, shards = case
    halo = plan.task.exchanged.halo_of(shards[0])
    slot = np.flatnonzero(halo.owner == owner)
    return [HaloRows(halo.place[slot], np.full((len(slot), w), value, np.float32)) for w in plan.halo_widths], slot


def test_states_are_known_by_whose_they_are(case: tuple[Any, Any]) -> None:
    plan, _ = case
    rows, slot = states(case, 1)
    encrypted = HaloCodec(plan).decode(ends(case).encode(1, rows, g()))  # as the server has them
    handed = HaloCodec(plan).encode([HaloRows(slot, each.rows) for each in encrypted], g())
    (got, *_) = ends(case).decode(0, handed)
    assert got.slot.tolist() == slot.tolist()
    assert (got.rows == 0.5).all()
    moved = HaloCodec(plan).encode([HaloRows(slot, each.rows[::-1]) for each in encrypted], g())
    with pytest.raises(WireError, match=rf"a row of {HALO}0 cannot be opened"):
        ends(case).decode(0, moved)
    relayed = HaloCodec(plan).read(ends(case).raw(1, rows))
    arrays = HaloCodec(plan).raw([HaloRows(slot, each.rows) for each in relayed])
    with pytest.raises(WireError, match=f"array '{HALO}rows.0' is uint8"):
        ends(case).decode(0, arrays)
    (exact, *_) = ends(case).read(0, arrays)
    assert (exact.rows == 0.5).all()


def test_what_the_server_cannot_see_is_looked_at_where_it_is_opened(case: tuple[Any, Any]) -> None:
    plan, _ = case
    rows, slot = states(case, 1, np.nan)
    relayed = HaloCodec(plan).read(ends(case).raw(1, rows))
    arrays = HaloCodec(plan).raw([HaloRows(slot, each.rows) for each in relayed])
    with pytest.raises(WireError, match="a row is not finite"):
        ends(case).read(0, arrays)
    beyond = HaloCodec(plan).raw([HaloRows(slot + 10**6, each.rows) for each in relayed])
    with pytest.raises(WireError, match=r"a row of halo node \d+ where there are"):
        ends(case).read(0, beyond)
