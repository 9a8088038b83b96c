"""A node's own process as its SuperNode's executor: what the SuperNode refuses ends a task and never the node."""

import signal
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

from flwr.proto.runtime_pb2 import AcquireTaskResponse

from fedgraft.runtimes.federation.patched import executor


@contextmanager
def supernode(refusal):
    """Listen as a SuperNode that gives out a task each time, and answers all that is asked of it with `refusal`."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append(self.path)
            given = AcquireTaskResponse(token="a token")
            given.task.SetInParent()
            gives = self.path.endswith("acquire-task")
            content = given.SerializeToString() if gives else b"{}"
            self.send_response(200 if gives else refusal)
            self.send_header("Content-Type", "application/protobuf")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *said):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port, asked
        server.shutdown()
        thread.join()


def test_an_error_that_nobody_expected_is_told_and_the_next_task_taken(monkeypatch, caplog):
    def damaged(task):
        raise ValueError("no message\nat all")

    monkeypatch.setattr(executor, "pull_task_input", damaged)
    with supernode(500) as (port, asked):
        executor.execute_tasks(port, b"s" * 32, lambda content: content, lambda: len(asked) >= 3)
    assert caplog.messages.count("A message could not be answered: ValueError: no message\\nat all") == 3


@pytest.mark.parametrize("refusal", [401, 403, 404, 500, 503])
def test_a_task_whose_run_has_ended_is_left_and_the_next_one_taken(refusal):
    """Flower's own rule for 401 sends SIGINT to the process, which here is the node."""
    signals = []
    before = signal.signal(signal.SIGINT, lambda number, frame: signals.append(number))
    try:
        with supernode(refusal) as (port, asked):
            executor.execute_tasks(port, b"s" * 32, lambda content: content, lambda: len(asked) >= 4)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not signals
    assert sum(path.endswith("acquire-task") for path in asked) == len(asked) / 2
