"""The audit log: any byte that is changed is named by its line, and no line of what has left is ever lost."""

import hashlib
import json
import os
import stat

import pytest

from fedgraft import wire
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import InputError, MachineError
from fedgraft.runtimes.federation import audit
from fedgraft.runtimes.federation.audit import (
    BEGINNING,
    FILE,
    SIGNATURE,
    AuditLog,
    Head,
    canonical,
    chained,
    public_key_of,
    read,
    write_head,
)
from fedgraft.runtimes.federation.certificates import node_key
from fedgraft.runtimes.federation.envelope import Answer, opened
from fedgraft.testing.runs import toy
from fedgraft.wire import Message
from helpers.killed_runs import Killed
from helpers.local_nodes import RUN, local_runtime

ENTRY = {"run": RUN, "kind": "train", "round": 1, "decision": "sent"}
KEY = node_key("north").private
PUBLIC = [public_key_of(KEY)]


def log_of(path, lines=3, key=KEY):
    log = AuditLog(path, key)
    for round in range(lines):
        log.add({**ENTRY, "round": round})
    return log


def test_a_line_by_hand(tmp_path):
    log = log_of(tmp_path / FILE, 2)
    one, two = ((tmp_path / FILE).read_text()).splitlines()
    first = json.loads(one)
    assert len(bytes.fromhex(first["salt"])) == 16
    own = dict.fromkeys(("time", "hash", "salt"), "")
    assert {**first, **own} == {**ENTRY, "round": 0, "prev": BEGINNING, **own}
    assert json.loads(two)["prev"] == first["hash"]
    assert (log.lines, log.head) == (2, json.loads(two)["hash"])
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_every_hundredth_line_is_a_signature_and_each_follows_the_one_before(tmp_path):
    log = log_of(tmp_path / FILE, 150)
    log = AuditLog(tmp_path / FILE, KEY)
    log.add(ENTRY)
    log.sign()
    lines = list(read(tmp_path / FILE, PUBLIC))
    assert [number for number, line in enumerate(lines, 1) if line["kind"] == SIGNATURE] == [100, 153]
    assert log.lines == 153
    assert len(list(read(tmp_path / FILE))) == 153


def test_a_log_without_a_key_has_no_signatures(tmp_path):
    log = log_of(tmp_path / FILE, 120, key=None)
    log.sign()
    assert len(list(read(tmp_path / FILE))) == 120
    with pytest.raises(ValueError, match=r"^line 100: a signature is missing$"):
        list(read(tmp_path / FILE, PUBLIC))


def test_any_byte_that_is_changed_is_named_by_its_line(tmp_path):
    log_of(tmp_path / FILE, 3).sign()
    whole, path = (tmp_path / FILE).read_bytes(), tmp_path / "changed"
    number = 1
    for place, byte in enumerate(whole):
        for change in (1, 32):
            path.write_bytes(whole[:place] + bytes([byte ^ change]) + whole[place + 1 :])
            with pytest.raises(ValueError, match=rf"^line {number}: "):
                list(read(path, PUBLIC))
        number += byte == ord("\n")
    assert number == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[1:], "line 1: it does not follow the line before it"),
        (lambda lines: [lines[0], *lines[2:]], "line 2: it does not follow the line before it"),
        (lambda lines: [lines[0], lines[2], lines[1], lines[3]], "line 2: it does not follow"),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], "line 3: it does not follow"),
        (lambda lines: [*lines[:3], lines[3][:-1]], "line 4: it is cut short"),
    ],
    ids=["first left out", "left out", "swapped", "twice", "last cut"],
)
def test_lines_that_are_left_out_moved_or_repeated_are_named(tmp_path, change, said):
    log_of(tmp_path / FILE, 4)
    lines = (tmp_path / FILE).read_bytes().splitlines(keepends=True)
    (tmp_path / FILE).write_bytes(b"".join(change(lines)))
    with pytest.raises(ValueError, match=said):
        list(read(tmp_path / FILE, PUBLIC))


def test_a_log_that_is_written_anew_has_no_signature_of_the_key(tmp_path):
    """Who has not the key can chain other lines, but not sign them."""
    log_of(tmp_path / FILE, 2).sign()
    lines, prev = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()], BEGINNING
    lines[0]["round"] = 7
    written = b""
    for line in lines:
        made = chained(line, prev)
        written, prev = written + canonical(made), made["hash"]
    (tmp_path / FILE).write_bytes(written)
    with pytest.raises(ValueError, match=r"^line 3: its signature is not that of its key$"):
        list(read(tmp_path / FILE, PUBLIC))


def test_a_signature_of_another_key_is_named_unless_the_node_had_it_before(tmp_path):
    log_of(tmp_path / FILE, 2, node_key("other").private).sign()
    AuditLog(tmp_path / FILE, KEY).sign()
    with pytest.raises(ValueError, match=r"^line 3: it is signed with another key than the node's"):
        list(read(tmp_path / FILE, PUBLIC))
    keys = [line["key"] for line in read(tmp_path / FILE) if line["kind"] == SIGNATURE]
    assert keys[1:] == PUBLIC
    assert len(list(read(tmp_path / FILE, keys))) == 4


