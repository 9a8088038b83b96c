"""Style of figures of runs: colours, fonts, margins, and lines whose labels do not overlap."""

import html
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fedgraft.engine.server.ledger import PURPOSES
from fedgraft.errors import InputError, printable
from fedgraft.reports.stored.stored_runs import (
    AFTER_STEPS,
    METRIC_NAMES,
    StoredRun,
    check_comparable,
    joined_baselines,
    single,
)

RUN_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777")
RUN_MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down", "star", "cross")
_COLOURS = ("#332288", "#88CCEE", "#44AA99", "#DDCC77", "#CC6677", "#AA4499", "#117733", "#882255", "#BBBBBB")
PURPOSE_COLOURS = dict(zip(PURPOSES, _COLOURS, strict=True))
NOT_CHOSEN, CHOSEN, FAILED = "#EEF1F5", "#0072B2", "#D55E00"
INK, GRID, BASELINE = "#1F2933", "#E4E7EB", "#52606D"
_FONT = {"family": "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif", "size": 14, "color": INK}
SCORE_HEIGHT, LABEL_GAP = 460, 19
TOP, BOTTOM = 84, 64
BAR_HEIGHT, MOST_MARKERS = 34, 16
MOST_TIMES = 2.5
RUN_GAP = 92
"""Pixels between two lines of panels of runs."""
FEW_ROUNDS = 12
"""Rounds up to which each has its own tick."""
LEGEND_WIDTH, LEGEND_LINE = 980, 22
"""Pixels: what a legend's line can be sure to have, and how high it is."""


def check_drawable(runs: Sequence[StoredRun], same_metric: bool = True) -> None:
    """Raise `InputError` unless there are runs, scored by the same metric where that matters."""
    if not runs:
        raise InputError("A figure needs at least one run.")
    if same_metric:
        check_comparable(runs)


