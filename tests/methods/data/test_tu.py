from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.graphs.tu_files import read_set
from fedgraft.domains.graphs.tu_sets import GROUPS
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.recipes import discovery
from fedgraft.methods.data.tu import TU
from helpers.toy_graphs import write_tu


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for place, name in enumerate(GROUPS["bio"]):
        write_tu(tmp_path / "sets", name, graphs=40 + 20 * place, labels=name != "DD", seed=place)
    return tmp_path / "sets"


def test_a_client_is_a_set_of_the_group(root: Path) -> None:
    shards = TU(root, "bio").load(1)
    assert [shard.name for shard in shards] == ["ENZYMES", "DD", "PROTEINS"]
    assert [np.bincount(shard.split).tolist() for shard in shards] == [[32, 4, 4], [48, 6, 6], [64, 8, 8]]
    for shard in shards:
        for part in range(3):
            assert len(np.unique(shard.label[shard.split == part])) == 2, "stratified"
    assert [shard.degrees for shard in shards] == [False, True, False]
    assert len(TU(root, "bio", clients=3).load(1)) == 3


@pytest.mark.parametrize(("partition", "alpha"), [("iid", 0.5), ("dirichlet", 0.5)])
def test_a_set_is_dealt_to_clients(root: Path, partition: str, alpha: float) -> None:
    shards = TU(root, "proteins", clients=4, partition=partition, alpha=alpha).load(1)
    assert [shard.name for shard in shards] == [f"PROTEINS-{k}" for k in range(4)]
    assert sorted(np.concatenate([shard.ids for shard in shards])) == list(range(1, 81))
    assert len({(shard.kinds, shard.classes) for shard in shards}) == 1, "one vocabulary, so that they can be merged"
    sizes = [shard.graphs for shard in shards]
    assert (sizes == [20] * 4) == (partition == "iid")
    assert len(TU(root, "proteins").load(1)) == 10


def test_a_part_of_each_set(root: Path) -> None:
    shards = TU(root, "bio", max_graphs=50).load(1)
    assert [shard.graphs for shard in shards] == [40, 50, 50]
    assert np.bincount(shards[1].label).tolist() == [25, 25]
    assert shards[1].ids.tolist() != TU(root, "bio", max_graphs=50).load(2)[1].ids.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sets": "chemm"}, r"TU.sets must be one of 'chem', .* got 'chemm'\. Did you mean 'chem'\?"),
        ({"sets": "ptcmr"}, r"Did you mean 'ptc_mr'\?"),
        ({"clients": -1}, "TU.clients must be >= 0; got -1"),
        ({"clients": 5}, r"TU.clients must be 0 or 7, one for each set of 'chem'; got 5"),
        ({"partition": "dirichlet"}, r"TU.partition = 'dirichlet' is for a single set; 'chem' has 7"),
        ({"partition": "even"}, "TU.partition must be one of 'iid', 'dirichlet'; got 'even'"),
        ({"alpha": 0.0}, "TU.alpha must be > 0; got 0.0"),
        ({"alpha": float("nan")}, "TU.alpha must be > 0; got nan"),
        ({"attributes": "yes"}, "TU.attributes must be one of 'auto', 'always', 'never'; got 'yes'"),
        ({"max_graphs": 2}, r"TU.max_graphs must be 0 \(all\) or at least 3; got 2"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TU(Path("nowhere"), **options)  # type: ignore[arg-type]


def test_a_missing_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"TU: no file .*MUTAG_A\.txt; download https://"):
        TU(tmp_path).load(0)


def test_more_clients_than_graphs_allow(root: Path) -> None:
    with pytest.raises(InputError, match=r"ENZYMES: 40 graphs of 2 classes dealt to 20 clients in equal"):
        TU(root, "enzymes", clients=20).load(0)


def test_presets_are_names_of_settings_and_sets(root: Path) -> None:
    for name in ("bio", "dd", "proteins"):
        built = discovery.build("data", "data", {"name": name, "root": str(root)})
        assert built == TU(root, name)


