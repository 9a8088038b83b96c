"""Losses: what training makes small."""

from typing import Any

PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "focal": ("cross_entropy", {"focal": 2.0}),
    "huber": ("squared_error", {"huber": 1.0}),
}
"""The losses of Lin et al., ICCV 2017, and of Huber, 1964."""
