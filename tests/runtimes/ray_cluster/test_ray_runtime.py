"""Actors that are lost, what is sent how often, what is said of failures; a Ray of our own. Warnings are errors."""

import os
import signal
from contextlib import closing

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'fedgraft[ray]'")

import ray

from fedgraft import wire
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import FedgraftError
from fedgraft.experiment.running.runner import execute
from fedgraft.runtimes.ray_cluster.actor import ObjectBytes
from fedgraft.runtimes.ray_cluster.ray_runtime import RayRuntime
from fedgraft.runtimes.workers.pool import Pool, _Batch
from fedgraft.wire import Message
from helpers.ray_clusters import local_ray
from helpers.task_runs import ELSEWHERE, on_ray, whole
from helpers.toy_runs import toy

pytestmark = [
    pytest.mark.federation,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""Ray does not close what it has opened."""
WIDE = {"data": {"name": "helpers.toy:Lines", "width": 1 << 18}, "task": {"name": "helpers.toy:Line", "width": 1 << 18}}
"""A model of a megabyte."""


@pytest.fixture(scope="module")
def one():
    """A Ray of two CPUs that this process has initialised."""
    with local_ray():
        yield


def runtime_of(actors=2, shards=None, **changes):
    experiment = toy(**changes)
    return RayRuntime(experiment.plan, shards or experiment.data.load(experiment.seed), actors, 1, "")


def started(runtime):
    """All actors' channels, once they have begun."""
    while not all(worker.ready for worker in runtime._pool._workers):
        runtime._pool._collect(_Batch([], None))
    return [worker.channel for worker in runtime._pool._workers]


def hello(runtime, *clients):
    clients = clients or runtime.clients()
    request = wire.encode(Message("hello", 0))
    replies = runtime.exchange(dict.fromkeys(clients, request), dict.fromkeys(clients, 1000), 60)
    assert all(isinstance(reply, bytes) for reply in replies.values()), replies


def pid_of(channel):
    """The process of an actor that does nothing."""
    return ray.get(channel._actor.__ray_call__.remote(lambda actor: os.getpid()))


@pytest.mark.usefixtures("one")
@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_run_ends_with_the_bits_and_bytes_of_processes(name):
    assert on_ray(name) == whole(name)
    assert ray.is_initialized(), "the caller's Ray is left alone"


@pytest.mark.usefixtures("one")
def test_actors_that_die_at_work_are_replaced_and_the_run_ends_the_same(monkeypatch):
    hand, lost, jobs, handed = Pool._hand, [], [], [0]

    def dying(pool, worker, deadline_seconds):
        handed[0] += 1
        dies = handed[0] in (7, 24) and worker.job not in jobs
        pid = pid_of(worker.channel) if dies else 0
        hand(pool, worker, deadline_seconds)
        if dies:
            jobs.append(worker.job)
            lost.append(pid)
            os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr(Pool, "_hand", dying)
    found = on_ray("node")
    assert len(lost) == 2
    monkeypatch.undo()
    assert found == whole("node")


@pytest.mark.usefixtures("one")
def test_an_actor_that_died_while_it_had_nothing_to_do_is_found_and_takes_no_second_try():
    with closing(runtime_of()) as runtime:
        first = started(runtime)
        hello(runtime)
        for channel in first:
            os.kill(pid_of(channel), signal.SIGKILL)
        hello(runtime, 2)  # alone: what the first has lost may not go to the second, which is dead as well
        hello(runtime)
        assert not {id(channel) for channel in first} & {id(worker.channel) for worker in runtime._pool._workers}


@pytest.mark.slow
@pytest.mark.usefixtures("one")
def test_a_broadcast_is_put_into_the_store_once_and_a_memory_is_not_sent_again(monkeypatch):
    put, puts = ray.put, []
    with closing(runtime_of(**WIDE)) as runtime:
        started(runtime)
        plan = runtime._plan
        probe = wire.encode(Message("probe", 1, arrays=plan.first), Protocol.of(plan).request_layouts["probe"])
        monkeypatch.setattr(ray, "put", lambda value: puts.append(value) or put(value))
        replies = runtime.exchange(dict.fromkeys(range(5), probe), dict.fromkeys(range(5), 1 << 22), None)
        assert all(isinstance(reply, bytes) for reply in replies.values())
        assert len(puts) == 1, "five clients, one object"
        assert all(isinstance(memory, ObjectBytes) for memory in runtime._memories.values())
        before = dict(runtime.memories())
        owners = {client: worker for worker in runtime._pool._workers for client in worker.memories}
        assert sorted(owners) == [0, 1, 2, 3, 4]
        train = wire.encode(Message("train", 1), Protocol.of(plan).request_layouts["train"])
        again = runtime.exchange({2: train}, {2: 1 << 22}, None)
        assert isinstance(again[2], bytes)
        assert len(puts) == 1, "an actor has the memory still"
        runtime.restore(before)
        assert len(puts) == 1
        runtime.exchange({3: train}, {3: 1 << 22}, None)
        assert len(puts) == 2, "a restored memory is sent"


@pytest.mark.usefixtures("one")
def test_what_cannot_be_read_is_one_line():
    class Unreadable:
        def __reduce__(self):
            return _missing, ()

    with closing(runtime_of(shards=Whole([Unreadable()] * 5))) as runtime, pytest.raises(FedgraftError) as caught:
        hello(runtime)
    assert "A Ray actor could not start: its actor failed (ModuleNotFoundError: No module named 'nowhere')" in str(
        caught.value
    )


@pytest.mark.slow
@pytest.mark.usefixtures("one")
def test_shards_that_are_made_when_they_are_asked_for_are_sent_whole(monkeypatch):
    put, puts = ray.put, []
    monkeypatch.setattr(ray, "put", lambda value: puts.append(value) or put(value))
    shards = toy().data.load(1)
    for given, count in ((Whole(shards), 2), (shards, 1 + len(shards))):
        puts.clear()
        with closing(runtime_of(shards=given)) as runtime:
            hello(runtime)
            assert len(puts) == count


@pytest.mark.usefixtures("one")
def test_a_lack_of_memory_in_an_actor_is_told_as_the_machine_s():
    task = {"name": "helpers.toy:Line", "fault": "memory", "faulty_points": 120}
    experiment = toy(task=task, runtime={"name": "ray", "actors": 2})
    said = r"Client 2 could not be served: out of memory .*use fewer runtime\.actors \(there are 2\)"
    with pytest.raises(FedgraftError, match=said):
        execute(experiment)


class Whole:
    """Shards behind no list."""

    def __init__(self, shards):
        self._shards = shards

    def __len__(self):
        return len(self._shards)

    def __getitem__(self, client):
        return self._shards[client]

    def __iter__(self):
        return iter(self._shards)


def _missing():
    import nowhere  # noqa: F401
