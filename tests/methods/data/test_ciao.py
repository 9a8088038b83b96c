from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.ratings.mat_files import published_subset, read_mat
from fedgraft.methods.data.ciao import Ciao


@pytest.mark.data
def test_published_counts(data_root: Path) -> None:
    raw = read_mat(data_root / "ciao", "Ciao")
    counts = len(np.unique(raw.user)), len(np.unique(raw.item)), len(raw.rating), len(raw.trust)
    assert counts == (7_375, 105_114, 284_086, 111_781)
    subset = published_subset(raw)
    users, items, categories = (len(np.unique(ids)) for ids in (subset.trust, subset.item, subset.category))
    assert (users, items, categories, len(subset.rating), len(subset.trust)) == (7_317, 104_975, 28, 283_320, 111_781)
    rows = np.stack([subset.user, subset.item, subset.category, subset.rating])
    assert np.unique(rows, axis=1).shape[1] == 282_374
    ratings = Ciao(str(data_root / "ciao")).ratings()
    ours = ratings.users, ratings.items, ratings.categories, len(ratings.rating), ratings.trust.shape[1]
    assert ours == (7_317, 104_975, 28, 281_867, 111_781)
    assert len(np.unique(ratings.user)) == 7_317
