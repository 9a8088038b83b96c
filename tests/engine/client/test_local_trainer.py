import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.contracts import Augmentation, Batch, Sampler, StructurePenalty
from fedgraft.contracts.abilities.graphs import StructuredTask
from fedgraft.contracts.structure import WHOLE
from fedgraft.contracts.values import Losses
from fedgraft.errors import ClientError
from fedgraft.methods.sharing.fedavg import FedAvg
from fedgraft.methods.sharing.fedprox import FedProx
from helpers.local_trainers import TWO_POINTS, ByHand, Encoded, Scaled, trainer
from helpers.toy import Line, Points
from helpers.toy_runs import same


@dataclass(frozen=True)
class Fixed(Sampler[list]):
    """The given draws, in order; remembers the losses of each."""

    draws: tuple[Batch, ...]

    def init(self, examples):
        return []

    def draw(self, state, block, stage, g):
        return list(self.draws)

    def update(self, state, draw, losses):
        return [*state, losses.tolist()]


def weights(trainer):
    read = trainer.read()
    return [float(read["weight"][0]), float(read["bias"][0])]


def test_a_step_of_sgd_by_hand():
    trained = trainer()
    trained.run()
    assert weights(trained) == pytest.approx([1.0, 0.6])
    assert trained.report() == {"loss": 10.0, "loss_sq": (4**2 + 16**2) / 2}
    assert (trained.steps, trained.examples) == (1, 2)


def test_two_epochs_with_momentum_by_hand():
    # After (1, 0.6) the errors are -0.4 and -1.4: the gradient is (-3.2, -1.8), and with momentum (-8.2, -4.8).
    trained = trainer(epochs=2, momentum=0.5)
    trained.run()
    assert weights(trained) == pytest.approx([1.82, 1.08])
    assert trained.report()["loss"] == pytest.approx((4 + 16 + 0.16 + 1.96) / 4)


def test_weight_decay_pulls_towards_zero():
    trained = trainer(weight_decay=0.5)
    trained.load({"weight": np.array([2.0], np.float32)})
    trained.run()  # the fit is perfect, so only the decay moves it
    assert weights(trained) == pytest.approx([2.0 - 0.1 * 0.5 * 2.0, 0.0])


def test_the_gradient_is_clipped_to_its_norm():
    trained = trainer(clip=1.0)
    trained.run()
    norm = math.hypot(10, 6)
    assert weights(trained) == pytest.approx([1 / norm, 0.6 / norm])
    short = trainer(clip=100.0)
    short.run()
    assert weights(short) == pytest.approx([1.0, 0.6])


@pytest.mark.parametrize("task", [Line, ByHand, Encoded])
def test_whatever_joins_the_gradient_is_clipped_however_it_is_made(task):
    # The gradient is (-10, -6), the penalty's (3, 0), the proximal term's 0.5 (0 - 4, 0 - 2), the correction's (0, 2).
    def correct(parameters, gradients):
        gradients["bias"].add_(2.0)

    model = Scaled() if task is Encoded else None
    centre = {"weight": np.array([4], np.float32), "bias": np.array([2], np.float32)}
    trained = trainer(task=task(width=1), model=model, received=centre, proximal=0.5, clip=2.0)
    trained.run(penalty=lambda parameters: 3 * parameters["weight"].sum(), correct_gradient=correct)
    gradient = np.array([-10 + 3 - 2, -6 - 1 + 2])
    assert weights(trained) == pytest.approx((-0.1 * 2 * gradient / np.linalg.norm(gradient)).tolist())


def centred(weight, bias):
    return {"weight": np.array([weight], np.float32), "bias": np.array([bias], np.float32)}


