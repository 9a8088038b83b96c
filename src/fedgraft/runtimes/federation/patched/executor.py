"""A node's own process as the executor of its SuperNode: it takes every message itself, and is warm.

By default a SuperNode starts a process for each message, which imports everything anew. With `--isolation process` it
leaves that to others, which ask it for tasks over its own interface on this machine. Flower's programs are such others;
here it is the process that has the client's data prepared, and in which a round may wait.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeAlias

import httpx
from flwr.app import Message
from flwr.common.constant import SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.superexec.run_superexec import _SUPEREXEC_AUTH_METHODS
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from fedgraft.engine.client.failure_codes import code_of
from fedgraft.errors import FedgraftError, printable
from fedgraft.runtimes.flower_simulation.record import bytes_in, record_of

Authority: TypeAlias = RuntimeTokenHttpInterceptor | SuperExecAuthHttpInterceptor
LOG = logging.getLogger("fedgraft.node")
POLL_SECONDS: Final = 0.1
HEARTBEAT_SECONDS: Final = 5.0
"""Seconds between two signs of life for a task; without them Flower gives it up."""
_COMPONENT: Final = "flwr-clientapp"


def execute_tasks(port: int, secret: bytes, answer: Callable[[bytes], bytes], stop: Callable[[], bool]) -> None:
    """Take tasks from the SuperNode of this machine and answer their messages, until told to stop.

    Port and secret are those of its interface for executors. What `answer` raises fails that message alone.
    """
    authority = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=_SUPEREXEC_AUTH_METHODS)
    with _client(port, authority) as tasks:
        while not stop():
            token = ""
            with suppress(httpx.HTTPError):  # it is starting, or ending
                response = tasks.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
                token = response.token if response.HasField("task") else ""
            if not token:
                time.sleep(POLL_SECONDS)
                continue
            try:
                with _client(port, RuntimeTokenHttpInterceptor(token)) as task:
                    _execute(task, answer)
            except httpx.HTTPError as error:  # its run has ended
                LOG.debug("A task was not ended: %s", error)
            except Exception as error:  # of whatever a server sends no message may end the node
                LOG.warning("A message could not be answered: %s", printable(f"{type(error).__name__}: {error}"))


def _execute(task: RuntimeHttpClient, answer: Callable[[bytes], bytes]) -> None:
    try:
        message, context, _, _ = pull_task_input(task)
    except (ObjectPullError, RuntimeError):  # the message is gone: its run has ended
        return
    with _alive(task):
        try:
            reply = Message(record_of(answer(bytes_in(message.content))), reply_to=message)
        except FedgraftError as error:
            LOG.warning("A message is refused: %s", printable(str(error)))
            push_task_output(task, context, SubStatus.FAILED, code_of(error))
            return
        push_message(task, reply, context)
        push_task_output(task, context, SubStatus.COMPLETED, "")


@contextmanager
def _alive(task: RuntimeHttpClient) -> Iterator[None]:
    """Send signs of life while a message is answered."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            with suppress(httpx.HTTPError):
                task.SendTaskHeartbeat(SendTaskHeartbeatRequest())

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def _client(
    port: int, authority: RuntimeTokenHttpInterceptor | SuperExecAuthHttpInterceptor
) -> Iterator[RuntimeHttpClient]:
    retries = make_simple_http_retry_invoker()
    # Every error is raised here: where a run has ended, Flower's own rule sends SIGINT to this process, the node.
    retries.max_tries, retries.should_giveup = 1, lambda error: True
    client = RuntimeHttpClient.from_server_address(
        server_address=f"127.0.0.1:{port}",
        insecure=True,
        root_certificates=None,
        interceptors=[RuntimeVersionHttpInterceptor(component_name=_COMPONENT), authority],
        retry_invoker=retries,
    )
    try:
        yield client
    finally:
        client.close()
