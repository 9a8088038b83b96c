"""RPFL: clusters of updates, each represented in proportion to its size."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, silhouette_score

from fedgraft.errors import InputError
from fedgraft.methods.selectors.rpfl import JUDGED, RPFL, _interleaved, _numbers, _principal, _silhouette


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


@pytest.mark.parametrize(("clients", "groups"), [(9, 3), (40, 5), (100, 9), (JUDGED, 8), (2 * JUDGED, 4), (1000, 9)])
def test_as_many_clusters_as_there_are_groups_are_found(clients, groups):
    g = np.random.default_rng(clients)
    of = np.concatenate([np.arange(groups), g.integers(groups, size=clients - groups)])
    rows = (g.normal(size=(groups, 256))[of] + 0.1 * g.normal(size=(clients, 256))).astype(np.float32)
    assert adjusted_rand_score(of, RPFL()._clusters(rows, 0)) == 1


def test_updates_that_are_all_alike_or_of_two_kinds_need_no_search():
    rows = np.zeros((5, 256), np.float32)
    assert RPFL()._clusters(rows, 0).tolist() == [0] * 5
    rows[[1, 4]] = 1
    assert RPFL()._clusters(rows, 0).tolist() == [0, 1, 0, 0, 1]


def test_few_numbers_of_clusters_are_all_tried_and_many_a_quarter_apart():
    assert _numbers(2) == [2]
    assert _numbers(10) == list(range(2, 11))
    assert _numbers(31) == [*range(2, 11), 12, 15, 18, 22, 27, 31]


def test_components_and_silhouettes_are_scikit_learn_s():
    g = np.random.default_rng(0)
    rows = g.normal(size=(40, 256)) * np.linspace(3, 1, 256)
    points = _principal(rows, 4)
    wanted = PCA(4, svd_solver="full").fit_transform(rows)[:, ::-1]
    np.testing.assert_allclose(np.abs(points), np.abs(wanted), rtol=1e-6, atol=1e-8)
    labels = np.array([0, *g.integers(1, 5, 39)])
    found = _silhouette(cdist(points, points), np.unique(labels, return_inverse=True)[1])
    assert found == pytest.approx(silhouette_score(points, labels))


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
