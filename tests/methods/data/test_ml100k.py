from pathlib import Path

import numpy as np
import pytest

from fedgraft.domains.ranking.metrics import score_users
from fedgraft.domains.ranking.shards import merge_shards, reached
from fedgraft.errors import InputError
from fedgraft.methods.data.ml100k import ML100K


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "ML100K.clients must be >= 1; got 0"),
        ({"partition": "expo"}, r"ML100K.partition must be one of .* Did you mean 'exponential'\?"),
        ({"ubi": 0.0}, r"ML100K.ubi must be in \(0, 1\].*; got 0.0"),
        ({"width": 0}, "ML100K.width must be >= 1; got 0"),
        ({"features": "texts"}, r"ML100K.features must be one of 'text', 'none', .* Did you mean 'text'\?"),
        ({"features": {"text": "none"}}, "ML100K.features must be one of .*; got 'none'"),
        (
            {"features": "timm:vit"},
            r"ML100K.images must be the folder of images that 'timm:vit' is to encode; got None",
        ),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ML100K("nowhere", **options)  # type: ignore[arg-type]


def test_missing_files_name_the_address() -> None:
    address = r"https://grouplens\.org/datasets/movielens/100k/"
    with pytest.raises(InputError, match=rf"ML100K: no file nowhere/u\.data\. .* get them at {address}"):
        ML100K("nowhere").load(0)


def test_paths_of_features_are_absolute_so_that_a_run_resumes_anywhere(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    data = ML100K("nowhere", features={"text": "text", "poster": "posters.npy"})
    assert data.features == {"text": "text", "poster": str(tmp_path / "posters.npy")}
    assert ML100K("nowhere", features="posters.npy").features == {"posters": str(tmp_path / "posters.npy")}
    assert ML100K("nowhere", features="text").features == "text"
    assert ML100K("nowhere", features="none").features == "none"


@pytest.mark.data
def test_published_counts(data_root: Path) -> None:
    whole = ML100K(data_root / "ml-100k").interactions()
    assert (len(whole.user_ids), len(whole.item_ids), len(whole.user)) == (943, 1682, 100_000)
    assert whole.item_ids.tolist() == [str(number) for number in range(1, 1683)]
    assert whole.titles[0] == "Toy Story (1995)"
    text = whole.features["text"]
    assert (text.shape, text.dtype) == ((1682, 64), np.float32)
    told = np.flatnonzero(whole.titles != "unknown")
    assert (text[told] ** 2).mean(axis=1) == pytest.approx(1, abs=0.01)
    assert (text[whole.titles == "unknown"] == 0).all()


@pytest.mark.data
@pytest.mark.parametrize("partition", ["exponential", "linear"])
@pytest.mark.parametrize("ubi", [0.0146, 0.1172])
def test_balance_that_the_paper_asks_for(data_root: Path, partition: str, ubi: float) -> None:
    shards = ML100K(data_root / "ml-100k", partition=partition, ubi=ubi, features="none").load(seed=1)
    assert len(shards) == 8
    assert reached(shards) == pytest.approx(ubi, rel=0.02)
    assert max(range(8), key=lambda k: len(shards[k].item)) == 0
    assert len({name for shard in shards for name in shard.user_ids}) == 943


@pytest.mark.data
def test_popularity_scores_what_it_is_known_to(data_root: Path) -> None:
    whole = merge_shards(ML100K(data_root / "ml-100k", features="none").load(seed=0))
    popularity = np.bincount(whole.item[whole.rows("train")], minlength=whole.items).astype(np.float32)
    scores = np.tile(popularity, (whole.users, 1))
    sums = score_users(scores, whole.lists("train"), whole.lists("test"), k=50).sums()
    means = [sums[name] / sums["users"] for name in ("auc", "ndcg", "recall")]
    assert means == pytest.approx([0.852, 0.182, 0.286], abs=0.01)
