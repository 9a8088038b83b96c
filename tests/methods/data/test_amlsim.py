"""AMLSim's accounts and transfers: a few by hand, damaged tables, and the counts of the real ones."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.nodes.base.partitions import by_hash
from fedgraft.domains.nodes.base.shards import NodeShard, merge_shards
from fedgraft.domains.nodes.reading.transfers import read_transfers
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.methods.data.amlsim import Amlsim
from fedgraft.testing.data import node_shards_are_sound
from helpers.toy_transfers import write_transfers

SET = "20K_cycle200"
ACCOUNTS = ["10,1,0,7", "2,0,-5,-1", "3,0,3,-1"]
TRANSFERS = ["2,10,0,1", "2,10,0,1", "10,3,3,5", "3,3,15,9"]
"""A payment that is there twice, one more, and one from an account to itself."""


def scaled(*values: float) -> list[float]:
    column = np.array(values)
    return ((column - column.mean()) / column.std()).tolist()


def test_four_transfers_by_hand(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_transfers(tmp_path / SET, ACCOUNTS, TRANSFERS)
    graph = read_transfers(tmp_path, SET)
    assert graph.ids.tolist() == ["2", "3", "10"], "by number"
    assert (graph.classes, graph.label.tolist()) == (("normal", "fraud"), [0, 0, 1])
    assert f"{SET}: 1 transfers from an account to itself left out." in caplog.text
    # 2 -> 10 twice and 10 -> 3, each at both of its ends.
    assert graph.degree.tolist() == [2, 1, 3]
    assert graph.senders.tolist() == [2, 2, 2, 0, 0, 1]
    rows = graph.edge_rows
    assert rows is not None
    assert rows.number.tolist() == [0, 1, 2, 0, 1, 2]
    assert rows.along.tolist() == [False, False, True, True, True, False]
    # log(1 + amount) and time, over all four transfers.
    wanted = np.stack([scaled(0, 0, np.log(4), np.log(16)), scaled(1, 1, 5, 9)], axis=1)
    assert rows.values == pytest.approx(wanted[rows.number], abs=1e-6)
    # In, out and balance, of which below 0 is 0.
    into, out, balance = scaled(0, np.log(2), np.log(3)), scaled(np.log(3), 0, np.log(2)), scaled(0, np.log(4), 0)
    assert graph.features == pytest.approx(np.stack([into, out, balance], axis=1), abs=1e-6)
    assert not graph.scale_rows


def test_a_constant_column_is_0(tmp_path: Path) -> None:
    write_transfers(tmp_path / SET, ["0,0,5,-1", "1,1,5,2"], ["0,1,4,3", "1,0,4,3"])
    graph = read_transfers(tmp_path, SET)
    assert graph.edge_rows is not None
    assert not graph.features.any()
    assert not graph.edge_rows.values.any()


def test_banks_are_those_of_a_hash_whatever_the_seed(tmp_path: Path) -> None:
    write_transfers(tmp_path / SET)
    first, second = (Amlsim(tmp_path, clients=3).load(seed) for seed in (1, 2))
    assert [shard.ids.tolist() for shard in first] == [shard.ids.tolist() for shard in second]
    assert any((a.split != b.split).any() for a, b in zip(first, second, strict=True))
    graph = read_transfers(tmp_path, SET)
    assert first[0].ids.tolist() == graph.ids[by_hash(graph, 3) == 0].tolist()
    assert np.bincount(merge_shards(first).split).tolist() == [38, 10, 12]
    assert first[0].halo > 0
    assert all(shard.halo == 0 for shard in Amlsim(tmp_path, clients=3, between=False).load(1))
    assert len(Amlsim(tmp_path, clients=3, partition="iid").load(1)) == 3


def test_a_rare_class_is_what_a_model_is_judged_by(tmp_path: Path) -> None:
    write_transfers(tmp_path / SET)
    made = load("graft_node", {"data.name": "amlsim", "data.root": str(tmp_path)})
    assert made.data == Amlsim(tmp_path)
    task = made.plan.task.judged_by(made.data.load(1), made.data.judged_by_data)
    assert (task.metric, task.positive_class) == ("average_precision", "fraud")


@pytest.mark.parametrize(
    ("accounts", "transfers", "message"),
    [
        (ACCOUNTS, ["2,10,0,1", "2,4,0,1"], r"row 2: 'targetNodeId' must be an account of nodes\.csv; got '4'"),
        (ACCOUNTS, ["2,10,much,1"], r"transactions\.csv, row 1: 'value' must be a finite number; got 'much'"),
        (ACCOUNTS, ["2,10,-1,1"], r"transactions\.csv, row 1: 'value' must be at least 0; got '-1'"),
        (ACCOUNTS, ["2,10,1,"], r"transactions\.csv, row 1: 'time' must be a finite number; got nothing"),
        (["2,2,0,1"], TRANSFERS, r"nodes\.csv, row 1: 'isFraud' must be 0 or 1; got '2'"),
        (["2,0,0,1", "2,0,0,1"], TRANSFERS, r"nodes\.csv, row 2: account '2' is listed twice"),
    ],
)
def test_a_damaged_table_is_named(tmp_path: Path, accounts: list[str], transfers: list[str], message: str) -> None:
    write_transfers(tmp_path / SET, accounts, transfers)
    with pytest.raises(InputError, match=message):
        Amlsim(tmp_path).load(1)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file .*nodes\.csv; download it from https://github\.com/IBM/AMLSim "):
        Amlsim(tmp_path).load(1)
    write_transfers(tmp_path / SET)
    path = tmp_path / SET / "nodes.csv"
    path.write_text(path.read_text().replace("isFraud", "fraud"))
    with pytest.raises(InputError, match=r"nodes\.csv: no column 'isFraud' \(its class\)\. Did you mean 'fraud'\?"):
        Amlsim(tmp_path).load(1)
    with pytest.raises(InputError, match=r"Amlsim\.set must be one of '20K_cycle200', .*; got '20K_cycle'"):
        Amlsim(tmp_path, set="20K_cycle")
    with pytest.raises(InputError, match=r"Amlsim\.partition must be one of 'hash', .*; got 'bank'"):
        Amlsim(tmp_path, partition="bank")  # type: ignore[arg-type]


@dataclass(frozen=True)
class Misnumbered(Amlsim):
    """AMLSim, where banks number transfers each by itself."""

    def load(self, seed: int) -> list[NodeShard]:
        shards = super().load(seed)
        rows = [shard.edge_rows for shard in shards]
        return [
            replace(shard, edge_rows=replace(each, number=np.arange(len(each))))
            for shard, each in zip(shards, rows, strict=True)
            if each is not None
        ]


def test_both_ends_of_a_transfer_have_one_number(tmp_path: Path) -> None:
    write_transfers(tmp_path / SET)
    node_shards_are_sound(Amlsim(tmp_path, clients=3))
    with pytest.raises(AssertionError, match="of each edge's number there must be two"):
        node_shards_are_sound(Misnumbered(tmp_path, clients=3))


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "transfers", "fraud"),
    [(SET, 117_805, 945), ("20K_fanin200", 118_250, 954), ("20K_fanin200cycle200", 120_558, 1804)],
)
def test_the_real_tables(
    data_root: Path, caplog: pytest.LogCaptureFixture, name: str, transfers: int, fraud: int
) -> None:
    root = data_root / "AMLSim"
    if not root.is_dir():
        pytest.skip(f"no AMLSim at {root}")
    graph = read_transfers(root, name)
    loops = 15 if name == "20K_fanin200cycle200" else 14
    assert f"{loops} transfers from an account to itself" in caplog.text
    assert (graph.nodes, graph.edges, int(graph.label.sum())) == (20_000, transfers - loops, fraud)
    assert graph.edge_rows is not None
    assert graph.edge_rows.along.sum() == transfers - loops
    owner = by_hash(graph, 5)
    receiver = np.repeat(np.arange(graph.nodes), graph.degree)
    assert np.mean(owner[receiver] != owner[graph.senders]) == pytest.approx(0.8, abs=0.02)
    assert np.bincount(owner).min() > 3800
