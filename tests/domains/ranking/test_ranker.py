import math

import pytest
import torch
from torch.nn.functional import gelu

from fedgraft.domains.ranking.ranker import Ranker, attended, dependence
from fedgraft.nn import flops

FEATURES = {"text": torch.linspace(-1, 1, 35).view(7, 5), "image": torch.linspace(2, -2, 21).view(7, 3)}


def ranker(widths=(("text", 5), ("image", 3)), factors=2, tied=False, dropout=0.0, items=7):
    sizes = {"width": 6, "factors": factors, "hidden": 4, "attention": 3}
    g = torch.Generator().manual_seed(3)
    return Ranker(items=items, widths=dict(widths), **sizes, tied=tied, dropout=dropout, g=g)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("channels", [2, 3])
def test_gradients_of_scores_are_those_of_differences(channels, paired):
    g = torch.Generator().manual_seed(1)
    shapes = [(3, 5, 1), (3, 5 if paired else 1, 4), (channels, 3), (channels,), *[(5, 4)] * channels]
    given = [torch.randn(shape, generator=g, dtype=torch.float64).requires_grad_() for shape in shapes]

    def scores(user, item, output, bias, *interactions):
        return attended(interactions, user, item, output, bias)

    assert torch.autograd.gradcheck(scores, given)


@pytest.mark.parametrize("names", [("text", "image"), ("text",), ()])
def test_a_score_is_equations_6_to_8_of_the_paper_and_a_bias(names):
    model = ranker([(name, FEATURES[name].shape[1]) for name in names]).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.linspace(-0.5, 1, parameter.numel()).view(parameter.shape))
    users = model.users(torch.linspace(-2, 3, 12).view(2, 6), torch.tensor([4.0, 1.0]), 0.5, 0)
    items = model.items(FEATURES, 0)
    expected = torch.zeros(2, 7)
    for user in range(2):
        for item in range(7):
            for factor in range(2):
                p, channels = users[factor, user], items.channels[factor, :, item]
                x = gelu(channels @ p)
                if names:
                    inner, outer = model.attention.inner, model.attention.outer
                    x = x * outer(torch.tanh(inner(torch.cat([p, *channels])))).softmax(0)
                expected[user, item] += x.sum()
            expected[user, item] += model.bias[item]
    found = model.crossed(users, items)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(model.ranking(users, items), expected)
    rows = torch.tensor([5, 2])
    torch.testing.assert_close(model.paired(users, items.of(rows)), expected[[0, 1], rows])
    torch.testing.assert_close(model.crossed(users, items.of(rows)), expected[:, rows])


def test_a_modality_is_two_layers_of_the_features():
    model = ranker([("text", 5)]).eval()
    layers = model.modalities["text"]
    states = torch.nn.functional.leaky_relu(FEATURES["text"] @ layers.inner.weight.t() + layers.inner.bias)
    expected = torch.nn.functional.leaky_relu(states @ layers.outer.weight.t() + layers.outer.bias)
    channels = model.items(FEATURES, 0).channels
    torch.testing.assert_close(torch.cat([channels[0, 1], channels[1, 1]], 1), expected)
    torch.testing.assert_close(torch.cat([channels[0, 0], channels[1, 0]], 1), model.identity)


def test_a_user_is_a_sum_divided_by_a_power_of_the_count_and_nobody_without_any():
    model = ranker().eval()
    sums = torch.tensor([[6.0] * 6, [0.0] * 6])
    assert model.users(sums, torch.tensor([9.0, 0.0]), 0.5, 0)[:, 0].flatten().tolist() == [2.0] * 6
    assert model.users(sums, torch.tensor([9.0, 0.0]), 0.5, 0)[:, 1].abs().sum() == 0
    assert model.users(sums, torch.tensor([3.0, 0.0]), 1.0, 0)[:, 0].flatten().tolist() == [2.0] * 6


def test_one_table_serves_both_ends_where_they_are_tied():
    tied, untied = ranker(tied=True), ranker()
    assert tied.taken is tied.identity
    assert untied.taken is untied.history
    names = [{name for name, _ in model.named_parameters()} for model in (tied, untied)]
    assert names[1] - names[0] == {"history"}


def test_dropout_depends_on_its_seed_alone_and_keeps_the_mean():
    model = ranker(dropout=0.5).train()
    sums, counts = torch.ones(4000, 6), torch.ones(4000)
    one, two, other = (model.users(sums, counts, 0.5, seed) for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert set(one.unique().tolist()) == {0.0, 2.0}
    assert float(one.mean()) == pytest.approx(1.0, abs=0.05)
    assert torch.equal(model.eval().users(sums, counts, 0.5, 1).unique(), torch.ones(1))


def test_extreme_inputs_of_the_attention_stay_finite():
    user, item = torch.tensor([[[1e3], [-1e3]]]), torch.tensor([[[1e3, -1e3, 0.0]]])
    interactions = [torch.ones(2, 3), 2 * torch.ones(2, 3)]
    found = attended(interactions, user, item, torch.tensor([[0.0], [3.0]]), torch.zeros(2))
    share = torch.sigmoid(3 * torch.tanh(user[0] + item[0]))
    expected = gelu(torch.tensor(1.0)) * (1 - share) + gelu(torch.tensor(2.0)) * share
    torch.testing.assert_close(found, expected)


def test_products_are_counted():
    model = ranker([]).eval()
    users, items = torch.zeros(2, 5, 3), model.items({}, 0)
    with flops.Meter() as meter, torch.no_grad():
        model.crossed(users, items)
    assert meter.flops == 2 * 5 * 7 * 6


# --- dependence -------------------------------------------------------------------------------------------------------


def test_distance_correlation_is_one_for_the_same_block_and_small_for_another():
    g = torch.Generator().manual_seed(0)
    block, other = torch.randn(2, 1, 100, 3, generator=g)
    same = dependence(torch.stack([block, 2 * block]))
    assert float(same) == pytest.approx(1.0, abs=1e-3)
    assert 0 < float(dependence(torch.stack([block, other]))) < 0.6


def test_distance_correlation_by_hand():
    # Of points 0, 1, 2 and 0, 1, 0: distances |a - b|, centred by rows and columns.
    one, two = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.0, 1.0, 0.0])

    def centred(points):
        distances = (points[:, None] - points).abs()
        return distances - distances.mean(0) - distances.mean(1, keepdim=True) + distances.mean()

    a, b = centred(one), centred(two)
    expected = math.sqrt(float((a * b).mean()) / math.sqrt(float((a * a).mean() * (b * b).mean())))
    found = dependence(torch.stack([one, two])[:, None, :, None])
    assert float(found) == pytest.approx(expected, abs=1e-3)


def test_distance_correlation_has_a_finite_gradient_where_points_are_equal():
    channels = torch.zeros(2, 2, 5, 3, requires_grad=True)
    dependence(channels).backward()
    assert torch.isfinite(channels.grad).all()
