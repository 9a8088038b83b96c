"""The laws of every sharing method, run on each file of the family: alone, and at a client of the toy task."""

import copy
import dataclasses
import inspect

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import Sharing, Update
from fedgraft.errors import InputError
from fedgraft.experiment import discovery
from fedgraft.wire.layouts import VARIABLE, Layout
from helpers.toy_runs import looped, remembered, run, same, toy

NAMES = discovery.names("sharing")
MODEL = {
    "encoder.w": np.array([[1, 2], [3, 4]], np.float32),
    "structure.w": np.array([0.5, -1], np.float32),
    "head.b": np.array([5], np.float32),
}
CLIENTS = 4


def build(name):
    return discovery.build("sharing", "sharing", {"name": name})


def shared(method):
    return {key: value for key, value in MODEL.items() if method.shares(key)}


def parameters(method, arrays):
    """The shared parameters out of what a group is sent."""
    return {name: arrays[name] for name in shared(method)}


def groups(method, state):
    return sorted({method.group(state, client) for client in range(CLIENTS)})


def updates(method, values):
    """One upload a client, all of its layout and filled with the client's value."""
    layout = method.uploads(Layout.of(shared(method)))
    return [
        Update(client, 1 / len(values), {s.name: np.full(s.shape, value, s.dtype) for s in layout})
        for client, value in enumerate(values)
    ]


def data(name):
    """Points for the toy task, with the parts that a method needs."""
    return {"name": "helpers.toy_parts:Lines" if discovery.find("sharing", name)().needs else "helpers.toy:Lines"}


@pytest.mark.parametrize("name", NAMES)
def test_is_frozen_and_documented(name):
    cls = discovery.find("sharing", name)
    assert issubclass(cls, Sharing)
    assert cls.__dataclass_params__.frozen
    text = inspect.getdoc(cls) or ""
    assert all(f"{field.name}:" in text for field in dataclasses.fields(cls)), "every option is explained"
    assert all(word in text for word in ("Source:", "Differs:", "State:", "Cost:"))


@pytest.mark.parametrize("name", NAMES)
def test_starts_from_the_given_model(name):
    method = build(name)
    state = method.init(shared(method), CLIENTS)
    for group in groups(method, state):
        assert same(parameters(method, method.model(state, group)), shared(method))
        assert same(parameters(method, method.evaluated(state, group)), shared(method))


@pytest.mark.parametrize("name", NAMES)
def test_arrays_that_travel_are_those_of_the_layouts(name):
    method = build(name)
    layout = Layout.of(shared(method))
    assert {spec.name for spec in layout} <= {spec.name for spec in method.downloads(layout)}
    assert not any("/" in spec.name for spec in method.downloads(layout)), "stored models have groups before a slash"
    for layouts in (method.downloads(layout), method.uploads(layout)):
        assert all(VARIABLE not in spec.shape for spec in layouts), "a budget must know how long a message can be"


