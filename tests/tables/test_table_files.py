"""Files of tables: what is no table is said; what is written as CSV is text to a spreadsheet."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.tables.table_files import header, read_file, table_of, write_csv

EVIL = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1", "-1e3x", "+"]
FINE = ["client 3", "a=1", "-5", "+4.5e-3", "-.5", "'quoted'", "", "Größe"]


def test_no_cell_that_is_written_is_a_formula(tmp_path: Path) -> None:
    table = pd.DataFrame({"=user": EVIL, "item": [*FINE, "x", "y"], "rating": np.arange(-5.0, 5.0)})
    write_csv(table, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["'=user", "item", "rating"]
    assert [row[0] for row in rows] == [f"'{cell}" for cell in EVIL]
    assert [row[1] for row in rows] == [*FINE, "x", "y"]
    assert [float(row[2]) for row in rows] == table["rating"].tolist()
    assert table["=user"].tolist() == EVIL, "the table itself stays"


def test_a_separator_of_other_countries_makes_no_formula(tmp_path: Path) -> None:
    table = pd.DataFrame([["a;=1+1", "b\t=1", 1], [None, 5, 2]], columns=["a", "a", 3])
    write_csv(table, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == '"a","a",3\n"a;=1+1","b\t=1",1\n"",5,2\n'


@pytest.mark.parametrize("kind", [object, "string", "category"])
def test_texts_of_any_type_are_guarded(tmp_path: Path, kind: object) -> None:
    write_csv(pd.DataFrame({"user": pd.Series(["=1", "b"], dtype=kind)}), tmp_path / "out.csv")
    assert pd.read_csv(tmp_path / "out.csv")["user"].tolist() == ["'=1", "b"]


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^Table\.ratings: .* is a folder; give a file\.$"):
        read_file(tmp_path, "Table.ratings")
    with pytest.raises(InputError, match=r"^--pairs: /dev/null is no plain file, and .*; give a file\.$"):
        read_file(Path("/dev/null"), "--pairs")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_header_is_read_without_the_rows(tmp_path: Path, suffix: str) -> None:
    table, path = pd.DataFrame({"7": [1], "b c": [2]}), tmp_path / f"a{suffix}"
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    assert header(path) == ["7", "b c"] == list(table_of(path, "p"))
    assert table_of(table, "p") is table
