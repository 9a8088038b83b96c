"""Whether a recipe can have sums that hide what is asked for, and one switch that makes it suit secure sums."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from fedgraft.contracts import Aggregation, Selector
from fedgraft.contracts.option_groups import settable
from fedgraft.engine.plan import HOME, Plan
from fedgraft.engine.privacy.collection import collection_of
from fedgraft.engine.privacy.secure_sum import MASKED
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.clock import Clock
from fedgraft.engine.server.loop.stopping import Stopping
from fedgraft.engine.server.rounds.safeguards import Safeguards
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery, private, secure_sums
from fedgraft.experiment.recipes.options import Also, Finding, UnsuitedError
from fedgraft.experiment.recipes.recipe import RENAMED, Recipe, as_changes
from fedgraft.experiment.recipes.sections import METHODS, Section, Settings

LOG = logging.getLogger("fedgraft.recipes")
Made = TypeVar("Made")

NAME: Final = "secure_sum.name"
_PASSES: Final = 8
"""Most times that a recipe is changed: a change may bring other options of the recipe's, which must suit in turn."""
_FRAME: Final = f"evaluation.at = {HOME!r} has no score leave a client, but {{why}}: {{instead}}"
_IN_TURN: Final = ("random", "round_robin")
"""Selectors of so many clients whom data do not choose."""
_CENTRAL_FRAME: Final = "privacy.name = 'central' has the server add noise, but {why}: {instead}"


def checked(
    plan: Plan,
    selector: Selector[Any],
    aggregation: Aggregation,
    settings: Settings,
    stopping: Stopping,
    clients: object = None,
) -> Plan:
    """Return a plan; raise `UnsuitedError` with all that must change for it to hide what is asked for.

    Its sums are to be added up, to hold noise, and no score is to leave a client.

    `clients` is how many there are by [data].
    """
    found = _found_of_central(plan, selector, aggregation, settings, stopping)
    if not plan.privacy.central:
        found += secure_sums.found(plan, selector, aggregation, settings)
    if plan.privacy.active and not plan.secure_sum.active:  # it needs secure sums: all that these need is told, too
        summing = replace(plan, secure_sum=replace(plan.secure_sum, name=MASKED))
        found += secure_sums.found(summing, selector, aggregation, settings)
    more = [*_of_few(plan, clients), *_scored_at_home(plan, selector, stopping)]
    if found := [*found, *private.found(plan, selector, stopping), *more]:
        raise UnsuitedError.of(found)
    return plan


def _of_few(plan: Plan, clients: object) -> list[Finding]:
    """Whether sums would be of fewer clients than they must be."""
    summing = replace(plan.secure_sum, name=MASKED) if plan.privacy.active else plan.secure_sum
    collection = collection_of(summing, plan.privacy, plan.rounds)
    least = 0 if collection.single else collection.least
    if not isinstance(clients, int) or not 0 < clients < least:
        return []
    below = f"data.clients = {clients} is below {collection.least_by} = {least}"
    return [Finding(below, f"data.clients = {least} or more")]


def built(
    build: Callable[[Recipe], Made],
    recipe: Recipe,
    changes: Mapping[str, Any],
    switch: str = "",
    also: Also | None = None,
) -> Made:
    """Build a recipe with overrides; where its user asks for secure sums, change what he did not set to what suits.

    What was changed is told. Raises `UnsuitedError` with all that is left to change.

    Args:
        build: what checks and builds a recipe.
        recipe: as it was read.
        changes: the overrides, {"section.key": value}.
        switch: what he calls the switch that is on, such as "--secure"; "" = none is.
        also: says what does not suit of things beside the recipe; None = there are none.
    """
    beside = also(recipe.changed(changes).sections) if also else ()
    try:
        made = _built(build, recipe, changes, switch)
    except UnsuitedError as error:
        raise UnsuitedError.of([*error.findings, *beside], error.more) from error
    if beside:
        raise UnsuitedError.of(beside)
    return made


