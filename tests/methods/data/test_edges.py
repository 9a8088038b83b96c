"""Own tables whose edges have labels: by hand, whose they are, when they are heard of, and what is wrong with them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedgraft.domains.edges.history import history_of
from fedgraft.domains.edges.shards import EdgeShard, merge_edges, unrolled
from fedgraft.errors import InputError
from fedgraft.methods.data.edges import Edges
from helpers import banks

OPTIONS = {name.removeprefix("data."): value for name, value in banks.OPTIONS.items() if name != "data.name"}


def transfers(count: int = 20) -> pd.DataFrame:
    """Transfers around a ring of five accounts, an hour apart, of which every fourth is of fraud."""
    rows = np.arange(count)
    return pd.DataFrame(
        {
            "source": [f"a{each % 5}" for each in rows],
            "target": [f"a{(each + 1) % 5}" for each in rows],
            "when": rows * 3600,
            "label": np.where(rows % 4 == 0, "yes", "no"),
            "amount": rows * 1.0,
        }
    )


ACCOUNTS = pd.DataFrame({"node": [f"a{each}" for each in range(5)], "client": ["n", "n", "n", "s", "s"]})


def load(edges: pd.DataFrame | None = None, nodes: pd.DataFrame = ACCOUNTS, **options: Any) -> list[EdgeShard]:
    given = transfers() if edges is None else edges
    return list(Edges(nodes, given, min_examples=1, **{"time": "when", **options}).load(1))


def test_worked_example() -> None:
    north, south = load()
    assert (north.name, south.name) == ("n", "s")
    assert north.ids.tolist() == ["a0", "a1", "a2"]
    assert north.classes == ("no", "yes")
    # Of twenty transfers twelve have their source at n: a0, a1 and a2; those of a2 go to a3, the first node of s.
    assert north.ends[0].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert north.ends[1].tolist() == [1] * 4 + [2] * 4 + [3] * 4
    assert north.graph.halo_owner.tolist() == [1, 1]
    assert north.label.tolist()[:4] == [1, 0, 0, 0], "transfers 0, 5, 10 and 15"
    assert north.timed
    assert (np.diff(north.order[:4]) > 0).all()
    assert north.split.tolist()[:4] == [0, 0, 0, 1], "transfer 15 of 20 is at 0.75"
    # Columns are brought to one size by the earlier transfers; there is no feature of an account.
    assert north.columns.shape == (12, 1)
    assert (np.diff(north.columns[:4, 0]) > 0).all()
    assert north.graph.width == 0
    merged = merge_edges([north, south])
    assert np.bincount(merged.split).tolist() == [13, 3, 4]


def test_whose_accounts_are_is_told_by_transfers_where_no_column_of_accounts_says_it() -> None:
    every = banks.tables()
    wanted = Edges(**every, **OPTIONS).load(1)
    found = Edges(every["nodes"].drop(columns="client"), every["edges"], **OPTIONS).load(1)
    for one, other in zip(wanted, found, strict=True):
        assert one.name == other.name
        assert one.ids.tolist() == other.ids.tolist()
        assert np.array_equal(one.columns, other.columns)
    alone = pd.concat([every["nodes"].drop(columns="client"), pd.DataFrame({"node": ["nobody"], "age": [5]})])
    with pytest.raises(InputError, match=r"nodes, row 61: no edge says whose node 'nobody' is \(1 such nodes\)"):
        Edges(alone, every["edges"], **OPTIONS).load(1)
    twice = every["edges"].copy()
    twice.loc[0, "from_bank"] = next(each for each in banks.BANKS if each != twice.loc[0, "from_bank"])
    with pytest.raises(InputError, match=r"edges, row .*: node 'a\d+' is of client '.*' here, and of '.*' elsewhere"):
        Edges(every["nodes"].drop(columns="client"), twice, **OPTIONS).load(1)


def test_copies_hear_of_each_other_at_every_stage_and_are_no_transfers() -> None:
    accounts = pd.concat([ACCOUNTS, pd.DataFrame({"node": ["a0"], "client": ["s"]})]).assign(also_at=None)
    accounts.loc[accounts["node"] == "a0", "also_at"] = ["s", "n"]
    whose, edges = dict(zip(ACCOUNTS["node"], ACCOUNTS["client"], strict=True)), transfers()
    edges = edges.assign(by=edges["source"].map(whose), to=edges["target"].map(whose))
    sides = {"source_client": "by", "target_client": "to"}
    apart, joined = (load(edges, accounts, **sides, **more) for more in ({}, {"shared_with": "also_at"}))
    for one, other in zip(apart, joined, strict=True):
        assert np.array_equal(one.ends[0], other.ends[0])
        assert np.array_equal(one.columns, other.columns)
        assert np.array_equal(history_of(one), history_of(other)), "it is none of the transfers that came before"
        own = other.ids.tolist().index("a0")
        alone, made = (unrolled(shard, 2).graph for shard in (one, other))
        heard = made.degree.reshape(-1, 5)[own] - alone.degree.reshape(-1, 5)[own]
        assert heard.tolist() == [1] * 5, "two windows, validation, test and what is asked"
        assert np.array_equal(made.features[:, -2:], alone.features[:, -2:]), "numbers of transfers"
    with pytest.raises(InputError, match=r"Edges\.shared_with = 'also_at' needs Edges\.source_client or"):
        load(edges, accounts, shared_with="also_at")


def test_without_times_edges_are_split_by_the_hash_of_their_ends() -> None:
    every = banks.tables()
    options = {**OPTIONS, "time": "", "edge_features": "amount"}
    wanted = merge_edges(list(Edges(**every, **options).load(1)))
    assert np.bincount(wanted.split + 1)[1:] / wanted.ends.shape[1] == pytest.approx([0.62, 0.16, 0.2], abs=0.05)
    order = np.random.default_rng(1).permutation(len(every["edges"]))
    pairs = every["edges"].groupby(["from", "to"]).cumcount().iloc[order].argsort(kind="stable")
    shuffled = merge_edges(list(Edges(every["nodes"], every["edges"].iloc[order].iloc[pairs], **options).load(1)))
    assert np.array_equal(wanted.order, shuffled.order), "whatever the order of rows, but that of the same two ends"
    assert not np.array_equal(wanted.order, merge_edges(list(Edges(**every, **options).load(2))).order)


def test_numbers_and_unknown_labels() -> None:
    edges = transfers().assign(label=[None, -1.0, *np.arange(18.0)])
    north, south = load(edges, labels="numbers", na_labels="-1")
    assert north.classes == ()
    known = np.concatenate([shard.label for shard in (north, south)])
    assert np.isnan(known).sum() == 2
    assert sorted(known[np.isfinite(known)].tolist()) == list(range(18))
    north, south = load(transfers().assign(label=["yes", None, *["no"] * 18]))
    assert np.concatenate([shard.label for shard in (north, south)]).min() == -1, "it carries messages all the same"


def test_later_columns_change_nothing_before_them() -> None:
    every = banks.tables()
    late = np.arange(len(every["edges"])) >= 700  # of 883, in the order of time
    changed = every["edges"].copy()
    for name in ("amount", "channel", "fraud"):
        values = every["edges"].loc[late, name].to_numpy()
        changed.loc[late, name] = np.random.default_rng(1).permutation(values)
    one, other = (list(Edges(every["nodes"], edges, **OPTIONS).load(1)) for edges in (every["edges"], changed))
    for mine, theirs in zip(one, other, strict=True):
        early = mine.order < 0.75
        assert np.array_equal(mine.order, theirs.order)
        assert np.array_equal(mine.columns[early], theirs.columns[early])
        assert np.array_equal(mine.label[early], theirs.label[early])
        assert not np.array_equal(mine.columns, theirs.columns)


def change(row: int, column: str, value: Any) -> pd.DataFrame:
    edges = transfers().astype({column: object})
    edges.loc[row, column] = value
    return edges


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        (change(2, "when", "soon"), {}, r"edges, row 3: 'when' must be a number, as in other rows; got 'soon'"),
        (change(2, "target", "a9"), {}, r"edges, row 3: 'target' must be a node of Edges\.nodes; got 'a9'"),
        (change(2, "source", None), {}, r"edges, row 3: 'source' is empty"),
        (change(2, "amount", "x"), {"weight": "amount"}, r"edges, row 3: 'amount' must be a finite number"),
        (change(2, "amount", -1), {"weight": "amount"}, r"edges, row 3: 'amount' must be .*at least 0, as a weight"),
        (
            change(2, "label", 0.5).assign(label=0.5),
            {},
            r"'label' must be text or whole numbers; got 0\.5.*data\.labels",
        ),
        (transfers().assign(label=None), {}, r"Edges\.edges: no edge has a label in column 'label' \(data\.label\)"),
        (transfers(), {"label": "fraud"}, r"Edges\.edges: no column 'fraud' \(data\.label\)"),
        (transfers(), {"label": "source"}, r"Edges\.label must be another column than Edges\.source; got 'source'"),
        (transfers(), {"label": ""}, r"Edges\.label must be the column of what is to be told of an edge"),
        (transfers(), {"edge_features": ["sum"]}, r"Edges\.edges: no column 'sum' \(Edges\.edge_features: sum\)"),
        (transfers().assign(when=1), {}, r"No edge with a label is for validation, as they are split by column 'when'"),
        (transfers(), {"match": "psi"}, r"Edges\.match = 'psi' needs Edges\.source_client"),
        (
            transfers().assign(to="x"),
            {"target_client": "to"},
            r"edges, row 1: 'to' must be the name of a client; got 'x'",
        ),
    ],
)
def test_what_is_wrong_is_one_line(edges: pd.DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(edges, **options)


def test_a_table_of_edges_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Edges\.edges must be given"):
        Edges(ACCOUNTS)
    with pytest.raises(InputError, match=r"Edges\.edges: no file .*nowhere\.csv"):
        Edges(ACCOUNTS, tmp_path / "nowhere.csv").load(1)
