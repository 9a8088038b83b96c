"""What each kind of reply tells of a client, by what its plan's methods declare."""

from collections.abc import Iterable
from typing import Final

from fedgraft.contracts.capabilities import CAPABILITIES
from fedgraft.engine.plan import REPORTED, SCORES, Plan
from fedgraft.engine.purposes import SMOOTHING_KINDS
from fedgraft.wire.layouts import Spec

_SCALARS: Final = {"examples": "sizes", **dict.fromkeys(REPORTED, "losses"), **dict.fromkeys(SCORES, "scores")}


def told_by(plan: Plan) -> dict[str, frozenset[str]]:
    """Return {kind of reply: words of `CAPABILITIES`} for each reply that clients send under a plan.

    Raises `TypeError` where a method has an array sent of which it does not say what it tells.
    """
    states = {"states"} if plan.halo_widths else set()
    asked = {"rows"} if plan.asked_layout.specs else set()
    told: dict[str, set[str]] = {
        "hello": _scalars(plan, "hello") | _arrays(plan.publishing.statistics_layout if plan.publishing else ()),
        "statistics": set(),
        "publish": set() if plan.secure_sum.masked or not plan.summed else _arrays(plan.summed.summed_layout),
        "train": _scalars(plan, "train") | (set() if plan.secure_sum.masked else _uploaded(plan)) | states,
        "alone": _scalars(plan, "alone"),
        "wait": states | asked,
        "evaluate": set() if plan.secure_sum.masked else set(plan.task.sums_tell),
        "measure": set(plan.task.sums_tell),
        "error": set(),
        **{kind: set() for kind in plan.secure_sum.kinds},
    }
    told |= {kind: _scalars(plan, kind) for kind in ("probe", "trial")}
    if plan.staged:
        told["stage"] = _arrays(plan.further_layout)
    if states:
        told["relay"] = states
    if smoothing := plan.smoothing:
        told["border"] = {"rows"} if plan.row_width else set()
        told |= {kind: set(smoothing.row_tells) for kind in ("smooth", "hop")}
        told |= {
            "sums": _arrays(plan.sums_layout),
            "tally": set() if plan.secure_sum.masked else {"scores"},
            "choice": set(),
            "smoothed": set() if plan.secure_sum.masked else set(plan.task.sums_tell),
        }
    for kind, words in told.items():
        if strange := words - CAPABILITIES.keys():
            raise TypeError(f"A message of kind {kind!r} tells {sorted(strange)}, of {', '.join(CAPABILITIES)}.")
    return {kind: frozenset(words) for kind, words in told.items()}


def asked_kinds(plan: Plan, probes: bool, at_clients: bool) -> list[str]:
    """Return the kinds of replies that clients are asked for.

    Args:
        plan: what is run.
        probes: whether its selector asks before it chooses.
        at_clients: whether clients score models; if not, sums and states go to the experimenter, outside the protocol.
    """
    kinds = ["hello", "statistics", *(["stage"] if plan.staged else []), *(["publish"] if plan.summed else [])]
    kinds += ["probe", "trial"] if probes else []
    kinds += plan.secure_sum.kinds
    kinds += ["train", "alone", *(["wait"] if plan.refreshes else [])]
    kinds += ["evaluate"] if at_clients else ["measure", *(["relay"] if plan.halo_widths else [])]
    return [*kinds, *(SMOOTHING_KINDS if plan.smoothing else ())]


def _arrays(specs: Iterable[Spec]) -> set[str]:
    told = {spec.name: spec.tells for spec in specs}
    if unsaid := [name for name, word in told.items() if not word]:
        raise TypeError(f"The Spec of array {unsaid[0]!r} must say what it tells of a client.")
    return set(told.values())


def _uploaded(plan: Plan) -> set[str]:
    """What an update tells: parameters of the model as its task says, other arrays as who adds them."""
    learnt = {*plan.model_layout.names, *plan.first_sampler}
    specs = list(plan.upload_layout)
    told = _arrays(spec for spec in specs if spec.name not in learnt)
    return told | (set(plan.task.update_tells) if learnt & {spec.name for spec in specs} else set())


def _scalars(plan: Plan, kind: str) -> set[str]:
    """What scalars tell: those of every training, or those of a task's profile and of a sampler's scores."""
    profile = plan.profiled.profile if plan.profiled else ()
    return {"class_counts" if name in profile else _SCALARS.get(name, "losses") for name in plan.names(kind)}
