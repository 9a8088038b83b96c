"""Figures of what clients have: their scores, the length of a message, and where their examples lie for the model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from fedgraft.contracts.abilities.predicting import PredictingTask
from fedgraft.engine.server.ledger import DIRECTIONS
from fedgraft.errors import InputError
from fedgraft.experiment.predicting.site_run import load_run
from fedgraft.experiment.recipes.units import human_bytes, unit_of_bytes
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.reports.figures import figure_style as style
from fedgraft.reports.stored.stored_runs import StoredRun

FEW_CLIENTS = 40
"""Up to here each client has a lane of its own; beyond, scores are one curve per run."""
MOST_POINTS = 1_000
"""Most points of such a curve."""
LANE, PANEL, PANEL_GAP = 26, 260, 40
"""Pixels: of a client's lane, of its panel, between two panels."""
MOST_COLUMNS, MOST_LETTERS, MOST_NAMED = 3, 26, 8
"""Panels in a row, letters of a name on an axis, clients that are named in a note."""


def score_per_client(runs: Sequence[StoredRun]) -> go.Figure:
    """The test score of every client, of the model that it keeps: a dot each; of many clients a curve over all."""
    names = list(dict.fromkeys(name for run in runs for name in run.summary["test_per_client"]))
    return _dots(runs, names) if len(names) <= FEW_CLIENTS else _sorted_scores(runs)


def _dots(runs: Sequence[StoredRun], names: Sequence[str]) -> go.Figure:
    """Draw a lane a client and a dot a run, the mean over clients as a line."""
    figure = go.Figure()
    for index, run in enumerate(runs):
        each, name, colour = run.summary["test_per_client"], style.run_name(run), style.run_colour(index)
        lanes = [lane for lane, client in enumerate(names) if each.get(client) is not None]
        figure.add_trace(
            style.points(
                [each[names[lane]] for lane in lanes],
                lanes,
                f"%{{customdata}}<br>{name}: %{{x:.4f}}",
                customdata=[style.plain_label(names[lane]) for lane in lanes],
                **{"mode": "markers", "marker": style.run_marker(index, 11, color=colour)},
                **{"name": name, "showlegend": True},
            )
        )
        if (mean := run.summary["test_plain_mean"]) is not None:
            figure.add_vline(x=mean, line={"color": colour, "dash": "dot", "width": 1.5})
    note = "a dot is the client's model on its own test split; dotted: plain mean over clients"
    height = style.TOP + style.BOTTOM + LANE * max(len(names), 3)
    style.lay_out(figure, f"{style.metric_name(runs)} per client", note, height, right=24)
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(title=style.metric_name(runs))
    numbered = all(len(run.summary["test_per_client"]) == run.clients == len(names) for run in runs)
    texts = [style.plain_label(_short(f"{lane}: {name}" if numbered else name)) for lane, name in enumerate(names)]
    span = {"range": [len(names) - 0.5, -0.5], "ticklabelstandoff": 6}
    figure.update_yaxes(tickvals=list(range(len(names))), ticktext=texts, **span)
    return figure


def _sorted_scores(runs: Sequence[StoredRun]) -> go.Figure:
    """Draw every run's scores of clients, ascending, over the share of clients."""
    figure = go.Figure()
    for index, run in enumerate(runs):
        known = {name: score for name, score in run.summary["test_per_client"].items() if score is not None}
        names = sorted(known, key=lambda name: known[name])
        drawn = np.unique(np.linspace(0, len(names) - 1, min(len(names), MOST_POINTS)).round().astype(int))
        figure.add_trace(
            style.points(
                100 * (drawn + 0.5) / max(1, len(names)),
                [known[names[place]] for place in drawn],
                f"%{{text}}<br>{style.run_name(run)}: %{{y:.4f}}",
                text=[style.plain_label(names[place]) for place in drawn],
                **{"mode": "lines", "line": {"color": style.run_colour(index), "width": 2.2}},
                **{"name": style.run_name(run), "showlegend": True},
            )
        )
    note = "each client's model on its own test split, in ascending order"
    style.lay_out(figure, f"{style.metric_name(runs)} per client", note, style.TOP + style.BOTTOM + 320, right=24)
    figure.update_xaxes(title="share of clients (%)", range=[0, 100])
    figure.update_yaxes(title=style.metric_name(runs))
    return figure


def _short(name: str) -> str:
    """Return a name, cut where it would take the place of the figure."""
    return name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…"


