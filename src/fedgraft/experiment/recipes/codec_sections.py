"""A recipe's codec: one, several one after another, any of them with error feedback."""

import logging
from dataclasses import replace
from typing import Any

from fedgraft.contracts import Codec, RowCodec, Task
from fedgraft.contracts.abilities.matching import MatchedData
from fedgraft.contracts.abilities.row_encryption import EncryptedRowsTask
from fedgraft.contracts.abilities.tasks import HaloTask, PublishingTask
from fedgraft.contracts.data import Data
from fedgraft.engine.plan import Plan
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import Recipe, section_of
from fedgraft.experiment.recipes.sections import as_section
from fedgraft.wire.layouts import Layout

LOG = logging.getLogger("fedgraft.data")

FEEDBACK = "feedback"


def build_codec(section: str, content: Any) -> Codec[Any]:
    """The codec of a section: a name, a table, or a list of tables that are chained.

    `feedback = true` in a table wraps that codec; a chain is also a table with `name = "chain"` and `codecs`.
    """
    if isinstance(content, list):
        content = {"name": "chain", "codecs": content}
    options = dict(section_of({section: content}, section))
    wrapped = options.pop(FEEDBACK, False)
    if not isinstance(wrapped, bool):
        raise InputError(f"{section}.{FEEDBACK} must be true or false; got {wrapped!r}.")
    if options.get("name") == "chain":
        options["codecs"] = _parts(section, options.get("codecs", []))
    if options.get("name") == FEEDBACK and "codec" in options:
        options["codec"] = build_codec(f"{section}.codec", options["codec"])
    codec: Codec[Any] = discovery.build("codecs", section, options)
    return discovery.find("codecs", FEEDBACK)(codec) if wrapped else codec


def build_rows(recipe: Recipe, task: Task[Any, Any]) -> Codec[Any]:
    """The codec of what clients tell each other of nodes, if the task has them do so."""
    rows = build_codec("rows", recipe.sections.get("rows", {"name": "identity"}))
    check_rows(rows, task, recipe.section("rows", default="identity")["name"])
    return rows


def check_rows(rows: Codec[Any], task: Task[Any, Any], name: str = "") -> None:
    """Raise `InputError` for a codec of rows that does not suit a task; encryption counts only with its `name`."""
    publishing, halo = task.ability(PublishingTask), task.ability(HaloTask)
    statistics = publishing.statistics_layout if publishing else Layout(())
    tells = statistics.specs or (halo and halo.halo_widths)
    if not tells and not isinstance(rows, discovery.find("codecs", "identity")):
        raise InputError(
            "[rows] is for what clients tell each other of nodes; in this experiment they tell nothing: "
            "leave it out, or rows.name = 'identity'."
        )
    encrypted = task.ability(EncryptedRowsTask)
    if name and encrypted and encrypted.seals and not isinstance(rows, RowCodec):
        known = [each for each in discovery.names("codecs") if issubclass(discovery.find("codecs", each), RowCodec)]
        allowed = f"one of {', '.join(known)}, which code each row by itself, where exchange.encrypted_rows is true"
        raise InputError(f"rows.name must be {allowed}; got {name!r}.")
    try:
        rows.init(statistics)
    except InputError as error:  # of a codec that needs to know how many rows there are
        raise InputError(f"[rows] cannot be sent like this: {error}") from error


def sealed_by_data(recipe: Recipe, plan: Plan, data: Data[Any]) -> Plan:
    """Return the plan with encrypted rows where sites match ids, which the server does not learn, unless it is said.

    Where that cannot be, a note says why.
    """
    task, said = plan.task.ability(EncryptedRowsTask), "encrypted_rows" in recipe.section("exchange")
    if said or not (isinstance(data, MatchedData) and data.matches and task and task.hands_on):
        return plan
    try:
        encrypted = plan.task.sealing()
        return replace(plan, task=encrypted, rows=build_rows(recipe, encrypted))
    except InputError as error:
        LOG.warning(f"The server can read what sites tell each other of nodes, though it learns no ids: {error}")
        return plan


def resolved_codec(content: Any, codec: Any) -> Any:
    """The section that `build_codec` made this codec of, with every option."""
    if isinstance(content, list):
        return [resolved_codec(part, built) for part, built in zip(content, codec.codecs, strict=True)]
    options = {"name": content} if isinstance(content, str) else dict(content)
    if options.pop(FEEDBACK, False):
        return {**resolved_codec(options, codec.codec), FEEDBACK: True}
    if options["name"] == "chain":
        return {"name": "chain", "codecs": resolved_codec(list(options.get("codecs", [])), codec)}
    if options["name"] == FEEDBACK:
        return {"name": FEEDBACK, "codec": resolved_codec(options["codec"], codec.codec)}
    return as_section(options["name"], codec)


def _parts(section: str, content: Any) -> tuple[Codec[Any], ...]:
    if not isinstance(content, list | tuple):
        raise InputError(f"{section}.codecs must be a list of codecs; got {content!r}.")
    return tuple(build_codec(section, part) for part in content)
