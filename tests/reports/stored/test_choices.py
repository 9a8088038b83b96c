"""Why clients were chosen: means by hand, and what an agent would have chosen instead."""

import math

import pytest

from fedgraft.engine.server.loop.choosing import MOST_EXPLAINED
from fedgraft.errors import InputError
from fedgraft.reports.figures.choice_figures import why_chosen
from fedgraft.reports.stored.orders import LAST_ROUNDS, agent_choices, is_explained, term_means
from fedgraft.reports.stored.stored_runs import StoredRun
from helpers.explained_runs import explained, of
from helpers.fake_runs import write_run


def test_means_are_over_rounds_of_the_chosen_and_of_the_others(tmp_path):
    run = explained(
        tmp_path / "a",
        [
            {"score": of(3.0, 1.0, 0.0, 1.0), "agent": of(1.0, None, None, 0.0), "cost": of(2.0, 4.0, None, 1.0)},
            {"score": of(5.0, 5.0, 6.0, 8.0), "agent": of(1.0, None, None, 3.0), "cost": of(None, None, 9.0, 9.0)},
            {},
        ],
    )
    cost, score, agent = term_means(run)
    assert (cost.title, score.title, agent.title) == ("cost", "score", "agent's value")
    assert (score.chosen, score.others, score.higher, score.rounds) == (3.5, 3.75, 1, 2)
    assert (agent.chosen, agent.others, agent.higher, agent.rounds) == (1.0, 1.5, 1, 2)
    assert (cost.chosen, cost.others, cost.higher, cost.rounds) == (3.0, 1.0, 1, 1)


def test_where_everybody_trains_or_others_are_not_kept_only_the_chosen_have_a_mean(tmp_path):
    everybody = [{"score": of(1.0, 2.0)}, {"score": of(3.0, 4.0)}]
    for name, clients in (("a", 2), ("b", MOST_EXPLAINED + 1)):
        (score,) = term_means(explained(tmp_path / name, everybody, clients))
        assert (score.chosen, score.higher, score.rounds) == (2.5, 0, 2)
        assert math.isnan(score.others)
    (strange,) = term_means(explained(tmp_path / "c", [{"score": of(None, None, 1.0)}]))
    assert math.isnan(strange.chosen)


def test_of_many_clients_the_agent_s_choice_is_no_other_client(tmp_path):
    explanation = [{"agent": of(1.0, 2.0, 9.0, 8.0)}]
    run = explained(tmp_path / "a", explanation, clients=MOST_EXPLAINED + 1)
    assert math.isnan(term_means(run)[0].others)
    (only,) = agent_choices(run).rounds
    assert (only.instead, only.among) == ((2, 3), MOST_EXPLAINED + 1)


def test_what_the_agent_would_have_chosen(tmp_path):
    run = explained(
        tmp_path / "a",
        [
            {"agent": of(0.9, 0.8, 0.1, 0.2)},
            {"agent": of(0.9, 0.1, 0.8, 0.2)},
            {"score": of(1.0, 1.0, 2.0, 2.0)},
            {"agent": of(0.1, None, 0.8, 0.2)},
            {"agent": of(0.5, 0.5, 0.5, 0.5)},
        ],
    )
    found = agent_choices(run)
    assert [each.round for each in found.rounds] == [1, 2, 4, 5]
    assert [each.top for each in found.rounds] == [(0, 1), (0, 2), (2, 3), (0, 1)], "of equal ones those chosen"
    assert [each.instead for each in found.rounds] == [(), (2,), (2, 3), ()]
    assert [each.dropped for each in found.rounds] == [(), (1,), (0, 1), ()]
    assert found.agreed == 2
    assert found.overlap == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert found.by_chance == pytest.approx((0.5 + 0.5 + 2 / 3 + 0.5) / 4)
    assert [each.round for each in found.last] == [5, 4, 2, 1]


def test_the_last_rounds_are_told(tmp_path):
    found = agent_choices(explained(tmp_path / "a", [{"agent": of(1.0, 0.0, 0.5)}] * (LAST_ROUNDS + 3)))
    assert [each.round for each in found.last] == list(range(LAST_ROUNDS + 3, 3, -1))


def test_a_cohort_larger_than_what_the_agent_values(tmp_path):
    (only,) = agent_choices(explained(tmp_path / "a", [{"agent": of(None, 1.0)}])).rounds
    assert (only.top, only.overlap, only.instead) == ((1,), 1.0, ())


def test_runs_without_terms_have_nothing_to_tell(tmp_path):
    run = StoredRun(write_run(tmp_path / "a"))
    assert not is_explained(run)
    assert agent_choices(run) is None
    assert agent_choices(explained(tmp_path / "b", [{"score": of(1.0)}])) is None
    with pytest.raises(InputError, match=r"a does not tell why clients were chosen"):
        why_chosen(run)
