"""HAN: its outputs and gradients are those of PyG's layer."""

import numpy as np
import pytest
import scipy.sparse
import torch

from fedgraft.errors import InputError
from fedgraft.methods.models.han import HAN

NODES, WIDTH = 40, 7


def structures():
    loops = scipy.sparse.identity(NODES)
    drawn = (
        scipy.sparse.random(NODES, NODES, share, format="csr", random_state=k) for k, share in enumerate((0.05, 0.4))
    )
    return [(each + loops).tocsr() for each in drawn]


def pyg(module, options):
    """PyG's layer with the parameters of ours, and the edges as it takes them."""
    from torch_geometric.nn import HANConv

    kinds = [("n", f"path{k}", "n") for k in range(2)]
    layer = HANConv(WIDTH, options.hidden, (["n"], kinds), heads=options.heads, negative_slope=options.slope)
    with torch.no_grad():
        layer.proj["n"].weight.copy_(module.inputs.weight.t())
        layer.proj["n"].bias.copy_(module.inputs.bias)
        for k, kind in enumerate(kinds):
            layer.lin_dst["__".join(kind)].copy_(module.receiver[k][None])
            layer.lin_src["__".join(kind)].copy_(module.sender[k][None])
        layer.k_lin.weight.copy_(module.semantic.weight)
        layer.k_lin.bias.copy_(module.semantic.bias)
        layer.q.copy_(module.query[None])
    edges = {}
    for kind, matrix in zip(kinds, structures(), strict=True):
        entries = matrix.tocoo()
        edges[kind] = torch.from_numpy(np.stack([entries.col, entries.row]).astype(np.int64))
    return layer, edges


@pytest.mark.parametrize("heads", [1, 3])
def test_outputs_and_gradients_are_pyg_s(heads):
    options = HAN(hidden=12, heads=heads)
    module = options.build(WIDTH, (0, 0), torch.Generator().manual_seed(0))
    features = torch.randn(NODES, WIDTH, generator=torch.Generator().manual_seed(1))
    layer, edges = pyg(module, options)
    mine = module(features, [options.graph(matrix) for matrix in structures()])
    theirs = layer({"n": features}, edges)["n"]
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    weights = torch.randn(NODES, 12, generator=torch.Generator().manual_seed(2))
    (mine * weights).sum().backward()
    (theirs * weights).sum().backward()
    torch.testing.assert_close(module.inputs.weight.grad.t(), layer.proj["n"].weight.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module.sender.grad[1], layer.lin_src["n__path1__n"].grad[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module.receiver.grad[0], layer.lin_dst["n__path0__n"].grad[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module.semantic.weight.grad, layer.k_lin.weight.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module.semantic.bias.grad, layer.k_lin.bias.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module.query.grad, layer.q.grad[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"heads": 0}, r"HAN\.heads must be >= 1; got 0"),
        ({"hidden": 100}, r"HAN\.hidden must be a positive multiple of heads = 8; got 100"),
        ({"slope": 1.0}, r"HAN\.slope must be in \[0, 1\)"),
    ],
)
def test_impossible_options_are_refused(options, text):
    with pytest.raises(InputError, match=text):
        HAN(**options)
