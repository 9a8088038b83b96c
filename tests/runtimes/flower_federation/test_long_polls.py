"""Long polling: "no message" waits until all of a message is there, and keeps nobody who has not shown a key."""

import asyncio
import time

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")
pytest.importorskip("httpx", reason="the extra 'flower' is not installed")

import httpx
from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse
from flwr.proto.message_pb2 import Message, PushObjectRequest
from flwr.proto.runtime_pb2 import PushAppMessagesRequest, PushAppMessagesResponse

from fedgraft.runtimes.flower_federation.long_polls import PULL, PUSH, PUSH_CONTENT, LongPolls

HELD = 5.0
SOON = 1.0


class SuperLink:
    """An application with one session of messages, each with content that is pushed after it."""

    def __init__(self):
        self.messages, self.pulls = [], 0

    async def __call__(self, scope, receive, send):
        body = (await receive())["body"]
        answer = b""
        if scope["path"] == PULL:
            self.pulls += 1
            node = PullMessagesRequest.FromString(body).node.node_id
            found = [message for message in self.messages if message.metadata.dst_node_id == node]
            answer = PullMessagesResponse(messages_list=found).SerializeToString()
        elif scope["path"] == PUSH:
            self.messages += PushAppMessagesRequest.FromString(body).messages_list
            answer = PushAppMessagesResponse(objects_to_push=["a", "b"], session_id="s").SerializeToString()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer})


def pull(node):
    request = PullMessagesRequest()
    request.node.node_id = node
    return PULL, request.SerializeToString()


def push(node):
    message = Message()
    message.metadata.dst_node_id = node
    return PUSH, PushAppMessagesRequest(messages_list=[message]).SerializeToString()


def content(name):
    return PUSH_CONTENT, PushObjectRequest(object_id=name, session_id="s").SerializeToString()


def served(app, play, held=HELD):
    """Have `play(ask)` ask the application; `ask` answers how long it took, and with what."""

    async def run():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(LongPolls(app, held)), base_url="http://here"
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
            if scope["path"] == PULL and self.pulls == 1:
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


def test_a_message_that_comes_while_the_application_answers_is_not_missed():
    class Slow(SuperLink):
        async def __call__(self, scope, receive, send):
            await super().__call__(scope, receive, send)
            if scope["path"] == PULL and self.pulls == 1:
                await asyncio.sleep(0.3)

    async def play(ask):
        mine = asyncio.create_task(ask(pull(1)))
        await asyncio.sleep(0.1)
        for request in (push(1), content("a"), content("b")):
            await ask(request)
        return (await mine)[0]

    assert served(Slow(), play) < SOON


def test_a_node_without_a_message_is_answered_after_a_while():
    seconds, answer = served(SuperLink(), lambda ask: ask(pull(1)), held=0.3)
    assert 0.3 <= seconds < SOON
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("asked", [pull(1), (PULL, b"\xff\xff"), content("a"), push(1)])
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
