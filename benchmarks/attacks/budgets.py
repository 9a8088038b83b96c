"""Random budgets of bytes: no run spends more, and every byte of every message is in the ledger."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from attacks.mutations import one_of
from attacks.outcomes import Outcome, outcome
from attacks.small_runs import RECIPES, conversation, experiment
from fedgraft.contracts import ClientFailed
from fedgraft.errors import BudgetError, InputError
from fedgraft.testing.runs import play

CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "codec": ("float16", {"name": "quantized", "bits": 2}, {"name": "sparse", "share": 0.1}, "low_rank"),
    "selector": ("all", "random", {"name": "power_of_choice", "clients": 1, "candidates": 2}, "rpfl"),
    "evaluation.at": ("clients", "server"),
    "sharing": ("fedavg", "scaffold", "fedprox"),
    "rounds": (1, 3, 6),
}
PLAIN: Final = ("graft_node", "links", "fedais", "fedacs", "sparse", "rafhgl")
"""Recipes that any of the choices suits, nearly."""


def budgets(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """Runs with a budget between nothing and twice what they need."""
    names = [name for name in RECIPES if name in PLAIN]
    while True:
        for name in names:
            budget = int(conversation(name).charged * 10 ** g.uniform(-2, 0.5))
            options = {key.replace(".", "__"): one_of(CHOICES[key], g) for key in CHOICES if g.random() < 0.3}
            try:
                experiment(name, budget__bytes=budget, **options)
            except InputError:
                options = {}  # choices that do not suit each other
            yield outcome(partial(_spent, name, budget, options), (BudgetError,))


def _spent(name: str, budget: int, options: dict[str, Any]) -> str:
    played = play(experiment(name, budget__bytes=budget, **options))
    spent = played.charged["down"] + played.charged["up"]
    said = [each.message for each in (*played.sent, *played.received)]
    carried = sum(each.bytes_up if isinstance(each, ClientFailed) else len(each) for each in said)
    if spent > budget:
        return f"{spent} bytes of a budget of {budget}: {name} {options}"
    return "" if spent == carried else f"{carried} bytes travelled, {spent} are charged: {name} {options}"
