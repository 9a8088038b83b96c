"""What is said to have come out: every number in it is one of the summaries'."""

from typing import Any

import pytest

from fedgraft.engine.server.ledger import PURPOSES
from fedgraft.reports.pages.outcome import outcome

NOTHING = dict.fromkeys(PURPOSES, 0)


def told(score: float | None, sent: int = 3_000, **more: Any) -> dict[str, Any]:
    sizes = {"total": sent, "down": sent, "up": 0, **NOTHING, "model": sent}
    summary = {"dataset": "shops", "metric": "rmse", "better": "lower", "bytes": sizes, "baselines": {}}
    free = {"local_baselines": [], "raw_data_bytes": None, "client_alone": None}
    return {**summary, **free, "test_at_best_validation": score, **more}


def test_the_best_run_its_lead_and_its_price() -> None:
    text = outcome([told(0.9, 4_000), told(0.85), told(0.99)], ["a", "b", "c"])
    assert (
        text
        == "b is best: RMSE 0.8500 on test at best validation, for 3.00 kB, 0.0500 better than a (0.9000, for 4.00 kB)."
    )
    text = outcome(
        [told(0.9, better="higher", metric="accuracy"), told(0.85, better="higher", metric="accuracy")], ["a", "b"]
    )
    assert text.startswith("a is best: accuracy 0.9000")
    assert "as good as b" in outcome([told(0.9), told(0.9)], ["a", "b"])


def test_a_baseline_that_is_better_is_named_and_one_for_no_bytes_too() -> None:
    baselines = {"central_biases": 0.8, "client_biases": 0.85, "global_mean": 1.2, "unknown": None}
    text = outcome([told(0.9, baselines=baselines, local_baselines=["client_biases"])], ["a"])
    assert "The baseline central_biases (0.8000) is better by 0.1000," in text
    assert text.endswith(
        "and client_biases (0.8500), for no bytes, is better too. "
        "Take client_biases instead: each client computes it alone."
    )
    alone = outcome([told(0.9, client_alone={"test": 0.7})], ["a"])
    assert alone.endswith(
        "The baseline each client alone (0.7000), for no bytes, is better by 0.2000. Take sharing.name=local instead: "
        "each client trains alone."
    )
    central = outcome([told(0.9, baselines={"central_biases": 0.8})], ["a"])
    assert central.endswith("is better by 0.1000. Take central_biases instead where all data may be in one place.")
    behind = outcome([told(0.9, baselines={"global_mean": 1.2})], ["a"])
    assert behind.endswith("That is better by 0.3000 than the best baseline, global_mean (1.2000).")


@pytest.mark.parametrize(("raw", "said"), [(1_500, "2 times what"), (30_000, "10 % of what")])
def test_bytes_are_compared_with_sending_all_data_once(raw: int, said: str) -> None:
    assert f"The run sent {said} sending all data once takes" in outcome([told(0.9, raw_data_bytes=raw)], ["a"])


def test_a_run_that_sent_no_model_was_local_training() -> None:
    sizes = {"total": 132, "down": 66, "up": 66, **NOTHING, "header": 132}
    text = outcome([told(0.9, bytes=sizes, raw_data_bytes=1_000)], ["a"])
    assert (
        text
        == "a reaches RMSE 0.9000 on test at best validation, for 132 B. No model was sent: this was local training."
    )


def test_what_cannot_be_compared_is_not() -> None:
    assert "different data" in outcome([told(0.9), told(0.8, dataset="ciao")], ["a", "b"])
    assert "no run has a score" in outcome([told(None)], ["a"])
