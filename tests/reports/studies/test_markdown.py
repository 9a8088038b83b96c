"""Tables and spreads in Markdown, by hand."""

import math

from fedgraft.reports.studies.cells import figures, spread, table


def test_a_table_has_a_line_a_row():
    assert table(("method", "MB"), [("FedAvg", "3.1"), ("ours", "")]) == (
        "| method | MB |\n|---|---|\n| FedAvg | 3.1 |\n| ours |  |\n"
    )


def test_a_spread_is_mean_and_deviation_and_who_never_got_there():
    assert spread([]) == ""
    assert spread([2.0]) == "2.00"
    assert spread([1.0, 3.0]) == "2.00 ± 1.41"
    assert spread([1.0, 3.0, math.nan], 1, " %") == "2.0 % ± 1.4 (1 never)"
    assert spread([math.nan]) == "never"


def test_figures_keep_what_stands_before_the_point():
    assert [figures(value) for value in (0.01234, 12.345, 99.99, 1234.5)] == ["0.0123", "12.3", "100", "1,234"]
