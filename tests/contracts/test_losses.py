"""Every loss is a finite number of each example alone, and its gradient is autograd's; new files are found."""

from dataclasses import replace

import pytest
import torch

from fedgraft.contracts.loss import ClassObjective, ClassShares, NumberObjective, Objective, PairObjective
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery

NAMES = discovery.names("losses")
WAYS = [{}, {"logit_adjustment": 1.5}, {"label_smoothing": 0.2, "logit_adjustment": 0.5}, {"focal": 2.0}]
CASES = [
    *((name, {}) for name in NAMES),
    *(("cross_entropy", way) for way in WAYS[1:]),
    ("squared_error", {"huber": 0.5}),
]
N, CLASSES = 7, 4
G = torch.Generator().manual_seed(3)
LOGITS, LABEL = torch.randn(N, CLASSES, generator=G), torch.arange(N) % CLASSES
SHARES = ClassShares.of(torch.tensor([5, 3, 0, 2]).numpy())


def losses(objective: Objective, rows: torch.Tensor) -> torch.Tensor:
    outputs, label = LOGITS[rows], LABEL[rows]
    if isinstance(objective, ClassObjective):
        return objective.losses(outputs, label, SHARES)
    if isinstance(objective, NumberObjective):
        return objective.losses(outputs[:, 0], label.float())
    others, had = outputs[:, 1:], label[:, None] == torch.arange(CLASSES - 1)
    if isinstance(objective, PairObjective):
        return objective.losses(outputs[:, 0], others, (~had).float())
    return objective.losses(outputs[:, 0], others, had, 9)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_loss_is_a_finite_number_of_each_example_alone(name, options):
    objective = discovery.build("losses", "loss", {"name": name, **options})
    every = losses(objective, torch.arange(N))
    assert every.shape == (N,)
    assert torch.isfinite(every).all()
    assert (every >= -1e-6).all()
    for row in range(N):
        torch.testing.assert_close(losses(objective, torch.tensor([row]))[0], every[row])
    assert 0 <= objective.dropout < 1


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("name", [name for name in NAMES if issubclass(discovery.find("losses", name), ClassObjective)])
@pytest.mark.parametrize("written", [True, False])
def test_a_gradient_written_by_hand_is_that_of_autograd(name, options, written):
    options = {} if discovery.presets("losses").get(name) else options
    objective = discovery.build("losses", "loss", {"name": name, **options})
    logits = LOGITS.clone().requires_grad_()
    expected = objective.losses(logits, LABEL, SHARES)
    weights = torch.linspace(0.5, 2.0, N)
    (expected * weights).sum().backward()
    found, back = objective.with_gradient(LOGITS, LABEL, SHARES) if written else by_default(objective)
    torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(back(weights), logits.grad, atol=1e-6, rtol=1e-5)


def by_default(objective: ClassObjective):
    return ClassObjective.with_gradient(objective, LOGITS, LABEL, SHARES)


def test_a_loss_says_whether_it_depends_on_a_client_s_classes():
    plain = discovery.build("losses", "loss", {"name": "cross_entropy"})
    assert not plain.reads_shares
    for each in (replace(plain, label_smoothing=0.1), replace(plain, logit_adjustment=1.0)):
        assert each.reads_shares
        assert not torch.equal(losses(each, torch.arange(N)), losses(plain, torch.arange(N)))


@pytest.mark.parametrize(
    ("name", "option", "text"),
    [
        ("cross_entropy", {"dropout": 1.0}, r"loss\.dropout must be in \[0, 1\); got 1\.0"),
        (
            "cross_entropy",
            {"focal": 2.0, "label_smoothing": 0.1},
            r"loss\.focal must be 0 unless loss\.label_s",
        ),
        ("cross_entropy", {"class_weights": "balance"}, "Did you mean 'balanced'"),
        ("pair_entropy", {"negatives": 0}, r"loss\.negatives must be >= 1"),
        (
            "squared_error",
            {"focal": 2.0},
            r"'focal' with loss\.name = 'squared_error'; loss\.name = 'cross",
        ),
        ("margins", {}, "Did you mean 'margin'"),
    ],
)
def test_errors_name_the_option(name, option, text):
    with pytest.raises(InputError, match=text):
        discovery.build("losses", "loss", {"name": name, **option})
