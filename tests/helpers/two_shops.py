"""Ratings at two clients as a table, pairs to ask about, and options that make a run on them small."""

import numpy as np
import pandas as pd

from helpers.tiny import TINY

OPTIONS = {key: value for key, value in TINY.items() if not key.startswith("data.")}
PAIRS = pd.DataFrame({"user": [3, 5], "item": [4, 2], "client": ["north", "south"]})


def ratings() -> pd.DataFrame:
    """Ratings at two clients."""
    rows = np.arange(240)
    client = np.where(rows % 2, "north", "south")
    what = {"user": rows % 17, "item": rows // 12, "rating": 1 + rows % 5, "category": 0}
    return pd.DataFrame({**what, "client": client})
