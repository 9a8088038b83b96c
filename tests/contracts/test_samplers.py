"""Every sampler keeps the laws of `fedgraft.testing`; new files of the family are found by themselves."""

import pytest

from fedgraft.experiment.recipes import discovery
from helpers.laws import held
from laws import samplers

CASES = {
    **{name: (name, {}) for name in discovery.names("samplers")},
    "all, refreshing": ("all", {"batches": 3, "refresh": True}),
    "uniform, refreshing": ("uniform", {"batches": 3, "refresh": True}),
    "fedais, uniform": ("fedais", {"importance": False}),
    "fedais, unbiased": ("fedais", {"unbiased": True, "interval": 3, "least": 0}),
    "fedgraph, learning": ("fedgraph", {"start": 2, "hidden": (8, 8), "batch": 2}),
}
"""Every sampler with its defaults, and with options that change what the laws are about."""


@pytest.mark.parametrize(
    "law",
    held({case: samplers.laws(discovery.find("samplers", name), **options) for case, (name, options) in CASES.items()}),
)
def test_keeps_the_law(law):
    law()
