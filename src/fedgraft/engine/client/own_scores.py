"""How a client is scored on its held-out data: with the model that it keeps, and with what local steps make of it."""

import logging
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from fedgraft.contracts import Sums, randomness
from fedgraft.contracts.scores import improves
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.client.ensemble import ensemble_of
from fedgraft.engine.client.local_round import ClientModel, LocalRound, Order
from fedgraft.engine.plan import AFTER, COLLECTS, PROGRESS_STEPS, Plan
from fedgraft.errors import memory_shortage, printable
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays

LOG = logging.getLogger("fedgraft.client")


def kept(plan: Plan, received: Arrays, data: Any, model: ClientModel, memory: Memory) -> Arrays:
    """Return the sums of every split under the model that the client has, or keeps as its best, which is then noted.

    `received` are the shared parameters as received, `model` has the client's own loaded.
    """
    others = plan.ensemble(received, memory.get("sharing"))
    with torch.no_grad():
        sums = plan.task.evaluate(ensemble_of(plan.task, model.flat, others), data)
    if plan.personal and plan.keep_best:
        best, choice = memory.get("best"), plan.task.selection_metric(sums["validation"])
        if best is None or math.isnan(choice) or improves(choice, best["choice"], plan.task.better):
            best = {"choice": choice, "sums": sums, "arrays": model.flat.read(), "others": list(others)}
            memory["best"] = best
        sums = best["sums"]
    return _arrays(plan, sums)


def order_ahead(plan: Plan, client: int, message: Message, received: Arrays) -> Order:
    """Return the order to train that the next round would bring to a client that is being scored."""
    report = dict(message.report)
    collects = bool(report.pop(COLLECTS, 1.0))
    rate = plan.training.rate(message.progress / PROGRESS_STEPS)
    return Order(message.round + 1, client, collects, received, report, rate, False, waits=False)


def after_steps(plan: Plan, local: LocalRound, seen: Callable[[], Any]) -> Arrays:
    """Return the sums of every split under the model that a client has after a local round; NaN where that fails.

    The client's memory, a copy, belongs to the round. `seen` makes the data as they are scored, which may hold other
    states than those it trains on. Who has nothing to train on has the model that it was sent.
    """
    order = local.order
    role = "train" if order.collects else "alone"
    stochastic = plan.task.stochastic
    seeded = randomness.seeded_torch(plan.seed, role, order.round, order.client, plan.device)
    try:
        with seeded if stochastic else nullcontext():
            module = local.rehearsed()
        with torch.no_grad():
            return _arrays(plan, plan.task.evaluate(module, seen()), AFTER)
    except Exception as error:  # what would cost the client its round costs it this score
        if memory_shortage(error):
            raise
        LOG.info("Client %s, round %s: local steps to score: %s", order.client, order.round, printable(str(error)))
        return {AFTER + split: np.full(len(plan.task.sums), np.nan) for split in SCORED_SPLITS}


def _arrays(plan: Plan, sums: dict[str, Sums], prefix: str = "") -> Arrays:
    return {
        prefix + split: np.array([sums[split][name] for name in plan.task.sums], np.float64) for split in SCORED_SPLITS
    }
