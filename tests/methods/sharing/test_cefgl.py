"""CEFGL: Eq. (6)-(9) by hand on one parameter, and what its ablations leave."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.contracts import Update
from fedgraft.errors import InputError
from fedgraft.methods.sharing.cefgl import CEFGL
from helpers.toy_runs import run, same, toy


class Descent:
    """A trainer of plain gradient descent on 1/2 curvature (w - goal)^2, so many steps an epoch."""

    def __init__(self, goal, steps=1, rate=0.1, collects=True, curvature=1.0):
        self.goal, self.per_epoch, self.curvature = np.float32(goal), steps, curvature
        self.learning_rate, self.collects, self.steps = rate, collects, 0
        self.w = torch.zeros(1)

    def load(self, arrays):
        self.w = torch.from_numpy(arrays["w"].copy())

    def read(self, names=None):
        return {"w": self.w.numpy().copy()}

    def run(self, penalty=None, correct_gradient=None, project=None, epochs=None):
        for _ in range(self.per_epoch * (1 if epochs is None else epochs)):
            gradients = {"w": self.curvature * (self.w - self.goal)}
            if correct_gradient is not None:
                correct_gradient({"w": self.w}, gradients)
            self.w = self.w - self.learning_rate * gradients["w"]
            if project is not None:
                project({"w": self.w})
            self.steps += 1


def arrays(value):
    return {"w": np.array([value], np.float32)}


PLAIN = CEFGL(threshold=0.0, shrinkage=0.0)


def test_a_first_round_by_hand():
    """Theta = 1, goal 3, rate 0.1: W = 1 + 0.1 * 2 = 1.2; h = (1 - 1.2) / 0.1 = -2; S from Theta: another 0.2."""
    upload, memory = PLAIN.local_update(Descent(3.0), arrays(1.0), None)
    assert memory["local"]["w"] == pytest.approx(1.2)
    assert memory["correction"]["w"] == pytest.approx(-2.0)
    assert memory["private"]["w"] == pytest.approx(0.2)
    assert upload["w"] == pytest.approx(1.2 - 0.1 * -2.0 - 1.0)  # W - rate h - Theta


def test_a_second_round_by_hand():
    """Eq. (6): from W = 1.2 with h = -2 and Theta = 2: gradient (1.2 - 3) + 2 + 0.6 (1.2 - 2) = -0.28."""
    _, memory = PLAIN.local_update(Descent(3.0), arrays(1.0), None)
    _, after = PLAIN.local_update(Descent(3.0), arrays(2.0), memory)
    assert after["local"]["w"] == pytest.approx(1.2 + 0.028)
    assert after["correction"]["w"] == pytest.approx(-2.0 + (2.0 - 1.228) / 0.1, rel=1e-5)
    assert after["private"]["w"] == pytest.approx(0.2 + 0.1 * (3.0 - 2.2))


def test_the_correction_is_the_mean_gradient_whatever_the_number_of_steps():
    _, memory = PLAIN.local_update(Descent(3.0, steps=4), arrays(1.0), None)
    moved = 1.0 - memory["local"]["w"]
    assert memory["correction"]["w"] == pytest.approx(moved / (0.1 * 4), rel=1e-5)
    printed = CEFGL(threshold=0.0, shrinkage=0.0, correction="paper")
    _, as_printed = printed.local_update(Descent(3.0, steps=4), arrays(1.0), None)
    assert as_printed["correction"]["w"] == pytest.approx(moved / 0.1, rel=1e-5)


@pytest.mark.parametrize(("correction", "bounded"), [("mean", True), ("paper", False)])
def test_the_printed_correction_diverges_after_more_than_one_step(correction, bounded):
    method, memory, theta = CEFGL(threshold=0.0, shrinkage=0.0, correction=correction), None, 0.0
    for _ in range(60):
        upload, memory = method.local_update(Descent(3.0, steps=5), arrays(theta), memory)
        theta += float(upload["w"][0])
    assert (abs(theta - 3.0) < 0.05) == bounded


def test_two_clients_agree_on_what_is_best_for_both():
    """Goals 0 and 4 with curvatures 1 and 3: the sum of losses is least at 3, their mean goal is 2."""
    method, state, memories = CEFGL(threshold=0.0, shrinkage=0.0, pull=0.0), None, [None, None]
    state = method.init(arrays(0.0), 2)
    for _ in range(400):
        updates = []
        for client, (goal, curvature) in enumerate([(0.0, 1.0), (4.0, 3.0)]):
            trainer = Descent(goal, steps=3, rate=0.05, curvature=curvature)
            upload, memories[client] = method.local_update(trainer, method.model(state), memories[client])
            updates.append(Update(client, 0.5, upload))
        state = method.merge(state, updates)
    assert state["model"]["w"] == pytest.approx(3.0, abs=0.05)


def test_the_shared_model_is_what_clients_decoded():
    state = PLAIN.merge(PLAIN.init(arrays(1.0), 2), [Update(0, 0.25, arrays(2.0)), Update(1, 0.75, arrays(-2.0))])
    assert state["model"]["w"] == pytest.approx(0.0)
    assert PLAIN.model(PLAIN.broadcast(state, 0, arrays(0.1)))["w"] == pytest.approx(0.1)


def test_after_a_silent_round_the_local_model_is_the_shared_one():
    _, memory = PLAIN.local_update(Descent(3.0, collects=False), arrays(1.0), None)
    assert same(memory["shared"], memory["local"])
    assert PLAIN.personalise(arrays(1.0), memory)["w"] == pytest.approx(1.2 + 0.2)
    assert PLAIN.personalise(arrays(5.0), memory)["w"] == pytest.approx(5.0 + 0.2)  # until a newer one comes


def test_shrinkage_pulls_towards_zero_by_hand():
    """Eq. (8): S = 0.5 on Theta = 1, goal 3: gradient (1.5 - 3) + 0.2 = -1.3."""
    method = CEFGL(threshold=0.0, shrinkage=0.2)
    _, memory = method.local_update(Descent(3.0), arrays(1.0), None)
    memory["private"] = arrays(0.5)
    _, after = method.local_update(Descent(3.0), arrays(1.0), memory)
    assert after["private"]["w"] == pytest.approx(0.5 + 0.13)


@pytest.mark.parametrize("each_step", [False, True])
def test_small_entries_become_zero(each_step):
    """A step of 0.2 stays below the threshold and two of them do not, unless each is cut."""
    method = CEFGL(threshold=0.3, shrinkage=0.0, each_step=each_step)
    _, memory = method.local_update(Descent(3.0, steps=2), arrays(1.0), None)
    assert memory["private"]["w"] == pytest.approx(0.0 if each_step else 0.38)


@given(st.lists(st.floats(-1, 1, width=32), min_size=4, max_size=40), st.floats(0.05, 1.0))
def test_a_density_keeps_the_largest_entries(values, density):
    array = np.array(values, np.float32)
    kept = CEFGL(density=density)._sparse({"a": array[:3], "b": array[3:]})
    flat = np.concatenate([kept["a"], kept["b"]])
    places = np.flatnonzero(flat)
    assert np.array_equal(flat[places], array[places])
    dropped = np.abs(array[flat == 0]).max(initial=0)
    assert not places.size or np.abs(flat[places]).min() >= dropped
    if len(set(np.abs(array).tolist())) == array.size and 0 not in values:
        assert places.size == round(density * array.size)


def test_what_ablations_leave():
    memories = {}
    for channels in ("both", "global", "private"):
        method = CEFGL(threshold=0.0, shrinkage=0.0, channels=channels)
        _, memories[channels] = method.local_update(Descent(3.0), arrays(1.0), None)
        memories[channels] = method.personalise(arrays(1.0), memories[channels])["w"]
    assert memories["both"] == pytest.approx(1.2)
    assert memories["global"] == pytest.approx(1.0)  # W is on its way to the server
    assert memories["private"] == pytest.approx(1.2)


def test_restart_goes_on_from_each_new_shared_model():
    method = CEFGL(threshold=0.0, shrinkage=0.0, pull=0.0, correction="none", restart=True)
    _, memory = method.local_update(Descent(3.0), arrays(1.0), None)
    _, after = method.local_update(Descent(3.0), arrays(2.0), memory)
    assert after["local"]["w"] == pytest.approx(2.1)


def test_without_drift_the_shared_model_stays_until_a_new_one_comes():
    method = CEFGL(threshold=0.0, shrinkage=0.0, drift=False)
    _, memory = method.local_update(Descent(3.0, collects=False), arrays(1.0), None)
    assert memory["shared"]["w"] == pytest.approx(1.0)
    assert memory["local"]["w"] == pytest.approx(1.2)


class Headed(Descent):
    """The same with a private parameter that counts the steps it has been trained for."""

    def __init__(self, goal):
        super().__init__(goal)
        self.head = np.zeros(1, np.float32)

    def load(self, arrays):
        if "w" in arrays:
            super().load(arrays)
        self.head = arrays.get("head", self.head).copy()

    def read(self, names=None):
        known = {**super().read(), "head": self.head.copy()}
        return known if names is None else {name: known[name] for name in names}

    def run(self, penalty=None, correct_gradient=None, project=None, epochs=None):
        super().run(penalty, correct_gradient, project, epochs)
        self.head = self.head + 1


@pytest.mark.parametrize(("two_ends", "steps"), [(False, [2, 4]), (True, [1, 2])])
def test_the_local_model_may_have_private_parameters_of_its_own(two_ends, steps):
    method, memory = CEFGL(threshold=0.0, shrinkage=0.0, two_ends=two_ends), None
    trainer = Headed(3.0)
    for expected in steps:
        _, memory = method.local_update(trainer, arrays(1.0), memory)
        assert trainer.head == expected, "those of Theta + S"
        assert not two_ends or memory["ends"]["head"] == expected


def test_w_answers_too_with_its_own_ends_if_it_may():
    _, memory = PLAIN.local_update(Descent(3.0), arrays(1.0), None)
    both = dataclasses.replace(PLAIN, answers="both")
    assert PLAIN.ensemble(arrays(1.0), memory) == ()
    assert both.ensemble(arrays(1.0), None) == ()
    assert dataclasses.replace(both, channels="global").ensemble(arrays(1.0), memory) == ()
    (other,) = both.ensemble(arrays(1.0), {**memory, "ends": {"end": np.ones(2)}})
    assert other["w"] == pytest.approx(1.2)
    assert other["end"].tolist() == [1, 1]


def test_a_task_whose_models_cannot_answer_together_is_refused():
    with pytest.raises(
        InputError, match=r"sharing CEFGL needs a task that offers ensemble, which 'helpers.toy:Line' with these"
    ):
        toy(sharing={"name": "cefgl", "answers": "both"})


def test_the_coin_falls_as_often_as_it_should():
    g = np.random.default_rng(0)
    heads = [CEFGL(probability=0.3).collects({"model": {}}, round, g) for round in range(2000)]
    assert np.mean(heads) == pytest.approx(0.3, abs=0.03)


def test_it_learns_on_the_toy_task():
    state, _, _ = run(toy(sharing={"name": "cefgl", "probability": 0.5, "correction": "none"}, rounds=15))
    assert state.best["validation"] < 0.25 < state.curve[0]["validation"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"probability": 1.5}, r"CEFGL\.probability must be in \[0, 1\]; got 1\.5"),
        ({"pull": -1}, r"CEFGL\.pull must be >= 0"),
        ({"correction": "meen"}, "Did you mean 'mean'"),
        ({"private_epochs": -1}, r"CEFGL\.private_epochs"),
        ({"shrinkage": -1}, r"CEFGL\.shrinkage"),
        ({"threshold": -1}, r"CEFGL\.threshold"),
        ({"density": 2}, r"CEFGL\.density must be in \[0, 1\]; got 2"),
        ({"channels": "all"}, r"CEFGL\.channels"),
    ],
)
def test_impossible_options_are_refused(options, reason):
    with pytest.raises(InputError, match=reason):
        CEFGL(**options)


def test_a_short_run_sends_in_every_so_many_rounds_whatever_the_coin_says():
    sharing, g = CEFGL(probability=0.0, longest=5), np.random.default_rng(0)
    assert [round for round in range(1, 16) if sharing.collects({"model": {}}, round, g)] == [5, 10, 15]
    assert not any(CEFGL(probability=0.0).collects({"model": {}}, round, g) for round in range(1, 16))
