"""Say what came out of runs, in sentences that are made of their numbers alone."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, TypeVar

from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.reports.stored.seed_groups import SCORE, Group, run_of, shown_over
from fedgraft.reports.stored.stored_runs import ALONE, METRIC_NAMES, StoredRun, baselines_of

DIFFERENT = "The runs are on different data: none of them is the best."
NOTHING = "Nothing came out that could be compared: no run has a score on test."
COUNTED = ("popularity",)
"""Baselines for which each client need not tell more than how often it has what."""
_LEARNT = ("model", "halo", "statistics", "smoothing", "matching", "masking")
"""Purposes of bytes by which clients learn of each other."""

Summary = Mapping[str, Any]
T = TypeVar("T")
_HOW = "paired by seed, 95 % interval"
_QUOTED = re.compile(r"""(["'])((?:/|~/|[A-Za-z]:[\\/]|\\\\)[^"'\n]*)\1""")


def outcome(summaries: Sequence[Summary], labels: Sequence[str]) -> str:
    """Say which run is best, by how much and for how many bytes, against baselines and against sending all data once.

    There is at least one run; all have one metric.
    """
    ranked = _ranked([*zip(summaries, labels, strict=True)])
    return ranked if isinstance(ranked, str) else f"{_first(*ranked[0], ranked[1:])} {beside(ranked[0][0])}".rstrip()


def _ranked(runs: Sequence[tuple[Summary, T]]) -> Sequence[tuple[Summary, T]] | str:
    """Return the runs that have a score, the best first; or why there is no best one."""
    if len({summary["dataset"] for summary, _ in runs}) > 1:
        return DIFFERENT
    scored = [(summary, named) for summary, named in runs if summary[SCORE] is not None]
    return sorted(scored, key=lambda pair: _sign(pair[0]) * pair[0][SCORE]) or NOTHING


def _sign(summary: Summary) -> int:
    return 1 if summary["better"] == "lower" else -1


def beside(best: Summary) -> str:
    """Say how a run stands against baselines and against sending all data once."""
    paid = _against_raw_data(best) if _learnt_of_others(best) else "No model was sent: this was local training."
    return " ".join(part for part in (_against_baselines(best), paid) if part)


def metric_of(summary: Summary) -> str:
    """Return the metric as people write it."""
    name = str(summary["metric"])
    return METRIC_NAMES.get(name, name)


def _first(best: Summary, label: str, others: Sequence[tuple[Summary, str]]) -> str:
    """Say what the best run reaches, and how far the next is behind."""
    reached = (
        f"{metric_of(best)} {best[SCORE]:.4f} on test at best validation, for {human_bytes(best['bytes']['total'])}"
    )
    if not others:
        return f"{label} reaches {reached}."
    second, name = others[0]
    behind = abs(second[SCORE] - best[SCORE])
    against = f"{name} ({second[SCORE]:.4f}, for {human_bytes(second['bytes']['total'])})"
    if not behind:
        return f"{label} reaches {reached}, as good as {against}."
    return f"{label} is best: {reached}, {behind:.4f} better than {against}."


def _against_baselines(best: Summary) -> str:
    """Say by how much the run is better or worse than the best baseline, and whether one for no bytes is better."""
    sign = _sign(best)
    known = {name: score for name, score in baselines_of(best).items() if score is not None}
    ranked = sorted(known, key=lambda name: sign * known[name])
    if not ranked:
        return ""
    ahead = [name for name in ranked if sign * (known[name] - best[SCORE]) < 0]
    named = {name: f"{name} ({known[name]:.4f}){', for no bytes,' if _is_local(best, name) else ''}" for name in ranked}
    if not ahead:
        behind = abs(known[ranked[0]] - best[SCORE])
        relation = "as good as" if not behind else f"better by {behind:.4f} than"
        return f"That is {relation} the best baseline, {named[ranked[0]].removesuffix(',')}."
    text = f"The baseline {named[ahead[0]]} is better by {abs(known[ahead[0]] - best[SCORE]):.4f}"
    free = next((name for name in ahead if _is_local(best, name)), ahead[0])
    if free != ahead[0]:
        text = f"{text}, and {named[free]} is better too"
    return f"{text}. {_instead(best, free)}"


def _instead(best: Summary, name: str) -> str:
    """Say what to take in place of a run that a baseline is better than."""
    if name == ALONE:
        return "Take sharing.name=local instead: each client trains alone."
    if _is_local(best, name):
        return f"Take {name} instead: each client computes it alone."
    if name in COUNTED:
        return f"Take {name} instead: it needs counts alone."
    return f"Take {name} instead where all data may be in one place."


def _is_local(summary: Summary, name: str) -> bool:
    """Return whether a baseline sends nothing: each client computes it from its own data."""
    return name == ALONE or name in summary["local_baselines"]


def _against_raw_data(best: Summary) -> str:
    """Compare the run's bytes with those of sending all data once."""
    raw, sent = best["raw_data_bytes"], best["bytes"]["total"]
    if not raw:
        return ""
    share = sent / raw
    many = f"{share:,.0f}" if share >= 100 else f"{share:.3g}"
    times = f"{many} times what" if share >= 1 else f"{100 * share:.3g} % of what"
    return f"The run sent {times} sending all data once takes ({human_bytes(raw)})."


def _learnt_of_others(summary: Summary) -> bool:
    """Return whether a model, or anything else that was learnt, was ever sent."""
    return any(summary["bytes"][purpose] for purpose in _LEARNT)


def group_outcome(groups: Sequence[Group]) -> str:
    """Say which group has the best mean, whether it is first beyond doubt, for how many bytes; and what `beside` says.

    A group is first where the 95 % interval of its differences to every other group, paired by seed, leaves 0 out.

    Args:
        groups: of runs with one metric, at least one.
    """
    ranked = _ranked([(run_of(group).summary, group) for group in groups])
    if isinstance(ranked, str):
        return ranked
    (mean, best), *behind = ranked
    others = [group for _, group in behind]
    seeds = f"Over {len(best.seeds)} seeds {best.name}" if len(best.seeds) > 1 else f"{best.name}, with one seed,"
    score = shown_over(best.score, "{:.4f}".format)
    reached = f"{metric_of(mean)} {score} on test at best validation, for {human_bytes(mean['bytes']['total'])} a run"
    if not others:
        first = f"{seeds} reaches {reached}."
    else:
        doubtful = [other for other in others if not _is_ahead(best, other)]
        place = "has the best mean, but is not shown to be first" if doubtful else "is first"
        first = f"{seeds} {place}: {reached}. {_lead(best, doubtful or others, _sign(mean))}"
    return f"{first} {beside(mean)}".rstrip()


def _is_ahead(best: Group, other: Group) -> bool:
    """Return whether the interval of the differences says that one group is better than another."""
    difference = best.minus(other)[1]
    return difference.below if best.runs[0].better == "lower" else difference.above


def _lead(best: Group, others: Sequence[Group], sign: int) -> str:
    """Say how far the nearest of some groups is behind, and which more there are that are not behind beyond doubt."""
    nearest, *further = others
    seeds, difference = best.minus(nearest)
    if len(seeds) < 2:
        text = f"It has {'no seed' if not seeds else 'one seed alone'} in common with {nearest.name}"
    else:
        doubt = "" if _is_ahead(best, nearest) else ", an interval that holds 0"
        ahead = f"{-sign * difference.middle:.4f} ± {difference.half:.4f}"
        text = f"It is better than {nearest.name} by {ahead} ({_HOW}){doubt}"
    doubtful = [group.name for group in further if not _is_ahead(best, group)]
    return f"{text}; nor is it shown to be better than {', '.join(doubtful)}." if doubtful else f"{text}."


def differences(runs: Sequence[StoredRun]) -> dict[str, list[str]]:
    """{name: value of each run} of the settings and versions in which the runs differ.

    Where runs have different methods, or one has a method more, the methods' names say so; options that not all of the
    runs have are left out.
    """
    tables = [flat({**run.experiment, "environment": run.environment}) for run in runs]
    rows = {name: [written(table[name]) if name in table else "-" for table in tables] for name in _all_names(tables)}
    return {name: values for name, values in rows.items() if len(set(values)) > 1}


def _all_names(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names that all tables have, and names of methods, ascending."""
    names = set().union(*tables)
    return sorted(name for name in names if name.endswith(".name") or all(name in table for table in tables))


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a.b": value} of nested tables."""
    values: dict[str, Any] = {}
    for name, value in table.items():
        values.update(flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value})
    return values


def written(value: Any) -> str:
    """Return a value as a recipe has it; a text without quotes, and of an absolute path its last part.

    >>> written(["mlp", {"name": "quantized", "bits": 4}]), written("mlp"), written(True)
    ('["mlp", {name = "quantized", bits = 4}]', 'mlp', 'true')
    """
    return _last_part(value) if isinstance(value, str) else _nested(value)


def _nested(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name} = {_nested(each)}' for name, each in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_nested, value))}]"
    if isinstance(value, str):
        return json.dumps(_last_part(value), ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)


def without_folders(toml: str) -> str:
    """Return a file's text in which absolute paths are their last parts: a page may be mailed out."""
    return _QUOTED.sub(lambda match: f"{match[1]}{_last_part(match[2])}{match[1]}", toml)


def _last_part(text: str) -> str:
    """Return the last part of an absolute path; any other text as it is."""
    if text.startswith(("/", "~/")):
        return PurePosixPath(text).name or text
    return PureWindowsPath(text).name or text if PureWindowsPath(text).is_absolute() else text
