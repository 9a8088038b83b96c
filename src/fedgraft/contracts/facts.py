"""What methods may know of the task that they serve, and what they need of it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from fedgraft.contracts.abilities.graphs import LocalGraphTask
from fedgraft.contracts.abilities.linear import Linear, LinearTask
from fedgraft.contracts.abilities.tasks import ObservedTask, SyntheticTask
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
    def of(cls, task: Task[Any, Any], needs: Collection[type[Any]]) -> "TaskFacts":
        """Return the facts of a task that are asked for: its layers, and those of the abilities that are needed."""

        def needed(ability: type[Any]) -> Any:
            """The task, if it has an ability that is needed; to ask for a width may mean to build a network."""
            return task.ability(ability) if any(issubclass(each, ability) for each in needs) else None

        observed, graph = needed(ObservedTask), needed(LocalGraphTask)
        synthetic, linear = needed(SyntheticTask), needed(LinearTask)
        return cls(
            layers=task.layers,
            hidden_width=observed.hidden_width if observed else 0,
            common_classes=observed.common_classes if observed else 0,
            node_classes=graph.classes if graph else 0,
            response_width=synthetic.response_width if synthetic else 0,
            linear=linear.linear if linear else None,
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
