"""A client's file holds its data bit by bit, and nothing that could run; a site's data are checked."""

import os
import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse

from fedgraft import wire
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.storage import client_files, disk
from fedgraft.experiment.storage.client_files import PACKAGES, read_client, write_client
from fedgraft.experiment.storage.provenance import digest_of
from fedgraft.experiment.storage.sites import SiteData
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.data.catalogue import Catalogue
from fedgraft.methods.data.ciao import Ciao
from fedgraft.methods.data.epinions import Epinions
from fedgraft.methods.data.graphs import Graphs
from fedgraft.methods.data.interactions import Interactions
from fedgraft.methods.data.ml100k import ML100K
from fedgraft.methods.data.molecules import Molecules
from fedgraft.methods.data.nodes import Nodes
from fedgraft.methods.data.pyg_nodes import PygNodes
from fedgraft.methods.data.shops import Shops
from fedgraft.methods.data.table import Table
from fedgraft.methods.data.tu import TU
from helpers.site_tables import graphs, interactions, items, nodes, ratings
from helpers.tiny import TINY

MADE = {
    "shops": lambda: Shops(users=60, items=80, categories=4, links=200, count=600, clients=3),
    "molecules": lambda: Molecules(clients=3, graphs=20),
    "blocks": lambda: Blocks(nodes=90, clients=3),
    "blocks, sparse": lambda: Blocks(nodes=90, clients=3, features=40),
    "catalogue": lambda: Catalogue(users=60, items=40, count=900, clients=3),
    "table": lambda: Table(ratings(), partition="given"),
    "nodes": lambda: Nodes(*nodes()),
    "graphs": lambda: Graphs(*graphs()),
    "interactions": lambda: Interactions(interactions(), items(), partition="given"),
}
STORED = {
    "ciao": lambda root: Ciao(str(root / "ciao")),
    "epinions": lambda root: Epinions(str(root / "epinions")),
    "ml100k": lambda root: ML100K(str(root / "ml-100k")),
    "tu": lambda root: TU(root / "TUDataset", "proteins", clients=3),
    "pyg_nodes": lambda root: PygNodes(str(root / "Planetoid"), "cora", clients=3),
}


def check(data, folder: Path) -> None:
    for number, shard in enumerate(data.load(1)):
        path = folder / f"{number}.data"
        size = write_client(path, number, shard.name, data.task, shard)
        found = read_client(path)
        assert size == path.stat().st_size
        assert (found.number, found.name, found.task) == (number, shard.name, data.task)
        assert found.digest == digest_of(found.shard) == digest_of(shard)
        assert type(found.shard) is type(shard)
        for name, value in vars(shard).items():
            again = getattr(found.shard, name)
            assert type(again) is type(value)
            if isinstance(value, np.ndarray):
                assert again.dtype == value.dtype
                assert again.flags.writeable
                assert again.flags.c_contiguous >= value.flags.c_contiguous


@pytest.mark.parametrize("name", MADE)
def test_every_shard_comes_back(tmp_path: Path, name: str) -> None:
    check(MADE[name](), tmp_path)


@pytest.mark.data
@pytest.mark.parametrize("name", STORED)
def test_every_shard_of_published_data_comes_back(tmp_path: Path, data_root: Path, name: str) -> None:
    check(STORED[name](data_root), tmp_path)


NUMERIC = ("bool", "int8", "int32", "int64", "uint8", "uint32", "float32", "float64")


def objects(values: list) -> np.ndarray:
    array = np.empty(len(values), object)
    for place, value in enumerate(values):
        array[place] = value
    return array


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.sampled_from(NUMERIC).flatmap(lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, min_side=0)))
    | st.sampled_from(NUMERIC).flatmap(lambda dtype: arrays.arrays(dtype, (3, 4))).map(np.asfortranarray)
    | st.sampled_from(NUMERIC).flatmap(lambda dtype: arrays.arrays(dtype, ())).map(lambda array: array[()])
    | arrays.arrays(np.dtype("U5"), arrays.array_shapes(min_side=0)),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text("abc") | st.integers(0, 9), inner)
        | st.lists(inner, min_size=1).map(objects)
    ),
    max_leaves=12,
)


def kinds(value: object) -> object:
    """The types that a value is made of."""
    if isinstance(value, np.ndarray):
        inner = [kinds(each) for each in value.reshape(-1)] if value.dtype == object else []
        return (
            value.dtype,
            value.shape,
            inner,
            value.ndim > 1 and value.flags.f_contiguous and not value.flags.c_contiguous,
        )
    if isinstance(value, list | tuple):
        return type(value), [kinds(each) for each in value]
    return type(value), [kinds(each) for pair in value.items() for each in pair] if isinstance(value, dict) else None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
