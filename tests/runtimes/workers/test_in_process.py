import os
import signal
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import InputError
from fedgraft.runtimes.workers.in_process import InProcess
from fedgraft.runtimes.workers.pool import _Batch, _Job, _Worker
from fedgraft.runtimes.workers.shared_memory import SharedBlock
from fedgraft.wire import Message
from fedgraft.wire.lazy import Made, MadeOnce
from helpers.toy_methods import Published
from helpers.toy_runs import SGD, charged, looped, remembered, run, same, toy

EVERYTHING = {
    "rounds": 3,
    "selector": {"name": "power_of_choice", "clients": 3, "candidates": 4},
    "codec": "helpers.toy_methods:Feedback",
    "sharing": "helpers.toy_methods:Momentum",
    "sampler": "helpers.toy_methods:Hard",
    "training": {**SGD, "learning_rate": 0.05, "epochs": 2},
}


def inprocess(workers, **changes):
    experiment = toy(**changes)
    return InProcess(replace(experiment.plan, probes=True), experiment.data.load(experiment.seed), workers)


def hellos(runtime):
    return dict.fromkeys(runtime.clients(), wire.encode(Message("hello", 0)))


def limits(runtime):
    return dict.fromkeys(runtime.clients(), 1000)


def all_answer(runtime):
    return all(isinstance(reply, bytes) for reply in runtime.exchange(hellos(runtime), limits(runtime), 60).values())


def start(runtime):
    """Wait for every worker."""
    while not all(worker.ready for worker in runtime._pool._workers):
        runtime._pool._collect(_Batch([], None))


def pids(runtime):
    return [worker.channel.process.pid for worker in runtime._pool._workers]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition, seconds=30):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    assert condition()


@pytest.fixture(scope="module")
def inline():
    return run(toy(**EVERYTHING))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_result_does_not_depend_on_the_number_of_workers(inline, workers):
    expected, expected_rows, expected_runtime = inline
    state, rows, runtime = run(toy(**EVERYTHING, runtime={"workers": workers}))
    assert same(state.sharing, expected.sharing)
    assert same(state.selector, expected.selector)
    assert [(row.selected, row.validation, row.bytes) for row in rows] == [
        (row.selected, row.validation, row.bytes) for row in expected_rows
    ]
    assert remembered(runtime) == remembered(expected_runtime)
    assert same(sorted(runtime.sent), sorted(expected_runtime.sent))


