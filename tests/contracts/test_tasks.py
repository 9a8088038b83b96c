"""Laws of every task: `fedgraft/methods/tasks/*.py`, found by file name, on generated data of its own.

`DATA` names generated data for a task; a task without an entry here fails the first law, so that it gets one.
"""

import dataclasses
import inspect
import math
import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from fedgraft.contracts import Draw, Task
from fedgraft.contracts.providers import Data
from fedgraft.contracts.scores import improves
from fedgraft.engine.plan import SPLITS
from fedgraft.experiment import discovery
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.data.molecules import Molecules
from fedgraft.methods.data.shops import Shops
from fedgraft.nn.flat_model import FlatModel

NAMES = discovery.names("tasks")
DATA: dict[str, Callable[[], Data[Any]]] = {
    "rating": lambda: Shops(users=60, items=80, categories=4, links=200, count=600, clients=3),
    "graph": lambda: Molecules(clients=3, graphs=40),
    "node": lambda: Blocks(nodes=150, classes=3, clients=3, features=8),
}
MERGEABLE: dict[str, Callable[[], Data[Any]]] = {**DATA, "graph": lambda: Molecules(clients=1, graphs=40)}
"""Data whose clients could be one; graphs of clients with other features could not."""


@cache
def shards_of(name: str) -> list[Any]:
    return DATA[name]().load(1)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def task(name: str) -> Task[Any, Any]:
    cls = discovery.find("tasks", name)
    fields = {field.name for field in dataclasses.fields(cls)}
    options = {"encoder": discovery.build("models", "model", {"name": "gcn"})} if "encoder" in fields else {}
    built: Task[Any, Any] = discovery.construct(cls, "task", options)
    return built.fitted(shards_of(name)) if name in DATA else built


def drawn(task: Task[Any, Any], data: Any, seed: int = 1) -> torch.nn.Module:
    """A client's model, every parameter of which matters."""
    g = torch.Generator().manual_seed(seed)
    model = task.model(g, task.variant(data)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=g)
    return model


def test_is_a_frozen_dataclass_with_a_documented_class(name: str, task: Task[Any, Any]) -> None:
    assert name in DATA, f"add generated data for {name!r}"
    cls = discovery.find("tasks", name)
    assert issubclass(cls, Task)
    assert cls.__dataclass_params__.frozen
    assert cls.better in ("lower", "higher")
    assert task.sums
    assert len(set(task.sums)) == len(task.sums)
    text = inspect.getdoc(cls) or ""
    assert "Source:" in text
    assert "Differs:" in text
    assert all(f"{field.name}:" in text for field in dataclasses.fields(cls)), "every option is explained"


def test_every_client_has_the_same_model(name: str, task: Task[Any, Any]) -> None:
    layouts = [FlatModel(task.model(torch.Generator().manual_seed(seed))).layout for seed in (1, 1, 2)]
    assert layouts[0] == layouts[1] == layouts[2]
    before = torch.get_rng_state()
    one, same, other = (FlatModel(task.model(torch.Generator().manual_seed(seed))).initial for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state()), "only the given generator is drawn from"
    assert all(np.array_equal(one[key], same[key]) for key in one)
    assert any(not np.array_equal(one[key], other[key]) for key in one)


def test_what_is_shared_is_laid_out_and_drawn_alike_for_every_client(name: str, task: Task[Any, Any]) -> None:
    found = []
    for shard in shards_of(name):
        variant = task.variant(task.prepare(shard, {}))
        initial = FlatModel(task.model(torch.Generator().manual_seed(1), variant)).initial
        found.append({key: array for key, array in initial.items() if not task.personal(key)})
    plain = FlatModel(task.model(torch.Generator().manual_seed(1))).initial
    found.append({key: array for key, array in plain.items() if not task.personal(key)})
    assert all(list(each) == list(found[0]) for each in found)
    assert all(np.array_equal(each[key], found[0][key]) for each in found for key in each)


def test_what_is_chosen_by_agrees_with_the_score(name: str, task: Task[Any, Any]) -> None:
    shard = shards_of(name)[0]
    data = task.prepare(shard, {})
    with torch.no_grad():
        sums = [task.evaluate(drawn(task, data, seed), data)["validation"] for seed in range(6)]
    for one in sums:
        for two in sums:
            if improves(task.score(one), task.score(two), task.better):
                assert improves(task.choice(one), task.choice(two), task.better)


def test_every_part_on_offer_can_be_had(name: str, task: Task[Any, Any]) -> None:
    for part in task.offers - {"together"}:  # which is an ability of the task and no part of its model
        assert task.having(frozenset({part})).offers == task.offers
        assert any(part in key for key in FlatModel(task.having(frozenset({part})).model(torch.Generator())).initial)


