"""Classes of a user's own tables: told once, read alike whoever wrote them, and what stands for an unknown one."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedgraft.domains.labels.class_notes import class_notes, untrained_notes
from fedgraft.errors import InputError
from fedgraft.methods.data.graphs import Graphs
from fedgraft.methods.data.nodes import Nodes
from fedgraft.methods.data.table import Table
from fedgraft.methods.data.typed_graph import TypedGraph

EDGES = pd.DataFrame({"source": ["n0"], "target": ["n1"]})


def nodes(labels: list[object], **more: object) -> pd.DataFrame:
    names = [f"n{k}" for k in range(len(labels))]
    return pd.DataFrame({"node": names, "label": labels, "x": np.arange(len(labels)) * 1.0, **more})


def loaded(label: list[object], **options: object) -> list:
    return Nodes(nodes(label, client=np.arange(len(label)) % 2), EDGES, **options).load(0)  # type: ignore[arg-type]


def classes(label: list[int], names: list[str]) -> tuple[str, ...]:
    return class_notes(np.array(label), names, "t.csv")


# --- what is said -----------------------------------------------------------------------------------------------------


def test_classes_are_counted() -> None:
    assert classes([0, 1, 1, -1], ["a", "b c"]) == ("t.csv: classes a (1), 'b c' (2); of 1 rows it is unknown.",)
    many = classes(list(range(30)) * 2 + [7], [f"c{k}" for k in range(30)])[0]
    assert many.endswith("c7 (3), c8 (2), c9 (2) and 20 rarer ones.")
    assert classes([0], []) == ()


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ("Red", "red", "differ in case or blanks alone"),
        ("True", "TRUE", "differ in case or blanks alone"),
        ("a ", "a", "differ in case or blanks alone"),
        ("1", "+1", "are one number"),
        ("1", "1.0", "are one number"),
        ("1", "01", "are one number"),
    ],
)
def test_twins_are_told(one: str, other: str, why: str) -> None:
    note = classes([0, 1, 1, 2], [one, other, "else"])[1]
    assert note == (
        f"t.csv: classes {one!r} (1) and {other!r} (2) {why}; each is taken for a class. "
        "Write them alike if they are one."
    )
    assert len(classes([0, 1], ["ab", "ac"])) == 1


def test_classes_without_a_row_for_training_are_told() -> None:
    split = np.array([0, 2, 1, 2], np.int8)
    assert untrained_notes(np.array([0, 1, 1, -1]), ["a", "b", "c"], split, "t") == (
        "t: no row is for training of class b (2).",
    )
    assert untrained_notes(np.array([0, 0, 0, -1]), ["a", "b"], split, "t") == ()


def test_every_data_set_with_classes_tells_them(caplog: pytest.LogCaptureFixture) -> None:
    loaded(["cat", "dog"] * 10)
    rows = pd.DataFrame({"graph": range(10), "label": ["up", "Up"] * 5})
    atoms = pd.DataFrame({"graph": range(10), "node": 0, "kind": "C"})
    Graphs(rows, atoms, pd.DataFrame({"graph": [0], "source": [0], "target": [0]})).load(0)
    kinds = {"paper": nodes([1, 2] * 10), "author": pd.DataFrame({"node": ["a"]})}
    TypedGraph(kinds, "paper", {"paper-author": pd.DataFrame({"source": ["n0"], "target": ["a"]})}, clients=1).load(0)
    for said in ("classes cat (10), dog (10).", "classes Up (5), up (5).", "differ in case", "classes 1 (10), 2 (10)."):
        assert said in caplog.text


# --- one class however it is written ----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_site_whose_whole_numbers_are_floats_has_the_classes_of_the_others(tmp_path: Path, suffix: str) -> None:
    label = np.arange(60) % 3
    table = nodes(label.tolist(), user=np.arange(60))
    for site in range(3):
        part = table[table.index % 3 == site].copy()
        part["label"] = np.arange(20) % 3
        if site == 0:
            part["label"] = part["label"].where(np.arange(20) > 1)  # pandas makes floats of them
        path = tmp_path / f"s{site}.{suffix}"
        part.to_csv(path, index=False) if suffix == "csv" else part.to_parquet(path)
    shards = Nodes(tmp_path, EDGES).load(0)
    assert [shard.classes for shard in shards] == [("0", "1", "2")] * 3
    assert [int((shard.label < 0).sum()) for shard in shards] == [2, 0, 0]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["1.0", "0.0", "2.0"] * 7, ("0", "1", "2")),
        (["+1", "-1"] * 10, ("-1", "1")),
        (["1", "1.0", "+1", "0"] * 5, ("0", "1")),
        ([1.0, 0.0, None] * 7, ("0", "1")),
        (["01", "1", "2"] * 7, ("01", "1", "2")),
        (["v1.0", "v2.0"] * 10, ("v1.0", "v2.0")),
        (["1.0", "a"] * 10, ("1.0", "a")),
        ([True, False] * 10, ("False", "True")),
    ],
)
def test_whole_numbers_are_one_class_however_they_are_written(labels: list[object], names: tuple[str, ...]) -> None:
    assert loaded(labels)[0].classes == names


def test_ids_that_are_floats_are_whole_numbers(tmp_path: Path) -> None:
    rows = pd.DataFrame({"user": np.arange(40) % 8, "item": np.arange(40), "rating": np.arange(40) % 5 + 1})
    whole = Table(rows, low=1, high=5, clients=2).load(0)
    rows.assign(user=rows["user"].map("{}.0".format)).to_csv(tmp_path / "r.csv", index=False)
    assert (
        Table(tmp_path / "r.csv", low=1, high=5, clients=2).load(0)[0].user_ids.tolist() == whole[0].user_ids.tolist()
    )
    versions = rows.assign(user=np.array(["1.0", "1.1", "2.0"])[np.arange(40) % 3])
    assert {*Table(versions, low=1, high=5, clients=1).load(0)[0].user_ids} == {"1.0", "1.1", "2.0"}
    trust = pd.DataFrame({"user": ["1.0"], "trusts": ["2.0"]})
    assert Table(versions, trust=trust, low=1, high=5, clients=1).load(0)[0].trust.shape == (2, 1)


# --- unknown ones -----------------------------------------------------------------------------------------------------


def test_minus_one_is_told_where_it_is_a_class(caplog: pytest.LogCaptureFixture) -> None:
    assert loaded([-1, 0, 1, 1] * 5)[0].classes == ("-1", "0", "1")
    assert "'-1' is taken for a class; where it stands for an unknown one, set data.na_labels = '-1'." in caplog.text


@pytest.mark.parametrize("na_labels", ["-1", -1, -1.0, ("-1", "?"), ["?", -1]])
def test_what_stands_for_an_unknown_class(na_labels: object, caplog: pytest.LogCaptureFixture) -> None:
    shards = loaded([-1, 0, 1, "-1.0"] * 5, na_labels=na_labels)
    assert shards[0].classes == ("0", "1")
    assert sum((shard.label < 0).sum() for shard in shards) == 10
    assert all((shard.split[shard.label < 0] == -1).all() for shard in shards)
    assert "taken for a class" not in caplog.text


def test_what_stands_for_an_unknown_number() -> None:
    shards = loaded([-1.0, 0.5, 2, "none"] * 5, labels="numbers", na_labels=("-1", "none"))
    assert sum(np.isnan(shard.label).sum() for shard in shards) == 10
    with pytest.raises(InputError, match="'label' is empty in every row"):
        loaded([-1] * 20, na_labels="-1")


@pytest.mark.parametrize("labels", ["classes", "numbers"])
def test_graphs_of_unknown_label_are_left_out(labels: str, caplog: pytest.LogCaptureFixture) -> None:
    rows = pd.DataFrame({"graph": range(12), "label": [-1, 1, 2] * 4})
    atoms = pd.DataFrame({"graph": np.repeat(range(12), 2), "node": [0, 1] * 12, "kind": "C", "charge": 1.0})
    bonds = pd.DataFrame({"graph": range(12), "source": 0, "target": 1})
    (shard,) = Graphs(rows, atoms, bonds, na_labels="-1", labels=labels).load(0)  # type: ignore[arg-type]
    assert shard.ids.tolist() == ["1", "2", "4", "5", "7", "8", "10", "11"]
    assert (shard.nodes, shard.edges.shape) == (16, (2, 16))
    assert "4 graphs of unknown label left out." in caplog.messages
    with pytest.raises(InputError, match=r"every 'label' is unknown \(data.na_labels\); graphs need a label"):
        Graphs(rows, atoms, bonds, na_labels=("-1", 1, 2)).load(0)
