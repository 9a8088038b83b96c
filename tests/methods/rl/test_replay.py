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


@given(most=st.integers(1, 7), parts=st.lists(st.integers(1, 10), max_size=5))
def test_what_transitions_have_in_common_is_kept_once(most, parts):
    memory = replay.empty({"seen": (2,), "done": (), replay.PLACE: ()}, whole=("done",))
    apart = EMPTY
    for number, part in enumerate(parts, start=1):
        before, done = wire.pack(memory), [10 * number + k for k in range(part)]
        after = replay.remembered_together(memory, {"done": done}, {"seen": [number, -number]}, most)
        assert wire.pack(memory) == before
        memory = wire.unpack(wire.pack(after))
        apart = replay.remembered(apart, {"seen": [[number, -number]] * part, "done": done}, most)
    assert replay.size(memory) == replay.size(apart) == min(sum(parts), most)
    assert memory["done"].tolist() == apart["done"].tolist()
    assert memory["seen"][memory["place"]].tolist() == apart["seen"].tolist()
    assert len(memory["seen"]) == len(set(memory["place"].tolist())), "what nobody has any more is forgotten"
    if parts:
        one, other = (
            replay.draw(kept, 9, np.random.default_rng(1), common)
            for kept, common in ((apart, ()), (memory, ("seen",)))
        )
        assert other["done"].tolist() == one["done"].tolist()
        assert other["seen"][other["place"]].tolist() == one["seen"].tolist()
        assert len(other["seen"]) == len({*other["place"].tolist()})


def test_rows_are_drawn_together_with_replacement():
    memory = replay.remembered(EMPTY, rows(1, 2, 3), 5)
    drawn = replay.draw(memory, 50, np.random.default_rng(0))
    assert set(drawn["done"].tolist()) == {1, 2, 3}
    assert drawn["seen"][:, 0].tolist() == drawn["done"].tolist()