def test_models_answer_together_if_the_task_says_so(name: str, task: Task[Any, Any]) -> None:
    data = task.prepare(shards_of(name)[0], {})
    models = [task.model(torch.Generator().manual_seed(seed), task.variant(data)).eval() for seed in (0, 1)]
    if "together" not in task.offers:
        with pytest.raises(NotImplementedError):
            task.together(models)
        return
    with torch.no_grad():
        found = [task.evaluate(task.together(models[:1] * count).eval(), data) for count in (1, 2)]
        expected = task.evaluate(models[0], data)
    for sums in found:  # the mean of a model and itself is the model
        assert all(sums[split] == pytest.approx(expected[split], rel=1e-4) for split in expected)


def test_blocks_hold_every_example_once(name: str, task: Task[Any, Any]) -> None:
    for shard in shards_of(name):
        data = task.prepare(shard, {})
        blocks = task.blocks(data)
        assert task.examples(data) > 0
        assert all(len(block) for block in blocks)
        assert sorted(np.concatenate(blocks).tolist()) == list(range(task.examples(data)))


def test_preparing_is_repeatable_and_changes_no_shard(name: str, task: Task[Any, Any]) -> None:
    shard = shards_of(name)[0]
    model = drawn(task, task.prepare(shard, {}))
    before = pickle.dumps(shard)
    with torch.no_grad():
        first, again = (task.evaluate(model, task.prepare(shard, {})) for _ in range(2))
    assert first == again
    assert pickle.dumps(shard) == before


def test_losses_are_one_finite_number_per_example_and_do_not_depend_on_the_rest_of_the_draw(
    name: str, task: Task[Any, Any]
) -> None:
    data = task.prepare(shards_of(name)[0], {})
    model = drawn(task, data)
    block = task.blocks(data)[0]
    with torch.no_grad():  # as a round begins: what is remembered of examples outside a draw is of this model
        looked = task.look(model, data, 0)
    encoded = task.encode(model, data, block)
    whole = task.loss(model, data, Draw(block), encoded)
    assert whole.shape == (len(block),)
    assert torch.isfinite(whole).all()
    np.testing.assert_allclose(looked[block], whole.detach().numpy(), rtol=1e-4, atol=1e-5)
    part = task.loss(model, data, Draw(block[1::2]), encoded)
    torch.testing.assert_close(part, whole[1::2], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(task.loss(model, data, Draw(block), None), whole, rtol=1e-4, atol=1e-5)


def test_gradients_of_the_loss_reach_every_parameter(name: str, task: Task[Any, Any]) -> None:
    data = task.prepare(shards_of(name)[0], {})
    model = drawn(task, data)
    task.loss(model, data, Draw(task.blocks(data)[0]), None).mean().backward()  # type: ignore[no-untyped-call]
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert not parameter.numel() or parameter.grad.abs().max() > 0, key


def test_sums_are_named_finite_and_add_up(name: str, task: Task[Any, Any]) -> None:
    total = {split: dict.fromkeys(task.sums, 0.0) for split in SPLITS}
    scores: dict[str, list[float]] = {split: [] for split in SPLITS}
    for shard in shards_of(name):
        data = task.prepare(shard, {})
        with torch.no_grad():
            found = task.evaluate(drawn(task, data), data)
        assert tuple(found) == SPLITS
        for split, sums in found.items():
            assert tuple(sums) == task.sums, "the order in which they travel"
            assert all(type(value) is float and math.isfinite(value) for value in sums.values())
            scores[split].append(task.score(sums))
            total[split] = {key: total[split][key] + sums[key] for key in sums}
    for split in SPLITS:
        assert min(scores[split]) <= task.score(total[split]) <= max(scores[split])


def test_nothing_to_score_is_nan(name: str, task: Task[Any, Any]) -> None:
    assert math.isnan(task.score(dict.fromkeys(task.sums, 0.0)))


def test_describes_what_its_profile_names(name: str, task: Task[Any, Any]) -> None:
    for shard in shards_of(name):
        described = task.describe(task.prepare(shard, {}))
        assert described.keys() == task.profile
        assert all(type(value) is float and math.isfinite(value) for value in described.values())


def test_statistics_have_the_layout_that_was_agreed_on(name: str, task: Task[Any, Any]) -> None:
    published = {client: task.statistics(shard) for client, shard in enumerate(shards_of(name))}
    agreed = {spec.name: spec for spec in task.statistics_layout()}
    for found in published.values():
        assert found.keys() == agreed.keys()
        assert all(array.dtype.name == agreed[key].dtype for key, array in found.items())
    if agreed:
        returned = {spec.name for spec in task.combined_layout()}
        assert all(arrays.keys() == returned for arrays in task.combine(published).values())


def test_all_clients_merge_into_one_with_all_their_examples(name: str, task: Task[Any, Any]) -> None:
    shards = MERGEABLE[name]().load(1)
    merged = task.prepare(task.merge(shards), {})
    model = drawn(task, merged)
    assert task.examples(merged) == sum(task.examples(task.prepare(shard, {})) for shard in shards)
    with torch.no_grad():
        assert all(math.isfinite(task.score(sums)) for sums in task.evaluate(model, merged).values())
