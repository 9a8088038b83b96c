"""Rewrite recipes, and studies' overrides, whose options of [task] have moved; comments and layout stay.

`MOVED` is the one table of old and new names.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import tomli_w

from fedgraft.errors import InputError
from fedgraft.experiment.recipes.sections import STAGES, Section

MOVED: Final = {
    **dict.fromkeys(("scale", "propagate", "joined", "aggregates"), "inputs"),
    **dict.fromkeys(("class_weights", "focal", "label_smoothing", "logit_adjustment", "dropout", "huber"), "loss"),
    **dict.fromkeys(("objective", "margin", "negatives"), "loss"),
    **dict.fromkeys(("share_features", "share_states", "share_history", "sealed"), "exchange"),
    **dict.fromkeys(("neighbours", "halo", "fresh", "pull"), "exchange"),
    **dict.fromkeys(("smoothing", "class_prior", "refit", "local_fit", "share_labels"), "answers"),
}
"""{earlier option of [task]: the section that it is in now}."""
_NAMES: Final = {
    "joined": "hop_pooling",
    "objective": "name",
    "share_features": "features",
    "share_states": "states",
    "share_history": "history",
    "sealed": "encrypted_rows",
}
"""{earlier option of [task]: its name there}; the others keep theirs."""
_VALUES: Final = {"objective": {"softmax": "sampled_softmax"}}
"""{earlier option of [task]: {earlier value: its value now}}."""


def where(option: str) -> str:
    """Return where an earlier option of [task] is now, such as "loss.dropout"."""
    return f"{MOVED[option]}.{_NAMES.get(option, option)}"


def value_of(option: str, value: Any) -> Any:
    """Return the value that an earlier option of [task] has now."""
    return _VALUES.get(option, {}).get(value, value) if isinstance(value, str) else value


def check_moved(options: Iterable[str], task: type[Any]) -> None:
    """Raise `InputError` for an option that has moved, unless the task has one of that name that is no stage."""
    own = {each.name for each in fields(task) if each.name not in STAGES.values()}
    for option in sorted({*options} - own):
        meant = difflib.get_close_matches(option, [*own, *MOVED], n=1)
        if option not in MOVED and meant and meant[0] in MOVED:
            raise InputError(f"No task option named {option!r}. Did you mean {where(meant[0])}?")
        if option in MOVED:
            raise InputError(f"task.{option} is {where(option)} now; `fedgraft recipe upgrade FILE` rewrites a recipe.")


TASK: Final = "task"
_HEADER = re.compile(r"\s*\[(?!\[)(?P<path>.+)\]\s*(#.*)?$")
_TABLE = re.compile(r"\s*\[\[?[^=]+\]\]?\s*(#.*)?$")
_INLINE = re.compile(r"(?P<indent>\s*)task\s*=\s*(?P<table>\{.*\})(?P<rest>\s*(#.*)?)$")
_ENTRY = re.compile(r"\s*(?P<key>[A-Za-z0-9_-]+)\s*=")
_OPTION = re.compile(rf"(?P<before>\s*\[(.+\.)?)task\.(?P<option>{'|'.join(MOVED)})\s*\]")
_DOTTED = re.compile(rf"(?P<before>^\s*|[{{,]\s*|[\"'])task\.(?P<option>{'|'.join(MOVED)})(?=[\"']?\s*=)")


def upgraded(text: str, name: str) -> tuple[str, list[str]]:
    """Return the text of a recipe or a study with the options of now, and what has moved: "task.focal: loss.focal".

    Raises `InputError` for what is not valid TOML, and for what cannot be rewritten line by line; `name` is the file's.
    """
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{name} is not valid TOML: {error}.") from error
    found: list[str] = []
    wanted = _upgraded(content, found, False)
    if not found:
        return text, []
    made = "".join(_moved_tables([part for line in text.splitlines(keepends=True) for part in _moved_line(line)]))
    try:
        same = tomllib.loads(made) == wanted
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise InputError(f"{name} cannot be rewritten line by line; by hand: {', '.join(sorted({*found}))}.")
    return made, sorted({*found})


def upgraded_content(content: Section) -> Section:
    """Return what a recipe holds with the options of now."""
    result: Section = _upgraded(content, [], False)
    return result


def _upgraded(content: Any, found: list[str], kept: bool) -> Any:
    """Return what a file holds with the options of now; `kept` says whether [task] counts where it is empty."""
    if isinstance(content, list):
        return [_upgraded(each, found, kept) for each in content]
    if isinstance(content, str):
        option = content.partition("=")[0].removeprefix(f"{TASK}.") if content.startswith(f"{TASK}.") else ""
        if option not in MOVED or "=" not in content:
            return content
        found.append(f"{TASK}.{option}: {where(option)}")
        return f"{where(option)}={content.partition('=')[2]}"
    if not isinstance(content, Mapping):
        return content
    result: dict[str, Any] = {}
    for key, value in content.items():
        if key == TASK and isinstance(value, Mapping):
            own = {option: each for option, each in value.items() if option not in MOVED}
            if own or kept or len(own) == len(value):
                result[TASK] = own
            changes = {where(option): value_of(option, each) for option, each in value.items() if option in MOVED}
            found += [f"{TASK}.{option}: {where(option)}" for option in value if option in MOVED]
            for place, each in changes.items():
                section, _, option = place.partition(".")
                result[section] = {**result.get(section, {}), option: each}
        elif (option := key.removeprefix(f"{TASK}.")) in MOVED and option != key:
            found.append(f"{key}: {where(option)}")
            result[where(option)] = value_of(option, value)
        else:
            made = _upgraded(value, found, kept or key == "alternatives")
            result[key] = {**result[key], **made} if isinstance(result.get(key), dict) else made
    return result


def _moved_line(line: str) -> list[str]:
    """Return a line with keys such as "task.focal", and an inline table [task], with the options of now."""
    if match := _INLINE.fullmatch(line.rstrip("\n")):
        held = tomllib.loads(f"task = {match['table']}")
        made = _upgraded(held, [], True)
        return [f"{match['indent']}{each} = {_inline(table)}{match['rest']}\n" for each, table in made.items()]
    if match := _OPTION.match(line):  # a table of its own
        return [f"{match['before']}{where(match['option'])}]{line[match.end() :]}"]
    for match in reversed([*_DOTTED.finditer(line)]):
        option, rest = match["option"], line[match.end() :]
        for before in re.findall(r"^[\"']?\s*=\s*\"(\w+)\"", rest):
            rest = rest.replace(f'"{before}"', f'"{value_of(option, before)}"', 1)
        line = f"{line[: match.start()]}{match['before']}{where(option)}{rest}"
    return [line]


def _inline(table: Mapping[str, Any]) -> str:
    parts = [
        f"{key} = {_inline(value) if isinstance(value, Mapping) else _value(value)}" for key, value in table.items()
    ]
    return f"{{ {', '.join(parts)} }}" if parts else "{}"


def _value(value: Any) -> str:
    """Return a value as TOML writes it, in one line."""
    if isinstance(value, Mapping):
        return _inline(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").rstrip("\n")


@dataclass
class _Part:
    """A table of a file: the line that begins it, "" above the first one, and the lines behind that."""

    header: str
    body: list[str]

    @property
    def path(self) -> str:
        """The table's name; "" for none, and for one of several in an array."""
        match = _HEADER.fullmatch(self.header.rstrip("\n"))
        return match["path"].strip() if match else ""


