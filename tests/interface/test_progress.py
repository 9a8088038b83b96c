import io
import sys

import pytest

from fedgraft.engine.server.loop.stopping import Row
from fedgraft.engine.server.run_state import RunState
from fedgraft.experiment.running.baseline_scores import STAGE
from fedgraft.interface import progress
from fedgraft.interface.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 100) -> Terminal:
    """Make standard error a terminal; called in a test's body, because pytest captures it anew for each phase."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    return stream


def row(round: int, selected: tuple[int, ...] = (0, 3, 7), **changes: object) -> Row:
    values = {
        "failed": {},
        "loss": 1.0,
        "validation": 1.0 / round,
        "test": None,
        "bytes": 1000,
        "bytes_total": 1000 * round,
        "seconds": 0.1,
        "simulated_seconds": 1.0,
    }
    return Row(round=round, selected=selected, **{**values, **changes})  # type: ignore[arg-type]


STATE = RunState([{"examples": 1}] * 10, None, seconds=12.3, best={"validation": 0.5})


def test_plain_lines_are_a_second_apart_with_the_first_and_the_last(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with Progress(100, 0, "rmse", 10) as shown:
        for round in range(1, 36):
            clock[0] = round * 0.125
            shown.after_round(STATE, row(round))
    captured = capsys.readouterr()
    assert captured.out == ""
    rounds = [line.split("/")[0] for line in captured.err.splitlines()]
    assert rounds == ["round 1", "round 9", "round 17", "round 25", "round 33", "round 35"]


def test_a_plain_line_says_everything(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(60, 2_000_000, "rmse", 10) as shown:
        shown.after_round(STATE, row(2, bytes_total=1_240_000, failed={3: "no reply"}, late=(3, 7)))
    told = "client 3 failed: no reply\n"
    expected = told + "round 2/60, rmse 0.5000 (best 0.5000), 1.24 MB of 2.00 MB, chose 0 3 7, 1 late, 1 failed\n"
    assert capsys.readouterr().err == expected


def test_a_round_without_a_score_shows_the_last_one(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with Progress(3, 0, "auc", 10) as shown:
        shown.after_round(RunState([{"examples": 1}], None), row(1, validation=None))
        for round, score in ((2, 0.7), (3, None)):
            clock[0] += 2
            shown.after_round(STATE, row(round, validation=score))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "round 1/3, 1.00 kB, chose 0 3 7"
    assert "auc 0.7000" in lines[1]
    assert "auc 0.7000" in lines[2]


def test_many_clients_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(3, 0, "auc", 100) as shown:
        shown.after_round(STATE, row(1, selected=tuple(range(50, 80))))
    assert "chose 30 of 100" in capsys.readouterr().err


def test_the_number_of_clients_may_be_left_to_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(3, 0, "auc", 0) as shown:
        shown.after_round(STATE, row(1, selected=tuple(range(10))))
    assert "chose 10 of 10" in capsys.readouterr().err


def test_the_last_line_comes_even_when_the_run_breaks(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    def run() -> None:
        with Progress(9, 0, "auc", 10) as shown:
            shown.after_round(STATE, row(1))
            shown.after_round(STATE, row(2))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert capsys.readouterr().err.splitlines()[-1].startswith("round 2/9")


def test_a_note_comes_after_what_was_held_back(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with Progress(9, 0, "auc", 10) as shown:
        shown.after_round(STATE, row(1))
        shown.after_round(STATE, row(2))
        shown.note("stopping [soon]: " + 100 * "x")
    lines = capsys.readouterr().err.splitlines()
    assert [line[:9] for line in lines[:2]] == ["round 1/9", "round 2/9"]
    assert lines[2] == "stopping [soon]: " + 100 * "x"
    assert len(lines) == 3


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(1, 0, "auc", 10, quiet=True) as shown:
        shown.after_round(STATE, row(1))
        shown.note("hello")
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_the_line_is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with Progress(60, 2_000_000, "rmse", 10) as shown:
        shown.after_round(STATE, row(1))
        shown.note("[a note]")
        shown.after_round(STATE, row(12, bytes_total=1_240_000, failed={3: "no reply"}, late=(0, 7)))
    text = terminal.getvalue()
    assert "\x1b[?25l" in text
    assert text.rstrip().endswith("\x1b[?25h")
    for part in (
        "round 12/60",
        "rmse 0.0833 (best 0.5000)",
        "1.24 MB of 2.00 MB",
        "chose 0 3 7",
        "2 late",
        "1 failed",
        "[a note]",
    ):
        assert part in text
    assert "12.3 s" in text


def test_a_live_line_fits_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch, columns=80)
    with Progress(1000, 2_000_000, "accuracy", 100) as shown:
        shown.after_round(STATE, row(999, selected=tuple(range(30)), bytes_total=1_999_999, failed={3: "no reply"}))
    text = terminal.getvalue()
    assert "…" not in text
    assert "12.3 s, chose 30 of 100" in text


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with Progress(60, 0, "rmse", 10) as shown:
        shown.after_round(STATE, row(1))
    assert "\x1b" not in terminal.getvalue()


def test_why_clients_failed_is_told_once_a_reason(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with Progress(3, 0, "rmse", 10) as shown:
        shown.after_round(STATE, row(1, failed={3: "training: ValueError: no", 7: "training: ValueError: no"}))
        shown.after_round(STATE, row(2, failed={3: "training: ValueError: no", 0: "scoring: late"}))
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("client ")]
    assert said == ["client 3 failed: training: ValueError: no", "client 0 failed: scoring: late"]


def test_what_is_prepared_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = on_terminal(monkeypatch)
    with Progress(3, 0, "rmse", 10):
        STAGE.info("baseline %s", "global_mean")
    STAGE.info("nobody looks")
    assert "baseline global_mean ..." in stream.getvalue()
    assert "nobody looks" not in stream.getvalue()


def test_elsewhere_a_stage_is_told_once_it_lasts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "STAGE_SECONDS", 60.0)
    with Progress(3, 0, "rmse", 10) as shown:
        STAGE.info("loading data")
        monkeypatch.setattr(progress, "STAGE_SECONDS", 0.0)
        STAGE.info("preparing %s clients", 100)
        lasts = shown._waiting
        assert lasts is not None
        lasts.join()
        shown.after_round(STATE, row(1))
        shown.after_round(STATE, row(2))
        monkeypatch.setattr(progress, "STAGE_SECONDS", 60.0)
        STAGE.info("baseline mlp")
    lines = [line.split(",")[0] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["preparing 100 clients ...", "round 1/3", "round 2/3"]


def test_quiet_tells_no_stage(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "STAGE_SECONDS", 0.0)
    with Progress(3, 0, "rmse", 10, quiet=True) as shown:
        STAGE.info("loading data")
        assert shown._waiting is None
    assert capsys.readouterr().err == ""
