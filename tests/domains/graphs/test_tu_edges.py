"""What edges of TU sets carry: labels, attributes, both; as PyG has them, and what is wrong with files."""

from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.graphs.tu_files import read_set
from fedgraft.errors import InputError
from fedgraft.methods.data.tu import TU
from helpers.toy_graphs import write_tu


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Twenty triangles and paths; edges from a first node have label 3, others 1, and their ends as attributes."""
    folder = write_tu(tmp_path, graphs=20)
    pairs = [tuple(map(int, line.split(","))) for line in (folder / "MUTAG_A.txt").read_text().splitlines()]
    labels = [3 if 1 in (a % 3, b % 3) else 1 for a, b in pairs]
    (folder / "MUTAG_edge_labels.txt").write_text("".join(f"{label}\n" for label in labels))
    (folder / "MUTAG_edge_attributes.txt").write_text("".join(f"{a}, {b}.5\n" for a, b in pairs))
    return folder


def test_labels_are_columns_and_attributes_stay_as_they_are(raw: Path, tmp_path: Path) -> None:
    plain, told = read_set(tmp_path, "MUTAG"), read_set(tmp_path, "MUTAG", edge_features="all")
    assert np.array_equal(told.edges, plain.edges)
    assert plain.edge_rows is None
    assert told.edge_rows is not None
    assert told.edge_names == ("attribute 1", "attribute 2", "label=1", "label=2", "label=3")
    receiver, sender = told.edges
    assert np.array_equal(told.edge_rows.values[:, 0], sender + 1), "each way has its own line"
    assert np.array_equal(told.edge_rows.values[:, 1], receiver + 1.5)
    first = (receiver % 3 == 0) | (sender % 3 == 0)
    assert np.array_equal(told.edge_rows.values[:, 2:], np.stack([~first, 0 * first, first], 1))
    assert read_set(tmp_path, "MUTAG", edge_features="labels").edge_names == ("label=1", "label=2", "label=3")
    assert read_set(tmp_path, "MUTAG", edge_features="attributes").edge_names == ("attribute 1", "attribute 2")


def test_a_line_of_a_loop_or_a_repeat_goes_with_its_label(raw: Path, tmp_path: Path) -> None:
    first = read_set(tmp_path, "MUTAG", edge_features="labels")
    for part, lines in (("A", "1, 1\n1, 2\n"), ("edge_labels", "2\n1\n")):
        with (raw / f"MUTAG_{part}.txt").open("a") as file:
            file.write(lines)
    again = read_set(tmp_path, "MUTAG", edge_features="labels")
    assert np.array_equal(again.edges, first.edges)
    assert first.edge_rows is not None
    assert again.edge_rows is not None
    changed = np.flatnonzero((first.edge_rows.values != again.edge_rows.values).any(axis=1))
    assert first.edges[:, changed].T.tolist() == [[1, 0]], "the last of two lines of one direction counts"


def test_clients_of_one_set_have_the_same_columns(raw: Path, tmp_path: Path) -> None:
    shards = TU(tmp_path, "mutag", clients=2, edge_features="labels").load(1)
    assert [shard.edge_names for shard in shards] == [("label=1", "label=2", "label=3")] * 2
    for shard in shards:
        first = (shard.edges % 3 == 0).any(axis=0)
        assert shard.edge_rows is not None
        assert np.array_equal(shard.edge_rows.values[:, 2] == 1, first)


@pytest.mark.parametrize(
    ("part", "line", "text", "message"),
    [
        ("edge_labels", 1, "one", "MUTAG_edge_labels.txt, line 1: 1 whole number expected; got 'one'."),
        ("edge_attributes", 2, "1, nan", "MUTAG_edge_attributes.txt, line 2: attributes must be finite numbers"),
        ("edge_labels", 0, "", r"MUTAG_edge_labels.txt: 99 lines for the 100 edges of"),
    ],
)
def test_damaged_files(raw: Path, tmp_path: Path, part: str, line: int, text: str, message: str) -> None:
    path = raw / f"MUTAG_{part}.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[: line - 1], text, *lines[line:]] if line else lines[1:]) + "\n")
    with pytest.raises(InputError, match=message):
        read_set(tmp_path, "MUTAG", edge_features="all")
    assert read_set(tmp_path, "MUTAG").graphs == 20, "whoever does not ask for it does not read it"


def test_what_a_set_lacks_and_groups_are_refused(raw: Path, tmp_path: Path) -> None:
    (raw / "MUTAG_edge_attributes.txt").unlink()
    assert read_set(tmp_path, "MUTAG", edge_features="all").edge_names == ("label=1", "label=2", "label=3")
    with pytest.raises(InputError, match=r"no file .*MUTAG_edge_attributes\.txt; the set's edges have labels alone"):
        read_set(tmp_path, "MUTAG", edge_features="attributes")
    (raw / "MUTAG_edge_labels.txt").unlink()
    with pytest.raises(InputError, match=r"no file .*MUTAG_edge_labels\.txt; the set's edges carry nothing"):
        read_set(tmp_path, "MUTAG", edge_features="all")
    with pytest.raises(InputError, match=r"TU\.edge_features = 'all' is for a single set; 'chem' has 7"):
        TU(tmp_path, "chem", edge_features="all")
    with pytest.raises(InputError, match=r"TU\.edge_features must be one of '', 'labels', 'attributes', 'all'; got"):
        TU(tmp_path, "mutag", edge_features="label")  # type: ignore[arg-type]


@pytest.mark.data
@pytest.mark.parametrize("name", ["MUTAG", "PTC_MR", "AIDS"])
def test_real_sets_are_as_pyg_has_them(data_root: Path, name: str) -> None:
    from torch_geometric.io import read_tu_data

    root = data_root / "TUDataset"
    if not (root / name / "raw" / f"{name}_edge_labels.txt").is_file():
        pytest.skip(f"no set {name} with labels of edges in {root}")
    shard = read_set(root, name, edge_features="all")
    data, slices, _ = read_tu_data(str(root / name / "raw"), name)
    graph = np.repeat(np.arange(shard.graphs), np.diff(slices["edge_index"].numpy()))
    sender, receiver = data.edge_index.numpy() + shard.node_starts[graph]
    order = np.lexsort((sender, receiver))
    assert np.array_equal(np.stack([receiver, sender])[:, order], shard.edges)
    assert shard.edge_rows is not None
    assert np.array_equal(data.edge_attr.numpy()[order], shard.edge_rows.values)
