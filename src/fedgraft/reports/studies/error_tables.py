"""Tables of a study of errors: scores, bytes until a target, paired by seed with full participation, and controls."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedgraft.reports.studies import control_tables, scoring_cost
from fedgraft.reports.studies.markdown import filled, spread, table
from fedgraft.reports.studies.panel_runs import PanelRuns, points_of, spent_to

Runs = Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]]
"""{(model, method): {seed: its result}}."""
TOLERANCE = 0.002
"""The target is the best validation score of the reference method, worsened by this share."""
LEVELS = (0.02, 0.01, 0.005, TOLERANCE)
"""Targets of "bytes to different scores", as shares above the reference's best."""
BUDGETS = (0.25, 0.5, 0.75, 1.0)
"""Budgets of "scores at equal budgets", as shares of what the reference spends."""
_HEAD = (
    "method",
    "test RMSE",
    "below biases",
    "MB in all",
    scoring_cost.HEAD,
    "MB to target",
    "of full's",
    "paper: RMSE",
    "KB",
    "of full's",
)


def parts(panel: PanelRuns) -> list[str]:
    """The tables of a setting, and beside them yardsticks and what all data weigh; [] where nothing was run."""
    if not panel.runs:
        return []
    shares, levels = "test RMSE within a share of full participation's bytes", "MB to a validation score this far"
    return [
        _main_table(panel),
        _yardsticks(panel.by_model),
        *filter(None, [panel.raw_data]),
        _by_column(panel, shares, BUDGETS, _at_budget),
        _by_column(panel, f"{levels} above full participation's best", LEVELS, _to_level),
        *control_tables.parts(panel),
    ]


def _main_table(panel: PanelRuns) -> str:
    paper, reference = panel.printed(panel.panel["data"][0]), panel.study.reference
    rows = []
    for (model, method), by_seed in panel.by_model.items():
        against = _reference(panel, model)
        costs, shares, gains = [], [], []
        for seed, run in by_seed.items():
            biases = run["yardsticks"].get("client_biases", {}).get("test")
            if biases is not None:
                gains.append(biases - _score(run))
            if seed in against:
                target = _best(against[seed]) * (1 + TOLERANCE)
                full, own = (spent_to(each, target, "bytes") for each in (against[seed], run))
                costs.append(own / 1e6)
                shares.append(own / full)
        printed = paper.get(f"{model}-{method}", [])
        base = paper.get(f"{model}-{reference}", paper.get(f"gcn-{reference}", []))
        share = f"{printed[1] / base[1]:.0%}" if len(printed) > 1 and len(base) > 1 else ""
        cells = [_label(panel, model, method)]
        cells += [spread([_score(run) for run in by_seed.values()], 4), spread(gains, 4)]
        cells += [spread([run["bytes"]["total"] / 1e6 for run in by_seed.values()])]
        cells += [scoring_cost.megabytes([*by_seed.values()])]
        cells += [spread(costs), spread([100 * s for s in shares], 0, " %")]
        cells += [str(printed[0]) if printed else "", str(printed[1]) if len(printed) > 1 else "", share]
        rows.append(cells)
    return filled(_HEAD, rows)


def _yardsticks(runs: Runs) -> str:
    first = next(iter(runs.values()))
    texts = [
        f"{name} {spread([run['yardsticks'][name]['test'] for run in first.values() if name in run['yardsticks']], 4)}"
        for name in next(iter(first.values()))["yardsticks"]
    ]
    return f"Yardsticks, test RMSE on the same splits: {'; '.join(texts) or 'none'}. Seeds: {len(first)}.\n"


def _by_column(
    panel: PanelRuns,
    title: str,
    columns: Sequence[float],
    value: Callable[[Mapping[str, Any], Mapping[str, Any], float], float],
) -> str:
    rows = []
    for (model, method), by_seed in panel.by_model.items():
        against = _reference(panel, model)
        cells = []
        for column in columns:
            values = [value(run, against[seed], column) for seed, run in by_seed.items() if seed in against]
            cells.append(spread(values, 4 if value is _at_budget else 2))
        rows.append((_label(panel, model, method), *cells))
    return table((title, *(f"{c:.1%}" if c < 0.1 else f"{c:.0%}" for c in columns)), rows)


def _label(panel: PanelRuns, model: str, method: str) -> str:
    """Return a method's label, with the model's name where the study names one."""
    return f"{panel.label(method)} ({model.upper()})" if model else panel.label(method)


def _reference(panel: PanelRuns, model: str) -> Mapping[int, Mapping[str, Any]]:
    """Return the reference's runs with the same model; for a method with a model of its own those with any."""
    for (used, method), by_seed in panel.by_model.items():
        if method == panel.study.reference and model in (used, ""):
            return by_seed
    return {}


def _score(run: Mapping[str, Any]) -> float:
    score = run["test_at_best_validation"]
    return math.nan if score is None else float(score)


def _best(run: Mapping[str, Any]) -> float:
    return min((point["validation"] for point in points_of(run)), default=math.nan)


def _at_budget(run: Mapping[str, Any], against: Mapping[str, Any], share: float) -> float:
    """Test score of the round that is best on validation among those within the budget."""
    within = [point for point in points_of(run) if point["bytes"] <= share * against["bytes"]["total"]]
    return float(min(within, key=lambda point: point["validation"])["test"]) if within else math.nan


def _to_level(run: Mapping[str, Any], against: Mapping[str, Any], level: float) -> float:
    return spent_to(run, _best(against) * (1 + level), "bytes") / 1e6
