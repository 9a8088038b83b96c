"""Sums of a round: which there are, by number, the layout of a part of one, and the noise in them.

A sum's number is that of its pad, too: no two kinds of messages share one. Hops of smoothing are counted on from
`HOPS`, so it is the last.
"""

from typing import Any, Final

from fedgraft.contracts import Selector
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.central import CentralMechanism, central_mechanism
from fedgraft.engine.privacy.mechanism import Mechanism, mechanism_of
from fedgraft.engine.privacy.private_sums import numbers_of
from fedgraft.engine.privacy.secure_sum import CODES, score_bytes
from fedgraft.engine.privacy.spending import ANSWERED, NOISE, UNIT
from fedgraft.wire.layouts import VARIABLE, Layout, Spec

UPDATES, SCORES, STATISTICS, TALLIES, SMOOTHED_SCORES, SMOOTHED_ROWS, HOPS = range(7)
_CODED: Final = Layout((Spec(CODES, "uint8", (VARIABLE,)),))


def coded_arrays(plan: Plan) -> Layout:
    """Return the layout of a client's part in a sum."""
    return _CODED


def coded_scores(plan: Plan) -> Layout:
    """Return that layout with its size, of a client's part in a sum of scores."""
    return Layout((Spec(CODES, "uint8", (score_bytes(len(plan.task.sums)),)),))


def segment_of(kind: str, done: int = 0) -> int:
    """Return which sum of its round that of a kind of smoothing is, where so many hops are done."""
    return {"smooth": SMOOTHED_ROWS, "hop": HOPS + done, "tally": TALLIES, "smoothed": SMOOTHED_SCORES}[kind]


def noise_in(plan: Plan, numbers: int = 0) -> Mechanism:
    """Return the noise of a plan whose sums hold any: of statistics, or of updates.

    `numbers` are those of a sum, for a plan whose task does not know its data; 0 = those of the plan.
    """
    if task := plan.summed:
        return mechanism_of(plan.privacy, 1, numbers or numbers_of(task.summed_layout), task.reach)
    return mechanism_of(plan.privacy, plan.rounds, numbers or numbers_of(plan.upload_layout))


def central_noise_in(plan: Plan, selector: Selector[Any], clients: int, numbers: int = 0) -> CentralMechanism:
    """Return the noise that the server adds, of so many clients; `numbers` as of `noise_in`.

    A claim is smaller for a cohort that is drawn in secret, by coins alone.
    """
    share = selector.share(clients)
    cohort = share * clients if selector.by_coins else float(cohort_of(selector, clients))
    return central_mechanism(plan.privacy, plan.rounds, numbers or numbers_of(plan.upload_layout), share, cohort)


def cohort_of(selector: Selector[Any], clients: int) -> int:
    """Return how many of so many clients a round has at most."""
    wanted = getattr(selector, "clients", 0)
    return min(wanted, clients) if isinstance(wanted, int) and wanted else clients


def told_by_kind(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return {kind of reply: what one tells of a unit, as a line of a log holds it}; {} where nothing holds noise."""
    if not plan.collection.noisy:
        return {}
    released = noise_in(plan).released
    unit = {UNIT: plan.privacy.unit}
    noise = {**unit, NOISE: released.noise, "divergence": released.divergence, "failure": released.failure}
    answers = {"smooth": {**unit, ANSWERED: plan.privacy.answers}} if plan.privacy.answers else {}
    return {"publish" if plan.summed else "train": noise, **answers}
