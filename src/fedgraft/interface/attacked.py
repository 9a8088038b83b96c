"""A run's folder, attacked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedgraft.experiment.attacking import attacks
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.experiment.storage.run_folder import RunFolder


def attacked(
    folder: Path, kinds: Sequence[str], canaries: int, data_root: Path | None, allow_changed_data: bool
) -> dict[str, dict[str, Any]]:
    """Return {kind of attack: what came of it}, see `attacks.attacked`."""
    run = FinishedRun(RunFolder.open(folder), data_root, allow_changed_data)
    return attacks.attacked(run, kinds, canaries)
