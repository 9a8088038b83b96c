"""The perceptron as an encoder: without layers it is a linear model of the features."""

import numpy as np
import pytest
import torch

from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute
from fedgraft.methods.models.mlp import MLP
from fedgraft.methods.tasks.node import Node
from helpers.node_runs import SMALL, model_of, set_up, small

LINEAR = {**SMALL, "model.name": "mlp", "model.hidden": []}


@pytest.mark.parametrize("is_sparse", [False, True])
def test_without_layers_logits_are_linear_in_the_features(is_sparse):
    experiment, shards = small(
        "fedlocal", model__name="mlp", model__hidden=[], data__sparse=is_sparse, inputs__scale=0.0
    )
    task = experiment.plan.task
    assert isinstance(task, Node)
    model, data = model_of(task), set_up(task, shards)[0]
    parameters = dict(model.named_parameters())
    assert len(parameters) == 2
    weight, bias = (next(p for p in parameters.values() if p.ndim == n) for n in (2, 1))
    features = shards[0].features * 1.0
    dense = torch.from_numpy(np.asarray(features.todense() if is_sparse else features))
    weight = weight if weight.shape[0] == dense.shape[1] else weight.T
    assert torch.allclose(data.scored(model), dense @ weight + bias, atol=1e-3)


def test_a_linear_model_learns():
    summary = execute(load("fedlocal", {**LINEAR, "rounds": 20, "training.learning_rate": 0.05}))
    assert summary["test_at_best_validation"] > 0.6
    assert summary["bytes"]["model"] < 20 * 3 * 2 * 4 * (8 * 3 + 3) + 2000


def test_a_task_that_needs_layers_says_so():
    with pytest.raises(InputError, match=r"task\.wl must be >= 1 with model\.hidden = \[\], which leaves counts alone"):
        execute(load("cefgl", {"data.name": "molecules", "model.name": "mlp", "model.hidden": [], "rounds": 1}))
    with pytest.raises(InputError, match=r"MLP\.hidden must be >= 1"):
        MLP(hidden=(8, 0))
