"""Connections to a federation's server, real ones: who sends nothing, too slowly or no end is not waited for."""

import asyncio
import contextlib
import os
import socket
import ssl
import threading
import time
from contextlib import closing, contextmanager

import pytest

pytest.importorskip("uvicorn", reason="the extra 'federation' is not installed")

import uvicorn

from fedgraft.runtimes.federation import server
from fedgraft.runtimes.federation.certificates import authority
from fedgraft.runtimes.federation.server import HEAD_BYTES, OPTIONS, HastyLoop, HastyProtocol

GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


async def answer(scope, receive, send):
    """Answer what was sent."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        part = await receive()
        body, more = body + part["body"], part["more_body"]
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served(tmp_path, tls=False):
    """The port of a server that runs as a federation's does."""
    files = {}
    if tls:
        pair = authority()[1].server("localhost")
        for name, content in (("ssl_keyfile", pair.private), ("ssl_certfile", pair.public)):
            files[name] = str(tmp_path / name)
            (tmp_path / name).write_bytes(content)
    config = uvicorn.Config(answer, host="127.0.0.1", port=0, **OPTIONS, **files)
    server = uvicorn.Server(config)

    def run():
        with asyncio.Runner(loop_factory=HastyLoop) as runner:
            runner.run(server.serve())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.4)
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 0.4)


def connected(port):
    return closing(socket.create_connection(("127.0.0.1", port), timeout=10))


def ends(connection):
    """Whether a connection is ended by the server, within ten seconds."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


def test_who_sends_nothing_or_a_head_without_end_is_not_waited_for(tmp_path, soon):
    with served(tmp_path) as port:
        with connected(port) as silent:
            assert ends(silent)
        with connected(port) as slow:
            slow.sendall(GET[:10])
            assert ends(slow)
        with connected(port) as again:
            again.sendall(GET)
            assert again.recv(1 << 10).startswith(b"HTTP/1.1 200")
            time.sleep(0.6)  # between two requests a connection is kept
            again.sendall(GET)
            assert again.recv(1 << 10).startswith(b"HTTP/1.1 200")
            again.sendall(GET[:10])  # the second head counts as the first does
            assert ends(again)
    assert not HastyProtocol._from


def test_a_head_without_end_is_read_no_further(tmp_path):
    with served(tmp_path) as port, connected(port) as endless:
        endless.sendall(GET[:-2])
        line, sent = b"X-%d: " + b"x" * (HEAD_BYTES // 8) + b"\r\n", 0
        with contextlib.suppress(ConnectionError):
            while sent < 1000:
                endless.sendall(line % sent)
                sent += 1
                time.sleep(0.01)
        assert sent < 100


def test_a_long_body_in_pieces_is_not_taken_for_a_head(tmp_path, soon):
    body = os.urandom(8 * HEAD_BYTES)
    with served(tmp_path) as port, connected(port) as busy:
        busy.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % len(body))
        for begin in range(0, len(body), HEAD_BYTES):
            time.sleep(0.1)
            busy.sendall(body[begin : begin + HEAD_BYTES])
        found = b""
        while len(found) < len(body):
            found += busy.recv(1 << 20)
        assert found.endswith(body)


def test_a_handshake_without_end_is_not_waited_for(tmp_path, soon):
    with served(tmp_path, tls=True) as port:
        with connected(port) as half:
            half.sendall(b"\x16\x03\x01")
            assert ends(half)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with connected(port) as whole, context.wrap_socket(whole) as secret:
            secret.sendall(GET)
            assert secret.recv(1 << 10).startswith(b"HTTP/1.1 200")


def test_an_address_elsewhere_has_so_many_connections_and_this_machine_any(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS", 3)
    for here in (("127.0.0.1",), ()):
        monkeypatch.setattr(server, "HERE", here)
        with served(tmp_path) as port:
            made = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(5)]
            answered = []
            for each in made:
                try:
                    each.sendall(GET)
                    answered.append(each.recv(1 << 10).startswith(b"HTTP/1.1 200"))
                except ConnectionError:
                    answered.append(False)
            for each in made:
                each.close()
        assert sum(answered) == (5 if here else 3)
        assert not HastyProtocol._from
