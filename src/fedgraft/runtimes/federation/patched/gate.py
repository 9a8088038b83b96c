"""The gate of the nodes' interface: of whom the server does not know by his key no more than a few kilobytes are read.

Flower reads a body, takes it apart, and then looks at the headers that a node signs. It does so behind the gate, too,
and compares the key with the node that a request names.
"""

import asyncio
from base64 import b64decode
from collections.abc import Callable
from datetime import datetime
from typing import Final

from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_HEADER, TIMESTAMP_TOLERANCE
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature

from fedgraft.runtimes.federation.patched.long_polls import NODE, Asgi, Content, Receive, Send, replay

MOST_BODY: Final = 1 << 24
"""Most bytes of a request of a node. Flower cuts what it sends into chunks of 5 MiB; what is not cut is below 4 MiB."""
STRANGERS_BODY: Final = 1 << 12
"""The same of anybody else: enough for Flower to say that it does not know him."""
BODY_SECONDS: Final = 10.0
"""How long a body may take, and one more second for each `BODY_RATE` bytes of it that have come."""
BODY_RATE: Final = 1000
Headers = dict[bytes, bytes]


class Gate:
    """An application whose nodes' interface takes long requests from known nodes alone, and slow ones from nobody.

    A refusal closes the connection; what else is sent on it is not read.

    Args:
        app: what is behind it.
        is_known: whether a public key is a node's, as PEM; None where nodes have no keys, and all are known.
        seconds: as `BODY_SECONDS`.
    """

    def __init__(self, app: Asgi, is_known: Callable[[bytes], bool] | None, seconds: float = BODY_SECONDS) -> None:
        self._app, self._is_known, self._seconds = app, is_known, seconds
        self._known: set[bytes] = set()  # Flower asks again who they are

    async def __call__(self, scope: Content, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or not str(scope["path"]).startswith(NODE):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        known = self._is_known is None or await self._knows(headers, self._is_known)
        try:
            body = await self._read(headers, receive, MOST_BODY if known else STRANGERS_BODY)
        except TimeoutError:
            await refuse(send, 408)
            return
        if body is None:
            await refuse(send, 413 if known else 401)
            return
        await self._app(scope, replay(body, receive), send)

    async def _knows(self, headers: Headers, is_known: Callable[[bytes], bool]) -> bool:
        """Whether the headers are signed, a moment ago, by the key of a node."""
        key = signer(headers)
        if key and key not in self._known and await asyncio.to_thread(is_known, key):
            self._known.add(key)
        return key in self._known

    async def _read(self, headers: Headers, receive: Receive, most: int) -> bytes | None:
        """Return a body; None for one that is too long. Raises `TimeoutError` for one that takes too long."""
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > most:
            return None
        began, parts, size, more = asyncio.get_running_loop().time(), [], 0, True
        while more:
            async with asyncio.timeout_at(began + self._seconds + size / BODY_RATE):
                part = await receive()
            parts.append(part.get("body", b""))
            size, more = size + len(parts[-1]), part.get("more_body", False)
            if size > most:
                return None
        return b"".join(parts)


def signer(headers: Headers) -> bytes:
    """Return the public key by which headers are signed, as PEM, if that was a moment ago; b"" for none."""
    try:
        names = (FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER, TIMESTAMP_HEADER)
        encoded, sealed, signed = (headers[name.encode()] for name in names)
        key, age = b64decode(encoded, validate=True), (now() - datetime.fromisoformat(signed.decode())).total_seconds()
        fresh = -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE
        good = fresh and verify_signature(bytes_to_public_key(key), signed, b64decode(sealed, validate=True))
    except Exception:  # of whatever a stranger calls a time, a key or a signature
        return b""
    return key if good else b""


async def refuse(send: Send, status: int) -> None:
    """Answer with a status and nothing else, and close the connection."""
    headers = [(b"connection", b"close"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
