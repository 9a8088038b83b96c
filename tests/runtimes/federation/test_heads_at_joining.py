"""A site's folder that is put back from a copy, log and head alike: the server kept the last head."""

import shutil

import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.errors import RefusedError
from fedgraft.interface.federated_run import _keep_heads, _known_heads
from fedgraft.runtimes.federation.audit import FILE, AuditLog
from fedgraft.runtimes.federation.nodes_runtime import NodesRuntime
from fedgraft.testing.runs import toy
from fedgraft.wire import Message
from helpers.local_nodes import RUN, LocalLink, LocalRoster, nodes_of

ENOUGH = 1 << 20


class Federation:
    """Nodes with folders, which end and begin anew, and a server that keeps heads."""

    def __init__(self, root):
        experiment = toy()
        self.plan, self.shards = experiment.plan, experiment.data.load(experiment.seed)
        self.root, self.heads, self.notes = root / "nodes", {}, []

    def begin(self, run=RUN, known=True):
        roster = LocalRoster({100 + client: client for client in range(len(self.shards))}) if known else None
        self.link = LocalLink(nodes_of(self.plan, self.shards, self.root))
        self.runtime = NodesRuntime(self.link, run, len(self.shards), b"", roster, self.notes.append)
        self.runtime.members.heads = dict(self.heads)
        self.runtime.wait_for_all()

    def ask(self, client=1, seconds=5.0):
        request = wire.encode(Message("hello", 0))
        answer = self.runtime.exchange({client: request}, {client: ENOUGH}, seconds)[client]
        self.heads = dict(self.runtime.members.heads)
        return answer

    def copy(self, name, client=1):
        shutil.copytree(self.root / str(client), self.root.parent / name)

    def put_back(self, name, client=1):
        shutil.rmtree(self.root / str(client))
        shutil.copytree(self.root.parent / name, self.root / str(client))
        self.link.by_id[100 + client] = nodes_of(self.plan, self.shards, self.root)[client]


@pytest.fixture
def federation(tmp_path):
    made = Federation(tmp_path)
    made.begin()
    return made


def test_the_server_has_the_head_of_the_log_after_each_answer(federation):
    federation.ask()
    assert federation.heads[1].hex() == AuditLog(federation.root / "1" / FILE).head
    assert len({*federation.heads.values()}) == len(federation.shards)


@pytest.mark.parametrize("known", [True, False])
def test_a_folder_that_was_put_back_is_refused_in_the_next_run(federation, known, caplog):
    """Log and head are both of the copy, so that the site alone sees nothing."""
    federation.copy("copy")
    federation.ask()
    federation.put_back("copy")
    with pytest.raises(RefusedError, match="The node of client 1 refuses this run: log refused") as refusal:
        federation.begin("f" * 32, known)
    assert refusal.value.code == "log refused"
    assert f"no line with the hash {federation.heads[1].hex()}, which the server was told" in caplog.text
    assert "Put back the newest one. Where that is lost for good, the server's operator takes the site" in caplog.text


def test_a_folder_that_was_put_back_within_a_run_is_left_out(federation):
    federation.copy("copy")
    federation.ask()
    federation.put_back("copy")
    assert isinstance(federation.ask(seconds=1.0), ClientFailed)
    assert any("client 1 refuses: log refused" in note for note in federation.notes)
    assert federation.heads[1].hex() != AuditLog(federation.root / "1" / FILE).head, "the later head is kept"


@pytest.mark.parametrize("known", [True, False])
def test_a_log_that_went_on_is_taken(federation, known):
    """A head that is not the last one is a line of the log all the same, as after an answer that was lost."""
    federation.ask()
    before = federation.heads
    federation.begin("e" * 32, known)
    federation.heads = before
    federation.begin("d" * 32, known)
    assert isinstance(federation.ask(), bytes)


def test_who_has_lost_the_log_for_good_is_forgotten_at_the_server(federation, tmp_path):
    federation.ask()
    for file in (federation.root / "1").glob("audit.*"):
        file.unlink()
    with pytest.raises(RefusedError):
        federation.begin("c" * 32)
    del federation.heads[1]
    federation.begin("c" * 32)
    assert isinstance(federation.ask(), bytes)


def test_heads_are_kept_by_name(tmp_path):
    path = tmp_path / "audits" / "heads.json"
    assert _known_heads(path, ["north"]) == {}
    _keep_heads(path, {"north": "ab" * 32, "south": "cd" * 32})
    _keep_heads(path, {"south": "ef" * 32})
    assert _known_heads(path, ["south", "west", "north"]) == {0: b"\xef" * 32, 2: b"\xab" * 32}
