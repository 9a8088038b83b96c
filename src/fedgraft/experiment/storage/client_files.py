"""A client's data as a file of its own, and what a site has: such a file, or tables.

    magic 15s | format u8 | fingerprint 16s of the tree | tree

The tree is that of the wire format: whoever made a file, nothing in it runs when it is read. It says of each object
which dataclass it is, and only those that data are made of are known.
"""

import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import sparse

from fedgraft import wire
from fedgraft.contracts.abilities.matching import KNOWN_ELSEWHERE, MatchedData
from fedgraft.contracts.abilities.tasks import derived_shard
from fedgraft.contracts.data import AgreedData, ClientTables, Data, PeerClients, Purpose
from fedgraft.engine.protocol.codes import SECRET
from fedgraft.engine.protocol.transport import known_alike
from fedgraft.errors import InputError, RefusedError, WireError, require_one_of
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.storage import disk
from fedgraft.experiment.storage.data_notes import without_notes
from fedgraft.experiment.storage.provenance import digest_of
from fedgraft.tables.table_files import ALLOWED, is_address, is_table
from fedgraft.wire.buffers import DTYPES
from fedgraft.wire.layouts import Array, Tree
from fedgraft.wire.masking import Masks

LOG = logging.getLogger("fedgraft.data")
LACKS_SECRET: Final = """this node's folder lacks it. Copy matching.secret from another site's folder, not by way of \
the server; the first site makes it with 'fedgraft federation keygen DIR --new-secret'."""
"""What is said of a site without the secret of all."""
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


# --- what a site has --------------------------------------------------------------------------------------------------


def client_at(
    experiment: Experiment, data: Sequence[str], number: int, name: str, neighbours: PeerClients | None = None
) -> tuple[Any, str]:
    """Return a client's data at its site, and their fingerprint.

    Args:
        experiment: the recipe of the federation.
        data: a file of `fedgraft shard`; or its tables, NAME=FILE each, where the first may go without a name.
        number: which client it is, 0, 1 ...
        name: of the client.
        neighbours: what its site knows of the others; None = nothing.

    Raises `InputError` for data that are another client's, are wrong, or do not fit the recipe.
    """
    if len(data) == 1 and Path(data[0]).suffix == SUFFIX:
        shard, digest = _of_file(experiment, Path(data[0]), number, name)
    else:
        shard = client_of_tables(experiment, _tables(experiment.data, data), number, name, neighbours)
        digest = digest_of(shard)
    task = experiment.plan.task
    try:
        task.check_shard(shard)
    except InputError as error:
        raise InputError(f"{', '.join(map(str, data))} does not fit the recipe: {error}") from error
    for remark in task.remarks(shard):
        LOG.warning(remark)
    return shard, digest


def published_at(
    experiment: Experiment, data: Sequence[str], number: int, name: str, neighbours: PeerClients | None = None
) -> bytes | None:
    """Return what a client at its site publishes, packed, for all to agree on how data are read.

    None where that is known, or nothing is to be agreed on, as of a file of `fedgraft shard`. Arguments as `client_at`.
    """
    site = experiment.data
    if not isinstance(site, AgreedData) or experiment.agreement_known or Path(data[0]).suffix == SUFFIX:
        return None
    purpose = Purpose(name, number, experiment.seed, trains=True, neighbours=neighbours)
    tables = _site_tables(experiment.data, data, name)
    with without_notes():  # they are told where data are read for training
        return wire.pack(site.published_by(experiment.plan.task, tables, purpose))


def matches_at(experiment: Experiment, data: Sequence[str]) -> bool:
    """Whether ids of a client at its site are matched with others'; of a file of `fedgraft shard` they were before."""
    site = experiment.data
    return isinstance(site, MatchedData) and site.matches and Path(data[0]).suffix != SUFFIX


def claimed_at(
    experiment: Experiment,
    data: Sequence[str],
    number: int,
    name: str,
    neighbours: PeerClients | None,
    secret: bytes,
    masks: Masks | None = None,
) -> bytes | None:
    """Return what a client at its site tells of its edges to others, packed, by the `secret` of all sites.

    Behind `masks` where it has some. None where there are none to tell of, as of a file of `fedgraft shard`. Other
    arguments as `client_at`.
    """
    site = experiment.data
    if not isinstance(site, MatchedData) or not matches_at(experiment, data):
        return None
    if not secret:
        raise RefusedError(f"Sites that match ids need the secret that all have in common: {LACKS_SECRET}", SECRET)
    purpose = Purpose(name, number, experiment.seed, trains=True, neighbours=neighbours)
    with without_notes():  # they are told where data are read for training
        claims = site.claims_at(experiment.plan.task, _site_tables(site, data, name), purpose, secret)
    return wire.pack({**(masks.claims(claims) if masks else claims)})


