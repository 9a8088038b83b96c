"""What the server process that forks workers imports beforehand, so that no worker has to; imported by nobody else."""

import torch

from fedgraft.runtimes import worker

__all__ = ["worker"]

# Torch imports its compiler, which takes longer than all the rest, when the first optimiser is made.
torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