def _moved_tables(lines: list[str]) -> list[str]:
    """Return the lines with options of tables [task] in tables of their own, each with the comments above it."""
    parts = [_Part("", [])]
    for line in lines:
        if _TABLE.fullmatch(line.rstrip("\n")):
            parts.append(_Part(line, []))
        else:
            parts[-1].body.append(line)
    for part in [each for each in parts if each.path.rpartition(".")[2] == TASK]:
        own, gone = _sorted_entries(part.body)
        if not gone:
            continue
        place, before = parts.index(part), part.path[: -len(TASK)]
        end = [*own[len(own) - _blank(own) :]] or ["\n"]
        part.body = own if _blank(own) else [*own, "\n"]
        for section, moved in reversed(gone.items()):
            if there := next((each for each in parts if each.path == f"{before}{section}"), None):
                there.body[:0] = moved
            else:
                parts.insert(place + 1, _Part(f"[{before}{section}]\n", [*moved, *end]))
        if not before and not any(line.strip() for line in own):
            parts.remove(part)
    text = "".join(line for part in parts for line in (part.header, *part.body))
    return [f"{text.rstrip()}\n"]


def _blank(lines: list[str]) -> int:
    """Return how many of the last lines are blank."""
    return next((number for number, line in enumerate(reversed(lines)) if line.strip()), len(lines))


def _sorted_entries(body: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the lines of a table [task] that stay, and {section: lines of options that have moved there}."""
    own: list[str] = []
    gone: dict[str, list[str]] = {section: [] for section in dict.fromkeys(MOVED.values())}
    entry: list[str] = []
    for line in body:
        entry.append(line)
        if not line.strip():
            own += entry
            entry = []
        elif (match := _ENTRY.match(entry[-1] if len(entry) == 1 else _code(entry))) and _whole(entry):
            option = match["key"]
            if option in MOVED:
                section, _, name = where(option).partition(".")
                gone[section] += _named(entry, option, name)
            else:
                own += entry
            entry = []
    return [*own, *entry], {section: lines for section, lines in gone.items() if lines}


def _code(entry: list[str]) -> str:
    """Return an entry from its key on."""
    return "".join(entry[next((n for n, line in enumerate(entry) if not line.lstrip().startswith("#")), len(entry)) :])


def _whole(entry: list[str]) -> bool:
    try:
        tomllib.loads("".join(entry))
    except tomllib.TOMLDecodeError:
        return False
    return True


def _named(entry: list[str], option: str, name: str) -> list[str]:
    """Return the lines of an entry with the name, and the value, that the option has now."""
    value = next(iter(tomllib.loads("".join(entry)).values()))
    text = re.sub(rf"^(\s*){option}(\s*=)", rf"\g<1>{name}\g<2>", "".join(entry), count=1, flags=re.MULTILINE)
    return [text.replace(f'"{value}"', f'"{value_of(option, value)}"') if isinstance(value, str) else text]
