"""The tables of what methods cost in a study of paired seeds: bytes, operations, seconds, and scoring at clients."""

from collections.abc import Callable, Sequence
from statistics import mean

from fedgraft.reports.studies.markdown import figures, table
from fedgraft.reports.studies.panel_runs import PanelRuns, Run
from fedgraft.reports.studies.scoring_cost import HEAD, known, megabytes

MEGA, GIGA = 1e6, 1e9


def part(panel: PanelRuns) -> str:
    """The costs of whole runs, means over seeds; those with scoring at clients where any run knows them."""
    told = "In brackets GFLOP of the clients, and seconds of the run in one process, which depend on the machine."
    scored = "\n" + _table(panel, HEAD, megabytes) if known(panel.runs.values()) else ""
    return f"{told}\n\n" + _table(panel, "MB in all", _spent) + scored


def _table(panel: PanelRuns, title: str, cell: Callable[[Sequence[Run]], str]) -> str:
    rows = []
    for model, method in map(tuple, panel.panel["runs"]):
        runs = [panel.by_setting.get((model, method, setting), []) for setting in panel.settings]
        rows.append((panel.row_label(model, method), *(cell(each) if each else "" for each in runs)))
    return table((title, *panel.settings), rows)


def _spent(runs: Sequence[Run]) -> str:
    """MB, and in brackets GFLOP and seconds, where they are known."""
    seconds, flops = (
        [run[name] / unit for run in runs if run.get(name) is not None]
        for name, unit in (("seconds", 1), ("flops", GIGA))
    )
    told = [f"{figures(mean(values))} {unit}" for values, unit in ((flops, "GFLOP"), (seconds, "s")) if values]
    size = figures(mean(run["bytes"]["total"] for run in runs) / MEGA)
    return size + (f" ({', '.join(told)})" if told else "")
