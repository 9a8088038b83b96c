"""Figure of why clients were chosen: the score of every client in every round, and who was chosen."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from fedgraft.contracts.selector import AGENT, SCORE
from fedgraft.errors import InputError
from fedgraft.reports.figures import figure_style as style
from fedgraft.reports.stored.orders import (
    AGENT_TITLE,
    explained_rounds,
    failed_at_training,
    is_explained,
    often_chosen,
    terms_of,
)
from fedgraft.reports.stored.stored_runs import StoredRun

MOST_CLIENTS, MOST_ROUNDS = 100, 150
"""Clients and rounds that are drawn: of more clients those chosen most often, of more rounds some, evenly spaced."""
LANE, LEAST_HEIGHT, MOST_HEIGHT = 24, 130, 640
"""Pixels: of a client's lane; of all of them, at least and at most."""
FEW_ROUNDS, MOST_TICKS = 12, 25
"""Up to here every round has its tick; most clients that are named on the axis."""
ROOMY = 80
"""Rounds up to which there are gaps between cells."""
GAP = 0.06
"""Between cells, as a share of a lane and of a round."""
HALF = np.array([-0.5, 0.5])
"""Where the cell of the only round begins and ends."""
MARK = 0.3
"""Half the width of a mark, in rounds."""
SCALE = ((0.0, "#F7F0DC"), (0.3, "#F6C96B"), (0.65, "#D9743F"), (1.0, "#7A1F4B"))
EDGES = (2, 98)
"""Percentiles between which colours differ: one far-off value must not make all others look the same."""
_RAW, _RANK = "value", "rank within the round"

Cells = NDArray[np.float64]


def why_chosen(run: StoredRun) -> go.Figure:
    """Draw the score of every client in every round, or the agent's value where there is none; mark who was chosen.

    Raises `InputError` for a run whose rounds have no terms.
    """
    if not is_explained(run):
        raise InputError(f"{run.path} does not tell why clients were chosen: its selector has no terms, or drew.")
    rows, lanes = _rounds(run), often_chosen(run, MOST_CLIENTS)
    names = terms_of(rows)
    shown = next((name for name in (SCORE, AGENT) if name in names), names[-1])
    place = {client: lane for lane, client in enumerate(lanes)}
    values = _cells(rows, place, shown)
    x = np.array([row["round"] for row in rows])
    figure = go.Figure(_bars(values, x, shown, names, _texts(rows, lanes, names)))
    height = int(np.clip(LANE * len(lanes), LEAST_HEIGHT, MOST_HEIGHT))
    figure.add_traces(_marks(rows, place, x, height / len(lanes)))
    title = f"{_title(shown)} of each client, and who was chosen: {style.run_name(run)}"
    style.lay_out(figure, title, _note(run, rows, values), style.TOP + style.BOTTOM + height, right=24)
    figure.update_layout(plot_bgcolor=style.NOT_CHOSEN, hovermode="closest", barmode="overlay")
    figure.update_xaxes(title="round", showgrid=False, tickformat="d", range=[x[0] - 0.5, x[-1] + 0.5])
    figure.update_xaxes(dtick=1 if len(rows) <= FEW_ROUNDS else None)
    what = "client" if len(lanes) == run.clients else f"client (of {run.clients:,}, chosen most often)"
    style.name_lanes(figure, lanes, what, MOST_TICKS)
    _add_switch(figure, values, _title(shown))
    return figure


def _bars(values: Cells, x: NDArray[np.int64], shown: str, names: Sequence[str], texts: NDArray[np.object_]) -> go.Bar:
    """Return a cell for each value, from half way to the round before to half way to the next; none where none is."""
    lanes, columns = np.nonzero(np.isfinite(values))
    middles = (x[1:] + x[:-1]) / 2
    edges = np.concatenate([[1.5 * x[0] - x[1] / 2], middles, [1.5 * x[-1] - x[-2] / 2]]) if len(x) > 1 else x[0] + HALF
    gap = GAP if len(x) <= ROOMY and LANE * len(values) <= MOST_HEIGHT else 0.0
    bar = {"title": {"text": _title(shown), "side": "right"}, "thickness": 14, "outlinewidth": 0}
    return style.bars(
        np.diff(edges)[columns] - gap,
        lanes,
        {**style.filled(values[lanes, columns]), "colorscale": SCALE, **_range(values), "colorbar": bar},
        _template(names),
        base=edges[columns] + gap / 2,
        width=1 - gap,
        showlegend=False,
        customdata=texts[lanes, columns],
    )


def _rounds(run: StoredRun) -> list[Any]:
    """The rounds to draw: all, or some of them, evenly spaced, the last one too."""
    rows: list[Any] = run.rounds.to_dict("records")
    if len(rows) <= MOST_ROUNDS:
        return rows
    return [rows[place] for place in np.linspace(0, len(rows) - 1, MOST_ROUNDS).round().astype(int)]


