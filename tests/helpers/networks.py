"""Whole networks, as a user writes them."""

import torch
from torch import nn
from torch_geometric.nn import GATConv, SAGEConv, global_mean_pool


class Two(nn.Module):
    """Two layers over (x, edge_index)."""

    def __init__(self, inputs, hidden=8):
        super().__init__()
        self.first, self.second = SAGEConv(inputs, hidden), SAGEConv(hidden, hidden)

    def forward(self, x, edge_index):
        return self.second(torch.relu(self.first(x, edge_index)), edge_index)


class Pooling(Two):
    """One state for each graph."""

    def forward(self, x, edge_index, batch):
        return global_mean_pool(super().forward(x, edge_index), batch)


class Attending(nn.Module):
    """One that reads features of edges."""

    def __init__(self, inputs, edge_dim, hidden=8):
        super().__init__()
        self.first = GATConv(inputs, hidden, edge_dim=edge_dim)
        self.second = GATConv(hidden, hidden, edge_dim=edge_dim)

    def forward(self, x, edge_index, edge_attr):
        return self.second(torch.relu(self.first(x, edge_index, edge_attr)), edge_index, edge_attr)


class Timed(Two):
    """One that wants what nobody has."""

    def forward(self, x, edge_index, times):
        return super().forward(x, edge_index) * times


class Pair(Two):
    """One that gives two things."""

    def forward(self, x, edge_index):
        return super().forward(x, edge_index), x


class Fixed(Two):
    """One whose widths are its own business."""

    def __init__(self):
        super().__init__(8, 6)


def made(inputs, layers=1):
    """Return a network by a function: an MLP."""
    return Alone(*[nn.Linear(inputs, inputs) for _ in range(layers)])


class Alone(nn.Sequential):
    """One that looks at no neighbour."""

    def forward(self, x, edge_index):
        return super().forward(x)
