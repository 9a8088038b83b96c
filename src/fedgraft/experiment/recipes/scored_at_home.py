"""What needs scores of clients, where none is to leave them (`evaluation.at = "home"`)."""

from dataclasses import replace
from typing import Any, Final

from fedgraft.contracts import Selector
from fedgraft.engine.plan import HOME, Plan
from fedgraft.engine.server.loop.stopping import Stopping
from fedgraft.experiment.recipes.findings import Finding

_FRAME: Final = f"evaluation.at = {HOME!r} has no score leave a client, but {{why}}: {{instead}}"


def found(plan: Plan, selector: Selector[Any], stopping: Stopping) -> list[Finding]:
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
    if plan.smoothing is not None:
        found.append(
            Finding("a way to smooth answers is chosen by them", "answers.smoothing = 0", {"answers.smoothing": 0})
        )
    return [replace(each, frame=_FRAME) for each in found]
