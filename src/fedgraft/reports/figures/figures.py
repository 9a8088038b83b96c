"""Figures of stored runs: each a function from runs to a Plotly figure that shows inline in a notebook.

The n-th run of a list has the same colour and marker in every figure. Colours are Okabe and Ito's (runs) and Tol's
(purposes), which people with any colour vision tell apart.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from fedgraft.engine.server.ledger import DIRECTIONS, PURPOSES
from fedgraft.errors import InputError
from fedgraft.experiment.recipes.units import human_bytes, unit_of_bytes
from fedgraft.reports.figures import figure_style as style
from fedgraft.reports.figures.client_figures import bytes_by_codec, score_per_client
from fedgraft.reports.figures.curve_figures import curve_of, precision_recall, score, training_loss
from fedgraft.reports.figures.time_figures import timeline, waiting
from fedgraft.reports.stored.orders import failed_at_training, often_chosen
from fedgraft.reports.stored.stored_runs import COSTS, StoredRun, default_target

MOST_LANES, MOST_NAMED = 200, 20
"""Clients that are shown of very many, those chosen most often, and how many of them are named on the axis."""


def bytes_to_target(runs: Sequence[StoredRun], target: float | None = None) -> go.Figure:
    """Bytes on the wire until the validation score first was as good as `target`.

    Args:
        runs: runs with one metric.
        target: the score to reach; None = `stored_runs.default_target`, the best that any run reaches, worsened by
            0.2 %.
    """
    style.check_drawable(runs)
    target = default_target(runs) if target is None else target
    if math.isnan(target):
        raise InputError("No run has a validation score, so there is no target to reach.")
    points = [run.reaching(target) for run in runs]
    sizes = [None if point is None else point["bytes"] for point in points]
    unit, size = unit_of_bytes(max((value for value in sizes if value is not None), default=0))
    longest = max((value for value in sizes if value is not None), default=size)
    figure = go.Figure()
    for index, (run, point) in enumerate(zip(runs, points, strict=True)):
        text = run.missed(target) if point is None else f"{human_bytes(point['bytes'])}, round {round(point['round'])}"
        figure.add_trace(
            style.bars(
                [0 if point is None else point["bytes"] / size],
                [style.run_name(run)],
                {"color": style.run_colour(index)},
                f"{style.run_name(run)}: {text}",
                **{"width": 0.62, "text": [text], "textposition": "outside", "cliponaxis": False, "showlegend": False},
            )
        )
    sign = "≤" if runs[0].better == "lower" else "≥"
    title = f"bytes to validation {style.metric_name(runs)} {sign} {style.short_number(target)}"
    top, lanes = style.TOP - 20, style.BAR_HEIGHT * max(len(runs), 2)
    style.lay_out(figure, title, "", top + style.BOTTOM + lanes, top=top, right=24)
    figure.update_xaxes(title=f"bytes on the wire ({unit})", range=[0, 1.4 * longest / size])
    figure.update_yaxes(autorange="reversed", showgrid=False, ticklabelstandoff=6)
    return figure


def chosen(runs: Sequence[StoredRun]) -> go.Figure:
    """Clients by rounds, a panel a run: who was chosen when, and who of them failed."""
    style.check_drawable(runs, same_metric=False)
    figure, height, places = style.run_grid(runs, int(np.clip(max(run.clients for run in runs) * 18, 130, 420)))
    for run, place in zip(runs, places, strict=True):
        shown = often_chosen(run, MOST_LANES)
        for bar in _spells(run, shown):
            figure.add_trace(bar, **place)
        what = "client" if len(shown) == run.clients else f"client (of {run.clients:,})"
        style.name_lanes(figure, shown, what, MOST_NAMED, **place)
        span = [0.5, max(len(run.rounds), 1) + 0.5]
        few = 1 if len(run.rounds) <= style.FEW_ROUNDS else None
        figure.update_xaxes(title="round", dtick=few, tickformat="d", range=span, **place)
    for name, colour in (("chosen", style.CHOSEN), ("chosen, failed", style.FAILED)):
        figure.add_trace(style.key(name, colour))
    whose = f": {style.run_name(runs[0])}" if len(runs) == 1 else ""
    note = "a bar from the first to the last of rounds in a row"
    style.lay_out(figure, f"who was chosen when{whose}", note, height, right=24)
    figure.update_layout(barmode="overlay", plot_bgcolor=style.NOT_CHOSEN, hovermode="closest")
    figure.update_xaxes(showgrid=False, zeroline=False)
    figure.update_yaxes(showgrid=False, zeroline=False)
    return figure


def bytes_by_purpose(runs: Sequence[StoredRun]) -> go.Figure:
    """Draw the bytes by purpose and direction: two stacked bars a run."""
    style.check_drawable(runs, same_metric=False)
    sums = [run.sent for run in runs]
    longest = max(float(amounts.groupby("direction").sum().max()) if len(amounts) else 0 for amounts in sums)
    unit, size = unit_of_bytes(longest)
    bars = [(run, direction, amounts) for run, amounts in zip(runs, sums, strict=True) for direction in DIRECTIONS]
    places = [[style.run_name(run) for run, _, _ in bars], [direction for _, direction, _ in bars]]
    figure = go.Figure()
    for purpose in PURPOSES:
        amounts = [float(sizes.get((direction, purpose), 0)) for _, direction, sizes in bars]
        if any(amounts):
            look = {"color": style.PURPOSE_COLOURS[purpose], "line": {"color": "white", "width": 0.5}}
            shown = {"name": purpose, "width": 0.7, "customdata": [human_bytes(amount) for amount in amounts]}
            sizes_of = [amount / size for amount in amounts]
            figure.add_trace(style.bars(sizes_of, places, look, f"{purpose}: %{{customdata}}", **shown))
    totals = [float(sizes.get(direction, pd.Series(dtype=float)).sum()) for _, direction, sizes in bars]
    labels = [f" {human_bytes(total)}" for total in totals]
    figure.add_trace(style.beside_bars([total / size for total in totals], places, labels))
    height = style.TOP + style.BOTTOM + 2 * style.BAR_HEIGHT * max(len(runs), 1)
    note = "down: server to client; up: client to server"
    style.lay_out(figure, "bytes by purpose and direction", note, height, right=24)
    figure.update_layout(barmode="stack", legend_traceorder="normal")
    figure.update_xaxes(title=f"bytes on the wire ({unit})", range=[0, 1.12 * longest / size or 1])
    figure.update_yaxes(autorange="reversed", showgrid=False, showdividers=False)
    return figure


def every(runs: Sequence[StoredRun], target: float | None = None, against: str = "rounds") -> list[go.Figure]:
    """All figures, in the order in which a report shows them.

    Bytes to target are left out if no run has a validation score. Of runs that are means over seeds what happened round
    by round is that of the first seed.

    Args:
        runs: runs with one metric.
        target: as for `bytes_to_target`.
        against: what the first figure shows scores against, as for `score`.
    """
    drawn = [score(runs, name) for name in dict.fromkeys([against, *COSTS])]
    if target is not None or not math.isnan(default_target(runs)):
        drawn.append(bytes_to_target(runs, target))
    if all(len(run.summary["test_per_client"]) > 1 for run in runs):
        drawn.append(score_per_client(runs))
    firsts = [run.seeds[0] if run.seeds else run for run in runs]
    if any(map(curve_of, firsts)):
        drawn.append(precision_recall(firsts))
    drawn += [bytes_by_purpose(runs), bytes_by_codec(runs)]
    if any(run.rounds["loss"].notna().any() for run in runs):
        drawn.append(training_loss(runs))
    drawn += [chosen([run]) for run in firsts]
    return [*drawn, *map(timeline, firsts), *(waiting([run]) for run in firsts)]


def _spells(run: StoredRun, shown: Sequence[int]) -> list[go.Bar]:
    """Return bars over the rounds in a row in which a client was chosen, and those in which it failed."""
    cells = _choices(run)[shown]
    bars = []
    for state, (name, colour) in enumerate((("chosen", style.CHOSEN), ("chosen, failed", style.FAILED)), 1):
        steps = np.diff((cells == state).astype(np.int8), axis=1, prepend=0, append=0)
        (lanes, first), (_, after) = np.nonzero(steps > 0), np.nonzero(steps < 0)
        bars.append(
            style.bars(
                after - first,
                lanes,
                style.filled(colour),
                f"client %{{customdata[0]}}, rounds %{{customdata[1]}} to %{{customdata[2]}}: {name}",
                base=first + 0.5,
                customdata=np.column_stack([np.take(shown, lanes), first + 1, after]),
                **{"width": 0.8, "name": name, "showlegend": False},
            )
        )
    return bars


def _choices(run: StoredRun) -> np.ndarray[tuple[int, int], np.dtype[np.int8]]:
    """[clients, rounds]: 0 not chosen, 1 chosen, 2 chosen but failed."""
    cells = np.zeros((run.clients, max(len(run.rounds), 1)), dtype=np.int8)
    for column, (selected, failed) in enumerate(zip(run.rounds["selected"], run.rounds["failed"], strict=True)):
        cells[list(selected), column] = 1
        cells[list(failed_at_training(failed)), column] = 2
    return cells
