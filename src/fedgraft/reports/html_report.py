"""A report of stored runs: one HTML file that opens offline, with table, figures and every setting."""

import html
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from fedgraft.errors import InputError
from fedgraft.reports import client_figures, comparison, figures
from fedgraft.reports.figure_style import run_colour
from fedgraft.reports.stored_runs import RunFolder, joined_yardsticks, open_runs
from fedgraft.reports.tsne import embed

COLUMNS = {
    "run": "run",
    "validation": "validation",
    "test": "test",
    "test_at_best_validation": "test at best validation",
    "bytes": "bytes",
    "bytes_down": "down",
    "bytes_up": "up",
    "bytes_to_target": "bytes to target",
    "flops": "operations",
    "flops_to_target": "operations to target",
    "rounds": "rounds",
    "selections": "selections",
    "seconds": "seconds",
    "simulated_seconds": "simulated seconds",
}
"""Columns of the summary table and their headings."""

_FIGURE_OPTIONS = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}

# The policy lets the page run what it holds and fetch nothing: no server learns that somebody read the report.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"

# Figures are drawn for the window; paper is narrower. 1030 pixels are what A4 landscape has between the margins.
_PRINTING = """
const all = () => document.querySelectorAll(".plotly-graph-div");
addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach(d => d.open = true);
  all().forEach(f => Plotly.relayout(f, {autosize: false, width: 1020}));
});
addEventListener("afterprint", () => all().forEach(f => Plotly.relayout(f, {autosize: true, width: null})));
"""

