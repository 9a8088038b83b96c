"""Laws of what only some tasks can do; those of halos are in `halo_tasks`, of nodes and edges in `graph_abilities`."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from fedgraft.contracts import Batch, Task
from fedgraft.contracts.abilities import tasks as abilities
from fedgraft.contracts.abilities.linear import LinearTask
from fedgraft.contracts.abilities.pooling import PooledTask
from fedgraft.contracts.abilities.predicting import PredictingTask
from fedgraft.contracts.capabilities import CAPABILITIES
from fedgraft.contracts.task import example_losses
from fedgraft.contracts.values import Losses
from fedgraft.errors import WireError
from fedgraft.nn.flat_model import FlatModel
from fedgraft.testing.laws import Laws, expect, expect_error
from fedgraft.testing.tasks import TaskCase, losses, objective, variant
from fedgraft.wire.layouts import VARIABLE, Array, Arrays, finite

LAWS: Laws[TaskCase] = Laws()


@LAWS.every
def fitting_twice_is_fitting_once(case: TaskCase) -> None:
    """Keep in its options what it must know of the data."""
    again = case.task.fitted(case.shards)
    expect(again == case.task, "a fitted task must fit as it is", again, case.task)
    for shard in case.shards:
        case.task.check_shard(shard)  # raises where the data of one of these clients would be refused at its site


@LAWS.having(abilities.ObservedTask)
def what_the_model_makes_of_examples_is_what_their_losses_say(case: TaskCase) -> None:
    """Tell of every training example, in order, what `loss` makes of it."""
    task = case.task
    able = case.able(abilities.ObservedTask)
    for client in range(len(case.shards)):
        data = case.prepared(client)
        model = case.drawn(data)
        count = task.examples(data)
        every = (0,) * task.layers
        with torch.no_grad():
            seen = able.observe(model, data)
            for block in task.blocks(data):
                outcome = task.loss(model, data, Batch(block, neighbours=every), None)
                assert isinstance(outcome, Losses), "loss must tell its hidden layer"
                assert outcome.hidden is not None, "loss must tell its hidden layer"
                near = np.allclose(outcome.each.numpy(), seen.losses[block], rtol=1e-4, atol=1e-5)
                expect(near, "losses must be those of the examples", seen.losses[block], outcome.each)
                same = np.allclose(outcome.hidden.numpy(), seen.hidden[block], rtol=1e-4, atol=1e-5)
                expect(same, "hidden layers must be those of the examples", seen.hidden[block])
        expect(seen.hidden.shape == (count, able.hidden_width), "hidden must be of the width", seen.hidden.shape)
        expect(len(seen.probabilities) == len(seen.correct) == len(seen.centrality) == count, "one of each", count)
        sums = np.abs(seen.probabilities.sum(1) - 1).max(initial=0)
        expect(sums < 1e-4, "probabilities must sum to 1", sums)
        expect((seen.centrality >= 0).all(), "centralities must be >= 0", seen.centrality)
        likeliest = seen.probabilities.argmax(1) == seen.labels
        expect(seen.labels.dtype == np.int64, "labels must be int64", seen.labels.dtype)
        expect(np.array_equal(seen.correct, likeliest), "correct is whose likeliest class is its own", seen.labels)


@LAWS.having(abilities.SyntheticTask)
def what_is_nobodys_is_drawn_alike_and_answered_alike(case: TaskCase) -> None:
    """Draw the same data from equal generators, and make the same of them, which depends on the model."""
    task = case.task
    able = case.able(abilities.SyntheticTask)
    model, other = (FlatModel(task.model(torch.Generator().manual_seed(seed))).module.eval() for seed in (1, 2))
    with torch.no_grad():
        one, again, further = (
            able.response(made, able.synthetic(np.random.default_rng(3))) for made in (model, model, other)
        )
    expect(one.shape == (able.response_width,) and one.dtype == np.float32, "a response must be of its width", one)
    expect(np.array_equal(one, again), "equal draws must get equal responses", one, again)
    expect(not np.array_equal(one, further), "another model must make something else of them", one, further)


@LAWS.having(LinearTask)
def a_linear_model_sees_the_inputs_that_are_told(case: TaskCase) -> None:
    """Keep an example's loss where weights and bias move so that its outputs stay, and change it where they do not."""
    task = case.task
    able = case.able(LinearTask)
    if (linear := able.linear) is None:
        return
    g = np.random.default_rng(0)
    for client in range(len(case.shards)):
        data = case.prepared(client)
        model, every = case.drawn(data), np.arange(task.examples(data))
        told, parameters = able.regression(data, every), dict(model.named_parameters())
        shapes = told.inputs.shape, told.targets.shape, told.weights.shape
        wanted = (len(every), linear.features), (len(every), linear.outputs), (len(every),)
        expect(shapes == wanted, "inputs, targets and weights must be of the examples", shapes, wanted)
        expect({*parameters} == {linear.weight, linear.bias}, "a linear model has two parameters", {*parameters})
        hot = (np.sort(told.targets, 1) == np.eye(linear.outputs)[-1]).all()
        expect(hot or not linear.classes, "targets of classes must be 1 once and 0 elsewhere", told.targets)
        move = g.standard_normal((linear.outputs, linear.features)).astype(np.float32)
        with torch.no_grad():
            before = losses(task, model, data, Batch(every)).numpy()
            weight = parameters[linear.weight]
            weight.add_(torch.from_numpy(move.T if linear.by_features else move).reshape(weight.shape))
            for example in every[:5]:
                bias = parameters[linear.bias].clone()
                parameters[linear.bias].sub_(torch.from_numpy(move @ told.inputs[example]))
                after = losses(task, model, data, Batch(every)).numpy()
                near = np.isclose(after[example], before[example], rtol=1e-3, atol=1e-4)
                expect(near, "inputs must be what the model sees", after[example], before[example])
                expect(not np.allclose(after, before, rtol=1e-3), "weights must be what the model learns", after)
                parameters[linear.bias].copy_(bias)


