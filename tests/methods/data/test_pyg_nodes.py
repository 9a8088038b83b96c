import pickle
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_geometric.datasets
from scipy import sparse
from torch_geometric.data import Data as Graph

from fedgraft.domains.nodes.base.shards import merge_shards
from fedgraft.domains.nodes.reading.pyg_datasets import read_set
from fedgraft.domains.nodes.reading.pyg_sets import SETS
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.methods.data.pyg_nodes import PygNodes
from helpers.toy_nodes import write_npz, write_planetoid

CS = "CS/raw/ms_academic_cs.npz"
COUNTS = {
    "cora": ("Planetoid", 2708, 10_556, 1433, 7),
    "citeseer": ("Planetoid", 3327, 9104, 3703, 6),
    "pubmed": ("Planetoid", 19_717, 88_648, 500, 3),
    "coauthor_cs": ("Coauthor", 18_333, 163_788, 6805, 15),
    "coauthor_physics": ("Coauthor", 34_493, 495_924, 8415, 5),
    "amazon_photo": ("Amazon", 7650, 238_162, 745, 8),
    "amazon_computers": ("Amazon", 13_752, 491_722, 767, 10),
}
"""Folder, nodes, directed edges, features and classes as published."""


def files(root: Path) -> list[tuple[str, int, int]]:
    found = [(str(path), path.stat()) for path in sorted(root.rglob("*"))]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]


# --- raw files --------------------------------------------------------------------------------------------------------


def test_an_npz_set(tmp_path: Path) -> None:
    write_npz(tmp_path / CS)
    before = files(tmp_path)
    shards = PygNodes(tmp_path, "coauthor_cs", clients=4).load(1)
    assert files(tmp_path) == before, "nothing is written"
    assert [(shard.name, shard.own) for shard in shards] == [(f"CS-{k}", 15) for k in range(4)]
    together = merge_shards(shards)
    assert together.classes == ("x", "y", "z")
    assert (together.degree == 2).all(), "a ring, without the loop"
    assert isinstance(together.features, sparse.csr_matrix)
    assert np.bincount(together.split).tolist() == [38, 10, 12]
    halved = merge_shards(PygNodes(tmp_path, "coauthor_cs", clients=4, shares="80:10:10").load(1))
    assert np.bincount(halved.split).tolist() == [48, 6, 6]


def test_copies_are_the_same_part_at_several_clients(tmp_path: Path) -> None:
    write_npz(tmp_path / CS)
    parts = PygNodes(tmp_path, "coauthor_cs", clients=2, between=False).load(1)
    copied = PygNodes(tmp_path, "coauthor_cs", clients=6, between=False, copies=3).load(1)
    assert [shard.name for shard in copied] == [f"CS-{k}" for k in range(6)]
    for k, shard in enumerate(copied):
        assert shard.ids.tolist() == parts[k % 2].ids.tolist()
        assert shard.split.tolist() == parts[k % 2].split.tolist()
    with pytest.raises(InputError, match=r"PygNodes\.copies must be a divisor of 6 clients; got 4"):
        PygNodes(tmp_path, "coauthor_cs", clients=6, between=False, copies=4)
    with pytest.raises(InputError, match=r"PygNodes\.between must be false where copies is above 1"):
        PygNodes(tmp_path, "coauthor_cs", clients=6, copies=3)


def test_some_clients_have_wrong_training_labels(tmp_path: Path) -> None:
    write_npz(tmp_path / CS)
    right = PygNodes(tmp_path, "coauthor_cs", clients=4).load(1)
    wrong = PygNodes(tmp_path, "coauthor_cs", clients=4, wrong_clients=0.5).load(1)
    counts = [int((a.label != b.label).sum()) for a, b in zip(right, wrong, strict=True)]
    assert sorted(counts)[:2] == [0, 0]
    assert all(counts[k] in (0, round(0.4 * len(shard.rows("train")))) for k, shard in enumerate(right))
    assert sum(map(bool, counts)) == 2


