"""Reads eight published typed graphs from the files that their authors made; nothing is written, nothing downloaded."""

import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features, compact
from fedgraft.domains.typed.shards import JOIN, EdgeType, TypedGraph, once
from fedgraft.errors import InputError

HECO = "https://github.com/liun-online/HeCo/raw/HEAD/data"
GENRES = ("Action", "Comedy", "Drama")
"""Classes of movies; the first of them that a movie's genres name is its own (Fu et al., "MAGNN", WWW 2020)."""
CAST = ("actor_1_name", "actor_2_name", "actor_3_name")
WORD = re.compile(r"\b\w\w+\b")
"""A word of the plot: at least two letters or digits."""
LEAST = 2
"""Movies that a word must be of to be a feature, as in MAGNN."""
YELP = {0: "user", 2: "reservation", 4: "service", 6: "level"}
"""What a business is joined to by each relation; the next number is the same relation backwards. Which of the two
types of two nodes is which was found by holding them against the files of librahu's HIN datasets."""


class Files:
    """The files of a set in one folder; each can be downloaded from the address, by its name behind a "/"."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address

    def check(self, names: Sequence[str]) -> None:
        """Raise `InputError` for the first file that is not there."""
        for name in names:
            if not (self.folder / name).is_file():
                raise InputError(
                    f"TypedSets: no file {self.folder / name}; download {self.address}/{name} to there. TypedSets.root "
                    "(data.root in a recipe) is the set's folder, or one above it."
                )

    def wrong(self, name: str, why: str) -> InputError:
        """Return the error for a file that does not hold what it must."""
        return InputError(
            f"TypedSets: {self.folder / name} cannot be read ({why}); download it again from {self.address}/{name}."
        )

    def numbers(self, name: str, columns: int, separator: str | None = None) -> Indices:
        """Whole numbers of 0 or more, int64 [rows, columns], of a file with a row per line; None is for blanks."""
        with self._opened(name) as path:
            numbers = np.loadtxt(path, dtype=np.int64, delimiter=separator, ndmin=2)
            if numbers.shape[1] != columns:
                raise ValueError(f"{columns} numbers a line are needed, got {numbers.shape[1]}")
            if numbers.min() < 0:
                raise ValueError(f"numbers must be at least 0; line {(numbers < 0).any(axis=1).argmax() + 1} has less")
        return numbers

    def lists(self, name: str) -> Indices:
        """Pairs int64 [2, pairs] of a file with lines such as "3:8,9": a number, and those that it is joined to."""
        pairs: list[tuple[int, int]] = []
        with self._opened(name) as path:
            for line, text in enumerate(path.read_text().splitlines(), 1):
                first, _, others = text.strip().partition(":")
                try:
                    pairs += [(int(first), int(other)) for other in others.split(",") if other]
                except ValueError as error:
                    raise ValueError(f"line {line}: {error}") from error
            if not pairs:
                raise ValueError("no pairs")
        pairs_found = np.array(pairs, np.int64).T
        if pairs_found.min() < 0:
            raise self.wrong(name, f"numbers must be at least 0; got {pairs_found.min()}")
        return pairs_found

    def labels(self, name: str) -> Indices:
        """Whole numbers int64 [nodes] of an .npy file."""
        with self._opened(name) as path:
            values = np.load(path, allow_pickle=False)
            if values.ndim != 1 or not len(values) or (values % 1 != 0).any() or values.min() < 0:
                raise ValueError(f"it must be one class a node, 0 or more; got {values.dtype} of {list(values.shape)}")
            label: Indices = values.astype(np.int64)
        return label

    def matrix(self, name: str) -> Features:
        """float32 [nodes, f] of an .npz file that `scipy.sparse.save_npz` wrote."""
        with self._opened(name) as path:
            if not zipfile.is_zipfile(path):  # np.load would leave it open
                raise zipfile.BadZipFile("it is no .npz archive, or cut off")
            matrix = sparse.load_npz(path).tocsr().astype(np.float32)
            if not np.isfinite(matrix.data).all():
                raise ValueError("features must be finite numbers")
            matrix.sort_indices()
        return compact(matrix)

    def table(self, name: str, columns: Sequence[str]) -> pd.DataFrame:
        """Return some columns of a CSV file with a header, as text; empty fields are missing."""
        with self._opened(name) as path:
            table: pd.DataFrame = pd.read_csv(path, usecols=list(columns), dtype=str)
        return table

    def lines(self, name: str) -> list[list[str]]:
        """Return the words of each line that has some."""
        with self._opened(name) as path:
            return [words for text in path.read_text().splitlines() if (words := text.split())]

    @contextmanager
    def _opened(self, name: str) -> Iterator[Path]:
        """Make what readers raise for a damaged file an `InputError`."""
        damaged = (OSError, ValueError, KeyError, EOFError, IndexError, AttributeError, zipfile.BadZipFile, zlib.error)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # of an empty file
                yield self.folder / name
        except (*damaged, UserWarning) as error:
            raise self.wrong(name, f"{type(error).__name__}: {' '.join(str(error).split())}") from error


@dataclass(frozen=True)
class Published:
    """The source of a published set: its title, its folder, below those that it usually lies in, and an address.

    `read` makes the graph of the files there, with its title; `has_features` says whether target nodes have features,
    and where not, the graph's have no columns.
    """

    title: str
    folder: tuple[str, ...]
    address: str
    files: tuple[str, ...]
    read: Callable[[Files, str], TypedGraph]
    has_features: bool = False


def read_set(root: Path, name: str) -> TypedGraph:
    """Read one of `SETS`, whole, split by nobody; its features have no columns where it has none.

    `root` is the set's folder, or one above it, such as that of all sets.
    """
    published = SETS[name]
    files = Files(_folder(root, published), published.address)
    files.check(published.files)
    return published.read(files, published.title)


def _folder(root: Path, published: Published) -> Path:
    """Return where most of a set's files are; where none is, where they should be by the name of the root."""
    parts = published.folder
    places = [root.joinpath(*parts[above:]) for above in range(len(parts) + 1)]
    counts = [sum((place / file).is_file() for file in published.files) for place in places]
    if max(counts):
        return places[counts.index(max(counts))]
    named = [above for above in range(1, len(parts) + 1) if root.parts[-above:] == parts[:above]]
    return places[max(named, default=0)]


