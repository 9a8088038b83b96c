"""Laws of tasks, on small data of their own."""

import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch

from fedgraft.contracts import SCORED_SPLITS, Batch, Losses, Task
from fedgraft.contracts.abilities.tasks import HaloTask, PublishingTask, derived_shards
from fedgraft.contracts.data import Data
from fedgraft.contracts.scores import improves
from fedgraft.contracts.task import Ability, Loss, example_losses
from fedgraft.nn.flat_model import FlatModel
from fedgraft.testing.laws import Law, Laws, check, check_form, expect
from fedgraft.wire.layouts import Arrays


@dataclass(frozen=True, eq=False)
class TaskCase:
    """A task fitted to shards, two at least and each with training examples; `poolable` could be one client's."""

    task: Task[Any, Any]
    shards: Sequence[Any]
    poolable: Sequence[Any]
    _prepared: dict[int, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def published(self) -> dict[int, Arrays]:
        """{client: what it publishes}; {} where nothing is published."""
        publishing = self.task.ability(PublishingTask)
        if publishing is None or not publishing.statistics_layout.specs:
            return {}
        return {client: publishing.statistics(shard) for client, shard in enumerate(self.shards)}

    def afresh(self, client: int = 0) -> Any:
        """Prepare a client's data as if nothing had been published; halo states are none yet."""
        return opened(self.task, self.task.prepare(self.shards[client], {}))

    def prepared(self, client: int = 0) -> Any:
        """Return what was prepared `afresh` once, with halo states of its own."""
        if client not in self._prepared:
            self._prepared[client] = self.afresh(client)
        return opened(self.task, self._prepared[client])

    def set_up(self, client: int = 0) -> Any:
        """Prepare a client's data afresh, with what it gets back of what all publish."""
        return self.task.prepare(self.shards[client], self.told.get(client, {}))

    @cached_property
    def told(self) -> Mapping[int, Arrays]:
        """{client: what it gets back in the end}; {} where nothing is published."""
        return self.able(PublishingTask).combine(self.published) if self.published else {}

    def able(self, kind: type[Ability]) -> Ability:
        """Return what answers an ability that the task has."""
        found = self.task.ability(kind)
        assert found is not None, f"{kind.__name__} is no ability of {type(self.task).__name__}"
        return found

    def drawn(self, data: Any, seed: int = 1) -> torch.nn.Module:
        """Draw a client's model, and move every parameter so that it matters."""
        g = torch.Generator().manual_seed(seed)
        model = self.task.model(g, self.task.variant(data)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=g))
        return model


def opened(task: Task[Any, Any], data: Any) -> Any:
    """Return prepared data with no halo states yet, of a task that has any."""
    halo = task.ability(HaloTask)
    return halo.opened(data, None) if halo else data


