"""ACFL: equally many of each cluster, those of the highest losses; clusters of directions of updates."""

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.selectors.acfl import ACFL, k_means
from fedgraft.methods.sketches import SKETCH
from fedgraft.testing import check_selector


def clustered(*cluster):
    """A state with these clusters; -1 = not known."""
    cluster = np.array(cluster)
    return {"sketches": np.zeros((len(cluster), SKETCH), np.float32), "known": cluster >= 0, "cluster": cluster}


def answers(losses):
    return {k: {"loss": loss, "loss_sq": 1.0, "seconds": 1.0} for k, loss in losses.items()}


def test_the_highest_losses_of_each_cluster_train(view, g):
    state, seen = clustered(0, 0, 0, 1, 1, 1), view(6, probed=answers(dict(enumerate([9, 8, 7, 1, 3, 2]))))
    assert ACFL(clients=2).select(state, seen, g).clients == (0, 4)
    assert ACFL(clients=4).select(state, seen, g).clients == (0, 1, 4, 5)
    assert ACFL(clients=3).select(state, seen, g).clients == (0, 1, 4), "what is left over goes to the highest loss"


def test_a_small_cluster_leaves_its_share_to_the_others(view, g):
    state, seen = clustered(0, 1, 1, 1, 1), view(5, probed=answers(dict(enumerate([1, 2, 3, 4, 5]))))
    assert ACFL(clients=4).select(state, seen, g).clients == (0, 2, 3, 4)


def test_who_is_not_known_is_a_cluster(view, g):
    state, seen = clustered(-1, -1, 0, 0), view(4, probed=answers(dict(enumerate([1, 2, 8, 9]))))
    assert ACFL(clients=2).select(state, seen, g).clients == (1, 3)


def test_candidates_are_drawn_of_every_cluster(view):
    selector, state = ACFL(clients=2, candidates=4), clustered(*[0] * 8, 1, 1)
    for seed in range(10):
        asked = selector.probe(state, view(10), np.random.default_rng(seed))
        assert len(asked.clients) == 4
        assert {8, 9} < set(asked.clients)
        assert asked.kind == "loss"
    assert ACFL(clients=2).probe(state, view(10), np.random.default_rng(0)).clients == tuple(range(10))


def test_nobody_is_asked_where_that_changes_nothing_or_is_not_paid_for(view, g):
    selector, state = ACFL(clients=2), clustered(0, 0, 1, 1)
    assert selector.probe(state, view(4, available=[True, False, False, True]), g) is None
    assert selector.probe(state, view(4, bytes_left=159), g) is None
    assert len(selector.probe(state, view(4, bytes_left=160), g).clients) == 1
    assert selector.select(state, view(4, bytes_left=159), g).clients in ((0,), (1,), (2,), (3,))


def test_who_did_not_answer_comes_last(view, g):
    state, seen = clustered(0, 0, 1, 1), view(4, probed=answers({1: 0.1, 3: 0.2}))
    assert ACFL(clients=2).select(state, seen, g).clients == (1, 3)
    cohort = ACFL(clients=3).select(state, seen, g).clients
    assert {1, 3} < set(cohort)


def test_clusters_are_those_of_directions_not_of_lengths(view, outcome):
    selector = ACFL(clusters=2)
    g = np.random.default_rng(0)
    kinds = g.standard_normal((2, 400)).astype(np.float32)
    updates = {k: {"w": (1 + 9 * k) * kinds[k % 2] + 0.1 * g.standard_normal(400).astype("f4")} for k in range(6)}
    state = selector.update(selector.init(view(8)), view(8), outcome((0, 1), updates=updates))
    cluster = state["cluster"]
    assert cluster[0] == cluster[2] == cluster[4] != cluster[1]
    assert cluster[1] == cluster[3] == cluster[5]
    assert cluster[6:].tolist() == [-1, -1]
    assert state["known"].tolist() == [True] * 6 + [False] * 2


def test_a_round_without_updates_changes_nothing(view, outcome):
    selector = ACFL()
    state = selector.init(view(3))
    assert selector.update(state, view(3), outcome(())) is state


def test_k_means_finds_what_is_apart():
    g = np.random.default_rng(1)
    rows = (np.repeat(np.eye(3, 5), 20, axis=0) + 0.05 * g.standard_normal((60, 5))).astype(np.float32)
    found = k_means(rows, 3, g)
    assert [len(set(found[part].tolist())) for part in (slice(20), slice(20, 40), slice(40, 60))] == [1, 1, 1]
    assert len(set(found.tolist())) == 3
    assert k_means(rows, 1, g).tolist() == [0] * 60


def test_equal_rows_make_one_cluster_without_a_warning(g):
    assert k_means(np.ones((4, 3), np.float32), 3, g).tolist() == [0] * 4
    two = k_means(np.repeat(np.eye(2, dtype=np.float32), 2, axis=0), 3, g)
    assert two[0] == two[1] != two[2] == two[3]


@pytest.mark.slow
def test_few_candidates_keep_the_laws():
    check_selector(ACFL, clients=1, candidates=1, clusters=1)


@pytest.mark.parametrize(("option", "value"), [("clients", -1), ("clusters", 0), ("candidates", -1)])
def test_impossible_options_are_refused(option, value):
    with pytest.raises(InputError, match=rf"^ACFL\.{option} must be"):
        ACFL(**{option: value})


def test_errors_name_the_option(view):
    with pytest.raises(InputError, match=r"ACFL\.clients must be in \[0, 4\]"):
        ACFL(clients=5).init(view(4))
    with pytest.raises(
        InputError, match=r"^ACFL\.candidates must be 0 or in \[3, 4\], from the 3 clients wanted to all"
    ):
        ACFL(clients=3, candidates=2).init(view(4))