def _graph(
    title: str,
    target: str,
    ids: Mapping[str, Sequence[object] | NDArray[np.integer]],
    label: Indices,
    classes: Sequence[str],
    edges: Mapping[EdgeType, Indices],
    metapaths: Sequence[str],
    features: "Features | None" = None,
) -> TypedGraph:
    """Return a graph in no split; each edge once."""
    count = len(label)
    return TypedGraph(
        name=title,
        target=target,
        ids={kind: np.array(list(known), dtype=object) for kind, known in ids.items()},
        features=np.zeros((count, 0), np.float32) if features is None else features,
        label=label,
        classes=tuple(classes),
        split=np.full(count, -1, np.int8),
        edges={pair: once(ends, pair[0] == pair[1]) for pair, ends in edges.items()},
        metapaths=tuple(metapaths),
    )


# --- HeCo: ACM, DBLP, AMiner, Freebase --------------------------------------------------------------------------------


def _heco(
    title: str, target: str, relations: Mapping[str, EdgeType], metapaths: Sequence[str], features: str = ""
) -> Published:
    """Return a set of HeCo: two columns of numbers for each relation, `labels.npy` and perhaps features."""

    def read(files: Files, title: str) -> TypedGraph:
        label = files.labels("labels.npy")
        edges, counts = {}, {target: len(label)}
        for name, (one, other) in relations.items():
            ends = files.numbers(name, 2).T
            for kind, column in zip((one, other), ends, strict=True):
                if kind == target and column.max() >= len(label):
                    line = int((column >= len(label)).argmax()) + 1
                    why = f"line {line}: {kind} {column[line - 1]}, but labels.npy is of {len(label)}"
                    raise files.wrong(name, why)
                counts[kind] = max(counts.get(kind, 0), int(column.max()) + 1)
            edges[one, other] = ends
        values = files.matrix(features) if features else None
        if values is not None and values.shape[0] != len(label):
            raise files.wrong(features, f"{values.shape[0]} rows, but labels.npy is of {len(label)}")
        ids = {kind: np.arange(count) for kind, count in counts.items()}
        return _graph(title, target, ids, label, _numbered(label), edges, metapaths, values)

    files, name = (*relations, "labels.npy", *([features] if features else [])), title.lower()
    return Published(title, ("HeCo", name), f"{HECO}/{name}", files, read, bool(features))


def _numbered(label: Indices) -> tuple[str, ...]:
    return tuple(map(str, range(int(label.max()) + 1)))


# --- Yelp, Academic ---------------------------------------------------------------------------------------------------


