"""Writes a made-up copy of the table of movies."""

from collections.abc import Sequence
from pathlib import Path

HEADER = (
    "director_name,actor_1_name,actor_2_name,actor_3_name,genres,plot_keywords,content_rating,country,language,color,"
    "duration,title_year,imdb_score,movie_imdb_link"
)
"""The columns that are read, in another order than the real one's, which has more."""


def write_movies(folder: Path, rows: Sequence[str] | None = None) -> Path:
    """Write rows as given, or 60 movies: each director has three, each actor two."""
    folder.mkdir(parents=True, exist_ok=True)
    made = rows or [
        f"director {k // 3},actor {k // 2},,,{'Drama' if k % 2 else 'Action|Crime'},train,PG,UK,English,Color,"
        f"{90 + k},{1990 + k % 20},{3 + k % 7 / 2},http://www.imdb.com/title/tt{k:07}/?ref_=fn"
        for k in range(60)
    ]
    path = folder / "movie_metadata.csv"
    path.write_text("\n".join([HEADER, *made, ""]))
    return path
