"""Raw features: a node's own, as they are or of one length."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from fedgraft.contracts.inputs import OwnInputs


@dataclass(frozen=True)
class RawFeatures(OwnInputs):
    """Raw features: a node's own, as they are or of one length.

    Args:
        scale: length to which every node's features are scaled, >= 0; 0 leaves them as they are.
    """

    scale: Annotated[float, Ge(0), "0 = as they are"] = 0.0

    @property
    def raw(self) -> bool:
        """True."""
        return True
