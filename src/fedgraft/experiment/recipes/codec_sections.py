"""A recipe's codec: one, several one after another, any of them with error feedback."""

from typing import Any

from fedgraft.contracts import Codec
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import section_of
from fedgraft.experiment.recipes.sections import as_section

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
