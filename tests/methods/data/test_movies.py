"""The table of movies: a made-up copy, and the counts of the real one."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.methods.baselines.node_mean import NodeMean
from fedgraft.methods.baselines.node_ridge import NodeRidge
from fedgraft.methods.data.movies import Movies, read_movies
from helpers.toy_movies import HEADER, write_movies

ROWS = [
    "Ann,Bo,Cy,Di,Action|Drama,spy|train,PG,UK,English,Color,160,2010,8.5,http://www.imdb.com/title/tt1/?ref",
    "Ann,Di,,,Drama|Drama,spy,PG,UK,English,Color,,,4,http://www.imdb.com/title/tt2/",
    "Eve,Bo,Ann,,,,,,, Color,100,1990,6.25,http://www.imdb.com/title/tt3/",
    "Ann,Bo,Cy,Di,Action|Drama,spy|train,PG,UK,English,Color,160,2010,8.5,http://www.imdb.com/title/tt1/",
]


def edges(graph):
    receiver = np.repeat(np.arange(graph.nodes), graph.degree)
    return {(int(a), int(b)) for a, b in zip(receiver, graph.senders, strict=True) if a < b}


def test_four_rows_by_hand(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Ann directed tt1 and tt2, Di played in both, Bo played in tt1 and tt3; Ann as an actor in tt3 is another part."""
    write_movies(tmp_path, ROWS)
    graph = read_movies(tmp_path, "director", least=2)
    assert graph.ids.tolist() == ["tt1", "tt2", "tt3"]
    assert "1 rows of movies that are listed before left out" in caplog.text
    assert graph.label.tolist() == [8.5, 4, 6.25]
    assert edges(graph) == {(0, 1)}
    assert edges(read_movies(tmp_path, "all", least=2)) == {(0, 1), (0, 2)}
    # Drama, spy, PG, UK, English and Color are of two movies at least; then hours from 100 minutes, decades from 2000.
    assert graph.features.tolist() == [[1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 0, -1]]
    assert read_movies(tmp_path, "director", least=1).features.shape == (3, 10)


def test_clients_and_splits(tmp_path: Path) -> None:
    write_movies(tmp_path / "IMDB5000")
    shards = Movies(tmp_path, clients=4, least=2).load(1)
    assert len(shards) == 4
    assert all(shard.classes == () and shard.halo == 0 for shard in shards), "whole careers stay together"
    assert sorted(np.bincount(np.concatenate([shard.split for shard in shards]))) == [10, 12, 38]
    assert Movies(tmp_path, clients=3, partition="iid", least=2).load(1)[0].halo > 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROWS[0].replace("8.5", "good"), r"row 1 has no imdb_score\); download it again from https://github\.com"),
        (ROWS[0].replace("/title/tt1", ""), r"row 1 has no movie_imdb_link"),
        (ROWS[0].partition(",160")[0], r"row 1 has no movie_imdb_link"),  # cut off
    ],
)
def test_a_damaged_table_is_named(tmp_path: Path, row: str, message: str) -> None:
    write_movies(tmp_path, [row])
    with pytest.raises(InputError, match=message):
        Movies(tmp_path).load(1)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Movies: no file .*movie_metadata\.csv; download https://github\.com/.* to"):
        Movies(tmp_path).load(1)
    for text, why in ((HEADER.replace("genres,", "") + "\n", "genres"), ("", "No columns")):
        (tmp_path / "movie_metadata.csv").write_text(text)
        with pytest.raises(InputError, match=rf"cannot be read \(.*{why}"):
            Movies(tmp_path).load(1)
    with pytest.raises(InputError, match=r"Movies\.people must be one of 'director', 'all'; got 'cast'"):
        Movies(tmp_path, people="cast")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"Movies\.least must be >= 1; got 0"):
        Movies(tmp_path, least=0)
    with pytest.raises(InputError, match=r"Movies\.clients must be >= 1; got 0"):
        Movies(tmp_path, clients=0)


def test_the_recipe_takes_it(tmp_path: Path) -> None:
    write_movies(tmp_path)
    made = load("node_regression", {"data.name": "movies", "data.root": str(tmp_path)})
    assert (made.task_name, made.data) == ("node_regression", Movies(tmp_path))


@pytest.mark.data
def test_the_real_table(data_root: Path) -> None:
    graph = read_movies(data_root, "director", least=10)
    assert (graph.nodes, graph.edges, graph.features.shape[1]) == (4919, 7548, 480)
    assert sparse.issparse(graph.features)
    assert graph.label.mean() == pytest.approx(6.4379, abs=1e-4)
    assert read_movies(data_root, "all", least=10).edges == 51_649
    shards = Movies(data_root).load(1)
    assert [shard.own for shard in shards] == [492] * 9 + [491]
    assert NodeRidge(hops=1).score(shards)["test"] < 0.95 < 1.1 < NodeMean().score(shards)["test"]
