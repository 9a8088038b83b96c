"""Networks of torch that were given: classes by their names, instances by the digest of what they are stored as.

A recipe, which is text, names an instance "network.pt:DIGEST". A run's folder has the file: the module as `torch.save`
stores it, by the names of its classes, its weights with it. To load it is to run their code, and whatever else a file
says that somebody else made. So the name counts as that of a class outside fedgraft: who trusts it trusts this file.
"""

import copy
import hashlib
import importlib
import inspect
import io
import re
import sys
from typing import Any, Final

import torch

from fedgraft.contracts import randomness
from fedgraft.errors import InputError
from fedgraft.nn.edge_modules import check_one_hop

FILE: Final = "network.pt"
_NAME: Final = re.compile(FILE.replace(".", r"\.") + ":[0-9a-f]{32}")
_NEAR: Final = " Nobody else knows a class of a notebook or script: put it in a module."
_TRIES, _INPUTS, _OUTPUTS = 3, 3, 4
_KEPT: dict[str, bytes] = {}


def imported(path: str, option: str) -> Any:
    """Return what "package.module:Class" names, the value of an option. Raises `InputError` where there is nothing."""
    package, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(package), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        near = _NEAR if package == "__main__" else ""
        raise InputError(
            f"{option} must be 'package.module:Class'; {path!r} cannot be imported ({error}).{near}"
        ) from error


def is_convolution(cls: type[torch.nn.Module]) -> bool:
    """Return whether a class is one convolution, to be stacked: PyG's, or any of one hop as Class(inputs, outputs).

    Those that are not PyG's are tried on a small graph.
    """
    geometric = sys.modules.get("torch_geometric.nn")  # whose class it is has been imported
    if geometric is not None and issubclass(cls, geometric.MessagePassing):
        return True
    wanted = [each for each in inspect.signature(cls).parameters.values() if each.default is each.empty]
    if [each.kind for each in wanted] != [inspect.Parameter.POSITIONAL_OR_KEYWORD] * 2:
        return False
    with randomness.seeded_torch(0, "convolution"):
        try:
            for _ in range(_TRIES):
                check_one_hop(cls(_INPUTS, _OUTPUTS), _INPUTS, _OUTPUTS, cls.__name__)
        except Exception:  # whatever a class of the user's raises
            return False
    return True


def is_given(module: str) -> bool:
    """Return whether a name is that of a network that was given as an instance."""
    return _NAME.fullmatch(module) is not None


def name_of(content: bytes) -> str:
    """Return the name of a stored network."""
    return f"{FILE}:{hashlib.blake2b(content, digest_size=16).hexdigest()}"


def keep(content: bytes) -> str:
    """Keep a stored network for as long as this process lives; return its name."""
    _KEPT[name := name_of(content)] = content
    return name


def kept(name: str) -> bytes:
    """Return a stored network. Raises `InputError` where this process has none of that name."""
    if name not in _KEPT:
        raise InputError(
            f"model.module = {name!r} is a network that was given in Python; {FILE} in the folder of its run has it. "
            "Give a new run the network itself, or its class: model=..."
        )
    return _KEPT[name]


def stored(network: torch.nn.Module) -> bytes:
    """Return a network as `torch.save` stores it, on the CPU; the one that is given stays as it is.

    Raises `InputError` for one that cannot be stored, such as of a class inside a function.
    """
    buffer, kind = io.BytesIO(), type(network).__name__
    try:
        torch.save(copy.deepcopy(network).cpu(), buffer)
    except Exception as error:  # whatever a class of the user's raises
        raise InputError(
            f"model (an instance of {kind}) cannot be stored ({type(error).__name__}: {error}), and no run of it could "
            "be resumed: its classes must be those of a module or a notebook's cell, and hold no lambda, no open file."
        ) from error
    return buffer.getvalue()


def loaded(content: bytes) -> torch.nn.Module:
    """Return a network of its own from what `stored` made. Raises `InputError` where a class of it cannot be found."""
    try:
        network: Any = torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)
    except (ImportError, AttributeError) as error:
        near = _NEAR if "__main__" in str(error) else ""
        raise InputError(f"The network in {FILE} cannot be made here: {error}.{near}") from error
    if not isinstance(network, torch.nn.Module):
        raise InputError(f"{FILE} must hold a torch.nn.Module; it holds a {type(network).__name__}.")
    return network
