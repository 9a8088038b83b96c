"""Parts of a task: objects that answer abilities in the task's place, so that the task need not inherit these."""

from collections.abc import Mapping
from functools import cached_property
from types import UnionType
from typing import Any, TypeVar, get_origin

Made = TypeVar("Made")


class part(cached_property[Made]):
    """Mark a method of a task that makes a part; it is made once. The class that it returns says what abilities it has.

    class Mine(Task[Shard, Data]):
        @part
        def pooling(self) -> MyPooling:
            return MyPooling(self.scale)
    """


def answering(cls: type[Any], kind: type[Any] | UnionType) -> type[Any] | None:
    """Return the class of what answers an ability of objects of a class: their own, or a part's; None without any."""
    return next((each for each in (cls, *parts_of(cls).values()) if issubclass(each, kind)), None)


def has(cls: type[Any], kind: type[Any] | UnionType) -> bool:
    """Return whether objects of a class have an ability."""
    return answering(cls, kind) is not None


def parts_of(cls: type[Any]) -> Mapping[str, type[Any]]:
    """Return {name of a part: its class}, as the last of its definitions says."""
    members = {name: value for each in reversed(cls.__mro__) for name, value in vars(each).items()}
    made = {name: value.func.__annotations__["return"] for name, value in members.items() if isinstance(value, part)}
    return {name: get_origin(hint) or hint for name, hint in made.items()}
