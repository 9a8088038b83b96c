"""Where nine of ten must stay with each client, the formula takes all others as neighbours; fewer would lose rounds."""

import pytest

from fedgraft.engine.privacy.options import Privacy
from fedgraft.engine.privacy.secure_sum import SecureSum
from fedgraft.secrets.neighbours import expected, threshold
from fedgraft.testing.runs import toy


def share(clients, shares):
    noise = {"unit": "client", "epsilon": 4.0, "delta": 1e-3, "shares": shares}
    plan = toy(secure_sum={"name": "secagg"}, privacy=noise, evaluation={"at": "clients"}).plan
    assert (plan.privacy, plan.secure_sum) == (Privacy(**noise), SecureSum("secagg"))
    return plan.collection.staying(clients)


@pytest.mark.parametrize(("clients", "shares", "gone"), [(10, 9, 1), (30, 27, 3), (100, 90, 10)])
def test_all_others_are_neighbours_and_as_many_may_be_gone_as_shares_allow(clients, shares, gone):
    staying = share(clients, shares)
    k = expected(clients, 0, staying)
    assert k == clients - 1
    assert k - threshold(k, staying) == gone


@pytest.mark.parametrize(("clients", "usual"), [(30, 12), (100, 24)])
def test_without_noise_few_are_enough(clients, usual):
    assert expected(clients, 0, SecureSum().threshold) == usual
    assert usual - threshold(usual, share(clients, clients * 9 // 10)) <= 2, "with noise hardly one of few may be gone"
