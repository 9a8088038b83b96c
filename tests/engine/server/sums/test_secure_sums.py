"""Updates are added up before the server sees one of them: the mean of what clients made, whoever answers."""

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.client.client import Client
from fedgraft.engine.halo_codec import part_of
from fedgraft.engine.privacy.secure_sum import CODES, COUNT, KEYS, PEERS, SCALES, TOTAL, WEIGHT, whole
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import WireError
from fedgraft.testing.runs import play, toy
from fedgraft.wire import packing

ADDED = {
    "codec": {"name": "quantized", "scale": "agreed", "bits": 5, "rounding": "stochastic"},
    "evaluation": {"at": "clients"},
}


def sum_bits(bits, total):
    """Bits of a sum of codes of so many bits, with weights of `total` in all."""
    return ((2**bits - 1) * total).bit_length()


def adding(name="clear", options=None, **sections):
    """A toy experiment whose five clients' updates are added up; `options` are others of [secure_sum]."""
    return toy(secure_sum={"name": name, **(options or {})}, **{**ADDED, **sections})


def orders_of(experiment, played, round=1):
    """{client: (the scalars, the scales) that came with its order to train}."""
    plan = experiment.plan
    decoded = {
        sent.client: wire.decode(sent.message, Protocol.of(plan).request_layouts, Protocol.of(plan).request_names)
        for sent in played.sent
        if (sent.kind, sent.round) == ("train", round)
    }
    return {client: (dict(message.report), message.arrays[SCALES]) for client, message in decoded.items()}


def codes_of(experiment, played, total, round=1):
    """{client: the codes that it sent}."""
    plan = experiment.plan
    names, bits = {kind: Protocol.of(plan).report(kind) for kind in wire.KINDS}, plan.sum_coding.sum_bits(total)
    sent = [each for each in played.received if (each.kind, each.round) == ("train", round)]
    arrays = {each.client: wire.decode(each.message, Protocol.of(plan).reply_layouts, names).arrays for each in sent}
    return {
        client: packing.unpack(part_of(each, plan.coded_upload_layout)[CODES], plan.sum_coding.codes, bits)
        for client, each in arrays.items()
    }


def test_the_model_moves_by_the_decoded_sum():
    experiment = adding()
    played = play(experiment, stop_after=1)
    told = orders_of(experiment, played)
    assert all(report == {WEIGHT: 1.0, TOTAL: 5.0} for report, _ in told.values())
    codes = codes_of(experiment, played, 5)
    total = np.sum(list(codes.values()), axis=0, dtype=np.uint64)
    mean = experiment.plan.sum_coding.mean(total, 5, told[0][1])
    before, after = experiment.plan.first, experiment.plan.sharing.model(played.state.sharing)
    for name, moved in mean.items():
        np.testing.assert_allclose(after[name], before[name] + moved, rtol=1e-6)
        assert np.abs(moved).max() > 0


def test_it_learns_what_it_learns_without():
    """At twelve bits there is next to no rounding: weights of examples or of clients alike make the same line."""
    fine = {**ADDED["codec"], "bits": 12}
    plain = play(toy(sharing={"name": "fedavg", "weights": "equal"}, rounds=10))
    added = play(adding(codec=fine, rounds=10))
    scores = [played.state.curve[-1]["test"] for played in (plain, added)]
    assert scores[1] == pytest.approx(scores[0], rel=0.02)
    assert added.rows[-1].loss != added.rows[-1].loss, "nobody tells its own loss"


def test_weights_are_whole_numbers_in_proportion_to_examples():
    experiment = adding(options={"most_weight": 6})
    told = orders_of(experiment, play(experiment, stop_after=1))
    assert [told[client][0][WEIGHT] for client in range(5)] == [2, 4, 6, 2, 4]
    assert {report[TOTAL] for report, _ in told.values()} == {18}