def test_a_share_of_clients_that_rounds_to_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"PygNodes\.wrong_clients must be 0, or enough for one of 20 clients; got 0\.02"
    ):
        PygNodes(tmp_path, "coauthor_cs", clients=20, wrong_clients=0.02)


def test_a_planetoid_set(tmp_path: Path) -> None:
    write_planetoid(tmp_path)
    before = files(tmp_path)
    (shard,) = PygNodes(tmp_path, "cora", clients=1).load(1)
    assert files(tmp_path) == before
    assert (shard.own, len(shard.senders), shard.width) == (600, 2 * 599, 5)
    assert shard.ids.tolist() == list(range(600))
    assert shard.label.tolist() == [v % 2 for v in range(600)]
    assert shard.features.argmax(axis=1).ravel().tolist()[0] == [v % 5 for v in range(600)]
    assert np.bincount(shard.split).tolist() == [384, 96, 120], "not the published split of 20 per class"


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no file .*CS/raw/ms_academic_cs\.npz; download https://.*ms_academic_cs\.npz"
    ):
        PygNodes(tmp_path, "coauthor_cs").load(1)
    raw = write_planetoid(tmp_path)
    (raw / "ind.cora.tx").write_bytes(b"no pickle")
    with pytest.raises(InputError, match=r"Cora/raw/ind\.cora\.\* cannot be read \(UnpicklingError: .* download it"):
        PygNodes(tmp_path, "cora").load(1)
    (raw / "ind.cora.tx").unlink()
    with pytest.raises(
        InputError, match=r"no file .*ind\.cora\.tx; download https://github.com/kimiyoung/.*ind.cora.tx"
    ):
        PygNodes(tmp_path, "cora").load(1)
    (tmp_path / CS).parent.mkdir(parents=True)
    for content in (b"", b"PK\x03\x04 no archive"):
        (tmp_path / CS).write_bytes(content)
        with pytest.raises(InputError, match=r"ms_academic_cs\.npz cannot be read"):
            PygNodes(tmp_path, "coauthor_cs").load(1)
    np.savez(tmp_path / CS, labels=np.zeros(3))
    with pytest.raises(InputError, match=r"ms_academic_cs\.npz cannot be read \(KeyError: .*attr_data"):
        PygNodes(tmp_path, "coauthor_cs").load(1)


