"""The six layouts of a study's page: which of the three tables a panel has, and what stands beside them."""

import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Final

from fedgraft.errors import InputError
from fedgraft.reports.studies import claims
from fedgraft.reports.studies import tables as text_tables
from fedgraft.reports.studies.cells import (
    SCORED,
    Column,
    Key,
    PanelRuns,
    Results,
    Run,
    mean_of,
    points_of,
    score_of,
    spent_to,
    spread,
    table,
    total,
)
from fedgraft.reports.studies.study import AFTER, SCORING, Study, settings
from fedgraft.reports.studies.tables import GFLOP, MB, SECONDS, Savings, differences, pivot

TOLERANCE: Final = 0.002
"""The target of errors is the best validation score of the reference method, worsened by this share."""
LEVELS: Final = (0.02, 0.01, 0.005, TOLERANCE)
"""Targets of "bytes to different scores", as shares above the reference's best."""
BUDGETS: Final = (0.25, 0.5, 0.75, 1.0)
"""Budgets of "scores at equal budgets", as shares of what the reference spends."""
SIDE_BY_SIDE: Final = ("accuracy", "paired")
"""Layouts whose tables have all settings of a panel."""
UNKNOWN = (
    "Scores at the server are free. What they would take at clients is told where the results know it; "
    "those of earlier versions do not.\n"
)


def accuracy(panel: PanelRuns) -> list[str]:
    """The accuracies of every run in every setting, the paper's beside ours, then what they cost."""

    def scores(setting: str, key: Key) -> str:
        runs = panel.of(setting, key)
        plain = spread([100 * run["test_plain_mean"] for run in runs if run.get("test_plain_mean") is not None])
        text = spread([*panel.scores[setting].get(key, {}).values()]) or ("no score" if runs else "")
        return text + (f" ({plain})" if plain else "") + panel.bracketed(setting, "-".join(key))

    def costs(setting: str, key: Key) -> str:
        own, base = ([*map(total, panel.of(setting, each))] for each in (key, (key[0], panel.study.reference)))
        share = f" ({mean(base) / mean(own):.3g}x)" if base and own and mean(own) else ""
        return f"{mean(own) / 1e6:.3g}{share}" if own else ""

    whole = [mean_of(runs, "raw_data_bytes", 1e6) for runs in panel.by_setting.values()]
    lines = [f"{setting}: {text}" for setting in panel.columns if (text := panel.baselines_text(setting))]
    seeds = ("seeds", lambda key: str(max(len(panel.of(setting, key)) for setting in panel.columns)))
    return [
        f"Options were chosen on {panel.chosen_on}.\n" if panel.chosen_on else "",
        pivot(panel, panel.measure, scores),
        _after_steps(panel),
        f"Baselines on the same splits, %: {'; '.join(lines) or 'none'}.\n",
        pivot(
            panel,
            "MB in all (the reference's / own)",
            costs,
            [seeds],
            [("all data, sent once", *whole, "")] if any(whole) else [],
        ),
        _scored(panel),
    ]


def paired(panel: PanelRuns) -> list[str]:
    """Scores, differences, costs, and rounds to a target but of errors; [] without a score.

    A panel without the study's reference has no differences from it, and no rounds to where it ends.
    """
    if not any((scores := panel.scores).values()):
        return []

    def cell(setting: str, key: Key) -> str:
        return spread([*scores[setting].get(key, {}).values()], panel.digits) + panel.bracketed(setting, key[1])

    def costs(setting: str, key: Key) -> str:
        runs = panel.of(setting, key)
        beside = [(mean_of(runs, "flops", 1e9), "GFLOP"), (mean_of(runs, "seconds"), "s")]
        more = ", ".join(f"{text} {unit}" for text, unit in beside if text)
        return mean_of(runs, total, 1e6) + (f" ({more})" if more else "")

    seeds = ("seeds", lambda key: str(min(len(column.get(key, {})) for column in scores.values())))
    referred = any(method == panel.study.reference for _, method in panel.keys)
    told = "In brackets GFLOP of the clients, and seconds of the run in one process, which depend on the machine."
    return [
        pivot(panel, panel.measure, cell, [seeds]),
        _after_steps(panel),
        claims.from_reference(panel, scores) if referred else "",
        *claims.from_controls(panel),
        "\n".join(filter(None, [f"{told}\n", pivot(panel, "MB in all", costs), _scored(panel)])),
        claims.rounds(panel) if not panel.lower and (referred or panel.study.target) else "",
        _baselines(panel),
    ]


