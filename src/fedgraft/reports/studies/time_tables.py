"""Tables of a study of time: simulated seconds to scores, paired against a reference, and what methods reach."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from fedgraft.reports.stored.intervals import half_width
from fedgraft.reports.studies.markdown import spread, table
from fedgraft.reports.studies.panel_runs import PanelRuns, Run, spent_to

MEGA = 1e6

BySeed = Mapping[int, Run]


def seconds_to(run: Run, target: float) -> float:
    """Return the simulated seconds until the validation score first was as good as a target; nan if it never was."""
    return spent_to(run, target, "simulated_seconds")


def interval(values: Sequence[float], digits: int = 1) -> str:
    """Return a mean with its 95 % interval by Student's t.

    A single value stands alone. "never" where all are nan, "not on every seed" where some are; "" where there is none.

    >>> interval([1.0, 2.0, 3.0])
    '2.0 [-0.5, 4.5]'
    """
    if not values or any(map(math.isnan, values)):
        lacking = "never" if all(map(math.isnan, values)) else "not on every seed"
        return lacking if values else ""
    middle = mean(values)
    if len(values) < 2:
        return f"{middle:.{digits}f}"
    half = half_width(values)
    return f"{middle:.{digits}f} [{middle - half:.{digits}f}, {middle + half:.{digits}f}]"


def parts(panel: PanelRuns) -> list[str]:
    """The tables of a setting, and what all data weigh; [] where nothing was run."""
    if not panel.runs:
        return []
    names = list(next(iter(panel.runs.values()))["measures"]["test"])
    targets = [f"{target:g}" for target in panel.study.targets]
    to = [*(f"s to {target}" for target in targets), *(f"% fewer to {target}" for target in targets)]
    costs = [_costs(panel, *each) for each in panel.by_method.items()]
    quality = [_quality(panel, *each, names) for each in panel.by_method.items()]
    above = f"{names[0]} above {panel.label(panel.study.reference)}, points"
    sections = [
        _filled(("method", *to, "s in all", "MB", "paper: s", "seeds"), costs),
        _filled(("method", *names, "paper", above), quality),
        _yardsticks(panel, names),
        panel.raw_data,
    ]
    return [*filter(None, sections)]


def _costs(panel: PanelRuns, method: str, by_seed: BySeed) -> tuple[str, ...]:
    """A method's simulated seconds to each target, and how many fewer than the reference's; those in all, and MB."""
    targets, reference = panel.study.targets, panel.study.reference
    to = {target: {seed: seconds_to(run, target) for seed, run in by_seed.items()} for target in targets}
    against = panel.by_method.get(reference, {})
    fewer = []
    for target in targets:
        shares = [
            100 * (1 - to[target][seed] / seconds_to(against[seed], target)) for seed in by_seed if seed in against
        ]
        fewer.append("" if method == reference else interval(shares))
    return (
        panel.label(method),
        *(spread([*to[target].values()], 2) for target in targets),
        *fewer,
        spread([run["simulated_seconds"] for run in by_seed.values()], 1),
        f"{mean(run['bytes']['total'] for run in by_seed.values()) / MEGA:.0f}",
        str(_printed(panel, method).get("seconds", "")),
        str(len(by_seed)),
    )


def _quality(panel: PanelRuns, method: str, by_seed: BySeed, names: Sequence[str]) -> tuple[str, ...]:
    """A method's measures on test, and how far the first is above the reference's."""
    reference = panel.study.reference
    against, tests = panel.by_method.get(reference, {}), {k: run["measures"]["test"] for k, run in by_seed.items()}
    above = [
        100 * (test[names[0]] - against[seed]["measures"]["test"][names[0]])
        for seed, test in tests.items()
        if seed in against
    ]
    values = (spread([test[name] for test in tests.values()], 4) for name in names)
    more = "" if method == reference else interval(above, 2)
    return (panel.label(method), *values, str(_printed(panel, method).get("scores", "")), more)


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


def _filled(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table without the columns that have nothing in any row."""
    columns = [index for index in range(len(head)) if any(row[index] for row in rows)]
    return table([head[index] for index in columns], [[row[index] for index in columns] for row in rows])


def _spread_of(scores: Any, key: str) -> str:
    values = [each[key] for each in scores if each.get(key) is not None]
    return spread(values, 4) if values else ""
