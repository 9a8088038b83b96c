"""What goes with secure sums is built; what needs to see each client's update is refused, with a remedy."""

import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.described import without_data

ADDED = {
    "secure_sum.name": "clear",
    "codec.name": "quantized",
    "codec.scale": "agreed",
    "evaluation.at": "clients",
}


@pytest.mark.parametrize("sharing", ["fedavg", "fedprox", "fedper", "fedrep", "ditto", "moon", "fedala"])
def test_what_merges_means_is_taken(sharing) -> None:
    assert without_data("plain_gcn", {**ADDED, "sharing.name": sharing}).plan.sum_coding is not None


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"aggregation.name": "median"}, "aggregation Median compares them: aggregation.name = 'mean'"),
        ({"safeguards.clip": 1.0}, "safeguards.clip = 1 looks at each: 0, and training.clip at the clients"),
        ({"clock.late": "drop"}, "clock.late = 'drop' takes them one by one: clock.late = 'wait'"),
        ({"evaluation.local_steps": True}, "tells whose steps have failed: evaluation.local_steps = false"),
        ({"evaluation.at": "server"}, "evaluation.at = 'clients'"),
        ({"selector.name": "oort"}, "selector Oort needs .* of single clients: selector.name = 'random'"),
        ({"selector.name": "power_of_choice"}, "selector PowerOfChoice asks single clients for losses"),
        (
            {"sharing.name": "scaffold"},
            "sharing Scaffold merges more than a mean of them: take sharing.name = .*fed",
        ),
        ({"sharing.name": "fedpub"}, "sharing FedPUB merges more than a mean"),
        ({"sharing.name": "local"}, "with sharing Local clients have rounds of their own"),
        ({"codec.scale": "max"}, "codec Quantized has a scale for each client: codec.name = 'quantized' and codec.sc"),
        ({"codec.name": "identity", "codec.scale": None}, "codec Identity has a scale for each client"),
        ({"secure_sum.name": "secag"}, "Did you mean 'secagg'"),
        ({"secure_sum.threshold": 0.5}, r"secure_sum.threshold must be in \(0.5, 1\]; got 0.5"),
        ({"secure_sum.least_cohort": 2}, r"secure_sum.least_cohort must be a whole number in \[3, 65536\]; got 2"),
        ({"secure_sum.neighbors": 2}, "Did you mean 'neighbours'"),
        (
            {"secure_sum.name": "", "secure_sum.signed": True},
            "secure_sum.signed must be false where secure_sum.name is ''",
        ),
    ],
)
def test_what_needs_each_update_is_refused_with_a_remedy(change, error) -> None:
    changes = {key: value for key, value in {**ADDED, **change}.items() if value is not None}
    with pytest.raises(InputError, match=error):
        without_data("plain_gcn", changes)
