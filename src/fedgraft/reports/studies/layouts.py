"""The six layouts of a study's page: which of the three tables a panel has, and what stands beside them."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import mean
from typing import Any, Final

from fedgraft.contracts.scores import first_reaching
from fedgraft.reports.stored.intervals import LEVEL
from fedgraft.reports.studies import tables
from fedgraft.reports.studies.cells import SCORED, Column, Key, PanelRuns, Run, mean_of, points_of, spent_to, total
from fedgraft.reports.studies.markdown import spread, table
from fedgraft.reports.studies.study import AFTER, SCORING
from fedgraft.reports.studies.tables import GFLOP, LEAST_SEEDS, MB, SECONDS, Differences, Savings, differences, pivot

MEANS: Final = "mean of the columns"
LAST: Final = 3
"""Scored points at the end of a curve whose mean is what a method ends at: one round more or less is luck."""
TOLERANCE: Final = 0.002
"""The target of errors is the best validation score of the reference method, worsened by this share."""
LEVELS: Final = (0.02, 0.01, 0.005, TOLERANCE)
"""Targets of "bytes to different scores", as shares above the reference's best."""
BUDGETS: Final = (0.25, 0.5, 0.75, 1.0)
"""Budgets of "scores at equal budgets", as shares of what the reference spends."""
Compare = Callable[[Run, Run, float], float | None]
"""(a method's run, a control's, the target of their seed) -> the difference.

nan where the method never gets there, None where one of the runs does not know it."""


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
    lines = [f"{setting}: {text}" for setting in panel.columns if (text := panel.yardsticks_text(setting))]
    seeds = ("seeds", lambda key: str(max(len(panel.of(setting, key)) for setting in panel.columns)))
    return [
        f"Options were chosen on {panel.chosen_on}.\n" if panel.chosen_on else "",
        pivot(panel, panel.measure, scores),
        _after_steps(panel),
        f"Yardsticks on the same splits, %: {'; '.join(lines) or 'none'}.\n",
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
        _paired_differences(panel, scores) if referred else "",
        *_controls(panel),
        "\n".join(filter(None, [f"{told}\n", pivot(panel, "MB in all", costs), _scored(panel)])),
        _rounds(panel) if not panel.lower and (referred or panel.study.target) else "",
        _yardsticks(panel),
    ]


