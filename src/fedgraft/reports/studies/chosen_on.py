"""The seeds and sets on which a study's options were chosen: they have no part in what is claimed."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from fedgraft.reports.studies.comparisons import Run
from fedgraft.reports.studies.panel_runs import PanelRuns

LEAST_FRESH = 2
"""Seeds that must be left for an interval."""
T = TypeVar("T")


def fresh(panel: PanelRuns, by_run: Mapping[Run, Mapping[int, T]]) -> dict[Run, dict[int, T]]:
    """Return {(model, method): {seed: value}} of the seeds that nothing was chosen on; no method without any."""
    seeds = panel.study.tuned.get("seeds", [])
    left = {run: {seed: each for seed, each in by_seed.items() if seed not in seeds} for run, by_seed in by_run.items()}
    return {run: by_seed for run, by_seed in left.items() if by_seed}


def is_fresh(panel: PanelRuns, seed: int, data: str) -> bool:
    """Return whether nothing was chosen on a seed or a set."""
    tuned = panel.study.tuned
    return seed not in tuned.get("seeds", []) and data not in tuned.get("sets", [])


def sets(panel: PanelRuns) -> list[str]:
    """Return the panel's data sets that options were chosen on."""
    return [data for data in panel.study.tuned.get("sets", []) if data in panel.panel["data"]]


def claimed(
    panel: PanelRuns, by_run: Mapping[Run, Mapping[int, T]], reference: str
) -> tuple[Mapping[Run, Mapping[int, T]], bool]:
    """Return what a panel with one setting tells of, and whether it is tested.

    That is what is fresh; where no method has enough of that beside the reference, it is all, and nothing is tested.
    """
    left = {} if sets(panel) else fresh(panel, by_run)
    tested = enough([left], reference)
    untouched = not named(panel)
    return (left, True) if tested or untouched else (by_run, False)


def enough(columns: Iterable[Mapping[Run, Mapping[int, T]]], reference: str) -> bool:
    """Return whether a method shares enough seeds with the reference in any column for an interval."""
    return any(
        len(by_seed.keys() & column.get((run[0], reference), {}).keys()) >= LEAST_FRESH
        for column in columns
        for run, by_seed in column.items()
        if run[1] != reference
    )


def named(panel: PanelRuns) -> str:
    """Return the panel's seeds and sets that options were chosen on, such as "seeds 1, 2; set pubmed"; "" for none."""
    seeds, chosen = panel.study.tuned.get("seeds", []), sets(panel)
    told = [f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"] if seeds else []
    told += [f"set{'s' if len(chosen) > 1 else ''} {', '.join(chosen)}"] if chosen else []
    return "; ".join(told)


def note(panel: PanelRuns, tested: bool) -> str:
    """Return what was left out, or that nothing could be tested, as a sentence and a space; "" where neither is so."""
    told = named(panel)
    if not told:
        return ""
    if tested:
        return f"Left out, as options were chosen on them: {told}. "
    return f"Options were chosen on {told}. Fewer than {LEAST_FRESH} fresh seeds are left, so nothing is tested. "
