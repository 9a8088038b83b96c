import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.methods.rl import replay

EMPTY = replay.empty({"seen": (2,), "done": ()}, whole=("done",))


def rows(*numbers):
    return {"seen": [[number, -number] for number in numbers], "done": list(numbers)}


def test_an_empty_memory_has_no_rows_of_the_given_kinds():
    assert replay.size(EMPTY) == 0
    assert {name: (array.shape, array.dtype.name) for name, array in EMPTY.items()} == {
        "seen": ((0, 2), "float32"),
        "done": ((0,), "int64"),
    }


@given(most=st.integers(1, 7), parts=st.lists(st.integers(1, 10), max_size=5))
def test_the_newest_are_kept_however_many_come_at_once(most, parts):
    memory, number = EMPTY, 0
    for part in parts:
        before = wire.pack(memory)
        after = replay.remembered(memory, rows(*range(number, number + part)), most)
        assert wire.pack(memory) == before
        memory, number = after, number + part
    assert memory["done"].tolist() == list(range(number))[-most:]
    assert memory["seen"][:, 1].tolist() == [-k for k in memory["done"]]
    assert replay.size(wire.unpack(wire.pack(memory))) == min(number, most)


def test_rows_are_drawn_together_with_replacement():
    memory = replay.remembered(EMPTY, rows(1, 2, 3), 5)
    drawn = replay.draw(memory, 50, np.random.default_rng(0))
    assert set(drawn["done"].tolist()) == {1, 2, 3}
    assert drawn["seen"][:, 0].tolist() == drawn["done"].tolist()
