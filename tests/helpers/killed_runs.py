"""Runs that are killed at the n-th write, and what must be equal after a resume."""

import os

import pytest


class Killed(BaseException):
    """What nothing catches, like a kill."""


@pytest.fixture
def dying(monkeypatch):
    """A function that lets the n-th write to disk from now on be the last."""
    fsync = os.fsync

    def arm(at_call):
        calls = 0

        def call(handle):
            nonlocal calls
            calls += 1
            if calls == at_call:
                raise Killed
            fsync(handle)

        monkeypatch.setattr(os, "fsync", call)

    return arm


def measured(summary):
    """A summary without what a clock on the wall measured."""
    curve = [[*point[:2], *point[3:]] for point in summary["curve"]]
    return {**{key: value for key, value in summary.items() if key != "seconds"}, "curve": curve}