def _built(build: Callable[[Recipe], Made], recipe: Recipe, changes: Mapping[str, Any], switch: str) -> Made:
    """Build it, changed as far as that helps."""
    yours = {RENAMED.get(key, key) for key in (*recipe.asked, *changes)}
    whole = recipe.changed(changes)
    name = whole.section("secure_sum", named=False).get("name", "")
    if switch and NAME in yours and name != MASKED:
        raise InputError(f"{NAME} must be {MASKED!r} with {switch}, or left out; got {name!r}.")
    if not switch and (NAME not in yours or not name):
        return build(whole)
    made: dict[str, Any] = {NAME: MASKED} if switch and name != MASKED else {}
    said = switch or f"{NAME} = {name!r}"
    for left in reversed(range(_PASSES)):
        suited = recipe.changed({**made, **changes})
        try:
            result = build(suited)
        except UnsuitedError as error:
            following = _following(made, error.findings, suited.sections, yours)
            if following == made or not left:
                raise UnsuitedError.of(error.findings, _kept(error.findings, yours)) from error
            made = following
        except InputError as error:
            if told := _told(whole.sections, suited.sections):
                raise InputError(f"{said} would change {told}, and then: {error}") from error
            raise
        else:
            if told := _told(whole.sections, suited.sections):
                LOG.warning("%s changes %s.", said, told)
            return result
    raise AssertionError("the last pass raises")


def _following(
    made: Mapping[str, Any], findings: Sequence[Finding], content: Section, yours: Collection[str]
) -> dict[str, Any]:
    """Return the changes so far, with those by which more suits; a method's earlier options go with its name.

    A method with alternatives in the recipe comes first: what they bring is looked at before more is changed.
    """
    following, new = dict(made), dict[str, Any]()
    for each in findings:
        if each.changes is not None and not _blocked(each.changes, content, yours):
            wished = {key: value for key, value in each.wished.items() if not _set(key, yours)}
            new = {**each.changes, **wished, **new}  # the first of two that change one option has it
    named = {key.partition(".")[0] for key in new.keys() - made.keys() if key.endswith(".name")}
    if first := named & content.get("alternatives", {}).keys():
        new = {key: value for key, value in new.items() if key.partition(".")[0] in first}
    for key in new:
        section, _, option = key.partition(".")
        if option == "name" and following.get(key) != new[key]:
            following = {other: value for other, value in following.items() if other.partition(".")[0] != section}
    return {**following, **new}


def _blocked(changes: Mapping[str, Any], content: Section, yours: Collection[str]) -> bool:
    """Return whether the user has set an option otherwise, or one that another method does not have."""
    return any(
        (_set(key, yours) and _value(content, key) != value) or (key.endswith(".name") and _lost(key, value, yours))
        for key, value in changes.items()
    )


def _lost(key: str, name: str, yours: Collection[str]) -> bool:
    """Return whether the user has set an option of a section that its method of another name does not have."""
    section = key.partition(".")[0]
    has = {"name", *settable(discovery.find(METHODS[section], name))}
    return any(each.partition(".")[2] not in has for each in yours if each.startswith(f"{section}."))


def _set(key: str, yours: Collection[str]) -> bool:
    """Return whether the user has set an option, or its whole section."""
    return key in yours or key.partition(".")[0] in yours


def _value(content: Section, key: str) -> Any:
    section, _, option = key.partition(".")
    held = content.get(section)
    return held.get(option) if isinstance(held, Mapping) else held


def _kept(findings: Sequence[Finding], yours: Collection[str]) -> str:
    """Return which of the options that must change the user has set, as a sentence; "" for none."""
    keys = {key for each in findings for key in each.changes or {}}
    sections = {key.partition(".")[0] for key in keys}
    named = {key.partition(".")[0] for key in keys if key.endswith(".name")}
    kept = sorted(key for key in yours if key in keys or key in sections or key.partition(".")[0] in named)
    return f"Set by you, and so not changed: {', '.join(kept)}." if kept else ""


def _told(before: Section, after: Section) -> str:
    """Return which options of a recipe are others, with their values; "" where none is but that sums are masked."""
    old, new = as_changes(before), as_changes(after)
    changed = {key: value for key, value in new.items() if key != NAME and (key not in old or old[key] != value)}
    return ", ".join(f"{key} to {value!r}" for key, value in changed.items())