def elsewhere_at(
    experiment: Experiment, data: Sequence[str], number: int, name: str, neighbours: PeerClients
) -> pd.DataFrame:
    """Return the nodes of others to which a site's edges were joined, as `MatchedData.elsewhere_at`.

    Arguments as `client_at`; the site knows where these are.
    """
    site = experiment.data
    if not isinstance(site, MatchedData) or not site.matches or Path(data[0]).suffix == SUFFIX:
        return pd.DataFrame(columns=list(KNOWN_ELSEWHERE))
    purpose = Purpose(name, number, experiment.seed, trains=True, neighbours=neighbours)
    with without_notes():  # they were told where data were read
        return site.elsewhere_at(experiment.plan.task, _site_tables(site, data, name), purpose)


def common_tables(experiment: Experiment, data: Sequence[str], secret: bytes, run: str) -> dict[str, bytes]:
    """Return {table that all have alike: fingerprint of its file, under the secret of all}; others as `client_at`."""
    if len(data) == 1 and Path(data[0]).suffix == SUFFIX:
        return {}
    names, tables = _site_data(experiment.data).common_tables, _tables(experiment.data, data)
    read = {name: Path(tables[name]).read_bytes() for name in names if name in tables}
    return {name: known_alike(secret, f"table in run {run}", content) for name, content in read.items()}


def client_of_tables(
    experiment: Experiment,
    tables: Mapping[str, str | Path],
    number: int,
    name: str,
    neighbours: PeerClients | None = None,
) -> Any:
    """Return a client's data from its own tables, read as the recipe's data set reads those of all clients.

    `tables` are {name of one of the data set's `site_tables`: file}; other arguments as `client_at`.
    """
    site = _site_data(experiment.data)
    _check_first(site, tables, name)
    task, seed = experiment.plan.task, experiment.seed
    shard = site.client_shard(task, tables, Purpose(name, number, seed, trains=True, neighbours=neighbours))
    return derived_shard(task, number, shard, seed, experiment.split_seed)


def _of_file(experiment: Experiment, path: Path, number: int, name: str) -> tuple[Any, str]:
    file = read_client(path, packages_of(experiment.data))
    if file.task != experiment.task_name:
        raise InputError(f"{path} holds data for task {file.task!r}; the recipe is for {experiment.task_name!r}.")
    if (file.number, file.name) != (number, name):
        raise InputError(
            f"{path} is of client {file.number}, {file.name!r}; this node is that of client {number}, {name!r}."
        )
    return file.shard, file.digest


def _site_tables(data: Data[Any], texts: Sequence[str], name: str) -> dict[str, str | Path]:
    """Return {option: file} of texts "NAME=FILE", the first table among them."""
    tables = _tables(data, texts)
    _check_first(_site_data(data), tables, name)
    return tables


def _check_first(site: ClientTables[Any], tables: Mapping[str, str | Path], name: str) -> None:
    if (first := site.site_tables[0]) not in tables:
        raise InputError(f"--data {first}=FILE is missing: the table {first!r} of client {name!r}.")


def _site_data(data: Data[Any]) -> ClientTables[Any]:
    if not isinstance(data, ClientTables) or not data.site_tables:
        raise InputError(
            f"Data set {type(data).__name__!r} is not read from a site's own tables; give a file of 'fedgraft shard', "
            f"which ends in {SUFFIX}."
        )
    return data


def _tables(data: Data[Any], texts: Sequence[str]) -> dict[str, str | Path]:
    """Return {option: file} of texts "NAME=FILE"; a file without a name is the first table."""
    if any(Path(text).suffix == SUFFIX for text in texts):
        raise InputError(f"--data: a file of 'fedgraft shard' ({SUFFIX}) is all of a client's data; give it alone.")
    known, tables = _site_data(data).site_tables, dict[str, str | Path]()
    for text in texts:
        before, equals, after = text.partition("=")
        name, file = (before, after) if equals and before.isidentifier() else (known[0], text)
        require_one_of("--data NAME=FILE: NAME", name, known)
        if name in tables:
            raise InputError(f"--data: table {name!r} is given twice, {str(tables[name])!r} and {file!r}; give one.")
        if not is_table(file):
            allowed = f"{SUFFIX} (of 'fedgraft shard'), {ALLOWED}"
            raise InputError(f"--data {text}: a file must end in {allowed}.")
        tables[name] = file if is_address(file) else Path(file)
    return tables


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
