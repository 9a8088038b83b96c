"""Say what came out of runs with several seeds, in sentences that are made of their numbers alone."""

from collections.abc import Sequence

from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.reports.pages.outcome import DIFFERENT, NOTHING, beside, metric_of
from fedgraft.reports.stored.seed_groups import SCORE, Group, shown_over
from fedgraft.reports.stored.seed_means import run_of

_HOW = "paired by seed, 95 % interval"


def group_outcome(groups: Sequence[Group]) -> str:
    """Say which group has the best mean, whether it is first beyond doubt, for how many bytes; and what `beside` says.

    A group is first where the 95 % interval of its differences to every other group, paired by seed, leaves 0 out.

    Args:
        groups: of runs with one metric, at least one.
    """
    if len({run.summary["dataset"] for group in groups for run in group.runs}) > 1:
        return DIFFERENT
    means = [(run_of(group).summary, group) for group in groups]
    scored = [(mean, group) for mean, group in means if mean[SCORE] is not None]
    if not scored:
        return NOTHING
    sign = 1 if groups[0].runs[0].better == "lower" else -1
    (mean, best), *behind = sorted(scored, key=lambda pair: sign * pair[0][SCORE])
    others = [group for _, group in behind]
    seeds = f"Over {len(best.seeds)} seeds {best.name}" if len(best.seeds) > 1 else f"{best.name}, with one seed,"
    score = shown_over(best.score, "{:.4f}".format)
    reached = f"{metric_of(mean)} {score} on test at best validation, for {human_bytes(mean['bytes']['total'])} a run"
    if not others:
        first = f"{seeds} reaches {reached}."
    else:
        doubtful = [other for other in others if not _is_ahead(best, other)]
        place = "has the best mean, but is not shown to be first" if doubtful else "is first"
        first = f"{seeds} {place}: {reached}. {_lead(best, doubtful or others, sign)}"
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
