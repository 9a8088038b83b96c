"""A client's part of a cut graph without some of its edges and features: another view of the same nodes.

Source: Zhu et al., "Deep Graph Contrastive Representation Learning" (GRACE), ICML workshop 2020, section 3.2.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedgraft.contracts.structure import WHOLE, Augmentation
from fedgraft.domains.nodes.training.client_graph import Computed, Memory, NodeData
from fedgraft.nn.propagate import Stacked, States


def augmented(data: NodeData, left_out: Augmentation, seed: int) -> Computed:
    """Return what all own nodes are computed from, less what is left out of it."""
    if left_out == WHOLE:
        return data.whole()
    g = np.random.default_rng(seed)
    around = data.around.thinned(left_out.edges, g)
    computed = replace(data, around=around, memory=Memory()).whole()
    kept = (g.random(computed.inputs.shape[1]) >= left_out.features).astype(np.float32)
    return Computed(computed.hops, masked(computed.inputs, torch.from_numpy(kept)), computed.label)


def masked(inputs: States, kept: Tensor) -> States:
    """Return inputs, float32 [nodes, features], with 0 in the columns that are 0 in `kept`, and 1 in the others."""
    if isinstance(inputs, Tensor):
        return inputs * kept
    if isinstance(inputs, Stacked):
        return Stacked(inputs.upper * kept, inputs.lower * kept)
    return inputs.scaled(torch.ones(inputs.shape[0]), kept)