@LAWS.having(PredictingTask)
def what_examples_are_taken_for_is_what_the_score_counts(case: TaskCase) -> None:
    """Tell of every test example its class and the model's answer; as many are right as its sums say."""
    task = case.task
    able = case.able(PredictingTask)
    for client, shard in enumerate(case.shards):
        data = case.prepared(client)
        model = case.drawn(data)
        if (classified := able.classified(model, shard, data, {})) is None:
            return
        for classes in (classified.label, classified.answer):
            fit = classes.dtype == np.int64 and all(0 <= each < len(classified.classes) for each in classes)
            expect(fit, f"classes must be int64 in [0, {len(classified.classes)}]", classes)
        if "correct" in task.sums:
            with torch.no_grad():
                sums = task.evaluate(model, data)["test"]
            counts = len(classified.label) == len(classified.answer) == sums["count"]
            expect(counts, "one of each test example", sums["count"])
            right = int((classified.label == classified.answer).sum())
            expect(right == sums["correct"], "as many must be right as the sums say", right, sums["correct"])


@LAWS.every
def every_part_on_offer_can_be_had(case: TaskCase) -> None:
    """Have in its model every part that it offers, once it is asked for."""
    task = case.task
    for part in task.offers - {"ensemble"}:  # which is an ability of the task and no part of its model
        having = task.with_parts(frozenset({part}))
        expect(having.offers == task.offers, "what is offered must not depend on what was asked for", having.offers)
        names = list(FlatModel(having.model(torch.Generator())).initial)
        expect(any(part in name for name in names), f"the model must have a part {part!r}", names)


@LAWS.every
def models_answer_together_if_the_task_says_so(case: TaskCase) -> None:
    """Answer with the mean of several models; or offer no ensemble, and refuse to."""
    task, data = case.task, case.prepared()
    models = [task.model(torch.Generator().manual_seed(seed), variant(task, data)).eval() for seed in (0, 1)]
    if "ensemble" not in task.offers:
        with expect_error(TypeError, "a task that offers no ensemble must refuse to make one"):
            task.together(models)
        return
    with torch.no_grad():
        scored = [task.evaluate(task.together(models[:1] * count).eval(), data) for count in (1, 2)]
        expected = task.evaluate(models[0], data)
    for sums in scored:
        for split, known in expected.items():
            near = all(math.isclose(sums[split][key], known[key], rel_tol=1e-4, abs_tol=1e-12) for key in known)
            expect(near, "the mean of a model and itself must answer as the model", sums[split], known)


