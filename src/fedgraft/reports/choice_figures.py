"""Figure of why clients were chosen: the score of every client in every round, and who was chosen."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from fedgraft.contracts.selector import AGENT, SCORE
from fedgraft.engine.server.choosing import MOST_EXPLAINED
from fedgraft.engine.server.stopping import PROBE, SCORING
from fedgraft.errors import InputError
from fedgraft.reports.choices import is_explained, terms_of
from fedgraft.reports.figure_style import BOTTOM, GRID, INK, TOP, lay_out, plain_label, run_name, short_number
from fedgraft.reports.stored_runs import RunFolder

MOST_CLIENTS, MOST_ROUNDS = 200, 300
"""Clients and rounds that are drawn: of more clients those that were chosen most often, of more rounds some, evenly."""
LANE, MOST_HEIGHT = 22, 620
"""Pixels of a client's lane, and of all of them."""
FEW_ROUNDS, MOST_TICKS = 12, 24
"""Up to here every round has its tick; most clients that are named."""
SCALE = [[0.0, "#FFF7E6"], [0.25, "#FDD49E"], [0.5, "#FC8D59"], [0.75, "#C7406B"], [1.0, "#5B1A6B"]]
NONE = "#EEF1F5"
EDGES = (2, 98)
"""Percentiles of all values between which colours differ: one far-off value must not make all others look the same."""


def why_chosen(run: RunFolder) -> go.Figure:
    """Draw the score of every client in every round, and mark the chosen; the agent's value where there is no score.

    Raises `InputError` for a run whose rounds have no terms.
    """
    if not is_explained(run):
        raise InputError(f"{run.path} does not tell why clients were chosen: its selector draws them at random.")
    rows, lanes = _shown_rounds(run), _shown_clients(run)
    names = terms_of(rows)
    shown = next((name for name in (SCORE, AGENT) if name in names), names[-1])
    place = {client: lane for lane, client in enumerate(lanes)}
    values = _cells(rows, place, shown)
    x = np.array([row["round"] for row in rows])
    figure = go.Figure()
    known = values[np.isfinite(values)]
    low, high = np.percentile(known, EDGES) if len(known) else (0.0, 1.0)
    roomy = len(lanes) <= 40 and len(rows) <= 80
    figure.add_trace(
        go.Heatmap(
            z=values,
            x=x,
            y=np.arange(len(lanes)),
            colorscale=SCALE,
            zmin=low,
            zmax=high if high > low else low + 1,
            xgap=1 if roomy else 0,
            ygap=1 if roomy else 0,
            colorbar={"title": {"text": _title(shown), "side": "right"}, "thickness": 14, "outlinewidth": 0},
            customdata=_told(rows, lanes, names),
            hovertemplate=_template(names),
            hoverongaps=True,
        )
    )
    figure.add_trace(_marks(rows, place, x, len(lanes)))
    height = int(np.clip(LANE * len(lanes), 130, MOST_HEIGHT))
    lay_out(figure, f"why these clients{_of(run)}", _note(run, rows, lanes), TOP + BOTTOM + height, right=24)
    figure.update_layout(plot_bgcolor=NONE)
    figure.update_xaxes(title="round", showgrid=False, tickformat="d", dtick=1 if len(rows) <= FEW_ROUNDS else None)
    _name_lanes(figure, lanes)
    return figure
