"""A study's table of clients' models after local steps, for studies with `"evaluation.local_steps" = true`."""

from fedgraft.reports.studies.markdown import spread, table
from fedgraft.reports.studies.panel_runs import PanelRuns
from fedgraft.reports.studies.study import AFTER


def part(panel: PanelRuns) -> list[str]:
    """Return the table, methods down and settings across, of tests at the best validation after local steps.

    [] where no run has any.
    """
    rows, any_known = [], False
    for model, method in map(tuple, panel.panel["runs"]):
        cells = []
        for setting in panel.settings:
            told = [run.get(AFTER) or {} for run in panel.by_setting.get((model, method, setting), [])]
            known = [100 * each["test"] for each in told if each.get("test") is not None]
            cells.append(spread(known) if known else "")
            any_known = any_known or bool(known)
        label = panel.label(method)
        rows.append((f"{label}, {model}" if model else label, *cells))
    return [table(("after local steps, accuracy, %", *panel.settings), rows)] if any_known else []