class Evil:
    """A pickle that would make a file where it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("part", ["x", "ally", "graph"])
def test_no_code_runs_from_a_pickle(tmp_path: Path, part: str) -> None:
    raw = write_planetoid(tmp_path)
    (raw / f"ind.cora.{part}").write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    with pytest.raises(InputError, match=r"UnpicklingError: it would call pathlib\.Path.*, which no array needs"):
        PygNodes(tmp_path, "cora").load(1)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [b"\x80\x04\x95" + b"\xff" * 8, b"\x80\x04\x8e" + b"\xff" * 7 + b"\x0f"])
def test_a_pickle_that_claims_more_than_memory_holds_is_damaged(tmp_path: Path, content: bytes) -> None:
    raw = write_planetoid(tmp_path)
    (raw / "ind.cora.x").write_bytes(content + b"N.")
    with pytest.raises(InputError, match=r"UnpicklingError: it says that it holds more than memory can"):
        PygNodes(tmp_path, "cora").load(1)


def test_more_clients_than_nodes(tmp_path: Path) -> None:
    write_npz(tmp_path / CS)
    with pytest.raises(InputError, match=r"PygNodes.clients must be at most 60, the nodes of CS; got 100"):
        PygNodes(tmp_path, "coauthor_cs").load(1)


# --- downloads --------------------------------------------------------------------------------------------------------


def ring(y: torch.Tensor) -> Graph:
    n = len(y)
    edges = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    return Graph(x=torch.eye(n), y=y, edge_index=edges, train_mask=torch.ones(n, dtype=torch.bool))


def test_a_set_that_pyg_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def reddit(root: str) -> list[Graph]:
        asked.append(root)
        return [ring(torch.arange(20) % 2)]

    monkeypatch.setattr(torch_geometric.datasets, "Reddit", reddit)
    collection = read_set(tmp_path, "reddit")
    assert asked == [str(tmp_path / "Reddit")]
    assert (collection.whole.edges, collection.split) == (20, False)
    assert len(PygNodes(tmp_path, "reddit", clients=2).load(0)) == 2


def test_of_several_labels_the_commonest_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several = torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
    monkeypatch.setattr(torch_geometric.datasets, "Yelp", lambda root: [ring(several)])
    whole = read_set(tmp_path, "yelp_reviews").whole
    assert whole.label.tolist() == [1, 1, 2, -1, 1, 1]
    assert whole.classes == ("0", "1", "2"), "also the one that is no node's commonest"


def test_a_failed_download_names_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(root: str) -> Any:
        raise OSError("no route to host")

    monkeypatch.setattr(torch_geometric.datasets, "Flickr", fails)
    with pytest.raises(
        InputError, match=r"Flickr could not be downloaded to, .* \(OSError: no route to host\)\. It is at https://"
    ):
        PygNodes(tmp_path, "flickr").load(0)


def test_sets_of_ogb_need_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", None)
    with pytest.raises(InputError, match=r"ogbn-arxiv is read by the package ogb, .* pip install ogb\. .* https://ogb"):
        PygNodes(tmp_path, "ogbn_arxiv").load(0)
    made = types.ModuleType("ogb.nodeproppred")
    made.PygNodePropPredDataset = lambda name, root: [ring(torch.arange(20)[:, None] % 4)]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ogb", types.ModuleType("ogb"))
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", made)
    assert read_set(tmp_path, "ogbn_arxiv").whole.classes == ("0", "1", "2", "3")


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"set": "pubmde"}, r"PygNodes.set must be one of 'cora', .* got 'pubmde'\. Did you mean 'pubmed'\?"),
        ({"clients": 0}, "PygNodes.clients must be >= 1; got 0"),
        ({"partition": "even"}, "PygNodes.partition must be one of"),
        ({"alpha": -1.0}, "PygNodes.alpha must be > 0; got -1.0"),
        ({"edges": 2.0}, r"PygNodes.edges must be in \(0, 1\]; got 2.0"),
        ({"fold": 5}, r"PygNodes.fold must be in \[0, 4\]; got 5"),
        ({"shares": "70:20:10"}, "PygNodes.shares must be one of '64:16:20', '80:10:10', '20:40:40'; got '70:20:10'"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PygNodes(Path("nowhere"), **options)  # type: ignore[arg-type]


def test_presets_are_names_of_sets(tmp_path: Path) -> None:
    for name in SETS:
        assert discovery.build("data", "data", {"name": name, "root": str(tmp_path)}) == PygNodes(tmp_path, name)


# --- the real files ---------------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize("name", list(COUNTS))
def test_published_counts(data_root: Path, name: str) -> None:
    folder, nodes, edges, features, classes = COUNTS[name]
    if not (data_root / folder).is_dir():
        pytest.skip(f"no {folder} in {data_root}")
    before = files(data_root / folder)
    whole = read_set(data_root / folder, name).whole
    assert files(data_root / folder) == before
    assert (whole.nodes, 2 * whole.edges, whole.features.shape[1]) == (nodes, edges, features)
    assert len(whole.classes) == len(set(whole.label)) == classes


@pytest.mark.data
def test_pubmed_over_a_hundred_clients(data_root: Path) -> None:
    if not (data_root / "Planetoid").is_dir():
        pytest.skip(f"no Planetoid in {data_root}")
    shards = PygNodes(data_root / "Planetoid", partition="dirichlet", edges=0.5).load(1)
    assert len(shards) == 100
    assert sum(shard.own for shard in shards) == 19_717
    assert sum(len(shard.senders) for shard in shards) == 44_324
    assert np.bincount(np.concatenate([shard.split for shard in shards])).tolist() == [12_618, 3155, 3944]
