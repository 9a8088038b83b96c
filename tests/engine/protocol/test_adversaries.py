"""Against whom a claim holds: by how many clients' noise the smallest sum holds that each adversary can have."""

from dataclasses import replace

import pytest

from fedgraft.engine.privacy.mechanism import mechanism_of
from fedgraft.engine.privacy.options import Privacy
from fedgraft.engine.protocol.adversaries import HONEST, LYING, SIGNED, adversaries, replaced, smallest_sum
from fedgraft.testing.runs import toy

ROUNDS, NUMBERS = 30, 500
SUMMABLE = {"codec": {"name": "quantized", "scale": "agreed"}, "evaluation": {"at": "clients"}}


def rows(cohort, shares, epsilon=4.0, **sums):
    """{adversary: its row} of a plan in which a client is the unit."""
    privacy = Privacy(unit="client", epsilon=epsilon, delta=1e-3, shares=shares)
    plan = replace(toy(secure_sum={"name": "secagg", **sums}, **SUMMABLE).plan, privacy=privacy)
    found = adversaries(plan, mechanism_of(privacy, ROUNDS, NUMBERS), cohort)
    return {row["adversary"]: row for row in found}


@pytest.mark.parametrize(("cohort", "shares"), [(3, 2), (4, 3), (5, 4), (8, 7), (10, 9), (100, 90)])
def test_a_client_that_knows_its_own_noise_counts(cohort, shares):
    """With all shares counted it would be 4.31 of eight, 4.72 of four, 5.06 of three clients."""
    found = rows(cohort, shares)
    assert found[HONEST]["epsilon"] <= 4.0
    assert found[HONEST]["together"] == cohort - shares


def test_without_signed_keys_no_epsilon_is_said_of_a_server_that_lies():
    found = rows(10, 9)
    assert found[LYING]["epsilon"] is None
    assert "secure_sum.signed = true" in found[LYING]["why"]
    assert SIGNED not in found


def test_with_signed_keys_it_reaches_the_smallest_sum_that_unmasks():
    """Of nine neighbours eight must stay: 2 * 8 - 9 + 1 = 8 clients, of whom one is curious."""
    found = rows(10, 9, signed=True)
    assert found[LYING]["epsilon"] is None
    assert found[SIGNED]["clients"] == 8
    assert 4.0 < found[SIGNED]["epsilon"] < 4.5
    assert rows(100, 90, signed=True)[SIGNED]["clients"] == 80


def test_few_neighbours_that_are_asked_for_are_counted():
    privacy = Privacy(unit="client", epsilon=4.0, delta=1e-3, shares=9)
    sums = {"name": "secagg", "signed": True}
    every, few = (toy(secure_sum={**sums, "neighbours": k}, **SUMMABLE).plan for k in (0, 4))
    known = [smallest_sum(replace(plan, privacy=privacy), 10) for plan in (every, few)]
    assert known == [8, 5], "of four neighbours all must confirm"


def test_noise_of_each_client_alone_covers_every_server():
    found = rows(10, 1)
    assert [found[who]["epsilon"] for who in (HONEST, LYING, SIGNED)] == pytest.approx([4.0] * 3, abs=0.01)


def test_a_unit_that_is_replaced_moves_a_sum_twice_as_far():
    """A claim of 4 at delta 1e-5 is 9.1 then."""
    noise = mechanism_of(Privacy(unit="client", epsilon=4.0, delta=1e-5, shares=90), 1, NUMBERS)
    assert replaced(noise) == pytest.approx(9.1, abs=0.1)
