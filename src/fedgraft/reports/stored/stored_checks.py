"""What a run stored, by types: the keys of a summary and the fields of a round, which pydantic checks."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AllowInfNan,
    Field,
    Strict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
)

from fedgraft.contracts.values import SCORED_SPLITS, SPLITS
from fedgraft.engine.server.ledger import DIRECTIONS, PURPOSES

MOST = 2**63 - 1
"""The largest number that is counted."""
Count: TypeAlias = Annotated[int, Strict(), Field(ge=0, le=MOST)]
Number: TypeAlias = Annotated[float, Strict(), AllowInfNan(False)]
Text: TypeAlias = Annotated[str, Strict(), AfterValidator(lambda text: text.encode().decode())]
"""A text that can be shown: JSON can hold halves of characters, which are refused."""
Score: TypeAlias = Number | None
Client: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,9}$")]
Point: TypeAlias = tuple[Count, Count, Number, Score, Score, Count, Number]
"""A point of a curve, with the columns of `summary.CURVE`."""
Measures: TypeAlias = dict[str, dict[Text, Score]]
Checks: TypeAlias = Mapping[str, TypeAdapter[Any]]
"""{key of a table: what its value must be}."""


def wrong_key(checks: Checks, table: Mapping[str, Any]) -> str | None:
    """Return the first key that a table lacks, or whose value is not one of it; None for none."""
    for key, check in checks.items():
        try:
            check.validate_python(table[key], context=table)
        except (KeyError, ValidationError):
            return key
    return None


def _table(types: Mapping[str, Any]) -> Any:
    """Return the type of a table that has these keys, and perhaps others."""
    fields: dict[str, Any] = {key: (kind, ...) for key, kind in types.items()}
    return create_model("Table", **fields)


def _checks(types: Mapping[str, Any]) -> Checks:
    return {key: TypeAdapter(kind) for key, kind in types.items()}


def _counts_all(sizes: dict[str, int]) -> None:
    if not sizes.keys() >= {"total", *DIRECTIONS, *PURPOSES}:
        raise ValueError("not of every direction and purpose")


def _counts_each_class(data: Any) -> None:
    if any(len(row.classes) != len(data.classes) for row in data.clients):
        raise ValueError("not a count for each class")


def _is_as_long(after: Any, info: ValidationInfo) -> None:
    if {len(after.curve.validation), len(after.curve.test)} != {len((info.context or {})["curve"])}:
        raise ValueError("not a score for each point of the curve")


_SPLITS = dict.fromkeys(SCORED_SPLITS, Score)
_LINES = _table(dict.fromkeys(SCORED_SPLITS, list[Score]))
_AFTER = {**_SPLITS, "round": Count | None, "measures": Measures, "test_per_client": dict[str, Score], "curve": _LINES}
_CLIENT = _table({"name": Text, "classes": list[Count], **dict.fromkeys(SPLITS, Count)})
_DATA = _table({"classes": list[Text], "clients": list[_CLIENT]})  # type: ignore[valid-type]
OF_SUMMARY: Checks = _checks(
    {
        **dict.fromkeys(("recipe", "dataset", "metric", "digest", "stopped_by"), Text),
        "better": Literal["lower", "higher"],
        **dict.fromkeys(("clients", "seed", "rounds", "selections", "scored"), Count),
        **dict.fromkeys(("seconds", "simulated_seconds"), Number),
        **dict.fromkeys(("validation", "test", "test_at_best_validation", "test_plain_mean"), Score),
        **dict.fromkeys(("test_per_client", "baselines"), dict[str, Score]),
        "bytes": Annotated[dict[str, Count], AfterValidator(_counts_all)],
        "curve": Annotated[list[Point], Field(min_length=1)],
        "measures": Measures,
        "data": Annotated[_DATA, AfterValidator(_counts_each_class)] | None,
        **dict.fromkeys(("flops", "raw_data_bytes"), Count | None),
        "failures": dict[str, Count],
        **dict.fromkeys(("remarks", "local_baselines"), list[Text]),
        "after_local_steps": Annotated[_table(_AFTER), AfterValidator(_is_as_long)] | None,
        "client_alone": _table(_SPLITS) | None,
    }
)
"""Of a summary; `after_local_steps` may be missing."""
OF_ROUND: Checks = _checks(
    {
        **dict.fromkeys(("round", "bytes", "bytes_total", "flops", "scored"), Count),
        **dict.fromkeys(("selected", "late"), list[Count]),
        "failed": dict[Client, Text],
        "timings": dict[Client, tuple[Number, Number]],
        "staleness": dict[Client, Count],
        "explanation": dict[Text, dict[Client, Number]],
        **dict.fromkeys(("loss", "validation", "test"), Score),
        **dict.fromkeys(("seconds", "simulated_seconds", "began"), Number),
    }
)
"""Of a row of `rounds.jsonl`, with the fields of `Row`."""
