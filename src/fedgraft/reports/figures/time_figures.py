"""Figures of the simulated clock: who computed, sent and waited when, and what waiting cost each client.

Colours are Okabe and Ito's, as in other figures; what is late is hatched, so that no colour alone says so.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from fedgraft.experiment.recipes.units import human_seconds
from fedgraft.reports.figures import figure_style as style
from fedgraft.reports.figures.figure_style import BOTTOM, FAILED, INK, TOP, lay_out, run_grid, run_name
from fedgraft.reports.stored.orders import STATES, UNHEARD, WAITING, Order, orders, seconds_by_state
from fedgraft.reports.stored.stored_runs import StoredRun

COLOURS = dict(zip(STATES, ("#0072B2", "#E69F00", "#D5DAE1", "#56B4E9"), strict=True))
MOST_CLIENTS, MOST_ROUNDS = 30, 60
"""How many a figure shows."""
LANE = 24
"""Pixels of a client."""
_APART = 0.055
"""Share of the axis by which numbers of rounds are apart."""
_ROUNDING = 1e-9
"""Share of a run below which seconds are an error of rounding."""


def timeline(run: StoredRun) -> go.Figure:
    """Lanes of clients over simulated seconds: training, communication and waiting of every order; what was late.

    The busiest `MOST_CLIENTS` clients in the first `MOST_ROUNDS` rounds; the note says where that is not all.
    """
    style.check_drawable([run], same_metric=False)
    rounds = run.rounds[run.rounds["round"] <= MOST_ROUNDS]
    made = [order for order in orders(run.rounds) if order.round <= MOST_ROUNDS]
    busy = np.zeros(run.clients)
    for order in made:
        busy[order.client] += order.stopped - order.began
    lanes = _most(busy)
    place = {client: lane for lane, client in enumerate(lanes)}
    made = [order for order in made if order.client in place]
    ends = rounds["simulated_seconds"].to_numpy(np.float64)
    figure = go.Figure()
    for state in STATES:
        figure.add_traces(_bars(made, place, state))
    figure.add_traces([*_late_parts(made, place), *_marks(made, place)])
    _add_rounds(figure, rounds, ends, len(lanes))
    notes = _notes(run, made, rounds, len(lanes))
    height = TOP + BOTTOM + LANE * len(lanes) + 40
    lay_out(figure, f"timeline of rounds: {run_name(run)}", notes, height, right=24)
    figure.update_layout(barmode="overlay", bargap=0.25, hovermode="closest", legend_traceorder="normal")
    figure.update_xaxes(title="simulated seconds", range=[0, 1.01 * ends[-1] or 1], showgrid=False)
    style.name_lanes(figure, lanes, "client", top=-1.3)
    return figure


def waiting(runs: Sequence[StoredRun]) -> go.Figure:
    """Simulated seconds of each client over the whole run, a panel a run: at work, and lost waiting for others.

    The `MOST_CLIENTS` clients who waited longest, over all runs.
    """
    style.check_drawable(runs, same_metric=False)
    tables = [seconds_by_state(run) for run in runs]
    waited = np.zeros(max(run.clients for run in runs))
    for table in tables:
        waited[: len(table)] += table[WAITING].to_numpy()
    lanes = _most(waited)
    longest = max(float(table.reindex(lanes).sum(axis=1).max()) for table in tables)
    figure, height, places = run_grid(runs, max(LANE * len(lanes), 3 * LANE))
    for table, place in zip(tables, places, strict=True):
        _add_sums(figure, table.reindex(lanes, fill_value=0.0), place["row"], place["col"])
    for state, colour in COLOURS.items():
        if any(table[state].any() for table in tables):
            figure.add_trace(style.key(state, colour))
    note = "simulated seconds of the clients chosen, summed over rounds; the number is the seconds waiting"
    note += f"; the {MOST_CLIENTS} who waited longest of {len(waited)}" if len(waited) > len(lanes) else ""
    whose = f": {run_name(runs[0])}" if len(runs) == 1 else ""
    lay_out(figure, f"seconds lost waiting{whose}", note, height, right=24)
    figure.update_layout(barmode="stack", bargap=0.25, legend_traceorder="normal")
    figure.update_xaxes(title="simulated seconds", range=[0, 1.2 * longest or 1], rangemode="tozero")
    style.name_lanes(figure, lanes, "client")
    return figure


def _most(amounts: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[int]:
    """Return the clients with the largest amounts, at most `MOST_CLIENTS`, ascending."""
    return sorted(np.argsort(-amounts, kind="stable")[:MOST_CLIENTS].tolist())


def _notes(run: StoredRun, made: Sequence[Order], rounds: pd.DataFrame, clients: int) -> str:
    """Return what a reader of a timeline must know: first of every one, then of this."""
    ends = rounds["simulated_seconds"].to_numpy(np.float64)
    starts = np.concatenate([[0.0], ends[:-1]])
    texts = []
    if any(order.timing is None for order in made):
        texts.append(f"{UNHEARD}: dropped, or still on its way when the run ended")
    if (rounds["began"].to_numpy(np.float64) - starts > _ROUNDING * ends[-1]).any():
        texts.append("orders follow the server's probe")
    if clients < run.clients:
        texts.append(f"the busiest {clients} of {run.clients} clients")
    if len(run.rounds) > MOST_ROUNDS:
        texts.append(f"the first {MOST_ROUNDS} of {len(run.rounds)} rounds")
    always = "of each order: training, then what was sent down and up, then waiting for the round's end"
    return "<br>".join([always, "; ".join(texts)] if texts else [always])


def _bars(made: Sequence[Order], place: dict[int, int], state: str) -> list[go.Bar]:
    """Return the bars of a state, and its key; none where no client was ever in it."""
    spans = [
        (order, start, seconds) for order in made for name, start, seconds in order.spans() if name == state and seconds
    ]
    if not spans:
        return []
    return [
        style.bars(
            [seconds for _, _, seconds in spans],
            [place[order.client] for order, _, _ in spans],
            style.filled(COLOURS[state]),
            f"client %{{customdata[0]}}, round %{{customdata[1]}}: {state} %{{customdata[2]}}",
            base=[start for _, start, _ in spans],
            name=state,
            customdata=[[order.client, order.round, human_seconds(seconds)] for order, _, seconds in spans],
        )
    ]


def _late_parts(made: Sequence[Order], place: dict[int, int]) -> list[go.Bar]:
    """Hatch what clients did for a round after it had ended."""
    late = [order for order in made if order.late and order.stopped > order.round_end]
    if not late:
        return []
    hatched = {"shape": "/", "fgcolor": INK, "fillmode": "replace", "size": 6, "solidity": 0.3}
    return [
        style.bars(
            [order.stopped - order.round_end for order in late],
            [place[order.client] for order in late],
            {**style.filled("rgba(0, 0, 0, 0)"), "pattern": hatched},
            base=[order.round_end for order in late],
            name="late: after its round",
        )
    ]


def _marks(made: Sequence[Order], place: dict[int, int]) -> list[go.Scatter]:
    """Mark where a late answer arrives, and where one is lost."""
    arrived = [order for order in made if order.late and not order.lost and order.timing is not None]
    lost = [order for order in made if order.lost]
    looks = {
        "arrives late": (arrived, {"symbol": "diamond", "color": "white", "line": {"color": INK, "width": 1.6}}),
        "dropped or failed": (lost, {"symbol": "x", "color": FAILED, "line": {"color": "white", "width": 1}}),
    }
    return [
        style.points(
            [order.stopped for order in orders],
            [place[order.client] for order in orders],
            f"client %{{customdata[0]}}, round %{{customdata[1]}}: {name}",
            **{"mode": "markers", "marker": {"size": 11, **look}, "name": name, "cliponaxis": False},
            customdata=[[order.client, order.round] for order in orders],
        )
        for name, (orders, look) in looks.items()
        if orders
    ]


def _add_rounds(
    figure: go.Figure, rounds: pd.DataFrame, ends: np.ndarray[tuple[int], np.dtype[np.float64]], lanes: int
) -> None:
    """Draw a faint line at the end of every round, and numbers of rounds above, as many as there is room for."""
    x, y, line = (
        np.repeat(ends, 3),
        [-0.5, lanes - 0.5, None] * len(ends),
        {"color": "rgba(31, 41, 51, 0.35)", "width": 1},
    )
    figure.add_trace(style.points(x, y, mode="lines", line=line, name="end of a round"))
    middles = (np.concatenate([[0.0], ends[:-1]]) + ends) / 2
    numbered: list[int] = []
    for index, middle in enumerate(middles):
        if not numbered or middle - middles[numbered[-1]] > _APART * ends[-1]:
            numbered.append(index)
    texts = [str(rounds["round"].iloc[index]) for index in numbered]
    shown: dict[str, Any] = {"mode": "text", "text": texts, "textfont": {"size": 11.5}, "showlegend": False}
    figure.add_trace(style.points(middles[numbered], [-0.85] * len(numbered), **shown))


def _add_sums(figure: go.Figure, table: pd.DataFrame, row: int, col: int) -> None:
    """Draw a panel: a stacked bar a client, and the seconds that it waited."""
    lanes = np.arange(len(table))
    for state, colour in COLOURS.items():
        told = [[client, human_seconds(seconds)] for client, seconds in table[state].items()]
        hover, named = f"client %{{customdata[0]}}: {state} %{{customdata[1]}}", {"name": state, "showlegend": False}
        bars = style.bars(table[state], lanes, style.filled(colour), hover, customdata=told, **named)
        figure.add_trace(bars, row=row, col=col)
    labels = [f" {human_seconds(seconds)}" if seconds else " 0" for seconds in table[WAITING]]
    figure.add_trace(style.beside_bars(table.sum(axis=1), lanes, labels, textfont={"size": 12}), row=row, col=col)
