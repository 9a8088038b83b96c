"""Tables of a study of time: simulated seconds to scores, paired against a reference, and what methods reach."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from fedgraft.reports.stored.intervals import Interval, interval
from fedgraft.reports.studies import chosen_on, scoring_cost, target_costs
from fedgraft.reports.studies.comparisons import paired
from fedgraft.reports.studies.markdown import filled, spread, table
from fedgraft.reports.studies.panel_runs import PanelRuns, Run, spent_to
from fedgraft.reports.studies.savings import Savings

MEGA = 1e6
COSTS = (target_costs.SECONDS, target_costs.MB)
Claimed = Mapping[tuple[str, str], Mapping[int, Run]]
"""{(model, method): {seed: its run}}, of what is compared."""


def seconds_to(run: Run, target: float) -> float:
    """Return the simulated seconds until the validation score first was as good as a target; nan if it never was."""
    return spent_to(run, target, "simulated_seconds")


def parts(panel: PanelRuns) -> list[str]:
    """The tables of a setting, and what all data weigh; [] where nothing was run."""
    if not panel.runs:
        return []
    names = list(next(iter(panel.runs.values()))["measures"]["test"])
    claimed, tested = chosen_on.claimed(panel, panel.by_model, panel.study.reference)
    quality = [_quality(panel, run, names, claimed, tested) for run in panel.by_model]
    above = f"{names[0]} above {panel.label(panel.study.reference)}, points"
    sections = [
        _costs(panel, claimed, tested),
        target_costs.part(panel, COSTS) if panel.study.target else "",
        filled(("method", *names, "paper", above), quality),
        _yardsticks(panel, names),
        panel.raw_data,
    ]
    return [*filter(None, sections)]


def _costs(panel: PanelRuns, claimed: Claimed, tested: bool) -> str:
    """Simulated seconds to each score, and how many fewer than the reference's; those in all, and MB."""
    names = [f"{score:g}" for score in panel.study.targets]
    to, fewer = (
        {
            name: {run: {seed: seconds_to(each, score) for seed, each in own.items()} for run, own in runs.items()}
            for name, score in zip(names, panel.study.targets, strict=True)
        }
        for runs in (panel.by_model, claimed)
    )
    savings, rows = Savings(fewer, panel.study.reference, tested), []
    for key, by_seed in panel.by_model.items():
        runs = list(by_seed.values())
        cells = [panel.label(key[1]), *(spread([*to[name][key].values()], 2) for name in names)]
        cells += [savings.text(name, key) for name in names]
        cells += [spread([run["simulated_seconds"] for run in runs], 1)]
        cells += [f"{mean(run['bytes']['total'] for run in runs) / MEGA:.0f}", scoring_cost.megabytes(runs)]
        rows.append((*cells, str(_printed(panel, key[1]).get("seconds", "")), str(len(runs))))
    heads = [*(f"s to {name}" for name in names), *(f"% fewer to {name}" for name in names)]
    head = ("method", *heads, "s in all", "MB", scoring_cost.HEAD, "paper: s", "seeds")
    told = chosen_on.note(panel, tested) + savings.note(panel.label(panel.study.reference))
    note = f"{told}\n\n" if names else ""
    return note + filled(head, rows)


def _quality(
    panel: PanelRuns, key: tuple[str, str], names: Sequence[str], claimed: Claimed, tested: bool
) -> tuple[str, ...]:
    """A method's measures on test, and how far the first is above the reference's."""
    tests = [run["measures"]["test"] for run in panel.by_model[key].values()]
    base = (key[0], panel.study.reference)
    own, against = (
        {seed: 100 * run["measures"]["test"][names[0]] for seed, run in claimed.get(each, {}).items()}
        for each in (key, base)
    )
    above = interval(paired(own, against))
    shown = above if tested else Interval(above.middle, math.nan)
    values = (spread([test[name] for test in tests], 4) for name in names)
    printed = str(_printed(panel, key[1]).get("scores", ""))
    return (panel.label(key[1]), *values, printed, "" if key == base else f"{shown:.2}")


def _printed(panel: PanelRuns, method: str) -> Mapping[str, Any]:
    """Return the paper's numbers of a method."""
    numbers: Mapping[str, Any] = panel.printed(panel.settings[0]).get(method, {})
    return numbers


def _yardsticks(panel: PanelRuns, names: Sequence[str]) -> str:
    """Yardsticks on the same splits: the score, and what else they tell."""
    wanted = panel.panel["yardsticks"]
    by_name: dict[str, dict[int, Mapping[str, float]]] = {}
    for cell, run in panel.runs.items():
        for name, scores in run.get("yardsticks", {}).items():
            if name in wanted:
                by_name.setdefault(name, {})[cell.split.seed] = scores
    rows = [
        (name, *(_spread_of(by_seed.values(), key) for key in ("test", *names[1:])), str(len(by_seed)))
        for name, by_seed in by_name.items()
    ]
    lacking = "No yardsticks yet.\n" if wanted else ""
    return table(("yardstick", *names, "seeds"), rows) if rows else lacking


def _spread_of(scores: Any, key: str) -> str:
    values = [each[key] for each in scores if each.get(key) is not None]
    return spread(values, 4) if values else ""
