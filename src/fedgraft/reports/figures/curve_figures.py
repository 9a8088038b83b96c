"""Figures of what went on round by round: scores and the training loss; of several seeds thin lines and their mean."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.errors import require_one_of
from fedgraft.experiment.recipes.units import human_bytes, unit_of_bytes
from fedgraft.reports.figures import figure_style as style
from fedgraft.reports.stored.stored_runs import AFTER_STEPS, COSTS, StoredRun

GIGA = 1e9
THIN, FAINT = 1.2, 0.4
"""Width and opacity of the line of one seed."""
AFTER_NOTE = "; after local steps with dots"
SEEDS_NOTE = "; thin lines are seeds, thick ones their means"


def score(
    runs: Sequence[StoredRun], against: str = "rounds", log_bytes: bool = False, splits: Sequence[str] = SCORED_SPLITS
) -> go.Figure:
    """Scores as they went: validation solid, test dashed, baselines (scored on test) as labelled lines.

    Args:
        runs: runs with one metric.
        against: "rounds", "bytes" (all so far, both directions), "seconds" (measured), "simulated_seconds", or "flops"
            (operations of all clients so far).
        log_bytes: a logarithmic axis of bytes.
        splits: which of "validation" and "test" to show; with both, buttons switch between them.
    """
    style.check_drawable(runs)
    require_one_of("against", against, COSTS)
    for split in splits:
        require_one_of("splits", split, SCORED_SPLITS)
    column, log = COSTS[against], log_bytes and against == "bytes"
    largest = max(float(run.curve[column].max()) for run in runs)
    unit, size = unit_of_bytes(largest) if against == "bytes" and not log else ("B", 1)
    divisor = GIGA if against == "flops" else size
    figure, drawn = go.Figure(), []
    for index, run in enumerate(runs):
        for one in (*run.seeds, run):
            curve = one.curve[one.curve[column] > 0] if log else one.curve
            for split, scored in [(each, name) for each in splits for name in (each, AFTER_STEPS[each])]:
                if scored in curve and (scored == split or one is run):  # of seeds the mean alone after local steps
                    points = curve.dropna(subset=[scored])
                    x = points[column] / divisor
                    figure.add_trace(_line(one, index, x, points, split, scored, thin=one is not run))
                    drawn.append(split)
    for index, run in enumerate(runs):
        figure.add_trace(_key(run, index))
    units = {"rounds": "round", "bytes": f"bytes on the wire, both directions ({unit})", "flops": "operations (GFLOP)"}
    named = "operations" if against == "flops" else against.replace("_", " ")
    low, high, cut = style.score_range(runs, splits)
    note = "validation solid, test dashed" if len(splits) > 1 else splits[0]
    note += AFTER_NOTE if any(AFTER_STEPS[split] in run.curve for run in runs for split in splits) else ""
    note += SEEDS_NOTE if any(run.seeds for run in runs) else ""
    note += "; the first rounds lie off the scale (double-click to see them)" if cut else ""
    marks = style.baseline_marks(runs)
    title, right = f"{style.metric_name(runs)} against {named}", style.margin(marks, 24)
    style.lay_out(figure, title, note, style.SCORE_HEIGHT, right=right)
    kind = {"type": "log", "rangemode": "normal"} if log else {"type": "linear", "rangemode": "tozero"}
    figure.update_xaxes(title=units.get(against, named), **kind)
    if against == "rounds":
        style.ticked_rounds(figure, int(largest))
    if log:
        figure.update_xaxes(dtick=1, ticksuffix="B", exponentformat="SI")
    figure.update_yaxes(title=style.metric_name(runs), range=[low, high])
    style.add_baselines(figure, marks, low, high)
    if len(splits) > 1:
        _add_switch(figure, splits, drawn)
    return figure


def training_loss(runs: Sequence[StoredRun]) -> go.Figure:
    """Draw the mean training loss of each round's clients, as they tell it; where none answered there is none."""
    style.check_drawable(runs, same_metric=False)
    figure = go.Figure()
    for index, run in enumerate(runs):
        for one in (*run.seeds, run):
            known, thin = one.rounds.dropna(subset=["loss"]), one is not run
            figure.add_trace(
                style.points(
                    known["round"],
                    known["loss"],
                    f"{style.run_name(one)}, round %{{x}}: %{{y:.4g}}",
                    mode="lines" if thin else "lines+markers",
                    line={"color": style.run_colour(index), "width": THIN if thin else 2.2},
                    **{"opacity": FAINT if thin else 1, "marker": _marker(index, 7)},
                    **{"name": style.run_name(one), "showlegend": not thin},
                )
            )
    note = "mean of the clients of each round, while they trained"
    note += SEEDS_NOTE if any(run.seeds for run in runs) else ""
    style.lay_out(figure, "training loss", note, style.SCORE_HEIGHT, right=24)
    figure.update_xaxes(title="round", rangemode="tozero")
    style.ticked_rounds(figure, max(int(run.summary["rounds"]) for run in runs))
    figure.update_yaxes(title="loss")
    return figure


