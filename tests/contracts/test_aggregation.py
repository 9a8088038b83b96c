"""Every aggregation rule keeps the laws of `fedgraft.testing`; new files of the family are found by themselves."""

from dataclasses import dataclass

import pytest

from fedgraft.contracts import Aggregation
from fedgraft.experiment.recipes import discovery
from fedgraft.testing import aggregation, check_aggregation
from helpers.laws import held

CASES = {
    **{name: (name, {}) for name in discovery.names("aggregation")},
    "krum, one": ("krum", {"multi": False}),
    "krum, none lies": ("krum", {"share": 0.0}),
    "trimmed_mean, nothing": ("trimmed_mean", {"share": 0.0}),
    "trimmed_mean, nearly all": ("trimmed_mean", {"share": 0.49}),
    "geometric_median, one step": ("geometric_median", {"steps": 1}),
}
"""Every rule with its defaults, and with options that change what the laws are about."""


@pytest.mark.parametrize(
    "law",
    held(
        {
            case: aggregation.laws(discovery.find("aggregation", name), **options)
            for case, (name, options) in CASES.items()
        }
    ),
)
def test_keeps_the_law(law):
    law()


@dataclass(frozen=True)
class First(Aggregation):
    """First: only the client of lowest index counts.

    Source: a test. Differs: nothing. Cost: none.
    """

    def apply(self, updates):
        return updates[:1]


def test_a_rule_that_breaks_laws_is_named():
    with pytest.raises(AssertionError, match=r"(?s)sum_to_one.*weights must sum to 1"):
        check_aggregation(First)
