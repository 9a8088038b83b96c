import html
import json
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.errors import InputError
from fedgraft.reports.figures import figures
from fedgraft.reports.figures.figure_style import RUN_COLOURS, score_range, spread_apart
from fedgraft.reports.stored.stored_runs import StoredRun, open_runs
from helpers.fake_runs import TOML, write_run

BASIC = {"bar", "pie", "scatter"}
"""What the script draws that a report carries."""


def several(folder: Path, count: int, clients: int = 5) -> list[StoredRun]:
    ends = [0.95 + 0.01 * i for i in range(count)]
    paths = [write_run(folder / f"run-{i}", clients=clients, end=end, seed=i) for i, end in enumerate(ends)]
    return open_runs(paths)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("count", "clients"), [(1, 5), (6, 5), pytest.param(1, 100, marks=SLOW), pytest.param(6, 100, marks=SLOW)]
)
def test_every_figure_can_be_drawn(tmp_path: Path, count: int, clients: int) -> None:
    runs = several(tmp_path, count, clients)
    drawn = figures.every(runs)
    assert len(drawn) == 10 + 3 * count, "who was chosen, a timeline, and the seconds lost waiting, each"
    assert {trace.type for figure in drawn for trace in figure.data} <= BASIC
    for figure in drawn:
        assert isinstance(figure, go.Figure)
        json.loads(figure.to_json())
        assert figure.layout.paper_bgcolor == "white"
        assert figure.layout.height - figure.layout.margin.t - figure.layout.margin.b >= 60


@pytest.mark.parametrize("against", ["rounds", "bytes", "seconds", "simulated_seconds"])
def test_validation_is_solid_and_test_dashed_in_the_run_s_colour(tmp_path: Path, against: str) -> None:
    runs = several(tmp_path, 2)
    figure = figures.score(runs, against)
    lines = [trace for trace in figure.data if trace.x[0] is not None]
    assert [(trace.line.dash, trace.line.color) for trace in lines] == [
        ("solid", RUN_COLOURS[0]),
        ("dash", RUN_COLOURS[0]),
        ("solid", RUN_COLOURS[1]),
        ("dash", RUN_COLOURS[1]),
    ]
    np.testing.assert_allclose(lines[2].y, runs[1].curve["validation"])
    titles = {"rounds": "round", "bytes": "bytes on the wire, both directions (kB)"}
    assert figure.layout.xaxis.title.text == titles.get(against, against.replace("_", " "))
    size = 1000 if against == "bytes" else 1
    column = {"rounds": "round"}.get(against, against)
    np.testing.assert_allclose(np.array(lines[2].x) * size, runs[1].curve[column])


def test_operations_are_shown_in_thousand_millions(tmp_path: Path) -> None:
    run = several(tmp_path, 1)[0]
    run.curve["flops"] = 2e9 * run.curve["round"]
    figure = figures.score([run], "flops")
    assert figure.layout.xaxis.title.text == "operations (GFLOP)"
    np.testing.assert_allclose(figure.data[0].x, 2.0 * run.curve["round"])
    assert len(figures.every([run])) == 13


@pytest.mark.parametrize(
    "against", ["rounds", *(pytest.param(each, marks=SLOW) for each in ("bytes", "seconds")), "simulated_seconds"]
)
def test_the_first_figure_is_against_what_was_asked_for(tmp_path: Path, against: str) -> None:
    titles = [figure.layout.title.text for figure in figures.every(several(tmp_path, 1), against=against)]
    assert f"against {against.replace('_', ' ')}</b>" in titles[0]
    assert len(set(titles)) == len(titles) == 13


def test_the_legend_has_one_entry_a_run_whichever_split_is_shown(tmp_path: Path) -> None:
    figure = figures.score(several(tmp_path, 3))
    entries = [index for index, trace in enumerate(figure.data) if trace.showlegend is not False]
    assert [figure.data[index].name for index in entries] == ["run-0", "run-1", "run-2"]
    for button in figure.layout.updatemenus[0].buttons:
        assert not set(entries) & set(button.args[1])


def test_one_split_alone_needs_no_buttons(tmp_path: Path) -> None:
    figure = figures.score(several(tmp_path, 1), splits=("test",))
    assert not figure.layout.updatemenus
    assert [trace.line.dash for trace in figure.data if trace.x[0] is not None] == ["dash"]


