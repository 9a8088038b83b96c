"""The interfaces of a federation's server over HTTP: that of nodes, and that of the server's own machine.

| nodes | what it does |
|---|---|
| GET /hello | says what a node signs to join |
| POST /join | begins a session |
| POST /next | waits for an order: 200 with it, 204 for none |
| POST /answer/ID | brings the answer to an order; 410 where nobody waits for it any more |
| POST /alive | says that the node is at work |
| POST /leave | ends the session |

The body of a request is read once its headers are known to be signed by a node's key. Long ones go to files.
"""

import asyncio
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import IO, Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fedgraft.runtimes.federation.hub import Hub, Message, Refused, Run, Seat
from fedgraft.runtimes.federation.signed_requests import DIGEST, LOST, MESSAGE, NODE, VERSION, claim_in

HELD_SECONDS: Final = 20.0
"""How long a node waits for an order, until it is told that there is none."""
MOST_BODY: Final = 1 << 31
"""Most bytes of a message."""
IN_MEMORY: Final = 1 << 20
"""Most bytes of a message that is kept in memory."""
BODY_SECONDS: Final = 10.0
"""How long a body may take, and one more second for each `BODY_RATE` bytes of it that have come."""
BODY_RATE: Final = 1000
_CHUNK: Final = 1 << 18
Handler = Callable[[Request], Awaitable[Response]]


def for_nodes(hub: Hub) -> Starlette:
    """Return the application that nodes reach."""

    async def hello(request: Request) -> Response:
        return JSONResponse({"version": VERSION, "nonce": hub.nonce})

    async def join(request: Request) -> Response:
        claim = hub.check(claim_in(request.headers), request.url.path)
        return Response(hub.join(claim))

    async def following(request: Request) -> Response:
        seat = _seat(hub, request)
        message = await _order(hub, seat, request)
        return Response(status_code=204) if message is None else _carrying(message, message.order)

    async def answer(request: Request) -> Response:
        seat = _seat(hub, request)
        message = hub.unanswered(seat, request.path_params["message"])
        if message is None:
            raise Refused(410, "nobody waits for this answer")
        hub.answered(message, await _body(request, request.headers[DIGEST]))
        return Response(status_code=204)

    async def alive(request: Request) -> Response:
        _seat(hub, request)
        return Response(status_code=204)

    async def leave(request: Request) -> Response:
        _seat(hub, request).gone()
        return Response(status_code=204)

    posts = {"/join": join, "/next": following, "/answer/{message}": answer, "/alive": alive, "/leave": leave}
    return _application(Route("/hello", hello), *(Route(path, each, methods=["POST"]) for path, each in posts.items()))


def for_operator(hub: Hub) -> Starlette:
    """Return the application that runs and commands on the server's machine reach."""

    async def status(request: Request) -> Response:
        nodes = {node: _standing(seat) for node, seat in hub.seats.items()}
        runs = [{"id": name, **_stage(run)} for name, run in reversed(hub.runs.items())]
        return JSONResponse({"nodes": nodes, "runs": runs})

    async def read_keys(request: Request) -> Response:
        hub.read_keys()
        return Response(status_code=204)

    async def nodes(request: Request) -> Response:
        return JSONResponse(hub.nodes())

    async def run(request: Request) -> Response:
        name = request.path_params["run"]
        hub.begin(name)

        async def connected() -> AsyncIterator[bytes]:
            try:
                yield b"\n"
                await asyncio.Event().wait()  # until whoever asks has gone
            finally:
                hub.end(name)

        return StreamingResponse(connected())

    async def send(request: Request) -> Response:
        order, message = await _body(request), None
        try:
            message = hub.send(request.path_params["run"], int(request.path_params["node"]), order)
        finally:
            if message is None:
                order.close()
        return Response(status_code=404) if message is None else Response(message.id)

    async def receive(request: Request) -> Response:
        asked = json.loads(await request.body())
        message = await hub.receive(request.path_params["run"], asked["messages"], asked["seconds"])
        return Response(status_code=204) if message is None else _carrying(message, message.answer)

    return _application(
        Route("/status", status),
        Route("/nodes", nodes),
        Route("/keys", read_keys, methods=["POST"]),
        Route("/runs/{run}", run, methods=["POST"]),
        Route("/runs/{run}/nodes/{node}", send, methods=["POST"]),
        Route("/runs/{run}/answers", receive, methods=["POST"]),
    )


