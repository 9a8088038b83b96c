"""Networks of torch given in Python: the section [model] that is meant."""

import sys
from typing import Any

from fedgraft.experiment.recipes import discovery


def section_of_network(value: Any) -> dict[str, Any] | None:
    """Return the section for a class or an instance of torch.nn.Module; None for what is neither.

    An instance is stored at once: what becomes of it later does not matter. Raises `InputError` for a class inside a
    function, and for what cannot be stored.
    """
    torch = sys.modules.get("torch")  # who has a network has imported it
    if torch is None:
        return None
    if isinstance(value, type) and issubclass(value, torch.nn.Module):
        return {"name": discovery.outside_name(value)}
    if not isinstance(value, torch.nn.Module):
        return None
    from fedgraft.contracts import given_networks

    return {"name": "network", "module": given_networks.keep(given_networks.stored(value))}
