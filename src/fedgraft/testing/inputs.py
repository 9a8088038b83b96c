"""Laws of inputs: what a model reads of features."""

from typing import Any

import numpy as np
from scipy import sparse

from fedgraft.contracts.inputs import Features, Inputs, OwnInputs
from fedgraft.testing.laws import Law, Laws, check, check_form, expect

NODES, FEATURES, PATHS = 9, 4, 2
LAWS: Laws[Inputs] = Laws()


def check_inputs(cls: type[Inputs], /, **options: Any) -> None:
    """Hold a method of inputs with these options to all laws.

    Raises `AssertionError` with the class, the law and what was seen.
    """
    check(laws(cls, **options))


def laws(cls: type[Inputs], /, **options: Any) -> list[Law[Inputs]]:
    """Return the laws of a method of inputs with these options, to be called one by one."""
    return LAWS.held(cls, lambda: cls(**options))


def _features(is_sparse: bool) -> Features:
    drawn = np.random.default_rng(0).integers(-2, 3, (NODES, FEATURES)).astype(np.float32)
    return sparse.csr_matrix(drawn) if is_sparse else drawn


def _read(inputs: Inputs, features: Features, paths: int) -> np.ndarray:
    """What is read, where a node's only neighbour along each path is the one before it."""
    before = np.arange(len(features) if isinstance(features, np.ndarray) else features.shape[0]) - 1
    read = inputs.read(features, [lambda rows: ((rows + rows[before]) / 2).astype(np.float32)] * paths)
    return read if isinstance(read, np.ndarray) else np.asarray(read.toarray())


@LAWS.every
def is_frozen_and_documented(inputs: Inputs) -> None:
    """Be a frozen dataclass whose documentation explains its options."""
    check_form(type(inputs), Inputs)


@LAWS.every
def rows_are_as_wide_as_they_are_said_to_be(inputs: Inputs) -> None:
    """Return finite float32 rows of `blocks` times the features, whatever the number of paths and the kind of rows."""
    for paths in range(1, PATHS + 1):
        for is_sparse in (False, True):
            read = inputs.read(_features(is_sparse), [lambda rows: rows] * paths)
            shape, wanted = read.shape, (NODES, inputs.blocks(paths) * FEATURES)
            expect(shape == wanted and read.dtype == np.float32, "rows must be as said", shape, read.dtype, wanted)
        width = FEATURES if inputs.attends else inputs.blocks(paths) * FEATURES
        expect(inputs.width(FEATURES, paths) == width, "a first layer must read that", inputs.width(FEATURES, paths))


@LAWS.every
def sparse_features_are_read_as_dense_ones(inputs: Inputs) -> None:
    """Return the same numbers of both, and change neither."""
    dense, rows = _features(False), _features(True)
    same = np.allclose(_read(inputs, dense, PATHS), _read(inputs, rows, PATHS), atol=1e-6)
    expect(same, "sparse features must be read as dense ones")
    kept = np.array_equal(dense, _features(False)) and np.array_equal(rows.toarray(), dense)
    expect(kept, "features must stay as they were")


@LAWS.where(lambda cls: issubclass(cls, OwnInputs))
def a_row_depends_on_its_own_node_alone(inputs: Inputs) -> None:
    """Read of a node what is read where it is the only one."""
    features = _features(False)
    alone = np.concatenate([_read(inputs, features[node : node + 1], 1) for node in range(NODES)])
    expect(np.allclose(alone, _read(inputs, features, 1), atol=1e-6), "no other node may have a part in a row", alone)
