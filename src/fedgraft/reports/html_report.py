"""A report of stored runs: one HTML file that opens offline, with table, figures and every setting."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from fedgraft.engine.server.choosing import MOST_EXPLAINED
from fedgraft.errors import InputError
from fedgraft.reports import choices, client_figures, comparison, figures
from fedgraft.reports.choice_figures import why_chosen
from fedgraft.reports.figure_style import run_colour
from fedgraft.reports.stored_runs import RunFolder, joined_raw_data, joined_yardsticks, open_runs
from fedgraft.reports.tsne import embed

COLUMNS = {
    "validation": "validation",
    "test": "test",
    "test_at_best_validation": "test at best validation",
    "bytes": "bytes",
    "bytes_down": "down",
    "bytes_up": "up",
    "bytes_to_target": "bytes to target",
    "simulated_seconds_to_target": "simulated seconds to target",
    "flops": "operations",
    "flops_to_target": "operations to target",
    "rounds": "rounds",
    "selections": "selections",
    "seconds": "seconds",
    "simulated_seconds": "simulated seconds",
}
"""Columns of the summary table after the run's, and their headings."""

MOST_LISTED = 16
"""Clients that are listed in a cell of a table."""
_FIGURE_OPTIONS = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}

_TEMPLATES = Environment(
    loader=PackageLoader("fedgraft.reports", ""),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def write_report(
    folders: Sequence[Path],
    out: Path,
    target: str | float | None = None,
    title: str = "fedgraft report",
    representations: bool = False,
    against: str = "rounds",
    data_root: Path | None = None,
    allow_changed_data: bool = False,
) -> Path:
    """Write a report of finished runs with one metric.

    Args:
        folders: the runs' folders.
        out: the HTML file; an existing one is replaced.
        target: the validation score for "bytes to target", as a number or as "rmse=0.95"; None = the best that any of
            the runs reaches, worsened by 0.2 %.
        title: the page's heading.
        representations: whether to show what each run's model tells apart; loads the runs' data again.
        against: what the first figure shows scores against: "rounds", "bytes", "seconds", "simulated_seconds" or
            "flops".
        data_root: where the data are now that `representations` loads; None = where they were.
        allow_changed_data: whether these may be others than the runs began with.

    Returns:
        `out`. Raises `InputError` for folders that are not finished runs, for different metrics, and if `out` cannot
        be written.
    """
    page = render(open_runs(folders), target, title, representations, against, data_root, allow_changed_data)
    temporary = out.with_name(out.name + ".new")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(page, encoding="utf-8")
        os.replace(temporary, out)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}.") from error
    return out


def render(
    runs: Sequence[RunFolder],
    target: str | float | None = None,
    title: str = "fedgraft report",
    representations: bool = False,
    against: str = "rounds",
    data_root: Path | None = None,
    allow_changed_data: bool = False,
) -> str:
    """The page as a string."""
    score = comparison.resolve_target(runs, target)
    table = comparison.rows(runs, score)
    drawn = figures.every(runs, table[0]["target"], against)
    if representations:
        places = [embed(run.path, 0, data_root, allow_changed_data) for run in runs]
        drawn += [client_figures.representations(run, each) for run, each in zip(runs, places, strict=True)]
    return _TEMPLATES.get_template("report.html.j2").render(
        title=title,
        plotly=get_plotlyjs(),
        facts=_facts(runs),
        made_with=_made_with(runs),
        warnings=warnings(runs),
        columns=COLUMNS,
        table=table,
        best=comparison.best_values(table),
        yardsticks=joined_yardsticks(table),
        raw_data=joined_raw_data(table),
        metric=runs[0].metric,
        better=runs[0].better,
        target=table[0]["target"],
        runs=runs,
        differences=_differences(runs),
        figures=[_figure(figure, f"figure-{number}") for number, figure in enumerate(drawn, 1)],
        explained=[_explained(run, number) for number, run in enumerate(runs, 1) if choices.is_explained(run)],
        kept_of_all=MOST_EXPLAINED,
        settings=[(run.path / "experiment.toml").read_text(encoding="utf-8") for run in runs],
        shown=comparison.shown,
        listed=_listed,
        number=_number,
        colour=run_colour,
    )


def warnings(runs: Sequence[RunFolder]) -> list[str]:
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
    told = {run.label: comparison.failures_text(run.summary.get("failures")) for run in runs}
    return texts + [f"{label}: {text}" for label, text in told.items() if text]


def _facts(runs: Sequence[RunFolder]) -> dict[str, str]:
    """{name: value} of the line under the title."""
    return {
        "Data": _distinct(run.summary["dataset"] for run in runs),
        "Clients": _distinct(comparison.clients_text(run.summary) for run in runs),
        "Recipes": _distinct(run.summary["recipe"] for run in runs),
        "Seeds": _distinct(run.summary["seed"] for run in runs),
        "Metric": f"{runs[0].metric} ({runs[0].better} is better)",
    }


def _made_with(runs: Sequence[RunFolder]) -> str:
    """Name what the runs' environments share."""
    first, *others = (run.environment for run in runs)
    shared = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    return ", ".join(f"{name} {value}" for name, value in _flat(shared).items())


def _differences(runs: Sequence[RunFolder]) -> dict[str, list[str]]:
    """{name: value of each run} of the settings and versions in which the runs differ."""
    tables = [_flat({**run.experiment, "environment": run.environment}) for run in runs]
    rows = {name: [str(table.get(name, "-")) for table in tables] for name in sorted(set().union(*tables))}
    return {name: values for name, values in rows.items() if len(set(values)) > 1}


def _explained(run: RunFolder, number: int) -> dict[str, Any]:
    """What the page says of why clients of the n-th run were chosen."""
    return {
        "run": run,
        "figure": _figure(why_chosen(run), f"why-{number}"),
        "means": choices.term_means(run),
        "agent": choices.agent_choices(run),
    }


def _number(value: float) -> str:
    """A number of a table; "-" for none."""
    return "-" if math.isnan(value) else f"{value:.4g}"


def _listed(clients: Sequence[int]) -> str:
    """Clients as a person would list them, of very many the first."""
    shown = ", ".join(map(str, clients[:MOST_LISTED]))
    return f"{shown} and {len(clients) - MOST_LISTED} more" if len(clients) > MOST_LISTED else shown


def _figure(figure: go.Figure, name: str) -> str:
    drawn: str = figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        include_mathjax=False,
        div_id=name,
        default_height=f"{figure.layout.height}px",
        config=_FIGURE_OPTIONS,
    )
    return drawn


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a.b": value} of nested tables."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat.update(_flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value})
    return flat


def _distinct(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))
