import numpy as np
import pytest
import torch
from torch import nn

from fedgraft.nn.flat_model import FlatModel


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))


def test_vector_and_parameters_are_one_memory():
    flat = FlatModel(model())
    assert flat.vector.numel() == sum(parameter.numel() for parameter in flat.module.parameters()) == 15
    with torch.no_grad():
        flat.vector.fill_(2.0)
    assert all((parameter == 2).all() for parameter in flat.module.parameters())
    flat.module(torch.ones(4, 3)).sum().backward()
    joined = torch.cat([flat.gradients[name].flatten() for name in flat.parameters])
    assert torch.equal(joined, flat.gradient)
    assert flat.gradient[-1] == 4  # the last bias, once per example


def test_frozen_parameters_are_no_part_of_what_moves():
    flat = FlatModel(model())
    order = list(flat.parameters)
    flat.vector.copy_(torch.arange(15.0))
    flat.freeze([order[0], order[3]])
    assert list(flat.gradients) == [order[1], order[2], *order[4:]]
    assert [part.tolist() for part in flat.moving(flat.vector)] == [[6, 7, 8, 9], [12, 13, 14]]
    flat.freeze(order)
    assert (flat.moving(flat.vector), flat.gradients) == ([], {})
    flat.freeze(())
    assert [part.data_ptr() for part in flat.moving(flat.vector)] == [flat.vector.data_ptr()]
    assert list(flat.gradients) == order


def test_drawn_parameters_are_kept_and_buffers_belong_to_the_arrays():
    before = {
        name: value.numpy().copy() for name, value in model().state_dict().items() if value.dtype.is_floating_point
    }
    flat = FlatModel(model())
    assert set(flat.initial) == set(before)
    assert all(np.array_equal(flat.initial[name], before[name]) for name in before)
    assert [spec.name for spec in flat.layout] == [*flat.parameters, "1.running_mean", "1.running_var"]


def test_load_and_read_are_inverse_and_copies():
    flat = FlatModel(model())
    arrays = {name: np.full_like(value, 3.0) for name, value in flat.read().items()}
    flat.load(arrays)
    arrays["0.bias"][:] = 9
    read = flat.read()
    assert all((value == 3).all() for value in read.values())
    read["0.bias"][:] = 9
    assert (flat.read(["0.bias"])["0.bias"] == 3).all()
    assert (flat.module[1].running_mean == 3).all()


def test_some_arrays_only():
    flat = FlatModel(model())
    first = flat.read()
    flat.load({"2.bias": np.array([7.0], np.float32)})
    assert list(flat.read(["2.bias"])) == ["2.bias"]
    assert flat.read(["2.bias"])["2.bias"] == 7
    assert np.array_equal(flat.read()["0.weight"], first["0.weight"])
    assert flat.read([]) == {}
    with pytest.raises(KeyError):
        flat.load({"nothing": first["2.bias"]})