def test_the_proximal_term_by_hand():
    # The first step as without it, to (1, 0.6). The errors are then -0.4 and -1.4, the gradient is (-3.2, -1.8), and
    # 0.5 ((1, 0.6) - (0, 0)) is added: (-2.7, -1.5).
    trained = trainer(epochs=2, proximal=0.5, received=centred(0, 0))
    trained.run()
    assert weights(trained) == pytest.approx([1.27, 0.75])
    assert trained.report()["loss"] == pytest.approx((4 + 16 + 0.16 + 1.96) / 4), "losses are of examples alone"


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_it_is_fedprox_to_the_last_bit_but_for_parameters_that_stay(optimizer):
    def trained(method, memory=None, **options):
        one = trainer(optimizer=optimizer, epochs=5, received=centred(0.3, -0.2), **options)
        return method.local_update(one, centred(0.3, -0.2), memory)[0]

    assert same(trained(FedAvg(), proximal=0.3), trained(FedProx(mu=0.3)))
    assert same(trained(FedAvg(), proximal=0.5), trained(FedProx(mu=0.25), proximal=0.25))
    assert not same(trained(FedAvg(), proximal=0.3), trained(FedAvg()))


@given(st.floats(1, 1e6))
def test_the_stronger_it_is_the_nearer_the_model_stays_to_what_was_received(strength):
    # With rate 1 / strength each step goes to the centre less gradient / strength, and gradients are at most 12 here.
    trained = trainer(epochs=4, proximal=strength, received=centred(0, 0), learning_rate=1 / max(strength, 100))
    trained.run()
    assert np.abs(weights(trained)).max() <= 12 / strength


def test_kept_moments_by_hand_and_what_a_run_begins_with():
    # Momentum 0.5: after the first run v = (-10, -6), w = (1, 0.6). The next round begins there with gradient
    # (-3.2, -1.8): v = (-8.2, -4.8).
    first = trainer(momentum=0.5, keep_moments=True)
    first.run()
    (kept,) = first.moments
    assert {name: np.ravel(value).tolist() for name, value in kept.items()} == {
        "step": [0],
        "momentum_buffer": [-10, -6],
    }
    for moments, end in (([kept], [1.82, 1.08]), ([], [1.32, 0.78])):
        after = trainer(momentum=0.5, keep_moments=True, moments=moments)
        after.load(centred(1.0, 0.6))
        after.run()
        assert weights(after) == pytest.approx(end)
        after.load(centred(1.0, 0.6))
        after.run()  # the second run of a round has moments of its own: none yet
        assert weights(after) == pytest.approx([1.32, 0.78])
        assert len(after.moments) == 2


def test_moments_of_what_is_frozen_stay_as_they_were():
    first = trainer(optimizer="adam", keep_moments=True)
    first.run()
    after = trainer(optimizer="adam", keep_moments=True, moments=first.moments)
    after.run(frozen=["bias"])
    (before,), (kept,) = first.moments, after.moments
    assert (before["step"], kept["step"]) == (1, 2)
    assert kept["exp_avg"][1] == before["exp_avg"][1]
    assert kept["exp_avg"][0] != before["exp_avg"][0]


def test_without_a_step_moments_stay_and_by_default_none_are_kept():
    plain = trainer(optimizer="adam")
    plain.run()
    assert plain.moments == [{}]
    first = trainer(optimizer="adam", keep_moments=True)
    first.run()
    idle = trainer(optimizer="adam", keep_moments=True, moments=first.moments, sampler=Fixed(()))
    idle.run()
    assert same(idle.moments, first.moments)


def test_a_gradient_that_is_not_finite_ends_the_training():
    broken = Points(TWO_POINTS.x, np.array([2, math.inf], np.float32), TWO_POINTS.split)
    with pytest.raises(ClientError, match="the gradient of step 1 is not finite"):
        trainer(broken, clip=1.0).run()


def test_a_penalty_joins_the_loss():
    trained = trainer()
    trained.run(penalty=lambda parameters: 3 * parameters["weight"].sum() + parameters["bias"].sum() ** 2)
    assert weights(trained) == pytest.approx([0.1 * (10 - 3), 0.6])
    assert trained.report()["loss"] == 10.0  # what is reported is the task's loss


