import time
from dataclasses import replace

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.baselines.majority import Majority
from fedgraft.methods.baselines.wl_kernel import WLKernel
from fedgraft.methods.data.molecules import MOTIFS, Molecules


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "Molecules.clients must be >= 1; got 0"),
        ({"graphs": 9}, "Molecules.graphs must be >= 10; got 9"),
        ({"nodes": 1}, "Molecules.nodes must be >= 2; got 1"),
        ({"kinds": 2}, r"Molecules.kinds must be in \[3, 12\]; got 2"),
        ({"kinds": 13}, r"Molecules.kinds must be in \[3, 12\]; got 13"),
        ({"classes": 4}, "Molecules.classes must be 2 or 3; got 4"),
        ({"elements": 1.5}, r"Molecules.elements must be in \[0, 1\]; got 1.5"),
        ({"own": -1.0}, r"Molecules.own must be in \[0, 1\]; got -1.0"),
        ({"noise": 2.0}, r"Molecules.noise must be in \[0, 1\]; got 2.0"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Molecules(**options)  # type: ignore[arg-type]


def test_assays_differ_in_alphabet_and_classes() -> None:
    started = time.perf_counter()
    shards = Molecules().load(0)
    assert time.perf_counter() - started < 5, "a twentieth of a second on an idle core"
    assert [shard.kinds for shard in shards] == [3, 4, 5, 6, 7, 8, 9]
    assert [len(shard.classes) for shard in shards] == [2, 3, 2, 3, 2, 3, 2]
    assert all("C" in shard.kind_names and len(set(shard.kind_names)) == shard.kinds for shard in shards)
    assert len({shard.kind_names.index("C") for shard in shards}) > 1, "columns do not line up"
    assert all(set(shard.kind) == set(range(shard.kinds)) for shard in shards)


def test_molecules_hold_together() -> None:
    # Connected, with as many rings as its ring motifs bring: edges - nodes + 1 independent cycles.
    for shard in Molecules(clients=2).load(1):
        bonds = np.diff(shard.edge_starts) // 2
        assert (bonds - shard.sizes + 1 >= 0).all()
        label = np.arange(shard.nodes)
        for _ in range(int(shard.sizes.max())):
            np.minimum.at(label, shard.edges[0], label[shard.edges[1]])
        starts = np.repeat(shard.node_starts[:-1], shard.sizes)
        assert (label == starts).all()


def test_motifs_are_sound() -> None:
    for letters, bonds in MOTIFS:
        assert {atom for bond in bonds for atom in bond} == set(range(len(letters)))


def test_structure_tells_and_so_do_elements() -> None:
    data = Molecules(clients=2, classes=2, graphs=400, noise=0.0)
    for share in (0.0, 1.0):
        shards = replace(data, elements=share).load(0)
        blind = [replace(shard, kind=np.zeros_like(shard.kind)) for shard in shards]
        majority = Majority().score(shards)["test"]
        structure, both = (WLKernel().score(each)["test"] for each in (blind, shards))
        assert both > majority + 0.1
        assert (structure > majority + 0.1) == (share == 0.0)


def test_noise_alone_teaches_nothing() -> None:
    shards = Molecules(clients=2, noise=1.0, classes=2).load(0)
    assert WLKernel().score(shards)["test"] < 0.7
