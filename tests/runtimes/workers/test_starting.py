"""How worker processes begin and end, and what is said of it."""

import os
import signal
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from fedgraft.errors import FedgraftError, MachineError
from fedgraft.runtimes.workers import starting
from fedgraft.runtimes.workers.in_process import InProcess
from fedgraft.runtimes.workers.starting import OUT_OF_MEMORY, STARTS, UNKNOWN, ending, start
from fedgraft.wire import Message, encode
from helpers.toy_runs import toy


class Heavy:
    """A client's data that no process but this one has memory for."""

    def __reduce__(self):
        return _no_memory, ()


def _no_memory():
    raise MemoryError("Unable to allocate 9 TiB")


@pytest.mark.parametrize(
    ("code", "lacked", "said"),
    [
        (OUT_OF_MEMORY, "out of memory (9 TiB)", "out of memory (9 TiB)"),
        (OUT_OF_MEMORY, "", "out of memory"),
        (0, "", "its worker process ended (exit code 0)"),
        (-signal.SIGSEGV, "", "its worker process was killed (signal 11, SIGSEGV)"),
        (-signal.SIGTERM, "", "its worker process was killed (signal 15, SIGTERM)"),
        (-99, "", "its worker process was killed (signal 99)"),
        (UNKNOWN, "", "its worker process was lost"),
        (None, "", "its worker process was lost"),
    ],
)
def test_an_end_is_told_as_it_was(code, lacked, said):
    assert ending(SimpleNamespace(exitcode=code), lacked) == said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(12, "Cannot allocate memory"), r"out of memory \(\[Errno 12\] Cannot allocate memory\)"),
        (BlockingIOError(11, "Resource temporarily unavailable"), r"\[Errno 11\] Resource temporarily unavailable"),
        (MemoryError(), "out of memory"),
    ],
)
def test_where_no_process_can_be_had_one_line_says_so(monkeypatch, error, said):
    def failing():
        raise error

    context = SimpleNamespace(Pipe=lambda: (None, None), Process=lambda **_: SimpleNamespace(start=failing))
    monkeypatch.setattr(starting, "_context", lambda: context)
    with pytest.raises(
        MachineError, match=rf"^A worker process could not start: {said}\. Where memory ran out, use fewer"
    ):
        start(print, ())


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), EOFError("unexpected EOF")])
def test_one_that_is_killed_before_it_has_read_what_it_is_sent_is_started_again(monkeypatch, error):
    started, times = starting._started, []

    def killed_at_first(target, arguments):
        times.append(1)
        if len(times) < STARTS:
            raise error
        return started(target, arguments)

    monkeypatch.setattr(starting, "_started", killed_at_first)
    process, pipe = start(_ends, ())
    assert pipe.recv() == "here"
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), EOFError("unexpected EOF")])
def test_ones_that_cannot_read_what_they_are_sent_end_the_run_with_what_to_do(monkeypatch, error):
    def ends(target, arguments):
        raise error

    monkeypatch.setattr(starting, "_started", ends)
    with pytest.raises(FedgraftError, match=r"could not start: it ended before it had read .* script's own classes"):
        start(_ends, ())


def _ends(pipe):
    pipe.send("here")


def test_workers_that_have_no_memory_for_their_clients_data_say_so():
    experiment = toy()
    with closing(InProcess(experiment.plan, [Heavy()], 1)) as runtime:
        began = time.monotonic()
        with pytest.raises(MachineError, match=r"^A worker process could not start: out of memory\."):
            runtime.measure({0: encode(Message("hello", 0))}, {}, None)
        assert time.monotonic() - began < 60


def test_workers_that_were_started_end_where_another_cannot_be(monkeypatch):
    started, began = [], starting.start

    def only_one(target, arguments):
        if started:
            raise starting.not_started("no more")
        started.append(began(target, arguments))
        return started[0]

    monkeypatch.setattr("fedgraft.runtimes.workers.in_process.start", only_one)
    experiment = toy()
    with pytest.raises(MachineError, match="no more"):
        InProcess(experiment.plan, experiment.data.load(1), 2)
    process, pipe = started[0]
    assert pipe.closed
    process.join(timeout=20)
    assert not process.is_alive()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
