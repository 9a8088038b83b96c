"""Shapes in signatures, checked once for each combination of shapes: a check takes longer than a small layer."""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial, wraps
from inspect import isclass
from typing import Any

import jaxtyping
import numpy as np
import torch

_check = jaxtyping.jaxtyped
_ARRAYS = (torch.Tensor, np.ndarray)


def install(modules: list[str], typechecker: str) -> None:
    """Check calls in these modules, which must not be imported yet, against their signatures' types and shapes."""
    jaxtyping.jaxtyped = _once_each  # what the hook writes before each function
    jaxtyping.install_import_hook(modules, typechecker)


def _once_each(what: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """Decorate a function, or a dataclass's `__init__`; calls like an earlier one are not checked again."""
    if what is None:
        return partial(_once_each, typechecker=typechecker)
    if isclass(what):
        if is_dataclass(what):
            what.__init__ = _once_each(what.__init__, typechecker=typechecker)
        return what
    checked, seen = None, set[object]()

    @wraps(what)
    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal checked
        key = _kind(arguments), _kind(named) if named else None
        if key in seen:
            return what(*arguments, **named)
        if checked is None:  # to make the check takes a while, and most functions are never called
            checked = _check(what, typechecker=typechecker)
        result = checked(*arguments, **named)
        seen.add(key)
        return result

    return call


def _kind(value: Any) -> object:
    """Describe a value by what a signature can say of it: types, shapes, what containers hold."""
    kind = type(value)
    if issubclass(kind, _ARRAYS):
        return kind, value.dtype, tuple(value.shape)
    if issubclass(kind, (tuple, list)):
        return kind, tuple([_kind(each) for each in value])
    if issubclass(kind, dict):
        return kind, tuple([(key, _kind(each)) for key, each in value.items()])
    return kind
