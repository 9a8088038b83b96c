import math
from pathlib import Path

import numpy as np
import pytest
import torch

from fedgraft.domains.ratings.social_factors import PooledRatings
from fedgraft.errors import InputError
from fedgraft.methods.baselines.consisrec import GRADES, ConsisRec, ConsisRecModel, Edges, Side
from fedgraft.methods.data.ciao import Ciao
from fedgraft.methods.data.shops import Shops
from helpers.rating_shards import shard_of

SHARD = shard_of([(0, 0, 5, 0), (0, 1, 1, 0), (1, 0, 3, 0), (1, 1, 4, 2)], 2, 2, trust=[(0, 1)])


def test_candidates_are_training_ratings_by_grade_and_trust() -> None:
    found = Edges(PooledRatings.of([SHARD])).candidates(4, np.random.default_rng(0))
    neighbours = [
        {(int(j), int(r)) for j, r, k in zip(*each, strict=True) if k}
        for each in zip(found.node, found.relation, found.known, strict=True)
    ]
    # Nodes 2 and 3 are the items; grades are 0 to 4; the test rating is nowhere.
    assert neighbours == [{(2, 4), (3, 0), (1, GRADES)}, {(2, 2)}, {(0, 4), (1, 2)}, {(0, 0)}]


def test_no_more_candidates_than_asked_for_and_others_in_another_pass() -> None:
    edges = Edges(PooledRatings.of(Shops(users=60, items=60, count=800, clients=2).load(0)))
    g = np.random.default_rng(0)
    one, other = (edges.candidates(3, g) for _ in range(2))
    assert one.node.shape[1] == 3
    assert one.known.sum(1).max() == 3
    assert not torch.equal(one.node, other.node)


def test_the_pair_itself_is_not_among_its_own_neighbours() -> None:
    edges = Edges(PooledRatings.of([SHARD]))
    candidates = edges.candidates(4, np.random.default_rng(0))
    model = ConsisRecModel(ConsisRec(share=1.0), edges.nodes, torch.Generator().manual_seed(0))
    user, item = torch.tensor([0]), torch.tensor([2])
    with torch.no_grad():
        before = model(user, item, candidates, None)
        candidates.relation[0][candidates.node[0] == 2] = 1  # the rating that is asked for
        candidates.relation[2][candidates.node[2] == 0] = 1
        assert torch.equal(model(user, item, candidates, None), before)
        candidates.relation[0][candidates.node[0] == 3] = 4
        assert not torch.equal(model(user, item, candidates, None), before)


def test_neighbours_are_drawn_without_replacement_by_their_distance_to_the_query() -> None:
    side = Side(1, 0.5, torch.Generator().manual_seed(0))
    places = torch.tensor([0.0, 1.0, 2.0, 3.0])
    noise, count = torch.Generator().manual_seed(1), 4000
    drawn = side._drawn(torch.zeros(count, 1), places.expand(count, 4)[:, :, None], torch.ones(count, 4).bool(), noise)
    assert (drawn.sum(1) == 2).all()
    p = torch.softmax(-places, 0)
    expected = [
        float(p[k] + sum(p[j] * p[k] / (1 - p[j]) for j in range(4) if j != k)) for k in range(4)
    ]  # first or second of two draws
    np.testing.assert_allclose(drawn.float().mean(0), expected, atol=0.03)


def test_nobody_is_drawn_where_there_is_nobody() -> None:
    side = Side(2, 0.4, torch.Generator().manual_seed(0))
    zeros, known = torch.zeros(1, 3, 2), torch.zeros(1, 3).bool()
    state = side(torch.ones(1, 2), torch.ones(1, 2), zeros, torch.zeros(6, 2), torch.zeros(1, 3).long(), known, None)
    assert torch.isfinite(state).all()


def test_all_but_the_query_is_trained() -> None:
    shards = Shops(users=60, items=60, count=800, links=100, clients=2).load(0)
    edges = Edges(PooledRatings.of(shards))
    model = ConsisRecModel(ConsisRec(), edges.nodes, torch.Generator().manual_seed(0))
    pooled = PooledRatings.of(shards)
    user, item = torch.from_numpy(pooled.rated.row), torch.from_numpy(pooled.rated.column + pooled.users)
    candidates = edges.candidates(8, np.random.default_rng(0))
    model(user, item, candidates, torch.Generator().manual_seed(0)).sum().backward()
    still = {name for name, value in model.named_parameters() if value.grad is None or not value.grad.abs().max()}
    assert still == {f"{side}.query.{part}" for side in ("of_user", "of_item") for part in ("weight", "bias")}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "ConsisRec.width must be >= 1; got 0"),
        ({"share": 0.0}, r"ConsisRec.share must be in \(0, 1\]; got 0.0"),
        ({"rate": math.inf}, "ConsisRec.rate must be finite; got inf"),
        ({"decay": ()}, "ConsisRec.decay must be at least one number, each >= 0"),
        ({"seed": -1}, "ConsisRec.seed must be >= 0; got -1"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ConsisRec(**options)  # type: ignore[arg-type]


@pytest.mark.data
@pytest.mark.slow
def test_no_worse_than_published_on_real_data(data_root: Path) -> None:
    shards = Ciao(str(data_root / "ciao")).load(seed=1)
    assert ConsisRec(width=8, neighbours=8, epochs=4).score(shards)["test"] < 0.978