def test_whatever_shards_are_made_of_comes_back(value: object) -> None:
    tree = wire.unpack(wire.pack(client_files._tree_of(value, PACKAGES)))
    found = client_files._value_of(tree, PACKAGES)
    assert digest_of(found) == digest_of(value)
    assert kinds(found) == kinds(value)


# --- what is no file of ours ------------------------------------------------------------------------------------------


@pytest.fixture
def shard():
    return Blocks(nodes=60, clients=2).load(1)[0]


@pytest.fixture
def file(tmp_path: Path, shard) -> Path:
    write_client(tmp_path / "part.data", 0, "part-0", "node", shard)
    return tmp_path / "part.data"


def encrypted(tree: object) -> bytes:
    return b"fedgraft client\x01" + disk.encrypted(wire.pack(tree))


def record(cls: str, **parts: object) -> bytes:
    """A file, with a fingerprint that fits, whose data are an object of a class."""
    return encrypted(
        {"client": 0, "name": "a", "task": "node", "shard": {"kind": "record", "class": cls, "fields": parts}}
    )


class Exploit:
    def __reduce__(self):
        return os.system, ("touch hacked",)


@pytest.mark.parametrize(
    "content", [pickle.dumps(Exploit()), b"fedgraft client\x01" + disk.encrypted(pickle.dumps(Exploit()))]
)
def test_a_pickle_does_not_run(file: Path, monkeypatch, content: bytes) -> None:
    monkeypatch.chdir(file.parent)
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"is no file of|is damaged"):
        read_client(file)
    assert not (file.parent / "hacked").exists()


@pytest.mark.parametrize(
    "cls",
    [
        "os:system",
        "subprocess:Popen",
        "fedgraft.experiment.storage.run_folder:RunFolder",
        "fedgraft.domains:NodeShard",
        "fedgraft.domains.nodes.base.shards:np",
        "fedgraft.domains.nodes.base.shards:sparse.csr_matrix",
        "fedgraft.domains.nodes.base.shards:dataclass",
        "fedgraft.domains.nodes.base.shards:InputError",
        "fedgraft.domainsx.evil:Shard",
        "fedgraft.domains..nodes:Shard",
        "fedgraft.domains/../evil:Shard",
        "fedgraft.domains.nodes.missing:Shard",
        "",
    ],
)
def test_classes_that_data_are_not_made_of_are_refused(file: Path, cls: str) -> None:
    file.write_bytes(record(cls, name="x"))
    with pytest.raises(InputError, match=r"which is no dataclass of fedgraft.domains"):
        read_client(file)


def test_a_class_of_another_version_is_told(file: Path) -> None:
    file.write_bytes(record("fedgraft.domains.nodes.base.shards:NodeShard", name="x", colour="red"))
    with pytest.raises(InputError, match=r"another version of fedgraft wrote it: NodeShard there and here differ"):
        read_client(file)


@pytest.mark.parametrize(
    "tree",
    [
        {},
        [],
        None,
        {"client": "0", "name": "a", "task": "node", "shard": None},
        {"client": 0, "name": "a", "task": "node", "shard": {"kind": "function"}},
        {"client": 0, "name": "a", "task": "node", "shard": {}},
        *(
            {"client": 0, "name": "a", "task": "node", "shard": shard}
            for shard in (
                {"kind": "texts", "shape": [1], "width": 1, "codes": np.array([0x110000], np.uint32)},
                {"kind": "texts", "shape": [9], "width": 1, "codes": np.array([65], np.uint32)},
                {"kind": "objects", "shape": [9], "items": []},
                {"kind": "mapping", "keys": [1], "values": []},
                {"kind": "mapping", "keys": [{"kind": "list", "items": []}], "values": [1]},
                {
                    "kind": "csr",
                    "shape": [2, 2],
                    "data": np.ones(1, np.float32),
                    "indices": np.array([1000000], np.int32),
                    "indptr": np.array([0, 1, 1], np.int32),
                },
            )
        ),
    ],
)
def test_content_that_is_no_clients_is_damage(file: Path, tree: object) -> None:
    file.write_bytes(encrypted(tree))
    with pytest.raises(InputError, match=r"part.data is damaged: ") as error:
        read_client(file)
    assert "\n" not in str(error.value)


def test_fields_of_other_types_are_damage(file: Path, shard) -> None:
    parts = dict.fromkeys(vars(shard))
    file.write_bytes(record("fedgraft.domains.nodes.base.shards:NodeShard", **parts))
    with pytest.raises(InputError, match=r"is damaged: it does not hold a client's data"):
        read_client(file)


