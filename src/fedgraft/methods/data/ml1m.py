"""MovieLens-1M: who watched which movies, with title, year and genres of each."""

from dataclasses import dataclass
from typing import ClassVar

from fedgraft.domains.ranking.movielens import Format, MovieLensSet, movie_1m


@dataclass(frozen=True)
class ML1M(MovieLensSet):
    """MovieLens-1M: movies that people rated, each rating a positive; a client holds whole users.

    Source: F. M. Harper, J. A. Konstan, "The MovieLens Datasets", ACM TiiS 2015; ratings.dat and movies.dat from
    https://grouplens.org/datasets/movielens/1m/.
    For research, no redistribution without leave, so fedgraft does not ship it. Partition by user balance index: Liu
    et al., "Multi-objective bandit participant selection", eqs. 29, 30.
    Differs: as `ml100k` from that paper, which has no run on this set.

    STATS: 6,040 users, 3,706 movies with a rating of 3,883 that are listed, 1,000,209 ratings.

    Args:
        root: folder that holds ratings.dat and movies.dat.
        clients: number of clients, 1..users.
        partition: "exponential", "linear" or "uniform", the shape of the clients' portions; client 0 is the largest.
        ubi: interactions of the smallest client by those of the largest, in (0, 1]; not used with "uniform".
        features: what is known of movies: "text"; "none"; the path of a .npy file with a row for each movie of
            movies.dat; "sentence-transformers:NAME" or "timm:NAME" where installed (extra `fedgraft[features]`);
            or a table of these by modality, such as {text = "text", poster = "poster.npy"}.
        images: folder with an image per movie, named by its number (12.jpg), for "timm:NAME".
        width: columns of features from "text", >= 1.
    """

    form: ClassVar[Format] = Format("ratings.dat", "::", "movies.dat", movie_1m)
    page: ClassVar[str] = "1m/"
