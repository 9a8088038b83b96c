"""JSON Schema of questions to a run, made of what its task and its data set say of their tables."""

import inspect
from typing import Any

from fedgraft.experiment.predicting.predict import thresholds_of
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.interface.json_tables import MEMBERS

VALUE = {"type": ["string", "number", "boolean", "null"]}
"""Schema of a cell."""


def request_schema(run: FinishedRun, most_rows: int, own_needed: bool) -> dict[str, Any]:
    """Return the JSON Schema of a request, whose tables have at most so many rows.

    Columns are in the descriptions, in the words of task and data set, which know no types of them. `own_needed` says
    that the run's data are not there, so that every request has one client's own tables.
    """
    tables, client, count, threshold = MEMBERS
    asks, counted = run.task.asks, run.task.count_column
    own = run.own_data.own_tables if run.own_data else ()
    every = {name: _table(f"Asked, by name {name!r}.", most_rows, {}) for name in asks}
    every |= {name: _table("One client's own data.", most_rows, {}) for name in own}
    whole_number = {"type": "integer", "minimum": 1}
    columns = {"client": {"description": "Who answers."}, **({counted: whole_number} if counted else {})}
    every[asks[0]] = _table("Questions: each row is answered.", most_rows, columns)
    properties: dict[str, Any] = {
        tables: {
            "type": "object",
            "description": " ".join(_said(run, (*asks, *own))),
            "properties": every,
            "additionalProperties": False,
            "anyOf": [{"required": [name]} for name in asks],
            "dependentRequired": {name: [own[0]] for name in own[1:]},
            "required": [own[0]] if own_needed else [],
        },
        client: {"type": ["string", "null"], "description": "Who answers all questions, by name."},
    }
    if thresholds_of(run, None):
        said = "Probability from which on the rarer class is answered, in place of the run's."
        properties[threshold] = {"type": ["number", "null"], "minimum": 0, "maximum": 1, "description": said}
    if counted:
        properties[count] = {**whole_number, "description": f"Answers to each question, in place of {counted!r}."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Questions to a model for task {run.experiment.task_name!r}",
        "type": "object",
        "properties": properties,
        "required": [tables],
        "additionalProperties": False,
    }


def _table(what: str, most_rows: int, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a table: rows, or columns."""
    cells = {"type": "array", "maxItems": most_rows, "items": VALUE}
    rows = {"type": "object", "properties": columns, "additionalProperties": VALUE}
    return {
        "description": what,
        "oneOf": [
            {"type": "array", "maxItems": most_rows, "items": rows},
            {"type": "object", "additionalProperties": cells},
        ],
    }


def _said(run: FinishedRun, tables: tuple[str, ...]) -> list[str]:
    """Return what the documentation of the task and of the data set says of these tables, a paragraph each."""
    texts = []
    for cls in (type(run.plan.task), type(run.experiment.data)):
        text, _, _ = (inspect.getdoc(cls) or "").partition("\nArgs:\n")
        paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
        texts += [each for each in paragraphs if any(f"`{name}`" in each for name in tables)]
    return texts
