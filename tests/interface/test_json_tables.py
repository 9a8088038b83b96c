"""Tables as JSON: what is read is what was written, and what is written every parser can read."""

import json

import numpy as np
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.interface import json_tables
from fedgraft.interface.json_tables import RefusedError, read_request, rendered


def read(table: object, most: int = 100) -> pd.DataFrame:
    return read_request(json.dumps({"tables": {"asked": table}}).encode(), most).tables["asked"]


def test_rows_may_lack_what_others_have() -> None:
    found = read([{"id": 7, "width": 1.5}, {"width": 2, "note": "a"}, {"id": None, "note": None}])
    assert list(found) == ["id", "width", "note"]
    assert found["id"].tolist() == [7, None, None], "whole numbers are ids: 7 is not 7.0"
    assert found["width"].tolist()[:2] == [1.5, 2.0]
    assert found["note"].isna().tolist() == [True, False, True]


def test_a_table_may_be_given_by_columns_also_without_rows() -> None:
    rows = read([{"a": 1, "b": "x"}, {"a": 2, "b": " y"}])
    pd.testing.assert_frame_equal(read({"a": [1, 2], "b": ["x", " y"]}), rows)
    assert (list(read({"a": [], "b": []})), len(read({"a": []}))) == (["a", "b"], 0)
    assert read([]).shape == read({}).shape == (0, 0)


@pytest.mark.parametrize("values", [[1, 2], [1.5, 2], ["1", "007"], [True, False], [2**70, 1], [1, "a"], [None, None]])
def test_what_is_echoed_is_what_was_asked(values: list[object]) -> None:
    assert json.loads(rendered(read({"a": values}))) == {"answers": [{"a": value} for value in values]}


def test_answers_are_plain_json() -> None:
    answers = pd.DataFrame(
        {
            "small": np.array([0.1, np.nan, np.inf], np.float32),
            "large": [0.1, -np.inf, 1e300],
            "rank": np.arange(3),
            "id": np.array([np.int64(3), None, pd.NA], object),
            "text": ["ü", None, "a\n"],
            "sure": [True, False, True],
        }
    )
    assert json.loads(rendered(answers))["answers"] == [
        {"small": 0.1, "large": 0.1, "rank": 0, "id": 3, "text": "ü", "sure": True},
        {"small": None, "large": None, "rank": 1, "id": None, "text": None, "sure": False},
        {"small": None, "large": 1e300, "rank": 2, "id": None, "text": "a\n", "sure": True},
    ]
    assert rendered(answers.iloc[:0]) == b'{"answers": []}'


def test_rows_that_name_ever_new_columns_do_not_fill_the_memory(monkeypatch) -> None:
    monkeypatch.setattr(json_tables, "MOST_CELLS", 100)
    wide = [{f"a{row}": row} for row in range(10)]
    assert read(wide).shape == (10, 10)
    with pytest.raises(RefusedError, match=r"^--asked has 11 columns of 11 rows; all tables may have 100 cells\.$"):
        read([*wide, {"b": 1}])
    body = json.dumps({"tables": {"one": wide, "two": [{"a": 1}]}}).encode()
    with pytest.raises(RefusedError, match=r"^--two has 1 columns of 1 rows") as caught:
        read_request(body, 100)
    assert caught.value.status == 413


def test_a_cell_is_no_list_and_no_object() -> None:
    for value, kind in (([1], "a list"), ({}, "an object")):
        with pytest.raises(InputError, match=rf"^--asked, row 2: 'a' must be a text, .* or null; got {kind}\.$"):
            read([{"a": 1}, {"a": value}])
