"""Signals that ask a process to end: which are handled, which stay as they are, and what the second one does."""

import signal
import threading

import pytest

from fedgraft.runtimes.workers.signals import ENDING, Terminated, deferred, handle, interrupt, leave, text_of


@pytest.fixture(autouse=True)
def unchanged():
    """Put back whatever handled the signals."""
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_the_first_signal_is_noted_and_the_second_one_ends_at_once(number):
    before = {each: signal.getsignal(each) for each in ENDING}
    with deferred() as asked:
        assert not asked
        signal.raise_signal(number)
        assert asked
        assert asked.number == number
        with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else Terminated):
            signal.raise_signal(number)
    assert {each: signal.getsignal(each) for each in ENDING} == before


def test_the_exit_code_is_128_and_the_signal_s_number():
    with pytest.raises(SystemExit) as stop:
        interrupt(signal.SIGTERM, None)
    assert stop.value.code == 143
    assert text_of(signal.SIGTERM) == "Ended by SIGTERM"
    assert text_of(signal.SIGINT) == "Interrupted"


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda number, frame: None])
def test_a_signal_that_is_ignored_or_handled_by_somebody_else_stays_so(handler):
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)
    assert handle(interrupt).keys() == {signal.SIGINT}
    with deferred():
        assert signal.getsignal(signal.SIGTERM) is handler
    assert signal.getsignal(signal.SIGHUP) is handler


def test_a_run_takes_over_from_the_command():
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    assert handle(interrupt).keys() == set(ENDING)
    with deferred() as asked:
        signal.raise_signal(signal.SIGTERM)
        assert asked.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is interrupt


def test_a_command_that_is_done_is_not_interrupted_any_more():
    handle(interrupt)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    leave()
    found = {number: signal.getsignal(number) for number in ENDING}
    assert found.pop(signal.SIGHUP) == signal.SIG_IGN
    assert set(found.values()) == {signal.SIG_DFL}


def test_another_thread_changes_nothing():
    found = []
    thread = threading.Thread(target=lambda: found.append(handle(interrupt)))
    thread.start()
    thread.join()
    assert found == [{}]


def test_where_there_is_nothing_to_store_the_first_signal_ends_at_once():
    with deferred() as asked:
        with pytest.raises(KeyboardInterrupt), asked.at_once():
            signal.raise_signal(signal.SIGINT)
        assert not asked
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Terminated), asked.at_once():
            pytest.fail("it was asked to end before")
