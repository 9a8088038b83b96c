"""Safeguards: what one client can do to the model in one round, and who is named for it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fedgraft.contracts import Selection, Update
from fedgraft.engine.server.rounds.arrivals import ArrivedUpdates
from fedgraft.engine.server.rounds.merging import Merging
from fedgraft.engine.server.rounds.safeguards import Safeguards, norm
from fedgraft.engine.server.rounds.train_replies import TrainReplies
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import InputError
from fedgraft.methods.sharing.fedavg import FedAvg
from fedgraft.testing.attackers import noise, scaled
from fedgraft.testing.runs import play, toy
from helpers.toy_runs import attacked, run, same, scripted

LEFT_OUT = "left out: its update would move the model by"


def of(*sizes, weights=None):
    weights = weights or [1 / len(sizes)] * len(sizes)
    return [Update(k, weights[k], {"w": np.array([size], np.float32)}) for k, size in enumerate(sizes)]


def beyond(updates, model=1.0, **options):
    norms = {update.client: norm(update.arrays) for update in updates}
    return Safeguards(**options).beyond(updates, norms, model)


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_who_would_move_the_model_too_far_is_left_out_and_named():
    found = beyond(of(1, 2, 1, 1000))
    assert found == {3: f"{LEFT_OUT} 250 times the norm of a typical one, safeguards.most_step = 100"}
    assert beyond(of(1, 2, 1, 390)) == {}, "a quarter of 390 is below 100"
    assert beyond(of(1, 2, 1, 390), most_step=50.0).keys() == {3}
    assert beyond(of(1, 2, 1, 1e20), most_step=0.0) == {}


def test_the_others_weigh_more_once_one_is_left_out():
    # Client 1 moves the model by 0.45 x 200 = 90 as long as client 2 counts, and by 90 / 0.6 = 150 without it.
    found = beyond(of(1, 200, 1e6, 1, 1, weights=[0.1, 0.45, 0.4, 0.02, 0.03]))
    assert found.keys() == {1, 2}


def test_where_hardly_anything_moves_nobody_is_left_out():
    assert beyond(of(0, 0, 5)) == {}
    assert beyond(of(1e-6, 1e-6, 0.9), model=1.0) == {}, "a large client among tiny ones stays within the model's norm"
    assert beyond(of(1e-6, 1e-6, 3.9), model=1.0).keys() == {2}


def test_one_that_trains_alone_is_held_against_the_model():
    assert beyond(of(90), model=1.0) == {}
    found = beyond(of(1000), model=2.0)
    assert found == {0: f"{LEFT_OUT} 500 times the model's own norm, safeguards.most_step = 100"}
    assert beyond(of(1e9), model=0.0) == {}, "nothing to hold it against"


def test_norms_beyond_what_single_precision_can_square():
    assert norm({"a": np.array([3e30, 4e30], np.float32)}) == pytest.approx(5e30)
    assert norm({"a": np.array([3e-30, 4e-30], np.float32)}) == pytest.approx(5e-30)
    assert norm({"a": np.array([3], np.float32), "b": np.array([[4]], np.float32)}) == 5
    assert norm({}) == 0


def test_clipping_scales_down_what_is_too_long():
    clipped = Safeguards(clip=2.0).clipped(of(1, -8, 1e30))
    assert [update.arrays["w"].tolist() for update in clipped] == [[1], [-2], [pytest.approx(2)]]
    given = of(1, 8)
    assert Safeguards().clipped(given) == given


def test_examples_count_up_to_so_many_medians_and_the_log_says_whose(caplog):
    claimed = [10, 20, 30, 2**31 - 1]
    assert Safeguards().counted(claimed) == [10, 20, 30, 2500]
    assert "Client 3 has 2147483647 examples; 2500 of them count, safeguards.most_weight = 100" in caplog.text
    assert Safeguards(most_weight=0.0).counted(claimed) == claimed
    assert Safeguards().counted([0, 0, 7, 0]) == [0, 0, 7, 0]
    merging = Merging(FedAvg())
    merging.open(claimed)
    assert merging.weights(Selection((0, 3))) == {0: 10, 3: 2500}
    assert merging.weights(Selection((0, 3), (0.2, 0.8))) == {0: 0.2, 3: 0.8}, "what a selector says stands"


@pytest.mark.parametrize("name", ["clip", "most_step", "most_weight"])
def test_a_limit_must_be_finite_and_not_negative(name):
    with pytest.raises(InputError, match=rf"safeguards.{name} must be >= 0 \(0 = no limit\); got -1.0"):
        Safeguards(**{name: -1.0})
    with pytest.raises(InputError, match=rf"safeguards.{name} must be finite; got inf"):
        Safeguards(**{name: float("inf")})


# --- in runs ---------------------------------------------------------------------------------------------------------


def test_honest_runs_are_the_same_with_and_without_safeguards():
    unguarded = {"most_step": 0.0, "most_weight": 0.0}
    assert play(toy(rounds=4)).digest == play(toy(rounds=4, safeguards=unguarded)).digest


@pytest.mark.parametrize("sharing", ["fedavg", "fedprox", "scaffold", "fedper"])
@pytest.mark.parametrize("codec", ["identity", "quantized"])
def test_one_message_of_one_client_does_not_end_a_run(sharing, codec):
    experiment = toy(rounds=6, sharing=sharing, codec={"name": codec})
    state, rows = attacked(experiment, attack=scaled(1e20), rounds=(4,))
    assert state.round == 6
    assert {row.round: sorted(row.failed) for row in rows if row.failed} == {4: [0]}
    assert rows[3].failed[0].startswith(LEFT_OUT)
    assert state.failures["training"] == 1
    assert rows[-1].validation == pytest.approx(run(experiment)[1][-1].validation, rel=0.2)


def test_a_client_that_trains_alone_does_not_end_a_run_either():
    experiment = toy(rounds=4, selector=scripted((0, 1, 2), (0,), (0,), (1, 2)))
    state, rows = attacked(experiment, attack=scaled(1e20), rounds=(2, 3))
    assert [sorted(row.failed) for row in rows] == [[], [0], [0], []]
    assert state.merges == 2


def test_a_model_that_is_not_finite_is_not_merged():
    model = {"w": np.array([3e38], np.float32)}
    state = RunState([{"examples": 1.0}] * 3, sharing={"model": model})
    trained = TrainReplies(
        {client: {"w": np.array([size], np.float32)} for client, size in enumerate((-1e38, 3e38, 2e38))},
        {client: {"loss": 1.0} for client in range(3)},
    )
    merging = Merging(FedAvg(), safeguards=Safeguards(most_step=0.0))
    merged, arrived = merging.merge(state, ArrivedUpdates(trained, dict.fromkeys(range(3), 1.0)))
    reason = "left out: with its update the model is not finite"
    assert merged
    assert arrived.trained.failed == {1: reason, 2: reason}, "the largest first, until what is left can be merged"
    assert state.sharing["model"]["w"].tolist() == pytest.approx([2e38])
    merged, arrived = merging.merge(state, ArrivedUpdates(replace(trained, uploads={1: {"w": model["w"]}}), {1: 1.0}))
    assert not merged, "nothing is left"
    assert arrived.trained.uploads == {}
    assert state.sharing["model"]["w"].tolist() == pytest.approx([2e38]), "the model is as it was"


def test_without_safeguards_it_would():
    experiment = toy(rounds=2, selector=scripted((0, 1), (0, 1)), safeguards={"most_step": 0.0})
    state, _ = attacked(experiment, attack=scaled(1e10), rounds=(1,))
    assert max(np.abs(array).max() for array in state.sharing["model"].values()) > 1e8


@cache
def flipped(codec):
    """What the last model of a run without any rule scores where a client turns its updates around."""
    _, rows = attacked(toy(rounds=5, selector="all", codec={"name": codec}), attack=scaled(-20.0))
    return rows[-1].validation


@pytest.mark.parametrize("rule", ["median", "trimmed_mean", "krum", "geometric_median"])
@pytest.mark.parametrize("codec", ["identity", "quantized", "low_rank", "sparse"])
def test_rules_work_with_every_codec_and_hold_against_a_sign_flip(rule, codec):
    experiment = toy(rounds=5, selector="all", aggregation=rule, codec={"name": codec})
    honest = run(experiment)[1][-1].validation
    _, rows = attacked(experiment, attack=scaled(-20.0))
    assert abs(rows[-1].validation - honest) < abs(flipped(codec) - honest)


@pytest.mark.parametrize("rule", ["krum", "trimmed_mean"])
def test_one_liar_of_four_is_survived_though_a_fifth_of_four_is_less_than_one(rule):
    four = {"rounds": 4, "data": {"name": "fedgraft.testing.toy:Lines", "clients": 4}}
    honest = run(toy(**four))[1][-1].validation
    _, rows = attacked(toy(**four, aggregation=rule), attack=scaled(-20.0))
    _, plain = attacked(toy(**four), attack=scaled(-20.0))
    assert abs(rows[-1].validation - honest) < 0.5 * abs(plain[-1].validation - honest)


def test_the_fewest_that_were_merged_at_a_time_are_noted_and_a_warning_says_where_no_liar_is_survived(caplog):
    cohorts = scripted((0, 1, 2), (0, 1), (0, 1), (0, 1, 2))
    said = "Round 2: Krum survives no liar among 2 updates to one model."
    state, _, _ = run(toy(rounds=4, selector=cohorts, aggregation="krum"))
    assert state.fewest == 2
    assert [record.getMessage() for record in caplog.records].count(said) == 1
    assert "survives" not in caplog.text.replace(said, "")
    caplog.clear()
    for rule in ({"name": "mean"}, {"name": "krum", "share": 0.0}):
        assert run(toy(rounds=2, selector=scripted((0, 1), (0,)), aggregation=rule))[0].fewest == 1
    assert "survives" not in caplog.text, "nobody asked for a rule that does"


def test_groups_are_counted_by_themselves():
    """With GCFL split in two, a rule sees the updates of one cluster at a time, and weights stay what they were."""
    options = {"name": "gcfl", "mean_norm": 1e9, "max_norm": 0.0, "after": 1}
    split, _, _ = run(toy(rounds=6, selector="all", sharing=options, aggregation="median"))
    assert len(split.sharing["models"]) > 1
    plain, _, _ = run(toy(rounds=6, selector="all", sharing=options))
    guarded, _, _ = run(toy(rounds=6, selector="all", sharing=options, safeguards={"clip": 1e9}))
    assert same(plain.sharing["models"], guarded.sharing["models"])


def test_noise_and_claims_are_attacks_too():
    experiment = toy(rounds=2, selector="all")
    claimed, rows = attacked(experiment, attack=noise(1.0), examples=2**30)
    assert claimed.examples[0] == 2**30
    assert not rows[-1].failed
