"""Sketches of updates keep distances and angles."""

import numpy as np
import pytest

from fedgraft.methods.sketches import SKETCH, sketch, sketched


def test_a_sketch_is_linear_and_keeps_lengths_and_angles():
    g = np.random.default_rng(5)
    one, two = (g.normal(size=5000).astype(np.float32) for _ in range(2))
    sketches = [sketch({"w": each}) for each in (one, two, one + two)]
    np.testing.assert_allclose(sketches[2], sketches[0] + sketches[1], atol=1e-3)
    assert sketches[0].shape == (SKETCH,)
    assert np.linalg.norm(sketches[0]) == pytest.approx(np.linalg.norm(one), rel=0.2)
    assert abs(sketches[0] @ sketches[1]) < 0.2 * np.linalg.norm(one) * np.linalg.norm(two)


def test_parameters_are_told_apart_by_their_names():
    ones = np.ones(50, np.float32)
    assert not np.array_equal(sketch({"a": ones, "b": 0 * ones}), sketch({"a": 0 * ones, "b": ones}))


def test_updates_of_any_shapes_are_sketched_together_as_each_alone():
    g = np.random.default_rng(1)
    updates = {k: {"a": g.normal(size=(3, 5)), "b": g.normal(size=7).astype(np.float32)} for k in (4, 2)}
    updates[9] = {"b": g.normal(size=(2, 3))}
    together = sketched(updates)
    assert list(together) == [4, 2, 9]
    for client, update in updates.items():
        assert np.array_equal(together[client], sketch(update))
    assert sketched({}) == {}
