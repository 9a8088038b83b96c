"""A round that pauses for rows of other clients."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from fedgraft.contracts import Batch, Sampler
from fedgraft.contracts.abilities.tasks import HaloTask
from fedgraft.engine.client.local_trainer import LocalTrainer, Paused
from fedgraft.errors import FedgraftError
from helpers.local_trainers import TWO_POINTS, Encoded, Scaled, trainer
from helpers.toy import Line, Points
from helpers.toy_runs import same


@dataclass(frozen=True)
class Asking(Sampler[dict]):
    """Batches of three, drawn by what was seen of their losses; every so many steps it asks to refresh."""

    every: int = 2

    def init(self, examples):
        return {"drawn": 0, "loss": np.ones(examples)}

    def draw(self, state, block, stage, g):
        share = state["loss"][block] / state["loss"][block].sum()
        draws = [Batch(g.choice(block, 3, replace=False, p=share), None, k % self.every == 0) for k in range(5)]
        return [*draws, Batch(block[:2], np.array([0.5, 2.0], np.float32))]

    def update(self, state, draw, losses):
        seen = state["loss"].copy()
        seen[draw.examples] = losses + 0.1
        return {"drawn": state["drawn"] + 1, "loss": seen}

    def refreshes(self, epochs):
        return epochs * len(range(0, 5, self.every))


def two_runs(trainer, received):
    """As a sharing method has it: two runs from different starts, the second pulled towards the first's end."""
    trainer.load(received)
    trainer.run()
    first, steps = trainer.read(), trainer.steps
    goal = torch.from_numpy(first["weight"])
    trainer.load({name: array * 2 for name, array in received.items()})
    begun = trainer.read()
    trainer.run(penalty=lambda parameters: ((parameters["weight"] - goal) ** 2).sum(), epochs=2)
    after = [first, steps, begun, trainer.read(), trainer.steps, trainer.report(), trainer.sampler_state]
    return [*after, trainer.moments]


@dataclass(frozen=True)
class Haloed(Line, HaloTask):
    """The line, whose clients exchange a halo that no loss depends on."""

    pull: str = "asked"

    @property
    def halo_widths(self):
        return (2,)

    def read(self, data, draw):
        return [draw.examples]

    def look(self, model, data, seed, losses):
        return np.zeros(0, np.float32)

    def halos(self, statistics):
        return {}

    def opened(self, data, states):
        return data

    def closed(self, data):
        return None

    def receive(self, data, rows):
        """Rows change nothing."""

    def changed(self, data):
        return []

    def relay(self, model, data, layer):
        return []


def in_parts(part, received):
    """Run `two_runs` with trainers that each take up what the one before parked; its result and what each asked."""
    asked = []
    while True:
        try:
            return two_runs(part, received), asked
        except Paused as pause:
            asked.append(pause.asked)
            state, parked = part.sampler_state, part.park()
        flat = part._flat
        flat.load({name: np.full_like(array, 99) for name, array in flat.initial.items()})  # others train meanwhile
        part._optimizer.reset(9.0)
        flat.gradient.fill_(1.0)
        part._optimizer.step()
        part = LocalTrainer(
            part._plan,
            flat,
            part._optimizer,
            part._data,
            state,
            part._g,
            part.learning_rate,
            parked=parked,
            received=received,
            moments=part._kept,
        )


@pytest.mark.parametrize("every", [1, 2, 6])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"optimizer": "adam", "epochs": 2},
        {"momentum": 0.9, "keep_moments": True, "proximal": 0.1},
        {"optimizer": "adam", "epochs": 2, "keep_moments": True, "proximal": 0.1},
    ],
)
def test_a_round_that_pauses_whenever_it_may_ends_as_one_that_does_not(options, every):
    g = np.random.default_rng(5)
    data = Points(
        g.standard_normal((9, 1)).astype(np.float32), g.standard_normal(9).astype(np.float32), np.zeros(9, int)
    )
    received = {"weight": np.ones(1, np.float32), "bias": np.zeros(1, np.float32)}
    options = {"learning_rate": 0.05, **options}
    held = {"received": received, "moments": two_runs(trainer(data, Asking(), **options), received)[-1]}
    expected = two_runs(trainer(data, Asking(every=every), **held, **options), received)
    found, asked = in_parts(trainer(data, Asking(every=every), Haloed(width=1), **held, **options), received)
    assert same(found, expected)
    assert list(map(bool, expected[-1])) == 2 * ["keep_moments" in options]
    assert len(asked) == sum(draw % 6 % every == 0 and draw % 6 < 5 for draw in range(expected[4]))
    assert all(len(slots) == 3 for (slots,) in asked), "what the step after the pause reads"


def test_a_client_that_is_sent_what_changed_need_not_pause_before_its_first_step():
    def pauses(fresh_rows, pull="changed", collects=True):
        part = trainer(sampler=Refreshing(), task=Haloed(width=1, pull=pull))
        part = LocalTrainer(
            part._plan, part._flat, part._optimizer, TWO_POINTS, None, part._g, 0.1, collects, fresh_rows=fresh_rows
        )
        try:
            part.run()
        except Paused as pause:
            return part.steps, [slots.tolist() for slots in pause.asked]
        return None

    assert pauses(fresh_rows=True) is None
    assert pauses(fresh_rows=False) == (0, [])
    assert pauses(fresh_rows=True, pull="asked") == (0, [[0, 1]])
    assert pauses(fresh_rows=False, collects=False) is None, "in a silent round nobody can be asked"


@dataclass(frozen=True)
class Refreshing(Sampler[None]):
    """One step on both examples, before which it asks to refresh."""

    def init(self, examples):
        return None

    def draw(self, state, block, stage, g):
        return [Batch(block, refresh=True)]

    def refreshes(self, epochs):
        return epochs


def test_no_refresh_may_interrupt_a_block_that_is_encoded():
    class Both(Haloed, Encoded):
        pass

    with pytest.raises(FedgraftError, match="Both encodes whole blocks; no refresh may interrupt it"):
        trainer(sampler=Refreshing(), task=Both(width=1), model=Scaled()).run()