def _yelp(files: Files, title: str) -> TypedGraph:
    triples, category = "yelp_triple.dat", "yelp_business_category.txt"
    head, tail, relation = files.numbers(triples, 3).T
    if (relation > max(YELP) + 1).any():
        raise files.wrong(triples, f"relations are 0..{max(YELP) + 1}; got {relation.max()}")
    forward = relation % 2 == 0  # what goes back says the same
    businesses = np.unique(head[forward])
    ids, edges = {"business": businesses}, {}
    for number, kind in YELP.items():
        of = relation == number
        ids[kind], place = np.unique(tail[of], return_inverse=True)
        edges["business", kind] = np.stack([np.searchsorted(businesses, head[of]), place])
    label = np.full(len(businesses), -1, np.int64)
    named, classes = files.numbers(category, 2).T
    place = np.minimum(np.searchsorted(businesses, named), len(businesses) - 1)
    if len(lost := np.flatnonzero(businesses[place] != named)):
        raise files.wrong(category, f"line {lost[0] + 1}: {named[lost[0]]} is no business of {triples}")
    label[place] = classes
    paths = [JOIN.join(("business", kind, "business")) for kind in ("user", "level", "service", "reservation")]
    return _graph(title, "business", ids, label, _numbered(label), edges, paths)


def _academic(files: Files, title: str) -> TypedGraph:
    parts = ("train", "test")
    lists = {name: files.lists(name) for name in (*(f"a_p_list_{part}.txt" for part in parts), "p_p_citation_list.txt")}
    *written, cites = lists.values()
    writes = np.concatenate(written, axis=1)
    paper, venue = files.numbers("p_v.txt", 2, ",").T
    labelled = np.concatenate([files.numbers(f"a_class_{part}.txt", 2, ",") for part in parts])
    papers, authors = int(paper.max()) + 1, int(max(writes[0].max(), labelled[:, 0].max())) + 1
    for name, pairs in lists.items():
        numbers = pairs if pairs is cites else pairs[1]
        if numbers.max() >= papers:
            raise files.wrong(name, f"paper {numbers.max()} is not in p_v.txt")
    venues, place = np.unique(venue, return_inverse=True)
    label = np.full(authors, -1, np.int64)
    label[labelled[:, 0]] = labelled[:, 1]
    ids = {"author": np.arange(authors), "paper": np.arange(papers), "venue": venues}
    edges = {("author", "paper"): writes, ("paper", "venue"): np.stack([paper, place]), ("paper", "paper"): cites}
    paths = ["author-paper-author", "author-paper-venue-paper-author", "author-paper-paper-author"]
    return _graph(title, "author", ids, label, _numbered(label), edges, paths)


# --- IMDB -------------------------------------------------------------------------------------------------------------


def _imdb(files: Files, title: str) -> TypedGraph:
    name = "movie_metadata.csv"
    table = files.table(name, [*CAST, "director_name", "genres", "plot_keywords"])
    first = [next((one for one in str(genres).split("|") if one in GENRES), "") for genres in table["genres"]]
    kept = np.flatnonzero(table[CAST[0]].notna() & table["director_name"].notna() & (np.array(first) != ""))
    if not len(kept):
        raise files.wrong(name, f"no movie of {', '.join(GENRES)}")
    movies = table.iloc[kept]
    ids: dict[str, Sequence[object] | NDArray[np.integer]] = {"movie": kept + 1}  # titles and addresses repeat
    edges = {}
    for kind, columns in (("director", ["director_name"]), ("actor", CAST)):
        named = movies[list(columns)].to_numpy(dtype=object)
        row, column = np.nonzero(movies[list(columns)].notna().to_numpy())
        people, place = np.unique(named[row, column].astype(str), return_inverse=True)
        ids[kind] = people.tolist()
        edges["movie", kind] = np.stack([row, place])
    label = np.array([GENRES.index(first[row]) for row in kept], np.int64)
    words = [WORD.findall(str(text).lower()) for text in movies["plot_keywords"].fillna("")]
    paths = ["movie-actor-movie", "movie-director-movie"]
    return _graph(title, "movie", ids, label, GENRES, edges, paths, compact(_counted(words)))


