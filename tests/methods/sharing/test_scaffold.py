import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.contracts import Update
from fedgraft.errors import InputError
from fedgraft.methods.sharing.scaffold import Scaffold
from helpers.sharing_clients import Quadratic
from helpers.toy_runs import remembered, run, same, toy

SMALL = st.floats(-4, 4, width=32)


def one(*values):
    return {"w": np.array(values, np.float32)}


def received(model, control):
    return {**one(*model), "control:w": np.array(control, np.float32)}


def test_a_worked_example():
    # Targets (2, 0) and (0, 4), one step of rate 1/2 from (0, 0): gradients (-2, 0) and (0, -4) become the controls.
    method, targets = Scaffold(), (one(2, 0), one(0, 4))
    state = method.init(one(0, 0), clients=2)
    memories, uploads = [None, None], [{}, {}]
    for client in (0, 1):
        trainer = Quadratic(targets[client], steps=1, rate=0.5)
        uploads[client], memories[client] = method.local_update(trainer, method.model(state), None)
    assert [memory["control"]["w"].tolist() for memory in memories] == [[-2, 0], [0, -4]]
    state = method.merge(state, [Update(client, 0.5, upload) for client, upload in enumerate(uploads)])
    assert state["model"]["w"].tolist() == [0.5, 1]
    assert state["control"]["control:w"].tolist() == [-1, -2]
    # From (0.5, 1) both now go along the gradient of the mean loss, (0.5, 1) - (1, 2), each by half of it.
    for client in (0, 1):
        trainer = Quadratic(targets[client], steps=1, rate=0.5)
        upload, _ = method.local_update(trainer, method.model(state), memories[client])
        assert upload["w"].tolist() == [0.25, 0.5]


def test_option_2_of_equation_4():
    # y after two steps of g - c_i + c; then c_i' = c_i - c + (x - y) / (K eta).
    own, server, target, rate, x = 0.5, -0.25, 3.0, 0.5, 1.0
    y = x
    for _ in range(2):
        y -= rate * ((y - target) - own + server)
    trainer = Quadratic(one(target), steps=2, rate=rate)
    upload, memory = Scaffold().local_update(trainer, received([x], [server]), {"control": one(own)})
    new = own - server + (x - y) / (2 * rate)
    assert upload["w"][0] == pytest.approx(y - x)
    assert memory["control"]["w"][0] == pytest.approx(new)
    assert upload["control:w"][0] == pytest.approx(new - own)


@given(SMALL, SMALL, SMALL, SMALL, st.integers(1, 5))
def test_on_plain_sgd_the_formula_is_the_mean_gradient(x, server, own, target, steps):
    controls = []
    for control in ("difference", "gradient"):
        trainer = Quadratic(one(target), steps=steps, rate=0.25)
        _, memory = Scaffold(control).local_update(trainer, received([x], [server]), {"control": one(own)})
        controls.append(float(memory["control"]["w"][0]))
    assert controls[0] == pytest.approx(controls[1], abs=1e-4)


def test_the_control_moves_by_the_share_of_those_who_took_part():
    method = Scaffold(rate=0.5)
    state = method.init(one(1), clients=4)
    state = method.merge(state, [Update(2, 1.0, {**one(8), "control:w": np.array([4], np.float32)})])
    assert state["model"]["w"][0] == 1 + 0.5 * 8
    assert state["control"]["control:w"][0] == 4 / 4


@pytest.mark.parametrize("control", ["difference", "gradient"])
def test_the_first_round_is_fedavgs(control):
    scaffold, _, _ = run(toy(sharing={"name": "scaffold", "control": control}, rounds=1))
    average, _, _ = run(toy(sharing={"name": "fedavg"}, rounds=1))
    assert same(scaffold.sharing["model"], average.sharing["model"])


@pytest.mark.parametrize("control", ["difference", "gradient"])
def test_the_servers_control_is_the_clients_mean(control):
    state, _, runtime = run(toy(sharing={"name": "scaffold", "control": control}, training={"optimizer": "adam"}))
    own = {k: wire.unpack(memory)["sharing"]["control"] for k, memory in remembered(runtime).items()}
    weights = np.array(state.examples) / sum(state.examples)
    for name in ("weight", "bias"):
        mean = sum(weights[k] * own[k][name] for k in own)
        np.testing.assert_allclose(state.sharing["control"][f"control:{name}"], mean, rtol=1e-4, atol=1e-5)


class Resumed(Quadratic):
    """A client whose round was paused after three steps: who trains it then has not seen these."""

    def run(self, **hooks):
        self.steps += 3
        super().run(**hooks)


def test_after_a_pause_the_mean_gradient_is_of_the_steps_since():
    trainer = Resumed(one(3), steps=2, rate=0.5)
    _, memory = Scaffold("gradient").local_update(trainer, received([1], [0]), None)
    assert memory["control"]["w"].tolist() == [(-2 - 1) / 2]


def test_a_client_without_a_step_keeps_its_control():
    trainer = Quadratic(one(3), steps=0)
    upload, memory = Scaffold().local_update(trainer, received([1], [2]), {"control": one(5)})
    assert upload["w"].tolist() == upload["control:w"].tolist() == [0]
    assert memory["control"]["w"].tolist() == [5]


def test_errors_name_the_option():
    with pytest.raises(InputError, match=r"^Scaffold\.control must be one of 'difference', 'gradient'; got 'option'"):
        Scaffold(control="option")
    with pytest.raises(InputError, match=r"^Scaffold\.rate must be > 0; got 0"):
        Scaffold(rate=0)
