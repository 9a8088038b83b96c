"""Answers predictions over HTTP from a finished run's folder; needs the extra `fedgraft[serve]`.

A run is loaded once. One thread predicts, for modules are not to be entered twice; the loop of HTTP answers meanwhile.

The JSON Schema of questions is made of what the run's task and its data set say of their tables.
"""

import asyncio
import errno
import inspect
import ipaddress
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedgraft.errors import InputError, memory_shortage, printable, require
from fedgraft.experiment.predicting.predict import predict, thresholds_of
from fedgraft.experiment.predicting.site_run import load_run
from fedgraft.experiment.recipes.units import human_bytes, parse_bytes
from fedgraft.experiment.storage.data_notes import heard_notes
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.interface.json_tables import (
    MAX_REQUEST,
    MAX_ROWS,
    MEMBERS,
    RefusedError,
    Request,
    read_request,
    rendered,
    to_json,
)
from fedgraft.reports.stored.stored_runs import StoredRun
from fedgraft.runtimes.workers import signals

VALUE = {"type": ["string", "number", "boolean", "null"]}
"""Schema of a cell."""


def request_schema(run: FinishedRun, most_rows: int, own_needed: bool) -> dict[str, Any]:
    """Return the JSON Schema of a request, whose tables have at most so many rows.

    Columns are in the descriptions, in the words of task and data set, which know no types of them. `own_needed` says
    that the run's data are not there, so that every request has one client's own tables.
    """
    tables, client, count, threshold = MEMBERS
    asks, counted = run.task.asks, run.task.count_column
    own = run.own_data.own_tables if run.own_data else ()
    every = {name: _table(f"Asked, by name {name!r}.", most_rows, {}) for name in asks}
    every |= {name: _table("One client's own data.", most_rows, {}) for name in own}
    whole_number = {"type": "integer", "minimum": 1}
    columns = {"client": {"description": "Who answers."}, **({counted: whole_number} if counted else {})}
    every[asks[0]] = _table("Questions: each row is answered.", most_rows, columns)
    properties: dict[str, Any] = {
        tables: {
            "type": "object",
            "description": " ".join(_described(run, (*asks, *own))),
            "properties": every,
            "additionalProperties": False,
            "anyOf": [{"required": [name]} for name in asks],
            "dependentRequired": {name: [own[0]] for name in own[1:]},
            "required": [own[0]] if own_needed else [],
        },
        client: {"type": ["string", "null"], "description": "Who answers all questions, by name."},
    }
    if thresholds_of(run, None):
        said = "Probability from which on the rarer class is answered, in place of the run's."
        properties[threshold] = {"type": ["number", "null"], "minimum": 0, "maximum": 1, "description": said}
    if counted:
        properties[count] = {**whole_number, "description": f"Answers to each question, in place of {counted!r}."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Questions to a model for task {run.experiment.task_name!r}",
        "type": "object",
        "properties": properties,
        "required": [tables],
        "additionalProperties": False,
    }