def test_a_line_that_a_kill_cut_short_anywhere_is_taken_away(tmp_path):
    log = log_of(tmp_path / FILE, 2)
    whole, path = (tmp_path / FILE).read_bytes(), tmp_path / "cut"
    first = whole.index(b"\n") + 1
    for size in range(first, len(whole)):
        path.write_bytes(whole[:size])
        write_head(path, Head(1, json.loads(whole[:first])["hash"]))  # the kill came before the second line's
        again = AuditLog(path, KEY)
        assert (again.lines, path.read_bytes()) == (1, whole[:first])
        again.add(ENTRY)
        assert len(list(read(path, PUBLIC))) == 2
    assert log.lines == 2


def test_a_last_line_that_is_damaged_is_told_as_the_node_starts(tmp_path):
    log_of(tmp_path / FILE, 2)
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole.replace(b'"round":1', b'"round":2'))
    with pytest.raises(InputError, match=r"audit\.jsonl, line 2: it is not what was written\. See 'fedgraft audit "):
        AuditLog(tmp_path / FILE)


def test_a_disk_that_took_half_a_line_loses_the_half(tmp_path, monkeypatch):
    log = log_of(tmp_path / FILE, 2)
    fsync = os.fsync

    def full(handle):
        os.ftruncate(handle, os.fstat(handle).st_size - 9)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineError, match=r"audit\.jsonl cannot be written: No space left on device"):
        log.add(ENTRY)
    monkeypatch.setattr(os, "fsync", fsync)
    log.add({**ENTRY, "round": 5})
    assert [line["round"] for line in read(tmp_path / FILE, PUBLIC)] == [0, 1, 5]


class Dying:
    """Lets the n-th call of some of `os`'s functions be the last; of what was to be forced to disk half is there."""

    def __init__(self, monkeypatch, at):
        self.calls, self.at, self.size = 0, at, 0
        for name in ("open", "fsync", "truncate"):
            monkeypatch.setattr(os, name, self.dying(getattr(os, name)))

    def dying(self, function):
        def call(first, *given):
            self.calls += 1
            if function.__name__ == "open":
                self.size = os.stat(first).st_size if os.path.exists(first) else 0
            if self.calls == self.at:
                if function.__name__ == "fsync":
                    os.ftruncate(first, (self.size + os.fstat(first).st_size) // 2)
                raise Killed
            return function(first, *given)

        return call


def test_a_kill_at_any_operation_loses_no_line_of_what_has_left(tmp_path):
    """And the same requests have the same answers then."""
    experiment = toy(training={"optimizer": "adam", "keep_moments": True})
    shards = experiment.data.load(experiment.seed)
    layout, arrays = Protocol.of(experiment.plan).request_layouts["train"], dict(experiment.plan.first)
    requests = [wire.encode(Message("train", round, arrays=arrays), layout) for round in (1, 2)]

    def served(root, at=0):
        """Ask a node for two rounds; SHA-256 of what has left, and whether all has."""
        runtime, left = local_runtime(experiment.plan, shards, root), []
        runtime._link.change = lambda node, data: left.append(opened(Answer, data).reply) or data
        with pytest.MonkeyPatch.context() as patch:
            Dying(patch, at)
            try:
                for request in requests:
                    runtime.exchange({1: request}, {1: 1 << 20}, 5.0)
            except Killed:
                return [hashlib.sha256(reply).hexdigest() for reply in left]
        return [hashlib.sha256(reply).hexdigest() for reply in left]

    whole = served(tmp_path / "whole")
    assert len(whole) == 2
    at, sent = 0, []
    while len(sent) < 2:
        at += 1
        sent = served(tmp_path / str(at), at)
        path = tmp_path / str(at) / "1" / FILE
        AuditLog(path)  # which cuts what is half there
        logged = [line["sha256"] for line in read(path) if "sha256" in line]
        assert logged[1 : 1 + len(sent)] == sent, "the first is of joining"
        assert len(logged) <= 2 + len(sent)
        assert served(tmp_path / str(at)) == whole
    assert at > 8


def test_what_a_log_holds_is_nothing_of_the_data(tmp_path):
    experiment = toy()
    runtime = local_runtime(experiment.plan, experiment.data.load(experiment.seed), tmp_path)
    runtime.exchange({1: wire.encode(Message("hello", 0))}, {1: 1 << 20}, 5.0)
    known = {"time", "run", "kind", "round", "number", "purpose", "bytes", "sha256", "decision", "salt", "prev", "hash"}
    begun, *lines = audit.read(tmp_path / "1" / FILE)
    assert begun.keys() == {"time", "run", "kind", "nonce", "salt", "prev", "hash"}
    for line in lines:
        assert known <= line.keys() <= known | {"request", "reply", "set_up", "tells", "why"}