@LAWS.every
def describes_what_its_profile_names(case: TaskCase) -> None:
    """Tell a finite number of every name."""
    task = case.task
    for client in range(len(case.shards)):
        described = task.describe(case.prepared(client))
        expect(described.keys() == task.profile, f"describe must tell {sorted(task.profile)}", sorted(described))
        fit = all(type(value) is float and math.isfinite(value) for value in described.values())
        expect(fit, "what describe tells must be finite floats", described)


@LAWS.where(lambda cls: cls.survey is not Task.survey)
def a_survey_tells_what_prepared_data_tell(case: TaskCase) -> None:
    """Tell of a shard as it is what is told once it is prepared."""
    task = case.task
    for client, shard in enumerate(case.shards):
        data = case.prepared(client)
        known = {"examples": float(task.examples(data)), **task.describe(data)}
        survey = task.survey(shard)
        expect(survey == known, "a survey must tell what prepared data tell", survey, known)


@LAWS.having(abilities.PublishingTask)
def statistics_have_the_layout_that_was_agreed_on(case: TaskCase) -> None:
    """Publish and get back arrays of the layouts."""
    able = case.able(abilities.PublishingTask)
    agreed = {spec.name: spec for spec in able.statistics_layout}
    unsaid = [spec.name for spec in agreed.values() if spec.tells not in CAPABILITIES]
    expect(not unsaid, "a Spec must say what its array tells of a client", unsaid)
    published = {client: able.statistics(shard) for client, shard in enumerate(case.shards)}
    for statistics in published.values():
        expect(statistics.keys() == agreed.keys(), f"statistics must be {sorted(agreed)}", sorted(statistics))
        types = {key: array.dtype.name for key, array in statistics.items()}
        fit = all(types[key] == agreed[key].dtype for key in statistics)
        expect(fit, "statistics must have the types of their layout", types)
    if agreed:
        returned = {spec.name for spec in able.combined_layout}
        for client, arrays in able.combine(published).items():
            expect(arrays.keys() == returned, f"client {client} must get back {sorted(returned)}", sorted(arrays))


@LAWS.having(abilities.PublishingTask)
def nonsense_is_refused_before_it_is_combined(case: TaskCase) -> None:
    """Accept what clients publish; of what they cannot have published, refuse some and combine the rest."""
    able = case.able(abilities.PublishingTask)
    refused = 0
    for published in case.published.values():
        able.check(published)
    if not case.published:
        return
    for nonsense in _nonsense(case.published[0], able.statistics_layout):
        try:
            able.check(nonsense)
        except WireError:
            refused += 1
            continue
        combined = able.combine({**case.published, 0: nonsense})
        for client in range(len(case.shards)):
            names = {spec.name for spec in able.combined_layout}
            returned = combined[client].keys()
            expect(returned == names, "what check accepts must be combined for every client", sorted(returned))
    expect(refused, "check must raise WireError for some of what no client can have published", "all was accepted")


@LAWS.having(PooledTask)
def all_clients_pool_into_one_with_all_their_examples(case: TaskCase) -> None:
    """Make one shard of all that loses no example and can be scored."""
    task = case.task
    able = case.able(PooledTask)
    pooled = task.prepare(able.pooled(case.poolable), {})
    pooled_count, count = task.examples(pooled), sum(task.examples(task.prepare(shard, {})) for shard in case.poolable)
    expect(pooled_count == count, f"the pooled shard must have all {count} examples", pooled_count)
    with torch.no_grad():
        scores = [task.score(sums) for sums in task.evaluate(case.drawn(pooled), pooled).values()]
    expect(all(map(math.isfinite, scores)), "the pooled shard must have scores", scores)


