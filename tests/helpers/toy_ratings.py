"""A table of ratings in the form of the data set `bitcoin`, generated: some members earn distrust."""

from pathlib import Path

import numpy as np


def write_ratings(folder: Path, name: str = "otc", ratings: int = 600, members: int = 40) -> Path:
    """Write the table of a set to a folder, and return the folder; the first five members are mostly distrusted."""
    g = np.random.default_rng(0)
    source, target = g.integers(members, size=(2, ratings))
    target = np.where(source == target, (target + 1) % members, target)
    bad = (target < 5) & (g.random(ratings) < 0.9)
    rating = np.where(bad, -g.integers(1, 11, ratings), g.integers(1, 11, ratings))
    time = np.sort(g.integers(1000, 1000 + ratings // 2, ratings))
    lines = [",".join(map(str, row)) for row in zip(source, target, rating, time, strict=True)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"soc-sign-bitcoin{name}.csv").write_text("\n".join(["from,to,feature,time", *lines]) + "\n")
    return folder
