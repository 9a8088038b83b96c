"""The figures of a study of costs: accuracy against bytes and against operations, means over the seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fedgraft.drawing import RUN_MARKERS, add_yardsticks, lay_out, margin, run_colour, short_number
from fedgraft.errors import InputError
from fedgraft.pictures import draw
from fedgraft.study import Study, panel_cells
from fedgraft.target_page import GIGA, MEGA, Results, curve, settings

WIDTH, HEIGHT = 1200, 460
BELOW, ABOVE = 5.0, 0.5
"""Points that are shown below the worst method's best and above the best."""
MARKS = 8
"""Most marks along a line, so that lines can still be told apart."""
COSTS = (("MB on the wire, both directions", 1, MEGA), ("GFLOP at the clients", 4, GIGA))
"""Name of the axis, where a point of a curve has it, unit."""


def check(study: Study) -> None:
    """Raise `InputError` for a study whose page is not one of costs."""
    if study.layout != "targets":
        raise InputError(f"--pictures draws accuracy against costs; study {study.name} has a page of {study.layout}.")


def draw_all(study: Study, results: Results, seeds: int, folder: Path) -> list[str]:
    """A picture of every setting in which two methods or more have run; what was done, for people."""
    folder.mkdir(parents=True, exist_ok=True)
    done: dict[str, str] = {}
    for _, split, panel in settings(study):
        if split in done:
            continue
        runs = runs_of(panel, results, seeds)
        if len(runs) > 1:
            done[split] = draw(figure(study, split, runs), folder / f"{split}.png", WIDTH)
    return list(done.values())


def runs_of(panel: Mapping[str, Any], results: Results, seeds: int) -> dict[str, list[Mapping[str, Any]]]:
    """{method: its runs} of a setting, of the panel's first model."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for cell in panel_cells(panel, seeds):
        if cell in results and cell.model == panel["runs"][0][0]:
            found.setdefault(cell.method, []).append(results[cell])
    return found


def figure(study: Study, split: str, runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> go.Figure:
    """Test accuracy against bytes at the left, against operations at the right, both on logarithmic axes.

    Args:
        study: whose methods' labels are shown.
        split: the setting's name.
        runs: {method: its runs, one a seed}.
    """
    made = make_subplots(rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.03)
    bests, seeds = [], max(map(len, runs.values()))
    for number, (method, found) in enumerate(runs.items()):
        points = [point for point in curve(found) if point[0]]
        bests.append(max(100 * point[3] for point in points))
        for column, (_, place, unit) in enumerate(COSTS, 1):
            trace = go.Scatter(
                x=[point[place] / unit for point in points],
                y=[100 * point[3] for point in points],
                name=study.methods[method]["label"] + (f" (seeds: {len(found)})" if len(found) < seeds else ""),
                mode="lines+markers",
                line={"color": run_colour(number), "width": 1.8},
                marker={"symbol": RUN_MARKERS[number % len(RUN_MARKERS)], "size": 7, "maxdisplayed": MARKS},
                showlegend=column == 1,
            )
            made.add_trace(trace, row=1, col=column)
    marks = _yardsticks(runs)
    low, high = min(bests) - BELOW, max([*bests, *(score for score, _ in marks)]) + ABOVE
    shown = [mark for mark in marks if mark[0] > low]
    note = f"test accuracy, %, means over {seeds} seeds; both axes of costs logarithmic; yardsticks dotted"
    lay_out(made, split, note, HEIGHT, right=margin(shown, 24))
    add_yardsticks(made, shown, low, high)
    made.update_yaxes(range=[low, high])
    for column, (title, _, _) in enumerate(COSTS, 1):
        made.update_xaxes(type="log", title_text=title, row=1, col=column)
    return made


def _yardsticks(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[tuple[float, str]]:
    """(score, label with the score) of each yardstick, ascending."""
    scores: dict[str, list[float]] = {}
    for run in next(iter(runs.values())):
        for name, each in run.get("yardsticks", {}).items():
            scores.setdefault(name, []).append(100 * each["test"])
    return sorted((mean(each), f"{name} {short_number(mean(each))}") for name, each in scores.items())
