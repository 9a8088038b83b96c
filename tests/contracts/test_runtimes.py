"""Every runtime keeps the laws of `fedgraft.testing`."""

from collections.abc import Sequence
from typing import Any

import pytest

from fedgraft.contracts import Runtime
from fedgraft.engine.plan import Plan
from fedgraft.runtimes.workers.in_process import InProcess
from fedgraft.testing import runtimes
from fedgraft.testing.laws import Law
from helpers.laws import held


def in_process(plan: Plan, shards: Sequence[Any]) -> Runtime:
    return InProcess(plan, shards, workers=0)


def two_workers(plan: Plan, shards: Sequence[Any]) -> Runtime:
    return InProcess(plan, shards, workers=2)


CASES = {"no workers": runtimes.laws(in_process, deadlines=False), "two workers": runtimes.laws(two_workers)}


@pytest.mark.parametrize("law", held(CASES))
def test_keeps_the_law(law: Law[Any]) -> None:
    law()