def errors(panel: PanelRuns) -> list[str]:
    """Scores, bytes until a target, paired by seed with full participation, and controls."""
    paper, reference, only, by_share = panel.panel["data"][0], panel.study.reference, panel.only, _by_share
    shares, levels = "test RMSE within a share of full participation's bytes", "MB to a validation score this far"

    def gains(key: Key) -> str:
        known = [(run["baselines"].get("client_biases", {}).get("test"), run) for run in only[key].values()]
        return spread([biases - score_of(run) for biases, run in known if biases is not None], 4)

    def share(own: Run, full: Run) -> float:
        return 100 * (_to_level(own, full, TOLERANCE) / _to_level(full, full, TOLERANCE))

    def printed(key: Key, place: int) -> str:
        return str(numbers[place]) if len(numbers := panel.printed(paper, "-".join(key), [])) > place else ""

    def printed_share(key: Key) -> str:
        base = panel.printed(paper, f"{key[0]}-{reference}", panel.printed(paper, f"gcn-{reference}", []))
        own = panel.printed(paper, "-".join(key), [])
        return f"{own[1] / base[1]:.0%}" if min(len(own), len(base)) > 1 else ""

    columns: list[text_tables.Shown] = [
        ("method", partial(_label, panel)),
        ("test RMSE", lambda key: spread([score_of(run) for run in only[key].values()], 4)),
        ("below biases", gains),
        ("MB in all", lambda key: spread([total(run) / 1e6 for run in only[key].values()])),
        SCORED,
        ("MB to target", lambda key: spread(_beside(panel, key, partial(_to_level, level=TOLERANCE)))),
        ("of full's", lambda key: spread(_beside(panel, key, share), 0, " %")),
        ("paper: RMSE", partial(printed, place=0)),
        ("KB", partial(printed, place=1)),
        ("of full's", printed_share),
    ]
    baselines, seeds = panel.baselines_text(panel.setting, "; ") or "none", len(next(iter(only.values())))
    return [
        text_tables.listed(panel, only, columns),
        f"Baselines, test RMSE on the same splits: {baselines}. Seeds: {seeds}.\n",
        panel.raw_data,
        by_share(panel, shares, BUDGETS, _at_budget, 4),
        by_share(panel, f"{levels} above full participation's best", LEVELS, _to_level, 2),
        *claims.from_controls(panel),
    ]


def targets(panel: PanelRuns) -> list[str]:
    """What accuracy methods reach, and what they spend until they reach a target."""
    reference, setting, label = panel.study.reference, panel.setting, panel.label
    columns, tested = panel.claimed(panel.columns, reference)
    scores = {name: panel.scores_of(column) for name, column in columns.items()}
    more = differences(scores, reference, tested)

    def measure(key: Key, name: str) -> str:
        measured = [run.get("measures", {}).get("test", {}).get(name) for run in panel.of(setting, key)]
        values = [100 * value for value in measured if value is not None]
        return f"{mean(values):.1f}" if values else ""

    shown: list[text_tables.Shown] = [
        ("method", lambda key: label(key[1])),
        (panel.measure, lambda key: spread([*panel.scores[setting].get(key, {}).values()]) or "no score"),
        (f"points more than {label(reference)}", partial(more.beside, setting, digits=2)),
        ("paper", lambda key: str(panel.printed(setting, "-".join(key), ""))),
        ("macro-F1", partial(measure, name="macro_f1")),
        ("AUC", partial(measure, name="auc")),
        *("MB", SCORED, "GFLOP", "seeds"),
    ]
    told = f", with 95 % intervals. {more.note(label(reference))}" if more.p_values else "."
    return [
        f"Test accuracy of the round best on validation; all that was spent. {panel.chosen_note(tested)}"
        f"Differences are paired{told}\n",
        text_tables.listed(panel, [key for key in panel.keys if key in panel.only], shown),
        text_tables.targets(panel, (MB, GFLOP)),
        _also(panel),
        f"Baselines on the same splits, %: {panel.baselines_text(setting) or 'none'}.\n",
        panel.raw_data,
    ]


