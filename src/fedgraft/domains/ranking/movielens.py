"""Read the files of MovieLens in their three formats, and make shards of them by options that its data sets share.

Rules: every rating is a positive, whatever its stars; a pair counts once; a movie occurs if it has a rating. Movies are
in the order of their file, users in that of their numbers. A broken line is told with its file and number.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv

from fedgraft.contracts.data import ANSWER, ClientTables, Purpose
from fedgraft.domains.ranking.item_features import Items, make_features, sources_of
from fedgraft.domains.ranking.shards import Ids, Interactions, RankingShard, check_partition, last_of_pairs, make_shards
from fedgraft.domains.ranking.tables import INTERACTIONS, Catalogue, read_own
from fedgraft.errors import InputError
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Array

ADDRESS = "https://grouplens.org/datasets/movielens/"
"""Where GroupLens publishes the sets, each in a folder of its own, such as 100k/."""
TAGS = 20
"""Most tags of a movie that its text holds: those that most people gave."""
GENRES = (
    "unknown",
    *("Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy"),
    *("Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"),
)
"""Of the columns of u.item after the fifth, as the README of MovieLens-100K lists them."""
NO_GENRES = ("unknown", "(no genres listed)")
"""How the sets say that a movie has none."""
_YEAR = re.compile(r"\((\d{4})[^()]*\)\s*$")
_KINDS = {"user": pa.int64(), "item": pa.int64(), "rating": pa.float32(), "time": pa.int64()}

Movie = tuple[int, str, Sequence[str]]
"""Number, title and genres."""


@dataclass(frozen=True, eq=False)
class Movies:
    """A set, read.

    Args:
        user: int64 [n], counted from 0; item: int64 [n], likewise, among the movies with a rating; pairs are distinct.
        user_ids: str [users], numbers of users as in the files.
        item_ids: str [items], numbers of movies as in the files.
        titles: str [items], as in the files.
        texts: str [items], title, decade, genres and tags.
        place: int64 [items], the line of the file of movies that each comes from, counted from 0.
        listed: int, movies in that file, rated or not.
    """

    user: Ids
    item: Ids
    user_ids: Array
    item_ids: Array
    titles: Array
    texts: tuple[str, ...]
    place: Ids
    listed: int


@dataclass(frozen=True)
class Format:
    """How the files of a set are read, all with so many `header` lines above their rows.

    The file of ratings has user, movie, stars, seconds with a `separator`. `movie` reads a line of the file of movies,
    in its encoding, and raises `ValueError` for a broken one. A file of tags need not be there; "" where the set has
    none.
    """

    ratings: str
    separator: str
    movies: str
    movie: Callable[[str], Movie]
    encoding: str = "latin-1"
    header: int = 0
    tags: str = ""


def read_movielens(root: str | Path, form: Format, owner: str, address: str) -> Movies:
    """Read a set; errors call it `owner`, such as "ML100K", and say at which address to get it."""
    folder = Path(root)
    for name in (form.ratings, form.movies):
        if not (folder / name).is_file():
            raise InputError(
                f"{owner}: no file {folder / name}. {owner}.root (data.root in a recipe) must be the folder that holds "
                f"{form.ratings} and {form.movies}; get them at {address}."
            )
    user, number = _ratings(folder / form.ratings, form)
    movies = _movies(folder / form.movies, form)
    numbers = np.array([movie[0] for movie in movies], np.int64)
    user_ids, user = np.unique(user, return_inverse=True)
    rated, item = np.unique(number, return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    line = order[np.minimum(np.searchsorted(numbers, rated, sorter=order), len(numbers) - 1)]
    if len(unknown := np.flatnonzero(numbers[line] != rated)):
        row = int((item == unknown[0]).argmax()) + 1 + form.header
        raise InputError(
            f"{folder / form.ratings}, line {row}: movie {rated[unknown[0]]} is not in {folder / form.movies}."
        )
    place, rank = np.sort(line), np.argsort(np.argsort(line, kind="stable"), kind="stable")
    item = rank[item]
    kept = last_of_pairs(user, item)
    tags = _tags(folder / form.tags) if form.tags and (folder / form.tags).is_file() else {}
    chosen = [movies[k] for k in place.tolist()]
    return Movies(
        user=user[kept],
        item=item[kept],
        user_ids=user_ids.astype(str),
        item_ids=numbers[place].astype(str),
        titles=np.array([title for _, title, _ in chosen]),
        texts=tuple(text_of(title, genres, tags.get(number, ())) for number, title, genres in chosen),
        place=place,
        listed=len(movies),
    )


def text_of(title: str, genres: Sequence[str], tags: Sequence[str] = ()) -> str:
    """Return what is known of a movie as one text.

    >>> text_of("Alien (1979)", ["Horror", "Sci-Fi"], ["in space"])
    'Alien (1979). 1970s. Horror, Sci-Fi. in space.'
    """
    year = _YEAR.search(title)
    known = [genre for genre in genres if genre not in NO_GENRES]
    parts = [title, f"{year[1][:3]}0s" if year else "", ", ".join(known), ", ".join(tags)]
    return " ".join(f"{part}." for part in parts if part and part not in NO_GENRES)


def movie_100k(line: str) -> Movie:
    """Read a line of u.item: number|title|date|date|address|a 0 or 1 for each genre."""
    number, title, _, _, _, *flags = line.split("|")
    if len(flags) != len(GENRES) or not {*flags} <= {"0", "1"}:
        raise ValueError(line)
    return int(number), title, [genre for genre, flag in zip(GENRES, flags, strict=True) if flag == "1"]


def movie_1m(line: str) -> Movie:
    """Read a line of movies.dat: number::title::genres, which "|" separates."""
    number, title, genres = line.split("::")
    return int(number), title, genres.split("|")


def movie_csv(line: str) -> Movie:
    """Read a line of movies.csv: number,title,genres, which "|" separates."""
    number, title, genres = next(csv.reader([line], strict=True))
    return int(number), title, genres.split("|")


def _ratings(path: Path, form: Format) -> tuple[Ids, Ids]:
    """Return the user and the movie of each rating, int64 [n] each."""
    source: object = path
    separator = form.separator
    if len(separator) > 1:  # the file holds numbers only, so that any other sign can stand between them
        source, separator = pa.BufferReader(path.read_bytes().replace(separator.encode(), b"\t")), "\t"
    try:
        table = pyarrow.csv.read_csv(
            source,
            pyarrow.csv.ReadOptions(column_names=list(_KINDS), skip_rows=form.header, use_threads=False),
            pyarrow.csv.ParseOptions(delimiter=separator, quote_char=False),
            pyarrow.csv.ConvertOptions(column_types=_KINDS),
        )
    except pa.ArrowInvalid as error:
        raise _broken_rating(path, form, str(error)) from error
    if not len(table) or any(column.null_count for column in table.columns):
        raise _broken_rating(path, form, "no ratings" if not len(table) else "a field is empty")
    return table["user"].to_numpy(), table["item"].to_numpy()


def _broken_rating(path: Path, form: Format, reason: str) -> InputError:
    """Return the error for a file of ratings that cannot be read: its first broken line, or the reason."""
    wanted = form.separator.join(_KINDS).replace("\t", "TAB")
    with path.open(encoding="latin-1") as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.rstrip("\n").split(form.separator)
            if number <= form.header or fields == [""]:
                continue
            try:
                sound = len(fields) == len(_KINDS)
                _ = [kind(field) for kind, field in zip((int, int, float, int), fields, strict=False)]
            except ValueError:
                sound = False
            if not sound:
                return InputError(f"{path}, line {number} must be {wanted}, all numbers; got {line.rstrip()!r}.")
    return InputError(f"{path} cannot be read ({reason}); each line must be {wanted}, all numbers.")


def _movies(path: Path, form: Format) -> list[Movie]:
    movies: list[Movie] = []
    seen: set[int] = set()
    with path.open(encoding=form.encoding) as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if number <= form.header or not line.strip():
                    continue
                movie = _parsed(path, number, line.rstrip("\n"), form.movie)
                if movie[0] in seen:
                    raise InputError(f"{path}, line {number}: movie {movie[0]} is listed twice.")
                seen.add(movie[0])
                movies.append(movie)
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not text in {form.encoding} ({error.reason}).") from error
    if not movies:
        raise InputError(f"{path}: no movies; at least one is needed.")
    return movies


def _parsed(path: Path, number: int, line: str, parse: Callable[[str], Movie]) -> Movie:
    try:
        return parse(line)
    except (ValueError, csv.Error) as error:
        form = " ".join((parse.__doc__ or "").partition(": ")[2].split()).rstrip(".")
        raise InputError(f"{path}, line {number} must be {form}; got {line!r}.") from error


def _tags(path: Path) -> dict[int, list[str]]:
    """Return {number of a movie: its tags, those given most often first}."""
    counts: dict[int, Counter[str]] = {}
    with path.open(encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines)
        next(rows, None)
        for row in rows:
            if len(row) != 4 or not row[1].isdigit():
                raise InputError(f"{path}, line {rows.line_num} must be user,movie,tag,time; got {','.join(row)!r}.")
            counts.setdefault(int(row[1]), Counter())[" ".join(row[2].lower().split())] += 1
    first = {movie: sorted(tags.items(), key=lambda tag: (-tag[1], tag[0]))[:TAGS] for movie, tags in counts.items()}
    return {movie: [tag for tag, _ in tags] for movie, tags in first.items()}


@dataclass(frozen=True)
class MovieLensSet(ClientTables[RankingShard]):
    """Ability of MovieLens sets: read files of one format; options as of `methods/data/ml100k.py`.

    One client's own table, `data`, has columns "user" and "item", the set's numbers of movies; the set's files must be
    there, as they tell what is known of movies.
    """

    task: ClassVar[str] = "ranking"
    own_tables: ClassVar[tuple[str, ...]] = ("data",)
    form: ClassVar[Format]
    """Format of the files."""
    page: ClassVar[str]
    """Page of the set at GroupLens, such as "100k/"."""

    root: str | Path
    clients: int = 8
    partition: str = "exponential"
    ubi: float = 0.1172
    features: str | dict[str, str] = "text"
    images: str | Path | None = None
    width: int = 64

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_partition(owner, self.clients, self.partition, self.ubi)
        sources = sources_of(owner, self.features, self.images, self.width)
        if ".npy" in "".join(sources.values()):
            object.__setattr__(self, "features", sources)  # paths, absolute, so that a run resumes anywhere

    def movies(self) -> Movies:
        """Read the whole set, without features."""
        return read_movielens(self.root, self.form, type(self).__name__, ADDRESS + self.page)

    def interactions(self) -> Interactions:
        """Return the whole set, before it is dealt to clients."""
        movies, owner = self.movies(), type(self).__name__
        items = Items(movies.item_ids, movies.texts, movies.place, movies.listed, self.form.movies)
        sources = sources_of(owner, self.features, self.images, self.width)
        return Interactions(
            user=movies.user,
            item=movies.item,
            user_ids=movies.user_ids,
            item_ids=movies.item_ids,
            features=make_features(owner, sources, items, self.images, self.width),
            titles=movies.titles,
        )

    def load(self, seed: int) -> list[RankingShard]:
        """Load one shard per client, dealt and split by `seed`."""
        return make_shards(self.interactions(), self.clients, self.partition, self.ubi, seed)

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> RankingShard:
        """Read one client's interactions with movies of the set; those with others are left out, with a note."""
        whole = self.interactions()
        known = Catalogue(whole.item_ids, whole.titles, whole.features, self.form.movies)
        return read_own(INTERACTIONS.names(), tables["data"], known, "movies")
