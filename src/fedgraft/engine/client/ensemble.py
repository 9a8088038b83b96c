"""The module that a client answers with: its own model, or several that answer as one."""

import copy
from collections.abc import Sequence
from typing import Any

import torch

from fedgraft.contracts import Task
from fedgraft.nn.flat_model import FlatModel
from fedgraft.wire.layouts import Arrays


def ensemble_of(task: Task[Any, Any], flat: FlatModel, others: Sequence[Arrays]) -> torch.nn.Module:
    """Return the module, in evaluation mode, that a task makes of the client's own model and of further ones.

    `flat` holds the former, and does so afterwards; the latter have `others` in place of its parameters.
    """
    module = flat.module.eval()
    if not others:
        return module
    own, modules = flat.read(), [copy.deepcopy(module)]
    for other in others:
        flat.load(other)
        modules.append(copy.deepcopy(module))
        flat.load(own)
    return task.together(modules).eval()
