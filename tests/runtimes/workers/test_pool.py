"""Workers that are lost: what they were at is done again to the same bits, or the run ends and says why."""

import os
import re
import signal
from contextlib import closing, contextmanager

import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.errors import MachineError
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.runtimes.workers.in_process import InProcess
from fedgraft.runtimes.workers.pool import LATE, Pool, _Batch, _Job
from fedgraft.runtimes.workers.shared_memory import view_of
from fedgraft.runtimes.workers.starting import STARTS
from fedgraft.wire import Message
from helpers.killed_runs import measured
from helpers.node_runs import OFTEN, SMALL
from helpers.tiny import TINY
from helpers.toy_runs import looped, remembered, run, same, toy

GRAPHS = {
    "data.name": "molecules",
    "data.clients": 4,
    "data.graphs": 20,
    "model.hidden": 8,
    "sharing.probability": 0.5,
    "rounds": 5,
    "baselines": [],
}
NODES = {
    **SMALL,
    **OFTEN,
    "rounds": 3,
    "training.optimizer": "adam",
    "exchange.neighbours": 3,
    "loss.dropout": 0.2,
    "rows": {"name": "quantized", "bits": 6, "rounding": "stochastic"},
    "codec": "identity",
    "downlink": "identity",
    "sharing.name": "scaffold",
}
RUNS = {
    "rating": ("fedacs", {**TINY, "rounds": 5}, 5),
    "graph": ("cefgl", GRAPHS, 5),
    "node, what changed": ("fedais", NODES, 13),
    "node, what is asked for": (
        "fedall",
        {**SMALL, "rounds": 1, "training.epochs": 3, "training.optimizer": "adam"},
        13,
    ),
    "node, scored at clients": ("fedais", {**NODES, "evaluation.at": "clients", "evaluation.every": 1}, 13),
}
"""Recipe, changes, and every which request is lost."""


def results(folder, summary):
    """All of a run that may not depend on what was lost on the way."""
    state, memories = RunFolder.open(folder).load()
    ledger, model = (folder / "ledger.jsonl").read_text(), (folder / "model.safetensors").read_bytes()
    return [measured(summary), ledger, model, memories, {**state.to_tree(), "seconds": 0, "curve": 0}]


def kill(worker):
    worker.channel.process.kill()
    worker.channel.process.join()


@pytest.fixture
def killing(monkeypatch):
    """A function that has every n-th request lost with its worker, each at most once; its list tells of what kind."""
    hand, lost, jobs, handed = Pool._hand, [], [], [0]

    def arm(every):
        def dying(pool, worker, deadline_seconds):
            handed[0] += 1
            if handed[0] % every == 0 and worker.job not in jobs:
                jobs.append(worker.job)
                lost.append((wire.kind_of(view_of(worker.job.request)), len(worker.anew)))
                kill(worker)
            hand(pool, worker, deadline_seconds)

        monkeypatch.setattr(Pool, "_hand", dying)
        return lost

    return arm


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_loses_workers_again_and_again_ends_with_the_same_bits(tmp_path, killing, name):
    recipe, changes, every = RUNS[name]
    whole = results(tmp_path / "whole", execute(load(recipe, {**changes, "runtime.workers": 0}), tmp_path / "whole"))
    lost = killing(every)
    summary = execute(load(recipe, {**changes, "runtime.workers": 2}), tmp_path / "run")
    assert len(lost) >= 5
    assert summary["failures"] == dict.fromkeys(("setup", "probe", "training", "scoring"), 0)
    found = results(tmp_path / "run", summary)
    assert [same(one, other) for one, other in zip(found, whole, strict=True)] == [True] * len(whole)


@pytest.mark.slow
def test_rounds_that_waited_in_a_lost_worker_are_served_anew(tmp_path, killing):
    changes = {**NODES, "rounds": 1}
    whole = results(tmp_path / "whole", execute(load("fedais", changes), tmp_path / "whole"))
    lost = killing(5)
    found = results(tmp_path / "run", execute(load("fedais", {**changes, "runtime.workers": 1}), tmp_path / "run"))
    assert any(kind == "rows" for kind, _ in lost)
    assert any(anew for _, anew in lost), "killed again while a round was served anew"
    assert [same(one, other) for one, other in zip(found, whole, strict=True)] == [True] * len(whole)


