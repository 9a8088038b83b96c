"""Tables however they are written: one table in many forms is one table, and what was found out is said."""

import bz2
import gzip
import lzma
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.errors import InputError
from fedgraft.tables.table_files import FOUND_OUT, TextForm, files_of, header, is_table, read_file, stem_of, table_of

TABLE = pd.DataFrame(
    {
        "user": ["007", "7", "Zoë"],
        "city": ["Paris, France", 'the "Hague"', "two\nlines"],
        "price": ["1.5", "20", "3.25"],
    }
)


def csv(**options: object) -> bytes:
    return TABLE.to_csv(index=False, **options).encode(str(options.get("encoding") or "utf-8"))  # type: ignore[call-overload]


def lines(separator: str) -> bytes:
    """Return a table without quotes."""
    rows = [("user", "item", "rating"), ("007", "a b", "3"), ("7", "c", "4.5")]
    return "".join(separator.join(row) + "\n" for row in rows).encode()


def as_zip(data: bytes) -> bytes:
    path = Path("packed.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("t.csv", data)
    return path.read_bytes()


def as_zst(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


FORMS: dict[str, Callable[[], bytes]] = {
    "comma.csv": csv,
    "semicolon.csv": lambda: csv(sep=";"),
    "tab.tsv": lambda: csv(sep="\t"),
    "bar.txt": lambda: csv(sep="|"),
    "tab.tab": lambda: csv(sep="\t"),
    "semicolon_comma.csv": lambda: csv(sep=";").replace(b"1.5", b"1,5").replace(b"3.25", b"3,25"),
    "latin.csv": lambda: csv().decode().encode("latin-1"),
    "utf16.csv": lambda: csv().decode().encode("utf-16"),
    "utf16be.csv": lambda: csv(sep="\t").decode().encode("utf-16-be"),
    "mark.csv": lambda: b"\xef\xbb\xbf" + csv(),
    "windows.csv": lambda: csv(lineterminator="\r\n").replace(b"two\nlines", b"two\nlines"),
    "blanks.csv": lambda: csv().replace(b"user,city,price", b" user , city,price ").replace(b"007,", b" 007 ,"),
    "quoted.csv": lambda: csv(quoting=1),
    "comments.csv": lambda: b"# of our shop\n# made in May\n" + csv(),
    "t.csv.gz": lambda: gzip.compress(csv()),
    "t.tsv.bz2": lambda: bz2.compress(csv(sep="\t")),
    "t.csv.xz": lambda: lzma.compress(csv()),
    "t.csv.zst": lambda: as_zst(csv()),
    "t.csv.zip": lambda: as_zip(csv()),
    "t.zip": lambda: as_zip(csv()),
    "rows.jsonl": lambda: TABLE.to_json(orient="records", lines=True).encode(),
    "rows.ndjson": lambda: TABLE.to_json(orient="records", lines=True).encode(),
    "rows.json": lambda: TABLE.to_json(orient="records").encode(),
    "rows.json.gz": lambda: gzip.compress(TABLE.to_json(orient="records").encode()),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_table_is_the_same_however_it_is_written(name: str) -> None:
    Path(name).write_bytes(FORMS[name]())
    read = read_file(name, "p")
    assert read.table.astype(str).to_dict("list") == TABLE.to_dict("list")
    assert header(name) == ["user", "city", "price"]
    usual = name.split(".")[0] in ("comma", "mark", "windows", "blanks", "quoted", "t", "rows") and "tsv" not in name
    assert bool(read.notes) != usual, read.notes
    assert is_table(name)


@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        (".parquet", pd.DataFrame.to_parquet),
        (".feather", pd.DataFrame.to_feather),
        (".orc", pd.DataFrame.to_orc),
        (".arrow", lambda table, path: pa.feather.write_feather(table, path, version=2)),
    ],
)
def test_files_of_columns(suffix: str, write: Callable[[pd.DataFrame, str], None]) -> None:
    table = TABLE.assign(count=[1, 2, 3])
    write(table, f"t{suffix}")
    assert read_file(f"t{suffix}", "p").table.to_dict("list") == table.to_dict("list")
    assert header(f"t{suffix}") == list(table)


def test_a_stream_of_arrow() -> None:
    with pa.OSFile("t.arrow", "w") as file, pa.ipc.new_stream(file, pa.Table.from_pandas(TABLE).schema) as writer:
        writer.write(pa.Table.from_pandas(TABLE))
    assert read_file("t.arrow", "p").table.to_dict("list") == TABLE.to_dict("list")


@pytest.mark.parametrize(("name", "separator"), [("r.dat", "::"), ("r.txt", " "), ("r.inter", "\t"), ("r.csv", ";")])
def test_what_was_found_out_is_said_once(name: str, separator: str) -> None:
    Path(name).write_bytes(lines(separator).replace(b"a b", b"ab"))
    read = read_file(name, "p")
    assert read.table.to_dict("list") == {"user": ["007", "7"], "item": ["ab", "c"], "rating": ["3", "4.5"]}
    called = {"::": "double colons", " ": "blanks", "\t": "tabs", ";": "semicolons"}[separator]
    (note,) = read.notes
    assert f"{name}: fields are separated by {called}. data.separator," in note
    assert read_file(name, "p", TextForm(separator=separator)).notes == ()


def test_movielens_has_no_header_and_says_so() -> None:
    Path("ratings.dat").write_text("1::1193::5::978300760\n1::661::3::978302109\n")
    read = read_file("ratings.dat", "p")
    assert list(read.table) == ["0", "1", "2", "3"]
    assert "the first row holds values, no names of columns" in read.notes[0]
    named = read_file("ratings.dat", "p", TextForm(columns=("user", "item", "rating", "time")))
    assert named.table["item"].tolist() == ["1193", "661"]
    with pytest.raises(
        InputError, match=r"ratings\.dat: data\.columns names 2 columns, but the first row has 4 fields"
    ):
        read_file("ratings.dat", "p", TextForm(columns=("user", "item")))


def test_a_first_row_with_a_known_name_is_a_header() -> None:
    Path("r.csv").write_text("1,2,3\n4,5,6\n")
    assert list(read_file("r.csv", "p").table) == ["0", "1", "2"]
    assert list(read_file("r.csv", "p", known=("2",)).table) == ["1", "2", "3"]
    assert list(read_file("r.csv", "p", TextForm(header=True)).table) == ["1", "2", "3"]
    Path("s.csv").write_text("24,M,writer\n30,F,doctor\n")
    assert list(read_file("s.csv", "p", known=("user",)).table) == ["0", "1", "2"]
    Path("n.csv").write_text("0,1,2\n7,8,9\n")
    assert list(read_file("n.csv", "p").table) == ["0", "1", "2"], "as pandas writes names that are numbers"
    assert len(read_file("n.csv", "p").table) == 1


def test_types_in_a_header_of_recbole_are_left_out() -> None:
    Path("u.user").write_text("user_id:token\tage:float\ttags:token_seq\n007\t33\ta b\n")
    read = read_file("u.user", "p")
    assert read.table.to_dict("list") == {"user_id": ["007"], "age": ["33"], "tags": ["a b"]}
    assert "types behind the names of columns are left out" in read.notes[0]


def test_names_in_the_last_comment_are_a_header() -> None:
    Path("e.txt").write_text("# Directed graph\n# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n")
    assert read_file("e.txt", "p").table.to_dict("list") == {"FromNodeId": ["0", "1"], "ToNodeId": ["1", "2"]}


@pytest.mark.parametrize(
    ("text", "form", "message"),
    [
        (
            "a;b,c;d\n1;2,3;4\n",
            FOUND_OUT,
            r"t\.csv: fields may be separated by commas or by semicolons; data\.separator",
        ),
        (
            "x,y\n1,3,5\n2,4,5\n",
            FOUND_OUT,
            r"t\.csv, row 1: 3 fields where the header names 2\. A decimal comma must stand",
        ),
        ('x,y\n1,"2\n', FOUND_OUT, r"t\.csv cannot be read as csv \(Error tokenizing"),
        ("x, x\n1,2\n", FOUND_OUT, r"t\.csv: 2 columns are named 'x'; one is needed"),
        ("ä,b\n1,2\n", TextForm(encoding="ascii"), r"t\.csv is no text in ascii .*; data\.encoding says another"),
    ],
)
def test_two_ways_to_read_are_one_line(text: str, form: TextForm, message: str) -> None:
    Path("t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_file("t.csv", "p", form)


def test_a_comma_that_may_set_thousands_apart_stays() -> None:
    Path("t.csv").write_text("x;y\n1;1,234\n2;10,500\n")
    assert read_file("t.csv", "p").table["y"].tolist() == ["1,234", "10,500"]
    assert read_file("t.csv", "p", TextForm(decimal=",")).table["y"].tolist() == ["1.234", "10.500"]
    Path("t.csv").write_text("x;y\n1;1,234\n2;0,5\n")
    assert read_file("t.csv", "p").table["y"].tolist() == ["1.234", "0.5"], "one that can be nothing else decides"


def test_archives() -> None:
    with zipfile.ZipFile("two.zip", "w") as archive:
        archive.writestr("a.csv", "x\n1\n")
        archive.writestr("b.csv", "x\n1\n")
    with pytest.raises(InputError, match=r"two\.zip holds 2 files; one table is needed: unpack it"):
        read_file("two.zip", "p")
    Path("t.csv.zip").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"t\.csv\.zip cannot be read as (zip|csv)"):
        read_file("t.csv.zip", "p")
    Path("t.csv.gz").write_bytes(gzip.compress(csv())[:-12])
    with pytest.raises(InputError, match=r"t\.csv\.gz cannot be read as csv \(damaged"):
        read_file("t.csv.gz", "p")
    assert stem_of(Path("shops/north.csv.gz")) == stem_of(Path("north.tsv")) == "north"


def test_of_a_folder_loose_texts_are_tables_only_alone() -> None:
    for name in ("b.tsv", "a.csv.gz", "README.txt", "c.xlsx"):
        Path(name).write_text("x")
    assert [path.name for path in files_of(Path())] == ["a.csv.gz", "b.tsv"]
    for name in ("b.tsv", "a.csv.gz"):
        Path(name).unlink()
    assert [path.name for path in files_of(Path())] == ["README.txt"]


# --- whole numbers ----------------------------------------------------------------------------------------------------

FIELD = st.one_of(
    st.integers(-(10**9), 10**9).map(str),
    st.sampled_from(["007", "+7", "-0", " 7", "7 ", "", "7.0", "1e3", '"7"', "x"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_numbers_say_all_that_the_text_does(
    tmp_path_factory, rows: list[tuple[str, str]], end: str, ends: bool
) -> None:
    path = tmp_path_factory.mktemp("numbers") / "t.csv"
    text = end.join([",".join(row) for row in [("source", "target"), *rows]]) + (end if ends else "")
    path.write_bytes(text.encode())
    quick, exact = read_file(path, "p", exact=False).table, read_file(path, "p").table
    assert quick.fillna("").astype(str).to_dict("list") == exact.fillna("").astype(str).to_dict("list")


def test_whole_numbers_alone_are_read_as_numbers() -> None:
    Path("e.csv").write_text("source,target\n1,20\n300,4\n")
    assert (read_file("e.csv", "p", exact=False).table.dtypes == np.int64).all()
    assert read_file("e.csv", "p").table["source"].tolist() == ["1", "300"]
    Path("f.csv").write_text("source,target\n1,20\n300,04\n")
    assert read_file("f.csv", "p", exact=False).table["target"].tolist() == ["20", "04"]


# --- databases --------------------------------------------------------------------------------------------------------


@pytest.fixture
def database() -> None:
    with closing(sqlite3.connect("shop.db")) as connection:
        TABLE.to_sql("sales", connection, index=False)
        TABLE.to_sql("old sales", connection, index=False)


@pytest.mark.usefixtures("database")
def test_a_table_of_a_database() -> None:
    pytest.importorskip("sqlalchemy")
    for address in (
        "sqlite:///shop.db#sales",
        "sqlite+pysqlite:///shop.db#sales",
        f"sqlite:///{Path('shop.db').resolve()}#sales",
        "sqlite:///shop.db#old sales",
    ):
        assert read_file(address, "p").table.to_dict("list") == TABLE.to_dict("list")
    query = "sqlite:///shop.db?query=SELECT user, price * 2 AS twice FROM sales WHERE user LIKE '0%'"
    assert read_file(query, "p").table.to_dict("list") == {"user": ["007"], "twice": [3.0]}
    assert table_of("sqlite:///shop.db#sales", "p")["user"].tolist() == ["007", "7", "Zoë"]
    assert is_table("sqlite:///shop.db#sales")


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sqlite:///shop.db", r"p: sqlite:///shop\.db names no table; #TABLE, or \?query=.* Tables: old sales, sales"),
        ("sqlite:///shop.db#sale", r"p: no table 'sale' in shop\.db\. Did you mean 'sales'\? Tables: old sales, sales"),
        ("sqlite:///shop.db#", r"p: sqlite:///shop\.db# names no table; .* Tables: old sales, sales"),
        ("sqlite:///#sales", r"p: sqlite:///#sales names no table"),
        (
            "sqlite+pysqlite:///shop.db#sale",
            r"p: no table 'sale' in sqlite\+pysqlite:///shop\.db\. Did you mean 'sales'",
        ),
        ("sqlite+nosuch:///shop.db#sales", r"p: sqlite\+nosuch:///shop\.db#sales cannot be read \(Can't load plugin"),
        ("sqlite:///shp.db#sales", r"p: no file shp\.db\. Did you mean 'shop\.db'\?"),
        ("sqlite:///shop.db?query=SELEC 1", r"p: sqlite:///shop\.db\?query=SELEC 1 cannot be read \(.*syntax error"),
        ("sqlite:///shop.db?query=DELETE FROM sales", r"cannot be read \(.*readonly"),
        ("https://example.org/r.csv#x", r"p: https://example\.org/r\.csv is no database; download the file"),
        ("nosuch://me:secret@host/db#t", r"p: nosuch://me:\*\*\*@host/db#t cannot be read"),
    ],
)
def test_what_no_database_has_is_one_line(address: str, message: str) -> None:
    if not address.startswith(("sqlite:", "https:")):
        pytest.importorskip("sqlalchemy")
    with pytest.raises(InputError, match=message) as caught:
        read_file(address, "p")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_duckdb_is_an_extra() -> None:
    try:
        import duckdb
    except ModuleNotFoundError:
        with pytest.raises(InputError, match=r"needs the package duckdb: pip install 'fedgraft\[sql\]'"):
            read_file("duckdb:///shop.duckdb#sales", "p")
        return
    with closing(duckdb.connect("shop.duckdb")) as connection:
        connection.execute("CREATE TABLE sales AS SELECT '007' AS user, 1.5 AS price")
    assert read_file("duckdb:///shop.duckdb#sales", "p").table.to_dict("list") == {"user": ["007"], "price": [1.5]}


def test_a_header_may_be_longer_than_what_is_looked_at_first() -> None:
    wide = pd.DataFrame(np.ones((6, 9000)), columns=[f"feature {k:05d} é" for k in range(9000)])
    wide.to_csv("w.csv", index=False)
    assert header("w.csv") == list(wide) == list(read_file("w.csv", "p").table)


def test_what_is_looked_at_first_may_end_within_a_character() -> None:
    for encoding in ("utf-8", "utf-16"):
        for shift in range(4):
            Path("c.csv").write_bytes(f"name\n{'x' * shift}{'é漢' * 40_000}\n".encode(encoding))
            assert header("c.csv") == ["name"]
            assert len(read_file("c.csv", "p").table.iloc[0, 0]) == shift + 80_000


def test_a_last_line_without_an_end_is_looked_at_too() -> None:
    Path("u.data").write_text("196\t242\t3\t881250949\n186\t302\t3\t891717742")
    assert read_file("u.data", "p", exact=False).table.to_numpy().tolist() == [
        [196, 242, 3, 881250949],
        [186, 302, 3, 891717742],
    ]
    Path("mac.csv").write_bytes(b"x,y\r1,a\r2,b\r")
    assert read_file("mac.csv", "p").table.to_dict("list") == {"x": ["1", "2"], "y": ["a", "b"]}