def losses(
    task: Task[Any, Any], model: torch.nn.Module, data: Any, draw: Batch, shared: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the losses of a draw's examples, float [examples], given an encoding of their block."""
    return example_losses(task.loss(model, data, draw, shared))


def objective(loss: Loss) -> torch.Tensor:
    """Return what a step of equal weights minimises, float scalar."""
    mean = example_losses(loss).mean()
    return mean + loss.shared if isinstance(loss, Losses) and loss.shared is not None else mean


LAWS: Laws[TaskCase] = Laws()


def check_task(
    cls: type[Task[Any, Any]], data: Data[Any], /, *, poolable: Data[Any] | None = None, **options: Any
) -> None:
    """Hold a task with these options to all laws, which train or score on all clients of `data`: be they small.

    `poolable` are clients whose data could be one client's; those of `data` by default.

    Raises `AssertionError` with the class, the law and what was seen.
    """
    check(laws(cls, data, poolable=poolable, **options))


def laws(
    cls: type[Task[Any, Any]], data: Data[Any], /, *, poolable: Data[Any] | None = None, **options: Any
) -> list[Law[TaskCase]]:
    """Return the laws of a task, to be called one by one; arguments as `check_task`."""
    return LAWS.held(cls, case_of(cls, data, poolable, options))


def case_of(
    cls: type[Task[Any, Any]], data: Data[Any], poolable: Data[Any] | None, options: Mapping[str, Any]
) -> Callable[[], TaskCase]:
    """Return a function that makes a case, once; arguments as `check_task`."""

    @cache
    def case() -> TaskCase:
        task = cls(**options)
        shards = derived_shards(task, data.load(1), 1)
        task = task.fitted(shards)
        return TaskCase(task, shards, shards if poolable is None else derived_shards(task, poolable.load(1), 1))

    return case


@LAWS.every
def is_a_frozen_dataclass_with_a_documented_class(case: TaskCase) -> None:
    """Be a frozen dataclass whose documentation names its source, with a score and sums."""
    task = case.task
    check_form(type(task), Task, ("Source:", "Differs:"))
    expect(task.better in ("lower", "higher"), 'better must be "lower" or "higher"', task.better)
    expect(task.sums and len(set(task.sums)) == len(task.sums), "sums must be distinct names", task.sums)


@LAWS.every
def every_client_has_the_same_model(case: TaskCase) -> None:
    """Draw a model from the given generator and from nothing else."""
    task = case.task
    layouts = [FlatModel(task.model(torch.Generator().manual_seed(seed))).layout for seed in (1, 1, 2)]
    expect(layouts[0] == layouts[1] == layouts[2], "the layout must not depend on the seed", layouts)
    before = torch.get_rng_state()
    one, again, other = (_initial(task, seed) for seed in (1, 1, 2))
    untouched = torch.equal(before, torch.get_rng_state())
    expect(untouched, "only the given generator may be drawn from", "a change of torch's own")
    expect(all(np.array_equal(one[key], again[key]) for key in one), "equal seeds must draw equal models", again)
    expect(any(not np.array_equal(one[key], other[key]) for key in one), "other seeds must draw other models", other)


@LAWS.every
def what_is_shared_is_laid_out_and_drawn_alike_for_every_client(case: TaskCase) -> None:
    """Draw what travels alike for all variants of client, and without any."""
    task = case.task
    variants = [task.variant(case.prepared(client)) for client in range(len(case.shards))]
    drawn = [_shared(task, each) for each in (None, *variants)]
    for each in drawn:
        expect(list(each) == list(drawn[0]), "shared parameters must have the same names everywhere", list(each))
        equal = all(np.array_equal(each[key], drawn[0][key]) for key in each)
        expect(equal, "shared parameters must be drawn alike everywhere", each)


@LAWS.every
def what_is_chosen_by_agrees_with_the_score(case: TaskCase) -> None:
    """Choose no model that scores worse."""
    task, data = case.task, case.prepared()
    with torch.no_grad():
        sums = [task.evaluate(case.drawn(data, seed), data)["validation"] for seed in range(6)]
    for one in sums:
        for two in sums:
            if improves(task.score(one), task.score(two), task.better):
                chosen = improves(task.selection_metric(one), task.selection_metric(two), task.better)
                expect(
                    chosen,
                    "a better score must be a better choice",
                    task.selection_metric(one),
                    task.selection_metric(two),
                )


@LAWS.every
def there_are_examples(case: TaskCase) -> None:
    """Find training examples at each client."""
    for client in range(len(case.shards)):
        count = case.task.examples(case.prepared(client))
        expect(count > 0, f"client {client} must have training examples", count)


@LAWS.every
def blocks_hold_every_example_once(case: TaskCase) -> None:
    """Cut all training examples into blocks, none of them empty."""
    for client in range(len(case.shards)):
        data = case.prepared(client)
        parts, count = case.task.blocks(data), case.task.examples(data)
        expect(all(len(block) for block in parts), "no block may be empty", parts)
        once = sorted(np.concatenate(parts).tolist()) == list(range(count))
        expect(once, f"blocks must hold each of {count} examples once", parts)


@LAWS.every
def preparing_is_repeatable_and_changes_no_shard(case: TaskCase) -> None:
    """Make equal data of equal shards."""
    model = case.drawn(case.afresh())
    before = pickle.dumps(case.shards[0])
    with torch.no_grad():
        first, again = (case.task.evaluate(model, case.afresh()) for _ in range(2))
    expect(first == again, "what is prepared twice must score equally", again, first)
    expect(pickle.dumps(case.shards[0]) == before, "prepare must not change the shard", "another shard")


@LAWS.every
def losses_are_one_finite_number_per_example_and_do_not_depend_on_the_rest_of_the_draw(case: TaskCase) -> None:
    """Return a loss for each example, the same in any draw, with or without an encoding of the block."""
    task, data = case.task, case.prepared()
    model = case.drawn(data)
    block = task.blocks(data)[0]
    with torch.no_grad():  # as a round begins: what is remembered of examples outside a draw is of this model
        halo = case.task.ability(HaloTask)
        looked = halo.look(model, data, 0, losses=True) if halo else None
    shared = task.encode(model, data, block)
    whole = losses(task, model, data, Batch(block), shared)
    expect(whole.shape == (len(block),), f"there must be {len(block)} losses", whole.shape)
    expect(torch.isfinite(whole).all(), "losses must be finite", whole)
    if looked is not None:
        np.testing.assert_allclose(looked[block], whole.detach().numpy(), rtol=1e-4, atol=1e-5)
    part = losses(task, model, data, Batch(block[1::2]), shared)
    torch.testing.assert_close(part, whole[1::2], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(losses(task, model, data, Batch(block)), whole, rtol=1e-4, atol=1e-5)


@LAWS.every
def gradients_of_the_loss_reach_every_parameter(case: TaskCase) -> None:
    """Let every parameter learn."""
    data = case.prepared()
    model = case.drawn(data)
    loss = case.task.loss(model, data, Batch(case.task.blocks(data)[0]), None)
    objective(loss).backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        expect(parameter.grad is not None, "every parameter must have a gradient", name)
        reached = not parameter.numel() or bool(parameter.grad is not None and parameter.grad.abs().max() > 0)
        expect(reached, "no parameter's gradient may be zero", name)


@LAWS.every
def sums_are_named_finite_and_add_up(case: TaskCase) -> None:
    """Return sums whose totals score between the best and the worst client."""
    task = case.task
    total = {split: dict.fromkeys(task.sums, 0.0) for split in SCORED_SPLITS}
    scores: dict[str, list[float]] = {split: [] for split in SCORED_SPLITS}
    for client in range(len(case.shards)):
        data = case.prepared(client)
        with torch.no_grad():
            scored = task.evaluate(case.drawn(data), data)
        expect(tuple(scored) == SCORED_SPLITS, f"evaluate must return sums of {SCORED_SPLITS}", tuple(scored))
        for split, sums in scored.items():
            expect(tuple(sums) == task.sums, "sums must come in the order in which they travel", tuple(sums), task.sums)
            finite = all(type(value) is float and math.isfinite(value) for value in sums.values())
            expect(finite, "sums must be finite floats", sums)
            expect(min(sums.values()) >= 0, "no sum may be negative", sums)
            scores[split].append(task.score(sums))
            total[split] = {key: total[split][key] + sums[key] for key in sums}
    for split in SCORED_SPLITS:
        together, low, high = task.score(total[split]), min(scores[split]), max(scores[split])
        expect(low <= together <= high, f"the score of all must be in [{low}, {high}]", together)


@LAWS.every
def nothing_to_score_is_nan(case: TaskCase) -> None:
    """Give no score to nothing."""
    score = case.task.score(dict.fromkeys(case.task.sums, 0.0))
    expect(math.isnan(score), "the score of no example must be nan", score)


def _initial(task: Task[Any, Any], seed: int) -> Arrays:
    return FlatModel(task.model(torch.Generator().manual_seed(seed))).initial


def _shared(task: Task[Any, Any], of: Any) -> Arrays:
    """Shared parameters of the model for a variant."""
    initial = FlatModel(task.model(torch.Generator().manual_seed(1), of)).initial
    return {key: array for key, array in initial.items() if not task.personal(key)}
