"""Which methods go with noise on sums, and how many clients' noise a sum has."""

import math
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any, Final

from fedgraft.contracts import Selector
from fedgraft.contracts.abilities.clipping import ClippedGradientTask
from fedgraft.contracts.abilities.summed_statistics import SummedTask
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.options import CLIENT
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.table import TABLE
from fedgraft.engine.server.loop.stopping import Stopping
from fedgraft.errors import InputError, nearest
from fedgraft.experiment.recipes import discovery, secure_sums
from fedgraft.experiment.recipes.options import Finding
from fedgraft.experiment.recipes.recipe import parse_override

PRESENT: Final = 0.9
"""Share of a cohort whose noise a sum has at least, unless it is said; ours."""
UNHIDDEN: Final = frozenset({"features", "states", "labels", "class_counts", "sums", "prototypes", "losses", "users"})
"""What no message may tell beside a sum with noise, by words of `contracts.capabilities`: it is of training data."""
_ONE_STEP: Final = {
    **{"epochs": 1, "blocks": 0, "optimizer": "sgd", "keep_moments": False, "proximal": 0.0},
    **{"momentum": 0.0, "weight_decay": 0.0, "clip": 0.0},
}
"""Options of [training] with which a round is one step of gradient descent."""
_NOT_OF_TRAINING: Final = (
    "publish",
    "train",
    "alone",
    "probe",
    "trial",
    "measure",
    "relay",
    "evaluate",
    "smoothed",
    "tally",
)
"""Kinds of messages that hold noise, that such a recipe has none of, or that are of held-out examples."""
_MASKED: Final = "secure_sum.name = 'secagg' (or 'clear', where privacy.shares = 1 or the server may see all)"
_LESS: Final = "options of [task] and [selector] with which clients tell less (docs/security.md)"
_STAY: Final = "exchange.states = false", {"exchange.states": False}
_REMEDIES: Final[dict[str, tuple[str, Mapping[str, Any] | None]]] = {
    **dict.fromkeys(("smooth", "hop"), ("answers.share_labels = false", None)),
    **dict.fromkeys(("train", "wait"), _STAY),
}
"""{kind: what to take instead, and changes by which it suits}."""


def found(plan: Plan, selector: Selector[Any], stopping: Stopping) -> list[Finding]:
    """Return what would not be hidden by noise, where sums are to hold some."""
    if not plan.privacy.active:
        return []
    units = _units(plan)
    if plan.privacy.unit not in units:
        allowed = f"{', '.join(units)} for the task {type(plan.task).__name__}; got {plan.privacy.unit!r}"
        near = nearest(plan.privacy.unit, units)
        return [Finding(f"privacy.unit must be one of {allowed}", near, frame="{why}{instead}")]
    if plan.privacy.unit in _summed_units(plan):
        each = _of_statistics(plan)
    else:
        each = [*_of_examples(plan), *_of_sums(plan, selector, stopping)]
    frame = f"privacy.unit = {plan.privacy.unit!r} hides a {plan.privacy.unit}, but {{why}}: {{instead}}"
    return [replace(one, frame=frame) for one in (*each, *_of_answers(plan), *of_messages(plan))]


def with_shares(plan: Plan, cohort: int, clients: int) -> Plan:
    """Return a plan with the number of clients whose noise is enough, where it is not said.

    It is of a cohort, or of all clients where statistics are what holds noise.

    Raises `InputError` where clients keep parameters of their own: it takes a model to know that.
    """
    if not plan.privacy.claims:
        return plan
    if plan.summed:
        cohort = clients
    elif plan.personal or not plan.connected:
        raise InputError(
            f"privacy.unit = {plan.privacy.unit!r} is for models that are shared as a whole, and with sharing "
            f"{type(plan.sharing).__name__} and task {type(plan.task).__name__} clients keep parameters."
        )
    if plan.privacy.shares or plan.privacy.central:
        return plan
    return replace(plan, privacy=replace(plan.privacy, shares=max(1, min(math.ceil(PRESENT * cohort), cohort - 1))))


def _units(plan: Plan) -> list[str]:
    clipped = plan.task.ability(ClippedGradientTask)
    return [*([clipped.example] if clipped else []), *_summed_units(plan), CLIENT]


def _summed_units(plan: Plan) -> list[str]:
    """What noise on statistics can hide."""
    summing = plan.task.ability(SummedTask)
    return [*summing.units] if summing else []


def _of_statistics(plan: Plan) -> list[Finding]:
    """The same where statistics hold noise, and training does not."""
    found = list[Finding]()
    if not plan.summed:
        summing = plan.task.ability(SummedTask)
        assert summing is not None, "its word is the unit"
        added = dict([parse_override(summing.summed_by)])
        found.append(Finding("no statistics are added up", summing.summed_by, added))
    if not plan.secure_sum.active:
        found.append(Finding("noise is added to sums, and each client's statistics are sent by themselves", _MASKED))
    if not secure_sums.is_local(plan):
        why = f"what sharing {type(plan.sharing).__name__} sends of training holds no noise"
        found.append(Finding(why, "sharing.name = 'local'", {"sharing.name": "local"}))
    return found