@LAWS.having(PooledTask)
def a_client_alone_keeps_its_examples(case: TaskCase) -> None:
    """Take away what joins a shard to others', and no example."""
    task = case.task
    able = case.able(PooledTask)
    for client, shard in enumerate(case.shards):
        own_count, count = task.examples(task.prepare(able.alone(shard), {})), task.examples(case.prepared(client))
        expect(own_count == count, f"client {client} must keep its {count} examples", own_count)


@LAWS.every
def measures_hold_the_score(case: TaskCase) -> None:
    """Tell the score among the measures, and a mean loss that is finite or nan."""
    task, data = case.task, case.prepared()
    with torch.no_grad():
        sums = task.evaluate(case.drawn(data), data)["validation"]
    measures, score, loss = task.measures(sums), task.score(sums), task.mean_loss(sums)
    expect(measures.get(task.metric) == score, f"measures must tell {task.metric!r} as {score}", measures)
    expect(not math.isinf(loss), "the mean loss must be finite or nan", loss)


@LAWS.where(lambda cls: cls.loss_and_backward is not Task.loss_and_backward)
def gradients_by_hand_are_those_of_autograd(case: TaskCase) -> None:
    """Set the gradients that autograd finds, or leave the draw to it."""
    task, data = case.task, case.prepared()
    draw = Batch(task.blocks(data)[0], seed=1)
    model, other = case.drawn(data).train(), case.drawn(data).train()
    for parameter in model.parameters():  # as the engine has them: written over in place
        parameter.grad = torch.zeros_like(parameter)
    with torch.no_grad():
        by_hand = task.loss_and_backward(model, data, draw)
        if by_hand is None:
            return
        each, backward = by_hand
        backward(torch.full_like(each, 1.0 / len(each)))
    expected = task.loss(other, data, draw, None)
    objective(expected).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(by_hand[0], example_losses(expected).detach(), rtol=1e-4, atol=1e-5)
    for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        assert one.grad is not None
        assert two.grad is not None
        near = torch.allclose(one.grad, two.grad, rtol=1e-4, atol=1e-5)
        expect(near, f"the gradient of {name} must be autograd's", one.grad, two.grad)


@LAWS.where(lambda cls: cls.seeds_draws is True)
def what_a_step_draws_depends_on_its_seed_alone(case: TaskCase) -> None:
    """Train on equal losses from equal seeds, and on other ones from another."""
    task, data = case.task, case.prepared()
    model, block = case.drawn(data).train(), task.blocks(data)[0]
    with torch.no_grad():
        one, two, other = (losses(task, model, data, Batch(block, seed=seed)) for seed in (5, 5, 6))
    expect(torch.equal(one, two), "equal seeds must draw the same", one, two)
    expect(not torch.equal(one, other), "another seed must draw something else", one, other)


@LAWS.where(lambda cls: cls.layers is not Task.layers)
def a_draw_may_say_how_many_neighbours_take_part(case: TaskCase) -> None:
    """Take a number of neighbours for each layer; draw the same ones from the same seed."""
    task = case.task
    data = case.prepared()
    model, block = case.drawn(data), task.blocks(data)[0]
    with torch.no_grad():
        one, two = (
            losses(task, model, case.prepared(), Batch(block, neighbours=(1,) * task.layers, seed=5)) for _ in range(2)
        )
    expect(torch.isfinite(one).all(), "losses must be finite", one)
    expect(torch.equal(one, two), "equal seeds must draw equal neighbours", one, two)


def _nonsense(published: Arrays, layout: Any) -> Iterator[Arrays]:
    """Yield what a client may send in place of what it should: each array emptied, doubled, extreme, or random."""
    g = np.random.default_rng(0)
    for spec in layout:
        array = published[spec.name]
        limits: Any = np.finfo if array.dtype.kind == "f" else np.iinfo
        random = np.frombuffer(g.bytes(array.nbytes), array.dtype).reshape(array.shape)
        made: list[Array] = [np.full_like(array, limits(array.dtype).max), random]
        if spec.shape and spec.shape[0] == VARIABLE:
            made += [array[:0], np.concatenate([array, array])]
        for other in made:
            if not np.array_equal(other, array) and finite(other):  # the engine refuses what is not finite
                yield {**published, spec.name: other}
