"""The unit of several numbers, agreed on label by label."""

import math

import numpy as np
import pytest

from fedgraft.domains.labels.numbers import MOMENTS, PublishedMoments, check_moments, moments_of, unit_in
from fedgraft.errors import WireError

NAN = math.nan


def test_the_unit_is_that_of_all_known_labels_together():
    clients = [np.array([[1.0, 10.0], [3.0, NAN]]), np.array([[5.0, 40.0], [NAN, 70.0]]), np.zeros((0, 2))]
    published = {number: moments_of(label) for number, label in enumerate(clients)}
    assert published[0][MOMENTS].tolist() == [[2.0, 2.0, 1.0], [1.0, 10.0, 0.0]]
    assert published[2][MOMENTS].tolist() == [[0.0, 0.0, 0.0]] * 2
    unit = unit_in(PublishedMoments((2,)).combine(published)[1])
    every = np.concatenate(clients)
    np.testing.assert_allclose(unit.mean, np.nanmean(every, axis=0))
    np.testing.assert_allclose(unit.spread, np.nanstd(every, axis=0))


def test_each_labels_moments_are_checked():
    check_moments({MOMENTS: np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])})
    with pytest.raises(WireError, match="variance -1"):
        check_moments({MOMENTS: np.array([[1.0, 2.0, 0.0], [1.0, 0.0, -1.0]])})
