"""Kinds of messages before the first round."""

from typing import Final

from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import TOTAL
from fedgraft.engine.protocol.message_kind import (
    Addition,
    MessageKind,
    Reply,
    Request,
    Rounds,
    always,
    of_arrays,
    of_scalars,
)
from fedgraft.engine.protocol.sums import STATISTICS, coded_arrays
from fedgraft.wire.layouts import Layout


def _profile(plan: Plan) -> tuple[str, ...]:
    return ("examples", *sorted(plan.reports & plan.task.profile))


def _published(plan: Plan) -> set[str]:
    return of_scalars(plan, _profile(plan)) | of_arrays(plan.publishing.statistics_layout if plan.publishing else ())


def _combined(plan: Plan) -> Layout:
    return plan.rows.encoded(plan.combined_layout)


HELLO: Final = MessageKind(
    "hello",
    1,
    "statistics",
    "how many training examples it has, and what its task publishes before training",
    rounds=Rounds.BEFORE,
    once=always,
    reply=Reply(names=_profile, layout=lambda plan: plan.rows.encoded(plan.statistics_layout), tells=_published),
)
STATISTICS_BACK: Final = MessageKind(
    "statistics",
    2,
    "statistics",
    "that it has what the server made of all statistics",
    rounds=Rounds.BEFORE,
    request=Request(layout=_combined),
)
PUBLISH: Final = MessageKind(
    "publish",
    24,
    "statistics",
    "its part in a sum of statistics",
    asked=lambda plan: plan.summed is not None,
    rounds=Rounds.BEFORE,
    once=always,
    request=Request(names=lambda plan: (TOTAL,)),
    reply=Reply(layout=coded_arrays, tells=lambda plan: of_arrays(plan.summed.summed_layout) if plan.summed else set()),
    added=Addition(STATISTICS, coded_arrays),
    spends=lambda plan: 1 if plan.summed else 0,
)
KINDS: Final = (HELLO, STATISTICS_BACK, PUBLISH)
