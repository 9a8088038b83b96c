"""Every baseline keeps the laws of `fedgraft.testing`; new files of the family are found by themselves."""

from typing import Any

import pytest

from fedgraft.experiment.recipes import discovery
from fedgraft.testing.laws import Law
from helpers.laws import held
from laws.baselines import laws

NAMES = discovery.names("baselines")
SLOW = [
    f"{name}-scores_are_finite_repeatable_and_no_better_than_the_noise"
    for name in ("boosting", "bpr", "consisrec", "own_boosting", "own_edge_boosting")
]
SLOW += [
    f"{name}-{law}"
    for name in ("own_boosting", "own_edge_boosting")
    for law in ("examples_in_no_split_are_not_scored", "labels_of_the_test_change_nothing_but_its_score")
]


@pytest.mark.parametrize("law", held({name: laws(discovery.find("baselines", name)) for name in NAMES}, SLOW))
def test_keeps_the_law(law: Law[Any]) -> None:
    law()
