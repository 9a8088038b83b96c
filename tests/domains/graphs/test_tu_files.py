"""Reading TU sets (`fedgraft.domains.graphs.tu_files`): layouts, damaged files."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.graphs.tu_files import read_set
from fedgraft.domains.graphs.tu_sets import SETS, SETTINGS
from fedgraft.errors import InputError
from helpers.toy_graphs import write_tu


def write(folder: Path, name: str = "MUTAG", **files: str) -> None:
    for part, text in files.items():
        (folder / f"{name}_{part}.txt").write_text(text)


TWO_GRAPHS = {
    # A triangle of nodes 1..3 and a pair 4, 5, then a lone node 6; a loop at 1, the edge 4-5 twice, and one way only.
    "A": "1, 2\n2, 1\n2,3\n3, 2\n1, 3\n3, 1\n1, 1\n4, 5\n4, 5\n",
    "graph_indicator": "1\n1\n1\n2\n2\n3\n",
    "graph_labels": "-1\n1\n1\n",
}


def test_worked_example(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    raw = tmp_path / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    write(raw, **TWO_GRAPHS, node_labels="3\n3\n5\n3\n6\n5\n", node_attributes=" 1.5,2\n0,0\n0,0\n0,0\n0,0\n0,1e-3\n")
    own = read_set(tmp_path, "MUTAG")
    assert own.sizes.tolist() == [3, 2, 1]
    assert own.edges.T.tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1], [3, 4], [4, 3]]
    assert own.kind_names == ("3", "4", "5", "6"), "a column for each number, as in PyG"
    assert own.kind.tolist() == [0, 0, 2, 0, 3, 2]
    assert (own.classes, own.label.tolist()) == (("-1", "1"), [0, 1, 1])
    assert (own.ids.tolist(), own.attributes.shape, own.degrees) == ([1, 2, 3], (6, 0), False)
    assert caplog.messages == ["MUTAG: 1 edges from a node to itself left out.", "MUTAG: 1 repeated edges left out."]
    both = read_set(tmp_path, "MUTAG", "always")
    assert both.kinds == 4
    assert both.attributes[[0, 5]].tolist() == [[1.5, 2.0], [0.0, np.float32(1e-3)]]


def test_what_features_there_are(tmp_path: Path) -> None:
    write_tu(tmp_path / "labels")
    write_tu(tmp_path / "attributes", labels=False, attributes=True)
    write_tu(tmp_path / "none", labels=False)
    assert read_set(tmp_path / "labels", "MUTAG", "always").attributes.shape[1] == 0
    found = [read_set(tmp_path / "attributes", "MUTAG", mode) for mode in ("auto", "always", "never")]
    assert [own.attributes.shape[1] for own in found] == [2, 2, 0]
    assert [own.degrees for own in found] == [False, False, True]
    bare = read_set(tmp_path / "none", "MUTAG")
    assert (bare.kinds, bare.kind_names, bare.degrees) == (3, ("0", "1", "2"), True)
    assert (bare.kind == bare.degree).all()


def test_where_archives_unpack(tmp_path: Path) -> None:
    raw = write_tu(tmp_path)
    first = read_set(tmp_path, "MUTAG")
    for path in raw.iterdir():
        path.rename(tmp_path / "MUTAG" / path.name)
    raw.rmdir()
    assert read_set(tmp_path, "MUTAG").edges.tolist() == first.edges.tolist()


def test_a_file_may_lack_its_last_newline(tmp_path: Path) -> None:
    raw = write_tu(tmp_path)
    first = read_set(tmp_path, "MUTAG")
    for path in raw.iterdir():
        path.write_text(path.read_text().removesuffix("\n"))
    assert read_set(tmp_path, "MUTAG").edges.tolist() == first.edges.tolist()


def test_lines_that_arrow_does_not_read_are_read_one_by_one(tmp_path: Path) -> None:
    raw = write_tu(tmp_path)
    first = read_set(tmp_path, "MUTAG")
    path = raw / "MUTAG_A.txt"
    path.write_text("".join(f"+{line}\n" for line in path.read_text().splitlines()))
    assert read_set(tmp_path, "MUTAG").edges.tolist() == first.edges.tolist()


# --- bad files --------------------------------------------------------------------------------------------------------


def test_a_missing_set_says_where_to_get_it(tmp_path: Path) -> None:
    hint = r"download https://www\.chrsmrrs\.com/graphkerneldatasets/PTC_MR\.zip and unpack it in .*\."
    with pytest.raises(InputError, match=rf"TU: no file .*PTC_MR_A\.txt; {hint}"):
        read_set(tmp_path, "PTC_MR")
    raw = write_tu(tmp_path, "PTC_MR")
    (raw / "PTC_MR_graph_labels.txt").unlink()
    with pytest.raises(InputError, match=rf"TU: no file .*PTC_MR_graph_labels\.txt; {hint}"):
        read_set(tmp_path, "PTC_MR")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"A": "1, 2\n2; 1\n"}, r"MUTAG_A\.txt, line 2: 2 whole numbers expected; got '2; 1'"),
        ({"A": "1, 2\n2, 1, 3\n"}, r"MUTAG_A\.txt, line 2: 2 whole numbers expected; got '2, 1, 3'"),
        ({"A": "1\n2\n"}, r"MUTAG_A\.txt, line 1: 2 whole numbers expected; got '1'"),
        ({"A": f"1, 2\n1, {2**70}\n"}, r"MUTAG_A\.txt, line 2: 2 whole numbers expected"),
        ({"A": ""}, r"MUTAG_A\.txt is empty"),
        ({"A": "1, 9\n"}, r"MUTAG_A\.txt, line 1: there is no node 9; nodes are 1\.\.6"),
        ({"A": "1, 2\n3, 4\n"}, r"MUTAG_A\.txt, line 2: nodes 3 and 4 belong to different graphs"),
        (
            {"graph_indicator": "1\n1\n2\n1\n"},
            r"indicator\.txt, line 4: graphs must be numbered from 1, ascending; got 1",
        ),
        ({"graph_indicator": "0\n1\n1\n"}, r"graph_indicator\.txt, line 1: graphs must be numbered from 1, .* got 0"),
        ({"graph_indicator": "1\n1.5\n"}, r"graph_indicator\.txt, line 2: 1 whole number expected; got '1\.5'"),
        (
            {"graph_indicator": "1\n1\n1\n2\n2\n4\n"},
            r"labels\.txt: 3 labels for the 4 graphs of .*indicator\.txt",
        ),
        ({"graph_indicator": "1\n1\n1\n3\n3\n3\n", "A": "1, 2\n"}, r"MUTAG: graph 2 has no nodes"),
        ({"graph_labels": "1\n1\n1\n"}, r"MUTAG: all 3 graphs have the class '1'"),
        ({"graph_labels": "1\n\xff\n1\n"}, r"graph_labels\.txt, line 2: 1 whole number expected; got 'ÿ'"),
        ({"node_labels": "1\n2\n"}, r"node_labels\.txt: 2 lines for the 6 nodes of .*graph_indicator\.txt"),
        ({"node_attributes": "1\n2\n"}, r"node_attributes\.txt: 2 lines for the 6 nodes"),
        ({"node_attributes": "1\n2\n3\nnan\n5\n6\n"}, r"node_attributes\.txt, line 4: .* finite numbers; got \[nan\]"),
        ({"node_attributes": "1,2\n2,3\n3\n"}, r"node_attributes\.txt, line 3: 2 numbers expected; got '3'"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, files: dict[str, str], message: str) -> None:
    raw = tmp_path / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    write(raw, **{**TWO_GRAPHS, **files})
    with pytest.raises(InputError, match=message):
        read_set(tmp_path, "MUTAG")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    raw = write_tu(tmp_path)
    (raw / "MUTAG_A.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"MUTAG_A\.txt cannot be read"):
        read_set(tmp_path, "MUTAG")


# --- one block of lines per graph -------------------------------------------------------------------------------------

# A triangle of class 0, a pair of class 2, a node with a loop of class 0.
BLOCKS = "3\n3 0\n0 2 1 2\n0 2 0 2\n0 2 0 1\n2 2\n0 1 1\n0 1 0\n1 0\n0 1 0\n"


def pack(folder: Path, text: str, member: str = "COLLAB/COLLAB.txt") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "COLLAB.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, text)
    return folder / "COLLAB.zip"


@pytest.mark.parametrize("folder", [".", "../COLLAB_txt"])
@pytest.mark.parametrize("text", [BLOCKS, BLOCKS.removesuffix("\n")])
def test_blocks_by_hand(tmp_path: Path, folder: str, text: str) -> None:
    (tmp_path / "root").mkdir()
    pack(tmp_path / "root" / folder, text)
    own = read_set(tmp_path / "root", "COLLAB")
    assert own.sizes.tolist() == [3, 2, 1]
    assert own.edges.T.tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1], [3, 4], [4, 3]]
    assert (own.classes, own.label.tolist()) == (("1", "3"), [0, 1, 0])
    assert own.kind.tolist() == [2, 2, 2, 1, 1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BLOCKS[:-8], r"COLLAB\.zip: COLLAB/COLLAB\.txt is damaged"),
        (BLOCKS.replace("0 1 1", "0 2 1"), "a node has not as many neighbours as its line says"),
        (BLOCKS.replace("0 1 1", "0 1 2"), "a neighbour is outside its graph"),
        (BLOCKS.replace("2 2\n", "2 x\n"), "something in it is no whole number"),
        (BLOCKS + "0 0\n", r"its 11 lines are not the 10 of its 3 graphs"),
        ("", "damaged"),
    ],
)
def test_damaged_blocks(tmp_path: Path, text: str, message: str) -> None:
    pack(tmp_path, text)
    with pytest.raises(InputError, match=message):
        read_set(tmp_path, "COLLAB")


def test_archives_that_are_no_blocks(tmp_path: Path) -> None:
    pack(tmp_path, "1, 2\n", "COLLAB/COLLAB_A.txt")
    with pytest.raises(InputError, match=r"COLLAB\.zip holds no COLLAB/COLLAB\.txt; unpack it where it is"):
        read_set(tmp_path, "COLLAB")
    whole = pack(tmp_path, BLOCKS).read_bytes()
    (tmp_path / "COLLAB.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"COLLAB\.zip is damaged"):
        read_set(tmp_path, "COLLAB")


# --- the real sets ----------------------------------------------------------------------------------------------------


def test_names() -> None:
    assert len(SETS) == 16
    assert SETS["imdb_binary"] == "IMDB-BINARY"
    sizes = {name: len(sets) for name, sets in SETTINGS.items()}
    assert sizes == {
        "chem": 7, "bio": 3, "sn": 3, "cv": 3, "sn_cv": 6, "chem_bio": 10, "chem_bio_sn": 13, "bio_sn_cv": 9, "all": 16,
    }  # fmt: skip
    assert SETTINGS["sn_cv"] == SETTINGS["sn"] + SETTINGS["cv"]


COUNTS = {
    "MUTAG": (188, 3_371, 7_442, 2, 7),
    "PTC_MR": (344, 4_915, 10_108, 2, 18),
    "BZR": (405, 14_479, 31_070, 2, 53),
    "Letter-low": (2_250, 10_522, 14_092, 15, 0),
    "IMDB-BINARY": (1_000, 19_773, 193_062, 2, 136),
}
"""Graphs, nodes, directed edges, classes, one-hot columns."""


@pytest.mark.data
@pytest.mark.parametrize("name", COUNTS)
def test_published_counts(data_root: Path, name: str) -> None:
    own = read_set(data_root / "TUDataset", name)
    assert (own.graphs, own.nodes, own.edges.shape[1], len(own.classes), own.kinds) == COUNTS[name]
    assert own.attributes.shape[1] == (2 if name == "Letter-low" else 0)


@pytest.mark.data
@pytest.mark.parametrize("name", ["MUTAG", "BZR", "Letter-low", "IMDB-MULTI"])
def test_what_pyg_s_own_reader_gives(data_root: Path, name: str) -> None:
    from torch_geometric.io import read_tu_data

    data, slices, sizes = read_tu_data(str(data_root / "TUDataset" / name / "raw"), name)
    own = read_set(data_root / "TUDataset", name, "always")
    assert own.label.tolist() == data.y.tolist()
    assert own.edge_starts.tolist() == slices["edge_index"].tolist()
    local = own.edges - np.repeat(own.node_starts[:-1], np.diff(own.edge_starts))
    assert np.array_equal(local, data.edge_index.numpy())
    if data.x is None:
        assert own.degrees
        return
    assert own.kinds == sizes["num_node_labels"]
    attributes = sizes["num_node_attributes"]
    assert np.array_equal(own.attributes, data.x[:, :attributes].numpy())
    if own.kinds:
        assert own.kind.tolist() == data.x[:, attributes:].argmax(dim=1).tolist()


@pytest.mark.data
@pytest.mark.slow
def test_the_largest_set(data_root: Path) -> None:
    own = read_set(data_root / "TUDataset", "COLLAB")
    assert (own.graphs, own.nodes, own.edges.shape[1], len(own.classes)) == (5_000, 372_474, 24_572_158, 3)
    assert (own.kinds, own.degrees) == (492, True)
