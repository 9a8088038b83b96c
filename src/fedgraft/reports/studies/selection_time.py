"""The time that a selector's own work takes in a run: whom to ask, who trains, and what it learns."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.recipes import discovery

TIMED = ("probe", "select", "update")
"""A selector's methods that the loop calls in a round."""


def timed(experiment: Experiment, seconds: list[float]) -> Experiment:
    """Return the experiment with a selector that notes the seconds of each call; it chooses as before."""
    selector = experiment.selector
    base = type(selector)
    calls = {name: _noting(getattr(base, name), seconds) for name in TIMED if hasattr(base, name)}
    return replace(experiment, selector=type(base.__name__, (base,), calls)(**discovery.options_of(selector)))


def _noting(call: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    def noted(*arguments: Any) -> Any:
        began = time.perf_counter()
        result = call(*arguments)
        seconds.append(time.perf_counter() - began)
        return result

    return noted