def precision_recall(runs: Sequence[StoredRun]) -> go.Figure:
    """Precision against recall of the rarer of two classes, on test; a mark where the run's threshold lies.

    Runs without such a curve are left out.
    """
    figure = go.Figure()
    known = [(index, run, curve_of(run)) for index, run in enumerate(runs)]
    for index, run, curve in known:
        if not curve:
            continue
        recall, precision, threshold = (np.array(column) for column in zip(*curve, strict=True))
        least, name = run.summary["threshold"]["threshold"], style.run_name(run)
        told = f"{name}<br>precision %{{y:.3f}}, recall %{{x:.3f}}<br>from a probability of %{{customdata:.4f}} on"
        line = {"color": style.run_colour(index), "width": 2.2}
        shown = {"name": name, "legendgroup": str(index), "hovertemplate": f"{told}<extra></extra>"}
        figure.add_trace(go.Scatter(x=recall, y=precision, customdata=threshold, mode="lines", line=line, **shown))
        at = int(np.argmin(np.abs(threshold - least)))
        marked = {"x": recall[at : at + 1], "y": precision[at : at + 1], "customdata": threshold[at : at + 1]}
        figure.add_trace(go.Scatter(**marked, mode="markers", marker=_marker(index, 11), showlegend=False, **shown))
        figure.data[-1].marker.color = style.run_colour(index)
    rare = ", ".join(dict.fromkeys(repr(run.summary["threshold"]["class"]) for _, run, curve in known if curve))
    note = f"of the rarer class, {rare}, on test, by the model that was best on validation; a mark is the threshold"
    style.lay_out(figure, "precision against recall", note, style.SCORE_HEIGHT, right=24)
    figure.update_xaxes(title="recall", range=[0, 1.02])
    figure.update_yaxes(title="precision", range=[0, 1.02])
    return figure


def curve_of(run: StoredRun) -> list[list[float]]:
    """Return recall, precision and threshold of the rarer of two classes, point by point; [] where there are none."""
    curve: list[list[float]] = run.summary.get("threshold", {}).get("curve", [])
    return curve


def _line(
    run: StoredRun, index: int, x: pd.Series, points: pd.DataFrame, split: str, scored: str, thin: bool
) -> go.Scatter:
    """A run's line of a split, of the column `scored`: of the model, or of clients' models after local steps."""
    first, after = split == SCORED_SPLITS[0], scored != split
    dash = ("longdashdot" if after else "solid") if first else ("dashdot" if after else "dash")
    said = f"{split} after local steps" if after else split
    return style.points(
        x,
        points[scored],
        f"{style.run_name(run)}, {said} %{{y:.4f}}<br>round %{{customdata[0]}}, %{{customdata[1]}}",
        mode="lines+markers" if first and not thin and not after else "lines",
        line={
            "color": style.run_colour(index),
            "width": THIN if thin or after else 2.2 if first else 1.6,
            "dash": dash,
        },
        **{"opacity": FAINT if thin else 1, "marker": _marker(index, 7)},
        **{"name": style.run_name(run), "legendgroup": str(index), "showlegend": False},
        customdata=np.column_stack([points["round"], points["bytes"].map(human_bytes)]),
    )


def _marker(index: int, size: int) -> dict[str, Any]:
    """Return the marker of the n-th run."""
    return style.run_marker(index, size, maxdisplayed=style.MOST_MARKERS)


def _key(run: StoredRun, index: int) -> go.Scatter:
    """A run's entry of the legend: no line of its own, so that it stays whichever split is shown."""
    line, named = (
        {"color": style.run_colour(index), "width": 2.2},
        {"name": style.run_name(run), "legendgroup": str(index)},
    )
    return go.Scatter(x=[None], y=[None], mode="lines+markers", line=line, marker=style.run_marker(index, 8), **named)


def _add_switch(figure: go.Figure, splits: Sequence[str], drawn: Sequence[str]) -> None:
    """Buttons that show both splits or one; `drawn` is the split of each line, in order."""
    lines = list(range(len(drawn)))
    choices = {"both": splits, **{split: [split] for split in splits}}
    buttons = [
        {"label": label, "method": "restyle", "args": [{"visible": [split in shown for split in drawn]}, lines]}
        for label, shown in choices.items()
    ]
    style.add_buttons(figure, buttons)
