"""The proximal term of federated training: what holds parameters near others."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from fedgraft.wire.layouts import Arrays

Pull = Callable[[Mapping[str, Tensor], Mapping[str, Tensor]], None]
"""Given parameters and gradients by name, changes the gradients in place."""


def pull_towards(centre: Arrays, strength: float) -> Pull:
    """Return what adds `strength` (w - centre) to the gradient of each parameter w that `centre` has.

    That is the gradient of strength / 2 ||w - centre||^2, FedProx's term (Li et al., MLSys 2020, Eq. (2)). Parameters
    that have no gradient, such as frozen ones and running statistics, are left alone.
    """
    towards = {name: torch.from_numpy(np.array(array)) for name, array in centre.items()}

    def pull(parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
        for name, there in towards.items():
            if name in gradients:
                here = parameters[name].detach()
                if there.device != here.device:  # once, not at every step
                    there = towards[name] = there.to(here.device)
                gradients[name].add_(here - there, alpha=strength)

    return pull