def time(panel: PanelRuns) -> list[str]:
    """Simulated seconds to scores, paired against a reference, and what methods reach."""
    names = list(next(iter(panel.runs.values()))["measures"]["test"])
    reference, setting, label, first = panel.study.reference, panel.setting, panel.label, names[0]
    columns, tested = panel.claimed(panel.columns, reference)
    reach = {f"{score:g}": partial(spent_to, target=score, cost="simulated_seconds") for score in panel.study.targets}
    measures = {name: partial(_measure, name=name) for name in names}
    savings = Savings({name: _each(columns.get(setting, {}), of) for name, of in reach.items()}, reference, tested)
    above = differences({name: _each(each, measures[first], 100) for name, each in columns.items()}, reference, tested)

    def spreads(value: Callable[[Run], float], digits: int) -> text_tables.Text:
        return lambda key: spread([value(run) for run in panel.of(setting, key)], digits)

    def printed(key: Key, name: str) -> str:
        return str(panel.printed(setting, key[1], {}).get(name, ""))

    method = ("method", lambda key: label(key[1]))
    costs: list[text_tables.Shown] = [
        method,
        *((f"s to {name}", spreads(value, 2)) for name, value in reach.items()),
        *((f"% fewer to {name}", partial(savings.text, name)) for name in reach),
        ("s in all", spreads(lambda run: run["simulated_seconds"], 1)),
        ("MB", lambda key: f"{mean(map(total, panel.of(setting, key))) / 1e6:.0f}"),
        SCORED,
        ("paper: s", partial(printed, name="seconds")),
        "seeds",
    ]
    quality: list[text_tables.Shown] = [
        method,
        *((name, spreads(value, 4)) for name, value in measures.items()),
        ("paper", partial(printed, name="scores")),
        # told beside the measures, which nobody asked a test of: no asterisk
        (f"{first} above {label(reference)}, points", lambda key: above.beside(setting, key, 2).rstrip("*")),
    ]
    return [
        (f"{panel.chosen_note(tested)}{savings.note(label(reference))}\n\n" if reach else "")
        + text_tables.listed(panel, panel.only, costs),
        text_tables.targets(panel, (SECONDS, MB)) if panel.study.target else "",
        text_tables.listed(panel, panel.only, quality),
        _baseline_measures(panel, names),
        panel.raw_data,
    ]


def selectors(panel: PanelRuns) -> list[str]:
    """What selectors reach, and what they take in bytes, simulated seconds and choosing."""
    sign, digits, label = -1 if panel.lower else 1, panel.digits, panel.label(panel.study.reference)
    scores = panel.scores[panel.setting]
    better = differences(
        {"": {key: {s: sign * x for s, x in of.items()} for key, of in scores.items()}}, panel.study.reference
    )
    columns: list[text_tables.Shown] = [
        ("selector", lambda key: panel.label(key[1])),
        (f"test {panel.measure}", lambda key: spread([*scores.get(key, {}).values()], digits)),
        (f"better than {label}", partial(better.beside, "", digits=digits)),
        *("clients a round", "MB", SCORED, "simulated s", "ms of choosing a round", "seeds"),
    ]
    return [
        f"Better: paired differences with 95 % intervals, which are not corrected. {better.note(label)}\n",
        text_tables.listed(panel, panel.only, columns),
        *claims.from_controls(panel),
        _baselines(panel),
        panel.raw_data,
    ]


