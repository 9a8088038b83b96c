"""Masked rounds with noise at sites, killed at each file operation of server and sites: none is told twice."""

import hashlib
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fedgraft import wire
from fedgraft.engine.privacy.policy import Policy
from fedgraft.experiment import job as jobs
from fedgraft.experiment.policies import own_policy
from fedgraft.experiment.running import runner
from fedgraft.experiment.storage.client_files import shard
from fedgraft.runtimes.federation import journal
from fedgraft.runtimes.federation.audit import FILE, read
from fedgraft.runtimes.federation.envelope import Answer, Order
from fedgraft.runtimes.federation.envelope import opened as opened_as
from fedgraft.runtimes.federation.node import Node
from helpers.local_sites import LocalSites

COMMON = {"data.clients": 3, "rounds": 2, "baselines": [], "privacy.delta": 1e-4, "privacy.shares": 3}
RECIPES = {
    "graft_node_private": {
        **{"data.name": "blocks", "data.nodes": 90, "data.features": 4, "evaluation.every": 2},
        **{"answers.smoothing": 1, "privacy.answers": 1.0},
    },
    "graft_rating_private": {"data.users": 30, "data.items": 30, "data.count": 200, "training.epochs": 1},
}


class Operations:
    """Count calls by which files become durable, or are renamed; of every `step`th keep what a kill there leaves.

    What is on all disks is copied before the call is done, or after, in turn.

    Args:
        root: of the run's folders.
        copies: where {number of the call: copy of the root} come to be.
        step: how far apart they lie.
        replies: that have left nodes so far.
    """

    def __init__(self, root: Path, copies: Path, step: int, replies: list[Any]) -> None:
        self.root, self.copies, self.step, self.replies = root, copies, step, replies
        self.count, self.left = 0, dict[int, list[Any]]()

    def watch(self, patching: pytest.MonkeyPatch) -> None:
        """Count from now on."""
        for name in ("fsync", "replace"):
            patching.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, done):
        def call(*given, **named):
            self.count += 1
            number = self.count
            chosen = number % self.step == 1
            if chosen and number % 2:
                self._kept(number)
            result = done(*given, **named)
            if chosen and not number % 2:
                self._kept(number)
            return result

        return call

    def _kept(self, number: int) -> None:
        shutil.copytree(self.root, self.copies / str(number))
        self.left[number] = list(self.replies)


@pytest.fixture(scope="module", autouse=True)
def one_name():
    """All runs have the name and the nonce that their sites draw noise by, so that all that ends well ends alike."""
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(journal, "drawn_nonce", lambda: bytes(32))
        patching.setattr(runner.secrets, "token_hex", lambda size: "0123456789abcdef" * 2)
        yield


@pytest.fixture(
    scope="module", params=[pytest.param("graft_node_private", marks=pytest.mark.slow), "graft_rating_private"]
)
def prepared(request, tmp_path_factory):
    """(Recipe of sites with files of their own, the files, names, the digest without masks)."""
    root, names = tmp_path_factory.mktemp("shards"), []
    changes = {**COMMON, **RECIPES[request.param]}
    paths = shard(jobs.load(request.param, changes), root / "shards", lambda name, *_: names.append(name))
    recipe, data = str(root / "shards" / "recipe.toml"), [[str(path)] for path in paths]

    def loaded(**more):
        changes = {"runtime.name": "sites", "baselines": [], "checkpoint.every_seconds": 0, **more}
        return jobs.load(recipe, changes)

    clear = loaded(**{"secure_sum.name": "clear"})
    there = LocalSites(clear, data, names, root / "clear")
    expected = runner.execute(clear, root / "run", sites=there)["digest"]
    return loaded(), data, names, expected


def opened(prepared, root):
    """The sites as they begin, with what is on their disks."""
    experiment, data, names, _ = prepared
    return LocalSites(experiment, data, names, root / "nodes", own_policy(experiment, Policy(epsilon=9.0, delta=1e-4)))


def left(patching):
    """[(client, kind, place, SHA-256 of the reply)] of all replies that leave nodes from now on."""
    found, answered = [], Node.answer

    def answer(node, data):
        sent = answered(node, data)
        order, reply = opened_as(Order, data), opened_as(Answer, sent).reply
        if order.kind == "serve" and reply:
            sha256 = hashlib.sha256(reply).hexdigest()
            found.append((node.number, wire.kind_of(reply), wire.place_of(order.request), sha256))
        return sent

    patching.setattr(Node, "answer", answer)
    return found


def check_killed(prepared, root, before):
    """Take up a run from what a kill has left on all disks, after these replies."""
    experiment, _, names, expected = prepared
    folder, noisy = root / "run", ("publish", "smooth") if experiment.plan.summed else ("train", "smooth")
    with pytest.MonkeyPatch.context() as patching:
        replies = left(patching)
        sites = opened(prepared, root)
        begun = (folder / "experiment.toml").exists()
        again = partial(runner.resume, folder) if begun else partial(runner.execute, experiment, root / "again")
        resumed = again(sites=sites)
    told = {each for each in (*before, *replies) if each[1] in (*noisy, "tally", "unmask")}
    assert len({each[:3] for each in told}) == len(told), "a sum was told twice"
    for client, name in enumerate(names):
        lines = [line for line in read(sites.root / name / FILE) if "noise" in line or "answered" in line]
        assert len({(line["kind"], line["round"]) for line in lines}) == len(lines), "noise is counted twice"
        sent = {sha256 for number, kind, _, sha256 in told if number == client and kind in noisy}
        assert sent <= {line["sha256"] for line in lines}, "spent noise is lost"
        assert sent, "nothing was told"
    if begun:
        assert resumed["digest"] == expected


def killed_every(step, prepared, root):
    """Kill a run at file operations that lie so far apart; return how many operations there are."""
    whole = root / "whole"
    whole.mkdir()
    with pytest.MonkeyPatch.context() as patching:
        operations = Operations(whole, root, step, left(patching))
        operations.watch(patching)
        assert runner.execute(prepared[0], whole / "run", sites=opened(prepared, whole))["digest"] == prepared[3]
    for number, replies in operations.left.items():
        check_killed(prepared, root / str(number), replies)
    return operations.count


def test_a_masked_run_with_noise_is_killed_here_and_there(prepared, tmp_path):
    assert killed_every(97, prepared, tmp_path) > 50


@pytest.mark.slow
def test_a_masked_run_with_noise_is_killed_at_many_file_operations(prepared, tmp_path):
    assert killed_every(7, prepared, tmp_path) > 50