def bytes_by_codec(runs: Sequence[StoredRun]) -> go.Figure:
    """The mean length of a model message in each direction, and what the same model takes in 32 bits a number."""
    bars: list[tuple[StoredRun, str, float, float]] = []
    for run in runs:
        model = run.ledger[run.ledger["purpose"] == "model"]
        raw = run.shared_bytes
        for direction in DIRECTIONS:
            sizes = model.loc[model["direction"] == direction, "bytes"]
            bars.append((run, direction, float(sizes.mean()) if len(sizes) else 0.0, raw))
    longest = max((max(mean, raw) for _, _, mean, raw in bars), default=1.0)
    unit, size = unit_of_bytes(longest)
    codecs = [style.plain_label(codec_name(run.experiment, direction)) for run, direction, _, _ in bars]
    labels = [f"{style.run_name(run)}<br>{codec}" for (run, *_), codec in zip(bars, codecs, strict=True)]
    places = [labels, [direction for _, direction, _, _ in bars]]
    texts = [_shown(mean, raw) for _, _, mean, raw in bars]
    colours = {"color": [style.run_colour(runs.index(run)) for run, _, _, _ in bars]}
    shown: dict[str, Any] = {"name": "as sent", "width": 0.7, "textposition": "outside"}
    shown |= {"cliponaxis": False, "showlegend": False}
    look = {"symbol": "line-ns", "size": 20, "color": style.INK, "line": {"width": 2, "color": style.INK}}
    raw_text, named = "%{x:.3g} " + unit, "the shared parameters in 32 bits each"
    figure = go.Figure(style.bars([mean / size for _, _, mean, _ in bars], places, colours, **shown, text=texts))
    raws = [raw / size for _, _, _, raw in bars]
    figure.add_trace(style.points(raws, places, raw_text, mode="markers", name=named, marker=look))
    height = style.TOP + style.BOTTOM + 2 * style.BAR_HEIGHT * len(runs) + style.BAR_HEIGHT
    note = "mean over all messages with a model or an update in them, without headers"
    style.lay_out(figure, "bytes of a model message, by codec", note, height, right=24)
    figure.update_xaxes(title=f"bytes per message ({unit})", range=[0, 1.3 * longest / size or 1])
    figure.update_yaxes(autorange="reversed", showgrid=False, showdividers=False)
    return figure


def representations(run: StoredRun, points: pd.DataFrame) -> go.Figure:
    """Draw each client's test examples by t-SNE of the last hidden layer: a panel a client, all of a channel together.

    `points` has the columns channel, client, class, x, y (`embed`). Clients of the run that it lacks are named.
    """
    panels: list[tuple[Any, Any]] = list(dict.fromkeys(zip(points["channel"], points["client"], strict=True)))
    several, columns = points["channel"].nunique() > 1, min(len(panels), MOST_COLUMNS)
    titles = [f"{client}, {channel}" if several else str(client) for channel, client in panels]
    labels = [style.plain_label(_short(title)) for title in titles]
    figure, height, places = style.grid(labels, columns, PANEL, PANEL_GAP, 0.02)
    classes = sorted(points["class"].unique())
    for (channel, client, name), group in points.groupby(["channel", "client", "class"], sort=False):
        number, label, panel = classes.index(name), style.plain_label(str(name)), panels.index((channel, client))
        look = {"mode": "markers", "legendgroup": str(number), "showlegend": False, "marker": _class_look(number, 5)}
        figure.add_trace(style.points(group["x"], group["y"], f"class {label}", name=label, **look), **places[panel])
    for number, name in enumerate(classes):
        look = {"mode": "markers", "legendgroup": str(number), "marker": _class_look(number, 9)}
        figure.add_trace(go.Scatter(x=[None], y=[None], name=style.plain_label(str(name)), **look))
    note = "t-SNE of the last hidden layer, test examples, one colour per class"
    seen = {str(client) for _, client in panels}
    if left := [style.plain_label(name) for name in run.summary["test_per_client"] if name not in seen]:
        note += f"<br>left out, with too few test examples: {', '.join(left[:MOST_NAMED])}"
        note += f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
    style.lay_out(figure, f"What the model of {style.run_name(run)} tells apart", note, height, 40)
    figure.update_xaxes(showticklabels=False, showgrid=False, ticks="", mirror=True)
    figure.update_yaxes(showticklabels=False, showgrid=False, mirror=True)
    return figure


def _class_look(number: int, size: int) -> dict[str, Any]:
    """Return the marker of a class: where colours come again, another shape."""
    return style.run_marker(number // len(style.RUN_COLOURS), size, color=style.run_colour(number))


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


FEWEST: Final = 5
"""Examples of a client below which t-SNE says nothing."""
PERPLEXITY: Final = 30.0
"""Of t-SNE (van der Maaten and Hinton, JMLR 2008, section 2: 5 to 50); a quarter of the examples where they are few."""


def embed(
    run_folder: RunFolder, seed: int = 0, data_root: Path | None = None, allow_changed_data: bool = False
) -> pd.DataFrame:
    """t-SNE of the last hidden layer over each client's test examples; the data are loaded again, as by `load_run`.

    Returns:
        Columns channel ("own model", and "shared alone" where clients add something private to what is shared), client,
        class (its name; of numbers in which fifth it is), x, y. Raises `InputError` for tasks without hidden layers to
        show.
    """
    from sklearn.manifold import TSNE

    run = load_run(run_folder, data_root, allow_changed_data)
    channels = {"own model": False, **({"shared alone": True} if run.plan.owned else {})}
    parts = []
    for client, name in enumerate(run.names):
        for channel, shared_alone in channels.items():
            hidden, label = _hidden(run, client, shared_alone)
            if len(hidden) < FEWEST:
                continue
            perplexity = min(PERPLEXITY, len(hidden) / 4)
            places = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(hidden)
            parts.append(
                pd.DataFrame({"channel": channel, "client": name, "class": label, "x": places[:, 0], "y": places[:, 1]})
            )
    if not parts:
        raise InputError(f"{run_folder.folder}: no client has {FEWEST} test examples, too few to show.")
    return pd.concat(parts, ignore_index=True)


def _hidden(run: FinishedRun, client: int, shared_alone: bool) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    hidden = None
    if task := run.plan.task.ability(PredictingTask):
        hidden = task.represent(run.client_model(client, shared_alone), run.prepared(client))
    if hidden is None:
        raise InputError(f"task {run.experiment.task_name!r} has no hidden layer to show.")
    layer, label = hidden
    classes = getattr(run.shards[client], "classes", ())
    return layer, np.array([*classes, "unknown"], object)[label] if isinstance(classes, tuple) and classes else label
