"""A study's table of yardsticks on the splits of its runs."""

from fedgraft.reports.studies.markdown import spread, table
from fedgraft.reports.studies.panel_runs import PanelRuns


def part(panel: PanelRuns) -> str:
    """The table, yardsticks down and settings across: mean and standard deviation of test scores; "" without any."""
    yardsticks = panel.yardsticks
    names = list(dict.fromkeys(name for by_name in yardsticks.values() for name in by_name))
    if not names:
        return ""
    settings = panel.settings
    rows = [
        (name, *(spread(yardsticks.get(setting, {}).get(name, []), panel.digits) for setting in settings))
        for name in names
    ]
    return "\n" + table((f"yardsticks{'' if panel.lower else ', %'}", *settings), rows)
