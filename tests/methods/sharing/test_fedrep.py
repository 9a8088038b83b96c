import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.contracts import Update
from fedgraft.errors import InputError
from fedgraft.methods.sharing.fedrep import FedRep
from helpers.local_trainers import trainer
from helpers.toy_runs import remembered, run, same, scripted, toy

BIAS = {"name": "fedrep", "private": ["bias"]}


def body(value):
    return {"weight": np.array([value], np.float32)}


class Watched:
    """A trainer that notes its model around each run, and what it was told."""

    def __init__(self, inner):
        self.inner, self.seen = inner, []

    def run(self, epochs=None, frozen=()):
        before = self.inner.read()
        self.inner.run(epochs=epochs, frozen=frozen)
        self.seen.append((epochs, before, self.inner.read()))

    def __getattr__(self, name):
        return getattr(self.inner, name)


@pytest.mark.parametrize(("epochs", "bias", "weight"), [(1, 0.6, 0.82), (2, 1.08, 0.676)])
def test_a_worked_example(epochs, bias, weight):
    # y = 2 x at x = 1, 2, from w = b = 0 at rate 0.1. Head b: gradient -6, so 0.6. Then the body w: errors -1.4 and
    # -3.4, gradient -8.2, so 0.82. With a second epoch on the head: gradient -4.8, so 1.08; errors -0.92 and -2.92,
    # gradient -6.76, so 0.676.
    client = trainer()
    update, memory = FedRep(private=("bias",), head_epochs=epochs).local_update(client, body(0), None)
    assert update.keys() == {"weight"}
    assert update["weight"].tolist() == pytest.approx([weight])
    assert client.read(["bias"])["bias"].tolist() == pytest.approx([bias])
    assert memory is None


def test_the_mean_of_bodies():
    method = FedRep(private=("head.",))
    assert [method.shares(name) for name in ("base.w", "head.w", "ahead.w")] == [True, False, True]
    state = method.init({"base.w": np.array([1, 2], np.float32)}, clients=2)
    uploads = [{"base.w": np.array(values, np.float32)} for values in ((4, 0), (0, 8))]
    state = method.merge(state, [Update(0, 0.25, uploads[0]), Update(1, 0.75, uploads[1])])
    assert method.model(state)["base.w"].tolist() == [2, 8]


@settings(max_examples=25)
@given(st.floats(-5, 5, width=32))
def test_the_head_is_fitted_to_the_body_as_received(received):
    # Algorithm 1 with enough head updates: h = argmin f(h, phi), here b = mean(y - w x) = 3 - 1.5 w.
    client = trainer()
    FedRep(private=("bias",), head_epochs=120).local_update(client, body(received), None)
    assert client.read(["bias"])["bias"][0] == pytest.approx(3 - 1.5 * received, abs=1e-3)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_one_is_untouched_while_the_other_trains(optimizer):
    client = Watched(trainer(optimizer=optimizer, weight_decay=0.1, momentum=0.5, epochs=2))
    client.load({"bias": np.array([0.3], np.float32)})
    update, _ = FedRep(private=("bias",), head_epochs=3).local_update(client, body(0.4), None)
    (first, start, fitted), (second, begun, ended) = client.seen
    assert (first, second) == (3, None)
    assert same(start["weight"], body(0.4)["weight"])
    assert same(start["weight"], fitted["weight"])
    assert not same(start["bias"], fitted["bias"])
    assert same(fitted, begun)
    assert same(begun["bias"], ended["bias"])
    assert same(update["weight"], ended["weight"] - begun["weight"])


def test_heads_never_travel_are_never_reset_and_cost_no_byte():
    rounds = {}
    for number in (1, 3):  # client 0 trains in round 1 only
        _, rows, runtime = run(toy(sharing=BIAS, selector=scripted([0, 1], [1], [1]), rounds=number))
        memories = {client: wire.unpack(memory) for client, memory in remembered(runtime).items()}
        heads = {client: memories[client]["private"]["bias"] for client in (0, 1)}
        rounds[number] = heads
        messages = [message for *_, message in [*runtime.sent, *runtime.received]]
        assert not any(
            head.tobytes() in message or b"bias" in message for head in heads.values() for message in messages
        )
    assert same(rounds[3][0], rounds[1][0])
    assert not same(rounds[3][1], rounds[1][1])
    sharing = {"name": "fedper", "private": ["bias"]}
    _, others, _ = run(toy(sharing=sharing, selector=scripted([0, 1], [1], [1]), rounds=3))
    assert [row.bytes for row in rows] == [row.bytes for row in others]


def test_with_no_head_it_is_fedavg():
    personal, _, _ = run(toy(sharing={"name": "fedrep", "private": []}))
    average, _, _ = run(toy(sharing={"name": "fedavg"}))
    assert same(personal.sharing["model"], average.sharing["model"])


def test_epochs_of_head_and_body():
    assert FedRep().runs(2) == (10, 2)
    assert FedRep(head_epochs=0).runs(2) == (2, 2)


def test_impossible_options_are_refused():
    with pytest.raises(InputError, match=r"^FedRep\.head_epochs must be >= 0; got -1"):
        FedRep(head_epochs=-1)
    with pytest.raises(InputError, match=r"^FedRep\.private must be beginnings of names, none of them empty"):
        FedRep(private=("",))
    with pytest.raises(InputError, match=r"^FedRep\.private = .* leaves nothing to share; sharing\.name=local says so"):
        run(toy(sharing={"name": "fedrep", "private": ["weight", "bias"]}))
