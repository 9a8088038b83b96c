"""A client that waits for others' rows within a round begins it anew and ends it as if it had not waited."""

import numpy as np
import pytest

from fedgraft.engine.client.local_trainer import Paused
from fedgraft.methods.sharing.cefgl import CEFGL
from fedgraft.methods.sharing.ditto import Ditto
from fedgraft.methods.sharing.fedala import FedALA
from fedgraft.methods.sharing.fedprox import FedProx
from fedgraft.methods.sharing.fedpub import FedPUB
from fedgraft.methods.sharing.fedrep import FedRep
from fedgraft.methods.sharing.scaffold import Scaffold
from helpers.sharing_clients import Interrupted, Quadratic
from helpers.toy_runs import same

METHODS = {
    "fedprox": FedProx(mu=0.5),
    "cefgl": CEFGL(threshold=0.0),
    "ditto": Ditto(pull=0.5, personal_epochs=4),
    "fedrep": FedRep(private=("head.",), head_epochs=3),
    "fedpub": FedPUB(width=2),
    "fedala": FedALA(adaptive=("w",), rate=0.1, first_epochs=5),
}
TARGETS = {"w": np.array([3, -1], np.float32), "v": np.array([0.5], np.float32)}
HEAD = {"head.b": np.array([7], np.float32)}


def rounds(method, targets, at):
    """What comes of two rounds, the second stopped before the step `at`; and how many steps that has."""
    uploads, memory, head = [], None, {name: np.zeros_like(value) for name, value in targets.items() if name in HEAD}
    for number, received in enumerate((1.0, -2.0)):
        shared = {name: np.full_like(value, received) for name, value in TARGETS.items()}
        options = {"steps": 3, "rate": 0.3, "start": head}
        stopped = number == 1 and at is not None
        client = Interrupted(targets, at, **options) if stopped else Quadratic(targets, **options)
        try:
            result = method.local_update(client, shared, memory)
        except Paused:
            client.begin_anew()
            result = method.local_update(client, shared, memory)
        assert not stopped or client.stopped
        uploads.append(result[0])
        memory, head = result[1], client.read(list(head)) if head else {}
    return (uploads, memory, head), client.steps


@pytest.mark.parametrize("name", METHODS)
def test_a_round_that_is_stopped_ends_as_if_it_had_not_been(name):
    targets = TARGETS | HEAD if name == "fedrep" else TARGETS
    expected, steps = rounds(METHODS[name], targets, None)
    assert steps >= 3
    for at in range(steps):
        found, _ = rounds(METHODS[name], targets, at)
        assert same(found, expected), f"stopped before step {at}"


def test_so_does_scaffold_by_the_difference():
    def second(at):
        client = Quadratic(TARGETS, steps=3, rate=0.3) if at is None else Interrupted(TARGETS, at, steps=3, rate=0.3)
        received = Scaffold().model(Scaffold().init({name: np.ones_like(value) for name, value in TARGETS.items()}, 2))
        try:
            return Scaffold().local_update(client, received, None)
        except Paused:
            client.begin_anew()
            return Scaffold().local_update(client, received, None)

    assert all(same(second(at), second(None)) for at in range(3))
