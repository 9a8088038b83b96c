"""Kinds of messages by which answers are smoothed over edges after training."""

from collections.abc import Callable
from typing import Final

from fedgraft.engine import boundary_codec
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.halo_sums import MOST, PLACED, ROWS
from fedgraft.engine.protocol.capabilities_of import of_arrays
from fedgraft.engine.protocol.message_kind import Addition, MessageKind, Reply, Request, Rounds
from fedgraft.engine.protocol.scoring_kinds import scored_sums
from fedgraft.engine.protocol.sums import HOPS, SMOOTHED_ROWS, SMOOTHED_SCORES, TALLIES, coded_arrays, coded_scores
from fedgraft.wire.layouts import VARIABLE, Layout, Spec, joined


def _smooths(plan: Plan) -> bool:
    return plan.smoothing is not None


def _hidden(plan: Plan) -> bool:
    """Whether anything of it is hidden; else a run that was given more rounds asks for it anew."""
    return plan.collection.hides


def _fits(plan: Plan) -> bool:
    return bool(plan.sums_layout.specs)


def _model(plan: Plan) -> Layout:
    return plan.downlink.encoded(plan.model_layout)


def _rows(plan: Plan) -> Layout:
    """Rows of a boundary."""
    return Layout((Spec("rows", "int8", (VARIABLE, plan.row_width)),))


def _means(kind: str) -> Callable[[Plan], Layout]:
    """The means of a hop, where a kind brings any, and the layer that was fitted to them."""

    def request(plan: Plan) -> Layout:
        brings = kind in plan.hop_kinds
        means = joined(_rows(plan), Layout((Spec("known", "uint8", (VARIABLE,)),))) if brings else Layout(())
        return joined(means, plan.layer_layout) if kind == "tally" and _fits(plan) else means

    return request


def _answers(plan: Plan) -> set[str]:
    return set(plan.smoothing.row_tells) if plan.smoothing else set()


def _spent_once(plan: Plan) -> int:
    return 1 if plan.privacy.answers else 0


BOUNDARY: Final = MessageKind(
    "border",
    13,
    "smoothing",
    "which of its nodes are joined to which nodes of others",
    asked=_smooths,
    rounds=Rounds.BEFORE,
    once=_hidden,
    reply=Reply(layout=lambda plan: boundary_codec.LAYOUT, tells=lambda plan: {"rows"} if plan.row_width else set()),
)
SMOOTH: Final = MessageKind(
    "smooth",
    14,
    "smoothing",
    "answers of its nodes that others are joined to, under the model to smooth",
    asked=_smooths,
    rounds=Rounds.ANY,
    once=_hidden,
    request=Request(layout=_model, bounds=lambda plan: plan.downlink.bounds(plan.model_layout, plan.model_layout)),
    reply=Reply(layout=_rows, tells=_answers),
    added=Addition(
        SMOOTHED_ROWS,
        coded_arrays,
        names=lambda plan: (ROWS, MOST),
        request=lambda plan: PLACED,
        common=_model,
        tells=_answers,
    ),
    spends=_spent_once,
)
HOP: Final = MessageKind(
    "hop",
    15,
    "smoothing",
    "the same, averaged with those of its own nodes that are neighbours",
    asked=lambda plan: "hop" in plan.hop_kinds,
    rounds=Rounds.ANY,
    several=lambda plan: max(1, plan.hop_kinds.count("hop")),
    detail="segment",
    request=Request(layout=_means("hop")),
    reply=Reply(layout=_rows, tells=_answers),
    added=Addition(HOPS, coded_arrays, tells=_answers),
)
SUMS: Final = MessageKind(
    "sums",
    20,
    "smoothing",
    "sums by which a layer is fitted to what is known after all hops",
    asked=_fits,
    rounds=Rounds.ANY,
    request=Request(layout=_means("sums")),
    reply=Reply(layout=lambda plan: plan.sums_layout, tells=lambda plan: of_arrays(plan.sums_layout)),
)
TALLY: Final = MessageKind(
    "tally",
    16,
    "smoothing",
    "how many validation nodes each way to answer gains and loses",
    asked=_smooths,
    rounds=Rounds.ANY,
    request=Request(layout=_means("tally")),
    reply=Reply(
        layout=lambda plan: Layout((Spec("tallies", "uint32", (plan.smoothing.choices if plan.smoothing else 0, 2)),)),
        tells=lambda plan: {"scores"},
    ),
    added=Addition(TALLIES, coded_arrays),
)
CHOICE: Final = MessageKind(
    "choice",
    17,
    "smoothing",
    "that it has the way to answer",
    asked=_smooths,
    rounds=Rounds.ANY,
    request=Request(names=lambda plan: ("choice",)),
)
SMOOTHED: Final = MessageKind(
    "smoothed",
    18,
    "smoothing",
    "sums over its held-out examples with smoothed answers",
    asked=_smooths,
    rounds=Rounds.ANY,
    reply=Reply(layout=scored_sums, tells=lambda plan: set(plan.task.sums_tell)),
    added=Addition(SMOOTHED_SCORES, coded_arrays, bounds=coded_scores),
)
KINDS: Final = (BOUNDARY, SMOOTH, HOP, SUMS, TALLY, CHOICE, SMOOTHED)