def _cells(rows: Sequence[Any], place: Mapping[int, int], name: str) -> Cells:
    """Return a term of each client in each round, float64 [clients, rounds]; nan where there is none."""
    cells = np.full((len(place), len(rows)), np.nan)
    for column, row in enumerate(rows):
        for client, value in row["explanation"].get(name, {}).items():
            if client in place:
                cells[place[client], column] = value
    return cells


def _ranks(values: Cells) -> Cells:
    """Return ranks within each round, from 0 to 1 for the highest; equal values have their mean rank."""
    ranks = pd.DataFrame(values).rank()
    return ((ranks - 1) / (ranks.count() - 1).clip(lower=1)).to_numpy()


def _range(values: Cells) -> dict[str, float]:
    """The values at which colours begin and end."""
    known = values[np.isfinite(values)]
    low, high = np.percentile(known, EDGES).tolist() if len(known) else (0.0, 1.0)
    return {"cmin": low, "cmax": high if high > low else low + 1.0}


def _marks(rows: Sequence[Any], place: Mapping[int, int], x: NDArray[np.int64], lane: float) -> list[go.Scatter]:
    """Return a bar with a white edge across every cell of a client that was chosen: two lines, however many bars."""
    half = MARK * float(np.diff(x).min()) if len(x) > 1 else MARK
    bars = [
        (at, place[client]) for at, row in zip(x, rows, strict=True) for client in row["selected"] if client in place
    ]
    middle, lanes = np.array(bars, np.float32).reshape(-1, 2).repeat(3, 0).T
    across = middle + np.tile(np.array([-half, half, np.nan], np.float32), len(bars))
    width = float(np.clip(lane / 4, 1.2, 5))
    looks = [{"color": "white", "width": 1.6 * width}, {"color": style.INK, "width": width}]
    return [
        style.points(across, lanes, mode="lines", line=look, name="chosen", showlegend=look is looks[1])
        for look in looks
    ]


def _texts(rows: Sequence[Any], lanes: Sequence[int], names: Sequence[str]) -> NDArray[np.object_]:
    """Return texts of each cell, object [clients, rounds, 3 + terms]: client, round, whether chosen, every term."""
    columns = []
    for row in rows:
        chosen, explanation = {*row["selected"]}, [row["explanation"].get(name, {}) for name in names]
        failed = failed_at_training(row["failed"])
        columns.append(
            [
                [
                    str(client),
                    str(row["round"]),
                    _fate(client, chosen, failed),
                    *(_number(of.get(client)) for of in explanation),
                ]
                for client in lanes
            ]
        )
    return np.array(columns, dtype=np.object_).transpose(1, 0, 2)


def _fate(client: int, chosen: set[int], failed: set[int]) -> str:
    if client in chosen:
        return "chosen, failed" if client in failed else "chosen"
    return "not chosen"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _template(names: Sequence[str]) -> str:
    """What is shown of a cell that the pointer is on."""
    lines = [f"{_title(name)}: %{{customdata[{number}]}}" for number, name in enumerate(names, 3)]
    head = "<b>client %{customdata[0]}, round %{customdata[1]}: %{customdata[2]}</b>"
    return "<br>".join([head, *lines])


def _title(name: str) -> str:
    """What a term is called."""
    return AGENT_TITLE if name == AGENT else style.plain_label(name)


def _note(run: StoredRun, rows: Sequence[Any], values: Cells) -> str:
    """What is drawn, and what is left out."""
    texts = ["bars mark the chosen"]
    if np.isnan(values).any():
        texts.append("grey: no value")
    if len(rows) < len(run.rounds):
        texts.append(f"{len(rows)} of {len(run.rounds):,} rounds, evenly spaced")
    trained = sum(map(bool, run.rounds["selected"]))
    if drawn := trained - len(explained_rounds(run)):
        texts.append(f"drawn at random in {drawn:,} of {trained:,} rounds")
    return "; ".join(texts)


def _add_switch(figure: go.Figure, values: Cells, title: str) -> None:
    """Buttons that colour cells by the value, or by its rank within the round."""
    known, ranks, buttons = np.isfinite(values), _ranks(values), []
    for label, colours, limits, text in (
        (_RAW, values[known].tolist(), _range(values), title),
        (_RANK, ranks[known].round(3).tolist(), {"cmin": 0.0, "cmax": 1.0}, _RANK),
    ):
        ends = {f"marker.{end}": value for end, value in limits.items()}
        changes = {"marker.color": [colours], **ends, "marker.colorbar.title.text": text}
        buttons.append({"label": label, "method": "restyle", "args": [changes, [0]]})
    style.add_buttons(figure, buttons)
