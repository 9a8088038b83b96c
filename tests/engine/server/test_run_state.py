"""A run between two rounds: what a checkpoint holds of it, and what that costs."""

import math

from fedgraft import wire
from fedgraft.engine.server.run_state import RunState
from helpers.toy_runs import same


def point(round, **changes):
    whole = {"round": round, "bytes": 10**12 + round, "seconds": 0.1 * round, "validation": 1 / (round + 1)}
    return {**whole, "test": math.nan, "flops": 2**60, "simulated_seconds": 0.3 * round, **changes}


def stored(state):
    """The state as a checkpoint gives it back."""
    return RunState.from_tree(wire.unpack(wire.pack(state.to_tree())))


def test_a_curve_comes_back_to_the_last_bit():
    state = RunState([{"examples": 1.0}], None, curve=[point(0), point(1, lacking=2), point(2)])
    again = stored(state)
    assert same(again.curve, state.curve)
    kinds = [[{name: type(value) for name, value in each.items()} for each in one.curve] for one in (again, state)]
    assert kinds[0] == kinds[1]
    assert same(stored(again).to_tree(), state.to_tree())
    assert stored(RunState([], None)).curve == []


def test_a_curve_grows_between_checkpoints_and_its_last_point_may_change():
    state = RunState([], None)
    for round in range(5):
        state.curve.append(point(round))
        assert same(stored(state).curve, state.curve)
        state.curve[-1]["seconds"] = 99.0 + round
        assert same(stored(state).curve, state.curve)
    state.curve += [point(5), point(6)]
    assert same(stored(state).curve, state.curve)


def test_a_checkpoint_does_not_walk_the_curve():
    class Point(dict):
        reads = 0

        def get(self, *name):
            Point.reads += 1
            return super().get(*name)

    state = RunState([], None, curve=[Point(point(round)) for round in range(1000)])
    state.to_tree()
    Point.reads = 0
    state.curve.append(Point(point(1000)))
    state.to_tree()
    assert Point.reads <= 3 * len(point(0, lacking=1)), "those of the new point, and of the one before"
