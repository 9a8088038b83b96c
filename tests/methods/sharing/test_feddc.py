import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.contracts import Update
from fedgraft.errors import InputError
from fedgraft.methods.sharing.feddc import FedDC
from fedgraft.methods.sharing.fedprox import FedProx
from helpers.sharing_clients import Quadratic
from helpers.toy_runs import run, same, toy

SMALL = st.floats(-4, 4, width=32)


def one(*values):
    return {"w": np.array(values, np.float32)}


def received(model, control):
    return {**one(*model), "control:w": np.array(control, np.float32)}


def remembered(drift, control):
    return {"drift": one(*drift), "control": one(*control)}


def test_a_worked_example():
    # Targets (2, 0) and (0, 4), one step of rate 1/2 from (0, 0), alpha 1: updates (1, 0) and (0, 2) are the drifts,
    # too, and gradients (-2, 0) and (0, -4) the controls. What is sent is update and drift.
    method, targets = FedDC(alpha=1.0), (one(2, 0), one(0, 4))
    state = method.init(one(0, 0), clients=2)
    memories, uploads = [None, None], [{}, {}]
    for client in (0, 1):
        trainer = Quadratic(targets[client], steps=1, rate=0.5)
        uploads[client], memories[client] = method.local_update(trainer, method.model(state), None)
    assert [memory["drift"]["w"].tolist() for memory in memories] == [[1, 0], [0, 2]]
    assert [memory["control"]["w"].tolist() for memory in memories] == [[-2, 0], [0, -4]]
    assert [upload["w"].tolist() for upload in uploads] == [[2, 0], [0, 4]]
    state = method.merge(state, [Update(client, 0.5, upload) for client, upload in enumerate(uploads)])
    assert state["model"]["w"].tolist() == [1, 2]
    assert state["control"]["control:w"].tolist() == [-1, -2]
    # From (1, 2) the first goes along (1, 2) - (2, 0), plus alpha times its drift (1, 0), less (-2, 0), plus (-1, -2):
    # (1, 0), by half of which it moves. Its drift is then (1, 0) + (-1/2, 0).
    trainer = Quadratic(targets[0], steps=1, rate=0.5)
    upload, memory = method.local_update(trainer, method.model(state), memories[0])
    assert memory["drift"]["w"].tolist() == [0.5, 0]
    assert memory["control"]["w"].tolist() == [1, 0]
    assert upload["w"].tolist() == [-0.5 + 0.5, 0]
    assert upload["control:w"].tolist() == [3, 0]


@pytest.mark.parametrize("control", ["update", "difference", "gradient"])
def test_algorithm_1(control):
    # y after three steps of the gradient of L + alpha/2 ||y + h - w||^2 + <y, c - c_i>.
    drift, own, server, target, alpha, rate, w = 0.75, 0.5, -0.25, 3.0, 0.25, 0.5, 1.0
    y = w
    for _ in range(3):
        y -= rate * ((y - target) + alpha * (y + drift - w) + server - own)
    trainer = Quadratic(one(target), steps=3, rate=rate)
    upload, memory = FedDC(alpha, control).local_update(trainer, received([w], [server]), remembered([drift], [own]))
    new = (w - y) / (3 * rate) + (0 if control == "update" else own - server)
    assert memory["drift"]["w"][0] == pytest.approx(drift + y - w)
    assert upload["w"][0] == pytest.approx((y - w) + (drift + y - w))
    assert memory["control"]["w"][0] == pytest.approx(new)
    assert upload["control:w"][0] == pytest.approx(new - own)


@given(SMALL, SMALL, SMALL, SMALL, SMALL, st.integers(1, 5))
def test_on_plain_sgd_the_authors_formula_is_the_mean_gradient(x, server, own, drift, target, steps):
    controls = []
    for control in ("difference", "gradient"):
        trainer = Quadratic(one(target), steps=steps, rate=0.25)
        memory = remembered([drift], [own])
        _, memory = FedDC(0.5, control).local_update(trainer, received([x], [server]), memory)
        controls.append(float(memory["control"]["w"][0]))
    assert controls[0] == pytest.approx(controls[1], abs=1e-4)


@given(SMALL, SMALL, st.sampled_from([0.0, 0.25, 1.0]), st.integers(1, 5))
def test_without_drift_a_client_trains_as_fedprox_and_without_alpha_as_fedavg(x, target, alpha, steps):
    mine, _ = FedDC(alpha).local_update(Quadratic(one(target), steps=steps, rate=0.25), received([x], [0]), None)
    other, _ = FedProx(alpha).local_update(Quadratic(one(target), steps=steps, rate=0.25), one(x), None)
    assert mine["w"].tolist() == (2 * other["w"]).tolist(), "the update, and the drift that it leaves"


@pytest.mark.parametrize("control", ["update", "difference", "gradient"])
def test_without_alpha_the_first_round_is_fedavgs_twice(control):
    experiment = toy(sharing={"name": "feddc", "alpha": 0.0, "control": control}, rounds=1)
    mine, _, _ = run(experiment)
    average, _, _ = run(toy(sharing={"name": "fedavg"}, rounds=1))
    for name, first in experiment.plan.first.items():
        moved = average.sharing["model"][name] - first
        np.testing.assert_allclose(mine.sharing["model"][name], first + 2 * moved, rtol=1e-5, atol=1e-6)


def test_it_settles_where_all_clients_losses_are_least():
    # Targets 0 and 4: the mean loss is least at 2, where the drifts make up for what each client's steps move.
    method, targets, memories = FedDC(alpha=0.1, control="difference"), (one(0), one(4)), [None, None]
    state = method.init(one(1), clients=2)
    for _ in range(60):
        updates = []
        for client in (0, 1):
            trainer = Quadratic(targets[client], steps=3, rate=0.2)
            upload, memories[client] = method.local_update(trainer, method.model(state), memories[client])
            updates.append(Update(client, 0.5, upload))
        state = method.merge(state, updates)
    assert state["model"]["w"][0] == pytest.approx(2, abs=1e-3)
    assert memories[0]["drift"]["w"][0] == pytest.approx(-memories[1]["drift"]["w"][0], abs=1e-3)


class WithStatistics(Quadratic):
    """A client one of whose parameters is a running statistic: no gradient, but another value after each step."""

    def run(self, correct_gradient=None):
        assert correct_gradient is not None
        for _ in range(self.planned):
            correct_gradient(self.parameters, {"w": self.parameters["w"].detach() - self.targets["w"]})
            self.parameters["mean"].data += 1
            self.steps += 1


def test_running_statistics_do_not_drift():
    start = {**one(1), "mean": np.array([5], np.float32)}
    method = FedDC()
    trainer = WithStatistics({**one(0), "mean": np.array([0], np.float32)}, steps=2)
    upload, memory = method.local_update(trainer, method.model(method.init(start, 1)), None)
    assert upload["mean"].tolist() == [2]
    assert memory["drift"]["mean"].tolist() == [0]


def test_a_client_without_a_step_sends_its_drift():
    trainer = Quadratic(one(3), steps=0)
    upload, memory = FedDC().local_update(trainer, received([1], [2]), remembered([4], [5]))
    assert (upload["w"].tolist(), upload["control:w"].tolist()) == ([4], [0])
    assert same(memory, remembered([4], [5]))


def test_errors_name_the_option():
    with pytest.raises(InputError, match=r"^FedDC\.control must be one of 'update', 'difference', 'gradient'; got"):
        FedDC(control="option")
    with pytest.raises(InputError, match=r"^FedDC\.alpha must be >= 0; got -1"):
        FedDC(alpha=-1)
