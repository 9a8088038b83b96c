import numpy as np
import pytest

from fedgraft.domains.ranking.metrics import score_users
from fedgraft.domains.ranking.shards import ItemLists, RankingShard, merge_shards, reached
from fedgraft.errors import InputError
from fedgraft.methods.data.catalogue import Catalogue


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "Catalogue.clients must be >= 1; got 0"),
        ({"users": 7}, r"Catalogue.users must be >= 8 \(clients\).*got 7"),
        ({"items": 9}, "Catalogue.items must be >= 10; got 9"),
        ({"count": 10}, r"Catalogue.count must be 3000\.\.120000; got 10"),
        ({"topics": 1}, "Catalogue.topics must be >= 2; got 1"),
        ({"taste": -1.0}, "Catalogue.taste must be >= 0; got -1.0"),
        ({"noise": -1.0}, "Catalogue.noise must be >= 0; got -1.0"),
        ({"text": -1}, "Catalogue.text must be >= 0; got -1"),
        ({"partition": "even"}, "Catalogue.partition must be one of"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Catalogue(**options)  # type: ignore[arg-type]


def test_sizes_are_what_was_asked_for() -> None:
    whole = Catalogue().interactions(0)
    assert (len(whole.user_ids), len(whole.item_ids), len(whole.user)) == (600, 400, 18_000)
    assert np.bincount(whole.user).min() >= 5
    assert np.bincount(whole.user).max() <= 200
    assert {name: rows.shape for name, rows in whole.features.items()} == {"text": (400, 24), "image": (400, 32)}
    assert Catalogue(text=0).interactions(0).features.keys() == {"image"}
    popular = np.sort(np.bincount(whole.item, minlength=400))[::-1]
    assert popular[:80].sum() > 0.33 * 18_000, "few items have many of the interactions"


@pytest.mark.parametrize(("items", "count", "each"), [(10, 60, 5), (20, 120, 10)])
def test_smallest_and_densest_catalogue(items: int, count: int, each: int) -> None:
    whole = Catalogue(users=12, items=items, count=count, topics=2, clients=2).interactions(0)
    assert np.bincount(whole.user).tolist() == [each] * 12


def test_clients_have_the_balance_that_is_asked_for() -> None:
    assert reached(Catalogue(ubi=0.3).load(0)) == pytest.approx(0.3, rel=0.05)


def auc(shard: RankingShard, scores: np.ndarray, items: np.ndarray | None = None) -> float:
    """AUC on validation, among all items or some."""
    known, relevant = (shard.lists(split) for split in ("train", "validation"))
    if items is not None:
        place = np.full(shard.items, -1)
        place[items] = np.arange(len(items))
        known, relevant = (among(lists, place, shard.users) for lists in (known, relevant))
        scores = scores[:, items]
    sums = score_users(scores.astype(np.float32), known, relevant).sums()
    return sums["auc"] / sums["users"]


def among(lists: ItemLists, place: np.ndarray, users: int) -> ItemLists:
    """Lists of only those items that have a place, by it."""
    user, item = np.repeat(np.arange(users), lists.counts), place[lists.items]
    return ItemLists.make(user[item >= 0], item[item >= 0], users)


@pytest.mark.parametrize("seed", [1, 2])
def test_tastes_beat_popularity_and_features_tell_of_items_that_few_have_taken(seed: int) -> None:
    whole = merge_shards(Catalogue().load(seed))
    train = whole.rows("train")
    taken = np.zeros((whole.users, whole.items))
    taken[whole.user[train], whole.item[train]] = 1
    popularity = np.tile(taken.sum(axis=0), (whole.users, 1))
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in whole.features.values()]
    alike = sum(rows @ rows.T for rows in units)
    both = taken @ (taken.T @ taken) / (popularity + 10)
    assert auc(whole, popularity) > 0.6
    assert auc(whole, both) > auc(whole, popularity) + 0.05
    assert auc(whole, taken @ alike) > auc(whole, popularity) + 0.05
    cold = np.flatnonzero(popularity[0] <= np.quantile(popularity[0], 0.2))
    assert auc(whole, taken @ alike, cold) > auc(whole, both, cold)
