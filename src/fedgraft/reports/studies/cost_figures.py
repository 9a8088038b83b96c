"""The figures of a study of costs: scores against bytes, operations or seconds, means over the seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fedgraft.contracts.scores import improves
from fedgraft.errors import InputError
from fedgraft.reports.figures import figure_style as style
from fedgraft.reports.figures.figure_style import draw
from fedgraft.reports.studies.cells import PanelRuns, Results, Run
from fedgraft.reports.studies.study import Study, settings

WIDTH, HEIGHT = 1200, 460
BELOW, ABOVE = 5.0, 0.5
"""Points that are shown below the worst method's best and above the best."""
MARKS = 8
"""Most marks along a line, so that lines can still be told apart."""
_MB = ("MB on the wire, both directions", 1, 1e6)
COSTS = {
    "paired": (("rounds", 0, 1.0), _MB),
    "targets": (_MB, ("GFLOP at the clients", 4, 1e9)),
    "time": (("simulated seconds", 5, 1.0), _MB),
}
"""{layout of a study: for each axis its name, where a point of a curve has it, unit}."""


def check(study: Study) -> None:
    """Raise `InputError` for a study whose page is not one of costs."""
    if study.layout not in COSTS:
        raise InputError(f"--pictures draws accuracy against costs; study {study.name} has a page of {study.layout}.")


def draw_all(study: Study, results: Results, seeds: int, folder: Path) -> list[str]:
    """A picture of every setting in which two methods or more have run; what was done, for people."""
    folder.mkdir(parents=True, exist_ok=True)
    done: dict[str, str] = {}
    for _, split, panel in settings(study):
        known = PanelRuns(study, panel, results, seeds)
        if split not in done and len(known.only) > 1:
            made = figure(known, split, {name: known.baseline(split, name) for name in known.baselines.get(split, {})})
            done[split] = draw(made, folder / f"{split}.png", WIDTH)
    return list(done.values())


def figure(panel: PanelRuns, title: str, baselines: Mapping[str, Sequence[float]]) -> go.Figure:
    """Test scores against two costs, both on logarithmic axes: those of the study's layout.

    A score is what a run that ended there would have: that of the round best on validation so far. Baselines are
    {name: scores in percent, one a seed}.
    """
    made = make_subplots(rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.03)
    study, metric = panel.study, next(iter(panel.runs.values())).get("metric", "accuracy")
    bests, seeds = [], max(map(len, panel.only.values()))
    for number, ((_, method), own) in enumerate(panel.only.items()):
        points = [point for point in curve([kept(run) for run in own.values()]) if point[0]]
        bests.append(max(100 * point[3] for point in points))
        for column, (_, place, unit) in enumerate(COSTS[study.layout], 1):
            trace = go.Scatter(
                x=[point[place] / unit for point in points],
                y=[100 * point[3] for point in points],
                name=style.plain_label(study.methods[method]["label"])
                + (f" (seeds: {len(own)})" if len(own) < seeds else ""),
                mode="lines+markers",
                line={"color": style.run_colour(number), "width": 1.8},
                marker={"symbol": style.RUN_MARKERS[number % len(style.RUN_MARKERS)], "size": 7, "maxdisplayed": MARKS},
                showlegend=column == 1,
            )
            made.add_trace(trace, row=1, col=column)
    means = {name: mean(scores) for name, scores in baselines.items()}
    marks = sorted((score, f"{name} {style.short_number(score)}") for name, score in means.items())
    low, high = min(bests) - BELOW, max([*bests, *(score for score, _ in marks)]) + ABOVE
    shown = [mark for mark in marks if mark[0] > low]
    named = metric if metric == "accuracy" else metric.upper()
    note = f"test {named}, %, of the round best on validation so far, means over {seeds} seeds; baselines dotted"
    style.lay_out(made, style.plain_label(title), note, HEIGHT, right=style.margin(shown, 24))
    style.add_baselines(made, shown, low, high)
    made.update_yaxes(range=[low, high])
    for column, (cost, _, _) in enumerate(COSTS[study.layout], 1):
        made.update_xaxes(type="log", title_text=cost, row=1, col=column)
    return made


def curve(runs: Sequence[Run]) -> list[tuple[float, ...]]:
    """The mean curve of several runs where all clients of all were scored.

    Points are (round, bytes, validation, test, flops), and simulated seconds, which earlier versions did not keep.
    """
    by_round: dict[int, list[Sequence[float]]] = {}
    for run in runs:
        for point in run["curve"]:
            if point[2] is not None:
                by_round.setdefault(point[0], []).append([0.0 if x is None else x for x in point])
    return [
        (number, *(mean(values) for values in list(zip(*points, strict=False))[1:]))
        for number, points in sorted(by_round.items())
        if len(points) == len(runs)
    ]


def kept(run: Run) -> Run:
    """The run with the test score of the round best on validation so far in place of each round's own."""
    best, shown, points = None, 0.0, []
    for number, size, validation, test, *others in run["curve"]:
        if validation is not None and improves(validation, best, "higher"):
            best, shown = validation, test
        points.append([number, size, validation, shown, *others])
    return {**run, "curve": points}
