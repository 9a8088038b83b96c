"""Laws of server optimisers: alone, and at the server of a toy task."""

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedgraft.contracts import ServerOptimizer
from fedgraft.engine.server.run_state import RunState
from fedgraft.experiment.job import Job
from fedgraft.testing.comparison import same, travelled
from fedgraft.testing.form import check_form
from fedgraft.testing.laws import Law, Laws, check, expect
from fedgraft.testing.runs import play, toy
from fedgraft.wire.layouts import Arrays

SHAPES = {"weight": (3, 2), "bias": (4,)}


@dataclass(frozen=True)
class Case:
    """A server optimiser by its class and options, as a recipe has it."""

    cls: type[ServerOptimizer[Any]]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> ServerOptimizer[Any]:
        """The server optimiser."""
        return self.cls(**self.options)

    def toy(self) -> Job:
        """Return a toy experiment with it."""
        name = f"{self.cls.__module__}:{self.cls.__qualname__}"
        return toy(server_optimizer={"name": name, **self.options}, rounds=6)


LAWS: Laws[Case] = Laws()


def check_server_optimizer(cls: type[ServerOptimizer[Any]], /, **options: Any) -> None:
    """Hold a server optimiser to all laws; its class must be at the top of a module, where a recipe could name it.

    Raises `AssertionError` with the class, the law and what was seen.
    """
    check(laws(cls, **options))


def laws(cls: type[ServerOptimizer[Any]], /, **options: Any) -> list[Law[Case]]:
    """Return the laws of a server optimiser with these options, to be called one by one."""
    return LAWS.held(cls, lambda: Case(cls, options))


@LAWS.every
def is_frozen_and_documented(case: Case) -> None:
    """Be a frozen dataclass whose documentation names source, state and cost."""
    check_form(case.cls, ServerOptimizer, ("Source:", "Differs:", "State:", "Cost:"))


@LAWS.every
def nothing_given_is_mutated_and_states_survive_the_wire(case: Case) -> None:
    """Return moves of the same form, and a state that can be stored; leave all that is given as it is."""
    model = {name: array.astype(np.float32) for name, array in _drawn(0).items()}
    drawn, state = copy.deepcopy(model), case.method.init(model)
    for number in range(1, 6):
        change = _drawn(number)
        before, given, again = copy.deepcopy(state), copy.deepcopy(change), travelled(state)
        moves, after = case.method.step(state, change)
        expect(same(state, before), "step changed the state it was given", state, before)
        expect(same(change, given), "step changed the change it was given", change)
        form = {name: (array.shape, array.dtype) for name, array in moves.items()}
        wanted = {name: (shape, np.dtype(np.float64)) for name, shape in SHAPES.items()}
        expect(form == wanted, "moves must have the names and shapes of the change, in double precision", form, wanted)
        resumed = case.method.step(again, change)
        expect(same(resumed, (moves, after)), "a state that is resumed must step equally", resumed, after)
        expect(same(after, travelled(after)), "the wire must carry the state", after)
        state = after
    expect(same(model, drawn), "init or step changed the model", model)


@LAWS.every
def the_first_step_goes_the_way_of_the_change(case: Case) -> None:
    """Begin with no direction of its own: move along what was merged, and nowhere where nothing changed."""
    for scale in (1e-6, 1.0, 1e3):
        change = {name: scale * array * (array > -1) for name, array in _drawn(7).items()}
        moves, _ = case.method.step(case.method.init(_zeros()), change)
        for name, move in moves.items():
            expect(bool(np.isfinite(move).all()), f"the move of {name} must be finite", move)
            expect(same(np.sign(move), np.sign(change[name])), f"{name} must move along its change", move)


@LAWS.every
def a_run_learns_and_ends_with_the_same_bits_when_it_is_taken_up(case: Case) -> None:
    """Bring the validation error down, and keep all there is to know in the state."""
    whole = play(case.toy())
    first, last = (whole.state.curve[place]["validation"] for place in (0, -1))
    expect(last < first, f"the validation error must fall below {first:.4g}", last)
    begun = play(case.toy(), stop_after=3)
    stored = RunState.from_tree(travelled(begun.state.to_tree())), begun.memories
    taken_up = play(case.toy(), stored=stored)
    expect(taken_up.digest == whole.digest, "a run that is taken up must end in the same model", taken_up.digest)


def _drawn(seed: int) -> Arrays:
    g = np.random.default_rng(seed)
    return {name: g.standard_normal(shape) for name, shape in SHAPES.items()}


def _zeros() -> Arrays:
    return {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
