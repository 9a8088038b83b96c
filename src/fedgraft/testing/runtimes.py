"""Laws of runtimes: whole runs on toy data, and single messages."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from fedgraft import wire
from fedgraft.contracts import ClientFailed, Runtime, randomness
from fedgraft.contracts.runtime import fingerprint
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.codes import CODES
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.run_state import RunState
from fedgraft.experiment.job import Job
from fedgraft.testing.comparison import travelled
from fedgraft.testing.laws import Law, Laws, check, expect
from fedgraft.testing.runs import SGD, MakeRuntime, Played, Reply, here, play, toy
from fedgraft.wire import Message

REMEMBERING: dict[str, Any] = {
    "rounds": 4,
    "selector": {"name": "power_of_choice", "clients": 3, "candidates": 4},
    "sharing": {"name": "scaffold"},
    "codec": {"name": "quantized", "bits": 8, "rounding": "stochastic", "feedback": True},
    "training": {**SGD, "learning_rate": 0.05, "epochs": 2, "momentum": 0.3, "keep_moments": True},
}
"""Sections of a run in which clients are probed and remember: what messages lost, corrections, momentum."""
NODES: dict[str, Any] = {
    "data": {"name": "blocks", "nodes": 60, "classes": 3, "clients": 3, "features": 8},
    "task": {"name": "node"},
    "exchange": {"neighbours": 3},
    "loss": {"dropout": 0.2},
    "model": {"name": "gcn", "hidden": 8},
    "sampler": {"name": "all", "batches": 2, "refresh": True},
    "training": {"optimizer": "adam", "learning_rate": 0.05, "keep_moments": True, "proximal": 0.1},
    "rounds": 2,
}
"""Sections of a run in which clients publish statistics, and wait for rows of others while they train."""
MASKED: dict[str, Any] = {
    "secure_sum": {"name": "secagg"},
    "codec": {"name": "quantized", "bits": 5, "scale": "agreed", "rounding": "stochastic"},
    "evaluation": {"at": "clients"},
    "training": SGD,
    "rounds": 2,
}
"""Sections of a run in which updates and scores are masked."""
RUNS = {
    "remembering": REMEMBERING,
    "nodes": NODES,
    "masked sums": MASKED,
    "local steps scored": {**REMEMBERING, "evaluation": {"local_steps": True}},
}
ENOUGH = 1 << 20
"""Most bytes of a reply where that does not matter."""
DEADLINE_SECONDS = 2.0
"""How long a client that is late is waited for; others take milliseconds."""


@dataclass(frozen=True)
class Case:
    """A runtime by how it is made, and what it can do; see `check_runtime`."""

    make: MakeRuntime
    deadlines: bool = True
    memories: bool = True

    def fingerprints(self, remembered: Mapping[int, bytes]) -> dict[int, bytes]:
        """Return {client: fingerprint of what it remembers}, from what this runtime tells of memories."""
        return dict(remembered) if not self.memories else _fingerprints(remembered)


LAWS: Laws[Case] = Laws()
DEADLINE_LAWS: Laws[Case] = Laws()
"""Further ones for runtimes that know deadlines."""


def check_runtime(make: MakeRuntime, /, *, deadlines: bool = True, memories: bool = True) -> None:
    """Hold a runtime to all laws.

    Args:
        make: makes the runtime of a plan and every client's shard; called for each law anew.
        deadlines: whether it waits for a client no longer than it is told.
        memories: whether it tells what clients remember; if not, it tells fingerprints of that, and `make` gives
            clients back what they remembered in the runtime before.

    Raises `AssertionError` with the class, the law and what was seen.
    """
    check(laws(make, deadlines=deadlines, memories=memories))


def laws(make: MakeRuntime, /, *, deadlines: bool = True, memories: bool = True) -> list[Law[Case]]:
    """Return the laws of a runtime, to be called one by one; arguments as `check_runtime`."""
    name = getattr(make, "__name__", type(make).__name__)
    families = [LAWS, DEADLINE_LAWS] if deadlines else [LAWS]
    return [law for each in families for law in each.held(Runtime, lambda: Case(make, deadlines, memories), name)]


@LAWS.every
def clients_are_numbered_from_zero_and_closing_twice_is_safe(case: Case) -> None:
    """Tell the clients' indices; take a second `close` for nothing."""
    experiment = toy()
    shards = experiment.shards()
    runtime = case.make(experiment.plan, shards)
    try:
        expect(isinstance(runtime, Runtime), "a runtime must be a fedgraft.contracts.Runtime", type(runtime))
        clients, count = list(runtime.clients()), len(shards)
        expect(clients == list(range(count)), f"clients must be 0 to {count - 1}, ascending", clients)
    finally:
        runtime.close()
    runtime.close()


