"""Tables of a study of accuracies: methods down, settings across, the paper's numbers beside ours."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from fedgraft.reports.studies.study import Cell, Study, panel_cells

Results = Mapping[Cell, Mapping[str, Any]]
Run = Mapping[str, Any]


def tables(study: Study, results: Results, seeds: int) -> str:
    """All panels: the accuracies of every run in every setting, then what they cost."""
    parts = []
    for panel in study.panels:
        runs = _runs(panel, results, seeds)
        parts.append(f"## {panel['title']}\n")
        if not runs:
            parts.append("Not run yet.\n")
            continue
        parts += [_accuracies(study, panel, runs), _yardsticks(panel, results, seeds), _costs(study, panel, runs)]
    return "\n".join(parts)


def _runs(panel: Mapping[str, Any], results: Results, seeds: int) -> dict[tuple[str, str, str], list[Run]]:
    """{(model, method, setting): the runs that are done, by seed}."""
    runs: dict[tuple[str, str, str], list[Run]] = {}
    for cell in panel_cells(panel, seeds):
        if cell in results:
            runs.setdefault((cell.model, cell.method, cell.split.key), []).append(results[cell])
    return runs


def _settings(panel: Mapping[str, Any], seeds: int) -> list[str]:
    return list(dict.fromkeys(cell.split.key for cell in panel_cells(panel, seeds)))


def _accuracies(study: Study, panel: Mapping[str, Any], runs: Mapping[tuple[str, str, str], Sequence[Run]]) -> str:
    """Weighted by graphs, and in parentheses the plain mean over clients; in brackets the paper's."""
    settings = _settings(panel, 1)
    lines = ["| accuracy, % | " + " | ".join(settings) + " |", "|---|" + "---|" * len(settings)]
    for model, method in map(tuple, panel["runs"]):
        cells = []
        for setting in settings:
            found = runs.get((model, method, setting), [])
            printed = panel["paper"].get(setting, {}).get(f"{model}-{method}")
            text = "" if not found else f"{_spread([100 * run['test_at_best_validation'] for run in found])}"
            plain = [100 * run["test_plain_mean"] for run in found if run.get("test_plain_mean") is not None]
            text += f" ({_spread(plain)})" if plain else ""
            cells.append(text + (f" [{printed}]" if printed is not None else ""))
        lines.append(f"| {study.methods[method]['label']}, {model} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _yardsticks(panel: Mapping[str, Any], results: Results, seeds: int) -> str:
    """Each yardstick in each setting, weighted by graphs."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for cell in panel_cells(panel, seeds):
        for name, scores in results.get(cell, {}).get("yardsticks", {}).items():
            found.setdefault(cell.split.key, {}).setdefault(name, {})[cell.split.seed] = 100 * scores["test"]
    parts = [
        f"{setting}: " + ", ".join(f"{name} {_spread(list(values.values()))}" for name, values in by_name.items())
        for setting, by_name in found.items()
    ]
    return f"Yardsticks on the same splits, %: {'; '.join(parts) or 'none'}.\n"


def _costs(study: Study, panel: Mapping[str, Any], runs: Mapping[tuple[str, str, str], Sequence[Run]]) -> str:
    """Bytes of all messages, and how many times fewer than the reference's."""
    settings = _settings(panel, 1)
    lines = [
        "| MB in all (the reference's / own) | " + " | ".join(settings) + " | seeds |",
        "|---|" + "---|" * len(settings) + "---|",
    ]
    for model, method in map(tuple, panel["runs"]):
        cells, most = [], 0
        for setting in settings:
            found = runs.get((model, method, setting), [])
            against = runs.get((model, study.reference, setting), [])
            most = max(most, len(found))
            if not found:
                cells.append("")
                continue
            own = mean(run["bytes"]["total"] for run in found)
            share = f" ({mean(run['bytes']['total'] for run in against) / own:.3g}x)" if against and own else ""
            cells.append(f"{own / 1e6:.3g}{share}")
        lines.append(f"| {study.methods[method]['label']}, {model} | " + " | ".join(cells) + f" | {most} |")
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float]) -> str:
    text = f"{mean(values):.2f}"
    return text + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")
