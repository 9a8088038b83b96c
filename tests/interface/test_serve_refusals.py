"""Requests that are not answered: each gets a status and one line, and is not read further than need be."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from fedgraft.errors import InputError
from fedgraft.interface import serve
from helpers.asgi import Client

JSON = {"Content-Type": "application/json"}
PAIR = {"user": "user-01", "item": "item-01"}


@pytest.fixture(scope="module")
def client(finished_run: Path) -> Client:
    return Client(serve.app(finished_run, "20kB", 50))


def refused(client: Client, body: str | bytes, headers: dict[str, str] = JSON) -> tuple[int, str]:
    done = client.post("/predict", content=body, headers=headers)
    assert done.headers["content-type"] == "application/json"
    (name, line), *others = done.json().items()
    assert (name, others) == ("error", [])
    assert "\n" not in line
    return done.status_code, line


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("", "The body is no JSON: Expecting value: line 1 column 1 (char 0)."),
        ('{"tables": ', "The body is no JSON: Expecting value"),
        (b'{"tables": "\xff"}', "The body is no JSON: 'utf-8' codec can't decode byte 0xff"),
        ('{"tables": {"pairs": [{"user": NaN}]}}', "The body is no JSON: NaN is no number in JSON; null stands for"),
        ('{"tables": {"pairs": [{"user": 1, "user": 2}]}}', "The body is no JSON: 'user' is more than once in an ob"),
        (r'{"tables": {"pairs": [{"user": "\uD800"}]}}', "The body is no JSON: 'utf-8' codec can't encode"),
        ('{"count": ' + "1" * 5000 + "}", "The body is no JSON: Exceeds the limit"),
        ("[" * 20000, "The body is nested too deeply."),
    ],
)
def test_what_is_no_json_is_400(client: Client, body: str | bytes, line: str) -> None:
    status, said = refused(client, body)
    assert status == 400
    assert said.startswith(line)


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        ([], 'The body must be an object such as {"tables": {NAME: [ROW, ...]}}; got a list.'),
        ({}, "tables must be an object {NAME: [ROW, ...]}; got nothing."),
        (
            {"table": {}},
            "No member of a request named 'table'. Did you mean 'tables'? Known: client, count, tables, threshold.",
        ),
        ({"tables": {}}, "Nothing is asked: give --pairs."),
        ({"tables": {"pairs": []}}, "--pairs has no rows; at least one is needed."),
        ({"tables": {"pears": [PAIR]}}, "--pears is not for task 'rating', which takes --pairs, --data, --trust. Did"),
        ({"tables": {"pairs": [{"user": "a"}]}}, "pairs need a column 'item'; got user."),
        ({"tables": {"pairs": [PAIR, {"user": "a"}]}}, "pairs, row 2: 'item' is empty (1 such rows)."),
        ({"tables": {"pairs": "pairs.csv"}}, "--pairs must be a list of rows, an object each, or an object of column"),
        ({"tables": {"pairs": [PAIR, 1]}}, "--pairs must be a list of rows"),
        ({"tables": {"pairs": {"user": ["a"], "item": []}}}, "--pairs must be a list of rows"),
        ({"tables": {"pairs": {"user": "a"}}}, "--pairs must be a list of rows"),
        ({"tables": {"pairs": [{**PAIR, "user": ["a"]}]}}, "--pairs, row 1: 'user' must be a text, a number, true, f"),
        ({"tables": {"pairs": [PAIR], "trust": [PAIR]}}, "--trust belongs to --data, one client's own data; give bo"),
        ({"tables": {"pairs": [PAIR], "data": [PAIR]}}, "--data: no column 'rating' (data.rating). Columns: user, it"),
        (
            {"tables": {"pairs": [PAIR], "data": [{**PAIR, "rating": True}]}},
            "--data, row 1: 'rating' must be a number; got True.",
        ),
        ({"tables": {"pairs": [PAIR]}, "client": "nobody"}, "No client named 'nobody'."),
        ({"tables": {"pairs": [PAIR]}, "client": 1}, "client must be a text, the name of a client; got a number."),
        ({"tables": {"pairs": [PAIR]}, "count": 2}, "A number of answers (-k 2) is not for task 'rating', which gives"),
        ({"tables": {"pairs": [PAIR]}, "count": True}, "count must be a whole number; got a truth value."),
        ({"tables": {"pairs": [PAIR]}, "count": 0}, "count must be >= 1; got 0."),
        ({"tables": {"a\n\x1b[2J": [PAIR]}}, r"--a\n\x1b[2J is not for task 'rating'"),
    ],
)
def test_what_cannot_be_answered_is_422_and_the_line_of_the_command(client: Client, request_: Any, line) -> None:
    status, said = refused(client, json.dumps(request_))
    assert status == 422
    assert said.startswith(line)


def test_lines_end_somewhere(client: Client) -> None:
    status, said = refused(client, json.dumps({"tables": {"x" * 9000: [PAIR]}}))
    assert (status, len(said)) == (422, 1004)


def test_only_json_is_read(client: Client) -> None:
    assert refused(client, "{}", {}) == (415, "Content-Type must be application/json; got none.")
    assert refused(client, "{}", {"Content-Type": "text/csv; x=y"})[1].endswith("got text/csv.")
    assert refused(client, "{}", {**JSON, "Content-Encoding": "gzip"})[0] == 415
    done = client.post(
        "/predict", json={"tables": {"pairs": [PAIR]}}, headers={"Content-Type": "Application/JSON; a=b"}
    )
    assert done.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("GET", "/predict", 405, "POST"),
        ("DELETE", "/health", 405, "GET, HEAD"),
        ("POST", "/", 405, "GET, HEAD"),
        ("GET", "/predict/", 404, None),
        ("POST", "/nowhere", 404, None),
    ],
)
def test_paths_and_methods_that_are_not_there(client: Client, method, path, status, allowed) -> None:
    done = client.request(method, path, follow_redirects=False)
    assert done.status_code == status
    assert done.json() == {
        "error": f"Not here: {method} {path}. Known: GET /, GET /health, GET /schema, POST /predict."
    }
    told = done.headers.get("allow")
    assert (told and ", ".join(sorted(told.split(", ")))) == allowed


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_not_read(client: Client) -> None:
    assert refused(client, b"x" * 20_001) == (413, "The body is larger than 20.0 kB.")
    assert refused(client, b"x" * 20_000)[0] == 400


def test_a_body_of_unknown_length_is_read_no_further_than_to_the_limit(finished_run: Path) -> None:
    read, sent = [0], []

    async def receive() -> dict[str, Any]:
        read[0] += 1
        return {"type": "http.request", "body": b"x" * 1000, "more_body": True}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/predict", "headers": headers, "query_string": b""}
    asyncio.run(serve.app(finished_run, "20kB")(scope, receive, send))
    assert sent[0]["status"] == 413
    assert read == [21]


def test_a_client_that_leaves_is_no_failure(finished_run: Path) -> None:
    sent = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/predict", "headers": headers, "query_string": b""}
    asyncio.run(serve.app(finished_run)(scope, receive, send))
    assert sent[0]["status"] == 400


def test_tables_may_not_be_too_long_or_too_wide(client: Client) -> None:
    pairs = [{"user": "a", "item": "b"}] * 50
    assert client.post("/predict", json={"tables": {"pairs": pairs}}).status_code == 200
    assert refused(client, json.dumps({"tables": {"pairs": [*pairs, PAIR]}})) == (
        413,
        "--pairs has 51 rows; at most 50 are answered at a time.",
    )
    assert refused(client, json.dumps({"tables": {"pairs": {"user": ["a"] * 51}}}))[0] == 413


def test_limits_are_checked_when_it_starts(finished_run: Path) -> None:
    with pytest.raises(InputError, match=r"^--max-request = '1Mb' has no unit of bytes\."):
        serve.app(finished_run, "1Mb")
    for limits in (("0B", 1), ("1MB", 0)):
        with pytest.raises(InputError, match=r"^--max-r\w+ must be (at least 1 byte|>= 1); got 0\.$"):
            serve.app(finished_run, *limits)


# --- failures of the server -------------------------------------------------------------------------------------------


def test_a_failure_is_logged_here_and_told_without_a_traceback(client: Client, monkeypatch, caplog) -> None:
    for error, line in (
        (KeyError("secret"), "The prediction failed."),
        (MemoryError(), "The server is out of memory."),
    ):

        def failing(*arguments: Any, error: Exception = error, **named: Any) -> None:
            raise error

        monkeypatch.setattr(serve, "predict", failing)
        assert refused(client, json.dumps({"tables": {"pairs": [PAIR]}})) == (500, line)
    assert "KeyError: 'secret'" in caplog.text


def test_folders_of_the_servers_files_are_not_told(client: Client, finished_run: Path, monkeypatch) -> None:
    def failing(*arguments: Any, **named: Any) -> None:
        raise InputError(f"{finished_run / 'model.safetensors'} is damaged; {finished_run.resolve() / 'a'}.")

    monkeypatch.setattr(serve, "predict", failing)
    status, line = refused(client, json.dumps({"tables": {"pairs": [PAIR]}}))
    assert (status, line) == (422, "run/model.safetensors is damaged; run/a.")


def test_when_too_many_wait_others_are_told_so(finished_run: Path, monkeypatch) -> None:
    monkeypatch.setattr(serve, "WAITING", 2)
    app, let_go = serve.app(finished_run), threading.Event()

    def waiting(*arguments: Any, **named: Any) -> None:
        assert let_go.wait(60)
        raise InputError("done")

    async def ask() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            asked = [client.post("/predict", json={"tables": {"pairs": [PAIR]}}) for _ in range(3)]
            tasks = list(map(asyncio.create_task, asked))
            (first,), _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            assert first.result().json() == {"error": "2 requests wait already; try again later."}
            let_go.set()
            await asyncio.wait(tasks)
            again = await client.post("/predict", json={"tables": {"pairs": [PAIR]}})
            return [*sorted(task.result().status_code for task in tasks), again.status_code]

    monkeypatch.setattr(serve, "predict", waiting)
    assert asyncio.run(ask()) == [422, 422, 503, 422]