def _of_sums(plan: Plan, selector: Selector[Any], stopping: Stopping) -> list[Finding]:
    """What of the loop tells more than its sums do."""
    found, codec = list[Finding](), type(plan.uplink)
    if plan.summed:
        instead = f"privacy.unit = {' or '.join(map(repr, plan.summed.units))}, or no {plan.summed.summed_by}"
        found.append(Finding("statistics are added up, whose noise hides less", instead))
    if not plan.secure_sum.active:
        found.append(Finding("noise is added to sums, and each update is sent by itself", _MASKED))
    if plan.secure_sum.most_weight > 1:
        key = "secure_sum.most_weight"
        found.append(Finding("clients weigh more than others", f"{key} = 1", {key: 1}))
    if not isinstance(plan.uplink, discovery.find("codecs", "identity")):
        why = f"codec {codec.__name__} would have no part: numbers are sent in steps"
        found.append(Finding(why, "leave [codec] out", {"codec.name": "identity"}))
    found += of_stopping(stopping)
    everybody, drawn = (discovery.find("selectors", name) for name in ("all", "random"))
    if not (isinstance(selector, everybody) or (isinstance(selector, drawn) and selector.clients)):
        instead = "selector.name = 'all', or 'random' with selector.clients"
        why = f"with selector {type(selector).__name__} cohorts differ, or depend on data"
        found.append(Finding(why, instead, {"selector.name": "all"}))
    return found


def of_stopping(stopping: Stopping) -> list[Finding]:
    """Return what would end a run at another round than that for which noise is made."""
    found = list[Finding]()
    if stopping.patience:
        found.append(Finding("patience would end a run by scores that hold no noise", "patience = 0", {"patience": 0}))
    if stopping.bytes or stopping.seconds:
        why, none = "noise is for a number of rounds, not for what a budget pays for", {"budget.bytes": 0}
        found.append(Finding(why, "leave [budget] out", {**none, "budget.seconds": 0.0}))
    return found


def _of_answers(plan: Plan) -> list[Finding]:
    """What keeps answers from being randomised before they are smoothed."""
    if not plan.privacy.answers:
        return []
    part = f"privacy.answers = {plan.privacy.answers:g} is for answers of nodes"
    if not plan.row_width:
        return [Finding(f"{part}, of which none are told", "answers.smoothing = 2, or privacy.answers = 0")]
    return [] if plan.privacy.of_examples else [Finding(f"{part}, not of a whole {CLIENT}", "privacy.answers = 0")]


def of_messages(plan: Plan) -> list[Finding]:
    """Return what messages tell of training examples beside sums with noise."""
    told = {kind: sorted(_beside_noise(plan, kind) & UNHIDDEN) for kind in Protocol.of(plan).kinds}
    return [
        Finding(f"messages of kind {kind!r} tell {', '.join(more)} without noise", *_REMEDIES.get(kind, (_LESS, None)))
        for kind, more in told.items()
        if more
    ]


def _beside_noise(plan: Plan, kind: str) -> Set[str]:
    """What a kind tells; of one that holds noise, what its replies bring beside the sum."""
    if kind not in _NOT_OF_TRAINING:
        return Protocol.of(plan).told(kind)
    added = TABLE[kind].added
    return added.tells(plan) if added else frozenset()


def _of_examples(plan: Plan) -> list[Finding]:
    """What mixes examples before their gradients are shortened, and what has no part in a single step."""
    if not plan.privacy.of_examples:
        return []
    task = plan.task.ability(ClippedGradientTask)
    assert task is not None, "its word is the unit"
    found = [Finding(*task.unclipped)] if task.unclipped[0] else []
    if type(plan.sharing) is not discovery.find("sharing", "fedavg"):
        why = f"sharing {type(plan.sharing).__name__} trains by itself"
        found.append(Finding(why, "sharing.name = 'fedavg'", {"sharing.name": "fedavg"}))
    if plan.sampler != discovery.find("samplers", "all")():
        why = f"sampler {plan.sampler} does not take all examples at once"
        found.append(Finding(why, "sampler.name = 'all' alone"))
    wanted = {name: value for name, value in _ONE_STEP.items() if getattr(plan.training, name) != value}
    for name, value in wanted.items():  # nor is one changed by a switch: learning rates hang on them
        said = f"a round is one step, in which training.{name} = {getattr(plan.training, name)!r} has no part"
        found.append(Finding(said, f"training.{name} = {value!r}"))
    return found
