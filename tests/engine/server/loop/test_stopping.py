"""The terms of a run: when it ends, and how much of it is over."""

import pytest

from fedgraft.engine.plan import PROGRESS_STEPS
from fedgraft.engine.server.loop.stopping import Evaluation, Stopping
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import InputError
from helpers.toy_runs import SGD, run, toy


def test_rounds_end_a_run():
    state, rows, _ = run(toy(rounds=4))
    assert (state.round, state.finished, len(rows)) == (4, "rounds", 4)
    assert [point["round"] for point in state.curve] == [0, 1, 2, 3, 4]


def test_simulated_seconds_end_a_run():
    clock = {"latency_seconds": 1.0, "spread": 0.0}
    state, rows, _ = run(toy(rounds=50, clock=clock, budget={"seconds": 2.5}))
    assert (state.round, state.finished) == (3, "seconds")
    assert 3 < state.simulated_seconds < 3.1
    assert rows[-1].simulated_seconds == state.simulated_seconds


def test_patience_ends_a_run():
    diverging = {**SGD, "learning_rate": 1.2}
    state, _, _ = run(toy(rounds=50, training=diverging, patience=3))
    assert (state.round, state.finished, state.best["round"]) == (3, "patience", 0)
    state, _, _ = run(toy(rounds=50, training=diverging, patience=3, evaluation={"every": 2}))
    assert (state.round, len(state.curve)) == (6, 4), "patience counts scores, not rounds"


def test_patience_counts_scores_since_the_best_and_looks_at_no_more():
    def state(*rounds, best):
        curve = [{"round": round} if round >= 0 else {"round": -round, "lacking": 1} for round in rounds]
        return RunState([], None, round=9, best={"round": best}, curve=curve)

    stopping = Stopping(rounds=10, patience=3)
    assert stopping.reached(state(0, 1, 2, 3, 4, best=1)) == "patience"
    assert stopping.reached(state(0, 1, 2, 3, 4, best=2)) == ""
    assert stopping.reached(state(0, 1, 2, -3, 4, best=1)) == "", "rounds without a score do not count"
    assert stopping.reached(state(0, 2, 4, -5, 6, 8, best=2)) == "patience"
    assert Stopping(rounds=10).reached(state(0, 1, 2, 3, 4, best=0)) == ""
    seen = state(*range(1000), best=990)
    seen.curve[:-9] = [{}] * (len(seen.curve) - 9)  # nothing to look at
    assert stopping.reached(seen) == "patience"


def test_impossible_limits_are_refused():
    for option in ("bytes", "seconds", "patience"):
        with pytest.raises(InputError, match=rf"{option} must be >= 0"):
            Stopping(**{option: -1})
    with pytest.raises(InputError, match="rounds must be >= 1"):
        Stopping(rounds=0)
    with pytest.raises(InputError, match=r"evaluation\.every must be >= 1"):
        Evaluation(every=0)


def test_progress_follows_the_nearest_limit():
    state = RunState([{"examples": 4.0}], None, round=3, bytes={"down": 300, "up": 300}, simulated_seconds=7.0)
    assert Stopping(rounds=7).progress(state) == pytest.approx(0.5)
    assert Stopping(rounds=7, bytes=800).progress(state) == pytest.approx(0.75)
    assert Stopping(rounds=7, bytes=800, seconds=8.0).progress(state) == pytest.approx(7 / 8)
    assert Stopping(rounds=1).progress(state) == 1.0


def progress_of(**changes):
    """What every training request said of it, one a round."""
    _, rows, runtime = run(toy(**changes))
    messages = {round: message for kind, round, _, message in runtime.sent if kind == "train"}
    shares = [int.from_bytes(messages[round][6:8], "little") / PROGRESS_STEPS for round in sorted(messages)]
    return shares, rows


def test_progress_is_the_share_of_the_rounds_without_a_budget():
    shares, _ = progress_of(rounds=5)
    assert shares == pytest.approx([0, 0.25, 0.5, 0.75, 1], abs=1e-4)
    assert progress_of(rounds=1)[0] == [0]


def test_progress_follows_the_limit_that_is_nearest():
    shares, rows = progress_of(rounds=1000, budget={"bytes": 5000})
    assert shares[0] == pytest.approx(220 / 5000, abs=1e-4)
    assert shares[1:] == pytest.approx([row.bytes_total / 5000 for row in rows[:-1]], abs=1e-4)
    shares, rows = progress_of(rounds=1000, budget={"seconds": 2.0}, clock={"latency_seconds": 0.5})
    assert shares[1:] == pytest.approx([row.simulated_seconds / 2 for row in rows[:-1]], abs=1e-4)
    assert all(0 <= share <= 1 for share in shares)


def test_a_byte_budget_ends_a_run_before_it_is_exceeded():
    spent = run(toy(rounds=2))[0].bytes
    two_rounds = spent["down"] + spent["up"]
    state, rows, _ = run(toy(rounds=50, budget={"bytes": 3 * two_rounds}))
    assert state.finished == "budget"
    assert 3 <= len(rows) < 50
    assert state.bytes["down"] + state.bytes["up"] <= 3 * two_rounds
