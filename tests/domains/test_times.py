"""Times are read in the one way that they can be; where there are two, an error says so."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.domains.tables.rows import Cells
from fedgraft.domains.tables.times import YEAR, check_time_format, long_span
from fedgraft.errors import InputError


def times(values: object, time_format: str = "") -> list[float]:
    series = pd.Series(values)
    return Cells(series, "when", [("t.csv", len(series))], np.arange(len(series))).times(time_format).tolist()


def seconds(*days: str) -> list[float]:
    return [pd.Timestamp(day).timestamp() for day in days]


@pytest.mark.parametrize("mark", ["/", ".", "-", " "])
@pytest.mark.parametrize("rest", ["", " 08:30", "T08:30:00"])
def test_one_day_above_twelve_decides_for_all(mark: str, rest: str) -> None:
    wanted = seconds(f"2020-10-05{rest}", f"2020-01-13{rest}")
    assert times([f"05{mark}10{mark}2020{rest}", f"13{mark}1{mark}2020{rest}"]) == wanted
    assert times([f"10{mark}05{mark}2020{rest}", f"1{mark}13{mark}2020{rest}"]) == wanted


def test_without_one_the_error_names_both_readings() -> None:
    with pytest.raises(InputError) as caught:
        times(["05/05/2020", "05/10/2020", "06/10/2020"])
    assert str(caught.value) == (
        "t.csv, row 2: 'when' must be a date that can be read in one way; got '05/10/2020' (2 such rows). It may be "
        "5 October or 10 May: data.time_format = '%d/%m/%Y' says the first, '%m/%d/%Y' the second."
    )
    assert times(["05/10/2020"], "%d/%m/%Y") == seconds("2020-10-05")
    assert times(["05/10/2020"], "%m/%d/%Y") == seconds("2020-05-10")
    assert times(["05/05/2020", "07/07/2020"]) == seconds("2020-05-05", "2020-07-07"), "the same in both"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ["13/01/2020", "14/01/2020", "01/15/2020"],
            r"row 3: 'when' must be a date with the day before month, as in other",
        ),
        (["05/10/20"], r"row 1: .* got '05/10/20' .* data\.time_format, such as '%d/%m/%y', says which of its numbers"),
        (["20-10-05"], r"row 1: .* got '20-10-05' .* says which of its numbers is the year"),
        (["5-Oct-20"], r"row 1: .* got '5-Oct-20' .* says which of its numbers is the year"),
        (["2020-01-01", "1600000000"], r"row 2: 'when' must be a date, as in other rows; got '1600000000'"),
        (["2020-01-01", "soon"], r"row 2: 'when' must be a number or a date; got 'soon' .*data\.time_format says how"),
        (["10:30"], r"row 1: 'when' must be a number or a date; got '10:30'"),
        (["May"], r"row 1: 'when' must be a number or a date; got 'May'"),
        (["2020-01-01", None], r"row 2: 'when' must be a number or a date; got nothing"),
        (
            [1.6e9, 1.6e9, 1.6e12],
            r"row 3: 'when' must be seconds since 1970, as in most rows; got .* to be milliseconds",
        ),
        ([1.6e18, 1.6e18, 1.6e15], r"row 3: 'when' must be nanoseconds since 1970, .* to be microseconds; one unit"),
        ([True, False], r"row 1: 'when' must be a number or a date; got 'True'"),
        (pd.to_timedelta([1, 2], unit="D"), r"row 1: 'when' must be a number or a date; got '1 days"),
    ],
)
def test_what_is_no_time_or_could_be_two(values: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        times(values)


@pytest.mark.parametrize(
    "values",
    [
        ["2020-10-05", "2020-10-13"],
        ["2020/10/05", "2020/10/13"],
        ["2020-10-05T00:00:00Z", "2020-10-13 02:00:00+02:00"],
        ["5 October 2020", "13 Oct 2020"],
        ["Oct 5, 2020", "October 13, 2020"],
        ["05/10/2020", "2020-10-13", "13/10/2020"],
        pd.to_datetime(["2020-10-05", "2020-10-13"]),
        pd.to_datetime(["2020-10-05", "2020-10-13"], utc=True),
        pd.to_datetime(["2020-10-05", "2020-10-13"]).astype(object),
    ],
)
def test_dates_of_every_kind_are_seconds(values: object) -> None:
    assert sorted(set(times(values))) == seconds("2020-10-05", "2020-10-13")


def test_numbers_stay_as_they_count() -> None:
    for values in ([3, 1, 2], ["3", "1", "2"], [2019.5, 1e6, -4], ["20201005", "20201006"], [0, 1600000000]):
        assert times(values) == [float(value) for value in values]
    assert times(["20201005"], "%Y%m%d") == times([20201005.0], "%Y%m%d") == seconds("2020-10-05")


@given(st.lists(st.dates(pd.Timestamp("1990-01-01").date(), pd.Timestamp("2030-01-01").date()), min_size=1, max_size=9))
def test_dates_written_in_one_order_are_those_dates_or_an_error(days) -> None:
    wanted = seconds(*(day.isoformat() for day in days))
    for order in ("%d/%m/%Y", "%m/%d/%Y"):
        written = [day.strftime(order) for day in days]
        assert times(written, order) == wanted
        if any(day.day > 12 for day in days) or all(day.day == day.month for day in days):
            assert times(written) == wanted
        else:
            with pytest.raises(InputError, match=r"data\.time_format"):
                times(written)


@pytest.mark.parametrize("time_format", ["%Q", "%d/%m", "%H:%M", "dd/mm/yyyy", "%Y", ""])
def test_formats_that_tell_no_day(time_format: str) -> None:
    with pytest.raises(InputError, match=r"Table\.time_format must be a format of strptime with day, month and year"):
        check_time_format("Table.time_format", time_format)


def test_a_time_that_a_format_does_not_fit() -> None:
    with pytest.raises(InputError, match=r"row 2: 'when' must be a date as data\.time_format = '%d\.%m\.%y' says; got"):
        times(["05.10.20", "5 Oct"], "%d.%m.%y")


def test_a_span_of_more_than_a_hundred_years_is_noted() -> None:
    now = 1.6e9
    assert long_span(np.array([now, now - 99 * YEAR, now])) == ""
    for per_second in (1.0, 1e3, 1e6, 1e9):
        note = long_span(np.array([now, now - 120 * YEAR, now]) * per_second)
        assert note.startswith("times span 120 years, 1901 to 2021; data.time_format says")
    assert long_span(np.array([1.0, 2.0, 1e9])) == "", "numbers that count anything"
    assert long_span(np.array([])) == ""