LAYOUTS: Final = {each.__name__: each for each in (accuracy, errors, paired, selectors, targets, time)}


# --- what several layouts have ----------------------------------------------------------------------------------------


def _each(column: Column[Run], value: Callable[[Run], float], unit: float = 1) -> dict[Key, dict[int, float]]:
    return {key: {seed: unit * value(run) for seed, run in by_seed.items()} for key, by_seed in column.items()}


def _measure(run: Run, name: str) -> float:
    return float(run["measures"]["test"][name])


def _scored(panel: PanelRuns) -> str:
    """Bytes with those of scoring at clients; "" where no run knows them."""
    if all(run.get(SCORING) is None for run in panel.runs.values()):
        return ""
    return pivot(panel, SCORED, panel.shown(SCORED))


def _after_steps(panel: PanelRuns) -> str:
    """Tests of clients' models after local steps at their best validation; "" where no run has any."""

    def tests(runs: Sequence[Run]) -> list[float]:
        return [100 * run[AFTER]["test"] for run in runs if (run.get(AFTER) or {}).get("test") is not None]

    text = pivot(panel, "after local steps, accuracy, %", lambda setting, key: spread(tests(panel.of(setting, key))))
    return text if tests([*panel.runs.values()]) else ""


def _baselines(panel: PanelRuns) -> str:
    """Baselines down and settings across: mean and standard deviation of test scores; "" without any."""
    names, digits = dict.fromkeys(name for by_name in panel.baselines.values() for name in by_name), panel.digits
    rows = [(name, *(spread(panel.baseline(setting, name), digits) for setting in panel.columns)) for name in names]
    head = (f"baselines{'' if panel.lower else ', %'}", *panel.columns)
    return "\n" + table(head, rows) if rows else ""


def _baseline_measures(panel: PanelRuns, names: Sequence[str]) -> str:
    """Baselines that the panel asks for, with the score and what else they tell."""
    wanted, rows = panel.panel["baselines"], []
    for name, by_seed in panel.baselines.get(panel.setting, {}).items():
        values = [[each[of] for each in by_seed.values() if each.get(of) is not None] for of in ("test", *names[1:])]
        rows += [(name, *(spread(each, 4) for each in values), str(len(by_seed)))] if name in wanted else []
    return table(("baseline", *names, "seeds"), rows) if rows else "No baselines yet.\n" if wanted else ""


def _also(panel: PanelRuns) -> str:
    """Return what the panel's first method saves to the target that the other reference's best sets; "" without it."""
    study, key, label = panel.study, panel.keys[0], panel.label
    pair = {key, (key[0], study.also)}
    if not pair <= panel.only.keys():
        return ""
    target = {**study.target, "reference": study.also}
    columns, tested = panel.claimed(panel.columns, study.also)
    runs = columns.get(panel.setting, {})
    if not pair <= runs.keys():
        runs, tested = panel.only, False
    found = text_tables.crossed(panel, (MB, GFLOP), target, runs, tested, study.also)
    points = found.points[key]
    saved = " and ".join(f"{found.savings.text(cost.unit, key)} % fewer {cost.unit}" for cost in (MB, GFLOP))
    told = f", {saved} than {label(study.also)}" if points and None not in points.values() else ""
    chosen = "" if tested or not panel.chosen_on else " On seeds that options were chosen on; not tested."
    name = text_tables.target_name(panel, target)
    return f"To {name}: {label(key[1])} in rounds {text_tables.reached(points)}{told}.{chosen}\n"


# --- errors: bytes until a target, beside full participation ----------------------------------------------------------


def _by_share(panel: PanelRuns, title: str, shares: Sequence[float], value: Callable[..., float], digits: int) -> str:
    """Methods down and shares across: a value of each run beside the reference's with its seed."""
    rows = [
        (_label(panel, key), *(spread(_beside(panel, key, value, share), digits) for share in shares))
        for key in panel.only
    ]
    return table((title, *(f"{c:.1%}" if c < 0.1 else f"{c:.0%}" for c in shares)), rows)