def _application(*routes: Route) -> Starlette:
    async def refused(request: Request, error: Exception) -> Response:
        """Answer, and close the connection: what else comes on it is not read."""
        status = error.status if isinstance(error, Refused) else 400
        return Response(str(error), status, {"connection": "close"})

    return Starlette(routes=routes, exception_handlers={Refused: refused, ClientDisconnect: refused})


def _seat(hub: Hub, request: Request) -> Seat:
    return hub.seat(hub.check(claim_in(request.headers), request.url.path))


async def _order(hub: Hub, seat: Seat, request: Request) -> Message | None:
    """Wait for an order to a node. Raises `Refused` where the node has no seat any more."""
    await request.body()
    left = asyncio.ensure_future(request.receive())
    seat.polls += 1
    try:
        until = asyncio.get_running_loop().time() + HELD_SECONDS
        while hub.holds(seat):
            message, seconds = hub.next_order(seat), until - asyncio.get_running_loop().time()
            if message is not None or seconds <= 0:
                return message
            came = asyncio.ensure_future(seat.change.wait())
            done, _ = await asyncio.wait((came, left), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            came.cancel()
            if left in done:
                if seat.polls == 1:
                    seat.gone()
                return None
    finally:
        left.cancel()
        seat.polls -= 1
        if not left.done():
            seat.note()
    raise Refused(409, "join again")


def _carrying(message: Message, content: IO[bytes] | None) -> Response:
    """Return a response with the order or the answer of a message."""
    headers = {MESSAGE: message.id, NODE: str(message.node)}
    if content is None:
        return Response(b"", 200, {**headers, LOST: "1"})
    headers["content-length"] = str(content.seek(0, 2))
    return StreamingResponse(_chunks(content, content is message.answer), headers=headers)


async def _chunks(content: IO[bytes], is_last: bool) -> AsyncIterator[bytes]:
    """Yield a file's content; another reader of the file is not disturbed, but by the last one, who closes it."""
    at = 0
    try:
        while not content.closed:
            content.seek(at)
            chunk = content.read(_CHUNK)
            if not chunk:
                return
            at += len(chunk)
            yield chunk
    finally:
        if is_last:
            content.close()


async def _body(request: Request, digest: str = "") -> IO[bytes]:
    """Return a request's body, in a file where it is long; a digest is that which it must have.

    Raises `Refused` for one that is too long, takes too long, or has another digest.
    """
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > MOST_BODY:
        raise Refused(413, f"a message has at most {MOST_BODY} bytes")
    content: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  (closed with its message)
    size, found, parts = 0, hashlib.sha256(), request.stream()
    began = asyncio.get_running_loop().time()
    try:
        while True:
            async with asyncio.timeout_at(began + BODY_SECONDS + size / BODY_RATE):
                part = await anext(parts, b"")
            if not part:
                break
            size += len(part)
            content.write(part)
            found.update(part)
        if digest and found.hexdigest() != digest:
            raise Refused(403, "the signature is not that of the message")
    except TimeoutError as error:
        content.close()
        raise Refused(408, "the message takes too long") from error
    except BaseException:
        content.close()
        raise
    return content


def _standing(seat: Seat) -> dict[str, str]:
    here = seat.is_here
    since = seat.joined if here else seat.last
    return {"state": "online" if here else "offline", "since": f"{since:%Y-%m-%d %H:%M:%SZ}"}


def _stage(run: Run) -> dict[str, str]:
    since = run.ended or run.began
    return {"status": "ended" if run.ended else "running", "since": f"{since:%Y-%m-%d %H:%M:%SZ}"}
