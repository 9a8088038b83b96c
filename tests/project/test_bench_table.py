"""The table of figures: limits, the last release, what cannot be measured here."""

import json

import pytest

from helpers.benchmarks import importable, load


@pytest.fixture(scope="module", autouse=True)
def benchmarks_importable():
    with importable():
        yield


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """The table, of three figures that are 3.0 each; its files are in a folder of the test."""
    bench = load("bench")
    monkeypatch.setattr(bench, "RESULT", tmp_path / "bench.json")
    monkeypatch.setattr(bench, "LAST_RELEASE", tmp_path / "last_release.json")
    bench.LAST_RELEASE.write_text('{"release": "0.0.9", "values": {"good": 3.2, "bad": 2.5}}')
    monkeypatch.setattr(
        bench,
        "FIGURES",
        (
            bench.Figure("good", "timing:ratio", 2, "higher"),
            bench.Figure("bad", "timing:ratio", 2, "lower"),
            bench.Figure("other", "timing:ratio", 2, "lower"),
        ),
    )
    monkeypatch.setattr(bench.Figure, "function", lambda self: lambda: 3.0)
    return bench


def test_the_table_says_what_was_missed(tmp_path, bench, capsys):
    bench.main(["--only", "good", "--only", "bad"])
    table = capsys.readouterr().out
    assert "ok" in table
    assert "Missed: bad" in table
    assert json.loads((tmp_path / "bench.json").read_text()) == {
        "good": {"value": 3.0, "limit": 2, "better": "higher"},
        "bad": {"value": 3.0, "limit": 2, "better": "lower"},
    }


def test_the_table_says_what_became_of_the_last_release_s_figures(bench, capsys):
    bench.main([])
    head, good, bad, other = capsys.readouterr().out.splitlines()[1:5]
    assert head.endswith("/ 0.0.9")
    assert good.endswith(" 0.94")
    assert bad.endswith(" 1.20 WORSE")
    assert other.endswith(" new")


@pytest.mark.parametrize(
    ("better", "value", "worse"),
    [("lower", 2.19, False), ("lower", 2.21, True), ("higher", 1.83, False), ("higher", 1.81, True)],
)
def test_a_figure_is_worse_when_it_is_so_by_more_than_a_tenth(better, value, worse):
    assert load("bench").Figure("x", "timing:ratio", 2, better).worse(value, before=2.0) is worse


def test_figures_are_kept_at_a_release_and_only_then(bench):
    before = bench.LAST_RELEASE.read_text()
    bench.main([])
    assert bench.LAST_RELEASE.read_text() == before
    bench.main(["--only", "bad", "--keep", "0.1.0"])
    kept = json.loads(bench.LAST_RELEASE.read_text())
    assert kept == {"release": "0.1.0", "values": {"good": 3.2, "bad": 3.0}}, "what was not measured stays"


def test_the_last_release_s_figures_are_those_of_the_table():
    bench = load("bench")
    kept = json.loads(bench.LAST_RELEASE.read_text())
    assert kept["values"].keys() <= {figure.name for figure in bench.FIGURES}
    assert all(value > 0 for value in kept["values"].values())


def test_a_figure_whose_package_is_missing_is_skipped_with_the_reason(tmp_path, monkeypatch, capsys):
    bench = load("bench")
    monkeypatch.setattr(bench, "RESULT", tmp_path / "bench.json")
    monkeypatch.setattr(bench, "FIGURES", (bench.Figure("x", "no:where", 1, "lower", needs="no"),))
    bench.main([])
    assert "skipped: no is not installed" in capsys.readouterr().out


def test_a_figure_that_cannot_be_measured_here_is_skipped_with_the_reason(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    bench, usual = load("bench"), load("typed_usual")
    monkeypatch.setattr(bench, "RESULT", tmp_path / "bench.json")
    monkeypatch.setattr(usual, "free_gibibytes", lambda: 3.0)
    bench.main(["--only", "han_acm_whole"])
    assert "skipped: PyG's layer takes 14 GiB, and 3 are free" in capsys.readouterr().out
    assert json.loads((tmp_path / "bench.json").read_text()) == {}
