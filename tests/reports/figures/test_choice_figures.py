"""The figure of why clients were chosen: every cell, every mark, and what is left out is said."""

import json

import numpy as np
import plotly.graph_objects as go
import pytest

from fedgraft.reports.figures.choice_figures import MOST_CLIENTS, MOST_ROUNDS, why_chosen
from helpers.explained_runs import explained, of


def bars(figure):
    """[(client's lane, where the bar begins, where it ends)] of the marks of the chosen."""
    (marks,) = [trace for trace in figure.data if isinstance(trace, go.Scatter) and trace.showlegend]
    x, y = np.reshape(marks.x, (-1, 3)), np.reshape(marks.y, (-1, 3))
    assert np.isnan(x[:, 2]).all()
    return [
        (lane, pytest.approx(begin), pytest.approx(end)) for lane, begin, end in zip(y[:, 0], *x.T[:2], strict=True)
    ]


def cells(figure, lanes):
    """{column of rounds: value of each client, None where there is no cell}."""
    bars = figure.data[0]
    found = {}
    for base, length, lane, value in zip(bars.base, bars.x, bars.y, bars.marker.color, strict=True):
        found.setdefault(round(base + length / 2), [None] * lanes)[lane] = value
    return found


def test_every_cell_has_its_score_and_the_chosen_are_marked(tmp_path):
    explanation = [{"score": of(1.0, 2.0, None, 4.0)}, {}, {"score": of(3.0, 3.0, 2.0, 5.0)}]
    figure = why_chosen(explained(tmp_path / "a", explanation, cohorts=[(0, 3), (1,), (2,)]))
    assert cells(figure, 4) == {1: [1.0, 2.0, None, 4.0], 3: [3.0, 3.0, 2.0, 5.0]}
    assert bars(figure) == [(0, 0.7, 1.3), (3, 0.7, 1.3), (1, 1.7, 2.3), (2, 2.7, 3.3)]
    assert "grey: no value; drawn at random in 1 of 3 rounds" in figure.layout.title.text
    assert figure.data[0].marker.colorbar.title.text == "score"
    json.loads(figure.to_json())


def test_the_pointer_shows_all_terms_of_a_cell(tmp_path):
    explanation = [{"score": of(1.23456, 2.0, 0.5), "mean <b>reward</b>": of(-1e-7, None, 3.0)}]
    failed = [{1: "gone", 0: "scoring: gone"}]
    heat = why_chosen(explained(tmp_path / "a", explanation, failed=failed)).data[0]
    assert heat.customdata.tolist() == [
        ["0", "1", "chosen", "-1e-07", "1.235"],
        ["1", "1", "chosen, failed", "none", "2"],
        ["2", "1", "not chosen", "3", "0.5"],
    ]
    assert heat.hovertemplate.startswith("<b>client %{customdata[0]}, round %{customdata[1]}: %{customdata[2]}</b><br>")
    assert "mean &lt;b&gt;reward&lt;/b&gt;: %{customdata[3]}<br>score: %{customdata[4]}" in heat.hovertemplate


def test_without_a_score_the_agent_s_value_is_drawn_and_else_the_last_term(tmp_path):
    agent = why_chosen(explained(tmp_path / "a", [{"agent": of(1.0), "cost": of(2.0)}]))
    assert (agent.data[0].marker.color[0], agent.data[0].marker.colorbar.title.text) == (1.0, "agent's value")
    other = why_chosen(explained(tmp_path / "b", [{"cost": of(2.0)}]))
    assert (other.data[0].marker.color[0], other.data[0].marker.colorbar.title.text) == (2.0, "cost")


def test_cells_can_be_coloured_by_their_rank_within_the_round(tmp_path):
    explanation = [{"score": of(10.0, 20.0, 20.0, 30.0)}, {"score": of(0.2, None, 0.1, None)}, {"score": of(7.0)}]
    figure = why_chosen(explained(tmp_path / "a", explanation))
    value, rank = (button.args for button in figure.layout.updatemenus[0].buttons)
    assert list(rank[1]) == list(value[1]) == [0]
    assert rank[0]["marker.color"] == [[0.0, 1.0, 0.0, 0.5, 0.5, 0.0, 1.0]], "client by client, as the bars are"
    assert (rank[0]["marker.cmin"], rank[0]["marker.cmax"]) == (0.0, 1.0)
    marker = figure.data[0].marker
    assert value[0]["marker.color"] == [[10.0, 0.2, 7.0, 20.0, 20.0, 0.1, 30.0]] == [marker.color.tolist()]
    assert (value[0]["marker.cmin"], value[0]["marker.cmax"]) == (marker.cmin, marker.cmax)


def test_one_value_far_off_leaves_colours_to_the_others(tmp_path):
    explanation = [{"score": {client: float(client) for client in range(100)} | {99: 1e9}}]
    heat = why_chosen(explained(tmp_path / "a", explanation, clients=100)).data[0]
    assert heat.marker.cmax < 100
    flat = why_chosen(explained(tmp_path / "b", [{"score": of(2.0, 2.0)}])).data[0]
    assert flat.marker.cmin < flat.marker.cmax


def test_many_clients_and_rounds_are_thinned_and_the_figure_says_so(tmp_path):
    clients, rounds = MOST_CLIENTS + 50, MOST_ROUNDS + 70
    often = tuple(range(40, 40 + MOST_CLIENTS))
    cohorts = [often if round % 2 else (round % 3, *often[:60]) for round in range(rounds)]
    explanation = [{"score": dict.fromkeys(cohort, 0.5)} for cohort in cohorts]
    figure = why_chosen(explained(tmp_path / "a", explanation, clients, cohorts))
    heat = figure.data[0]
    drawn = heat.customdata[:, 1].astype(int)
    assert (drawn.min(), drawn.max(), len(set(drawn))) == (1, rounds, MOST_ROUNDS)
    assert heat.customdata[0, 0] == "40"
    assert heat.y.max() < MOST_CLIENTS
    np.testing.assert_allclose(heat.x[heat.y == 0].sum(), rounds - 1 + np.diff(sorted(set(drawn)))[[0, -1]].mean())
    assert f"{MOST_ROUNDS} of {rounds} rounds, evenly spaced" in figure.layout.title.text
    assert figure.layout.yaxis.title.text == f"client (of {clients}, chosen most often)"
    assert len(figure.layout.yaxis.tickvals) <= 25
