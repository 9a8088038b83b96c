"""Shares: by hand, every threshold of them rebuilds, one fewer fits every secret."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import ClientError
from fedgraft.secrets.masked_sum import PRIME, rebuilt, shares
from fedgraft.secrets.sizes import SHARE_BYTES

FIELD = st.integers(0, PRIME - 1)


def test_by_hand():
    """Of 5 + 3 x + 2 x^2 in the field of 11: 10, 19 = 8, 32 = 10, 49 = 5."""
    assert shares(5, [3, 2], [1, 2, 3, 4], 11) == [10, 8, 10, 5]
    assert rebuilt({1: 10, 2: 8, 4: 5}, 3, 11) == 5


def test_every_subset_rebuilds_and_one_share_fewer_fits_every_secret():
    prime, coefficients, places = 13, [7, 4], [1, 2, 5, 11]
    made = dict(zip(places, shares(6, coefficients, places, prime), strict=True))
    for chosen in combinations(places, 3):
        assert rebuilt({place: made[place] for place in chosen}, 3, prime) == 6
    for chosen in combinations(places, 2):
        known = {place: made[place] for place in chosen}
        fits = {
            secret
            for secret in range(prime)
            for one in range(prime)
            for two in range(prime)
            if dict(zip(chosen, shares(secret, [one, two], chosen, prime), strict=True)) == known
        }
        assert fits == set(range(prime))


@given(FIELD, st.lists(FIELD, max_size=5), st.integers(0, 4))
def test_secrets_of_the_field_come_back(secret, coefficients, more):
    places = list(range(1, len(coefficients) + 2 + more))
    made = dict(zip(places, shares(secret, coefficients, places), strict=True))
    assert rebuilt(dict(list(made.items())[more:]), len(coefficients) + 1) == secret
    assert all(share < 2 ** (8 * SHARE_BYTES) for share in made.values())


def test_too_few_are_said():
    with pytest.raises(ClientError, match="2 shares of a secret are too few: 3 rebuild it"):
        rebuilt({1: 4, 2: 5}, 3)


def test_the_field_is_that_of_a_prime():
    assert all(pow(base, PRIME - 1, PRIME) == 1 for base in (2, 3, 5, 7, 11, 13))
    assert 2**256 < PRIME < 2 ** (8 * SHARE_BYTES)
