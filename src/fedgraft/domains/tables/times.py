"""Cells as numbers and as times: epochs, dates in words and in digits, each read in the one way that it can be."""

import warnings
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.errors import InputError

Numbers: TypeAlias = NDArray[np.float64]
Wrong: TypeAlias = Callable[[NDArray[np.bool_], str, str], InputError]
"""Makes the error of the cells that are wrong, bool [n], of what they must be, and of a hint at its end."""

YEAR: Final = 365.25 * 86400
LONG: Final = 100
"""Years that a table's times span before a note asks whether they are right."""
UNITS: Final = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
"""What epochs count, by how many there are in a second."""
EPOCHS: Final = (3e8, 4.2e9)
"""Seconds since 1970 that are years 1979 to 2103: a number within them, in one of the units, can be an epoch."""

_BY_PARTS = r"^(\d{1,2})([/.\-\s])(\d{1,2})[/.\-\s](\d{4})(?!\d)(.*)$"
"""A date in digits whose year is last."""
_SHORT = r"^\d{1,2}[/.\-\s](?:\d{1,2}|[^\W\d]+)\.?[/.\-\s]\d{1,2}(?!\d)"
"""A date whose year has two digits."""
_ONE_WAY = "a date that can be read in one way"


def check_time_format(parameter: str, time_format: str) -> None:
    """Raise `InputError` for what is no format of `strptime`, or none that tells a day from another."""
    days = datetime(2021, 3, 4), datetime(2021, 3, 5), datetime(2021, 4, 4), datetime(2022, 3, 4)
    try:
        written = pd.Series([day.strftime(time_format) for day in days])
        read = pd.to_datetime(written, format=time_format, utc=True)
        sound = read.is_monotonic_increasing and read.is_unique
    except ValueError:
        sound = False
    if not sound:
        raise InputError(
            f"{parameter} must be a format of strptime with day, month and year, such as '%d/%m/%Y' or "
            f"'%Y-%m-%d %H:%M'; got {time_format!r}."
        )


def as_numbers(values: pd.Series) -> Numbers:
    """float64 [cells], nan where there is no number: truths, dates, durations and complex numbers are none."""
    kinds, dtype = pd.api.types, values.dtype
    numeric = kinds.is_numeric_dtype(dtype) and not kinds.is_bool_dtype(dtype)
    textual = kinds.is_object_dtype(dtype) or kinds.is_string_dtype(dtype) or isinstance(dtype, pd.CategoricalDtype)
    # Of dates and durations pandas would make numbers, of nanoseconds or the like.
    try:
        parsed = pd.to_numeric(values, errors="coerce") if numeric or textual else None
    except (TypeError, ValueError, OverflowError):  # of objects that pandas cannot even compare
        parsed = None
    if parsed is None or kinds.is_complex_dtype(parsed.dtype):
        return np.full(len(values), np.nan)
    numbers = parsed.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers if numbers.flags.writeable else numbers.copy()


def times_of(values: pd.Series, time_format: str, wrong: Wrong) -> Numbers:
    """Return times as numbers, float64 [n]: as the column counts, or seconds of dates since 1970.

    Raises `InputError` for what is no time, or could be two.
    """
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return _seconds(pd.to_datetime(values, utc=True))
    if pd.api.types.is_bool_dtype(values.dtype) or pd.api.types.is_timedelta64_dtype(values.dtype):
        raise wrong(np.ones(len(values), bool), "a number or a date", "")
    numbers, missing = as_numbers(values), values.isna().to_numpy()
    if missing.any():
        raise wrong(missing, "a number or a date", "")
    if not time_format and np.isfinite(numbers).all():
        _check_units(numbers, wrong)
        return numbers
    if np.isfinite(numbers).all() and (numbers % 1 == 0).all() and (np.abs(numbers) < 2**53).all():
        values = pd.Series(numbers.astype(np.int64))  # such as 20201005
    text = pd.Series([str(value).strip() for value in values], dtype=object)
    if time_format:
        return _by_format(text, time_format, wrong)
    return _seconds(_dates(text, np.isfinite(numbers), wrong))


def long_span(times: Numbers) -> str:
    """Return what a note says of times, numbers or seconds of dates, that span more than `LONG` years; "" for none."""
    middle = float(np.median(np.abs(times))) if len(times) else 0.0
    for per_second in UNITS.values():
        years = float(np.ptp(times)) / per_second / YEAR if len(times) else 0.0
        if EPOCHS[0] <= middle / per_second <= EPOCHS[1] and years > LONG:
            first, last = (1970 + bound / per_second / YEAR for bound in (times.min(), times.max()))
            return (
                f"times span {years:,.0f} years, {first:.0f} to {last:.0f}; data.time_format says how they are written"
            )
    return ""


