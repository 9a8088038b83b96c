"""An error tells the server a word of a fixed list; its text stays where the client is."""

import logging

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.engine.client.client import Client
from fedgraft.engine.client.failure_codes import code_of
from fedgraft.engine.protocol.codes import CLASSES, CODES
from fedgraft.errors import BeyondLimitError, ClientError, DivergedError, UnknownRequestError, WireError
from fedgraft.testing.runs import Around, here, play
from fedgraft.wire import Message
from helpers.toy_runs import run, toy

SECRET = "/home/ann/patients.csv: column 'diagnosis', value 'F32.1'"


class Named(KeyError):
    """An error class that is made from data."""


Named.__name__ = SECRET


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DivergedError(SECRET), "diverged"),
        (WireError(SECRET), "refused request"),
        (UnknownRequestError(SECRET), "unknown request"),
        (ClientError(SECRET), "cannot serve request"),
        (BeyondLimitError(SECRET), "beyond a limit of its site"),
        (KeyError(SECRET), "internal error: KeyError"),
        (Named(SECRET), "internal error: KeyError"),
        (np.linalg.LinAlgError(SECRET), "internal error: ValueError"),
        (type(SECRET, (Exception,), {})(SECRET), "internal error: Exception"),
    ],
)
def test_every_error_has_a_code_without_a_word_of_its_own(error, code):
    assert code_of(error) == code
    word, _, name = code.partition(": ")
    assert word in CODES
    assert not name or name in CLASSES
    assert len(code) <= 64


class Broken(dict):
    """Shards that cannot be read, and say too much about it."""

    def __getitem__(self, client):
        raise RuntimeError(SECRET)


def test_the_text_is_in_the_client_s_log_and_not_in_its_message(caplog):
    with caplog.at_level(logging.DEBUG, "fedgraft.client"):
        served = Client(toy().plan, Broken()).serve(3, wire.encode(Message("hello", 0)), b"")
    assert wire.decode(served.reply).text == "internal error: RuntimeError"
    assert served.reason == f"RuntimeError: {SECRET}"
    said, traced = caplog.records
    assert (said.levelno, said.getMessage()) == (logging.INFO, f"Client 3, round 0: RuntimeError: {SECRET}")
    assert traced.exc_info[1].args == (SECRET,)


@pytest.mark.parametrize("workers", [0, 1])
def test_on_one_machine_the_run_shows_the_reason_and_charges_the_code(workers):
    task = {"name": "helpers.toy:Line", "fault": "raise", "faulty_points": 120}
    state, rows, runtime = run(toy(task=task, rounds=1, runtime={"workers": workers}))
    assert rows[0].failed == {2: "ValueError: this client is broken"} == {int(c): t for c, t in state.failing.items()}
    (reply,) = (reply for kind, _, client, reply in runtime.received if (kind, client) == ("train", 2))
    assert wire.decode(reply).text == "internal error: ValueError"
    assert sum(len(reply) for _, _, _, reply in runtime.received) == state.bytes["up"]


def test_where_the_machine_does_not_say_more_the_run_shows_the_code():
    class RemoteNodes(Around):
        def reasons(self):
            return {}

    experiment = toy(task={"name": "helpers.toy:Line", "fault": "nan", "faulty_points": 120}, rounds=1)
    played = play(experiment, lambda plan, shards: RemoteNodes(here(plan, shards), plan))
    assert played.rows[0].failed == {2: "diverged"}
