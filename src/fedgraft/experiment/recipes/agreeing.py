"""Agree before a run: what is made of what all clients have published of their data, by which they read them."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from fedgraft import wire
from fedgraft.contracts import Task
from fedgraft.contracts.data import AgreedData
from fedgraft.contracts.option_groups import settable
from fedgraft.contracts.task import ClassCounts
from fedgraft.errors import InputError

LOG = logging.getLogger("fedgraft.data")

SENT_AS: Final = {"positive_class": "rare"}
"""{option of a task: its name among what is sent, where that is another one: bytes are those of before}."""


@dataclass(frozen=True)
class Agreed:
    """What clients agree on.

    Args:
        data: the data set, with options that say how all read their data.
        task: the task, which knows what it must of the data of all, as far as clients have told.
        notes: for people, on what the task is judged by.
        sizes: {client: (bytes told, bytes published)}.
        classes: of all clients; None where they have told of none.
        published: what each client has, unpacked.
    """

    data: AgreedData[Any]
    task: Task[Any, Any]
    notes: Sequence[str]
    sizes: Mapping[int, tuple[int, int]]
    classes: ClassCounts | None
    published: Sequence[Any]

    @property
    def named_data(self) -> AgreedData[Any]:
        """The data set where nobody has all data, which then names the columns that clients have alike."""
        return self.data.named(self.published)

    def task_at_sites(self) -> Task[Any, Any]:
        """Return the task, and tell people what it is judged by, where no other place sees the data of all.

        Raises `InputError` where all clients' examples are of one class.
        """
        if (classes := self.classes) is not None and len(self.published) > 1:
            there = [name for name, most in zip(classes.names, classes.most.tolist(), strict=True) if most]
            if len(there) == 1:
                raise InputError(
                    f"All clients' training examples are of one class, {there[0]!r}: there is nothing to tell apart; "
                    "at least two classes are needed (data.label names the column that is read)."
                )
        for note in self.notes:
            LOG.warning(note)
        return self.task


def agree(task: Task[Any, Any], data: AgreedData[Any], published: Mapping[int, bytes]) -> Agreed:
    """Return what clients agree on, from what each has published, packed; what a recipe says already stays.

    Raises `InputError` for what no client can have published, and where they differ in what must be alike.
    """
    trees = [wire.unpack(each) for _, each in sorted(published.items())]
    fitted = data.fitted(trees)
    unsaid = [each.name for each in fields(task) if is_unsaid(getattr(task, each.name))]  # type: ignore[arg-type]
    known = {name: value for name, value in fitted.known_of(task, trees).items() if name in unsaid}
    classes = fitted.classes_of(task, trees)
    knowing: Task[Any, Any] = replace(task, **known)  # type: ignore[type-var]
    notes: Sequence[str] = ()
    if classes is not None and classes.names:
        knowing, notes = knowing.judged_among(classes)
    told = {name: value for name in unsaid if not is_unsaid(value := getattr(knowing, name))}
    plain: Any = {
        SENT_AS.get(name, name): list(value) if isinstance(value, tuple) else value for name, value in told.items()
    }
    size = len(wire.pack({"data": fitted.agreement, "task": plain}))
    sizes = {client: (size, len(message)) for client, message in sorted(published.items())}
    return Agreed(fitted, replace(task, **told), notes, sizes, classes, trees)  # type: ignore[type-var]


def is_unsaid(value: object) -> bool:
    """Return whether a recipe leaves an option to the data, by its value."""
    return value is None or (isinstance(value, int | float | str | tuple | list) and not value)


def filled_in(own: Any, theirs: Any, names: Collection[str]) -> Any:
    """Return a method with what it leaves to the data, of options of these names, as another one of its class says."""
    had = settable(type(own)) if type(own) is type(theirs) else {}
    return replace(
        own, **{name: getattr(theirs, name) for name in names if name in had and is_unsaid(getattr(own, name))}
    )
