"""Experiments on the toy task, and runtimes that misbehave, for tests of the engine."""

import os
import signal
import time
from contextlib import contextmanager

import numpy as np

from fedgraft import wire
from fedgraft.contracts import ClientFailed, Runtime
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.table import TABLE
from fedgraft.engine.server.ledger import DIRECTIONS, PURPOSES
from fedgraft.experiment.job import build
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.running.loops import loop_of
from fedgraft.experiment.running.runner import execute
from fedgraft.runtimes.workers.in_process import InProcess
from fedgraft.testing.attackers import Attacked
from fedgraft.testing.runs import here
from fedgraft.wire import Message

SGD = {"optimizer": "sgd", "learning_rate": 0.1, "schedule": "constant"}


def toy(**changes):
    """A small experiment: five clients of 20, 40, 60, 20 and 40 training points, everybody trains, in this process."""
    content = {
        "data": {"name": "helpers.toy:Lines"},
        "selector": {"name": "all"},
        "rounds": 3,
        "baselines": [],
        "training": SGD,
        "runtime": {"workers": 0},
    }
    return build(Recipe("toy", {**content, **changes}))


class Wrapped(Runtime):
    """A runtime that shows a test every message and lets it replace replies.

    Args:
        inner: carries the messages.
        tamper: (kind, round, client, reply) -> reply.
    """

    def __init__(self, inner, tamper=None):
        self.inner, self.tamper = inner, tamper
        self.sent, self.received = [], []

    def clients(self):
        return self.inner.clients()

    def exchange(self, requests, limits, deadline_seconds):
        replies = self.inner.exchange(requests, limits, deadline_seconds)
        for client, request in requests.items():
            message = wire.decode(
                request, Protocol.of(self.inner._plan).request_layouts, Protocol.of(self.inner._plan).request_names
            )
            self.sent.append((message.kind, message.round, client, request))
            if self.tamper is not None:
                replies[client] = self.tamper(message.kind, message.round, client, replies[client])
            self.received.append((message.kind, message.round, client, replies[client]))
        return replies

    def measure(self, requests, models, deadline_seconds):
        return self.inner.measure(requests, models, deadline_seconds)

    def reasons(self):
        return self.inner.reasons()

    def memories(self, changed=True):
        return self.inner.memories(changed)

    def restore(self, memories):
        self.inner.restore(memories)

    def close(self):
        self.inner.close()


def remembered(runtime):
    """{client: the bytes of what it remembers}."""
    return {client: memory for client, memory in runtime.memories(changed=False) if client >= 0}


@contextmanager
def looped(experiment, tamper=None, shards=None):
    """A loop over a wrapped runtime, and that runtime."""
    shards = experiment.data.load(experiment.seed) if shards is None else shards
    runtime = Wrapped(
        InProcess(experiment.plan, shards, experiment.runtime.workers, experiment.runtime.threads), tamper
    )
    try:
        yield loop_of(experiment, runtime, experiment.runtime.deadline_seconds or None), runtime
    finally:
        runtime.close()


def run(experiment, tamper=None, shards=None):
    """The last state, all rows and the runtime of a whole run."""
    rows = []
    with looped(experiment, tamper, shards) as (loop, runtime):
        state = loop.run(loop.start(), lambda state, row: rows.append(row))
    return state, rows, runtime


def attacked(experiment, attackers=(0,), **lies):
    """The last state and all rows of a run some of whose clients lie."""
    rows = []
    runtime = Attacked(here(experiment.plan, experiment.data.load(experiment.seed)), experiment.plan, attackers, **lies)
    try:
        loop = loop_of(experiment, runtime)
        state = loop.run(loop.start(), lambda state, row: rows.append(row))
    finally:
        runtime.close()
    return state, rows


def same(one, two):
    """Whether two trees are equal to the last bit."""
    if isinstance(one, dict):
        return isinstance(two, dict) and one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return isinstance(two, list | tuple) and len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, np.ndarray):
        return isinstance(two, np.ndarray) and one.dtype == two.dtype and np.array_equal(one, two, equal_nan=True)
    return one == two or (one != one and two != two)


def scripted(*cohorts, **options):
    """A selector with these cohorts, one a round."""
    return {"name": "helpers.toy_methods:Scripted", "cohorts": [list(cohort) for cohort in cohorts], **options}


def gone(*clients, rounds=range(99)):
    """What fails these clients' training in these rounds."""

    def tamper(kind, round, client, reply):
        return ClientFailed(f"{client} is gone") if kind == "train" and client in clients and round in rounds else reply

    return tamper


def upload(arrays, report=1.0, layout=None, kind="train", round=None):
    """Return what makes a reply of (round, plan), in place of what a client trained."""

    def make(round_asked, plan):
        if arrays is None:
            return wire.encode(Message(kind, round or round_asked, {"loss": report}), names=("loss",))
        message = Message(kind, round or round_asked, {"loss": report}, arrays)
        return wire.encode(message, layout or plan.upload_layout, ("loss",))

    return make


def length(reply):
    """Bytes of a reply that was charged."""
    return reply.bytes_up if isinstance(reply, ClientFailed) else len(reply)


def charged(runtime, ledger):
    """Hold every total of the ledger against the messages themselves, of which none holds halo rows."""
    expected = dict.fromkeys((*DIRECTIONS, *PURPOSES), 0)
    for direction, messages in (("down", runtime.sent), ("up", runtime.received)):
        for kind, _, _, message in messages:
            header = 0 if isinstance(message, ClientFailed) else wire.header_bytes(message)
            expected[direction] += length(message)
            expected["header"] += header
            expected[TABLE[kind].purpose] += length(message) - header
    assert ledger.totals == expected
    assert ledger.total == expected["down"] + expected["up"] > 0
    return expected


PUBLISHING = {"data": {"name": "helpers.toy_methods:Counted"}}
"""A toy experiment whose clients publish statistics."""
EVERYTHING = {
    "rounds": 12,
    "selector": {"name": "power_of_choice", "clients": 3, "candidates": 4},
    "codec": "helpers.toy_methods:Feedback",
    "sharing": "helpers.toy_methods:Momentum",
    "sampler": "helpers.toy_methods:Hard",
    "task": {"name": "helpers.toy_methods:Dropout"},
    "data": {"name": "helpers.toy_methods:Wet"},
    "training": {**SGD, "learning_rate": 0.05, "epochs": 2, "momentum": 0.3, "keep_moments": True},
    "evaluation": {"at": "clients", "every": 2},
    "checkpoint": {"every_seconds": 0},
}
"""Every kind of memory: of selector, codec at both ends, sharing, sampler, optimiser; and torch's own generator."""


def execute_and_die(folder, changes, at_call=0, pause_seconds=0.0):
    """Run in a process of its own; with `at_call`, kill it at that call of the system to write to disk."""
    calls = 0

    def dying(fsync):
        def call(handle):
            nonlocal calls
            calls += 1
            if calls == at_call:
                os.kill(os.getpid(), signal.SIGKILL)
            fsync(handle)

        return call

    class Slow:
        def after_round(self, state, row):
            time.sleep(pause_seconds)

    if at_call:
        os.fsync = dying(os.fsync)
    execute(toy(**changes), folder, Slow())
