import numpy as np
import pytest
import torch

from fedgraft import wire
from fedgraft.contracts import Update
from fedgraft.errors import InputError
from fedgraft.methods.data.shops import Shops
from fedgraft.methods.sharing.fedgnn import FedGNN, _filled
from fedgraft.testing.runs import play
from helpers.social_runs import ITEMS, SocialTrainer, social_run, uploads


def test_a_row_is_the_mean_over_those_who_sent_it():
    # Weights 1/4 and 3/4: the first row was sent by both, the second by the second client, the third by nobody.
    method = FedGNN()
    state = method.init({ITEMS: np.zeros((3, 2), np.float32), "w": np.zeros(1, np.float32)}, clients=2)
    sent = [
        {ITEMS: np.array(rows, np.float32), "w": np.array([w], np.float32)}
        for rows, w in (([[4, 0], [0, 0], [0, 0]], 4), ([[0, 4], [1, 2], [0, 0]], 0))
    ]
    state = method.merge(state, [Update(0, 0.25, sent[0]), Update(1, 0.75, sent[1])])
    assert method.model(state)[ITEMS].tolist() == [[1, 3], [1, 2], [0, 0]]
    assert method.model(state)["w"].tolist() == [1]


def test_every_number_that_is_sent_is_cut_and_noised_by_itself():
    trained = {ITEMS: np.zeros((400, 8), np.float32), "w": np.full(50, 5, np.float32)}
    trained[ITEMS][:300] = 3
    torch.manual_seed(1)
    sent, _ = FedGNN(clip=0.5, noise=0.2, pseudo_items=0).local_update(SocialTrainer(trained), _zeros(trained), None)
    assert not sent[ITEMS][300:].any(), "rows that were not touched are not sent"
    noise = np.concatenate([sent[ITEMS][:300].ravel(), sent["w"]]) - 0.5
    assert len(np.unique(noise)) == len(noise)
    assert abs(noise.mean()) < 0.02
    assert np.abs(noise).mean() == pytest.approx(0.2, rel=0.1), "the scale of Laplace noise is its mean magnitude"
    exact, _ = FedGNN(clip=0.5, noise=0, pseudo_items=0).local_update(SocialTrainer(trained), _zeros(trained), None)
    assert (exact[ITEMS][:300] == 0.5).all()
    assert not exact[ITEMS][300:].any()


def test_pseudo_items_look_like_real_ones_and_stay_the_same():
    g = np.random.default_rng(0)
    trained = {ITEMS: np.zeros((1000, 3), np.float32)}
    trained[ITEMS][:200] = g.normal((0.01, 0, -0.01), (0.01, 0.02, 0.03), (200, 3))
    method, memory = FedGNN(noise=0, pseudo_items=500), None
    sent = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        update, memory = method.local_update(SocialTrainer(trained), _zeros(trained), memory)
        sent.append(update[ITEMS].any(axis=1))
        real, pseudo = update[ITEMS][:200], update[ITEMS][200:][sent[-1][200:]]
        assert len(pseudo) == 500
        np.testing.assert_allclose(pseudo.mean(0), real.mean(0), atol=0.005)
        np.testing.assert_allclose(pseudo.std(0), real.std(0), rtol=0.25)
    assert (sent[0] == sent[1]).all(), "items that change from round to round would tell which are real"


def test_without_real_rows_there_are_no_pseudo_rows():
    table = np.zeros((4, 2), np.float32)
    assert _filled(table, np.arange(4), np.random.default_rng(0)) is table


def test_a_run_learns_and_its_noise_is_repeatable_and_new_in_each_round():
    experiment = social_run("fedgnn", rounds=3, noise=0.001)
    one, other = play(experiment), play(experiment)
    assert one.digest == other.digest
    scores = [point["validation"] for point in one.state.curve]
    assert scores[-1] < scores[0] - 0.01
    first, second = (uploads(experiment, one, round)[0] for round in (1, 2))
    assert not np.array_equal(first[ITEMS], second[ITEMS])


def test_rows_that_nobody_has_stay_and_do_not_travel_upwards():
    experiment = social_run("fedgnn", rounds=1, pseudo_items=5)
    played, shards = play(experiment), experiment.data.load(experiment.seed)
    for client, upload in enumerate(uploads(experiment, played, 1)):
        touched = np.flatnonzero(upload[ITEMS].any(axis=1))
        own = shards[client].items[shards[client].item[shards[client].rows("train")]]
        pseudo = wire.unpack(played.remembered[client])["sharing"]["pseudo"]
        assert set(own) <= set(touched) <= set(own) | set(pseudo)
        assert len(touched) == len(set(own)) + 5
    assert played.charged["up"] < 0.75 * played.charged["down"]


def test_a_task_without_tables_is_refused_with_one_error():
    with pytest.raises(InputError, match=r"needs a task that offers embeddings, which 'rating' with these options"):
        social_run("fedgnn", **{"task.share": "users"})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"clip": 0.0}, r"FedGNN\.clip must be > 0; got 0\.0\."),
        ({"noise": -1.0}, r"FedGNN\.noise must be >= 0; got -1\.0\."),
        ({"pseudo_items": -1}, r"FedGNN\.pseudo_items must be >= 0; got -1\."),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(InputError, match=text):
        FedGNN(**options)


def test_shops_give_ids_that_all_clients_agree_on():
    shards = Shops(users=40, items=60, categories=4, links=80, count=400, clients=3).load(1)
    assert len({int(user) for shard in shards for user in shard.users}) < sum(len(shard.users) for shard in shards)


def _zeros(arrays):
    return {name: np.zeros_like(array) for name, array in arrays.items()}
