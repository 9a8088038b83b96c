"""Every yardstick keeps the laws of `fedgraft.testing`; new files of the family are found by themselves."""

from typing import Any

import pytest

from fedgraft.experiment.recipes import discovery
from fedgraft.testing import yardsticks
from fedgraft.testing.laws import Law
from helpers.laws import held

NAMES = discovery.names("yardsticks")


@pytest.mark.parametrize("law", held({name: yardsticks.laws(discovery.find("yardsticks", name)) for name in NAMES}))
def test_keeps_the_law(law: Law[Any]) -> None:
    law()