def test_a_correction_changes_gradients_in_place_before_they_are_clipped():
    def correct(parameters, gradients):
        assert set(parameters) == set(gradients) == {"weight", "bias"}
        gradients["weight"].add_(4.0)
        gradients["bias"].zero_()

    trained = trainer(clip=3.0)
    trained.run(correct_gradient=correct)
    assert weights(trained) == pytest.approx([0.3, 0.0])


def test_frozen_parameters_stay_whatever_the_optimiser_and_count_in_no_norm():
    def correct(parameters, gradients):
        assert (set(parameters), set(gradients)) == ({"weight", "bias"}, {"weight"})

    trained = trainer(clip=5.0, weight_decay=0.5)
    trained.load({"bias": np.array([1.0], np.float32)})
    trained.run(frozen=["bias"], correct_gradient=correct)  # the gradient of the weight is -7, clipped to -5
    assert weights(trained) == pytest.approx([0.5, 1.0])
    trained.load({"weight": np.zeros(1, np.float32), "bias": np.zeros(1, np.float32)})
    trained.run()  # what gathered in the gradient of the bias is forgotten
    norm = math.hypot(10, 6)
    assert weights(trained) == pytest.approx([5 / norm, 3 / norm])


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_to_freeze_everything_trains_nothing(optimizer):
    trained = trainer(optimizer=optimizer, clip=1.0, weight_decay=0.5, epochs=2)
    trained.run(frozen=["weight", "bias"])
    assert weights(trained) == [0.0, 0.0]
    assert trained.report()["loss"] == 10.0


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_others_move_as_if_frozen_parameters_had_no_gradient(optimizer):
    def correct(parameters, gradients):
        if "bias" in gradients:
            gradients["bias"].zero_()

    frozen, still = (trainer(optimizer=optimizer, epochs=3) for _ in range(2))
    frozen.run(frozen=["bias"])
    still.run(correct_gradient=correct)
    assert same(frozen.read(), still.read())


def test_every_draw_is_a_step_and_its_losses_reach_the_sampler():
    draws = (Batch(np.array([0])), Batch(np.array([1])))
    trained = trainer(sampler=Fixed(draws))
    trained.run()
    # From 0: error -2, gradient (-4, -4). From (0.4, 0.4): error 1.2 - 4 = -2.8, gradient (-11.2, -5.6).
    assert weights(trained) == pytest.approx([1.52, 0.96])
    assert trained.sampler_state == [[4.0], [pytest.approx(7.84)]]
    assert (trained.steps, trained.examples) == (2, 2)


def test_draws_that_limit_neighbours_bring_a_seed_and_others_only_if_the_task_draws_some():
    def seeds(task, neighbours):
        seen = []

        class Watching(task):
            def loss(self, model, data, draw, encoded):
                seen.append(draw.seed)
                return super().loss(model, data, draw, encoded)

        trainer(task=Watching(width=1), sampler=Fixed((Batch(np.array([0]), neighbours=neighbours),))).run()
        return seen

    class Drawing(Line):
        layers, seeds_draws = 1, True

    assert seeds(Line, ()) == [0]
    assert seeds(Line, (3,)) == seeds(Drawing, ()) != [0]


def test_weights_of_a_draw_multiply_its_losses():
    trained = trainer(sampler=Fixed((Batch(np.array([0, 1]), np.array([2, 0], np.float32)),)))
    trained.run()
    assert weights(trained) == pytest.approx([0.4, 0.4])  # the mean of 2 * 4 and 0 * 16


def test_a_shared_term_joins_the_objective_once_and_neither_sampler_nor_report_sees_it():
    class Shrunk(Line):
        def loss(self, model, data, draw, encoded):
            return Losses(super().loss(model, data, draw, encoded), 5.0 * (model.weight.sum() - 1.0) ** 2)

    draws = (Batch(np.array([0, 1]), np.array([2, 0], np.float32)),)
    trained = trainer(task=Shrunk(width=1), sampler=Fixed(draws))
    trained.run()
    assert weights(trained) == pytest.approx([1.4, 0.4])  # the mean of 2 * 4 and 0 * 16, and a gradient of -10 on w
    assert trained.sampler_state == [[4.0, 16.0]]
    assert trained.report() == {"loss": 10.0, "loss_sq": 136.0}


