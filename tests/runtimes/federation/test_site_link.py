"""A node's way to its server, a real one in this process: while it works, and where the server has gone."""

import logging
import socket
import threading
import time
from contextlib import closing, contextmanager

import pytest

pytest.importorskip("uvicorn", reason="the extra 'federation' is not installed")

from fedgraft.errors import FedgraftError, InputError, MachineError, WireError
from fedgraft.runtimes.federation import hub, membership, operator_socket, site_link
from fedgraft.runtimes.federation.folders import NodeFolder
from fedgraft.runtimes.federation.making import make
from fedgraft.runtimes.federation.operator_socket import ServerLink
from fedgraft.runtimes.federation.server import Server
from fedgraft.runtimes.federation.signed_requests import node_id
from fedgraft.runtimes.federation.site_link import SiteLink, connection_of
from helpers.federations import free_port

RUN = "0123456789abcdef" * 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(site_link, "AGAIN_SECONDS", (0.05, 0.2))
    return make(tmp_path / "fed", ["north"], "seed = 1\n", "localhost", free_port())


@contextmanager
def serving(folder):
    server = Server(folder)
    try:
        server.wait_until_ready(lambda: False)
        yield server
    finally:
        server.close()


@contextmanager
def answering(folder, answer, kind=SiteLink):
    """A node that answers in a thread; a list of what it has ended with."""
    stop, ended = threading.Event(), []

    def serve():
        try:
            kind(NodeFolder.read(folder.node("north"))).serve(answer, stop.is_set)
        except FedgraftError as error:
            ended.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield ended
    finally:
        stop.set()
        thread.join(10)
    assert not thread.is_alive()


def wait_for(holds):
    until = time.monotonic() + 20
    while not (found := holds()):
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.01)
    return found


def id_of(folder):
    return node_id(folder.public_key("north").read_bytes())


def sent(link, folder, content):
    """The id of a message to the node, once that is there."""
    return wait_for(lambda: link.send(id_of(folder), content))


def received(link, message):
    ((_, _, answer),) = wait_for(lambda: link.receive([message], 0.2))
    return answer


def test_a_node_that_works_for_long_stays_connected(folder, monkeypatch):
    monkeypatch.setattr(site_link, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(hub, "ALIVE_SECONDS", 0.5)
    with serving(folder), closing(ServerLink(folder, RUN)) as link:
        with answering(folder, lambda order: time.sleep(1.5) or order):
            message = sent(link, folder, b"slowly")
            wait_for(link.nodes)
            while not (found := link.receive([message])):
                assert link.nodes() == [id_of(folder)]
                time.sleep(0.05)
            assert found[0].content == b"slowly"
        assert link.nodes() == [], "it has said goodbye"


def test_what_cannot_be_answered_is_no_answer_and_the_node_goes_on(folder, caplog):
    def answer(order):
        if order == b"bad":
            raise WireError("no order")
        return order

    with serving(folder), closing(ServerLink(folder, RUN)) as link, answering(folder, answer):
        assert received(link, sent(link, folder, b"bad")) == b""
        assert received(link, sent(link, folder, b"good")) == b"good"
    assert "A message is refused: no order" in caplog.messages


def test_a_server_that_goes_while_a_node_works_is_found_again(folder, caplog):
    """Nobody waits for that answer any more; the next order is answered."""
    caplog.set_level(logging.WARNING)
    begun, go_on = threading.Event(), threading.Event()

    def answer(order):
        begun.set()
        assert go_on.wait(20)
        return order

    with answering(folder, answer) as ended:
        with serving(folder), closing(ServerLink(folder, RUN)) as link:
            sent(link, folder, b"lost")
            assert begun.wait(20)
        go_on.set()
        wait_for(lambda: any("is tried again and again" in said for said in caplog.messages))
        with serving(folder), closing(ServerLink(folder, RUN)) as link:
            assert received(link, sent(link, folder, b"found")) == b"found"
        assert not ended
    waited = [said.split(" is ")[1][:5] for said in caplog.messages]
    assert waited == (["tried", "there"] * 3)[: len(waited)], "once each time that it waits"


def test_an_answer_survives_a_link_that_breaks(folder):
    with serving(folder), closing(ServerLink(folder, RUN)) as link:
        broken = []

        class Breaking(SiteLink):
            def _ask(self, path, body=b""):
                if path.startswith("/answer") and not broken:
                    broken.append(path)
                    self._connection.sock.shutdown(socket.SHUT_RDWR)
                return super()._ask(path, body)

        with answering(folder, lambda order: order * 2, Breaking):
            assert received(link, sent(link, folder, b"ab")) == b"abab"
        assert len(broken) == 1


def test_a_node_that_is_given_a_new_key_goes_on_and_one_without_it_ends(folder):
    with serving(folder) as server, closing(ServerLink(folder, RUN)) as link, answering(folder, bytes) as ended:
        sent(link, folder, b"before")
        membership.rotate(folder, "north")
        operator_socket.read_keys(folder)
        assert received(link, sent(link, folder, b"after")) == b"after"
        assert not ended
        folder.public_key("north").unlink()
        operator_socket.read_keys(folder)
        (error,) = wait_for(lambda: ended)
        assert isinstance(error, MachineError)
        assert str(error).startswith(f"unknown key: localhost:{folder.port} does not know ")
        assert len(server.strangers()) == 2


def test_another_version_of_the_interface_is_one_line(folder, monkeypatch):
    monkeypatch.setattr(site_link, "VERSION", 0)
    with serving(folder), answering(folder, bytes) as ended:
        (error,) = wait_for(lambda: ended)
    assert "has another version of fedgraft: its interface here is of version 0 and the server's of 1" in str(error)


def test_a_key_that_is_none_is_named(folder):
    node = NodeFolder.read(folder.node("north"))
    node.key.write_text("nonsense")
    with pytest.raises(InputError, match=r"node\.key must be a private key as OpenSSH writes it"):
        SiteLink(node)


def test_a_proxy_of_the_environment_is_used_but_for_hosts_without(folder, monkeypatch):
    node = NodeFolder.read(folder.node("north"))
    elsewhere = NodeFolder(node.path, 0, "north", "fed.example.org", 8443)
    monkeypatch.setenv("https_proxy", "http://user@proxy.example.org:3128/")
    monkeypatch.setenv("no_proxy", "localhost")
    through, direct = connection_of(elsewhere), connection_of(node)
    assert (through.host, through.port, through._tunnel_host) == ("proxy.example.org", 3128, "fed.example.org")
    assert (direct.host, direct.port) == ("localhost", folder.port)