@LAWS.every
def a_run_ends_as_in_one_process(case: Case) -> None:
    """Carry every message as it is: the same models, bytes, scores and memories to the last bit."""
    for name in RUNS:
        _check_equal(case, name, play(toy(**RUNS[name]), case.make), _expected(name))


@LAWS.every
def a_run_that_is_stopped_and_resumed_ends_the_same(case: Case) -> None:
    """Give all that clients remember by `memories`, and go on from it by `restore`, whichever runtime it came from."""
    others = (here, here) if case.memories else (case.make, case.make)
    for name, (first, second) in {"remembering": (case.make, others[0]), "nodes": (others[1], case.make)}.items():
        experiment = toy(**RUNS[name])
        half = play(experiment, first, stop_after=1)
        tree: Any = travelled(half.state.to_tree())
        rest = play(experiment, second, stored=(RunState.from_tree(tree), half.memories))
        told_by = Case(second, memories=case.memories or second is here)
        _check_equal(told_by, name, rest, _expected(name))


@LAWS.every
def a_reply_beyond_its_limit_fails_that_client_and_changes_no_memory(case: Case) -> None:
    """Refuse what is too long, as if the client had not been asked."""
    with _remembering(case) as (plan, runtime):
        train = _order(plan)
        size = len(_bytes_of(runtime.exchange({1: train}, {1: ENOUGH}, None)[1]))
        before = dict(runtime.memories(changed=False))
        replies = runtime.exchange({0: train, 1: train}, {0: size, 1: size - 1}, None)
        came = isinstance(replies[0], bytes)
        expect(came, f"a reply of {size} bytes must come where so many are allowed", replies[0])
        _check_failed(replies[1])
        after = dict(runtime.memories(changed=False))
        expect(after.get(1) == before[1], "a refused reply must change no memory", after.get(1), before[1])
        expect(0 in after, "the other client must remember", sorted(after))
        again = runtime.exchange({1: train}, {1: ENOUGH}, None)[1]
        expect(isinstance(again, bytes), "a client must be served again after it failed", again)


@LAWS.every
def memories_are_returned_once_after_they_changed_and_restored(case: Case) -> None:
    """Tell, when asked for what changed, of those that changed since the last time, and of all when asked for all."""
    with _remembering(case) as (plan, runtime):
        train = _order(plan)
        runtime.exchange({1: train, 3: train}, dict.fromkeys((1, 3), ENOUGH), None)
        first = dict(runtime.memories())
        expect(sorted(first) == [1, 3], "memories must tell of the clients 1 and 3, which changed", sorted(first))
        again = dict(runtime.memories())
        expect(not again, "memories must tell each change once", sorted(again))
        runtime.exchange({3: train}, {3: ENOUGH}, None)
        changed = dict(runtime.memories())
        expect(sorted(changed) == [3], "memories must tell of client 3, which changed", sorted(changed))
        known = dict(runtime.memories(changed=False))
        expect(known == {**first, **changed}, "memories of all must be those last told", sorted(known), sorted(first))
        runtime.restore(first)
        pending = dict(runtime.memories())
        expect(not pending, "what was restored must not count as changed", sorted(pending))
        memories = dict(runtime.memories(changed=False))
        expect(memories == first, "memories must be what was restored", sorted(memories), sorted(first))
        runtime.exchange({3: train}, {3: ENOUGH}, None)
        memories = dict(runtime.memories())
        expect(memories == changed, "a client must go on from the memory that was restored", sorted(memories))


@LAWS.every
def measuring_is_free_and_changes_nothing(case: Case) -> None:
    """Serve the experimenter: a run that is scored every round ends as one that is scored once, for the same bytes."""
    rarely, often = REMEMBERING["rounds"], play(toy(**REMEMBERING), case.make)
    once = play(toy(**REMEMBERING, evaluation={"every": rarely}))
    expect(len(often.state.curve) > len(once.state.curve), "one run must be scored more often", len(once.state.curve))
    expect(often.digest == once.digest, "scoring must change no model", often.digest, once.digest)
    unchanged = case.fingerprints(often.remembered) == _fingerprints(once.remembered)
    expect(unchanged, "scoring must change no memory", sorted(often.remembered))
    expect(often.charged == once.charged, "scoring must be charged nothing", often.charged, once.charged)
    expect(often.state.flops == once.state.flops, "scoring must count no operations", often.state.flops)


@LAWS.every
def operations_are_returned_of_those_that_computed(case: Case) -> None:
    """Count what clients compute in training, once, and nothing else."""
    counted = []
    for make in (case.make, here):
        with _remembering(Case(make)) as (plan, runtime):
            runtime.flops()
            train = _order(plan)
            runtime.exchange({1: train, 3: train}, dict.fromkeys((1, 3), ENOUGH), None)
            operations = {client: flops for client, flops in runtime.flops().items() if flops}
            both = sorted(operations) == [1, 3]
            expect(both, "operations must be told of the clients 1 and 3, which computed", operations)
            again = {client: flops for client, flops in runtime.flops().items() if flops}
            expect(not again, "operations must be told once", again)
            runtime.measure({1: wire.encode(Message("measure", 1))}, {1: _scored(plan)}, None)
            measured = {client: flops for client, flops in runtime.flops().items() if flops}
            expect(not measured, "a measurement must count no operations", measured)
            counted.append(operations)
    expect(counted[0] == counted[1], "operations must be those that are counted in one process", *counted)


