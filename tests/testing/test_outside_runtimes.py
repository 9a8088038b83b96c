"""Runtimes from outside: one that keeps the laws passes, one that breaks a law fails with its name."""

import pytest

from fedgraft.contracts import ClientFailed
from fedgraft.runtimes.workers.in_process import InProcess
from fedgraft.testing import check_runtime, runtimes


class Inline(InProcess):
    """A runtime in this process: what the broken ones below are made of."""

    def __init__(self, plan, shards):
        super().__init__(plan, shards, workers=0)


def test_a_runtime_from_outside_keeps_the_laws():
    check_runtime(Inline, deadlines=False)


class Counting(Inline):
    def clients(self):
        return range(1, len(super().clients()) + 1)


class ClosingOnce(Inline):
    def close(self):
        assert self._inline is not None
        super().close()


class Limitless(Inline):
    def exchange(self, requests, limits, deadline_seconds):
        return super().exchange(requests, dict.fromkeys(requests, 1 << 30), deadline_seconds)


class Silent(Inline):
    def exchange(self, requests, limits, deadline_seconds):
        replies = super().exchange(requests, limits, deadline_seconds)
        return {
            client: ClientFailed("") if isinstance(reply, ClientFailed) else reply for client, reply in replies.items()
        }


class Remembering(Inline):
    """A client whose reply was refused remembers what it did."""

    def exchange(self, requests, limits, deadline_seconds):
        replies = super().exchange(requests, limits, deadline_seconds)
        failed = [client for client, reply in replies.items() if isinstance(reply, ClientFailed)]
        super().exchange({client: requests[client] for client in failed}, dict.fromkeys(failed, 1 << 30), None)
        return replies


class Forgetful(Inline):
    def restore(self, memories):
        super().restore({})


class Secretive(Inline):
    def memories(self, changed=True):
        return ((client, memory) for client, memory in super().memories(changed) if client >= 0)


class Talkative(Inline):
    def memories(self, changed=True):
        super().memories(changed)
        return super().memories(changed=False)


class Uncounted(Inline):
    def flops(self):
        return {}


class Training(Inline):
    """A measurement that trains: it changes what clients remember."""

    def measure(self, requests, models, deadline_seconds):
        for client, memory in list(self._memories.items()):
            self._memories[client] = {name: tree for name, tree in memory.items() if name != "uplink"}
        return super().measure(requests, models, deadline_seconds)


class Retrying(Inline):
    """A runtime that gives every client's work to the first one that it is about."""

    def exchange(self, requests, limits, deadline_seconds):
        replies = super().exchange(requests, limits, deadline_seconds)
        first = next(iter(replies.values()))
        return dict.fromkeys(replies, first)


@pytest.mark.parametrize(
    ("make", "law"),
    [
        (Counting, "clients_are_numbered_from_zero_and_closing_twice_is_safe"),
        (ClosingOnce, "clients_are_numbered_from_zero_and_closing_twice_is_safe"),
        (Limitless, "a_reply_beyond_its_limit_fails_that_client_and_changes_no_memory"),
        (Silent, "a_reply_beyond_its_limit_fails_that_client_and_changes_no_memory"),
        (Remembering, "a_reply_beyond_its_limit_fails_that_client_and_changes_no_memory"),
        (Forgetful, "a_run_that_is_stopped_and_resumed_ends_the_same"),
        (Secretive, "a_run_ends_as_in_one_process"),
        (Talkative, "memories_are_returned_once_after_they_changed_and_restored"),
        (Forgetful, "memories_are_returned_once_after_they_changed_and_restored"),
        (Uncounted, "operations_are_returned_of_those_that_computed"),
        (Training, "measuring_is_free_and_changes_nothing"),
        (Retrying, "a_client_that_fails_is_named_with_a_reason_or_a_code_and_the_others_go_on"),
        (Inline, "a_client_that_is_late_fails_alone"),
    ],
)
def test_a_runtime_that_breaks_a_law_is_caught(make, law, monkeypatch):
    monkeypatch.setattr("fedgraft.testing.toy.SLEEP_SECONDS", 0.0)
    laws = {str(each): each for each in runtimes.laws(make)}
    with pytest.raises(AssertionError, match=f"{make.__name__} breaks the law '{law}'"):
        laws[law]()
