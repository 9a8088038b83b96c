"""The closing lines of a run say what came out."""

from pathlib import Path

from fedgraft.engine.server.ledger import PURPOSES
from fedgraft.engine.server.run_state import FAILURES
from fedgraft.interface.commands.ends import result_lines

SUMMARY = {
    **{"recipe": "cefgl", "dataset": "molecules", "rounds": 3, "stopped_by": "rounds", "scored": 0, "remarks": []},
    **{"metric": "accuracy", "better": "higher", "validation": 0.5, "test": 0.6, "test_at_best_validation": 0.6},
    "measures": {"test": {"accuracy": 0.6, "macro_f1": 0.55}},
    "bytes": {"total": 132, "down": 66, "up": 66, **dict.fromkeys(PURPOSES, 0)},
    "failures": dict.fromkeys(FAILURES, 0),
    **dict.fromkeys(("raw_data_bytes", "client_alone")),
    "baselines": {"majority": 0.7},
    "local_baselines": ["majority"],
    "digest": "0" * 32,
}


def test_the_rarer_class_of_each_label_is_told_in_one_line() -> None:
    told = {"class": "yes", "other": "no", "share": 0.03, "threshold": 0.25, "curve": []}
    thresholds = {"wear": told, "noise": {**told, "threshold": None}}
    lines = result_lines({**SUMMARY, "thresholds": thresholds}, Path("runs/a"))
    said = "of 'wear' 'yes', 3.00% of validation, from 0.2500 on; of 'noise' 'yes', 3.00% of validation"
    assert f"  the rarer class of each label: {said}" in lines


def test_a_run_ends_with_what_came_out() -> None:
    lines = result_lines(SUMMARY, Path("runs/a"))
    assert lines[-2].strip() == (
        "cefgl reaches accuracy 0.6000 on test at best validation, for 132 B. "
        "The baseline majority (0.7000), for no bytes, is better by 0.1000. "
        "Take majority instead: each client computes it alone. No model was sent: this was local training."
    )
    assert "  on test at best validation, too: macro-F1 0.5500" in lines
