"""Scores of 4,919 movies, joined by who made them, cut over clients."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from fedgraft.contracts.ranges import PositiveInt
from fedgraft.domains.nodes.base.partitions import NodeDealing
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.client_tables import OwnNodes
from fedgraft.domains.nodes.reading.movies import read_movies


@dataclass(frozen=True)
class Movies(OwnNodes):
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
    clients: int = 10
    partition: Literal["iid", "dirichlet", "louvain"] = "louvain"
    alpha: float = 0.5
    fold: int = 0
    people: Literal["director", "all"] = "director"
    least: PositiveInt = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        self._dealing()

    def load(self, seed: int) -> list[NodeShard]:
        """Load one shard per client, dealt and split by `seed`."""
        return self._dealing().deal(read_movies(Path(self.root), self.people, self.least), seed)

    def _dealing(self) -> NodeDealing:
        return NodeDealing("Movies", self.clients, self.partition, self.alpha, fold=self.fold)
