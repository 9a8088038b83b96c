"""The interface of nodes over HTTP: of a stranger no body is read, and nobody sends without end."""

import asyncio
import io

import pytest

pytest.importorskip("starlette", reason="the extra 'federation' is not installed")

from fedgraft.runtimes.federation import web
from fedgraft.runtimes.federation.certificates import node_key
from fedgraft.runtimes.federation.hub import Hub, keys_of
from fedgraft.runtimes.federation.signed_requests import MESSAGE, Signer, node_id
from fedgraft.runtimes.federation.web import for_nodes

NORTH, STRANGER = node_key("north"), node_key("stranger")
NODE = node_id(NORTH.public)


class Asked:
    """One request to an application: what it answers, and how many parts of its body it has read."""

    def __init__(self, app, path, headers, parts=(b"",), pause=0.0, leaves=None):
        self.app, self.path, self.headers, self.left = app, path, headers, list(parts)
        self.parts, self.pause, self.leaves = len(self.left), pause, leaves
        self.sent = []

    async def receive(self):
        if not self.left:
            await asyncio.sleep(3600 if self.leaves is None else self.leaves)
            return {"type": "http.disconnect"}
        await asyncio.sleep(self.pause)
        part = self.left.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self.left)}

    async def send(self, part):
        self.sent.append(part)

    async def answered(self):
        headers = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        scope = {
            "type": "http",
            "method": "POST",
            "path": self.path,
            "raw_path": self.path.encode(),
            "headers": headers,
        }
        scope |= {"query_string": b"", "root_path": "", "scheme": "https", "server": ("localhost", 1)}
        await self.app(scope, self.receive, self.send)
        return self

    @property
    def status(self):
        return self.sent[0]["status"]

    @property
    def body(self):
        return b"".join(part.get("body", b"") for part in self.sent[1:])

    @property
    def read(self):
        return self.parts - len(self.left)

    @property
    def closes(self):
        return (b"connection", b"close") in self.sent[0]["headers"]


class Node:
    """A node that has joined, and an order that it was given."""

    def __init__(self):
        self.hub = Hub(lambda: keys_of({"north": NORTH.public}))
        self.app, self.signer = for_nodes(self.hub), Signer(NORTH.private)

    async def ask(self, path, body=b"", parts=None, **options):
        headers = {**self.signer.headers(path, body), "content-length": str(len(body))}
        return await Asked(self.app, path, headers, [body] if parts is None else parts, **options).answered()

    async def join(self):
        self.signer.session = self.hub.nonce
        self.signer.session = (await self.ask("/join")).body.decode()

    async def order(self, content=b"an order"):
        message = self.hub.send("a", NODE, io.BytesIO(content))
        found = await self.ask("/next")
        assert (found.status, found.body) == (200, content)
        assert (MESSAGE.encode(), message.id.encode()) in found.sent[0]["headers"]
        return f"/answer/{message.id}"


def playing(scene):
    async def played():
        node = Node()
        await node.join()
        node.hub.begin("a")
        await scene(node)
        node.hub.end("a")

    asyncio.run(played())


@pytest.mark.parametrize("private", [None, STRANGER.private], ids=["no key", "unknown key"])
def test_of_a_stranger_no_body_is_read(private):
    async def scene(node):
        signer = Signer(private)
        path = await node.order()
        for asked in ("/join", "/next", "/alive", "/leave", path):
            headers = {**signer.headers(asked, b""), "content-length": "800000000"}
            found = await Asked(node.app, asked, headers, [bytes(1 << 16)] * 3).answered()
            assert (found.status, found.read, found.closes) == (401, 0, True), asked

    playing(scene)


def test_an_answer_is_taken_once_and_whole():
    async def scene(node):
        path = await node.order()
        assert (await node.ask(path, b"12345", [b"12", b"", b"345"])).status == 204
        message = path.rpartition("/")[2]
        with (await node.hub.receive("a", [message], 0.0)).answer as answer:
            assert answer.seek(0, 2) == 5
        found = await node.ask(path, b"67890")
        assert (found.status, found.read) == (410, 0)

    playing(scene)


def test_a_body_that_is_not_what_was_signed_is_none():
    async def scene(node):
        path = await node.order()
        found = await node.ask(path, b"12345", [b"54321"])
        assert (found.status, found.closes) == (403, True)
        assert (await node.ask(path, b"12345")).status == 204

    playing(scene)


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_that_is_too_long_is_not_read(monkeypatch, declared):
    monkeypatch.setattr(web, "MOST_BODY", 10)

    async def scene(node):
        path = await node.order()
        headers = {**node.signer.headers(path, bytes(12)), **({"content-length": "12"} if declared else {})}
        found = await Asked(node.app, path, headers, [bytes(4)] * 3).answered()
        assert (found.status, found.read, found.closes) == (413, 0, True)
        assert (await node.ask(path, bytes(10))).status == 204

    playing(scene)


def test_a_body_that_comes_too_slowly_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(web, "BODY_SECONDS", 0.3)
    monkeypatch.setattr(web, "BODY_RATE", 100)

    async def scene(node):
        path = await node.order()
        found = await node.ask(path, b"1" * 100, [b"1"] * 100, pause=0.1)
        assert (found.status, found.closes) == (408, True)
        assert found.read < 20
        assert (await node.ask(path, bytes(200), [bytes(20)] * 10, pause=0.1)).status == 204, "slow, but not too slow"

    playing(scene)


def test_a_long_message_is_in_a_file_and_comes_as_it_went(monkeypatch):
    monkeypatch.setattr(web, "IN_MEMORY", 1000)
    content = bytes(range(256)) * 4000

    async def scene(node):
        path = await node.order(content)
        assert (await node.ask(path, content, [content[:5000], content[5000:]])).status == 204
        with (await node.hub.receive("a", [path.rpartition("/")[2]], 0.0)).answer as answer:
            assert answer._rolled
            answer.seek(0)
            assert answer.read() == content

    playing(scene)


def test_an_order_is_waited_for_and_the_wait_ends(monkeypatch):
    monkeypatch.setattr(web, "HELD_SECONDS", 0.3)

    async def scene(node):
        assert (await node.ask("/next")).status == 204
        waiting = asyncio.ensure_future(node.ask("/next"))
        await asyncio.sleep(0.1)
        node.hub.send("a", NODE, io.BytesIO())
        assert (await waiting).status == 200

    playing(scene)


def test_who_hangs_up_while_it_waits_has_gone_and_takes_no_order():
    async def scene(node):
        assert node.hub.nodes() == [NODE]
        await node.ask("/next", leaves=0.1)
        assert node.hub.nodes() == []
        assert (await node.ask("/next")).status == 409
        await node.join()
        await node.order()
        assert node.hub.nodes() == [NODE]

    playing(scene)


def test_who_is_removed_while_it_waits_is_told_at_once():
    async def scene(node):
        waiting = asyncio.ensure_future(node.ask("/next"))
        await asyncio.sleep(0.1)
        node.hub._read_keys = dict
        node.hub.read_keys()
        assert (await waiting).status == 409
        assert (await node.ask("/next")).status == 401

    playing(scene)


def test_who_leaves_has_gone():
    async def scene(node):
        assert (await node.ask("/alive")).status == 204
        assert node.hub.nodes() == [NODE]
        assert (await node.ask("/leave")).status == 204
        assert node.hub.nodes() == []

    playing(scene)
