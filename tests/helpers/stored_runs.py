"""Run folders that are changed by hand, as accidents, other versions or strangers leave them."""

import pytest

from fedgraft import wire
from fedgraft.errors import Interrupted
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage.disk import encrypted, unsealed

QUICK = {"rounds": 4, "checkpoint": {"every_seconds": 0}}
"""Options of a run that `stopped` ends half-way."""


class Stops:
    """Ends a run after a round."""

    def __init__(self, round=2):
        self.round = round

    def after_round(self, state, row):
        if row.round == self.round:
            raise Interrupted("enough")


def stopped(folder, experiment):
    """Run an experiment into a folder, up to its second round."""
    with pytest.raises(Interrupted):
        execute(experiment, folder, Stops())
    return folder


def state_file(folder):
    """Where a run's state is."""
    return folder / "checkpoint" / "state.bin"


def unpacked(folder):
    """What a run's state.bin holds."""
    return wire.unpack(unsealed(state_file(folder).read_bytes()))


def repack(folder, tree):
    """Put other content into state.bin, with the fingerprint that fits it."""
    state_file(folder).write_bytes(encrypted(wire.pack(tree)))
