"""The curve of a run: a point per scored round, and the best model so far."""

import math
from collections.abc import Iterable

from fedgraft.contracts.scores import improves
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.rounds.averaging import scored_model
from fedgraft.engine.server.rounds.scoring import Scoring
from fedgraft.engine.server.run_state import AFTER_STEPS, RunState


def note_scores(plan: Plan, state: RunState, scoring: Scoring, bytes: int, groups: Iterable[int]) -> dict[str, float]:
    """Extend the curve in a run's state by what was scored; the best model by validation is kept.

    Where clients cannot be scored there is no score: that of the others would be compared with scores of all. `bytes`
    are all bytes so far.

    Returns:
        The score of each split; none where clients could not be scored.
    """
    state.failures["scoring"] += len(scoring.failed)
    state.scores = {
        str(client): plan.task.scores({split: sums[split] for split in SCORED_SPLITS}, scoring.sums["validation"])
        for client, sums in scoring.clients.items()
    }
    known = scoring.sums if not scoring.failed else {}
    scores = plan.task.scores({split: known[split] for split in SCORED_SPLITS}) if known else {}
    for split in scores:
        mean = plan.task.mean_loss(scoring.sums[split])
        if math.isfinite(mean):
            state.losses[split] = [*state.losses.get(split, [mean])[:1], mean]
    point = {
        "round": state.round,
        "bytes": bytes,
        "seconds": state.seconds,
        "validation": scores.get("validation", math.nan),
        "test": scores.get("test", math.nan),
        "flops": state.flops,
        "simulated_seconds": state.simulated_seconds,
    }
    state.curve.append(point | ({"lacking": len(scoring.failed)} if scoring.failed else {}))
    _keep_best(plan, state, scoring, groups)
    if scoring.after is not None:
        _note_after_steps(plan, state, scoring.after)
    return scores


def _note_after_steps(plan: Plan, state: RunState, after: Scoring) -> None:
    """Add to the last point what local steps make of the model; the best such scores by validation are kept.

    As with the model itself there is no score where one of the clients lacks.
    """
    point, sums = state.curve[-1], {} if after.failed else after.sums
    scores = plan.task.scores(sums) if sums else dict.fromkeys(SCORED_SPLITS, math.nan)
    point |= {name: scores[split] for name, split in zip(AFTER_STEPS, SCORED_SPLITS, strict=True)}
    choice = plan.task.selection_metric(sums["validation"]) if sums else math.nan
    if improves(choice, state.best_after_steps.get("choice"), plan.task.better):
        by_client = {str(client): plan.task.scores(each, sums["validation"]) for client, each in after.clients.items()}
        known = {"round": point["round"], "choice": choice, **scores}
        state.best_after_steps = {**known, "sums": sums, "scores": by_client}


def _keep_best(plan: Plan, state: RunState, scoring: Scoring, groups: Iterable[int]) -> None:
    """Keep the model that was just scored if it is the best so far; or while none has a score.

    Where sums hold noise it is the last one: to choose by scores would tell more of what they are of. So it is where no
    score leaves a client.
    """
    point, sums = state.curve[-1], {} if scoring.failed else scoring.sums
    choice, best = plan.task.selection_metric(sums["validation"]) if sums else math.nan, state.best.get("choice")
    better = improves(choice, best, plan.task.better) or best is None or math.isnan(best)
    if better or plan.collection.claims or plan.at_home:
        models = {str(group): scored_model(plan, state.sharing, state.averages, group) for group in groups}
        known = {name: point[name] for name in ("round", *SCORED_SPLITS)}
        state.best = {**known, "choice": choice, "sums": sums, "scores": state.scores, "models": models}
