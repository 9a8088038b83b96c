"""Full participation."""

from fedgraft.methods.selectors.all import All


def test_takes_everybody_available(view, g):
    assert All().select(None, view(4), g).clients == (0, 1, 2, 3)
    assert All().select(None, view(3, available=[True, False, True]), g).clients == (0, 2)
    assert All().select(None, view(1), g).clients == (0,)


def test_weights_are_left_to_the_loop(view, g):
    assert All().select(None, view(4), g).weights is None


def test_little_budget_keeps_the_clients_with_most_examples(view, g):
    seen = view(4, samples=[5, 9, 9, 7], bytes_left=250)
    assert All().select(None, seen, g).clients == (1, 2)
    # 1 and 2 cost 180 of 200; the next in order, 3, no longer fits, but 0 does.
    seen = view(4, samples=[5, 9, 9, 7], bytes_per_client=[20, 90, 90, 30], bytes_left=200)
    assert All().select(None, seen, g).clients == (0, 1, 2)
    assert All().select(None, view(4, bytes_left=99), g).clients == ()
