"""What a server's recipe may say otherwise than a node's own: how often a client is asked, and what the server does."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, Final

from fedgraft.contracts import ProbingSelector, Selector
from fedgraft.engine.plan import HOME
from fedgraft.errors import InputError, unknown
from fedgraft.experiment.recipes.sections import METHODS, SETTINGS, STAGES, Section

FREE: Final = (
    *("recipe", "description", "seed", "rounds", "patience", "baselines"),
    *("evaluation.every", "evaluation.sample", "evaluation.averaging", "evaluation.keep"),
    *("selector", "aggregation", "server_optimizer", "safeguards"),
    *("dropout", "clock", "checkpoint", "runtime", "budget", "policy"),
)
"""Keys, options and whole sections that are the server's choice: they change how often a client computes, or what is
made of what clients have sent; a node has a policy of its own. All others say what a client computes on its data or
what leaves it.

`training.epochs` and `training.learning_rate` are not among them, lower ones neither: the shorter a client trains, the
closer its update is to a gradient at the model it was sent, of which its examples are the easier rebuilt (Zhu et al.,
"Deep Leakage from Gradients", NeurIPS 2019; Geiping et al., NeurIPS 2020).
"""
FEDERATION_S: Final = ("data", "task", *(section for section in STAGES if section != "model"))
"""Sections that say what data a site has and what is learnt of them: no site may allow others."""
TELLS_LESS: Final = {"evaluation.at": (HOME, "clients", "server")}
"""{option: its values, each tells the server no more than those behind it}; it may choose one that tells less."""
_SHOWN: Final = 60
"""Most characters of a value in an error."""
_TOLD: Final = 3
"""Most differences that an error tells with their values."""


def check(theirs: Section, own: Section, allow: Collection[str] = ()) -> None:
    """Raise `InputError` where the server's recipe, resolved, differs from a node's own in what it may not.

    `allow` are options, "section.option", and sections in which it may differ, too. Sections of `FEDERATION_S` are not
    looked at.
    """
    found = {
        name: values
        for name, values in _differences(theirs, own).items()
        if not {name, name.partition(".")[0]} & {*FREE, *FEDERATION_S, *allow} and not _tells_less(name, *values)
    }
    if not found:
        return
    told = [told_difference(name, *found[name]) for name in list(found)[:_TOLD]]
    more = [f"{len(found) - _TOLD} more"] if len(found) > _TOLD else []
    listed = ", ".join(f'"{name}"' for name in found)
    raise InputError(
        f"{'; '.join([*told, *more])}. The server may not choose that: run what this node's recipe says, or have the "
        f"site say in its node.toml: [limits] allow = [{listed}]."
    )


def check_told(theirs: Selector[Any], own: Selector[Any], allow: Collection[str] = ()) -> None:
    """Raise `InputError` for a selector that has clients tell more of themselves than that of a node's own recipe."""
    more = _told_to(theirs) - _told_to(own)
    if more and "selector" not in allow:
        raise InputError(
            f"selector {type(theirs).__name__} has clients tell {', '.join(sorted(more))}, which "
            f"{type(own).__name__} of this node's recipe does not: take another selector, or have the site say in its "
            'node.toml: [limits] allow = ["selector"].'
        )


def check_allowed(allow: Collection[str]) -> None:
    """Raise `InputError` for a name in `allow` that is no section of a recipe, nor option of one, or not a site's."""
    known = [name for name in (*METHODS, *SETTINGS) if name not in FEDERATION_S]
    for name in allow:
        section, _, option = name.partition(".")
        if section in FEDERATION_S:
            raise InputError(f"limits.allow must not name [{section}], which is the federation's; got {name!r}.")
        if section not in known:
            raise unknown("section of a recipe in limits.allow", section, known)
        options = [each.name for each in fields(SETTINGS[section])] if section in SETTINGS else [option]
        if option and option not in options:
            raise unknown(f"option of [{section}] in limits.allow", option, options)


def told_difference(name: str, theirs: Any, own: Any) -> str:
    """Return in words that an option has one value in the server's recipe and another one in the node's own."""
    return f"{name} is {_shown(theirs)} in the server's recipe and {_shown(own)} in this node's"


def _tells_less(name: str, theirs: Any, own: Any) -> bool:
    order = TELLS_LESS.get(name, ())
    return theirs in order and own in order and order.index(theirs) < order.index(own)


def _differences(theirs: Section, own: Section) -> dict[str, tuple[Any, Any]]:
    """{option: (its value in the server's recipe, in the own)}; of sections with other methods {section: methods}."""
    found: dict[str, tuple[Any, Any]] = {}
    for name in {**own, **theirs}:
        one, two = theirs.get(name), own.get(name)
        if one == two:
            continue
        if isinstance(one, Mapping) and isinstance(two, Mapping) and one.get("name") == two.get("name"):
            for option in {**two, **one}:
                if one.get(option) != two.get(option):
                    found[f"{name}.{option}"] = one.get(option), two.get(option)
        else:
            found[name] = _method(one), _method(two)
    return found


def _told_to(selector: Selector[Any]) -> frozenset[str]:
    """What clients tell for a selector's sake, beside updates and mean losses, which they tell anyway."""
    probes = {"losses before a round (probes)"} if isinstance(selector, ProbingSelector) else set()
    return (selector.reports - {"update", "loss"}) | probes


def _method(section: Any) -> Any:
    return section.get("name", section) if isinstance(section, Mapping) else section


def _shown(value: Any) -> str:
    text = "not said" if value is None else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
