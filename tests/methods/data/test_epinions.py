from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.ratings.mat_files import published_subset, read_mat
from fedgraft.methods.data.epinions import Epinions


@pytest.mark.data
def test_published_counts(data_root: Path) -> None:
    raw = read_mat(data_root / "epinions", "Epinions")
    counts = len(np.unique(raw.user)), len(np.unique(raw.item)), len(raw.rating), len(raw.trust)
    assert counts == (22_164, 296_277, 922_267, 355_754)
    subset = published_subset(raw)
    users, items, categories = (len(np.unique(ids)) for ids in (subset.trust, subset.item, subset.category))
    assert (users, items, categories, len(subset.rating), len(subset.trust)) == (18_069, 261_246, 27, 762_938, 355_530)
    rows = np.stack([subset.user, subset.item, subset.category, subset.rating])
    assert np.unique(rows, axis=1).shape[1] == 757_938
    ratings = Epinions(str(data_root / "epinions")).ratings()
    ours = ratings.users, ratings.items, ratings.categories, len(ratings.rating), ratings.trust.shape[1]
    assert ours == (18_069, 261_246, 27, 754_939, 355_503)
    assert len(np.unique(ratings.user)) == 18_068
