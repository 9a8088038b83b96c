"""Published typed graphs: made-up copies of their files, and the counts of the real ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fedgraft.domains.typed.published_sets import SETS, read_set
from fedgraft.domains.typed.shards import merge_graphs
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.methods.data import TYPED_SETS
from fedgraft.methods.data.typed_sets import TypedSets
from helpers.toy_typed import named, write_heco

COUNTS = {
    "acm": ({"paper": 4019, "author": 7167, "subject": 60}, 34_852, 1902, [1993, 965, 1061]),
    "dblp": (
        {"author": 4057, "paper": 14_328, "conference": 20, "term": 7723},
        239_566,
        334,
        [1197, 745, 1109, 1006],
    ),
    "aminer": ({"paper": 6564, "author": 13_329, "reference": 35_890}, 153_676, 0, [1333, 1114, 526, 3591]),
    "freebase": (
        {"movie": 3492, "actor": 33_401, "director": 2502, "writer": 4459},
        151_034,
        0,
        [1327, 618, 1547],
    ),
    "yelp": (
        {"business": 2614, "user": 1286, "reservation": 2, "service": 2, "level": 9},
        77_360,
        0,
        [470, 1082, 1062],
    ),
    "imdb": ({"movie": 4278, "director": 2081, "actor": 5257}, 34_212, 3066, [1135, 1584, 1559]),
    "imdb_nshe": ({"movie": 3676, "actor": 4353, "director": 1678}, 29_408, 0, [984, 1396, 1296]),
}
"""Nodes of each type, edges both ways, features, and nodes of each class, as published."""


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def write_yelp(root: Path) -> Path:
    """Four businesses 0 .. 3, users 4 and 5, reservations 6 and 7, services 8 and 9, a level 10."""
    forward = [(0, 4, 0), (1, 4, 0), (2, 5, 0), (3, 5, 0), (0, 6, 2), (1, 7, 2), (2, 6, 2), (3, 6, 2)]
    forward += [(k, 8 + k % 2, 4) for k in range(4)] + [(k, 10, 6) for k in range(4)]
    triples = [*forward, *((b, a, r + 1) for a, b, r in forward)]
    lines = "".join(f"{a} {b} {r}\n" for a, b, r in triples)
    category = "3\t2\n0\t0\n2\t1\n"
    return write(root / "HeGAN_yelp", **{"yelp_triple.dat": lines, "yelp_business_category.txt": category})


def write_academic(root: Path, **more: str) -> Path:
    files = {
        "a_p_list_train.txt": "0:0,1\n1:1\n",
        "a_p_list_test.txt": "3:2,\n0:1\n",
        "p_p_citation_list.txt": "0:1\n1:0\n2:2,1\n",
        "p_v.txt": "0,5\n1,5\n2,7\n",
        "a_class_train.txt": "0,1\n",
        "a_class_test.txt": "3,0\n",
    }
    return write(root / "HetGNN_academic", **{**files, **more})


def write_imdb(root: Path) -> Path:
    rows = [
        "Ann,Bo,Action|Drama,Cy,Di,a spy|a train",
        ",Bo,Comedy,Cy,Di,no director",
        "Ann,,Romance|Comedy,Bo,Cy,a Train|spy-hunter",
        "Bo,Di,Romance,Cy,Ann,not one of the classes",
        'Di,,Drama,"Ann",Ann,',
    ]
    header = "director_name,actor_2_name,genres,actor_1_name,actor_3_name,plot_keywords\n"
    return write(root / "IMDB5000", **{"movie_metadata.csv": header + "".join(f"{row}\n" for row in rows)})


def write_nshe(root: Path) -> Path:
    files = {
        "node2id.txt": "5\nm0\t0\nm1\t1\na0\t2\na1\t3\nd0\t4\n",
        "relations.txt": "0\t2\t0\t1\n0\t3\t0\t1\n1\t3\t0\t1\n0\t4\t1\t1\n1\t4\t1\t1\n",
        "imdb_m_label.txt": "0\n1\n",
    }
    return write(root / "NSHE_imdb", **files)


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("above", ["", "HeCo", "HeCo/acm"])
def test_a_set_is_found_from_its_folder_and_from_those_above(tmp_path: Path, above: str) -> None:
    write_heco(tmp_path / "HeCo" / "acm")
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    graph = read_set(tmp_path / above, "acm")
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before, "nothing is written"
    assert {kind: len(ids) for kind, ids in graph.ids.items()} == {"paper": 60, "author": 20, "subject": 6}
    assert (graph.target, graph.name, graph.classes) == ("paper", "ACM", ("0", "1", "2"))
    assert graph.metapaths == ("paper-author-paper", "paper-subject-paper")
    assert graph.label.tolist() == [v % 3 for v in range(60)]
    assert sparse.issparse(graph.features)
    assert graph.edges["paper", "subject"].shape == (2, 60)
    assert graph.edges["paper", "author"].shape[1] == len({(v, a) for v in range(60) for a in (v % 20, v // 3 % 20)})


def test_yelp(tmp_path: Path) -> None:
    write_yelp(tmp_path)
    graph = read_set(tmp_path, "yelp")
    assert graph.label.tolist() == [0, -1, 1, 2]
    assert {kind: ids.tolist() for kind, ids in graph.ids.items()} == {
        "business": [0, 1, 2, 3],
        "user": [4, 5],
        "reservation": [6, 7],
        "service": [8, 9],
        "level": [10],
    }
    assert named(graph)["business-reservation"] == [("0", "6"), ("1", "7"), ("2", "6"), ("3", "6")]
    assert graph.features.shape == (4, 0)
    assert graph.metapaths[0] == "business-user-business"


def test_academic(tmp_path: Path) -> None:
    write_academic(tmp_path)
    graph = read_set(tmp_path, "academic")
    assert graph.label.tolist() == [1, -1, -1, 0]
    assert named(graph) == {
        "author-paper": [("0", "0"), ("0", "1"), ("1", "1"), ("3", "2")],
        "paper-venue": [("0", "5"), ("1", "5"), ("2", "7")],
        "paper-paper": [("0", "1"), ("1", "2")],
    }, "each once, without the loop"


def test_imdb(tmp_path: Path) -> None:
    write_imdb(tmp_path)
    graph = read_set(tmp_path, "imdb")
    assert graph.ids["movie"].tolist() == [1, 3, 5], "with a director, a first actor and one of the classes"
    assert [graph.classes[label] for label in graph.label] == ["Action", "Comedy", "Drama"]
    assert graph.ids["director"].tolist() == ["Ann", "Di"]
    assert named(graph)["movie-actor"] == [
        ("1", "Bo"),
        ("1", "Cy"),
        ("1", "Di"),
        ("3", "Bo"),
        ("3", "Cy"),
        ("5", "Ann"),
    ]
    # "spy" and "train" are of two movies each, "a" is no word, "hunter" of one.
    features = graph.features.toarray() if sparse.issparse(graph.features) else graph.features
    assert features.tolist() == [[1, 1], [1, 1], [0, 0]]


def test_imdb_of_nshe(tmp_path: Path) -> None:
    write_nshe(tmp_path)
    graph = read_set(tmp_path, "imdb_nshe")
    assert named(graph) == {
        "movie-actor": [("m0", "a0"), ("m0", "a1"), ("m1", "a1")],
        "movie-director": [("m0", "d0"), ("m1", "d0")],
    }


def test_shards(tmp_path: Path) -> None:
    write_heco(tmp_path / "HeCo" / "acm")
    parts = TypedSets(tmp_path, clients=3).load(1)
    assert [(part.name, part.targets, part.width) for part in parts] == [(f"ACM-{k}", 20, 30) for k in range(3)]
    assert np.bincount(np.concatenate([part.split for part in parts])).tolist() == [36, 12, 12]
    assert merge_graphs(parts).targets == 60
    halved = TypedSets(tmp_path, clients=3, shares="64:16:20").load(1)
    assert np.bincount(np.concatenate([part.split for part in halved])).tolist() == [38, 10, 12]


def test_a_set_without_features_gets_some_of_what_a_client_holds(tmp_path: Path) -> None:
    folder = tmp_path / "HeCo" / "aminer"
    write_heco(folder, features=False)
    (folder / "ps.txt").rename(folder / "pr.txt")
    parts = TypedSets(tmp_path, "aminer", clients=3).load(1)
    assert {part.features.shape[1] for part in parts} == {2 + 3 * 64}
    questions = TypedSets(tmp_path, "aminer").questions(None, {}, {})
    assert questions["features"]["name"].tolist() == []
    assert "features" not in TypedSets(tmp_path, "acm").questions(None, {}, {})


def test_presets_are_names_of_sets(tmp_path: Path) -> None:
    assert tuple(SETS) == TYPED_SETS
    for name in SETS:
        assert discovery.build("data", "data", {"name": name, "root": str(tmp_path)}) == TypedSets(tmp_path, name)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("root", "path"), [("", "HeCo/acm/pa.txt"), ("HeCo", "HeCo/acm/pa.txt"), ("HeCo/acm", "HeCo/acm/pa.txt")]
)
def test_a_missing_file_is_named_with_its_path_and_address(tmp_path: Path, root: str, path: str) -> None:
    address = r"https://github.com/liun-online/HeCo/raw/HEAD/data/acm/pa.txt"
    with pytest.raises(InputError, match=rf"TypedSets: no file {tmp_path / path}; download {address} to there"):
        TypedSets(tmp_path / root, "acm").load(1)
    write_heco(tmp_path / "HeCo" / "acm")
    (tmp_path / "HeCo" / "acm" / "ps.txt").unlink()
    with pytest.raises(InputError, match=rf"no file {tmp_path}/HeCo/acm/ps.txt; download https://.*/acm/ps.txt"):
        TypedSets(tmp_path / root, "acm").load(1)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("pa.txt", b"", "UserWarning: .*no data"),
        ("pa.txt", b"0 1\n2 x\n", "ValueError: could not convert string 'x' to int64 at row 1, column 2"),
        ("pa.txt", b"0 1 2\n", "ValueError: 2 numbers a line are needed, got 3"),
        ("pa.txt", b"0 1\n-2 1\n", "ValueError: numbers must be at least 0; line 2 has less"),
        ("pa.txt", b"0 1\n60 1\n", "line 2: paper 60, but labels.npy is of 60"),
        ("labels.npy", b"no array", "ValueError: "),
        ("p_feat.npz", b"PK\x03\x04", "BadZipFile: "),
    ],
)
def test_a_broken_file_is_one_line(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    folder = tmp_path / "HeCo" / "acm"
    write_heco(folder)
    (folder / name).write_bytes(content)
    again = rf"download it again from https://github.com/liun-online/HeCo/raw/HEAD/data/acm/{name}\.$"
    with pytest.raises(InputError, match=rf"TypedSets: {folder / name} cannot be read \({why}.*\); {again}") as caught:
        TypedSets(tmp_path, "acm").load(1)
    assert "\n" not in str(caught.value)


def _pickled(folder: Path) -> None:
    np.save(folder / "labels.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)


def _narrow(folder: Path) -> None:
    sparse.save_npz(folder / "p_feat.npz", sparse.eye(59, format="csr"))


def _infinite(folder: Path) -> None:
    sparse.save_npz(folder / "p_feat.npz", sparse.eye(60, format="csr") * np.inf)


def _fractions(folder: Path) -> None:
    np.save(folder / "labels.npy", np.linspace(0, 2, 60))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_pickled, r"labels.npy cannot be read \(ValueError: Object arrays cannot be loaded"),
        (_narrow, r"p_feat.npz cannot be read \(59 rows, but labels.npy is of 60\)"),
        (_infinite, r"p_feat.npz cannot be read \(ValueError: features must be finite numbers\)"),
        (_fractions, r"labels.npy cannot be read \(ValueError: it must be one class a node, 0 or more; got float64"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, spoil: Callable[[Path], None], message: str) -> None:
    folder = tmp_path / "HeCo" / "acm"
    write_heco(folder)
    spoil(folder)
    with pytest.raises(InputError, match=message):
        TypedSets(tmp_path, "acm").load(1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"a_p_list_train.txt": "0:0\n1:x\n"}, r"a_p_list_train.txt cannot be read \(ValueError: line 2: invalid lit"),
        ({"a_p_list_train.txt": "\n"}, r"a_p_list_train.txt cannot be read \(ValueError: no pairs"),
        ({"a_p_list_train.txt": "0:-1\n"}, r"a_p_list_train.txt cannot be read \(numbers must be at least 0; got -1"),
        ({"p_p_citation_list.txt": "0:9\n"}, r"p_p_citation_list.txt cannot be read \(paper 9 is not in p_v.txt"),
        ({"a_p_list_test.txt": "0:9\n"}, r"a_p_list_test.txt cannot be read \(paper 9 is not in p_v.txt"),
    ],
)
def test_broken_lists(tmp_path: Path, more: dict[str, str], message: str) -> None:
    write_academic(tmp_path, **more)
    with pytest.raises(InputError, match=message):
        read_set(tmp_path, "academic")


def test_other_broken_sets(tmp_path: Path) -> None:
    folder = write_yelp(tmp_path)
    write(folder, **{"yelp_business_category.txt": "4 1\n"})
    with pytest.raises(
        InputError, match=r"category.txt cannot be read \(line 1: 4 is no business of yelp_triple.dat\)"
    ):
        read_set(tmp_path, "yelp")
    write(folder, **{"yelp_triple.dat": "0 4 8\n"})
    with pytest.raises(InputError, match=r"yelp_triple.dat cannot be read \(relations are 0\.\.7; got 8\)"):
        read_set(tmp_path, "yelp")
    folder = write_nshe(tmp_path)
    write(folder, **{"imdb_m_label.txt": "0\n"})
    with pytest.raises(InputError, match=r"imdb_m_label.txt cannot be read \(1 lines for 2 movies\)"):
        read_set(tmp_path, "imdb_nshe")
    write(folder, **{"relations.txt": "2\t0\t0\t1\n"})
    with pytest.raises(InputError, match=r"line 1: 2 must be a movie, 0 an actor or a director"):
        read_set(tmp_path, "imdb_nshe")
    write(folder, **{"node2id.txt": "1\nx0\t0\n"})
    with pytest.raises(InputError, match=r"node2id.txt cannot be read \(line 2: x0 0\)"):
        read_set(tmp_path, "imdb_nshe")
    folder = write_imdb(tmp_path)
    write(folder, **{"movie_metadata.csv": "title\nx\n"})
    with pytest.raises(InputError, match=r"movie_metadata.csv cannot be read \(ValueError: Usecols do not match"):
        read_set(tmp_path, "imdb")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"set": "amc"}, r"TypedSets.set must be one of 'acm', .* got 'amc'\. Did you mean 'acm'\?"),
        ({"clients": 0}, "TypedSets.clients must be >= 1; got 0"),
        (
            {"partition": "iid"},
            "TypedSets.partition must be one of 'uniform', .*; got 'iid'",
        ),
        ({"others": "none"}, "TypedSets.others must be one of 'shared', 'divided'; got 'none'"),
        ({"shares": "80:10:10"}, "TypedSets.shares must be one of '60:20:20', '64:16:20'; got '80:10:10'"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TypedSets(Path("nowhere"), **options)  # type: ignore[arg-type]


# --- the real files ---------------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize("name", list(COUNTS))
def test_published_counts(data_root: Path, name: str) -> None:
    if not data_root.joinpath(*SETS[name].folder).is_dir():
        pytest.skip(f"no {'/'.join(SETS[name].folder)} in {data_root}")
    nodes, edges, features, classes = COUNTS[name]
    graph = read_set(data_root, name)
    assert {kind: len(ids) for kind, ids in graph.ids.items()} == nodes
    assert 2 * sum(ends.shape[1] for ends in graph.edges.values()) == edges
    assert graph.width == features
    assert np.bincount(graph.label).tolist() == classes


@pytest.mark.data
def test_published_counts_of_academic(data_root: Path) -> None:
    if not (data_root / "HetGNN_academic").is_dir():
        pytest.skip(f"no HetGNN_academic in {data_root}")
    graph = read_set(data_root, "academic")
    assert {kind: len(ids) for kind, ids in graph.ids.items()} == {"author": 28_646, "paper": 21_044, "venue": 18}
    # Published: 69,311 lines of authors, of which three repeat others, and 21,357 citations one way.
    counts = {pair: ends.shape[1] for pair, ends in graph.edges.items()}
    assert counts == {("author", "paper"): 69_308, ("paper", "venue"): 21_044, ("paper", "paper"): 21_285}
    assert np.bincount(graph.label + 1).tolist() == [17_286, 3508, 1946, 2890, 3016]


@pytest.mark.data
@pytest.mark.parametrize("name", ["acm", "yelp"])
def test_real_sets_keep_the_laws(data_root: Path, name: str) -> None:
    from fedgraft.testing.data import check_data

    if not data_root.joinpath(*SETS[name].folder).is_dir():
        pytest.skip(f"no {'/'.join(SETS[name].folder)} in {data_root}")
    check_data(TypedSets, root=data_root, set=name)
