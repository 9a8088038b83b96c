"""The settings of runs as a page shows them: as in a recipe, without folders of the machine, and what differs."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from fedgraft.reports.stored.stored_runs import StoredRun

_QUOTED = re.compile(r"""(["'])((?:/|~/|[A-Za-z]:[\\/]|\\\\)[^"'\n]*)\1""")


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
