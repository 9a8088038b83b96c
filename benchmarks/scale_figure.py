"""The figure of `scale_nodes`: how seconds of a round and peak memory grow with nodes, edges and clients."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fedgraft.reports.figures.figure_style import BASELINE, RUN_MARKERS, lay_out, run_colour

WIDTH, HEIGHT = 1200, 680
PANELS = ("nodes", "edges", "clients")
ROWS = {"round_processor_seconds": "seconds of a round", "peak_gib": "peak memory, GiB"}
LINES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "nodes": (("nodes", "degree 50, 100 clients, 602 dense features"),),
    "edges": (("edges", "58,250 nodes, 100 clients, 602 dense features"),),
    "clients": (
        ("clients", "one graph of PubMed's size"),
        ("clients and nodes", "as many nodes for each, PubMed's size at 100"),
    ),
}
"""{panel: (series, name)}."""
TICKS = tuple(digit * 10.0**power for power in range(-1, 8) for digit in (1, 2, 5))


def figure(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> go.Figure:
    """A column for nodes, one for edges and one for clients; a row for seconds and one for memory."""
    made = make_subplots(
        rows=2, cols=3, shared_xaxes=True, shared_yaxes=True, horizontal_spacing=0.03, vertical_spacing=0.06
    )
    colour = 0
    for column, panel in enumerate(PANELS, 1):
        for series, name in LINES[panel]:
            points = results.get(series, ())
            for row, key in enumerate(ROWS, 1):
                trace = go.Scatter(
                    x=[point[panel] for point in points],
                    y=[point[key] for point in points],
                    name=f"{panel}: {name}",
                    mode="lines+markers",
                    line={"color": run_colour(colour)},
                    marker={"symbol": RUN_MARKERS[colour], "size": 8},
                    showlegend=row == 1,
                )
                made.add_trace(trace, row=row, col=column)
            colour += 1
        made.update_xaxes(title_text=panel, row=2, col=column)
    for row, title in enumerate(ROWS.values(), 1):
        made.update_yaxes(title_text=title, row=row, col=1)
    _add_reddit(made, results.get("reddit", ()))
    note = "recipe fedais, ten clients a round, one thread; processor seconds, scoring left out; both axes logarithmic"
    lay_out(made, "Node classification: a round as graphs grow", note, HEIGHT, right=24)
    made.update_xaxes(type="log", tickvals=TICKS, tickformat="~s")
    made.update_xaxes(tickvals=TICKS[::3], col=PANELS.index("edges") + 1)
    made.update_yaxes(type="log", tickvals=TICKS)
    return made


def _add_reddit(made: go.Figure, points: Sequence[Mapping[str, Any]]) -> None:
    """Reddit's size as a mark of its own in the panels of nodes and edges."""
    for point in points[:1]:
        for column, panel in enumerate(PANELS[:2], 1):
            for row, key in enumerate(ROWS, 1):
                mark = go.Scatter(
                    x=[point[panel]],
                    y=[point[key]],
                    name=f"Reddit's size: {point['nodes']:,} nodes, {point['edges'] / 1e6:.0f} million edges",
                    mode="markers",
                    marker={"symbol": "star", "size": 14, "color": BASELINE},
                    showlegend=(row, column) == (1, 1),
                )
                made.add_trace(mark, row=row, col=column)
