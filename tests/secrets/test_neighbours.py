"""Who shares masks with whom: regular, symmetric, connected, drawn by a public seed, and as few as are safe."""

import pytest

from fedgraft.secrets.neighbours import degree, expected, graph, threshold


@pytest.mark.parametrize(("clients", "k"), [(3, 2), (10, 9), (13, 12), (50, 12), (100, 24), (200, 32), (1000, 46)])
def test_how_many_neighbours_are_safe(clients, k):
    assert degree(clients, 0.55) == k


@pytest.mark.parametrize(("clients", "k"), [(3, 2), (9, 4), (40, 12), (40, 39), (100, 24)])
def test_each_has_as_many_and_all_are_connected(clients, k):
    numbers = list(range(0, 3 * clients, 3))
    made = graph(numbers, k, seed=5)
    assert set(made) == set(numbers)
    assert all(len(set(peers)) == len(peers) == k and client not in peers for client, peers in made.items())
    assert all(client in made[peer] for client, peers in made.items() for peer in peers)
    reached, waiting = set(), [numbers[0]]
    while waiting:
        client = waiting.pop()
        waiting += [peer for peer in made[client] if peer not in reached]
        reached |= set(made[client])
    assert reached == set(numbers)
    assert made == graph(numbers[::-1], k, seed=5)
    assert k == clients - 1 or made != graph(numbers, k, seed=6)


def test_a_threshold_is_more_than_half():
    assert [threshold(k, 0.55) for k in (2, 9, 24)] == [2, 5, 14]


def test_how_many_are_expected():
    assert [expected(clients, 0, 0.55) for clients in (5, 50, 100)] == [4, 12, 24]
    assert [expected(clients, 6, 0.55) for clients in (5, 50, 100)] == [4, 6, 6]
