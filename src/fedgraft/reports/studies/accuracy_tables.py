"""Tables of a study of accuracies: methods down, settings across, the paper's numbers beside ours."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from fedgraft.reports.studies.markdown import spread, table
from fedgraft.reports.studies.panel_runs import Results, Run, raw_data_text, runs_by_setting, yardsticks_by_setting
from fedgraft.reports.studies.study import Study, in_panels, panel_cells


def tables(study: Study, results: Results, seeds: int) -> str:
    """All panels: the accuracies of every run in every setting, then what they cost."""

    def write(panel: Mapping[str, Any]) -> list[str]:
        if not (runs := runs_by_setting(panel, results, seeds)):
            return []
        return [_accuracies(study, panel, runs), _yardsticks(panel, results, seeds), _costs(study, panel, runs)]

    return in_panels(study, results, seeds, write)


def _settings(panel: Mapping[str, Any], seeds: int) -> list[str]:
    return list(dict.fromkeys(cell.split.key for cell in panel_cells(panel, seeds)))


def _accuracies(study: Study, panel: Mapping[str, Any], runs: Mapping[tuple[str, str, str], Sequence[Run]]) -> str:
    """Weighted by graphs, and in parentheses the plain mean over clients; in brackets the paper's."""
    settings, rows = _settings(panel, 1), []
    for model, method in map(tuple, panel["runs"]):
        cells = []
        for setting in settings:
            found = runs.get((model, method, setting), [])
            printed = panel["paper"].get(setting, {}).get(f"{model}-{method}")
            scores = [
                100 * run["test_at_best_validation"] for run in found if run["test_at_best_validation"] is not None
            ]
            text = spread(scores) if scores else "no score" if found else ""
            plain = [100 * run["test_plain_mean"] for run in found if run.get("test_plain_mean") is not None]
            text += f" ({spread(plain)})" if plain else ""
            cells.append(text + (f" [{printed}]" if printed is not None else ""))
        rows.append((f"{study.methods[method]['label']}, {model}", *cells))
    return table(("accuracy, %", *settings), rows)


def _yardsticks(panel: Mapping[str, Any], results: Results, seeds: int) -> str:
    """Each yardstick in each setting, weighted by graphs."""
    parts = [
        f"{setting}: " + ", ".join(f"{name} {spread(values)}" for name, values in by_name.items())
        for setting, by_name in yardsticks_by_setting(panel, results, seeds).items()
    ]
    return f"Yardsticks on the same splits, %: {'; '.join(parts) or 'none'}.\n"


def _costs(study: Study, panel: Mapping[str, Any], runs: Mapping[tuple[str, str, str], Sequence[Run]]) -> str:
    """Bytes of all messages, and how many times fewer than the reference's; those of all data, where that is known."""
    settings, rows = _settings(panel, 1), []
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
        rows.append((f"{study.methods[method]['label']}, {model}", *cells, str(most)))
    whole = [raw_data_text(run for key, each in runs.items() if key[2] == name for run in each) for name in settings]
    if any(whole):
        rows.append(("all data, sent once", *whole, ""))
    return table(("MB in all (the reference's / own)", *settings, "seeds"), rows)
