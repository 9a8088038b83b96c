"""How commands end: interrupted, without an answer of any client, with failures to tell, without enough memory."""

import os
import signal
import subprocess
import sys
import time
from datetime import datetime, tzinfo
from pathlib import Path

import pytest

from fedgraft.errors import AllClientsFailedError
from fedgraft.interface.commands import compare, report, run
from helpers.tiny import ARGUMENTS


def test_an_interrupted_run_is_exit_code_130_and_can_be_resumed(fedgraft) -> None:
    long = [*(argument for argument in ARGUMENTS if not argument.startswith("rounds")), "rounds=15"]
    script = "import sys; from fedgraft.interface.cli import main; sys.argv[0] = 'fedgraft'; main()"
    command = [sys.executable, "-c", script, "run", "fedacs", *long, "--out", "a", "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    try:
        began = time.monotonic()
        while not Path("a/rounds.jsonl").exists() and time.monotonic() - began < 60:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert out == ""
    assert "Interrupted. Continue with: fedgraft resume a" in err
    assert "Traceback" not in err
    assert not Path("a/summary.json").exists()
    resumed = fedgraft("resume", "a", "--json")
    assert resumed.code == 0
    whole = fedgraft("run", "fedacs", *long, "--out", "b", "--json").json()
    assert resumed.json()["rounds"] == 15
    assert resumed.json()["digest"] == whole["digest"]
    assert resumed.json()["bytes"] == whole["bytes"]


def test_an_interruption_before_the_first_round_is_exit_code_130_too(fedgraft, monkeypatch) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "execute", interrupted)
    done = fedgraft("run", "fedacs", *ARGUMENTS, "--out", "a")
    assert done.code == 130
    assert done.out == ""
    monkeypatch.setattr(compare, "open_named", interrupted)
    assert fedgraft("compare", "a").code == 130


def test_errors_that_are_not_the_users_keep_their_own_exit_code(fedgraft, monkeypatch) -> None:
    def failed(*arguments: object, **options: object) -> None:
        raise AllClientsFailedError(3, {0: "[no] reply", 1: "nan"})

    monkeypatch.setattr(run, "execute", failed)
    done = fedgraft("run", "fedacs", *ARGUMENTS)
    assert done.code == 1
    assert "Round 3: all 2 selected clients failed." in done.err
    assert "client 0: [no] reply" in done.err, "brackets in a reason are no markup"


def test_a_run_that_nobody_answered_is_an_error_with_reasons(fedgraft) -> None:
    done = fedgraft("run", "fedacs", *ARGUMENTS, "dropout.rate=1.0", "--out", "a", "-q")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: Round 2: all 3 selected clients failed.\n  client 0: its connection is down\n")


def test_failures_are_told_at_the_end_of_a_run(fedgraft, tmp_path) -> None:
    toml = """baselines = []
[data]
name = "helpers.toy:Lines"
[selector]
name = "all"
[task]
fault = "raise"
faulty_points = 120
at = "{at}"
[runtime]
workers = 0
"""
    for at in ("training", "scoring"):
        (tmp_path / f"{at}.toml").write_text(toml.format(at=at))
        done = fedgraft("run", f"{at}.toml", "rounds=2", "--out", at)
        assert done.code == 0
        assert "1 failed" in done.err
        assert f"  clients failed, {2 if at == 'training' else 3} in {at}" in done.out
    assert "rmse: validation -, test -" in done.out
    assert "a scoring that lacks clients has no score." in done.out
    done = fedgraft("compare", "training", "scoring")
    assert "training: clients failed, 2 in training." in " ".join(done.out.split())
    (tmp_path / "none.toml").write_text(toml.format(at="never"))
    assert "failed" not in fedgraft("run", "none.toml", "rounds=2", "--out", "none").out


@pytest.mark.parametrize("text", ["Unable to allocate 9 TiB", "DefaultCPUAllocator: can't allocate memory"])
def test_too_little_memory_outside_of_a_round_is_one_line(fedgraft, monkeypatch, text) -> None:
    def failed(*arguments: object, **options: object) -> None:
        raise (MemoryError if "Unable" in text else RuntimeError)(text)

    monkeypatch.setattr(report, "write_report", failed)
    done = fedgraft("report", "a", "-o", "b.html")
    assert (done.code, done.err) == (1, f"error: There is not enough memory. {text}\n")


def test_too_little_memory_is_one_line(fedgraft, monkeypatch) -> None:
    def failed(*arguments: object, **options: object) -> None:
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr(run, "execute", failed)
    done = fedgraft("run", "fedacs", *ARGUMENTS)
    assert done.code == 1
    assert done.err == "error: There is not enough memory. Unable to allocate 9 TiB\n"


def test_runs_that_begin_in_the_same_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Now(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Now":
            return cls(2026, 1, 2, 3, 4, 5)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "datetime", Now)
    names = []
    for _ in range(3):
        folder = run.free_folder("fedais")
        folder.mkdir(parents=True)
        names.append(folder.as_posix())
    assert names == ["runs/fedais-20260102-030405", "runs/fedais-20260102-030405-2", "runs/fedais-20260102-030405-3"]
