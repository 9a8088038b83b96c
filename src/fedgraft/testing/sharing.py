"""Laws of sharing methods: alone, and at the clients of a toy task."""

import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fedgraft import contracts, wire
from fedgraft.contracts.capabilities import CAPABILITIES
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.run_state import RunState
from fedgraft.experiment.job import Job
from fedgraft.testing.comparison import same, travelled
from fedgraft.testing.form import check_form
from fedgraft.testing.laws import Law, Laws, check, expect
from fedgraft.testing.runs import Played, Reply, play, toy
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout

KEPT = {"optimizer": "adam", "learning_rate": 0.05, "keep_moments": True, "proximal": 0.1}
CLIENTS = 4
LINES = "fedgraft.testing.toy:Lines"


@dataclass(frozen=True)
class Case:
    """A sharing method by its class and options, as a recipe has it, and the toy data that it is tried on."""

    cls: type[contracts.Sharing[Any]]
    options: dict[str, Any] = field(default_factory=dict)
    data: str = LINES

    def toy(self, **sections: Any) -> Job:
        """Return a toy experiment with this method."""
        section = {"name": f"{self.cls.__module__}:{self.cls.__qualname__}", **self.options}
        return toy(**{"sharing": section, "data": {"name": self.data}, **sections})

    @cached_property
    def plan(self) -> Plan:
        """The plan of that experiment."""
        return self.toy().plan

    @property
    def method(self) -> Any:
        """The method, as it is for the task."""
        return self.plan.sharing

    @property
    def shared(self) -> Arrays:
        """The shared parameters of the first model, copied."""
        return copy.deepcopy(self.plan.first)

    def begun(self) -> Any:
        """Return the server's first state."""
        return self.method.init(self.shared, CLIENTS)


LAWS: Laws[Case] = Laws()


def check_sharing(cls: type[contracts.Sharing[Any]], /, *, data: str = LINES, **options: Any) -> None:
    """Hold a sharing method to all laws; its class must be at the top of a module, where a recipe could name it.

    `data` names small data of five clients, as a recipe does, of a task that has what the method needs.
    Raises `AssertionError` with the class, the law and what was seen.
    """
    check(laws(cls, data=data, **options))


def laws(cls: type[contracts.Sharing[Any]], /, *, data: str = LINES, **options: Any) -> list[Law[Case]]:
    """Return the laws of a sharing method with these options, to be called one by one; `data` as `check_sharing`."""
    return LAWS.held(cls, lambda: Case(cls, options, data))


@LAWS.every
def is_frozen_and_documented(case: Case) -> None:
    """Be a frozen dataclass whose documentation names source, state and cost."""
    check_form(case.cls, contracts.Sharing, ("Source:", "Differs:", "State:", "Cost:"))


@LAWS.every
def starts_from_the_given_model(case: Case) -> None:
    """Send to every group what the seed has drawn."""
    method = case.method
    state = case.begun()
    for group in _groups(method, state):
        parameters = _parameters(case, method.model(state, group))
        expect(same(parameters, case.shared), f"group {group} must start from the drawn model", parameters)


@LAWS.every
def arrays_that_travel_are_those_of_the_layouts(case: Case) -> None:
    """Send what the layouts say, all of it of known size."""
    layout = case.plan.model_layout
    down = {spec.name for spec in case.plan.download_layout}
    expect({spec.name for spec in layout} <= down, "downloads must hold all shared parameters", down)
    slashed = [name for name in down if "/" in name]
    expect(not slashed, "no name may have a slash: stored models have groups before one", slashed)
    for layouts in (case.plan.download_layout, case.plan.upload_layout):
        open_ended = [spec for spec in layouts if VARIABLE in spec.shape]
        expect(not open_ended, "all dimensions must be known: a budget must know how long a message can be", open_ended)


@LAWS.every
def every_array_beside_the_model_says_what_it_tells(case: Case) -> None:
    """Say in the layout, by a word of `contracts.capabilities`, what each array that is no parameter tells."""
    layout = case.plan.model_layout
    unsaid = [
        spec.name
        for spec in case.plan.upload_layout
        if spec.name not in layout.names and spec.tells not in CAPABILITIES
    ]
    expect(not unsaid, "a Spec must say what its array tells of a client", unsaid)


@LAWS.every
def equal_updates_merge_to_that_update(case: Case) -> None:
    """Make of equal uploads what it makes of one."""
    method = case.method
    one = method.merge(case.begun(), _updates(case, [0.5])[:1])
    all_of_them = method.merge(case.begun(), _updates(case, [0.5] * CLIENTS))
    alone = method.model(one, method.group(one, 0))
    for group in _groups(method, all_of_them):
        for key, value in _parameters(case, method.model(all_of_them, group)).items():
            np.testing.assert_allclose(value, alone[key], rtol=1e-6, err_msg=f"{key} of group {group}")


