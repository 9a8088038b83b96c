import numpy as np
import pytest
import torch

from fedgraft.contracts import Update
from fedgraft.errors import InputError
from fedgraft.methods.sharing.fesog import FeSoG
from fedgraft.testing.runs import play
from helpers.social_runs import ITEMS, SocialTrainer, social_run, uploads


def test_a_row_is_the_mean_over_those_who_sent_it():
    method = FeSoG()
    state = method.init({ITEMS: np.ones((2, 2), np.float32)}, clients=2)
    sent = [np.array([[2, 0], [0, 0]], np.float32), np.array([[4, 4], [8, 8]], np.float32)]
    state = method.merge(state, [Update(client, 0.5, {ITEMS: rows}) for client, rows in enumerate(sent)])
    assert method.model(state)[ITEMS].tolist() == [[4, 3], [9, 9]]


def test_noise_is_a_share_of_the_mean_of_what_is_sent_and_drawn_for_each_number():
    trained = {ITEMS: np.zeros((500, 4), np.float32), "w": np.tile(np.array([1, -1], np.float32), 50)}
    trained[ITEMS][:400] = 0.2
    trained[ITEMS][0] = 9
    torch.manual_seed(3)
    method, start = FeSoG(), {name: np.zeros_like(array) for name, array in trained.items()}
    sent, memory = method.local_update(SocialTrainer(trained), start, None)
    assert memory is None
    noise = sent[ITEMS][1:400] - 0.2
    assert len(np.unique(noise)) == noise.size
    assert np.abs(noise).mean() == pytest.approx(0.1 * trained[ITEMS][:400].mean(), rel=0.1)
    assert sent[ITEMS][0] == pytest.approx(np.full(4, 0.3), abs=0.3), "cut before the noise is added"
    assert not sent[ITEMS][400:].any()
    assert sent["w"].tolist() == pytest.approx(np.tile([0.3, -0.3], 50)), "an array whose mean is 0 gets no noise"


def test_a_run_learns_and_moves_rows_of_items_that_nobody_there_rated():
    experiment = social_run("fesog", rounds=3, **{"task.pseudo": 2})
    one, other = play(experiment), play(experiment)
    assert one.digest == other.digest
    scores = [point["validation"] for point in one.state.curve]
    assert scores[-1] < scores[0] - 0.01
    shards = experiment.data.load(experiment.seed)
    for shard, upload in zip(shards, uploads(experiment, one, 1), strict=True):
        touched = set(np.flatnonzero(upload[ITEMS].any(axis=1)))
        own = set(shard.items[shard.item[shard.rows("train")]])
        assert own < touched


@pytest.mark.parametrize(
    ("options", "text"),
    [({"clip": 0.0}, r"FeSoG\.clip must be > 0; got 0\.0\."), ({"noise": -1.0}, r"FeSoG\.noise must be >= 0; got -1")],
)
def test_bad_options(options, text):
    with pytest.raises(InputError, match=text):
        FeSoG(**options)
