"""Long polling: who asks for messages when there are none is answered when one comes, or after a while.

Flower's nodes and ServerApps ask, are answered at once, and sleep. Short sleeps cost a link 1.5 kB each and the
SuperLink some 20 ms of a processor, long ones delay a round.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, TypeAlias

from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse, PushMessagesRequest, PushMessagesResponse
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.proto.runtime_pb2 import PullAppMessagesResponse, PushAppMessagesRequest, PushAppMessagesResponse
from google.protobuf.message import DecodeError

HELD_SECONDS: Final = 10.0
"""How long a node waits at most; a SuperNode gives a request up after 30 seconds."""
APP_SECONDS: Final = 0.5
"""How long a ServerApp waits at most, which looks between two questions who is connected and what is late."""
NODE, APP = "/v1/fleet/", "/v1/runtime/"
"""What the paths of the interfaces of nodes and of ServerApps begin with."""
PULL: Final = "pull-messages"
PUSH: Final = "push-messages"
"""Messages are announced; their content follows, by `PUSH_CONTENT`."""
PUSH_CONTENT: Final = "push-object"

Content: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Content]]
Send: TypeAlias = Callable[[Content], Awaitable[None]]
Asgi: TypeAlias = Callable[[Content, Receive, Send], Awaitable[None]]


class LongPolls:
    """A SuperLink's application whose answers "no message" wait until there is one.

    Such an answer is held back after the application has given it, so that only who has shown a key or a token waits.
    A message counts as there when all of its content has arrived. Then the application is asked once more. Where it
    refuses, since what a node signs is good for some seconds only, the first answer is given, and the node asks again.

    Args:
        app: Flower's.
        node_seconds: how long a node waits at most.
        app_seconds: how long a ServerApp waits at most.
    """

    def __init__(self, app: Asgi, node_seconds: float = HELD_SECONDS, app_seconds: float = APP_SECONDS) -> None:
        self._app = app
        self._seconds = {NODE: node_seconds, APP: app_seconds}
        self._came: Counter[int] = Counter()  # messages by node
        self._waiting: dict[int, asyncio.Event] = {}  # one for all that wait as one node
        self._missing: dict[str, tuple[set[str], set[int]]] = {}  # by session: content to come, and nodes

    async def __call__(self, scope: Content, receive: Receive, send: Send) -> None:
        """Answer a request."""
        interface, name = _named(scope) if scope["type"] == "http" else ("", "")
        handle = {PULL: self._pull, PUSH: self._push, PUSH_CONTENT: self._push_content}.get(name)
        if interface not in self._seconds or handle is None:
            await self._app(scope, receive, send)
            return
        body = await _body_of(receive)

        async def ask() -> _Answer:
            answer = _Answer()
            own = {**scope, "state": dict(scope.get("state", {}))}
            await self._app(own, replay(body, receive), answer.add)
            return answer

        for part in (await handle(interface, body, ask, receive)).parts:
            await send(part)

    async def _pull(self, interface: str, body: bytes, ask: "Ask", receive: Receive) -> "_Answer":
        node = _node_of(body) if interface == NODE else SUPERLINK_NODE_ID
        before = self._came[node]
        answer = await ask()
        if not answer.good or _PULLED[interface].FromString(answer.body).messages_list:
            return answer
        if self._came[node] == before and not await self._comes(node, self._seconds[interface], receive):
            return answer
        again = await ask()
        return again if again.good else answer

    async def _comes(self, node: int, seconds: float, receive: Receive) -> bool:
        """Wait; return whether a message for a node has come, and who asked is there to take it.

        Whoever has hung up, such as a node that was killed and is back, would take the message from its successor.
        """
        came = asyncio.ensure_future(self._waiting.setdefault(node, asyncio.Event()).wait())
        left = asyncio.ensure_future(receive())
        try:
            done, _ = await asyncio.wait((came, left), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:  # also where the SuperLink ends meanwhile
            came.cancel()
            left.cancel()
        return came in done and left not in done

    async def _push(self, interface: str, body: bytes, ask: "Ask", receive: Receive) -> "_Answer":
        answer = await ask()
        if answer.good:
            request_type, response_type = _PUSHED[interface]
            response = response_type.FromString(answer.body)
            nodes = {message.metadata.dst_node_id for message in request_type.FromString(body).messages_list}
            self._missing[response.session_id] = (set(response.objects_to_push), nodes)
            self._arrived(response.session_id, "")
        return answer

    async def _push_content(self, interface: str, body: bytes, ask: "Ask", receive: Receive) -> "_Answer":
        answer = await ask()
        if answer.good:
            request = PushObjectRequest.FromString(body)
            self._arrived(request.session_id, request.object_id)
        return answer

    def _arrived(self, session: str, content: str) -> None:
        """Note content that is there, and wake the nodes of a session whose content is."""
        missing, nodes = self._missing.get(session, (set(), set()))
        missing.discard(content)
        if not missing:
            self._missing.pop(session, None)
            self._came.update(nodes)
            for node in nodes & self._waiting.keys():
                self._waiting.pop(node).set()


class _Answer:
    """What an application answers."""

    def __init__(self) -> None:
        self.parts: list[Content] = []

    async def add(self, part: Content) -> None:
        self.parts.append(part)

    @property
    def good(self) -> bool:
        return bool(self.parts) and self.parts[0].get("status") == 200

    @property
    def body(self) -> bytes:
        return b"".join(part.get("body", b"") for part in self.parts[1:])


_PULLED: Final = {NODE: PullMessagesResponse, APP: PullAppMessagesResponse}
_PUSHED: Final[Mapping[str, tuple[Any, Any]]] = {
    NODE: (PushMessagesRequest, PushMessagesResponse),
    APP: (PushAppMessagesRequest, PushAppMessagesResponse),
}


def _named(scope: Content) -> tuple[str, str]:
    """Return the interface that a request is for, and the name of what it asks there."""
    interface, slash, name = str(scope["path"]).rpartition("/")
    return interface + slash, name


def _node_of(body: bytes) -> int:
    """Return which node asks; 0 where that cannot be read, which the application refuses."""
    try:
        node: int = PullMessagesRequest.FromString(body).node.node_id
    except DecodeError:
        return 0
    return node


Ask: TypeAlias = Callable[[], Awaitable[_Answer]]
"""Asks the application what a request asks."""


async def _body_of(receive: Receive) -> bytes:
    """Return the body of a request; what came, where the caller has left."""
    parts, more = [], True
    while more:
        part = await receive()
        parts.append(part.get("body", b""))
        more = part.get("more_body", False)
    return b"".join(parts)


def replay(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was read once more, and then what comes after it."""
    read = False

    async def again() -> Content:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
