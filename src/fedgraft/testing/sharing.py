"""Laws of sharing methods: alone, and at the clients of a toy task."""

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedgraft import contracts, wire
from fedgraft.contracts.capabilities import CAPABILITIES
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.rounds.refining import Network
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import InputError
from fedgraft.experiment.experiment import Experiment
from fedgraft.testing.comparison import same, travelled
from fedgraft.testing.form import check_form
from fedgraft.testing.laws import Law, Laws, check, expect, expect_error
from fedgraft.testing.runs import Played, Reply, play, toy
from fedgraft.testing.toy import PartedLine
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout

MODEL = {
    "encoder.w": np.array([[1, 2], [3, 4]], np.float32),
    "structure.w": np.array([0.5, -1], np.float32),
    "head.b": np.array([5], np.float32),
}
KEPT = {"optimizer": "adam", "learning_rate": 0.05, "keep_moments": True, "proximal": 0.1}
CLIENTS = 4
HIDDEN, CLASSES = 3, 2
OF_TASKS = (contracts.GraphSharing, contracts.HiddenSharing, contracts.RespondingSharing)
"""Methods that look at more than a model and its losses."""
LINEAR = contracts.Linear("structure.w", "head.b", 2, 1, classes=False)


@dataclass(frozen=True)
class Case:
    """A sharing method by its class and options, as a recipe has it."""

    cls: type[contracts.Sharing[Any]]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> Any:
        """The method, for the hidden layer and the classes that the toy task has, or the linear model of these laws."""
        method = self.cls(**self.options)
        if isinstance(method, contracts.LinearSharing):
            return method.fitted(LINEAR)
        if isinstance(method, contracts.GraphSharing):
            return method.fitted(PartedLine.classes)
        if isinstance(method, contracts.RespondingSharing):
            return method.fitted(HIDDEN)
        return method.fitted(HIDDEN, CLASSES) if isinstance(method, contracts.HiddenSharing) else method

    @property
    def parts(self) -> frozenset[str]:
        """Parts of the task's model that it needs."""
        method: contracts.Sharing[Any] = self.method
        return method.parts if isinstance(method, contracts.PartsSharing) else frozenset()

    @property
    def demands(self) -> bool:
        """True where not every task will do."""
        return bool(self.parts) or issubclass(self.cls, OF_TASKS)

    def toy(self, parted: bool | None = None, **sections: Any) -> Experiment:
        """Return a toy experiment with this method, its model with parts if the method needs any."""
        section = {"name": f"{self.cls.__module__}:{self.cls.__qualname__}", **self.options}
        return toy(self.demands if parted is None else parted, sharing=section, **sections)


LAWS: Laws[Case] = Laws()


def check_sharing(cls: type[contracts.Sharing[Any]], /, **options: Any) -> None:
    """Hold a sharing method to all laws; its class must be at the top of a module, where a recipe could name it.

    Raises `AssertionError` with the class, the law and what was seen.
    """
    check(laws(cls, **options))


def laws(cls: type[contracts.Sharing[Any]], /, **options: Any) -> list[Law[Case]]:
    """Return the laws of a sharing method with these options, to be called one by one."""
    return LAWS.held(cls, lambda: Case(cls, options))


@LAWS.every
def is_frozen_and_documented(case: Case) -> None:
    """Be a frozen dataclass whose documentation names source, state and cost."""
    check_form(case.cls, contracts.Sharing, ("Source:", "Differs:", "State:", "Cost:"))


@LAWS.every
def starts_from_the_given_model(case: Case) -> None:
    """Send to every group what the seed has drawn."""
    method = case.method
    state = method.init(_shared(method), CLIENTS)
    for group in _groups(method, state):
        parameters = _parameters(method, method.model(state, group))
        expect(same(parameters, _shared(method)), f"group {group} must start from the drawn model", parameters)


@LAWS.every
def arrays_that_travel_are_those_of_the_layouts(case: Case) -> None:
    """Send what the layouts say, all of it of known size."""
    method = case.method
    layout = Layout.of(_shared(method))
    down = {spec.name for spec in _downloads(method, layout)}
    expect({spec.name for spec in layout} <= down, "downloads must hold all shared parameters", down)
    slashed = [name for name in down if "/" in name]
    expect(not slashed, "no name may have a slash: stored models have groups before one", slashed)
    for layouts in (_downloads(method, layout), _uploads(method, layout)):
        open_ended = [spec for spec in layouts if VARIABLE in spec.shape]
        expect(not open_ended, "all dimensions must be known: a budget must know how long a message can be", open_ended)


