"""A client's data as a file of its own.

    magic 15s | format u8 | fingerprint 16s of the tree | tree

The tree is that of the wire format: whoever made a file, nothing in it runs when it is read. It says of each object
which dataclass it is, and only those that data are made of are known.
"""

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import tomli_w
from scipy import sparse

from fedgraft import wire
from fedgraft.contracts.data import Data, names_of
from fedgraft.errors import InputError, WireError
from fedgraft.experiment.job import Job
from fedgraft.experiment.storage import disk, folder_check
from fedgraft.experiment.storage.provenance import digest_of
from fedgraft.runtimes.federation.folders import file_name
from fedgraft.wire.buffers import DTYPES
from fedgraft.wire.layouts import Array, Tree

LOG = logging.getLogger("fedgraft.data")
SUFFIX: Final = ".data"
"""Of a client's file."""
FORMAT: Final = 1
PACKAGES: Final = ("fedgraft.domains", "fedgraft.methods.data")
"""Packages whose dataclasses a file may hold."""
_MAGIC: Final = b"fedgraft client"
_HEAD: Final = len(_MAGIC) + 1
_KIND: Final = "kind"
"""Key of every dict of the tree that says what it stands for."""
_CHARACTERS: Final = 0x110000
_MODULE: Final = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*", re.ASCII)
_TIMES_SIZE: Final = 64
"""How many times its own size a file may take in memory, beyond the usual limit."""
RECIPE: Final = "recipe.toml"
CLIENTS: Final = "clients.toml"
FILES: Final = "clients"


@dataclass(frozen=True, eq=False)
class ClientFile:
    """The content of a client's file.

    Args:
        number: which client it is, 0, 1 ...
        name: of the client.
        task: name of the task that the data are for.
        shard: its data.
        digest: their fingerprint, as `provenance.digest_of` makes it.
    """

    number: int
    name: str
    task: str
    shard: Any
    digest: str


def write_client(path: Path, number: int, name: str, task: str, shard: Any, packages: Sequence[str] = PACKAGES) -> int:
    """Write a client's data where only the owner can read them, as a whole or not at all; return the size in bytes.

    The data are for a task, and made of dataclasses of some packages. Raises `InputError` for what a file cannot hold.
    """
    try:
        tree: Tree = {"client": number, "name": name, "task": task, "shard": _tree_of(shard, packages)}
        content = wire.pack(tree)
    except (TypeError, ValueError) as error:
        raise InputError(f"The data of client {name!r} cannot be written in a file: {error}") from error
    whole = b"".join([_MAGIC, bytes([FORMAT]), disk.encrypted(content)])
    disk.replace(path.parent, {path.name: whole}, disk.PRIVATE)
    return len(whole)


def read_client(path: Path, packages: Sequence[str] = PACKAGES) -> ClientFile:
    """Read a client's file, of dataclasses in some packages; nothing in it runs.

    Raises `InputError` for a file that is missing, damaged, none, or of another version.
    """
    content = disk.read_bytes(path)
    if content[: len(_MAGIC)] != _MAGIC or len(content) < _HEAD:
        raise InputError(f"{path} is no file of 'fedgraft shard'.")
    if (version := content[len(_MAGIC)]) != FORMAT:
        raise InputError(
            f"{path} was written by another version of fedgraft (format {version}, this one has {FORMAT})."
        )
    try:
        body = disk.unsealed(content[_HEAD:])
        tree: Any = wire.unpack(body, limit=max(wire.DEFAULT_LIMIT, _TIMES_SIZE * len(content)))
        number, name, task = tree["client"], tree["name"], tree["task"]
        if not (isinstance(number, int) and isinstance(name, str) and isinstance(task, str)):
            raise WireError("it does not say whose it is")
        shard = _value_of(tree["shard"], packages)
    except WireError as error:
        raise InputError(f"{path} is damaged: {str(error).rstrip('.')}.") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except Exception as error:  # whatever classes say of fields that nobody has written for them
        raise InputError(f"{path} is damaged: it does not hold a client's data ({error}).") from error
    return ClientFile(number, name, task, shard, digest_of(shard))


def packages_of(data: Data[Any]) -> tuple[str, ...]:
    """Return the packages whose dataclasses a data set's files may hold: fedgraft's, and its own."""
    own = type(data).__module__.partition(".")[0]
    return PACKAGES if own == "fedgraft" else (*PACKAGES, own)


# --- values as trees --------------------------------------------------------------------------------------------------


def _tree_of(value: Any, packages: Sequence[str]) -> Tree:
    """Return the tree of a value that data are made of. Raises `TypeError` for any other."""
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value  # type: ignore[no-any-return]
    if isinstance(value, np.generic):
        return {_KIND: "scalar", "value": _array_tree(np.asarray(value), packages)}
    if type(value) in (np.ndarray, np.memmap):
        return _array_tree(value, packages)
    if type(value) is sparse.csr_matrix:
        parts = {name: _array_tree(getattr(value, name), packages) for name in ("data", "indices", "indptr")}
        return {_KIND: "csr", "shape": list(map(int, value.shape)), **parts}
    if isinstance(value, list | tuple):
        return {_KIND: "tuple" if isinstance(value, tuple) else "list", "items": [_tree_of(v, packages) for v in value]}
    if isinstance(value, Mapping):
        keys, values = ([_tree_of(v, packages) for v in part] for part in (value.keys(), value.values()))
        return {_KIND: "mapping", "keys": keys, "values": values}
    cls = type(value)
    name = f"{cls.__module__}:{cls.__qualname__}"
    if not is_dataclass(cls) or not _is_within(cls.__module__, packages):
        raise TypeError(
            f"it holds a {name}; numbers, texts, arrays and dataclasses of {', '.join(packages)} are known."
        )
    parts = {field.name: _tree_of(getattr(value, field.name), packages) for field in fields(cls) if field.init}
    return {_KIND: "record", "class": name, "fields": parts}