@pytest.mark.parametrize("name", NAMES)
def test_equal_updates_merge_to_that_update(name):
    method = build(name)
    one = method.merge(method.init(shared(method), CLIENTS), updates(method, [0.5])[:1])
    all_of_them = method.merge(method.init(shared(method), CLIENTS), updates(method, [0.5] * CLIENTS))
    for group in groups(method, all_of_them):
        model = parameters(method, method.model(all_of_them, group))
        for key, value in model.items():
            np.testing.assert_allclose(value, method.model(one, method.group(one, 0))[key], rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_given_is_mutated_and_states_survive_the_wire(name):
    method = build(name)
    model = copy.deepcopy(shared(method))
    layout = method.downloads(Layout.of(model))
    state = method.init(model, CLIENTS)
    for step in range(5):
        given = updates(method, np.random.default_rng(step).normal(size=2 + step % 3).tolist())
        before, uploaded = copy.deepcopy(state), copy.deepcopy([update.arrays for update in given])
        again = wire.unpack(wire.pack(state))
        after = method.merge(state, given)
        assert same(state, before), "merge changed the state it was given"
        assert same([update.arrays for update in given], uploaded), "merge changed an upload"
        assert same(method.merge(again, given), after), "a resumed state merges otherwise"
        assert same(after, wire.unpack(wire.pack(after))), "the wire must carry the state"
        for group in groups(method, after):
            assert Layout.of(method.model(after, group)) == layout
            assert Layout.of(method.evaluated(after, group)) == layout
            sent = method.sent(after, group, method.model(after, group))
            assert same(sent, wire.unpack(wire.pack(sent))), "the wire must carry what was sent"
        state = after
    assert same(model, shared(method)), "init or merge changed the drawn model"


@pytest.mark.parametrize("name", NAMES)
def test_some_clients_are_enough(name):
    method = build(name)
    state = method.init(shared(method), CLIENTS)
    state = method.merge(state, updates(method, [1.0] * CLIENTS)[2:3])
    assert all(np.isfinite(value).all() for value in method.model(state, method.group(state, 2)).values())


@pytest.mark.parametrize("name", NAMES)
def test_learns_and_keeps_private_names_off_the_wire(name):
    experiment = toy(sharing={"name": name}, data=data(name), rounds=4)
    state, rows, runtime = run(experiment)
    assert not any(row.failed for row in rows)
    assert state.curve[-1]["validation"] < state.curve[0]["validation"]
    keep_off_the_wire(experiment.plan, runtime)


@pytest.mark.parametrize("name", NAMES)
def test_partial_cohorts_failures_and_lossy_messages_are_survived(name):
    experiment = toy(
        sharing={"name": name},
        data=data(name),
        rounds=6,
        selector={"name": "random", "clients": 3},
        codec={"name": "quantized", "bits": 8},
    )

    def tamper(kind, round, client, reply):
        return b"not a message" if kind == "train" and client == round % 5 else reply

    state, _, runtime = run(experiment, tamper)
    assert state.curve[-1]["validation"] < state.curve[0]["validation"]
    for memory in remembered(runtime).values():
        assert wire.pack(wire.unpack(memory)) == memory


@pytest.mark.parametrize("name", NAMES)
def test_two_runs_are_equal_to_the_last_bit(name):
    experiment = toy(sharing={"name": name}, data=data(name))
    one, _, first = run(experiment)
    other, _, second = run(experiment)
    assert same(one.sharing, other.sharing)
    assert remembered(first) == remembered(second)


@pytest.mark.parametrize("name", NAMES)
def test_a_task_without_the_parts_is_refused(name):
    if discovery.find("sharing", name)().needs:
        with pytest.raises(
            InputError, match=r"needs a task that offers .*, which 'helpers\.toy:Line' with these options does not; it"
        ):
            toy(sharing={"name": name})
    else:
        toy(sharing={"name": name})


@dataclasses.dataclass(frozen=True)
class Personal(Sharing[dict]):
    """A sharing method whose bias stays at home: what the law below is known to catch."""

    def shares(self, name):
        return name != "bias"

    def init(self, model, clients):
        return {"model": model}

    def model(self, state, group=0):
        return state["model"]

    def merge(self, state, updates):
        mean = {
            key: (value + sum(update.weight * update.arrays[key] for update in updates)).astype(value.dtype)
            for key, value in state["model"].items()
        }
        return {"model": mean}


def test_private_parameters_stay_in_the_memory_of_their_client():
    experiment = toy(sharing={"name": "test_sharing:Personal"}, rounds=3)
    _, _, runtime = run(experiment)
    private = keep_off_the_wire(experiment.plan, runtime)
    biases = {float(arrays["bias"][0]) for arrays in private.values()}
    assert len(biases) == 5, "every client has a bias of its own"
    with looped(experiment) as (loop, fresh):
        state = loop.start()
        fresh.restore(remembered(runtime))
        with_private = loop._post.evaluate(state, range(5), 0, charged=False)
        fresh.restore({})
        without = loop._post.evaluate(state, range(5), 0, charged=False)
    assert not same(with_private.sums, without.sums), "a client is scored with its own parameters"


def keep_off_the_wire(plan, runtime):
    """Look for every value of every private parameter in every byte sent or received; return {client: parameters}.

    What a method says it needs may be sent by the way, such as a head that clients tell and nobody overwrites.
    """
    private, told = {}, tuple(f"{part}." for part in plan.sharing.needs)
    for client, memory in remembered(runtime).items():
        kept = wire.unpack(memory).get("private", {})
        assert all(not plan.travels(name) for name in kept)
        private[client] = kept
        hidden = {name: array for name, array in kept.items() if not (told and name.startswith(told))}
        for kind, round, _, message in [*runtime.sent, *runtime.received]:
            for name, array in hidden.items():
                assert name.encode() not in message
                assert array.tobytes() not in message, f"{name} of client {client} travelled in {kind} of round {round}"
    return private
