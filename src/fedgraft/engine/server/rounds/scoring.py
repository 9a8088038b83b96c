"""Score the global models: by messages that are charged, or by the experimenter, outside the protocol."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from fedgraft import wire
from fedgraft.contracts import Sums
from fedgraft.contracts.scores import add, improves
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.allocator import give_back
from fedgraft.engine.plan import AFTER, PROGRESS_STEPS, Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.exchange import Exchange, Replies
from fedgraft.engine.server.halo import HaloExchange
from fedgraft.engine.server.rounds.next_round import Ahead, scored_model
from fedgraft.engine.server.run_state import AFTER_STEPS, RunState
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays, finite
from fedgraft.wire.lazy import Made


@dataclass(frozen=True)
class Scoring:
    """Results of scoring a model at the clients.

    `sums` are {split: added sums of those that answered}, `clients` {client: {split: sums}}, `failed` {client: reason}.
    `after` are those of the same clients' models after local steps; None where they take none.
    """

    sums: dict[str, Sums]
    clients: dict[int, dict[str, Sums]]
    failed: Mapping[int, str]
    after: "Scoring | None" = None


class Scorer:
    """Score models at the clients; `halo` has them relay rows under the models to score."""

    def __init__(self, plan: Plan, exchange: Exchange, halo: HaloExchange) -> None:
        self._plan, self._exchange, self.halo = plan, exchange, halo

    def measure(
        self,
        models: Mapping[int, Arrays],
        round: int,
        scored: Collection[int] | None = None,
        ahead: Ahead | None = None,
    ) -> Scoring:
        """Score {client: arrays of `Plan.scored_layout`} as the experimenter: exact, free, not a word in the protocol.

        Equal models are one object, and encoded once. Where only some clients are `scored`, the others are there to
        relay what these see of their nodes. `ahead` says what comes next.
        """
        give_back()  # rows of all nodes go to and fro: freed memory that rounds left is of no use to them
        replies = self._measured(models, round, models.keys() if scored is None else scored, ahead or Ahead())
        give_back()
        return self.summed(replies, self._plan.local_steps)

    def summed(self, replies: Replies, after: bool = False) -> Scoring:
        """Add the sums that clients replied, those `after` local steps as well; one with a negative sum has failed."""
        negative = {
            client: "scored a negative sum"
            for client, message in replies.messages.items()
            if any((array < 0).any() for array in (message.arrays or {}).values())
        }
        replies = replies.without(negative)
        scoring = self._added(replies)
        if not after:
            return scoring
        lost = {
            client: "its local steps have failed"
            for client, message in replies.messages.items()
            if any(not finite(array) for name, array in (message.arrays or {}).items() if name.startswith(AFTER))
        }
        return replace(scoring, after=self._added(replies.without(lost), AFTER))

    def _added(self, replies: Replies, prefix: str = "") -> Scoring:
        """The sums of the arrays whose names begin with a prefix."""
        names, nothing = self._plan.task.sums, dict.fromkeys(self._plan.task.sums, 0.0)
        parts = {
            client: {
                split: dict(zip(names, message.arrays[prefix + split].tolist(), strict=True)) for split in SCORED_SPLITS
            }
            for client, message in sorted(replies.messages.items())
            if message.arrays
        }
        sums = {split: add([nothing, *(part[split] for part in parts.values())]) for split in SCORED_SPLITS}
        return Scoring(sums, parts, replies.failed)

    def _measured(self, models: Mapping[int, Arrays], round: int, clients: Collection[int], ahead: Ahead) -> Replies:
        layouts, names = (
            Protocol.of(self._plan).request_layouts,
            Protocol.of(self._plan).request_names.get("measure", ()),
        )
        steps = int(ahead.progress * PROGRESS_STEPS)
        encoded: dict[int, bytes] = {}
        for model in models.values():
            if id(model) not in encoded:
                encoded[id(model)] = wire.encode(Message("scored", round, arrays=model), layouts["scored"])
        scored = {client: encoded[id(model)] for client, model in models.items()}

        def request(client: int, rows: Arrays | None = None) -> bytes:
            message = Message("measure", round, ahead.reports.get(client, {}), rows, progress=steps)
            return wire.encode(message, layouts["measure"], names)

        if not self.halo.active:
            told = {client: tuple(ahead.reports.get(client, {}).values()) for client in clients}
            equal = {values: request(client) for client, values in told.items()}
            requests: Mapping[int, bytes] = {client: equal[values] for client, values in told.items()}
            return self._exchange.measure("measure", round, requests, scored)
        rows, failed = self.halo.relayed(scored, round)
        give_back()
        if failed:
            return Replies(failed=failed)
        requests = Made(clients, lambda client: request(client, rows[client]))
        return self._exchange.measure("measure", round, requests, scored)


def note_scores(plan: Plan, state: RunState, scoring: Scoring, bytes: int, groups: Iterable[int]) -> dict[str, float]:
    """Extend the curve in a run's state by what was scored; the best model by validation is kept.

    Where clients cannot be scored there is no score: that of the others would be compared with scores of all. `bytes`
    are all bytes so far.

    Returns:
        The score of each split; none where clients could not be scored.
    """
    state.clients.failures["scoring"] += len(scoring.failed)
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
        models = {str(group): scored_model(plan, state.sharing, state.merging.averages, group) for group in groups}
        known = {name: point[name] for name in ("round", *SCORED_SPLITS)}
        state.best = {**known, "choice": choice, "sums": sums, "scores": state.scores, "models": models}
