"""What methods may know of the task that they serve, and what they need of it."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from fedgraft.contracts.abilities.graphs import LocalGraphTask
from fedgraft.contracts.abilities.linear import Linear, LinearTask
from fedgraft.contracts.abilities.tasks import NeighbourSamplingTask, ObservedTask, SyntheticTask
from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.task import Task


@dataclass(frozen=True)
class TaskFacts:
    """What a task says of itself; a number is 0 where it is not known yet, or where there is none.

    Args:
        layers: of the model, in which the task draws neighbours.
        hidden_width: of the last hidden layer.
        common_classes: which all clients have in common.
        node_classes: of the nodes of clients' graphs.
        response_width: of what the model makes of data that are nobody's.
        linear: the model, if it is linear.
    """

    layers: int = 0
    hidden_width: int = 0
    common_classes: int = 0
    node_classes: int = 0
    response_width: int = 0
    linear: Linear | None = None

    @classmethod
    def of(cls, task: Task[Any, Any]) -> "TaskFacts":
        """Return the facts of a task."""
        observed = task if isinstance(task, ObservedTask) else None
        return cls(
            layers=task.layers if isinstance(task, NeighbourSamplingTask) else 0,
            hidden_width=observed.hidden_width if observed else 0,
            common_classes=observed.common_classes if observed else 0,
            node_classes=task.classes if isinstance(task, LocalGraphTask) else 0,
            response_width=task.response_width if isinstance(task, SyntheticTask) else 0,
            linear=task.linear if isinstance(task, LinearTask) else None,
        )


class FittedMethod(Checked):
    """A method that may depend on the task that it serves."""

    needs: ClassVar[tuple[type[Any], ...]] = ()
    """Abilities of tasks without which it cannot serve one."""

    def fitted(self, facts: TaskFacts) -> Self:
        """Return this method for a task with these facts; as it is by default. Fitting twice is fitting once.

        Raises `InputError` if it cannot be.
        """
        return self
