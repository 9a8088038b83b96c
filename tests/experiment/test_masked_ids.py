"""Private set intersection at a site: a server has ids masked once in a run, and not as many as it likes."""

import json

import pytest

from fedgraft import wire
from fedgraft.experiment import job as jobs
from fedgraft.experiment.storage.matching import CLAIMED
from fedgraft.runtimes.federation.audit import FILE, AuditLog
from fedgraft.runtimes.federation.envelope import REFUSED, SERVED, Answer, Order, opened, packed
from fedgraft.runtimes.federation.journal import Journal
from fedgraft.wire.masking import order_for
from helpers.local_nodes import RUN
from helpers.local_sites import LocalSites
from helpers.site_boundaries import AUTO, PSI, at_server, own, tables
from helpers.site_tables import CLIENTS


class Asking:
    """A server that asks node 0 to join, with what it likes to tell it."""

    def __init__(self, root):
        every, self.root = tables(), root
        self.experiment = jobs.load("fedais", {**at_server({**AUTO, **PSI}), "runtime.name": "sites"})
        self.data = [own(every, name, root / "tables" / name) for name in CLIENTS]
        self.start()

    def start(self, most=1 << 20):
        self.sites = LocalSites(self.experiment, self.data, list(CLIENTS), self.root / "nodes")
        self.log = self.root / "nodes" / CLIENTS[0] / FILE
        node = self.sites.link.by_id[100]
        node.journal = Journal(AuditLog(self.log), most)

    def join(self, client, told=b"", run=RUN):
        order = Order("join", run, bytes(16), request=self.experiment.to_toml().encode(), told=told)
        return opened(Answer, self.sites.link.by_id[100 + client].answer(packed(order)))

    def points(self, most=None):
        """What node 0 is to mask: what the other claims, or the first of it."""
        claims = {1: wire.unpack(wire.unpack(self.join(1).reply)[CLAIMED])}
        if most is not None:
            rows = {"first": claims[1]["first"][: -(-most // 8)]}
            claims[1] = {name: rows.get(name, array[:most]) for name, array in claims[1].items()}
        return wire.pack({**order_for(0, claims, len(CLIENTS))})


@pytest.fixture
def server(tmp_path):
    return Asking(tmp_path)


def code(answer):
    assert answer.status == REFUSED, "it was served"
    return answer.reply.decode()


def test_ids_are_masked_once_in_a_run_also_after_a_restart(server):
    """The attack: one guess after the other, each masked by the site, as often as the server likes."""
    first, others = server.points(), [server.points(count) for count in (1, 2, 9)]
    answer = server.join(0, first)
    assert answer.status == SERVED
    for _ in range(2):
        assert {code(server.join(0, each)) for each in others} == {"ids were matched"}
        assert server.join(0, first).reply == answer.reply, "the same request has the same answer"
        server.start()
    assert server.join(0, others[0], "f" * 32).status == SERVED, "another run has other masks"
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert len({line["request"] for line in lines if line.get("reply") == "points" and line["run"] == RUN}) == 1


def test_more_ids_than_a_site_allows_are_refused_before_any_is_masked(server, caplog):
    server.start(most=2)
    assert code(server.join(0, server.points())) == "ids were matched"
    assert "points to mask, of which limits.points allows 2" in caplog.text
    assert server.join(0, server.points(2)).status == SERVED


def test_masks_are_others_where_the_log_was_moved_away(server):
    first, told = server.join(0), server.points()
    answered = server.join(0, told).reply
    for path in server.log.parent.glob("audit.*"):
        path.unlink()
    server.start()
    assert server.join(0).reply != first.reply
    assert server.join(0, told).reply != answered