def broken(fault, tally, times=0, at="training"):
    """A task that client 2 takes its worker with, so many times in all."""
    options = {"name": "helpers.toy:Line", "faulty_points": 120, "fault": fault, "at": at}
    return {**options, "times": times, "tally": str(tally)} if times else options


@pytest.mark.parametrize("at", ["training", "scoring"])
@pytest.mark.parametrize("fault", ["kill", "die", "memory", "torch"])
def test_a_client_that_takes_its_worker_with_it_once_is_served_again(tmp_path, fault, at):
    expected, rows, wrapped = run(toy())
    task = broken(fault, tmp_path / "tally", 1, at)
    state, again, runtime = run(toy(task=task, runtime={"workers": 2}))
    assert (tmp_path / "tally").read_text() == "x"
    assert same(state.sharing, expected.sharing)
    assert [(row.failed, row.validation, row.bytes) for row in again] == [
        ({}, row.validation, row.bytes) for row in rows
    ]
    assert remembered(runtime) == remembered(wrapped)


ENDS = {
    "kill": r"its worker process was killed \(signal 9, SIGKILL; so a system ends what takes too much memory\)",
    "die": r"its worker process ended \(exit code 9\)",
    "memory": r"out of memory \(Unable to allocate 1\.00 EiB [^)]*\)[^)]*\)",
    "torch": r"out of memory \([^;]*DefaultCPUAllocator: [^;]* memory[^;]*\)",
}
SOME = {"name": "helpers.toy_methods:Scripted", "cohorts": [[0, 1], [0, 2], [1, 2]]}
STORED = {"selector": SOME, "checkpoint": {"every_seconds": 0}}
"""Client 2 trains from the second round on, after a checkpoint."""


@pytest.mark.parametrize("fault", ENDS)
def test_what_is_lost_twice_ends_the_run_and_its_checkpoint_goes_on(tmp_path, fault):
    whole = execute(toy(**STORED), tmp_path / "whole")
    folder, task = tmp_path / "run", broken(fault, tmp_path / "tally", 2)
    with pytest.raises(MachineError) as caught:
        execute(toy(**STORED, task=task, runtime={"workers": 2}), folder)
    how, said = ENDS[fault], str(caught.value)
    again = "; and when that was done again in another worker, with no other at work: "
    what = r"\. Where memory ran out, use fewer runtime\.workers \(there are 2\) or a machine with more\. "
    go_on = f"The last checkpoint is intact: continue with 'fedgraft resume {folder}', where "
    assert re.fullmatch(f"Client 2 could not be served: {how}{again}{how}{what}{go_on}.*", said)
    assert "\n" not in said
    assert RunFolder.open(folder).load()[0].round == 1
    assert measured(resume(folder)) == measured(whole)


@pytest.mark.parametrize("fault", ["memory", "torch"])
def test_with_no_worker_too_little_memory_ends_the_run_at_once(tmp_path, fault):
    whole = execute(toy(**STORED), tmp_path / "whole")
    folder, task = tmp_path / "run", broken(fault, tmp_path / "tally", 1)
    with pytest.raises(MachineError, match=rf"^Client 2 could not be served: {ENDS[fault]}\. The last checkpoint is"):
        execute(toy(**STORED, task=task), folder)
    assert measured(resume(folder)) == measured(whole)


