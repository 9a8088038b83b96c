"""Every method works with masked sums, as without masks, or is refused when the recipe is read, with a remedy."""

import pytest

from fedgraft.errors import AllClientsFailedError, InputError
from fedgraft.experiment.job import Job, load
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.running.runner import execute

SMALL = {
    "data.name": "blocks",
    "data.nodes": 120,
    "data.clients": 4,
    "data.features": 8,
    "model.hidden": 8,
    "rounds": 2,
    "training.epochs": 1,
    "runtime.workers": 0,
    "baselines": [],
    "codec.name": "quantized",
    "codec.scale": "agreed",
    "codec.rounding": "stochastic",
    "evaluation.at": "clients",
}
FAMILIES = {
    "sharing": "sharing",
    "selector": "selectors",
    "sampler": "samplers",
    "aggregation": "aggregation",
    "server_optimizer": "server_optimizers",
}
EVERY = [(section, name) for section, family in FAMILIES.items() for name in discovery.names(family)]
NEED_MORE = {"fedgnn", "fesog", "ridge", "rafhgl", "gcfl", "cefgl", "fedstar", "spreadgnn", "active"}
"""Those that plain_gcn is no task or model for, or that need another method beside them."""


REFUSED = "secure_sum.name = 'secagg' adds updates up, but"


def built(section: str, name: str, masks: str) -> Job | str:
    """An experiment, or why there is none."""
    drawn = {"selector.clients": 3} if name in ("random", "round_robin", "fastest") else {}
    drawn |= {"selector.clients": 4} if name == "poisson" else {}  # all of them: of fewer a round may have no sum
    chosen = {"selector.name": "all", **SMALL, f"{section}.name": name, **drawn, "secure_sum.name": masks}
    try:
        return load("plain_gcn", chosen)
    except InputError as error:
        return str(error)


@pytest.mark.parametrize(("section", "name"), [each for each in EVERY if each[1] not in NEED_MORE])
def test_a_method_works_with_masks_or_is_refused(section: str, name: str) -> None:
    masked, clear = built(section, name, "secagg"), built(section, name, "clear")
    if isinstance(masked, str) or isinstance(clear, str):
        assert REFUSED in str(masked)
        return
    found, expected = execute(masked), execute(clear)
    assert found["digest"] == expected["digest"]
    assert found["bytes"]["masking"] > 0
    assert not any(found["failures"].values())


def test_a_run_that_never_has_a_sum_has_no_result() -> None:
    rarely = {"selector.name": "random", "selector.probability": 0.01, "secure_sum.name": "clear"}
    experiment = load("plain_gcn", {**SMALL, **rarely})
    with pytest.raises(AllClientsFailedError, match="no round had a sum of 3 clients"):
        execute(experiment)
