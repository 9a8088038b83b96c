"""Tables of a study of paired seeds: methods down, settings across, and differences with 95 % intervals.

A difference is taken seed by seed, so that what a split makes easy or hard for all methods drops out. Its interval is
Student's, over the seeds that both methods have.
"""

from fedgraft.reports.studies import (
    after_steps,
    control_tables,
    difference_table,
    paired_costs,
    target_rounds,
    yardstick_table,
)
from fedgraft.reports.studies.comparisons import Run
from fedgraft.reports.studies.difference_table import Scores
from fedgraft.reports.studies.markdown import spread, table
from fedgraft.reports.studies.panel_runs import PanelRuns


def parts(panel: PanelRuns) -> list[str]:
    """Scores, differences, costs, and rounds to a target but of errors; [] without a score.

    A panel without the study's reference has no differences from it, and no rounds to where it ends.
    """
    if not (scores := _scores(panel)):
        return []
    referred = any(method == panel.study.reference for _, method in panel.panel["runs"])
    told = [_accuracies(panel, scores), *after_steps.part(panel)]
    told += [difference_table.part(panel, scores)] if referred else []
    told += [*control_tables.parts(panel), paired_costs.part(panel)]
    rounds = [target_rounds.part(panel)] if not panel.lower and (referred or panel.study.target) else []
    return [*told, *rounds, yardstick_table.part(panel)]


def _scores(panel: PanelRuns) -> dict[str, dict[Run, dict[int, float]]]:
    """{setting: {(model, method): {seed: test score of the round best on validation}}}."""
    by_run: dict[str, dict[Run, dict[int, float]]] = {}
    for cell, run in panel.runs.items():
        if (score := run.get("test_at_best_validation")) is not None:
            by_seed = by_run.setdefault(cell.split.key, {}).setdefault((cell.model, cell.method), {})
            by_seed[cell.split.seed] = panel.unit * score
    return by_run


def _accuracies(panel: PanelRuns, scores: Scores) -> str:
    """Mean and standard deviation; in brackets the paper's."""
    settings, rows = panel.settings, []
    for model, method in map(tuple, panel.panel["runs"]):
        cells = []
        for setting in settings:
            by_seed = scores.get(setting, {}).get((model, method), {})
            printed = panel.printed(setting).get(method)
            cells.append(
                spread(list(by_seed.values()), panel.digits) + (f" [{printed}]" if printed is not None else "")
            )
        counts = [len(scores.get(setting, {}).get((model, method), {})) for setting in settings]
        rows.append((panel.row_label(model, method), *cells, str(min(counts))))
    return table((panel.measure, *settings, "seeds"), rows)