def test_every_damaged_byte_is_found(file: Path) -> None:
    whole = file.read_bytes()
    for place in [*range(40), *range(40, len(whole), 211), len(whole) - 1]:
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InputError, match=r"is no file of|is damaged|another version"):
            read_client(file)
    for length in (0, 14, 15, 16, 40, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"is no file of|is damaged"):
            read_client(file)


def test_a_later_version_is_told(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:15] + b"\x02" + whole[16:])
    with pytest.raises(InputError, match=r"written by another version of fedgraft \(format 2, this one has 1\)"):
        read_client(file)


# --- writing ----------------------------------------------------------------------------------------------------------


def test_only_the_owner_can_read_a_file_and_nothing_is_left_beside_it(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["part.data"]


@dataclass(frozen=True)
class Foreign:
    name: str
    rows: object


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        (Foreign("a", 1), "it holds a .*Foreign; numbers, texts"),
        (np.array(["2020-01-01"], "datetime64[D]"), "it holds an array of datetime64"),
        (2**70, "64 bits"),
        (sparse.coo_matrix((2, 2)), "it holds a .*coo_matrix"),
    ],
)
def test_data_that_no_file_holds(tmp_path: Path, shard: object, message: str) -> None:
    with pytest.raises(InputError, match=rf"client 'a' cannot be written in a file: .*{message}"):
        write_client(tmp_path / "a.data", 0, "a", "node", shard)
    assert not list(tmp_path.iterdir())


def test_the_dataclasses_of_other_peoples_data_sets_are_known_where_these_are(tmp_path: Path) -> None:
    shard, packages = Foreign("a", np.arange(3)), (*PACKAGES, Foreign.__module__)
    write_client(tmp_path / "a.data", 0, "a", "node", shard, packages)
    assert read_client(tmp_path / "a.data", packages).digest == digest_of(shard)
    with pytest.raises(InputError, match="no dataclass of"):
        read_client(tmp_path / "a.data")


# --- what a site has --------------------------------------------------------------------------------------------------


NODE = {"data.name": "blocks", "data.nodes": 60, "data.clients": 2, "model.hidden": [6, 5]}


@pytest.fixture
def recipe():
    made = load("fedais", NODE)
    return made.fitted(made.data.load(made.seed))


def test_a_file_is_its_clients(file: Path, recipe, shard) -> None:
    found, digest = SiteData(recipe, [str(file)], 0, "part-0").read()
    assert digest == digest_of(found) == digest_of(shard)
    for number, name in ((1, "part-0"), (0, "part-1")):
        with pytest.raises(InputError, match=r"part.data is of client 0, 'part-0'; this node is that of client"):
            SiteData(recipe, [str(file)], number, name).read()


def test_a_file_must_fit_the_recipe(file: Path, recipe, shard) -> None:
    with pytest.raises(InputError, match=r"holds data for task 'node'; the recipe is for 'rating'"):
        SiteData(load("fedacs", TINY), [str(file)], 0, "part-0").read()
    unfitted = load("fedais", NODE)
    with pytest.raises(
        InputError, match=r"part.data does not fit the recipe: .* must say task.features = \d+, .*task.class"
    ):
        SiteData(unfitted, [str(file)], 0, "part-0").read()
    write_client(file, 0, "part-0", "node", replace(shard, features=shard.features[:, 1:]))
    with pytest.raises(InputError, match=r"does not fit the recipe: task.features = \d+, but the data have \d+"):
        SiteData(recipe, [str(file)], 0, "part-0").read()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a.csv"], "Data set 'Blocks' is not read from a site's own tables; give a file of 'fedgraft shard'"),
        (["a.data", "b.data"], "is all of a client's data; give it alone"),
        (["missing.data"], "missing.data cannot be read: No such file"),
    ],
)
def test_what_a_site_cannot_give(recipe, given: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SiteData(recipe, given, 0, "part-0").read()


def test_one_client_has_some_rows_of_tables_of_users_and_items(tmp_path: Path) -> None:
    made = load("fesog", {**TINY, "baselines": []})
    shards = made.data.load(made.seed)
    fitted = made.fitted(shards)
    for number, shard in enumerate(shards):
        write_client(tmp_path / "a.data", number, shard.name, "rating", shard)
        assert SiteData(fitted, [str(tmp_path / "a.data")], number, shard.name).read()[1] == digest_of(shard)
    with pytest.raises(InputError, match=r"task.users must be >= \d+, as these data have ids up to"):
        SiteData(fitted.with_changes({"task.users": 3}), [str(tmp_path / "a.data")], number, shard.name).read()