def _table(what: str, most_rows: int, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a table: rows, or columns."""
    cells = {"type": "array", "maxItems": most_rows, "items": VALUE}
    rows = {"type": "object", "properties": columns, "additionalProperties": VALUE}
    return {
        "description": what,
        "oneOf": [
            {"type": "array", "maxItems": most_rows, "items": rows},
            {"type": "object", "additionalProperties": cells},
        ],
    }


def _described(run: FinishedRun, tables: tuple[str, ...]) -> list[str]:
    """Return what the documentation of the task and of the data set says of these tables, a paragraph each."""
    texts = []
    for cls in (type(run.plan.task), type(run.experiment.data)):
        text, _, _ = (inspect.getdoc(cls) or "").partition("\nArgs:\n")
        paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
        texts += [each for each in paragraphs if any(f"`{name}`" in each for name in tables)]
    return texts


try:
    import uvicorn
    from starlette import requests
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise InputError(f"fedgraft serve needs {error.name}: pip install 'fedgraft[serve]'") from error

LOG = logging.getLogger("fedgraft.serve")

WAITING = 64
"""Most requests that wait for their answers: their bodies are in memory."""
GRACE = 10
"""Seconds that requests may take to end once the server is asked to."""
SHOWN = 1000
"""Most characters of an error's line."""
JSON = "application/json"
ENDPOINTS = {
    "GET /": "this list",
    "GET /health": "which run answers, and its score",
    "GET /schema": "JSON Schema of what POST /predict takes",
    "POST /predict": 'answers to questions: {"tables": {NAME: [ROW, ...]}}',
}


class Predictor:
    """A loaded run that answers requests one at a time.

    Args:
        folder: the run's.
        max_request: most bytes of a body.
        max_rows: most rows of a table, and most answers to a request.

    Raises `InputError` for a run that has not finished, is damaged or answers no questions, and for one without its
    data that no other data can stand in for.
    """

    def __init__(self, folder: Path, max_request: int, max_rows: int) -> None:
        require(max_request >= 1, "--max-request", "at least 1 byte", max_request)
        require(max_rows >= 1, "--max-rows", ">= 1", max_rows)
        self.max_request, self._max_rows = max_request, max_rows
        stored = StoredRun(folder, so_far=False)
        self._run = load_run(stored.run_folder)
        self._asks, self._counted = self._run.task.asks[0], self._run.task.count_column
        self.lacking = ""  # why the run's own data cannot answer
        try:
            self._run.load()
        except (InputError, OSError) as error:
            if not self._run.own_data:
                raise
            self.lacking = str(error)
        summary = stored.summary
        self.health = {
            "status": "ok",
            "run": stored.label,
            "recipe": summary["recipe"],
            "task": self._run.experiment.task_name,
            "metric": summary["metric"],
            "score": summary["test_at_best_validation"],
            "digest": summary["digest"],
        }
        self.schema = request_schema(self._run, max_rows, bool(self.lacking))
        self._private = _folders(folder, self._run.experiment.recipe.sections["data"])
        self._thread = ThreadPoolExecutor(1, "predict")
        self._free = threading.Semaphore(WAITING)

    async def answered(self, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the answer to a request's body."""
        if not self._free.acquire(blocking=False):
            return 503, _said(f"{WAITING} requests wait already; try again later.")
        try:
            return await asyncio.wrap_future(self._thread.submit(self._answer, body))
        finally:
            self._free.release()

    def close(self) -> None:
        """Leave requests that wait without an answer."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _answer(self, body: bytes) -> tuple[int, bytes]:
        try:
            request = read_request(body, self._max_rows)
            self._check(request)
            with heard_notes() as notes:
                answers = self._predicted(request)
            return 200, rendered(answers, [self._private.sub("", note) for note in notes])
        except RefusedError as error:
            return error.status, _said(str(error))
        except InputError as error:
            return 422, _said(self._private.sub("", str(error)))
        except Exception as error:
            LOG.exception("A prediction failed.")
            return 500, _said("The server is out of memory." if memory_shortage(error) else "The prediction failed.")

    def _predicted(self, request: Request) -> pd.DataFrame:
        count, threshold = request.count, request.threshold
        return predict(self._run, request.tables, request.client, count=count, threshold=threshold)

    def _check(self, request: Request) -> None:
        """Raise for what the run cannot answer here, and for more answers than there may be."""
        own = self._run.own_data.own_tables if self._run.own_data else ()
        if self.lacking and own[0] not in request.tables:
            raise InputError(f"The run's data are not here: give --{own[0]}, one client's own data.")
        questions = request.tables.get(self._asks)
        if not self._counted or questions is None:
            return
        each = questions.get(self._counted, pd.Series(1, questions.index)) if request.count is None else request.count
        numbers = pd.to_numeric(pd.Series(each, questions.index), errors="coerce").to_numpy(np.float64)
        if (answers := np.nansum(numbers.clip(min=0))) > self._max_rows:
            raise RefusedError(413, f"{answers:,.0f} answers are asked for; at most {self._max_rows:,} at a time.")


def app(run: str | Path, max_request: int | str = MAX_REQUEST, max_rows: int = MAX_ROWS) -> Starlette:
    """Return the ASGI application that answers predictions of a finished run.

    Args:
        run: its folder.
        max_request: most bytes of a request's body, such as "10MB".
        max_rows: most rows of a table, and most answers to a request.
    """
    return _app(Predictor(Path(run), parse_bytes(max_request, "--max-request"), max_rows))


def serve(run: Path, host: str, port: int, max_request: int | str, max_rows: int, say: Callable[[str], None]) -> int:
    """Answer until a signal asks to end; requests that are being answered have `GRACE` seconds.

    Args:
        run: the run's folder.
        host: name or address to listen at.
        port: 0 takes a free one.
        max_request: as `app` takes it.
        max_rows: as `app` takes it.
        say: shows a line.

    Returns:
        The signal's number. Raises `InputError` for a run that cannot be served and an address that cannot be had.
    """
    with _listening(host, port) as listener:  # before the run is loaded, which may take a while
        predictor = Predictor(run, parse_bytes(max_request, "--max-request"), max_rows)
        if predictor.lacking:
            say(f"warning: the run's data cannot answer, only one client's own tables: {predictor.lacking}")
        address = listener.getsockname()
        if not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback:
            say(f"warning: whoever reaches {address[0]} can ask: there is no authentication; put a proxy in front.")
        listener.listen()
        shown = f"[{address[0]}]" if listener.family == socket.AF_INET6 else address[0]
        say(f"Run {predictor.health['run']} answers at http://{shown}:{address[1]} ; Ctrl-C ends it.")
        return _until_asked_to_end(predictor, listener)


def _until_asked_to_end(predictor: Predictor, listener: socket.socket) -> int:
    config = uvicorn.Config(
        _app(predictor),
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_level="critical",  # what fails in the application is logged there
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
    )
    server, stop_signal = uvicorn.Server(config), [0]

    def end(number: int, frame: object) -> None:
        stop_signal[0], server.should_exit = number, True

    before = signals.handle(end)  # uvicorn handles some itself, and raises them again when it has ended
    try:
        server.run(sockets=[listener])
    finally:
        predictor.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    return stop_signal[0]


def _app(predictor: Predictor) -> Starlette:
    def page(content: object) -> Callable[[requests.Request], Awaitable[Response]]:
        async def answer(request: requests.Request) -> Response:
            return _response(200, to_json(content))

        return answer

    async def predictions(request: requests.Request) -> Response:
        return _response(*await predictor.answered(await _body(request, predictor.max_request)))

    routes = [
        Route("/", page({"run": predictor.health["run"], "endpoints": ENDPOINTS}), methods=["GET"]),
        Route("/health", page(predictor.health), methods=["GET"]),
        Route("/schema", page(predictor.schema), methods=["GET"]),
        Route("/predict", predictions, methods=["POST"]),
    ]
    application = Starlette(routes=routes, exception_handlers={HTTPException: _not_routed, RefusedError: _refused})
    application.router.redirect_slashes = False
    return application


async def _body(request: requests.Request, most: int) -> bytes:
    """Read a body in chunks, no further than to the limit."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise RefusedError(415, f"Content-Type must be {JSON}; got {kind or 'none'}.")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RefusedError(415, "Content-Encoding must be identity.")
    too_large = RefusedError(413, f"The body is larger than {human_bytes(most)}.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise too_large
    body = bytearray()
    try:
        async for chunk in request.stream():
            if len(body) + len(chunk) > most:
                raise too_large
            body += chunk
    except requests.ClientDisconnect as error:
        raise RefusedError(400, "The body has not come to its end.") from error
    return bytes(body)


async def _not_routed(request: requests.Request, error: Exception) -> Response:
    """Answer a path or a method that is not there."""
    assert isinstance(error, HTTPException)
    line = f"Not here: {request.method} {request.url.path}. Known: {', '.join(ENDPOINTS)}."
    return _response(error.status_code, _said(line), error.headers)


async def _refused(request: requests.Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return _response(error.status, _said(str(error)))


def _response(status: int, body: bytes, headers: Any = None) -> Response:
    return Response(body, status, headers, JSON)


def _said(line: str) -> bytes:
    """Return an error: one line, not endless whatever was asked."""
    line = printable(line.strip())
    return to_json({"error": line if len(line) <= SHOWN else f"{line[:SHOWN]} ..."})


def _folders(run: Path, data: dict[str, Any]) -> re.Pattern[str]:
    """Return what finds folders of the server's files in errors: those who ask need not know them."""
    paths = [run, *(Path(value) for value in data.values() if isinstance(value, str) and Path(value).is_absolute())]
    folders = sorted({str(each) for path in paths for each in (path.parent, path.parent.resolve())}, key=len)
    return re.compile("|".join(re.escape(folder) + r"[/\\]" for folder in reversed(folders) if len(folder) > 1) or "$^")


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that is bound. Raises `InputError` where it cannot be."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InputError(f"--host {host!r} is no address: {error.strerror}.") from error
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it lets two servers have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            line = f"--port {port} at {host} is in use already; give another one, or 0 for any that is free."
            raise InputError(line) from error
        raise InputError(f"--host {host}, --port {port} cannot be had: {error.strerror}.") from error
    return listener