@pytest.mark.data
def test_chem(data_root: Path) -> None:
    shards = TU(data_root / "TUDataset").load(1)
    assert [shard.graphs for shard in shards] == [188, 405, 467, 756, 344, 2000, 4110]
    assert [shard.name for shard in shards] == list(GROUPS["chem"])
    assert [shard.kinds for shard in shards] == [7, 53, 35, 53, 18, 38, 37]
    assert sum(len(shard.rows("test")) for shard in shards) == 827


@pytest.mark.data
def test_nci1_over_ten_clients(data_root: Path) -> None:
    shards = TU(data_root / "TUDataset", "nci1", partition="dirichlet").load(1)
    assert len(shards) == 10
    assert sum(shard.graphs for shard in shards) == 4110
    assert min(len(np.unique(shard.label)) for shard in shards) == 2


def test_a_set_with_numbers_is_read_from_its_graph_attributes(tmp_path: Path) -> None:
    raw = write_tu(tmp_path, "ZINC_full", graphs=40)
    (raw / "ZINC_full_graph_labels.txt").unlink()
    numbers = [(k / 7, -k) for k in range(40)]
    (raw / "ZINC_full_graph_attributes.txt").write_text("".join(f"{one}, {two}\n" for one, two in numbers))
    made = load("graph_regression", {"data.name": "zinc_full", "data.root": str(tmp_path), "data.clients": 2})
    assert made.data == TU(tmp_path, "zinc_full", 2, labels="numbers")
    shards = made.data.load(1)
    assert sorted(np.concatenate([shard.label for shard in shards])) == [one for one, _ in numbers]
    assert all(shard.classes == () and set(shard.split) == {0, 1, 2} for shard in shards)
    second = TU(tmp_path, "zinc_full", 2, labels="numbers", number=1).load(1)
    assert sorted(np.concatenate([shard.label for shard in second])) == sorted(two for _, two in numbers)
    with pytest.raises(InputError, match=r"TU\.number of ZINC_full must be below 2; got 2\."):
        TU(tmp_path, "zinc_full", 2, labels="numbers", number=2).load(1)
    with pytest.raises(InputError, match=r"TU\.sets must be one of"):
        TU(tmp_path, "chem", labels="numbers")


def write_numbered(root: Path, name: str, **files: str) -> Path:
    """Write three graphs as the collection lays them out: a triangle, a path of two and one of three nodes."""
    folder = root / name
    folder.mkdir(parents=True)
    usual = {
        "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n6, 7\n7, 6\n7, 8\n8, 7\n",
        "graph_indicator": "1\n1\n1\n2\n2\n3\n3\n3\n",
        "node_labels": "0\n1\n0\n2\n2\n1\n0\n1\n",
        "edge_labels": "0\n" * 12,
    }
    for part, text in {**usual, **files}.items():
        (folder / f"{name}_{part}.txt").write_text(text)
    return root


