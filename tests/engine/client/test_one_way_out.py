"""An update leaves a client in one place, and is decoded in one: there noise and a masked sum would go."""

import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from fedgraft.engine.client.local_round import LocalRound
from fedgraft.testing.runs import play, toy

QUANTIZED = {"codec": {"name": "quantized", "bits": 8, "feedback": True}}


def places(pattern: str) -> list[str]:
    """The engine's files with a match, once for each."""
    root = Path(str(resources.files("fedgraft.engine")))
    return [path.name for path in sorted(root.rglob("*.py")) for _ in re.findall(pattern, path.read_text())]


def test_updates_are_made_encoded_and_decoded_once_each() -> None:
    assert places(r"\.local_update\(") == ["local_round.py"]
    assert places(r"uplink\.encode\(") == ["contribution.py"]
    assert places(r"uplink\.decode\(") == ["collecting.py"]


@pytest.mark.parametrize("changes", [{}, QUANTIZED, {"sharing": {"name": "scaffold"}}], ids=["plain", "coded", "two"])
def test_what_happens_to_an_update_there_is_all_that_the_server_learns(changes, monkeypatch) -> None:
    """Zeros in its place: the model stays what it was."""
    sent = LocalRound._sent

    def nothing(self, upload):
        return sent(self, {name: np.zeros_like(array) for name, array in upload.items()})

    changed = play(toy(rounds=2, **changes))
    monkeypatch.setattr(LocalRound, "_sent", nothing)
    hidden = play(toy(rounds=2, **changes))
    assert hidden.digest == play(toy(rounds=4, **changes)).digest != changed.digest
