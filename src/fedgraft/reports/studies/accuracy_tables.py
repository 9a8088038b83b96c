"""Tables of a study of accuracies: methods down, settings across, the paper's numbers beside ours."""

from statistics import mean

from fedgraft.reports.studies import after_steps, chosen_on, scoring_cost
from fedgraft.reports.studies.markdown import spread, table
from fedgraft.reports.studies.panel_runs import PanelRuns, raw_data_text


def parts(panel: PanelRuns) -> list[str]:
    """The accuracies of every run in every setting, then what they cost; [] where nothing was run."""
    if not panel.runs:
        return []
    chosen = f"Options were chosen on {told}.\n" if (told := chosen_on.named(panel)) else ""
    tables = [_accuracies(panel), *after_steps.part(panel), _yardsticks(panel), _costs(panel), _scored(panel)]
    return [*filter(None, [chosen, *tables])]


def _accuracies(panel: PanelRuns) -> str:
    """Weighted by graphs, and in parentheses the plain mean over clients; in brackets the paper's."""
    rows = []
    for model, method in map(tuple, panel.panel["runs"]):
        cells = []
        for setting in panel.settings:
            runs = panel.by_setting.get((model, method, setting), [])
            printed = panel.printed(setting).get(f"{model}-{method}")
            scores = [
                100 * run["test_at_best_validation"] for run in runs if run["test_at_best_validation"] is not None
            ]
            text = spread(scores) if scores else "no score" if runs else ""
            plain = [100 * run["test_plain_mean"] for run in runs if run.get("test_plain_mean") is not None]
            text += f" ({spread(plain)})" if plain else ""
            cells.append(text + (f" [{printed}]" if printed is not None else ""))
        rows.append((f"{panel.label(method)}, {model}", *cells))
    return table(("accuracy, %", *panel.settings), rows)


def _yardsticks(panel: PanelRuns) -> str:
    """Each yardstick in each setting, weighted by graphs."""
    lines = [
        f"{setting}: " + ", ".join(f"{name} {spread(values)}" for name, values in by_name.items())
        for setting, by_name in panel.yardsticks.items()
    ]
    return f"Yardsticks on the same splits, %: {'; '.join(lines) or 'none'}.\n"


def _costs(panel: PanelRuns) -> str:
    """Bytes of all messages, and how many times fewer than the reference's; those of all data, where that is known."""
    rows, runs = [], panel.by_setting
    for model, method in map(tuple, panel.panel["runs"]):
        cells, most = [], 0
        for setting in panel.settings:
            own_runs = runs.get((model, method, setting), [])
            against = runs.get((model, panel.study.reference, setting), [])
            most = max(most, len(own_runs))
            if not own_runs:
                cells.append("")
                continue
            own = mean(run["bytes"]["total"] for run in own_runs)
            share = f" ({mean(run['bytes']['total'] for run in against) / own:.3g}x)" if against and own else ""
            cells.append(f"{own / 1e6:.3g}{share}")
        rows.append((f"{panel.label(method)}, {model}", *cells, str(most)))
    whole = [
        raw_data_text(run for key, each in runs.items() if key[2] == name for run in each) for name in panel.settings
    ]
    if any(whole):
        rows.append(("all data, sent once", *whole, ""))
    return table(("MB in all (the reference's / own)", *panel.settings, "seeds"), rows)


def _scored(panel: PanelRuns) -> str:
    """Bytes with those of scoring at clients; "" where no run knows them."""
    if not scoring_cost.known(panel.runs.values()):
        return ""
    rows = []
    for model, method in map(tuple, panel.panel["runs"]):
        runs = (panel.by_setting.get((model, method, setting), []) for setting in panel.settings)
        rows.append((f"{panel.label(method)}, {model}", *map(scoring_cost.megabytes, runs)))
    return table((scoring_cost.HEAD, *panel.settings), rows)
