"""Scores of 4,919 movies, joined by who made them, cut over clients."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.ranges import PositiveFloat, PositiveInt
from fedgraft.contracts.values import Indices
from fedgraft.domains.dealing import Fold
from fedgraft.domains.examples import Features, compact
from fedgraft.domains.nodes.base.partitions import DealtNodes
from fedgraft.domains.nodes.base.shards import NodeShard, WholeGraph, undirected
from fedgraft.domains.nodes.reading.client_tables import OwnNodes
from fedgraft.domains.notes import LOG
from fedgraft.errors import InputError


@dataclass(frozen=True)
class Movies(DealtNodes[NodeShard], OwnNodes):
    """Regression of the scores that viewers gave 4,919 movies, from what is known of a movie when it is released.

    Two movies are joined where one person directed both. Features are genres, words of the plot, rating, country,
    language and colour, a column of ones and zeros for each value that is common, and length and year. What only comes
    after the release (votes, critics, takings, followers) is not read.

    Source: movie_metadata.csv, "IMDB 5000 Movie Dataset", as Wang et al., "HAN", WWW 2019, publish it with their code.
    No licence is stated; fedgraft does not ship it.
    Differs: HAN tells genres; the scores and the split by five folds are ours. Movies are once, by their address.

    Args:
        root: the folder of movie_metadata.csv, or the one above its folder IMDB5000. It is only read.
        clients: over how many the movies are dealt, >= 1.
        partition: "iid", "dirichlet" (by fifths of the scores) or "louvain" (whole careers stay together), as of the
            data set `pyg_nodes`.
        alpha: of "dirichlet", > 0.
        fold: which of five folds is the test set, 0..4.
        people: who joins movies: the "director", or "all", the three leading actors too.
        least: movies that a value must be of to be a feature, >= 1.
    """

    task: ClassVar[str] = "node_regression"

    root: Path
    clients: PositiveInt = 10
    partition: Literal["iid", "dirichlet", "louvain"] = "louvain"
    alpha: PositiveFloat = 0.5
    fold: Fold = 0
    people: Literal["director", "all"] = "director"
    least: PositiveInt = 10

    def load(self, seed: int) -> list[NodeShard]:
        """Load one shard per client, dealt and split by `seed`."""
        return self.dealing.deal(read_movies(Path(self.root), self.people, self.least), seed)


# --- movies -----------------------------------------------------------------------------------------------------------


FOLDER, FILE = "IMDB5000", "movie_metadata.csv"
ADDRESS = f"https://github.com/Jhy1993/HAN/raw/HEAD/data/imdb/{FILE}"
PEOPLE = {
    "director": (("director_name",),),
    "all": (("director_name",), ("actor_1_name", "actor_2_name", "actor_3_name")),
}
"""Columns whose people join movies; those of one tuple play the same part."""
VALUES = ("genres", "plot_keywords", "content_rating", "country", "language", "color")
"""Columns whose values are features, several apart by "|"."""
NUMBERS = {"duration": (100.0, 60.0), "title_year": (2000.0, 10.0)}
"""Columns of numbers that are features: which one is 0, and how much is 1; not fitted to the data, so nothing leaks."""
SCORE, LINK = "imdb_score", "movie_imdb_link"
TITLE = r"/title/(tt\d+)"
"""A movie's id, in its address."""


def read_movies(root: Path, people: str, least: int) -> WholeGraph:
    """The graph of all movies, split by nobody; a movie that is listed again is left out, with a note.

    `root` is the folder of the table, or the one above it. `people`, one of `PEOPLE`, join two movies; a value must be
    of `least` movies to be a feature, >= 1.
    """
    path = next((place for place in (root / FILE, root / FOLDER / FILE) if place.is_file()), None)
    if path is None:
        raise InputError(
            f"Movies: no file {root / FILE}; download {ADDRESS} to there. Movies.root is the file's folder, or the "
            "one above it."
        )
    table = _table(path)
    ends = np.concatenate([_pairs(table[list(columns)]) for columns in PEOPLE[people]], axis=1)
    pointers, senders, _ = undirected(ends, len(table), "pair of movies")  # people who made several are no surprise
    ids, label = table[LINK].to_numpy(dtype=object), table[SCORE].to_numpy(np.float64)
    return WholeGraph.unsplit("movies", ids, _features(table, least), label, (pointers, senders))


def _table(path: Path) -> pd.DataFrame:
    """The columns that are used, as text but for numbers, a row a movie; `LINK` holds ids."""
    people = [column for columns in PEOPLE["all"] for column in columns]
    try:
        table = pd.read_csv(path, usecols=[*people, *VALUES, *NUMBERS, SCORE, LINK], dtype=str)
    except (ValueError, OSError) as error:  # parsers' errors are ValueErrors
        raise _wrong(path, " ".join(str(error).split())) from error
    title = table[LINK].str.extract(TITLE)[0]
    for column in (SCORE, *NUMBERS):
        table[column] = pd.to_numeric(table[column], errors="coerce")
    for column, missing in ((LINK, title.isna()), (SCORE, ~np.isfinite(table[SCORE]))):
        if missing.any():
            raise _wrong(path, f"row {int(missing.argmax()) + 1} has no {column}")
    again = title.duplicated()
    if again.any():
        LOG.warning(f"{path.name}: {int(again.sum()):,} rows of movies that are listed before left out.")
    return table.assign(**{LINK: title})[~again].reset_index(drop=True)


def _wrong(path: Path, why: str) -> InputError:
    return InputError(f"Movies: {path} cannot be read ({why}); download it again from {ADDRESS}.")


def _pairs(columns: pd.DataFrame) -> Indices:
    """Return every two movies that have a person in common, int64 [2, pairs]; a pair once for each of these."""
    person = columns.melt(ignore_index=False)["value"].str.strip().dropna()
    made = [np.unique(rows.index.to_numpy()) for _, rows in person.groupby(person)]
    pairs = [rows[np.stack(np.triu_indices(len(rows), 1))] for rows in made if len(rows) > 1]
    return np.concatenate([np.zeros((2, 0), np.int64), *pairs], axis=1)


def _features(table: pd.DataFrame, least: int) -> Features:
    """float32 [movies, f]: a column of ones and zeros for each common value, in their order; then numbers, 0 = none."""
    parts: list[Features] = [_indicators(table[column], least) for column in VALUES]
    parts += [
        ((table[[column]] - zero) / one).fillna(0).to_numpy(np.float32) for column, (zero, one) in NUMBERS.items()
    ]
    features = sparse.csr_matrix(sparse.hstack(parts, format="csr", dtype=np.float32))
    return compact(features)


def _indicators(column: pd.Series, least: int) -> sparse.csr_matrix:
    """float32 [movies, values]: which movie has which of the values that at least so many have."""
    value = column.str.split("|").explode().str.strip().dropna()
    value = value.groupby(level=0).unique().explode()
    counts = value.value_counts()
    names: Sequence[str] = sorted(counts.index[counts >= least])
    value = value[value.isin(names)]
    place: NDArray[np.intp] = np.searchsorted(names, value.to_numpy(str)) if names else np.zeros(0, np.intp)
    ones = np.ones(len(value), np.float32)
    return sparse.csr_matrix((ones, (value.index.to_numpy(), place)), shape=(len(column), len(names)))