@LAWS.where(lambda cls: cls.merges_means)
def uploads_may_be_added_up_before_they_are_merged(case: Case) -> None:
    """Make of the weighted mean of uploads what it makes of all of them, where it says so."""
    method, g, weights = case.method, np.random.default_rng(0), (0.5, 0.25, 0.25)
    layout = case.plan.upload_layout
    sent = [{spec.name: g.normal(size=spec.shape).astype(spec.dtype) for spec in layout} for _ in weights]
    pairs = list(zip(weights, sent, strict=True))
    means = {s.name: np.sum([weight * arrays[s.name] for weight, arrays in pairs], axis=0) for s in layout}
    mean = {spec.name: means[spec.name].astype(spec.dtype) for spec in layout}
    state = case.begun()
    together = method.merge(state, [contracts.Update(-1, 1.0, mean)])
    apart = method.merge(state, [contracts.Update(k, *pair) for k, pair in enumerate(pairs)])
    for key, value in method.model(apart).items():
        np.testing.assert_allclose(method.model(together)[key], value, rtol=1e-4, atol=1e-6, err_msg=key)


@LAWS.every
def nothing_given_is_mutated_and_states_survive_the_wire(case: Case) -> None:
    """Return a state that can be stored; leave states, uploads and the drawn model as they are."""
    method, model = case.method, case.shared
    state = method.init(model, CLIENTS)
    for step in range(5):
        updates = _updates(case, np.random.default_rng(step).normal(size=2 + step % 3).tolist())
        before, uploaded = copy.deepcopy(state), copy.deepcopy([update.arrays for update in updates])
        again = travelled(state)
        after = method.merge(state, updates)
        expect(same(state, before), "merge changed the state it was given", state, before)
        expect(same([update.arrays for update in updates], uploaded), "merge changed an upload", updates)
        resumed = method.merge(again, updates)
        expect(same(resumed, after), "a state that is resumed must merge equally", resumed, after)
        expect(same(after, travelled(after)), "the wire must carry the state", after)
        for group in _groups(method, after):
            _check_sent(case, after, group)
        state = after
    expect(same(model, case.shared), "init or merge changed the drawn model", model)


@LAWS.having(contracts.MovableSharing)
def a_model_that_may_be_moved_is_moved_alone(case: Case) -> None:
    """Put other parameters in place of one group's, and leave all else as it was."""
    method = case.method
    state = case.begun()
    for values in ([1.0, -1.0, 2.0, 0.5], [3.0, 0.1, -2.0, 1.0]):
        state = method.merge(state, _updates(case, values))
    for group in _groups(method, state):
        before = copy.deepcopy(state)
        moved = {name: array + 1 for name, array in _parameters(case, method.model(state, group)).items()}
        after = method.with_model(state, group, moved)
        expect(same(state, before), "with_model changed the state it was given", state, before)
        expect(same(after, travelled(after)), "the wire must carry the state", after)
        for other in _groups(method, state):
            wanted = method.model(state, other)
            wanted = {**wanted, **moved} if other == group else wanted
            found = method.model(after, other)
            expect(same(found, wanted), f"the model of group {other} after group {group}'s was moved", found, wanted)


@LAWS.every
def some_clients_are_enough(case: Case) -> None:
    """Merge what one of several clients sends."""
    method = case.method
    state = case.begun()
    state = method.merge(state, _updates(case, [1.0] * CLIENTS)[2:3])
    model = method.model(state, method.group(state, 2))
    expect(all(np.isfinite(value).all() for value in model.values()), "the model must be finite", model)


@LAWS.every
def learns_and_keeps_private_names_off_the_wire(case: Case) -> None:
    """Bring the validation error down, and send nothing that it says does not travel."""
    experiment = case.toy(rounds=4)
    played = play(experiment)
    failed = [dict(row.failed) for row in played.rows if row.failed]
    expect(not failed, "no client may fail", failed)
    _check_learnt(played)
    keep_off_the_wire(experiment.plan, played)


@LAWS.every
def partial_cohorts_failures_and_lossy_messages_are_survived(case: Case) -> None:
    """Bring the validation error down, with some clients in a round, some replies spoilt, all messages rounded."""
    selector, codec = {"name": "random", "clients": 3}, {"name": "quantized", "bits": 8}
    experiment = case.toy(rounds=6, selector=selector, codec=codec)

    def tamper(kind: str, round: int, client: int, reply: Reply) -> Reply:
        return b"not a message" if kind == "train" and client == round % 5 else reply

    played = play(experiment, tamper=tamper)
    _check_learnt(played)
    for memory in played.remembered.values():
        expect(wire.pack(wire.unpack(memory)) == memory, "the wire must carry what a client remembers", memory)