def _label(panel: PanelRuns, key: Key) -> str:
    return f"{panel.label(key[1])} ({key[0].upper()})" if key[0] else panel.label(key[1])


def _beside(panel: PanelRuns, key: Key, value: Callable[..., float], *more: float) -> list[float]:
    """Return values of a method's runs beside the reference's with the same model and seed.

    A method with a model of its own is held against those with any.
    """
    names = (each for each in panel.only if each[1] == panel.study.reference and key[0] in (each[0], ""))
    full = panel.only.get(next(names, ("", "")), {})
    return [value(run, full[seed], *more) for seed, run in panel.only[key].items() if seed in full]


def _at_budget(run: Run, full: Run, share: float) -> float:
    """Test score of the round that is best on validation among those within the budget."""
    within = [point for point in points_of(run) if point["bytes"] <= share * total(full)]
    return float(min(within, key=lambda point: point["validation"])["test"]) if within else math.nan


def _to_level(run: Run, full: Run, level: float) -> float:
    """MB until the validation score is this far above the reference's best."""
    best = min((point["validation"] for point in points_of(full)), default=math.nan)
    return spent_to(run, best * (1 + level), "bytes") / 1e6


START, END = "<!-- tables: written by fedgraft study -->", "<!-- /tables -->"


def write_page(study: Study, results: Results, seeds: int, page: Path, pictures: Path | None = None) -> None:
    """Put the tables between the page's two marks; a Markdown page that does not exist is made."""
    written = page_text(study, results, seeds, page, pictures)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(written)


def page_text(study: Study, results: Results, seeds: int, page: Path, pictures: Path | None = None) -> str:
    """Return a page with the tables between its two marks; of one that does not exist, its title and the tables.

    Pictures in a folder that are named as a table's heading are shown below that, once.
    """
    text = page.read_text() if page.is_file() else f"# {study.title}\n\n{START}\n{END}\n"
    written = tables(study, results, seeds)
    for picture in sorted(pictures.glob("*.png")) if pictures else ():
        heading, shown = f"### {picture.stem}\n", os.path.relpath(picture, page.parent)
        written = written.replace(heading, f"{heading}\n![Accuracy against costs: {picture.stem}]({shown})\n", 1)
    return between_marks(text, written, str(page))


def between_marks(text: str, written: str, name: str) -> str:
    """Return a page with other tables between its marks. Raises `InputError` with the page's name if it lacks them."""
    head, start, rest = text.partition(START)
    _, end, tail = rest.partition(END)
    if not start or not end:
        raise InputError(f"{name} lacks the marks {START} and {END}, between which the tables go.")
    return f"{head}{START}\n\n{written}\n{END}{tail}"


def tables(study: Study, results: Results, seeds: int) -> str:
    """All panels, in the study's layout, with all settings of a panel side by side or with tables of each setting.

    A line before them says if what scores take is not known of some runs.
    """
    parts, title = ["" if all(SCORING in run for run in results.values()) else UNKNOWN], ""
    if study.layout in SIDE_BY_SIDE:
        for panel in study.panels:
            parts += [f"## {panel['title']}\n", *_written(PanelRuns(study, panel, results, seeds))]
        return "\n".join(filter(None, parts))
    for heading, split, panel in settings(study):
        parts += [f"## {heading}\n"] if heading != title else []
        title = heading
        data, partition, clients = panel["data"][0], panel["partitions"][0], panel["clients"][0]
        name = f"{data}, {partition}, {clients} clients" if study.layout == "errors" else split
        parts += [f"### {name}\n", *_written(PanelRuns(study, panel, results, seeds))]
    return "\n".join(filter(None, parts))


def _written(panel: PanelRuns) -> list[str]:
    """Return what a panel has in the study's layout, and what failed in its runs."""
    parts = LAYOUTS[panel.study.layout](panel) if panel.runs else []
    return [*parts, panel.failures] if parts else ["Not run yet.\n"]
