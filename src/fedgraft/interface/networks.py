"""Networks of torch given in Python: the section [model] that is meant, or what to give in their place."""

import sys
from typing import Any

from fedgraft.errors import InputError


def section_of_network(key: str, value: Any) -> dict[str, Any] | None:
    """Return the section for a class of convolutions; None for what is no network.

    Raises `InputError` for an instance, which has its widths and weights already, and for a class inside a function.
    """
    torch = sys.modules.get("torch")  # who has a network has imported it
    if torch is None:
        return None
    if isinstance(value, type) and issubclass(value, torch.nn.Module):
        return {"name": "pyg", "module": _name_of(value)}
    if not isinstance(value, torch.nn.Module):
        return None
    layers = list(getattr(value, "convs", [value]))
    hidden = getattr(value, "hidden_channels", getattr(value, "out_channels", 64))
    section = {"name": "pyg", "module": _name_of(type(layers[0])), "hidden": hidden, "layers": len(layers)}
    raise InputError(
        f"{key} must be a class of convolutions; got an instance of {type(value).__name__}. A run makes its layers "
        f"itself, by the data's widths and its seed; give the class of one: {key}={section!r}."
    )


def _name_of(cls: type[Any]) -> str:
    """Return "package.module:Class"."""
    if "<locals>" in cls.__qualname__:
        raise InputError(f"{cls.__qualname__} is defined in a function; define it in a module or a notebook's cell.")
    return f"{cls.__module__}:{cls.__qualname__}"