@LAWS.every
def two_runs_are_equal_to_the_last_bit(case: Case) -> None:
    """Depend on the seed alone."""
    one, other = play(case.toy()), play(case.toy())
    expect(same(one.state.sharing, other.state.sharing), "equal runs must end in equal states", other.state.sharing)
    expect(one.remembered == other.remembered, "clients of equal runs must remember the same", other.remembered)


@LAWS.every
def a_run_that_is_stopped_and_taken_up_ends_with_the_same_bits(case: Case) -> None:
    """Keep all there is to know in state and memories, also where clients keep their optimisers' moments."""
    whole = play(case.toy(rounds=4, training=KEPT))
    begun = play(case.toy(rounds=4, training=KEPT), stop_after=2)
    stored = RunState.from_tree(travelled(begun.state.to_tree())), begun.memories
    taken_up = play(case.toy(rounds=4, training=KEPT), stored=stored)
    expect(taken_up.digest == whole.digest, "a run that is taken up must end in the same models", taken_up.digest)
    expect(taken_up.memories == whole.memories, "clients must remember the same", taken_up.memories)


@LAWS.every
def local_steps_that_are_scored_leave_no_trace(case: Case) -> None:
    """Train no differently where clients also try, wherever a model is scored, what comes of local steps from it."""
    for at in ("server", "clients"):
        plain = play(case.toy(training=KEPT, evaluation={"at": at}))
        tried = play(case.toy(training=KEPT, evaluation={"at": at, "local_steps": True}))
        expect(tried.digest == plain.digest, "trying local steps must change no model", tried.digest, plain.digest)
        expect(tried.memories == plain.memories, "trying local steps must change no memory", sorted(tried.memories))
        scores = [point["validation_after_steps"] for point in tried.state.curve]
        expect(bool(np.isfinite(scores).all()), "every round must be scored after local steps", scores)


def keep_off_the_wire(plan: Plan, played: Played) -> dict[int, Arrays]:
    """Look for every value of every private parameter in every byte sent or received; return {client: parameters}.

    What a method says it needs may be sent by the way, such as a head that clients tell and nobody overwrites.
    """
    private: dict[int, Arrays] = {}
    prefixes = tuple(f"{part}." for part in plan.sharing.parts)
    messages = [
        each for each in [*played.sent, *played.received] if not isinstance(each.message, contracts.ClientFailed)
    ]
    for client, memory in played.remembered.items():
        tree: Any = wire.unpack(memory)
        kept: Arrays = tree.get("private", {})
        travelling = [name for name in kept if plan.travels(name)]
        expect(not travelling, "what is kept at a client must not be what travels", travelling)
        private[client] = kept
        for name, array in kept.items():
            if prefixes and name.startswith(prefixes):
                continue
            for each in messages:
                assert isinstance(each.message, bytes)
                where = f"{name} of client {client}, which travelled in {each.kind} of round {each.round}"
                expect(name.encode() not in each.message, "no message may name what is private", where)
                expect(array.tobytes() not in each.message, "no message may hold what is private", where)
    return private


def _check_sent(case: Case, state: Any, group: int) -> None:
    """Look at what a group is sent, and at what it is scored with."""
    method, layout, parameters = case.method, case.plan.download_layout, case.plan.model_layout
    model = method.model(state, group)
    expect(Layout.of(model) == layout, "model must return arrays of downloads", Layout.of(model), layout)
    scored = Layout.of({spec.name: model[spec.name] for spec in parameters})
    expect(scored == parameters, "what is scored must have the layout of the shared parameters", scored)
    if method.tracks:
        before = copy.deepcopy(state)
        after = method.broadcast(state, group, model)
        expect(same(state, before), "broadcast changed the state it was given", state, before)
        expect(same(after, travelled(after)), "the wire must carry what was sent", after)


def _check_learnt(played: Played) -> None:
    first, last = (played.state.curve[place]["validation"] for place in (0, -1))
    expect(last < first, f"the validation error must fall below {first:.4g}", last)


def _parameters(case: Case, arrays: Arrays) -> Arrays:
    """The shared parameters out of what a group is sent."""
    return {name: arrays[name] for name in case.plan.first}


def _groups(method: Any, state: Any) -> list[int]:
    return sorted({method.group(state, client) for client in range(CLIENTS)})


def _updates(case: Case, values: list[float]) -> list[contracts.Update]:
    return filled(case.plan.upload_layout, values)


def filled(layout: Layout, values: list[float]) -> list[contracts.Update]:
    """Return one upload a client, all of its layout and filled with the client's value."""
    return [
        contracts.Update(client, 1 / len(values), {s.name: np.full(s.shape, value, s.dtype) for s in layout})
        for client, value in enumerate(values)
    ]