def test_an_axis_of_log_bytes_leaves_out_zero_bytes(tmp_path: Path) -> None:
    run = several(tmp_path, 1)[0]
    run.curve.loc[0, "bytes"] = 0
    figure = figures.score([run], "bytes", log_bytes=True)
    assert figure.layout.xaxis.type == "log"
    assert len(figure.data[0].x) == len(run.curve) - 1


def test_baselines_are_labelled_lines_and_arrows_where_they_are_far_off(tmp_path: Path) -> None:
    baselines = {
        "global_mean": 9.5,
        "central_biases": 0.949,
        "client_biases": 0.9495,
        "good": -8.0,
        "local_only": None,
    }
    figure = figures.score([StoredRun(write_run(tmp_path / "a", baselines=baselines))])
    assert [line.y0 for line in figure.layout.shapes] == [0.949, 0.9495]
    assert [note.text for note in figure.layout.annotations] == [
        "▼ good -8",
        "central_biases 0.949",
        "client_biases 0.9495",
        "▲ global_mean 9.5",
    ]
    low, high = figure.layout.yaxis.range
    pixels = (figure.layout.height - figure.layout.margin.t - 64 - 22) / (high - low)
    places = [note.y * pixels - note.ay for note in figure.layout.annotations]
    assert min(np.diff(places)) >= 18
    assert (figure.layout.annotations[0].y, figure.layout.annotations[-1].y) == (low, high)
    assert 0.8 < low < 0.949


def test_the_runs_rule_the_axis_of_scores(tmp_path: Path) -> None:
    run = StoredRun(write_run(tmp_path / "a", baselines={"near": 0.9, "far": 9.0}))
    run.curve["validation"] = run.curve["test"] = np.linspace(1.2, 0.95, len(run.curve))
    scores = run.curve[["validation", "test"]].to_numpy()
    low, high, cut = score_range([run], ("validation", "test"))
    assert not cut
    assert low < 0.9 < scores.max() < high < 1.5
    for better, beyond in (("lower", 9.0), ("higher", -9.0)):
        run = StoredRun(write_run(tmp_path / better, better=better, baselines={"far": beyond}))
        low, high, _ = score_range([run], ("test",))
        assert high - low < 2.5 * 1.2 * np.ptp(run.curve["test"])


@given(st.lists(st.floats(0, 400), max_size=8).map(sorted), st.floats(1, 40))
def test_spread_labels_keep_their_distance_and_order(places: list[float], gap: float) -> None:
    spread = spread_apart(places, gap)
    assert len(spread) == len(places)
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(spread))
    if all(b - a >= gap for a, b in pairwise(places)):
        assert spread == pytest.approx(places)


def test_a_bad_start_does_not_flatten_the_rest(tmp_path: Path) -> None:
    low, high, cut = score_range([StoredRun(write_run(tmp_path / "a", start=40.0, rounds=60))], ("validation",))
    assert cut
    assert low < 0.949
    assert high < 30
    steady = StoredRun(write_run(tmp_path / "b"))
    steady.curve["validation"] = np.linspace(1.2, 0.95, len(steady.curve))
    low, high, cut = score_range([steady], ("validation",))
    assert not cut
    assert high > 1.2


def test_runs_without_any_score_can_be_drawn(tmp_path: Path) -> None:
    run = StoredRun(write_run(tmp_path / "a", baselines={}))
    run.curve[["validation", "test"]] = math.nan
    assert len(figures.every([run])) == 12
    with pytest.raises(InputError, match="no target to reach"):
        figures.bytes_to_target([run])


def test_bytes_to_target_says_what_was_not_reached(tmp_path: Path) -> None:
    runs = several(tmp_path, 2)
    point = runs[0].reaching(1.0)
    assert point is not None
    first, second = figures.bytes_to_target(runs, 1.0).data
    assert first.x[0] * 1000 == point["bytes"]
    assert first.text[0] == f"{point['bytes'] / 1000:.0f} kB, round {int(point['round'])}"
    assert first.marker.color == RUN_COLOURS[0]
    assert second.text[0].endswith(f"round {int(runs[1].reaching(1.0)['round'])}")  # type: ignore[index]
    nobody = figures.bytes_to_target(runs, 0.5).data
    assert [bar.x[0] for bar in nobody] == [0, 0]
    assert nobody[0].text[0] == f"not reached (best {runs[0].best_validation:.4g})"


def chosen_cells(run: StoredRun) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """(client, round) of those drawn as chosen, and of those drawn as failed."""
    chosen, failed = figures.chosen([run]).data[:2]
    return tuple(  # type: ignore[return-value]
        {
            (int(client), round)
            for client, base, length in zip(bars.y, bars.base, bars.x, strict=True)
            for round in range(int(base + 0.5), int(base + 0.5 + length))
        }
        for bars in (chosen, failed)
    )


