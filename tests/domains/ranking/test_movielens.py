"""The three formats of MovieLens, from small made-up files, and what is told of broken ones."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from fedgraft.domains.ranking.movielens import Movies, movie_100k, text_of
from fedgraft.errors import InputError
from fedgraft.methods.data.ml1m import ML1M
from fedgraft.methods.data.ml20m import ML20M
from fedgraft.methods.data.ml100k import ML100K

RATINGS = [(7, 30, 5, 1), (2, 10, 1, 2), (7, 10, 3, 3), (2, 30, 4, 4), (9, 30, 2, 5)]
FLAGS = "|".join("1" if genre in (1, 15) else "0" for genre in range(19))


def u_files(folder: Path) -> Path:
    (folder / "u.data").write_text("".join("\t".join(map(str, row)) + "\n" for row in RATINGS))
    titles = {20: "Nobody (1990)", 30: "Alién (1979)", 10: "unknown"}
    flags = {20: FLAGS, 30: FLAGS, 10: "1" + "|0" * 18}
    lines = [f"{number}|{title}|01-Jan-1979||http://address|{flags[number]}\n" for number, title in titles.items()]
    (folder / "u.item").write_text("".join(lines), encoding="latin-1")
    return folder


def dat_files(folder: Path) -> Path:
    (folder / "ratings.dat").write_text("".join("::".join(map(str, row)) + "\n" for row in RATINGS))
    lines = ["20::Nobody (1990)::Drama\n", "30::Alién (1979)::Action|Sci-Fi\n", "10::unknown::unknown\n"]
    (folder / "movies.dat").write_text("".join(lines), encoding="latin-1")
    return folder


def csv_files(folder: Path) -> Path:
    rows = "".join(",".join(map(str, row)) + "\n" for row in RATINGS)
    (folder / "ratings.csv").write_text(f"userId,movieId,rating,timestamp\n{rows}")
    lines = ["20,Nobody (1990),Drama", '30,"Alién, The (1979)",Action|Sci-Fi', "10,unknown,(no genres listed)"]
    (folder / "movies.csv").write_text("\n".join(["movieId,title,genres", *lines]) + "\n", encoding="utf-8")
    return folder


def expect(movies: Movies, title: str) -> None:
    assert movies.item_ids.tolist() == ["30", "10"], "in the order of the file, without those nobody rated"
    assert movies.user_ids.tolist() == ["2", "7", "9"]
    pairs = zip(movies.user_ids[movies.user].tolist(), movies.item_ids[movies.item].tolist(), strict=True)
    assert sorted(pairs) == sorted((str(user), str(item)) for user, item, _, _ in RATINGS)
    assert movies.titles.tolist() == [title, "unknown"]
    assert (movies.place.tolist(), movies.listed) == ([1, 2], 3)


def test_three_formats_say_the_same(tmp_path: Path) -> None:
    expect(found := ML100K(u_files(tmp_path)).movies(), "Alién (1979)")
    assert found.texts == ("Alién (1979). 1970s. Action, Sci-Fi.", "")
    expect(found := ML1M(dat_files(tmp_path)).movies(), "Alién (1979)")
    assert found.texts == ("Alién (1979). 1970s. Action, Sci-Fi.", "")
    expect(ML20M(csv_files(tmp_path)).movies(), "Alién, The (1979)")


def test_tags_that_most_people_gave_come_first(tmp_path: Path) -> None:
    tags = ["1,30,In  Space,1", "2,30,in space,1", '3,30,"aliens, bad",1', "4,30,acid,2", "5,20,dull,3"]
    (csv_files(tmp_path) / "tags.csv").write_text("\n".join(["userId,movieId,tag,timestamp", *tags]) + "\n")
    text = ML20M(tmp_path).movies().texts[0]
    assert text == "Alién, The (1979). 1970s. Action, Sci-Fi. in space, acid, aliens, bad."


def test_texts() -> None:
    assert text_of("Alien (1979)", ["Horror", "Sci-Fi"]) == "Alien (1979). 1970s. Horror, Sci-Fi."
    assert text_of("No year", []) == "No year."
    assert text_of("Serial (1990–1993)", []) == "Serial (1990–1993). 1990s."
    assert movie_100k(f"5|A|x|y|z|{FLAGS}") == (5, "A", ["Action", "Sci-Fi"])


def test_a_pair_counts_once(tmp_path: Path) -> None:
    with (u_files(tmp_path) / "u.data").open("a") as file:
        file.write("7\t30\t1\t9\n")
    assert len(ML100K(tmp_path).movies().user) == len(RATINGS)


def replace(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replace("u.data", "1\t30\t5\t1\n1\t30\t5\n"), r"u\.data, line 2 must be userTABitemTABratingTABtime, all num"),
        (replace("u.data", "1\t30\t5\t1\t2\n"), r"u\.data, line 1 must be .*; got '1\\t30\\t5\\t1\\t2'"),
        (replace("u.data", "1\t30\t5\t1\n\n2\t30\tx\t1\n"), r"u\.data, line 3 must be .*; got '2\\t30\\tx\\t1'"),
        (replace("u.data", "1\t30\t\t1\n"), r"u\.data, line 1 must be"),
        (replace("u.data", ""), r"u\.data cannot be read"),
        (replace("u.data", "1\t30\t5\t1\n1\t31\t5\t1\n"), r"u\.data, line 2: movie 31 is not in .*u\.item"),
        (replace("u.item", ""), r"u\.item: no movies"),
        (
            replace("u.item", "30|Title|x\n"),
            r"u\.item, line 1 must be number\|title\|date\|date\|address\|a 0 or 1 for",
        ),
        (replace("u.item", f"1|A|x|y|z|{FLAGS}\n1|B|x|y|z|{FLAGS}\n"), r"u\.item, line 2: movie 1 is listed twice"),
        (replace("u.item", f"1|A|x|y|z|{FLAGS[:-1]}2\n"), r"u\.item, line 1 must be"),
    ],
)
def test_broken_files_of_100k(tmp_path: Path, change: Callable[[Path], object], message: str) -> None:
    change(u_files(tmp_path))
    with pytest.raises(InputError, match=message):
        ML100K(tmp_path).load(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            replace("ratings.dat", "1::30::5::1\n1::30::x::1\n"),
            r"ratings\.dat, line 2 must be user::item::rating::time",
        ),
        (replace("movies.dat", "30::Alien\n"), r"movies\.dat, line 1 must be number::title::genres, which"),
    ],
)
def test_broken_files_of_1m(tmp_path: Path, change: Callable[[Path], object], message: str) -> None:
    change(dat_files(tmp_path))
    with pytest.raises(InputError, match=message):
        ML1M(tmp_path).load(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replace("ratings.csv", "userId,movieId,rating,timestamp\n1,30\n"), r"ratings\.csv, line 2 must be user,item,"),
        (replace("ratings.csv", "h,h,h,h\n1,31,5,1\n"), r"ratings\.csv, line 2: movie 31 is not in"),
        (replace("movies.csv", "movieId,title,genres\n1,A\n"), r"movies\.csv, line 2 must be number,title,genres"),
        (replace("tags.csv", "userId,movieId,tag,timestamp\n1,x,y,2\n"), r"tags\.csv, line 2 must be user,movie,tag"),
    ],
)
def test_broken_files_of_20m(tmp_path: Path, change: Callable[[Path], object], message: str) -> None:
    change(csv_files(tmp_path))
    with pytest.raises(InputError, match=message):
        ML20M(tmp_path).load(0)


def test_text_that_is_not_in_its_encoding(tmp_path: Path) -> None:
    (csv_files(tmp_path) / "movies.csv").write_bytes(b"movieId,title,genres\n30,Ali\xe9n,Drama\n")
    with pytest.raises(InputError, match=r"movies\.csv is not text in utf-8"):
        ML20M(tmp_path).load(0)


def test_one_clients_own_movies(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (dat_files(tmp_path) / "ratings.dat").open("a") as file:
        file.write("9::20::4::6\n")
    data = ML1M(tmp_path, width=2)
    own = pd.DataFrame({"user": ["x", "x", "y"], "item": [30, 77, 10]})
    shard = data.client_shard(None, {"data": own})
    assert shard.item_ids.tolist() == ["20", "30", "10"]
    assert list(zip(shard.user_ids[shard.user].tolist(), shard.item.tolist(), strict=True)) == [("x", 1), ("y", 2)]
    assert shard.features["text"].shape[0] == 3
    assert caplog.messages == ["--data: 1 interactions with movies that the run does not know left out."]
