"""Mappings whose values are made when they are asked for."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Made(Mapping[Key, Value]):
    """Values of keys, made anew whenever they are asked for, since all of them together would be too many to keep."""

    def __init__(self, keys: Iterable[Key], make: Callable[[Key], Value]) -> None:
        self._keys, self._make = dict.fromkeys(keys), make

    def __getitem__(self, key: Key) -> Value:
        if key not in self._keys:
            raise KeyError(key)
        return self._make(key)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class MadeOnce(Made[Key, Value]):
    """Values made when they are first asked for, and then kept: the first can be used before the last is made."""

    def __init__(self, keys: Iterable[Key], make: Callable[[Key], Value]) -> None:
        super().__init__(keys, cache(make))
