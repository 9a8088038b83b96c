"""Graphs that grow: measured, printed, stored and drawn."""

import json
import shutil

import pytest

from helpers.benchmarks import importable, load

SMALL_GRAPH = {"nodes": 120, "clients": 12, "degree": 4, "features": 8, "classes": 2, "hidden": (4, 4)}


@pytest.fixture(scope="module", autouse=True)
def benchmarks_importable():
    with importable():
        yield


@pytest.mark.slow
def test_scale_measures_each_federation_in_a_process_of_its_own(monkeypatch):
    scale = load("scale_nodes")
    small, large = (scale.Size(**{**SMALL_GRAPH, "nodes": nodes}) for nodes in (120, 240))
    for together in (False, True):
        found = list(scale.measure([small, large], 2, together))
        assert [each["nodes"] for each in found] == [120, 240]
        assert [each["edges"] for each in found] == pytest.approx([240, 480], rel=0.05)
        for each in found:
            assert each["rounds"] == 5, "as many to warm up as a quarter of the clients, and two"
            assert 0.1 < each["peak_gib"] < 2
            assert each["setup_bytes"] > 0
            assert each["round_bytes"] > 0
            assert each["round_seconds"] > 0
            assert 0 < each["products_seconds"] < each["round_seconds"]
        assert found[0]["round_over_first"] == 1
        assert found[1]["round_operations"] > found[0]["round_operations"]


@pytest.mark.slow
def test_scale_says_which_size_could_not_be_measured():
    scale = load("scale_nodes")
    with pytest.raises(RuntimeError, match=r"Size\(nodes=1, .* ended with exit code 1"):
        scale.ServedReply(scale.serve, scale.Size(**{**SMALL_GRAPH, "nodes": 1}))


def test_scale_prints_stores_and_judges(tmp_path, monkeypatch, capsys):
    scale, _ = load("scale_nodes"), load("scale_figure")
    measured = []

    def measure(sizes, repeats, together):
        measured.append((len(sizes), repeats, together))
        for size in sizes:
            yield {
                **{key: getattr(size, key) for key in ("nodes", "clients", "model")},
                **dict.fromkeys(
                    ("load_seconds", "setup_seconds", "round_seconds", "round_processor_seconds"), 0.123456
                ),
                **dict.fromkeys(("products_seconds", "round_bytes", "edges"), 100),
                **{"peak_gib": 13.0, "round_over_first": 1.0},
            }

    monkeypatch.setattr(scale, "measure", measure)
    monkeypatch.setattr(scale, "RESULT", tmp_path / "scale.json")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    scale.main(["--only", "reddit", "--rounds", "3"])
    scale.main(["--only", "clients"])
    sizes = scale.SERIES
    assert measured == [(len(sizes["reddit"]), 3, False), (len(sizes["clients"]), 20, True)]
    table = capsys.readouterr().out
    assert "reddit_peak             13.00 <= 12 GiB MISSED" in table
    assert "reddit_round             0.12 <= 0.5 s   ok" in table
    assert "No browser" in table
    stored = json.loads((tmp_path / "scale.json").read_text())
    assert set(stored["series"]) == {"reddit", "clients"}, "what was measured before stays"
    assert stored["series"]["reddit"][0]["load_seconds"] == 0.1235
    assert set(stored["limits"]) == {"reddit_peak", "reddit_round", "clients_x10"}
    scale.main(["--draw"])
    assert len(measured) == 2


def test_scale_is_drawn_as_committed():
    scale, figure = load("scale_nodes"), load("scale_figure")
    results = json.loads(scale.RESULT.read_text())["series"]
    assert set(results) == set(scale.SERIES)
    for name, sizes in scale.SERIES.items():
        assert [each["nodes"] for each in results[name]] == [size.nodes for size in sizes]
    drawn = figure.figure(results)
    lines = [trace for trace in drawn.data if trace.mode == "lines+markers"]
    assert len(lines) == 2 * sum(map(len, figure.LINES.values()))
    assert [len(trace.x) for trace in lines[:4]] == [4, 4, 5, 5]
    assert scale.RESULT.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