def test_a_term_over_all_nodes_joins_the_objective_and_each_look_has_a_view_of_its_own():
    class Seen(Line, StructuredTask):
        hidden_width, common_classes = 1, 0

        def observe(self, model, data):
            raise NotImplementedError

        def states(self, model, data, left_out=WHOLE, seed=0):
            looks.append((left_out, seed))
            return torch.from_numpy(data.x) * model.weight

        def edges(self, data):
            return np.array([0, 1]), np.zeros((2, 0), np.int64)

    looks, half = [], Augmentation(0.5)
    trained = trainer(task=Seen(width=1), epochs=2)
    assert trained.structure().hidden.tolist() == [[0], [0]]
    assert looks == [(WHOLE, 0)]
    first, again = trained.structure(half), trained.structure(half)
    assert first.examples.tolist() == again.examples.tolist() == [0, 1]
    trained.run(structure_penalty=StructurePenalty(lambda hidden: 5 * hidden.sum(), half), epochs=1)
    assert weights(trained) == pytest.approx([-0.5, 0.6])  # a gradient of 5 x (1 + 2) beside -10 on w
    trained.run(structure_penalty=StructurePenalty(lambda hidden: 5 * hidden.sum(), half), epochs=1)
    seeds = [seed for left_out, seed in looks[1:] if left_out == half]
    assert len(seeds) == 4
    assert seeds[0] == seeds[1], "of one round, what was received is looked at in one view"
    assert len(set(seeds[1:])) == 3, "each step has another"


def test_a_task_that_draws_gets_a_seed_with_every_step():
    class Drawing(Line):
        seeds_draws = True

        def loss(self, model, data, draw, encoded):
            seen.append(draw.seed)
            return super().loss(model, data, draw, encoded)

    seen = []
    trainer(task=Drawing(width=1), sampler=Fixed((Batch(np.array([0])), Batch(np.array([1]))))).run()
    assert 0 not in seen
    assert len(set(seen)) == 2


def test_adam_s_first_step_is_the_learning_rate_and_every_run_starts_afresh():
    trained = trainer(optimizer="adam")
    for _ in range(2):
        trained.load({"weight": np.zeros(1, np.float32), "bias": np.zeros(1, np.float32)})
        trained.run()
        assert weights(trained) == pytest.approx([0.1, 0.1], abs=1e-6)


def test_without_a_draw_nothing_moves_and_nothing_is_reported():
    trained = trainer(sampler=Fixed(()))
    trained.run()
    assert weights(trained) == [0.0, 0.0]
    assert trained.steps == 0
    assert all(math.isnan(value) for value in trained.report().values())


@dataclass(frozen=True)
class Blocks(Line):
    """Every example a block of its own."""

    def blocks(self, data):
        return [np.array([index]) for index in range(self.examples(data))]

    def encode(self, model, data, block):
        """Nothing is shared."""


def test_a_pass_takes_every_block_or_so_many():
    every = trainer(task=Blocks(width=1))
    every.run()
    assert every.steps == 2
    some = trainer(task=Blocks(width=1), blocks=1, epochs=3)
    some.run()
    assert some.steps == 3


def test_what_draws_share_learns_with_the_last_of_them_by_hand():
    # Draw 1: error -2, so b moves by 0.4 and w not yet. Draw 2: error 0.4 - 4 = -3.6, so b moves by 0.72, and
    # w by the mean over both draws: 0.1 * (4 * 1 + 7.2 * 2) / 2.
    draws = (Batch(np.array([0])), Batch(np.array([1])))
    trained = trainer(sampler=Fixed(draws), task=Encoded(width=1), model=Scaled())
    trained.run()
    assert weights(trained) == pytest.approx([0.92, 1.12])


def test_one_draw_of_what_is_shared_is_plain_sgd():
    trained = trainer(task=Encoded(width=1), model=Scaled())
    trained.run()
    assert weights(trained) == pytest.approx([1.0, 0.6])
