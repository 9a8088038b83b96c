"""A client's data under the task `rating`: pairs by fold and by split."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedgraft.contracts import Indices
from fedgraft.domains.ratings.pairs import Pairs


@dataclass(frozen=True, eq=False)
class RatingData:
    """A client's own data, ready to train on.

    Args:
        folds: training pairs, each seen from a graph that lacks its whole fold.
        fold: int64 [examples], the fold of each training example; place: int64 [examples], its row there.
        held_out: {"validation": pairs, "test": pairs}, seen from the graph of all training ratings.
        label_shares: shares of training ratings in equal parts of the scale.
        scale: lowest and highest rating.
        pseudo: int64 [users, k], items to pseudo-label for each user; None where there are none.
    """

    folds: list[Pairs]
    fold: Indices
    place: Indices
    held_out: dict[str, Pairs]
    label_shares: tuple[float, ...]
    scale: tuple[float, float]
    pseudo: Tensor | None = None
    moved: dict[tuple[str, str], Pairs] = field(default_factory=dict)

    def on(self, device: torch.device, name: str) -> Pairs:
        """A fold (by number) or a split (by name) on a device; copied there once."""
        pairs = self.folds[int(name)] if name.isdigit() else self.held_out[name]
        if device.type == "cpu":
            return pairs
        if (str(device), name) not in self.moved:
            self.moved[str(device), name] = pairs.to(device)
        return self.moved[str(device), name]
