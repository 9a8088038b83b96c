"""Gradients of the node task that are written by hand: those of autograd, and counted alike."""

import math

import numpy as np
import pytest
import torch

from fedgraft.contracts import Batch, randomness
from fedgraft.contracts.task import example_losses
from fedgraft.engine.client.local_trainer import LocalTrainer
from fedgraft.engine.training import Optimizer
from fedgraft.nn import flops
from fedgraft.nn.flat_model import FlatModel
from helpers.node_runs import model_of, relayed, set_up, small

ENCODERS = [
    {"model__name": "sage"},
    {"model__name": "gcn"},
    {"model__name": "gcn", "model__hidden": [20, 3]},  # its second layer maps before it adds up
    {"model__name": "sage", "model__hidden": [6]},
]
WAYS = [
    {},
    {"exchange__fresh": True, "exchange__neighbours": 2},
    {"task__head": "convolution", "loss__logit_adjustment": 0.0, "loss__label_smoothing": 0.2},
    {"recipe": "fedlocal"},
    {"recipe": "fedlocal", "task__head": "convolution"},
]


def transposed_alike():
    """Whether a product has the bits of its transpose: some processors round those of narrow matrices otherwise."""
    g = torch.Generator().manual_seed(0)
    pairs = [(torch.randn(62, wide, generator=g), torch.randn(62, 6, generator=g)) for wide in (3, 5, 6, 300)]
    return all(torch.equal(one.t() @ other, (other.t() @ one).t()) for one, other in pairs)


TRANSPOSED_ALIKE = transposed_alike()


def made(**changes):
    """(plan, model, a client's data with the states of its halo)."""
    experiment, shards = small(**changes)
    model = model_of(experiment.plan.task)
    task = experiment.plan.task
    data = set_up(task, shards) if task.generator else relayed(task, shards, model)
    return experiment.plan, FlatModel(model.train()), data[0]


def by_autograd(task, flat, data, draw, weights):
    flat.gradient.zero_()
    with flops.Meter() as meter:
        losses = example_losses(task.loss(flat.module, data, draw, None))
        (losses * weights).mean().backward()
    return losses.detach(), flat.gradient.clone(), meter.flops


def by_hand(task, flat, data, draw, weights):
    flat.gradient.fill_(math.nan)  # nothing of what a step before left is read
    with flops.Meter() as meter, torch.no_grad():
        losses, back = task.loss_and_backward(flat.module, data, draw)
        back(weights * (1.0 / len(losses)))
    return losses, flat.gradient.clone(), meter.flops


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_they_are_those_of_autograd_and_take_as_many_operations(encoder, way, sparse):
    plan, flat, data = made(data__sparse=sparse, data__nodes=400, data__features=300, **encoder, **way)
    task, count = plan.task, plan.task.examples(data)
    g = np.random.default_rng(1)
    for share in (1.0, 0.4, 0.1):
        nodes = np.sort(g.permutation(count)[: max(1, round(share * count))])
        weights = torch.from_numpy(g.random(len(nodes)).astype(np.float32))
        step = Batch(nodes, seed=5)
        expected, found = (how(task, flat, data, step, weights) for how in (by_autograd, by_hand))
        assert torch.equal(found[0], expected[0])
        if TRANSPOSED_ALIKE:
            assert torch.equal(found[1], expected[1])
        assert (found[1] - expected[1]).abs().max() <= 1e-6 * expected[1].abs().max()
        assert found[1].abs().sum() > 0
        assert found[2] == expected[2]


@pytest.mark.parametrize(
    "changes",
    [
        {"model__name": "gin"},
        {"model__name": "mlp"},
        {"loss__dropout": 0.5},
        {"recipe": "fedgcn"},
        {"recipe": "fedsage_plus"},
    ],
)
def test_what_has_none_is_left_to_autograd(changes):
    plan, flat, data = made(**changes)
    assert plan.task.loss_and_backward(flat.module, data, Batch(np.arange(2))) is None


def test_a_model_that_drops_nothing_now_has_them():
    plan, flat, data = made(loss__dropout=0.5)
    flat.module.eval()
    with torch.no_grad():
        assert plan.task.loss_and_backward(flat.module, data, Batch(np.arange(2))) is not None


@pytest.mark.parametrize("penalised", [False, True])
@pytest.mark.parametrize("unbiased", [False, True])
def test_a_round_is_the_same_with_and_without(penalised, unbiased, monkeypatch):
    def penalty(parameters):
        return 0.1 * sum((each**2).sum() for each in parameters.values())

    def trained():
        plan, flat, data = made(sampler__unbiased=unbiased, data__sparse=True)
        trainer = LocalTrainer(
            plan=plan,
            flat=flat,
            optimizer=Optimizer(plan.training, flat),
            data=data,
            sampler_state=plan.sampler.init(plan.task.examples(data)),
            g=randomness.generator(3, "train"),
            learning_rate=0.01,
            collects=False,  # a draw that asks to refresh does not wait
        )
        trainer.run(penalty=penalty if penalised else None)
        return flat.vector, trainer.report()

    vector, report = trained()
    monkeypatch.setattr("fedgraft.methods.tasks.node.Node.loss_and_backward", lambda *_: None)
    expected, expected_report = trained()
    assert torch.equal(vector, expected)
    assert report == expected_report


FOCAL = {"loss__focal": 2.0, "loss__label_smoothing": 0.0, "loss__class_weights": "balanced"}


@pytest.mark.parametrize("way", [FOCAL, {"loss__class_weights": "balanced"}])
def test_weighed_and_focal_losses_have_autograds_gradient(way):
    plan, flat, data = made(data__nodes=200, data__features=20, model__name="sage", **way)
    assert ("loss__class_weights" in way) == (data.weights is not None)
    task, nodes = plan.task, np.arange(plan.task.examples(data))
    weights = torch.linspace(0.5, 1.5, len(nodes))
    expected, found = (how(task, flat, data, Batch(nodes, seed=5), weights) for how in (by_autograd, by_hand))
    for one, two in zip(found[:2], expected[:2], strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)