def _counted(texts: Sequence[Sequence[str]]) -> sparse.csr_matrix:
    """Return how often each word of at least `LEAST` texts is in each, float32 [texts, words]; words in their order."""
    several = Counter(chain.from_iterable(set(words) for words in texts))
    place = {word: number for number, word in enumerate(sorted(w for w, count in several.items() if count >= LEAST))}
    row = [number for number, words in enumerate(texts) for word in words if word in place]
    column = [place[word] for words in texts for word in words if word in place]
    matrix = sparse.csr_matrix((np.ones(len(row), np.float32), (row, column)), shape=(len(texts), len(place)))
    matrix.sum_duplicates()
    return matrix


def _imdb_nshe(files: Files, title: str) -> TypedGraph:
    letters = {"m": "movie", "a": "actor", "d": "director"}
    ids: dict[str, list[str]] = {kind: [] for kind in letters.values()}
    where: dict[int, tuple[str, int]] = {}
    for line, words in enumerate(files.lines("node2id.txt")[1:], 2):
        kind = letters.get(words[0][0])
        if kind is None or len(words) != 2 or not words[1].isdigit():
            raise files.wrong("node2id.txt", f"line {line}: {' '.join(words)}")
        where[int(words[1])] = kind, len(ids[kind])
        ids[kind].append(words[0])
    ends: dict[str, list[tuple[int, int]]] = {"actor": [], "director": []}
    for line, (one, other) in enumerate(files.numbers("relations.txt", 4)[:, :2].tolist(), 1):
        (left, movie), (kind, place) = where.get(one, ("", 0)), where.get(other, ("", 0))
        if left != "movie" or kind not in ends:
            raise files.wrong("relations.txt", f"line {line}: {one} must be a movie, {other} an actor or a director")
        ends[kind].append((movie, place))
    label = files.numbers("imdb_m_label.txt", 1)[:, 0]
    if len(label) != len(ids["movie"]):
        raise files.wrong("imdb_m_label.txt", f"{len(label)} lines for {len(ids['movie'])} movies")
    edges = {("movie", kind): np.array(pairs, np.int64).reshape(-1, 2).T for kind, pairs in ends.items()}
    paths = ["movie-actor-movie", "movie-director-movie"]
    return _graph(title, "movie", ids, label, _numbered(label), edges, paths)


# --- all --------------------------------------------------------------------------------------------------------------

_ACM = {"pa.txt": ("paper", "author"), "ps.txt": ("paper", "subject")}
_DBLP = {"pa.txt": ("paper", "author"), "pc.txt": ("paper", "conference"), "pt.txt": ("paper", "term")}
_AMINER = {"pa.txt": ("paper", "author"), "pr.txt": ("paper", "reference")}
_FREEBASE = {"ma.txt": ("movie", "actor"), "md.txt": ("movie", "director"), "mw.txt": ("movie", "writer")}
_ACADEMIC_FILES = (
    *("a_p_list_train.txt", "a_p_list_test.txt", "p_p_citation_list.txt", "p_v.txt"),
    *("a_class_train.txt", "a_class_test.txt"),
)

SETS = {
    "acm": _heco("ACM", "paper", _ACM, ["paper-author-paper", "paper-subject-paper"], "p_feat.npz"),
    "dblp": _heco(
        "DBLP", "author", _DBLP, ["author-paper-author", "author-paper-conference-paper-author"], "a_feat.npz"
    ),
    "aminer": _heco("AMiner", "paper", _AMINER, ["paper-author-paper", "paper-reference-paper"]),
    "freebase": _heco(
        "Freebase", "movie", _FREEBASE, ["movie-actor-movie", "movie-director-movie", "movie-writer-movie"]
    ),
    "yelp": Published(
        "Yelp",
        ("HeGAN_yelp",),
        "https://github.com/librahu/HeGAN/raw/HEAD/data",
        ("yelp_triple.dat", "yelp_business_category.txt"),
        _yelp,
    ),
    "academic": Published(
        "Academic",
        ("HetGNN_academic",),
        "https://github.com/chuxuzhang/KDD2019_HetGNN/raw/HEAD/data/academic",
        _ACADEMIC_FILES,
        _academic,
    ),
    "imdb": Published(
        "IMDB", ("IMDB5000",), "https://github.com/Jhy1993/HAN/raw/HEAD/data/imdb", ("movie_metadata.csv",), _imdb, True
    ),
    "imdb_nshe": Published(
        "IMDB-NSHE",
        ("NSHE_imdb",),
        "https://github.com/Andy-Border/NSHE/raw/HEAD/data/imdb",
        ("node2id.txt", "relations.txt", "imdb_m_label.txt"),
        _imdb_nshe,
    ),
}
"""The sets by the names that recipes use."""
