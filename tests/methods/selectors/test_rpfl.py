"""RPFL: clusters of updates, each represented in proportion to its size."""

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.rpfl import RPFL, _interleaved


def known(selector, view, outcome, groups, noise=0.01):
    """The state once everybody has sent an update near that of its group."""
    g, seen = np.random.default_rng(0), view(len(groups))
    directions = g.normal(size=(max(groups) + 1, 500))
    updates = {
        k: {"w": (directions[group] + noise * g.normal(size=500)).astype(np.float32)} for k, group in enumerate(groups)
    }
    everybody = tuple(range(len(groups)))
    return selector.update(selector.init(seen), seen, outcome(everybody, updates=updates)), seen


def test_everybody_is_tried_first(view, outcome, g):
    selector, seen = RPFL(clients=2), view(4)
    state = selector.init(seen)
    chosen = set()
    for _ in range(2):
        cohort = selector.select(state, seen, g).clients
        updates = {k: {"w": np.ones(3, np.float32)} for k in cohort}
        state = selector.update(state, seen, outcome(cohort, updates=updates))
        chosen |= {*cohort}
    assert chosen == {0, 1, 2, 3}


def test_clusters_are_found_and_each_is_represented(view, outcome, g):
    groups = [0] * 8 + [1] * 4 + [2] * 4
    selector = RPFL(clients=4)
    state, seen = known(selector, view, outcome, groups)
    for _ in range(20):
        cohort = selector.select(state, seen, g).clients
        assert [sum(groups[k] == group for k in cohort) for group in range(3)] == [2, 1, 1]


def test_a_single_client_is_no_cluster(view, outcome, g):
    selector = RPFL(clients=1)
    state, seen = known(selector, view, outcome, [0])
    assert selector.select(state, seen, g).clients == (0,)


@pytest.mark.parametrize(
    ("sizes", "wanted", "shares"),
    [((6, 3), 3, [2, 1]), ((8, 1, 1), 3, [1, 1, 1]), ((5, 5), 3, [2, 1]), ((2, 2), 4, [2, 2]), ((3, 3), 0, [0, 0])],
)
def test_shares_are_rounded_so_that_every_cluster_takes_part(sizes, wanted, shares):
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    order = _interleaved(np.arange(len(clusters)), clusters, wanted)
    assert sorted(order) == list(range(len(clusters)))
    assert np.bincount(clusters[order[:wanted]], minlength=len(sizes)).tolist() == shares


def test_impossible_options_are_refused():
    with pytest.raises(InputError, match=r"^RPFL\.components must be"):
        RPFL(components=0)
    with pytest.raises(InputError, match=r"^RPFL\.clients must be"):
        RPFL(clients=-1)
