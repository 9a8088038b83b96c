"""How the usual loops are timed: in a process of their own, where nothing is set as our runtime sets it."""

import os

import pytest

from helpers.benchmarks import importable, load


@pytest.fixture(scope="module")
def timing():
    with importable():
        yield load("timing")


class Loop:
    """Notes its rounds, and in which process it was."""

    def __init__(self, file):
        self._file = file

    def round(self, number):
        with self._file.open("a") as notes:
            notes.write(f"{number} {os.getpid()}\n")
        if number > 2:
            raise ValueError("no such round")


@pytest.mark.slow
def test_a_loop_apart_does_its_rounds_in_turn_and_times_itself(timing, tmp_path):
    notes = tmp_path / "notes"
    with timing.Apart(Loop, notes) as apart:
        seconds = timing.in_turns({"apart": apart.round, "here": lambda number: None}, 1)
    assert 0 < seconds["apart"][0] < 1
    rounds = [line.split() for line in notes.read_text().splitlines()]
    assert [number for number, _ in rounds] == ["1", "2"]
    assert {process for _, process in rounds}.isdisjoint({str(os.getpid())})
    assert len({process for _, process in rounds}) == 1


@pytest.mark.slow
def test_a_round_that_fails_apart_fails_here(timing, tmp_path):
    with timing.Apart(Loop, tmp_path / "notes") as apart, pytest.raises(EOFError):
        apart.round(3)


def test_seconds_that_a_variant_tells_are_taken_as_told(timing):
    assert timing.in_turns({"told": lambda number: 5.0 * number}, 2)["told"] == [10.0, 15.0]
