"""Advice as a person reads it, a table and a sentence, and as JSON."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.reports.advising.questions import TOGETHER, Question
from fedgraft.reports.advising.verdict import CONFIDENCE, SHARES, Row, Verdict
from fedgraft.reports.studies.cells import spread, table

HEAD = ("what", "kind", "seeds", "validation", "test", "bytes", "better than alone", "at 25 / 50 / 100 % of bytes")
MORE = "better by, per further MB"


def padded(verdict: Verdict) -> str:
    """Return the table with columns of equal width: Markdown that reads well in a terminal."""
    lines = [[HEAD[0], *HEAD[1:], MORE], *(_texts(row, verdict) for row in verdict.rows)]
    width = [max(map(len, column)) for column in zip(*lines, strict=True)]
    head, *rows = [[text.ljust(n) for text, n in zip(line, width, strict=True)] for line in lines]
    return table(head, rows).replace("|---" * len(head), "".join(f"|{'-' * (n + 2)}" for n in width))


def as_json(verdict: Verdict, missing: Mapping[str, str]) -> dict[str, Any]:
    """Return the advice as one JSON object."""
    recommended = verdict.best.name if verdict.best and verdict.advice == "federate" else None
    return {
        "advice": verdict.advice,
        "recipe": recommended,
        "equals": list(verdict.equals),
        "sentence": verdict.sentence,
        "metric": verdict.metric,
        "better": verdict.better,
        "clients_better_off": verdict.better_off,
        "rows": [_fields(row, verdict) for row in verdict.rows],
        "not_run": dict(missing),
    }


def markdown(question: Question, verdict: Verdict, notes: Sequence[str]) -> str:
    """Return the page `advice.md`."""
    limit = human_bytes(question.budget) if question.budget else "none"
    why = "".join(
        f"- {candidate.name}: {candidate.why}{f' ({candidate.marked})' if candidate.marked else ''}\n"
        for candidate in question.choice.recipes
    )
    beside = "".join(f"{note}\n\n" for note in notes)
    return (
        f"# Advice on {question.data['name']}\n\n{verdict.sentence}\n\n"
        f"Scores are {verdict.metric}, {verdict.better} is better; bytes are those of a whole run, budget: {limit}. "
        f"Better than alone: mean over paired seeds, with its {CONFIDENCE:.0%} interval.\n\n"
        f"{padded(verdict)}\n{beside}Recipes, and why they were tried:\n\n{why}"
    )


def notes_of(verdict: Verdict, missing: Mapping[str, str]) -> list[str]:
    """Return what is to be said beside the table: what one place could do, what all data weigh, what was not run."""
    notes, best = [], verdict.best
    if best is not None and (share := verdict.better_off) is not None:
        notes.append(
            f"With {best.name}, {share:.0%} of clients are better on test than with a model that they train alone."
        )
    central = [row for row in verdict.rows if row.kind not in (TOGETHER, "alone") and row.cells]
    if best is not None and central:
        top = max(central, key=lambda row: verdict.sign * row.mean("validation"))
        raw = next((cell.get("raw_data_bytes") for cell in best.cells.values()), None)
        size = f", which takes {human_bytes(raw)} to send once" if raw else ""
        notes.append(
            f"If all data could be in one place{size}: {top.name} has {verdict.metric} {top.mean('validation'):.4f} on "
            f"validation, {top.mean('test'):.4f} on test; {best.name} {best.mean('test'):.4f} on test."
        )
    for limit in dict.fromkeys(missing.values()):
        left = ", ".join(job for job, by in missing.items() if by == limit)
        notes.append(f"Not run within {limit}: {left}. The same command with more of it runs only these.")
    return notes


def _texts(row: Row, verdict: Verdict) -> list[str]:
    if not row.cells:
        return [row.name, row.kind, "0", row.note, *[""] * 5]
    scores = [
        spread([cell[split] for cell in row.cells.values() if cell[split] is not None], 4)
        for split in ("validation", "test")
    ]
    gain = verdict.gains.get(row.name) if row.kind == TOGETHER else None
    points = " / ".join(_number(point) for point in row.points) if row.kind == TOGETHER else ""
    slopes = ", then ".join(_slope(slope) for slope in row.per_megabyte(verdict.sign)) if points else ""
    spent = "0 B" if row.bytes is None and row.kind == "alone" else "" if row.bytes is None else human_bytes(row.bytes)
    return [
        row.name, row.kind, str(len(row.cells)), *scores, spent, f"{gain:.4}" if gain else "", points, slopes,
    ]  # fmt: skip


def _fields(row: Row, verdict: Verdict) -> dict[str, Any]:
    known, gain = bool(row.cells), verdict.gains.get(row.name) if row.kind == TOGETHER else None
    curve: Mapping[str, Any] = (
        {
            "at_shares": dict(zip(map(str, SHARES), row.points, strict=True)),
            "per_megabyte": row.per_megabyte(verdict.sign),
        }
        if known and row.kind == TOGETHER
        else {}
    )
    return {
        "name": row.name,
        "kind": row.kind,
        "seeds": list(row.cells),
        **{split: _finite(row.mean(split)) if known else None for split in SCORED_SPLITS},
        "bytes": row.bytes if known else None,
        "better_than_alone": None if gain is None else {"mean": gain.middle, "half": gain.half},
        "note": row.note,
        **curve,
    }


def _finite(value: float) -> float | None:
    """A number that JSON can hold."""
    return value if math.isfinite(value) else None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _slope(value: float | None) -> str:
    return "-" if value is None else f"{value + 0.0:+.2g}"