def test_global_generators_and_threads_are_left_alone():
    torch.manual_seed(3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    run(toy(rounds=1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("workers", [0, 1])
def test_a_reply_beyond_its_limit_fails_that_client_and_changes_no_memory(workers):
    runtime = inprocess(workers, sharing="helpers.toy_methods:Momentum")
    plan = runtime._plan
    model = wire.encode(Message("train", 1, arrays=plan.first), plan.model_layout)
    try:
        replies = runtime.exchange({0: model, 1: model}, {0: 1000, 1: 30}, None)
        assert isinstance(replies[0], bytes)
        assert replies[1] == ClientFailed("a reply of 36 bytes where at most 30 are allowed", 30)
        assert [client for client, _ in runtime.memories()] == [0]
    finally:
        runtime.close()


def test_a_reply_that_is_too_long_costs_that_client_its_round_and_leaves_the_average_alone():
    rows = []
    with looped(toy()) as (loop, runtime):
        serve = runtime.inner._inline.serve

        def long(client, request, *rest):
            served = serve(client, request, *rest)
            return replace(served, reply=bytes(5000)) if (client, wire.kind_of(request)) == (2, "train") else served

        runtime.inner._inline.serve = long
        state = loop.run(loop.start(), lambda state, row: rows.append(row))
    expected, expected_rows, _ = run(toy(selector={"name": "helpers.toy_methods:Without"}))
    assert same(state.sharing, expected.sharing)
    for row, honest in zip(rows, expected_rows, strict=True):
        assert row.failed == {2: "a reply of 5000 bytes where at most 276 are allowed"}
        assert (row.validation, row.loss) == (honest.validation, honest.loss)
    charged(runtime, loop.ledger)
    entries = [entry for entry in loop.ledger.drain() if (entry.client, entry.direction) == (2, "up")]
    assert [entry.bytes for entry in entries if entry.round] == [276] * 3, "no more than is allowed is charged"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_measurement_is_remembered_as_any_message_is(workers):
    runtime = inprocess(workers)
    try:
        arrays = runtime._plan.build_model().initial
        probe = wire.encode(Message("probe", 1, arrays=arrays), runtime._plan.model_layout)
        replies = runtime.measure(dict.fromkeys(range(5), probe), {}, None)
        assert all(isinstance(reply, bytes) for reply in replies.values())
        assert [client for client, _ in runtime.memories()] == [0, 1, 2, 3, 4]
        assert list(runtime.memories()) == [], "each change is told once"
        runtime.exchange({3: hellos(runtime)[3]}, limits(runtime), None)
        assert list(runtime.memories()) == [], "nothing has changed"
        assert [client for client, _ in runtime.memories(changed=False)] == [0, 1, 2, 3, 4]
    finally:
        runtime.close()


def test_memories_are_returned_restored_and_returned_again_when_they_change():
    runtime = inprocess(0)
    arrays = runtime._plan.build_model().initial
    probe = wire.encode(Message("probe", 1, arrays=arrays), runtime._plan.model_layout)
    train = wire.encode(Message("train", 1), runtime._plan.model_layout)
    runtime.exchange({1: probe, 2: probe}, limits(runtime), None)
    memories = dict(runtime.memories())
    assert sorted(memories) == [1, 2]
    other = inprocess(0)
    other.restore(memories)
    assert list(other.memories()) == []
    one, two = (each.exchange({1: train}, limits(each), None) for each in (runtime, other))
    assert one == two
    assert dict(other.memories()) == {1: b""}, "a memory that was emptied is a change"


def test_the_parent_s_requests_come_back_in_their_order():
    runtime = inprocess(0)
    requests = dict(reversed(hellos(runtime).items()))
    assert list(runtime.exchange(requests, limits(runtime), None)) == [4, 3, 2, 1, 0]


def test_workers_that_die_are_replaced_and_none_is_left_behind():
    # One runtime for several tests in a row: starting workers is what takes time.
    runtime = inprocess(2)
    try:
        start(runtime)
        assert all_answer(runtime)
        first = pids(runtime)

        # Killed while they have nothing to do: nobody's fault.
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(worker.channel.process.is_alive() for worker in runtime._pool._workers))
        assert all_answer(runtime)
        second = pids(runtime)
        assert not set(first) & set(second)

        # Ctrl-C reaches the whole process group: workers leave it to their parent.
        start(runtime)
        for pid in second:
            os.kill(pid, signal.SIGINT)
        assert all_answer(runtime)
        assert pids(runtime) == second
    finally:
        runtime.close()
    runtime.close()
    wait_for(lambda: not any(map(alive, [*first, *second])))


def test_a_hanging_client_is_given_up_alone_and_closing_does_not_wait():
    hang = {"name": "helpers.toy:Line", "fault": "hang", "faulty_points": 120}
    with looped(toy(task=hang, runtime={"workers": 1, "deadline_seconds": 1.5}, rounds=1)) as (loop, wrapped):
        state = loop.start()
        started = time.monotonic()
        row = loop.step(state)
        assert row.failed == {2: "no reply within the deadline"}
        assert time.monotonic() - started < 30
        # A second request to the hanging client, and the runtime is closed while it is served.
        runtime = wrapped.inner
        plan = runtime._plan
        model = wire.encode(Message("train", 2, arrays=plan.first), plan.model_layout)
        start(runtime)
        runtime._pool._begin(runtime._pool._workers[0], _Job(2, model, b""), None)
        busy = pids(runtime)
        started = time.monotonic()
    assert time.monotonic() - started < 4
    wait_for(lambda: not any(map(alive, busy)))


def test_closing_twice_is_fine_without_workers_too():
    runtime = inprocess(0)
    runtime.close()
    runtime.close()


@pytest.mark.parametrize(("option", "value"), [("workers", -2), ("threads", 0)])
def test_impossible_options_are_refused(option, value):
    experiment = toy()
    with pytest.raises(InputError, match=rf"^runtime\.{option} must be"):
        InProcess(experiment.plan, experiment.data.load(1), **{option: value})


def published():
    experiment = toy()
    shards = experiment.data.load(experiment.seed)
    return replace(experiment.plan, task=Published(width=experiment.plan.task.width), probes=True), shards


def set_up_all(plan, runtime, mean):
    layout = Protocol.of(plan).request_layouts["statistics"]
    requests = {
        client: wire.encode(Message("statistics", 0, arrays={"mean": np.array([mean + client])}), layout)
        for client in runtime.clients()
    }
    assert all(isinstance(reply, bytes) for reply in runtime.exchange(requests, limits(runtime), 60).values())
    return requests


def losses(plan, runtime):
    arrays = {name: np.zeros_like(array) for name, array in plan.first.items()}
    probe = wire.encode(Message("probe", 1, arrays=arrays), Protocol.of(plan).request_layouts["probe"])
    replies = runtime.exchange(dict.fromkeys(runtime.clients(), probe), limits(runtime), 60)
    return {
        client: wire.decode(reply, None, Protocol.of(plan).report("probe")).report["loss"]
        for client, reply in replies.items()
    }


@pytest.mark.parametrize("workers", [0, 2])
def test_set_ups_are_remembered_apart_and_handed_to_whoever_serves_a_client(workers):
    plan, shards = published()
    with closing(InProcess(plan, shards, workers)) as runtime:
        requests = set_up_all(plan, runtime, 5.0)
        memories = dict(runtime.memories())
        assert memories == {~client: request for client, request in requests.items()}
        assert dict(runtime.memories()) == {}
        expected = losses(plan, runtime)
        if workers:
            for index in range(workers):
                runtime._pool._replace(index)  # whoever comes in their place has prepared nobody's data
            assert losses(plan, runtime) == expected
    with closing(InProcess(plan, shards, workers)) as again:
        assert losses(plan, again) != expected, "none was set up"
    with closing(InProcess(plan, shards, workers)) as again:
        again.restore(memories)
        assert losses(plan, again) == expected
        assert {k: v for k, v in again.memories(changed=False) if k < 0} == memories


# What is large is in memory that a worker and its parent share.

WIDE = {"data": {"name": "helpers.toy:Lines", "width": 1 << 18}, "task": {"name": "helpers.toy:Line", "width": 1 << 18}}
"""A model of a megabyte."""


def probed(runtime, value, workers_killed=False):
    """What clients answer to a probe, and then to its training; limits hold a model."""
    plan, most = runtime._plan, dict.fromkeys(runtime.clients(), 1 << 22)
    arrays = {name: np.full_like(array, value) for name, array in plan.first.items()}
    probe = wire.encode(Message("probe", 1, arrays=arrays), Protocol.of(plan).request_layouts["probe"])
    train = wire.encode(Message("train", 1), Protocol.of(plan).request_layouts["train"])
    replies = [runtime.exchange(dict.fromkeys(runtime.clients(), probe), most, None)]
    if workers_killed:
        for index in range(len(runtime._pool._workers)):
            runtime._pool._replace(index)
    kept = remembered(runtime)
    return [*replies, kept, runtime.exchange(dict.fromkeys(runtime.clients(), train), most, None), remembered(runtime)]


@pytest.mark.slow
def test_large_memories_are_shared_with_workers_and_survive_them():
    with closing(inprocess(0, **WIDE)) as inline:
        expected = probed(inline, 0.001)
    with closing(inprocess(2, **WIDE)) as runtime:
        assert probed(runtime, 0.001) == expected
        assert probed(runtime, 0.001, workers_killed=True) == expected
        assert not any(isinstance(memory, SharedBlock) for memory in runtime._memories.values()), (
            "what is left is small"
        )
        runtime.restore(expected[1])
        assert all(isinstance(memory, SharedBlock) for memory in runtime._memories.values())
        assert remembered(runtime) == expected[1]
        train = wire.encode(Message("train", 1), Protocol.of(runtime._plan).request_layouts["train"])
        requests = dict.fromkeys(runtime.clients(), train)
        assert runtime.exchange(requests, dict.fromkeys(requests, 1 << 22), None) == expected[2]


def test_a_large_memory_is_not_sent_again_to_who_has_it():
    with closing(inprocess(1, **WIDE)) as runtime:
        probed(runtime, 0.001)
        (worker,) = runtime._pool._workers
        assert worker.memories == {}
        plan = runtime._plan
        probe = wire.encode(Message("probe", 1, arrays=plan.first), Protocol.of(plan).request_layouts["probe"])
        runtime.exchange({2: probe}, {2: 1 << 22}, None)
        assert isinstance(runtime._memories[2], SharedBlock)
        assert worker.memories[2] is runtime._memories[2]
        before = remembered(runtime)[2]
        refused = runtime.exchange(
            {2: wire.encode(Message("train", 1), Protocol.of(plan).request_layouts["train"])}, {2: 30}, None
        )
        assert isinstance(refused[2], ClientFailed)
        assert remembered(runtime)[2] == before, "as it was"
        assert worker.memories.get(2) is not runtime._memories[2], "the worker has another one, so it is sent again"
        again = runtime.exchange(
            {2: wire.encode(Message("train", 1), Protocol.of(plan).request_layouts["train"])}, {2: 1 << 22}, None
        )
        assert isinstance(again[2], bytes)


@pytest.mark.parametrize("kind", [Made, MadeOnce])
def test_no_request_is_made_twice(kind):
    made, hello = [], wire.encode(Message("hello", 0))
    with closing(inprocess(2)) as runtime:
        requests = kind(runtime.clients(), lambda client: made.append(client) or hello)
        given = {} if kind is Made else limits(runtime)
        replies = (runtime.measure if kind is Made else runtime.exchange)(requests, given, None)
    assert all(isinstance(reply, bytes) for reply in replies.values())
    assert sorted(made) == [0, 1, 2, 3, 4]


def test_workers_that_are_idle_serve_those_whose_data_they_have():
    with closing(inprocess(2)) as runtime:
        assert all_answer(runtime)
        for client, hello in hellos(runtime).items():
            runtime.exchange({client: hello}, limits(runtime), 60)
        assert sum(len(worker.clients) for worker in runtime._pool._workers) == 5


def test_the_last_clients_wait_for_those_who_have_their_data():
    with closing(inprocess(1)) as runtime:
        pool = runtime._pool
        one, two = (_Worker(None, ready=True, clients=clients) for clients in ({0, 1}, {2, 3, 4}))
        started, pool._workers = pool._workers, [one, two]

        def pick(waiting):
            batch = _Batch(waiting, None)
            return pool._other(one, batch) if (own := pool._own(one, batch)) is None else own

        assert pick([2, 1]) == 1, "its own first"
        assert pick([2, 7]) == 7, "then one that nobody has"
        two.job = _Job(3, b"", b"")
        assert pick([2, 4]) == 2, "two would wait for the other"
        assert pick([2]) is None
        two.job = None
        assert pick([2]) == 2, "nobody is at work"
        pool._workers = started