def test_bars_say_who_was_chosen_and_who_failed(tmp_path: Path) -> None:
    run = StoredRun(write_run(tmp_path / "a", clients=5, cohort=2, rounds=10))
    chosen, failed = chosen_cells(run)
    rows = run.rounds.to_dict("records")
    assert failed == {(client, row["round"]) for row in rows for client in row["failed"]}
    assert len(failed) == 2
    assert chosen | failed == {(client, row["round"]) for row in rows for client in row["selected"]}
    assert not chosen & failed


def test_who_failed_at_something_else_than_training_is_not_shown_as_chosen(tmp_path: Path) -> None:
    run = StoredRun(write_run(tmp_path / "a", clients=5, cohort=2, rounds=5, failures=False))
    others = [
        {k: "scoring: gone" if k % 2 else "probe: gone" for k in range(5) if k not in s} for s in run.rounds["selected"]
    ]
    run.rounds["failed"] = others
    chosen, failed = chosen_cells(run)
    assert len(chosen) == 2 * 5
    assert not failed


def test_rounds_in_a_row_are_one_bar(tmp_path: Path) -> None:
    run = StoredRun(write_run(tmp_path / "a", clients=2, cohort=2, rounds=20, failures=False))
    bars = figures.chosen([run]).data[0]
    assert (list(bars.base), list(bars.x), list(bars.y)) == ([0.5, 0.5], [20, 20], [0, 1])
    assert bars.customdata.tolist() == [[0, 1, 20], [1, 1, 20]]


def test_training_loss_is_that_of_the_rounds(tmp_path: Path) -> None:
    run = StoredRun(write_run(tmp_path / "a", rounds=4))
    (line,) = figures.training_loss([run]).data
    assert (list(line.x), list(line.y)) == ([1, 2, 3, 4], [1.0, 1 / 2, 1 / 3, 1 / 4])


def test_bars_of_purposes_sum_to_the_ledger(tmp_path: Path) -> None:
    runs = several(tmp_path, 2)
    bars = [trace for trace in figures.bytes_by_purpose(runs).data if isinstance(trace, go.Bar)]
    assert [bar.name for bar in bars] == ["model", "statistics", "header"]
    sums = np.sum([bar.x for bar in bars], axis=0) * 1000
    said = [run.summary["bytes"][direction] for run in runs for direction in ("down", "up")]
    np.testing.assert_allclose(sums, said)


NAME = "<a href='https://evil'>a</a> & %{evil} $evil$ \x1b"
"""What Plotly would make a link, a field of a hover template and a formula of."""


def texts(content: object) -> Iterator[str]:
    """Every text in a figure."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from texts(part)


@pytest.mark.parametrize("clients", [5, 50])
def test_names_are_text_not_markup(tmp_path: Path, clients: int) -> None:
    toml = TOML.format(recipe="r", dataset="d", seed=1, rounds=8, cohort=2) + f"[codec]\nname = {json.dumps(NAME)}\n"
    folder = write_run(tmp_path / "a", baselines={NAME: 1.0}, metric=NAME, toml=toml)
    run = StoredRun(folder, label=NAME)
    run.summary["test_per_client"] = {f"{NAME} {client}": 1.0 for client in range(clients)}
    drawn = figures.every([run])
    shown = [text for figure in drawn for text in texts(json.loads(figure.to_json()))]
    assert sum("evil" in text for text in shown) > 10
    for markup in ("<a", "%{evil", "$evil", "\x1b"):
        assert not [text for text in shown if markup in text]
    (per_client,) = [figure for figure in drawn if "per client" in figure.layout.title.text]
    labels = per_client.data[0].customdata if clients == 5 else per_client.data[0].text
    names = sorted(map(html.unescape, labels))
    assert names[0] == NAME.replace("\x1b", r"\x1b") + " 0", "as it is, but for control characters"


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    runs = several(tmp_path, 1)
    with pytest.raises(InputError, match=r"against must be one of .* got 'byte'\. Did you mean 'bytes'"):
        figures.score(runs, "byte")
    with pytest.raises(InputError, match=r"splits must be one of .* got 'train'"):
        figures.score(runs, splits=("train",))
    with pytest.raises(InputError, match="at least one run"):
        figures.chosen([])
    with pytest.raises(InputError, match="different metrics"):
        figures.score([*runs, StoredRun(write_run(tmp_path / "b", metric="auc", better="higher"))])
