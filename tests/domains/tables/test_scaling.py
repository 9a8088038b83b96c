"""Columns of features brought to one size by statistics of all clients: worked examples, and laws."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedgraft import wire
from fedgraft.domains.tables.column_statistics import MANY, MOST_TEXTS, agreed, statistics_of
from fedgraft.domains.tables.columns import Columns, of_matrix, read_columns
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.transforms import Transforms, notes_on
from fedgraft.errors import InputError

Texts = dict[str, list[Any]]


def columns_of(**values: list[Any]) -> Columns:
    frame = pd.DataFrame(values)
    return read_columns(Rows.of_frame(frame, "a.csv"), list(frame))


def transforms_of(*parts: Columns, scaling: Any = "auto", least: int = 1) -> dict[str, dict[str, Any]]:
    published = [wire.unpack(wire.pack(statistics_of(part, least, scaling, "a.csv"))) for part in parts]
    return agreed(published, scaling)


def dense(transforms: Transforms, columns: Columns) -> list[list[float]]:
    rows: list[list[float]] = transforms.dense(columns).tolist()
    return rows


# --- worked examples --------------------------------------------------------------------------------------------------


def test_mean_and_spread_are_those_of_all_clients() -> None:
    """By hand: 1 2 3 at one, 6 8 at the other: mean 4, variance (9 + 4 + 1 + 4 + 16) / 5 = 6.8."""
    transforms = transforms_of(columns_of(age=[1, 2, 3]), columns_of(age=[6, 8]))
    assert transforms["age"] == pytest.approx({"mean": 4.0, "spread": 6.8**0.5})
    features = Transforms(transforms).features(columns_of(age=[4, 9]))
    assert features.ravel().tolist() == pytest.approx([0, 5 / 6.8**0.5])


def test_heavy_tails_are_taken_by_their_logarithm() -> None:
    amounts = np.exp(np.random.default_rng(0).normal(4, 2.5, 400)).tolist()
    ages = np.random.default_rng(1).normal(40, 10, 400).tolist()
    transforms = transforms_of(columns_of(amount=amounts, age=ages))
    assert transforms["amount"]["unit"] in (1e-3, 1.0)
    assert "unit" not in transforms["age"]
    features = Transforms(transforms).features(columns_of(amount=amounts, age=ages))
    assert np.abs(features[:, 0]).max() < 6
    debts = [-each for each in amounts]
    assert transforms_of(columns_of(amount=debts, age=ages))["amount"]["mean"] < 0
    assert "unit" not in transforms_of(columns_of(amount=amounts), scaling="standard")["amount"]


def test_flags_and_bags_of_words_stay() -> None:
    g = np.random.default_rng(0)
    words = (g.random((60, MANY)) < 0.1) * g.integers(1, 5, (60, MANY))
    assert transforms_of(of_matrix(words, "x")) == {}
    assert transforms_of(of_matrix(sparse.csr_matrix(words), "x")) == {}
    assert transforms_of(columns_of(flag=[0, 1, 1, 0])) == {}
    few = transforms_of(of_matrix(words[:, :5], "x"))
    assert len(few) == 5, "a few columns of counts are no bag of words"
    assert len(transforms_of(of_matrix(words, "x"), scaling="standard")) == MANY
    mixed = transforms_of(of_matrix(np.column_stack([words, g.normal(50, 9, 60)]), "x"))
    assert list(mixed) == [str(MANY)]


def test_a_sparse_matrix_says_what_the_dense_one_does() -> None:
    g = np.random.default_rng(3)
    values = np.column_stack([(g.random((50, MANY)) < 0.1) * 1.5, g.normal(9, 4, (50, 2))])
    dense, thin = of_matrix(values, "x"), of_matrix(sparse.csr_matrix(values), "x")
    one, other = transforms_of(dense), transforms_of(thin)
    assert list(one) == list(other) == [str(MANY), str(MANY + 1)]
    both = [np.asarray(sparse.csr_matrix(Transforms(one).features(each)).todense()) for each in (dense, thin)]
    np.testing.assert_allclose(*both, atol=1e-5)


def test_texts_have_a_column_each_and_what_is_missing_has_one() -> None:
    columns = columns_of(land=["de", "fr", None, "de"], income=["10", "NA", "30", ""])
    transforms = Transforms(transforms_of(columns))
    assert transforms.names(columns.names) == ("land=de", "land=fr", "land is missing", "income", "income is missing")
    expected = [[1, 0, 0, -1, 0], [0, 1, 0, 0, 1], [0, 0, 1, 1, 0], [1, 0, 0, 0, 1]]
    assert dense(transforms, columns) == expected
    asked = columns_of(land=["it", "fr"], income=[20, 40])
    assert dense(transforms, asked) == [[0, 0, 0, 0, 0], [0, 1, 0, 2, 0]]
    assert transforms.unknown(asked) == ["Feature 'land': 'it' in 1 rows count as none: too few rows."]


def test_truths_are_numbers() -> None:
    columns = columns_of(is_new=["yes", "no", "Yes", None], old=[True, False, True, True])
    assert columns.numbers[:, 1].tolist() == [1, 0, 1, 1]
    assert columns.numbers[:3, 0].tolist() == [1, 0, 1]
    assert transforms_of(columns) == {"is_new": {"missing": True}}


def test_nothing_is_told_of_a_few_rows() -> None:
    few = statistics_of(columns_of(age=[41.5], land=["de"]), 5, "auto", "a.csv")
    assert few["moments"].size == 0
    assert few["texts"]["land"]["values"] == []
    many = columns_of(age=[*range(10)], land=["fr"] * 9 + ["de"])
    transforms = transforms_of(columns_of(age=[1e9], land=["de"]), many, least=5)
    assert transforms["age"]["mean"] == 4.5
    assert transforms["land"]["values"] == ["fr"]


def test_notes_say_what_is_made_of_each_column() -> None:
    columns = columns_of(age=[1, 2, 9], flag=[0, 1, 0], land=["a", "b", "a"], gone=[None] * 3)
    published = [statistics_of(columns, 1, "auto", "a.csv")]
    (note,) = notes_on(published, agreed(published, "auto"))
    for text in ("'age': brought to mean 0", "'land': a column", "'flag': left", "'gone': empty", "data.scaling"):
        assert text in note


def test_rows_are_left_to_their_length_by_two_choices() -> None:
    columns = columns_of(age=[10, None, 30], flag=[0, 1, 0])
    for scaling in ("rows", "none"):
        transforms = transforms_of(columns, scaling=scaling)
        assert transforms == {"age": {"fill": 20.0, "missing": True}}
        assert Transforms(transforms).features(columns).tolist() == [[10, 0, 0], [20, 1, 1], [30, 0, 0]]


# --- laws -------------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=20), min_size=1, max_size=5))
def test_clients_together_agree_on_what_one_place_would_see(parts: list[list[float]]) -> None:
    apart = transforms_of(*(columns_of(x=part) for part in parts), scaling="standard")["x"]
    together = transforms_of(columns_of(x=[each for part in parts for each in part]), scaling="standard")["x"]
    # Statistics travel in 32 bits.
    assert apart["mean"] == pytest.approx(together["mean"], abs=1e-2)
    assert apart["spread"] == pytest.approx(together["spread"], rel=1e-3, abs=2e-2)


def test_the_exported_module_makes_the_same_features() -> None:
    g = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "amount": np.exp(g.normal(3, 3, 50)),
            "age": np.where(g.random(50) < 0.2, np.nan, g.normal(40, 9, 50)),
            "land": g.choice(["de", "fr"], 50),
            "flag": g.integers(0, 2, 50),
        }
    )
    columns = read_columns(Rows.of_frame(frame, "a.csv"), list(frame))
    transforms = Transforms(transforms_of(columns))
    module: dict[str, Any] = {}
    exec(transforms.plain(columns.names), module)
    np.testing.assert_allclose(module["features"](frame), np.asarray(transforms.features(columns)), rtol=1e-6)
    assert tuple(module["NAMES"]) == transforms.names(columns.names)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"age": ["1", "2", "many"]}, r"a\.csv, row 3: 'age' must be a finite number, as a feature; got 'many'"),
        ({"age": [1, np.inf, 2]}, r"row 2: 'age' must be a finite number"),
        ({"day": pd.date_range("2020", periods=3)}, r"row 1: 'day' must be a finite number"),
        ({"age": [1.0, 1e39, 2.0]}, r"row 2: 'age' must be a finite number"),
    ],
)
def test_a_cell_that_is_no_number_is_named(values: Texts, message: str) -> None:
    with pytest.raises(InputError, match=message):
        columns_of(**values)


def test_texts_of_which_there_are_too_many_are_named() -> None:
    with pytest.raises(InputError, match=rf"a\.csv: column 'name' has {MOST_TEXTS + 1} different texts, such as 'n0'"):
        statistics_of(columns_of(name=[f"n{k}" for k in range(MOST_TEXTS + 1)]), 1, "auto", "a.csv")
    parts = [columns_of(name=[f"{part}{k}" for k in range(40)]) for part in "ab"]
    with pytest.raises(InputError, match="Column 'name' has 80 different texts over all clients"):
        transforms_of(*parts)


@pytest.mark.parametrize(
    "change",
    [{"names": ["other"]}, {"kinds": np.zeros(3, np.uint8)}, {"moments": np.full((1, 9), np.nan)}, {"texts": 3}],
)
def test_what_no_client_can_have_published_is_refused(change: dict[str, Any]) -> None:
    sound = statistics_of(columns_of(age=[1, 5, 9]), 1, "auto", "a.csv")
    with pytest.raises(InputError, match=r"no statistics of its columns|must be alike"):
        agreed([sound, {**sound, **change}], "auto")
    with pytest.raises(InputError, match="no statistics of its columns"):
        agreed([sound, "nothing"], "auto")
