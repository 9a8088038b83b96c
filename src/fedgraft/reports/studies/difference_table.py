"""The table of paired differences from the reference, and what may be said of them."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TypeAlias

from fedgraft.reports.stored.intervals import interval
from fedgraft.reports.studies.comparisons import LEAST_SEEDS, Column, Corrected, corrected, paired, standings
from fedgraft.reports.studies.markdown import table
from fedgraft.reports.studies.panel_runs import PanelRuns
from fedgraft.reports.studies.study import panel_cells

MEANS = "mean of the columns"
Scores: TypeAlias = Mapping[str, Column]
"""{setting: {(model, method): {seed: score, in percent but for errors}}}."""


def part(panel: PanelRuns, scores: Scores) -> str:
    """The table, methods down and settings across, and of the means over settings; a line where none is left.

    Seeds and sets on which options were chosen have no part.
    """
    settings, reference = _settings(panel), panel.study.reference
    columns = _untouched(panel, scores, settings)
    if not any(columns.values()):
        return f"{_left_out(panel)}No seed and set are left for paired differences.\n"
    tested = corrected(columns, reference)
    means = _means([*columns.values()])
    tested_means = corrected({MEANS: means}, reference)
    standing = {name: standings(column, panel.lower) for name, column in columns.items()}
    rows = []
    for model, method in map(tuple, panel.panel["runs"]):
        cells, run, base = [], (model, method), (model, reference)
        for name, column in columns.items():
            difference = interval(paired(column.get(run, {}), column.get(base, {})))
            text = f"{difference:.{panel.digits}}{tested.mark(name, run)}"
            cells.append((text + standing[name].get(run, "")).strip())
        overall = interval(paired(means.get(run, {}), means.get(base, {})))
        text = f"{overall:.{panel.digits}}{tested_means.mark(MEANS, run)}"
        rows.append((panel.row_label(model, method), *cells, text))
    head = f"{'' if panel.lower else 'points '}more than {panel.label(reference)}"
    return _note(panel, tested, tested_means) + "\n" + table((head, *settings, MEANS), rows)


def _settings(panel: PanelRuns) -> list[str]:
    """Names of the settings whose sets no options were chosen on."""
    chosen_on = panel.study.tuned.get("sets", [])
    cells = panel_cells(panel.panel, 1)
    return list(dict.fromkeys(cell.split.key for cell in cells if cell.split.data not in chosen_on))


def _untouched(panel: PanelRuns, scores: Scores, settings: Sequence[str]) -> dict[str, Column]:
    """Return the scores in some settings, of the seeds that no options were chosen on."""
    chosen_on = panel.study.tuned.get("seeds", [])
    columns: dict[str, Column] = {}
    for name in settings:
        kept = {
            run: {seed: score for seed, score in by_seed.items() if seed not in chosen_on}
            for run, by_seed in scores.get(name, {}).items()
        }
        columns[name] = {run: by_seed for run, by_seed in kept.items() if by_seed}
    return columns


def _left_out(panel: PanelRuns) -> str:
    """A sentence on the seeds and sets that have no part, with a space at its end; "" without any."""
    seeds = panel.study.tuned.get("seeds", [])
    sets = [data for data in panel.study.tuned.get("sets", []) if data in panel.panel["data"]]
    named = [f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"] if seeds else []
    named += [f"set{'s' if len(sets) > 1 else ''} {', '.join(sets)}"] if sets else []
    return f"Left out, as options were chosen on them: {'; '.join(named)}. " if named else ""


def _note(panel: PanelRuns, tested: Corrected, tested_means: Corrected) -> str:
    """What intervals, asterisks and words mean, with the number of comparisons."""
    best = "lowest" if panel.lower else "highest"
    return (
        f"{_left_out(panel)}Paired differences with 95 % intervals, which are not corrected. "
        f"{tested.note(panel.label(panel.study.reference))} *{best.capitalize()}*: the {best} mean of the column. "
        f"*With the {best}*: the interval of the difference from it holds 0, corrected by Bonferroni for all others of "
        f"the column. *First*: the {best}, with nobody beside it, over {LEAST_SEEDS} paired seeds or more. The mean of "
        f"the columns is corrected by Holm over its own {tested_means.count} comparisons.\n"
    )


def _means(columns: Sequence[Column]) -> Column:
    """Each method's mean over columns, of those that have a score in all, by the seeds that they have in all."""
    everywhere = [run for run in columns[0] if all(run in column for column in columns)]
    seeds = {run: set.intersection(*({*column[run]} for column in columns)) for run in everywhere}
    return {run: {seed: mean(column[run][seed] for column in columns) for seed in seeds[run]} for run in everywhere}
