"""Figures of what clients have: their scores, the length of a message, and where their examples lie for the model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fedgraft.engine.server.ledger import DIRECTIONS
from fedgraft.experiment.units import human_bytes, unit_of_bytes
from fedgraft.reports.figure_style import (
    BAR_HEIGHT,
    BOTTOM,
    INK,
    RUN_COLOURS,
    TOP,
    lay_out,
    metric_name,
    plain_label,
    run_colour,
    run_name,
)
from fedgraft.reports.stored_runs import RunFolder

FEW_CLIENTS = 24
"""Up to here each client has bars of its own; beyond, their scores are one box per run."""
MOST_POINTS = 2_000
"""Up to here the box has a point for each client."""
PANEL = 260
"""Pixels of a client's panel."""


def score_per_client(runs: Sequence[RunFolder]) -> go.Figure:
    """The test score of every client, of the model that it keeps: bars, or a box per run where there are many."""
    scores = [run.summary["test_per_client"] for run in runs]
    names = list(dict.fromkeys(name for each in scores for name in each))
    labels = list(map(plain_label, names))
    figure = go.Figure()
    for index, (run, each) in enumerate(zip(runs, scores, strict=True)):
        values = [each.get(name) for name in names]
        look = {"name": run_name(run), "marker_color": run_colour(index)}
        if len(names) > MOST_POINTS:
            known = [value for value in values if value is not None]
            low, first, middle, third, high = np.quantile(known, [[0], [0.25], [0.5], [0.75], [1]])
            figure.add_trace(go.Box(lowerfence=low, q1=first, median=middle, q3=third, upperfence=high, **look))
        elif len(names) > FEW_CLIENTS:
            figure.add_trace(go.Box(y=values, text=labels, boxpoints="all", jitter=0.5, pointpos=0, **look))
        else:
            text = ["" if value is None else f"{value:.3g}" for value in values]
            figure.add_trace(go.Bar(x=labels, y=values, text=text, textposition="outside", **look))
        mean = run.summary["test_plain_mean"]
        if mean is not None and len(names) <= FEW_CLIENTS:
            figure.add_hline(y=mean, line={"color": run_colour(index), "dash": "dot", "width": 1})
    note = "each client's model, on its own test split; dotted: plain mean over clients"
    lay_out(figure, f"{metric_name(runs)} per client", note, TOP + BOTTOM + 320, right=24)
    figure.update_layout(barmode="group", bargap=0.25)
    figure.update_yaxes(title=metric_name(runs))
    return figure


def bytes_by_codec(runs: Sequence[RunFolder]) -> go.Figure:
    """The mean length of a model message in each direction, and what the same model takes in 32 bits a number."""
    bars: list[tuple[RunFolder, str, float, float]] = []
    for run in runs:
        model = run.ledger[run.ledger["purpose"] == "model"]
        raw = run.shared_bytes
        for direction in DIRECTIONS:
            sizes = model.loc[model["direction"] == direction, "bytes"]
            bars.append((run, direction, float(sizes.mean()) if len(sizes) else 0.0, raw))
    unit, size = unit_of_bytes(max((max(mean, raw) for _, _, mean, raw in bars), default=1.0))
    places = [
        [f"{run_name(run)}<br>{plain_label(codec_name(run.experiment, direction))}" for run, direction, _, _ in bars],
        [direction for _, direction, _, _ in bars],
    ]
    figure = go.Figure()
    figure.add_trace(
        go.Bar(
            x=[mean / size for _, _, mean, _ in bars],
            y=places,
            orientation="h",
            width=0.7,
            name="as sent",
            marker_color=[run_colour(runs.index(run)) for run, _, _, _ in bars],
            text=[_shown(mean, raw) for _, _, mean, raw in bars],
            textposition="outside",
            cliponaxis=False,
            showlegend=False,
            hoverinfo="skip",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=[raw / size for _, _, _, raw in bars],
            y=places,
            mode="markers",
            name="the shared parameters in 32 bits each",
            marker={"symbol": "line-ns", "size": 20, "color": INK, "line": {"width": 2, "color": INK}},
            hovertemplate="%{x:.3g} " + unit + "<extra></extra>",
        )
    )
    height = TOP + BOTTOM + 2 * BAR_HEIGHT * len(runs) + BAR_HEIGHT
    note = "mean over all messages with a model or an update in them, without headers"
    lay_out(figure, "bytes of a model message, by codec", note, height, right=120)
    figure.update_xaxes(title=f"bytes per message ({unit})", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", showgrid=False, showdividers=False)
    return figure


def representations(run: RunFolder, points: pd.DataFrame) -> go.Figure:
    """Draw each client's test examples by t-SNE of the last hidden layer: a row of panels per channel.

    `points` has the columns channel, client, class, x, y (`embedding.embed`).
    """
    clients, channels = (list(dict.fromkeys(points[name])) for name in ("client", "channel"))
    figure = make_subplots(
        rows=len(channels),
        cols=len(clients),
        column_titles=[plain_label(str(client)) for client in clients],
        row_titles=channels if len(channels) > 1 else None,
        horizontal_spacing=0.01,
        vertical_spacing=0.04,
    )
    for (channel, client, name), group in points.groupby(["channel", "client", "class"], sort=False):
        classes = sorted(points.loc[points["client"] == client, "class"].unique())
        figure.add_trace(
            go.Scatter(
                x=group["x"],
                y=group["y"],
                mode="markers",
                name=plain_label(str(name)),
                showlegend=False,
                marker={"size": 5, "color": RUN_COLOURS[classes.index(name) % len(RUN_COLOURS)]},
                hovertemplate=f"class {plain_label(str(name))}<extra></extra>",
            ),
            row=channels.index(channel) + 1,
            col=clients.index(client) + 1,
        )
    note = "t-SNE of the last hidden layer, test graphs, one colour per class"
    lay_out(figure, f"What the model of {run_name(run)} tells apart", note, TOP + BOTTOM + PANEL * len(channels), 40)
    figure.update_xaxes(showticklabels=False, showgrid=False, ticks="", mirror=True)
    figure.update_yaxes(showticklabels=False, showgrid=False, mirror=True)
    return figure


def codec_name(experiment: Mapping[str, Any], direction: str) -> str:
    """The codecs of a direction, as a person would write them: "low_rank, quantized (4 bits)"."""
    content = experiment.get("downlink", experiment.get("codec")) if direction == "down" else experiment.get("codec")
    return _codec_text(content) or "identity"


def _codec_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return ", ".join(_codec_text(part) for part in content)
    if not isinstance(content, Mapping):
        return ""
    inner = content.get("codecs", content.get("codec"))
    text = str(content["name"]) if inner is None else _codec_text(inner)
    if "bits" in content:
        text += f" ({content['bits']} bits)"
    return f"{text} with feedback" if content.get("feedback") or content["name"] == "feedback" else text


def _shown(mean: float, raw: float) -> str:
    if not mean:
        return " nothing"
    return f" {human_bytes(mean)}" + (f", 1/{raw / mean:.3g}" if raw > 1.05 * mean else "")