def test_scales_follow_from_round_to_round_and_are_stored():
    experiment = adding()
    played = play(experiment)
    scales = [orders_of(experiment, played, round)[0][1] for round in (1, 2, 3)]
    assert not np.array_equal(scales[0], scales[1])
    stopped = play(adding(), stop_after=1)
    np.testing.assert_array_equal(stopped.state.sum_scales[SCALES], scales[1])
    resumed = play(adding(), stored=(stopped.state, stopped.memories))
    assert resumed.digest == played.digest


def test_who_fails_is_not_in_the_sum():
    def away(kind, round, client, reply):
        return ClientFailed("gone") if (kind, client) == ("train", 2) else reply

    experiment = adding()
    played = play(experiment, tamper=away)
    assert played.rows[0].failed == {2: "gone"}
    codes = codes_of(experiment, play(experiment, stop_after=1), 5)
    del codes[2]
    total = np.sum(list(codes.values()), axis=0, dtype=np.uint64)
    stopped = play(experiment, tamper=away, stop_after=1)
    mean = experiment.plan.sum_coding.mean(total, 4, experiment.plan.sum_coding.first(1.0))
    after = experiment.plan.sharing.model(stopped.state.sharing)
    for name, before in experiment.plan.first.items():
        np.testing.assert_allclose(after[name], before + mean[name], rtol=1e-5)


def test_a_sum_of_few_is_none_and_said(caplog):
    def away(kind, round, client, reply):
        return ClientFailed("gone") if kind == "train" and client > 1 and round == 1 else reply

    played = play(adding(), tamper=away, stop_after=2)
    assert "Round 1 has no sum of updates: 2 clients are fewer than the 3 that a sum must be of" in caplog.text
    assert [set(row.failed) for row in played.rows] == [{2, 3, 4}, set()]
    assert played.state.merges == 1