_STYLE = """
:root { --ink: #1f2933; --soft: #52606d; --line: #dde2e8; --wash: #f5f7fa; --mark: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: white;
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1320px; margin: 0 auto; padding: 40px 32px 64px; }
h1 { margin: 0 0 4px; font-size: 30px; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 48px 0 12px; font-size: 21px; }
p { margin: 6px 0; } .soft { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 8px 8px; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-size: 13.5px; font-weight: 600; color: var(--soft); vertical-align: bottom; line-height: 1.25; }
td { white-space: nowrap; }
th.left, td.left { text-align: left; } td.wrap { white-space: normal; overflow-wrap: anywhere; }
tbody.yardsticks td { color: var(--soft); background: var(--wash); }
td.best { font-weight: 700; } td.best, .marked { position: relative; padding-right: 22px; }
td.best::after { content: "\\2605"; position: absolute; right: 5px; color: var(--mark); }
code, pre { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.warning { margin: 20px 0; padding: 12px 16px; border-left: 5px solid #d55e00; background: #fff4ec; }
td.run { position: relative; padding-left: 28px; white-space: normal; overflow-wrap: anywhere; }
.swatch { position: absolute; left: 8px; top: 0.95em; width: 12px; height: 12px; border-radius: 3px; }
figure { margin: 20px 0 36px; break-inside: avoid; }
details { margin: 10px 0; border: 1px solid var(--line); border-radius: 8px; }
summary { padding: 10px 14px; cursor: pointer; font-weight: 600; }
pre { margin: 0; padding: 14px; overflow-x: auto; background: var(--wash); border-top: 1px solid var(--line);
  border-radius: 0 0 8px 8px; }
@page { size: A4 landscape; margin: 12mm; }
@media print {
  main { max-width: none; padding: 0; } h2 { break-after: avoid; } .modebar, .updatemenu-container { display: none; }
  tr, .warning { break-inside: avoid; } pre { white-space: pre-wrap; }
  table { font-size: 12px; } th { font-size: 11.5px; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def write_report(
    folders: Sequence[Path],
    out: Path,
    target: str | float | None = None,
    title: str = "fedgraft report",
    representations: bool = False,
) -> Path:
    """Write a report of finished runs with one metric.

    Args:
        folders: the runs' folders.
        out: the HTML file; an existing one is replaced.
        target: the validation score for "bytes to target", as a number or as "rmse=0.95"; None = the best that any of
            the runs reaches, worsened by 0.2 %.
        title: the page's heading.
        representations: whether to show what each run's model tells apart; loads the runs' data again.

    Returns:
        `out`. Raises `InputError` for folders that are not finished runs, for different metrics, and if `out` cannot
        be written.
    """
    page = render(open_runs(folders), target, title, representations)
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
) -> str:
    """The page as a string."""
    score = comparison.resolve_target(runs, target)
    table = comparison.rows(runs, score)
    drawn = figures.every(runs, table[0]["target"])
    if representations:
        drawn += [client_figures.representations(run, embed(run.path)) for run in runs]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_escaped(title)}</title><style>{_STYLE}</style>",
        f"<script>{get_plotlyjs()}</script></head><body><main>",
        _header(runs, title),
        *(f'<p class="warning"><b>Warning.</b> {_escaped(text)}</p>' for text in warnings(runs)),
        f"<h2>Summary</h2>{_summary(runs, table)}",
        f"<h2>Runs</h2>{_identities(runs)}{_differences(runs)}",
        "<h2>Figures</h2>",
        *(_figure(figure, number) for number, figure in enumerate(drawn, 1)),
        "<h2>Settings</h2>",
        *(_settings(run) for run in runs),
        f"</main><script>{_PRINTING}</script></body></html>\n",
    ]
    return "\n".join(parts)


def warnings(runs: Sequence[RunFolder]) -> list[str]:
    """What makes these runs hard to compare."""
    texts = []
    for name, what, why in (
        ("dataset", "data set", "Scores and bytes on different data say nothing about the methods."),
        ("clients", "number of clients", "Each client has another share of the data."),
    ):
        values = {run.summary[name] for run in runs}
        if len(values) > 1:
            listed = ", ".join(map(str, sorted(values)))
            texts.append(f"The runs do not have the same {what} ({listed}). {why}")
    return texts


def _header(runs: Sequence[RunFolder], title: str) -> str:
    facts = [
        ("Data", _distinct(run.summary["dataset"] for run in runs)),
        ("Clients", _distinct(run.summary["clients"] for run in runs)),
        ("Recipes", _distinct(run.summary["recipe"] for run in runs)),
        ("Seeds", _distinct(run.summary["seed"] for run in runs)),
        ("Metric", f"{runs[0].metric} ({runs[0].better} is better)"),
    ]
    environments = [run.environment for run in runs]
    shared = {name: value for name, value in environments[0].items() if all(e.get(name) == value for e in environments)}
    with_ = ", ".join(f"{name} {value}" for name, value in _flat(shared).items())
    lines = " · ".join(f"<b>{name}</b> {_escaped(value)}" for name, value in facts)
    return f'<h1>{_escaped(title)}</h1><p>{lines}</p><p class="soft">Made with {_escaped(with_)}.</p>'


def _summary(runs: Sequence[RunFolder], table: Sequence[dict[str, Any]]) -> str:
    lower = runs[0].better == "lower"
    best = comparison.best_values(table)
    lines = [
        "<thead><tr>",
        *(_cell(heading, "th", name == "run", "marked" if name in best else "") for name, heading in COLUMNS.items()),
    ]
    lines.append("</tr></thead><tbody>")
    for index, row in enumerate(table):
        lines.append("<tr>")
        for name in COLUMNS:
            kind = "best" if name in best and row[name] == best[name] else "marked" if name in best else ""
            swatch = _swatch(index) if name == "run" else ""
            text = row["run"] if name == "run" else comparison.shown(name, row[name])
            lines.append(_cell(text, "td", name == "run", "run" if name == "run" else kind, swatch))
        lines.append("</tr>")
    lines.append('</tbody><tbody class="yardsticks">')
    for name, score in joined_yardsticks(table):
        kind = "marked" if "test" in best else ""
        cells = [_cell(f"{score:.4f}" if column == "test" else "", "td", False, kind) for column in COLUMNS]
        lines += ["<tr>", _cell(name, "td", True), *cells[1:], "</tr>"]
    lines.append("</tbody>")
    note = ["★ best of the runs."] if best else []
    note.append("Shaded rows are yardsticks on the same test split: what a person would try first.")
    if table[0]["target"] is not None:
        sign = "≤" if lower else "≥"
        note.append(f"The target is validation {runs[0].metric} {sign} {table[0]['target']:.4g}.")
    note.append("Bytes are lengths of encoded messages, both directions, evaluation included where it is charged.")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div><p class="soft">{_escaped(" ".join(note))}</p>'


def _identities(runs: Sequence[RunFolder]) -> str:
    names = ("recipe", "dataset", "clients", "seed")
    headings = ["run", "recipe", "data set", "clients", "seed", "stopped by", "parameter digest"]
    lines = ["<thead><tr>", *(_cell(heading, "th", True) for heading in headings), "</tr></thead><tbody>"]
    for index, run in enumerate(runs):
        values = [*(run.summary[name] for name in names), run.summary.get("stopped_by") or "-"]
        lines += ["<tr>", _cell(run.label, "td", True, "run", _swatch(index))]
        lines += [_cell(str(value), "td", True) for value in values]
        lines.append(f'<td class="left"><code>{_escaped(run.summary["digest"])}</code></td></tr>')
    return f'<div class="scroll"><table>{"".join(lines)}</tbody></table></div>'


def _differences(runs: Sequence[RunFolder]) -> str:
    """Settings and versions in which the runs differ."""
    tables = [
        {**_flat(run.experiment), **{f"environment.{key}": value for key, value in _flat(run.environment).items()}}
        for run in runs
    ]
    names = sorted({name for table in tables for name in table})
    differing = [name for name in names if len({str(table.get(name, "-")) for table in tables}) > 1]
    if not differing:
        return ""
    lines = ["<thead><tr>", _cell("setting", "th", True), *(_cell(run.label, "th", True) for run in runs)]
    lines.append("</tr></thead><tbody>")
    for name in differing:
        values = [_cell(str(table.get(name, "-")), "td", True, "wrap") for table in tables]
        lines += ["<tr>", _cell(name, "td", True), *values, "</tr>"]
    return f'<h2>What differs</h2><div class="scroll"><table>{"".join(lines)}</tbody></table></div>'


def _figure(figure: go.Figure, number: int) -> str:
    drawn = figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        include_mathjax=False,
        div_id=f"figure-{number}",
        default_height=f"{figure.layout.height}px",
        config=_FIGURE_OPTIONS,
    )
    return f"<figure>{drawn}</figure>"


def _settings(run: RunFolder) -> str:
    toml = (run.path / "experiment.toml").read_text(encoding="utf-8")
    return f"<details><summary>{_escaped(run.label)}</summary><pre>{_escaped(toml)}</pre></details>"


def _cell(text: str, tag: str, left: bool = False, kind: str = "", before: str = "") -> str:
    names = " ".join(name for name in ("left" if left else "", kind) if name)
    classes = f' class="{names}"' if names else ""
    return f"<{tag}{classes}>{before}{_escaped(text)}</{tag}>"


def _swatch(index: int) -> str:
    return f'<span class="swatch" style="background:{run_colour(index)}"></span>'


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a.b": value} of nested tables."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat.update(_flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value})
    return flat


def _distinct(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))


def _escaped(text: object) -> str:
    return html.escape(str(text))