def test_a_run_that_cannot_begin_leaves_nothing_to_go_on_with(tmp_path):
    task = broken("memory", None, at="scoring")
    with pytest.raises(MachineError, match=r"Unable to allocate 1\.00 EiB .*uint8\)\.$"):
        execute(toy(task=task), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --- a pool by itself -------------------------------------------------------------------------------------------------


@contextmanager
def served(recipe, changes, workers):
    """A loop over a runtime with workers, and its pool."""
    experiment = load(recipe, {**changes, "runtime.workers": workers})
    shards = experiment.data.load(experiment.seed)
    with looped(experiment.fitted(shards), shards=shards) as (loop, runtime):
        yield loop, runtime.inner._pool


def ready(pool):
    while not all(worker.ready for worker in pool._workers):
        pool._collect(_Batch([], None))


def test_what_is_done_again_waits_until_nobody_else_is_at_work():
    with closing(inprocess(toy(), 2)) as runtime:
        pool = runtime._pool
        ready(pool)
        one, two = pool._workers
        batch = _Batch([3, 4], None, lost={3: (_Job(3, b"", b""), "killed")})
        two.job = _Job(1, b"", b"")
        assert pool._own(one, batch) is None
        assert pool._other(one, batch) == 4
        batch.waiting = [3]
        assert pool._other(one, batch) is None
        two.job = None
        assert pool._other(one, batch) == 3


def inprocess(experiment, workers):
    return InProcess(experiment.plan, experiment.data.load(experiment.seed), workers)


def hello(runtime, deadline_seconds=None):
    requests = dict.fromkeys(runtime.clients(), wire.encode(Message("hello", 0)))
    return runtime.measure(requests, {}, deadline_seconds)


def test_a_worker_that_is_killed_while_it_starts_is_started_again():
    with closing(inprocess(toy(), 1)) as runtime:
        for _ in range(STARTS - 1):
            kill(runtime._pool._workers[0])
            runtime._pool._collect(_Batch([], None))
        assert all(isinstance(reply, bytes) for reply in hello(runtime).values())


def test_a_worker_that_is_always_killed_while_it_starts_ends_the_run():
    with closing(inprocess(toy(), 1)) as runtime:
        for start in range(STARTS):
            kill(runtime._pool._workers[0])
            if start < STARTS - 1:
                runtime._pool._collect(_Batch([], None))
        with pytest.raises(MachineError, match=r"could not start: its worker process was killed \(signal 9"):
            runtime._pool._collect(_Batch([], None))


def test_a_worker_that_is_lost_with_nothing_to_do_costs_nothing():
    with closing(inprocess(toy(), 2)) as runtime:
        expected = hello(runtime)
        for worker in runtime._pool._workers:
            kill(worker)
        assert hello(runtime) == expected


def test_a_stopped_worker_is_given_up_at_the_deadline_in_scoring_as_well():
    with closing(inprocess(toy(), 2)) as runtime:
        ready(runtime._pool)
        stopped = runtime._pool._workers[0]
        os.kill(stopped.channel.process.pid, signal.SIGSTOP)
        replies = hello(runtime, 1.0)
        late = [client for client, reply in replies.items() if reply == ClientFailed(LATE)]
        assert len(late) == 1
        assert all(isinstance(reply, bytes) for client, reply in replies.items() if client not in late)
        assert not stopped.channel.process.is_alive()


def test_a_client_that_replies_something_else_when_it_is_served_anew_is_found_out(monkeypatch):
    begin, killed = Pool._begin, []

    def altered(pool, worker, job, deadline_seconds):
        for steps in pool._paused.values():
            steps[:] = [step._replace(reply=b"another") for step in steps]
        if pool._paused and not killed:
            killed.append(kill(worker))
        begin(pool, worker, job, deadline_seconds)

    with served("fedais", NODES, 1) as (loop, _):
        state = loop.start()
        monkeypatch.setattr(Pool, "_begin", altered)
        with pytest.raises(
            MachineError, match=r"served anew .* and replied something else: what it computes depends on"
        ):
            loop.step(state)


def test_of_a_round_that_ended_nothing_is_kept_to_serve_it_anew():
    with served("fedais", NODES, 2) as (loop, pool):
        state = loop.start()
        loop.step(state)
        assert pool._paused == {}
        assert not any(worker.holding for worker in pool._workers)
