"""Every yardstick keeps the laws of `fedgraft.testing`; new files of the family are found by themselves."""

from typing import Any

import pytest

from fedgraft.experiment.recipes import discovery
from fedgraft.testing.laws import Law
from helpers.laws import held
from laws.yardsticks import laws

NAMES = discovery.names("yardsticks")


@pytest.mark.parametrize("law", held({name: laws(discovery.find("yardsticks", name)) for name in NAMES}))
def test_keeps_the_law(law: Law[Any]) -> None:
    law()