def test_numbers_in_the_forms_of_the_three_sets(tmp_path: Path) -> None:
    """One number a graph (ZINC), several (alchemy), in floats of any form and with attributes of nodes (QM9)."""
    zinc = read_set(write_numbered(tmp_path, "ZINC_full", graph_attributes="-2.7349\n0.5\n3"), "ZINC_full")
    assert zinc.label.tolist() == [-2.7349, 0.5, 3.0]
    assert zinc.label.dtype == np.float64
    assert zinc.sizes.tolist() == [3, 2, 3]
    alchemy = "-0.14,  0.8,1.5e-02\n" * 2 + "1E3,-.5,+2\n"
    root = write_numbered(tmp_path, "alchemy_full", graph_attributes=alchemy)
    columns = [read_set(root, "alchemy_full", number=column).label.tolist() for column in range(3)]
    assert columns == [[-0.14, -0.14, 1000.0], [0.8, 0.8, -0.5], [0.015, 0.015, 2.0]]
    places = "".join(f"{k}.5,-{k},0.25\n" for k in range(8))
    numbers = "".join(",".join(str(graph + column / 100) for column in range(19)) + "\n" for graph in range(3))
    root = write_numbered(tmp_path, "QM9", graph_attributes=numbers, node_attributes=places)
    qm9 = read_set(root, "QM9", "always", number=18)
    assert qm9.label.tolist() == [0.18, 1.18, 2.18]
    assert (qm9.attributes.shape, qm9.kinds) == ((8, 3), 3)
    assert read_set(root, "QM9").attributes.shape == (8, 0)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("1,2\n3\n5,6\n", r"QM9_graph_attributes\.txt, line 2: 2 numbers expected; got '3'\."),
        ("1\n2,3\n4\n", r"QM9_graph_attributes\.txt, line 2: 1 number expected; got '2,3'\."),
        ("1\nnan\n2\n", r"QM9_graph_attributes\.txt, line 2: attributes must be finite numbers; got \[nan\]\."),
        ("1\n2\n", r"QM9_graph_attributes\.txt: 2 labels for the 3 graphs of .*QM9_graph_indicator\.txt\."),
    ],
)
def test_a_column_count_that_changes_is_told_with_its_line(tmp_path: Path, told: str, message: str) -> None:
    root = write_numbered(tmp_path, "QM9", graph_attributes=told)
    with pytest.raises(InputError, match=message):
        read_set(root, "QM9")


def test_any_folder_in_the_layout_is_a_set_by_its_name(tmp_path: Path) -> None:
    raw = write_tu(tmp_path, "My-Own_set", graphs=40)
    write_tu(tmp_path, "MUTAG", graphs=40)
    shards = TU(tmp_path, "My-Own_set", clients=4).load(1)
    assert [shard.name for shard in shards] == [f"My-Own_set-{k}" for k in range(4)]
    assert shards[0].classes == ("-1", "1")
    same = [TU(tmp_path, name, clients=4).load(1)[0].label.tolist() for name in ("MUTAG", "mutag")]
    assert same[0] == same[1]
    for part in raw.iterdir():  # as archives unpack
        part.rename(raw.parent / part.name)
    raw.rmdir()
    assert len(TU(tmp_path, "My-Own_set", clients=4).load(1)) == 4
    assert len(TU(raw.parent, "My-Own_set", clients=4).load(1)) == 4, "in its own folder"
    (raw.parent / "My-Own_set_graph_attributes.txt").write_text("".join(f"{k / 4}, {k}\n" for k in range(40)))
    numbers = TU(tmp_path, "My-Own_set", clients=2, labels="numbers", number=1).load(1)
    assert sorted(np.concatenate([shard.label for shard in numbers])) == list(range(40))


def test_a_set_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    raw = write_tu(tmp_path, "MYSET", graphs=40)
    with pytest.raises(
        InputError, match=r"TU\.sets must be one of .*, or a set in .*'MYSET'; got 'MYSETS'\. Did you mean"
    ):
        TU(tmp_path, "MYSETS")
    later = TU(tmp_path / "moved", "MYSET")
    with pytest.raises(InputError, match=r"TU: no file .*MYSET_A\.txt; no set in that layout is there"):
        later.load(1)
    (raw / "MYSET_graph_labels.txt").rename(raw / "MYSET_graph_attributes.txt")
    with pytest.raises(
        InputError, match=r"no file .*graph_labels\.txt; data\.labels = 'numbers' reads the numbers that"
    ):
        TU(tmp_path, "MYSET").load(1)


def test_labels_of_nodes_that_are_no_count_are_those_that_occur(tmp_path: Path) -> None:
    raw = write_tu(tmp_path, "MYSET", graphs=40)
    path = raw / "MYSET_node_labels.txt"
    path.write_text(
        "".join(f"{10**9 if line.strip() == '1' else line.strip()}\n" for line in path.read_text().splitlines())
    )
    assert max(map(int, TU(tmp_path, "MYSET", clients=2).load(1)[0].kind_names)) == 10**9
