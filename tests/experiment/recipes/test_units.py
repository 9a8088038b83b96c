import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import InputError, printable
from fedgraft.experiment.recipes.units import human_bytes, human_seconds, parse_bytes, unit_of_bytes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (2_000_000, 2_000_000),
        ("123", 123),
        ("2MB", 2_000_000),
        ("2 MB", 2_000_000),
        (" 500kB ", 500_000),
        ("500KB", 500_000),
        ("1.5 MiB", 1_572_864),
        ("0.3kB", 300),
        ("1KiB", 1024),
        ("2_000_000", 2_000_000),
        ("1.1GB", 1_100_000_000),
        ("7 B", 7),
    ],
)
def test_sizes_are_read(value: int | str, expected: int) -> None:
    assert parse_bytes(value) == expected


@pytest.mark.parametrize(
    "value", ["", "MB", "-1", "-2MB", "1,5MB", "1e6", "2 MB left", "0x10", "nan", "٣MB", "1.MB", -1, True, 2.0, None]
)
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"budget\.bytes must be a whole number of bytes >= 0.*got"):
        parse_bytes(value, "budget.bytes")  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "near"), [("2mb", "MB"), ("2Mb", "MB"), ("2M", "MB"), ("1mib", "MiB"), ("5k", "kB")])
def test_a_wrong_unit_names_the_nearest(value: str, near: str) -> None:
    with pytest.raises(InputError, match=f"has no unit of bytes. Did you mean '{near}'"):
        parse_bytes(value)


def test_a_unit_far_from_all_has_no_hint() -> None:
    with pytest.raises(InputError, match=r"has no unit of bytes\. Known: B, kB, MB"):
        parse_bytes("3 parsecs")


def test_half_a_byte_is_refused() -> None:
    with pytest.raises(InputError, match=r"'1\.5B' is 1\.5 bytes, which is not a whole number"):
        parse_bytes("1.5B")


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (7, "7 B"),
        (640, "640 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (1_240_000, "1.24 MB"),
        (12_449_999, "12.4 MB"),
        (999_499, "999 kB"),
        (999_600, "1.00 MB"),
        (3_000_000_000, "3.00 GB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_sizes_are_written(count: int, expected: str) -> None:
    assert human_bytes(count) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 ms"),
        (0.0004, "0 ms"),
        (0.85, "850 ms"),
        (0.9999, "1.0 s"),
        (12.34, "12.3 s"),
        (59.99, "1 min 00 s"),
        (245, "4 min 05 s"),
        (3599.7, "1 h 00 min"),
        (7380, "2 h 03 min"),
        (86400 + 4 * 3600, "1 d 04 h"),
    ],
)
def test_durations_are_written(seconds: float, expected: str) -> None:
    assert human_seconds(seconds) == expected


def test_an_axis_has_the_unit_of_its_largest_value() -> None:
    assert unit_of_bytes(0) == ("B", 1)
    assert unit_of_bytes(53_000) == ("kB", 1000)
    assert unit_of_bytes(999_999) == ("MB", 1_000_000)


@given(st.integers(0, 10**15))
def test_what_is_written_is_read_back_within_its_digits(count: int) -> None:
    assert parse_bytes(human_bytes(count)) == pytest.approx(count, rel=0.005)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("client 3, Größe 東京", "client 3, Größe 東京"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("gone\nround 9/9\r", r"gone\nround 9/9\r"),
        ("\x00\x7f\x9b31m", r"\x00\x7f\x9b31m"),
        ("\u202egpj.exe\u2066", r"\u202egpj.exe\u2066"),
        ("a\u2028b\u2029c\ufeff", r"a\u2028b\u2029c\ufeff"),
        ("file-\udcff", r"file-\udcff"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_control_characters_are_seen_and_do_nothing(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_what_is_printable_is_one_line_that_any_stream_takes(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    shown.encode()
    assert printable(shown) == shown
