"""A view of equal clients, any part of which a test may replace."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedgraft.contracts import Outcome, Timing, View


@pytest.fixture
def view() -> Callable[..., View]:
    def make(clients: int = 4, **given: Any) -> View:
        parts: dict[str, Any] = {
            "round": 1,
            "samples": [10] * clients,
            "bytes_per_client": [100] * clients,
            "bytes_per_probe": [60] * clients,
            "seconds": [1.0] * clients,
            "available": [True] * clients,
            "rounds": 100,
            **given,
        }
        for name in ("samples", "bytes_per_client", "bytes_per_probe"):
            parts[name] = np.array(parts[name], dtype=np.int64)
        parts["seconds"] = np.array(parts["seconds"], dtype=np.float64)
        parts["available"] = np.array(parts["available"], dtype=np.bool_)
        return View(**parts)

    return make


@pytest.fixture
def outcome() -> Callable[..., Outcome]:
    def make(selected: tuple[int, ...], **given: Any) -> Outcome:
        parts: dict[str, Any] = {
            "reports": {k: {} for k in selected},
            "failed": {},
            "score": None,
            "bytes": 100 * len(selected),
            **given,
        }
        seconds = parts.pop("seconds", dict.fromkeys(selected, 1.0))
        parts.setdefault("timings", {client: Timing(total, 0.0) for client, total in seconds.items()})
        return Outcome(selected=selected, **parts)

    return make


@pytest.fixture
def g() -> np.random.Generator:
    return np.random.default_rng(0)
