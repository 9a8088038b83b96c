"""A report of stored runs: one HTML file that opens offline, with table, figures and every setting."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.io import to_html

from fedgraft.engine.server.loop.choosing import MOST_EXPLAINED
from fedgraft.experiment.claims import sentence
from fedgraft.experiment.storage import disk
from fedgraft.reports.figures import client_figures, figures
from fedgraft.reports.figures.choice_figures import why_chosen
from fedgraft.reports.figures.client_figures import embed
from fedgraft.reports.figures.figure_style import run_colour
from fedgraft.reports.pages.outcome import differences, flat, group_outcome, outcome, without_folders
from fedgraft.reports.pages.page_classes import class_parts
from fedgraft.reports.pages.page_tables import SCORE_COLUMNS, SEED_COLUMNS, data_parts, page_tables
from fedgraft.reports.stored import comparison, orders
from fedgraft.reports.stored.seed_groups import CAPTION, Group, grouped, open_named, run_of
from fedgraft.reports.stored.stored_runs import StoredRun

WIDE = ("Timeline",)
"""How titles of figures begin that need the page's whole width, beside the first."""
MOST_LISTED = 16
"""Clients that are listed in a cell of a table."""
FIGURE_TOP, BUTTONS_TOP = 28, 48
"""Pixels above a figure whose title is on the page, and above one with buttons or titles of panels."""
_FIGURE_OPTIONS = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}

