"""MovieLens-100K: who watched which movies, with title, year and genres of each."""

from dataclasses import dataclass
from typing import ClassVar

from fedgraft.domains.ranking.movielens import Format, MovieLensSet, movie_100k


@dataclass(frozen=True)
class ML100K(MovieLensSet):
    """MovieLens-100K: movies that people rated, each rating a positive; a client holds whole users.

    Source: F. M. Harper, J. A. Konstan, "The MovieLens Datasets", ACM TiiS 2015; u.data and u.item from
    https://grouplens.org/datasets/movielens/100k/. For research, no redistribution without leave, so fedgraft does not
    ship it. Partition by user balance index: Liu et al., "Multi-objective bandit participant selection", eqs. 29, 30.
    Differs: the paper deals interactions to clients; here a user is at one client with all of them, as at one edge
        cloud. The paper computes features at each client with BERT and ViT from plots and posters; here they are made
        once from the catalogue, which every client knows, by default TF-IDF and a truncated SVD of title, decade and
        genres. Client 0 is the largest; the paper's text does not say which is. Its devices are listed from the
        fastest link to the slowest, so the largest client has the fastest.

    STATS: 943 users, 1,682 movies, 100,000 ratings.

    Args:
        root: folder that holds u.data and u.item.
        clients: number of clients, 1..users; the paper has 8.
        partition: "exponential", "linear" or "uniform", the shape of the clients' portions.
        ubi: interactions of the smallest client by those of the largest, in (0, 1]; the paper has 0.1172 and 0.0146.
            Not used with "uniform".
        features: what is known of movies: "text"; "none"; the path of a .npy file with a row for each line of u.item;
            "sentence-transformers:NAME" or "timm:NAME" where installed (extra `fedgraft[features]`); or a table of
            these by modality, such as {text = "text", poster = "poster.npy"}.
        images: folder with an image per movie, named by its number (12.jpg), for "timm:NAME".
        width: columns of features from "text", >= 1.
    """

    form: ClassVar[Format] = Format("u.data", "\t", "u.item", movie_100k)
    page: ClassVar[str] = "100k/"