@LAWS.every
def every_array_beside_the_model_says_what_it_tells(case: Case) -> None:
    """Say in the layout, by a word of `contracts.capabilities`, what each array that is no parameter tells."""
    layout = Layout.of(_shared(case.method))
    unsaid = [
        spec.name
        for spec in _uploads(case.method, layout)
        if spec.name not in layout.names and spec.tells not in CAPABILITIES
    ]
    expect(not unsaid, "a Spec must say what its array tells of a client", unsaid)


@LAWS.every
def equal_updates_merge_to_that_update(case: Case) -> None:
    """Make of equal uploads what it makes of one."""
    method = case.method
    one = method.merge(method.init(_shared(method), CLIENTS), _updates(method, [0.5])[:1])
    all_of_them = method.merge(method.init(_shared(method), CLIENTS), _updates(method, [0.5] * CLIENTS))
    alone = method.model(one, _group(method, one, 0))
    for group in _groups(method, all_of_them):
        for key, value in _parameters(method, method.model(all_of_them, group)).items():
            np.testing.assert_allclose(value, alone[key], rtol=1e-6, err_msg=f"{key} of group {group}")


@LAWS.where(lambda cls: cls.merges_means)
def uploads_may_be_added_up_before_they_are_merged(case: Case) -> None:
    """Make of the weighted mean of uploads what it makes of all of them, where it says so."""
    method, g, weights = case.method, np.random.default_rng(0), (0.5, 0.25, 0.25)
    layout = _uploads(method, Layout.of(_shared(method)))
    sent = [{spec.name: g.normal(size=spec.shape).astype(spec.dtype) for spec in layout} for _ in weights]
    pairs = list(zip(weights, sent, strict=True))
    means = {s.name: np.sum([weight * arrays[s.name] for weight, arrays in pairs], axis=0) for s in layout}
    mean = {spec.name: means[spec.name].astype(spec.dtype) for spec in layout}
    state = method.init(_shared(method), CLIENTS)
    together = method.merge(state, [contracts.Update(-1, 1.0, mean)])
    apart = method.merge(state, [contracts.Update(k, *pair) for k, pair in enumerate(pairs)])
    for key, value in method.model(apart).items():
        np.testing.assert_allclose(method.model(together)[key], value, rtol=1e-4, atol=1e-6, err_msg=key)


@LAWS.every
def nothing_given_is_mutated_and_states_survive_the_wire(case: Case) -> None:
    """Return a state that can be stored; leave states, uploads and the drawn model as they are."""
    method = case.method
    model = copy.deepcopy(_shared(method))
    parameters = Layout.of(model)
    layout = _downloads(method, parameters)
    state = method.init(model, CLIENTS)
    for step in range(5):
        updates = _updates(method, np.random.default_rng(step).normal(size=2 + step % 3).tolist())
        before, uploaded = copy.deepcopy(state), copy.deepcopy([update.arrays for update in updates])
        again = travelled(state)
        after = method.merge(state, updates)
        expect(same(state, before), "merge changed the state it was given", state, before)
        expect(same([update.arrays for update in updates], uploaded), "merge changed an upload", updates)
        resumed = method.merge(again, updates)
        expect(same(resumed, after), "a state that is resumed must merge equally", resumed, after)
        expect(same(after, travelled(after)), "the wire must carry the state", after)
        for group in _groups(method, after):
            _check_sent(method, after, group, layout, parameters)
        state = after
    expect(same(model, _shared(method)), "init or merge changed the drawn model", model)


@LAWS.every
def a_model_that_may_be_moved_is_moved_alone(case: Case) -> None:
    """Put other parameters in place of one group's, and leave all else as it was."""
    method = case.method
    if not isinstance(method, contracts.MovableSharing):
        return
    state = method.init(_shared(method), CLIENTS)
    for values in ([1.0, -1.0, 2.0, 0.5], [3.0, 0.1, -2.0, 1.0]):
        state = method.merge(state, _updates(method, values))
    for group in _groups(method, state):
        before = copy.deepcopy(state)
        moved = {name: array + 1 for name, array in _parameters(method, method.model(state, group)).items()}
        after = method.with_model(state, group, moved)
        expect(same(state, before), "with_model changed the state it was given", state, before)
        expect(same(after, travelled(after)), "the wire must carry the state", after)
        for other in _groups(method, state):
            wanted = method.model(state, other)
            wanted = {**wanted, **moved} if other == group else wanted
            found = method.model(after, other)
            expect(same(found, wanted), f"the model of group {other} after group {group}'s was moved", found, wanted)


