"""`fedgraft audit`: totals and lines for a person, and the first bad line by name."""

import csv
import json

import pytest

from fedgraft.runtimes.federation.audit import FILE, AuditLog, Head, write_head
from fedgraft.runtimes.federation.certificates import node_key
from fedgraft.runtimes.federation.folders import NodeFolder

RUN = "0123456789abcdef" * 2
KEY = node_key("north")


@pytest.fixture
def log(tmp_path):
    """The log of a node with a key: a run of three answers, of which one was refused; it is signed."""
    folder = NodeFolder(tmp_path / "north", 0, "north", "localhost", 8000)
    folder.write()
    folder.key.write_bytes(KEY.private)
    folder.certificate.write_bytes(b"of the server")
    log = AuditLog(folder.path / FILE, KEY.private)
    line = {"run": RUN, "kind": "train", "purpose": "model", "bytes": 512, "number": 0, "sha256": "0" * 64}
    log.add({**line, "kind": "hello", "round": 0, "purpose": "statistics", "bytes": 64, "decision": "sent"})
    log.add({**line, "round": 1, "decision": "sent"})
    log.add({**line, "round": 1, "decision": "refused", "why": "round 1 was served"})
    log.sign()
    return log


def test_totals_come_first_and_then_lines(fedgraft, log, tmp_path):
    done = fedgraft("audit", tmp_path / "north")
    assert done.code == 0
    rows = [line.split() for line in done.out.splitlines() if line.strip()]
    assert ["01234567", "statistics", "1", "64", "0"] in rows
    assert ["01234567", "model", "1", "512", "1"] in rows
    (shown,) = [row for row in rows if "refused" in row and "train" in row]
    assert {"512", "model", "1"} <= {*shown}
    assert "statistics" not in fedgraft("audit", tmp_path / "north", "--since", "2999-01-01").out


def test_a_log_that_is_whole_is_said_to_be_and_the_servers_head_is_looked_for(fedgraft, log, tmp_path):
    done = fedgraft("audit", tmp_path / "north", "--verify", "--head", log.head)
    assert done.code == 0
    assert "4 lines, each as it was written and behind the one before it; 1 signatures." in done.out + done.err


def test_a_tail_that_is_cut_off_shows_by_the_head_that_is_kept(fedgraft, log, tmp_path):
    path = tmp_path / "north" / FILE
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    done = fedgraft("audit", tmp_path / "north", "--verify")
    assert done.code == 1
    assert "audit.jsonl has 2 lines, and not all that were written" in done.err
    assert "knows of 4. Lines at the end are missing" in done.err


def test_a_tail_that_is_cut_off_with_its_head_shows_by_the_servers_head(fedgraft, log, tmp_path):
    path = tmp_path / "north" / FILE
    lines = path.read_bytes().splitlines(keepends=True)[:2]
    path.write_bytes(b"".join(lines))
    write_head(path, Head(2, json.loads(lines[-1])["hash"]))
    assert fedgraft("audit", tmp_path / "north", "--verify").code == 0
    done = fedgraft("audit", tmp_path / "north", "--head", log.head)
    assert done.code == 1
    assert "lines at the end are missing, or all are others" in done.err


def test_the_first_bad_line_is_named(fedgraft, log, tmp_path):
    path = tmp_path / "north" / FILE
    path.write_bytes(path.read_bytes().replace(b'"bytes":512', b'"bytes":511', 1))
    done = fedgraft("audit", tmp_path / "north", "--verify")
    assert done.code == 1
    assert "audit.jsonl, line 2: it is not what was written." in done.err


def test_a_key_that_the_node_had_before_is_named(fedgraft, log, tmp_path):
    (tmp_path / "north" / "node.key").write_bytes(node_key("north").private)
    (tmp_path / "before.pub").write_bytes(KEY.public)
    done = fedgraft("audit", tmp_path / "north", "--verify")
    assert (done.code, "line 4: it is signed with another key than the node's" in done.err) == (1, True)
    assert fedgraft("audit", tmp_path / "north", "--verify", "--key", tmp_path / "before.pub").code == 0
    (tmp_path / "before.pub").write_bytes(b"no key")
    assert "is no public key of a node" in fedgraft("audit", tmp_path / "north", "--verify", "--key", "before.pub").err


def test_lines_as_csv(fedgraft, log, tmp_path):
    assert fedgraft("audit", tmp_path / "north", "--csv", "lines.csv").code == 0
    with (tmp_path / "lines.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["decision"] for row in rows] == ["sent", "sent", "refused", ""]
    assert rows[-1]["hash"] == log.head


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["nowhere"], "has no node.toml"),
        (["north", "--since", "soon"], "--since must be a day or time such as 2026-11-24"),
    ],
)
def test_what_is_wrong_is_one_line(fedgraft, log, options, said):
    done = fedgraft("audit", *options)
    assert (done.code, said in done.err) == (2, True)


def test_a_node_that_has_answered_nothing_is_told(fedgraft, log, tmp_path):
    (tmp_path / "north" / FILE).unlink()
    assert "this node has answered nothing yet" in fedgraft("audit", "north").err
