"""Kinds of messages before the first round, and of a round of training."""

from typing import Final

from fedgraft.engine.plan import REPORTED, SCORES, Plan
from fedgraft.engine.privacy.secure_sum import SCALES, TOTAL, WEIGHT
from fedgraft.engine.protocol.message_kind import (
    Addition,
    MessageKind,
    Reply,
    Request,
    Rounds,
    always,
    of_arrays,
    of_scalars,
    of_states,
    of_upload,
)
from fedgraft.engine.protocol.sums import STATISTICS, UPDATES, coded_arrays
from fedgraft.wire.layouts import Layout, Spec, joined


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


def _model(plan: Plan) -> Layout:
    return plan.coded_download_layout


def _bounds(plan: Plan) -> Layout:
    return plan.downlink.bounds(plan.download_layout, plan.download_layout)


def _losses(plan: Plan) -> tuple[str, ...]:
    return tuple(name for name in REPORTED if name == "loss" or name in plan.reports)


def _silent(plan: Plan) -> tuple[str, ...]:
    """Nothing of single clients is told where answers are added up."""
    return _losses(plan) if plan.collection.single else ()


def _observed(plan: Plan) -> tuple[str, ...]:
    observed = sorted(plan.reports & plan.active.reported) if plan.active else ()
    return (*_losses(plan), *(each for each in SCORES if each in plan.reports), *observed)


def _scales(plan: Plan) -> Layout:
    coding = plan.sum_coding
    return Layout((Spec(SCALES, "float32", (coding.scales,)),)) if coding else Layout(())


def _alike(plan: Plan) -> Layout:
    """The model, but for what a client may keep from before, and the scales of the sum."""
    return Layout((*(spec for spec in _model(plan) if not plan.sharing.settles(spec.name)), *_scales(plan)))


def _update(plan: Plan) -> Layout:
    return joined(plan.coded_upload_layout, plan.coded_halo_layout)


def _waits(plan: Plan) -> bool:
    return plan.refreshes > 0


PROBE: Final = MessageKind(
    "probe",
    3,
    "probe",
    "mean and mean square of its losses under the model",
    asked=lambda plan: plan.probes,
    request=Request(layout=_model, bounds=_bounds),
    reply=Reply(names=lambda plan: REPORTED, tells=lambda plan: of_scalars(plan, REPORTED)),
)
TRIAL: Final = MessageKind(
    "trial",
    12,
    "probe",
    "mean and mean square of the losses of steps that it tries",
    asked=lambda plan: plan.probes,
    detail="progress",
    request=Request(names=lambda plan: ("epochs",), layout=_model, bounds=_bounds),
    reply=Reply(names=lambda plan: REPORTED, tells=lambda plan: of_scalars(plan, REPORTED)),
)
TRAIN: Final = MessageKind(
    "train",
    4,
    "model",
    "its update, its losses, and hidden states that others need",
    detail="progress",
    request=Request(
        names=lambda plan: plan.guidance,
        layout=lambda plan: Layout((*_model(plan), *plan.coded_halo_layout)),
        bounds=_bounds,
    ),
    reply=Reply(
        names=_observed,
        layout=_update,
        tells=lambda plan: of_scalars(plan, _observed(plan)) | of_upload(plan) | of_states(plan),
    ),
    added=Addition(
        UPDATES, _update, names=lambda plan: (WEIGHT, TOTAL), request=_scales, common=_alike, tells=of_states
    ),
    spends=lambda plan: 0 if plan.summed else plan.rounds,
    error="where sums hold noise there is none of its data: noise alone leaves in place of the update",
)
ALONE: Final = MessageKind(
    "alone",
    7,
    "model",
    "its losses in a round of which nothing is sent",
    detail="progress",
    request=Request(layout=_model, bounds=_bounds),
    reply=Reply(names=_silent, tells=lambda plan: of_scalars(plan, _silent(plan))),
)
WAIT: Final = MessageKind(
    "wait",
    8,
    "halo",
    "hidden states that others need, and which ones its next step reads",
    asked=_waits,
    request=None,
    reply=Reply(
        layout=lambda plan: joined(plan.coded_halo_layout, plan.asked_layout),
        tells=lambda plan: of_states(plan) | ({"rows"} if plan.asked_layout.specs else set()),
    ),
)
ROWS: Final = MessageKind(
    "rows",
    9,
    "halo",
    "what follows: an update, or another wait",
    asked=_waits,
    detail="segment",
    request=Request(layout=lambda plan: plan.coded_halo_layout),
    reply=None,
)
KINDS: Final = (HELLO, STATISTICS_BACK, PUBLISH, PROBE, TRIAL, TRAIN, ALONE, WAIT, ROWS)
