"""An ASGI application asked without a server."""

import asyncio
from typing import Any

import httpx


class Client:
    """Asks an application; each call has a loop of its own.

    Not Starlette's test client: which package that one needs depends on its version.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    def request(self, method: str, path: str, **content: Any) -> httpx.Response:
        return self.together((method, path, content))[0]

    def get(self, path: str) -> httpx.Response:
        return self.request("GET", path)

    def post(self, path: str, **content: Any) -> httpx.Response:
        return self.request("POST", path, **content)

    def together(self, *asked: tuple[str, str, dict[str, Any]]) -> list[httpx.Response]:
        """Answers to requests that are made at once, in the order in which they were asked."""

        async def ask() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://here", timeout=60) as client:
                return await asyncio.gather(*(client.request(how, path, **content) for how, path, content in asked))

        return asyncio.run(ask())
