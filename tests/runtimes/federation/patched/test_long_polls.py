"""Long polling: "no message" waits until all of a message is there, and keeps nobody who has not shown a key."""

import asyncio
import time

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")
pytest.importorskip("httpx", reason="the extra 'flower' is not installed")

import httpx
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse, PushMessagesRequest, PushMessagesResponse
from flwr.proto.message_pb2 import Message, PushObjectRequest
from flwr.proto.runtime_pb2 import PullAppMessagesResponse, PushAppMessagesRequest, PushAppMessagesResponse

from fedgraft.runtimes.federation.patched.long_polls import APP, NODE, PULL, PUSH, PUSH_CONTENT, LongPolls

HELD = 5.0
SOON = 1.0


class SuperLink:
    """An application with one session of messages, each with content that is pushed after it."""

    def __init__(self):
        self.messages, self.pulls = [], 0

    async def __call__(self, scope, receive, send):
        body = (await receive())["body"]
        answer = b""
        if scope["path"] == NODE + PULL:
            self.pulls += 1
            node = PullMessagesRequest.FromString(body).node.node_id
            found = [message for message in self.messages if message.metadata.dst_node_id == node]
            answer = PullMessagesResponse(messages_list=found).SerializeToString()
        elif scope["path"] == APP + PUSH:
            self.messages += PushAppMessagesRequest.FromString(body).messages_list
            answer = PushAppMessagesResponse(objects_to_push=["a", "b"], session_id="s").SerializeToString()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer})


def pull(node):
    request = PullMessagesRequest()
    request.node.node_id = node
    return NODE + PULL, request.SerializeToString()


def push(node):
    message = Message()
    message.metadata.dst_node_id = node
    return APP + PUSH, PushAppMessagesRequest(messages_list=[message]).SerializeToString()


def content(name):
    return APP + PUSH_CONTENT, PushObjectRequest(object_id=name, session_id="s").SerializeToString()


def served(app, play, held=HELD):
    """Have `play(ask)` ask the application; `ask` answers how long it took, and with what."""

    async def run():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(LongPolls(app, held, held)), base_url="http://here"
        ) as client:

            async def ask(request):
                began = time.monotonic()
                answer = await client.post(request[0], content=request[1], timeout=60)
                return time.monotonic() - began, answer

            return await play(ask)

    return asyncio.run(run())


def test_a_node_is_answered_when_all_of_a_message_for_it_is_there():
    async def play(ask):
        mine, other = asyncio.create_task(ask(pull(1))), asyncio.create_task(ask(pull(2)))
        await asyncio.sleep(0.1)
        for request in (push(1), content("a")):
            await ask(request)
        await asyncio.sleep(0.1)
        early = mine.done()
        await ask(content("b"))
        seconds, answer = await mine
        return early, other.done(), seconds, answer.content

    early, other, seconds, answer = served(SuperLink(), play)
    assert not early, "half of its content was there"
    assert not other, "nothing was for the other"
    assert seconds < SOON
    assert PullMessagesResponse.FromString(answer).messages_list


def test_where_the_application_refuses_to_be_asked_again_the_node_has_the_first_answer():
    """What the node has signed may be too old by then."""

    class Strict(SuperLink):
        async def __call__(self, scope, receive, send):
            if scope["path"] == NODE + PULL and self.pulls == 1:
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b""})
            else:
                await super().__call__(scope, receive, send)

    async def play(ask):
        mine = asyncio.create_task(ask(pull(1)))
        await asyncio.sleep(0.1)
        for request in (push(1), content("a"), content("b")):
            await ask(request)
        return await mine

    seconds, answer = served(Strict(), play)
    assert seconds < SOON
    assert (answer.status_code, answer.content) == (200, b"")


def test_who_has_hung_up_takes_no_message_from_the_one_that_asks_next():
    """A node that was killed while it waited, and has started again."""
    app, sent = SuperLink(), []
    polls = LongPolls(app, HELD, HELD)

    async def send(part):
        sent.append(part)

    async def play():
        path, body = pull(1)
        left = asyncio.Event()
        parts = [{"type": "http.request", "body": body}]

        async def receive():
            if parts:
                return parts.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        waiting = asyncio.create_task(polls({"type": "http", "path": path}, receive, send))
        await asyncio.sleep(0.1)
        left.set()
        await asyncio.wait_for(waiting, SOON)

    asyncio.run(play())
    assert app.pulls == 1
    assert sent[-1]["body"] == b""


def test_a_message_that_comes_while_the_application_answers_is_not_missed():
    class Slow(SuperLink):
        async def __call__(self, scope, receive, send):
            await super().__call__(scope, receive, send)
            if scope["path"] == NODE + PULL and self.pulls == 1:
                await asyncio.sleep(0.3)

    async def play(ask):
        mine = asyncio.create_task(ask(pull(1)))
        await asyncio.sleep(0.1)
        for request in (push(1), content("a"), content("b")):
            await ask(request)
        return (await mine)[0]

    assert served(Slow(), play) < SOON


def test_a_serverapp_is_answered_when_all_of_a_node_s_message_is_there():
    message = Message()
    message.metadata.dst_node_id = SUPERLINK_NODE_ID

    class Answered(SuperLink):
        async def __call__(self, scope, receive, send):
            name, answer = scope["path"], b""
            if name == APP + PULL:
                answer = PullAppMessagesResponse(messages_list=self.messages).SerializeToString()
            elif name == NODE + PUSH:
                answer = PushMessagesResponse(objects_to_push=["a"], session_id="s").SerializeToString()
            elif name == NODE + PUSH_CONTENT:
                self.messages.append(message)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": answer})

    async def play(ask):
        app = asyncio.create_task(ask((APP + PULL, b"")))
        await asyncio.sleep(0.1)
        await ask((NODE + PUSH, PushMessagesRequest(messages_list=[message]).SerializeToString()))
        await asyncio.sleep(0.1)
        early = app.done()
        await ask((NODE + PUSH_CONTENT, content("a")[1]))
        return early, *await app

    early, seconds, answer = served(Answered(), play)
    assert not early, "it was announced, and not there"
    assert seconds < SOON
    assert PullAppMessagesResponse.FromString(answer.content).messages_list


def test_a_node_without_a_message_is_answered_after_a_while():
    seconds, answer = served(SuperLink(), lambda ask: ask(pull(1)), held=0.3)
    assert 0.3 <= seconds < SOON
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("asked", [pull(1), (NODE + PULL, b"\xff\xff"), content("a"), push(1)])
def test_who_is_refused_is_answered_at_once(asked):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    seconds, answer = served(app, lambda ask: ask(asked))
    assert seconds < SOON
    assert answer.status_code == 401


def test_other_requests_pass():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    assert served(app, lambda ask: ask(("/v1/fleet/get-run", b"")))[1].content == b"/v1/fleet/get-run"