_TEMPLATES = Environment(
    loader=PackageLoader("fedgraft.reports.pages", ""),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


@lru_cache
def plotly_basic() -> str:
    """Return the script that draws figures: plotly.js with bars, lines and points alone."""
    return files("fedgraft.reports.pages").joinpath("plotly_basic", "plotly-basic.min.js").read_text(encoding="utf-8")


def write_report(
    folders: Sequence[Path],
    out: Path,
    target: str | float | None = None,
    title: str = "fedgraft report",
    representations: bool = False,
    against: str = "rounds",
    data_root: Path | None = None,
    allow_changed_data: bool = False,
    labels: Sequence[str] = (),
    classes: bool | None = None,
) -> Path:
    """Write a report of finished runs with one metric; of runs that differ by the seed alone as a group.

    Args:
        folders: the runs' folders, or folders of runs with several seeds.
        out: the HTML file; an existing one is replaced.
        target: the validation score for "bytes to target", as a number or as "rmse=0.95"; None = the best that any of
            the runs reaches, worsened by 0.2 %.
        title: the page's heading.
        representations: whether to show what each run's model tells apart; loads the runs' data again.
        against: what the first figure shows scores against: "rounds", "bytes", "seconds", "simulated_seconds" or
            "flops".
        data_root: where the data are now that are loaded again; None = where they were.
        allow_changed_data: whether these may be others than the runs began with.
        labels: what to call each folder, in their order; () = by their names.
        classes: whether to show how well each class is told and what it is taken for; loads the runs' data again. None
            = where that takes less than a minute, as estimated, and the data are here.

    Returns:
        `out`. Raises `InputError` for folders that are not finished runs, for different metrics, and if `out` cannot
        be written.
    """
    runs = open_named(folders, labels)
    page = render(runs, target, title, representations, against, data_root, allow_changed_data, classes)
    with disk.written(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        disk.swap(out, page)
    return out


def render(
    runs: Sequence[StoredRun],
    target: str | float | None = None,
    title: str = "fedgraft report",
    representations: bool = False,
    against: str = "rounds",
    data_root: Path | None = None,
    allow_changed_data: bool = False,
    classes: bool | None = None,
) -> str:
    """The page as a string."""
    groups = grouped(runs)
    shown, firsts = [run_of(group) for group in groups], [group.runs[0] for group in groups]
    tables = page_tables(groups, comparison.resolve_target(shown, target))
    drawn = figures.every(shown, tables.target, against)
    wide = [drawn[0], *(figure for figure in drawn if figure.layout.meta["title"].startswith(WIDE))]
    if representations:
        places = [embed(run.run_folder, 0, data_root, allow_changed_data) for run in firsts]
        apart = [client_figures.representations(run, each) for run, each in zip(firsts, places, strict=True)]
        drawn, wide = drawn + apart, wide + apart
    return _TEMPLATES.get_template("report.html.j2").render(
        title=title,
        plotly=plotly_basic(),
        outcome=_outcome(groups),
        claims=[
            (run.label, sentence(claim), claim["not_covered"])
            for run in firsts
            if (claim := run.summary.get("privacy"))
        ],
        heading=_heading(runs),
        made_with=_made_with(runs),
        warnings=warnings(runs),
        score_columns=SCORE_COLUMNS,
        seed_columns=SEED_COLUMNS,
        tables=tables,
        of_groups=CAPTION,
        data=data_parts(firsts),
        classes=class_parts(groups, classes, data_root, allow_changed_data),
        rare=", ".join(
            dict.fromkeys(repr(run.summary["threshold"]["class"]) for run in runs if "threshold" in run.summary)
        ),
        metric=runs[0].metric,
        better=runs[0].better,
        runs=runs,
        places=[place for place, group in enumerate(groups) for _ in group.runs],
        differences=differences(firsts),
        figures=[
            {**_figure(figure, f"figure-{number}"), "wide": any(figure is each for each in wide)}
            for number, figure in enumerate(drawn, 1)
        ],
        explained=[_explained(run, number) for number, run in enumerate(firsts, 1) if orders.is_explained(run)],
        kept_of_all=MOST_EXPLAINED,
        settings=[without_folders((run.path / "experiment.toml").read_text(encoding="utf-8")) for run in firsts],
        listed=_listed,
        number=_number,
        colour=run_colour,
    )


def _outcome(groups: Sequence[Group]) -> str:
    """Say what came out of runs, or of groups of seeds."""
    if any(len(group.runs) > 1 for group in groups):
        return group_outcome(groups)
    runs = [group.runs[0] for group in groups]
    return outcome([run.summary for run in runs], [run.label for run in runs])


def warnings(runs: Sequence[StoredRun]) -> list[str]:
    """Return what makes these runs hard to compare, and what went wrong in them."""
    texts = []
    for name, what, why in (
        ("dataset", "data set", "Scores and bytes on different data say nothing about the methods."),
        ("clients", "number of clients", "Each client has another share of the data."),
    ):
        values = {run.summary[name] for run in runs}
        if len(values) > 1:
            listed = ", ".join(map(str, sorted(values)))
            texts.append(f"The runs do not have the same {what} ({listed}). {why}")
    failures = {run.label: comparison.failures_text(run.summary["failures"]) for run in runs}
    texts += [f"{run.label}: {remark}" for run in runs for remark in run.summary["remarks"]]
    return texts + [f"{label}: {text}" for label, text in failures.items() if text]


def _heading(runs: Sequence[StoredRun]) -> dict[str, str]:
    """{name: value} of the line under the title."""
    return {
        "Data": _distinct(run.summary["dataset"] for run in runs),
        "Clients": _distinct(comparison.clients_text(run.summary) for run in runs),
        "Recipes": _distinct(run.summary["recipe"] for run in runs),
        "Seeds": _distinct(run.summary["seed"] for run in runs),
        "Metric": f"{runs[0].metric} ({runs[0].better} is better)",
    }


def _made_with(runs: Sequence[StoredRun]) -> str:
    """Name what the runs' environments share."""
    first, *others = (run.environment for run in runs)
    shared = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    return ", ".join(f"{name} {value}" for name, value in flat(shared).items())


def _explained(run: StoredRun, number: int) -> dict[str, Any]:
    """What the page says of why clients of the n-th run were chosen."""
    return {
        "run": run,
        "figure": _figure(why_chosen(run), f"why-{number}"),
        "means": orders.term_means(run),
        "agent": orders.agent_choices(run),
    }


def _number(value: float) -> str:
    """A number of a table; "-" for none."""
    return "-" if math.isnan(value) else f"{value:.4g}"


def _listed(clients: Sequence[int]) -> str:
    """Clients as a person would list them, of very many the first."""
    shown = ", ".join(map(str, clients[:MOST_LISTED]))
    return f"{shown} and {len(clients) - MOST_LISTED} more" if len(clients) > MOST_LISTED else shown


def _figure(figure: go.Figure, name: str) -> dict[str, Any]:
    """Return a figure as a page has it: {"drawn", "title", "note"}, the last two as HTML that is safe already."""
    shown = figure.to_dict()  # a copy; a second figure would have its template checked anew, which takes longest
    layout = shown["layout"]
    texts, buttons = layout["meta"], layout.get("updatemenus", [])
    titled = any(each.get("yanchor") == "bottom" for each in layout.get("annotations", ()))  # panels, as Plotly does
    top = BUTTONS_TOP if buttons or titled else FIGURE_TOP
    layout |= {"title": {}, "height": layout["height"] - layout["margin"]["t"] + top}
    layout["margin"]["t"] = top
    for each in buttons:
        each |= {"x": 0, "xanchor": "left"}
    drawn: str = to_html(
        shown,
        full_html=False,
        include_plotlyjs=False,
        include_mathjax=False,
        div_id=name,
        default_height=f"{layout['height']}px",
        config=_FIGURE_OPTIONS,
        validate=False,
    )
    return {"drawn": drawn, "title": texts["title"], "note": texts["note"]}


def _distinct(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))
