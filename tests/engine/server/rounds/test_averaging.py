"""Running means of the global models: by hand, in runs, and where groups of clients come and go."""

import numpy as np
import pytest

from fedgraft.engine.server.loop.stopping import Evaluation
from fedgraft.engine.server.rounds.next_round import averaged, scored_model
from fedgraft.errors import InputError
from helpers.toy_runs import run, same, toy

PLAN = toy().plan


def model_of(value):
    """A state of FedAvg whose parameters are all `value`."""
    return {"model": {name: np.full_like(array, value) for name, array in PLAN.first.items()}}


def weight(arrays):
    """The one value of all parameters."""
    (value,) = {float(number) for array in arrays.values() for number in array.ravel()}
    return value


def test_a_running_mean_forgets_the_drawn_model():
    # Models 3, 6, 9 after one, two, three merges. Decays: 0, then min(0.6, 1/2), then min(0.6, 2/3).
    averages, means = {}, []
    for merges, value in enumerate((3, 6, 9)):
        averages = averaged(PLAN, model_of(value), averages, [0], 0.6, merges)
        means.append(weight(scored_model(PLAN, model_of(value), averages, 0)))
    assert means == pytest.approx([3, 0.5 * 3 + 0.5 * 6, 0.6 * 4.5 + 0.4 * 9])
    assert {array.dtype for array in averages["0"].values()} == {np.dtype(np.float32)}


def test_without_a_mean_the_model_itself_is_scored():
    assert weight(scored_model(PLAN, model_of(4), {}, 0)) == 4


def test_a_group_that_is_new_begins_with_its_own_model():
    averages = averaged(PLAN, model_of(8), {"0": model_of(0)["model"]}, [0, 2], 0.5, 9)
    assert {group: weight(mean) for group, mean in averages.items()} == {"0": 4, "2": 8}


def test_training_does_not_depend_on_averaging():
    (plain, plain_rows, _), (state, rows, _) = (run(toy(evaluation={"averaging": decay})) for decay in (0.0, 0.9))
    assert same(plain.sharing, state.sharing)
    assert [row.bytes for row in plain_rows] == [row.bytes for row in rows]
    assert plain.curve[1]["validation"] == state.curve[1]["validation"], "the first mean is the first model"
    assert plain.curve[-1]["validation"] != state.curve[-1]["validation"]
    assert (plain.merging.averages, state.merging.averages.keys()) == ({}, {"0"})


def test_what_is_scored_is_the_mean_of_the_models_so_far():
    # A decay above (rounds - 1) / rounds is the plain mean of the models after each round.
    models, scored = [], []
    experiment = toy(evaluation={"averaging": 0.99})
    for rounds in (1, 2, 3):
        state, _, _ = run(experiment.with_changes({"rounds": rounds}))
        models.append(experiment.plan.sharing.model(state.sharing))
        scored.append(scored_model(experiment.plan, state.sharing, state.merging.averages, 0))
    for name in PLAN.first:
        np.testing.assert_allclose(scored[-1][name], np.mean([model[name] for model in models], axis=0), rtol=1e-5)


@pytest.mark.parametrize("decay", [-0.1, 1.0, float("nan")])
def test_impossible_averaging_is_refused(decay):
    with pytest.raises(InputError, match=r"^evaluation\.averaging must be in \[0, 1\)"):
        Evaluation(averaging=decay)