def test_a_sum_that_no_codes_have_moves_nothing(caplog):
    """A client that sends numbers beyond its codes spoils the sum, and nobody knows who it was."""
    experiment = adding()
    plan, coding = experiment.plan, experiment.plan.sum_coding

    def spoilt(kind, round, client, reply):
        if (kind, round, client) != ("train", 1, 1):
            return reply
        codes = np.full(-(-coding.codes // 8) * 8, 2 ** sum_bits(5, 5) - 1, packing.code_type(sum_bits(5, 5)))
        codes[coding.codes :] = 0
        arrays = {CODES: packing.pack(codes, coding.codes, sum_bits(5, 5))}
        return wire.encode(
            wire.Message("train", round, {}, arrays),
            Protocol.of(plan).reply_layouts["train"],
            Protocol.of(plan).report("train"),
        )

    played = play(experiment, tamper=spoilt, stop_after=2)
    assert played.state.merges == 1
    assert "Round 1 has no sum of updates: no sum of" in caplog.text


def test_codes_that_are_none_are_their_client_s_failure():
    experiment = adding()
    plan = experiment.plan

    def short(kind, round, client, reply):
        if (kind, client) != ("train", 1):
            return reply
        names = {each: Protocol.of(plan).report(each) for each in wire.KINDS}
        message = wire.decode(reply, Protocol.of(plan).reply_layouts, names)
        cut = {**message.arrays, CODES: message.arrays[CODES][:-1]}
        return wire.encode(
            wire.Message("train", round, {}, cut),
            Protocol.of(plan).reply_layouts["train"],
            Protocol.of(plan).report("train"),
        )

    failed = play(experiment, tamper=short, stop_after=1).rows[0].failed
    assert list(failed) == [1]
    with pytest.raises(WireError) as said:
        packing.unpack(np.zeros(1, np.uint8), plan.sum_coding.codes, sum_bits(5, 5))
    assert failed[1].split(" take ")[0] == str(said.value).split(" take ")[0]


@pytest.mark.parametrize(
    ("name", "signed"), [("clear", False), ("secagg", False), pytest.param("secagg", True, marks=pytest.mark.slow)]
)
def test_a_budget_holds(name, signed):
    whole = play(adding(name, {"signed": signed}, rounds=20)).state
    budget = sum(whole.bytes[direction] for direction in ("down", "up")) // 2
    cut = play(adding(name, {"signed": signed}, rounds=20, budget={"bytes": budget})).state
    assert cut.finished == "budget"
    assert budget * 0.7 < cut.bytes["down"] + cut.bytes["up"] <= budget


def masked(kinds=("train",), clients=(), rounds=(1,)):
    """A tamper by which these clients are gone for requests of these kinds."""
    return lambda kind, round, client, reply: (
        ClientFailed("gone") if kind in kinds and client in clients and round in rounds else reply
    )


@pytest.mark.parametrize(
    ("kinds", "clients"),
    [((), ()), (("train",), (2,)), (("keys",), (1, 4)), (("shares",), (3,)), (("confirm",), (2,)), (("unmask",), (2,))],
)
def test_masks_change_no_bit(kinds, clients):
    """The model of a masked run is that of a clear one whose updates were the same clients'."""
    lost = clients if kinds not in [("unmask",), ("confirm",)] else ()
    clear = play(adding(), tamper=masked(("train",), lost))
    hidden = play(adding("secagg", {"signed": kinds == ("confirm",)}), tamper=masked(kinds, clients))
    assert hidden.state.merges == 3
    assert hidden.digest == clear.digest
    assert hidden.rows[0].failed.keys() == set(lost)


def test_a_masked_round_with_too_few_shares_has_no_sum(caplog):
    played = play(adding("secagg"), tamper=masked(("unmask",), (0, 1, 2)), stop_after=2)
    assert "Round 1 has no sum of updates: 2 shares of a secret are too few: 3 rebuild it" in caplog.text
    assert played.state.merges == 1
    few = play(adding("secagg"), tamper=masked(("keys",), (0, 1, 2)), stop_after=2)
    assert "Round 1 has no sum of updates: 0 clients are fewer" in caplog.text
    assert few.state.merges == 1


def test_a_round_is_four_exchanges_and_its_masks_are_charged():
    experiment = adding("secagg")
    played = play(experiment, stop_after=1)
    kinds = [sent.kind for sent in played.sent if sent.client == 0 and sent.round == 1]
    assert kinds == ["keys", "shares", "train", "unmask", "keys", "shares", "evaluate", "unmask"]
    up = sum(len(each.message) - wire.header_bytes(each.message) for each in played.received if each.kind == "keys")
    assert up == 3 * 5 * 64, "of the updates and scores of a round, and of scores before it"
    assert played.charged["masking"] > 2 * 5 * (64 + 4 * 64 + 4 * 82 + 4 * 33)
    assert play(adding(), stop_after=1).charged["masking"] == 0
    signed = play(adding("secagg", {"signed": True}), stop_after=1)
    kinds = [sent.kind for sent in signed.sent if sent.client == 0 and sent.round == 1]
    assert kinds == ["keys", "shares", "train", "confirm", "unmask", "keys", "shares", "evaluate", "confirm", "unmask"]
    more = signed.charged["masking"] - played.charged["masking"]
    assert 3 * 5 * (5 * 132 + 2 * 4 * 16) < more < 3 * 5 * (5 * 132 + 2 * 4 * 16 + 100)


def test_scores_are_added_up_too():
    """What all say of held-out points is known to a 65,536th, and of nobody alone."""
    plain, clear, hidden = (
        play(each, stop_after=1) for each in (toy(evaluation={"at": "clients"}), adding("clear"), adding("secagg"))
    )
    assert hidden.state.curve[-1]["test"] == clear.state.curve[-1]["test"]
    assert plain.state.scores.keys() == {str(client) for client in range(5)}
    assert clear.state.scores == hidden.state.scores == {}
    one, two = (played.state.best["sums"]["test"] for played in (clear, hidden))
    assert one == two


def test_scores_of_too_few_are_none():
    played = play(adding("secagg"), tamper=masked(("evaluate",), (0, 1, 2)), stop_after=2)
    assert played.state.curve[1]["lacking"] == 5
    assert "no sum of scores: 2 clients are fewer than the 3 that a sum must be of" in played.rows[0].failed[3]
    assert "lacking" not in played.state.curve[2]


def test_no_message_of_a_masked_round_holds_codes():
    """Equal updates, in one round, are bytes that have nothing to do with each other, nor with the clear ones."""
    clear, hidden = adding(), adding("secagg")
    plain = codes_of(clear, play(clear, stop_after=1), 5)
    seen = codes_of(hidden, play(hidden, stop_after=1), 5)
    sums = [np.sum(list(each.values()), axis=0, dtype=np.uint64) % 2 ** sum_bits(5, 5) for each in (plain, seen)]
    assert all((seen[client] != plain[client]).any() for client in plain)
    assert (sums[0] != sums[1]).any(), "each has a mask of its own"


def test_what_a_client_remembers_of_a_masked_round_is_no_secret():
    """Who is asked to unmask forgets the round; who is dead by then knows public keys, and what is encrypted for it."""
    played = play(adding("secagg"), tamper=masked(clients=(2,), kinds=("evaluate",)), stop_after=1)
    kept = {client: wire.unpack(memory)["sum"] for client, memory in played.remembered.items() if memory}
    assert {client: set(each) for client, each in kept.items()} == {
        2: {"round", "segment", "share", "peers", "keys", "present", "boxes"}
    }


@pytest.mark.parametrize(
    ("count", "peers", "said"),
    [
        (2, [1, 2], "a sum of 2 clients, of whom 3 are the fewest"),
        (5, [1, 2, 3], "3 neighbours among 5 clients, of which 4 are needed"),
        (5, [0, 1, 2, 3], "neighbours that are none"),
        (5, [1, 1, 2, 3], "neighbours that are none"),
    ],
)
def test_a_client_seals_shares_for_as_many_as_are_safe_alone(count, peers, said):
    experiment = adding("secagg")
    plan = experiment.plan
    client = Client(plan, dict(enumerate(experiment.shards())))
    told = {PEERS: np.array(peers, np.uint32), KEYS: np.zeros((len(peers), 64), np.uint8)}
    message = wire.Message("shares", 1, {COUNT: float(count)}, told)
    served = client.serve(
        0,
        wire.encode(message, Protocol.of(plan).request_layouts["shares"], Protocol.of(plan).request_names["shares"]),
        b"",
    )
    assert said in served.reason


def test_a_negative_sum_of_scores_is_none():
    experiment = adding()
    plan = experiment.plan

    def spoilt(kind, round, client, reply):
        if (kind, round, client) != ("evaluate", 1, 1):
            return reply
        codes = whole(np.full(2 * len(plan.task.sums), -(2.0**30))).astype("<u8").view(np.uint8)
        return wire.encode(wire.Message("evaluate", 1, {}, {CODES: codes}), Protocol.of(plan).reply_layouts["evaluate"])

    played = play(experiment, tamper=spoilt, stop_after=2)
    assert played.state.curve[1]["lacking"] == 5
    assert "a sum is negative, and nobody knows whose scores were" in played.rows[0].failed[0]
    assert "lacking" not in played.state.curve[2]


@pytest.mark.parametrize(
    ("report", "arrays"),
    [
        ({WEIGHT: 2.0, TOTAL: 5.0}, {}),
        ({WEIGHT: 0.5, TOTAL: 5.0}, {}),
        ({WEIGHT: 1.0, TOTAL: 2.0**31}, {}),
        ({WEIGHT: 1.0, TOTAL: 5.0}, {SCALES: np.array([np.inf], np.float32)}),
    ],
)
def test_a_client_takes_no_weights_and_scales_that_are_none(report, arrays):
    experiment = adding()
    plan = experiment.plan
    client = Client(plan, dict(enumerate(experiment.shards())))
    model = plan.downlink.encode(plan.first, plan.downlink.init(plan.download_layout), np.random.default_rng(0))[0]
    order = {**model, SCALES: plan.sum_coding.first(1.0), **arrays}
    request = wire.Message("train", 1, report, order)
    served = client.serve(
        0,
        wire.encode(request, Protocol.of(plan).request_layouts["train"], Protocol.of(plan).request_names["train"]),
        b"",
    )
    assert wire.kind_of(served.reply) == "error"
    assert "sum" in served.reason or "weight" in served.reason
