from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedgraft.domains.tables.reader import read
from fedgraft.domains.tables.rows import Cells, Rows, as_numbers
from fedgraft.domains.tables.schema import Column, Table, check_roles, renamed
from fedgraft.errors import InputError

XZ = Table("t", (Column("x", "number"), Column("z", needed=False)), folder="clients")


def cells(values: object, name: str = "x") -> Cells:
    series = pd.Series(values)
    return Cells(series, name, [("t", len(series))], np.arange(len(series)))


def read_xz(given: Path | pd.DataFrame, **names: str) -> Rows:
    return read(given, XZ, {"x": "x", "z": "z", **names}, "p", "p")


def test_csv_values_stay_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,x\n007,1\nNA,2\n 7,3\n")
    rows = read_xz(path, z="id")
    codes, names = rows.read("z")
    assert names.tolist() == ["007", "7", "NA"]
    assert codes.tolist() == [0, 2, 1]
    assert rows.read("x").tolist() == [1, 2, 3]


def test_blanks_around_csv_values_go(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,x\ncat ,1 \n cat,2\t\n" cat ",3\n" ", \n')
    table = read_xz(path, z="id").frame
    assert table["id"].tolist()[:3] == ["cat"] * 3
    assert table["x"].tolist()[:3] == ["1", "2", "3"]
    assert table.iloc[3].isna().all()


def test_parquet_integers_become_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pd.DataFrame({"id": [10, 9, 10], "x": [1.5, 2.5, 3.5]}).to_parquet(path)
    assert read_xz(path, z="id")["z"].codes()[1].tolist() == ["10", "9"]


def test_rows_are_counted_per_file() -> None:
    source = [("a.csv", 2), ("b.csv", 0), ("c.csv", 3)]
    assert [Cells(pd.Series(range(5)), "x", source, np.arange(5)).row(row) for row in range(5)] == [
        "a.csv, row 1",
        "a.csv, row 2",
        "c.csv, row 1",
        "c.csv, row 2",
        "c.csv, row 3",
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1", "four", "x"], r"t, row 2: 'x' must be a finite number; got 'four' \(2 such rows\)"),
        ([1.0, np.nan], r"t, row 2: 'x' must be a finite number; got nothing \(1 such rows\)"),
        ([1.0, np.inf], "row 2: 'x' must be a finite number; got 'inf'"),
        ([True, False], "row 1: 'x' must be a number; got True"),
        ([pd.Timestamp("2020-01-02")], r"t, row 1: 'x' must be a finite number; got '2020-01-02 00:00:00' \(1 such"),
        ([pd.Timedelta("1s")], "t, row 1: 'x' must be a finite number; got '0 days 00:00:01'"),
        ([1j], "t, row 1: 'x' must be a finite number; got '1j'"),
    ],
)
def test_numbers_name_the_row(values: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cells(values).numbers()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", None], "t, row 2: 'id' is empty"),
        ([1.0, 2.5], "t, row 2: 'id' must be text or whole numbers; got 2.5"),
        ([1j, 2], "t, row 1: 'id' must be text or whole numbers; got 1j"),
    ],
)
def test_ids_name_the_row(values: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cells(values, "id").codes()


def test_whole_floats_are_whole_numbers() -> None:
    assert cells([2.0, 1.0]).codes()[1].tolist() == ["1", "2"]


def test_numbers_of_every_kind() -> None:
    for values in (["1.5", "x", None], pd.Series([1.5, None], dtype="Float64"), pd.Series([1.5, None], dtype=object)):
        assert as_numbers(pd.Series(values))[0] == 1.5
        assert np.isnan(as_numbers(pd.Series(values))[1:]).all()
    assert as_numbers(pd.Series([2, 1, 2]).astype("category")).tolist() == [2, 1, 2]
    assert np.isnan(as_numbers(pd.Series([True, None], dtype="boolean"))).all()
    assert np.isnan(as_numbers(pd.Series(pd.period_range("2020", periods=2)))).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1", None, "0.5", "2.5"], r"t, row 3: 'y' must be text or whole numbers; got 0.5 \(2 such rows\)"),
        ([None, 1.5, 2.5], r"t, row 2: 'y' must be text or whole numbers; got 1.5 \(2 such rows\)"),
        ([1.0, np.inf], r"t, row 2: 'y' must be text or whole numbers; got inf"),
    ],
)
def test_fractions_are_no_classes(values: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cells(values, "y").check_classes()


@pytest.mark.parametrize("values", [["1.5", "mild"], ["1.0", "2.0", None], [1.0, None], [True, False], [None]])
def test_whole_numbers_and_text_are_classes(values: list[object]) -> None:
    cells(values, "y").check_classes()


def test_a_column_has_one_role() -> None:
    check_roles("P", [("x", "a"), ("y", "b")])
    with pytest.raises(InputError, match=r"P\.y must be another column than P\.x; got 'a'\."):
        check_roles("P", [("x", "a"), ("y", "a")])
    with pytest.raises(InputError, match=r"P\.y must name each column once; got 'b' twice\."):
        check_roles("P", [("x", "a"), ("y", "b"), ("y", "b")])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, r"p: no file .*missing\.csv"),
        ("a.xlsx", b"", r"p must end in \.csv or \.parquet \(or \.tsv, .*\); got '.*a\.xlsx'"),
        ("a.csv", b"", r"a\.csv: the file is empty"),
        ("a.csv", b"x,y\n", r"a\.csv: no rows"),
        ("a.csv", b"X,y\n1,2\n", r"a\.csv: no column 'x' \(p\.x\)\. Did you mean 'X'\? Columns: X, y"),
        ("a.csv", b"x,y\n1,2,3\n4,5,6\n", r"a\.csv, row 1: 3 fields where the header names 2\."),
        ("a.csv", b"x,y\n1,2,\n4,5,\n", r"a\.csv, row 1: 3 fields where the header names 2\."),
        ("a.csv", b"x,y\n1,2,3,4\n5,6\n", r"a\.csv, row 1: 4 fields where the header names 2\."),
        ("a.csv", b"x,y\n1,2\n4,5,6\n", r"a\.csv, line 3: 3 fields where the header names 2\."),
        ("a.csv", b"x,y,x\n1,2,3\n", r"a\.csv: 2 columns are named 'x'; one is needed\."),
        ("a.csv", b"\xef\xbb\xbfx, z,y,z,z\n1,2,3,4,5\n", r"a\.csv: 3 columns are named 'z'; one is needed\."),
        ("a.csv", b'x,y\n1,"2\n', r"a\.csv cannot be read as csv \(Error tokenizing data"),
        ("a.csv", b"x,y\n\x81,2\n", r"a\.csv is no text in UTF-8, UTF-16 or cp1252 .* data\.encoding says another"),
        ("a.csv", b"PK\x03\x04\x00\x00x,y\n", r"a\.csv: there are zero bytes in it, as in no text"),
        ("a.csv.gz", b"x,y\n1,2\n", r"a\.csv\.gz cannot be read as csv \(Not a gzipped file"),
        ("a.parquet", b"no parquet", r"a\.parquet cannot be read as parquet"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_xz(tmp_path / name)


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text("x\n1\n")
    with pytest.raises(InputError, match=r"Did you mean '.*/ratings\.csv'\?"):
        read_xz(tmp_path / "rating.csv")


def test_two_columns_of_one_name() -> None:
    with pytest.raises(InputError, match=r"p: 2 columns are named 'x'; one is needed"):
        read_xz(pd.DataFrame([[1, 2]], columns=["x", "x"]))
    with pytest.raises(InputError, match=r"p: 2 columns are named '0'; one is needed"):
        read_xz(pd.DataFrame([[1, 2, 3]], columns=["x", "0", 0]), z="0")


def test_names_of_columns_are_text(tmp_path: Path) -> None:
    frame = pd.DataFrame({0: [1], 1: [2]})
    frame.to_parquet(tmp_path / "a.parquet")
    for given in (frame, tmp_path / "a.parquet"):
        assert list(read_xz(given, x="1", z="0").frame) == ["1", "0"]


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"folder .* holds no file that ends in \.csv or \.parquet"):
        read_xz(tmp_path)
    (tmp_path / "b.csv").write_text("x,z\n1,2\n3,4\n")
    pd.DataFrame({"x": [5], "z": [6]}).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "notes.txt").write_text("ignored")
    rows = read_xz(tmp_path)
    assert list(rows.files) == ["a", "b"]
    assert [count for _, count in rows.source] == [1, 2]
    (tmp_path / "c.csv").write_text("x\n1\n")
    with pytest.raises(InputError, match=r"c\.csv: no column 'z', which other files of the folder have"):
        read_xz(tmp_path)
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(InputError, match="holds two files named 'a'"):
        read_xz(tmp_path)


def test_columns_of_questions_are_renamed_once() -> None:
    table = pd.DataFrame({"who": [1], "client": ["a"], "note": ["x"]})
    found = renamed({"pairs": table, "more": table}, {"pairs": {"who": "user", "client": "client"}})
    assert {name: list(each) for name, each in found.items()} == {
        "pairs": ["user", "client", "note"],
        "more": ["who", "client", "note"],
    }
    with pytest.raises(InputError, match=r"^--pairs: columns 'who' and 'note' both say the note; one is needed\.$"):
        renamed({"pairs": table}, {"pairs": {"who": "note"}})


def test_blanks_around_ids_go_wherever_they_come_from(tmp_path: Path) -> None:
    frame = pd.DataFrame({" x ": [1, 2, 3], "z": ["a ", " a", "b\t"]})
    frame.to_parquet(tmp_path / "a.parquet")
    for given in (frame, tmp_path / "a.parquet"):
        codes, names = read_xz(given).read("z")
        assert (codes.tolist(), names.tolist()) == ([0, 0, 1], ["a", "b"])
        assert read_xz(given)["z"].among(np.array(["a", "b"])).tolist() == [0, 0, 1]