def grid(
    titles: Sequence[str], columns: int, panel: int, gap: int, apart: float
) -> tuple[go.Figure, int, list[dict[str, int]]]:
    """Make a figure of a panel per title, line by line; "" is a panel without one.

    Height of a panel and the gap between lines are in pixels; columns are apart by a share of the width.

    Returns:
        The figure, its height in pixels, and the row and the column of each panel.
    """
    lines = -(-len(titles) // columns)
    height = TOP + BOTTOM + lines * panel + (lines - 1) * gap
    figure = make_subplots(
        rows=lines,
        cols=columns,
        subplot_titles=titles,
        horizontal_spacing=apart,
        vertical_spacing=gap / (height - TOP - BOTTOM) if lines > 1 else 0,
    )
    return figure, height, [{"row": index // columns + 1, "col": index % columns + 1} for index in range(len(titles))]


def run_grid(runs: Sequence[StoredRun], panel: int) -> tuple[go.Figure, int, list[dict[str, int]]]:
    """Make a figure of a panel per run, as `grid`, two in a line; the panel of a single one has no title."""
    titles = [run_name(run) if len(runs) > 1 else "" for run in runs]
    return grid(titles, 1 if len(runs) == 1 else 2, panel, RUN_GAP, 0.08)


def score_range(runs: Sequence[StoredRun], splits: Sequence[str]) -> tuple[float, float, bool]:
    """Return where the axis of scores begins and ends, and whether that leaves points of the runs out.

    The runs rule it, by their scores after the first third of the scored rounds. Their earlier scores, and then the
    baselines, the nearest first, are on it too as long as it becomes no more than `MOST_TIMES` as long: an untrained
    model, or a bad baseline, can be so far off that the runs would be one flat line.
    """
    runs = single(runs)
    columns = [*splits, *(AFTER_STEPS[split] for split in splits)]
    lines = [run.curve[column].dropna().to_numpy() for run in runs for column in columns if column in run.curve]
    late = np.concatenate([line[len(line) // 3 :] for line in lines])
    if not len(late):
        late = np.array([score for _, score in joined_baselines([run.summary for run in runs])] or [0.0, 1.0])
    low, high = float(late.min()), float(late.max())
    longest = MOST_TIMES * (high - low)
    every = np.concatenate(lines)
    if len(every) and max(high, every.max()) - min(low, every.min()) <= longest:
        low, high = min(low, float(every.min())), max(high, float(every.max()))
        longest = MOST_TIMES * (high - low)
    marks = [score for _, score in joined_baselines([run.summary for run in runs])]
    for mark in sorted(marks, key=lambda score: max(low - score, score - high)):
        if max(high, mark) - min(low, mark) <= longest:
            low, high = min(low, mark), max(high, mark)
    pad = 0.06 * (high - low) or 0.05 * abs(high) or 0.5
    low, high = low - pad, high + pad
    return low, high, bool(((every < low) | (every > high)).any())


def baseline_marks(runs: Sequence[StoredRun]) -> list[tuple[float, str]]:
    """(score, label with the score) of each baseline, ascending."""
    joined = joined_baselines([run.summary for run in single(runs)])
    return sorted((score, f"{name} {short_number(score)}") for name, score in joined)


def add_baselines(figure: go.Figure, marks: list[tuple[float, str]], low: float, high: float) -> None:
    """Lines across the figure, labels at its right edge pushed apart; an arrow at the edge for what lies beyond."""
    pixels = (SCORE_HEIGHT - TOP - BOTTOM) / (high - low)
    wanted = [(min(max(value, low), high) - low) * pixels for value, _ in marks]
    places = within(spread_apart(wanted, LABEL_GAP), LABEL_GAP, pixels * (high - low))
    for (value, text), at, place in zip(marks, wanted, places, strict=True):
        beyond = "" if low <= value <= high else "▲ " if value > high else "▼ "
        if not beyond:
            line = {"color": BASELINE, "width": 1.3, "dash": "dot"}
            figure.add_shape(type="line", xref="paper", x0=0, x1=1, y0=value, y1=value, layer="below", line=line)
        arrow = {"showarrow": True, "arrowhead": 0, "arrowwidth": 1}
        figure.add_annotation(
            **{"x": 1, "xref": "paper", "xanchor": "left", "align": "left", "ax": 14, "ay": at - place, **arrow},
            y=min(max(value, low), high),
            text=beyond + plain_label(text),
            arrowcolor="rgba(0, 0, 0, 0)" if beyond else BASELINE,
            font={"size": 12.5, "color": BASELINE},
        )


def within(places: Sequence[float], gap: float, length: float) -> list[float]:
    """Ascending places, `gap` apart, moved into 0 .. `length` as far as all of them have room there.

    >>> within([-4.0, 6.0, 96.0], 10.0, 100.0)
    [0.0, 10.0, 96.0]
    """
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap if moved else 0.0))
    for i, ceiling in enumerate(length - gap * np.arange(len(moved))):
        moved[-1 - i] = min(moved[-1 - i], float(ceiling))
    return moved


def spread_apart(places: Sequence[float], gap: float) -> list[float]:
    """Ascending places moved as little as it takes for neighbours to be at least `gap` apart.

    >>> spread_apart([0.0, 1.0, 50.0], 10.0)
    [-4.5, 5.5, 50.0]
    """
    clusters: list[list[float]] = []
    for place in places:
        clusters.append([place, 1.0])
        while len(clusters) > 1 and clusters[-1][0] - clusters[-2][0] < gap * (clusters[-1][1] + clusters[-2][1]) / 2:
            middle, count = clusters.pop()
            other, others = clusters[-1]
            clusters[-1] = [(middle * count + other * others) / (count + others), count + others]
    return [middle + gap * (i - (count - 1) / 2) for middle, count in clusters for i in range(int(count))]


def lay_out(figure: go.Figure, title: str, note: str, height: int, right: int, top: int = TOP) -> None:
    """Title and note at the top left, legend beneath, light background; margins in pixels.

    `meta` of the layout has title and note as well, for a page that shows them as text of its own.
    """
    text = f"<b>{title[:1].upper()}{title[1:]}</b>"
    if note:
        text += f"<br><span style='font-size:12.5px;color:{BASELINE}'>{note}</span>"
    names = [trace.name for trace in figure.data if trace.name and trace.showlegend is not False]
    lines = -(-len(names) // max(1, LEGEND_WIDTH // (45 + 7 * max(map(len, names), default=1))))
    bottom = BOTTOM + LEGEND_LINE * lines
    figure.update_layout(
        meta={"title": f"{title[:1].upper()}{title[1:]}", "note": note},
        template="plotly_white",
        font=_FONT,
        title={
            **{"text": text, "x": 0, "xref": "container", "y": 1, "yref": "container", "yanchor": "top"},
            **{"pad": {"t": 20, "l": 10}, "font": {"size": 17}},
        },
        height=height - BOTTOM + bottom,
        margin={"l": 72, "r": right, "t": top, "b": bottom},
        legend={
            **{"orientation": "h", "x": 0, "xref": "container", "xanchor": "left"},
            **{"y": 0, "yref": "container", "yanchor": "bottom"},
        },
        **{"paper_bgcolor": "white", "plot_bgcolor": "white", "hoverlabel": {"font": {"size": 13}}},
    )
    axis = {"gridcolor": GRID, "zeroline": False, "automargin": True, "title_standoff": 10, "linecolor": "#9AA5B1"}
    figure.update_xaxes(showline=True, ticks="outside", tickcolor="#9AA5B1", **axis)
    figure.update_yaxes(showline=True, **axis)


def name_lanes(
    figure: go.Figure, lanes: Sequence[int], title: str, most: int | None = None, top: float = -0.5, **place: int
) -> None:
    """Name lanes by their clients, the first at the top; of more than there is room for some, evenly spaced.

    The axis ends at `top` above the first lane; `place` is the row and the column of a panel, if there are any.
    """
    named = list(range(0, len(lanes), 1 if most is None else -(-len(lanes) // most)))
    texts, span = [str(lanes[lane]) for lane in named], [len(lanes) - 0.5, top]
    figure.update_yaxes(title=title, tickvals=named, ticktext=texts, range=span, showgrid=False, **place)


def bars(x: Any, y: Any, marker: Mapping[str, Any], hover: str = "", **more: Any) -> go.Bar:
    """Return bars from left to right; `hover` is shown of the one that the pointer is on."""
    return go.Bar(x=x, y=y, orientation="h", marker=marker, **_pointer(hover), **more)


def points(x: Any, y: Any, hover: str = "", **more: Any) -> go.Scatter:
    """Return points or lines; `hover` is shown of the point that the pointer is on."""
    return go.Scatter(x=x, y=y, **_pointer(hover), **more)


def _pointer(hover: str) -> dict[str, str]:
    return {"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}


def filled(colour: Any) -> dict[str, Any]:
    """Return the marker of bars of a colour, or of one each, without an edge."""
    return {"color": colour, "line": {"width": 0}}


def run_marker(index: int, size: int, **more: Any) -> dict[str, Any]:
    """Return the marker of the n-th run."""
    return {"symbol": RUN_MARKERS[index % len(RUN_MARKERS)], "size": size, **more}


def key(name: str, colour: str) -> go.Scatter:
    """Return an entry of the legend: a square."""
    look = {"color": colour, "size": 13, "symbol": "square"}
    return go.Scatter(x=[None], y=[None], mode="markers", marker=look, name=name)


def beside_bars(x: Any, y: Any, text: Sequence[str], **more: Any) -> go.Scatter:
    """Return texts at the right of bars, which end at x."""
    shown: dict[str, Any] = {"mode": "text", "textposition": "middle right", "cliponaxis": False, "showlegend": False}
    return points(x, y, **shown, text=text, **more)


def add_buttons(figure: go.Figure, buttons: Sequence[Mapping[str, Any]]) -> None:
    """Buttons at the top right; the first one is how the figure begins."""
    at = {"x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "pad": {"b": 8}, "direction": "left"}
    look = {"showactive": True, "font": {"size": 12.5}, "bgcolor": "white", "bordercolor": GRID}
    figure.update_layout(updatemenus=[{"type": "buttons", "buttons": buttons, **at, **look}])


def margin(marks: list[tuple[float, str]], least: int) -> int:
    """Room at the right for the longest label, perhaps with an arrow before it, in pixels."""
    return max([least, *(int(26 + 7.0 * len(f"▼ {text}")) for _, text in marks)])


def ticked_rounds(figure: go.Figure, rounds: int) -> None:
    """Give every round of few its own tick; Plotly would put some between two rounds."""
    if rounds <= FEW_ROUNDS:
        figure.update_xaxes(dtick=1)


def run_colour(index: int) -> str:
    """The colour of the n-th run."""
    return RUN_COLOURS[index % len(RUN_COLOURS)]


def plain_label(name: str) -> str:
    """A name as Plotly is to show it, character by character.

    Without this it reads tags, entities, line ends, fields of hover templates such as %{x}, and, where a page has
    MathJax, formulas between dollars. Whoever names a run, a client or a class could put a link into a report.
    """
    escaped = html.escape(printable(name), quote=False)
    return escaped.replace("%{", "&#37;{").replace("$", "&#36;")


def run_name(run: StoredRun) -> str:
    """Its label as a figure shows it."""
    return plain_label(run.label)


def metric_name(runs: Sequence[StoredRun]) -> str:
    """The metric as people write it."""
    name = runs[0].metric
    return METRIC_NAMES.get(name, plain_label(name))


def short_number(value: float) -> str:
    """Return a number with four significant digits."""
    return f"{value:.4g}"


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SECONDS_TO_DRAW = 120


def draw(figure: go.Figure, path: Path, width: int) -> str:
    """Write a figure as a PNG, `width` pixels wide; as a page beside it where no browser is there, or where it fails.

    Returns:
        What was done, for people.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return _as_page(figure, path, f"No browser ({', '.join(BROWSERS)}) to draw {path.name} with")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "figure.html"
        figure.write_html(page, config={"staticPlot": True}, default_width=f"{width}px")
        size = f"--window-size={width + 16},{int(figure.layout.height) + 16}"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=5000"]
        where = [f"--user-data-dir={folder}/profile", size, f"--screenshot={path.resolve()}"]
        command = [browser, *options, *where, page.as_uri()]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=SECONDS_TO_DRAW)
        except (OSError, subprocess.SubprocessError) as error:
            return _as_page(figure, path, f"{browser} did not draw {path.name} ({type(error).__name__})")
    return f"Drawn: {path}"


def _as_page(figure: go.Figure, path: Path, why: str) -> str:
    figure.write_html(path.with_suffix(".html"))
    return f"{why}: see {path.with_suffix('.html')}."
