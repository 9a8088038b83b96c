"""Networks of torch given in Python: the section [model] that is meant."""

import sys
from typing import Any

from fedgraft.errors import InputError


def section_of_network(value: Any) -> dict[str, Any] | None:
    """Return the section for a class or an instance of torch.nn.Module; None for what is neither.

    An instance is stored at once: what becomes of it later does not matter. Raises `InputError` for a class inside a
    function, and for what cannot be stored.
    """
    torch = sys.modules.get("torch")  # who has a network has imported it
    if torch is None:
        return None
    if isinstance(value, type) and issubclass(value, torch.nn.Module):
        return {"name": _name_of(value)}
    if not isinstance(value, torch.nn.Module):
        return None
    from fedgraft.contracts import given_networks

    return {"name": "network", "module": given_networks.keep(given_networks.stored(value))}


def _name_of(cls: type[Any]) -> str:
    """Return "package.module:Class"."""
    if "<locals>" in cls.__qualname__:
        raise InputError(f"{cls.__qualname__} is defined in a function; define it in a module or a notebook's cell.")
    return f"{cls.__module__}:{cls.__qualname__}"
