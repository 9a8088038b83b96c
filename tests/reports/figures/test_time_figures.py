"""Timelines and seconds lost waiting: every fate is drawn where it belongs, and what is left out is said."""

import json

import pandas as pd
import plotly.graph_objects as go
import pytest

from fedgraft.errors import InputError
from fedgraft.reports.figures.time_figures import MOST_CLIENTS, MOST_ROUNDS, timeline, waiting
from fedgraft.reports.stored.orders import STATES, WAITING, seconds_by_state
from fedgraft.reports.stored.stored_runs import StoredRun
from helpers.fake_runs import write_run

NEVER = {"failed": {}, "timings": {}, "late": (), "staleness": {}, "began": 0.0}
LATE = [
    {"timings": {0: (2.0, 1.0)}, "late": (1, 2, 3), "failed": {2: "late: 9 seconds"}, "simulated_seconds": 4.0},
    {"timings": {1: (5.0, 1.5), 0: (1.0, 1.0)}, "staleness": {1: 1}, "simulated_seconds": 8.0, "began": 6.0},
]
"""Client 0 is in time, 1 arrives a round late, 2 is dropped, 3 is still on its way when the run ends."""


def run_of(folder, rows, clients=4):
    """A stored run with other rows."""
    run = StoredRun(write_run(folder, clients=clients))
    run.rounds = pd.DataFrame([{**NEVER, "round": number, **row} for number, row in enumerate(rows, 1)])
    return run


def bars(figure, name):
    """[(lane, start, seconds)] of the bars of a name."""
    return [
        span
        for trace in figure.data
        if isinstance(trace, go.Bar) and trace.name == name
        for span in zip(trace.y, trace.base, trace.x, strict=True)
    ]


def marks(figure, name):
    """[(lane, seconds)] of the marks of a name."""
    return [at for trace in figure.data if trace.name == name for at in zip(trace.y, trace.x, strict=True)]


def test_every_fate_has_its_bars_and_marks(tmp_path):
    figure = timeline(run_of(tmp_path / "a", LATE))
    assert bars(figure, "training") == [(0, 0.0, 2.0), (1, 0.0, 5.0), (0, 6.0, 1.0)]
    assert bars(figure, "communication") == [(0, 2.0, 1.0), (1, 5.0, 1.5), (0, 7.0, 1.0)]
    assert bars(figure, "waiting") == [(0, 3.0, 1.0), (1, 6.5, 1.5)]
    assert bars(figure, "at work, no answer") == [(2, 0.0, 4.0), (3, 0.0, 8.0)]
    assert bars(figure, "late: after its round") == [(1, 4.0, 2.5), (3, 4.0, 4.0)]
    assert marks(figure, "arrives late") == [(1, 6.5)]
    assert marks(figure, "dropped or failed") == [(2, 4.0)]
    (ends,) = [trace for trace in figure.data if trace.name == "end of a round"]
    assert ends.x.tolist() == [4.0] * 3 + [8.0] * 3
    note = figure.layout.title.text
    assert "dropped, or still on its way when the run ended" in note
    assert "orders follow the server's probe" in note
    json.loads(figure.to_json())


def test_where_nothing_is_special_the_note_says_so_little(tmp_path):
    figure = timeline(run_of(tmp_path / "a", [{"timings": {0: (1.0, 1.0)}, "simulated_seconds": 2.0}]))
    assert "<br>" not in figure.layout.title.text.removeprefix("<b>Timeline of rounds: a</b><br>")
    assert {trace.name for trace in figure.data if trace.name} == {"training", "communication", "end of a round"}


def test_the_first_rounds_of_the_busiest_clients(tmp_path):
    idle, clients, rounds = 3, MOST_CLIENTS + 1, MOST_ROUNDS + 5
    rows = [
        {"timings": {k: (0.1 if k == idle else 1.0, 0.5) for k in range(clients)}, "simulated_seconds": 2.0 * number}
        for number in range(1, rounds + 1)
    ]
    run = run_of(tmp_path / "a", rows, clients=clients)
    figure = timeline(run)
    assert figure.layout.yaxis.ticktext == tuple(str(k) for k in range(clients) if k != idle)
    assert len(bars(figure, "training")) == MOST_CLIENTS * MOST_ROUNDS
    note = figure.layout.title.text
    assert f"the busiest {MOST_CLIENTS} of {clients} clients; the first {MOST_ROUNDS} of {rounds} rounds" in note
    assert figure.layout.xaxis.range[1] == pytest.approx(1.01 * 2.0 * MOST_ROUNDS)


@pytest.mark.parametrize("rounds", [1, 12, 60])
def test_numbers_of_rounds_do_not_overlap(tmp_path, rounds):
    rows = [{"timings": {0: (0.1, 0.1)}, "simulated_seconds": 1.0 * number**2} for number in range(1, rounds + 1)]
    figure = timeline(run_of(tmp_path / "a", rows))
    (numbers,) = figure.select_traces({"type": "scatter", "mode": "text"})
    apart = pd.Series(numbers.x).diff().dropna()
    assert numbers.text[0] == "1"
    assert (apart > 0.02 * rounds**2).all()
    assert len(numbers.x) == len(numbers.text) == len(numbers.y)


def test_seconds_of_a_client_sum_over_its_orders(tmp_path):
    run = run_of(tmp_path / "a", LATE)
    figure = waiting([run])
    drawn = {trace.name: list(trace.x) for trace in figure.data if isinstance(trace, go.Bar)}
    assert drawn == {
        "training": [3.0, 5.0, 0.0, 0.0],
        "communication": [2.0, 1.5, 0.0, 0.0],
        "waiting": [1.0, 1.5, 0.0, 0.0],
        "at work, no answer": [0.0, 0.0, 4.0, 8.0],
    }
    (numbers,) = figure.select_traces({"type": "scatter", "mode": "text"})
    assert numbers.text == (" 1.0 s", " 1.5 s", " 0", " 0")
    assert [trace.name for trace in figure.select_traces({"mode": "markers"})] == list(STATES)


def test_those_who_waited_longest_over_all_runs(tmp_path):
    clients = MOST_CLIENTS + 2
    rows = [{"timings": {k: (1.0 + k, 0.5) for k in range(clients)}, "simulated_seconds": clients + 0.5}]
    runs = [run_of(tmp_path / "a", rows, clients), run_of(tmp_path / "b", LATE)]
    figure = waiting(runs)
    waited = seconds_by_state(runs[0])[WAITING]
    assert waited.idxmin() == clients - 1
    assert figure.layout.yaxis.ticktext == figure.layout.yaxis2.ticktext == tuple(map(str, range(MOST_CLIENTS)))
    assert f"the {MOST_CLIENTS} who waited longest of {clients}" in figure.layout.title.text
    assert [note.text for note in figure.layout.annotations] == ["a", "b"]
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range
    json.loads(figure.to_json())


def test_a_run_in_which_nobody_was_heard_of_can_be_drawn(tmp_path):
    run = run_of(tmp_path / "idle", [{"simulated_seconds": 2.0}])
    assert not [trace for trace in timeline(run).data if trace.type == "bar"]
    assert not any(sum(trace.x) for trace in waiting([run]).data if trace.type == "bar")
    with pytest.raises(InputError, match="at least one run"):
        waiting([])