def errors(panel: PanelRuns) -> list[str]:
    """Scores, bytes until a target, paired by seed with full participation, and controls."""
    paper, reference, only, by_share = panel.panel["data"][0], panel.study.reference, panel.only, _by_share
    shares, levels = "test RMSE within a share of full participation's bytes", "MB to a validation score this far"

    def gains(key: Key) -> str:
        known = [(run["yardsticks"].get("client_biases", {}).get("test"), run) for run in only[key].values()]
        return spread([biases - _score(run) for biases, run in known if biases is not None], 4)

    def share(own: Run, full: Run) -> float:
        return 100 * (_to_level(own, full, TOLERANCE) / _to_level(full, full, TOLERANCE))

    def printed(key: Key, place: int) -> str:
        return str(numbers[place]) if len(numbers := panel.printed(paper, "-".join(key), [])) > place else ""

    def printed_share(key: Key) -> str:
        base = panel.printed(paper, f"{key[0]}-{reference}", panel.printed(paper, f"gcn-{reference}", []))
        own = panel.printed(paper, "-".join(key), [])
        return f"{own[1] / base[1]:.0%}" if min(len(own), len(base)) > 1 else ""

    columns: list[tables.Shown] = [
        ("method", partial(_label, panel)),
        ("test RMSE", lambda key: spread([_score(run) for run in only[key].values()], 4)),
        ("below biases", gains),
        ("MB in all", lambda key: spread([total(run) / 1e6 for run in only[key].values()])),
        SCORED,
        ("MB to target", lambda key: spread(_beside(panel, key, partial(_to_level, level=TOLERANCE)))),
        ("of full's", lambda key: spread(_beside(panel, key, share), 0, " %")),
        ("paper: RMSE", partial(printed, place=0)),
        ("KB", partial(printed, place=1)),
        ("of full's", printed_share),
    ]
    yardsticks, seeds = panel.yardsticks_text(panel.setting, "; ") or "none", len(next(iter(only.values())))
    return [
        tables.listed(panel, only, columns),
        f"Yardsticks, test RMSE on the same splits: {yardsticks}. Seeds: {seeds}.\n",
        panel.raw_data,
        by_share(panel, shares, BUDGETS, _at_budget, 4),
        by_share(panel, f"{levels} above full participation's best", LEVELS, _to_level, 2),
        *_controls(panel),
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

    shown: list[tables.Shown] = [
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
        tables.listed(panel, [key for key in panel.keys if key in panel.only], shown),
        tables.targets(panel, (MB, GFLOP)),
        _also(panel),
        f"Yardsticks on the same splits, %: {panel.yardsticks_text(setting) or 'none'}.\n",
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

    def spreads(value: Callable[[Run], float], digits: int) -> tables.Text:
        return lambda key: spread([value(run) for run in panel.of(setting, key)], digits)

    def printed(key: Key, name: str) -> str:
        return str(panel.printed(setting, key[1], {}).get(name, ""))

    method = ("method", lambda key: label(key[1]))
    costs: list[tables.Shown] = [
        method,
        *((f"s to {name}", spreads(value, 2)) for name, value in reach.items()),
        *((f"% fewer to {name}", partial(savings.text, name)) for name in reach),
        ("s in all", spreads(lambda run: run["simulated_seconds"], 1)),
        ("MB", lambda key: f"{mean(map(total, panel.of(setting, key))) / 1e6:.0f}"),
        SCORED,
        ("paper: s", partial(printed, name="seconds")),
        "seeds",
    ]
    quality: list[tables.Shown] = [
        method,
        *((name, spreads(value, 4)) for name, value in measures.items()),
        ("paper", partial(printed, name="scores")),
        (f"{first} above {label(reference)}, points", lambda key: above.beside(setting, key, 2).rstrip("*")),
    ]
    return [
        (f"{panel.chosen_note(tested)}{savings.note(label(reference))}\n\n" if reach else "")
        + tables.listed(panel, panel.only, costs),
        tables.targets(panel, (SECONDS, MB)) if panel.study.target else "",
        tables.listed(panel, panel.only, quality),
        _yardstick_measures(panel, names),
        panel.raw_data,
    ]


def selectors(panel: PanelRuns) -> list[str]:
    """What selectors reach, and what they take in bytes, simulated seconds and choosing."""
    sign, digits, label = -1 if panel.lower else 1, panel.digits, panel.label(panel.study.reference)
    scores = panel.scores[panel.setting]
    better = differences(
        {"": {key: {s: sign * x for s, x in of.items()} for key, of in scores.items()}}, panel.study.reference
    )
    columns: list[tables.Shown] = [
        ("selector", lambda key: panel.label(key[1])),
        (f"test {panel.measure}", lambda key: spread([*scores.get(key, {}).values()], digits)),
        (f"better than {label}", partial(better.beside, "", digits=digits)),
        *("clients a round", "MB", SCORED, "simulated s", "ms of choosing a round", "seeds"),
    ]
    return [
        f"Better: paired differences with 95 % intervals, which are not corrected. {better.note(label)}\n",
        tables.listed(panel, panel.only, columns),
        *_controls(panel),
        _yardsticks(panel),
        panel.raw_data,
    ]


LAYOUTS: Final = {each.__name__: each for each in (accuracy, errors, paired, selectors, targets, time)}
SIDE_BY_SIDE: Final = ("accuracy", "paired")
"""Layouts whose tables have all settings of a panel."""


# --- what several layouts have ----------------------------------------------------------------------------------------


def _each(column: Column[Run], value: Callable[[Run], float], unit: float = 1) -> dict[Key, dict[int, float]]:
    return {key: {seed: unit * value(run) for seed, run in by_seed.items()} for key, by_seed in column.items()}


def _measure(run: Run, name: str) -> float:
    return float(run["measures"]["test"][name])


def _score(run: Run) -> float:
    score = run["test_at_best_validation"]
    return math.nan if score is None else float(score)


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


def _yardsticks(panel: PanelRuns) -> str:
    """Yardsticks down and settings across: mean and standard deviation of test scores; "" without any."""
    names, digits = dict.fromkeys(name for by_name in panel.yardsticks.values() for name in by_name), panel.digits
    rows = [(name, *(spread(panel.yardstick(setting, name), digits) for setting in panel.columns)) for name in names]
    head = (f"yardsticks{'' if panel.lower else ', %'}", *panel.columns)
    return "\n" + table(head, rows) if rows else ""


def _yardstick_measures(panel: PanelRuns, names: Sequence[str]) -> str:
    """Yardsticks that the panel asks for, with the score and what else they tell."""
    wanted, rows = panel.panel["yardsticks"], []
    for name, by_seed in panel.yardsticks.get(panel.setting, {}).items():
        values = [[each[of] for each in by_seed.values() if each.get(of) is not None] for of in ("test", *names[1:])]
        rows += [(name, *(spread(each, 4) for each in values), str(len(by_seed)))] if name in wanted else []
    return table(("yardstick", *names, "seeds"), rows) if rows else "No yardsticks yet.\n" if wanted else ""


# --- differences from the reference, and from controls ----------------------------------------------------------------


def _paired_differences(panel: PanelRuns, scores: Mapping[str, Column[float]]) -> str:
    """Differences from the reference, methods down and settings across, and of the means over settings.

    Seeds and sets on which options were chosen have no part. Where these are all, nothing is tested.
    """
    reference, best, digits = panel.study.reference, "lowest" if panel.lower else "highest", panel.digits
    columns, tested = panel.claimed(scores, reference)
    found = differences(columns, reference, tested)
    overall = differences({MEANS: _means([*columns.values()])}, reference, tested)
    standing = {name: tables.standings(column, panel.lower) for name, column in columns.items()} if tested else {}

    def cell(name: str, key: Key) -> str:
        return (found.text((name, key), digits) + standing.get(name, {}).get(key, "")).strip()

    rows = [
        (panel.row_label(key), *(cell(name, key) for name in columns), overall.text((MEANS, key), digits))
        for key in panel.keys
    ]
    meaning = (
        "Paired differences with 95 % intervals, which are not corrected. "
        f"{found.note(panel.label(reference))} *{best.capitalize()}*: the {best} mean of the column. "
        f"*With the {best}*: the interval of the difference from it holds 0, corrected by Bonferroni for all others of "
        f"the column. *First*: the {best}, with nobody beside it, over {LEAST_SEEDS} paired seeds or more. The mean of "
        f"the columns is corrected by Holm over its own {len(overall.p_values)} comparisons.\n"
    )
    told = panel.chosen_note(tested) + (meaning if tested else "Means of paired differences.\n")
    return f"{told}\n" + table((f"{panel.points}more than {panel.label(reference)}", *columns, MEANS), rows)


def _means(columns: Sequence[Column[float]]) -> Column[float]:
    """Each method's mean over columns, of those that have a score in all, by the seeds that they have in all."""
    everywhere = [run for run in columns[0] if all(run in column for column in columns)]
    seeds = {run: set.intersection(*({*column[run]} for column in columns)) for run in everywhere}
    return {run: {seed: mean(column[run][seed] for column in columns) for seed in seeds[run]} for run in everywhere}


def _controls(panel: PanelRuns) -> list[str]:
    """A note and the tables that hold methods against each control; [] without any, or where nobody is held.

    A method that learns whom to choose pays only where it is better than whatever learns nothing.
    """
    study, fresh = panel.study, panel.fresh(panel.columns)
    target = study.target.get("reference", study.reference) if study.target else ""
    controls = [method for method in study.controls if any(method == name for _, name in panel.keys)]
    others = [key for key in panel.keys if key[1] not in (*controls, target)]
    columns = [(setting, control) for setting, column in fresh.items() if column for control in controls]
    if not (others and columns):
        return []
    asked: dict[str, Compare] = {
        f"{panel.points}more than": lambda own, base, _: panel.unit * (_score(own) - _score(base)),
        f"{panel.points}more at the end than": partial(_at_the_end, unit=panel.unit),
    }
    if target and not panel.lower:
        asked["% fewer rounds to the target than"] = partial(fewer, cost="round")
        asked["% fewer simulated seconds to the target than"] = partial(fewer, cost="simulated_seconds")
    several = len({setting for setting, _ in columns}) > 1
    heads = [panel.label(control) + (f", {setting}" if several else "") for setting, control in columns]
    made = []
    for title, compare in asked.items():
        places = [((setting, each), key) for key in others for setting, each in columns]
        held = {
            ((s, each), key): _held(fresh[s], key, each, target, study.target, compare) for (s, each), key in places
        }
        found = Differences(held)
        rows = [
            (panel.row_label(key), *(_against(found, (each, key), panel.digits) for each in columns))
            for key in others
            if any(held[each, key] for each in columns)
        ]
        made += [table((title, *heads), rows)] if rows else []
    note = (
        "Against each control: paired differences with 95 % intervals, which are not corrected. An asterisk: "
        f"p < {LEVEL} in a two-sided paired t-test, corrected by Holm over all comparisons of its table; a method that "
        "is not there on a seed counts among them. *At the end*: mean test score of the last "
        f"{LAST} scored rounds, whichever was best on validation. Where a control never gets to the target, all that "
        "it spent counts, which is too little.\n"
    )
    return [panel.chosen_note(True) + note, *made]


def _held(
    column: Column[Run], key: Key, control: str, reference: str, target: Mapping[str, Any], compare: Compare
) -> list[float]:
    """Return differences of a method from a control with the same model, of seeds that know one; nan: never there."""
    own, base, sets = (column.get((key[0], each), {}) for each in (key[1], control, reference))
    goal = tables.goals(sets, target)
    values = [compare(own[seed], base[seed], goal.get(seed, math.nan)) for seed in sorted(own.keys() & base.keys())]
    return [value for value in values if value is not None]


def _against(found: Differences, place: Any, digits: int) -> str:
    """A difference with its interval and mark; on how many seeds there is one, where it is not on all."""
    values = found.values[place]
    there = sum(not math.isnan(value) for value in values)
    return found.text(place, digits) if there == len(values) else f"there on {there} of {len(values)} seeds"


def end_of(run: Run) -> float | None:
    """Return the mean test score of the last scored points, whichever was best on validation; None without a curve.

    A method whose clients are federations of their own has none: each of these ends for itself.
    """
    last = [float(point["test"]) for point in points_of(run)[-LAST:]]
    return mean(last) if last else None


def _at_the_end(own: Run, base: Run, _: float, unit: float) -> float | None:
    mine, theirs = end_of(own), end_of(base)
    return None if mine is None or theirs is None else unit * (mine - theirs)


def fewer(own: Run, base: Run, goal: float, cost: str) -> float:
    """Return by how many percent less of a cost one run is at a goal than another; nan where it never is.

    Where the other never is, all that it spent counts, which is too little.
    """
    mine, theirs = (first_reaching(points_of(run), goal, "higher") for run in (own, base))
    if mine is None:
        return math.nan
    spent = (points_of(base)[-1] if theirs is None else theirs)[cost]
    return 100 * (1 - float(mine[cost]) / float(spent)) if spent else math.nan


# --- targets ----------------------------------------------------------------------------------------------------------


def _rounds(panel: PanelRuns) -> str:
    """Rounds to the study's target, seed by seed; without one to where the reference ends, off mean curves."""
    target, label = panel.study.target, panel.label(panel.study.reference)
    if not target:
        note = f"Where it ends is the mean of its last {LAST} scored rounds on validation, over the seeds.\n\n"
        return note + pivot(panel, f"rounds to where {label} ends", partial(_rounds_to_end, panel))
    reference, goal = target.get("reference", panel.study.reference), tables.target_name(panel, target)

    def cell(setting: str, key: Key) -> str:
        own, base = (panel.columns[setting].get((key[0], each), {}) for each in (key[1], reference))
        points = tables.crossings(own, tables.goals(base, target))
        return tables.reached(points) + tables.seconds(points)

    note = (
        f"The target, which the study fixes beforehand, is {goal}, on validation with the same seed. "
        "Rounds, and in brackets simulated seconds, are means over the seeds that get there.\n\n"
    )
    return note + pivot(panel, f"rounds to {goal}", cell)


def _rounds_to_end(panel: PanelRuns, setting: str, key: Key) -> str:
    own, base = (_mean_curve(panel.of(setting, each)) for each in (key, (key[0], panel.study.reference)))
    goal = ends_at(base)
    needed, least = rounds_to(own, goal), rounds_to(base, goal)
    return (str(needed or "never") if own else "") + (f" ({needed / least:.2f}x)" if needed and least else "")


def _mean_curve(runs: Sequence[Run]) -> list[tuple[float, ...]]:
    """(round, bytes, mean validation score over the seeds that have one, else nan) of each point of runs."""
    groups = zip(*(run["curve"] for run in runs), strict=False)
    scored = [(group[0][:2], [point[2] for point in group if point[2] is not None]) for group in groups]
    return [(*first, mean(scores) if scores else math.nan) for first, scores in scored]


def rounds_to(curve: Sequence[Sequence[Any]], goal: float) -> int | None:
    """Return the first scored round whose validation accuracy is at a goal; None if there is none."""
    point = first_reaching(points_of({"curve": curve}), goal, "higher")
    return None if point is None else int(point["round"])


def ends_at(curve: Sequence[Sequence[Any]]) -> float:
    """Return the mean validation accuracy of the last scored points; nan without any."""
    scored = [point[2] for point in curve if point[2] is not None]
    return mean(scored[-LAST:]) if scored else math.nan


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
    found = tables.crossed(panel, (MB, GFLOP), target, runs, tested, study.also)
    points = found.points[key]
    saved = " and ".join(f"{found.savings.text(cost.unit, key)} % fewer {cost.unit}" for cost in (MB, GFLOP))
    told = f", {saved} than {label(study.also)}" if points and None not in points.values() else ""
    chosen = "" if tested or not panel.chosen_on else " On seeds that options were chosen on; not tested."
    name = tables.target_name(panel, target)
    return f"To {name}: {label(key[1])} in rounds {tables.reached(points)}{told}.{chosen}\n"


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
