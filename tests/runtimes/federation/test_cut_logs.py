"""A log that was cut, moved away or put back from a copy: it is refused, or all that it hides is drawn anew."""

import json
import os
import re
import shutil

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.engine.privacy.policy import Policy
from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.policies import own_policy
from fedgraft.experiment.running import runner
from fedgraft.experiment.storage.client_files import shard
from fedgraft.runtimes.federation.audit import FILE, AuditLog, canonical, chained, read
from fedgraft.runtimes.federation.audit_head import Head, head_file, read_head
from fedgraft.runtimes.federation.envelope import Answer, Order, opened
from fedgraft.testing.runs import toy
from helpers.killed_runs import Killed
from helpers.local_nodes import RUN, local_runtime
from helpers.local_sites import LocalSites, traffic

ENTRY = {"run": RUN, "kind": "train", "round": 1, "decision": "sent"}
AGAIN = r"Move audit\.jsonl and audit\.head away together to begin another log"


def log_of(path, lines):
    log = AuditLog(path)
    for round in range(lines):
        log.add({**ENTRY, "round": round})
    return log


@pytest.mark.parametrize("left", [0, 1, 4])
def test_a_log_that_was_cut_is_refused(tmp_path, left):
    path = tmp_path / FILE
    log_of(path, 5)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:left]))
    with pytest.raises(InputError, match=rf"has {left} lines, and not all that were written: .*knows of 5\. .*{AGAIN}"):
        AuditLog(path)


def test_a_log_that_was_written_anew_from_a_line_on_is_refused(tmp_path):
    path = tmp_path / FILE
    log_of(path, 5)
    lines = path.read_bytes().splitlines(keepends=True)
    prev = json.loads(lines[2])["hash"]
    for round in range(3, 9):
        made = chained({**ENTRY, "round": round, "time": "2026-11-24"}, prev)
        prev, lines[round:] = made["hash"], [canonical(made)]
    path.write_bytes(b"".join(lines))
    assert len(list(read(path))) == 9, "its chain alone says nothing of it"
    with pytest.raises(InputError, match="has 9 lines, and not all that were written"):
        AuditLog(path)


def test_a_log_whose_file_alone_was_moved_away_is_refused_and_both_begin_anew(tmp_path):
    path = tmp_path / FILE
    log_of(path, 2)
    path.unlink()
    with pytest.raises(InputError, match="has 0 lines"):
        AuditLog(path)
    head_file(path).unlink()
    assert AuditLog(path).lines == 0


def test_a_log_without_a_head_is_one_line_with_the_remedy(tmp_path):
    path = tmp_path / FILE
    path.write_bytes(canonical(chained({**ENTRY, "time": "2026-11-24"}, "0" * 64)))
    with pytest.raises(InputError) as refusal:
        AuditLog(path)
    said = str(refusal.value)
    assert re.search(
        r"has no audit\.head beside it: somebody took that away\. Put it back, or move audit\.jsonl away to begin", said
    )
    assert "\n" not in said
    path.unlink()
    assert AuditLog(path).lines == 0


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"lines": "2", "head": ""}', '{"lines": 2}'])
def test_a_head_that_is_damaged_is_one_line(tmp_path, content):
    path = tmp_path / FILE
    log_of(path, 2)
    head_file(path).write_text(content)
    with pytest.raises(InputError, match=rf"audit\.head is damaged.*{AGAIN}"):
        AuditLog(path)


def test_kill_at_every_file_operation_gives_no_false_alarm(tmp_path):
    """Before each operation, and after it: the log is taken up, and has every line of which `add` returned."""
    names = ("open", "fsync", "replace")

    def served(path, at, before):
        done, count = 0, 0

        def counted(function):
            def call(*given, **named):
                nonlocal count
                count += 1
                if count == at and before:
                    raise Killed
                result = function(*given, **named)
                if count == at:
                    raise Killed
                return result

            return call

        with pytest.MonkeyPatch.context() as patching:
            for name in names:
                patching.setattr(os, name, counted(getattr(os, name)))
            try:
                log = AuditLog(path)
                for round in range(2):
                    log.add({**ENTRY, "round": round})
                    done += 1
            except Killed:
                return done, False
        return done, True

    for before in (True, False):
        at, ended = 0, False
        while not ended:
            at += 1
            path = tmp_path / f"{before}{at}" / FILE
            done, ended = served(path, at, before)
            again = AuditLog(path)
            assert done <= again.lines <= done + 1
            again.add(ENTRY)
            assert read_head(path) == Head(again.lines, again.head)
            assert len(list(read(path))) == again.lines
        assert at > 8


def test_lines_that_are_equal_have_other_hashes(tmp_path):
    """Who is told a head cannot try words until it fits."""
    heads = {log_of(tmp_path / str(number) / FILE, 1).head for number in range(3)}
    assert len(heads) == 3


def replies(sent, kind):
    """What client 0 has answered of a kind, in a run."""
    found = []
    for order, answer in zip(sent[::2], sent[1::2], strict=True):
        if opened(Order, order).kind == "serve" and opened(Answer, answer).client == 0:
            found.append(opened(Answer, answer).reply)
    return [each for each in found if wire.kind_of(each) == kind]


def test_two_runs_of_one_name_have_other_pads_and_other_noise_where_the_log_was_moved_away(tmp_path, monkeypatch):
    """The attack: with the log, what was told is forgotten; the same name would have drawn the same noise again."""
    changes = {
        **{"data.name": "blocks", "data.nodes": 90, "data.clients": 3, "data.features": 4, "rounds": 1},
        **{"privacy.delta": 1e-4, "privacy.shares": 3, "baselines": []},
    }
    names = []
    paths = shard(jobs.load("graft_node_private", changes), tmp_path / "shards", lambda name, *_: names.append(name))
    recipe = str(tmp_path / "shards" / "recipe.toml")
    experiment = jobs.load(recipe, {"runtime.name": "sites", "baselines": []})
    monkeypatch.setattr(runner.secrets, "token_hex", lambda size: "0123456789abcdef" * 2)
    allowed = own_policy(experiment, Policy(epsilon=9.0, delta=1e-4))

    def told(number):
        there = LocalSites(experiment, [[str(path)] for path in paths], names, tmp_path / "nodes", allowed)
        with monkeypatch.context() as patching:
            sent = traffic(patching)
            runner.execute(experiment, tmp_path / f"run {number}", sites=there)
        return {kind: replies(sent, kind) for kind in ("keys", "train")}

    first, again = told(1), told(2)
    assert first == again, "with its log the run has the same bits"
    for path in (tmp_path / "nodes").glob("*/audit.*"):
        shutil.move(path, path.with_name(f"old {path.name}"))
    other = told(3)
    for kind in ("keys", "train"):
        assert len(other[kind]) == len(first[kind]) > 0
        assert not {*other[kind]} & {*first[kind]}, "a pad or noise was used again"
    begin = wire.header_bytes(first["train"][0])
    one, two = (np.frombuffer(each["train"][0][begin:], np.uint8) for each in (first, other))
    assert (one == two).mean() < 0.25, "codes that hide nothing new would be nearly the same"


def test_a_run_that_is_taken_up_has_its_nonce(tmp_path):
    experiment = toy()
    shards = experiment.data.load(experiment.seed)
    for _ in range(2):
        local_runtime(experiment.plan, shards, tmp_path)
    begun = [line for line in read(tmp_path / "1" / FILE) if line["kind"] == "begun"]
    assert len(begun) == 1
    assert len(bytes.fromhex(begun[0]["nonce"])) == 32
