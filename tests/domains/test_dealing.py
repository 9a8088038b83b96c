import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.domains.dealing import FEWEST, SHARES, dirichlet, iid, split_nodes
from fedgraft.errors import InputError

PUBMED = np.repeat([0, 1, 2], [4103, 7739, 7875])
"""The classes of PubMed."""


def g(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- who has which ----------------------------------------------------------------------------------------------------


def test_iid_is_equal_in_numbers_and_random() -> None:
    owner = iid(11, 3, g())
    assert sorted(np.bincount(owner)) == [3, 4, 4]
    assert (iid(11, 3, g()) == owner).all()
    assert (iid(11, 3, g(1)) != owner).any()


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5, 1.0, 10.0, 100.0])
def test_dirichlet_over_a_hundred_clients_at_the_size_of_pubmed(alpha: float) -> None:
    owner = dirichlet(PUBMED, 100, alpha, g())
    sizes = np.bincount(owner, minlength=100)
    assert sizes.min() >= FEWEST
    assert sizes.sum() == len(PUBMED)
    table = np.stack([np.bincount(PUBMED[owner == k], minlength=3) for k in range(100)])
    purity = float((table.max(axis=1) / sizes).mean())
    if alpha <= 0.1:
        assert purity > 0.8, "mostly of one class"
        assert sizes.max() > 1000
    if alpha == 100:
        assert purity < 0.5
        assert sizes.max() < 2 * sizes.min()


def test_dirichlet_deals_each_class_by_its_own_proportions() -> None:
    # Many nodes of two classes and -1: shares are the gamma variates over their sums, to within a rounding.
    label = np.tile([0, 1, -1], 100_000)
    weight = g(4).gamma(0.5, size=(4, 3))
    expected = weight / weight.sum(axis=0)
    owner = dirichlet(label, 4, 0.5, g(4))
    for column, each in enumerate((-1, 0, 1)):
        found = np.bincount(owner[label == each], minlength=4) / 100_000
        assert found == pytest.approx(expected[:, column], abs=2e-5)


@given(st.integers(0, 50))
def test_which_nodes_of_a_class_go_where_is_random(seed: int) -> None:
    one, other = (dirichlet(np.zeros(100, np.int64), 2, 50.0, g(s)) for s in (seed, seed + 1))
    assert (one != other).any()
    assert (np.diff(one) != 0).sum() > 1


def test_too_few_examples_for_the_clients() -> None:
    with pytest.raises(InputError, match=r"toy: 49 nodes of 1 classes dealt to 10 clients .* with fewer than 5, 1000"):
        dirichlet(np.zeros(49, np.int64), 10, 1.0, g(), "toy")


# --- splits -----------------------------------------------------------------------------------------------------------


def test_five_folds_are_the_test_sets_and_every_part_is_stratified() -> None:
    label = np.repeat([0, 1, 2, -1], [50, 30, 20, 7])
    tested = np.zeros(len(label), int)
    for fold in range(5):
        split = split_nodes(label, fold, g(1))
        assert np.bincount(split + 1).tolist() == [7, 64, 16, 20]
        assert (split[label < 0] == -1).all()
        assert [np.bincount(label[split == part]).tolist() for part in (0, 2)] == [[32, 19, 13], [10, 6, 4]]
        tested += split == 2
    assert (tested == (label >= 0)).all(), "the same folds, whichever is the test set"
    other = split_nodes(label, 0, g(2))
    assert (other != split_nodes(label, 0, g(1))).any()


def test_half_of_a_fold_is_for_validation_where_that_is_asked_for() -> None:
    label = np.repeat([0, 1, -1], [60, 40, 7])
    held = np.zeros(len(label), int)
    for fold in range(5):
        split = split_nodes(label, fold, g(1), shares="80:10:10")
        assert np.bincount(split + 1).tolist() == [7, 80, 10, 10]
        assert [np.bincount(label[split == part]).tolist() for part in (0, 1, 2)] == [[48, 32], [6, 4], [6, 4]]
        usual = split_nodes(label, fold, g(1))
        assert ((split > 0) == (usual == 2)).all(), "the same folds"
        held += split > 0
    assert (held == (label >= 0)).all()
    with pytest.raises(InputError, match="toy: at least 10 nodes with a label are needed, two a fold; got 9"):
        split_nodes(np.zeros(9, np.int64), 0, g(), "toy", "80:10:10")


def test_a_quarter_of_the_rest_is_for_validation_where_that_is_asked_for() -> None:
    label = np.repeat([0, 1, -1], [60, 40, 7])
    for fold in range(5):
        split = split_nodes(label, fold, g(1), shares="60:20:20")
        assert [np.bincount(label[split == part]).tolist() for part in (0, 1, 2)] == [[36, 24], [12, 8], [12, 8]]
        assert (split[label < 0] == -1).all()
        assert ((split == 2) == (split_nodes(label, fold, g(1)) == 2)).all(), "the same folds"
    few = split_nodes(np.zeros(5, np.int64), 0, g(), shares="60:20:20")
    assert np.bincount(few).tolist() == [3, 1, 1]


@given(
    st.lists(st.integers(0, 4), min_size=5, max_size=60),
    st.integers(0, 4),
    st.integers(0, 9),
    st.sampled_from([SHARES[0], SHARES[2]]),
)
def test_a_class_of_three_has_a_training_node(label: list[int], fold: int, seed: int, shares: str) -> None:
    split = split_nodes(np.array(label), fold, g(seed), shares=shares)
    for each, count in zip(*np.unique(label, return_counts=True), strict=True):
        own = split[np.array(label) == each]
        assert count < 3 or (own == 0).any()
        assert count // 5 <= (own == 2).sum() <= -(-count // 5)
    assert {0, 1, 2} <= set(split)


def test_too_few_labels_to_split() -> None:
    with pytest.raises(InputError, match="toy: at least 5 nodes with a label are needed, one a fold; got 4"):
        split_nodes(np.array([0, 1, 0, 1, -1, -1]), 0, g(), "toy")
    with pytest.raises(InputError, match=r"fold must be 0\.\.4; got 5"):
        split_nodes(np.zeros(9, np.int64), 5, g())
