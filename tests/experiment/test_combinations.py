"""Methods of different families know nothing of each other: every pair of them runs, on tiny data."""

from itertools import combinations

import pytest

from fedgraft.experiment import discovery
from fedgraft.experiment.experiment import Experiment, load
from fedgraft.experiment.runner import execute

FAMILIES = {
    "selector": "selectors",
    "sampler": "samplers",
    "codec": "codecs",
    "sharing": "sharing",
    "aggregation": "aggregation",
    "model": "models",
}
NEEDS_OPTIONS = {
    "chain": [{"name": "float16"}, {"name": "quantized"}],
    "feedback": {"name": "float16", "feedback": True},
}
"""Codecs that hold others."""
NOT_FOR_GRAPHS = {"gat", "han", "metapath_means", "fedsage_plus", "fedgnn", "fesog"}
TOLD_BY_A_SAMPLER = {"rafhgl": "active"}
"""Selectors that choose by what a sampler reports, and the sampler that does."""
TINY = {
    "data.name": "molecules",
    "data.clients": 3,
    "data.graphs": 12,
    "rounds": 2,
    "evaluation.every": 2,
    "task.walks": 4,
    "task.degrees": 4,
    "model.layers": 2,
    "runtime.workers": 0,
    "yardsticks": [],
}


def names(section: str) -> list[str]:
    return [name for name in discovery.names(FAMILIES[section]) if name not in NOT_FOR_GRAPHS]


PAIRS = [
    (one, first, two, second)
    for one, two in combinations(FAMILIES, 2)
    for first in names(one)
    for second in names(two)
    if two != "sampler" or TOLD_BY_A_SAMPLER.get(first, second) == second
]


def experiment(*choices: tuple[str, str], **changes: object) -> Experiment:
    chosen = {
        section if name in NEEDS_OPTIONS else f"{section}.name": NEEDS_OPTIONS.get(name, name)
        for section, name in choices
    }
    samplers = [TOLD_BY_A_SAMPLER[name] for _, name in choices if name in TOLD_BY_A_SAMPLER]
    told = {"sampler.name": samplers[0]} if samplers else {}
    widths = {"model.hidden": 8} | ({"model.embedding": 8} if ("model", "gcn") in choices else {})
    return load("cefgl", {**TINY, **widths, **told, **chosen, **changes})


@pytest.mark.parametrize(("one", "first", "two", "second"), PAIRS, ids=[f"{p[1]}-{p[3]}" for p in PAIRS])
def test_every_pair_of_methods_runs(one: str, first: str, two: str, second: str) -> None:
    summary = execute(experiment((one, first), (two, second)))
    assert summary["rounds"] == 2
    assert 0 <= summary["test"] <= 1
    assert summary["bytes"]["total"] == summary["bytes"]["down"] + summary["bytes"]["up"]


@pytest.mark.parametrize("sharing", names("sharing"))
def test_workers_and_kills_make_no_difference(sharing: str) -> None:
    """Four rounds, silent ones among them, with every memory there is; resumes are in test_resume."""
    changes = {"rounds": 4, "codec": [{"name": "low_rank", "rank": 2}, {"name": "quantized", "bits": 4}]}
    here = execute(experiment(("sharing", sharing), **changes))
    there = execute(experiment(("sharing", sharing), **changes, **{"runtime.workers": 2}))
    assert here["digest"] == there["digest"]
    assert here["bytes"] == there["bytes"]
    assert here["test_per_client"] == there["test_per_client"]


@pytest.mark.parametrize("sharing", names("sharing"))
def test_clients_score_what_the_server_would(sharing: str) -> None:
    """Whatever else a method sends with the model to train from, to be scored the shared parameters are enough."""
    changes = {"rounds": 3, "codec": "identity", "sharing.name": sharing}
    here = execute(experiment(("sharing", sharing), **changes))
    there = execute(experiment(("sharing", sharing), **changes, **{"evaluation.at": "clients"}))
    assert there["test_per_client"] == here["test_per_client"]
    assert there["digest"] == here["digest"]
    assert there["bytes"]["evaluation"] > 0