@LAWS.every
def what_is_refined_can_be_stored_and_repeats_itself(case: Case) -> None:
    """Return a state that can be stored, by the given draws alone; leave what was given as it was."""
    plan = case.toy().plan
    if not isinstance(method := plan.sharing, contracts.RefiningSharing):
        return
    before: Any = method.init(plan.first, CLIENTS)
    updates = _filled(plan.upload_layout, np.random.default_rng(0).normal(size=CLIENTS).tolist())
    network, merged = Network(plan), method.merge(before, updates)
    for seed in (1, 2):
        given = copy.deepcopy((before, merged))
        after = method.refined(before, merged, updates, network, np.random.default_rng(seed))
        expect(same((before, merged), given), "refined changed what it was given", merged, given)
        stored = travelled(before), travelled(merged)
        again = method.refined(*stored, updates, network, np.random.default_rng(seed))
        expect(same(after, again), "equal draws must refine equally", after, again)
        expect(same(after, travelled(after)), "the wire must carry the state", after)
        found = Layout.of(method.model(after))
        expect(found == plan.download_layout, "what is sent must have its layout", found, plan.download_layout)
        before, merged = after, method.merge(after, updates)


@LAWS.every
def some_clients_are_enough(case: Case) -> None:
    """Merge what one of several clients sends."""
    method = case.method
    state = method.init(_shared(method), CLIENTS)
    state = method.merge(state, _updates(method, [1.0] * CLIENTS)[2:3])
    model = method.model(state, _group(method, state, 2))
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


@LAWS.every
def a_task_without_the_parts_is_refused(case: Case) -> None:
    """Name the parts that it needs before a run, or need none."""
    if issubclass(case.cls, contracts.LinearSharing):
        with expect_error(
            InputError, "a model that is not linear must be refused", r"solves for a linear model, which"
        ):
            case.toy(parted=True)
    elif case.demands:
        text = r"needs a task that offers .*, which 'fedgraft\.testing\.toy:Line' with these options does not; it"
        of_nodes = issubclass(case.cls, contracts.GraphSharing)
        seen = "parts of a graph whose nodes are classified" if of_nodes else "what a model makes of .*"
        text = text if case.parts else rf"{seen}, which task Line does not"
        with expect_error(InputError, "a task without the parts must be refused", text):
            case.toy(parted=False)
    else:
        case.toy(parted=False)


def keep_off_the_wire(plan: Plan, played: Played) -> dict[int, Arrays]:
    """Look for every value of every private parameter in every byte sent or received; return {client: parameters}.

    What a method says it needs may be sent by the way, such as a head that clients tell and nobody overwrites.
    """
    private: dict[int, Arrays] = {}
    parts = plan.sharing.parts if isinstance(plan.sharing, contracts.PartsSharing) else frozenset()
    prefixes = tuple(f"{part}." for part in parts)
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


def _check_sent(method: Any, state: Any, group: int, layout: Layout, parameters: Layout) -> None:
    """Look at what a group is sent, and at what it is scored with."""
    model = method.model(state, group)
    expect(Layout.of(model) == layout, "model must return arrays of downloads", Layout.of(model), layout)
    scored = Layout.of({spec.name: model[spec.name] for spec in parameters})
    expect(scored == parameters, "what is scored must have the layout of the shared parameters", scored)
    if isinstance(method, contracts.TrackingSharing):
        before = copy.deepcopy(state)
        after = method.broadcast(state, group, model)
        expect(same(state, before), "broadcast changed the state it was given", state, before)
        expect(same(after, travelled(after)), "the wire must carry what was sent", after)


def _check_learnt(played: Played) -> None:
    first, last = (played.state.curve[place]["validation"] for place in (0, -1))
    expect(last < first, f"the validation error must fall below {first:.4g}", last)


def _shared(method: Any) -> Arrays:
    return {key: value for key, value in MODEL.items() if method.shares(key)}


def _parameters(method: Any, arrays: Arrays) -> Arrays:
    """The shared parameters out of what a group is sent."""
    return {name: arrays[name] for name in _shared(method)}


def _group(method: Any, state: Any, client: int) -> int:
    return method.group(state, client) if isinstance(method, contracts.GroupedSharing) else 0


def _groups(method: Any, state: Any) -> list[int]:
    return sorted({_group(method, state, client) for client in range(CLIENTS)})


def _downloads(method: Any, layout: Layout) -> Layout:
    return method.downloads(layout) if isinstance(method, contracts.ExtendedSharing) else layout


def _uploads(method: Any, layout: Layout) -> Layout:
    return method.uploads(layout) if isinstance(method, contracts.ExtendedSharing) else layout


def _updates(method: Any, values: list[float]) -> list[contracts.Update]:
    """One upload a client, all of its layout and filled with the client's value."""
    return _filled(_uploads(method, Layout.of(_shared(method))), values)


def _filled(layout: Layout, values: list[float]) -> list[contracts.Update]:
    return [
        contracts.Update(client, 1 / len(values), {s.name: np.full(s.shape, value, s.dtype) for s in layout})
        for client, value in enumerate(values)
    ]