def _by_format(text: pd.Series, time_format: str, wrong: Wrong) -> Numbers:
    seconds = _seconds(_parsed(text, time_format))
    if (bad := np.isnan(seconds)).any():
        raise wrong(bad, f"a date as data.time_format = {time_format!r} says", "")
    return seconds


def _parsed(text: pd.Series, time_format: str) -> pd.Series:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name of a zone that is unknown: the date is none
        return pd.to_datetime(text, errors="coerce", utc=True, format=time_format)


def _seconds(dates: pd.Series) -> Numbers:
    since = dates - pd.Timestamp(0, unit="s", tz="UTC")
    return np.asarray((since / pd.Timedelta(seconds=1)).to_numpy(dtype=np.float64, na_value=np.nan), np.float64)


def _check_units(numbers: Numbers, wrong: Wrong) -> None:
    """Raise `InputError` for epochs of which some count seconds and others milliseconds or the like."""
    unit = np.full(len(numbers), -1)
    for place, per_second in enumerate(UNITS.values()):
        unit[(numbers >= EPOCHS[0] * per_second) & (numbers <= EPOCHS[1] * per_second)] = place
    if len(unit) and (unit >= 0).all() and (rarer := unit != np.bincount(unit).argmax()).any():
        usual, other = (list(UNITS)[each] for each in (np.bincount(unit).argmax(), unit[rarer.argmax()]))
        raise wrong(rarer, f"{usual} since 1970, as in most rows", f" It seems to be {other}; one unit is needed.")


def _dates(text: pd.Series, are_numbers: NDArray[np.bool_], wrong: Wrong) -> pd.Series:
    """Dates of text, all of which are dates; those whose year is last, by the order of day and month of all rows."""
    digits = are_numbers & ~text.str.fullmatch(r"(?:19|20)\d{6}").to_numpy(dtype=bool)
    if digits.any():
        others = 2 * int(digits.sum()) > len(digits)
        raise wrong(~digits if others else digits, f"a {'number' if others else 'date'}, as in other rows", "")
    short = text.str.contains(_SHORT, regex=True).to_numpy(dtype=bool)
    if short.any():
        hint = " data.time_format, such as '%d/%m/%y', says which of its numbers is the year."
        raise wrong(short, _ONE_WAY, hint)
    parts = text.str.extract(_BY_PARTS)
    by_parts = parts[0].notna().to_numpy()
    if by_parts.any():
        one, other = (np.where(by_parts, parts[each].fillna("0"), "0").astype(np.int64) for each in (0, 2))
        day_first = _day_first(text, parts[1], one, other, wrong)
        day, month = (parts[0], parts[2]) if day_first else (parts[2], parts[0])
        ordered = parts[3] + "-" + month.str.zfill(2) + "-" + day.str.zfill(2) + parts[4]
        text = ordered.where(by_parts, text)
    dates = _parsed(text, "mixed")
    no_year = ~text.str.contains(r"\d{4}", regex=True).to_numpy(dtype=bool)  # what is left out would be that of today
    if (bad := dates.isna().to_numpy() | no_year).any():
        raise wrong(bad, "a number or a date", " data.time_format says how dates are written.")
    return dates


def _day_first(
    text: pd.Series, marks: pd.Series, one: NDArray[np.int64], other: NDArray[np.int64], wrong: Wrong
) -> bool:
    """Whether the day is before the month; `one` and `other` are the numbers before the year, 0 where there is none.

    A number above 12 decides for the whole column. Raises `InputError` where none does, or where they differ.
    """
    first, second = one > 12, other > 12
    if first.any() and second.any():
        rows = first if first.sum() <= second.sum() else second
        order = "month before day" if rows is first else "day before month"
        raise wrong(rows, f"a date with the {order}, as in other rows", "")
    if first.any() or second.any() or (one == other).all():
        return bool(first.any())
    unsure = (one != other) & (one > 0)
    row = int(unsure.argmax())
    mark = str(marks.iloc[row])
    day_first, month_first = (
        f"{int(day)} {datetime(2000, int(month), 1):%B}"
        for day, month in ((one[row], other[row]), (other[row], one[row]))
    )
    formats = [mark.join(each) for each in (("%d", "%m", "%Y"), ("%m", "%d", "%Y"))]
    raise wrong(
        unsure,
        _ONE_WAY,
        f" It may be {day_first} or {month_first}: data.time_format = {formats[0]!r} says the first, {formats[1]!r} "
        "the second.",
    )