def _array_tree(array: Array, packages: Sequence[str]) -> Tree:
    shape = list(array.shape)
    if array.dtype == object:
        return {_KIND: "objects", "shape": shape, "items": [_tree_of(each, packages) for each in array.reshape(-1)]}
    if array.dtype.kind == "U":
        codes = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
        return {_KIND: "texts", "shape": shape, "width": array.dtype.itemsize // 4, "codes": codes}
    if array.dtype.name not in DTYPES:
        raise TypeError(f"it holds an array of {array.dtype}.")
    if array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous:
        return {_KIND: "columns", "rows": array.T}  # products round by the order in memory
    return array


def _value_of(tree: Any, packages: Sequence[str]) -> Any:
    """Return the value of a tree. Raises whatever for one that `_tree_of` has not made."""
    if not isinstance(tree, dict):
        return tree
    kind, items = tree[_KIND], [_value_of(each, packages) for each in tree.get("items", ())]
    if kind in ("list", "tuple"):
        return items if kind == "list" else tuple(items)
    if kind == "scalar":
        return _value_of(tree["value"], packages)[()]
    if kind == "columns":
        return tree["rows"].T
    if kind == "mapping":
        keys, values = ([_value_of(each, packages) for each in tree[part]] for part in ("keys", "values"))
        return dict(zip(keys, values, strict=True))
    if kind == "objects":
        array = np.empty(len(items), object)
        for place, item in enumerate(items):  # at once, lists among them would be taken for rows
            array[place] = item
        return array.reshape(tree["shape"])
    if kind == "texts":
        return _texts(tree["codes"], tree["width"], tree["shape"])
    if kind == "csr":
        stored = tuple(tree[name] for name in ("data", "indices", "indptr"))
        matrix = sparse.csr_matrix(stored, shape=tuple(tree["shape"]))
        matrix.check_format(full_check=True)  # what SciPy is written in checks nothing
        return matrix
    if kind == "record":
        parts = {name: _value_of(each, packages) for name, each in tree["fields"].items()}
        return _record(tree["class"], parts, packages)
    raise WireError(f"it holds a value of kind {kind!r:.80}")


def _texts(codes: Array, width: int, shape: Sequence[int]) -> Array:
    if codes.dtype != np.uint32 or codes.shape != (math.prod(shape) * width,) or codes.max(initial=0) >= _CHARACTERS:
        raise WireError("it holds texts that are none")
    return codes.view(f"U{width}").reshape(shape)


def _record(name: str, parts: Mapping[str, Any], packages: Sequence[str]) -> Any:
    """Return an object of a dataclass that data may be made of."""
    module, _, attribute = name.partition(":")
    cls: Any = None
    if _MODULE.fullmatch(module) and _is_within(module, packages):
        try:
            cls = getattr(import_module(module), attribute, None)
        except ImportError:
            cls = None
    if not (isinstance(cls, type) and is_dataclass(cls) and cls.__module__ == module):
        raise InputError(f"it holds a {name[:80]!r}, which is no dataclass of {', '.join(packages)}.")
    known = {field.name for field in fields(cls) if field.init}
    if differing := known ^ parts.keys():
        differ = sorted(differing)[0]
        raise InputError(f"another version of fedgraft wrote it: {attribute} there and here differ in {differ[:80]!r}.")
    return cls(**parts)


def _is_within(module: str, packages: Sequence[str]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def shard(experiment: Job, folder: Path, written: Callable[[str, Path, int], None]) -> list[Path]:
    """Write a recipe's data to a folder, a file for each client.

    Args:
        experiment: the recipe.
        folder: not there yet, or empty; where the data cannot be loaded or written, it is left as it was.
        written: told of each client: its name, its file, the file's size in bytes.

    Returns:
        The clients' files, in their order. Raises `InputError`.
    """
    _check_free(folder)
    shards = experiment.shards()
    fitted = experiment.fitted(shards)
    recipe = fitted.to_toml().encode()
    names = list(names_of(shards))
    paths = [folder / FILES / f"{name}{SUFFIX}" for name in _file_names(names)]
    with disk.written(folder):
        made = [*folder_check.make(folder), *folder_check.make(folder / FILES)]
        (folder / FILES).chmod(0o700)
        try:
            for number, (name, path) in enumerate(zip(names, paths, strict=True)):
                size = write_client(path, number, name, fitted.task_name, shards[number], packages_of(fitted.data))
                written(name, path, size)
            disk.replace(folder, {CLIENTS: tomli_w.dumps({"names": names}).encode(), RECIPE: recipe})
        except BaseException:
            for path in (*paths, folder / CLIENTS, folder / RECIPE):
                disk.remove(path)
            folder_check.take_back(made)
            raise
    return paths


def _check_free(folder: Path) -> None:
    if names := folder_check.names_in(folder, folder):
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise InputError(f"{folder} is not empty: it holds {names[0]!r}{more}. Choose a folder that is new or empty.")


def _file_names(names: list[str]) -> list[str]:
    """Return a name of a file for each client, all distinct, whatever clients are called."""
    safe_names: dict[str, str] = {}  # by what a file system that knows no capitals takes for it
    for number, name in enumerate(names):
        safe = file_name(name) or "client"
        while safe.casefold() in safe_names:
            safe += f"-{number}"
        safe_names[safe.casefold()] = safe
    return list(safe_names.values())