@LAWS.every
def a_client_that_fails_is_named_with_a_reason_or_a_code_and_the_others_go_on(case: Case) -> None:
    """Bring a client's error to the server as its failure."""
    task = {"name": "fedgraft.testing.toy:Line", "fault": "raise", "faulty_points": 120}
    played, expected = (play(toy(task=task), make) for make in (case.make, here))
    for row in played.rows:
        expect(sorted(row.failed) == [2], "client 2, which is broken, must fail alone", row.failed)
        explained = "this client is broken" in row.failed[2] or row.failed[2].startswith(CODES)
        expect(explained, "a failed client must come with its reason or its code", row.failed)
    same = played.digest == expected.digest
    expect(same, f"a run with a failing client must end with the digest {expected.digest}", played.digest)


@DEADLINE_LAWS.every
def a_client_that_is_late_fails_alone(case: Case) -> None:
    """Give up a client that has not replied within the deadline, and take the others' replies."""
    task = {"name": "fedgraft.testing.toy:Line", "fault": "sleep", "faulty_points": 120}
    played = play(toy(task=task, rounds=1), case.make, deadline_seconds=DEADLINE_SECONDS)
    failed = {client: reason for row in played.rows for client, reason in row.failed.items()}
    expect(sorted(failed) == [2], f"client 2, which takes longer than {DEADLINE_SECONDS} s, must fail alone", failed)
    expect(failed[2], "a client that is late must come with a reason", failed)
    expect(2 not in played.remembered, "a client that is late must remember nothing of it", sorted(played.remembered))


@cache
def _expected(name: str) -> Played:
    """The run in one process."""
    return play(toy(**RUNS[name]))


def _check_equal(case: Case, name: str, played: Played, expected: Played) -> None:
    run = f"the run {name!r}"
    expect(played.digest == expected.digest, f"{run} must end with the digest {expected.digest}", played.digest)
    expect(played.charged == expected.charged, f"{run} must take as many bytes", played.charged, expected.charged)
    scores = [{**point, "seconds": 0.0} for point in played.state.curve]
    known = [{**point, "seconds": 0.0} for point in expected.state.curve]
    expect(scores == known, f"{run} must have the same scores and operations", scores, known)
    same = case.fingerprints(played.remembered) == _fingerprints(expected.remembered)
    same = same and _set_ups(played) == _set_ups(expected)
    expect(same, f"clients of {run} must remember the same", sorted(played.memories), sorted(expected.memories))


def _set_ups(played: Played) -> dict[int, bytes]:
    return {client: message for client, message in played.memories.items() if client < 0}


def _fingerprints(remembered: Mapping[int, bytes]) -> dict[int, bytes]:
    return {client: fingerprint(memory) for client, memory in remembered.items()}


@contextmanager
def _remembering(case: Case) -> Iterator[tuple[Plan, Runtime]]:
    """A runtime of five clients that remember, and its plan."""
    experiment: Job = toy(**REMEMBERING)
    shards: Sequence[Any] = experiment.shards()
    runtime = case.make(experiment.plan, shards)
    try:
        yield experiment.plan, runtime
    finally:
        runtime.close()


def _order(plan: Plan) -> bytes:
    """An order to train from the first model."""
    model: Mapping[str, Any] = plan.sharing.model(plan.sharing.init(plan.first, 5), 0)
    g = randomness.generator(0, "law")
    arrays, _ = plan.downlink.encode(dict(model), plan.downlink.init(plan.download_layout), g)
    return wire.encode(Message("train", 1, arrays=arrays), Protocol.of(plan).request_layouts["train"])


def _scored(plan: Plan) -> bytes:
    """The first model, to be scored."""
    return wire.encode(Message("scored", 1, arrays=plan.first), Protocol.of(plan).request_layouts["scored"])


def _bytes_of(reply: Reply) -> bytes:
    assert isinstance(reply, bytes), reply
    return reply


def _check_failed(reply: Reply) -> None:
    failed = isinstance(reply, ClientFailed)
    expect(failed, "a client that failed must be a ClientFailed", reply)
    assert isinstance(reply, ClientFailed)
    expect(isinstance(reply.reason, str) and reply.reason, "a failure must have a reason", reply)
    expect(isinstance(reply.bytes_up, int) and reply.bytes_up >= 0, "bytes_up must be an int >= 0", reply)
