"""Methods of different families know nothing of each other: every pair of them runs, on tiny data.

A run has a method of each family, so that one covers many pairs.
"""

from functools import cache
from itertools import combinations, product

import pytest

from fedgraft.contracts import MovableSharing
from fedgraft.experiment.job import Job, load
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.running.runner import execute

FAMILIES = {
    "selector": "selectors",
    "sampler": "samplers",
    "codec": "codecs",
    "sharing": "sharing",
    "aggregation": "aggregation",
    "server_optimizer": "server_optimizers",
    "model": "models",
}
NEEDS_OPTIONS = {
    "chain": [{"name": "float16"}, {"name": "quantized"}],
    "feedback": {"name": "float16", "feedback": True},
    "network": {
        "name": "network",
        "module": "torch_geometric.nn:GraphSAGE",
        "options": {"hidden_channels": 8, "num_layers": 2},
    },
}
"""Codecs that hold others, and what makes a whole network."""
NOT_FOR_GRAPHS = {
    "gat",
    "han",
    "metapath_means",
    "fedsage_plus",
    "fedgnn",
    "fesog",
    "fedgta",
    "fedproto",
    "fedtgp",
    "fgssl",
    "fedtad",
    "fedpub",
    "adafgl",
    "ridge",
}
OWN_MODELS = {"cefgl", "ditto", "fedala", "fedavg", "fedrep", "gcfl"}
"""Sharing methods whose clients are scored each in another way."""
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
    "runtime.workers": 0,
    "baselines": [],
}


def names(section: str) -> list[str]:
    found = [name for name in discovery.names(FAMILIES[section]) if name not in NOT_FOR_GRAPHS]
    return [*found, "none"] if section == "server_optimizer" else found


@cache
def movable(sharing: str) -> bool:
    return issubclass(discovery.find("sharing", sharing), MovableSharing)


def fits(chosen: dict[str, str]) -> bool:
    if (chosen.get("sharing"), chosen.get("model")) == ("fedstar", "network"):  # whose second channel needs layers
        return False
    if chosen.get("server_optimizer", "none") != "none" and not movable(chosen.get("sharing", "fedavg")):
        return False
    wanted = TOLD_BY_A_SAMPLER.get(chosen.get("selector", ""))
    return wanted is None or chosen.get("sampler", wanted) == wanted


def pairs_of(chosen: dict[str, str]) -> set[frozenset[tuple[str, str]]]:
    return {frozenset(pair) for pair in combinations(chosen.items(), 2)}


def covering_runs() -> list[dict[str, str]]:
    """Runs with a method of every family each, few, so that every pair of methods is in one of them.

    Greedy: a run begins with a pair that none has yet, and takes of each further family what adds most new pairs.
    """
    every = [
        {one: first, two: second}
        for one, two in combinations(FAMILIES, 2)
        for first, second in product(names(one), names(two))
        if fits({one: first, two: second})
    ]
    left = {pair: None for chosen in every for pair in pairs_of(chosen)}
    runs = []
    while left:
        chosen = dict(sorted(next(iter(left)), key=lambda choice: list(FAMILIES).index(choice[0])))
        for family in FAMILIES:
            more = [chosen | {family: name} for name in names(family)] if family not in chosen else []
            able = [each for each in more if fits(each)]
            chosen = max(able, key=lambda each: len(pairs_of(each) & left.keys()), default=chosen)
        for pair in pairs_of(chosen):
            left.pop(pair, None)
        runs.append(chosen)
    return runs


def those_with_a_new_method(runs: list[dict[str, str]]) -> list[dict[str, str]]:
    """The runs with a method that is in none before: together they have every method."""
    known: set[tuple[str, str]] = set()
    found = []
    for chosen in runs:
        if not known.issuperset(chosen.items()):
            found.append(chosen)
        known.update(chosen.items())
    return found


RUNS = covering_runs()
FIRST = those_with_a_new_method(RUNS)


def told(chosen: dict[str, str]) -> str:
    return "-".join(chosen[family] for family in FAMILIES)


def experiment(*choices: tuple[str, str], **changes: object) -> Job:
    chosen = {
        section if name in NEEDS_OPTIONS else f"{section}.name": NEEDS_OPTIONS.get(name, name)
        for section, name in choices
    }
    samplers = [TOLD_BY_A_SAMPLER[name] for _, name in choices if name in TOLD_BY_A_SAMPLER]
    told = {"sampler.name": samplers[0]} if samplers else {}
    widths = {} if ("model", "network") in choices else {"model.hidden": 8, "model.layers": 2}
    widths |= {"model.embedding": 8} if ("model", "gcn") in choices else {}
    return load("cefgl", {**TINY, **widths, **told, **chosen, **changes})


def check_run(chosen: dict[str, str]) -> None:
    summary = execute(experiment(*chosen.items()))
    assert summary["rounds"] == 2
    assert 0 <= summary["test"] <= 1
    assert summary["bytes"]["total"] == summary["bytes"]["down"] + summary["bytes"]["up"]


@pytest.mark.parametrize("chosen", FIRST, ids=told)
def test_every_method_runs_among_others(chosen: dict[str, str]) -> None:
    check_run(chosen)


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [chosen for chosen in RUNS if chosen not in FIRST], ids=told)
def test_every_pair_of_methods_runs(chosen: dict[str, str]) -> None:
    check_run(chosen)


@pytest.mark.slow
@pytest.mark.parametrize("sharing", names("sharing"))
def test_workers_and_kills_make_no_difference(sharing: str) -> None:
    """Four rounds, silent ones among them, with every memory there is; resumes are in test_resume."""
    changes = {"rounds": 4, "codec": [{"name": "low_rank", "rank": 2}, {"name": "quantized", "bits": 4}]}
    here = execute(experiment(("sharing", sharing), **changes))
    there = execute(experiment(("sharing", sharing), **changes, **{"runtime.workers": 2}))
    assert here["digest"] == there["digest"]
    assert here["bytes"] == there["bytes"]
    assert here["test_per_client"] == there["test_per_client"]


@pytest.mark.parametrize(
    "sharing",
    [name if name in OWN_MODELS else pytest.param(name, marks=pytest.mark.slow) for name in names("sharing")],
)
def test_clients_score_what_the_server_would(sharing: str) -> None:
    """Whatever else a method sends with the model to train from, to be scored the shared parameters are enough."""
    changes = {"rounds": 3, "codec": "identity", "sharing.name": sharing}
    here = execute(experiment(("sharing", sharing), **changes))
    there = execute(experiment(("sharing", sharing), **changes, **{"evaluation.at": "clients"}))
    assert there["test_per_client"] == here["test_per_client"]
    assert there["digest"] == here["digest"]
    assert there["bytes"]["evaluation"] > 0
