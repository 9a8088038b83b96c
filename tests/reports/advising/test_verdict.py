"""The verdict on made-up scores: what is equal, what is advised, and what one more recipe on the list changes."""

from types import SimpleNamespace

import pytest

from fedgraft.reports.advising.cells import TIME, WORK, Limit, StoppedError
from fedgraft.reports.advising.questions import ALONE, LOCAL, TOGETHER, Candidate, Trial
from fedgraft.reports.advising.verdict import FEDERATE, KEEP_APART, Row, judge

FIRST, SECOND, THIRD = (Candidate(name, name, "") for name in ("first", "second", "third"))
QUESTION = SimpleNamespace(choice=SimpleNamespace(recipes=(FIRST, SECOND, THIRD)), budget=0)


def together(candidate, *scores, size=1000):
    cells = {
        seed: {
            **dict.fromkeys(("validation", "pooled", "own", "test"), score),
            "bytes": {"total": size},
            "better": "higher",
            "metric": "accuracy",
            "raw_data_bytes": None,
            "clients": 1,
            "test_per_client": [score],
            "curve": [],
        }
        for seed, score in enumerate(scores, start=1)
    }
    return Row(TOGETHER, candidate.name, cells, "", candidate)


def alone(candidate, *scores):
    cells = {
        seed: {"validation": score, "test": score, "test_per_client": [score]}
        for seed, score in enumerate(scores, start=1)
    }
    return Row(ALONE, f"{candidate.name}'s model", cells, "pooled", candidate)


APART = alone(FIRST, 0.60, 0.62, 0.61)


def test_of_equal_ones_the_cheapest_is_advised():
    dear, cheap = together(FIRST, 0.83, 0.84, 0.82, size=9000), together(SECOND, 0.82, 0.84, 0.83, size=100)
    verdict = judge(QUESTION, [dear, cheap, together(THIRD, 0.7, 0.7, 0.7, size=1), APART], {})
    assert (verdict.advice, verdict.best, verdict.equals) == (FEDERATE, cheap, ["first"])
    assert "for 100 B. Equal to it within the spread: first (0.8300, 9.00 kB)." in verdict.sentence


def test_one_more_recipe_takes_no_gain_away():
    """The second is a hair better in the mean, and so unsteady that no gain of it is shown."""
    steady, unsteady = together(FIRST, 0.80, 0.81, 0.80), together(SECOND, 0.99, 0.60, 0.90)
    before = judge(QUESTION, [steady, APART], {})
    after = judge(QUESTION, [steady, unsteady, APART], {})
    assert (before.advice, before.best) == (after.advice, after.best) == (FEDERATE, steady)


def test_the_first_is_advised_where_a_better_one_shows_no_gain():
    steady, unsteady = together(FIRST, 0.70, 0.71, 0.72), together(SECOND, 1.0, 0.65, 0.99)
    verdict = judge(QUESTION, [steady, unsteady, alone(FIRST, 0.6, 0.62, 0.61)], {})
    assert verdict.gains["second"].middle > verdict.gains["first"].middle > 0
    assert (verdict.advice, verdict.best) == (FEDERATE, steady)
    assert verdict.sentence.endswith("second has accuracy 0.8800 on validation, but its gain is not shown.")


def test_a_gain_within_the_spread_is_none():
    verdict = judge(QUESTION, [together(FIRST, 0.60, 0.66, 0.61), APART], {})
    assert verdict.advice == KEEP_APART
    assert "they are equal within the spread for 1.00 kB." in verdict.sentence


def test_what_was_left_out_is_said_with_its_limit():
    missing = {
        Trial(TOGETHER, "second", 1, "", SECOND): WORK,
        Trial(TOGETHER, "third", 1, "", THIRD): TIME,
        Trial(ALONE, "first's model", 3, LOCAL, FIRST): TIME,
    }
    verdict = judge(QUESTION, [together(FIRST, 0.8, 0.81, 0.8), APART], missing)
    assert verdict.sentence.endswith("Not tried within --work: second. Not tried within --minutes: third.")


@pytest.mark.parametrize(("spent", "share", "sure"), [(40, 0.5, True), (40, 0.5, False), (60, 1.0, True)])
def test_a_job_is_stopped_by_what_it_will_have_taken(spent, share, sure):
    limit = Limit(70, float("inf"))
    if sure and spent / share > 70:
        with pytest.raises(StoppedError) as caught:
            limit.check(spent, share, sure)
        assert (caught.value.limit, caught.value.spent, caught.value.needed) == (WORK, 40, 80)
    else:
        limit.check(spent, share, sure)
    with pytest.raises(StoppedError) as caught:
        Limit(float("inf"), 0.0).check(spent, share, sure)
    assert caught.value.limit == TIME
