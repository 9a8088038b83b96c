"""Kinds of messages by which models are scored."""

from typing import Final

from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.plan import AFTER, COLLECTS, Plan
from fedgraft.engine.protocol.message_kind import Addition, MessageKind, Reply, Request, Rounds, of_states
from fedgraft.engine.protocol.sums import SCORES, coded_arrays, coded_scores
from fedgraft.wire.layouts import Layout, Spec, joined


def scored_sums(plan: Plan) -> Layout:
    """Return the layout of sums over held-out examples, a row for each split."""
    return Layout(tuple(Spec(split, "float64", (len(plan.task.sums),)) for split in SCORED_SPLITS))


def _model(plan: Plan) -> Layout:
    return plan.downlink.encoded(plan.scored_layout)


def _after(plan: Plan) -> Layout:
    """The same sums after local steps, where these are scored."""
    sums = scored_sums(plan)
    return joined(
        sums, Layout(tuple(Spec(AFTER + spec.name, spec.dtype, spec.shape) for spec in sums if plan.local_steps))
    )


def _looked_at(plan: Plan) -> bool:
    """Whether the experimenter may look at single clients: not where answers are added up, nor into a site."""
    return not plan.at_sites if plan.at_home else plan.collection.single


def _names(plan: Plan) -> tuple[str, ...]:
    return (*plan.guidance, *((COLLECTS,) if plan.silent else ())) if plan.local_steps else ()


def _sums(plan: Plan) -> set[str]:
    return set(plan.task.sums_tell)


EVALUATE: Final = MessageKind(
    "evaluate",
    5,
    "evaluation",
    "sums over its held-out examples under a model",
    asked=lambda plan: plan.at_clients,
    rounds=Rounds.ANY,
    detail="progress",
    request=Request(
        names=_names, layout=_model, bounds=lambda plan: plan.downlink.bounds(plan.scored_layout, plan.scored_layout)
    ),
    reply=Reply(layout=_after, tells=_sums, held_out=True),
    added=Addition(SCORES, coded_arrays, common=_model, bounds=coded_scores),
)
MEASURE: Final = MessageKind(
    "measure",
    6,
    "evaluation",
    "the same for the experimenter, outside the protocol",
    asked=_looked_at,
    rounds=Rounds.ANY,
    detail="progress",
    request=Request(names=_names, layout=lambda plan: plan.relayed_layout),
    reply=Reply(layout=_after, tells=_sums, held_out=True),
    outside=True,
)
RELAY: Final = MessageKind(
    "relay",
    10,
    "evaluation",
    "hidden states under the model to score",
    asked=lambda plan: _looked_at(plan) and bool(plan.halo_widths),
    rounds=Rounds.ANY,
    detail="layer",
    request=Request(layout=lambda plan: plan.relayed_layout),
    reply=Reply(layout=lambda plan: plan.relayed_layout, tells=of_states),
    outside=True,
)
SCORED: Final = MessageKind(
    "scored",
    11,
    "evaluation",
    "nothing: it brings the model that a request to measure is about",
    asked=_looked_at,
    rounds=Rounds.ANY,
    request=Request(layout=lambda plan: plan.scored_layout),
    reply=None,
)
KINDS: Final = (EVALUATE, MEASURE, RELAY, SCORED)
