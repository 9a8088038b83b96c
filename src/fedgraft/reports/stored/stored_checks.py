"""Check that a run stored what a run stores: every key of a summary and every field of a round."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fedgraft.contracts.values import SCORED_SPLITS, SPLITS
from fedgraft.engine.server.ledger import DIRECTIONS, PURPOSES
from fedgraft.experiment.running.summary import CURVE

MOST = 2**63 - 1
"""The largest number that is counted."""

Check = Callable[[Any], bool]
_TEXTS = ("recipe", "dataset", "metric", "better", "digest", "stopped_by")
_COUNTS = ("clients", "seed", "rounds", "selections")
_SECONDS = ("seconds", "simulated_seconds")
_SCORES = ("validation", "test", "test_at_best_validation")


def checks(summary: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield (key, whether the summary has it and its value is one of that key)."""
    yield from ((name, _is_text(summary.get(name))) for name in _TEXTS)
    yield "better", summary.get("better") in ("lower", "higher")
    yield from ((name, _is_count(summary.get(name))) for name in _COUNTS)
    yield from ((name, _is_number(summary.get(name))) for name in _SECONDS)
    yield from ((name, name in summary and _is_score(summary[name])) for name in _SCORES)
    yield "test_plain_mean", "test_plain_mean" in summary and _is_score(summary["test_plain_mean"])
    by_client = summary.get("test_per_client")
    yield "test_per_client", isinstance(by_client, dict) and all(map(_is_score, by_client.values()))
    sizes, wanted = summary.get("bytes"), ("total", *DIRECTIONS, *PURPOSES)
    yield "bytes", isinstance(sizes, dict) and all(_is_count(sizes.get(name)) for name in wanted)
    curve = summary.get("curve")
    yield "curve", isinstance(curve, list) and len(curve) > 0 and all(map(_is_point, curve))
    yield "scored", _is_count(summary.get("scored"))
    yardsticks = summary.get("yardsticks")
    yield "yardsticks", isinstance(yardsticks, dict) and all(map(_is_score, yardsticks.values()))
    yield "measures", _is_measures(summary.get("measures"))
    yield "data", "data" in summary and _is_data(summary["data"])
    yield "flops", (work := summary.get("flops", 0.5)) is None or _is_count(work)
    yield "failures", isinstance(failed := summary.get("failures"), dict) and all(map(_is_count, failed.values()))
    remarks = summary.get("remarks")
    yield "remarks", isinstance(remarks, list) and all(map(_is_text, remarks))
    yield "after_local_steps", _is_after_steps(summary.get("after_local_steps"), curve)
    local = summary.get("local_yardsticks")
    yield "local_yardsticks", isinstance(local, list) and all(map(_is_text, local))
    yield "raw_data_bytes", (size := summary.get("raw_data_bytes", 0.5)) is None or _is_count(size)
    alone = summary.get("client_alone", 0)
    known = isinstance(alone, dict) and all(split in alone and _is_score(alone[split]) for split in SCORED_SPLITS)
    yield "client_alone", alone is None or known


def _is_measures(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(each, dict) and all(map(_is_text, each)) and all(map(_is_score, each.values()))
        for each in value.values()
    )


def _is_after_steps(value: object, curve: object) -> bool:
    """Return whether it is what `summary.summarise` makes of local steps that are scored, or None."""
    if value is None:
        return True
    if not (isinstance(value, dict) and isinstance(value.get("curve"), dict) and isinstance(curve, list)):
        return False
    lines, by_client, round = value["curve"], value.get("test_per_client"), value.get("round")
    return (
        (round is None or _is_count(round))
        and all(split in value and _is_score(value[split]) for split in SCORED_SPLITS)
        and _is_measures(value.get("measures"))
        and isinstance(by_client, dict)
        and all(map(_is_score, by_client.values()))
        and all(isinstance(lines.get(split), list) and len(lines[split]) == len(curve) for split in SCORED_SPLITS)
        and all(_is_score(score) for split in SCORED_SPLITS for score in lines[split])
    )


def _is_data(value: object) -> bool:
    """Return whether it is what `data_table.described` makes, or None."""
    if value is None:
        return True
    if not (
        isinstance(value, dict) and isinstance(value.get("classes"), list) and all(map(_is_text, value["classes"]))
    ):
        return False
    rows, classes = value.get("clients"), len(value["classes"])
    return isinstance(rows, list) and all(_is_client(row, classes) for row in rows)


def _is_client(row: object, classes: int) -> bool:
    if not (isinstance(row, dict) and _is_text(row.get("name")) and all(_is_count(row.get(split)) for split in SPLITS)):
        return False
    counts = row.get("classes")
    return isinstance(counts, list) and len(counts) == classes and all(map(_is_count, counts))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


def _is_text(value: object) -> bool:
    """Return whether it is a text that can be shown: JSON can hold halves of characters."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_score(value: object) -> bool:
    return value is None or _is_number(value)


def _is_point(point: object) -> bool:
    return (
        isinstance(point, list)
        and len(point) == len(CURVE)
        and all(map(_is_count, point[:2]))
        and _is_number(point[2])
        and all(map(_is_score, point[3:5]))
        and _is_count(point[5])
        and _is_number(point[6])
    )


def _by_client(check: Check) -> Check:
    """Return a check of {client: value}."""
    return lambda value: (
        isinstance(value, dict)
        and all(
            client.isascii() and client.isdigit() and len(client) < 10 and check(each) for client, each in value.items()
        )
    )


def _is_terms(value: object) -> bool:
    numbers = _by_client(_is_number)
    return isinstance(value, dict) and all(_is_text(name) and numbers(each) for name, each in value.items())


def _is_timing(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


ROUND: Mapping[str, Check] = {
    **dict.fromkeys(("round", "bytes", "bytes_total", "flops", "scored"), _is_count),
    "selected": lambda value: isinstance(value, list) and all(map(_is_count, value)),
    "failed": _by_client(_is_text),
    "timings": _by_client(_is_timing),
    "late": lambda value: isinstance(value, list | tuple) and all(map(_is_count, value)),
    "staleness": _by_client(_is_count),
    "terms": _is_terms,
    **dict.fromkeys(("loss", "validation", "test"), _is_score),
    **dict.fromkeys(("seconds", "simulated_seconds", "began"), _is_number),
}
"""{field of a row: whether a value is one}."""