def _scored_at_home(plan: Plan, selector: Selector[Any], stopping: Stopping) -> list[Finding]:
    """Return what would be another result without scores."""
    if not plan.at_home:
        return []
    found = list[Finding]()
    if stopping.patience:
        found.append(Finding("patience would end a run by them", "patience = 0", {"patience": 0}))
    learners = {"selector": (selector, "random"), "sampler": (plan.sampler, "uniform")}
    for section, (method, instead) in learners.items():
        if getattr(method, "learns_from_scores", False):
            change = {f"{section}.name": instead}
            why = f"{section} {type(method).__name__} learns from them"
            found.append(Finding(why, f"{section}.name = {instead!r}", change))
    for kind in Protocol.of(plan).outside:
        if "scores" in Protocol.of(plan).told(kind):
            change = {"selector.name": "random"}
            found.append(Finding(f"messages of kind {kind!r} report them", "selector.name = 'random'", change))
    if plan.smoothing is not None:
        found.append(
            Finding("a way to smooth answers is chosen by them", "answers.smoothing = 0", {"answers.smoothing": 0})
        )
    return [replace(each, frame=_FRAME) for each in found]


def _found_of_central(
    plan: Plan,
    selector: Selector[Any],
    aggregation: Aggregation,
    settings: Settings,
    stopping: Stopping,
) -> list[Finding]:
    """Return what would tell clients more than models with noise, where the server adds it."""
    if not plan.privacy.central:
        return []
    each = [
        *_of_sums(plan),
        *secure_sums.of_clients(plan),
        *_of_selection(plan, selector, settings.safeguards),
        *_of_the_server(aggregation, settings.safeguards, settings.clock),
        *private.of_stopping(stopping),
        *private.of_messages(plan),
    ]
    return [replace(one, frame=_CENTRAL_FRAME) for one in each]


def _of_sums(plan: Plan) -> list[Finding]:
    """What hides from the server what it is to clip."""
    found = list[Finding]()
    if plan.secure_sum.active:
        why = f"secure_sum.name = {plan.secure_sum.name!r} hides single updates from it"
        found.append(Finding(why, "secure_sum.name = '', or privacy.name = 'distributed'"))
    if plan.summed:
        why = "statistics of clients are added up, and all are told of the sum"
        found.append(Finding(why, f"no {plan.summed.summed_by}, or privacy.name = 'distributed'"))
    return found


def _of_selection(plan: Plan, selector: Selector[Any], safeguards: Safeguards) -> list[Finding]:
    """What has data say who trains, or on what."""
    found, name = list[Finding](), type(selector).__name__
    count = getattr(selector, "clients", 0)
    fixed = {"clients": count} if isinstance(count, int) and count > 0 else {}
    drawn = {"selector.name": "poisson", **{f"selector.{key}": value for key, value in fixed.items()}}
    in_turn = tuple(discovery.find("selectors", each) for each in _IN_TURN)
    everybody = discovery.find("selectors", "all")
    if not (selector.by_coins or isinstance(selector, everybody) or (isinstance(selector, in_turn) and count)):
        instead = "selector.name = 'poisson', whose cohorts make the claim smaller; 'all'; 'random' with clients"
        found.append(Finding(f"with selector {name} cohorts differ, or depend on data", instead, drawn))
    if safeguards.most_chosen:
        why = f"safeguards.most_chosen = {safeguards.most_chosen:g} has who was drawn often rest"
        found.append(Finding(why, "safeguards.most_chosen = 0", {"safeguards.most_chosen": 0.0}))
    if plan.guided:
        why = f"sampler {type(plan.sampler).__name__} tells clients what it learnt of others"
        found.append(Finding(why, "sampler.name = 'uniform' or 'all'", {"sampler.name": "all"}))
    return found


def _of_the_server(aggregation: Aggregation, safeguards: Safeguards, clock: Clock) -> list[Finding]:
    """What the server would make of updates beside a noisy mean."""
    found = secure_sums.of_aggregation(aggregation)
    if safeguards.clip:
        why = f"safeguards.clip = {safeguards.clip:g} cuts updates as well"
        found.append(Finding(why, "0, and privacy.clip", {"safeguards.clip": 0.0}))
    if clock.late != "wait":
        why = f"clock.late = {clock.late!r} has a client in the sum of a round for which it was not drawn, or in none"
        found.append(Finding(why, "clock.late = 'wait'", {"clock.late": "wait"}))
    return found
