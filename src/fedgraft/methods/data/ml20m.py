"""MovieLens-20M: who watched which movies, with title, year, genres and tags of each."""

from dataclasses import dataclass
from typing import ClassVar

from fedgraft.domains.ranking.movielens import Format, MovieLensSet, movie_csv


@dataclass(frozen=True)
class ML20M(MovieLensSet):
    """MovieLens-20M: movies that people rated, each rating a positive; a client holds whole users.

    Source: F. M. Harper, J. A. Konstan, "The MovieLens Datasets", ACM TiiS 2015; ratings.csv, movies.csv and tags.csv
    from https://grouplens.org/datasets/movielens/20m/; 25m/ and 32m/ have the same format.
    For research, no redistribution without leave, so fedgraft does not ship it. Partition by user balance index: Liu
    et al., "Multi-objective bandit participant selection", eqs. 29, 30.
    Differs: as `ml100k` from that paper, which has no run on this set.

    STATS: 138,493 users, 26,744 movies with a rating of 27,278 that are listed, 20,000,263 ratings.

    Args:
        root: folder that holds ratings.csv and movies.csv, and tags.csv if tags are to be part of the text.
        clients: number of clients, 1..users.
        partition: "exponential", "linear" or "uniform", the shape of the clients' portions; client 0 is the largest.
        ubi: interactions of the smallest client by those of the largest, in (0, 1]; not used with "uniform".
        features: what is known of movies: "text"; "none"; the path of a .npy file with a row for each movie of
            movies.csv; "sentence-transformers:NAME" or "timm:NAME" where installed (extra `fedgraft[features]`);
            or a table of these by modality, such as {text = "text", poster = "poster.npy"}.
        images: folder with an image per movie, named by its number (12.jpg), for "timm:NAME".
        width: columns of features from "text", >= 1.
    """

    form: ClassVar[Format] = Format("ratings.csv", ",", "movies.csv", movie_csv, "utf-8", 1, "tags.csv")
    page: ClassVar[str] = "20m/"
