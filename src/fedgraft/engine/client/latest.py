"""A value that many requests in a row are served with, made once."""

from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Latest(Generic[Value]):
    """A value made from the latest object: many clients in turn are served the same request or model."""

    def __init__(self) -> None:
        self._source: object = None
        self._value: Value | None = None

    def of(self, source: object, make: Callable[[], Value]) -> Value:
        """Return the value of `source`, made only if it is another object than the last."""
        if source is not self._source or self._value is None:
            self._value = make()
            self._source = source
        return self._value
