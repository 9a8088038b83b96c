"""What clients tell of their classes before a run, and what the server makes of it."""

from typing import Any

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.domains.labels.class_notes import CLASSES, classes_of_all, published_classes
from fedgraft.domains.tables.column_statistics import all_alike
from fedgraft.domains.tables.labels import in_order
from fedgraft.errors import InputError


def told(label: list[int], classes: tuple[str, ...], split: list[int], least: int = 2) -> Any:
    """What a client publishes, as it arrives."""
    tree = published_classes(np.array(label), classes, np.array(split, np.int8), least)
    return {CLASSES: wire.unpack(wire.pack(tree))}


def test_names_are_told_and_numbers_from_so_many_training_rows_on() -> None:
    classes = told([0, 0, 1, 2, 2, -1], ("b", "a", "c", "none"), [0, 0, 0, 1, 1, -1])[CLASSES]
    assert classes["names"] == ["a", "b", "c"], "in text's order, those that occur"
    assert classes["count"].tolist() == [0, 2, 0], "one row of a is too few, and c is not for training"


def test_the_server_knows_how_many_there_are_at_least_and_at_most() -> None:
    published = [told([0, 0, 1], ("2", "10"), [0, 0, 0]), told([1, 1, 1], ("9", "10"), [0, 0, 0])]
    classes = classes_of_all(published, 2, (), in_order, False)
    assert classes is not None
    assert classes.names == ("2", "10"), "whole numbers are in their order"
    assert classes.least.tolist() == [2, 3]
    assert classes.most.tolist() == [2, 4]
    assert classes_of_all([{}], 2, (), in_order, False) is None


def test_clients_may_have_classes_of_their_own() -> None:
    published = [told([0, 1, 1], ("a", "b"), [0, 0, 0]), told([0, 1], ("a", "c"), [0, 0]), told([0], ("a",), [0])]
    one, two = (classes_of_all(part, 2, (), sorted, True) for part in (published, [published[0], published[2]]))
    assert one is not None
    assert two is not None
    assert (one.alike, two.alike) == (False, True), "who has one class answers with those of all"


@pytest.mark.parametrize(
    "classes",
    [
        5,
        {"names": ["a"]},
        {"names": "ab", "count": np.zeros(2, np.uint32)},
        {"names": ["a", "a"], "count": np.zeros(2, np.uint32)},
        {"names": ["a", 1], "count": np.zeros(2, np.uint32)},
        {"names": ["a"], "count": np.zeros(2, np.uint32)},
        {"names": ["a"], "count": np.zeros(1, np.float32)},
    ],
)
def test_what_no_client_can_have_published_is_refused(classes: Any) -> None:
    with pytest.raises(InputError, match="Client 1 has published something that is no names of classes"):
        classes_of_all([told([0], ("a",), [0]), {CLASSES: classes}], 2, (), in_order, False)


def test_a_class_that_is_not_in_the_list_of_the_recipe_is_refused() -> None:
    with pytest.raises(InputError, match=r"has the class 'c', which is none of task.class_names, \['a', 'b'\]"):
        classes_of_all([told([0], ("c",), [0])], 2, ("a", "b"), in_order, False)


def test_what_must_be_the_same_at_all_clients() -> None:
    assert all_alike([{"metapaths": ["a-b-a"]}] * 2) == {"metapaths": ("a-b-a",)}
    with pytest.raises(InputError, match=r"say task.metapaths: it is \['a-b-a'\] by those of client 0 and \[\] by"):
        all_alike([{"metapaths": ["a-b-a"]}, {"metapaths": []}])
    with pytest.raises(InputError, match="Client 1 has published something else than client 0"):
        all_alike([{"metapaths": []}, {}])
